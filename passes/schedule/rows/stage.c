/* stage.c: rows stay on the chip: in registers, or in shared memory.
 *
 * After a row kernel is bound, each thread owns the same elements in every nest of the row. An element that one nest
 * loads (or stores) and a later nest loads again is kept in a `reg` buffer:
 *
 *     reduce max x { reduce u { reduce v { %0 = load a[e]  store s[p], %0  yield %0 } } }
 *     loop x       { loop u   { loop v   { %1 = load s[p]  ... } } }          p = private * thread + u*V + v
 *
 * The element is the same when buffer and ix agree after the axes of the nests are renamed to each other. It is there
 * when the first access happens wherever the later one does: each test that guards or masks the first one also guards
 * or masks the later one. Nests under a `seq` level do not fit in registers; in shared memory they may:
 *
 *     s[private * c + y*row + ((uo*U + u)*X + x)*V + v]
 *
 * and then a loop of its own in front of the nest that needs them first copies the elements, without registers and all
 * at once (see passes/loops/async_copy.c).
 *
 * Columns (class outer) have the threads x and the lanes v outside of their nests, whose threads y share the rows. A
 * thread keeps what it loads itself, in registers, or in places of its own in shared memory, which the first nest fills:
 *
 *     p = private * (y*X + x) + (uo*U + u)*V + v         s[(((uo*U + u)*Y + y)*X + x)*V + v]
 *
 * A function of f64 is arithmetic, dozens of operations. Where a nest computes one of the kept element and of values of the
 * row, and all that later nests want of the element is the same again (softmax: the exponentials that are summed), the
 * result takes the place of the element, bit for bit what they would compute:
 *
 *     reduce sum x { ... { %2 = load s[p]  %3 = exp %2 - %max  store s[p], %3  yield %3 } }
 *     loop x       { ... { %4 = load s[p]  store y[e], %4 / %sum } }
 *
 * The thread that overwrites the place is the one that reads it again, so this needs no barrier either. What the first of
 * the two computes has to happen wherever a later one does, by the same comparison of tests.
 *
 * A temporary whose loads all turn into registers loses its stores. Cost: accesses squared per kernel, which is small.
 */
#include "passes/schedule/base/constants.h"
#include "passes/schedule/base/model.h"
#include "passes/schedule/rows/rows.h"

#include <string.h>

enum { MAX_LEVELS = 6, MAX_TESTS = 8, MAX_FUNCTION = 8 };

/* One bound nest: its loops, those of blocks first. */
typedef struct bound_nest {
    sn_stmt top, at[MAX_LEVELS];
    uint32_t n, like; /* like: the first nest of the same loops and count */
    int64_t count;    /* elements; the threads beyond do nothing */
    bool fits;
    sn_stmt copy[MAX_LEVELS]; /* loops in front of it that bring rows to shared memory; none yet: 0 */
} bound_nest;

/* `0 <= e < bound` with e over the axes of nest `like`; or, bound none, the bool value of id e.i. */
typedef struct test {
    sn_ix e, bound;
} test;
typedef struct test_list {
    test at[MAX_TESTS];
    uint32_t n;
    bool too_many;
} test_list;

typedef struct entry {
    sn_stmt s;       /* the first load, or the store */
    test_list tests; /* all have to hold for it to happen */
    sn_buf buf;
    sn_ix key; /* ix over the axes of nest `like` */
    uint32_t nest, like;
    sn_stmt uses[SN_MAX_NESTS];
    uint32_t use_nest[SN_MAX_NESTS], n_uses;
} entry;

/* What is computed of a kept element: statements, operands first, root last. */
typedef struct function {
    sn_stmt at[MAX_FUNCTION];
    uint32_t n;
    sn_val element; /* the load of the element */
    uint32_t nest;
    bool of_element;
} function;

/* The first of them, and those that are it again in all later nests that load the element; n_later 0: none. */
typedef struct computed {
    function first, later[SN_MAX_NESTS];
    uint32_t n_later;
} computed;

typedef struct stage {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    sn_stmt body;
    sn_stmt columns, lanes; /* loops around all nests: threads that own columns, and their lanes; none: rows */
    bound_nest nests[SN_MAX_NESTS];
    uint32_t n_nests;
    SN_VEC(entry) entries;
} stage;

/* ---- nests ---- */

/* Does the level count steps of a thread? A scan has the threads inside them, other nests outside. */
static bool is_step(const sn_module *m, sn_stmt level) {
    return sn_stmt_get(m, level)->kind == SN_AXIS_SEQ || sn_stmt_get(m, level)->kind == SN_AXIS_UNROLL;
}

static bool has_accesses(const sn_module *m, sn_stmt s) {
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i && t.i != end.i; t = sn_stmt_walk_next(m, t))
        if (sn_is_access(sn_stmt_get(m, t))) return true;
    return false;
}

/* Of a row that a team keeps in part (row_part.c), those of the part. */
static void find_levels(const stage *st, bound_nest *bn, sn_stmt kept, bool shared) {
    const sn_module *m = st->m;
    bn->n = 0;
    bn->fits = true;
    for (sn_stmt s = bn->top; s.i && bn->n < MAX_LEVELS;) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_is_nest(r)) {
            uint32_t at = bn->n++;
            bn->fits &= shared || r->kind != SN_AXIS_SEQ;
            for (; r->kind == SN_AXIS_BLOCK_X && at && is_step(m, bn->at[at - 1]); at--) bn->at[at] = bn->at[at - 1];
            bn->at[at] = s;
        }
        sn_stmt inner = {0};
        for (sn_stmt t = r->first; t.i && (!inner.i || inner.i != kept.i); t = sn_next(m, t))
            if (sn_lop_has_region(sn_stmt_get(m, t)->op) && has_accesses(m, t)) inner = t;
        s = inner;
    }
}

static bool alike(const stage *st, const bound_nest *a, const bound_nest *b) {
    return a->n == b->n && a->count == b->count && sn_loops_alike(st->m, a->at, b->at, a->n);
}

static void find_nests(stage *st, const sn_schedule_shape *sh, bool shared) {
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        bound_nest *bn = &st->nests[i];
        *bn = (bound_nest){.top = sh->nests[i].top, .like = i, .count = sh->nests[i].count};
        find_levels(st, bn, sh->nests[i].kept, shared);
        for (uint32_t k = 0; k < i && bn->like == i; k++)
            if (alike(st, &st->nests[k], bn)) bn->like = st->nests[k].like;
    }
    st->n_nests = sh->n_nests;
}

/* ---- which elements are wanted again ---- */

static sn_ix key_of(const stage *st, uint32_t nest, sn_ix e) {
    const bound_nest *bn = &st->nests[nest];
    return sn_ix_over(st->m, e, bn->at, st->nests[bn->like].at, bn->n);
}

static void add_test(test_list *ts, sn_ix e, sn_ix bound) {
    if (ts->n == MAX_TESTS) ts->too_many = true;
    else ts->at[ts->n++] = (test){e, bound};
}

static void add_mask(test_list *ts, const stage *st, uint32_t nest, sn_val mask) {
    const sn_stmt_rec *r = sn_stmt_get(st->m, sn_val_get(st->m, mask)->def);
    if (r->op == SN_LOP_AND) {
        add_mask(ts, st, nest, r->in[0]);
        add_mask(ts, st, nest, r->in[1]);
    } else if (r->op == SN_LOP_IN) {
        add_test(ts, key_of(st, nest, r->ix), r->bound);
    } else {
        add_test(ts, (sn_ix){mask.i}, (sn_ix){0});
    }
}

static void find_tests(test_list *ts, const stage *st, uint32_t nest, sn_stmt s) {
    *ts = (test_list){.n = 0};
    sn_val mask = sn_stmt_mask(sn_stmt_get(st->m, s));
    if (mask.i) add_mask(ts, st, nest, mask);
    for (sn_stmt p = sn_stmt_get(st->m, s)->parent; p.i != st->nests[nest].top.i; p = sn_stmt_get(st->m, p)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(st->m, p);
        if (r->op == SN_LOP_IF) add_test(ts, key_of(st, nest, r->ix), r->bound);
    }
}

/* Does every test of `first` stand among those of `later`? */
static bool happens_wherever(const test_list *first, const test_list *later) {
    for (uint32_t k = 0; k < first->n; k++) {
        bool found = false;
        for (uint32_t j = 0; j < later->n; j++)
            found |= sn_ix_eq(first->at[k].e, later->at[j].e) && sn_ix_eq(first->at[k].bound, later->at[j].bound);
        if (!found) return false;
    }
    return !first->too_many;
}

static void visit_access(stage *st, uint32_t nest, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(st->m, s);
    if (sn_buf_is_local(sn_buf_get(st->m, r->buf)) || sn_ix_uses_vals(st->m, r->ix)) return;
    entry e = {.s = s, .buf = r->buf, .key = key_of(st, nest, r->ix), .nest = nest, .like = st->nests[nest].like};
    find_tests(&e.tests, st, nest, s);
    if (sn_loads(r))
        for (uint32_t k = st->entries.n; k-- > 0;) {
            entry *old = &st->entries.at[k];
            if (!sn_buf_eq(old->buf, e.buf) || !sn_ix_eq(old->key, e.key) || old->like != e.like) continue;
            if (!happens_wherever(&old->tests, &e.tests)) break; /* read again; later ones may have it from here */
            if (old->nest < nest && old->n_uses < SN_MAX_NESTS) {
                old->uses[old->n_uses] = s;
                old->use_nest[old->n_uses++] = nest;
            }
            return;
        }
    SN_PUSH(st->cx->scratch, &st->entries, e);
}

static void find_entries(stage *st) {
    for (uint32_t n = 0; n < st->n_nests; n++) {
        if (!st->nests[n].fits) continue;
        sn_stmt end = sn_stmt_walk_skip(st->m, st->nests[n].top);
        for (sn_stmt s = st->nests[n].top; s.i && s.i != end.i; s = sn_stmt_walk_next(st->m, s)) {
            if (sn_is_access(sn_stmt_get(st->m, s))) visit_access(st, n, s);
        }
    }
}

/* ---- places ---- */

static int64_t lanes_of(const stage *st) {
    return st->lanes.i ? sn_ix_value(st->m, sn_stmt_extent(st->m, st->lanes)) : 1;
}

static bool is_of_threads(sn_axis_kind kind) {
    return kind == SN_AXIS_BLOCK_X || kind == SN_AXIS_BLOCK_Y || kind == SN_AXIS_CLUSTER;
}

/* Elements of one thread in a nest. */
static int64_t thread_size(const stage *st, uint32_t nest) {
    int64_t n = lanes_of(st);
    for (uint32_t k = 0; k < st->nests[nest].n; k++)
        if (!is_of_threads(sn_stmt_get(st->m, st->nests[nest].at[k])->kind))
            n *= sn_ix_value(st->m, sn_stmt_extent(st->m, st->nests[nest].at[k]));
    return n;
}

static int64_t private_size(const stage *st, uint32_t nest, const sn_sched *sc) {
    return thread_size(st, nest) * (sc->shared ? sc->block_x * sc->block_y : 1);
}

/* How far the axis of a level steps in a reg buffer ([c][y][x] groups of a thread's elements), or in a shared one
 * ([c] groups of rows, in which neighbouring threads have neighbouring vectors). rest: elements of the levels
 * outside. */
static int64_t level_stride(const sn_sched *sc, sn_axis_kind kind, int64_t private, int64_t rest, int64_t vector) {
    if (kind == SN_AXIS_CLUSTER) return sc->shared ? private : private * sc->block_x * sc->block_y;
    if (kind == SN_AXIS_BLOCK_X) return sc->shared ? vector : private;
    return sc->shared && kind != SN_AXIS_VECTOR ? rest * sc->block_x : rest;
}

/* The same where threads and lanes that own columns stand outside of the nest. */
static int64_t column_stride(const stage *st, const sn_sched *sc, sn_axis_kind kind, int64_t private, int64_t rest) {
    if (kind == SN_AXIS_CLUSTER) return sc->shared ? private : private * sc->block_x * sc->block_y;
    if (kind == SN_AXIS_BLOCK_X) return sc->shared ? lanes_of(st) : private;
    if (kind == SN_AXIS_BLOCK_Y) return sc->block_x * (sc->shared ? lanes_of(st) : private);
    return sc->shared ? rest * sc->block_x * sc->block_y : rest;
}

static sn_ix step_of(const stage *st, sn_stmt level, int64_t stride) {
    return sn_ix_scale(st->m, sn_ix_axis(st->m, sn_stmt_axis(st->m, level)), stride);
}

/* Offset of the current element of a nest in the buffer that keeps it. */
static sn_ix kept_offset(const stage *st, uint32_t nest, const sn_sched *sc) {
    sn_module *m = st->m;
    int64_t private = private_size(st, nest, sc), rest = thread_size(st, nest), row = rest * sc->block_x, vector = 1;
    const bound_nest *bn = &st->nests[nest];
    sn_ix e = sn_ix_const(m, 0);
    if (sn_stmt_get(m, bn->at[bn->n - 1])->kind == SN_AXIS_VECTOR)
        vector = sn_ix_value(m, sn_stmt_extent(m, bn->at[bn->n - 1]));
    for (uint32_t k = 0; k < bn->n; k++) {
        sn_axis_kind kind = sn_stmt_get(m, bn->at[k])->kind;
        if (!is_of_threads(kind)) rest /= sn_ix_value(m, sn_stmt_extent(m, bn->at[k]));
        int64_t stride =
            st->columns.i ? column_stride(st, sc, kind, private, rest) : level_stride(sc, kind, private, rest, vector);
        e = sn_ix_add(m, e, step_of(st, bn->at[k], stride));
    }
    if (st->columns.i)
        e = sn_ix_add(m, e, step_of(st, st->columns, column_stride(st, sc, SN_AXIS_BLOCK_X, private, 1)));
    if (st->lanes.i) e = sn_ix_add(m, e, step_of(st, st->lanes, 1));
    if (sn_stmt_get(m, st->body)->kind == SN_AXIS_BLOCK_Y) e = sn_ix_add(m, e, step_of(st, st->body, row));
    return e;
}

static void replace_use(stage *st, sn_stmt load, uint32_t nest, sn_buf reg, const sn_sched *sc) {
    sn_module *m = st->m;
    const sn_stmt_rec *r = sn_stmt_get(m, load);
    sn_cursor at = sn_at_before(m, load);
    sn_ix offset = kept_offset(st, nest, sc);
    sn_val v =
        r->has_mask ? sn_put_load_masked(m, at, reg, offset, r->in[0], r->in[1]) : sn_put_load(m, at, reg, offset);
    sn_val_replace(m, st->k, r->result, v);
    sn_stmt_unlink(m, load);
}

/* ---- copies in front of a nest ---- */

/* e over the axes of the nest, or of the one that it is like, becomes e over the axes of its copying loops. */
static sn_ix over_copy(const stage *st, uint32_t nest, const bound_nest *axes_of, sn_ix e) {
    const bound_nest *bn = &st->nests[nest];
    return sn_ix_over(st->m, e, axes_of->at, bn->copy, bn->n);
}

static void open_copy(stage *st, bound_nest *bn) {
    sn_module *m = st->m;
    sn_cursor at = sn_at_before(m, bn->top);
    for (uint32_t k = 0; k < bn->n; k++) {
        const sn_axis_rec *ax = sn_axis_get(m, sn_stmt_axis(m, bn->at[k]));
        bn->copy[k] = sn_put_loop(m, at, sn_axis_new(m, ax->name, ax->extent), sn_stmt_get(m, bn->at[k])->kind);
        at = sn_at_end(st->k, bn->copy[k]);
    }
}

/* Tests on values of the nest cannot move in front of it. */
static bool can_copy(const entry *e) {
    bool ok = !e->tests.too_many;
    for (uint32_t k = 0; k < e->tests.n; k++) ok &= e->tests.at[k].bound.i != 0;
    return ok;
}

static void put_copy(stage *st, const entry *e, sn_buf to, const sn_sched *sc) {
    sn_module *m = st->m;
    bound_nest *bn = &st->nests[e->nest];
    const bound_nest *like = &st->nests[bn->like];
    if (!bn->copy[0].i) open_copy(st, bn);
    sn_cursor at = sn_at_end(st->k, bn->copy[bn->n - 1]);
    sn_val mask = {0};
    for (uint32_t k = 0; k < e->tests.n; k++) {
        sn_val in = sn_put_in(m, at, over_copy(st, e->nest, like, e->tests.at[k].e), e->tests.at[k].bound);
        mask = mask.i ? sn_put_op2(m, at, SN_LOP_AND, mask, in) : in;
    }
    sn_ix from = over_copy(st, e->nest, like, e->key);
    sn_val zero = {0};
    if (mask.i) zero = sn_put_const(m, at, sn_buf_get(m, e->buf)->dtype, 0);
    sn_val x = mask.i ? sn_put_load_masked(m, at, e->buf, from, mask, zero) : sn_put_load(m, at, e->buf, from);
    sn_put_store(m, at, to, over_copy(st, e->nest, bn, kept_offset(st, e->nest, sc)), x);
}

/* ---- results in place of elements ---- */

static bool is_among(const function *f, sn_stmt s) {
    for (uint32_t i = 0; i < f->n; i++)
        if (f->at[i].i == s.i) return true;
    return false;
}

/* Takes down what v is made of: the element, and values from outside of the nest. */
static bool take_function(const stage *st, function *f, sn_val v) {
    const sn_module *m = st->m;
    sn_stmt s = sn_val_get(m, v)->def;
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    if (v.i == f->element.i) return f->of_element = true;
    if (!sn_stmt_inside(m, s, st->nests[f->nest].top)) return true;
    if (is_among(f, s)) return true;
    if (r->op >= SN_N_LOPS || r->n_results != 1) return false;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!take_function(st, f, r->in[i])) return false;
    if (f->n == MAX_FUNCTION) return false;
    f->at[f->n++] = s;
    return true;
}

/* Is it dozens of operations? */
static bool is_long(const sn_module *m, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    return r->op < SN_N_LOPS && r->n_results == 1 && sn_val_get(m, r->result)->dtype == SN_F64 &&
           sn_schedule_op_cost(r->op) >= SN_KEPT_FUNCTION;
}

static bool is_function(const stage *st, function *f, sn_stmt root, uint32_t nest, sn_val element) {
    *f = (function){.element = element, .nest = nest};
    return is_long(st->m, root) && take_function(st, f, sn_stmt_get(st->m, root)->result) && f->of_element;
}

static bool same_value(const stage *st, const function *a, const function *b, sn_val v, sn_val w) {
    if (v.i == w.i || v.i == a->element.i) return v.i == a->element.i ? w.i == b->element.i : true;
    const sn_stmt_rec *r = sn_stmt_get(st->m, sn_val_get(st->m, v)->def),
                      *q = sn_stmt_get(st->m, sn_val_get(st->m, w)->def);
    if (r->op >= SN_N_LOPS || r->op != q->op || r->n_in != q->n_in) return false;
    if (sn_val_get(st->m, v)->dtype != sn_val_get(st->m, w)->dtype) return false;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!same_value(st, a, b, r->in[i], q->in[i])) return false;
    return true;
}

/* Does the nest use the element, or what is made of it on the way, for the function alone? */
static bool nothing_else(const stage *st, const function *f) {
    const sn_module *m = st->m;
    sn_stmt root = f->at[f->n - 1], end = sn_stmt_walk_skip(m, st->nests[f->nest].top);
    for (sn_stmt s = st->nests[f->nest].top; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        for (uint32_t i = 0; i < r->n_in && !is_among(f, s); i++) {
            sn_stmt def = sn_val_get(m, r->in[i])->def;
            if (r->in[i].i == f->element.i || (def.i != root.i && is_among(f, def))) return false;
        }
    }
    return true;
}

static bool find_again(const stage *st, computed *c, sn_stmt load, uint32_t nest) {
    const sn_module *m = st->m;
    const function *first = &c->first;
    function *f = &c->later[c->n_later];
    sn_val x = sn_stmt_get(m, load)->result, wanted = sn_stmt_get(m, first->at[first->n - 1])->result;
    sn_stmt end = sn_stmt_walk_skip(m, st->nests[nest].top);
    for (sn_stmt s = load; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        if (!is_function(st, f, s, nest, x)) continue;
        if (!same_value(st, first, f, wanted, sn_stmt_get(m, s)->result) || !nothing_else(st, f)) continue;
        c->n_later++;
        return true;
    }
    return false;
}

/* Do all loads behind the nest want the function alone, unmasked, and where the first of them is computed? */
static bool all_again(const stage *st, computed *c, const entry *e, sn_stmt load) {
    test_list first, later;
    find_tests(&first, st, c->first.nest, load);
    for (uint32_t u = 0; u < e->n_uses; u++) {
        if (e->uses[u].i == load.i || e->use_nest[u] < c->first.nest) continue;
        find_tests(&later, st, e->use_nest[u], e->uses[u]);
        if (e->use_nest[u] == c->first.nest || sn_stmt_get(st->m, e->uses[u])->has_mask) return false;
        if (!happens_wherever(&first, &later) || !find_again(st, c, e->uses[u], e->use_nest[u])) return false;
    }
    return c->n_later > 0;
}

/* In the nest that has this load of the element. */
static bool find_computed_in(const stage *st, computed *c, const entry *e, sn_stmt load, uint32_t nest) {
    const sn_module *m = st->m;
    sn_val x = sn_stmt_get(m, load)->result;
    for (sn_stmt s = sn_next(m, load); s.i; s = sn_next(m, s)) {
        c->n_later = 0;
        if (is_function(st, &c->first, s, nest, x) && all_again(st, c, e, load)) return true;
    }
    c->n_later = 0;
    return false;
}

static void find_computed(const stage *st, computed *c, const entry *e) {
    c->n_later = 0;
    if (sn_buf_get(st->m, e->buf)->dtype != SN_F64) return;
    if (sn_loads(sn_stmt_get(st->m, e->s)) && find_computed_in(st, c, e, e->s, e->nest)) return;
    for (uint32_t u = 0; u < e->n_uses; u++)
        if (find_computed_in(st, c, e, e->uses[u], e->use_nest[u])) return;
}

static sn_val element_of(const sn_module *m, sn_buf kept, const function *f) {
    for (uint32_t i = 0; i < f->n; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, f->at[i]);
        for (uint32_t k = 0; k < r->n_in; k++) {
            const sn_stmt_rec *def = sn_stmt_get(m, sn_val_get(m, r->in[k])->def);
            if (def->op == SN_LOP_LOAD && sn_buf_eq(def->buf, kept)) return r->in[k];
        }
    }
    return (sn_val){0};
}

/* The places have the results from the first function on. */
static void keep_computed(stage *st, const computed *c, sn_buf kept, const sn_sched *sc) {
    sn_module *m = st->m;
    sn_stmt first = c->first.at[c->first.n - 1];
    sn_put_store(m, sn_at_after(m, first), kept, kept_offset(st, c->first.nest, sc), sn_stmt_get(m, first)->result);
    for (uint32_t i = 0; i < c->n_later; i++) {
        const function *f = &c->later[i];
        sn_val_replace(m, st->k, sn_stmt_get(m, f->at[f->n - 1])->result, element_of(m, kept, f));
        for (uint32_t s = f->n; s-- > 0;) sn_stmt_unlink(m, f->at[s]);
    }
    sn_remark(st->cx, sn_kern_get(m, st->k)->name, "%s is computed once an element, and kept in its place",
              sn_lops[sn_stmt_get(m, first)->op].name);
}

static void keep(stage *st, const entry *e, uint32_t number, const sn_sched *sc) {
    sn_module *m = st->m;
    computed c;
    find_computed(st, &c, e);
    const sn_stmt_rec *r = sn_stmt_get(m, e->s);
    int64_t private = private_size(st, e->nest, sc), groups = sc->shared ? 1 : sc->block_x * sc->block_y;
    const char *name = sn_strf(&m->arena, "%s_%c%u", sn_kern_get(m, st->k)->name, sc->shared ? 's' : 'r', number);
    sn_buf reg = sn_local_new(m, name, sn_buf_get(m, e->buf)->dtype, sc->shared ? SN_BUF_SHARED : SN_BUF_REG, private,
                              groups * sn_sched_cluster(sc));
    if (sc->shared && !st->columns.i && r->op == SN_LOP_LOAD && can_copy(e)) {
        put_copy(st, e, reg, sc);
        replace_use(st, e->s, e->nest, reg, sc);
    } else {
        sn_val v = r->op == SN_LOP_STORE ? r->in[0] : r->result;
        sn_put_store(m, sn_at_after(m, e->s), reg, kept_offset(st, e->nest, sc), v);
    }
    for (uint32_t u = 0; u < e->n_uses; u++) replace_use(st, e->uses[u], e->use_nest[u], reg, sc);
    if (c.n_later) keep_computed(st, &c, reg, sc);
}

/* Kernels that are bound already do not load more than they did before. */
static bool loaded_anywhere(const stage *st, sn_buf b) {
    return sn_users_load_elsewhere(st->sh->users, b, st->sh->at) || sn_kern_loads(st->m, st->k, b);
}

static void drop_dead_temps(stage *st) {
    sn_module *m = st->m;
    for (uint32_t k = 0; k < st->entries.n; k++) {
        const entry *e = &st->entries.at[k];
        if (!sn_stores(sn_stmt_get(m, e->s)) || sn_buf_get(m, e->buf)->scope != SN_BUF_TEMP) continue;
        if (e->n_uses && !loaded_anywhere(st, e->buf)) sn_stmt_unlink(m, e->s);
    }
}

uint32_t sn_schedule_stage(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_stmt body, const sn_sched *sc,
                           uint32_t budget) {
    stage st = {.cx = cx, .m = cx->m, .k = k, .sh = sh, .body = body};
    uint32_t number = 0, used = 0;
    sn_axis_kind kind = sn_stmt_get(cx->m, body)->kind;
    if (sc->cls == SN_SCHED_OUTER && kind == SN_AXIS_VECTOR)
        st.lanes = body, st.columns = sn_stmt_get(cx->m, body)->parent;
    else if (sc->cls == SN_SCHED_OUTER) st.columns = body;
    find_nests(&st, sh, sc->shared);
    find_entries(&st);
    for (uint32_t i = 0; i < st.entries.n; i++) {
        const entry *e = &st.entries.at[i];
        int64_t left = (budget - used) / sn_dtype_bytes(sn_buf_get(cx->m, e->buf)->dtype);
        int64_t private = private_size(&st, e->nest, sc); /* of a long row: more than 32 bits */
        if (!e->n_uses || private > left) continue;
        used += (uint32_t)private * sn_dtype_bytes(sn_buf_get(cx->m, e->buf)->dtype);
        keep(&st, e, number++, sc);
    }
    drop_dead_temps(&st);
    if (number)
        sn_remark(cx, sn_kern_get(cx->m, k)->name, "%u %s stay in %s", number,
                  st.columns.i ? "tiles of columns" : "rows", sc->shared ? "shared memory" : "registers");
    return used;
}
