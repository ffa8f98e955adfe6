/* store.h: the one container: where everything of a module is. Its records are those of the rooms above (index,
 * graph, loop, wrap), which reach them by id; only what the container itself is made of is defined here. A module
 * holds symbols, index expressions, at most one graph, buffers, kernels in execution order and at most one wrapper,
 * all in one arena.
 */
#ifndef SN_IR_BASE_STORE_H
#define SN_IR_BASE_STORE_H

#include "ir/base/ids.h"
#include "ir/base/text.h"

enum { SN_MAX_RANK = 8 };

/* ---- weights (ir/graph/weights.h) ---- */

typedef struct sn_weight_table {
    sn_table recs;    /* sn_weight_rec; record 0 is none */
    sn_names names;   /* name -> id */
    const char *file; /* where the text says that they are: a path, from the folder of the text; NULL: nowhere */
} sn_weight_table;

/* ---- the graph (ir/graph/graph.h) ---- */

/* Elements of an input that a run may leave out: of floats at f, else at i. n: 1 is the value of all; 0: it may not. */
typedef struct sn_graph_default {
    const double *f;
    const int64_t *i;
    uint64_t n;
} sn_graph_default;

/* A graph input. Strides and offset are in elements; a contiguous input has row-major strides and offset 0. */
typedef struct sn_graph_input {
    sn_nd node;
    const char *name;
    sn_ix stride[SN_MAX_RANK];
    sn_ix offset;
    bool contiguous; /* row-major strides and offset 0 */
    uint32_t writer; /* 1 + number of the output that writes it, 0: none does */
    sn_graph_default otherwise;
} sn_graph_input;

typedef struct sn_graph_output {
    sn_nd node;
    const char *name;
    int writes; /* number of the input whose storage takes the value, -1: storage of its own */
} sn_graph_output;

typedef struct sn_graph_ir {
    const char *name;
    const char *origin; /* of the nodes that are made from now on (sn_node_rec); NULL: nobody says */
    sn_table nodes;     /* sn_node_rec; record 0 is none */
    uint32_t *slots;    /* interning table */
    uint32_t slot_cap;
    uint32_t repeats; /* the largest number of a repeat, 0: there is none */
    SN_VEC(sn_graph_input) inputs;
    SN_VEC(sn_graph_output) outputs;
    sn_names input_names, output_names; /* name -> number plus 1 */
} sn_graph_ir;

/* ---- repeats and branches of kernels (ir/loop/repeats.h) ---- */

/* In step t the buffer is what begins at element first + t * by of another one. */
typedef struct sn_repeat_window {
    sn_buf buf, of;
    sn_ix first, by;
} sn_repeat_window;

/* When a step ends, `state` has the elements of `next`. */
typedef struct sn_carry {
    sn_buf state, next;
} sn_carry;

/* Kernels of the sections first .. last run `trip` times. Or, where there is an `otherwise`, those in front of section
 * `otherwise` run if the flag holds, and the others if not. */
typedef struct sn_repeat_rec {
    sn_ix trip;
    uint32_t first, last, otherwise;
    sn_buf flag; /* of a repeat: it ends behind a step after which this does not hold; none: it makes all steps */
    SN_VEC(sn_repeat_window) windows;
    SN_VEC(sn_carry) carries;
} sn_repeat_rec;

/* ---- the wrapper (ir/wrap/wrap.h) ---- */

typedef enum sn_step_kind {
    SN_STEP_CHECK, /* buf: the caller's tensor matches (dtype, rank, shape, strides, alignment) */
    SN_STEP_ALLOC, /* buf: `size` bytes at workspace + offset */
    SN_STEP_REUSE, /* buf takes the storage of `from`, whose life ended */
    SN_STEP_FREE,  /* buf's life ends */
    SN_STEP_CALL,  /* kern: launch with args, one for each of its formals */
    SN_STEP_COPY,  /* copy `size` bytes from `from` to `buf` (write-back of a mutated input, output that is an input) */
    SN_STEP_REPEAT,  /* what stands before its `end` runs `size` times */
    SN_STEP_WINDOW,  /* buf is `from` from byte offset + size * t on, in step t of the repeat */
    SN_STEP_CARRY,   /* buf has what is in `from`: they change places */
    SN_STEP_WHILE,   /* the repeat around it ends here unless buf, one bool, holds */
    SN_STEP_IF,      /* what stands before its `else` or `end` runs if buf, one bool, holds ... */
    SN_STEP_ELSE,    /* ... and what stands between that and the `end` if not */
    SN_STEP_END,     /* of the last repeat or branch that has none yet */
    SN_STEP_COMMENT, /* text */
    SN_N_STEP_KINDS
} sn_step_kind;

/* What a call gives to a formal: the storage of a buffer from element `offset` on. */
typedef struct sn_arg {
    sn_buf buf;
    int64_t offset;
} sn_arg;
typedef struct sn_arg_list {
    sn_arg *at;
    uint32_t n, cap;
} sn_arg_list;

typedef struct sn_step {
    sn_step_kind kind;
    sn_buf buf, from;
    sn_kern kern;
    sn_arg_list args;
    sn_ix size, offset; /* bytes; REPEAT: size is a number of times, WINDOW: it may be negative */
    const char
        *text; /* COMMENT; CALL: what its kernel comes from here, where equal ones became one; NULL: what that says */
} sn_step;

typedef struct sn_wrap {
    const char *name;
    SN_VEC(sn_step) steps;
    uint32_t n_prepare;        /* the first of them, which run once, when a program is loaded */
    sn_ix workspace, prepared; /* bytes: of a run, and of what those first steps leave */
} sn_wrap;

/* ---- all of it ---- */

struct sn_module {
    sn_env *env;
    sn_arena arena;
    sn_table ixs;       /* sn_ix_rec */
    uint32_t *ix_slots; /* hash table of ixs (power of two) */
    uint32_t ix_slot_cap;
    sn_table axes; /* sn_axis_rec */
    sn_table syms; /* sn_sym_rec */
    sn_weight_table weights;
    sn_graph_ir graph;             /* graph.n_nodes == 0: no graph */
    sn_table bufs;                 /* sn_buf_rec */
    sn_table kerns;                /* sn_kern_rec */
    sn_table stmts;                /* sn_stmt_rec */
    sn_table vals;                 /* sn_val_rec */
    sn_kern_list kernels;          /* live kernels, in execution order */
    SN_VEC(sn_repeat_rec) repeats; /* until there is a wrapper, which has steps for them */
    sn_wrap wrap;                  /* wrap.steps.n == 0: no wrapper */
    sn_names buf_names;            /* name -> buffer and name -> kernel: kept by sn_buf_new and sn_kern_new */
    sn_names kern_names;
};

#endif
