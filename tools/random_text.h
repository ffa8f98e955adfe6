/* random_text.h: the text of random graphs whose sizes all fit, so that every graph compiles (random_product.c,
 * random_conv.c).
 */
#ifndef SN_TOOLS_RANDOM_TEXT_H
#define SN_TOOLS_RANDOM_TEXT_H

#include "tools/random.h"

enum { RANDOM_NAME = 12 };

typedef struct random_maker {
    uint64_t state;
    sn_text inputs, body, outputs;
    unsigned n_inputs, n_values, n_outputs;
    bool chain; /* of products: equal rows of the first are off alike, which is more than its error estimate says */
} random_maker;

typedef struct random_tensor {
    char name[RANDOM_NAME];
    sn_dtype dtype;
    uint32_t rank;
    int64_t at[SN_MAX_RANK];
    bool strided; /* an input with strides of its own */
} random_tensor;

void random_begin(random_maker *r, sn_env *env, uint64_t seed);
/* Up to three steps behind the result, and all text. */
void random_end(sn_text *out, random_maker *r, const random_tensor *result);

sn_dtype random_dtype(random_maker *r);
/* Small, odd, or next to the size of some tile. */
int64_t random_size(random_maker *r);

/* An input, now and then with strides. */
random_tensor random_input(random_maker *r, sn_dtype dtype, uint32_t rank, const int64_t *at);
/* A value of the type of `like`, by an operation on values: its text, with %s for their names. */
random_tensor random_value(random_maker *r, const random_tensor *like, const char *format, const char *a,
                           const char *b);
random_tensor random_unary(random_maker *r, const random_tensor *x, const char *op);
random_tensor random_binary(random_maker *r, const random_tensor *x, const char *op, const random_tensor *y);
random_tensor random_cast(random_maker *r, const random_tensor *x, sn_dtype t);
/* The last two axes change places. */
random_tensor random_swapped(random_maker *r, const random_tensor *x);
/* The name of an activation that takes the type. */
const char *random_activation(random_maker *r, sn_dtype t);
void random_output(random_maker *r, const random_tensor *x);
/* One more step: a bias, a residual, an activation, a sum, a norm; another output where the step loses what came
 * before. */
random_tensor random_behind(random_maker *r, const random_tensor *x);

#endif
