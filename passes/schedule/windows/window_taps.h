/* window_taps.h: what window_taps.c finds and chooses, and window_taps_bind.c binds: sums over pixels, one for each tap of windows, as gradients
 * of weights are.
 *
 *     loop c { loop k { loop l { %s = reduce sum n { reduce sum i { reduce sum j { x[n, c, i + k, j + l] * g[n, c, i, j] } } } .. } } }
 *
 * One of the factors moves on with a tap as it does with a loop of the sum, which make a *line*; the other one does not see the tap.
 */
#ifndef SN_PASSES_SCHEDULE_WINDOWS_WINDOW_TAPS_H
#define SN_PASSES_SCHEDULE_WINDOWS_WINDOW_TAPS_H

#include "passes/schedule/products/contraction.h"
#include "passes/schedule/base/schedule.h"

/* What an outer axis is. */
typedef enum sn_taps_part {
    SN_TAPS_BATCH, /* both factors depend on it */
    SN_TAPS_LANES, /* ... and along it neighbours lie */
    SN_TAPS_LINE,  /* the tap of the line */
    SN_TAPS_MOVED, /* the factor on the line alone, or none */
    SN_TAPS_STILL, /* the other one alone */
    SN_TAPS_PARTS
} sn_taps_part;

/* What one value of a factor takes. */
typedef struct sn_taps_cost {
    double instructions; /* without its loads ... */
    double loads;        /* ... which are so many */
    int64_t step; /* bytes from a lane to the next one of the load that spreads most, where a thread has one place */
    double bytes; /* that all loads read, each element once */
} sn_taps_cost;

typedef struct sn_taps {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_contraction c;
    sn_val moved, still; /* factors: the one on the line, the other one */
    sn_taps_part part[SN_MAX_CHAIN];
    int64_t n[SN_TAPS_PARTS]; /* iterations of all axes of a part */
    uint32_t loop;            /* of the sum, on the line */
    int64_t places;           /* its extent */
    /* The same element: a tap forward, or `step` taps back and `apart` places on. */
    int64_t step, apart;
    bool along; /* lanes go along the line, too: each begins behind the places of the one before */
    sn_taps_cost of_moved, of_still;
    double stored; /* bytes of results */
} sn_taps;

/* What a header makes of it. */
typedef struct sn_taps_tile {
    int64_t run, taps, moved, still; /* places of the line, taps and iterations of parts that a thread has together */
    int64_t elements;                /* of the line that they take */
    int64_t sums;                    /* of a thread */
    int64_t lanes, rows;             /* threads x and y of a block */
    int64_t sharing;                 /* of them, that share a sum */
    int64_t blocks[SN_TAPS_PARTS];   /* along parts */
    int64_t chunks, positions;       /* of places: runs; of the sum: chunks times iterations of its other loops */
    int64_t turns, each, parts;      /* of a thread; positions of a block; blocks that share a sum */
    int64_t results;                 /* of a block */
} sn_taps_tile;

/* Is the kernel one? */
bool sn_taps_find(sn_taps *out, const char **why_not, sn_pass_ctx *cx, sn_kern k);
/* false: there is no such tile. */
bool sn_taps_measure(sn_taps_tile *out, const sn_taps *t, const sn_sched *sc);

#endif
