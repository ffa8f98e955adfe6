/* loop.h: Loop IR, plain and scheduled.
 *
 * A kernel is a tree of statements. A loop is a statement with a region; its axis always runs 0 .. extent-1 by 1. There
 * is no CFG and no phi: a `reduce` carries its state through named combiners, its region ends in `yield`, its results
 * come out as values. Values are visible in the rest of their region and in regions nested there.
 *
 * Memory is touched by load and store alone, through one ix: the element offset into the buffer (its own offset and
 * strides already folded in). Equal offset ids on one buffer = the same element; that is the whole dependence test.
 *
 * Scheduled Loop IR is the same language with axis kinds. Meaning never depends on the kind: running every axis as a
 * plain sequential loop gives the right result, and that is what the CPU does. What a kind promises:
 *   grid      iterations run on different blocks; they neither read nor write what others write, except what is posted.
 *             What follows a grid loop in its region runs once that loop is complete, on the block that was the last to
 *             finish. Several grid nests side by side are the segments of a kernel; the promise holds between them too
 *   cluster   iterations run on blocks that run at the same time; a reduce over a cluster axis is an all-reduce
 *   block.x   iterations run on the threads of a block (thread number = x + X*y); so do block.y. Statements outside
 *   block.y   the block axes are executed by every thread alike; a store executes once, on the threads whose missing
 *             block numbers are 0. A reduce over a block axis is an all-reduce: every thread gets the result.
 *   vector    iterations are the lanes of a vector instruction
 *   unroll    written out; the extent is a constant
 *   warp      of a reduce inside block.x: iterations run on neighbouring threads of a warp, a group of as many as there are
 *             iterations; each loads what is in its own registers, and every thread of the group gets the result
 *   seq       a loop
 * More promises about an axis may follow its kind:
 *   bulk      copies from global to shared memory in the nest may be under way when it ends
 *   await     iteration i needs what iteration i of the bulk loop in the nest before has copied, and waits for it
 *   once      what its loads bring from memory nobody reads again
 *   pipe(S)   a loop whose bulk nests run up to S - 1 iterations ahead: what they fill exists S times
 * An `accum` is a prefix: its hidden state starts from the identity of its combiner where its position is 0 and takes
 * in operand 0 at each iteration. The position is made of the axes of the innermost loops around it and counts their
 * iterations in order; as an ix it follows every rewriting of those axes. It is no pure value: it must run once for
 * each position, in order. A `reg` buffer is an array of private elements, one group of `private` elements a thread:
 * its offset is private * (thread number) + e with 0 <= e < private, threads being numbered through the cluster: x +
 * X*(y + Y*c). A `shared` buffer has one group a block: private * c + e. Its elements pass between threads where a
 * `barrier` stands between store and load. On the CPU both are plain arrays and a barrier does nothing. A `posted`
 * buffer passes elements from earlier iterations of the grid to later ones: each is stored once in a launch, and a load
 * waits until it has been. Blocks then start in the order of the grid's iterations, and the CPU runs them in it.
 */
#ifndef SN_IR_LOOP_LOOP_H
#define SN_IR_LOOP_LOOP_H

#include "ir/base/notes.h"
#include "ir/graph/weights.h"
#include "ir/index/ix.h"
#include "ir/base/sched.h"
#include "ir/ops/ops.h"

typedef enum sn_axis_kind {
    SN_AXIS_SEQ,
    SN_AXIS_GRID,
    SN_AXIS_CLUSTER,
    SN_AXIS_BLOCK_X,
    SN_AXIS_BLOCK_Y,
    SN_AXIS_VECTOR,
    SN_AXIS_UNROLL,
    SN_AXIS_WARP,
    SN_N_AXIS_KINDS
} sn_axis_kind;
extern const char *const sn_axis_kind_names[SN_N_AXIS_KINDS]; /* "seq" "grid" "cluster" "block.x" ... */
enum { SN_MAX_PIPE = 8 };                                     /* stages */

/* ---- buffers ---- */

typedef enum sn_buf_scope {
    SN_BUF_INPUT,  /* graph input: memory of the caller */
    SN_BUF_OUTPUT, /* graph output: memory of the caller */
    SN_BUF_TEMP,   /* intermediate: planned by the wrapper */
    SN_BUF_CONST,  /* literal data that the module carries, or a weight */
    SN_BUF_STEP, /* as an intermediate, but repeats name it: read or stored elsewhere than kernels say (ir/loop/repeats.h) */
    SN_BUF_FORMAL, /* formal parameter of one kernel: memory that a call gives it */
    SN_BUF_REG,    /* private registers of threads, belongs to one kernel */
    SN_BUF_SHARED, /* shared memory of blocks, belongs to one kernel */
    SN_BUF_POSTED  /* elements that pass from block to block, belongs to one kernel */
} sn_buf_scope;
extern const char *const
    sn_buf_scope_names[]; /* "input" "output" "temp" "const" "step" "formal" "reg" "shared" "posted" */

/* What a kernel does with a formal. */
typedef enum sn_role { SN_ROLE_NONE, SN_ROLE_IN, SN_ROLE_OUT, SN_ROLE_INOUT, SN_N_ROLES } sn_role;
extern const char *const sn_role_names[SN_N_ROLES]; /* "" "in" "out" "inout" */

typedef struct sn_buf_rec {
    const char *name; /* unique in the module; of a formal: in its kernel */
    sn_dtype dtype;
    sn_buf_scope scope;
    uint32_t rank;
    sn_ix shape[SN_MAX_RANK]; /* logical shape, for people and checks */
    sn_ix size;               /* elements from the start of the storage that accesses may touch */
    uint32_t io;              /* INPUT, OUTPUT: number of the graph input or output */
    uint32_t private_size;    /* REG: elements of one thread; SHARED: of one block; else 0 */
    uint32_t swizzle;         /* SHARED: 32, 64 or 128: elements stand permuted in rows of so many bytes; 0: in order */
    uint32_t align;           /* bytes that the storage start is a multiple of (a power of two) */
    const void *data;         /* CONST: size elements in storage format ... */
    sn_wt weight;             /* ... or the weight that has them (ir/graph/weights.h); read both through sn_buf_data */
    sn_role role;             /* FORMAL: loaded, stored or both */
    bool noalias;             /* FORMAL: no other argument of a call has the same storage */
    bool invariant;           /* FORMAL: nothing writes its storage while the kernel runs */
    uint32_t mark;            /* scratch of one call of ir/loop; means nothing between calls */
} sn_buf_rec;

/* ---- statements and values ---- */

/* Which operation has which field: ir/ops/lops.def. */
typedef struct sn_stmt_rec {
    sn_lop op;
    sn_dtype dtype; /* of the result (values), of the buffer; for REDUCE see the result values */
    uint32_t n_in;
    sn_val *in;
    bool has_mask; /* the mask stands behind the other operands */
    sn_val result; /* first result; results of a REDUCE have consecutive ids */
    uint32_t n_results;
    sn_buf buf;           /* LOAD, STORE */
    sn_ix ix;             /* INDEX, IN, LOAD, STORE, IF; ACCUM: the position among the iterations */
    sn_ix bound;          /* IN, IF */
    sn_axis axis;         /* LOOP, REDUCE */
    sn_axis_kind kind;    /* LOOP, REDUCE */
    bool bulk;            /* LOOP, REDUCE: its copies come later (ir/loop/copies.h) */
    bool await;           /* LOOP, REDUCE: each iteration waits for those of one iteration of a bulk loop */
    bool once;            /* LOOP, REDUCE: what its loads bring is not wanted again: it leaves the cache first */
    uint32_t pipe;        /* LOOP: copies of the buffers that its bulk nests fill; 0: no pipe */
    uint32_t mma;         /* LOOP: sn_mma, what its nest is one of (ir/loop/mma.h); 0: none ... */
    uint32_t mma_columns; /* ... and groups of threads side by side */
    uint32_t n_combs;     /* REDUCE; ACCUM: 1 */
    sn_comb combs[4];
    bool exclusive;             /* ACCUM: without operand 0 of this iteration */
    double f;                   /* CONST of a float dtype */
    int64_t i;                  /* CONST of an integral dtype */
    sn_stmt first, last;        /* LOOP, REDUCE, IF: region */
    sn_stmt next, prev, parent; /* place; parent none = body of the kernel */
    sn_kern kern;
    /* Arithmetic: where the node that it is of comes from, for people (as of a kernel, one origin). NULL: nobody says. Places of the
     * caller's are in the text. */
    const char *from;
    uint32_t mark, stamp; /* scratch of one call of ir/loop; mean nothing between calls */
} sn_stmt_rec;

typedef struct sn_val_rec {
    sn_stmt def;
    uint32_t number; /* which result */
    sn_dtype dtype;
    uint32_t mark; /* scratch, as above */
} sn_val_rec;

/* ---- kernels ---- */

/* A kernel begins as a piece of the program: its parameters are the very buffers that it touches, and kernels run in
 * the order of m->kernels. The pass `plan` makes functions: parameters are formals, each call of the wrapper gives
 * arguments, and kernels whose text is equal without names are one. */
typedef struct sn_kern_rec {
    const char *name;
    sn_buf_list
        params; /* in the order of the generated function's arguments: all global buffers it touches, or formals */
    sn_buf_list locals;  /* REG, SHARED and POSTED buffers */
    sn_stmt first, last; /* body */
    sn_sched sched;
    bool scheduled; /* axes are bound: `schedule` has run, or the kernel was made so */
    /* Another schedule of that kernel, of the same parameters: a call of that one may be one of this, which nobody calls. Stands
     * behind it in m->kernels, and is never that of a kernel that has this itself. None: it is no alternative. */
    sn_kern alternative_of;
    /* Between two sections a repeat begins or ends: none of their kernels is joined with one of another section, or passes it.
     * They ascend along m->kernels, but for alternatives. 0 where there is no repeat. */
    uint32_t section;
    const char *note; /* what was fused into it, for people: "add, exp, sum" */
    const char *from; /* origins of the nodes that are in it, likewise: "model.c:12, model.c:14"; NULL: nobody says */
} sn_kern_rec;

/* ---- reading ---- */
sn_buf_rec *sn_buf_get(const sn_module *m, sn_buf b);
sn_kern_rec *sn_kern_get(const sn_module *m, sn_kern k);
sn_stmt_rec *sn_stmt_get(const sn_module *m, sn_stmt s);
sn_val_rec *sn_val_get(const sn_module *m, sn_val v);
/* Where the elements of a CONST buffer are; NULL: a weight that is not attached. */
const void *sn_buf_data(const sn_module *m, const sn_buf_rec *b);
/* Memory of the program: a place in the wrapper. */
static inline bool sn_buf_is_global(const sn_buf_rec *b) { return b->scope < SN_BUF_FORMAL; }
/* What no kernel stores to while a program runs: constants, and inputs that no output is written back to (such an output may live in
 * their storage). */
bool sn_buf_is_settled(const sn_module *m, const sn_buf_rec *b);
/* Memory of one kernel: no parameter. */
static inline bool sn_buf_is_local(const sn_buf_rec *b) { return b->scope >= SN_BUF_REG; }
/* ... of one block or thread of it: lost at the end of a grid iteration. */
static inline bool sn_buf_is_private(const sn_buf_rec *b) {
    return b->scope == SN_BUF_REG || b->scope == SN_BUF_SHARED;
}
/* The value of LOAD/STORE masks: none when absent. */
sn_val sn_stmt_mask(const sn_stmt_rec *s);
/* The buffer / kernel made under that name, none when there is none. */
sn_buf sn_buf_named(const sn_module *m, const char *name);
sn_kern sn_kern_named(const sn_module *m, const char *name);
/* Pre-order walk of a kernel: first statement, then next until none. Regions are entered. */
sn_stmt sn_stmt_walk_first(const sn_module *m, sn_kern k);
sn_stmt sn_stmt_walk_next(const sn_module *m, sn_stmt s);
/* Next in pre-order that is not inside s. */
sn_stmt sn_stmt_walk_skip(const sn_module *m, sn_stmt s);
/* Is s inside the region of `outer` (at any depth)? */
bool sn_stmt_inside(const sn_module *m, sn_stmt s, sn_stmt outer);
/* Has s the same v in several iterations that one thread makes of a loop around it? */
bool sn_val_stays(const sn_module *m, sn_val v, sn_stmt s);
/* A loop or a reduction. */
static inline bool sn_is_nest(const sn_stmt_rec *s) { return sn_lops[s->op].has_axis; }
/* What it does to an element of its buffer. */
static inline bool sn_loads(const sn_stmt_rec *s) { return sn_lops[s->op].reads; }
static inline bool sn_stores(const sn_stmt_rec *s) { return sn_lops[s->op].writes; }
static inline bool sn_is_access(const sn_stmt_rec *s) { return sn_lops[s->op].has_buffer; }
/* Does it name a place of the caller's? Names of values alone are not in the text: they stand there. */
bool sn_kern_is_placed(const sn_kern_rec *k);
/* Kernels of which a program runs one (alternative_of): those of k, itself first, in the order of m->kernels. */
void sn_kern_alternatives(sn_kern_list *out, const sn_module *m, sn_arena *a, sn_kern k);
/* By kernel id: is it an alternative, or has it one? NULL: no kernel of the module is. */
const bool *sn_kerns_of_sets(const sn_module *m, sn_arena *a);
/* Are its parameters formals? (One without parameters does nothing, and counts.) */
bool sn_kern_is_function(const sn_module *m, sn_kern k);

/* ---- building: statements are made detached by sn_mk_*, placed by an sn_cursor ---- */
/* Names are made unique in the module and fit to be identifiers: a second "t" becomes "t_1". Offsets of the new buffer
 * run 0 .. product of the shape - 1; callers change size, align, io, private_size and data as they need. */
sn_buf sn_buf_new(sn_module *m, const char *name, sn_dtype dtype, sn_buf_scope scope, const sn_ix *shape,
                  uint32_t rank);
/* What threads or blocks have for themselves (REG, SHARED): `own` elements each, `copies` of them in all. */
sn_buf sn_local_new(sn_module *m, const char *name, sn_dtype dtype, sn_buf_scope scope, int64_t own, int64_t copies);
/* A formal of kernel k, last of its parameters. `like` says dtype, shape and size, or NULL; the name is taken as it
 * is. */
sn_buf sn_formal_new(sn_module *m, sn_kern k, const char *name, const sn_buf_rec *like);
/* A fresh kernel at the end of m->kernels. */
sn_kern sn_kern_new(sn_module *m, const char *name);
void sn_kern_add_param(sn_module *m, sn_kern k, sn_buf b); /* once only */
/* What kernel k is made of comes from there, too (a list, as in `from`); NULL: nobody says. What is in the list already is left out,
 * so is what makes it longer than people read, and so are names of values beside places of the caller's. */
void sn_kern_add_from(sn_module *m, sn_kern k, const char *from);
/* Recompute params (order: inputs, consts, temps, outputs by first appearance) and locals from the body. */
void sn_kern_collect_params(sn_module *m, sn_kern k);

/* A place to insert: at the end of the region of `parent` (or of the kernel body), or before `before`. */
typedef struct sn_cursor {
    sn_kern kern;
    sn_stmt parent;
    sn_stmt before;
} sn_cursor;
static inline sn_cursor sn_at_end(sn_kern k, sn_stmt parent) { return (sn_cursor){k, parent, {0}}; }
sn_cursor sn_at_before(const sn_module *m, sn_stmt s);
sn_cursor sn_at_after(const sn_module *m, sn_stmt s);

sn_val sn_put_op(sn_module *m, sn_cursor at, sn_lop op, const sn_val *in, uint32_t n); /* plain scalar ops */
sn_val sn_put_op1(sn_module *m, sn_cursor at, sn_lop op, sn_val a);
sn_val sn_put_op2(sn_module *m, sn_cursor at, sn_lop op, sn_val a, sn_val b);
sn_val sn_put_op3(sn_module *m, sn_cursor at, sn_lop op, sn_val a, sn_val b, sn_val c);
sn_val sn_put_const(sn_module *m, sn_cursor at, sn_dtype dtype, double value); /* integral: converted */
sn_val sn_put_const_int(sn_module *m, sn_cursor at, sn_dtype dtype, int64_t value);
sn_val sn_put_cast(sn_module *m, sn_cursor at, sn_dtype dtype, sn_val x);    /* x when nothing changes */
sn_val sn_put_bitcast(sn_module *m, sn_cursor at, sn_dtype dtype, sn_val x); /* as cast */
sn_val sn_put_index(sn_module *m, sn_cursor at, sn_dtype dtype, sn_ix e);
sn_val sn_put_in(sn_module *m, sn_cursor at, sn_ix e, sn_ix bound);
/* The mask, if there is one, where e lies in 0 .. extent - 1 too: `mask` itself where that always holds. */
sn_val sn_put_mask_in(sn_module *m, sn_cursor at, sn_val mask, sn_ix e, int64_t extent);
/* position: 0, 1, 2, ... over the iterations of the loops around it, whose axes it names (invariant L18). */
sn_val sn_put_accum(sn_module *m, sn_cursor at, sn_comb comb, sn_val x, sn_ix position, bool exclusive);
sn_val sn_put_load(sn_module *m, sn_cursor at, sn_buf b, sn_ix e);
sn_val sn_put_load_masked(sn_module *m, sn_cursor at, sn_buf b, sn_ix e, sn_val mask, sn_val otherwise);
sn_stmt sn_put_store(sn_module *m, sn_cursor at, sn_buf b, sn_ix e, sn_val x);
sn_stmt sn_put_store_masked(sn_module *m, sn_cursor at, sn_buf b, sn_ix e, sn_val x, sn_val mask);
sn_stmt sn_put_loop(sn_module *m, sn_cursor at, sn_axis ax, sn_axis_kind kind);
/* A loop of a new axis at *at, which moves inside. Returns what it counts; where there is one iteration that is 0, and there is no
 * loop but of those axes that a kernel has in any case: grid and block.x. _in: at the end of *into. */
sn_ix sn_open_loop(sn_module *m, sn_cursor *at, const char *name, int64_t extent, sn_axis_kind kind);
sn_ix sn_open_loop_in(sn_module *m, sn_kern k, sn_stmt *into, const char *name, int64_t extent, sn_axis_kind kind);
/* dtypes: one per state, in the order of the combiners. Results: sn_stmt_get(m, s)->result + k. */
sn_stmt sn_put_reduce(sn_module *m, sn_cursor at, sn_axis ax, sn_axis_kind kind, const sn_comb *combs, uint32_t n_combs,
                      const sn_dtype *dtypes);
sn_stmt sn_put_if(sn_module *m, sn_cursor at, sn_ix e, sn_ix bound);
sn_stmt sn_put_yield(sn_module *m, sn_cursor at, const sn_val *x, uint32_t n);
/* n elements of b from e on are loaded soon, where the mask holds. */
sn_stmt sn_put_prefetch(sn_module *m, sn_cursor at, sn_buf b, sn_ix e, sn_ix n, sn_val mask);
sn_stmt sn_put_wait(sn_module *m, sn_cursor at);
sn_stmt sn_put_barrier(sn_module *m, sn_cursor at);
/* A statement with these fields; its results follow from the row of lops.def. All of the above are made by it.
 * fields->dtype counts where the result is STATED; states: dtypes of the results where they are STATES, else NULL. */
sn_stmt sn_put_stmt(sn_module *m, sn_cursor at, const sn_stmt_rec *fields, const sn_dtype *states);
/* Result k of a statement. */
static inline sn_val sn_result(const sn_stmt_rec *s, uint32_t k) { return (sn_val){s->result.i + k}; }

/* ---- the mutation primitives ---- */
/* Take s with its region out of its place (it can be inserted again). */
void sn_stmt_unlink(sn_module *m, sn_stmt s);
void sn_stmt_insert(sn_module *m, sn_cursor at, sn_stmt s);
/* Every use of `old` in the kernel becomes `with`, inside ix too. Linear in the kernel. */
void sn_val_replace(sn_module *m, sn_kern k, sn_val old, sn_val with);
/* The same for many at once: by the id of each, the id of what replaces it. Linear in the kernel. */
void sn_val_replace_all(sn_module *m, sn_kern k, const sn_notes *map);
/* The end of a chain of such replacements. */
sn_val sn_val_follow(const sn_notes *map, sn_val v);
/* Every ix inside s and its region: axes[i] becomes with[i]. */
void sn_stmt_subst(sn_module *m, sn_stmt s, const sn_axis *axes, const sn_ix *with, uint32_t n);
/* Replace the axis of loop/reduce s by an outer and an inner one (axis = outer*factor + inner; factor divides the
 * extent): s keeps the outer axis, a new statement of the same op inside it gets the inner one, with the old region. */
sn_stmt sn_stmt_split_axis(sn_module *m, sn_stmt s, int64_t factor, sn_axis *outer, sn_axis *inner);
/* A copy of s with its region at `at`; fresh axes and values; values defined outside stay. */
sn_stmt sn_stmt_clone(sn_module *m, sn_cursor at, sn_stmt s);
/* A copy of a kernel that is not scheduled, to try something on: it stands in no list of kernels. */
sn_kern sn_kern_clone(sn_module *m, sn_kern k);
/* Remove value statements without uses, then empty loops; returns whether anything went. */
bool sn_kern_dead_code(sn_module *m, sn_kern k);
/* Equal pure statements in the same or an enclosing region become one (loads too, when no store to the buffer stands
 * between); returns whether anything changed. Linear. */
bool sn_kern_cse(sn_module *m, sn_kern k);
/* Remove the kernel from m->kernels. */
void sn_kern_remove(sn_module *m, sn_kern k);
/* Of the alternatives of `first` (itself included) keep one alone: it has the calls, the others are removed. Linear in the
 * kernels and steps. */
void sn_kern_settle(sn_module *m, sn_kern first, sn_kern winner);
/* `with`, of the same parameters, has the calls, the place in m->kernels, the name and the notes of `old`, which is gone. Linear in
 * the kernels and steps. */
void sn_kern_take_place(sn_module *m, sn_kern old, sn_kern with);

/* ---- text (ir/loop/text.c), invariants (ir/loop/verify.c) ---- */
struct sn_lex;
void sn_buf_print(struct sn_text *t, const sn_module *m, sn_buf b);
void sn_kern_print(struct sn_text *t, const sn_module *m, sn_kern k);
/* The identity of a kernel: its text with numbers for all names, and without what is for people (note, shapes). */
void sn_kern_print_plain(struct sn_text *t, const sn_module *m, sn_kern k);
/* One line without its region, with the names that it has in the text of its kernel. */
void sn_stmt_print(struct sn_text *t, const sn_module *m, sn_stmt s);
/* Failure at a statement: "where: kernel @k, `statement`: message". */
sn_status sn_stmt_fail(sn_module *m, sn_status status, const char *where, sn_stmt s, const char *format, ...)
    SN_PRINTF(5, 6);
sn_status sn_buf_parse(sn_module *m, struct sn_lex *lx);  /* current token: `buffer` */
sn_status sn_kern_parse(sn_module *m, struct sn_lex *lx); /* current token: `kernel` */
sn_status sn_loop_verify(sn_module *m, const char *where);
/* L30 and L32 (ir/loop/verify_headers.c), for a module that keeps the other invariants. */
sn_status sn_headers_verify(sn_module *m, const char *where);
/* Is it a loop over blocks? */
bool sn_is_grid(const sn_module *m, sn_stmt s);
/* Loops over blocks in the body of the kernel: two or more are segments, which run side by side in one launch. */
uint32_t sn_kern_segments(const sn_module *m, sn_kern k);
/* Has it a posted buffer? Then iterations of its grid wait for earlier ones. */
bool sn_kern_posts(const sn_module *m, sn_kern k);
/* "grid 64, cluster 2, block 128 x 1" of a scheduled kernel; grid counts blocks, summed over segments, and is a
 * multiple of cluster. On the CPU clusters are loops, and so is a grid loop that something follows, and all of a kernel
 * that posts: parts counts the pieces that can run in any order. */
typedef struct sn_launch {
    sn_ix grid, parts;
    uint32_t cluster, block_x, block_y;
} sn_launch;
sn_launch sn_kern_launch(sn_module *m, sn_kern k);
/* Does something follow the grid loop s in its region, or a grid loop around it? */
bool sn_stmt_has_tail(const sn_module *m, sn_stmt s);

/* ---- evaluation (ir/loop/eval.c): sequential, naive ----
 * memory[b.i] is the storage of buffer b in its own dtype (NULL where not needed); TEMP and REG buffers that are NULL
 * are allocated from the arena. Arithmetic is rounded to the dtype of each operation, as generated code would. All
 * sizes must be constants. Out-of-bounds accesses and reads of unwritten temp or reg elements are reported as
 * SN_ERROR_VERIFY with kernel and statement. Runs all kernels of the module in order, or what its wrapper calls. */
sn_status sn_loop_eval(sn_module *m, void **memory, sn_arena *arena);
/* The same, and finds what goes wrong when the axes of scheduled kernels run as their kinds allow (ir/loop/check.c):
 * races between threads, blocks and lanes, and barriers that not all threads of a block come to. The message has the
 * place: "block 3, thread (5, 0): kernel @k, `statement`: ...". */
sn_status sn_loop_check(sn_module *m, void **memory, sn_arena *arena);
/* The same, and which statement made the nan (infinity: or the infinity) that is in element `at` of buffer b behind the last kernel:
 * the first of those that it comes from whose operands had none. None: there is none, or it was in memory before. */
sn_status sn_loop_find_nan(sn_stmt *out, sn_module *m, void **memory, sn_arena *arena, sn_buf b, int64_t at,
                           bool infinity);

#endif
