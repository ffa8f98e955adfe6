/* bench_error.c: how far the outputs of a workload are from float64, for `sinter bench --error`.
 *
 * Two figures, of the elements that sample.c chooses: the largest error over the largest value, and the root mean square
 * error over the root mean square value. Both sides of each ratio come from the same elements, so that the size of the choice
 * hardly matters to it. The reference rounds nothing, not even where the graph casts to a half.
 */
#include "tools/bench.h"
#include "tools/sample.h"

#include <math.h>

typedef struct error_args {
    bench_result *out;
    sn_program *p;
    sn_tensor *const *inputs, *const *outputs;
} error_args;

static sn_status fetch(sn_array *out, sn_context *ctx, const sn_tensor *t, const sample_set *set) {
    size_t bytes = (size_t)t->info.numel * sn_dtype_bytes(t->info.dtype);
    void *data = sn_alloc(&ctx->scratch, bytes + 1);
    SN_TRY(sn_tensor_fetch(data, t, bytes));
    *out = tool_sample_elements(&ctx->scratch, set, t->info.dtype, t->info.shape, data);
    return SN_OK;
}

static sn_status reference(sn_array *out, sn_context *ctx, const sample *sa, const error_args *e) {
    uint32_t n = 0;
    sn_array *in = SN_NEWN(&ctx->scratch, sn_array, sa->graph->graph.inputs.n + 1);
    for (const sample_input *i = sa->inputs; i; i = i->next)
        SN_TRY(fetch(&in[n++], ctx, e->inputs[i->number], &i->set));
    return sn_graph_eval(out, sa->graph, in, &ctx->scratch);
}

static double element(const sn_array *a, int64_t k) { return a->f ? a->f[k] : sn_int_to_double(a->dtype, a->i[k]); }

/* Equal infinities and two nans are no error; any other pair with one of them is an infinite one. */
static void add_output(bench_result *out, const sn_array *got, const sn_array *want) {
    double error = 0, value = 0, errors = 0, values = 0;
    for (int64_t k = 0; k < want->numel; k++) {
        double g = element(got, k), w = element(want, k);
        if (g == w || (isnan(g) && isnan(w))) g = w = isfinite(w) ? w : 0;
        double d = isfinite(g - w) ? fabs(g - w) : INFINITY;
        error = fmax(error, d);
        value = fmax(value, fabs(w));
        errors += d * d;
        values += w * w;
    }
    if (error == 0) return;
    out->err = fmax(out->err, error / value);
    out->err_rms = fmax(out->err_rms, sqrt(errors / values));
}

static sn_status compare(sn_context *ctx, const sample *sa, const error_args *e) {
    sn_program *p = e->p;
    sn_array got, *want = SN_NEWN(&ctx->scratch, sn_array, p->n_outputs + 1);
    SN_TRY(reference(want, ctx, sa, e)); /* before the run writes to inputs */
    SN_TRY(sn_program_launch(p, e->inputs, e->outputs, NULL, false));
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        int writes = p->outputs[k].writes;
        SN_TRY(fetch(&got, ctx, writes < 0 ? e->outputs[k] : e->inputs[writes], &sa->outputs[k]));
        add_output(e->out, &got, &want[k]);
    }
    return SN_OK;
}

static sn_status measure(sn_context *ctx, void *args) {
    const error_args *e = args;
    sample sa = {0};
    SN_TRY(sn_program_bind(e->p, e->inputs, e->outputs));
    sn_status status = tool_sample(&sa, ctx, e->p->source, 1);
    if (status == SN_OK) status = compare(ctx, &sa, e);
    sn_module_free(sa.graph);
    return status;
}

sn_status bench_error(bench_result *out, sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs) {
    error_args args = {out, p, inputs, outputs};
    out->err = out->err_rms = 0;
    return sn_guarded(p->ctx, measure, &args);
}
