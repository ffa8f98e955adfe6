/* mma.h: the promise `mma(name)`: a nest over threads multiplies tiles as a row of mma.def does.
 *
 *     loop x in 256 : block.x mma(wgmma.bf16) {
 *       loop h in 1 : unroll { loop j in 32 : unroll { loop e in 4 : unroll {
 *         %0 = reduce sum q in 64 { %1 = load a[A(row, q)]  %2 = cast.f32 %1  %3 = load b[B(col, q)] ...  yield %5 }
 *         %6 = load acc[E(x, h, j, e)]   %7 = add %6, %0   store acc[E(x, h, j, e)], %7
 *       } } }
 *     }
 *
 * Every thread adds products to the elements of a tile that are its own, in registers, and reads both operands from shared
 * memory: the nest means that. What an instruction can take instead is decided by its index expressions, which are these
 * and no others; so the verifier builds them and compares.
 *
 * Groups of `threads` threads lie in `columns` columns over the tile, row-major. A group has h in tiles_m blocks of m
 * rows, one below the other, and j in tiles_n blocks of n columns. In a block of 16 or 8 rows of a warp
 *
 *     row = lane div 4 + 8*(e div 2)      column = 2*(lane mod 4) + e mod 2
 *
 * and a warpgroup's four warps have 16 rows each. Operands lie in shared memory in rows of `width` elements, which are as
 * long as the buffer's swizzle: along the sum (K), or along rows or columns of the tile (then `across`). A nest may take some
 * of the `steps` of the sum that lie there:
 *
 *     K:       (q div width)*(rows*width) + width*row + q mod width
 *     across:  (row div width)*(steps*width) + width*q + row mod width
 *
 * Across, the next `width` rows or columns may also begin 1 to 4 lines behind these: they share the others.
 *
 * For a warp's instructions rows may *overlap*: each begins 16 bytes (c elements) behind the one before, and has `run` steps there; the
 * next ones lie `jump` elements on. Windows of an image are such rows.
 *
 *     jump*(q div run) + c*row + q mod run
 *
 * The left operand of a warpgroup may be in registers instead, its *fragment*: then an element is loaded from the registers of
 * the thread that has it, which no other statement may do. The four lanes that have a row share its steps: in a step of the
 * instruction, k = 8*c, each has c neighbours of the first half and c of the second (c elements are 4 bytes):
 *
 *     lane mod 4 = (q div c) mod 4      element (((h, q div k), (q mod k) div 4*c), e div 2), q mod c
 */
#ifndef SN_IR_LOOP_MMA_H
#define SN_IR_LOOP_MMA_H

#include "ir/loop/loop.h"

typedef enum sn_mma {
    SN_MMA_NONE,
#define SN_MMA(ID, name, sm, m, n, k, threads, rate, operand, state, sides, doc) SN_MMA_##ID,
#include "ir/loop/mma.def"
#undef SN_MMA
    SN_N_MMAS
} sn_mma;

typedef struct sn_mma_info {
    const char *name;
    uint32_t sm, m, n, k, threads, rate;
    sn_dtype operand, state;
    bool across; /* operands may lie across the sum */
    const char *doc;
} sn_mma_info;
extern const sn_mma_info sn_mmas[SN_N_MMAS];

/* Is it given by warpgroups, to be waited for? */
static inline bool sn_mma_is_async(sn_mma mma) { return sn_mmas[mma].threads > 32; }
/* May a block have so many columns? Those that warpgroups multiply have 256 at most; of integers, beyond 32, multiples of 16. */
static inline bool sn_mma_takes_columns(sn_mma mma, int64_t n) {
    const sn_mma_info *info = &sn_mmas[mma];
    bool coarse = sn_mma_is_async(mma) && info->state == SN_I32 && n > 32;
    return n > 0 && n % info->n == 0 && !(coarse && n % 16) && (!sn_mma_is_async(mma) || n <= 256);
}
/* Elements that a thread has of a smallest block. */
static inline uint32_t sn_mma_elements(sn_mma mma) { return sn_mmas[mma].m == 8 ? 2 : 4; }

/* An operand in shared memory, or a fragment: `buf` alone counts. */
typedef struct sn_mma_operand {
    sn_buf buf;
    int64_t rows, width; /* of the tile: along M or N; elements that stand in a row */
    int64_t
        steps; /* of the sum that lie there, if others than those of the nest; across: lines to the next rows; 0: no */
    bool across;
    bool in_registers;
    int64_t run, jump; /* rows overlap: steps side by side, and elements from these to the next ones; 0: they do not */
    sn_ix at;          /* where the tile begins in the buffer; none: at its first element */
} sn_mma_operand;

/* As few lines from columns that lie across to the next ones, so that they share lines. */
enum { SN_MMA_LINES = 4 };

typedef struct sn_mma_nest {
    sn_mma mma;
    uint32_t threads, columns; /* of the block; groups side by side */
    uint32_t tiles_m, tiles_n; /* blocks of a group */
    int64_t depth;             /* of the sum: multiple of k */
    sn_buf state;              /* reg: sn_mma_private elements a thread */
    sn_mma_operand a, b;
    sn_ix rank; /* of the block in its cluster */
} sn_mma_nest;

/* Elements of a thread. */
uint32_t sn_mma_private(const sn_mma_nest *n);
/* Rows and columns of the tile. */
int64_t sn_mma_rows(const sn_mma_nest *n);
int64_t sn_mma_columns(const sn_mma_nest *n);
/* Row and column in the tile of element (h, j, e) of thread x, and its offset in the registers. */
sn_ix sn_mma_row(sn_module *m, const sn_mma_nest *n, sn_ix x, sn_ix h, sn_ix e);
sn_ix sn_mma_column(sn_module *m, const sn_mma_nest *n, sn_ix x, sn_ix j, sn_ix e);
sn_ix sn_mma_element(sn_module *m, const sn_mma_nest *n, sn_ix x, sn_ix h, sn_ix j, sn_ix e);
/* Elements of a thread in a fragment, and the offset of element (row of (h, e), q), whichever thread of x's row has it. */
uint32_t sn_mma_fragment_private(const sn_mma_nest *n);
sn_ix sn_mma_fragment_element(sn_module *m, const sn_mma_nest *n, sn_ix x, sn_ix h, sn_ix e, sn_ix q);
/* Elements next to each other in a fragment. */
uint32_t sn_mma_neighbours(sn_mma mma);
/* Offset of element (row, q) of an operand in the shared memory of a block. */
sn_ix sn_mma_offset(sn_module *m, const sn_mma_operand *o, int64_t depth, sn_ix row, sn_ix q);
/* Number of the block in its cluster, for what stands in `parent`. */
sn_ix sn_cluster_rank(sn_module *m, sn_stmt parent);
/* That offset in the buffer, which has elements of its own for each block of the cluster. */
sn_ix sn_shared_of_rank(sn_module *m, sn_buf shared, sn_ix rank, sn_ix offset);

/* The nest, at `at`. */
sn_stmt sn_mma_put(sn_module *m, sn_cursor at, const sn_mma_nest *n);
/* What the promise on s says, read from the nest; false, and why, if the nest is another one. */
bool sn_mma_find(sn_mma_nest *out, const char **why_not, sn_module *m, sn_stmt s);
/* L27, for a module that keeps the other invariants. */
sn_status sn_mma_verify(sn_module *m, const char *where);

#endif
