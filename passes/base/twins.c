/* twins.c: see twins.h. What stands outside of both nests is the same in both; operations are alike when their operands
 * are, loads when their offsets are once the axes have been translated. Cost: linear in the statements of a nest, since
 * what has been found alike is noted. Reads the module only.
 */
#include "passes/base/twins.h"

#include <string.h>

bool sn_twins_extents(const sn_twins *tw) {
    if (tw->one->n != tw->two->n) return false;
    for (uint32_t k = 0; k < tw->one->n; k++)
        if (!sn_ix_eq(sn_stmt_extent(tw->m, tw->one->at[k]), sn_stmt_extent(tw->m, tw->two->at[k]))) return false;
    return true;
}

/* e of `one` in the words of `two`. */
static sn_ix translated(const sn_twins *tw, sn_ix e) {
    sn_axis from[SN_MAX_CHAIN];
    sn_ix to[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < tw->one->n; k++) {
        from[k] = sn_stmt_axis(tw->m, tw->one->at[k]);
        to[k] = sn_ix_axis(tw->m, sn_stmt_axis(tw->m, tw->two->at[k]));
    }
    return e.i ? sn_ix_subst(tw->m, e, from, to, tw->one->n) : e;
}

bool sn_twins_alike(sn_twins *tw, sn_val a, sn_val b) {
    const sn_module *m = tw->m;
    uint64_t twin;
    if (a.i == b.i || (sn_notes_find(&tw->twin, a.i, &twin) && twin == b.i)) return true;
    const sn_stmt_rec *x = sn_stmt_get(m, sn_val_get(m, a)->def), *y = sn_stmt_get(m, sn_val_get(m, b)->def);
    if (x->parent.i != tw->one->at[tw->one->n - 1].i || y->parent.i != tw->two->at[tw->two->n - 1].i) return false;
    if (x->op != y->op || x->dtype != y->dtype || x->n_in != y->n_in || x->has_mask != y->has_mask) return false;
    if (x->op == SN_LOP_CONST && (x->i != y->i || memcmp(&x->f, &y->f, sizeof x->f))) return false;
    if (x->buf.i != y->buf.i || (x->buf.i && sn_kern_stores(m, tw->k, x->buf))) return false;
    if (translated(tw, x->ix).i != y->ix.i || translated(tw, x->bound).i != y->bound.i) return false;
    for (uint32_t k = 0; k < x->n_in; k++)
        if (!sn_twins_alike(tw, x->in[k], y->in[k])) return false;
    sn_notes_set(&tw->twin, a.i, b.i);
    return true;
}
