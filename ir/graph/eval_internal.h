/* eval_internal.h: what the files of the reference evaluator (eval*.c) share. */
#ifndef SN_IR_GRAPH_EVAL_INTERNAL_H
#define SN_IR_GRAPH_EVAL_INTERNAL_H

#include "ir/graph/internal.h"
#include "ir/ops/scalar.h"

#include <math.h>

/* One node being evaluated. */
typedef struct sn_eval {
    sn_module *m;
    sn_arena *arena;
    sn_nd x;
    const sn_node_rec *n;
    const sn_array **in;
    sn_array *out; /* n->n_results arrays, allocated and zero */
} sn_eval;

typedef sn_status (*sn_eval_fn)(sn_eval *e);

sn_status sn_eval_fail(const sn_eval *e, const char *format, ...) SN_PRINTF(2, 3);

/* Results of all nodes that outputs need, by node id. Those inside of a repeat are there for one step, those
 * inside of a branch until it is over: whoever wants them looks on. */
typedef struct sn_eval_run sn_eval_run;
typedef struct sn_eval_watch {
    sn_status (*node)(sn_eval_run *r,
                      sn_nd x); /* x has been evaluated, or is a state or slice of the step that begins */
    sn_status (*after)(sn_eval_run *r, sn_nd x, int64_t t); /* step t of a repeat is over, or branch t of a cond */
} sn_eval_watch;
struct sn_eval_run {
    sn_module *m;
    sn_array **all;
    sn_arena *arena; /* of the step at hand */
    const uint8_t *live;
    const uint32_t *scope; /* sn_repeat_scopes */
    int64_t t;             /* the step at hand of the innermost repeat */
    const sn_eval_watch *watch;
    void *user;
};
sn_status sn_eval_graph(sn_eval_run *r, const sn_array *inputs);
/* The nodes whose innermost repeat or branch is `scope` (0: those outside of all) that stand before node `end`. */
sn_status sn_eval_scope(sn_eval_run *r, uint32_t scope, uint32_t end);
sn_status sn_eval_repeat(sn_eval_run *r, sn_nd x); /* eval_repeat.c */
sn_status sn_eval_cond(sn_eval_run *r, sn_nd x);
/* An array of the type with elements that are 0. */
sn_status sn_array_new(sn_array *out, sn_module *m, const sn_type *t, sn_arena *arena);

static inline sn_scalar sn_array_get(const sn_array *a, int64_t i) {
    return sn_is_float(a->dtype) ? (sn_scalar){.f = a->f[i]} : (sn_scalar){.i = a->i[i]};
}
static inline void sn_array_set(sn_array *a, int64_t i, sn_scalar x) {
    if (sn_is_float(a->dtype)) a->f[i] = x.f;
    else a->i[i] = x.i;
}

/* Integers that were computed in int64, in the width of the dtype. */
static inline void sn_array_wrap(sn_array *a) {
    for (int64_t i = 0; i < a->numel; i++) a->i[i] = sn_wrap_to(a->dtype, a->i[i]);
}

/* A row-major walk over a shape that moves up to three element positions along. */
enum { SN_WALK_MAX = 3 };
typedef struct sn_walk {
    uint32_t rank;
    int64_t shape[SN_MAX_RANK], index[SN_MAX_RANK];
    int64_t stride[SN_WALK_MAX][SN_MAX_RANK], at[SN_WALK_MAX];
} sn_walk;

sn_walk sn_walk_over(const int64_t *shape, uint32_t rank);
/* Position k follows x broadcast to the walked shape. */
void sn_walk_broadcast(sn_walk *w, uint32_t k, const sn_array *x);
void sn_walk_next(sn_walk *w);
/* Row-major strides. */
void sn_row_strides(int64_t *stride, const int64_t *shape, uint32_t rank);

/* The elements of an array in groups: the axes of the mask run inside a group. Member j of group g is element
 * base[g] + offset[j]; both count row-major. */
typedef struct sn_groups {
    int64_t n, members;
    int64_t *base, *offset;
} sn_groups;

sn_groups sn_groups_of(sn_arena *arena, const sn_array *x, uint32_t mask);
/* A sum that keeps what rounding takes from it (Neumaier), so that a long one is as exact as a short one. */
typedef struct sn_total {
    double sum, lost;
} sn_total;
static inline void sn_total_add(sn_total *t, double x) {
    double sum = t->sum + x;
    t->lost += fabs(t->sum) >= fabs(x) ? t->sum - sum + x : x - sum + t->sum;
    t->sum = sum;
}
static inline double sn_total_value(const sn_total *t) { return isfinite(t->sum) ? t->sum + t->lost : t->sum; }

/* Mean and sum((x - mean)^2) of one group of a float array. */
typedef struct sn_moments {
    double mean, squares;
} sn_moments;
sn_moments sn_group_moments(const sn_array *x, const sn_groups *gr, int64_t g);

/* eval_conv.c, eval_sort.c, eval_random.c */
sn_status sn_eval_conv(sn_eval *e);
sn_status sn_eval_sort(sn_eval *e); /* and topk */
sn_status sn_eval_random(sn_eval *e);
sn_status sn_eval_random_normal(sn_eval *e);
sn_status sn_eval_dropout(sn_eval *e);

/* Philox4x32-10: the counter in word[] becomes four random words. */
void sn_philox(uint32_t word[4], const uint32_t key[2]);

/* By operation; NULL where a class function does it. */
extern const sn_eval_fn sn_eval_move[SN_N_OPS]; /* eval_move.c: views, moves */
extern const sn_eval_fn sn_eval_nn[SN_N_OPS];   /* eval_nn.c: contractions, composites */

#endif
