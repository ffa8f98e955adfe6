/* random_product.c: random graphs around a matrix product, as .sn text (random.h).
 *
 * A product of M x N x K elements, now and then with batch axes, on operands that are transposed, strided, sliced, flipped,
 * cast, scaled, activated, gathered or sums; beside it perhaps a second one that shares an operand, is added or comes
 * behind it; then up to three of what stands behind products: biases, residuals, activations, norms, sums of rows and
 * columns, other outputs. Sizes are drawn first, most of them odd or next to the size of some tile, and all text is made to fit
 * them: every graph compiles. What is drawn may be large for a few, not for all of M, N and K.
 */
#include "tools/random.h"

#include <stdio.h>
#include <string.h>

enum { MOST_STEPS = 3 << 20, MOST_ELEMENTS = 1 << 17, NAME = 12 };

typedef struct maker {
    uint64_t state;
    sn_text inputs, body, outputs;
    unsigned n_inputs, n_values, n_outputs;
    bool chain; /* of products: equal rows of the first are off alike, which is more than its error estimate says */
} maker;

typedef struct tensor {
    char name[NAME];
    sn_dtype dtype;
    uint32_t rank;
    int64_t at[SN_MAX_RANK];
} tensor;

/* ---- drawing ---- */

static sn_dtype any_dtype(maker *r) {
    static const sn_dtype usual[] = {SN_BF16, SN_BF16, SN_BF16, SN_F16, SN_F16, SN_F32, SN_F32, SN_F32, SN_F64};
    static const sn_dtype integers[] = {SN_I8, SN_U8, SN_I16, SN_U16, SN_I32, SN_U32, SN_I64, SN_U64};
    return random_chance(&r->state, 85) ? usual[random_below(&r->state, SN_COUNT(usual))]
                                        : integers[random_below(&r->state, SN_COUNT(integers))];
}

static int64_t any_size(maker *r) {
    static const int64_t tiles[] = {8, 16, 32, 64, 96, 128, 192, 256};
    switch (random_below(&r->state, 6)) {
    case 0: return 1 + random_below(&r->state, 9);
    case 1: return tiles[random_below(&r->state, SN_COUNT(tiles))];
    case 2: return tiles[random_below(&r->state, SN_COUNT(tiles))] + 1 - 2 * random_below(&r->state, 2);
    case 3: return 8 * (1 + random_below(&r->state, 40));
    default: return 1 + random_below(&r->state, 300);
    }
}

/* ---- text ---- */

static void put_shape(sn_text *t, const tensor *x) {
    sn_text_printf(t, "%s[", sn_dtypes[x->dtype].name);
    for (uint32_t k = 0; k < x->rank; k++) sn_text_printf(t, "%s%lld", k ? ", " : "", (long long)x->at[k]);
    sn_text_put(t, "]");
}

/* Rows with gaps or of elements apart, axes of stride 0, columns; an offset. */
static void put_strides(maker *r, const tensor *x) {
    int64_t step = 1 + random_below(&r->state, 2), stride[SN_MAX_RANK];
    bool columns = random_chance(&r->state, 40), repeats = !r->chain && random_chance(&r->state, 15);
    for (uint32_t i = 0; i < x->rank; i++) {
        uint32_t k = columns ? i : x->rank - 1 - i;
        stride[k] = repeats && random_chance(&r->state, 40) ? 0 : step;
        step = step * x->at[k] + (random_chance(&r->state, 40) ? random_below(&r->state, 9) : 0);
    }
    sn_text_put(&r->inputs, " strides [");
    for (uint32_t k = 0; k < x->rank; k++) sn_text_printf(&r->inputs, "%s%lld", k ? ", " : "", (long long)stride[k]);
    sn_text_put(&r->inputs, "]");
    if (random_chance(&r->state, 40))
        sn_text_printf(&r->inputs, " offset %lld", (long long)random_below(&r->state, 20));
}

static tensor input(maker *r, sn_dtype dtype, uint32_t rank, const int64_t *at) {
    tensor x = {.dtype = dtype, .rank = rank};
    for (uint32_t k = 0; k < rank; k++) x.at[k] = at[k];
    sn_text_printf(&r->inputs, "%s%%x%u: ", r->n_inputs ? ", " : "", r->n_inputs);
    snprintf(x.name, sizeof x.name, "x%u", r->n_inputs++);
    put_shape(&r->inputs, &x);
    if (rank && random_chance(&r->state, 10)) put_strides(r, &x);
    return x;
}

/* A value of the type of `like`, by an operation on values: its text, with %s for their names. */
static tensor value(maker *r, const tensor *like, const char *format, const char *a, const char *b) {
    tensor x = *like;
    snprintf(x.name, sizeof x.name, "v%u", r->n_values++);
    sn_text_printf(&r->body, "  %%%s = ", x.name);
    sn_text_printf(&r->body, format, a, b);
    sn_text_put(&r->body, "\n");
    return x;
}

static tensor unary(maker *r, const tensor *x, const char *op) { return value(r, x, "%s %%%s", op, x->name); }

static tensor binary(maker *r, const tensor *x, const char *op, const tensor *y) {
    char operands[2 * NAME + 8];
    snprintf(operands, sizeof operands, "%%%s, %%%s", x->name, y->name);
    return value(r, x, "%s %s", op, operands);
}

static tensor swapped(maker *r, const tensor *x) {
    char text[64] = "";
    tensor t = *x;
    size_t n = 0;
    for (uint32_t k = 0; k < x->rank; k++) {
        uint32_t from = k + 2 < x->rank ? k : 2 * x->rank - 3 - k;
        t.at[k] = x->at[from];
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%u", k ? ", " : "", from);
    }
    return value(r, &t, "permute %%%s perm=[%s]", x->name, text);
}

static void output(maker *r, const tensor *x) {
    sn_text_printf(&r->outputs, "%sy%u = %%%s", r->n_outputs ? ", " : "", r->n_outputs, x->name);
    r->n_outputs++;
}

/* ---- operands ---- */

/* An axis of a longer or other tensor, read in part. */
static tensor sliced(maker *r, const tensor *want, bool flip) {
    uint32_t axis = (uint32_t)random_below(&r->state, want->rank);
    int64_t start = random_below(&r->state, 9), step = 1 + random_below(&r->state, 2), size = want->at[axis];
    char text[96];
    tensor whole = *want;
    if (flip) {
        tensor x = input(r, want->dtype, want->rank, want->at);
        snprintf(text, sizeof text, "[%u]", axis);
        return value(r, want, "flip %%%s axes=%s", x.name, text);
    }
    whole.at[axis] = start + (size - 1) * step + 1 + random_below(&r->state, 5);
    tensor x = input(r, want->dtype, want->rank, whole.at);
    snprintf(text, sizeof text, "axis=%u start=%lld stop=%lld step=%lld", axis, (long long)start,
             (long long)(start + (size - 1) * step + 1), (long long)step);
    return value(r, want, "slice %%%s %s", x.name, text);
}

static tensor gathered(maker *r, const tensor *want) {
    tensor table = *want;
    uint32_t axis = want->rank - 2;
    char text[NAME + 24];
    table.at[axis] = r->chain ? 4 * want->at[axis] : 1 + random_below(&r->state, 40);
    tensor x = input(r, want->dtype, want->rank, table.at), index = input(r, SN_I64, 1, &want->at[axis]);
    snprintf(text, sizeof text, "%s axis=%u", index.name, axis);
    return value(r, want, "index_select %%%s, %%%s", x.name, text);
}

/* A number for each row, or for each element of a row. */
static tensor scaled(maker *r, const tensor *x) {
    int64_t rows[SN_MAX_RANK];
    for (uint32_t k = 0; k < x->rank; k++) rows[k] = k + 2 == x->rank ? x->at[k] : 1;
    bool by_row = random_chance(&r->state, 50);
    tensor s = by_row ? input(r, x->dtype, x->rank, rows) : input(r, x->dtype, 1, &x->at[x->rank - 1]);
    return binary(r, x, "mul", &s);
}

static const char *activation(maker *r, sn_dtype t) {
    static const char *const of_floats[] = {"relu", "gelu", "silu", "gelu_tanh", "tanh", "sigmoid"};
    return of_floats[sn_is_float(t) ? random_below(&r->state, SN_COUNT(of_floats)) : 0];
}

static tensor cast(maker *r, const tensor *x, sn_dtype t) {
    tensor want = *x;
    want.dtype = t;
    return value(r, &want, "cast %%%s dtype=%s", x->name, sn_dtypes[t].name);
}

/* Rows and columns as wanted, without a transposition. */
static tensor plain_operand(maker *r, const tensor *want) {
    static const sn_dtype narrow[] = {SN_I8, SN_U8, SN_F16, SN_BF16};
    if (random_chance(&r->state, 55)) return input(r, want->dtype, want->rank, want->at);
    switch (random_below(&r->state, 7)) {
    case 0: return sliced(r, want, false);
    case 1: return sliced(r, want, true);
    case 2: return gathered(r, want);
    case 3: {
        tensor x = input(r, want->dtype, want->rank, want->at);
        return scaled(r, &x);
    }
    case 4: {
        tensor x = input(r, want->dtype, want->rank, want->at);
        return unary(r, &x, activation(r, x.dtype));
    }
    case 5: {
        tensor x = input(r, want->dtype, want->rank, want->at), y = input(r, want->dtype, want->rank, want->at);
        return binary(r, &x, "add", &y);
    }
    default: {
        sn_dtype from = sn_is_float(want->dtype) ? narrow[random_below(&r->state, SN_COUNT(narrow))] : SN_I8;
        tensor x = input(r, from, want->rank, want->at), y = cast(r, &x, want->dtype);
        return random_chance(&r->state, 50) ? scaled(r, &y) : y;
    }
    }
}

static tensor operand(maker *r, sn_dtype t, uint32_t n_batch, const int64_t *batch, int64_t rows, int64_t columns) {
    tensor want = {.dtype = t, .rank = n_batch + 2};
    bool transposed = random_chance(&r->state, 45);
    for (uint32_t k = 0; k < n_batch; k++) want.at[k] = batch[k];
    want.at[n_batch] = transposed ? columns : rows;
    want.at[n_batch + 1] = transposed ? rows : columns;
    tensor x = plain_operand(r, &want);
    return transposed ? swapped(r, &x) : x;
}

/* ---- products ---- */

typedef struct product {
    sn_dtype dtype;
    int64_t m, n, k;
    uint32_t n_batch;
    int64_t batch[2];
} product;

static product any_product(maker *r) {
    product p = {.dtype = any_dtype(r), .m = any_size(r), .n = any_size(r), .k = any_size(r)};
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
static tensor operand_of(maker *r, const product *p, bool may_repeat, int64_t rows, int64_t columns) {
    int64_t batch[2];
    for (uint32_t k = 0; k < p->n_batch; k++) batch[k] = may_repeat && random_chance(&r->state, 25) ? 1 : p->batch[k];
    return operand(r, p->dtype, may_repeat && random_chance(&r->state, 30) ? 0 : p->n_batch, batch, rows, columns);
}

static tensor multiply(maker *r, const product *p, const tensor *a, const tensor *b) {
    tensor c = {.dtype = p->dtype, .rank = p->n_batch + 2};
    for (uint32_t k = 0; k < p->n_batch; k++) c.at[k] = p->batch[k];
    c.at[p->n_batch] = p->m;
    c.at[p->n_batch + 1] = p->n;
    static const char *const words[] = {"exact", "high", "tf32", "bf16"};
    char right[NAME + 24];
    bool says = p->dtype == SN_F32 && random_chance(&r->state, 30);
    snprintf(right, sizeof right, "%s%s%s", b->name, says ? " precision=" : "",
             says ? words[random_below(&r->state, SN_COUNT(words))] : "");
    return value(r, &c, "matmul %%%s, %%%s", a->name, right);
}

/* The product, perhaps with a second one. */
static tensor make_product(maker *r, const product *p) {
    int64_t second = random_chance(&r->state, 65) ? 0 : 1 + random_below(&r->state, 3);
    r->chain = second == 3;
    tensor a = operand_of(r, p, false, p->m, p->k), b = operand_of(r, p, true, p->k, p->n);
    tensor c = multiply(r, p, &a, &b);
    product q = *p;
    switch (second) {
    case 0: return c;
    case 1: { /* an operand of both */
        tensor w = operand_of(r, p, true, p->k, p->n), d = multiply(r, p, &a, &w);
        tensor gate = unary(r, &c, activation(r, p->dtype));
        return binary(r, &gate, random_chance(&r->state, 70) ? "mul" : "add", &d);
    }
    case 2: { /* a sum */
        q.k = 1 + random_below(&r->state, 60);
        tensor x = operand_of(r, &q, false, q.m, q.k), y = operand_of(r, &q, true, q.k, q.n);
        tensor d = multiply(r, &q, &x, &y);
        return binary(r, &c, "add", &d);
    }
    default: /* a chain */
        q.k = p->n;
        q.n = 1 + random_below(&r->state, 70);
        tensor w = operand_of(r, &q, true, q.k, q.n);
        if (random_chance(&r->state, 40)) c = unary(r, &c, activation(r, p->dtype));
        return multiply(r, &q, &c, &w);
    }
}

/* ---- behind a product ---- */

static tensor with_bias(maker *r, const tensor *x, bool by_row) {
    int64_t rows[2] = {x->at[x->rank - 2], 1};
    tensor b = by_row ? input(r, x->dtype, 2, rows) : input(r, x->dtype, 1, &x->at[x->rank - 1]);
    return binary(r, x, "add", &b);
}

static tensor reduced(maker *r, const tensor *x, const char *op, uint32_t axis) {
    tensor y = *x;
    char text[24];
    y.at[axis] = 1;
    if (!sn_is_float(x->dtype) && !strcmp(op, "sum")) y.dtype = SN_I64;
    snprintf(text, sizeof text, "%u] keepdim=true", axis);
    char operand[NAME + 8];
    snprintf(operand, sizeof operand, "%s %%%s", op, x->name);
    return value(r, &y, "%s axes=[%s", operand, text);
}

/* One more step; another output where the step loses what came before. */
static tensor behind(maker *r, const tensor *x) {
    uint32_t last = x->rank - 1;
    bool is_float = sn_is_float(x->dtype);
    tensor other;
    switch (random_below(&r->state, 10)) {
    case 0:
    case 1: return with_bias(r, x, false);
    case 2: return with_bias(r, x, true);
    case 3:
        other = input(r, x->dtype, x->rank, x->at);
        return binary(r, x, random_chance(&r->state, 50) ? "add" : "mul", &other);
    case 4: return unary(r, x, activation(r, x->dtype));
    case 5: return value(r, x, "mul %%%s, %s", x->name, is_float ? "0.375" : "3");
    case 6: return is_float ? cast(r, x, random_chance(&r->state, 50) ? SN_F32 : SN_BF16) : swapped(r, x);
    case 7:
        if (random_chance(&r->state, 70)) output(r, x);
        return reduced(r, x, is_float && random_chance(&r->state, 50) ? "sum" : "amax",
                       last - (uint32_t)random_below(&r->state, 2));
    case 8: return is_float ? value(r, x, "softmax %%%s axis=%s", x->name, "-1") : reduced(r, x, "sum", last);
    default:
        if (!is_float) return reduced(r, x, "sum", last - 1);
        other = input(r, x->dtype, 1, &x->at[last]);
        char text[NAME + 16];
        snprintf(text, sizeof text, "%s eps=0.001", other.name);
        return value(r, x, "rms_norm %%%s, %%%s", x->name, text);
    }
}

sn_status random_product(sn_text *out, sn_context *ctx, uint64_t seed) {
    maker r = {.state = seed};
    sn_text_init(&r.inputs, &ctx->env);
    sn_text_init(&r.body, &ctx->env);
    sn_text_init(&r.outputs, &ctx->env);
    product p = any_product(&r);
    tensor x = make_product(&r, &p);
    for (int64_t steps = random_below(&r.state, 4); steps > 0; steps--) {
        if (random_chance(&r.state, 12)) output(&r, &x);
        x = behind(&r, &x);
    }
    output(&r, &x);
    sn_text_printf(out, "graph @random(%s) {\n%s  return %s\n}\n", r.inputs.s, r.body.s, r.outputs.s);
    sn_text_free(&r.inputs);
    sn_text_free(&r.body);
    sn_text_free(&r.outputs);
    return SN_OK;
}
