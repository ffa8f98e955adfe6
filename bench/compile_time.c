/* compile_time.c: how compile time and memory grow with a graph. Builds graphs of a few kinds in several sizes,
 * compiles each in a process of its own, so that the peak of its memory is its own, and prints a table:
 *
 *     compile_time [--case=NAME] [--size=N] [--target=host|sm_90|sm_90a] [--passes]
 *
 * One line for each case, target and size; for sm_90a only where that is asked for. For GPUs a graph is compiled to look
 * at: passes and PTX. `build` is the time of the calls that make the graph; `passes`, `code` and `load` are those of
 * sn_compile (sn_program_info), all in seconds. `cpu` is the processor time of the process, which neighbours on the machine
 * disturb least; `exponent` is that of `cpu` in the size, since the line before. --passes prints the times of all passes
 * before the line. Relies on sinter.h alone. Does not run what it compiles.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sinter/sinter.h>

enum { MAX_SIZES = 4, MAX_INPUTS = 16384 };

/* ---- the graphs ---- */

typedef struct graph_case {
    const char *name, *what; /* what n counts */
    void (*build)(sn_graph *g, unsigned n);
    unsigned sizes[MAX_SIZES];
} graph_case;

/* "w12", of n counted from 0. */
static const char *numbered(char out[32], const char *name, unsigned n) {
    snprintf(out, 32, "%s%u", name, n);
    return out;
}

static sn_node input(sn_graph *g, const char *name, unsigned n, unsigned rank, const int64_t *shape) {
    char text[32];
    return sn_input(g, numbered(text, name, n), SN_F32, rank, shape);
}

static void output(sn_graph *g, const char *name, unsigned n, sn_node x) {
    char text[32];
    sn_output(g, numbered(text, name, n), x);
}

/* The sum of n inputs, in pairs. */
static void build_add_tree(sn_graph *g, unsigned n) {
    static sn_node x[MAX_INPUTS];
    for (unsigned k = 0; k < n; k++) x[k] = input(g, "x", k, SN_LIST(64));
    for (; n > 1; n = (n + 1) / 2)
        for (unsigned k = 0; k < n / 2; k++) x[k] = sn_add(g, x[2 * k], x[2 * k + 1]);
    sn_output(g, "y", x[0]);
}

static void build_outputs(sn_graph *g, unsigned n) {
    for (unsigned k = 0; k < n; k++) output(g, "y", k, sn_exp(g, input(g, "x", k, SN_LIST(64))));
}

/* One step of AdamW on n parameters, each with operations of its own, as bench/gen_adamw.py writes it. */
static void build_adamw(sn_graph *g, unsigned n) {
    for (unsigned k = 0; k < n; k++) {
        const int64_t shape[] = {16 + k % 7, 64};
        sn_node w = input(g, "p", k, 2, shape), d = input(g, "g", k, 2, shape);
        sn_node m = input(g, "m", k, 2, shape), v = input(g, "v", k, 2, shape);
        sn_node m1 = sn_add(g, sn_mul(g, m, sn_number_like(g, m, 0.9)), sn_mul(g, d, sn_number_like(g, d, 0.1)));
        sn_node v1 = sn_add(g, sn_mul(g, v, sn_number_like(g, v, 0.999)),
                            sn_mul(g, sn_mul(g, d, d), sn_number_like(g, d, 0.001)));
        sn_node step = sn_div(g, m1, sn_add(g, sn_sqrt(g, v1), sn_number_like(g, v, 1e-8)));
        output(g, "np", k,
               sn_sub(g, sn_mul(g, w, sn_number_like(g, w, 0.9999)), sn_mul(g, step, sn_number_like(g, w, 0.001))));
        output(g, "nm", k, m1);
        output(g, "nv", k, v1);
    }
}

static sn_node affine(sn_graph *g, sn_node x, const char *name, unsigned n, int64_t from, int64_t to) {
    char text[32];
    sn_node w = sn_input(g, numbered(text, name, n), SN_F32, SN_LIST(from, to));
    strcat(text, "_b");
    return sn_add(g, sn_matmul(g, x, w), sn_input(g, text, SN_F32, SN_LIST(to)));
}

static sn_node norm(sn_graph *g, sn_node x, const char *name, unsigned n, int64_t size) {
    char text[32];
    sn_node w = sn_input(g, numbered(text, name, n), SN_F32, SN_LIST(size));
    strcat(text, "_b");
    return sn_layer_norm(g, x, w, sn_input(g, text, SN_F32, SN_LIST(size)), 1e-5);
}

enum { TOKENS = 32, WIDTH = 64, HEADS = 4 };

/* [TOKENS, WIDTH] to [HEADS, TOKENS, WIDTH / HEADS]. */
static sn_node heads(sn_graph *g, sn_node x) {
    return sn_transpose(g, sn_reshape(g, x, SN_LIST(TOKENS, HEADS, WIDTH / HEADS)), 0, 1);
}

/* n layers of a transformer, equal but for their weights. */
static void build_transformer(sn_graph *g, unsigned n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(TOKENS, WIDTH));
    for (unsigned k = 0; k < n; k++) {
        sn_node h = norm(g, x, "n1_", k, WIDTH);
        sn_node q = heads(g, affine(g, h, "q", k, WIDTH, WIDTH)), key = heads(g, affine(g, h, "k", k, WIDTH, WIDTH));
        sn_node v = heads(g, affine(g, h, "v", k, WIDTH, WIDTH)), s = sn_matmul(g, q, sn_transpose(g, key, 1, 2));
        sn_node a = sn_softmax(g, sn_mul(g, s, sn_number_like(g, s, 0.25)), -1);
        a = sn_reshape(g, sn_transpose(g, sn_matmul(g, a, v), 0, 1), SN_LIST(TOKENS, WIDTH));
        x = sn_add(g, x, affine(g, a, "o", k, WIDTH, WIDTH));
        h = sn_gelu(g, affine(g, norm(g, x, "n2_", k, WIDTH), "up", k, WIDTH, 4 * WIDTH));
        x = sn_add(g, x, affine(g, h, "down", k, 4 * WIDTH, WIDTH));
    }
    sn_output(g, "y", x);
}

static void build_chain(sn_graph *g, unsigned n) {
    sn_node y = sn_input(g, "y", SN_F32, SN_LIST(8, 32)), w = sn_input(g, "w", SN_F32, SN_LIST(32, 32));
    for (unsigned k = 0; k < n; k++) y = sn_tanh(g, sn_matmul(g, y, w));
    sn_output(g, "z", y);
}

/* n steps of an LSTM over x[n, 4, 16] with 32 hidden values. */
static void build_lstm(sn_graph *g, unsigned n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n, 4, 16));
    sn_node w = sn_input(g, "w", SN_F32, SN_LIST(16, 128)), r = sn_input(g, "r", SN_F32, SN_LIST(32, 128));
    sn_node h = sn_input(g, "h", SN_F32, SN_LIST(4, 32)), c = sn_input(g, "c", SN_F32, SN_LIST(4, 32));
    for (unsigned k = 0; k < n; k++) {
        sn_node at = sn_squeeze(g, sn_slice(g, x, 0, k, k + 1, 1), SN_LIST(0));
        sn_node z = sn_add(g, sn_matmul(g, at, w), sn_matmul(g, h, r)), gate[4];
        for (int64_t q = 0; q < 4; q++) gate[q] = sn_slice(g, z, 1, 32 * q, 32 * q + 32, 1);
        c = sn_add(g, sn_mul(g, sn_sigmoid(g, gate[0]), c), sn_mul(g, sn_sigmoid(g, gate[1]), sn_tanh(g, gate[2])));
        h = sn_mul(g, sn_sigmoid(g, gate[3]), sn_tanh(g, c));
        output(g, "h", k, h);
    }
}

/* x, of `from` channels, with kernels of size * size. */
static sn_node convolved(sn_graph *g, sn_node x, const char *name, unsigned n, int64_t from, int64_t to, int64_t size) {
    const int64_t shape[] = {to, from, size, size}, pad = size / 2;
    sn_conv_options how = {.struct_size = sizeof how, .padding = {pad, pad, pad, pad}};
    return sn_conv2d(g, x, input(g, name, n, 4, shape), &how);
}

/* n bottlenecks of a convolutional network, each of widths of its own: no kernel is another's. */
static void build_convolutions(sn_graph *g, unsigned n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(8, 64, 28, 28));
    for (unsigned k = 0; k < n; k++) {
        int64_t from = 64 + 16 * (int64_t)k, to = from + 16, inner = to / 2;
        sn_node y = sn_relu(g, convolved(g, x, "down", k, from, inner, 1));
        y = sn_relu(g, convolved(g, y, "mid", k, inner, inner, 3));
        y = convolved(g, y, "up", k, inner, to, 1);
        x = sn_relu(g, sn_add(g, y, convolved(g, x, "skip", k, from, to, 1)));
    }
    sn_output(g, "y", x);
}

/* n repeats of five steps in a row, each of one kernel, and one operation behind each. */
static void build_repeats(sn_graph *g, unsigned n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(4096)), w = sn_input(g, "w", SN_F32, SN_LIST(4096));
    for (unsigned k = 0; k < n; k++) {
        unsigned loop = sn_repeat_begin(g);
        sn_node state = sn_repeat_state(g, loop, 0, x), after;
        sn_node next = sn_add(g, sn_mul(g, state, sn_number_like(g, state, 0.5)), w);
        sn_repeat_end(&after, g,
                      &(sn_repeat){.struct_size = sizeof(sn_repeat),
                                   .loop = loop,
                                   .steps = 5,
                                   .n_states = 1,
                                   .states = &state,
                                   .after = &next});
        x = sn_sin(g, after);
    }
    sn_output(g, "y", x);
}

/* n pairs of products of small matrices, all of as many rows. */
static void build_small(sn_graph *g, unsigned n) {
    sn_node w = sn_input(g, "w", SN_F32, SN_LIST(2, 2));
    for (unsigned k = 0; k < n; k++)
        output(g, "y", k, sn_matmul(g, sn_matmul(g, input(g, "x", k, SN_LIST(256, 2, 2)), w), w));
}

/* n branches in a row, each taken by what the one before it gave. */
static void build_branches(sn_graph *g, unsigned n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(100));
    for (unsigned k = 0; k < n; k++) {
        sn_node far = sn_gt(g, sn_amax(g, x, 0, NULL, false), sn_number(g, SN_F32, 0.5));
        sn_node yes = sn_sin(g, x), no = sn_tanh(g, x), y;
        sn_cond(&y, g, far, 1, &yes, &no);
        x = sn_add(g, y, sn_number_like(g, y, 1));
    }
    sn_output(g, "y", x);
}

/* n sums, all of which are there before the first two are added. */
static void build_sums(sn_graph *g, unsigned n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(1000)), sums[MAX_INPUTS];
    for (unsigned k = 0; k < n; k++)
        sums[k] = sn_sum(g, sn_sin(g, sn_mul(g, x, sn_number_like(g, x, k))), 0, NULL, false);
    for (; n > 1; n = (n + 1) / 2)
        for (unsigned k = 0; k < n; k += 2) sums[k / 2] = k + 1 < n ? sn_add(g, sums[k], sums[k + 1]) : sums[k];
    sn_output(g, "y", sums[0]);
}

/* A mixture of n small experts, all of which compute. */
static void build_experts(sn_graph *g, unsigned n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(64, 32));
    sn_node share = sn_softmax(g, sn_matmul(g, x, sn_input(g, "router", SN_F32, SN_LIST(32, n))), 1), y = {0};
    for (unsigned k = 0; k < n; k++) {
        sn_node e = sn_relu(g, sn_matmul(g, x, input(g, "up", k, SN_LIST(32, 64))));
        e = sn_mul(g, sn_matmul(g, e, input(g, "down", k, SN_LIST(64, 32))), sn_slice(g, share, 1, k, k + 1, 1));
        y = k ? sn_add(g, y, e) : e;
    }
    sn_output(g, "y", y);
}

static const graph_case cases[] = {
    {"add_tree", "inputs", build_add_tree, {256, 1024, 4096, 16384}},
    {"outputs", "outputs", build_outputs, {200, 800, 3200, 12800}},
    {"adamw", "tensors", build_adamw, {40, 150, 600, 2400}},
    {"transformer", "layers", build_transformer, {3, 12, 48, 192}},
    {"chain", "products", build_chain, {60, 250, 1000, 4000}},
    {"lstm", "steps", build_lstm, {8, 32, 128, 512}},
    {"repeats", "repeats", build_repeats, {50, 200, 800, 3200}},
    {"small", "pairs", build_small, {60, 250, 1000, 4000}},
    {"convolutions", "blocks", build_convolutions, {1, 4, 12, 36}},
    {"branches", "branches", build_branches, {30, 120, 500, 2000}},
    {"sums", "sums", build_sums, {50, 200, 800, 3200}},
    {"experts", "experts", build_experts, {25, 100, 400, 1600}},
};
static const char *const targets[] = {"host", "sm_90", "sm_90a"};
enum { TARGETS_UNASKED = 2 };

/* ---- one compilation ---- */

typedef struct options {
    const char *only_case, *only_target;
    unsigned only_size;
    bool passes;
} options;

typedef struct measured {
    bool ok;
    unsigned kernels;
    double build, passes, code, load, total; /* seconds */
} measured;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void print_log(void *user, const char *text) {
    (void)user;
    fputs(text, stdout);
}

static measured compile(sn_context *ctx, sn_graph *g, const graph_case *c, unsigned n, const char *target,
                        bool passes) {
    bool host = !strcmp(target, "host");
    sn_compile_options how = {.struct_size = sizeof how, .time_passes = passes};
    if (host) how.device = "cpu";
    else how.target = target;
    double start = now();
    c->build(g, n);
    double built = now();
    sn_program *p;
    if (sn_compile(&p, g, &how)) {
        fprintf(stderr, "compile_time: %s, %u %s, %s: %s\n", c->name, n, c->what, target, sn_error(ctx));
        return (measured){.ok = false};
    }
    sn_program_info info;
    sn_program_get_info(&info, p);
    return (measured){.ok = true,
                      .kernels = info.n_kernels,
                      .build = built - start,
                      .passes = info.passes_us * 1e-6,
                      .code = info.codegen_us * 1e-6,
                      .load = (info.assemble_us + info.load_us) * 1e-6,
                      .total = now() - start};
}

/* In the process of its own. What it holds ends with it. */
static measured measure(const graph_case *c, unsigned n, const char *target, bool passes) {
    sn_context_options log = {.struct_size = sizeof log, .log = print_log};
    sn_context *ctx;
    sn_graph *g;
    if (sn_context_create(&ctx, &log) || sn_graph_create(&g, ctx, c->name)) return (measured){.ok = false};
    return compile(ctx, g, c, n, target, passes);
}

/* False: the process failed or was ended. */
static bool measure_apart(measured *out, struct rusage *used, const graph_case *c, unsigned n, const char *target,
                          bool passes) {
    int ends[2], status;
    fflush(stdout);
    if (pipe(ends)) return false;
    pid_t child = fork();
    if (child == 0) {
        measured m = measure(c, n, target, passes);
        fflush(stdout);
        _exit(write(ends[1], &m, sizeof m) == sizeof m && m.ok ? 0 : 1);
    }
    close(ends[1]);
    bool fine = child > 0 && read(ends[0], out, sizeof *out) == sizeof *out && out->ok;
    close(ends[0]);
    return child > 0 && wait4(child, &status, 0, used) == child && fine;
}

/* ---- the table ---- */

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

static bool print_case(const graph_case *c, const char *target, const options *o) {
    double before = 0, size_before = 0;
    unsigned one[] = {o->only_size}, count = o->only_size ? 1 : MAX_SIZES;
    const unsigned *sizes = o->only_size ? one : c->sizes;
    for (unsigned k = 0; k < count; k++) {
        measured m;
        struct rusage used;
        if (!measure_apart(&m, &used, c, sizes[k], target, o->passes)) return false;
        double cpu = seconds(used.ru_utime) + seconds(used.ru_stime);
        printf("%-12s %-6s %5u %-8s %7u %7.3f %7.3f %7.3f %7.3f %7.3f %7.3f %6.0f", c->name, target, sizes[k], c->what,
               m.kernels, m.build, m.passes, m.code, m.load, m.total, cpu, (double)used.ru_maxrss / 1024);
        if (before > 0) printf(" %8.2f", log(cpu / before) / log(sizes[k] / size_before));
        printf("\n");
        before = cpu;
        size_before = sizes[k];
    }
    return true;
}

static bool print_table(const options *o) {
    bool fine = true, any = false;
    printf("%-12s %-6s %5s %-8s %7s %7s %7s %7s %7s %7s %7s %6s %8s\n", "case", "target", "size", "", "kernels",
           "build", "passes", "code", "load", "total", "cpu", "MB", "exponent");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
            if (o->only_case && strcmp(o->only_case, cases[k].name)) continue;
            if (o->only_target ? strcmp(o->only_target, targets[t]) != 0 : t >= TARGETS_UNASKED) continue;
            fine &= print_case(&cases[k], targets[t], o);
            any = true;
        }
    return fine && any;
}

static int usage(void) {
    fprintf(stderr, "usage: compile_time [--case=NAME] [--size=N] [--target=host|sm_90|sm_90a] [--passes]\ncases:");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) fprintf(stderr, " %s", cases[k].name);
    fprintf(stderr, "; N is 1 to %d\n", MAX_INPUTS);
    return 2;
}

/* The value of --name=value; NULL: another argument. */
static const char *value_of(const char *argument, const char *name) {
    size_t n = strlen(name);
    return strncmp(argument, name, n) ? NULL : argument + n;
}

int main(int argc, char **argv) {
    options o = {0};
    for (int k = 1; k < argc; k++) {
        const char *one = value_of(argv[k], "--case="), *target = value_of(argv[k], "--target=");
        const char *size = value_of(argv[k], "--size=");
        if (!strcmp(argv[k], "--passes")) o.passes = true;
        else if (one) o.only_case = one;
        else if (target) o.only_target = target;
        else if (size && atoi(size) > 0 && atoi(size) <= MAX_INPUTS) o.only_size = (unsigned)atoi(size);
        else return usage();
    }
    return print_table(&o) ? 0 : 1;
}
