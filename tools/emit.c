/* emit.c: `sinter emit`: what the compiler makes of a graph at one stage. Nothing is run and no device is needed. */
#include "tools/tool.h"

#include <stdio.h>

static const char help[] = "usage: sinter emit --stage=STAGE [options] FILE|-\n"
                           "  --stage=STAGE     graph, loops, fused, scheduled, llvm, ptx, wrapper, memory, wrapper-c\n"
                           "  --target=NAME     sm_75 .. sm_121 or host (sm_90)\n"
                           "  --dim N=8         the size that a name in shapes stands for (repeat)\n"
                           "  --passes=A,B      passes to run instead of the target's pipeline\n"
                           "  --choices=A,B     what products and convolutions may become (see run)\n"
                           "  --precision=WORD  exact, high, tf32, bf16: of products of f32 that say nothing\n"
                           "  --multi-kernel=WHICH  kernels with several schedules: off (default), reductions, all\n"
                           "  --cache=WHERE     generated code on disk, --cache-size=BYTES (see run)\n"
                           "  --threads N       CPU threads: of host kernels, and that compile\n"
                           "  --metrics=A,B     metric tables, --metrics-dir, --metrics-model (see run)\n"
                           "  --replace-kernel NAME=FILE  a kernel that was edited, .sn (see run)\n";

typedef struct emit_args {
    const char *stage, *path;
    tool_dims dims;
    sn_compile_options o;
    bool show_help;
} emit_args;

static int parse(emit_args *e, int argc, char **argv) {
    static const struct option options[] = {{"stage", required_argument, NULL, 's'},
                                            TOOL_TARGET,
                                            TOOL_DIM,
                                            {"passes", required_argument, NULL, 'p'},
                                            TOOL_PRECISION,
                                            TOOL_MULTI_KERNEL,
                                            TOOL_CHOICES,
                                            TOOL_CACHE,
                                            TOOL_CACHE_SIZE,
                                            TOOL_THREADS,
                                            TOOL_METRICS,
                                            TOOL_REPLACE_KERNEL,
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long_only(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 's': e->stage = optarg; break;
        case 'p': e->o.pipeline = optarg; break;
        case 'h': e->show_help = true; return TOOL_OK;
        default:
            if (tool_compile_option(&e->o, &e->dims, c) != TOOL_OK) return TOOL_USAGE;
        }
    }
    if (!e->stage) return tool_misuse("emit: --stage is missing");
    if (argc - optind != 1) return tool_misuse("emit: one FILE is wanted, %d given", argc - optind);
    e->path = argv[optind];
    return TOOL_OK;
}

int tool_emit(sn_context *ctx, int argc, char **argv) {
    emit_args e = {.o = {.struct_size = sizeof e.o, .target = "sm_90"}};
    int code = parse(&e, argc, argv);
    if (code != TOOL_OK) return code;
    if (e.show_help) return fputs(help, stdout), TOOL_OK;
    e.o.dims = e.dims.at;
    e.o.n_dims = tool_is_onnx(e.path) ? 0 : e.dims.n; /* a model takes them at its import */
    sn_graph *g;
    char *text;
    if (tool_load(&g, ctx, e.path, &e.dims, NULL) != SN_OK) return tool_fail(ctx);
    code = sn_graph_emit(&text, g, &e.o, e.stage) == SN_OK ? tool_print(ctx, text) : tool_fail(ctx);
    sn_graph_destroy(g);
    return code;
}
