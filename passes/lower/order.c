/* order.c: the elements of a row as sort and topk compare, place and store them; for sort.c and sort_block.c.
 *
 * Elements are compared as integers, whose order is that of the values: a float's bits, negative ones reversed, nan
 * last, -0 as 0; descending: complemented. Where runs are merged, narrow types put 32 bits of that over 32 bits of
 * position in one i64, which makes every key different and the sort stable; keys of 64 bits go without.
 */
#include "passes/lower/order.h"

#include <string.h>

static sn_val op(sn_order *o, sn_lop lop, sn_val a, sn_val b) { return sn_put_op2(o->m, o->lw->at, lop, a, b); }

static sn_val integer(sn_order *o, sn_dtype t, int64_t x) { return sn_put_const_int(o->m, o->lw->at, t, x); }

/* ---- keys ---- */

/* The bits of a float as an integer in the order of the values. */
static sn_val float_key(sn_order *o, sn_val x) {
    sn_module *m = o->m;
    sn_cursor at = o->lw->at;
    sn_dtype from = sn_val_get(m, x)->dtype, to = from == SN_F64 ? SN_I64 : SN_I32;
    int64_t most = to == SN_I64 ? INT64_MAX : INT32_MAX;
    sn_val zero = sn_put_const(m, at, from, 0);
    sn_val plain = sn_put_op3(m, at, SN_LOP_SELECT, op(o, SN_LOP_EQ, x, zero), zero, x);
    sn_val bits = sn_put_bitcast(m, at, to, plain), sign = op(o, SN_LOP_LT, bits, integer(o, to, 0));
    sn_val turned = op(o, SN_LOP_XOR, bits, integer(o, to, most));
    sn_val key = sn_put_op3(m, at, SN_LOP_SELECT, sign, turned, bits);
    return sn_put_op3(m, at, SN_LOP_SELECT, sn_put_op1(m, at, SN_LOP_ISNAN, x), integer(o, to, most), key);
}

sn_val sn_order_element(sn_order *o, sn_ix e) {
    sn_ix at[SN_MAX_RANK];
    memcpy(at, o->index, sizeof at);
    at[o->axis] = e;
    return sn_lower_element(o->lw, o->x, at);
}

/* The integer with a sign and the same order: what has no room for a sign gets its upper bit turned. */
static sn_val integer_key(sn_order *o, sn_val x) {
    sn_dtype t = sn_val_get(o->m, x)->dtype, to = sn_dtype_bytes(t) == 8 ? SN_I64 : SN_I32;
    x = sn_put_cast(o->m, o->lw->at, to, x);
    if (t != SN_U32 && t != SN_U64) return x;
    return op(o, SN_LOP_XOR, x, integer(o, to, to == SN_I64 ? INT64_MIN : INT32_MIN));
}

sn_val sn_order_key(sn_order *o, sn_val x) {
    sn_dtype t = sn_val_get(o->m, x)->dtype;
    if (sn_is_float(t)) x = float_key(o, x);
    else x = integer_key(o, x);
    return o->descending ? sn_put_op1(o->m, o->lw->at, SN_LOP_NOT, x) : x;
}

sn_val sn_order_item(sn_order *o, sn_val x, sn_ix place) {
    sn_val key = sn_put_cast(o->m, o->lw->at, SN_I64, sn_order_key(o, x));
    if (o->wide) return key;
    key = op(o, SN_LOP_SHL, key, integer(o, SN_I64, 32));
    return op(o, SN_LOP_OR, key, sn_put_index(o->m, o->lw->at, SN_I64, place));
}

/* ---- rows ---- */

void sn_order_open_rows(sn_order *o) {
    static const char *const names[] = {"i", "j", "k", "l", "i4", "i5", "i6", "i7"};
    sn_ix extents[SN_MAX_RANK], at[SN_MAX_RANK];
    uint32_t n = 0;
    sn_lower_begin(o->lw);
    for (uint32_t k = 0; k < o->type->rank; k++) {
        if (k == o->axis) continue;
        extents[n] = o->type->shape[k];
        o->index[k] = at[n] = sn_lower_open_loop(o->lw, names[k], extents[n]);
        n++;
    }
    o->row = sn_ix_flatten(o->m, at, extents, n);
}

sn_ix sn_order_open_grid(sn_order *o, int64_t parts) {
    sn_ix extents[SN_MAX_RANK], at[SN_MAX_RANK];
    uint32_t n = 0;
    sn_lower_begin(o->lw);
    sn_kern_get(o->m, o->lw->kern)->scheduled = true;
    sn_ix g = sn_open_loop(o->m, &o->lw->at, "g", o->rows * parts, SN_AXIS_GRID);
    o->row = sn_ix_divc(o->m, g, parts);
    for (uint32_t k = 0; k < o->type->rank; k++)
        if (k != o->axis) extents[n++] = o->type->shape[k];
    sn_ix_unflatten(o->m, o->row, extents, n, at);
    for (uint32_t k = n = 0; k < o->type->rank; k++)
        if (k != o->axis) o->index[k] = at[n++];
    return g;
}

/* ---- places ---- */

sn_ix sn_order_bounded(sn_order *o, sn_val v, int64_t limit) {
    sn_ix most = sn_ix_min(o->m, sn_ix_val(o->m, v), sn_ix_const(o->m, limit));
    return sn_ix_max(o->m, most, sn_ix_const(o->m, 0));
}

void sn_order_store(sn_order *o, sn_buf b, sn_ix e, sn_val x, sn_val mask) {
    x = sn_put_cast(o->m, o->lw->at, sn_buf_get(o->m, b)->dtype, x);
    if (mask.i) sn_put_store_masked(o->m, o->lw->at, b, e, x, mask);
    else sn_put_store(o->m, o->lw->at, b, e, x);
}

void sn_order_store_result(sn_order *o, sn_ix rank, sn_val x, sn_val place, sn_val mask) {
    sn_ix at[SN_MAX_RANK], shape[SN_MAX_RANK];
    memcpy(at, o->index, sizeof at);
    memcpy(shape, o->type->shape, sizeof shape);
    at[o->axis] = rank;
    shape[o->axis] = sn_ix_const(o->m, o->keep);
    sn_ix e = sn_ix_flatten(o->m, at, shape, o->type->rank);
    if (o->out[0].i) sn_order_store(o, o->out[0], e, x, mask);
    if (o->out[1].i) sn_order_store(o, o->out[1], e, place, mask);
}
