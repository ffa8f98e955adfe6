/* random_graph.c: see random.h.
 *
 * An operation is drawn from the table ops.def; its class, or for those with a rule of their own a function here, gives
 * it operands and attributes that fit, mostly: refusals are a part of what is tried. Operands are values that the graph
 * has already (so chains and values with several users come about), or new inputs. Sizes are drawn first and everything
 * else is made to fit them, so that a graph is worth compiling; an operation whose result would be too large to run is
 * left out of what the graph returns. Positions come from inputs, which random.c of the frontend fills with valid ones.
 */
#include "tools/random.h"

#include <stdio.h>
#include <string.h>

#include "ir/graph/cond.h"
#include "ir/graph/repeat.h"
#include "ir/ops/scalar.h"

enum { MAX_VALUES = 96, MAX_NODES = 8, TRIES = 40, MAX_ELEMENTS = 1 << 16 };

typedef struct maker {
    sn_module *m;
    sn_arena *arena;
    uint64_t state;
    random_sizes sizes;
    sn_nd values[MAX_VALUES]; /* tensors that may be operands */
    uint32_t n_values, n_inputs;
    uint32_t depth;   /* repeats around what is made */
    sn_status status; /* of a message that is not one line */
} maker;

/* ---- drawing ---- */

static sn_dtype any_dtype(maker *r) {
    static const sn_dtype usual[] = {SN_F32, SN_F32, SN_F32, SN_F32, SN_F16, SN_BF16, SN_F64, SN_I64, SN_I32, SN_BOOL};
    return random_chance(&r->state, 75) ? usual[random_below(&r->state, SN_COUNT(usual))]
                                        : (sn_dtype)random_below(&r->state, SN_N_DTYPES);
}

static sn_dtype float_dtype(maker *r) {
    static const sn_dtype floats[] = {SN_F32, SN_F32, SN_F32, SN_F16, SN_BF16, SN_F64};
    return floats[random_below(&r->state, SN_COUNT(floats))];
}

static int64_t small_size(maker *r) {
    static const int64_t usual[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 64, 100, 128, 257, 1000, 4096};
    return usual[random_below(&r->state, random_chance(&r->state, 70) ? 10 : (int64_t)SN_COUNT(usual))];
}

static int64_t huge_size(maker *r) {
    static const int bits[] = {31, 32, 40, 62};
    int64_t near = (int64_t)1 << bits[random_below(&r->state, SN_COUNT(bits))];
    switch (random_below(&r->state, 4)) {
    case 0: return near;
    case 1: return near - 1 - random_below(&r->state, 3);
    case 2: return near + 1 + random_below(&r->state, 3);
    default: return near / (3 + random_below(&r->state, 9)) * (1 + random_below(&r->state, 3));
    }
}

static int64_t any_size(maker *r) {
    switch (r->sizes) {
    case RANDOM_EMPTY: return random_chance(&r->state, 22) ? 0 : random_chance(&r->state, 35) ? 1 : small_size(r);
    case RANDOM_HUGE:
        return random_chance(&r->state, 45) ? huge_size(r) : random_chance(&r->state, 10) ? 0 : small_size(r);
    case RANDOM_SMALL:
    case RANDOM_N_SIZES: break;
    }
    return small_size(r);
}

/* ---- types ---- */

typedef struct shape {
    uint32_t rank;
    int64_t at[SN_MAX_RANK];
} shape;

/* INT64_MAX: more than that. */
static int64_t elements(const shape *s) {
    int64_t n = 1;
    for (uint32_t k = 0; k < s->rank; k++)
        if (s->at[k] == 0) return 0;
    for (uint32_t k = 0; k < s->rank; k++)
        if (sn_mul_overflow(n, s->at[k], &n)) return INT64_MAX;
    return n;
}

/* Small enough to be run. Graphs of huge sizes are not. */
static bool fits(const maker *r, const shape *s) { return r->sizes == RANDOM_HUGE || elements(s) <= MAX_ELEMENTS; }

static shape any_shape(maker *r, uint32_t least, uint32_t most) {
    shape s = {.rank = least + (uint32_t)random_below(&r->state, most - least + 1)};
    for (uint32_t k = 0; k < s.rank; k++) s.at[k] = any_size(r);
    for (uint32_t k = 0; !fits(r, &s); k++) s.at[k % s.rank] = s.at[k % s.rank] / 2 + 1;
    /* A tensor without elements may have axes of any size. */
    uint32_t axis = (uint32_t)random_below(&r->state, s.rank);
    if (s.rank && r->sizes == RANDOM_EMPTY && elements(&s) == 0 && s.at[axis] && random_chance(&r->state, 20))
        s.at[axis] = random_chance(&r->state, 50) ? 1000000 : huge_size(r) >> 8;
    return s;
}

static const sn_type *type_of(const maker *r, sn_nd x) { return &sn_node_get(r->m, x)->type; }
static sn_dtype dtype_of(const maker *r, sn_nd x) { return type_of(r, x)->dtype; }
static uint32_t rank_of(const maker *r, sn_nd x) { return type_of(r, x)->rank; }

static shape shape_of(const maker *r, sn_nd x) {
    const sn_type *t = type_of(r, x);
    shape s = {.rank = t->rank};
    for (uint32_t k = 0; k < t->rank; k++) s.at[k] = sn_ix_value(r->m, t->shape[k]);
    return s;
}

static void to_sizes(sn_ix *out, maker *r, const shape *s) {
    for (uint32_t k = 0; k < s->rank; k++) out[k] = sn_ix_const(r->m, s->at[k]);
}

/* ---- nodes ---- */

/* A refusal has one line; it is forgotten. */
static void forget_refusal(maker *r, const char *what) {
    sn_env *env = r->m->env;
    const char *message = env->message;
    if (env->status == SN_OK) return;
    bool one_line = message[0] && !strchr(message, '\n');
    char text[SN_MESSAGE_MAX];
    snprintf(text, sizeof text, "%.100s: refused with the message '%.200s'", what, message);
    sn_env_clear(env);
    if (!one_line && r->status == SN_OK) r->status = sn_fail(env, SN_ERROR_INTERNAL, "%s", text);
}

static sn_nd keep(maker *r, sn_nd x, const char *what) {
    forget_refusal(r, what);
    if (!x.i) return x;
    shape s = shape_of(r, x);
    if (!fits(r, &s)) return (sn_nd){0};
    if (r->n_values < MAX_VALUES) r->values[r->n_values++] = x;
    return x;
}

static sn_nd node(maker *r, sn_op op, const sn_nd *in, uint32_t n_in, const sn_attr *attrs, uint32_t n_attrs) {
    for (uint32_t k = 0; k < n_in; k++)
        if (!in[k].i) return (sn_nd){0};
    sn_nd x = sn_graph_node(r->m, op, in, n_in, attrs, n_attrs);
    forget_refusal(r, sn_ops[op].name);
    uint32_t n = x.i ? sn_node_get(r->m, x)->n_results : 0;
    if (n < 2) return keep(r, x, sn_ops[op].name);
    for (uint32_t k = 0; k < n; k++)
        if (k == 0 || random_chance(&r->state, 60)) keep(r, sn_graph_project(r->m, x, k), "project");
    return x;
}

static sn_attr ints(sn_attr_id id, const int64_t *at, uint32_t n) { return (sn_attr){.id = id, .ints = {at, n}}; }

/* Strides other than those of rows: axes in another order, gaps, axes of stride 0, an offset. */
static sn_nd strided_input(maker *r, const char *name, const sn_type *t, const shape *s) {
    sn_ix strides[SN_MAX_RANK];
    int64_t step = 1 + random_below(&r->state, 2);
    bool backwards = random_chance(&r->state, 50), repeats = random_chance(&r->state, 25);
    for (uint32_t i = 0; i < s->rank; i++) {
        uint32_t k = backwards ? i : s->rank - 1 - i;
        strides[k] = sn_ix_const(r->m, repeats && random_chance(&r->state, 40) ? 0 : step);
        if (sn_mul_overflow(step, s->at[k] > 1 ? s->at[k] : 1, &step) || step > (int64_t)1 << 61) step = 1;
        if (random_chance(&r->state, 30)) step += 1 + random_below(&r->state, 3);
    }
    return sn_graph_input_new(r->m, name, t, strides,
                              sn_ix_const(r->m, random_chance(&r->state, 50) ? random_below(&r->state, 9) : 0));
}

static sn_nd input(maker *r, sn_dtype dtype, const shape *s) {
    sn_type t = {.dtype = dtype, .rank = s->rank};
    char name[16];
    snprintf(name, sizeof name, "x%u", r->n_inputs++);
    to_sizes(t.shape, r, s);
    bool strided = s->rank && random_chance(&r->state, 20);
    return keep(r, strided ? strided_input(r, name, &t, s) : sn_graph_input_new(r->m, name, &t, NULL, (sn_ix){0}),
                "input");
}

static sn_nd constant(maker *r, sn_dtype dtype, const shape *s) {
    enum { MOST = 64 };
    double f[MOST];
    int64_t i[MOST], n = elements(s);
    sn_ix sizes[SN_MAX_RANK];
    for (int64_t k = 0; k < MOST; k++)
        i[k] = random_below(&r->state, 2), f[k] = (double)random_below(&r->state, 17) / 4 - 2;
    to_sizes(sizes, r, s);
    sn_attr attrs[] = {{.id = SN_ATTR_DTYPE, .i = dtype},
                       {.id = SN_ATTR_SHAPE, .shape = {sizes, s->rank}},
                       {.id = SN_ATTR_VALUES, .numbers = {.n = (uint64_t)n}}};
    if (sn_is_float(dtype)) attrs[2].numbers.f = f;
    else attrs[2].numbers.i = i;
    if (n <= MOST && random_chance(&r->state, 50)) return node(r, SN_OP_CONSTANT, NULL, 0, attrs, 3);
    attrs[2] = (sn_attr){.id = SN_ATTR_VALUE, .f = (double)random_below(&r->state, 3)};
    if (dtype == SN_BOOL) attrs[2].f = (double)random_below(&r->state, 2);
    return node(r, SN_OP_FULL, NULL, 0, attrs, 3);
}

static sn_nd fresh(maker *r, sn_dtype dtype, const shape *s) {
    return random_chance(&r->state, 12) ? constant(r, dtype, s) : input(r, dtype, s);
}

/* A value of the graph with that dtype (SN_N_DTYPES: any) and at least that many axes; a new one now and then. */
static sn_nd value(maker *r, sn_dtype dtype, uint32_t least, uint32_t most) {
    for (int try = 0; try < 6 && r->n_values && random_chance(&r->state, 85); try++) {
        sn_nd x = r->values[random_below(&r->state, r->n_values)];
        if (dtype != SN_N_DTYPES && dtype_of(r, x) != dtype) continue;
        if (rank_of(r, x) >= least && rank_of(r, x) <= most) return x;
    }
    shape s = any_shape(r, least, most < 5 ? most : least > 4 ? least : 4);
    return fresh(r, dtype == SN_N_DTYPES ? any_dtype(r) : dtype, &s);
}

/* One of that type: there already, or new. */
static sn_nd value_like(maker *r, sn_dtype dtype, const shape *s) {
    for (uint32_t k = r->n_values; k-- > 0 && random_chance(&r->state, 80);) {
        shape t = shape_of(r, r->values[k]);
        if (dtype_of(r, r->values[k]) == dtype && t.rank == s->rank && !memcmp(t.at, s->at, s->rank * sizeof *t.at))
            return r->values[k];
    }
    return fresh(r, dtype, s);
}

/* A part of the axes, some of them of size 1. */
static shape broadcast_shape(maker *r, const shape *s) {
    shape t = {.rank = random_chance(&r->state, 60) ? s->rank : (uint32_t)random_below(&r->state, s->rank + 1)};
    for (uint32_t k = 0; k < t.rank; k++) t.at[k] = random_chance(&r->state, 25) ? 1 : s->at[s->rank - t.rank + k];
    return t;
}

/* ---- operations ---- */

static sn_nd float_value(maker *r, uint32_t least, uint32_t most) {
    for (int try = 0; try < 4; try++) {
        sn_nd x = value(r, SN_N_DTYPES, least, most);
        if (x.i && sn_is_float(dtype_of(r, x))) return x;
    }
    return value(r, float_dtype(r), least, most);
}

/* A value of a dtype that the loop operation takes. */
static sn_nd value_for(maker *r, sn_op op) {
    sn_nd x = value(r, SN_N_DTYPES, 0, SN_MAX_RANK);
    if (x.i && !sn_lop_allowed((sn_lop)sn_ops[op].lop, dtype_of(r, x)))
        x = value(r, sn_lop_allowed((sn_lop)sn_ops[op].lop, SN_F32) ? float_dtype(r) : SN_I32, 0, SN_MAX_RANK);
    return x;
}

static void make_source(maker *r, sn_op op) {
    shape s = any_shape(r, op == SN_OP_IOTA, 4);
    sn_ix sizes[SN_MAX_RANK];
    to_sizes(sizes, r, &s);
    sn_attr iota[] = {{.id = SN_ATTR_AXIS, .i = random_below(&r->state, s.rank)},
                      {.id = SN_ATTR_DTYPE, .i = any_dtype(r)},
                      {.id = SN_ATTR_SHAPE, .shape = {sizes, s.rank}}};
    sn_attr listed = {.id = SN_ATTR_ELEMENTS, .shape = {sizes, s.rank}};
    if (op == SN_OP_IOTA) node(r, op, NULL, 0, iota, 3);
    else if (op == SN_OP_SIZES) node(r, op, NULL, 0, &listed, 1);
    else if (op == SN_OP_INPUT) input(r, any_dtype(r), &s);
    else constant(r, any_dtype(r), &s);
}

static void make_binary(maker *r, sn_op op) {
    sn_nd x = value_for(r, op);
    if (!x.i) return;
    shape s = shape_of(r, x), t = broadcast_shape(r, &s);
    sn_nd y = value_like(r, random_chance(&r->state, 80) ? dtype_of(r, x) : any_dtype(r), &t);
    node(r, op, random_chance(&r->state, 50) ? (sn_nd[]){x, y} : (sn_nd[]){y, x}, 2, NULL, 0);
}

static void make_random(maker *r, sn_op op, sn_nd x) {
    shape none = {0}, s = any_shape(r, 0, 4);
    sn_ix sizes[SN_MAX_RANK];
    to_sizes(sizes, r, &s);
    sn_attr attrs[] = {{.id = SN_ATTR_DTYPE, .i = op == SN_OP_RANDOM ? any_dtype(r) : float_dtype(r)},
                       {.id = SN_ATTR_SHAPE, .shape = {sizes, s.rank}}};
    sn_nd seed = fresh(r, SN_I64, &none), offset = fresh(r, SN_I64, &none);
    sn_attr p = {.id = SN_ATTR_P, .f = (double)random_below(&r->state, 5) / 4};
    if (op == SN_OP_DROPOUT) node(r, op, (sn_nd[]){x, seed, offset}, 3, &p, 1);
    else node(r, op, (sn_nd[]){seed, offset}, 2, attrs, 2);
}

static void make_element(maker *r, sn_op op) {
    sn_nd x = value(r, SN_N_DTYPES, 0, SN_MAX_RANK);
    if (!x.i) return;
    shape s = shape_of(r, x), t = broadcast_shape(r, &s), u = broadcast_shape(r, &s);
    sn_attr limits[] = {{.id = SN_ATTR_MIN, .f = (double)random_below(&r->state, 2)}, {.id = SN_ATTR_MAX, .f = 3}};
    sn_attr dtype = {.id = SN_ATTR_DTYPE, .i = any_dtype(r)};
    if (op == SN_OP_WHERE) {
        sn_nd c = value_like(r, SN_BOOL, &u), y = value_like(r, dtype_of(r, x), &t);
        node(r, op, random_chance(&r->state, 50) ? (sn_nd[]){c, x, y} : (sn_nd[]){c, y, x}, 3, NULL, 0);
    } else if (op == SN_OP_CAST) {
        node(r, op, &x, 1, &dtype, 1);
    } else if (op == SN_OP_CLAMP) {
        node(r, op, &x, 1, &limits[random_below(&r->state, 2)], 1);
    } else if (op == SN_OP_RANDOM) {
        make_random(r, op, x);
    }
}

/* Distinct axes of a tensor, at least one where it has any. */
static uint32_t some_axes(int64_t *out, maker *r, uint32_t rank) {
    uint32_t n = 0, mask = (uint32_t)random_below(&r->state, (int64_t)1 << rank);
    if (!mask && rank) mask = 1u << random_below(&r->state, rank);
    if (random_chance(&r->state, 20)) mask = (1u << rank) - 1;
    for (uint32_t k = 0; k < rank; k++)
        if (mask >> k & 1) out[n++] = random_chance(&r->state, 20) ? (int64_t)k - rank : (int64_t)k;
    return n;
}

static void make_reduce(maker *r, sn_op op) {
    sn_nd x =
        strchr("mvl", sn_ops[op].name[0]) ? float_value(r, 0, SN_MAX_RANK) : value(r, SN_N_DTYPES, 0, SN_MAX_RANK);
    if (!x.i) return;
    int64_t axes[SN_MAX_RANK];
    uint32_t n = some_axes(axes, r, rank_of(r, x));
    sn_attr attrs[] = {ints(SN_ATTR_AXES, axes, n),
                       {.id = SN_ATTR_KEEPDIM, .i = random_below(&r->state, 2)},
                       {.id = SN_ATTR_CORRECTION, .i = random_below(&r->state, 2)}};
    node(r, op, &x, 1, attrs, op == SN_OP_VAR || op == SN_OP_VAR_MEAN ? 3 : 2);
}

static void make_scan(maker *r, sn_op op) {
    sn_nd x = value(r, SN_N_DTYPES, 1, SN_MAX_RANK);
    if (!x.i) return;
    sn_attr attrs[] = {{.id = SN_ATTR_AXIS, .i = random_below(&r->state, rank_of(r, x))},
                       {.id = SN_ATTR_EXCLUSIVE, .i = random_below(&r->state, 2)},
                       {.id = SN_ATTR_REVERSE, .i = random_below(&r->state, 2)}};
    node(r, op, &x, 1, attrs, 3);
}

/* Axes of a shape joined and cut anew, the same number of elements. */
static shape reshaped(maker *r, const shape *s) {
    shape t = {0};
    for (uint32_t k = 0; k < s->rank; k++) {
        int64_t joined;
        if (t.rank && random_chance(&r->state, 40) && !sn_mul_overflow(t.at[t.rank - 1], s->at[k], &joined))
            t.at[t.rank - 1] = joined;
        else t.at[t.rank++] = s->at[k];
    }
    for (uint32_t k = 0; k < t.rank && t.rank < SN_MAX_RANK; k++) {
        int64_t by = 1 + random_below(&r->state, 5);
        if (t.at[k] % by || random_chance(&r->state, 60)) continue;
        t.at[k] /= by;
        t.at[t.rank++] = by;
        if (k + 2 < t.rank) t.at[t.rank - 1] = t.at[k + 1], t.at[k + 1] = by;
    }
    if (t.rank && elements(s) == 0 && random_chance(&r->state, 30)) t.at[random_below(&r->state, t.rank)] = 0;
    return t;
}

/* Some axes of size 1 become longer, and some new ones stand in front. */
static shape expanded(maker *r, const shape *s) {
    shape t = {.rank = s->rank};
    uint32_t more = s->rank < SN_MAX_RANK ? (uint32_t)random_below(&r->state, 3) : 0;
    if (s->rank + more > SN_MAX_RANK) more = 0;
    for (uint32_t k = 0; k < more; k++) t.at[k] = any_size(r);
    for (uint32_t k = 0; k < s->rank; k++) t.at[more + k] = s->at[k] == 1 ? any_size(r) : s->at[k];
    t.rank += more;
    return t;
}

static void make_slice(maker *r, sn_nd x, uint32_t axis, int64_t size) {
    sn_attr attrs[] = {
        {.id = SN_ATTR_AXIS, .i = axis},
        {.id = SN_ATTR_START,
         .i = random_chance(&r->state, 30)
                  ? 0
                  : random_below(&r->state, size + 2) - (random_chance(&r->state, 20) ? size : 0)},
        {.id = SN_ATTR_STOP, .i = random_chance(&r->state, 30) ? INT64_MAX : random_below(&r->state, size + 3)},
        {.id = SN_ATTR_STEP, .i = 1 + random_below(&r->state, random_chance(&r->state, 80) ? 3 : INT64_MAX)}};
    node(r, SN_OP_SLICE, &x, 1, attrs, 4);
}

static void make_unfold(maker *r, sn_nd x, uint32_t axis, int64_t size) {
    int64_t dilation = 1 + random_below(&r->state, 2);
    sn_attr attrs[] = {
        {.id = SN_ATTR_AXIS, .i = axis},
        {.id = SN_ATTR_SIZE,
         .i = 1 + random_below(&r->state, random_chance(&r->state, 80) ? 4
                                          : size < INT32_MAX           ? size
                                                                       : INT32_MAX)},
        {.id = SN_ATTR_STEP, .i = 1 + random_below(&r->state, random_chance(&r->state, 80) ? 3 : INT32_MAX)},
        ints(SN_ATTR_DILATION, &dilation, 1)};
    node(r, SN_OP_UNFOLD, &x, 1, attrs, 4);
}

static void make_view(maker *r, sn_op op) {
    sn_nd x = value(r, SN_N_DTYPES, op == SN_OP_SLICE || op == SN_OP_UNFOLD, SN_MAX_RANK);
    if (!x.i) return;
    shape s = shape_of(r, x), t = op == SN_OP_RESHAPE ? reshaped(r, &s) : expanded(r, &s);
    int64_t axes[SN_MAX_RANK];
    uint32_t n = 0, axis = (uint32_t)random_below(&r->state, s.rank);
    sn_ix sizes[SN_MAX_RANK];
    sn_attr attr = {0};
    if (op == SN_OP_SLICE) make_slice(r, x, axis, s.at[axis]);
    if (op == SN_OP_UNFOLD) make_unfold(r, x, axis, s.at[axis]);
    if (op == SN_OP_SLICE || op == SN_OP_UNFOLD) return;
    if (op == SN_OP_RESHAPE || op == SN_OP_EXPAND) {
        to_sizes(sizes, r, &t);
        attr = (sn_attr){.id = SN_ATTR_SHAPE, .shape = {sizes, t.rank}};
    } else if (op == SN_OP_PERMUTE) {
        for (; n < s.rank; n++) {
            uint32_t at = (uint32_t)random_below(&r->state, n + 1);
            axes[n] = axes[at], axes[at] = n;
        }
        attr = ints(SN_ATTR_PERM, axes, n);
    } else if (op == SN_OP_SQUEEZE) {
        for (uint32_t k = 0; k < s.rank; k++)
            if (s.at[k] == 1 && random_chance(&r->state, 70)) axes[n++] = k;
        attr = ints(SN_ATTR_AXES, axes, n);
    } else if (op == SN_OP_UNSQUEEZE) {
        axes[n++] = random_below(&r->state, s.rank + 1);
        attr = ints(SN_ATTR_AXES, axes, n);
    } else {
        n = some_axes(axes, r, s.rank);
        attr = ints(SN_ATTR_AXES, axes, n);
    }
    node(r, op, &x, 1, &attr, 1);
}

static void make_pad(maker *r) {
    sn_nd x = value(r, SN_N_DTYPES, 0, SN_MAX_RANK);
    if (!x.i) return;
    shape s = shape_of(r, x);
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    for (uint32_t k = 0; k < s.rank; k++) {
        low[k] = random_below(&r->state, 4) -
                 (s.at[k] > 1 && random_chance(&r->state, 30) ? random_below(&r->state, s.at[k]) : 0);
        high[k] = random_below(&r->state, 4) -
                  (s.at[k] > 3 && random_chance(&r->state, 20) ? random_below(&r->state, s.at[k]) : 0);
    }
    sn_attr attrs[] = {ints(SN_ATTR_LOW, low, s.rank),
                       ints(SN_ATTR_HIGH, high, s.rank),
                       {.id = SN_ATTR_VALUE, .f = (double)random_below(&r->state, 2)}};
    node(r, SN_OP_PAD, &x, 1, attrs, 3);
}

static void make_concat(maker *r) {
    sn_nd in[4] = {value(r, SN_N_DTYPES, 1, SN_MAX_RANK)};
    if (!in[0].i) return;
    shape s = shape_of(r, in[0]);
    uint32_t n = 1 + (uint32_t)random_below(&r->state, 4), axis = (uint32_t)random_below(&r->state, s.rank);
    for (uint32_t k = 1; k < n; k++) {
        shape t = s;
        if (random_chance(&r->state, 70)) t.at[axis] = any_size(r);
        in[k] = fits(r, &t) ? value_like(r, dtype_of(r, in[0]), &t) : in[0];
    }
    sn_attr attr = {.id = SN_ATTR_AXIS, .i = axis};
    node(r, SN_OP_CONCAT, in, n, &attr, 1);
}

/* Positions are inputs of their own: nothing is computed with them, and they are filled with valid ones. */
static sn_nd positions(maker *r, const shape *s) {
    static const sn_dtype integers[] = {SN_I64, SN_I32, SN_U32, SN_U64};
    sn_nd x = input(r, integers[random_below(&r->state, random_chance(&r->state, 70) ? 2 : 4)], s);
    if (x.i && r->n_values && r->values[r->n_values - 1].i == x.i) r->n_values--;
    return x;
}

static void make_gather(maker *r, sn_op op) {
    sn_nd x = value(r, SN_N_DTYPES, 1, SN_MAX_RANK);
    if (!x.i) return;
    shape s = shape_of(r, x), t = s;
    uint32_t axis = (uint32_t)random_below(&r->state, s.rank);
    for (uint32_t k = 0; k < s.rank; k++)
        if (random_chance(&r->state, 30)) t.at[k] = k == axis ? any_size(r) : random_below(&r->state, s.at[k] + 1);
    if (op == SN_OP_INDEX_SELECT) t = any_shape(r, 0, 2);
    sn_attr attr = {.id = SN_ATTR_AXIS, .i = axis};
    node(r, op, (sn_nd[]){x, positions(r, &t)}, 2, &attr, 1);
}

/* Equal positions are a mistake where updates replace rows: these are 0, 1, 2, ... */
static void make_scatter(maker *r, sn_op op) {
    sn_nd x = value(r, SN_N_DTYPES, 1, SN_MAX_RANK), index = {0};
    if (!x.i) return;
    shape s = shape_of(r, x), updates = s, list = {.rank = 1};
    list.at[0] = updates.at[0] = random_chance(&r->state, 50) ? s.at[0] : any_size(r);
    if (!fits(r, &updates)) return;
    if (op == SN_OP_SCATTER) {
        sn_ix size = sn_ix_const(r->m, list.at[0]);
        sn_attr iota[] = {{.id = SN_ATTR_AXIS, .i = 0},
                          {.id = SN_ATTR_DTYPE, .i = SN_I64},
                          {.id = SN_ATTR_SHAPE, .shape = {&size, 1}}};
        index = sn_graph_node(r->m, SN_OP_IOTA, NULL, 0, iota, 3);
        forget_refusal(r, "iota");
    } else {
        index = positions(r, &list);
    }
    node(r, op, (sn_nd[]){x, index, value_like(r, dtype_of(r, x), &updates)}, 3, NULL, 0);
}

static void make_sort(maker *r, sn_op op) {
    sn_nd x = value(r, SN_N_DTYPES, 1, SN_MAX_RANK);
    if (!x.i) return;
    shape s = shape_of(r, x);
    uint32_t axis = (uint32_t)random_below(&r->state, s.rank);
    sn_attr sort[] = {{.id = SN_ATTR_AXIS, .i = axis}, {.id = SN_ATTR_DESCENDING, .i = random_below(&r->state, 2)}};
    sn_attr topk[] = {{.id = SN_ATTR_K, .i = random_below(&r->state, s.at[axis] + 1)},
                      {.id = SN_ATTR_AXIS, .i = axis},
                      {.id = SN_ATTR_LARGEST, .i = random_below(&r->state, 2)}};
    if (op == SN_OP_SORT) node(r, op, &x, 1, sort, 2);
    else node(r, op, &x, 1, topk, 3);
}

static void make_copy(maker *r) {
    sn_nd x = value(r, SN_N_DTYPES, 0, SN_MAX_RANK);
    if (x.i) node(r, SN_OP_COPY, &x, 1, NULL, 0);
}

static void make_move(maker *r, sn_op op) {
    if (op == SN_OP_COPY) make_copy(r);
    else if (op == SN_OP_PAD) make_pad(r);
    else if (op == SN_OP_CONCAT) make_concat(r);
    else if (op == SN_OP_SCATTER) make_scatter(r, op);
    else if (op == SN_OP_SORT || op == SN_OP_TOPK) make_sort(r, op);
    else make_gather(r, op);
}

static void make_matmul(maker *r) {
    sn_nd x = float_value(r, 1, 4);
    if (!x.i) return;
    shape s = shape_of(r, x), t = s;
    t.rank = s.rank > 2 && random_chance(&r->state, 50) ? 2 : s.rank;
    if (random_chance(&r->state, 20)) t.rank = 1;
    if (t.rank == 1) t.at[0] = s.at[s.rank - 1];
    for (uint32_t k = 0; t.rank > 1 && k + 2 < t.rank; k++) t.at[k] = random_chance(&r->state, 30) ? 1 : s.at[k];
    if (t.rank > 1) t.at[t.rank - 2] = s.at[s.rank - 1], t.at[t.rank - 1] = any_size(r);
    if (fits(r, &t)) node(r, SN_OP_MATMUL, (sn_nd[]){x, value_like(r, dtype_of(r, x), &t)}, 2, NULL, 0);
}

static void make_conv(maker *r) {
    sn_nd x = float_value(r, 3, 5);
    if (!x.i) return;
    shape s = shape_of(r, x), w = {.rank = s.rank};
    int64_t pad[6], stride[3], dilation[3], apart[3], groups = s.at[1] % 2 == 0 && random_chance(&r->state, 30) ? 2 : 1;
    uint32_t n = s.rank - 2;
    w.at[0] = any_size(r) / groups * groups;
    w.at[1] = s.at[1] / groups;
    for (uint32_t k = 0; k < n; k++) {
        w.at[2 + k] = 1 + random_below(&r->state, 3);
        pad[k] = random_below(&r->state, 4) - 1;
        pad[n + k] = random_below(&r->state, 4) - 1;
        stride[k] = 1 + random_below(&r->state, 2);
        dilation[k] = 1 + random_below(&r->state, 2);
        apart[k] = random_chance(&r->state, 80) ? 1 : 2;
    }
    sn_attr attrs[] = {ints(SN_ATTR_STRIDE, stride, n),
                       ints(SN_ATTR_PADDING, pad, random_chance(&r->state, 50) ? n : 2 * n),
                       ints(SN_ATTR_DILATION, dilation, n),
                       ints(SN_ATTR_INPUT_DILATION, apart, n),
                       {.id = SN_ATTR_GROUPS, .i = groups}};
    if (fits(r, &w)) node(r, SN_OP_CONV, (sn_nd[]){x, value_like(r, dtype_of(r, x), &w)}, 2, attrs, 5);
}

static void make_norm(maker *r, sn_op op) {
    bool batch = op == SN_OP_BATCH_NORM || op == SN_OP_BATCH_NORM_TRAIN;
    sn_nd x = float_value(r, batch ? 2 : 1, SN_MAX_RANK), in[5] = {x};
    if (!x.i) return;
    shape s = shape_of(r, x), t = s;
    if (batch) t = (shape){.rank = 1, .at = {s.at[1]}};
    for (uint32_t drop = batch ? 0 : (uint32_t)random_below(&r->state, s.rank); drop > 0; drop--) {
        t.rank--;
        memmove(t.at, t.at + 1, t.rank * sizeof *t.at);
    }
    /* Variances must not be negative: inputs of their own. */
    for (int k = 1; k < sn_ops[op].n_in; k++)
        in[k] = k == 4 ? input(r, dtype_of(r, x), &t) : value_like(r, dtype_of(r, x), &t);
    if (batch && r->n_values && r->values[r->n_values - 1].i == in[4].i) r->n_values--;
    sn_attr attrs[] = {{.id = SN_ATTR_EPS, .f = 1e-3}, {.id = SN_ATTR_MOMENTUM, .f = 0.25}};
    node(r, op, in, (uint32_t)sn_ops[op].n_in, attrs, op == SN_OP_BATCH_NORM_TRAIN ? 2 : 1);
}

static void make_cross_entropy(maker *r) {
    sn_nd x = float_value(r, 2, 2);
    if (!x.i) return;
    shape s = shape_of(r, x), t = {.rank = 1, .at = {s.at[0]}};
    sn_nd target = input(r, random_chance(&r->state, 50) ? SN_I64 : SN_I32, &t);
    if (target.i && r->values[r->n_values - 1].i == target.i) r->n_values--;
    node(r, SN_OP_CROSS_ENTROPY, (sn_nd[]){x, target}, 2, NULL, 0);
}

static void make_composite(maker *r, sn_op op) {
    const char *attrs = sn_ops[op].attrs;
    if (!strncmp(sn_ops[op].name, "scatter", 7)) make_scatter(r, op);
    else if (op == SN_OP_CROSS_ENTROPY) make_cross_entropy(r);
    else if (op == SN_OP_LOGSUMEXP) make_reduce(r, op);
    else if (op == SN_OP_DROPOUT || op == SN_OP_RANDOM_NORMAL) make_random(r, op, float_value(r, 0, SN_MAX_RANK));
    else if (!strncmp(attrs, "eps", 3)) make_norm(r, op);
    else if (!strcmp(attrs, "axis")) {
        sn_nd x = float_value(r, 1, SN_MAX_RANK);
        sn_attr axis = {.id = SN_ATTR_AXIS, .i = x.i ? random_below(&r->state, rank_of(r, x)) : 0};
        node(r, op, &x, 1, &axis, 1);
    } else {
        sn_nd x = float_value(r, 0, SN_MAX_RANK);
        node(r, op, &x, 1, NULL, 0);
    }
}

static void make(maker *r, sn_op op);

/* A repeat over an axis of a value, whose body is drawn as the graph is. What the body makes nobody else may read. */
static void make_repeat(maker *r) {
    enum { MOST_STEPS = 12, DEPTH = 2 };
    sn_nd x = value(r, SN_N_DTYPES, 1, 5), results[2] = {{0}};
    if (!x.i || r->depth == DEPTH) return;
    shape s = shape_of(r, x), t = {.rank = s.rank - 1};
    int64_t axis = random_below(&r->state, s.rank), steps = s.at[axis];
    if (steps < 1 || (steps > MOST_STEPS && r->sizes != RANDOM_HUGE)) return;
    for (uint32_t k = 0, n = 0; k < s.rank; k++)
        if (k != axis) t.at[n++] = s.at[k];
    sn_nd first = random_chance(&r->state, 60) ? value_like(r, dtype_of(r, x), &t) : value(r, SN_N_DTYPES, 0, 4);
    uint32_t outside = r->n_values, number = sn_repeat_number(r->m);
    bool back = random_chance(&r->state, 30);
    sn_nd slice = sn_graph_repeat_slice(r->m, number, x, axis, random_chance(&r->state, 30));
    sn_nd state = sn_graph_repeat_state(r->m, number, 0, first), after = state;
    forget_refusal(r, "repeat");
    if (!slice.i || !state.i || r->n_values + 2 > MAX_VALUES) return;
    keep(r, slice, "repeat_slice");
    keep(r, state, "repeat_state");
    r->depth++;
    for (int64_t n = 1 + random_below(&r->state, 3); n > 0; n--) make(r, (sn_op)random_below(&r->state, SN_N_OPS));
    r->depth--;
    for (uint32_t k = outside; k < r->n_values; k++)
        if (sn_type_eq(type_of(r, r->values[k]), type_of(r, state))) after = r->values[k];
    sn_nd stack = r->values[outside + (uint32_t)random_below(&r->state, r->n_values - outside)];
    r->n_values = outside;
    sn_graph_repeat end = {number, 1, 1, &state, &after, &stack, &back, sn_ix_const(r->m, steps), {0}};
    sn_graph_repeat_end(results, r->m, &end);
    for (int k = 0; k < 2; k++) keep(r, results[k], "repeat");
}

/* A branch by whether any element of a value is large, whose results are drawn as the graph is. What makes them may be left to it alone. */
static void make_cond(maker *r) {
    sn_nd x = float_value(r, 0, 5), result = {0};
    if (!x.i || r->depth == 2) return;
    uint32_t outside = r->n_values, rank = rank_of(r, x);
    int64_t axes[SN_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    sn_nd bound = sn_graph_scalar(r->m, dtype_of(r, x), 0.25), p = sn_graph_binary(r->m, SN_OP_GT, x, bound);
    if (rank) p = sn_graph_node(r->m, SN_OP_ANY, &p, 1, &(sn_attr){.id = SN_ATTR_AXES, .ints = {axes, rank}}, 1);
    r->depth++;
    for (int64_t n = 1 + random_below(&r->state, 4); n > 0; n--) make(r, (sn_op)random_below(&r->state, SN_N_OPS));
    r->depth--;
    sn_nd yes = r->values[random_below(&r->state, r->n_values)], no = {0};
    for (uint32_t k = 0; k < r->n_values && !no.i; k++)
        if (r->values[k].i != yes.i && sn_type_eq(type_of(r, r->values[k]), type_of(r, yes))) no = r->values[k];
    shape s = shape_of(r, yes);
    if (!no.i) no = value_like(r, dtype_of(r, yes), &s);
    if (random_chance(&r->state, 70) && r->n_values > outside) r->n_values = outside;
    if (p.i && no.i) sn_graph_cond(&result, r->m, p, 1, &yes, &no);
    forget_refusal(r, "cond");
    keep(r, result, "cond");
}

static void make(maker *r, sn_op op) {
    sn_nd x = {0};
    switch (sn_ops[op].cls) {
    case SN_OPS_SOURCE: make_source(r, op); break;
    case SN_OPS_UNARY:
    case SN_OPS_TEST:
        x = value_for(r, op);
        node(r, op, &x, 1, NULL, 0);
        break;
    case SN_OPS_BINARY:
    case SN_OPS_COMPARE: make_binary(r, op); break;
    case SN_OPS_ELEMENT: make_element(r, op); break;
    case SN_OPS_REDUCE: make_reduce(r, op); break;
    case SN_OPS_SCAN: make_scan(r, op); break;
    case SN_OPS_VIEW: make_view(r, op); break;
    case SN_OPS_MOVE: make_move(r, op); break;
    case SN_OPS_CONTRACT:
        if (op == SN_OP_MATMUL) make_matmul(r);
        else make_conv(r);
        break;
    case SN_OPS_COMPOSITE: make_composite(r, op); break;
    case SN_OPS_REPEAT:
        if (op == SN_OP_COND) make_cond(r);
        else make_repeat(r);
        break;
    }
}

/* ---- outputs ---- */

/* An input of the type that nothing writes yet, each of whose elements has a place of its own; -1: none. */
static int writable_input(const maker *r, sn_nd x, uint32_t *written) {
    for (uint32_t k = 0; k < r->m->graph.inputs.n && k < 32; k++) {
        const sn_graph_input *in = &r->m->graph.inputs.at[k];
        if (!in->contiguous || *written >> k & 1 || !sn_type_eq(type_of(r, in->node), type_of(r, x))) continue;
        *written |= 1u << k;
        return (int)k;
    }
    return -1;
}

static void add_outputs(maker *r) {
    uint32_t n = 0, written = 0;
    uint8_t *used = SN_NEWN(r->arena, uint8_t, r->m->graph.nodes.count);
    for (uint32_t i = 1; i < r->m->graph.nodes.count; i++) {
        const sn_node_rec *rec = sn_node_get(r->m, (sn_nd){i});
        for (uint32_t k = 0; k < rec->n_in; k++) used[rec->in[k].i] = 1;
    }
    for (uint32_t k = r->n_values; k-- > 0;) {
        sn_nd x = r->values[k];
        if (n && !random_chance(&r->state, used[x.i] ? 15 : sn_node_get(r->m, x)->op == SN_OP_INPUT ? 5 : 60)) continue;
        char name[16];
        snprintf(name, sizeof name, "y%u", n++);
        int writes = random_chance(&r->state, 30) ? writable_input(r, x, &written) : -1;
        sn_graph_output_new(r->m, name, x, writes);
        forget_refusal(r, "output");
    }
}

sn_status random_graph(sn_text *out, sn_context *ctx, uint64_t seed, random_sizes sizes) {
    maker r = {.m = sn_module_new(&ctx->env), .arena = &ctx->scratch, .sizes = sizes, .state = seed};
    uint32_t wanted = 1 + (uint32_t)random_below(&r.state, MAX_NODES), made = 0;
    sn_graph_init(r.m, "random");
    for (int try = 0; try < TRIES && made < wanted && r.status == SN_OK; try++) {
        uint32_t before = r.m->graph.nodes.count, inputs = r.m->graph.inputs.n;
        make(&r, (sn_op)random_below(&r.state, SN_N_OPS));
        made += r.m->graph.nodes.count - before > r.m->graph.inputs.n - inputs;
    }
    if (!r.n_values) input(&r, SN_F32, &(shape){0});
    add_outputs(&r);
    if (r.status == SN_OK) sn_module_print(out, r.m);
    sn_module_free(r.m);
    return r.status;
}
