/* wide_columns.c: what lies side by side in memory around the columns of a reduction (split_reduction.c).
 *
 *     loop i in 509 { loop k in 34 { reduce r in 2048 { reduce c in 2 { load x[34612*r + 68*i + 34*c + k] } } } }
 *
 * By their strides the axes are k, c, i: each goes on where the one before it ends, and r goes on where all of them do. So
 * there are 34612 columns, or 4 * 34612 where 16 bytes have to begin one, and 512 iterations of r. Of the axes below the
 * one that is walked those of the reduction are what the second kernel puts together.
 *
 * It is worth it where columns are pieces shorter than a line, or odd, so that accesses are narrow, and where rows are
 * many enough for what the second kernel reads to be little. Not where an axis of the reduction lies innermost, in runs so
 * long that vectors may start before them: each run is a part then, with one result (split_reduction.c). Legality: the
 * same elements; what is no plain affine access without masks, of the same strides in all of them, is left alone. Cost:
 * accesses times axes.
 */
#include "passes/loops/wide_columns.h"

#include "passes/schedule/base/figures.h"

enum { AXES = 2 * SN_MAX_CHAIN };

typedef struct axis {
    uint32_t at;  /* in its chain */
    bool reduced; /* an axis of the reduction, else an outer one */
    int64_t stride, extent;
} axis;

typedef struct layout {
    sn_pass_ctx *cx;
    sn_module *m;
    const sn_chain *outer, *chain;
    axis axes[AXES]; /* by strides, from 1 on, as far as each goes on where the one before it ends */
    uint32_t n, bytes;
    int64_t others; /* what divides the strides of all that are not there */
} layout;

/* ---- the axes ---- */

static bool add_axes(layout *l, sn_ix e, const sn_chain *in, bool reduced) {
    for (uint32_t k = 0; k < in->n; k++) {
        axis a = {.at = k, .reduced = reduced, .extent = sn_ix_value(l->m, sn_stmt_extent(l->m, in->at[k]))};
        if (!sn_ix_coef(l->m, e, sn_stmt_axis(l->m, in->at[k]), &a.stride)) return false;
        uint32_t at = l->n++;
        for (; at && l->axes[at - 1].stride > a.stride; at--) l->axes[at] = l->axes[at - 1];
        l->axes[at] = a;
    }
    return true;
}

/* All accesses of the nest have the same strides; false: they have not. */
static bool find_axes(layout *l) {
    sn_module *m = l->m;
    sn_stmt end = sn_stmt_walk_skip(m, l->chain->at[0]);
    for (sn_stmt s = l->chain->at[0]; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_is_access(r)) continue;
        layout other = {.m = m};
        if (r->has_mask || !add_axes(&other, r->ix, l->outer, false) || !add_axes(&other, r->ix, l->chain, true))
            return false;
        for (uint32_t k = 0; k < other.n && l->bytes; k++) {
            const axis *a = &l->axes[k], *b = &other.axes[k];
            if (a->at != b->at || a->reduced != b->reduced || a->stride != b->stride) return false;
        }
        for (uint32_t k = 0; k < other.n && !l->bytes; k++) l->axes[l->n++] = other.axes[k];
        sn_schedule_smaller(&l->bytes, sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype));
    }
    return l->bytes > 0;
}

/* Leaves those that lie side by side. */
static void find_run(layout *l) {
    int64_t size = 1;
    uint32_t n = 0;
    while (n < l->n && l->axes[n].stride == size) size *= l->axes[n++].extent;
    for (uint32_t k = n; k < l->n; k++) l->others = sn_schedule_gcd(l->others, l->axes[k].stride);
    l->n = n;
}

/* ---- which ---- */

/* The first n axes, if they are the last ones of both chains. */
static bool take(sn_wide_columns *out, const layout *l, uint32_t n) {
    *out = (sn_wide_columns){.bytes = l->bytes, .size = 1, .rest = 1, .rounds = 1};
    for (uint32_t k = 0; k < n; k++) {
        const axis *a = &l->axes[k];
        out->size *= a->extent;
        if (a->reduced) out->rest *= a->extent, out->behind++;
        else out->beside++;
        out->strides[a->reduced][a->at] = a->stride;
    }
    for (uint32_t k = 0; k < n; k++) {
        const axis *a = &l->axes[k];
        if (a->at < (a->reduced ? l->chain->n - out->behind : l->outer->n - out->beside)) return false;
    }
    return out->beside && out->behind < l->chain->n;
}

/* Lanes that may start where all other axes leave them, in columns of such a size; 0: of any, or where there are none. */
static uint32_t lanes_of(const layout *l, int64_t size, int64_t others) {
    return sn_least(sn_widest_alone(l->cx, l->bytes), sn_least(sn_pow2_divisor(size), sn_pow2_divisor(others)));
}

/* As many rounds as vectors are whole, of the axis that goes on behind the first n ones. */
static bool make_rounds(sn_wide_columns *wc, const layout *l, uint32_t n) {
    int64_t count = sn_chain_count(l->m, l->chain) / wc->rest, others = l->others;
    for (uint32_t k = n + 1; k < l->n; k++) others = sn_schedule_gcd(others, l->axes[k].stride);
    const axis *next = n < l->n ? &l->axes[n] : NULL;
    bool goes_on = next && next->reduced && next->at + 1 == l->chain->n - wc->behind;
    if (next && !goes_on) others = sn_schedule_gcd(others, next->stride);
    uint32_t most = lanes_of(l, 0, others);
    int64_t least = l->bytes == 1 ? (int64_t)SN_COLUMN_THREADS * most : SN_SPLIT_COLUMNS;
    if (least < SN_SPLIT_COLUMNS) least = SN_SPLIT_COLUMNS;
    while (wc->rounds * wc->size < least || sn_pow2_divisor(wc->rounds * wc->size) < most) {
        bool whole = l->chain->n - wc->behind == 1 || (next && next->extent % (2 * wc->rounds) == 0);
        if (!goes_on || !whole || count / (2 * wc->rounds) < SN_SPLIT_WIDE_COLUMN) break;
        wc->rounds *= 2;
    }
    bool wide = wc->rounds * wc->size >= SN_SPLIT_COLUMNS && count / wc->rounds >= SN_SPLIT_WIDE_COLUMN;
    return wide && (wc->behind || lanes_of(l, wc->rounds * wc->size, others) == most);
}

/* Is what is reduced large enough for a second kernel to be worth it? One is made anyway where results are few. */
static bool is_worth_it(const layout *l, int64_t blocks, bool pieces) {
    int64_t rows = sn_chain_count(l->m, l->outer), count = sn_chain_count(l->m, l->chain);
    int64_t bytes = sn_mul_clamped(sn_mul_clamped(rows, count), l->bytes);
    bool few = blocks < SN_SPLIT_ENOUGH * l->cx->target->units || l->bytes == 1; /* bytes are loaded one by one else */
    return bytes >= (pieces || few ? SN_SPLIT_BYTES : SN_SPLIT_ODD_BYTES);
}

void sn_wide_columns_find(sn_wide_columns *out, sn_pass_ctx *cx, const sn_chain *outer, const sn_chain *chain) {
    layout l = {.cx = cx, .m = cx->m, .outer = outer, .chain = chain};
    uint32_t first = 0; /* axes that are of one kind, outer ones or those of the reduction */
    int64_t size = 1, rows = sn_chain_count(cx->m, outer);
    *out = (sn_wide_columns){.beside = outer->n > 0, .size = 1, .rest = 1, .rounds = 1};
    if (outer->n) out->size = sn_ix_value(cx->m, sn_stmt_extent(cx->m, outer->at[outer->n - 1]));
    if (!outer->n || !find_axes(&l)) return;
    out->bytes = l.bytes;
    find_run(&l);
    while (first < l.n && l.axes[first].reduced == l.axes[0].reduced) size *= l.axes[first++].extent;
    if (!first) return;
    bool inner = l.axes[0].reduced, pieces = size * l.bytes < SN_LINE;
    sn_wide_columns wc;
    if (!inner && take(&wc, &l, first)) *out = wc;
    if (!pieces && lanes_of(&l, size, 0) == lanes_of(&l, 0, l.others)) return;
    if (inner && size >= sn_odd_row(sn_widest_alone(cx, l.bytes), l.bytes)) return;
    if (!is_worth_it(&l, inner ? rows : sn_ceil_div(rows, SN_SPLIT_COLUMNS), pieces)) return;
    for (uint32_t n = inner ? first + 1 : first; n <= l.n; n++) {
        if (!take(&wc, &l, n) || !make_rounds(&wc, &l, n)) continue;
        uint32_t lanes = lanes_of(&l, size, 0), wide = lanes_of(&l, wc.size * wc.rounds, 0);
        if (!pieces && (wide <= lanes || (!inner && wc.behind && lanes * l.bytes >= SN_WIDE_ENOUGH))) continue;
        *out = wc;
        return;
    }
}
