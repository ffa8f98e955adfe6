/* gates.c: the pass `gates`: a step's product of which gates take a part of the columns each becomes a product for each.
 *
 *     %p = matmul %h, %w : f32[16, 1024]        %w0 = slice %w axis=1 start=0 stop=256   %p0 = matmul %h, %w0   %x0 = slice %x ..
 *     %a = add %x, %p                       ->  %i = add %x0, %p0                        (and so the other three)
 *     %i = slice %a axis=1 start=0 stop=256
 *     %f = slice %a axis=1 start=256 ..         %c1 = .. %i, %f, %g, %o ..
 *     %c1 = .. %i, %f, %g, %o ..
 *
 * A cell puts together what gates of one unit are. Of one wide product these stand columns apart, in different blocks, so that the cell is
 * a kernel of its own; sums of one length on one place are one nest, and `fuse` puts the cell behind it (fuse/product.c). A step of
 * an LSTM is one launch then instead of two.
 *
 * Legality: always; columns of a product are products of columns. Which: small products of few rows in a repeat, of what the step has and
 * weights that all steps share, of halves or of f32 in exact or high precision, on a GPU, where a launch takes as long as such a step; and only
 * where the parts are all that is wanted of the product, through elementwise operations, and are equally wide. Of larger ones the wide
 * product has more tiles: 64 rows of an LSTM of 512 units in bf16 took twice as long by gates. Cost: linear, but that each product looks through the operations between it and its parts.
 */
#include "ir/graph/build.h"
#include "ir/graph/repeat.h"
#include "passes/base/constants.h"
#include "passes/base/nest.h"
#include "passes/graph/rewrite.h"

typedef struct gates {
    sn_module *m;
    sn_repeat_scopes scopes;
    uint8_t *live;
    uint32_t *uses;  /* by node: operands of live nodes, and results, that it is */
    sn_nd *user;     /* the last of them */
    int64_t *width;  /* of its slices along the last axis: -1: they differ; 0: there is none */
    uint32_t *parts; /* how many these are */
    uint8_t *marks;  /* by slice, in the order of live ones: it goes in front */
    uint32_t n, at;
} gates;

enum { MOST_OPERANDS = 4 }; /* of operations that parts go through */

/* What becomes of a node that has parts. */
typedef enum cutting { UNKNOWN, CUT, WHOLE } cutting;

/* ---- what stands there ---- */

static int64_t last_size(const sn_module *m, sn_nd x) {
    const sn_type *t = sn_type_of(m, x);
    int64_t n;
    return t->rank && sn_ix_is_const(m, t->shape[t->rank - 1], &n) ? n : -1;
}

/* Is x a slice of consecutive elements along the last axis of its operand? */
static bool is_part(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    int64_t axis = sn_node_int(m, x, SN_ATTR_AXIS, 0);
    return n->op == SN_OP_SLICE && n->type.rank && (axis == -1 || axis == n->type.rank - 1) &&
           sn_node_int(m, x, SN_ATTR_STEP, 1) == 1 && last_size(m, x) > 0 && last_size(m, n->in[0]) > 0;
}

static int64_t start_of(const sn_module *m, sn_nd part) {
    int64_t start = sn_node_int(m, part, SN_ATTR_START, 0);
    return start < 0 ? start + last_size(m, sn_node_get(m, part)->in[0]) : start;
}

static void note_part(gates *g, sn_nd x) {
    sn_nd of = sn_node_get(g->m, x)->in[0];
    int64_t width = last_size(g->m, x);
    bool begins = start_of(g->m, x) % width == 0;
    g->parts[of.i]++;
    g->width[of.i] = begins && (!g->width[of.i] || g->width[of.i] == width) ? width : -1;
}

static void look(gates *g) {
    sn_module *m = g->m;
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++) {
        const sn_node_rec *n = sn_node_get(m, x);
        if (!g->live[x.i]) continue;
        for (uint32_t k = 0; k < n->n_in; k++) g->uses[n->in[k].i]++, g->user[n->in[k].i] = x;
        if (is_part(m, x)) note_part(g, x);
    }
    for (uint32_t k = 0; k < m->graph.outputs.n; k++) g->uses[m->graph.outputs.at[k].node.i]++;
}

/* All uses are the parts of it, which are equally wide, and there is no other one. */
static bool is_cut(const gates *g, sn_nd x) {
    int64_t width = g->width[x.i];
    return width > 0 && g->parts[x.i] == g->uses[x.i] && g->parts[x.i] > 1 &&
           width * g->parts[x.i] == last_size(g->m, x);
}

/* Is the product so small that a launch counts? */
static bool is_small(const gates *g, sn_nd x) {
    const sn_node_rec *n = sn_node_get(g->m, x);
    int64_t rows, depth = last_size(g->m, n->in[0]), columns = last_size(g->m, x);
    bool halves = sn_dtype_bytes(n->type.dtype) < sn_dtype_bytes(SN_F32);
    int64_t most = halves ? SN_GATES_HALVES : SN_GATES_ROWS;
    if (!sn_ix_is_const(g->m, n->type.shape[0], &rows) || rows > most || depth < 0 || columns < 0) return false;
    if (halves && rows > 1 && depth > SN_GATES_DEPTH) return false;
    int64_t products = sn_mul_clamped(sn_mul_clamped(rows, depth), columns);
    return products <= (int64_t)SN_GATES_PRODUCTS << 20;
}

/* Of the step, times weights of all steps. What `choose` has decided for a product holds for that alone. */
static bool is_of_step(const gates *g, sn_nd x) {
    const sn_node_rec *n = sn_node_get(g->m, x);
    sn_precision precision = sn_node_precision(g->m, x);
    if (n->op != SN_OP_MATMUL || (precision != SN_PRECISION_EXACT && precision != SN_PRECISION_HIGH)) return false;
    if (sn_node_attr(g->m, x, SN_ATTR_SCHEDULE) || sn_node_attr(g->m, x, SN_ATTR_ONLINE)) return false;
    return n->type.rank == 2 && sn_type_of(g->m, n->in[1])->rank == 2 && g->scopes.of[x.i] &&
           !g->scopes.of[n->in[1].i] && g->scopes.of[n->in[0].i] && is_small(g, x);
}

/* Do parts begin where the widest accesses do? */
static bool is_aligned(const gates *g, const sn_target *t, sn_nd x) {
    return g->width[x.i] * sn_dtype_bytes(sn_type_of(g->m, x)->dtype) % t->vector_bytes == 0;
}

/* What is cut, if nothing but elementwise operations stands in between; none. */
static sn_nd cut_behind(const gates *g, sn_nd x) {
    while (!is_cut(g, x)) {
        sn_nd user = g->user[x.i];
        if (g->uses[x.i] != 1 || !user.i || !sn_node_is_elementwise(sn_node_get(g->m, user)) ||
            !sn_same_shape(sn_type_of(g->m, user), sn_type_of(g->m, x)))
            return (sn_nd){0};
        x = user;
    }
    return x;
}

/* Does what parts of it are computed from begin behind it? */
static bool is_passed(const sn_node_rec *n) {
    return n->op == SN_OP_MATMUL || (sn_node_is_elementwise(n) && n->n_in <= MOST_OPERANDS);
}

/* Is what stands between x and its columns' products computed for it alone, and are these products of the step? Else parts would compute again
 * what others want whole, each of them. */
static bool is_tree(const gates *g, sn_nd x, int64_t all) {
    const sn_node_rec *n = sn_node_get(g->m, x);
    if (last_size(g->m, x) != all || !is_passed(n)) return true;
    if (n->op == SN_OP_MATMUL) return is_of_step(g, x);
    bool tree = true;
    for (uint32_t k = 0; k < n->n_in && tree; k++) {
        sn_nd in = n->in[k];
        bool passed = last_size(g->m, in) == all && is_passed(sn_node_get(g->m, in));
        tree = (!passed || g->uses[in.i] == 1) && is_tree(g, in, all);
    }
    return tree;
}

/* ---- the parts ---- */

/* Columns of x: of what it is computed from, back to products (is_tree). */
static sn_nd columns(sn_module *m, sn_nd x, int64_t all, int64_t start, int64_t stop) {
    const sn_node_rec *n = sn_node_get(m, x);
    sn_nd in[MOST_OPERANDS];
    if (last_size(m, x) != all) return x; /* one for all columns */
    if (!is_passed(n)) return sn_graph_slice(m, x, -1, start, stop, 1);
    for (uint32_t k = 0; k < n->n_in; k++) {
        if (n->op == SN_OP_MATMUL) in[k] = k ? sn_graph_slice(m, n->in[k], -1, start, stop, 1) : n->in[k];
        else in[k] = columns(m, n->in[k], all, start, stop);
    }
    return sn_graph_node(m, n->op, in, n->n_in, n->attrs, n->n_attrs);
}

static sn_nd put_part(sn_pass_ctx *cx, sn_nd x) {
    gates *g = cx->notes;
    sn_module *m = cx->m;
    if (sn_node_get(m, x)->op != SN_OP_SLICE) return x;
    SN_ASSERT(g->at < g->n);
    if (!g->marks[g->at++]) return x;
    sn_nd of = sn_node_get(m, x)->in[0];
    int64_t start = start_of(m, x);
    return columns(m, of, last_size(m, of), start, start + last_size(m, x));
}

static void *zeros(sn_pass_ctx *cx, size_t size) { return sn_zalloc(cx->scratch, cx->m->graph.nodes.count * size); }

static void mark_parts(gates *g, const cutting *cut) {
    for (sn_nd x = {1}; x.i < g->m->graph.nodes.count; x.i++)
        if (g->live[x.i] && sn_node_get(g->m, x)->op == SN_OP_SLICE)
            g->marks[g->n++] = cut[sn_node_get(g->m, x)->in[0].i] == CUT;
}

static bool find_cuts(cutting *cut, const gates *g, sn_pass_ctx *cx) {
    bool any = false;
    for (sn_nd x = {1}; x.i < g->m->graph.nodes.count; x.i++) {
        sn_nd at = g->live[x.i] && is_of_step(g, x) ? cut_behind(g, x) : (sn_nd){0};
        if (!at.i) continue;
        if (cut[at.i] == UNKNOWN) /* once for all products in front of it */
            cut[at.i] = is_aligned(g, cx->target, at) && is_tree(g, at, last_size(g->m, at)) ? CUT : WHOLE;
        if (cut[at.i] == WHOLE) continue;
        const char *name = sn_node_get(g->m, x)->name;
        any = true;
        sn_remark(cx, name ? name : "matmul", "%u products, one for each part", g->parts[at.i]);
    }
    return any;
}

sn_status sn_pass_gates(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    gates g = {.m = m};
    if (!cx->target->is_gpu || m->kernels.n || m->graph.nodes.count <= 1 || !m->graph.repeats) return SN_OK;
    SN_TRY(sn_repeat_scopes_find(&g.scopes, m, cx->scratch));
    g.live = zeros(cx, sizeof *g.live), g.uses = zeros(cx, sizeof *g.uses), g.user = zeros(cx, sizeof *g.user);
    g.width = zeros(cx, sizeof *g.width), g.parts = zeros(cx, sizeof *g.parts), g.marks = zeros(cx, sizeof *g.marks);
    cutting *cut = zeros(cx, sizeof *cut);
    sn_graph_live(m, g.live);
    look(&g);
    if (!find_cuts(cut, &g, cx)) return SN_OK;
    mark_parts(&g, cut);
    cx->notes = &g;
    sn_status status = sn_graph_rewrite(cx, put_part, changed);
    cx->notes = NULL;
    return status;
}
