/* reduce.c: reductions in the pass `to-loops`: which of them need no place in memory, and their nests.
 *
 *     %d = sub %a, %b : f32[N, N, 3]                loop i in N {
 *     %q = mul %d, %d                                 %1, %2, %3 = reduce (sum, sum, sum) r in N {
 *     %r = sum %q axes=[2] : f32[N, N]     ->           d0 = a[r, 0] - a[i, 0]  d1 = ..  d2 = ..
 *     %w = rsqrt %r                                     w = rsqrt (d0 d0 + d1 d1 + d2 d2)
 *     %f = mul %d, %w[.., 1]                            yield d0 w, d1 w, d2 w }
 *     %y = sum %f axes=[1] : f32[N, 3]                store y[i, 0], %1 .. }
 *
 * All pairs of two lists are more than the lists: what is made of pairs costs a CPU and a GPU more to store and to load
 * than to make. So a reduction whose result is larger than what it is made of needs no memory where
 *   - it is over no more than PAIRS_WRITTEN elements (coordinates): these are combined where the result is read, as if it were
 *     elementwise;
 *   - it is longer, on the CPU, and one reduction alone reads it, each element once: it becomes a nest in that one's
 *     nest, if there are rows for all lanes of all cores, and no more steps than stay in the nearest cache.
 * What is read again and again, since someone repeats it along an axis, would be made as often: it gets its memory after
 * all, unless that axis is as short as a reduction has combiners. Then a sum that keeps the axis is as many sums of one
 * reduction, which have in common what they share.
 *
 * Relies on element.c for what is reduced. Cost: linear in the nodes.
 */
#include "passes/base/constants.h"
#include "passes/lower/lower.h"

/* ---- which ones need no memory ---- */

static int64_t numel(const sn_lower *lw, sn_nd x) {
    int64_t n;
    return sn_ix_is_const(lw->m, sn_type_numel(lw->m, &sn_node_get(lw->m, x)->type), &n) ? n : 0;
}

static bool is_elementwise(const sn_node_rec *n) {
    sn_opclass cls = sn_ops[n->op].cls;
    return cls == SN_OPS_UNARY || cls == SN_OPS_BINARY || cls == SN_OPS_COMPARE || cls == SN_OPS_TEST ||
           n->op == SN_OP_WHERE || n->op == SN_OP_CAST;
}

static sn_comb combiner(const sn_node_rec *n) { return (sn_comb)sn_ops[n->op].lop; }

int64_t sn_lower_reduced(const sn_lower *lw, sn_nd x) {
    int64_t all = numel(lw, sn_node_get(lw->m, x)->in[0]), kept = numel(lw, x);
    return kept ? all / kept : 0;
}

bool sn_lower_is_of_pairs(const sn_lower *lw, sn_nd x) {
    const sn_lower_node *info = &lw->nodes[x.i];
    int64_t n = numel(lw, x);
    return !info->buf.i && !info->within && !info->crosses && n &&
           n > info->bytes / sn_dtype_bytes(sn_node_get(lw->m, x)->type.dtype);
}

bool sn_lower_is_written(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    int64_t steps = sn_lower_reduced(lw, x);
    if ((uint32_t)combiner(n) >= SN_N_COMBS) return false; /* a composite, which the lowering refuses */
    return sn_combs[combiner(n)].states == 1 && steps >= 1 && steps <= SN_PAIRS_WRITTEN && sn_lower_is_of_pairs(lw, x);
}

/* The reductions below x that stand in a nest over its elements: each element of theirs is wanted once. */
static void nest_below(sn_lower *lw, sn_nd x, int64_t elements) {
    sn_lower_node *info = &lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (info->users > 1 || info->buf.i || numel(lw, x) != elements) return;
    if (sn_ops[n->op].cls == SN_OPS_REDUCE) {
        int64_t steps = sn_lower_reduced(lw, x);
        if (info->realized && !info->order && steps > 1 && steps <= SN_PAIRS_NESTED && sn_lower_is_of_pairs(lw, x))
            info->realized = false;
        return;
    }
    if (info->realized || !is_elementwise(n)) return;
    for (uint32_t k = 0; k < n->n_in; k++) nest_below(lw, n->in[k], elements);
}

void sn_lower_nest_reductions(sn_lower *lw, sn_nd x) {
    const sn_target *t = lw->cx->target;
    sn_nd in = sn_node_get(lw->m, x)->in[0];
    int64_t lanes = t->vector_bytes / sn_dtype_bytes(sn_node_get(lw->m, in)->type.dtype) * t->units;
    if (!t->is_gpu && numel(lw, x) >= lanes) nest_below(lw, in, numel(lw, in));
}

/* ---- what is repeated ---- */

static sn_ix size_from_last(const sn_lower *lw, sn_nd x, uint32_t axis) {
    const sn_type *t = &sn_node_get(lw->m, x)->type;
    return axis < t->rank ? t->shape[t->rank - 1 - axis] : sn_ix_const(lw->m, 1);
}

/* How often x repeats each element of operand k; 1 + the axis along which, if it is one, else 0. */
static int64_t repeats(uint8_t *axis, const sn_lower *lw, sn_nd x, uint32_t k) {
    sn_nd in = sn_node_get(lw->m, x)->in[k];
    uint32_t rank = sn_node_get(lw->m, x)->type.rank, axes = 0;
    int64_t all = numel(lw, x), own = numel(lw, in);
    *axis = 0;
    for (uint32_t a = 0; a < rank; a++)
        if (!sn_ix_eq(size_from_last(lw, x, a), size_from_last(lw, in, a))) *axis = (uint8_t)(1 + a), axes++;
    if (axes != 1) *axis = 0;
    return own ? all / own : 1;
}

void sn_lower_note_spread(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(lw->m, x);
    bool aligned = is_elementwise(n) || n->op == SN_OP_EXPAND;
    for (uint32_t k = 0; k < n->n_in && !info->realized; k++) {
        const sn_lower_node *in = &lw->nodes[n->in[k].i];
        if (in->realized) continue;
        uint8_t axis = 0;
        int64_t times = aligned ? repeats(&axis, lw, x, k) : 1;
        bool few = axis && times <= SN_MOST_TOGETHER;
        if (times > 1 && in->written && !few) {
            sn_nd base = n->in[k];
            while (!lw->nodes[base.i].realized && sn_ops[sn_node_get(lw->m, base)->op].cls == SN_OPS_VIEW)
                base = sn_node_get(lw->m, base)->in[0];
            lw->nodes[base.i].realized = true;
            continue;
        }
        info->written |= in->written;
        if (times > 1 && few && (in->written || in->ops >= SN_PAIRS_SHARED_OPS)) info->spread = axis;
        else if (aligned && times == 1 && in->spread) info->spread = in->spread;
    }
}

/* The sums along an axis on which what they add up has much in common are sums of one nest. */
void sn_lower_note_together(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(lw->m, x);
    uint32_t spread = lw->nodes[n->in[0].i].spread, rank = sn_node_get(lw->m, n->in[0])->type.rank;
    if (lw->nodes[n->in[0].i].realized || !spread || sn_combs[combiner(n)].states > 1) return;
    uint32_t axis = rank - spread;
    if (!(sn_node_axes_mask(lw->m, x) >> axis & 1)) info->together = (uint8_t)(1 + axis);
}

/* ---- nests ---- */

/* The body of a reduction node: its operand at kept and reduced positions. */
typedef struct reduce_body {
    sn_nd x;
    sn_ix *kept; /* result position without kept unit axes */
    uint32_t mask;
    sn_comb comb;
    sn_dtype dtypes[SN_MOST_TOGETHER];
    sn_ix extents[SN_MAX_RANK]; /* of the reduced axes */
    uint32_t n;
    uint32_t together, times; /* the axis of x that becomes results, and how many; its rank: none, 1 */
} reduce_body;

static sn_val reduced_element(sn_lower *lw, const reduce_body *rb, const sn_ix *index, uint32_t number) {
    sn_ix at[SN_MAX_RANK];
    uint32_t kept = 0, reduced = 0, rank = sn_node_get(lw->m, rb->x)->type.rank;
    for (uint32_t k = 0; k < rank; k++) at[k] = rb->mask >> k & 1 ? index[reduced++] : rb->kept[kept++];
    if (rb->together < rank) at[rb->together] = sn_ix_const(lw->m, number);
    sn_val v = sn_lower_element(lw, rb->x, at);
    sn_dtype t = sn_val_get(lw->m, v)->dtype;
    if ((rb->comb == SN_COMB_ANY || rb->comb == SN_COMB_ALL) && t != SN_BOOL)
        v = sn_put_op2(lw->m, lw->at, SN_LOP_NE, v, sn_put_const(lw->m, lw->at, t, 0));
    return sn_put_cast(lw->m, lw->at, rb->dtypes[0], v);
}

static void emit_reduce_body(sn_lower *lw, void *user, const sn_ix *index, sn_val *yield) {
    const reduce_body *rb = user;
    for (uint32_t k = 0; k < rb->times; k++) yield[k] = reduced_element(lw, rb, index, k);
    if (sn_combs[rb->comb].second == SN_SECOND_POSITION)
        yield[1] = sn_put_index(lw->m, lw->at, SN_I64, sn_ix_flatten(lw->m, index, rb->extents, rb->n));
}

/* What a sum of integers is added up in. It is i64, but a shorter one where no sum of so many elements leaves its range: more
 * of them are in a vector, and no GPU has registers of 64 bits. Casts that lose nothing are looked through: a count is a sum of bools. */
static sn_dtype sum_dtype(const sn_lower *lw, sn_nd x, sn_dtype result) {
    const sn_node_rec *n = sn_node_get(lw->m, sn_node_get(lw->m, x)->in[0]);
    int64_t count = sn_lower_reduced(lw, x);
    while (n->op == SN_OP_CAST && sn_dtype_holds(n->type.dtype, sn_node_get(lw->m, n->in[0])->type.dtype))
        n = sn_node_get(lw->m, n->in[0]);
    sn_dtype t = n->type.dtype;
    if (result != SN_I64 || !sn_is_integral(t) || sn_dtype_bytes(t) > 2 || !count) return result;
    int bits = t == SN_BOOL ? 1 : (int)(8 * sn_dtype_bytes(t)) - !sn_is_unsigned(t); /* |element| <= 2^bits */
    if (!lw->cx->target->is_gpu && count < (int64_t)1 << 15 >> bits) return SN_I16;
    return count < (int64_t)1 << 31 >> bits ? SN_I32 : result;
}

static void start_body(reduce_body *rb, sn_ix *kept, sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const sn_type *in = &sn_node_get(lw->m, n->in[0])->type;
    bool keepdim = sn_node_int(lw->m, x, SN_ATTR_KEEPDIM, 0);
    int64_t times = 1;
    *rb = (reduce_body){.x = n->in[0], .kept = kept, .mask = sn_node_axes_mask(lw->m, x), .comb = combiner(n)};
    uint32_t n_kept = 0, at = 0;
    for (uint32_t k = 0; k < in->rank; k++) {
        bool reduced = rb->mask >> k & 1;
        if (reduced) rb->extents[rb->n++] = in->shape[k];
        else kept[n_kept++] = index[at];
        if (!reduced || keepdim) at++;
    }
    sn_dtype dtype = sn_compute_dtype(in->dtype);
    if (rb->comb == SN_COMB_SUM || rb->comb == SN_COMB_PROD) dtype = sn_compute_dtype(n->type.dtype);
    if (rb->comb == SN_COMB_SUM) dtype = sum_dtype(lw, x, dtype);
    if (rb->comb == SN_COMB_ANY || rb->comb == SN_COMB_ALL) dtype = SN_BOOL;
    rb->together = lw->nodes[x.i].together ? lw->nodes[x.i].together - 1u : in->rank;
    if (rb->together < in->rank) sn_ix_is_const(lw->m, in->shape[rb->together], &times);
    rb->times = (uint32_t)times;
    for (uint32_t k = 0; k < rb->times; k++) rb->dtypes[k] = dtype;
    if (sn_combs[rb->comb].states > 1) rb->dtypes[1] = SN_I64;
}

uint32_t sn_lower_reduction(sn_lower *lw, sn_val *out, sn_nd x, const sn_ix *index) {
    reduce_body rb;
    sn_ix kept[SN_MAX_RANK];
    sn_val results[SN_MOST_TOGETHER];
    start_body(&rb, kept, lw, x, index);
    if (rb.n == 0) emit_reduce_body(lw, &rb, NULL, results);
    else sn_lower_reduce_nest(lw, results, rb.comb, rb.times, rb.dtypes, rb.extents, rb.n, emit_reduce_body, &rb);
    sn_dtype t = sn_compute_dtype(sn_node_get(lw->m, x)->type.dtype);
    if (sn_combs[rb.comb].states > 1) out[0] = results[1];
    else
        for (uint32_t k = 0; k < rb.times; k++) out[k] = sn_put_cast(lw->m, lw->at, t, results[k]);
    return rb.times;
}

sn_val sn_lower_written(sn_lower *lw, sn_nd x, const sn_ix *index) {
    reduce_body rb;
    sn_ix kept[SN_MAX_RANK], at[SN_MAX_RANK];
    sn_val sum = {0};
    int64_t steps = sn_lower_reduced(lw, x);
    start_body(&rb, kept, lw, x, index);
    for (int64_t k = 0; k < steps; k++) {
        sn_ix_unflatten(lw->m, sn_ix_const(lw->m, k), rb.extents, rb.n, at);
        sn_val v = reduced_element(lw, &rb, at, 0);
        sum = sum.i ? sn_put_op2(lw->m, lw->at, sn_comb_lops[rb.comb], sum, v) : v;
    }
    return sum.i ? sn_put_cast(lw->m, lw->at, sn_compute_dtype(sn_node_get(lw->m, x)->type.dtype), sum) : sum;
}
