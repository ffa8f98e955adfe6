/* split_scan.h: a scan that is about to be cut into parts, for the two files of the pass `split-scan`. */
#ifndef SN_PASSES_LOOPS_SPLIT_SCAN_H
#define SN_PASSES_LOOPS_SPLIT_SCAN_H

#include "passes/base/nest.h"
#include "passes/base/pass.h"

enum { SN_CUT_ACCUMS = 4 };

typedef struct sn_scan_cut {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_stmt nest; /* the scan, in k */
    sn_chain outer;
    sn_stmt accums[SN_CUT_ACCUMS];
    uint32_t n;
    int64_t rows, count, parts, length;
    uint32_t bytes;        /* smallest element along the scan */
    uint32_t column_bytes; /* ... along the last outer loop */
    bool along;            /* the elements of a row are neighbours, else those of a step */
    bool one_launch;
    uint32_t vector;    /* elements that a thread loads at once along the scan */
    sn_ix lead;         /* elements between the start of a vector and that of the row, an ix over `outer`; none: 0 */
    int64_t share;      /* elements of a warp (one launch), else of the part */
    sn_axis part, warp; /* that count parts; warps of a part (one launch) */
    sn_buf sums[SN_CUT_ACCUMS], before[SN_CUT_ACCUMS]; /* of the parts; of all parts before (three launches) */
} sn_scan_cut;

/* scan_columns.c: how many elements of each column a part of one launch has; 0: one launch cannot do it. */
int64_t sn_scan_columns_length(const sn_scan_cut *c);
/* Columns (`along` does not hold) of parts of that length become one kernel, which is scheduled. */
void sn_scan_columns(sn_scan_cut *c);

/* The elements of a step that are neighbours where the scan accesses e, and where the next step begins behind them: the
 * last outer loops. *front: how many loops are left. 0: the access has no such run. */
int64_t sn_scan_run(const sn_scan_cut *c, sn_ix e, uint32_t *front);
/* split_scan.c: do columns that nobody cuts keep memory busy? */
bool sn_scan_columns_suffice(const sn_scan_cut *c);

/* scan_tiles.c: the kernel does its scan tile by tile in shared memory, and is scheduled; false: it stays as it is. */
bool sn_scan_tiles(sn_scan_cut *c);

#endif
