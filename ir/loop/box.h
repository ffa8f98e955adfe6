/* box.h: boxes: nests that copy a block of an array between global and shared memory, which one instruction can do
 * (a tensor copy, TMA).
 *
 *     loop i in 128 : seq bulk { loop j in 64 {
 *       %0 = in 128*p + i, 1000   %1 = load x[4096*(128*p + i) + 64*k + j] if %0 else 0   store a[64*i + j], %1
 *     } }
 *
 * A box is a perfect nest of seq loops outside of all axes of threads, the outermost one bulk. It loads an element
 * and stores it; on one side is shared memory, filled or read in order; on the other side an array of up to five
 * dimensions, one for each loop and one for what is left of the offset. A test `in` bounds one of them: outside, 0
 * is loaded, or nothing is stored. What the dimensions are is read off the offset here alone: for the pass that
 * makes boxes, the verifier and code generation.
 *
 * Lines may be pixels, as a convolution walks over images (TMA in im2col mode). Then a value of the nest numbers
 * them, and what divides it says which axes they have; taps move all of them alike, and tests bound each axis by
 * itself:
 *
 *     loop i in 128 : seq bulk { loop j in 64 {
 *       %p = index.i64 (128*g + i)
 *       %0 = in %p, 6272   %1 = in ((%p div 28) mod 28) + s - 1, 28   %2 = in (%p mod 28) + t - 1, 28   %3 = and ..
 *       %4 = load x[64*%p + 1792*s + 64*t + j - 1856] if %3 else 0   store a[64*i + j], %4
 *     } }
 */
#ifndef SN_IR_LOOP_BOX_H
#define SN_IR_LOOP_BOX_H

#include "ir/loop/loop.h"

enum { SN_BOX_DIMS = 5 };

typedef struct sn_box_dim {
    int64_t stride, size; /* elements; of the array */
    int64_t box;          /* elements of the box */
    sn_ix at;             /* where the box begins; may lie outside where a test bounds the dimension */
    /* Of an axis of pixels: */
    int64_t low, step, count; /* pixels without a tap stand at low, low + step, .., so many of them */
    sn_ix tap;                /* added to where they stand; not negative. at: of the first pixel, without it */
} sn_box_dim;

typedef struct sn_box {
    sn_stmt load, store;
    sn_buf global, shared;
    bool fills;      /* shared memory; else it stores to global memory */
    int64_t offset;  /* of the array, from the start of the storage */
    sn_ix shared_at; /* where the box begins in the shared buffer, behind what belongs to blocks before this one */
    uint32_t rank;
    sn_box_dim dims[SN_BOX_DIMS]; /* innermost first: stride 1; pixels: channels, axes of an image, images */
    int64_t pixels;               /* lines, if they are pixels; else 0 */
    int64_t elements;
} sn_box;

/* Is the nest a box that a tensor copy can move? *why_not is set where the answer is no. */
bool sn_box_find(sn_box *out, const char **why_not, sn_module *m, sn_stmt nest);
/* Where boxes fill shared memory, so many threads of a block are for them alone, behind those that axes count. */
enum { SN_BOX_THREADS = 128 };
uint32_t sn_kern_box_threads(const sn_module *m, sn_kern k);
/* Registers of a thread of such a block that computes, of `threads` of them, where so many blocks are resident: the
 * threads that copy begin with as many as all, and leave them what they do not need. */
enum { SN_BOX_REGS = 24 /* of those that copy */ };
typedef struct sn_box_share {
    uint32_t all, computes; /* what threads begin with; what those that compute have then, if not as many */
} sn_box_share;
sn_box_share sn_box_registers(uint32_t threads, uint32_t blocks);
/* Is the loop a pipe that boxes fill, and nothing else? Then its barrier is none for threads: it waits for the
 * boxes. */
bool sn_pipe_of_boxes(const sn_module *m, sn_stmt pipe);
/* Is s the barrier of such a pipe? */
bool sn_is_box_barrier(const sn_module *m, sn_stmt s);
/* Does s, a bulk loop, stand outside of all axes of threads? Then it has to be a box. */
bool sn_is_box(const sn_module *m, sn_stmt s);

#endif
