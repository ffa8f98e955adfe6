/* choose.c: the passes `choose-conv` and `choose`: what each convolution, and each matrix product, becomes in the graph.
 *
 *     %c = matmul %a, %b : f32[64, 64]     (K = 131072, on 132 multiprocessors)
 *  -> decompose_k.c: 512 parts of K side by side, and their sum
 *
 * A choice is a row of choices.def with parameters. The product's own schedule, where it has one, leaves nothing to
 * choose. Then counts what was decided outside for a product of this text (by timing: tune/), but where weights are copied once
 * (sn_choice_is_settled). Then the model:
 * `decompose_k` where the blocks of the result are too few to keep the device busy and that takes longer than a second
 * kernel; `padded` where tensor copies cannot bring the operands and copying them takes less time than doing without;
 * else the product as it is, so that the pass `schedule` chooses. Of convolutions no model says that anything is better than
 * what `layout` and `schedule` make of them. Where the option `choices` leaves out the product as it is, the first candidate of
 * what it allows is taken. `choose-conv` comes first, where convolutions and their gradients are what the caller wrote; a product
 * that one becomes is a product for `choose`. Legality is that of the rows. Cost: linear in the graph, once
 * for each product where there are decisions.
 */
#include "passes/graph/choices.h"
#include "passes/graph/rewrite.h"

#include <stdio.h>
#include <string.h>

const sn_choice_row sn_choice_rows[] = {
#define ROW(OP, functions, name, KIND, doc)                                                                            \
    {OP,                                                                                                               \
     #name,                                                                                                            \
     SN_CHOICE_KIND_##KIND,                                                                                            \
     functions##_##name##_applies,                                                                                     \
     functions##_##name##_candidates,                                                                                  \
     functions##_##name##_rewrite,                                                                                     \
     doc},
#define SN_CHOICE(name, KIND, doc) ROW(SN_OP_MATMUL, sn_choice, name, KIND, doc)
#define SN_CONV_CHOICE(name, KIND, doc) ROW(SN_OP_CONV, sn_conv_choice, name, KIND, doc)
#include "passes/graph/choices.def"
#undef SN_CHOICE
#undef SN_CONV_CHOICE
#undef ROW
    {.name = NULL},
};

const char *const sn_choice_kind_names[SN_N_CHOICE_KINDS] = {"template", "extern", "subgraph"};

/* ---- lists ---- */

void sn_choice_add(sn_choice_list *out, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    SN_PUSH(out->arena, out, sn_strdup(out->arena, text));
}

static bool is_word(const char *s, size_t n, const char *word) { return strlen(word) == n && !memcmp(s, word, n); }

const sn_choice_row *sn_choice_find(const char **parameters, sn_op op, const char *choice) {
    size_t n = strcspn(choice, " ");
    *parameters = choice + n + strspn(choice + n, " ");
    for (const sn_choice_row *row = sn_choice_rows; row->name; row++)
        if (row->op == op && is_word(choice, n, row->name)) return row;
    return NULL;
}

/* One name has one kind. */
sn_choice_kind sn_choice_kind_of(const char *choice) {
    const char *unused;
    const sn_choice_row *row = sn_choice_find(&unused, SN_OP_MATMUL, choice);
    if (!row) row = sn_choice_find(&unused, SN_OP_CONV, choice);
    return row ? row->kind : SN_N_CHOICE_KINDS;
}

/* The next name of a list; 0: its end. */
static size_t next_name(const char **name, const char **rest) {
    *name = *rest + strspn(*rest, ", ");
    size_t n = strcspn(*name, ", ");
    *rest = *name + n;
    return n;
}

static bool names_row(const sn_choice_row *row, const char *name, size_t n) {
    return is_word(name, n, row->name) || is_word(name, n, sn_choice_kind_names[row->kind]);
}

bool sn_choice_allowed(const sn_choice_row *row, const char *allowed) {
    const char *name;
    if (!allowed) return true;
    for (size_t n; (n = next_name(&name, &allowed)) > 0;)
        if (names_row(row, name, n)) return true;
    return false;
}

static bool is_known(const char *name, size_t n) {
    for (int k = 0; k < SN_N_CHOICE_KINDS; k++)
        if (is_word(name, n, sn_choice_kind_names[k])) return true;
    for (const sn_choice_row *row = sn_choice_rows; row->name; row++)
        if (is_word(name, n, row->name)) return true;
    return false;
}

/* Has a row before it the same name? */
static bool is_named_again(const sn_choice_row *row) {
    const char *unused;
    return row->op == SN_OP_CONV && sn_choice_find(&unused, SN_OP_MATMUL, row->name);
}

sn_status sn_choice_check(sn_env *env, const char *allowed) {
    const char *name;
    size_t n = 0;
    while (allowed && (n = next_name(&name, &allowed)) > 0 && is_known(name, n)) continue;
    if (!n) return SN_OK;
    sn_text known;
    sn_text_init(&known, env);
    for (int k = 0; k < SN_N_CHOICE_KINDS; k++) sn_text_printf(&known, "%s%s", k ? ", " : "", sn_choice_kind_names[k]);
    for (const sn_choice_row *row = sn_choice_rows; row->name; row++)
        if (!is_named_again(row)) sn_text_printf(&known, ", %s", row->name);
    sn_fail(env, SN_ERROR_ARGUMENT, "choices: '%.*s' is none of %s", (int)n, name, known.s);
    sn_text_free(&known);
    return env->status;
}

void sn_choice_candidates(sn_choice_list *out, const sn_choice_question *q, const char *allowed) {
    const char *why_not;
    sn_op op = q->conv ? SN_OP_CONV : SN_OP_MATMUL;
    for (const sn_choice_row *row = sn_choice_rows; row->name; row++)
        if (row->op == op && sn_choice_allowed(row, allowed) && row->applies(&why_not, q)) row->candidates(out, q);
}

/* ---- deciding ---- */

typedef struct chooser {
    sn_pass_ctx *cx;
    const sn_choosing *how;
    sn_op op;            /* whom it chooses for */
    const char **choice; /* of each of them, in the order of their ids; NULL: nothing to do */
    uint32_t n, at;
} chooser;

static bool may_be(const char *allowed, const sn_choice_question *q, const char *name) {
    const char *unused;
    return sn_choice_allowed(sn_choice_find(&unused, q->conv ? SN_OP_CONV : SN_OP_MATMUL, name), allowed);
}

/* Rows that a model knows, against the product as it is. */
static const char *by_cycles(sn_arena *a, const char *allowed, const sn_choice_question *q) {
    double cut = 0, misplaced = sn_choice_misplaced_cycles(q, 1);
    double padded = may_be(allowed, q, "padded") ? sn_choice_padded_cycles(q) : 0;
    int64_t parts = may_be(allowed, q, "decompose_k") ? sn_choice_decompose_k_parts(&cut, q) : 1;
    if (parts > 1 && (padded == 0 || cut <= padded)) return sn_strf(a, "decompose_k parts=%lld", (long long)parts);
    return padded > 0 && padded < misplaced ? "padded" : NULL;
}

/* NULL: as it is. */
static const char *by_model(sn_arena *a, const char *allowed, const sn_choice_question *q) {
    sn_choice_list all = {.arena = a};
    if (may_be(allowed, q, "plain")) return q->product ? by_cycles(a, allowed, q) : NULL;
    sn_choice_candidates(&all, q, allowed);
    return all.n ? all.at[0] : NULL;
}

/* A node with a choice, and who it is. */
typedef struct subject {
    sn_product product;
    sn_convolution conv;
    sn_choice_question question;
} subject;

static bool find_subject(subject *out, const sn_module *m, const sn_target *t, const sn_library *library, sn_nd x) {
    out->question = (sn_choice_question){.target = t, .m = m, .library = library};
    if (sn_node_get(m, x)->op == SN_OP_CONV) {
        out->question.conv = &out->conv;
        return sn_convolution_find(&out->conv, m, x);
    }
    out->question.product = &out->product;
    return sn_product_find(&out->product, m, x);
}

static bool is_settled(const char *by_model, const sn_choice_question *q) {
    return by_model && !strcmp(by_model, "padded") && sn_choice_padded_copies_weights(q);
}

bool sn_choice_is_settled(const sn_module *m, const sn_target *t, const sn_library *library, const char *allowed,
                          sn_nd x, sn_arena *scratch) {
    subject s;
    return find_subject(&s, m, t, library, x) && is_settled(by_model(scratch, allowed, &s.question), &s.question);
}

static const char *sizes_text(const subject *s, sn_arena *a) {
    const sn_product *p = &s->product;
    const sn_convolution *c = &s->conv;
    if (s->question.product)
        return sn_strf(a, "%lld x %lld x %lld x %lld %s", (long long)p->batch, (long long)p->m, (long long)p->n,
                       (long long)p->k, sn_dtypes[p->dtype].name);
    return sn_strf(a, "%lld x %lld x %lld of %lld channels and %lld taps %s", (long long)c->result[0],
                   (long long)c->result[1], (long long)c->pixels, (long long)c->weights[1], (long long)c->taps,
                   sn_dtypes[c->dtype].name);
}

static sn_status decide(const char **out, chooser *c, sn_nd x) {
    sn_pass_ctx *cx = c->cx;
    subject s;
    const char *key, *unused;
    *out = NULL;
    if (!find_subject(&s, cx->m, cx->target, cx->library, x)) return SN_OK;
    const char *model = by_model(cx->scratch, c->how->allowed, &s.question);
    if (c->how->n && !is_settled(model, &s.question)) {
        SN_TRY(sn_product_key(&key, cx->m, x, cx->scratch));
        *out = sn_decided(c->how, key);
    }
    const char *by = *out ? "decided" : "model";
    if (!*out) *out = model;
    if (*out && !sn_choice_find(&unused, c->op, *out))
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT, "'%s' is no choice for a %s", *out,
                       c->op == SN_OP_CONV ? "convolution" : "product");
    const char *name = sn_node_get(cx->m, x)->name;
    const char *sizes = sizes_text(&s, cx->scratch), *becomes = *out ? *out : "plain";
    sn_remark(cx, name ? name : "graph", "%s: %s (%s)", sizes, becomes, by);
    sn_row_choices *row = SN_ADD_ROW(cx->metrics, CHOICES, choices);
    if (row)
        *row = (sn_row_choices){sn_metric_text(cx->metrics, name), sn_metric_text(cx->metrics, sizes),
                                sn_metric_text(cx->metrics, becomes), by};
    return cx->m->env->status;
}

/* Nodes come in the order in which they were asked about. */
static sn_nd apply(sn_pass_ctx *cx, sn_nd x) {
    chooser *c = cx->notes;
    subject s;
    const char *parameters;
    if (sn_node_get(cx->m, x)->op != c->op) return x;
    SN_ASSERT(c->at < c->n);
    const char *choice = c->choice[c->at++];
    if (!choice || !find_subject(&s, cx->m, cx->target, cx->library, x)) return x;
    return sn_choice_find(&parameters, c->op, choice)->rewrite(cx, &s.question, parameters);
}

static sn_status choose(sn_pass_ctx *cx, bool *changed, sn_op op) {
    static const sn_choosing nothing = {0};
    sn_module *m = cx->m;
    chooser c = {.cx = cx, .how = cx->choosing ? cx->choosing : &nothing, .op = op};
    SN_TRY(sn_choice_check(m->env, c.how->allowed));
    if (m->kernels.n) return SN_OK; /* they stand for the graph */
    uint8_t *live = SN_NEWN(cx->scratch, uint8_t, m->graph.nodes.count + 1);
    c.choice = SN_NEWN(cx->scratch, const char *, m->graph.nodes.count + 1);
    sn_graph_live(m, live);
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++)
        if (live[x.i] && sn_node_get(m, x)->op == op) SN_TRY(decide(&c.choice[c.n++], &c, x));
    cx->notes = &c;
    sn_status status = c.n ? sn_graph_rewrite(cx, apply, changed) : SN_OK;
    cx->notes = NULL;
    return status;
}

sn_status sn_pass_choose_conv(sn_pass_ctx *cx, bool *changed) { return choose(cx, changed, SN_OP_CONV); }
sn_status sn_pass_choose(sn_pass_ctx *cx, bool *changed) { return choose(cx, changed, SN_OP_MATMUL); }
