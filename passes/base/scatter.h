/* scatter.h: where a scatter that combines is worth rows of sums that a block has to itself, and how updates are dealt out. */
#ifndef SN_PASSES_BASE_SCATTER_H
#define SN_PASSES_BASE_SCATTER_H

#include "passes/base/pass.h"

/* `count` updates of `width` elements each go into `rows` rows.
 *
 * On a GPU a block takes `columns` of these elements of every update of its part, and has `walkers` rows of sums for each row, since
 * walker k takes the updates k, k + walkers, .. of the part. Of its threads `adders` own `lanes` neighbouring elements of one walker each:
 * nobody else adds to these sums. The others help to clear them and to hand them on. On the CPU a part is `steps` updates, in their order. Its
 * rows are in the cache of a core while it adds up, or else, `in_memory`, where it hands them on: `room` of them. */
typedef struct sn_scatter_plan {
    int64_t rows, width, count;
    int64_t lanes, columns, walkers, adders, threads;
    int64_t strips; /* blocks beside one another that share the width */
    int64_t parts;  /* of the updates */
    int64_t steps;  /* updates of a walker: a multiple of `batch` */
    int64_t batch;  /* updates of a walker that are on their way together */
    int64_t room;   /* rows that a part hands on */
    bool in_memory;
} sn_scatter_plan;

/* `bytes`: of an element of the sums. false: rows are too many, beside what a block holds or beside the updates. */
bool sn_scatter_plan_make(sn_scatter_plan *out, const sn_target *target, uint32_t bytes, int64_t rows, int64_t width,
                          int64_t count);

#endif
