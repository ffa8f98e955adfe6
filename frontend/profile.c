/* profile.c: sn_run_profiled: what the steps of a run took (runtime/profile.c), with what is known of their kernels.
 *
 * Bytes and operations are counted in the IR of a kernel; of a program that came from an image there are only the sizes of what
 * its kernels are given. Runs in the state of the program, as sn_run.
 */
#include "frontend/frontend.h"

#include "ir/loop/figures.h"

#include <stdlib.h>
#include <string.h>

typedef struct report {
    sn_profile public; /* first */
    sn_context *ctx;
    sn_arena arena;
} report;

static void free_report(void *user) {
    report *r = user;
    sn_arena_free(&r->arena);
    sn_heap_free(&r->ctx->env, r, sizeof *r);
}

static report *new_report(sn_context *ctx) {
    report *r = sn_heap_alloc(&ctx->env, sizeof *r);
    *r = (report){.ctx = ctx};
    sn_arena_init(&r->arena, &ctx->env);
    sn_making_begin(ctx, r, free_report);
    return r;
}

/* ---- rows ---- */

/* Of the alternatives of a kernel, the one that runs. */
static uint32_t that_runs(const sn_program *p, uint32_t kernel) {
    uint32_t n;
    const sn_rt_pick *picks = sn_prog_picks(&n, p->prog);
    for (uint32_t i = 0; i < n; i++)
        if (picks[i].first == kernel) return picks[i].winner;
    return kernel;
}

static double bytes_given(const sn_image_kernel *k) {
    double bytes = 0;
    for (uint32_t i = 0; i < k->n_formals; i++)
        bytes += (double)k->formals[i].numel * sn_dtype_bytes(k->formals[i].dtype) *
                 (k->formals[i].role == SN_ROLE_INOUT ? 2 : 1);
    return bytes;
}

/* Of one launch. */
static sn_profile_row kernel_row(report *r, sn_program *p, sn_module *m, uint32_t kernel) {
    if (p->image && !p->info.found) {
        const sn_image_kernel *k = &p->part->kernels[kernel];
        return (sn_profile_row){.name = sn_strdup(&r->arena, k->launch.name),
                                .made_of = sn_strdup(&r->arena, k->note),
                                .from = "",
                                .kind = k->library ? "library" : "kernel",
                                .kernel = (int)kernel,
                                .bytes = bytes_given(k)};
    }
    sn_kern kern = m->kernels.at[kernel];
    const sn_kern_rec *k = sn_kern_get(m, kern);
    sn_kern_figures f;
    sn_kern_count(&f, m, kern);
    return (sn_profile_row){.name = sn_strdup(&r->arena, k->name),
                            .made_of = sn_strdup(&r->arena, k->note ? k->note : ""),
                            .from = sn_strdup(&r->arena, k->from ? k->from : ""),
                            .kind = sn_kern_is_library(k) ? "library" : "kernel",
                            .kernel = (int)kernel,
                            .bytes = (double)f.bytes,
                            .flops = f.flops};
}

/* From the longest on. */
static int by_time(const void *a, const void *b) {
    const sn_profile_row *x = a, *y = b;
    if (x->us != y->us) return x->us > y->us ? -1 : 1;
    return x->kernel - y->kernel;
}

static void add_event(sn_profile_row *row, const sn_prog_event *e, const sn_profile_row *of_a_launch) {
    unsigned launches = row->launches + 1;
    double us = row->us + e->us, bytes = row->bytes, flops = row->flops;
    *row = *of_a_launch;
    row->launches = launches;
    row->us = us;
    row->bytes += bytes;
    row->flops += flops;
}

static void fill_rows(report *r, sn_program *p, sn_module *m, const sn_prog_profile_run *run) {
    uint32_t n = p->m->kernels.n, n_rows = 0;
    sn_profile_row *of = SN_NEWN(&p->ctx->scratch, sn_profile_row, n + 1); /* by kernel, then copies: one launch */
    sn_profile_row *rows = SN_NEWN(&r->arena, sn_profile_row, n + 1);
    uint32_t *place = SN_NEWN(&p->ctx->scratch, uint32_t, n + 1);
    for (uint32_t i = 0; i < run->n; i++) {
        const sn_prog_event *e = &run->at[i];
        bool copies = e->kernel == UINT32_MAX;
        uint32_t k = copies ? n : that_runs(p, e->kernel);
        if (copies) of[n] = (sn_profile_row){"copy", "", "", "copy", -1, .bytes = 2 * (double)e->bytes};
        else if (!of[k].name) of[k] = kernel_row(r, p, m, k);
        add_event(&rows[k], e, &of[k]);
    }
    for (uint32_t k = 0; k <= n; k++)
        if (rows[k].launches) rows[n_rows++] = rows[k];
    qsort(rows, n_rows, sizeof *rows, by_time);
    r->public.rows = rows;
    r->public.n_rows = n_rows;
    for (uint32_t k = 0; k < n_rows; k++) place[rows[k].kernel < 0 ? n : (uint32_t)rows[k].kernel] = k;
    sn_profile_event *events = SN_NEWN(&r->arena, sn_profile_event, run->n + 1);
    for (uint32_t i = 0; i < run->n; i++) {
        const sn_prog_event *e = &run->at[i];
        unsigned row = place[e->kernel == UINT32_MAX ? n : that_runs(p, e->kernel)];
        events[i] = (sn_profile_event){row, e->start_us, e->us};
    }
    r->public.events = events;
    r->public.n_events = run->n;
}

static void fill_bounds(report *r) {
    sn_profile_row *rows = (sn_profile_row *)(uintptr_t)r->public.rows;
    for (uint32_t k = 0; k < r->public.n_rows && r->public.copy_rate > 0; k++) {
        rows[k].least_us = rows[k].bytes / r->public.copy_rate * 1e6;
        if (rows[k].us > 0) rows[k].of_bound = rows[k].least_us / rows[k].us;
    }
}

/* ---- the call ---- */

enum { RUNS = 10, RUNS_MOST = 1 << 20 };

static sn_status profile(sn_profile **out, sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs,
                         void *stream, const sn_profile_options *options) {
    sn_context *ctx = p->ctx;
    sn_profile_options o = {0};
    sn_prog_profile_run run;
    SN_TRY(sn_options_read(&o, sizeof o, &ctx->env, "sn_profile_options", options));
    if (o.runs > RUNS_MOST)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "sn_run_profiled: %u runs; at most %d", o.runs, RUNS_MOST);
    SN_TRY(sn_runner_bind(&p->runner, inputs, outputs));
    report *r = new_report(ctx);
    SN_TRY(sn_prog_profile(&run, o.runs ? o.runs : RUNS, p->runner.state, p->runner.input_at, p->runner.output_at,
                           stream, &ctx->scratch));
    SN_TRY(sn_prog_copy_rate(&r->public.copy_rate, p->runner.state));
    r->public.us = run.us;
    fill_rows(r, p, sn_program_module(p), &run);
    fill_bounds(r);
    sn_making_end(ctx, r);
    *out = &r->public;
    return SN_OK;
}

sn_status sn_run_profiled(sn_profile **out, sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs,
                          void *stream, const sn_profile_options *options) {
    if (out) *out = NULL;
    SN_TRY(sn_program_look(p));
    SN_MAKE_RETURN(out, p, profile(out, p, inputs, outputs, stream, options));
}

void sn_profile_destroy(sn_profile *profile) {
    if (profile) free_report(profile);
}
