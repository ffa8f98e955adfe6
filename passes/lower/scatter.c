/* scatter.c: scatters that combine into few rows. Part of the pass `to-loops`. This is what both devices share, and the kernel of the CPU;
 * scatter_block.c has that of a GPU.
 *
 *     %y = scatter_sum %x, %index, %updates : f32[32, 16]          262144 updates
 *
 *     loop g in 256 : grid {                                       a part: 1024 updates, in their order
 *       s[64 * 16] = 0
 *       loop c in 16 {
 *         loop v in 64 : vector { places[v] = index[..] }             and values, of one element each, that are computed
 *         loop m in 64 { %r = places[m]   loop v in 16 : vector { s[16*%r + v] += updates[16*(1024*g + 64*c + m) + v] } } }
 *       parts[g] = s }
 *     loop i in 32 { loop j in 16 { y[i, j] = x[i, j] + sum p in 256 { parts[p, i, j] } } }
 *
 * Rows that are too many for the cache are added up in parts[g] itself.
 *
 * A part has rows of its own, and more, one of them for updates that go nowhere. How many parts there are follows from
 * sizes alone (base/scatter.c), and each adds up in order: the bits are the same on any number of threads. The pass `decompose` says which
 * scatters come here (decompose_scatter.c); others are sorts. The first kernel is scheduled as it is made. Cost: the
 * updates once, and what the parts have: no more than a quarter of that, unless rows are many beside updates.
 */
#include "passes/base/constants.h"
#include "passes/base/nest.h"
#include "passes/lower/scatter.h"

#include "ir/ops/scalar.h"

enum { VECTOR_BYTES = 32, MOST_WRITTEN = 4, LANES = 8 };

typedef struct parts {
    sn_scattered s;
    int64_t room; /* rows of the sums: a power of two, and one more than there are */
    sn_buf sums, places;
    sn_ix first; /* of the part in `sums` */
    /* Updates of one element that are computed: made by vectors, as places are; none: they are loaded, or are rows. */
    sn_buf values;
    sn_ix slot; /* of the update at hand in both */
} parts;        /* of the CPU */

static const sn_comb COMBS[SN_N_OPS] = {
    [SN_OP_SCATTER_SUM] = SN_COMB_SUM,
    [SN_OP_SCATTER_PROD] = SN_COMB_PROD,
    [SN_OP_SCATTER_MAX] = SN_COMB_MAX,
    [SN_OP_SCATTER_MIN] = SN_COMB_MIN,
};

bool sn_lower_combines(const sn_node_rec *n) {
    return n->op == SN_OP_SCATTER_SUM || n->op == SN_OP_SCATTER_PROD || n->op == SN_OP_SCATTER_MAX ||
           n->op == SN_OP_SCATTER_MIN;
}

sn_ix sn_scattered_loop(sn_scattered *s, const char *name, int64_t extent, sn_axis_kind kind) {
    return sn_open_loop(s->m, &s->lw->at, name, extent, kind);
}

sn_buf sn_scattered_shared(sn_scattered *s, const char *name, sn_dtype dtype, int64_t elements) {
    const char *kernel = sn_kern_get(s->m, s->lw->kern)->name;
    return sn_local_new(s->m, sn_strf(&s->m->arena, "%s_%s", kernel, name), dtype, SN_BUF_SHARED, elements, 1);
}

sn_val sn_scattered_identity(sn_scattered *s) {
    sn_scalar state[2];
    sn_scalar_identity(s->comb, s->dtype, state);
    if (sn_is_float(s->dtype)) return sn_put_const(s->m, s->lw->at, s->dtype, state[0].f);
    return sn_put_const_int(s->m, s->lw->at, s->dtype, state[0].i);
}

sn_val sn_scattered_value(sn_scattered *s, sn_ix e) {
    sn_lower *lw = s->lw, outside = *lw;
    sn_ix index[SN_MAX_RANK];
    lw->memo = NULL, lw->memo_n = lw->memo_cap = 0;
    sn_ix_unflatten(s->m, e, s->type->shape + 1, s->type->rank - 1, index + 1);
    index[0] = s->update;
    sn_val v = sn_put_cast(s->m, lw->at, s->dtype, sn_lower_element(lw, s->updates, index));
    lw->memo = outside.memo, lw->memo_n = outside.memo_n, lw->memo_cap = outside.memo_cap;
    return v;
}

/* The row that the index says, counted from the end where it is negative, and whether there is one (none: there always is): in i32 where it is. */
static sn_val row_and_test(sn_scattered *s, sn_val *inside) {
    sn_module *m = s->m;
    sn_cursor at = s->lw->at;
    sn_ix n = sn_ix_const(m, s->plan.rows);
    sn_val row = sn_lower_element(s->lw, s->index, &s->update);
    *inside = (sn_val){0};
    if (sn_lower_is_inside(s->lw, s->index, n)) return sn_put_cast(m, at, SN_I32, row);
    if (sn_val_get(m, row)->dtype != SN_I32) {
        sn_ix e = sn_lower_from_end(s->lw, row, n);
        *inside = sn_put_in(m, at, e, n);
        return sn_put_cast(m, at, SN_I32, sn_put_index(m, at, SN_I64, e));
    }
    sn_val zero = sn_put_const_int(m, at, SN_I32, 0), rows = sn_put_const_int(m, at, SN_I32, s->plan.rows);
    sn_val wrapped = sn_put_op2(m, at, SN_LOP_ADD, row, rows);
    row = sn_put_op3(m, at, SN_LOP_SELECT, sn_put_op2(m, at, SN_LOP_LT, row, zero), wrapped, row);
    *inside =
        sn_put_op2(m, at, SN_LOP_AND, sn_put_op2(m, at, SN_LOP_GE, row, zero), sn_put_op2(m, at, SN_LOP_LT, row, rows));
    return row;
}

sn_val sn_scattered_row(sn_scattered *s) {
    sn_lower *lw = s->lw;
    sn_val here = {0}, inside;
    sn_lower_guard(lw, &here, s->update, sn_ix_const(s->m, s->plan.count));
    lw->mask = here;
    sn_val row = row_and_test(s, &inside);
    lw->mask = (sn_val){0};
    if (here.i) inside = inside.i ? sn_put_op2(s->m, lw->at, SN_LOP_AND, inside, here) : here;
    if (!inside.i) return row;
    return sn_put_op3(s->m, lw->at, SN_LOP_SELECT, inside, row, sn_put_const_int(s->m, lw->at, SN_I32, s->plan.rows));
}

/* ---- the kernel of the CPU ---- */

typedef void (*for_element)(parts *p, sn_ix e, void *user);

/* Whole vectors, then the rest one by one. */
static void for_elements(parts *p, int64_t n, for_element body, void *user) {
    sn_scattered *s = &p->s;
    int64_t v = VECTOR_BYTES / sn_dtype_bytes(s->dtype), whole = n - n % v;
    sn_cursor outside = s->lw->at;
    if (whole) {
        sn_axis_kind kind = whole / v <= MOST_WRITTEN ? SN_AXIS_UNROLL : SN_AXIS_SEQ;
        sn_ix w = sn_scattered_loop(s, "w", whole / v, kind), lane = sn_scattered_loop(s, "v", v, SN_AXIS_VECTOR);
        body(p, sn_ix_add(s->m, sn_ix_scale(s->m, w, v), lane), user);
        s->lw->at = outside;
    }
    if (whole == n) return;
    sn_ix e = sn_scattered_loop(s, "e", n - whole, n - whole <= MOST_WRITTEN ? SN_AXIS_UNROLL : SN_AXIS_SEQ);
    body(p, sn_ix_addc(s->m, e, whole), user);
    s->lw->at = outside;
}

static void put_identity(parts *p, sn_ix e, void *user) {
    (void)user;
    sn_scattered *s = &p->s;
    bool sum = s->comb == SN_COMB_SUM && sn_is_float(s->dtype);
    sn_val none = sum ? sn_put_const(s->m, s->lw->at, s->dtype, -0.0) : sn_scattered_identity(s);
    sn_put_store(s->m, s->lw->at, p->sums, sn_ix_add(s->m, p->first, e), none);
}

/* Element e of the update goes into the row that starts at *first. */
static void put_update(parts *p, sn_ix e, void *first) {
    sn_scattered *s = &p->s;
    sn_ix at = sn_ix_add(s->m, *(sn_ix *)first, e);
    sn_val v = p->values.i ? sn_put_load(s->m, s->lw->at, p->values, p->slot) : sn_scattered_value(s, e);
    sn_val sum = sn_put_load(s->m, s->lw->at, p->sums, at);
    sn_put_store(s->m, s->lw->at, p->sums, at, sn_put_op2(s->m, s->lw->at, s->combine, sum, v));
}

/* Element e of the sums is one of the part that starts at *first. */
static void put_result(parts *p, sn_ix e, void *first) {
    sn_scattered *s = &p->s;
    sn_val v = sn_put_load(s->m, s->lw->at, p->sums, e);
    sn_put_store(s->m, s->lw->at, s->to, sn_ix_add(s->m, *(sn_ix *)first, e), v);
}

/* A batch of updates from the one at `first` on: where they go, by vectors; then they go there. */
static void put_batch(parts *p, sn_ix first) {
    sn_scattered *s = &p->s;
    sn_lower *lw = s->lw;
    sn_cursor outside = lw->at;
    sn_ix w = sn_scattered_loop(s, "w", s->plan.batch / LANES, SN_AXIS_UNROLL);
    sn_ix lane = sn_scattered_loop(s, "v", LANES, SN_AXIS_VECTOR);
    sn_ix at = sn_ix_add(s->m, sn_ix_scale(s->m, w, LANES), lane);
    s->update = sn_ix_add(s->m, first, at);
    sn_put_store(s->m, lw->at, p->places, at, sn_scattered_row(s));
    if (p->values.i) {
        sn_lower_guard(lw, &lw->mask, s->update, sn_ix_const(s->m, s->plan.count));
        sn_put_store(s->m, lw->at, p->values, at, sn_scattered_value(s, sn_ix_const(s->m, 0)));
        lw->mask = (sn_val){0};
    }
    lw->at = outside;
    sn_ix m = sn_scattered_loop(s, "m", s->plan.batch, SN_AXIS_SEQ);
    p->slot = m;
    s->update = sn_ix_add(s->m, first, m);
    sn_lower_guard(lw, &lw->mask, s->update, sn_ix_const(s->m, s->plan.count));
    sn_ix row = sn_ix_modc(s->m, sn_ix_val(s->m, sn_put_load(s->m, lw->at, p->places, m)), p->room);
    sn_ix start = sn_ix_add(s->m, p->first, sn_ix_scale(s->m, row, s->plan.width));
    for_elements(p, s->plan.width, put_update, &start);
    lw->mask = (sn_val){0};
}

static void put_parts(parts *p) {
    sn_scattered *s = &p->s;
    const sn_scatter_plan *plan = &s->plan;
    for (p->room = 1; p->room <= plan->rows;) p->room *= 2;
    p->sums = plan->in_memory ? s->to : sn_scattered_shared(s, "sums", s->dtype, p->room * plan->width);
    p->places = sn_scattered_shared(s, "places", SN_I32, plan->batch);
    const sn_lower_node *made = &s->lw->nodes[s->updates.i];
    if (plan->width == 1 && !made->realized && made->ops)
        p->values = sn_scattered_shared(s, "values", s->dtype, plan->batch);
    sn_ix g = sn_scattered_loop(s, "g", plan->parts, SN_AXIS_GRID);
    sn_cursor body = s->lw->at;
    sn_ix handed_on = sn_ix_scale(s->m, g, plan->room * plan->width);
    p->first = plan->in_memory ? handed_on : sn_ix_const(s->m, 0);
    for_elements(p, (plan->rows + 1) * plan->width, put_identity, NULL);
    sn_ix c = sn_scattered_loop(s, "c", plan->steps / plan->batch, SN_AXIS_SEQ);
    put_batch(p, sn_ix_add(s->m, sn_ix_scale(s->m, g, plan->steps), sn_ix_scale(s->m, c, plan->batch)));
    s->lw->at = body;
    if (!plan->in_memory) for_elements(p, plan->rows * plan->width, put_result, &handed_on);
}

bool sn_lower_scatter_parts(sn_lower_parts *out, sn_lower *lw, sn_nd x) {
    sn_module *m = lw->m;
    const sn_node_rec *n = sn_node_get(m, x);
    parts p = {.s = {.lw = lw, .m = m, .index = n->in[1], .updates = n->in[2], .comb = COMBS[n->op]}};
    sn_scattered *s = &p.s;
    s->combine = sn_comb_lops[s->comb];
    s->type = &sn_node_get(m, s->updates)->type;
    s->dtype = n->type.dtype;
    int64_t rows = sn_ix_value(m, n->type.shape[0]), count = sn_ix_value(m, s->type->shape[0]);
    int64_t width = sn_ix_value(m, sn_ix_product(m, s->type->shape + 1, s->type->rank - 1));
    const sn_target *target = lw->cx->target;
    if (!sn_scatter_plan_make(&s->plan, target, sn_dtype_bytes(s->dtype), rows, width, count)) return false;
    sn_type type = {.dtype = s->dtype, .rank = 2, .shape = {sn_ix_const(m, s->plan.parts)}};
    *out = (sn_lower_parts){.number = s->plan.parts,
                            .size = s->plan.room * width,
                            .comb = s->comb,
                            .few = !target->is_gpu && s->plan.parts <= SN_SCATTER_APART};
    type.shape[1] = sn_ix_const(m, out->size);
    s->to = out->buf = sn_lower_temp(lw, &type);
    sn_lower_begin(lw);
    if (target->is_gpu) sn_lower_scatter_blocks(s);
    else put_parts(&p);
    sn_kern_get(m, lw->kern)->scheduled = true;
    sn_lower_end(lw, "scatter parts");
    return true;
}
