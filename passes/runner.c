/* runner.c: the table of passes, remarks, and the runner.
 *
 * The runner trusts no pass: it verifies the module between passes, compares the pass's claim `changed` with the
 * printed text, and in paranoid mode goes on with what it parsed from that text, so that everything a pass leaves
 * behind must be visible in the text. Relies on the printer, parser and verifier of ir/. Does not know what any pass
 * does and prints only through the callbacks of its options. Cost beside the passes: one print of the module a pass in
 * the checking modes.
 *
 * Running out of memory inside a pass jumps over the runner to the guard of its caller, which gives back what the
 * runner and the pass held (sn_env_release).
 */
#include "passes/runner.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

const sn_pass_info sn_passes[] = {
#define SN_PASS(ID, name, level, looks, doc) {name, sn_pass_##ID, SN_LEVEL_##level, SN_LOOKS_##looks, doc},
#include "passes/passes.def"
#undef SN_PASS
    {NULL, NULL, SN_LEVEL_GRAPH, SN_LOOKS_EACH, NULL},
};

/* ---- state of one run ---- */

typedef struct pass_time {
    const char *name;
    double ms;
    bool changed;
} pass_time;

typedef struct runner {
    sn_module **m;
    sn_env *env;
    const sn_target *target;
    const sn_pass_options *o;
    const char *pipeline;
    sn_arena arena;        /* of the run: names of the pipeline, times */
    sn_arena scratch;      /* of one pass */
    sn_text before, after; /* module text around the running pass, where it is needed */
    sn_text out;           /* what is being said */
    bool wants_text;       /* before and after are kept */
    sn_module *copy;       /* paranoid: the module that is being parsed */
    SN_VEC(const sn_pass_info *) passes;
    SN_VEC(pass_time) times;
    double start; /* of the run */
} runner;

/* Start over in a text that keeps its memory. */
static sn_text *emptied(sn_text *t) {
    sn_text_clear(t);
    return t;
}

static void module_text(sn_text *t, const sn_module *m) { sn_module_print(emptied(t), m); }

/* Hand out what stands in r->out. */
static void say(const runner *r) {
    if (r->o->print) r->o->print(r->o->print_user, r->out.s);
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- lists of pass names ---- */

/* The next name of a comma-separated list: its start and length; false at the end. Spaces are skipped. */
static bool next_name(const char **list, const char **name, size_t *n) {
    const char *s = *list + strspn(*list, ", \t\n");
    if (!*s) return false;
    *name = s;
    *n = strcspn(s, ", \t\n");
    *list = s + *n;
    return true;
}

static bool name_is(const char *s, size_t n, const char *name) { return strlen(name) == n && !memcmp(s, name, n); }

/* Is the pass named in the list (or the list "all")? A NULL list names nothing. */
static bool listed(const char *list, const char *pass) {
    const char *s;
    size_t n;
    while (list && next_name(&list, &s, &n))
        if (name_is(s, n, pass) || name_is(s, n, "all")) return true;
    return false;
}

const char *sn_passes_before(sn_arena *arena, const char *pipeline, const char *pass) {
    const char *s, *list = pipeline;
    for (size_t n; next_name(&list, &s, &n);)
        if (name_is(s, n, pass)) return sn_strndup(arena, pipeline, (size_t)(s - pipeline));
    return NULL;
}

const char *sn_passes_from(sn_arena *arena, const char *pipeline, const char *pass) {
    const char *before = sn_passes_before(arena, pipeline, pass);
    return before ? pipeline + strlen(before) : NULL;
}

static sn_status unknown_pass(runner *r, const char *name, size_t n) {
    sn_text *known = emptied(&r->out);
    for (const sn_pass_info *p = sn_passes; p->name; p++) sn_text_printf(known, "%s%s", known->n ? ", " : "", p->name);
    return sn_fail(r->env, SN_ERROR_ARGUMENT, "unknown pass '%.*s' (known: %s)", (int)n, name, known->s);
}

static sn_status find_pass(const sn_pass_info **out, runner *r, const char *name, size_t n) {
    for (const sn_pass_info *p = sn_passes; p->name; p++)
        if (name_is(name, n, p->name)) {
            *out = p;
            return SN_OK;
        }
    return unknown_pass(r, name, n);
}

/* Every name of the list must be a pass, or "all". */
static sn_status check_list(runner *r, const char *list) {
    const char *s;
    size_t n;
    const sn_pass_info *ignored;
    while (list && next_name(&list, &s, &n))
        if (!name_is(s, n, "all")) SN_TRY(find_pass(&ignored, r, s, n));
    return SN_OK;
}

static sn_status read_pipeline(runner *r) {
    const char *list = r->pipeline, *s;
    size_t n;
    while (next_name(&list, &s, &n)) {
        const sn_pass_info *p;
        SN_TRY(find_pass(&p, r, s, n));
        SN_PUSH(&r->arena, &r->passes, p);
    }
    SN_TRY(check_list(r, r->o->print_before));
    SN_TRY(check_list(r, r->o->print_after));
    SN_TRY(check_list(r, r->o->remarks));
    return check_list(r, r->o->stop_after);
}

/* ---- printing ---- */

/* `# after NAME`, then the module. */
static void print_module(runner *r, const char *when, const char *pass) {
    sn_text_printf(emptied(&r->out), "# %s %s\n", when, pass);
    sn_module_print(&r->out, *r->m);
    say(r);
}

static void print_remark(void *user, const char *pass, const char *where, const char *text) {
    runner *r = user;
    if (!listed(r->o->remarks, pass)) return;
    sn_text_printf(emptied(&r->out), "remark: %s: %s: %s\n", pass, where && *where ? where : "module", text);
    say(r);
}

static void print_times(runner *r) {
    double total = 0;
    sn_text *t = emptied(&r->out);
    for (uint32_t i = 0; i < r->times.n; i++) total += r->times.at[i].ms;
    sn_text_printf(t, "# %-16s %10s %7s  %s\n", "pass", "ms", "share", "changed");
    for (uint32_t i = 0; i < r->times.n; i++) {
        const pass_time *p = &r->times.at[i];
        sn_text_printf(t, "# %-16s %10.3f %6.1f%%  %s\n", p->name, p->ms, total > 0 ? 100 * p->ms / total : 0.0,
                       p->changed ? "yes" : "no");
    }
    sn_text_printf(t, "# %-16s %10.3f\n", "total", total);
    say(r);
}

/* ---- checks after a pass ---- */

static sn_status check_claim(runner *r, const char *pass, bool changed) {
    bool differs = strcmp(r->before.s, r->after.s) != 0;
    if (differs == changed) return SN_OK;
    return sn_fail(r->env, SN_ERROR_INTERNAL, "%s: it says that it changed %s, but the module's text is %s", pass,
                   changed ? "something" : "nothing", differs ? "different" : "the same");
}

/* Paranoid: replace the module by what its text says. Printing the copy must give the same text. */
static sn_status continue_with_copy(runner *r, const char *pass) {
    r->copy = sn_module_new(r->env);
    SN_TRY(sn_module_parse(r->copy, sn_strf(&r->arena, "text after %s", pass), r->after.s, r->after.n));
    sn_wt_share(r->copy, *r->m);
    module_text(&r->out, r->copy);
    if (strcmp(r->out.s, r->after.s))
        return sn_fail(r->env, SN_ERROR_INTERNAL, "the module prints differently after it was printed and parsed");
    sn_module_free(*r->m);
    *r->m = r->copy;
    r->copy = NULL;
    return SN_OK;
}

static sn_status check_after(runner *r, const char *pass, bool changed) {
    if (r->o->verify < SN_VERIFY_EACH) return SN_OK;
    SN_TRY(sn_module_verify(*r->m, pass));
    SN_TRY(check_claim(r, pass, changed));
    return r->o->verify == SN_VERIFY_PARANOID ? continue_with_copy(r, pass) : SN_OK;
}

/* ---- failures ---- */

/* "pass: message", once. */
static sn_status name_the_pass(runner *r, sn_status st, const char *pass) {
    size_t n = strlen(pass);
    if (!strncmp(r->env->message, pass, n) && r->env->message[n] == ':') return st;
    char message[SN_MESSAGE_MAX];
    memcpy(message, r->env->message, sizeof message);
    snprintf(r->env->message, sizeof r->env->message, "%s: %.*s", pass, (int)(sizeof message - n - 3), message);
    return st;
}

/* The module as it was before pass number `at`, with the command that fails on it. */
static void write_repro(runner *r, uint32_t at) {
    if (!r->o->repro_dir || !r->o->write_file) return;
    sn_text *t = emptied(&r->out);
    sn_text_put(t, "# RUN: sinter opt -passes=");
    for (uint32_t i = at; i < r->passes.n; i++) sn_text_printf(t, "%s%s", i > at ? "," : "", r->passes.at[i]->name);
    sn_text_printf(t, " -target=%s -verify=each %%s\n# %s\n", r->target ? r->target->name : "host", r->env->message);
    sn_text_put(t, r->before.s);
    char *path = sn_strf(&r->arena, "%s/%s.sn", r->o->repro_dir, r->passes.at[at]->name);
    char failure[SN_MESSAGE_MAX];
    sn_status status = r->env->status;
    memcpy(failure, r->env->message, sizeof failure);
    sn_env_clear(r->env); /* so that the file's failure has its words; the pass's own is put back */
    if (r->o->write_file(r->o->print_user, path, t->s) == SN_OK)
        sn_text_printf(emptied(t), "# reproducer written to %s\n", path);
    else sn_text_printf(emptied(t), "# no reproducer: %s\n", r->env->message);
    r->env->status = status;
    memcpy(r->env->message, failure, sizeof failure);
    say(r);
}

/* ---- the run ---- */

/* Functions run in the order of calls, which passes over kernels do not look at. */
static bool has_functions(const sn_module *m) {
    for (uint32_t i = 0; i < m->kernels.n; i++)
        if (sn_kern_get(m, m->kernels.at[i])->params.n) return sn_kern_is_function(m, m->kernels.at[i]);
    return false;
}

/* What a pass on graphs asks of a small graph; without what was decided or pinned for the whole. */
static sn_status schedule_graph(void *user, sn_module **m) {
    const runner *r = user;
    sn_pass_options o = {.stop_after = "schedule", .verify = r->o->verify};
    o.pipeline = strstr(r->target && r->target->is_gpu ? sn_pipeline_gpu : sn_pipeline_host, "to-loops");
    return sn_passes_run(m, r->target, &o);
}

static void record_pass(const runner *r, const pass_time *t, double start) {
    sn_row_passes *row = SN_ADD_ROW(r->o->metrics, PASSES, passes);
    if (!row) return;
    *row = (sn_row_passes){.pass = t->name,
                           .start_ms = start - r->start,
                           .ms = t->ms,
                           .changed = t->changed,
                           .kernels = (*r->m)->kernels.n};
}

static sn_status call_pass(runner *r, const sn_pass_info *p, bool *changed) {
    sn_arena_init(&r->scratch, r->env);
    sn_pass_ctx cx = {.m = *r->m,
                      .scratch = &r->scratch,
                      .target = r->target,
                      .library = r->o->library,
                      .choosing = &r->o->choosing,
                      .pass = p->name,
                      .metrics = r->o->metrics,
                      .schedule = schedule_graph,
                      .schedule_user = r};
    if (r->o->remarks && r->o->print) {
        cx.remark = print_remark;
        cx.remark_user = r;
    }
    double start = now_ms();
    bool skip = p->looks == SN_LOOKS_ALL && has_functions(*r->m);
    sn_status st = skip ? SN_OK : p->fn(&cx, changed);
    pass_time t = {p->name, now_ms() - start, *changed};
    SN_PUSH(&r->arena, &r->times, t);
    record_pass(r, &t, start);
    sn_arena_free(&r->scratch);
    /* Constructors record a failure and go on: a pass that overlooked one has failed all the same. */
    return st == SN_OK ? r->env->status : st;
}

static sn_status run_pass(runner *r, const sn_pass_info *p) {
    bool changed = false;
    if (listed(r->o->print_before, p->name)) print_module(r, "before", p->name);
    SN_TRY(call_pass(r, p, &changed));
    if (r->wants_text) module_text(&r->after, *r->m);
    if (r->o->look) r->o->look(r->o->look_user, p->name, *r->m);
    SN_TRY(check_after(r, p->name, changed));
    if (listed(r->o->print_after, p->name) || (r->o->print_changed && changed)) print_module(r, "after", p->name);
    sn_text swap = r->before; /* this pass's after is the next one's before */
    r->before = r->after;
    r->after = swap;
    return SN_OK;
}

static sn_status run_all(runner *r) {
    sn_text_init(&r->before, r->env);
    sn_text_init(&r->after, r->env);
    sn_text_init(&r->out, r->env);
    SN_TRY(read_pipeline(r));
    if (r->o->verify != SN_VERIFY_OFF) SN_TRY(sn_module_verify(*r->m, "before the first pass"));
    if (r->wants_text) module_text(&r->before, *r->m);
    if (r->o->look) r->o->look(r->o->look_user, NULL, *r->m);
    for (uint32_t i = 0; i < r->passes.n; i++) {
        const char *name = r->passes.at[i]->name;
        sn_status st = run_pass(r, r->passes.at[i]);
        if (st != SN_OK) {
            name_the_pass(r, st, name);
            write_repro(r, i);
            return st;
        }
        if (listed(r->o->stop_after, name)) break;
    }
    if (r->o->verify == SN_VERIFY_ENDS) SN_TRY(sn_module_verify(*r->m, "after the last pass"));
    if (r->o->time_passes) print_times(r);
    return SN_OK;
}

static void release(runner *r) {
    sn_arena_free(&r->scratch);
    sn_arena_free(&r->arena);
    sn_text_free(&r->before);
    sn_text_free(&r->after);
    sn_text_free(&r->out);
    if (r->copy) sn_module_free(r->copy);
}

sn_status sn_passes_run(sn_module **m, const sn_target *target, const sn_pass_options *options) {
    runner r = {.m = m, .env = (*m)->env, .target = target, .o = options, .pipeline = options->pipeline};
    r.start = now_ms();
    if (!r.pipeline) r.pipeline = target && target->is_gpu ? sn_pipeline_gpu : sn_pipeline_host;
    r.wants_text = options->verify >= SN_VERIFY_EACH || options->repro_dir;
    sn_arena_init(&r.arena, r.env);
    sn_arena_init(&r.scratch, r.env);
    r.before.env = r.after.env = r.out.env = r.env;
    sn_status st = run_all(&r);
    release(&r);
    return st;
}
