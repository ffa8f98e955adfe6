/* tensor_map.c: encoding tensor maps (ir/base/tensor_map.h) with the driver.
 *
 * Copies move bits, so that the driver hears only how wide an element is, or that it is to be rounded. Host work of
 * less than a microsecond, allowed while a stream is captured. Whether a map has to be encoded again is for exec.c.
 */
#include "runtime/cuda_driver.h"

#include <stdio.h>

static int type_of(const sn_tensor_map *map) {
    if (map->tf32) return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    switch (sn_dtype_bytes(map->dtype)) {
    case 1: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case 2: return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case 4: return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    }
}

static int swizzle_of(uint32_t bytes) {
    switch (bytes) {
    case 32: return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128: return CU_TENSOR_MAP_SWIZZLE_128B;
    default: return CU_TENSOR_MAP_SWIZZLE_NONE;
    }
}

sn_status sn_cuda_tensor_map(CUtensorMap *out, sn_cuda *cu, const sn_tensor_map *map, const char *address,
                             const char *kernel) {
    uint32_t steps[SN_MAP_RANK] = {1, 1, 1, 1, 1};
    uint64_t dims[SN_MAP_RANK], strides[SN_MAP_RANK - 1];
    if (!address || (uintptr_t)address % SN_MAP_ADDRESS)
        return sn_fail(cu->env, SN_ERROR_ARGUMENT,
                       "kernel %s: its argument %u at %p does not start at a multiple of %d bytes, which copies by "
                       "tensor maps need",
                       kernel, map->param, (const void *)address, SN_MAP_ADDRESS);
    for (uint32_t i = 0; i < map->rank; i++) dims[i] = (uint64_t)map->dims[i];
    for (uint32_t i = 1; i < map->rank; i++) strides[i - 1] = (uint64_t)map->strides[i - 1];
    for (uint32_t i = 0; map->pixels && i + 2 < map->rank; i++) steps[1 + i] = map->steps[i];
    void *first = (void *)(address + map->offset);
    CUresult result =
        map->pixels
            ? cu->api.cuTensorMapEncodeIm2col(out, type_of(map), map->rank, first, dims, strides, map->low, map->high,
                                              map->box[0], map->box[1], steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                              swizzle_of(map->swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
            : cu->api.cuTensorMapEncodeTiled(out, type_of(map), map->rank, first, dims, strides, map->box, steps,
                                             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(map->swizzle),
                                             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_SUCCESS) return SN_OK;
    char what[256];
    snprintf(what, sizeof what, "kernel %s, argument %u: cuTensorMapEncode%s", kernel, map->param,
             map->pixels ? "Im2col" : "Tiled");
    return sn_cuda_check(cu, result, what);
}
