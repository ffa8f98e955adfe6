/* pipe.c: loops whose bulk nests run ahead.
 *
 *     loop r in n : seq pipe(3) { F   barrier   U }         F: the nests that fill shared buffers; U: what reads them
 *
 * becomes, with the buffers three times in shared memory, number r mod 3 being that of iteration r,
 *
 *     F(0)  commit_group   F(1)  commit_group
 *     loop r in n { wait_group 1   barrier   F(r + 2)   commit_group   U(r) }
 *
 * Where there is no iteration r + 2, its copies are of no bytes, and store zeros to a stage that nobody reads: without a branch they stand
 * among the instructions of U. Nests that
 * do more than copy have one. Where U has matrix instructions and there are three stages or more, F stands behind it: so the
 * first of them begin sooner, and the last ones are under way while copies are started.
 *
 * An iteration commits one group, which may be empty, so that what iteration r reads is always all but the last one of
 * them. The one barrier does for both directions: behind it all threads have what iteration r reads, and none reads any
 * more what F(r + 2) writes over, which is where iteration r - 1 has read.
 *
 * Where F has loops of its own, since it would be too long to be written out, the first groups are a loop too.
 *
 * GPUs without asynchronous copies run nothing ahead: F stays where it stands. On the host a pipe is an ordinary loop.
 * Relies on L25; what runs ahead takes no values of the loop but its axis.
 */
#include "codegen-llvm/gen.h"

typedef struct pipe {
    sn_stmt_rec *loop;
    sn_stmt barrier;
    uint32_t ahead;
    lv n;
    bool branches; /* nests that fill are not to run for iterations that do not exist */
    bool behind;   /* they stand behind what reads */
    lv *first;     /* by copy: where the buffer is in stage 0 */
} pipe;

static bool is_of(const sn_gen *g, const pipe *p, const sn_copy *c) {
    return c->pipe.i && sn_stmt_get(g->m, c->pipe) == p->loop;
}

/* The buffers of the pipe become those of iteration i. */
static void choose_stage(sn_gen *g, const pipe *p, lv i) {
    sn_em *em = &g->em;
    lv stage = LLVMBuildURem(em->b, i, sn_em_i(em, i, p->loop->pipe), "stage");
    for (uint32_t k = 0; k < g->copied.n; k++) {
        if (!is_of(g, p, &g->copied.at[k])) continue;
        sn_buf b = sn_stmt_get(g->m, g->copied.at[k].store)->buf;
        lv offset = em_imul(em, stage, sn_em_i(em, i, (int64_t)sn_gen_shared_bytes(sn_buf_get(g->m, b))));
        g->memory[b.i] = LLVMBuildInBoundsGEP2(em->b, em->cg->i8, p->first[k], &offset, 1, "");
    }
}

static bool multiplies(const sn_gen *g, const pipe *p) {
    bool found = false;
    for (sn_stmt s = p->loop->first; s.i; s = sn_stmt_get(g->m, s)->next) found |= sn_stmt_get(g->m, s)->mma != 0;
    return found;
}

/* Is there such a statement in a nest that fills? */
static bool any_fills(const sn_gen *g, const pipe *p, bool (*is)(const sn_gen *g, const sn_stmt_rec *s)) {
    for (sn_stmt s = p->loop->first; s.i; s = sn_stmt_get(g->m, s)->next) {
        if (!sn_pipe_fills(g->m, s)) continue;
        sn_stmt end = sn_stmt_walk_skip(g->m, s);
        for (sn_stmt t = s; t.i != end.i; t = sn_stmt_walk_next(g->m, t))
            if (is(g, sn_stmt_get(g->m, t))) return true;
    }
    return false;
}

static bool loads_more(const sn_gen *g, const sn_stmt_rec *s) { return sn_loads(s) && !g->copies[s->result.i]; }
static bool loops(const sn_gen *g, const sn_stmt_rec *s) {
    (void)g;
    return s->op == SN_LOP_LOOP && s->kind == SN_AXIS_SEQ;
}

/* The nests that fill buffers, for iteration i; exists: if there is one. */
static void fill(sn_gen *g, const pipe *p, lv i, lv exists) {
    uint32_t mark = sn_gen_mark(g);
    lv outside = g->axes[p->loop->axis.i];
    sn_em_if branch = {0};
    if (p->branches) branch = sn_em_then(&g->em, exists, "ahead");
    else g->ahead = exists;
    g->axes[p->loop->axis.i] = i;
    choose_stage(g, p, i);
    g->runs_ahead = true;
    for (sn_stmt s = p->loop->first; s.i && g->status == SN_OK; s = sn_stmt_get(g->m, s)->next)
        if (sn_pipe_fills(g->m, s)) g->statement(g, s);
    g->runs_ahead = false;
    g->ahead = NULL;
    if (p->branches) sn_em_end(&g->em, &branch);
    sn_gen_release(g, mark);
    g->axes[p->loop->axis.i] = outside;
    if (g->copying) sn_gen_commit_copies(g);
}

static lv exists(sn_gen *g, const pipe *p, lv i) { return em_icmp(&g->em, LLVMIntSLT, i, p->n); }

static void fill_ahead(sn_gen *g, const pipe *p, const sn_gen_loop *l) {
    lv i = em_iadd(&g->em, l->i, sn_em_i(&g->em, l->i, p->ahead));
    fill(g, p, i, exists(g, p, i));
}

/* So many of the first stages, in a loop, or written out: then all addresses can be computed at once. */
static void fill_first(sn_gen *g, const pipe *p, int64_t n, bool all) {
    sn_gen_loop l;
    bool loop = n > 1 && any_fills(g, p, loops);
    if (loop) sn_gen_loop_begin(g, &l, (sn_axis){0}, sn_em_ci(g->index, 0), sn_em_ci(g->index, n), false);
    for (int64_t k = 0; k < (loop ? 1 : n); k++) {
        lv i = loop ? l.i : sn_em_ci(g->index, k);
        fill(g, p, i, all ? LLVMConstInt(g->em.cg->i1, 1, 0) : exists(g, p, i));
    }
    l.rolled = true;
    if (loop) sn_gen_loop_end(g, &l, NULL, NULL, 0);
}

/* Iterations that there never are have nothing but their groups. */
static void start(sn_gen *g, const pipe *p, sn_range iterations) {
    int64_t n = iterations.hi < 1 ? 1 : iterations.hi < p->ahead ? iterations.hi : p->ahead;
    fill_first(g, p, n, iterations.lo >= n);
    for (; n < p->ahead && g->copying; n++) sn_gen_commit_copies(g);
}

/* What is computed here for another iteration is forgotten, and so is what this one has computed before. */
static void pass_barrier(sn_gen *g, const pipe *p, const sn_gen_loop *l, bool copies) {
    if (copies) sn_gen_wait_copies(g, p->ahead - 1);
    g->statement(g, p->barrier);
    if (!p->ahead) return;
    sn_gen_release(g, l->mark);
    if (!p->behind) fill_ahead(g, p, l);
    choose_stage(g, p, l->i);
}

/* Does the pipe stand in a loop, whose next iteration fills the same stages? */
static bool runs_again(const sn_gen *g, sn_stmt id) {
    for (sn_stmt up = sn_stmt_get(g->m, id)->parent; up.i; up = sn_stmt_get(g->m, up)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, up);
        if (r->op == SN_LOP_LOOP && r->kind == SN_AXIS_SEQ) return true;
    }
    return false;
}

void sn_gen_pipe(sn_gen *g, sn_stmt id) {
    sn_stmt_rec *s = sn_stmt_get(g->m, id);
    sn_ix extent = sn_gen_resolve(g, sn_axis_get(g->m, s->axis)->extent);
    pipe p = {.loop = s, .barrier = sn_pipe_barrier(g->m, id), .n = sn_gen_ix(g, extent)};
    p.ahead = g->copies ? s->pipe - 1 : 0;
    p.first = SN_NEWN(g->arena, lv, g->copied.n);
    for (uint32_t k = 0; k < g->copied.n; k++) p.first[k] = g->memory[sn_stmt_get(g->m, g->copied.at[k].store)->buf.i];
    p.branches = true;
    g->copies_all = true;
    if (p.ahead) start(g, &p, sn_ix_range(g->m, extent));
    bool copies = g->copying;
    p.behind = p.ahead > 1 && multiplies(g, &p);
    p.branches = !p.ahead || !g->copies_all || any_fills(g, &p, loads_more);
    sn_gen_loop l;
    sn_gen_loop_begin(g, &l, s->axis, sn_em_ci(g->index, 0), p.n, sn_ix_range(g->m, extent).lo < 1);
    choose_stage(g, &p, l.i);
    for (sn_stmt t = s->first; t.i && g->status == SN_OK; t = sn_stmt_get(g->m, t)->next) {
        if (t.i == p.barrier.i) pass_barrier(g, &p, &l, copies);
        else if (!p.ahead || !sn_pipe_fills(g->m, t)) g->statement(g, t);
    }
    if (p.behind) {
        sn_gen_release(g, l.mark);
        fill_ahead(g, &p, &l);
    }
    g->copying = false;
    for (uint32_t k = 0; k < g->copied.n; k++) g->memory[sn_stmt_get(g->m, g->copied.at[k].store)->buf.i] = p.first[k];
    sn_gen_loop_end(g, &l, NULL, NULL, 0);
    if (copies && p.ahead && !p.branches && runs_again(g, id)) sn_gen_wait_copies(g, 0); /* those that store zeros */
}
