/* horizontal_fuse.c: the pass `horizontal-fuse`: kernels that do not need each other become segments of one, so that
 * one launch runs them.
 *
 *     kernel @k0(x0, y0) { loop g in 3 : grid { A } }
 *     kernel @k1(x1, y1) { loop g in 9 : grid { A' } }
 *  -> kernel @k0(x0, x1, y0, y1) { loop g in 3 : grid { A }  loop g_1 in 9 : grid { A' } }
 *
 * Legality: kernels of one level of the dependence graph (horizontal_order.c) neither read nor write what another
 * one of them stores. A launch has one block shape, so the merged kernels have the same. What computes from
 * constants alone, and so runs once, is not joined with what runs each time.
 *
 * Which: any number of kernels that are alike (ir/loop/alike.h: one piece of code does them all), as far as the
 * parameters of a launch and temporaries in the cache allow. Kinds of kernels that are not alike share a launch when
 * all but one of them fill less than one wave of blocks, only that one keeps something in shared memory (a block gets
 * what all segments ask for), none has pipes or matrix instructions (a kernel's header says what these need), and `last-block-reduce` has no use for any of them that touches temporaries. So that more
 * kernels are alike, elementwise ones get the threads of the widest of their level, and the test of the last block even
 * where it is full; it goes again where nobody needs it.
 *
 * A launch costs a few microseconds of its own, and small kernels leave most of the machine idle. The cost of joining:
 * temporaries of all members live at the same time, and a block finds its segment first. A kernel that makes a large
 * one therefore takes its neighbours in alone: it does not move. Near linear in the statements.
 */
#include "passes/fuse/horizontal_fuse.h"

#include <stdlib.h>

#include "ir/loop/alike.h"
#include "ir/loop/box.h"
#include "ir/loop/mma.h"
#include "passes/fuse/last_block_reduce.h"
#include "passes/schedule/base/constants.h"

typedef struct member {
    uint32_t section;
    uint32_t at; /* position in m->kernels */
    uint32_t level, threads_x, threads_y, n_stmts;
    sn_kern k;
    int64_t blocks, temp_bytes;
    sn_precision precision; /* of its products */
    bool constant;          /* it computes from constants alone: once, not in each run */
    bool shared;            /* it keeps something in shared memory, and takes it for the blocks of the whole launch */
    bool tail;              /* it may become the tail of a kernel, or have one (`last-block-reduce`) */
    bool wide;              /* it touches more temporaries than it pays to keep: it stays where it is */
    bool ahead;             /* it has pipes or matrix instructions, and is one program with its like alone */
    sn_stmt guard;          /* that this pass has put in */
    sn_alike alike;
} member;

/* Members that are alike. */
typedef struct family {
    member *at;
    uint32_t n, n_pointers, last; /* position of the last one */
    int64_t blocks, temp_bytes;
    bool tail, wide; /* one of them is */
} family;

typedef struct batcher {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern_order order;
    uint32_t *leader; /* by position */
    SN_VEC(member) members;
    SN_VEC(family) open; /* families of the kernel that is being put together */
    bool changed;
} batcher;

/* ---- candidates ---- */

/* Bytes of temporaries, number of statements, shared memory. */
static void measure(batcher *b, member *e) {
    const sn_kern_rec *k = sn_kern_get(b->m, e->k);
    for (uint32_t i = 0; i < k->params.n; i++)
        if (sn_buf_get(b->m, k->params.at[i])->scope == SN_BUF_TEMP)
            e->temp_bytes += sn_buf_bytes(b->m, k->params.at[i]);
    for (uint32_t i = 0; i < k->locals.n; i++)
        e->shared = e->shared || sn_buf_get(b->m, k->locals.at[i])->scope == SN_BUF_SHARED;
    for (sn_stmt s = k->first; s.i; s = sn_stmt_walk_next(b->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(b->m, s);
        e->n_stmts++;
        e->ahead = e->ahead || r->pipe || r->mma;
    }
}

/* One grid nest of constant size, nothing beside or behind it, no clusters, no scans, nothing posted, no boxes. */
static bool is_candidate(const batcher *b, sn_kern k) {
    const sn_kern_rec *r = sn_kern_get(b->m, k);
    if (!r->scheduled || !r->first.i || sn_next(b->m, r->first).i || !sn_is_grid(b->m, r->first)) return false;
    if (sn_kern_posts(b->m, k)) return false;
    for (sn_stmt s = r->first; s.i; s = sn_stmt_walk_next(b->m, s)) {
        const sn_stmt_rec *t = sn_stmt_get(b->m, s);
        if (t->axis.i && (t->kind == SN_AXIS_CLUSTER || !sn_ix_is_const(b->m, sn_stmt_extent(b->m, s), NULL)))
            return false;
        if (sn_is_grid(b->m, s) && t->next.i) return false; /* the last block goes on */
        if (t->op == SN_LOP_ACCUM) return false;            /* its position needs its strides as numbers */
        if (sn_mma_is_async((sn_mma)t->mma) || sn_is_box(b->m, s)) return false; /* counted for all of a launch */
    }
    return true;
}

/* Kernels by position: does `last-block-reduce` have a use for them? */
static bool *find_tails(batcher *b, const bool *constant, const bool *sets) {
    bool *tail = SN_NEWN(b->cx->scratch, bool, b->order.n + 1);
    sn_users users;
    sn_users_find(&users, b->m, b->cx->scratch);
    for (uint32_t i = 0; i < b->order.n; i++) {
        uint32_t first = sn_kern_tail_of(b->cx, &users, constant, sets, i);
        if (first != UINT32_MAX) tail[i] = tail[first] = true;
    }
    return tail;
}

static void find_members(batcher *b) {
    const bool *constant = sn_kerns_constant(b->m, b->cx->scratch);
    const bool *sets = sn_kerns_of_sets(b->m, b->cx->scratch); /* alternatives are launches of their own */
    const bool *tail = find_tails(b, constant, sets);
    for (uint32_t i = 0; i < b->m->kernels.n; i++) {
        sn_kern k = b->m->kernels.at[i];
        if (!is_candidate(b, k) || (sets && sets[k.i])) continue;
        sn_launch launch = sn_kern_launch(b->m, k);
        member e = {.at = i, .level = b->order.level[i], .k = k, .blocks = sn_ix_value(b->m, launch.grid)};
        e.constant = constant[i];
        e.section = sn_kern_get(b->m, k)->section;
        e.tail = tail[i];
        e.threads_x = launch.block_x;
        e.threads_y = launch.block_y;
        e.precision = sn_kern_get(b->m, k)->sched.precision;
        measure(b, &e);
        e.wide = e.temp_bytes > SN_BATCH_TEMPS;
        SN_PUSH(b->cx->scratch, &b->members, e);
    }
}

/* ---- making elementwise kernels alike ---- */

/* The block.x loop of an elementwise kernel, none if it is another one; where rows take turns, blocks count otherwise. */
static sn_stmt element_threads(const batcher *b, const member *e) {
    sn_stmt top = sn_kern_get(b->m, e->k)->first, t = sn_stmt_get(b->m, top)->first;
    const sn_sched *sc = &sn_kern_get(b->m, e->k)->sched;
    if (sc->cls != SN_SCHED_ELEMENT || sc->abreast > 1 || sn_kern_get(b->m, e->k)->locals.n || e->threads_y > 1 || !t.i)
        return (sn_stmt){0};
    const sn_stmt_rec *r = sn_stmt_get(b->m, t);
    return r->op == SN_LOP_LOOP && r->kind == SN_AXIS_BLOCK_X && !r->next.i ? t : (sn_stmt){0};
}

/* Of the first element of a thread. */
static sn_ix start_of(const batcher *b, const member *e, sn_stmt threads) {
    sn_module *m = b->m;
    uint32_t v = sn_kern_get(m, e->k)->sched.vector;
    sn_ix g = sn_ix_axis(m, sn_stmt_axis(m, sn_stmt_get(m, threads)->parent)),
          t = sn_ix_axis(m, sn_stmt_axis(m, threads));
    return sn_ix_scale(m, sn_ix_add(m, sn_ix_scale(m, g, e->threads_x), t), v ? v : 1);
}

/* The loop `threads` gets an `if` around its whole region: elements beyond n do not exist. */
static void put_guard(batcher *b, member *e, sn_stmt threads, int64_t n) {
    sn_module *m = b->m;
    sn_stmt first = sn_stmt_get(m, threads)->first;
    e->guard = sn_put_if(m, sn_at_before(m, first), start_of(b, e, threads), sn_ix_const(m, n));
    for (sn_stmt s = first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_insert(m, sn_at_end(e->k, e->guard), s);
    }
}

/* Does an `if` begin the region or end it? Then it is one of elements that do not exist, or another shape than those that are made alike. */
static bool is_tested(const batcher *b, sn_stmt threads) {
    const sn_stmt_rec *r = sn_stmt_get(b->m, threads);
    return !r->first.i || sn_stmt_get(b->m, r->first)->op == SN_LOP_IF || sn_stmt_get(b->m, r->last)->op == SN_LOP_IF;
}

/* Is all of the region in an `if` that lets no element beyond n through? */
static bool is_guarded(const batcher *b, const member *e, sn_stmt threads, int64_t n) {
    const sn_stmt_rec *r = sn_stmt_get(b->m, threads), *in = r->first.i ? sn_stmt_get(b->m, r->first) : r;
    int64_t bound;
    if (!r->first.i) return true;
    return r->first.i == r->last.i && in->op == SN_LOP_IF && sn_ix_eq(in->ix, start_of(b, e, threads)) &&
           sn_ix_is_const(b->m, in->bound, &bound) && bound <= n;
}

static void drop_guard(batcher *b, member *e) {
    if (!e->guard.i) return;
    for (sn_stmt s = sn_stmt_get(b->m, e->guard)->first, next; s.i; s = next) {
        next = sn_next(b->m, s);
        sn_stmt_unlink(b->m, s);
        sn_stmt_insert(b->m, sn_at_before(b->m, e->guard), s);
    }
    sn_stmt_unlink(b->m, e->guard);
    e->guard = (sn_stmt){0};
}

/* The same positions on blocks of more threads: position = g*T + t in either counting. */
static void widen(batcher *b, member *e, sn_stmt threads, uint32_t to) {
    sn_module *m = b->m;
    sn_stmt grid = sn_stmt_get(m, threads)->parent;
    sn_axis axes[2] = {sn_stmt_axis(m, grid), sn_stmt_axis(m, threads)};
    int64_t n = e->blocks * e->threads_x;
    sn_axis_get(m, axes[0])->extent = sn_ix_const(m, (n + to - 1) / to);
    sn_axis_get(m, axes[1])->extent = sn_ix_const(m, to);
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, axes[0]), to), sn_ix_axis(m, axes[1]));
    sn_ix with[2] = {sn_ix_divc(m, at, e->threads_x), sn_ix_modc(m, at, e->threads_x)};
    for (sn_stmt s = sn_stmt_get(m, threads)->first; s.i; s = sn_next(m, s)) sn_stmt_subst(m, s, axes, with, 2);
    e->blocks = (n + to - 1) / to;
    e->threads_x = sn_kern_get(m, e->k)->sched.block_x = to;
    if (!is_guarded(b, e, threads, n)) put_guard(b, e, threads, n);
    e->guard = (sn_stmt){0}; /* needed from now on */
    b->changed = true;
}

static void make_alike(batcher *b) {
    uint32_t *widest = SN_NEWN(b->cx->scratch, uint32_t, b->order.n + 1),
             *count = SN_NEWN(b->cx->scratch, uint32_t, b->order.n + 1);
    for (uint32_t i = 0; i < b->members.n; i++) {
        member *e = &b->members.at[i];
        if (e->wide || !element_threads(b, e).i) continue;
        count[e->level]++;
        if (e->threads_x > widest[e->level]) widest[e->level] = e->threads_x;
    }
    for (uint32_t i = 0; i < b->members.n; i++) {
        member *e = &b->members.at[i];
        sn_stmt threads = element_threads(b, e);
        if (e->wide || !threads.i || count[e->level] < 2) continue;
        if (e->threads_x < widest[e->level] && sn_kern_get(b->m, e->k)->sched.vector <= 1)
            widen(b, e, threads, widest[e->level]);
        else if (!is_tested(b, threads))
            put_guard(b, e, threads, e->blocks * e->threads_x * sn_kern_get(b->m, e->k)->sched.vector);
    }
}

/* ---- families ---- */

static int compare(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int same_launch(const member *a, const member *b) {
    if (a->level != b->level) return compare(a->level, b->level);
    if (a->threads_x != b->threads_x) return compare(a->threads_x, b->threads_x);
    if (a->threads_y != b->threads_y) return compare(a->threads_y, b->threads_y);
    if (a->constant != b->constant) return compare(a->constant, b->constant);
    if (a->section != b->section) return compare(a->section, b->section);
    return compare(a->precision, b->precision);
}

static int by_shape(const void *x, const void *y) {
    const member *a = x, *b = y;
    int order = same_launch(a, b);
    if (!order) order = compare(a->alike.hash, b->alike.hash);
    return order ? order : compare(a->at, b->at);
}

static int by_position(const void *x, const void *y) {
    return compare(((const family *)x)->at->at, ((const family *)y)->at->at);
}

static void join(family *f, const member *e) {
    f->n++;
    f->last = e->at;
    f->tail = f->tail || e->tail;
    f->wide = f->wide || e->wide;
    f->n_pointers += e->alike.slots.n;
    f->blocks += e->blocks;
    f->temp_bytes += e->temp_bytes;
}

/* ---- merging ---- */

static void drop_needless_guards(batcher *b, family *f) {
    bool needed = false;
    for (uint32_t i = 0; i < f->n; i++) needed = needed || !f->at[i].guard.i;
    for (uint32_t i = 0; i < f->n && !needed; i++) drop_guard(b, &f->at[i]);
}

static const char *note_of(batcher *b) {
    const char *all = NULL;
    for (uint32_t i = 0; i < b->open.n; i++) {
        const family *f = &b->open.at[i];
        const char *note = sn_kern_get(b->m, f->at->k)->note;
        char *one = sn_strf(&b->m->arena, "%s%u of %s", all ? "; " : "", f->n, note ? note : "a kernel");
        all = all ? sn_strf(&b->m->arena, "%s%s", all, one) : one;
    }
    return all;
}

static void move_into(batcher *b, sn_kern to, const member *e) {
    sn_stmt top = sn_kern_get(b->m, e->k)->first;
    sn_stmt_unlink(b->m, top);
    sn_stmt_insert(b->m, sn_at_end(to, (sn_stmt){0}), top);
}

/* The open families become one kernel, in the place of their first. */
static void close_batch(batcher *b) {
    uint32_t n = 0, pointers = 0;
    const family *largest = b->open.at;
    for (uint32_t i = 0; i < b->open.n; i++) {
        drop_needless_guards(b, &b->open.at[i]);
        n += b->open.at[i].n;
        pointers += b->open.at[i].n_pointers;
        if (b->open.at[i].blocks > largest->blocks) largest = &b->open.at[i];
    }
    if (n > 1) {
        const member *first = b->open.at->at;
        sn_kern_rec *k = sn_kern_get(b->m, first->k);
        k->note = note_of(b);
        k->sched = sn_kern_get(b->m, largest->at->k)->sched;
        for (uint32_t i = 0; i < b->open.n; i++)
            for (uint32_t j = 0; j < b->open.at[i].n; j++) {
                sn_kern_add_from(b->m, first->k, sn_kern_get(b->m, b->open.at[i].at[j].k)->from);
                sn_metric_join(b->cx->metrics, k->name, sn_kern_get(b->m, b->open.at[i].at[j].k)->name);
                move_into(b, first->k, &b->open.at[i].at[j]);
                b->leader[b->open.at[i].at[j].at] = first->at;
            }
        sn_kern_collect_params(b->m, first->k);
        sn_remark(b->cx, k->name, "one launch for %u kernels of %u kinds, %u buffers", n, b->open.n, pointers);
        b->changed = true;
    } else if (largest->wide) {
        sn_remark(b->cx, sn_kern_get(b->m, largest->at->k)->name, "kept: %lld bytes of temporaries",
                  (long long)largest->temp_bytes);
    }
    b->open.n = 0;
}

/* Do kernels of these two kinds do each other no harm in one launch? */
static bool agree(const family *a, const family *b) {
    if (a->tail || b->tail || a->at->ahead || b->at->ahead || (a->at->shared && b->at->shared)) return false;
    return !(a->at->shared && a->blocks < b->blocks) && !(b->at->shared && b->blocks < a->blocks);
}

/* Is some kernel between the first and the last member none of them? What has much in temporaries would move. */
static bool leaves_gaps(const batcher *b, const family *f) {
    uint32_t first = f->at->at, last = f->last, n = f->n;
    for (uint32_t i = 0; i < b->open.n; i++) {
        const family *o = &b->open.at[i];
        n += o->n;
        if (o->at->at < first) first = o->at->at;
        if (o->last > last) last = o->last;
    }
    return last - first + 1 != n;
}

/* Does the family fit into the kernel that is being put together? */
static bool fits(const batcher *b, const family *f) {
    const sn_target *t = b->cx->target;
    int64_t temps = f->wide ? 0 : f->temp_bytes,
            wave = (int64_t)t->units * SN_BATCH_RESIDENT / ((int64_t)f->at->threads_x * f->at->threads_y);
    uint32_t pointers = f->n_pointers, code = f->at->n_stmts, large = f->blocks >= wave;
    bool wide = f->wide;
    for (uint32_t i = 0; i < b->open.n; i++) {
        const family *o = &b->open.at[i];
        temps += o->wide ? 0 : o->temp_bytes;
        pointers += o->n_pointers;
        code += o->at->n_stmts;
        large += o->blocks >= wave;
        wide = wide || o->wide;
        if (!agree(o, f)) return false;
    }
    if (wide && leaves_gaps(b, f)) return false;
    return b->open.n < SN_BATCH_KINDS && code <= SN_BATCH_CODE && large <= 1 && pointers <= SN_BATCH_POINTERS &&
           temps <= (int64_t)t->cache_bytes / 2;
}

static void add_family(batcher *b, const family *f) {
    if (b->open.n && !fits(b, f)) close_batch(b);
    SN_PUSH(b->cx->scratch, &b->open, *f);
}

/* Members that could share a launch, by shape: cut into families, in the order of the kernels. */
static void batch_level(batcher *b, member *at, uint32_t n) {
    SN_VEC(family) families = {0};
    for (uint32_t i = 0; i < n; i++) {
        family *f = families.n ? &families.at[families.n - 1] : NULL;
        bool more = f && !f->wide && !at[i].wide && sn_alike_equal(&f->at->alike, &at[i].alike) &&
                    f->n_pointers + at[i].alike.slots.n <= SN_BATCH_POINTERS &&
                    f->temp_bytes + at[i].temp_bytes <= (int64_t)b->cx->target->cache_bytes / 2;
        if (!more) {
            SN_PUSH(b->cx->scratch, &families, ((family){.at = &at[i]}));
            f = &families.at[families.n - 1];
        }
        join(f, &at[i]);
    }
    qsort(families.at, families.n, sizeof *families.at, by_position);
    for (uint32_t i = 0; i < families.n; i++) add_family(b, &families.at[i]);
    close_batch(b);
}

/* ---- the pass ---- */

sn_status sn_pass_horizontal_fuse(sn_pass_ctx *cx, bool *changed) {
    batcher b = {.cx = cx, .m = cx->m};
    if (!cx->target->is_gpu || cx->m->kernels.n < 2) return SN_OK;
    sn_kern_order_find(&b.order, cx);
    b.leader = SN_NEWN(cx->scratch, uint32_t, b.order.n);
    for (uint32_t i = 0; i < b.order.n; i++) b.leader[i] = i;
    find_members(&b);
    make_alike(&b);
    for (uint32_t i = 0; i < b.members.n; i++) {
        member *e = &b.members.at[i];
        sn_alike_read(&e->alike, cx->m, cx->scratch, sn_kern_get(cx->m, e->k)->first);
    }
    if (b.members.n) qsort(b.members.at, b.members.n, sizeof *b.members.at, by_shape);
    for (uint32_t i = 0, end; i < b.members.n; i = end) {
        for (end = i + 1; end < b.members.n && !same_launch(&b.members.at[i], &b.members.at[end]); end++) continue;
        batch_level(&b, b.members.at + i, end - i);
    }
    sn_kern_order_apply(&b.order, cx, b.leader);
    *changed = b.changed;
    return cx->m->env->status;
}
