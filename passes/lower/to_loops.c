/* to_loops.c: the pass `to-loops`: graph nodes become loop nests.
 *
 *     %0 = mul %x, %y : f32[8, 4]                   kernel @k0(x, y, z) {
 *     %1 = add %0, %y : f32[8, 4]        ->           loop i in 8 { loop j in 4 {
 *     return z = %1                                     %0 = load x[4*i + j]  %1 = load y[4*i + j]
 *                                                       %2 = mul %0, %1  %3 = add %2, %1  store z[4*i + j], %3 } } }
 *
 * Which nodes are realized, by one kernel each that stores their elements into a buffer, is decided first (uses.c, realize.c, operands.c,
 * stored.c). All others are inlined into their users, element by element, through the views between them. Views never become kernels: they
 * are index transforms.
 * A repeat is several sections of kernels (repeat.c), and so are branches (cond.c).
 * A concatenation of many computed parts is several kernels, each for some of them (concat.c).
 * A scatter is two kernels: a copy of its operand, and the updates, which are stored over it where the index says. One that
 * combines into few rows is two, too (scatter.c, scatter_block.c).
 * Nests are perfect: everything is emitted in the innermost loop; later passes hoist. The axis of a scan is the
 * innermost loop, and its position the operand of an `accum`; a reverse one walks the elements from the last on. Halves
 * are computed in f32; a cast that stands in the graph is honoured. Cost: linear in nodes times inlined expression
 * size, memoised per kernel. What a kernel computes for an element is in element.c, matrix products are in contract.c,
 * sorts in sort.c. Relies on `decompose` having run: a composite is an error of the pipeline.
 */
#include "ir/graph/repeat.h"
#include "passes/base/rebuild.h"
#include "passes/lower/lower.h"

/* ---- buffers ---- */

static void make_input_buffers(sn_lower *lw) {
    sn_graph_ir *g = &lw->m->graph;
    for (uint32_t k = 0; k < g->inputs.n; k++) {
        const sn_graph_input *in = &g->inputs.at[k];
        const sn_type *type = &sn_node_get(lw->m, in->node)->type;
        sn_buf b = sn_lower_buffer(lw, in->name, type, SN_BUF_INPUT);
        sn_buf_get(lw->m, b)->io = k;
        sn_buf_get(lw->m, b)->size = sn_graph_input_size(lw->m, k);
        lw->nodes[in->node.i].buf = b;
    }
}

static const void *constant_data(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const sn_attr *values = sn_node_attr(lw->m, x, SN_ATTR_VALUES);
    uint32_t bytes = sn_dtype_bytes(n->type.dtype);
    char *data = sn_zalloc(&lw->m->arena, values->numbers.n * bytes + 1);
    for (uint64_t k = 0; k < values->numbers.n; k++) {
        if (sn_is_float(n->type.dtype)) sn_store_float(n->type.dtype, data + k * bytes, values->numbers.f[k]);
        else sn_store_int(n->type.dtype, data + k * bytes, values->numbers.i[k]);
    }
    return data;
}

/* The buffer of a constant or a weight. */
static void make_const_buffer(sn_lower *lw, sn_nd x, uint32_t number) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    sn_buf b = sn_lower_buffer(lw, sn_strf(&lw->m->arena, "c%u", number), &n->type, SN_BUF_CONST);
    if (n->op == SN_OP_WEIGHT)
        sn_buf_get(lw->m, b)->weight = sn_wt_named(lw->m, sn_node_attr(lw->m, x, SN_ATTR_NAME)->text);
    else sn_buf_get(lw->m, b)->data = constant_data(lw, x);
    lw->nodes[x.i].buf = b;
}

/* ---- kernels ---- */

/* A prefix along an axis of one element is no scan: it would count iterations of a loop that is none (drop-units). */
static sn_val emit_scan(sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    sn_comb comb = (sn_comb)sn_ops[n->op].lop;
    sn_axis ax = sn_stmt_axis(lw->m, lw->at.parent);
    int64_t size, exclusive = sn_node_int(lw->m, x, SN_ATTR_EXCLUSIVE, 0);
    sn_val v = sn_put_cast(lw->m, lw->at, sn_compute_dtype(n->type.dtype), sn_lower_element(lw, n->in[0], index));
    if (!sn_ix_is_const(lw->m, sn_axis_get(lw->m, ax)->extent, &size) || size != 1)
        return sn_put_accum(lw->m, lw->at, comb, v, sn_ix_axis(lw->m, ax), exclusive);
    sn_val first = sn_put_identity(lw->m, lw->at, comb, 0, sn_val_get(lw->m, v)->dtype);
    return exclusive ? first : sn_put_op2(lw->m, lw->at, sn_comb_lops[comb], first, v);
}

static sn_val emit_realized(sn_lower_states *states, sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (sn_ops[n->op].cls == SN_OPS_SCAN) return emit_scan(lw, x, index);
    if (lw->nodes[x.i].attention) return sn_lower_attention(states, lw, x, index);
    if (n->op == SN_OP_MATMUL) return sn_lower_matmul(lw, x, index);
    if (n->op == SN_OP_CONV) return sn_lower_conv(lw, x, index);
    return sn_lower_element(lw, x, index);
}

/* The axis of x whose elements one nest gives together; its rank: none. */
static uint32_t together(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    uint32_t axis = lw->nodes[x.i].together, mask = axis ? sn_node_axes_mask(lw->m, x) : 0;
    if (!axis) return n->type.rank;
    if (sn_node_int(lw->m, x, SN_ATTR_KEEPDIM, 0)) return axis - 1;
    return axis - 1 - (uint32_t)__builtin_popcount(mask & ((1u << (axis - 1)) - 1));
}

/* In the order in which x is stored; that of a scan goes inside the others. An axis whose elements are made together has none. */
void sn_lower_open_loops(sn_lower *lw, sn_nd x, const sn_ix *shape, sn_ix *index) {
    static const char *const names[] = {"i", "j", "k", "l", "i4", "i5", "i6", "i7"};
    const sn_node_rec *n = sn_node_get(lw->m, x);
    bool scans = sn_ops[n->op].cls == SN_OPS_SCAN;
    uint32_t last = scans ? (uint32_t)sn_node_int(lw->m, x, SN_ATTR_AXIS, 0) : n->type.rank;
    uint32_t apart = together(lw, x);
    const int64_t *order = lw->nodes[x.i].order;
    for (uint32_t k = 0; k < n->type.rank; k++) {
        uint32_t axis = order ? (uint32_t)order[k] : k;
        if (axis != last && axis != apart) index[axis] = sn_lower_open_loop(lw, names[k], shape[axis]);
    }
    if (!scans) return;
    sn_ix extent = shape[last], at = sn_lower_open_loop(lw, names[last], extent);
    bool reverse = sn_node_int(lw->m, x, SN_ATTR_REVERSE, 0);
    index[last] = reverse ? sn_ix_sub(lw->m, sn_ix_addc(lw->m, extent, -1), at) : at;
}

static void open_loops(sn_lower *lw, sn_nd x, sn_ix *index) {
    sn_lower_open_loops(lw, x, sn_node_get(lw->m, x)->type.shape, index);
}

/* What a node says of its kernel stands in the kernel's header. The rule of the operation has read it before. The
 * precision is not for schedules to say. */
static void pin_schedule(sn_lower *lw, sn_nd x) {
    const sn_attr *a = sn_node_attr(lw->m, x, SN_ATTR_SCHEDULE);
    sn_sched *sched = &sn_kern_get(lw->m, lw->kern)->sched;
    if (a) sn_sched_read(sched, lw->m->env, "schedule", a->text);
    sched->precision = sn_node_precision(lw->m, x);
}

/* A kernel that stores every element of x to b, or several for the parts of a long concatenation. */
static void make_kernel(sn_lower *lw, sn_nd x, sn_buf b) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    bool reduces = sn_ops[n->op].cls == SN_OPS_REDUCE;
    if (sn_lower_concat_stored(lw, x, b)) return;
    sn_lower_begin(lw);
    pin_schedule(lw, x);
    sn_ix index[SN_MAX_RANK] = {{0}};
    open_loops(lw, x, index);
    sn_val v[SN_MOST_TOGETHER];
    uint32_t count = 1, axis = together(lw, x);
    sn_lower_states states;
    if (reduces) count = sn_lower_reduction(lw, v, x, index);
    else v[0] = emit_realized(&states, lw, x, index);
    if (sn_lower_always_realized(lw, n)) sn_lower_note(lw, x, lw->first);
    for (uint32_t k = 0; k < count; k++) {
        if (axis < n->type.rank) index[axis] = sn_ix_const(lw->m, k);
        v[k] = sn_put_cast(lw->m, lw->at, n->type.dtype, v[k]);
        sn_put_store(lw->m, lw->at, b, sn_lower_place(lw, x, b, index), v[k]);
    }
    if (lw->nodes[x.i].attention) sn_lower_tell(lw, x, &states, index);
    if (!lw->note.n) sn_lower_from(lw, x);
    sn_lower_end(lw, lw->note.n ? lw->note.s : "copy");
}

void sn_lower_store(sn_lower *lw, sn_nd x, sn_buf b) { make_kernel(lw, x, b); }

/* A copy of the operand, then a kernel over the updates, whose stores go where the index says. */
static void make_scatter(sn_lower *lw, sn_nd x, sn_buf b) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    make_kernel(lw, n->in[0], b);
    sn_lower_begin(lw);
    sn_ix index[SN_MAX_RANK] = {{0}}, rows = n->type.shape[0];
    open_loops(lw, n->in[2], index);
    sn_ix to = sn_lower_from_end(lw, sn_lower_element(lw, n->in[1], index), rows);
    sn_val v = sn_put_cast(lw->m, lw->at, n->type.dtype, sn_lower_element(lw, n->in[2], index));
    sn_val inside = sn_put_in(lw->m, lw->at, to, rows);
    index[0] = sn_lower_clamped(lw, to, rows);
    sn_lower_note(lw, x, lw->first);
    sn_put_store_masked(lw->m, lw->at, b, sn_ix_flatten(lw->m, index, n->type.shape, n->type.rank), v, inside);
    sn_lower_end(lw, lw->note.s);
}

/* The operand and all parts of the updates. */
typedef struct combined {
    sn_lower_parts parts;
    sn_ix at; /* of the element in a part */
} combined;

static void emit_part(sn_lower *lw, void *user, const sn_ix *index, sn_val *yield) {
    const combined *c = user;
    yield[0] = sn_put_load(lw->m, lw->at, c->parts.buf, sn_ix_fma(lw->m, c->parts.size, index[0], c->at));
}

/* The element and what its updates come to. Where that is zero it stays as it is, -0.0 too: there may be none. */
static sn_val combined_with(sn_lower *lw, sn_comb comb, sn_val first, sn_val all) {
    sn_dtype dtype = sn_val_get(lw->m, first)->dtype;
    sn_val v = sn_put_op2(lw->m, lw->at, sn_comb_lops[comb], first, all);
    if (comb != SN_COMB_SUM || !sn_is_float(dtype)) return v;
    sn_val none = sn_put_op2(lw->m, lw->at, SN_LOP_EQ, all, sn_put_const(lw->m, lw->at, dtype, 0));
    return sn_put_op3(lw->m, lw->at, SN_LOP_SELECT, none, first, v);
}

static void make_combining_scatter(sn_lower *lw, sn_nd x, sn_buf b) {
    sn_module *m = lw->m;
    const sn_node_rec *n = sn_node_get(m, x);
    combined c;
    if (!sn_lower_scatter_parts(&c.parts, lw, x)) {
        sn_fail(m->env, SN_ERROR_UNSUPPORTED, "%s: has to be decomposed before to-loops", sn_ops[n->op].name);
        return;
    }
    sn_lower_begin(lw);
    sn_ix index[SN_MAX_RANK] = {{0}}, number = sn_ix_const(m, c.parts.number);
    open_loops(lw, x, index);
    c.at = sn_ix_flatten(m, index, n->type.shape, n->type.rank);
    sn_val part, v = sn_put_cast(m, lw->at, n->type.dtype, sn_lower_element(lw, n->in[0], index));
    for (int64_t p = 0; p < c.parts.number && c.parts.few; p++) {
        sn_ix at = sn_ix_const(m, p);
        emit_part(lw, &c, &at, &part);
        v = sn_put_op2(m, lw->at, sn_comb_lops[c.parts.comb], v, part);
    }
    if (!c.parts.few) {
        sn_lower_reduce_nest(lw, &part, c.parts.comb, 1, &n->type.dtype, &number, 1, emit_part, &c);
        v = combined_with(lw, c.parts.comb, v, part);
    }
    sn_lower_note(lw, x, lw->first);
    sn_put_store(m, lw->at, b, sn_lower_place(lw, x, b, index), v);
    sn_lower_end(lw, lw->note.s);
}

static sn_status check_lowerable(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (sn_lower_is_sort(n) || sn_lower_is_sorted_part(lw, n) || sn_lower_combines(n) || sn_lower_is_repeated(lw, x))
        return SN_OK;
    bool primitive = sn_ops[n->op].cls != SN_OPS_COMPOSITE && n->n_results == 1 && n->op != SN_OP_PROJECT &&
                     (sn_ops[n->op].lop >= 0 || (sn_ops[n->op].cls != SN_OPS_REDUCE && n->op != SN_OP_CLAMP));
    if (primitive) return SN_OK;
    return sn_fail(lw->m->env, SN_ERROR_UNSUPPORTED, "%s: has to be decomposed before to-loops", sn_ops[n->op].name);
}

/* The kernels of a sort, which fill the buffers of its projections. */
static sn_status lower_sort(sn_lower *lw, sn_nd x) {
    sn_buf out[2] = {{0}};
    for (uint32_t i = x.i + 1; i < lw->m->graph.nodes.count; i++) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        if (!lw->nodes[i].live || n->op != SN_OP_PROJECT || !sn_nd_eq(n->in[0], x)) continue;
        if (!lw->nodes[i].buf.i) lw->nodes[i].buf = sn_lower_temp(lw, &n->type);
        out[sn_node_int(lw->m, (sn_nd){i}, SN_ATTR_INDEX, 0)] = lw->nodes[i].buf;
    }
    return sn_lower_sort(lw, x, out);
}

static sn_status lower_node(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(lw->m, x);
    SN_TRY(check_lowerable(lw, x));
    if (n->op == SN_OP_REPEAT) return sn_lower_repeat(lw, x);
    if (n->op == SN_OP_COND) return sn_lower_cond(lw, x);
    if (sn_lower_is_sort(n)) return lower_sort(lw, x);
    if (n->op == SN_OP_INPUT || n->op == SN_OP_PROJECT || sn_lower_is_repeated(lw, x)) return SN_OK;
    if (sn_lower_has_data(n)) {
        /* An output that is a literal: stored by a copy from a buffer of its own. */
        sn_buf out = info->buf;
        make_const_buffer(lw, x, lw->constants++);
        if (out.i) make_kernel(lw, x, out);
        return SN_OK;
    }
    if (!info->realized || info->teller.i || info->made) return SN_OK;
    info->made = true;
    sn_buf b = info->buf;
    if (!b.i) b = sn_lower_temp_of(lw, x);
    info->buf = (sn_buf){0}; /* while its own kernel is made, it is computed, not loaded */
    if (n->op == SN_OP_SCATTER) make_scatter(lw, x, b);
    else if (sn_lower_combines(n)) make_combining_scatter(lw, x, b);
    else make_kernel(lw, x, b);
    info->buf = b;
    return SN_OK;
}

sn_status sn_lower_scope(sn_lower *lw, uint32_t scope, uint32_t end) {
    for (sn_nd x = {1}; x.i < end; x.i++) {
        if (!lw->nodes[x.i].live || lw->scope[x.i] != scope) continue;
        SN_TRY(lower_node(lw, x));
        for (sn_nd y = lw->nodes[x.i].follows; y.i; y = lw->nodes[y.i].beside) SN_TRY(lower_node(lw, y));
    }
    return SN_OK;
}

static void copy_other_outputs(sn_lower *lw) {
    const sn_graph_ir *g = &lw->m->graph;
    for (uint32_t k = 0; k < g->outputs.n; k++)
        if (!lw->outputs[k].claimed) make_kernel(lw, g->outputs.at[k].node, lw->outputs[k].buf);
}

sn_status sn_pass_to_loops(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    sn_graph_ir *g = &m->graph;
    if (g->outputs.n == 0 || m->kernels.n) return SN_OK;
    sn_lower lw = {.cx = cx, .m = m, .nodes = SN_NEWN(cx->scratch, sn_lower_node, g->nodes.count)};
    sn_repeat_scopes scopes;
    lw.outputs = SN_NEWN(cx->scratch, sn_lower_output, g->outputs.n);
    sn_names_init(&lw.names, cx->scratch);
    SN_TRY(sn_repeat_scopes_find(&scopes, m, cx->scratch));
    lw.scope = scopes.of;
    sn_text_init(&lw.note, m->env);
    sn_lower_find_uses(&lw);
    sn_lower_find_ranges(&lw);
    make_input_buffers(&lw);
    SN_TRY(sn_lower_check_sizes(&lw));
    sn_lower_make_states(&lw);
    sn_lower_claim_outputs(&lw);
    sn_lower_make_windows(&lw);
    sn_lower_make_branches(&lw);
    sn_lower_note_crossing(&lw);
    sn_lower_find_attentions(&lw);
    sn_lower_decide(&lw);
    sn_status st = sn_lower_scope(&lw, 0, g->nodes.count);
    if (st == SN_OK) copy_other_outputs(&lw);
    sn_text_free(&lw.note);
    *changed = true;
    return st != SN_OK ? st : m->env->status;
}
