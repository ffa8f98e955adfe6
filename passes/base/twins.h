/* twins.h: do two perfect nests of a kernel compute the same value in the same iteration? */
#ifndef SN_PASSES_BASE_TWINS_H
#define SN_PASSES_BASE_TWINS_H

#include "passes/base/nest.h"
#include "ir/base/notes.h"

typedef struct sn_twins {
    sn_module *m;
    sn_kern k;
    const sn_chain *one, *two;
    sn_notes twin; /* by value in `one`: the same one in `two`, as far as it is known; none at first, with an arena */
} sn_twins;

/* Have they the same extents, level by level? */
bool sn_twins_extents(const sn_twins *tw);
/* Is value a of `one` the value b of `two`, made alike from memory that the kernel does not store to? */
bool sn_twins_alike(sn_twins *tw, sn_val a, sn_val b);

#endif
