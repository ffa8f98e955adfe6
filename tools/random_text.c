/* random_text.c: the text of random graphs whose sizes all fit: inputs, operations, what stands behind a result
 * (random_text.h).
 */
#include "tools/random_text.h"

#include <stdio.h>
#include <string.h>

/* ---- drawing ---- */

sn_dtype random_dtype(random_maker *r) {
    static const sn_dtype usual[] = {SN_BF16, SN_BF16, SN_BF16, SN_F16, SN_F16, SN_F32, SN_F32, SN_F32, SN_F64};
    static const sn_dtype integers[] = {SN_I8, SN_U8, SN_I16, SN_U16, SN_I32, SN_U32, SN_I64, SN_U64};
    return random_chance(&r->state, 85) ? usual[random_below(&r->state, SN_COUNT(usual))]
                                        : integers[random_below(&r->state, SN_COUNT(integers))];
}

int64_t random_size(random_maker *r) {
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

static void put_shape(sn_text *t, const random_tensor *x) {
    sn_text_printf(t, "%s[", sn_dtypes[x->dtype].name);
    for (uint32_t k = 0; k < x->rank; k++) sn_text_printf(t, "%s%lld", k ? ", " : "", (long long)x->at[k]);
    sn_text_put(t, "]");
}

/* Rows with gaps or of elements apart, axes of stride 0, columns; an offset. */
static void put_strides(random_maker *r, const random_tensor *x) {
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

random_tensor random_input(random_maker *r, sn_dtype dtype, uint32_t rank, const int64_t *at) {
    random_tensor x = {.dtype = dtype, .rank = rank};
    for (uint32_t k = 0; k < rank; k++) x.at[k] = at[k];
    sn_text_printf(&r->inputs, "%s%%x%u: ", r->n_inputs ? ", " : "", r->n_inputs);
    snprintf(x.name, sizeof x.name, "x%u", r->n_inputs++);
    put_shape(&r->inputs, &x);
    x.strided = rank && random_chance(&r->state, 10);
    if (x.strided) put_strides(r, &x);
    return x;
}

/* A value of the type of `like`, by an operation on values: its text, with %s for their names. */
random_tensor random_value(random_maker *r, const random_tensor *like, const char *format, const char *a,
                           const char *b) {
    random_tensor x = *like;
    x.strided = false;
    snprintf(x.name, sizeof x.name, "v%u", r->n_values++);
    sn_text_printf(&r->body, "  %%%s = ", x.name);
    sn_text_printf(&r->body, format, a, b);
    sn_text_put(&r->body, "\n");
    return x;
}

random_tensor random_unary(random_maker *r, const random_tensor *x, const char *op) {
    return random_value(r, x, "%s %%%s", op, x->name);
}

random_tensor random_binary(random_maker *r, const random_tensor *x, const char *op, const random_tensor *y) {
    char operands[2 * RANDOM_NAME + 8];
    snprintf(operands, sizeof operands, "%%%s, %%%s", x->name, y->name);
    return random_value(r, x, "%s %s", op, operands);
}

random_tensor random_swapped(random_maker *r, const random_tensor *x) {
    char text[64] = "";
    random_tensor t = *x;
    size_t n = 0;
    for (uint32_t k = 0; k < x->rank; k++) {
        uint32_t from = k + 2 < x->rank ? k : 2 * x->rank - 3 - k;
        t.at[k] = x->at[from];
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%u", k ? ", " : "", from);
    }
    return random_value(r, &t, "permute %%%s perm=[%s]", x->name, text);
}

void random_output(random_maker *r, const random_tensor *x) {
    sn_text_printf(&r->outputs, "%sy%u = %%%s", r->n_outputs ? ", " : "", r->n_outputs, x->name);
    r->n_outputs++;
}

random_tensor random_cast(random_maker *r, const random_tensor *x, sn_dtype t) {
    random_tensor want = *x;
    want.dtype = t;
    return random_value(r, &want, "cast %%%s dtype=%s", x->name, sn_dtypes[t].name);
}

const char *random_activation(random_maker *r, sn_dtype t) {
    static const char *const of_floats[] = {"relu", "gelu", "silu", "gelu_tanh", "tanh", "sigmoid"};
    return of_floats[sn_is_float(t) ? random_below(&r->state, SN_COUNT(of_floats)) : 0];
}

/* ---- behind a result ---- */

static random_tensor with_bias(random_maker *r, const random_tensor *x, bool by_row) {
    int64_t rows[2] = {x->at[x->rank - 2], 1};
    random_tensor b = by_row ? random_input(r, x->dtype, 2, rows) : random_input(r, x->dtype, 1, &x->at[x->rank - 1]);
    return random_binary(r, x, "add", &b);
}

static random_tensor reduced(random_maker *r, const random_tensor *x, const char *op, uint32_t axis) {
    random_tensor y = *x;
    char text[24];
    y.at[axis] = 1;
    if (!sn_is_float(x->dtype) && !strcmp(op, "sum")) y.dtype = SN_I64;
    snprintf(text, sizeof text, "%u] keepdim=true", axis);
    char operand[RANDOM_NAME + 8];
    snprintf(operand, sizeof operand, "%s %%%s", op, x->name);
    return random_value(r, &y, "%s axes=[%s", operand, text);
}

/* One more step; another output where the step loses what came before. */
random_tensor random_behind(random_maker *r, const random_tensor *x) {
    uint32_t last = x->rank - 1;
    bool is_float = sn_is_float(x->dtype);
    random_tensor other;
    switch (random_below(&r->state, 10)) {
    case 0:
    case 1: return with_bias(r, x, false);
    case 2: return with_bias(r, x, true);
    case 3:
        other = random_input(r, x->dtype, x->rank, x->at);
        return random_binary(r, x, random_chance(&r->state, 50) ? "add" : "mul", &other);
    case 4: return random_unary(r, x, random_activation(r, x->dtype));
    case 5: return random_value(r, x, "mul %%%s, %s", x->name, is_float ? "0.375" : "3");
    case 6: return is_float ? random_cast(r, x, random_chance(&r->state, 50) ? SN_F32 : SN_BF16) : random_swapped(r, x);
    case 7:
        if (random_chance(&r->state, 70)) random_output(r, x);
        return reduced(r, x, is_float && random_chance(&r->state, 50) ? "sum" : "amax",
                       last - (uint32_t)random_below(&r->state, 2));
    case 8: return is_float ? random_value(r, x, "softmax %%%s axis=%s", x->name, "-1") : reduced(r, x, "sum", last);
    default:
        if (!is_float) return reduced(r, x, "sum", last - 1);
        other = random_input(r, x->dtype, 1, &x->at[last]);
        char text[RANDOM_NAME + 16];
        snprintf(text, sizeof text, "%s eps=0.001", other.name);
        return random_value(r, x, "rms_norm %%%s, %%%s", x->name, text);
    }
}

/* ---- the whole ---- */

void random_begin(random_maker *r, sn_env *env, uint64_t seed) {
    *r = (random_maker){.state = seed};
    sn_text_init(&r->inputs, env);
    sn_text_init(&r->body, env);
    sn_text_init(&r->outputs, env);
}

void random_end(sn_text *out, random_maker *r, const random_tensor *result) {
    random_tensor x = *result;
    for (int64_t steps = random_below(&r->state, 4); steps > 0; steps--) {
        if (random_chance(&r->state, 12)) random_output(r, &x);
        x = random_behind(r, &x);
    }
    random_output(r, &x);
    sn_text_printf(out, "graph @random(%s) {\n%s  return %s\n}\n", r->inputs.s, r->body.s, r->outputs.s);
    sn_text_free(&r->inputs);
    sn_text_free(&r->body);
    sn_text_free(&r->outputs);
}
