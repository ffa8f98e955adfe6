/* exec.c: running a loaded program, by its generated wrapper or by interpreting the wrapper steps.
 *
 * Both executors end in the same two callbacks, launch and copy, so they can differ only in where they think a buffer
 * is: the interpreter is the oracle of the generated code. Nothing here allocates or synchronises; a run can be
 * captured in a CUDA graph. One run of a program at a time: workspace and scratch arrays are its own.
 */
#include "runtime/prog.h"

#include <stdio.h>
#include <string.h>

/* ---- callbacks: user is the program ---- */

/* Kernels for sm_90 and later begin by waiting for the grid before them in the stream (codegen-llvm/kernel.c), so that
 * grid need not have ended when their blocks are set up. Stream capture knows such edges from CUDA 12.4 on. */
static CUresult launch(sn_prog *p, CUfunction function, const sn_rt_kernel *k) {
    const sn_cuda_api *api = &p->cu->api;
    if (p->cu->target.sm < 90 || p->cu->driver_version < 12040)
        return api->cuLaunchKernel(function, (unsigned)k->grid, 1, 1, k->block_x, k->block_y, 1, k->shared_bytes,
                                   p->stream, p->param_addresses, NULL);
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.allowed = 1};
    CUlaunchConfig config = {(unsigned)k->grid, 1, 1, k->block_x, k->block_y, 1, k->shared_bytes, p->stream, &early, 1};
    return api->cuLaunchKernelEx(&config, function, p->param_addresses, NULL);
}

static int launch_gpu(void *user, uint32_t kernel, void *const *params) {
    sn_prog *p = user;
    const sn_code *code = &p->codes[kernel];
    if (!code->k.grid) return SN_OK;
    uint32_t n = code->k.param_block ? 1 : code->n_params;
    for (uint32_t i = 0; i < n; i++) p->param_addresses[i] = (void *)&params[i];
    CUresult result = launch(p, p->cuda_codes[kernel].function, &code->k);
    if (result == CUDA_SUCCESS) return SN_OK;
    char what[256];
    snprintf(what, sizeof what, "kernel %s (grid %lld, block %u x %u): cuLaunchKernel", code->k.name,
             (long long)code->k.grid, code->k.block_x, code->k.block_y);
    return sn_cuda_check(p->cu, result, what);
}

static int copy_gpu(void *user, void *to, const void *from, int64_t size) {
    sn_prog *p = user;
    if (!size) return SN_OK;
    return CU_CALL(p->cu, cuMemcpyDtoDAsync, (sn_device_address(to), sn_device_address(from), (size_t)size, p->stream));
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
    sn_prog *p = user;
    host_call call = {&p->codes[kernel].k, params};
    if (p->pool) sn_pool_run(p->pool, call.k->grid, run_blocks, &call);
    else if (call.k->grid) run_blocks(&call, 0, call.k->grid);
    return SN_OK;
}

static int copy_host(void *user, void *to, const void *from, int64_t size) {
    (void)user;
    if (size) memmove(to, from, (size_t)size);
    return SN_OK;
}

typedef struct {
    int (*launch)(void *, uint32_t, void *const *);
    int (*copy)(void *, void *, const void *, int64_t);
} machine;
static const machine gpu = {launch_gpu, copy_gpu}, host = {launch_host, copy_host};

/* ---- checks of what the caller gave ---- */

sn_status sn_prog_check(sn_prog *p, sn_buf buf, const void *address) {
    const sn_buf_rec *b = sn_buf_get(p->m, buf);
    const char *role = b->scope == SN_BUF_INPUT ? "input" : "output";
    int64_t elements = 0;
    if (!address && sn_ix_is_const(p->m, b->size, &elements) && elements)
        return sn_fail(p->env, SN_ERROR_ARGUMENT, "%s %u (%s): no storage was given", role, b->io, b->name);
    if (b->align && (uintptr_t)address % b->align)
        return sn_fail(p->env, SN_ERROR_ARGUMENT,
                       "%s %u (%s): its storage at %p does not start at a multiple of %u bytes", role, b->io, b->name,
                       address, b->align);
    return SN_OK;
}

static void *io_address(const sn_prog *p, sn_buf buf, void *const *inputs, void *const *outputs) {
    const sn_buf_rec *b = sn_buf_get(p->m, buf);
    return (b->scope == SN_BUF_INPUT ? inputs : outputs)[b->io];
}

/* ---- the step interpreter ---- */

static int call(sn_prog *p, const machine *on, const sn_rt_step *s) {
    for (uint32_t i = 0; i < s->args.n; i++) p->params[i] = p->place[s->args.at[i].i];
    return on->launch(p, s->kernel, p->params);
}

static int run_step(sn_prog *p, const machine *on, const sn_rt_step *s) {
    switch (s->kind) {
    case SN_STEP_CHECK: return sn_prog_check(p, s->buf, p->place[s->buf.i]);
    case SN_STEP_ALLOC: p->place[s->buf.i] = (char *)p->workspace + s->offset; return SN_OK;
    case SN_STEP_REUSE: p->place[s->buf.i] = p->place[s->from.i]; return SN_OK;
    case SN_STEP_CALL: return call(p, on, s);
    case SN_STEP_COPY: return on->copy(p, p->place[s->buf.i], p->place[s->from.i], s->size);
    case SN_STEP_FREE:
    case SN_STEP_COMMENT:
    case SN_N_STEP_KINDS: return SN_OK;
    }
    return SN_OK;
}

static int interpret(sn_prog *p, const machine *on, void *const *inputs, void *const *outputs) {
    for (uint32_t i = 0; i < p->n_ios; i++) p->place[p->ios[i].i] = io_address(p, p->ios[i], inputs, outputs);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        int status = run_step(p, on, &p->steps[i]);
        if (status != SN_OK) return status;
    }
    return SN_OK;
}

/* ---- the generated wrapper ---- */

/* Generated code returns a bare number when a check fails; the checks again find the words. */
static sn_status explain(sn_prog *p, int status, void *const *inputs, void *const *outputs) {
    if (p->env->status != SN_OK) return p->env->status;
    for (uint32_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == SN_STEP_CHECK)
            SN_TRY(sn_prog_check(p, p->steps[i].buf, io_address(p, p->steps[i].buf, inputs, outputs)));
    return sn_fail(p->env, SN_ERROR_INTERNAL, "the generated wrapper returned %d", status);
}

static sn_status generated(sn_prog *p, const machine *on, void *const *inputs, void *const *outputs) {
    int status = p->wrapper(inputs, outputs, p->consts, p->workspace, on->launch, on->copy, p);
    return status == SN_OK ? SN_OK : explain(p, status, inputs, outputs);
}

sn_status sn_prog_run(sn_prog *p, void *const *inputs, void *const *outputs, void *stream, bool use_interpreter) {
    const machine *on = p->cu ? &gpu : &host;
    p->stream = stream;
    if (p->cu) SN_TRY(sn_cuda_enter(p->cu));
    sn_status status = use_interpreter || !p->wrapper ? (sn_status)interpret(p, on, inputs, outputs)
                                                      : generated(p, on, inputs, outputs);
    if (p->cu) sn_cuda_leave(p->cu);
    return status;
}
