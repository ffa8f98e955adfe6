/* registers.c: elements of reg buffers, which are stack arrays until LLVM makes registers of them.
 *
 *     loop e in 2 : unroll { store acc[e], 0 }         store 0, acc+0          (gone: written again, and nobody reads it)
 *     loop s in 2 : unroll { loop e in 2 : unroll {    store 0, acc+1          (gone)
 *         acc[e] += f[s]                               %1 = 0 + f0
 *     } }                                              %2 = 0 + f0
 *                                                      store %1 + f1, acc+0
 *                                                      store %2 + f1, acc+1
 *
 * Written-out code touches the same elements over and over: with a load and a store each it is four times as long as what
 * LLVM leaves of it, and most of what the optimiser costs goes into that. So of each element whose number is a constant it is
 * kept what the block of code (LLVM's basic block) that is being made has stored to it or loaded from it: a load is that value, and a
 * store over one that nobody has read takes its place. Where another block begins nothing is known, and memory holds
 * all elements: blocks may run again, or not at all. Accesses by numbers that are no constants, and code that reads and
 * writes by itself, go to memory, and what was known is forgotten. What comes out is what LLVM would find.
 */
#include "codegen-llvm/gen.h"

enum { MOST_KEPT = 1024 /* elements: more are no registers */ };

/* An element: its address, which is made where the array is; and what it is in `block` while its buffer's counts are these. */
typedef struct element {
    lv at;
    LLVMBasicBlockRef block;
    lv x;     /* a scalar, or a vector of which it is lane number `lane` */
    lv store; /* that wrote it, x whole; NULL: it was loaded */
    uint32_t lane;
    uint32_t known, reads; /* counts of the buffer */
} element;

struct sn_gen_registers {
    uint32_t n;
    uint32_t known, reads; /* how often it was forgotten, and read from memory */
    element *at;
};

void sn_gen_keep_registers(sn_gen *g, sn_buf b, int64_t n) {
    if (n > MOST_KEPT) return;
    struct sn_gen_registers *r = SN_NEW(g->arena, struct sn_gen_registers);
    *r = (struct sn_gen_registers){.n = (uint32_t)n, .at = SN_NEWN(g->arena, element, n)};
    g->registers[b.i] = r;
}

/* What is kept of a buffer that has these elements; NULL: nothing. */
static struct sn_gen_registers *kept(const sn_gen *g, sn_buf b, int64_t first, uint32_t lanes) {
    struct sn_gen_registers *r = g->registers[b.i];
    return r && first >= 0 && first + lanes <= r->n ? r : NULL;
}

bool sn_gen_keeps_registers(const sn_gen *g, sn_buf b, int64_t first, uint32_t lanes) {
    return kept(g, b, first, lanes);
}

lv sn_gen_memory(sn_gen *g, sn_buf b) {
    struct sn_gen_registers *r = g->registers[b.i];
    if (r) r->known++, r->reads++;
    return g->memory[b.i];
}

lv sn_gen_memory_for_good(sn_gen *g, sn_buf b) {
    g->registers[b.i] = NULL;
    return g->memory[b.i];
}

/* ---- one access ---- */

static bool is_known(const sn_gen *g, const struct sn_gen_registers *r, const element *e) {
    return e->block == LLVMGetInsertBlock(g->em.b) && e->known == r->known;
}

/* Are elements e .. e+lanes-1 what one vector (or scalar) of so many lanes is? */
static bool is_whole(const sn_gen *g, const struct sn_gen_registers *r, const element *e, uint32_t lanes) {
    for (uint32_t i = 0; i < lanes; i++)
        if (!is_known(g, r, &e[i]) || e[i].x != e[0].x || e[i].lane != i) return false;
    return sn_em_lanes(e[0].x) == lanes;
}

static LLVMTypeRef type_of(const sn_gen *g, sn_buf b) { return sn_math_storage(g->em.cg, sn_buf_get(g->m, b)->dtype); }

/* e: NULL where nothing is kept. */
static lv address(sn_gen *g, sn_buf b, element *e, int64_t first) {
    LLVMBuilderRef builder = g->em.b;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(builder);
    lv array = g->memory[b.i], offset = sn_em_ci(g->em.cg->i64, first);
    if (!first) return array;
    if (e && e->at) return e->at;
    if (e) LLVMPositionBuilder(builder, LLVMGetInstructionParent(array), LLVMGetNextInstruction(array));
    lv at = LLVMBuildInBoundsGEP2(builder, type_of(g, b), array, &offset, 1, "");
    if (!e) return at;
    LLVMPositionBuilderAtEnd(builder, here);
    return e->at = at;
}

static void keep(sn_gen *g, struct sn_gen_registers *r, element *e, lv x, lv store) {
    for (uint32_t i = 0; i < sn_em_lanes(x); i++) {
        e[i].block = LLVMGetInsertBlock(g->em.b);
        e[i].x = x, e[i].lane = i, e[i].store = store;
        e[i].known = r->known, e[i].reads = r->reads;
    }
}

/* Neighbours that stay in memory after all are accessed together, where LLVM knows that they may be. */
static void align(const sn_gen *g, sn_buf b, lv access, int64_t first, uint32_t lanes) {
    enum { TOGETHER = 16 };
    uint32_t bytes = sn_dtype_bytes(sn_buf_get(g->m, b)->dtype), aligned = bytes * lanes;
    while (first >= 0 && aligned < TOGETHER && first * bytes % (2 * aligned) == 0) aligned *= 2;
    LLVMSetAlignment(access, g->gpu ? aligned : bytes);
}

/* The store that wrote these elements and no others, which nobody has read from memory; NULL: there is none. */
static lv unread(const sn_gen *g, const struct sn_gen_registers *r, const element *e, uint32_t lanes) {
    if (!is_whole(g, r, e, lanes)) return NULL;
    for (uint32_t i = 0; i < lanes; i++)
        if (e[i].store != e->store || e[i].reads != r->reads) return NULL;
    return e->store;
}

lv sn_gen_register(sn_gen *g, sn_buf b, int64_t first, uint32_t lanes) {
    struct sn_gen_registers *r = kept(g, b, first, lanes);
    element *e = r ? &r->at[first] : NULL;
    if (r && is_whole(g, r, e, lanes)) return e->x;
    if (r && lanes == 1 && is_known(g, r, e)) return sn_em_lane(&g->em, e->x, e->lane);
    lv x = LLVMBuildLoad2(g->em.b, sn_em_shape(type_of(g, b), lanes), address(g, b, e, first), "");
    align(g, b, x, first, lanes);
    if (!r) return x;
    r->reads++;
    bool none = true;
    for (uint32_t i = 0; i < lanes; i++) none &= !is_known(g, r, &e[i]);
    if (none) keep(g, r, e, x, NULL);
    return x;
}

void sn_gen_set_register(sn_gen *g, sn_buf b, int64_t first, lv x) {
    uint32_t lanes = sn_em_lanes(x);
    struct sn_gen_registers *r = kept(g, b, first, lanes);
    element *e = r ? &r->at[first] : NULL;
    lv before = r ? unread(g, r, e, lanes) : NULL;
    if (before) LLVMInstructionEraseFromParent(before);
    lv store = LLVMBuildStore(g->em.b, x, address(g, b, e, first));
    align(g, b, store, first, lanes);
    if (r) keep(g, r, e, x, store);
}
