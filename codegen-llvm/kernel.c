/* kernel.c: one kernel as one LLVM function: signature, blocks and threads, register buffers, attributes.
 *
 * GPU: ptx_kernel void name(one global pointer a parameter; one array by value for a kernel of segments; behind them one
 * more pointer where the kernel keeps memory: kept.c; then tensor maps by value: tensor_map.c); the block number is
 * ctaid.x (or a ticket: posted.c), the thread tid.x, tid.y. Host: void name(ptr params, i64 begin, i64 end): a loop over
 * the blocks begin .. end-1 around the same body, in which block axes are loops. Relies on the verifier having accepted
 * the module, which is the kernel's own and may be added to.
 */
#include "codegen-llvm/gen.h"

#include <stdio.h>
#include <string.h>

/* ---- which buffers stand still ---- */

/* Formals say it. The parameters of a kernel that is no function yet have storages of their own. */
static void find_steady(sn_gen *g) {
    const sn_module *m = g->m;
    g->steady = SN_NEWN(g->arena, bool, m->bufs.count);
    for (uint32_t i = 0; i < g->k->params.n; i++) {
        sn_buf b = g->k->params.at[i];
        sn_buf_scope scope = sn_buf_get(m, b)->scope;
        g->steady[b.i] = scope == SN_BUF_FORMAL ? sn_buf_get(m, b)->invariant : scope != SN_BUF_OUTPUT;
    }
    for (sn_stmt s = sn_stmt_walk_first(m, g->kern); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_STORE) g->steady[r->buf.i] = false;
    }
}

/* ptxas moves loads of what stands still down to where they are used, behind barriers too. In a loop that fills registers in front of its
 * barrier they are to be on their way together: there they are loads like others, of which each stays on its side. Kernels
 * of a class have their own ways of bringing data early (copy.c, ring.c). */
static void find_early(sn_gen *g) {
    const sn_module *m = g->m;
    if (g->k->sched.cls != SN_SCHED_NONE) return;
    for (sn_stmt s = sn_stmt_walk_first(m, g->kern); s.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt loop = sn_stmt_get(m, s)->parent;
        if (sn_stmt_get(m, s)->op != SN_LOP_BARRIER || !loop.i) continue;
        if (sn_stmt_get(m, loop)->kind != SN_AXIS_SEQ) continue;
        bool fills = false;
        for (sn_stmt t = sn_stmt_get(m, loop)->first; !sn_stmt_eq(t, s); t = sn_stmt_walk_next(m, t))
            fills |=
                sn_stmt_get(m, t)->op == SN_LOP_STORE && sn_buf_get(m, sn_stmt_get(m, t)->buf)->scope == SN_BUF_REG;
        for (sn_stmt t = sn_stmt_get(m, loop)->first; fills && !sn_stmt_eq(t, s); t = sn_stmt_walk_next(m, t))
            if (sn_stmt_get(m, t)->op == SN_LOP_LOAD) g->steady[sn_stmt_get(m, t)->buf.i] = false;
    }
}

/* ---- which arrays are one thread's, and which are registers ---- */

/* The innermost loop over threads around s, where nothing but such and blocks is around it; none: it is none, or other loops are. */
static sn_stmt threads_around(const sn_gen *g, sn_stmt s) {
    sn_stmt found = {0};
    for (sn_stmt up = sn_stmt_get(g->m, s)->parent; up.i; up = sn_stmt_get(g->m, up)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, up);
        bool threads = r->kind == SN_AXIS_BLOCK_X || r->kind == SN_AXIS_BLOCK_Y;
        if (threads && !found.i) found = up;
        if (found.i && !threads && r->kind != SN_AXIS_GRID) return (sn_stmt){0};
    }
    return found;
}

/* Is the offset an element of a thread behind those of the threads before it? */
static bool is_behind_threads(sn_gen *g, sn_ix e, int64_t private) {
    sn_ix zero = sn_ix_const(g->m, 0), own = e;
    for (uint32_t i = 0; i < g->thread_axes.n; i++) {
        int64_t by;
        if (!sn_ix_coef(g->m, e, g->thread_axes.at[i].ax, &by) || by % private) return false;
        own = sn_ix_subst(g->m, own, &g->thread_axes.at[i].ax, &zero, 1);
    }
    sn_range range = sn_ix_range(g->m, own);
    return range.lo >= 0 && range.hi < private;
}

/* On the host threads are iterations of a loop: an array that one of them fills and reads may be that of the next, where no loop
 * around them comes again to find what it left. Then it is as small as the thread's part, and stays in the nearest cache. */
static void find_alone(sn_gen *g) {
    g->of_one_thread = SN_NEWN(g->arena, bool, g->m->bufs.count);
    sn_stmt *around = SN_NEWN(g->arena, sn_stmt, g->m->bufs.count);
    bool *shared = SN_NEWN(g->arena, bool, g->m->bufs.count);
    if (g->gpu) return;
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (!sn_is_access(r) || sn_buf_get(g->m, r->buf)->scope != SN_BUF_REG) continue;
        sn_stmt loop = threads_around(g, s);
        shared[r->buf.i] |= !loop.i || (around[r->buf.i].i && around[r->buf.i].i != loop.i);
        shared[r->buf.i] |= !is_behind_threads(g, r->ix, sn_buf_get(g->m, r->buf)->private_size);
        around[r->buf.i] = loop;
    }
    for (uint32_t i = 0; i < g->k->locals.n; i++) {
        sn_buf b = g->k->locals.at[i];
        g->of_one_thread[b.i] = around[b.i].i && !shared[b.i];
    }
}

typedef struct element_query {
    const sn_gen *g;
    const bool *written; /* by sn_axis: its loop may be written out */
    bool threads;        /* those of threads number none */
    bool mark, all;      /* mark the axes; are all of them written out? */
} element_query;

static void note_element(void *user, sn_ix atom) {
    element_query *q = user;
    const sn_ix_rec *r = sn_ix_get(q->g->m, atom);
    for (uint32_t i = 0; i < q->g->thread_axes.n && q->threads; i++)
        if (r->kind == SN_IX_AXIS && q->g->thread_axes.at[i].ax.i == r->id) return;
    bool written = r->kind == SN_IX_AXIS && q->written[r->id];
    q->all &= written;
    if (q->mark && written) q->g->in_registers[r->id] = true;
}

/* Asks about, or marks, the axes that number the elements of b. */
static bool by_written_axes(sn_gen *g, sn_buf b, const bool *written, bool mark) {
    element_query q = {g, written, g->of_one_thread[b.i], mark, true};
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (sn_is_access(r) && sn_buf_eq(r->buf, b)) sn_ix_walk(g->m, r->ix, note_element, &q);
    }
    return q.all;
}

/* On the host a reg buffer is an array. LLVM makes registers of one if all its elements have constant numbers: then an
 * accumulator stays where it is from one iteration of a loop to the next. So where the machine's registers hold an
 * array, the unroll and vector axes that number its elements, if no others do, are written out however long they are. */
static void find_registers(sn_gen *g) {
    const sn_target *t = g->em.cg->target;
    bool *written = SN_NEWN(g->arena, bool, g->m->axes.count);
    g->in_registers = SN_NEWN(g->arena, bool, g->m->axes.count);
    if (g->gpu) return;
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->axis.i) written[r->axis.i] = r->kind == SN_AXIS_UNROLL || r->kind == SN_AXIS_VECTOR;
    }
    for (uint32_t i = 0; i < g->k->locals.n; i++) {
        sn_buf b = g->k->locals.at[i];
        const sn_buf_rec *r = sn_buf_get(g->m, b);
        uint64_t bytes = (uint64_t)r->private_size * sn_dtype_bytes(r->dtype);
        if (r->scope != SN_BUF_REG || bytes > (uint64_t)t->vector_bytes * t->vector_regs) continue;
        if (by_written_axes(g, b, written, false)) by_written_axes(g, b, written, true);
    }
}

/* ---- set-up ---- */

static uint32_t longest_block_axis(sn_gen *g, sn_axis_kind kind) {
    int64_t most = 1, n;
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (!r->axis.i || r->kind != kind) continue;
        n = sn_gen_extent(g, r->axis);
        if (n < 0) n = INT32_MAX; /* symbolic: reported as such by sn_gen_index_width, or as too large */
        if (n > most) most = n;
    }
    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

static sn_status find_sizes(sn_gen *g) {
    g->launch = sn_kern_launch(g->m, g->kern);
    for (uint32_t i = 0; i < g->k->locals.n; i++) {
        const sn_buf_rec *b = sn_buf_get(g->m, g->k->locals.at[i]);
        if (b->scope == SN_BUF_POSTED && !sn_ix_is_const(g->m, b->size, NULL))
            return sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: '%s' has a symbolic size; give it a value first",
                           g->k->name, b->name);
    }
    if (!sn_ix_is_const(g->m, g->gpu ? g->launch.grid : g->launch.parts, &g->grid))
        return sn_fail(g->env, SN_ERROR_UNSUPPORTED,
                       "kernel %s: its grid depends on a symbolic size; give it a value first", g->k->name);
    g->cluster = g->gpu ? g->launch.cluster : 1;
    g->teams = g->gpu && g->cluster > 1 ? g->k->sched.teams : 0;
    if (g->cluster > 1 && !g->teams && g->em.cg->target->sm < 90)
        return sn_fail(g->env, SN_ERROR_TARGET, "kernel %s: a cluster of %u blocks, %s has no clusters", g->k->name,
                       g->cluster, g->em.cg->target->name);
    if (g->cluster > 1) g->grid /= g->cluster; /* grid loops count clusters */
    g->threads_x = g->gpu ? longest_block_axis(g, SN_AXIS_BLOCK_X) : 1;
    g->threads_y = g->gpu ? longest_block_axis(g, SN_AXIS_BLOCK_Y) : 1;
    if (g->gpu && (g->threads_x != g->launch.block_x || g->threads_y != g->launch.block_y))
        return sn_fail(g->env, SN_ERROR_UNSUPPORTED,
                       "kernel %s: the launch has %u x %u threads, its block axes %u x %u", g->k->name,
                       g->launch.block_x, g->launch.block_y, g->threads_x, g->threads_y);
    uint32_t limit = g->em.cg->target->max_threads;
    if (g->gpu && ((uint64_t)g->threads_x * g->threads_y > limit || g->threads_x > limit))
        return sn_fail(g->env, SN_ERROR_TARGET, "kernel %s: a block of %u x %u threads, %s allows %u", g->k->name,
                       g->threads_x, g->threads_y, g->em.cg->target->name, limit);
    return SN_OK;
}

static void allocate_tables(sn_gen *g) {
    g->vals = SN_NEWN(g->arena, lv, g->m->vals.count);
    g->varies = SN_NEWN(g->arena, bool, g->m->vals.count);
    g->known = SN_NEWN(g->arena, uint8_t, g->m->vals.count);
    g->axes = SN_NEWN(g->arena, lv, g->m->axes.count);
    g->memory = SN_NEWN(g->arena, lv, g->m->bufs.count);
    g->registers = SN_NEWN(g->arena, struct sn_gen_registers *, g->m->bufs.count);
    g->prefixes = SN_NEWN(g->arena, lv, g->m->vals.count);
    g->lost = SN_NEWN(g->arena, sn_gen_lost, g->m->vals.count);
    g->mma_holds = SN_NEWN(g->arena, uint32_t, g->m->bufs.count);
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        g->scans |= r->op == SN_LOP_ACCUM;
        bool of_threads = r->kind == SN_AXIS_BLOCK_X || r->kind == SN_AXIS_BLOCK_Y || r->kind == SN_AXIS_CLUSTER;
        if (r->axis.i && of_threads) SN_PUSH(g->arena, &g->thread_axes, ((sn_gen_thread_axis){r->axis, r->kind}));
    }
}

static void attribute(sn_gen *g, const char *name, const char *value) {
    LLVMAttributeRef a =
        LLVMCreateStringAttribute(g->em.cg->cx, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(g->em.fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void enum_attribute(sn_gen *g, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(g->em.fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(g->em.cg->cx, kind, 0));
}

static void new_function(sn_gen *g, LLVMTypeRef *types, uint32_t n) {
    LLVMTypeRef type = LLVMFunctionType(g->em.cg->vd, types, n, 0);
    g->em.fn = LLVMAddFunction(g->em.mod, g->k->name, type);
    enum_attribute(g, "nounwind");
    LLVMPositionBuilderAtEnd(g->em.b, sn_em_block(&g->em, "entry"));
}

/* On the host: is shared memory that of many blocks, too much for the stack? */
static bool is_of_team(const sn_gen *g) { return !g->gpu && g->k->sched.teams; }

/* Each team has its own. */
static void make_team_memory(sn_gen *g) {
    sn_em *em = &g->em;
    for (uint32_t i = 0; i < g->k->locals.n && is_of_team(g); i++) {
        sn_buf b = g->k->locals.at[i];
        const sn_buf_rec *r = sn_buf_get(g->m, b);
        int64_t size;
        if (r->scope != SN_BUF_SHARED || !sn_ix_is_const(g->m, r->size, &size)) continue;
        size = (size * sn_dtype_bytes(r->dtype) + 63) / 64 * 64;
        lv at = em_imul(em, g->block, sn_em_i(em, g->block, size)), all = sn_gen_kept(g, (uint64_t)(size * g->grid));
        g->memory[b.i] = LLVMBuildInBoundsGEP2(em->b, em->cg->i8, all, &at, 1, r->name);
    }
}

/* A reg buffer: on a GPU the elements of one thread, on the host all of them, unless one at a time is there; there shared memory is such an array
 * too. */
static void make_registers(sn_gen *g) {
    enum { STACK = 6 << 20 }; /* of the 8 MB that threads have */
    int64_t bytes = 0;
    for (uint32_t i = 0; i < g->k->locals.n; i++) {
        sn_buf b = g->k->locals.at[i];
        const sn_buf_rec *r = sn_buf_get(g->m, b);
        if (r->scope == SN_BUF_POSTED || (r->scope == SN_BUF_SHARED && (g->gpu || is_of_team(g)))) continue;
        int64_t size = r->private_size;
        if (!g->gpu && !g->of_one_thread[b.i]) sn_ix_is_const(g->m, r->size, &size);
        if (sn_mul_overflow(size, sn_dtype_bytes(r->dtype), &size) || sn_add_overflow(bytes, size, &bytes) ||
            bytes > STACK) {
            g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: its local buffers do not fit in %d MB",
                                g->k->name, STACK >> 20);
            return;
        }
        size /= sn_dtype_bytes(r->dtype);
        LLVMTypeRef type = LLVMArrayType2(sn_math_storage(g->em.cg, r->dtype), (uint64_t)size);
        g->memory[b.i] = LLVMBuildAlloca(g->em.b, type, r->name);
        LLVMSetAlignment(g->memory[b.i], 64);
        if (r->scope == SN_BUF_REG) sn_gen_keep_registers(g, b, size);
    }
    sn_gen_make_posted(g);
}

static void body(sn_gen *g) {
    if (g->segments) sn_gen_segments_body(g);
    else sn_gen_region(g, g->k->first);
}

/* ---- GPU: a warpgroup that copies ---- */

/* Registers go from the warpgroup that copies to those that compute. What all have together stays what it was when the block
 * began, or it waits for ever. Multiples of 8. */
static void share_registers(sn_gen *g, sn_gen_role role) {
    sn_box_share share = sn_box_registers(g->threads_x, g->k->sched.min_blocks);
    if (!g->specific || share.computes == share.all) return;
    char text[64];
    snprintf(text, sizeof text, "setmaxnreg.%s.sync.aligned.u32 %u;", role == SN_GEN_COPIES ? "dec" : "inc",
             role == SN_GEN_COPIES ? SN_BOX_REGS : share.computes);
    sn_em_assembly(&g->em, g->em.cg->vd, text, "~{memory}", NULL, 0);
}

/* The body once for those that compute, and once for the thread that copies. Blocks of a cluster end together: they reach
 * into each other's memory. */
static void two_roles(sn_gen *g) {
    enum { WARP = 32 };
    sn_em *em = &g->em;
    if ((g->threads_y > 1 || g->threads_x % WARP) && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED,
                            "kernel %s: boxes fill memory of %u x %u threads: they have to be whole warps in one row",
                            g->k->name, g->threads_x, g->threads_y);
    LLVMBasicBlockRef computes = sn_em_block(em, "computes"), copies = sn_em_block(em, "copies");
    LLVMBasicBlockRef end = sn_em_block(em, "end");
    uint32_t mark = sn_gen_mark(g);
    lv x = g->thread_x, n = sn_em_i(em, x, g->threads_x);
    LLVMBuildCondBr(em->b, em_icmp(em, LLVMIntULT, x, n), computes, copies);
    LLVMPositionBuilderAtEnd(em->b, computes);
    share_registers(g, SN_GEN_COMPUTES);
    sn_gen_start_rings(g, SN_GEN_COMPUTES);
    body(g);
    sn_gen_end_rings(g);
    sn_gen_order_boxes(g, (sn_stmt){0});
    LLVMBuildBr(em->b, end);
    sn_gen_release(g, mark);
    LLVMPositionBuilderAtEnd(em->b, copies);
    share_registers(g, SN_GEN_COPIES);
    sn_em_if one = sn_em_then(em, em_icmp(em, LLVMIntEQ, x, n), "one");
    sn_gen_start_rings(g, SN_GEN_COPIES);
    body(g);
    sn_em_end(em, &one);
    LLVMBuildBr(em->b, end);
    sn_gen_release(g, mark);
    LLVMPositionBuilderAtEnd(em->b, end);
    g->role = SN_GEN_ALL;
    if (g->cluster <= 1) return;
    sn_em_assembly(em, em->cg->vd, "barrier.cluster.arrive;\n\tbarrier.cluster.wait;", "~{memory}", NULL, 0);
}

/* ---- GPU ---- */

static lv special_register(sn_gen *g, const char *name) {
    lv x = sn_em_call(&g->em, name, NULL, NULL, 0);
    return g->index == g->em.cg->i32 ? x : LLVMBuildZExt(g->em.b, x, g->index, "");
}

static void param_attribute(sn_gen *g, uint32_t i, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(g->em.fn, (LLVMAttributeIndex)(i + 1), LLVMCreateEnumAttribute(g->em.cg->cx, kind, 0));
}

static void name_params(sn_gen *g) {
    for (uint32_t i = 0; i < g->k->params.n; i++) {
        sn_buf b = g->k->params.at[i];
        lv p = LLVMGetParam(g->em.fn, i);
        LLVMSetValueName2(p, sn_buf_get(g->m, b)->name, strlen(sn_buf_get(g->m, b)->name));
        LLVMSetParamAlignment(p, sn_buf_get(g->m, b)->align);
        if (sn_buf_get(g->m, b)->noalias) param_attribute(g, i, "noalias");
        g->memory[b.i] = p;
    }
}

/* Barrier objects and tensor maps are made ready while the kernels before this one end. */
static void prepare_roles(sn_gen *g) {
    sn_gen_prefetch_tensor_maps(g);
    sn_gen_cluster_start(g);
    sn_gen_make_rings(g);
    sn_gen_follow(g);
}

static void gpu_function(sn_gen *g) {
    enum { PTX_KERNEL = 71 }; /* LLVMPTXKernelCallConv */
    uint32_t n = g->segments ? 1 : g->k->params.n;
    LLVMTypeRef *types = SN_NEWN(g->arena, LLVMTypeRef, n + 1 + g->maps.n);
    bool keeps = sn_cg_keeps(g->m, g->kern, true);
    for (uint32_t i = 0; i < n; i++) types[i] = g->segments ? g->em.cg->ptr : g->em.cg->global_ptr;
    types[n] = g->em.cg->global_ptr;
    for (uint32_t i = 0; i < g->maps.n; i++) types[n + keeps + i] = g->em.cg->ptr;
    new_function(g, types, n + keeps + g->maps.n);
    LLVMSetFunctionCallConv(g->em.fn, PTX_KERNEL);
    char size[48];
    snprintf(size, sizeof size, "%u,%u,1", g->threads_x + (g->produces ? SN_BOX_THREADS : 0), g->threads_y);
    attribute(g, "nvvm.reqntid", size);
    /* ptxas takes no notice of a number that cannot be, and says so. Where none is said, it gives threads of a whole program half the registers
     * of what is linked (nvJitLink): with one they are alike. */
    uint32_t blocks = g->k->sched.min_blocks ? g->k->sched.min_blocks : 1,
             most = sn_target_blocks(g->em.cg->target, (uint64_t)g->threads_x * g->threads_y);
    if (most) {
        snprintf(size, sizeof size, "%u", blocks < most ? blocks : most);
        attribute(g, "nvvm.minctasm", size);
    }
    if (g->segments) sn_gen_segments_params(g);
    else name_params(g);
    if (keeps) g->kept = LLVMGetParam(g->em.fn, n);
    sn_gen_tensor_map_params(g, n + keeps);
    make_registers(g);
    if (g->cluster > 1 && !g->teams) {
        snprintf(size, sizeof size, "%u,1,1", g->cluster);
        attribute(g, "nvvm.cluster_dim", size);
    }
    sn_gen_start(g);
    sn_gen_make_copies(g);
    sn_gen_make_shared(g);
    g->block = g->block_number = special_register(g, "llvm.nvvm.read.ptx.sreg.ctaid.x");
    g->thread_x = g->threads_x > 1 ? special_register(g, "llvm.nvvm.read.ptx.sreg.tid.x") : sn_em_ci(g->index, 0);
    g->thread_y = g->threads_y > 1 ? special_register(g, "llvm.nvvm.read.ptx.sreg.tid.y") : sn_em_ci(g->index, 0);
    if (g->produces) prepare_roles(g);
    else sn_gen_cluster_start(g);
    sn_gen_ticket(g);
    if (g->produces) two_roles(g);
    else body(g);
    if (g->teams) sn_gen_team_end(g);
    LLVMBuildRetVoid(g->em.b);
}

/* ---- host ---- */

static lv host_param(sn_gen *g, uint32_t i, const char *name) {
    LLVMTypeRef ptr = g->em.cg->ptr;
    lv at = sn_em_ci(g->em.cg->i64, i);
    lv slot = LLVMBuildInBoundsGEP2(g->em.b, ptr, LLVMGetParam(g->em.fn, 0), &at, 1, "");
    return LLVMBuildLoad2(g->em.b, ptr, slot, name);
}

static void host_function(sn_gen *g) {
    const sn_cg *cg = g->em.cg;
    LLVMTypeRef types[3] = {cg->ptr, cg->i64, cg->i64};
    new_function(g, types, 3);
    if (g->segments) sn_gen_segments_params(g);
    for (uint32_t i = 0; i < g->k->params.n && !g->segments; i++) {
        sn_buf b = g->k->params.at[i];
        g->memory[b.i] = host_param(g, i, sn_buf_get(g->m, b)->name);
    }
    if (sn_cg_keeps(g->m, g->kern, false)) g->kept = host_param(g, g->n_params, "kept");
    make_registers(g);
    g->thread_x = g->thread_y = sn_em_ci(cg->i64, 0);
    sn_gen_loop blocks;
    sn_gen_loop_begin(g, &blocks, (sn_axis){0}, LLVMGetParam(g->em.fn, 1), LLVMGetParam(g->em.fn, 2), true);
    g->block = blocks.i;
    make_team_memory(g);
    body(g);
    sn_gen_loop_end(g, &blocks, NULL, NULL, 0);
    LLVMBuildRetVoid(g->em.b);
}

/* ---- entry ---- */

static sn_status generate(sn_gen *g) {
    SN_TRY(find_sizes(g));
    SN_TRY(sn_gen_index_width(g));
    find_steady(g);
    if (g->gpu) find_early(g);
    sn_gen_segments_prepare(g);
    allocate_tables(g);
    sn_gen_find_boxes(g);
    find_alone(g);
    find_registers(g);
    sn_gen_find_coarse(g);
    if (g->gpu) gpu_function(g);
    else host_function(g);
    SN_TRY(g->status);
    return sn_gen_finish_shared(g);
}

/* On the CPU a call costs little beside the operations that are worth one. GPU code stays whole: a call spills. */
static bool wants_calls(const sn_cg *cg, sn_module *m, sn_kern k) {
    enum { MANY = 96 };
    uint32_t n = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) n++;
    return !cg->target->is_gpu && n > MANY;
}

sn_status sn_cg_kernel(LLVMValueRef *out, sn_cg_needs *needs, sn_cg *cg, LLVMModuleRef mod, sn_module *m, sn_kern k) {
    sn_gen g = {.em = {.cg = cg, .mod = mod, .b = cg->builder, .calls = wants_calls(cg, m, k)},
                .arena = &cg->scratch,
                .env = cg->env,
                .m = m,
                .kern = k,
                .k = sn_kern_get(m, k),
                .n_params = sn_kern_get(m, k)->params.n,
                .gpu = cg->target->is_gpu,
                .statement = sn_gen_statement,
                .status = SN_OK,
                .pick = -1,
                .lanes = 1};
    sn_status status = generate(&g);
    *out = g.em.fn;
    *needs = (sn_cg_needs){.shared_bytes = (uint32_t)g.shared_bytes,
                           .kept_bytes = g.kept_bytes,
                           .maps = g.maps.at,
                           .n_maps = g.maps.n,
                           .ptx = g.ptx,
                           .specific = g.specific,
                           .whole = g.specific || g.boxes.n > 0};
    return status;
}
