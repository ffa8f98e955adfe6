/* tune.c: `sinter tune`: time the choices for the products and convolutions of a graph and the schedules of its other kernels, record the
 * winners, and print what was tried. On a terminal standard error shows how far it is.
 */
#include "tools/tool.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: sinter tune [options] FILE|-\n"
    "  --device=WHERE      auto, cpu, cuda\n"
    "  --ordinal=N         which CUDA device\n"
    "  --dim N=8           the size that a name in shapes stands for (repeat)\n"
    "  --budget=S          seconds for all together (60), at most two thirds of it for products and convolutions\n"
    "  --choices=A,B       what products and convolutions may become: template, extern, subgraph, or names of\n"
    "                      `sinter list choices`; other kernels are timed where `schedule` is among them\n"
    "  --again             time what is on record, too\n"
    "  --record-dir=DIR    where records are; off: none (sinter/records in the user's cache folder)\n"
    "  --threads N         CPU threads\n"
    "  --cpu-schedule=KIND host, gpu: kernels scheduled for a GPU run on the CPU\n"
    "  --json              one JSON object instead of tables\n";

enum { SHOWN = 10, BAR = 30 };

typedef struct tune_args {
    const char *path;
    tool_dims dims;
    sn_compile_options o;
    sn_tune_options how;
    bool json, show_help;
} tune_args;

static int parse(tune_args *t, int argc, char **argv) {
    static const struct option options[] = {TOOL_DEVICE,
                                            TOOL_ORDINAL,
                                            TOOL_DIM,
                                            {"budget", required_argument, NULL, 'b'},
                                            TOOL_CHOICES,
                                            {"again", no_argument, NULL, 'a'},
                                            TOOL_RECORD_DIR,
                                            TOOL_THREADS,
                                            TOOL_CPU_SCHEDULE,
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *end;
        switch (c) {
        case 'b':
            t->how.budget = strtod(optarg, &end);
            if (*end || end == optarg || !(t->how.budget > 0))
                return tool_misuse("--budget %s: seconds are wanted", optarg);
            break;
        case 'a': t->how.again = true; break;
        case 'j': t->json = true; break;
        case 'h': t->show_help = true; return TOOL_OK;
        default:
            if (tool_compile_option(&t->o, &t->dims, c) != TOOL_OK) return TOOL_USAGE;
        }
    }
    if (argc - optind != 1) return tool_misuse("tune: one FILE is wanted, %d given", argc - optind);
    t->path = argv[optind];
    return TOOL_OK;
}

/* ---- tables ---- */

/* The name of a choice, and where its parameters begin. */
static int name_length(const char **parameters, const char *choice) {
    size_t n = strcspn(choice, " ");
    *parameters = choice + n + strspn(choice + n, " ");
    return (int)n;
}

static unsigned count(const sn_tuned_product *p, const char *fate) {
    unsigned n = 0;
    for (unsigned k = 0; k < p->n_trials; k++) n += !strcmp(p->trials[k].fate, fate);
    return n;
}

static void print_trial(const sn_tune_trial *t, double best) {
    const char *parameters;
    int n = name_length(&parameters, t->choice);
    if (t->us > 0)
        printf("  %-12.*s %10.4f ms  %5.1f%%  %s\n", n, t->choice, t->us / 1e3, 100 * best / t->us, parameters);
    else printf("  %-12.*s %13s  %6s  %s%s%s\n", n, t->choice, t->fate, "", parameters, t->why[0] ? ": " : "", t->why);
}

static void print_product(const sn_tuned_product *p) {
    static const char *const fates[] = {"slow", "failed", "deviates", "left"};
    printf("AUTOTUNE %s\n", p->title);
    if (p->recorded) {
        printf("  %s: %.4f ms, on record\n", p->choice, p->us / 1e3);
        return;
    }
    if (!p->n_trials) {
        printf("  no time was left\n");
        return;
    }
    double best = p->n_trials ? p->trials[0].us : 0;
    unsigned timed = count(p, "timed");
    for (unsigned k = 0; k < p->n_trials && k < SHOWN; k++) print_trial(&p->trials[k], best);
    for (unsigned k = SHOWN; k < p->n_trials; k++) /* what is wrong is not left out */
        if (!strcmp(p->trials[k].fate, "deviates")) print_trial(&p->trials[k], best);
    printf("%u choices, %u timed", p->n_trials, timed);
    for (size_t k = 0; k < SN_COUNT(fates); k++)
        if (count(p, fates[k])) printf(", %u %s", count(p, fates[k]), fates[k]);
    if (p->persistent_us > 0 && p->looped_us > 0)
        printf("; rows in registers %.4f ms, looped over %.4f ms", p->persistent_us / 1e3, p->looped_us / 1e3);
    printf("; %.2f s, of which %.2f s until they were compiled. Chosen: %s\n", p->seconds, p->compile_seconds,
           p->choice[0] ? p->choice : "none could be run");
}

static void print_report(const sn_tune_report *r) {
    printf("%s\n", r->device);
    if (!r->n_products && !r->n_kernels)
        printf("no product, convolution or other kernel that takes long enough and has a choice that is open\n");
    for (unsigned k = 0; k < r->n_products; k++) print_product(&r->products[k]);
    for (unsigned k = 0; k < r->n_kernels; k++) print_product(&r->kernels[k]);
}

/* ---- JSON ---- */

static json_t *trial_json(const sn_tune_trial *t) {
    json_t *o = json_pack("{s:s, s:s}", "choice", t->choice, "fate", t->fate);
    if (t->why[0]) json_object_set_new(o, "why", json_string(t->why));
    if (t->us > 0) json_object_set_new(o, "us", json_real(t->us));
    if (t->cycles > 0) json_object_set_new(o, "cycles", json_real(t->cycles));
    return o;
}

static json_t *product_json(const sn_tuned_product *p) {
    json_t *trials = json_array();
    for (unsigned k = 0; k < p->n_trials; k++) json_array_append_new(trials, trial_json(&p->trials[k]));
    json_t *o = json_pack("{s:s, s:s, s:s, s:f, s:b, s:f, s:f, s:o}", "title", p->title, "graph", p->graph, "choice",
                          p->choice, "us", p->us, "recorded", (int)p->recorded, "seconds", p->seconds,
                          "compile_seconds", p->compile_seconds, "trials", trials);
    if (p->persistent_us > 0) json_object_set_new(o, "persistent_us", json_real(p->persistent_us));
    if (p->looped_us > 0) json_object_set_new(o, "looped_us", json_real(p->looped_us));
    return o;
}

static json_t *products_json(const sn_tuned_product *at, unsigned n) {
    json_t *all = json_array();
    for (unsigned k = 0; k < n; k++) json_array_append_new(all, product_json(&at[k]));
    return all;
}

static int print_json(const sn_tune_report *r) {
    json_t *o =
        json_pack("{s:s, s:s, s:o, s:o}", "device", r->device, "warning", r->warning, "products",
                  products_json(r->products, r->n_products), "kernels", products_json(r->kernels, r->n_kernels));
    char *text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
    json_decref(o);
    if (!text) return fputs("sinter: error: out of memory for JSON\n", stderr), TOOL_FAILED;
    puts(text);
    free(text);
    return TOOL_OK;
}

/* ---- the command ---- */

static void show_progress(void *user, const char *title, unsigned done, unsigned steps) {
    (void)user;
    int filled = steps ? (int)(BAR * done / steps) : BAR;
    fprintf(stderr, "\r\033[K[%.*s%*s] %u/%u %.60s", filled, "##############################", BAR - filled, "", done,
            steps, title);
    if (done >= steps) fputs("\r\033[K", stderr);
    fflush(stderr);
}

int tool_tune(sn_context *ctx, int argc, char **argv) {
    tune_args t = {.o = {.struct_size = sizeof t.o}, .how = {.struct_size = sizeof t.how}};
    int code = parse(&t, argc, argv);
    if (code != TOOL_OK) return code;
    if (t.show_help) return fputs(help, stdout), TOOL_OK;
    if (isatty(STDERR_FILENO)) t.how.progress = show_progress;
    t.o.dims = t.dims.at;
    t.o.n_dims = tool_is_onnx(t.path) ? 0 : t.dims.n; /* a model takes them at its import */
    sn_graph *g = NULL;
    sn_tune_report *r = NULL;
    sn_status status = tool_load(&g, ctx, t.path, &t.dims, NULL);
    if (status == SN_OK) status = sn_tune(&r, g, &t.o, &t.how);
    if (status != SN_OK) code = tool_fail(ctx);
    else if (t.json) code = print_json(r);
    else print_report(r);
    fflush(stdout);
    if (r && r->warning[0]) fprintf(stderr, "sinter: %s\n", r->warning);
    sn_tune_report_destroy(r);
    sn_graph_destroy(g);
    return code;
}
