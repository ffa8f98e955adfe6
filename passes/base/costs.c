/* costs.c: see costs.h. */
#include "passes/base/costs.h"

const sn_cost sn_costs[SN_N_ALL_LOPS] = {
#define SN_COST(LOP, full, half, special) [SN_LOP_##LOP] = {full, half, special},
#include "passes/base/costs.def"
#undef SN_COST
};
