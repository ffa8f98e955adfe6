/* own_boxes.c: boxes that store what groups of threads have made, each its own part.
 *
 *     loop x in 256 { .. store results[64*64*(x div 128) + ..] }   barrier              box of 128 lines
 *  -> loop x in 256 { .. }                                          barrier of 128 each  2 boxes of 64 lines
 *
 * Groups give products together, and what one of them stores at the end of its tile the other need not wait for: it has its next
 * products under way by then, and exponentials of one go on under products of the other across tiles.
 *
 * Legality: every element of a group's lines is stored by a thread of the group, and nothing but such boxes stands
 * behind the barrier where it stands. That the memory is read before it is stored over, the group's own barrier says.
 */
#include "codegen-llvm/gen.h"

enum { GROUP = 128 /* threads that give a product together */, LINES = 8 /* that are permuted alike */ };

static sn_stmt block_loop(const sn_gen *g, sn_stmt s) {
    for (s = sn_stmt_get(g->m, s)->parent; s.i; s = sn_stmt_get(g->m, s)->parent)
        if (sn_stmt_get(g->m, s)->op == SN_LOP_LOOP && sn_stmt_get(g->m, s)->kind == SN_AXIS_BLOCK_X) break;
    return s;
}

/* Does the store leave nothing in lines of the box that are another group's? */
static bool is_own(sn_gen *g, const sn_box *box, sn_stmt store, int64_t groups) {
    sn_module *m = g->m;
    sn_stmt loop = block_loop(g, store);
    if (!loop.i) return false;
    int64_t all = box->elements, own = all / groups, step;
    sn_axis x = sn_stmt_get(m, loop)->axis, group = sn_axis_new(m, "group", sn_ix_const(m, groups)),
            thread = sn_axis_new(m, "thread", sn_ix_const(m, GROUP));
    sn_ix with = sn_ix_fma(m, GROUP, sn_ix_axis(m, group), sn_ix_axis(m, thread));
    sn_ix at = sn_ix_subst(m, sn_ix_sub(m, sn_stmt_get(m, store)->ix, box->shared_at), &x, &with, 1);
    if (!sn_ix_coef(m, at, group, &step) || step != own) return false;
    sn_ix rest = sn_ix_modc(m, sn_ix_sub(m, at, sn_ix_scale(m, sn_ix_axis(m, group), own)), all);
    sn_range range = sn_ix_range(m, rest);
    return !sn_ix_uses_axis(m, rest, group) && range.lo >= 0 && range.hi < own;
}

static bool has_own_lines(sn_gen *g, const sn_box *box, int64_t groups) {
    if (box->rank < 2 || box->pixels || box->dims[1].box % (groups * LINES)) return false;
    if (box->elements != box->dims[0].box * box->dims[1].box) return false;
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (sn_stores(r) && sn_buf_eq(r->buf, box->shared) && !is_own(g, box, s, groups)) return false;
    }
    return true;
}

static const sn_gen_box *box_at(const sn_gen *g, sn_stmt s) {
    for (uint32_t i = 0; i < g->boxes.n; i++)
        if (g->boxes.at[i].nest.i == s.i) return &g->boxes.at[i];
    return NULL;
}

/* Does nothing but boxes that store stand behind the barrier? */
static bool boxes_follow(const sn_gen *g, sn_stmt barrier) {
    sn_stmt s = barrier.i ? sn_stmt_get(g->m, barrier)->next : barrier;
    bool boxes = s.i != 0;
    for (; s.i && boxes; s = sn_stmt_get(g->m, s)->next) {
        const sn_gen_box *b = box_at(g, s);
        boxes = b && !b->box.fills;
    }
    return boxes;
}

static bool is_of_pipe(const sn_gen *g, sn_stmt barrier) {
    sn_stmt up = sn_stmt_get(g->m, barrier)->parent;
    return up.i && sn_stmt_get(g->m, up)->pipe && g->feeds[up.i] && sn_pipe_barrier(g->m, up).i == barrier.i;
}

uint32_t sn_gen_own_groups(sn_gen *g) {
    uint32_t groups = g->threads_x / GROUP;
    if (!g->k->sched.turns || !g->produces || !g->stores_boxes || g->cluster > 1 || groups < 2 || g->threads_x % GROUP)
        return 1;
    for (uint32_t i = 0; i < g->boxes.n; i++) {
        const sn_box *box = &g->boxes.at[i].box;
        if (!box->fills && !has_own_lines(g, box, groups)) return 1;
    }
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s)) {
        if (sn_stmt_get(g->m, s)->op != SN_LOP_BARRIER || is_of_pipe(g, s)) continue;
        if (!boxes_follow(g, s)) return 1;
    }
    return groups;
}

lv sn_gen_first_of_own(sn_gen *g) {
    if (g->own_groups < 2) return sn_gen_first_thread(g);
    lv inside = LLVMBuildURem(g->em.b, g->thread_x, sn_em_i(&g->em, g->thread_x, GROUP), "");
    return em_icmp(&g->em, LLVMIntEQ, inside, sn_em_i(&g->em, g->thread_x, 0));
}

lv sn_gen_own_number(sn_gen *g) { return g->own_groups > 1 ? sn_gen_group_number(g, GROUP) : NULL; }

void sn_gen_take_own(sn_gen *g, const sn_box *box, lv group, lv *from, lv *line) {
    sn_em *em = &g->em;
    int64_t lines = box->dims[1].box / g->own_groups, bytes = sn_dtype_bytes(sn_buf_get(g->m, box->shared)->dtype);
    *from = em_iadd(em, *from, em_imul(em, group, sn_gen_c32(g, lines * box->dims[0].box * bytes)));
    *line = em_iadd(em, *line, em_imul(em, group, sn_gen_c32(g, lines)));
}

void sn_gen_own_barrier(sn_gen *g) {
    enum { FIRST = 2 }; /* 0 is that of the block, 1 of those that compute; then those of turns (ring.c) */
    lv group = sn_gen_group_number(g, GROUP);
    lv args[2] = {em_iadd(&g->em, group, sn_gen_c32(g, FIRST + g->own_groups)), sn_gen_c32(g, GROUP)};
    sn_em_call(&g->em, "llvm.nvvm.barrier.cta.sync.aligned.count", NULL, args, 2);
}
