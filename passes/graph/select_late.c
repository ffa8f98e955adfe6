/* select_late.c: the pass `select-late`: rows that are looked up are looked up after what is computed of each, where that is computed less often.
 *
 *     %r = index_select %x, %low axis=0       %s = index_select %x, %high axis=0            x: n rows, low and high: m places each
 *     %a = f(%r)                              %b = f(%s)                  y = g(%a, %b)      2 m rows of f
 *  -> %h = f(%x)                                                                             n rows of f
 *     %a = index_select %h, %low axis=0       %b = index_select %h, %high axis=0
 *
 * Images are resized so: each row of the result lies between two or four of the image's, whose columns are looked up, weighed and added
 * up, for every row of the result again. So are what ends of edges tell of their nodes. A select along an outer axis goes past one along
 * an inner one, and past operations element by element whose other operands are the same all along the axis:
 *
 *     index_select (index_select %x, %low axis=0), %c axis=1  ->  index_select (index_select %x, %c axis=1), %low axis=0
 *
 * Legal: the same operations on the same elements, bit by bit; an index that is taken for another one, since it lies outside, is so on an axis of
 * the same extent. Cost: a kernel for h, whose elements are stored and read, against what is saved (sn_lookups_pay): f is computed for n
 * rows in place of as many as all selects together have. CPU alone: a GPU looks up what a cache has without waiting for it. Linear in
 * nodes.
 */
#include "ir/graph/build.h"
#include "ir/graph/internal.h"
#include "passes/base/costs.h"
#include "passes/base/lookups.h"
#include "passes/graph/rewrite.h"

/* What a node is: rows `index` of a node that is computed of whole axes. */
typedef struct late {
    sn_nd index;           /* none: it is nothing of the kind */
    uint32_t from_end;     /* the axis, 1 for the last one */
    int64_t rows;          /* extent of the axis before the select */
    uint64_t key;          /* of what is computed: the same for all selects of it */
    sn_lookup_cost cost;   /* of an element of that */
    bool computes, needed; /* more than to select; a select of it is put behind it, or it is part of one */
    bool put;              /* it becomes a select of `whole` */
    sn_nd whole;           /* in the new graph, once it is there */
} late;

typedef struct group {
    uint64_t key;
    double selected, rows;
    sn_lookup_cost cost;
} group;

typedef struct selecting {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_graph_ir old;
    uint32_t n, at, *order; /* live nodes but inputs, as the rewrite walks them */
    late *of;               /* by old id */
    sn_nd *now;             /* old id to new one */
    SN_VEC(group) groups;
    uint32_t *slots, mask; /* places of groups plus 1, by their keys; 0: free */
} selecting;

static const sn_node_rec *old_node(const selecting *s, sn_nd x) { return sn_table_at(&s->old.nodes, x.i); }

/* ---- which nodes are rows of something ---- */

/* Extent of the axis that is the from_end-th from the last one on; 1 where there is none, 0: nobody knows. */
static int64_t extent(const sn_module *m, const sn_type *t, uint32_t from_end) {
    int64_t n;
    if (t->rank < from_end) return 1;
    return sn_ix_is_const(m, t->shape[t->rank - from_end], &n) ? n : 0;
}

/* A select past the one that its operand is, if that is of an axis further out; else one of its own. */
static void find_select(late *out, const selecting *s, sn_nd x) {
    const sn_node_rec *n = old_node(s, x), *from = old_node(s, n->in[0]);
    const late *inner = &s->of[n->in[0].i];
    uint32_t from_end = from->type.rank - (uint32_t)sn_node_int(s->m, x, SN_ATTR_AXIS, 0);
    int64_t rows = extent(s->m, &from->type, from_end);
    if (old_node(s, n->in[1])->type.rank != 1 || rows < 1) return;
    if (inner->index.i && inner->from_end > from_end) {
        *out = *inner;
        out->key = sn_hash(sn_hash(inner->key, sn_node_hash_what(n)), n->in[1].i);
        out->cost = sn_lookup_cost_of_select(&inner->cost, from_end == 1);
        out->computes = true;
        return;
    }
    *out = (late){.index = n->in[1], .from_end = from_end, .rows = rows, .key = sn_hash(from_end, n->in[0].i)};
    out->cost.reads = 1;
}

/* Element by element of rows of one select, and of what is the same for all rows. */
static void find_element(late *out, const selecting *s, sn_nd x) {
    const sn_node_rec *n = old_node(s, x);
    late all = {.key = sn_node_hash_what(n), .cost.ops = sn_node_work(n), .computes = true};
    for (uint32_t k = 0; k < n->n_in; k++) {
        const late *in = &s->of[n->in[k].i];
        if (!in->index.i) continue;
        bool one =
            !all.index.i || (sn_nd_eq(all.index, in->index) && all.from_end == in->from_end && all.rows == in->rows);
        if (!one) return;
        all.index = in->index, all.from_end = in->from_end, all.rows = in->rows;
    }
    if (!all.index.i) return;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const late *in = &s->of[n->in[k].i];
        if (!in->index.i && extent(s->m, &old_node(s, n->in[k])->type, all.from_end) != 1) return;
        all.key = sn_hash(sn_hash(all.key, k), in->index.i ? in->key : n->in[k].i);
        sn_lookup_cost_add(&all.cost, &in->cost);
    }
    *out = all;
}

static bool goes_on(const late *a, const late *b) {
    return a->index.i && sn_nd_eq(a->index, b->index) && a->from_end == b->from_end && a->rows == b->rows;
}

/* ---- where a select is put ---- */

/* Elements of x, of which the axis of the select is `rows` long. */
static double elements(const selecting *s, sn_nd x, const late *l, double rows) {
    const sn_type *t = &old_node(s, x)->type;
    for (uint32_t k = 0; k < t->rank; k++)
        rows *= k == t->rank - l->from_end ? 1 : (double)extent(s->m, t, t->rank - k);
    return rows;
}

static double selected(const selecting *s, sn_nd x, const late *l) {
    return elements(s, x, l, (double)extent(s->m, &old_node(s, x)->type, l->from_end));
}

/* The slot that has the key, or would have it. Groups are at most half of the slots. */
static uint32_t *slot_of(const selecting *s, uint64_t key) {
    uint32_t at = (uint32_t)key & s->mask;
    while (s->slots[at] && s->groups.at[s->slots[at] - 1].key != key) at = (at + 1) & s->mask;
    return &s->slots[at];
}

static void make_slots(selecting *s) {
    uint64_t size = 4;
    while (size < 2 * (uint64_t)s->n) size *= 2;
    s->mask = (uint32_t)(size - 1);
    s->slots = SN_NEWN(s->cx->scratch, uint32_t, size);
}

static void count_select(selecting *s, sn_nd x) {
    const late *l = &s->of[x.i];
    uint32_t *slot = slot_of(s, l->key);
    if (!*slot) {
        group one = {.key = l->key, .rows = elements(s, x, l, (double)l->rows), .cost = l->cost};
        SN_PUSH(s->cx->scratch, &s->groups, one);
        *slot = s->groups.n;
    }
    s->groups.at[*slot - 1].selected += selected(s, x, l);
}

/* Somebody reads it otherwise than as rows of the same select. */
static void find_last(selecting *s, bool *last) {
    for (uint32_t i = 0; i < s->n; i++) {
        sn_nd x = {s->order[i]};
        const sn_node_rec *n = old_node(s, x);
        for (uint32_t k = 0; k < n->n_in; k++) last[n->in[k].i] |= !goes_on(&s->of[x.i], &s->of[n->in[k].i]);
    }
    for (uint32_t k = 0; k < s->old.outputs.n; k++) last[s->old.outputs.at[k].node.i] = true;
}

/* All of what a select that is put stands behind is built of whole axes. */
static void mark_needed(selecting *s) {
    for (uint32_t i = s->n; i-- > 0;) {
        sn_nd x = {s->order[i]};
        const sn_node_rec *n = old_node(s, x);
        if (!s->of[x.i].needed) continue;
        for (uint32_t k = 0; k < n->n_in; k++) s->of[n->in[k].i].needed |= goes_on(&s->of[x.i], &s->of[n->in[k].i]);
    }
}

static bool look(selecting *s) {
    bool *last = SN_NEWN(s->cx->scratch, bool, s->old.nodes.count), any = false;
    for (uint32_t i = 0; i < s->n; i++) {
        sn_nd x = {s->order[i]};
        const sn_node_rec *n = old_node(s, x);
        if (n->op == SN_OP_INDEX_SELECT) find_select(&s->of[x.i], s, x);
        else if (sn_node_is_elementwise(n)) find_element(&s->of[x.i], s, x);
    }
    find_last(s, last);
    make_slots(s);
    for (uint32_t i = 0; i < s->n; i++)
        if (last[s->order[i]] && s->of[s->order[i]].computes) count_select(s, (sn_nd){s->order[i]});
    for (uint32_t i = 0; i < s->n; i++) {
        late *l = &s->of[s->order[i]];
        if (!last[s->order[i]] || !l->computes) continue;
        const group *g = &s->groups.at[*slot_of(s, l->key) - 1];
        if (!sn_lookups_pay(&g->cost, g->selected, g->rows, false)) continue;
        l->put = l->needed = any = true;
    }
    mark_needed(s);
    return any;
}

/* ---- building ---- */

/* The node of the new graph that the old node x has become. */
static sn_nd now(const selecting *s, sn_nd x) {
    const sn_node_rec *n = old_node(s, x);
    return n->op == SN_OP_INPUT ? s->m->graph.inputs.at[n->input].node : s->now[x.i];
}

/* What the old node x is rows of, in the new graph. */
static sn_nd build_whole(selecting *s, sn_nd x) {
    const sn_node_rec *n = old_node(s, x);
    sn_nd *in = SN_NEWN(s->cx->scratch, sn_nd, n->n_in + 1);
    bool select = n->op == SN_OP_INDEX_SELECT;
    if (select && !s->of[x.i].computes) return now(s, n->in[0]);
    for (uint32_t k = 0; k < n->n_in; k++) {
        bool rows = goes_on(&s->of[x.i], &s->of[n->in[k].i]);
        in[k] = rows ? s->of[n->in[k].i].whole : now(s, n->in[k]);
    }
    return sn_graph_node(s->m, n->op, in, n->n_in, n->attrs, n->n_attrs);
}

static sn_nd rule(sn_pass_ctx *cx, sn_nd x) {
    selecting *s = cx->notes;
    SN_ASSERT(s->at < s->n);
    sn_nd was = {s->order[s->at++]};
    late *l = &s->of[was.i];
    if (l->needed && !(l->whole = build_whole(s, was)).i) return l->whole;
    if (l->put) {
        uint32_t axis = old_node(s, was)->type.rank - l->from_end;
        x = sn_graph_index_select(cx->m, l->whole, now(s, l->index), axis);
    }
    return s->now[was.i] = x;
}

static bool looks_up(const selecting *s) {
    for (uint32_t i = 0; i < s->n; i++)
        if (old_node(s, (sn_nd){s->order[i]})->op == SN_OP_INDEX_SELECT) return true;
    return false;
}

sn_status sn_pass_select_late(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    uint32_t count = m->graph.nodes.count;
    if (cx->target->is_gpu || m->kernels.n || count <= 1) return SN_OK; /* kernels stand for the graph */
    selecting s = {.cx = cx, .m = m, .old = m->graph};
    uint8_t *live = SN_NEWN(cx->scratch, uint8_t, count);
    s.order = SN_NEWN(cx->scratch, uint32_t, count);
    sn_graph_live(m, live);
    for (uint32_t i = 1; i < count; i++)
        if (live[i] && sn_node_get(m, (sn_nd){i})->op != SN_OP_INPUT) s.order[s.n++] = i;
    if (!looks_up(&s)) return SN_OK;
    s.of = SN_NEWN(cx->scratch, late, count), s.now = SN_NEWN(cx->scratch, sn_nd, count);
    if (!look(&s)) return SN_OK;
    cx->notes = &s;
    sn_status status = sn_graph_rewrite(cx, rule, changed);
    cx->notes = NULL;
    return status;
}
