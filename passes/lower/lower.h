/* lower.h: what the files of the pass `to-loops` share: the state of the lowering, and what each file gives. */
#ifndef SN_PASSES_LOWER_LOWER_H
#define SN_PASSES_LOWER_LOWER_H

#include "passes/base/attention.h"
#include "passes/base/constants.h"

enum { SN_MOST_TOGETHER = 4 /* combiners of a reduce */ };

/* An index with which an element of a node reads a realized node or a source under it. */
typedef struct sn_lower_leaf {
    uint32_t rank;
    sn_ix at[SN_MAX_RANK];
} sn_lower_leaf;

/* What is known of a graph node during lowering. */
typedef struct sn_lower_node {
    uint32_t users;      /* live nodes and outputs that read it */
    uint32_t ways;       /* ... and those that read views of it */
    uint32_t places;     /* ... and at how many places of its own, through views and pads (saturating) */
    uint32_t work;       /* instructions of the expression that an inlining user would get (saturating) */
    uint32_t ops, reads; /* size of the expression that an inlining user would get (saturating) */
    uint32_t lanes;      /* ... of which so many reads are of a place that each lane has to itself (saturating) */
    double looked_up;    /* elements of all selects and gathers of it */
    bool live, realized;
    bool aligned;         /* once realized, its rows begin at multiples of 16 bytes, with room behind them if need be */
    bool brought;         /* ... although they are short */
    bool walked_flat;     /* a reshape walks on from one row to the next: rows as long as they are */
    const int64_t *order; /* realized: its axes in the order in which they are stored; NULL: their own */
    bool drawn;           /* made of random numbers and numbers alone */
    bool constant;        /* made of constants alone, by */
    bool for_runs;        /* what is not, through views */
    double readers;       /* ... and how many elements the largest of those has */
    bool slow;            /* computing an element of it takes longer than reading one */
    int64_t bytes;        /* that an inlining user reads instead of its elements (saturating) */
    bool kept;            /* somebody reads it otherwise than element by element on the way to an output */
    bool within;          /* a member of an attention: computed in its nest */
    bool written;         /* a reduction of few elements is in it, not realized: combined where it is read */
    bool joined;   /* several read it, one of them beside another product: what its own product becomes at once */
    sn_nd product; /* a product that nobody else reads, whose elements become its own one by one; none: there is none */
    uint8_t spread; /* not realized: 1 + the axis, from the last on, along which it repeats much of what it computes */
    uint8_t together;              /* a reduction: 1 + the axis of its operand whose elements are results of one nest */
    sn_nd instead;                 /* whose elements stand for its own there; none: it has them */
    const sn_attention *attention; /* of the second product of one; NULL: it is none */
    uint8_t statistic;             /* of the rows of scores, which that nest knows: sn_attention_statistic */
    sn_nd teller;                  /* the product whose kernel stores it; none: its own does */
    bool of_rows;                  /* made of such statistics alone: computed there, or in memory if it has a teller */
    sn_nd follows, beside;         /* the product of which that is the last operand; one more with the same */
    bool made;                     /* its kernels are there */
    const sn_axis *axes;           /* in terms of which its leaves are; NULL: not asked for yet */
    SN_VEC(sn_lower_leaf) leaves;  /* through views; none: all are read with the index of the node itself */
    bool crosses;                  /* computed outside of a repeat that reads it */
    sn_buf *rows; /* of a repeat, by result: the window of its stack; none: it has no stack; of a cond: the result */
    sn_buf buf;   /* where its elements are, once a kernel has stored them (inputs and constants: always) */
} sn_lower_node;

typedef struct sn_lower_memo_entry {
    sn_nd node;
    sn_val mask;
    sn_ix index[SN_MAX_RANK];
    sn_val val;
} sn_lower_memo_entry;

typedef struct sn_lower_output {
    sn_buf buf;
    bool claimed;
} sn_lower_output;

/* Between which numbers, ends included, the elements of a node are that are no nan. */
typedef struct sn_lower_bounds {
    double low, high;
} sn_lower_bounds;

/* Behind the nest of an attention: maximum, sum of numerators, sum of what they weigh. */
typedef struct sn_lower_states {
    sn_val most, total, sum;
    sn_dtype dtype;
} sn_lower_states;

typedef struct sn_lower {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_lower_node *nodes;       /* by node id */
    sn_lower_bounds *ranges;    /* likewise, on a CPU; NULL: not found */
    sn_lower_output *outputs;   /* by output; claimed: the node that computes it stores it */
    sn_names names;             /* of buffers */
    uint32_t temps;             /* made so far */
    uint32_t constants;         /* likewise */
    const uint32_t *scope;      /* sn_repeat_scopes */
    sn_repeat_rec *repeats;     /* by node id of a repeat: its windows and carries; of a cond: what it is taken by */
    uint32_t section, sections; /* of the kernels that are made, and the last one so far */
    /* The kernel under construction. */
    sn_kern kern;
    sn_cursor at;              /* where element statements go */
    sn_val mask;               /* loads happen only where it holds (inside pad and concat); none: everywhere */
    sn_lower_memo_entry *memo; /* open addressing, one kernel's elements */
    uint32_t memo_n, memo_cap;
    uint32_t first;                /* its first statement */
    sn_text note;                  /* ops that went in */
    bool scores;                   /* what is computed are scores of an attention */
    const sn_lower_states *states; /* behind the nest of one; NULL: the kernel has none */
} sn_lower;

/* Costs nothing beside what it reads. */
static inline bool sn_lower_is_view_or_source(const sn_node_rec *n) {
    return sn_ops[n->op].cls == SN_OPS_VIEW || sn_ops[n->op].cls == SN_OPS_SOURCE;
}

/* Random numbers cost as much as the operations from which on what has several users is computed once. */
static inline uint32_t sn_lower_own_ops(const sn_node_rec *n) {
    if (n->op == SN_OP_RANDOM) return SN_REALIZE_OPS;
    return sn_lower_is_view_or_source(n) ? 0 : 1;
}

static inline bool sn_lower_has_data(const sn_node_rec *n) {
    return n->op == SN_OP_CONSTANT || n->op == SN_OP_WEIGHT; /* becomes a const buffer */
}

/* A copy that is not realized is a view of what is stored as it wants it. */
static inline bool sn_lower_is_pad_or_view(const sn_node_rec *n) {
    return n->op == SN_OP_PAD || n->op == SN_OP_COPY || sn_ops[n->op].cls == SN_OPS_VIEW;
}

/* Lowered to kernels of its own by sort.c; the results are what its projections load. */
static inline bool sn_lower_is_sort(const sn_node_rec *n) { return n->op == SN_OP_SORT || n->op == SN_OP_TOPK; }

static inline bool sn_lower_is_sorted_part(const sn_lower *lw, const sn_node_rec *n) {
    return n->op == SN_OP_PROJECT && sn_lower_is_sort(sn_node_get(lw->m, n->in[0]));
}

/* The files stand on one another in this order; those of sorts share order.h, too. */

/* ---- kernel.c ---- */

/* A new contiguous buffer with that name, or that name and a number; a new intermediate. */
sn_buf sn_lower_buffer(sn_lower *lw, const char *wanted, const sn_type *type, sn_buf_scope scope);
sn_buf sn_lower_temp(sn_lower *lw, const sn_type *type);
/* The same for the elements of x, in rows that are aligned where that is wanted. */
sn_buf sn_lower_temp_of(sn_lower *lw, sn_nd x);
/* The shape in which x, which is realized, is stored. */
sn_type sn_lower_stored(const sn_lower *lw, sn_nd x);
/* Where element `index` of x is in the buffer b that has them. */
sn_ix sn_lower_place(sn_lower *lw, sn_nd x, sn_buf b, const sn_ix *index);
/* A new kernel under construction, empty; and its end: what is dead or double goes. */
void sn_lower_begin(sn_lower *lw);
void sn_lower_end(sn_lower *lw, const char *note);
/* The node's line or name is one that the kernel comes from; NULL: it has neither. */
const char *sn_lower_from(sn_lower *lw, sn_nd x);
/* The node went into the kernel: arithmetic from statement number `first` on that is of no other node is of this one. */
void sn_lower_note(sn_lower *lw, sn_nd x, uint32_t first);
/* Open a loop or reduce at lw->at, which moves inside; the axis is returned as an ix. */
sn_ix sn_lower_open_loop(sn_lower *lw, const char *name, sn_ix extent);
sn_ix sn_lower_open_reduce(sn_lower *lw, const char *name, sn_ix extent, sn_comb comb, uint32_t n,
                           const sn_dtype *dtypes, sn_stmt *out);
/* Nested reduces over `extents`, `times` of them side by side, innermost body produced by `body` (which fills `yield` with
 * the states). Results are the states of the outermost reduce. */
typedef void (*sn_lower_body)(sn_lower *lw, void *user, const sn_ix *index, sn_val *yield);
void sn_lower_reduce_nest(sn_lower *lw, sn_val *results, sn_comb comb, uint32_t times, const sn_dtype *dtypes,
                          const sn_ix *extents, uint32_t n, sn_lower_body body, void *user);
/* All zero tests of `e in n` that are not provable, and-ed with *mask (none: true). */
void sn_lower_guard(sn_lower *lw, sn_val *mask, sn_ix e, sn_ix n);

/* ---- uses.c ---- */

/* Elements of a type; 0: nobody knows. */
double sn_lower_elements(const sn_lower *lw, sn_nd x);
/* Does the view walk on from one row of its operand to the next? */
bool sn_lower_joins_rows(const sn_lower *lw, sn_nd x);
/* What is known of all nodes from those who read them: live to kept, for_runs, readers, joined. */
void sn_lower_find_uses(sn_lower *lw);

/* ---- limits.c ---- */

/* Fails where a live tensor or an operation on it is too large to count. */
sn_status sn_lower_check_sizes(sn_lower *lw);

/* ---- views.c ---- */

/* Index of the operand of view x at `index`. */
void sn_lower_view_index(sn_lower *lw, sn_nd x, const sn_ix *index, sn_ix *at);
/* Fill in the leaves of x, whose operands are decided; an operand is realized where an index would take too many
 * divisions. */
void sn_lower_note_leaves(sn_lower *lw, sn_nd x);

/* ---- count.c ---- */

/* What an element takes: operations, and reads of so many buffers (saturating). */
typedef struct sn_lower_count {
    uint32_t ops, reads, buffers;
} sn_lower_count;
/* Of x, each operation and each read once. */
void sn_lower_count_node(sn_lower_count *out, const sn_lower *lw, sn_nd x);

/* ---- range.c ---- */

/* The ranges of all nodes, on a CPU. */
void sn_lower_find_ranges(sn_lower *lw);
/* Are the elements of x known to be positions in an axis of that size? */
bool sn_lower_is_inside(const sn_lower *lw, sn_nd x, sn_ix extent);
/* Of the lowest bits of x, an integer, those that may differ; all that its dtype has where nothing is known. */
uint32_t sn_lower_bits(const sn_lower *lw, sn_nd x);

/* ---- random.c ---- */

/* An element of `random`, of that type, from elements of its operands; in its compute dtype. */
sn_val sn_lower_random(sn_lower *lw, const sn_type *type, const sn_ix *index, sn_val seed, sn_val offset);

/* ---- element.c ---- */

/* Value of element `index` (one ix per axis) of node x, in its compute dtype, emitted at lw->at. */
sn_val sn_lower_element(sn_lower *lw, sn_nd x, const sn_ix *index);
/* Element of operand `in` under the result index of a broadcasting op of rank `rank`. */
sn_val sn_lower_broadcast(sn_lower *lw, sn_nd in, const sn_ix *index, uint32_t rank);
/* A position read from an index tensor: negative ones count from the end. */
sn_ix sn_lower_from_end(sn_lower *lw, sn_val v, sn_ix extent);
/* Clamped, so that a wrong position cannot touch memory outside the tensor. */
sn_ix sn_lower_clamped(sn_lower *lw, sn_ix e, sn_ix extent);

/* ---- concat.c ---- */

/* An element of concatenation x. */
sn_val sn_lower_concat(sn_lower *lw, sn_nd x, const sn_ix *index);
/* Is x a concatenation of so many parts that several kernels store it to b? Then they have been made. */
bool sn_lower_concat_stored(sn_lower *lw, sn_nd x, sn_buf b);

/* ---- reduce.c ---- */

/* Is x larger than what its elements are made of? Then it may be cheaper to make than to store and to load. */
bool sn_lower_is_of_pairs(const sn_lower *lw, sn_nd x);

/* Elements of the operand that become one of reduction x; 0: not known. */
int64_t sn_lower_reduced(const sn_lower *lw, sn_nd x);
/* Is the reduction better written out where it is read than realized? */
bool sn_lower_is_written(const sn_lower *lw, sn_nd x);
/* Reductions that x, a reduction that is realized, reads become nests in its own. */
void sn_lower_nest_reductions(sn_lower *lw, sn_nd x);
/* Note what x repeats along an axis; what would be made too often is realized. */
void sn_lower_note_spread(sn_lower *lw, sn_nd x);
/* The axis of reduction x whose elements become results of one nest. */
void sn_lower_note_together(sn_lower *lw, sn_nd x);
/* The nest of reduction x for the element at `index`, or for those along the axis that goes together: how many there are. */
uint32_t sn_lower_reduction(sn_lower *lw, sn_val *out, sn_nd x, const sn_ix *index);
/* The same, written out. */
sn_val sn_lower_written(sn_lower *lw, sn_nd x, const sn_ix *index);

/* ---- scatter.c ---- */

/* A scatter that combines. */
bool sn_lower_combines(const sn_node_rec *n);
/* What parts of the updates of a scatter come to. */
typedef struct sn_lower_parts {
    sn_buf buf; /* [number, size]: each begins with the elements of the result */
    int64_t number, size;
    sn_comb comb;
    bool few; /* one after the other they leave a row without updates as it is, -0.0 too */
} sn_lower_parts;
/* The kernel that combines parts of the updates of x; false: that has to be decomposed. */
bool sn_lower_scatter_parts(sn_lower_parts *out, sn_lower *lw, sn_nd x);

/* ---- repeat.c ---- */

/* Is x a state, a slice, a repeat or a cond, or a result of one? */
bool sn_lower_is_repeated(const sn_lower *lw, sn_nd x);
/* Result `index` of a repeat or a cond: its projection, or itself; none: nobody reads it. */
sn_nd sn_lower_result_of(const sn_lower *lw, sn_nd whole, uint32_t index);
/* x has its elements in b, which somebody stores. */
void sn_lower_give(sn_lower *lw, sn_nd x, sn_buf b);
/* x, which is inside of the scope, is stored straight to b, if it has no buffer yet and is computed there. */
void sn_lower_claim(sn_lower *lw, uint32_t scope, sn_nd x, sn_buf b);
/* A kernel that stores x to b, unless it is there. */
void sn_lower_store_rest(sn_lower *lw, sn_nd x, sn_buf b);
/* What follows is another section. */
void sn_lower_begin_section(sn_lower *lw);
/* The buffers of states, before outputs are claimed; of slices, stacks, and of what goes straight to one of all these, after that. */
void sn_lower_make_states(sn_lower *lw);
void sn_lower_make_windows(sn_lower *lw);
/* What is computed outside of a repeat and read inside. */
void sn_lower_note_crossing(sn_lower *lw);
/* The kernels of a repeat, what its body needs being there. */
sn_status sn_lower_repeat(sn_lower *lw, sn_nd x);

/* ---- cond.c ---- */

/* As of repeats: the buffers of conditions and results, once outputs are claimed, and of what goes straight there; the kernels
 * of both branches, what those need being there. */
void sn_lower_make_branches(sn_lower *lw);
sn_status sn_lower_cond(sn_lower *lw, sn_nd x);

/* ---- to_loops.c ---- */

/* One loop for each axis of x, which has so many elements, and the index in them. */
void sn_lower_open_loops(sn_lower *lw, sn_nd x, const sn_ix *shape, sn_ix *index);
/* A kernel that stores every element of x to b, or several. */
void sn_lower_store(sn_lower *lw, sn_nd x, sn_buf b);
/* The kernels of the nodes of that scope that stand before node `end`. */
sn_status sn_lower_scope(sn_lower *lw, uint32_t scope, uint32_t end);

/* ---- operands.c ---- */

/* A view, or a cast that loses nothing? */
bool sn_lower_is_seen_through(const sn_lower *lw, const sn_node_rec *n);
/* On a CPU: the bytes that x is, less their zero point at most; else x. */
sn_nd sn_lower_bytes_below(const sn_lower *lw, sn_nd x);
/* Has it the elements of its operand, in some order? */
bool sn_lower_is_same_elements(const sn_node_rec *n);
/* What gets memory for operand k of a contraction that is more than loads. */
sn_nd sn_lower_realized_for(const sn_lower *lw, sn_nd product, uint32_t k);
/* Does reading an element cost no more than a load? Looks through views and casts, and where `masks` through pads. */
bool sn_lower_is_plain_load(const sn_lower *lw, sn_nd x, bool masks);
/* What is computed below views of x is realized, in the dtype that it has there, in the order of its own axes. */
void sn_lower_realize_below(sn_lower *lw, sn_nd x);
/* Operands of x that it reads many times over are realized, and suit its kernel. */
void sn_lower_decide_operands(sn_lower *lw, sn_nd x);

/* ---- stored.c ---- */

/* A copy is realized, or a view of what is stored in the order that it wants. */
void sn_lower_decide_copy(sn_lower *lw, sn_nd x);
/* Outputs claim the node that computes them; what is left (an input, a constant, a node given twice) is copied. */
void sn_lower_claim_outputs(sn_lower *lw);

/* ---- realize.c ---- */

/* Has it a buffer whatever it costs, but in the nest of an attention? */
bool sn_lower_always_realized(const sn_lower *lw, const sn_node_rec *n);
/* Which nodes are realized. Outputs are claimed, attentions found, and buffers of repeats and conds there. */
void sn_lower_decide(sn_lower *lw);

/* ---- contract.c, attention.c ---- */

/* The operands of a matmul at a result index, but for the axis that is summed. */
typedef struct sn_lower_product {
    sn_nd a, b;
    sn_ix a_index[SN_MAX_RANK], b_index[SN_MAX_RANK];
    uint32_t a_k, b_k; /* which axis is summed ... */
    sn_ix steps;       /* ... and its size */
    sn_dtype dtype;    /* of the sum */
    /* To what an operand that is computed here is rounded first, as it would be in memory; else that of the sum. */
    sn_dtype rounded[2];
} sn_lower_product;
void sn_lower_product_at(sn_lower_product *out, sn_lower *lw, sn_nd x, const sn_ix *index);

/* The reductions of matmul and conv at result index `index`: the value in its compute dtype. */
sn_val sn_lower_matmul(sn_lower *lw, sn_nd x, const sn_ix *index);
sn_val sn_lower_conv(sn_lower *lw, sn_nd x, const sn_ix *index);

/* Note which products are attentions that were marked, before it is decided what is realized. */
void sn_lower_find_attentions(sn_lower *lw);
/* The same as above for the second product of one, softmax and first product included; *out: for the two that follow. */
sn_val sn_lower_attention(sn_lower_states *out, sn_lower *lw, sn_nd x, const sn_ix *index);
/* What a row's statistic x is behind that nest. */
sn_val sn_lower_statistic(sn_lower *lw, sn_nd x);
/* Stores of what others are told of the rows, in the kernel that stores element `index` of the product. */
void sn_lower_tell(sn_lower *lw, sn_nd product, const sn_lower_states *states, const sn_ix *index);

/* ---- lookups.c ---- */

/* Is operand k one of those before it, whose element is read there already? */
bool sn_lower_is_named_before(const sn_lower *lw, const sn_node_rec *n, uint32_t k);
bool sn_lower_is_lookup(const sn_node_rec *n);
/* x looks up: would all who do so find the `table` elements in memory sooner than they compute what they want of them? */
bool sn_lower_lookups_pay(const sn_lower *lw, sn_nd x, double table);
/* Reads of an element of x, its operands being decided, for which each lane has a place of its own. */
uint32_t sn_lower_count_lanes(const sn_lower *lw, sn_nd x);

/* ---- shifted.c ---- */

void sn_lower_count_places(sn_lower *lw);
/* Of x, its operands being decided. */
void sn_lower_count_work(sn_lower *lw, sn_nd x);
/* Is an element of x, which has `bytes` in all, computed for so many places that it had better be stored? */
bool sn_lower_is_shifted_much(const sn_lower *lw, sn_nd x, int64_t bytes);

/* ---- sort.c ---- */

/* The kernels of a sort or topk. out: buffers of its values and positions, none where nobody reads them. */
sn_status sn_lower_sort(sn_lower *lw, sn_nd x, const sn_buf out[2]);

#endif
