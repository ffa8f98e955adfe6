/* decompose_scatter.c: decompositions of scatter_sum and its relatives, for the pass `decompose`.
 *
 *     %y = scatter_sum %x, %index, %updates      index [0, 2, 0]
 *   becomes
 *     %keys, %at = sort of the positions         [0, 0, 2], from updates 0, 2, 1
 *     %v = the updates in that order             in groups of RUN: at each the sum of those of its group that have its key
 *     %c = the sums of the groups' last keys     added up alike, until one group is left; v[i] += c of the group before, where its
 *                                                last key is that of i
 *     %y = scatter %x, %last, x[keys] + v        %last: keys[i] where i is the last of its key, else R, which is dropped: [R, 0, 2]
 *
 * The sort is stable, and what is added up are sums over the updates of a row in their order, so that the same operands give the
 * same bits in each run. What v is at others than the last of a key nobody reads. Halves are summed and multiplied in f32. Nothing
 * is stored twice, which is what `scatter` asks for. Cost: a sort of M keys, and a few passes over the updates: two kernels for each level
 * of groups, of which the second has a RUNth of the first. The width of a group is what a thread adds up. Sizes M and R have to be
 * numbers. A scatter into rows that stay in the cache of a core, or in the shared memory of a block, remains one, of f32 for halves, and `to-loops`
 * combines parts of it (base/scatter.c, lower/scatter.c).
 */
#include "passes/base/scatter.h"
#include "passes/graph/decompose.h"

#include "ir/graph/build.h"
#include "ir/ops/scalar.h"

enum { RUN = 16 };

static sn_nd node(sn_module *m, sn_op op, sn_nd x, sn_nd y, sn_nd z) {
    sn_nd in[3] = {x, y, z};
    return sn_graph_node(m, op, in, z.i ? 3 : 2, NULL, 0);
}

static sn_nd rows_at(sn_module *m, sn_nd x, sn_nd index) {
    sn_attr axis = {.id = SN_ATTR_AXIS, .i = 0};
    return sn_graph_node(m, SN_OP_INDEX_SELECT, (sn_nd[]){x, index}, 2, &axis, 1);
}

/* `low` positions before axis `axis` of x, and `high` behind it (fewer than none: these go), of `value`. */
static sn_nd padded(sn_module *m, sn_nd x, uint32_t axis, int64_t low, int64_t high, double value) {
    int64_t before[SN_MAX_RANK] = {0}, behind[SN_MAX_RANK] = {0};
    before[axis] = low, behind[axis] = high;
    return sn_graph_pad(m, x, before, behind, value);
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

typedef struct combiner {
    sn_op op, reduce;
    sn_comb comb; /* what is neutral */
} combiner;

static const combiner COMBINERS[SN_N_OPS] = {
    [SN_OP_SCATTER_SUM] = {SN_OP_ADD, SN_OP_SUM, SN_COMB_SUM},
    [SN_OP_SCATTER_PROD] = {SN_OP_MUL, SN_OP_PROD, SN_COMB_PROD},
    [SN_OP_SCATTER_MAX] = {SN_OP_MAXIMUM, SN_OP_AMAX, SN_COMB_MAX},
    [SN_OP_SCATTER_MIN] = {SN_OP_MINIMUM, SN_OP_AMIN, SN_COMB_MIN},
};

/* Are its rows few enough to be summed up apart, part by part? */
static bool has_few_rows(const sn_pass_ctx *cx, sn_nd in, int64_t rows, int64_t count) {
    sn_scatter_plan plan;
    int64_t width;
    const sn_type *t = sn_type_of(cx->m, in);
    if (!sn_ix_is_const(cx->m, sn_ix_product(cx->m, t->shape + 1, t->rank - 1), &width)) return false;
    return sn_scatter_plan_make(&plan, cx->target, sn_dtype_bytes(t->dtype), rows, width, count);
}

/* x where the condition holds, of each of its rows, else what is neutral. */
static sn_nd where_same(sn_module *m, combiner c, sn_nd condition, sn_nd x) {
    sn_dtype dtype = sn_type_of(m, x)->dtype;
    sn_scalar none[2];
    sn_scalar_identity(c.comb, dtype, none);
    sn_nd nothing =
        sn_is_float(dtype) ? sn_graph_scalar(m, dtype, none[0].f) : sn_graph_ints(m, dtype, &none[0].i, NULL, 0);
    return sn_graph_where(m, sn_graph_unsqueeze(m, condition, (int64_t[]){-1}, 1), x, nothing);
}

/* What of x [groups, run, width] has in its group the key that `of` says, [groups, n]: [groups, n, width]. */
static sn_nd sums_in_groups(sn_module *m, combiner c, sn_nd keys, sn_nd x, sn_nd of) {
    static const int64_t one = 1, two = 2;
    sn_nd same = sn_graph_binary(m, SN_OP_EQ, sn_graph_unsqueeze(m, keys, &one, 1), sn_graph_unsqueeze(m, of, &two, 1));
    sn_nd all = where_same(m, c, same, sn_graph_unsqueeze(m, x, &one, 1));
    sn_nd sums = sn_graph_cast(m, sn_dec_reduce(m, c.reduce, all, 1u << 2),
                               sn_type_of(m, x)->dtype); /* sums of integers are of 64 bits */
    return sn_dec_squeeze(m, sums, 1u << 2);
}

/* Sorted keys [count], values [count, width]: what those of a key come to at the last one of them; whatever, at others. */
static sn_nd sums_of_runs(sn_module *m, combiner c, sn_nd keys, sn_nd x, int64_t count) {
    static const int64_t one = 1;
    int64_t run = count < RUN ? count : RUN, groups = (count + run - 1) / run, more = groups * run - count;
    sn_ix width = sn_type_of(m, x)->shape[1], sizes[] = {sn_ix_const(m, groups), sn_ix_const(m, run), width};
    if (more) keys = padded(m, keys, 0, 0, more, -1), x = padded(m, x, 0, 0, more, 0);
    keys = sn_graph_reshape(m, keys, sizes, 2), x = sn_graph_reshape(m, x, sizes, 3);
    sn_nd v = sums_in_groups(m, c, keys, x, keys);
    if (groups > 1) {
        sn_nd last = sn_graph_slice(m, keys, 1, run - 1, run, 1), ends = sn_graph_pick(m, keys, 1, run - 1);
        sn_nd sums = sn_graph_pick(m, sums_in_groups(m, c, keys, x, last), 1, 0);
        sn_nd here = sn_graph_unsqueeze(m, sums_of_runs(m, c, ends, sums, groups), &one, 1);
        sn_nd same = sn_graph_binary(m, SN_OP_EQ, padded(m, last, 0, 1, -1, -1), keys);
        v = sn_graph_binary(m, c.op, where_same(m, c, same, padded(m, here, 0, 1, -1, 0)), v);
        sn_nd at = sn_graph_iota(m, SN_I32, 0, sizes + 1, 1), end = sn_dec_scalar(m, at, (double)(run - 1));
        sn_nd is_end = sn_graph_unsqueeze(m, sn_graph_binary(m, SN_OP_EQ, at, end), &one, 1);
        v = sn_graph_where(m, is_end, here, v);
    }
    v = sn_graph_reshape(m, v, (sn_ix[]){sn_ix_const(m, groups * run), width}, 2);
    return more ? sn_graph_slice(m, v, 0, 0, count, 1) : v;
}

sn_nd sn_dec_scatter_reduce(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *n = sn_node_get(m, x);
    combiner c = COMBINERS[n->op];
    sn_op op = n->op;
    sn_nd in = sn_dec_operand(m, x, 0), updates = sn_dec_operand(m, x, 2), index = sn_node_get(m, x)->in[1];
    sn_type type = *sn_type_of(m, updates);
    int64_t rows, count;
    if (!sn_ix_is_const(m, sn_type_of(m, in)->shape[0], &rows)) return x;
    if (!sn_ix_is_const(m, type.shape[0], &count)) return x;
    if (rows == 0 || count == 0) return sn_node_get(m, x)->in[0];
    if (has_few_rows(cx, in, rows, count)) return sn_graph_scatter(m, op, in, index, updates);
    sn_attr axis = {.id = SN_ATTR_AXIS, .i = 0};
    sn_nd keys = keys_of(m, index, rows), sorted = sn_graph_node(m, SN_OP_SORT, &keys, 1, &axis, 1);
    keys = sn_graph_project(m, sorted, 0);
    sn_ix as_rows[] = {type.shape[0], sn_ix_product(m, type.shape + 1, type.rank - 1)};
    /* Each is read RUN times over: made once, and side by side. */
    sn_nd v = sn_graph_copied(m, rows_at(m, updates, sn_graph_project(m, sorted, 1)));
    v = sn_graph_reshape(m, v, as_rows, 2);
    v = sn_graph_reshape(m, sums_of_runs(m, c, keys, v, count), type.shape, type.rank);
    sn_nd is_last = sn_graph_binary(m, SN_OP_NE, padded(m, keys, 0, -1, 1, -1), keys);
    sn_nd to = node(m, SN_OP_WHERE, is_last, keys, sn_dec_scalar(m, keys, (double)rows));
    sn_nd inside = sn_graph_binary(m, SN_OP_MINIMUM, keys, sn_dec_scalar(m, keys, (double)(rows - 1)));
    return node(m, SN_OP_SCATTER, in, to, sn_graph_binary(m, c.op, rows_at(m, in, inside), v));
}
