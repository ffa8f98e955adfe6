/* async_copy.c: the pass `async-copy`: which copies to shared memory may come later, and where they are waited for.
 *
 *     loop x in 256 : block.x {
 *       loop u in 4 : unroll {
 *         loop v in 4 : vector { %0 = load x[..]   store s[..], %0 }
 *       }
 *     }
 *     %1 = reduce max x in 256 : block.x { reduce max u in 4 : unroll { reduce max v in 4 : vector { load s[..] } } }
 *  -> loop x in 256 : block.x {
 *       loop u in 4 : unroll bulk { ... }
 *     }
 *     %1 = reduce max x in 256 : block.x { reduce max u in 4 : unroll await { ... } }
 *
 * No register holds what is copied so, and a thread has as many copies under way as it likes. A block.x nest with
 * copies (ir/loop/copies.h) is bulk: the thread waits for its own at the end. Where the nest behind it is like it, and
 * each thread reads in iteration u what its own iteration u has copied, the loop over u is bulk instead, and that of
 * the nest behind awaits: the thread works on the first elements while the last ones are on their way.
 *
 * Legality: what is copied is neither read in the nest nor written by the kernel, and the nest has no barrier; where
 * another thread reads, `sync` has put one behind the nest. Changes marks alone. For GPUs that have such copies. Cost:
 * linear, but for the accesses of a waiting nest times the copies that it waits for.
 */
#include "ir/loop/access.h"
#include "ir/loop/copies.h"
#include "passes/base/nest.h"
#include "passes/schedule/base/constants.h"

enum { MOST_PARTS = 32 };

/* ---- bulk ---- */

static bool has_barrier(const sn_module *m, sn_stmt nest) {
    sn_stmt end = sn_stmt_walk_skip(m, nest);
    for (sn_stmt s = nest; s.i != end.i; s = sn_stmt_walk_next(m, s))
        if (sn_lops[sn_stmt_get(m, s)->op].syncs) return true;
    return false;
}

static bool mark_bulk(sn_module *m, const sn_copy_list *copies) {
    bool changed = false;
    for (uint32_t i = 0; i < copies->n; i++) {
        const sn_copy *c = &copies->at[i];
        if (!c->threads.i) continue; /* a box */
        sn_stmt_rec *threads = sn_stmt_get(m, c->threads);
        if (c->bulk.i || threads->bulk || sn_ix_range(m, sn_stmt_extent(m, c->threads)).hi < 2) continue;
        if (has_barrier(m, c->threads)) continue;
        threads->bulk = changed = true;
    }
    return changed;
}

/* ---- await ---- */

/* Do the accesses of `use` to the buffer meet the element that the same iteration of the copy stores there? */
static bool uses_its_own(sn_module *m, const sn_copy_nest *copy, const sn_stmt_rec *store, const sn_copy_nest *use) {
    for (uint32_t k = 0; k < use->n; k++)
        for (sn_stmt s = sn_stmt_get(m, use->at[k])->first; s.i; s = sn_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if (!r->buf.i || !sn_buf_eq(r->buf, store->buf)) continue;
            if (k + 1 < use->n) return false;
            if (!sn_ix_eq(sn_ix_over(m, r->ix, use->at, copy->at, use->n), store->ix)) return false;
        }
    return true;
}

static bool each_its_own(sn_module *m, const sn_copy_nest *copy, const sn_copy_nest *use, const sn_copy_list *copies,
                         sn_stmt threads) {
    for (uint32_t i = 0; i < copies->n; i++) {
        const sn_stmt_rec *store = sn_stmt_get(m, copies->at[i].store);
        if (copies->at[i].threads.i != threads.i) continue;
        if (store->parent.i != copy->at[copy->n - 1].i || !uses_its_own(m, copy, store, use)) return false;
    }
    return true;
}

/* The loop right inside the axis of threads, if its iterations are the parts of both nests; none: there is none. */
static sn_stmt find_parts(sn_module *m, const sn_copy_list *copies, sn_stmt threads) {
    const sn_stmt none = {0};
    sn_copy_nest copy, use;
    uint32_t level = 0;
    int64_t n;
    if (!sn_copy_nests(&copy, &use, m, threads)) return none;
    while (copy.at[level].i != threads.i) level++;
    if (++level == copy.n || !sn_ix_is_const(m, sn_stmt_extent(m, copy.at[level]), &n)) return none;
    sn_axis_kind kind = sn_stmt_get(m, copy.at[level])->kind;
    if (n < 2 || n > MOST_PARTS || (kind != SN_AXIS_SEQ && kind != SN_AXIS_UNROLL)) return none;
    return each_its_own(m, &copy, &use, copies, threads) ? copy.at[level] : none;
}

static void mark_parts(sn_pass_ctx *cx, sn_kern k, const sn_copy_list *copies) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < copies->n; i++) {
        if (!copies->at[i].threads.i) continue;
        sn_stmt_rec *threads = sn_stmt_get(m, copies->at[i].threads);
        sn_stmt part = threads->bulk ? find_parts(m, copies, copies->at[i].threads) : (sn_stmt){0};
        if (!part.i) continue;
        sn_stmt_get(m, sn_copy_awaits(m, part))->await = true;
        threads->bulk = false;
        sn_stmt_get(m, part)->bulk = true;
        sn_remark(cx, sn_kern_get(m, k)->name, "what is copied to '%s' is used while it comes",
                  sn_buf_get(m, sn_stmt_get(m, copies->at[i].store)->buf)->name);
    }
}

sn_status sn_pass_async_copy(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (!cx->target || !cx->target->is_gpu || cx->target->sm < SN_ASYNC_SM) return SN_OK;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_kern k = m->kernels.at[i];
        sn_copy_list copies;
        sn_kern_copies(&copies, m, k, cx->scratch);
        if (!mark_bulk(m, &copies)) continue;
        mark_parts(cx, k, &copies);
        *changed = true;
    }
    return m->env->status;
}
