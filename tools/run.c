/* run.c: `sinter run`: compile a graph, or load an image, run it on inputs from files or seeds, check it against the evaluator,
 * print or save its outputs.
 */
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "usage: sinter run [options] FILE|IMAGE|-\n"
    "  --device=WHERE          auto, cpu, cuda\n"
    "  --ordinal=N             which CUDA device\n"
    "  --input NAME=VALUE      FILE.npy, FILE.npz:MEMBER, FILE.safetensors:MEMBER (MEMBER: NAME if not given),\n"
    "                          random:SEED, normal, uniform, wide, extremes, zeros, ones, special, spiked,\n"
    "                          equal, growing or alternating (repeat)\n"
    "  --random SEED           random values for all inputs that have none\n"
    "  --dim N=8               the size that a name in shapes stands for (repeat)\n"
    "  --check                 compare with the float64 evaluator\n"
    "  --check-kernels         look for races, divergent barriers and broken bounds in the kernels first\n"
    "  --output-dir DIR        write every output to DIR/NAME.npy\n"
    "  --print-all             print every element\n"
    "  --weights=FILE          of an image: elements of its constants, by name, in place of those in it\n"
    "  --threads N             CPU threads\n"
    "  --cpu-schedule=KIND     host, gpu: kernels scheduled for a GPU run on the CPU\n"
    "  --choices=A,B           what products and convolutions may become: template, extern, subgraph, or names of\n"
    "                          `sinter list choices`\n"
    "  --tune=MODE             choices for products and kernels: off, records (default), on: time what is not on record\n"
    "  --wrapper=KIND          generated, interpreter, both (their outputs must be equal)\n"
    "  --target=NAME           with --cpu-schedule=gpu: the GPU (sm_90); with --device=cuda: as an image for it\n"
    "  --precision=WORD        exact, high, tf32, bf16: of products of f32 that say nothing\n"
    "  --multi-kernel=WHICH    off (default), reductions, all: kernels with several schedules, of which the fastest\n"
    "                          runs; ,KIND (persistent, looped ..): that one\n"
    "  --graphs=WHEN           auto (default), on, off: runs on CUDA by a CUDA graph\n"
    "  --verify=MODE           off, ends, each, paranoid\n"
    "  --remarks=A,B           what these passes say about their choices, or all\n"
    "  --cache=WHERE           generated code on disk: on (no WHERE: the same), off, or a folder with a / in it\n"
    "  --cache-size=BYTES      what its files may come to: 512M, 1G (default)\n"
    "  --ptxas=FILE            the assembler of cubins in that cache: auto (default), off, or a file with a / in it\n"
    "  --metrics=A,B           metric tables that are recorded (sinter list metrics), in metric_NAME.csv of\n"
    "  --metrics-dir=FOLDER    this folder, with --metrics-model=TEXT as first column\n"
    "  --replace-kernel NAME=FILE  a kernel that was edited (.sn or .ptx, explain --dump-dir has them), once it is seen to\n"
    "                          compute what the original does (repeat)\n"
    "  --kernels               list the kernels\n"
    "  --profile               what each kernel, library call and copy of a run takes\n"
    "  --debug=WORDS           what runs say of each kernel: names, print, save, stop-at-nan, stop-at-infinity, nvtx;\n"
    "                          of --debug-kernels=K0,K1 alone; files of save go to --debug-dir=DIR\n"
    "  --watch[=K0,K1]         show what kernels write: all of them, or these\n"
    "  --watch-reads           also what they read\n"
    "  --watch-dir DIR         write it to files, too: DIR/CALL_KERNEL_writes_BUFFER.npy\n"
    "  --stop-at=WHAT          nan, infinity: the first kernel that writes one ends the run\n"
    "  --timings               how long reading and the phases of compiling took\n";

typedef struct run_args {
    const char *path, *output_dir, *wrapper, *weights;
    tool_inputs in;
    tool_dims dims;
    sn_compile_options o;
    tool_watch watch;
    bool check, check_kernels, print_all, kernels, profile, timings, show_help;
} run_args;

static int parse(run_args *r, int argc, char **argv) {
    static const struct option options[] = {TOOL_DEVICE,
                                            TOOL_ORDINAL,
                                            {"input", required_argument, NULL, 'i'},
                                            {"random", required_argument, NULL, 'r'},
                                            TOOL_DIM,
                                            {"check", no_argument, NULL, 'c'},
                                            {"check-kernels", no_argument, NULL, 'K'},
                                            {"output-dir", required_argument, NULL, 'o'},
                                            {"print-all", no_argument, NULL, 'a'},
                                            TOOL_THREADS,
                                            TOOL_CPU_SCHEDULE,
                                            TOOL_CHOICES,
                                            TOOL_TUNE,
                                            {"wrapper", required_argument, NULL, 'w'},
                                            TOOL_TARGET,
                                            TOOL_PRECISION,
                                            TOOL_MULTI_KERNEL,
                                            TOOL_GRAPHS,
                                            TOOL_VERIFY,
                                            TOOL_REMARKS,
                                            TOOL_CACHE,
                                            TOOL_CACHE_SIZE,
                                            TOOL_PTXAS,
                                            TOOL_METRICS,
                                            TOOL_REPLACE_KERNEL,
                                            TOOL_DEBUG,
                                            {"kernels", no_argument, NULL, 'k'},
                                            {"profile", no_argument, NULL, 'p'},
                                            {"timings", no_argument, NULL, 'm'},
                                            {"watch", optional_argument, NULL, 'W'},
                                            {"watch-reads", no_argument, NULL, 'R'},
                                            {"watch-dir", required_argument, NULL, 'D'},
                                            {"stop-at", required_argument, NULL, 'S'},
                                            {"weights", required_argument, NULL, 'g'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'i':
            if (!tool_add_input(&r->in, optarg)) return tool_misuse("--input %s: NAME=VALUE is wanted", optarg);
            break;
        case 'r':
            r->in.random_rest = true;
            if (!tool_u64(&r->in.how.seed, optarg)) return tool_misuse("--random %s: a number is wanted", optarg);
            break;
        case 'c': r->check = true; break;
        case 'K': /* the kernels of a GPU have threads to look at */
            r->check_kernels = true;
            if (!r->o.cpu_schedule) r->o.cpu_schedule = "gpu";
            break;
        case 'o': r->output_dir = optarg; break;
        case 'a': r->print_all = true; break;
        case 'w': r->wrapper = optarg; break;
        case 'k': r->kernels = true; break;
        case 'p': r->profile = true; break;
        case 'm': r->timings = true; break;
        case 'W':
            r->watch.on = true;
            r->watch.kernels = optarg;
            break;
        case 'R': r->watch.on = r->watch.reads = true; break;
        case 'D':
            r->watch.on = true;
            r->watch.dir = optarg;
            break;
        case 'S': r->watch.stop_at = optarg; break;
        case 'g': r->weights = optarg; break;
        case 'h': r->show_help = true; return TOOL_OK;
        default:
            if (tool_compile_option(&r->o, &r->dims, c) != TOOL_OK) return TOOL_USAGE;
        }
    }
    if (argc - optind != 1) return tool_misuse("run: one FILE is wanted, %d given", argc - optind);
    r->path = argv[optind];
    return TOOL_OK;
}

/* ---- one execution ---- */

typedef struct execution {
    sn_tensor **inputs, **outputs; /* outputs[k] of one that writes an input: NULL */
} execution;

static const sn_tensor *result_of(const sn_program *p, const execution *e, unsigned k) {
    return p->outputs[k].writes < 0 ? e->outputs[k] : e->inputs[p->outputs[k].writes];
}

static void print_check(const sn_program *p, const execution *e, const sn_check *checks) {
    for (unsigned k = 0; k < p->n_outputs; k++) {
        const sn_check *c = &checks[k];
        printf("check %s: largest error %.3g, relative %.3g, bound %.3g", p->outputs[k].name, c->max_abs, c->max_rel,
               c->bound);
        if (c->bound_ulp > 0) printf(", %.3g ulp, bound %.3g", c->max_ulp, c->bound_ulp);
        if (c->unbounded)
            printf(", %lld of %lld elements have no bound", (long long)c->unbounded,
                   (long long)result_of(p, e, k)->info.numel);
        printf(": %s\n", c->ok ? "ok" : "FAILED");
    }
}

static sn_status run_profiled(sn_program *p, const execution *e) {
    sn_profile *profile;
    SN_TRY(sn_run_profiled(&profile, p, e->inputs, e->outputs, NULL, NULL));
    tool_print_profile(profile);
    sn_profile_destroy(profile);
    return SN_OK;
}

static sn_status execute(execution *e, sn_program *p, const run_args *r, bool interpreted) {
    e->inputs = calloc(p->n_inputs + 1, sizeof *e->inputs);
    e->outputs = calloc(p->n_outputs + 1, sizeof *e->outputs);
    sn_check *checks = calloc(p->n_outputs + 1, sizeof *checks);
    sn_status status = e->inputs && e->outputs && checks ? SN_OK : SN_ERROR_MEMORY;
    if (status == SN_OK) status = tool_program_tensors(e->inputs, e->outputs, p, &r->in);
    p->interpreted = interpreted;
    if (status == SN_OK && r->check) {
        status = sn_program_check(checks, p, e->inputs, e->outputs, interpreted);
        if (status == SN_OK || status == SN_ERROR_MISMATCH) print_check(p, e, checks);
    } else if (status == SN_OK && (r->watch.on || r->watch.stop_at)) {
        status = tool_run_watched(p, e->inputs, e->outputs, &r->watch);
    } else if (status == SN_OK && r->profile) {
        status = run_profiled(p, e);
    } else if (status == SN_OK) {
        status = sn_run(p, e->inputs, e->outputs, NULL);
    }
    free(checks);
    return status;
}

static void release(execution *e, const sn_program *p) {
    tool_free_tensors(e->inputs, p->n_inputs);
    tool_free_tensors(e->outputs, p->n_outputs);
}

static sn_status report(const execution *e, const sn_program *p, const run_args *r) {
    for (unsigned k = 0; k < p->n_outputs; k++) {
        SN_TRY(tool_print_tensor(p->outputs[k].name, result_of(p, e, k), r->print_all));
        if (r->output_dir) SN_TRY(tool_save(r->output_dir, p->outputs[k].name, result_of(p, e, k)));
    }
    return SN_OK;
}

/* The generated wrapper and the interpreter must give the same bits. */
static sn_status same_bits(sn_context *ctx, const sn_program *p, const execution *a, const execution *b) {
    for (unsigned k = 0; k < p->n_outputs; k++) {
        const sn_tensor *x = result_of(p, a, k), *y = result_of(p, b, k);
        size_t bytes = (size_t)x->info.numel * sn_dtype_bytes(x->info.dtype);
        char *both = malloc(2 * bytes + 1);
        sn_status status = both ? sn_tensor_read(both, x, bytes) : SN_ERROR_MEMORY;
        if (status == SN_OK) status = sn_tensor_read(both + bytes, y, bytes);
        bool equal = status == SN_OK && memcmp(both, both + bytes, bytes) == 0;
        free(both);
        if (status != SN_OK) return status;
        if (!equal)
            return sn_fail(&ctx->env, SN_ERROR_MISMATCH, "output %s: generated wrapper and interpreter differ",
                           p->outputs[k].name);
    }
    printf("generated wrapper and interpreter: equal\n");
    return SN_OK;
}

static sn_status run_both(sn_context *ctx, sn_program *p, const run_args *r) {
    execution generated = {0}, interpreted = {0};
    sn_status status = execute(&generated, p, r, false);
    if (status == SN_OK) status = execute(&interpreted, p, r, true);
    if (status == SN_OK) status = same_bits(ctx, p, &generated, &interpreted);
    if (status == SN_OK) status = report(&generated, p, r);
    release(&generated, p);
    release(&interpreted, p);
    return status;
}

static sn_status run_one(sn_program *p, const run_args *r, bool interpreted) {
    execution e = {0};
    sn_status status = execute(&e, p, r, interpreted);
    if (status == SN_OK) status = report(&e, p, r);
    release(&e, p);
    return status;
}

static void print_kernels(const sn_program *p) {
    for (unsigned k = 0; k < p->info.n_kernels; k++) {
        sn_kernel_info info;
        if (sn_program_kernel(&info, p, k) != SN_OK) return;
        if (info.library) printf("kernel %s: %s: %s\n", info.name, info.library, info.note);
        else
            printf("kernel %s: grid %lld, block %u x %u: %s\n", info.name, (long long)info.grid, info.block_x,
                   info.block_y, info.note);
    }
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void print_timings(const sn_program *p, double read_ms) {
    const sn_program_info *i = &p->info;
    printf("reading %.1f ms, passes %.1f ms, code %.1f ms, assembly %.1f ms, loading %.1f ms; together %.1f ms\n",
           read_ms, i->passes_us / 1e3, i->codegen_us / 1e3, i->assemble_us / 1e3, i->load_us / 1e3,
           read_ms + i->total_us / 1e3);
    if (i->cached)
        printf("cache: %u found, %u not, %u stored, %u evicted, %u damaged\n", i->cache_hits, i->cache_misses,
               i->cache_stored, i->cache_evicted, i->cache_damaged);
}

/* An image has a program, and no graph. */
static sn_status load_image(sn_program **out, sn_weights **w, sn_context *ctx, const run_args *r) {
    tool_weights given = {.image = r->path, .file = r->weights};
    SN_TRY(tool_image_weights(&given, ctx));
    *w = given.open;
    sn_load_options o = {.struct_size = sizeof o,
                         .device = r->o.device,
                         .ordinal = r->o.ordinal,
                         .threads = r->o.threads,
                         .debug = r->o.debug,
                         .debug_kernels = r->o.debug_kernels,
                         .debug_dir = r->o.debug_dir,
                         .graphs = r->o.graphs,
                         .constants = given.at,
                         .n_constants = given.n};
    if (r->check_kernels) return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "%s: an image has no kernels to check", r->path);
    sn_status status = sn_program_load(out, ctx, r->path, &o);
    free(given.at);
    return status;
}

static sn_status compile(sn_program **out, sn_graph **g, sn_context *ctx, const run_args *r, double *read_ms) {
    double start = now_ms();
    SN_TRY(tool_load(g, ctx, r->path, &r->dims, &r->in));
    *read_ms = now_ms() - start;
    if (r->check_kernels) SN_TRY(tool_check_kernels(ctx, *g, &r->o, &r->in));
    return sn_compile(out, *g, &r->o);
}

int tool_run(sn_context *ctx, int argc, char **argv) {
    run_args r = {.wrapper = "generated", .o = {.struct_size = sizeof r.o}};
    int code = parse(&r, argc, argv);
    if (code != TOOL_OK) return code;
    if (r.show_help) return fputs(help, stdout), TOOL_OK;
    bool both = !strcmp(r.wrapper, "both"), interpreted = !strcmp(r.wrapper, "interpreter");
    if (!both && !interpreted && strcmp(r.wrapper, "generated"))
        return tool_misuse("--wrapper %s: generated, interpreter or both is wanted", r.wrapper);
    if (r.check + (r.watch.on || r.watch.stop_at) + r.profile > 1)
        return tool_misuse("--check, --watch or --stop-at, --profile: one of them");
    bool image = tool_is_image(r.path);
    if (image && r.check_kernels) return tool_misuse("--check-kernels: an image has no kernels to check");
    if (r.weights && !image) return tool_misuse("--weights: FILE is no image, whose weights the graph says");
    if (r.watch.dir && !*r.watch.dir) return tool_misuse("--watch-dir: a folder is wanted");
    if (r.output_dir && !*r.output_dir) return tool_misuse("--output-dir: a folder is wanted");
    r.o.dims = r.dims.at;
    r.o.n_dims = tool_is_onnx(r.path) ? 0 : r.dims.n; /* a model takes them at its import */
    sn_graph *g = NULL;
    sn_program *p = NULL;
    sn_weights *weights = NULL;
    double read_ms = 0;
    sn_status status = image ? load_image(&p, &weights, ctx, &r) : compile(&p, &g, ctx, &r, &read_ms);
    if (status == SN_OK && r.timings) print_timings(p, read_ms);
    if (status == SN_OK && r.kernels) print_kernels(p);
    if (status == SN_OK) status = both ? run_both(ctx, p, &r) : run_one(p, &r, interpreted);
    if (status != SN_OK) code = tool_fail(ctx);
    sn_program_destroy(p);
    sn_weights_close(weights);
    sn_graph_destroy(g);
    return code;
}
