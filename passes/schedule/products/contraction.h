/* contraction.h: which kernels are matrix products, found by their structure, and what their axes and operands are.
 *
 *     loop i in M { loop j in N { %s = reduce sum r in K { .. yield a(i, r) * b(j, r) }   .. store y[..], f(%s, ..) } }
 *
 * Asked after fusion, of kernels whose axes are not bound yet. All else in the innermost loop is the epilogue, which
 * nothing here looks at. Axes and operands are what dependence says: no name, no layout and no operation of the graph
 * counts, so that attention, convolutions with unit windows and products of views are found alike.
 */
#ifndef SN_PASSES_SCHEDULE_PRODUCTS_CONTRACTION_H
#define SN_PASSES_SCHEDULE_PRODUCTS_CONTRACTION_H

#include "passes/base/nest.h"
#include "ir/base/notes.h"

/* What an axis of the outer loops is to the product. */
typedef enum sn_contraction_side {
    SN_SIDE_BATCH, /* both operands depend on it, or one whose rows or columns are not neighbours along it (contract_pixels.c) */
    SN_SIDE_M, /* the left one alone, or none */
    SN_SIDE_N  /* the right one alone */
} sn_contraction_side;

/* A factor of the products. */
typedef struct sn_contraction_operand {
    sn_val value; /* in the region of the reduction, or in front of it */
    sn_stmt
        load; /* what it is read by, if the value is that element, converted exactly at most; none: it has a prologue */
    sn_dtype from; /* of that element; without one, of the value */
    bool right;    /* depends on the N axes; else on the M axes, or on neither */
} sn_contraction_operand;

/* State += left * right, in each iteration. */
typedef struct sn_contraction_product {
    uint32_t state, left, right; /* of the reduction; operands */
} sn_contraction_product;

enum { SN_MOST_OPERANDS = 8, SN_MOST_PRODUCTS = 8 };

typedef struct sn_contraction {
    sn_chain outer; /* loops around the reduction; parallel */
    sn_contraction_side side[SN_MAX_CHAIN];
    int64_t extent[SN_MAX_CHAIN];
    /* So many iterations in a row of the axis `grouped`, which is one of batch, are the rows, and its extent the number
     * of such groups; where rows have axes of their own, too, each iteration has all of those. 0: rows are those alone. */
    int64_t group;
    uint32_t grouped;
    int64_t
        cut; /* the last column axis is numbered by pieces of so many, which come before the axis in front of it; 0: no */
    int64_t batch, m, n, k; /* products of extents */
    sn_stmt body;           /* innermost outer loop; none: the kernel itself */
    sn_stmt top;            /* the reduction ... */
    sn_chain inner;         /* ... with those directly inside: K axes, in the order in which steps are numbered */
    int64_t k_extent[SN_MAX_CHAIN]; /* as steps count them; longer than the loop where lines have room for more */
    sn_dtype dtype;                 /* of the states: all alike */
    uint32_t n_states, n_operands, n_products;
    sn_contraction_operand operands[SN_MOST_OPERANDS];
    sn_contraction_product products[SN_MOST_PRODUCTS];
} sn_contraction;

/* Is the kernel one? Its outer loops are perfectly nested; the innermost one has one reduction, by sums of products,
 * and all that is stored is stored behind it. The last outer axis is never M, unless there is no N axis at all:
 * operands change sides instead. *why_not is set where the answer is no. Linear in the kernel. */
bool sn_contraction_find(sn_contraction *out, const char **why_not, sn_pass_ctx *cx, sn_kern k);

/* Left becomes right, and rows become columns: the same products. */
void sn_contraction_swap(sn_contraction *c);
/* Outer axis i becomes the last one. */
void sn_contraction_put_last(sn_contraction *c, uint32_t i);

/* The last outer axis of that side with more than one iteration, and how many it has; none, and 1: there is none. */
sn_axis sn_contraction_last_axis(int64_t *extent, const sn_module *m, const sn_contraction *c,
                                 sn_contraction_side side);
/* Is more of what the operand loads contiguous across the sum, along its rows or columns, than along it? */
bool sn_contraction_lies_across(sn_pass_ctx *cx, const sn_contraction *c, uint32_t operand);

/* Does an operand load by a mask, as windows at the borders of an image do? */
bool sn_contraction_is_masked(const sn_module *m, const sn_contraction *c);

/* Cycles in which the memory of a GPU moves every element of the operands once. */
double sn_contraction_fetch(const sn_module *m, const sn_contraction *c, const sn_target *t);

/* Where an iteration of the nest stands: numbers of the product of the batch, of the row, of the column and of the
 * step of the sum, each the row-major number of its axes. */
typedef struct sn_contraction_place {
    sn_ix batch, row, column, step;
} sn_contraction_place;
/* axes[i] is with[i] there, for the outer and K axes; returns how many. Both have room for 2 * SN_MAX_CHAIN. */
uint32_t sn_contraction_axes(sn_axis *axes, sn_ix *with, sn_module *m, const sn_contraction *c,
                             const sn_contraction_place *place);
/* The operand's value there: copies at `at` of the statements that it is made of. */
sn_val sn_contraction_put(sn_pass_ctx *cx, sn_cursor at, const sn_contraction *c, const sn_contraction_operand *o,
                          const sn_contraction_place *place);

/* Puts values of the kernel at another place, with what they are made of: the axes are others there, and so are values
 * that have become something already. Where there is a mask, loads happen where it holds, and give 0 elsewhere. */
typedef struct sn_contraction_copier {
    sn_module *m;
    sn_cursor at;
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix with[2 * SN_MAX_CHAIN];
    uint32_t n;
    sn_val mask;     /* none: loads are what they are */
    uint32_t n_vals; /* of the module, before anything was made: later values are their own copies */
    sn_notes became; /* by sn_val */
    sn_ix e;         /* index expression whose values are being replaced */
} sn_contraction_copier;
void sn_contraction_copier_start(sn_contraction_copier *out, sn_pass_ctx *cx, sn_cursor at, uint32_t n_vals);
/* v of the kernel has become `now`. */
void sn_contraction_becomes(sn_contraction_copier *p, sn_val v, sn_val now);
sn_val sn_contraction_copy(sn_contraction_copier *p, sn_val v);
sn_ix sn_contraction_copy_ix(sn_contraction_copier *p, sn_ix e);
/* A store of the kernel, which happens where `where` holds too; none: anywhere. */
void sn_contraction_copy_store(sn_contraction_copier *p, const sn_stmt_rec *store, sn_val where);

#endif
