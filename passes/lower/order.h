/* order.h: what the files of sort and topk share: the problem, the keys, the runs between kernels. */
#ifndef SN_PASSES_LOWER_ORDER_H
#define SN_PASSES_LOWER_ORDER_H

#include "passes/base/nest.h"
#include "passes/lower/lower.h"

/* What a kernel leaves of every row: runs of `length` elements one after the other, the last one with what is left. */
typedef struct sn_runs {
    sn_buf keys;   /* i64; none: positions alone */
    sn_buf places; /* positions in the row, beside wide keys or alone */
    int64_t count, length;
} sn_runs;

typedef struct sn_order {
    sn_lower *lw;
    sn_module *m;
    sn_nd x;
    const sn_type *type; /* of x */
    uint32_t axis;
    int64_t n, keep, rows;
    bool descending, wide;
    sn_dtype place; /* dtype of positions in a row */
    sn_buf out[2];  /* values, positions; none: nobody asks */
    /* The kernel under construction: */
    sn_ix index[SN_MAX_RANK]; /* of the row, free at the axis */
    sn_ix row;                /* its number */
} sn_order;

static inline int64_t sn_pow2_ceil(int64_t x) {
    int64_t p = 1;
    while (p < x) p *= 2;
    return p;
}

/* ---- order.c ---- */

/* A kernel with loops over the rows. */
void sn_order_open_rows(sn_order *o);
/* One that is scheduled as it is made, whose blocks are parts of rows; the number of the part. */
sn_ix sn_order_open_grid(sn_order *o, int64_t parts);
/* A value as an index 0 .. limit: so no value can lead out of a buffer, and 32 bits are seen to be enough. */
sn_ix sn_order_bounded(sn_order *o, sn_val v, int64_t limit);
/* Element e of the row, in its compute dtype. */
sn_val sn_order_element(sn_order *o, sn_ix e);
/* A value of the row as an integer, i32 or i64, that compares as sorting wants it. */
sn_val sn_order_key(sn_order *o, sn_val x);
/* The i64 of a narrow key with its position in the row, and of a wide one alone. */
sn_val sn_order_item(sn_order *o, sn_val x, sn_ix place);
/* Rank `rank` of the row that o->index stands in is that value, from that position. */
void sn_order_store_result(sn_order *o, sn_ix rank, sn_val x, sn_val place, sn_val mask);
void sn_order_store(sn_order *o, sn_buf b, sn_ix e, sn_val x, sn_val mask);

/* ---- sort_network.c: on a CPU ---- */

/* Has it short rows, and enough of them; and so many wanted elements of each that it is better than passes, if these may be taken? */
bool sn_sort_takes_network(const sn_order *o, bool passes);
void sn_sort_network(sn_order *o);

/* ---- sort_select.c: on a CPU ---- */

/* Few elements of long rows, of which every core has one? */
bool sn_sort_takes_selection(const sn_order *o);
void sn_sort_select(sn_order *o);

/* ---- sort_block.c ---- */

/* Elements that a block can sort, a power of two. */
int64_t sn_sort_block_limit(sn_order *o);
/* A kernel that sorts parts of `length` elements, a power of two, of every row of `from` (NULL: of x itself), one block
 * for one or several of them. What it keeps of each is a run of `to`, or the result (NULL). */
void sn_sort_blocks(sn_order *o, const sn_runs *from, int64_t length, const sn_runs *to);

/* ---- sort_radix.c: on a CPU ---- */

/* Does it take less than so many steps of a network for an element? */
bool sn_sort_takes_radix(sn_order *o, int64_t steps);
void sn_sort_radix(sn_order *o);

#endif
