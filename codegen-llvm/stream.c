/* stream.c: kernels that move more than the L2 holds.
 *
 * What such a kernel loads comes once; what it stores is written back when the cache needs room. Loaded lines that are evicted
 * last make room at the cost of stored ones, so that memory is written in a steady stream beside the reads and
 * not in bursts: 2 to 5 % of the time of kernels that read and write on an H200 (bench/results), nothing for those that only
 * read. Smaller kernels leave the choice to the cache, which may keep their results for the next one.
 *
 *     createpolicy.fractional.L2::evict_last.b64 policy, 1.0;
 *     ld.global.nc.L2::cache_hint.v4.b32 {a, b, c, d}, [p+16], policy;
 *
 * LLVM 22 has no name for either, hence the inline assembly, with memory operands so that offsets stay in the instruction.
 */
#include "codegen-llvm/gen.h"

#include <stdio.h>
#include <string.h>

enum { HOPPER = 90 };

/* Bytes of the buffers that the kernel loads and stores; sizes that are not known count as nothing. */
static void count_bytes(const sn_gen *g, uint64_t *loaded, uint64_t *stored) {
    *loaded = *stored = 0;
    for (uint32_t i = 0; i < g->k->params.n; i++) {
        sn_buf b = g->k->params.at[i];
        int64_t size;
        if (!sn_ix_is_const(g->m, sn_buf_get(g->m, b)->size, &size)) continue;
        *(g->steady[b.i] ? loaded : stored) += (uint64_t)size * sn_dtype_bytes(sn_buf_get(g->m, b)->dtype);
    }
}

void sn_gen_find_stream(sn_gen *g) {
    enum { SHARE = 8 }; /* of the bytes must be stored */
    uint64_t loaded, stored;
    count_bytes(g, &loaded, &stored);
    if (g->em.cg->target->sm < HOPPER || loaded + stored < g->em.cg->target->cache_bytes) return;
    if (stored * SHARE < loaded + stored) return;
    g->keep =
        sn_em_assembly(&g->em, g->em.cg->i64, "createpolicy.fractional.L2::evict_last.b64 $0, 1.0;", "=l", NULL, 0);
}

/* The instruction may take the address apart: `*m` wants to know what it points to. */
static void points_to(sn_gen *g, lv call, unsigned operand, LLVMTypeRef type) {
    unsigned kind = LLVMGetEnumAttributeKindForName("elementtype", strlen("elementtype"));
    LLVMAddCallSiteAttribute(call, operand + 1, LLVMCreateTypeAttribute(g->em.cg->cx, kind, type));
}

bool sn_gen_streams(const sn_gen *g, sn_buf b, uint32_t bytes) { return g->keep && g->steady[b.i] && bytes >= 2; }

lv sn_gen_stream_load(sn_gen *g, lv p, LLVMTypeRef type, uint32_t bytes) {
    static const char *const TEXT[] = {
        [0] = "ld.global.nc.L2::cache_hint.b16 $0, $1, $2;",
        [1] = "ld.global.nc.L2::cache_hint.b32 $0, $1, $2;",
        [2] = "ld.global.nc.L2::cache_hint.v2.b32 {$0, $1}, $2, $3;",
        [4] = "ld.global.nc.L2::cache_hint.v4.b32 {$0, $1, $2, $3}, $4, $5;",
    };
    static const char *const CONSTRAINTS[] = {
        [0] = "=h,*m,l",
        [1] = "=r,*m,l",
        [2] = "=r,=r,*m,l",
        [4] = "=r,=r,=r,=r,*m,l",
    };
    sn_em *em = &g->em;
    uint32_t words = bytes / 4;
    LLVMTypeRef word = words ? em->cg->i32 : em->cg->i16, parts[4] = {word, word, word, word};
    LLVMTypeRef result = words <= 1 ? word : LLVMStructTypeInContext(em->cg->cx, parts, words, 0);
    lv args[2] = {p, g->keep};
    lv all = sn_em_assembly(em, result, TEXT[words], CONSTRAINTS[words], args, 2);
    points_to(g, all, 0, type);
    if (words <= 1) return em_bitcast(em, all, type);
    lv x = LLVMGetPoison(LLVMVectorType(word, words));
    for (uint32_t i = 0; i < words; i++) x = sn_em_with_lane(em, x, i, LLVMBuildExtractValue(em->b, all, i, ""));
    return em_bitcast(em, x, type);
}

void sn_gen_stream_copy(sn_gen *g, lv to, lv from, uint32_t bytes, lv size) {
    char text[128];
    snprintf(text, sizeof text, "cp.async.%s.shared.global.L2::cache_hint $0, $1, %u%s;", bytes == 16 ? "cg" : "ca",
             bytes, size ? ", $2, $3" : ", $2");
    lv args[4] = {to, from, size ? size : g->keep, g->keep};
    lv call = sn_em_assembly(&g->em, g->em.cg->vd, text, size ? "*m,*m,r,l,~{memory}" : "*m,*m,l,~{memory}", args,
                             size ? 4 : 3);
    for (unsigned k = 0; k < 2; k++) points_to(g, call, k, LLVMArrayType2(g->em.cg->i8, bytes));
}
