/* window_pixels.h: what window_pixels.c chooses and window_pixels_bind.c binds: windows of several channels as products of pixels.
 *
 * Eight channels of a pixel are 16 bytes of shared memory, the pixels of a line lie one behind the other. A pixel is a row of a product:
 * its factors are its channels and those of the pixels behind it, as many as a window reaches, times the taps of eight results.
 *
 *     | p0c0 .. p0c7  p1c0 .. p1c7  p2c0 .. p2c7 .. |   *   | w[n, c, t] of 8 results n, |
 *     | p1c0 .. p1c7  p2c0 .. p2c7  p3c0 .. p3c7 .. |       | by t, then c              |
 *       ...
 *
 * Such rows overlap (ir/loop/mma.h): each begins 8 elements behind the one before; a tap along a column is a line further on. It stands on
 * what bands are (window_bands.h), whose rows are eight neighbours of a line instead.
 */
#ifndef SN_PASSES_SCHEDULE_WINDOWS_WINDOW_PIXELS_H
#define SN_PASSES_SCHEDULE_WINDOWS_WINDOW_PIXELS_H

#include "passes/schedule/windows/window_bands.h"

/* Rows of the product are pixels (`vector=8`), or its columns are pairs of them (`vector=2`), which make 16 rows of eight results:
 *
 *     | w[0, t]          |   *   | p0 p2 .. p14 |      of each row the first half has the taps of the first pixel of a pair, the second half
 *     | ..    w[0, t-1]  |       | p1 p3 .. p15 |      those of the other: as many steps as an odd reach is padded to
 *                                  ..
 *
 * Pixels of even and of odd places are images of their own then, so that pairs lie side by side in either, and a thread has four neighbours
 * of a line, which it stores together. Of windows that move by two, pairs are four places apart, whose images are four.
 */
enum { SN_PIXELS_PAIR = 2 };

/* How lines lie in shared memory for either: as in sn_window_bands. */
typedef struct sn_pixels_lines {
    int64_t piece, lead, zeros;
} sn_pixels_lines;

typedef struct sn_window_pixels {
    /* `run`: of a row of taps; `groups`: pixels of a line; `elements`: from one eight of channels to the next in shared memory, or from one phase of pairs; `weights`: of
     * an eight of channels; `side`: eights of results that a warp has together */
    sn_window_bands b;
    bool last;      /* channels lie innermost in memory */
    int64_t joined; /* groups of fewer than eight channels that are one, with zeros between them ... */
    int64_t own;    /* ... results of a group ... */
    int64_t outs;   /* ... and of what is one */
    int64_t parts;  /* eights of channels of that */
    int64_t terms;  /* of an element: 1, but of f32 */
    /* Windows that move by two places: pixels of even and of odd places are images of their own, in which they move by one. */
    int64_t down, across;     /* places by which windows move */
    int64_t phases;           /* such images */
    int64_t taps, apart;      /* rows of taps in such an image; lines from one to the next */
    sn_pixels_lines one, two; /* of pixels, and of pairs */
    /* Of a header: */
    bool pairs;
    int64_t turns;  /* of pairs, in which threads load them: one image ahead, while warps multiply */
    int64_t many;   /* of those that a block has side by side: neighbours in memory, where channels lie innermost */
    int64_t all;    /* rows of the product */
    int64_t filled; /* elements of an eight of channels that are written */
    int64_t sums;   /* from one plane of results in shared memory to the next ... */
    int64_t wide;   /* ... of which a thread stores so many together */
} sn_window_pixels;

bool sn_window_pixels_find(sn_window_pixels *out, const char **why_not, sn_pass_ctx *cx, sn_kern k,
                           const sn_schedule_shape *sh);
/* Places of a line from a pair to the next one: phases along it. */
int64_t sn_window_pixels_by(const sn_window_pixels *p);
/* Where the first place of a window of pairs is in the image of such a phase. */
int64_t sn_window_pixels_start(const sn_window_pixels *p, int64_t phase);
/* The parts of a header; false: there are none. */
bool sn_window_pixels_measure(sn_window_pixels *p, const sn_sched *sc);

#endif
