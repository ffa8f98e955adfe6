/* ops_text.c: tensors of text. Like sequences they exist at import alone: a graph has numbers. A text input is known
 * when the caller gives it, a text output goes to the caller when the import is done.
 *
 * Letters are those of ASCII: what is none stays as it is when case is changed or ignored.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "frontend/onnx/import.h"

static sn_onnx_value text_value(const sn_onnx_text *t) { return (sn_onnx_value){.kind = SN_ONNX_TEXT, .text = t}; }

sn_status sn_onnx_texts(sn_onnx_value *out, sn_env *env, sn_arena *arena, const sn_pb_tensor *t) {
    sn_onnx_text *text = SN_NEW(arena, sn_onnx_text);
    uint32_t n = t->string_data.n;
    int64_t want = 1;
    text->rank = t->dims.n, text->n = n;
    if (t->dims.n > SN_MAX_RANK)
        return sn_fail(env, SN_ERROR_UNSUPPORTED, "rank %u; at most %d axes", t->dims.n, SN_MAX_RANK);
    for (uint32_t k = 0; k < text->rank; k++) {
        text->shape[k] = t->dims.at[k];
        if (text->shape[k] < 0 || text->shape[k] > n) want = -1;
        else if (want > 0 && sn_mul_overflow(want, text->shape[k], &want)) want = -1;
    }
    if (want != n) return sn_fail(env, SN_ERROR_FILE, "%u texts do not fill their shape", n);
    text->at = SN_NEWN(arena, const char *, (size_t)n + 1);
    for (uint32_t k = 0; k < n; k++) {
        const sn_bytes *b = &t->string_data.at[k];
        if (b->n && memchr(b->at, 0, b->n)) return sn_fail(env, SN_ERROR_UNSUPPORTED, "a text with a NUL in it");
        text->at[k] = sn_strndup(arena, (const char *)b->at, b->n);
    }
    *out = text_value(text);
    return SN_OK;
}

/* ---- numbers ---- */

static bool read_special(double *out, const char *s) {
    bool minus = *s == '-';
    if (*s == '-' || *s == '+') s++;
    bool inf = !strcasecmp(s, "inf") || !strcasecmp(s, "infinity");
    *out = inf ? (minus ? -INFINITY : INFINITY) : NAN;
    return inf || !strcasecmp(s, "nan");
}

static sn_status read_number(double *out, sn_onnx_call *c, const char *s) {
    sn_lex lx;
    if (read_special(out, s)) return SN_OK;
    const char *digits = s + (*s == '+');
    bool good = sn_lex_init(&lx, c->m->env, "text", digits, strlen(digits)) == SN_OK &&
                sn_lex_number(out, &lx) == SN_OK && lx.tok == SN_TOK_END;
    if (good) return SN_OK;
    sn_env_clear(c->m->env);
    return sn_onnx_fail(c, "\"%s\" is no number", s);
}

/* The shortest decimal that reads back as the same element, with a point as numpy's. */
static const char *number_text(sn_onnx_call *c, sn_dtype dtype, double x) {
    char s[64];
    if (isnan(x)) return "NaN";
    if (isinf(x)) return x < 0 ? "-INF" : "INF";
    for (int digits = 1; digits <= 17; digits++) {
        double back;
        snprintf(s, sizeof s, "%.*g", digits, x);
        if (read_number(&back, c, s) == SN_OK && sn_round_to(dtype, back) == x) break;
    }
    return sn_strf(c->arena, "%s%s", s, strpbrk(s, ".e") ? "" : ".0");
}

static sn_status numbers_of(sn_onnx_call *c, const sn_onnx_text *t, sn_dtype dtype) {
    double *f = SN_NEWN(c->arena, double, t->n + 1);
    int64_t *i = SN_NEWN(c->arena, int64_t, t->n + 1);
    for (int64_t k = 0; k < t->n; k++) {
        SN_TRY(read_number(&f[k], c, t->at[k]));
        if (!sn_is_float(dtype) && !(fabs(f[k]) < 9007199254740992.0))
            return sn_onnx_fail(c, "\"%s\" is no integer below 2^53", t->at[k]);
        i[k] = sn_is_float(dtype) ? 0 : sn_wrap_to(dtype, (int64_t)f[k]);
    }
    return sn_onnx_done(c, sn_is_float(dtype) ? sn_graph_floats(c->m, dtype, f, t->shape, t->rank)
                                              : sn_graph_ints(c->m, dtype, i, t->shape, t->rank));
}

static sn_status texts_of(sn_onnx_call *c, sn_nd x) {
    const sn_array *a;
    SN_TRY(sn_onnx_array(&a, c, x));
    sn_onnx_text *t = SN_NEW(c->arena, sn_onnx_text);
    t->rank = a->rank, t->n = a->numel;
    memcpy(t->shape, a->shape, sizeof t->shape);
    t->at = SN_NEWN(c->arena, const char *, a->numel + 1);
    for (int64_t k = 0; k < a->numel; k++)
        t->at[k] =
            sn_is_float(a->dtype) ? number_text(c, a->dtype, a->f[k]) : sn_strf(c->arena, "%lld", (long long)a->i[k]);
    sn_onnx_out_value(c, 0, text_value(t));
    return SN_OK;
}

sn_status sn_onnx_cast_text(sn_onnx_call *c, int64_t to) {
    if (!sn_onnx_has(c, 0)) return sn_onnx_fail(c, "operand 1 is missing");
    if (c->in[0].kind != SN_ONNX_TEXT) return texts_of(c, sn_onnx_in(c, 0));
    sn_dtype dtype;
    if (to == SN_ONNX_STRING) return sn_onnx_out_value(c, 0, c->in[0]), SN_OK;
    SN_TRY(sn_onnx_dtype(&dtype, c->m->env, to));
    return numbers_of(c, c->in[0].text, dtype);
}

/* ---- StringNormalizer ---- */

static const char *with_case(sn_onnx_call *c, const char *s, const char *action) {
    char *copy = sn_strdup(c->arena, s);
    bool lower = !strcmp(action, "LOWER"), upper = !strcmp(action, "UPPER");
    for (char *at = copy; *at; at++) {
        if (lower && *at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
        if (upper && *at >= 'a' && *at <= 'z') *at = (char)(*at - 'a' + 'A');
    }
    return copy;
}

static bool is_stopword(sn_onnx_call *c, const sn_pb_attribute *words, const char *s, bool sensitive) {
    for (uint32_t k = 0; words && k < words->strings.n; k++) {
        const char *word = sn_strndup(c->arena, (const char *)words->strings.at[k].at, words->strings.at[k].n);
        if (sensitive ? !strcmp(word, s) : !strcmp(with_case(c, word, "LOWER"), with_case(c, s, "LOWER"))) return true;
    }
    return false;
}

/* Texts [n] or [1, n] without the stopwords, in another case; where none is left, one empty text. */
sn_status sn_onnx_string_normalizer(sn_onnx_call *c) {
    const char *action = sn_onnx_attr_text(c, "case_change_action", "NONE");
    bool sensitive = sn_onnx_attr_int(c, "is_case_sensitive", 0);
    const sn_pb_attribute *words = sn_onnx_attr(c, "stopwords");
    sn_onnx_attr_ignore(c, "locale");
    if (!c->n_in || c->in[0].kind != SN_ONNX_TEXT) return sn_onnx_fail(c, "operand 1 is no text");
    const sn_onnx_text *in = c->in[0].text;
    if (in->rank < 1 || in->rank > 2 || (in->rank == 2 && in->shape[0] != 1))
        return sn_onnx_fail(c, "texts of shape [n] or [1, n] are wanted");
    sn_onnx_text *out = SN_NEW(c->arena, sn_onnx_text);
    *out = *in;
    out->at = SN_NEWN(c->arena, const char *, in->n + 1);
    out->n = 0;
    for (int64_t k = 0; k < in->n; k++)
        if (!is_stopword(c, words, in->at[k], sensitive)) out->at[out->n++] = with_case(c, in->at[k], action);
    if (!out->n) out->at[out->n++] = "";
    out->shape[out->rank - 1] = out->n;
    sn_onnx_out_value(c, 0, text_value(out));
    return SN_OK;
}
