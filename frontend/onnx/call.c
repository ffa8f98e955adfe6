/* call.c: what handlers ask a node for: operands, attributes; and the setting of results.
 *
 * Attributes are looked up by name each time: nodes have a handful. Asking marks one as read; import.c refuses a node
 * that has one which nobody asked for, so that no attribute is ever ignored by accident.
 */
#include "frontend/onnx/import.h"

#include <stdio.h>
#include <string.h>

sn_status sn_onnx_fail(sn_onnx_call *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    sn_status status = sn_vfail(c->m->env, SN_ERROR_UNSUPPORTED, format, args);
    va_end(args);
    return status;
}

/* ---- operands and results ---- */

sn_onnx_value sn_onnx_tensor(sn_nd x) { return (sn_onnx_value){.kind = SN_ONNX_TENSOR, .node = x}; }

bool sn_onnx_has(const sn_onnx_call *c, uint32_t k) { return k < c->n_in && c->in[k].kind != SN_ONNX_NONE; }

sn_nd sn_onnx_in(sn_onnx_call *c, uint32_t k) {
    if (k < c->n_in && c->in[k].kind == SN_ONNX_TENSOR) return c->in[k].node;
    if (!sn_onnx_has(c, k)) sn_onnx_fail(c, "operand %u is missing", k + 1);
    else
        sn_onnx_fail(c, "operand %u is %s; a tensor of numbers is wanted", k + 1,
                     c->in[k].kind == SN_ONNX_TEXT ? "text" : "a sequence");
    return (sn_nd){0};
}

void sn_onnx_out_value(sn_onnx_call *c, uint32_t k, sn_onnx_value v) {
    if (k < c->n_out) c->out[k] = v;
}

void sn_onnx_out(sn_onnx_call *c, uint32_t k, sn_nd x) {
    if (x.i) sn_onnx_out_value(c, k, sn_onnx_tensor(x));
}

sn_status sn_onnx_done(sn_onnx_call *c, sn_nd x) {
    sn_onnx_out(c, 0, x);
    return c->m->env->status;
}

/* ---- attributes ---- */

static const sn_pb_attribute *referred(const sn_onnx_call *c, const sn_pb_attribute *a) {
    if (!a->ref || !a->ref[0]) return a;
    for (uint32_t k = 0; k < c->scope->n_bound; k++)
        if (!strcmp(c->scope->bound[k]->name, a->ref)) return c->scope->bound[k];
    return NULL; /* the call of the function does not give it: absent */
}

const sn_pb_attribute *sn_onnx_attr(sn_onnx_call *c, const char *name) {
    for (uint32_t k = 0; k < c->node->attributes.n; k++) {
        const sn_pb_attribute *a = &c->node->attributes.at[k];
        if (!a->name || strcmp(a->name, name)) continue;
        if (k < 64) c->read |= (uint64_t)1 << k; /* the others count as not asked for */
        return referred(c, a);
    }
    return NULL;
}

bool sn_onnx_has_attr(sn_onnx_call *c, const char *name) { return sn_onnx_attr(c, name) != NULL; }
void sn_onnx_attr_ignore(sn_onnx_call *c, const char *name) { (void)sn_onnx_attr(c, name); }

/* AttributeProto.AttributeType. */
enum { FLOAT = 1, INT, STRING, TENSOR, GRAPH, FLOATS, INTS };

/* The attribute, which has to be of that type: of another one 0 would be read. Old files do not say it. */
static const sn_pb_attribute *typed(sn_onnx_call *c, const char *name, int64_t type) {
    static const char *const names[] = {"unknown", "a float", "an integer", "a text", "a tensor",
                                        "a graph", "floats",  "integers",   "texts"};
    const sn_pb_attribute *a = sn_onnx_attr(c, name);
    if (!a || !a->type || a->type == type) return a;
    bool known = a->type > 0 && a->type < (int64_t)SN_COUNT(names);
    sn_onnx_fail(c, "attribute %s is %s, not %s", name, names[known ? a->type : 0], names[type]);
    return NULL;
}

int64_t sn_onnx_attr_int(sn_onnx_call *c, const char *name, int64_t otherwise) {
    const sn_pb_attribute *a = typed(c, name, INT);
    return a ? a->i : otherwise;
}

double sn_onnx_attr_float(sn_onnx_call *c, const char *name, double otherwise) {
    const sn_pb_attribute *a = typed(c, name, FLOAT);
    return a ? (double)a->f : otherwise;
}

const char *sn_onnx_attr_text(sn_onnx_call *c, const char *name, const char *otherwise) {
    const sn_pb_attribute *a = typed(c, name, STRING);
    return a ? sn_strndup(c->arena, (const char *)a->s.at, a->s.n) : otherwise;
}

bool sn_onnx_attr_ints(const int64_t **at, uint32_t *n, sn_onnx_call *c, const char *name) {
    const sn_pb_attribute *a = typed(c, name, INTS);
    *at = a ? a->ints.at : NULL;
    *n = a ? a->ints.n : 0;
    return a != NULL;
}

bool sn_onnx_attr_floats(const float **at, uint32_t *n, sn_onnx_call *c, const char *name) {
    const sn_pb_attribute *a = typed(c, name, FLOATS);
    *at = a ? a->floats.at : NULL;
    *n = a ? a->floats.n : 0;
    return a != NULL;
}

const sn_pb_tensor *sn_onnx_attr_tensor(sn_onnx_call *c, const char *name) {
    const sn_pb_attribute *a = typed(c, name, TENSOR);
    return a ? a->t : NULL;
}

const sn_pb_graph *sn_onnx_attr_graph(sn_onnx_call *c, const char *name) {
    const sn_pb_attribute *a = typed(c, name, GRAPH);
    return a ? a->g : NULL;
}

sn_dtype sn_onnx_attr_dtype(sn_onnx_call *c, const char *name, sn_dtype otherwise) {
    const sn_pb_attribute *a = typed(c, name, INT);
    if (a) sn_onnx_dtype(&otherwise, c->m->env, a->i);
    return otherwise;
}

sn_status sn_onnx_axis(uint32_t *out, sn_onnx_call *c, int64_t axis, uint32_t rank) {
    *out = 0;
    int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) return sn_onnx_fail(c, "axis %lld of a tensor of rank %u", (long long)axis, rank);
    *out = (uint32_t)at;
    return SN_OK;
}
