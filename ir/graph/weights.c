/* weights.c: the table of weights of a module. See weights.h. Types are constants here, since elements that exist have
 * a shape; does not know where they come from.
 */
#include "ir/graph/weights.h"

#include "ir/graph/internal.h"

void sn_wt_init(sn_module *m) {
    sn_table_init(&m->weights.recs, &m->arena, sizeof(sn_weight_rec));
    sn_names_init(&m->weights.names, &m->arena);
}

sn_weight_rec *sn_wt_get(const sn_module *m, sn_wt w) { return sn_table_at(&m->weights.recs, w.i); }

sn_wt sn_wt_named(const sn_module *m, const char *name) { return (sn_wt){sn_names_get(&m->weights.names, name)}; }

static sn_status weight_of(sn_weight_rec *out, sn_module *m, const char *name, const sn_type *type) {
    *out = (sn_weight_rec){.name = name, .dtype = type->dtype, .rank = type->rank, .size = sn_dtype_bytes(type->dtype)};
    for (uint32_t k = 0; k < type->rank; k++) {
        if (!sn_ix_is_const(m, type->shape[k], &out->shape[k]) || out->shape[k] < 0)
            return sn_fail(m->env, SN_ERROR_TYPE, "weight %s: shape %s must be constant", name, sn_shape_text(m, type));
        if (sn_mul_overflow(out->size, (size_t)out->shape[k], &out->size) || out->size > PTRDIFF_MAX)
            return sn_fail(m->env, SN_ERROR_TYPE, "weight %s: %s has too many elements", name, sn_type_text(m, type));
    }
    return SN_OK;
}

static bool same_type(const sn_weight_rec *a, const sn_weight_rec *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t k = 0; same && k < a->rank; k++) same = a->shape[k] == b->shape[k];
    return same;
}

sn_status sn_wt_declare(sn_wt *out, sn_module *m, const char *name, const sn_type *type) {
    sn_weight_rec rec;
    SN_TRY(weight_of(&rec, m, name, type));
    *out = sn_wt_named(m, name);
    if (out->i) {
        const sn_weight_rec *before = sn_wt_get(m, *out);
        if (same_type(before, &rec)) return SN_OK;
        return sn_fail(m->env, SN_ERROR_TYPE, "weight %s is %s and cannot be %s too", name, sn_wt_type_text(m, before),
                       sn_type_text(m, type));
    }
    rec.name = sn_strdup(&m->arena, name);
    *out = (sn_wt){sn_table_add(&m->weights.recs)};
    *sn_wt_get(m, *out) = rec;
    sn_names_put(&m->weights.names, rec.name, out->i);
    return SN_OK;
}

const char *sn_wt_type_text(sn_module *m, const sn_weight_rec *w) {
    const char *s = sn_dtypes[w->dtype].name;
    for (uint32_t k = 0; k < w->rank; k++)
        s = sn_strf(&m->arena, "%s%s%lld", s, k ? ", " : "[", (long long)w->shape[k]);
    return sn_strf(&m->arena, "%s%s", s, w->rank ? "]" : "[]");
}

sn_status sn_wt_parse(sn_module *m, sn_lex *lx) {
    char *file;
    if (m->weights.file) return sn_lex_fail(lx, "weights are in one file; \"%s\" came before", m->weights.file);
    SN_TRY(sn_lex_expect_name(lx, "weights"));
    sn_lex at = *lx;
    SN_TRY(sn_lex_string(&file, lx, &m->arena));
    if (!*file) return sn_lex_fail(&at, "the name of a file is wanted");
    m->weights.file = file;
    return SN_OK;
}

void sn_wt_share(sn_module *to, const sn_module *from) {
    for (sn_wt w = {1}; w.i < to->weights.recs.count; w.i++) {
        sn_weight_rec *mine = sn_wt_get(to, w);
        sn_wt theirs = sn_wt_named(from, mine->name);
        if (theirs.i && same_type(mine, sn_wt_get(from, theirs))) mine->data = sn_wt_get(from, theirs)->data;
    }
}
