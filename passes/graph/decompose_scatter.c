/* decompose_scatter.c: decompositions of scatter_sum and its relatives, for the pass `decompose`.
 *
 *     %y = scatter_sum %x, %index, %updates      index [0, 2, 0]
 *   becomes
 *     %keys, %at = sort of the positions         [0, 0, 2], from updates 0, 2, 1
 *     %v = the updates in that order             in groups: at each the sum of those of its group that have its key
 *     %c = the sums of the groups' last keys     added up alike, until one group is left; v[i] += c of the group before, where its
 *                                                last key is that of i
 *     %y = scatter %x, %last, x[keys] + v        %last: keys[i] where i is the last of its key, else R, which is dropped: [R, 0, 2]
 *   or, where rows are no more than updates,
 *     %p = scatter -1, %last, iota               of each row the position of its last key, -1: none
 *     %y = where p >= 0: x + v[p], else x        v is made for these positions alone
 *
 * The sort is stable, and what is added up are sums over the updates of a row in their order, so that the same operands
 * give the same bits in each run. What v is at others than the last of a key nobody reads. Halves are summed and
 * multiplied in f32. Nothing is stored twice, which is what `scatter` asks for. Cost: a sort of M keys, and a few
 * passes over the updates: two kernels for each level of groups, of which the second has an update for each group of
 * the first. The width of a group is what a thread adds up. Sizes M and R have to be numbers. A scatter into rows that
 * stay in the cache of a core, or in the shared memory of a block, remains one, of f32 for halves, and `to-loops`
 * combines parts of it (base/scatter.c, lower/scatter.c).
 */
#include "passes/base/constants.h"
#include "passes/base/scatter.h"
#include "passes/graph/decompose.h"

#include "ir/graph/build.h"
#include "ir/ops/scalar.h"

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

/* Sorted keys and their values, in groups; keys of -1 are nobody's. */
typedef struct groups {
    int64_t n, run;
    sn_nd keys, x; /* [n, run], [n, run, width] */
    sn_nd
        all; /* [n, width]: what the last key of each comes to, where that of the next is another one; none: one group */
    sn_nd last;         /* [n]: that key */
    sn_nd before, ends; /* the same of the group before */
} groups;

/* What of x [n, run, width] has in its group the key that `of` says, [n, k]: [n, k, width]. */
static sn_nd sums_in_groups(sn_module *m, combiner c, sn_nd keys, sn_nd x, sn_nd of) {
    static const int64_t one = 1, two = 2;
    sn_nd same = sn_graph_binary(m, SN_OP_EQ, sn_graph_unsqueeze(m, keys, &one, 1), sn_graph_unsqueeze(m, of, &two, 1));
    sn_nd all = where_same(m, c, same, sn_graph_unsqueeze(m, x, &one, 1));
    sn_nd sums = sn_graph_cast(m, sn_dec_reduce(m, c.reduce, all, 1u << 2),
                               sn_type_of(m, x)->dtype); /* sums of integers are of 64 bits */
    return sn_dec_squeeze(m, sums, 1u << 2);
}

/* What the keys `of` [n, k] come to: in their groups, and with those before whose last key it is; where a group ends, all. `end`: does it? */
static sn_nd sums_up_to(sn_module *m, combiner c, const groups *g, sn_nd of, sn_nd end) {
    static const int64_t one = 1;
    sn_nd v = sums_in_groups(m, c, g->keys, g->x, of);
    if (!g->all.i) return v;
    sn_nd same = sn_graph_binary(m, SN_OP_EQ, sn_graph_unsqueeze(m, g->ends, &one, 1), of);
    v = sn_graph_binary(m, c.op, where_same(m, c, same, sn_graph_unsqueeze(m, g->before, &one, 1)), v);
    return sn_graph_where(m, sn_graph_unsqueeze(m, end, (int64_t[]){-1}, 1), sn_graph_unsqueeze(m, g->all, &one, 1), v);
}

/* Is a position, 0 to run-1, the last one? */
static sn_nd is_end(sn_module *m, sn_nd at, int64_t run) {
    return sn_graph_binary(m, SN_OP_EQ, at, sn_dec_scalar(m, at, (double)(run - 1)));
}

static groups groups_of(sn_module *m, combiner c, sn_nd keys, sn_nd x, int64_t count, int64_t most);

/* Sorted keys [count], values [count, width]: what those of a key come to at the last one of them; whatever, at others. */
static sn_nd sums_of_runs(sn_module *m, combiner c, sn_nd keys, sn_nd x, int64_t count, int64_t most) {
    groups g = groups_of(m, c, keys, x, count, most);
    sn_ix run = sn_ix_const(m, g.run), shape[] = {sn_ix_const(m, g.n * g.run), sn_type_of(m, x)->shape[1]};
    sn_nd at = sn_graph_iota(m, SN_I32, 0, &run, 1);
    sn_nd v = sums_up_to(m, c, &g, g.keys, is_end(m, at, g.run));
    v = sn_graph_reshape(m, v, shape, 2);
    return g.n * g.run > count ? sn_graph_slice(m, v, 0, 0, count, 1) : v;
}

static groups groups_of(sn_module *m, combiner c, sn_nd keys, sn_nd x, int64_t count, int64_t most) {
    groups g = {.run = count < most ? count : most};
    g.n = (count + g.run - 1) / g.run;
    int64_t more = g.n * g.run - count;
    sn_ix sizes[] = {sn_ix_const(m, g.n), sn_ix_const(m, g.run), sn_type_of(m, x)->shape[1]};
    if (more) keys = padded(m, keys, 0, 0, more, -1), x = padded(m, x, 0, 0, more, 0);
    g.keys = sn_graph_reshape(m, keys, sizes, 2), g.x = sn_graph_reshape(m, x, sizes, 3);
    if (g.n == 1) return g;
    sn_nd last = sn_graph_pick(m, g.keys, 1, g.run - 1);
    sn_nd sums = sums_in_groups(m, c, g.keys, g.x, sn_graph_unsqueeze(m, last, (int64_t[]){1}, 1));
    g.all = sums_of_runs(m, c, last, sn_graph_pick(m, sums, 1, 0), g.n, SN_SCATTER_RUNS);
    g.before = padded(m, g.all, 0, 1, -1, 0), g.ends = padded(m, last, 0, 1, -1, -1);
    g.last = last;
    return g;
}

/* What rows 0 .. rows-1 come to, [rows, width], from the positions [rows] of their last keys; of -1: whatever. */
static sn_nd sums_of_rows(sn_module *m, combiner c, const groups *g, sn_nd at, int64_t rows) {
    sn_nd zero = sn_dec_scalar(m, at, 0), run = sn_dec_scalar(m, at, (double)g->run);
    sn_nd place = sn_graph_binary(m, SN_OP_MAXIMUM, at, zero);
    sn_nd group = sn_graph_binary(m, SN_OP_DIV, place, run), end = sn_graph_binary(m, SN_OP_REM, place, run);
    groups of = {.run = g->run, .keys = rows_at(m, g->keys, group), .x = rows_at(m, g->x, group)};
    if (g->all.i) {
        of.all = rows_at(m, g->all, group);
        sn_nd before = sn_graph_binary(m, SN_OP_MAXIMUM, sn_graph_with(m, SN_OP_SUB, group, 1), zero);
        sn_nd is_first = sn_graph_binary(m, SN_OP_EQ, group, zero), last = rows_at(m, g->last, before);
        of.before = rows_at(m, g->all, before);
        of.ends = sn_graph_where(m, is_first, sn_dec_scalar(m, last, -1), last);
    }
    sn_ix shape[] = {sn_ix_const(m, rows), sn_ix_const(m, 1)};
    sn_nd own = sn_graph_iota(m, sn_type_of(m, g->keys)->dtype, 0, shape, 2);
    end = sn_graph_unsqueeze(m, is_end(m, end, g->run), (int64_t[]){1}, 1);
    return sn_graph_pick(m, sums_up_to(m, c, &of, own, end), 1, 0);
}

/* `in` with the sums of its rows; keys [count] and values [count, width] are sorted, to[i]: keys[i] where that is the last one, else `rows`. */
static sn_nd combine_rows(sn_module *m, combiner c, sn_nd in, sn_nd keys, sn_nd v, sn_nd to, int64_t rows,
                          int64_t count) {
    sn_ix some = sn_ix_const(m, rows), all = sn_ix_const(m, count);
    sn_dtype dtype = count < INT32_MAX ? SN_I32 : SN_I64;
    sn_nd at = sn_graph_scatter(m, SN_OP_SCATTER, sn_graph_full(m, dtype, -1, &some, 1), to,
                                sn_graph_iota(m, dtype, 0, &all, 1));
    groups g = groups_of(m, c, keys, v, count, SN_SCATTER_RUN);
    sn_type t = *sn_type_of(m, in);
    v = sn_graph_reshape(m, sums_of_rows(m, c, &g, at, rows), t.shape, t.rank);
    /* A row without updates stays as it is: -0.0 + 0.0 were 0.0. */
    sn_nd has_key = sn_graph_binary(m, SN_OP_GE, at, sn_dec_scalar(m, at, 0));
    for (uint32_t i = 1; i < t.rank; i++) has_key = sn_graph_unsqueeze(m, has_key, (int64_t[]){-1}, 1);
    return sn_graph_where(m, has_key, sn_graph_binary(m, c.op, in, v), in);
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
    sn_nd keys = keys_of(m, index, rows);
    sn_dtype dtype = sn_type_of(m, keys)->dtype;
    if (rows <= INT16_MAX) keys = sn_graph_cast(m, keys, SN_I16); /* half as many digits to sort by */
    sn_nd sorted = sn_graph_node(m, SN_OP_SORT, &keys, 1, &axis, 1);
    keys = sn_graph_cast(m, sn_graph_project(m, sorted, 0), dtype);
    sn_ix as_rows[] = {type.shape[0], sn_ix_product(m, type.shape + 1, type.rank - 1)};
    /* Each is read SN_SCATTER_RUN times over: made once, and side by side. */
    sn_nd v = sn_graph_copied(m, rows_at(m, updates, sn_graph_project(m, sorted, 1)));
    v = sn_graph_reshape(m, v, as_rows, 2);
    sn_nd is_last = sn_graph_binary(m, SN_OP_NE, padded(m, keys, 0, -1, 1, -1), keys);
    sn_nd to = node(m, SN_OP_WHERE, is_last, keys, sn_dec_scalar(m, keys, (double)rows));
    if (rows <= count) return combine_rows(m, c, in, keys, v, to, rows, count);
    v = sn_graph_reshape(m, sums_of_runs(m, c, keys, v, count, SN_SCATTER_RUN), type.shape, type.rank);
    sn_nd inside = sn_graph_binary(m, SN_OP_MINIMUM, keys, sn_dec_scalar(m, keys, (double)(rows - 1)));
    return node(m, SN_OP_SCATTER, in, to, sn_graph_binary(m, c.op, rows_at(m, in, inside), v));
}
