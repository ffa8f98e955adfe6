/* write_parts.c: the pass `write-parts`: parts of a concatenation that share intermediates are stored one behind the
 * other, before `fuse`.
 *
 *     k0: loop j in 65536 { .. store t[j], %0 }
 *     k1: loop i in 3 { loop j in 65536 {
 *           %1 = load t[j]  %2 = mul %1, a[j]  %3 = div b[j], %1  %4 = sub %1, c[j]
 *           store y[65536*i + j], select(in i, 1; %2; select(in i - 1, 1; %3; %4)) } }
 *  -> k1: loop j in 65536 { %1 = load t[j]  store y[j], %1 * a[j]  store y[j + 65536], b[j] / %1  store y[j + 131072], %1 - c[j] }
 *
 * Planes of a lattice, components of a field, columns of points: results with a short axis, each iteration of which takes a part of its
 * own, of what an earlier kernel has made for all of them. As a loop over parts that kernel and this one have different loops, so that
 * all that parts share goes through memory, and every part is computed, or tested for, in each iteration. Written out, the loops are those
 * of the kernel in front, and `fuse` makes one of both; tests of the part are decided (simplify-index), and what parts share is there once.
 *
 * Kernels of one short axis, whose code is straight, of which a test decides what an iteration wants (needed.c), and
 * which load what a kernel with as many iterations as the other loops have stores. A concatenation of what is in memory
 * anyway stays: its parts are read and written one by one. On a GPU parts along any axis but the last, which threads have
 * side by side, and where the other axes fill the device. Legal: iterations of the outer loops are independent. Cost:
 * linear in statements and in what is written.
 */
#include "passes/loops/needed.h"
#include "passes/loops/write_out.h"
#include "passes/schedule/base/figures.h"

enum { MOST_PARTS = 32 };

typedef struct parts {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_users users;
    int64_t *iterations; /* of the outer loops of each kernel, by position; -1: sizes are not numbers */
} parts;

/* Does the kernel at `at` load what one of its section made, that many iterations for the whole of it? */
static bool shares(const parts *p, uint32_t at, int64_t rows) {
    const sn_module *m = p->m;
    sn_kern k = m->kernels.at[at];
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_LOAD || sn_buf_get(m, r->buf)->scope != SN_BUF_TEMP) continue;
        uint32_t from = sn_users_storer(&p->users, r->buf, at);
        if (from == UINT32_MAX || p->iterations[from] != rows) continue;
        if (sn_kern_is_free(sn_kern_get(m, m->kernels.at[from])) &&
            sn_kern_get(m, m->kernels.at[from])->section == sn_kern_get(m, k)->section)
            return true;
    }
    return false;
}

/* Statements of the body when the loop is written out, and in all iterations before; 0: no test decides what an iteration wants, or the code
 * is not straight. */
static int64_t written(int64_t *before, const parts *p, sn_stmt loop, sn_stmt innermost) {
    sn_module *m = p->m;
    sn_notes needed = {.arena = p->cx->scratch};
    int64_t n = 0, count = 0, extent = sn_ix_value(m, sn_stmt_extent(m, loop));
    uint64_t wanted;
    for (sn_stmt s = sn_stmt_get(m, innermost)->first; s.i; s = sn_next(m, s), count++)
        if (sn_lop_has_region(sn_stmt_get(m, s)->op) || sn_stmt_get(m, s)->op == SN_LOP_ACCUM) return 0;
    sn_needed_find(&needed, p->cx, loop, innermost);
    bool decides = false;
    for (sn_stmt s = sn_stmt_get(m, innermost)->first; s.i; s = sn_next(m, s)) {
        if (!sn_notes_find(&needed, s.i, &wanted)) continue;
        n += (int64_t)wanted;
        decides |= sn_stmt_get(m, s)->op == SN_LOP_LOAD && (int64_t)wanted < extent;
    }
    *before = count * extent;
    return decides ? n : 0;
}

/* The loop becomes its iterations, inside of all others. */
static void write_loop_out(sn_module *m, sn_kern k, const sn_chain *outer, uint32_t at) {
    uint32_t order[SN_MAX_CHAIN];
    for (uint32_t i = 0; i < outer->n; i++) order[i] = i < at ? i : i + 1 < outer->n ? i + 1 : at;
    sn_chain_permute(m, outer, order);
    sn_write_loops_out(m, k, outer->at[outer->n - 2]);
    sn_kern_cse(m, k);
    sn_kern_collect_params(m, k);
}

/* Lanes along the last of the other loops. */
static bool has_lanes(const parts *p, sn_kern k, const sn_chain *outer, const int64_t *extents, uint32_t at) {
    if (p->cx->target->is_gpu) return true; /* the last loop stays */
    uint32_t along = at + 1 < outer->n ? outer->n - 1 : outer->n - 2, bytes = 0;
    for (sn_stmt s = sn_stmt_walk_first(p->m, k); s.i; s = sn_stmt_walk_next(p->m, s))
        if (sn_is_access(sn_stmt_get(p->m, s)))
            sn_schedule_smaller(&bytes, sn_dtype_bytes(sn_buf_get(p->m, sn_stmt_get(p->m, s)->buf)->dtype));
    return extents[along] >= 2 * sn_host_widest(p->cx, k, bytes);
}

/* On a GPU: is it filled by the other loops, by vectors of elements? */
static bool has_threads(const parts *p, int64_t rows) {
    enum { LANES = 4 };
    return !p->cx->target->is_gpu || rows >= LANES * SN_DEVICE_ROWS;
}

static bool write_kernel(parts *p, uint32_t at) {
    sn_module *m = p->m;
    sn_kern k = m->kernels.at[at];
    sn_chain outer;
    int64_t extents[SN_MAX_CHAIN];
    if (!sn_kern_is_free(sn_kern_get(m, k)) || p->iterations[at] < 1) return false;
    sn_chain_outer(&outer, m, k);
    if (outer.n < 2 || !sn_chain_extents(m, &outer, extents)) return false;
    for (uint32_t i = 0; i < outer.n; i++) {
        int64_t most = i + 1 < outer.n ? MOST_PARTS : p->cx->target->is_gpu ? 0 : SN_MOST_APART;
        if (extents[i] < 2 || extents[i] > most || !has_lanes(p, k, &outer, extents, i)) continue;
        if (!has_threads(p, p->iterations[at] / extents[i])) continue;
        int64_t before, n = written(&before, p, outer.at[i], outer.at[outer.n - 1]);
        if (!n || n > SN_WRITTEN_PARTS) continue;
        if (2 * n > before && !shares(p, at, p->iterations[at] / extents[i])) continue;
        write_loop_out(m, k, &outer, i);
        sn_remark(p->cx, sn_kern_get(m, k)->name, "parts written out: %lld, %lld statements", (long long)extents[i],
                  (long long)n);
        p->iterations[at] /= extents[i];
        return true;
    }
    return false;
}

sn_status sn_pass_write_parts(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    uint32_t n = m->kernels.n;
    parts p = {.cx = cx, .m = m, .iterations = SN_NEWN(cx->scratch, int64_t, n + 1)};
    sn_users_find(&p.users, m, cx->scratch);
    for (uint32_t i = 0; i < n; i++) {
        sn_chain outer;
        sn_chain_outer(&outer, m, m->kernels.at[i]);
        p.iterations[i] = sn_chain_count(m, &outer);
    }
    for (uint32_t i = 0; i < n; i++) *changed |= write_kernel(&p, i);
    return m->env->status;
}
