/* verify_headers.c: the invariants L30 and L32 of Loop IR, about what the header of a scheduled kernel says of its loops. The other ones are
 * in verify.c, whose head has the list; they hold when this runs.
 */
#include "ir/loop/access.h"

static bool has_extent(const sn_module *m, sn_stmt s, int64_t *n) {
    return sn_ix_is_const(m, sn_axis_get(m, sn_stmt_get(m, s)->axis)->extent, n);
}

/* All blocks of such a kernel run at once. */
static sn_status check_teams(sn_module *m, sn_kern k, const char *where) {
    const sn_kern_rec *r = sn_kern_get(m, k);
    uint32_t grids = 0, clusters = 0;
    int64_t n;
    if (!r->sched.teams) return SN_OK;
    for (sn_stmt s = r->first; s.i; s = sn_stmt_walk_next(m, s)) {
        grids += sn_is_grid(m, s);
        clusters += sn_stmt_get(m, s)->axis.i && sn_stmt_get(m, s)->kind == SN_AXIS_CLUSTER;
    }
    for (sn_stmt s = r->first; s.i && grids == 1 && clusters; s = sn_stmt_get(m, s)->next)
        if (sn_is_grid(m, s) && has_extent(m, s, &n) && n == r->sched.teams) return SN_OK;
    return sn_fail(m->env, SN_ERROR_VERIFY,
                   "%s: kernel %s: L30: its %u teams are no grid loop of as many iterations around a cluster axis",
                   where, r->name, r->sched.teams);
}

/* As many blocks of each row; one segment of several may be that. */
static sn_status check_abreast(sn_module *m, sn_kern k, const char *where) {
    const sn_kern_rec *r = sn_kern_get(m, k);
    int64_t n;
    if (r->sched.abreast <= 1) return SN_OK;
    for (sn_stmt s = r->first; s.i; s = sn_stmt_get(m, s)->next)
        if (sn_is_grid(m, s) && has_extent(m, s, &n) && n % r->sched.abreast == 0) return SN_OK;
    return sn_fail(m->env, SN_ERROR_VERIFY, "%s: kernel %s: L32: no grid loop has a multiple of abreast=%u iterations",
                   where, r->name, r->sched.abreast);
}

sn_status sn_headers_verify(sn_module *m, const char *where) {
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_kern k = m->kernels.at[i];
        if (!sn_kern_get(m, k)->scheduled) continue;
        SN_TRY(check_teams(m, k, where));
        SN_TRY(check_abreast(m, k, where));
    }
    return SN_OK;
}
