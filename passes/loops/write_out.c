/* write_out.c: short reductions as straight-line code.
 *
 *     %0 = reduce max r in 3 { %1 = load x[4096*r + i]  yield %1 }
 *  -> %1 = load x[i]  %2 = load x[i + 4096]  %3 = max %1, %2  %4 = load x[i + 8192]  %0 = max %3, %4
 *
 * What a thread does in either case; but there are classes for straight-line code alone (tile, brick), whose accesses may lie across each
 * other. The elements are combined in the order of the loop. Of combiners that are one scalar operation. Cost: linear in what is
 * written.
 */
#include "passes/loops/write_out.h"

enum { MOST_STATEMENTS = 64, MOST_RESULTS = 8 };

typedef struct copies {
    sn_val old[MOST_STATEMENTS], new[MOST_STATEMENTS];
    uint32_t n;
} copies;

static sn_val copy_of(const copies *c, sn_val v) {
    for (uint32_t i = 0; i < c->n; i++)
        if (c->old[i].i == v.i) return c->new[i];
    return v;
}

/* Positions that are values of the iteration. */
static void take_copies(sn_module *m, sn_stmt_rec *s, const copies *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        sn_ix with = sn_ix_val(m, c->new[i]);
        if (s->ix.i && sn_ix_uses_vals(m, s->ix)) s->ix = sn_ix_subst_val(m, s->ix, c->old[i], with);
        if (s->bound.i && sn_ix_uses_vals(m, s->bound)) s->bound = sn_ix_subst_val(m, s->bound, c->old[i], with);
    }
}

static bool may_write(sn_chain *chain, const sn_module *m, sn_stmt top, int64_t most) {
    const sn_stmt_rec *r = sn_stmt_get(m, top);
    if (r->op != SN_LOP_REDUCE || r->kind != SN_AXIS_SEQ || !sn_nest_perfect(chain, m, top)) return false;
    int64_t count = sn_chain_count(m, chain);
    if (count < 1 || count > most || r->n_results != r->n_combs || r->n_results > MOST_RESULTS) return false;
    for (uint32_t k = 0; k < r->n_combs; k++)
        if (sn_combs[r->combs[k]].states != 1) return false;
    uint32_t n = 0;
    for (sn_stmt s = sn_stmt_get(m, chain->at[chain->n - 1])->first; s.i; s = sn_next(m, s))
        if (sn_stores(sn_stmt_get(m, s)) || n++ == MOST_STATEMENTS) return false;
    return !sn_is_scan(m, top);
}

bool sn_may_write_out(const sn_module *m, sn_stmt top, int64_t most) {
    sn_chain chain;
    return may_write(&chain, m, top, most);
}

/* One iteration in front of `top`; its yields are combined with those so far. */
static void write_iteration(sn_module *m, sn_stmt top, const sn_chain *chain, int64_t at, sn_val *so_far) {
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix with[SN_MAX_CHAIN];
    copies c = {.n = 0};
    int64_t rest = at;
    sn_cursor end = sn_at_before(m, top);
    for (uint32_t k = chain->n; k-- > 0;) {
        int64_t extent = sn_ix_value(m, sn_stmt_extent(m, chain->at[k]));
        axes[k] = sn_stmt_axis(m, chain->at[k]);
        with[k] = sn_ix_const(m, rest % extent);
        rest /= extent;
    }
    for (sn_stmt s = sn_stmt_get(m, chain->at[chain->n - 1])->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_YIELD) {
            const sn_stmt_rec *of = sn_stmt_get(m, top);
            for (uint32_t k = 0; k < r->n_in; k++) {
                sn_val v = copy_of(&c, r->in[k]);
                so_far[k] = at || of->combs[k] == SN_COMB_SUM
                                ? sn_put_op2(m, end, sn_comb_lops[of->combs[k]], so_far[k], v)
                                : v;
            }
            return;
        }
        sn_stmt copy = sn_stmt_clone(m, end, s);
        sn_stmt_rec *made = sn_stmt_get(m, copy);
        for (uint32_t k = 0; k < made->n_in; k++) made->in[k] = copy_of(&c, made->in[k]);
        take_copies(m, made, &c);
        sn_stmt_subst(m, copy, axes, with, chain->n);
        c.old[c.n] = sn_stmt_get(m, s)->result;
        c.new[c.n++] = sn_stmt_get(m, copy)->result;
    }
}

static void write_nest(sn_module *m, sn_kern k, sn_stmt top) {
    sn_chain chain;
    sn_val results[MOST_RESULTS];
    sn_nest_perfect(&chain, m, top);
    int64_t count = sn_chain_count(m, &chain);
    const sn_stmt_rec *r = sn_stmt_get(m, top);
    for (uint32_t k = 0; k < r->n_results; k++)
        if (r->combs[k] == SN_COMB_SUM) /* of zeros below zero it is zero */
            results[k] = sn_put_const(m, sn_at_before(m, top), sn_val_get(m, sn_result(r, k))->dtype, 0);
    for (int64_t at = 0; at < count; at++) write_iteration(m, top, &chain, at, results);
    for (uint32_t i = 0; i < sn_stmt_get(m, top)->n_results; i++)
        sn_val_replace(m, k, sn_result(sn_stmt_get(m, top), i), results[i]);
    sn_stmt_unlink(m, top);
}

bool sn_write_out(sn_pass_ctx *cx, sn_kern k, int64_t most) {
    sn_module *m = cx->m;
    sn_chain outer, chain;
    bool any = false;
    sn_chain_outer(&outer, m, k);
    sn_stmt body = outer.n ? outer.at[outer.n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s)) {
        if (!sn_lop_has_region(sn_stmt_get(m, s)->op)) continue;
        if (!may_write(&chain, m, s, most)) return false;
        any = true;
    }
    for (sn_stmt s = sn_region_first(m, k, body), next; any && s.i; s = next) {
        next = sn_next(m, s);
        if (sn_lop_has_region(sn_stmt_get(m, s)->op)) write_nest(m, k, s);
    }
    if (!any) return false;
    sn_kern_cse(m, k);
    sn_kern_collect_params(m, k);
    return true;
}

/* Iterations one behind the other, in place of the loop. */
static void write_loop(sn_module *m, sn_stmt s) {
    int64_t extent = sn_ix_value(m, sn_stmt_extent(m, s));
    for (int64_t i = 0; i < extent; i++) {
        sn_stmt copy = sn_stmt_clone(m, sn_at_before(m, s), s);
        sn_axis ax = sn_stmt_axis(m, copy);
        sn_ix at = sn_ix_const(m, i);
        sn_stmt_subst(m, copy, &ax, &at, 1);
        for (sn_stmt t = sn_stmt_get(m, copy)->first, next; t.i; t = next) {
            next = sn_next(m, t);
            sn_stmt_unlink(m, t);
            sn_stmt_insert(m, sn_at_before(m, copy), t);
        }
        sn_stmt_unlink(m, copy);
    }
    sn_stmt_unlink(m, s);
}

void sn_write_loops_out(sn_module *m, sn_kern k, sn_stmt around) {
    for (sn_stmt s = sn_region_first(m, k, around), next; s.i; s = next) {
        next = sn_next(m, s);
        if (sn_stmt_get(m, s)->op != SN_LOP_LOOP) continue;
        sn_write_loops_out(m, k, s);
        write_loop(m, s);
    }
}
