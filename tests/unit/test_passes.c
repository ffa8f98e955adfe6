/* test_passes.c: graph passes keep the meaning of graphs (given ones and random ones), the runner reports what goes wrong,
 * and what `plan` places computes what the kernels compute in memory of their own. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/loop/repeats.h"
#include "passes/runner.h"
#include "passes/plan/plan.h"

static sn_env env;
static sn_module *m;
static sn_arena arena;
static uint64_t seed;

static void setup(void) {
    sn_env_init(&env);
    m = sn_module_new(&env);
    sn_arena_init(&arena, &env);
    seed = 1;
}

static void teardown(void) {
    sn_module_free(m);
    sn_arena_free(&arena);
    cr_expect_eq(env.bytes_now, 0, "%zu bytes are still held", env.bytes_now);
}

TestSuite(passes, .init = setup, .fini = teardown);

static uint32_t pick(uint32_t n) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33) % n;
}

static void parse(const char *text) {
    sn_status st = sn_module_parse(m, "test", text, strlen(text));
    cr_assert_eq(st, SN_OK, "%s", env.message);
}

static sn_status run_verified(const char *pipeline, sn_verify_mode verify) {
    sn_target target = {.name = "host", .units = 1};
    sn_pass_options options = {.pipeline = pipeline, .verify = verify};
    return sn_passes_run(&m, &target, &options);
}

static sn_status run(const char *pipeline) { return run_verified(pipeline, SN_VERIFY_PARANOID); }

/* ---- graphs mean the same before and after ---- */

/* Small numbers and what rewrites get wrong: zeros of both signs, infinities, nan, the ends of integers. */
static double some_float(void) {
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0.5};
    return pick(4) == 0 ? special[pick(SN_COUNT(special))] : (double)pick(4000) / 500 - 4;
}

static int64_t some_int(sn_dtype t) {
    static const int64_t special[] = {0, 1, -1, INT64_MAX, INT64_MIN, 127, -128};
    return sn_wrap_to(t, pick(3) == 0 ? special[pick(SN_COUNT(special))] : (int64_t)pick(20) - 10);
}

static sn_array some_array(const sn_type *t, bool plain) {
    sn_array a = {.dtype = t->dtype, .rank = t->rank, .numel = 1};
    for (uint32_t k = 0; k < t->rank; k++) a.numel *= a.shape[k] = sn_ix_value(m, t->shape[k]);
    a.f = SN_NEWN(&arena, double, a.numel);
    a.i = SN_NEWN(&arena, int64_t, a.numel);
    for (int64_t k = 0; k < a.numel; k++) {
        a.f[k] = sn_is_float(t->dtype) ? sn_round_to(t->dtype, plain ? (double)pick(4000) / 500 - 4 : some_float()) : 0;
        a.i[k] = sn_is_float(t->dtype) ? 0
                 : plain               ? (int64_t)pick(8) % (t->dtype == SN_BOOL ? 2 : 8)
                                       : some_int(t->dtype);
    }
    return a;
}

static bool close_to(double a, double b, double bound) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (a == b) return bound > 0 || !signbit(a) == !signbit(b);
    return fabs(a - b) <= bound * (1 + fabs(b));
}

static void expect_equal(const sn_array *got, const sn_array *want, double bound, const char *what) {
    cr_assert_eq(got->numel, want->numel, "%s", what);
    cr_assert_eq(got->dtype, want->dtype, "%s", what);
    for (int64_t k = 0; k < want->numel; k++) {
        bool same = sn_is_float(want->dtype) ? close_to(got->f[k], want->f[k], bound) : got->i[k] == want->i[k];
        cr_assert(same, "element %lld is %g/%lld, was %g/%lld in\n%s", (long long)k, got->f ? got->f[k] : 0,
                  got->i ? (long long)got->i[k] : 0, want->f ? want->f[k] : 0, want->i ? (long long)want->i[k] : 0,
                  what);
    }
}

/* Evaluate the module's graph, run the pipeline, evaluate again. */
static void expect_same_meaning(const char *pipeline, bool plain, double bound) {
    sn_text text;
    sn_text_init(&text, &env);
    sn_graph_print(&text, m);
    uint32_t n_in = m->graph.inputs.n, n_out = m->graph.outputs.n;
    sn_array *in = SN_NEWN(&arena, sn_array, n_in + 1), *before = SN_NEWN(&arena, sn_array, n_out),
             *after = SN_NEWN(&arena, sn_array, n_out);
    for (uint32_t k = 0; k < n_in; k++) in[k] = some_array(&sn_node_get(m, m->graph.inputs.at[k].node)->type, plain);
    cr_assert_eq(sn_graph_eval(before, m, in, &arena), SN_OK, "%s\n%s", env.message, text.s);
    cr_assert_eq(run(pipeline), SN_OK, "%s\n%s", env.message, text.s);
    cr_assert_eq(sn_graph_eval(after, m, in, &arena), SN_OK, "%s\n%s", env.message, text.s);
    for (uint32_t k = 0; k < n_out; k++) expect_equal(&after[k], &before[k], bound, text.s);
    sn_text_free(&text);
}

static const struct {
    const char *text;
    double bound;
} GRAPHS[] = {
    {"graph @softmax(%x: f32[5, 7]) { %a = softmax %x axis=1 %b = log_softmax %x axis=0 %c = logsumexp %x axes=[0, 1]\n"
     "%d = logsumexp %x axes=[1] keepdim=true return a = %a, b = %b, c = %c, d = %d }",
     1e-6},
    {"graph @half(%x: f16[5, 7]) { %a = softmax %x axis=1 %b = mean %x axes=[0] %c = sum %x axes=[0, 1] %d = silu %x\n"
     "%e = var %x axes=[1] %f = gelu %x %g = gelu_tanh %x %h = relu %x %i = prod %x axes=[1]\n"
     "return a = %a, b = %b, c = %c, d = %d, e = %e, f = %f, g = %g, h = %h, i = %i }",
     2e-3},
    {"graph @var(%x: f32[6, 9]) { %a = var %x axes=[1] %b = var %x axes=[0, 1] correction=0 keepdim=true\n"
     "%t = var_mean %x axes=[0] correction=2 %c = project %t index=0 %d = project %t index=1 %e = mean %x axes=[]\n"
     "return a = %a, b = %b, c = %c, d = %d, e = %e }",
     1e-6},
    {"graph @norms(%x: f32[4, 3, 8], %w: f32[3, 8], %b: f32[3, 8], %v: f32[8]) { %a = layer_norm %x, %w, %b eps=1e-5\n"
     "%c = layer_norm %x, %v, %v eps=1e-3 %d = rms_norm %x, %w eps=1e-5 %e = rms_norm %x, %v eps=1e-5\n"
     "return a = %a, c = %c, d = %d, e = %e }",
     1e-6},
    {"graph @batch(%x: f32[2, 3, 4, 5], %w: f32[3], %b: f32[3], %m: f32[3], %u: f32[3]) { %v = mul %u, %u\n"
     "%i = batch_norm %x, %w, %b, %m, %v eps=1e-5 %t = batch_norm_train %x, %w, %b, %m, %v eps=1e-5 momentum=0.1\n"
     "%p = project %t index=0 %q = project %t index=1 %r = project %t index=2 %s = project %t index=3\n"
     "%z = project %t index=4 return i = %i, p = %p, q = %q, r = %r, s = %s, z = %z }",
     1e-6},
    {"graph @batch_rank_2(%x: f32[6, 3], %w: f32[3], %b: f32[3], %m: f32[3], %v: f32[3]) {\n"
     "%t = batch_norm_train %x, %w, %b, %m, %v eps=1e-5 momentum=0.25 %p = project %t index=0 %r = project %t index=2\n"
     "return p = %p, r = %r }",
     1e-6},
    {"graph @random(%x: f16[6, 9], %s: i64[], %o: i64[]) { %a = dropout %x, %s, %o p=0.3 %b = dropout %a, %o, %s p=0\n"
     "%c = random_normal %s, %o dtype=f32 shape=[3, 5] %d = random_normal %s, %o dtype=bf16 shape=[]\n"
     "return a = %a, b = %b, c = %c, d = %d }",
     1e-2},
    {"graph @losses(%x: f32[6, 9], %t: i64[6], %i: i32[4]) { %a = cross_entropy %x, %t %b = clamp %x min=-1.0 max=1.0\n"
     "%c = clamp %i max=3 %d = clamp %x min=2.0 max=1.0 return a = %a, b = %b, c = %c, d = %d }",
     1e-6},
};

Test(passes, decompositions_keep_the_meaning) {
    for (uint32_t g = 0; g < SN_COUNT(GRAPHS); g++) {
        sn_module_free(m);
        m = sn_module_new(&env);
        parse(GRAPHS[g].text);
        expect_same_meaning("simplify,decompose,simplify", true, GRAPHS[g].bound);
    }
}

/* Rows of -inf: softmax is nan as in PyTorch, logsumexp is -inf. */
Test(passes, decompositions_of_infinite_rows) {
    parse(
        "graph @main() { %x = full value=-inf dtype=f32 shape=[2, 3] %a = softmax %x axis=1 %b = logsumexp %x axes=[1]\n"
        "return a = %a, b = %b }");
    sn_array out[2];
    cr_assert_eq(run("decompose"), SN_OK, "%s", env.message);
    cr_assert_eq(sn_graph_eval(out, m, NULL, &arena), SN_OK, "%s", env.message);
    cr_assert(isnan(out[0].f[0]));
    cr_assert_eq(out[1].f[1], -INFINITY);
}

/* ---- random graphs ----
 * f64 is the only float here: the evaluator does not round to anything less, so that folding must give the same bits. */

static sn_dtype random_dtype(void) {
    static const sn_dtype dtypes[] = {SN_F64, SN_F64, SN_I64, SN_I32, SN_I8, SN_U8, SN_BOOL};
    return dtypes[pick(SN_COUNT(dtypes))];
}

static sn_nd random_literal(sn_dtype t, const sn_type *like) {
    static const double values[] = {0.0, -0.0, 1, 2, -1, 4, 3, INFINITY, -INFINITY};
    double v = values[pick(sn_is_float(t) ? SN_COUNT(values) : 7)];
    if (t == SN_BOOL) v = pick(2);
    if (t == SN_U8 && v < 0) v = 7;
    return sn_graph_full(m, t, v, like->shape, pick(2) ? like->rank : 0);
}

/* One operation on nodes that exist; none when the operation does not take them. */
static sn_nd random_node(const sn_nd *at, uint32_t n) {
    sn_op op = (sn_op)(SN_OP_FULL + 1 + pick(SN_OP_CLAMP - SN_OP_FULL - 1));
    sn_nd x = at[pick(n)], y = at[pick(n)];
    sn_type t = sn_node_get(m, x)->type;
    static const int64_t flip[] = {1, 0}, one = 1;
    switch (pick(8)) {
    case 0: return sn_graph_permute(m, x, flip, 2);
    case 1: return sn_graph_cast(m, x, random_dtype());
    case 2:
        return sn_graph_reduce(m, pick(2) ? SN_OP_AMAX : SN_OP_AMIN, sn_graph_unsqueeze(m, x, &one, 1), &one, 1, false);
    case 3: return random_literal(t.dtype, &t);
    default: break;
    }
    if (pick(2) && sn_node_get(m, y)->type.dtype != t.dtype) y = sn_graph_cast(m, y, t.dtype);
    if (pick(3) == 0) y = random_literal(t.dtype, &t);
    if (pick(4) == 0) y = x;
    switch (sn_ops[op].cls) {
    case SN_OPS_UNARY:
    case SN_OPS_TEST: return sn_graph_unary(m, op, x);
    case SN_OPS_BINARY:
    case SN_OPS_COMPARE: return sn_graph_binary(m, op, pick(2) ? x : y, pick(2) ? y : x);
    case SN_OPS_ELEMENT: {
        sn_nd in[] = {sn_graph_cast(m, at[pick(n)], SN_BOOL), x, y};
        return op == SN_OP_WHERE ? sn_graph_node(m, op, in, 3, NULL, 0) : (sn_nd){0};
    }
    case SN_OPS_SOURCE:
    case SN_OPS_REDUCE:
    case SN_OPS_SCAN:
    case SN_OPS_VIEW:
    case SN_OPS_MOVE:
    case SN_OPS_CONTRACT:
    case SN_OPS_COMPOSITE:
    case SN_OPS_REPEAT: return (sn_nd){0};
    }
    return (sn_nd){0};
}

static void random_graph(void) {
    enum { INPUTS = 3, NODES = 24 };
    sn_nd at[INPUTS + NODES];
    uint32_t n = 0;
    sn_graph_init(m, "random");
    sn_type t = {.rank = 2, .shape = {sn_ix_const(m, 3), sn_ix_const(m, 3)}};
    for (uint32_t k = 0; k < INPUTS; k++) {
        t.dtype = k == 0 ? SN_F64 : random_dtype();
        at[n++] = sn_graph_input_new(m, (const char *[]){"x", "y", "z"}[k], &t, NULL, (sn_ix){0});
    }
    for (uint32_t k = 0; k < NODES; k++) {
        sn_nd x = random_node(at, n);
        sn_env_clear(&env); /* most refusals are dtypes that the operation does not take */
        if (x.i && sn_node_get(m, x)->type.rank == 2) at[n++] = x;
    }
    for (uint32_t k = n > 8 ? n - 8 : 0; k < n; k++) {
        char name[16];
        snprintf(name, sizeof name, "out%u", k);
        sn_graph_output_new(m, name, at[k], -1);
    }
}

Test(passes, simplify_keeps_the_meaning_of_random_graphs) {
    for (uint32_t g = 0; g < 400; g++) {
        seed = g + 1;
        sn_module_free(m);
        m = sn_module_new(&env);
        random_graph();
        expect_same_meaning("simplify", false, 0);
    }
}

/* ---- the runner ---- */

Test(passes, unknown_pass_lists_the_known_ones) {
    cr_assert_eq(run("simplify,nothing"), SN_ERROR_ARGUMENT);
    cr_assert_eq(strncmp(env.message, "unknown pass 'nothing' (known: simplify, ", 41), 0, "%s", env.message);
    for (const sn_pass_info *p = sn_passes; p->name; p++) cr_expect(strstr(env.message, p->name), "%s", p->name);
}

Test(passes, pipelines_name_passes_and_an_empty_one_does_nothing) {
    parse("graph @main(%x: f32[4]) { %y = neg %x return y = %y }");
    cr_assert_eq(run(""), SN_OK, "%s", env.message);
    cr_assert_eq(run("  simplify ,decompose,"), SN_OK, "%s", env.message);
    const char *const pipelines[] = {sn_pipeline_gpu, sn_pipeline_host};
    for (uint32_t i = 0; i < 2; i++) {
        char *names = sn_strdup(&arena, pipelines[i]);
        for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
            const sn_pass_info *p = sn_passes;
            while (p->name && strcmp(p->name, name)) p++;
            cr_assert(p->name, "the pipeline names '%s'", name);
        }
    }
}

/* An allocator that runs out after a number of allocations. */
static void *limited(void *user, void *p, size_t size) {
    size_t *left = user;
    if (size && *left == 0) return NULL;
    if (size) --*left;
    if (size) return realloc(p, size);
    free(p);
    return NULL;
}

/* Run with room for `budget` allocations; false when that was not enough. */
static bool run_within(size_t budget) {
    static jmp_buf guard;
    static uint64_t mark;
    size_t left = budget;
    env.guard = &guard;
    mark = sn_env_mark(&env);
    bool failed = setjmp(guard) != 0;
    if (!failed) {
        env.realloc_user = &left;
        env.realloc_fn = limited;
        cr_assert_eq(run_verified("simplify,decompose,simplify", SN_VERIFY_EACH), SN_OK, "%s", env.message);
    }
    env.realloc_fn = limited;
    env.realloc_user = &(size_t){SIZE_MAX};
    env.guard = NULL;
    if (failed) sn_env_release(&env, mark);
    sn_module_free(m);
    return !failed;
}

/* Whenever memory runs out in a run, a release gives back everything that the runner held, and the module stays whole. */
Test(passes, running_out_of_memory_leaks_nothing) {
    bool enough = false;
    for (size_t budget = 0; !enough; budget++) {
        parse("graph @main(%x: f32[4, 8]) { %a = add %x, -0.0 %y = softmax %a axis=1 return y = %y }");
        enough = run_within(budget);
        cr_assert_eq(env.bytes_now, 0, "budget %zu: %zu bytes are still held", budget, env.bytes_now);
        cr_assert_eq(env.status, enough ? SN_OK : SN_ERROR_MEMORY);
        sn_env_init(&env);
        m = sn_module_new(&env);
    }
}

/* ---- plan ---- */

/* Blocks that live together do not share bytes, and all lie in the workspace. */
Test(passes, offsets_of_random_blocks_do_not_overlap) {
    enum { BLOCKS = 40 };
    sn_pass_ctx cx = {.m = m, .scratch = &arena};
    for (int round = 0; round < 50; round++) {
        sn_plan_block blocks[BLOCKS];
        int64_t sum = 0, least;
        for (int i = 0; i < BLOCKS; i++) {
            uint32_t first = pick(30), size = pick(5) ? pick(5000) : 0;
            blocks[i] = (sn_plan_block){sn_ix_const(m, size), first, first + pick(6), {0}};
            sum += (size + 255) / 256 * 256;
        }
        int64_t total = sn_ix_value(m, sn_plan_offsets(&least, &cx, blocks, BLOCKS));
        cr_assert_leq(total, sum);
        cr_assert(total >= least && total <= least + least / 10, "%lld bytes of %lld", (long long)total,
                  (long long)least);
        for (int i = 0; i < BLOCKS; i++) {
            int64_t at = sn_ix_value(m, blocks[i].offset), end = at + sn_ix_value(m, blocks[i].size);
            cr_assert(at % SN_PLAN_ALIGN == 0 && end <= total);
            for (int j = 0; j < i; j++) {
                int64_t other = sn_ix_value(m, blocks[j].offset), other_end = other + sn_ix_value(m, blocks[j].size);
                bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
                cr_assert(!together || end <= other || other_end <= at || at == end || other == other_end);
            }
        }
    }
}

static size_t bytes_of(sn_buf b) {
    const sn_buf_rec *r = sn_buf_get(m, b);
    return (size_t)sn_ix_value(m, r->size) * sn_dtype_bytes(r->dtype);
}

/* Storage of inputs and outputs; the k-th call gives the same inputs. */
static void **io_memory(void) {
    void **memory = SN_NEWN(&arena, void *, m->bufs.count);
    seed = 7;
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *r = sn_buf_get(m, (sn_buf){i});
        if (r->scope != SN_BUF_INPUT && r->scope != SN_BUF_OUTPUT) continue;
        memory[i] = sn_zalloc(&arena, bytes_of((sn_buf){i}));
        for (int64_t k = 0; r->scope == SN_BUF_INPUT && k < sn_ix_value(m, r->size); k++)
            ((float *)memory[i])[k] = (float)pick(1000) / 100 - 5;
    }
    return memory;
}

/* Where the wrapper puts every temp. Each has one place in a run, so that the order of the steps does not matter here. */
static void place_temps(void **memory) {
    char *workspace = sn_zalloc(&arena, (size_t)sn_ix_value(m, m->wrap.workspace));
    for (uint32_t i = 0; i < m->wrap.steps.n; i++) {
        const sn_step *s = &m->wrap.steps.at[i];
        if (s->kind == SN_STEP_ALLOC) memory[s->buf.i] = workspace + sn_ix_value(m, s->offset);
        if (s->kind == SN_STEP_REUSE) memory[s->buf.i] = memory[s->from.i];
    }
    const sn_buf *input = sn_wrap_inputs_written(m, &arena);
    for (uint32_t i = 1; i < m->bufs.count; i++)
        if (input[i].i) memory[i] = memory[input[i].i];
}

/* The module of a test of `plan`: its kernels give the same outputs in planned memory as in memory of their own. */
static void expect_plan_computes(const char *name) {
    static char text[1 << 16];
    char path[512];
    snprintf(path, sizeof path, "%s/tests/passes/%s", SN_SOURCE_DIR, name);
    FILE *f = fopen(path, "r");
    cr_assert(f, "%s", path);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    sn_module_free(m);
    m = sn_module_new(&env);
    parse(text);
    cr_assert_eq(run("plan"), SN_OK, "%s: %s", name, env.message);
    void **own = io_memory(), **planned = io_memory();
    place_temps(planned);
    cr_assert_eq(sn_loop_eval(m, own, &arena), SN_OK, "%s: %s", name, env.message);
    cr_assert_eq(sn_loop_eval(m, planned, &arena), SN_OK, "%s: %s", name, env.message);
    for (uint32_t i = 1; i < m->bufs.count; i++)
        if (sn_buf_get(m, (sn_buf){i})->scope == SN_BUF_OUTPUT)
            cr_assert_eq(memcmp(own[i], planned[i], bytes_of((sn_buf){i})), 0, "%s: %s", name,
                         sn_buf_get(m, (sn_buf){i})->name);
}

Test(passes, planned_memory_gives_the_same_results) {
    static const char *const names[] = {"plan-in-place.sn", "plan-in-place-keeps.sn", "plan-in-place-collapsed.sn",
                                        "plan-offsets.sn",  "plan-reuse.sn",          "plan-write-back.sn",
                                        "plan-states.sn",   "plan-states-keeps.sn"};
    for (uint32_t i = 0; i < SN_COUNT(names); i++) expect_plan_computes(names[i]);
}
