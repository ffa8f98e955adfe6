/* rebuild.h: give a perfect nest other axes: the one transformation under the passes `split-reduction` and `schedule`. */
#ifndef SN_PASSES_BASE_REBUILD_H
#define SN_PASSES_BASE_REBUILD_H

#include "passes/base/nest.h"

/* A list of statements, as of those that were taken out of a kernel, to be put somewhere else. */
typedef struct sn_stmt_vec {
    sn_stmt *at;
    uint32_t n, cap;
} sn_stmt_vec;

/* One loop of the new nest; flat position = base + sum(stride * axis). */
typedef struct sn_level {
    const char *name;
    int64_t extent, stride;
    sn_axis_kind kind;
} sn_level;

enum { SN_MAX_LEVELS = 6 };

/* The nest `top` (perfect, in_nest as by sn_nest_perfect) is replaced by loops or reduces `levels`, outermost first;
 * its old axes become the row-major parts of the flat position. `count` is the number of iterations of the old nest: if
 * the new one has positions beyond it (or, where base is negative, before 0), they do nothing (loops get an `if`;
 * reduces get masked accesses and yield the identity; scans get masked accesses, so that all threads come along). When
 * the last level is a vector and `count`, the base and all other strides are multiples of its extent, all lanes agree;
 * else each lane has its own test, and loops get masked accesses too. Returns the outermost new statement; results of a
 * reduce are replaced in kernel k. */
sn_stmt sn_nest_rebuild(sn_pass_ctx *cx, sn_kern k, sn_stmt top, const sn_chain *in_nest, sn_ix base, int64_t count,
                        const sn_level *levels, uint32_t n);

/* The same from position 0, where positions beyond compute, but access nothing: the code of iterations that are written
 * out stays in one piece. */
sn_stmt sn_nest_rebuild_masked(sn_pass_ctx *cx, sn_kern k, sn_stmt top, const sn_chain *in_nest, int64_t count,
                               const sn_level *levels, uint32_t n);
/* The same where each position p is of a place of its own: instead of p < count the test is scale*p + plus <
 * scale*count, or, where scale is 1, p + plus < count. Lanes whose places are neighbours then pass it up to one of
 * them, all others do not. */
typedef struct sn_nest_test {
    int64_t scale;
    sn_ix plus;
} sn_nest_test;
sn_stmt sn_nest_rebuild_by(sn_pass_ctx *cx, sn_kern k, sn_stmt top, const sn_chain *in_nest, sn_ix base, int64_t count,
                           const sn_level *levels, uint32_t n, const sn_nest_test *test);

/* Loads and stores of s and its region happen only where mask holds; registers are left alone. s must not be a load. */
void sn_mask_accesses(sn_pass_ctx *cx, sn_kern k, sn_stmt s, sn_val mask, bool loads);
/* The same of stores, and of loads that the axes of the test `mask` (an `in`) move: others are alike where it holds, as it does
 * somewhere. */
void sn_mask_moved(sn_pass_ctx *cx, sn_kern k, sn_stmt s, sn_val mask);
/* Identity of state `state` of a combiner, as a constant of the dtype of that state at `at`. */
sn_val sn_put_identity(sn_module *m, sn_cursor at, sn_comb comb, uint32_t state, sn_dtype dtype);

#endif
