/* part.h: some nodes of a graph as a small graph of their own, in another module: for what is asked of them alone.
 *
 * What they read beside becomes an input, once views and casts that cost nothing are looked through and literals are taken along; an
 * input of the graph lies there as it does here. Names are numbers, so that equal parts have equal texts.
 */
#ifndef SN_PASSES_GRAPH_PART_H
#define SN_PASSES_GRAPH_PART_H

#include "ir/module.h"

typedef struct sn_part {
    const sn_module *from;
    uint8_t *member; /* by id in `from` */
    bool computes;   /* where to-loops may lengthen rows of what is computed there, something is computed here, too */
    sn_nd *map;      /* by id in `from`: where it is in the small graph; none: it is not */
} sn_part;

/* Puts the members into a module whose graph is begun, without outputs, and fills in the map (of scratch). Fails where
 * a size is no number. */
sn_status sn_part_copy(sn_module *to, sn_part *part, sn_arena *scratch);

#endif
