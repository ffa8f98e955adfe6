/* map.h: what the files of the pass `map` share: the shape of a kernel, as the cost model and the binders see it. */
#ifndef SN_PASSES_MAP_H
#define SN_PASSES_MAP_H

#include "passes/rebuild.h"

enum { SN_MAX_NESTS = 16 };

typedef struct sn_map_nest {
    sn_stmt top;
    sn_chain chain;
    int64_t count;
    bool perfect;
} sn_map_nest;

typedef struct sn_map_shape {
    sn_chain outer; /* parallel loops */
    int64_t rows;   /* their iterations */
    sn_stmt body;   /* innermost outer loop, none: the kernel itself */
    sn_map_nest nests[SN_MAX_NESTS];
    uint32_t n_nests;
    bool all_perfect;
    int64_t max_count;                 /* largest nest */
    int64_t along_inner, along_outer;  /* bytes that nests walk along their last axis / along the last outer axis */
    uint32_t bytes_inner, bytes_outer; /* smallest element among those (0: none) */
    uint32_t bytes_flat;               /* smallest element among all accesses that walk the last outer axis */
    int64_t divisor_inner;             /* vectors along the nest must divide this (0: no contiguous nest) */
    uint32_t kept;                     /* bytes of an element that nests of a row have to read again */
    uint32_t states;                   /* values that the reductions carry, f64 and i64 counted twice */
    bool contraction;                  /* every load in the nests is shared by several outer iterations */
} sn_map_shape;

/* Choose what the user left open in *sched (class included). */
sn_status sn_map_choose(sn_pass_ctx *cx, sn_kern k, const sn_map_shape *sh, sn_sched *sched);

void sn_map_bind_element(sn_pass_ctx *cx, sn_kern k, sn_map_shape *sh, const sn_sched *sched);
void sn_map_bind_inner(sn_pass_ctx *cx, sn_kern k, sn_map_shape *sh, sn_sched *sched);
void sn_map_bind_outer(sn_pass_ctx *cx, sn_kern k, sn_map_shape *sh, const sn_sched *sched);

/* Values that several nests of a row load, or one stores and a later one loads, stay in registers, up to `budget` bytes a
 * thread, or (sched->shared) in shared memory, up to `budget` bytes a block. The nests of sh are the bound ones, in `body`.
 * Returns the bytes that a thread (block) keeps. */
uint32_t sn_map_stage(sn_pass_ctx *cx, sn_kern k, const sn_map_shape *sh, sn_stmt body, const sn_sched *sched,
                      uint32_t budget);

/* Detach the statements inside the outer loops, drop the loops; returns the first one (linked by `next` no more: the
 * list is in out). */
typedef struct sn_stmt_vec {
    sn_stmt *at;
    uint32_t n, cap;
} sn_stmt_vec;
void sn_map_take_body(sn_stmt_vec *out, sn_pass_ctx *cx, sn_kern k, const sn_map_shape *sh);
/* The outer axes become the row-major parts of `flat` in all statements of the list. */
void sn_map_subst_outer(sn_pass_ctx *cx, const sn_stmt_vec *body, const sn_map_shape *sh, sn_ix flat);

#endif
