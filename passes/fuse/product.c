/* product.c: what may merge with a matrix product: only what leaves it one.
 *
 *     k0: loop i { loop j { %0 = reduce sum r in 512 { x(i, r) * w(j, r) }   store t[..], %0 } }
 *     k1: loop i { loop j { %0 = reduce sum r in 512 { h(i, r) * u(j, r) }   load t[..]   add   tanh   store y[..] } }
 *  -> one nest of two sums of one length: class contract takes it, and counts fewer cycles than for both. Had the sums different
 *     lengths, no class would keep their operands where several elements of the result use them: k0 and k1 stay.
 *
 *     k0: schedule library   loop i { loop j { %0 = reduce sum r { .. }   store t[..], %0 } }
 *     k1:                    loop i { loop j { load t[..]   load b[j]   add   max 0   store y[..] } }
 *  -> k0: schedule library   loop i { loop j { %0 = reduce sum r { .. }   load b[j]   add   max 0   store y[..] } }
 *
 * What has no reduction goes behind a product as it is, or behind an attention, with which nothing else merges; and
 * sums of different lengths never make one. All else is found out on copies: they are merged, and whoever does
 * products is asked: class contract for how long they take, and the library where a header leaves a kernel to it.
 * Nothing else here knows what either can do. A sum whose operands no two results share (of one row or column) is no
 * product here: every class reads them as fast as memory gives them. Cost: of a copy linear in both kernels and in
 * the values of the module, and a choice of tiles.
 */
#include "passes/fuse/fuse.h"

#include "passes/schedule/products/contraction.h"
#include "passes/schedule/choose.h"

int64_t sn_fuse_steps(const sn_module *m, sn_kern k) {
    sn_chain outer, nest;
    sn_stmt top = {0};
    sn_chain_outer(&outer, m, k);
    for (sn_stmt s = sn_region_first(m, k, outer.n ? outer.at[outer.n - 1] : top); s.i; s = sn_next(m, s)) {
        if (!sn_lop_has_region(sn_stmt_get(m, s)->op)) continue;
        if (top.i || sn_stmt_get(m, s)->op != SN_LOP_REDUCE) return -1;
        top = s;
    }
    if (!top.i) return 0;
    return sn_nest_perfect(&nest, m, top) ? sn_chain_count(m, &nest) : -1;
}

sn_status sn_fuse_count_product(double *cycles, sn_pass_ctx *cx, sn_kern k) {
    sn_contraction c;
    const char *why_not;
    *cycles = 0;
    if (!sn_contraction_find(&c, &why_not, cx, k) || c.m < 2 || c.n < 2) return SN_OK;
    return sn_schedule_count(cycles, cx, k, SN_SCHED_CONTRACT);
}

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
    sn_fuse_forward(cx, a);
    drop_stores(m, a, gone, n);
    sn_kern_dead_code(m, a);
    sn_kern_cse(m, a);
    sn_kern_collect_params(m, a);
}

sn_kern sn_fuse_try(sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_sched *header, const sn_buf *gone, uint32_t n) {
    sn_module *m = cx->m;
    sn_fuse_match mt;
    sn_access_list in_a, in_b;
    a = sn_kern_clone(m, a);
    b = sn_kern_clone(m, b);
    sn_access_find_all(&in_a, m, cx->scratch, a);
    sn_access_find_all(&in_b, m, cx->scratch, b);
    if (!sn_fuse_find(&mt, cx, a, b, &in_a, &in_b)) return (sn_kern){0};
    sn_kern_get(m, a)->sched = *header;
    merge_copies(cx, a, b, &mt, gone, n);
    return a;
}
