/* nest.h: questions about loop nests that several passes ask. Reads the module only, apart from sn_chain_permute. */
#ifndef SN_PASSES_BASE_NEST_H
#define SN_PASSES_BASE_NEST_H

#include "ir/loop/access.h"
#include "passes/base/pass.h"

/* Iterations of a kernel, at most: more would not be done in a year, and their bytes might not be counted. */
static const int64_t SN_MOST_STEPS = (int64_t)1 << 56;
/* Bytes of a buffer, as passes count them: larger ones in text count as that, so that sums over buffers fit. */
static const int64_t SN_MOST_BYTES = (int64_t)1 << 52;

/* Nests of a row, side by side: as many as schedules tell apart, and fuse brings together. */
enum { SN_MAX_NESTS = 16 };

/* Has nobody said how the kernel runs? It is not bound, and its header names no class. */
static inline bool sn_kern_is_free(const sn_kern_rec *k) { return !k->scheduled && k->sched.cls == SN_SCHED_NONE; }

/* First statement of the region of s, or of the kernel body when s is none. */
sn_stmt sn_region_first(const sn_module *m, sn_kern k, sn_stmt s);
sn_stmt sn_next(const sn_module *m, sn_stmt s);

/* How far positions along ax have to move for vectors of them to be aligned where the access e walks ax one by one: by
 * how many elements its start (its end, where it walks backwards) lies behind a multiple of `vector`. false: it does not. */
bool sn_access_lead(sn_ix *out, sn_module *m, sn_ix e, sn_axis ax, uint32_t vector);
/* Does an accum in the region of s count its iterations? Then they run in order. */
bool sn_is_scan(const sn_module *m, sn_stmt s);
/* Does each iteration of loop s store over what the one before has left: steps of a repeat (passes/fuse/interchange.c), or
 * sums that a loop over rows keeps in memory (passes/fuse/mixed_order_reduction.c)? A single iteration does not. */
bool sn_is_steps(const sn_module *m, sn_stmt s);
/* Do iterations of nest s wait for one another: is it a scan, or steps? Those of a reduction run in any order. */
bool sn_runs_in_order(const sn_module *m, sn_stmt s);
/* The outer loops of a kernel: as long as a region holds one loop and nothing else. They are parallel: every iteration
 * stores elements of its own. The loop of a scan is none of them. */
void sn_chain_outer(sn_chain *out, const sn_module *m, sn_kern k);
/* Order the loops of a chain of perfectly nested loops: position k gets the axis that position order[k] had. */
void sn_chain_permute(sn_module *m, const sn_chain *c, const uint32_t *order);
/* Extents as constants; false when one is symbolic. */
bool sn_chain_extents(const sn_module *m, const sn_chain *c, int64_t *out);
sn_axis sn_stmt_axis(const sn_module *m, sn_stmt s);
sn_ix sn_stmt_extent(const sn_module *m, sn_stmt s);

/* The nest directly inside s that makes one perfect nest with it: same op and kind, alone in the region (a reduce: same
 * combiners, followed by the yield of exactly its results). none otherwise. */
sn_stmt sn_nest_inner(const sn_module *m, sn_stmt s);
/* The perfect nest that begins at top. false when there are regions inside its innermost one. */
bool sn_nest_perfect(sn_chain *out, const sn_module *m, sn_stmt top);

/* Does any ix in s or its region use the axis? */
bool sn_stmt_uses_axis(const sn_module *m, sn_stmt s, sn_axis ax);
/* Bytes of buffers that accesses inside `nest` walk with stride 1 or -1 along `ax`: what decides between a reduction
 * along contiguous elements and one across them. *least: smallest such element (0: none). */
int64_t sn_nest_bytes_along(sn_module *m, sn_stmt nest, sn_axis ax, uint32_t *least);
/* Number of value statements in the kernel. */
uint32_t sn_kern_ops(const sn_module *m, sn_kern k);
/* Does it sum up products of f32, of two values that are not the same one? Their precision is that of its header. */
bool sn_kern_has_products(const sn_module *m, sn_kern k);
/* Is it an attention: does it reduce by weights of scores that it sums up itself (passes/lower/attention.c)? */
bool sn_kern_is_attention(const sn_module *m, sn_kern k);
/* The precision of the products of k, where it has some. */
void sn_kern_set_precision(sn_module *m, sn_kern k, sn_precision precision);
/* That of a kernel made of a and b: one without products takes that of the other. false: they differ. */
bool sn_precision_of_both(sn_precision *out, const sn_module *m, sn_kern a, sn_kern b);
/* Position of the kernel that stores every temporary which the kernel at position `at` loads; UINT32_MAX: none, or
 * several. `last-block-reduce` may make the second one the tail of the first, if their blocks have the same shape. */
uint32_t sn_kern_follows(const sn_module *m, const sn_users *users, uint32_t at);
/* Product of constant extents, saturating at INT64_MAX; -1 when one is symbolic. */
int64_t sn_chain_count(const sn_module *m, const sn_chain *c);
/* A product and a sum of counts that are not negative (iterations, bytes), INT64_MAX where they are larger: what passes
 * compare sizes with. Graphs are refused before that (limits.c); kernels from text may have any sizes. */
static inline int64_t sn_mul_clamped(int64_t a, int64_t b) {
    int64_t product;
    return sn_mul_overflow(a, b, &product) ? INT64_MAX : product;
}
static inline int64_t sn_add_clamped(int64_t a, int64_t b) {
    int64_t sum;
    return sn_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}
/* In how many parts of that size, the last one maybe smaller. */
static inline int64_t sn_ceil_div(int64_t n, int64_t size) { return (n + size - 1) / size; }
/* Bytes of all elements of a buffer, clamped; 0 when symbolic. */
int64_t sn_buf_bytes(const sn_module *m, sn_buf b);

#endif
