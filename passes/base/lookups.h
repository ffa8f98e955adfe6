/* lookups.h: what it costs a CPU to compute what is looked up, each time again or once.
 *
 * Inlined, the expression is computed for each element that a select has; stored, for each that it has itself, and the selects read those.
 * An operation counts 1, and so does a read along the lanes; one of which each lane has a place of its own SN_LOOKED_UP, and as many to
 * store an element and to have it in a cache later on.
 */
#ifndef SN_PASSES_BASE_LOOKUPS_H
#define SN_PASSES_BASE_LOOKUPS_H

#include "passes/base/constants.h"

#include <stdbool.h>

/* Of an element: operations, reads along the lanes, reads by lanes. */
typedef struct sn_lookup_cost {
    double ops, reads, lanes;
} sn_lookup_cost;

static inline void sn_lookup_cost_add(sn_lookup_cost *to, const sn_lookup_cost *from) {
    to->ops += from->ops, to->reads += from->reads, to->lanes += from->lanes;
}

/* ... of a select of it: along the last axis lanes have places of their own. */
static inline sn_lookup_cost sn_lookup_cost_of_select(const sn_lookup_cost *of, bool by_lanes) {
    return by_lanes ? (sn_lookup_cost){of->ops, 0, of->lanes + of->reads} : *of;
}

static inline double sn_lookup_cost_sum(const sn_lookup_cost *c) { return c->ops + c->reads + SN_LOOKED_UP * c->lanes; }

/* Does it pay to store `table` elements of which selects have `selected` in all? */
static inline bool sn_lookups_pay(const sn_lookup_cost *c, double selected, double table, bool by_lanes) {
    sn_lookup_cost again = sn_lookup_cost_of_select(c, by_lanes);
    double read = by_lanes ? SN_LOOKED_UP : 1;
    return selected * sn_lookup_cost_sum(&again) > table * (sn_lookup_cost_sum(c) + SN_LOOKED_UP) + selected * read;
}

#endif
