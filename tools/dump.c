/* dump.c: `sinter explain --dump-dir` and `--trace`.
 *
 *     DIR/graph.sn                    the graph as it was compiled, with sizes; `sh DIR/again.sh` compiles it again
 *     DIR/05-to-loops.sn ..           the module behind each pass that changed it: each is read by `sinter opt`
 *     DIR/before-fusion.dot, after-fusion.dot    kernels and the buffers between them, for Graphviz
 *     DIR/kernels/k3.sn, k3.ptx       each kernel of the program; k3.sass, where ptxas and nvdisasm are in the PATH
 *     DIR/wrapper.txt                 its steps
 *
 * A trace has passes and code generation as they were, by the host's clock, and the launches of a run, one behind the other, with
 * what they take: measured where they were, else estimated. It says which in its names.
 */
#include "tools/dump.h"

#include "ir/loop/access.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { DOT_MOST = 4096 }; /* kernels of a drawing */

struct dump {
    char folder[2048];
    char *last, *dot; /* text and drawing of the module behind the last pass */
    unsigned number;
    bool failed, disassembles;
};

/* ---- machine code ---- */

static bool is_in_path(const char *program) {
    char file[4096];
    for (const char *at = getenv("PATH"); at && *at; at += *at == ':') {
        size_t n = strcspn(at, ":");
        int size = snprintf(file, sizeof file, "%.*s/%s", (int)n, at, program);
        if (size > 0 && size < (int)sizeof file && access(file, X_OK) == 0) return true;
        at += n;
    }
    return false;
}

/* Its standard output goes to a file, what it complains of nowhere. */
static bool run_program(char *const *argv, const char *output) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = 0;
    if (posix_spawn_file_actions_init(&actions)) return false;
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    bool good =
        posix_spawnp(&child, argv[0], &actions, NULL, argv, environ) == 0 && waitpid(child, &status, 0) == child;
    posix_spawn_file_actions_destroy(&actions);
    return good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Of the PTX that stands there. What the assembler of another version refuses has none. */
static void dump_sass(const dump *d, const char *kernel, const sn_target *target) {
    char base[4096], ptx[4200], cubin[4200], sass[4200], arch[128];
    if (snprintf(base, sizeof base, "%s/kernels/%.400s", d->folder, kernel) >= (int)sizeof base) return;
    snprintf(ptx, sizeof ptx, "%s.ptx", base);
    snprintf(cubin, sizeof cubin, "%s.cubin", base);
    snprintf(sass, sizeof sass, "%s.sass", base);
    snprintf(arch, sizeof arch, "-arch=%.*s", (int)strcspn(target->name, ":"), target->name);
    char *assemble[] = {"ptxas", arch, "-o", cubin, ptx, NULL}, *show[] = {"nvdisasm", cubin, NULL};
    if (!run_program(assemble, "/dev/null") || !run_program(show, sass)) unlink(sass);
    unlink(cubin);
}

/* ---- files ---- */

/* The first file that cannot be written is said, and the last one that is tried. */
static void write_text(dump *d, const char *name, const char *text) {
    char path[4096];
    if (d->failed) return;
    snprintf(path, sizeof path, "%s/%s", d->folder, name);
    d->failed = tool_write(path, &(sn_file_part){text, strlen(text)}, 1) != TOOL_OK;
}

dump *dump_open(const char *folder) {
    char kernels[4096];
    dump *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    snprintf(d->folder, sizeof d->folder, "%s", folder);
    snprintf(kernels, sizeof kernels, "%s/kernels", d->folder);
    d->disassembles = is_in_path("ptxas") && is_in_path("nvdisasm");
    if (strlen(folder) < sizeof d->folder && sn_folder_make(kernels)) return d;
    fprintf(stderr, "sinter: error: cannot write %s: %s\n", folder, strerror(errno));
    free(d);
    return NULL;
}

void dump_close(dump *d) {
    if (!d) return;
    free(d->last);
    free(d->dot);
    free(d);
}

/* ---- drawings ---- */

/* Which kernel stored a buffer last, by buffer: position + 1. */
static void draw_kernel(sn_text *t, const sn_module *m, uint32_t at, uint32_t *writer) {
    sn_kern k = m->kernels.at[at];
    const sn_kern_rec *r = sn_kern_get(m, k);
    sn_text_printf(t, "  k%u [label=", at);
    char label[160];
    snprintf(label, sizeof label, "%s\\n%.100s", r->name, r->note ? r->note : "");
    sn_text_quoted(t, label);
    sn_text_put(t, "];\n");
    for (uint32_t i = 0; i < r->params.n; i++) {
        sn_buf b = r->params.at[i];
        const sn_buf_rec *buf = sn_buf_get(m, b);
        if (!sn_kern_loads(m, k, b)) continue;
        if (!writer[b.i]) sn_text_printf(t, "  \"%s\" [shape=plain];\n  \"%s\" -> k%u;\n", buf->name, buf->name, at);
        else if (writer[b.i] != at + 1)
            sn_text_printf(t, "  k%u -> k%u [label=\"%s\"];\n", writer[b.i] - 1, at, buf->name);
    }
    for (uint32_t i = 0; i < r->params.n; i++)
        if (sn_kern_stores(m, k, r->params.at[i])) writer[r->params.at[i].i] = at + 1;
}

static void draw(sn_text *t, const sn_module *m) {
    uint32_t *writer = calloc(m->bufs.count + 1, sizeof *writer);
    sn_text_clear(t);
    if (!writer || m->kernels.n > DOT_MOST) {
        free(writer);
        return;
    }
    sn_text_put(t, "digraph kernels {\n  node [shape=box];\n");
    for (uint32_t i = 0; i < m->kernels.n; i++) draw_kernel(t, m, i, writer);
    sn_text_put(t, "}\n");
    free(writer);
}

/* ---- passes ---- */

void dump_pass(void *user, const char *pass, const sn_module *m) {
    dump *d = user;
    sn_text t;
    char name[128];
    sn_text_init(&t, m->env);
    if (pass && !strcmp(pass, "fuse") && d->dot) write_text(d, "before-fusion.dot", d->dot);
    draw(&t, m);
    free(d->dot);
    d->dot = strdup(t.s);
    if (pass && !strcmp(pass, "fuse")) write_text(d, "after-fusion.dot", t.s);
    sn_text_clear(&t);
    sn_module_print(&t, m);
    d->number += pass != NULL;
    if (!pass) write_text(d, "graph.sn", t.s);
    else if (d->last && strcmp(d->last, t.s) != 0) {
        snprintf(name, sizeof name, "%02u-%s.sn", d->number, pass);
        write_text(d, name, t.s);
    }
    free(d->last);
    d->last = strdup(t.s);
    sn_text_free(&t);
}

/* ---- the end ---- */

static void dump_kernel(dump *d, const look *l, uint32_t at, sn_text *t) {
    const sn_module *m = l->p->m;
    const char *name = sn_kern_get(m, m->kernels.at[at])->name;
    char file[512];
    sn_text_clear(t);
    sn_kern_print(t, m, m->kernels.at[at]);
    snprintf(file, sizeof file, "kernels/%.400s.sn", name);
    write_text(d, file, t->s);
    if (!l->p->codes || !l->p->codes[at].ptx) return;
    snprintf(file, sizeof file, "kernels/%.400s.ptx", name);
    write_text(d, file, l->p->codes[at].ptx);
    if (d->disassembles && !d->failed) dump_sass(d, name, &l->p->target);
}

typedef struct finishing {
    dump *d;
    const look *l;
} finishing;

static sn_status finish(sn_context *ctx, void *user) {
    const finishing *f = user;
    sn_text t;
    sn_text_init(&t, &ctx->env);
    for (uint32_t i = 0; i < f->l->p->m->kernels.n; i++) dump_kernel(f->d, f->l, i, &t);
    sn_text_clear(&t);
    sn_wrap_print(&t, f->l->p->m);
    write_text(f->d, "wrapper.txt", t.s);
    sn_text_clear(&t);
    bool gpu = f->l->p->gpu_code;
    sn_text_printf(
        &t,
        "#!/bin/sh\n# Compiles the graph again, as it was. SINTER: the tool.\ncd \"$(dirname \"$0\")\" || exit 1\n"
        "exec \"${SINTER:-sinter}\" emit --stage=%s --target=%s graph.sn\n",
        gpu ? "ptx" : "wrapper", f->l->p->target.name);
    write_text(f->d, "again.sh", t.s);
    sn_text_free(&t);
    return SN_OK;
}

int dump_finish(dump *d, const look *l) {
    finishing f = {d, l};
    if (sn_guarded(l->ctx, finish, &f) != SN_OK) return tool_fail(l->ctx);
    return d->failed ? TOOL_FAILED : TOOL_OK;
}

/* ---- traces ---- */

enum { TRACK_COMPILE = 1, TRACK_RUN = 2 };

static void add_event(json_t *events, int track, const char *name, double start_us, double us, json_t *args) {
    json_t *e = json_object();
    json_object_set_new(e, "name", json_string_nocheck(name));
    json_object_set_new(e, "ph", json_string("X"));
    json_object_set_new(e, "pid", json_integer(track));
    json_object_set_new(e, "tid", json_integer(1));
    json_object_set_new(e, "ts", json_real(start_us));
    json_object_set_new(e, "dur", json_real(us));
    if (args) json_object_set_new(e, "args", args);
    json_array_append_new(events, e);
}

static void name_track(json_t *events, int track, const char *name) {
    json_t *e = json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", "process_name", "ph", "M", "pid", track, "tid", 1,
                          "args", "name", name);
    json_array_append_new(events, e);
}

static const look_kernel *kernel_named(const look *l, const char *name) {
    for (uint32_t k = 0; k < l->n_kernels; k++)
        if (!strcmp(l->kernels[k].row->kernel, name)) return &l->kernels[k];
    return NULL;
}

static json_t *kernel_args(const char *made_of, const char *from, const char *bound) {
    json_t *args = json_object();
    json_object_set_new(args, "made of", json_string_nocheck(made_of ? made_of : ""));
    json_object_set_new(args, "from", json_string_nocheck(from ? from : ""));
    json_object_set_new(args, "bound by", json_string_nocheck(bound ? bound : ""));
    return args;
}

/* As it was. */
static void add_profile(json_t *events, const look *l) {
    for (unsigned i = 0; i < l->profile->n_events; i++) {
        const sn_profile_event *e = &l->profile->events[i];
        const sn_profile_row *row = &l->profile->rows[e->row];
        const look_kernel *k = kernel_named(l, row->name);
        json_t *args = kernel_args(row->made_of, row->from, k && k->estimate ? k->estimate->why : NULL);
        add_event(events, TRACK_RUN, row->name, e->start_us, e->us, args);
    }
}

/* As the model thinks. */
static void add_estimates(json_t *events, const look *l) {
    const sn_module *m = l->p->m;
    double now = 0;
    for (uint32_t i = m->wrap.n_prepare; i < m->wrap.steps.n; i++) {
        const sn_step *s = &m->wrap.steps.at[i];
        if (s->kind != SN_STEP_CALL) continue;
        const look_kernel *k = kernel_named(l, sn_kern_get(m, s->kern)->name);
        if (!k || !k->calls) continue;
        json_t *args = kernel_args(k->row->made_of, k->row->from, k->estimate ? k->estimate->why : NULL);
        add_event(events, TRACK_RUN, k->row->kernel, now, k->us / k->calls, args);
        now += k->us / k->calls;
    }
}

int dump_trace(const look *l, const char *path) {
    json_t *events = json_array(), *all = json_object();
    double end = 0;
    name_track(events, TRACK_COMPILE, "compilation");
    name_track(events, TRACK_RUN, l->profile ? "a run, kernels measured one by one" : "a run, estimated");
    for (uint32_t k = 0; k < l->log.rows[SN_METRIC_PASSES].n; k++) {
        const sn_row_passes *p = SN_ROW(&l->log, PASSES, passes, k);
        add_event(events, TRACK_COMPILE, p->pass, p->start_ms * 1e3, p->ms * 1e3, NULL);
        end = (p->start_ms + p->ms) * 1e3;
    }
    const sn_row_graph_stats *g = SN_ROW(&l->log, GRAPH_STATS, graph_stats, 0);
    add_event(events, TRACK_COMPILE, "code generation", end, g->codegen_ms * 1e3, NULL);
    if (l->profile) add_profile(events, l);
    else add_estimates(events, l);
    json_object_set_new(all, "traceEvents", events);
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(15)); /* nanoseconds, of hours, too */
    json_decref(all);
    if (!text) return fprintf(stderr, "sinter: error: out of memory\n"), TOOL_FAILED;
    int code = tool_write(path, &(sn_file_part){text, strlen(text)}, 1);
    free(text);
    return code;
}
