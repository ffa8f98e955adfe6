/* fusion_times.c: the table fusion_times: what kernels that fuse has made of several take, and what these would take apart. A ratio above
 * 1 is a slow fusion.
 *
 *     pipeline .. fuse .. schedule            estimates of k0, made of k0 and k2 (table fusions)
 *     pipeline ..      .. schedule            estimates of k0 and of k2
 *  -> row  k0   "k0, k2"   fused_us   apart_us   ratio
 *
 * By the model of GPUs, from two more runs of the passes up to schedule, in logs of their own; only where somebody asks for the
 * table. What a pass behind fuse cuts a kernel into (k0_part) counts with it. mixed-order-reduction, which joins kernels too, runs in
 * neither.
 */
#include "frontend/frontend.h"

#include <string.h>

/* `pipeline` without a pass. */
static const char *without(sn_arena *a, const char *pipeline, const char *pass) {
    const char *before = sn_passes_before(a, pipeline, pass), *from = sn_passes_from(a, pipeline, pass);
    if (!from) return pipeline;
    from += strlen(pass);
    return sn_strf(a, "%s%s", before, from + (*from == ','));
}

/* What the passes say of kernels, with fuse or without it. */
static sn_status estimate(sn_metric_log *log, const sn_program *p, const sn_settings *s, bool fuse) {
    sn_arena *a = &p->ctx->scratch;
    const char *pipeline = without(a, p->pipeline ? p->pipeline : sn_pipeline_gpu, "mixed-order-reduction");
    sn_pass_options o = {.pipeline = fuse ? pipeline : without(a, pipeline, "fuse"),
                         .verify = s->passes.verify,
                         .stop_after = "schedule",
                         .choosing = p->choosing,
                         .library = sn_program_library(p),
                         .metrics = log};
    sn_module *m;
    *log = (sn_metric_log){.arena = a, .wanted = 1u << SN_METRIC_ESTIMATES | 1u << SN_METRIC_FUSIONS};
    SN_TRY(sn_source_copy(&m, &p->ctx->env, p->source));
    sn_status status = sn_passes_run(&m, &p->target, &o);
    sn_module_free(m);
    return status;
}

/* "k0" and what was cut off it, "k0_part". */
static bool is_of(const char *kernel, const char *name) {
    size_t n = strlen(name);
    return !strncmp(kernel, name, n) && (!kernel[n] || kernel[n] == '_');
}

static double us_of(const sn_metric_log *log, const char *name) {
    double us = 0;
    for (uint32_t k = 0; k < log->rows[SN_METRIC_ESTIMATES].n; k++) {
        const sn_row_estimates *e = SN_ROW(log, ESTIMATES, estimates, k);
        if (is_of(e->kernel, name)) us += e->us;
    }
    return us;
}

/* Parts of a kernel, as fuse has taken them one after the other: by number in `fusions`, those of a part that was itself made of
 * several included. */
static void add_parts(const char **parts, double *us, const sn_metric_log *fused, const sn_metric_log *apart,
                      const char *kernel, sn_arena *a) {
    *parts = *parts ? sn_strf(a, "%s, %s", *parts, kernel) : kernel;
    *us += us_of(apart, kernel);
    for (uint32_t k = 0; k < fused->rows[SN_METRIC_FUSIONS].n; k++) {
        const sn_row_fusions *f = SN_ROW(fused, FUSIONS, fusions, k);
        if (!strcmp(f->into, kernel)) add_parts(parts, us, fused, apart, f->taken, a);
    }
}

static bool was_taken(const sn_metric_log *fused, const char *kernel) {
    for (uint32_t k = 0; k < fused->rows[SN_METRIC_FUSIONS].n; k++)
        if (!strcmp(SN_ROW(fused, FUSIONS, fusions, k)->taken, kernel)) return true;
    return false;
}

static void record(const sn_program *p, const sn_metric_log *fused, const sn_metric_log *apart, const char *kernel) {
    const char *parts = NULL;
    double apart_us = 0, fused_us = us_of(fused, kernel);
    add_parts(&parts, &apart_us, fused, apart, kernel, &p->ctx->scratch);
    if (!(apart_us > 0) || !(fused_us > 0)) return; /* kernels that came with a schedule have no estimate */
    sn_row_fusion_times *row = SN_ADD_ROW(p->metrics, FUSION_TIMES, fusion_times);
    row->kernel = sn_metric_text(p->metrics, kernel);
    row->parts = sn_metric_text(p->metrics, parts);
    row->fused_us = fused_us;
    row->apart_us = apart_us;
    row->ratio = fused_us / apart_us;
}

sn_status sn_metrics_fusion_times(sn_program *p, const sn_settings *s) {
    sn_metric_log fused, apart;
    if (!sn_metric_wanted(p->metrics, SN_METRIC_FUSION_TIMES) || !p->target.is_gpu || p->source->kernels.n)
        return SN_OK;
    SN_TRY(estimate(&fused, p, s, true));
    SN_TRY(estimate(&apart, p, s, false));
    for (uint32_t k = 0; k < fused.rows[SN_METRIC_FUSIONS].n; k++) {
        const char *kernel = SN_ROW(&fused, FUSIONS, fusions, k)->into;
        bool seen = was_taken(&fused, kernel);
        for (uint32_t i = 0; i < k; i++) seen |= !strcmp(SN_ROW(&fused, FUSIONS, fusions, i)->into, kernel);
        if (!seen) record(p, &fused, &apart, kernel);
    }
    return SN_OK;
}
