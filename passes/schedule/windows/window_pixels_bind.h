/* window_pixels_bind.h: what window_pixels_bind.c and window_pairs_bind.c, which has what pairs of pixels do otherwise, have in common. */
#ifndef SN_PASSES_SCHEDULE_WINDOWS_WINDOW_PIXELS_BIND_H
#define SN_PASSES_SCHEDULE_WINDOWS_WINDOW_PIXELS_BIND_H

#include "passes/schedule/products/contract_bind.h"
#include "passes/schedule/windows/window_pixels.h"

enum { SN_PIXELS_MANY = 8 };

typedef struct sn_pixels_binding {
    sn_bands_binding of;
    sn_window_pixels p;
    /* By terms (of halves the first one alone): of elements, of their taps; sums of a term of elements by all terms that it is multiplied by */
    sn_buf images[SN_MOST_TERMS], taps[SN_MOST_TERMS], accs[SN_PIXELS_MANY][SN_MOST_TERMS];
    sn_buf turn;       /* pixels of eight channels, as many as a thread brings together */
    sn_buf sums;       /* of eight planes, in shared memory */
    sn_buf own, spare; /* sums of f32 that terms have given; once more, where some are added up again */
    /* Loads of what a plane has one of, which come in front of all images: nobody waits for them in each */
    sn_stmt of_plane[SN_MOST_AHEAD];
    sn_buf held[SN_MOST_AHEAD];
    uint32_t n_held;
    sn_ix held_at; /* where a thread has that of the result's plane */
} sn_pixels_binding;

/* A result: its number among the planes of the block's, counted from the first of eight, and its window, counted from the block's. */
typedef struct sn_pixels_spot {
    sn_ix plane, row, column;
} sn_pixels_spot;

/* ---- window_pixels_bind.c ---- */

/* Eights of channels that a block has. */
int64_t sn_pixels_chunks(const sn_pixels_binding *b);
/* Taps stand in permuted lines of so many elements, so that those of eight results lie in all banks. */
int64_t sn_pixels_width(int64_t depth);
/* Channel c of eight number `chunk` at a place of a line. */
sn_val sn_pixels_put_element(sn_pixels_binding *b, sn_cursor at, sn_ix chunk, sn_ix c, sn_ix line, sn_ix place,
                             sn_ix lane);
/* The same by sn_bands_put_any. */
sn_val sn_pixels_put_any(sn_pixels_binding *b, sn_cursor at, sn_ix chunk, sn_ix c, sn_ix line, sn_ix place, sn_ix lane,
                         const sn_axis *over, uint32_t n_over);
/* Is there such a window? */
sn_val sn_pixels_put_inside(sn_pixels_binding *b, sn_cursor at, sn_val mask, const sn_pixels_spot *s);
/* What the body does with the sum of a window, whose plane is counted from the block's. */
void sn_pixels_put_result(sn_pixels_binding *b, sn_cursor at, const sn_pixels_spot *s, sn_val sum, sn_val mask);

/* ---- window_pairs_bind.c ---- */

/* Of an image of those at hand: the pixels of a phase of an eight of channels. */
sn_mma_nest sn_pairs_nest(const sn_pixels_binding *b, int64_t image);
/* The place in a window that the taps of row `column` of that nest's have at pixel `place` of a run. */
sn_ix sn_pairs_place(sn_pixels_binding *b, sn_ix phase, sn_ix column, sn_ix place);
/* The result that row `column` is of, of those of all planes side by side. */
sn_ix sn_pairs_plane(sn_pixels_binding *b, sn_ix column);
/* The first image of the block to registers. */
void sn_pairs_put_first(sn_pixels_binding *b, sn_cursor at);
/* Image number `image` of the block, of which planes lie `apart`, to shared memory, and the next one to registers. */
void sn_pairs_put_image(sn_pixels_binding *b, sn_cursor at, sn_ix image, int64_t apart);
void sn_pairs_put_results(sn_pixels_binding *b, sn_cursor at);
/* What planes have one of, to registers, in front of images whose planes lie `apart`. */
void sn_pairs_hold(sn_pixels_binding *b, sn_cursor at, int64_t apart);

#endif
