/* ops_sequence.c: sequences and optionals. Both exist at import alone: a sequence is a list of values whose length and
 * positions have to be known there, an optional is its element or nothing.
 */
#include "frontend/onnx/import.h"

#include <string.h>

static sn_onnx_value sequence(const sn_onnx_value *items, uint32_t n) {
    return (sn_onnx_value){.kind = SN_ONNX_SEQUENCE, .items = items, .n = n};
}

static sn_status sequence_in(const sn_onnx_value **out, sn_onnx_call *c, uint32_t k) {
    static const sn_onnx_value none = {.kind = SN_ONNX_SEQUENCE};
    bool is = k < c->n_in && c->in[k].kind == SN_ONNX_SEQUENCE;
    *out = is ? &c->in[k] : &none;
    return is ? SN_OK : sn_onnx_fail(c, "operand %u is no sequence", k + 1);
}

/* Operand k, a position that may count from the end, or `otherwise` where it is absent; below `end`. */
static sn_status position(uint32_t *out, sn_onnx_call *c, uint32_t k, uint32_t n, uint32_t otherwise, uint32_t end) {
    int64_t at = otherwise;
    if (sn_onnx_has(c, k)) SN_TRY(sn_onnx_int(&at, c, k));
    int64_t from_start = at < 0 ? at + n : at;
    if (from_start < 0 || from_start >= end)
        return sn_onnx_fail(c, "position %lld in a sequence of %u", (long long)at, n);
    *out = (uint32_t)from_start;
    return SN_OK;
}

sn_status sn_onnx_sequence_construct(sn_onnx_call *c) {
    sn_onnx_out_value(c, 0, sequence(c->in, c->n_in));
    return SN_OK;
}

sn_status sn_onnx_sequence_empty(sn_onnx_call *c) {
    sn_onnx_attr_ignore(c, "dtype");
    sn_onnx_out_value(c, 0, sequence(NULL, 0));
    return SN_OK;
}

sn_status sn_onnx_sequence_insert(sn_onnx_call *c) {
    const sn_onnx_value *s;
    uint32_t at;
    SN_TRY(sequence_in(&s, c, 0));
    SN_TRY(position(&at, c, 2, s->n, s->n, s->n + 1));
    if (!sn_onnx_has(c, 1)) return sn_onnx_fail(c, "there is no element to insert");
    sn_onnx_value *items = SN_NEWN(c->arena, sn_onnx_value, s->n + 1);
    for (uint32_t k = 0; k < s->n + 1; k++) items[k] = k < at ? s->items[k] : k == at ? c->in[1] : s->items[k - 1];
    sn_onnx_out_value(c, 0, sequence(items, s->n + 1));
    return SN_OK;
}

sn_status sn_onnx_sequence_erase(sn_onnx_call *c) {
    const sn_onnx_value *s;
    uint32_t at;
    SN_TRY(sequence_in(&s, c, 0));
    SN_TRY(position(&at, c, 1, s->n, s->n - 1, s->n));
    sn_onnx_value *items = SN_NEWN(c->arena, sn_onnx_value, s->n);
    for (uint32_t k = 0; k + 1 < s->n; k++) items[k] = s->items[k < at ? k : k + 1];
    sn_onnx_out_value(c, 0, sequence(items, s->n - 1));
    return SN_OK;
}

sn_status sn_onnx_sequence_at(sn_onnx_call *c) {
    const sn_onnx_value *s;
    uint32_t at;
    SN_TRY(sequence_in(&s, c, 0));
    SN_TRY(position(&at, c, 1, s->n, 0, s->n));
    sn_onnx_out_value(c, 0, s->items[at]);
    return SN_OK;
}

sn_status sn_onnx_sequence_length(sn_onnx_call *c) {
    const sn_onnx_value *s;
    SN_TRY(sequence_in(&s, c, 0));
    int64_t n = s->n;
    return sn_onnx_done(c, sn_graph_ints(c->m, SN_I64, &n, NULL, 0));
}

/* ---- tensors to sequences and back ---- */

/* Sizes of the parts: operand 1 is a list of sizes, one size for all parts (the last may be smaller), or absent: 1. */
static sn_status part_sizes(const int64_t **sizes, uint32_t *n, bool *single, sn_onnx_call *c, int64_t length) {
    int64_t each = 1;
    *single = !sn_onnx_has(c, 1);
    if (!*single) {
        SN_TRY(sn_onnx_ints(sizes, n, c, 1));
        if (sn_graph_type(c->m, sn_onnx_in(c, 1))->rank == 1) return SN_OK;
        each = *n ? (*sizes)[0] : 0;
        if (each < 1) return sn_onnx_fail(c, "parts of %lld elements", (long long)each);
    }
    int64_t count = length / each + (length % each != 0);
    if (count > SN_ONNX_PARTS) return sn_onnx_fail(c, "%lld parts; at most %d", (long long)count, SN_ONNX_PARTS);
    *n = (uint32_t)count;
    int64_t *parts = SN_NEWN(c->arena, int64_t, *n + 1);
    for (uint32_t k = 0; k < *n; k++) parts[k] = k + 1 < *n ? each : length - each * (*n - 1);
    *sizes = parts;
    return SN_OK;
}

sn_status sn_onnx_split_to_sequence(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    bool keep = sn_onnx_attr_int(c, "keepdims", 1), single;
    int64_t shape[SN_MAX_RANK] = {0}, start = 0;
    uint32_t axis, n;
    const int64_t *sizes;
    SN_TRY(sn_onnx_axis(&axis, c, sn_onnx_attr_int(c, "axis", 0), sn_graph_type(c->m, x)->rank));
    SN_TRY(sn_onnx_shape(shape, c, x));
    SN_TRY(part_sizes(&sizes, &n, &single, c, shape[axis]));
    sn_onnx_value *items = SN_NEWN(c->arena, sn_onnx_value, n + 1);
    for (uint32_t k = 0; k < n; start += sizes[k++]) {
        if (sizes[k] < 0 || sizes[k] > shape[axis] - start)
            return sn_onnx_fail(c, "the parts do not fit the %lld elements of axis %u", (long long)shape[axis], axis);
        items[k] = sn_onnx_tensor(single && !keep ? sn_graph_pick(c->m, x, axis, start)
                                                  : sn_graph_slice(c->m, x, axis, start, start + sizes[k], 1));
    }
    sn_onnx_out_value(c, 0, sequence(items, n));
    return c->m->env->status;
}

sn_status sn_onnx_concat_from_sequence(sn_onnx_call *c) {
    const sn_onnx_value *s;
    SN_TRY(sequence_in(&s, c, 0));
    bool fresh = sn_onnx_attr_int(c, "new_axis", 0);
    int64_t axis = sn_onnx_attr_int(c, "axis", 0);
    sn_nd *in = SN_NEWN(c->arena, sn_nd, s->n + 1);
    if (!s->n) return sn_onnx_fail(c, "the sequence is empty");
    for (uint32_t k = 0; k < s->n; k++) {
        if (s->items[k].kind != SN_ONNX_TENSOR) return sn_onnx_fail(c, "element %u of the sequence is no tensor", k);
        in[k] = fresh ? sn_graph_unsqueeze(c->m, s->items[k].node, &axis, 1) : s->items[k].node;
    }
    return sn_onnx_done(c, sn_graph_concat(c->m, in, s->n, axis));
}

/* The body on the elements of the first operand, and of other sequences beside it; tensors are the same for all. */
sn_status sn_onnx_sequence_map(sn_onnx_call *c) {
    const sn_onnx_value *s;
    const sn_pb_graph *body = sn_onnx_attr_graph(c, "body");
    SN_TRY(sequence_in(&s, c, 0));
    if (!body) return sn_onnx_fail(c, "the body is missing");
    sn_onnx_value *in = SN_NEWN(c->arena, sn_onnx_value, c->n_in),
                  *out = SN_NEWN(c->arena, sn_onnx_value, body->outputs.n + 1);
    sn_onnx_value *items = SN_NEWN(c->arena, sn_onnx_value, (size_t)s->n * body->outputs.n + 1);
    for (uint32_t e = 0; e < s->n; e++) {
        for (uint32_t k = 0; k < c->n_in; k++) {
            in[k] = c->in[k];
            if (in[k].kind != SN_ONNX_SEQUENCE) continue;
            if (c->in[k].n != s->n) return sn_onnx_fail(c, "sequences of %u and %u elements", s->n, c->in[k].n);
            in[k] = c->in[k].items[e];
        }
        SN_TRY(sn_onnx_body(out, c, body, in, c->n_in));
        for (uint32_t k = 0; k < body->outputs.n; k++) items[(size_t)k * s->n + e] = out[k];
    }
    for (uint32_t k = 0; k < c->n_out && k < body->outputs.n; k++)
        sn_onnx_out_value(c, k, sequence(items + (size_t)k * s->n, s->n));
    return SN_OK;
}

/* ---- optionals ---- */

sn_status sn_onnx_optional(sn_onnx_call *c) {
    sn_onnx_attr_ignore(c, "type");
    sn_onnx_out_value(c, 0, c->n_in ? c->in[0] : (sn_onnx_value){.kind = SN_ONNX_NONE});
    return SN_OK;
}

sn_status sn_onnx_optional_has(sn_onnx_call *c) {
    return sn_onnx_done(c, sn_graph_scalar(c->m, SN_BOOL, sn_onnx_has(c, 0)));
}

sn_status sn_onnx_optional_get(sn_onnx_call *c) {
    if (!sn_onnx_has(c, 0)) return sn_onnx_fail(c, "the optional is empty");
    sn_onnx_out_value(c, 0, c->in[0]);
    return SN_OK;
}
