/* cache.c: `sinter cache`: what is in the folder of generated code, deleting it, checking it. Compiles nothing. */
#include "tools/tool.h"

#include <string.h>

static const char help[] =
    "usage: sinter cache stat|clear|verify [options]\n"
    "  stat          how many files there are and what they come to\n"
    "  clear         delete them\n"
    "  verify        read them, delete what is damaged and what processes that ended left\n"
    "  --cache=WHERE the folder, with a / in it, or on: sinter/code in the user's cache folder (SINTER_CACHE, else on)\n"
    "  --dir=DIR     the folder, with or without a / in it\n";

static void print_sum(const char *what, sn_cache_sum sum) {
    printf("%-8s %8llu files %14llu bytes\n", what, (unsigned long long)sum.files, (unsigned long long)sum.bytes);
}

static void print_figures(const sn_cache_figures *figures) {
    for (int k = 0; k < SN_N_CACHE_KINDS; k++) print_sum(sn_cache_kind_names[k], figures->kinds[k]);
    if (figures->parts.files) print_sum("unfinished", figures->parts);
    if (figures->others.files) print_sum("others'", figures->others);
}

typedef struct cache_args {
    const char *what, *cache, *folder; /* cache: as other commands have it; folder: a path */
} cache_args;

static sn_status run_cache(sn_context *ctx, void *user) {
    const cache_args *a = user;
    sn_cache_figures figures;
    sn_cache_sum sum;
    const char *folder = a->folder;
    uint64_t size;
    if (!folder) SN_TRY(sn_cache_settings(&folder, &size, ctx, a->cache, NULL));
    if (!folder) SN_TRY(sn_cache_settings(&folder, &size, ctx, "on", NULL)); /* off: what earlier runs left */
    if (!strcmp(a->what, "clear")) {
        SN_TRY(sn_cache_clear(&sum, &ctx->env, folder));
        printf("%s\n", folder);
        print_sum("deleted", sum);
        return SN_OK;
    }
    bool verify = !strcmp(a->what, "verify");
    SN_TRY(verify ? sn_cache_verify(&figures, &sum, &ctx->env, folder) : sn_cache_stat(&figures, &ctx->env, folder));
    printf("%s\n", folder);
    print_figures(&figures);
    if (verify) print_sum("bad", sum);
    return SN_OK;
}

int tool_cache(sn_context *ctx, int argc, char **argv) {
    static const struct option options[] = {{"cache", optional_argument, NULL, 'c'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    static const char *const words[] = {"stat", "clear", "verify"};
    cache_args a = {0};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'h') return fputs(help, stdout), TOOL_OK;
        if (c == 'c') a.cache = optarg ? optarg : "on";
        else if (c == 'd') a.folder = optarg;
        else return TOOL_USAGE;
    }
    for (size_t k = 0; k < SN_COUNT(words) && argc - optind == 1; k++)
        if (!strcmp(argv[optind], words[k])) a.what = words[k];
    if (!a.what) return tool_misuse("cache: one of stat, clear, verify is wanted");
    return sn_guarded(ctx, run_cache, &a) == SN_OK ? TOOL_OK : tool_fail(ctx);
}
