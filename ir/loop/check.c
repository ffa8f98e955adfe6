/* check.c: may the threads of a GPU run this kernel at the same time? Watches the evaluator (eval.c), which
 * runs one iteration after the other, and finds what would go wrong if block, cluster, grid and vector axes ran
 * together.
 *
 * Who. Block and cluster axes around an access give numbers of its thread. Where a number is missing, a store is by the
 * thread whose number is 0 and a load by all of them (loop.h). In shared memory outside the cluster axis each block has
 * its own. Registers belong to the thread whose number is in the offset, whoever reads them (mma.h).
 *
 * When. Threads of a block (of its cluster) are ordered by barriers alone. The epoch of an access is the number of
 * barriers that its thread has passed in this block: where an axis of threads begins, every iteration starts to count
 * from the same number, because all of them come to the same barriers. Of two accesses to one element by different
 * threads, one of them a store, the one that the evaluator makes first must have the smaller epoch. An equal epoch is a
 * race, a larger one means that the GPU does it in the other order. Reductions over block axes are no barriers.
 *
 * Blocks. Time counts iterations of grid loops. Two blocks are not ordered, so that any such pair in two iterations of
 * one grid loop is a race. What follows the loop is later than all of it. What stands before it, is done by every
 * block. A posted element is stored once; then a load by another block waits for the store, whatever blocks do. That
 * there was one, earlier in the order in which blocks start, the evaluator finds: else the load would wait for ever.
 *
 * Divergence. All threads of a block (of its cluster) must come to the same barriers and reductions over block axes, in
 * the same order: the first iterations write them down, the others are held against that.
 *
 * Lanes. A vector statement runs on all lanes before the next one: what one lane stores no other lane may load.
 *
 * Copies. What a bulk nest copies comes later than the statement that the evaluator runs. For the thread that copies,
 * they are numbered groups: one a bulk nest, which has come when the nest is left, or one an iteration of a bulk loop,
 * which has come in that iteration of the await loop. Until then the thread neither loads nor stores the element; for
 * others a copy is a store like any other. In a pipe what is copied has come for all threads behind the next barrier.
 * It is stored long before, at the begin of the loop or behind the barrier of an earlier iteration, and that is the
 * epoch which older loads and stores must have come before. Buffers that a pipe fills have a history for each stage.
 * A box (box.h) waits by itself until its buffer has been read; two boxes of an iteration are in no order.
 *
 * An element remembers its last store and the loads since; what came before was in order with that store. Accesses
 * outside a buffer and unwritten elements are the evaluator's to find. Not seen: two buffers in one storage, the order
 * of stores of two vector statements, groups of a shared buffer that only exist on the GPU.
 */
#include "ir/loop/check.h"

#include <stdio.h>

#include "ir/base/text.h"
#include "ir/loop/box.h"
#include "ir/loop/copies.h"

enum { X, Y, CLUSTER, N_NUMBERS };

static const uint32_t AHEAD = UINT32_MAX;   /* group of what a pipe copies */
static const uint32_t BOX = UINT32_MAX - 1; /* group of what a box copies */

typedef struct access {
    sn_stmt s;
    uint32_t who, time, epoch, lane; /* time 0: there was none */
    uint32_t group;                  /* of a copy that comes later; 0: all else */
    uint32_t wait;                   /* of a box: waits for boxes that the block had passed; else 0 */
} access;

/* Loads of an element since its last store: the first one; the last, which has the largest epoch; the one with the
 * largest epoch by another thread; the first of the vector statement that runs. */
typedef struct loads {
    access first, last, other, lane;
} loads;

/* What happened to the elements of a buffer. */
typedef struct history {
    access *stores;  /* the last one */
    loads *loads;    /* NULL: the kernel has none */
    sn_stmt pipe;    /* that fills the buffer, or none */
    uint32_t kernel; /* when the last kernel began that stores to it: others have no conflicts */
} history;

typedef struct frame {
    sn_stmt s;
    sn_axis_kind kind;
    int64_t i;
    uint32_t start, turn;         /* grid: time before the loop and of the iteration */
    uint32_t synced, epoch;       /* block axes: as they were before the loop */
    uint32_t synced_first;        /* ... and after its first iteration */
    uint32_t landed;              /* as it was before the loop */
    sn_stmt barrier;              /* of a pipe */
    uint32_t behind[SN_MAX_PIPE]; /* ... epochs behind it, by iteration */
} frame;

struct sn_loop_checker {
    sn_module *m;
    sn_arena *arena;
    history *of; /* by buffer */
    sn_copy_list copies;
    uint32_t *copy_of; /* by statement: number in copies + 1 of one in a bulk nest */
    int64_t extent[N_NUMBERS];
    int64_t number[N_NUMBERS]; /* -1: outside the axis */
    SN_VEC(frame) frames;
    SN_VEC(sn_stmt) syncs;     /* of this block, in order */
    uint32_t synced, epoch;    /* how many the thread has passed, and how many of them were barriers */
    uint32_t landed;           /* groups of copies that have come for the thread */
    uint32_t waits;            /* barriers of pipes of boxes that the block has passed */
    uint32_t followers;        /* axes of threads that are not in their first iteration */
    uint32_t began, now, tail; /* times: of the kernel, of this block, of the last one that was the last block */
    uint32_t lane, first_lane; /* of all lanes ever, one number each; those of the vector statements that run now */
};

/* ---- who and where ---- */

static int number_of(sn_axis_kind kind) {
    return kind == SN_AXIS_BLOCK_X ? X : kind == SN_AXIS_BLOCK_Y ? Y : kind == SN_AXIS_CLUSTER ? CLUSTER : -1;
}

/* Whose registers element `at` is in. Instructions read fragments from all threads of a warp, each its own. */
static uint32_t owner_name(const sn_loop_checker *c, int64_t private_size, int64_t at) {
    int64_t thread = at / private_size, of[N_NUMBERS];
    uint32_t name = 0;
    for (int k = 0; k < N_NUMBERS; thread /= c->extent[k++]) of[k] = thread % c->extent[k];
    for (int k = N_NUMBERS; k-- > 0;) name = name * (uint32_t)(c->extent[k] + 1) + (uint32_t)(of[k] + 1);
    return name;
}

/* Threads are named by their numbers + 1 as the digits of one number; 0: all of them. */
static uint32_t thread_name(const sn_loop_checker *c, sn_lop op, sn_buf_scope scope) {
    uint32_t name = 0;
    for (int k = N_NUMBERS; k-- > 0;) {
        bool own = k == CLUSTER && scope == SN_BUF_SHARED;
        bool first = c->extent[k] == 1 || op == SN_LOP_STORE || own;
        int64_t n = c->number[k] < 0 && first ? 0 : c->number[k];
        name = name * (uint32_t)(c->extent[k] + 1) + (uint32_t)(n + 1);
    }
    return name;
}

static bool names_several(const sn_loop_checker *c, uint32_t name) {
    for (int k = 0; k < N_NUMBERS; name /= (uint32_t)(c->extent[k++] + 1))
        if (name % (uint32_t)(c->extent[k] + 1) == 0) return true;
    return false;
}

/* "thread (5, 0)", "all threads", "rank 1, thread (*, 2)" */
static const char *thread_text(const sn_loop_checker *c, uint32_t name) {
    char digits[N_NUMBERS][16];
    bool any = false;
    for (int k = 0; k < N_NUMBERS; name /= (uint32_t)(c->extent[k++] + 1)) {
        uint32_t digit = name % (uint32_t)(c->extent[k] + 1);
        any |= k != CLUSTER && digit && c->extent[k] > 1;
        snprintf(digits[k], sizeof digits[k], digit ? "%u" : "*", digit - 1);
    }
    bool alone = c->extent[X] == 1 && c->extent[Y] == 1;
    const char *threads = any || alone ? sn_strf(c->arena, "thread (%s, %s)", digits[X], digits[Y]) : "all threads";
    return c->extent[CLUSTER] == 1 ? threads : sn_strf(c->arena, "rank %s, %s", digits[CLUSTER], threads);
}

const char *sn_check_place(const sn_loop_checker *c, sn_stmt s) {
    const char *blocks = "", *rest = "";
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->frames.n; k++) {
        const frame *f = &c->frames.at[k];
        const char *axis = sn_axis_get(c->m, sn_stmt_get(c->m, f->s)->axis)->name;
        if (f->kind == SN_AXIS_GRID) blocks = sn_strf(c->arena, n++ ? "%s, %lld" : "%s%lld", blocks, (long long)f->i);
        else if (number_of(f->kind) < 0) rest = sn_strf(c->arena, "%s, %s = %lld", rest, axis, (long long)f->i);
    }
    bool last = c->tail == c->now;
    if (n > 1) blocks = sn_strf(c->arena, "(%s)", blocks);
    if (n || last)
        blocks = sn_strf(c->arena, "%s%s%s, ", last ? "last block" : "block ", last && n ? " of " : "", blocks);
    const char *threads = thread_text(c, thread_name(c, sn_stmt_get(c->m, s)->op, SN_BUF_TEMP));
    return sn_strf(c->arena, "%s%s%s", blocks, threads, rest);
}

/* ---- kernels ---- */

sn_loop_checker *sn_check_new(sn_module *m, sn_arena *arena) {
    sn_loop_checker *c = SN_NEW(arena, sn_loop_checker);
    *c = (sn_loop_checker){.m = m, .arena = arena, .of = SN_NEWN(arena, history, m->bufs.count)};
    c->copy_of = SN_NEWN(arena, uint32_t, m->stmts.count);
    return c;
}

static void find_copies(sn_loop_checker *c, sn_kern k) {
    sn_kern_copies(&c->copies, c->m, k, c->arena);
    for (uint32_t i = 0; i < c->copies.n; i++) {
        const sn_copy *copy = &c->copies.at[i];
        if (copy->bulk.i) c->copy_of[copy->store.i] = i + 1;
        if (copy->pipe.i) c->of[sn_stmt_get(c->m, copy->store)->buf.i].pipe = copy->pipe;
    }
}

/* Elements of the buffer, in all stages of its pipe. */
static int64_t elements_of(const sn_loop_checker *c, sn_buf b) {
    sn_stmt pipe = c->of[b.i].pipe;
    return sn_ix_value(c->m, sn_buf_get(c->m, b)->size) * (pipe.i ? sn_stmt_get(c->m, pipe)->pipe : 1);
}

sn_status sn_check_kernel(sn_loop_checker *c, sn_kern k) {
    c->began = ++c->now;
    c->first_lane = UINT32_MAX;
    c->synced = c->epoch = c->landed = c->followers = c->syncs.n = c->frames.n = 0;
    find_copies(c, k);
    for (int i = 0; i < N_NUMBERS; i++) c->extent[i] = 1, c->number[i] = -1;
    for (sn_stmt s = sn_stmt_walk_first(c->m, k); s.i; s = sn_stmt_walk_next(c->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(c->m, s);
        int number = r->axis.i ? number_of(r->kind) : -1;
        if (number >= 0 && !sn_ix_is_const(c->m, sn_axis_get(c->m, r->axis)->extent, &c->extent[number]))
            return sn_stmt_fail(c->m, SN_ERROR_UNSUPPORTED, "evaluation", s, "the extent is symbolic");
        if (r->op != SN_LOP_STORE || !sn_ix_is_const(c->m, sn_buf_get(c->m, r->buf)->size, NULL)) continue;
        history *h = &c->of[r->buf.i];
        h->kernel = c->began;
        if (!h->stores) h->stores = SN_NEWN(c->arena, access, elements_of(c, r->buf));
    }
    for (sn_stmt s = sn_stmt_walk_first(c->m, k); s.i; s = sn_stmt_walk_next(c->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(c->m, s);
        history *h = &c->of[r->buf.i];
        if (r->op == SN_LOP_LOAD && h->kernel == c->began && !h->loads)
            h->loads = SN_NEWN(c->arena, loads, elements_of(c, r->buf));
    }
    return SN_OK;
}

/* ---- barriers, and reductions that threads make together ---- */

static sn_status diverges(sn_loop_checker *c, sn_stmt s, bool comes) {
    sn_stmt test = sn_stmt_get(c->m, s)->parent;
    sn_text t;
    sn_text_init(&t, c->m->env);
    while (test.i && sn_stmt_get(c->m, test)->op != SN_LOP_IF) test = sn_stmt_get(c->m, test)->parent;
    if (test.i) sn_stmt_print(&t, c->m, test);
    sn_status status = sn_stmt_fail(c->m, SN_ERROR_VERIFY, sn_check_place(c, s), s,
                                    "divergent: not all threads of the block come here, this one does%s%s%s%s",
                                    comes ? "" : " not", t.n ? " (in `" : "", t.n ? t.s : "", t.n ? "`)" : "");
    sn_text_free(&t);
    return status;
}

static sn_status synchronise(sn_loop_checker *c, sn_stmt s) {
    bool known = c->synced < c->syncs.n;
    if (known ? c->syncs.at[c->synced].i != s.i : c->followers > 0) return diverges(c, s, true);
    if (!known) SN_PUSH(c->arena, &c->syncs, s);
    c->synced++;
    return SN_OK;
}

sn_status sn_check_barrier(sn_loop_checker *c, sn_stmt s) {
    frame *f = c->frames.n ? &c->frames.at[c->frames.n - 1] : NULL;
    if (sn_is_box_barrier(c->m, s)) return c->waits++, SN_OK;
    SN_TRY(synchronise(c, s));
    c->epoch++;
    if (f && f->barrier.i == s.i) f->behind[f->i % SN_MAX_PIPE] = c->epoch;
    return SN_OK;
}

/* ---- axes ---- */

/* Another block. */
static void next_block(sn_loop_checker *c) {
    c->now++;
    c->synced = c->epoch = c->landed = c->syncs.n = 0;
}

void sn_check_enter(sn_loop_checker *c, sn_stmt s) {
    frame f = {.s = s, .kind = sn_stmt_get(c->m, s)->kind, .i = -1, .start = c->now};
    f.synced = c->synced;
    f.epoch = c->epoch;
    f.landed = c->landed;
    if (sn_stmt_get(c->m, s)->pipe) f.barrier = sn_pipe_barrier(c->m, s);
    if (f.kind == SN_AXIS_VECTOR) c->first_lane = c->lane + 1;
    SN_PUSH(c->arena, &c->frames, f);
}

/* An iteration of an axis of threads has ended. */
static sn_status compare_threads(sn_loop_checker *c, frame *f) {
    if (f->i == 0) f->synced_first = c->synced;
    if (c->synced > f->synced_first) return diverges(c, c->syncs.at[f->synced_first], true);
    if (c->synced < f->synced_first) return diverges(c, c->syncs.at[c->synced], false);
    return SN_OK;
}

sn_status sn_check_turn(sn_loop_checker *c, int64_t i) {
    frame *f = &c->frames.at[c->frames.n - 1];
    int number = number_of(f->kind);
    if (number >= 0) {
        if (i) SN_TRY(compare_threads(c, f));
        c->number[number] = i;
        c->followers += i == 1;
        c->synced = f->synced;
        c->epoch = f->epoch;
        c->landed = f->landed;
    } else if (f->kind == SN_AXIS_GRID) {
        next_block(c);
        f->turn = c->now;
    } else if (f->kind == SN_AXIS_VECTOR) {
        c->lane++;
    }
    f->i = i;
    if (sn_stmt_get(c->m, f->s)->await) c->landed = f->landed + (uint32_t)i + 1;
    return SN_OK;
}

sn_status sn_check_leave(sn_loop_checker *c) {
    frame *f = &c->frames.at[c->frames.n - 1];
    int number = number_of(f->kind);
    if (number >= 0 && f->i >= 0) {
        SN_TRY(compare_threads(c, f));
        c->number[number] = -1;
        c->followers -= f->i > 0;
    } else if (f->kind == SN_AXIS_GRID) {
        next_block(c);
        c->tail = c->now;
    } else if (f->kind == SN_AXIS_VECTOR) {
        c->first_lane = UINT32_MAX;
    }
    if (sn_stmt_get(c->m, f->s)->bulk && f->kind == SN_AXIS_BLOCK_X) c->landed = f->landed + 1;
    c->frames.n--;
    return number >= 0 && sn_stmt_get(c->m, f->s)->op == SN_LOP_REDUCE ? synchronise(c, f->s) : SN_OK;
}

/* ---- accesses ---- */

/* Does another block make it, in no order with this one? */
static bool unordered(const sn_loop_checker *c, uint32_t time) {
    if (time < c->began) return false;
    for (uint32_t k = 0; k < c->frames.n; k++) {
        const frame *f = &c->frames.at[k];
        if (f->kind == SN_AXIS_GRID && f->start <= time && time < f->turn) return true;
    }
    return false;
}

typedef enum conflict { NONE, NO_ORDER, NO_BARRIER, INVERTED, LANES, TWICE, LATE } conflict;

static bool is_posted(const sn_loop_checker *c, sn_stmt s) {
    return sn_buf_get(c->m, sn_stmt_get(c->m, s)->buf)->scope == SN_BUF_POSTED;
}

static bool is_store(const sn_loop_checker *c, sn_stmt s) { return sn_stmt_get(c->m, s)->op == SN_LOP_STORE; }

/* Of x, made before, with y, made now. One of the two is a store. */
static conflict conflict_of(const sn_loop_checker *c, const access *x, const access *y) {
    bool posted = x->time >= c->began && is_posted(c, x->s);
    if (posted && is_store(c, x->s) && is_store(c, y->s)) return TWICE;
    if (unordered(c, x->time)) return posted ? NONE : NO_ORDER;
    if (x->time != c->now) return NONE;
    if (x->group == BOX) return x->wait >= c->waits ? LATE : NONE; /* it is waited for, and nothing else orders it */
    if (x->who != y->who && x->epoch >= y->epoch) return x->epoch == y->epoch ? NO_BARRIER : INVERTED;
    bool late = x->group == AHEAD ? x->epoch >= y->epoch : x->group > c->landed;
    return late ? LATE : NONE;
}

/* Of a load and a store in one vector statement. */
static conflict conflict_of_lanes(const sn_loop_checker *c, const access *x, const access *y) {
    return x->lane >= c->first_lane && x->lane != y->lane ? LANES : NONE;
}

static sn_status race(sn_loop_checker *c, const access *x, const access *y, int64_t at, conflict why) {
    static const char *const WHY[] = {
        [NO_ORDER] = "and blocks run in any order",    [NO_BARRIER] = "and no barrier stands between",
        [INVERTED] = "which a GPU does later",         [LANES] = "and lanes run together",
        [TWICE] = "and what is posted is stored once", [LATE] = "a copy that need not have come"};
    if (why == NONE) return SN_OK;
    bool other = why == NO_ORDER || (why == TWICE && x->time != c->now);
    const char *who = other ? "another block" : why == LANES ? "another lane" : thread_text(c, x->who);
    const sn_stmt_rec *r = sn_stmt_get(c->m, x->s);
    sn_text t;
    sn_text_init(&t, c->m->env);
    sn_stmt_print(&t, c->m, x->s);
    sn_status status = sn_stmt_fail(
        c->m, SN_ERROR_VERIFY, sn_check_place(c, y->s), y->s, "a race: %s %s element %lld of '%s' in `%s`, %s", who,
        r->op == SN_LOP_STORE ? "stores" : "loads", (long long)at, sn_buf_get(c->m, r->buf)->name, t.s, WHY[why]);
    sn_text_free(&t);
    return status;
}

static void note_load(const sn_loop_checker *c, loads *l, const access *y) {
    if (l->first.time < c->began) l->first = *y;
    if (l->lane.lane < c->first_lane) l->lane = *y;
    if (l->last.time != c->now) l->last = l->other = (access){.time = 0};
    bool several = names_several(c, y->who), same = y->who == l->last.who;
    if (y->epoch >= l->last.epoch) {
        const access *other = several ? y : same ? &l->other : &l->last;
        if (other->epoch >= l->other.epoch) l->other = *other;
        l->last = *y;
    } else if ((several || !same) && y->epoch >= l->other.epoch) {
        l->other = *y;
    }
}

static sn_status check_load(sn_loop_checker *c, const access *store, const access *y, int64_t at) {
    SN_TRY(race(c, store, y, at, conflict_of(c, store, y)));
    return race(c, store, y, at, conflict_of_lanes(c, store, y));
}

static sn_status check_store(sn_loop_checker *c, const access *store, const loads *l, const access *y, int64_t at) {
    SN_TRY(race(c, store, y, at, conflict_of(c, store, y)));
    if (!l) return SN_OK;
    const access *before[] = {&l->first, &l->last, &l->other};
    for (uint32_t k = 0; k < SN_COUNT(before); k++) SN_TRY(race(c, before[k], y, at, conflict_of(c, before[k], y)));
    return race(c, &l->lane, y, at, conflict_of_lanes(c, &l->lane, y));
}

static const frame *frame_of(const sn_loop_checker *c, sn_stmt loop) {
    uint32_t k = c->frames.n - 1;
    while (c->frames.at[k].s.i != loop.i) k--;
    return &c->frames.at[k];
}

static uint32_t group_of(const sn_loop_checker *c, const sn_copy *copy) {
    if (!copy) return 0;
    if (copy->pipe.i) return copy->threads.i ? AHEAD : BOX;
    const frame *f = frame_of(c, copy->bulk);
    return c->landed + 1 + (f->kind == SN_AXIS_BLOCK_X ? 0 : (uint32_t)f->i);
}

/* The copy as the pipe makes it, iterations ahead. */
static access made_ahead(const sn_loop_checker *c, const access *y, sn_stmt pipe) {
    const frame *f = frame_of(c, pipe);
    int64_t made = f->i + 1 - sn_stmt_get(c->m, pipe)->pipe;
    access x = *y;
    x.epoch = made < 0 ? f->epoch : f->behind[made % SN_MAX_PIPE];
    x.group = 0;
    return x;
}

sn_status sn_check_access(sn_loop_checker *c, sn_stmt s, int64_t at) {
    const sn_stmt_rec *r = sn_stmt_get(c->m, s);
    const history *h = &c->of[r->buf.i];
    if (h->kernel != c->began) return SN_OK;
    const sn_buf_rec *b = sn_buf_get(c->m, r->buf);
    const sn_copy *copy = c->copy_of[s.i] ? &c->copies.at[c->copy_of[s.i] - 1] : NULL;
    int64_t slot = at;
    if (h->pipe.i) slot += frame_of(c, h->pipe)->i % sn_stmt_get(c->m, h->pipe)->pipe * sn_ix_value(c->m, b->size);
    uint32_t who = b->scope == SN_BUF_REG ? owner_name(c, b->private_size, at) : thread_name(c, r->op, b->scope);
    access y = {s, who, c->now, c->epoch, c->lane, group_of(c, copy), c->waits};
    access *store = &h->stores[slot];
    loads *l = h->loads ? &h->loads[slot] : NULL;
    if (sn_buf_is_private(b) && store->time != c->now) { /* that was another block's */
        *store = (access){.time = 0};
        if (l) *l = (loads){.first = {.time = 0}};
    }
    if (r->op == SN_LOP_LOAD) {
        SN_TRY(check_load(c, store, &y, at));
        note_load(c, l, &y);
        return SN_OK;
    }
    access made = copy && copy->pipe.i ? made_ahead(c, &y, copy->pipe) : y;
    /* A box waits by itself for those that read what was there before, and not for another box. */
    bool is_box = copy && !copy->threads.i;
    SN_TRY(is_box ? race(c, store, &y, at, conflict_of(c, store, &y)) : check_store(c, store, l, &made, at));
    *store = y;
    if (l) *l = (loads){.first = {.time = 0}};
    return SN_OK;
}
