/* random_product.c: random graphs around a matrix product, as .sn text (random.h).
 *
 * A product of M x N x K elements, now and then with batch axes, on operands that are transposed, strided, sliced,
 * flipped, cast, scaled, activated, gathered or sums; beside it perhaps a second one that shares an operand, is
 * added or comes behind it; then up to three of what stands behind products: biases, residuals, activations, norms,
 * sums of rows and columns, other outputs. Sizes are drawn first, most of them odd or next to the size of some tile,
 * and all text is made to fit them: every graph compiles. What is drawn may be large for a few, not for all of M, N
 * and K.
 */
#include "tools/random_text.h"

#include <stdio.h>
#include <string.h>

enum { MOST_STEPS = 3 << 20, MOST_ELEMENTS = 1 << 17 };

/* ---- operands ---- */

/* An axis of a longer or other tensor, read in part. */
static random_tensor sliced(random_maker *r, const random_tensor *want, bool flip) {
    uint32_t axis = (uint32_t)random_below(&r->state, want->rank);
    int64_t start = random_below(&r->state, 9), step = 1 + random_below(&r->state, 2), size = want->at[axis];
    char text[96];
    random_tensor whole = *want;
    if (flip) {
        random_tensor x = random_input(r, want->dtype, want->rank, want->at);
        snprintf(text, sizeof text, "[%u]", axis);
        return random_value(r, want, "flip %%%s axes=%s", x.name, text);
    }
    whole.at[axis] = start + (size - 1) * step + 1 + random_below(&r->state, 5);
    random_tensor x = random_input(r, want->dtype, want->rank, whole.at);
    snprintf(text, sizeof text, "axis=%u start=%lld stop=%lld step=%lld", axis, (long long)start,
             (long long)(start + (size - 1) * step + 1), (long long)step);
    return random_value(r, want, "slice %%%s %s", x.name, text);
}

static random_tensor gathered(random_maker *r, const random_tensor *want) {
    random_tensor table = *want;
    uint32_t axis = want->rank - 2;
    char text[RANDOM_NAME + 24];
    table.at[axis] = r->chain ? 4 * want->at[axis] : 1 + random_below(&r->state, 40);
    random_tensor x = random_input(r, want->dtype, want->rank, table.at),
                  index = random_input(r, SN_I64, 1, &want->at[axis]);
    snprintf(text, sizeof text, "%s axis=%u", index.name, axis);
    return random_value(r, want, "index_select %%%s, %%%s", x.name, text);
}

/* A number for each row, or for each element of a row. */
static random_tensor scaled(random_maker *r, const random_tensor *x) {
    int64_t rows[SN_MAX_RANK];
    for (uint32_t k = 0; k < x->rank; k++) rows[k] = k + 2 == x->rank ? x->at[k] : 1;
    bool by_row = random_chance(&r->state, 50);
    random_tensor s =
        by_row ? random_input(r, x->dtype, x->rank, rows) : random_input(r, x->dtype, 1, &x->at[x->rank - 1]);
    return random_binary(r, x, "mul", &s);
}

/* Rows and columns as wanted, without a transposition. */
static random_tensor plain_operand(random_maker *r, const random_tensor *want) {
    static const sn_dtype narrow[] = {SN_I8, SN_U8, SN_F16, SN_BF16};
    if (random_chance(&r->state, 55)) return random_input(r, want->dtype, want->rank, want->at);
    switch (random_below(&r->state, 7)) {
    case 0: return sliced(r, want, false);
    case 1: return sliced(r, want, true);
    case 2: return gathered(r, want);
    case 3: {
        random_tensor x = random_input(r, want->dtype, want->rank, want->at);
        return scaled(r, &x);
    }
    case 4: {
        random_tensor x = random_input(r, want->dtype, want->rank, want->at);
        return random_unary(r, &x, random_activation(r, x.dtype));
    }
    case 5: {
        random_tensor x = random_input(r, want->dtype, want->rank, want->at),
                      y = random_input(r, want->dtype, want->rank, want->at);
        return random_binary(r, &x, "add", &y);
    }
    default: {
        sn_dtype from = sn_is_float(want->dtype) ? narrow[random_below(&r->state, SN_COUNT(narrow))] : SN_I8;
        random_tensor x = random_input(r, from, want->rank, want->at), y = random_cast(r, &x, want->dtype);
        return random_chance(&r->state, 50) ? scaled(r, &y) : y;
    }
    }
}

static random_tensor operand(random_maker *r, sn_dtype t, uint32_t n_batch, const int64_t *batch, int64_t rows,
                             int64_t columns) {
    random_tensor want = {.dtype = t, .rank = n_batch + 2};
    bool transposed = random_chance(&r->state, 45);
    for (uint32_t k = 0; k < n_batch; k++) want.at[k] = batch[k];
    want.at[n_batch] = transposed ? columns : rows;
    want.at[n_batch + 1] = transposed ? rows : columns;
    random_tensor x = plain_operand(r, &want);
    return transposed ? random_swapped(r, &x) : x;
}

/* ---- products ---- */

typedef struct product {
    sn_dtype dtype;
    int64_t m, n, k;
    uint32_t n_batch;
    int64_t batch[2];
} product;

static product any_product(random_maker *r) {
    product p = {.dtype = random_dtype(r), .m = random_size(r), .n = random_size(r), .k = random_size(r)};
    if (random_chance(&r->state, 20)) p.k = 1 + random_below(&r->state, 3000);
    if (random_chance(&r->state, 15)) *(random_chance(&r->state, 50) ? &p.m : &p.n) = 1 + random_below(&r->state, 2000);
    p.n_batch = random_chance(&r->state, 70) ? 0 : 1 + (uint32_t)random_below(&r->state, 2);
    int64_t repeats = 1;
    for (uint32_t k = 0; k < p.n_batch; k++) repeats *= p.batch[k] = 1 + random_below(&r->state, 5);
    while (p.m * p.n * p.k * repeats > MOST_STEPS || p.m * p.n * repeats > MOST_ELEMENTS) {
        int64_t *largest = p.m > p.n ? &p.m : &p.n;
        if (p.k > *largest && p.m * p.n * repeats <= MOST_ELEMENTS) largest = &p.k;
        *largest = *largest * 2 / 3;
    }
    return p;
}

/* Of batch axes that one side has, the other may have 1, or none at all. */
static random_tensor operand_of(random_maker *r, const product *p, bool may_repeat, int64_t rows, int64_t columns) {
    int64_t batch[2];
    for (uint32_t k = 0; k < p->n_batch; k++) batch[k] = may_repeat && random_chance(&r->state, 25) ? 1 : p->batch[k];
    return operand(r, p->dtype, may_repeat && random_chance(&r->state, 30) ? 0 : p->n_batch, batch, rows, columns);
}

static random_tensor multiply(random_maker *r, const product *p, const random_tensor *a, const random_tensor *b) {
    random_tensor c = {.dtype = p->dtype, .rank = p->n_batch + 2};
    for (uint32_t k = 0; k < p->n_batch; k++) c.at[k] = p->batch[k];
    c.at[p->n_batch] = p->m;
    c.at[p->n_batch + 1] = p->n;
    static const char *const words[] = {"exact", "high", "tf32", "bf16"};
    char right[RANDOM_NAME + 24];
    bool says = p->dtype == SN_F32 && random_chance(&r->state, 30);
    snprintf(right, sizeof right, "%s%s%s", b->name, says ? " precision=" : "",
             says ? words[random_below(&r->state, SN_COUNT(words))] : "");
    return random_value(r, &c, "matmul %%%s, %%%s", a->name, right);
}

/* The product, perhaps with a second one. */
static random_tensor make_product(random_maker *r, const product *p) {
    int64_t second = random_chance(&r->state, 65) ? 0 : 1 + random_below(&r->state, 3);
    r->chain = second == 3;
    random_tensor a = operand_of(r, p, false, p->m, p->k), b = operand_of(r, p, true, p->k, p->n);
    random_tensor c = multiply(r, p, &a, &b);
    product q = *p;
    switch (second) {
    case 0: return c;
    case 1: { /* an operand of both */
        random_tensor w = operand_of(r, p, true, p->k, p->n), d = multiply(r, p, &a, &w);
        random_tensor gate = random_unary(r, &c, random_activation(r, p->dtype));
        return random_binary(r, &gate, random_chance(&r->state, 70) ? "mul" : "add", &d);
    }
    case 2: { /* a sum */
        q.k = 1 + random_below(&r->state, 60);
        random_tensor x = operand_of(r, &q, false, q.m, q.k), y = operand_of(r, &q, true, q.k, q.n);
        random_tensor d = multiply(r, &q, &x, &y);
        return random_binary(r, &c, "add", &d);
    }
    default: /* a chain */
        q.k = p->n;
        q.n = 1 + random_below(&r->state, 70);
        random_tensor w = operand_of(r, &q, true, q.k, q.n);
        if (random_chance(&r->state, 40)) c = random_unary(r, &c, random_activation(r, p->dtype));
        return multiply(r, &q, &c, &w);
    }
}

sn_status random_product(sn_text *out, sn_context *ctx, uint64_t seed) {
    random_maker r;
    random_begin(&r, &ctx->env, seed);
    product p = any_product(&r);
    random_tensor x = make_product(&r, &p);
    random_end(out, &r, &x);
    return SN_OK;
}
