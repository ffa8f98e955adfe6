/* tensor_map.c: which tensor maps the hardware takes, and which are equal.
 *
 * The limits are those of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col (CUDA driver API) for maps without
 * interleaving. Whether the address is aligned is for those who know it.
 */
#include "ir/base/tensor_map.h"

enum { MAX_BOX = 256, MAX_PIXELS = 1024, MAX_STEP = 8 };
static const int64_t MAX_DIM = (int64_t)1 << 32, STRIDES_END = (int64_t)1 << 40;

bool sn_tensor_map_eq(const sn_tensor_map *a, const sn_tensor_map *b) {
    if (a->param != b->param || a->offset != b->offset || a->dtype != b->dtype || a->rank != b->rank ||
        a->swizzle != b->swizzle || a->tf32 != b->tf32 || a->pixels != b->pixels)
        return false;
    for (uint32_t i = 0; a->pixels && i + 2 < a->rank; i++)
        if (a->low[i] != b->low[i] || a->high[i] != b->high[i] || a->steps[i] != b->steps[i]) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i] || a->box[i] != b->box[i] || (i && a->strides[i - 1] != b->strides[i - 1]))
            return false;
    return true;
}

static const char *axis_fault(const sn_tensor_map *map, uint32_t i) {
    if (map->dims[i] < 1 || map->dims[i] > MAX_DIM) return "an axis has no element or more than 2^32";
    if (map->box[i] < 1 || map->box[i] > (map->pixels && i ? MAX_PIXELS : MAX_BOX))
        return "a box has no element or more than 256 along an axis";
    if (!i) return NULL;
    int64_t stride = map->strides[i - 1];
    if (stride < 1 || stride >= STRIDES_END) return "a stride is not positive or has 2^40 bytes or more";
    return stride % SN_MAP_ADDRESS ? "a stride is no multiple of 16 bytes" : NULL;
}

static const char *pixels_fault(const sn_tensor_map *map) {
    static const int32_t ENDS[] = {32768, 128, 16}; /* by how many axes are walked along */
    if (map->rank < 3) return "pixels have no axis";
    for (uint32_t i = 0; i + 2 < map->rank; i++) {
        int32_t end = ENDS[map->rank - 3];
        if (map->low[i] < -end || map->low[i] >= end || map->high[i] < -end || map->high[i] >= end)
            return "pixels begin or end too far from the ends of an axis";
        if (map->steps[i] < 1 || map->steps[i] > MAX_STEP) return "pixels are not 1 to 8 elements apart";
        if (map->dims[1 + i] + map->high[i] <= map->low[i]) return "an axis has no pixel";
    }
    return NULL;
}

const char *sn_tensor_map_fault(const sn_tensor_map *map) {
    if (map->rank < 1 || map->rank > SN_MAP_RANK) return "it has no axis or more than 5";
    if (map->offset % SN_MAP_ADDRESS) return "its first element is at no multiple of 16 bytes";
    for (uint32_t i = 0; i < map->rank; i++) {
        const char *fault = axis_fault(map, i);
        if (fault) return fault;
    }
    const char *fault = map->pixels ? pixels_fault(map) : NULL;
    if (fault) return fault;
    uint32_t row = map->box[0] * sn_dtype_bytes(map->dtype);
    if (row % SN_MAP_ADDRESS) return "a row of a box is no multiple of 16 bytes";
    if (map->swizzle != 0 && map->swizzle != 32 && map->swizzle != 64 && map->swizzle != 128)
        return "a swizzle is 0, 32, 64 or 128 bytes";
    return map->swizzle && row > map->swizzle ? "a row of a box is longer than the swizzle" : NULL;
}
