/* ring.c: pipes whose copies are boxes: a warp of their own copies, the others compute.
 *
 *     loop k in n : seq pipe(4) { boxes   barrier   U }
 *
 * becomes, with the buffers four times in shared memory and two barrier objects (mbarrier) for each of these stages,
 *
 *     one thread that copies:   loop k { wait until stage is empty   expect so many bytes   boxes }
 *     all others:               loop k { wait until stage is full    U   say that it is empty }
 *
 * A kernel with such pipes is made twice, once for each role: what has no box inside is nothing to the thread that
 * copies, and boxes that fill are nothing to the others. So the copies of the next tile begin while this one's
 * results are stored. Stages are counted on from one run of the pipe to the next; a pipe in a pipe has its own. In U
 * instructions may be under way that read the stage (mma.c); then it is empty one iteration later.
 *
 * Where the last statement of an iteration is a product that other statements neither wait for nor share operands
 * with, it is late:
 *
 *     loop k { S = a * b(k)   U   P = ..   acc += P * c(k) }
 *  -> S = a * b(0)   U   P = ..   loop k from 1 { S = a * b(k)   acc += P * c(k - 1)   U   P = .. }   acc += P * c(n - 1)
 *
 * so that threads have something to do while it runs. What it reads has barrier objects of its own.
 *
 * A box that is the same for all blocks of a cluster is copied once for all of them, a part by each. Then a stage is
 * empty when all of the cluster are done with it.
 */
#include "codegen-llvm/gen.h"
#include "ir/loop/access.h"

#include <float.h>
#include <math.h>

/* ---- which boxes there are ---- */

/* Do the blocks of a cluster all come to the box? */
static bool all_come(sn_gen *g, sn_stmt nest) {
    for (sn_stmt s = sn_stmt_get(g->m, nest)->parent; s.i; s = sn_stmt_get(g->m, s)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        for (uint32_t i = 0; i < g->thread_axes.n && r->op == SN_LOP_IF; i++)
            if (sn_ix_uses_axis(g->m, r->ix, g->thread_axes.at[i].ax) || sn_ix_uses_vals(g->m, r->ix)) return false;
    }
    return true;
}

static bool depends_on_rank(sn_gen *g, const sn_box *box) {
    for (uint32_t i = 0; i < g->thread_axes.n; i++)
        for (uint32_t k = 0; k < box->rank; k++)
            if (g->thread_axes.at[i].kind == SN_AXIS_CLUSTER &&
                sn_ix_uses_axis(g->m, box->dims[k].at, g->thread_axes.at[i].ax))
                return true;
    return false;
}

/* Lines of the box that each block of the cluster copies for all: whole groups of the swizzle. */
static bool can_share(sn_gen *g, const sn_box *box) {
    enum { LINES = 8 };
    return g->cluster > 1 && box->fills && box->rank > 1 && !box->pixels && !depends_on_rank(g, box) &&
           box->dims[1].box % (g->cluster * LINES) == 0;
}

static uint32_t param_of(const sn_gen *g, sn_buf b) {
    uint32_t i = 0;
    while (!sn_buf_eq(g->k->params.at[i], b)) i++;
    return i;
}

/* The register that a load goes to and nowhere else, element by element; none: it goes elsewhere. */
static sn_buf goes_to(sn_gen *g, const sn_stmt_rec *load) {
    const sn_stmt_rec *store = load->next.i ? sn_stmt_get(g->m, load->next) : NULL;
    bool copies = store && store->op == SN_LOP_STORE && store->in[0].i == load->result.i && !store->next.i;
    return copies && sn_buf_get(g->m, store->buf)->scope == SN_BUF_REG ? store->buf : (sn_buf){0};
}

/* Do products of tf32 alone read the buffer, or fragments that are copies of it? Then boxes round what they bring,
 * which instructions would cut off. */
static bool is_tf32(sn_gen *g, sn_buf shared) {
    bool tf32 = false;
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op != SN_LOP_LOAD || !sn_buf_eq(r->buf, shared)) continue;
        sn_stmt up = r->parent;
        while (up.i && !sn_stmt_get(g->m, up)->mma) up = sn_stmt_get(g->m, up)->parent;
        sn_buf copy = up.i ? (sn_buf){0} : goes_to(g, r);
        tf32 = up.i ? sn_stmt_get(g->m, up)->mma == SN_MMA_WGMMA_TF32 : copy.i && is_tf32(g, copy);
        if (!tf32) return false;
    }
    return tf32;
}

/* Where the last pixel of an axis stands, counted from its last element. */
static void walk_along(sn_tensor_map *map, const sn_box *box) {
    map->pixels = box->pixels != 0;
    for (uint32_t k = 1; map->pixels && k + 1 < box->rank; k++) {
        const sn_box_dim *d = &box->dims[k];
        map->low[k - 1] = (int32_t)d->low;
        map->high[k - 1] = (int32_t)(d->low + (d->count - 1) * d->step + 1 - d->size);
        map->steps[k - 1] = (uint32_t)d->step;
    }
}

static void add_box(sn_gen *g, sn_stmt nest) {
    const char *why;
    sn_gen_box b = {.nest = nest};
    if (!sn_box_find(&b.box, &why, g->m, nest)) return; /* the verifier has refused it */
    b.shared = can_share(g, &b.box) && all_come(g, nest);
    SN_PUSH(g->arena, &g->boxes, b);
}

static void make_map(sn_gen *g, sn_gen_box *b) {
    const sn_box *box = &b->box;
    const sn_buf_rec *shared = sn_buf_get(g->m, box->shared);
    int64_t bytes = sn_dtype_bytes(shared->dtype);
    sn_tensor_map map = {.param = param_of(g, box->global),
                         .offset = box->offset * bytes,
                         .dtype = shared->dtype,
                         .tf32 = box->fills && is_tf32(g, box->shared),
                         .rank = box->rank,
                         .swizzle = shared->swizzle};
    for (uint32_t k = 0; k < box->rank; k++) {
        map.dims[k] = box->dims[k].size;
        map.box[k] = (uint32_t)box->dims[k].box;
        if (k) map.strides[k - 1] = box->dims[k].stride * bytes;
    }
    walk_along(&map, box);
    if (b->shared) map.box[1] /= g->cluster;
    if (!box->fills && g->own_groups > 1) map.box[1] /= g->own_groups;
    b->map = sn_gen_tensor_map(g, &map);
}

static bool is_async(const sn_gen *g, sn_stmt s) { return s.i && sn_mma_is_async((sn_mma)sn_stmt_get(g->m, s)->mma); }

void sn_gen_find_boxes(sn_gen *g) {
    enum { FIRST_SM = 90 };
    if (!g->gpu) return;
    g->mma_nests = SN_NEWN(g->arena, const sn_mma_nest *, g->m->stmts.count);
    g->feeds = SN_NEWN(g->arena, bool, g->m->stmts.count);
    g->idle = SN_NEWN(g->arena, bool, g->m->stmts.count);
    g->clears = SN_NEWN(g->arena, sn_stmt, g->m->stmts.count);
    if (g->em.cg->target->sm < FIRST_SM) return;
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s)) {
        if (is_async(g, s)) sn_gen_needs_specific(g);
        if (!sn_stmt_get(g->m, s)->bulk || !sn_is_box(g->m, s)) continue;
        add_box(g, s);
        if (!g->boxes.n) continue;
        g->stores_boxes |= !g->boxes.at[g->boxes.n - 1].box.fills;
        if (!g->boxes.at[g->boxes.n - 1].box.fills) continue;
        g->produces = true;
        for (sn_stmt up = s; up.i; up = sn_stmt_get(g->m, up)->parent) g->feeds[up.i] = true;
    }
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_mma_nest *n = is_async(g, s) ? sn_gen_mma_nest(g, s) : NULL;
        if (!n) continue;
        g->prepares |=
            (!n->a.in_registers && !sn_gen_is_filled_by_box(g, n->a.buf)) || !sn_gen_is_filled_by_box(g, n->b.buf);
    }
    g->own_groups = sn_gen_own_groups(g);
    for (uint32_t i = 0; i < g->boxes.n; i++) make_map(g, &g->boxes.at[i]);
}

static const sn_gen_box *box_of(const sn_gen *g, sn_stmt nest) {
    for (uint32_t i = 0; i < g->boxes.n; i++)
        if (g->boxes.at[i].nest.i == nest.i) return &g->boxes.at[i];
    return NULL;
}

bool sn_gen_is_box(const sn_gen *g, sn_stmt s) { return g->boxes.n && box_of(g, s); }

/* Does the box fill a buffer of that pipe, in which it stands? */
static bool fills(const sn_gen *g, const sn_gen_box *b, const sn_gen_ring *r) {
    return b->box.fills && sn_stmt_get(g->m, b->nest)->parent.i == r->pipe.i;
}

/* A stage counts those of its pipe. */
void sn_gen_run_box(sn_gen *g, sn_stmt s) {
    lv arrives = NULL;
    for (uint32_t i = 0; i < g->rings.n; i++)
        if (fills(g, box_of(g, s), &g->rings.at[i])) arrives = g->rings.at[i].arrives;
    sn_gen_copy_box(g, box_of(g, s), arrives);
}

bool sn_gen_is_ring(const sn_gen *g, sn_stmt s) { return sn_stmt_get(g->m, s)->pipe && g->produces && g->feeds[s.i]; }

bool sn_gen_skips(const sn_gen *g, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, s);
    if (g->idle[s.i]) return true;
    if (g->role == SN_GEN_COPIES) return !g->feeds[s.i] && (sn_lop_has_region(r->op) || r->n_results == 0);
    if (g->role != SN_GEN_COMPUTES || !g->feeds[s.i] || !r->bulk) return false;
    return sn_gen_is_box(g, s);
}

/* ---- barrier objects ---- */

static lv object(sn_gen *g, lv objects, lv stage) {
    return em_iadd(&g->em, objects, em_imul(&g->em, stage, sn_gen_c32(g, 8)));
}

static uint32_t warps(const sn_gen *g) { return g->threads_x * g->threads_y / 32; }

static bool is_shared(const sn_gen *g, const sn_gen_ring *r) {
    for (uint32_t i = 0; i < g->boxes.n; i++)
        if (g->boxes.at[i].shared && fills(g, &g->boxes.at[i], r)) return true;
    return false;
}

static void init_object(sn_gen *g, lv objects, uint32_t stage, uint32_t arrivals) {
    lv args[2] = {object(g, objects, sn_gen_c32(g, stage)), sn_gen_c32(g, arrivals)};
    sn_em_assembly(&g->em, g->em.cg->vd, "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", args, 2);
}

/* Of all threads, where the function begins. */
static lv variable(sn_gen *g, const char *name) {
    LLVMBuilderRef b = g->em.b;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b), entry = LLVMGetEntryBasicBlock(g->em.fn);
    LLVMPositionBuilder(b, entry, LLVMGetFirstInstruction(entry));
    lv v = LLVMBuildAlloca(b, g->em.cg->i32, name);
    LLVMPositionBuilderAtEnd(b, here);
    return v;
}

/* The registers that the nest sets to 0, all of them: `loop x { loop e { store acc[n*x + e], 0 } }`; none: it is
 * another. */
static sn_buf sums_zeroed(const sn_gen *g, sn_stmt nest) {
    sn_buf none = {0};
    const sn_stmt_rec *x = sn_stmt_get(g->m, nest), *e = x->first.i ? sn_stmt_get(g->m, x->first) : NULL;
    int64_t n;
    if (x->op != SN_LOP_LOOP || x->kind != SN_AXIS_BLOCK_X || !e || e->op != SN_LOP_LOOP || e->next.i) return none;
    const sn_stmt_rec *store = sn_stmt_get(g->m, e->last);
    int64_t step;
    if (store->op != SN_LOP_STORE || store->has_mask || sn_stmt_get(g->m, e->first)->next.i != e->last.i) return none;
    if (!sn_ix_coef(g->m, store->ix, e->axis, &step) || step != 1) return none;
    const sn_stmt_rec *zero = sn_stmt_get(g->m, sn_val_get(g->m, store->in[0])->def);
    const sn_buf_rec *b = sn_buf_get(g->m, store->buf);
    bool is_zero = zero->op == SN_LOP_CONST && zero->f == 0 && !signbit(zero->f) && zero->i == 0;
    bool all = sn_ix_is_const(g->m, sn_axis_get(g->m, e->axis)->extent, &n) && n == b->private_size;
    return is_zero && all && b->scope == SN_BUF_REG ? store->buf : none;
}

/* The first statement from s on that touches the registers, if it is a product; none: it is another. */
static sn_stmt first_product(sn_gen *g, sn_stmt s, sn_buf sums) {
    for (; s.i; s = sn_stmt_get(g->m, s)->next) {
        bool touches = sn_stmt_loads(g->m, s, sums) || sn_stmt_stores(g->m, s, sums);
        if (touches && sn_stmt_get(g->m, s)->mma && sn_gen_mma_nest(g, s)) return s;
        if (touches) break;
    }
    return (sn_stmt){0};
}

/* The nest need not be run if the first product from `behind` on clears its sums itself. */
static void leave_to_product(sn_gen *g, sn_stmt nest, sn_stmt behind, sn_stmt when) {
    sn_buf sums = sums_zeroed(g, nest);
    sn_stmt first = sums.i ? first_product(g, behind, sums) : (sn_stmt){0};
    if (!first.i) return;
    g->idle[nest.i] = true;
    g->clears[first.i] = when;
}

static bool touches_behind(sn_gen *g, sn_stmt nest) {
    sn_buf sums = sums_zeroed(g, nest);
    for (sn_stmt s = sn_stmt_get(g->m, nest)->next; s.i; s = sn_stmt_get(g->m, s)->next)
        if (sn_stmt_loads(g->m, s, sums) || sn_stmt_stores(g->m, s, sums)) return true;
    return false;
}

/* Nests in front of the pipe, inside, and in its `if`s. */
static void find_zeroed(sn_gen *g, sn_stmt pipe) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, pipe);
    for (sn_stmt s = r->prev; s.i && sums_zeroed(g, s).i; s = sn_stmt_get(g->m, s)->prev)
        leave_to_product(g, s, r->first, pipe);
    for (sn_stmt s = r->first; s.i; s = sn_stmt_get(g->m, s)->next) {
        leave_to_product(g, s, sn_stmt_get(g->m, s)->next, s);
        if (sn_stmt_get(g->m, s)->op != SN_LOP_IF) continue;
        for (sn_stmt t = sn_stmt_get(g->m, s)->first; t.i; t = sn_stmt_get(g->m, t)->next)
            if (sums_zeroed(g, t).i && !touches_behind(g, t)) leave_to_product(g, t, sn_stmt_get(g->m, s)->next, s);
    }
}

/* ---- late products ---- */

/* Do statements from s up to `until` touch registers of the product? */
static bool touches(const sn_gen *g, sn_stmt s, sn_stmt until, const sn_mma_nest *n) {
    for (; s.i; s = sn_stmt_get(g->m, s)->next) {
        if (sn_stmt_loads(g->m, s, n->state) || sn_stmt_stores(g->m, s, n->state) || sn_stmt_loads(g->m, s, n->a.buf) ||
            sn_stmt_stores(g->m, s, n->a.buf))
            return true;
        if (s.i == until.i) break;
    }
    return false;
}

/* Is the product the only one that reads its right operand, and does it read nothing else of the pipe? */
static bool reads_alone(const sn_gen *g, sn_stmt pipe, sn_stmt product, const sn_mma_nest *n) {
    bool alone = n->a.in_registers && sn_gen_is_filled_by_box(g, n->b.buf);
    for (sn_stmt s = sn_stmt_get(g->m, pipe)->first; s.i; s = sn_stmt_get(g->m, s)->next)
        alone &= s.i == product.i || !sn_stmt_loads(g->m, s, n->b.buf);
    return alone;
}

static void find_late(sn_gen *g, sn_gen_ring *r) {
    const sn_stmt_rec *p = sn_stmt_get(g->m, r->pipe);
    sn_stmt early = sn_pipe_barrier(g->m, r->pipe), last = p->last;
    while (early.i && !is_async(g, early)) early = sn_stmt_get(g->m, early)->next;
    while (early.i && is_async(g, sn_stmt_get(g->m, early)->next)) early = sn_stmt_get(g->m, early)->next;
    if (!early.i || early.i == last.i || !is_async(g, last)) return;
    const sn_mma_nest *n = sn_gen_mma_nest(g, last);
    if (!n || r->shared || sn_ix_range(g->m, sn_axis_get(g->m, p->axis)->extent).lo < 1) return;
    if (touches(g, p->first, early, n) || !reads_alone(g, r->pipe, last, n)) return;
    for (sn_stmt s = sn_stmt_get(g->m, early)->next; s.i != last.i; s = sn_stmt_get(g->m, s)->next)
        if (is_async(g, s)) return;
    r->late = last;
    r->early = early;
}

/* Does the box bring what the late product reads? */
static bool is_late(const sn_gen *g, const sn_gen_ring *r, const sn_gen_box *b) {
    return r->late.i && sn_stmt_loads(g->m, r->late, b->box.shared);
}

static void add_ring(sn_gen *g, sn_stmt pipe) {
    sn_gen_ring r = {.pipe = pipe, .stages = sn_stmt_get(g->m, pipe)->pipe};
    sn_ix n = sn_axis_get(g->m, sn_stmt_get(g->m, pipe)->axis)->extent;
    if (sn_ix_range(g->m, n).lo > 0) find_zeroed(g, pipe);
    LLVMTypeRef type = LLVMArrayType2(g->em.cg->i64, r.stages);
    r.full = sn_gen_shared_address(g, sn_em_global(&g->em, "sn_full", type, 3, 8));
    r.empty = sn_gen_shared_address(g, sn_em_global(&g->em, "sn_empty", type, 3, 8));
    r.shared = is_shared(g, &r);
    find_late(g, &r);
    if (r.late.i) {
        r.late_full = sn_gen_shared_address(g, sn_em_global(&g->em, "sn_full", type, 3, 8));
        r.late_empty = sn_gen_shared_address(g, sn_em_global(&g->em, "sn_empty", type, 3, 8));
    }
    r.stage = variable(g, "stage");
    r.phase = variable(g, "phase");
    SN_PUSH(g->arena, &g->rings, r);
}

void sn_gen_make_rings(sn_gen *g) {
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s))
        if (sn_stmt_get(g->m, s)->pipe && g->feeds[s.i]) add_ring(g, s);
    sn_em_if first = sn_em_then(&g->em, sn_gen_first_thread(g), "first_thread");
    for (uint32_t i = 0; i < g->rings.n; i++)
        for (uint32_t stage = 0; stage < g->rings.at[i].stages; stage++) {
            const sn_gen_ring *r = &g->rings.at[i];
            init_object(g, r->full, stage, 1);
            init_object(g, r->empty, stage, warps(g) * (r->shared ? g->cluster : 1));
            if (r->late.i) init_object(g, r->late_full, stage, 1), init_object(g, r->late_empty, stage, warps(g));
        }
    sn_em_assembly(&g->em, g->em.cg->vd, "fence.mbarrier_init.release.cluster;", "~{memory}", NULL, 0);
    sn_em_end(&g->em, &first);
    if (g->cluster > 1) sn_gen_cluster_barrier(g);
    else sn_gen_barrier(g);
}

/* One lane of each warp says that it no longer needs the stage, to every block that copies into it. */
static void release_object(sn_gen *g, const sn_gen_ring *r, lv empty, lv stage) {
    sn_em *em = &g->em;
    lv lane = sn_em_call(em, "llvm.nvvm.read.ptx.sreg.laneid", NULL, NULL, 0);
    lv args[3] = {object(g, empty, stage), lane, NULL};
    if (!r->shared) {
        sn_em_assembly(em, em->cg->vd,
                       "{\n\t.reg .pred p;\n\tsetp.eq.u32 p, $1, 0;\n\t"
                       "@p mbarrier.arrive.shared::cta.b64 _, [$0];\n\t}",
                       "r,r,~{memory}", args, 2);
        return;
    }
    sn_em_assembly(em, em->cg->vd,
                   "{\n\t.reg .pred p;\n\t.reg .b32 remote;\n\tsetp.lt.u32 p, $1, $2;\n\t"
                   "@p mapa.shared::cluster.u32 remote, $0, $1;\n\t"
                   "@p mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t}",
                   "r,r,r,~{memory}", (args[2] = sn_gen_c32(g, g->cluster), args), 3);
}

static void release(sn_gen *g, const sn_gen_ring *r, lv stage) { release_object(g, r, r->empty, stage); }

/* ---- the two loops ---- */

static sn_gen_ring *ring_of(sn_gen *g, sn_stmt pipe) {
    uint32_t i = 0;
    while (g->rings.at[i].pipe.i != pipe.i) i++;
    return &g->rings.at[i];
}

/* ---- turns ---- */

enum { GROUP = 128 /* threads that give a product together */ };

/* Of two to three groups of threads one after the other gives its products: they are computed in that order, and the
 * exponentials of one group under the products of the others. */
static bool take_turns(const sn_gen *g) {
    bool late = false;
    for (uint32_t i = 0; i < g->rings.n; i++) late |= g->rings.at[i].late.i != 0;
    return late && g->k->sched.turns && g->threads_x > GROUP;
}

/* The barrier on which group number `group` waits for its turn. */
static void turn(sn_gen *g, const char *how, lv group) {
    enum { FIRST = 2 }; /* 0 is that of the block, 1 of those that compute */
    lv args[2] = {em_iadd(&g->em, group, sn_gen_c32(g, FIRST)), sn_gen_c32(g, 2 * GROUP)};
    sn_em_call(&g->em, how, NULL, args, 2);
}

static void await_turn(sn_gen *g) {
    if (take_turns(g)) turn(g, "llvm.nvvm.barrier.cta.sync.aligned.count", sn_gen_group_number(g, GROUP));
}

static void pass_turn(sn_gen *g) {
    if (!take_turns(g)) return;
    sn_em *em = &g->em;
    lv own = sn_gen_group_number(g, GROUP), last = sn_gen_c32(g, g->threads_x / GROUP - 1);
    lv next = em_select(em, em_icmp(em, LLVMIntEQ, own, last), sn_gen_c32(g, 0), em_iadd(em, own, sn_gen_c32(g, 1)));
    turn(g, "llvm.nvvm.barrier.cta.arrive.aligned.count", next);
}

/* The first group has the first turn, and at the end the last. */
static void first_turn(sn_gen *g, uint32_t group, const char *how) {
    if (!take_turns(g)) return;
    lv own = sn_gen_group_number(g, GROUP);
    sn_em_if one = sn_em_then(&g->em, em_icmp(&g->em, LLVMIntEQ, own, sn_gen_c32(g, group)), "turn");
    turn(g, how, sn_gen_c32(g, 0));
    sn_em_end(&g->em, &one);
}

void sn_gen_end_rings(sn_gen *g) { first_turn(g, 0, "llvm.nvvm.barrier.cta.sync.aligned.count"); }

void sn_gen_start_rings(sn_gen *g, sn_gen_role role) {
    g->role = role;
    for (uint32_t i = 0; i < g->rings.n; i++) {
        LLVMBuildStore(g->em.b, sn_gen_c32(g, 0), g->rings.at[i].stage);
        LLVMBuildStore(g->em.b, sn_gen_c32(g, g->role == SN_GEN_COPIES), g->rings.at[i].phase);
    }
    if (role != SN_GEN_COMPUTES || !take_turns(g)) return;
    first_turn(g, g->threads_x / GROUP - 1, "llvm.nvvm.barrier.cta.arrive.aligned.count");
}

/* Is it the first box of the pipe that fills its buffer? */
static bool is_first(const sn_gen *g, const sn_gen_ring *r, uint32_t k) {
    const sn_gen_box *b = &g->boxes.at[k];
    if (!fills(g, b, r)) return false;
    for (uint32_t i = 0; i < k; i++)
        if (sn_buf_eq(g->boxes.at[i].box.shared, b->box.shared)) return false;
    return true;
}

/* Buffers of the pipe are those of the stage from here on. first: what they were, by box. */
static void choose_stage(sn_gen *g, const sn_gen_ring *r, lv stage, lv *first) {
    for (uint32_t k = 0; k < g->boxes.n; k++) {
        sn_buf buf = g->boxes.at[k].box.shared;
        if (!is_first(g, r, k)) continue;
        first[k] = g->memory[buf.i];
        lv offset = em_imul(&g->em, stage, sn_gen_c32(g, (int64_t)sn_gen_shared_bytes(sn_buf_get(g->m, buf))));
        g->memory[buf.i] = LLVMBuildInBoundsGEP2(g->em.b, g->em.cg->i8, first[k], &offset, 1, "");
    }
}

static void next_stage(sn_gen *g, const sn_gen_ring *r, lv stage, lv phase) {
    sn_em *em = &g->em;
    lv next = em_iadd(em, stage, sn_gen_c32(g, 1)), around = em_icmp(em, LLVMIntEQ, next, sn_gen_c32(g, r->stages));
    LLVMBuildStore(em->b, em_select(em, around, sn_gen_c32(g, 0), next), r->stage);
    LLVMBuildStore(em->b, em_xor(em, phase, LLVMBuildZExt(em->b, around, em->cg->i32, "")), r->phase);
}

static uint32_t stage_bytes(const sn_gen *g, const sn_gen_ring *r, bool late) {
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < g->boxes.n; i++) {
        const sn_gen_box *b = &g->boxes.at[i];
        if (fills(g, b, r) && is_late(g, r, b) == late)
            bytes += (uint32_t)b->box.elements * sn_dtype_bytes(sn_buf_get(g->m, b->box.shared)->dtype);
    }
    return bytes;
}

static void expect(sn_gen *g, sn_gen_ring *r, lv stage, lv phase, bool late) {
    sn_em *em = &g->em;
    sn_gen_wait_object(g, object(g, late ? r->late_empty : r->empty, stage), phase, false);
    lv args[2] = {object(g, late ? r->late_full : r->full, stage), sn_gen_c32(g, stage_bytes(g, r, late))};
    sn_em_assembly(em, em->cg->vd, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}", args, 2);
    r->arrives = args[0];
}

static void copying_iteration(sn_gen *g, sn_gen_ring *r, lv stage, lv phase) {
    expect(g, r, stage, phase, false);
    if (!r->late.i) {
        sn_gen_region(g, sn_stmt_get(g->m, r->pipe)->first);
        return;
    }
    for (int late = 0; late <= 1; late++) {
        if (late) expect(g, r, stage, phase, true);
        for (sn_stmt s = sn_stmt_get(g->m, r->pipe)->first; s.i; s = sn_stmt_get(g->m, s)->next)
            if (sn_gen_is_box(g, s) ? is_late(g, r, box_of(g, s)) == (late != 0) : !late) g->statement(g, s);
    }
}

static lv stage_before(sn_gen *g, const sn_gen_ring *r, lv stage) {
    lv wraps = em_icmp(&g->em, LLVMIntEQ, stage, sn_gen_c32(g, 0));
    return em_select(&g->em, wraps, sn_gen_c32(g, r->stages - 1), em_isub(&g->em, stage, sn_gen_c32(g, 1)));
}

/* The statement behind which no thread and no instruction reads what the pipe brings; none: its stage is read to the
 * end, or that is soon enough. It is not where it is a pipe, which lasts, or where there is no other stage to be
 * filled. */
static sn_stmt last_reader(const sn_gen *g, const sn_gen_ring *r) {
    sn_stmt last = {0};
    bool async = false;
    for (sn_stmt s = sn_pipe_barrier(g->m, r->pipe); s.i; s = sn_stmt_get(g->m, s)->next)
        for (uint32_t k = 0; k < g->boxes.n; k++)
            if (fills(g, &g->boxes.at[k], r) && sn_stmt_loads(g->m, s, g->boxes.at[k].box.shared))
                last = s, async |= is_async(g, s);
    bool soon = last.i && (sn_stmt_get(g->m, last)->pipe || (r->stages == 1 && !async));
    return soon ? last : (sn_stmt){0};
}

static void release_by_warps(sn_gen *g, const sn_gen_ring *r, lv stage) {
    sn_em_assembly(&g->em, g->em.cg->vd, "bar.warp.sync -1;", "~{memory}", NULL, 0);
    release(g, r, stage);
}

/* The stage that instructions under way may still read is the one before. */
static void computing_iteration(sn_gen *g, sn_gen_ring *r, const sn_gen_loop *l, lv stage, lv phase) {
    sn_stmt barrier = sn_pipe_barrier(g->m, r->pipe);
    sn_stmt s = sn_stmt_get(g->m, r->pipe)->first;
    bool in_ring = g->in_ring;
    g->in_ring = true;
    sn_gen_carry_mma(g, r->pipe);
    uint32_t before = g->mma_given;
    for (; s.i != barrier.i; s = sn_stmt_get(g->m, s)->next) g->statement(g, s);
    sn_gen_wait_object(g, object(g, r->full, stage), phase, false);
    sn_stmt last = last_reader(g, r);
    for (s = sn_stmt_get(g->m, s)->next; s.i && g->status == SN_OK; s = sn_stmt_get(g->m, s)->next) {
        g->statement(g, s);
        if (s.i == last.i) release_by_warps(g, r, stage);
    }
    g->in_ring = in_ring;
    if (last.i) return;
    if (g->mma_ring <= g->mma_done) {
        release_by_warps(g, r, stage);
        return;
    }
    sn_gen_wait_mma(g, g->mma_given - before);
    lv zero = sn_em_i(&g->em, l->i, 0);
    uint32_t mark = sn_gen_mark(g);
    sn_em_if later = sn_em_then(&g->em, em_icmp(&g->em, LLVMIntNE, l->i, zero), "later");
    release(g, r, stage_before(g, r, stage));
    sn_em_end(&g->em, &later);
    sn_gen_release(g, mark);
}

/* The iteration before this one, or the last one behind the loop. */
static lv iteration_before(sn_gen *g, const sn_gen_ring *r) {
    sn_axis ax = sn_stmt_get(g->m, r->pipe)->axis;
    lv now = g->axes[ax.i];
    if (!now) now = sn_gen_ix(g, sn_gen_resolve(g, sn_axis_get(g->m, ax)->extent));
    return em_isub(&g->em, now, sn_em_i(&g->em, now, 1));
}

/* The late product of the iteration before the one at `stage`. */
static void put_late(sn_gen *g, sn_gen_ring *r, lv stage, lv phase, const lv *first) {
    sn_axis ax = sn_stmt_get(g->m, r->pipe)->axis;
    lv now = g->axes[ax.i];
    lv before = stage_before(g, r, stage), wraps = em_icmp(&g->em, LLVMIntEQ, stage, sn_gen_c32(g, 0));
    phase = em_xor(&g->em, phase, LLVMBuildZExt(g->em.b, wraps, g->em.cg->i32, ""));
    sn_gen_wait_object(g, object(g, r->late_full, before), phase, false);
    r->holds = object(g, r->late_full, before), r->hold_phase = phase;
    lv *own = SN_NEWN(g->arena, lv, g->boxes.n), *unused = SN_NEWN(g->arena, lv, g->boxes.n);
    for (uint32_t k = 0; k < g->boxes.n; k++) {
        own[k] = g->memory[g->boxes.at[k].box.shared.i];
        if (first[k]) g->memory[g->boxes.at[k].box.shared.i] = first[k];
    }
    choose_stage(g, r, before, unused);
    g->axes[ax.i] = iteration_before(g, r);
    sn_gen_mma(g, r->late);
    g->axes[ax.i] = now;
    for (uint32_t k = g->boxes.n; k-- > 0;)
        if (first[k]) g->memory[g->boxes.at[k].box.shared.i] = own[k];
}

/* Lanes of a warp read by themselves, instructions for all of them. */
static void leave_early(sn_gen *g, const sn_gen_ring *r, lv stage, sn_stmt last) {
    if (last.i == r->early.i) release(g, r, stage);
    else release_by_warps(g, r, stage);
}

/* The last statement that reads what boxes bring for others than the late product. */
static sn_stmt last_early_reader(const sn_gen *g, const sn_gen_ring *r) {
    sn_stmt last = r->early;
    for (sn_stmt s = sn_stmt_get(g->m, r->early)->next; s.i != r->late.i; s = sn_stmt_get(g->m, s)->next)
        for (uint32_t k = 0; k < g->boxes.n; k++) {
            const sn_gen_box *b = &g->boxes.at[k];
            if (fills(g, b, r) && !is_late(g, r, b) && sn_stmt_loads(g->m, s, b->box.shared)) last = s;
        }
    return last;
}

/* Is a number that the statement leaves in a register of rows one that it never is? NULL: it leaves none. */
static lv is_odd(sn_gen *g, sn_stmt s) {
    enum { FEW = 4 /* registers of a thread */ };
    lv odd = NULL;
    for (uint32_t i = 0; i < g->k->locals.n; i++) {
        sn_buf buf = g->k->locals.at[i];
        const sn_buf_rec *b = sn_buf_get(g->m, buf);
        if (b->scope != SN_BUF_REG || b->dtype != SN_F32 || b->private_size > FEW || !sn_stmt_stores(g->m, s, buf))
            continue;
        for (int64_t e = 0; e < b->private_size; e++) {
            lv is = em_equals(&g->em, sn_gen_register(g, buf, e, 1), -FLT_MAX);
            odd = odd ? em_or(&g->em, odd, is) : is;
        }
    }
    return odd;
}

/* ptxas would wait for the late product as soon as it can, in front of what is computed meanwhile, and sums come behind
 * exponentials, had they not a branch to stay before: one that hangs on what `last` leaves, and waits for what has come
 * already. */
static void stay_here(sn_gen *g, const sn_gen_ring *r, sn_stmt last) {
    lv odd = last.i ? is_odd(g, last) : NULL;
    sn_em_if branch = {0};
    if (odd) branch = sn_em_then(&g->em, odd, "stay");
    sn_gen_wait_object(g, r->holds, r->hold_phase, false);
    if (odd) sn_em_end(&g->em, &branch);
}

/* An iteration whose own late product is still to be given when it ends, and that of the one before behind its early
 * ones. first: where buffers begin, by box; NULL: there is no iteration before. */
static void late_iteration(sn_gen *g, sn_gen_ring *r, lv stage, lv phase, const lv *first) {
    sn_stmt barrier = sn_pipe_barrier(g->m, r->pipe), s = sn_stmt_get(g->m, r->pipe)->first;
    sn_stmt last = last_early_reader(g, r);
    uint32_t early = UINT32_MAX, late = UINT32_MAX;
    bool in_ring = g->in_ring, read = false;
    g->in_ring = true;
    for (; s.i != barrier.i; s = sn_stmt_get(g->m, s)->next) g->statement(g, s);
    sn_gen_wait_object(g, object(g, r->full, stage), phase, false);
    await_turn(g);
    for (s = sn_stmt_get(g->m, s)->next; s.i != r->late.i && g->status == SN_OK; s = sn_stmt_get(g->m, s)->next) {
        const sn_stmt_rec *p = sn_stmt_get(g->m, s);
        if (!p->mma && sn_lop_has_region(p->op) && !g->idle[s.i]) {
            if (sn_gen_awaited_mma(g, s) >= late) stay_here(g, r, p->prev);
            sn_gen_settle_mma(g, s);
        }
        if (read && g->mma_done >= early) leave_early(g, r, stage, last), early = UINT32_MAX;
        if (g->mma_done >= late) release_object(g, r, r->late_empty, stage_before(g, r, stage)), late = UINT32_MAX;
        g->statement(g, s);
        read |= s.i == last.i;
        if (s.i != r->early.i) continue;
        early = g->mma_given;
        if (first) put_late(g, r, stage, phase, first), late = g->mma_given;
        pass_turn(g);
    }
    if (g->mma_given > g->mma_done) sn_gen_wait_mma(g, 0);
    if (early != UINT32_MAX) leave_early(g, r, stage, last);
    if (late != UINT32_MAX) release_object(g, r, r->late_empty, stage_before(g, r, stage));
    g->in_ring = in_ring;
}

static lv current(sn_gen *g, lv variable) { return LLVMBuildLoad2(g->em.b, g->em.cg->i32, variable, ""); }

static void leave_stage(sn_gen *g, const sn_gen_ring *r, lv stage, lv phase, const lv *first) {
    next_stage(g, r, stage, phase);
    for (uint32_t k = 0; k < g->boxes.n; k++)
        if (first[k]) g->memory[g->boxes.at[k].box.shared.i] = first[k];
}

/* The pipe for those that compute, with a late product: the first iteration, the others, and the last product. */
static void run_late(sn_gen *g, sn_gen_ring *r, const sn_stmt_rec *s) {
    sn_ix n = sn_gen_resolve(g, sn_axis_get(g->m, s->axis)->extent);
    lv *first = SN_NEWN(g->arena, lv, g->boxes.n);
    lv stage = current(g, r->stage), phase = current(g, r->phase);
    if (g->mma_given > g->mma_done) sn_gen_wait_mma(g, 0);
    choose_stage(g, r, stage, first);
    sn_gen_fix(g, s->axis, 0);
    late_iteration(g, r, stage, phase, NULL);
    sn_gen_unfix(g);
    leave_stage(g, r, stage, phase, first);
    sn_gen_loop l;
    sn_gen_loop_begin(g, &l, s->axis, sn_em_ci(g->index, 1), sn_gen_ix(g, n), sn_ix_range(g->m, n).lo < 2);
    stage = current(g, r->stage), phase = current(g, r->phase);
    choose_stage(g, r, stage, first);
    late_iteration(g, r, stage, phase, first);
    leave_stage(g, r, stage, phase, first);
    sn_gen_loop_end(g, &l, NULL, NULL, 0);
    bool in_ring = g->in_ring;
    g->in_ring = true;
    stage = current(g, r->stage), phase = current(g, r->phase);
    put_late(g, r, stage, phase, first);
    sn_gen_wait_mma(g, 0);
    release_object(g, r, r->late_empty, stage_before(g, r, stage));
    g->in_ring = in_ring;
}

void sn_gen_run_ring(sn_gen *g, sn_stmt pipe) {
    sn_stmt_rec *s = sn_stmt_get(g->m, pipe);
    sn_gen_ring *r = ring_of(g, pipe);
    lv *first = SN_NEWN(g->arena, lv, g->boxes.n);
    if (r->late.i && g->role == SN_GEN_COMPUTES) {
        run_late(g, r, s);
        return;
    }
    sn_ix n = sn_gen_resolve(g, sn_axis_get(g->m, s->axis)->extent);
    bool may_be_empty = sn_ix_range(g->m, n).lo < 1;
    sn_gen_loop l;
    if (sn_gen_extent(g, s->axis) == 0) return;
    sn_gen_loop_begin(g, &l, s->axis, sn_em_ci(g->index, 0), sn_gen_ix(g, n), may_be_empty);
    lv stage = current(g, r->stage), phase = current(g, r->phase);
    choose_stage(g, r, stage, first);
    if (g->role == SN_GEN_COPIES) copying_iteration(g, r, stage, phase);
    else computing_iteration(g, r, &l, stage, phase);
    leave_stage(g, r, stage, phase, first);
    bool reads = g->role == SN_GEN_COMPUTES && g->mma_ring > g->mma_done;
    sn_gen_loop_end(g, &l, NULL, NULL, 0);
    if (!reads) return;
    sn_gen_wait_mma(g, 0);
    sn_em_if ran;
    if (may_be_empty) ran = sn_em_then(&g->em, em_icmp(&g->em, LLVMIntSGT, l.n, sn_em_i(&g->em, l.n, 0)), "ran");
    release(g, r, stage_before(g, r, current(g, r->stage)));
    if (may_be_empty) sn_em_end(&g->em, &ran);
}
