/* test_pipeline.c: every prefix of the pipeline computes what the graph computes, on random graphs with fixed seeds, for a
 * GPU and for the CPU. Kernels are evaluated one statement after the other (ir/loop/eval.c), so that no code generator is
 * involved. Graphs are written as text: a failure prints one that can be given to `sinter opt`. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend-nvptx/ptx.h"
#include "passes/runner.h"

enum { GRAPHS = 400, MAX_VALUES = 48, MAX_INPUTS = 12, MAX_AXES = 6 };

static uint64_t seed;

static uint32_t pick(uint32_t n) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33) % n;
}

static bool chance(uint32_t percent) { return pick(100) < percent; }

/* ---- random graphs ---- */

typedef struct value {
    char name[12];
    uint32_t rank;
    int64_t shape[MAX_AXES];
} value;

typedef struct source {
    sn_text inputs, body;
    const char *dtype;
    int64_t limit; /* elements of a value */
    value at[MAX_VALUES];
    uint32_t n, n_inputs, n_values;
    int64_t positions[MAX_INPUTS]; /* of index inputs: the size of the axis that they pick from */
} source;

static int64_t numel(const value *v) {
    int64_t n = 1;
    for (uint32_t k = 0; k < v->rank; k++) n *= v->shape[k];
    return n;
}

static void put_list(sn_text *t, const char *before, const int64_t *x, uint32_t n, const char *after) {
    sn_text_printf(t, "%s[", before);
    for (uint32_t k = 0; k < n; k++) sn_text_printf(t, "%s%" PRId64, k ? ", " : "", x[k]);
    sn_text_printf(t, "]%s", after);
}

/* A layout that is not contiguous: a gap after each row, or the axes in the other order. */
static void put_strides(source *s, const value *v) {
    int64_t strides[MAX_AXES], step = 1;
    bool turned = chance(50);
    for (uint32_t i = 0; i < v->rank; i++) {
        uint32_t k = turned ? i : v->rank - 1 - i;
        strides[k] = step;
        step *= v->shape[k] + (i == 0 ? pick(3) : 0);
    }
    put_list(&s->inputs, " strides ", strides, v->rank, "");
    sn_text_printf(&s->inputs, " offset %u", pick(4));
}

static value *add_input(source *s, const value *shape, const char *dtype) {
    value *v = &s->at[s->n++];
    *v = *shape;
    snprintf(v->name, sizeof v->name, "%%x%u", s->n_inputs);
    sn_text_printf(&s->inputs, "%s%s: %s", s->n_inputs ? ", " : "", v->name, dtype);
    s->n_inputs++;
    put_list(&s->inputs, "", v->shape, v->rank, "");
    if (v->rank && chance(25)) put_strides(s, v);
    return v;
}

/* "  %v3 = ": the text of the operation follows. */
static value *begin(source *s, const value *shape) {
    value *v = &s->at[s->n++];
    *v = *shape;
    snprintf(v->name, sizeof v->name, "%%v%u", s->n_values++);
    sn_text_printf(&s->body, "  %s = ", v->name);
    return v;
}

static void gen_unary(source *s, const value *a) {
    static const char *const ops[] = {"tanh", "sigmoid", "neg", "abs", "sin", "relu", "silu"};
    begin(s, a);
    sn_text_printf(&s->body, "%s %s\n", ops[pick(SN_COUNT(ops))], a->name);
}

static bool broadcast(value *out, const value *a, const value *b) {
    const value *longer = a->rank >= b->rank ? a : b, *shorter = longer == a ? b : a;
    *out = *longer;
    for (uint32_t k = 0; k < shorter->rank; k++) {
        int64_t *x = &out->shape[longer->rank - shorter->rank + k], y = shorter->shape[k];
        if (*x != y && *x != 1 && y != 1) return false;
        if (*x == 1) *x = y;
    }
    return true;
}

static void gen_binary(source *s, const value *a) {
    static const char *const ops[] = {"add", "sub", "mul", "maximum", "minimum"};
    const value *b = &s->at[pick(s->n)];
    value shape;
    if (!broadcast(&shape, a, b) || numel(&shape) > s->limit) return;
    begin(s, &shape);
    sn_text_printf(&s->body, "%s %s, %s\n", ops[pick(SN_COUNT(ops))], a->name, b->name);
}

static void gen_reduce(source *s, const value *a) {
    static const char *const ops[] = {"sum", "mean", "amax", "amin", "var"};
    value shape = {.rank = 0};
    int64_t axes[MAX_AXES], count = 1;
    uint32_t n = 0, all = 1 + pick((1u << a->rank) - 1);
    bool keep = chance(60);
    for (uint32_t k = 0; k < a->rank; k++) {
        bool reduced = all >> k & 1;
        if (reduced) axes[n++] = k, count *= a->shape[k];
        if (!reduced || keep) shape.shape[shape.rank++] = reduced ? 1 : a->shape[k];
    }
    const char *op = ops[pick(count > 1 ? SN_COUNT(ops) : SN_COUNT(ops) - 1)];
    begin(s, &shape);
    sn_text_printf(&s->body, "%s %s", op, a->name);
    put_list(&s->body, " axes=", axes, n, keep ? " keepdim=true\n" : "\n");
}

static void gen_permute(source *s, const value *a) {
    value shape = *a;
    int64_t perm[MAX_AXES];
    for (uint32_t k = 0; k < a->rank; k++) perm[k] = k;
    for (uint32_t k = a->rank; k > 1; k--) {
        uint32_t other = pick(k);
        int64_t t = perm[k - 1];
        perm[k - 1] = perm[other], perm[other] = t;
    }
    for (uint32_t k = 0; k < a->rank; k++) shape.shape[k] = a->shape[perm[k]];
    begin(s, &shape);
    sn_text_printf(&s->body, "permute %s", a->name);
    put_list(&s->body, " perm=", perm, a->rank, "\n");
}

static void gen_slice(source *s, const value *a) {
    value shape = *a;
    uint32_t axis = pick(a->rank);
    int64_t start = pick((uint32_t)a->shape[axis]), stop = start + 1 + pick((uint32_t)(a->shape[axis] - start));
    int64_t step = chance(30) ? 2 : 1;
    shape.shape[axis] = (stop - start + step - 1) / step;
    begin(s, &shape);
    sn_text_printf(&s->body, "slice %s axis=%u start=%" PRId64 " stop=%" PRId64 " step=%" PRId64 "\n", a->name, axis,
                   start, stop, step);
}

/* Windows; half of the time reduced again, as in pooling. */
static void gen_unfold(source *s, const value *a) {
    value shape = *a;
    uint32_t axis = pick(a->rank);
    int64_t length = a->shape[axis], size = 1 + pick(length < 5 ? (uint32_t)length : 5), step = 1 + pick(3);
    int64_t dilation = size > 1 && 2 * (size - 1) < length && chance(30) ? 2 : 1;
    shape.shape[axis] = (length - dilation * (size - 1) - 1) / step + 1;
    if (a->rank == MAX_AXES) return;
    shape.shape[shape.rank++] = size;
    if (numel(&shape) > s->limit) return;
    begin(s, &shape);
    sn_text_printf(&s->body, "unfold %s axis=%u size=%" PRId64 " step=%" PRId64 " dilation=[%" PRId64 "]\n", a->name,
                   axis, size, step, dilation);
    if (chance(50)) return;
    const char *windows = s->at[s->n - 1].name;
    shape.rank--;
    begin(s, &shape);
    sn_text_printf(&s->body, "amax %s axes=[%u]\n", windows, shape.rank);
}

static void gen_reshape(source *s, const value *a) {
    value shape = {.rank = 1, .shape = {numel(a)}};
    if (a->rank > 1 && chance(50)) {
        shape.rank = a->rank - 1;
        memcpy(shape.shape, a->shape + 1, shape.rank * sizeof *shape.shape);
        shape.shape[0] *= a->shape[0];
    }
    begin(s, &shape);
    sn_text_printf(&s->body, "reshape %s", a->name);
    put_list(&s->body, " shape=", shape.shape, shape.rank, "\n");
}

static void gen_flip(source *s, const value *a) {
    begin(s, a);
    sn_text_printf(&s->body, "flip %s axes=[%u]\n", a->name, pick(a->rank));
}

static void gen_pad(source *s, const value *a) {
    value shape = *a;
    int64_t low[MAX_AXES], high[MAX_AXES];
    for (uint32_t k = 0; k < a->rank; k++) {
        low[k] = chance(50) ? 0 : a->shape[k] > 2 ? (int64_t)pick(4) - 1 : pick(2);
        high[k] = chance(50) ? 0 : pick(4);
        shape.shape[k] += low[k] + high[k];
    }
    if (numel(&shape) > s->limit) return;
    begin(s, &shape);
    sn_text_printf(&s->body, "pad %s", a->name);
    put_list(&s->body, " low=", low, a->rank, "");
    put_list(&s->body, " high=", high, a->rank, " value=0.5\n");
}

static void gen_softmax(source *s, const value *a) {
    begin(s, a);
    sn_text_printf(&s->body, "softmax %s axis=%u\n", a->name, pick(a->rank));
}

/* Nothing is exclusive but sums: what a maximum begins with is infinite. */
static void gen_scan(source *s, const value *a) {
    static const char *const ops[] = {"cumsum", "cumsum", "cummax", "cummin"};
    const char *op = ops[pick(SN_COUNT(ops))];
    begin(s, a);
    sn_text_printf(&s->body, "%s %s axis=%u%s%s\n", op, a->name, pick(a->rank),
                   op[3] == 's' && chance(30) ? " exclusive=true" : "", chance(30) ? " reverse=true" : "");
}

static void gen_concat(source *s, const value *a) {
    uint32_t axis = pick(a->rank);
    const value *b = &s->at[pick(s->n)];
    value shape = *a;
    if (a->rank != b->rank) b = a;
    for (uint32_t k = 0; k < a->rank; k++)
        if (k != axis && a->shape[k] != b->shape[k]) b = a;
    shape.shape[axis] += b->shape[axis];
    if (numel(&shape) > s->limit) return;
    begin(s, &shape);
    sn_text_printf(&s->body, "concat %s, %s axis=%u\n", a->name, b->name, axis);
}

static void gen_matmul(source *s, const value *a) {
    if (a->rank < 2 || s->n_inputs + 2 > MAX_INPUTS) return;
    value w = {.rank = 2, .shape = {a->shape[a->rank - 1], 3 + 5 * pick(3)}}, shape = *a;
    shape.shape[a->rank - 1] = w.shape[1];
    if (numel(&shape) * w.shape[0] > 4 * s->limit) return;
    const char *left = a->name, *right = add_input(s, &w, s->dtype)->name;
    begin(s, &shape);
    sn_text_printf(&s->body, "matmul %s, %s\n", left, right);
}

/* Rows picked by an index tensor, which is no operand of anything else. */
static void gen_select(source *s, const value *a) {
    if (s->n_inputs + 2 > MAX_INPUTS) return;
    value index = {.rank = 1, .shape = {1 + pick(9)}}, shape = *a;
    uint32_t axis = pick(a->rank);
    shape.shape[axis] = index.shape[0];
    if (numel(&shape) > s->limit) return;
    char name[12];
    snprintf(name, sizeof name, "%s", add_input(s, &index, "i64")->name);
    s->positions[s->n_inputs - 1] = a->shape[axis];
    s->n--;
    begin(s, &shape);
    sn_text_printf(&s->body, "index_select %s, %s axis=%u\n", a->name, name, axis);
}

/* More rows of one generator: it is picked more often. */
static void (*const generators[])(source *, const value *) = {
    gen_unary,   gen_unary,  gen_unary,  gen_unary,   gen_binary, gen_binary, gen_binary,
    gen_binary,  gen_binary, gen_binary, gen_reduce,  gen_reduce, gen_reduce, gen_reduce,
    gen_permute, gen_slice,  gen_slice,  gen_reshape, gen_flip,   gen_pad,    gen_pad,
    gen_softmax, gen_concat, gen_matmul, gen_select,  gen_scan,   gen_scan,   gen_unfold,
};

static void first_inputs(source *s) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 64, 100, 129, 259};
    value shape = {.rank = 1 + pick(4)};
    for (uint32_t k = 0; k < shape.rank; k++) shape.shape[k] = sizes[pick(SN_COUNT(sizes))];
    while (numel(&shape) > s->limit) shape.shape[pick(shape.rank)] = 1 + pick(3);
    for (uint32_t i = 1 + pick(3); i > 0; i--) {
        value part = shape;
        for (uint32_t k = 0; k < part.rank; k++)
            if (chance(25)) part.shape[k] = 1;
        add_input(s, &part, s->dtype);
    }
    add_input(s, &shape, s->dtype);
}

/* The text of random graph `number` in out. */
static void write_graph(sn_text *out, int64_t *positions, sn_env *env, uint32_t number) {
    source s = {.dtype = number % 3 ? "f64" : "f32", .limit = number % 10 ? 1500 : 30000};
    seed = number + 1;
    sn_text_init(&s.inputs, env);
    sn_text_init(&s.body, env);
    first_inputs(&s);
    uint32_t wanted = 3 + pick(16);
    for (uint32_t i = 0; i < wanted && s.n + 2 < MAX_VALUES; i++) {
        value a = s.at[s.n - 1 - pick(s.n < 6 ? s.n : 6)]; /* recent ones, so that graphs get deep */
        void (*generate)(source *, const value *) = generators[pick(SN_COUNT(generators))];
        if (a.rank || generate == gen_unary || generate == gen_binary) generate(&s, &a);
    }
    sn_text_printf(out, "graph @random%u(%s) {\n%s  return last = %s", number, s.inputs.s, s.body.s,
                   s.at[s.n - 1].name);
    for (uint32_t k = 0, n = 0; k + 1 < s.n && n < 4; k++)
        if (s.at[k].name[1] == 'v' && chance(20)) sn_text_printf(out, ", o%u = %s", n++, s.at[k].name);
    sn_text_printf(out, "\n}\n");
    memcpy(positions, s.positions, sizeof s.positions);
    sn_text_free(&s.inputs);
    sn_text_free(&s.body);
}

/* Values that are reduced along their last axis and used again, then along all others: what the pass `mixed-order-reduction` looks for. */
static void write_rows_and_columns(sn_text *out, int64_t *positions, sn_env *env, uint32_t number) {
    static const int64_t sizes[] = {3, 5, 8, 24, 33, 37, 64};
    static const char *const reductions[] = {"sum", "mean", "amax"}, *const binary[] = {"add", "sub", "mul"};
    (void)positions;
    (void)env;
    seed = number + 1;
    uint32_t outer = 1 + pick(2), n = 2, stats = 0, columns = 1 + pick(3);
    int64_t shape[3] = {sizes[pick(SN_COUNT(sizes))], sizes[pick(3)], 0};
    const char *dtype = number % 3 ? "f64" : "f32", *rows = outer == 2 ? "0, 1" : "0";
    shape[outer] = sizes[pick(SN_COUNT(sizes))];
    sn_text_printf(out, "graph @rows%u(", number);
    for (uint32_t i = 0; i < 2; i++) {
        sn_text_printf(out, "%%f%u: %s", i, dtype);
        put_list(out, "", shape, outer + 1, ", ");
    }
    sn_text_printf(out, "%%w: %s[%" PRId64 "]) {\n", dtype, shape[outer]);
    for (uint32_t i = 3 + pick(8); i > 0; i--) {
        if (chance(30)) {
            sn_text_printf(out, "  %%s%u = %s %%f%u axes=[%u] keepdim=true\n", stats++, reductions[pick(3)], pick(n),
                           outer);
            continue;
        }
        sn_text_printf(out, "  %%f%u = %s %%f%u, ", n, binary[pick(3)], n - 1 - pick(2));
        if (stats && chance(50)) sn_text_printf(out, "%%s%u\n", pick(stats));
        else if (chance(30)) sn_text_printf(out, "%%w\n");
        else sn_text_printf(out, "%%f%u\n", pick(n));
        n++;
    }
    for (uint32_t i = 0; i < columns; i++)
        sn_text_printf(out, "  %%c%u = %s %%f%u axes=[%s]\n", i, reductions[pick(3)], pick(n), rows);
    sn_text_printf(out, "  return c0 = %%c0");
    for (uint32_t i = 1; i < columns; i++) sn_text_printf(out, ", c%u = %%c%u", i, i);
    if (n > 2) sn_text_printf(out, ", f = %%f%u", n - 1);
    if (stats) sn_text_printf(out, ", s = %%s%u", stats - 1);
    sn_text_printf(out, "\n}\n");
}

/* ---- evaluation ---- */

typedef struct fixture {
    sn_env env;
    sn_arena arena, scratch;
    sn_module *m;
    sn_text text;
    int64_t positions[MAX_INPUTS];
    void **inputs; /* storage, by number */
    sn_array *want;
    char **before; /* outputs of the kernels before the last pass, by number */
} fixture;

/* Small numbers; positions may count from the end. */
static void put_element(sn_array *a, int64_t e, char *storage, int64_t at, int64_t positions) {
    uint32_t bytes = sn_dtype_bytes(a->dtype);
    if (sn_is_float(a->dtype)) {
        sn_store_float(a->dtype, storage + at * bytes, (double)pick(4000) / 1000 - 2);
        a->f[e] = sn_load_float(a->dtype, storage + at * bytes);
    } else {
        sn_store_int(a->dtype, storage + at * bytes,
                     a->i[e] = (int64_t)pick((uint32_t)positions) - pick(2) * positions);
    }
}

static void make_input(fixture *f, sn_array *a, uint32_t input) {
    const sn_graph_input *in = &f->m->graph.inputs.at[input];
    const sn_type *t = &sn_node_get(f->m, in->node)->type;
    *a = (sn_array){.dtype = t->dtype, .rank = t->rank, .numel = 1};
    int64_t last = sn_ix_value(f->m, in->offset);
    for (uint32_t k = 0; k < t->rank; k++) {
        a->numel *= a->shape[k] = sn_ix_value(f->m, t->shape[k]);
        last += (a->shape[k] - 1) * sn_ix_value(f->m, in->stride[k]);
    }
    a->f = SN_NEWN(&f->arena, double, a->numel);
    a->i = SN_NEWN(&f->arena, int64_t, a->numel);
    f->inputs[input] = sn_zalloc(&f->arena, (size_t)(last + 1) * sn_dtype_bytes(t->dtype));
    for (int64_t e = 0; e < a->numel; e++) {
        int64_t at = sn_ix_value(f->m, in->offset), rest = e;
        for (uint32_t k = t->rank; k-- > 0; rest /= a->shape[k])
            at += rest % a->shape[k] * sn_ix_value(f->m, in->stride[k]);
        put_element(a, e, f->inputs[input], at, f->positions[input]);
    }
}

static void parse(fixture *f) {
    sn_module_free(f->m);
    f->m = sn_module_new(&f->env);
    cr_assert_eq(sn_module_parse(f->m, "random", f->text.s, f->text.n), SN_OK, "%s\n%s", f->env.message, f->text.s);
}

static void evaluate_graph(fixture *f) {
    uint32_t n = f->m->graph.inputs.n;
    sn_array *in = SN_NEWN(&f->arena, sn_array, n + 1);
    f->inputs = SN_NEWN(&f->arena, void *, n + 1);
    f->want = SN_NEWN(&f->arena, sn_array, f->m->graph.outputs.n);
    for (uint32_t k = 0; k < n; k++) make_input(f, &in[k], k);
    cr_assert_eq(sn_graph_eval(f->want, f->m, in, &f->arena), SN_OK, "%s\n%s", f->env.message, f->text.s);
}

static void fail(fixture *f, const char *pass, const char *target, const char *what) {
    sn_text now;
    sn_text_init(&now, &f->env);
    sn_module_print(&now, f->m);
    cr_assert_fail("after %s for %s: %s\n%s\n%s", pass, target, what, f->text.s, now.s);
}

/* These keep the order of every summation; only the sign of a zero may change (the sum of one -0). */
static bool keeps_bits(const char *pass) {
    static const char *const passes[] = {"simplify-index", "drop-units", "reorder", "fuse", "hoist"};
    for (uint32_t k = 0; k < SN_COUNT(passes); k++)
        if (!strcmp(pass, passes[k])) return true;
    return false;
}

static bool same(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

static void compare(fixture *f, uint32_t output, const char *got, const char *pass, const char *target) {
    const sn_array *want = &f->want[output];
    uint32_t bytes = sn_dtype_bytes(want->dtype);
    double largest = 1, bound = want->dtype == SN_F64 ? 1e-8 : 1e-2;
    for (int64_t e = 0; e < want->numel; e++) largest = fmax(largest, fabs(want->f[e]));
    bool exact = f->before[output] && keeps_bits(pass);
    for (int64_t e = 0; e < want->numel; e++) {
        double x = sn_load_float(want->dtype, got + e * bytes), y = want->f[e];
        if (!same(x, y) && !(fabs(x - y) <= bound * largest))
            fail(f, pass, target,
                 sn_strf(&f->arena, "element %" PRId64 " of output %u is %g, not %g", e, output, x, y));
        if (exact && !same(x, sn_load_float(want->dtype, f->before[output] + e * bytes)))
            fail(f, pass, target, sn_strf(&f->arena, "element %" PRId64 " of output %u changed its bits", e, output));
    }
}

static void evaluate_kernels(fixture *f, const char *pass, const char *target) {
    sn_module *m = f->m;
    void **memory = SN_NEWN(&f->scratch, void *, m->bufs.count);
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        if (b->scope == SN_BUF_INPUT) memory[i] = f->inputs[b->io];
        if (b->scope == SN_BUF_OUTPUT)
            memory[i] = sn_zalloc(&f->arena, (size_t)sn_ix_value(m, b->size) * sn_dtype_bytes(b->dtype) + 1);
    }
    if (sn_loop_eval(m, memory, &f->scratch) != SN_OK) fail(f, pass, target, f->env.message);
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        if (b->scope != SN_BUF_OUTPUT) continue;
        compare(f, b->io, memory[i], pass, target);
        f->before[b->io] = memory[i];
    }
}

/* So small kernels are never split of themselves, nor do they take in the sums of others. */
static void pin_groups(sn_module *m, uint32_t groups) {
    for (uint32_t i = 0; i < m->kernels.n; i++) sn_kern_get(m, m->kernels.at[i])->sched.split = groups;
}

/* Run the pipeline pass by pass; evaluate after each that changed something. groups: the number to cut kernels into, 0: as
 * the passes choose. */
static void check_prefixes(fixture *f, const sn_target *target, const char *pipeline, uint32_t groups) {
    parse(f);
    f->before = SN_NEWN(&f->arena, char *, f->m->graph.outputs.n);
    char *names = sn_strdup(&f->arena, pipeline);
    for (char *rest = NULL, *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        const sn_pass_info *p = sn_passes;
        while (strcmp(p->name, name)) p++;
        sn_pass_ctx cx = {.m = f->m, .scratch = &f->scratch, .target = target, .pass = name};
        bool changed = false;
        if (!strcmp(name, "mix")) pin_groups(f->m, groups);
        if (p->fn(&cx, &changed) != SN_OK || sn_module_verify(f->m, name) != SN_OK)
            fail(f, name, target->name, f->env.message);
        if (changed && f->m->kernels.n) evaluate_kernels(f, name, target->name);
        sn_arena_free(&f->scratch);
        sn_arena_init(&f->scratch, &f->env);
    }
}

static void check_graph(uint32_t number, void (*write)(sn_text *, int64_t *, sn_env *, uint32_t)) {
    fixture f = {0};
    sn_target gpu, host;
    sn_env_init(&f.env);
    cr_assert_eq(sn_target_named(&gpu, &f.env, "sm_90"), SN_OK);
    sn_target_host(&host, 1);
    sn_arena_init(&f.arena, &f.env);
    sn_arena_init(&f.scratch, &f.env);
    sn_text_init(&f.text, &f.env);
    f.m = sn_module_new(&f.env);
    write(&f.text, f.positions, &f.env, number);
    parse(&f);
    evaluate_graph(&f);
    check_prefixes(&f, &gpu, sn_pipeline_gpu, 0);
    check_prefixes(&f, &gpu, sn_pipeline_gpu, 2 + number % 3);
    check_prefixes(&f, &host, sn_pipeline_host, 0);
    sn_text_free(&f.text);
    sn_module_free(f.m);
    sn_arena_free(&f.arena);
    sn_arena_free(&f.scratch);
    cr_expect_eq(f.env.bytes_now, 0, "%zu bytes are still held", f.env.bytes_now);
}

Test(pipeline, every_prefix_computes_the_same_on_random_graphs) {
    for (uint32_t g = 0; g < GRAPHS; g++) check_graph(g, write_graph);
}

Test(pipeline, sums_over_rows_and_columns_on_random_graphs) {
    for (uint32_t g = 0; g < GRAPHS; g++) check_graph(g, write_rows_and_columns);
}

/* ---- work ---- */

/* The step of an LSTM, n times: products, gates, and states that all steps after it hang on. */
static void put_lstm(sn_text *t, int n) {
    sn_text_printf(t, "graph @lstm(%%x: f32[%d, 4, 32], %%w: f32[96, 256], %%h0: f32[4, 64], %%c0: f32[4, 64]) {\n", n);
    for (int i = 0; i < n; i++) {
        sn_text_printf(t, "  %%s%d = slice %%x axis=0 start=%d stop=%d\n  %%x%d = squeeze %%s%d axes=[0]\n", i, i,
                       i + 1, i, i);
        sn_text_printf(t, "  %%j%d = concat %%x%d, %%h%d axis=1\n  %%g%d = matmul %%j%d, %%w\n", i, i, i, i, i);
        for (int k = 0; k < 4; k++)
            sn_text_printf(t, "  %%p%d_%d = slice %%g%d axis=1 start=%d stop=%d\n", i, k, i, 64 * k, 64 * k + 64);
        sn_text_printf(t, "  %%i%d = sigmoid %%p%d_0\n  %%f%d = sigmoid %%p%d_1\n", i, i, i, i);
        sn_text_printf(t, "  %%n%d = tanh %%p%d_2\n  %%o%d = sigmoid %%p%d_3\n", i, i, i, i);
        sn_text_printf(t, "  %%a%d = mul %%f%d, %%c%d\n  %%b%d = mul %%i%d, %%n%d\n", i, i, i, i, i, i);
        sn_text_printf(t, "  %%c%d = add %%a%d, %%b%d\n  %%t%d = tanh %%c%d\n", i + 1, i, i, i, i + 1);
        sn_text_printf(t, "  %%h%d = mul %%o%d, %%t%d\n", i + 1, i, i);
    }
    sn_text_printf(t, "  return h = %%h%d\n}\n", n);
}

static size_t peak_of_lstm(const char *target_name, int n) {
    sn_env env;
    sn_target target;
    sn_text t;
    sn_env_init(&env);
    sn_text_init(&t, &env);
    put_lstm(&t, n);
    sn_module *m = sn_module_new(&env);
    cr_assert_eq(sn_module_parse(m, "lstm", t.s, t.n), SN_OK, "%s", env.message);
    cr_assert_eq(sn_target_named(&target, &env, target_name), SN_OK);
    cr_assert_eq(sn_passes_run(&m, &target, &(sn_pass_options){.verify = SN_VERIFY_OFF}), SN_OK, "%s", env.message);
    size_t peak = env.bytes_peak;
    sn_text_free(&t);
    sn_module_free(m);
    return peak;
}

/* What a pass asks about a kernel costs what the kernel is, not what the module is: then four times the steps touch four times the
 * memory, and not sixteen times. */
Test(pipeline, work_is_linear_in_the_steps_of_an_lstm) {
    static const char *const TARGETS[] = {"sm_90a", "host"};
    for (size_t k = 0; k < SN_COUNT(TARGETS); k++) {
        size_t few = peak_of_lstm(TARGETS[k], 64), many = peak_of_lstm(TARGETS[k], 256);
        cr_expect_lt(many, 6 * few, "%s: %zu and %zu bytes", TARGETS[k], few, many);
    }
}
