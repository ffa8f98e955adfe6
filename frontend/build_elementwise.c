/* build_elementwise.c: the families of builder functions that have one shape each, generated from ops.def and the
 * lists in sinter.h.
 *
 * Relies on sn_build of build.c. What an operation means and which types it takes is ops.def and ir/graph/rules.c.
 */
#include "frontend/build.h"

#define DEFINE_ONE(f, ID) \
    sn_node f(sn_graph *g, sn_node x) { return sn_build(g, SN_OP_##ID, &x, 1, NULL, 0); }
#define DEFINE_TWO(f, ID) \
    sn_node f(sn_graph *g, sn_node x, sn_node y) { return sn_build(g, SN_OP_##ID, (sn_node[]){x, y}, 2, NULL, 0); }
#define DEFINE_REDUCE(f, ID)                                                                \
    sn_node f(sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes, bool keepdim) { \
        return sn_build_reduce(g, SN_OP_##ID, x, n_axes, axes, keepdim, 1);                 \
    }
#define DEFINE_SCAN(f, ID)                                                                \
    sn_node f(sn_graph *g, sn_node x, int64_t axis, bool exclusive, bool reverse) {       \
        return sn_build_scan(g, SN_OP_##ID, x, axis, exclusive, reverse);                 \
    }

#define SN_OP(ID, name, cls, n_in, attrs, lop, doc) SN_ELEMENTWISE_##cls(DEFINE_ONE, DEFINE_TWO, sn_##name, ID)
#include "include/sinter/ops.def"
#undef SN_OP
SN_REDUCE_FUNCTIONS(DEFINE_REDUCE)
SN_SCAN_FUNCTIONS(DEFINE_SCAN)
SN_ACTIVATION_FUNCTIONS(DEFINE_ONE)
