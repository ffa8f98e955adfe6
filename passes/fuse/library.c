/* library.c: what may merge with a kernel that a library runs: only what the library does too.
 *
 *     k0: schedule library   loop i { loop j { %0 = reduce sum r { .. }   store t[..], %0 } }
 *     k1:                    loop i { loop j { load t[..]   load b[j]   add   max 0   store y[..] } }
 *  -> k0: schedule library   loop i { loop j { %0 = reduce sum r { .. }   load b[j]   add   max 0   store y[..] } }
 *
 * What else would merge stays a kernel of its own. Found out on copies: they are merged, and the library is asked. Nothing
 * else here knows what a library can do. Cost: for pairs with such a kernel alone, linear in both and in the values of the
 * module.
 */
#include "passes/fuse/fuse.h"

static void drop_stores(sn_module *m, sn_kern k, const sn_buf *gone, uint32_t n) {
    for (sn_stmt s = sn_stmt_walk_first(m, k), next; s.i; s = next) {
        next = sn_stmt_walk_next(m, s);
        for (uint32_t i = 0; i < n; i++)
            if (sn_stores(sn_stmt_get(m, s)) && sn_buf_eq(sn_stmt_get(m, s)->buf, gone[i])) {
                sn_stmt_unlink(m, s);
                break;
            }
    }
}

/* As the pass does with what it merges. */
static void merge_copies(sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_fuse_match *mt, const sn_buf *gone,
                         uint32_t n) {
    sn_module *m = cx->m;
    sn_fuse_merge(cx, a, b, mt);
    uint32_t masked = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, a); s.i; s = sn_stmt_walk_next(m, s)) masked += sn_stmt_get(m, s)->has_mask;
    sn_fuse_forward(cx, a, SN_NEWN(cx->scratch, sn_val, m->vals.count + masked));
    drop_stores(m, a, gone, n);
    sn_kern_dead_code(m, a);
    sn_kern_cse(m, a);
    sn_kern_collect_params(m, a);
}

bool sn_fuse_fits_library(sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_sched *header, const sn_buf *gone,
                          uint32_t n) {
    sn_module *m = cx->m;
    const char *why_not;
    sn_fuse_match mt;
    sn_access_list in_a, in_b;
    a = sn_kern_clone(m, a);
    b = sn_kern_clone(m, b);
    sn_access_find_all(&in_a, m, cx->scratch, a);
    sn_access_find_all(&in_b, m, cx->scratch, b);
    if (!sn_fuse_find(&mt, cx, a, b, &in_a, &in_b)) return false;
    sn_kern_get(m, a)->sched = *header;
    merge_copies(cx, a, b, &mt, gone, n);
    return sn_pass_library_runs(&why_not, cx, a);
}
