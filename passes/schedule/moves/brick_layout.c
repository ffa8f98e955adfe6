/* brick_layout.c: how what a brick has of a load lies in shared memory.
 *
 *     run 0 | e0 e1 e2 ...  | run 1 | ...                    elements as they follow each other in memory, a few left out behind each run
 *
 * Lanes of a store go along the loops of its walk: first the elements that both walks share, which lie side by side here too, then from
 * run to run, or, where the loop behind those is one of the run, in steps inside of it. Runs are as far apart as makes these steps go
 * through all banks; a run ends early where steps inside of it would not.
 *
 * A run that begins anywhere is copied by the words that it lies in, with what is in front of it in the first of them;
 * one that lanes of a store stay inside of by pieces of 16 bytes, whose places matter to no bank. So are runs that are
 * an odd number of elements apart: of eight runs each begins a piece further, behind which a piece is left out, and the
 * four lanes of a warp that meet in a piece are in different words of it, since their runs are four apart. Such copies
 * leave the L1 alone, which has little room beside bricks, and are a quarter of those of words: halves and words have
 * them even where their lanes meet.
 */
#include "passes/schedule/moves/brick.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/moves/tile.h"

/* ---- threads ---- */

/* Turns that so many threads take, `along` of which go along a line. */
static int64_t turns_of(int64_t threads, int64_t along, int64_t pieces, int64_t lines) {
    return sn_ceil_div(pieces, along) * sn_ceil_div(lines, threads / along);
}

/* Powers of two cost no divisions; other numbers have what is a line, or an equal part of it, where that saves turns. */
int64_t sn_schedule_brick_threads(int64_t threads, int64_t pieces, int64_t lines) {
    int64_t least = INT64_MAX, x = threads,
            fewest = sn_pow2_ceil(pieces) < SN_BRICK_ALONG ? sn_pow2_ceil(pieces) : SN_BRICK_ALONG;
    for (int64_t k = x; k >= fewest || k == x; k /= 2) {
        int64_t turns = turns_of(threads, k, pieces, lines);
        if (turns < least) least = turns;
    }
    while (x > fewest && turns_of(threads, x, pieces, lines) * 100 > least * (100 + SN_BRICK_IDLE)) x /= 2;
    int64_t best = x, few = pieces < SN_BRICK_ALONG ? pieces : SN_BRICK_ALONG;
    for (int64_t n = 1; n <= pieces && sn_ceil_div(pieces, n) >= few; n++) {
        int64_t k = sn_ceil_div(pieces, n);
        if (k > threads) continue;
        int64_t turns = turns_of(threads, k, pieces, lines) * (100 + SN_BRICK_IDLE);
        if (turns < turns_of(threads, best, pieces, lines) * 100) best = k;
    }
    return best;
}

/* ---- runs ---- */

/* Does what lanes read so many bytes apart meet in few banks? Elements that both walks share are read side by side. */
static bool meets(int64_t apart, int64_t shared) {
    int64_t each = shared > SN_BANK ? shared : SN_BANK;
    return sn_schedule_gcd(apart, SN_LINE) > SN_BRICK_MEET * each;
}

/* Elements of a lane of a store. */
static int64_t lane_elements(const sn_schedule_brick *b, const sn_schedule_walk *w) {
    int64_t bytes = sn_schedule_brick_piece(b, w);
    return (bytes > SN_TILE_WORD ? bytes : SN_TILE_WORD) / b->least;
}

/* Loops that move through memory without a gap; it ends in front of the one that lanes of a store go along where those would meet. */
static void find_run(const sn_schedule_brick *b, sn_schedule_brick_part *q, const sn_schedule_walk *w) {
    int64_t most = sn_schedule_brick_run(b, w);
    bool same = true;
    q->length = q->common = 1;
    for (uint32_t k = 0; q->length < most; k++) {
        uint32_t p = w->at[k];
        same &= k < b->stored.n && p == b->stored.at[k] && !w->back[p];
        q->back[p] = w->back[p];
        if (same) q->common *= b->sides[p];
        int64_t lanes = lane_elements(b, w) / q->common, step = q->length * (lanes > 1 ? lanes : 1);
        if (!same && k && p == b->stored.at[q->n_common] && meets(step * q->bytes, q->common * q->bytes)) break;
        if (same) q->n_common++;
        q->run[q->n_run++] = p;
        q->steps[p] = q->length;
        q->length *= b->sides[p];
    }
}

/* The others, those first that a store walks first. */
static void find_runs(const sn_schedule_brick *b, sn_schedule_brick_part *q, const sn_schedule_walk *w) {
    bool taken[SN_MAX_CHAIN] = {false};
    for (uint32_t k = 0; k < q->n_run; k++) taken[q->run[k]] = true;
    for (uint32_t k = 0; k < b->stored.n; k++) {
        uint32_t p = b->stored.at[k];
        if (!taken[p] && b->sides[p] > 1 && w->strides[p]) q->runs[q->n_runs++] = p;
        taken[p] = true;
    }
    for (uint32_t p = b->n; p-- > 0;)
        if (!taken[p] && b->sides[p] > 1 && w->strides[p]) q->runs[q->n_runs++] = p;
    q->count = 1;
    for (uint32_t k = 0; k < q->n_runs; k++) q->count *= b->sides[q->runs[k]];
}

/* Of runs beyond the brick only those of elements that the stores reach, where runs are such elements. */
static void leave_out_rest(const sn_schedule_brick *whole, sn_schedule_brick_part *q) {
    int64_t stored = sn_schedule_brick_run(whole, &whole->stored), run = 1;
    for (uint32_t k = 0; k < q->n_runs; k++) {
        if (q->runs[k] != whole->stored.at[k]) return;
        run *= whole->sides[q->runs[k]];
    }
    int64_t count = stored + sn_schedule_brick_reach(whole);
    if (run == stored && count < q->count) q->count = count;
}

/* Elements of a store that lanes find before they come to another run; 0: they stay inside of one. */
static int64_t before_runs(const sn_schedule_brick *b, const sn_schedule_brick_part *q) {
    int64_t before = 1;
    if (!q->n_runs) return 0;
    for (uint32_t k = 0; k < b->stored.n; k++) {
        if (b->stored.at[k] == q->runs[0]) return before;
        before *= b->sides[b->stored.at[k]];
    }
    return 0;
}

/* Does each lane go from run to run, in the middle of its elements? */
static bool steps_over(const sn_schedule_brick *b, const sn_schedule_brick_part *q, const sn_schedule_walk *w) {
    int64_t before = before_runs(b, q), v = lane_elements(b, w);
    return before && v % before == 0 && v >= 2 * before;
}

/* Lanes that store several elements go from run to run in steps of as many, which a piece between groups of runs spreads over all banks. */
static void group_runs(const sn_schedule_brick *b, sn_schedule_brick_part *q, const sn_schedule_walk *w) {
    if (q->spread) {
        q->group = SN_LINE / SN_WIDEST_ACCESS;
        q->gap = q->v;
        return;
    }
    if (!steps_over(b, q, w)) return;
    q->group = lane_elements(b, w) / before_runs(b, q);
    q->gap = q->v * q->bytes > SN_TILE_WORD ? q->v : SN_TILE_WORD / q->bytes;
}

int64_t sn_schedule_brick_room(const sn_schedule_brick_part *q) {
    return q->pitch * q->count + (q->group ? (q->count - 1) / q->group * q->gap : 0);
}

/* A run stands behind the other so that lanes which go from run to run find other banks. */
static void lay_out(const sn_schedule_brick *b, sn_schedule_brick_part *q, const sn_schedule_walk *w) {
    int64_t piece = q->v * q->bytes > SN_BANK ? q->v * q->bytes : SN_BANK, common = q->common * q->bytes;
    q->pieces = sn_ceil_div(q->length + (q->anywhere ? q->v - 1 : 0), q->v);
    int64_t room = sn_ceil_div(q->pieces * q->v * q->bytes, piece) * piece,
            apart = sn_pow2_ceil(common > piece ? common : piece);
    while (sn_schedule_gcd(room, SN_LINE) > apart) room += piece;
    int64_t step = q->pitch = room / q->bytes;
    for (uint32_t k = 0; k < q->n_runs; k++) {
        q->steps[q->runs[k]] = step;
        step *= b->sides[q->runs[k]];
    }
    group_runs(b, q, w);
}

/* Do runs begin with multiples of v elements of the storage, and have as many? Bricks begin where whole ones do, without what is loaded
 * beyond them. */
static bool is_aligned(const sn_schedule_brick *whole, const sn_schedule_brick_part *q, const sn_schedule_walk *w,
                       int64_t v) {
    if (q->align < v * q->bytes || q->c0 % v || q->length % v) return false;
    for (uint32_t k = 0; k < q->n_run; k++)
        if (q->back[q->run[k]]) return false; /* it begins with the last iteration */
    for (uint32_t p = 0; p < whole->n; p++) {
        int64_t stride = w->strides[p], side = whole->sides[p];
        bool in_run = false;
        for (uint32_t k = 0; k < q->n_run; k++) in_run |= q->run[k] == p;
        if (!in_run && whole->extents[p] > 1 && stride % v) return false;
        if (in_run && side < whole->extents[p] && (stride * side % v || stride * (whole->extents[p] % side) % v))
            return false;
    }
    return true;
}

/* Lanes go from run to run, and each run begins an odd number of elements behind the one before it; or lanes meet in banks that have the time, which
 * those of bytes have not: a word takes four loads of them. */
static bool spreads(const sn_schedule_brick *b, const sn_schedule_brick_part *q, const sn_schedule_walk *w) {
    if (!q->n_runs || q->n_common == b->stored.n || q->runs[0] != b->stored.at[q->n_common]) return false;
    if (q->common > 1 && q->common * q->bytes > SN_BANK) return false;
    return q->bytes > 1 || w->strides[q->runs[0]] % 2;
}

/* Words where elements are less, wider pieces where lanes find them so in both walks, or stay inside of a run. */
static void choose_pieces(const sn_schedule_brick *b, const sn_schedule_brick *whole, sn_schedule_brick_part *q,
                          const sn_schedule_walk *w) {
    int64_t bytes = q->bytes;
    int64_t word = bytes < SN_TILE_WORD ? SN_TILE_WORD / bytes : 1;
    q->v = sn_schedule_brick_piece(b, w) / bytes;
    if (q->v < word) q->v = word;
    while (q->v > word && !is_aligned(whole, q, w, q->v)) q->v /= 2;
    bool inside = !q->n_runs || q->n_common == b->stored.n || q->runs[0] != b->stored.at[q->n_common];
    inside &= !steps_over(b, q, w);
    int64_t most = sn_least(SN_WIDEST_ACCESS, q->align);
    if (inside && most > q->v * bytes && q->length * bytes >= SN_BRICK_RUN) {
        q->v = most / bytes;
        q->anywhere = !is_aligned(whole, q, w, q->v);
        return;
    }
    if (spreads(b, q, w) && most == SN_WIDEST_ACCESS && q->v * bytes < SN_WIDEST_ACCESS &&
        q->length * bytes >= SN_BRICK_RUN) {
        q->v = SN_WIDEST_ACCESS / bytes;
        q->anywhere = q->spread = true;
        return;
    }
    /* Lanes that have several words of a run meet in few banks, wherever runs begin. */
    if (q->common * bytes >= 2 * SN_TILE_WORD && most == SN_WIDEST_ACCESS && q->v * bytes < SN_WIDEST_ACCESS &&
        q->length * bytes >= SN_BRICK_RUN && !steps_over(b, q, w)) {
        q->v = SN_WIDEST_ACCESS / bytes;
        q->anywhere = !is_aligned(whole, q, w, q->v);
        return;
    }
    if (q->v == 1 || is_aligned(whole, q, w, q->v)) return;
    q->anywhere = q->align >= SN_TILE_WORD;
    if (!q->anywhere) q->v = 1;
}

void sn_schedule_lay_out_brick(sn_schedule_brick_part *out, sn_module *m, const sn_schedule_brick *whole,
                               uint32_t load) {
    sn_schedule_brick wider = *whole, *b = &wider;
    uint32_t last;
    int64_t more = sn_schedule_brick_beyond(&last, whole);
    b->sides[last] += more;
    const sn_stmt_rec *r = sn_stmt_get(m, b->staged[load]);
    const sn_buf_rec *buf = sn_buf_get(m, r->buf);
    const sn_schedule_walk *w = &b->loads[load];
    *out = (sn_schedule_brick_part){.bytes = sn_dtype_bytes(buf->dtype),
                                    .size = sn_ix_value(m, buf->size),
                                    .align = buf->align,
                                    .c0 = sn_ix_get(m, r->ix)->c0};
    find_run(b, out, w);
    find_runs(b, out, w);
    if (more && !whole->whole) leave_out_rest(whole, out); /* rows are reduced: they are whole */
    choose_pieces(b, whole, out, w);
    lay_out(b, out, w);
}
