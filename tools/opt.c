/* opt.c: `sinter opt`: module text in, passes, module text out. Dumps that were asked for go to standard output as
 * module text behind a `# after PASS` comment, so that each parses back; remarks and times go to standard error.
 */
#include "tools/tool.h"

#include "frontend/multi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: sinter opt [options] FILE|-\n"
    "  -passes=A,B         passes to run; empty: print the module back; not given: the target's pipeline\n"
    "  -target=NAME        sm_75 .. sm_121 or host (sm_90)\n"
    "  -print-before=A,B   module text before these passes, or all\n"
    "  -print-after=A,B    module text after these passes, or all\n"
    "  -print-changed      module text after each pass that changed something\n"
    "  -quiet              print no final module\n"
    "  -stop-after=A       run no pass after A\n"
    "  -verify=MODE        off, ends, each (default), paranoid: print, parse and go on with the copy\n"
    "  -remarks=A,B        what these passes say about their choices, or all\n"
    "  -choices=A,B        what products and convolutions may become: template, extern, subgraph, or `sinter list choices`\n"
    "  -multi-kernel=WHICH off (default), reductions, all: kernels with several schedules; ,any: also short ones\n"
    "  -check-meaning[=E]  evaluate before and after on random inputs; kernels must keep their bits, or a relative error E\n"
    "  -time-passes        host time of each pass\n"
    "  -repro-dir=DIR      where the module before a failing pass is written\n";

typedef struct opt_args {
    const char *path, *target, *verify, *multi_kernel;
    bool quiet, show_help, check_meaning;
    double bound; /* of check_meaning */
    sn_pass_options passes;
    sn_context *ctx;
} opt_args;

static void on_print(void *user, const char *text) {
    (void)user;
    bool module_text = !strncmp(text, "# after ", 8) || !strncmp(text, "# before ", 9);
    fputs(text, module_text ? stdout : stderr);
}

static sn_status on_write(void *user, const char *path, const char *text) {
    opt_args *o = user;
    return sn_file_write(&o->ctx->env, path, text, strlen(text));
}

static sn_status transform(sn_context *ctx, const opt_args *o, const sn_target *target, sn_module **m) {
    char *text;
    size_t size;
    SN_TRY(sn_file_read(&text, &size, &ctx->env, &ctx->scratch, o->path));
    SN_TRY(sn_module_parse(*m, strcmp(o->path, "-") ? o->path : "<stdin>", text, size));
    tool_results before, after;
    if (o->check_meaning) SN_TRY(tool_evaluate(&before, NULL, ctx, *m));
    SN_TRY(sn_passes_run(m, target, &o->passes));
    if (o->check_meaning) {
        SN_TRY(tool_evaluate(&after, &before, ctx, *m));
        SN_TRY(tool_compare(&before, &after, ctx, *m, o->bound));
    }
    if (o->quiet) return SN_OK;
    sn_text out;
    sn_text_init(&out, &ctx->env);
    sn_module_print(&out, *m);
    fputs(out.s, stdout);
    sn_text_free(&out);
    return SN_OK;
}

/* Whether a library has a product, not whether one is here: the text that comes out is the same everywhere. */
static bool has_product(void *target, const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    return sn_library_has(call, ((const sn_target *)target)->is_gpu, why);
}

static sn_status optimise(sn_context *ctx, void *args) {
    opt_args *o = args;
    sn_target target;
    const char *forced;
    SN_TRY(sn_verify_from_name(&o->passes.verify, &ctx->env, o->verify));
    SN_TRY(sn_multi_read(&o->passes.choosing.multi, &forced, &ctx->env, o->multi_kernel));
    o->passes.choosing.multi_short = forced;
    if (!strcmp(o->target, "host")) sn_target_host(&target, 1);
    else SN_TRY(sn_target_named(&target, &ctx->env, o->target));
    o->passes.library = &(sn_library){has_product, &target};
    sn_module *m = sn_module_new(&ctx->env);
    sn_status status = transform(ctx, o, &target, &m);
    sn_module_free(m);
    return status;
}

static int parse(opt_args *o, int argc, char **argv) {
    static const struct option options[] = {{"passes", required_argument, NULL, 'p'},
                                            {"target", required_argument, NULL, 't'},
                                            {"print-before", required_argument, NULL, 'b'},
                                            {"print-after", required_argument, NULL, 'a'},
                                            {"print-changed", no_argument, NULL, 'c'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"stop-after", required_argument, NULL, 's'},
                                            {"verify", required_argument, NULL, 'v'},
                                            {"remarks", required_argument, NULL, 'r'},
                                            {"choices", required_argument, NULL, 'C'},
                                            {"multi-kernel", required_argument, NULL, 'M'},
                                            {"check-meaning", optional_argument, NULL, 'm'},
                                            {"time-passes", no_argument, NULL, 'T'},
                                            {"repro-dir", required_argument, NULL, 'R'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    char *end;
    for (int c; (c = getopt_long_only(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'p': o->passes.pipeline = optarg; break;
        case 't': o->target = optarg; break;
        case 'b': o->passes.print_before = optarg; break;
        case 'a': o->passes.print_after = optarg; break;
        case 'c': o->passes.print_changed = true; break;
        case 'q': o->quiet = true; break;
        case 's': o->passes.stop_after = optarg; break;
        case 'v': o->verify = optarg; break;
        case 'r': o->passes.remarks = optarg; break;
        case 'C': o->passes.choosing.allowed = optarg; break;
        case 'M': o->multi_kernel = optarg; break;
        case 'm':
            o->check_meaning = true;
            if (optarg && (o->bound = strtod(optarg, &end), *end || !(o->bound >= 0)))
                return tool_misuse("opt: -check-meaning=%s: a number is wanted", optarg);
            break;
        case 'T': o->passes.time_passes = true; break;
        case 'R': o->passes.repro_dir = optarg; break;
        case 'h': o->show_help = true; return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (argc - optind != 1) return tool_misuse("opt: one FILE is wanted, %d given", argc - optind);
    o->path = argv[optind];
    return TOOL_OK;
}

int tool_opt(sn_context *ctx, int argc, char **argv) {
    opt_args o = {.target = "sm_90", .verify = "each", .multi_kernel = "off", .ctx = ctx};
    o.passes.print = on_print;
    o.passes.print_user = &o;
    o.passes.write_file = on_write;
    int code = parse(&o, argc, argv);
    if (code != TOOL_OK) return code;
    if (o.show_help) return fputs(help, stdout), TOOL_OK;
    return sn_guarded(ctx, optimise, &o) == SN_OK ? TOOL_OK : tool_fail(ctx);
}
