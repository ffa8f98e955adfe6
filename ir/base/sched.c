/* sched.c: the tables of schedules: names of classes and fields, a field by its number, and headers as text. What makes
 * sense for a kernel is asked by the pass `schedule`.
 */
#include "ir/base/sched.h"

#include <string.h>

const char *const sn_sched_class_names[SN_N_SCHED_CLASSES] = {
    "none",
#define SN_SCHED_CLASS(ID, name, fields, doc) name,
#include "ir/base/sched_classes.def"
#undef SN_SCHED_CLASS
};

#define F(name) | 1u << SN_SCHED_FIELD_##name
#define SN_SCHED_CLASS(ID, name, fields, doc) [SN_SCHED_##ID] = {0 fields F(split) F(min_blocks) F(precision), doc},
const sn_sched_class_info sn_sched_classes[SN_N_SCHED_CLASSES] = {
    [SN_SCHED_NONE] = {(1u << SN_N_SCHED_FIELDS) - 1, "to be chosen"},
#include "ir/base/sched_classes.def"
};
#undef SN_SCHED_CLASS
#undef F

#define COUNT      .is_flag = false
#define FLAG       .is_flag = true
#define WORD(list) .words = sn_##list##_words
const sn_sched_field_info sn_sched_fields[SN_N_SCHED_FIELDS] = {
#define SN_SCHED_FIELD(name, type, doc) {#name, doc, type},
#include "ir/base/sched_fields.def"
#undef SN_SCHED_FIELD
};
#undef COUNT
#undef FLAG
#undef WORD

uint32_t sn_sched_get(const sn_sched *s, sn_sched_field field) {
    switch (field) {
#define SN_SCHED_FIELD(name, type, doc) case SN_SCHED_FIELD_##name: return s->name;
#include "ir/base/sched_fields.def"
#undef SN_SCHED_FIELD
    case SN_N_SCHED_FIELDS: break;
    }
    return 0;
}

void sn_sched_set(sn_sched *s, sn_sched_field field, uint32_t value) {
    switch (field) {
#define SN_SCHED_FIELD(name, type, doc) case SN_SCHED_FIELD_##name: s->name = (sn_sched_##type)value; break;
#include "ir/base/sched_fields.def"
#undef SN_SCHED_FIELD
    case SN_N_SCHED_FIELDS: break;
    }
}

bool sn_sched_eq(const sn_sched *a, const sn_sched *b) {
    bool same = a->cls == b->cls;
    for (int f = 0; f < SN_N_SCHED_FIELDS; f++)
        same &= sn_sched_get(a, (sn_sched_field)f) == sn_sched_get(b, (sn_sched_field)f);
    return same;
}

bool sn_sched_is_open(const sn_sched *s) { return sn_sched_eq(s, &(sn_sched){.cls = SN_SCHED_NONE}); }

/* ---- text ---- */

void sn_sched_print(sn_text *t, const sn_sched *s) {
    sn_text_put(t, sn_sched_class_names[s->cls]);
    for (int f = 0; f < SN_N_SCHED_FIELDS; f++) {
        uint32_t value = sn_sched_get(s, (sn_sched_field)f);
        if (!value) continue;
        const sn_sched_field_info *field = &sn_sched_fields[f];
        sn_text_printf(t, " %s", field->name);
        if (field->words) sn_text_printf(t, "=%s", field->words[value]);
        else if (!field->is_flag) sn_text_printf(t, "=%u", value);
    }
}

static int shown(const sn_lex *lx) { return lx->tok_len > 40 ? 40 : (int)lx->tok_len; }

static sn_status parse_value(uint32_t *out, sn_lex *lx, const sn_sched_field_info *field) {
    SN_TRY(sn_lex_expect(lx, "="));
    if (field->words) return sn_lex_word(out, lx, field->name, field->words);
    if (lx->tok != SN_TOK_INT || lx->integer > INT32_MAX)
        return sn_lex_fail(lx, "%s is a number from 0 to %d", field->name, INT32_MAX);
    *out = (uint32_t)lx->integer;
    return sn_lex_next(lx);
}

sn_status sn_sched_parse(sn_sched *s, sn_lex *lx) {
    int cls = 0;
    while (cls < SN_N_SCHED_CLASSES && !sn_lex_is_name(lx, sn_sched_class_names[cls])) cls++;
    if (cls == SN_N_SCHED_CLASSES) return sn_lex_fail(lx, "unknown schedule class '%.*s'", shown(lx), lx->tok_start);
    s->cls = (sn_sched_class)cls;
    SN_TRY(sn_lex_next(lx));
    for (int f = 0; f < SN_N_SCHED_FIELDS;) {
        const sn_sched_field_info *field = &sn_sched_fields[f];
        uint32_t value = 1;
        if (!sn_lex_is_name(lx, field->name)) {
            f++;
            continue;
        }
        SN_TRY(sn_lex_next(lx));
        if (!field->is_flag) SN_TRY(parse_value(&value, lx, field));
        sn_sched_set(s, (sn_sched_field)f, value);
        f = 0; /* the fields may come in any order */
    }
    return SN_OK;
}

sn_status sn_sched_read(sn_sched *out, sn_env *env, const char *what, const char *text) {
    sn_lex lx;
    *out = (sn_sched){.cls = SN_SCHED_NONE};
    SN_TRY(sn_lex_init(&lx, env, what, text, strlen(text)));
    SN_TRY(sn_sched_parse(out, &lx));
    if (lx.tok == SN_TOK_END) return SN_OK;
    return sn_lex_fail(&lx, "class %s has no field '%.*s'", sn_sched_class_names[out->cls], shown(&lx), lx.tok_start);
}

const char *sn_sched_kind(const sn_sched *s) {
    bool reads_rows = s->cls == SN_SCHED_INNER || s->cls == SN_SCHED_OUTER;
    if (s->teams) return "team";
    if (s->shared) return sn_sched_cluster(s) > 1 ? "cluster" : "shared";
    if (s->persistent) return "persistent";
    return reads_rows ? "looped" : sn_sched_class_names[s->cls];
}
