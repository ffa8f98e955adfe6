/* window.h: what window_find.c finds, and window.c and window_bind.c (GPUs), window_host.c and window_host_bind.c (the CPU)
 * schedule: reductions over windows that overlap.
 *
 *     loop c { loop i { loop j { %s = reduce sum s { reduce sum t { load x[.. 56*(i + s) + j + t] if .. } } .. } } }
 *
 * The elements of a window lie along lines: an outer axis moves the window on a line by `step` places, a loop of the
 * reduction walks through it by `dilation` places. Most kernels have two (rows and columns of images), some one.
 */
#ifndef SN_PASSES_SCHEDULE_WINDOWS_WINDOW_H
#define SN_PASSES_SCHEDULE_WINDOWS_WINDOW_H

#include "passes/schedule/products/contraction.h"
#include "passes/schedule/base/schedule.h"

/* A line without taps: each of its windows is a place of its own. */
#define SN_WINDOW_NO_TAP UINT32_MAX

/* Windows along a line; without one: a single window of a single place. */
typedef struct sn_window_line {
    bool there;
    uint32_t outer, tap;        /* positions in the outer chain and in the nest, or SN_WINDOW_NO_TAP */
    int64_t windows, taps;      /* extents of the two */
    int64_t step, dilation;     /* in places; dilation may be negative (flipped), neither has a factor with the other */
    int64_t unit;               /* elements from one place to the next */
    int64_t per_outer, per_tap; /* step * per_outer + dilation * per_tap = 1 */
} sn_window_line;

typedef struct sn_window {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    const sn_schedule_nest *nest;
    sn_stmt inner; /* innermost reduction */
    sn_stmt load;
    sn_val value;               /* what the nest makes of an element alone: conversions, what is outside */
    sn_window_line row, column; /* of the two the columns lie closer together; CPU: they may be without taps */
    int lanes; /* position of the outer axis along which neighbours lie, that is no line; -1: the columns do */
    int64_t n_lanes, n_planes; /* extent of that; iterations of all other outer axes, the planes */
    bool weights_apart;        /* a thread has one lane, and the block its weights in shared memory */
    bool shares;               /* what is made of an element is the same in planes that have the same elements */
    int64_t plane;             /* elements from one plane to the next; 0: they do not follow each other evenly */
    int64_t steps;             /* of the nest that walk along no line */
    uint32_t bytes;            /* of an element of x ... */
    uint32_t state_bytes;      /* ... of all states ... */
    uint32_t stored_bytes;     /* ... of the smallest element that is stored */
    int64_t store_lanes;       /* neighbours along the columns, or lanes, that all stores take as a vector; 0: none */
    uint32_t element_ops;      /* instructions for an element, where it is loaded ... */
    uint32_t sum_ops;          /* ... for what a tap adds to a sum ... */
    uint32_t other_ops;        /* ... for what the sums of a line share ... */
    uint32_t rest_ops;         /* ... for what is done with a result */
    struct sn_window_planes_at {
        int64_t n, stride;
    } known[32]; /* strides of planes that were asked for */
    uint32_t n_known;
} sn_window;

/* Is the kernel one? Its body has one reduction and no other region. */
bool sn_window_find(sn_window *out, const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);

/* What a local index adds to the offset of an element. */
typedef enum sn_window_part {
    SN_WINDOW_ROW,
    SN_WINDOW_COLUMN,
    SN_WINDOW_PLANE,
    SN_WINDOW_LANE,
    SN_WINDOW_STEP, /* first of the loops of the reduction that walk along no line */
    SN_WINDOW_PARTS = SN_WINDOW_STEP + SN_MAX_CHAIN
} sn_window_part;

/* The patch of a block: its results, and the elements that they are made of, as lines of pieces in shared memory. */
typedef struct sn_window_patch {
    int64_t planes, rows, columns, lanes; /* results of a block */
    /* ... of a thread: several planes where they have the same elements */
    int64_t own_planes, own_rows, own_columns, own_lanes;
    int64_t padded_rows, padded_columns; /* multiples of those of a thread */
    int64_t blocks[4];                   /* along planes, rows, columns, lanes */
    int64_t row_places, column_places;   /* of the windows of a thread */
    int64_t n[SN_WINDOW_PARTS];          /* positions of a part ... */
    int64_t stride[SN_WINDOW_PARTS];     /* ... elements between them in memory; 0: it is none ... */
    int64_t pitch[SN_WINDOW_PARTS];      /* ... and in shared memory */
    int64_t by_lines[SN_WINDOW_PARTS];   /* lines from one position to the next; 0: they are in one line */
    int64_t piece, line, lines;          /* elements of a piece; pieces of a line */
    int64_t threads, tiles;              /* of the block; of threads */
    int64_t weights_pitch; /* elements from one tap to the next, where weights are in shared memory; else 0 */
} sn_window_patch;

/* Places that so many windows have. */
int64_t sn_window_places(const sn_window_line *l, int64_t windows);
/* Elements from one plane of a block to the next, where each block has n; -1: they do not follow each other evenly. */
int64_t sn_window_plane_stride(sn_window *w, int64_t n);
/* The patch of a header; false: there is none. */
bool sn_window_measure(sn_window_patch *out, sn_window *w, const sn_sched *sc);
/* Lanes of the stores that a thread makes of its own results; 0: they pass through shared memory. Threads store what they have where
 * each has whole pieces, or neighbours have neighbouring lanes. */
int64_t sn_window_direct(const sn_window *w, const sn_window_patch *p);
/* Bytes of shared memory for elements and weights, and for results that pass through it: turns are rounded, and offsets that no thread
 * stores to have room, as window_bind.c makes it. */
int64_t sn_window_patch_bytes(const sn_window *w, const sn_window_patch *p);
int64_t sn_window_out_bytes(const sn_window *w, const sn_window_patch *p);
/* Does the nest load there what it multiplies elements with, of a place that taps, planes and lanes alone say? */
bool sn_window_is_weight(const sn_window *w, sn_stmt s);
/* Outer axes that are planes, as the parts of the number of a plane. Returns how many. */
uint32_t sn_window_planes(sn_axis *axes, sn_ix *with, const sn_window *w, sn_ix plane);

/* ---- window_place.c: copies of the nest at another place ---- */

/* The place of the tap that comes first, counted from that of tap 0. */
int64_t sn_window_first_place(const sn_window_line *l);
/* Does loop i of the nest walk along no line? */
bool sn_window_is_step(const sn_window *w, uint32_t i);
void sn_window_set_axis(sn_contraction_copier *c, sn_axis ax, sn_ix e);
/* The window's own number is `window`; of its places, counted from the first one, the copier sees number `place`. */
void sn_window_set_line(sn_contraction_copier *c, const sn_window *w, const sn_window_line *l, sn_ix window,
                        sn_ix place);
/* The loop of the nest is at tap number `tap` of the line, whose outer axis is not read. */
void sn_window_set_tap(sn_contraction_copier *c, const sn_window *w, const sn_window_line *l, sn_ix tap);
/* Copies what v is made of besides the value of an element: the same for all windows. */
void sn_window_copy_others(sn_contraction_copier *c, const sn_window *w, sn_val v);
/* Does s load what a plane has one of, as a bias? */
bool sn_window_is_of_plane(const sn_window *w, sn_stmt s);
/* Copies what the body stores of the result at the copier's place, where its mask holds. */
void sn_window_put_stores(sn_contraction_copier *c, const sn_window *w);
/* A loop over all blocks of a grid, of which `number` becomes the parts; or one over them in a single block. Where it stands inside. */
sn_cursor sn_window_open_grid(sn_ix *number, sn_module *m, sn_kern k, const int64_t *blocks, uint32_t n, bool one);
/* Turns that threads take are written out, so that their accesses go together; many by groups that are as even as possible, which
 * may be more turns in all. The number of the turn. */
int64_t sn_window_all_turns(int64_t turns);
sn_ix sn_window_open_turns(sn_module *m, sn_cursor *at, int64_t turns);

#endif
