/* loop.c: records of Loop IR: reading, walking, building.
 *
 * Statements live in the module's tables and are linked into a tree: next, prev and parent of a statement, first and
 * last of a region. Every link is written here, by link_in and link_out. Rewrites of existing kernels are in
 * edit.c.
 */
#include "ir/loop/loop.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ir/loop/build.h"
#include "ir/ops/scalar.h"

const char *const sn_axis_kind_names[SN_N_AXIS_KINDS] = {"seq",     "grid",   "cluster", "block.x",
                                                         "block.y", "vector", "unroll",  "warp"};
const char *const sn_buf_scope_names[] = {"input",  "output", "temp",   "const", "step",
                                          "formal", "reg",    "shared", "posted"};
const char *const sn_role_names[SN_N_ROLES] = {"", "in", "out", "inout"};

/* ---- reading ---- */

sn_buf_rec *sn_buf_get(const sn_module *m, sn_buf b) { return sn_table_at(&m->bufs, b.i); }

const void *sn_buf_data(const sn_module *m, const sn_buf_rec *b) {
    return b->weight.i ? sn_wt_get(m, b->weight)->data : b->data;
}

sn_kern_rec *sn_kern_get(const sn_module *m, sn_kern k) { return sn_table_at(&m->kerns, k.i); }
sn_stmt_rec *sn_stmt_get(const sn_module *m, sn_stmt s) { return sn_table_at(&m->stmts, s.i); }
sn_val_rec *sn_val_get(const sn_module *m, sn_val v) { return sn_table_at(&m->vals, v.i); }

sn_buf sn_buf_named(const sn_module *m, const char *name) { return (sn_buf){sn_names_get(&m->buf_names, name)}; }
sn_kern sn_kern_named(const sn_module *m, const char *name) { return (sn_kern){sn_names_get(&m->kern_names, name)}; }

bool sn_buf_is_settled(const sn_module *m, const sn_buf_rec *b) {
    if (b->scope != SN_BUF_INPUT) return b->scope == SN_BUF_CONST;
    return b->io >= m->graph.inputs.n || !m->graph.inputs.at[b->io].writer;
}

sn_val sn_stmt_mask(const sn_stmt_rec *s) { return s->has_mask ? s->in[sn_lops[s->op].n_in] : (sn_val){0}; }

sn_stmt sn_stmt_walk_first(const sn_module *m, sn_kern k) { return sn_kern_get(m, k)->first; }

sn_stmt sn_stmt_walk_next(const sn_module *m, sn_stmt s) {
    sn_stmt first = sn_stmt_get(m, s)->first;
    return first.i ? first : sn_stmt_walk_skip(m, s);
}

sn_stmt sn_stmt_walk_skip(const sn_module *m, sn_stmt s) {
    for (; s.i; s = sn_stmt_get(m, s)->parent)
        if (sn_stmt_get(m, s)->next.i) return sn_stmt_get(m, s)->next;
    return s;
}

bool sn_stmt_inside(const sn_module *m, sn_stmt s, sn_stmt outer) {
    while (s.i && (s = sn_stmt_get(m, s)->parent).i)
        if (s.i == outer.i) return true;
    return false;
}

bool sn_val_stays(const sn_module *m, sn_val v, sn_stmt s) {
    sn_stmt region = sn_stmt_get(m, sn_val_get(m, v)->def)->parent;
    int64_t extent;
    for (sn_stmt p = sn_stmt_get(m, s)->parent; p.i && p.i != region.i; p = sn_stmt_get(m, p)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(m, p);
        bool of_thread = r->kind == SN_AXIS_SEQ || r->kind == SN_AXIS_UNROLL || r->kind == SN_AXIS_VECTOR;
        if (!sn_is_nest(r) || !of_thread) continue;
        if (!sn_ix_is_const(m, sn_axis_get(m, r->axis)->extent, &extent) || extent > 1) return true;
    }
    return false;
}

bool sn_kern_is_function(const sn_module *m, sn_kern k) {
    const sn_buf_list *params = &sn_kern_get(m, k)->params;
    return !params->n || sn_buf_get(m, params->at[0])->scope == SN_BUF_FORMAL;
}

/* ---- buffers and kernels ---- */

static char *numbered(char *out, size_t size, const char *name, uint32_t n) {
    snprintf(out, size, "%s_%u", name, n);
    return out;
}

/* Numbers are handed out densely, so the first free one is found by doubling and bisection: a thousand equal hints stay
 * cheap. */
char *sn_fresh_name(sn_arena *a, const sn_names *taken, const char *hint, const char *otherwise) {
    if (!hint || !*hint) hint = otherwise;
    char *name = sn_strf(a, "%s%s", isdigit((unsigned char)*hint) ? otherwise : "", hint);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    if (!sn_names_get(taken, name)) return name;
    size_t size = strlen(name) + 16;
    char *out = sn_alloc(a, size);
    uint32_t used = 0, free = 1;
    for (; sn_names_get(taken, numbered(out, size, name, free)); free *= 2) used = free;
    while (free - used > 1) {
        uint32_t middle = used + (free - used) / 2;
        *(sn_names_get(taken, numbered(out, size, name, middle)) ? &used : &free) = middle;
    }
    numbered(out, size, name, free);
    return out;
}

sn_buf sn_buf_new(sn_module *m, const char *name, sn_dtype dtype, sn_buf_scope scope, const sn_ix *shape,
                  uint32_t rank) {
    SN_ASSERT(rank <= SN_MAX_RANK);
    m->buf_names.arena = &m->arena;
    sn_buf b = {sn_table_add(&m->bufs)};
    sn_buf_rec *r = sn_buf_get(m, b);
    r->name = sn_fresh_name(&m->arena, &m->buf_names, name, "b");
    r->dtype = dtype;
    r->scope = scope;
    r->rank = rank;
    for (uint32_t i = 0; i < rank; i++) r->shape[i] = shape[i];
    r->size = sn_ix_product(m, shape, rank);
    /* Storage of ours starts at a multiple of 256; of the caller's only the natural alignment is known. */
    r->align = scope == SN_BUF_TEMP || scope == SN_BUF_CONST || scope == SN_BUF_STEP ? 256 : sn_dtype_bytes(dtype);
    if (scope == SN_BUF_SHARED) r->align = 128;
    sn_names_put(&m->buf_names, r->name, b.i);
    return b;
}

sn_buf sn_local_new(sn_module *m, const char *name, sn_dtype dtype, sn_buf_scope scope, int64_t own, int64_t copies) {
    sn_ix size = sn_ix_const(m, own * copies);
    sn_buf b = sn_buf_new(m, name, dtype, scope, &size, 1);
    sn_buf_get(m, b)->private_size = (uint32_t)own;
    return b;
}

sn_buf sn_formal_new(sn_module *m, sn_kern k, const char *name, const sn_buf_rec *like) {
    sn_buf b = {sn_table_add(&m->bufs)};
    sn_buf_rec *r = sn_buf_get(m, b);
    if (like) *r = (sn_buf_rec){.dtype = like->dtype, .rank = like->rank, .size = like->size, .align = like->align};
    for (uint32_t i = 0; like && i < like->rank; i++) r->shape[i] = like->shape[i];
    r->name = sn_strdup(&m->arena, name);
    r->scope = SN_BUF_FORMAL;
    SN_PUSH(&m->arena, &sn_kern_get(m, k)->params, b);
    return b;
}

sn_kern sn_kern_new(sn_module *m, const char *name) {
    m->kern_names.arena = &m->arena;
    sn_kern k = {sn_table_add(&m->kerns)};
    const char *unique = sn_fresh_name(&m->arena, &m->kern_names, name, "k");
    sn_kern_get(m, k)->name = unique;
    sn_names_put(&m->kern_names, unique, k.i);
    SN_PUSH(&m->arena, &m->kernels, k);
    return k;
}

void sn_kern_alternatives(sn_kern_list *out, const sn_module *m, sn_arena *a, sn_kern k) {
    SN_PUSH(a, out, k);
    for (uint32_t i = 0; i < m->kernels.n; i++)
        if (sn_kern_eq(sn_kern_get(m, m->kernels.at[i])->alternative_of, k)) SN_PUSH(a, out, m->kernels.at[i]);
}

const bool *sn_kerns_of_sets(const sn_module *m, sn_arena *a) {
    bool *out = NULL;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_kern k = m->kernels.at[i], first = sn_kern_get(m, k)->alternative_of;
        if (!first.i) continue;
        if (!out) out = SN_NEWN(a, bool, m->kerns.count);
        out[k.i] = out[first.i] = true;
    }
    return out;
}

void sn_kern_add_param(sn_module *m, sn_kern k, sn_buf b) {
    sn_kern_rec *r = sn_kern_get(m, k);
    for (uint32_t i = 0; i < r->params.n; i++)
        if (r->params.at[i].i == b.i) return;
    SN_PUSH(&m->arena, &r->params, b);
}

/* Append the buffers of one scope that the body touches and whose mark is still clear. */
static void collect_scope(sn_module *m, sn_kern k, sn_buf_scope scope, sn_buf_list *list) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!r->buf.i) continue;
        sn_buf_rec *b = sn_buf_get(m, r->buf);
        if (b->scope != scope || b->mark) continue;
        b->mark = 1;
        SN_PUSH(&m->arena, list, r->buf);
    }
}

void sn_kern_collect_params(sn_module *m, sn_kern k) {
    static const sn_buf_scope ORDER[] = {SN_BUF_INPUT, SN_BUF_CONST, SN_BUF_TEMP, SN_BUF_STEP, SN_BUF_OUTPUT};
    sn_kern_rec *r = sn_kern_get(m, k);
    bool has_formals = r->params.n && sn_kern_is_function(m, k); /* calls count on them: they stay */
    r->locals.n = 0;
    if (!has_formals) r->params.n = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        if (sn_stmt_get(m, s)->buf.i) sn_buf_get(m, sn_stmt_get(m, s)->buf)->mark = 0;
    for (size_t i = 0; i < SN_COUNT(ORDER); i++) collect_scope(m, k, ORDER[i], &r->params);
    collect_scope(m, k, SN_BUF_REG, &r->locals);
    collect_scope(m, k, SN_BUF_SHARED, &r->locals);
    collect_scope(m, k, SN_BUF_POSTED, &r->locals);
}

bool sn_is_grid(const sn_module *m, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    return r->op == SN_LOP_LOOP && r->kind == SN_AXIS_GRID;
}

bool sn_stmt_has_tail(const sn_module *m, sn_stmt s) {
    for (; s.i; s = sn_stmt_get(m, s)->parent) {
        sn_stmt next = sn_stmt_get(m, s)->next;
        if (next.i && !sn_is_grid(m, next)) return true; /* two grids side by side are segments */
    }
    return false;
}

uint32_t sn_kern_segments(const sn_module *m, sn_kern k) {
    uint32_t n = 0;
    for (sn_stmt s = sn_kern_get(m, k)->first; s.i; s = sn_stmt_get(m, s)->next) n += sn_is_grid(m, s);
    return n;
}

bool sn_kern_posts(const sn_module *m, sn_kern k) {
    const sn_buf_list *locals = &sn_kern_get(m, k)->locals;
    for (uint32_t i = 0; i < locals->n; i++)
        if (sn_buf_get(m, locals->at[i])->scope == SN_BUF_POSTED) return true;
    return false;
}

/* Blocks of the grid nest that begins at s; without those that have to wait for each other on the CPU unless `all`. */
static sn_ix blocks_of(sn_module *m, sn_stmt s, bool all) {
    bool counts = all || (!sn_stmt_has_tail(m, s) && !sn_kern_posts(m, sn_stmt_get(m, s)->kern));
    sn_ix n = counts ? sn_axis_get(m, sn_stmt_get(m, s)->axis)->extent : sn_ix_const(m, 1);
    for (sn_stmt t = sn_stmt_get(m, s)->first; t.i; t = sn_stmt_get(m, t)->next)
        if (sn_is_grid(m, t)) n = sn_ix_mul(m, n, blocks_of(m, t, all));
    return n;
}

/* What text asks for may be more than any device has: refused there, so it must not look small here. */
static uint32_t saturated(int64_t n) { return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX; }

sn_launch sn_kern_launch(sn_module *m, sn_kern k) {
    sn_ix none = sn_ix_const(m, sn_kern_segments(m, k) == 0);
    sn_launch out = {.grid = none, .parts = none, .cluster = 1, .block_x = 1, .block_y = 1};
    for (sn_stmt s = sn_kern_get(m, k)->first; s.i; s = sn_stmt_get(m, s)->next) {
        if (!sn_is_grid(m, s)) continue;
        out.grid = sn_ix_add(m, out.grid, blocks_of(m, s, true));
        out.parts = sn_ix_add(m, out.parts, blocks_of(m, s, false));
    }
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!r->axis.i) continue;
        sn_ix extent = sn_axis_get(m, r->axis)->extent;
        if (r->kind == SN_AXIS_CLUSTER) out.cluster = saturated(sn_ix_value(m, extent));
        if (r->kind == SN_AXIS_BLOCK_X) out.block_x = saturated(sn_ix_value(m, extent));
        if (r->kind == SN_AXIS_BLOCK_Y) out.block_y = saturated(sn_ix_value(m, extent));
    }
    out.grid = sn_ix_scale(m, out.grid, out.cluster);
    return out;
}

/* ---- places ---- */

sn_cursor sn_at_before(const sn_module *m, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    return (sn_cursor){r->kern, r->parent, s};
}

sn_cursor sn_at_after(const sn_module *m, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    return (sn_cursor){r->kern, r->parent, r->next};
}

static sn_stmt *region_first(sn_module *m, sn_kern k, sn_stmt parent) {
    return parent.i ? &sn_stmt_get(m, parent)->first : &sn_kern_get(m, k)->first;
}

static sn_stmt *region_last(sn_module *m, sn_kern k, sn_stmt parent) {
    return parent.i ? &sn_stmt_get(m, parent)->last : &sn_kern_get(m, k)->last;
}

static void set_kernel(sn_module *m, sn_stmt s, sn_kern k) {
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i != end.i; t = sn_stmt_walk_next(m, t)) sn_stmt_get(m, t)->kern = k;
}

void sn_stmt_insert(sn_module *m, sn_cursor at, sn_stmt s) {
    sn_stmt_rec *r = sn_stmt_get(m, s);
    SN_ASSERT(!r->next.i && !r->prev.i && !r->parent.i);
    if (r->kern.i != at.kern.i) set_kernel(m, s, at.kern);
    sn_stmt *last = region_last(m, at.kern, at.parent);
    r->parent = at.parent;
    r->next = at.before;
    r->prev = at.before.i ? sn_stmt_get(m, at.before)->prev : *last;
    *(r->prev.i ? &sn_stmt_get(m, r->prev)->next : region_first(m, at.kern, at.parent)) = s;
    *(r->next.i ? &sn_stmt_get(m, r->next)->prev : last) = s;
}

void sn_stmt_unlink(sn_module *m, sn_stmt s) {
    sn_stmt_rec *r = sn_stmt_get(m, s);
    *(r->prev.i ? &sn_stmt_get(m, r->prev)->next : region_first(m, r->kern, r->parent)) = r->next;
    *(r->next.i ? &sn_stmt_get(m, r->next)->prev : region_last(m, r->kern, r->parent)) = r->prev;
    r->next = r->prev = r->parent = (sn_stmt){0};
}

/* ---- statements ---- */

sn_stmt sn_stmt_make(sn_module *m, sn_lop op, const sn_val *in, uint32_t n_in) {
    sn_stmt s = {sn_table_add(&m->stmts)};
    sn_stmt_rec *r = sn_stmt_get(m, s);
    r->op = op;
    r->n_in = n_in;
    if (n_in) r->in = sn_memdup(&m->arena, in, n_in * sizeof *in);
    return s;
}

sn_val sn_stmt_add_results(sn_module *m, sn_stmt s, const sn_dtype *dtypes, uint32_t n) {
    sn_stmt_rec *r = sn_stmt_get(m, s);
    r->n_results = n;
    for (uint32_t k = 0; k < n; k++) {
        sn_val v = {sn_table_add(&m->vals)};
        *sn_val_get(m, v) = (sn_val_rec){.def = s, .number = k, .dtype = dtypes[k]};
        if (k == 0) r->result = v;
    }
    return r->result;
}

/* Of the result, or of what is stored; the type that was asked for where the operation does not say. */
static sn_dtype dtype_of(const sn_module *m, const sn_stmt_rec *r) {
    const sn_lop_info *op = &sn_lops[r->op];
    if (op->has_buffer) return sn_buf_get(m, r->buf)->dtype;
    if (op->result == SN_RESULT_BOOL) return SN_BOOL;
    bool of_operand = op->result == SN_RESULT_SAME || op->result == SN_RESULT_CHOSEN;
    return of_operand ? sn_val_get(m, r->in[sn_lop_lead(r->op)])->dtype : r->dtype;
}

/* The combiners of a reduce say how many states it has; their dtypes come with the region. */
static void add_states(sn_module *m, sn_stmt s, const sn_dtype *dtypes) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    uint32_t states = 0;
    for (uint32_t i = 0; i < r->n_combs; i++) states += sn_combs[r->combs[i]].states;
    sn_stmt_add_results(m, s, dtypes, states);
}

sn_stmt sn_put_stmt(sn_module *m, sn_cursor at, const sn_stmt_rec *fields, const sn_dtype *states) {
    sn_stmt s = sn_stmt_make(m, fields->op, fields->in, fields->n_in);
    sn_stmt_rec *r = sn_stmt_get(m, s);
    sn_val *in = r->in;
    *r = *fields;
    r->in = in;
    r->dtype = dtype_of(m, fields);
    sn_lop_result result = sn_lops[r->op].result;
    sn_stmt_insert(m, at, s);
    if (result == SN_RESULT_STATES) add_states(m, s, states);
    else if (result != SN_RESULT_NONE) sn_stmt_add_results(m, s, &r->dtype, 1);
    return s;
}

static sn_val put_value(sn_module *m, sn_cursor at, const sn_stmt_rec *fields) {
    return sn_stmt_get(m, sn_put_stmt(m, at, fields, NULL))->result;
}

/* Fields do not change their operands. */
static sn_val *operands(const sn_val *in) { return (sn_val *)(uintptr_t)in; }

sn_val sn_put_op(sn_module *m, sn_cursor at, sn_lop op, const sn_val *in, uint32_t n) {
    SN_ASSERT(op < SN_N_LOPS && n == sn_lops[op].n_in);
    return put_value(m, at, &(sn_stmt_rec){.op = op, .in = operands(in), .n_in = n});
}

sn_val sn_put_op1(sn_module *m, sn_cursor at, sn_lop op, sn_val a) { return sn_put_op(m, at, op, &a, 1); }

sn_val sn_put_op2(sn_module *m, sn_cursor at, sn_lop op, sn_val a, sn_val b) {
    return sn_put_op(m, at, op, (sn_val[]){a, b}, 2);
}

sn_val sn_put_op3(sn_module *m, sn_cursor at, sn_lop op, sn_val a, sn_val b, sn_val c) {
    return sn_put_op(m, at, op, (sn_val[]){a, b, c}, 3);
}

sn_val sn_put_const(sn_module *m, sn_cursor at, sn_dtype dtype, double value) {
    sn_scalar x = sn_scalar_cast(dtype, SN_F64, (sn_scalar){.f = value}, true);
    if (!sn_is_float(dtype)) return sn_put_const_int(m, at, dtype, x.i);
    return put_value(m, at, &(sn_stmt_rec){.op = SN_LOP_CONST, .dtype = dtype, .f = x.f});
}

sn_val sn_put_const_int(sn_module *m, sn_cursor at, sn_dtype dtype, int64_t value) {
    if (sn_is_float(dtype)) return sn_put_const(m, at, dtype, (double)value);
    return put_value(m, at, &(sn_stmt_rec){.op = SN_LOP_CONST, .dtype = dtype, .i = sn_wrap_to(dtype, value)});
}

static sn_val put_conversion(sn_module *m, sn_cursor at, sn_lop op, sn_dtype dtype, sn_val x) {
    if (sn_val_get(m, x)->dtype == dtype) return x;
    return put_value(m, at, &(sn_stmt_rec){.op = op, .dtype = dtype, .in = &x, .n_in = 1});
}

sn_val sn_put_cast(sn_module *m, sn_cursor at, sn_dtype dtype, sn_val x) {
    return put_conversion(m, at, SN_LOP_CAST, dtype, x);
}

sn_val sn_put_bitcast(sn_module *m, sn_cursor at, sn_dtype dtype, sn_val x) {
    return put_conversion(m, at, SN_LOP_BITCAST, dtype, x);
}

sn_val sn_put_index(sn_module *m, sn_cursor at, sn_dtype dtype, sn_ix e) {
    return put_value(m, at, &(sn_stmt_rec){.op = SN_LOP_INDEX, .dtype = dtype, .ix = e});
}

sn_val sn_put_in(sn_module *m, sn_cursor at, sn_ix e, sn_ix bound) {
    return put_value(m, at, &(sn_stmt_rec){.op = SN_LOP_IN, .ix = e, .bound = bound});
}

sn_val sn_put_mask_in(sn_module *m, sn_cursor at, sn_val mask, sn_ix e, int64_t extent) {
    if (sn_ix_in(m, e, sn_ix_const(m, extent))) return mask;
    sn_val test = sn_put_in(m, at, e, sn_ix_const(m, extent));
    return mask.i ? sn_put_op2(m, at, SN_LOP_AND, mask, test) : test;
}

sn_val sn_put_load(sn_module *m, sn_cursor at, sn_buf b, sn_ix e) {
    return put_value(m, at, &(sn_stmt_rec){.op = SN_LOP_LOAD, .buf = b, .ix = e});
}

sn_val sn_put_load_masked(sn_module *m, sn_cursor at, sn_buf b, sn_ix e, sn_val mask, sn_val otherwise) {
    sn_val in[] = {mask, otherwise};
    return put_value(m, at,
                     &(sn_stmt_rec){.op = SN_LOP_LOAD, .buf = b, .ix = e, .in = in, .n_in = 2, .has_mask = true});
}

sn_stmt sn_put_store(sn_module *m, sn_cursor at, sn_buf b, sn_ix e, sn_val x) {
    return sn_put_stmt(m, at, &(sn_stmt_rec){.op = SN_LOP_STORE, .buf = b, .ix = e, .in = &x, .n_in = 1}, NULL);
}

sn_stmt sn_put_store_masked(sn_module *m, sn_cursor at, sn_buf b, sn_ix e, sn_val x, sn_val mask) {
    sn_val in[] = {x, mask};
    sn_stmt_rec fields = {.op = SN_LOP_STORE, .buf = b, .ix = e, .in = in, .n_in = 2, .has_mask = true};
    return sn_put_stmt(m, at, &fields, NULL);
}

sn_val sn_put_accum(sn_module *m, sn_cursor at, sn_comb comb, sn_val x, sn_ix position, bool exclusive) {
    return put_value(m, at,
                     &(sn_stmt_rec){.op = SN_LOP_ACCUM,
                                    .in = &x,
                                    .n_in = 1,
                                    .n_combs = 1,
                                    .combs = {comb},
                                    .ix = position,
                                    .exclusive = exclusive});
}

sn_stmt sn_put_loop(sn_module *m, sn_cursor at, sn_axis ax, sn_axis_kind kind) {
    return sn_put_stmt(m, at, &(sn_stmt_rec){.op = SN_LOP_LOOP, .axis = ax, .kind = kind}, NULL);
}

sn_ix sn_open_loop(sn_module *m, sn_cursor *at, const char *name, int64_t extent, sn_axis_kind kind) {
    if (extent == 1 && kind != SN_AXIS_GRID && kind != SN_AXIS_BLOCK_X) return sn_ix_const(m, 0);
    sn_axis ax = sn_axis_new(m, name, sn_ix_const(m, extent));
    *at = sn_at_end(at->kern, sn_put_loop(m, *at, ax, kind));
    return sn_ix_axis(m, ax);
}

sn_ix sn_open_loop_in(sn_module *m, sn_kern k, sn_stmt *into, const char *name, int64_t extent, sn_axis_kind kind) {
    sn_cursor at = sn_at_end(k, *into);
    sn_ix i = sn_open_loop(m, &at, name, extent, kind);
    *into = at.parent;
    return i;
}

sn_stmt sn_put_reduce(sn_module *m, sn_cursor at, sn_axis ax, sn_axis_kind kind, const sn_comb *combs, uint32_t n_combs,
                      const sn_dtype *dtypes) {
    sn_stmt_rec r = {.op = SN_LOP_REDUCE, .dtype = dtypes[0], .axis = ax, .kind = kind, .n_combs = n_combs};
    SN_ASSERT(n_combs > 0 && n_combs <= SN_COUNT(r.combs));
    memcpy(r.combs, combs, n_combs * sizeof *combs);
    return sn_put_stmt(m, at, &r, dtypes);
}

sn_stmt sn_put_if(sn_module *m, sn_cursor at, sn_ix e, sn_ix bound) {
    return sn_put_stmt(m, at, &(sn_stmt_rec){.op = SN_LOP_IF, .ix = e, .bound = bound}, NULL);
}

sn_stmt sn_put_yield(sn_module *m, sn_cursor at, const sn_val *x, uint32_t n) {
    return sn_put_stmt(m, at, &(sn_stmt_rec){.op = SN_LOP_YIELD, .in = operands(x), .n_in = n}, NULL);
}

sn_stmt sn_put_prefetch(sn_module *m, sn_cursor at, sn_buf b, sn_ix e, sn_ix n, sn_val mask) {
    sn_stmt_rec fields = {.op = SN_LOP_PREFETCH,
                          .buf = b,
                          .ix = e,
                          .bound = n,
                          .in = &mask,
                          .n_in = mask.i != 0,
                          .has_mask = mask.i != 0};
    return sn_put_stmt(m, at, &fields, NULL);
}

sn_stmt sn_put_wait(sn_module *m, sn_cursor at) { return sn_put_stmt(m, at, &(sn_stmt_rec){.op = SN_LOP_WAIT}, NULL); }

sn_stmt sn_put_barrier(sn_module *m, sn_cursor at) {
    return sn_put_stmt(m, at, &(sn_stmt_rec){.op = SN_LOP_BARRIER}, NULL);
}

/* ---- where kernels come from ---- */

/* Is the text of n characters one of the list "a, b, c"? */
static bool is_listed(const char *list, const char *text, size_t n) {
    for (const char *at = list; at; at = strstr(at, ", "), at = at ? at + 2 : NULL)
        if (!strncmp(at, text, n) && (!at[n] || !strncmp(at + n, ", ", 2))) return true;
    return false;
}

bool sn_kern_is_placed(const sn_kern_rec *k) {
    for (const char *at = k->from; at; at = strstr(at, ", "), at = at ? at + 2 : NULL)
        if (*at != '%' && strncmp(at, "..", 2) != 0) return true;
    return false;
}

/* One origin, of n characters. */
static void add_origin(sn_module *m, sn_kern_rec *r, const char *origin, size_t n) {
    enum { READ = 400 };
    static const char more[] = ", ..";
    bool is_name = *origin == '%', placed = sn_kern_is_placed(r);
    if (placed && is_name) return;
    if (!is_name && !placed) r->from = NULL;
    size_t own = r->from ? strlen(r->from) : 0;
    if (!own) r->from = sn_strndup(&m->arena, origin, n);
    else if (own >= strlen(more) && !strcmp(r->from + own - strlen(more), more)) return;
    else if (own + n > READ) r->from = sn_strf(&m->arena, "%s%s", r->from, more);
    else if (!is_listed(r->from, origin, n)) r->from = sn_strf(&m->arena, "%s, %.*s", r->from, (int)n, origin);
}

void sn_kern_add_from(sn_module *m, sn_kern k, const char *from) {
    while (from && *from) {
        const char *end = strstr(from, ", ");
        add_origin(m, sn_kern_get(m, k), from, end ? (size_t)(end - from) : strlen(from));
        from = end ? end + 2 : NULL;
    }
}
