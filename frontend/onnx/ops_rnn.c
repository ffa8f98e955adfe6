/* ops_rnn.c: RNN, GRU and LSTM: a repeat over the sequence (ir/graph/repeat.h), or its steps written out where they are few.
 *
 *     x[S, B, I]  ->  for each direction:   p = x W^T + bias          all steps at once: [S, B, gates*H]
 *                                           h, c = cell(p[0], h, c)   step 0, or the last one first
 *                                           h, c = cell(p[1], h, c)   ...
 *     Y[S, D, B, H]: every h      Y_h[D, B, H], Y_c: the last ones
 *
 * Both directions are in one repeat, so that what they do in a step can be done side by side. The product of all inputs is outside.
 *
 * The three differ in their cell and in how many gates their weights hold; directions and steps are shared. A sequence
 * that is shorter than S keeps its state from its end on and has zeros in Y there, which also makes the steps backwards
 * begin at its last element.
 */
#include "frontend/onnx/quant.h"
#include "ir/graph/repeat.h"

#include <math.h>
#include <strings.h>

/* ---- activations ---- */

/* One with its parameters. */
typedef struct activation {
    const struct activation_kind *kind;
    double alpha, beta;
} activation;

typedef struct activation_kind {
    const char *name;
    uint32_t n_parameters; /* alpha, alpha and beta */
    double alpha, beta;    /* unless given */
    sn_nd (*build)(sn_module *m, sn_nd x, const activation *a);
} activation_kind;

static sn_nd relu(sn_module *m, sn_nd x, const activation *a) { return (void)a, sn_graph_unary(m, SN_OP_RELU, x); }
static sn_nd tanh_of(sn_module *m, sn_nd x, const activation *a) { return (void)a, sn_graph_unary(m, SN_OP_TANH, x); }
static sn_nd sigmoid(sn_module *m, sn_nd x, const activation *a) {
    return (void)a, sn_graph_unary(m, SN_OP_SIGMOID, x);
}

static sn_nd affine(sn_module *m, sn_nd x, const activation *a) {
    return sn_graph_with(m, SN_OP_ADD, sn_graph_with(m, SN_OP_MUL, x, a->alpha), a->beta);
}

static sn_nd leaky_relu(sn_module *m, sn_nd x, const activation *a) {
    return sn_graph_where(m, sn_graph_with(m, SN_OP_LT, x, 0), sn_graph_with(m, SN_OP_MUL, x, a->alpha), x);
}

static sn_nd thresholded_relu(sn_module *m, sn_nd x, const activation *a) {
    return sn_graph_where(m, sn_graph_with(m, SN_OP_LT, x, a->alpha), sn_graph_number(m, x, 0), x);
}

static sn_nd scaled_tanh(sn_module *m, sn_nd x, const activation *a) {
    x = sn_graph_unary(m, SN_OP_TANH, sn_graph_with(m, SN_OP_MUL, x, a->beta));
    return sn_graph_with(m, SN_OP_MUL, x, a->alpha);
}

static sn_nd hard_sigmoid(sn_module *m, sn_nd x, const activation *a) {
    return sn_graph_with(m, SN_OP_MINIMUM, sn_graph_with(m, SN_OP_MAXIMUM, affine(m, x, a), 0), 1);
}

static sn_nd elu(sn_module *m, sn_nd x, const activation *a) {
    sn_nd below = sn_graph_with(m, SN_OP_MUL, sn_graph_unary(m, SN_OP_EXPM1, x), a->alpha);
    return sn_graph_where(m, sn_graph_with(m, SN_OP_LT, x, 0), below, x);
}

/* x / (1 + |x|) */
static sn_nd softsign(sn_module *m, sn_nd x, const activation *a) {
    (void)a;
    return sn_graph_binary(m, SN_OP_DIV, x, sn_graph_with(m, SN_OP_ADD, sn_graph_unary(m, SN_OP_ABS, x), 1));
}

/* log(1 + e^x) = max(x, 0) + log1p(e^-|x|) */
static sn_nd softplus(sn_module *m, sn_nd x, const activation *a) {
    (void)a;
    sn_nd tail = sn_graph_unary(m, SN_OP_EXP, sn_graph_unary(m, SN_OP_NEG, sn_graph_unary(m, SN_OP_ABS, x)));
    return sn_graph_binary(m, SN_OP_ADD, sn_graph_unary(m, SN_OP_RELU, x), sn_graph_unary(m, SN_OP_LOG1P, tail));
}

static const activation_kind activation_kinds[] = {
    {"Relu", 0, 0, 0, relu},
    {"Tanh", 0, 0, 0, tanh_of},
    {"Sigmoid", 0, 0, 0, sigmoid},
    {"Affine", 2, 1, 0, affine},
    {"LeakyRelu", 1, 0.01, 0, leaky_relu},
    {"ThresholdedRelu", 1, 1, 0, thresholded_relu},
    {"ScaledTanh", 2, 1, 1, scaled_tanh},
    {"HardSigmoid", 2, 0.2, 0.5, hard_sigmoid},
    {"Elu", 1, 1, 0, elu},
    {"Softsign", 0, 0, 0, softsign},
    {"Softplus", 0, 0, 0, softplus},
};

/* ---- the operators ---- */

enum { MAX_ACTIVATIONS = 3 };

typedef struct state {
    sn_nd h, c; /* [B, H]; c of an LSTM only */
} state;

typedef struct direction direction;

typedef struct cell {
    int64_t gates;
    uint32_t n_activations;
    const char *activations[MAX_ACTIVATIONS]; /* unless given */
    /* The state after a step; x: what the input gives to the gates, [B, gates*H]. */
    state (*step)(const direction *d, sn_nd x, state s);
} cell;

/* What a direction's steps share. */
struct direction {
    sn_module *m;
    int64_t hidden;
    double clip;                                /* of what comes to the gates; infinity: none */
    bool linear_before_reset, input_forget;     /* of GRU, LSTM */
    bool by_bytes;                              /* products see inputs, and each row of states, as bytes hold them */
    activation activations[MAX_ACTIVATIONS];    /* f, g, h */
    sn_nd recurrent, recurrent_bias, peepholes; /* [H, gates*H], [gates*H] (GRU), [3*H] (LSTM) */
};

static sn_nd activate(const direction *d, uint32_t which, sn_nd x) {
    return d->activations[which].kind->build(d->m, x, &d->activations[which]);
}

static sn_nd activate_clipped(const direction *d, uint32_t which, sn_nd x) {
    if (isinf(d->clip)) return activate(d, which, x);
    x = sn_graph_with(d->m, SN_OP_MINIMUM, x, d->clip);
    return activate(d, which, sn_graph_with(d->m, SN_OP_MAXIMUM, x, -d->clip));
}

/* Gates first .. first+n-1, which the last axis holds one after the other. */
static sn_nd gates(const direction *d, sn_nd x, int64_t first, int64_t n) {
    return sn_graph_slice(d->m, x, -1, first * d->hidden, (first + n) * d->hidden, 1);
}

static sn_nd add(const direction *d, sn_nd x, sn_nd y) { return sn_graph_binary(d->m, SN_OP_ADD, x, y); }
static sn_nd mul(const direction *d, sn_nd x, sn_nd y) { return sn_graph_binary(d->m, SN_OP_MUL, x, y); }
static sn_nd one_minus(const direction *d, sn_nd x) {
    return sn_graph_binary(d->m, SN_OP_SUB, sn_graph_number(d->m, x, 1), x);
}

/* h = f(x + h R^T) */
static state rnn_step(const direction *d, sn_nd x, state s) {
    return (state){.h = activate_clipped(d, 0, add(d, x, sn_graph_matmul(d->m, s.h, d->recurrent)))};
}

/* z = f(xz + h Rz^T)   r = f(xr + h Rr^T)   n = g(xn + (r h) Rn^T), or g(xn + r (h Rn^T + bn))   h = (1 - z) n + z h */
static state gru_step(const direction *d, sn_nd x, state s) {
    sn_module *m = d->m;
    sn_nd zr = sn_graph_matmul(m, s.h, gates(d, d->recurrent, 0, 2));
    zr = activate_clipped(d, 0, add(d, gates(d, x, 0, 2), zr));
    sn_nd z = gates(d, zr, 0, 1), r = gates(d, zr, 1, 1), weights = gates(d, d->recurrent, 2, 1), n;
    n = sn_graph_matmul(m, d->linear_before_reset ? s.h : mul(d, r, s.h), weights);
    if (d->linear_before_reset && d->recurrent_bias.i) n = add(d, n, gates(d, d->recurrent_bias, 2, 1));
    if (d->linear_before_reset) n = mul(d, r, n);
    n = activate_clipped(d, 1, add(d, gates(d, x, 2, 1), n));
    return (state){.h = add(d, mul(d, one_minus(d, z), n), mul(d, z, s.h))};
}

/* i, o, f = f(x + h R^T + P c)   c = f c + i g(xc + h Rc^T)   h = o h(c); the o gate sees the new c */
static state lstm_step(const direction *d, sn_nd x, state s) {
    x = add(d, x, sn_graph_matmul(d->m, d->by_bytes ? sn_onnx_through_bytes(d->m, s.h, true) : s.h, d->recurrent));
    sn_nd i = gates(d, x, 0, 1), o = gates(d, x, 1, 1), f = gates(d, x, 2, 1),
          g = activate_clipped(d, 1, gates(d, x, 3, 1));
    sn_nd p = d->peepholes;
    i = activate_clipped(d, 0, p.i ? add(d, i, mul(d, gates(d, p, 0, 1), s.c)) : i);
    f = activate_clipped(d, 0, p.i ? add(d, f, mul(d, gates(d, p, 2, 1), s.c)) : f);
    if (d->input_forget) f = one_minus(d, i);
    sn_nd c = add(d, mul(d, f, s.c), mul(d, i, g));
    o = activate_clipped(d, 0, p.i ? add(d, o, mul(d, gates(d, p, 1, 1), c)) : o);
    return (state){.h = mul(d, o, activate(d, 2, c)), .c = c};
}

static const cell rnn_cell = {1, 1, {"Tanh"}, rnn_step};
static const cell gru_cell = {3, 2, {"Sigmoid", "Tanh"}, gru_step};
static const cell lstm_cell = {4, 3, {"Sigmoid", "Tanh", "Tanh"}, lstm_step};

/* ---- a node ---- */

/* Operands of the node. */
enum { X, W, R, BIAS, LENGTHS, FIRST_H, FIRST_C, PEEPHOLES };
enum { W_SCALE = PEEPHOLES + 1, R_SCALE = W_SCALE + 2 }; /* of one whose weights are integers; zero points follow */

enum { MAX_DIRECTIONS = 2 };

typedef struct recurrence {
    sn_onnx_call *c;
    sn_module *m;
    const cell *cell;
    bool batch_first;     /* layout 1 */
    int64_t steps, dirs;  /* steps -1: a name; directions */
    bool backwards;       /* the first direction */
    sn_nd x;              /* [S, B, I] */
    sn_nd weights[2];     /* W, R: [dirs, gates*H, I or H] */
    sn_nd inside;         /* bool [S, B, 1]: step t belongs to the sequence; none: always */
    sn_ix state_shape[2]; /* B, H */
    direction shared;
} recurrence;

/* Part d of an operand whose parts are directions; none where it is not given. */
static sn_nd of_direction(recurrence *r, uint32_t operand, int64_t axis, int64_t d) {
    return sn_onnx_has(r->c, operand) ? sn_graph_pick(r->m, sn_onnx_in(r->c, operand), axis, d) : (sn_nd){0};
}

/* Operand k, weights: integers that have scales have their rows and columns the other way round. */
static sn_nd read_weights(recurrence *r, uint32_t k) {
    static const int64_t rows = 1;
    sn_module *m = r->m;
    sn_nd w = sn_onnx_in(r->c, k), by[2];
    if (!r->shared.by_bytes) return w;
    for (uint32_t j = 0; j < 2; j++) { /* [dirs], or [dirs, gates*H] */
        by[j] = sn_graph_cast(m, sn_onnx_in(r->c, (k == W ? W_SCALE : R_SCALE) + j), SN_F32);
        bool all = sn_graph_type(m, by[j])->rank == 1;
        by[j] = all ? sn_graph_align(m, by[j], 0, 3) : sn_graph_unsqueeze(m, by[j], &rows, 1);
    }
    w = sn_graph_mul(m, sn_graph_sub(m, sn_graph_cast(m, w, SN_F32), by[1]), by[0]);
    return sn_graph_move_axis(m, w, 1, 2);
}

/* Names of a direction's activations; parameters go to those that take some, in order over all directions. */
static sn_status read_activations(direction *out, recurrence *r, int64_t dir, uint32_t used[2]) {
    const sn_pb_attribute *names = sn_onnx_attr(r->c, "activations");
    const float *parameters[2];
    uint32_t n[2], per = r->cell->n_activations;
    sn_onnx_attr_floats(&parameters[0], &n[0], r->c, "activation_alpha");
    sn_onnx_attr_floats(&parameters[1], &n[1], r->c, "activation_beta");
    if (names && names->strings.n != per * r->dirs)
        return sn_onnx_fail(r->c, "%u activations; %u are wanted", names->strings.n, (unsigned)(per * r->dirs));
    for (uint32_t k = 0; k < per; k++) {
        sn_bytes s = names ? names->strings.at[dir * per + k] : (sn_bytes){0};
        const char *name = names ? sn_strndup(r->c->arena, (const char *)s.at, s.n) : r->cell->activations[k];
        activation *a = &out->activations[k];
        *a = (activation){0};
        for (uint32_t j = 0; j < SN_COUNT(activation_kinds) && !a->kind; j++)
            if (!strcasecmp(activation_kinds[j].name, name)) a->kind = &activation_kinds[j];
        if (!a->kind) return sn_onnx_fail(r->c, "activation %s", name);
        a->alpha = a->kind->alpha, a->beta = a->kind->beta;
        if (a->kind->n_parameters > 0 && used[0] < n[0]) a->alpha = (double)parameters[0][used[0]++];
        if (a->kind->n_parameters > 1 && used[1] < n[1]) a->beta = (double)parameters[1][used[1]++];
    }
    return SN_OK;
}

static sn_status read_direction_names(recurrence *r) {
    const char *name = sn_onnx_attr_text(r->c, "direction", "forward");
    r->backwards = !strcasecmp(name, "reverse");
    r->dirs = !strcasecmp(name, "bidirectional") ? 2 : 1;
    if (r->dirs == 1 && !r->backwards && strcasecmp(name, "forward")) return sn_onnx_fail(r->c, "direction %s", name);
    return SN_OK;
}

/* Ranks of the operands, by place; what is left out has none. */
static sn_status check_ranks(recurrence *r) {
    static const uint32_t ranks[] = {[X] = 3,       [W] = 3,       [R] = 3,       [BIAS] = 2,
                                     [LENGTHS] = 1, [FIRST_H] = 3, [FIRST_C] = 3, [PEEPHOLES] = 2};
    for (uint32_t k = 0; k < SN_COUNT(ranks); k++) {
        uint32_t rank = sn_onnx_has(r->c, k) ? sn_graph_type(r->m, sn_onnx_in(r->c, k))->rank : ranks[k];
        if (rank != ranks[k]) return sn_onnx_fail(r->c, "operand %u has rank %u, not %u", k + 1, rank, ranks[k]);
    }
    return r->m->env->status;
}

/* Operands and attributes that all directions share. */
static sn_status read_recurrence(recurrence *r) {
    sn_onnx_call *c = r->c;
    sn_module *m = r->m;
    r->batch_first = sn_onnx_attr_int(c, "layout", 0);
    SN_TRY(check_ranks(r));
    r->x = sn_onnx_in(c, X);
    if (r->batch_first) r->x = sn_graph_move_axis(m, r->x, 1, 0);
    for (uint32_t k = 0; k < 2; k++) r->weights[k] = read_weights(r, W + k);
    const sn_type *t = sn_graph_type(m, r->x), *tr = sn_graph_type(m, r->weights[1]);
    if (t->rank != 3 || tr->rank != 3) return sn_onnx_fail(c, "X or R is missing");
    r->state_shape[0] = t->shape[1], r->state_shape[1] = tr->shape[2];
    if (!sn_ix_is_const(m, tr->shape[2], &r->shared.hidden) || r->shared.hidden > INT32_MAX)
        return sn_onnx_fail(c, "the hidden size is no number, or too large");
    if (!sn_ix_is_const(m, t->shape[0], &r->steps)) r->steps = -1;
    if (r->steps == 0) return sn_onnx_fail(c, "sequences without elements");
    r->shared.m = m;
    r->shared.clip = sn_onnx_attr_float(c, "clip", INFINITY);
    r->shared.linear_before_reset = r->cell == &gru_cell && sn_onnx_attr_int(c, "linear_before_reset", 0);
    r->shared.input_forget = r->cell == &lstm_cell && sn_onnx_attr_int(c, "input_forget", 0);
    sn_onnx_attr_ignore(c, "hidden_size"); /* R says it */
    sn_onnx_attr_ignore(c, "output_sequence");
    if (sn_onnx_has(c, LENGTHS)) {
        sn_ix shape[] = {t->shape[0], t->shape[1], sn_ix_const(m, 1)};
        sn_nd n = sn_graph_reshape(m, sn_graph_cast(m, sn_onnx_in(c, LENGTHS), SN_I64), shape + 1, 2);
        r->inside = sn_graph_binary(m, SN_OP_LT, sn_graph_iota(m, SN_I64, 0, shape, 3), n);
    }
    return read_direction_names(r);
}

/* x W^T and all biases, but for that of the candidate of a GRU which is inside of the reset. */
static sn_nd projected(direction *d, recurrence *r, int64_t dir) {
    sn_nd w = sn_graph_move_axis(r->m, sn_graph_pick(r->m, r->weights[0], 0, dir), 1, 0);
    sn_nd b = of_direction(r, BIAS, 0, dir);
    sn_nd p = sn_graph_matmul(r->m, d->by_bytes ? sn_onnx_through_bytes(r->m, r->x, false) : r->x, w);
    if (!b.i) return p;
    int64_t n = r->cell->gates, none = 0;
    sn_nd inner = d->recurrent_bias = gates(d, b, n, n);
    if (d->linear_before_reset) inner = sn_graph_pad(r->m, gates(d, inner, 0, 2), &none, &d->hidden, 0);
    return add(d, add(d, p, gates(d, b, 0, n)), inner);
}

static state first_state(recurrence *r, int64_t dir) {
    sn_nd zero = sn_graph_full(r->m, sn_graph_type(r->m, r->x)->dtype, 0, r->state_shape, 2);
    sn_nd h = of_direction(r, FIRST_H, r->batch_first, dir);
    sn_nd c = r->cell == &lstm_cell ? of_direction(r, FIRST_C, r->batch_first, dir) : zero;
    return (state){h.i ? h : zero, c.i ? c : zero};
}

/* A step that lies behind the end of its sequence changes nothing. */
static state where_inside(sn_module *m, sn_nd inside, state after, state before) {
    after.h = sn_graph_where(m, inside, after.h, before.h);
    if (after.c.i) after.c = sn_graph_where(m, inside, after.c, before.c);
    return after;
}

/* A direction: what its steps share, what the input gives to all of them, its states. */
typedef struct way {
    direction d;
    sn_nd p;
    state s;
    bool reverse;
} way;

static sn_status start_way(way *out, recurrence *r, int64_t dir, uint32_t used[2]) {
    *out = (way){.d = r->shared, .s = first_state(r, dir), .reverse = r->backwards || dir};
    SN_TRY(read_activations(&out->d, r, dir, used));
    out->d.recurrent = sn_graph_move_axis(r->m, sn_graph_pick(r->m, r->weights[1], 0, dir), 1, 0);
    if (r->cell == &lstm_cell) out->d.peepholes = of_direction(r, PEEPHOLES, 0, dir);
    out->p = projected(&out->d, r, dir);
    return r->m->env->status;
}

/* A step from state s: the state after it; *y: what Y has of it. */
static state one_step(sn_nd *y, recurrence *r, const way *w, sn_nd x, sn_nd inside, state s) {
    state after = r->cell->step(&w->d, x, s);
    *y = after.h;
    if (!inside.i) return after;
    after = where_inside(r->m, inside, after, s);
    *y = sn_graph_where(r->m, inside, *y, sn_graph_number(r->m, *y, 0));
    return after;
}

/* All steps; rows: Y of this direction, [S, 1, B, H]. */
static void write_steps(sn_nd *rows, recurrence *r, way *w) {
    sn_module *m = r->m;
    sn_nd *y = SN_NEWN(r->c->arena, sn_nd, r->steps);
    for (int64_t k = 0; k < r->steps && m->env->status == SN_OK; k++) {
        int64_t t = w->reverse ? r->steps - 1 - k : k;
        sn_nd inside = r->inside.i ? sn_graph_pick(m, r->inside, 0, t) : (sn_nd){0};
        w->s = one_step(&y[t], r, w, sn_graph_pick(m, w->p, 0, t), inside, w->s);
        y[t] = sn_graph_unsqueeze(m, y[t], (int64_t[]){0, 1}, 2);
    }
    *rows = sn_graph_concat(m, y, (uint32_t)r->steps, 0);
}

/* The same as one repeat of all directions. */
static void repeat_steps(sn_nd *rows, recurrence *r, way *ways) {
    sn_module *m = r->m;
    uint32_t number = sn_repeat_number(m), n = 0;
    sn_nd states[2 * MAX_DIRECTIONS], after[2 * MAX_DIRECTIONS], y[MAX_DIRECTIONS], results[3 * MAX_DIRECTIONS];
    bool backwards[MAX_DIRECTIONS];
    for (int64_t d = 0; d < r->dirs; d++) {
        way *w = &ways[d];
        state s = {.h = states[n] = sn_graph_repeat_state(m, number, n, w->s.h)};
        if (r->cell == &lstm_cell) s.c = states[n + 1] = sn_graph_repeat_state(m, number, n + 1, w->s.c);
        sn_nd inside = r->inside.i ? sn_graph_repeat_slice(m, number, r->inside, 0, w->reverse) : (sn_nd){0};
        state next = one_step(&y[d], r, w, sn_graph_repeat_slice(m, number, w->p, 0, w->reverse), inside, s);
        after[n++] = next.h;
        if (s.c.i) after[n++] = next.c;
        backwards[d] = w->reverse;
    }
    sn_graph_repeat end = {.number = number,
                           .n_states = n,
                           .n_stacks = (uint32_t)r->dirs,
                           .states = states,
                           .after = after,
                           .stacks = y,
                           .backwards = backwards,
                           .trip = sn_graph_type(m, r->x)->shape[0]};
    sn_graph_repeat_end(results, m, &end);
    for (int64_t d = 0; d < r->dirs; d++) {
        uint32_t per = n / (uint32_t)r->dirs;
        ways[d].s = (state){results[d * per], per > 1 ? results[d * per + 1] : (sn_nd){0}};
        rows[d] = sn_graph_unsqueeze(m, results[n + d], (int64_t[]){1}, 1);
    }
}

/* [D, B, H] or [B, D, H] of the last states. */
static sn_nd joined(recurrence *r, const sn_nd *of) {
    sn_nd parts[2];
    for (int64_t d = 0; d < r->dirs; d++) parts[d] = sn_graph_unsqueeze(r->m, of[d], (int64_t[]){r->batch_first}, 1);
    return sn_graph_concat(r->m, parts, (uint32_t)r->dirs, r->batch_first);
}

/* A state that has no elements cannot be one of a repeat. */
static bool is_written_out(const recurrence *r) {
    int64_t size;
    bool empty = false;
    for (int k = 0; k < 2; k++) empty |= sn_ix_is_const(r->m, r->state_shape[k], &size) && size == 0;
    return r->steps > 0 && (r->steps <= SN_ONNX_WRITTEN || empty);
}

static sn_status recurrent(sn_onnx_call *c, const cell *kind) {
    recurrence r = {.c = c, .m = c->m, .cell = kind, .shared.by_bytes = c->op->arg};
    SN_TRY(read_recurrence(&r));
    sn_nd rows[MAX_DIRECTIONS], h[MAX_DIRECTIONS], cs[MAX_DIRECTIONS];
    way ways[MAX_DIRECTIONS];
    uint32_t used[2] = {0, 0}; /* parameters of activations */
    for (int64_t d = 0; d < r.dirs; d++) SN_TRY(start_way(&ways[d], &r, d, used));
    if (!is_written_out(&r)) repeat_steps(rows, &r, ways);
    else if (r.steps > SN_ONNX_ITERATIONS) return sn_onnx_fail(c, "more than %d iterations", SN_ONNX_ITERATIONS);
    else
        for (int64_t d = 0; d < r.dirs; d++) write_steps(&rows[d], &r, &ways[d]);
    SN_TRY(c->m->env->status);
    for (int64_t d = 0; d < r.dirs; d++) h[d] = ways[d].s.h, cs[d] = ways[d].s.c;
    sn_nd all = sn_graph_concat(r.m, rows, (uint32_t)r.dirs, 1);
    if (r.batch_first) all = sn_graph_permute(r.m, all, (int64_t[]){2, 0, 1, 3}, 4);
    sn_onnx_out(c, 1, joined(&r, h));
    if (kind == &lstm_cell) sn_onnx_out(c, 2, joined(&r, cs));
    return sn_onnx_done(c, all);
}

sn_status sn_onnx_rnn(sn_onnx_call *c) { return recurrent(c, &rnn_cell); }
sn_status sn_onnx_gru(sn_onnx_call *c) { return recurrent(c, &gru_cell); }
sn_status sn_onnx_lstm(sn_onnx_call *c) { return recurrent(c, &lstm_cell); }
