/* mma.c: nests that a matrix instruction stands for (ir/loop/mma.h). Those of a warp are in mma_sync.c.
 *
 * wgmma: four warps give one instruction for a block of 64 rows and all columns of their group; operands are in
 * shared memory, named by descriptors: address / 16, distances between groups of 8 lines, and how lines are permuted
 * (PTX ISA, "matrix descriptor"); or the left one is in registers, its fragment. Registers of the nest belong to the
 * instruction until it has been waited for.
 *
 * Instructions of nests that follow each other are a group, and groups run in the order in which they were given. So
 * what has to be known of registers is the number of the last group that has them: who touches them waits until no
 * more groups are under way than came behind that one.
 */
#include "codegen-llvm/gen.h"

#include <stdio.h>
#include <string.h>

enum { GROUP = 8 /* lines */, REGS = 4 /* of a fragment */ };

static bool is_wgmma(const sn_gen *g, sn_stmt s) { return s.i && sn_mma_is_async((sn_mma)sn_stmt_get(g->m, s)->mma); }

static void put(sn_gen *g, const char *text) { sn_em_assembly(&g->em, g->em.cg->vd, text, "~{memory}", NULL, 0); }

const sn_mma_nest *sn_gen_mma_nest(sn_gen *g, sn_stmt nest) {
    sn_mma_nest n;
    const char *why;
    const sn_mma_nest **known = &g->mma_nests[nest.i];
    if (!*known && sn_mma_find(&n, &why, g->m, nest)) *known = sn_memdup(g->arena, &n, sizeof n);
    return *known;
}

/* ---- descriptors ---- */

static int64_t line_bytes(const sn_mma_nest *n, const sn_mma_operand *o) {
    return o->width * sn_dtype_bytes(sn_mmas[n->mma].operand);
}

/* Of the sum, that lie in shared memory. */
static int64_t steps_of(const sn_mma_nest *n, const sn_mma_operand *o) { return o->steps ? o->steps : n->depth; }

/* What of a descriptor does not depend on the address. Lines of 128, 64 and 32 bytes are permuted by modes 1, 2 and
 * 3. */
static uint64_t layout(const sn_mma_nest *n, const sn_mma_operand *o) {
    uint64_t line = (uint64_t)line_bytes(n, o), leading = o->across ? (uint64_t)steps_of(n, o) * line : 16;
    return (leading >> 4) << 16 | (GROUP * line >> 4) << 32 | (line == 128 ? 1ull : line == 64 ? 2ull : 3ull) << 62;
}

/* Bytes from the operand's begin to line (row, step q). Both are multiples of what an instruction takes. */
static int64_t place(const sn_mma_nest *n, const sn_mma_operand *o, int64_t row, int64_t q, int64_t bytes) {
    int64_t along = o->across ? row : q, other = o->across ? q : row, lines = o->across ? steps_of(n, o) : o->rows;
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

/* An instruction on block of rows h: left operand (a fragment, or a descriptor), right one, and 0 where it stores what
 * it would add. */
typedef struct product {
    lv left[REGS], right, adds;
    uint32_t h;
} product;

/* Uniform registers that the descriptors of a piece of assembly may have together, of the 63 that there are: ptxas makes
 * them in front of it, and those that find no room pass through other registers. */
enum { MOST_UNIFORM = 16, UNIFORM = 2 /* of a descriptor */ };

/* Instructions on the same sums, one after the other. They are one piece of assembly: LLVM would spend a quarter of its
 * time on the sums, up to 128 of them, that each instruction has as results and takes from the one before. */
struct sn_gen_products {
    sn_mma_nest like; /* what a nest of them is */
    lv group; /* number of the group of threads, as all nests of a group of instructions know it; NULL: not yet known */
    SN_VEC(product) given;
};

/* What the text of instructions hangs on. */
static bool are_alike(const sn_mma_nest *x, const sn_mma_nest *y) {
    return x->mma == y->mma && sn_buf_eq(x->state, y->state) && x->tiles_m == y->tiles_m && x->tiles_n == y->tiles_n &&
           x->a.in_registers == y->a.in_registers && x->a.across == y->a.across && x->b.across == y->b.across;
}

/* Registers of an instruction that hold sums; operands beside them. */
static uint32_t sums_of(const sn_mma_nest *n) { return n->tiles_n * sn_mma_elements(n->mma); }
static uint32_t left_of(const sn_mma_nest *n) { return n->a.in_registers ? REGS : 1; }
static uint32_t operands_of(const sn_mma_nest *n) { return left_of(n) + 2; }
static uint32_t descriptors_of(const sn_mma_nest *n) { return n->a.in_registers ? 1 : 2; }

static const char *operand_name(sn_mma mma) {
    switch ((int)mma) {
    case SN_MMA_WGMMA_BF16: return "bf16";
    case SN_MMA_WGMMA_F16: return "f16";
    case SN_MMA_WGMMA_TF32: return "tf32";
    case SN_MMA_WGMMA_S8: return "s8";
    default: return "u8";
    }
}

/* `wgmma.. {$0, ..}, left, $right, p, 1, 1, 0, 0`: sums, operands (`{$n, ..}` or a descriptor) from number `in`,
 * whether it adds, signs, which operands in shared memory lie across. */
static void put_text(const sn_mma_nest *n, uint32_t h, uint32_t in, sn_text *text) {
    const sn_mma_info *info = &sn_mmas[n->mma];
    bool floats = sn_is_float(info->state), halves = info->operand == SN_BF16 || info->operand == SN_F16;
    const char *name = operand_name(n->mma);
    uint32_t sums = sums_of(n), right = in + left_of(n);
    sn_text_printf(text, "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $%u, 0;\n\t", right + 1);
    sn_text_printf(text, "wgmma.mma_async.sync.aligned.m%un%uk%u.%s.%s.%s {", info->m, n->tiles_n * info->n, info->k,
                   floats ? "f32" : "s32", name, name);
    for (uint32_t i = 0; i < sums; i++) sn_text_printf(text, "%s$%u", i ? ", " : "", h * sums + i);
    if (n->a.in_registers) sn_text_printf(text, "}, {$%u, $%u, $%u, $%u}", in, in + 1, in + 2, in + 3);
    else sn_text_printf(text, "}, $%u", in);
    sn_text_printf(text, ", $%u, p%s", right, floats ? ", 1, 1" : "");
    if (halves && !n->a.in_registers) sn_text_printf(text, ", %d", n->a.across);
    if (halves) sn_text_printf(text, ", %d", n->b.across);
    sn_text_put(text, ";\n\t}");
}

/* The assembly of all instructions: results are the sums, operands those of one after the other, then the sums. */
static lv assembly(sn_gen *g, const struct sn_gen_products *p, LLVMTypeRef type, uint32_t sums) {
    const sn_mma_nest *n = &p->like;
    bool floats = sn_is_float(sn_mmas[n->mma].state);
    sn_text text, constraints;
    sn_text_init(&text, g->env);
    sn_text_init(&constraints, g->env);
    for (uint32_t i = 0; i < sums; i++) sn_text_put(&constraints, floats ? "=f," : "=r,");
    for (uint32_t i = 0; i < p->given.n; i++) {
        if (i) sn_text_put(&text, "\n\t");
        put_text(n, p->given.at[i].h, sums + i * operands_of(n), &text);
        sn_text_put(&constraints, n->a.in_registers ? "r,r,r,r,l,r," : "l,l,r,");
    }
    for (uint32_t i = 0; i < sums; i++) sn_text_printf(&constraints, "%s%u", i ? "," : "", i);
    lv code = LLVMGetInlineAsm(type, text.s, text.n, constraints.s, constraints.n, 1, 0, LLVMInlineAsmDialectATT, 0);
    sn_text_free(&text);
    sn_text_free(&constraints);
    return code;
}

/* Instructions that are still to be written. */
static void put_products(sn_gen *g) {
    struct sn_gen_products *p = g->products;
    const sn_mma_nest *n = &p->like;
    if (!p->given.n) return;
    uint32_t sums = n->tiles_m * sums_of(n), in = p->given.n * operands_of(n), k = 0;
    lv *args = SN_NEWN(g->arena, lv, in + sums);
    LLVMTypeRef *types = SN_NEWN(g->arena, LLVMTypeRef, in + sums);
    for (uint32_t i = 0; i < p->given.n; i++) {
        const product *x = &p->given.at[i];
        for (uint32_t r = 0; r < left_of(n); r++) args[k++] = x->left[r];
        args[k++] = x->right;
        args[k++] = x->adds;
    }
    for (uint32_t i = 0; i < sums; i++) args[k++] = sn_gen_register(g, n->state, i, 1);
    for (uint32_t i = 0; i < k; i++) types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type =
        LLVMFunctionType(LLVMStructTypeInContext(g->em.cg->cx, types + in, sums, 0), types, in + sums, 0);
    lv out = LLVMBuildCall2(g->em.b, type, assembly(g, p, type, sums), args, in + sums, "");
    for (uint32_t i = 0; i < sums; i++) sn_gen_set_register(g, n->state, i, LLVMBuildExtractValue(g->em.b, out, i, ""));
    p->given.n = 0;
}

/* Four registers of the fragment, for block of rows h and steps q and following. */
static void load_fragment(sn_gen *g, const sn_mma_nest *n, uint32_t h, int64_t q, lv *out) {
    sn_em *em = &g->em;
    int64_t each = sn_mma_neighbours(n->mma), step = q / sn_mmas[n->mma].k, steps = n->depth / sn_mmas[n->mma].k;
    for (int64_t i = 0; i < REGS; i++) {
        lv x = sn_gen_register(g, n->a.buf, ((h * steps + step) * REGS + i) * each, (uint32_t)each);
        out[i] = LLVMBuildBitCast(em->b, x, em->cg->i32, "");
    }
}

/* Registers that a group takes as operands are made before it begins, not between its instructions: one nest after
 * the other is asked for them. */
static void fence(sn_gen *g, sn_stmt first) {
    for (sn_stmt s = first; is_wgmma(g, s); s = sn_stmt_get(g->m, s)->next) {
        const sn_mma_nest *n = sn_gen_mma_nest(g, s);
        lv regs[REGS];
        if (!n || !n->a.in_registers) continue;
        for (uint32_t h = 0; h < n->tiles_m; h++)
            for (int64_t q = 0; q < n->depth; q += sn_mmas[n->mma].k) {
                load_fragment(g, n, h, q, regs);
                sn_em_assembly(&g->em, g->em.cg->vd, "", "r,r,r,r,~{memory}", regs, REGS);
            }
    }
    put(g, "wgmma.fence.sync.aligned;");
}

/* ---- nests ---- */

/* Where the operands of a nest begin, for the group of threads. */
typedef struct begins {
    lv a, b;
} begins;

static begins begins_of(sn_gen *g, const sn_mma_nest *n) {
    const sn_mma_info *info = &sn_mmas[n->mma];
    if (n->threads > info->threads && !g->products->group) g->products->group = sn_gen_group_number(g, info->threads);
    lv group = n->threads > info->threads ? g->products->group : NULL, down = group, right = NULL;
    begins at = {NULL, NULL};
    if (group && n->columns > 1) {
        right = LLVMBuildURem(g->em.b, group, sn_gen_c32(g, n->columns), "");
        down = LLVMBuildUDiv(g->em.b, group, sn_gen_c32(g, n->columns), "");
    }
    if (!n->a.in_registers) at.a = descriptor(g, n, &n->a, down, (int64_t)info->m * n->tiles_m);
    at.b = descriptor(g, n, &n->b, right, (int64_t)info->n * n->tiles_n);
    return at;
}

/* All instructions of the nest: for each block of rows one a step of the sum; `first`: whether the first ones add. */
static void give(sn_gen *g, const sn_mma_nest *n, lv first) {
    const sn_mma_info *info = &sn_mmas[n->mma];
    int64_t bytes = sn_dtype_bytes(info->operand);
    if (!are_alike(&g->products->like, n)) put_products(g);
    g->products->like = *n;
    begins at = begins_of(g, n);
    for (uint32_t h = 0; h < n->tiles_m; h++)
        for (int64_t q = 0; q < n->depth; q += info->k) {
            product p = {
                .right = moved(g, at.b, place(n, &n->b, 0, q, bytes)), .adds = q ? sn_gen_c32(g, 1) : first, .h = h};
            if (n->a.in_registers) load_fragment(g, n, h, q, p.left);
            else p.left[0] = moved(g, at.a, place(n, &n->a, (int64_t)info->m * h, q, bytes));
            SN_PUSH(g->arena, &g->products->given, p);
            if ((g->products->given.n + 1) * descriptors_of(n) * UNIFORM > MOST_UNIFORM) put_products(g);
        }
}

/* ---- groups ---- */

/* The next group has the registers of the nest. */
static void join_group(sn_gen *g, const sn_mma_nest *n) {
    uint32_t group = g->mma_given + 1;
    g->mma_holds[n->state.i] = group;
    if (n->a.in_registers) g->mma_holds[n->a.buf.i] = group;
    if (sn_gen_is_filled_by_box(g, n->a.buf) || sn_gen_is_filled_by_box(g, n->b.buf)) g->mma_ring = group;
}

/* Is s of a group in the iteration of a pipe, which may still be under way when the iteration ends? */
static bool may_last(const sn_gen *g, sn_stmt s) {
    sn_stmt around = sn_stmt_get(g->m, s)->parent;
    return g->in_ring && around.i && sn_stmt_get(g->m, around)->pipe;
}

void sn_gen_carry_mma(sn_gen *g, sn_stmt pipe) {
    for (sn_stmt s = sn_stmt_get(g->m, pipe)->first; s.i; s = sn_stmt_get(g->m, s)->next) {
        const sn_mma_nest *n = is_wgmma(g, s) ? sn_gen_mma_nest(g, s) : NULL;
        if (!n) continue;
        join_group(g, n);
        g->mma_given += !is_wgmma(g, sn_stmt_get(g->m, s)->next);
    }
}

uint32_t sn_gen_awaited_mma(const sn_gen *g, sn_stmt nest) {
    sn_stmt end = sn_stmt_walk_skip(g->m, nest);
    uint32_t last = 0;
    for (sn_stmt s = nest; s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->buf.i && g->mma_holds[r->buf.i] > last) last = g->mma_holds[r->buf.i];
    }
    return last;
}

void sn_gen_settle_mma(sn_gen *g, sn_stmt nest) {
    uint32_t last = sn_gen_awaited_mma(g, nest);
    if (last > g->mma_done) sn_gen_wait_mma(g, g->mma_given - last);
}

void sn_gen_wait_mma(sn_gen *g, uint32_t under_way) {
    char text[64];
    snprintf(text, sizeof text, "wgmma.wait_group.sync.aligned %u;", under_way);
    put(g, text);
    g->mma_done = g->mma_given - under_way;
}

/* Groups that were given there have been waited for there: nobody counts them. What they held may be held by any
 * before them. */
void sn_gen_leave_mma(sn_gen *g, uint32_t given, uint32_t done) {
    if (g->mma_done > done) g->mma_done = done; /* nobody else has waited */
    if (g->mma_given == given) return;
    g->mma_given = given;
    if (g->mma_ring > given) g->mma_ring = given;
    for (uint32_t b = 0; b < g->m->bufs.count; b++)
        if (g->mma_holds[b] > given) g->mma_holds[b] = given;
}

/* 0 where the nest stores rather than adds: instead of a nest that would set its registers to 0. */
static lv adds(sn_gen *g, sn_stmt s) {
    sn_stmt when = g->clears[s.i];
    if (!when.i) return sn_gen_c32(g, 1);
    const sn_stmt_rec *r = sn_stmt_get(g->m, when);
    if (r->op == SN_LOP_IF) {
        lv holds = sn_em_lane(&g->em, sn_gen_in(g, r->ix, r->bound), 0);
        return em_select(&g->em, holds, sn_gen_c32(g, 0), sn_gen_c32(g, 1));
    }
    if (!r->pipe) return sn_gen_c32(g, 0);
    lv i = g->axes[r->axis.i];
    return LLVMBuildZExt(g->em.b, em_icmp(&g->em, LLVMIntNE, i, sn_em_i(&g->em, i, 0)), g->em.cg->i32, "");
}

void sn_gen_mma(sn_gen *g, sn_stmt s) {
    const sn_mma_nest *n = sn_gen_mma_nest(g, s);
    if (!n) return; /* the verifier has refused it */
    if (!sn_mma_is_async(n->mma)) {
        sn_gen_mma_sync(g, n);
        return;
    }
    sn_gen_needs_specific(g);
    if (g->em.cg->target->sm != sn_mmas[n->mma].sm && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_TARGET, "kernel %s: %s does not have the instruction %s", g->k->name,
                            g->em.cg->target->name, sn_mmas[n->mma].name);
    bool lasts = may_last(g, s), follows = lasts && is_wgmma(g, sn_stmt_get(g->m, s)->prev);
    if (!g->products) g->products = SN_NEW(g->arena, struct sn_gen_products);
    if (!follows) fence(g, s);
    if (!follows) g->products->group = NULL;
    give(g, n, adds(g, s));
    join_group(g, n);
    if (lasts && is_wgmma(g, sn_stmt_get(g->m, s)->next)) return;
    put_products(g);
    put(g, "wgmma.commit_group.sync.aligned;");
    g->mma_given++;
    if (!lasts) sn_gen_wait_mma(g, 0);
}
