/* bench_report.c: what `sinter bench` measured, as a table and as JSON lines. bench/README.md describes the fields. */
#include "tools/bench.h"

#include <math.h>
#include <string.h>

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu ...": the first word that begins with a digit. */
static void read_driver_version(char *out, size_t size) {
    char line[256] = "";
    FILE *f = fopen("/proc/driver/nvidia/version", "r");
    if (!f) return;
    if (fgets(line, sizeof line, f))
        for (char *rest = line, *word; (word = strtok_r(rest, " \t\n", &rest));) {
            if (word[0] < '0' || word[0] > '9') continue;
            snprintf(out, size, "%s", word);
            break;
        }
    fclose(f);
}

void bench_find_device(bench_device *out, const sn_cuda *cu) {
    snprintf(out->name, sizeof out->name, "%s", cu ? sn_cuda_name(cu) : "cpu");
    if (!cu) return;
    int version = sn_cuda_driver_version(cu);
    snprintf(out->cuda, sizeof out->cuda, "%d.%d", version / 1000, version % 1000 / 10);
    read_driver_version(out->driver, sizeof out->driver);
}

/* ---- table ---- */

void bench_print_head(const bench_device *d) {
    printf("%s", d->name);
    if (d->cuda[0]) printf(", CUDA %s", d->cuda);
    if (d->driver[0]) printf(", driver %s", d->driver);
    if (d->copy_rate > 0) printf(": a copy moves %.3f TB/s", d->copy_rate / 1e12);
    printf("\n%-38s %12s %10s %8s %8s %8s %8s %9s  %s\n", "workload", "bytes", "us", "TB/s", "of copy", "TFLOP/s",
           "kernels", "compile ms", "method");
    fflush(stdout);
}

void bench_print(const bench_result *r) {
    static const char *const bits[] = {"", ", same bits", ", DIFFERENT BITS"};
    char share[16] = "-", flop_rate[16] = "-";
    if (r->error[0]) {
        printf("%-38s failed: %s\n", r->name, r->error);
        fflush(stdout);
        return;
    }
    if (r->share > 0) snprintf(share, sizeof share, "%.1f%%", 100 * r->share);
    if (r->flops > 0) snprintf(flop_rate, sizeof flop_rate, "%.4g", r->flop_rate / 1e12);
    printf("%-38s %12.0f %10.2f %8.3f %8s %8s %8u %9.1f  %s%s", r->name, r->bytes, r->us, r->rate / 1e12, share,
           flop_rate, r->kernels, r->compile_ms, r->method, bits[r->bits]);
    if (r->precision) printf(", %s", r->precision);
    if (r->inputs) printf(", error %.2e (rms %.2e) on %s inputs", r->err, r->err_rms, r->inputs);
    putchar('\n');
    fflush(stdout);
}

/* ---- JSON ---- */

static void put_string(FILE *f, const char *key, const char *s) {
    fprintf(f, "\"%s\": \"", key);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') fputc('\\', f);
        if ((unsigned char)*s >= 0x20) fputc(*s, f);
    }
    fputc('"', f);
}

static void put_string_or_null(FILE *f, const char *key, const char *s) {
    if (s[0]) put_string(f, key, s);
    else fprintf(f, "\"%s\": null", key);
}

static void put_number_or_null(FILE *f, const char *key, double x) {
    if (x > 0) fprintf(f, "\"%s\": %.6g", key, x);
    else fprintf(f, "\"%s\": null", key);
}

/* JSON has neither infinities nor nan. */
static void put_error(FILE *f, const char *key, double x) {
    if (isfinite(x)) fprintf(f, ", \"%s\": %.3g", key, x);
    else fprintf(f, ", \"%s\": null", key);
}

static void put_errors(FILE *f, const bench_result *r) {
    put_error(f, "err", r->err);
    put_error(f, "err_rms", r->err_rms);
    fputs(", ", f);
    put_string(f, "inputs", r->inputs);
}

static void put_profile(FILE *f, const sn_profile *p) {
    fputs(", \"profile\": [", f);
    for (unsigned i = 0; i < p->n_rows; i++) {
        const sn_profile_row *row = &p->rows[i];
        fputs(i ? ", {" : "{", f);
        put_string(f, "kernel", row->name);
        fputs(", ", f);
        put_string(f, "made_of", row->made_of);
        fprintf(f, ", \"launches\": %u, \"us\": %.3f, \"bytes\": %.0f, \"flops\": %.6g, \"of_copy\": %.4g}",
                row->launches, row->us, row->bytes, row->flops, row->of_bound);
    }
    fputs("]", f);
}

void bench_json_head(FILE *f, const bench_device *d) {
    fputc('{', f);
    put_number_or_null(f, "copy_TBps", d->copy_rate / 1e12);
    fputs(", ", f);
    put_string(f, "device", d->name);
    fputs(", ", f);
    put_string_or_null(f, "cuda", d->cuda);
    fputs(", ", f);
    put_string_or_null(f, "driver", d->driver);
    fputs("}\n", f);
    fflush(f);
}

void bench_json(FILE *f, const bench_result *r, const bench_device *d) {
    fputc('{', f);
    put_string(f, "name", r->name);
    fputs(", ", f);
    put_string(f, "device", d->name);
    if (r->error[0]) {
        fputs(", ", f);
        put_string(f, "error", r->error);
        fputs("}\n", f);
        fflush(f);
        return;
    }
    fprintf(f, ", \"bytes\": %.0f, \"us\": %.3f, \"TBps\": %.6g, ", r->bytes, r->us, r->rate / 1e12);
    put_number_or_null(f, "share", r->share);
    if (r->flops > 0) fprintf(f, ", \"flops\": %.0f, \"TFLOPs\": %.6g", r->flops, r->flop_rate / 1e12);
    fprintf(f, ", \"kernels\": %u, \"launches\": %u, \"compile_ms\": %.3f, \"method\": \"%s\", \"runs\": %u",
            r->kernels, r->launches, r->compile_ms, r->method, r->runs);
    fprintf(f, ", \"passes_ms\": %.3f, \"codegen_ms\": %.3f, \"assemble_ms\": %.3f, \"load_ms\": %.3f", r->passes_ms,
            r->codegen_ms, r->assemble_ms, r->load_ms);
    if (r->cached) fprintf(f, ", \"cache_hits\": %u, \"cache_misses\": %u", r->cache_hits, r->cache_misses);
    if (r->events_us > 0) fprintf(f, ", \"events_us\": %.3f", r->events_us);
    if (r->graph_runs) fprintf(f, ", \"graph_runs\": %u, \"graph_sets\": %u", r->graph_runs, r->graph_sets);
    fprintf(f, ", \"workspace_bytes\": %zu", r->workspace);
    if (r->precision) {
        fputs(", ", f);
        put_string(f, "precision", r->precision);
    }
    if (r->tuned) {
        fputs(", ", f);
        put_string(f, "choices", r->choices);
    }
    if (r->inputs) put_errors(f, r);
    if (r->profile) put_profile(f, r->profile);
    if (r->bits != BITS_UNKNOWN) fprintf(f, ", \"same_bits\": %s", r->bits == BITS_SAME ? "true" : "false");
    fputs("}\n", f);
    fflush(f);
}
