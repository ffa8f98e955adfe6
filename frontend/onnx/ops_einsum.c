/* ops_einsum.c: Einsum: products of tensors whose axes have letters, summed over the letters that the result does not
 * have.
 *
 *     "bij,bjk->bik"    a matmul for each b           "ii->i"      diagonal
 *     "...ij->...ji"    transposes                    "i,j->ij"    outer product
 *
 * Every operand is a node with a label for each of its axes. Diagonals are taken first, then axes of size 1 that only
 * broadcast are dropped, and the operands are multiplied from left to right: labels that nobody needs afterwards are
 * summed, by a matmul where both operands have them.
 */
#include "frontend/onnx/import.h"
#include "ir/index/ix.h"
#include "ir/module.h"

#include <ctype.h>
#include <string.h>

enum { DOTS = 128, N_LABELS = DOTS + SN_MAX_RANK };

/* A label is a letter, or DOTS + k for an axis that an ellipsis stands for, k counted from the last of them. */
typedef struct labels {
    uint32_t n;
    int at[SN_MAX_RANK];
} labels;

/* The labels that the result and the operands that are not yet multiplied have. */
typedef struct label_set {
    bool has[N_LABELS];
} label_set;

typedef struct factor {
    sn_nd x;
    labels l;
} factor;

static int place_of(const labels *l, int label) {
    for (uint32_t k = 0; k < l->n; k++)
        if (l->at[k] == label) return (int)k;
    return -1;
}

static void push(labels *l, int label) {
    if (l->n < SN_MAX_RANK) l->at[l->n++] = label;
}

/* ---- the equation ---- */

/* One term, up to `end`. dots: how many axes its ellipsis stands for. */
static sn_status read_term(labels *l, sn_onnx_call *c, const char *s, const char *end, uint32_t dots) {
    *l = (labels){0};
    for (; s < end; s++) {
        if (isspace((unsigned char)*s)) continue;
        if (end - s >= 3 && !strncmp(s, "...", 3)) {
            for (uint32_t k = dots; k-- > 0;) push(l, DOTS + (int)k);
            s += 2;
        } else if (isalpha((unsigned char)*s)) {
            if (l->n == SN_MAX_RANK) return sn_onnx_fail(c, "a term with more than %d axes", SN_MAX_RANK);
            push(l, *s);
        } else {
            return sn_onnx_fail(c, "the equation has a character '%c'", *s);
        }
    }
    return SN_OK;
}

static void add_labels(label_set *set, const labels *l) {
    for (uint32_t k = 0; k < l->n; k++) set->has[l->at[k]] = true;
}

static bool has_dots(const char *s, const char *end) {
    for (; s + 3 <= end; s++)
        if (!strncmp(s, "...", 3)) return true;
    return false;
}

/* The term of an operand: an ellipsis stands for as many of its axes as no letter names. */
static sn_status read_operand(factor *f, uint32_t *dots, sn_onnx_call *c, const char *s, const char *end) {
    uint32_t letters = 0, rank = sn_graph_type(c->m, f->x)->rank, own = 0;
    for (const char *at = s; at < end; at++) letters += isalpha((unsigned char)*at) != 0;
    if (has_dots(s, end) && rank >= letters) own = rank - letters;
    if (letters + own != rank) return sn_onnx_fail(c, "a term for %u axes, its operand has %u", letters + own, rank);
    if (own > *dots) *dots = own;
    return read_term(&f->l, c, s, end, own);
}

/* Without "->" the result has the axes of the ellipsis and every letter that occurs once, in the order of the
 * alphabet. */
static void implicit_result(labels *l, const factor *f, uint32_t n, uint32_t dots) {
    uint32_t count[N_LABELS] = {0};
    *l = (labels){0};
    for (uint32_t k = dots; k-- > 0;) push(l, DOTS + (int)k);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < f[i].l.n; k++) count[f[i].l.at[k]]++;
    for (int label = 0; label < DOTS; label++)
        if (count[label] == 1) push(l, label);
}

static sn_status check_result(sn_onnx_call *c, const labels *l, const factor *f, uint32_t n) {
    for (uint32_t k = 0; k < l->n; k++) {
        bool known = false;
        for (uint32_t i = 0; i < n; i++) known = known || place_of(&f[i].l, l->at[k]) >= 0;
        if (!known) return sn_onnx_fail(c, "the result has a label that no operand has");
        if (place_of(l, l->at[k]) != (int)k) return sn_onnx_fail(c, "the result has label '%c' twice", l->at[k]);
    }
    return SN_OK;
}

static sn_status read_equation(labels *result, factor *f, sn_onnx_call *c, const char *equation) {
    const char *arrow = strstr(equation, "->"), *end = arrow ? arrow : equation + strlen(equation), *s = equation;
    uint32_t n = 0, dots = 0;
    for (;; s++, n++) {
        const char *comma = memchr(s, ',', (size_t)(end - s)), *stop = comma ? comma : end;
        if (n == c->n_in) return sn_onnx_fail(c, "the equation has more terms than there are operands");
        f[n].x = sn_onnx_in(c, n);
        SN_TRY(read_operand(&f[n], &dots, c, s, stop));
        s = stop;
        if (!comma) break;
    }
    if (n + 1 != c->n_in) return sn_onnx_fail(c, "the equation has %u terms for %u operands", n + 1, c->n_in);
    if (arrow) SN_TRY(read_term(result, c, arrow + 2, equation + strlen(equation), dots));
    else implicit_result(result, f, c->n_in, dots);
    return check_result(c, result, f, c->n_in);
}

/* ---- one operand ---- */

static void drop_label(labels *l, uint32_t at) {
    memmove(&l->at[at], &l->at[at + 1], (l->n - at - 1) * sizeof l->at[0]);
    l->n--;
}

static void order_as(factor *f, sn_module *m, const labels *l) {
    int64_t perm[SN_MAX_RANK];
    bool moves = false;
    for (uint32_t k = 0; k < l->n; k++) {
        perm[k] = place_of(&f->l, l->at[k]);
        moves = moves || perm[k] != k;
    }
    if (moves) f->x = sn_graph_permute(m, f->x, perm, l->n);
    f->l = *l;
}

/* Axes i and j have one label: as one axis of n*n elements, every n + 1 of them lies on the diagonal. */
static sn_status take_diagonal(factor *f, sn_onnx_call *c, uint32_t i, uint32_t j) {
    sn_module *m = c->m;
    const sn_type *t = sn_graph_type(m, f->x);
    int64_t n, other, perm[SN_MAX_RANK];
    sn_ix shape[SN_MAX_RANK];
    uint32_t rank = 0;
    if (!sn_ix_is_const(m, t->shape[i], &n) || !sn_ix_is_const(m, t->shape[j], &other) || n != other)
        return sn_onnx_fail(c, "a diagonal of sizes that are not equal numbers");
    for (uint32_t k = 0; k < t->rank; k++)
        if (k != i && k != j) {
            shape[rank] = t->shape[k];
            perm[rank++] = k;
        }
    int label = f->l.at[i];
    perm[rank] = i, perm[rank + 1] = j;
    shape[rank] = sn_ix_const(m, n * n);
    sn_nd flat = sn_graph_reshape(m, sn_graph_permute(m, f->x, perm, t->rank), shape, rank + 1);
    f->x = sn_graph_slice(m, flat, rank, 0, INT64_MAX, n + 1);
    drop_label(&f->l, j);
    drop_label(&f->l, i);
    push(&f->l, label);
    return m->env->status;
}

static sn_status take_diagonals(factor *f, sn_onnx_call *c) {
    for (uint32_t j = 1; j < f->l.n; j++) {
        int i = place_of(&f->l, f->l.at[j]);
        if (i >= (int)j) continue;
        SN_TRY(take_diagonal(f, c, (uint32_t)i, j));
        j = 0;
    }
    return SN_OK;
}

static bool is_one(const sn_module *m, sn_ix e) {
    int64_t size;
    return sn_ix_is_const(m, e, &size) && size == 1;
}

/* An axis of size 1 whose label has another size elsewhere only broadcasts: it goes. */
static sn_status drop_broadcast(factor *f, uint32_t n, sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_ix size[N_LABELS] = {0};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < f[i].l.n; k++) {
            sn_ix own = sn_graph_type(m, f[i].x)->shape[k], *known = &size[f[i].l.at[k]];
            if (!known->i || is_one(m, *known)) *known = own;
            else if (!is_one(m, own) && !sn_ix_eq(own, *known))
                return sn_onnx_fail(c, "operand %u of shape %s has a label with another size elsewhere", i + 1,
                                    sn_type_text(m, sn_graph_type(m, f[i].x)));
        }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = f[i].l.n; k-- > 0;) {
            if (is_one(m, size[f[i].l.at[k]]) || !is_one(m, sn_graph_type(m, f[i].x)->shape[k])) continue;
            f[i].x = sn_graph_squeeze(m, f[i].x, &(int64_t){k}, 1);
            drop_label(&f[i].l, k);
        }
    return m->env->status;
}

/* Sum over the labels that are neither needed nor in `other`. */
static void sum_others(factor *f, sn_module *m, const label_set *needed, const labels *other) {
    int64_t axes[SN_MAX_RANK];
    uint32_t n = 0;
    labels kept = {0};
    for (uint32_t k = 0; k < f->l.n; k++)
        if (!needed->has[f->l.at[k]] && place_of(other, f->l.at[k]) < 0) axes[n++] = k;
        else push(&kept, f->l.at[k]);
    if (!n) return;
    sn_dtype t = sn_graph_type(m, f->x)->dtype;
    f->x = sn_graph_cast(m, sn_graph_reduce(m, SN_OP_SUM, f->x, axes, n, false), t);
    f->l = kept;
}

/* ---- two operands ---- */

/* Sorted by where they are: both and needed, both and summed, left alone, right alone. */
typedef struct parts {
    labels batch, sum, left, right;
} parts;

static parts parts_of(const labels *a, const labels *b, const label_set *needed) {
    parts p = {0};
    for (uint32_t k = 0; k < a->n; k++) {
        int label = a->at[k];
        if (place_of(b, label) < 0) push(&p.left, label);
        else push(needed->has[label] ? &p.batch : &p.sum, label);
    }
    for (uint32_t k = 0; k < b->n; k++)
        if (place_of(a, b->at[k]) < 0) push(&p.right, b->at[k]);
    return p;
}

static labels joined(const labels *a, const labels *b, const labels *c) {
    labels l = *a;
    for (uint32_t k = 0; k < b->n; k++) push(&l, b->at[k]);
    for (uint32_t k = 0; k < c->n; k++) push(&l, c->at[k]);
    return l;
}

/* f as matrices [batch.., rows, columns]. */
static sn_nd matrices(factor *f, sn_module *m, const labels *batch, const labels *rows, const labels *columns) {
    labels order = joined(batch, rows, columns);
    order_as(f, m, &order);
    const sn_type *t = sn_graph_type(m, f->x);
    sn_ix shape[SN_MAX_RANK + 2];
    for (uint32_t k = 0; k < batch->n; k++) shape[k] = t->shape[k];
    shape[batch->n] = sn_ix_product(m, t->shape + batch->n, rows->n);
    shape[batch->n + 1] = sn_ix_product(m, t->shape + batch->n + rows->n, columns->n);
    return sn_graph_reshape(m, f->x, shape, batch->n + 2);
}

/* x with axes of size 1 for the labels of `all` that it does not have, in that order. */
static sn_nd spread(factor *f, sn_module *m, const labels *all) {
    labels order = {0};
    int64_t missing[SN_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t k = 0; k < all->n; k++)
        if (place_of(&f->l, all->at[k]) >= 0) push(&order, all->at[k]);
        else missing[n++] = k;
    order_as(f, m, &order);
    return n ? sn_graph_unsqueeze(m, f->x, missing, n) : f->x;
}

static sn_status multiply(factor *a, factor *b, sn_onnx_call *c, const label_set *needed) {
    sn_module *m = c->m;
    sum_others(a, m, needed, &b->l);
    sum_others(b, m, needed, &a->l);
    parts p = parts_of(&a->l, &b->l, needed);
    if (p.batch.n + p.left.n + p.right.n > SN_MAX_RANK || (p.sum.n && p.batch.n + 2 > SN_MAX_RANK))
        return sn_onnx_fail(c, "a product with more than %d axes", SN_MAX_RANK);
    labels all = joined(&p.batch, &p.left, &p.right);
    if (!p.sum.n) {
        a->x = sn_graph_mul(m, spread(a, m, &all), spread(b, m, &all));
        a->l = all;
        return m->env->status;
    }
    sn_ix shape[SN_MAX_RANK];
    for (uint32_t k = 0; k < all.n; k++) {
        int in_a = place_of(&a->l, all.at[k]), in_b = place_of(&b->l, all.at[k]);
        shape[k] = in_a >= 0 ? sn_graph_type(m, a->x)->shape[in_a] : sn_graph_type(m, b->x)->shape[in_b];
    }
    sn_nd y = sn_graph_matmul(m, matrices(a, m, &p.batch, &p.left, &p.sum), matrices(b, m, &p.batch, &p.sum, &p.right));
    a->x = sn_graph_reshape(m, y, shape, all.n);
    a->l = all;
    return m->env->status;
}

sn_status sn_onnx_einsum(sn_onnx_call *c) {
    sn_module *m = c->m;
    labels result;
    factor *f = SN_NEWN(c->arena, factor, c->n_in + 1);
    SN_TRY(read_equation(&result, f, c, sn_onnx_attr_text(c, "equation", "")));
    SN_TRY(m->env->status);
    for (uint32_t k = 0; k < c->n_in; k++) SN_TRY(take_diagonals(&f[k], c));
    SN_TRY(drop_broadcast(f, c->n_in, c));
    for (uint32_t k = 1; k < c->n_in; k++) {
        label_set needed = {0};
        add_labels(&needed, &result);
        for (uint32_t j = k + 1; j < c->n_in; j++) add_labels(&needed, &f[j].l);
        SN_TRY(multiply(&f[0], &f[k], c, &needed));
    }
    label_set none = {0};
    sum_others(&f[0], m, &none, &result);
    order_as(&f[0], m, &result);
    return sn_onnx_done(c, f[0].x);
}
