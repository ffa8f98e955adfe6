/* window_bands.h: what window_bands.c chooses and window_bands_bind.c binds: windows of halves as products of bands.
 *
 * Eight neighbouring results of a row are a row of a product: its factors are the 16 elements (or 32, ..) that their windows have in
 * common, times the taps as a band of 8 columns:
 *
 *     | x0 x1 x2 .. x15 |   *   | w0          |
 *     | x8 x9 ...   x23 |       | w1 w0       |
 *       ...                     | w2 w1 w0    |
 *                               |    w2 w1 .. |
 *
 * Such rows overlap (ir/loop/mma.h): each begins 8 elements behind the one before, the next line of the image begins where the last
 * group of this one ends, and a tap along a column is so many elements on.
 */
#ifndef SN_PASSES_SCHEDULE_WINDOWS_WINDOW_BANDS_H
#define SN_PASSES_SCHEDULE_WINDOWS_WINDOW_BANDS_H

#include "ir/loop/mma.h"
#include "passes/schedule/windows/window.h"

/* Results of a row of the product: columns of an instruction. */
enum { SN_BAND = 8 };
/* Channels of a block where they lie innermost, at most. */
enum { SN_BANDS_SIDE = 16 };

typedef struct sn_window_bands {
    sn_window w;
    sn_mma mma;
    sn_dtype half;    /* of the elements in memory: halves ... */
    sn_dtype factor;  /* ... which are multiplied; of f32: its terms (contract_terms.c) ... */
    uint32_t n_terms; /* ... as many; 0: no */
    sn_val weight;    /* what an element is multiplied by */
    sn_val image;     /* the element as a half, if it is a load and no more: then threads copy pieces */
    sn_val mask;      /* ... where it holds, the same for all of a piece; none: everywhere */
    bool by_places;   /* ... and for all planes and steps: of places alone */
    int64_t reach;    /* places of a window along a row ... */
    int64_t run;      /* ... and of a band: whole steps of an instruction */
    int64_t piece;    /* elements that are copied together */
    int64_t lead;     /* places of a line in front of the first one, so that pieces are aligned */
    int64_t first;    /* the first result of a line is this one, 0 or less */
    int64_t zeros;    /* places that every line begins with, in front of the image, if pieces of whole lines do */
    int64_t
        images; /* planes that have the same weights: these, and their number is the quotient by that of the others */
    int64_t alike; /* planes side by side that have the same elements: results of a group */
    bool
        turned; /* channels lie innermost, and are turned on their way: a block has `side` of them, each a product of its own */
    int64_t wide; /* ... neighbours of which a thread stores together */
    /* Of a header: */
    int64_t rows, columns, planes; /* results of a block, one plane after the other, of the same weights */
    int64_t groups, lines;         /* bands of a line, lines of a plane's image */
    int64_t threads, blocks;       /* blocks of 16 rows of the product, of a warp */
    int64_t side;                  /* planes of the same elements that a block has side by side */
    int64_t at_hand;               /* steps of the sum besides taps (channels) whose images it has together */
    int64_t grid[4];               /* blocks along images, planes of one, rows, columns */
    int64_t stages;                /* images at hand or on their way: 2 in a pipe */
    int64_t elements, weights;     /* of the image and the bands of a step, in shared memory */
    int64_t turns, filled; /* turned: in which threads load an image, and elements of a plane's that they fill */
} sn_window_bands;

/* ---- window_bands.c ---- */

/* Are they windows of halves or of f32 that a matrix instruction could multiply? */
bool sn_window_halves_find(sn_window_bands *out, const char **why_not, sn_pass_ctx *cx, sn_kern k,
                           const sn_schedule_shape *sh);
bool sn_window_bands_find(sn_window_bands *out, const char **why_not, sn_pass_ctx *cx, sn_kern k,
                          const sn_schedule_shape *sh);
/* The parts of a header; false: there are none. */
bool sn_window_bands_measure(sn_window_bands *b, const sn_sched *sc);
/* Pieces of so many elements at most that memory has aligned for all lines, with what stands in front of them. */
void sn_window_bands_find_piece(sn_window_bands *b, int64_t most);
/* Neighbours that are channels of their own are planes side by side. */
void sn_window_take_lanes(sn_window *w);
/* Bytes that memory moves once. */
double sn_window_bands_memory(const sn_window *w);
/* Cycles of what would be chosen else; 0: nobody knows. */
sn_status sn_window_bands_other_cycles(double *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                       const sn_sched *pinned);

/* ---- window_turned.c: channels lie innermost ---- */

/* Can they be turned on their way? */
bool sn_window_turned_find(sn_window_bands *b);
/* What of a header is theirs, behind sn_window_bands_measure's. */
bool sn_window_turned_measure(sn_window_bands *b, const sn_sched *sc);
/* Where a channel begins in shared memory: what eights of lanes store at once lies in all banks. */
int64_t sn_window_turned_at(const sn_window_bands *b, int64_t channel);
int64_t sn_window_turned_elements(const sn_window_bands *b);
/* Of all threads for an image; of a thread. */
double sn_window_turned_instructions(const sn_window_bands *b);
double sn_window_turned_registers(const sn_window_bands *b);

/* ---- window_bands_bind.c ---- */

typedef struct sn_bands_binding {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_window_bands b;
    sn_ix plane;           /* number of the plane */
    sn_ix turn;            /* which steps of the sum are at hand */
    sn_ix row, column;     /* first window of the block along both */
    sn_buf image, weights; /* in shared memory */
    sn_buf acc, row_taps;  /* of a thread: sums, and a row of taps of which it makes bands */
    sn_val inside;         /* of what is copied: is it of a step at hand? None: it is */
    sn_mma_nest nest;
    uint32_t n_vals; /* that the module had */
} sn_bands_binding;

/* What threads do in their turns, which may be more than n. */
int64_t sn_bands_in_turns(const sn_bands_binding *b, int64_t n);
/* The number of what a thread *x does. */
sn_ix sn_bands_open_turns(sn_ix *x, sn_bands_binding *b, sn_cursor *at, int64_t n);
/* At plane number `plane` and step number `step` of what is summed besides taps. */
void sn_bands_start_copier(sn_bands_binding *b, sn_contraction_copier *c, sn_cursor at, sn_ix plane, sn_ix step);
/* The half that v was widened from; of f32: v. */
sn_val sn_bands_put_half(sn_bands_binding *b, sn_contraction_copier *c, sn_val v);
/* The element is 0 outside of the lines of the block, of the places that windows have, and where its own mask says so. */
sn_val sn_bands_put_element(sn_bands_binding *b, sn_cursor at, sn_ix step, sn_ix line, sn_ix place, sn_ix lane);
/* Where it is not 0, if that is of places alone (by_places). */
sn_val sn_bands_put_mask(sn_bands_binding *b, sn_cursor at, sn_ix line, sn_ix place);
/* The element there, and any other where that mask does not hold: memory is read in any case, so that nobody chooses addresses. The axes
 * `over` go over elements with one mask. */
sn_val sn_bands_put_any(sn_bands_binding *b, sn_cursor at, sn_ix step, sn_ix line, sn_ix place, sn_ix lane,
                        const sn_axis *over, uint32_t n_over);
/* The copier's loops are at tap number `row` and at the tap of place `place` of windows, where the mask that is returned holds. */
sn_val sn_bands_put_taps(sn_bands_binding *b, sn_contraction_copier *c, sn_ix row, sn_ix place);
/* The bands of what is at hand. */
void sn_bands_new_weights(sn_bands_binding *b);
void sn_bands_put_weights(sn_bands_binding *b, sn_cursor at);
/* Are there such results, counted from the block's first? Of neighbours `tested` is the one that tells. */
sn_val sn_bands_put_window_test(sn_bands_binding *b, sn_cursor at, sn_ix row, sn_ix tested);
/* The copier is at that result. */
void sn_bands_set_window(sn_bands_binding *b, sn_contraction_copier *c, sn_ix row, sn_ix column);

/* ---- window_turned_bind.c ---- */

/* Block number `images` along images, whose channels begin at `side`. */
void sn_window_turned_bind(sn_bands_binding *of, sn_cursor at, sn_ix images, sn_ix side);

#endif
