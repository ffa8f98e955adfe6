/* random.c: `sinter random`: random graphs (random.h) through the compiler, for the host and for GPU targets. Each
 * must compile (or be refused with one line, where sizes are huge) in little time. Where it is small enough it is
 * run on the CPU, with the schedules of the host and of a GPU (products: of two), and compared with the float64
 * evaluator by the bounds of frontend/check.c.
 *
 * Chains of random operations are ill-conditioned now and then: a floor, a sort or an overflow turns the last bit of
 * an f32 into a different result. So an output that misses its bound is judged by noise: the evaluator runs again
 * with every float value rounded to its type and moved by a few units in the last place. Where that misses the bound
 * as well, the graph says nothing about the compiler and counts as skipped; so does one with an output that has no element
 * with a bound (beside a pole), of which noise makes anything, too.
 *
 * Graphs are run by processes of their own, so that a crash or a graph that never ends is one failure among others: the
 * text of the graph stands in memory that the processes share.
 */
#include "ir/graph/eval_internal.h"
#include "runtime/threads.h"
#include "tools/random.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKERS = 64, TEXT_SIZE = 1 << 18, MAX_RUN_BYTES = 64 << 20, NOISES = 8, HANG = 10, MOST_THREADS = 3 };

static const char help[] =
    "usage: sinter random [options]\n"
    "  --n=N            graphs (300)\n"
    "  --seed=S         of the first one (1); the next has S + 1\n"
    "  --products       graphs around a product, convolution or attention, instead of any operations\n"
    "  --forms          graphs near to what passes look for: masks, norms, layers and their gradients, sorts, loops\n"
    "  --headers        kernels of the graphs, with schedules in their headers that may be anything\n"
    "  --check-kernels  also look for races and the like in the kernels that a GPU would get\n"
    "  --sizes=KIND     empty (default): axes of 0 and 1; small; huge: near 2^31, 2^32, 2^40 and 2^62, compiled only\n"
    "  --inputs=KIND    normal (default), uniform, wide or extremes (infinities, nan, ends of ranges)\n"
    "  --targets=WHICH  one (default): of the GPU targets each graph takes its turn; all; none\n"
    "  --limit=SECONDS  processor time that one compilation may take (2)\n"
    "  --repro=DIR      write a .sn file of every failure\n"
    "  --threads=N      processes (as many as there are processors that it may run on)\n"
    "  --print          print the graphs, run nothing\n";

typedef struct random_args {
    uint64_t n, seed;
    random_sizes sizes;
    sn_distribution inputs;
    const char *repro;
    unsigned threads, limit;
    bool products, forms, headers, check_kernels, all_targets, no_targets, print, show_help;
} random_args;

static int parse(random_args *r, int argc, char **argv) {
    static const struct option options[] = {{"n", required_argument, NULL, 'n'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"sizes", required_argument, NULL, 'z'},
                                            {"inputs", required_argument, NULL, 'i'},
                                            {"targets", required_argument, NULL, 't'},
                                            {"limit", required_argument, NULL, 'l'},
                                            {"repro", required_argument, NULL, 'r'},
                                            {"threads", required_argument, NULL, 'j'},
                                            {"print", no_argument, NULL, 'p'},
                                            {"products", no_argument, NULL, 'P'},
                                            {"forms", no_argument, NULL, 'F'},
                                            {"check-kernels", no_argument, NULL, 'k'},
                                            {"headers", no_argument, NULL, 'H'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    static const char *const kinds[RANDOM_N_SIZES] = {"small", "empty", "huge"};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'n':
            if (!tool_u64(&r->n, optarg)) return tool_misuse("--n %s: a number is wanted", optarg);
            break;
        case 's':
            if (!tool_u64(&r->seed, optarg)) return tool_misuse("--seed %s: a number is wanted", optarg);
            break;
        case 'z':
            for (r->sizes = 0; r->sizes < RANDOM_N_SIZES && strcmp(optarg, kinds[r->sizes]);) r->sizes++;
            if (r->sizes == RANDOM_N_SIZES) return tool_misuse("--sizes %s: small, empty or huge is wanted", optarg);
            break;
        case 'i':
            if (!tool_distribution(&r->inputs, optarg, strlen(optarg)))
                return tool_misuse("--inputs %s: normal, uniform, wide or extremes is wanted", optarg);
            break;
        case 't':
            r->all_targets = !strcmp(optarg, "all");
            r->no_targets = !strcmp(optarg, "none");
            if (!r->all_targets && !r->no_targets && strcmp(optarg, "one"))
                return tool_misuse("--targets %s: one, all or none is wanted", optarg);
            break;
        case 'l':
            if (!tool_unsigned(&r->limit, optarg) || !r->limit)
                return tool_misuse("--limit %s: a number of seconds is wanted", optarg);
            break;
        case 'r': r->repro = optarg; break;
        case 'j':
            if (!tool_unsigned(&r->threads, optarg)) return tool_misuse("--threads %s: a number is wanted", optarg);
            break;
        case 'p': r->print = true; break;
        case 'P': r->products = true; break;
        case 'F': r->forms = true; break;
        case 'H': r->headers = true; break;
        case 'k': r->check_kernels = true; break;
        case 'h': r->show_help = true; return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    return optind == argc ? TOOL_OK : tool_misuse("random: takes no FILE, %s given", argv[optind]);
}

/* ---- what processes share ---- */

/* One process at work: what it is at, and what it has counted. */
typedef struct worker {
    pid_t pid;
    uint64_t next; /* number of its next graph; those of a worker are THREADS apart */
    char what[64]; /* "sm_90": the compilation in progress; "" between graphs */
    uint64_t passed, failed, skipped;
    uint64_t compiled, refused, ran;
    double slowest;
    char text[TEXT_SIZE];
} worker;

typedef struct job {
    const random_args *args;
    sn_context *ctx;
    worker *me;
    uint64_t seed; /* of the graph at hand */
    bool failed;   /* it has */
    bool unclear;  /* noise explains it */
} job;

static void write_text(char *path, size_t size, const random_args *r, uint64_t seed, const char *text) {
    snprintf(path, size, "%s/random-%llu.sn", r->repro, (unsigned long long)seed);
    mkdir(r->repro, 0777);
    FILE *file = fopen(path, "w");
    bool written = file && fputs(text, file) >= 0;
    if ((file && fclose(file)) || !written) snprintf(path, size, "(cannot write %s)", r->repro);
}

static void report(const random_args *r, uint64_t seed, const worker *w, const char *message) {
    char path[4096] = "";
    if (r->repro) write_text(path, sizeof path, r, seed, w->text);
    printf("FAILED seed %llu, %s: %s\n", (unsigned long long)seed, w->what, message);
    if (path[0]) printf("  %s\n", path);
    fflush(stdout);
}

static void fail_job(job *j, const char *message) {
    report(j->args, j->seed, j->me, message);
    j->failed = true;
}

/* ---- noise ---- */

typedef struct noise {
    sn_program *p;
    sn_tensor **inputs; /* with the values from before the run */
    const sn_check *checks;
    bool explains; /* every output that is wrong */
} noise;

/* As the type, or the f32 that halves are computed in, would hold it, and up to four units in the last place off. What cancels may leave
 * nothing, and zeros of either sign. */
static void disturb(sn_array *a, uint64_t *state) {
    bool wide = a->dtype == SN_F64, as_half = !wide && sn_draw(state) % 2;
    for (int64_t k = 0; sn_is_float(a->dtype) && k < a->numel; k++) {
        uint64_t draw = sn_draw(state);
        double by = ((double)(draw % 2001) / 1000 - 1) * (wide ? 0x1p-51 : 0x1p-22);
        if (as_half && fabs(a->f[k]) < 0x1p-24) a->f[k] = copysign(0, a->f[k]);
        if (a->f[k] == 0 && draw >> 63) a->f[k] = -a->f[k];
        a->f[k] = sn_round_to(as_half ? a->dtype : wide ? SN_F64 : SN_F32, a->f[k] * (1 + by));
    }
}

/* What only moves elements rounds none of them. */
static sn_status disturb_node(sn_eval_run *r, sn_nd x) {
    const sn_node_rec *n = sn_node_get(r->m, x);
    sn_opclass cls = sn_ops[n->op].cls;
    bool moves = cls == SN_OPS_SOURCE || cls == SN_OPS_VIEW || cls == SN_OPS_REPEAT || n->op == SN_OP_PROJECT;
    for (uint32_t k = 0; k < n->n_results && !moves; k++) disturb(&r->all[x.i][k], r->user);
    return SN_OK;
}

static sn_status disturb_nothing(sn_eval_run *r, sn_nd x, int64_t t) {
    (void)r, (void)x, (void)t;
    return SN_OK;
}

static sn_status evaluate_disturbed(sn_array **all, sn_module *m, const sn_array *inputs, sn_arena *arena,
                                    uint64_t seed) {
    static const sn_eval_watch watch = {disturb_node, disturb_nothing};
    return sn_eval_graph(&(sn_eval_run){.m = m, .arena = arena, .all = all, .watch = &watch, .user = &seed}, inputs);
}

static sn_status fetch_inputs(sn_array *out, sn_context *ctx, const noise *t) {
    for (unsigned k = 0; k < t->p->n_inputs; k++) {
        const sn_tensor_info *info = &t->inputs[k]->info;
        size_t bytes = (size_t)info->numel * sn_dtype_bytes(info->dtype);
        void *data = sn_zalloc(&ctx->scratch, bytes + 1);
        SN_TRY(sn_tensor_fetch(data, t->inputs[k], bytes));
        out[k] = sn_array_from(&ctx->scratch, info->dtype, info->rank, info->shape, data);
    }
    return SN_OK;
}

static sn_status try_noise(sn_context *ctx, void *user) {
    noise *t = user;
    sn_module *m = t->p->source;
    unsigned n = t->p->n_outputs;
    sn_arena *a = &ctx->scratch;
    sn_array *in = SN_NEWN(a, sn_array, t->p->n_inputs + 1), *want = SN_NEWN(a, sn_array, n + 1);
    bool *explained = SN_NEWN(a, bool, n + 1);
    SN_TRY(fetch_inputs(in, ctx, t));
    double **errors = SN_NEWN(a, double *, n + 1);
    SN_TRY(sn_graph_eval(want, m, in, a));
    SN_TRY(sn_check_errors(errors, m, in, a));
    for (uint64_t seed = 1; seed <= NOISES; seed++) {
        sn_array **all = SN_NEWN(a, sn_array *, m->graph.nodes.count);
        SN_TRY(evaluate_disturbed(all, m, in, a, seed));
        for (unsigned k = 0; k < n; k++) {
            const sn_array *got = all[m->graph.outputs.at[k].node.i];
            void *data = sn_zalloc(a, (size_t)got->numel * sn_dtype_bytes(got->dtype) + 1);
            sn_array_store(data, got);
            /* Noise that comes within a factor of the bound says that the bound is not meant for this graph. */
            sn_check c = sn_check_compare(got->dtype, data, &want[k], errors[k], t->checks[k].bound / 4, 0);
            explained[k] |= !c.ok;
        }
    }
    t->explains = true;
    for (unsigned k = 0; k < n; k++) t->explains &= t->checks[k].ok || explained[k];
    return SN_OK;
}

/* ---- one graph ---- */

static bool one_line(const char *message) { return message[0] && !strchr(message, '\n'); }

/* Processor time: other processes do not count. */
static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* After that much processor time the process gets SIGPROF, which ends it. */
static void set_timer(unsigned seconds) {
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = seconds}, NULL);
}

/* Its storage, and each value that the evaluator computes one by one. */
static bool is_small(const sn_program *p) {
    double bytes = (double)p->info.workspace;
    int64_t elements;
    for (sn_nd x = {1}; x.i < p->source->graph.nodes.count; x.i++) {
        const sn_type *t = &sn_node_get(p->source, x)->type;
        if (!sn_ix_is_const(p->source, sn_type_numel(p->source, t), &elements) || elements > MAX_RUN_BYTES)
            return false;
    }
    for (unsigned k = 0; k < p->n_inputs; k++) {
        double reach = (double)p->inputs[k].offset + 1;
        for (unsigned d = 0; d < p->inputs[k].rank; d++)
            reach += (double)(p->inputs[k].shape[d] ? p->inputs[k].shape[d] - 1 : 0) * (double)p->inputs[k].strides[d];
        bytes += reach * (double)sn_dtype_bytes(p->inputs[k].dtype);
    }
    return bytes <= MAX_RUN_BYTES;
}

static void judge_mismatch(job *j, sn_program *p, const tool_inputs *in, const sn_check *checks) {
    char message[SN_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", sn_error(j->ctx));
    sn_tensor **inputs = calloc(p->n_inputs + 1, sizeof *inputs), **outputs = calloc(p->n_outputs + 1, sizeof *outputs);
    noise t = {.p = p, .inputs = inputs, .checks = checks};
    sn_status status = inputs && outputs ? tool_program_tensors(inputs, outputs, p, in) : SN_ERROR_MEMORY;
    if (status == SN_OK) status = sn_guarded(j->ctx, try_noise, &t);
    if (status == SN_OK && t.explains) j->unclear = true;
    else fail_job(j, message);
    tool_free_tensors(inputs, p->n_inputs);
    tool_free_tensors(outputs, p->n_outputs);
}

static void run_program(job *j, sn_program *p) {
    tool_inputs in = {.random_rest = true, .how = {.seed = j->seed, .floats = j->args->inputs}};
    sn_tensor **inputs = calloc(p->n_inputs + 1, sizeof *inputs), **outputs = calloc(p->n_outputs + 1, sizeof *outputs);
    sn_check *checks = calloc(p->n_outputs + 1, sizeof *checks);
    sn_status status = inputs && outputs && checks ? SN_OK : SN_ERROR_MEMORY;
    if (status == SN_OK) status = tool_program_tensors(inputs, outputs, p, &in);
    if (status == SN_OK) status = sn_program_check(checks, p, inputs, outputs, false);
    j->me->ran++;
    if (status == SN_ERROR_MISMATCH) judge_mismatch(j, p, &in, checks);
    else if (status != SN_OK) fail_job(j, sn_error(j->ctx)[0] ? sn_error(j->ctx) : "no message");
    free(checks);
    tool_free_tensors(inputs, p->n_inputs);
    tool_free_tensors(outputs, p->n_outputs);
}

/* What a graph may be refused for: what the messages of the others say is a fault of the compiler. */
static bool may_refuse(sn_status status) {
    return status == SN_ERROR_TYPE || status == SN_ERROR_ARGUMENT || status == SN_ERROR_UNSUPPORTED ||
           status == SN_ERROR_MEMORY;
}

typedef struct compile_args {
    sn_program **out;
    sn_graph *g;
    const sn_compile_options *options;
    bool huge;
} compile_args;

/* A huge program is not loaded: that would ask for its memory. */
static sn_status compile_one(sn_context *ctx, void *user) {
    const compile_args *a = user;
    (void)ctx;
    return sn_compile_to(a->out, a->g, a->options, a->huge ? SN_PHASE_CODE : SN_PHASE_LOADED);
}

/* The checker takes its time: nothing is counted. */
static void check_kernels(job *j, sn_graph *g, const sn_compile_options *o) {
    tool_inputs in = {.random_rest = true, .how = {.seed = j->seed, .floats = j->args->inputs}};
    if (tool_check_kernels(j->ctx, g, o, &in) != SN_OK) fail_job(j, sn_error(j->ctx));
}

static void compile_for(job *j, sn_graph *g, const char *target, const char *schedule) {
    sn_compile_options o = {.struct_size = sizeof o,
                            .device = "cpu",
                            .target = target,
                            .cpu_schedule = schedule,
                            .verify = j->args->sizes == RANDOM_HUGE ? NULL : "each",
                            .threads = 1 + (unsigned)(j->seed % MOST_THREADS)};
    sn_program *p = NULL;
    snprintf(j->me->what, sizeof j->me->what, "%s", target ? target : schedule);
    set_timer(j->args->limit * HANG);
    double start = cpu_seconds();
    sn_status status = sn_guarded(j->ctx, compile_one, &(compile_args){&p, g, &o, j->args->sizes == RANDOM_HUGE});
    double took = cpu_seconds() - start;
    char message[SN_MESSAGE_MAX];
    if (took > j->me->slowest) j->me->slowest = took;
    if (took > j->args->limit) {
        snprintf(message, sizeof message, "compiling takes %.1f s", took);
        fail_job(j, message);
    }
    if (status == SN_OK) j->me->compiled++;
    else if (may_refuse(status) && one_line(sn_error(j->ctx)) && (j->args->headers || j->args->sizes == RANDOM_HUGE))
        j->me->refused++;
    else {
        snprintf(message, sizeof message, "%.*s", SN_MESSAGE_MAX - 1,
                 sn_error(j->ctx)[0] ? sn_error(j->ctx) : "no message");
        fail_job(j, message);
    }
    bool runs = p && schedule && j->args->sizes != RANDOM_HUGE && is_small(p);
    if (runs) run_program(j, p);
    set_timer(0);
    sn_program_destroy(p);
    if (runs && j->args->check_kernels && !strcmp(schedule, "gpu")) check_kernels(j, g, &o);
}

/* That of the kernels of a seed; NULL: the host. */
static const char *target_of(uint64_t seed) {
    static const char *const targets[] = {"sm_90a", "sm_80", NULL, "sm_90a:units=132", "sm_75"};
    return targets[seed % SN_COUNT(targets)];
}

static void compile_all(job *j, sn_graph *g, uint64_t number) {
    static const char *const targets[] = {
#define SN_TARGET(name, sm, ptx, units, shared, cluster, threads, blocks, flight, special, gbps, mhz, cache_mb, note) name,
#define SN_VARIANT(name, sm, ptx, note) name,
#include "backend-nvptx/targets.def"
#undef SN_VARIANT
#undef SN_TARGET
    };
    if (j->args->headers) {
        const char *target = target_of(j->seed);
        compile_for(j, g, target, target ? "gpu" : "host");
        return;
    }
    compile_for(j, g, NULL, "host");
    compile_for(j, g, NULL, "gpu");
    if (j->args->products || j->args->forms) compile_for(j, g, "sm_90a", "gpu"); /* with boxes and wgmma */
    for (uint64_t k = 0; k < SN_COUNT(targets) && !j->args->no_targets; k++)
        if (j->args->all_targets || k == number % SN_COUNT(targets)) compile_for(j, g, targets[k], NULL);
}

typedef struct text_args {
    const random_args *args;
    uint64_t seed;
    char *text;
} text_args;

/* Half of them matrix products. */
static sn_status draw_product(sn_text *out, sn_context *ctx, uint64_t seed, sn_distribution inputs) {
    /* Whether an infinite weight beside an image is multiplied by the zeros there is not said. */
    if (inputs != SN_EXTREMES && seed % 4 == 1) return random_convolution(out, ctx, seed);
    return seed % 4 == 3 ? random_attention(out, ctx, seed) : random_product(out, ctx, seed);
}

/* Kernels whose text is too long are left out. */
static sn_status add_headers(const text_args *a, sn_context *ctx) {
    sn_text t;
    sn_text_init(&t, &ctx->env);
    SN_TRY(random_headers(&t, ctx, a->text, target_of(a->seed), a->seed));
    if (t.n < TEXT_SIZE) snprintf(a->text, TEXT_SIZE, "%s", t.s);
    sn_text_free(&t);
    return SN_OK;
}

static sn_status make_text(sn_context *ctx, void *user) {
    text_args *a = user;
    sn_text t;
    sn_text_init(&t, &ctx->env);
    if (a->args->products) SN_TRY(draw_product(&t, ctx, a->seed, a->args->inputs));
    else if (a->args->forms) SN_TRY(random_forms(&t, ctx, a->seed, a->args->inputs));
    else SN_TRY(random_graph(&t, ctx, a->seed, a->args->sizes));
    snprintf(a->text, TEXT_SIZE, "%s", t.s ? t.s : "");
    sn_text_free(&t);
    return a->args->headers && a->args->sizes != RANDOM_HUGE ? add_headers(a, ctx) : SN_OK;
}

static void run_graph(job *j, uint64_t number) {
    worker *me = j->me;
    j->seed = j->args->seed + number;
    j->failed = j->unclear = false;
    me->text[0] = 0;
    snprintf(me->what, sizeof me->what, "making it");
    sn_graph *g = NULL;
    set_timer(j->args->limit * HANG);
    sn_status status = sn_guarded(j->ctx, make_text, &(text_args){j->args, j->seed, me->text});
    if (status == SN_OK) status = sn_graph_from_text(&g, j->ctx, "random", me->text, strlen(me->text));
    if (status != SN_OK) fail_job(j, sn_error(j->ctx));
    else compile_all(j, g, number);
    sn_graph_destroy(g);
    if (j->failed) me->failed++;
    else if (j->unclear) me->skipped++;
    else me->passed++;
    me->what[0] = 0;
}

/* ---- processes ---- */

/* The process of a worker: all its graphs from `next` on. */
static void work(const random_args *r, worker *me) {
    job j = {.args = r, .me = me};
    if (sn_context_create(&j.ctx, NULL) != SN_OK) _exit(TOOL_FAILED);
    while (me->next < r->n) {
        run_graph(&j, me->next);
        me->next += r->threads;
    }
    sn_context_destroy(j.ctx);
    fflush(stdout);
    _exit(TOOL_OK);
}

static void start(const random_args *r, worker *w) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) work(r, w);
    w->pid = pid; /* the memory is that of both */
}

/* A worker's process has ended: with its work done, or on a graph, which is reported and left behind. */
static void after_end(const random_args *r, worker *w, int how) {
    char message[128];
    w->pid = 0;
    if (WIFEXITED(how) && WEXITSTATUS(how) == TOOL_OK) return;
    if (!w->what[0]) snprintf(w->what, sizeof w->what, "between graphs");
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGPROF)
        snprintf(message, sizeof message, "has not ended after %u s", r->limit * HANG);
    else if (WIFSIGNALED(how)) snprintf(message, sizeof message, "crashed: %s", strsignal(WTERMSIG(how)));
    else snprintf(message, sizeof message, "ended with exit status %d", WEXITSTATUS(how));
    report(r, r->seed + w->next, w, message);
    w->failed++;
    w->next += r->threads;
    if (w->next < r->n) start(r, w);
}

static int run_workers(const random_args *r, worker *workers) {
    for (unsigned k = 0; k < r->threads; k++) {
        workers[k].next = k;
        start(r, &workers[k]);
    }
    for (int how;;) {
        pid_t pid = wait(&how);
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) break;
        for (unsigned k = 0; k < r->threads; k++)
            if (workers[k].pid == pid) after_end(r, &workers[k], how);
    }
    worker sum = {0};
    for (unsigned k = 0; k < r->threads; k++) {
        const worker *w = &workers[k];
        sum.passed += w->passed, sum.failed += w->failed, sum.skipped += w->skipped;
        sum.compiled += w->compiled, sum.refused += w->refused, sum.ran += w->ran;
        sum.slowest = fmax(sum.slowest, w->slowest);
        sum.failed += w->next < r->n; /* could not be started */
    }
    printf("%llu graphs: %llu compilations, %llu refusals, %llu runs, the slowest compilation took %.2f s\n",
           (unsigned long long)r->n, (unsigned long long)sum.compiled, (unsigned long long)sum.refused,
           (unsigned long long)sum.ran, sum.slowest);
    printf("%llu passed, %llu failed, %llu skipped\n", (unsigned long long)sum.passed, (unsigned long long)sum.failed,
           (unsigned long long)sum.skipped);
    return sum.failed ? TOOL_FAILED : TOOL_OK;
}

/* ---- the command ---- */

static int print_graphs(sn_context *ctx, const random_args *r) {
    static char text[TEXT_SIZE];
    for (uint64_t k = 0; k < r->n; k++) {
        if (sn_guarded(ctx, make_text, &(text_args){r, r->seed + k, text}) != SN_OK) return tool_fail(ctx);
        printf("# seed %llu\n%s", (unsigned long long)(r->seed + k), text);
    }
    return TOOL_OK;
}

int tool_random(sn_context *ctx, int argc, char **argv) {
    random_args r = {.n = 300, .seed = 1, .sizes = RANDOM_EMPTY, .limit = 2};
    int code = parse(&r, argc, argv);
    if (code != TOOL_OK) return code;
    if (r.show_help) return fputs(help, stdout) < 0 ? TOOL_FAILED : TOOL_OK;
    if (r.print) return print_graphs(ctx, &r);
    if (!r.threads) r.threads = sn_processors();
    if (r.threads > MAX_WORKERS) r.threads = MAX_WORKERS;
    worker *workers =
        mmap(NULL, r.threads * sizeof *workers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (workers == MAP_FAILED) return tool_misuse("random: no memory");
    code = run_workers(&r, workers);
    munmap(workers, r.threads * sizeof *workers);
    return code;
}
