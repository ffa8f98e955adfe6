/* split_reduction.c: the pass `split-reduction`: a long reduction with few results is cut into two kernels.
 *
 *     k0: %0 = reduce sum r in 268435456 { load x[r] }  store y[0], %0
 *  -> k0_part: loop s in 528 { %0 = reduce sum r in 508416 { load x[508416*s + r] }  store k0_p0[s], %0 }
 *     k0: %0 = reduce sum s in 528 { load k0_p0[s] }  store y[0], %0
 *
 * There are as many parts as keep all multiprocessors busy equally long, and parts of a row begin with a line of
 * memory, so that their vectors are whole ones.
 *
 * What stands behind the last whole vector of all is no part's: the second kernel makes its terms itself, beside the parts, so that no vector of the
 * first one has lanes outside, each with a test and a load of its own (any of 170 million bytes and 10 42 us for 54 on an H200, a variance of 64 million
 * halves and 4 33 for 54):
 *
 *     k0: %0 = reduce sum s in 528 + 3 { %1 = load x[268435453 - 528 + s]   %2 = load k0_p0[s] if s < 528   yield s < 528 ? %2 : %1 }
 *
 * A sum and the sum of squares about what is made of it (passes/schedule/base/moments.c) are cut together, into parts that
 * stay on the chip, so that memory is read once. Each part has its own mean, and what the parts are off it is added:
 *
 *     k0: %0 = reduce sum r { x[r] }   %1 = f(%0)   %2 = reduce sum r { (x[r] - %1)^2 }   store y[0], %2
 *  -> k0_part: loop s { %0 = reduce sum r { x[L*s + r] }   %1 = div %0, n(s)   %2 = reduce sum r { (x[L*s + r] - %1)^2 }
 *                       store k0_p0[s], %0   store k0_q[s], %2 }
 *     k0: %0 = reduce sum s { k0_p0[s] }   %1 = f(%0)
 *         %2 = reduce sum s { k0_q[s] + n(s) * (k0_p0[s] / n(s) - %1)^2 }   store y[0], %2
 *
 * Columns that are few, or no multiple of a vector, become wide ones: what stands side by side in memory is reduced
 * side by side, and put together by the second kernel. Either W iterations of the reduction that follow each other,
 *
 *     loop i in 3 { reduce sum r in 4000000 { load x[3*r + i] } }
 *  -> k0_part: loop s in 66 { loop j in 192 { reduce sum q in 947 { load x[181824*s + 192*q + j] }  store k0_p0[192*s + j] } }
 *     k0: loop i in 3 { reduce sum s in 66 { reduce sum w in 64 { load k0_p0[192*s + 3*w + i] } }  store y[i] }
 *
 * or those of an axis of the reduction that stands behind the columns, if these are pieces shorter than a line, or odd:
 *
 *     loop i in 16300 { reduce sum r in 256 { reduce sum c in 3 { load x[48900*r + 3*i + c] } } }
 *  -> k0_part: loop j in 48900 { reduce sum r in 256 { load x[48900*r + j] }  store k0_p0[j] }
 *     k0: loop i in 16300 { reduce sum w in 3 { load k0_p0[3*i + w] }  store y[i] }
 *
 * A part is of one axis: the iterations of those around it are parts of their own, and those inside stay loops, so that
 * where an element lies follows from the number of the part, a multiplication for each axis, and from no division:
 *
 *     loop i in 17 { reduce sum a in 8 { reduce sum r in 1759008 { load x[29903136*a + 1759008*i + r] } } }
 *  -> k0_part: loop s in 72 { loop i in 17 { reduce sum r in 195456 {
 *         load x[29903136*(s div 9) + 195456*(s mod 9) + 1759008*i + r] } store k0_p0[17*s + i] } }
 *
 * Parts of columns that a kernel behind reads again have iterations in turns, s, S + s, 2*S + s: all of them end at the end of the
 * buffer, with what the L2 has when the kernel behind begins there.
 *
 * Decided after fusion, so that it blocks no epilogue: whatever stood behind the reduction stays behind the second
 * one. The order of summation is fixed, so results are the same bits from run to run. Only kernels with one perfect
 * reduce nest that would leave the device idle are cut, or whose columns become wider; none that a library runs. On the CPU
 * there are as many parts as threads, and columns stay as they are (parts_for_threads). Products whose header says how they
 * are done are left whole, and so are those of few rows that keep the memory busy as they are, and those of tiles whose sums
 * are not very long: `choose` cuts those that gain by it. So are sums for taps, which blocks of their class share.
 * Cost: linear in the kernel.
 */
#include "ir/loop/equal.h"
#include "passes/base/rebuild.h"

#include "passes/loops/wide_columns.h"

#include "passes/schedule/products/contract_rows.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/moments.h"
#include "passes/schedule/choose.h"

#include <math.h>

typedef struct cut {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k, part;
    sn_stmt nest; /* the reduction, in k */
    sn_chain chain, outer;
    int64_t rows, count, parts, length;
    sn_wide_columns columns;
    int64_t width;  /* iterations that become columns; 1: none */
    uint32_t at;    /* axis of the reduction of whose iterations a part has `length`, where several are left; */
    int64_t pieces; /* ... into as many it is cut; 0: parts are of all iterations one after the other */
    sn_buf partial[8];
    bool again;      /* the kernel is what an earlier cut left */
    bool wrapped;    /* the outer loop was made here, around everything */
    int64_t tail;    /* elements behind the last whole vector of a lone row, which the second kernel takes in */
    bool in_order;   /* parts of a row follow each other, since a kernel behind reads the rows again (reverse_grid.c) */
    bool in_turns;   /* ... the columns: parts have iterations in turns, and end together where the memory does */
    bool moments;    /* `nest` and the squares about what it comes to */
    sn_moments pair; /* ... in k */
    sn_buf spread;   /* squares of the parts about their own means */
} cut;

/* ---- is it worth it? ---- */

static sn_stmt only_nest(const sn_module *m, sn_kern k, sn_stmt body) {
    sn_stmt nest = {0};
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s)) {
        if (!sn_lop_has_region(sn_stmt_get(m, s)->op)) continue;
        if (nest.i || sn_stmt_get(m, s)->op != SN_LOP_REDUCE) return (sn_stmt){0};
        nest = s;
    }
    return nest;
}

static bool reduces_along(const cut *c) {
    uint32_t least;
    if (!c->outer.n) return true;
    int64_t inner = sn_nest_bytes_along(c->m, c->nest, sn_stmt_axis(c->m, c->chain.at[c->chain.n - 1]), &least);
    return inner >= sn_nest_bytes_along(c->m, c->nest, sn_stmt_axis(c->m, c->outer.at[c->outer.n - 1]), &least);
}

/* Does a kernel behind position `at` read what the nest reads, more than the cache holds? Then it finds there what was read
 * last, if that is the end of the buffer and not of every row. */
static bool is_read_again(const cut *c, const sn_users *users, uint32_t at) {
    sn_module *m = c->m;
    sn_stmt end = sn_stmt_walk_skip(m, c->nest);
    for (sn_stmt s = c->nest; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_loads(r) || sn_buf_bytes(m, r->buf) <= (int64_t)(c->cx->target->cache_bytes / 2)) continue;
        if (sn_users_touch(users, r->buf, at + 1, m->kernels.n)) return true;
    }
    return false;
}

/* Blocks of so many parts, where one has `each` of the rows or columns. */
static int64_t blocks_of(const cut *c, int64_t parts, int64_t each) {
    return sn_ceil_div(sn_mul_clamped(parts, c->rows * c->width), each);
}

/* About `wanted` parts: a number whose blocks leave multiprocessors hardly idle at the end. A little fewer, if they are of
 * equal length, else the first one that is no smaller, or what comes nearest. */
static int64_t even_parts(const cut *c, int64_t each, int64_t wanted, int64_t most) {
    int64_t units = c->cx->target->units, parts = wanted, steps = sn_ceil_div(c->count, c->width);
    double best = 0;
    for (int64_t p = wanted - wanted / SN_SPLIT_FEWER; p <= most && p < wanted + SN_SPLIT_TRIES; p++) {
        int64_t blocks = blocks_of(c, p, each);
        double even = (double)blocks / (double)(sn_ceil_div(blocks, units) * units);
        if (p <= wanted && even * 100 >= SN_SPLIT_EVEN && steps % p == 0) return p;
        if (p >= wanted && best * 100 < SN_SPLIT_EVEN && even > best) best = even, parts = p;
    }
    return parts;
}

/* As many parts as that many blocks a multiprocessor take, of at least so many iterations each. */
static int64_t parts_for(const cut *c, int64_t each, int64_t per_unit, int64_t least) {
    int64_t blocks = blocks_of(c, 1, each), most = c->count / c->width / least;
    int64_t wanted = per_unit * c->cx->target->units / (blocks ? blocks : 1);
    if (c->width > 1 && most > SN_SPLIT_SECOND / c->width) most = SN_SPLIT_SECOND / c->width;
    if (wanted > most) wanted = most;
    return wanted < 2 ? 1 : even_parts(c, each, wanted, most < 2 * wanted ? most : 2 * wanted);
}

/* Blocks of parts of rows that a multiprocessor has at a time: as many are made, so that all begin and end together. */
static uint32_t resident(const cut *c) {
    const sn_stmt_rec *nest = sn_stmt_get(c->m, c->nest);
    uint32_t least;
    sn_nest_bytes_along(c->m, c->nest, sn_stmt_axis(c->m, c->chain.at[c->chain.n - 1]), &least);
    return sn_once_blocks(least ? sn_widest_alone(c->cx, least) : 1, nest->combs[0] == SN_COMB_SUMEXP);
}

/* Columns that lie side by side. */
static int64_t columns_of(const cut *c) { return c->outer.n ? c->columns.size * c->columns.rounds : 1; }

/* Columns that a block of class outer has: those of narrow elements are more, since a thread's vectors are as wide, but for bytes that
 * widen. */
static int64_t columns_of_block(const cut *c) {
    const sn_stmt_rec *r = sn_stmt_get(c->m, c->nest);
    uint32_t least = c->columns.bytes, states = 0;
    for (uint32_t k = 0; k < r->n_results; k++)
        states += sn_dtype_bytes(sn_val_get(c->m, sn_result(r, k))->dtype) > 4 ? 2 : 1;
    bool few_lanes = states > SN_FULL_STATES && least != 1;
    if (!c->outer.n || (few_lanes && least < sizeof(double))) return SN_SPLIT_COLUMNS;
    if (!least) sn_nest_bytes_along(c->m, c->nest, sn_stmt_axis(c->m, c->outer.at[c->outer.n - 1]), &least);
    uint32_t lanes = sn_least(sn_widest_alone(c->cx, least), sn_pow2_divisor(columns_of(c)));
    if (least == 1 && states > 1) lanes = sn_least(lanes, SN_WIDENED_LANES);
    if (least == sizeof(double) && lanes > 1) return lanes * SN_COLUMN_THREADS;
    return lanes * SN_COLUMN_THREADS > SN_SPLIT_COLUMNS ? lanes * SN_COLUMN_THREADS : SN_SPLIT_COLUMNS;
}

/* The loops of a part: those of the reduction, less what has become columns. */
static uint32_t steps_of(const cut *c, int64_t *steps) {
    uint32_t n = c->chain.n - c->columns.behind;
    for (uint32_t k = 0; k < n; k++) steps[k] = sn_ix_value(c->m, sn_stmt_extent(c->m, c->chain.at[k]));
    steps[n - 1] = sn_ceil_div(steps[n - 1], c->columns.rounds);
    return n;
}

/* How near parts of `length` iterations of an axis of so many come to all multiprocessors working all the time, each with as many
 * blocks as are enough for it. */
static double evenness(const cut *c, int64_t steps, int64_t length, int64_t blocks, int64_t enough) {
    double turns = (double)blocks / c->cx->target->units, pieces = (double)sn_ceil_div(steps, length);
    double even = turns / ceil(turns) * (double)steps / (pieces * (double)length), more = turns / (double)enough;
    return more < 1 ? even * more : even * 100 / (100 + SN_SPLIT_BEGIN * (more - 1));
}

/* Does a row of several axes lie in memory in runs of its last one that are long enough to be parts? */
static bool is_run(const cut *c) {
    uint32_t least;
    sn_axis last = sn_stmt_axis(c->m, c->chain.at[c->chain.n - 1]);
    if (c->chain.n < 2 || sn_nest_bytes_along(c->m, c->nest, last, &least) == 0) return false;
    return sn_ix_value(c->m, sn_axis_get(c->m, last)->extent) * least >= SN_SPLIT_RUN;
}

/* Columns that are pieces of a line, but many of whose matrices follow each other in memory, which blocks have whole (schedule/rows/flat.c). */
static bool are_many_pieces(const cut *c) {
    const sn_wide_columns *wc = &c->columns;
    if (!c->outer.n || c->width > 1 || !wc->bytes || wc->strides[0][c->outer.n - 1] != 1) return false;
    return wc->size * wc->bytes < SN_LINE && c->rows / wc->size >= SN_SPLIT_ENOUGH * c->cx->target->units;
}

/* Of several axes one is cut, and those around it are parts as they are. Wide columns have a second kernel anyway, so that they are
 * cut for the sake of evenness alone. per_block: columns of a block, of those that each part has; 0: a block is a part of a row. */
static int64_t cut_axis(cut *c, int64_t per_block, int64_t per_unit, int64_t least) {
    int64_t steps[SN_MAX_CHAIN], around = 1, best_parts = 1, each = c->rows * c->width, per = per_block ? per_block : 1;
    int64_t most = SN_ONLINE_TURNS * per_unit * c->cx->target->units / sn_ceil_div(each, per);
    uint32_t n = steps_of(c, steps), first = 0;
    bool runs = !per_block && is_run(c); /* nobody has to find out in which of them a position is */
    double best = 0;
    if (c->width > 1 && most > SN_SPLIT_SECOND / c->width) most = SN_SPLIT_SECOND / c->width;
    if (runs) {
        for (; first + 1 < n; first++) around *= steps[first];
        if (most < around) most = around;
    }
    for (uint32_t d = first; d < n && around <= most; around *= steps[d++]) {
        int64_t inside = 1;
        for (uint32_t k = d + 1; k < n; k++) inside *= steps[k];
        for (int64_t p = 1; p <= steps[d] && p * around <= most; p++) {
            int64_t length = sn_ceil_div(steps[d], p);
            if (!per_block && d == n - 1 && p > 1) length = sn_ceil_div(length, SN_SPLIT_LINE) * SN_SPLIT_LINE;
            int64_t pieces = sn_ceil_div(steps[d], length), parts = pieces * around,
                    blocks = sn_ceil_div(parts * each, per);
            if (parts < 2 ? c->width == 1 : length * inside < least && !(runs && p == 1)) continue;
            double even = evenness(c, steps[d], length, blocks, parts < 2 ? SN_SPLIT_ENOUGH : per_unit);
            if (even <= best) continue;
            best = even, best_parts = parts;
            c->at = d, c->pieces = parts > 1 ? pieces : 0, c->length = length;
        }
    }
    return best_parts;
}

/* Rows of rows that are long, but of which no vectors begin one: each is a part, whose vectors start before it
 * (passes/schedule/rows/rows.c). */
static int64_t cut_odd_rows(cut *c) {
    uint32_t least, last = c->chain.n - 1;
    int64_t n = sn_ix_value(c->m, sn_stmt_extent(c->m, c->chain.at[last]));
    sn_nest_bytes_along(c->m, c->nest, sn_stmt_axis(c->m, c->chain.at[last]), &least);
    if (!last || !least) return 1;
    uint32_t wide = sn_widest_alone(c->cx, least), even = sn_least(wide, sn_pow2_divisor(n));
    bool large = sn_mul_clamped(sn_mul_clamped(c->rows, c->count), least) >= SN_SPLIT_ODD_ROWS;
    bool short_row = even * least >= SN_WIDE_ENOUGH || n < sn_odd_row(wide, least);
    if (even == wide || (short_row && !(large && is_run(c)))) return 1;
    c->at = last, c->pieces = 1, c->length = n;
    return c->count / n;
}

/* Do the iterations of all axes follow each other in memory as if they were one? Then they are cut as one; positions alone tell them
 * apart. */
static bool is_one_axis(const cut *c) {
    sn_module *m = c->m;
    uint32_t last = c->chain.n - 1;
    sn_stmt end = sn_stmt_walk_skip(m, c->nest);
    for (sn_stmt s = c->nest; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        int64_t step, stride;
        if (!sn_is_access(r)) continue;
        if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, c->chain.at[last]), &stride)) return false;
        for (uint32_t k = last; k-- > 0;) {
            stride *= sn_ix_value(m, sn_stmt_extent(m, c->chain.at[k + 1]));
            if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, c->chain.at[k]), &step) || step != stride) return false;
        }
    }
    return true;
}

/* Is one of several axes cut? So are wide columns of elements that are narrow, which many parts make even. */
static bool has_axes(const cut *c) {
    bool several = c->chain.n - c->columns.behind > 1 && !(c->width == 1 && is_one_axis(c));
    return several || (c->width > 1 && (c->columns.behind || c->columns.bytes < SN_COLUMN_WORD));
}

/* Number of parts; 1: leave it whole. */
static int64_t choose_parts(cut *c, bool inner) {
    int64_t units = c->cx->target->units, per_block = inner ? 0 : columns_of_block(c);
    int64_t per_unit = inner ? resident(c) : SN_SPLIT_COLUMN_BLOCKS;
    int64_t least = inner ? SN_SPLIT_PART : SN_SPLIT_COLUMN_PART;
    int64_t blocks = blocks_of(c, 1, inner ? 1 : per_block);
    if (blocks >= SN_SPLIT_ENOUGH * units && c->width == 1) return inner ? cut_odd_rows(c) : 1;
    if (c->count / c->width < (inner ? SN_SPLIT_LENGTH : SN_SPLIT_COLUMN)) return 1;
    if (!inner && are_many_pieces(c)) return 1;
    if (has_axes(c)) return cut_axis(c, per_block, per_unit, least);
    return blocks >= SN_SPLIT_ENOUGH * units ? 1 : parts_for(c, inner ? 1 : per_block, per_unit, least);
}

/* Do tiles of a product fill the device well enough? Their operands are shared, so that few blocks do what many rows
 * would. */
static bool is_tiled(const cut *c) {
    sn_contraction product;
    const char *why_not;
    double cycles;
    if (c->count >= SN_SPLIT_LENGTH || !sn_contraction_find(&product, &why_not, c->cx, c->k)) return false;
    if (product.m < 2 || product.n < 2) return false;
    return sn_schedule_count(&cycles, c->cx, c->k, SN_SCHED_CONTRACT) == SN_OK && cycles > 0;
}

/* Do blocks of class taps share its sums? */
static bool has_taps(const cut *c) {
    double cycles;
    return c->cx->target->is_gpu && sn_schedule_count(&cycles, c->cx, c->k, SN_SCHED_TAPS) == SN_OK && cycles > 0;
}

/* Of the CPU: as many parts as threads that would have nothing to do, where what they take off the others is more than waking
 * them. Products have a class of their own, whose tiles threads share. */
static int64_t parts_for_threads(const cut *c, bool inner) {
    sn_contraction product;
    const char *why_not;
    int64_t threads = c->cx->target->units, lanes = c->cx->target->vector_bytes / 4, values = 0;
    int64_t blocks = inner ? c->rows : sn_ceil_div(c->rows, lanes);
    if (blocks >= threads || has_axes(c)) return 1;
    bool is_product = sn_contraction_find(&product, &why_not, c->cx, c->k);
    if (is_product && (product.m > 1 || product.n > 1)) return 1;
    sn_stmt end = sn_stmt_walk_skip(c->m, c->nest);
    for (sn_stmt s = c->nest; s.i != end.i; s = sn_stmt_walk_next(c->m, s)) values += sn_stmt_get(c->m, s)->n_results;
    int64_t parts = sn_ceil_div(threads, blocks),
            cycles = sn_mul_clamped(sn_mul_clamped(c->rows, c->count), values) / lanes;
    return cycles - cycles / parts > SN_HOST_WAKE ? parts : 1;
}

/* A mean and a variance, of rows that are better read by parts. */
static bool look_at_moments(cut *c) {
    sn_module *m = c->m;
    if (!sn_moments_find(&c->pair, c->cx, c->k)) return false;
    sn_val centre = sn_stmt_get(m, c->pair.distance)->in[1];
    if (sn_stmt_inside(m, sn_val_get(m, centre)->def, c->pair.squares.at[0])) return false;
    c->outer = c->pair.outer;
    c->chain = c->pair.sum;
    c->nest = c->chain.at[0];
    c->rows = sn_chain_count(m, &c->outer);
    c->count = sn_chain_count(m, &c->chain);
    uint32_t pinned = sn_kern_get(m, c->k)->sched.split;
    if (c->rows <= 0 || c->count <= 0 || c->count == INT64_MAX) return false;
    c->length = pinned ? sn_ceil_div(c->count, pinned) : sn_moments_part(&c->pair, c->cx, true);
    if (!c->length || c->length == c->count) return false;
    c->parts = sn_ceil_div(c->count, c->length);
    return c->moments = true;
}

static bool look(cut *c) {
    sn_module *m = c->m;
    c->width = 1;
    bool gpu = c->cx->target->is_gpu;
    if (gpu && look_at_moments(c)) return true;
    sn_chain_outer(&c->outer, m, c->k);
    sn_stmt body = c->outer.n ? c->outer.at[c->outer.n - 1] : (sn_stmt){0};
    c->nest = only_nest(m, c->k, body);
    if (!c->nest.i || !sn_nest_perfect(&c->chain, m, c->nest)) return false;
    c->rows = sn_chain_count(m, &c->outer);
    c->count = sn_chain_count(m, &c->chain);
    if (c->rows <= 0 || c->count <= 0 || c->count == INT64_MAX) return false;
    uint32_t pinned = sn_kern_get(m, c->k)->sched.split;
    sn_sched_class cls = sn_kern_get(m, c->k)->sched.cls;
    bool own = cls == SN_SCHED_CONTRACT || cls == SN_SCHED_TAPS; /* sums that its blocks share */
    if (!gpu && (own || pinned)) return false;
    if (own || (!pinned && (has_taps(c) || sn_contract_rows_fill(c->cx, c->k) || is_tiled(c)))) return false;
    if (!pinned && gpu) {
        sn_wide_columns_find(&c->columns, c->cx, &c->outer, &c->chain);
        c->width = sn_wide_columns_width(&c->columns);
    }
    bool inner = c->width == 1 && reduces_along(c);
    c->parts = pinned ? pinned : gpu ? choose_parts(c, inner) : parts_for_threads(c, inner);
    if (c->pieces) return true;
    c->length = sn_ceil_div(sn_ceil_div(c->count, c->width), c->parts);
    if (!pinned && inner) c->length = sn_ceil_div(c->length, SN_SPLIT_LINE) * SN_SPLIT_LINE;
    if (!pinned) c->parts = sn_ceil_div(sn_ceil_div(c->count, c->width), c->length);
    return c->parts > 1 || c->width > 1;
}

/* Elements behind the last whole vector of all there is: the second kernel adds them one by one, so that no vector of the first has
 * lanes that stand outside, each with a test and a load of its own. 0: none, or vectors do not begin where the row does. */
static int64_t find_tail(const cut *c) {
    sn_module *m = c->m;
    uint32_t least;
    if (!c->cx->target->is_gpu || c->rows != 1 || c->width > 1 || c->pieces || c->parts < 2 || !is_one_axis(c))
        return 0;
    sn_nest_bytes_along(m, c->nest, sn_stmt_axis(m, c->chain.at[c->chain.n - 1]), &least);
    int64_t lanes = least ? sn_widest_alone(c->cx, least) : 1;
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix zeros[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < c->chain.n; k++) axes[k] = sn_stmt_axis(m, c->chain.at[k]), zeros[k] = sn_ix_const(m, 0);
    sn_stmt end = sn_stmt_walk_skip(m, c->nest);
    for (sn_stmt s = c->nest; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_is_access(r) && !sn_ix_is_multiple(m, sn_ix_subst(m, r->ix, axes, zeros, c->chain.n), lanes)) return 0;
    }
    return c->length % lanes == 0 && c->count - lanes >= c->length ? c->count % lanes : 0;
}

/* ---- the cut ---- */

/* Elements of parts. */
static int64_t in_parts(const cut *c) { return c->count - c->tail; }

/* A single loop around everything, so that the kernel can be cloned as one statement. */
static void wrap_in_loop(cut *c) {
    sn_module *m = c->m;
    sn_stmt_vec body = {0};
    for (sn_stmt s = sn_kern_get(m, c->k)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        SN_PUSH(c->cx->scratch, &body, s);
    }
    sn_stmt loop = sn_put_loop(m, sn_at_end(c->k, (sn_stmt){0}), sn_axis_new(m, "i", sn_ix_const(m, 1)), SN_AXIS_SEQ);
    for (uint32_t k = 0; k < body.n; k++) sn_stmt_insert(m, sn_at_end(c->k, loop), body.at[k]);
    sn_chain_outer(&c->outer, m, c->k);
    c->wrapped = true;
}

/* The flat position in the partial results of a part. column: in the last outer axes, which are of so many columns;
 * none: these. */
static sn_ix flat_row(const cut *c, const sn_chain *outer, sn_ix column, int64_t columns) {
    sn_ix index[SN_MAX_CHAIN], shape[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < outer->n; k++) {
        index[k] = sn_ix_axis(c->m, sn_stmt_axis(c->m, outer->at[k]));
        shape[k] = sn_stmt_extent(c->m, outer->at[k]);
    }
    if (!column.i) return sn_ix_flatten(c->m, index, shape, outer->n);
    uint32_t at = outer->n - c->columns.beside;
    index[at] = column, shape[at] = sn_ix_const(c->m, columns);
    return sn_ix_flatten(c->m, index, shape, at + 1);
}

static void make_partial_buffers(cut *c) {
    const sn_stmt_rec *nest = sn_stmt_get(c->m, c->nest);
    sn_ix shape[2] = {sn_ix_const(c->m, c->parts), sn_ix_const(c->m, c->rows * c->width)};
    uint32_t n = nest->n_results;
    for (uint32_t r = 0; r < n + c->moments; r++) {
        const char *name = sn_strf(&c->m->arena,
                                   r >= n     ? "%s_q"
                                   : c->again ? "%s_r%u"
                                              : "%s_p%u",
                                   sn_kern_get(c->m, c->k)->name, r);
        sn_dtype dtype = sn_val_get(c->m, sn_result(nest, r < n ? r : c->pair.state))->dtype;
        sn_buf b = sn_buf_new(c->m, name, dtype, SN_BUF_TEMP, shape, 2);
        sn_buf_get(c->m, b)->align = 256;
        *(r < n ? &c->partial[r] : &c->spread) = b;
    }
}

/* ---- the first kernel ---- */

/* Elements of a part. */
static sn_val count_of_part(const cut *c, sn_cursor at, sn_ix part) {
    sn_module *m = c->m;
    sn_dtype dtype = sn_buf_get(m, c->spread)->dtype;
    if (in_parts(c) % c->length == 0) return sn_put_const(m, at, dtype, (double)c->length);
    sn_ix left = sn_ix_sub(m, sn_ix_const(m, in_parts(c)), sn_ix_scale(m, part, c->length));
    return sn_put_cast(m, at, dtype, sn_put_index(m, at, SN_I64, sn_ix_min(m, left, sn_ix_const(m, c->length))));
}

/* The squares of a part are those about its own mean. */
static void centre_part(cut *c, sn_ix part) {
    sn_module *m = c->m;
    sn_moments pair;
    bool found = sn_moments_find(&pair, c->cx, c->part);
    SN_ASSERT(found), (void)found;
    sn_cursor at = sn_at_before(m, pair.squares.at[0]);
    sn_val sum = sn_result(sn_stmt_get(m, pair.sum.at[0]), pair.state);
    sn_val mean = sn_put_op2(m, at, SN_LOP_DIV, sum, count_of_part(c, at, part));
    const sn_stmt_rec *d = sn_stmt_get(m, pair.distance);
    sn_val_replace(m, c->part, d->result, sn_put_op2(m, sn_at_before(m, pair.distance), SN_LOP_SUB, d->in[0], mean));
    sn_stmt_unlink(m, pair.distance);
}

/* What nests of the first kernel are of: the part, and of wide columns the iteration with its test; none: one alone. */
typedef struct place {
    sn_ix part, turn, row;
    sn_nest_test test;
} place;

/* Where an axis of the columns is at `at`, which counts elements. */
static sn_ix in_columns(const cut *c, bool reduced, uint32_t k, sn_ix at) {
    const sn_chain *chain = reduced ? &c->chain : &c->outer;
    int64_t stride = c->columns.strides[reduced][k], n = sn_ix_value(c->m, sn_stmt_extent(c->m, chain->at[k]));
    at = sn_ix_divc(c->m, at, stride);
    return stride * n == c->columns.size ? at : sn_ix_modc(c->m, at, n);
}

/* The last outer loops, in the copy, become one over columns, whose body is returned. The test of what goes beyond the last one:
 * rounds are whole, or each column has a test of its own. */
static sn_stmt widen_columns(cut *c, sn_chain *outer, place *p) {
    sn_module *m = c->m;
    const sn_wide_columns *wc = &c->columns;
    uint32_t first = outer->n - wc->beside;
    sn_axis axes[SN_MAX_CHAIN], j = sn_axis_new(m, "j", sn_ix_const(m, columns_of(c)));
    sn_ix at = sn_ix_axis(m, j), values[SN_MAX_CHAIN], round = sn_ix_const(m, 0), rest = round;
    if (wc->rounds > 1) round = sn_ix_divc(m, at, wc->size), at = sn_ix_modc(m, at, wc->size);
    for (uint32_t k = c->chain.n - wc->behind; k < c->chain.n; k++)
        rest = sn_ix_fma(m, sn_ix_value(m, sn_stmt_extent(m, c->chain.at[k])), rest, in_columns(c, true, k, at));
    for (uint32_t k = 0; k < wc->beside; k++) {
        axes[k] = sn_stmt_axis(m, outer->at[first + k]);
        values[k] = in_columns(c, false, first + k, at);
    }
    sn_stmt loop = outer->at[first], body = outer->at[outer->n - 1];
    for (sn_stmt t = sn_stmt_get(m, body)->first, next; wc->beside > 1 && t.i; t = next) {
        next = sn_next(m, t);
        sn_stmt_unlink(m, t);
        sn_stmt_insert(m, sn_at_end(c->part, loop), t);
    }
    if (wc->beside > 1) sn_stmt_unlink(m, outer->at[first + 1]);
    sn_stmt_subst(m, loop, axes, values, wc->beside);
    sn_stmt_get(m, loop)->axis = j;
    outer->n = first + 1;
    if (c->width == 1) return loop;
    bool whole = c->count / wc->rest % wc->rounds == 0;
    int64_t n = wc->size / wc->rest;
    p->turn = sn_ix_fma(m, wc->rest, round, rest);
    p->test = (sn_nest_test){1, sn_ix_scale(m, p->turn, -1)};
    if (!whole) p->test = (sn_nest_test){n, sn_ix_sub(m, at, sn_ix_scale(m, rest, n))};
    return loop;
}

/* The loops of the reduction around the one that is cut are gone: the part knows which iteration of them it is. Returns that
 * loop, *piece: which piece of it. */
static sn_stmt enter(cut *c, sn_chain *chain, sn_ix *piece) {
    sn_module *m = c->m;
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix extents[SN_MAX_CHAIN + 1], parts[SN_MAX_CHAIN + 1];
    sn_stmt top = chain->at[0], nest = chain->at[c->at];
    for (uint32_t k = 0; k < c->at; k++)
        axes[k] = sn_stmt_axis(m, chain->at[k]), extents[k] = sn_stmt_extent(m, chain->at[k]);
    extents[c->at] = sn_ix_const(m, c->pieces);
    sn_ix_unflatten(m, *piece, extents, c->at + 1, parts);
    *piece = parts[c->at];
    if (!c->at) return nest;
    sn_stmt_unlink(m, nest);
    sn_stmt_insert(m, sn_at_before(m, top), nest);
    sn_stmt_unlink(m, top);
    sn_stmt_subst(m, nest, axes, parts, c->at);
    sn_nest_perfect(chain, m, nest);
    return nest;
}

/* The nest of a part of one axis. */
static sn_stmt shorten_axis(cut *c, sn_stmt nest, sn_chain *chain, const place *p) {
    sn_module *m = c->m;
    int64_t steps[SN_MAX_CHAIN], stride = c->width;
    sn_level levels[SN_MAX_LEVELS];
    uint32_t n = steps_of(c, steps) - c->at;
    sn_ix piece = p->part;
    nest = enter(c, chain, &piece);
    for (uint32_t k = n; k-- > 0; stride *= steps[c->at + k])
        levels[k] =
            (sn_level){sn_axis_get(m, sn_stmt_axis(m, chain->at[k]))->name, steps[c->at + k], stride, SN_AXIS_SEQ};
    levels[0].extent = c->length;
    if (c->width > 1) levels[n - 1].name = "q";
    sn_ix base = sn_ix_scale(m, piece, c->in_turns ? c->width : c->length * levels[0].stride);
    if (c->in_turns) levels[0].stride *= c->parts;
    if (p->turn.i) base = sn_ix_add(m, base, p->turn);
    int64_t count = c->at ? stride : c->count;
    return sn_nest_rebuild_by(c->cx, c->part, nest, chain, base, count, levels, n, p->turn.i ? &p->test : NULL);
}

/* That of a part of all iterations. */
static sn_stmt shorten_flat(cut *c, sn_stmt nest, const sn_chain *chain, const place *p) {
    sn_module *m = c->m;
    sn_level level = {c->width > 1 ? "q" : "r", c->length, c->in_turns ? c->width * c->parts : c->width, SN_AXIS_SEQ};
    sn_ix base = sn_ix_scale(m, p->part, c->in_turns ? c->width : c->length * c->width);
    if (p->turn.i) base = sn_ix_add(m, base, p->turn);
    return sn_nest_rebuild_by(c->cx, c->part, nest, chain, base, in_parts(c), &level, 1, p->turn.i ? &p->test : NULL);
}

/* The nest of a part at its elements alone; its results go to `to`. */
static void shorten(cut *c, sn_stmt body, sn_stmt nest, const place *p, const sn_buf *to) {
    sn_module *m = c->m;
    sn_chain chain;
    sn_nest_perfect(&chain, m, nest);
    nest = c->pieces ? shorten_axis(c, nest, &chain, p) : shorten_flat(c, nest, &chain, p);
    sn_ix at = sn_ix_fma(m, c->rows * c->width, p->part, p->row);
    for (uint32_t r = 0; r < sn_stmt_get(m, nest)->n_results; r++)
        sn_put_store(m, sn_at_end(c->part, body), to[r], at, sn_result(sn_stmt_get(m, nest), r));
}

static sn_stmt next_nest(const sn_module *m, sn_stmt s) {
    while (s.i && !sn_lop_has_region(sn_stmt_get(m, s)->op)) s = sn_next(m, s);
    return s;
}

/* The outer loops of k around a copy of its body, which is returned, and a loop over parts, if there are several: outside,
 * or inside where memory is to be walked from its beginning to its end. */
static sn_stmt copy_loops(cut *c, sn_chain *outer, sn_axis s) {
    sn_module *m = c->m;
    sn_stmt top = {0};
    if (!c->wrapped && !c->in_order && c->parts > 1) top = sn_put_loop(m, sn_at_end(c->part, top), s, SN_AXIS_SEQ);
    *outer = (sn_chain){.n = 1, .at = {sn_stmt_clone(m, sn_at_end(c->part, top), c->outer.at[0])}};
    while (outer->n < c->outer.n) outer->at[outer->n] = sn_stmt_get(m, outer->at[outer->n - 1])->first, outer->n++;
    sn_stmt body = outer->at[outer->n - 1];
    if (c->wrapped) sn_stmt_get(m, body)->axis = s; /* nothing counts by a loop of one iteration */
    if (c->wrapped || !c->in_order) return body;
    sn_stmt first = sn_stmt_get(m, body)->first, parts = sn_put_loop(m, sn_at_end(c->part, body), s, SN_AXIS_SEQ);
    for (sn_stmt t = first, next; t.i != parts.i; t = next) {
        next = sn_next(m, t);
        sn_stmt_unlink(m, t);
        sn_stmt_insert(m, sn_at_end(c->part, parts), t);
    }
    return parts;
}

/* A copy of k whose reduction covers one part and whose results go to the partial buffers. */
static void make_part(cut *c) {
    sn_module *m = c->m;
    c->part = sn_kern_new(m, sn_strf(&m->arena, c->again ? "%s_rest" : "%s_part", sn_kern_get(m, c->k)->name));
    sn_kern_get(m, c->part)->note = sn_kern_get(m, c->k)->note;
    sn_kern_get(m, c->part)->from = sn_kern_get(m, c->k)->from;
    sn_kern_get(m, c->part)->section = sn_kern_get(m, c->k)->section;
    sn_axis s = sn_axis_new(m, "s", sn_ix_const(m, c->parts));
    sn_chain outer;
    sn_stmt body = copy_loops(c, &outer, s);
    place p = {.part = c->parts > 1 ? sn_ix_axis(m, s) : sn_ix_const(m, 0)};
    for (sn_stmt t = sn_stmt_get(m, body)->first, next; t.i; t = next) {
        next = sn_next(m, t);
        if (sn_stores(sn_stmt_get(m, t))) sn_stmt_unlink(m, t);
    }
    if (c->width > 1 || c->columns.beside > 1) body = widen_columns(c, &outer, &p);
    if (c->moments) centre_part(c, p.part);
    sn_stmt nest = next_nest(m, sn_stmt_get(m, body)->first), squares = next_nest(m, sn_next(m, nest));
    p.row = c->wrapped ? sn_ix_const(m, 0) : flat_row(c, &outer, (sn_ix){0}, 0);
    shorten(c, body, nest, &p, c->partial);
    if (c->moments) shorten(c, body, squares, &p, &c->spread);
    sn_kern_dead_code(m, c->part);
    sn_kern_collect_params(m, c->part);
    sn_kern_set_precision(m, c->part, sn_kern_get(m, c->k)->sched.precision);
}

/* ---- the second kernel ---- */

/* A reduction over parts, over what else became wide columns, or over both. */
typedef struct gather {
    sn_stmt nests[SN_MAX_CHAIN + 1];
    uint32_t n;
    sn_ix part, round, rest[SN_MAX_CHAIN]; /* none: there is one alone */
} gather;

/* In the place of the nest `old`, without its yields. */
static void open_gather(gather *out, cut *c, sn_stmt old) {
    sn_module *m = c->m;
    const sn_stmt_rec *r = sn_stmt_get(m, old);
    sn_dtype dtypes[8];
    uint32_t first = c->chain.n - c->columns.behind;
    int64_t extents[SN_MAX_CHAIN + 2] = {c->parts, c->width > 1 ? c->columns.rounds : 1};
    for (uint32_t k = first; k < c->chain.n; k++)
        extents[2 + k - first] = sn_ix_value(m, sn_stmt_extent(m, c->chain.at[k]));
    *out = (gather){.n = 0};
    for (uint32_t k = 0; k < r->n_results; k++) dtypes[k] = sn_val_get(m, sn_result(r, k))->dtype;
    for (uint32_t i = 0; i < 2 + c->columns.behind; i++) {
        if (extents[i] == 1) continue;
        sn_cursor into = out->n ? sn_at_end(c->k, out->nests[out->n - 1]) : sn_at_before(m, old);
        sn_axis ax = sn_axis_new(m, i ? "w" : "s", sn_ix_const(m, extents[i]));
        *(i == 0 ? &out->part : i == 1 ? &out->round : &out->rest[first + i - 2]) = sn_ix_axis(m, ax);
        sn_stmt nest = out->nests[out->n++] = sn_put_reduce(m, into, ax, SN_AXIS_SEQ, r->combs, r->n_combs, dtypes);
        sn_stmt_get(m, nest)->from = r->from;
    }
}

/* What it takes in; its results are those of `old`. */
static void close_gather(const gather *ga, cut *c, sn_stmt old, sn_val *yields) {
    sn_module *m = c->m;
    const sn_stmt_rec *r = sn_stmt_get(m, old);
    for (uint32_t i = ga->n; i-- > 0;) {
        sn_put_yield(m, sn_at_end(c->k, ga->nests[i]), yields, r->n_results);
        for (uint32_t k = 0; k < r->n_results; k++) yields[k] = sn_result(sn_stmt_get(m, ga->nests[i]), k);
    }
    for (uint32_t k = 0; k < r->n_results; k++) sn_val_replace(m, c->k, sn_result(r, k), yields[k]);
    sn_stmt_unlink(m, old);
}

static sn_val load_partial(const cut *c, sn_cursor at, sn_buf b, sn_ix place, sn_val in) {
    sn_module *m = c->m;
    if (!in.i) return sn_put_load(m, at, b, place);
    return sn_put_load_masked(m, at, b, place, in, sn_put_const(m, at, sn_buf_get(m, b)->dtype, 0));
}

/* Where the partial results are that it takes in. */
static sn_ix partial_at(const cut *c, const gather *ga) {
    sn_module *m = c->m;
    const sn_wide_columns *wc = &c->columns;
    sn_ix column = {0};
    if (c->width > 1) {
        column = ga->round.i ? sn_ix_scale(m, ga->round, wc->size) : sn_ix_const(m, 0);
        for (uint32_t k = c->outer.n - wc->beside; k < c->outer.n; k++)
            column = sn_ix_fma(m, wc->strides[0][k], sn_ix_axis(m, sn_stmt_axis(m, c->outer.at[k])), column);
        for (uint32_t k = c->chain.n - wc->behind; k < c->chain.n; k++)
            if (ga->rest[k].i) column = sn_ix_fma(m, wc->strides[1][k], ga->rest[k], column);
    }
    sn_ix row = flat_row(c, &c->outer, column, columns_of(c));
    return ga->part.i ? sn_ix_fma(m, c->rows * c->width, ga->part, row) : row;
}

/* The squares about c of a part: those about its own mean, and how far that is from c. in: nothing is read where it does not hold;
 * none: it always does. */
static sn_val squares_of_part(cut *c, sn_cursor at, sn_ix part, sn_ix place, sn_val in) {
    sn_module *m = c->m;
    sn_val centre = sn_stmt_get(m, c->pair.distance)->in[1];
    sn_val sum = load_partial(c, at, c->partial[c->pair.state], place, in),
           own = load_partial(c, at, c->spread, place, in);
    sn_val n = count_of_part(c, at, part);
    sn_val d = sn_put_op2(m, at, SN_LOP_SUB, sn_put_op2(m, at, SN_LOP_DIV, sum, n), centre);
    sn_val off = sn_put_op2(m, at, SN_LOP_MUL, sn_put_op2(m, at, SN_LOP_MUL, d, d), n);
    return sn_put_op2(m, at, SN_LOP_ADD, own, off);
}

static void finish_squares(cut *c) {
    gather ga;
    open_gather(&ga, c, c->pair.squares.at[0]);
    sn_val all = squares_of_part(c, sn_at_end(c->k, ga.nests[ga.n - 1]), ga.part, partial_at(c, &ga), (sn_val){0});
    close_gather(&ga, c, c->pair.squares.at[0], &all);
}

/* ---- with the elements behind the last whole vector ---- */

/* A nest of k over the parts and, behind them, those elements, of which it has what the old one made of them:
 *
 *     reduce s in parts + tail { %0 = load x[whole - parts + s]   %1 = load p[s] if s < parts   yield s < parts ? %1 : %0 }
 */
static void finish_with_tail(cut *c, const sn_chain *chain, bool squares) {
    sn_module *m = c->m;
    sn_ix base = sn_ix_const(m, in_parts(c) - c->parts);
    sn_level level = {"s", c->parts + c->tail, 1, SN_AXIS_SEQ};
    sn_stmt nest = sn_nest_rebuild_by(c->cx, c->k, chain->at[0], chain, base, c->count, &level, 1, NULL);
    sn_stmt yield = sn_stmt_get(m, nest)->last;
    sn_cursor at = sn_at_before(m, yield);
    sn_ix part = sn_ix_axis(m, sn_stmt_axis(m, nest));
    sn_val in = sn_put_in(m, at, part, sn_ix_const(m, c->parts));
    for (uint32_t r = 0; r < sn_stmt_get(m, nest)->n_results; r++) {
        sn_val x = squares ? squares_of_part(c, at, part, part, in) : load_partial(c, at, c->partial[r], part, in);
        x = sn_put_op3(m, at, SN_LOP_SELECT, in, x, sn_stmt_get(m, yield)->in[r]);
        sn_stmt_get(m, yield)->in[r] = x;
    }
}

static void finish_parts(cut *c) {
    sn_module *m = c->m;
    gather ga;
    sn_val yields[8];
    open_gather(&ga, c, c->nest);
    sn_ix at = partial_at(c, &ga);
    for (uint32_t r = 0; r < sn_stmt_get(m, c->nest)->n_results; r++)
        yields[r] = sn_put_load(m, sn_at_end(c->k, ga.nests[ga.n - 1]), c->partial[r], at);
    close_gather(&ga, c, c->nest, yields);
    if (c->moments) finish_squares(c);
}

/* k with its reduction over the parts. */
static void finish_kernel(cut *c) {
    sn_module *m = c->m;
    if (!c->tail) finish_parts(c);
    else finish_with_tail(c, &c->chain, false);
    if (c->tail && c->moments) finish_with_tail(c, &c->pair.squares, true);
    if (sn_kern_get(m, c->k)->sched.split) sn_kern_get(m, c->k)->sched.split = 1; /* done */
    sn_kern_dead_code(m, c->k);
    sn_kern_collect_params(m, c->k);
    sn_kern_set_precision(m, c->k, sn_kern_get(m, c->k)->sched.precision);
}

/* Is one axis left to be cut? */
static bool is_one_loop(const cut *c) { return c->chain.n - c->columns.behind == 1; }

/* The kernel in two, if that is worth it; the first of them goes in front of it. `again`: of what an earlier cut left to it. */
static bool cut_kernel(cut *c, sn_kern_list *out, const sn_users *users, uint32_t at) {
    const char *why_not;
    if (!look(c) || sn_stmt_stores(c->m, c->nest, (sn_buf){0}) || sn_pass_library_runs(&why_not, c->cx, c->k))
        return false;
    sn_remark(c->cx, sn_kern_get(c->m, c->k)->name, "%lld results of %lld elements: cut into %lld parts%s",
              (long long)c->rows, (long long)c->count, (long long)c->parts,
              c->moments     ? ", means and squares about them in one reading"
              : c->width > 1 ? " of wide columns"
                             : "");
    c->in_order = !c->again && c->rows > 1 && c->width == 1 && reduces_along(c) && is_read_again(c, users, at);
    c->in_turns = !c->again && !c->moments && c->parts > 1 && c->outer.n && !reduces_along(c) && is_one_loop(c) &&
                  is_read_again(c, users, at);
    c->tail = find_tail(c);
    if (c->tail) c->parts = sn_ceil_div(in_parts(c), c->length);
    if (!c->outer.n) wrap_in_loop(c);
    make_partial_buffers(c);
    make_part(c);
    finish_kernel(c);
    SN_PUSH(&c->m->arena, out, c->part);
    return true;
}

/* Does the second kernel have so much to put together that few blocks would take long? */
static bool leaves_much(const cut *c) {
    int64_t all = sn_mul_clamped(sn_mul_clamped(c->rows, c->parts), c->width),
            blocks = sn_ceil_div(c->rows, SN_SPLIT_COLUMNS);
    return !c->moments && all / blocks >= SN_SPLIT_AGAIN;
}

sn_status sn_pass_split_reduction(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (!cx->target->is_gpu && cx->target->units < 2) return SN_OK;
    sn_kern_list out = {0};
    sn_users users;
    uint32_t n = m->kernels.n;
    sn_kern_set left = {.m = m, .arena = cx->scratch}; /* as they are: what is equal to one of them stays so, too */
    sn_users_find(&users, m, cx->scratch);
    for (uint32_t i = 0; i < n; i++) {
        cut c = {.cx = cx, .m = m, .k = m->kernels.at[i]}, rest = c;
        bool known = sn_kern_get(m, c.k)->scheduled || sn_kern_set_find(&left, c.k, NULL).i;
        if (!known && cut_kernel(&c, &out, &users, i)) {
            rest.again = *changed = true;
            if (cx->target->is_gpu && leaves_much(&c)) cut_kernel(&rest, &out, &users, i);
        } else if (!known) {
            sn_kern_set_add(&left, c.k);
        }
        SN_PUSH(&m->arena, &out, c.k);
    }
    m->kernels = out;
    return m->env->status;
}
