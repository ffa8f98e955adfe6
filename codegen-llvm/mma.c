/* mma.c: nests that a matrix instruction stands for (ir/loop/mma.h). Those of a warp are in mma_sync.c.
 *
 * wgmma: four warps give one instruction for a block of 64 rows and all columns of their group; both operands are in shared
 * memory, named by descriptors: address / 16, distances between groups of 8 lines, and how lines are permuted (PTX ISA,
 * "matrix descriptor"). Registers of the nest are operands and results of the instruction, and only of it until it has been
 * waited for: between two of them stands nothing that touches them.
 */
#include "codegen-llvm/gen.h"

#include <stdio.h>
#include <string.h>

enum { GROUP = 8 /* lines */, IN = 3 /* operands before the registers */ };

static void put(sn_gen *g, const char *text) { sn_em_assembly(&g->em, g->em.cg->vd, text, "~{memory}", NULL, 0); }

/* ---- descriptors ---- */

static int64_t line_bytes(const sn_mma_nest *n, const sn_mma_operand *o) {
    return o->width * sn_dtype_bytes(sn_mmas[n->mma].operand);
}

/* What of a descriptor does not depend on the address. Lines of 128, 64 and 32 bytes are permuted by modes 1, 2 and 3. */
static uint64_t layout(const sn_mma_nest *n, const sn_mma_operand *o) {
    uint64_t line = (uint64_t)line_bytes(n, o), leading = o->across ? (uint64_t)n->depth * line : 16;
    return (leading >> 4) << 16 | (GROUP * line >> 4) << 32 | (line == 128 ? 1ull : line == 64 ? 2ull : 3ull) << 62;
}

/* Bytes from the operand's begin to line (row, step q). Both are multiples of what an instruction takes. */
static int64_t place(const sn_mma_nest *n, const sn_mma_operand *o, int64_t row, int64_t q, int64_t bytes) {
    int64_t along = o->across ? row : q, other = o->across ? q : row, lines = o->across ? n->depth : o->rows;
    return (along / o->width * lines + other) * line_bytes(n, o) + along % o->width * bytes;
}

static lv begin(sn_gen *g, sn_ix e) {
    lv x = sn_gen_ix(g, e);
    return g->index == g->em.cg->i32 ? x : LLVMBuildTrunc(g->em.b, x, g->em.cg->i32, "");
}

/* Of the operand's part for a group; `unit` rows or columns from one to the next. */
static lv descriptor(sn_gen *g, const sn_mma_nest *n, const sn_mma_operand *o, lv group, int64_t unit) {
    sn_em *em = &g->em;
    int64_t bytes = sn_dtype_bytes(sn_mmas[n->mma].operand);
    lv at = sn_gen_shared_address(g, g->memory[o->buf.i]);
    if (o->at.i) at = em_iadd(em, at, begin(g, sn_ix_scale(g->m, sn_gen_resolve(g, o->at), bytes)));
    if (group) at = em_iadd(em, at, em_imul(em, group, sn_gen_c32(g, place(n, o, unit, 0, bytes))));
    lv low = em_lshr(em, em_and(em, at, sn_gen_c32(g, 0x3ffff)), sn_gen_c32(g, 4));
    return em_or(em, LLVMBuildZExt(em->b, low, em->cg->i64, ""), sn_em_ci(em->cg->i64, (int64_t)layout(n, o)));
}

static lv moved(sn_gen *g, lv descriptor, int64_t bytes) {
    return bytes ? em_iadd(&g->em, descriptor, sn_em_ci(g->em.cg->i64, bytes >> 4)) : descriptor;
}

/* ---- wgmma ---- */

typedef struct wgmma {
    LLVMTypeRef type; /* of a register */
    lv code;
    LLVMTypeRef function;
    uint32_t n; /* registers of the instruction */
    lv adds;    /* i32: 0 where it stores what it would add */
} wgmma;

static const char *operand_name(sn_mma mma) {
    switch ((int)mma) {
    case SN_MMA_WGMMA_BF16: return "bf16";
    case SN_MMA_WGMMA_F16: return "f16";
    case SN_MMA_WGMMA_TF32: return "tf32";
    case SN_MMA_WGMMA_S8: return "s8";
    default: return "u8";
    }
}

/* `wgmma.. {$0, ..}, $n, $n+1, p, 1, 1, 0, 0`: results, descriptors, whether it adds, signs, which operands lie across. */
static wgmma make_wgmma(sn_gen *g, const sn_mma_nest *n, lv adds) {
    const sn_mma_info *info = &sn_mmas[n->mma];
    sn_em *em = &g->em;
    bool floats = sn_is_float(info->state), halves = info->operand == SN_BF16 || info->operand == SN_F16;
    wgmma w = {.type = floats ? em->cg->f32 : em->cg->i32, .n = n->tiles_n * sn_mma_elements(n->mma), .adds = adds};
    sn_text text, constraints;
    sn_text_init(&text, g->env);
    sn_text_init(&constraints, g->env);
    const char *name = operand_name(n->mma);
    sn_text_printf(&text, "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $%u, 0;\n\t", w.n + 2);
    sn_text_printf(&text, "wgmma.mma_async.sync.aligned.m%un%uk%u.%s.%s.%s {", info->m, n->tiles_n * info->n, info->k,
                   floats ? "f32" : "s32", name, name);
    for (uint32_t i = 0; i < w.n; i++) {
        sn_text_printf(&text, "%s$%u", i ? ", " : "", i);
        sn_text_printf(&constraints, "=%c,", floats ? 'f' : 'r');
    }
    sn_text_printf(&text, "}, $%u, $%u, p%s", w.n, w.n + 1, floats ? ", 1, 1" : "");
    if (halves) sn_text_printf(&text, ", %d, %d", n->a.across, n->b.across);
    sn_text_put(&text, ";\n\t}");
    sn_text_put(&constraints, "l,l,r");
    for (uint32_t i = 0; i < w.n; i++) sn_text_printf(&constraints, ",%u", i);
    LLVMTypeRef *types = SN_NEWN(g->arena, LLVMTypeRef, w.n + IN);
    for (uint32_t i = 0; i < w.n; i++) types[i] = w.type;
    LLVMTypeRef result = LLVMStructTypeInContext(em->cg->cx, types, w.n, 0);
    for (uint32_t i = 0; i < w.n + IN; i++) types[i] = i < 2 ? em->cg->i64 : i == 2 ? em->cg->i32 : w.type;
    w.function = LLVMFunctionType(result, types, w.n + IN, 0);
    w.code =
        LLVMGetInlineAsm(w.function, text.s, text.n, constraints.s, constraints.n, 1, 0, LLVMInlineAsmDialectATT, 0);
    sn_text_free(&text);
    sn_text_free(&constraints);
    return w;
}

static lv state_address(sn_gen *g, const sn_mma_nest *n, const wgmma *w, uint32_t element) {
    lv offset = sn_gen_c32(g, element);
    return LLVMBuildInBoundsGEP2(g->em.b, w->type, g->memory[n->state.i], &offset, 1, "");
}

/* All instructions of the nest: for each block of rows one a step of the sum. */
static void put_wgmma(sn_gen *g, const sn_mma_nest *n, lv adds) {
    const sn_mma_info *info = &sn_mmas[n->mma];
    sn_em *em = &g->em;
    wgmma w = make_wgmma(g, n, adds);
    int64_t bytes = sn_dtype_bytes(info->operand);
    lv group = n->threads > info->threads ? sn_gen_group_number(g, info->threads) : NULL, down = group, right = NULL;
    if (group && n->columns > 1) {
        right = LLVMBuildURem(em->b, group, sn_gen_c32(g, n->columns), "");
        down = LLVMBuildUDiv(em->b, group, sn_gen_c32(g, n->columns), "");
    }
    lv a = descriptor(g, n, &n->a, down, (int64_t)info->m * n->tiles_m);
    lv b = descriptor(g, n, &n->b, right, (int64_t)info->n * n->tiles_n);
    lv *args = SN_NEWN(g->arena, lv, w.n + IN);
    put(g, "wgmma.fence.sync.aligned;");
    for (uint32_t h = 0; h < n->tiles_m; h++)
        for (int64_t q = 0; q < n->depth; q += info->k) {
            args[0] = moved(g, a, place(n, &n->a, (int64_t)info->m * h, q, bytes));
            args[1] = moved(g, b, place(n, &n->b, 0, q, bytes));
            args[2] = q ? sn_gen_c32(g, 1) : w.adds;
            for (uint32_t i = 0; i < w.n; i++)
                args[IN + i] = LLVMBuildLoad2(em->b, w.type, state_address(g, n, &w, h * w.n + i), "");
            lv out = LLVMBuildCall2(em->b, w.function, w.code, args, w.n + IN, "");
            for (uint32_t i = 0; i < w.n; i++)
                LLVMBuildStore(em->b, LLVMBuildExtractValue(em->b, out, i, ""), state_address(g, n, &w, h * w.n + i));
        }
    put(g, "wgmma.commit_group.sync.aligned;");
    g->mma_under_way = g->summing[n->state.i] = true;
    g->mma_reads_ring |= sn_gen_is_filled_by_box(g, n->a.buf) || sn_gen_is_filled_by_box(g, n->b.buf);
}

/* What has been stored for the next ones is shown while these are under way. */
void sn_gen_settle_mma(sn_gen *g, sn_stmt nest) {
    sn_stmt end = sn_stmt_walk_skip(g->m, nest);
    for (sn_stmt s = nest; s.i != end.i && g->mma_under_way; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (!r->buf.i || !g->summing[r->buf.i]) continue;
        sn_gen_show_stores(g);
        sn_gen_wait_mma(g, 0);
    }
}

void sn_gen_wait_mma(sn_gen *g, uint32_t under_way) {
    char text[64];
    snprintf(text, sizeof text, "wgmma.wait_group.sync.aligned %u;", under_way);
    put(g, text);
    if (!under_way) g->mma_under_way = g->mma_reads_ring = false;
}

void sn_gen_mma(sn_gen *g, sn_stmt s) {
    sn_mma_nest n;
    const char *why;
    if (!sn_mma_find(&n, &why, g->m, s)) return; /* the verifier has refused it */
    if (!sn_mma_is_async(n.mma)) {
        sn_gen_mma_sync(g, &n);
        return;
    }
    sn_gen_needs_specific(g);
    if (g->em.cg->target->sm != sn_mmas[n.mma].sm && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_TARGET, "kernel %s: %s does not have the instruction %s", g->k->name,
                            g->em.cg->target->name, sn_mmas[n.mma].name);
    put_wgmma(g, &n, g->adds[s.i] ? g->adds[s.i] : sn_gen_c32(g, 1));
    sn_stmt around = sn_stmt_get(g->m, s)->parent;
    if (!g->in_ring || !around.i || !sn_stmt_get(g->m, around)->pipe) sn_gen_wait_mma(g, 0);
}
