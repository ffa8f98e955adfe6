/* block.c: reductions and prefixes across the threads of a GPU block.
 *
 * block.x, up to 32 threads (a power of two): butterfly shuffles. Whole warps: shuffles, then one shared slot a warp.
 * Anything else: one shared slot a thread. block.y: shuffles over the rows of a warp, where rows are that short, then one shared
 * slot for each column of what is left, a tree over the rows. Every thread ends with the same bits, because each pair is combined in
 * one order or by a commutative operation.
 *
 * Prefixes run over block.x: shuffles from lower lanes, then one shared slot a warp; always in the order of the
 * threads. The slots lie in the areas of shared.c; a barrier stands between writing and reading.
 */
#include "codegen-llvm/gen.h"

enum { AREA_LIMIT = 24 << 10, WARP = 32 };

/* ---- shuffles ---- */

/* Lanes of the last warp may not exist; the mask must not name them. */
static lv warp_mask(sn_gen *g) {
    uint32_t threads = g->threads_x * g->threads_y, rest = threads % WARP;
    if (!rest) return sn_gen_c32(g, -1);
    lv part = sn_gen_c32(g, ((int64_t)1 << rest) - 1);
    if (threads < WARP) return part;
    lv x = LLVMBuildTrunc(g->em.b, g->thread_x, g->em.cg->i32, ""),
       y = LLVMBuildTrunc(g->em.b, g->thread_y, g->em.cg->i32, "");
    lv number = em_iadd(&g->em, x, em_imul(&g->em, y, sn_gen_c32(g, g->threads_x)));
    return em_select(&g->em, em_icmp(&g->em, LLVMIntULT, number, sn_gen_c32(g, threads - rest)), sn_gen_c32(g, -1),
                     part);
}

/* From which lane: an exclusive or, a distance upwards, or a number within the segment of the warp. */
typedef struct source_lane {
    const char *intrinsic;
    lv lane;
    uint32_t limits; /* as the instruction takes them: segment in bits 8 .., last lane in 0 .. 4 */
} source_lane;

static lv shuffle_word(sn_gen *g, lv x, const source_lane *from) {
    lv args[4] = {warp_mask(g), x, from->lane, sn_gen_c32(g, from->limits)};
    return sn_em_call(&g->em, from->intrinsic, NULL, args, 4);
}

/* One scalar of any type. */
static lv shuffle_scalar(sn_gen *g, lv x, const source_lane *from) {
    sn_em *em = &g->em;
    const sn_cg *cg = em->cg;
    LLVMTypeRef type = LLVMTypeOf(x);
    if (type == cg->i32) return shuffle_word(g, x, from);
    if (type == cg->f32) return em_bitcast(em, shuffle_word(g, em_bitcast(em, x, cg->i32), from), type);
    if (type == cg->f64) return em_bitcast(em, shuffle_scalar(g, em_bitcast(em, x, cg->i64), from), type);
    if (type == cg->i64) {
        lv low = LLVMBuildTrunc(em->b, x, cg->i32, "");
        lv high = LLVMBuildTrunc(em->b, em_lshr(em, x, sn_em_i(em, x, 32)), cg->i32, "");
        low = LLVMBuildZExt(em->b, shuffle_word(g, low, from), cg->i64, "");
        high = LLVMBuildZExt(em->b, shuffle_word(g, high, from), cg->i64, "");
        return em_or(em, low, em_shl(em, high, sn_em_i(em, high, 32)));
    }
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    lv bits = kind == LLVMIntegerTypeKind ? x : em_bitcast(em, x, cg->i16);
    lv word = shuffle_word(g, LLVMBuildZExt(em->b, bits, cg->i32, ""), from);
    bits = LLVMBuildTrunc(em->b, word, LLVMTypeOf(bits), "");
    return kind == LLVMIntegerTypeKind ? bits : em_bitcast(em, bits, type);
}

static lv shuffle(sn_gen *g, lv x, const source_lane *from) {
    if (sn_em_lanes(x) == 1) return shuffle_scalar(g, x, from);
    lv all = LLVMGetPoison(LLVMTypeOf(x));
    for (uint32_t i = 0; i < sn_em_lanes(x); i++)
        all = sn_em_with_lane(&g->em, all, i, shuffle_scalar(g, sn_em_lane(&g->em, x, i), from));
    return all;
}

static lv from_across(sn_gen *g, lv x, uint32_t distance) {
    source_lane from = {"llvm.nvvm.shfl.sync.bfly.i32", sn_gen_c32(g, distance), WARP - 1};
    return shuffle(g, x, &from);
}

static void butterfly(sn_gen *g, const sn_gen_states *st, lv *x, uint32_t width) {
    for (uint32_t d = width / 2; d > 0; d /= 2) {
        lv other[SN_GEN_STATES];
        for (uint32_t k = 0; k < st->n; k++) other[k] = from_across(g, x[k], d);
        sn_gen_combine(g, st, x, other);
    }
}

/* Truths of all lanes of a warp are one instruction. */
static bool is_vote(const sn_gen_states *st, const lv *x, uint32_t width) {
    bool truths = st->combs[0] == SN_COMB_ANY || st->combs[0] == SN_COMB_ALL;
    return width == WARP && st->n == 1 && truths && sn_em_lanes(x[0]) == 1;
}

static void vote(sn_gen *g, sn_comb comb, lv *x) {
    lv args[2] = {sn_gen_c32(g, UINT32_MAX), *x};
    const char *name = comb == SN_COMB_ANY ? "llvm.nvvm.vote.any.sync" : "llvm.nvvm.vote.all.sync";
    *x = sn_em_call(&g->em, name, NULL, args, 2);
}

void sn_gen_warp_reduce(sn_gen *g, const sn_gen_states *st, lv *x, uint32_t width) {
    if (is_vote(st, x, width)) vote(g, st->combs[0], x);
    else if (width > 2 && st->n_combs == 1 && st->combs[0] == SN_COMB_SUMEXP)
        sn_gen_sumexp_by(g, st->dtypes[0], x, butterfly, width);
    else if (width > 2 && st->n_combs == 1 && st->combs[0] == SN_COMB_MOMENTS)
        sn_gen_moments_by(g, st->dtypes[0], x, butterfly, width);
    else butterfly(g, st, x, width);
}

/* ---- shared memory ---- */

/* One array a state, of `slots` slots, in the area whose turn it is. */
typedef struct exchange {
    lv base;
    uint32_t offset[SN_GEN_STATES], lanes[SN_GEN_STATES];
} exchange;

static uint32_t state_bytes(const sn_gen_states *st, uint32_t k, uint32_t lanes) {
    uint32_t bytes = sn_dtype_bytes(st->dtypes[k]) * lanes, padded = 1;
    while (padded < bytes) padded *= 2; /* vectors of 3 take the place of 4 */
    return padded;
}

static uint32_t exchange_bytes(const sn_gen_states *st, const lv *x, uint32_t slots) {
    uint32_t total = 0;
    for (uint32_t k = 0; k < st->n; k++) total += (state_bytes(st, k, sn_em_lanes(x[k])) * slots + 15) / 16 * 16;
    return total;
}

static exchange exchange_begin(sn_gen *g, const sn_gen_states *st, const lv *x, uint32_t slots) {
    exchange ex;
    uint32_t at = 0;
    for (uint32_t k = 0; k < st->n; k++) {
        ex.lanes[k] = sn_em_lanes(x[k]);
        ex.offset[k] = at;
        at += (state_bytes(st, k, ex.lanes[k]) * slots + 15) / 16 * 16;
    }
    ex.base = sn_gen_area(g, at);
    return ex;
}

static lv slot_address(sn_gen *g, const sn_gen_states *st, const exchange *ex, uint32_t k, lv slot) {
    sn_em *em = &g->em;
    lv bytes = em_imul(em, slot, sn_em_i(em, slot, state_bytes(st, k, ex->lanes[k])));
    bytes = em_iadd(em, bytes, sn_em_i(em, slot, ex->offset[k]));
    return LLVMBuildInBoundsGEP2(em->b, em->cg->i8, ex->base, &bytes, 1, "");
}

static uint32_t slot_align(const sn_gen_states *st, const exchange *ex, uint32_t k) {
    uint32_t bytes = state_bytes(st, k, ex->lanes[k]);
    return bytes < 16 ? bytes : 16;
}

static void slot_write(sn_gen *g, const sn_gen_states *st, const exchange *ex, lv slot, const lv *x) {
    for (uint32_t k = 0; k < st->n; k++) {
        lv s =
            LLVMBuildStore(g->em.b, sn_math_to_storage(&g->em, st->dtypes[k], x[k]), slot_address(g, st, ex, k, slot));
        LLVMSetAlignment(s, slot_align(st, ex, k));
    }
}

static void slot_read(sn_gen *g, const sn_gen_states *st, const exchange *ex, lv slot, lv *x) {
    for (uint32_t k = 0; k < st->n; k++) {
        LLVMTypeRef type = sn_em_shape(sn_math_storage(g->em.cg, st->dtypes[k]), ex->lanes[k]);
        lv l = LLVMBuildLoad2(g->em.b, type, slot_address(g, st, ex, k, slot), "");
        LLVMSetAlignment(l, slot_align(st, ex, k));
        x[k] = sn_math_from_storage(&g->em, st->dtypes[k], l);
    }
}

/* ---- over block.x ---- */

static lv cx(sn_gen *g, int64_t x) { return sn_em_ci(g->index, x); }

/* state <- slots first, first + step, ... (n of them), in that order. */
static void fold_slots(sn_gen *g, const sn_gen_states *st, const exchange *ex, lv first, int64_t step, uint32_t n,
                       lv *state) {
    lv x[SN_GEN_STATES];
    slot_read(g, st, ex, first, state);
    if (n <= WARP) {
        for (uint32_t i = 1; i < n; i++) {
            slot_read(g, st, ex, em_iadd(&g->em, first, cx(g, i * step)), x);
            sn_gen_combine(g, st, state, x);
        }
        return;
    }
    lv phis[SN_GEN_STATES];
    sn_gen_loop l;
    sn_gen_loop_begin(g, &l, (sn_axis){0}, cx(g, 1), cx(g, n), false);
    sn_gen_loop_carry(g, &l, phis, state, st->n);
    slot_read(g, st, ex, em_iadd(&g->em, first, em_imul(&g->em, l.i, cx(g, step))), x);
    sn_gen_combine(g, st, state, x);
    sn_gen_loop_end(g, &l, phis, state, st->n);
}

static bool power_of_two(uint32_t n) { return n && !(n & (n - 1)); }

/* Slots first .. first + n-1 of state k, in accesses of up to 16 bytes. */
static void read_slots(sn_gen *g, const sn_gen_states *st, const exchange *ex, uint32_t k, lv first, uint32_t n,
                       lv *out) {
    uint32_t bytes = sn_dtype_bytes(st->dtypes[k]), piece = 16 / bytes;
    while (n % piece) piece /= 2;
    LLVMTypeRef type = sn_em_shape(sn_math_storage(g->em.cg, st->dtypes[k]), piece);
    for (uint32_t i = 0; i < n; i += piece) {
        lv l = LLVMBuildLoad2(g->em.b, type, slot_address(g, st, ex, k, em_iadd(&g->em, first, cx(g, i))), "");
        LLVMSetAlignment(l, piece * bytes);
        l = sn_math_from_storage(&g->em, st->dtypes[k], l);
        for (uint32_t j = 0; j < piece; j++) out[i + j] = sn_em_lane(&g->em, l, j);
    }
}

/* Every thread reads the few slots of its row, which takes less time than steps of shuffles. */
static void fold_few(sn_gen *g, const sn_gen_states *st, const exchange *ex, lv first, uint32_t n, lv *x) {
    lv *slots = SN_NEWN(g->arena, lv, (size_t)st->n * n);
    for (uint32_t k = 0; k < st->n; k++) read_slots(g, st, ex, k, first, n, slots + (size_t)k * n);
    sn_gen_combine_all(g, st, slots, n, x);
}

static bool all_scalars(const sn_gen_states *st, const lv *x) {
    for (uint32_t k = 0; k < st->n; k++)
        if (sn_em_lanes(x[k]) > 1) return false;
    return true;
}

/* Rows of whole warps: each warp leaves one slot; few slots are read by every thread, many by shuffles again. */
static void over_warps(sn_gen *g, const sn_gen_states *st, lv *x) {
    enum { FEW = 4 };
    sn_em *em = &g->em;
    uint32_t warps = g->threads_x / WARP;
    sn_gen_warp_reduce(g, st, x, WARP);
    exchange ex = exchange_begin(g, st, x, warps * g->threads_y);
    lv lane = em_and(em, g->thread_x, cx(g, WARP - 1)), warp = em_lshr(em, g->thread_x, cx(g, 5));
    lv row = em_imul(em, g->thread_y, cx(g, warps));
    sn_em_if first = sn_em_then(em, em_icmp(em, LLVMIntEQ, lane, cx(g, 0)), "first_lane");
    slot_write(g, st, &ex, em_iadd(em, row, warp), x);
    sn_em_end(em, &first);
    sn_gen_barrier(g);
    if (warps <= FEW && all_scalars(st, x)) {
        fold_few(g, st, &ex, row, warps, x);
    } else if (warps <= FEW || !power_of_two(warps)) {
        fold_slots(g, st, &ex, row, 1, warps, x);
    } else {
        slot_read(g, st, &ex, em_iadd(em, row, em_and(em, lane, cx(g, warps - 1))), x);
        sn_gen_warp_reduce(g, st, x, warps);
    }
}

static void over_x(sn_gen *g, const sn_gen_states *st, lv *x) {
    uint32_t n = g->threads_x;
    if (n <= 1) return;
    if (n <= WARP && power_of_two(n)) {
        sn_gen_warp_reduce(g, st, x, n);
    } else if (n % WARP == 0) {
        over_warps(g, st, x);
    } else {
        exchange ex = exchange_begin(g, st, x, n * g->threads_y);
        lv row = em_imul(&g->em, g->thread_y, cx(g, n));
        slot_write(g, st, &ex, em_iadd(&g->em, row, g->thread_x), x);
        sn_gen_barrier(g);
        fold_slots(g, st, &ex, row, 1, n, x);
    }
}

/* ---- over block.y ---- */

/* Rows of threads that a warp has together, and that shuffles combine; 1: none, or their lanes are no power of two. */
static uint32_t rows_of_warp(const sn_gen *g) {
    uint32_t width = g->threads_x, all = width * g->threads_y;
    if (width >= WARP || !power_of_two(width) || !power_of_two(g->threads_y)) return 1;
    return (all < WARP ? all : WARP) / width;
}

static uint32_t row_slots(const sn_gen *g) { return g->threads_x * g->threads_y / rows_of_warp(g); }

/* Vectors of the same length, each state by itself. */
static bool can_halve(const sn_gen_states *st, const lv *x) {
    for (uint32_t k = 0; k < st->n; k++)
        if (!power_of_two(sn_em_lanes(x[k])) || sn_em_lanes(x[k]) != sn_em_lanes(x[0])) return false;
    return st->n == st->n_combs && sn_em_lanes(x[0]) > 1;
}

/* Over the n rows of a warp, whole states. */
static void butterfly_rows(sn_gen *g, const sn_gen_states *st, lv *x, uint32_t n) {
    for (uint32_t d = n / 2 * g->threads_x; d >= g->threads_x; d /= 2) {
        lv other[SN_GEN_STATES];
        for (uint32_t k = 0; k < st->n; k++) other[k] = from_across(g, x[k], d);
        sn_gen_combine(g, st, x, other);
    }
}

/* What a thread has of the n rows of a warp. */
typedef struct warp_part {
    lv first;      /* the lanes of the vector from here on ... */
    uint32_t rows; /* ... as so many others do */
} warp_part;

/* Combines the n rows of a warp. A thread passes half of a vector's lanes on at each step and keeps the others, until it has one. */
static warp_part over_rows_of_warp(sn_gen *g, const sn_gen_states *st, lv *x, uint32_t n, lv thread) {
    sn_em *em = &g->em;
    lv first = cx(g, 0);
    for (; n > 1 && can_halve(st, x); n /= 2) {
        uint32_t d = n / 2 * g->threads_x, half = sn_em_lanes(x[0]) / 2;
        lv high = em_icmp(em, LLVMIntNE, em_and(em, thread, cx(g, d)), cx(g, 0)), other[SN_GEN_STATES];
        for (uint32_t k = 0; k < st->n; k++) {
            lv a = sn_em_slice(em, x[k], 0, half), b = sn_em_slice(em, x[k], half, half);
            x[k] = em_select(em, high, b, a);
            other[k] = from_across(g, em_select(em, high, a, b), d);
        }
        first = em_iadd(em, first, em_select(em, high, cx(g, half), cx(g, 0)));
        sn_gen_combine(g, st, x, other);
    }
    bool by_largest = n > 2 && st->n_combs == 1 && st->combs[0] == SN_COMB_SUMEXP;
    if (by_largest) sn_gen_sumexp_by(g, st->dtypes[0], x, butterfly_rows, n);
    else butterfly_rows(g, st, x, n);
    return (warp_part){first, n};
}

/* Lanes `first` .. of a slot. One of the threads that have them writes them: the bits of the others may differ, where a product and the
 * sum behind it became one instruction. */
static void slot_write_lanes(sn_gen *g, const sn_gen_states *st, const exchange *ex, lv slot, lv thread,
                             const warp_part *part, const lv *x) {
    sn_em *em = &g->em;
    sn_em_if branch;
    lv others = em_and(em, thread, cx(g, (int64_t)(part->rows - 1) * g->threads_x));
    if (part->rows > 1) branch = sn_em_then(em, em_icmp(em, LLVMIntEQ, others, cx(g, 0)), "one_of_rows");
    for (uint32_t k = 0; k < st->n; k++) {
        uint32_t bytes = sn_dtype_bytes(st->dtypes[k]), all = bytes * sn_em_lanes(x[k]);
        lv by = em_imul(em, part->first, cx(g, bytes)), p = slot_address(g, st, ex, k, slot);
        p = LLVMBuildInBoundsGEP2(em->b, em->cg->i8, p, &by, 1, "");
        lv s = LLVMBuildStore(em->b, sn_math_to_storage(em, st->dtypes[k], x[k]), p);
        LLVMSetAlignment(s, all < 16 ? all : 16);
    }
    if (part->rows > 1) sn_em_end(em, &branch);
}

/* The rows of warps, each in the slots of its columns, become half as many until few are left, which every thread adds up itself. */
static void over_warps_of_rows(sn_gen *g, const sn_gen_states *st, lv *x) {
    enum { FEW = 8 };
    sn_em *em = &g->em;
    uint32_t width = g->threads_x, n = rows_of_warp(g), rows = g->threads_y / n;
    lv thread = em_iadd(em, em_imul(em, g->thread_y, cx(g, width)), g->thread_x);
    exchange ex = exchange_begin(g, st, x, width * rows);
    warp_part part = over_rows_of_warp(g, st, x, n, thread);
    lv slot = em_iadd(em, em_imul(em, LLVMBuildUDiv(em->b, g->thread_y, cx(g, n), ""), cx(g, width)), g->thread_x);
    slot_write_lanes(g, st, &ex, slot, thread, &part, x);
    sn_gen_barrier(g);
    for (; rows > FEW; rows /= 2) {
        lv other[SN_GEN_STATES], sum[SN_GEN_STATES];
        sn_em_if low = sn_em_then(em, em_icmp(em, LLVMIntULT, g->thread_y, cx(g, rows / 2)), "lower_rows");
        slot_read(g, st, &ex, thread, sum);
        slot_read(g, st, &ex, em_iadd(em, thread, cx(g, (int64_t)width * (rows / 2))), other);
        sn_gen_combine(g, st, sum, other);
        slot_write(g, st, &ex, thread, sum);
        sn_em_end(em, &low);
        sn_gen_barrier(g);
    }
    fold_slots(g, st, &ex, g->thread_x, width, rows, x);
}

/* Rows are halved in shared memory until four are left, which every thread adds up itself. */
static void over_rows(sn_gen *g, const sn_gen_states *st, lv *x) {
    if (rows_of_warp(g) > 1 && rows_of_warp(g) < g->threads_y) {
        over_warps_of_rows(g, st, x);
        return;
    }
    sn_em *em = &g->em;
    uint32_t rows = g->threads_y, width = g->threads_x;
    exchange ex = exchange_begin(g, st, x, width * rows);
    lv mine = em_iadd(em, em_imul(em, g->thread_y, cx(g, width)), g->thread_x);
    slot_write(g, st, &ex, mine, x);
    sn_gen_barrier(g);
    for (; power_of_two(rows) && rows > 4; rows /= 2) {
        lv other[SN_GEN_STATES], sum[SN_GEN_STATES];
        for (uint32_t k = 0; k < st->n; k++) sum[k] = x[k];
        sn_em_if low = sn_em_then(em, em_icmp(em, LLVMIntULT, g->thread_y, cx(g, rows / 2)), "lower_rows");
        slot_read(g, st, &ex, em_iadd(em, mine, cx(g, (int64_t)width * (rows / 2))), other);
        sn_gen_combine(g, st, sum, other);
        slot_write(g, st, &ex, mine, sum);
        LLVMBasicBlockRef then_end = LLVMGetInsertBlock(em->b);
        sn_em_end(em, &low);
        for (uint32_t k = 0; k < st->n; k++) x[k] = sn_em_merge(em, &low, then_end, sum[k], x[k]);
        sn_gen_barrier(g);
    }
    fold_slots(g, st, &ex, g->thread_x, width, rows, x);
}

/* Reductions too large for one area go through it in parts: a combiner and some lanes at a time. */
static void over_rows_in_parts(sn_gen *g, const sn_gen_states *st, lv *x) {
    for (uint32_t c = 0; c < st->n_combs; c++) {
        sn_gen_states one = sn_gen_states_of_one(st, c);
        lv *state = x + st->first[c], whole[SN_GEN_STATES] = {NULL};
        for (uint32_t k = 0; k < one.n; k++) whole[k] = state[k];
        sn_em_unify(&g->em, whole, one.n);
        uint32_t lanes = sn_em_lanes(whole[0]), part = lanes;
        lv piece[SN_GEN_STATES], result[SN_GEN_STATES] = {NULL};
        for (;; part /= 2) {
            for (uint32_t k = 0; k < one.n; k++) piece[k] = sn_em_slice(&g->em, whole[k], 0, part);
            if (part == 1 || (part % 2 == 0 && exchange_bytes(&one, piece, row_slots(g)) <= AREA_LIMIT)) break;
            if (part % 2) part = 2;
        }
        for (uint32_t at = 0; at < lanes; at += part) {
            for (uint32_t k = 0; k < one.n; k++) piece[k] = sn_em_slice(&g->em, whole[k], at, part);
            over_rows(g, &one, piece);
            for (uint32_t k = 0; k < one.n; k++) result[k] = at ? sn_em_join(&g->em, result[k], piece[k]) : piece[k];
        }
        for (uint32_t k = 0; k < one.n; k++) state[k] = result[k];
    }
}

void sn_gen_block_reduce(sn_gen *g, const sn_gen_states *st, sn_axis_kind kind, lv *x) {
    for (uint32_t c = 0; c < st->n_combs; c++) /* one state may vary between lanes when the other does not */
        sn_em_unify(&g->em, x + st->first[c], sn_combs[st->combs[c]].states);
    if (kind == SN_AXIS_BLOCK_X) {
        over_x(g, st, x);
    } else if (g->threads_y > 1) {
        if (exchange_bytes(st, x, row_slots(g)) <= AREA_LIMIT) over_rows(g, st, x);
        else over_rows_in_parts(g, st, x);
    }
}

/* ---- prefixes over block.x ---- */

/* The value of the lane `distance` below, in segments of `width` lanes. The lowest lanes get their own. */
static lv from_below(sn_gen *g, lv x, uint32_t distance, uint32_t width) {
    source_lane from = {"llvm.nvvm.shfl.sync.up.i32", sn_gen_c32(g, distance), (WARP - width) << 8};
    return shuffle(g, x, &from);
}

static lv from_lane(sn_gen *g, lv x, lv lane, uint32_t width) {
    source_lane from = {"llvm.nvvm.shfl.sync.idx.i32", lane, (WARP - width) << 8 | (WARP - 1)};
    return shuffle(g, x, &from);
}

/* x becomes the combination of the lanes 0 .. own of its segment. */
static lv scan_lanes(sn_gen *g, const sn_gen_states *st, lv x, lv lane, uint32_t width) {
    for (uint32_t d = 1; d < width; d *= 2) {
        lv sum = from_below(g, x, d, width);
        sn_gen_combine(g, st, &sum, &x);
        x = em_select(&g->em, em_icmp(&g->em, LLVMIntUGE, lane, cx(g, d)), sum, x);
    }
    return x;
}

/* The totals of the warps of a row: of those before `warp`, and of all. Few are walked by every thread, many scanned by
 * the lanes of every warp. */
static lv scan_warps(sn_gen *g, const sn_gen_states *st, const exchange *ex, lv identity, lv row, lv warp, lv *all) {
    enum { FEW = 8 };
    sn_em *em = &g->em;
    uint32_t warps = g->threads_x / WARP;
    lv lane = em_and(em, g->thread_x, cx(g, WARP - 1)), before = identity, x, few[FEW];
    if (warps <= FEW) {
        read_slots(g, st, ex, 0, row, warps, few);
        *all = few[0];
        for (uint32_t i = 1; i < warps; i++) {
            before = em_select(em, em_icmp(em, LLVMIntEQ, warp, cx(g, i)), *all, before);
            sn_gen_combine(g, st, all, &few[i]);
        }
        return before;
    }
    lv exists = em_icmp(em, LLVMIntULT, lane, cx(g, warps));
    slot_read(g, st, ex, em_iadd(em, row, em_select(em, exists, lane, cx(g, 0))), &x);
    x = scan_lanes(g, st, em_select(em, exists, x, identity), lane, WARP);
    *all = from_lane(g, x, sn_gen_c32(g, warps - 1), WARP);
    lv number = LLVMBuildTrunc(em->b, warp, em->cg->i32, "");
    before = from_lane(g, x, em_and(em, em_isub(em, number, sn_gen_c32(g, 1)), sn_gen_c32(g, WARP - 1)), WARP);
    return em_select(em, em_icmp(em, LLVMIntEQ, warp, cx(g, 0)), identity, before);
}

void sn_gen_block_scan(sn_gen *g, const sn_gen_states *st, lv identity, lv *x, lv *all) {
    sn_em *em = &g->em;
    uint32_t width = g->threads_x < WARP ? g->threads_x : WARP, warps = g->threads_x / WARP;
    lv lane = warps > 1 ? em_and(em, g->thread_x, cx(g, WARP - 1)) : g->thread_x;
    lv sum = scan_lanes(g, st, *x, lane, width);
    lv before = em_select(em, em_icmp(em, LLVMIntEQ, lane, cx(g, 0)), identity, from_below(g, sum, 1, width));
    if (warps <= 1) {
        *all = from_lane(g, sum, sn_gen_c32(g, width - 1), width);
        *x = before;
        return;
    }
    exchange ex = exchange_begin(g, st, &sum, warps * g->threads_y);
    lv warp = em_lshr(em, g->thread_x, cx(g, 5)), row = em_imul(em, g->thread_y, cx(g, warps));
    sn_em_if last = sn_em_then(em, em_icmp(em, LLVMIntEQ, lane, cx(g, WARP - 1)), "last_lane");
    slot_write(g, st, &ex, em_iadd(em, row, warp), &sum);
    sn_em_end(em, &last);
    sn_gen_barrier(g);
    lv earlier = scan_warps(g, st, &ex, identity, row, warp, all);
    sn_gen_combine(g, st, &earlier, &before);
    *x = earlier;
}

/* ---- prefixes over block.y ---- */

/* Those of few rows are walked by every thread; one slot a row will do where its threads are alike. */
void sn_gen_rows_scan(sn_gen *g, const sn_gen_states *st, lv identity, bool alike, lv *x) {
    sn_em *em = &g->em;
    uint32_t rows = g->threads_y, width = alike ? 1 : g->threads_x;
    exchange ex = exchange_begin(g, st, x, rows * width);
    lv column = alike ? cx(g, 0) : g->thread_x, other, all;
    lv slot = em_iadd(em, em_imul(em, g->thread_y, cx(g, width)), column);
    sn_em_if first = {0};
    if (alike) first = sn_em_then(em, em_icmp(em, LLVMIntEQ, g->thread_x, cx(g, 0)), "first_of_row");
    slot_write(g, st, &ex, slot, x);
    if (alike) sn_em_end(em, &first);
    sn_gen_barrier(g);
    slot_read(g, st, &ex, column, &all);
    *x = sn_em_splat(em, identity, sn_em_lanes(all));
    for (uint32_t i = 1; i < rows; i++) {
        *x = em_select(em, em_icmp(em, LLVMIntEQ, g->thread_y, cx(g, i)), all, *x);
        if (i + 1 == rows) return;
        slot_read(g, st, &ex, em_iadd(em, column, cx(g, (int64_t)i * width)), &other);
        sn_gen_combine(g, st, &all, &other);
    }
}
