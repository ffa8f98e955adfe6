/* run.c: running a program: checks the caller's tensors against what was compiled, finds storage addresses, launches.
 *
 * Kernels address an input from the start of its storage with the offset that was compiled; a tensor whose own offset
 * is larger is passed with its start moved, so that only strides must agree. An output that writes an input has storage
 * of the runner and is copied back by a step of the wrapper, or is written where it is. Storage of outputs and of
 * written inputs overlaps nothing: kernels rely on inputs that do not change while they run, and the plan keeps
 * intermediate values in outputs.
 */
#include "frontend/frontend.h"

#include <stdlib.h>

enum { RUNS_MAX = 1 << 20 }; /* to be timed */

static sn_status fail_place(const sn_runner *r, const char *what, const sn_port *port, const sn_tensor_info *t) {
    const char *where[2];
    int devices[2] = {t->device, r->p->device};
    for (int k = 0; k < 2; k++)
        where[k] = devices[k] == SN_CPU ? "the CPU" : sn_strf(r->scratch, "CUDA device %d", devices[k]);
    return sn_fail(r->env, SN_ERROR_ARGUMENT, "%s %s: the tensor is on %s, the program on %s", what, port->name,
                   where[0], where[1]);
}

/* What to do about it depends on whether the elements themselves are aligned. */
static sn_status fail_align(const sn_runner *r, const char *what, const sn_port *port, const void *at) {
    size_t low = (size_t)((uintptr_t)at & -(uintptr_t)at), bytes = sn_dtype_bytes(port->dtype);
    const char *advice = low < bytes ? "" : sn_strf(r->scratch, "compile with alignment %zu, or ", low);
    return sn_fail(r->env, SN_ERROR_ARGUMENT,
                   "%s %s: its storage at %p does not start at a multiple of %zu bytes; %scopy it to a tensor of "
                   "sn_tensor_for_%s",
                   what, port->name, at, port->align, advice, what);
}

static bool same_shape(const sn_port *port, const sn_tensor_info *t) {
    if (port->dtype != t->dtype || port->rank != t->rank) return false;
    for (unsigned k = 0; k < t->rank; k++)
        if (port->shape[k] != t->shape[k]) return false;
    return true;
}

/* Strides of axes with one element never matter. */
static bool same_strides(const sn_port *port, const sn_tensor_info *t) {
    for (unsigned k = 0; k < t->rank && t->numel; k++)
        if (t->shape[k] > 1 && port->strides[k] != t->strides[k]) return false;
    return true;
}

static sn_status bind_tensor(void **out, const sn_runner *r, const char *what, const sn_port *port,
                             const sn_tensor *tensor) {
    sn_env *env = r->env;
    sn_arena *a = r->scratch;
    if (!tensor) return sn_fail(env, SN_ERROR_ARGUMENT, "%s %s: no tensor given", what, port->name);
    const sn_tensor_info *t = &tensor->info;
    if (t->device != r->p->device) return fail_place(r, what, port, t);
    if (!same_shape(port, t))
        return sn_fail(env, SN_ERROR_ARGUMENT, "%s %s: the tensor is %s%s, the program wants %s%s", what, port->name,
                       sn_dtypes[t->dtype].name, sn_sizes_text(a, t->shape, t->rank), sn_dtypes[port->dtype].name,
                       sn_sizes_text(a, port->shape, port->rank));
    if (!same_strides(port, t))
        return sn_fail(env, SN_ERROR_ARGUMENT, "%s %s: the tensor has strides %s, the program was compiled for %s",
                       what, port->name, sn_sizes_text(a, t->strides, t->rank),
                       sn_sizes_text(a, port->strides, port->rank));
    if (t->offset < port->offset) /* a masked access may touch the start of the storage: it has to exist */
        return sn_fail(env, SN_ERROR_ARGUMENT,
                       "%s %s: the tensor begins at element %lld, the program was compiled for %lld", what, port->name,
                       (long long)t->offset, (long long)port->offset);
    if (r->ctx && tensor->ctx != r->ctx)
        return sn_fail(env, SN_ERROR_ARGUMENT, "%s %s: the tensor belongs to another context", what, port->name);
    *out = t->data;
    if (t->numel) *out = (char *)t->data + (t->offset - port->offset) * (int64_t)sn_dtype_bytes(t->dtype);
    return t->numel && (uintptr_t)*out % port->align ? fail_align(r, what, port, *out) : SN_OK;
}

/* ---- overlaps ---- */

/* Addresses first .. last of the elements of a tensor. */
static sn_span span_of(const sn_tensor *tensor, const char *role, const char *name, bool written) {
    const sn_tensor_info *t = &tensor->info;
    int64_t lo = t->offset, hi = t->offset, bytes = (int64_t)sn_dtype_bytes(t->dtype);
    for (unsigned k = 0; k < t->rank; k++) {
        int64_t reach = (t->shape[k] - 1) * t->strides[k];
        if (reach < 0) lo += reach;
        else hi += reach;
    }
    return (sn_span){(const char *)t->data + lo * bytes, (const char *)t->data + (hi + 1) * bytes, role, name, written};
}

static int by_address(const void *a, const void *b) {
    const sn_span *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Sorted by address, a span overlaps an earlier one exactly when it begins before the furthest end so far. */
static sn_status check_overlaps(const sn_runner *r, uint32_t n) {
    const sn_span *furthest = NULL, *written = NULL;
    qsort(r->spans, n, sizeof *r->spans, by_address);
    for (uint32_t k = 0; k < n; k++) {
        const sn_span *s = &r->spans[k], *other = s->written ? furthest : written;
        if (other && s->first < other->end)
            return sn_fail(r->env, SN_ERROR_ARGUMENT, "%s %s and %s %s share storage; what is written needs its own",
                           other->role, other->name, s->role, s->name);
        if (!furthest || s->end > furthest->end) furthest = s;
        if (s->written && (!written || s->end > written->end)) written = s;
    }
    return SN_OK;
}

/* ---- runners ---- */

void sn_runner_init(sn_runner *r, sn_arena *arena) {
    const sn_program *p = r->p;
    r->input_at = SN_NEWN(arena, void *, p->n_inputs + 1);
    r->output_at = SN_NEWN(arena, void *, p->n_outputs + 1);
    r->spans = SN_NEWN(arena, sn_span, p->n_inputs + p->n_outputs + 1);
    r->bound = SN_NEWN(arena, sn_bound, p->n_inputs + p->n_outputs + 1);
    r->has_bound = false;
}

/* Lent memory begins with the outputs, whose sizes are rounded. */
sn_status sn_runner_load(sn_runner *r) {
    if (r->lent) r->own_output = r->lent;
    else SN_TRY(sn_storage_alloc(&r->own_output, r->env, r->cu, r->p->own_size));
    SN_TRY(sn_prog_state_new_in(&r->state, r->p->prog, r->env, r->cu, r->lent ? r->lent + r->p->own_size : NULL));
    sn_prog_state_graphs(r->state, r->p->graphs);
    return SN_OK;
}

void sn_runner_close(sn_runner *r) {
    sn_prog_state_free(r->state);
    if (!r->lent) sn_storage_free(r->env, r->cu, r->own_output, r->p->own_size);
    r->state = NULL;
    r->own_output = NULL;
    r->has_bound = false;
}

static sn_status bind_inputs(sn_runner *r, uint32_t *n_spans, sn_tensor *const *inputs) {
    const sn_program *p = r->p;
    for (uint32_t k = 0; k < p->n_inputs; k++) {
        SN_TRY(bind_tensor(&r->input_at[k], r, "input", &p->inputs[k], inputs ? inputs[k] : NULL));
        if (!inputs[k]->info.numel) continue;
        r->spans[(*n_spans)++] = span_of(inputs[k], "input", p->inputs[k].name, p->is_written[k]);
    }
    return SN_OK;
}

/* Output k of number `writes` of the inputs. */
static sn_status bind_written(sn_runner *r, uint32_t k, int writes, sn_tensor *const *inputs, const sn_tensor *given) {
    const sn_program *p = r->p;
    if (given && given != inputs[writes])
        return sn_fail(r->env, SN_ERROR_ARGUMENT, "output %s: it writes input %s; give NULL or that input's tensor",
                       p->outputs[k].name, p->inputs[writes].name);
    SN_TRY(sn_tensor_writable(r->env, inputs[writes], "input ", p->inputs[writes].name));
    r->output_at[k] = p->own_offset[k] < 0 ? r->input_at[writes] : (char *)r->own_output + p->own_offset[k];
    return SN_OK;
}

static sn_status bind(sn_runner *r, sn_tensor *const *inputs, sn_tensor *const *outputs) {
    const sn_program *p = r->p;
    uint32_t n = 0;
    if (sn_runner_is_again(r, inputs, outputs)) return SN_OK;
    r->has_bound = false;
    SN_TRY(bind_inputs(r, &n, inputs));
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        const sn_tensor *given = outputs ? outputs[k] : NULL;
        int writes = p->outputs[k].writes;
        if (writes >= 0) {
            SN_TRY(bind_written(r, k, writes, inputs, given));
            continue;
        }
        SN_TRY(bind_tensor(&r->output_at[k], r, "output", &p->outputs[k], given));
        SN_TRY(sn_tensor_writable(r->env, given, "output ", p->outputs[k].name));
        if (given->info.numel) r->spans[n++] = span_of(given, "output", p->outputs[k].name, true);
    }
    SN_TRY(check_overlaps(r, n));
    sn_runner_remember(r, inputs, outputs);
    return SN_OK;
}

static sn_status bind_run(sn_runner *r, sn_tensor *const *inputs, sn_tensor *const *outputs) {
    if (!r->p->runnable)
        return sn_fail(r->env, SN_ERROR_DEVICE, "the program was compiled for target %s to look at; it cannot run",
                       r->p->target.name);
    return bind(r, inputs, outputs);
}

sn_status sn_runner_launch(sn_runner *r, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream,
                           bool interpreted) {
    SN_TRY(bind_run(r, inputs, outputs));
    return sn_prog_run(r->state, r->input_at, r->output_at, stream, interpreted);
}

sn_status sn_runner_watch(sn_runner *r, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream,
                          const sn_watcher *w) {
    SN_TRY(bind_run(r, inputs, outputs));
    return sn_prog_run_watched(r->state, r->input_at, r->output_at, stream, w);
}

/* ---- runs in the context ---- */

sn_status sn_program_bind(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs) {
    return bind(&p->runner, inputs, outputs);
}

sn_status sn_program_launch(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream,
                            bool interpreted) {
    return sn_runner_launch(&p->runner, inputs, outputs, stream, interpreted);
}

sn_status sn_run(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream) {
    SN_GUARD_RETURN(p, sn_program_launch(p, inputs, outputs, stream, p->interpreted));
}

static sn_status time_runs(double *out, unsigned runs, sn_program *p, sn_tensor *const *inputs,
                           sn_tensor *const *outputs, size_t flush_bytes, sn_program *reader) {
    if (runs > RUNS_MAX)
        return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "%u runs to be timed; at most %d", runs, RUNS_MAX);
    SN_TRY(sn_program_launch(p, inputs, outputs, NULL, p->interpreted)); /* warm up, and check the tensors */
    sn_flush flush = {.bytes = flush_bytes};
    if (reader)
        flush = (sn_flush){flush_bytes, reader->runner.state, reader->runner.input_at, reader->runner.output_at};
    return sn_prog_time(out, runs, p->runner.state, p->runner.input_at, p->runner.output_at, &flush);
}

sn_status sn_program_time_clean(double *out, unsigned runs, sn_program *p, sn_tensor *const *inputs,
                                sn_tensor *const *outputs, size_t flush_bytes, sn_program *reader) {
    SN_GUARD_RETURN(p, time_runs(out, runs, p, inputs, outputs, flush_bytes, reader), out);
}

sn_status sn_program_time(double *out, unsigned runs, sn_program *p, sn_tensor *const *inputs,
                          sn_tensor *const *outputs, size_t flush_bytes) {
    SN_GUARD_RETURN(p, time_runs(out, runs, p, inputs, outputs, flush_bytes, NULL), out);
}

static sn_status time_kernels(double *out, unsigned runs, sn_program *p, sn_tensor *const *inputs,
                              sn_tensor *const *outputs) {
    SN_TRY(sn_program_launch(p, inputs, outputs, NULL, p->interpreted));
    return sn_prog_time_kernels(out, runs, p->runner.state, p->runner.input_at, p->runner.output_at);
}

sn_status sn_program_time_kernels(double *out, unsigned runs, sn_program *p, sn_tensor *const *inputs,
                                  sn_tensor *const *outputs) {
    SN_GUARD_RETURN(p, time_kernels(out, runs, p, inputs, outputs), out);
}

static sn_status time_graph(double *out, unsigned replays, sn_graph_timing *how, sn_program *p,
                            sn_tensor *const *inputs, sn_tensor *const *outputs) {
    SN_TRY(sn_program_launch(p, inputs, outputs, NULL, p->interpreted));
    return sn_prog_time_graph(out, replays, how, p->runner.state, p->runner.input_at, p->runner.output_at);
}

sn_status sn_program_time_graph(double *out, unsigned replays, sn_graph_timing *how, sn_program *p,
                                sn_tensor *const *inputs, sn_tensor *const *outputs) {
    SN_GUARD_RETURN(p, time_graph(out, replays, how, p, inputs, outputs), out, how);
}
