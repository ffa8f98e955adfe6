/* conv_bn_relu.c: one training step's forward block, as a C program writes it with Sinter:
 *
 *     y = relu(batch_norm_train(conv2d(x, w) + b)),  mask = y <= 0,  and what a backward pass needs
 *
 * on x[2, 16, 8, 8]. The running statistics and the count of batches are inputs that the program writes back. The block
 * runs twice: on seeded numbers, and on a batch cut from a photograph (data/README.md says whose). Every run is compared
 * with the float64 evaluator. Runs on a CUDA device where there is one, else on the CPU; the PTX for sm_90 is written to
 * files in either case.
 *
 *     conv_bn_relu [--device auto|cpu|cuda] [--out DIR] [--photo FILE.ppm]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <sinter/sinter.h>

#ifndef SINTER_DATA
#define SINTER_DATA "examples/data"
#endif

enum { BATCH = 2, CHANNELS = 16, FILTERS = 32, SIDE = 8, PATCH = 4, CROP = SIDE * PATCH, TIMED_RUNS = 20 };

/* Inputs and outputs in the order in which build_graph makes them. */
enum { X, W, B, GAMMA, BETA, RUNNING_MEAN, RUNNING_VAR, BATCHES, N_INPUTS };
enum { Y, MASK, MEAN, INVSTD, NEW_MEAN, NEW_VAR, NEW_BATCHES, N_OUTPUTS };
static const char *const output_names[N_OUTPUTS] = {"y",           "mask",       "mean", "invstd", "running_mean",
                                                    "running_var", "num_batches"};

typedef struct example {
    const char *device, *out_dir, *photo;
    sn_context *ctx;
    sn_graph *graph;
    sn_program *program;
    sn_tensor *inputs[N_INPUTS], *outputs[N_OUTPUTS]; /* an output that writes an input has no tensor */
} example;

/* ---- the block ---- */

static sn_status build_graph(sn_graph *g) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(BATCH, CHANNELS, SIDE, SIDE));
    sn_node w = sn_input(g, "w", SN_F32, SN_LIST(FILTERS, CHANNELS, 3, 3));
    sn_node b = sn_input(g, "b", SN_F32, SN_LIST(FILTERS));
    sn_node gamma = sn_input(g, "gamma", SN_F32, SN_LIST(FILTERS));
    sn_node beta = sn_input(g, "beta", SN_F32, SN_LIST(FILTERS));
    sn_node running_mean = sn_input(g, "running_mean_in", SN_F32, SN_LIST(FILTERS));
    sn_node running_var = sn_input(g, "running_var_in", SN_F32, SN_LIST(FILTERS));
    sn_node batches = sn_input(g, "num_batches_in", SN_I64, 0, NULL);

    sn_node conv = sn_conv2d(g, x, w, NULL); /* no padding: [2, 32, 6, 6] */
    conv = sn_add(g, conv, sn_reshape(g, b, SN_LIST(1, FILTERS, 1, 1)));
    sn_batch_norm_results bn;
    sn_batch_norm_train(&bn, g, conv, gamma, beta, running_mean, running_var, 0.1, 1e-5);
    sn_node y = sn_relu(g, bn.y);

    sn_output(g, output_names[Y], y);
    sn_output(g, output_names[MASK], sn_le(g, y, sn_number_like(g, y, 0)));
    sn_output(g, output_names[MEAN], bn.mean);
    sn_output(g, output_names[INVSTD], bn.invstd);
    sn_output_writes(g, output_names[NEW_MEAN], bn.running_mean, running_mean);
    sn_output_writes(g, output_names[NEW_VAR], bn.running_var, running_var);
    return sn_output_writes(g, output_names[NEW_BATCHES], sn_add(g, batches, sn_number(g, SN_I64, 1)), batches);
}

/* ---- data ---- */

static double next_uniform(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static sn_status fill_uniform(sn_tensor *t, uint64_t seed, double low, double high) {
    sn_tensor_info info;
    sn_tensor_get_info(&info, t);
    size_t size = (size_t)info.numel * sizeof(float);
    float *data = malloc(size);
    if (!data) return SN_ERROR_MEMORY;
    for (int64_t k = 0; k < info.numel; k++) data[k] = (float)(low + (high - low) * next_uniform(&seed));
    sn_status status = sn_tensor_write(t, data, size);
    free(data);
    return status;
}

/* Seeded x and parameters; fresh statistics: mean 0, variance 1, no batches yet. */
static sn_status fill_inputs(example *e) {
    static const struct {
        int input;
        double low, high;
    } ranges[] = {{X, -1, 1},        {W, -0.1, 0.1},       {B, -0.1, 0.1},     {GAMMA, 0.5, 1.5},
                  {BETA, -0.2, 0.2}, {RUNNING_MEAN, 0, 0}, {RUNNING_VAR, 1, 1}};
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
        sn_status status = fill_uniform(e->inputs[ranges[k].input], k + 1, ranges[k].low, ranges[k].high);
        if (status != SN_OK) return status;
    }
    return sn_tensor_write(e->inputs[BATCHES], &(int64_t){0}, sizeof(int64_t));
}

/* A binary PPM as malloc'd bytes, three a pixel. */
static unsigned char *read_ppm(int *width, int *height, const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    unsigned char *pixels = NULL;
    int depth = 0;
    if (fscanf(f, "P6 %d %d %d", width, height, &depth) == 3 && depth == 255 && fgetc(f) != EOF && *width > 0 &&
        *height > 0 && *width <= 1 << 14 && *height <= 1 << 14) {
        size_t size = (size_t)*width * (size_t)*height * 3;
        pixels = malloc(size);
        if (pixels && fread(pixels, 1, size, f) != size) {
            free(pixels);
            pixels = NULL;
        }
    }
    fclose(f);
    return pixels;
}

/* Two 32 x 32 crops. The brightness of each 4 x 4 patch becomes 16 channels of an 8 x 8 image (space to depth):
 * channel 4*dy + dx of position (i, j) is the pixel (4*i + dy, 4*j + dx), mapped to -1 .. 1. */
static void cut_batch(float *out, const unsigned char *pixels, int width, const int (*corner)[2]) {
    for (int n = 0; n < BATCH; n++)
        for (int c = 0; c < CHANNELS; c++)
            for (int i = 0; i < SIDE; i++)
                for (int j = 0; j < SIDE; j++) {
                    int row = corner[n][0] + PATCH * i + c / PATCH, column = corner[n][1] + PATCH * j + c % PATCH;
                    const unsigned char *p = pixels + 3 * ((size_t)row * (size_t)width + (size_t)column);
                    *out++ = (0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2]) / 127.5f - 1;
                }
}

static int fill_from_photo(example *e) {
    static const int corners[BATCH][2] = {{8, 34}, {48, 60}}; /* row, column: the face, the suit */
    int width, height;
    unsigned char *pixels = read_ppm(&width, &height, e->photo);
    if (!pixels || width < 60 + CROP || height < 48 + CROP) {
        fprintf(stderr, "conv_bn_relu: %s is not there or no binary PPM of at least %d x %d pixels\n", e->photo,
                60 + CROP, 48 + CROP);
        free(pixels);
        return 0;
    }
    static float batch[BATCH * CHANNELS * SIDE * SIDE];
    cut_batch(batch, pixels, width, corners);
    free(pixels);
    return sn_tensor_write(e->inputs[X], batch, sizeof batch) == SN_OK;
}

/* ---- running ---- */

static sn_status make_tensors(example *e) {
    for (unsigned k = 0; k < N_INPUTS; k++) {
        sn_status status = sn_tensor_for_input(&e->inputs[k], e->program, k);
        if (status != SN_OK) return status;
    }
    for (unsigned k = 0; k < N_OUTPUTS; k++) {
        sn_port port;
        sn_status status = sn_program_output(&port, e->program, k);
        if (status == SN_OK && port.writes < 0) status = sn_tensor_for_output(&e->outputs[k], e->program, k);
        if (status != SN_OK) return status;
    }
    return SN_OK;
}

/* Run, compare with the evaluator, print a line for each output. */
static sn_status run_checked(example *e, const char *what) {
    sn_check checks[N_OUTPUTS] = {0};
    sn_status status = sn_program_check(checks, e->program, e->inputs, e->outputs, false);
    if (status != SN_OK && status != SN_ERROR_MISMATCH) return status;
    printf("\n%s\n", what);
    for (int k = 0; k < N_OUTPUTS; k++)
        printf("  %-12s largest error %9.3g   relative %9.3g   bound %8.3g   %s\n", output_names[k], checks[k].max_abs,
               checks[k].max_rel, checks[k].bound, checks[k].ok ? "ok" : "FAILED");
    return status;
}

static sn_status print_batches(example *e) {
    int64_t batches = 0;
    sn_status status = sn_tensor_read(&batches, e->inputs[BATCHES], sizeof batches);
    printf("\nbatches seen so far: %lld\n", (long long)batches);
    return status;
}

/* ---- what the compiler did ---- */

static sn_status print_kernels(sn_program *p) {
    sn_program_info info;
    sn_program_get_info(&info, p);
    printf("%u kernels for %s, compiled in %.1f ms (passes %.1f, code %.1f, load %.1f)\n", info.n_kernels, info.target,
           info.total_us / 1e3, info.passes_us / 1e3, info.codegen_us / 1e3, (info.assemble_us + info.load_us) / 1e3);
    for (unsigned k = 0; k < info.n_kernels; k++) {
        sn_kernel_info kernel;
        sn_status status = sn_program_kernel(&kernel, p, k);
        if (status != SN_OK) return status;
        printf("  %-6s %4lld blocks of %3u x %-3u  fused: %s\n", kernel.name, (long long)kernel.grid, kernel.block_x,
               kernel.block_y, kernel.note);
    }
    return SN_OK;
}

/* The lines of the wrapper that are about memory. */
static sn_status print_memory(sn_context *ctx, sn_program *p) {
    sn_program_info info;
    sn_program_get_info(&info, p);
    char *text;
    sn_status status = sn_program_dump(&text, p, "wrapper");
    if (status != SN_OK) return status;
    printf("memory between kernels: workspace of %zu bytes\n", info.workspace);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *word = line + strspn(line, " ");
        if (!strncmp(word, "alloc ", 6) || !strncmp(word, "reuse ", 6) || !strncmp(word, "copy ", 5))
            printf("  %s\n", word);
    }
    sn_free(ctx, text);
    return SN_OK;
}

static int choose_out_dir(char *out, size_t size, const char *wanted) {
    const char *tmp = getenv("TMPDIR");
    if (!wanted && tmp && tmp[0]) return snprintf(out, size, "%s/sinter-XXXXXX", tmp) < (int)size && mkdtemp(out);
    snprintf(out, size, "%s", wanted ? wanted : "out");
    return mkdir(out, 0777) == 0 || errno == EEXIST;
}

static sn_status write_ptx(sn_program *p, const char *dir) {
    sn_program_info info;
    sn_kernel_info kernel;
    sn_program_get_info(&info, p);
    for (unsigned k = 0; k < info.n_kernels; k++) {
        sn_status status = sn_program_kernel(&kernel, p, k);
        if (status != SN_OK) return status;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.ptx", dir, kernel.name);
        FILE *f = fopen(path, "w");
        if (!f) return SN_ERROR_FILE;
        fputs(kernel.ptx, f);
        if (fclose(f)) return SN_ERROR_FILE;
        printf("PTX of %s written to %s\n", kernel.name, path);
    }
    return SN_OK;
}

/* PTX needs no device: the graph is compiled once more, for a target instead of a device. */
static sn_status emit_ptx(example *e) {
    char dir[2048];
    if (!choose_out_dir(dir, sizeof dir, e->out_dir)) {
        fprintf(stderr, "conv_bn_relu: cannot make the folder %s\n", dir);
        return SN_ERROR_FILE;
    }
    sn_program *for_gpu;
    sn_compile_options options = {.struct_size = sizeof options, .target = "sm_90"};
    sn_status status = sn_compile(&for_gpu, e->graph, &options);
    if (status == SN_OK) status = write_ptx(for_gpu, dir);
    sn_program_destroy(for_gpu);
    return status;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static sn_status print_time(example *e) {
    double us[TIMED_RUNS];
    sn_status status = sn_program_time(us, TIMED_RUNS, e->program, e->inputs, e->outputs, 0);
    if (status != SN_OK) return status;
    qsort(us, TIMED_RUNS, sizeof *us, by_value);
    printf("one run takes %.2f us (median of %d)\n", us[TIMED_RUNS / 2], TIMED_RUNS);
    return SN_OK;
}

/* ---- all of it ---- */

static sn_status compile(example *e) {
    sn_status status = sn_graph_create(&e->graph, e->ctx, "conv_bn_relu");
    if (status == SN_OK) status = build_graph(e->graph);
    sn_compile_options options = {.struct_size = sizeof options, .device = e->device};
    if (status == SN_OK) status = sn_compile(&e->program, e->graph, &options);
    if (status != SN_OK) return status;
    sn_program_info info;
    const char *name, *target;
    sn_program_get_info(&info, e->program);
    status = sn_device_info(&name, &target, e->ctx, info.device);
    if (status == SN_OK) printf("conv 3x3, batch norm, relu on %s (%s)\n", name, target);
    return status;
}

static int run_example(example *e) {
    if (compile(e) != SN_OK || print_kernels(e->program) != SN_OK || print_memory(e->ctx, e->program) != SN_OK)
        return 0;
    if (emit_ptx(e) != SN_OK || make_tensors(e) != SN_OK || fill_inputs(e) != SN_OK) return 0;
    if (run_checked(e, "seeded batch against the float64 evaluator:") != SN_OK) return 0;
    if (!fill_from_photo(e)) return 0;
    if (run_checked(e, "photograph against the float64 evaluator:") != SN_OK) return 0;
    return print_batches(e) == SN_OK && print_time(e) == SN_OK;
}

static void destroy(example *e) {
    for (int k = 0; k < N_INPUTS; k++) sn_tensor_destroy(e->inputs[k]);
    for (int k = 0; k < N_OUTPUTS; k++) sn_tensor_destroy(e->outputs[k]);
    sn_program_destroy(e->program);
    sn_graph_destroy(e->graph);
    sn_context_destroy(e->ctx);
}

int main(int argc, char **argv) {
    example e = {.device = "auto", .photo = SINTER_DATA "/astronaut.ppm"};
    for (int k = 1; k < argc; k += 2) {
        const char **option = !strcmp(argv[k], "--device")  ? &e.device
                              : !strcmp(argv[k], "--out")   ? &e.out_dir
                              : !strcmp(argv[k], "--photo") ? &e.photo
                                                            : NULL;
        if (!option || k + 1 == argc) {
            fprintf(stderr, "usage: conv_bn_relu [--device auto|cpu|cuda] [--out DIR] [--photo FILE.ppm]\n");
            return 2;
        }
        *option = argv[k + 1];
    }
    if (sn_context_create(&e.ctx, NULL) != SN_OK) return 1;
    int fine = run_example(&e);
    if (!fine && sn_error(e.ctx)[0]) fprintf(stderr, "conv_bn_relu: %s\n", sn_error(e.ctx));
    if (fine) printf("ok\n");
    destroy(&e);
    return fine ? 0 : 1;
}
