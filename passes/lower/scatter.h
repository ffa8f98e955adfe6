/* scatter.h: what both kinds of scatters that combine share. */
#ifndef SN_PASSES_LOWER_SCATTER_H
#define SN_PASSES_LOWER_SCATTER_H

#include "passes/base/scatter.h"
#include "passes/lower/lower.h"

typedef struct sn_scattered {
    sn_lower *lw;
    sn_module *m;
    sn_nd index, updates;
    const sn_type *type; /* of the updates */
    sn_comb comb;
    sn_lop combine;
    sn_dtype dtype;
    sn_scatter_plan plan;
    sn_buf to;    /* [parts, room * width] */
    sn_ix update; /* number of the one at hand */
} sn_scattered;

/* A loop at lw->at, which moves inside; none when there is one iteration, unless it is of blocks or threads. Returns its axis. */
sn_ix sn_scattered_loop(sn_scattered *s, const char *name, int64_t extent, sn_axis_kind kind);
/* A buffer of the block. */
sn_buf sn_scattered_shared(sn_scattered *s, const char *name, sn_dtype dtype, int64_t elements);
sn_val sn_scattered_identity(sn_scattered *s);
/* Which row update number s->update goes into: the one behind the last, if it goes nowhere. In i32. */
sn_val sn_scattered_row(sn_scattered *s);
/* Element e of that update. What is computed in one loop is not there behind it. */
sn_val sn_scattered_value(sn_scattered *s, sn_ix e);

/* ---- scatter_block.c ---- */

/* The body of the kernel on a GPU. */
void sn_lower_scatter_blocks(sn_scattered *s);

#endif
