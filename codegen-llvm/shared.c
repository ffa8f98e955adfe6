/* shared.c: the shared memory of a block: its buffers, and areas through which reductions pass.
 *
 * Up to STATIC_LIMIT bytes are declared with their size. More has to be dynamic: then the buffers of the kernel are
 * parts of one array without a size, and the launch says how many bytes it has. The areas are always declared: their
 * size is known when the kernel is complete.
 *
 * The areas of a block are used in turn. Between two uses of the same area every thread passes the barrier of the use
 * in between, so no reader is overtaken. Code that may run again (a loop) or not at all (an if) must leave the turn as
 * it found it; with an odd number of uses sn_gen_settle adds a barrier and does that.
 */
#include "codegen-llvm/gen.h"

enum { STATIC_LIMIT = 48 << 10, AREAS = 8 << 10, ALIGN = 128 };

/* ---- areas ---- */

static const char *const NAMES[2][2] = {{"sn_row_slots_0", "sn_row_slots_1"}, {"sn_peer_slots_0", "sn_peer_slots_1"}};

static lv area(sn_gen *g, bool of_cluster, uint32_t which, uint32_t bytes) {
    lv *area = &g->area[of_cluster][which];
    uint32_t *size = &g->area_size[of_cluster][which];
    if (!*area) {
        *area = LLVMAddGlobalInAddressSpace(g->em.mod, LLVMArrayType2(g->em.cg->i8, 1), "sn_area", 3);
        LLVMSetAlignment(*area, 16);
    }
    if (bytes > *size) *size = bytes;
    return *area;
}

lv sn_gen_area(sn_gen *g, uint32_t bytes) {
    lv x = area(g, false, g->turn.next, bytes);
    g->turn.next ^= 1;
    g->turn.made++;
    return x;
}

lv sn_gen_cluster_area(sn_gen *g, uint32_t which, uint32_t bytes) { return area(g, true, which, bytes); }

void sn_gen_settle(sn_gen *g, const sn_gen_turn *before) {
    if ((g->turn.made - before->made) % 2) sn_gen_barrier(g);
    g->turn.next = before->next;
}

static lv shared_array(sn_gen *g, const char *name, uint64_t bytes, uint32_t align) {
    LLVMTypeRef type = LLVMArrayType2(g->em.cg->i8, bytes);
    lv a = LLVMAddGlobalInAddressSpace(g->em.mod, type, name, 3);
    LLVMSetInitializer(a, LLVMGetUndef(type));
    LLVMSetLinkage(a, LLVMInternalLinkage);
    LLVMSetAlignment(a, align);
    return a;
}

sn_status sn_gen_finish_shared(sn_gen *g) {
    uint32_t total = 0, limit = g->em.cg->target->shared_bytes;
    for (uint32_t k = 0; k < 4; k++) {
        lv *area = &g->area[k / 2][k % 2];
        if (!*area) continue;
        total += g->area_size[k / 2][k % 2];
        lv sized = shared_array(g, NAMES[k / 2][k % 2], g->area_size[k / 2][k % 2], 16);
        LLVMReplaceAllUsesWith(*area, sized);
        LLVMDeleteGlobal(*area);
        *area = NULL;
    }
    if (total > STATIC_LIMIT)
        return sn_fail(g->env, SN_ERROR_UNSUPPORTED,
                       "kernel %s: its reductions need %u bytes of shared memory, %u exist", g->k->name, total,
                       (unsigned)STATIC_LIMIT);
    if (g->gpu && total + g->shared_bytes > limit)
        return sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: a block needs %llu bytes of shared memory, %s has %u",
                       g->k->name, (unsigned long long)(total + g->shared_bytes), g->em.cg->target->name, limit);
    return SN_OK;
}

/* ---- buffers ---- */

/* How elements are permuted follows from the address: groups of 8 rows begin at multiples of their size. */
static uint64_t unit_of(const sn_buf_rec *b) { return b->swizzle ? 8ull * b->swizzle : ALIGN; }

static uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

uint64_t sn_gen_shared_bytes(const sn_buf_rec *b) {
    return round_up((uint64_t)b->private_size * sn_dtype_bytes(b->dtype), unit_of(b));
}

static uint64_t bytes_of(const sn_gen *g, sn_buf b) {
    return sn_gen_shared_bytes(sn_buf_get(g->m, b)) * sn_copy_stages(g->m, &g->copied, b);
}

/* Where the buffers stand in one array; returns its size and the largest unit. */
static uint64_t place(const sn_gen *g, uint64_t *at, uint64_t *unit) {
    uint64_t total = 0;
    *unit = ALIGN;
    for (uint32_t i = 0; i < g->k->locals.n; i++) {
        const sn_buf_rec *b = sn_buf_get(g->m, g->k->locals.at[i]);
        if (b->scope != SN_BUF_SHARED) continue;
        if (unit_of(b) > *unit) *unit = unit_of(b);
        at[i] = round_up(total, unit_of(b));
        total = at[i] + bytes_of(g, g->k->locals.at[i]);
    }
    return total;
}

void sn_gen_make_shared(sn_gen *g) {
    uint64_t *at = SN_NEWN(g->arena, uint64_t, g->k->locals.n + 1), unit, total = place(g, at, &unit);
    g->shared_total = total;
    lv all = NULL;
    if (total + AREAS > STATIC_LIMIT) {
        all = LLVMAddGlobalInAddressSpace(g->em.mod, LLVMArrayType2(g->em.cg->i8, 0), "sn_shared", 3);
        LLVMSetAlignment(all, (unsigned)unit);
        g->shared_bytes = total;
    }
    for (uint32_t i = 0; i < g->k->locals.n; i++) {
        sn_buf b = g->k->locals.at[i];
        const sn_buf_rec *r = sn_buf_get(g->m, b);
        if (r->scope != SN_BUF_SHARED) continue;
        lv offset = sn_em_ci(g->em.cg->i32, (uint32_t)at[i]);
        g->memory[b.i] = all ? LLVMConstInBoundsGEP2(g->em.cg->i8, all, &offset, 1)
                             : shared_array(g, r->name, bytes_of(g, b), (uint32_t)unit_of(r));
    }
}
