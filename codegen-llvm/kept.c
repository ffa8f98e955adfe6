/* kept.c: memory of a kernel that lasts from one run to the next: counters of last blocks, tickets, posted elements,
 * what blocks of a team tell each other.
 *
 * It belongs to the state of the runs and not to the code, so that one kernel may run several times at once: the caller
 * of a launch gives kept_bytes of memory that were zero before its first run, as one more parameter behind those of the
 * buffers. Kernels that keep nothing do not have it. On the host posted buffers need it, and the rows of teams, as
 * room that would be too much for the stack.
 */
#include "codegen-llvm/gen.h"
#include "codegen-llvm/llvm.h"

/* Of a kernel of several segments those follow each other, and nothing follows them. */
static bool has_last_block(const sn_module *m, sn_kern k) {
    bool segments = sn_kern_segments(m, k) > 1;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_is_grid(m, s) && r->next.i && (r->parent.i || !segments)) return true;
    }
    return false;
}

static bool has_cluster(const sn_module *m, sn_kern k) {
    int64_t n;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!r->axis.i || r->kind != SN_AXIS_CLUSTER) continue;
        return sn_ix_is_const(m, sn_axis_get(m, r->axis)->extent, &n) && n > 1;
    }
    return false;
}

static bool has_shared(const sn_module *m, sn_kern k) {
    const sn_buf_list *locals = &sn_kern_get(m, k)->locals;
    for (uint32_t i = 0; i < locals->n; i++)
        if (sn_buf_get(m, locals->at[i])->scope == SN_BUF_SHARED) return true;
    return false;
}

bool sn_cg_keeps(const sn_module *m, sn_kern k, bool gpu) {
    return sn_kern_posts(m, k) || (sn_kern_get(m, k)->sched.teams && (gpu ? has_cluster(m, k) : has_shared(m, k))) ||
           (gpu && has_last_block(m, k));
}

lv sn_gen_kept(sn_gen *g, uint64_t bytes) {
    enum { PIECE = 16 };
    sn_em *em = &g->em;
    lv at = sn_em_ci(em->cg->i64, (int64_t)g->kept_bytes);
    g->kept_bytes += (bytes + PIECE - 1) / PIECE * PIECE;
    return LLVMBuildInBoundsGEP2(em->b, em->cg->i8, g->kept, &at, 1, "");
}
