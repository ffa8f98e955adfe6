/* library_nest.c: the nest of a kernel as a library call sees it: axes, two factors, one sum, an epilogue, a store.
 *
 *     loop i { loop j { %s = reduce sum r { yield x[..] * w[..] }   store y[..], f(%s) } }
 *
 * Of the epilogue what a library does before it rounds to the result's dtype: a bias and a maximum with 0. A cast to that
 * dtype and back between the sum and the bias is not that; one behind the bias is, for rounding twice is rounding once,
 * and keeps order. A factor may be masked where that gives 0: what stands beside an image.
 */
#include "ir/loop/library_nest.h"

#include <limits.h>

bool sn_nest_refuse(sn_nest_reader *rd, const char *why) {
    rd->why = why;
    return false;
}

static const sn_stmt_rec *def_of(const sn_nest_reader *rd, sn_val v) {
    return sn_stmt_get(rd->m, sn_val_get(rd->m, v)->def);
}

/* ---- the nest ---- */

static bool take_axis(sn_nest_reader *rd, const sn_stmt_rec *r) {
    sn_nest_axis *w = &rd->axes[rd->n];
    *w = (sn_nest_axis){.ax = r->axis};
    if (r->kind != SN_AXIS_SEQ) return sn_nest_refuse(rd, "its axes are bound");
    if (rd->n == SN_MAX_CHAIN || !sn_ix_is_const(rd->m, sn_axis_get(rd->m, r->axis)->extent, &w->extent))
        return sn_nest_refuse(rd, "a size is symbolic");
    if (w->extent < 1 || w->extent > INT_MAX) return sn_nest_refuse(rd, "a size is not one that libraries count");
    rd->n++;
    return true;
}

/* Sums in sums are one sum. */
static bool take_sum(sn_nest_reader *rd, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(rd->m, s);
    if (rd->sum.i) return sn_nest_refuse(rd, "it is more than one reduction");
    rd->sum = r->result;
    for (;; r = sn_stmt_get(rd->m, s)) {
        if (r->n_combs != 1 || r->combs[0] != SN_COMB_SUM) return sn_nest_refuse(rd, "it is not one sum");
        if (!take_axis(rd, r)) return false;
        rd->yield = r->last;
        s = r->first;
        const sn_stmt_rec *inner = sn_stmt_get(rd->m, s);
        if (inner->op != SN_LOP_REDUCE) break;
        bool passed_on = inner->next.i == rd->yield.i && sn_stmt_get(rd->m, rd->yield)->in[0].i == inner->result.i;
        if (!passed_on) return sn_nest_refuse(rd, "its reductions are not one nest");
    }
    for (; s.i; s = sn_stmt_get(rd->m, s)->next)
        if (sn_lop_has_region(sn_stmt_get(rd->m, s)->op)) return sn_nest_refuse(rd, "its reductions are not one nest");
    return true;
}

/* Loops, each alone in its region; in the innermost one a sum and a store. */
static bool read_loops(sn_nest_reader *rd) {
    sn_stmt s = rd->k->first;
    while (s.i && sn_stmt_get(rd->m, s)->op == SN_LOP_LOOP) {
        const sn_stmt_rec *r = sn_stmt_get(rd->m, s);
        if (r->next.i || r->prev.i) return sn_nest_refuse(rd, "its loops are not one nest");
        if (!take_axis(rd, r)) return false;
        s = r->first;
    }
    for (; s.i; s = sn_stmt_get(rd->m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(rd->m, s);
        if (r->op == SN_LOP_REDUCE ? !take_sum(rd, s) : sn_lop_has_region(r->op))
            return rd->why ? false : sn_nest_refuse(rd, "its loops are not one nest");
        if (sn_stores(r) && rd->store.i) return sn_nest_refuse(rd, "it stores two results");
        if (sn_stores(r)) rd->store = s;
    }
    if (!rd->sum.i || !rd->store.i) return sn_nest_refuse(rd, "it has no reduction");
    rd->access[SN_NEST_C] = rd->store;
    return true;
}

/* ---- values ---- */

static bool is_zero(const sn_nest_reader *rd, sn_val v) {
    const sn_stmt_rec *r = def_of(rd, v);
    return r->op == SN_LOP_CONST && (sn_is_float(r->dtype) ? r->f == 0 : r->i == 0);
}

/* The value without what makes it 0 where it is masked, %mask (none: any; then the one that is found). */
static sn_val unmasked(const sn_nest_reader *rd, sn_val v, sn_val *mask) {
    const sn_stmt_rec *r = def_of(rd, v);
    if (r->op != SN_LOP_SELECT || !is_zero(rd, r->in[2]) || (mask->i && mask->i != r->in[0].i)) return v;
    *mask = r->in[0];
    return r->in[1];
}

/* An element of memory, converted to the dtype of the sum at most; where it is masked, 0 stands for it. */
static bool take_element(sn_nest_reader *rd, int which, sn_val v) {
    sn_val mask = {0};
    v = unmasked(rd, v, &mask);
    const sn_stmt_rec *r = def_of(rd, v);
    if (r->op == SN_LOP_CAST) v = unmasked(rd, r->in[0], &mask);
    rd->access[which] = sn_val_get(rd->m, v)->def;
    r = sn_stmt_get(rd->m, rd->access[which]);
    if (r->op != SN_LOP_LOAD) return false;
    if (!r->has_mask) return !mask.i;
    return mask.i ? mask.i == sn_stmt_mask(r).i : is_zero(rd, r->in[1]);
}

static bool read_product(sn_nest_reader *rd) {
    const sn_stmt_rec *r = def_of(rd, sn_stmt_get(rd->m, rd->yield)->in[0]);
    if (r->op != SN_LOP_MUL) return sn_nest_refuse(rd, "what it adds up is not one product");
    return (take_element(rd, SN_NEST_A, r->in[0]) && take_element(rd, SN_NEST_B, r->in[1])) ||
           sn_nest_refuse(rd, "a factor is not an element of memory");
}

/* The operand of a cast to the dtype, none if v is something else. */
static sn_val cast_of(const sn_nest_reader *rd, sn_val v, sn_dtype to) {
    const sn_stmt_rec *r = def_of(rd, v);
    return r->op == SN_LOP_CAST && r->dtype == to ? r->in[0] : (sn_val){0};
}

/* v in the dtype of the sum, before it was rounded to that of the result: nothing but another such rounding, or a
 * maximum with 0, comes behind. */
static sn_val unrounded(const sn_nest_reader *rd, sn_val v, sn_dtype sum, sn_dtype out) {
    sn_val narrow = sum != out ? cast_of(rd, v, sum) : (sn_val){0};
    sn_val wide = narrow.i ? cast_of(rd, narrow, out) : narrow;
    return wide.i && sn_val_get(rd->m, wide)->dtype == sum ? wide : v;
}

/* What is stored, from behind: rounded, of a maximum with 0, of the sum and a bias. */
static bool read_epilogue(sn_nest_reader *rd) {
    sn_dtype sum = sn_val_get(rd->m, rd->sum)->dtype,
             out = sn_buf_get(rd->m, sn_stmt_get(rd->m, rd->store)->buf)->dtype;
    sn_val v = sn_stmt_get(rd->m, rd->store)->in[0];
    if (sum != out) v = cast_of(rd, v, out);
    if (!v.i) return sn_nest_refuse(rd, "what it stores is not converted from the sum");
    v = unrounded(rd, v, sum, out);
    const sn_stmt_rec *r = def_of(rd, v);
    if (r->op == SN_LOP_MAX && (is_zero(rd, r->in[0]) || is_zero(rd, r->in[1]))) {
        rd->relu = true;
        v = unrounded(rd, r->in[is_zero(rd, r->in[0])], sum, out);
        r = def_of(rd, v);
    }
    if (r->op == SN_LOP_ADD) {
        bool second = r->in[1].i == rd->sum.i;
        if (!take_element(rd, SN_NEST_BIAS, r->in[!second]))
            return sn_nest_refuse(rd, "it adds something that is no element of memory");
        v = r->in[second];
    }
    if (v.i == rd->sum.i && sn_val_get(rd->m, v)->dtype == sum) return true;
    return sn_nest_refuse(rd, cast_of(rd, v, sum).i ? "the sum is rounded before more is done with it"
                                                    : "it does more with the sum than libraries do");
}

/* ---- where accesses lie ---- */

static uint32_t alignment(const sn_nest_reader *rd, int which, int64_t stride) {
    const sn_buf_rec *b = sn_buf_get(rd->m, sn_stmt_get(rd->m, rd->access[which])->buf);
    uint64_t bytes = (uint64_t)sn_dtype_bytes(b->dtype), bits = (uint64_t)rd->offset[which] | (uint64_t)stride;
    uint64_t align = b->align > bytes ? b->align : bytes;
    while (bits * bytes % align) align /= 2;
    return (uint32_t)align;
}

sn_library_matrix sn_nest_matrix(const sn_nest_reader *rd, int which, int64_t stride) {
    sn_buf b = sn_stmt_get(rd->m, rd->access[which])->buf;
    sn_library_matrix mx = {.offset = rd->offset[which], .stride = stride, .dtype = sn_buf_get(rd->m, b)->dtype};
    while (!sn_buf_eq(rd->k->params.at[mx.param], b)) mx.param++;
    mx.align = alignment(rd, which, stride);
    return mx;
}

bool sn_nest_read(sn_nest_reader *rd) { return read_loops(rd) && read_product(rd) && read_epilogue(rd); }
