/* copy.c: asynchronous copies from global to shared memory.
 *
 *     %0 = load x[i]   store s[j], %0        with no other use of %0
 *
 * becomes cp.async: no register holds the element, and a thread has as many of them under way as it likes. They are
 * complete at the end of the block.x axis around them, where the thread waits for its own; so that axis must not read the
 * buffer, and nothing may write what is copied. Relies on the pass `sync` for
 * a barrier where another thread reads. Pieces are 4, 8 or 16 bytes; a masked copy fills with zeros.
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

void sn_gen_end_copies(sn_gen *g) {
    if (g->copying) sn_em_call(&g->em, "llvm.nvvm.cp.async.wait.all", NULL, NULL, 0);
    g->copying = false;
}
