/* decompose_pairs.c: matrix products of all pairs with a few columns are sums of products, on the CPU. Part of the pass `decompose`.
 *
 *     %d = sub %a, %b ;  %q = mul %d, %d ;  %r = sum %q axes=[2] ;  %near = cast (lt %r, 0.04)          (%near: f32[4096, 4096])
 *     %n = sum %near axes=[1] ;  %y = matmul %near, %p ;  %z = matmul %near, %v                         (%p, %v: f32[4096, 2])
 *  -> %0 = unsqueeze %near axes=[2] ;  %1 = unsqueeze %p axes=[0] ;  %2 = mul %0, %1 ;  %y = sum %2 axes=[1]
 *     %z likewise
 *
 * Weights of neighbours, kernels of interpolation: what is made of two lists is much larger than these. Written as products, each of
 * which wants its operand in memory unless it is made easily, they store and load it all; as sums they become one nest that makes an element
 * once for all of them (lower/reduce.c).
 *
 * Legality: always; the order of a sum is not part of what a product means. Which: f32 and f64, up to PAIRS_COLUMNS columns, an operand of
 * operations on elements and of short sums (coordinates), at least PAIRS_LARGER times what these read. Products that carry a schedule stay. Cost:
 * at most MOST_NODES for each product.
 */
#include "passes/graph/decompose.h"

#include "ir/graph/build.h"
#include "passes/base/constants.h"

enum { MOST_NODES = 64 };

/* What an operand is made of, as far as one has looked. */
typedef struct made {
    sn_nd seen[MOST_NODES];
    uint32_t n;
    int64_t read; /* elements of what lies in memory, or would */
} made;

/* Elements; 0: nobody knows. */
static int64_t elements(sn_module *m, sn_nd x) {
    int64_t n;
    return sn_ix_is_const(m, sn_type_numel(m, sn_type_of(m, x)), &n) ? n : 0;
}

static bool sums_coordinates(sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op != SN_OP_SUM) return false;
    int64_t all = elements(m, n->in[0]), kept = elements(m, x);
    return kept && all / kept <= SN_PAIRS_WRITTEN;
}

static bool look(made *a, sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    for (uint32_t i = 0; i < a->n; i++)
        if (sn_nd_eq(a->seen[i], x)) return true;
    if (a->n == MOST_NODES) return false;
    a->seen[a->n++] = x;
    bool view = sn_ops[n->op].cls == SN_OPS_VIEW;
    if (!view && !sn_node_is_elementwise(n) && !sums_coordinates(m, x)) {
        int64_t all = elements(m, x);
        return all && !sn_add_overflow(a->read, all, &a->read);
    }
    for (uint32_t k = 0; k < n->n_in; k++)
        if (!look(a, m, n->in[k])) return false;
    return true;
}

static bool is_of_pairs(sn_module *m, sn_nd x) {
    made a = {.n = 0};
    return sn_node_is_elementwise(sn_node_get(m, x)) && look(&a, m, x) && elements(m, x) / SN_PAIRS_LARGER >= a.read;
}

sn_nd sn_dec_pairs(sn_pass_ctx *cx, sn_nd x) {
    static const int64_t first = 0, last = 2;
    sn_module *m = cx->m;
    const sn_node_rec *n = sn_node_get(m, x);
    sn_nd pairs = n->in[0], columns = n->in[1];
    int64_t width;
    bool wide = sn_type_of(m, pairs)->dtype == SN_F32 || sn_type_of(m, pairs)->dtype == SN_F64;
    if (cx->target->is_gpu || !wide || n->type.rank != 2 || sn_type_of(m, pairs)->rank != 2) return x;
    if (sn_node_attr(m, x, SN_ATTR_SCHEDULE) || !sn_ix_is_const(m, n->type.shape[1], &width) ||
        width > SN_PAIRS_COLUMNS)
        return x;
    if (!is_of_pairs(m, pairs)) return x;
    pairs = sn_graph_unsqueeze(m, pairs, &last, 1);
    columns = sn_graph_unsqueeze(m, columns, &first, 1);
    sn_nd sums = sn_dec_reduce(m, SN_OP_SUM, sn_graph_binary(m, SN_OP_MUL, pairs, columns), 1u << 1);
    return sn_dec_squeeze(m, sums, 1u << 1);
}
