/* rules_shape.c: shape rules of views (reshape, permute, slice, ...) and moves (pad, concat, gather, ...). Sizes
 * may be symbolic: two sizes are equal when their expressions are (equal ix id). Moves no data; see eval_move.c
 * for what the operations mean.
 */
#include "ir/graph/internal.h"

static bool const_size(const sn_rule *r, sn_ix e, int64_t *out) { return sn_ix_is_const(r->m, e, out); }

/* ---- views ---- */

/* The position of the one -1 in the shape, -1 when there is none. */
static sn_status find_wildcard(int *out, const sn_rule *r, const sn_attr *shape) {
    *out = -1;
    for (uint32_t k = 0; k < shape->shape.n; k++) {
        int64_t c;
        if (!const_size(r, shape->shape.at[k], &c) || c >= 0) continue;
        if (*out >= 0) return sn_rule_fail(r, "only one size can be -1");
        *out = (int)k;
    }
    return SN_OK;
}

/* The size that makes the products equal. */
static sn_status solve_wildcard(sn_ix *out, const sn_rule *r, sn_ix numel, sn_ix others) {
    int64_t per;
    if (const_size(r, others, &per) && per > 0 && sn_ix_is_multiple(r->m, numel, per)) {
        *out = sn_ix_divc(r->m, numel, per);
        return SN_OK;
    }
    if (!const_size(r, others, &per)) {
        *out = sn_ix_div(r->m, numel, others);
        if (sn_ix_eq(sn_ix_mul(r->m, *out, others), numel)) return SN_OK;
    }
    return sn_rule_fail(r, "cannot find the size -1: %s elements in groups of %s", sn_ix_text(r->m, numel),
                        sn_ix_text(r->m, others));
}

sn_status sn_rule_reshape(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0);
    const sn_attr *shape = sn_rule_attr(r, SN_ATTR_SHAPE);
    sn_type *out = r->out;
    int wildcard;
    SN_TRY(find_wildcard(&wildcard, r, shape));
    out->dtype = x->dtype;
    out->rank = shape->shape.n;
    for (uint32_t k = 0; k < out->rank; k++)
        out->shape[k] = (int)k == wildcard ? sn_ix_const(r->m, 1) : shape->shape.at[k];
    SN_TRY(sn_type_check(r->m, "reshape", out));
    sn_ix before = sn_type_numel(r->m, x), after = sn_type_numel(r->m, out);
    if (wildcard >= 0) return solve_wildcard(&out->shape[wildcard], r, before, after);
    if (sn_ix_eq(before, after)) return SN_OK;
    return sn_rule_fail(r, "shape %s has %s elements, %s has %s", sn_shape_text(r->m, x), sn_ix_text(r->m, before),
                        sn_shape_text(r->m, out), sn_ix_text(r->m, after));
}

sn_status sn_rule_permute(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0);
    const sn_attr *perm = sn_rule_attr(r, SN_ATTR_PERM);
    uint32_t seen = 0;
    if (perm->ints.n != x->rank) return sn_rule_fail(r, "perm has %u entries for %u axes", perm->ints.n, x->rank);
    r->out->dtype = x->dtype;
    r->out->rank = x->rank;
    for (uint32_t k = 0; k < x->rank; k++) {
        uint32_t axis;
        SN_TRY(sn_rule_axis(&axis, r, perm->ints.at[k], x->rank));
        if (seen >> axis & 1) return sn_rule_fail(r, "axis %u is listed twice", axis);
        seen |= 1u << axis;
        r->out->shape[k] = x->shape[axis];
    }
    return SN_OK;
}

sn_status sn_rule_expand(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0);
    const sn_attr *shape = sn_rule_attr(r, SN_ATTR_SHAPE);
    uint32_t rank = shape->shape.n;
    if (rank < x->rank) return sn_rule_fail(r, "shape %s has more than %u axes", sn_shape_text(r->m, x), rank);
    r->out->dtype = x->dtype;
    r->out->rank = rank;
    for (uint32_t k = 0; k < rank; k++) {
        sn_ix want = shape->shape.at[k];
        int64_t c;
        bool is_new = k + x->rank < rank;
        bool keep = const_size(r, want, &c) && c < 0;
        if (is_new && keep) return sn_rule_fail(r, "axis %u is new and cannot have size -1", k);
        sn_ix have = is_new ? want : x->shape[k + x->rank - rank];
        bool stretches = const_size(r, have, &c) && c == 1;
        r->out->shape[k] = keep ? have : want;
        if (!keep && !stretches && !sn_ix_eq(have, want))
            return sn_rule_fail(r, "axis %u has size %s and cannot become %s", k, sn_ix_text(r->m, have),
                                sn_ix_text(r->m, want));
    }
    return SN_OK;
}

sn_status sn_rule_squeeze(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0);
    uint32_t mask;
    SN_TRY(sn_rule_mask(&mask, r, x->rank));
    r->out->dtype = x->dtype;
    for (uint32_t k = 0; k < x->rank; k++) {
        int64_t c;
        if (!(mask >> k & 1)) r->out->shape[r->out->rank++] = x->shape[k];
        else if (!const_size(r, x->shape[k], &c) || c != 1)
            return sn_rule_fail(r, "axis %u has size %s, not 1", k, sn_ix_text(r->m, x->shape[k]));
    }
    return SN_OK;
}

sn_status sn_rule_unsqueeze(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0);
    uint32_t rank = x->rank + sn_rule_attr(r, SN_ATTR_AXES)->ints.n, mask, from = 0;
    if (rank > SN_MAX_RANK)
        return sn_rule_fail(r, "the result would have %u axes; a tensor has at most %d", rank, SN_MAX_RANK);
    SN_TRY(sn_rule_mask(&mask, r, rank));
    r->out->dtype = x->dtype;
    r->out->rank = rank;
    for (uint32_t k = 0; k < rank; k++) r->out->shape[k] = mask >> k & 1 ? sn_ix_const(r->m, 1) : x->shape[from++];
    return SN_OK;
}

/* A slice position as a size expression: 0 <= result <= size. */
static sn_ix clamp_position(const sn_rule *r, int64_t position, sn_ix size) {
    sn_module *m = r->m;
    int64_t c;
    if (const_size(r, size, &c)) return sn_ix_const(m, sn_slice_clamp(position, c));
    if (position == INT64_MAX) return size; /* "to the end" */
    if (position == 0) return sn_ix_const(m, 0);
    if (position > 0) return sn_ix_min(m, size, sn_ix_const(m, position));
    return sn_ix_max(m, sn_ix_addc(m, size, position), sn_ix_const(m, 0));
}

/* max(stop - start, 0) with both clamped to the axis. The result is 0 wherever a start from the front is beyond the end
 * or a stop from the back before the start, so these need no clamp of their own: [1:] of N elements has max(N - 1,
 * 0). */
static sn_ix slice_span(const sn_rule *r, int64_t start, int64_t stop, sn_ix size) {
    sn_module *m = r->m;
    int64_t c;
    if (start < 0 || start > INT32_MAX || const_size(r, size, &c)) /* the large ones would overflow */
        return sn_ix_sub(m, clamp_position(r, stop, size), clamp_position(r, start, size));
    sn_ix end = stop < 0 && stop > INT32_MIN ? sn_ix_addc(m, size, stop) : clamp_position(r, stop, size);
    return sn_ix_addc(m, end, -start);
}

sn_status sn_rule_slice(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0);
    sn_module *m = r->m;
    int64_t step = sn_rule_int(r, SN_ATTR_STEP, 1), c;
    uint32_t axis;
    SN_TRY(sn_rule_axis(&axis, r, sn_rule_attr(r, SN_ATTR_AXIS)->i, x->rank));
    if (step < 1)
        return sn_rule_fail(r, "step is %lld; it must be positive (backwards: flip, then slice)", (long long)step);
    *r->out = *x;
    sn_ix n = slice_span(r, sn_rule_int(r, SN_ATTR_START, 0), sn_rule_int(r, SN_ATTR_STOP, 0), x->shape[axis]);
    if (const_size(r, n, &c)) n = sn_ix_const(m, c > 0 ? c / step + (c % step != 0) : 0);
    else n = sn_ix_ceildiv(m, sn_ix_max(m, n, sn_ix_const(m, 0)), sn_ix_const(m, step));
    r->out->shape[axis] = n;
    return SN_OK;
}

enum { WINDOW_MAX = INT32_MAX }; /* keeps all window arithmetic inside int64 */

static sn_status check_window(const sn_rule *r, sn_attr_id id, int64_t value) {
    return value >= 1 && value <= WINDOW_MAX
               ? SN_OK
               : sn_rule_fail(r, "%s %lld is not in 1 .. %d", sn_attrs[id].name, (long long)value, WINDOW_MAX);
}

sn_status sn_rule_unfold(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0);
    const sn_attr *dilation = sn_rule_attr(r, SN_ATTR_DILATION);
    int64_t taps = sn_rule_attr(r, SN_ATTR_SIZE)->i, step = sn_rule_int(r, SN_ATTR_STEP, 1), size;
    uint32_t axis;
    SN_TRY(sn_rule_axis(&axis, r, sn_rule_attr(r, SN_ATTR_AXIS)->i, x->rank));
    if (x->rank == SN_MAX_RANK)
        return sn_rule_fail(r, "the result would have %u axes; a tensor has at most %d", x->rank + 1, SN_MAX_RANK);
    if (dilation && dilation->ints.n != 1) return sn_rule_fail(r, "dilation has %u entries, not 1", dilation->ints.n);
    SN_TRY(check_window(r, SN_ATTR_SIZE, taps));
    SN_TRY(check_window(r, SN_ATTR_STEP, step));
    SN_TRY(check_window(r, SN_ATTR_DILATION, dilation ? dilation->ints.at[0] : 1));
    int64_t span = (taps - 1) * (dilation ? dilation->ints.at[0] : 1) + 1;
    if (const_size(r, x->shape[axis], &size) && size < span)
        return sn_rule_fail(r, "a window of %lld does not fit axis %u of %lld elements", (long long)span, axis,
                            (long long)size);
    *r->out = *x;
    r->out->shape[axis] = sn_ix_addc(r->m, sn_ix_divc(r->m, sn_ix_addc(r->m, x->shape[axis], -span), step), 1);
    r->out->shape[r->out->rank++] = sn_ix_const(r->m, taps);
    return SN_OK;
}

sn_status sn_rule_flip(sn_rule *r) {
    uint32_t mask;
    *r->out = *sn_rule_in(r, 0);
    return sn_rule_mask(&mask, r, r->out->rank);
}

/* ---- moves ---- */

sn_status sn_rule_copy(sn_rule *r) {
    *r->out = *sn_rule_in(r, 0);
    return SN_OK;
}

sn_status sn_rule_pad(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0);
    const sn_attr *low = sn_rule_attr(r, SN_ATTR_LOW), *high = sn_rule_attr(r, SN_ATTR_HIGH);
    const sn_attr *value = sn_rule_attr(r, SN_ATTR_VALUE);
    if (low->ints.n != x->rank || high->ints.n != x->rank)
        return sn_rule_fail(r, "low has %u and high has %u entries for %u axes", low->ints.n, high->ints.n, x->rank);
    *r->out = *x;
    for (uint32_t k = 0; k < x->rank; k++) {
        const int64_t most = (int64_t)1 << 62; /* positions of the operand are computed from these */
        int64_t more, size;
        if (low->ints.at[k] < -most || low->ints.at[k] > most || high->ints.at[k] < -most ||
            sn_add_overflow(low->ints.at[k], high->ints.at[k], &more) ||
            (const_size(r, x->shape[k], &size) && sn_add_overflow(size, more, &size)))
            return sn_rule_fail(r, "axis %u gets too long or too short", k);
        r->out->shape[k] = sn_ix_addc(r->m, x->shape[k], more);
        if (const_size(r, r->out->shape[k], &size) && size < 0)
            return sn_rule_fail(r, "axis %u of size %s loses %llu elements", k, sn_ix_text(r->m, x->shape[k]),
                                -(unsigned long long)more);
    }
    return value ? sn_rule_number(r, "value", x->dtype, value->f) : SN_OK;
}

sn_status sn_rule_concat(sn_rule *r) {
    const sn_type *first = sn_rule_in(r, 0);
    uint32_t axis;
    SN_TRY(sn_rule_same_dtype(r));
    SN_TRY(sn_rule_axis(&axis, r, sn_rule_attr(r, SN_ATTR_AXIS)->i, first->rank));
    *r->out = *first;
    for (uint32_t k = 1; k < r->n_in; k++) {
        const sn_type *x = sn_rule_in(r, k);
        bool fits = x->rank == first->rank;
        for (uint32_t d = 0; fits && d < x->rank; d++) fits = d == axis || sn_ix_eq(x->shape[d], first->shape[d]);
        if (!fits)
            return sn_rule_fail(r, "shapes %s and %s do not join along axis %u", sn_shape_text(r->m, first),
                                sn_shape_text(r->m, x), axis);
        int64_t a, b;
        sn_ix *size = &r->out->shape[axis];
        if (const_size(r, *size, &a) && const_size(r, x->shape[axis], &b) && sn_add_overflow(a, b, &a))
            return sn_rule_fail(r, "tensor has more than 2^62 elements");
        *size = sn_ix_add(r->m, *size, x->shape[axis]);
    }
    return SN_OK;
}

/* Positions on an axis without elements are all outside: no element of the result would have a value. */
static sn_status check_indexed_axis(const sn_rule *r, uint32_t axis) {
    const sn_type *x = sn_rule_in(r, 0);
    int64_t size, numel = 0;
    if (!const_size(r, x->shape[axis], &size) || size > 0) return SN_OK;
    if (!const_size(r, sn_type_numel(r->m, r->out), &numel) || numel == 0) return SN_OK;
    return sn_rule_fail(r, "axis %u of shape %s has no elements that the index of shape %s could choose from", axis,
                        sn_shape_text(r->m, x), sn_shape_text(r->m, sn_rule_in(r, 1)));
}

static sn_status check_index_dtype(const sn_rule *r) {
    sn_dtype t = sn_rule_in(r, 1)->dtype;
    if (t == SN_I32 || t == SN_I64 || t == SN_U32 || t == SN_U64) return SN_OK;
    return sn_rule_fail(r, "the index is %s, not i32, i64, u32 or u64", sn_dtypes[t].name);
}

sn_status sn_rule_gather(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0), *index = sn_rule_in(r, 1);
    uint32_t axis;
    SN_TRY(check_index_dtype(r));
    if (x->rank != index->rank) return sn_rule_fail(r, "x has %u axes but index has %u", x->rank, index->rank);
    SN_TRY(sn_rule_axis(&axis, r, sn_rule_attr(r, SN_ATTR_AXIS)->i, x->rank));
    for (uint32_t k = 0; k < x->rank; k++) {
        int64_t a, b;
        bool known = const_size(r, x->shape[k], &a) && const_size(r, index->shape[k], &b);
        bool fits = k == axis || sn_ix_eq(x->shape[k], index->shape[k]) || (known && b <= a);
        if (!fits)
            return sn_rule_fail(r, "index of shape %s does not fit x of shape %s (axis %u: %s vs %s)",
                                sn_shape_text(r->m, index), sn_shape_text(r->m, x), k,
                                sn_ix_text(r->m, index->shape[k]), sn_ix_text(r->m, x->shape[k]));
    }
    *r->out = *index;
    r->out->dtype = x->dtype;
    SN_TRY(sn_type_check(r->m, "gather", r->out));
    return check_indexed_axis(r, axis);
}

sn_status sn_rule_index_select(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0), *index = sn_rule_in(r, 1);
    sn_type *out = r->out;
    uint32_t axis;
    SN_TRY(check_index_dtype(r));
    SN_TRY(sn_rule_axis(&axis, r, sn_rule_attr(r, SN_ATTR_AXIS)->i, x->rank));
    if (x->rank + index->rank - 1 > SN_MAX_RANK)
        return sn_rule_fail(r, "the result would have %u axes; a tensor has at most %d", x->rank + index->rank - 1,
                            SN_MAX_RANK);
    out->dtype = x->dtype;
    for (uint32_t k = 0; k < axis; k++) out->shape[out->rank++] = x->shape[k];
    for (uint32_t k = 0; k < index->rank; k++) out->shape[out->rank++] = index->shape[k];
    for (uint32_t k = axis + 1; k < x->rank; k++) out->shape[out->rank++] = x->shape[k];
    SN_TRY(sn_type_check(r->m, "index_select", out));
    return check_indexed_axis(r, axis);
}

sn_status sn_rule_scatter(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0), *index = sn_rule_in(r, 1), *updates = sn_rule_in(r, 2);
    SN_TRY(check_index_dtype(r));
    if (x->rank == 0) return sn_rule_fail(r, "x has no rows");
    if (index->rank != 1) return sn_rule_fail(r, "the index is %s, not a list", sn_shape_text(r->m, index));
    if (updates->dtype != x->dtype)
        return sn_rule_fail(r, "the updates are %s, x is %s; cast one of them", sn_dtypes[updates->dtype].name,
                            sn_dtypes[x->dtype].name);
    sn_type rows = *x;
    rows.shape[0] = index->shape[0];
    bool fits = updates->rank == x->rank;
    for (uint32_t k = 0; fits && k < x->rank; k++) fits = sn_ix_eq(rows.shape[k], updates->shape[k]);
    if (!fits)
        return sn_rule_fail(r, "updates of shape %s are not %s rows of x of shape %s", sn_shape_text(r->m, updates),
                            sn_ix_text(r->m, index->shape[0]), sn_shape_text(r->m, x));
    *r->out = *x;
    return SN_OK;
}

sn_status sn_rule_scatter_reduce(sn_rule *r) {
    if (sn_rule_in(r, 0)->dtype == SN_BOOL) return sn_rule_refuse(r, SN_BOOL, true);
    return sn_rule_scatter(r);
}
