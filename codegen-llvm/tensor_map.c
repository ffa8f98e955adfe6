/* tensor_map.c: tensor maps as parameters of a kernel.
 *
 *     ptx_kernel void k(ptr addrspace(1) %x, ..., ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %map0)
 *
 * A map stands behind all other parameters, by value; code refers to it by its address, which is generic. The maps of a
 * kernel are known before its function is made. Relies on the launch encoding them (ir/base/tensor_map.h). Emits no
 * copies.
 */
#include "codegen-llvm/gen.h"

#include <string.h>

uint32_t sn_gen_tensor_map(sn_gen *g, const sn_tensor_map *map) {
    enum { PTX = 80 }; /* of the instructions that copy by them */
    for (uint32_t i = 0; i < g->maps.n; i++)
        if (sn_tensor_map_eq(&g->maps.at[i], map)) return i;
    SN_ASSERT(!g->em.fn && map->param < g->k->params.n);
    const sn_buf_rec *b = sn_buf_get(g->m, g->k->params.at[map->param]);
    const char *fault = sn_tensor_map_fault(map);
    if (!fault && b->align % SN_MAP_ADDRESS) fault = "its storage starts at no multiple of 16 bytes";
    if (!fault && g->em.cg->target->sm < 90) fault = "the target has none";
    if (fault && g->status == SN_OK)
        g->status =
            sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: no tensor map for %s: %s", g->k->name, b->name, fault);
    sn_gen_needs_ptx(g, PTX);
    SN_PUSH(g->arena, &g->maps, *map);
    return g->maps.n - 1;
}

static void attribute(sn_gen *g, unsigned param, LLVMAttributeRef a) {
    LLVMAddAttributeAtIndex(g->em.fn, (LLVMAttributeIndex)(param + 1), a);
}

void sn_gen_tensor_map_params(sn_gen *g, uint32_t first) {
    static const char CONSTANT[] = "nvvm.grid_constant";
    LLVMContextRef cx = g->em.cg->cx;
    LLVMTypeRef bytes = LLVMArrayType2(g->em.cg->i8, SN_MAP_BYTES);
    g->first_map = first;
    for (uint32_t i = 0; i < g->maps.n; i++) {
        lv p = sn_gen_tensor_map_address(g, i);
        const char *name = sn_strf(g->arena, "map%u", i);
        LLVMSetValueName2(p, name, strlen(name));
        LLVMSetParamAlignment(p, SN_MAP_ALIGN);
        attribute(g, first + i, LLVMCreateTypeAttribute(cx, LLVMGetEnumAttributeKindForName("byval", 5), bytes));
        attribute(g, first + i, LLVMCreateStringAttribute(cx, CONSTANT, sizeof CONSTANT - 1, "", 0));
    }
}

lv sn_gen_tensor_map_address(const sn_gen *g, uint32_t map) { return LLVMGetParam(g->em.fn, g->first_map + map); }

void sn_gen_prefetch_tensor_maps(sn_gen *g) {
    if (!g->maps.n) return;
    sn_em_if first = sn_em_then(&g->em, sn_gen_first_thread(g), "first_thread");
    for (uint32_t i = 0; i < g->maps.n; i++) {
        lv at = sn_gen_tensor_map_address(g, i);
        sn_em_assembly(&g->em, g->em.cg->vd, "prefetch.tensormap [$0];", "l,~{memory}", &at, 1);
    }
    sn_em_end(&g->em, &first);
}
