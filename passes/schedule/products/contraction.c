/* contraction.c: see contraction.h.
 *
 * A value has a set of axes: those in the index expressions and operands that it is made of, as bits by the position of
 * the loop, outer loops first. Products are found from what the reduction yields: sums of products whose two factors
 * have sets that no axis of one side shares with the other one's, apart from batch and K axes.
 */
#include "passes/schedule/products/contraction.h"

#include <math.h>

typedef struct finder {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_contraction *c;
    sn_notes axes;     /* by sn_val: its set */
    sn_notes position; /* by sn_axis: its bit */
    uint64_t found;    /* of the index expression that is being walked */
    const char *why;
} finder;

static bool refuse(finder *f, const char *why) {
    f->why = why;
    return false;
}

/* ---- sets of axes ---- */

static uint64_t set_of(finder *f, sn_val v);

static void note_atom(void *user, sn_ix atom) {
    finder *f = user;
    const sn_ix_rec *r = sn_ix_get(f->m, atom);
    uint64_t bit;
    if (r->kind == SN_IX_AXIS && sn_notes_find(&f->position, r->id, &bit)) f->found |= 1ull << bit;
    if (r->kind == SN_IX_VAL) {
        uint64_t outside = f->found;
        outside |= set_of(f, (sn_val){r->id});
        f->found = outside;
    }
}

static uint64_t set_of_ix(finder *f, sn_ix e) {
    f->found = 0;
    if (e.i) sn_ix_walk(f->m, e, note_atom, f);
    return f->found;
}

/* Of a reduction in front of the nest: all that is inside. */
static uint64_t set_inside(finder *f, sn_stmt s) {
    uint64_t set = 0;
    sn_stmt end = sn_stmt_walk_skip(f->m, s);
    for (sn_stmt t = s; t.i != end.i; t = sn_stmt_walk_next(f->m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(f->m, t);
        set |= set_of_ix(f, r->ix);
        set |= set_of_ix(f, r->bound);
        for (uint32_t i = 0; i < r->n_in; i++)
            if (!sn_stmt_inside(f->m, sn_val_get(f->m, r->in[i])->def, s)) set |= set_of(f, r->in[i]);
    }
    return set;
}

static uint64_t set_of(finder *f, sn_val v) {
    uint64_t set;
    if (sn_notes_find(&f->axes, v.i, &set)) return set;
    const sn_stmt_rec *r = sn_stmt_get(f->m, sn_val_get(f->m, v)->def);
    set = set_of_ix(f, r->ix) | set_of_ix(f, r->bound);
    for (uint32_t i = 0; i < r->n_in; i++) set |= set_of(f, r->in[i]);
    if (sn_lop_has_region(r->op)) set |= set_inside(f, sn_val_get(f->m, v)->def);
    sn_notes_set(&f->axes, v.i, set);
    return set;
}

/* ---- loops ---- */

static bool find_loops(finder *f, sn_kern k) {
    sn_contraction *c = f->c;
    sn_module *m = f->m;
    sn_chain_outer(&c->outer, m, k);
    c->body = c->outer.n ? c->outer.at[c->outer.n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(m, k, c->body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_stores(r) && !c->top.i) return refuse(f, "it stores in front of the reduction");
        if (!sn_lop_has_region(r->op)) continue;
        if (r->op != SN_LOP_REDUCE || c->top.i) return refuse(f, "it is more than one reduction");
        c->top = s;
    }
    if (!c->top.i) return refuse(f, "it has no reduction");
    if (!sn_nest_perfect(&c->inner, m, c->top)) return refuse(f, "its reductions are not one nest");
    sn_stmt end = sn_stmt_walk_skip(m, c->top);
    for (sn_stmt s = c->top; s.i != end.i; s = sn_stmt_walk_next(m, s))
        if (sn_stores(sn_stmt_get(m, s))) return refuse(f, "it stores in the reduction");
    if (!sn_chain_extents(m, &c->outer, c->extent) || !sn_chain_extents(m, &c->inner, c->k_extent))
        return refuse(f, "a size is symbolic");
    if (c->outer.n + c->inner.n > 64) return refuse(f, "it has too many loops");
    f->axes.arena = f->position.arena = f->cx->scratch;
    for (uint32_t i = 0; i < c->outer.n; i++) sn_notes_set(&f->position, sn_stmt_axis(m, c->outer.at[i]).i, i);
    for (uint32_t i = 0; i < c->inner.n; i++)
        sn_notes_set(&f->position, sn_stmt_axis(m, c->inner.at[i]).i, c->outer.n + i);
    return true;
}

/* ---- products ---- */

static const sn_stmt_rec *def_of(const finder *f, sn_val v) { return sn_stmt_get(f->m, sn_val_get(f->m, v)->def); }

static bool is_zero(const finder *f, sn_val v) {
    const sn_stmt_rec *r = def_of(f, v);
    return r->op == SN_LOP_CONST && r->f == 0 && !signbit(r->f) && r->i == 0;
}

/* `select %m, cast (load x[..] if %m else 0), 0` is what it selects from: 0 is 0 in every type. */
static sn_val without_select(const finder *f, sn_val v) {
    const sn_stmt_rec *select = def_of(f, v);
    if (select->op != SN_LOP_SELECT || !is_zero(f, select->in[2])) return v;
    const sn_stmt_rec *r = def_of(f, select->in[1]);
    while (r->op == SN_LOP_CAST) r = def_of(f, r->in[0]);
    bool masked = r->op == SN_LOP_LOAD && r->has_mask && sn_val_eq(r->in[0], select->in[0]) && is_zero(f, r->in[1]);
    return masked ? select->in[1] : v;
}

/* Which operand the value is, a new one if need be; SN_MOST_OPERANDS: there is no room. */
static uint32_t operand(finder *f, sn_val v) {
    sn_contraction *c = f->c;
    v = without_select(f, v);
    for (uint32_t i = 0; i < c->n_operands; i++)
        if (sn_val_eq(c->operands[i].value, v)) return i;
    if (c->n_operands == SN_MOST_OPERANDS) return SN_MOST_OPERANDS;
    sn_contraction_operand *o = &c->operands[c->n_operands];
    *o = (sn_contraction_operand){.value = v, .from = sn_val_get(f->m, v)->dtype};
    sn_stmt def = sn_val_get(f->m, v)->def;
    for (const sn_stmt_rec *r = sn_stmt_get(f->m, def); r->op == SN_LOP_CAST; r = sn_stmt_get(f->m, def)) {
        if (!sn_dtype_holds(r->dtype, sn_val_get(f->m, r->in[0])->dtype)) break;
        def = sn_val_get(f->m, r->in[0])->def;
    }
    if (sn_stmt_get(f->m, def)->op == SN_LOP_LOAD) {
        o->load = def;
        o->from = sn_stmt_get(f->m, def)->dtype;
    }
    return c->n_operands++;
}

/* What a state adds up: v is a product, or a sum of such. */
static bool find_products(finder *f, uint32_t state, sn_val v) {
    sn_contraction *c = f->c;
    const sn_stmt_rec *r = def_of(f, v);
    if (r->op == SN_LOP_ADD) return find_products(f, state, r->in[0]) && find_products(f, state, r->in[1]);
    if (r->op != SN_LOP_MUL) return refuse(f, "what it adds up are no products");
    if (c->n_products == SN_MOST_PRODUCTS) return refuse(f, "it adds up too many products");
    uint32_t left = operand(f, r->in[0]), right = operand(f, r->in[1]);
    if (left == SN_MOST_OPERANDS || right == SN_MOST_OPERANDS) return refuse(f, "it has too many operands");
    c->products[c->n_products++] = (sn_contraction_product){state, left, right};
    return true;
}

static bool find_states(finder *f) {
    sn_contraction *c = f->c;
    const sn_stmt_rec *top = sn_stmt_get(f->m, c->top);
    const sn_stmt_rec *innermost = sn_stmt_get(f->m, c->inner.at[c->inner.n - 1]);
    const sn_stmt_rec *yield = sn_stmt_get(f->m, innermost->last);
    c->n_states = top->n_combs;
    c->dtype = sn_val_get(f->m, top->result)->dtype;
    for (uint32_t i = 0; i < top->n_combs; i++) {
        if (top->combs[i] != SN_COMB_SUM) return refuse(f, "it is no sum");
        if (sn_val_get(f->m, yield->in[i])->dtype != c->dtype) return refuse(f, "its sums have different dtypes");
        if (!find_products(f, i, yield->in[i])) return false;
    }
    return true;
}

/* ---- sides ---- */

/* Sets of the two factors of product p, without K axes; a factor's first: the one that is to be on the left. */
static uint64_t outer_set(finder *f, uint32_t operand) {
    return set_of(f, f->c->operands[operand].value) & ((1ull << f->c->outer.n) - 1);
}

/* All products have their factors on the same two sides: the left ones share no axis with the right ones but those of
 * batch, on which both of every product depend. */
static bool find_sides(finder *f) {
    sn_contraction *c = f->c;
    uint64_t left = 0, right = 0, batch = ~0ull, k_axes = ((1ull << c->inner.n) - 1) << c->outer.n;
    for (uint32_t p = 0; p < c->n_products; p++) {
        sn_contraction_product *pr = &c->products[p];
        uint64_t a = outer_set(f, pr->left), b = outer_set(f, pr->right);
        uint64_t summed = set_of(f, c->operands[pr->left].value) & set_of(f, c->operands[pr->right].value) & k_axes;
        if (summed != k_axes) return refuse(f, "a factor does not change along the sum");
        batch &= a & b;
        bool swap = (b & ~a & left) || (a & ~b & right);
        if (!(left | right)) swap = c->outer.n && (a & ~b) >> (c->outer.n - 1);
        if (swap) {
            uint32_t other = pr->left;
            pr->left = pr->right;
            pr->right = other;
            uint64_t set = a;
            a = b;
            b = set;
        }
        left |= a & ~b;
        right |= b & ~a;
    }
    for (uint32_t p = 0; p < c->n_products; p++) {
        uint64_t a = outer_set(f, c->products[p].left), b = outer_set(f, c->products[p].right);
        if ((a & b) != batch || (a & right) || (b & left)) return refuse(f, "its products have no common sides");
        c->operands[c->products[p].right].right = true;
    }
    for (uint32_t p = 0; p < c->n_products; p++)
        if (c->operands[c->products[p].left].right) return refuse(f, "an operand is on both sides");
    c->batch = c->m = c->n = c->k = 1;
    for (uint32_t i = 0; i < c->outer.n; i++) {
        uint64_t bit = 1ull << i;
        c->side[i] = batch & bit ? SN_SIDE_BATCH : right & bit ? SN_SIDE_N : SN_SIDE_M;
        int64_t *extent = batch & bit ? &c->batch : right & bit ? &c->n : &c->m;
        *extent = sn_mul_clamped(*extent, c->extent[i]);
    }
    for (uint32_t i = 0; i < c->inner.n; i++) c->k = sn_mul_clamped(c->k, c->k_extent[i]);
    return true;
}

void sn_contraction_swap(sn_contraction *c) {
    int64_t m = c->m;
    c->m = c->n;
    c->n = m;
    for (uint32_t i = 0; i < c->outer.n; i++)
        if (c->side[i] != SN_SIDE_BATCH) c->side[i] = c->side[i] == SN_SIDE_M ? SN_SIDE_N : SN_SIDE_M;
    for (uint32_t i = 0; i < c->n_operands; i++) c->operands[i].right = !c->operands[i].right;
    for (uint32_t p = 0; p < c->n_products; p++) {
        uint32_t left = c->products[p].left;
        c->products[p].left = c->products[p].right;
        c->products[p].right = left;
    }
}

void sn_contraction_put_last(sn_contraction *c, uint32_t i) {
    sn_stmt loop = c->outer.at[i];
    int64_t extent = c->extent[i];
    sn_contraction_side side = c->side[i];
    for (; i + 1 < c->outer.n; i++) {
        c->outer.at[i] = c->outer.at[i + 1];
        c->extent[i] = c->extent[i + 1];
        c->side[i] = c->side[i + 1];
    }
    c->outer.at[i] = loop;
    c->extent[i] = extent;
    c->side[i] = side;
}

/* Of the operand, each once: of an image, every one is in several products of a row. */
static double elements(const sn_module *m, const sn_contraction *c, const sn_contraction_operand *o) {
    double all = (double)c->batch * (double)c->k * (double)(o->right ? c->n : c->m);
    int64_t size;
    bool known = o->load.i && sn_ix_is_const(m, sn_buf_get(m, sn_stmt_get(m, o->load)->buf)->size, &size);
    return known && (double)size < all ? (double)size : all;
}

bool sn_contraction_is_masked(const sn_module *m, const sn_contraction *c) {
    bool masked = false;
    for (uint32_t i = 0; i < c->n_operands; i++)
        masked |= c->operands[i].load.i && sn_stmt_get(m, c->operands[i].load)->has_mask;
    return masked;
}

double sn_contraction_fetch(const sn_module *m, const sn_contraction *c, const sn_target *t) {
    double bytes = 0;
    for (uint32_t i = 0; i < c->n_operands; i++)
        bytes += elements(m, c, &c->operands[i]) * sn_dtype_bytes(c->operands[i].from);
    return bytes / ((double)t->cycle_bytes * t->units);
}

/* ---- where operands are contiguous ---- */

typedef struct look {
    sn_module *m;
    sn_notes seen; /* sn_val */
    sn_axis step, side;
    uint32_t along, across; /* bytes */
} look;

static void look_at(look *l, sn_val v) {
    if (!sn_notes_add(&l->seen, v.i)) return;
    const sn_stmt_rec *r = sn_stmt_get(l->m, sn_val_get(l->m, v)->def);
    for (uint32_t i = 0; i < r->n_in; i++) look_at(l, r->in[i]);
    int64_t c;
    if (r->op != SN_LOP_LOAD) return;
    if (sn_ix_coef(l->m, r->ix, l->step, &c) && c == 1) l->along += sn_dtype_bytes(r->dtype);
    if (l->side.i && sn_ix_coef(l->m, r->ix, l->side, &c) && c == 1) l->across += sn_dtype_bytes(r->dtype);
}

sn_axis sn_contraction_last_axis(int64_t *extent, const sn_module *m, const sn_contraction *c,
                                 sn_contraction_side side) {
    for (uint32_t i = c->outer.n; i-- > 0;)
        if (c->side[i] == side && c->extent[i] > 1) return *extent = c->extent[i], sn_stmt_axis(m, c->outer.at[i]);
    return *extent = 1, (sn_axis){0};
}

bool sn_contraction_lies_across(sn_pass_ctx *cx, const sn_contraction *c, uint32_t operand) {
    const sn_contraction_operand *o = &c->operands[operand];
    int64_t extent;
    look l = {.m = cx->m, .seen = {.arena = cx->scratch}};
    l.step = sn_stmt_axis(cx->m, c->inner.at[c->inner.n - 1]);
    l.side = sn_contraction_last_axis(&extent, cx->m, c, o->right ? SN_SIDE_N : SN_SIDE_M);
    look_at(&l, o->value);
    return l.across > l.along;
}

/* ---- finding ---- */

/* The sum may go in any order: the K axis along which most is contiguous becomes the innermost one. */
static void order_steps(sn_pass_ctx *cx, sn_contraction *c) {
    uint32_t best = c->inner.n - 1, most = 0;
    for (uint32_t k = c->inner.n; k-- > 0;) {
        look l = {.m = cx->m, .seen = {.arena = cx->scratch}};
        l.step = sn_stmt_axis(cx->m, c->inner.at[k]);
        for (uint32_t i = 0; i < c->n_operands; i++) look_at(&l, c->operands[i].value);
        if (l.along > most) best = k, most = l.along;
    }
    sn_stmt loop = c->inner.at[best];
    int64_t extent = c->k_extent[best];
    for (uint32_t k = best; k + 1 < c->inner.n; k++) {
        c->inner.at[k] = c->inner.at[k + 1];
        c->k_extent[k] = c->k_extent[k + 1];
    }
    c->inner.at[c->inner.n - 1] = loop;
    c->k_extent[c->inner.n - 1] = extent;
}

bool sn_contraction_find(sn_contraction *out, const char **why_not, sn_pass_ctx *cx, sn_kern k) {
    finder f = {.cx = cx, .m = cx->m, .c = out};
    *out = (sn_contraction){0};
    bool found = find_loops(&f, k) && find_states(&f) && find_sides(&f);
    if (found) order_steps(cx, out);
    else *why_not = f.why;
    return found;
}

/* ---- places ---- */

/* (.., tap, channel) of a number that counts (.., piece, tap, channel in the piece). */
static void unflatten_cut(sn_module *m, const sn_contraction *c, sn_ix number, const sn_ix *shape, uint32_t n,
                          sn_ix *with) {
    sn_ix own[SN_MAX_CHAIN + 1], parts[SN_MAX_CHAIN + 1];
    for (uint32_t i = 0; i + 2 < n; i++) own[i] = shape[i];
    own[n - 2] = sn_ix_divc(m, shape[n - 1], c->cut);
    own[n - 1] = shape[n - 2];
    own[n] = sn_ix_const(m, c->cut);
    sn_ix_unflatten(m, number, own, n + 1, parts);
    for (uint32_t i = 0; i + 2 < n; i++) with[i] = parts[i];
    with[n - 2] = parts[n - 1];
    with[n - 1] = sn_ix_add(m, sn_ix_scale(m, parts[n - 2], c->cut), parts[n]);
}

/* The axes of one kind, side or K, are the parts of `number`. */
static uint32_t spread(sn_axis *axes, sn_ix *with, sn_module *m, const sn_contraction *c, int side, sn_ix number) {
    bool k = side < 0;
    const sn_chain *chain = k ? &c->inner : &c->outer;
    sn_ix shape[SN_MAX_CHAIN];
    uint32_t n = 0;
    for (uint32_t i = 0; i < chain->n; i++) {
        if (!k && c->side[i] != (sn_contraction_side)side) continue;
        shape[n] = sn_ix_const(m, k ? c->k_extent[i] : c->extent[i]);
        axes[n++] = sn_stmt_axis(m, chain->at[i]);
    }
    if (n && c->cut && side == SN_SIDE_N) unflatten_cut(m, c, number, shape, n, with);
    else if (n) sn_ix_unflatten(m, number, shape, n, with);
    return n;
}

uint32_t sn_contraction_axes(sn_axis *axes, sn_ix *with, sn_module *m, const sn_contraction *c,
                             const sn_contraction_place *place) {
    uint32_t n = spread(axes, with, m, c, SN_SIDE_BATCH, place->batch);
    int64_t each = c->group ? c->m / c->group : 0;
    sn_ix member = each > 1 ? sn_ix_divc(m, place->row, each) : place->row;
    for (uint32_t i = 0; i < n && c->group; i++)
        if (sn_axis_eq(axes[i], sn_stmt_axis(m, c->outer.at[c->grouped])))
            with[i] = sn_ix_add(m, sn_ix_scale(m, with[i], c->group), member);
    n += spread(axes + n, with + n, m, c, SN_SIDE_M, each > 1 ? sn_ix_modc(m, place->row, each) : place->row);
    n += spread(axes + n, with + n, m, c, SN_SIDE_N, place->column);
    return n + spread(axes + n, with + n, m, c, -1, place->step);
}

sn_val sn_contraction_put(sn_pass_ctx *cx, sn_cursor at, const sn_contraction *c, const sn_contraction_operand *o,
                          const sn_contraction_place *place) {
    sn_contraction_copier copier;
    sn_contraction_copier_start(&copier, cx, at, cx->m->vals.count);
    copier.n = sn_contraction_axes(copier.axes, copier.with, cx->m, c, place);
    return sn_contraction_copy(&copier, o->value);
}
