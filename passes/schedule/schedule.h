/* schedule.h: what the files of the pass `schedule` share: the shape of a kernel, as the cost model and the binders see it. */
#ifndef SN_PASSES_SCHEDULE_SCHEDULE_H
#define SN_PASSES_SCHEDULE_SCHEDULE_H

#include "passes/base/rebuild.h"
#include "passes/schedule/constants.h"

enum { SN_MAX_NESTS = 16 };

typedef struct sn_schedule_nest {
    sn_stmt top;
    sn_chain chain;
    int64_t count;
    sn_ix lead; /* elements between a vector boundary and the start of the row; none: vectors start and end with it */
    bool perfect, scan;
} sn_schedule_nest;

enum { SN_MAX_STAGED = 8 };

/* Two outer loops under which some accesses are contiguous along one and the others along the other. */
typedef struct sn_schedule_tile {
    uint32_t along, across; /* positions in the chain: direct accesses walk `along`, staged ones `across` */
    sn_stmt staged[SN_MAX_STAGED];
    uint32_t n_staged; /* 0: there is no such pair */
    uint32_t bytes;    /* of one element of every staged access */
    uint32_t direct;   /* of one element of every direct access */
    uint32_t widest;   /* of the largest staged element */
    uint32_t vector;   /* largest one that divides both extents and leaves those accesses aligned */
} sn_schedule_tile;

typedef struct sn_schedule_shape {
    sn_chain outer; /* parallel loops */
    int64_t rows;   /* their iterations */
    sn_stmt body;   /* innermost outer loop, none: the kernel itself */
    sn_schedule_nest nests[SN_MAX_NESTS];
    uint32_t n_nests;
    uint32_t ops;          /* values that the kernel computes */
    uint32_t instructions; /* that its scalar operations take, once each */
    bool all_perfect;
    bool scans;                        /* a nest is a scan: its iterations run in order */
    int64_t max_count;                 /* largest nest */
    int64_t along_inner, along_outer;  /* bytes that nests walk along their last axis / along the last outer axis */
    uint32_t bytes_inner, bytes_outer; /* smallest element among those (0: none) */
    uint32_t flat, not_flat;           /* bytes of accesses that walk all outer loops in row-major order; of others */
    uint32_t bytes_flat;               /* smallest element among all accesses that walk the last outer axis */
    uint32_t bytes_stored;             /* largest one that is stored there */
    int64_t divisor_inner;             /* vectors along the nest must divide this (0: no contiguous nest) */
    uint32_t row_stores;               /* bytes that nests of a row store at an element */
    uint32_t kept_width;               /* of the largest of these */
    uint32_t kept;                     /* bytes of an element that nests of a row have to read again */
    uint32_t states;                   /* values that the reductions carry, f64 and i64 counted twice */
    bool positions;                    /* a reduction carries positions: argmax */
    bool online;                       /* one nest, with sumexp: it reads a row that does not stay on chip, once */
    bool contraction;                  /* every load in the nests is shared by several outer iterations */
    bool windows;                      /* ... or, some, in a window that moves along the last outer axis: pooling */
    /* A kernel of the pass `mixed-order-reduction`: each outer iteration does several rows, one after the other. */
    sn_stmt rows_loop; /* the loop over them; none: the kernel is not of that kind */
    sn_stmt row;       /* its region is a row: rows_loop, or the `if` in it */
    int64_t width;     /* elements of a row that accumulates */
    uint32_t n_sums;   /* buffers that it accumulates in */
    sn_buf sums[SN_MAX_NESTS];
    sn_comb combs[SN_MAX_NESTS];
    sn_val identities[SN_MAX_NESTS];
    sn_schedule_tile tile;
} sn_schedule_shape;

/* Choose what the user left open in *sched (class included). */
sn_status sn_schedule_choose(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_sched *sched);

void sn_schedule_bind_element(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, const sn_sched *sched);
/* Rows that do not start at multiples of `vector`: by how many elements they start after one, an ix over the outer axes
 * that all nests agree on. None: they do not agree, or it does not pay. */
sn_ix sn_schedule_row_lead(sn_module *m, const sn_schedule_shape *sh, uint32_t vector);
/* Replace a nest by  block.x { [seq] { unroll { vector { body } } } }; returns the new one. */
sn_stmt sn_schedule_bind_row_nest(sn_pass_ctx *cx, sn_kern k, const sn_schedule_nest *nest, const sn_sched *sc);
void sn_schedule_bind_inner(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sched);
/* Is the kernel of the kind that `mixed-order-reduction` makes? Fills in the last fields of *sh. */
bool sn_schedule_find_mixed(sn_schedule_shape *sh, sn_pass_ctx *cx, sn_kern k);
void sn_schedule_bind_mixed(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, const sn_sched *sc);
void sn_schedule_bind_outer(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, const sn_sched *sched);
void sn_schedule_bind_tile(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, const sn_sched *sched);

/* Class tile (map_tile.c): the best pair of loops of a kernel without nests, whether it is worth it, and the
 * figures. */
void sn_schedule_tile_look(sn_schedule_tile *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
bool sn_schedule_tile_pays(const sn_pass_ctx *cx, const sn_schedule_shape *sh);
sn_status sn_schedule_tile_choose(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_sched *sched);

/* Values that several nests of a row load, or one stores and a later one loads, stay in registers, up to `budget` bytes
 * a thread, or (sched->shared) in shared memory, up to `budget` bytes a block. The nests of sh are the bound ones, in
 * `body`. Returns the bytes that a thread (block) keeps. */
uint32_t sn_schedule_stage(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_stmt body, const sn_sched *sched,
                           uint32_t budget);

/* The loads of written-out steps of scans stand ahead of them. Returns the bytes that a thread keeps. */
uint32_t sn_schedule_loads_ahead(sn_pass_ctx *cx, sn_kern k, const sn_sched *sched);
/* Position of the kernel that stores every temporary which the kernel at position `at` loads; UINT32_MAX: none, or
 * several. `last-block-reduce` may make the second one the tail of the first, if their blocks have the same shape. */
uint32_t sn_schedule_follows(const sn_module *m, const sn_users *users, uint32_t at);

/* Instructions of a kernel's scalar operations, once each; those of 64 bits count twice. */
uint32_t sn_schedule_instructions(const sn_module *m, sn_kern k);

/* What is known of a bound kernel on a GPU without running it (map_model.c). */
typedef enum sn_schedule_limit {
    SN_MAP_THREADS,
    SN_MAP_BLOCKS,
    SN_MAP_REGS,
    SN_MAP_SHARED,
    SN_N_MAP_LIMITS
} sn_schedule_limit;
typedef enum sn_schedule_bound {
    SN_MAP_MEMORY,  /* its bandwidth */
    SN_MAP_LATENCY, /* too few bytes are in flight for that */
    SN_MAP_LINES,   /* lines that warps touch */
    SN_MAP_ISSUE,   /* instructions */
    SN_MAP_SPECIAL  /* special functions */
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
    double memory, lines, issue, special; /* cycles that each would take alone */
    sn_schedule_bound bound;
    /* The access that touches or wastes most lines: */
    sn_buf lines_of;
    sn_schedule_coverage covered;
    bool scattered;      /* it leaves most of them unused */
    double worst, again; /* how many; how often it reads each byte */
} sn_schedule_model;
void sn_schedule_estimate(sn_schedule_model *out, sn_pass_ctx *cx, sn_kern k, const sn_sched *sched);
/* Say in a remark what bounds the kernel. */
void sn_schedule_explain(sn_pass_ctx *cx, sn_kern k, const sn_sched *sched);

/* Detach the statements inside the outer loops, drop the loops; returns the first one (linked by `next` no more: the
 * list is in out). */
void sn_schedule_take_body(sn_stmt_vec *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
/* The outer axes become the row-major parts of `flat` in all statements of the list. */
void sn_schedule_subst_outer(sn_pass_ctx *cx, const sn_stmt_vec *body, const sn_schedule_shape *sh, sn_ix flat);

#endif
