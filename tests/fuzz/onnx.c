/* onnx.c: any bytes as an ONNX model, imported without and with values of its inputs. The import fails with one line, or gives a
 * graph that verifies and prints; either way it takes no more memory than a model of that size may.
 *
 * Changed bytes would be refused by their lengths mostly, so models are changed field by field (the custom mutator): a field
 * goes, comes twice, gets another number, text or message, and the lengths around it are written anew.
 *
 * How much memory a model may take: BASE for what is bounded by itself, however small the model is (in frontend/onnx: MAX_WORK
 * elements that are evaluated and MAX_TABLES of tables in known.c, MAX_STEPS of functions and bodies in import.c), and PER_BYTE for
 * each byte of the file.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/onnx/tensor.h"

enum { BASE = 1 << 30, PER_BYTE = 2000, MAX_DEPTH = 16 };

/* ---- memory ---- */

typedef struct budget {
    size_t used, bound;
} budget;

/* Every block has its size in front. */
static void *counted(void *user, void *p, size_t size) {
    budget *b = user;
    size_t *block = p ? (size_t *)p - 2 : NULL, old = block ? *block : 0;
    if (size == 0) {
        b->used -= old;
        free(block);
        return NULL;
    }
    if (b->used - old + size > b->bound) {
        fprintf(stderr, "%zu bytes held, %zu more are wanted; the bound is %zu\n", b->used, size, b->bound);
        abort();
    }
    size_t *grown = realloc(block, size + 2 * sizeof *grown);
    if (!grown) return NULL;
    *grown = size;
    b->used += size - old;
    return grown + 2;
}

/* ---- values of inputs: what operators read at import, shapes and axes above all ---- */

enum { MOST_VALUES = 8, MOST_ELEMENTS = 64 };

typedef struct given {
    const uint8_t *data;
    size_t size;
    sn_weight_info at[MOST_VALUES];
    unsigned n;
    char names[MOST_VALUES][64];
    uint64_t elements[MOST_VALUES][MOST_ELEMENTS];
} given;

/* Small numbers, which ones depends on the bytes of the model. */
static void give(given *v, const sn_pb_value_info *info, sn_dtype dtype) {
    const sn_pb_shape *shape = info->type->tensor->shape;
    sn_weight_info w = {.name = v->names[v->n], .dtype = dtype, .data = v->elements[v->n], .rank = shape->dims.n};
    uint64_t numel = 1, h = sn_hash_bytes(v->n, v->data, v->size);
    for (uint32_t k = 0; k < w.rank; k++) {
        w.shape[k] = shape->dims.at[k].seen & SN_PB_DIM_VALUE ? shape->dims.at[k].value : 2;
        if (w.shape[k] < 0 || w.shape[k] > MOST_ELEMENTS || (numel *= (uint64_t)w.shape[k]) > MOST_ELEMENTS) return;
    }
    size_t bytes = sn_dtype_bytes(dtype);
    w.size = numel * bytes;
    for (uint64_t k = 0; k < numel; k++) {
        char *at = (char *)v->elements[v->n] + k * bytes;
        h = sn_hash(h, k);
        if (sn_is_float(dtype)) sn_store_float(dtype, at, (double)(int64_t)(h % 9) / 2 - 1);
        else sn_store_int(dtype, at, (int64_t)(h % (h >> 60 ? 5 : 40)) - 1);
    }
    snprintf(v->names[v->n], sizeof v->names[0], "%s", info->name);
    v->at[v->n++] = w;
}

static sn_status choose_values(sn_context *ctx, void *user) {
    given *v = user;
    sn_pb_model m;
    SN_TRY(sn_pb_read_model(&m, &ctx->env, &ctx->scratch, "fuzz.onnx", (sn_bytes){v->data, v->size}));
    for (uint32_t k = 0; m.graph && k < m.graph->inputs.n && v->n < MOST_VALUES; k++) {
        const sn_pb_value_info *info = &m.graph->inputs.at[k];
        sn_dtype dtype;
        bool tensor = info->name && strlen(info->name) < sizeof v->names[0] && info->type && info->type->tensor &&
                      info->type->tensor->shape && info->type->tensor->shape->dims.n <= SN_MAX_RANK;
        if (!tensor) continue;
        SN_TRY(sn_onnx_dtype(&dtype, &ctx->env, info->type->tensor->elem_type));
        give(v, info, dtype);
    }
    return SN_OK;
}

/* ---- the test ---- */

static void one_line(const sn_context *ctx) {
    const char *message = sn_error(ctx);
    if (message[0] && !strchr(message, '\n')) return;
    fprintf(stderr, "not one line: \"%s\"\n", message);
    abort();
}

static sn_status verify(sn_context *ctx, void *graph) {
    (void)ctx;
    return sn_module_verify(((sn_graph *)graph)->m, "import");
}

static void import(sn_context *ctx, const uint8_t *data, size_t size, const sn_import_options *options) {
    sn_graph *g;
    char *text;
    if (sn_import_onnx_memory(&g, ctx, "fuzz.onnx", data, size, NULL, options) != SN_OK) {
        one_line(ctx);
        if (sn_error_status(ctx) != SN_ERROR_INTERNAL) return;
    } else if (sn_guarded(ctx, verify, g) == SN_OK && sn_graph_text(&text, g) == SN_OK) {
        sn_free(ctx, text);
        sn_graph_destroy(g);
        return;
    }
    fprintf(stderr, "%s\n", sn_error(ctx));
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    budget b = {.bound = BASE + PER_BYTE * size};
    sn_context_options hooks = {.struct_size = sizeof hooks, .realloc_fn = counted, .realloc_user = &b};
    sn_context *ctx;
    if (sn_context_create(&ctx, &hooks) != SN_OK) abort();
    import(ctx, data, size, NULL);
    given v = {.data = data, .size = size};
    if (sn_guarded(ctx, choose_values, &v) == SN_OK && v.n) {
        sn_dim_binding dim = {"N", 3};
        import(
            ctx, data, size,
            &(sn_import_options){
                .struct_size = sizeof(sn_import_options), .dims = &dim, .n_dims = 1, .values = v.at, .n_values = v.n});
    }
    sn_context_destroy(ctx);
    if (b.used) abort();
    return 0;
}

/* ---- the mutator ---- */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b, uint8_t *out, size_t max,
                                 unsigned seed);

enum { MOST_FIELDS = 512, MOST_BYTES = 1 << 16 };

static uint32_t random_below(unsigned *seed, uint32_t n) {
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*seed >> 8) * n >> 24);
}

/* Where the fields of a message start, and its end; 0 where it is none. */
static uint32_t fields_of(size_t at[MOST_FIELDS + 1], sn_bytes message) {
    uint32_t n = 0;
    sn_bytes rest = message;
    sn_wire_field f;
    for (; rest.n && n < MOST_FIELDS; n++) {
        at[n] = (size_t)(rest.at - message.at);
        if (!sn_wire_next(&f, &rest)) return 0;
    }
    at[n] = (size_t)(rest.at - message.at);
    return rest.n ? 0 : n;
}

static size_t put_varint(uint8_t *out, uint64_t value) {
    size_t n = 0;
    for (; value > 127; value >>= 7) out[n++] = (uint8_t)(value | 128);
    out[n++] = (uint8_t)value;
    return n;
}

static uint64_t another_number(uint64_t value, unsigned *seed) {
    static const uint64_t known[] = {
        0, 1, 2, 3, 7, 8, 9, 16, 255, UINT32_MAX, UINT64_MAX, INT64_MAX, INT32_MAX, 1u << 20, 1ull << 40, 1ull << 62};
    switch (random_below(seed, 4)) {
    case 0: return value + 1;
    case 1: return value - 1;
    case 2: return (uint64_t)random_below(seed, 24);
    default: return known[random_below(seed, SN_COUNT(known))];
    }
}

static const char *another_operator(unsigned *seed) {
    static const char *const names[] = {
#define SN_ONNX_OP(domain, name, since, handler, arg) #name,
#include "frontend/onnx/ops.def"
#undef SN_ONNX_OP
    };
    return names[random_below(seed, SN_COUNT(names))];
}

static size_t mutate(uint8_t *data, size_t size, size_t max, unsigned *seed, int depth);

static size_t mutate_bytes(uint8_t *data, size_t size, size_t max, unsigned *seed, int depth) {
    size_t at[MOST_FIELDS + 1];
    if (depth < MAX_DEPTH && fields_of(at, (sn_bytes){data, size}) && random_below(seed, 16))
        return mutate(data, size, max, seed, depth + 1);
    if (random_below(seed, 3)) return max ? LLVMFuzzerMutate(data, size, max) : 0;
    const char *name = another_operator(seed);
    return strlen(name) > max ? size : (memcpy(data, name, strlen(name)), strlen(name));
}

/* The field at `from` with another value. */
static size_t change(uint8_t *data, size_t size, size_t max, size_t from, size_t to, unsigned *seed, int depth) {
    static uint8_t room[MAX_DEPTH + 2][MOST_BYTES];
    uint8_t *field = room[depth];
    sn_bytes rest = {data + from, to - from};
    sn_wire_field f;
    if (!sn_wire_next(&f, &rest) || f.bytes.n > MOST_BYTES / 2) return size;
    size_t n = put_varint(field, (uint64_t)f.number << 3 | f.type), most = max - (size - (to - from));
    if (f.type == SN_WIRE_BYTES) {
        if (most < n + 3 + f.bytes.n) return size;
        uint8_t *payload = field + 32;
        memcpy(payload, f.bytes.at, f.bytes.n);
        size_t limit = most - n - 3 < MOST_BYTES / 2 ? most - n - 3 : MOST_BYTES / 2;
        size_t m = mutate_bytes(payload, f.bytes.n, limit, seed, depth);
        n += put_varint(field + n, m);
        memmove(field + n, payload, m);
        n += m;
    } else {
        uint64_t value =
            f.type == SN_WIRE_VARINT ? another_number(f.value, seed) : f.value ^ 1ull << random_below(seed, 64);
        if (f.type == SN_WIRE_VARINT) n += put_varint(field + n, value);
        else memcpy(field + n, &value, f.type == SN_WIRE_32 ? 4 : 8), n += f.type == SN_WIRE_32 ? 4 : 8;
    }
    if (size - (to - from) + n > max) return size;
    memmove(data + from + n, data + to, size - to);
    memcpy(data + from, field, n);
    return size - (to - from) + n;
}

/* A copy of bytes [from, to) at `place`. */
static size_t repeat(uint8_t *data, size_t size, size_t max, size_t from, size_t to, size_t place) {
    static uint8_t field[MOST_BYTES];
    size_t n = to - from;
    if (size + n > max || n > sizeof field) return size;
    memcpy(field, data + from, n);
    memmove(data + place + n, data + place, size - place);
    memcpy(data + place, field, n);
    return size + n;
}

/* One field of the message, or of one inside of it. */
static size_t mutate(uint8_t *data, size_t size, size_t max, unsigned *seed, int depth) {
    size_t at[MOST_FIELDS + 1];
    uint32_t n = fields_of(at, (sn_bytes){data, size});
    if (!n) return max ? LLVMFuzzerMutate(data, size, max) : 0;
    uint32_t k = random_below(seed, n), other = random_below(seed, n + 1);
    switch (random_below(seed, 12)) {
    case 0: memmove(data + at[k], data + at[k + 1], size - at[k + 1]); return size - (at[k + 1] - at[k]);
    case 1: return repeat(data, size, max, at[k], at[k + 1], at[other]);
    default: return change(data, size, max, at[k], at[k + 1], seed, depth);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return mutate(data, size, max, &seed, 0);
}

/* Field k of the second model's graph, or of the model, after those of the first: parts of a message add up. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b, uint8_t *out, size_t max,
                                 unsigned seed) {
    size_t at[MOST_FIELDS + 1];
    uint32_t n = fields_of(at, (sn_bytes){b, n_b});
    if (n_a > max) return 0;
    memcpy(out, a, n_a);
    if (!n) return n_a;
    uint32_t k = random_below(&seed, n);
    size_t m = at[k + 1] - at[k];
    if (n_a + m > max) return n_a;
    memcpy(out + n_a, b + at[k], m);
    return n_a + m;
}
