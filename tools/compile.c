/* compile.c: `sinter compile`: a graph or model, compiled for one or several targets, as an image that runs without a compiler,
 * or as C source around one. Needs no GPU for a GPU's target.
 */
#include "tools/tool.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: sinter compile [options] FILE|- -o IMAGE|--emit-c DIR\n"
    "  -o IMAGE          the file to write: sinter run IMAGE, sn_program_load, sn_rt_load\n"
    "  --emit-c DIR      DIR/NAME.c and DIR/NAME.h, by the graph's name: builds against libsinter-rt\n"
    "  --freestanding    ... and without it: one target, which needs libcuda alone, or the C library (host)\n"
    "  --constants-file  ... with constants in DIR/NAME.bin, as those of more than 1 MiB are anyway\n"
    "  --without-weights IMAGE has no elements of weights: sinter run IMAGE --weights=FILE\n"
    "  --weights=FILE    a .safetensors file that has weights: they stay there, and IMAGE names it\n"
    "  --target=A,B      host, sm_75 .. sm_121, sm_90a, with figures sm_90a:units=114:l2=52428800; device: the CUDA\n"
    "                    device here, by its own figures: one file for all of them (host)\n"
    "  --dim N=8         the size that a name in shapes stands for (repeat)\n"
    "  --threads N       CPU threads\n"
    "  --choices=A,B     what products and convolutions may become (see run)\n"
    "  --tune=MODE       off, records (default), on\n"
    "  --record-dir=DIR  the records\n"
    "  --multi-kernel=W  kernels with several schedules: off (default), reductions, all; where no device has timed them,\n"
    "                    all are in the image, and whoever loads it times them\n"
    "  --precision=WORD  exact, high, tf32, bf16: of products of f32 that say nothing\n"
    "  --debug=WORDS     runs of --emit-c say what each kernel does (see run): --debug-kernels=K0,K1, --debug-dir=DIR;\n"
    "                    an image takes these when it is loaded\n"
    "  --verify=MODE     off, ends, each, paranoid\n"
    "  --cache=WHERE     generated code on disk, --cache-size=BYTES (see run)\n"
    "  --ptxas=FILE      the toolkit's assembler, which makes the cubins that nvJitLink cannot: auto (default: PATH,\n"
    "                    CUDA_HOME/bin, CUDA_PATH/bin, /usr/local/cuda*/bin), off, or a file with a / in it\n";

typedef struct compile_args {
    const char *path, *out, *c_folder;
    sn_save_options save;
    char *targets;
    tool_dims dims;
    sn_compile_options o;
    sn_source_options source;
    bool freestanding;
    sn_program *programs[TOOL_MAX_LIST];
    unsigned n;
    bool show_help;
} compile_args;

static int parse(compile_args *a, int argc, char **argv) {
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"emit-c", required_argument, NULL, 'c'},
                                            {"freestanding", no_argument, NULL, 'f'},
                                            {"constants-file", no_argument, NULL, 'b'},
                                            {"without-weights", no_argument, NULL, 'w'},
                                            {"weights", required_argument, NULL, 'W'},
                                            TOOL_TARGET,
                                            TOOL_DIM,
                                            TOOL_THREADS,
                                            TOOL_CHOICES,
                                            TOOL_TUNE,
                                            TOOL_RECORD_DIR,
                                            TOOL_PRECISION,
                                            TOOL_MULTI_KERNEL,
                                            TOOL_DEBUG,
                                            TOOL_VERIFY,
                                            TOOL_CACHE,
                                            TOOL_CACHE_SIZE,
                                            TOOL_PTXAS,
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        switch (c) {
        case 'o': a->out = optarg; break;
        case 'c': a->c_folder = optarg; break;
        case 'f': a->freestanding = true; break;
        case 'b': a->source.in_file = true; break;
        case 'w': a->save.without_weights = a->source.without_weights = true; break;
        case 'W': a->save.weights = optarg; break;
        case TOOL_OPTION_TARGET: a->targets = optarg; break;
        case 'h': a->show_help = true; return TOOL_OK;
        default:
            if (tool_compile_option(&a->o, &a->dims, c) != TOOL_OK) return TOOL_USAGE;
        }
    }
    if (argc - optind != 1) return tool_misuse("compile: one FILE is wanted, %d given", argc - optind);
    if (!a->out && !a->c_folder) return tool_misuse("compile: -o IMAGE or --emit-c DIR is missing");
    if (a->freestanding && (a->out || !a->c_folder || (a->targets && strchr(a->targets, ','))))
        return tool_misuse("compile: --freestanding wants --emit-c DIR, one target, and no -o");
    if (a->source.in_file && !a->freestanding) return tool_misuse("compile: --constants-file is for --freestanding");
    if (a->save.weights && (!a->out || a->save.without_weights))
        return tool_misuse("compile: --weights wants -o IMAGE, and no --without-weights");
    if (a->o.debug && !a->c_folder)
        return tool_misuse("compile: --debug is for --emit-c: an image takes it when it is loaded");
    a->path = argv[optind];
    return TOOL_OK;
}

/* The targets one after the other; their names are cut out of the argument. */
static sn_status compile_all(compile_args *a, sn_context *ctx, sn_graph *g) {
    static char host[] = "host";
    for (char *name = a->targets ? a->targets : host, *next; name; name = next) {
        next = strchr(name, ',');
        if (next) *next++ = 0;
        if (a->n == TOOL_MAX_LIST) return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "--target: at most %d", TOOL_MAX_LIST);
        bool here = !strcmp(name, "device");
        a->o.target = here ? NULL : name;
        a->o.device = here ? "cuda" : NULL;
        SN_TRY(sn_compile(&a->programs[a->n], g, &a->o));
        a->n++;
    }
    return SN_OK;
}

int tool_compile(sn_context *ctx, int argc, char **argv) {
    compile_args a = {.o = {.struct_size = sizeof a.o}, .save = {.struct_size = sizeof a.save}};
    int code = parse(&a, argc, argv);
    if (code != TOOL_OK) return code;
    if (a.show_help) return fputs(help, stdout), TOOL_OK;
    a.o.dims = a.dims.at;
    a.o.n_dims = tool_is_onnx(a.path) ? 0 : a.dims.n; /* a model takes them at its import */
    sn_graph *g = NULL;
    sn_status status = tool_load(&g, ctx, a.path, &a.dims, NULL);
    if (status == SN_OK && a.freestanding) {
        bool here = a.targets && !strcmp(a.targets, "device");
        a.o.target = here ? NULL : a.targets ? a.targets : "host";
        if (here) a.o.device = "cuda";
        status = sn_graph_emit_c(g, &a.o, a.c_folder, &a.source);
    } else if (status == SN_OK) {
        status = compile_all(&a, ctx, g);
    }
    if (status == SN_OK && a.out) status = sn_programs_save(ctx, a.n, a.programs, a.out, &a.save);
    if (status == SN_OK && a.c_folder && !a.freestanding) status = sn_programs_emit_c(ctx, a.n, a.programs, a.c_folder);
    if (status != SN_OK) code = tool_fail(ctx);
    for (unsigned i = 0; i < a.n; i++) sn_program_destroy(a.programs[i]);
    sn_graph_destroy(g);
    return code;
}
