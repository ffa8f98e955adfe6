/* eval.c: runs the kernels of a module on the CPU, one statement at a time: the oracle of code generation.
 *
 * Each kernel is first flattened: statements become an array in pre-order, values and axes become slots, index
 * expressions become small stack programs. Then the tree runs as written, every axis as a sequential loop. Relies on
 * scalar.c for all arithmetic. Finds accesses outside a buffer and reads of temp, reg, shared and posted elements that
 * nothing has written; what is in a reg or shared buffer is forgotten at each grid iteration, because another block
 * runs that. Knows nothing of threads: with a checker it tells check.c, which does, about every axis, barrier and
 * access. When it looks for where a nan comes from, every value and every element that is one has the statement that made it beside it:
 * it takes that of the first operand that is one, and where none is it is made here.
 */
#include <math.h>
#include <string.h>

#include "ir/loop/access.h"
#include "ir/loop/check.h"
#include "ir/loop/repeats.h"
#include "ir/ops/scalar.h"

enum { MAX_STATES = 8 };

/* ---- the flat form ---- */

typedef enum ix_code {
    IX_CONST, /* push c */
    IX_AXIS,  /* top += c * axis[slot] */
    IX_VAL,   /* top += c * value[slot] */
    IX_ADD,   /* x = pop; top += c * x */
    IX_DIV,
    IX_MOD,
    IX_MIN,
    IX_MAX,
    IX_MUL /* x = pop; top = top op x */
} ix_code;

typedef struct ix_ins {
    ix_code code;
    uint32_t slot;
    int64_t c;
} ix_ins;
typedef struct ix_prog {
    uint32_t first, n;
} ix_prog;

/* The storage of a buffer. An element has been written when its entry in `written` is the present epoch. */
typedef struct storage {
    unsigned char *data;
    int64_t size;
    uint32_t *written; /* NULL: not watched */
    const uint32_t *epoch;
    sn_dtype dtype;
    uint32_t bytes;
    const char *name;
    sn_stmt *made; /* by element; NULL: nobody asks where nans come from */
} storage;

typedef struct node {
    sn_lop op;
    sn_dtype dtype; /* of the result */
    sn_dtype from;  /* of the operands */
    sn_axis_kind kind;
    bool masked;
    uint32_t end; /* node after the region, or the next one */
    uint32_t n_in, result;
    const uint32_t *in; /* slots of values */
    ix_prog ix, bound;
    storage *mem;
    uint32_t axis; /* slot */
    ix_prog extent;
    sn_scalar value;         /* CONST */
    const sn_stmt_rec *stmt; /* REDUCE, ACCUM: combiners */
    sn_stmt s;
} node;

typedef struct eval {
    sn_module *m;
    sn_arena *arena;  /* storage of temps and locals */
    sn_arena scratch; /* the flat form of one kernel */
    void **memory;
    storage *mems;        /* by buffer id */
    const bool *sets;     /* by kernel id: is it one of several alternatives? NULL: none is */
    uint32_t once, epoch; /* epochs of temps (always 1) and of locals */
    SN_VEC(node) nodes;
    SN_VEC(ix_ins) code;
    uint32_t n_vals, n_axes, stack_max;
    sn_scalar *vals;
    int64_t *axes, *stack;
    sn_scalar yielded[MAX_STATES];
    sn_loop_checker *check;                /* NULL: threads are of no interest */
    bool traces, infinity;                 /* who made what is a nan (or infinite)? */
    sn_stmt *made, yielded_by[MAX_STATES]; /* by value; of a bad one that was in memory before: none */
} eval;

/* ---- flattening ---- */

static sn_status not_constant(eval *ev, const char *what) {
    return sn_fail(ev->m->env, SN_ERROR_UNSUPPORTED, "evaluation needs constant sizes: %s is symbolic", what);
}

static sn_status open_storage(storage **out, eval *ev, sn_buf buf) {
    const sn_buf_rec *b = sn_buf_get(ev->m, buf);
    storage *mem = *out = &ev->mems[buf.i];
    if (mem->name) return SN_OK;
    int64_t size;
    if (!sn_ix_is_const(ev->m, b->size, &size)) return not_constant(ev, b->name);
    *mem = (storage){ev->memory[buf.i], size, NULL, NULL, b->dtype, sn_dtype_bytes(b->dtype), b->name, NULL};
    if (ev->traces && size >= 0) mem->made = SN_NEWN(ev->arena, sn_stmt, size + 1);
    bool ours = b->scope == SN_BUF_TEMP || b->scope == SN_BUF_STEP || sn_buf_is_local(b);
    if (b->scope == SN_BUF_FORMAL)
        return sn_fail(ev->m->env, SN_ERROR_ARGUMENT, "parameter '%s' has no argument: no wrapper calls its kernel",
                       b->name);
    if (!mem->data && b->scope == SN_BUF_CONST) mem->data = (unsigned char *)(uintptr_t)sn_buf_data(ev->m, b);
    if (mem->data) return SN_OK;
    if (b->weight.i && size)
        return sn_fail(ev->m->env, SN_ERROR_ARGUMENT, "weight %s has no elements yet",
                       sn_wt_get(ev->m, b->weight)->name);
    if (b->weight.i) return SN_OK;
    if (!ours) return sn_fail(ev->m->env, SN_ERROR_ARGUMENT, "buffer '%s' has no memory", b->name);
    if (size < 0 || size > INT64_MAX / 16)
        return sn_fail(ev->m->env, SN_ERROR_UNSUPPORTED, "buffer '%s' is too large to evaluate", b->name);
    mem->data = sn_alloc(ev->arena, (size_t)size * mem->bytes);
    mem->written = SN_NEWN(ev->arena, uint32_t, size);
    mem->epoch = sn_buf_is_private(b) ? &ev->epoch : &ev->once;
    return SN_OK;
}

static void emit(eval *ev, ix_code code, uint32_t slot, int64_t c) {
    SN_PUSH(&ev->scratch, &ev->code, ((ix_ins){code, slot, c}));
}

/* Code that pushes e; depth: entries on the stack before it. */
static sn_status flatten_ix(eval *ev, sn_ix e, uint32_t depth) {
    static const ix_code BINARY[] = {
        [SN_IX_DIV] = IX_DIV, [SN_IX_MOD] = IX_MOD, [SN_IX_MIN] = IX_MIN, [SN_IX_MAX] = IX_MAX, [SN_IX_PROD] = IX_MUL};
    const sn_ix_rec *r = sn_ix_get(ev->m, e);
    if (depth + 1 > ev->stack_max) ev->stack_max = depth + 1;
    if (r->kind == SN_IX_SYM) return not_constant(ev, sn_sym_get(ev->m, (sn_sym){r->id})->name);
    if (r->kind != SN_IX_SUM && r->kind != SN_IX_AXIS && r->kind != SN_IX_VAL) {
        SN_TRY(flatten_ix(ev, r->a, depth));
        SN_TRY(flatten_ix(ev, r->b, depth + 1));
        emit(ev, BINARY[r->kind], 0, 0);
        return SN_OK;
    }
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(ev->m, e, &terms, &c0, &one);
    emit(ev, IX_CONST, 0, c0);
    for (uint32_t i = 0; i < n; i++) {
        const sn_ix_rec *t = sn_ix_get(ev->m, terms[i].atom);
        if (t->kind == SN_IX_AXIS) {
            emit(ev, IX_AXIS, sn_axis_get(ev->m, (sn_axis){t->id})->mark, terms[i].c);
        } else if (t->kind == SN_IX_VAL) {
            emit(ev, IX_VAL, sn_val_get(ev->m, (sn_val){t->id})->mark, terms[i].c);
        } else {
            SN_TRY(flatten_ix(ev, terms[i].atom, depth + 1));
            emit(ev, IX_ADD, 0, terms[i].c);
        }
    }
    return SN_OK;
}

static sn_status flatten_prog(ix_prog *out, eval *ev, sn_ix e) {
    out->first = ev->code.n;
    if (e.i) SN_TRY(flatten_ix(ev, e, 0));
    out->n = ev->code.n - out->first;
    return SN_OK;
}

static sn_dtype value_dtype(const eval *ev, sn_val v) { return sn_val_get(ev->m, v)->dtype; }

/* The node of s; its `end` is set when its region has been flattened. Marks give slots. */
static sn_status flatten_stmt(eval *ev, sn_stmt s) {
    sn_stmt_rec *r = sn_stmt_get(ev->m, s);
    node n = {
        .op = r->op, .dtype = r->dtype, .kind = r->kind, .masked = r->has_mask, .n_in = r->n_in, .stmt = r, .s = s};
    uint32_t *in = SN_NEWN(&ev->scratch, uint32_t, r->n_in);
    for (uint32_t i = 0; i < r->n_in; i++) in[i] = sn_val_get(ev->m, r->in[i])->mark;
    n.in = in;
    if (r->n_in) n.from = value_dtype(ev, r->in[sn_lop_lead(r->op)]);
    if (sn_lops[r->op].has_literal) {
        n.value.f = sn_is_float(r->dtype) ? sn_round_to(r->dtype, r->f) : 0;
        n.value.i = r->i;
    }
    n.result = ev->n_vals;
    for (uint32_t i = 0; i < r->n_results; i++) sn_val_get(ev->m, sn_result(r, i))->mark = ev->n_vals++;
    if (sn_lops[r->op].ordered) ev->n_vals++; /* its state */
    if (r->buf.i) SN_TRY(open_storage(&n.mem, ev, r->buf));
    if (r->axis.i) {
        sn_axis_rec *ax = sn_axis_get(ev->m, r->axis);
        n.axis = ax->mark = ev->n_axes++;
        SN_TRY(flatten_prog(&n.extent, ev, ax->extent));
    }
    SN_TRY(flatten_prog(&n.ix, ev, r->ix));
    SN_TRY(flatten_prog(&n.bound, ev, r->bound));
    n.end = ev->nodes.n + 1;
    SN_PUSH(&ev->scratch, &ev->nodes, n);
    return SN_OK;
}

static sn_status flatten_region(eval *ev, sn_stmt first) {
    for (sn_stmt s = first; s.i; s = sn_stmt_get(ev->m, s)->next) {
        uint32_t at = ev->nodes.n;
        SN_TRY(flatten_stmt(ev, s));
        SN_TRY(flatten_region(ev, sn_stmt_get(ev->m, s)->first));
        ev->nodes.at[at].end = ev->nodes.n;
    }
    return SN_OK;
}

/* ---- who made a nan ---- */

static bool is_bad(const eval *ev, sn_dtype dtype, sn_scalar x) {
    return sn_is_float(dtype) && (isnan(x.f) || (ev->infinity && isinf(x.f)));
}

static sn_dtype operand_dtype(const eval *ev, const node *n, uint32_t i) { return value_dtype(ev, n->stmt->in[i]); }

/* The operand that a bad result takes its maker from; n_in: none is bad. */
static uint32_t bad_operand(const eval *ev, const node *n) {
    uint32_t first = n->op == SN_LOP_SELECT ? (ev->vals[n->in[0]].i ? 1 : 2) : 0;
    for (uint32_t i = first; i < n->n_in; i++)
        if (is_bad(ev, operand_dtype(ev, n, i), ev->vals[n->in[i]])) return i;
    return n->n_in;
}

static void trace_value(eval *ev, const node *n) {
    if (!is_bad(ev, n->dtype, ev->vals[n->result])) return;
    uint32_t i = bad_operand(ev, n);
    ev->made[n->result] = i < n->n_in ? ev->made[n->in[i]] : n->s;
}

static void trace_load(eval *ev, const node *n, int64_t at) {
    if (ev->traces) ev->made[n->result] = n->mem->made[at];
}

static void trace_store(eval *ev, const node *n, int64_t at) {
    if (!ev->traces) return;
    bool bad = is_bad(ev, n->mem->dtype, ev->vals[n->in[0]]);
    n->mem->made[at] = bad ? ev->made[n->in[0]] : (sn_stmt){0};
}

/* State k of a nest takes in what was yielded. */
static void trace_state(eval *ev, const node *n, uint32_t k, sn_scalar before, sn_scalar after) {
    sn_dtype dtype = sn_val_get(ev->m, sn_result(n->stmt, k))->dtype;
    bool same = isnan(before.f) ? isnan(after.f) : before.f == after.f;
    if (!ev->traces || !is_bad(ev, dtype, after) || same) return;
    ev->made[n->result + k] = is_bad(ev, dtype, ev->yielded[k]) ? ev->yielded_by[k] : n->s;
}

/* ---- running ---- */

/* Wrapping, so that a hostile index ends as an access out of bounds and not as undefined behaviour. */
static int64_t mul_add(int64_t a, int64_t b, int64_t c) { return (int64_t)((uint64_t)a + (uint64_t)b * (uint64_t)c); }

static int64_t ix_binary(ix_code code, int64_t a, int64_t b) {
    switch (code) {
    case IX_DIV: return sn_int_floordiv(a, b);
    case IX_MOD: return sn_int_rem(a, b);
    case IX_MIN: return a < b ? a : b;
    case IX_MAX: return a > b ? a : b;
    case IX_MUL: return mul_add(0, a, b);
    case IX_CONST:
    case IX_AXIS:
    case IX_VAL:
    case IX_ADD: break;
    }
    return 0;
}

static int64_t run_ix(const eval *ev, ix_prog p) {
    const ix_ins *ins = ev->code.at + p.first;
    int64_t *sp = ev->stack, top = ins->c; /* a program begins with a constant */
    for (uint32_t i = 1; i < p.n; i++) {
        ins++;
        switch (ins->code) {
        case IX_CONST:
            *sp++ = top;
            top = ins->c;
            break;
        case IX_AXIS: top = mul_add(top, ins->c, ev->axes[ins->slot]); break;
        case IX_VAL: top = mul_add(top, ins->c, ev->vals[ins->slot].i); break;
        case IX_ADD: top = mul_add(*--sp, ins->c, top); break;
        case IX_DIV:
        case IX_MOD:
        case IX_MIN:
        case IX_MAX:
        case IX_MUL: top = ix_binary(ins->code, *--sp, top); break;
        }
    }
    return top;
}

static bool run_in(const eval *ev, const node *n) {
    int64_t x = run_ix(ev, n->ix);
    return x >= 0 && x < run_ix(ev, n->bound);
}

static const char *place(const eval *ev, const node *n) {
    return ev->check ? sn_check_place(ev->check, n->s) : "evaluation";
}

static sn_status out_of_bounds(eval *ev, const node *n, int64_t at) {
    return sn_stmt_fail(ev->m, SN_ERROR_VERIFY, place(ev, n), n->s, "element %lld of '%s', which has %lld",
                        (long long)at, n->mem->name, (long long)n->mem->size);
}

static sn_status run_load(eval *ev, const node *n) {
    const storage *mem = n->mem;
    sn_scalar *out = &ev->vals[n->result];
    if (n->masked && !ev->vals[n->in[0]].i) {
        *out = ev->vals[n->in[1]];
        if (ev->traces) ev->made[n->result] = ev->made[n->in[1]];
        return SN_OK;
    }
    int64_t at = run_ix(ev, n->ix);
    if ((uint64_t)at >= (uint64_t)mem->size) return out_of_bounds(ev, n, at);
    if (mem->written && mem->written[at] != *mem->epoch)
        return sn_stmt_fail(ev->m, SN_ERROR_VERIFY, place(ev, n), n->s, "element %lld of '%s' was never written",
                            (long long)at, mem->name);
    if (ev->check) SN_TRY(sn_check_access(ev->check, n->s, at));
    const unsigned char *p = mem->data + (size_t)at * mem->bytes;
    if (sn_is_float(mem->dtype)) out->f = sn_load_float(mem->dtype, p);
    else out->i = sn_load_int(mem->dtype, p);
    trace_load(ev, n, at);
    return SN_OK;
}

static sn_status run_store(eval *ev, const node *n) {
    const storage *mem = n->mem;
    if (n->masked && !ev->vals[n->in[1]].i) return SN_OK;
    int64_t at = run_ix(ev, n->ix);
    if ((uint64_t)at >= (uint64_t)mem->size) return out_of_bounds(ev, n, at);
    if (ev->check) SN_TRY(sn_check_access(ev->check, n->s, at));
    if (mem->written) mem->written[at] = *mem->epoch;
    trace_store(ev, n, at);
    unsigned char *p = mem->data + (size_t)at * mem->bytes;
    sn_scalar x = ev->vals[n->in[0]];
    if (sn_is_float(mem->dtype)) sn_store_float(mem->dtype, p, x.f);
    else sn_store_int(mem->dtype, p, x.i);
    return SN_OK;
}

/* It asks for elements that are there, and changes nothing. */
static sn_status run_prefetch(eval *ev, const node *n) {
    const storage *mem = n->mem;
    if (n->masked && !ev->vals[n->in[0]].i) return SN_OK;
    int64_t at = run_ix(ev, n->ix), last = at + run_ix(ev, n->bound) - 1;
    if ((uint64_t)at >= (uint64_t)mem->size) return out_of_bounds(ev, n, at);
    return (uint64_t)last >= (uint64_t)mem->size ? out_of_bounds(ev, n, last) : SN_OK;
}

static sn_scalar run_bitcast(const node *n, sn_scalar x) {
    unsigned char bits[8] = {0};
    if (sn_is_float(n->from)) sn_store_float(n->from, bits, x.f);
    else sn_store_int(n->from, bits, x.i);
    if (sn_is_float(n->dtype)) return (sn_scalar){.f = sn_load_float(n->dtype, bits)};
    return (sn_scalar){.i = sn_load_int(n->dtype, bits)};
}

static void run_scalar(eval *ev, const node *n) {
    sn_scalar in[3] = {{0}};
    for (uint32_t i = 0; i < n->n_in; i++) in[i] = ev->vals[n->in[i]];
    ev->vals[n->result] = sn_scalar_op(n->op, n->from, in[0], in[1], in[2], true);
}

static void run_accum(eval *ev, const node *n) {
    sn_scalar *out = &ev->vals[n->result], *state = out + 1;
    sn_comb comb = n->stmt->combs[0];
    if (run_ix(ev, n->ix) == 0) sn_scalar_identity(comb, n->dtype, state);
    sn_scalar before = *state;
    sn_scalar_combine(comb, n->dtype, state, &ev->vals[n->in[0]], true);
    *out = n->stmt->exclusive ? before : *state;
    if (!ev->traces || is_bad(ev, n->dtype, before) || !is_bad(ev, n->dtype, *state)) return;
    ev->made[n->result] = is_bad(ev, n->dtype, ev->vals[n->in[0]]) ? ev->made[n->in[0]] : n->s;
}

static sn_status run(eval *ev, uint32_t begin, uint32_t end);

static sn_status run_loop(eval *ev, const node *n, uint32_t at) {
    int64_t extent = run_ix(ev, n->extent);
    if (ev->check) sn_check_enter(ev->check, n->s);
    for (int64_t i = 0; i < extent; i++) {
        ev->axes[n->axis] = i;
        if (ev->check) SN_TRY(sn_check_turn(ev->check, i));
        if (n->kind == SN_AXIS_GRID) ev->epoch++;
        SN_TRY(run(ev, at + 1, n->end));
    }
    if (n->kind == SN_AXIS_GRID) ev->epoch++; /* what follows runs on some other block */
    return ev->check ? sn_check_leave(ev->check) : SN_OK;
}

static sn_status run_reduce(eval *ev, const node *n, uint32_t at) {
    sn_scalar state[MAX_STATES];
    const sn_stmt_rec *r = n->stmt;
    for (uint32_t c = 0, k = 0; c < r->n_combs; k += sn_combs[r->combs[c++]].states)
        sn_scalar_identity(r->combs[c], sn_val_get(ev->m, sn_result(r, k))->dtype, &state[k]);
    int64_t extent = run_ix(ev, n->extent);
    if (ev->check) sn_check_enter(ev->check, n->s);
    for (int64_t i = 0; i < extent; i++) {
        ev->axes[n->axis] = i;
        if (ev->check) SN_TRY(sn_check_turn(ev->check, i));
        SN_TRY(run(ev, at + 1, n->end));
        for (uint32_t c = 0, k = 0; c < r->n_combs; k += sn_combs[r->combs[c++]].states) {
            sn_scalar before = state[k];
            sn_scalar_combine(r->combs[c], sn_val_get(ev->m, sn_result(r, k))->dtype, &state[k], &ev->yielded[k], true);
            trace_state(ev, n, k, before, state[k]);
        }
    }
    memcpy(&ev->vals[n->result], state, r->n_results * sizeof *state);
    return ev->check ? sn_check_leave(ev->check) : SN_OK;
}

static sn_status run(eval *ev, uint32_t begin, uint32_t end) {
    for (uint32_t at = begin; at < end;) {
        const node *n = &ev->nodes.at[at];
        sn_scalar *out = &ev->vals[n->result];
        switch (n->op) {
        case SN_LOP_CONST: *out = n->value; break;
        case SN_LOP_CAST:
            *out = sn_scalar_cast(n->dtype, n->from, ev->vals[n->in[0]], true);
            if (ev->traces) trace_value(ev, n);
            break;
        case SN_LOP_BITCAST: *out = run_bitcast(n, ev->vals[n->in[0]]); break;
        case SN_LOP_INDEX: out->i = sn_wrap_to(n->dtype, run_ix(ev, n->ix)); break;
        case SN_LOP_IN: out->i = run_in(ev, n); break;
        case SN_LOP_LOAD: SN_TRY(run_load(ev, n)); break;
        case SN_LOP_ACCUM: run_accum(ev, n); break;
        case SN_LOP_STORE: SN_TRY(run_store(ev, n)); break;
        case SN_LOP_PREFETCH: SN_TRY(run_prefetch(ev, n)); break;
        case SN_LOP_LOOP: SN_TRY(run_loop(ev, n, at)); break;
        case SN_LOP_REDUCE: SN_TRY(run_reduce(ev, n, at)); break;
        case SN_LOP_IF:
            if (run_in(ev, n)) SN_TRY(run(ev, at + 1, n->end));
            break;
        case SN_LOP_WAIT: break;
        case SN_LOP_BARRIER:
            if (ev->check) SN_TRY(sn_check_barrier(ev->check, n->s));
            break;
        case SN_LOP_YIELD:
            for (uint32_t i = 0; i < n->n_in; i++) ev->yielded[i] = ev->vals[n->in[i]];
            for (uint32_t i = 0; ev->traces && i < n->n_in; i++) ev->yielded_by[i] = ev->made[n->in[i]];
            break;
#define SN_LOP(ID, name, n_in, result, f, i) case SN_LOP_##ID:
#include "ir/ops/lops.def"
            run_scalar(ev, n);
            if (ev->traces) trace_value(ev, n);
            break;
        case SN_N_ALL_LOPS: break;
        }
        at = n->end;
    }
    return SN_OK;
}

static sn_status eval_kernel(eval *ev, sn_kern k) {
    ev->nodes.n = ev->nodes.cap = ev->code.n = ev->code.cap = 0;
    ev->nodes.at = NULL;
    ev->code.at = NULL;
    ev->n_vals = ev->n_axes = ev->stack_max = 0;
    ev->epoch++;
    SN_TRY(flatten_region(ev, sn_kern_get(ev->m, k)->first));
    if (ev->check) SN_TRY(sn_check_kernel(ev->check, k));
    ev->vals = SN_NEWN(&ev->scratch, sn_scalar, ev->n_vals + 1); /* one more: statements without results have a slot */
    if (ev->traces) ev->made = SN_NEWN(&ev->scratch, sn_stmt, ev->n_vals + 1);
    ev->axes = SN_NEWN(&ev->scratch, int64_t, ev->n_axes);
    ev->stack = SN_NEWN(&ev->scratch, int64_t, ev->stack_max + 1);
    return run(ev, 0, ev->nodes.n);
}

static sn_status run_kernel(eval *ev, sn_kern k) {
    sn_arena_init(&ev->scratch, ev->m->env);
    sn_status st = eval_kernel(ev, k);
    sn_arena_free(&ev->scratch);
    return st;
}

/* Formals have the storage of the arguments while the call runs. */
static sn_status bind_formals(eval *ev, sn_kern k, const sn_step *s) {
    const sn_buf_list *formals = &sn_kern_get(ev->m, k)->params;
    for (uint32_t i = 0; i < formals->n; i++) {
        storage *mem;
        const sn_arg *a = &s->args.at[i];
        SN_TRY(open_storage(&mem, ev, a->buf));
        storage *formal = &ev->mems[formals->at[i].i];
        const sn_buf_rec *b = sn_buf_get(ev->m, formals->at[i]);
        int64_t size;
        if (!sn_ix_is_const(ev->m, b->size, &size)) return not_constant(ev, b->name);
        if (a->offset < 0 || a->offset > mem->size || mem->size - a->offset < size)
            return sn_fail(ev->m->env, SN_ERROR_VERIFY, "evaluation: parameter '%s' of @%s is longer than its argument",
                           b->name, sn_kern_get(ev->m, k)->name);
        *formal = *mem;
        formal->size = size;
        formal->name = b->name;
        if (formal->data) formal->data += (size_t)a->offset * formal->bytes;
        if (formal->written) formal->written += a->offset;
        if (formal->made) formal->made += a->offset;
    }
    return SN_OK;
}

/* call: NULL: its parameters are buffers. */
static sn_status run_as(eval *ev, sn_kern k, const sn_step *call) {
    if (call) SN_TRY(bind_formals(ev, k, call));
    return run_kernel(ev, k);
}

/* ---- alternatives: each has to give what the first gives, but for the order of sums ---- */

/* Of the largest element of the buffer, by how much another schedule may be off. */
static double may_differ(sn_dtype dtype) {
    switch ((int)dtype) {
    case SN_F64: return 1e-9;
    case SN_F32: return 1e-4;
    case SN_F16: return 1e-2;
    default: return 5e-2;
    }
}

/* The first element in which b is not a; -1: none is. */
static int64_t first_difference(sn_dtype dtype, const unsigned char *a, const unsigned char *b, int64_t n) {
    size_t bytes = sn_dtype_bytes(dtype);
    double largest = 0;
    if (!sn_is_float(dtype)) {
        for (int64_t i = 0; i < n; i++)
            if (memcmp(a + (size_t)i * bytes, b + (size_t)i * bytes, bytes) != 0) return i;
        return -1;
    }
    for (int64_t i = 0; i < n; i++) {
        double x = fabs(sn_load_float(dtype, a + (size_t)i * bytes));
        if (isfinite(x) && x > largest) largest = x;
    }
    for (int64_t i = 0; i < n; i++) {
        double x = sn_load_float(dtype, a + (size_t)i * bytes), y = sn_load_float(dtype, b + (size_t)i * bytes);
        bool same = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= may_differ(dtype) * largest;
        if (!same) return i;
    }
    return -1;
}

/* Elements of the parameters of a kernel, by parameter; NULL: it does not store to that. */
static sn_status copy_stored(unsigned char ***out, eval *ev, sn_kern k, const sn_step *call, sn_arena *a) {
    const sn_buf_list *params = &sn_kern_get(ev->m, k)->params;
    if (call) SN_TRY(bind_formals(ev, k, call));
    *out = SN_NEWN(a, unsigned char *, params->n + 1);
    for (uint32_t i = 0; i < params->n; i++) {
        storage *mem = &ev->mems[params->at[i].i];
        if (!call) SN_TRY(open_storage(&mem, ev, params->at[i]));
        if (sn_kern_stores(ev->m, k, params->at[i]) && mem->data)
            (*out)[i] = sn_memdup(a, mem->data, (size_t)mem->size * mem->bytes);
    }
    return SN_OK;
}

static void put_stored(eval *ev, sn_kern k, unsigned char *const *elements) {
    const sn_buf_list *params = &sn_kern_get(ev->m, k)->params;
    for (uint32_t i = 0; i < params->n; i++) {
        storage *mem = &ev->mems[params->at[i].i];
        if (elements[i]) memcpy(mem->data, elements[i], (size_t)mem->size * mem->bytes);
    }
}

static sn_status compare_stored(eval *ev, sn_kern first, sn_kern k, unsigned char *const *of_first) {
    const sn_buf_list *params = &sn_kern_get(ev->m, first)->params;
    for (uint32_t i = 0; i < params->n; i++) {
        const storage *mem = &ev->mems[params->at[i].i];
        if (!of_first[i]) continue;
        int64_t at = first_difference(mem->dtype, of_first[i], mem->data, mem->size);
        if (at >= 0)
            return sn_fail(
                ev->m->env, SN_ERROR_MISMATCH,
                "evaluation: @%s gives something else than @%s, whose alternative it is: element %lld of '%s'",
                sn_kern_get(ev->m, k)->name, sn_kern_get(ev->m, first)->name, (long long)at, mem->name);
    }
    return SN_OK;
}

static sn_status run_set(eval *ev, sn_kern first, const sn_step *call, sn_arena *a) {
    sn_kern_list set = {0};
    unsigned char **before, **after;
    sn_kern_alternatives(&set, ev->m, a, first);
    SN_TRY(copy_stored(&before, ev, first, call, a));
    SN_TRY(run_as(ev, first, call));
    SN_TRY(copy_stored(&after, ev, first, call, a));
    for (uint32_t i = 1; i < set.n; i++) {
        put_stored(ev, first, before);
        SN_TRY(run_as(ev, set.at[i], call));
        SN_TRY(compare_stored(ev, first, set.at[i], after));
    }
    put_stored(ev, first, after);
    return SN_OK;
}

/* A kernel and, where it has some, its alternatives on the same elements. */
static sn_status run_all_of(eval *ev, sn_kern k, const sn_step *call) {
    if (!ev->sets || !ev->sets[k.i]) return run_as(ev, k, call);
    if (sn_kern_get(ev->m, k)->alternative_of.i) return SN_OK; /* has run with that one */
    sn_arena copies;
    sn_arena_init(&copies, ev->m->env);
    sn_status status = run_set(ev, k, call, &copies);
    sn_arena_free(&copies);
    return status;
}

/* ---- repeats and branches ---- */

/* The window has the storage of what it is from, from that element on, until the next step. */
static sn_status bind_window(eval *ev, sn_buf buf, sn_buf of, int64_t at) {
    const sn_buf_rec *b = sn_buf_get(ev->m, buf);
    storage *from, *window = &ev->mems[buf.i];
    int64_t size;
    SN_TRY(open_storage(&from, ev, of));
    if (!sn_ix_is_const(ev->m, b->size, &size)) return not_constant(ev, b->name);
    if (at < 0 || at > from->size || from->size - at < size)
        return sn_fail(ev->m->env, SN_ERROR_VERIFY, "evaluation: window '%s' leaves '%s'", b->name, from->name);
    *window = *from;
    window->size = size;
    window->name = b->name;
    if (window->data) window->data += (size_t)at * window->bytes;
    if (window->written) window->written += at;
    if (window->made) window->made += at;
    return SN_OK;
}

static sn_status carry(eval *ev, sn_buf state, sn_buf next) {
    storage *to, *from;
    SN_TRY(open_storage(&to, ev, state));
    SN_TRY(open_storage(&from, ev, next));
    memcpy(to->data, from->data, (size_t)to->size * to->bytes);
    if (to->written && from->written) memcpy(to->written, from->written, (size_t)to->size * sizeof *to->written);
    if (to->made && from->made) memcpy(to->made, from->made, (size_t)to->size * sizeof *to->made);
    return SN_OK;
}

static sn_status number(int64_t *out, eval *ev, sn_ix e) {
    return sn_ix_is_const(ev->m, e, out) ? SN_OK : not_constant(ev, "a repeat");
}

/* The one bool that a branch is taken by, or that a repeat goes on by. */
static sn_status holds(bool *out, eval *ev, sn_buf flag) {
    storage *mem;
    SN_TRY(open_storage(&mem, ev, flag));
    if (mem->written && mem->size && mem->written[0] != *mem->epoch)
        return sn_fail(ev->m->env, SN_ERROR_VERIFY, "evaluation: a branch is taken by '%s', which nobody has stored",
                       mem->name);
    *out = mem->data && mem->data[0];
    return SN_OK;
}

static sn_status run_kernels(eval *ev, uint32_t first, uint32_t end, uint32_t repeat);

static sn_status run_branch(eval *ev, uint32_t first, uint32_t end, uint32_t at) {
    const sn_repeat_rec *r = &ev->m->repeats.at[at];
    uint32_t middle = sn_repeat_middle(ev->m, r);
    bool taken;
    SN_TRY(holds(&taken, ev, r->flag));
    return taken ? run_kernels(ev, first, middle, at + 1) : run_kernels(ev, middle, end, at + 1);
}

static sn_status run_repeat(eval *ev, uint32_t first, uint32_t end, uint32_t at) {
    const sn_repeat_rec *r = &ev->m->repeats.at[at];
    int64_t trip, begin, by;
    bool goes_on = true;
    if (r->otherwise) return run_branch(ev, first, end, at);
    SN_TRY(number(&trip, ev, r->trip));
    for (int64_t t = 0; t < trip && goes_on; t++) {
        for (uint32_t k = 0; k < r->windows.n; k++) {
            SN_TRY(number(&begin, ev, r->windows.at[k].first));
            SN_TRY(number(&by, ev, r->windows.at[k].by));
            SN_TRY(bind_window(ev, r->windows.at[k].buf, r->windows.at[k].of, begin + by * t));
        }
        SN_TRY(run_kernels(ev, first, end, at + 1));
        for (uint32_t k = 0; k < r->carries.n; k++) SN_TRY(carry(ev, r->carries.at[k].state, r->carries.at[k].next));
        if (r->flag.i) SN_TRY(holds(&goes_on, ev, r->flag));
    }
    return SN_OK;
}

/* Kernels from position `first` up to `end`; of the repeats those from number `repeat` on begin there, if any. */
static sn_status run_kernels(eval *ev, uint32_t first, uint32_t end, uint32_t repeat) {
    const sn_module *m = ev->m;
    for (uint32_t i = first; i < end;) {
        uint32_t from = 0, to = 0, r = repeat;
        for (; r < m->repeats.n; r++) {
            sn_repeat_span(&from, &to, m, &m->repeats.at[r]);
            if (from == i && to > from) break;
        }
        if (r == m->repeats.n) {
            SN_TRY(run_all_of(ev, m->kernels.at[i++], NULL));
        } else {
            SN_TRY(run_repeat(ev, from, to, r));
            i = to;
        }
    }
    return SN_OK;
}

/* Where the steps of a wrapper are: the number of the innermost repeat's step, and whether that repeat ends with it. */
typedef struct progress {
    int64_t t;
    bool over;
} progress;

static sn_status run_steps(eval *ev, uint32_t first, uint32_t end, progress *p);

static sn_status run_steps_of(eval *ev, uint32_t at, progress *p) {
    const sn_step *s = &ev->m->wrap.steps.at[at];
    uint32_t end = sn_wrap_end(ev->m, at), otherwise = sn_wrap_else(ev->m, at);
    int64_t trip;
    bool taken;
    if (s->kind == SN_STEP_IF) {
        SN_TRY(holds(&taken, ev, s->buf));
        return taken ? run_steps(ev, at + 1, otherwise, p) : run_steps(ev, otherwise, end, p);
    }
    SN_TRY(number(&trip, ev, s->size));
    for (progress in = {0, false}; in.t < trip && !in.over; in.t++) SN_TRY(run_steps(ev, at + 1, end, &in));
    return SN_OK;
}

static sn_status run_step(eval *ev, uint32_t at, progress *p) {
    const sn_step *s = &ev->m->wrap.steps.at[at];
    int64_t begin, by;
    bool goes_on;
    if (s->kind == SN_STEP_CALL) return run_all_of(ev, s->kern, s);
    if (s->kind == SN_STEP_CARRY) return carry(ev, s->buf, s->from);
    if (s->kind == SN_STEP_WHILE) {
        SN_TRY(holds(&goes_on, ev, s->buf));
        p->over = !goes_on;
    }
    if (s->kind != SN_STEP_WINDOW) return SN_OK;
    uint32_t bytes = sn_dtype_bytes(sn_buf_get(ev->m, s->buf)->dtype);
    SN_TRY(number(&begin, ev, s->offset));
    SN_TRY(number(&by, ev, s->size));
    return bind_window(ev, s->buf, s->from, (begin + by * p->t) / bytes);
}

static sn_status run_steps(eval *ev, uint32_t first, uint32_t end, progress *p) {
    for (uint32_t i = first; i < end && !p->over; i++) {
        sn_step_kind kind = ev->m->wrap.steps.at[i].kind;
        bool opens = kind == SN_STEP_REPEAT || kind == SN_STEP_IF;
        SN_TRY(opens ? run_steps_of(ev, i, p) : run_step(ev, i, p));
        if (opens) i = sn_wrap_end(ev->m, i);
    }
    return SN_OK;
}

/* An output that has the storage of an input begins as that. Here both may have memory of their own. */
static sn_status begin_states(eval *ev) {
    const sn_buf *input = sn_wrap_inputs_written(ev->m, ev->arena);
    for (sn_buf b = {1}; b.i < ev->m->bufs.count; b.i++)
        if (input[b.i].i && ev->memory[b.i] != ev->memory[input[b.i].i]) SN_TRY(carry(ev, b, input[b.i]));
    return SN_OK;
}

/* Kernels in their order, or functions in the order of their calls. */
static sn_status eval_all(eval *ev) {
    const sn_module *m = ev->m;
    progress all = {0, false};
    ev->once = 1;
    ev->mems = SN_NEWN(ev->arena, storage, m->bufs.count);
    ev->sets = sn_kerns_of_sets(m, ev->arena);
    if (!m->wrap.steps.n) return run_kernels(ev, 0, m->kernels.n, 0);
    SN_TRY(begin_states(ev));
    return run_steps(ev, 0, m->wrap.steps.n, &all);
}

sn_status sn_loop_eval(sn_module *m, void **memory, sn_arena *arena) {
    eval ev = {.m = m, .arena = arena, .memory = memory};
    return eval_all(&ev);
}

sn_status sn_loop_check(sn_module *m, void **memory, sn_arena *arena) {
    eval ev = {.m = m, .arena = arena, .memory = memory, .check = sn_check_new(m, arena)};
    return eval_all(&ev);
}

sn_status sn_loop_find_nan(sn_stmt *out, sn_module *m, void **memory, sn_arena *arena, sn_buf b, int64_t at,
                           bool infinity) {
    eval ev = {.m = m, .arena = arena, .memory = memory, .traces = true, .infinity = infinity};
    *out = (sn_stmt){0};
    SN_TRY(eval_all(&ev));
    if (ev.mems[b.i].made) *out = ev.mems[b.i].made[at];
    return SN_OK;
}
