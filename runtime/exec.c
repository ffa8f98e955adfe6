/* exec.c: running a loaded program, by its generated wrapper or by interpreting the wrapper steps.
 *
 * Both executors end in the same two callbacks, launch and copy, so they can differ only in where they think a buffer
 * is: the interpreter is the oracle of the generated code. Who wants something else of the launches than to have them
 * queued brings callbacks of his own (run_graph.c). Nothing here allocates. Nothing synchronises but a branch, and the end of a
 * step after which a repeat may be over: the host has to see a bool that a kernel makes, so it copies it and waits for the
 * stream. A run without such can be captured in a CUDA graph. A run reads the program and writes its state: one run of a state at a time.
 */
#include "runtime/prog.h"

#include <stdio.h>
#include <string.h>

/* ---- callbacks: user is the state ---- */

/* Kernels for sm_90 and later wait for the grid before them in the stream (codegen-llvm/follow.c), so that grid need not have
 * ended when their blocks are set up, and load what none of this run stores. What stands in front of the run may store all: the run's
 * first kernel begins when that has ended. Stream capture knows such edges from CUDA 12.4 on. Blocks that wait for each other come all
 * together or not at all. */
bool sn_exec_early(const sn_cuda *cu) { return cu->target.sm >= 90 && cu->driver_version >= 12040; }

static CUresult launch(sn_prog_state *st, CUfunction function, const sn_rt_kernel *k) {
    const sn_cuda_api *api = &st->cu->api;
    if (k->together)
        return api->cuLaunchCooperativeKernel(function, (unsigned)k->grid, 1, 1, k->block_x, k->block_y, 1,
                                              k->shared_bytes, st->stream, st->param_addresses);
    bool first = !st->follows;
    st->follows = true;
    if (first || !sn_exec_early(st->cu))
        return api->cuLaunchKernel(function, (unsigned)k->grid, 1, 1, k->block_x, k->block_y, 1, k->shared_bytes,
                                   st->stream, st->param_addresses, NULL);
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.allowed = 1};
    CUlaunchConfig config = {(unsigned)k->grid, 1,          1,      k->block_x, k->block_y, 1,
                             k->shared_bytes,   st->stream, &early, 1};
    return api->cuLaunchKernelEx(&config, function, st->param_addresses, NULL);
}

/* Every run makes the same calls in the same order, so that a call finds the maps of its last time: they are as they
 * have to be unless the argument has moved. A program that makes very many calls has fewer maps, and begins again with the first. */
static sn_status tensor_map(void **out, sn_prog_state *st, const sn_rt_kernel *k, uint32_t i, void *const *params) {
    sn_rt_map *m = &st->maps[st->next_map];
    if (++st->next_map == st->p->n_maps) st->next_map = 0;
    const void *address = params[k->maps[i].param];
    *out = &m->map;
    if (m->address && m->address == address && m->of == &k->maps[i]) return SN_OK;
    m->address = NULL;
    SN_TRY(sn_cuda_tensor_map(&m->map, st->cu, &k->maps[i], address, k->name));
    m->address = address;
    m->of = &k->maps[i];
    return SN_OK;
}

sn_status sn_exec_call(sn_prog_state *st, uint32_t kernel, void *const *params) {
    const sn_cublas_call *call = st->p->codes[kernel].call;
    const sn_cudnn_call *conv = st->p->codes[kernel].conv;
    if (conv)
        return sn_cudnn_run(st->p->cudnn, st->cu, st->cudnn_handle, conv, params, st->library_workspace, st->stream);
    void *op = st->ops[kernel] ? st->ops[kernel] : call->op;
    return sn_cublas_run(st->p->cublas, st->cu, call, op, params, st->library_workspace, st->stream);
}

sn_status sn_exec_params(sn_prog_state *st, uint32_t kernel, void *const *params) {
    const sn_code *code = &st->p->codes[kernel];
    uint32_t n = code->k.param_block ? 1 : code->n_params;
    for (uint32_t i = 0; i < n; i++) st->param_addresses[i] = (void *)&params[i];
    if (code->k.kept_bytes) st->param_addresses[n++] = &st->keeps[kernel];
    for (uint32_t i = 0; i < code->k.n_maps; i++)
        SN_TRY(tensor_map(&st->param_addresses[n++], st, &code->k, i, params));
    return SN_OK;
}

static int launch_gpu(void *user, uint32_t kernel, void *const *params) {
    sn_prog_state *st = user;
    const sn_code *code = &st->p->codes[kernel];
    if (code->k.library) return (int)sn_exec_call(st, kernel, params);
    if (!code->k.grid) return SN_OK;
    SN_TRY(sn_exec_params(st, kernel, params));
    CUresult result = launch(st, st->p->cuda_codes[kernel].function, &code->k);
    if (result == CUDA_SUCCESS) return SN_OK;
    char what[256];
    snprintf(what, sizeof what, "kernel %s (grid %lld, block %u x %u): cuLaunchKernel", code->k.name,
             (long long)code->k.grid, code->k.block_x, code->k.block_y);
    return sn_cuda_check(st->cu, result, what);
}

/* The stream is waited for. What is being captured has not run, so that there is nothing to see. */
static int test_gpu(void *user, const void *flag, int *holds) {
    sn_prog_state *st = user;
    unsigned char byte = 0;
    if (sn_exec_is_captured(st))
        return sn_fail(st->env, SN_ERROR_UNSUPPORTED,
                       "a run that takes branches, or ends a loop early, cannot be captured "
                       "in a CUDA graph: the host has to see what a kernel has made");
    SN_TRY(CU_CALL(st->cu, cuMemcpyDtoHAsync, (&byte, sn_device_address(flag), sizeof byte, st->stream)));
    SN_TRY(CU_CALL(st->cu, cuStreamSynchronize, (st->stream)));
    *holds = byte != 0;
    return SN_OK;
}

static int copy_gpu(void *user, void *to, const void *from, int64_t size) {
    sn_prog_state *st = user;
    if (!size) return SN_OK;
    return CU_CALL(st->cu, cuMemcpyDtoDAsync,
                   (sn_device_address(to), sn_device_address(from), (size_t)size, st->stream));
}

typedef struct {
    const sn_rt_kernel *k;
    void *const *params;
} host_call;

static void run_blocks(void *user, int64_t begin, int64_t end) {
    const host_call *call = user;
    call->k->host(call->params, begin, end);
}

static int launch_host(void *user, uint32_t kernel, void *const *params) {
    sn_prog_state *st = user;
    const sn_code *code = &st->p->codes[kernel];
    if (code->k.library) return sn_cblas_run(&st->p->cblas, code->k.library, params, st->p->threads), SN_OK;
    host_call call = {&code->k, params};
    if (code->k.kept_bytes) {
        memmove(st->params, params, code->n_params * sizeof *params);
        st->params[code->n_params] = st->keeps[kernel];
        call.params = st->params;
    }
    if (st->p->pool) sn_pool_run(st->p->pool, call.k->grid, run_blocks, &call);
    else if (call.k->grid) run_blocks(&call, 0, call.k->grid);
    return SN_OK;
}

static int copy_host(void *user, void *to, const void *from, int64_t size) {
    (void)user;
    if (size) memmove(to, from, (size_t)size);
    return SN_OK;
}

static int test_host(void *user, const void *flag, int *holds) {
    (void)user;
    *holds = *(const unsigned char *)flag != 0;
    return SN_OK;
}

typedef sn_machine machine;
static const machine gpu = {launch_gpu, copy_gpu, test_gpu}, host = {launch_host, copy_host, test_host};

/* ---- checks of what the caller gave ---- */

static sn_status check(sn_prog_state *st, const sn_rt_io *io, const void *address) {
    const char *role = io->is_input ? "input" : "output";
    if (!address && io->bytes)
        return sn_fail(st->env, SN_ERROR_ARGUMENT, "%s %u (%s): no storage was given", role, io->number, io->name);
    if (io->align && (uintptr_t)address % io->align)
        return sn_fail(st->env, SN_ERROR_ARGUMENT,
                       "%s %u (%s): its storage at %p does not start at a multiple of %u bytes", role, io->number,
                       io->name, address, io->align);
    return SN_OK;
}

/* ---- the step interpreter ---- */

static int call(sn_prog_state *st, const machine *on, const sn_rt_step *s) {
    for (uint32_t i = 0; i < s->n_args; i++) st->params[i] = (char *)st->place[s->args[i].buf.i] + s->args[i].bytes;
    return st->watch ? (int)sn_watch_call(st, on->launch, s) : on->launch(st, s->kernel, st->params);
}

static void carry(sn_prog_state *st, sn_buf state, sn_buf next) {
    void *place = st->place[state.i];
    st->place[state.i] = st->place[next.i];
    st->place[next.i] = place;
}

/* Where a run is. memory: what the offsets of `alloc` count from. t: which step of the repeat around it runs. */
typedef struct progress {
    char *memory;
    int64_t t;
    bool over; /* that repeat ends here */
} progress;

static int go_on(sn_prog_state *st, const machine *on, const sn_rt_step *s, progress *at) {
    int holds = 0;
    SN_TRY(on->test(st, st->place[s->buf.i], &holds));
    at->over = !holds;
    return SN_OK;
}

static int run_step(sn_prog_state *st, const machine *on, const sn_rt_step *s, progress *at) {
    switch (s->kind) {
    case SN_STEP_CHECK: return check(st, &st->p->ios[s->io], st->place[s->buf.i]);
    case SN_STEP_ALLOC: st->place[s->buf.i] = at->memory + s->offset; return SN_OK;
    case SN_STEP_REUSE: st->place[s->buf.i] = st->place[s->from.i]; return SN_OK;
    case SN_STEP_CALL: return call(st, on, s);
    case SN_STEP_COPY: return on->copy(st, st->place[s->buf.i], st->place[s->from.i], s->size);
    case SN_STEP_WINDOW: st->place[s->buf.i] = (char *)st->place[s->from.i] + s->offset + s->size * at->t; return SN_OK;
    case SN_STEP_CARRY: carry(st, s->buf, s->from); return SN_OK;
    case SN_STEP_WHILE: return go_on(st, on, s, at);
    case SN_STEP_REPEAT:
    case SN_STEP_IF:
    case SN_STEP_ELSE:
    case SN_STEP_END:
    case SN_STEP_FREE:
    case SN_STEP_COMMENT:
    case SN_N_STEP_KINDS: return SN_OK;
    }
    return SN_OK;
}

static int run_timed(sn_prog_state *st, const machine *on, const sn_rt_step *s, progress *at) {
    int status = run_step(st, on, s, at);
    bool works = s->kind == SN_STEP_CALL || s->kind == SN_STEP_COPY;
    return works && status == SN_OK ? (int)sn_clock_mark_step(st, s) : status;
}

static int run_steps(sn_prog_state *st, const machine *on, uint32_t first, uint32_t end, progress *at);

/* The steps of a repeat or of a branch, which begins at step i; *i: where that ends. */
static int run_inside(sn_prog_state *st, const machine *on, uint32_t *i, progress *at) {
    const sn_rt_step *s = &st->p->steps[*i];
    uint32_t first = *i + 1, otherwise = s->end;
    int status = SN_OK, holds = 0;
    *i = s->end;
    if (s->kind == SN_STEP_REPEAT) {
        progress in = {.memory = at->memory};
        for (; in.t < s->size && !in.over && status == SN_OK; in.t++) status = run_steps(st, on, first, s->end, &in);
        return status;
    }
    if (st->p->steps[otherwise].kind == SN_STEP_ELSE) *i = st->p->steps[otherwise].end;
    SN_TRY(on->test(st, st->place[s->buf.i], &holds));
    return holds ? run_steps(st, on, first, otherwise, at) : run_steps(st, on, otherwise, *i, at);
}

static int run_steps(sn_prog_state *st, const machine *on, uint32_t first, uint32_t end, progress *at) {
    int status = SN_OK;
    for (uint32_t i = first; i < end && !at->over && status == SN_OK; i++) {
        const sn_rt_step *s = &st->p->steps[i];
        if (s->kind == SN_STEP_REPEAT || s->kind == SN_STEP_IF) status = run_inside(st, on, &i, at);
        else status = st->clock ? run_timed(st, on, s, at) : run_step(st, on, s, at);
    }
    return status;
}

static int interpret(sn_prog_state *st, const machine *on, void *const *inputs, void *const *outputs) {
    const sn_prog *p = st->p;
    for (uint32_t i = 0; i < p->n_ios; i++) st->place[p->ios[i].buf.i] = sn_io_address(&p->ios[i], inputs, outputs);
    if (st->clock) SN_TRY(sn_clock_mark_step(st, NULL));
    return run_steps(st, on, p->n_prepare, p->n_steps, &(progress){.memory = st->workspace});
}

sn_status sn_prog_launch(sn_prog_state *st, uint32_t kernel, void *const *params) {
    st->next_map = 0;
    st->follows = false;
    return (sn_status)(st->cu ? gpu : host).launch(st, kernel, params);
}

sn_status sn_prog_prepare(sn_prog_state *st) {
    const sn_prog *p = st->p;
    if (st->cu) SN_TRY(sn_cuda_enter(st->cu));
    st->follows = false;
    sn_status status =
        (sn_status)run_steps(st, st->cu ? &gpu : &host, 0, p->n_prepare, &(progress){.memory = p->prepared});
    if (st->cu) sn_cuda_leave(st->cu);
    return status;
}

/* ---- the generated wrapper ---- */

/* Generated code returns a bare number when a check fails; the checks again find the words. */
static sn_status explain(sn_prog_state *st, int status, void *const *inputs, void *const *outputs) {
    const sn_prog *p = st->p;
    if (st->env->status != SN_OK) return st->env->status;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const sn_rt_io *io = &p->ios[p->steps[i].io];
        if (p->steps[i].kind == SN_STEP_CHECK) SN_TRY(check(st, io, sn_io_address(io, inputs, outputs)));
    }
    return sn_fail(st->env, SN_ERROR_INTERNAL, "the generated wrapper returned %d", status);
}

static sn_status generated(sn_prog_state *st, const machine *on, void *const *inputs, void *const *outputs) {
    int status = st->p->wrapper(inputs, outputs, st->p->consts, st->workspace, on->launch, on->copy, on->test, st);
    return status == SN_OK ? SN_OK : explain(st, status, inputs, outputs);
}

sn_status sn_exec_steps(sn_prog_state *st, const sn_machine *on, void *const *inputs, void *const *outputs,
                        bool use_interpreter) {
    st->next_map = 0;
    st->follows = false;
    return use_interpreter || !st->p->wrapper ? (sn_status)interpret(st, on, inputs, outputs)
                                              : generated(st, on, inputs, outputs);
}

sn_status sn_exec_plainly(sn_prog_state *st, void *const *inputs, void *const *outputs, bool use_interpreter) {
    return sn_exec_steps(st, st->cu ? &gpu : &host, inputs, outputs, use_interpreter);
}

/* Most callers have the device's context, the primary one, current already: to ask costs less than to push and pop. */
static sn_status enter(bool *pushed, sn_cuda *cu) {
    CUcontext now = NULL;
    *pushed = false;
    if (cu->api.cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == cu->context) return SN_OK;
    SN_TRY(sn_cuda_enter(cu));
    *pushed = true;
    return SN_OK;
}

typedef struct {
    void *const *inputs, *const *outputs;
    bool use_interpreter, by_graph;
    sn_watch *watch;
    sn_run_clock *clock;
} run;

static sn_status run_here(sn_prog_state *st, const run *r) {
    if (r->watch) SN_TRY(sn_watch_begin(st));
    if (r->by_graph) return sn_run_graph(st, r->inputs, r->outputs, r->use_interpreter);
    return sn_exec_plainly(st, r->inputs, r->outputs, r->use_interpreter);
}

static sn_status execute(sn_prog_state *st, void *stream, const run *r) {
    bool pushed;
    st->stream = stream;
    st->watch = r->watch;
    st->clock = r->clock;
    if (!st->cu) return run_here(st, r);
    SN_TRY(enter(&pushed, st->cu));
    sn_status status = run_here(st, r);
    if (pushed) sn_cuda_leave(st->cu);
    return status;
}

sn_status sn_prog_run(sn_prog_state *st, void *const *inputs, void *const *outputs, void *stream,
                      bool use_interpreter) {
    if (st->p->debug) return sn_debug_run(st, inputs, outputs, stream);
    return execute(st, stream, &(run){inputs, outputs, use_interpreter, st->graph.mode != SN_GRAPHS_OFF, NULL, NULL});
}

sn_status sn_prog_run_plainly(sn_prog_state *st, void *const *inputs, void *const *outputs, void *stream,
                              bool use_interpreter) {
    return execute(st, stream, &(run){inputs, outputs, use_interpreter, false, NULL, NULL});
}

sn_status sn_prog_run_timed(sn_prog_state *st, void *const *inputs, void *const *outputs, void *stream,
                            sn_run_clock *clock) {
    return execute(st, stream, &(run){inputs, outputs, true, false, NULL, clock});
}

sn_status sn_prog_run_watched(sn_prog_state *st, void *const *inputs, void *const *outputs, void *stream,
                              const sn_watcher *w) {
    sn_watch watch = {.by = w};
    return execute(st, stream, &(run){inputs, outputs, true, false, &watch, NULL});
}
