/* demand.h: what values the users of an input can do with. */
#ifndef SN_FRONTEND_DEMAND_H
#define SN_FRONTEND_DEMAND_H

#include "frontend/frontend.h"

typedef struct sn_demand {
    int64_t positions; /* values are positions 0 .. positions-1; INT64_MAX: no index */
    bool positive;
} sn_demand;

/* By the nodes of the graph, and by the kernels where there are some. Sizes are numbers, or count for nothing. The module may belong
 * to whomever: notes are in the arena. */
sn_demand sn_demand_of(const sn_module *m, uint32_t input, sn_arena *arena);
/* Does an access of a kernel depend on values that it has loaded? */
bool sn_demands_positions(const sn_module *m);

#endif
