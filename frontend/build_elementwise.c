/* build_elementwise.c: the families of builder functions that have one shape each, generated from the lists in sinter.h.
 *
 * Relies on sn_build of build.c. What an operation means and which types it takes is ops.def and ir/graph_rules.c.
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

SN_UNARY_FUNCTIONS(DEFINE_ONE)
SN_TEST_FUNCTIONS(DEFINE_ONE)
SN_BINARY_FUNCTIONS(DEFINE_TWO)
SN_COMPARE_FUNCTIONS(DEFINE_TWO)
SN_REDUCE_FUNCTIONS(DEFINE_REDUCE)
SN_ACTIVATION_FUNCTIONS(DEFINE_ONE)

/* A new elementwise row of ops.def must get its function: the lists of sinter.h have as many rows as the classes. */
enum { IN_UNARY, IN_TEST, IN_BINARY, IN_COMPARE, OUTSIDE };
#define COUNT(f, ID) +1
#define SOURCE OUTSIDE
#define UNARY IN_UNARY
#define BINARY IN_BINARY
#define COMPARE IN_COMPARE
#define TEST IN_TEST
#define ELEMENT OUTSIDE
#define REDUCE OUTSIDE
#define VIEW OUTSIDE
#define MOVE OUTSIDE
#define CONTRACT OUTSIDE
#define COMPOSITE OUTSIDE
#define SN_OP(ID, name, cls, n_in, attrs, lop, doc) +(cls != OUTSIDE)
_Static_assert((0
#include "include/sinter/ops.def"
                ) == (0 SN_UNARY_FUNCTIONS(COUNT) SN_TEST_FUNCTIONS(COUNT) SN_BINARY_FUNCTIONS(COUNT)
                          SN_COMPARE_FUNCTIONS(COUNT)),
               "an elementwise row of ops.def has no builder function in sinter.h");
