/* metrics.c: what a compilation records when it is done, and where rows and counters go: files, a callback, the context.
 *
 * Passes add what they alone know while they run (fuse, schedule, choose). What follows from the program is read off it
 * here: kernels from their IR and their cubins, the graph as a whole. Rows of a compilation that fails are dropped. Without
 * a list of tables and a callback nothing is added but a few sums, which the counters of the context want.
 */
#include "frontend/frontend.h"

#include "ir/loop/figures.h"

#include <limits.h>
#include <math.h>
#include <string.h>

sn_metric_log *sn_metrics_begin(sn_context *ctx, const sn_settings *s) {
    if (s->metrics.log) return s->metrics.log;
    sn_metric_log *log = SN_NEW(&ctx->scratch, sn_metric_log);
    log->arena = &ctx->scratch;
    log->wanted = s->metrics.tables;
    return log;
}

/* ---- kernels ---- */

static int64_t calls_of(const sn_program *p, sn_kern k) { return sn_wrap_calls(p->m, 0, k); }

static const char *header_of(const sn_metric_log *log, const sn_sched *sched) {
    sn_text t;
    sn_text_init(&t, log->arena->env);
    sn_sched_print(&t, sched);
    const char *text = sn_metric_text(log, t.s);
    sn_text_free(&t);
    return text;
}

static const char *hint_of(const sn_kern_figures *f) {
    if (!f->reductions) return "";
    return f->along >= f->across ? "inner" : "outer";
}

/* What the assembler made of it, where there is a cubin. */
static void add_cubin(sn_row_kernel_metadata *row, const sn_program *p, uint32_t k) {
    sn_cubin_figures figures;
    if (!p->prog || !sn_prog_cubin(&figures, p->prog, k)) return;
    row->registers = figures.registers;
    row->spills = figures.stack;
    row->shared_memory = (int64_t)figures.shared + p->codes[k].shared_bytes;
}

static void record_kernel(sn_program *p, uint32_t at) {
    sn_metric_log *log = p->metrics;
    sn_row_kernel_metadata *row = SN_ADD_ROW(log, KERNEL_METADATA, kernel_metadata);
    if (!row) return;
    sn_kern kern = p->m->kernels.at[at];
    const sn_kern_rec *k = sn_kern_get(p->m, kern);
    sn_launch launch = sn_kern_launch(p->m, kern);
    sn_kern_figures f;
    sn_kern_count(&f, p->m, kern);
    row->kernel = sn_metric_text(log, k->name);
    row->made_of = sn_metric_text(log, k->note);
    row->from = sn_metric_text(log, k->from);
    row->class = sn_sched_class_names[k->sched.cls];
    row->schedule = header_of(log, &k->sched);
    row->hint = hint_of(&f);
    row->size = f.size;
    row->reduced = f.reduced;
    if (!sn_ix_is_const(p->m, p->gpu_code ? launch.grid : launch.parts, &row->grid)) row->grid = SN_UNKNOWN;
    row->block = (int64_t)launch.block_x * launch.block_y;
    row->loads = f.loads;
    row->stores = f.stores;
    row->loops = f.loops;
    row->reductions = f.reductions;
    row->arguments = k->params.n;
    row->calls = calls_of(p, kern);
    row->bytes = f.bytes;
    row->flops = f.flops;
    if (p->gpu_code && !sn_kern_is_library(k)) add_cubin(row, p, at);
}

/* ---- the graph ---- */

static uint32_t live_nodes(const sn_program *p) {
    uint32_t n = 0;
    uint8_t *live = SN_NEWN(&p->ctx->scratch, uint8_t, p->source->graph.nodes.count + 1);
    sn_graph_live(p->source, live);
    for (uint32_t i = 1; i < p->source->graph.nodes.count; i++) n += live[i];
    return n;
}

static void count_program(const sn_program *p) {
    sn_metric_log *log = p->metrics;
    sn_metric_count(log, SN_COUNTER_COMPILATIONS, 1);
    sn_metric_count(log, SN_COUNTER_NODES, live_nodes(p));
    sn_metric_count(log, SN_COUNTER_KERNELS, p->m->kernels.n);
    sn_metric_count(log, SN_COUNTER_LAUNCHES, sn_wrap_calls(p->m, p->m->wrap.n_prepare, (sn_kern){0}));
    for (uint32_t k = 0; k < p->m->kernels.n; k++) {
        bool library = sn_kern_is_library(sn_kern_get(p->m, p->m->kernels.at[k]));
        sn_metric_count(log, library ? SN_COUNTER_LIBRARIES : SN_COUNTER_GENERATED, 1);
        if (!library && p->codes) sn_metric_count(log, SN_COUNTER_GENERATED_BYTES, p->codes[k].ptx_size);
    }
}

/* The counters of this compilation alone. */
static void record_graph(const sn_program *p, const uint64_t *c) {
    sn_metric_log *log = p->metrics;
    sn_row_graph_stats *row = SN_ADD_ROW(log, GRAPH_STATS, graph_stats);
    int64_t workspace = 0;
    if (!row) return;
    if (p->m->wrap.workspace.i) sn_ix_is_const(p->m, p->m->wrap.workspace, &workspace);
    *row = (sn_row_graph_stats){.graph = sn_metric_text(log, p->source->graph.name),
                                .target = sn_metric_text(log, p->target.name),
                                .nodes = (int64_t)c[SN_COUNTER_NODES],
                                .nests_before = (int64_t)c[SN_COUNTER_NESTS_BEFORE],
                                .nests_after = (int64_t)c[SN_COUNTER_NESTS_AFTER],
                                .bytes_before = (int64_t)c[SN_COUNTER_BYTES_BEFORE],
                                .bytes_after = (int64_t)c[SN_COUNTER_BYTES_AFTER],
                                .refused = (int64_t)c[SN_COUNTER_REFUSED],
                                .kernels = (int64_t)c[SN_COUNTER_KERNELS],
                                .launches = (int64_t)c[SN_COUNTER_LAUNCHES],
                                .libraries = (int64_t)c[SN_COUNTER_LIBRARIES],
                                .workspace = workspace,
                                .moved = (int64_t)p->info.moved,
                                .passes_ms = p->info.passes_us / 1e3,
                                .codegen_ms = p->info.codegen_us / 1e3};
}

void sn_metrics_record(sn_program *p) {
    count_program(p);
    record_graph(p, p->metrics->counters);
    for (uint32_t k = 0; k < p->m->kernels.n; k++) record_kernel(p, k);
}

/* ---- delivery ---- */

static void call_back(sn_context *ctx, const sn_metric_settings *s, sn_metric table, const void *row,
                      const char *model) {
    const sn_metric_table *t = &sn_metric_tables[table];
    sn_metric_value *values = SN_NEWN(&ctx->scratch, sn_metric_value, t->n);
    for (uint32_t k = 0; k < t->n; k++) values[k] = sn_metric_get(&t->columns[k], row);
    sn_metric_row public = {.table = t->name, .model = model, .n = t->n, .values = values};
    sn_locale_leave(&ctx->env);
    s->row(s->user, &public);
    sn_locale_enter(&ctx->env);
}

void sn_metrics_deliver(sn_context *ctx, sn_metric_log *log, const sn_settings *s, const char *graph) {
    const sn_metric_settings *to = &s->metrics;
    const char *model = to->model ? to->model : graph ? graph : "", *warning = NULL;
    for (int c = 0; c < SN_N_COUNTERS; c++) ctx->counters[c] += log->counters[c];
    if (to->log) return;
    for (int t = 0; to->row && t < SN_N_METRICS; t++)
        for (uint32_t k = 0; k < log->rows[t].n; k++) call_back(ctx, to, (sn_metric)t, log->rows[t].at[k], model);
    if (to->folder) sn_metric_write(&warning, log, to->folder, model);
    if (warning && s->passes.print) s->passes.print(s->passes.print_user, sn_strf(&ctx->scratch, "%s\n", warning));
}

/* ---- public ---- */

unsigned sn_counter_count(void) { return SN_N_COUNTERS; }

const char *sn_counter_name(unsigned counter) { return counter < SN_N_COUNTERS ? sn_counter_rows[counter].name : NULL; }

/* SN_N_COUNTERS: there is none. */
static int find_counter(const char *name) {
    int c = 0;
    while (c < SN_N_COUNTERS && (*sn_counter_rows[c].name != *name || strcmp(sn_counter_rows[c].name, name) != 0)) c++;
    return c;
}

static sn_status no_such_counter(sn_context *ctx, const char *name) {
    const char *known = "";
    for (int c = 0; c < SN_N_COUNTERS; c++)
        known = sn_strf(&ctx->scratch, "%s%s%s", known, c ? ", " : "", sn_counter_rows[c].name);
    return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "counter: '%s' is none of %s", name, known);
}

sn_status sn_counter(uint64_t *out, const sn_context *ctx, const char *name) {
    if (out) *out = 0;
    int c = out && name && sn_idle(ctx ? ctx->ctx : NULL) ? find_counter(name) : SN_N_COUNTERS;
    if (c < SN_N_COUNTERS) return *out = ctx->counters[c], SN_OK; /* nothing to guard: some nanoseconds */
    SN_GUARD_RETURN(ctx, no_such_counter(ctx->ctx, name), out, name);
}

void sn_counters_reset(sn_context *ctx) {
    if (!SN_IS_NULL(ctx)) memset(ctx->counters, 0, sizeof ctx->counters);
}

static sn_status empty_tables(sn_context *ctx, const char *folder, const char *list) {
    uint32_t tables;
    SN_TRY(sn_metric_list(&tables, &ctx->env, list));
    return sn_metric_empty(&ctx->env, &ctx->scratch, folder, tables);
}

sn_status sn_metrics_empty(sn_context *ctx, const char *metrics_dir, const char *metrics) {
    SN_GUARD_RETURN(ctx, empty_tables(ctx, metrics_dir, metrics), metrics_dir, metrics);
}
