/* ops_attention.c: attention of queries to keys, with values, and the rotation of both by their places. ONNX's own (opset 23 and
 * later), and those that onnxruntime's optimizer makes (domain com.microsoft):
 *
 *     y = Attention(q, k, v, mask)   becomes   %0 = matmul %q', %kt   %1 = where %mask, %0, -inf   %2 = softmax %1   %y = matmul %2, %v
 *
 * The scores are written down as they are; the pass `attention` does both products in one kernel where a schedule has one. q is
 * scaled, so that scores of halves do not overflow. A query that may look at nothing has a result of 0.
 */
#include "frontend/onnx/import.h"
#include "ir/index/ix.h"
#include "ir/module.h"

#include <math.h>

enum { MODES = 4 /* of qk_matmul_output_mode */ };

/* q[B, H, S, D], k[B, G, T, D], v[B, G, T, E]; G divides H. */
typedef struct attention {
    sn_nd q, k, v;
    sn_nd bias;    /* is added to the scores; none */
    sn_nd allowed; /* bool: where a query may look; none: everywhere */
    bool blind;    /* a query may find nothing that it may look at */
    double scale, softcap;
    sn_dtype precision;  /* of the softmax, at least */
    sn_nd scores[MODES]; /* product, with softcap, with bias, softmax */
} attention;

static sn_ix size_of(const sn_module *m, sn_nd x, uint32_t axis) { return sn_graph_type(m, x)->shape[axis]; }

/* ---- heads ---- */

/* x[B, S, H*D] -> [B, H, S, D]; with four axes it is that. None with a failure where it does not divide. */
static sn_nd by_heads(sn_onnx_call *c, sn_nd x, int64_t heads) {
    static const int64_t perm[] = {0, 2, 1, 3};
    sn_module *m = c->m;
    const sn_type *t = sn_graph_type(m, x);
    int64_t hidden;
    if (!x.i || t->rank == 4) return x;
    if (t->rank != 3 || heads < 1 || !sn_ix_is_const(m, t->shape[2], &hidden) || hidden % heads) {
        sn_onnx_fail(c, "%lld heads of an operand of shape %s", (long long)heads, sn_type_text(m, t));
        return (sn_nd){0};
    }
    sn_ix shape[] = {t->shape[0], t->shape[1], sn_ix_const(m, heads), sn_ix_const(m, hidden / heads)};
    return sn_graph_permute(m, sn_graph_reshape(m, x, shape, 4), perm, 4);
}

/* [B, H, S, E] -> [B, S, H*E] */
static sn_nd without_heads(sn_module *m, sn_nd y) {
    static const int64_t perm[] = {0, 2, 1, 3};
    const sn_type *t = sn_graph_type(m, y);
    if (!y.i) return y;
    sn_ix shape[] = {t->shape[0], t->shape[2], sn_ix_mul(m, t->shape[1], t->shape[3])};
    return sn_graph_reshape(m, sn_graph_permute(m, y, perm, 4), shape, 3);
}

/* Each head of x n times, one after the other. */
static sn_nd repeated(sn_module *m, sn_nd x, int64_t n) {
    static const int64_t behind = 2;
    sn_type t = *sn_graph_type(m, x);
    if (!x.i || n == 1) return x;
    sn_ix wide[] = {t.shape[0], t.shape[1], sn_ix_const(m, n), t.shape[2], t.shape[3]};
    t.shape[1] = sn_ix_scale(m, t.shape[1], n);
    x = sn_graph_expand(m, sn_graph_unsqueeze(m, x, &behind, 1), wide, 5);
    return sn_graph_reshape(m, x, t.shape, 4);
}

/* Keys and values, as often as there are heads of queries. */
static sn_status share_heads(sn_onnx_call *c, attention *a) {
    int64_t h, g;
    SN_TRY(c->m->env->status);
    if (!sn_ix_is_const(c->m, size_of(c->m, a->q, 1), &h) || !sn_ix_is_const(c->m, size_of(c->m, a->k, 1), &g))
        return sn_onnx_fail(c, "the number of heads is not known");
    if (g < 1 || h % g) return sn_onnx_fail(c, "%lld heads of queries, %lld of keys", (long long)h, (long long)g);
    a->k = repeated(c->m, a->k, h / g);
    a->v = repeated(c->m, a->v, h / g);
    return c->m->env->status;
}

/* What was there before, and x behind it, along the places. */
static sn_nd behind(sn_onnx_call *c, uint32_t past, sn_nd x) {
    return sn_onnx_has(c, past) ? sn_graph_concat(c->m, (const sn_nd[]){sn_onnx_in(c, past), x}, 2, 2) : x;
}

/* ---- what a query may look at ---- */

static void allow(sn_module *m, attention *a, sn_nd where) {
    a->allowed = a->allowed.i ? sn_graph_binary(m, SN_OP_AND, a->allowed, where) : where;
}

/* 0, 1, .. along one axis of a matrix. */
static sn_nd places(sn_module *m, sn_ix n, int64_t axis) {
    sn_ix shape[] = {sn_ix_const(m, 1), sn_ix_const(m, 1)};
    shape[axis] = n;
    return sn_graph_iota(m, SN_I32, axis, shape, 2);
}

/* The place of each query among the keys, [S, 1]; past: how many are before the first one. */
static sn_nd query_places(sn_module *m, const attention *a, sn_ix past) {
    return sn_graph_with_size(m, SN_OP_ADD, places(m, size_of(m, a->q, 2), 0), past);
}

/* Keys at most `before` in front of a query and `after` behind it; less than 0: any. */
static void allow_window(sn_module *m, attention *a, sn_nd queries, int64_t before, int64_t after) {
    sn_nd keys = places(m, size_of(m, a->k, 2), 1);
    if (after >= 0)
        allow(
            m, a,
            sn_graph_binary(m, SN_OP_GE, after ? sn_graph_with(m, SN_OP_ADD, queries, (double)after) : queries, keys));
    if (before >= 0)
        allow(m, a, sn_graph_binary(m, SN_OP_LE, sn_graph_with(m, SN_OP_SUB, queries, (double)before), keys));
}

/* A mask of fewer keys forbids the others. */
static sn_nd for_all_keys(sn_onnx_call *c, const attention *a, sn_nd mask) {
    sn_module *m = c->m;
    const sn_type *t = sn_graph_type(m, mask);
    int64_t has, keys, low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    if (!mask.i || !t->rank || !sn_ix_is_const(m, t->shape[t->rank - 1], &has) ||
        !sn_ix_is_const(m, size_of(m, a->k, 2), &keys) || has >= keys)
        return mask;
    high[t->rank - 1] = keys - has;
    return sn_graph_pad(m, mask, low, high, t->dtype == SN_BOOL ? 0 : -INFINITY);
}

/* Operand k is a mask: bools allow, numbers are added. */
static void read_mask(sn_onnx_call *c, attention *a, uint32_t k) {
    if (!sn_onnx_has(c, k)) return;
    sn_nd mask = for_all_keys(c, a, sn_onnx_in(c, k));
    a->blind = true;
    if (sn_graph_type(c->m, mask)->dtype == SN_BOOL) allow(c->m, a, mask);
    else a->bias = mask;
}

/* ---- the products ---- */

/* Rows of queries that may look at something: [.., S, 1]. */
static sn_nd seeing(sn_module *m, const attention *a) {
    static const int64_t last = -1;
    sn_nd x = a->bias;
    if (!x.i) return sn_graph_reduce(m, SN_OP_ANY, a->allowed, &last, 1, true);
    if (a->allowed.i) x = sn_graph_where(m, a->allowed, x, sn_graph_number(m, x, -INFINITY));
    return sn_graph_with(m, SN_OP_GT, sn_graph_reduce(m, SN_OP_AMAX, x, &last, 1, true), -INFINITY);
}

/* x[.., S, n], 0 in the rows of those that may not. */
static sn_nd of_seeing(sn_module *m, const attention *a, sn_nd x) {
    if (!a->blind || (!a->bias.i && !a->allowed.i)) return x;
    return sn_graph_where(m, seeing(m, a), x, sn_graph_number(m, x, 0));
}

static sn_nd attend(sn_module *m, attention *a) {
    sn_dtype t = sn_graph_type(m, a->q)->dtype;
    sn_nd s = sn_graph_matmul(m, sn_graph_with(m, SN_OP_MUL, a->q, a->scale), sn_graph_move_axis(m, a->k, 2, 3));
    a->scores[0] = s;
    if (a->softcap > 0) {
        s = sn_graph_unary(m, SN_OP_TANH, sn_graph_with(m, SN_OP_DIV, sn_graph_widen(m, s), a->softcap));
        s = sn_graph_with(m, SN_OP_MUL, s, a->softcap);
    }
    a->scores[1] = s;
    if (a->bias.i) s = sn_graph_add(m, s, a->bias);
    if (a->allowed.i) s = sn_graph_where(m, a->allowed, s, sn_graph_number(m, s, -INFINITY));
    a->scores[2] = s;
    s = a->precision == SN_F64 ? sn_graph_cast(m, s, SN_F64) : sn_graph_widen(m, s);
    s = sn_graph_cast(m, sn_graph_along(m, SN_OP_SOFTMAX, s, -1), t);
    a->scores[3] = s;
    return of_seeing(m, a, sn_graph_matmul(m, s, a->v));
}

/* 1 / sqrt(D), unless an attribute says another number, other than `none`. */
static sn_status read_scale(attention *a, sn_onnx_call *c, double none) {
    int64_t d;
    SN_TRY(c->m->env->status);
    a->scale = sn_onnx_attr_float(c, "scale", none);
    if (sn_onnx_has_attr(c, "scale") && a->scale != none) return SN_OK;
    uint32_t rank = sn_graph_type(c->m, a->q)->rank;
    if (rank != 4 || !sn_ix_is_const(c->m, size_of(c->m, a->q, 3), &d) || d < 1)
        return sn_onnx_fail(c, "the size of a head is not known");
    a->scale = 1 / sqrt((double)d);
    return SN_OK;
}

/* ---- ONNX's ---- */

/* Keys behind those that operand 6 counts are padding, and the last query stands at the last of those. */
static sn_nd queries_before_padding(sn_onnx_call *c, attention *a) {
    sn_module *m = c->m;
    sn_nd filled = sn_graph_align(m, sn_graph_cast(m, sn_onnx_in(c, 6), SN_I32), 0, 4);
    allow(m, a, sn_graph_binary(m, SN_OP_LT, places(m, size_of(m, a->k, 2), 1), filled));
    a->blind = true;
    sn_nd from_end = sn_graph_with_size(m, SN_OP_SUB, places(m, size_of(m, a->q, 2), 0), size_of(m, a->q, 2));
    return sn_graph_add(m, from_end, filled);
}

static sn_status read_window(attention *a, sn_onnx_call *c) {
    int64_t before = sn_onnx_attr_int(c, "left_window_size", -1), after = sn_onnx_attr_int(c, "right_window_size", -1);
    bool causal = sn_onnx_attr_int(c, "is_causal", 0), padded = sn_onnx_has(c, 6);
    sn_ix past = sn_onnx_has(c, 4) ? size_of(c->m, sn_onnx_in(c, 4), 2) : sn_ix_const(c->m, 0);
    sn_nd queries = padded ? queries_before_padding(c, a) : query_places(c->m, a, past);
    if (before >= 0) a->blind = true; /* a query far behind all keys */
    allow_window(c->m, a, queries, before, causal ? 0 : after);
    return c->m->env->status;
}

/* Operands q, k, v, mask, earlier keys and values, numbers of keys. */
sn_status sn_onnx_attention(sn_onnx_call *c) {
    sn_module *m = c->m;
    int64_t heads = sn_onnx_attr_int(c, "q_num_heads", 0), groups = sn_onnx_attr_int(c, "kv_num_heads", 0);
    int64_t mode = sn_onnx_attr_int(c, "qk_matmul_output_mode", 0);
    attention a = {.softcap = sn_onnx_attr_float(c, "softcap", 0)};
    bool flat = sn_graph_type(m, sn_onnx_in(c, 0))->rank == 3;
    if (mode < 0 || mode >= MODES) return sn_onnx_fail(c, "qk_matmul_output_mode %lld", (long long)mode);
    if (sn_onnx_has(c, 4) != sn_onnx_has(c, 5)) return sn_onnx_fail(c, "one of past_key and past_value is missing");
    a.precision =
        sn_onnx_attr_int(c, "softmax_precision", 0) ? sn_onnx_attr_dtype(c, "softmax_precision", SN_F32) : SN_F32;
    a.q = by_heads(c, sn_onnx_in(c, 0), heads);
    a.k = behind(c, 4, by_heads(c, sn_onnx_in(c, 1), groups));
    a.v = behind(c, 5, by_heads(c, sn_onnx_in(c, 2), groups));
    sn_onnx_out(c, 1, a.k);
    sn_onnx_out(c, 2, a.v);
    SN_TRY(read_scale(&a, c, 0));
    SN_TRY(share_heads(c, &a));
    read_mask(c, &a, 3);
    SN_TRY(read_window(&a, c));
    sn_nd y = attend(m, &a), scores = mode == 3 ? of_seeing(m, &a, a.scores[3]) : a.scores[mode];
    sn_onnx_out(c, 3, sn_graph_cast(m, scores, sn_graph_type(m, a.q)->dtype));
    return sn_onnx_done(c, flat ? without_heads(m, y) : y);
}

/* ---- onnxruntime's ---- */

/* Operand k: 1 where keys count, [B, T] or [B, S, T], or how many of them, [B]. The others' scores are lowered by a number. */
static sn_status read_key_mask(attention *a, sn_onnx_call *c, uint32_t k) {
    sn_module *m = c->m;
    double lower = sn_onnx_attr_float(c, "mask_filter_value", -10000);
    if (!sn_onnx_has(c, k)) return SN_OK;
    sn_nd mask = sn_onnx_in(c, k), counts;
    const sn_type *t = sn_graph_type(m, mask);
    if (t->rank == 1 && !sn_ix_eq(t->shape[0], size_of(m, a->q, 0)))
        return sn_onnx_fail(c, "a mask of shape %s", sn_type_text(m, t));
    if (t->rank == 1) {
        counts = sn_graph_binary(m, SN_OP_LT, places(m, size_of(m, a->k, 2), 1), sn_graph_align(m, mask, 0, 4));
    } else if (t->rank == 2 || t->rank == 3) {
        sn_ix one = sn_ix_const(m, 1);
        sn_ix shape[] = {t->shape[0], one, t->rank == 3 ? t->shape[1] : one, t->shape[t->rank - 1]};
        counts = sn_graph_reshape(m, sn_graph_with(m, SN_OP_NE, mask, 0), shape, 4);
    } else {
        return sn_onnx_fail(c, "a mask of shape %s", sn_type_text(m, t));
    }
    sn_nd zero = sn_graph_number(m, a->q, 0);
    sn_nd bias = sn_graph_where(m, counts, zero, sn_graph_number(m, a->q, lower));
    a->bias = a->bias.i ? sn_graph_add(m, a->bias, bias) : bias;
    return m->env->status;
}

/* Elements first .. end-1 of the bias, operand k, for x. */
static sn_nd with_bias(sn_onnx_call *c, uint32_t k, sn_nd x, int64_t first, int64_t end) {
    if (!sn_onnx_has(c, k)) return x;
    return sn_graph_add(c->m, x, sn_graph_slice(c->m, sn_onnx_in(c, k), 0, first, end, 1));
}

static int64_t last_size(sn_onnx_call *c, sn_nd x) {
    const sn_type *t = sn_graph_type(c->m, x);
    int64_t n = 0;
    if (!t->rank || !sn_ix_is_const(c->m, t->shape[t->rank - 1], &n))
        sn_onnx_fail(c, "the size of the last axis is not known");
    return n;
}

/* What both have in common behind q, k and v, which have heads. `bias`: the operand that is added to the scores. */
static sn_status attend_as_runtime(sn_onnx_call *c, attention *a, uint32_t key_mask, uint32_t bias, sn_ix past) {
    SN_TRY(read_scale(a, c, 0));
    SN_TRY(share_heads(c, a));
    if (sn_onnx_has(c, bias)) a->bias = sn_onnx_in(c, bias);
    SN_TRY(read_key_mask(a, c, key_mask));
    if (sn_onnx_attr_int(c, "unidirectional", 0)) allow_window(c->m, a, query_places(c->m, a, past), -1, 0);
    return sn_onnx_done(c, without_heads(c->m, attend(c->m, a)));
}

/* Operands q, k, v, bias of all three, mask of keys, bias of the scores, earlier keys and values. */
sn_status sn_onnx_multi_head_attention(sn_onnx_call *c) {
    sn_module *m = c->m;
    int64_t heads = sn_onnx_attr_int(c, "num_heads", 0);
    attention a = {.precision = SN_F32};
    for (uint32_t k = 0; k < 3; k++)
        if (!sn_onnx_has(c, k) || sn_graph_type(m, sn_onnx_in(c, k))->rank > 4)
            return sn_onnx_fail(c, "queries, keys and values in one operand");
    for (uint32_t k = 8; k < c->n_in; k++)
        if (sn_onnx_has(c, k)) return sn_onnx_fail(c, "operand %u is not supported", k + 1);
    sn_nd q = sn_onnx_in(c, 0), k = sn_onnx_in(c, 1), v = sn_onnx_in(c, 2);
    int64_t nq = last_size(c, q), nk = sn_graph_type(m, k)->rank == 3 ? last_size(c, k) : nq;
    a.q = by_heads(c, with_bias(c, 3, q, 0, nq), heads);
    a.k = by_heads(c, sn_graph_type(m, k)->rank == 3 ? with_bias(c, 3, k, nq, nq + nk) : k, heads);
    a.v = by_heads(c, sn_graph_type(m, v)->rank == 3 ? with_bias(c, 3, v, nq + nk, INT64_MAX) : v, heads);
    sn_ix past = sn_onnx_has(c, 6) ? size_of(m, sn_onnx_in(c, 6), 2) : sn_ix_const(m, 0);
    a.k = behind(c, 6, a.k), a.v = behind(c, 7, a.v);
    sn_onnx_out(c, 1, a.k);
    sn_onnx_out(c, 2, a.v);
    return attend_as_runtime(c, &a, 4, 5, past);
}

/* Operands x, weights and bias of q, k and v side by side, mask of keys, earlier keys and values (in one), bias of the scores. */
sn_status sn_onnx_self_attention(sn_onnx_call *c) {
    sn_module *m = c->m;
    int64_t heads = sn_onnx_attr_int(c, "num_heads", 0), size[3];
    const int64_t *sizes;
    uint32_t n;
    attention a = {.precision = SN_F32};
    if (sn_onnx_attr_int(c, "do_rotary", 0) || sn_onnx_attr_int(c, "past_present_share_buffer", 0))
        return sn_onnx_fail(c, "do_rotary and past_present_share_buffer");
    sn_onnx_attr_ignore(c, "rotary_embedding_dim");
    for (uint32_t k = 6; k < c->n_in; k++)
        if (sn_onnx_has(c, k)) return sn_onnx_fail(c, "operand %u is not supported", k + 1);
    sn_nd w = sn_onnx_in(c, 1), x = sn_onnx_in(c, 0);
    if (sn_graph_type(m, x)->rank != 3) return sn_onnx_fail(c, "an operand of rank %u", sn_graph_type(m, x)->rank);
    bool given = sn_onnx_attr_ints(&sizes, &n, c, "qkv_hidden_sizes");
    if (given && n != 3) return sn_onnx_fail(c, "%u numbers of qkv_hidden_sizes, where 3 are wanted", n);
    int64_t hidden = last_size(c, w), left = hidden;
    SN_TRY(m->env->status);
    for (int k = 0; k < 3; k++) size[k] = given ? sizes[k] : hidden / 3;
    for (int k = 0; k < 3 && left >= 0; k++) left = size[k] > 0 && size[k] <= left ? left - size[k] : -1;
    if (left)
        return sn_onnx_fail(c, "weights of %lld columns for queries, keys and values of %lld, %lld and %lld",
                            (long long)hidden, (long long)size[0], (long long)size[1], (long long)size[2]);
    sn_nd all = with_bias(c, 2, sn_graph_matmul(m, x, w), 0, INT64_MAX);
    a.q = by_heads(c, sn_graph_slice(m, all, 2, 0, size[0], 1), heads);
    a.k = by_heads(c, sn_graph_slice(m, all, 2, size[0], size[0] + size[1], 1), heads);
    a.v = by_heads(c, sn_graph_slice(m, all, 2, size[0] + size[1], INT64_MAX, 1), heads);
    sn_ix past = sn_ix_const(m, 0);
    if (sn_onnx_has(c, 4)) {
        sn_nd before = sn_onnx_in(c, 4); /* [2, B, H, P, D] */
        if (sn_graph_type(m, before)->rank != 5) return sn_onnx_fail(c, "past is no tensor of rank 5");
        past = size_of(m, before, 3);
        a.k = sn_graph_concat(m, (const sn_nd[]){sn_graph_pick(m, before, 0, 0), a.k}, 2, 2);
        a.v = sn_graph_concat(m, (const sn_nd[]){sn_graph_pick(m, before, 0, 1), a.v}, 2, 2);
    }
    if (c->n_out > 1) {
        static const int64_t first = 0;
        const sn_nd both[] = {sn_graph_unsqueeze(m, a.k, &first, 1), sn_graph_unsqueeze(m, a.v, &first, 1)};
        sn_onnx_out(c, 1, sn_graph_concat(m, both, 2, 0));
    }
    return attend_as_runtime(c, &a, 3, 5, past);
}

/* ---- rotation ---- */

/* Rows of a table for each place: [B, S, R/2], and an axis for the heads. `where`: none for a table that is that. */
static sn_nd rows_of(sn_module *m, sn_nd table, sn_nd where, const int64_t *heads) {
    if (where.i) table = sn_graph_index_select(m, table, where, 0);
    return sn_graph_unsqueeze(m, sn_graph_widen(m, table), heads, 1);
}

/* Pairs of elements of the first R of each head, i and i + R/2, interleaved 2i and 2i + 1, turn by the angle of their place. */
static sn_nd rotated(sn_module *m, sn_nd x, sn_nd cosine, sn_nd sine, int64_t r, bool interleaved) {
    static const int64_t last = 4;
    sn_type t = *sn_graph_type(m, x);
    sn_nd turning = sn_graph_slice(m, x, 3, 0, r, 1), rest = sn_graph_slice(m, x, 3, r, INT64_MAX, 1);
    int64_t step = interleaved ? 2 : 1, half = r / 2;
    sn_nd a = sn_graph_slice(m, turning, 3, 0, interleaved ? r : half, step);
    sn_nd b = sn_graph_slice(m, turning, 3, interleaved ? 1 : half, r, step);
    sn_nd both[] = {sn_graph_sub(m, sn_graph_mul(m, cosine, a), sn_graph_mul(m, sine, b)),
                    sn_graph_add(m, sn_graph_mul(m, sine, a), sn_graph_mul(m, cosine, b))};
    for (int k = 0; k < 2 && interleaved; k++) both[k] = sn_graph_unsqueeze(m, both[k], &last, 1);
    sn_nd y = sn_graph_concat(m, both, 2, interleaved ? 4 : 3);
    sn_ix shape[] = {t.shape[0], t.shape[1], t.shape[2], sn_ix_const(m, r)};
    if (interleaved) y = sn_graph_reshape(m, y, shape, 4);
    return sn_graph_concat(m, (const sn_nd[]){y, rest}, 2, 3);
}

/* x[B, H, S, D] or [B, S, H*D]; arg: onnxruntime's, whose places are operand 1, or one number that they begin with. */
sn_status sn_onnx_rotary_embedding(sn_onnx_call *c) {
    sn_module *m = c->m;
    bool runtime = c->op->arg;
    uint32_t tables = runtime ? 2 : 1, places_at = runtime ? 1 : 3;
    int64_t heads = sn_onnx_attr_int(c, "num_heads", 0), r = sn_onnx_attr_int(c, "rotary_embedding_dim", 0), d;
    sn_nd x = sn_onnx_in(c, 0), where = sn_onnx_has(c, places_at) ? sn_onnx_in(c, places_at) : (sn_nd){0};
    sn_type t = *sn_graph_type(m, x), by_head = t;
    bool interleaved = sn_onnx_attr_int(c, "interleaved", 0), flat = t.rank == 3;
    if (runtime && (sn_onnx_attr_int(c, "is_packed_batching", 0) || sn_onnx_attr_float(c, "scale", 1) != 1))
        return sn_onnx_fail(c, "is_packed_batching and scale");
    int64_t half = last_size(c, sn_onnx_in(c, tables)), axis = flat ? 2 : 1;
    SN_TRY(m->env->status);
    if (t.rank != 3 && t.rank != 4) return sn_onnx_fail(c, "an operand of rank %u", t.rank);
    if (!sn_ix_is_const(m, t.shape[t.rank - 1], &d)) return sn_onnx_fail(c, "the size of a head is not known");
    if (half < 1 || half > INT64_MAX / 2) return sn_onnx_fail(c, "tables of %lld columns", (long long)half);
    if (flat && !heads && !r) heads = d / (2 * half);
    if (flat && (heads < 1 || d % heads)) return sn_onnx_fail(c, "%lld heads of %lld", (long long)heads, (long long)d);
    if (flat) {
        by_head =
            (sn_type){.rank = 4, .shape = {t.shape[0], t.shape[1], sn_ix_const(m, heads), sn_ix_const(m, d /= heads)}};
    }
    if (!r) r = d;
    if (r != 2 * half || r > d)
        return sn_onnx_fail(c, "%lld elements turn, the tables have %lld", (long long)r, (long long)(2 * half));
    if (where.i && sn_graph_type(m, where)->rank == 1) {
        sn_ix shape[] = {t.shape[0], t.shape[flat ? 1 : 2]};
        where = sn_graph_add(m, sn_graph_iota(m, SN_I64, 1, shape, 2), where);
    }
    sn_nd y = rotated(m, sn_graph_widen(m, sn_graph_reshape(m, x, by_head.shape, 4)),
                      rows_of(m, sn_onnx_in(c, tables), where, &axis),
                      rows_of(m, sn_onnx_in(c, tables + 1), where, &axis), r, interleaved);
    return sn_onnx_done(c, sn_graph_cast(m, sn_graph_reshape(m, y, t.shape, t.rank), t.dtype));
}

/* ---- groups of queries, with a cache (onnxruntime's, of language models) ---- */

/* Operands of GroupQueryAttention. */
enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LENGTHS, TOTAL, COSINE, SINE, PLACES, SCORES_BIAS };

/* Per sequence, [B, 1, 1, 1] in i32, how many places of the cache are filled when the new keys come. */
static sn_nd filled_before(sn_onnx_call *c, const attention *a, int64_t total) {
    sn_module *m = c->m;
    sn_ix one = sn_ix_const(m, 1), shape[] = {size_of(m, a->q, 0), one, one, one}, s = size_of(m, a->q, 2);
    int64_t new;
    if (sn_ix_is_const(m, s, &new) && new == total) return sn_graph_full(m, SN_I32, 0, shape, 4);
    sn_nd last = sn_graph_reshape(m, sn_graph_cast(m, sn_onnx_in(c, LENGTHS), SN_I32), shape, 4);
    return sn_graph_with_size(m, SN_OP_SUB, sn_graph_with(m, SN_OP_ADD, last, 1), s);
}

/* The tables, which must be there, turn no more of a head than it has. */
static sn_status check_tables(sn_onnx_call *c, const attention *a) {
    sn_module *m = c->m;
    int64_t d;
    if (!sn_onnx_has(c, COSINE) || !sn_onnx_has(c, SINE)) return sn_onnx_fail(c, "do_rotary needs operands 8 and 9");
    const sn_type *cosine = sn_graph_type(m, sn_onnx_in(c, COSINE)), *sine = sn_graph_type(m, sn_onnx_in(c, SINE));
    SN_TRY(m->env->status);
    if (cosine->rank != 2 || sine->rank != 2)
        return sn_onnx_fail(c, "operands 8 and 9 of rank %u and %u, not 2", cosine->rank, sine->rank);
    int64_t half = last_size(c, sn_onnx_in(c, COSINE));
    SN_TRY(m->env->status);
    for (int k = 0; k < 2; k++) {
        if (!sn_ix_is_const(m, size_of(m, k ? a->k : a->q, 3), &d))
            return sn_onnx_fail(c, "the size of a head is not known");
        if (half < 1 || half > d / 2)
            return sn_onnx_fail(c, "tables of %lld columns turn twice as many elements, a head has %lld",
                                (long long)half, (long long)d);
    }
    return SN_OK;
}

/* x turned by the places that follow those before it. */
static sn_nd rotated_at(sn_onnx_call *c, sn_nd x, sn_nd before) {
    static const int64_t heads = 1;
    sn_module *m = c->m;
    sn_nd where = sn_onnx_has(c, PLACES) ? sn_onnx_in(c, PLACES) : (sn_nd){0};
    sn_type t = *sn_graph_type(m, x);
    sn_ix shape[] = {t.shape[0], sn_ix_const(m, 1)};
    if (!where.i) {
        where = sn_graph_reshape(m, before, shape, 2);
        shape[0] = shape[1], shape[1] = t.shape[2];
        where = sn_graph_add(m, where, sn_graph_iota(m, SN_I32, 1, shape, 2));
    }
    int64_t r = 2 * last_size(c, sn_onnx_in(c, COSINE));
    bool interleaved = sn_onnx_attr_int(c, "rotary_interleaved", 0);
    sn_nd y = rotated(m, sn_graph_widen(m, x), rows_of(m, sn_onnx_in(c, COSINE), where, &heads),
                      rows_of(m, sn_onnx_in(c, SINE), where, &heads), r, interleaved);
    return sn_graph_cast(m, y, t.dtype);
}

/* A cache [B, G, T, D] of what operand `past` has, x from place `before` on, and zeros. */
static sn_nd cached(sn_onnx_call *c, uint32_t past, sn_nd x, sn_nd before, int64_t total) {
    sn_module *m = c->m;
    sn_type t = *sn_graph_type(m, x);
    sn_ix s = t.shape[2];
    int64_t had = 0, low[4] = {0}, high[4] = {0};
    t.shape[2] = sn_ix_const(m, total);
    sn_nd old = sn_onnx_has(c, past) ? sn_onnx_in(c, past) : (sn_nd){0};
    if (old.i && sn_ix_is_const(m, size_of(m, old, 2), &had)) {
        high[2] = total - had;
        if (high[2]) old = sn_graph_pad(m, old, low, high, 0);
    } else {
        old = sn_graph_full(m, t.dtype, 0, t.shape, 4);
    }
    sn_nd at = sn_graph_sub(m, sn_graph_iota(m, SN_I32, 2, t.shape, 4), before);
    sn_nd is_new =
        sn_graph_binary(m, SN_OP_AND, sn_graph_with(m, SN_OP_GE, at, 0), sn_graph_with_size(m, SN_OP_LT, at, s));
    old = sn_graph_where(m, sn_graph_with(m, SN_OP_LT, at, 0), old, sn_graph_number(m, old, 0));
    at = sn_graph_where(m, is_new, at, sn_graph_number(m, at, 0));
    return sn_graph_where(m, is_new, sn_graph_gather(m, x, at, 2), old);
}

/* How many places the cache has; 0: there is none. */
static sn_status read_cache_size(int64_t *out, sn_onnx_call *c) {
    int64_t sizes[2] = {0};
    for (uint32_t k = 0; k < 2; k++) {
        if (!sn_onnx_has(c, PAST_KEY + k)) continue;
        const sn_type *t = sn_graph_type(c->m, sn_onnx_in(c, PAST_KEY + k));
        SN_TRY(c->m->env->status);
        if (t->rank != 4) return sn_onnx_fail(c, "a cache of shape %s", sn_type_text(c->m, t));
        if (!sn_ix_is_const(c->m, t->shape[2], &sizes[k])) return sn_onnx_fail(c, "the size of the cache is not known");
    }
    if (sizes[0] != sizes[1])
        return sn_onnx_fail(c, "a cache of %lld keys and %lld values", (long long)sizes[0], (long long)sizes[1]);
    *out = sizes[0];
    return SN_OK;
}

/* Queries, keys and values, each with heads: operands of their own, or one after the other in the first one. */
static sn_status read_groups(attention *a, sn_onnx_call *c) {
    sn_module *m = c->m;
    int64_t heads = sn_onnx_attr_int(c, "num_heads", 0), groups = sn_onnx_attr_int(c, "kv_num_heads", 0);
    sn_nd q = sn_onnx_in(c, QUERY), k, v;
    if (heads < 1 || groups < 1)
        return sn_onnx_fail(c, "%lld heads of queries, %lld of keys", (long long)heads, (long long)groups);
    if (sn_onnx_has(c, KEY)) {
        k = sn_onnx_in(c, KEY), v = sn_onnx_in(c, VALUE);
    } else {
        int64_t all = last_size(c, q);
        SN_TRY(m->env->status);
        /* so that no sum or product of them is more than `all` */
        if (heads > all || groups > (all - heads) / 2 || all % (heads + 2 * groups))
            return sn_onnx_fail(c, "%lld heads of queries and %lld of keys and of values in %lld elements",
                                (long long)heads, (long long)groups, (long long)all);
        int64_t d = all / (heads + 2 * groups);
        v = sn_graph_slice(m, q, -1, (heads + groups) * d, INT64_MAX, 1);
        k = sn_graph_slice(m, q, -1, heads * d, (heads + groups) * d, 1);
        q = sn_graph_slice(m, q, -1, 0, heads * d, 1);
    }
    a->q = by_heads(c, q, heads), a->k = by_heads(c, k, groups), a->v = by_heads(c, v, groups);
    return m->env->status;
}

/* What is known of the cache's size tells the graph's; how much of it is filled, each run says. */
sn_status sn_onnx_group_query_attention(sn_onnx_call *c) {
    sn_module *m = c->m;
    attention a = {.precision = SN_F32, .softcap = sn_onnx_attr_float(c, "softcap", 0)};
    int64_t total, had = 0, window = sn_onnx_attr_int(c, "local_window_size", -1);
    bool turns = sn_onnx_attr_int(c, "do_rotary", 0);
    sn_onnx_attr_ignore(c, "rotary_interleaved");
    if (sn_onnx_attr_int(c, "smooth_softmax", 0) > 0) return sn_onnx_fail(c, "smooth_softmax");
    for (uint32_t k = SCORES_BIAS + 1; k < c->n_in; k++)
        if (sn_onnx_has(c, k)) return sn_onnx_fail(c, "operand %u is not supported", k + 1);
    SN_TRY(read_groups(&a, c));
    SN_TRY(sn_onnx_int(&total, c, TOTAL));
    SN_TRY(read_cache_size(&had, c));
    sn_nd before = filled_before(c, &a, total);
    SN_TRY(m->env->status);
    if (turns) {
        SN_TRY(check_tables(c, &a));
        a.q = rotated_at(c, a.q, before), a.k = rotated_at(c, a.k, before);
        SN_TRY(m->env->status); /* the cache takes the sizes of the keys */
    }
    if (total < had) total = had;
    a.k = cached(c, PAST_KEY, a.k, before, total), a.v = cached(c, PAST_VALUE, a.v, before, total);
    SN_TRY(m->env->status);
    sn_onnx_out(c, 1, a.k);
    sn_onnx_out(c, 2, a.v);
    SN_TRY(read_scale(&a, c, 0));
    sn_nd queries = sn_graph_add(m, before, places(m, size_of(m, a.q, 2), 0));
    SN_TRY(share_heads(c, &a));
    if (sn_onnx_has(c, SCORES_BIAS)) a.bias = sn_onnx_in(c, SCORES_BIAS);
    allow_window(m, &a, queries, window > 0 ? window - 1 : -1, 0);
    return sn_onnx_done(c, without_heads(m, attend(m, &a)));
}
