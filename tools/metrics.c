/* metrics.c: `sinter metrics`: files of metric tables are emptied; a cubin says what it says to them. */
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: sinter metrics empty [--metrics-dir=FOLDER] [TABLE,TABLE...]\n"
    "       sinter metrics cubin FILE [KERNEL]\n"
    "empty: what is left of each file is its header; all tables unless some are named\n"
    "cubin: registers, stack and static shared memory of a kernel, the first unless one is named\n"
    "`sinter list metrics` names the tables; the option metrics and SINTER_METRICS choose some.\n";

static int empty(sn_context *ctx, int argc, char **argv) {
    static const struct option options[] = {{"metrics-dir", required_argument, NULL, 'd'}, {NULL, 0, NULL, 0}};
    const char *folder = ".";
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c != 'd') return TOOL_USAGE;
        folder = optarg;
    }
    if (argc - optind > 1) return tool_misuse("metrics empty: one list of tables is wanted, %d given", argc - optind);
    const char *tables = optind < argc ? argv[optind] : "all";
    return sn_metrics_empty(ctx, folder, tables) == SN_OK ? TOOL_OK : tool_fail(ctx);
}

typedef struct cubin_args {
    const char *path, *kernel;
    sn_cubin_figures figures;
} cubin_args;

static sn_status read_cubin(sn_context *ctx, void *user) {
    cubin_args *a = user;
    char *bytes;
    size_t size;
    SN_TRY(sn_file_read(&bytes, &size, &ctx->env, &ctx->scratch, a->path));
    if (sn_cubin_read(&a->figures, bytes, size, a->kernel)) return SN_OK;
    return sn_fail(&ctx->env, SN_ERROR_FILE, "%s: it is no cubin%s%s", a->path, a->kernel ? " with a kernel " : "",
                   a->kernel ? a->kernel : "");
}

static int cubin(sn_context *ctx, int argc, char **argv) {
    if (argc < 2 || argc > 3) return tool_misuse("metrics cubin: FILE and maybe KERNEL are wanted");
    cubin_args a = {.path = argv[1], .kernel = argc > 2 ? argv[2] : NULL};
    if (sn_guarded(ctx, read_cubin, &a) != SN_OK) return tool_fail(ctx);
    printf("registers %u, stack %u, shared %u\n", a.figures.registers, a.figures.stack, a.figures.shared);
    return TOOL_OK;
}

int tool_metrics(sn_context *ctx, int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--help")) return fputs(help, stdout), TOOL_OK;
    if (argc > 1 && !strcmp(argv[1], "empty")) return empty(ctx, argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "cubin")) return cubin(ctx, argc - 1, argv + 1);
    return tool_misuse("metrics: one of empty, cubin is wanted");
}
