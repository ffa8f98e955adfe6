/* attention.h: which products of a graph are attention: matmul(softmax(scores of q, k), v), found by structure; and
 * which of them some schedule takes as one nest.
 */
#ifndef SN_PASSES_BASE_ATTENTION_H
#define SN_PASSES_BASE_ATTENTION_H

#include "passes/base/pass.h"

/* Operands of an attention. */
enum { SN_ATTENTION_Q = 1, SN_ATTENTION_K = 2, SN_ATTENTION_V = 4, SN_ATTENTION_ALL = 7 };

/* Sizes of an attention. A query row is one row of scores; those that meet the same keys share them. */
typedef struct sn_attention_sizes {
    int64_t rows;         /* query rows, of all products together */
    int64_t queries;      /* of one product of q and k */
    int64_t shared;       /* query rows that meet the same keys: queries, times the heads of a group */
    int64_t keys;         /* the softmax is over them */
    int64_t depth, width; /* steps of q * k; columns of v */
    sn_dtype dtype;       /* of q, k and v, what is narrower being converted exactly */
} sn_attention_sizes;

/* Rows of weights that count as 0. */
typedef enum sn_attention_rows {
    SN_ATTENTION_ROWS_ALL,   /* none do: a row that sees no key is nan */
    SN_ATTENTION_ROWS_NAN,   /* those that are nan */
    SN_ATTENTION_ROWS_EMPTY, /* those whose scores are all -inf */
} sn_attention_rows;

/* A score of a row that adds to its sum, but weighs no v. */
typedef enum sn_attention_sink {
    SN_ATTENTION_NO_SINK,
    SN_ATTENTION_SINK_KEY,  /* one more key of the softmax */
    SN_ATTENTION_SINK_TERM, /* its exponential stands beside the sum: rows that see no key are nan */
} sn_attention_sink;

/* What a nest knows of each row of scores behind it, and others may read. */
typedef enum sn_attention_statistic {
    SN_ATTENTION_NO_STATISTIC,
    SN_ATTENTION_MOST,   /* the largest score */
    SN_ATTENTION_TOTAL,  /* sum e^(score - most): nan where that is infinite */
    SN_ATTENTION_FINITE, /* sum e^(score - (most, or 0 where that is infinite)), as of a logsumexp */
} sn_attention_statistic;

typedef struct sn_attention {
    sn_nd product;          /* weights * v */
    sn_nd first;            /* q * k */
    sn_nd scores;           /* what the softmax is of: made of `first` element by element */
    sn_nd quotient;         /* numerators over their sum: the weights, but for casts, views and rows that count as 0 */
    sn_attention_rows rows; /* which of its rows count as 0 */
    sn_attention_sink sink;
    sn_nd sink_of;      /* its scores, one for each row of `scores`, or broadcast; none: 0 */
    sn_nd_list members; /* all between the operands and `product` */
    uint8_t *is_member; /* by node */
    uint8_t *statistic; /* by node: of its rows of scores, as sn_attention_statistic */
    sn_nd_list read;    /* statistics that others read; none, unless it `tells` */
    sn_nd_list told;    /* what others read that is made of them alone, one element for each row: the nest stores it */
    uint8_t *of_rows;   /* by node: is it made of statistics alone? */
    sn_nd ready;        /* the last node that the nest needs; who reads `told` stands behind it */
    bool tells;         /* the rows of its result are those of the scores, and those who read statistics can be told */
    sn_nd_list scaled;  /* what q and k are made of, below views, by a number as factor: sn_attention_unscaled */
    sn_precision precision; /* of `product` */
    bool widens;            /* v is f32, q and k are halves: `first` is to be a product of f32, in that precision */
    uint32_t misplaced; /* operands, as SN_ATTENTION_*, to be copied: channels or columns are no neighbours in memory */
    sn_attention_sizes sizes;
} sn_attention;

/* Is x the second product of what is an attention if nobody else reads its members? *why_not is set where it is a
 * product and the answer is no. Sizes have to be numbers. Linear in the nodes of the attention, and a byte for each of the graph. */
bool sn_attention_find(sn_attention *out, const char **why_not, const sn_module *m, sn_arena *scratch, sn_nd x);

/* Clears keep[i] where members of at[i] are an output, or something reads them that is not the same thing in another one of
 * those kept: attentions of the same q and k, with masks or v of their own, share scores. Each computes them for itself. Statistics of rows
 * may be read, a logsumexp is made of them: finds what the nest stores for those who do. Linear in members and
 * what reads them, for each time that reads drop some, and in the graph for each attention whose statistics are read. */
void sn_attention_keep_alone(bool *keep, sn_attention *at, uint32_t n, const sn_module *m, sn_arena *scratch);

/* Operand x of a first product without the numbers that its elements are multiplied by or divided by, which go into
 * *scale; below views, too. x itself where there are none. */
sn_nd sn_attention_unscaled(sn_module *m, sn_nd x, double *scale);

/* Do few query rows meet the same keys, so that threads do them as fast as keys and v come from memory (class attend,
 * passes/schedule/attention/attend_rows.c)? Asks for shared, depth, width and dtype. */
bool sn_attention_has_few_rows(const sn_target *t, const sn_attention_sizes *sizes);

/* May a schedule for the target take an attention of these sizes as one nest, and is that worth it? The pass `attention`
 * asks the schedules themselves, then: they look at how operands lie, too. */
bool sn_attention_is_bound(const sn_target *t, const sn_attention_sizes *sizes);

#endif
