/* random.h: random graphs as .sn text (random_graph.c, random_product.c, random_conv.c, random_forms.c, random_header.c), for the command
 * that sends them through the compiler (random.c).
 */
#ifndef SN_TOOLS_RANDOM_H
#define SN_TOOLS_RANDOM_H

#include "tools/tool.h"

/* ---- drawing ---- */

/* A number below n; 0 where that is 0. */
static inline int64_t random_below(uint64_t *state, int64_t n) {
    return n > 0 ? (int64_t)(sn_draw(state) % (uint64_t)n) : 0;
}
static inline bool random_chance(uint64_t *state, int percent) { return random_below(state, 100) < percent; }

/* ---- graphs ---- */

/* SMALL: axes of 1 to some hundred elements. EMPTY: many of 0 and 1 among them. HUGE: near 2^31, 2^32, 2^40 and 2^62,
 * for shapes alone. */
typedef enum random_sizes { RANDOM_SMALL, RANDOM_EMPTY, RANDOM_HUGE, RANDOM_N_SIZES } random_sizes;

/* The graph of a seed: 1 to 8 operations of any class of ops.def, on inputs, constants and each other. A weight is a
 * constant whose elements no text can bring along; there are none. Fails where an operation was refused with a message
 * that is not one line (body of a guarded call). */
sn_status random_graph(sn_text *out, sn_context *ctx, uint64_t seed, random_sizes sizes);

/* The graph of a seed around a matrix product of sizes that can be run; compiles. */
sn_status random_product(sn_text *out, sn_context *ctx, uint64_t seed);
/* Around a convolution, and an attention. */
sn_status random_convolution(sn_text *out, sn_context *ctx, uint64_t seed);
sn_status random_attention(sn_text *out, sn_context *ctx, uint64_t seed);

/* Of values that meet each other in what passes look for, and in what is almost that; compiles. */
sn_status random_forms(sn_text *out, sn_context *ctx, uint64_t seed, sn_distribution inputs);

/* The kernels that a graph becomes for a target (NULL: the host), behind it: with schedules in their headers that may be anything. */
sn_status random_headers(sn_text *out, sn_context *ctx, const char *text, const char *target, uint64_t seed);

#endif
