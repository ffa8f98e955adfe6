/* join_products.c: the pass `join-products`: products of one tensor with several constant matrices become one product.
 *
 *     %q = matmul %x, %wq : f32[.., 64]          %w = concat %wq, %wk, %wv axis=1      %b = concat %bq, -0.0, %bv
 *     %a = add %q, %bq                       ->  %p = matmul %x, %w : f32[.., 192]     %s = add %p, %b
 *     %k = matmul %x, %wk                        %a = slice %s axis=-1 start=0 stop=64
 *     %v = matmul %x, %wv  ..                    %k = slice %s axis=-1 start=64 stop=128  ..
 *
 * Queries, keys and values of an attention, and what else models write as several layers side by side: one launch instead of a launch
 * each, which reads x once and has tiles for all of the machine. Weights are put side by side when a program is loaded.
 *
 * Legality: always; columns of a product are products of columns. -0.0 is what an addition leaves everything as it is by. Which: on a GPU,
 * products of which each has to be in memory anyway, because another product, a slice or a concatenation is made of it: what stands
 * behind others is made where their sums are, and would have to read these from memory instead. Columns begin where the widest accesses
 * do. Steps of a repeat and branches keep theirs: `gates` wants the former apart, and the latter may not be taken. Cost: linear, but
 * that each product looks through the views behind it, and each weight is found once more.
 */
#include "ir/graph/build.h"
#include "ir/graph/repeat.h"
#include "passes/base/nest.h"
#include "passes/graph/rewrite.h"

enum { MOST_LOOKED_AT = 64, MOST_MADE_OF = 64 }; /* nodes behind a product; of a constant */
enum { TOGETHER = 3 };                           /* products of one attention */

typedef struct user {
    sn_nd by;
    uint32_t next; /* index + 1; 0: no other one */
} user;

/* A product that may be one of several: what stands for it is itself, or its sum with a bias. */
typedef struct member {
    sn_nd product, whole, bias; /* bias none: there is none */
    int64_t columns, start;
    int64_t bytes;        /* of the result; 0: nobody knows */
    uint32_t next, group; /* next member of the group, index + 1; group: index + 1 */
} member;

typedef struct group {
    uint32_t first, last, n; /* indices + 1 of members */
    int64_t columns, bytes;
    bool biased;
    sn_nd joined; /* in the new graph, once it is there */
} group;

typedef struct joining {
    sn_module *m;
    sn_graph_ir old;
    uint8_t *live, *is_output;
    uint8_t *constant; /* how many nodes it is made of, its own included; 0: it is none, or of too many */
    sn_repeat_scopes scopes;
    uint32_t *users; /* by node: index + 1 into `all` */
    SN_VEC(user) all;
    SN_VEC(member) members;
    SN_VEC(group) groups;
    /* By live node other than inputs, in the order of ids: index + 1 of the member that it is the whole of. */
    uint32_t *of, n, at;
} joining;

static const sn_node_rec *old_node(const joining *j, sn_nd x) { return sn_table_at(&j->old.nodes, x.i); }

/* ---- what stands there ---- */

static void add_user(joining *j, sn_arena *a, sn_nd of, sn_nd by) {
    user u = {by, j->users[of.i]};
    SN_PUSH(a, &j->all, u);
    j->users[of.i] = j->all.n;
}

static void look(joining *j, sn_arena *a) {
    for (sn_nd x = {1}; x.i < j->old.nodes.count; x.i++) {
        const sn_node_rec *n = old_node(j, x);
        bool constant = n->n_in ? n->op != SN_OP_RANDOM : n->op != SN_OP_INPUT;
        uint32_t nodes = 1;
        for (uint32_t k = 0; k < n->n_in; k++) {
            constant = constant && j->constant[n->in[k].i];
            nodes += j->constant[n->in[k].i];
            if (j->live[x.i]) add_user(j, a, n->in[k], x);
        }
        if (constant && nodes <= MOST_MADE_OF) j->constant[x.i] = (uint8_t)nodes;
    }
    for (uint32_t k = 0; k < j->old.outputs.n; k++) j->is_output[j->old.outputs.at[k].node.i] = 1;
}

/* The one user of x; none: there are several, or it is a result of the graph. */
static sn_nd only_user(const joining *j, sn_nd x) {
    uint32_t first = j->users[x.i];
    if (!first || j->is_output[x.i] || j->all.at[first - 1].next) return (sn_nd){0};
    return j->all.at[first - 1].by;
}

/* Does x show or scale all elements of its operand, which is `of`? */
static bool is_passed(const joining *j, sn_nd x, sn_nd of) {
    const sn_node_rec *n = old_node(j, x);
    double value;
    if (sn_ops[n->op].cls == SN_OPS_VIEW || n->op == SN_OP_COPY || n->op == SN_OP_NEG) return true;
    if (n->op == SN_OP_CAST) return sn_dtype_widens(old_node(j, of)->type.dtype, n->type.dtype);
    return (n->op == SN_OP_MUL || n->op == SN_OP_DIV) && sn_nd_eq(n->in[0], of) &&
           sn_is_uniform(j->m, n->in[1], &value);
}

/* Has x to be in memory, as an operand of a product, or for parts of it? No result of the graph: that would be a copy. */
static bool is_wanted(const joining *j, sn_nd x, uint32_t *looked) {
    bool wanted = false;
    if (j->is_output[x.i] || ++*looked > MOST_LOOKED_AT) return false;
    for (uint32_t u = j->users[x.i]; u && !wanted; u = j->all.at[u - 1].next) {
        sn_nd by = j->all.at[u - 1].by;
        sn_op op = old_node(j, by)->op;
        wanted = sn_ops[op].cls == SN_OPS_CONTRACT || op == SN_OP_SLICE || op == SN_OP_CONCAT ||
                 (is_passed(j, by, x) && is_wanted(j, by, looked));
    }
    return wanted;
}

/* ---- members and groups ---- */

/* A number for each column, added to the product of which it is the one use; none. */
static sn_nd bias_of(const joining *j, const member *e, sn_nd sum) {
    const sn_node_rec *n = sum.i ? old_node(j, sum) : NULL, *product = old_node(j, e->product), *b;
    if (!n || n->op != SN_OP_ADD || !sn_type_eq(&n->type, &product->type)) return (sn_nd){0};
    sn_nd bias = n->in[sn_nd_eq(n->in[0], e->product)];
    int64_t numel, last;
    b = old_node(j, bias);
    if (!j->constant[bias.i] || b->op == SN_OP_MATMUL || !b->type.rank || b->type.dtype != n->type.dtype)
        return (sn_nd){0};
    if (!sn_type_static(j->m, &b->type, &numel) || numel != e->columns) return (sn_nd){0};
    bool has_columns = sn_ix_is_const(j->m, b->type.shape[b->type.rank - 1], &last) && last == numel;
    return has_columns ? bias : (sn_nd){0};
}

/* A product with a constant matrix that nobody has decided about, and which has to be in memory. */
static bool is_member(const joining *j, const sn_target *t, sn_nd x, member *e) {
    const sn_node_rec *n = old_node(j, x);
    uint32_t looked = 0;
    if (n->op != SN_OP_MATMUL || !sn_is_float(n->type.dtype) || n->type.rank < 2 || j->scopes.of[x.i]) return false;
    const sn_node_rec *w = old_node(j, n->in[1]);
    if (j->constant[n->in[0].i] || !j->constant[n->in[1].i] || w->type.rank != 2) return false;
    if (sn_node_attr(j->m, x, SN_ATTR_SCHEDULE) || sn_node_attr(j->m, x, SN_ATTR_ONLINE)) return false;
    *e = (member){.product = x, .whole = x};
    if (!sn_ix_is_const(j->m, w->type.shape[1], &e->columns) || !sn_ix_is_const(j->m, w->type.shape[0], &(int64_t){0}))
        return false;
    if (sn_type_static(j->m, &n->type, &e->bytes)) e->bytes = sn_mul_clamped(e->bytes, sn_dtype_bytes(n->type.dtype));
    if (e->columns < 1 || e->columns * sn_dtype_bytes(n->type.dtype) % t->vector_bytes) return false;
    sn_nd sum = only_user(j, x);
    e->bias = bias_of(j, e, sum);
    if (e->bias.i) e->whole = sum;
    return is_wanted(j, e->whole, &looked);
}

static bool may_join(const joining *j, const member *a, const member *b) {
    const sn_node_rec *x = old_node(j, a->product), *y = old_node(j, b->product);
    return sn_nd_eq(x->in[0], y->in[0]) && x->type.dtype == y->type.dtype &&
           old_node(j, x->in[1])->type.dtype == old_node(j, y->in[1])->type.dtype &&
           sn_node_precision(j->m, a->product) == sn_node_precision(j->m, b->product);
}

/* Does the group take the member in? Results that the cache does not hold are those of one attention: what later ones read is best
 * made shortly before. */
static bool has_room(const group *g, const sn_target *t, const member *e) {
    return g->n < TOGETHER || g->bytes + e->bytes <= (int64_t)t->cache_bytes / 2;
}

/* The member goes to the group of the last one with the same operand, or opens one. by: by operand, index + 1 of that group. */
static void put_member(joining *j, sn_pass_ctx *cx, uint32_t *by, member e) {
    sn_arena *a = cx->scratch;
    uint32_t *place = &by[old_node(j, e.product)->in[0].i];
    group *g = *place ? &j->groups.at[*place - 1] : NULL;
    if (!g || !has_room(g, cx->target, &e) || !may_join(j, &j->members.at[g->last - 1], &e)) {
        SN_PUSH(a, &j->groups, (group){0});
        *place = j->groups.n;
        g = &j->groups.at[*place - 1];
    }
    e.group = *place;
    e.start = g->columns;
    SN_PUSH(a, &j->members, e);
    if (g->n++) j->members.at[g->last - 1].next = j->members.n;
    else g->first = j->members.n;
    g->last = j->members.n;
    g->columns += e.columns;
    g->bytes += e.bytes;
    g->biased |= e.bias.i != 0;
}

static bool find_groups(joining *j, sn_pass_ctx *cx) {
    sn_arena *a = cx->scratch;
    uint32_t *by = sn_zalloc(a, j->old.nodes.count * sizeof *by), *of = sn_zalloc(a, j->old.nodes.count * sizeof *of);
    bool any = false;
    member e;
    for (sn_nd x = {1}; x.i < j->old.nodes.count; x.i++)
        if (j->live[x.i] && is_member(j, cx->target, x, &e)) put_member(j, cx, by, e);
    for (uint32_t i = 0; i < j->members.n; i++) {
        const group *g = &j->groups.at[j->members.at[i].group - 1];
        if (g->n < 2) continue;
        any = true;
        of[j->members.at[i].whole.i] = i + 1;
        const char *name = sn_node_get(j->m, j->members.at[i].product)->name;
        sn_remark(cx, name ? name : "matmul", "one of %u products of one tensor, which become one", g->n);
    }
    j->of = sn_zalloc(a, j->old.nodes.count * sizeof *j->of);
    for (sn_nd x = {1}; x.i < j->old.nodes.count; x.i++)
        if (j->live[x.i] && old_node(j, x)->op != SN_OP_INPUT) j->of[j->n++] = of[x.i];
    return any;
}

/* ---- the product ---- */

/* A constant of the old graph in the new one, where it may come later. */
static sn_nd again(joining *j, sn_nd x) {
    const sn_node_rec *n = old_node(j, x);
    sn_nd *in = SN_NEWN(&j->m->arena, sn_nd, n->n_in + 1);
    for (uint32_t k = 0; k < n->n_in; k++) in[k] = again(j, n->in[k]);
    return sn_graph_node(j->m, n->op, in, n->n_in, n->attrs, n->n_attrs);
}

/* The bias of a member, as a row; of one that has none, what changes nothing. */
static sn_nd row_of(joining *j, const member *e) {
    sn_ix size = sn_ix_const(j->m, e->columns);
    sn_dtype dtype = old_node(j, e->product)->type.dtype;
    if (!e->bias.i) return sn_graph_full(j->m, dtype, -0.0, &size, 1);
    return sn_graph_reshape(j->m, again(j, e->bias), &size, 1);
}

/* The matrices side by side; where all are seen turned, so is what they come to, which lies in memory as they do. */
static sn_nd matrix_of(sn_pass_ctx *cx, joining *j, const group *g) {
    sn_nd *weights = SN_NEWN(cx->scratch, sn_nd, g->n);
    uint32_t n = 0, turned = 0;
    for (uint32_t i = g->first; i; i = j->members.at[i - 1].next) {
        weights[n] = again(j, old_node(j, j->members.at[i - 1].product)->in[1]);
        turned += weights[n].i && sn_node_get(j->m, weights[n])->op == SN_OP_PERMUTE;
        n++;
    }
    if (turned < n) return sn_graph_concat(j->m, weights, n, 1);
    for (uint32_t i = 0; i < n; i++) weights[i] = sn_node_get(j->m, weights[i])->in[0];
    return sn_graph_permute(j->m, sn_graph_concat(j->m, weights, n, 0), (int64_t[]){1, 0}, 2);
}

static sn_nd join(sn_pass_ctx *cx, joining *j, const group *g, sn_nd x) {
    sn_module *m = j->m;
    sn_nd *rows = SN_NEWN(cx->scratch, sn_nd, g->n);
    uint32_t n = 0;
    for (uint32_t i = g->first; i && g->biased; i = j->members.at[i - 1].next)
        rows[n++] = row_of(j, &j->members.at[i - 1]);
    const sn_node_rec *first = old_node(j, j->members.at[g->first - 1].product);
    sn_nd in[2] = {x, matrix_of(cx, j, g)};
    sn_nd y = sn_graph_node(m, SN_OP_MATMUL, in, 2, first->attrs, first->n_attrs);
    return g->biased ? sn_graph_add(m, y, sn_graph_unary(m, SN_OP_COPY, sn_graph_concat(m, rows, n, 0))) : y;
}

static sn_nd rule(sn_pass_ctx *cx, sn_nd x) {
    joining *j = cx->notes;
    SN_ASSERT(j->at < j->n);
    uint32_t i = j->of[j->at++];
    if (!i) return x;
    const member *e = &j->members.at[i - 1];
    group *g = &j->groups.at[e->group - 1];
    const sn_node_rec *n = sn_node_get(j->m, x);
    if (e->bias.i) n = sn_node_get(j->m, n->in[sn_node_get(j->m, n->in[0])->op != SN_OP_MATMUL]);
    if (!g->joined.i) g->joined = join(cx, j, g, n->in[0]);
    return sn_graph_slice(j->m, g->joined, -1, e->start, e->start + e->columns, 1);
}

static void *zeros(sn_pass_ctx *cx, size_t size) { return sn_zalloc(cx->scratch, cx->m->graph.nodes.count * size); }

sn_status sn_pass_join_products(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (!cx->target->is_gpu || m->kernels.n || m->graph.nodes.count <= 1) return SN_OK;
    joining j = {.m = m, .old = m->graph};
    SN_TRY(sn_repeat_scopes_find(&j.scopes, m, cx->scratch));
    j.live = zeros(cx, sizeof *j.live), j.constant = zeros(cx, sizeof *j.constant);
    j.is_output = zeros(cx, sizeof *j.is_output), j.users = zeros(cx, sizeof *j.users);
    sn_graph_live(m, j.live);
    look(&j, cx->scratch);
    if (!find_groups(&j, cx)) return SN_OK;
    cx->notes = &j;
    sn_status status = sn_graph_rewrite(cx, rule, changed);
    cx->notes = NULL;
    return status;
}
