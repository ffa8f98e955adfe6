/* choice_forms.c: choices that leave a product one product: as it is, with a schedule, left to a library, and seen through
 * views.
 *
 *     schedule     %c = matmul %a, %b                     ->  %c = matmul %a, %b schedule="inner block_x=64"
 *     library      %c = matmul %a, %b                     ->  %c = matmul %a, %b schedule="library algo=1"
 *     transposed   %c = matmul %a, %b                     ->  %c = transpose of (matmul transpose of %b, transpose of %a)
 *     flattened    %c = matmul %a, %b : f32[8, 128, 64]   ->  %a as [1024, K], %c = reshape of (matmul %a, %b : f32[1024, 64])
 *                  (%b: f32[K, 64])
 *
 * Legality: always, where they apply; every element is the same sum of the same products. Cost: views cost nothing, but
 * what reads a transposed product walks it the other way.
 */
#include "passes/graph/choices.h"
#include "passes/graph/rewrite.h"

bool sn_choice_always(const char **why_not) {
    *why_not = "";
    return true;
}

/* ---- plain ---- */

bool sn_choice_plain_applies(const char **why_not, const sn_choice_question *q) {
    return (void)q, sn_choice_always(why_not);
}

void sn_choice_plain_candidates(sn_choice_list *out, const sn_choice_question *q) {
    (void)q;
    sn_choice_add(out, "plain");
}

sn_nd sn_choice_plain_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    return (void)cx, (void)parameters, q->product->node;
}

/* ---- schedule ---- */

bool sn_choice_schedule_applies(const char **why_not, const sn_choice_question *q) {
    *why_not = "no schedule is proposed";
    return q->n_headers > 0;
}

void sn_choice_schedule_candidates(sn_choice_list *out, const sn_choice_question *q) {
    for (uint32_t k = 0; k < q->n_headers; k++) sn_choice_add(out, "schedule %s", q->headers[k]);
}

sn_nd sn_choice_with_header(sn_pass_ctx *cx, sn_nd x, const char *header) {
    const sn_node_rec *n = sn_node_get(cx->m, x);
    sn_attr attrs[SN_N_ATTRS];
    for (uint32_t k = 0; k < n->n_attrs; k++) attrs[k] = n->attrs[k];
    attrs[n->n_attrs] = (sn_attr){.id = SN_ATTR_SCHEDULE, .text = header};
    return sn_graph_node(cx->m, n->op, n->in, n->n_in, attrs, n->n_attrs + 1);
}

sn_nd sn_choice_schedule_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    return sn_choice_with_header(cx, q->product->node, parameters);
}

/* ---- library ---- */

/* Has the library an algorithm of that number for such a product of contiguous operands? What it is asked in the end, with
 * their strides and what stands behind the product, is up to the kernel. */
static bool library_has(const sn_choice_question *q, uint32_t algo) {
    const sn_product *p = q->product;
    char why[SN_LIBRARY_WHY];
    sn_library_matrix left = {.ld = p->k, .stride = p->m * p->k, .align = SN_WIDEST_ACCESS, .dtype = p->dtype};
    sn_library_matrix right = {.ld = p->n, .stride = p->k * p->n, .align = SN_WIDEST_ACCESS, .dtype = p->dtype};
    sn_library_matrix result = {.ld = p->n, .stride = p->m * p->n, .align = SN_WIDEST_ACCESS, .dtype = p->dtype};
    const sn_library_call call = {.m = p->n,
                                  .n = p->m,
                                  .k = p->k,
                                  .batch = p->batch,
                                  .sum = sn_compute_dtype(p->dtype),
                                  .a = right,
                                  .b = left,
                                  .c = result,
                                  .algo = algo};
    return q->library->takes(q->library->user, &call, why);
}

bool sn_choice_library_applies(const char **why_not, const sn_choice_question *q) {
    *why_not = "there is no library that has such a product";
    return q->library && library_has(q, 0);
}

void sn_choice_library_candidates(sn_choice_list *out, const sn_choice_question *q) {
    sn_choice_add(out, "library");
    for (uint32_t algo = 1; algo < SN_CHOICE_ALGOS && library_has(q, algo); algo++)
        sn_choice_add(out, "library algo=%u", algo);
}

/* The choice is the header. */
sn_nd sn_choice_library_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    const char *header = sn_strf(&cx->m->arena, "library%s%s", *parameters ? " " : "", parameters);
    return sn_choice_with_header(cx, q->product->node, header);
}

/* ---- transposed ---- */

bool sn_choice_transposed_applies(const char **why_not, const sn_choice_question *q) {
    *why_not = "an operand is a vector";
    return sn_type_of(q->m, q->product->left)->rank > 1 && sn_type_of(q->m, q->product->right)->rank > 1;
}

void sn_choice_transposed_candidates(sn_choice_list *out, const sn_choice_question *q) {
    (void)q;
    sn_choice_add(out, "transposed");
}

/* Rows and columns change places. */
static sn_nd transpose(sn_module *m, sn_nd x) {
    int64_t perm[SN_MAX_RANK];
    uint32_t rank = sn_type_of(m, x)->rank;
    for (uint32_t k = 0; k < rank; k++) perm[k] = k;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    return x.i ? sn_graph_permute(m, x, perm, rank) : x;
}

sn_nd sn_choice_transposed_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    const sn_product *p = q->product;
    (void)parameters;
    const char *why_not;
    if (!sn_choice_transposed_applies(&why_not, q)) {
        sn_fail(cx->m->env, SN_ERROR_ARGUMENT, "transposed: %s", why_not);
        return (sn_nd){0};
    }
    sn_nd left = transpose(cx->m, p->right), right = transpose(cx->m, p->left);
    sn_nd product = sn_product_like(cx->m, p, left, right);
    return product.i ? transpose(cx->m, product) : product;
}

/* ---- flattened ---- */

bool sn_choice_flattened_applies(const char **why_not, const sn_choice_question *q) {
    *why_not = "its matrices do not share their right operand";
    return sn_type_of(q->m, q->product->left)->rank > 2 && sn_type_of(q->m, q->product->right)->rank == 2;
}

void sn_choice_flattened_candidates(sn_choice_list *out, const sn_choice_question *q) {
    (void)q;
    sn_choice_add(out, "flattened");
}

sn_nd sn_choice_flattened_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    const sn_product *p = q->product;
    (void)parameters;
    sn_module *m = cx->m;
    const char *why_not;
    const sn_type t = *sn_type_of(m, p->node);
    if (!sn_choice_flattened_applies(&why_not, q)) {
        sn_fail(m->env, SN_ERROR_ARGUMENT, "flattened: %s", why_not);
        return (sn_nd){0};
    }
    sn_ix shape[2] = {sn_ix_const(m, p->batch * p->m), sn_ix_const(m, p->k)};
    sn_nd product = sn_product_like(m, p, sn_graph_reshape(m, p->left, shape, 2), p->right);
    return product.i ? sn_graph_reshape(m, product, t.shape, t.rank) : product;
}
