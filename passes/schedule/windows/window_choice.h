/* window_choice.h: how a header of class window is chosen on a GPU, whatever its variant.
 *
 * A variant is a row of schedules.def: `window` (threads), `window_bands`, `window_pixels`. Its file finds kernels, measures
 * the parts of a header and counts their cycles, `<row>_bind.c` binds them; the rest of choosing stands here. A new variant
 * is a row, two such files, and a flag or a value of `vector` that tells its headers.
 */
#ifndef SN_PASSES_SCHEDULE_WINDOWS_WINDOW_CHOICE_H
#define SN_PASSES_SCHEDULE_WINDOWS_WINDOW_CHOICE_H

#include "passes/schedule/windows/window.h"

/* What a header comes to. */
typedef struct sn_window_count {
    double cycles; /* of a multiprocessor; 0: there is no such header */
    double fit;    /* blocks that it has at a time, and shall have; 0: those may be others */
} sn_window_count;

/* The header of the fewest cycles, of those that were considered. It says how many blocks were counted on: assemblers give their threads
 * no more registers than those have room for, and no fewer, which each of them would choose in another way. */
typedef struct sn_window_choice {
    const sn_sched *pinned;
    void *of; /* what the variant has found; it may note a header's parts there */
    sn_window_count (*count)(void *of, const sn_sched *sc);
    sn_sched best;
    double cycles; /* 0: there is none yet */
} sn_window_choice;

void sn_window_consider(sn_window_choice *c, const sn_sched *sc);

/* Values of a part of a header that are tried: each once, and none of 0 or less. */
enum { SN_WINDOW_MOST_OPTIONS = 32 };
typedef struct sn_window_options {
    int64_t at[SN_WINDOW_MOST_OPTIONS];
    uint32_t n;
} sn_window_options;

void sn_window_add_option(sn_window_options *o, int64_t x);

/* Headers whose warps multiply, each `unroll` blocks of 16 rows (or 8 columns) of one product, in which all lines of a block follow each
 * other. 0 rows: there is none. */
typedef struct sn_window_products {
    int64_t (*rows_of_line)(void *of, const sn_sched *sc);
    int64_t most_parts; /* of a line, */
    bool halved;        /* one, two, four, ..; else one, two, three, .. */
    int64_t unit;       /* columns that a part is a multiple of */
} sn_window_products;

/* All of them, with as few blocks for a warp as there are rows: sc says which variant they are of. */
void sn_window_consider_products(sn_window_choice *c, const sn_window *w, const sn_window_products *p, sn_sched sc);

/* ---- what the counts have in common ---- */

/* Blocks of a grid that a multiprocessor has at a time; 0: it has room for none, or for too few of their threads. */
double sn_window_fit(const sn_target *t, double threads, double regs, double bytes);
/* Cycles of what a multiprocessor does beside each other: the longest, and what `fit` blocks do not hide of the rest. */
double sn_window_beside(const double *parts, uint32_t n, double fit);

#endif
