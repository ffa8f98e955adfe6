/* window_bind.c: binding of class window: a block owns a patch of results, whose elements it has in shared memory.
 *
 *     loop g : grid {
 *       loop x : block.x { loop u { s[..] = load x[..] } }       pieces of lines, whatever the length of a row is
 *       loop x : block.x { loop u { w[..] = load .. } }          taps of lanes that are neighbours in a warp, where they are many
 *       loop x : block.x {                                       R rows of Q results each, of thread x
 *         acc = identity
 *         loop p in R + S - 1 : unroll {                         rows of elements
 *           line[e] = s[..], e in Q + T - 1                      converted, and tested for the borders, once
 *           loop r in R { if p - r in S { loop t { loop q { acc[r, q] += line[q + t] * w[p - r, t] } } } }
 *         }
 *         out = acc
 *       }
 *       loop x : block.x { loop u { loop v { the rest of the body, of out[..] } } }
 *     }
 *
 * So an element is read from memory about once, from shared memory R times less than there are taps along a column,
 * and a result waits for no other. The last loops store whole lines of memory, whatever of it a thread has computed.
 * The order of a sum is that of the nest: rows of elements come in the order of the taps.
 */
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/windows/window.h"

#include <stdlib.h>

enum { MOST_STATES = 4, MOST_WEIGHTS = 4 };

/* What a load of the nest has read for all taps of the block's lanes: those are neighbours in shared memory. */
typedef struct shared_weights {
    sn_val value;
    sn_buf buf;
} shared_weights;

typedef struct binding {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_window w;
    sn_window_patch p;
    sn_ix block[4]; /* number of the block along planes, rows, columns, lanes */
    sn_ix start;    /* offset of the first element */
    sn_buf shared, line;
    shared_weights weights[MOST_WEIGHTS];
    uint32_t n_weights;
    int64_t wide, before; /* elements of an access to the patch; of the first one those in front of the thread's */
    int64_t direct; /* lanes of the stores that a thread makes of its own results; 0: they pass through shared memory */
    sn_buf acc[MOST_STATES], out[MOST_STATES];
    sn_ix x;         /* the thread ... */
    sn_ix own[4];    /* ... and number of its tile in the block's, along planes, rows, columns, lanes */
    uint32_t n_vals; /* that the module had */
} binding;

/* ---- small pieces ---- */

/* Stands for any number below n. */
static sn_ix any_of(binding *b, int64_t n) { return sn_ix_axis(b->m, sn_axis_new(b->m, "n", sn_ix_const(b->m, n))); }

/* Room for an offset that is met, and for what no thread stores there. */
static void grow(binding *b, sn_buf buf, sn_ix e) {
    sn_buf_rec *r = sn_buf_get(b->m, buf);
    int64_t needed = sn_ix_range(b->m, e).hi + 1;
    if (needed <= r->private_size) return;
    r->private_size = (uint32_t)needed;
    r->size = sn_ix_const(b->m, needed);
}

static sn_stmt_rec *reduction(const binding *b) { return sn_stmt_get(b->m, b->w.nest->top); }

/* ---- where things are ---- */

/* The outer axes that are no lines: plane and lane of the block. */
static void set_others(binding *b, sn_contraction_copier *c, sn_ix plane, sn_ix lane) {
    sn_ix number = sn_ix_fma(b->m, b->p.planes, b->block[0], plane);
    c->n += sn_window_planes(c->axes + c->n, c->with + c->n, &b->w, number);
    if (b->w.lanes < 0) return;
    sn_window_set_axis(c, sn_stmt_axis(b->m, b->w.sh->outer.at[b->w.lanes]),
                       sn_ix_fma(b->m, b->p.lanes, b->block[3], lane));
}

static void find_start(binding *b) {
    sn_contraction_copier c = {.m = b->m};
    sn_ix zero = sn_ix_const(b->m, 0);
    sn_window_set_line(&c, &b->w, &b->w.row, sn_ix_scale(b->m, b->block[1], b->p.rows), zero);
    sn_window_set_line(&c, &b->w, &b->w.column, sn_ix_scale(b->m, b->block[2], b->p.columns), zero);
    set_others(b, &c, zero, zero);
    for (uint32_t i = 0; i < b->w.nest->chain.n; i++)
        if (sn_window_is_step(&b->w, i)) sn_window_set_axis(&c, sn_stmt_axis(b->m, b->w.nest->chain.at[i]), zero);
    b->start = sn_ix_subst(b->m, sn_stmt_get(b->m, b->w.load)->ix, c.axes, c.with, c.n);
}

/* ---- elements to shared memory ---- */

/* Where line number i begins, behind the first one. */
static sn_ix line_begin(binding *b, sn_ix i) {
    const sn_window_patch *p = &b->p;
    sn_ix e = sn_ix_const(b->m, 0);
    for (uint32_t part = 0; part < SN_WINDOW_PARTS; part++) {
        if (!p->by_lines[part]) continue;
        sn_ix index = sn_ix_modc(b->m, sn_ix_divc(b->m, i, p->by_lines[part]), p->n[part]);
        e = sn_ix_fma(b->m, p->stride[part], index, e);
    }
    return e;
}

static void put_copies(binding *b, sn_cursor at) {
    sn_module *m = b->m;
    const sn_window_patch *p = &b->p;
    const sn_stmt_rec *load = sn_stmt_get(m, b->w.load);
    sn_ix size = sn_buf_get(m, load->buf)->size;
    int64_t pieces = p->lines * p->line, turns = sn_ceil_div(pieces, p->threads);
    b->shared =
        sn_local_new(b->m, "patch", load->dtype, SN_BUF_SHARED, sn_window_all_turns(turns) * p->threads * p->piece, 1);
    sn_ix x = sn_open_loop(b->m, &at, "x", p->threads, SN_AXIS_BLOCK_X);
    sn_val zero = sn_put_const(m, at, load->dtype, 0);
    sn_ix u = sn_window_open_turns(b->m, &at, turns);
    sn_ix number = sn_ix_fma(b->m, p->threads, u, x),
          first = sn_ix_scale(m, sn_ix_divc(m, b->start, p->piece), p->piece);
    if (p->lines > 1) first = sn_ix_add(m, first, line_begin(b, sn_ix_divc(m, number, p->line)));
    first = sn_ix_fma(b->m, p->piece, p->lines > 1 ? sn_ix_modc(m, number, p->line) : number, first);
    sn_val mask = sn_put_in(m, at, number, sn_ix_const(m, pieces));
    bool whole = sn_ix_is_multiple(m, size, p->piece);
    if (whole) mask = sn_put_op2(m, at, SN_LOP_AND, mask, sn_put_in(m, at, first, size));
    sn_ix v = sn_open_loop(b->m, &at, "v", p->piece, SN_AXIS_VECTOR);
    sn_ix e = sn_ix_add(m, first, v);
    if (!whole) mask = sn_put_op2(m, at, SN_LOP_AND, mask, sn_put_in(m, at, e, size));
    sn_val y = sn_put_load_masked(m, at, load->buf, e, mask, zero);
    sn_put_store(m, at, b->shared, sn_ix_fma(b->m, p->piece, number, v), y);
}

/* ---- weights to shared memory ---- */

/* Those of a tap lie side by side. */
static sn_ix weight_at(binding *b, sn_ix tap, sn_ix lane) { return sn_ix_fma(b->m, b->p.weights_pitch, tap, lane); }

/* Threads whose weights lie far apart in memory would ask for a line each. They come as they lie in memory instead: taps of one
 * lane after the other. */
static void put_weight(binding *b, sn_cursor at, const sn_stmt_rec *load) {
    const sn_window *w = &b->w;
    sn_module *m = b->m;
    int64_t taps = w->row.taps * w->column.taps, all = taps * b->p.lanes;
    sn_contraction_copier c;
    sn_buf buf = sn_local_new(b->m, "weights", load->dtype, SN_BUF_SHARED, taps * b->p.weights_pitch, 1);
    sn_ix zero = sn_ix_const(m, 0), x = sn_open_loop(b->m, &at, "x", b->p.threads, SN_AXIS_BLOCK_X);
    sn_ix number = sn_ix_fma(m, b->p.threads, sn_window_open_turns(b->m, &at, sn_ceil_div(all, b->p.threads)), x);
    sn_ix lane = sn_ix_divc(m, number, taps), tap = sn_ix_modc(m, number, taps);
    sn_val mask = sn_put_in(m, at, number, sn_ix_const(m, all));
    sn_contraction_copier_start(&c, b->cx, at, b->n_vals);
    set_others(b, &c, zero, lane);
    for (uint32_t i = 0; i < w->nest->chain.n; i++)
        if (sn_window_is_step(w, i)) sn_window_set_axis(&c, sn_stmt_axis(m, w->nest->chain.at[i]), zero);
    sn_window_set_tap(&c, w, &w->row, sn_ix_divc(m, tap, w->column.taps));
    sn_window_set_tap(&c, w, &w->column, sn_ix_modc(m, tap, w->column.taps));
    c.mask = mask;
    sn_ix to = weight_at(b, tap, lane);
    grow(b, buf, to);
    sn_put_store_masked(m, at, buf, to, sn_contraction_copy(&c, load->result), mask);
    b->weights[b->n_weights++] = (shared_weights){load->result, buf};
}

static void put_weights(binding *b, sn_cursor at) {
    if (!b->p.weights_pitch) return;
    for (sn_stmt s = sn_region_first(b->m, b->k, b->w.inner); s.i; s = sn_next(b->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(b->m, s);
        if (sn_window_is_weight(&b->w, s) && b->n_weights < MOST_WEIGHTS) put_weight(b, at, r);
    }
}

/* ---- the windows ---- */

typedef struct window_at {
    sn_ix steps[SN_MAX_CHAIN];  /* loops of the nest that walk along no line */
    sn_ix p, e;                 /* row and place of the thread's elements */
    sn_ix t, plane, r, q, lane; /* tap; plane, row, column and lane of a sum, of the thread's */
} window_at;

static sn_ix first_window(binding *b, const sn_window_line *l) {
    bool row = l == &b->w.row;
    int64_t own = row ? b->p.own_rows : b->p.own_columns, all = row ? b->p.rows : b->p.columns;
    return sn_ix_fma(b->m, all, b->block[row ? 1 : 2], sn_ix_scale(b->m, b->own[row ? 1 : 2], own));
}

static sn_ix lane_of(binding *b, const window_at *o) { return sn_ix_fma(b->m, b->p.own_lanes, b->own[3], o->lane); }

static int64_t line_places(const binding *b) { return sn_ceil_div(b->before + b->p.column_places, b->wide) * b->wide; }

static sn_ix line_index(binding *b, sn_ix e, sn_ix lane) {
    sn_ix own = sn_ix_fma(b->m, b->p.own_lanes, sn_ix_addc(b->m, e, b->before), lane);
    return sn_ix_fma(b->m, line_places(b) * b->p.own_lanes, b->x, own);
}

/* Sums of a thread. */
static int64_t own_sums(const sn_window_patch *p) {
    return p->own_planes * p->own_rows * p->own_columns * p->own_lanes;
}

static sn_ix acc_index(binding *b, const window_at *o) {
    const sn_window_patch *p = &b->p;
    sn_ix own = sn_ix_fma(b->m, p->own_columns, sn_ix_fma(b->m, p->own_rows, o->plane, o->r), o->q);
    return sn_ix_fma(b->m, own_sums(p), b->x, sn_ix_fma(b->m, p->own_lanes, own, o->lane));
}

static sn_ix plane_of(binding *b, const window_at *o) { return sn_ix_fma(b->m, b->p.own_planes, b->own[0], o->plane); }

static void start_copier(binding *b, sn_contraction_copier *c, sn_cursor at, const window_at *o) {
    sn_contraction_copier_start(c, b->cx, at, b->n_vals);
    set_others(b, c, plane_of(b, o), lane_of(b, o));
    for (uint32_t i = 0; i < b->w.nest->chain.n; i++)
        if (sn_window_is_step(&b->w, i)) sn_window_set_axis(c, sn_stmt_axis(b->m, b->w.nest->chain.at[i]), o->steps[i]);
}

/* Where the element is in shared memory. */
static sn_ix element_at(binding *b, const window_at *o) {
    const sn_window_patch *p = &b->p;
    sn_module *m = b->m;
    sn_ix e = sn_ix_modc(m, b->start, p->piece);
    sn_ix row = sn_ix_fma(b->m, b->w.row.step * p->own_rows, b->own[1], o->p);
    sn_ix column = sn_ix_fma(b->m, b->w.column.step * p->own_columns, b->own[2], o->e);
    e = sn_ix_fma(b->m, p->pitch[SN_WINDOW_ROW], row, sn_ix_fma(b->m, p->pitch[SN_WINDOW_COLUMN], column, e));
    e = sn_ix_fma(b->m, p->pitch[SN_WINDOW_PLANE], plane_of(b, o),
                  sn_ix_fma(b->m, p->pitch[SN_WINDOW_LANE], lane_of(b, o), e));
    for (uint32_t i = 0; i < b->w.nest->chain.n; i++)
        if (sn_window_is_step(&b->w, i)) e = sn_ix_fma(b->m, p->pitch[SN_WINDOW_STEP + i], o->steps[i], e);
    return e;
}

/* Places that lie behind each other are read by whole pieces, where those begin at the same place for all threads.
 * What else is in such a piece has been copied with it. */
static void find_width(binding *b) {
    sn_ix zero = sn_ix_const(b->m, 0);
    window_at o = {.p = zero, .e = zero, .plane = zero, .lane = zero};
    for (uint32_t i = 0; i < b->w.nest->chain.n; i++)
        o.steps[i] = any_of(b, sn_ix_value(b->m, sn_stmt_extent(b->m, b->w.nest->chain.at[i])));
    b->wide = 1, b->before = 0;
    sn_ix first = element_at(b, &o);
    if (b->p.pitch[SN_WINDOW_COLUMN] != 1 || b->p.own_lanes > 1) return;
    for (int64_t wide = b->p.piece; wide > 1; wide /= 2) {
        if (b->w.row.there && b->p.pitch[SN_WINDOW_ROW] % wide) continue;
        for (int64_t before = 0; before < wide; before++) {
            if (!sn_ix_is_multiple(b->m, sn_ix_addc(b->m, first, -before), wide)) continue;
            b->wide = wide, b->before = before;
            return;
        }
    }
}

static bool is_zero(const sn_window *w, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(w->m, sn_val_get(w->m, v)->def);
    return r->op == SN_LOP_CONST && (sn_is_float(r->dtype) ? r->f == 0 : r->i == 0);
}

/* What the nest makes of the element. 0 that was chosen where the mask did not hold is 0 when it has been converted: nobody asks again. */
static sn_val value_of(const sn_window *w) {
    const sn_stmt_rec *load = sn_stmt_get(w->m, w->load);
    const sn_stmt_rec *r = sn_stmt_get(w->m, sn_val_get(w->m, w->value)->def);
    if (r->op != SN_LOP_SELECT || !load->has_mask || r->in[0].i != sn_stmt_mask(load).i) return w->value;
    const sn_stmt_rec *cast = sn_stmt_get(w->m, sn_val_get(w->m, r->in[1])->def);
    bool same = cast == load || (cast->op == SN_LOP_CAST && cast->in[0].i == load->result.i);
    return same && is_zero(w, load->in[1]) && is_zero(w, r->in[2]) ? r->in[1] : w->value;
}

/* line[e] = what the nest makes of the element alone */
static void put_line(binding *b, sn_cursor at, window_at o) {
    sn_contraction_copier c;
    sn_ix piece = sn_open_loop(b->m, &at, "e", line_places(b) / b->wide, SN_AXIS_UNROLL);
    sn_ix lane = sn_open_loop(b->m, &at, "v", b->wide * b->p.own_lanes, SN_AXIS_VECTOR);
    o.e = sn_ix_fma(b->m, b->wide, piece, b->wide > 1 ? sn_ix_addc(b->m, lane, -b->before) : sn_ix_const(b->m, 0));
    o.lane = b->wide > 1 ? sn_ix_const(b->m, 0) : lane;
    start_copier(b, &c, at, &o);
    sn_window_set_line(&c, &b->w, &b->w.row, first_window(b, &b->w.row), o.p);
    sn_window_set_line(&c, &b->w, &b->w.column, first_window(b, &b->w.column), o.e);
    const sn_stmt_rec *load = sn_stmt_get(b->m, b->w.load);
    sn_ix from = element_at(b, &o);
    grow(b, b->shared, from);
    sn_val y;
    if (load->has_mask) {
        sn_val mask = sn_contraction_copy(&c, sn_stmt_mask(load)), otherwise = sn_contraction_copy(&c, load->in[1]);
        y = sn_put_load_masked(b->m, at, b->shared, from, mask, otherwise);
    } else {
        y = sn_put_load(b->m, at, b->shared, from);
    }
    sn_contraction_becomes(&c, load->result, y);
    sn_put_store(b->m, at, b->line, line_index(b, o.e, o.lane), sn_contraction_copy(&c, value_of(&b->w)));
}

/* acc[r, q] takes in what the window has at tap (s, t), for all columns of the thread */
static void put_sums(binding *b, sn_cursor at, window_at o, sn_ix s) {
    sn_contraction_copier c;
    const sn_window_line *l = &b->w.column;
    const sn_stmt_rec *yield = sn_stmt_get(b->m, sn_stmt_get(b->m, b->w.inner)->last);
    o.t = sn_open_loop(b->m, &at, "t", l->taps, SN_AXIS_UNROLL);
    o.plane = sn_open_loop(b->m, &at, "j", b->p.own_planes, SN_AXIS_UNROLL);
    o.lane = sn_open_loop(b->m, &at, "v", b->p.own_lanes, SN_AXIS_VECTOR);
    start_copier(b, &c, at, &o);
    sn_window_set_tap(&c, &b->w, &b->w.row, s);
    sn_window_set_tap(&c, &b->w, l, o.t);
    sn_ix tap = sn_ix_fma(b->m, l->taps, sn_ix_modc(b->m, s, b->w.row.taps), o.t);
    for (uint32_t i = 0; i < b->n_weights; i++) {
        sn_ix from = weight_at(b, tap, lane_of(b, &o));
        grow(b, b->weights[i].buf, from);
        sn_contraction_becomes(&c, b->weights[i].value, sn_put_load(b->m, at, b->weights[i].buf, from));
    }
    for (uint32_t i = 0; i < yield->n_in; i++) sn_window_copy_others(&c, &b->w, yield->in[i]);
    o.q = sn_open_loop(b->m, &at, "q", b->p.own_columns, SN_AXIS_UNROLL);
    c.at = at;
    o.e =
        sn_ix_fma(b->m, l->step, o.q, sn_ix_fma(b->m, l->dilation, o.t, sn_ix_const(b->m, -sn_window_first_place(l))));
    sn_contraction_becomes(&c, b->w.value, sn_put_load(b->m, at, b->line, line_index(b, o.e, o.lane)));
    for (uint32_t i = 0; i < yield->n_in; i++) {
        sn_ix to = acc_index(b, &o);
        sn_val y = sn_contraction_copy(&c, yield->in[i]), sum = sn_put_load(b->m, at, b->acc[i], to);
        sn_put_store(b->m, at, b->acc[i], to, sn_put_op2(b->m, at, sn_comb_lops[reduction(b)->combs[i]], sum, y));
    }
}

/* The rows of results whose windows have row p of the elements. */
static void put_rows(binding *b, sn_cursor at, window_at o) {
    const sn_window_line *l = &b->w.row;
    int64_t by = llabs(l->dilation);
    sn_ix s = sn_ix_const(b->m, 0);
    o.r = sn_open_loop(b->m, &at, "r", b->p.own_rows, SN_AXIS_UNROLL);
    if (l->there) {
        sn_ix away = sn_ix_sub(b->m, o.p, sn_ix_scale(b->m, o.r, l->step));
        at = sn_at_end(b->k, sn_put_if(b->m, at, away, sn_ix_const(b->m, by * (l->taps - 1) + 1)));
        sn_ix rest = sn_ix_modc(b->m, away, by);
        if (by > 1) at = sn_at_end(b->k, sn_put_if(b->m, at, rest, sn_ix_const(b->m, 1)));
        s = sn_ix_divc(b->m, away, by);
        if (l->dilation < 0) s = sn_ix_sub(b->m, sn_ix_const(b->m, l->taps - 1), s);
    }
    put_sums(b, at, o, s);
}

/* ---- results ---- */

typedef struct result_at {
    sn_ix plane, row, column, lane; /* in the patch */
} result_at;

static result_at own_result(binding *b, const window_at *o) {
    const sn_window_patch *p = &b->p;
    return (result_at){plane_of(b, o), sn_ix_fma(b->m, p->own_rows, b->own[1], o->r),
                       sn_ix_fma(b->m, p->own_columns, b->own[2], o->q), lane_of(b, o)};
}

/* Where it passes from one thread to another. */
static sn_ix out_index(binding *b, const result_at *o) {
    const sn_window_patch *p = &b->p;
    sn_ix line = sn_ix_fma(b->m, p->padded_columns, sn_ix_fma(b->m, p->padded_rows, o->plane, o->row), o->column);
    return sn_ix_fma(b->m, p->lanes, line, o->lane);
}

/* acc = identity, or out = acc, over the results of a thread */
static void put_results(binding *b, sn_cursor at, bool begin) {
    const sn_window_patch *p = &b->p;
    const sn_stmt_rec *red = reduction(b);
    window_at o = {.plane = sn_open_loop(b->m, &at, "j", p->own_planes, SN_AXIS_UNROLL)};
    o.r = sn_open_loop(b->m, &at, "r", p->own_rows, SN_AXIS_UNROLL);
    o.q = sn_open_loop(b->m, &at, "q", p->own_columns, p->own_lanes > 1 ? SN_AXIS_UNROLL : SN_AXIS_VECTOR);
    o.lane = sn_open_loop(b->m, &at, "v", p->own_lanes, SN_AXIS_VECTOR);
    result_at result = own_result(b, &o);
    sn_ix from = acc_index(b, &o), to = out_index(b, &result);
    for (uint32_t i = 0; i < red->n_results; i++) {
        sn_dtype dtype = sn_val_get(b->m, sn_result(red, i))->dtype;
        if (begin) {
            sn_put_store(b->m, at, b->acc[i], from, sn_put_identity(b->m, at, red->combs[i], 0, dtype));
            continue;
        }
        grow(b, b->out[i], to);
        sn_put_store(b->m, at, b->out[i], to, sn_put_load(b->m, at, b->acc[i], from));
    }
}

static void new_buffers(binding *b) {
    const sn_window_patch *p = &b->p;
    const sn_stmt_rec *red = reduction(b);
    int64_t own = own_sums(p), places = line_places(b) * p->own_lanes;
    b->line = sn_local_new(b->m, "line", sn_val_get(b->m, b->w.value)->dtype, SN_BUF_REG, places, p->threads);
    for (uint32_t i = 0; i < red->n_results; i++) {
        sn_dtype dtype = sn_val_get(b->m, sn_result(red, i))->dtype;
        b->acc[i] = sn_local_new(b->m, "acc", dtype, SN_BUF_REG, own, p->threads);
        if (!b->direct) b->out[i] = sn_local_new(b->m, "out", dtype, SN_BUF_SHARED, p->tiles * own, 1);
    }
}

/* ---- the rest of the body ---- */

static void set_result(binding *b, sn_contraction_copier *c, const result_at *o) {
    const sn_window *w = &b->w;
    const sn_window_patch *p = &b->p;
    set_others(b, c, o->plane, o->lane);
    sn_ix row = sn_ix_fma(b->m, p->rows, b->block[1], o->row),
          column = sn_ix_fma(b->m, p->columns, b->block[2], o->column);
    if (w->row.there) sn_window_set_axis(c, sn_stmt_axis(b->m, w->sh->outer.at[w->row.outer]), row);
    sn_window_set_axis(c, sn_stmt_axis(b->m, w->sh->outer.at[w->column.outer]), column);
}

static result_at result_of(binding *b, sn_ix number) {
    const sn_window_patch *p = &b->p;
    sn_ix parts[4], shape[4] = {sn_ix_const(b->m, p->planes), sn_ix_const(b->m, p->rows), sn_ix_const(b->m, p->columns),
                                sn_ix_const(b->m, p->lanes)};
    sn_ix_unflatten(b->m, number, shape, SN_COUNT(shape), parts);
    return (result_at){parts[0], parts[1], parts[2], parts[3]};
}

/* Is the store of result `o` one of whole vectors along v? */
static bool stores_vectors(binding *b, const sn_stmt_rec *store, const result_at *o, sn_axis v) {
    sn_module *m = b->m;
    sn_contraction_copier c = {.m = m};
    const sn_buf_rec *buf = sn_buf_get(m, store->buf);
    int64_t lanes = sn_ix_value(m, sn_axis_get(m, v)->extent), bytes = lanes * sn_dtype_bytes(buf->dtype), step;
    if (bytes > b->cx->target->vector_bytes || bytes > buf->align) return false;
    set_result(b, &c, o);
    sn_ix e = sn_ix_subst(m, store->ix, c.axes, c.with, c.n);
    if (!sn_ix_coef(m, e, v, &step) || step != 1) return false;
    return sn_ix_is_multiple(m, sn_ix_sub(m, e, sn_ix_axis(m, v)), lanes);
}

/* All stores of the body; *least becomes the smallest element that one stores. */
static bool all_store_vectors(binding *b, const result_at *o, sn_axis v) {
    for (sn_stmt s = sn_region_first(b->m, b->k, b->w.sh->body); s.i; s = sn_next(b->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(b->m, s);
        if (sn_stores(r) && !stores_vectors(b, r, o, v)) return false;
    }
    return true;
}

static sn_axis lanes_axis(binding *b, int64_t lanes) { return sn_axis_new(b->m, "v", sn_ix_const(b->m, lanes)); }

static int64_t choose_lanes(binding *b) {
    const sn_window *w = &b->w;
    const sn_window_patch *p = &b->p;
    bool edges = w->row.windows % p->rows || w->column.windows % p->columns;
    int64_t run = p->lanes * (w->column.windows % p->columns ? 1 : p->columns);
    int64_t results = p->planes * p->rows * p->columns * p->lanes;
    for (int64_t lanes = b->cx->target->vector_bytes; lanes > 1; lanes /= 2) {
        if (results % lanes || (edges && run % lanes)) continue;
        sn_axis v = lanes_axis(b, lanes);
        result_at o = result_of(b, sn_ix_fma(b->m, lanes, any_of(b, results / lanes), sn_ix_axis(b->m, v)));
        if (all_store_vectors(b, &o, v)) return lanes;
    }
    return 1;
}

/* Does the result exist? */
static sn_val put_result_mask(binding *b, sn_cursor at, const result_at *o) {
    const sn_window *w = &b->w;
    sn_ix row = sn_ix_fma(b->m, b->p.rows, b->block[1], o->row),
          column = sn_ix_fma(b->m, b->p.columns, b->block[2], o->column);
    sn_val mask = sn_put_mask_in(b->m, at, (sn_val){0}, row, w->row.windows);
    return sn_put_mask_in(b->m, at, mask, column, w->column.windows);
}

/* What the body stores of the result whose states are in `states` at `from`. */
static void put_stores(binding *b, sn_cursor at, const result_at *o, const sn_buf *states, sn_ix from) {
    sn_contraction_copier c;
    const sn_stmt_rec *red = reduction(b);
    sn_val mask = put_result_mask(b, at, o);
    sn_contraction_copier_start(&c, b->cx, at, b->n_vals);
    set_result(b, &c, o);
    c.mask = mask;
    for (uint32_t i = 0; i < red->n_results; i++)
        sn_contraction_becomes(&c, sn_result(red, i), sn_put_load(b->m, at, states[i], from));
    sn_window_put_stores(&c, &b->w);
}

static void put_rest(binding *b, sn_cursor at) {
    const sn_window_patch *p = &b->p;
    int64_t lanes = choose_lanes(b), results = p->planes * p->rows * p->columns * p->lanes;
    int64_t vectors = results / lanes, turns = sn_ceil_div(vectors, p->threads);
    sn_ix x = sn_open_loop(b->m, &at, "x", p->threads, SN_AXIS_BLOCK_X);
    sn_ix u = sn_window_open_turns(b->m, &at, turns);
    sn_ix number = sn_ix_fma(b->m, p->threads, u, x);
    if (sn_window_all_turns(turns) * p->threads > vectors)
        at = sn_at_end(b->k, sn_put_if(b->m, at, number, sn_ix_const(b->m, vectors)));
    sn_ix v = sn_open_loop(b->m, &at, "v", lanes, SN_AXIS_VECTOR);
    result_at o = result_of(b, sn_ix_fma(b->m, lanes, number, v));
    sn_ix from = out_index(b, &o);
    for (uint32_t i = 0; i < reduction(b)->n_results; i++) grow(b, b->out[i], from);
    put_stores(b, at, &o, b->out, from);
}

/* The same, of the results that a thread has. */
static void put_own_stores(binding *b, sn_cursor at) {
    const sn_window_patch *p = &b->p;
    bool by_lanes = b->w.lanes >= 0;
    window_at o = {.plane = sn_open_loop(b->m, &at, "j", p->own_planes, SN_AXIS_UNROLL)};
    o.r = sn_open_loop(b->m, &at, "r", p->own_rows, SN_AXIS_UNROLL);
    o.q = sn_open_loop(b->m, &at, "q", by_lanes ? p->own_columns : p->own_columns / b->direct, SN_AXIS_UNROLL);
    o.lane = sn_open_loop(b->m, &at, "v", b->direct, SN_AXIS_VECTOR);
    if (!by_lanes) o.q = sn_ix_fma(b->m, b->direct, o.q, o.lane), o.lane = sn_ix_const(b->m, 0);
    result_at result = own_result(b, &o);
    put_stores(b, at, &result, b->acc, acc_index(b, &o));
}

/* ---- threads ---- */

static void put_windows(binding *b, sn_cursor at) {
    const sn_window_patch *p = &b->p;
    window_at o = {.plane = sn_ix_const(b->m, 0)};
    int64_t turns = sn_ceil_div(p->tiles, p->threads);
    sn_ix shape[4], zero = sn_ix_const(b->m, 0);
    const int64_t counts[] = {p->planes / p->own_planes, p->padded_rows / p->own_rows,
                              p->padded_columns / p->own_columns, p->lanes / p->own_lanes};
    for (uint32_t i = 0; i < SN_COUNT(shape); i++) shape[i] = sn_ix_const(b->m, counts[i]);
    b->x = sn_open_loop(b->m, &at, "x", p->threads, SN_AXIS_BLOCK_X);
    sn_ix number = sn_ix_fma(b->m, p->threads, sn_open_loop(b->m, &at, "u", turns, SN_AXIS_SEQ), b->x);
    if (turns * p->threads > p->tiles) at = sn_at_end(b->k, sn_put_if(b->m, at, number, sn_ix_const(b->m, p->tiles)));
    sn_ix_unflatten(b->m, number, shape, SN_COUNT(shape), b->own);
    find_width(b);
    b->direct = sn_window_direct(&b->w, &b->p);
    new_buffers(b);
    put_results(b, at, true);
    sn_cursor in = at;
    for (uint32_t i = 0; i < b->w.nest->chain.n; i++) {
        int64_t n = sn_ix_value(b->m, sn_stmt_extent(b->m, b->w.nest->chain.at[i]));
        o.steps[i] = sn_window_is_step(&b->w, i) ? sn_open_loop(b->m, &in, "c", n, SN_AXIS_SEQ) : zero;
    }
    o.p = sn_open_loop(b->m, &in, "p", p->row_places, SN_AXIS_UNROLL);
    put_line(b, in, o);
    put_rows(b, in, o);
    if (b->direct) put_own_stores(b, at);
    else put_results(b, at, false);
}

/* ---- binding ---- */

void sn_schedule_window_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    binding b = {.cx = cx, .m = m, .k = k};
    const char *why_not;
    bool fits = sn_window_find(&b.w, &why_not, cx, k, sh) && sn_window_measure(&b.p, &b.w, sc);
    SN_ASSERT(fits);
    (void)fits;
    b.n_vals = m->vals.count;
    sn_cursor at = sn_window_open_grid(b.block, m, k, b.p.blocks, SN_COUNT(b.p.blocks), false);
    find_start(&b);
    put_copies(&b, at);
    put_weights(&b, at);
    put_windows(&b, at);
    if (!b.direct) put_rest(&b, at);
    sn_stmt_unlink(m, sh->outer.at[0]);
}
