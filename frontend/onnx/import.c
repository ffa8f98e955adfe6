/* import.c: an ONNX model becomes a graph: inputs, initializers, then its nodes in order, each by the handler in its
 * row of ops.def.
 *
 *     model.onnx:  y = Relu(Conv(x, w))          graph @model(%x: f32[1, 3, 224, 224]) {
 *                                          ->      %w = weight name="w" ...
 *                                                  %0 = conv %x, %w ...   %1 = relu %0   return y = %1 }
 *
 * A node that cannot be imported does not end the import: what it would have given is missing, nodes that need it are
 * passed over where they cannot be judged, and at the end all such nodes are known (report.c). Functions of the model
 * are inlined, bodies of control flow are imported by the handlers of their nodes (sn_onnx_body).
 */
#include "frontend/onnx/import.h"

#include <ctype.h>
#include <string.h>

#include "frontend/context/names.h"
#include "ir/graph/weights.h"

enum {
    MAX_NESTING = SN_ONNX_NESTING,
    MAX_STEPS = 1 << 19,    /* a chain of functions that each call the next one twice is exponential */
    STEP_BYTES = 32,        /* of texts that are copied: a step */
    MAX_PROBLEMS = 1 << 14, /* more are not told */
    MAX_LITERALS = 16,      /* floats that are written into the graph; of integers it has to know more */
};

/* ---- tables ---- */

static const sn_onnx_op op_rows[] = {
#define SN_ONNX_OP(domain, name, since, handler, arg) {domain, #name, since, sn_onnx_##handler, arg},
#include "frontend/onnx/ops.def"
#undef SN_ONNX_OP
};

static const char *plain_domain(const char *domain) { return !domain || !strcmp(domain, "ai.onnx") ? "" : domain; }

static void note_own_names(sn_onnx *im);

static void index_tables(sn_onnx *im) {
    sn_names_init(&im->ops, im->arena);
    for (uint32_t k = SN_COUNT(op_rows); k-- > 0;) sn_names_put(&im->ops, op_rows[k].name, k + 1);
    sn_names_init(&im->functions, im->arena);
    for (uint32_t k = 0; k < im->model->functions.n; k++) {
        const sn_pb_function *f = &im->model->functions.at[k];
        if (f->name) sn_names_put(&im->functions, sn_strf(im->arena, "%s:%s", plain_domain(f->domain), f->name), k + 1);
    }
    const sn_pb_graph *g = im->model->graph;
    sn_names_init(&im->given, im->arena);
    sn_names_init(&im->tensors, im->arena);
    sn_names_init(&im->suffixes, im->arena);
    sn_names_init(&im->sizes, im->arena);
    sn_names_init(&im->taken_sizes, im->arena);
    sn_names_init(&im->stated, im->arena);
    for (uint32_t k = 0; k < g->value_infos.n; k++)
        if (g->value_infos.at[k].name) sn_names_put(&im->stated, g->value_infos.at[k].name, k + 1);
    note_own_names(im);
}

static int64_t opset_of(const sn_onnx_scope *scope, const char *domain) {
    for (uint32_t k = 0; k < scope->n_opsets; k++)
        if (!strcmp(plain_domain(scope->opsets[k].domain), domain)) return scope->opsets[k].version;
    return 1;
}

/* The row that says what an operator means in an opset: that with the largest `since` not above it. Rows of one name
 * stand together. */
static const sn_onnx_op *find_op(const sn_onnx *im, const char *domain, const char *name, int64_t opset) {
    const sn_onnx_op *best = NULL;
    uint32_t first = sn_names_get(&im->ops, name);
    for (uint32_t k = first; k && k <= SN_COUNT(op_rows) && !strcmp(op_rows[k - 1].name, name); k++) {
        const sn_onnx_op *row = &op_rows[k - 1];
        if (!strcmp(row->domain, domain) && row->since <= opset && (!best || row->since > best->since)) best = row;
    }
    return best;
}

/* ---- names ---- */

/* A name that .sn text takes: what is no letter, digit or _ becomes _. */
static const char *plain_name(sn_arena *arena, const char *name) {
    char *plain = sn_strf(arena, "%s%s", isdigit((unsigned char)name[0]) || !name[0] ? "_" : "", name);
    for (char *s = plain; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_') *s = '_';
    return plain;
}

/* "x_1" for "x", "x_2" the next time. */
static const char *next_name(sn_onnx *im, const char *name) {
    uint32_t k = sn_names_get(&im->suffixes, name) + 1;
    sn_names_put(&im->suffixes, name, k);
    return sn_strf(im->arena, "%s_%u", name, k);
}

/* own: names that are taken by who has them in the model, and by nobody else. */
static const char *unique_name(sn_onnx *im, const sn_names *taken, const sn_names *own, const char *name) {
    const char *plain = plain_name(im->arena, name), *free_name = plain;
    while (sn_names_get(taken, free_name) || (sn_names_get(own, free_name) && strcmp(free_name, name)))
        free_name = next_name(im, plain);
    return free_name;
}

static void note_own_name(sn_onnx *im, sn_names *own, const char *name) {
    if (name && !strcmp(plain_name(im->arena, name), name)) sn_names_put(own, name, 1);
}

/* Of inputs "x.1" and "x_1" the second is x_1, whatever their order: who asks for that name means that one. */
static void note_own_names(sn_onnx *im) {
    const sn_pb_graph *g = im->model->graph;
    sn_names_init(&im->own_inputs, im->arena);
    sn_names_init(&im->own_outputs, im->arena);
    sn_names_init(&im->own_sizes, im->arena);
    for (uint32_t k = 0; k < g->outputs.n; k++) note_own_name(im, &im->own_outputs, g->outputs.at[k].name);
    for (uint32_t k = 0; k < g->inputs.n; k++) {
        const sn_pb_type *type = g->inputs.at[k].type;
        const sn_pb_shape *shape = type && type->tensor ? type->tensor->shape : NULL;
        note_own_name(im, &im->own_inputs, g->inputs.at[k].name);
        for (uint32_t d = 0; shape && d < shape->dims.n; d++)
            note_own_name(im, &im->own_sizes, shape->dims.at[d].param);
    }
}

static const sn_onnx_value *look_up(const sn_onnx_scope *scope, const char *name) {
    for (; scope; scope = scope->outer) {
        uint32_t at = sn_names_get(&scope->names, name);
        if (at) return &scope->values.at[at - 1];
    }
    return NULL;
}

static void bind(sn_onnx *im, sn_onnx_scope *scope, const char *name, sn_onnx_value v) {
    if (!name || !name[0]) return;
    SN_PUSH(im->arena, &scope->values, v);
    sn_names_put(&scope->names, name, scope->values.n);
}

static sn_onnx_scope new_scope(sn_onnx *im, const sn_onnx_scope *outer) {
    sn_onnx_scope scope = {.outer = outer};
    if (outer) {
        scope.opsets = outer->opsets, scope.n_opsets = outer->n_opsets;
        scope.bound = outer->bound, scope.n_bound = outer->n_bound;
    }
    sn_names_init(&scope.names, im->arena);
    return scope;
}

/* ---- problems ---- */

/* A text of the file on one line. */
static const char *one_line(sn_arena *arena, const char *text) {
    char *line = sn_strdup(arena, text);
    for (char *s = line; *s; s++)
        if (iscntrl((unsigned char)*s)) *s = '?';
    return line;
}

static void note_problem(sn_onnx *im, const sn_pb_node *node, int64_t opset, const char *reason) {
    const char *name = node->name && node->name[0]              ? node->name
                       : node->outputs.n && node->outputs.at[0] ? node->outputs.at[0]
                                                                : "";
    if (im->problems.n < MAX_PROBLEMS) {
        sn_onnx_problem p = {.domain = one_line(im->arena, plain_domain(node->domain)),
                             .op = one_line(im->arena, node->op_type ? node->op_type : ""),
                             .node = one_line(im->arena, name),
                             .reason = one_line(im->arena, reason),
                             .opset = opset};
        SN_PUSH(im->arena, &im->problems, p);
    }
    sn_env_clear(im->env);
}

/* ---- inputs ---- */

static const sn_weight_info *value_of(sn_onnx *im, const char *name) {
    for (unsigned k = 0; k < im->options->n_values; k++) {
        const sn_weight_info *value = &im->options->values[k];
        if (!value->name || strcmp(value->name, name)) continue;
        im->values_used[k] = true;
        return value;
    }
    return NULL;
}

/* The value given for an input, by the model's name or by that of .sn text. */
static const sn_weight_info *given(sn_onnx *im, const char *name) {
    const sn_weight_info *value = value_of(im, name);
    const char *plain = plain_name(im->arena, name);
    return value || sn_names_get(&im->own_inputs, plain) ? value : value_of(im, plain);
}

/* The name in .sn text of a size. Two that differ stay two: beside "a_b", "a.b" becomes a_b_1. */
static const char *size_name(sn_onnx *im, const char *key, const char *name) {
    uint32_t at = sn_names_get(&im->sizes, key);
    if (!at) {
        SN_PUSH(im->arena, &im->size_names, unique_name(im, &im->taken_sizes, &im->own_sizes, name));
        at = im->size_names.n;
        sn_names_put(&im->sizes, key, at);
        sn_names_put(&im->taken_sizes, im->size_names.at[at - 1], at);
    }
    return im->size_names.at[at - 1];
}

/* Is the size known? A number, or a name that is bound; else it is that of the name. Exporters write -1 and "?" for what they do not
 * know. */
static bool declared_size(int64_t *out, const char **name, sn_onnx *im, const sn_pb_dim *d, const char *input,
                          uint32_t axis) {
    bool named = d->param && d->param[0] && strcmp(d->param, "?");
    if ((d->seen & SN_PB_DIM_VALUE) && d->value >= 0) return *out = d->value, true;
    const char *key = named ? d->param : sn_strf(im->arena, "%s\n%u", input, axis);
    /* "x.0" becomes x_0, as nothing is called that has the name in the model */
    *name = size_name(im, key, named ? d->param : sn_strf(im->arena, "%s.%u", input, axis));
    for (unsigned k = 0; k < im->options->n_dims; k++) {
        const sn_dim_binding *b = &im->options->dims[k];
        if (strcmp(b->name, *name) && !(named && !strcmp(b->name, d->param))) continue;
        im->dims_used[k] = true;
        return *out = b->size, true;
    }
    return false;
}

/* A size of an input: the value given for it tells those that are left open. */
static sn_ix input_size(sn_onnx *im, const sn_pb_dim *d, const sn_weight_info *value, const char *input,
                        uint32_t axis) {
    static const sn_pb_dim open = {0};
    int64_t size;
    const char *name = NULL;
    bool known = declared_size(&size, &name, im, d ? d : &open, input, axis);
    if (known && value && size != value->shape[axis])
        sn_fail(im->env, SN_ERROR_ARGUMENT, "its value has size %lld on axis %u, not %lld",
                (long long)value->shape[axis], axis, (long long)size);
    if (known || value) return sn_ix_const(im->m, value ? value->shape[axis] : size);
    return sn_ix_sym(im->m, sn_sym_named(im->m, name));
}

/* Are the bytes of a given value those that its type asks for? */
static bool has_elements(const sn_weight_info *value) {
    size_t bytes = sn_dtype_bytes(value->dtype);
    for (uint32_t k = 0; k < value->rank; k++)
        if (value->shape[k] < 0 || sn_mul_overflow(bytes, (size_t)value->shape[k], &bytes)) return false;
    return bytes == value->size && (value->data || !bytes);
}

/* The declared type; false where it says too little to make a tensor of it. */
static sn_status declared_type(sn_type *out, sn_onnx *im, const char *name, const sn_pb_tensor_type *t) {
    const sn_weight_info *value = given(im, name);
    *out = (sn_type){0};
    SN_TRY(sn_onnx_dtype(&out->dtype, im->env, t->elem_type));
    if (!t->shape && !value)
        return sn_fail(im->env, SN_ERROR_UNSUPPORTED,
                       "its rank is not declared; a value given for the import tells it");
    out->rank = value ? value->rank : t->shape->dims.n;
    if (out->rank > SN_MAX_RANK)
        return sn_fail(im->env, SN_ERROR_UNSUPPORTED, "rank %u; at most %d axes", out->rank, SN_MAX_RANK);
    if (value && t->shape && t->shape->dims.n != value->rank)
        return sn_fail(im->env, SN_ERROR_ARGUMENT, "its value has rank %u, the model declares %u", value->rank,
                       t->shape->dims.n);
    if (value && value->dtype != out->dtype)
        return sn_fail(im->env, SN_ERROR_ARGUMENT, "its value has elements of %s, the model declares %s",
                       (uint32_t)value->dtype < SN_N_DTYPES ? sn_dtypes[value->dtype].name : "a type that is not known",
                       sn_dtypes[out->dtype].name);
    if (value && !has_elements(value))
        return sn_fail(im->env, SN_ERROR_ARGUMENT, "its value has %zu bytes", value->size);
    for (uint32_t k = 0; k < out->rank; k++)
        out->shape[k] = input_size(im, t->shape ? &t->shape->dims.at[k] : NULL, value, name, k);
    return im->env->status;
}

/* An input of the graph. */
static sn_status tensor_input(sn_onnx_value *out, sn_onnx *im, const char *name, const sn_pb_tensor_type *declared) {
    sn_type type;
    SN_TRY(declared_type(&type, im, name, declared));
    sn_nd x = sn_graph_input_new(im->m, unique_name(im, &im->m->graph.input_names, &im->own_inputs, name), &type, NULL,
                                 (sn_ix){0});
    if (!x.i) return im->env->status;
    const sn_weight_info *value = given(im, name);
    if (value) sn_names_put(&im->given, sn_node_get(im->m, x)->name, (uint32_t)(value - im->options->values) + 1);
    *out = sn_onnx_tensor(x);
    return SN_OK;
}

/* A sequence x is the inputs x_0, x_1, ...: as many as there are values given for them. */
static sn_status sequence_input(sn_onnx_value *out, sn_onnx *im, const char *name, const sn_pb_of *of) {
    SN_VEC(sn_onnx_value) items = {0};
    const char *item = sn_strf(im->arena, "%s_0", name);
    for (; given(im, item); item = sn_strf(im->arena, "%s_%u", name, items.n)) {
        sn_onnx_value v = {0};
        if (!of->elem || !of->elem->tensor)
            return sn_fail(im->env, SN_ERROR_UNSUPPORTED, "a sequence of something else than tensors");
        SN_TRY(tensor_input(&v, im, item, of->elem->tensor));
        SN_PUSH(im->arena, &items, v);
    }
    *out = (sn_onnx_value){.kind = SN_ONNX_SEQUENCE, .items = items.at, .n = items.n};
    return SN_OK;
}

static sn_status text_input(sn_onnx_value *out, sn_onnx *im, const char *name) {
    for (unsigned k = 0; k < im->options->n_texts; k++) {
        const sn_text_tensor *given = &im->options->texts[k];
        if (!given->name || strcmp(given->name, name)) continue;
        sn_onnx_text *t = SN_NEW(im->arena, sn_onnx_text);
        if (given->rank > SN_MAX_RANK) return sn_fail(im->env, SN_ERROR_ARGUMENT, "rank %u", given->rank);
        *t = (sn_onnx_text){.rank = given->rank, .n = 1};
        for (unsigned d = 0; d < given->rank; d++) t->n *= t->shape[d] = given->shape[d];
        t->at = sn_memdup(im->arena, given->at, (size_t)t->n * sizeof *t->at);
        *out = (sn_onnx_value){.kind = SN_ONNX_TEXT, .text = t};
        return SN_OK;
    }
    return sn_fail(im->env, SN_ERROR_UNSUPPORTED, "it is text, which has to be given for the import");
}

/* An optional is there when a value is given for it. */
static sn_status any_input(sn_onnx_value *out, sn_onnx *im, const char *name, const sn_pb_type *type) {
    *out = (sn_onnx_value){.kind = SN_ONNX_NONE};
    if (type && type->optional) {
        type = type->optional->elem;
        if (!given(im, name) && !given(im, sn_strf(im->arena, "%s_0", name))) return SN_OK;
    }
    if (type && type->tensor && type->tensor->elem_type == SN_ONNX_STRING) return text_input(out, im, name);
    if (type && type->tensor) return tensor_input(out, im, name, type->tensor);
    if (type && type->sequence) return sequence_input(out, im, name, type->sequence);
    return sn_fail(im->env, SN_ERROR_UNSUPPORTED, "it is no tensor, sequence or optional");
}

/* ---- inputs with an initializer ----
 * From version 4 of the format on that is a default. Before it all initializers had to be inputs, so that it means nothing. Shapes,
 * axes and counts, which are integers, and floats that sizes follow from stay what the initializer says: a graph is made for them. */

/* Is a float that is an operand of the node one of those? */
static bool tells_sizes(const sn_pb_node *node, const char *name) {
    static const char *const ops[] = {"Resize", "Upsample", "Range"};
    bool is_one = false, takes = false;
    for (size_t k = 0; k < SN_COUNT(ops); k++) is_one |= node->op_type && !strcmp(node->op_type, ops[k]);
    for (uint32_t k = 0; is_one && k < node->inputs.n; k++)
        takes |= node->inputs.at[k] && !strcmp(node->inputs.at[k], name);
    return takes;
}

static bool is_optional(const sn_onnx *im, const sn_pb_tensor *t) {
    enum { DEFAULTS_SINCE = 4 };
    bool is_float = false;
    for (int k = 0; k < SN_N_DTYPES; k++)
        is_float |= sn_is_float((sn_dtype)k) && sn_onnx_dtype_number((sn_dtype)k) == t->data_type;
    if (im->model->ir_version < DEFAULTS_SINCE || !t->name || !is_float) return false;
    const sn_pb_graph *g = im->model->graph;
    bool is_input = false;
    for (uint32_t k = 0; k < g->inputs.n; k++)
        is_input |= g->inputs.at[k].name && !strcmp(g->inputs.at[k].name, t->name);
    for (uint32_t k = 0; is_input && k < g->nodes.n; k++)
        if (tells_sizes(&g->nodes.at[k], t->name)) return false;
    return is_input;
}

static const sn_pb_tensor *default_of(const sn_onnx *im, const char *name) {
    const sn_pb_graph *g = im->model->graph;
    for (uint32_t k = 0; k < g->initializers.n; k++) {
        const sn_pb_tensor *t = &g->initializers.at[k];
        if (t->name && !strcmp(t->name, name) && is_optional(im, t)) return t;
    }
    return NULL;
}

static sn_status set_default(sn_onnx *im, sn_nd x, const sn_pb_tensor *t) {
    sn_onnx_elements e;
    SN_TRY(sn_onnx_tensor_elements(&e, im->env, sn_store_arena(im->files.store), &im->files, t));
    if (e.dtype != sn_node_get(im->m, x)->type.dtype)
        return sn_fail(im->env, SN_ERROR_FILE, "its initializer has elements of %s", sn_dtypes[e.dtype].name);
    sn_array a = sn_array_from(im->arena, e.dtype, e.rank, e.shape, e.data);
    return sn_graph_input_default(im->m, sn_node_get(im->m, x)->input, a.f, a.i, (uint64_t)e.numel);
}

static void import_input(sn_onnx *im, sn_onnx_scope *scope, const sn_pb_value_info *info) {
    const char *name = info->name ? info->name : "";
    sn_onnx_value v;
    if (look_up(scope, name)) return; /* an initializer: its elements are known */
    const sn_pb_tensor *otherwise = default_of(im, name);
    if (any_input(&v, im, name, info->type) != SN_OK) {
        sn_pb_node place = {.op_type = "input", .name = name};
        note_problem(im, &place, 0, im->env->message);
        v = (sn_onnx_value){.kind = SN_ONNX_MISSING};
    }
    if (otherwise && v.kind == SN_ONNX_TENSOR && set_default(im, v.node, otherwise) != SN_OK) {
        sn_pb_node place = {.op_type = "input", .name = name};
        note_problem(im, &place, 0, im->env->message);
    }
    bind(im, scope, name, v);
}

/* ---- constants ---- */

static bool all_equal(const sn_onnx_elements *e) {
    size_t bytes = sn_dtype_bytes(e->dtype);
    const char *at = e->data;
    return e->numel > 1 && memcmp(at, at + bytes, ((size_t)e->numel - 1) * bytes) == 0;
}

/* Many elements stay where they are; the graph knows their name. */
static sn_nd weight(sn_onnx *im, const char *name, const sn_onnx_elements *e) {
    sn_type type = {.dtype = e->dtype, .rank = e->rank};
    for (uint32_t k = 0; k < e->rank; k++) type.shape[k] = sn_ix_const(im->m, e->shape[k]);
    const char *base = name && name[0] ? name : "constant", *unique = base;
    while (sn_wt_named(im->m, unique).i) unique = next_name(im, base);
    return sn_graph_weight(im->m, sn_strdup(&im->m->arena, unique), &type, e->data);
}

sn_nd sn_onnx_constant_of(sn_onnx *im, const char *name, const sn_onnx_elements *e) {
    sn_onnx_elements one = *e;
    bool same = all_equal(e);
    if (same) one.rank = 0, one.numel = 1;
    if (!same && e->numel > (sn_is_float(e->dtype) ? (int64_t)MAX_LITERALS : SN_KNOWN_MAX)) return weight(im, name, e);
    sn_array a = sn_array_from(im->arena, e->dtype, one.rank, one.shape, e->data);
    if (same) {
        sn_ix sizes[SN_MAX_RANK];
        for (uint32_t k = 0; k < e->rank; k++) sizes[k] = sn_ix_const(im->m, e->shape[k]);
        sn_nd x = sn_is_float(e->dtype) ? sn_graph_floats(im->m, e->dtype, a.f, NULL, 0)
                                        : sn_graph_ints(im->m, e->dtype, a.i, NULL, 0);
        return x.i ? sn_graph_expand(im->m, x, sizes, e->rank) : x;
    }
    if (sn_is_float(e->dtype)) return sn_graph_floats(im->m, e->dtype, a.f, e->shape, e->rank);
    return sn_graph_ints(im->m, e->dtype, a.i, e->shape, e->rank);
}

/* The node of a TensorProto: one, however often the body or function that it stands in is imported. */
static sn_nd tensor_node(sn_onnx *im, const char *name, const sn_pb_tensor *t) {
    const char *key = sn_strf(im->arena, "%p", (const void *)t);
    sn_nd x = {sn_names_get(&im->tensors, key)};
    if (x.i) return x;
    sn_onnx_elements e;
    if (sn_onnx_tensor_elements(&e, im->env, sn_store_arena(im->files.store), &im->files, t) != SN_OK) return x;
    x = sn_onnx_constant_of(im, name, &e);
    if (x.i) sn_names_put(&im->tensors, key, x.i);
    return x;
}

static sn_onnx_value constant(sn_onnx *im, const char *name, const sn_pb_tensor *t) {
    sn_onnx_value v = sn_onnx_tensor(tensor_node(im, name, t));
    v.narrow = sn_onnx_is_narrow(t->data_type);
    return v;
}

sn_onnx_value sn_onnx_constant(sn_onnx_call *c, const sn_pb_tensor *t) {
    return constant(c->im, t->name && t->name[0] ? t->name : c->n_out ? c->node->outputs.at[0] : NULL, t);
}

static void missing_initializer(sn_onnx *im, sn_onnx_scope *scope, const char *name, const char *reason) {
    sn_pb_node place = {.op_type = "initializer", .name = name};
    note_problem(im, &place, 0, reason);
    bind(im, scope, name, (sn_onnx_value){.kind = SN_ONNX_MISSING});
}

static void import_initializer(sn_onnx *im, sn_onnx_scope *scope, const sn_pb_tensor *t) {
    sn_onnx_value text;
    if (t->data_type == SN_ONNX_STRING && sn_onnx_texts(&text, im->env, im->arena, t) == SN_OK) {
        bind(im, scope, t->name, text);
        return;
    }
    sn_onnx_value v = constant(im, t->name, t);
    if (v.node.i) bind(im, scope, t->name, v);
    else missing_initializer(im, scope, t->name, im->env->message);
}

static void import_initializers(sn_onnx *im, sn_onnx_scope *scope, const sn_pb_graph *g) {
    for (uint32_t k = 0; k < g->initializers.n; k++)
        if (g != im->model->graph || !is_optional(im, &g->initializers.at[k]))
            import_initializer(im, scope, &g->initializers.at[k]);
    for (uint32_t k = 0; k < g->sparse_initializers.n; k++) {
        const sn_pb_tensor *values = g->sparse_initializers.at[k].values;
        missing_initializer(im, scope, values ? values->name : NULL, "it is sparse");
    }
}

/* ---- nodes ---- */

/* What stands for a result of a node that could not be imported: an input of the type that the model states, so that
 * the nodes after it can be judged too. The import fails in the end, so nobody runs it. */
static sn_onnx_value stand_in(sn_onnx *im, const char *name) {
    sn_onnx_value missing = {.kind = SN_ONNX_MISSING};
    uint32_t at = name ? sn_names_get(&im->stated, name) : 0;
    if (!at) return missing;
    const sn_pb_type *type = im->model->graph->value_infos.at[at - 1].type;
    sn_type t;
    sn_nd x = {0};
    if (type && type->tensor && declared_type(&t, im, name, type->tensor) == SN_OK)
        x = sn_graph_input_new(im->m, unique_name(im, &im->m->graph.input_names, &im->own_inputs, name), &t, NULL,
                               (sn_ix){0});
    sn_env_clear(im->env);
    return x.i ? sn_onnx_tensor(x) : missing;
}

static sn_status check_attributes(sn_onnx_call *c) {
    for (uint32_t k = 0; k < c->node->attributes.n; k++)
        if (k >= 64 || !(c->read >> k & 1))
            return sn_onnx_fail(c, "attribute %s is not supported",
                                c->node->attributes.at[k].name ? c->node->attributes.at[k].name : "without a name");
    return SN_OK;
}

static sn_status check_results(sn_onnx_call *c) {
    for (uint32_t k = 0; k < c->n_out; k++) {
        const char *name = c->node->outputs.at[k];
        if (name && name[0] && c->out[k].kind == SN_ONNX_MISSING)
            return sn_onnx_fail(c, "result %u is not supported", k + 1);
    }
    return SN_OK;
}

static sn_status fail_operand(sn_onnx *im, const sn_onnx_scope *scope, const char *name) {
    if (!scope->makers) return sn_fail(im->env, SN_ERROR_FILE, "operand %s is not computed before it", name);
    if (!sn_names_get(scope->makers, name)) return sn_fail(im->env, SN_ERROR_FILE, "nothing computes operand %s", name);
    return sn_fail(im->env, SN_ERROR_FILE, "operand %s is computed from its own result: nodes in a circle", name);
}

/* Operands by name. false where one is missing because of an earlier problem. */
static sn_status operands(bool *all, sn_onnx_value *in, sn_onnx *im, const sn_onnx_scope *scope,
                          const sn_pb_node *node) {
    *all = true;
    for (uint32_t k = 0; k < node->inputs.n; k++) {
        const char *name = node->inputs.at[k];
        in[k] = (sn_onnx_value){0};
        if (!name || !name[0]) continue;
        const sn_onnx_value *v = look_up(scope, name);
        if (!v) return fail_operand(im, scope, name);
        in[k] = *v;
        if (v->kind == SN_ONNX_MISSING) *all = false;
    }
    return SN_OK;
}

/* A name that means two things: readers of the first one would get the second. */
static sn_status check_names(sn_onnx *im, const sn_onnx_scope *scope, const sn_pb_node *node) {
    for (uint32_t k = 0; k < node->outputs.n; k++) {
        const char *name = node->outputs.at[k];
        if (name && name[0] && sn_names_get(&scope->names, name))
            return sn_fail(im->env, SN_ERROR_FILE, "there is another value of the name of its result %s", name);
    }
    return SN_OK;
}

static sn_status run_function(sn_onnx *im, const sn_onnx_scope *scope, const sn_pb_node *node, const sn_pb_function *f,
                              const sn_onnx_value *in, sn_onnx_value *out);

static sn_status run_handler(sn_onnx *im, const sn_onnx_scope *scope, const sn_pb_node *node, const char *domain,
                             int64_t opset, const sn_onnx_value *in, bool all, sn_onnx_value *out) {
    const sn_onnx_op *op = find_op(im, domain, node->op_type, opset);
    if (!op && find_op(im, domain, node->op_type, INT64_MAX))
        return sn_fail(im->env, SN_ERROR_UNSUPPORTED, "the operator is not supported in opset %lld", (long long)opset);
    if (!op && !domain[0] && find_op(im, "com.microsoft", node->op_type, INT64_MAX))
        return sn_fail(im->env, SN_ERROR_UNSUPPORTED, "the operator is one of domain com.microsoft");
    if (!op) return sn_fail(im->env, SN_ERROR_UNSUPPORTED, "the operator is not supported");
    if (!all) return SN_OK;
    sn_onnx_call c = {.im = im,
                      .m = im->m,
                      .arena = im->arena,
                      .scope = scope,
                      .node = node,
                      .op = op,
                      .opset = opset,
                      .in = in,
                      .n_in = node->inputs.n,
                      .n_out = node->outputs.n,
                      .out = out};
    SN_TRY(op->build(&c));
    SN_TRY(im->env->status);
    SN_TRY(check_attributes(&c));
    return check_results(&c);
}

int64_t sn_onnx_opset(const sn_onnx_call *c) { return opset_of(c->scope, ""); }

sn_status sn_onnx_as(sn_onnx_value *out, sn_onnx_call *c, const char *name, int64_t opset, const sn_onnx_value *in,
                     uint32_t n_in) {
    sn_onnx_call inner = *c;
    inner.op = find_op(c->im, "", name, opset);
    if (!inner.op) return sn_onnx_fail(c, "%s is not supported in opset %lld", name, (long long)opset);
    inner.opset = opset;
    inner.in = in, inner.n_in = n_in;
    inner.out = out, inner.n_out = 1;
    SN_TRY(inner.op->build(&inner));
    c->read |= inner.read;
    return c->m->env->status;
}

static sn_status run_op(sn_onnx *im, const sn_onnx_scope *scope, const sn_pb_node *node, const sn_onnx_value *in,
                        bool all, sn_onnx_value *out, int64_t opset) {
    const char *domain = plain_domain(node->domain);
    if (!node->op_type) return sn_fail(im->env, SN_ERROR_FILE, "a node without an operator");
    uint32_t f = sn_names_get(&im->functions, sn_strf(im->arena, "%s:%s", domain, node->op_type));
    if (!f) return run_handler(im, scope, node, domain, opset, in, all, out);
    if (im->depth >= MAX_NESTING)
        return sn_fail(im->env, SN_ERROR_FILE, "functions and bodies nest more than %d deep", MAX_NESTING);
    return run_function(im, scope, node, &im->model->functions.at[f - 1], in, out);
}

static void name_results(sn_onnx *im, const sn_pb_node *node, const sn_onnx_value *out) {
    for (uint32_t k = 0; k < node->outputs.n; k++)
        if (out[k].kind == SN_ONNX_TENSOR && !sn_node_get(im->m, out[k].node)->name && node->outputs.at[k][0])
            sn_graph_name(im->m, out[k].node, sn_strdup(&im->m->arena, plain_name(im->arena, node->outputs.at[k])));
}

static bool too_many_steps(const sn_onnx *im) { return im->steps > MAX_STEPS; }

/* What a node of a function or body costs each time. */
static uint64_t steps_of(const sn_pb_node *node) {
    uint64_t n = 1 + node->inputs.n + node->outputs.n, bytes = node->op_type ? strlen(node->op_type) : 0;
    for (uint32_t k = 0; k < node->outputs.n; k++) bytes += strlen(node->outputs.at[k]);
    for (uint32_t k = 0; k < node->attributes.n; k++) {
        const sn_pb_attribute *a = &node->attributes.at[k];
        n += 1 + a->ints.n + a->floats.n + a->strings.n;
        bytes += a->s.n;
    }
    return n + bytes / STEP_BYTES;
}

static void run_node(sn_onnx *im, sn_onnx_scope *scope, const sn_pb_node *node) {
    if (im->depth) im->steps += steps_of(node);
    if (too_many_steps(im)) return; /* sn_onnx_import_model says so */
    sn_onnx_value *in = SN_NEWN(im->arena, sn_onnx_value, node->inputs.n + 1);
    sn_onnx_value *out = SN_NEWN(im->arena, sn_onnx_value, node->outputs.n + 1);
    for (uint32_t k = 0; k < node->outputs.n; k++) out[k].kind = SN_ONNX_MISSING;
    bool all;
    int64_t opset = opset_of(scope, plain_domain(node->domain));
    uint32_t problems = im->problems.n;
    sn_status status = operands(&all, in, im, scope, node);
    if (status == SN_OK) status = check_names(im, scope, node);
    if (status == SN_OK) status = run_op(im, scope, node, in, all, out, opset);
    if (status != SN_OK) note_problem(im, node, opset, im->env->message);
    if (im->problems.n > problems || !all)
        for (uint32_t k = 0; k < node->outputs.n; k++) out[k] = stand_in(im, node->outputs.at[k]);
    name_results(im, node, out);
    for (uint32_t k = 0; k < node->outputs.n; k++) bind(im, scope, node->outputs.at[k], out[k]);
}

/* ---- functions and bodies ---- */

/* Attributes that the nodes of a function may refer to: those of the call, and defaults. */
static void bind_attributes(sn_onnx *im, sn_onnx_scope *inner, const sn_onnx_scope *scope, const sn_pb_node *node,
                            const sn_pb_function *f) {
    SN_VEC(const sn_pb_attribute *) bound = {0};
    for (uint32_t k = 0; k < node->attributes.n; k++) {
        const sn_pb_attribute *a = &node->attributes.at[k];
        bool refers = a->ref && a->ref[0];
        for (uint32_t j = 0; refers && j < scope->n_bound; j++)
            if (!strcmp(scope->bound[j]->name, a->ref)) {
                sn_pb_attribute *copy = sn_memdup(im->arena, scope->bound[j], sizeof *copy);
                copy->name = a->name;
                SN_PUSH(im->arena, &bound, copy);
            }
        if (a->name && !refers) SN_PUSH(im->arena, &bound, a);
    }
    for (uint32_t k = 0; k < f->attribute_protos.n; k++)
        if (f->attribute_protos.at[k].name) SN_PUSH(im->arena, &bound, &f->attribute_protos.at[k]);
    inner->bound = bound.at;
    inner->n_bound = bound.n;
}

/* A call gives no more operands than the function takes, and takes no more results than it gives. */
static sn_status check_call(sn_onnx *im, const sn_pb_node *node, const sn_pb_function *f) {
    if (node->inputs.n > f->inputs.n)
        return sn_fail(im->env, SN_ERROR_FILE, "the function takes %u operands, %u are given", f->inputs.n,
                       node->inputs.n);
    if (node->outputs.n > f->outputs.n)
        return sn_fail(im->env, SN_ERROR_FILE, "the function has %u results, not %u", f->outputs.n, node->outputs.n);
    return SN_OK;
}

static sn_status run_function(sn_onnx *im, const sn_onnx_scope *scope, const sn_pb_node *node, const sn_pb_function *f,
                              const sn_onnx_value *in, sn_onnx_value *out) {
    SN_TRY(check_call(im, node, f));
    sn_onnx_scope inner = new_scope(im, NULL);
    inner.opsets = f->opsets.at, inner.n_opsets = f->opsets.n;
    im->steps += f->inputs.n + f->attribute_protos.n;
    bind_attributes(im, &inner, scope, node, f);
    for (uint32_t k = 0; k < f->inputs.n; k++)
        bind(im, &inner, f->inputs.at[k], k < node->inputs.n ? in[k] : (sn_onnx_value){0});
    im->depth++;
    for (uint32_t k = 0; k < f->nodes.n; k++) run_node(im, &inner, &f->nodes.at[k]);
    im->depth--;
    for (uint32_t k = 0; k < node->outputs.n; k++) {
        const sn_onnx_value *v = f->outputs.at[k] ? look_up(&inner, f->outputs.at[k]) : NULL;
        if (!v) return sn_fail(im->env, SN_ERROR_FILE, "function result %u is not computed", k + 1);
        out[k] = *v;
    }
    return SN_OK;
}

sn_status sn_onnx_body(sn_onnx_value *out, sn_onnx_call *c, const sn_pb_graph *g, const sn_onnx_value *in,
                       uint32_t n_in) {
    sn_onnx *im = c->im;
    SN_TRY(im->env->status);
    if (!g) return sn_onnx_fail(c, "the body is missing");
    if (n_in > g->inputs.n) return sn_onnx_fail(c, "the body has %u inputs, %u are given", g->inputs.n, n_in);
    if (im->depth >= MAX_NESTING) return sn_onnx_fail(c, "functions and bodies nest more than %d deep", MAX_NESTING);
    sn_onnx_scope inner = new_scope(im, c->scope);
    uint32_t problems = im->problems.n;
    im->steps += g->initializers.n + g->sparse_initializers.n + g->inputs.n + g->outputs.n;
    import_initializers(im, &inner, g);
    for (uint32_t k = 0; k < n_in; k++) bind(im, &inner, g->inputs.at[k].name, in[k]);
    im->depth++;
    for (uint32_t k = 0; k < g->nodes.n; k++) run_node(im, &inner, &g->nodes.at[k]);
    im->depth--;
    if (im->problems.n > problems) return sn_onnx_fail(c, "its body has nodes that are not supported");
    for (uint32_t k = 0; k < g->outputs.n; k++) {
        const sn_onnx_value *v = g->outputs.at[k].name ? look_up(&inner, g->outputs.at[k].name) : NULL;
        if (!v) return sn_onnx_fail(c, "result %u of the body is not computed", k + 1);
        out[k] = *v;
    }
    return SN_OK;
}

/* ---- the model ---- */

static const char *size_at(const void *at, uint32_t k) { return ((const sn_onnx *)at)->size_names.at[k]; }

static sn_status fail_size(const sn_onnx *im, const char *name) {
    const sn_name_list all = {im, im->size_names.n, size_at};
    if (!all.n)
        return sn_fail(im->env, SN_ERROR_ARGUMENT, "size %s: no input has a size of that name; there are none", name);
    return sn_fail(im->env, SN_ERROR_ARGUMENT, "size %s: no input has a size of that name; nearest of its %u: %s", name,
                   all.n, sn_names_nearest(im->arena, &all, name));
}

/* A size or value that nothing of the model asks for is a slip of the caller. */
static sn_status check_options(const sn_onnx *im) {
    for (unsigned k = 0; k < im->options->n_dims; k++)
        if (!im->dims_used[k]) return fail_size(im, im->options->dims[k].name);
    for (unsigned k = 0; k < im->options->n_values; k++)
        if (!im->values_used[k])
            return sn_fail(im->env, SN_ERROR_ARGUMENT, "value %s: no input of that name takes one",
                           im->options->values[k].name ? im->options->values[k].name : "without a name");
    return SN_OK;
}

/* Texts go to the caller at once. */
static void text_output(sn_onnx *im, const char *name, const sn_onnx_text *t) {
    sn_text_tensor out = {.name = name, .rank = t->rank, .at = t->at};
    memcpy(out.shape, t->shape, sizeof t->shape);
    im->texts++;
    if (!im->options->text_output) {
        sn_fail(im->env, SN_ERROR_UNSUPPORTED, "it is text, and nobody takes that (text_output)");
        return;
    }
    sn_locale_leave(im->env);
    im->options->text_output(im->options->user, &out);
    sn_locale_enter(im->env);
}

/* A result of another dtype than the model declares is a slip of the model, or ours: no caller could use it. */
static void check_declared(sn_onnx *im, const sn_pb_type *declared, sn_nd x) {
    sn_dtype own = sn_node_get(im->m, x)->type.dtype, t;
    int64_t number = declared && declared->tensor ? declared->tensor->elem_type : 0;
    if (!number || sn_onnx_dtype_number(own) == number) return;
    if (sn_onnx_dtype(&t, im->env, number) == SN_OK)
        sn_fail(im->env, SN_ERROR_FILE, "it has elements of %s, the model declares %s", sn_dtypes[own].name,
                sn_dtypes[t].name);
}

static void import_output(sn_onnx *im, sn_onnx_scope *scope, const sn_pb_value_info *info) {
    const char *name = info->name ? info->name : "";
    const sn_onnx_value *v = look_up(scope, name);
    if (v && v->kind == SN_ONNX_MISSING) return;
    if (v && v->kind == SN_ONNX_TENSOR) {
        check_declared(im, info->type, v->node);
        sn_graph_output_new(im->m, unique_name(im, &im->m->graph.output_names, &im->own_outputs, name), v->node, -1);
    } else if (v && v->kind == SN_ONNX_SEQUENCE) {
        for (uint32_t k = 0; k < v->n && v->items[k].kind == SN_ONNX_TENSOR; k++)
            sn_graph_output_new(
                im->m,
                unique_name(im, &im->m->graph.output_names, &im->own_outputs, sn_strf(im->arena, "%s.%u", name, k)),
                v->items[k].node, -1);
    } else if (v && v->kind == SN_ONNX_TEXT) {
        text_output(im, name, v->text);
    } else {
        sn_fail(im->env, SN_ERROR_UNSUPPORTED, v ? "it is empty" : "it is not computed");
    }
    if (im->env->status == SN_OK) return;
    sn_pb_node place = {.op_type = "output", .name = name};
    note_problem(im, &place, 0, im->env->message);
}

static sn_status check_opsets(sn_onnx *im) {
    const sn_pb_model *model = im->model;
    if (!model->graph) return sn_fail(im->env, SN_ERROR_FILE, "no graph in it: not an ONNX model");
    for (uint32_t k = 0; k < model->opsets.n; k++) {
        const sn_pb_opset *o = &model->opsets.at[k];
        if (!plain_domain(o->domain)[0] && o->version > SN_ONNX_NEWEST)
            return sn_fail(im->env, SN_ERROR_UNSUPPORTED,
                           "opset %lld; up to %d are read: export or convert the model for one of those",
                           (long long)o->version, SN_ONNX_NEWEST);
    }
    return SN_OK;
}

sn_status sn_onnx_import_model(sn_onnx *im) {
    SN_TRY(check_opsets(im));
    const sn_pb_graph *g = im->model->graph;
    index_tables(im);
    im->dims_used = SN_NEWN(im->arena, bool, im->options->n_dims + 1);
    im->values_used = SN_NEWN(im->arena, bool, im->options->n_values + 1);
    sn_onnx_scope scope = new_scope(im, NULL);
    scope.opsets = im->model->opsets.at, scope.n_opsets = im->model->opsets.n;
    import_initializers(im, &scope, g);
    for (uint32_t k = 0; k < g->inputs.n; k++) import_input(im, &scope, &g->inputs.at[k]);
    if (!im->problems.n) SN_TRY(check_options(im)); /* of an input that has one its sizes were not looked at */
    sn_names makers;
    const uint32_t *order = sn_onnx_order(&makers, im->arena, g->nodes.at, g->nodes.n);
    scope.makers = &makers;
    for (uint32_t k = 0; k < g->nodes.n; k++) run_node(im, &scope, &g->nodes.at[order[k]]);
    if (too_many_steps(im))
        return sn_fail(im->env, SN_ERROR_UNSUPPORTED,
                       "more than %d nodes, operands and attributes, where functions and iterations are written out",
                       MAX_STEPS);
    for (uint32_t k = 0; k < g->outputs.n; k++) import_output(im, &scope, &g->outputs.at[k]);
    if (!im->problems.n && !im->m->graph.outputs.n && !im->texts)
        return sn_fail(im->env, SN_ERROR_FILE, "the model has no outputs");
    return SN_OK;
}
