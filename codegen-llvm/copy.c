/* copy.c: asynchronous copies from global to shared memory.
 *
 *     %0 = load x[i]   store s[j], %0        with no other use of %0
 *
 * becomes cp.async: no register holds the element, and a thread has as many of them under way as it likes. They are
 * complete at the end of the block.x axis around them, where the thread waits for its own; so that axis must not read
 * the buffer, and nothing may write what is copied. Relies on the pass `sync` for a barrier where another thread reads.
 * Pieces are 4, 8 or 16 bytes; a masked copy fills with zeros.
 *
 * Where the next nest has the same loops and each thread reads in iteration u what its own iteration u has copied, the
 * thread waits there, for one iteration at a time: it works on the first elements while the last ones are on their way.
 *
 *     loop x { loop u in 4 { copies; commit_group } }   reduce x { reduce u in 4 { wait_group 3 - u; loads } }
 */
#include "codegen-llvm/gen.h"

#include <math.h>
#include <stdio.h>

static bool is_zero(const sn_module *m, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(m, sn_val_get(m, v)->def);
    return r->op == SN_LOP_CONST && r->f == 0 && !signbit(r->f) && r->i == 0;
}

/* Does the block.x loop around s also read b? What it reads would not be there yet. */
static bool read_at_once(const sn_gen *g, sn_stmt s, sn_buf b) {
    while (s.i && (!sn_stmt_get(g->m, s)->axis.i || sn_stmt_get(g->m, s)->kind != SN_AXIS_BLOCK_X))
        s = sn_stmt_get(g->m, s)->parent;
    sn_stmt end = s.i ? sn_stmt_walk_skip(g->m, s) : s;
    for (sn_stmt t = s; t.i && t.i != end.i; t = sn_stmt_walk_next(g->m, t))
        if (sn_stmt_get(g->m, t)->op == SN_LOP_LOAD && sn_buf_eq(sn_stmt_get(g->m, t)->buf, b)) return true;
    return false;
}

static void count_use(void *user, sn_ix atom) {
    sn_gen *g = user;
    const sn_ix_rec *r = sn_ix_get(g->m, atom);
    if (r->kind == SN_IX_VAL) g->copies[r->id] = 2;
}

/* ---- waiting for one iteration at a time ---- */

enum { MOST_PARTS = 32, MAX_LEVELS = 8 };

typedef struct levels {
    sn_stmt_rec *at[MAX_LEVELS];
    uint32_t n;
} levels;

/* The nest behind `top`, with nothing but values in between; NULL: there is none. */
static sn_stmt_rec *next_nest(const sn_gen *g, const sn_stmt_rec *top) {
    for (sn_stmt s = top->next; s.i;) {
        sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (sn_is_nest(r)) return r;
        if (sn_lop_has_region(r->op) || r->op == SN_LOP_STORE || r->op == SN_LOP_BARRIER) return NULL;
        s = r->next;
    }
    return NULL;
}

/* The loops of a nest from its top to the innermost, if each is all that has a region in the one around it. */
static bool find_levels(const sn_gen *g, levels *out, sn_stmt_rec *top) {
    for (out->n = 0; top;) {
        sn_stmt_rec *inner = NULL;
        if (!sn_is_nest(top) || out->n == MAX_LEVELS) return false;
        out->at[out->n++] = top;
        for (sn_stmt s = top->first; s.i; s = sn_stmt_get(g->m, s)->next) {
            sn_stmt_rec *r = sn_stmt_get(g->m, s);
            if (!sn_lop_has_region(r->op)) continue;
            if (inner) return false;
            inner = r;
        }
        top = inner;
    }
    return out->n > 0;
}

static bool alike(sn_gen *g, const levels *a, const levels *b) {
    for (uint32_t k = 0; k < a->n && a->n == b->n; k++)
        if (a->at[k]->kind != b->at[k]->kind || sn_gen_extent(g, a->at[k]->axis) != sn_gen_extent(g, b->at[k]->axis))
            return false;
    return a->n == b->n;
}

/* Is the element that `use` reads of b the one that the same iteration of `copy` stores? */
static bool same_element(sn_gen *g, const levels *copy, sn_ix made, const levels *use, sn_ix used) {
    sn_axis from[MAX_LEVELS];
    sn_ix to[MAX_LEVELS];
    for (uint32_t k = 0; k < copy->n; k++) {
        from[k] = use->at[k]->axis;
        to[k] = sn_ix_axis(g->m, copy->at[k]->axis);
    }
    return sn_ix_eq(sn_ix_subst(g->m, used, from, to, copy->n), made);
}

/* Do the accesses of `use` to a buffer meet the element that the same iteration of `copy` stores there? */
static bool uses_its_own(sn_gen *g, const levels *copy, const sn_stmt_rec *store, const levels *use) {
    for (uint32_t k = 0; k < use->n; k++)
        for (sn_stmt s = use->at[k]->first; s.i; s = sn_stmt_get(g->m, s)->next) {
            const sn_stmt_rec *r = sn_stmt_get(g->m, s);
            if (!r->buf.i || !sn_buf_eq(r->buf, store->buf)) continue;
            if (k + 1 < use->n || !same_element(g, copy, store->ix, use, r->ix)) return false;
        }
    return true;
}

static bool each_its_own(sn_gen *g, const levels *copy, const levels *use, const uint8_t *copied) {
    for (uint32_t k = 0; k < copy->n; k++)
        for (sn_stmt s = copy->at[k]->first; s.i; s = sn_stmt_get(g->m, s)->next) {
            const sn_stmt_rec *r = sn_stmt_get(g->m, s);
            if (r->op != SN_LOP_STORE || !copied[r->in[0].i]) continue;
            if (k + 1 < copy->n || !uses_its_own(g, copy, r, use)) return false;
        }
    return true;
}

static bool has_copies(const sn_gen *g, const levels *nest, const uint8_t *copied) {
    for (sn_stmt s = nest->at[nest->n - 1]->first; s.i; s = sn_stmt_get(g->m, s)->next)
        if (sn_stmt_get(g->m, s)->op == SN_LOP_STORE && copied[sn_stmt_get(g->m, s)->in[0].i]) return true;
    return false;
}

/* For the block.x loop around copies: the loops right inside it, whose iterations are the parts of both nests. A nest
 * that copies too has parts of its own to make. */
static void find_parts(sn_gen *g, sn_stmt_rec *x, const uint8_t *copied) {
    levels copy, use;
    sn_stmt_rec *top = x, *outer = x->parent.i ? sn_stmt_get(g->m, x->parent) : NULL;
    if (outer && outer->op == SN_LOP_LOOP && outer->kind == SN_AXIS_CLUSTER) top = outer;
    uint32_t level = top == x ? 1 : 2;
    if (sn_gen_extent(g, x->axis) != g->threads_x || !find_levels(g, &copy, top) || level >= copy.n) return;
    int64_t n = sn_gen_extent(g, copy.at[level]->axis);
    sn_axis_kind kind = copy.at[level]->kind;
    if (n < 2 || n > MOST_PARTS || (kind != SN_AXIS_SEQ && kind != SN_AXIS_UNROLL)) return;
    if (!find_levels(g, &use, next_nest(g, top)) || !alike(g, &copy, &use) || has_copies(g, &use, copied)) return;
    if (!each_its_own(g, &copy, &use, copied)) return;
    g->parts[x->axis.i] = SN_GEN_PARTS;
    g->parts[copy.at[level]->axis.i] = SN_GEN_PART_MADE;
    g->parts[use.at[level]->axis.i] = SN_GEN_PART_USED;
}

void sn_gen_part_made(sn_gen *g, sn_axis ax) {
    if (g->copying && g->parts[ax.i] == SN_GEN_PART_MADE)
        sn_em_call(&g->em, "llvm.nvvm.cp.async.commit.group", NULL, NULL, 0);
}

bool sn_gen_waits_for_parts(const sn_gen *g, sn_axis ax) { return g->copying && g->parts[ax.i] == SN_GEN_PART_USED; }

void sn_gen_part_used(sn_gen *g, sn_axis ax, int64_t i, int64_t n) {
    if (!g->copying || g->parts[ax.i] != SN_GEN_PART_USED) return;
    lv rest = sn_em_ci(g->em.cg->i32, n - 1 - i);
    sn_em_call(&g->em, "llvm.nvvm.cp.async.wait.group", NULL, &rest, 1);
    if (i == n - 1) g->copying = false;
}

/* ---- finding copies ---- */

/* copies[value]: 1 exactly for loads that are copied. While counting: the number of uses, 2 for more. */
void sn_gen_find_copies(sn_gen *g) {
    bool any = false;
    for (uint32_t i = 0; i < g->k->locals.n; i++) any |= sn_buf_get(g->m, g->k->locals.at[i])->scope == SN_BUF_SHARED;
    if (!any || !g->gpu || g->em.cg->target->sm < 80 || g->threads_x == 1) return;
    g->copies = SN_NEWN(g->arena, uint8_t, g->m->vals.count);
    for (sn_stmt s = g->k->first; s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        for (uint32_t k = 0; k < r->n_in; k++) g->copies[r->in[k].i] += g->copies[r->in[k].i] < 2;
        if (r->ix.i) sn_ix_walk(g->m, r->ix, count_use, g);
        if (r->bound.i) sn_ix_walk(g->m, r->bound, count_use, g);
    }
    uint8_t *copied = SN_NEWN(g->arena, uint8_t, g->m->vals.count);
    for (sn_stmt s = g->k->first; s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op != SN_LOP_STORE || r->has_mask || sn_buf_get(g->m, r->buf)->scope != SN_BUF_SHARED) continue;
        const sn_stmt_rec *load = sn_stmt_get(g->m, sn_val_get(g->m, r->in[0])->def);
        if (load->op != SN_LOP_LOAD || g->copies[r->in[0].i] != 1 || load->parent.i != r->parent.i) continue;
        if (sn_buf_is_local(sn_buf_get(g->m, load->buf)) || (load->has_mask && !is_zero(g->m, load->in[1]))) continue;
        if (!g->steady[load->buf.i] || read_at_once(g, s, r->buf)) continue;
        copied[r->in[0].i] = 1;
    }
    g->copies = copied;
    g->parts = SN_NEWN(g->arena, uint8_t, g->m->axes.count);
    for (sn_stmt s = g->k->first; s.i; s = sn_stmt_walk_next(g->m, s)) {
        sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op == SN_LOP_LOOP && r->kind == SN_AXIS_BLOCK_X) find_parts(g, r, copied);
    }
}

/* One piece: `bytes` bytes from global p to shared q, or zeros. */
void sn_gen_copy_piece(sn_gen *g, lv q, lv p, uint32_t bytes, lv mask) {
    sn_em *em = &g->em;
    char name[64];
    snprintf(name, sizeof name, "llvm.nvvm.cp.async.%s.shared.global.%u%s", bytes == 16 ? "cg" : "ca", bytes,
             mask ? ".s" : "");
    lv args[3] = {q, p, NULL};
    if (mask) args[2] = em_select(em, mask, sn_em_ci(em->cg->i32, bytes), sn_em_ci(em->cg->i32, 0));
    sn_em_call(em, name, NULL, args, mask ? 3 : 2);
    g->copying = true;
}

void sn_gen_end_copies(sn_gen *g, sn_axis x) {
    if (!g->copying || g->parts[x.i] == SN_GEN_PARTS) return;
    sn_em_call(&g->em, "llvm.nvvm.cp.async.wait.all", NULL, NULL, 0);
    g->copying = false;
}
