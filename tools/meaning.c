/* meaning.c: what kernels do, for `-check-meaning` on random inputs and for `--check-kernels` on those of the run.
 *
 * `sinter opt -check-meaning`: do the passes keep what the module computes? The module is evaluated on random
 * inputs before the first pass and after the last one: its kernels where it has some, else its graph in float64.
 *
 * Kernels before and after must give the same bits unless a bound is given on the command line (passes that change the
 * order of a summation); where one side is a graph, the bound of `sinter run --check` holds. Inputs and outputs are
 * told apart by their numbers, so that a module that was printed and parsed in between is compared as well.
 *
 * `--check-kernels`: may the threads of a GPU run the kernels that the passes make? ir/loop/check.c watches the
 * evaluator.
 */
#include "tools/tool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph/weights.h"

enum { SEED = 1 };

/* ---- inputs ---- */

static sn_status constant(int64_t *out, sn_context *ctx, const sn_module *m, sn_ix e) {
    if (sn_ix_is_const(m, e, out)) return SN_OK;
    return sn_fail(&ctx->env, SN_ERROR_UNSUPPORTED, "-check-meaning: a size is no number");
}

static sn_status numel_of(int64_t *out, int64_t *shape, sn_context *ctx, const sn_module *m, const sn_type *t) {
    *out = 1;
    for (uint32_t k = 0; k < t->rank; k++) {
        SN_TRY(constant(&shape[k], ctx, m, t->shape[k]));
        *out *= shape[k];
    }
    return SN_OK;
}

/* Elements along an axis of stride 0 are one element: all take the value of the first. */
static void repeat_expanded(char *data, const sn_module *m, uint32_t input, const int64_t *shape, uint32_t rank,
                            int64_t numel, uint32_t bytes) {
    for (int64_t e = 0; e < numel; e++) {
        int64_t from = 0, rest = e, step = 1, stride;
        for (uint32_t k = rank; k-- > 0; rest /= shape[k], step *= shape[k]) {
            bool expanded = sn_ix_is_const(m, m->graph.inputs.at[input].stride[k], &stride) && stride == 0;
            if (!expanded) from += rest % shape[k] * step;
        }
        memmove(data + e * bytes, data + from * bytes, bytes);
    }
}

/* The elements of a graph input in row-major order. */
static sn_status graph_input(sn_array *out, sn_context *ctx, sn_module *m, uint32_t input) {
    const sn_type *t = &sn_node_get(m, m->graph.inputs.at[input].node)->type;
    int64_t numel, shape[SN_MAX_RANK];
    SN_TRY(numel_of(&numel, shape, ctx, m, t));
    void *data = sn_zalloc(&ctx->scratch, (size_t)numel * sn_dtype_bytes(t->dtype) + 1);
    SN_TRY(sn_random_input(data, m, input, SEED + input));
    repeat_expanded(data, m, input, shape, t->rank, numel, sn_dtype_bytes(t->dtype));
    *out = sn_array_from(&ctx->scratch, t->dtype, t->rank, shape, data);
    return SN_OK;
}

/* Put the elements of a graph input where its strides say. */
static sn_status scatter(char *storage, sn_context *ctx, const sn_module *m, uint32_t input, const sn_array *a) {
    const sn_graph_input *in = &m->graph.inputs.at[input];
    uint32_t bytes = sn_dtype_bytes(a->dtype);
    int64_t offset, stride[SN_MAX_RANK];
    SN_TRY(constant(&offset, ctx, m, in->offset));
    for (uint32_t k = 0; k < a->rank; k++) SN_TRY(constant(&stride[k], ctx, m, in->stride[k]));
    for (int64_t e = 0; e < a->numel; e++) {
        int64_t at = offset, rest = e;
        for (uint32_t k = a->rank; k-- > 0; rest /= a->shape[k]) at += rest % a->shape[k] * stride[k];
        if (sn_is_float(a->dtype)) sn_store_float(a->dtype, storage + at * bytes, a->f[e]);
        else sn_store_int(a->dtype, storage + at * bytes, a->i[e]);
    }
    return SN_OK;
}

/* Weights that nobody has attached are random, as inputs are; the copies that passes make take them over by name. */
static void make_weights(sn_context *ctx, sn_module *m) {
    for (uint32_t k = 1; k < m->weights.recs.count; k++) {
        sn_weight_rec *w = sn_wt_get(m, (sn_wt){k});
        if (sn_wt_attached(w)) continue;
        void *data = sn_zalloc(&ctx->scratch, w->size + 1);
        sn_random_fill(data, w->dtype, (int64_t)(w->size / sn_dtype_bytes(w->dtype)),
                       sn_hash_bytes(SEED, w->name, strlen(w->name)));
        w->data = data;
    }
}

static sn_status make_inputs(tool_results *out, sn_context *ctx, sn_module *m) {
    out->inputs = SN_NEWN(&ctx->scratch, sn_array, m->graph.inputs.n + 1);
    for (uint32_t k = 0; k < m->graph.inputs.n; k++) SN_TRY(graph_input(&out->inputs[k], ctx, m, k));
    return SN_OK;
}

static sn_status fill_buffer(void *storage, const tool_results *r, sn_context *ctx, const sn_module *m,
                             const sn_buf_rec *b, int64_t size) {
    if (b->io < m->graph.inputs.n) return scatter(storage, ctx, m, b->io, &r->inputs[b->io]);
    sn_random_fill(storage, b->dtype, size, SEED + b->io);
    return SN_OK;
}

/* ---- evaluation: outputs by number, in storage format ---- */

static sn_status eval_graph(tool_results *out, sn_context *ctx, sn_module *m) {
    out->n = m->graph.outputs.n;
    out->at = SN_NEWN(&ctx->scratch, sn_array, out->n + 1);
    return sn_graph_eval(out->at, m, out->inputs, &ctx->scratch);
}

static sn_status eval_kernels(tool_results *out, sn_context *ctx, sn_module *m) {
    void **memory = SN_NEWN(&ctx->scratch, void *, m->bufs.count);
    int64_t size;
    out->n = 0;
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        if (b->scope != SN_BUF_INPUT && b->scope != SN_BUF_OUTPUT) continue;
        SN_TRY(constant(&size, ctx, m, b->size));
        memory[i] = sn_zalloc(&ctx->scratch, (size_t)size * sn_dtype_bytes(b->dtype) + 1);
        if (b->scope == SN_BUF_INPUT) SN_TRY(fill_buffer(memory[i], out, ctx, m, b, size));
        else if (b->io >= out->n) out->n = b->io + 1;
    }
    SN_TRY(sn_loop_eval(m, memory, &ctx->scratch));
    out->at = SN_NEWN(&ctx->scratch, sn_array, out->n + 1);
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        if (b->scope != SN_BUF_OUTPUT) continue;
        SN_TRY(constant(&size, ctx, m, b->size));
        out->at[b->io] = sn_array_from(&ctx->scratch, b->dtype, 1, &size, memory[i]);
    }
    return SN_OK;
}

sn_status tool_evaluate(tool_results *out, const tool_results *before, sn_context *ctx, sn_module *m) {
    *out = (tool_results){.kernels = m->kernels.n > 0};
    SN_TRY(sn_module_verify(m, "-check-meaning"));
    make_weights(ctx, m);
    if (before) out->inputs = before->inputs;
    else SN_TRY(make_inputs(out, ctx, m));
    return out->kernels ? eval_kernels(out, ctx, m) : eval_graph(out, ctx, m);
}

/* ---- kernels of a graph under the checker ---- */

typedef struct check_args {
    sn_graph *graph;
    const sn_compile_options *options;
    sn_program *p;
    sn_tensor **inputs, **outputs; /* outputs[k] of one that writes an input: NULL */
} check_args;

static sn_status make_kernels(SN_UNUSED sn_context *ctx, void *args) {
    check_args *c = args;
    return sn_compile_to(&c->p, c->graph, c->options, SN_PHASE_PASSES);
}

static sn_status watch_kernels(sn_context *ctx, void *args) {
    const check_args *c = args;
    sn_module *m = c->p->m;
    if (!c->p->n_outputs)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "kernels without a graph can be emitted, not run");
    void **memory = SN_NEWN(&ctx->scratch, void *, m->bufs.count);
    int64_t size;
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        if (b->scope != SN_BUF_INPUT && b->scope != SN_BUF_OUTPUT) continue;
        const sn_tensor *t = (b->scope == SN_BUF_INPUT ? c->inputs : c->outputs)[b->io];
        SN_TRY(constant(&size, ctx, m, b->size));
        memory[i] = t ? t->info.data : sn_zalloc(&ctx->scratch, (size_t)size * sn_dtype_bytes(b->dtype) + 1);
    }
    return sn_loop_check(m, memory, &ctx->scratch);
}

sn_status tool_check_kernels(sn_context *ctx, sn_graph *graph, const sn_compile_options *options,
                             const tool_inputs *in) {
    check_args c = {.graph = graph, .options = options};
    sn_status status = sn_guarded(ctx, make_kernels, &c);
    if (status != SN_OK) return status;
    c.inputs = calloc(c.p->n_inputs + 1, sizeof(sn_tensor *));
    c.outputs = calloc(c.p->n_outputs + 1, sizeof(sn_tensor *));
    status = c.inputs && c.outputs ? tool_program_tensors(c.inputs, c.outputs, c.p, in) : SN_ERROR_MEMORY;
    if (status == SN_OK) status = sn_guarded(ctx, watch_kernels, &c);
    tool_free_tensors(c.inputs, c.p->n_inputs);
    tool_free_tensors(c.outputs, c.p->n_outputs);
    sn_program_destroy(c.p);
    return status;
}

/* ---- comparison ---- */

/* What elements may be off by, beside the bound of their dtype: out[output][element]. Where one side is a graph, what
 * `sinter run --check` allows (estimate: with what roundings on the way come to, which takes time and memory); and
 * `bound` of the largest element. */
static sn_status allowed_errors(double **out, const tool_results *before, bool graph, bool estimate, sn_context *ctx,
                                sn_module *m, double bound) {
    for (uint32_t k = 0; k < before->n; k++) out[k] = SN_NEWN(&ctx->scratch, double, before->at[k].numel + 1);
    if (estimate) SN_TRY(sn_check_errors(out, m, before->inputs, &ctx->scratch));
    for (uint32_t k = 0; k < before->n; k++) {
        const sn_array *want = &before->at[k];
        double largest = 0;
        for (int64_t i = 0; sn_is_float(want->dtype) && i < want->numel; i++) {
            if (!isfinite(want->f[i])) continue; /* it has to be the same */
            largest = fmax(largest, fabs(want->f[i]));
            if (graph) out[k][i] += sn_check_bound(want->dtype) * fabs(want->f[i]);
        }
        for (int64_t i = 0; i < want->numel; i++) out[k][i] += bound * largest;
    }
    return SN_OK;
}

static sn_check compare_output(const tool_results *before, const tool_results *after, uint32_t k, const double *errors,
                               sn_context *ctx, double bound) {
    const sn_array *want = &before->at[k], *got = &after->at[k];
    void *data = sn_zalloc(&ctx->scratch, (size_t)got->numel * sn_dtype_bytes(got->dtype) + 1);
    sn_array_store(data, got);
    return sn_check_compare(got->dtype, data, want, errors, bound, 0);
}

sn_status tool_compare(const tool_results *before, const tool_results *after, sn_context *ctx, sn_module *m,
                       double bound) {
    if (before->n != after->n)
        return sn_fail(&ctx->env, SN_ERROR_MISMATCH, "%u outputs before the passes, %u after them", before->n,
                       after->n);
    bool graph = !(before->kernels && after->kernels) && before->n == m->graph.outputs.n, estimated = false;
    double **errors = SN_NEWN(&ctx->scratch, double *, before->n + 1);
    SN_TRY(allowed_errors(errors, before, graph, false, ctx, m, bound));
    for (uint32_t k = 0; k < before->n; k++) {
        if (before->at[k].dtype != after->at[k].dtype || before->at[k].numel != after->at[k].numel)
            return sn_fail(&ctx->env, SN_ERROR_MISMATCH, "output %u has other elements after the passes", k);
        sn_check c = compare_output(before, after, k, errors[k], ctx, bound);
        if (!c.ok && graph && !estimated) {
            estimated = true;
            SN_TRY(allowed_errors(errors, before, graph, true, ctx, m, bound));
            c = compare_output(before, after, k, errors[k], ctx, bound);
        }
        if (sn_check_is_empty(&c, before->at[k].numel))
            return sn_fail(&ctx->env, SN_ERROR_MISMATCH,
                           "output %u: roundings may make anything of each of its elements: nothing can be compared",
                           k);
        if (!c.ok)
            return sn_fail(&ctx->env, SN_ERROR_MISMATCH,
                           "output %u changed in the passes: relative error %.3g at element %lld, the bound is %.3g", k,
                           c.max_rel, (long long)c.worst, c.bound);
        fprintf(stderr, "meaning of output %u: %s\n", k, c.max_abs == 0 ? "equal" : "within the bound");
    }
    return SN_OK;
}
