/* contraction_copy.c: values of a matrix product anew, at another place: see contraction.h. What a value is made of comes
 * with it; values that the copier knows already are taken as they are.
 *
 * Relies on contraction.c: nothing that an operand or the rest of the body is made of has a region but the reduction, and
 * the results of that are known.
 */
#include "passes/schedule/products/contraction.h"

void sn_contraction_copier_start(sn_contraction_copier *out, sn_pass_ctx *cx, sn_cursor at, uint32_t n_vals) {
    *out = (sn_contraction_copier){.m = cx->m, .at = at, .n_vals = n_vals, .became = {.arena = cx->scratch}};
}

void sn_contraction_becomes(sn_contraction_copier *p, sn_val v, sn_val now) { sn_notes_set(&p->became, v.i, now.i); }

static void copy_atom(void *user, sn_ix atom) {
    sn_contraction_copier *p = user;
    const sn_ix_rec *r = sn_ix_get(p->m, atom);
    if (r->kind != SN_IX_VAL) return;
    sn_ix e = p->e; /* values inside the value's own index come first */
    sn_val v = {r->id}, now = sn_contraction_copy(p, v);
    p->e = sn_ix_subst_val(p->m, e, v, sn_ix_val(p->m, now));
}

sn_ix sn_contraction_copy_ix(sn_contraction_copier *p, sn_ix e) {
    if (!e.i) return e;
    p->e = sn_ix_subst(p->m, e, p->axes, p->with, p->n);
    sn_ix_walk(p->m, e, copy_atom, p);
    return p->e;
}

/* Only where the mask holds. */
static sn_val copy_load(sn_contraction_copier *p, const sn_stmt_rec *r) {
    sn_val mask = p->mask, otherwise;
    if (r->has_mask) {
        sn_val own = sn_contraction_copy(p, r->in[0]);
        mask = mask.i ? sn_put_op2(p->m, p->at, SN_LOP_AND, own, mask) : own;
        otherwise = sn_contraction_copy(p, r->in[1]);
    } else {
        otherwise = sn_put_const(p->m, p->at, r->dtype, 0);
    }
    return sn_put_load_masked(p->m, p->at, r->buf, sn_contraction_copy_ix(p, r->ix), mask, otherwise);
}

static sn_val copy_statement(sn_contraction_copier *p, const sn_stmt_rec *r) {
    sn_val in[4];
    SN_ASSERT(r->n_in <= SN_COUNT(in) && !sn_lop_has_region(r->op));
    for (uint32_t i = 0; i < r->n_in; i++) in[i] = sn_contraction_copy(p, r->in[i]);
    sn_stmt_rec fields = {.op = r->op,
                          .dtype = r->dtype,
                          .in = in,
                          .n_in = r->n_in,
                          .has_mask = r->has_mask,
                          .buf = r->buf,
                          .ix = sn_contraction_copy_ix(p, r->ix),
                          .bound = sn_contraction_copy_ix(p, r->bound),
                          .f = r->f,
                          .i = r->i};
    return sn_stmt_get(p->m, sn_put_stmt(p->m, p->at, &fields, NULL))->result;
}

sn_val sn_contraction_copy(sn_contraction_copier *p, sn_val v) {
    uint64_t now;
    if (v.i >= p->n_vals) return v;
    if (sn_notes_find(&p->became, v.i, &now)) return (sn_val){(uint32_t)now};
    const sn_stmt_rec *r = sn_stmt_get(p->m, sn_val_get(p->m, v)->def);
    bool masks = r->op == SN_LOP_LOAD && p->mask.i;
    sn_val copy = masks ? copy_load(p, r) : copy_statement(p, r);
    sn_contraction_becomes(p, v, copy);
    return copy;
}

void sn_contraction_copy_store(sn_contraction_copier *p, const sn_stmt_rec *store, sn_val where) {
    sn_val x = sn_contraction_copy(p, store->in[0]), own = sn_stmt_mask(store);
    sn_ix e = sn_contraction_copy_ix(p, store->ix);
    if (own.i) own = sn_contraction_copy(p, own);
    sn_val both = own.i && where.i ? sn_put_op2(p->m, p->at, SN_LOP_AND, own, where) : own.i ? own : where;
    if (both.i) sn_put_store_masked(p->m, p->at, store->buf, e, x, both);
    else sn_put_store(p->m, p->at, store->buf, e, x);
}
