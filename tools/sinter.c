/* sinter.c: the command line tool: finds the subcommand and runs it on a fresh context. */
#include "tools/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tool_command commands[] = {
    {"import", tool_import, "[options] MODEL.onnx", "read an ONNX model, or say what of it is not supported"},
    {"opt", tool_opt, "[options] FILE", "run passes on module text and print the result"},
    {"run", tool_run, "[options] FILE|IMAGE", "compile a graph, run it, print or save its outputs"},
    {"compile", tool_compile, "[options] FILE -o IMAGE", "compile a graph to a file that runs without a compiler"},
    {"image", tool_image, "show|verify IMAGE", "look at such a file"},
    {"emit", tool_emit, "--stage=STAGE [options] FILE", "print what the compiler makes of a graph"},
    {"explain", tool_explain, "[options] FILE",
     "what takes time in a graph, what bounds it, what was not fused and why"},
    {"report", tool_report, "[options] FILE -o FILE.html", "one page about all that becomes of a graph"},
    {"eval", tool_eval, "[options] FILE", "evaluate a graph in float64, or kernels one statement at a time"},
    {"list", tool_list, "ops|passes|schedules|choices|devices|options|targets|metrics", "print a table of the library"},
    {"conform", tool_conform, "[options]", "run every operation on every dtype against the evaluator"},
    {"random", tool_random, "[options]", "run random graphs against the evaluator"},
    {"onnx-suite", tool_onnx_suite, "[options] DIR...", "run tests of the ONNX project"},
    {"bench", tool_bench, "[options] FILE|FOLDER...", "time graphs"},
    {"cache", tool_cache, "stat|clear|verify [options]", "look at generated code on disk, delete it, check it"},
    {"metrics", tool_metrics, "empty|cubin [options]", "empty files of metric tables; registers of a cubin"},
    {"tune", tool_tune, "[options] FILE",
     "time the choices for the products and convolutions of a graph, and record the fastest"},
};

static void print_usage(FILE *out) {
    fprintf(out, "Sinter %s, a JIT compiler for tensor graphs\n\nusage:\n", sn_version());
    for (size_t k = 0; k < SN_COUNT(commands); k++)
        fprintf(out, "  sinter %-10s %-36s %s\n", commands[k].name, commands[k].usage, commands[k].doc);
    fprintf(out, "  sinter COMMAND --help                        its options\n  sinter --version\n\n"
                 "FILE is .sn text, - is standard input. Exit code: 0 fine, 1 failed, 2 wrong command line.\n");
}

int tool_fail(const sn_context *ctx) {
    fflush(stdout);
    fprintf(stderr, "sinter: error: %s\n", sn_error(ctx)[0] ? sn_error(ctx) : "out of memory");
    return TOOL_FAILED;
}

int tool_misuse(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("sinter: error: ", stderr);
    vfprintf(stderr, format, args);
    fputs(" (see sinter --help)\n", stderr);
    va_end(args);
    return TOOL_USAGE;
}

int tool_print(sn_context *ctx, char *text) {
    fputs(text, stdout);
    sn_free(ctx, text);
    return TOOL_OK;
}

/* The reason is known when what could not be written is still there to be flushed once more. */
/* A write that failed before is what the file remembers, and why is still in errno: its writer calls nothing else. */
int tool_close(FILE *file, const char *path) {
    int why = ferror(file) ? errno : 0;
    errno = 0;
    bool bad = fflush(file) != 0 || ferror(file);
    if (errno) why = errno;
    if (fclose(file) != 0 && !bad) bad = true, why = errno;
    if (!bad) return TOOL_OK;
    fflush(stdout);
    fprintf(stderr, "sinter: error: cannot write %s%s%s\n", path, why ? ": " : "", why ? strerror(why) : "");
    return TOOL_FAILED;
}

int tool_write(const char *path, const sn_file_part *parts, uint32_t n) {
    if (sn_file_place(path, parts, n, SN_FILE_PUBLIC)) return TOOL_OK;
    int why = errno;
    fflush(stdout);
    fprintf(stderr, "sinter: error: cannot write %s: %s\n", path, strerror(why));
    return TOOL_FAILED;
}

/* ---- values of options ---- */

bool tool_u64(uint64_t *out, const char *text) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *end == 0 && errno == 0;
}

bool tool_unsigned(unsigned *out, const char *text) {
    uint64_t wide;
    if (!tool_u64(&wide, text) || wide > 1u << 30) return false;
    *out = (unsigned)wide;
    return true;
}

/* Cut "name=value" in two; NULL without '='. */
static char *cut(char *text) {
    char *equals = strchr(text, '=');
    if (!equals || equals == text) return NULL;
    *equals = 0;
    return equals + 1;
}

/* Refused: the text is whole again for the message. */
static bool uncut(char *value) {
    if (value) value[-1] = '=';
    return false;
}

bool tool_add_dim(tool_dims *dims, char *text) {
    uint64_t size;
    char *value = cut(text);
    if (!value || dims->n == TOOL_MAX_LIST || !tool_u64(&size, value) || size > INT64_MAX) return uncut(value);
    dims->at[dims->n++] = (sn_dim_binding){text, (int64_t)size};
    return true;
}

bool tool_add_input(tool_inputs *in, char *text) {
    char *value = cut(text);
    if (!value || !value[0] || in->n == TOOL_MAX_LIST) return uncut(value);
    in->names[in->n] = text;
    in->values[in->n++] = value;
    return true;
}

/* What the library says beside results: a record that does not count, a cache that cannot be used. */
static void on_log(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "sinter: %s", text);
}

/* Output that did not arrive is a failure: a full disk, a closed pipe. */
static int finish(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    if (code == TOOL_OK) fprintf(stderr, "sinter: error: cannot write standard output: %s\n", strerror(errno));
    return TOOL_FAILED;
}

int main(int argc, char **argv) {
    static char its_help[] = "--help";
    if (argc > 2 && !strcmp(argv[1], "help")) argv[1] = argv[2], argv[2] = its_help, argc = 3;
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_usage(stdout);
        return finish(TOOL_OK);
    }
    if (!strcmp(name, "--version")) {
        printf("sinter %s (LLVM %s)\n", sn_version(), sn_llvm_version());
        return finish(TOOL_OK);
    }
    for (size_t k = 0; k < SN_COUNT(commands); k++) {
        if (strcmp(name, commands[k].name)) continue;
        sn_context *ctx;
        sn_context_options options = {.struct_size = sizeof options, .log = on_log};
        if (sn_context_create(&ctx, &options) != SN_OK) return TOOL_FAILED;
        char title[32]; /* what getopt_long begins its messages with */
        snprintf(title, sizeof title, "sinter: error: %s", name);
        argv[1] = title;
        int code = commands[k].run(ctx, argc - 1, argv + 1);
        sn_context_destroy(ctx);
        return finish(code);
    }
    if (argc < 2) {
        print_usage(stderr);
        return TOOL_USAGE;
    }
    return tool_misuse("unknown command '%s'", name);
}
