/* contract_rows.h: what contract_rows.c, which chooses, and contract_rows_bind.c, which binds, know of a product that is
 * as fast as one operand comes from memory. */
#ifndef SN_PASSES_SCHEDULE_PRODUCTS_CONTRACT_ROWS_H
#define SN_PASSES_SCHEDULE_PRODUCTS_CONTRACT_ROWS_H

#include "passes/schedule/products/contraction.h"
#include "passes/schedule/base/schedules.h"

typedef struct sn_contract_rows {
    sn_contraction c; /* the few rows are on the left: M */
    bool along;       /* the right operands are contiguous along the sum; else along the columns */
    uint32_t bytes;   /* smallest element that they are read by in that order */
    uint32_t vector;  /* elements of a widest access: divides the extents of the axis that it goes along */
    bool settled;     /* no kernel of a run stores the right operands */
    uint32_t run;     /* steps of the left operands in a widest access, where the right ones lie along the columns */
    uint32_t beside;  /* rows of the left operands in a widest access, where these lie beside each other; else 1 */
} sn_contract_rows;

/* Is the kernel a product? */
bool sn_contract_rows_find(sn_contract_rows *out, const char **why_not, sn_pass_ctx *cx, sn_kern k);

/* May all of the long operands come while the kernel in front runs (pass `start-early`)? No kernel stores them, and all threads of the
 * device together have room for them. */
bool sn_contract_rows_early(const sn_contract_rows *r, const sn_target *t);

/* Is it one whose blocks, each with whole sums, keep the memory busy, or that class contract cuts itself? Then the sums are not cut
 * before. */
bool sn_contract_rows_fill(sn_pass_ctx *cx, sn_kern k);

/* What a thread has, by the fields of a header. */
static inline uint32_t sn_contract_rows_groups(const sn_contract_rows *r, const sn_sched *sc) { /* of columns */
    return sc->tile_n / (r->along ? sc->block_y : sc->block_x * r->vector);
}
static inline uint32_t sn_contract_rows_steps(const sn_contract_rows *r,
                                              const sn_sched *sc) { /* of the sum, or vectors */
    return sc->tile_k / (r->along ? sc->block_x * r->vector : sc->block_y);
}

#endif
