/* decompose_scatter.c: decompositions of scatter_sum and its relatives, for the pass `decompose`.
 *
 *     %y = scatter_sum %x, %index, %updates      index [0, 2, 0]
 *   becomes
 *     %keys, %at = sort of the positions         [0, 0, 2], from updates 0, 2, 1
 *     %v = the updates in that order             log2(M) steps of v[i] = v[i - d] + v[i] where keys[i - d] = keys[i], d = 1, 2, 4, ..
 *     %y = scatter %x, %last, x[keys] + v        %last: keys[i] where i is the last of its key, else R, which is dropped: [R, 0, 2]
 *
 * The sort is stable and the steps are a fixed tree over the updates of a row in their order, so that the same operands
 * give the same bits whatever the schedule. Halves are summed and multiplied in f32. Nothing is stored twice, which is
 * what `scatter` asks for. Cost: a sort of M keys, and log2(M) passes over the updates. Sizes M and R have to be
 * numbers. A scatter into rows that stay in the cache of a core, or in the shared memory of a block, remains one, of f32 for halves, and `to-loops`
 * combines parts of it (base/scatter.c, lower/scatter.c).
 */
#include "passes/base/scatter.h"
#include "passes/graph/decompose.h"

#include "ir/graph/build.h"

static sn_nd node(sn_module *m, sn_op op, sn_nd x, sn_nd y, sn_nd z) {
    sn_nd in[3] = {x, y, z};
    return sn_graph_node(m, op, in, z.i ? 3 : 2, NULL, 0);
}

static sn_nd rows_at(sn_module *m, sn_nd x, sn_nd index) {
    sn_attr axis = {.id = SN_ATTR_AXIS, .i = 0};
    return sn_graph_node(m, SN_OP_INDEX_SELECT, (sn_nd[]){x, index}, 2, &axis, 1);
}

/* Row i + d (d < 0: before) of x in place of row i; `value` where there is none. */
static sn_nd shifted(sn_module *m, sn_nd x, int64_t d, double value) {
    int64_t low[SN_MAX_RANK] = {-d}, high[SN_MAX_RANK] = {d};
    uint32_t rank = sn_type_of(m, x)->rank;
    sn_attr attrs[] = {{.id = SN_ATTR_LOW, .ints = {low, rank}},
                       {.id = SN_ATTR_HIGH, .ints = {high, rank}},
                       {.id = SN_ATTR_VALUE, .f = value}};
    return sn_graph_node(m, SN_OP_PAD, &x, 1, attrs, value != 0 ? 3 : 2);
}

/* A condition for each row, against all elements of rows like those of x. */
static sn_nd for_rows(sn_module *m, sn_nd condition, sn_nd x) {
    static const int64_t axes[] = {1, 2, 3, 4, 5, 6, 7};
    uint32_t more = sn_type_of(m, x)->rank - 1;
    return more ? sn_graph_unsqueeze(m, condition, axes, more) : condition;
}

/* 0 .. rows-1 for a row of x, `rows` for one outside. */
static sn_nd keys_of(sn_module *m, sn_nd index, int64_t rows) {
    if (sn_type_of(m, index)->dtype == SN_U64) /* else the largest would become negative */
        index = sn_graph_binary(m, SN_OP_MINIMUM, index, sn_dec_scalar(m, index, (double)rows));
    sn_nd i = sn_graph_cast(m, index, SN_I64), zero = sn_dec_scalar(m, i, 0), n = sn_dec_scalar(m, i, (double)rows);
    sn_nd wrapped = sn_graph_binary(m, SN_OP_ADD, i, n);
    sn_nd key = node(m, SN_OP_WHERE, sn_graph_binary(m, SN_OP_LT, i, zero), wrapped, i);
    sn_nd below = sn_graph_binary(m, SN_OP_LT, key, zero), above = sn_graph_binary(m, SN_OP_GE, key, n);
    key = node(m, SN_OP_WHERE, sn_graph_binary(m, SN_OP_OR, below, above), n, key);
    return rows < INT32_MAX ? sn_graph_cast(m, key, SN_I32) : key;
}

static sn_op combiner(sn_op op) {
    if (op == SN_OP_SCATTER_SUM) return SN_OP_ADD;
    if (op == SN_OP_SCATTER_PROD) return SN_OP_MUL;
    return op == SN_OP_SCATTER_MAX ? SN_OP_MAXIMUM : SN_OP_MINIMUM;
}

/* Are its rows few enough to be summed up apart, part by part? */
static bool has_few_rows(const sn_pass_ctx *cx, sn_nd in, int64_t rows, int64_t count) {
    sn_scatter_plan plan;
    int64_t width;
    const sn_type *t = sn_type_of(cx->m, in);
    if (!sn_ix_is_const(cx->m, sn_ix_product(cx->m, t->shape + 1, t->rank - 1), &width)) return false;
    return sn_scatter_plan_make(&plan, cx->target, sn_dtype_bytes(t->dtype), rows, width, count);
}

sn_nd sn_dec_scatter_reduce(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *n = sn_node_get(m, x);
    sn_nd in = sn_dec_operand(m, x, 0), updates = sn_dec_operand(m, x, 2), index = n->in[1];
    sn_op comb = combiner(n->op);
    int64_t rows, count;
    if (!sn_ix_is_const(m, sn_type_of(m, in)->shape[0], &rows)) return x;
    if (!sn_ix_is_const(m, sn_type_of(m, index)->shape[0], &count)) return x;
    if (rows == 0 || count == 0) return n->in[0];
    if (has_few_rows(cx, in, rows, count)) return sn_graph_scatter(m, n->op, in, index, updates);
    sn_attr axis = {.id = SN_ATTR_AXIS, .i = 0};
    sn_nd keys = keys_of(m, index, rows), sorted = sn_graph_node(m, SN_OP_SORT, &keys, 1, &axis, 1);
    keys = sn_graph_project(m, sorted, 0);
    sn_nd v = rows_at(m, updates, sn_graph_project(m, sorted, 1));
    for (int64_t d = 1; d < count; d *= 2) {
        sn_nd same = sn_graph_binary(m, SN_OP_EQ, shifted(m, keys, -d, -1), keys);
        v = node(m, SN_OP_WHERE, for_rows(m, same, v), sn_graph_binary(m, comb, shifted(m, v, -d, 0), v), v);
    }
    sn_nd is_last = sn_graph_binary(m, SN_OP_NE, shifted(m, keys, 1, -1), keys);
    sn_nd to = node(m, SN_OP_WHERE, is_last, keys, sn_dec_scalar(m, keys, (double)rows));
    sn_nd inside = sn_graph_binary(m, SN_OP_MINIMUM, keys, sn_dec_scalar(m, keys, (double)(rows - 1)));
    return node(m, SN_OP_SCATTER, in, to, sn_graph_binary(m, comb, rows_at(m, in, inside), v));
}
