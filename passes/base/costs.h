/* costs.h: how many instructions operations of Loop IR take on a GPU: the rows of costs.def, and one of each that has none. */
#ifndef SN_PASSES_BASE_COSTS_H
#define SN_PASSES_BASE_COSTS_H

#include "ir/graph/graph.h"
#include "ir/ops/ops.h"

/* The columns of costs.def, which explains them; all 0: the operation is one instruction, or a statement that is none. */
typedef struct sn_cost {
    double full, half, special;
} sn_cost;

extern const sn_cost sn_costs[SN_N_ALL_LOPS];

/* What an element of a node takes on a CPU itself, in additions: 0 for views and sources; a unit of which there is one takes as long as several others. */
uint32_t sn_node_work(const sn_node_rec *n);

#endif
