/* graph.c: building and reading the graph: nodes with interning, inputs, outputs, shorthands, liveness.
 *
 * Relies on rules*.c for every question of types and attributes. Operands of differing dtypes of arithmetic,
 * comparisons, where and concat are promoted here, by inserting cast nodes; everything else is stored as given (in
 * canonical form). Nodes are never changed or removed: passes append and redirect outputs.
 */
#include "ir/graph/internal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const sn_nd NONE = {0};

/* ---- names ---- */

/* [A-Za-z_][A-Za-z0-9_.]*: what the text can hold as it is. */
bool sn_is_plain_name(const char *s) {
    if (!s || !(isalpha((unsigned char)*s) || *s == '_')) return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_' && *s != '.') return false;
    return true;
}

static sn_status check_name(sn_module *m, const char *what, const char *name) {
    if (sn_is_plain_name(name)) return SN_OK;
    return sn_fail(m->env, SN_ERROR_ARGUMENT,
                   "%s name '%s' must be letters, digits, '_' and '.', and not start with a digit", what,
                   name ? name : "");
}

void sn_graph_name(sn_module *m, sn_nd node, const char *name) {
    sn_node_rec *rec = sn_node_get(m, node);
    if (rec->name || !name || !*name) return;
    bool prefix = !isalpha((unsigned char)*name) && *name != '_';
    char *s = sn_strf(&m->arena, "%s%s", prefix ? "_" : "", name);
    for (char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '.') *c = '_';
    rec->name = s;
}

/* ---- inputs ---- */

void sn_graph_init(sn_module *m, const char *name) {
    sn_graph_ir *g = &m->graph;
    *g = (sn_graph_ir){.name = sn_strdup(&m->arena, sn_is_plain_name(name) ? name : "main")};
    sn_table_init(&g->nodes, &m->arena, sizeof(sn_node_rec));
    sn_names_init(&g->input_names, &m->arena);
    sn_names_init(&g->output_names, &m->arena);
}

/* Row-major strides. */
static void contiguous_strides(sn_module *m, const sn_type *type, sn_ix *stride) {
    sn_ix step = sn_ix_const(m, 1);
    for (uint32_t k = type->rank; k-- > 0;) {
        stride[k] = step;
        step = sn_ix_mul(m, step, type->shape[k]);
    }
}

/* With constant numbers: no element may lie before the storage or beyond what int64 counts. */
static sn_status check_reach(sn_module *m, const char *name, const sn_type *type, const sn_graph_input *in) {
    int64_t lo, hi;
    if (!sn_ix_is_const(m, in->offset, &lo)) return SN_OK;
    hi = lo;
    for (uint32_t k = 0; k < type->rank; k++) {
        int64_t stride, size, reach;
        if (!sn_ix_is_const(m, in->stride[k], &stride) || !sn_ix_is_const(m, type->shape[k], &size)) return SN_OK;
        if (size == 0) return SN_OK;
        int64_t *end = stride < 0 ? &lo : &hi;
        if (sn_mul_overflow(size - 1, stride, &reach) || sn_add_overflow(*end, reach, end) || hi > (int64_t)1 << 62)
            return sn_fail(m->env, SN_ERROR_ARGUMENT, "input %s: strides reach beyond 2^62 elements", name);
    }
    if (lo < 0)
        return sn_fail(m->env, SN_ERROR_ARGUMENT, "input %s: strides reach before the start of the storage", name);
    return SN_OK;
}

/* 1 + offset + sum (n-1)*stride; an axis that runs backwards has its last element at the start. */
sn_ix sn_graph_input_size(sn_module *m, uint32_t input) {
    const sn_graph_input *in = &m->graph.inputs.at[input];
    const sn_type *type = &sn_node_get(m, in->node)->type;
    sn_ix last = in->offset, zero = sn_ix_const(m, 0);
    for (uint32_t k = 0; k < type->rank; k++) {
        if (sn_ix_eq(type->shape[k], zero)) return zero;
        if (sn_ix_range(m, in->stride[k]).hi < 0) continue;
        last = sn_ix_add(m, last, sn_ix_mul(m, sn_ix_addc(m, type->shape[k], -1), in->stride[k]));
    }
    return sn_ix_addc(m, last, 1);
}

static sn_status place_input(sn_graph_input *out, sn_module *m, const char *name, const sn_type *type,
                             const sn_ix *strides, sn_ix offset) {
    sn_ix rows[SN_MAX_RANK];
    out->offset = offset.i ? offset : sn_ix_const(m, 0);
    out->contiguous = sn_ix_eq(out->offset, sn_ix_const(m, 0));
    contiguous_strides(m, type, rows);
    for (uint32_t k = 0; k < type->rank; k++) {
        out->stride[k] = strides ? strides[k] : rows[k];
        if (out->stride[k].i == 0)
            return sn_fail(m->env, SN_ERROR_ARGUMENT, "input %s: the stride of axis %u is missing", name, k);
        out->contiguous = out->contiguous && sn_ix_eq(out->stride[k], rows[k]);
    }
    return check_reach(m, name, type, out);
}

static sn_status check_input(sn_module *m, const char *name, const sn_type *type) {
    char what[80];
    SN_TRY(check_name(m, "input", name));
    snprintf(what, sizeof what, "input %s", name);
    if ((unsigned)type->dtype >= SN_N_DTYPES) return sn_fail(m->env, SN_ERROR_ARGUMENT, "%s: unknown dtype", what);
    if (sn_names_get(&m->graph.input_names, name))
        return sn_fail(m->env, SN_ERROR_ARGUMENT, "two inputs are named %s", name);
    return sn_type_check(m, what, type);
}

static sn_type trimmed(const sn_type *t) {
    sn_type c = {.dtype = t->dtype, .rank = t->rank};
    for (uint32_t k = 0; k < t->rank; k++) c.shape[k] = t->shape[k];
    return c;
}

sn_nd sn_graph_input_new(sn_module *m, const char *name, const sn_type *type, const sn_ix *strides, sn_ix offset) {
    sn_graph_ir *g = &m->graph;
    sn_graph_input in = {0};
    if (check_input(m, name, type) != SN_OK) return NONE;
    if (place_input(&in, m, name, type, strides, offset) != SN_OK || !sn_ix_ok(m)) return NONE;
    in.name = sn_strdup(&m->arena, name);
    in.node.i = sn_table_add(&g->nodes);
    *sn_node_get(m, in.node) =
        (sn_node_rec){.op = SN_OP_INPUT, .type = trimmed(type), .n_results = 1, .name = in.name, .input = g->inputs.n};
    SN_PUSH(&m->arena, &g->inputs, in);
    sn_names_put(&g->input_names, in.name, g->inputs.n);
    return in.node;
}

/* ---- inputs that may be left out ---- */

static sn_status check_default(sn_module *m, const sn_graph_input *in, uint64_t n) {
    const sn_type *type = &sn_node_get(m, in->node)->type;
    int64_t numel;
    if (!in->contiguous)
        return sn_fail(m->env, SN_ERROR_ARGUMENT, "input %s: one with strides of its own has no default", in->name);
    if (n == 1 || (n && sn_ix_is_const(m, sn_type_numel(m, type), &numel) && (uint64_t)numel == n)) return SN_OK;
    return sn_fail(m->env, SN_ERROR_ARGUMENT, "input %s: a default of %llu elements for %s; 1 or all are wanted",
                   in->name, (unsigned long long)n, sn_type_text(m, type));
}

/* Integers above INT64_MAX are u64 alone, which has all 64 bits. */
static bool fits_default(sn_dtype dtype, const double *f, const int64_t *i, uint64_t k) {
    if (sn_is_float(dtype)) return !isfinite(f[k]) || isfinite(sn_round_to(dtype, f[k]));
    return i && sn_wrap_to(dtype, i[k]) == i[k];
}

sn_status sn_graph_input_default(sn_module *m, uint32_t input, const double *f, const int64_t *i, uint64_t n) {
    sn_graph_input *in = &m->graph.inputs.at[input];
    sn_dtype dtype = sn_node_get(m, in->node)->type.dtype;
    bool is_float = sn_is_float(dtype);
    SN_TRY(check_default(m, in, n));
    for (uint64_t k = 0; k < n; k++)
        if (!fits_default(dtype, f, i, k))
            return sn_fail(m->env, SN_ERROR_ARGUMENT, "input %s: element %llu of its default is not a value of %s",
                           in->name, (unsigned long long)k, sn_dtypes[dtype].name);
    double *floats = is_float ? SN_NEWN(&m->arena, double, n) : NULL;
    int64_t *ints = is_float ? NULL : SN_NEWN(&m->arena, int64_t, n);
    for (uint64_t k = 0; k < n; k++) {
        if (floats) floats[k] = sn_round_to(dtype, f[k]);
        else ints[k] = i[k];
    }
    in->otherwise = (sn_graph_default){floats, ints, n};
    return SN_OK;
}

/* ---- interning ---- */

uint64_t sn_node_hash_what(const sn_node_rec *n) {
    uint64_t h = sn_hash(0, n->op);
    for (uint32_t k = 0; k < n->n_attrs; k++) h = sn_attr_hash(h, &n->attrs[k]);
    return h;
}

static uint64_t node_hash(const sn_node_rec *n) {
    uint64_t h = sn_node_hash_what(n);
    for (uint32_t k = 0; k < n->n_in; k++) h = sn_hash(h, n->in[k].i);
    return h;
}

static bool node_eq(const sn_node_rec *a, const sn_node_rec *b) {
    if (a->hash != b->hash || a->op != b->op || a->n_in != b->n_in || a->n_attrs != b->n_attrs) return false;
    for (uint32_t k = 0; k < a->n_in; k++)
        if (!sn_nd_eq(a->in[k], b->in[k])) return false;
    for (uint32_t k = 0; k < a->n_attrs; k++)
        if (!sn_attr_eq(&a->attrs[k], &b->attrs[k])) return false;
    return true;
}

/* The slot of an equal node, or the empty slot where it belongs. */
static uint32_t *find_slot(const sn_module *m, const sn_node_rec *rec) {
    const sn_graph_ir *g = &m->graph;
    uint32_t at = (uint32_t)rec->hash & (g->slot_cap - 1);
    while (g->slots[at] && !node_eq(sn_node_get(m, (sn_nd){g->slots[at]}), rec)) at = (at + 1) & (g->slot_cap - 1);
    return &g->slots[at];
}

sn_nd sn_graph_find(const sn_module *m, const sn_node_rec *rec) {
    sn_node_rec key = *rec;
    key.hash = node_hash(rec);
    return m->graph.slot_cap ? (sn_nd){*find_slot(m, &key)} : NONE;
}

static void grow_slots(sn_module *m) {
    sn_graph_ir *g = &m->graph;
    if (2 * g->nodes.count < g->slot_cap) return;
    g->slot_cap = g->slot_cap ? g->slot_cap * 2 : 64;
    g->slots = SN_NEWN(&m->arena, uint32_t, g->slot_cap);
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++)
        if (sn_node_get(m, x)->op != SN_OP_INPUT) *find_slot(m, sn_node_get(m, x)) = x.i;
}

static void note_repeat(sn_module *m, const sn_node_rec *rec) {
    if (sn_ops[rec->op].cls != SN_OPS_REPEAT) return;
    for (uint32_t k = 0; k < rec->n_attrs; k++)
        if (rec->attrs[k].id == SN_ATTR_REPEAT && rec->attrs[k].i > m->graph.repeats)
            m->graph.repeats = (uint32_t)rec->attrs[k].i;
}

/* The node equal to *rec, made when new. Lists of rec may be temporary. */
static sn_nd intern(sn_module *m, sn_node_rec *rec) {
    grow_slots(m);
    rec->hash = node_hash(rec);
    uint32_t *slot = find_slot(m, rec);
    if (*slot) return (sn_nd){*slot};
    sn_attr *attrs = SN_NEWN(&m->arena, sn_attr, rec->n_attrs);
    for (uint32_t k = 0; k < rec->n_attrs; k++) attrs[k] = sn_attr_copy(&m->arena, &rec->attrs[k]);
    rec->attrs = attrs;
    rec->in = sn_memdup(&m->arena, rec->in, rec->n_in * sizeof *rec->in);
    rec->origin = m->graph.origin;
    sn_nd x = {sn_table_add(&m->graph.nodes)};
    *sn_node_get(m, x) = *rec;
    *slot = x.i;
    note_repeat(m, rec);
    return x;
}

/* ---- the general constructor ---- */

static bool is_tensor(const sn_module *m, sn_nd x) {
    return x.i > 0 && x.i < m->graph.nodes.count && sn_node_get(m, x)->n_results == 1;
}

/* Operands whose dtypes must agree: [*first, *end). */
static void promoted_operands(sn_op op, uint32_t n_in, uint32_t *first, uint32_t *end) {
    sn_opclass cls = sn_ops[op].cls;
    bool all = cls == SN_OPS_BINARY || cls == SN_OPS_COMPARE || op == SN_OP_CONCAT;
    *first = op == SN_OP_WHERE ? 1 : 0;
    *end = all || op == SN_OP_WHERE ? n_in : 0;
}

/* Operands with casts to their common dtype; `few` is used when it is long enough. Wrong operands stay: the rule names
 * them. */
static const sn_nd *promote(sn_module *m, sn_op op, const sn_nd *in, uint32_t n_in, sn_nd few[8]) {
    uint32_t first, end;
    bool differ = false;
    promoted_operands(op, n_in, &first, &end);
    for (uint32_t k = first; k < end; k++)
        if (!is_tensor(m, in[k])) return in;
    if (first >= end) return in;
    sn_common_dtype common = {0};
    for (uint32_t k = first; k < end; k++) sn_common_dtype_add(&common, &sn_node_get(m, in[k])->type);
    sn_dtype t = sn_common_dtype_get(&common);
    for (uint32_t k = first; k < end; k++) differ = differ || sn_node_get(m, in[k])->type.dtype != t;
    if (!differ) return in;
    sn_nd *cast = n_in <= 8 ? few : SN_NEWN(&m->arena, sn_nd, n_in);
    for (uint32_t k = 0; k < n_in; k++) cast[k] = k < first ? in[k] : sn_graph_cast(m, in[k], t);
    return cast;
}

/* `sizes` without symbols as a constant; none when there are symbols. */
static sn_nd constant_sizes(sn_module *m, const sn_attr *elements, const sn_type *type) {
    int64_t values[SN_MAX_RANK];
    for (uint32_t k = 0; k < elements->shape.n; k++)
        if (!sn_ix_is_const(m, elements->shape.at[k], &values[k])) return NONE;
    sn_attr attrs[] = {{.id = SN_ATTR_DTYPE, .i = type->dtype},
                       {.id = SN_ATTR_SHAPE, .shape = {type->shape, type->rank}},
                       {.id = SN_ATTR_VALUES, .numbers = {.i = values, .n = elements->shape.n}}};
    return sn_graph_node(m, SN_OP_CONSTANT, NULL, 0, attrs, 3);
}

/* A weight node has its place in the table of weights. */
static sn_status declare_weight(sn_module *m, const sn_type *type, const sn_attr *attrs, uint32_t n_attrs) {
    sn_wt w;
    for (uint32_t k = 0; k < n_attrs; k++)
        if (attrs[k].id == SN_ATTR_NAME) return sn_wt_declare(&w, m, attrs[k].text, type);
    return SN_OK;
}

sn_nd sn_graph_node(sn_module *m, sn_op op, const sn_nd *in, uint32_t n_in, const sn_attr *attrs, uint32_t n_attrs) {
    sn_nd few[8];
    sn_attr canonical[SN_N_ATTRS];
    sn_attr_store store;
    sn_node_rec rec = {.op = op, .n_in = n_in, .n_attrs = n_attrs};
    if ((unsigned)op < SN_N_OPS) in = promote(m, op, in, n_in, few);
    if (sn_graph_infer(&rec.type, &rec.n_results, m, op, in, n_in, attrs, n_attrs, 0) != SN_OK) return NONE;
    sn_nd known = op == SN_OP_SIZES ? constant_sizes(m, attrs, &rec.type) : NONE;
    if (known.i) return known;
    if (op == SN_OP_WEIGHT && declare_weight(m, &rec.type, attrs, n_attrs) != SN_OK) return NONE;
    if (n_attrs) memcpy(canonical, attrs, n_attrs * sizeof *attrs); /* the rule refused more than SN_N_ATTRS */
    sn_attrs_canonical(m, op, in, n_in, &rec.type, canonical, n_attrs, &store);
    rec.in = in;
    rec.attrs = canonical;
    return intern(m, &rec);
}

/* ---- outputs ---- */

static sn_status check_writes(sn_module *m, const char *name, sn_nd node, int writes) {
    const sn_graph_ir *g = &m->graph;
    if (writes < -1 || writes >= (int)g->inputs.n)
        return sn_fail(m->env, SN_ERROR_ARGUMENT, "output %s writes input number %d of %u", name, writes, g->inputs.n);
    if (writes < 0) return SN_OK;
    const sn_type *a = &sn_node_get(m, node)->type, *b = &sn_node_get(m, g->inputs.at[writes].node)->type;
    if (!sn_type_eq(a, b))
        return sn_fail(m->env, SN_ERROR_TYPE, "output %s of type %s cannot write input %s of type %s", name,
                       sn_type_text(m, a), g->inputs.at[writes].name, sn_type_text(m, b));
    uint32_t other = g->inputs.at[writes].writer;
    if (!other) return SN_OK;
    return sn_fail(m->env, SN_ERROR_ARGUMENT, "outputs %s and %s both write input %s", g->outputs.at[other - 1].name,
                   name, g->inputs.at[writes].name);
}

sn_status sn_graph_output_new(sn_module *m, const char *name, sn_nd node, int writes_input) {
    sn_graph_ir *g = &m->graph;
    SN_TRY(check_name(m, "output", name));
    if (node.i == 0 || node.i >= g->nodes.count)
        return sn_fail(m->env, SN_ERROR_ARGUMENT, "output %s has no value", name);
    if (sn_node_get(m, node)->n_results > 1)
        return sn_fail(m->env, SN_ERROR_TYPE, "output %s is a tuple; take a result of it with project", name);
    if (sn_names_get(&g->output_names, name))
        return sn_fail(m->env, SN_ERROR_ARGUMENT, "two outputs are named %s", name);
    SN_TRY(check_writes(m, name, node, writes_input));
    sn_graph_output out = {node, sn_strdup(&m->arena, name), writes_input};
    SN_PUSH(&m->arena, &g->outputs, out);
    if (writes_input >= 0) g->inputs.at[writes_input].writer = g->outputs.n;
    sn_names_put(&g->output_names, out.name, g->outputs.n);
    return SN_OK;
}

void sn_graph_set_output(sn_module *m, uint32_t output, sn_nd node) {
    SN_ASSERT(output < m->graph.outputs.n);
    m->graph.outputs.at[output].node = node;
}

/* ---- shorthands ---- */

static sn_attr shape_attr(const sn_ix *shape, uint32_t rank) {
    return (sn_attr){.id = SN_ATTR_SHAPE, .shape = {shape, rank}};
}

sn_nd sn_graph_weight(sn_module *m, const char *name, const sn_type *type, const void *data) {
    sn_attr attrs[] = {{.id = SN_ATTR_NAME, .text = name},
                       {.id = SN_ATTR_DTYPE, .i = type->dtype},
                       shape_attr(type->shape, type->rank)};
    sn_nd x = sn_graph_node(m, SN_OP_WEIGHT, NULL, 0, attrs, 3);
    if (x.i == 0) return NONE;
    sn_graph_name(m, x, name);
    if (data) sn_wt_get(m, sn_wt_named(m, name))->data = data;
    return x;
}

static sn_attr ints_attr(sn_attr_id id, const int64_t *at, uint32_t n) { return (sn_attr){.id = id, .ints = {at, n}}; }

sn_nd sn_graph_sizes(sn_module *m, const sn_ix *at, uint32_t n) {
    sn_attr attr = {.id = SN_ATTR_ELEMENTS, .shape = {at, n}};
    return sn_graph_node(m, SN_OP_SIZES, NULL, 0, &attr, 1);
}

sn_nd sn_graph_unary(sn_module *m, sn_op op, sn_nd x) { return sn_graph_node(m, op, &x, 1, NULL, 0); }

sn_nd sn_graph_binary(sn_module *m, sn_op op, sn_nd x, sn_nd y) {
    return sn_graph_node(m, op, (sn_nd[]){x, y}, 2, NULL, 0);
}

sn_nd sn_graph_full(sn_module *m, sn_dtype dtype, double value, const sn_ix *shape, uint32_t rank) {
    sn_attr attrs[] = {{.id = SN_ATTR_DTYPE, .i = dtype}, shape_attr(shape, rank), {.id = SN_ATTR_VALUE, .f = value}};
    return sn_graph_node(m, SN_OP_FULL, NULL, 0, attrs, 3);
}

sn_nd sn_graph_scalar(sn_module *m, sn_dtype dtype, double value) { return sn_graph_full(m, dtype, value, NULL, 0); }

sn_nd sn_graph_cast(sn_module *m, sn_nd x, sn_dtype dtype) {
    sn_attr attr = {.id = SN_ATTR_DTYPE, .i = dtype};
    if (is_tensor(m, x) && sn_node_get(m, x)->type.dtype == dtype) return x;
    return sn_graph_node(m, SN_OP_CAST, &x, 1, &attr, 1);
}

sn_nd sn_graph_reduce(sn_module *m, sn_op op, sn_nd x, const int64_t *axes, uint32_t n, bool keepdim) {
    sn_attr attrs[] = {ints_attr(SN_ATTR_AXES, axes, n), {.id = SN_ATTR_KEEPDIM, .i = 1}};
    return sn_graph_node(m, op, &x, 1, attrs, keepdim ? 2 : 1);
}

sn_nd sn_graph_reshape(sn_module *m, sn_nd x, const sn_ix *shape, uint32_t rank) {
    sn_attr attr = shape_attr(shape, rank);
    return sn_graph_node(m, SN_OP_RESHAPE, &x, 1, &attr, 1);
}

sn_nd sn_graph_expand(sn_module *m, sn_nd x, const sn_ix *shape, uint32_t rank) {
    sn_attr attr = shape_attr(shape, rank);
    return sn_graph_node(m, SN_OP_EXPAND, &x, 1, &attr, 1);
}

sn_nd sn_graph_permute(sn_module *m, sn_nd x, const int64_t *perm, uint32_t rank) {
    sn_attr attr = ints_attr(SN_ATTR_PERM, perm, rank);
    return sn_graph_node(m, SN_OP_PERMUTE, &x, 1, &attr, 1);
}

sn_nd sn_graph_unsqueeze(sn_module *m, sn_nd x, const int64_t *axes, uint32_t n) {
    sn_attr attr = ints_attr(SN_ATTR_AXES, axes, n);
    return sn_graph_node(m, SN_OP_UNSQUEEZE, &x, 1, &attr, 1);
}

sn_nd sn_graph_project(sn_module *m, sn_nd tuple, int64_t index) {
    sn_attr attr = {.id = SN_ATTR_INDEX, .i = index};
    return sn_graph_node(m, SN_OP_PROJECT, &tuple, 1, &attr, 1);
}

/* ---- reading ---- */

sn_node_rec *sn_node_get(const sn_module *m, sn_nd x) { return sn_table_at(&m->graph.nodes, x.i); }

const sn_attr *sn_node_attr(const sn_module *m, sn_nd x, sn_attr_id id) {
    const sn_node_rec *n = sn_node_get(m, x);
    for (uint32_t i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].id == id) return &n->attrs[i];
    return NULL;
}

int64_t sn_node_int(const sn_module *m, sn_nd x, sn_attr_id id, int64_t otherwise) {
    const sn_attr *a = sn_node_attr(m, x, id);
    return a ? a->i : otherwise;
}

sn_precision sn_node_precision(const sn_module *m, sn_nd x) {
    return (sn_precision)sn_node_int(m, x, SN_ATTR_PRECISION, SN_PRECISION_EXACT);
}

double sn_node_float(const sn_module *m, sn_nd x, sn_attr_id id, double otherwise) {
    const sn_attr *a = sn_node_attr(m, x, id);
    return a ? a->f : otherwise;
}

sn_ix sn_type_numel(sn_module *m, const sn_type *t) { return sn_ix_product(m, t->shape, t->rank); }

bool sn_type_eq(const sn_type *a, const sn_type *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (uint32_t k = 0; k < a->rank; k++)
        if (!sn_ix_eq(a->shape[k], b->shape[k])) return false;
    return true;
}

bool sn_node_is_elementwise(const sn_node_rec *n) {
    switch (sn_ops[n->op].cls) {
    case SN_OPS_UNARY:
    case SN_OPS_BINARY:
    case SN_OPS_COMPARE:
    case SN_OPS_TEST: return true;
    case SN_OPS_ELEMENT: return n->op == SN_OP_WHERE || n->op == SN_OP_CAST;
    case SN_OPS_SOURCE:
    case SN_OPS_REDUCE:
    case SN_OPS_SCAN:
    case SN_OPS_VIEW:
    case SN_OPS_MOVE:
    case SN_OPS_CONTRACT:
    case SN_OPS_COMPOSITE:
    case SN_OPS_REPEAT: return false;
    }
    return false;
}

uint32_t sn_node_axes_mask(const sn_module *m, sn_nd x) {
    const sn_attr *axes = sn_node_attr(m, x, SN_ATTR_AXES), *axis = sn_node_attr(m, x, SN_ATTR_AXIS);
    uint32_t mask = axis ? 1u << axis->i : 0; /* canonical: never negative */
    for (uint32_t i = 0; axes && i < axes->ints.n; i++) mask |= 1u << axes->ints.at[i];
    return mask;
}

void sn_graph_live(const sn_module *m, uint8_t *live) {
    const sn_graph_ir *g = &m->graph;
    memset(live, 0, g->nodes.count);
    for (uint32_t i = 0; i < g->outputs.n; i++) live[g->outputs.at[i].node.i] = 1;
    for (uint32_t i = g->nodes.count; i-- > 1;) {
        const sn_node_rec *n = sn_node_get(m, (sn_nd){i});
        for (uint32_t k = 0; live[i] && k < n->n_in; k++) live[n->in[k].i] = 1;
    }
}

int64_t sn_graph_matmul_uses(const sn_module *m, sn_nd x, uint32_t k) {
    const sn_node_rec *n = sn_node_get(m, x);
    const sn_type *types[2] = {&n->type, &sn_node_get(m, n->in[k])->type};
    int64_t elements[2] = {1, 1}, size;
    uint32_t rank = types[1]->rank, summed = rank > 1 && k ? rank - 2 : rank - 1;
    for (uint32_t t = 0; t < 2; t++)
        for (uint32_t i = 0; i < types[t]->rank; i++) {
            if (!sn_ix_is_const(m, types[t]->shape[i], &size)) return -1;
            if (t && i == summed) continue;
            if (sn_mul_overflow(elements[t], size, &elements[t])) return INT64_MAX;
        }
    return elements[1] ? elements[0] / elements[1] : 0;
}
