/* members.c: kernels with several schedules (multi_kernel=reductions), held against all of their members.
 *
 *     members [--cases=100] [--seed=1] [--device=cuda|gpu-on-cpu] [--most=BYTES]
 *
 * Draws reductions, norms and softmaxes, some in place, until so many have several schedules. Each is compiled, which chooses by timing
 * and records the choice; then every member is compiled by its name and timed with cold caches, all in turn. Printed at the end: how
 * often the chosen one is the fastest (within 1 %, which is what timing is off by), what it loses at most, what the first of them, the
 * model's, loses, and what choosing took. The program with the choice has to give the bits of the member that it has chosen, also what it
 * writes in place; a second process has to find all choices on record. Ends with 1 if a result is wrong or something is timed twice.
 * gpu-on-cpu: the same with kernels for a GPU that run on the CPU, to try this program out. Relies on sinter.h alone.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sinter/sinter.h>

enum { MEMBERS = 4, KIND = 16, PORTS = 8, RUNS = 4, ROUNDS = 5, FLUSH = 128 << 20, PERIOD = 65521, TEXT = 2048 };
static const double SAME = 1.01, LOST = 1.03;

typedef struct options {
    unsigned cases, seed, again; /* again: as many cases have to be on record */
    const char *device, *records;
    double most;
} options;

typedef struct result {
    char title[160], kinds[MEMBERS][KIND];
    double us[MEMBERS], choose_us;
    unsigned n, chosen;
    int failed; /* 1: bits differ */
} result;

/* ---- drawing ---- */

static unsigned long long state;
static double uniform(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}
static unsigned below(unsigned n) { return (unsigned)(uniform() * n); }

static long draw_size(void) {
    static const long primes[] = {127, 251, 509, 1021, 2039, 4099, 8191, 16411};
    switch (below(4)) {
    case 0: return 64l << below(9);
    case 1: return primes[below(8)];
    case 2: return 96 * (1 + (long)below(200));
    default: return (long)exp(log(48) + uniform() * log(1000));
    }
}

typedef struct shape_op {
    const char *name, *format; /* %1$s dtype, %2$ld %3$ld rows and columns, %4$d the axis, %5$s " writes %x" */
    int keeps;                 /* the result has the shape of x, and may be written to it */
} shape_op;

/* x is [rows, columns]; the reduction goes along axis. */
static const shape_op OPS[] = {
    {"softmax", "graph @g(%%x: %1$s[%2$ld, %3$ld]) {\n  %%y = softmax %%x axis=%4$d\n  return y = %%y%5$s\n}\n", 1},
    {"log_softmax", "graph @g(%%x: %1$s[%2$ld, %3$ld]) {\n  %%y = log_softmax %%x axis=%4$d\n  return y = %%y%5$s\n}\n",
     1},
    {"normalise",
     "graph @g(%%x: %1$s[%2$ld, %3$ld]) {\n  %%q = mul %%x, %%x\n  %%m = mean %%q axes=[%4$d] keepdim=true\n"
     "  %%e = add %%m, 1e-05\n  %%s = rsqrt %%e\n  %%y = mul %%x, %%s\n  return y = %%y%5$s\n}\n",
     1},
    {"relu_softmax",
     "graph @g(%%x: %1$s[%2$ld, %3$ld], %%b: %1$s[%3$ld]) {\n  %%a = add %%x, %%b\n  %%r = relu %%a\n"
     "  %%y = softmax %%r axis=%4$d\n  return y = %%y%5$s\n}\n",
     1},
    {"sum", "graph @g(%%x: %1$s[%2$ld, %3$ld]) {\n  %%y = sum %%x axes=[%4$d]\n  return y = %%y\n}\n", 0},
    {"amax_of_square",
     "graph @g(%%x: %1$s[%2$ld, %3$ld]) {\n  %%q = mul %%x, %%x\n  %%y = amax %%q axes=[%4$d]\n  return y = %%y\n}\n",
     0},
    {"var", "graph @g(%%x: %1$s[%2$ld, %3$ld]) {\n  %%y = var %%x axes=[%4$d]\n  return y = %%y\n}\n", 0},
    {"logsumexp", "graph @g(%%x: %1$s[%2$ld, %3$ld]) {\n  %%y = logsumexp %%x axes=[%4$d]\n  return y = %%y\n}\n", 0},
};
enum { N_OPS = sizeof OPS / sizeof *OPS };

static void draw(char text[TEXT], char title[160], const options *o) {
    static const char *const dtypes[] = {"f32", "f32", "f16", "bf16"};
    const char *dtype = dtypes[below(4)];
    const shape_op *op = &OPS[below(N_OPS)];
    double bytes = exp(log(8e6) + uniform() * (log(o->most) - log(8e6)));
    long columns = draw_size(), rows = (long)(bytes / (dtype[1] == '3' ? 4 : 2) / (double)columns);
    int axis = below(10) < 7;
    int in_place = op->keeps && below(4) == 0;
    if (rows < 2) rows = 2;
    if (!axis) { /* what is reduced over is the drawn size in any case */
        long t = rows;
        rows = columns, columns = t;
    }
    snprintf(text, TEXT, op->format, dtype, rows, columns, axis, in_place ? " writes %x" : "");
    snprintf(title, 160, "%s %s[%ld, %ld] axis %d%s", op->name, dtype, rows, columns, axis,
             in_place ? " in place" : "");
}

/* ---- one program ---- */

typedef struct running {
    sn_program *p;
    sn_tensor *inputs[PORTS], *outputs[PORTS];
    unsigned n_inputs, n_outputs;
} running;

static size_t element_bytes(sn_dtype t) { return t == SN_F32 ? 4 : 2; }

static size_t bytes_of(const sn_tensor *t) {
    sn_tensor_info info;
    sn_tensor_get_info(&info, t);
    return (size_t)info.numel * element_bytes(info.dtype);
}

/* Numbers in 0.5 .. 2 of both signs, as bits of the type. */
static void fill(sn_tensor *t) {
    sn_tensor_info info;
    sn_tensor_get_info(&info, t);
    size_t size = element_bytes(info.dtype), bytes = bytes_of(t), part = PERIOD * size;
    unsigned char *data = malloc(bytes + part);
    unsigned long long x = 88172645463325252ull;
    for (size_t i = 0; i < PERIOD; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        unsigned sign = (unsigned)(x >> 63), f32 = sign << 31 | 0x3f000000u | (unsigned)(x >> 40 & 0xffffff);
        unsigned short half = info.dtype == SN_F16 ? (unsigned short)(sign << 15 | 0x3800u | (x >> 40 & 0x7ff))
                                                   : (unsigned short)(f32 >> 16);
        if (size == 4) memcpy(data + i * 4, &f32, 4);
        else memcpy(data + i * 2, &half, 2);
    }
    for (size_t at = part; at < bytes; at += part) memcpy(data + at, data, part);
    sn_tensor_write(t, data, bytes);
    free(data);
}

static void close_program(running *r) {
    for (unsigned i = 0; i < r->n_inputs; i++) sn_tensor_destroy(r->inputs[i]);
    for (unsigned i = 0; i < r->n_outputs; i++) sn_tensor_destroy(r->outputs[i]);
    sn_program_destroy(r->p);
    memset(r, 0, sizeof *r);
}

static sn_status open_program(running *r, sn_context *ctx, const char *text, const options *o, const char *multi) {
    sn_compile_options c = {.struct_size = sizeof c, .multi_kernel = multi, .record_dir = o->records};
    sn_graph *g = NULL;
    memset(r, 0, sizeof *r);
    if (strcmp(o->device, "cuda")) c.device = "cpu", c.cpu_schedule = "gpu", c.target = "sm_90a";
    else c.device = "cuda";
    if (strchr(multi, ',')) c.tune = "off";
    sn_status status = sn_graph_from_text(&g, ctx, "drawn", text, strlen(text));
    if (status == SN_OK) status = sn_compile(&r->p, g, &c);
    sn_graph_destroy(g);
    return status;
}

static sn_status make_tensors(running *r) {
    sn_status status = SN_OK;
    unsigned n_inputs = sn_program_input_count(r->p), n_outputs = sn_program_output_count(r->p);
    for (; r->n_inputs < n_inputs && status == SN_OK; r->n_inputs++) {
        status = sn_tensor_for_input(&r->inputs[r->n_inputs], r->p, r->n_inputs);
        if (status == SN_OK) fill(r->inputs[r->n_inputs]);
    }
    for (; r->n_outputs < n_outputs && status == SN_OK; r->n_outputs++) {
        sn_port port;
        status = sn_program_output(&port, r->p, r->n_outputs);
        if (status == SN_OK && port.writes < 0)
            status = sn_tensor_for_output(&r->outputs[r->n_outputs], r->p, r->n_outputs);
    }
    return status;
}

/* What one run leaves in the first output, or in the input that it is written to. free it. */
static unsigned char *run_once(size_t *n, running *r) {
    const sn_tensor *t = r->outputs[0] ? r->outputs[0] : r->inputs[0];
    if (sn_run(r->p, r->inputs, r->outputs, NULL) != SN_OK) return NULL;
    unsigned char *bits = malloc(*n = bytes_of(t));
    if (sn_tensor_read(bits, t, *n) == SN_OK) return bits;
    free(bits);
    return NULL;
}

/* ---- one case ---- */

static void list_kinds(result *x, const sn_program *p) {
    sn_program_info info;
    sn_kernel_info k;
    sn_program_get_info(&info, p);
    x->choose_us = info.choose_us;
    for (unsigned i = 0; i < info.n_kernels && x->n < MEMBERS; i++) {
        if (sn_program_kernel(&k, p, i) != SN_OK || k.chosen_us <= 0) continue;
        if (k.runs) x->chosen = x->n;
        snprintf(x->kinds[x->n++], KIND, "%s", k.kind);
    }
}

static sn_status time_all(result *x, running *members, sn_context *ctx, const options *o) {
    int cuda = !strcmp(o->device, "cuda");
    (void)ctx;
    for (unsigned round = 0; round < (cuda ? ROUNDS : 1); round++)
        for (unsigned i = 0; i < x->n; i++) {
            double us[RUNS];
            sn_status status =
                sn_program_time(us, RUNS, members[i].p, members[i].inputs, members[i].outputs, cuda ? FLUSH : 0);
            if (status != SN_OK) return status;
            for (unsigned k = 0; k < RUNS; k++)
                if (x->us[i] == 0 || us[k] < x->us[i]) x->us[i] = us[k];
        }
    return SN_OK;
}

/* Do the program that has chosen and the chosen member alone give the same bits? */
static int same_bits(running *chosen, running *member) {
    size_t n = 0, m = 0;
    unsigned char *a = run_once(&n, chosen), *b = run_once(&m, member);
    int same = a && b && n == m && !memcmp(a, b, n);
    free(a);
    free(b);
    return same;
}

static sn_status hold_against(result *x, running *chosen, sn_context *ctx, const char *text, const options *o) {
    running members[MEMBERS] = {0};
    sn_status status = make_tensors(chosen);
    for (unsigned i = 0; i < x->n && status == SN_OK; i++) {
        char multi[64];
        snprintf(multi, sizeof multi, "reductions,%s", x->kinds[i]);
        status = open_program(&members[i], ctx, text, o, multi);
        if (status == SN_OK) status = make_tensors(&members[i]);
    }
    if (status == SN_OK) x->failed = !same_bits(chosen, &members[x->chosen]);
    if (status == SN_OK) status = time_all(x, members, ctx, o);
    for (unsigned i = 0; i < x->n; i++) close_program(&members[i]);
    return status;
}

/* 1: it has several schedules that were chosen from; -1: something fails. */
static int run_case(result *x, sn_context *ctx, const options *o) {
    char text[TEXT];
    running chosen;
    sn_program_info info = {0};
    memset(x, 0, sizeof *x);
    draw(text, x->title, o);
    sn_status status = open_program(&chosen, ctx, text, o, "reductions");
    if (status == SN_OK) sn_program_get_info(&info, chosen.p);
    int has = status != SN_OK ? -1 : o->again ? info.n_choices == 1 : info.n_timed == 1;
    if (has > 0 && o->again) x->failed = info.n_timed > 0;
    else if (has > 0) {
        list_kinds(x, chosen.p);
        status = hold_against(x, &chosen, ctx, text, o);
    }
    if (status != SN_OK) fprintf(stderr, "members: %s: %s\n", x->title, sn_error(ctx)), has = -1;
    if (status != SN_OK) sn_error_clear(ctx);
    close_program(&chosen);
    return has;
}

/* ---- the report ---- */

typedef struct totals {
    unsigned cases, fastest, lost, first_fastest, wrong;
    double worst, first_worst, choose_most, choose_sum, over_2ms, gain; /* gain: sum of logs of first / chosen */
} totals;

static void add_up(totals *t, const result *x) {
    double best = x->us[0];
    for (unsigned i = 1; i < x->n; i++)
        if (x->us[i] < best) best = x->us[i];
    double loss = x->us[x->chosen] / best, of_first = x->us[0] / best;
    t->cases++;
    t->fastest += loss <= SAME;
    t->lost += loss > LOST;
    t->first_fastest += of_first <= SAME;
    t->wrong += x->failed != 0;
    t->gain += log(x->us[0] / x->us[x->chosen]);
    if (loss > t->worst) t->worst = loss;
    if (of_first > t->first_worst) t->first_worst = of_first;
    if (x->choose_us > t->choose_most) t->choose_most = x->choose_us;
    t->choose_sum += x->choose_us;
    t->over_2ms += x->choose_us > 2000;
    printf("| %s |", x->title);
    for (unsigned i = 0; i < x->n; i++)
        printf(" %s%s%s %.1f", i == x->chosen ? "**" : "", x->kinds[i], i == x->chosen ? "**" : "", x->us[i]);
    printf(" | %.1f %% | %.2f |%s\n", 100 * (loss - 1), x->choose_us / 1e3, x->failed ? " WRONG BITS" : "");
    fflush(stdout);
}

static void report(const totals *t) {
    if (!t->cases) return;
    printf(
        "\n%u cases with several schedules: the chosen one is the fastest of all, within 1 %%, in %.0f %%; it loses more than 3 %% in %u, "
        "%.1f %% at most.\n",
        t->cases, 100.0 * t->fastest / t->cases, t->lost, 100 * (t->worst - 1));
    printf("The model's is the fastest in %.0f %%, and loses %.1f %% at most; choosing gains %.1f %% on average.\n",
           100.0 * t->first_fastest / t->cases, 100 * (t->first_worst - 1), 100 * (exp(t->gain / t->cases) - 1));
    printf("Choosing takes %.2f ms on average, %.2f ms at most, more than 2 ms in %.0f cases. Wrong bits: %u.\n",
           t->choose_sum / t->cases / 1e3, t->choose_most / 1e3, t->over_2ms, t->wrong);
}

/* The same cases in another process, which has to time nothing. */
static int ask_again(const char *program, const options *o, unsigned cases) {
    char n[32], seed[32], device[64], records[300], most[64];
    snprintf(n, sizeof n, "--again=%u", cases);
    snprintf(seed, sizeof seed, "--seed=%u", o->seed);
    snprintf(device, sizeof device, "--device=%s", o->device);
    snprintf(records, sizeof records, "--records=%s", o->records);
    snprintf(most, sizeof most, "--most=%.0f", o->most);
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return 1;
    if (!child) {
        execl(program, program, n, seed, device, records, most, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status);
}

static int run_all(totals *t, sn_context *ctx, const options *o) {
    enum { TRIES = 12 };
    unsigned wanted = o->again ? o->again : o->cases, found = 0, timed = 0, failed = 0;
    state = 0x9e3779b97f4a7c15ull ^ (o->seed * 0x2545f4914f6cdd1dull);
    if (!o->again)
        printf("| case | members, us (the chosen one in bold) | lost | choosing, ms |\n| --- | --- | --- | --- |\n");
    for (unsigned tries = 0; found < wanted && tries < TRIES * wanted; tries++) {
        result x;
        int has = run_case(&x, ctx, o);
        failed += has < 0;
        if (has <= 0) continue;
        found++;
        timed += x.failed && o->again;
        if (!o->again) add_up(t, &x);
    }
    if (o->again) printf("A second process: %u cases, of which %u were timed again.\n", found, timed);
    if (failed) printf("%u cases failed.\n", failed);
    return timed || failed;
}

static int parse(options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--cases=", 8)) o->cases = (unsigned)atoi(argv[i] + 8);
        else if (!strncmp(argv[i], "--seed=", 7)) o->seed = (unsigned)atoi(argv[i] + 7);
        else if (!strncmp(argv[i], "--device=", 9)) o->device = argv[i] + 9;
        else if (!strncmp(argv[i], "--most=", 7)) o->most = atof(argv[i] + 7);
        else if (!strncmp(argv[i], "--again=", 8)) o->again = (unsigned)atoi(argv[i] + 8);
        else if (!strncmp(argv[i], "--records=", 10)) o->records = argv[i] + 10;
        else return 0;
    }
    return o->most > 8e6;
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/members-XXXXXX";
    options o = {.cases = 100, .seed = 1, .device = "cuda", .most = 200e6};
    totals t = {0};
    sn_context *ctx = NULL;
    if (!parse(&o, argc, argv))
        return fprintf(stderr, "usage: members [--cases=N] [--seed=N] [--device=cuda|gpu-on-cpu] [--most=BYTES]\n"), 2;
    if (!o.records && !(o.records = mkdtemp(folder))) return perror("members: mkdtemp"), 1;
    if (sn_context_create(&ctx, NULL) != SN_OK) return fprintf(stderr, "members: no context\n"), 1;
    int code = run_all(&t, ctx, &o);
    sn_context_destroy(ctx);
    report(&t);
    if (!o.again && t.cases) code |= ask_again("/proc/self/exe", &o, t.cases);
    return code || t.wrong;
}
