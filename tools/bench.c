/* bench.c: `sinter bench`: time graphs on random inputs. Reports the bytes that a run must move at least, the median time
 * with cold caches, and on CUDA the share of the rate of a plain copy.
 */
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] = "usage: sinter bench [options] FILE...\n"
                           "  --device=WHERE    auto, cpu, cuda\n"
                           "  --runs N          timed runs of each file (50)\n"
                           "  --dim N=8         the size that a name in shapes stands for (repeat)\n"
                           "  --threads N       CPU threads\n"
                           "  --json FILE       write the results there too\n";

enum { FLUSH_BYTES = 128 << 20 }; /* more than any L2: no input is cached when a timed run starts */

typedef struct bench_args {
    unsigned runs;
    const char *json;
    tool_dims dims;
    sn_compile_options o;
    bool show_help;
} bench_args;

typedef struct bench_result {
    const char *file, *device;
    double bytes, median_us, rate, share, compile_ms;
    unsigned kernels;
} bench_result;

static int parse(bench_args *b, int argc, char **argv) {
    static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                            {"runs", required_argument, NULL, 'r'},
                                            {"dim", required_argument, NULL, 'n'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"json", required_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'd': b->o.device = optarg; break;
        case 'r':
            if (!tool_unsigned(&b->runs, optarg) || !b->runs)
                return tool_misuse("--runs %s: a number is wanted", optarg);
            break;
        case 'n':
            if (!tool_add_dim(&b->dims, optarg)) return tool_misuse("--dim %s: NAME=NUMBER is wanted", optarg);
            break;
        case 't':
            if (!tool_unsigned(&b->o.threads, optarg)) return tool_misuse("--threads %s: a number is wanted", optarg);
            break;
        case 'j': b->json = optarg; break;
        case 'h': b->show_help = true; return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    return optind < argc ? TOOL_OK : tool_misuse("bench: no FILE given");
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static sn_status time_program(bench_result *out, sn_program *p, const bench_args *b) {
    tool_inputs in = {.random_rest = true, .seed = 1};
    sn_tensor **inputs = calloc(p->n_inputs + 1, sizeof *inputs), **outputs = calloc(p->n_outputs + 1, sizeof *outputs);
    double *us = calloc(b->runs, sizeof *us);
    sn_status status = inputs && outputs && us ? tool_program_tensors(inputs, outputs, p, &in) : SN_ERROR_MEMORY;
    if (status == SN_OK) status = sn_program_time(us, b->runs, p, inputs, outputs, FLUSH_BYTES);
    if (status == SN_OK) {
        qsort(us, b->runs, sizeof *us, by_value);
        out->median_us = us[b->runs / 2];
    }
    free(us);
    tool_free_tensors(inputs, p->n_inputs);
    tool_free_tensors(outputs, p->n_outputs);
    return status;
}

static sn_status bench_graph(bench_result *out, sn_context *ctx, sn_program *p, const bench_args *b) {
    SN_TRY(time_program(out, p, b));
    out->kernels = p->info.n_kernels;
    out->bytes = (double)p->info.moved;
    out->compile_ms = p->info.total_us / 1e3;
    out->rate = out->median_us > 0 ? out->bytes / (out->median_us * 1e-6) : 0;
    out->device = "cpu";
    if (p->device == SN_CPU) return SN_OK;
    const char *target;
    double copy = 0;
    SN_TRY(sn_device_info(&out->device, &target, ctx, p->device));
    SN_TRY(sn_device_copy_rate(&copy, ctx, p->device));
    out->share = copy > 0 ? out->rate / copy : 0;
    return SN_OK;
}

static sn_status bench_file(bench_result *out, sn_context *ctx, const char *path, const bench_args *b) {
    sn_graph *g = NULL;
    sn_program *p = NULL;
    *out = (bench_result){.file = path};
    sn_status status = sn_graph_from_file(&g, ctx, path);
    if (status == SN_OK) status = sn_compile(&p, g, &b->o);
    if (status == SN_OK) status = bench_graph(out, ctx, p, b);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    return status;
}

static void print_result(const bench_result *r) {
    char share[16] = "-";
    if (r->share > 0) snprintf(share, sizeof share, "%.1f%%", 100 * r->share);
    printf("%-36s %12.0f %10.2f %8.3f %8s %8u %9.1f\n", r->file, r->bytes, r->median_us, r->rate / 1e12, share,
           r->kernels, r->compile_ms);
    fflush(stdout);
}

static void json_string(FILE *f, const char *s) {
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') fputc('\\', f);
        if ((unsigned char)*s >= 0x20) fputc(*s, f);
    }
    fputc('"', f);
}

static bool write_json(const char *path, const bench_result *results, unsigned n) {
    FILE *f = fopen(path, "w");
    if (!f) return false;
    fputs("[", f);
    for (unsigned k = 0; k < n; k++) {
        const bench_result *r = &results[k];
        fputs(k ? ",\n {\"file\": " : "\n {\"file\": ", f);
        json_string(f, r->file);
        fputs(", \"device\": ", f);
        json_string(f, r->device);
        fprintf(f,
                ", \"bytes\": %.0f, \"median_us\": %.3f, \"bytes_per_second\": %.6g, \"share_of_copy\": %.4f, "
                "\"kernels\": %u, \"compile_ms\": %.3f}",
                r->bytes, r->median_us, r->rate, r->share, r->kernels, r->compile_ms);
    }
    fputs("\n]\n", f);
    return fclose(f) == 0;
}

int tool_bench(sn_context *ctx, int argc, char **argv) {
    bench_args b = {.runs = 50, .o = {.struct_size = sizeof b.o}};
    int code = parse(&b, argc, argv);
    if (code != TOOL_OK) return code;
    if (b.show_help) return fputs(help, stdout), TOOL_OK;
    b.o.dims = b.dims.at;
    b.o.n_dims = b.dims.n;
    unsigned n = 0;
    bench_result *results = calloc((size_t)(argc - optind), sizeof *results);
    if (!results) return TOOL_FAILED;
    printf("%-36s %12s %10s %8s %8s %8s %9s\n", "file", "bytes", "us", "TB/s", "of copy", "kernels", "compile ms");
    for (int k = optind; k < argc; k++) {
        if (bench_file(&results[n], ctx, argv[k], &b) == SN_OK) {
            print_result(&results[n++]);
            continue;
        }
        fflush(stdout);
        fprintf(stderr, "%s: ", argv[k]);
        code = tool_fail(ctx);
    }
    if (b.json && !write_json(b.json, results, n)) {
        fprintf(stderr, "sinter: error: cannot write %s\n", b.json);
        code = TOOL_FAILED;
    }
    free(results);
    return code;
}
