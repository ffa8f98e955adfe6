/* drop_units.c: the pass `drop-units`: axes of extent 1 go.
 *
 *     loop i in 8 { loop j in 1 { %0 = load x[i + j]  store y[i + j], %0 } }
 *  -> loop i in 8 { %0 = load x[i]  store y[i], %0 }
 *
 * A reduce over one element is that element: its results become what it yields. Always legal; linear.
 */
#include "passes/base/nest.h"

/* Move the region of s in front of s and remove s; a reduce's results are recorded in `schedule`. */
static void unwrap(sn_module *m, sn_stmt s, sn_notes *map) {
    for (sn_stmt t = sn_stmt_get(m, s)->first, next; t.i; t = next) {
        next = sn_next(m, t);
        const sn_stmt_rec *r = sn_stmt_get(m, t), *outer = sn_stmt_get(m, s);
        sn_stmt_unlink(m, t);
        if (r->op != SN_LOP_YIELD) {
            sn_stmt_insert(m, sn_at_before(m, s), t);
            continue;
        }
        for (uint32_t k = 0; k < r->n_in; k++) sn_notes_set(map, outer->result.i + k, sn_val_follow(map, r->in[k]).i);
    }
    sn_stmt_unlink(m, s);
}

typedef struct unit_list {
    sn_stmt *at;
    uint32_t n, cap;
} unit_list;

/* Nests of one iteration; what stands inside or before comes first. */
static void collect_units(unit_list *out, sn_pass_ctx *cx, sn_stmt first) {
    const sn_module *m = cx->m;
    int64_t extent;
    for (sn_stmt s = first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_lop_has_region(r->op)) continue;
        collect_units(out, cx, r->first);
        if (sn_is_nest(r) && sn_ix_is_const(m, sn_stmt_extent(m, s), &extent) && extent == 1)
            SN_PUSH(cx->scratch, out, s);
    }
}

static bool drop_in_kernel(sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    sn_ix zero = sn_ix_const(m, 0);
    unit_list units = {0};
    sn_notes map = {.arena = cx->scratch};
    if (sn_kern_get(m, k)->scheduled) return false;
    collect_units(&units, cx, sn_kern_get(m, k)->first);
    for (uint32_t i = 0; i < units.n; i++) {
        sn_axis ax = sn_stmt_axis(m, units.at[i]);
        sn_stmt_subst(m, units.at[i], &ax, &zero, 1);
        unwrap(m, units.at[i], &map);
    }
    if (units.n) sn_val_replace_all(m, k, &map);
    return units.n > 0;
}

sn_status sn_pass_drop_units(sn_pass_ctx *cx, bool *changed) {
    for (uint32_t i = 0; i < cx->m->kernels.n; i++) *changed |= drop_in_kernel(cx, cx->m->kernels.at[i]);
    return cx->m->env->status;
}
