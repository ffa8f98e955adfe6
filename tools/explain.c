/* explain.c: `sinter explain`: what becomes of a graph, in the terminal: the kernels that take longest with what bounds them and what would
 * help, fusions that were refused and what they would save, what was chosen and by how much.
 *
 * All of it is read off the rows that a compilation records (look.c): estimates of the model of GPUs, or times where the graph runs
 * on a device at hand. --json prints the same for programs.
 */
#include "tools/dump.h"

#include <math.h>
#include <string.h>

static const char help[] =
    "usage: sinter explain [options] MODEL.onnx|FILE.sn|-\n"
    "  --target=NAME     sm_75 .. sm_121, sm_90a ..: estimates for that GPU (sm_90a)\n"
    "  --device=WHERE    cuda, cpu: run it there on random inputs, and time each kernel\n"
    "  --top N           kernels and fusions that are shown (10)\n"
    "  --json            the same as JSON, with all kernels and fusions\n"
    "  --dump-dir DIR    every stage there: the module behind each pass, kernels, PTX, drawings for Graphviz\n"
    "  --trace FILE      phases and kernels as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing\n"
    "  --dim N=8         the size that a name in shapes stands for (repeat)\n"
    "  --precision=WORD  exact, high, tf32, bf16: of products of f32 that say nothing\n"
    "  --choices=A,B     what products and convolutions may become (see run)\n";

typedef struct explain_args {
    const char *path, *dump_dir, *trace;
    unsigned top;
    bool json, show_help;
    tool_dims dims;
    sn_compile_options o;
} explain_args;

static int parse(explain_args *e, int argc, char **argv) {
    static const struct option options[] = {TOOL_TARGET,
                                            TOOL_DEVICE,
                                            TOOL_DIM,
                                            {"top", required_argument, NULL, 't'},
                                            TOOL_PRECISION,
                                            {"json", no_argument, NULL, 'j'},
                                            {"dump-dir", required_argument, NULL, 'd'},
                                            {"trace", required_argument, NULL, 'r'},
                                            TOOL_CHOICES,
                                            TOOL_REPLACE_KERNEL,
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 't':
            if (!tool_unsigned(&e->top, optarg)) return tool_misuse("--top %s: a number is wanted", optarg);
            break;
        case 'j': e->json = true; break;
        case 'd':
            if (!*optarg) return tool_misuse("--dump-dir: a folder is wanted");
            e->dump_dir = optarg;
            break;
        case 'r': e->trace = optarg; break;
        case 'h': e->show_help = true; return TOOL_OK;
        default:
            if (tool_compile_option(&e->o, &e->dims, c) != TOOL_OK) return TOOL_USAGE;
        }
    }
    if (argc - optind != 1) return tool_misuse("explain: one FILE is wanted, %d given", argc - optind);
    if (e->o.target && e->o.device) return tool_misuse("explain: --target and --device exclude each other");
    if (!e->o.device && !e->o.target) e->o.target = "sm_90a";
    e->path = argv[optind];
    return TOOL_OK;
}

/* ---- in words ---- */

static const char *bytes_text(char out[24], double bytes) {
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    unsigned u = 0;
    for (; bytes >= 10000 && u + 1 < SN_COUNT(units); u++) bytes /= 1000;
    snprintf(out, 24, bytes < 100 && u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return out;
}

/* At most n characters. */
static const char *cut(char *out, size_t size, const char *text) {
    snprintf(out, size, "%s", text ? text : "");
    if (text && strlen(text) >= size && size > 3) memcpy(out + size - 3, "..", 3);
    return out;
}

static void print_head(const look *l) {
    const sn_row_graph_stats *g = SN_ROW(&l->log, GRAPH_STATS, graph_stats, 0);
    char a[24], b[24], c[24];
    printf("%s for %s: %lld nodes, %lld nests, %lld after fusion; %lld kernels in %lld launches\n", l->title, g->target,
           (long long)g->nodes, (long long)g->nests_before, (long long)g->nests_after, (long long)g->kernels,
           (long long)g->launches);
    printf("fusion: %s of traffic instead of %s; intermediate values take %s\n", bytes_text(a, (double)g->bytes_after),
           bytes_text(b, (double)g->bytes_before), bytes_text(c, (double)g->workspace));
    printf("a run: %.1f us %s", l->total_us, l->profile ? "measured, kernel by kernel" : "estimated");
    if (l->rate > 0)
        printf("; its inputs, weights and outputs take %.1f us at the rate of a copy (%s a second, %s)",
               (double)g->moved / l->rate * 1e6, bytes_text(a, l->rate), l->rate_is);
    printf("\n");
}

static void print_kernel(const look *l, const look_kernel *k) {
    char what[48], share[16] = "-";
    if (k->least_us > 0 && k->us > 0) snprintf(share, sizeof share, "%.0f %%", 100 * k->least_us / k->us);
    printf("  %-10s %5u %10.2f %6.1f %% %8s  %-17s %-13s %s\n", k->row->kernel, k->calls, k->us,
           l->total_us > 0 ? 100 * k->us / l->total_us : 0.0, share, k->estimate ? k->estimate->bound : "-",
           k->row->class, cut(what, sizeof what, k->row->made_of));
    if (k->row->from) printf("  %10s from %s\n", "", k->row->from);
    if (k->estimate) printf("  %10s bound by %s\n  %10s %s\n", "", k->estimate->why, "", k->advice);
    if (k->row->registers != SN_UNKNOWN)
        printf("  %10s %lld registers, %lld bytes spilled, %lld bytes of shared memory\n", "",
               (long long)k->row->registers, (long long)k->row->spills, (long long)k->row->shared_memory);
}

static void print_kernels(const look *l, unsigned top) {
    printf("\nkernels that take longest\n  %-10s %5s %10s %8s %8s  %-17s %-13s %s\n", "kernel", "calls", "us", "of run",
           "of copy", "bound by", "schedule", "made of");
    for (uint32_t i = 0; i < l->n_kernels && i < top && l->kernels[i].calls; i++) print_kernel(l, &l->kernels[i]);
    printf("  of copy: the part of its time that its bytes would take at the rate of a copy\n");
}

static void print_refusals(look *l, unsigned top) {
    look_refusal *at;
    uint32_t n = look_refusals(&at, l);
    printf("\nfusions that were refused, by what they would save\n  %-12s %8s %6s  %-24s why not\n", "traffic", "us",
           "times", "kernels");
    for (uint32_t i = 0; i < n && i < top; i++) {
        char bytes[24], us[16] = "-", who[64];
        if (l->rate > 0) snprintf(us, sizeof us, "%.2f", (double)at[i].saves / l->rate * 1e6);
        snprintf(who, sizeof who, "%s, %s", at[i].row->first, at[i].row->second);
        printf("  %-12s %8s %6u  %-24s %s\n", bytes_text(bytes, (double)at[i].saves), us, at[i].times, who,
               at[i].row->reason);
    }
    if (!n) printf("  none\n");
    if (n > top) printf("  and %u more kinds\n", n - top);
}

/* The same choice for the same sizes, once. */
static void print_choices(const look *l) {
    uint32_t n = l->log.rows[SN_METRIC_CHOICES].n;
    if (n) printf("\nwhat products and convolutions became\n");
    for (uint32_t i = 0; i < n; i++) {
        const sn_row_choices *c = SN_ROW(&l->log, CHOICES, choices, i);
        unsigned times = 0;
        bool before = false;
        for (uint32_t k = 0; k < n; k++) {
            const sn_row_choices *o = SN_ROW(&l->log, CHOICES, choices, k);
            bool same = !strcmp(o->sizes, c->sizes) && !strcmp(o->choice, c->choice);
            before |= same && k < i;
            times += same;
        }
        if (!before) printf("  %-52s %4u times  %s (%s)\n", c->sizes, times, c->choice, c->by);
    }
}

static void print_margins(const look *l, unsigned top) {
    bool first = true;
    for (uint32_t i = 0; i < l->n_kernels && i < top; i++) {
        look_margin m;
        if (!look_margin_of(&m, l, l->kernels[i].row->kernel)) continue;
        if (first) printf("\nschedules that were considered for them, by the model\n");
        first = false;
        double margin = m.chosen->cycles > 0 ? 100 * (m.other->cycles / m.chosen->cycles - 1) : 0;
        printf("  %-10s %u considered; %s: %.0f cycles\n  %10s next %s: %+.1f %%\n", m.chosen->kernel, m.considered,
               m.chosen->schedule, m.chosen->cycles, "", m.other->schedule, margin);
    }
    if (!first) printf("  less than 0: the class counts what this model does not know, and chose against it\n");
}

/* ---- as JSON ---- */

static json_t *kernel_json(const look *l, const look_kernel *k) {
    json_t *o = look_row_json(SN_METRIC_KERNEL_METADATA, k->row);
    look_margin m;
    json_object_set_new(o, "us", look_real(k->us));
    json_object_set_new(o, "estimate_us", look_real(k->estimate_us));
    json_object_set_new(o, "measured_us", look_real(k->measured_us));
    json_object_set_new(o, "least_us", look_real(k->least_us));
    json_object_set_new(o, "run_calls", json_integer(k->calls));
    json_object_set_new(o, "bound", k->estimate ? look_row_json(SN_METRIC_ESTIMATES, k->estimate) : json_null());
    json_object_set_new(o, "advice", json_string_nocheck(k->advice));
    bool has = look_margin_of(&m, l, k->row->kernel);
    json_object_set_new(o, "next_schedule", has ? look_row_json(SN_METRIC_CANDIDATES, m.other) : json_null());
    return o;
}

static int print_json(look *l) {
    json_t *all = json_object(), *kernels = json_array(), *refused = json_array(), *choices = json_array();
    look_refusal *at;
    uint32_t n = look_refusals(&at, l);
    for (uint32_t i = 0; i < l->n_kernels; i++) json_array_append_new(kernels, kernel_json(l, &l->kernels[i]));
    for (uint32_t i = 0; i < n; i++) {
        json_t *o = look_row_json(SN_METRIC_FUSION_FAILURES, at[i].row);
        json_object_set_new(o, "times", json_integer(at[i].times));
        json_object_set_new(o, "all_save", json_integer(at[i].saves));
        json_array_append_new(refused, o);
    }
    for (uint32_t i = 0; i < l->log.rows[SN_METRIC_CHOICES].n; i++)
        json_array_append_new(choices, look_row_json(SN_METRIC_CHOICES, l->log.rows[SN_METRIC_CHOICES].at[i]));
    json_object_set_new(all, "title", json_string_nocheck(l->title));
    json_object_set_new(all, "graph", look_row_json(SN_METRIC_GRAPH_STATS, l->log.rows[SN_METRIC_GRAPH_STATS].at[0]));
    json_object_set_new(all, "total_us", look_real(l->total_us));
    json_object_set_new(all, "measured", json_boolean(l->profile != NULL));
    json_object_set_new(all, "copy_rate", l->rate > 0 ? json_real(l->rate) : json_null());
    json_object_set_new(all, "kernels", kernels);
    json_object_set_new(all, "refused", refused);
    json_object_set_new(all, "choices", choices);
    int code = json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0 ? TOOL_OK : TOOL_FAILED;
    json_decref(all);
    printf("\n");
    return code;
}

static int explain(look *l, const explain_args *e) {
    if (e->json) return print_json(l);
    print_head(l);
    print_kernels(l, e->top);
    print_refusals(l, e->top);
    print_choices(l);
    print_margins(l, e->top);
    return TOOL_OK;
}

int tool_explain(sn_context *ctx, int argc, char **argv) {
    explain_args e = {.top = 10, .o = {.struct_size = sizeof e.o}};
    look l = {0};
    sn_graph *g;
    int code = parse(&e, argc, argv);
    if (code != TOOL_OK) return code;
    if (e.show_help) return fputs(help, stdout), TOOL_OK;
    e.o.dims = e.dims.at;
    e.o.n_dims = tool_is_onnx(e.path) ? 0 : e.dims.n;
    dump *dumped = e.dump_dir ? dump_open(e.dump_dir) : NULL;
    int written = e.dump_dir && !dumped ? TOOL_FAILED : TOOL_OK; /* what cannot be written keeps nobody from the text */
    l.pass = dumped ? dump_pass : NULL;
    l.pass_user = dumped;
    if (tool_load(&g, ctx, e.path, &e.dims, NULL) != SN_OK) return dump_close(dumped), tool_fail(ctx);
    const char *slash = strrchr(e.path, '/');
    sn_status status = look_at(&l, ctx, g, &e.o, slash ? slash + 1 : e.path);
    code = status == SN_OK ? explain(&l, &e) : tool_fail(ctx);
    if (code == TOOL_OK && dumped && dump_finish(dumped, &l) != TOOL_OK) written = TOOL_FAILED;
    if (code == TOOL_OK && e.trace && dump_trace(&l, e.trace) != TOOL_OK) written = TOOL_FAILED;
    if (code == TOOL_OK) code = written;
    dump_close(dumped);
    look_close(&l);
    sn_graph_destroy(g);
    return code;
}
