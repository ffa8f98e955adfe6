/* place.h: where the elements of a node lie in memory, through views and casts: strides by axis. */
#ifndef SN_PASSES_GRAPH_PLACE_H
#define SN_PASSES_GRAPH_PLACE_H

#include "passes/graph/choices.h"

typedef struct sn_place {
    sn_dtype dtype; /* of the elements in memory */
    uint32_t rank;
    int64_t size[SN_MAX_RANK], stride[SN_MAX_RANK], offset; /* in elements */
} sn_place;

/* Elements of the unit in which tensor copies and the widest accesses want rows to begin. */
static inline int64_t sn_place_unit(sn_dtype dtype) { return SN_CHOICE_VECTOR / sn_dtype_bytes(dtype); }
/* Dtype and sizes; false: a size is no number. */
bool sn_place_sizes(sn_place *out, const sn_module *m, const sn_type *t);
/* Row-major, the rows one behind the other, or as an intermediate has them that a product reads. */
void sn_place_lay_out(sn_place *p, bool intermediate);
/* Where x is found without a kernel of its own; false: at no constant strides. */
bool sn_place_of(sn_place *out, const sn_module *m, sn_nd x);
/* Is one axis contiguous, `along` if that matters (-1: any), and do rows along it begin at multiples of so many
 * elements? */
bool sn_place_is_aligned(const sn_place *p, int along, int64_t unit);

#endif
