/* random.c: values for the inputs of a graph, for `sinter run`, `bench` and tests: seeded ones, and some fixed lists.
 * The same seed gives the same values on every machine.
 *
 * Floats are normal unless another distribution is asked for, integers in -8 .. 7. Two uses of an input ask for more: an index must be a valid position, and a
 * variance must not be negative; both are found by following the input through views and casts to its users. A variance
 * is an operand of a batch norm, or what reaches a square root after it was scaled or added to: 0.999*v + 0.001*g^2, v
 * + eps. (The square root of an input as it is may well be one that a test wants nan from.)
 */
#include "frontend/frontend.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---- */

/* In (0, 1]. */
static double uniform(uint64_t *state) { return (double)((sn_draw(state) >> 11) + 1) * 0x1p-53; }

static double normal(uint64_t *state) {
    double r = sqrt(-2 * log(uniform(state))), angle = 2 * 3.14159265358979323846 * uniform(state);
    return r * cos(angle);
}

/* ---- what the users of an input ask for ---- */

typedef struct demand {
    int64_t positions; /* values are positions 0 .. positions-1; INT64_MAX: no index */
    bool positive;
} demand;

/* Axis of operand 0 that operand 1 gives positions on; false for operations that take no positions. */
static bool indexed_axis(int64_t *axis, const sn_module *m, sn_nd x) {
    sn_op op = sn_node_get(m, x)->op;
    *axis = op == SN_OP_CROSS_ENTROPY ? 1 : sn_node_int(m, x, SN_ATTR_AXIS, 0);
    return op == SN_OP_GATHER || op == SN_OP_INDEX_SELECT || op == SN_OP_CROSS_ENTROPY;
}

/* What a node is of the input: the same values, or a part of a sum of them. */
enum { NOT_FROM_INPUT, IS_INPUT, HAS_INPUT };

static void look_at_user(demand *d, const sn_module *m, sn_nd user, const uint8_t *from_input) {
    const sn_node_rec *n = sn_node_get(m, user);
    int64_t axis, size;
    if (indexed_axis(&axis, m, user) && from_input[n->in[1].i] == IS_INPUT) {
        const sn_type *x = &sn_node_get(m, n->in[0])->type;
        if (sn_ix_is_const(m, x->shape[axis < 0 ? axis + x->rank : axis], &size) && size < d->positions)
            d->positions = size;
    }
    bool normalises = n->op == SN_OP_BATCH_NORM || n->op == SN_OP_BATCH_NORM_TRAIN;
    if (normalises && from_input[n->in[4].i] == IS_INPUT) d->positive = true;
    bool roots = n->op == SN_OP_SQRT || n->op == SN_OP_RSQRT;
    if (roots && from_input[n->in[0].i] == HAS_INPUT) d->positive = true;
}

static bool is_positive_number(const sn_module *m, sn_nd x) {
    return sn_node_get(m, x)->op == SN_OP_FULL && sn_node_float(m, x, SN_ATTR_VALUE, 0) > 0;
}

static uint8_t origin_of(const sn_module *m, const sn_node_rec *n, const uint8_t *from_input) {
    if (sn_ops[n->op].cls == SN_OPS_VIEW || n->op == SN_OP_CAST) return from_input[n->in[0].i];
    if (n->op != SN_OP_ADD && n->op != SN_OP_MUL) return NOT_FROM_INPUT;
    for (int k = 0; k < 2; k++)
        if (from_input[n->in[k].i] && (n->op == SN_OP_ADD || is_positive_number(m, n->in[1 - k]))) return HAS_INPUT;
    return NOT_FROM_INPUT;
}

static demand demand_on(const sn_module *m, sn_arena *arena, uint32_t input) {
    demand d = {.positions = INT64_MAX};
    uint32_t count = m->graph.nodes.count;
    uint8_t *from_input = SN_NEWN(arena, uint8_t, count);
    from_input[m->graph.inputs.at[input].node.i] = IS_INPUT;
    for (uint32_t i = 1; i < count; i++) {
        uint8_t origin = origin_of(m, sn_node_get(m, (sn_nd){i}), from_input);
        if (origin) from_input[i] = origin;
        look_at_user(&d, m, (sn_nd){i}, from_input);
    }
    return d;
}

/* ---- filling ---- */

static int64_t random_integer(uint64_t *state, sn_dtype dtype, int64_t positions) {
    if (dtype == SN_BOOL) return (int64_t)(sn_draw(state) & 1);
    if (positions != INT64_MAX) return positions > 0 ? (int64_t)(sn_draw(state) % (uint64_t)positions) : 0;
    int64_t x = (int64_t)(sn_draw(state) & 15) - 8;
    return sn_dtypes[dtype].cls == SN_CLASS_UINT && x < 0 ? -x : x;
}

/* Large tensors repeat their first PERIOD elements: drawing hundreds of millions of numbers would take longer than what
 * they are drawn for. A prime, so that no row of a matrix is like another. */
enum { PERIOD = 4194301 };

static void repeat(char *out, int64_t n, size_t bytes) {
    for (int64_t done = PERIOD; done < n; done += PERIOD) {
        int64_t more = n - done < PERIOD ? n - done : PERIOD;
        memcpy(out + (size_t)done * bytes, out, (size_t)more * bytes);
    }
}

static double random_float(uint64_t *state, const sn_random_how *how, bool positive) {
    double x = how->floats == SN_UNIFORM ? 1 - uniform(state) : normal(state);
    if (how->floats == SN_WIDE) x = ldexp(x, (int)(sn_draw(state) % 25) - 12);
    if (how->scale != 0) x *= how->scale;
    return positive ? fabs(x) + 0.1 : x;
}

static void fill(void *out, sn_dtype dtype, int64_t n, const sn_random_how *how, const demand *d) {
    size_t bytes = sn_dtype_bytes(dtype);
    uint64_t state = how->seed;
    for (int64_t k = 0; k < n && k < PERIOD; k++) {
        char *element = (char *)out + (size_t)k * bytes;
        if (!sn_is_float(dtype)) {
            sn_store_int(dtype, element, random_integer(&state, dtype, d->positions));
            continue;
        }
        sn_store_float(dtype, element, random_float(&state, how, d->positive));
    }
    repeat(out, n, bytes);
}

void sn_random_fill(void *out, sn_dtype dtype, int64_t n, uint64_t seed) {
    demand d = {.positions = INT64_MAX};
    fill(out, dtype, n, &(sn_random_how){.seed = seed}, &d);
}

void sn_special_fill(void *out, sn_dtype dtype, int64_t n) {
    static const double floats[] = {
        0,
        -0.0,
        1,
        -1,
        0.5,
        -0.5,
        1.5,
        -1.5,
        2,
        2.5,
        -2.5,
        3,
        7,
        0x1p32,
        -10,
        30.5,
        88.7,
        -88.7,
        100.25,
        -103.9,
        127,
        128,
        255,
        0x1p64,
        0x1.8p63,
        32767.5,
        1e5,
        -1e5,
        2147483648.0,
        -2147483648.0,
        0x1p63,
        -0x1p63,
        1e-3,
        -1e-5,
        1e-7,
        0x1p-14,
        0x1p-24,
        -0x1p-24,
        0x1p-126,
        -0x1p-126,
        0x1p-149,
        -0x1p-133,
        0x1.fffffep127,
        -0x1.fffffep127,
        0x1.fep127,
        65504,
        INFINITY,
        -INFINITY,
        NAN,
    };
    static const int64_t integers[] = {
        0,
        1,
        -1,
        2,
        -2,
        3,
        -3,
        5,
        7,
        8,
        -8,
        10,
        15,
        16,
        31,
        32,
        33,
        63,
        64,
        65,
        100,
        126,
        127,
        -127,
        -128,
        128,
        254,
        255,
        256,
        INT16_MAX,
        INT16_MIN,
        INT32_MAX,
        INT32_MIN,
        INT32_MAX - 1,
        INT64_MAX,
        INT64_MIN,
        INT64_MIN + 1,
        INT64_MAX - 1,
    };
    size_t bytes = sn_dtype_bytes(dtype);
    for (int64_t k = 0; k < n; k++) {
        char *element = (char *)out + (size_t)k * bytes;
        if (sn_is_float(dtype)) sn_store_float(dtype, element, floats[(uint64_t)k % SN_COUNT(floats)]);
        else sn_store_int(dtype, element, sn_wrap_to(dtype, integers[(uint64_t)k % SN_COUNT(integers)]));
    }
}

/* Far enough apart that most rows and columns of a small matrix have none or one. */
enum { SPIKE_STEP = 331 };

void sn_spiked_fill(void *out, sn_dtype dtype, int64_t n, uint64_t seed) {
    static const double floats[] = {INFINITY, -INFINITY, NAN, 0x1p60, -0x1.8p60};
    static const int64_t integers[] = {INT64_MAX, INT64_MIN, INT32_MIN, UINT8_MAX, INT8_MIN};
    sn_random_fill(out, dtype, n, seed);
    int64_t spike = 0;
    for (int64_t k = n % SPIKE_STEP / 2; k < n; k += SPIKE_STEP, spike++) {
        char *element = (char *)out + (size_t)k * sn_dtype_bytes(dtype);
        if (sn_is_float(dtype)) sn_store_float(dtype, element, floats[(uint64_t)spike % SN_COUNT(floats)]);
        else sn_store_int(dtype, element, sn_wrap_to(dtype, integers[(uint64_t)spike % SN_COUNT(integers)]));
    }
}

void sn_sequence_fill(void *out, sn_dtype dtype, int64_t n, sn_sequence which) {
    for (int64_t k = 0; k < n; k++) {
        char *element = (char *)out + (size_t)k * sn_dtype_bytes(dtype);
        int64_t whole = which == SN_EQUAL ? 7 : k % 100 + 1;
        double x = which == SN_EQUAL ? 0.1 : (double)(k + 1) / (double)n;
        bool minus = which == SN_ALTERNATING && k % 2;
        if (sn_is_float(dtype)) sn_store_float(dtype, element, minus ? -x : x);
        else sn_store_int(dtype, element, dtype == SN_BOOL ? k % 3 == 0 : minus ? -whole : whole);
    }
}

static demand demand_of_input(sn_module *graph, uint32_t input) {
    sn_arena arena;
    sn_arena_init(&arena, graph->env);
    demand d = demand_on(graph, &arena, input);
    sn_arena_free(&arena);
    return d;
}

sn_status sn_random_input(void *out, sn_module *graph, uint32_t input, uint64_t seed) {
    const sn_type *type = &sn_node_get(graph, graph->graph.inputs.at[input].node)->type;
    int64_t n = 0;
    if (!sn_ix_is_const(graph, sn_type_numel(graph, type), &n))
        return sn_fail(graph->env, SN_ERROR_ARGUMENT, "input %s: its size is not bound",
                       graph->graph.inputs.at[input].name);
    demand d = demand_of_input(graph, input);
    fill(out, type->dtype, n, &(sn_random_how){.seed = seed}, &d);
    return SN_OK;
}

sn_status sn_random_tensor(sn_tensor *t, sn_module *graph, uint32_t input, const sn_random_how *how) {
    const sn_tensor_info *info = &t->info;
    demand d = {.positions = INT64_MAX};
    if (graph) d = demand_of_input(graph, input);
    int64_t n = how->period && how->period < PERIOD ? how->period : PERIOD;
    if (n > info->numel) n = info->numel;
    size_t size = (size_t)n * sn_dtype_bytes(info->dtype);
    void *data = sn_alloc(&t->ctx->scratch, size);
    fill(data, info->dtype, n, how, &d);
    return sn_tensor_put_repeated(t, data, size);
}
