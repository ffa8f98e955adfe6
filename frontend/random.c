/* random.c: values for the inputs of a graph, for `sinter run`, `bench` and tests: seeded ones, and some fixed lists.
 * The same seed gives the same values on every machine.
 *
 * Floats are normal unless another distribution is asked for, integers in -8 .. 7. Two uses of an input ask for more (demand.c): an index
 * must be a valid position, and a variance must not be negative.
 */
#include "frontend/demand.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---- */

/* In (0, 1]. */
static double uniform(uint64_t *state) { return (double)((sn_draw(state) >> 11) + 1) * 0x1p-53; }

static double normal(uint64_t *state) {
    double r = sqrt(-2 * log(uniform(state))), angle = 2 * 3.14159265358979323846 * uniform(state);
    return r * cos(angle);
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

/* Some elements become extremes, in one tensor every other one, in another one in a thousand. Positions stay valid, what has to be
 * positive stays finite. */
static void put_extremes(char *out, sn_dtype dtype, int64_t n, uint64_t seed, const sn_demand *d) {
    static const double floats[] = {0, -INFINITY, INFINITY, NAN, -1};
    static const int64_t integers[] = {0,         -1,        1,         INT64_MAX, INT64_MIN, INT32_MAX,
                                       INT32_MIN, INT16_MAX, INT16_MIN, UINT8_MAX, INT8_MIN,  INT8_MAX};
    static const int64_t every[] = {2, 5, 30, 300, 1000};
    uint64_t state = seed ^ UINT64_MAX;
    int64_t rare = every[sn_draw(&state) % SN_COUNT(every)], kinds = 1 + (int64_t)(sn_draw(&state) % SN_COUNT(floats));
    if (d->positive || d->positions != INT64_MAX || dtype == SN_BOOL) return;
    for (int64_t k = 0; k < n; k++) {
        char *element = out + (size_t)k * sn_dtype_bytes(dtype);
        if (sn_draw(&state) % (uint64_t)rare) continue;
        uint64_t which = sn_draw(&state);
        if (sn_is_float(dtype)) sn_store_float(dtype, element, floats[which % (uint64_t)kinds]);
        else sn_store_int(dtype, element, sn_wrap_to(dtype, integers[which % SN_COUNT(integers)]));
    }
}

static void fill(void *out, sn_dtype dtype, int64_t n, const sn_random_how *how, const sn_demand *d) {
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
    if (how->floats == SN_EXTREMES) put_extremes(out, dtype, n < PERIOD ? n : PERIOD, how->seed, d);
    repeat(out, n, bytes);
}

void sn_random_fill(void *out, sn_dtype dtype, int64_t n, uint64_t seed) {
    sn_demand d = {.positions = INT64_MAX};
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

sn_status sn_random_input(void *out, sn_module *graph, uint32_t input, uint64_t seed) {
    const sn_type *type = &sn_node_get(graph, graph->graph.inputs.at[input].node)->type;
    int64_t n = 0;
    if (!sn_ix_is_const(graph, sn_type_numel(graph, type), &n))
        return sn_fail(graph->env, SN_ERROR_ARGUMENT, "input %s: its size is not bound",
                       graph->graph.inputs.at[input].name);
    sn_arena arena;
    sn_arena_init(&arena, graph->env);
    sn_demand d = sn_demand_of(graph, input, &arena);
    sn_arena_free(&arena);
    fill(out, type->dtype, n, &(sn_random_how){.seed = seed}, &d);
    return SN_OK;
}

sn_status sn_random_tensor(sn_tensor *t, sn_module *graph, uint32_t input, const sn_random_how *how) {
    const sn_tensor_info *info = &t->info;
    sn_demand d = {.positions = INT64_MAX};
    if (graph) d = sn_demand_of(graph, input, &t->ctx->scratch);
    int64_t n = how->period && how->period < PERIOD ? how->period : PERIOD;
    if (n > info->numel) n = info->numel;
    size_t size = (size_t)n * sn_dtype_bytes(info->dtype);
    void *data = sn_alloc(&t->ctx->scratch, size);
    fill(data, info->dtype, n, how, &d);
    return sn_tensor_put_repeated(t, data, size);
}
