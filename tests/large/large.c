/* large.c: tensors of more than 2^31 elements and 4 GB, and rows of 60,000 to 400,000 elements, on the device at hand.
 *
 *     large [--device=cuda] [--scale=N] [--only=TEXT] ...
 *
 * The cases are rows of cases.def; run.c says how one is made and checked. Here they are run, one after the other, in a
 * process of their own that tells what begins and how it ended. A case that crashes, hangs, or leaves the device in an
 * error state ends alone: the next one begins in a new process. Needs nothing but the library's public interface.
 */
#include "tests/large/case.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const large_case cases[] = {
#define LARGE(name, sizes, graph, formulas, tolerance) {name, sizes, graph, formulas, tolerance},
#include "tests/large/cases.def"
#undef LARGE
};
enum { N_CASES = sizeof cases / sizeof *cases, LINE = 1024 };

typedef struct settings {
    run_options run;
    const char *only;
    int seconds; /* that a case may take */
    int worker;  /* the case that this process begins with, -1: it is the one that starts processes */
    bool list;
    char **arguments;
} settings;

static bool wanted(const settings *set, int k) { return !set->only || strstr(cases[k].name, set->only); }

/* ---- the process that runs cases ---- */

static const char outcome_names[] = "pfsl";

static int work(const settings *set) {
    sn_context *ctx;
    if (sn_context_create(&ctx, NULL)) return 1;
    for (int k = set->worker; k < N_CASES; k++) {
        char text[512];
        if (!wanted(set, k)) continue;
        printf("b %d\n", k);
        fflush(stdout);
        outcome o = case_run(text, sizeof text, ctx, &cases[k], &set->run);
        for (char *c = text; *c; c++)
            if (*c == '\n') *c = ' ';
        printf("%c %d %s\n", outcome_names[o], k, text);
        fflush(stdout);
        if (o == LOST) _exit(0);
    }
    sn_context_destroy(ctx);
    return 0;
}

/* ---- the process that starts it ---- */

typedef struct worker {
    pid_t pid;
    int from; /* its end of a pipe */
    char line[LINE];
    size_t n;
} worker;

typedef struct score {
    int passed, failed, skipped;
} score;

static bool start(worker *w, const settings *set, int first) {
    int ends[2];
    char option[32];
    if (pipe(ends)) return false;
    *w = (worker){.from = ends[0]};
    snprintf(option, sizeof option, "--worker=%d", first);
    w->pid = fork();
    if (w->pid == 0) {
        char *arguments[32];
        int n = 0;
        for (; set->arguments[n] && n < 30; n++) arguments[n] = set->arguments[n];
        arguments[n++] = option;
        arguments[n] = NULL;
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    close(ends[1]);
    return w->pid > 0;
}

/* 1: a line; 0: the process has closed its end; -1: nothing in time. */
static int read_line(worker *w, int seconds) {
    for (w->n = 0; w->n + 1 < LINE;) {
        struct pollfd ready = {.fd = w->from, .events = POLLIN};
        if (poll(&ready, 1, seconds * 1000) <= 0) return -1;
        if (read(w->from, &w->line[w->n], 1) <= 0) return 0;
        if (w->line[w->n] == '\n') break;
        w->n++;
    }
    w->line[w->n] = 0;
    return 1;
}

static void tell(score *sc, char kind, int k, const char *text) {
    const char *words = kind == 'p' ? "passed" : kind == 's' ? "skipped" : "FAILED";
    *(kind == 'p' ? &sc->passed : kind == 's' ? &sc->skipped : &sc->failed) += 1;
    printf("%s %s: %s\n", words, cases[k].name, text);
    fflush(stdout);
}

/* How a process ended in the middle of a case. */
static void tell_end(score *sc, worker *w, int k, int seconds, bool late) {
    int status = 0;
    char text[64];
    if (late) kill(w->pid, SIGKILL);
    waitpid(w->pid, &status, 0);
    if (late) snprintf(text, sizeof text, "no end after %d s", seconds);
    else if (WIFSIGNALED(status)) snprintf(text, sizeof text, "the process got signal %d", WTERMSIG(status));
    else snprintf(text, sizeof text, "the process ended with status %d", WEXITSTATUS(status));
    close(w->from);
    if (k >= 0) tell(sc, 'f', k, text);
}

/* Follow a process to its end. Returns the case after the last one that it began. */
static int follow(worker *w, const settings *set, score *sc, int first) {
    int began = -1, next = first;
    for (;;) {
        int got = read_line(w, set->seconds), k = -1, at = 0;
        if (got <= 0) {
            /* A process that ends before its first case would do so again. */
            if (began < 0 && next == first) tell(sc, 'f', first, "the process that runs cases does not start");
            tell_end(sc, w, began, set->seconds, got < 0);
            return next > first ? next : N_CASES;
        }
        char kind = w->line[0];
        if (sscanf(w->line + 1, "%d%n", &k, &at) != 1 || k < 0 || k >= N_CASES) continue;
        if (kind == 'b') began = k, next = k + 1;
        else {
            tell(sc, kind, k, w->line + 1 + at + (w->line[1 + at] == ' '));
            began = -1;
        }
    }
}

static bool any_left(const settings *set, int first) {
    while (first < N_CASES && !wanted(set, first)) first++;
    return first < N_CASES;
}

static int run_all(const settings *set) {
    score sc = {0};
    for (int next = 0; any_left(set, next);) {
        worker w;
        if (!start(&w, set, next)) return fprintf(stderr, "large: no process can be started\n"), 1;
        next = follow(&w, set, &sc, next);
    }
    printf("%d passed, %d failed, %d skipped\n", sc.passed, sc.failed, sc.skipped);
    return sc.failed || !(sc.passed + sc.skipped);
}

/* ---- the command line ---- */

static int usage(void) {
    fprintf(stderr, "usage: large [option...]\n"
                    "  --device=cuda|cpu     where to run (default: cuda)\n"
                    "  --cpu-schedule=gpu    on the CPU, kernels that are scheduled for a GPU\n"
                    "  --scale=N             sizes are divided by N, down to the least that a case makes sense with\n"
                    "  --memory=GB           skip cases that want more (on the CPU: three quarters of what is free)\n"
                    "  --check=device        small tensors too are made and checked on the device\n"
                    "  --spoil               an element of each result is changed: every case has to fail\n"
                    "  --only=TEXT           cases with TEXT in their names\n"
                    "  --seconds=N           that a case may take (default: 60)\n"
                    "  --list                names of the cases\n");
    return 2;
}

static const char *value_of(const char *argument, const char *name) {
    size_t n = strlen(name);
    return strncmp(argument, name, n) ? NULL : argument + n;
}

static bool read_option(settings *set, const char *a) {
    const char *v;
    if ((v = value_of(a, "--device="))) set->run.device = v;
    else if ((v = value_of(a, "--cpu-schedule="))) set->run.cpu_schedule = v;
    else if ((v = value_of(a, "--scale="))) set->run.scale = atoll(v);
    else if ((v = value_of(a, "--memory="))) set->run.memory = atof(v) * 1e9;
    else if ((v = value_of(a, "--only="))) set->only = v;
    else if ((v = value_of(a, "--seconds="))) set->seconds = atoi(v);
    else if ((v = value_of(a, "--worker="))) set->worker = atoi(v);
    else if (!strcmp(a, "--check=device")) set->run.by_device = true;
    else if (!strcmp(a, "--spoil")) set->run.spoil = true;
    else if (!strcmp(a, "--list")) set->list = true;
    else return false;
    return true;
}

int main(int n, char **arguments) {
    settings set = {.run = {.device = "cuda", .scale = 1}, .seconds = 60, .worker = -1, .arguments = arguments};
    for (int k = 1; k < n; k++)
        if (!read_option(&set, arguments[k])) return usage();
    if (set.run.scale < 1 || set.seconds < 1 || n > 24) return usage();
    if (!strcmp(set.run.device, "cpu") && !set.run.memory)
        set.run.memory = 0.75 * (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (set.worker >= 0) return work(&set);
    for (int k = 0; k < N_CASES && set.list; k++)
        if (wanted(&set, k)) printf("%s\n", cases[k].name);
    return set.list ? 0 : run_all(&set);
}
