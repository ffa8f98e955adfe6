/* bench.c: `sinter bench`: time graphs on random inputs. Reports the bytes that a run must move at least, the
 * operations of its contractions, the median time with cold caches, and on CUDA the share of the rate of a plain
 * copy.
 *
 * Runs are timed one by one, between two events after a write that flushes the L2. A run that turns out to be shorter
 * than GRAPH_BELOW_US is timed again in a CUDA graph (runtime/time_graph.c), where events weigh nothing.
 */
#include "tools/bench.h"

#include "ir/graph/cond.h"
#include "ir/graph/repeat.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char help[] =
    "usage: sinter bench [options] FILE|FOLDER...\n"
    "A FOLDER stands for all *.sn in it.\n"
    "  --device=WHERE    auto, cpu, cuda\n"
    "  --runs N          timed runs of each file (50), on CUDA no more than take 50 ms\n"
    "  --graph-below US  CUDA: time runs shorter than this in a CUDA graph (50; 0: never)\n"
    "  --check-repeat N  run N times more on the same inputs and compare the outputs bit for bit\n"
    "  --error           compare elements of the outputs with float64 (bench/README.md)\n"
    "  --profile         what each kernel, library call and copy of a run takes\n"
    "  --inputs=KIND     floats of the inputs: normal, uniform (0 to 1), wide (normal times 2^-12 to 2^12);\n"
    "                    KIND:X times X\n"
    "  --dim N=8         the size that a name in shapes stands for (repeat)\n"
    "  --threads N       CPU threads\n"
    "  --precision=WORD  exact, high, tf32, bf16: of products of f32 that say nothing\n"
    "  --multi-kernel=WHICH  kernels with several schedules: off (default), reductions, all (see run)\n"
    "  --choices=A,B     what products and convolutions may become (see run)\n"
    "  --tune=MODE       choices for products: off, records (default), on: time what is not on record\n"
    "  --cache=WHERE     generated code on disk, --cache-size=BYTES, --ptxas=FILE (see run)\n"
    "  --metrics=A,B     metric tables, --metrics-dir, --metrics-model (see run)\n"
    "  --json FILE       write the results there too: one JSON object a line, the device first (bench/README.md)\n";

enum {
    FLUSH_BYTES = 128 << 20, /* more than any L2: no input is cached when a timed run starts */
    GRAPH_BELOW_US = 50,
    REPLAYS = 20,
    PERIOD = 65521 /* random elements that are drawn for an input before they repeat */
};

typedef struct bench_args {
    unsigned runs, graph_below, repeats;
    const char *json, *inputs;
    sn_random_how how; /* what `inputs` means */
    tool_dims dims;
    sn_compile_options o;
    bool error, profile, show_help;
} bench_args;

/* A call: options, device, and where results go. */
typedef struct bench {
    bench_args a;
    sn_context *ctx;
    bench_device device;
    FILE *json;
    int code; /* exit status so far */
} bench;

/* An option with a number; `least` is the smallest that makes sense. */
static int read_number(unsigned *out, const char *name, unsigned least) {
    if (tool_unsigned(out, optarg) && *out >= least) return TOOL_OK;
    return tool_misuse("--%s %s: a number is wanted", name, optarg);
}

/* KIND or KIND:X */
static int read_inputs(bench_args *b, const char *text) {
    char *end = "";
    size_t n = strcspn(text, ":");
    b->inputs = text;
    bool known = tool_distribution(&b->how.floats, text, n);
    if (text[n]) b->how.scale = strtod(text + n + 1, &end);
    if (known && (!text[n] || (b->how.scale > 0 && !*end))) return TOOL_OK;
    return tool_misuse("--inputs %s: normal, uniform or wide is wanted, or one of them with :NUMBER", text);
}

static int parse(bench_args *b, int argc, char **argv) {
    static const struct option options[] = {TOOL_DEVICE,
                                            {"runs", required_argument, NULL, 'r'},
                                            {"graph-below", required_argument, NULL, 'g'},
                                            {"check-repeat", required_argument, NULL, 'p'},
                                            {"error", no_argument, NULL, 'e'},
                                            {"profile", no_argument, NULL, 'f'},
                                            {"inputs", required_argument, NULL, 'i'},
                                            TOOL_DIM,
                                            TOOL_THREADS,
                                            TOOL_PRECISION,
                                            TOOL_MULTI_KERNEL,
                                            TOOL_CHOICES,
                                            TOOL_TUNE,
                                            TOOL_CACHE,
                                            TOOL_CACHE_SIZE,
                                            TOOL_PTXAS,
                                            TOOL_METRICS,
                                            {"json", required_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int code = TOOL_OK;
    for (int c; code == TOOL_OK && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'r': code = read_number(&b->runs, "runs", 1); break;
        case 'g': code = read_number(&b->graph_below, "graph-below", 0); break;
        case 'p': code = read_number(&b->repeats, "check-repeat", 1); break;
        case 'e': /* of long sums, whose terms should not repeat */
            b->error = true;
            b->how.period = 0;
            break;
        case 'f': b->profile = true; break;
        case 'i': code = read_inputs(b, optarg); break;
        case 'j': b->json = optarg; break;
        case 'h': b->show_help = true; return TOOL_OK;
        default: code = tool_compile_option(&b->o, &b->dims, c);
        }
    }
    return code != TOOL_OK || optind < argc ? code : tool_misuse("bench: no FILE given");
}

/* ---- timing ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, unsigned n) {
    qsort(x, n, sizeof *x, by_value);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

/* A program with tensors to run it on. */
typedef struct loaded {
    sn_program *p;
    sn_tensor **inputs, **outputs;
} loaded;

static sn_status time_in_graph(bench_result *out, const loaded *l) {
    double us[REPLAYS];
    sn_graph_timing how = {.run_us = out->us};
    SN_TRY(sn_program_time_graph(us, REPLAYS, &how, l->p, l->inputs, l->outputs));
    out->us = median(us, REPLAYS);
    out->method = "graph";
    out->runs = REPLAYS;
    out->graph_runs = how.runs;
    out->graph_sets = how.sets;
    return SN_OK;
}

enum { FEW = 3 /* runs that tell how many there can be */ };

/* A device that multiplies without a pause takes more power than it may have for long: 50 ms later its clock falls by a
 * fifth (H200). So a series of runs on one takes no longer than that, and the device rests behind it for some times as
 * long. */
static unsigned runs_in_a_series(const bench *b, double us) {
    enum { SERIES_US = 50000 };
    double most = SERIES_US / us > FEW ? SERIES_US / us : FEW;
    return most < b->a.runs ? (unsigned)most : b->a.runs;
}

static void rest(double us) {
    enum { TIMES = 5 };
    struct timespec t = {.tv_sec = (time_t)(TIMES * us / 1e6)};
    t.tv_nsec = (long)(1e3 * (TIMES * us - 1e6 * (double)t.tv_sec));
    nanosleep(&t, NULL);
}

/* The median of *runs runs; on a device of fewer, which some runs in front tell. */
static sn_status time_runs(double *out_us, unsigned *runs, const loaded *l, const bench *b, sn_program *reader) {
    bool on_device = l->p->device != SN_CPU;
    double *us = calloc(b->a.runs + FEW, sizeof *us);
    if (!us) return SN_ERROR_MEMORY;
    sn_status status = SN_OK;
    *runs = b->a.runs;
    if (on_device) status = sn_program_time_clean(us, FEW, l->p, l->inputs, l->outputs, FLUSH_BYTES, reader);
    if (on_device && status == SN_OK) *runs = runs_in_a_series(b, median(us, FEW));
    if (status == SN_OK) status = sn_program_time_clean(us, *runs, l->p, l->inputs, l->outputs, FLUSH_BYTES, reader);
    if (status == SN_OK) *out_us = median(us, *runs);
    free(us);
    if (on_device && status == SN_OK) rest(*out_us * *runs);
    return status;
}

static sn_status time_program(bench_result *out, const loaded *l, const bench *b) {
    unsigned runs;
    SN_TRY(time_runs(&out->us, &out->runs, l, b, b->device.reader));
    out->method = l->p->device == SN_CPU ? "wall" : "events";
    if (l->p->device == SN_CPU) return SN_OK;
    SN_TRY(time_runs(&out->events_us, &runs, l, b, NULL));
    return out->us < b->a.graph_below && !sn_prog_decides(l->p->prog) ? time_in_graph(out, l) : SN_OK;
}

/* ---- one workload ---- */

static sn_status check_bits(bench_result *out, const loaded *l, const tool_inputs *in, unsigned repeats) {
    bool *same = calloc(l->p->n_outputs + 1, sizeof *same), all = true;
    if (!same) return SN_ERROR_MEMORY;
    sn_status status = tool_repeat(same, repeats, l->p, l->inputs, l->outputs, in);
    for (unsigned k = 0; k < l->p->n_outputs; k++) all &= same[k];
    out->bits = all ? BITS_SAME : BITS_DIFFER;
    free(same);
    return status;
}

static sn_status measure(bench_result *out, sn_program *p, const bench *b) {
    tool_inputs in = {.random_rest = true, .how = b->a.how};
    loaded l = {p, calloc(p->n_inputs + 1, sizeof *l.inputs), calloc(p->n_outputs + 1, sizeof *l.outputs)};
    sn_status status = l.inputs && l.outputs ? tool_program_tensors(l.inputs, l.outputs, p, &in) : SN_ERROR_MEMORY;
    if (status == SN_OK) status = time_program(out, &l, b);
    if (status == SN_OK && b->a.error) status = bench_error(out, p, l.inputs, l.outputs);
    if (status == SN_OK && b->a.profile) status = sn_run_profiled(&out->profile, p, l.inputs, l.outputs, NULL, NULL);
    if (status == SN_OK && b->a.repeats) status = check_bits(out, &l, &in, b->a.repeats);
    tool_free_tensors(l.inputs, p->n_inputs);
    tool_free_tensors(l.outputs, p->n_outputs);
    return status;
}

static double size_of(const sn_module *m, sn_ix e) {
    int64_t size = 0;
    sn_ix_is_const(m, e, &size);
    return (double)size;
}

/* Two for each term of the sums of a contraction; none of other nodes. */
static double flops_of(sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op != SN_OP_MATMUL && n->op != SN_OP_CONV) return 0;
    const sn_type *a = &sn_node_get(m, n->in[0])->type, *b = &sn_node_get(m, n->in[1])->type;
    double flops = 2 * size_of(m, sn_type_numel(m, &n->type));
    if (n->op == SN_OP_MATMUL) return flops * size_of(m, a->shape[a->rank - 1]);
    for (uint32_t k = 1; k < b->rank; k++) flops *= size_of(m, b->shape[k]);
    return flops;
}

/* How often a run computes, at most, what is inside of that repeat or branch (0: of none). */
static double times_of(const sn_module *m, const sn_repeat_scopes *scopes, uint32_t scope) {
    double times = 1;
    for (; scope; scope = scopes->of[sn_scope_node(m, scope).i]) {
        const sn_attr *trip = sn_node_attr(m, sn_scope_node(m, scope), SN_ATTR_TRIP);
        if (trip) times *= size_of(m, trip->shape.at[0]);
    }
    return times;
}

static double count_flops(const sn_program *p) {
    sn_module *m = p->source;
    double flops = 0;
    sn_repeat_scopes scopes;
    sn_arena scratch;
    sn_arena_init(&scratch, m->env);
    uint8_t *live = SN_NEWN(&scratch, uint8_t, m->graph.nodes.count + 1);
    bool known = sn_repeat_scopes_find(&scopes, m, &scratch) == SN_OK;
    sn_graph_live(m, live);
    for (sn_nd x = {1}; known && x.i < m->graph.nodes.count; x.i++)
        if (live[x.i]) flops += flops_of(m, x) * times_of(m, &scopes, scopes.of[x.i]);
    sn_arena_free(&scratch);
    return flops;
}

static void describe(bench_result *out, const sn_program *p, const bench *b) {
    const bench_device *d = &b->device;
    out->bytes = (double)p->info.moved;
    out->flops = count_flops(p);
    out->precision = b->a.o.precision;
    if (b->a.error) out->inputs = b->a.inputs;
    out->tuned = b->a.o.tune && !strcmp(b->a.o.tune, "on");
    for (uint32_t k = 0, n = 0; k < p->choosing.n && n < sizeof out->choices; k++)
        n += (uint32_t)snprintf(out->choices + n, sizeof out->choices - n, "%s%s", k ? ", " : "",
                                p->choosing.at[k].choice);
    out->kernels = p->info.n_launches;
    out->launches = sn_prog_launches(p->prog);
    out->workspace = p->info.workspace;
    out->compile_ms = p->info.total_us / 1e3;
    out->passes_ms = p->info.passes_us / 1e3;
    out->codegen_ms = p->info.codegen_us / 1e3;
    out->assemble_ms = p->info.assemble_us / 1e3;
    out->load_ms = p->info.load_us / 1e3;
    out->cached = p->info.cached;
    out->cache_hits = p->info.cache_hits;
    out->cache_misses = p->info.cache_misses;
    out->rate = out->us > 0 ? out->bytes / (out->us * 1e-6) : 0;
    out->flop_rate = out->us > 0 ? out->flops / (out->us * 1e-6) : 0;
    out->share = d->copy_rate > 0 ? out->rate / d->copy_rate : 0;
}

static sn_status bench_graph(bench_result *out, const bench *b, const char *path) {
    sn_graph *g = NULL;
    sn_program *p = NULL;
    sn_compile_options o = b->a.o;
    if (tool_is_onnx(path)) o.n_dims = 0; /* a model takes them at its import */
    sn_status status = tool_load(&g, b->ctx, path, &b->a.dims, NULL);
    if (status == SN_OK) status = sn_compile(&p, g, &o);
    if (status == SN_OK) status = measure(out, p, b);
    if (status == SN_OK) describe(out, p, b);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    return status;
}

static void set_name(bench_result *r, const char *path) {
    const char *slash = strrchr(path, '/');
    snprintf(r->name, sizeof r->name, "%s", slash ? slash + 1 : path);
    size_t n = strlen(r->name);
    if (n > 3 && !strcmp(r->name + n - 3, ".sn")) r->name[n - 3] = 0;
}

/* A file that fails has its line, and the others go on. */
static void bench_file(bench *b, const char *path) {
    bench_result r = {0};
    set_name(&r, path);
    if (bench_graph(&r, b, path) != SN_OK) {
        const char *why = sn_error(b->ctx);
        snprintf(r.error, sizeof r.error, "%s", why[0] ? why : "out of memory");
    }
    if (r.error[0] || r.bits == BITS_DIFFER) b->code = TOOL_FAILED;
    bench_print(&r);
    if (r.profile) tool_print_profile(r.profile);
    if (b->json) bench_json(b->json, &r, &b->device);
    sn_profile_destroy(r.profile);
}

/* ---- files and folders ---- */

static int is_graph(const struct dirent *entry) {
    size_t n = strlen(entry->d_name);
    return n > 3 && !strcmp(entry->d_name + n - 3, ".sn");
}

static void bench_folder(bench *b, const char *path) {
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, is_graph, alphasort);
    if (n <= 0) {
        fprintf(stderr, "sinter: error: %s: there is no *.sn in this folder\n", path);
        b->code = TOOL_FAILED;
    }
    for (int k = 0; k < n; k++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, entries[k]->d_name);
        bench_file(b, file);
        free(entries[k]);
    }
    free(entries);
}

/* The device that the options choose, by compiling a graph for it. Also opens the driver and LLVM, which is no part of
 * the compile time of the first workload. */
static sn_status find_device(bench *b) {
    static const char text[] = "graph @probe(%x: f32[64]) { %y = neg %x return y = %y }";
    sn_compile_options o = b->a.o;
    sn_graph *g = NULL;
    sn_program *p = NULL;
    o.n_dims = 0;
    sn_status status = sn_graph_from_text(&g, b->ctx, "probe", text, strlen(text));
    if (status == SN_OK) status = sn_compile(&p, g, &o);
    if (status == SN_OK) {
        b->device.number = p->device;
        bench_find_device(&b->device, p->device == SN_CPU ? NULL : b->ctx->cuda[p->device]);
    }
    sn_program_destroy(p);
    sn_graph_destroy(g);
    if (status != SN_OK || b->device.number == SN_CPU) return status;
    return sn_device_copy_rate(&b->device.copy_rate, b->ctx, b->device.number);
}

/* A program that reads 256 MB. */
static sn_status make_reader(bench *b) {
    static const char text[] = "graph @reader(%x: f32[67108864]) { %y = sum %x axes=[0] return y = %y }";
    bench_device *d = &b->device;
    tool_inputs in = {.random_rest = true, .how = b->a.how};
    sn_compile_options o = b->a.o;
    sn_graph *g = NULL;
    o.n_dims = 0;
    d->reader_in = calloc(1, sizeof *d->reader_in);
    d->reader_out = calloc(1, sizeof *d->reader_out);
    if (!d->reader_in || !d->reader_out) return SN_ERROR_MEMORY;
    sn_status status = sn_graph_from_text(&g, b->ctx, "reader", text, strlen(text));
    if (status == SN_OK) status = sn_compile(&d->reader, g, &o);
    if (status == SN_OK) status = tool_program_tensors(d->reader_in, d->reader_out, d->reader, &in);
    if (status == SN_OK) status = sn_run(d->reader, d->reader_in, d->reader_out, NULL);
    sn_graph_destroy(g);
    return status;
}

static void free_reader(bench_device *d) {
    tool_free_tensors(d->reader_in, 1);
    tool_free_tensors(d->reader_out, 1);
    sn_program_destroy(d->reader);
}

static int bench_all(bench *b, char **paths, int n) {
    if (find_device(b) != SN_OK || (b->device.number != SN_CPU && make_reader(b) != SN_OK)) return tool_fail(b->ctx);
    bench_print_head(&b->device);
    if (b->json) bench_json_head(b->json, &b->device);
    for (int k = 0; k < n; k++) {
        struct stat s;
        if (stat(paths[k], &s) == 0 && S_ISDIR(s.st_mode)) bench_folder(b, paths[k]);
        else bench_file(b, paths[k]);
    }
    return b->code;
}

int tool_bench(sn_context *ctx, int argc, char **argv) {
    bench b = {.a = {.runs = 50,
                     .graph_below = GRAPH_BELOW_US,
                     .inputs = "normal",
                     .how = {.seed = 1, .period = PERIOD},
                     .o = {.struct_size = sizeof b.a.o}},
               .ctx = ctx};
    int code = parse(&b.a, argc, argv);
    if (code != TOOL_OK) return code;
    if (b.a.show_help) return fputs(help, stdout), TOOL_OK;
    b.a.o.dims = b.a.dims.at;
    b.a.o.n_dims = b.a.dims.n;
    if (b.a.json && !(b.json = fopen(b.a.json, "w"))) {
        fprintf(stderr, "sinter: error: cannot write %s\n", b.a.json);
        return TOOL_FAILED;
    }
    code = bench_all(&b, argv + optind, argc - optind);
    free_reader(&b.device);
    if (b.json && tool_close(b.json, b.a.json) != TOOL_OK) code = TOOL_FAILED;
    return code;
}
