/* tensor_map.h: an array of several axes in global memory as hardware sees it that copies boxes out of it: what a CUDA
 * tensor map (CUtensorMap) is made from. Plain data: a kernel's code names the maps that its launches need, the runtime
 * encodes them for the addresses at hand. Knows nothing of CUDA's types.
 */
#ifndef SN_IR_BASE_TENSOR_MAP_H
#define SN_IR_BASE_TENSOR_MAP_H

#include "ir/base/ids.h"

enum {
    SN_MAP_RANK = 5,     /* axes, at most */
    SN_MAP_BYTES = 128,  /* of the encoded map */
    SN_MAP_ALIGN = 64,   /* of it in memory */
    SN_MAP_ADDRESS = 16, /* the first element lies at a multiple of so many bytes, and so do the rows */
};

/* Axis 0 is the one along which elements are neighbours. */
typedef struct sn_tensor_map {
    uint32_t param; /* which parameter of the kernel, among those that are buffers */
    int64_t offset; /* bytes from there to the first element */
    sn_dtype dtype;
    bool tf32;                        /* f32 are rounded on their way, to the bits that products of tf32 read */
    uint32_t rank;                    /* at least 1 */
    int64_t dims[SN_MAP_RANK];        /* elements; what is copied from beyond them is 0, nothing is written there */
    int64_t strides[SN_MAP_RANK - 1]; /* bytes between neighbours along axes 1 .. rank-1 */
    uint32_t box[SN_MAP_RANK];        /* elements of a copy */
    /* A copy of pixels (im2col): axis 0 are channels, the last one images, those between are walked along, pixel by
     * pixel, from `low` on in steps up to `high` beyond the axis's last element; box[0] channels of box[1] pixels. */
    bool pixels;
    int32_t low[SN_MAP_RANK - 2], high[SN_MAP_RANK - 2];
    uint32_t steps[SN_MAP_RANK - 2];
    uint32_t swizzle; /* 32, 64, 128: shared memory is permuted in rows of so many bytes; 0: it is not */
} sn_tensor_map;

/* Do both describe the same array and boxes? */
bool sn_tensor_map_eq(const sn_tensor_map *a, const sn_tensor_map *b);
/* Why the hardware does not take it, as the rest of a sentence; NULL: it does, at an aligned address. */
const char *sn_tensor_map_fault(const sn_tensor_map *map);

#endif
