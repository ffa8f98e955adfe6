/* conform.c: `sinter conform`: compiles and runs every case of conform.def and compares with the float64 evaluator, by
 * the bounds of frontend/check.c, as `sinter run --check` does.
 *
 * Cases are joined to graphs of up to GROUP outputs, because a compilation costs more than a small case; for a GPU the
 * kernels of a group share launches (the pass `horizontal-fuse`), which --one-by-one keeps apart. A group that does not compile,
 * or an output that is wrong, is run again alone: what is reported is what the reproducer shows. Workers have a context
 * each and take groups from one counter; results are printed in the order of the cases. With --check-kernels no code is
 * made: the kernels run under the checker (ir/loop/check.c).
 */
#include "runtime/threads.h"
#include "tools/conform.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { GROUP = 16, MAX_WORKERS = 256, MAX_SHOWN = 50 };

static const char help[] =
    "usage: sinter conform [options]\n"
    "  --device=WHERE          cpu (default), cuda\n"
    "  --target=NAME           with --cpu-schedule=gpu: the GPU (sm_90)\n"
    "  --cpu-schedule=KIND     host (default), gpu: kernels scheduled for a GPU on the CPU, both\n"
    "  --one-by-one            a graph for each case, whose kernels share no launch with others\n"
    "  --check-kernels         look for races and the like in the kernels instead of running their code\n"
    "  --quick                 a fixed part that has every operation on every dtype\n"
    "  --again=N               run each case N times more: outputs with other bits are failures\n"
    "  --huge                  also the cases of 40 million elements\n"
    "  --only=TEXT             cases whose name (add_f32_57) contains TEXT\n"
    "  --except=A,B            cases whose name contains none of these\n"
    "  --dtype=NAME            cases of one dtype\n"
    "  --list                  print the cases, run nothing\n"
    "  --json=FILE             write every result\n"
    "  --repro=DIR             write a .sn file of every failure\n"
    "  --threads=N             workers (as many as there are processors that it may run on)\n"
    "  --choices=A,B           what products and convolutions may become (see run): padded\n"
    "  --verify=MODE           off, ends, each, paranoid\n";

typedef struct conform_args {
    const char *device, *target, *schedule, *only, *except, *json, *repro, *verify, *choices;
    sn_dtype dtype; /* SN_N_DTYPES: all */
    unsigned threads, again;
    bool quick, huge, list, alone, check_kernels, show_help;
} conform_args;

static int parse(conform_args *r, int argc, char **argv) {
    static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                            {"target", required_argument, NULL, 'T'},
                                            {"cpu-schedule", required_argument, NULL, 's'},
                                            {"again", required_argument, NULL, 'A'},
                                            {"quick", no_argument, NULL, 'q'},
                                            {"only", required_argument, NULL, 'o'},
                                            {"except", required_argument, NULL, 'x'},
                                            {"dtype", required_argument, NULL, 't'},
                                            {"list", no_argument, NULL, 'l'},
                                            {"json", required_argument, NULL, 'j'},
                                            {"repro", required_argument, NULL, 'r'},
                                            {"threads", required_argument, NULL, 'n'},
                                            {"verify", required_argument, NULL, 'v'},
                                            {"choices", required_argument, NULL, 'C'},
                                            {"one-by-one", no_argument, NULL, 'a'},
                                            {"check-kernels", no_argument, NULL, 'k'},
                                            {"huge", no_argument, NULL, 'H'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'd': r->device = optarg; break;
        case 'T': r->target = optarg; break;
        case 's': r->schedule = optarg; break;
        case 'A':
            if (!tool_unsigned(&r->again, optarg)) return tool_misuse("--again %s: a number is wanted", optarg);
            break;
        case 'C': r->choices = optarg; break;
        case 'q': r->quick = true; break;
        case 'H': r->huge = true; break;
        case 'o': r->only = optarg; break;
        case 'x': r->except = optarg; break;
        case 't':
            if (!sn_dtype_from_name(&r->dtype, optarg))
                return tool_misuse("--dtype %s: there is no such dtype", optarg);
            break;
        case 'l': r->list = true; break;
        case 'j': r->json = optarg; break;
        case 'r': r->repro = optarg; break;
        case 'n':
            if (!tool_unsigned(&r->threads, optarg)) return tool_misuse("--threads %s: a number is wanted", optarg);
            break;
        case 'v': r->verify = optarg; break;
        case 'a': r->alone = true; break;
        case 'k': /* the kernels of a GPU have threads to look at */
            r->check_kernels = true;
            if (!strcmp(r->schedule, "host")) r->schedule = "gpu";
            break;
        case 'h': r->show_help = true; return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (optind != argc) return tool_misuse("conform: takes no FILE, %s given", argv[optind]);
    if (strcmp(r->device, "cpu") && strcmp(r->device, "cuda"))
        return tool_misuse("--device %s: cpu or cuda is wanted", r->device);
    if (strcmp(r->schedule, "host") && strcmp(r->schedule, "gpu") && strcmp(r->schedule, "both"))
        return tool_misuse("--cpu-schedule %s: host, gpu or both is wanted", r->schedule);
    return TOOL_OK;
}

/* ---- groups ---- */

typedef struct group {
    conform_case *cases[GROUP];
    unsigned n;
} group;

typedef struct job {
    const conform_args *args;
    const char *schedule;
    group *groups;
    unsigned n_groups;
    atomic_uint next;
} job;

static bool joins(const group *g, const conform_case *c) {
    const conform_case *last = g->cases[g->n - 1];
    return g->n < GROUP && !last->refusal && !c->refusal && last->dtype == c->dtype &&
           last->precision == c->precision && last->level < CONFORM_LARGE && c->level < CONFORM_LARGE &&
           sn_ops[last->op].cls == sn_ops[c->op].cls;
}

/* Neighbours of one class and dtype are joined, unless each is to be alone. NULL: out of memory. */
static group *make_groups(unsigned *n, conform_suite *suite, bool alone) {
    group *groups = calloc(suite->n + 1, sizeof *groups);
    *n = 0;
    for (unsigned k = 0; groups && k < suite->n; k++) {
        if (*n == 0 || alone || !joins(&groups[*n - 1], &suite->at[k])) ++*n;
        group *g = &groups[*n - 1];
        g->cases[g->n++] = &suite->at[k];
    }
    return groups;
}

/* ---- running ---- */

/* Names of inputs that are not random with their value, for tool_program_tensors. */
static void give_values(tool_inputs *in, const group *g) {
    conform_value values[4];
    *in = (tool_inputs){.random_rest = true, .how = {.seed = 1}};
    for (unsigned k = 0; k < g->n; k++) {
        unsigned n = conform_values(values, SN_COUNT(values), g->cases[k]);
        for (unsigned i = 0; i < n; i++) {
            if (in->n == TOOL_MAX_LIST) {
                free(values[i].name);
                continue;
            }
            in->names[in->n] = values[i].name;
            in->values[in->n++] = values[i].value;
        }
    }
}

static void free_values(tool_inputs *in) {
    for (unsigned k = 0; k < in->n; k++) free((char *)in->names[k]);
}

static sn_status run_again(sn_check *checks, unsigned n, sn_program *p, sn_tensor **inputs, sn_tensor **outputs,
                           const tool_inputs *in) {
    bool *same = calloc(p->n_outputs + 1, sizeof *same);
    if (!same) return SN_ERROR_MEMORY;
    sn_status status = tool_repeat(same, n, p, inputs, outputs, in), ran = status;
    for (unsigned k = 0; k < p->n_outputs; k++) {
        if (ran != SN_OK || same[k]) continue;
        checks[k].ok = false;
        status =
            sn_fail(&p->ctx->env, SN_ERROR_MISMATCH, "output %s: another run gives other bits", p->outputs[k].name);
    }
    free(same);
    return status;
}

static sn_status run_program(sn_check *checks, sn_program *p, const tool_inputs *in, unsigned again) {
    sn_tensor **inputs = calloc(p->n_inputs + 1, sizeof *inputs), **outputs = calloc(p->n_outputs + 1, sizeof *outputs);
    sn_status status = inputs && outputs ? SN_OK : SN_ERROR_MEMORY;
    if (status == SN_OK) status = tool_program_tensors(inputs, outputs, p, in);
    if (status == SN_OK) status = sn_program_check(checks, p, inputs, outputs, false);
    if (status == SN_OK && again) status = run_again(checks, again, p, inputs, outputs, in);
    tool_free_tensors(inputs, p->n_inputs);
    tool_free_tensors(outputs, p->n_outputs);
    return status;
}

/* Read, compile, run, compare. The context has the reason of a failure. */
static sn_status run_text(sn_check *checks, sn_context *ctx, const job *j, const group *g, const char *text) {
    sn_compile_options o = {.struct_size = sizeof o,
                            .device = j->args->device,
                            .cpu_schedule = j->schedule,
                            .choices = j->args->choices,
                            .target = strcmp(j->schedule, "gpu") ? NULL : j->args->target,
                            .verify = j->args->verify,
                            .precision = sn_precision_words[g->cases[0]->precision],
                            .threads = 1};
    sn_graph *graph = NULL;
    sn_program *p = NULL;
    tool_inputs in;
    give_values(&in, g);
    sn_status status = sn_graph_from_text(&graph, ctx, "conform", text, strlen(text));
    if (status == SN_OK && j->args->check_kernels) {
        status = tool_check_kernels(ctx, graph, &o, &in);
    } else if (status == SN_OK) {
        status = sn_compile(&p, graph, &o);
        if (status == SN_OK) status = run_program(checks, p, &in, j->args->again);
    }
    free_values(&in);
    sn_program_destroy(p);
    sn_graph_destroy(graph);
    return status;
}

static void fail_case(conform_case *c, const char *message) {
    c->result = CONFORM_FAILED;
    free(c->message);
    c->message = strdup(message);
}

static void judge_refusal(conform_case *c, sn_context *ctx, sn_status status) {
    c->result = CONFORM_PASSED;
    if (status == SN_ERROR_TYPE && strstr(sn_error(ctx), c->refusal)) return;
    char message[512];
    snprintf(message, sizeof message, "must be refused with a type error that says \"%s\"; got %s: %.200s", c->refusal,
             sn_status_name(status), sn_error(ctx));
    fail_case(c, message);
}

/* The text that is being run, for the report of a crash. */
static _Thread_local const char *running;

/* Of the outputs of a case the first wrong one, else its result. */
static const sn_check *check_of(const sn_check *outputs, unsigned n) {
    for (unsigned k = 0; k < n; k++)
        if (!outputs[k].ok) return &outputs[k];
    return &outputs[0];
}

static void run_group(sn_context *ctx, const job *j, const group *g) {
    unsigned n_outputs = 0, at = 0;
    for (unsigned k = 0; k < g->n; k++) n_outputs += conform_outputs(g->cases[k]);
    sn_check *checks = calloc(n_outputs, sizeof *checks);
    char *text = conform_text((const conform_case *const *)g->cases, g->n);
    running = text;
    sn_status status = text && checks ? run_text(checks, ctx, j, g, text) : SN_ERROR_MEMORY;
    for (unsigned k = 0; k < g->n; k++) {
        conform_case *c = g->cases[k];
        if (checks) c->check = *check_of(checks + at, conform_outputs(c));
        at += conform_outputs(c);
        if (c->refusal) judge_refusal(c, ctx, status);
        else if (status == SN_OK || (status == SN_ERROR_MISMATCH && c->check.ok)) c->result = CONFORM_PASSED;
        else if (g->n == 1) fail_case(c, sn_error(ctx));
        else c->result = CONFORM_NOT_RUN;
    }
    char *together = g->n > 1 && status != SN_OK ? strdup(sn_error(ctx)) : NULL;
    running = NULL;
    free(text);
    free(checks);
    bool alone_too = false;
    for (unsigned k = 0; together && k < g->n; k++) {
        if (g->cases[k]->result != CONFORM_NOT_RUN) continue;
        run_group(ctx, j, &(group){.cases = {g->cases[k]}, .n = 1});
        alone_too |= g->cases[k]->result == CONFORM_FAILED;
    }
    /* Wrong only in company: the first of the group stands for it. */
    if (together && !alone_too) {
        char message[1024];
        snprintf(message, sizeof message, "together with the next %u cases: %.900s", g->n - 1, together);
        fail_case(g->cases[0], message);
    }
    free(together);
}

static void *work(void *user) {
    job *j = user;
    sn_context *ctx;
    if (sn_context_create(&ctx, NULL) != SN_OK) return NULL;
    for (unsigned k; (k = atomic_fetch_add(&j->next, 1)) < j->n_groups;) run_group(ctx, j, &j->groups[k]);
    sn_context_destroy(ctx);
    return NULL;
}

/* A crash ends the process; before that it shows what was being compiled or run. */
static void on_crash(int number) {
    static const char title[] = "sinter: conform: crashed on this graph:\n";
    if (write(STDERR_FILENO, title, sizeof title - 1) > 0 && running &&
        write(STDERR_FILENO, running, strlen(running)) < 0)
        _exit(TOOL_FAILED);
    signal(number, SIG_DFL);
    raise(number);
}

static void run_job(job *j) {
    pthread_t threads[MAX_WORKERS];
    unsigned n = j->args->threads ? j->args->threads : sn_processors(), started = 0;
    for (; started + 1 < n && started < MAX_WORKERS; started++)
        if (pthread_create(&threads[started], NULL, work, j)) break;
    work(j);
    for (unsigned k = 0; k < started; k++) pthread_join(threads[k], NULL);
}

/* ---- reporting ---- */

typedef struct tally {
    unsigned passed, failed, skipped;
} tally;

static void write_repro(const conform_case *c, const job *j, char *path, size_t size) {
    const char *dir = j->args->repro;
    char *text = conform_text(&c, 1);
    conform_value values[4];
    unsigned n = conform_values(values, SN_COUNT(values), c);
    snprintf(path, size, "%s/%s.sn", dir, c->name);
    mkdir(dir, 0777);
    FILE *file = text ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "# RUN: %%sinter run %%s --device=%s --cpu-schedule=%s --random 1 --check%s", j->args->device,
                j->schedule, j->args->check_kernels ? "-kernels" : "");
        if (j->args->target) fprintf(file, " --target=%s", j->args->target);
        if (j->args->choices) fprintf(file, " --choices=%s", j->args->choices);
        if (c->precision) fprintf(file, " --precision=%s", sn_precision_words[c->precision]);
        for (unsigned k = 0; k < n; k++) fprintf(file, " --input %s=%s", values[k].name, values[k].value);
        fprintf(file, "\n%s", text);
    }
    bool bad = !file || ferror(file);
    bad |= file && fclose(file);
    if (bad) snprintf(path, size, "(cannot write %s/%s.sn)", dir, c->name);
    for (unsigned k = 0; k < n; k++) free(values[k].name);
    free(text);
}

static void print_failure(const conform_case *c, const job *j, unsigned shown) {
    char path[4096] = "";
    if (j->args->repro) write_repro(c, j, path, sizeof path);
    if (shown >= MAX_SHOWN) return;
    char *line = conform_line(c);
    printf("FAILED %s: %s\n  %s\n", c->name, line ? line : "", c->message ? c->message : "");
    if (path[0]) printf("  %s\n", path);
    free(line);
}

static void put_json(FILE *out, const conform_case *c, const char *schedule, bool first) {
    static const char *const results[] = {"skipped", "passed", "failed"};
    fprintf(out, "%s  {\"name\": \"%s\", \"schedule\": \"%s\", \"result\": \"%s\"", first ? "" : ",\n", c->name,
            schedule, results[c->result]);
    if (c->check.max_rel < 1e300)
        fprintf(out, ", \"relative\": %.3g, \"bound\": %.3g", c->check.max_rel, c->check.bound);
    if (c->check.max_rel < 1e300 && c->check.max_ulp < 1e300)
        fprintf(out, ", \"ulp\": %.3g, \"bound_ulp\": %.3g", c->check.max_ulp, c->check.bound_ulp);
    fputs("}", out);
}

static void report(tally *t, const conform_suite *suite, const job *j, FILE *json) {
    for (unsigned k = 0; k < suite->n; k++) {
        const conform_case *c = &suite->at[k];
        if (json) put_json(json, c, j->schedule, t->passed + t->failed + t->skipped == 0);
        if (c->result == CONFORM_PASSED) t->passed++;
        else if (c->result == CONFORM_NOT_RUN) t->skipped++;
        else print_failure(c, j, t->failed++);
    }
}

/* ---- the command ---- */

/* Does a name contain one of the texts "A,B"? */
static bool contains_one(const char *name, const char *texts) {
    for (const char *text = texts, *end; *text; text = *end ? end + 1 : end) {
        char one[40]; /* a name is no longer */
        end = text + strcspn(text, ",");
        if (end == text || end - text >= (ptrdiff_t)sizeof one) continue;
        snprintf(one, sizeof one, "%.*s", (int)(end - text), text);
        if (strstr(name, one)) return true;
    }
    return false;
}

static bool wanted(const conform_case *c, const conform_args *r) {
    return (r->dtype == SN_N_DTYPES || c->dtype == r->dtype) && (!r->only || strstr(c->name, r->only)) &&
           !(r->except && contains_one(c->name, r->except)) && (!r->quick || conform_is_quick(c)) &&
           (r->huge || c->level != CONFORM_HUGE);
}

static void keep_wanted(conform_suite *suite, const conform_args *r) {
    unsigned n = 0;
    for (unsigned k = 0; k < suite->n; k++)
        if (wanted(&suite->at[k], r)) suite->at[n++] = suite->at[k];
    suite->n = n;
}

static int print_list(const conform_suite *suite) {
    for (unsigned k = 0; k < suite->n; k++) {
        char *line = conform_line(&suite->at[k]);
        printf("%-28s %s%s%s\n", suite->at[k].name, line ? line : "", suite->at[k].refusal ? " -> refused: " : "",
               suite->at[k].refusal ? suite->at[k].refusal : "");
        free(line);
    }
    return TOOL_OK;
}

static void forget_results(conform_suite *suite) {
    for (unsigned k = 0; k < suite->n; k++) {
        free(suite->at[k].message);
        suite->at[k].message = NULL;
        suite->at[k].result = CONFORM_NOT_RUN;
    }
}

/* Returns the number of graphs that the cases make. */
static unsigned run_schedules(tally *t, conform_suite *suite, const conform_args *r, FILE *json) {
    static const char *const schedules[] = {"host", "gpu"};
    bool cuda = !strcmp(r->device, "cuda"), both = !strcmp(r->schedule, "both");
    job j = {.args = r, .groups = NULL};
    j.groups = make_groups(&j.n_groups, suite, r->alone);
    if (!j.groups) return 0;
    for (int k = 0; k < 2; k++) {
        if (cuda ? k > 0 : !both && strcmp(r->schedule, schedules[k])) continue;
        j.schedule = schedules[k];
        atomic_store(&j.next, 0);
        forget_results(suite);
        run_job(&j);
        report(t, suite, &j, json);
    }
    free(j.groups);
    return j.n_groups;
}

static int run_suite(sn_context *ctx, conform_suite *suite, const conform_args *r) {
    tally t = {0};
    unsigned devices, graphs = 0;
    struct timespec start, end;
    bool no_device = !strcmp(r->device, "cuda") && sn_device_count(&devices, ctx) != SN_OK;
    if (no_device) tool_fail(ctx);
    FILE *json = r->json ? fopen(r->json, "w") : NULL;
    if (r->json && !json) return tool_misuse("--json %s: cannot write it", r->json);
    int code = TOOL_OK;
    if (json) fputs("[\n", json);
    clock_gettime(CLOCK_MONOTONIC, &start);
    signal(SIGSEGV, on_crash);
    signal(SIGABRT, on_crash);
    signal(SIGFPE, on_crash);
    if (no_device) t.skipped = suite->n;
    else graphs = run_schedules(&t, suite, r, json);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (json) fputs("\n]\n", json);
    if (json) code = tool_close(json, r->json);
    printf("%u cases, %u graphs in %.1f s on %s\n", suite->n, graphs,
           (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec), r->device);
    printf("%u passed, %u failed, %u skipped\n", t.passed, t.failed, t.skipped);
    return t.failed || no_device || t.passed == 0 ? TOOL_FAILED : code;
}

int tool_conform(sn_context *ctx, int argc, char **argv) {
    conform_args r = {.device = "cpu", .schedule = "host", .dtype = SN_N_DTYPES};
    conform_suite suite;
    int code = parse(&r, argc, argv);
    if (code != TOOL_OK) return code;
    if (r.show_help) return fputs(help, stdout), TOOL_OK;
    if (!conform_make(&suite)) code = tool_misuse("conform: out of memory");
    for (unsigned op = 0; code == TOOL_OK && op < SN_N_OPS; op++)
        if (!conform_covers(&suite, (sn_op)op)) code = tool_misuse("conform: %s has no case", sn_ops[op].name);
    keep_wanted(&suite, &r);
    if (code == TOOL_OK) code = r.list ? print_list(&suite) : run_suite(ctx, &suite, &r);
    conform_free(&suite);
    return code;
}
