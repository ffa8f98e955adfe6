/* schedule.h: the ground floor of the pass `schedule`: what every class is told of a kernel, and what several of them choose
 * and bind with. The classes stand on it; schedules.h says what each of them is asked, and only schedule.c asks.
 */
#ifndef SN_PASSES_SCHEDULE_SCHEDULE_H
#define SN_PASSES_SCHEDULE_SCHEDULE_H

#include "passes/base/rebuild.h"
#include "passes/schedule/constants.h"

/* ---- the shape of a kernel (shape.c) ---- */

typedef struct sn_schedule_nest {
    sn_stmt top;
    sn_chain chain;
    int64_t count;
    sn_ix lead; /* elements between a vector boundary and the start of the row; none: vectors start and end with it */
    uint32_t least_inner,
        least_outer; /* smallest element that it walks along its last axis / the last outer axis; 0: none */
    bool perfect, scan;
    bool waits;   /* it loads what other blocks post */
    bool parts;   /* it reads what does not stay of a row, too (row_part.c): */
    sn_stmt kept; /* ... beside this loop over what does; none: all does */
    sn_stmt held; /* ... and this one over what registers hold */
} sn_schedule_nest;

/* A kernel of the pass `mixed-order-reduction`: each outer iteration does several rows, one after the other. */
typedef struct sn_schedule_mixed {
    sn_stmt rows_loop;
    sn_stmt row;     /* its region is a row: rows_loop, or the `if` in it */
    int64_t width;   /* elements of a row that accumulates */
    uint32_t n_sums; /* buffers that it accumulates in */
    sn_buf sums[SN_MAX_NESTS];
    sn_comb combs[SN_MAX_NESTS];
    sn_val identities[SN_MAX_NESTS];
} sn_schedule_mixed;

typedef struct sn_schedule_shape {
    const sn_users *users; /* of the module as it was before kernels were bound ... */
    uint32_t at;           /* ... and the position of this one */
    sn_chain outer;        /* parallel loops */
    int64_t rows;          /* their iterations */
    sn_stmt body;          /* innermost outer loop, none: the kernel itself */
    uint32_t team; /* rows of threads that share a row of the kernel, and count in the last outer loop; 0: none do */
    sn_schedule_nest nests[SN_MAX_NESTS];
    uint32_t n_nests;
    sn_val about; /* the first two nests are a sum and the squares about this (moments.c); none: they are not */
    uint32_t ops; /* values that the kernel computes */
    uint32_t instructions; /* that its scalar operations take, once each */
    bool all_perfect;
    bool scans;                       /* a nest is a scan: its iterations run in order */
    int64_t max_count;                /* largest nest */
    int64_t along_inner, along_outer; /* bytes that nests walk along their last axis / along the last outer axis */
    bool
        windows; /* loads of nests are in windows that move along the last outer axis (pooling), or shared by several rows */
    bool
        one_thread; /* rows are many, and tiny, in windows, or made of what other rows load too: a thread each does best */
    bool lanes_are_rows;            /* vectors of the CPU go along rows, although these do not lie side by side */
    bool by_columns;                /* most bytes are contiguous along the last outer axis */
    const sn_schedule_mixed *mixed; /* the nests are those of one of its rows; NULL: not of that kind */
} sn_schedule_shape;

/* Of the kernel at a position. */
sn_status sn_schedule_look(sn_schedule_shape *out, sn_pass_ctx *cx, const sn_users *users, uint32_t at);
/* Is it so small that it may take its shape from a kernel in front of it? (schedule.c) */
bool sn_schedule_may_follow(const sn_schedule_shape *sh);
/* Are there rows that run side by side, made of perfect nests? */
bool sn_schedule_has_rows(const char **why_not, const sn_schedule_shape *sh);
/* Is the kernel of the kind that `mixed-order-reduction` makes (mixed_match.c)? NULL: no. */
const sn_schedule_mixed *sn_schedule_find_mixed(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
/* Which of its sums a buffer is; -1: none. */
int sn_schedule_sum_of(const sn_schedule_mixed *mo, sn_buf b);
/* The offset e in the nest as an expression in p, the position in the nest. */
sn_ix sn_schedule_at_position(sn_module *m, const sn_chain *nest, sn_ix e, sn_ix p);
/* Does an access with the offset e walk the outer loops as one, in row-major order? */
bool sn_schedule_walks_all(sn_module *m, const sn_schedule_shape *sh, sn_ix e);
/* Instructions of a kernel's scalar operations, once each; those of 64 bits count twice. */
uint32_t sn_schedule_instructions(const sn_module *m, sn_kern k);
/* Of one operation on f32. */
double sn_schedule_op_cost(sn_lop op);
/* The same where the result ends as a half. */
double sn_schedule_half_cost(sn_lop op);
/* Does the kernel store halves alone? */
bool sn_schedule_stores_halves(const sn_module *m, sn_kern k);

/* *least becomes the smaller one; 0 stands for none. */
void sn_schedule_smaller(uint32_t *least, uint32_t bytes);
int64_t sn_schedule_gcd(int64_t a, int64_t b);

/* ---- headers ---- */

typedef struct sn_sched_list {
    sn_sched *at;
    uint32_t n, cap;
    double cycles; /* of a unit of the device, with the first one, as its class counts them; 0: it does not */
} sn_sched_list;
/* Append a header, unless it is there already. */
void sn_schedule_propose(sn_sched_list *out, sn_pass_ctx *cx, const sn_sched *sched);
/* schedule.c: what all classes that can bind the kernel at a position propose, and what the model says of each (0: it
 * knows GPUs alone). The kernel stays as it is. */
sn_status sn_schedule_list(sn_sched_list *out, double **cycles, sn_pass_ctx *cx, uint32_t at);
/* schedule.c: what the pass chooses for the kernel at a position, which stays as it is, and what the model says. */
sn_status sn_schedule_first(sn_sched *out, double *cycles, sn_pass_ctx *cx, uint32_t at);
/* schedule.c: what the class of a header makes of it for that kernel, and what the model says (0: it does not); class none: it cannot
 * be bound so. */
sn_status sn_schedule_complete(sn_sched *sched, double *cycles, sn_pass_ctx *cx, uint32_t at);
/* schedule.c: the cycles that a kernel takes whose loops have no schedule yet, as the first row of that class counts them
 * which can bind it; 0: none can, or it does not count. Needs no shape of the kernel: class contract alone. */
sn_status sn_schedule_count(double *cycles, sn_pass_ctx *cx, sn_kern k, sn_sched_class cls);
/* Class inner (rows.c): of a row that teams keep in part, how many iterations of the outermost loop of a thread stay, the first ones
 * (0: all do), and how many registers hold, the last ones. */
typedef struct sn_row_parts {
    int64_t stay, held;
    bool twice; /* rows are read twice, and registers are all for that */
    bool ahead; /* of the others, each is under way while the one before it is computed */
} sn_row_parts;
/* The copies of the bound row whose number is `row`, in the loop over turns of a team, run one turn ahead (rows_ahead.c). */
void sn_schedule_rows_ahead(sn_pass_ctx *cx, sn_kern k, sn_stmt turns, sn_ix row, int64_t rows, const sn_sched *sched);
sn_row_parts sn_schedule_row_parts(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sched);
/* Can a row be read by such parts (row_part.c)? */
bool sn_schedule_has_parts(const sn_module *m, const sn_schedule_shape *sh);
/* A bound nest does the steps that stay in a loop of their own. */
void sn_schedule_part_row(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, uint32_t nest, const sn_row_parts *parts,
                          const sn_sched *sched);
/* Teams of blocks that share a row, of which the first two nests are a sum and squares, exchange both at once (meet_once.c): behind the first, bound
 * nest, how many elements a block has ... */
sn_val sn_schedule_count_elements(sn_pass_ctx *cx, const sn_schedule_nest *nest, const sn_sched *sched);
/* ... and, where all accesses are what they will be, the two nests become one reduction. */
void sn_schedule_meet_once(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_val elements);
/* What of the rows is in registers is staged there. The nests of sh are the bound ones, in `body`. */
void sn_schedule_hold_parts(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_stmt body, const sn_sched *sched);
/* Class inner (rows.c): choose what is open in *sched. Fails where something pinned is impossible. */
sn_status sn_schedule_complete_row(sn_sched *sched, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);

/* Bytes of an element that nests of a row or column read after another nest has read or written them, and of the largest of
 * these (rows.c). */
uint32_t sn_schedule_kept(uint32_t *widest, const sn_module *m, const sn_schedule_shape *sh);

/* ---- binding ---- */

/* Detach the statements inside the outer loops, drop the loops (linked by `next` no more: the list is in out). */
void sn_schedule_take_body(sn_stmt_vec *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
/* A second body, detached like the first one. */
sn_stmt_vec sn_schedule_copy_body(sn_pass_ctx *cx, sn_kern k, const sn_stmt_vec *body);
/* The outer axes become the row-major parts of `flat` in all statements of the list. */
void sn_schedule_subst_outer(sn_pass_ctx *cx, const sn_stmt_vec *body, const sn_schedule_shape *sh, sn_ix flat);

/* Rows that do not start at multiples of `vector`: by how many elements they start after one, an ix over the outer axes
 * that all nests agree on. None: they do not agree, or it does not pay. */
sn_ix sn_schedule_row_lead(sn_module *m, const sn_schedule_shape *sh, uint32_t vector);
/* May vectors start with the rows of all nests and end behind them, with a test (the CPU)? */
bool sn_schedule_row_is_open(const sn_pass_ctx *cx, const sn_schedule_shape *sh);
/* Replace a nest by  block.x { [seq] { unroll { vector { body } } } }; returns the new one. */
sn_stmt sn_schedule_bind_row_nest(sn_pass_ctx *cx, sn_kern k, const sn_schedule_nest *nest, const sn_sched *sc);

/* Values that several nests of a row (or column) load, or one stores and a later one loads, stay in registers, up to `budget`
 * bytes a thread, or (sched->shared) in shared memory, up to `budget` bytes a block. The nests of sh are the bound ones,
 * in `body`: of columns, the loop over threads or lanes that own them. Returns the bytes that a thread (block) keeps. */
uint32_t sn_schedule_stage(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_stmt body, const sn_sched *sched,
                           uint32_t budget);

/* The loads of written-out steps of scans stand ahead of them. Returns the bytes that a thread keeps. */
uint32_t sn_schedule_loads_ahead(sn_pass_ctx *cx, sn_kern k, const sn_sched *sched);
/* The same of the written-out loop in `steps`, of buffers that the nest `row` loads, too. */
void sn_schedule_loads_of_steps(sn_pass_ctx *cx, sn_kern k, sn_stmt steps, sn_stmt row, const sn_sched *sched);

/* ---- the model ---- */

/* What is known of a bound kernel on a GPU without running it (model.c). */
typedef enum sn_schedule_limit {
    SN_LIMIT_THREADS,
    SN_LIMIT_BLOCKS,
    SN_LIMIT_REGS,
    SN_LIMIT_SHARED,
    SN_N_LIMITS
} sn_schedule_limit;
typedef enum sn_schedule_bound {
    SN_BOUND_MEMORY,  /* its bandwidth */
    SN_BOUND_LATENCY, /* too few bytes are in flight for that */
    SN_BOUND_LINES,   /* lines that warps touch */
    SN_BOUND_ISSUE,   /* instructions */
    SN_BOUND_SPECIAL, /* special functions */
    SN_BOUND_TENSOR,  /* products of tensor cores */
    SN_BOUND_SHARED,  /* bytes of shared memory */
    SN_BOUND_CACHE    /* bytes that boxes bring from the L2 */
} sn_schedule_bound;
typedef struct sn_schedule_coverage {
    uint32_t bytes, sectors, lines; /* of one access of a warp: different ones; 32 bytes each; 128 bytes each */
} sn_schedule_coverage;
typedef struct sn_schedule_model {
    double blocks;                        /* of the grid */
    uint32_t threads, regs;               /* of a block; of a thread, about */
    uint32_t resident;                    /* blocks that fit on a multiprocessor ... */
    sn_schedule_limit limit;              /* ... and what it is that has no room for more */
    double waves;                         /* blocks over those that fit on all multiprocessors */
    double loaded, stored;                /* bytes of memory, with what is unused in lines */
    double flight, needed;                /* bytes in flight on a multiprocessor; that its memory takes to be busy */
    double memory, lines, issue, special; /* cycles that each would take alone, ... */
    double tensor, shared, cache;         /* ... each of these too, ... */
    double cycles;                        /* ... and the longest, with the time that latency adds */
    sn_schedule_bound bound;
    /* The access that touches or wastes most lines: */
    sn_buf lines_of;
    sn_schedule_coverage covered;
    bool scattered;      /* it leaves most of them unused */
    double worst, again; /* how many; how often it reads each byte */
} sn_schedule_model;
/* Special functions of a GPU (ex2, rcp, ..) that the operation takes on a number; 0 where it is no scalar one. */
double sn_schedule_special(sn_lop op);
void sn_schedule_estimate(sn_schedule_model *out, sn_pass_ctx *cx, sn_kern k, const sn_sched *sched);
/* Say in a remark what bounds the kernel. */
void sn_schedule_explain(sn_pass_ctx *cx, sn_kern k, const sn_sched *sched);

#endif
