/* contract_bind.h: a matrix product on a GPU while it is bound: shared by contract_bind.c (tiles, operands,
 * products, results), contract_terms.c (products of f32 by terms of bfloat16), contract_split.c (sums that several
 * blocks share), contract_made.c (left operands that are computed), contract_ahead.c (loads behind it), contract_fill.c (operands that
 * threads bring) and contract_plain.c (products without matrix instructions).
 */
#ifndef SN_PASSES_SCHEDULE_PRODUCTS_CONTRACT_BIND_H
#define SN_PASSES_SCHEDULE_PRODUCTS_CONTRACT_BIND_H

#include "passes/schedule/products/contract.h"

enum { SN_MOST_TERMS = 3, SN_MOST_AHEAD = 4 };

typedef struct sn_contract_binding {
    sn_contract ct;
    const sn_sched *sc;
    sn_module *m;
    sn_kern k;
    uint32_t n_vals; /* of the module, before anything was made */
    sn_stmt_vec body;
    sn_ix batch, row, column; /* of the tile's first element */
    sn_ix step;               /* of the sum, that the part in the pipe begins with */
    sn_ix turn;               /* number of the tile among those of its block */
    sn_ix tile, group, part;  /* numbers: of the tile, of the parts of its sums; split: how many of these there are */
    int64_t split, groups;
    sn_stmt tiles, in_group; /* with several: the loops over tiles and groups, where the last block of each goes on */
    sn_buf parts[4];         /* with several: what they come to, by state */
    bool edge_m, edge_n, edge_k;
    sn_mma_nest nest; /* all but its buffers; without an instruction: threads and rank */
    sn_contract_plain plain;
    sn_buf shared[SN_MOST_OPERANDS]; /* what boxes fill */
    bool across[SN_MOST_OPERANDS];   /* contiguous across the sum */
    uint32_t n_terms; /* bfloat16 terms that an operand of f32 is taken apart into; 0: it is used as it is */
    sn_buf terms[SN_MOST_OPERANDS][SN_MOST_TERMS];                /* of right operands, in shared memory */
    sn_buf fragments[SN_MOST_OPERANDS][SN_PIECES][SN_MOST_TERMS]; /* of left ones, in registers */
    sn_buf states[4];
    bool by_row[4];    /* one register for each row of a thread, instead of one for each element */
    sn_buf totals[4];  /* with terms of long sums: what states are added to, run by run; else none */
    sn_buf given[4];   /* without instructions: sums of groups of threads, for each other; none: there is one group */
    sn_stmt store;     /* the body's only one, whose results pass through shared memory; none: there are others */
    sn_ix store_ix;    /* its offset, over the axes of the kernel */
    bool stores_rows;  /* threads store it, not boxes */
    sn_buf staged;     /* that memory; none: results are stored by the threads that have them */
    uint32_t n_parts;  /* parts of a tile that pass through it one after the other, side by side in the tile */
    uint32_t n_copies; /* of that memory, for one part each in turn: one is read while the next one is written */
    sn_stmt ahead[SN_MOST_AHEAD]; /* loads of the body that come a part before they are wanted ... */
    sn_buf held[SN_MOST_AHEAD];   /* ... to these registers */
    uint32_t n_ahead;
} sn_contract_binding;

/* A loop at *at, which moves inside. Returns its axis. */
sn_ix sn_contract_loop(sn_contract_binding *b, sn_cursor *at, const char *name, int64_t extent, sn_axis_kind kind);
sn_buf sn_contract_local(sn_contract_binding *b, const char *name, sn_dtype dtype, sn_buf_scope scope,
                         int64_t private_size, int64_t copies);
/* A nest of all threads over the registers `buf`: sets them to 0. */
void sn_contract_zero(sn_contract_binding *b, sn_cursor at, sn_buf buf);
/* Registers with what state i comes to, behind all steps. */
static inline sn_buf sn_contract_sums(const sn_contract_binding *b, uint32_t i) {
    return b->totals[i].i ? b->totals[i] : b->states[i];
}
/* Rows or columns of a tile of the operand. */
int64_t sn_contract_rows(const sn_contract_binding *b, uint32_t operand);
/* How it lies in shared memory. */
sn_mma_operand sn_contract_operand_of(const sn_contract_binding *b, uint32_t operand);
/* The mask, where e is below n too; without an edge it always is. */
sn_val sn_contract_and(sn_contract_binding *b, sn_cursor at, sn_val mask, bool edge, sn_ix e, int64_t n);

/* e, or n - 1 where it is beyond: what is there, nobody wants. */
sn_ix sn_contract_inside(sn_contract_binding *b, bool edge, sn_ix e, int64_t n);

/* A box of an operand: so many lines of shared memory, from `to` on. Where its first element stands: */
typedef struct sn_contract_box {
    uint32_t operand;
    int64_t lines;
    int64_t place; /* row or column of the tile */
    sn_ix step;    /* of the sum */
    int64_t to;
} sn_contract_box;
void sn_contract_put_box(sn_contract_binding *b, sn_cursor at, const sn_contract_box *box);

/* Offset of a result of part p in the buffer that it passes through; column: in that part of the tile. */
sn_ix sn_contract_staged_at(sn_contract_binding *b, sn_ix p, sn_ix row, sn_ix column);

/* Where a thread has a result of a part of the tile. */
typedef struct sn_contract_spot {
    sn_ix x, h, j, in_part,
        e;             /* thread; blocks of rows and of columns, in the tile and in the part; element of a block */
    sn_ix row, column; /* in the tile */
    sn_val row_mask, column_mask;   /* those of a result; none: all are */
    sn_axis axes[2 * SN_MAX_CHAIN]; /* of the kernel ... */
    sn_ix with[2 * SN_MAX_CHAIN];   /* ... and what they are there */
    uint32_t n;
} sn_contract_spot;
/* Does the body load for results that are none what is there for the last row or column? */
bool sn_contract_stays_inside(const sn_contract_binding *b);
/* Loops over the results of part p; *at moves inside. */
void sn_contract_open_spot(sn_contract_spot *out, sn_contract_binding *b, sn_cursor *at, sn_ix p);

/* ---- contract_ahead.c ---- */

/* Once it is known in which parts results are stored. */
void sn_contract_find_ahead(sn_contract_binding *b);
/* The loads of part p. */
void sn_contract_load_ahead(sn_contract_binding *b, sn_cursor at, sn_ix p);
/* Is that statement of the body one of them? */
bool sn_contract_is_ahead(const sn_contract_binding *b, sn_stmt s);
/* What load i has given for a result of part p. */
sn_val sn_contract_ahead(sn_contract_binding *b, sn_cursor at, const sn_contract_spot *s, sn_ix p, uint32_t i);

/* Offset of row (h, e) of thread x among registers that have one for each of its rows. */
sn_ix sn_contract_row_at(sn_contract_binding *b, sn_ix x, sn_ix h, sn_ix e);
/* The rest of the body at the elements of the states, and its results to memory; `used`: bytes of shared memory. */
void sn_contract_put_results(sn_contract_binding *b, sn_cursor at, int64_t used);

/* ---- contract_store.c ---- */

/* Is there something to be gained by threads that write staged results row by row? */
bool sn_contract_stores_rows(const sn_contract_binding *b);
/* Threads write part p of the tile. */
void sn_contract_store_rows(sn_contract_binding *b, sn_cursor at, sn_ix p);

/* ---- contract_terms.c ---- */

/* What a factor is multiplied by before it is taken apart into several terms: 2^23. */
enum { SN_TERMS_SCALE = 23 };
/* Which terms product i of them is of. Small products come first. */
typedef struct sn_terms_pair {
    uint8_t left, right;
} sn_terms_pair;
sn_terms_pair sn_terms_pair_of(uint32_t n_terms, uint32_t i);
/* x scaled, if it becomes several terms; terms of a scaled x go to element `offset` of these buffers. */
sn_val sn_terms_scale(sn_module *m, sn_cursor at, sn_val x, uint32_t n_terms);
void sn_terms_store(sn_module *m, sn_cursor at, sn_val x, uint32_t n_terms, const sn_buf *to, sn_ix offset);
/* Is the sum, 2^scale times what terms gave, nan, infinite or so large that terms or sums may have overflowed? */
sn_val sn_terms_bad(sn_module *m, sn_cursor at, sn_val sum, int scale);
/* That as a number for `if`: 0 where it is bad, else 1. It is a value alone, which indices of 32 bits can be compared with. */
sn_ix sn_terms_test(sn_module *m, sn_cursor at, sn_val bad);

/* Shared memory and registers for terms. */
void sn_contract_make_terms(sn_contract_binding *b);
/* Do lines of terms fit into tiles, and do all threads take as many vectors of each right operand apart? */
bool sn_contract_fits_terms(const sn_contract_binding *b);
/* Step k of the sum, behind the barrier of its pipe: terms and products. */
void sn_contract_put_terms(sn_contract_binding *b, sn_cursor at, sn_ix k);
/* Behind all steps: then totals have the sums of f32. */
void sn_contract_finish_terms(sn_contract_binding *b, sn_cursor at);

/* ---- contract_left.c ---- */

/* Registers for the left operands of the pieces of a step. */
void sn_contract_make_fragments(sn_contract_binding *b);
/* They get the operand's elements of piece i, behind the barrier of the pipe: as terms if it is taken apart. */
void sn_contract_load_left(sn_contract_binding *b, sn_cursor at, uint32_t operand, int64_t piece);
/* The nest of a product of piece i; without operands. */
sn_mma_nest sn_contract_piece(const sn_contract_binding *b);
/* Of a right operand in shared memory, the part that piece i multiplies. */
void sn_contract_choose_piece(sn_contract_binding *b, sn_mma_operand *right, int64_t piece);
/* Element (row, step) of what boxes have brought. */
sn_val sn_contract_raw(sn_contract_binding *b, sn_cursor at, uint32_t operand, sn_ix row, sn_ix step);
/* The step of the sum that stands at place p among those of a step of the pipe. */
sn_ix sn_contract_step_at(sn_contract_binding *b, sn_ix p);
/* Terms of x go to element `at` of these buffers. */
void sn_contract_store_terms(sn_contract_binding *b, sn_cursor at, sn_val x, const sn_buf *to, sn_ix offset);

/* ---- contract_made.c ---- */

/* Element (row, step) of a left operand that is made of the raw one. */
sn_val sn_contract_make(sn_contract_binding *b, sn_cursor at, uint32_t operand, sn_ix row, sn_ix step, sn_val raw);

/* ---- contract_pixels.c ---- */

/* The operand's element in a line of a box, which are pixels. */
sn_val sn_contract_put_pixel(sn_contract_binding *b, sn_cursor at, const sn_contract_box *box, sn_ix line, sn_ix lane);

/* ---- contract_halo.c ---- */

/* Boxes of all taps of step k of the pipe, from `to` on in shared memory. */
void sn_contract_put_halo_boxes(sn_contract_binding *b, sn_cursor at, uint32_t operand, sn_ix k, int64_t to);
/* Of an operand in shared memory, what tap t multiplies. */
void sn_contract_choose_tap(sn_contract_binding *b, sn_mma_operand *o, uint32_t operand, int64_t t);
/* The mask, where a pixel has a result too; axes: of the kernel, with: what they are there. */
sn_val sn_contract_in_image(sn_contract_binding *b, sn_cursor at, sn_val mask, const sn_axis *axes, const sn_ix *with,
                            uint32_t n);

/* ---- contract_strip.c ---- */

/* The box of step k of the image. */
void sn_contract_put_strip(sn_contract_binding *b, sn_cursor at, sn_ix k);
/* The mask, where a pixel of the other operand is there at all; axes: of the kernel, with: what they are there. */
sn_val sn_contract_in_row(sn_contract_binding *b, sn_cursor at, sn_val mask, uint32_t operand, const sn_axis *axes,
                          const sn_ix *with, uint32_t n);

/* ---- contract_split.c ---- */

/* Behind the steps of a part: what its sums come to goes to memory. *at moves to the last block of the tile, whose
 * registers get the sums over all parts. */
void sn_contract_share_sums(sn_contract_binding *b, sn_cursor *at);

/* ---- contract_fill.c ---- */

/* Can the operand be copied, and be on its way while products are computed? */
bool sn_contract_copies(const sn_contract_binding *b, uint32_t operand);
/* Threads fill its shared memory with steps k*tile_k and following. */
void sn_contract_fill(sn_contract_binding *b, sn_cursor at, uint32_t operand, sn_ix k);

/* ---- contract_plain.c ---- */

/* Row and column of element (h, j, v) of thread x, of those whose results it stores. */
sn_ix sn_contract_plain_row(sn_contract_binding *b, sn_ix x, sn_ix h);
sn_ix sn_contract_plain_column(sn_contract_binding *b, sn_ix x, sn_ix j, sn_ix v);
/* All products of a part of the sum. */
void sn_contract_plain_put(sn_contract_binding *b, sn_cursor at);
/* Behind all of them: groups give each other their sums; then the sum of state i at element (h, j, v) of thread x. */
void sn_contract_plain_share(sn_contract_binding *b, sn_cursor at);
sn_val sn_contract_plain_sum(sn_contract_binding *b, sn_cursor at, uint32_t i, sn_ix x, sn_ix h, sn_ix j, sn_ix v);

#endif
