/* library.h: a matrix product or a convolution as a call of a library: what a BLAS or cuDNN is asked for, read off the nest
 * of a kernel.
 *
 * A kernel whose schedule has class `library` keeps its plain nest, which says what it means. Who runs it on a library
 * (runtime/) is told what stands here. Which of them a library has is its own business, and asked of it.
 */
#ifndef SN_IR_LOOP_LIBRARY_H
#define SN_IR_LOOP_LIBRARY_H

#include "ir/loop/loop.h"

/* A matrix in memory. Its columns are contiguous and lie `ld` elements apart; those of one that is transposed are rows. */
typedef struct sn_library_matrix {
    uint32_t param; /* parameter of the kernel that it lies in ... */
    int64_t offset; /* ... from this element on */
    int64_t ld;
    int64_t stride; /* elements from one matrix of the batch to the next; 0: all of them are this one */
    bool transposed;
    uint32_t align; /* bytes that the first element of each is a multiple of, in the storage of its parameter */
    sn_dtype dtype;
} sn_library_matrix;

/* A convolution:
 *
 *     c[batch, group, out, q..] = sum over in, t.. of a[batch, group, in, place..] * b[group, out, in, t..]
 *
 * over one to three axes, where place = (q*stride + t*dilation - low) / apart along each, and a is 0 where that is no
 * integer or not in 0 .. size-1. Which gradient of which convolution that is depends on who looks at it. */
enum { SN_LIBRARY_WINDOWS = 3 };

/* Elements from one index to the next; of who does not have the axis 0. */
typedef struct sn_library_axis {
    int64_t size, a, b, c;
} sn_library_axis;

/* The image lies where place is 0. b may walk backwards; it lies where its first element in memory is. */
typedef struct sn_library_window {
    int64_t size, results, taps;
    int64_t a, b, c; /* elements from one place, tap, result to the next */
    int64_t stride, dilation, apart, low;
} sn_library_window;

/* Without the elements beside those that windows reach; how far the first one is from where the first was. What the calls of
 * nests have is cropped. */
int64_t sn_library_crop(sn_library_window *w);

typedef struct sn_library_conv {
    sn_library_axis batch, groups, out, in; /* size 1 where there is none */
    uint32_t n;                             /* windows, by the steps of the image, the largest first */
    sn_library_window at[SN_LIBRARY_WINDOWS];
} sn_library_conv;

/* c[m, n] = epilogue(a[m, k] * b[k, n]), for each of a batch; or a convolution of a by b. */
typedef struct sn_library_call {
    bool is_conv;         /* then `conv` counts, and of the matrices where they lie */
    sn_library_conv conv; /* without an epilogue */
    int64_t m, n, k, batch;
    sn_dtype sum; /* of the products and their sums; the epilogue is computed in it, and rounded once, to that of c */
    sn_precision precision; /* that products of f32 may have: less than exact is a permission */
    sn_library_matrix a, b, c;
    bool has_bias, relu;    /* the epilogue: + bias, then the maximum of that and 0 */
    sn_library_matrix bias; /* m elements, added to every column */
    uint32_t algo;          /* which of the library's algorithms for it, as the library lists them */
} sn_library_call;

enum { SN_LIBRARY_WHY = 256 }; /* bytes of an answer why not */

/* Who knows which library there is, asked by passes: can it run this? Otherwise `why` says what is missing. */
typedef struct sn_library {
    bool (*takes)(void *user, const sn_library_call *call, char why[SN_LIBRARY_WHY]);
    void *user;
} sn_library;

/* Does a library run the kernel? Then there is no code for it. */
static inline bool sn_kern_is_library(const sn_kern_rec *k) { return k->scheduled && k->sched.cls == SN_SCHED_LIBRARY; }

/* The call that does what the kernel does, with the parameters that it has. false: there is none, and why not. Extents
 * have to be constants, and every access inside its buffer: a library tests nothing. */
bool sn_library_read(sn_library_call *out, const char **why_not, sn_module *m, sn_kern k);

#endif
