/* costs.c: see costs.h. */
#include "passes/base/costs.h"

const sn_cost sn_costs[SN_N_ALL_LOPS] = {
#define SN_COST(LOP, full, half, special) [SN_LOP_##LOP] = {full, half, special},
#include "passes/base/costs.def"
#undef SN_COST
};

uint32_t sn_node_work(const sn_node_rec *n) {
    enum { SPECIAL = 8 };
    int lop = sn_ops[n->op].lop;
    if (sn_ops[n->op].cls == SN_OPS_VIEW || sn_ops[n->op].cls == SN_OPS_SOURCE) return 0;
    if (!sn_node_is_elementwise(n) || lop < 0) return 1;
    double work = sn_costs[lop].full + SPECIAL * sn_costs[lop].special;
    return work > 1 ? (uint32_t)work : 1;
}
