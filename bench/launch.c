/* launch.c: what a call of sn_run costs where the device has little to do: wall time a call over many calls.
 *
 *     launch [--calls=10000] [--device=cuda|cpu] [--json=FILE] [FILE.sn ...]
 *
 * Cases: one kernel; the block of a network in training of examples/conv_bn_relu.c; twenty kernels that cannot be fused, and two of them; two
 * that last longer than their launches; and the graphs of the files, whose weights get some elements (bench/gen_networks.py writes gpt2_decode*.sn). Each with the option `graphs` off, auto and
 * on; and once more with graphs for a caller whose tensors are others in every call, two sets of them in turn. For each two
 * figures in microseconds: the wall time of all calls, the device included, over their number; and behind it the time until a call
 * returns, of a few calls that the device does not hold up (the least of many tries). Files get a tenth of the calls. All ways have to leave the same bits.
 * launch_peer.py measures the same cases by PyTorch. Relies on sinter.h alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sinter/sinter.h>

enum { PORTS = 512, WARM = 20, TRIES = 50, FEW = 10, CHAIN = 20, NAME = 64, PERIOD = 65521, LONGER = 10 };

typedef struct options {
    unsigned calls;
    const char *device, *json;
} options;

/* ---- cases ---- */

static void build_one(sn_graph *g) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(1024));
    sn_output(g, "y", sn_relu(g, sn_add(g, x, sn_number_like(g, x, 1))));
}

/* As in examples/conv_bn_relu.c. */
static void build_block(sn_graph *g) {
    enum { FILTERS = 32 };
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(2, 16, 8, 8)),
            w = sn_input(g, "w", SN_F32, SN_LIST(FILTERS, 16, 3, 3));
    sn_node b = sn_input(g, "b", SN_F32, SN_LIST(FILTERS)), gamma = sn_input(g, "gamma", SN_F32, SN_LIST(FILTERS));
    sn_node beta = sn_input(g, "beta", SN_F32, SN_LIST(FILTERS)),
            mean = sn_input(g, "mean_in", SN_F32, SN_LIST(FILTERS));
    sn_node var = sn_input(g, "var_in", SN_F32, SN_LIST(FILTERS)), batches = sn_input(g, "batches_in", SN_I64, 0, NULL);
    sn_node conv = sn_add(g, sn_conv2d(g, x, w, NULL), sn_reshape(g, b, SN_LIST(1, FILTERS, 1, 1)));
    sn_batch_norm_results bn;
    sn_batch_norm_train(&bn, g, conv, gamma, beta, mean, var, 0.1, 1e-5);
    sn_node y = sn_relu(g, bn.y);
    sn_output(g, "y", y);
    sn_output(g, "mask", sn_le(g, y, sn_number_like(g, y, 0)));
    sn_output(g, "mean", bn.mean);
    sn_output(g, "invstd", bn.invstd);
    sn_output_writes(g, "running_mean", bn.running_mean, mean);
    sn_output_writes(g, "running_var", bn.running_var, var);
    sn_output_writes(g, "batches", sn_add(g, batches, sn_number(g, SN_I64, 1)), batches);
}

/* Each needs all of the one before it, by turns along rows and columns. */
static void build_softmaxes(sn_graph *g, int n, int64_t size) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(size, size));
    for (int i = 0; i < n; i++) x = sn_softmax(g, x, i % 2);
    sn_output(g, "y", x);
}
static void build_chain(sn_graph *g) { build_softmaxes(g, CHAIN, 64); }
static void build_two(sn_graph *g) { build_softmaxes(g, 2, 64); }
static void build_two_long(sn_graph *g) { build_softmaxes(g, 2, 1024); }

typedef struct test_case {
    const char *name, *path; /* path: of a file, instead of build */
    void (*build)(sn_graph *g);
} test_case;

static const test_case CASES[] = {{.name = "one_kernel", .build = build_one},
                                  {.name = "training_block", .build = build_block},
                                  {.name = "chain_of_20", .build = build_chain},
                                  {.name = "chain_of_2", .build = build_two},
                                  {.name = "chain_of_2_long", .build = build_two_long}};

/* ---- elements ---- */

/* Small numbers of both signs, as bits of the type; integers are 7, a valid position. */
static void fill(void *out, sn_dtype dtype, size_t n) {
    unsigned long long x = 88172645463325252ull;
    size_t bytes = sn_dtype_size(dtype);
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        unsigned f32 = (unsigned)(x >> 63) << 31 | 0x3d000000u | (unsigned)(x >> 40 & 0xffffff);
        unsigned short half = dtype == SN_F16 ? (unsigned short)(f32 >> 31 << 15 | 0x2800u | (x >> 40 & 0x3ff))
                                              : (unsigned short)(f32 >> 16);
        unsigned long long seven = 7;
        if (dtype == SN_F32) memcpy((char *)out + 4 * i, &f32, 4);
        else if (dtype == SN_F16 || dtype == SN_BF16) memcpy((char *)out + 2 * i, &half, 2);
        else memcpy((char *)out + bytes * i, &seven, bytes);
    }
}

static sn_status fill_tensor(sn_tensor *t) {
    sn_tensor_info info;
    sn_tensor_get_info(&info, t);
    size_t size = (size_t)info.numel * sn_dtype_size(info.dtype);
    void *data = malloc(size + 1);
    fill(data, info.dtype, (size_t)info.numel);
    sn_status status = sn_tensor_write(t, data, size);
    free(data);
    return status;
}

static sn_dtype dtype_of(const char *name, size_t n) {
    for (int t = 0; t < SN_N_DTYPES; t++)
        if (strlen(sn_dtype_name((sn_dtype)t)) == n && !memcmp(sn_dtype_name((sn_dtype)t), name, n)) return (sn_dtype)t;
    return SN_N_DTYPES;
}

/* Elements of weights, which are the same for all: of the largest so far. They stay as long as this process. */
static const void *elements(sn_dtype dtype, size_t n) {
    static struct {
        void *at;
        size_t n;
    } have[SN_N_DTYPES];
    size_t bytes = sn_dtype_size(dtype), part = n < PERIOD ? n : PERIOD;
    if (have[dtype].n >= n && have[dtype].at) return have[dtype].at;
    char *data = malloc((n + PERIOD) * bytes);
    fill(data, dtype, part);
    for (size_t at = part; part && at < n; at += part) memcpy(data + at * bytes, data, part * bytes);
    have[dtype].at = data;
    have[dtype].n = n;
    return data;
}

/* All weights of a text: lines like  weight name="0.up.w" dtype=bf16 shape=[768, 3072]. */
static sn_status attach_weights(sn_graph *g, const char *text) {
    static const char begin[] = "weight name=\"";
    sn_status status = SN_OK;
    for (const char *at = text; status == SN_OK && (at = strstr(at, begin));) {
        char name[NAME];
        const char *from = at + sizeof begin - 1, *dtype = strstr(from, "dtype="), *shape = strstr(from, "shape=[");
        size_t n = strcspn(from, "\""), numel = 1;
        if (!dtype || !shape || n >= sizeof name) return SN_ERROR_SYNTAX;
        memcpy(name, from, n);
        name[n] = 0;
        dtype += strlen("dtype=");
        sn_dtype type = dtype_of(dtype, strcspn(dtype, " "));
        if (type == SN_N_DTYPES) return SN_ERROR_SYNTAX;
        at = shape + strlen("shape=[");
        for (char *end; *at != ']'; at = end + strspn(end, ", ")) numel *= strtoul(at, &end, 10);
        status = sn_graph_attach_weight(g, name, elements(type, numel), numel * sn_dtype_size(type));
    }
    return status;
}

/* ---- programs ---- */

typedef struct running {
    sn_program *p;
    sn_tensor *inputs[2][PORTS], *outputs[2][PORTS]; /* two sets */
    sn_program_info info;
} running;

static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *text = malloc((size_t)n + 1);
    text[fread(text, 1, (size_t)n, f)] = 0;
    fclose(f);
    return text;
}

static sn_status make_graph(sn_graph **g, sn_context *ctx, const test_case *c) {
    if (c->build) {
        sn_status status = sn_graph_create(g, ctx, c->name);
        if (status == SN_OK) c->build(*g);
        return status;
    }
    char *text = read_file(c->path);
    if (!text) return fprintf(stderr, "launch: %s cannot be read\n", c->path), SN_ERROR_FILE;
    sn_status status = sn_graph_from_text(g, ctx, c->path, text, strlen(text));
    if (status == SN_OK) status = attach_weights(*g, text);
    free(text);
    return status;
}

static sn_status make_set(running *r, int set) {
    sn_status status = SN_OK;
    for (unsigned i = 0; i < r->info.n_inputs && status == SN_OK; i++) {
        status = sn_tensor_for_input(&r->inputs[set][i], r->p, i);
        if (status == SN_OK) status = fill_tensor(r->inputs[set][i]);
    }
    for (unsigned i = 0; i < r->info.n_outputs && status == SN_OK; i++) {
        sn_port port;
        status = sn_program_output(&port, r->p, i);
        if (status == SN_OK && port.writes < 0) status = sn_tensor_for_output(&r->outputs[set][i], r->p, i);
    }
    return status;
}

static sn_status open_program(running *r, sn_context *ctx, const test_case *c, const options *o, const char *graphs) {
    sn_compile_options how = {.struct_size = sizeof how, .device = o->device, .graphs = graphs};
    sn_graph *g = NULL;
    memset(r, 0, sizeof *r);
    sn_status status = make_graph(&g, ctx, c);
    if (status == SN_OK) status = sn_compile(&r->p, g, &how);
    sn_graph_destroy(g);
    if (status != SN_OK) return status;
    sn_program_get_info(&r->info, r->p);
    if (r->info.n_inputs > PORTS || r->info.n_outputs > PORTS) return SN_ERROR_UNSUPPORTED;
    status = make_set(r, 0);
    return status == SN_OK ? make_set(r, 1) : status;
}

static void close_program(running *r) {
    for (int set = 0; set < 2; set++)
        for (unsigned i = 0; i < PORTS; i++) {
            sn_tensor_destroy(r->inputs[set][i]);
            sn_tensor_destroy(r->outputs[set][i]);
        }
    sn_program_destroy(r->p);
}

/* ---- measuring ---- */

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* moving: the two sets in turn. */
static sn_status call(running *r, unsigned n, int moving) {
    sn_status status = SN_OK;
    for (unsigned i = 0; i < n && status == SN_OK; i++) {
        unsigned set = moving ? i % 2 : 0;
        status = sn_run(r->p, r->inputs[set], r->outputs[set], NULL);
    }
    return status;
}

typedef struct figures {
    double wall_us, host_us;
} figures;

static sn_status measure(figures *out, running *r, sn_context *ctx, unsigned calls, int moving) {
    sn_status status = call(r, WARM, moving);
    out->host_us = 1e30;
    for (int k = 0; k < TRIES && status == SN_OK; k++) {
        status = sn_device_sync(ctx, r->info.device, NULL);
        double begin = now_us();
        if (status == SN_OK) status = call(r, FEW, moving);
        double us = (now_us() - begin) / FEW;
        if (us < out->host_us) out->host_us = us;
    }
    if (status == SN_OK) status = sn_device_sync(ctx, r->info.device, NULL);
    double begin = now_us();
    if (status == SN_OK) status = call(r, calls, moving);
    if (status == SN_OK) status = sn_device_sync(ctx, r->info.device, NULL);
    out->wall_us = (now_us() - begin) / calls;
    return status;
}

/* The bits of all outputs after three runs on new inputs; free it. */
static unsigned char *bits_of(size_t *n, running *r) {
    unsigned char *bits = NULL;
    *n = 0;
    for (unsigned i = 0; i < r->info.n_inputs; i++)
        if (fill_tensor(r->inputs[0][i]) != SN_OK) return NULL;
    if (call(r, 3, 0) != SN_OK) return NULL;
    for (unsigned i = 0; i < r->info.n_outputs; i++) {
        sn_port port;
        sn_tensor_info info;
        if (sn_program_output(&port, r->p, i) != SN_OK) return free(bits), NULL;
        sn_tensor *t = port.writes < 0 ? r->outputs[0][i] : r->inputs[0][port.writes];
        sn_tensor_get_info(&info, t);
        size_t size = (size_t)info.numel * sn_dtype_size(info.dtype);
        bits = realloc(bits, *n + size + 1);
        if (sn_tensor_read(bits + *n, t, size) != SN_OK) return free(bits), NULL;
        *n += size;
    }
    return bits;
}

/* ---- all of it ---- */

enum { OFF, AUTO, ON, MOVING, WAYS };
static const char *const way_names[WAYS] = {"off", "auto", "on", "on, others each call"};

typedef struct result {
    figures at[WAYS];
    unsigned kernels, launches;
    int same;
} result;

static sn_status run_way(result *x, int way, sn_context *ctx, const test_case *c, const options *o,
                         unsigned char **want, size_t *n_want) {
    static const char *const graphs[WAYS] = {"off", "auto", "on", "on"};
    static running r;
    size_t n = 0;
    sn_status status = open_program(&r, ctx, c, o, graphs[way]);
    if (status == SN_OK) {
        unsigned char *bits = bits_of(&n, &r);
        x->same &= bits && (!*want || (n == *n_want && !memcmp(bits, *want, n)));
        if (*want) free(bits);
        else *want = bits, *n_want = n;
        x->kernels = r.info.n_kernels;
        x->launches = r.info.n_launches;
        status = measure(&x->at[way], &r, ctx, c->path ? o->calls / LONGER + 1 : o->calls, way == MOVING);
    }
    close_program(&r);
    return status;
}

static int run_case(result *x, sn_context *ctx, const test_case *c, const options *o) {
    unsigned char *want = NULL;
    size_t n = 0;
    sn_status status = SN_OK;
    *x = (result){.same = 1};
    for (int way = 0; way < WAYS && status == SN_OK; way++) status = run_way(x, way, ctx, c, o, &want, &n);
    free(want);
    if (status == SN_OK) return 1;
    fprintf(stderr, "launch: %s: %s\n", c->name, sn_error(ctx)[0] ? sn_error(ctx) : sn_status_name(status));
    sn_error_clear(ctx);
    return 0;
}

static void print(const test_case *c, const result *x, FILE *json) {
    printf("| %s | %u |", c->name, x->launches);
    for (int way = 0; way < WAYS; way++) printf(" %.2f (%.2f) |", x->at[way].wall_us, x->at[way].host_us);
    printf("%s\n", x->same ? "" : " WRONG BITS");
    fflush(stdout);
    if (!json) return;
    fprintf(json, "{\"name\": \"%s\", \"kernels\": %u, \"launches\": %u, \"same\": %s", c->name, x->kernels,
            x->launches, x->same ? "true" : "false");
    for (int way = 0; way < WAYS; way++)
        fprintf(json, ", \"%s\": {\"us\": %.3f, \"host_us\": %.3f}", way_names[way], x->at[way].wall_us,
                x->at[way].host_us);
    fprintf(json, "}\n");
}

static int take_case(sn_context *ctx, const test_case *c, const options *o, FILE *json) {
    result x;
    if (!run_case(&x, ctx, c, o)) return 1;
    print(c, &x, json);
    return !x.same;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int main(int argc, char **argv) {
    options o = {.calls = 10000, .device = "cuda"};
    sn_context *ctx;
    int code = 0, first = 1;
    for (; first < argc && !strncmp(argv[first], "--", 2); first++) {
        const char *a = argv[first];
        if (!strncmp(a, "--calls=", 8) && atoi(a + 8) > 0) o.calls = (unsigned)atoi(a + 8);
        else if (!strncmp(a, "--device=", 9)) o.device = a + 9;
        else if (!strncmp(a, "--json=", 7)) o.json = a + 7;
        else return fprintf(stderr, "usage: launch [--calls=N] [--device=cuda|cpu] [--json=FILE] [FILE.sn ...]\n"), 2;
    }
    FILE *json = o.json ? fopen(o.json, "w") : NULL;
    if (o.json && !json) return perror(o.json), 1;
    if (sn_context_create(&ctx, NULL) != SN_OK) return fprintf(stderr, "launch: no context\n"), 1;
    printf("Microseconds of wall time a call, and until a call returns; graphs:\n\n| case | launches |");
    for (int way = 0; way < WAYS; way++) printf(" %s |", way_names[way]);
    printf("\n| --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) code |= take_case(ctx, &CASES[i], &o, json);
    for (; first < argc; first++)
        code |= take_case(ctx, &(test_case){.name = base_name(argv[first]), .path = argv[first]}, &o, json);
    sn_context_destroy(ctx);
    if (json && fclose(json)) return perror(o.json), 1;
    return code;
}
