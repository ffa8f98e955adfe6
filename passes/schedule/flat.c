/* flat.c: class flat: a block owns rows that lie one behind the other in memory, and brings them to shared memory as one
 * piece.
 *
 *     loop i in 2853388 { reduce max r in 13 { load x[13*i + r] } ... loop r in 13 { ... store y[13*i + r] } }
 *
 * No 16 bytes begin a row of 13 halves, and no line holds one alone: threads of a row would be few and move two bytes
 * each. The rows of a block together are a piece that begins at a multiple of 16 bytes, whatever is in it: it is copied
 * as it lies, worked on in shared memory by whatever threads suit a row, and copied back. The same goes for what stands
 * across short axes: of [8191, 412, 16] summed over the 412, the 16 columns of a matrix are 32 bytes wide, but the matrix
 * is one piece. A *group* is what lies together: a row there, 16 columns here; a block has several groups.
 *
 *     group q = outer loops but the last ones, in row-major order;  row = inner*q + (the last ones)
 *
 * What passes through shared memory: buffers whose accesses are affine, advance from group to group by at least what a
 * group touches, and are read only, or written whole by one store. All else is accessed as it is. flat_bind.c has the
 * picture of the kernel.
 *
 * Fields: tile_m rows a block. A row has block_x threads and block_y rows are done at a time; where rows are columns, or so
 * short that one thread does each, block_x rows are done at a time by block_y threads each, since neighbouring lanes then
 * read neighbours. vector elements of a row are read at once where pieces of 16 bytes begin rows.
 */
#include "passes/schedule/flat.h"

#include <stdlib.h>

#include "passes/schedule/figures.h"
#include "passes/schedule/schedules.h"

/* ---- which buffers ---- */

typedef struct look {
    sn_module *m;
    const sn_schedule_shape *sh;
    uint32_t prefix; /* outer loops that count groups */
    int64_t extents[SN_MAX_CHAIN];
    sn_pass_ctx *cx;
} look;

/* What an access touches of a group. */
typedef struct part {
    int64_t group, low, high, count;
    bool walks;   /* a nest */
    bool side_by; /* ... whose last axis finds neighbours */
} part;

/* One more axis inside a group. */
static bool add_axis(part *p, look *l, sn_ix e, sn_axis ax, int64_t extent, bool of_nest) {
    int64_t c;
    if (!sn_ix_coef(l->m, e, ax, &c)) return false;
    if (!c || extent < 2) return true;
    *(c > 0 ? &p->high : &p->low) += c * (extent - 1);
    p->count = sn_mul_clamped(p->count, extent);
    p->walks |= of_nest;
    p->side_by = of_nest && c == 1;
    return true;
}

/* The offset of an access, with zeros for its axes, must be a constant. */
static bool find_start(part *p, look *l, sn_ix e, const sn_chain *nest) {
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix zeros[2 * SN_MAX_CHAIN];
    uint32_t n = 0;
    for (uint32_t k = 0; k < l->sh->outer.n; k++) axes[n++] = sn_stmt_axis(l->m, l->sh->outer.at[k]);
    for (uint32_t k = 0; nest && k < nest->n; k++) axes[n++] = sn_stmt_axis(l->m, nest->at[k]);
    for (uint32_t k = 0; k < n; k++) zeros[k] = sn_ix_const(l->m, 0);
    if (!sn_ix_is_const(l->m, sn_ix_subst(l->m, e, axes, zeros, n), &p->low)) return false;
    p->high = p->low;
    return true;
}

/* Are the groups of the access apart from each other, and in row-major order? */
static bool find_part(part *p, look *l, sn_ix e, const sn_chain *nest) {
    int64_t c, stride = 0;
    *p = (part){.count = 1};
    if (sn_ix_uses_vals(l->m, e) || !find_start(p, l, e, nest)) return false;
    for (uint32_t k = l->prefix; k < l->sh->outer.n; k++)
        if (!add_axis(p, l, e, sn_stmt_axis(l->m, l->sh->outer.at[k]), l->extents[k], false)) return false;
    for (uint32_t k = 0; nest && k < nest->n; k++) {
        sn_stmt s = nest->at[k];
        if (!add_axis(p, l, e, sn_stmt_axis(l->m, s), sn_ix_value(l->m, sn_stmt_extent(l->m, s)), true)) return false;
    }
    for (uint32_t k = l->prefix; k-- > 0;) {
        if (!sn_ix_coef(l->m, e, sn_stmt_axis(l->m, l->sh->outer.at[k]), &c)) return false;
        if (l->extents[k] == 1) continue;
        if (!stride) p->group = stride = c;
        if (c <= 0 || c != stride) return false;
        stride = sn_mul_clamped(stride, l->extents[k]);
    }
    return p->group > 0 && p->low >= 0 && p->high - p->low < p->group;
}

bool sn_schedule_is_flat(const sn_schedule_flat *f, sn_buf b, uint32_t *which) {
    for (*which = 0; *which < f->n; ++*which)
        if (sn_buf_eq(f->bufs[*which].buf, b)) return true;
    return false;
}

/* The buffer joins those that are staged, or does what they know of it become wider? */
static bool join(sn_schedule_flat *f, sn_buf b, const part *p, bool store) {
    uint32_t i;
    if (!sn_schedule_is_flat(f, b, &i)) {
        if (f->n == SN_MAX_FLAT) return false;
        f->bufs[f->n++] = (sn_schedule_flat_buf){
            .buf = b, .stored = store, .base = p->low, .group = p->group, .reach = p->high - p->low + 1,
            .side_by = p->side_by};
        return true;
    }
    sn_schedule_flat_buf *fb = &f->bufs[i];
    int64_t low = p->low < fb->base ? p->low : fb->base, end = fb->base + fb->reach;
    fb->side_by &= p->side_by;
    if (store || fb->stored || p->group != fb->group) return false;
    if (p->high >= end) end = p->high + 1;
    if (end - low > fb->group) return false;
    fb->base = low;
    fb->reach = end - low;
    return true;
}

static void drop(sn_schedule_flat *f, sn_buf b) {
    uint32_t i;
    if (sn_schedule_is_flat(f, b, &i)) f->bufs[i] = f->bufs[--f->n];
}

/* Bytes that the accesses of nests walk: all, and those that groups have together. */
typedef struct walked {
    int64_t all, flat;
} walked;

/* A buffer that was refused once stays so: it is dropped at its second access, and there is no third chance. */
static bool find_bufs(sn_schedule_flat *f, look *l, sn_kern k) {
    enum { MOST = 75, LEAST_PART = 4 };
    sn_module *m = l->m;
    walked w = {0, 0};
    for (uint32_t i = 0; i < l->sh->n_nests; i++) {
        const sn_schedule_nest *nest = &l->sh->nests[i];
        sn_stmt end = sn_stmt_walk_skip(m, nest->top);
        for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if (!sn_is_access(r)) continue;
            part p;
            bool store = r->op == SN_LOP_STORE, fits = find_part(&p, l, r->ix, &nest->chain);
            int64_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
            w.all += bytes;
            if (store) fits &= !r->has_mask && p.count == p.group && !sn_kern_loads(m, k, r->buf);
            else fits &= !sn_kern_stores(m, k, r->buf);
            if (fits && p.walks && p.count >= p.group / LEAST_PART && join(f, r->buf, &p, store)) w.flat += bytes;
            else if (store) drop(f, r->buf);
        }
    }
    for (uint32_t i = 0; i < f->n; i++) /* gaps between groups would be copied, too */
        if (f->bufs[i].reach * 100 < f->bufs[i].group * MOST) return false;
    return f->n && w.flat * 100 >= w.all * MOST;
}

static bool stores_and_loads(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_STORE && sn_kern_loads(m, k, r->buf)) return true;
    }
    return false;
}

/* ---- the groups ---- */

/* Elements of a row that lie side by side and begin at multiples of so many, in all buffers. */
static uint32_t row_vector(const sn_schedule_flat *f, const look *l) {
    uint32_t v = 16;
    if (f->inner > 1 || l->sh->scans) return 1;
    for (uint32_t i = 0; i < f->n; i++) {
        const sn_schedule_flat_buf *b = &f->bufs[i];
        v = b->side_by ? sn_least(v, sn_least(b->vector, sn_pow2_divisor(b->group))) : 1;
        if (v == 1) return 1;
    }
    for (uint32_t i = 0; i < l->sh->n_nests; i++) {
        const sn_chain *c = &l->sh->nests[i].chain;
        if (c->n > 1) return 1;
        v = sn_least(v, sn_pow2_divisor(l->sh->nests[i].count));
    }
    return v;
}

/* Has a row one thread? */
static bool is_alone(const sn_schedule_shape *sh, const sn_schedule_flat *f) {
    return sh->scans || sh->max_count / f->vector <= SN_FLAT_ALONE;
}

static void measure(sn_schedule_flat *f, const look *l) {
    f->unit = 1;
    f->run = INT64_MAX;
    f->piece = UINT32_MAX;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        sn_schedule_flat_buf *b = &f->bufs[i];
        uint32_t size = sn_dtype_bytes(sn_buf_get(l->m, b->buf)->dtype), wide = sn_widest(l->cx, size);
        uint32_t whole = sn_least(l->cx->target->vector_bytes, l->cx->target->io_align) / size;
        if (wide < whole) wide = whole; /* bytes: a copy has no lanes */
        b->vector = b->base ? sn_least(wide, sn_pow2_divisor(b->base)) : wide;
        uint32_t even = sn_least(b->vector, sn_pow2_divisor(b->group));
        if (b->vector / even > f->unit) f->unit = b->vector / even;
        int64_t run = (f->inner > 1 ? f->inner : b->group) * size;
        if (run < f->run) f->run = run;
        if (b->vector * size < f->piece) f->piece = b->vector * size;
        bytes = sn_add_clamped(bytes, sn_mul_clamped(b->group, size));
    }
    f->bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
    f->vector = row_vector(f, l);
    f->by_columns = f->inner > 1 || is_alone(l->sh, f);
}

/* Threads that have a row each read at strides of a row: where that is a multiple of 32 bytes they would meet in a few
 * banks. A piece between rows spreads them; rows are whole pieces there. */
static void spread_rows(sn_schedule_flat *f, const look *l) {
    enum { MEET = 32 };
    for (uint32_t i = 0; i < f->n && f->by_columns && f->inner == 1; i++) {
        sn_schedule_flat_buf *b = &f->bufs[i];
        int64_t bytes = b->group * sn_dtype_bytes(sn_buf_get(l->m, b->buf)->dtype);
        if (bytes % MEET == 0 && b->group % b->vector == 0) b->gap = b->vector;
    }
}

void sn_schedule_find_flat(sn_schedule_flat *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    look l = {.m = cx->m, .cx = cx, .sh = sh};
    *out = (sn_schedule_flat){0};
    if (!sh->n_nests || !sh->outer.n || !sh->all_perfect || sh->mixed || stores_and_loads(cx->m, k)) return;
    for (uint32_t p = 0; p < sh->outer.n; p++) l.extents[p] = sn_ix_value(cx->m, sn_stmt_extent(cx->m, sh->outer.at[p]));
    int64_t inner = 1;
    for (l.prefix = sh->outer.n; l.prefix > 0; l.prefix--) {
        *out = (sn_schedule_flat){.inner = inner, .groups = sh->rows / inner};
        if (find_bufs(out, &l, k)) {
            measure(out, &l);
            spread_rows(out, &l);
            return;
        }
        inner = sn_mul_clamped(inner, l.extents[l.prefix - 1]);
    }
    *out = (sn_schedule_flat){0};
}

/* ---- choosing ---- */

bool sn_schedule_flat_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_schedule_flat f;
    *why_not = "it is for GPUs";
    if (!cx->target->is_gpu) return false;
    *why_not = "its rows do not lie one behind the other";
    sn_schedule_find_flat(&f, cx, k, sh);
    if (!f.n) return false;
    *why_not = "its scans are too long for one thread";
    return !sh->scans || (f.by_columns && sh->max_count <= SN_FLAT_ALONE);
}

/* Do accesses as they are leave most of a line, or of a thread's 16 bytes, unused? Rows that are longer do well by
 * themselves. */
static bool pays(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f) {
    if (sh->max_count < 2 || (int64_t)f->bytes * f->groups < SN_FLAT_SMALL || f->piece < SN_WIDE_ENOUGH) return false;
    if (f->inner > 1) return f->run < SN_LINE || (f->run % cx->target->vector_bytes && f->run < 2 * SN_LINE);
    bool odd = f->run % cx->target->vector_bytes != 0;
    return f->run < (odd ? SN_FLAT_ODD_ROW : SN_FLAT_ROW);
}

/* Groups of a block: as many as fill it, in whole units; fewer where multiprocessors would be idle. */
static int64_t choose_groups(const sn_pass_ctx *cx, const sn_schedule_flat *f) {
    int64_t n = SN_FLAT_BLOCK / f->bytes / f->unit * f->unit, most = f->groups / (4 * cx->target->units);
    if (n > most) n = most / f->unit * f->unit;
    return n > f->unit ? n : f->unit;
}

static uint32_t threads_of_row(const sn_schedule_shape *sh, const sn_schedule_flat *f) {
    uint32_t x = sn_pow2_ceil(sn_ceil_div(sh->max_count, (int64_t)f->vector * SN_FLAT_STEPS));
    return x < SN_LEAST_THREADS ? SN_LEAST_THREADS : sn_least(x, SN_WARP);
}

/* Rows that are done at a time when a row has `each` threads: all, or equal parts. */
static uint32_t rows_at_a_time(int64_t rows, int64_t each) {
    int64_t turns = sn_ceil_div(rows * each, SN_FLAT_THREADS);
    while (rows % turns) turns++;
    return (uint32_t)(rows / turns);
}

static void choose_threads(const sn_schedule_shape *sh, const sn_schedule_flat *f, sn_sched *sc) {
    if (!f->by_columns) {
        if (!sc->block_x) sc->block_x = threads_of_row(sh, f);
        if (!sc->block_y) sc->block_y = rows_at_a_time(sc->tile_m, sc->block_x);
        return;
    }
    if (!sc->block_x) sc->block_x = is_alone(sh, f) ? sn_least(sc->tile_m, SN_FLAT_THREADS / 2) : sc->tile_m;
    if (sc->block_y) return;
    sc->block_y = 1;
    while (!is_alone(sh, f) && sc->block_x * sc->block_y * 2 <= SN_FLAT_THREADS &&
           sc->block_y * SN_LEAST_THREADS <= sh->max_count)
        sc->block_y *= 2;
}

/* Rows of a block. Those that one thread does are whole turns of all threads; the threads that share a column meet at
 * barriers, so that all columns are done at a time. */
static uint32_t choose_block(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f) {
    int64_t groups = choose_groups(cx, f), turn = SN_FLAT_THREADS / 2;
    if (is_alone(sh, f)) {
        if (turn % (f->unit * f->inner) == 0 && groups * f->inner > turn)
            groups = groups * f->inner / turn * turn / f->inner;
    } else if (f->by_columns) {
        while (groups > f->unit && groups * f->inner > SN_FLAT_THREADS) groups = groups / 2 / f->unit * f->unit;
    }
    int64_t rows = sn_mul_clamped(groups < f->unit ? f->unit : groups, f->inner);
    return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}

static void choose(sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f, sn_sched *sc) {
    sc->cls = SN_SCHED_FLAT;
    if (!sc->vector) sc->vector = f->vector;
    if (!sc->tile_m) sc->tile_m = choose_block(cx, sh, f);
    choose_threads(sh, f, sc);
    int64_t share = f->by_columns ? sc->block_y : sc->block_x;
    int64_t steps = sn_ceil_div(sh->max_count, share * sc->vector);
    /* Written out, only the last step has tests. */
    if (!sc->unroll) sc->unroll = sn_least(steps, steps <= SN_FLAT_STEPS ? SN_FLAT_STEPS : SN_COLUMN_LOADS);
}

static sn_status check(const sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_schedule_flat *f,
                       const sn_sched *sc) {
    const char *name = sn_kern_get(cx->m, k)->name;
    sn_env *env = cx->m->env;
    int64_t unit = f->unit * f->inner, room = cx->target->shared_bytes - SN_SHARED_SLOTS;
    int64_t at_a_time = f->by_columns ? sc->block_x : sc->block_y;
    if (sc->tile_m % unit)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: %u rows of the schedule's tile_m are no multiple of %lld", name,
                       sc->tile_m, (long long)unit);
    if (!sc->tile_m || sn_mul_clamped(sc->tile_m / f->inner, f->bytes) > room)
        return sn_fail(env, SN_ERROR_ARGUMENT,
                       "kernel %s: %u rows of the schedule's tile_m take more than %lld bytes of shared memory", name,
                       sc->tile_m, (long long)room);
    if (sc->block_x * sc->block_y > cx->target->max_threads)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the schedule's %u threads are more than %u", name,
                       sc->block_x * sc->block_y, cx->target->max_threads);
    bool meet = f->by_columns ? sc->block_y > 1 : sc->block_x > 1;
    if (meet && sc->tile_m % at_a_time)
        return sn_fail(env, SN_ERROR_ARGUMENT,
                       "kernel %s: %u rows of the schedule's tile_m are no whole turns of %lld", name, sc->tile_m,
                       (long long)at_a_time);
    if (sh->scans && (!f->by_columns || sc->block_y > 1))
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the steps of a scan have one thread", name);
    if (sc->vector > f->vector || f->vector % sc->vector)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the schedule's vector=%u does not divide %u", name,
                       sc->vector, f->vector);
    return SN_OK;
}

/* Is it complete, and would it pass the check? Of headers that nobody pinned. */
static bool is_possible(const sn_pass_ctx *cx, const sn_schedule_flat *f, const sn_sched *sc) {
    int64_t room = (cx->target->shared_bytes - SN_SHARED_SLOTS) / 2; /* two blocks at least: one loads */
    uint32_t at_a_time = f->by_columns ? sc->block_x : sc->block_y, share = f->by_columns ? sc->block_y : sc->block_x;
    if (!sc->tile_m || sc->tile_m % (f->unit * f->inner) || sc->block_x * sc->block_y > cx->target->max_threads) return false;
    return sn_mul_clamped(sc->tile_m / f->inner, f->bytes) <= room && (share == 1 || sc->tile_m % at_a_time == 0);
}

/* Other candidates: half as many rows a block, and twice as many. */
sn_status sn_schedule_flat_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                      const sn_sched *pinned) {
    sn_schedule_flat f;
    sn_sched first = *pinned;
    sn_schedule_find_flat(&f, cx, k, sh);
    bool open = pinned->cls == SN_SCHED_NONE;
    if (open && !pays(cx, sh, &f)) return SN_OK;
    choose(cx, sh, &f, &first);
    if (open && !is_possible(cx, &f, &first)) return SN_OK;
    SN_TRY(check(cx, k, sh, &f, &first));
    sn_schedule_propose(out, cx, &first);
    uint32_t rows[] = {first.tile_m / 2, first.tile_m * 2};
    for (size_t i = 0; i < SN_COUNT(rows) && !pinned->tile_m && !pinned->block_x && !pinned->block_y; i++) {
        sn_sched other = *pinned;
        if (!(other.tile_m = rows[i])) continue;
        choose(cx, sh, &f, &other);
        if (is_possible(cx, &f, &other)) sn_schedule_propose(out, cx, &other);
    }
    return SN_OK;
}
