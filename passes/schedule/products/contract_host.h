/* contract_host.h: what contract_host.c plans for a matrix product on the CPU and contract_host_bind.c binds. */
#ifndef SN_PASSES_SCHEDULE_PRODUCTS_CONTRACT_HOST_H
#define SN_PASSES_SCHEDULE_PRODUCTS_CONTRACT_HOST_H

#include "passes/schedule/products/contract_words.h"
#include "passes/schedule/base/schedule.h"

/* How a tile has the elements of an operand at hand. */
typedef enum sn_contract_panel {
    SN_PANEL_NONE,  /* they are computed where they are multiplied */
    SN_PANEL_ALONG, /* packed, read along the sum */
    SN_PANEL_ACROSS /* packed, read along rows or columns */
} sn_contract_panel;

typedef struct sn_contract_plan {
    sn_dtype dtype;          /* that is multiplied and added up */
    sn_contract_words words; /* that it is multiplied in: all that follows counts words as steps of the sum */
    int64_t k;               /* steps */
    int64_t depth;           /* steps of the sum in a vector; 1: vectors lie along columns */
    int64_t lanes;           /* columns in a vector of sums */
    int64_t rows, width;     /* of a block, whose sums stay in registers; columns: vectors * lanes */
    int64_t vectors;
    int64_t tile_m, tile_n, tile_k;
    int64_t line; /* columns of a line of memory, where the tile has it whole: packed by itself; 0: none */
    int64_t tiles_m, tiles_n, parts; /* how many */
    bool together;                   /* all products by one thread */
    int64_t run;                     /* steps that a register takes in; no more than tile_k */
    sn_contract_panel panel[SN_MOST_OPERANDS];
    double cycles; /* of a thread, about, with all tiles */
} sn_contract_plan;

/* Choose what is open in *sc and plan for it. false: there is nothing to gain by the class, or its buffers do not fit. */
bool sn_contract_plan_find(sn_contract_plan *out, sn_sched *sc, sn_pass_ctx *cx, const sn_contraction *c);

/* The widest vector of at most `lanes` neighbours along a side (sides NULL: of all axes) that never crosses from one
 * iteration of an axis into the next. */
int64_t sn_contract_whole_lanes(const int64_t *extents, const sn_contraction_side *sides, uint32_t n,
                                sn_contraction_side side, int64_t lanes);

/* Vectors in which a line of a panel is packed, the last one over the one before it where need be, and their lanes. */
int64_t sn_contract_line_lanes(int64_t line, int64_t widest);
/* Are the columns of a tile packed line by line? Those of vectors along columns lie side by side then, not block by block. */
bool sn_contract_packs_lines(const sn_contract_plan *p, const sn_contraction *c, uint32_t operand);

/* Is one run all, and does every block store all that it has? Then the rest of the body reads the registers. */
bool sn_contract_is_direct(const sn_contract_plan *p, const sn_contraction *c);

#endif
