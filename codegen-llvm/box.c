/* box.c: one box: a tensor copy, by the thread that comes here.
 *
 * Into shared memory it counts its bytes at the barrier object of its stage (ring.c); a box that all blocks of a
 * cluster share is copied in parts, each to the memory of all of them. Out of shared memory it is a group of its
 * own; that memory is written again behind a barrier, which waits until it has been read.
 */
#include "codegen-llvm/gen.h"

#include <stdio.h>

static lv word(sn_gen *g, sn_ix e) {
    lv x = sn_gen_ix(g, sn_gen_resolve(g, e));
    return g->index == g->em.cg->i32 ? x : LLVMBuildTrunc(g->em.b, x, g->em.cg->i32, "");
}

/* Where the box begins in shared memory. */
static lv shared_place(sn_gen *g, const sn_box *box) {
    int64_t bytes = sn_dtype_bytes(sn_buf_get(g->m, box->shared)->dtype);
    lv to = sn_gen_shared_address(g, g->memory[box->shared.i]);
    sn_ix at = sn_ix_scale(g->m, sn_gen_resolve(g, box->shared_at), bytes);
    if (sn_ix_is_const(g->m, at, NULL) && sn_ix_range(g->m, at).lo == 0) return to;
    lv x = sn_gen_ix(g, at);
    return em_iadd(&g->em, to, g->index == g->em.cg->i32 ? x : LLVMBuildTrunc(g->em.b, x, g->em.cg->i32, ""));
}

bool sn_gen_is_filled_by_box(const sn_gen *g, sn_buf b) {
    for (uint32_t i = 0; i < g->boxes.n; i++)
        if (g->boxes.at[i].box.fills && sn_buf_eq(g->boxes.at[i].box.shared, b)) return true;
    return false;
}

/* Operands from `at` on as {$2, $3}. */
static void put_list(char *out, size_t size, uint32_t at, uint32_t n) {
    size_t used = 0;
    for (uint32_t k = 0; k < n; k++) used += (size_t)snprintf(out + used, size - used, "%s$%u", k ? ", " : "{", at + k);
    snprintf(out + used, size - used, "}");
}

static void copy(sn_gen *g, const char *text, const char *constraints, lv *args, uint32_t n) {
    sn_em_assembly(&g->em, g->em.cg->vd, text, constraints, args, n);
}

/* Axes that pixels move along with a tap. */
static uint32_t taps_of(const sn_box *box) { return box->pixels ? box->rank - 2 : 0; }

/* `cp.async.bulk.tensor.. [to], [map, {coordinates}], [object], {taps}, blocks`. */
static void fill_text(const sn_gen_box *b, sn_text *text, sn_text *constraints) {
    const sn_box *box = &b->box;
    char list[64];
    put_list(list, sizeof list, 3, box->rank);
    sn_text_printf(
        text, "cp.async.bulk.tensor.%ud.shared::cluster.global%s.mbarrier::complete_tx::bytes%s [$0], [$2, %s], [$1]",
        box->rank, box->pixels ? ".im2col" : "", b->shared ? ".multicast::cluster" : "", list);
    put_list(list, sizeof list, 3 + box->rank, taps_of(box));
    if (box->pixels) sn_text_printf(text, ", %s", list);
    if (b->shared) sn_text_printf(text, ", $%u", 3 + box->rank + taps_of(box));
    sn_text_put(text, ";");
    sn_text_put(constraints, "r,r,l");
    for (uint32_t k = 0; k < box->rank; k++) sn_text_put(constraints, ",r");
    for (uint32_t k = 0; k < taps_of(box) + b->shared; k++) sn_text_put(constraints, ",h");
    sn_text_put(constraints, ",~{memory}");
}

/* Destination, barrier object, map, coordinates, taps, and blocks that get it. */
static void fill(sn_gen *g, const sn_gen_box *b, lv arrives) {
    sn_em *em = &g->em;
    const sn_box *box = &b->box;
    lv args[4 + 2 * SN_BOX_DIMS], to = shared_place(g, box);
    uint32_t n = 3;
    int64_t bytes = sn_dtype_bytes(sn_buf_get(g->m, box->shared)->dtype);
    for (uint32_t k = 0; k < box->rank; k++) args[n++] = word(g, box->dims[k].at);
    if (b->shared) {
        int64_t lines = box->dims[1].box / g->cluster;
        lv rank = g->index == em->cg->i32 ? g->rank : LLVMBuildTrunc(em->b, g->rank, em->cg->i32, "");
        args[4] = em_iadd(em, args[4], em_imul(em, rank, sn_gen_c32(g, lines)));
        to = em_iadd(em, to, em_imul(em, rank, sn_gen_c32(g, lines * box->dims[0].box * bytes)));
    }
    args[0] = to;
    args[1] = arrives;
    args[2] = sn_gen_tensor_map_address(g, b->map);
    for (uint32_t k = 0; k < taps_of(box); k++)
        args[n++] = LLVMBuildTrunc(em->b, word(g, box->dims[1 + k].tap), em->cg->i16, "");
    if (b->shared) args[n++] = sn_em_ci(em->cg->i16, ((int64_t)1 << g->cluster) - 1);
    sn_text text, constraints;
    sn_text_init(&text, g->env);
    sn_text_init(&constraints, g->env);
    fill_text(b, &text, &constraints);
    copy(g, text.s, constraints.s, args, n);
    sn_text_free(&text);
    sn_text_free(&constraints);
}

/* Source, map, coordinates. */
static void store(sn_gen *g, const sn_gen_box *b) {
    sn_em *em = &g->em;
    const sn_box *box = &b->box;
    char list[64], text[256];
    lv args[2 + SN_BOX_DIMS];
    lv group = sn_gen_own_number(g);
    uint32_t mark = sn_gen_mark(g);
    sn_em_if first = sn_em_then(em, sn_gen_first_of_own(g), "first_thread");
    for (uint32_t k = 0; k < box->rank; k++) args[2 + k] = word(g, box->dims[k].at);
    args[0] = shared_place(g, box);
    if (g->own_groups > 1) sn_gen_take_own(g, box, group, &args[0], &args[3]);
    args[1] = sn_gen_tensor_map_address(g, b->map);
    put_list(list, sizeof list, 2, box->rank);
    snprintf(text, sizeof text, "cp.async.bulk.tensor.%ud.global.shared::cta.bulk_group [$1, %s], [$0];", box->rank,
             list);
    static const char *const CONSTRAINTS[SN_BOX_DIMS + 1] = {"",
                                                             "r,l,r,~{memory}",
                                                             "r,l,r,r,~{memory}",
                                                             "r,l,r,r,r,~{memory}",
                                                             "r,l,r,r,r,r,~{memory}",
                                                             "r,l,r,r,r,r,r,~{memory}"};
    copy(g, text, CONSTRAINTS[box->rank], args, 2 + box->rank);
    sn_em_assembly(em, em->cg->vd, "cp.async.bulk.commit_group;", "~{memory}", NULL, 0);
    sn_em_end(em, &first);
    sn_gen_release(g, mark);
}

void sn_gen_copy_box(sn_gen *g, const sn_gen_box *b, lv arrives) {
    if (b->box.fills) fill(g, b, arrives);
    else store(g, b);
}

/* Does the statement store what a box brings to global memory, or is it such a box? */
static bool is_of_results(const sn_gen *g, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, s);
    for (uint32_t i = 0; i < g->boxes.n; i++) {
        const sn_gen_box *b = &g->boxes.at[i];
        if (b->box.fills) continue;
        if (b->nest.i == s.i || (sn_stores(r) && sn_buf_eq(r->buf, b->box.shared))) return true;
    }
    return false;
}

/* Is the statement the loop, or in it? */
static bool is_inside(const sn_gen *g, sn_stmt s, sn_stmt loop) {
    while (s.i && s.i != loop.i) s = sn_stmt_get(g->m, s)->parent;
    return s.i != 0;
}

/* Comes everyone here who comes behind the loop? */
static bool is_behind(const sn_gen *g, sn_stmt s, sn_stmt loop) {
    sn_stmt region = sn_stmt_get(g->m, loop)->parent;
    for (s = sn_stmt_get(g->m, s)->parent; s.i && s.i != region.i; s = sn_stmt_get(g->m, s)->parent)
        if (sn_stmt_get(g->m, s)->op != SN_LOP_LOOP) return false;
    return s.i == region.i;
}

/* A barrier of a pipe that makes no results need not wait for boxes that store those of the tile before: one behind the pipe does. */
static bool waits_later(const sn_gen *g, sn_stmt barrier) {
    sn_stmt loop = sn_stmt_get(g->m, barrier)->parent;
    while (loop.i && !sn_stmt_get(g->m, loop)->pipe) loop = sn_stmt_get(g->m, loop)->parent;
    for (sn_stmt s = loop; s.i; s = sn_stmt_walk_next(g->m, s)) {
        if (is_of_results(g, s)) return false;
        if (sn_stmt_get(g->m, s)->op == SN_LOP_BARRIER && !is_inside(g, s, loop)) return is_behind(g, s, loop);
    }
    return false;
}

void sn_gen_order_boxes(sn_gen *g, sn_stmt barrier) {
    if (g->stores_boxes && !(barrier.i && waits_later(g, barrier))) {
        sn_em_if first = sn_em_then(&g->em, sn_gen_first_of_own(g), "first_thread");
        sn_em_assembly(&g->em, g->em.cg->vd, "cp.async.bulk.wait_group.read 0;", "~{memory}", NULL, 0);
        sn_em_end(&g->em, &first);
    }
    sn_gen_show_stores(g);
}

void sn_gen_show_stores(sn_gen *g) {
    if ((g->stores_boxes || g->prepares) && g->unseen)
        sn_em_assembly(&g->em, g->em.cg->vd, "fence.proxy.async.shared::cta;", "~{memory}", NULL, 0);
    g->unseen = false;
}
