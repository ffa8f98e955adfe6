/* choices.h: what a matrix product or a convolution may become: which there are, the rows of choices.def, and the small
 * graph that stands for one where choices are timed and remembered.
 */
#ifndef SN_PASSES_GRAPH_CHOICES_H
#define SN_PASSES_GRAPH_CHOICES_H

#include "ir/graph/conv.h"
#include "ir/loop/mma.h"
#include "passes/base/constants.h"
#include "passes/base/pass.h"

enum {
#define SN_CHOICE_LIMIT(NAME, value, unit, ORIGIN, doc) SN_CHOICE_##NAME = (value),
#include "passes/graph/choices.def"
#undef SN_CHOICE_LIMIT
};

/* ---- products (product.c) ---- */

/* A matmul whose sizes are numbers. */
typedef struct sn_product {
    sn_nd node, left, right;
    sn_dtype dtype;         /* of operands and result */
    int64_t batch, m, n, k; /* matrices of the result; a vector has one row or column */
} sn_product;

/* false: the node is none, its kernel's schedule stands already, or it is one of an attention. */
bool sn_product_find(sn_product *out, const sn_module *m, sn_nd x);
/* All live ones of a graph, in the order of their ids. */
void sn_product_list(sn_nd_list *out, const sn_module *m, sn_arena *arena);
/* The small graph of a product or a convolution in the empty module `to`: its node, views and casts of its operands, the
 * elementwise operations behind it that would fuse, and all else as inputs; behind a convolution views, too, which say how
 * it is stored. Names are numbers, so that equal products have equal texts: the text is what choices are remembered by.
 * Only its node has a choice in it. */
sn_status sn_product_extract(sn_module *to, const sn_module *from, sn_nd x);
/* That text, in the arena. */
sn_status sn_product_key(const char **out, const sn_module *m, sn_nd x, sn_arena *arena);

/* ---- convolutions (convolution.c) ---- */

/* A conv whose sizes are numbers. Sizes of spatial axes are behind batch and channels in image, weights and result. */
typedef struct sn_convolution {
    sn_nd node;
    sn_dtype dtype; /* of operands and result */
    uint32_t rank;
    sn_conv_geometry g;
    int64_t image[SN_MAX_RANK], weights[SN_MAX_RANK], result[SN_MAX_RANK];
    int64_t pixels, taps; /* of a result's image, of a window */
} sn_convolution;

/* false: the node is none, or its kernel's schedule stands already. */
bool sn_convolution_find(sn_convolution *out, const sn_module *m, sn_nd x);
void sn_convolution_list(sn_nd_list *out, const sn_module *m, sn_arena *arena);
/* No zeros between the elements of its image. */
bool sn_convolution_is_dense(const sn_convolution *c);

/* ---- rows ---- */

typedef enum sn_choice_kind {
    SN_CHOICE_KIND_TEMPLATE,
    SN_CHOICE_KIND_EXTERN,
    SN_CHOICE_KIND_SUBGRAPH,
    SN_N_CHOICE_KINDS
} sn_choice_kind;
extern const char *const sn_choice_kind_names[SN_N_CHOICE_KINDS]; /* "template" "extern" "subgraph" */

typedef struct sn_choice_question {
    const sn_target *target;
    const sn_module *m;
    const sn_product *product;  /* that is asked about ... */
    const sn_convolution *conv; /* ... or this; the other is NULL */
    const sn_library *library;  /* NULL: there is none */
    const char *const *headers; /* that are worth trying for its kernel (passes/schedule); 0 where nobody has asked */
    uint32_t n_headers;
} sn_choice_question;

/* Texts of choices. */
typedef struct sn_choice_list {
    sn_arena *arena;
    const char **at;
    uint32_t n, cap;
} sn_choice_list;
void sn_choice_add(sn_choice_list *out, const char *format, ...) SN_PRINTF(2, 3);

typedef struct sn_choice_row {
    sn_op op; /* MATMUL or CONV */
    const char *name;
    sn_choice_kind kind;
    /* Does the product have this form at all? *why_not goes on from "decompose_k does not apply: ". */
    bool (*applies)(const char **why_not, const sn_choice_question *q);
    /* Choices worth trying, the best by the model first. */
    void (*candidates)(sn_choice_list *out, const sn_choice_question *q);
    /* What stands for the product; none after a failure. parameters: what stands behind the name. */
    sn_nd (*rewrite)(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters);
    const char *doc;
} sn_choice_row;
extern const sn_choice_row sn_choice_rows[]; /* ends with a NULL name */

#define SN_CHOICE(name, KIND, doc)                                                                                     \
    bool sn_choice_##name##_applies(const char **why_not, const sn_choice_question *q);                                \
    void sn_choice_##name##_candidates(sn_choice_list *out, const sn_choice_question *q);                              \
    sn_nd sn_choice_##name##_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters);
#define SN_CONV_CHOICE(name, KIND, doc)                                                                                \
    bool sn_conv_choice_##name##_applies(const char **why_not, const sn_choice_question *q);                           \
    void sn_conv_choice_##name##_candidates(sn_choice_list *out, const sn_choice_question *q);                         \
    sn_nd sn_conv_choice_##name##_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters);
#include "passes/graph/choices.def"
#undef SN_CHOICE
#undef SN_CONV_CHOICE

/* The row of a choice for MATMUL or CONV, and where its parameters begin; NULL: there is no such row. */
const sn_choice_row *sn_choice_find(const char **parameters, sn_op op, const char *choice);
/* The kind of a choice for whatever; SN_N_CHOICE_KINDS: there is no such row. */
sn_choice_kind sn_choice_kind_of(const char *choice);
/* Fails where a list of names (the option `choices`) has one that is neither a kind nor a row. */
sn_status sn_choice_check(sn_env *env, const char *allowed);
/* Is the row in the list, by its name or its kind? A NULL list has all. */
bool sn_choice_allowed(const sn_choice_row *row, const char *allowed);
/* Choices of all rows that apply and are allowed, in the order of the rows. */
void sn_choice_candidates(sn_choice_list *out, const sn_choice_question *q, const char *allowed);

/* choose.c: does the model take copies of weights, which are made once? Trials of the product alone would count them as part of a
 * run, so that nobody is asked about it, and no record counts. */
bool sn_choice_is_settled(const sn_module *m, const sn_target *t, const sn_library *library, const char *allowed,
                          sn_nd x, sn_arena *scratch);

/* decompose_k.c: parts that the model takes, and the cycles that it takes them to be; 1: the product stays whole. */
int64_t sn_choice_decompose_k_parts(double *cycles, const sn_choice_question *q);
/* padded.c: cycles of the product, K in so many parts, as its operands lie; 0: copies of them would not help. */
double sn_choice_misplaced_cycles(const sn_choice_question *q, double parts);
/* Cycles of copies and the product of them; 0: there are none to be made, or no tensor copies to bring them. */
double sn_choice_padded_cycles(const sn_choice_question *q);
/* Does it copy what is made of constants, which happens once, when a program is loaded? */
bool sn_choice_padded_copies_weights(const sn_choice_question *q);

/* The instruction that tensor copies bring operands of that dtype to. */
sn_mma sn_choice_instruction(const sn_target *t, sn_dtype dtype, sn_dtype state);
/* Cycles of a product of elements of that dtype that threads bring one by one, K in so many parts, and of one that
 * tensor copies bring to that instruction. */
double sn_choice_cycles_by_threads(const sn_choice_question *q, sn_dtype dtype, double parts);
double sn_choice_cycles_by_boxes(const sn_choice_question *q, sn_dtype dtype, sn_mma mma);

/* ---- what rows share (product.c) ---- */

/* Products of bfloat16 that tensor cores do in the time of one of that dtype, in the precision of the node. */
double sn_choice_products(const sn_choice_question *q, sn_dtype dtype);

/* The node once more, with a header for its kernel. */
sn_nd sn_choice_with_header(sn_pass_ctx *cx, sn_nd x, const char *header);
/* Nothing to ask. */
bool sn_choice_always(const char **why_not);

/* A product with the attributes of another one, but for the schedule. */
sn_nd sn_product_like(sn_module *m, const sn_product *p, sn_nd left, sn_nd right);

#endif
