/* repeat.c: repeats in the pass `to-loops`: their buffers, and their kernels in sections.
 *
 *     %h = repeat_state %h0 ..  %x = repeat_slice %xs ..        kernel @k0(h0, h)       section 0: h = h0
 *     %h1 = tanh (%h + %x)                                ->    kernel @k1(h, x, h1)    section 1: in each step
 *     %r = repeat %h, %h1, %h1 ..                               kernel @k2(h1, y_t)     section 1
 *                                                               what reads h, y         section 2
 *     repeat steps 512 sections 1 1 { window x from xs  window y_t from y  carry h from h1 }
 *
 * A state has two buffers, of this step and of the next; which of them can be one is seen in the plan. A slice is a window of what
 * it is of, which is realized; so is an element of a stack. What a step makes stores straight there, and where it goes to
 * several places a copy does the rest, which `fuse` joins with it. What is computed outside of a repeat and read inside is
 * realized unless it is a view, a literal or a cast that widens: it is the same in all steps. A stack that nobody reads is
 * not stored. What a step says of whether there is a next one has a buffer of its own, which the wrapper reads.
 */
#include "ir/graph/repeat.h"

#include "ir/graph/cond.h"
#include "passes/lower/lower.h"

/* ---- what a repeat is made of ---- */

static const sn_node_rec *node_of(const sn_lower *lw, sn_nd x) { return sn_node_get(lw->m, x); }

static uint32_t states_of(const sn_lower *lw, sn_nd repeat) {
    return (uint32_t)sn_node_int(lw->m, repeat, SN_ATTR_STATES, 0);
}

/* What says whether there is a next step; none: there is as long as steps are left. */
static sn_nd goes_on(const sn_lower *lw, sn_nd repeat) {
    bool is = sn_node_int(lw->m, repeat, SN_ATTR_WHILE, 0);
    return is ? node_of(lw, repeat)->in[2 * states_of(lw, repeat)] : (sn_nd){0};
}

static bool is_source(const sn_node_rec *n) {
    return n->op == SN_OP_INPUT || n->op == SN_OP_CONSTANT || n->op == SN_OP_WEIGHT;
}

bool sn_lower_is_repeated(const sn_lower *lw, sn_nd x) {
    uint32_t index;
    return sn_ops[node_of(lw, x)->op].cls == SN_OPS_REPEAT || sn_repeat_result(&index, lw->m, x).i ||
           sn_cond_result(&index, lw->m, x).i;
}

/* ---- buffers ---- */

static const char *name_of(const sn_lower *lw, sn_nd x, const char *otherwise) {
    const char *name = node_of(lw, x)->name;
    return name ? name : otherwise;
}

/* What begins at any multiple of `rows` elements of b is aligned so. */
static uint32_t align_of_rows(const sn_lower *lw, sn_buf b, sn_ix rows) {
    const sn_buf_rec *r = sn_buf_get(lw->m, b);
    uint32_t bytes = sn_dtype_bytes(r->dtype), align = r->align;
    int64_t n;
    if (!sn_ix_is_const(lw->m, rows, &n)) return bytes < align ? bytes : align;
    while (align > 1 && n * bytes % align) align /= 2;
    return align;
}

/* Element t of the first axis of `of` in step t, or from its end. */
static sn_buf add_window(sn_lower *lw, sn_repeat_rec *r, const char *name, const sn_type *type, sn_buf of,
                         bool reverse) {
    sn_module *m = lw->m;
    sn_ix rows = sn_type_numel(m, type), zero = sn_ix_const(m, 0);
    sn_ix last = sn_ix_mul(m, sn_ix_addc(m, r->trip, -1), rows);
    sn_buf b = sn_lower_buffer(lw, name, type, SN_BUF_STEP);
    sn_buf_get(m, b)->align = align_of_rows(lw, of, rows);
    sn_repeat_window w = {b, of, reverse ? last : zero, reverse ? sn_ix_sub(m, zero, rows) : rows};
    SN_PUSH(&m->arena, &r->windows, w);
    return b;
}

sn_nd sn_lower_result_of(const sn_lower *lw, sn_nd repeat, uint32_t index) {
    if (node_of(lw, repeat)->n_results == 1) return repeat;
    for (sn_nd x = {repeat.i + 1}; x.i < lw->m->graph.nodes.count; x.i++) {
        const sn_node_rec *n = node_of(lw, x);
        bool is = n->op == SN_OP_PROJECT && sn_nd_eq(n->in[0], repeat) && lw->nodes[x.i].live;
        if (is && sn_node_int(lw->m, x, SN_ATTR_INDEX, 0) == index) return x;
    }
    return (sn_nd){0};
}

void sn_lower_give(sn_lower *lw, sn_nd x, sn_buf b) {
    if (!x.i) return;
    lw->nodes[x.i].buf = b;
    lw->nodes[x.i].realized = true;
}

void sn_lower_make_states(sn_lower *lw) {
    sn_module *m = lw->m;
    lw->repeats = SN_NEWN(lw->cx->scratch, sn_repeat_rec, m->graph.nodes.count);
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++) {
        if (!lw->nodes[x.i].live || node_of(lw, x)->op != SN_OP_REPEAT) continue;
        sn_repeat_rec *r = &lw->repeats[x.i];
        r->trip = sn_node_attr(m, x, SN_ATTR_TRIP)->shape.at[0];
        for (uint32_t k = 0; k < states_of(lw, x); k++) {
            sn_nd state = node_of(lw, x)->in[k];
            const char *name = name_of(lw, state, "h");
            sn_carry c = {.state = sn_lower_buffer(lw, name, &node_of(lw, state)->type, SN_BUF_STEP)};
            c.next = sn_lower_buffer(lw, sn_strf(&m->arena, "%s_next", name), &node_of(lw, state)->type, SN_BUF_STEP);
            SN_PUSH(&m->arena, &r->carries, c);
            sn_lower_give(lw, state, c.state);
            sn_lower_give(lw, sn_lower_result_of(lw, x, k), c.state);
        }
        sn_nd more = goes_on(lw, x);
        if (more.i) r->flag = sn_lower_buffer(lw, name_of(lw, more, "more"), &node_of(lw, more)->type, SN_BUF_STEP);
    }
}

static bool stacks_backwards(const sn_lower *lw, sn_nd repeat, uint32_t stack) {
    const sn_attr *back = sn_node_attr(lw->m, repeat, SN_ATTR_BACKWARDS);
    for (uint32_t k = 0; back && k < back->ints.n; k++)
        if (back->ints.at[k] == stack) return true;
    return false;
}

void sn_lower_claim(sn_lower *lw, uint32_t scope, sn_nd x, sn_buf b) {
    bool inside = lw->scope[x.i] == scope && !sn_lower_is_repeated(lw, x);
    if (inside && !lw->nodes[x.i].buf.i && !is_source(node_of(lw, x))) sn_lower_give(lw, x, b);
}

/* One of an inner repeat, whose steps store straight to this one's. */
static bool is_stack(const sn_lower *lw, sn_nd y) {
    uint32_t index;
    sn_nd repeat = sn_repeat_result(&index, lw->m, y);
    return repeat.i && index >= states_of(lw, repeat);
}

static void make_stacks(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = node_of(lw, x);
    uint32_t states = states_of(lw, x);
    sn_buf *rows = lw->nodes[x.i].rows = SN_NEWN(lw->cx->scratch, sn_buf, n->n_results);
    for (uint32_t k = states; k < n->n_results; k++) {
        sn_nd result = sn_lower_result_of(lw, x, k);
        if (!result.i) continue;
        if (!lw->nodes[result.i].buf.i)
            sn_lower_give(lw, result,
                          sn_lower_buffer(lw, name_of(lw, result, "y"), &node_of(lw, result)->type, SN_BUF_STEP));
        sn_nd y = n->in[states + k];
        rows[k] = add_window(lw, &lw->repeats[x.i], sn_strf(&lw->m->arena, "%s_t", name_of(lw, y, "y")),
                             &node_of(lw, y)->type, lw->nodes[result.i].buf, stacks_backwards(lw, x, k - states));
        if (is_stack(lw, y) && lw->scope[y.i] == x.i && !lw->nodes[y.i].buf.i) sn_lower_give(lw, y, rows[k]);
    }
}

static void make_slice(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = node_of(lw, x);
    sn_nd of = n->in[0];
    bool given = is_source(node_of(lw, of)) || lw->nodes[of.i].buf.i;
    if (!given) sn_lower_give(lw, of, sn_lower_buffer(lw, name_of(lw, of, "s"), &node_of(lw, of)->type, SN_BUF_STEP));
    lw->nodes[x.i].realized = true; /* its window is made when what it is of has a buffer */
}

void sn_lower_make_windows(sn_lower *lw) {
    sn_module *m = lw->m;
    for (sn_nd x = {m->graph.nodes.count}; x.i-- > 1;) /* the outer ones first */
        if (lw->nodes[x.i].live && node_of(lw, x)->op == SN_OP_REPEAT) make_stacks(lw, x);
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++)
        if (lw->nodes[x.i].live && node_of(lw, x)->op == SN_OP_REPEAT_SLICE) make_slice(lw, x);
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++) {
        const sn_node_rec *n = node_of(lw, x);
        if (!lw->nodes[x.i].live || n->op != SN_OP_REPEAT) continue;
        uint32_t states = states_of(lw, x);
        for (uint32_t k = 0; k < states; k++)
            sn_lower_claim(lw, x.i, n->in[states + k], lw->repeats[x.i].carries.at[k].next);
        for (uint32_t k = states; k < n->n_results; k++)
            if (lw->nodes[x.i].rows[k].i) sn_lower_claim(lw, x.i, n->in[states + k], lw->nodes[x.i].rows[k]);
        if (lw->repeats[x.i].flag.i) sn_lower_claim(lw, x.i, goes_on(lw, x), lw->repeats[x.i].flag);
    }
}

/* ---- what is the same in all steps ---- */

static bool is_seen_through(const sn_lower *lw, const sn_node_rec *n) {
    if (n->op == SN_OP_CAST) return sn_dtype_widens(sn_node_get(lw->m, n->in[0])->type.dtype, n->type.dtype);
    return sn_ops[n->op].cls == SN_OPS_VIEW;
}

/* The innermost repeat of a scope. */
static uint32_t repeat_of(const sn_lower *lw, uint32_t scope) {
    while (scope && node_of(lw, sn_scope_node(lw->m, scope))->op != SN_OP_REPEAT)
        scope = lw->scope[sn_scope_node(lw->m, scope).i];
    return scope;
}

void sn_lower_note_crossing(sn_lower *lw) {
    for (sn_nd x = {1}; x.i < lw->m->graph.nodes.count; x.i++) {
        const sn_node_rec *n = node_of(lw, x);
        uint32_t repeat = lw->nodes[x.i].live ? repeat_of(lw, lw->scope[x.i]) : 0;
        if (!repeat || n->op == SN_OP_REPEAT_STATE) continue;
        for (uint32_t k = 0; k < n->n_in; k++) {
            sn_nd in = n->in[k];
            uint32_t of = repeat_of(lw, lw->scope[in.i]);
            if (of == repeat || of == x.i) continue;
            while (is_seen_through(lw, node_of(lw, in))) in = node_of(lw, in)->in[0];
            lw->nodes[in.i].crosses = true;
        }
    }
}

/* ---- kernels ---- */

void sn_lower_begin_section(sn_lower *lw) { lw->section = ++lw->sections; }

/* A slice's window, once what it is of has a buffer. */
static void make_slice_windows(sn_lower *lw, sn_nd repeat) {
    for (sn_nd x = {1}; x.i < repeat.i; x.i++) {
        const sn_node_rec *n = node_of(lw, x);
        if (!lw->nodes[x.i].live || n->op != SN_OP_REPEAT_SLICE || lw->scope[x.i] != repeat.i) continue;
        const char *name = sn_strf(&lw->m->arena, "%s_t", name_of(lw, n->in[0], "s"));
        lw->nodes[x.i].buf = add_window(lw, &lw->repeats[repeat.i], name, &n->type, lw->nodes[n->in[0].i].buf,
                                        sn_node_int(lw->m, x, SN_ATTR_REVERSE, 0));
    }
}

void sn_lower_store_rest(sn_lower *lw, sn_nd x, sn_buf b) {
    if (b.i && !sn_buf_eq(lw->nodes[x.i].buf, b)) sn_lower_store(lw, x, b);
}

sn_status sn_lower_repeat(sn_lower *lw, sn_nd x) {
    sn_module *m = lw->m;
    const sn_node_rec *n = node_of(lw, x);
    sn_repeat_rec *r = &lw->repeats[x.i];
    uint32_t states = states_of(lw, x), at = m->repeats.n;
    for (uint32_t k = 0; k < states; k++) sn_lower_store(lw, node_of(lw, n->in[k])->in[0], r->carries.at[k].state);
    SN_PUSH(&m->arena, &m->repeats, *r); /* those inside stand behind it */
    sn_lower_begin_section(lw);
    r->first = lw->section;
    make_slice_windows(lw, x);
    SN_TRY(sn_lower_scope(lw, x.i, x.i));
    for (uint32_t k = 0; k < states; k++) sn_lower_store_rest(lw, n->in[states + k], r->carries.at[k].next);
    for (uint32_t k = states; k < n->n_results; k++) sn_lower_store_rest(lw, n->in[states + k], lw->nodes[x.i].rows[k]);
    if (r->flag.i) sn_lower_store_rest(lw, goes_on(lw, x), r->flag);
    r->last = lw->section;
    m->repeats.at[at] = *r;
    sn_lower_begin_section(lw);
    return SN_OK;
}
