/* test_tune.c: choices by timing: the search on a machine that is made of numbers, records on disk, and sn_tune on the CPU. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen-llvm/codegen.h"
#include "include/sinter/sinter.h"
#include "passes/runner.h"
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

TestSuite(tune, .init = setup, .fini = teardown);

/* ---- a machine of numbers ---- */

/* What a trial does: values 0 and 1 stand for results; times are taken in turn. */
typedef struct number {
    const char *choice;
    double us[2], cycles, takes; /* seconds of a comparison */
    int value;
    bool broken;
} number;

typedef struct numbers {
    const number *at;
    unsigned n, samples[16], compiled;
    double now, step; /* of the clock */
} numbers;

static void compile_numbers(void *user, sn_trial_list *trials) {
    numbers *x = user;
    for (uint32_t k = 0; k < trials->n; k++) {
        if (trials->at[k].fate != SN_TRIAL_OPEN) continue;
        x->compiled++;
        if (!x->at[k].broken) continue;
        trials->at[k].fate = SN_TRIAL_FAILED;
        trials->at[k].why = "broken";
    }
}

static bool same_numbers(const char **why, void *user, sn_trial_list *trials, uint32_t reference, uint32_t trial) {
    numbers *x = user;
    (void)trials;
    x->now += x->at[trial].takes;
    *why = "another value";
    return x->at[reference].value == x->at[trial].value;
}

static double time_numbers(void *user, sn_trial_list *trials, uint32_t trial) {
    numbers *x = user;
    (void)trials;
    x->now += x->step;
    return x->at[trial].us[x->samples[trial]++ % 2];
}

static double clock_of_numbers(void *user) { return ((numbers *)user)->now; }

static sn_trial_list trials_of(const numbers *x) {
    sn_trial_list trials = {.arena = &arena};
    for (unsigned k = 0; k < x->n; k++) {
        sn_trial t = {.choice = x->at[k].choice, .cycles = x->at[k].cycles};
        SN_PUSH(&arena, &trials, t);
    }
    return trials;
}

static const char *search(sn_trial_list *trials, numbers *x, double bound_us, double seconds) {
    sn_trial_machine machine = {.user = x,
                                .compile = compile_numbers,
                                .same = same_numbers,
                                .time = time_numbers,
                                .seconds = clock_of_numbers,
                                .bound_us = bound_us};
    sn_search found;
    *trials = trials_of(x);
    sn_trials_search(&found, trials, &machine, seconds);
    return found.best == UINT32_MAX ? NULL : trials->at[found.best].choice;
}

#define NUMBERS(...)                                                                                                   \
    { .at = (const number[]){__VA_ARGS__}, .n = SN_COUNT(((const number[]){__VA_ARGS__})), .step = 0.01 }

Test(tune, fastest_wins_and_always_the_same_one) {
    for (int round = 0; round < 3; round++) {
        numbers x = NUMBERS({.choice = "plain", .us = {12, 13}}, {.choice = "a", .us = {5, 4}},
                            {.choice = "b", .us = {4.5, 3.9}}, {.choice = "c", .us = {30, 30}});
        sn_trial_list trials;
        uint32_t rank[4];
        cr_assert_str_eq(search(&trials, &x, 0, 60), "b");
        cr_assert_eq(x.samples[3], 1, "what is far from the best is timed once");
        cr_assert_eq(trials.at[2].us, 3.9);
        sn_trials_rank(rank, &trials);
        for (uint32_t k = 0; k < 4; k++) cr_assert_eq(rank[k], ((uint32_t[]){2, 1, 0, 3})[k]);
    }
}

Test(tune, product_as_it_is_gives_way_to_a_gain_alone) {
    sn_trial_list trials;
    numbers near = NUMBERS({.choice = "plain", .us = {100, 100}}, {.choice = "a", .us = {99.5, 99.5}});
    cr_assert_str_eq(search(&trials, &near, 0, 60), "plain");
    numbers gain = NUMBERS({.choice = "plain", .us = {100, 100}}, {.choice = "a", .us = {97, 97}});
    cr_assert_str_eq(search(&trials, &gain, 0, 60), "a");
    numbers without = NUMBERS({.choice = "a", .us = {99, 99}}, {.choice = "b", .us = {98.9, 98.9}});
    cr_assert_str_eq(search(&trials, &without, 0, 60), "b");
}

/* The fastest one computes something else: it is found, said and dropped, also where it comes first. */
Test(tune, deviating_trial_is_dropped) {
    sn_trial_list trials;
    numbers last = NUMBERS({.choice = "plain", .us = {12, 12}}, {.choice = "a", .us = {5, 5}},
                           {.choice = "wrong", .us = {1, 1}, .value = 1});
    cr_assert_str_eq(search(&trials, &last, 0, 60), "a");
    cr_assert_eq(trials.at[2].fate, SN_TRIAL_DEVIATES);
    cr_assert_str_eq(trials.at[2].why, "another value");
    cr_assert_eq(last.samples[2], 0);
    numbers first = NUMBERS({.choice = "plain", .us = {1, 1}, .value = 1}, {.choice = "a", .us = {5, 5}},
                            {.choice = "b", .us = {7, 7}});
    cr_assert_str_eq(search(&trials, &first, 0, 60), "a");
    cr_assert_eq(trials.at[0].fate, SN_TRIAL_DEVIATES);
}

Test(tune, what_fails_or_is_slow_by_the_model_is_not_timed) {
    sn_trial_list trials;
    numbers x = NUMBERS({.choice = "broken", .us = {1, 1}, .broken = true},
                        {.choice = "slow", .us = {1, 1}, .cycles = 1000}, {.choice = "a", .us = {5, 5}, .cycles = 100});
    cr_assert_str_eq(search(&trials, &x, 0, 60), "a");
    cr_assert_eq(x.compiled, 2);
    static const sn_trial_fate fates[] = {SN_TRIAL_FAILED, SN_TRIAL_SLOW, SN_TRIAL_TIMED};
    for (uint32_t k = 0; k < 3; k++) cr_assert_eq(trials.at[k].fate, fates[k]);
    numbers none = NUMBERS({.choice = "a", .us = {5, 5}, .broken = true});
    cr_assert_null(search(&trials, &none, 0, 60));
}

Test(tune, stops_near_the_bound_and_when_time_is_up) {
    sn_trial_list trials;
    numbers bound =
        NUMBERS({.choice = "plain", .us = {12, 12}}, {.choice = "a", .us = {5, 5}}, {.choice = "b", .us = {4.9, 4.9}});
    cr_assert_str_eq(search(&trials, &bound, 4.8, 60), "a");
    cr_assert_eq(trials.at[2].fate, SN_TRIAL_OPEN);
    cr_assert_eq(bound.samples[2], 0);
    numbers late = NUMBERS({.choice = "plain", .us = {12, 12}}, {.choice = "a", .us = {5, 5}});
    late.step = 10;
    cr_assert_str_eq(search(&trials, &late, 0, 1), "plain", "one is timed in any case");
    cr_assert_eq(trials.at[1].fate, SN_TRIAL_OPEN);
}

/* One that takes seconds to run once is not timed, and nothing is that nobody has compared. */
Test(tune, what_takes_long_to_compare_is_not_timed) {
    sn_trial_list trials;
    numbers slow =
        NUMBERS({.choice = "plain", .us = {12, 12}, .takes = 0.01}, {.choice = "a", .us = {11, 11}, .takes = 0.01},
                {.choice = "b", .us = {5, 5}, .takes = 3}, {.choice = "c", .us = {9, 9}, .takes = 0.02});
    cr_assert_str_eq(search(&trials, &slow, 0, 60), "c");
    cr_assert_eq(trials.at[2].fate, SN_TRIAL_SLOW);
    cr_assert_eq(slow.samples[2], 0);
    numbers late = NUMBERS({.choice = "plain", .us = {12, 12}}, {.choice = "a", .us = {11, 11}, .takes = 3},
                           {.choice = "b", .us = {5, 5}});
    cr_assert_str_eq(search(&trials, &late, 0, 1), "plain");
    cr_assert_eq(late.samples[2], 0);
}

/* ---- what there is to try ---- */

static const char PRODUCT[] = "graph @product(%i0: f32[64, 4096], %i1: f32[4096, 32]) {\n"
                              "  %0 = matmul %i0, %i1 : f32[64, 32]\n  return o0 = %0\n}\n";

Test(tune, trials_of_a_product) {
    sn_target host;
    sn_trial_list trials = {.arena = &arena};
    bool inner = false, parts = false;
    sn_target_host(&host, 2);
    cr_assert_eq(sn_trials_list(&trials, &env, PRODUCT, &host, NULL, sn_pipeline_host, NULL), SN_OK, "%s", env.message);
    cr_assert_str_eq(trials.at[0].choice, "plain");
    for (uint32_t k = 0; k < trials.n; k++) {
        inner |= strstr(trials.at[k].choice, "schedule inner ") != NULL;
        parts |= strstr(trials.at[k].choice, "decompose_k parts=") != NULL;
    }
    cr_assert(inner && parts);
    sn_trial_list some = {.arena = &arena};
    cr_assert_eq(sn_trials_list(&some, &env, PRODUCT, &host, NULL, sn_pipeline_host, "transposed"), SN_OK);
    cr_assert_eq(some.n, 1);
}

static bool three_algorithms(void *user, const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    (void)user, (void)why;
    cr_assert(call->m == 32 && call->n == 64 && call->k == 4096 && call->batch == 1);
    return call->algo < 3;
}

Test(tune, trials_of_a_library) {
    sn_target host;
    sn_trial_list trials = {.arena = &arena};
    const sn_library library = {three_algorithms, NULL};
    sn_target_host(&host, 2);
    cr_assert_eq(sn_trials_list(&trials, &env, PRODUCT, &host, &library, sn_pipeline_host, "extern"), SN_OK);
    cr_assert_eq(trials.n, 3);
    cr_expect_str_eq(trials.at[0].choice, "library");
    cr_expect_str_eq(trials.at[2].choice, "library algo=2");
}

static const char CONV[] =
    "graph @convolution(%i0: f16[4, 64, 28, 28], %i1: f16[48, 64, 3, 3]) {\n"
    "  %0 = conv %i0, %i1 stride=[2, 2] padding=[1, 1] : f16[4, 48, 14, 14]\n  return o0 = %0\n}\n";

static bool two_algorithms(void *user, const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    const sn_library_conv *v = &call->conv;
    (void)user, (void)why;
    cr_assert(call->is_conv && v->batch.size == 4 && v->groups.size == 1 && v->out.size == 48 && v->in.size == 64);
    cr_assert(v->n == 2 && v->at[0].size == 28 && v->at[1].taps == 3 && v->at[1].stride == 2 && v->at[1].low == 1);
    cr_assert(v->at[1].a == 1 && v->at[1].b == 1 && v->at[1].c == 1 && v->in.a == 28 * 28 && v->in.b == 9);
    return call->algo < 2;
}

Test(tune, trials_of_a_convolution) {
    sn_target host;
    sn_trial_list trials = {.arena = &arena};
    const sn_library library = {two_algorithms, NULL};
    static const char *const wanted[] = {"plain", "library", "library algo=1", "unfolded"};
    sn_target_host(&host, 2);
    cr_assert_eq(sn_trials_list(&trials, &env, CONV, &host, &library, sn_pipeline_host, NULL), SN_OK, "%s",
                 env.message);
    for (size_t i = 0; i < SN_COUNT(wanted); i++) {
        bool found = false;
        for (uint32_t k = 0; k < trials.n; k++) found |= !strcmp(trials.at[k].choice, wanted[i]);
        cr_expect(found, "%s", wanted[i]);
    }
    cr_expect_str_eq(trials.at[0].choice, "plain");
    cr_expect(!strncmp(trials.at[1].choice, "schedule ", 9) && trials.at[1].cycles >= 0, "%s", trials.at[1].choice);
}

/* ---- records ---- */

static sn_record_place place_of(const char *device) {
    return (sn_record_place){.folder = folder, .device = device, .versions = "1", .choices = ""};
}

static sn_trial one_trial = {.choice = "decompose_k parts=16", .fate = SN_TRIAL_TIMED, .us = 4.25};
static const sn_trial_list one = {.at = &one_trial, .n = 1};

static const char *find(sn_record_place *place) {
    double us = 0;
    const char *choice = sn_record_find(&us, place, PRODUCT, &arena);
    if (choice) cr_assert_eq(us, 4.25);
    return choice;
}

/* The only file of the folder. */
static const char *only_file(void) {
    static char path[512];
    DIR *d = opendir(folder);
    unsigned n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        n++;
    }
    closedir(d);
    cr_assert_eq(n, 1, "%u files", n);
    return path;
}

Test(tune, record_is_found_again) {
    sn_record_place place = place_of("H200");
    cr_assert_null(find(&place));
    sn_record_save(&place, PRODUCT, &one, 0);
    cr_assert_str_eq(find(&place), "decompose_k parts=16");
    sn_record_place other = place_of("A100"), newer = place_of("H200"), fewer = place_of("H200"), none = {0};
    newer.versions = "2";
    fewer.choices = "subgraph";
    cr_assert_null(find(&other));
    cr_assert_null(find(&newer));
    cr_assert_null(find(&fewer));
    cr_assert_null(find(&none));
    sn_record_save(&none, PRODUCT, &one, 0);
    const sn_record_place *all[] = {&place, &other, &newer, &fewer, &none};
    for (size_t k = 0; k < SN_COUNT(all); k++) cr_assert_str_eq(all[k]->warning, "");
}

/* Cut off at every length: never a choice, and one line that names the file. */
/* A folder that was listed is not asked about what was not there. */
Test(tune, folder_is_listed_once) {
    sn_record_place place = place_of("H200"), before = place_of("H200"), none = {0};
    cr_assert_eq(sn_record_list(&before, &arena), 0);
    sn_record_save(&place, PRODUCT, &one, 0);
    cr_assert_null(find(&before));
    cr_assert_eq(sn_record_list(&place, &arena), 1);
    cr_assert_str_eq(find(&place), "decompose_k parts=16");
    double us;
    cr_assert_null(sn_record_find(&us, &place, "another", &arena));
    cr_assert_eq(sn_record_list(&none, &arena), 0);
}

Test(tune, record_that_is_cut_off) {
    sn_record_place place = place_of("H200");
    sn_record_save(&place, PRODUCT, &one, 0);
    const char *path = only_file();
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    for (off_t size = st.st_size - 2; size >= 0; size -= 7) {
        cr_assert_eq(truncate(path, size), 0);
        place.warning[0] = 0;
        cr_assert_null(find(&place), "%lld bytes", (long long)size);
        cr_assert(strstr(place.warning, path) && strstr(place.warning, "is cut off or damaged; not used"), "%s",
                  place.warning);
        cr_assert_null(strchr(place.warning, '\n'));
    }
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* A file that lies where another device's record belongs, and others that are JSON but no record. */
Test(tune, record_of_another_device_or_none) {
    sn_record_place place = place_of("H200"), other = place_of("A100");
    char mine[512];
    sn_record_save(&place, PRODUCT, &one, 0);
    strcpy(mine, only_file());
    cr_assert_eq(unlink(mine), 0);
    sn_record_save(&other, PRODUCT, &one, 0);
    cr_assert_eq(rename(only_file(), mine), 0);
    cr_assert_null(find(&place));
    cr_assert(strstr(place.warning, "another device or other versions"), "%s", place.warning);
    static const char *const cases[][2] = {
        {"[]", "is no record"},
        {"{\"choice\": 3, \"us\": 1}", "is no record"},
        {"{\"choice\": \"plain\", \"us\": \"fast\"}", "is no record"},
        {"{\"choice\": \"plain\", \"us\": 1, \"device\": \"H200\", \"versions\": \"1\", \"product\": \"p\", \"choices\": \"\"}",
         "is of another product"},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        write_file(mine, cases[k][0]);
        place.warning[0] = 0;
        cr_assert_null(find(&place));
        cr_assert(strstr(place.warning, cases[k][1]), "%s", place.warning);
    }
    sn_record_save(&place, PRODUCT, &(sn_trial_list){.at = &(sn_trial){.choice = "fastest"}, .n = 1}, 0);
    place.warning[0] = 0;
    cr_assert_null(find(&place));
    cr_assert(strstr(place.warning, "has a choice that is not known"), "%s", place.warning);
}

Test(tune, folder_that_cannot_be_written) {
    char below[128];
    sn_record_place place = place_of("H200");
    snprintf(below, sizeof below, "%s/file", folder);
    write_file(below, "no folder");
    strcat(below, "/records");
    place.folder = below;
    cr_assert_null(find(&place));
    cr_assert_str_eq(place.warning, "", "nothing is there, and nothing is wrong with that");
    sn_record_save(&place, PRODUCT, &one, 0);
    cr_assert(strstr(place.warning, "Not a directory; not kept"), "%s", place.warning);
    place.warning[0] = 0;
    place.folder = "/proc/sinter/records";
    sn_record_save(&place, PRODUCT, &one, 0);
    cr_assert(strstr(place.warning, "not kept"), "%s", place.warning);
}

/* Without a folder nothing is kept: that is said, but where somebody wants it so (record_dir "off"). */
Test(tune, no_folder) {
    sn_record_place place = place_of("H200");
    place.folder = NULL;
    sn_record_save(&place, PRODUCT, &one, 0);
    cr_assert_str_eq(place.warning, "");
    place.nowhere = true;
    sn_record_save(&place, PRODUCT, &one, 0);
    cr_assert_str_eq(place.warning, "records: XDG_CACHE_HOME and HOME name no folder; not kept");
}

/* A disk that is full after so many bytes: nothing is left, and an older record stays. */
Test(tune, full_disk) {
    sn_record_place place = place_of("H200");
    sn_trial newer = {.choice = "plain", .fate = SN_TRIAL_TIMED, .us = 1};
    struct rlimit small = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY}, no_limit = {RLIM_INFINITY, RLIM_INFINITY};
    sn_record_save(&place, PRODUCT, &one, 0);
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    sn_record_save(&place, PRODUCT, &(sn_trial_list){.at = &newer, .n = 1}, 0);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &no_limit), 0);
    cr_assert(strstr(place.warning, "File too large; not kept"), "%s", place.warning);
    only_file();
    cr_assert_str_eq(find(&place), "decompose_k parts=16");
}

/* Two processes write as fast as they can while a third reads: it finds a whole record at any time. */
Test(tune, two_processes_write_and_one_reads) {
    enum { ROUNDS = 100 };
    sn_record_place place = place_of("H200");
    pid_t writers[2];
    sn_record_save(&place, PRODUCT, &one, 0);
    for (int w = 0; w < 2; w++) {
        writers[w] = fork();
        cr_assert_geq(writers[w], 0);
        if (writers[w]) continue;
        for (int k = 0; k < ROUNDS; k++) sn_record_save(&place, PRODUCT, &one, 0);
        _exit(place.warning[0] != 0);
    }
    for (int k = 0; k < 3 * ROUNDS; k++) cr_assert_str_eq(find(&place), "decompose_k parts=16", "%s", place.warning);
    for (int w = 0; w < 2; w++) {
        int code;
        cr_assert_eq(waitpid(writers[w], &code, 0), writers[w]);
        cr_assert_eq(code, 0);
    }
    only_file();
}

/* ---- sn_tune ---- */

static const char LAYER[] = "graph @layer(%x: f32[40, 300], %w: f32[24, 300], %b: f32[24]) {\n"
                            "  %t = permute %w perm=[1, 0]\n  %c = matmul %x, %t\n  %y = add %c, %b\n"
                            "  return y = %y\n}\n";

static void log_line(void *user, const char *text) { strncat(user, text, 999 - strlen(user)); }

typedef struct api {
    char log[1000];
    sn_context *ctx;
    sn_graph *g;
    sn_compile_options o;
    sn_tune_report *r;
} api;

static void api_open(api *a) {
    *a = (api){.o = {.struct_size = sizeof a->o, .device = "cpu", .threads = 1, .record_dir = folder}};
    sn_context_options options = {.struct_size = sizeof options, .log = log_line, .log_user = a->log};
    cr_assert_eq(sn_context_create(&a->ctx, &options), SN_OK);
    cr_assert_eq(sn_graph_from_text(&a->g, a->ctx, "layer", LAYER, strlen(LAYER)), SN_OK, "%s", sn_error(a->ctx));
}

static void api_close(api *a) {
    sn_tune_report_destroy(a->r);
    sn_graph_destroy(a->g);
    sn_context_destroy(a->ctx);
}

static void count_steps(void *user, const char *title, unsigned done, unsigned steps) {
    unsigned *last = user;
    cr_assert(strstr(title, "matmul f32[40, 300] x f32[300, 24], add"), "%s", title);
    cr_assert(done >= *last && done <= steps);
    *last = done;
}

Test(tune, graph_is_tuned_once) {
    api a;
    unsigned last = 0;
    sn_tune_options how = {.struct_size = sizeof how, .budget = 20, .progress = count_steps, .progress_user = &last};
    api_open(&a);
    cr_assert_eq(sn_tune(&a.r, a.g, &a.o, &how), SN_OK, "%s", sn_error(a.ctx));
    cr_assert_eq(a.r->n_products, 1);
    const sn_tuned_product *p = &a.r->products[0];
    cr_assert(!p->recorded && p->n_trials > 3 && p->us > 0 && last > 0);
    cr_assert_str_eq(a.r->warning, "");
    for (unsigned k = 0; k < p->n_trials; k++)
        cr_assert(!strcmp(p->trials[k].fate, "timed") || !strcmp(p->trials[k].fate, "left"), "%s: %s %s",
                  p->trials[k].choice, p->trials[k].fate, p->trials[k].why);
    char choice[256];
    snprintf(choice, sizeof choice, "%s", p->choice);
    sn_tune_report_destroy(a.r);
    cr_assert_eq(sn_tune(&a.r, a.g, &a.o, NULL), SN_OK, "%s", sn_error(a.ctx));
    cr_assert(a.r->products[0].recorded && a.r->products[0].n_trials == 0);
    cr_assert_str_eq(a.r->products[0].choice, choice);
    api_close(&a);
}

/* The text of the scheduled kernels. */
static char *scheduled(api *a) {
    sn_program *p;
    char *text;
    cr_assert_eq(sn_compile(&p, a->g, &a->o), SN_OK, "%s", sn_error(a->ctx));
    cr_assert_eq(sn_program_dump(&text, p, "scheduled"), SN_OK, "%s", sn_error(a->ctx));
    sn_program_destroy(p);
    return text;
}

/* Put another choice into the only record. */
static void rewrite_record(const char *choice) {
    char text[8192] = "", *at, changed[9000];
    const char *path = only_file();
    FILE *file = fopen(path, "r");
    cr_assert(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    at = strstr(text, "\n \"choice\": \"");
    cr_assert(at);
    char *rest = strstr(at + 4, "\",\n");
    snprintf(changed, sizeof changed, "%.*s\n \"choice\": \"%s%s", (int)(at - text), text, choice, rest);
    write_file(path, changed);
}

/* sn_compile takes what is on record, nothing with tune "off", and goes on without a record that makes no program. */
Test(tune, records_decide_compilations) {
    api a;
    api_open(&a);
    cr_assert_eq(sn_tune(&a.r, a.g, &a.o, NULL), SN_OK, "%s", sn_error(a.ctx));
    rewrite_record("schedule inner block_x=1 unroll=2");
    char *text = scheduled(&a);
    cr_assert(strstr(text, "schedule inner block_x=1 block_y=1 vector="), "%s", text);
    cr_assert(strstr(text, "unroll=2"), "%s", text);
    sn_free(a.ctx, text);
    a.o.tune = "off";
    text = scheduled(&a);
    cr_assert_null(strstr(text, "schedule inner block_x=1 block_y=1 vector=16 unroll=2"), "%s", text);
    sn_free(a.ctx, text);
    a.o.tune = NULL;
    rewrite_record("decompose_k parts=7");
    text = scheduled(&a);
    cr_assert_null(strstr(text, "[7, "), "%s", text);
    cr_assert(strstr(a.log, "a recorded choice: choose: decompose_k: 'parts=7'"), "%s", a.log);
    sn_free(a.ctx, text);
    cr_assert_eq(truncate(only_file(), 30), 0);
    a.log[0] = 0;
    text = scheduled(&a);
    sn_free(a.ctx, text);
    cr_assert(strstr(a.log, "is cut off or damaged; not used\n"), "%s", a.log);
    cr_assert_eq(strchr(a.log, '\n')[1], 0, "one line: %s", a.log);
    api_close(&a);
}

Test(tune, targets_to_look_at_are_not_timed) {
    api a;
    api_open(&a);
    a.o.device = NULL;
    a.o.target = "sm_90";
    cr_assert_eq(sn_tune(&a.r, a.g, &a.o, NULL), SN_ERROR_ARGUMENT);
    cr_assert_null(a.r);
    cr_assert(strstr(sn_error(a.ctx), "cannot be timed"), "%s", sn_error(a.ctx));
    api_close(&a);
}
