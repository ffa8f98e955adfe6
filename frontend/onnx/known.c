/* known.c: what a node's elements are, where that follows at import.
 *
 *     %shape = constant [2, 3]                              known: literal
 *     %n     = gather(shape(x), 0) * 4                      known: the sizes of x are numbers
 *     %axes  = input                                        known when the caller gave its value for the import
 *     %y     = exp(%data)                                   not known
 *
 * The float64 evaluator computes the nodes that x is made of, each once for the whole import: a shape subgraph costs
 * what it has in nodes, however often it is asked for. A few bytes of a model can stand for huge tensors, so what all
 * of it may cost is bounded: MAX_WORK elements and products.
 */
#include "frontend/onnx/import.h"

#include <string.h>

enum { MAX_WORK = 1 << 23, MAX_TABLES = 1 << 25 };

/* Terms of the sum that an element of the node is; 1 where it is none. */
static int64_t terms(const sn_onnx *im, const sn_node_rec *n) {
    if (sn_ops[n->op].cls != SN_OPS_CONTRACT) return 1;
    const sn_array *a = im->arrays.at[n->in[n->op == SN_OP_MATMUL ? 0 : 1].i];
    int64_t each = 1;
    if (n->op == SN_OP_MATMUL) return a->shape[a->rank - 1];
    for (uint32_t k = 1; k < a->rank; k++) each *= a->shape[k];
    return each;
}

/* Adds what the evaluation of a node costs; false, and nothing is added, where that is too much. Sizes that are no
 * numbers cost nothing: the evaluator refuses them. */
static bool pay(sn_onnx *im, sn_nd x) {
    const sn_node_rec *n = sn_node_get(im->m, x);
    int64_t size, numel = n->n_results, work;
    for (uint32_t k = 0; k < n->type.rank && numel; k++) {
        if (!sn_ix_is_const(im->m, n->type.shape[k], &size)) return true;
        numel = size > MAX_WORK ? MAX_WORK + 1 : numel * size;
        if (numel > MAX_WORK) numel = MAX_WORK + 1;
    }
    work = numel ? numel * terms(im, n) : 0;
    if (work > MAX_WORK - im->work) return false;
    im->work += work;
    return true;
}

static sn_status input_array(sn_array **out, sn_onnx *im, sn_nd x) {
    const sn_node_rec *n = sn_node_get(im->m, x);
    uint32_t at = sn_names_get(&im->given, n->name);
    if (!at)
        return sn_fail(im->env, SN_ERROR_UNSUPPORTED,
                       "it depends on the value of input %s, which has to be given for the import", n->name);
    const sn_weight_info *v = &im->options->values[at - 1];
    *out = SN_NEW(im->arena, sn_array);
    **out = sn_array_from(im->arena, v->dtype, v->rank, v->shape, v->data);
    return SN_OK;
}

/* The notes on nodes grow with the graph. */
static void grow(sn_onnx *im) {
    for (uint32_t n = im->m->graph.nodes.count; im->arrays.n < n;) {
        SN_PUSH(im->arena, &im->arrays, NULL);
        SN_PUSH(im->arena, &im->unknown, NULL);
    }
}

/* Number of elements, where it is a small one. */
static uint32_t small_count(const sn_module *m, sn_nd x) {
    int64_t n = 1, size;
    const sn_type *t = sn_graph_type(m, x);
    for (uint32_t k = 0; k < t->rank; k++)
        if (!sn_ix_is_const(m, t->shape[k], &size) || size > SN_KNOWN_MAX || (n *= size) > SN_KNOWN_MAX)
            return UINT32_MAX;
    return (uint32_t)n;
}

/* Numbers of what is made of sizes, some of which are none: one that was picked, or where the others cancel out. */
static bool numbers_of_sizes(sn_onnx *im, sn_nd x) {
    const sn_type *t = sn_graph_type(im->m, x);
    uint32_t n = small_count(im->m, x);
    int64_t shape[SN_MAX_RANK], numbers[SN_KNOWN_MAX];
    sn_ix at[SN_KNOWN_MAX];
    if (n > SN_KNOWN_MAX || (t->dtype != SN_I64 && t->dtype != SN_I32)) return false;
    bool known = sn_graph_known_sizes(at, im->m, x, im->arrays.at, im->arrays.n) == SN_OK;
    sn_env_clear(im->env);
    for (uint32_t k = 0; k < n && known; k++) known = sn_ix_is_const(im->m, at[k], &numbers[k]);
    if (!known) return false;
    t = sn_graph_type(im->m, x);
    for (uint32_t k = 0; k < t->rank; k++) shape[k] = sn_ix_value(im->m, t->shape[k]);
    sn_array *a = im->arrays.at[x.i] = SN_NEW(im->arena, sn_array);
    *a = (sn_array){.dtype = t->dtype, .rank = t->rank, .numel = n, .i = SN_NEWN(im->arena, int64_t, n + 1)};
    memcpy(a->shape, shape, t->rank * sizeof *shape);
    memcpy(a->i, numbers, n * sizeof *numbers);
    return true;
}

/* Why the sizes of a tensor are not known as numbers; NULL: they are. */
static const char *unknown_size(sn_onnx *im, sn_nd x) {
    const sn_attr *sizes = sn_node_attr(im->m, x, SN_ATTR_ELEMENTS);
    int64_t size;
    for (uint32_t i = 0; i < sizes->shape.n; i++)
        if (!sn_ix_is_const(im->m, sizes->shape.at[i], &size)) {
            sn_type of = {.dtype = SN_I64, .rank = 1, .shape = {sizes->shape.at[i]}};
            return sn_strf(im->arena, "it depends on a size, %s, which has to be given for the import",
                           sn_type_text(im->m, &of) + strlen(sn_dtypes[SN_I64].name));
        }
    return NULL;
}

/* Evaluate a node whose operands are evaluated; a failure is kept with it. */
static void evaluate(sn_onnx *im, sn_nd x) {
    const sn_node_rec *n = sn_node_get(im->m, x);
    const char *unknown = NULL;
    for (uint32_t k = 0; k < n->n_in && !unknown; k++) unknown = im->unknown.at[n->in[k].i];
    if (unknown) {
        if (!numbers_of_sizes(im, x)) im->unknown.at[x.i] = unknown;
        return;
    }
    if (n->op == SN_OP_SIZES && (im->unknown.at[x.i] = unknown_size(im, x))) return;
    sn_status status = n->op == SN_OP_INPUT ? input_array(&im->arrays.at[x.i], im, x)
                       : pay(im, x) ? sn_eval_node(im->arrays.at, im->m, x, im->arena)
                                    : sn_fail(im->env, SN_ERROR_UNSUPPORTED,
                                              "more than %d elements would have to be computed at import", MAX_WORK);
    if (status == SN_OK) return;
    im->arrays.at[x.i] = NULL;
    im->unknown.at[x.i] = sn_strdup(im->arena, im->env->message);
    sn_env_clear(im->env);
}

static bool is_done(const sn_onnx *im, sn_nd x) { return im->arrays.at[x.i] || im->unknown.at[x.i]; }

/* Evaluate x and all that it is made of. A stack, since graphs are deep. */
static void evaluate_cone(sn_onnx *im, sn_nd x) {
    SN_VEC(sn_nd) stack = {0};
    SN_PUSH(im->arena, &stack, x);
    while (stack.n) {
        sn_nd top = stack.at[stack.n - 1];
        const sn_node_rec *n = sn_node_get(im->m, top);
        uint32_t before = stack.n;
        for (uint32_t k = 0; k < n->n_in && !is_done(im, top); k++)
            if (!is_done(im, n->in[k])) SN_PUSH(im->arena, &stack, n->in[k]);
        if (stack.n > before) continue;
        stack.n--;
        if (!is_done(im, top)) evaluate(im, top);
    }
}

bool sn_onnx_try_array(const sn_array **out, sn_onnx_call *c, sn_nd x) {
    sn_onnx *im = c->im;
    *out = NULL;
    if (!x.i || im->env->status != SN_OK) return false;
    grow(im);
    if (!is_done(im, x)) evaluate_cone(im, x);
    *out = im->arrays.at[x.i];
    return *out != NULL;
}

sn_status sn_onnx_array(const sn_array **out, sn_onnx_call *c, sn_nd x) {
    static const sn_array nothing = {.dtype = SN_I64};
    if (sn_onnx_try_array(out, c, x)) return SN_OK;
    *out = &nothing;
    if (!x.i || c->im->env->status != SN_OK) return c->im->env->status;
    return sn_onnx_fail(c, "%s", c->im->unknown.at[x.i]);
}

/* ---- numbers ---- */

sn_status sn_onnx_ints(const int64_t **at, uint32_t *n, sn_onnx_call *c, uint32_t k) {
    const sn_array *a;
    *at = NULL, *n = 0;
    SN_TRY(sn_onnx_array(&a, c, sn_onnx_in(c, k)));
    if (!sn_is_integral(a->dtype))
        return sn_onnx_fail(c, "operand %u has elements of %s; integers are wanted", k + 1, sn_dtypes[a->dtype].name);
    if (a->numel > UINT32_MAX) return sn_onnx_fail(c, "operand %u has too many elements", k + 1);
    *at = a->i;
    *n = (uint32_t)a->numel;
    return SN_OK;
}

sn_status sn_onnx_int(int64_t *out, sn_onnx_call *c, uint32_t k) {
    const int64_t *at;
    uint32_t n;
    *out = 0;
    SN_TRY(sn_onnx_ints(&at, &n, c, k));
    if (n != 1) return sn_onnx_fail(c, "operand %u has %u elements; one is wanted", k + 1, n);
    *out = at[0];
    return SN_OK;
}

bool sn_onnx_list(const int64_t **at, uint32_t *n, sn_onnx_call *c, const char *name, uint32_t k) {
    if (sn_onnx_attr_ints(at, n, c, name)) return true;
    return sn_onnx_has(c, k) && sn_onnx_ints(at, n, c, k) == SN_OK;
}

sn_status sn_onnx_sizes(sn_ix *at, uint32_t *n, sn_onnx_call *c, uint32_t k) {
    sn_nd x = sn_onnx_in(c, k);
    *n = small_count(c->m, x);
    if (!x.i) return c->m->env->status;
    if (*n > SN_KNOWN_MAX || !sn_is_integral(sn_graph_type(c->m, x)->dtype))
        return sn_onnx_fail(c, "operand %u is %s; at most %d integers are wanted", k + 1,
                            sn_type_text(c->m, sn_graph_type(c->m, x)), SN_KNOWN_MAX);
    const sn_array *a;
    if (sn_onnx_try_array(&a, c, x)) {
        for (uint32_t e = 0; e < *n; e++) at[e] = sn_ix_const(c->m, a->i[e]);
        return SN_OK;
    }
    if (sn_graph_known_sizes(at, c->m, x, c->im->arrays.at, c->im->arrays.n) == SN_OK) return SN_OK;
    sn_env_clear(c->m->env);
    return sn_onnx_array(&a, c, x); /* for its reason */
}

sn_status sn_onnx_room(sn_onnx_call *c, int64_t elements) {
    if (elements > MAX_TABLES - c->im->table_elements)
        return sn_onnx_fail(c, "tables of more than %d elements would have to be computed", MAX_TABLES);
    c->im->table_elements += elements;
    return SN_OK;
}

sn_status sn_onnx_shape(int64_t *shape, sn_onnx_call *c, sn_nd x) {
    const sn_type *t = sn_graph_type(c->m, x);
    for (uint32_t k = 0; k < t->rank; k++)
        if (!sn_ix_is_const(c->m, t->shape[k], &shape[k]))
            return sn_onnx_fail(c, "size of axis %u of %s has to be a number", k, sn_type_text(c->m, t));
    return c->m->env->status;
}
