/* onnx_file.h: a writer of ONNX models, for tests: messages are bytes to which fields are appended.
 *
 *     pb g = {0};
 *     put_value(&g, GRAPH_INPUT, "x", F32, "N 3");
 *     put_op(&g, "Relu", "x", "y");
 *     put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
 *     pb m = model_of(&g, 17);
 */
#ifndef SN_TESTS_ONNX_FILE_H
#define SN_TESTS_ONNX_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct pb {
    size_t n;
    uint8_t at[6000];
} pb;

/* Field numbers of onnx.proto. */
enum { MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_FUNCTION = 25 };
enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_VALUE_INFO = 13 };
enum { NODE_NAME = 3, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_T = 5, ATTR_G = 6, ATTR_INTS = 8, ATTR_REF = 21 };
enum { TENSOR_RAW = 9, TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14 };
enum { FUNCTION_INPUT = 4, FUNCTION_OUTPUT = 5, FUNCTION_NODE = 7, FUNCTION_OPSET = 9, FUNCTION_DEFAULT = 11 };
/* TensorProto.DataType */
enum { F32 = 1, U8 = 2, I64 = 7, BOOL = 9, F64 = 11, BF16 = 16 };

static inline void put_varint(pb *p, uint64_t value) {
    for (; value > 127; value >>= 7) p->at[p->n++] = (uint8_t)(value | 128);
    p->at[p->n++] = (uint8_t)value;
}

static inline void put_int(pb *p, uint32_t number, int64_t value) {
    put_varint(p, (uint64_t)number << 3);
    put_varint(p, (uint64_t)value);
}

static inline void put_float(pb *p, uint32_t number, float value) {
    put_varint(p, (uint64_t)number << 3 | 5);
    memcpy(p->at + p->n, &value, sizeof value);
    p->n += sizeof value;
}

static inline void put_bytes(pb *p, uint32_t number, const void *bytes, size_t n) {
    if (p->n + n + 20 > sizeof p->at) abort();
    put_varint(p, (uint64_t)number << 3 | 2);
    put_varint(p, n);
    memcpy(p->at + p->n, bytes, n);
    p->n += n;
}

static inline void put_text(pb *p, uint32_t number, const char *text) { put_bytes(p, number, text, strlen(text)); }
static inline void put_message(pb *p, uint32_t number, const pb *inner) { put_bytes(p, number, inner->at, inner->n); }

/* The words of a text, each a field; "-" is an empty one. */
static inline void put_words(pb *p, uint32_t number, const char *words) {
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        put_bytes(p, number, words, n == 1 && *words == '-' ? 0 : n);
    }
}

/* ---- types ---- */

/* dims: "N 3 ?", a name, a number, nothing known; NULL: the rank is not known either. */
static inline pb tensor_type(int elem, const char *dims) {
    pb t = {0}, shape = {0}, type = {0};
    put_int(&t, 1, elem);
    for (const char *d = dims; d && *d; d += strcspn(d, " "), d += *d == ' ') {
        pb dim = {0};
        char *end;
        long long size = strtoll(d, &end, 10);
        if (end != d) put_int(&dim, 1, size);
        else if (*d != '?') put_bytes(&dim, 2, d, strcspn(d, " "));
        put_message(&shape, 1, &dim);
    }
    if (dims) put_message(&t, 2, &shape);
    put_message(&type, 1, &t);
    return type;
}

/* kind: 4 a sequence of the type, 9 an optional. */
static inline pb type_of(uint32_t kind, const pb *elem) {
    pb of = {0}, type = {0};
    put_message(&of, 1, elem);
    put_message(&type, kind, &of);
    return type;
}

static inline void put_typed(pb *graph, uint32_t number, const char *name, const pb *type) {
    pb v = {0};
    put_text(&v, 1, name);
    put_message(&v, 2, type);
    put_message(graph, number, &v);
}

static inline void put_value(pb *graph, uint32_t number, const char *name, int elem, const char *dims) {
    pb type = tensor_type(elem, dims);
    put_typed(graph, number, name, &type);
}

/* ---- tensors ---- */

static inline pb tensor_head(const char *name, int elem, const char *dims) {
    pb t = {0};
    for (const char *d = dims; *d; d += strcspn(d, " "), d += *d == ' ') put_int(&t, 1, strtoll(d, NULL, 10));
    put_int(&t, 2, elem);
    put_text(&t, 8, name);
    return t;
}

static inline pb tensor_raw(const char *name, int elem, const char *dims, const void *data, size_t size) {
    pb t = tensor_head(name, elem, dims);
    put_bytes(&t, TENSOR_RAW, data, size);
    return t;
}

static inline void put_i64s(pb *graph, const char *name, const char *dims, const int64_t *data, size_t n) {
    pb t = tensor_raw(name, I64, dims, data, n * sizeof *data);
    put_message(graph, GRAPH_INITIALIZER, &t);
}

static inline void put_f32s(pb *graph, const char *name, const char *dims, const float *data, size_t n) {
    pb t = tensor_raw(name, F32, dims, data, n * sizeof *data);
    put_message(graph, GRAPH_INITIALIZER, &t);
}

static inline void put_entry(pb *tensor, const char *key, const char *value) {
    pb e = {0};
    put_text(&e, 1, key);
    put_text(&e, 2, value);
    put_message(tensor, TENSOR_EXTERNAL, &e);
}

/* ---- nodes ---- */

static inline pb node_of(const char *op, const char *inputs, const char *outputs) {
    pb n = {0};
    put_words(&n, 1, inputs);
    put_words(&n, 2, outputs);
    put_text(&n, 4, op);
    return n;
}

static inline void put_op(pb *graph, const char *op, const char *inputs, const char *outputs) {
    pb n = node_of(op, inputs, outputs);
    put_message(graph, GRAPH_NODE, &n);
}

static inline pb attr_of(const char *name) {
    pb a = {0};
    put_text(&a, 1, name);
    return a;
}

static inline void put_attr_int(pb *node, const char *name, int64_t value) {
    pb a = attr_of(name);
    put_int(&a, ATTR_I, value);
    put_message(node, NODE_ATTRIBUTE, &a);
}

static inline void put_attr_graph(pb *node, const char *name, const pb *graph) {
    pb a = attr_of(name);
    put_message(&a, ATTR_G, graph);
    put_message(node, NODE_ATTRIBUTE, &a);
}

/* ---- models ---- */

static inline pb opset_of(const char *domain, int64_t version) {
    pb o = {0};
    put_text(&o, 1, domain);
    put_int(&o, 2, version);
    return o;
}

static inline pb model_of(const pb *graph, int64_t opset) {
    pb m = {0}, o = opset_of("", opset);
    put_int(&m, 1, 8);
    put_message(&m, MODEL_OPSET, &o);
    put_message(&m, MODEL_GRAPH, graph);
    return m;
}

/* A function of the domain "own". */
static inline pb function_of(const char *name, const char *inputs, const char *outputs, int64_t opset) {
    pb f = {0}, o = opset_of("", opset), own = opset_of("own", 1);
    put_text(&f, 1, name);
    put_text(&f, 10, "own");
    put_words(&f, FUNCTION_INPUT, inputs);
    put_words(&f, FUNCTION_OUTPUT, outputs);
    put_message(&f, FUNCTION_OPSET, &o);
    put_message(&f, FUNCTION_OPSET, &own);
    return f;
}

/* A call of it. */
static inline pb call_of(const char *name, const char *inputs, const char *outputs) {
    pb n = node_of(name, inputs, outputs);
    put_text(&n, NODE_DOMAIN, "own");
    return n;
}

#endif
