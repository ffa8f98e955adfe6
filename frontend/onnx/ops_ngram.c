/* ops_ngram.c: TfIdfVectorizer on words that are numbers: how often each of the model's n-grams occurs.
 *
 *     n-gram (5, 6) in x = [5, 7, 6, 5, 6], at most 1 word skipped:      distance 1:  .  .  .  x     5 6 at 3
 *                                                                        distance 2:  x  .  .        5 . 6 at 0
 *                                                                        2 occurrences
 * For each length of n-grams and each distance of their words, all positions are compared with all n-grams at once.
 * Strings are no elements of tensors.
 */
#include "frontend/onnx/import.h"

#include <string.h>

typedef struct vectorizer {
    sn_onnx_call *c;
    sn_module *m;
    sn_nd x;        /* i64 [N, C] */
    int64_t length; /* C */
    int64_t least, most, distances;
    const int64_t *pool, *starts,
        *columns; /* words of all n-grams; where those of length k+1 start in it; result column of each */
    uint32_t n_pool, n_starts, n_columns;
} vectorizer;

/* Occurrences of `count` n-grams of n words, the words of the text being `distance` apart: [N, count]. */
static sn_nd occurrences(const vectorizer *v, const int64_t *words, int64_t n, int64_t count, int64_t distance) {
    sn_module *m = v->m;
    sn_nd all = {0};
    int64_t places = v->length - (n - 1) * distance, *column = SN_NEWN(v->c->arena, int64_t, count + 1);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t k = 0; k < count; k++) column[k] = words[k * n + j];
        sn_nd wanted = sn_graph_ints(m, SN_I64, column, &count, 1);
        sn_nd text = sn_graph_slice(m, v->x, 1, j * distance, j * distance + places, 1);
        sn_nd equal = sn_graph_binary(m, SN_OP_EQ, sn_graph_unsqueeze(m, text, (int64_t[]){2}, 1), wanted);
        all = j ? sn_graph_binary(m, SN_OP_AND, all, equal) : equal;
    }
    return sn_graph_reduce(m, SN_OP_SUM, all, (int64_t[]){1}, 1, false);
}

/* All distances; a single word has one. */
static sn_nd count_length(const vectorizer *v, const int64_t *words, int64_t n, int64_t count) {
    sn_ix shape[] = {sn_graph_type(v->m, v->x)->shape[0], sn_ix_const(v->m, count)};
    sn_nd sum = sn_graph_full(v->m, SN_I64, 0, shape, 2);
    if (n < v->least || n > v->most) return sum;
    for (int64_t d = 1; d <= (n == 1 ? 1 : v->distances) && v->length > (n - 1) * d; d++)
        sum = sn_graph_binary(v->m, SN_OP_ADD, sum, occurrences(v, words, n, count, d));
    return sum;
}

/* Occurrences of every n-gram of the pool, in its order, and a last column of zeros. */
static sn_status count_pool(sn_nd *out, uint32_t *n_grams, vectorizer *v) {
    sn_ix shape[] = {sn_graph_type(v->m, v->x)->shape[0], sn_ix_const(v->m, 1)};
    sn_nd *parts = SN_NEWN(v->c->arena, sn_nd, v->n_starts + 1);
    uint32_t n_parts = 0;
    *n_grams = 0;
    for (uint32_t k = 0; k < v->n_starts; k++) {
        int64_t from = v->starts[k], to = k + 1 < v->n_starts ? v->starts[k + 1] : v->n_pool, n = k + 1;
        if (from < 0 || from > to || to > v->n_pool || (to - from) % n)
            return sn_onnx_fail(v->c, "n-grams of %lld words from %lld to %lld of a pool of %u", (long long)n,
                                (long long)from, (long long)to, v->n_pool);
        if (from == to) continue;
        parts[n_parts++] = count_length(v, v->pool + from, n, (to - from) / n);
        *n_grams += (uint32_t)((to - from) / n);
    }
    parts[n_parts++] = sn_graph_full(v->m, SN_I64, 0, shape, 2);
    *out = sn_graph_concat(v->m, parts, n_parts, 1);
    return SN_OK;
}

/* The n-gram of each column of the result; the number after the last one where a column has none. */
typedef struct columns {
    int64_t *from, n;
} columns;

static sn_status read_columns(columns *out, const vectorizer *v, uint32_t n_grams) {
    *out = (columns){0};
    if (v->n_columns != n_grams) return sn_onnx_fail(v->c, "%u n-grams and %u columns", n_grams, v->n_columns);
    for (uint32_t k = 0; k < n_grams; k++) {
        if (v->columns[k] < 0 || v->columns[k] > INT32_MAX)
            return sn_onnx_fail(v->c, "column %lld", (long long)v->columns[k]);
        if (v->columns[k] >= out->n) out->n = v->columns[k] + 1;
    }
    SN_TRY(sn_onnx_room(v->c, out->n));
    out->from = SN_NEWN(v->c->arena, int64_t, out->n + 1);
    for (int64_t k = 0; k < out->n; k++) out->from[k] = n_grams;
    for (uint32_t k = 0; k < n_grams; k++) {
        if (out->from[v->columns[k]] != n_grams) return sn_onnx_fail(v->c, "two n-grams have one column");
        out->from[v->columns[k]] = k;
    }
    return SN_OK;
}

/* TF: the count; IDF: whether there is one; TFIDF: the count. The last two times the weight of the n-gram. */
static sn_status weighted(sn_nd *out, vectorizer *v, sn_nd counts, const columns *at, uint32_t n_grams) {
    const char *mode = sn_onnx_attr_text(v->c, "mode", "");
    const float *weights;
    uint32_t n;
    bool tf = !strcmp(mode, "TF"), idf = !strcmp(mode, "IDF");
    bool given = sn_onnx_attr_floats(&weights, &n, v->c, "weights");
    if (!tf && !idf && strcmp(mode, "TFIDF")) return sn_onnx_fail(v->c, "mode %s", mode);
    *out = sn_graph_cast(v->m, idf ? sn_graph_with(v->m, SN_OP_GT, counts, 0) : counts, SN_F32);
    if (tf || !given) return SN_OK;
    if (n != n_grams) return sn_onnx_fail(v->c, "%u weights for %u n-grams", n, n_grams);
    double *wide = SN_NEWN(v->c->arena, double, at->n + 1);
    for (int64_t k = 0; k < at->n; k++) wide[k] = at->from[k] < n ? (double)weights[at->from[k]] : 0;
    *out = sn_graph_binary(v->m, SN_OP_MUL, *out, sn_graph_floats(v->m, SN_F32, wide, &at->n, 1));
    return SN_OK;
}

static sn_status read_vectorizer(vectorizer *v) {
    sn_onnx_call *c = v->c;
    v->least = sn_onnx_attr_int(c, "min_gram_length", 1);
    v->most = sn_onnx_attr_int(c, "max_gram_length", 1);
    v->distances = sn_onnx_attr_int(c, "max_skip_count", 0);
    if (v->distances < 0 || v->distances >= SN_ONNX_ITERATIONS)
        return sn_onnx_fail(c, "%lld words skipped", (long long)v->distances);
    v->distances++;
    sn_onnx_attr_ints(&v->starts, &v->n_starts, c, "ngram_counts");
    sn_onnx_attr_ints(&v->columns, &v->n_columns, c, "ngram_indexes");
    if (!sn_onnx_attr_ints(&v->pool, &v->n_pool, c, "pool_int64s")) return sn_onnx_fail(c, "words that are strings");
    v->x = sn_graph_cast(v->m, sn_onnx_in(c, 0), SN_I64);
    const sn_type *t = sn_graph_type(v->m, v->x);
    if (t->rank != 1 && t->rank != 2) return sn_onnx_fail(c, "an operand of rank %u; 1 or 2 is wanted", t->rank);
    if (t->rank == 1) v->x = sn_graph_unsqueeze(v->m, v->x, (int64_t[]){0}, 1);
    if (!sn_ix_is_const(v->m, t->shape[t->rank - 1], &v->length))
        return sn_onnx_fail(c, "the number of words is a name; bind it to a number for the import");
    return SN_OK;
}

sn_status sn_onnx_tf_idf_vectorizer(sn_onnx_call *c) {
    vectorizer v = {.c = c, .m = c->m};
    columns at;
    sn_nd y;
    uint32_t n_grams;
    SN_TRY(read_vectorizer(&v));
    SN_TRY(count_pool(&y, &n_grams, &v));
    SN_TRY(read_columns(&at, &v, n_grams));
    y = sn_graph_index_select(c->m, y, sn_graph_ints(c->m, SN_I64, at.from, &at.n, 1), 1);
    SN_TRY(weighted(&y, &v, y, &at, n_grams));
    bool one = sn_graph_type(c->m, sn_onnx_in(c, 0))->rank == 1;
    return sn_onnx_done(c, one ? sn_graph_squeeze(c->m, y, (int64_t[]){0}, 1) : y);
}
