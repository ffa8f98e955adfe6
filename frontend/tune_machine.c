/* tune_machine.c: the machine that tries choices (tune/tune.h): programs of the small graph of a product or a convolution, or of
 * one kernel (passes/schedule/alone.c), each with one choice, on the device of the program that they are for.
 *
 * A kernel takes its choice in its header, and only the passes from `schedule` on see it. A trial has a context of its own, so that
 * trials compile side by side and a failure stays its own. All read the same random inputs and write the same outputs, in
 * memory that is theirs alone: the caller's data is never touched. What a program needs besides (temporaries) is there while it
 * runs, so that the peak is the arguments of one, its results once more, and the temporaries of one. Results are compared on that
 * device too, piece by piece, by a program for each output. Caches are flushed before every timed run; runs that
 * are too short for events are timed in a CUDA graph over copies. Relies on threads that may share the memory hook:
 * with a hook of the caller, which is never called twice at a time, trials compile one after the other.
 */
#include "frontend/demand.h"
#include "frontend/tune.h"

#include <string.h>
#include <time.h>

enum {
    FLUSH_DEVICE = 128 << 20, /* bytes: more than any L2 */
    FLUSH_HOST = 32 << 20,
    RUNS = 3,
    REPLAYS = 3,
    GRAPH_BELOW_US = 1000, /* shorter runs are timed in a CUDA graph: events would be more than a hundredth of them */
    LONG_US = 20000,       /* longer ones need no more than one run a sample */
    PIECE = 1 << 20, /* elements of an output that are compared at a time: what a comparison has in memory is theirs */
    JUNK = 0x3c,     /* bytes of outputs before a run that counts: floats near 1, which no scale hides behind */
    PERIOD = 65521   /* random elements that are drawn for an input before they repeat */
};

typedef struct attempt {
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    sn_tensor **inputs, **outputs,
        **expected; /* expected: written instead of outputs by the one that others are held to */
} attempt;

/* A graph that is given as text, and its program. */
typedef struct small_program {
    sn_graph *g;
    sn_program *p;
} small_program;

/* How far two tensors are apart. Of two programs, since a sum that each element of another one wants is not cut into
 * parts. */
typedef struct comparison {
    small_program scale, differ; /* none: they have no elements; no scale: they are no floats */
    int64_t n, piece;            /* elements; of them, those that are compared at a time */
    sn_tensor *whole, *of_scale; /* what is expected, all elements in one row; its scale */
    sn_tensor *pair[3];          /* a piece of what is expected, and of what there is; the scale */
    sn_tensor *result[2];        /* the largest difference, and where it is */
} comparison;

struct sn_tune_bench {
    sn_context *ctx; /* of the call */
    const sn_settings *s;
    const char *text;   /* of the product or the kernel */
    const char *passes; /* that a kernel still has before it; NULL: it is a product */
    sn_trial_list *trials;
    attempt *at;
    uint32_t n;
    sn_context *data;     /* has the memory of inputs and outputs ... */
    sn_status data_state; /* ... unless that failed */
    sn_tensor **inputs, **outputs, **expected;
    unsigned n_inputs, n_outputs;
    comparison *compare; /* of each output */
    uint32_t reference;  /* whose results are expected; UINT32_MAX: nobody's */
    double allowed;      /* what the precision of sums of products allows, as a share of their terms */
};

/* ---- life ---- */

static void free_tensors(sn_tensor **at, unsigned n) {
    for (unsigned k = 0; at && k < n; k++) sn_tensor_destroy(at[k]);
}

static void close_attempt(const sn_tune_bench *b, attempt *a) {
    free_tensors(a->inputs, b->n_inputs);
    free_tensors(a->outputs, b->n_outputs);
    free_tensors(a->expected, b->n_outputs);
    sn_program_destroy(a->p);
    sn_graph_destroy(a->g);
    sn_context_destroy(a->ctx);
    *a = (attempt){0};
}

static void close_comparison(comparison *c) {
    free_tensors(c->pair, 2);
    sn_tensor_destroy(c->whole);
    sn_tensor_destroy(c->of_scale);
    free_tensors(c->result, SN_COUNT(c->result));
    sn_program_destroy(c->scale.p);
    sn_graph_destroy(c->scale.g);
    sn_program_destroy(c->differ.p);
    sn_graph_destroy(c->differ.g);
}

static void close_bench(void *bench) {
    sn_tune_bench *b = bench;
    for (uint32_t k = 0; k < b->n; k++) close_attempt(b, &b->at[k]);
    for (unsigned k = 0; b->compare && k < b->n_outputs; k++) close_comparison(&b->compare[k]);
    free_tensors(b->inputs, b->n_inputs);
    free_tensors(b->outputs, b->n_outputs);
    free_tensors(b->expected, b->n_outputs);
    sn_context_destroy(b->data);
    b->n = 0;
    b->data = NULL;
}

sn_tune_bench *sn_tune_bench_new(sn_context *ctx, const sn_settings *s, const char *text, const char *passes) {
    sn_tune_bench *b = SN_NEWN(&ctx->scratch, sn_tune_bench, 1);
    *b = (sn_tune_bench){.ctx = ctx, .s = s, .text = text, .passes = passes, .reference = UINT32_MAX};
    sn_making_begin(ctx, b, close_bench);
    return b;
}

void sn_tune_bench_free(sn_tune_bench *b) {
    sn_making_end(b->ctx, b);
    close_bench(b);
}

/* ---- failures ---- */

static void failed(sn_tune_bench *b, uint32_t k, const char *why) {
    b->trials->at[k].fate = SN_TRIAL_FAILED;
    b->trials->at[k].why = sn_strdup(b->trials->arena, why && why[0] ? why : "out of memory");
}

/* ---- compiling ---- */

typedef struct compile_job {
    sn_program **p;
    sn_graph *g;
    sn_settings s;
    const char *header; /* for its first kernel; NULL: it has none, or keeps what it has */
} compile_job;

static sn_status pin(sn_module *m, const char *header) {
    sn_sched *s = &sn_kern_get(m, m->kernels.at[0])->sched, with;
    SN_TRY(sn_sched_read(&with, m->env, "schedule", header));
    with.precision = s->precision;
    *s = with;
    return SN_OK;
}

static sn_status compile_body(sn_context *ctx, void *args) {
    compile_job *job = args;
    (void)ctx;
    if (job->header) SN_TRY(pin(job->g->m, job->header));
    return sn_compile_settings(job->p, job->g, &job->s, SN_PHASE_LOADED);
}

/* Its sizes stand in the graph, and nothing is tuned while tuning. */
static sn_status compile_guarded(sn_context *ctx, compile_job *job) {
    job->s.dims = NULL;
    job->s.n_dims = 0;
    job->s.tune = SN_TUNE_OFF;
    return sn_guarded(ctx, compile_body, job);
}

/* What a choice for a kernel pins; NULL: nothing. */
static const char *header_of(const char *choice) {
    const char *parameters;
    const sn_choice_row *row = sn_choice_find(&parameters, SN_OP_MATMUL, choice);
    return row && !strcmp(row->name, "schedule") ? parameters : NULL;
}

static void compile_one(const sn_tune_bench *b, uint32_t k) {
    const sn_env *env = &b->ctx->env;
    attempt *a = &b->at[k];
    sn_context_options o = {.struct_size = sizeof o, .realloc_fn = env->realloc_fn, .realloc_user = env->realloc_user};
    const sn_decision decision = {b->text, b->trials->at[k].choice};
    compile_job job = {.p = &a->p, .s = *b->s};
    job.s.passes = (sn_pass_options){.pipeline = b->passes ? b->passes : b->s->passes.pipeline,
                                     .verify = b->s->passes.verify,
                                     .choosing = {.at = &decision, .n = !b->passes}};
    if (b->passes) job.header = header_of(decision.choice);
    if (sn_context_create(&a->ctx, &o) != SN_OK) return;
    if (sn_graph_from_text(&a->g, a->ctx, "trial", b->text, strlen(b->text)) != SN_OK) return;
    job.s.idle = true;
    job.s.trusted = b->passes && !sn_demands_positions(a->g->m);
    job.g = a->g;
    compile_guarded(a->ctx, &job);
}

static void compile_some(void *bench, int64_t begin, int64_t end) {
    const sn_tune_bench *b = bench;
    for (int64_t k = begin; k < end; k++)
        if (b->trials->at[k].fate == SN_TRIAL_OPEN) compile_one(b, (uint32_t)k);
}

static sn_status make_tensors(sn_tune_bench *b, const sn_program *p) {
    for (unsigned k = 0; k < b->n_inputs; k++) {
        const sn_port *port = &p->inputs[k];
        SN_TRY(sn_tensor_create_strided(&b->inputs[k], b->data, p->device, port->dtype, port->rank, port->shape,
                                        port->strides, port->offset));
    }
    for (unsigned k = 0; k < b->n_outputs; k++) {
        const sn_port *port = &p->outputs[k];
        SN_TRY(sn_tensor_create(&b->outputs[k], b->data, p->device, port->dtype, port->rank, port->shape));
        SN_TRY(sn_tensor_create(&b->expected[k], b->data, p->device, port->dtype, port->rank, port->shape));
    }
    return SN_OK;
}

/* Differences are shares of an element and of the root mean square of what is finite: terms of sums of random numbers
 * are of that order, even where a sum is near 0. Squares are of shares of the largest, and halves are added, so that
 * nothing overflows. Integers are equal or not. */
static const char scale_floats[] = "graph @scale(%%want: %s[%lld]) {\n"
                                   "  %%x = cast %%want dtype=f64\n"
                                   "  %%nan = isnan %%x\n"
                                   "  %%inf = isinf %%x\n"
                                   "  %%no = or %%nan, %%inf\n"
                                   "  %%zero = full dtype=f64 shape=[] value=0\n"
                                   "  %%one = full dtype=f64 shape=[] value=1\n"
                                   "  %%finite = where %%no, %%zero, %%x\n"
                                   "  %%size = abs %%finite\n"
                                   "  %%largest = amax %%size axes=[0]\n"
                                   "  %%unit = maximum %%largest, 1e-300\n"
                                   "  %%part = div %%finite, %%unit\n"
                                   "  %%square = mul %%part, %%part\n"
                                   "  %%squares = sum %%square axes=[0]\n"
                                   "  %%counts = where %%no, %%zero, %%one\n"
                                   "  %%count = sum %%counts axes=[0]\n"
                                   "  %%some = maximum %%count, %%one\n"
                                   "  %%mean = div %%squares, %%some\n"
                                   "  %%share = sqrt %%mean\n"
                                   "  %%scale = mul %%share, %%unit\n"
                                   "  return scale = %%scale\n"
                                   "}\n";
static const char differ_floats[] = "graph @differ(%%want: %s[%lld], %%got: %s[%lld], %%scale: f64[]) {\n"
                                    "  %%x = cast %%want dtype=f64\n"
                                    "  %%y = cast %%got dtype=f64\n"
                                    "  %%equal = eq %%x, %%y\n"
                                    "  %%x_nan = isnan %%x\n"
                                    "  %%y_nan = isnan %%y\n"
                                    "  %%x_inf = isinf %%x\n"
                                    "  %%y_inf = isinf %%y\n"
                                    "  %%both_nan = and %%x_nan, %%y_nan\n"
                                    "  %%same = or %%equal, %%both_nan\n"
                                    "  %%x_no = or %%x_nan, %%x_inf\n"
                                    "  %%y_no = or %%y_nan, %%y_inf\n"
                                    "  %%no = or %%x_no, %%y_no\n"
                                    "  %%zero = full dtype=f64 shape=[] value=0\n"
                                    "  %%endless = full dtype=f64 shape=[] value=inf\n"
                                    "  %%half_x = mul %%x, 0.5\n"
                                    "  %%half_y = mul %%y, 0.5\n"
                                    "  %%half_scale = mul %%scale, 0.5\n"
                                    "  %%less = sub %%half_x, %%half_y\n"
                                    "  %%distance = abs %%less\n"
                                    "  %%size = abs %%half_x\n"
                                    "  %%measure = add %%size, %%half_scale\n"
                                    "  %%share = div %%distance, %%measure\n"
                                    "  %%far = where %%no, %%endless, %%share\n"
                                    "  %%off = where %%same, %%zero, %%far\n"
                                    "  %%most = amax %%off axes=[0]\n"
                                    "  %%at = argmax %%off axes=[0]\n"
                                    "  return most = %%most, at = %%at\n"
                                    "}\n";
static const char differ_others[] = "graph @differ(%%want: %s[%lld], %%got: %s[%lld]) {\n"
                                    "  %%differs = ne %%want, %%got\n"
                                    "  %%off = cast %%differs dtype=f64\n"
                                    "  %%most = amax %%off axes=[0]\n"
                                    "  %%at = argmax %%off axes=[0]\n"
                                    "  return most = %%most, at = %%at\n"
                                    "}\n";

/* Pieces begin anywhere: accesses are those of an element. */
static sn_status make_small(small_program *out, const sn_tune_bench *b, const char *text, sn_dtype dtype) {
    compile_job job = {.p = &out->p, .s = *b->s};
    job.s.passes = (sn_pass_options){.verify = b->s->passes.verify};
    job.s.alignment = sn_dtype_bytes(dtype);
    SN_TRY(sn_graph_from_text(&out->g, b->data, "comparison", text, strlen(text)));
    job.g = out->g;
    return compile_guarded(b->data, &job);
}

static sn_status make_comparison(sn_tune_bench *b, unsigned k) {
    comparison *c = &b->compare[k];
    sn_arena *arena = &b->ctx->scratch;
    const sn_tensor_info *i = &b->outputs[k]->info, *of = &b->expected[k]->info;
    const char *name = sn_dtypes[i->dtype].name;
    bool floats = sn_is_float(i->dtype);
    c->n = i->numel;
    c->piece = c->n < PIECE ? c->n : PIECE;
    if (!c->n) return SN_OK;
    long long piece = c->piece;
    if (floats) SN_TRY(make_small(&c->scale, b, sn_strf(arena, scale_floats, name, (long long)c->n), i->dtype));
    SN_TRY(make_small(&c->differ, b, sn_strf(arena, floats ? differ_floats : differ_others, name, piece, name, piece),
                      i->dtype));
    SN_TRY(sn_tensor_wrap(&c->whole, b->data, i->device, of->data, i->dtype, 1, &c->n, NULL, of->offset));
    SN_TRY(sn_tensor_create(&c->of_scale, b->data, i->device, SN_F64, 0, NULL));
    c->pair[2] = c->of_scale;
    SN_TRY(sn_tensor_create(&c->result[0], b->data, i->device, SN_F64, 0, NULL));
    return sn_tensor_create(&c->result[1], b->data, i->device, SN_I64, 0, NULL);
}

typedef struct fill_job {
    sn_tune_bench *b;
    sn_module *of; /* whose kernels say what values they want; NULL: there are none */
} fill_job;

static sn_status fill_body(sn_context *ctx, void *args) {
    const fill_job *job = args;
    (void)ctx;
    for (unsigned k = 0; k < job->b->n_inputs; k++)
        SN_TRY(sn_random_tensor(job->b->inputs[k], job->of, k, &(sn_random_how){.seed = k + 1, .period = PERIOD}));
    return SN_OK;
}

/* Errors of the terms of a sum are not all alike: of so many of them the sum is off by less than a few in the most
 * unlucky element. */
static double allowed_by(const sn_module *m) {
    enum { A_FEW = 4 };
    double most = 0;
    for (uint32_t k = 0; k < m->kernels.n; k++) {
        double error = A_FEW * sn_precision_error(sn_kern_get(m, m->kernels.at[k])->sched.precision);
        most = error > most ? error : most;
    }
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++) {
        sn_op op = sn_node_get(m, x)->op;
        if (op != SN_OP_MATMUL && op != SN_OP_CONV) continue;
        double error = A_FEW * sn_precision_error(sn_node_precision(m, x));
        most = error > most ? error : most;
    }
    return most;
}

/* Memory for all trials, by the ports of one of them: they have the same. */
static sn_status prepare(sn_tune_bench *b, const sn_program *p) {
    sn_arena *arena = &b->ctx->scratch;
    sn_context_options o = {
        .struct_size = sizeof o, .realloc_fn = b->ctx->env.realloc_fn, .realloc_user = b->ctx->env.realloc_user};
    b->inputs = SN_NEWN(arena, sn_tensor *, p->n_inputs + 1);
    b->outputs = SN_NEWN(arena, sn_tensor *, p->n_outputs + 1);
    b->expected = SN_NEWN(arena, sn_tensor *, p->n_outputs + 1);
    b->compare = SN_NEWN(arena, comparison, p->n_outputs + 1);
    b->n_inputs = p->n_inputs;
    b->n_outputs = p->n_outputs;
    b->allowed = allowed_by(p->source);
    SN_TRY(sn_context_create(&b->data, &o));
    SN_TRY(make_tensors(b, p));
    SN_TRY(sn_guarded(b->data, fill_body, &(fill_job){b, b->passes ? p->source : NULL}));
    for (unsigned k = 0; k < b->n_outputs; k++) SN_TRY(make_comparison(b, k));
    return SN_OK;
}

static sn_status wrap_all(sn_tensor **out, sn_context *ctx, sn_tensor *const *from, unsigned n) {
    for (unsigned k = 0; k < n; k++) {
        const sn_tensor_info *i = &from[k]->info;
        SN_TRY(sn_tensor_wrap(&out[k], ctx, i->device, i->data, i->dtype, i->rank, i->shape, i->strides, i->offset));
    }
    return SN_OK;
}

static sn_status give_tensors(sn_tune_bench *b, attempt *a) {
    sn_arena *arena = &b->ctx->scratch;
    if (!b->data) b->data_state = prepare(b, a->p);
    if (b->data_state != SN_OK) return b->data_state;
    a->inputs = SN_NEWN(arena, sn_tensor *, b->n_inputs + 1);
    a->outputs = SN_NEWN(arena, sn_tensor *, b->n_outputs + 1);
    a->expected = SN_NEWN(arena, sn_tensor *, b->n_outputs + 1);
    SN_TRY(wrap_all(a->inputs, a->ctx, b->inputs, b->n_inputs));
    SN_TRY(wrap_all(a->expected, a->ctx, b->expected, b->n_outputs));
    return wrap_all(a->outputs, a->ctx, b->outputs, b->n_outputs);
}

/* A program is one of its choice only if what it was to leave to a library has been left to it. */
static bool left_out(const attempt *a, const char *choice) {
    return sn_choice_kind_of(choice) == SN_CHOICE_KIND_EXTERN && !a->p->libraries;
}

static void compile_trials(void *bench, sn_trial_list *trials) {
    sn_tune_bench *b = bench;
    sn_env plain;
    sn_env_init(&plain);
    b->trials = trials;
    b->at = SN_NEWN(&b->ctx->scratch, attempt, trials->n + 1);
    b->n = trials->n;
    bool alone = b->ctx->env.realloc_fn != plain.realloc_fn;
    sn_pool *pool = alone ? NULL : sn_pool_new(&b->ctx->env, b->s->threads);
    if (pool) sn_pool_run(pool, trials->n, compile_some, b);
    else compile_some(b, 0, trials->n);
    sn_pool_free(pool);
    for (uint32_t k = 0; k < trials->n; k++) {
        attempt *a = &b->at[k];
        if (trials->at[k].fate != SN_TRIAL_OPEN) continue;
        if (!a->p || give_tensors(b, a) != SN_OK)
            failed(b, k, a->ctx && sn_error(a->ctx)[0] ? sn_error(a->ctx) : sn_error(b->data));
        else if (left_out(a, trials->at[k].choice)) failed(b, k, "no library runs it");
    }
}

/* ---- temporaries ---- */

static sn_status wake_body(sn_context *ctx, void *runner) {
    (void)ctx;
    return sn_runner_load(runner);
}

/* What a program needs while it runs. */
static sn_status wake(const attempt *a) {
    return a->p->runner.state ? SN_OK : sn_guarded(a->ctx, wake_body, &a->p->runner);
}

static void rest(const attempt *a) {
    sn_runner_close(&a->p->runner);
    if (a->p->device != SN_CPU) sn_cuda_trim(a->ctx->cuda[a->p->device]);
}

/* ---- results ---- */

static sn_status spoil_body(sn_context *ctx, void *tensor) {
    char junk[4096];
    (void)ctx;
    memset(junk, JUNK, sizeof junk);
    return sn_tensor_put_repeated(tensor, junk, sizeof junk);
}

/* What earlier runs left must not pass for a result. Waits: others read it next. */
static sn_status run_fresh(const sn_tune_bench *b, attempt *a, sn_tensor *const *outputs) {
    for (unsigned k = 0; k < b->n_outputs; k++)
        if (outputs[k]->info.numel) SN_TRY(sn_guarded(a->ctx, spoil_body, outputs[k]));
    SN_TRY(wake(a));
    SN_TRY(sn_run(a->p, a->inputs, outputs, NULL));
    SN_TRY(sn_device_sync(a->ctx, a->p->device, NULL));
    rest(a);
    return SN_OK;
}

/* Twice the bound of an output (check.c) and of what its precision allows, for both sides round. */
static double bound_of(const sn_tune_bench *b, sn_dtype dtype) {
    return sn_is_float(dtype) ? 2 * (sn_check_bound(dtype) + b->allowed) : 0;
}

/* *most: of the piece that begins there, and where in it. */
static sn_status compare_piece(double *most, int64_t *at, sn_tune_bench *b, unsigned k, int64_t start) {
    comparison *c = &b->compare[k];
    sn_tensor *const from[] = {b->expected[k], b->outputs[k]};
    free_tensors(c->pair, 2);
    c->pair[0] = c->pair[1] = NULL;
    for (int side = 0; side < 2; side++) {
        const sn_tensor_info *i = &from[side]->info;
        SN_TRY(sn_tensor_wrap(&c->pair[side], b->data, i->device, i->data, i->dtype, 1, &c->piece, NULL,
                              i->offset + start));
    }
    SN_TRY(sn_run(c->differ.p, c->pair, c->result, NULL));
    SN_TRY(sn_tensor_read(most, c->result[0], sizeof *most));
    return sn_tensor_read(at, c->result[1], sizeof *at);
}

/* The last piece ends with the output, and may begin in the one before it. */
static sn_status compare_output(double *most, int64_t *at, sn_tune_bench *b, unsigned k) {
    comparison *c = &b->compare[k];
    if (c->scale.p) SN_TRY(sn_run(c->scale.p, &c->whole, &c->of_scale, NULL));
    for (int64_t done = 0; done < c->n; done += c->piece) {
        int64_t start = done + c->piece > c->n ? c->n - c->piece : done, in_piece = 0;
        double of_piece = 0;
        SN_TRY(compare_piece(&of_piece, &in_piece, b, k, start));
        if (of_piece <= *most) continue;
        *most = of_piece;
        *at = start + in_piece;
    }
    return SN_OK;
}

/* *why stays as it is where no output is off by more than its bound. */
static sn_status compare_outputs(const char **why, sn_tune_bench *b) {
    for (unsigned k = 0; k < b->n_outputs; k++) {
        double most = 0;
        int64_t at = 0;
        if (!b->compare[k].differ.p) continue;
        SN_TRY(compare_output(&most, &at, b, k));
        if (most <= bound_of(b, b->outputs[k]->info.dtype)) continue;
        *why = sn_strf(b->trials->arena, "output %u, element %lld: off by %.3g", k, (long long)at, most);
        return SN_OK;
    }
    return SN_OK;
}

static bool same_result(const char **why, void *bench, sn_trial_list *trials, uint32_t reference, uint32_t trial) {
    sn_tune_bench *b = bench;
    (void)trials;
    if (b->reference != reference) {
        b->reference = UINT32_MAX;
        if (run_fresh(b, &b->at[reference], b->at[reference].expected) != SN_OK) {
            failed(b, reference, sn_error(b->at[reference].ctx));
            return false;
        }
        b->reference = reference;
    }
    *why = NULL;
    if (run_fresh(b, &b->at[trial], b->at[trial].outputs) != SN_OK) failed(b, trial, sn_error(b->at[trial].ctx));
    else if (compare_outputs(why, b) != SN_OK) failed(b, trial, sn_error(b->data));
    else return !*why;
    return false;
}

/* ---- time ---- */

static double least(const double *us, unsigned n) {
    double x = us[0];
    for (unsigned k = 1; k < n; k++) x = us[k] < x ? us[k] : x;
    return x;
}

static double measure(sn_tune_bench *b, uint32_t trial) {
    attempt *a = &b->at[trial];
    double us[RUNS > REPLAYS ? RUNS : REPLAYS] = {0};
    bool on_cpu = a->p->device == SN_CPU;
    sn_graph_timing how = {.run_us = b->trials->at[trial].us};
    unsigned runs = how.run_us && how.run_us < LONG_US ? RUNS : 1;
    bool by_events = on_cpu || sn_prog_decides(a->p->prog);
    if (by_events || !how.run_us || how.run_us >= GRAPH_BELOW_US) {
        sn_status status = sn_program_time(us, runs, a->p, a->inputs, a->outputs, on_cpu ? FLUSH_HOST : FLUSH_DEVICE);
        if (status != SN_OK) return failed(b, trial, sn_error(a->ctx)), 0;
        how.run_us = least(us, runs);
    }
    if (by_events || how.run_us >= GRAPH_BELOW_US) return how.run_us;
    if (sn_program_time_graph(us, REPLAYS, &how, a->p, a->inputs, a->outputs) != SN_OK)
        return failed(b, trial, sn_error(a->ctx)), 0;
    return least(us, REPLAYS);
}

static double time_trial(void *bench, sn_trial_list *trials, uint32_t trial) {
    sn_tune_bench *b = bench;
    const attempt *a = &b->at[trial];
    (void)trials;
    if (wake(a) != SN_OK) return failed(b, trial, sn_error(a->ctx)), 0;
    double us = measure(b, trial);
    rest(a);
    return us;
}

static double seconds(void *bench) {
    struct timespec t;
    (void)bench;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

sn_trial_machine sn_tune_bench_machine(sn_tune_bench *b) {
    return (sn_trial_machine){
        .user = b, .compile = compile_trials, .same = same_result, .time = time_trial, .seconds = seconds};
}
