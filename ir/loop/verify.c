/* verify.c: the invariants of Loop IR (docs/IR.md explains them; tests/verify/L*.sn break them one by one).
 *
 *   L1   an operand is defined before its use, in the same region or one around it
 *   L2   operands and results have the number and dtypes that the operation takes
 *   L3   the region of a reduce, and no other, ends in its only yield: one value per state, of its dtype
 *   L4   an axis belongs to one loop or reduce; its extent is made of constants and symbols and is not negative; that of a seq
 *        loop in a scheduled kernel has a bound and may name the axes of grid and seq loops around it
 *   L5   an index expression names only axes of enclosing loops and visible values of integer type
 *   L6   an access that is neither masked nor inside an `if` does not provably leave [0, size)
 *   L7   the parameters of a kernel are exactly the global buffers that it touches; a reg, shared or posted buffer belongs to
 *        one kernel
 *   L8   a const buffer is not stored to
 *   L9   axis kinds other than seq, shared buffers and barriers stand only in scheduled kernels
 *   L10  grid axes are one nest of loops, and all else that stores stands inside it or after one of its loops; or several
 *        nests (segments), with all stores inside them and nothing beside them
 *   L11  a block.x axis is not inside a block.x axis, a block.y axis not inside a block.y axis, a cluster axis not inside
 *        a block.y axis or a cluster axis
 *   L12  all block.x axes of a kernel have the same constant extent, and so have all block.y and all cluster axes
 *   L13  vector and unroll extents are constants; a vector axis is not inside a vector axis
 *   L14  an access to a reg is private * (thread number) + e, to a shared buffer private * (cluster number) + e, with
 *        0 <= e < private; but for a fragment, see L27
 *   L15  links of the tree and of values agree
 *   L16  sizes and alignment of a buffer make sense
 *   L17  a segment of a kernel touches nothing that another one stores
 *   L18  the position of an accum counts the iterations of the innermost loops around it; nothing else stands between
 *   L19  a kernel with a posted buffer has no segments and no cluster; what touches the buffer is inside the grid
 *   L20  the buffer of an input or output has a number of its own; where there is a graph, it is that of one of its inputs
 *        or outputs, whose dtype, shape and storage the buffer has
 *   L21  a divisor is positive, or made of constants and symbols
 *   L22  a kernel's parameters are formals of its own, or none is; what a formal's role says is what the kernel does with it,
 *        and one that is invariant is not stored to
 *   L23  bulk stands on a block.x axis, or on a seq or unroll loop inside one; its nest has a copy and is in no other
 *        bulk nest, and its block.x axis has no barrier; outside of block.x axes the nest is a box, which stands in a
 *        pipe if it fills shared memory
 *   L24  a bulk loop inside a block.x axis has an await loop, in the same place of the nest behind, which is like its
 *        own; the extent of that is a constant, and await stands nowhere else
 *   L25  a pipe of 2 to 8 stages, or of 1 if boxes fill it, is a seq loop outside the axes of threads and other pipes, but that
 *        one of boxes may stand in one of boxes; nests with bulk block.x axes stand directly in it, behind them a barrier; they store only copies, load only what the kernel does not
 *        store and take no values of the pipe's region; what they fill is only read, in the pipe and behind them
 *   L26  a kernel that is scheduled for a library is a product of matrices, with an epilogue, or a convolution, that one may be asked for
 *   L27  a nest with mma is one of its row of mma.def: threads, blocks, registers and operands, in shared memory or fragments, are where
 *        its formulas say
 *   L28  a warp axis is that of a reduce inside a block.x axis, its extent a power of two up to 32 that divides that of
 *        block.x; in its region the number of the thread counts by groups of as many, no value comes from inside the axes of
 *        threads around it, and registers are those of the iteration's thread, to which the block.x nest does not store
 *   L29  an alternative of a kernel stands behind it, is scheduled as it is and has its parameters; that kernel is none itself
 *   L30  a scheduled kernel with teams has a cluster axis, and one grid loop of as many iterations
 *   L31  a scheduled kernel waits once at most, in no loops but those of the grid, and has one grid, no posted buffer and no cluster axis in
 *        front of that; there it stores to registers alone, and loads from those, constants, invariant formals and inputs that no output is written back to
 *   L32  a scheduled kernel with rows that take turns (abreast) has a grid loop whose iterations are a multiple of those rows
 *
 * L23 to L25 are in verify_copies.c, L27 in mma.c, L30 and L32 in verify_headers.c. Uses the marks of axes (their statement), values (definition
 * seen) and buffers. Says nothing about speed or targets.
 */
#include "ir/loop/access.h"
#include "ir/loop/copies.h"
#include "ir/loop/library.h"
#include "ir/loop/mma.h"

#include <stdlib.h>

#include "ir/ops/scalar.h"

typedef struct verifier {
    sn_module *m;
    const char *where;
    sn_kern k;
    sn_stmt grid;     /* innermost grid loop so far of the segment */
    int64_t block[3]; /* extents of block.x, block.y and cluster axes, 0: none so far */
} verifier;

#define FAIL(...) sn_stmt_fail(v->m, SN_ERROR_VERIFY, v->where, s, __VA_ARGS__)

static sn_dtype dtype_of(const verifier *v, sn_val x) { return sn_val_get(v->m, x)->dtype; }
static sn_ix extent_of(const verifier *v, sn_stmt s) { return sn_axis_get(v->m, sn_stmt_get(v->m, s)->axis)->extent; }
static const char *dtype_name(sn_dtype t) { return sn_dtypes[t].name; }

/* ---- L15: links ---- */

static uint32_t results_wanted(const sn_stmt_rec *r) {
    uint32_t states = 0;
    for (uint32_t i = 0; i < r->n_combs; i++) states += sn_combs[r->combs[i]].states;
    sn_lop_result result = sn_lops[r->op].result;
    return result == SN_RESULT_STATES ? states : result != SN_RESULT_NONE;
}

static sn_status check_links(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    const sn_module *m = v->m;
    if (r->kern.i != v->k.i) return FAIL("L15: the statement says that it is in another kernel");
    if (r->next.i && (sn_stmt_get(m, r->next)->prev.i != s.i || sn_stmt_get(m, r->next)->parent.i != r->parent.i))
        return FAIL("L15: the next statement does not point back");
    if (r->first.i && (sn_stmt_get(m, r->first)->prev.i || sn_stmt_get(m, r->first)->parent.i != s.i))
        return FAIL("L15: the region does not point back");
    if (!r->first.i != !r->last.i || (r->first.i && !sn_lop_has_region(r->op)))
        return FAIL("L15: the region has only one end, or is none of this statement");
    if (sn_lops[r->op].has_axis != (r->axis.i != 0))
        return FAIL("L15: loops and reduces have an axis, nothing else has");
    if (sn_lops[r->op].has_buffer != (r->buf.i != 0))
        return FAIL("L15: loads and stores have a buffer, nothing else has");
    if (r->n_results != results_wanted(r))
        return FAIL("L15: %u results where %s has %u", r->n_results, sn_lops[r->op].name, results_wanted(r));
    for (uint32_t i = 0; i < r->n_results; i++) {
        const sn_val_rec *x = sn_val_get(m, sn_result(r, i));
        if (x->def.i != s.i || x->number != i) return FAIL("L15: result %u does not point back", i);
    }
    return SN_OK;
}

/* ---- L1, L5: what a statement refers to ---- */

/* Is x defined before s, in the region of s or one around it? val.mark says that the walk has passed its definition. */
static bool visible(const verifier *v, sn_val x, sn_stmt s) {
    const sn_val_rec *r = sn_val_get(v->m, x);
    if (!r->mark || sn_stmt_get(v->m, r->def)->kern.i != v->k.i || sn_stmt_inside(v->m, s, r->def)) return false;
    sn_stmt home = sn_stmt_get(v->m, r->def)->parent;
    return home.i == 0 || sn_stmt_inside(v->m, s, home);
}

static sn_status check_operands(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!visible(v, r->in[i], s)) return FAIL("L1: operand %u is not visible here", i + 1);
    return SN_OK;
}

typedef struct ix_check {
    const verifier *v;
    sn_stmt s;
    const char *wrong;
} ix_check;

static bool only_symbols(const verifier *v, sn_ix e);

static void check_atom(void *user, sn_ix atom) {
    ix_check *c = user;
    const sn_module *m = c->v->m;
    const sn_ix_rec *r = sn_ix_get(m, atom);
    if (r->kind == SN_IX_AXIS) {
        sn_stmt owner = {sn_axis_get(m, (sn_axis){r->id})->mark};
        if (!owner.i || !sn_stmt_inside(m, c->s, owner))
            c->wrong = "an axis of a loop that is not around the statement";
    } else if (r->kind == SN_IX_VAL) {
        if (!visible(c->v, (sn_val){r->id}, c->s)) c->wrong = "a value that is not visible here";
        else if (!sn_is_integral(dtype_of(c->v, (sn_val){r->id}))) c->wrong = "a value that is no integer";
    }
}

/* L21: a machine cannot divide by 0. */
static bool divisors_ok(const verifier *v, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(v->m, e);
    bool divides = r->kind == SN_IX_DIV || r->kind == SN_IX_MOD;
    if (divides && sn_ix_range(v->m, r->b).lo < 1 && !only_symbols(v, r->b)) return false;
    for (uint32_t i = 0; r->kind == SN_IX_SUM && i < r->n_terms; i++)
        if (!divisors_ok(v, r->terms[i].atom)) return false;
    return (!r->a.i || divisors_ok(v, r->a)) && (!r->b.i || divisors_ok(v, r->b));
}

static sn_status check_indices(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    if (sn_lops[r->op].has_ix != (r->ix.i != 0) || sn_lops[r->op].has_bound != (r->bound.i != 0))
        return FAIL("L15: an index expression is missing, or has no business here");
    ix_check c = {v, s, NULL};
    if (r->ix.i) sn_ix_walk(v->m, r->ix, check_atom, &c);
    if (r->bound.i) sn_ix_walk(v->m, r->bound, check_atom, &c);
    if (c.wrong) return FAIL("L5: the index expression names %s", c.wrong);
    bool divides = (!r->ix.i || divisors_ok(v, r->ix)) && (!r->bound.i || divisors_ok(v, r->bound));
    return divides ? SN_OK : FAIL("L21: a divisor in the index expression is not provably positive");
}

/* ---- L2: dtypes ---- */

static sn_status check_counts(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    const sn_lop_info *op = &sn_lops[r->op];
    uint32_t n = op->n_in + (r->has_mask ? op->n_mask : 0);
    if (r->has_mask && !op->n_mask) return FAIL("L2: %s has no mask", op->name);
    if (op->n_in == SN_ANY_OPERANDS ? r->n_in == 0 : r->n_in != n)
        return FAIL("L2: %u operands where %u %s needed", r->n_in, n, n == 1 ? "is" : "are");
    if (op->has_combs != (r->n_combs > 0)) return FAIL("L2: combiners are missing, or have no business here");
    return SN_OK;
}

/* Operands agree with the one that leads, and the result with what the table says. */
static sn_status check_operand_types(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    const sn_lop_info *op = &sn_lops[r->op];
    uint32_t lead = sn_lop_lead(r->op);
    if (op->has_type || op->n_in == SN_ANY_OPERANDS || op->n_in == 0) return SN_OK;
    sn_dtype t = dtype_of(v, r->in[lead]);
    if (lead && dtype_of(v, r->in[0]) != SN_BOOL) return FAIL("L2: the condition is no bool");
    for (uint32_t i = lead + 1; i < op->n_in; i++)
        if (dtype_of(v, r->in[i]) != t)
            return FAIL("L2: operands are %s and %s", dtype_name(t), dtype_name(dtype_of(v, r->in[i])));
    if (r->op < SN_N_LOPS && !sn_lop_allowed(r->op, t))
        return FAIL("L2: %s does not exist on %s", op->name, dtype_name(t));
    bool like = op->result == SN_RESULT_SAME || op->result == SN_RESULT_CHOSEN;
    if (like && r->dtype != t) return FAIL("L2: the result has the wrong dtype");
    return SN_OK;
}

static sn_status check_access_types(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    const sn_lop_info *op = &sn_lops[r->op];
    sn_dtype t = sn_buf_get(v->m, r->buf)->dtype;
    if (r->has_mask && dtype_of(v, sn_stmt_mask(r)) != SN_BOOL) return FAIL("L2: the mask is no bool");
    if (op->result == SN_RESULT_ELEMENT && r->dtype != t) return FAIL("L2: the result has the wrong dtype");
    for (uint32_t i = 0; i < r->n_in; i++) {
        if (r->has_mask && i == op->n_in) continue;
        if (dtype_of(v, r->in[i]) != t)
            return FAIL("L2: the buffer is %s, the value %s", dtype_name(t), dtype_name(dtype_of(v, r->in[i])));
    }
    return SN_OK;
}

static sn_status check_prefix(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    const char *op = sn_lops[r->op].name, *name = sn_combs[r->combs[0]].name;
    if (r->n_combs != 1) return FAIL("L2: %s has 1 combiner", op);
    if (sn_combs[r->combs[0]].states != 1)
        return FAIL("L2: %s has one state, %s has %u", op, name, sn_combs[r->combs[0]].states);
    if ((r->combs[0] == SN_COMB_ANY || r->combs[0] == SN_COMB_ALL) && r->dtype != SN_BOOL)
        return FAIL("L2: %s works on bool, not on %s", name, dtype_name(r->dtype));
    return SN_OK;
}

static sn_status check_types(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    const sn_lop_info *op = &sn_lops[r->op];
    if (r->n_results == 1 && r->dtype != dtype_of(v, r->result))
        return FAIL("L2: statement and result have two dtypes");
    SN_TRY(check_counts(v, s, r));
    SN_TRY(check_operand_types(v, s, r));
    if (op->result == SN_RESULT_BOOL && r->dtype != SN_BOOL) return FAIL("L2: the result has the wrong dtype");
    if (op->has_buffer) return check_access_types(v, s, r);
    if (op->has_combs && !op->has_region) return check_prefix(v, s, r);
    if (r->op == SN_LOP_BITCAST && sn_dtype_bytes(dtype_of(v, r->in[0])) != sn_dtype_bytes(r->dtype))
        return FAIL("L2: the sizes of %s and %s differ", dtype_name(dtype_of(v, r->in[0])), dtype_name(r->dtype));
    if (r->op == SN_LOP_INDEX && (sn_is_float(r->dtype) || r->dtype == SN_BOOL))
        return FAIL("L2: an index is an integer, not %s", dtype_name(r->dtype));
    return SN_OK;
}

/* ---- L3: reductions ---- */

static sn_status check_states(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    uint32_t state = 0;
    for (uint32_t i = 0; i < r->n_combs; i++) {
        sn_dtype t = dtype_of(v, sn_result(r, state));
        const char *name = sn_combs[r->combs[i]].name;
        if ((r->combs[i] == SN_COMB_ANY || r->combs[i] == SN_COMB_ALL) && t != SN_BOOL)
            return FAIL("L3: %s works on bool, not on %s", name, dtype_name(t));
        sn_comb_second second = sn_combs[r->combs[i]].second;
        if (second == SN_SECOND_POSITION && dtype_of(v, sn_result(r, state + 1)) != SN_I64)
            return FAIL("L3: the position of %s is i64", name);
        if (second == SN_SECOND_WEIGHT && (!sn_is_float(t) || dtype_of(v, sn_result(r, state + 1)) != t))
            return FAIL("L3: %s takes two floats of one dtype, not %s and %s", name, dtype_name(t),
                        dtype_name(dtype_of(v, sn_result(r, state + 1))));
        for (uint32_t k = 1; k < sn_combs[r->combs[i]].states && second == SN_SECOND_SPREAD; k++)
            if (!sn_is_float(t) || dtype_of(v, sn_result(r, state + k)) != t)
                return FAIL("L3: %s takes three floats of one dtype, not %s and %s", name, dtype_name(t),
                            dtype_name(dtype_of(v, sn_result(r, state + k))));
        state += sn_combs[r->combs[i]].states;
    }
    return SN_OK;
}

static sn_status check_yields(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    if (r->op == SN_LOP_YIELD) {
        if (!r->parent.i || sn_stmt_get(v->m, r->parent)->op != SN_LOP_REDUCE || r->next.i)
            return FAIL("L3: a yield stands at the end of a reduce");
        const sn_stmt_rec *reduce = sn_stmt_get(v->m, r->parent);
        if (r->n_in != reduce->n_results) return FAIL("L3: %u values for %u states", r->n_in, reduce->n_results);
        for (uint32_t i = 0; i < r->n_in; i++)
            if (dtype_of(v, r->in[i]) != dtype_of(v, sn_result(reduce, i)))
                return FAIL("L3: value %u is %s, the state %s", i + 1, dtype_name(dtype_of(v, r->in[i])),
                            dtype_name(dtype_of(v, sn_result(reduce, i))));
    }
    if (r->op != SN_LOP_REDUCE) return SN_OK;
    if (!r->last.i || sn_stmt_get(v->m, r->last)->op != SN_LOP_YIELD)
        return FAIL("L3: the region does not end in a yield");
    return check_states(v, s, r);
}

/* ---- L18: positions of prefixes ---- */

/* From the inside out the strides are 1, the extent of the innermost axis, times that of the next, and so on. */
static sn_status check_position(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    if (r->op != SN_LOP_ACCUM) return SN_OK;
    sn_ix rest = r->ix, zero = sn_ix_const(v->m, 0);
    int64_t stride = 1, found, extent;
    for (sn_stmt up = r->parent; !sn_ix_eq(rest, zero); up = sn_stmt_get(v->m, up)->parent) {
        const sn_stmt_rec *u = up.i ? sn_stmt_get(v->m, up) : NULL;
        if (!u || u->op != SN_LOP_LOOP) return FAIL("L18: something other than the loops of its position is around it");
        if (u->kind == SN_AXIS_GRID || u->kind == SN_AXIS_CLUSTER) return FAIL("L18: blocks run in no order");
        bool is_const = sn_ix_is_const(v->m, sn_axis_get(v->m, u->axis)->extent, &extent);
        if (!sn_ix_coef(v->m, rest, u->axis, &found)) return FAIL("L18: the position is no sum of axes");
        if (found == 0 && is_const && extent == 1) continue;
        if (found != stride)
            return FAIL("L18: the position moves by %lld with a loop where it should by %lld", (long long)found,
                        (long long)stride);
        rest = sn_ix_subst(v->m, rest, &u->axis, &zero, 1);
        if (sn_ix_eq(rest, zero)) break; /* the extent of the outermost loop does not matter */
        if (!is_const || sn_mul_overflow(stride, extent, &stride)) return FAIL("L18: an inner extent is no constant");
    }
    return SN_OK;
}

/* ---- L6, L8, L14: accesses ---- */

enum { EXACT_AXES = 16 };

typedef struct exact_walk {
    const sn_module *m;
    uint32_t axes[EXACT_AXES], n;
} exact_walk;

/* Does every value of e's range occur at its ends? True of sums and quotients in which every axis occurs once. */
static bool range_is_exact(exact_walk *w, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(w->m, e);
    if (r->kind == SN_IX_DIV) return sn_ix_is_const(w->m, r->b, NULL) && range_is_exact(w, r->a);
    if (r->kind == SN_IX_AXIS) {
        for (uint32_t i = 0; i < w->n; i++)
            if (w->axes[i] == r->id) return false;
        if (w->n == EXACT_AXES) return false;
        w->axes[w->n++] = r->id;
        return true;
    }
    if (r->kind != SN_IX_SUM) return false;
    for (uint32_t i = 0; i < r->n_terms; i++)
        if (!range_is_exact(w, r->terms[i].atom)) return false;
    return true;
}

/* Might the statement never run, for a reason that the range of its offset does not see? */
static bool is_guarded(const verifier *v, const sn_stmt_rec *r) {
    int64_t extent;
    if (r->has_mask) return true;
    for (sn_stmt up = r->parent; up.i; up = sn_stmt_get(v->m, up)->parent) {
        const sn_stmt_rec *u = sn_stmt_get(v->m, up);
        if (u->op == SN_LOP_IF) return true;
        if (sn_ix_is_const(v->m, sn_axis_get(v->m, u->axis)->extent, &extent) && extent == 0) return true;
    }
    return false;
}

static sn_status check_bounds(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    int64_t size;
    sn_range range = sn_ix_range(v->m, r->ix);
    if (is_guarded(v, r)) return SN_OK;
    bool has_size = sn_ix_is_const(v->m, sn_buf_get(v->m, r->buf)->size, &size);
    bool exact = range_is_exact(&(exact_walk){.m = v->m}, r->ix);
    bool below = range.hi < 0 || (exact && range.lo < 0);
    bool above = has_size && (range.lo >= size || (exact && range.hi != INT64_MAX && range.hi >= size));
    if (below) return FAIL("L6: the offset goes down to %lld", (long long)range.lo);
    if (above) return FAIL("L6: the offset goes up to %lld, the size is %lld", (long long)range.hi, (long long)size);
    return SN_OK;
}

/* Which number of a thread an axis kind counts, -1 for none. */
static int block_number(sn_axis_kind kind) {
    return kind == SN_AXIS_BLOCK_X ? 0 : kind == SN_AXIS_BLOCK_Y ? 1 : kind == SN_AXIS_CLUSTER ? 2 : -1;
}

/* Fragments, which instructions take from all threads of a warp: L27 says from where. */
static bool loads_fragment(const verifier *v, const sn_stmt_rec *r) {
    const sn_stmt_rec *up = r->parent.i ? sn_stmt_get(v->m, r->parent) : NULL;
    if (r->op != SN_LOP_LOAD || !up || up->op != SN_LOP_REDUCE) return false;
    while (!up->mma && up->parent.i) up = sn_stmt_get(v->m, up->parent);
    return up->mma != 0;
}

/* The statement around s that has the axis kind, none if there is none. */
static sn_stmt enclosing_kind(const verifier *v, const sn_stmt_rec *r, sn_axis_kind kind) {
    sn_stmt up = r->parent;
    for (; up.i; up = sn_stmt_get(v->m, up)->parent)
        if (sn_stmt_get(v->m, up)->axis.i && sn_stmt_get(v->m, up)->kind == kind) break;
    return up;
}

/* The offset of an access where the iteration of a warp axis around it is that of the thread itself. */
static sn_ix of_own_thread(const verifier *v, const sn_stmt_rec *r) {
    sn_stmt warp = enclosing_kind(v, r, SN_AXIS_WARP);
    sn_stmt threads = warp.i ? enclosing_kind(v, sn_stmt_get(v->m, warp), SN_AXIS_BLOCK_X) : warp;
    int64_t n;
    if (!threads.i || !sn_ix_is_const(v->m, extent_of(v, warp), &n) || n < 1) return r->ix;
    sn_axis of_warp = sn_stmt_get(v->m, warp)->axis;
    sn_ix own = sn_ix_modc(v->m, sn_ix_axis(v->m, sn_stmt_get(v->m, threads)->axis), n);
    return sn_ix_subst(v->m, r->ix, &of_warp, &own, 1);
}

static sn_status check_local(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    const sn_buf_rec *b = sn_buf_get(v->m, r->buf);
    sn_ix rest = of_own_thread(v, r);
    if (b->scope == SN_BUF_REG && loads_fragment(v, r)) return SN_OK;
    for (sn_stmt up = r->parent; up.i; up = sn_stmt_get(v->m, up)->parent) {
        const sn_stmt_rec *u = sn_stmt_get(v->m, up);
        int number = u->axis.i ? block_number(u->kind) : -1;
        if (number < 0 || (b->scope == SN_BUF_SHARED && number < 2)) continue;
        int64_t found, want = b->private_size;
        for (int k = 0; b->scope == SN_BUF_REG && k < number; k++)
            if (v->block[k]) want *= v->block[k];
        if (!sn_ix_coef(v->m, rest, u->axis, &found) || found != want)
            return FAIL("L14: the %s axis does not step over %lld elements of the %s", sn_axis_kind_names[u->kind],
                        (long long)want, sn_buf_scope_names[b->scope]);
        sn_ix zero = sn_ix_const(v->m, 0);
        rest = sn_ix_subst(v->m, rest, &u->axis, &zero, 1);
    }
    sn_range range = sn_ix_range(v->m, rest);
    if (range.lo < 0 || range.hi >= b->private_size)
        return FAIL("L14: the offset in a %s's group is not provably inside [0, %u)",
                    b->scope == SN_BUF_REG ? "thread" : "block", b->private_size);
    return SN_OK;
}

static sn_status check_access(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    if (!r->buf.i) return SN_OK;
    const sn_buf_rec *b = sn_buf_get(v->m, r->buf);
    if (sn_stores(r) && b->scope == SN_BUF_CONST) return FAIL("L8: '%s' is a const buffer", b->name);
    SN_TRY(check_bounds(v, s, r));
    return sn_buf_is_private(b) ? check_local(v, s, r) : SN_OK;
}

/* ---- L4, L9 .. L13: axes ---- */

static void find_non_symbol(void *user, sn_ix atom) {
    ix_check *c = user;
    if (sn_ix_get(c->v->m, atom)->kind != SN_IX_SYM) c->wrong = "an axis or a value";
}

static bool only_symbols(const verifier *v, sn_ix e) {
    ix_check c = {.v = v};
    sn_ix_walk(v->m, e, find_non_symbol, &c);
    return !c.wrong;
}

/* A seq loop of a scheduled kernel may be shorter on some blocks than on others: who comes to its barriers is the
 * same for all threads of a block. */
static void find_other_than_blocks(void *user, sn_ix atom) {
    ix_check *c = user;
    const sn_module *m = c->v->m;
    const sn_ix_rec *r = sn_ix_get(m, atom);
    sn_stmt loop = r->kind == SN_IX_AXIS ? (sn_stmt){sn_axis_get(m, (sn_axis){r->id})->mark} : (sn_stmt){0};
    const sn_stmt_rec *l = loop.i && sn_stmt_inside(m, c->s, loop) ? sn_stmt_get(m, loop) : NULL;
    bool counts = l && l->op == SN_LOP_LOOP && (l->kind == SN_AXIS_GRID || l->kind == SN_AXIS_SEQ);
    if (r->kind != SN_IX_SYM && !counts) c->wrong = "an axis or a value";
}

static sn_status check_extent(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    ix_check c = {.v = v, .s = s};
    sn_ix extent = sn_axis_get(v->m, r->axis)->extent;
    sn_ix_walk(v->m, extent, find_other_than_blocks, &c);
    bool may = sn_kern_get(v->m, v->k)->scheduled && r->op == SN_LOP_LOOP && r->kind == SN_AXIS_SEQ;
    if (c.wrong || !may) return FAIL("L4: the extent names an axis or a value");
    if (sn_ix_range(v->m, extent).hi == INT64_MAX) return FAIL("L4: the extent has no bound");
    return SN_OK;
}

/* Claim the axes of the kernel: axis.mark = its statement. Also the extents of the block, which L14 needs
 * everywhere. */
static sn_status claim_axis(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    if (!r->axis.i) return SN_OK;
    sn_axis_rec *ax = sn_axis_get(v->m, r->axis);
    int64_t extent = -1;
    if (ax->mark) return FAIL("L4: the axis belongs to another loop too");
    ax->mark = s.i;
    if (!only_symbols(v, ax->extent)) SN_TRY(check_extent(v, s, r));
    bool is_const = sn_ix_is_const(v->m, ax->extent, &extent);
    if (is_const && extent < 0) return FAIL("L4: the extent is negative");
    if (!is_const && (r->kind == SN_AXIS_VECTOR || r->kind == SN_AXIS_UNROLL))
        return FAIL("L13: axis kind %s needs a constant extent", sn_axis_kind_names[r->kind]);
    int number = block_number(r->kind);
    if (number < 0) return SN_OK;
    if (extent < 1) return FAIL("L12: the extent of a %s axis is a positive constant", sn_axis_kind_names[r->kind]);
    if (v->block[number] && v->block[number] != extent)
        return FAIL("L12: another %s axis of the kernel has extent %lld", sn_axis_kind_names[r->kind],
                    (long long)v->block[number]);
    v->block[number] = extent;
    return SN_OK;
}

static sn_status check_grid(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    if (r->op == SN_LOP_REDUCE) return FAIL("L10: blocks cannot share a reduction");
    const sn_stmt_rec *up = r->parent.i ? sn_stmt_get(v->m, r->parent) : NULL;
    if (up && (up->op != SN_LOP_LOOP || up->kind != SN_AXIS_GRID))
        return FAIL("L10: a grid axis stands inside something else");
    if (up && !sn_stmt_inside(v->m, s, v->grid)) return FAIL("L10: the segment has two grids side by side");
    v->grid = s;
    return SN_OK;
}

static sn_status check_kind(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    if (sn_lops[r->op].syncs && !sn_kern_get(v->m, v->k)->scheduled)
        return FAIL("L9: a barrier in a kernel that is not scheduled");
    if (!r->axis.i || r->kind == SN_AXIS_SEQ) return SN_OK;
    const char *name = sn_axis_kind_names[r->kind];
    if (!sn_kern_get(v->m, v->k)->scheduled) return FAIL("L9: axis kind %s in a kernel that is not scheduled", name);
    if (r->kind == SN_AXIS_GRID) return check_grid(v, s, r);
    if (r->kind == SN_AXIS_CLUSTER && enclosing_kind(v, r, SN_AXIS_BLOCK_Y).i)
        return FAIL("L11: a cluster axis inside a %s axis", sn_axis_kind_names[SN_AXIS_BLOCK_Y]);
    bool nests = r->kind == SN_AXIS_UNROLL;
    if (!nests && enclosing_kind(v, r, r->kind).i)
        return FAIL("%s: a %s axis inside a %s axis", r->kind == SN_AXIS_VECTOR ? "L13" : "L11", name, name);
    return SN_OK;
}

/* ---- L28: reductions over neighbouring threads ---- */

/* Is e the same for all threads of a group? */
static bool is_of_group(const verifier *v, sn_ix e, sn_axis x, int64_t n) {
    sn_ix first = sn_ix_scale(v->m, sn_ix_divc(v->m, sn_ix_axis(v->m, x), n), n);
    return !e.i || sn_ix_eq(sn_ix_subst(v->m, e, &x, &first, 1), e);
}

static sn_status check_warp_region(verifier *v, sn_stmt warp, sn_stmt threads, int64_t n) {
    sn_axis x = sn_stmt_get(v->m, threads)->axis;
    sn_stmt end = sn_stmt_walk_skip(v->m, warp);
    for (sn_stmt s = sn_stmt_get(v->m, warp)->first; s.i != end.i; s = sn_stmt_walk_next(v->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(v->m, s);
        if (!is_of_group(v, r->ix, x, n) || !is_of_group(v, r->bound, x, n))
            return FAIL("L28: the threads of a group do not have the same part in a reduction over a warp");
        if (sn_lop_has_region(r->op) && r->axis.i && r->kind != SN_AXIS_UNROLL && r->kind != SN_AXIS_SEQ)
            return FAIL("L28: a %s axis in a reduction over a warp", sn_axis_kind_names[r->kind]);
        for (uint32_t i = 0; i < r->n_in; i++) {
            sn_stmt def = sn_val_get(v->m, r->in[i])->def;
            if (sn_stmt_inside(v->m, def, threads) && !sn_stmt_inside(v->m, def, warp))
                return FAIL("L28: a reduction over a warp takes a value of one thread");
        }
        if (sn_stores(r)) return FAIL("L28: a store in a reduction over a warp");
        if (sn_loads(r) && sn_stmt_stores(v->m, threads, r->buf))
            return FAIL("L28: a reduction over a warp loads what its threads store");
    }
    return SN_OK;
}

static sn_status check_warp(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    if (!r->axis.i || r->kind != SN_AXIS_WARP) return SN_OK;
    enum { WARP = 32 };
    int64_t n = 0;
    sn_stmt threads = enclosing_kind(v, r, SN_AXIS_BLOCK_X);
    bool is_const = sn_ix_is_const(v->m, extent_of(v, s), &n);
    if (r->op != SN_LOP_REDUCE || !threads.i) return FAIL("L28: a warp axis is that of a reduce inside a block.x axis");
    if (!is_const || n < 1 || n > WARP || (n & (n - 1)) || v->block[0] % n)
        return FAIL("L28: the threads are no groups of a warp");
    return check_warp_region(v, s, threads, n);
}

/* Does s stand after one of the grid loops, in its region or deeper? The last block to finish runs it then. */
static bool after_a_grid_loop(const verifier *v, sn_stmt s) {
    for (sn_stmt g = v->grid; g.i; g = sn_stmt_get(v->m, g)->parent)
        for (sn_stmt t = sn_stmt_get(v->m, g)->next; t.i; t = sn_stmt_get(v->m, t)->next)
            if (t.i == s.i || sn_stmt_inside(v->m, s, t)) return true;
    return false;
}

static sn_status check_stores_in_grid(verifier *v) {
    for (sn_stmt s = sn_stmt_walk_first(v->m, v->k); s.i && v->grid.i; s = sn_stmt_walk_next(v->m, s))
        if (sn_stores(sn_stmt_get(v->m, s)) && !sn_stmt_inside(v->m, s, v->grid) && !after_a_grid_loop(v, s))
            return FAIL("L10: the store is outside the grid, so every block would do it");
    return SN_OK;
}

/* ---- L10, L17: segments ---- */

static sn_stmt innermost_grid(const verifier *v, sn_stmt s) {
    for (sn_stmt t = sn_stmt_get(v->m, s)->first; t.i; t = sn_stmt_get(v->m, t)->next)
        if (sn_is_grid(v->m, t)) return innermost_grid(v, t);
    return s;
}

static sn_status check_segment_stores(verifier *v, sn_stmt top) {
    sn_stmt grid = innermost_grid(v, top), end = sn_stmt_walk_skip(v->m, top);
    for (sn_stmt s = top; s.i != end.i; s = sn_stmt_walk_next(v->m, s))
        if (sn_stores(sn_stmt_get(v->m, s)) && !sn_stmt_inside(v->m, s, grid))
            return FAIL("L10: the store is outside the grid, so every block would do it");
    return SN_OK;
}

/* buf.mark: number of the segment that stores to it. */
static sn_status check_segment_accesses(verifier *v, sn_stmt top, uint32_t number, bool stores) {
    sn_stmt end = sn_stmt_walk_skip(v->m, top);
    for (sn_stmt s = top; s.i != end.i; s = sn_stmt_walk_next(v->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(v->m, s);
        if (!(stores ? sn_stores(r) : sn_loads(r))) continue;
        sn_buf_rec *b = sn_buf_get(v->m, r->buf);
        if (sn_buf_is_local(b)) continue;
        if (b->mark && b->mark != number) return FAIL("L17: another segment of the kernel stores to '%s'", b->name);
        if (stores) b->mark = number;
    }
    return SN_OK;
}

static sn_status check_segments(verifier *v, const sn_kern_rec *k) {
    if (sn_kern_segments(v->m, v->k) < 2) return check_stores_in_grid(v);
    for (int stores = 1; stores >= 0; stores--) {
        uint32_t number = 0;
        for (sn_stmt s = k->first; s.i; s = sn_stmt_get(v->m, s)->next) {
            if (!sn_is_grid(v->m, s)) return FAIL("L10: the statement stands beside the segments of the kernel");
            SN_TRY(check_segment_stores(v, s));
            SN_TRY(check_segment_accesses(v, s, ++number, stores));
        }
    }
    for (uint32_t i = 0; i < k->params.n; i++) sn_buf_get(v->m, k->params.at[i])->mark = 0;
    return SN_OK;
}

/* ---- L19: posted buffers ---- */

static sn_status check_posted(verifier *v) {
    if (!sn_kern_posts(v->m, v->k)) return SN_OK;
    for (sn_stmt s = sn_stmt_walk_first(v->m, v->k); s.i; s = sn_stmt_walk_next(v->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(v->m, s);
        if (r->axis.i && r->kind == SN_AXIS_CLUSTER) return FAIL("L19: a cluster in a kernel that posts");
        if (!r->parent.i && sn_is_grid(v->m, s) && sn_kern_segments(v->m, v->k) > 1)
            return FAIL("L19: the kernel posts, and this is one of several segments");
        if (!r->buf.i || sn_buf_get(v->m, r->buf)->scope != SN_BUF_POSTED) continue;
        if (v->grid.i && !sn_stmt_inside(v->m, s, v->grid))
            return FAIL("L19: '%s' is posted, and this is outside the grid", sn_buf_get(v->m, r->buf)->name);
    }
    return SN_OK;
}

/* ---- L7: parameters ---- */

enum { IS_PARAM = 1, IS_LOCAL = 2, IS_LOADED = 4, IS_STORED = 8, IS_TOUCHED = IS_LOADED | IS_STORED };

static sn_status fail_kernel(verifier *v, const char *text, sn_buf b) {
    return sn_fail(v->m->env, SN_ERROR_VERIFY, "%s: kernel @%s: L7: %s '%s'", v->where, sn_kern_get(v->m, v->k)->name,
                   text, sn_buf_get(v->m, b)->name);
}

static sn_status declare_buffers(verifier *v, const sn_kern_rec *k) {
    for (uint32_t i = 0; i < k->params.n; i++) {
        sn_buf_rec *b = sn_buf_get(v->m, k->params.at[i]);
        if (sn_buf_is_local(b)) return fail_kernel(v, "a parameter is local:", k->params.at[i]);
        if (b->mark)
            return fail_kernel(v, b->scope == SN_BUF_FORMAL ? "formal of two kernels:" : "two parameters are",
                               k->params.at[i]);
        b->mark = IS_PARAM;
    }
    for (uint32_t i = 0; i < k->locals.n; i++) {
        sn_buf_rec *b = sn_buf_get(v->m, k->locals.at[i]);
        if (!sn_buf_is_local(b)) return fail_kernel(v, "listed as local:", k->locals.at[i]);
        if (b->mark) return fail_kernel(v, "local to two kernels:", k->locals.at[i]);
        if (b->scope == SN_BUF_SHARED && !k->scheduled)
            return sn_fail(v->m->env, SN_ERROR_VERIFY,
                           "%s: kernel @%s: L9: shared buffer '%s' in a kernel that is not "
                           "scheduled",
                           v->where, k->name, b->name);
        b->mark = IS_LOCAL;
    }
    return SN_OK;
}

/* ---- L22: formals ---- */

static sn_status check_formal(verifier *v, sn_buf formal) {
    const sn_buf_rec *b = sn_buf_get(v->m, formal);
    bool is_formal = b->scope == SN_BUF_FORMAL;
    const char *kernel = sn_kern_get(v->m, v->k)->name, *wrong = NULL;
    uint32_t role = (b->mark & IS_LOADED ? SN_ROLE_IN : 0) | (b->mark & IS_STORED ? SN_ROLE_OUT : 0);
    if (is_formal != sn_kern_is_function(v->m, v->k)) wrong = "it is a formal, or another parameter is";
    else if (is_formal && b->role != role)
        wrong = role == SN_ROLE_IN ? "it is in" : role == SN_ROLE_OUT ? "it is out" : "it is inout";
    else if (b->invariant && role != SN_ROLE_IN) wrong = "it is stored to and not invariant";
    if (!wrong) return SN_OK;
    return sn_fail(v->m->env, SN_ERROR_VERIFY, "%s: kernel @%s: L22: parameter '%s': %s", v->where, kernel, b->name,
                   wrong);
}

/* Marks of parameters are cleared again; those of locals stay, so that another kernel cannot claim them. */
static sn_status check_params(verifier *v, const sn_kern_rec *k) {
    SN_TRY(declare_buffers(v, k));
    for (sn_stmt s = k->first; s.i; s = sn_stmt_walk_next(v->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(v->m, s);
        if (!r->buf.i) continue;
        sn_buf_rec *b = sn_buf_get(v->m, r->buf);
        bool is_local = sn_buf_is_local(b);
        if (!(b->mark & (is_local ? IS_LOCAL : IS_PARAM)))
            return FAIL("L7: '%s' is no %s of the kernel", b->name, is_local ? "local buffer" : "parameter");
        b->mark |= r->op == SN_LOP_STORE ? IS_STORED : IS_LOADED;
    }
    for (uint32_t i = 0; i < k->params.n; i++) {
        sn_buf_rec *b = sn_buf_get(v->m, k->params.at[i]);
        if (!(b->mark & IS_TOUCHED)) return fail_kernel(v, "the kernel never touches its parameter", k->params.at[i]);
        SN_TRY(check_formal(v, k->params.at[i]));
        b->mark = 0;
    }
    return SN_OK;
}

/* Formals stay claimed, as locals do. */
static void claim_formals(const verifier *v, const sn_kern_rec *k) {
    for (uint32_t i = 0; i < k->params.n; i++) {
        sn_buf_rec *b = sn_buf_get(v->m, k->params.at[i]);
        if (b->scope == SN_BUF_FORMAL) b->mark = IS_LOCAL;
    }
}

/* ---- L29: alternatives ---- */

/* One may load what it has stored, where another one has kept it. */
static bool has_param(const sn_module *m, const sn_kern_rec *k, uint32_t at, sn_buf of, bool function) {
    if (function) {
        const sn_buf_rec *a = sn_buf_get(m, k->params.at[at]), *b = sn_buf_get(m, of);
        return a->dtype == b->dtype && sn_ix_eq(a->size, b->size) &&
               (a->role == SN_ROLE_IN) == (b->role == SN_ROLE_IN) && a->align == b->align && a->noalias == b->noalias &&
               a->invariant == b->invariant;
    }
    for (uint32_t i = 0; i < k->params.n; i++)
        if (sn_buf_eq(k->params.at[i], of)) return true;
    return false;
}

static const char *wrong_with_alternative(const verifier *v, const sn_kern_rec *k, const bool *before) {
    const sn_module *m = v->m;
    const sn_kern_rec *first = sn_kern_get(m, k->alternative_of);
    if (!before[k->alternative_of.i]) return "that kernel does not stand before it";
    if (first->alternative_of.i) return "that kernel is an alternative itself";
    if (!k->scheduled || !first->scheduled) return "both have to be scheduled";
    if (sn_kern_is_library(k) || sn_kern_is_library(first)) return "a library runs one of them";
    if (k->params.n != first->params.n) return "that kernel has another number of parameters";
    bool function = k->params.n && sn_kern_is_function(m, v->k);
    if (k->params.n && function != sn_kern_is_function(m, k->alternative_of)) return "one of them is no function";
    for (uint32_t i = 0; i < k->params.n; i++)
        if (!has_param(m, k, i, first->params.at[i], function)) return "that kernel has another parameter";
    return NULL;
}

static sn_status check_alternatives(verifier *v) {
    sn_arena scratch;
    const char *wrong = NULL;
    sn_arena_init(&scratch, v->m->env);
    bool *before = SN_NEWN(&scratch, bool, v->m->kerns.count);
    for (uint32_t i = 0; i < v->m->kernels.n && !wrong; i++) {
        v->k = v->m->kernels.at[i];
        const sn_kern_rec *k = sn_kern_get(v->m, v->k);
        if (k->alternative_of.i) wrong = wrong_with_alternative(v, k, before);
        before[v->k.i] = true;
    }
    sn_arena_free(&scratch);
    if (!wrong) return SN_OK;
    const sn_kern_rec *k = sn_kern_get(v->m, v->k);
    return sn_fail(v->m->env, SN_ERROR_VERIFY, "%s: kernel @%s: L29: an alternative of @%s: %s", v->where, k->name,
                   sn_kern_get(v->m, k->alternative_of)->name, wrong);
}

/* ---- everything ---- */

static sn_status check_library(verifier *v, const sn_kern_rec *k) {
    sn_library_call call;
    const char *why_not;
    if (!sn_kern_is_library(k) || sn_library_read(&call, &why_not, v->m, v->k)) return SN_OK;
    return sn_fail(v->m->env, SN_ERROR_VERIFY, "%s: kernel @%s: L26: no library can run it: %s", v->where, k->name,
                   why_not);
}

/* ---- L31: waiting for the kernels in front ---- */

static bool comes_before_a_wait(const verifier *v, const sn_stmt_rec *r) {
    if (sn_lops[r->op].syncs || r->op == SN_LOP_WAIT || r->kind == SN_AXIS_CLUSTER) return false;
    if (!sn_is_access(r) || r->op == SN_LOP_PREFETCH) return true;
    const sn_buf_rec *b = sn_buf_get(v->m, r->buf);
    bool settled = sn_buf_is_settled(v->m, b) || (b->scope == SN_BUF_FORMAL && b->invariant);
    return b->scope == SN_BUF_REG || (settled && !sn_stores(r));
}

static sn_status check_wait(verifier *v, sn_stmt s, const sn_stmt_rec *r) {
    if (r->op != SN_LOP_WAIT) return SN_OK;
    if (!sn_kern_get(v->m, v->k)->scheduled || sn_kern_segments(v->m, v->k) > 1 || sn_kern_posts(v->m, v->k))
        return FAIL("L31: a wait in a kernel that is not scheduled, has several grids, or posts");
    for (sn_stmt up = r->parent; up.i; up = sn_stmt_get(v->m, up)->parent)
        if (!sn_is_grid(v->m, up)) return FAIL("L31: a wait stands inside something else than the grid");
    for (sn_stmt t = sn_kern_get(v->m, v->k)->first; t.i != s.i; t = sn_stmt_walk_next(v->m, t))
        if (!comes_before_a_wait(v, sn_stmt_get(v->m, t)))
            return FAIL("L31: in front of the wait stands what may have to wait: %s",
                        sn_lops[sn_stmt_get(v->m, t)->op].name);
    return SN_OK;
}

typedef sn_status (*check_fn)(verifier *v, sn_stmt s, const sn_stmt_rec *r);

static sn_status check_kernel(verifier *v) {
    static const check_fn CHECKS[] = {check_operands, check_indices, check_types, check_yields, check_position,
                                      check_access,   check_kind,    check_warp,  check_wait};
    const sn_kern_rec *k = sn_kern_get(v->m, v->k);
    v->grid = (sn_stmt){0};
    v->block[0] = v->block[1] = v->block[2] = 0;
    for (sn_stmt s = k->first; s.i; s = sn_stmt_walk_next(v->m, s)) {
        SN_TRY(check_links(v, s, sn_stmt_get(v->m, s)));
        SN_TRY(claim_axis(v, s, sn_stmt_get(v->m, s)));
    }
    for (sn_stmt s = k->first; s.i; s = sn_stmt_walk_next(v->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(v->m, s);
        for (size_t i = 0; i < SN_COUNT(CHECKS); i++) SN_TRY(CHECKS[i](v, s, r));
        for (uint32_t i = 0; i < r->n_results; i++) sn_val_get(v->m, sn_result(r, i))->mark = 1;
    }
    SN_TRY(check_params(v, k));
    SN_TRY(check_posted(v));
    SN_TRY(check_segments(v, k));
    SN_TRY(check_library(v, k));
    claim_formals(v, k);
    return SN_OK;
}

enum { MAX_ALIGN = 256 };

static bool size_ok(const verifier *v, sn_ix e) {
    int64_t c;
    return e.i && only_symbols(v, e) && (!sn_ix_is_const(v->m, e, &c) || c >= 0);
}

static const char *wrong_with_buffer(const verifier *v, const sn_buf_rec *b) {
    if (b->rank > SN_MAX_RANK) return "the rank is too large";
    for (uint32_t i = 0; i < b->rank; i++)
        if (!size_ok(v, b->shape[i])) return "a dimension is negative or names an axis or a value";
    if (!size_ok(v, b->size)) return "the size is negative or names an axis or a value";
    if (b->align == 0 || (b->align & (b->align - 1))) return "the alignment is no power of two";
    if (b->align > MAX_ALIGN) return "the alignment is more than that of any storage (256)";
    if (sn_buf_is_private(b) && b->private_size == 0) return "the group of a thread or block has no elements";
    if (b->scope != SN_BUF_CONST) return NULL;
    int64_t size;
    if (!sn_ix_is_const(v->m, b->size, &size)) return "the size of a const is a number";
    if (!b->weight.i) return b->data ? NULL : "a const has data";
    if (b->weight.i >= v->m->weights.recs.count) return "a const has a weight that there is not";
    const sn_weight_rec *w = sn_wt_get(v->m, b->weight);
    bool fits = w->dtype == b->dtype && w->size == (size_t)size * sn_dtype_bytes(b->dtype);
    return fits ? NULL : "the weight has another dtype or size";
}

/* ---- L20: the graph's inputs and outputs ---- */

static const sn_type *port_type(const verifier *v, const sn_buf_rec *b) {
    const sn_graph_ir *g = &v->m->graph;
    bool is_input = b->scope == SN_BUF_INPUT;
    if (b->io >= (is_input ? g->inputs.n : g->outputs.n)) return NULL;
    return &sn_node_get(v->m, is_input ? g->inputs.at[b->io].node : g->outputs.at[b->io].node)->type;
}

static const char *wrong_with_port(const verifier *v, const sn_buf_rec *b) {
    if (!v->m->graph.outputs.n) return NULL;
    const sn_type *t = port_type(v, b);
    if (!t) return b->scope == SN_BUF_INPUT ? "the graph has fewer inputs" : "the graph has fewer outputs";
    if (t->dtype != b->dtype) return "the graph has another dtype there";
    if (t->rank != b->rank) return "the graph has another rank there";
    for (uint32_t k = 0; k < t->rank; k++)
        if (!sn_ix_eq(t->shape[k], b->shape[k])) return "the graph has another shape there";
    sn_ix size = b->scope == SN_BUF_INPUT ? sn_graph_input_size(v->m, b->io) : sn_ix_product(v->m, t->shape, t->rank);
    return sn_ix_eq(size, b->size) ? NULL : "the size is not that of the graph's storage";
}

static int by_port(const void *a, const void *b) {
    const sn_buf_rec *x = *(sn_buf_rec *const *)a, *y = *(sn_buf_rec *const *)b;
    if (x->scope != y->scope) return x->scope < y->scope ? -1 : 1;
    return x->io < y->io ? -1 : x->io > y->io;
}

static sn_status check_ports(verifier *v) {
    sn_module *m = v->m;
    uint32_t n = 0;
    sn_arena scratch;
    sn_arena_init(&scratch, m->env);
    sn_buf_rec **ports = SN_NEWN(&scratch, sn_buf_rec *, m->bufs.count);
    const sn_buf_rec *bad = NULL;
    const char *wrong = NULL;
    for (sn_buf b = {1}; b.i < m->bufs.count && !wrong; b.i++) {
        sn_buf_rec *r = sn_buf_get(m, b);
        if (r->scope != SN_BUF_INPUT && r->scope != SN_BUF_OUTPUT) continue;
        ports[n++] = r;
        if ((wrong = wrong_with_port(v, r))) bad = r;
    }
    if (n) qsort(ports, n, sizeof *ports, by_port);
    for (uint32_t k = 1; k < n && !wrong; k++)
        if (by_port(&ports[k - 1], &ports[k]) == 0) bad = ports[k], wrong = "another buffer has the number";
    sn_arena_free(&scratch);
    if (!wrong) return SN_OK;
    return sn_fail(m->env, SN_ERROR_VERIFY, "%s: buffer '%s': L20: %s %u: %s", v->where, bad->name,
                   sn_buf_scope_names[bad->scope], bad->io, wrong);
}

sn_status sn_loop_verify(sn_module *m, const char *where) {
    verifier v = {.m = m, .where = where};
    for (sn_axis ax = {1}; ax.i < m->axes.count; ax.i++) sn_axis_get(m, ax)->mark = 0;
    for (sn_val x = {1}; x.i < m->vals.count; x.i++) sn_val_get(m, x)->mark = 0;
    for (sn_buf b = {1}; b.i < m->bufs.count; b.i++) {
        const char *wrong = wrong_with_buffer(&v, sn_buf_get(m, b));
        if (wrong)
            return sn_fail(m->env, SN_ERROR_VERIFY, "%s: buffer '%s': L16: %s", where, sn_buf_get(m, b)->name, wrong);
        sn_buf_get(m, b)->mark = 0;
    }
    SN_TRY(check_ports(&v));
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        v.k = m->kernels.at[i];
        SN_TRY(check_kernel(&v));
    }
    SN_TRY(check_alternatives(&v));
    SN_TRY(sn_headers_verify(m, where));
    SN_TRY(sn_copies_verify(m, where));
    return sn_mma_verify(m, where);
}
