/* gen.h: the state of translating one kernel, shared by the files of this folder that do it. They stand on floors:
 *
 *     kernel       kernel.c (function, launch), segments.c (kernels of several segments), precision.c (coarse values)
 *     statements   statement.c (one statement; loops)
 *     nests        keyed.c and reduce.c, scan.c (prefixes), pipe.c and ring.c (loops whose copies run ahead)
 *     regions      interior.c (without edges), region.c (in order, by blocks, by threads), lanes.c (as a vector), runs.c (as
 *                  one, run by run)
 *     accesses     store.c and load.c, access.c (what both access), unaligned.c (vectors that lie anywhere), apart.c (at equal
 *                  distances), copy.c (asynchronous copies), box.c (tensor copies), mma.c and mma_sync.c (products)
 *     exchanges    block.c (between threads), posted.c (from block to block), team.c (between the blocks of a team),
 *                  cluster.c and arrivals.c (of a cluster), last_block.c (after all blocks)
 *     ground       index.c (ix), threads.c, shared.c (memory of a block), registers.c (of a thread), kept.c (from run to
 *                  run), features.c (of the target), tensor_map.c (parameters), follow.c (the launches before and behind),
 *                  loops.c, combine.c, packed.c, bytes.c and sumexp.c (combiners)
 *
 * Below, the files come from the ground up, and each uses only what stands before its own end (`./dev check`).
 * Statements have regions, whose code is that of statements again: that one way up is g->statement.
 */
#ifndef SN_CODEGEN_LLVM_GEN_H
#define SN_CODEGEN_LLVM_GEN_H

#include "codegen-llvm/math.h"
#include "ir/base/tensor_map.h"
#include "ir/loop/alike.h"
#include "ir/loop/box.h"
#include "ir/loop/copies.h"
#include "ir/loop/mma.h"
#include "ir/ops/scalar.h"

enum { SN_GEN_STATES = 8, SN_GEN_LANES = 64, SN_GEN_JOINED = 32 };

typedef struct sn_gen_memo {
    sn_ix e;
    lv old;
} sn_gen_memo;

/* Is a value never below 0: no, or nobody knows; a sum of exponentials; that of sumexp alone (precision.c). */
typedef enum sn_gen_positive { SN_GEN_ANY, SN_GEN_SUM, SN_GEN_WEIGHT } sn_gen_positive;

/* Exchanges between the threads of a block use two areas of shared memory in turn. */
typedef struct sn_gen_turn {
    uint32_t next, made; /* the area of the next exchange; exchanges so far */
} sn_gen_turn;

/* An axis that counts threads or blocks of a cluster. */
typedef struct sn_gen_thread_axis {
    sn_axis ax;
    sn_axis_kind kind;
} sn_gen_thread_axis;

/* Of a prefix that adds many times: the variables with what its last steps added to its state and with the number of steps
 * (NULL: it has none); or its state is an f64. */
typedef struct sn_gen_lost {
    lv sum, steps;
    bool wide;
} sn_gen_lost;

/* What the combiners of a reduction carry from one element to the next. */
typedef struct sn_gen_states {
    uint32_t n_combs, n;
    sn_comb combs[4];
    uint32_t first[4]; /* first state of each combiner */
    sn_dtype dtypes[SN_GEN_STATES];
} sn_gen_states;

/* A box (ir/loop/box.h) and its tensor map. */
typedef struct sn_gen_box {
    sn_stmt nest;
    sn_box box;
    uint32_t map;
    bool shared; /* copied once for all blocks of the cluster, a part by each */
} sn_gen_box;

/* A pipe that boxes fill: ring.c. */
typedef struct sn_gen_ring {
    sn_stmt pipe;
    uint32_t stages;
    lv full, empty;  /* addresses in shared memory: barrier objects of the stages */
    lv stage, phase; /* variables: those of the next iteration */
    lv arrives;      /* barrier object of the iteration that is being made */
    sn_stmt late;    /* product that is given behind the first ones of the next iteration; none: there is none ... */
    sn_stmt early;   /* ... the last of those */
    lv late_full, late_empty; /* objects of what it reads */
    lv holds, hold_phase;     /* object of the late product under way, whose phase is over */
    bool shared;              /* with the other blocks of the cluster */
} sn_gen_ring;

/* Who runs the code that is being made. */
typedef enum sn_gen_role {
    SN_GEN_ALL,     /* all threads */
    SN_GEN_COPIES,  /* one thread, which copies boxes */
    SN_GEN_COMPUTES /* the threads that the block's axes count */
} sn_gen_role;

/* A vector in memory that starts anywhere (unaligned.c). */
typedef struct sn_gen_place {
    lv mask, otherwise; /* scalar, NULL: it is always loaded; what stands for it else */
    lv base;            /* of the storage */
    lv at, size;        /* bytes from there to lane 0, of all that may be read; of the index type */
    int64_t least;      /* bytes of the storage, of the smallest one that it may be */
    uint32_t granule;   /* bytes that `at` is a multiple of */
    lv head;            /* bytes from `base` to the storage; NULL: it begins there */
    bool early;         /* the first lanes may lie before the storage: nobody wants them */
    bool inside, near;  /* all lanes lie in the storage; ... and so do the pieces that they stand in */
    bool words; /* it is read by words, not by wider pieces: several rows are under way, each with one address */
    bool steady;
    sn_dtype dtype;
} sn_gen_place;

/* A value that is not made: a selection chooses its place instead. */
typedef struct sn_gen_joined {
    sn_val v;
    sn_gen_place place;
} sn_gen_joined;

/* The vector that is being made run by run (runs.c). */
typedef struct sn_gen_run {
    sn_axis axis;
    uint32_t lanes; /* 0: none */
    lv start;       /* the first lane of this run, of the index type; NULL: lane 0, and the axis is fixed to it */
    uint32_t n_joined, n_stored;
    sn_gen_joined joined[SN_GEN_JOINED];
    sn_stmt_rec *stores[SN_GEN_STATES];
    lv stored[SN_GEN_STATES]; /* all lanes, of the storage type */
} sn_gen_run;

/* What a test answers here (interior.c). */
typedef enum sn_gen_known { SN_GEN_OPEN, SN_GEN_HOLDS, SN_GEN_FAILS } sn_gen_known;

typedef struct sn_gen {
    sn_em em;
    sn_env *env;
    sn_module *m;
    sn_kern kern;
    sn_kern_rec *k;
    sn_arena *arena; /* scratch */
    bool gpu;
    sn_status status; /* first failure inside the recursion */

    /* Code of one statement: the way up for regions, which are made of them. */
    void (*statement)(struct sn_gen *g, sn_stmt s);

    /* What ids mean at the current place. */
    lv *vals;              /* by sn_val */
    bool *varies;          /* by sn_val: differs between lanes of the current vector axis */
    bool *coarse, *blunt;  /* by sn_val: see precision.c */
    bool *term;            /* by sn_val: the same */
    bool *middle;          /* by sn_val: a divisor that is a sum of exponentials of which the largest is 1 */
    uint8_t *positive;     /* by sn_val: sn_gen_positive, of a divisor */
    uint8_t *known;        /* by sn_val: sn_gen_known, of a test */
    int64_t beyond;        /* the tests that are known to hold do so for as many positions more */
    bool fits;             /* vectors with lanes outside of a row are inside of the buffer (interior.c) */
    bool near;             /* pieces around odd columns of bytes are inside of the buffer (interior.c) */
    lv *axes;              /* by sn_axis: its number, of the index type; NULL: unbound or constant */
    lv *symbols;           /* by sn_sym: numbers that segments differ in; NULL without segments */
    lv *memory;            /* by sn_buf: address of element 0 */
    bool *steady;          /* by sn_buf: nothing writes its storage while the kernel runs */
    bool *of_one_thread;   /* by sn_buf: a reg buffer of which one iteration over threads is there at a time (host) */
    bool *in_registers;    /* by sn_axis: it numbers elements of arrays that stay in registers (host) */
    SN_VEC(sn_axis) fixed; /* axes that are constants here (written out), innermost last */
    SN_VEC(sn_ix) fixed_to;
    lv *yields; /* where a yield puts its operands */

    struct sn_gen_registers *
        *registers; /* by sn_buf: what is known of its elements (registers.c); NULL: nothing is kept */

    lv *prefixes;      /* by sn_val: the variable with the state of an accum */
    sn_gen_lost *lost; /* ... and what goes with it */
    bool scans;        /* the kernel has an accum */

    /* Index arithmetic. */
    LLVMTypeRef index; /* i32 or i64 */
    SN_VEC(lv) memo;   /* by sn_ix: its value, if computed in a block that dominates this place */
    SN_VEC(sn_gen_memo) memo_log;
    int pick; /* >= 0: vector values inside an ix are read at this lane */

    /* Vector axis. */
    sn_axis lane_axis;         /* none outside */
    uint32_t lanes;            /* 1 outside */
    sn_gen_run run;            /* lanes and lane_axis are those of scalars inside */
    lv places;                 /* those of the rows whose keys were compared last (keyed.c) */
    const sn_stmt_rec *better; /* the iteration of a loop, if its results go nowhere but to what is the best so far: */
    const lv *best;            /* ... value and position (keyed.c) */
    uint32_t apart; /* of the reduction around this place, which its parts leave as they are (reduce.c); 0: none */

    /* Blocks. The host has no threads: sizes are 1 there and block axes are loops. */
    sn_launch launch;
    int64_t grid;
    uint32_t cluster, threads_x, threads_y;
    uint32_t teams;                         /* of `cluster` blocks each, in place of clusters; 0: none */
    SN_VEC(sn_gen_thread_axis) thread_axes; /* all of the kernel */
    lv block_number, block;                 /* of the launch; what grid loops further in have left of it */
    lv rank, thread_x, thread_y;
    lv round;           /* number of the launch, for what blocks post */
    bool cluster_waits; /* for its blocks to start */
    struct {
        lv objects, exchange; /* shared memory of arrivals.c; variable: exchanges so far */
    } arrivals;
    struct {
        lv number;             /* of the block in the launch */
        lv counters, exchange; /* kept memory: exchanges of each block in all launches; variable: of this block */
    } team;
    bool in_cluster, in_x, in_y; /* inside an axis of the kind */
    bool divergent;              /* inside an `if` that threads of a block may answer differently */
    bool rare;                   /* ... whose answer is in the data: what mends a few elements, if any */
    lv area[2][2];               /* shared memory of reductions: [within a block, across a cluster][turn] */
    uint32_t area_size[2][2];
    sn_gen_turn turn;
    uint64_t shared_bytes; /* dynamic shared memory; more than any block has is refused in the end */
    uint64_t shared_total; /* of all its buffers, dynamic or not */
    sn_copy_list copied;   /* copies to shared memory (GPU) */
    uint8_t *copies;       /* by sn_val: 1 for a load that is an asynchronous copy; NULL: there is none */
    bool copying;          /* copies are under way */
    bool runs_ahead;       /* ... and a pipe waits for them */
    bool copies_all;       /* ... which have brought all that it asks for */
    lv ahead;              /* ... if there is such an iteration: else copies are of no bytes; NULL: there is */

    struct sn_gen_segments *segments; /* NULL: the kernel is one nest */

    SN_VEC(sn_gen_box) boxes;
    SN_VEC(sn_gen_ring) rings;
    bool *feeds; /* by sn_stmt: is a box that fills shared memory, or has one inside */
    bool *idle;  /* by sn_stmt: a nest that sets sums to 0, which the first product behind it does by itself ... */
    sn_stmt *
        clears; /* by sn_stmt: ... this one, when: in the first iteration of a pipe, where an `if` holds, or always (a nest) */
    bool waits_late;     /* for the kernels before: at a `wait`, across which no load may move */
    bool produces;       /* there is one: a warpgroup of its own copies */
    bool stores_boxes;   /* a box stores to global memory */
    uint32_t own_groups; /* of threads that store by boxes of their own (own_boxes.c); less than 2: all do together */
    bool prepares;       /* a matrix instruction that is waited for reads what threads have stored */
    bool unseen;         /* threads may have stored to shared memory what boxes and such instructions do not see yet */
    bool in_ring;        /* inside a pipe that boxes fill: its own barriers wait for none that stores */
    sn_gen_role role;
    const sn_mma_nest **mma_nests;    /* by sn_stmt: what it stands for, where somebody has asked */
    uint32_t mma_given;               /* groups of matrix instructions, in program order: they run in this order ... */
    uint32_t mma_done;                /* ... and so many have been waited for */
    uint32_t mma_ring;                /* the last one that reads what boxes fill */
    uint32_t *mma_holds;              /* by sn_buf: the last one that has these registers */
    struct sn_gen_products *products; /* instructions of a group that is being made (mma.c) */

    uint32_t n_params;   /* buffers that a launch gives */
    lv kept;             /* memory that lasts between runs; NULL: the kernel needs none */
    uint64_t kept_bytes; /* of it that are given out */

    SN_VEC(sn_tensor_map) maps; /* GPU: parameters behind all others */
    uint32_t first_map;         /* position of the first among the parameters */
    uint32_t ptx;               /* version times ten that the code needs; 0: any */
    bool specific;              /* the code needs instructions of one architecture alone */
} sn_gen;

/* ======== ground ======== */

static inline lv sn_gen_c32(const sn_gen *g, int64_t x) { return sn_em_ci(g->em.cg->i32, x); }
/* What instructions take that know no other memory. */
static inline lv sn_gen_shared_address(const sn_gen *g, lv p) {
    return LLVMBuildTrunc(g->em.b, LLVMBuildPtrToInt(g->em.b, p, g->em.cg->i64, ""), g->em.cg->i32, "");
}

/* ---- index.c ---- */
/* Constants of written-out axes put in. */
sn_ix sn_gen_resolve(sn_gen *g, sn_ix e);
/* Its value; a vector when it depends on the lane axis (or on vector values and pick < 0). e is resolved. */
lv sn_gen_ix(sn_gen *g, sn_ix e);
/* 0 <= e < bound, unresolved; a scalar when all lanes agree. */
lv sn_gen_in(sn_gen *g, sn_ix e, sn_ix bound);
/* Do all lanes provably agree on 0 <= e < bound? */
bool sn_gen_in_uniform(sn_gen *g, sn_ix e, sn_ix bound);
/* Choose g->index for the kernel; fails on symbolic sizes. */
sn_status sn_gen_index_width(sn_gen *g);
/* Values computed between mark and release are forgotten: their block does not dominate what follows. */
uint32_t sn_gen_mark(const sn_gen *g);
void sn_gen_release(sn_gen *g, uint32_t mark);
void sn_gen_fix(sn_gen *g, sn_axis ax, int64_t value);
void sn_gen_fix_to(sn_gen *g, sn_axis ax, sn_ix e);
void sn_gen_unfix(sn_gen *g);
/* Number of iterations when it is a constant, else -1. */
int64_t sn_gen_extent(sn_gen *g, sn_axis ax);
/* The operand as it stands: scalar or vector. */
static inline lv sn_gen_val(const sn_gen *g, sn_val v) {
    SN_ASSERT(g->vals[v.i]);
    return g->vals[v.i];
}

/* ---- threads.c ---- */
/* Is the axis one that threads of a block number (and are there any)? */
bool sn_gen_is_block(const sn_gen *g, sn_axis_kind kind);
void sn_gen_barrier(sn_gen *g);
/* Is it thread 0 of the block? */
lv sn_gen_first_thread(sn_gen *g);
/* The number of the thread's group of `threads`, a multiple of a warp, which LLVM and ptxas know to be the same in a
 * warp. */
lv sn_gen_group_number(sn_gen *g, uint32_t threads);

/* Until the phase of the barrier object (mbarrier) is over; of_cluster: other blocks arrive there too, with what
 * they stored. */
void sn_gen_wait_object(sn_gen *g, lv at, lv phase, bool of_cluster);

/* ---- shared.c ---- */
/* Room for an exchange of so many bytes in a block, in the area whose turn it is. */
lv sn_gen_area(sn_gen *g, uint32_t bytes);
/* Exchanges made since then stand in code that may run again or not at all: leave the turn as it was. */
void sn_gen_settle(sn_gen *g, const sn_gen_turn *before);
/* The same as sn_gen_area in a cluster, in area 0 or 1. */
lv sn_gen_cluster_area(sn_gen *g, uint32_t which, uint32_t bytes);
/* Shared buffers of the kernel; on the host they are arrays like registers. */
void sn_gen_make_shared(sn_gen *g);
/* Bytes of one stage of a shared buffer. */
uint64_t sn_gen_shared_bytes(const sn_buf_rec *b);
/* Give the areas their final size. */
sn_status sn_gen_finish_shared(sn_gen *g);

/* ---- registers.c ---- */
/* What is known of the n elements of a reg buffer, whose memory is made, is kept from here on. */
void sn_gen_keep_registers(sn_gen *g, sn_buf b, int64_t n);
/* Are these elements among them? */
bool sn_gen_keeps_registers(const sn_gen *g, sn_buf b, int64_t first, uint32_t lanes);
/* Elements first .. first+lanes-1 of a reg buffer, of the storage type. */
lv sn_gen_register(sn_gen *g, sn_buf b, int64_t first, uint32_t lanes);
void sn_gen_set_register(sn_gen *g, sn_buf b, int64_t first, lv x);
/* g->memory of a buffer, for one access by an address of its own; for accesses that are made later, too. */
lv sn_gen_memory(sn_gen *g, sn_buf b);
lv sn_gen_memory_for_good(sn_gen *g, sn_buf b);

/* ---- kept.c ---- */
/* The next piece of g->kept, all zero before the first run. */
lv sn_gen_kept(sn_gen *g, uint64_t bytes);

/* ---- features.c ---- */
/* The code has an instruction of that version of PTX (80 for 8.0). */
void sn_gen_needs_ptx(sn_gen *g, uint32_t version);
/* ... one that only this very architecture has. Fails where the target allows none. */
void sn_gen_needs_specific(sn_gen *g);

/* ---- tensor_map.c ---- */
/* The number of such a map; equal ones are one. A new one comes before the function is made, and before segments are
 * prepared. Fails where there can be none. */
uint32_t sn_gen_tensor_map(sn_gen *g, const sn_tensor_map *map);
/* They are parameters `first` and following of the function, which is made. */
void sn_gen_tensor_map_params(sn_gen *g, uint32_t first);
/* Where it is: a generic pointer. */
lv sn_gen_tensor_map_address(const sn_gen *g, uint32_t map);
/* The first copies wait for them less long. */
void sn_gen_prefetch_tensor_maps(sn_gen *g);

/* ---- follow.c ---- */
/* From here on what the kernels before this one have stored is there; the ones behind may come, now or at the end.
 * Those of boxes: behind sn_gen_make_shared. */
void sn_gen_follow(sn_gen *g);
/* Where a kernel begins: it waits, unless it has boxes, or says itself where (`wait`). */
void sn_gen_start(sn_gen *g);
void sn_gen_wait_for_kernels(sn_gen *g);

/* ---- loops.c ---- */
typedef struct sn_gen_loop {
    sn_axis ax;
    sn_em_if guard; /* around a loop that may have no iteration */
    bool guarded;
    bool rolled; /* ptxas is not to write iterations out: code of them all costs more time than it ever saves */
    LLVMBasicBlockRef before, body, after;
    lv i, n;
    uint32_t mark;
    sn_gen_turn turn;
} sn_gen_loop;
/* A loop with one counter; between the two, the builder stands in the body. n: number of iterations. */
void sn_gen_loop_begin(sn_gen *g, sn_gen_loop *l, sn_axis ax, lv first, lv n, bool may_be_empty);
/* The n values of state are carried: they become those of the iteration, phis whose first incoming value they were. */
void sn_gen_loop_carry(sn_gen *g, sn_gen_loop *l, lv *phis, lv *state, uint32_t n);
/* next: the carried values after an iteration; on return those after the loop. */
void sn_gen_loop_end(sn_gen *g, sn_gen_loop *l, lv *phis, lv *next, uint32_t n_phis);
/* ptxas is not to write out the loop that this branch goes back in (GPU). */
void sn_gen_keep_rolled(sn_gen *g, lv back);

/* ---- sumexp.c ---- */
/* state = n states (x[2k], x[2k+1]) combined. */
void sn_gen_sumexp(sn_gen *g, sn_dtype t, lv *state, const lv *x, uint32_t n);
/* The largest (smallest) of n > 1 values of f64, nan if one is: on GPUs shorter than one after the other. Changes x. */
lv sn_gen_extreme_f64(sn_em *em, sn_comb comb, lv *x, uint32_t n);
/* One state x[0], x[1] of each lane or thread is combined by what combines maxima and sums: maxima first, so that each
 * state costs one e^. */
typedef void sn_gen_over(sn_gen *g, const sn_gen_states *st, lv *x, uint32_t width);
void sn_gen_sumexp_by(sn_gen *g, sn_dtype t, lv *x, sn_gen_over *over, uint32_t width);
/* The same of n states (x[2k], x[2k+1]) of each of them. */
void sn_gen_sumexp_over(sn_gen *g, sn_dtype t, lv *state, const lv *x, uint32_t n, sn_gen_over *over, uint32_t width);

/* ---- packed.c ---- */
/* The vector of halves that x is widened from, pairs of them; what a mask leaves out is `rest`. NULL: it is not. */
lv sn_gen_widened_halves(sn_em *em, lv x, double rest);
/* Where they are bytes: the state with x, lane by lane; all lanes of the state become one. false: nothing was done. */
bool sn_gen_combine_bytes(sn_gen *g, sn_comb comb, sn_dtype t, lv *state, lv x);
bool sn_gen_combine_byte_lanes(sn_gen *g, sn_comb comb, sn_dtype t, lv *state);
/* n vectors become one, lane by lane. May what s yields to combiner c be such vectors, by what is known before there are any? */
bool sn_gen_may_be_byte_rows(const sn_gen *g, const sn_stmt_rec *s, const sn_gen_states *st, uint32_t c);
bool sn_gen_combine_byte_rows(sn_gen *g, sn_comb comb, sn_dtype t, const lv *x, uint32_t n, lv *state);
/* Is the state a test of columns, which a loop carries as bytes? What it begins with; with x; what it comes to. */
bool sn_gen_tests_bytes(sn_gen *g, const sn_gen_states *st);
lv sn_gen_tested_none(sn_gen *g, sn_comb comb);
lv sn_gen_tested_next(sn_gen *g, sn_comb comb, lv state, lv x);
lv sn_gen_tested_all(sn_gen *g, lv state);
/* The same of a sum of bytes of columns, which the loop s carries as 32 bits. */
bool sn_gen_sums_bytes(sn_gen *g, const sn_stmt_rec *s, const sn_gen_states *st);
lv sn_gen_summed_none(sn_gen *g);
lv sn_gen_summed_next(sn_gen *g, lv state, lv x);
lv sn_gen_summed_all(sn_gen *g, lv state);
/* The larger or smaller of two words, 16 bits by 16 bits; from 9.0 on. */
lv sn_gen_extreme_pair(sn_gen *g, sn_comb comb, sn_dtype t, lv x, lv y);
/* ... of words of four bytes, byte by byte. */
bool sn_gen_extreme_words(lv *out, sn_gen *g, sn_comb comb, sn_dtype t, lv a, lv b);
/* Bytes of two words, by four digits: 0 to 3 are those of x, 4 to 7 those of y, 8 more their signs. */
lv sn_gen_permute(sn_em *em, lv x, lv y, int64_t selector);

/* ---- bytes.c ---- */
/* An operation on lanes of bytes, four at a time; NULL: it is none of those. */
lv sn_gen_byte_op(sn_gen *g, sn_lop op, sn_dtype t, const lv *in, uint32_t n);

/* ---- combine.c ---- */
/* Moments x[0..2] of each lane or thread are combined by what combines sums. */
void sn_gen_moments_by(sn_gen *g, sn_dtype t, lv *x, sn_gen_over *over, uint32_t width);
void sn_gen_combine(sn_gen *g, const sn_gen_states *st, lv *state, const lv *x);
/* One state of n vectors of so many states (x[2k], x[2k+1]) of sumexp. */
void sn_gen_sumexp_vectors(sn_gen *g, sn_dtype t, lv *state, lv *x, uint32_t n, uint32_t lanes);
/* state = n states combined pairwise, sumexp all at once; state k of number i is x[k*n + i]. */
void sn_gen_combine_all(sn_gen *g, const sn_gen_states *st, const lv *x, uint32_t n, lv *state);
/* Those of combiner c alone. */
sn_gen_states sn_gen_states_of_one(const sn_gen_states *st, uint32_t c);
/* What a combination of nothing is. */
void sn_gen_identities(sn_gen *g, const sn_gen_states *st, lv *state);
/* The lanes of every state become one. */
void sn_gen_combine_lanes(sn_gen *g, const sn_gen_states *st, lv *state, uint32_t lanes);

/* ======== exchanges ======== */

/* ---- block.c ---- */
/* All-reduce over block.x or block.y: on return every thread has the result in x. */
void sn_gen_block_reduce(sn_gen *g, const sn_gen_states *st, sn_axis_kind kind, lv *x);
/* The same over groups of `width` neighbouring threads of a warp, a power of two. */
void sn_gen_warp_reduce(sn_gen *g, const sn_gen_states *st, lv *x, uint32_t width);
/* Prefix over block.x of a single state: x becomes the combination of the threads before this one, all that of the
 * row. */
void sn_gen_block_scan(sn_gen *g, const sn_gen_states *st, lv identity, lv *x, lv *all);
/* Prefix over block.y of a single state: x becomes the combination of the rows of threads before this one. `alike`: the
 * threads of a row all have the same. */
void sn_gen_rows_scan(sn_gen *g, const sn_gen_states *st, lv identity, bool alike, lv *x);

/* ---- posted.c ---- */
/* Posted buffers of the kernel. */
void sn_gen_make_posted(sn_gen *g);
/* In a kernel that posts, blocks are numbered in the order in which they start. */
void sn_gen_ticket(sn_gen *g);
/* x, of the storage type, becomes the element with that number (GPU). */
void sn_gen_post(sn_gen *g, sn_buf b, lv element, lv x);
/* n elements, once each has been posted or is not wanted; out: of the storage type (GPU). wanted[i] NULL: it is. All are
 * asked for at once, again and again until all are there. */
void sn_gen_await(sn_gen *g, sn_buf b, const lv *elements, const lv *wanted, uint32_t n, lv *out);

/* The same of elements that are in no buffer: words of memory, two for one of 64 bits, and the number that they have
 * when they are there. The i-th of n elements is in w[i]. */
typedef struct sn_gen_words {
    lv base;
    sn_dtype dtype;
    lv round;
} sn_gen_words;
void sn_gen_put_words(sn_gen *g, const sn_gen_words *w, lv element, lv x);
void sn_gen_await_words(sn_gen *g, const sn_gen_words *w, const lv *elements, const lv *wanted, uint32_t n, lv *out);

/* ---- team.c ---- */
/* Blocks of teams instead of clusters (sched.teams): they are numbered, and number their exchanges. */
void sn_gen_team_start(sn_gen *g);
void sn_gen_team_end(sn_gen *g);
/* All-reduce over the blocks of the team, of states that are complete in each block. */
void sn_gen_team_reduce(sn_gen *g, const sn_gen_states *st, lv *x);
void sn_gen_team_barrier(sn_gen *g);

/* ---- arrivals.c ---- */
void sn_gen_make_arrivals(sn_gen *g);
/* One of two for every second exchange. */
lv sn_gen_in_turn(sn_gen *g, lv even, lv odd);
/* This block's part of the exchange is that many bytes. */
void sn_gen_expect(sn_gen *g, uint32_t bytes);
/* x, of 4 bytes or 8, or vectors of these, to `remote` in the memory of block number `to`, whose arrivals count it. */
void sn_gen_send(sn_gen *g, lv remote, lv x, uint32_t bytes, lv to);
void sn_gen_wait(sn_gen *g);

/* ---- cluster.c ---- */
void sn_gen_cluster_start(sn_gen *g);
void sn_gen_cluster_barrier(sn_gen *g);
/* All-reduce over the blocks of the cluster, of states that are complete in each block. met: the threads of the block
 * have met since the exchange before this one. */
void sn_gen_cluster_reduce(sn_gen *g, const sn_gen_states *st, lv *x, bool met);

/* ---- last_block.c ---- */
/* Between the two stands what the last block of a grid loop does; `blocks` blocks run one of its loops. */
typedef struct sn_gen_tail {
    bool open;
    sn_em_if branch;
    uint32_t mark;
    sn_gen_turn turn;
} sn_gen_tail;
void sn_gen_tail_begin(sn_gen *g, sn_gen_tail *t, int64_t blocks);
void sn_gen_tail_end(sn_gen *g, sn_gen_tail *t);

/* ======== accesses ======== */

/* ---- copy.c ---- */
void sn_gen_make_copies(sn_gen *g);
void sn_gen_copy_piece(sn_gen *g, lv to, lv from, uint32_t bytes, lv some);
/* What was copied since the last one is a group; all but so many groups have come. */
void sn_gen_commit_copies(sn_gen *g);
void sn_gen_wait_copies(sn_gen *g, int64_t under_way);
/* At the end of a block.x axis. */
void sn_gen_end_copies(sn_gen *g, const sn_stmt_rec *threads);
/* Around iterations of loops that copy, or use what was copied, part by part: after one; before number i of n. */
void sn_gen_part_made(sn_gen *g, const sn_stmt_rec *loop);
void sn_gen_part_used(sn_gen *g, const sn_stmt_rec *loop, int64_t i, int64_t n);
/* Then its iterations have to be written out. */
bool sn_gen_waits_for_parts(const sn_gen *g, const sn_stmt_rec *loop);

/* ---- own_boxes.c ---- */
/* Groups of threads that store their parts of all boxes by themselves; 1: they do not. */
uint32_t sn_gen_own_groups(sn_gen *g);
/* The number of the group, which all its threads ask for together. */
lv sn_gen_own_number(sn_gen *g);
/* The part of a box that is the group's: where it begins in shared memory, and at which line. */
void sn_gen_take_own(sn_gen *g, const sn_box *box, lv group, lv *from, lv *line);
/* The thread that stores those of its group, and the barrier in front of that. */
lv sn_gen_first_of_own(sn_gen *g);
void sn_gen_own_barrier(sn_gen *g);

/* ---- box.c ---- */
bool sn_gen_is_filled_by_box(const sn_gen *g, sn_buf b);
/* arrives: barrier object that counts what comes into shared memory. */
void sn_gen_copy_box(sn_gen *g, const sn_gen_box *b, lv arrives);
/* At a barrier; none: at the end. What threads have stored to shared memory, boxes and matrix instructions see; what boxes have read,
 * threads may store over. */
void sn_gen_order_boxes(sn_gen *g, sn_stmt barrier);
/* Before one, or earlier: boxes and matrix instructions see what the thread has stored to shared memory. */
void sn_gen_show_stores(sn_gen *g);

/* ---- mma_sync.c ---- */
/* By instructions of a warp. */
void sn_gen_mma_sync(sn_gen *g, const sn_mma_nest *n);

/* ---- mma.c ---- */
/* What a nest with `mma` stands for, found once; NULL: nothing, which the verifier refuses. */
const sn_mma_nest *sn_gen_mma_nest(sn_gen *g, sn_stmt nest);
void sn_gen_mma(sn_gen *g, sn_stmt s);
/* The last group of instructions whose registers the nest touches; 0: none. */
uint32_t sn_gen_awaited_mma(const sn_gen *g, sn_stmt nest);
/* Before a nest that touches registers of instructions under way. */
void sn_gen_settle_mma(sn_gen *g, sn_stmt nest);
/* Until no more than so many groups of instructions are under way. */
void sn_gen_wait_mma(sn_gen *g, uint32_t under_way);
/* Those of the iteration before may be under way when one begins. */
void sn_gen_carry_mma(sn_gen *g, sn_stmt pipe);
/* Behind code that may not have run, in front of which so many groups had been given, and waited for. */
void sn_gen_leave_mma(sn_gen *g, uint32_t given, uint32_t done);

/* ---- unaligned.c ---- */
/* Inside a vector of runs: a load of neighbours; a selection or conversion of such. false: it is none. */
bool sn_gen_run_load(sn_gen *g, const sn_stmt_rec *s);
bool sn_gen_run_value(sn_gen *g, const sn_stmt_rec *s);
/* Neighbours from `first` on, of the storage type, where the scalar `wanted` holds (NULL: always). near: they and whatever else is
 * in their pieces lie in the storage. */
lv sn_gen_load_anywhere(sn_gen *g, sn_buf b, sn_ix first, uint32_t lanes, lv wanted, bool near);
/* Is it known that all lanes of an access at e, whose test (none: no mask) holds here, lie so? */
bool sn_gen_is_near(sn_gen *g, sn_buf b, sn_ix e, sn_val mask);
/* Two vectors of a storage type: lanes of x before `start`, of y from there on. */
lv sn_gen_join_runs(sn_gen *g, lv x, lv y, lv start);

/* ---- apart.c ---- */
/* Elements first, first + step, ..: as many as a part has lanes, of so many that lie behind each other in memory, part by part; the last
 * part ends with the last of them. */
lv sn_gen_pick_apart(sn_em *em, const lv *parts, uint32_t size, uint32_t first, uint32_t step);
/* Lane i of x[k] is element n*i + k of all of `out`, of which there are n, too. */
void sn_gen_weave(sn_em *em, lv *out, const lv *x, uint32_t n);

/* ---- access.c ---- */
/* What load.c and store.c share: access.h. */

/* ---- load.c ---- */
/* Does s load columns of bytes or halves that begin anywhere? */
bool sn_gen_loads_odd_columns(sn_gen *g, const sn_stmt_rec *s);
void sn_gen_load(sn_gen *g, sn_stmt_rec *s);
/* The same, where no copy and no vector of runs stands for it. */
void sn_gen_load_value(sn_gen *g, sn_stmt_rec *s);

/* ---- store.c ---- */
void sn_gen_store(sn_gen *g, sn_stmt_rec *s);
/* The store of x, which is of the storage type. */
void sn_gen_store_value(sn_gen *g, sn_stmt_rec *s, lv x);
/* What is done once, to a buffer of that scope, at a place that all threads run: by the threads whose missing block numbers are 0.
 * NULL: by all. */
lv sn_gen_chosen_threads(sn_gen *g, sn_buf_scope scope);

/* ---- prefetch.c ---- */
void sn_gen_prefetch(sn_gen *g, const sn_stmt_rec *s);

/* ======== regions ======== */

/* ---- interior.c ---- */
/* One iteration of a loop that counts: body(g, user), which brings the n values of state up to date. */
void sn_gen_iteration(sn_gen *g, const sn_stmt_rec *loop, void (*body)(sn_gen *g, void *user), void *user, lv *state,
                      uint32_t n);
/* The region of a loop whose iterations a block scans together: those of a grid are parts of rows, others are its steps. */
void sn_gen_part(sn_gen *g, const sn_stmt_rec *loop, void (*body)(sn_gen *g, void *user), void *user);

/* ---- region.c ---- */
/* The statements in program order. */
void sn_gen_region(sn_gen *g, sn_stmt first);
/* Is it a grid loop whose iterations the blocks of the launch share, in any order? */
bool sn_gen_is_spread(const sn_gen *g, sn_stmt s);
/* The region of one, by each block for its iteration. */
void sn_gen_grid_region(sn_gen *g, sn_stmt_rec *s);
/* The region of a loop or reduction over a block axis, by each thread for its iteration. */
void sn_gen_block_region(sn_gen *g, sn_stmt_rec *s);

/* ---- lanes.c ---- */
/* Can the axis of s be lanes? Marks what varies between them. */
bool sn_gen_runs_as_lanes(sn_gen *g, const sn_stmt_rec *s);
/* The region once, as lanes of a vector: sets lanes, runs, resets. false: it cannot be done, nothing was emitted. */
bool sn_gen_vector_region(sn_gen *g, sn_stmt_rec *s);
/* Can what stands in the loop beside its reductions, whose results differ between the lanes? */
bool sn_gen_others_run_as_lanes(sn_gen *g, const sn_stmt_rec *s);

/* ---- sums_across.c ---- */

/* The loop, if it adds up the lanes of a vector in each iteration; false: it does something else. */
bool sn_gen_sums_across(sn_gen *g, sn_stmt_rec *s);

/* ---- runs.c ---- */
/* The region of a vector axis run by run. false: it is no such vector, nothing was emitted. */
bool sn_gen_runs(sn_gen *g, sn_stmt s);

/* ======== nests ======== */

/* ---- keyed.c ---- */
/* Is s, around columns of bytes, such a reduction, whose rows are places? What it comes to: x has the values of each. */
bool sn_gen_has_key_rows(sn_gen *g, const sn_stmt_rec *s);
void sn_gen_keyed_rows(sn_gen *g, const sn_stmt_rec *s, const lv *x, lv *state);
/* Is s a loop over them that makes positions at its end? What it carries, with the values of an iteration, and what that comes to. */
bool sn_gen_has_key_loop(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *rows);
void sn_gen_key_loop_begin(sn_gen *g, const sn_stmt_rec *s, lv *state);
void sn_gen_key_loop_next(sn_gen *g, const sn_stmt_rec *s, lv value, lv *state);
void sn_gen_key_loop_end(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *rows, lv *state);
/* Is s, whose innermost part is over `lanes` (s itself, or a vector in its written-out iterations), a reduction with
 * positions by keys? */
bool sn_gen_has_keys(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *lanes);
/* Which lanes of the iteration that was just translated are elements, where the first ones may be none, too; NULL: all, or all
 * but the last ones. */
lv sn_gen_key_lanes(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *lanes);
/* What it comes to: x has the values of each iteration, `in` its lanes. */
void sn_gen_keyed(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *lanes, const lv *x, const lv *in, lv *state);

/* ---- reduce.c ---- */
void sn_gen_reduce(sn_gen *g, sn_stmt_rec *s);

/* ---- scan.c ---- */
void sn_gen_accum(sn_gen *g, sn_stmt_rec *s);
/* Before a loop is entered: prefixes over it (and all that counts inside) start anew. */
void sn_gen_scan_enter(sn_gen *g, const sn_stmt_rec *loop);

/* ---- pipe.c ---- */
void sn_gen_pipe(sn_gen *g, sn_stmt s);

/* ---- ring.c ---- */
/* The boxes of the kernel and their maps, before its function is made. */
void sn_gen_find_boxes(sn_gen *g);
/* Barrier objects; all threads come here. */
void sn_gen_make_rings(sn_gen *g);
/* What follows is run by those of that role; behind what those that compute have run. */
void sn_gen_start_rings(sn_gen *g, sn_gen_role role);
void sn_gen_end_rings(sn_gen *g);
/* Is the statement nothing to the threads of this role? */
bool sn_gen_skips(const sn_gen *g, sn_stmt s);
/* A pipe that boxes fill; a box. */
bool sn_gen_is_ring(const sn_gen *g, sn_stmt s);
void sn_gen_run_ring(sn_gen *g, sn_stmt pipe);
bool sn_gen_is_box(const sn_gen *g, sn_stmt s);
void sn_gen_run_box(sn_gen *g, sn_stmt s);

/* ======== statements ======== */

/* ---- statement.c ---- */
void sn_gen_statement(sn_gen *g, sn_stmt id);

/* ======== kernel ======== */

/* ---- precision.c ---- */
void sn_gen_find_coarse(sn_gen *g);

/* ---- segments.c ---- */
/* For a kernel of several segments: kern becomes a kernel of copies, one for each group of segments that are alike. Ids
 * are made, so tables by id come after. Nothing happens to an ordinary kernel. */
void sn_gen_segments_prepare(sn_gen *g);
/* The buffers come as one array, the first parameter of the function: on a GPU by value, 8 bytes for each of
 * kern->params. */
void sn_gen_segments_params(sn_gen *g);
/* The code of the segment that g->block belongs to. */
void sn_gen_segments_body(sn_gen *g);

#endif
