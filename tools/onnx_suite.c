/* onnx_suite.c: `sinter onnx-suite`: runs tests in the layout of the ONNX project's backend tests and compares with the
 * outputs that it ships.
 *
 *     DIR/test_add/model.onnx
 *     DIR/test_add/test_data_set_0/input_0.pb, input_1.pb, output_0.pb      (TensorProto, SequenceProto, OptionalProto)
 *
 * and of its light models, networks whose weights are constants: input element i of n is i / n.
 *
 *     DIR/light_resnet50.onnx, light_resnet50_output_0.pb
 *
 * The rule is that of onnx/backend/test/runner: dtype and shape equal, |got - want| <= 1e-7 + 1e-3 |want|. Inputs are
 * given to the import too, so that shapes and axes that a test feeds as inputs are known there. A file of skips names
 * tests that are not expected to pass, each with its reason; they are run all the same, and one that passes is a
 * failure: its line is stale. Tests run in worker processes: a crash is a failed test and no more.
 */
#include "tools/tool.h"

#include <dirent.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/onnx/import.h"

static const char help[] =
    "usage: sinter onnx-suite [options] DIR...\n"
    "  DIR                     a folder of tests, each with model.onnx and test_data_set_0, or of light models\n"
    "  --device=WHERE          cpu (default), cuda\n"
    "  --cpu-schedule=KIND     host, gpu: kernels scheduled for a GPU run on the CPU\n"
    "  --skips=FILE            lines `FOLDER/TEST REASON` of tests that are not expected to pass\n"
    "  --only=TEXT             tests whose name contains TEXT\n"
    "  --jobs=N                worker processes (2); 0: none, for debuggers and sanitizers that watch one process\n"
    "  --verbose               a line for every test\n";

enum { FLOAT = 1, UINT16 = 4, BFLOAT16 = 16 }; /* TensorProto.DataType */
enum { MAX_TESTS = 8192, MAX_VALUES = 256, MAX_TEXTS = 4, REASON = 1024, MAX_JOBS = 64 };

typedef enum outcome { NOT_RUN, PASSED, FAILED } outcome;

typedef struct suite_test {
    char *path;       /* DIR/test_add */
    const char *name; /* node/test_add: its end */
    const char *skip; /* reason, NULL: expected to pass */
    outcome outcome;
    char reason[REASON];
} suite_test;

typedef struct suite {
    const char *device, *schedule, *skips, *only;
    unsigned jobs;
    bool verbose, show_help;
    suite_test *tests;
    unsigned n;
    char *skip_text;
    unsigned stale; /* lines of the skip file that name no test */
} suite;

/* ---- one test ---- */

typedef struct test_data {
    sn_weight_info at[MAX_VALUES];
    sn_text_tensor texts[MAX_TEXTS];
    unsigned n, n_texts;
} test_data;

static sn_status read_file(sn_bytes *out, sn_context *ctx, const char *path) {
    char *data;
    SN_TRY(sn_file_read(&data, &out->n, &ctx->env, &ctx->scratch, path));
    out->at = (const uint8_t *)data;
    return SN_OK;
}

static sn_status add_texts(test_data *d, sn_context *ctx, const char *name, const sn_pb_tensor *t) {
    sn_onnx_value v;
    if (d->n_texts == MAX_TEXTS) return sn_fail(&ctx->env, SN_ERROR_UNSUPPORTED, "more than %d texts", MAX_TEXTS);
    SN_TRY(sn_onnx_texts(&v, &ctx->env, &ctx->scratch, t));
    sn_text_tensor *out = &d->texts[d->n_texts++];
    *out = (sn_text_tensor){.name = name, .rank = v.text->rank, .at = v.text->at};
    memcpy(out->shape, v.text->shape, sizeof v.text->shape);
    return SN_OK;
}

static sn_status add_tensor(test_data *d, sn_context *ctx, const char *name, const sn_pb_tensor *t) {
    sn_onnx_elements e;
    if (t->data_type == SN_ONNX_STRING) return add_texts(d, ctx, name, t);
    if (d->n == MAX_VALUES) return sn_fail(&ctx->env, SN_ERROR_UNSUPPORTED, "more than %d tensors", MAX_VALUES);
    SN_TRY(sn_onnx_tensor_elements(&e, &ctx->env, &ctx->scratch, NULL, t));
    sn_weight_info *w = &d->at[d->n++];
    *w = (sn_weight_info){.name = name,
                          .dtype = e.dtype,
                          .rank = e.rank,
                          .data = e.data,
                          .size = (size_t)e.numel * sn_dtype_bytes(e.dtype)};
    memcpy(w->shape, e.shape, sizeof e.shape);
    return SN_OK;
}

static sn_status add_sequence(test_data *d, sn_context *ctx, const char *name, const sn_pb_sequence *s) {
    for (uint32_t k = 0; k < s->tensors.n; k++)
        SN_TRY(add_tensor(d, ctx, sn_strf(&ctx->scratch, "%s_%u", name, k), &s->tensors.at[k]));
    return SN_OK;
}

/* Tests with bf16 keep its bits in uint16. */
static void read_as_declared(sn_pb_tensor *t, const sn_pb_tensor_type *declared) {
    if (declared->elem_type == BFLOAT16 && t->data_type == UINT16) t->data_type = BFLOAT16;
}

/* One file, as its declared type says. */
static sn_status add_file(test_data *d, sn_context *ctx, const char *path, const sn_pb_value_info *info) {
    sn_bytes bytes;
    sn_env *env = &ctx->env;
    SN_TRY(read_file(&bytes, ctx, path));
    const sn_pb_type *type = info->type;
    if (type && type->sequence) {
        sn_pb_sequence s;
        SN_TRY(sn_pb_read_sequence(&s, env, &ctx->scratch, path, bytes));
        return add_sequence(d, ctx, info->name, &s);
    }
    if (type && type->optional) {
        sn_pb_optional o;
        SN_TRY(sn_pb_read_optional(&o, env, &ctx->scratch, path, bytes));
        if (o.tensor) return add_tensor(d, ctx, info->name, o.tensor);
        return o.sequence ? add_sequence(d, ctx, info->name, o.sequence) : SN_OK;
    }
    sn_pb_tensor t;
    SN_TRY(sn_pb_read_tensor(&t, env, &ctx->scratch, path, bytes));
    if (type && type->tensor) read_as_declared(&t, type->tensor);
    return add_tensor(d, ctx, info->name, &t);
}

static bool exists(const char *path) { return access(path, R_OK) == 0; }

static bool is_initializer(const sn_pb_graph *g, const char *name) {
    for (uint32_t k = 0; k < g->initializers.n; k++)
        if (name && g->initializers.at[k].name && !strcmp(g->initializers.at[k].name, name)) return true;
    return false;
}

/* "DIR/light_resnet50.onnx": a model without a folder of its own. */
static bool is_light(const char *path) {
    size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".onnx");
}

static sn_status read_inputs(test_data *in, sn_context *ctx, const suite_test *t, const sn_pb_graph *g, unsigned set) {
    for (uint32_t k = 0, file = 0; k < g->inputs.n; k++) {
        if (is_initializer(g, g->inputs.at[k].name)) continue;
        const char *path = sn_strf(&ctx->scratch, "%s/test_data_set_%u/input_%u.pb", t->path, set, file++);
        if (exists(path)) SN_TRY(add_file(in, ctx, path, &g->inputs.at[k]));
    }
    return SN_OK;
}

/* 0, 1/n, 2/n, ... in the declared shape. */
static sn_status light_inputs(test_data *in, sn_context *ctx, const sn_pb_graph *g) {
    for (uint32_t k = 0; k < g->inputs.n; k++) {
        const sn_pb_value_info *info = &g->inputs.at[k];
        const sn_pb_tensor_type *type = info->type ? info->type->tensor : NULL;
        if (is_initializer(g, info->name)) continue;
        if (!type || !type->shape || type->shape->dims.n > SN_MAX_RANK || type->elem_type != FLOAT)
            return sn_fail(&ctx->env, SN_ERROR_UNSUPPORTED, "an input of a light model is no tensor of floats");
        sn_weight_info w = {.name = info->name, .dtype = SN_F32, .rank = type->shape->dims.n};
        size_t n = 1;
        for (uint32_t d = 0; d < w.rank; d++) n *= (size_t)(w.shape[d] = type->shape->dims.at[d].value);
        float *data = SN_NEWN(&ctx->scratch, float, n);
        for (size_t e = 0; e < n; e++) data[e] = (float)((double)e / (double)n);
        w.data = data, w.size = n * sizeof *data;
        in->at[in->n++] = w;
    }
    return SN_OK;
}

static sn_status read_data(test_data *in, test_data *out, sn_context *ctx, const suite_test *t, const sn_pb_graph *g,
                           unsigned set) {
    bool light = is_light(t->path);
    in->n = out->n = in->n_texts = out->n_texts = 0;
    SN_TRY(light ? light_inputs(in, ctx, g) : read_inputs(in, ctx, t, g, set));
    for (uint32_t k = 0; k < g->outputs.n; k++) {
        const char *path = sn_strf(&ctx->scratch, "%s/test_data_set_%u/output_%u.pb", t->path, set, k);
        if (light)
            path = sn_strf(&ctx->scratch, "%.*s_output_%u.pb", (int)(strlen(t->path) - strlen(".onnx")), t->path, k);
        SN_TRY(add_file(out, ctx, path, &g->outputs.at[k]));
    }
    return SN_OK;
}

/* numpy.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-7). */
static bool close_enough(double got, double want) {
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want)) return got == want;
    return fabs(got - want) <= 1e-7 + 1e-3 * fabs(want);
}

static sn_status compare(sn_context *ctx, const sn_port *port, const char *got, const sn_weight_info *want) {
    sn_env *env = &ctx->env;
    sn_arena *arena = &ctx->scratch;
    bool same = port->rank == want->rank;
    for (unsigned k = 0; same && k < want->rank; k++) same = port->shape[k] == want->shape[k];
    if (port->dtype != want->dtype || !same)
        return sn_fail(env, SN_ERROR_MISMATCH, "output %s is %s%s, wanted is %s%s", port->name,
                       sn_dtypes[port->dtype].name, sn_sizes_text(arena, port->shape, port->rank),
                       sn_dtypes[want->dtype].name, sn_sizes_text(arena, want->shape, want->rank));
    sn_array g = sn_array_from(arena, want->dtype, want->rank, want->shape, got);
    sn_array w = sn_array_from(arena, want->dtype, want->rank, want->shape, want->data);
    for (int64_t k = 0; k < w.numel; k++) {
        bool f = sn_is_float(want->dtype);
        if (f ? close_enough(g.f[k], w.f[k]) : g.i[k] == w.i[k]) continue;
        return sn_fail(env, SN_ERROR_MISMATCH, "output %s, element %lld: %.9g, wanted is %.9g", port->name,
                       (long long)k, f ? g.f[k] : (double)g.i[k], f ? w.f[k] : (double)w.i[k]);
    }
    return SN_OK;
}

static sn_status compare_all(sn_context *ctx, sn_program *p, sn_tensor **outputs, const test_data *want) {
    if (p->n_outputs != want->n)
        return sn_fail(&ctx->env, SN_ERROR_MISMATCH, "%u outputs, wanted are %u", p->n_outputs, want->n);
    for (unsigned k = 0; k < p->n_outputs; k++) {
        char *got = sn_alloc(&ctx->scratch, outputs[k]->bytes + 1);
        SN_TRY(sn_tensor_fetch(got, outputs[k], outputs[k]->bytes));
        SN_TRY(compare(ctx, &p->outputs[k], got, &want->at[k]));
    }
    return SN_OK;
}

/* The public calls, and each of them frees the scratch arena: what is needed longer is copied to one of the test. */
typedef struct test_run {
    const suite *s;
    const suite_test *t;
    unsigned set; /* of test data */
    sn_arena arena;
    sn_bytes model;
    test_data in, want;
    sn_program *p;
    unsigned texts; /* that came out of the import */
    char text_problem[REASON];
    sn_tensor *inputs[MAX_VALUES], *outputs[MAX_VALUES];
} test_run;

static int64_t text_count(const sn_text_tensor *t) {
    int64_t n = 1;
    for (unsigned k = 0; k < t->rank; k++) n *= t->shape[k];
    return n;
}

/* A text output of the import, compared at once. */
static void take_text(void *user, const sn_text_tensor *got) {
    test_run *r = user;
    if (r->texts >= r->want.n_texts) {
        snprintf(r->text_problem, sizeof r->text_problem, "output %s is text", got->name);
        return;
    }
    const sn_text_tensor *want = &r->want.texts[r->texts++];
    if (got->rank != want->rank || memcmp(got->shape, want->shape, want->rank * sizeof *want->shape)) {
        snprintf(r->text_problem, sizeof r->text_problem, "texts %s have another shape", got->name);
        return;
    }
    for (int64_t k = 0; k < text_count(want); k++)
        if (strcmp(got->at[k], want->at[k]))
            snprintf(r->text_problem, sizeof r->text_problem, "text %lld of %s is \"%s\", wanted is \"%s\"",
                     (long long)k, got->name, got->at[k], want->at[k]);
}

static void keep(test_data *d, sn_arena *arena) {
    for (unsigned k = 0; k < d->n_texts; k++) {
        sn_text_tensor *t = &d->texts[k];
        int64_t n = text_count(t);
        const char **at = SN_NEWN(arena, const char *, n + 1);
        for (int64_t i = 0; i < n; i++) at[i] = sn_strdup(arena, t->at[i]);
        t->name = sn_strdup(arena, t->name);
        t->at = at;
    }
    for (unsigned k = 0; k < d->n; k++) {
        d->at[k].name = sn_strdup(arena, d->at[k].name);
        d->at[k].data = sn_memdup(arena, d->at[k].data, d->at[k].size + 1);
    }
}

static sn_status read_test(sn_context *ctx, void *user) {
    test_run *r = user;
    sn_pb_model model;
    const char *path = sn_strf(&ctx->scratch, "%s%s", r->t->path, is_light(r->t->path) ? "" : "/model.onnx");
    SN_TRY(read_file(&r->model, ctx, path));
    SN_TRY(sn_pb_read_model(&model, &ctx->env, &ctx->scratch, path, r->model));
    if (!model.graph) return sn_fail(&ctx->env, SN_ERROR_FILE, "no graph");
    SN_TRY(read_data(&r->in, &r->want, ctx, r->t, model.graph, r->set));
    keep(&r->in, &r->arena);
    keep(&r->want, &r->arena);
    r->model.at = sn_memdup(&r->arena, r->model.at, r->model.n + 1);
    return SN_OK;
}

static sn_status check_outputs(sn_context *ctx, void *user) {
    test_run *r = user;
    return compare_all(ctx, r->p, r->outputs, &r->want);
}

/* Inputs keep their order; those that are no tensors (sequences) come one by one. */
static sn_status fill_inputs(sn_context *ctx, test_run *r) {
    if (r->p->n_inputs > r->in.n)
        return sn_fail(&ctx->env, SN_ERROR_MISMATCH, "%u inputs, %u are given", r->p->n_inputs, r->in.n);
    for (unsigned k = 0; k < r->p->n_inputs; k++) {
        SN_TRY(sn_tensor_for_input(&r->inputs[k], r->p, k));
        SN_TRY(sn_tensor_write(r->inputs[k], r->in.at[k].data, r->in.at[k].size));
    }
    for (unsigned k = 0; k < r->p->n_outputs; k++) SN_TRY(sn_tensor_for_output(&r->outputs[k], r->p, k));
    return SN_OK;
}

static sn_status run_program(sn_context *ctx, test_run *r, sn_graph *g) {
    sn_compile_options o = {.struct_size = sizeof o,
                            .device = r->s->device,
                            .cpu_schedule = r->s->schedule,
                            .verify = "each",
                            .threads = 1};
    SN_TRY(sn_compile(&r->p, g, &o));
    if (r->p->n_outputs > MAX_VALUES) return sn_fail(&ctx->env, SN_ERROR_UNSUPPORTED, "too many outputs");
    SN_TRY(fill_inputs(ctx, r));
    SN_TRY(sn_run(r->p, r->inputs, r->outputs, NULL));
    SN_TRY(sn_device_sync(ctx, r->p->device, NULL));
    return sn_guarded(ctx, check_outputs, r);
}

static sn_status run_set(sn_context *ctx, const suite *s, const suite_test *t, unsigned set) {
    test_run *r = calloc(1, sizeof *r);
    if (!r) return SN_ERROR_MEMORY;
    r->s = s, r->t = t, r->set = set;
    sn_graph *g = NULL;
    sn_arena_init(&r->arena, &ctx->env);
    sn_status status = sn_guarded(ctx, read_test, r);
    sn_import_options io = {.struct_size = sizeof io,
                            .values = r->in.at,
                            .n_values = r->in.n,
                            .texts = r->in.texts,
                            .n_texts = r->in.n_texts,
                            .text_output = take_text,
                            .user = r};
    if (status == SN_OK) status = sn_import_onnx_memory(&g, ctx, "model.onnx", r->model.at, r->model.n, t->path, &io);
    if (status == SN_OK && (r->text_problem[0] || r->texts != r->want.n_texts))
        status =
            sn_fail(&ctx->env, SN_ERROR_MISMATCH, "%s", r->text_problem[0] ? r->text_problem : "a text is missing");
    if (status == SN_OK && r->want.n) status = run_program(ctx, r, g);
    for (unsigned k = 0; k < MAX_VALUES; k++) {
        sn_tensor_destroy(r->inputs[k]);
        sn_tensor_destroy(r->outputs[k]);
    }
    sn_program_destroy(r->p);
    sn_graph_destroy(g);
    sn_arena_free(&r->arena);
    free(r);
    return status;
}

static sn_status run_test(sn_context *ctx, const suite *s, const suite_test *t) {
    for (unsigned set = 0;; set++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/test_data_set_%u", t->path, set);
        if (set && !exists(path)) return SN_OK;
        SN_TRY(run_set(ctx, s, t, set));
    }
}

/* ---- workers: one writes `number outcome reason` for each of its tests ---- */

typedef struct message {
    unsigned test;
    outcome outcome;
    char reason[REASON];
} message;

static void work(const suite *s, unsigned worker, unsigned from, int to) {
    sn_context *ctx = NULL;
    if (sn_context_create(&ctx, NULL) != SN_OK) _exit(1);
    for (unsigned k = from; k < s->n; k++) {
        if (k % s->jobs != worker) continue;
        message msg = {.test = k, .outcome = NOT_RUN};
        if (write(to, &msg, sizeof msg) != sizeof msg) _exit(1);
        msg.outcome = run_test(ctx, s, &s->tests[k]) == SN_OK ? PASSED : FAILED;
        if (msg.outcome == FAILED) snprintf(msg.reason, sizeof msg.reason, "%s", sn_error(ctx));
        if (write(to, &msg, sizeof msg) != sizeof msg) _exit(1);
    }
    sn_context_destroy(ctx);
    _exit(0);
}

static bool read_whole(int from, message *out) {
    for (size_t n = 0; n < sizeof *out;) {
        ssize_t got = read(from, (char *)out + n, sizeof *out - n);
        if (got <= 0) return false;
        n += (size_t)got;
    }
    return true;
}

typedef struct worker {
    pid_t pid;
    int from;         /* its messages, -1 when it has ended */
    unsigned running; /* the test that it is at, s->n between tests */
} worker;

/* Start a worker at test `first`. false: it could not be started. */
static bool start(worker *w, const suite *s, unsigned number, unsigned first) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    fflush(stdout);
    w->running = s->n;
    w->pid = fork();
    if (w->pid < 0) return false;
    if (w->pid == 0) {
        close(ends[0]);
        work(s, number, first, ends[1]);
    }
    close(ends[1]);
    w->from = ends[0];
    return true;
}

static void take(suite *s, const message *msg) {
    suite_test *t = &s->tests[msg->test];
    t->outcome = msg->outcome;
    memcpy(t->reason, msg->reason, sizeof t->reason);
}

/* The worker has ended. Where a test ended it, that one failed, and another worker goes on behind it. */
static bool end(worker *w, suite *s, unsigned number) {
    int status = 0;
    close(w->from);
    w->from = -1;
    waitpid(w->pid, &status, 0);
    if (w->running == s->n) return true;
    message crash = {.test = w->running, .outcome = FAILED};
    if (WIFSIGNALED(status)) snprintf(crash.reason, sizeof crash.reason, "crashed: %s", strsignal(WTERMSIG(status)));
    else snprintf(crash.reason, sizeof crash.reason, "crashed: exit status %d", WEXITSTATUS(status));
    take(s, &crash);
    return start(w, s, number, crash.test + 1);
}

static void run_here(suite *s, sn_context *ctx) {
    for (unsigned k = 0; k < s->n; k++) {
        suite_test *t = &s->tests[k];
        t->outcome = run_test(ctx, s, t) == SN_OK ? PASSED : FAILED;
        if (t->outcome == FAILED) snprintf(t->reason, sizeof t->reason, "%s", sn_error(ctx));
    }
}

static bool run_all(suite *s) {
    worker workers[MAX_JOBS];
    struct pollfd ends[MAX_JOBS];
    for (unsigned w = 0; w < s->jobs; w++)
        if (!start(&workers[w], s, w, 0)) return false;
    for (unsigned open = s->jobs; open;) {
        for (unsigned w = 0; w < s->jobs; w++) ends[w] = (struct pollfd){.fd = workers[w].from, .events = POLLIN};
        if (poll(ends, s->jobs, -1) < 0) return false;
        for (unsigned w = 0; w < s->jobs; w++) {
            message msg;
            if (workers[w].from < 0 || !ends[w].revents) continue;
            if (read_whole(workers[w].from, &msg)) {
                workers[w].running = msg.outcome == NOT_RUN ? msg.test : s->n;
                if (msg.outcome != NOT_RUN) take(s, &msg);
            } else {
                if (!end(&workers[w], s, w)) return false;
                open -= workers[w].from < 0;
            }
        }
    }
    return true;
}

/* ---- the list of tests, and of skips ---- */

static int by_path(const void *a, const void *b) {
    return strcmp(((const suite_test *)a)->path, ((const suite_test *)b)->path);
}

static int add_folder(suite *s, const char *folder) {
    DIR *d = opendir(folder);
    if (!d) return tool_misuse("%s: no such folder", folder);
    for (struct dirent *e; (e = readdir(d));) {
        char path[4096], model[4200];
        size_t n = strlen(folder);
        while (n > 1 && folder[n - 1] == '/') n--;
        if (snprintf(path, sizeof path, "%.*s/%s", (int)n, folder, e->d_name) >= (int)sizeof path) continue;
        snprintf(model, sizeof model, "%s%s", path, is_light(path) ? "" : "/model.onnx");
        if (e->d_name[0] == '.' || !exists(model) || s->n == MAX_TESTS) continue;
        char *copy = strdup(path);
        if (!copy) break;
        const char *name = copy + n;
        while (name > copy && name[-1] != '/') name--;
        if (s->only && !strstr(name, s->only)) free(copy);
        else s->tests[s->n++] = (suite_test){.path = copy, .name = name};
    }
    closedir(d);
    return TOOL_OK;
}

static void read_skip(suite *s, char *line) {
    char *reason = line + strcspn(line, " \t");
    if (*reason) *reason++ = 0;
    reason += strspn(reason, " \t");
    if (!line[0] || line[0] == '#') return;
    bool found = s->only != NULL;
    for (unsigned k = 0; k < s->n; k++)
        if (!strcmp(s->tests[k].name, line)) {
            s->tests[k].skip = reason;
            found = true;
        }
    if (found && reason[0]) return;
    printf("FAILED %s: %s\n", line, found ? "a skip without a reason" : "a skip of a test that is not there");
    s->stale++;
}

static sn_status load_skips(sn_context *ctx, void *user) {
    suite *s = user;
    char *text;
    size_t size;
    SN_TRY(sn_file_read(&text, &size, &ctx->env, &ctx->scratch, s->skips));
    s->skip_text = strdup(text);
    if (!s->skip_text) return SN_ERROR_MEMORY;
    char *rest = s->skip_text;
    for (char *line; (line = strsep(&rest, "\n"));) read_skip(s, line);
    return SN_OK;
}

/* ---- the report ---- */

static int report(const suite *s) {
    unsigned passed = 0, failed = s->stale, skipped = 0;
    for (unsigned k = 0; k < s->n; k++) {
        const suite_test *t = &s->tests[k];
        bool good = t->outcome == PASSED;
        if (good && t->skip) {
            printf("FAILED %s: passes, but is declared as skipped: %s\n", t->name, t->skip);
            failed++;
        } else if (good) {
            if (s->verbose) printf("passed %s\n", t->name);
            passed++;
        } else if (t->skip && strncmp(t->reason, "crashed", 7)) {
            if (s->verbose) printf("skipped %s: %s (%s)\n", t->name, t->skip, t->reason);
            skipped++;
        } else {
            printf("FAILED %s: %s\n", t->name, t->outcome == NOT_RUN ? "was not run" : t->reason);
            failed++;
        }
    }
    printf("onnx-suite: %u passed, %u failed, %u skipped\n", passed, failed, skipped);
    return failed || !s->n ? TOOL_FAILED : TOOL_OK;
}

static int parse(suite *s, int argc, char **argv) {
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'}, {"cpu-schedule", required_argument, NULL, 's'},
        {"skips", required_argument, NULL, 'k'},  {"only", required_argument, NULL, 'o'},
        {"jobs", required_argument, NULL, 'j'},   {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'd': s->device = optarg; break;
        case 's': s->schedule = optarg; break;
        case 'k': s->skips = optarg; break;
        case 'o': s->only = optarg; break;
        case 'j':
            if (!tool_unsigned(&s->jobs, optarg) || s->jobs > MAX_JOBS)
                return tool_misuse("--jobs %s: a number from 0 to %d is wanted", optarg, MAX_JOBS);
            break;
        case 'v': s->verbose = true; break;
        case 'h': s->show_help = true; return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    return argc > optind ? TOOL_OK : tool_misuse("onnx-suite: a DIR is wanted");
}

int tool_onnx_suite(sn_context *ctx, int argc, char **argv) {
    suite s = {.device = "cpu", .jobs = 2};
    int code = parse(&s, argc, argv);
    if (code != TOOL_OK) return code;
    if (s.show_help) return fputs(help, stdout), TOOL_OK;
    s.tests = calloc(MAX_TESTS, sizeof *s.tests);
    if (!s.tests) return tool_fail(ctx);
    for (int k = optind; k < argc && code == TOOL_OK; k++) code = add_folder(&s, argv[k]);
    qsort(s.tests, s.n, sizeof *s.tests, by_path);
    /* names are FOLDER/TEST: paths are sorted with them */
    if (code == TOOL_OK && s.skips && sn_guarded(ctx, load_skips, &s) != SN_OK) code = tool_fail(ctx);
    if (code == TOOL_OK && !s.jobs) run_here(&s, ctx);
    if (code == TOOL_OK)
        code = !s.jobs || run_all(&s) ? report(&s) : tool_misuse("onnx-suite: a worker could not be started");
    for (unsigned k = 0; k < s.n; k++) free(s.tests[k].path);
    free(s.skip_text);
    free(s.tests);
    return code;
}
