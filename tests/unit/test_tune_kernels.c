/* test_tune_kernels.c: schedules of kernels by timing: a kernel as a program of its own, what there is to try, sn_tune on the CPU. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend-nvptx/nvptx.h"
#include "codegen-llvm/codegen.h"
#include "frontend/demand.h"
#include "include/sinter/sinter.h"
#include "passes/runner.h"
#include "passes/schedule/alone.h"
#include "passes/schedule/choose.h"
#include "tune/tune.h"

static sn_env env;
static sn_arena arena;
static char folder[64];

static void setup(void) {
    sn_env_init(&env);
    sn_arena_init(&arena, &env);
    strcpy(folder, "/tmp/sinter-tune-XXXXXX");
    cr_assert(mkdtemp(folder));
}

static void teardown(void) {
    char command[128];
    sn_arena_free(&arena);
    cr_assert_eq(env.bytes_now, 0);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(tune_kernels, .init = setup, .fini = teardown);

/* ---- alone ---- */

typedef struct kernels {
    sn_module *m;
    sn_target target;
    sn_pass_ctx cx;
    sn_users users;
} kernels;

/* The kernels of a graph as `schedule` finds them. */
static void open_kernels(kernels *k, const char *target, const char *graph) {
    k->m = sn_module_new(&env);
    if (target) cr_assert_eq(sn_target_named(&k->target, &env, target), SN_OK, "%s", env.message);
    else sn_target_host(&k->target, 1);
    const char *all = target ? sn_pipeline_gpu : sn_pipeline_host;
    sn_pass_options o = {.pipeline = sn_passes_before(&arena, all, "schedule")};
    cr_assert_eq(sn_module_parse(k->m, "graph", graph, strlen(graph)), SN_OK, "%s", env.message);
    cr_assert_eq(sn_passes_run(&k->m, &k->target, &o), SN_OK, "%s", env.message);
    k->cx = (sn_pass_ctx){.m = k->m, .scratch = &arena, .target = &k->target, .pass = "schedule"};
    sn_users_find(&k->users, k->m, &arena);
}

static const char *key_of(kernels *k, uint32_t at) {
    const char *why_not, *key = sn_kernel_key(&why_not, &k->cx, &k->users, at);
    cr_assert(key, "%s", why_not);
    return key;
}

static const char *refused(kernels *k, uint32_t at) {
    const char *why_not, *key = sn_kernel_key(&why_not, &k->cx, &k->users, at);
    cr_assert_null(key, "%s", key);
    return why_not;
}

/* The text is a module, is what it is made of again, and can go on through the passes behind. */
static void check_key(const kernels *of, const char *key, uint32_t n_kernels) {
    const char *why_not, *again;
    kernels k = {.m = sn_module_new(&env), .target = of->target};
    cr_assert_eq(sn_module_parse(k.m, "key", key, strlen(key)), SN_OK, "%s", env.message);
    cr_assert_eq(k.m->kernels.n, n_kernels);
    k.cx = (sn_pass_ctx){.m = k.m, .scratch = &arena, .target = &k.target, .pass = "schedule"};
    sn_users_find(&k.users, k.m, &arena);
    again = sn_kernel_key(&why_not, &k.cx, &k.users, 0);
    cr_assert(again, "%s", why_not);
    cr_assert_str_eq(again, key);
    sn_pass_options o = {.pipeline = sn_passes_from(&arena, sn_pipeline_gpu, "schedule"), .verify = SN_VERIFY_EACH};
    cr_assert_eq(sn_passes_run(&k.m, &k.target, &o), SN_OK, "%s", env.message);
    sn_module_free(k.m);
}

static const char TWO_SOFTMAX[] =
    "graph @two(%first: f32[64, 1000], %second: f32[64, 1000], %w: f32[64, 4]) {\n"
    "  %s = softmax %first axis=1\n  %u = softmax %second axis=1\n  %e = exp %w\n  return a = %s, b = %u, c = %e\n}\n";

Test(tune_kernels, equal_kernels_have_equal_texts) {
    kernels k;
    open_kernels(&k, NULL, TWO_SOFTMAX);
    const char *a = key_of(&k, 0);
    cr_assert_eq(k.m->kernels.n, 3);
    cr_assert(!strncmp(a, sn_kernel_key_start, strlen(sn_kernel_key_start)), "%s", a);
    cr_assert(strstr(a, "buffer i0: f32[64000] input 0") && strstr(a, "buffer o0: f32[64000] output 0"), "%s", a);
    cr_assert_null(strstr(a, "first"), "no name of the caller's: %s", a);
    cr_assert_str_eq(a, key_of(&k, 1));
    cr_assert_str_neq(a, key_of(&k, 2));
    check_key(&k, a, 1);
    sn_module_free(k.m);
}

/* A long sum is cut: the second kernel takes its shape from the first one and is timed with it, and what passes between them is
 * theirs. */
Test(tune_kernels, followers_go_along) {
    kernels k;
    open_kernels(&k, "sm_90", "graph @sum(%x: f32[16777216]) {\n  %s = sum %x axes=[0]\n  return y = %s\n}\n");
    cr_assert_eq(k.m->kernels.n, 2);
    const char *key = key_of(&k, 0);
    cr_assert(strstr(key, " temp ") && strstr(key, "output 0") && !strstr(key, "output 1"), "%s", key);
    check_key(&k, key, 2);
    cr_assert_str_eq(refused(&k, 1), "it takes its shape from another one");
    sn_module_free(k.m);
}

/* What others read as well is a result. */
Test(tune_kernels, what_others_see_is_an_output) {
    kernels k;
    open_kernels(&k, NULL,
                 "graph @g(%x: f32[64, 512]) {\n  %e = exp %x\n  %s = cumsum %e axis=0\n  %t = cumsum %e axis=1\n"
                 "  return a = %s, b = %t\n}\n");
    for (uint32_t at = 0; at < k.m->kernels.n; at++) check_key(&k, key_of(&k, at), 1);
    sn_module_free(k.m);
}

Test(tune_kernels, scatters_and_scheduled_kernels_are_refused) {
    kernels k;
    bool scatter = false, done = false;
    open_kernels(&k, NULL,
                 "graph @g(%x: f32[3000, 8], %i: i64[16], %u: f32[16, 8]) {\n  %y = scatter %x, %i, %u\n"
                 "  %s = sort %x axis=0 descending=false\n  %v = project %s index=0\n  return a = %y, b = %v\n}\n");
    for (uint32_t at = 0; at < k.m->kernels.n; at++) {
        const char *why_not, *key = sn_kernel_key(&why_not, &k.cx, &k.users, at);
        scatter |= !key && strstr(why_not, "positions that it has loaded");
        done |= !key && strstr(why_not, "its schedule stands");
    }
    cr_expect(scatter);
    cr_expect(done);
    sn_module_free(k.m);
}

/* ---- inputs ---- */

/* Rows of a table are asked for by valid numbers, and what reaches a root is not negative. */
Test(tune_kernels, inputs_are_valid) {
    kernels k;
    open_kernels(&k, NULL,
                 "graph @g(%t: f32[1000, 64], %i: i64[512], %v: f32[64]) {\n  %r = index_select %t, %i axis=0\n"
                 "  %e = add %v, 1e-5\n  %d = rsqrt %e\n  %y = mul %r, %d\n  return y = %y\n}\n");
    const char *key = key_of(&k, 0);
    sn_module *m = sn_module_new(&env);
    cr_assert_eq(sn_module_parse(m, "key", key, strlen(key)), SN_OK, "%s", env.message);
    cr_assert(sn_demands_positions(m));
    unsigned positions = 0, positive = 0;
    for (uint32_t i = 0; i < m->graph.inputs.n; i++) {
        sn_demand d = sn_demand_of(m, i, &arena);
        bool is_index = sn_node_get(m, m->graph.inputs.at[i].node)->type.dtype == SN_I64;
        cr_assert_eq(d.positions, is_index ? 1000 : INT64_MAX, "%lld", (long long)d.positions);
        positions += is_index;
        positive += d.positive;
    }
    cr_assert(positions == 1 && positive == 1);
    sn_module_free(m);
    sn_module_free(k.m);
}

/* ---- trials ---- */

Test(tune_kernels, first_trial_is_what_schedule_chooses) {
    kernels k;
    sn_sched first;
    double cycles;
    sn_text t;
    sn_trial_list trials = {.arena = &arena};
    bool persistent = false, looped = false;
    open_kernels(&k, "sm_90", "graph @s(%x: f16[4096, 4096]) {\n  %y = softmax %x axis=1\n  return y = %y\n}\n");
    cr_assert_eq(sn_kernel_trials_list(&trials, &env, key_of(&k, 0), &k.target), SN_OK, "%s", env.message);
    cr_assert_gt(trials.n, 2);
    cr_assert(!strncmp(trials.at[0].choice, "plain inner ", 12), "%s", trials.at[0].choice);
    for (uint32_t i = 0; i < trials.n; i++) {
        cr_assert(i == 0 || !strncmp(trials.at[i].choice, "schedule ", 9), "%s", trials.at[i].choice);
        cr_assert_gt(trials.at[i].cycles, 0, "%s", trials.at[i].choice);
        cr_assert(i == 0 || strcmp(trials.at[i].choice + 9, trials.at[0].choice + 6) != 0, "twice the same");
        bool inner = strstr(trials.at[i].choice, " inner ") != NULL, kept = strstr(trials.at[i].choice, " persistent");
        persistent |= inner && kept;
        looped |= !kept;
    }
    cr_assert(persistent && looped);
    cr_assert_eq(sn_schedule_first(&first, &cycles, &k.cx, 0), SN_OK);
    cr_assert_eq(cycles, trials.at[0].cycles);
    sn_text_init(&t, &env);
    sn_sched_print(&t, &first);
    cr_assert_str_eq(trials.at[0].choice + 6, t.s);
    sn_text_free(&t);
    sn_module_free(k.m);
}

/* A buffer that all rows read: alone, the kernel takes turns with rows; in its program, where another one reads the buffer, it would not, but
 * for what was timed. */
Test(tune_kernels, rows_take_turns_as_they_were_timed) {
    kernels k;
    sn_sched first;
    double cycles;
    sn_trial_list trials = {.arena = &arena};
    bool in_turns = false, in_order = false;
    open_kernels(&k, "sm_90a",
                 "graph @g(%x: f32[3, 4199001], %w: f32[4199001], %v: f32[4199001, 2]) {\n  %y = add %x, %w\n"
                 "  %u = unsqueeze %w axes=[1]\n  %z = mul %v, %u\n  return y = %y, z = %z\n}\n");
    uint32_t at = 0;
    const char *key = key_of(&k, at);
    cr_assert_eq(sn_kernel_trials_list(&trials, &env, key, &k.target), SN_OK, "%s", env.message);
    for (uint32_t i = 0; i < trials.n; i++) {
        in_turns |= strstr(trials.at[i].choice, " abreast=3 ") != NULL;
        in_order |= strstr(trials.at[i].choice, " abreast=1 ") != NULL;
    }
    cr_assert(in_turns && in_order);
    cr_assert(strstr(trials.at[0].choice, " abreast=3 "), "%s", trials.at[0].choice);
    cr_assert_eq(sn_schedule_first(&first, &cycles, &k.cx, at), SN_OK);
    cr_assert_eq(first.abreast, 1);
    sn_decision decided = {.key = key, .choice = trials.at[0].choice};
    k.cx.choosing = &(sn_choosing){.at = &decided, .n = 1};
    cr_assert_eq(sn_schedule_first(&first, &cycles, &k.cx, at), SN_OK);
    cr_assert_eq(first.abreast, 3);
    sn_module_free(k.m);
}

/* ---- which ---- */

static void list_kernels(sn_kernel_list *out, const char *target, const char *graph, bool products) {
    sn_module *m = sn_module_new(&env);
    sn_target t;
    cr_assert_eq(sn_target_named(&t, &env, target), SN_OK);
    const sn_kernels_how how = {.target = &t,
                                .before = sn_passes_before(&arena, sn_pipeline_gpu, "schedule"),
                                .behind = sn_passes_from(&arena, sn_pipeline_gpu, "schedule"),
                                .products = products};
    cr_assert_eq(sn_module_parse(m, "graph", graph, strlen(graph)), SN_OK, "%s", env.message);
    cr_assert_eq(sn_kernels_list(out, m, &how, &arena), SN_OK, "%s", env.message);
    sn_module_free(m);
}

/* What takes longest comes first, with what it moves at least. */
Test(tune_kernels, longest_first) {
    sn_kernel_list all = {0};
    list_kernels(&all, "sm_90",
                 "graph @g(%x: f32[4096, 2048], %y: f32[8192, 8192], %w: f32[64]) {\n"
                 "  %a = softmax %x axis=1\n  %b = sum %y axes=[1]\n  %c = softmax %a axis=1\n  %d = exp %w\n"
                 "  return a = %a, b = %b, c = %c, d = %d\n}\n",
                 false);
    cr_assert_eq(all.n, 2, "%u", all.n);
    cr_expect_str_eq(all.at[0].title, "sum: f32[8192, 8192] -> f32[8192]");
    cr_expect(strstr(all.at[1].title, ": f32[4096, 2048] -> f32[4096, 2048], f32[4096, 2048]"), "%s", all.at[1].title);
    cr_expect_eq(all.at[0].bytes, 4.0 * 8192 * 8193);
    cr_expect_eq(all.at[1].bytes, 12.0 * 4096 * 2048);
}

/* Kernels of one launch have one block shape. */
Test(tune_kernels, what_shares_a_launch_is_left) {
    sn_kernel_list all = {0};
    list_kernels(&all, "sm_90",
                 "graph @g(%x: f32[3000000], %y: f32[3000000], %z: f32[3000000]) {\n"
                 "  %a = exp %x\n  %b = exp %y\n  %c = exp %z\n  return a = %a, b = %b, c = %c\n}\n",
                 false);
    cr_assert_eq(all.n, 0);
}

/* A product is one way or another, its kernel only where nobody has asked about it. */
Test(tune_kernels, products_are_asked_about_once) {
    static const char graph[] =
        "graph @g(%x: f16[2048, 2048], %y: f16[2048, 2048]) {\n  %a = matmul %x, %y\n  return a = %a\n}\n";
    sn_kernel_list before = {0}, all = {0};
    list_kernels(&all, "sm_90a", graph, false);
    cr_assert_eq(all.n, 1);
    list_kernels(&before, "sm_90a", graph, true);
    cr_assert_eq(before.n, 0);
}

/* ---- sn_tune ---- */

static const char GRAPH[] = "graph @g(%x: f32[96, 700], %b: f32[700]) {\n  %s = softmax %x axis=1\n  %y = add %s, %b\n"
                            "  %z = softmax %y axis=1\n  %v = softmax %z axis=1\n  %c = cumsum %x axis=0\n"
                            "  return y = %v, c = %c\n}\n";

static void log_line(void *user, const char *text) { strncat(user, text, 3999 - strlen(user)); }

typedef struct api {
    char log[4000];
    sn_context *ctx;
    sn_graph *g;
    sn_compile_options o;
    sn_tune_report *r;
} api;

static void api_open_text(api *a, const char *text, const sn_context_options *own) {
    *a = (api){.o = {.struct_size = sizeof a->o, .device = "cpu", .threads = 1, .record_dir = folder}};
    sn_context_options options = {.struct_size = sizeof options, .log = log_line, .log_user = a->log};
    cr_assert_eq(sn_context_create(&a->ctx, own ? own : &options), SN_OK);
    cr_assert_eq(sn_graph_from_text(&a->g, a->ctx, "g", text, strlen(text)), SN_OK, "%s", sn_error(a->ctx));
}

static void api_open(api *a) { api_open_text(a, GRAPH, NULL); }

static void api_close(api *a) {
    sn_tune_report_destroy(a->r);
    sn_graph_destroy(a->g);
    sn_context_destroy(a->ctx);
}

static void api_tune(api *a, sn_tune_options how) {
    how.struct_size = sizeof how;
    sn_tune_report_destroy(a->r);
    cr_assert_eq(sn_tune(&a->r, a->g, &a->o, &how), SN_OK, "%s", sn_error(a->ctx));
}

static unsigned count_files(void) {
    DIR *d = opendir(folder);
    unsigned n = 0;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void count_call(void *user, const char *title, unsigned done, unsigned steps) {
    cr_assert(strstr(title, " -> f32[96, 700]") && done <= steps, "%s", title);
    ++*(unsigned *)user;
}

/* What fuses into rows is one kernel, the sums along columns are another. A second call has all on record. */
Test(tune_kernels, kernels_are_tuned_once) {
    api a;
    unsigned calls = 0;
    api_open(&a);
    api_tune(&a, (sn_tune_options){.budget = 20, .progress = count_call, .progress_user = &calls});
    cr_assert(a.r->n_products == 0 && a.r->n_kernels >= 2, "%u", a.r->n_kernels);
    cr_assert_gt(calls, 0);
    cr_assert_eq(count_files(), a.r->n_kernels);
    for (unsigned k = 0; k < a.r->n_kernels; k++) {
        const sn_tuned_product *p = &a.r->kernels[k];
        cr_assert(!p->recorded && p->n_trials > 1 && p->us > 0, "%s", p->title);
        for (unsigned i = 0; i < p->n_trials; i++)
            cr_assert(strcmp(p->trials[i].fate, "failed") && strcmp(p->trials[i].fate, "deviates"), "%s: %s",
                      p->trials[i].choice, p->trials[i].why);
        for (unsigned i = 0; i < k; i++) cr_assert_str_neq(p->graph, a.r->kernels[i].graph);
    }
    unsigned n = a.r->n_kernels;
    calls = 0;
    api_tune(&a, (sn_tune_options){.progress = count_call, .progress_user = &calls});
    cr_assert(calls == 0 && a.r->n_kernels == n);
    for (unsigned k = 0; k < n; k++) cr_assert(a.r->kernels[k].recorded && a.r->kernels[k].n_trials == 0);
    api_close(&a);
}

Test(tune_kernels, time_that_is_up_leaves_kernels_as_they_are) {
    api a;
    api_open(&a);
    api_tune(&a, (sn_tune_options){.budget = 1e-9});
    cr_assert_geq(a.r->n_kernels, 2);
    for (unsigned k = 0; k < a.r->n_kernels; k++) {
        cr_assert(!a.r->kernels[k].recorded && a.r->kernels[k].n_trials == 0 && a.r->kernels[k].us == 0);
        cr_assert_str_eq(a.r->kernels[k].choice, "");
    }
    cr_assert_eq(count_files(), 0);
    api_close(&a);
}

/* Kernels are not asked about where their schedules may not be chosen. */
Test(tune_kernels, choices_that_leave_no_schedule) {
    api a;
    api_open(&a);
    a.o.choices = "subgraph";
    api_tune(&a, (sn_tune_options){.budget = 20});
    cr_assert_eq(a.r->n_kernels, 0);
    api_close(&a);
}

/* A process that ends in the middle leaves what it has found: whole records, and the next one times the rest. */
static void end_in_the_middle(void *user, const char *title, unsigned done, unsigned steps) {
    (void)title, (void)done, (void)steps;
    if (count_files() == 1) _exit(*(int *)user);
}

Test(tune_kernels, process_that_ends_in_the_middle) {
    api a;
    unsigned recorded = 0;
    int code = 7;
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (!child) {
        api_open(&a);
        api_tune(&a, (sn_tune_options){.budget = 20, .progress = end_in_the_middle, .progress_user = &code});
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &code, 0), child);
    cr_assert(WIFEXITED(code) && WEXITSTATUS(code) == 7, "there was a second kernel");
    cr_assert_eq(count_files(), 1);
    api_open(&a);
    api_tune(&a, (sn_tune_options){.budget = 20});
    for (unsigned k = 0; k < a.r->n_kernels; k++) recorded += a.r->kernels[k].recorded;
    cr_assert(recorded == 1 && a.r->n_kernels > 1 && !a.r->warning[0], "%u of %u", recorded, a.r->n_kernels);
    cr_assert_eq(count_files(), a.r->n_kernels);
    api_close(&a);
}

Test(tune_kernels, budget_that_is_none) {
    api a;
    sn_tune_options how = {.struct_size = sizeof how, .budget = -1};
    api_open(&a);
    cr_assert_eq(sn_tune(&a.r, a.g, &a.o, &how), SN_ERROR_ARGUMENT);
    cr_assert(!a.r && strstr(sn_error(a.ctx), "budget: -1 seconds"), "%s", sn_error(a.ctx));
    api_close(&a);
}

/* Whatever a program holds at a time, tuning has the arguments of one kernel. The graph has 26 MB in each of 8 places, and temporaries. */
typedef struct meter {
    size_t now, most;
} meter;

static void *metered(void *user, void *p, size_t size) {
    meter *m = user;
    size_t *old = p ? (size_t *)p - 2 : NULL, was = old ? *old : 0;
    if (!size) {
        m->now -= was;
        free(old);
        return NULL;
    }
    size_t *new = realloc(old, size + 2 * sizeof *new);
    if (!new) return NULL;
    m->now += size - was;
    if (m->now > m->most) m->most = m->now;
    *new = size;
    return new + 2;
}

Test(tune_kernels, memory_is_that_of_one_kernel) {
    static const char graph[] =
        "graph @g(%x: f32[1000, 6500], %y: f32[1000, 6500], %z: f32[1000, 6500], %t: f32[1000, 6500]) {\n"
        "  %a = softmax %x axis=1\n  %b = cumsum %a axis=1\n  %c = cumsum %y axis=0\n  %d = softmax %z axis=0\n"
        "  %e = cumsum %t axis=1\n  %f = softmax %e axis=1\n  return b = %b, c = %c, d = %d, f = %f\n}\n";
    enum { ONE = 26000000, BESIDES = 64000000 }; /* besides: caches are flushed by 32 MB, comparisons have pieces */
    api a;
    meter m = {0};
    api_open_text(
        &a, graph,
        &(sn_context_options){.struct_size = sizeof(sn_context_options), .realloc_fn = metered, .realloc_user = &m});
    size_t before = m.now;
    api_tune(&a, (sn_tune_options){.budget = 3});
    cr_assert_gt(a.r->n_kernels, 2);
    cr_expect_lt(m.most, before + 4 * (size_t)ONE + BESIDES, "%zu", m.most);
    cr_expect_gt(m.most, 2 * (size_t)ONE);
    api_close(&a);
    cr_assert_eq(m.now, 0);
}

/* Put another choice into all records. */
static void rewrite_records(const char *choice) {
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) {
        char path[400], text[16384] = "", changed[17000], *at;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        FILE *file = fopen(path, "r");
        cr_assert(file && fread(text, 1, sizeof text - 1, file) > 0);
        fclose(file);
        at = strstr(text, "\n \"choice\": \"");
        cr_assert(at);
        snprintf(changed, sizeof changed, "%.*s\n \"choice\": \"%s%s", (int)(at - text), text, choice,
                 strstr(at + 4, "\",\n"));
        file = fopen(path, "w");
        cr_assert(file && fputs(changed, file) >= 0 && fclose(file) == 0);
    }
    closedir(d);
}

static void compile(api *a) {
    sn_program *p;
    a->log[0] = 0;
    cr_assert_eq(sn_compile(&p, a->g, &a->o), SN_OK, "%s", sn_error(a->ctx));
    sn_program_destroy(p);
}

/* What is on record is what the pass obeys, and says; a choice that fits no kernel, or is none, does not count. */
Test(tune_kernels, records_decide_schedules) {
    api a;
    api_open(&a);
    api_tune(&a, (sn_tune_options){.budget = 20});
    a.o.remarks = "schedule";
    rewrite_records("schedule element block_x=32 vector=1 unroll=1");
    compile(&a);
    cr_assert(strstr(a.log, "schedule element block_x=32 vector=1 unroll=1 (decided)"), "%s", a.log);
    cr_assert(strstr(a.log, "element: 96 rows of 700, block_x=32 block_y=1 vector=1 unroll=1"), "%s", a.log);
    a.o.tune = "off";
    compile(&a);
    cr_assert_null(strstr(a.log, "decided"), "%s", a.log);
    a.o.tune = NULL;
    rewrite_records("schedule tile block_x=32");
    compile(&a);
    cr_assert(strstr(a.log, "class tile does not fit") || strstr(a.log, "not used"), "%s", a.log);
    rewrite_records("schedule nothing block_x=32");
    compile(&a);
    cr_assert(strstr(a.log, "a recorded choice: ") && strstr(a.log, "unknown schedule class 'nothing'"), "%s", a.log);
    rewrite_records("plain inner block_x=7");
    compile(&a);
    cr_assert(strstr(a.log, "plain inner block_x=7 (decided)") && !strstr(a.log, "block_x=7 block_y"), "%s", a.log);
    api_close(&a);
}

/* The option `on` of sn_compile times what is not on record, and keeps it for those that come after. */
Test(tune_kernels, compilation_that_tunes) {
    api a;
    api_open(&a);
    a.o.tune = "on";
    a.o.remarks = "schedule";
    compile(&a);
    unsigned n = count_files();
    cr_assert(n >= 2 && strstr(a.log, "(decided)"), "%u: %s", n, a.log);
    a.o.tune = "records";
    compile(&a);
    cr_assert(strstr(a.log, "(decided)"), "%s", a.log);
    cr_assert_eq(count_files(), n);
    api_close(&a);
}
