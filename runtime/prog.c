/* prog.c: loading a program: wrapper steps with sizes as numbers, constants, kernels, calls of libraries; and the
 * prepare part of its wrapper, which runs here, once.
 *
 * Nothing changes a program once it is loaded; what runs change is in states (state.c). Relies on a verified module
 * with a wrapper; what a hand-written wrapper can still get wrong about places is checked here once, because neither
 * executor looks again.
 */
#include "runtime/prog.h"

#include "runtime/clock.h"
#include "runtime/upload.h"

#include <stdio.h>
#include <string.h>

/* ---- steps ---- */

/* A buffer is known when the steps so far gave it a place; p->place serves as the set, any address means yes. */
static sn_status expect_place(sn_prog *p, sn_buf b, const char *user) {
    if (p->place[b.i]) return SN_OK;
    return sn_fail(p->env, SN_ERROR_VERIFY, "wrapper: %s uses %s before it has a place", user,
                   sn_buf_get(p->m, b)->name);
}

static sn_status load_args(sn_rt_step *out, sn_prog *p, const sn_arg_list *args, const sn_code *code) {
    if (args->n != code->n_params)
        return sn_fail(p->env, SN_ERROR_VERIFY, "wrapper: %s has %u parameters, a call %u arguments", code->k.name,
                       code->n_params, args->n);
    sn_rt_arg *list = SN_NEWN(&p->arena, sn_rt_arg, args->n);
    for (uint32_t i = 0; i < args->n; i++) {
        const sn_arg *a = &args->at[i];
        SN_TRY(expect_place(p, a->buf, code->k.name));
        list[i] = (sn_rt_arg){a->buf, a->offset * sn_dtype_bytes(sn_buf_get(p->m, a->buf)->dtype)};
    }
    out->args = list;
    out->n_args = args->n;
    return SN_OK;
}

/* Of the kernel or the alternative that may run instead. */
static uint32_t most_maps(const sn_prog *p, uint32_t kernel) {
    uint32_t most = p->codes[kernel].k.n_maps;
    for (uint32_t i = 0; i < p->n_codes; i++)
        if (p->codes[i].k.alternative_of == kernel + 1 && p->codes[i].k.n_maps > most) most = p->codes[i].k.n_maps;
    return most;
}

/* Of a call that is made so many times. */
static void count_maps(sn_prog *p, uint32_t maps, int64_t times) {
    enum { MOST = 1 << 16 };
    int64_t n;
    bool few = !sn_mul_overflow(maps, times, &n) && n <= MOST - (int64_t)p->n_maps;
    p->n_maps = few ? p->n_maps + (uint32_t)n : MOST;
}

static sn_status load_step(sn_rt_step *out, sn_prog *p, const sn_step *s, bool prepares, const uint32_t *number,
                           int64_t times) {
    size_t room = prepares ? p->prepared_size : p->workspace_size;
    const char *name = s->buf.i ? sn_buf_get(p->m, s->buf)->name : "a step";
    *out = (sn_rt_step){.kind = s->kind, .buf = s->buf, .from = s->from};
    bool backwards = s->kind == SN_STEP_WINDOW && sn_ix_is_const(p->m, s->size, &out->size); /* it may be negative */
    if (!backwards) SN_TRY(sn_wrap_number(&out->size, p->m, s->size, "the size", name));
    SN_TRY(sn_wrap_number(&out->offset, p->m, s->offset, "the offset", name));
    switch (s->kind) {
    case SN_STEP_ALLOC:
        if (out->size > (int64_t)room || out->offset > (int64_t)room - out->size)
            return sn_fail(p->env, SN_ERROR_VERIFY, "wrapper: %s (%lld bytes at %lld) is outside the %s of %zu bytes",
                           name, (long long)out->size, (long long)out->offset,
                           prepares ? "prepared memory" : "workspace", room);
        p->place[s->buf.i] = p;
        return SN_OK;
    case SN_STEP_REUSE: p->place[s->buf.i] = p; return expect_place(p, s->from, name);
    case SN_STEP_COPY: SN_TRY(expect_place(p, s->buf, "copy")); return expect_place(p, s->from, "copy");
    case SN_STEP_CALL:
        out->kernel = number[s->kern.i];
        out->from_here = s->text;
        if (out->kernel == p->n_codes)
            return sn_fail(p->env, SN_ERROR_VERIFY, "wrapper: call of a kernel that was removed");
        count_maps(p, most_maps(p, out->kernel), times);
        return load_args(out, p, &s->args, &p->codes[out->kernel]);
    case SN_STEP_CHECK: out->io = p->io_of[s->buf.i]; return SN_OK;
    case SN_STEP_WINDOW: p->place[s->buf.i] = p; return expect_place(p, s->from, name);
    case SN_STEP_CARRY: SN_TRY(expect_place(p, s->buf, "carry")); return expect_place(p, s->from, "carry");
    case SN_STEP_WHILE:
    case SN_STEP_IF: return expect_place(p, s->buf, sn_step_names[s->kind]);
    case SN_STEP_REPEAT:
    case SN_STEP_ELSE:
    case SN_STEP_END:
    case SN_STEP_FREE:
    case SN_STEP_COMMENT:
    case SN_N_STEP_KINDS: return SN_OK;
    }
    return SN_OK;
}

enum { MOST_REPEATS = 64 /* around each other: as deep as the interpreter calls itself */ };

/* Repeats and branches that have not ended, and how often what stands in them runs, at most. */
typedef struct repeats {
    uint32_t step[MOST_REPEATS];
    int64_t times[MOST_REPEATS + 1];
    uint32_t n;
} repeats;

static sn_status open_repeat(repeats *open, sn_prog *p, int64_t times) {
    if (open->n == MOST_REPEATS)
        return sn_fail(p->env, SN_ERROR_UNSUPPORTED, "wrapper: more than %d repeats and branches around each other",
                       MOST_REPEATS);
    open->step[open->n++] = p->n_steps;
    if (sn_mul_overflow(open->times[open->n - 1], times, &open->times[open->n])) open->times[open->n] = INT64_MAX;
    return SN_OK;
}

/* An `if` ends at its `else`, which ends at the end of both. */
static sn_status match_repeat(repeats *open, sn_prog *p, const sn_rt_step *s) {
    if (s->kind == SN_STEP_REPEAT) return open_repeat(open, p, s->size);
    if (s->kind == SN_STEP_IF) return open_repeat(open, p, 1);
    if (s->kind != SN_STEP_END && s->kind != SN_STEP_ELSE) return SN_OK;
    sn_rt_step *of = open->n ? &p->steps[open->step[open->n - 1]] : NULL;
    if (!of || (s->kind == SN_STEP_ELSE && of->kind != SN_STEP_IF))
        return sn_fail(p->env, SN_ERROR_VERIFY, "wrapper: there is no repeat or if to end");
    of->end = p->n_steps;
    if (s->kind == SN_STEP_ELSE) open->step[open->n - 1] = p->n_steps;
    else open->n--;
    return SN_OK;
}

/* Comments and frees say nothing to a run. */
static bool step_runs(sn_step_kind kind) { return kind != SN_STEP_COMMENT && kind != SN_STEP_FREE; }

static sn_status load_steps(sn_prog *p) {
    const sn_wrap *w = &p->m->wrap;
    if (!w->steps.n) return sn_fail(p->env, SN_ERROR_ARGUMENT, "the module has no wrapper: run the pass plan first");
    const uint32_t *number = sn_kern_numbers(p->m, &p->arena);
    repeats open = {{0}, {1}, 0};
    p->steps = SN_NEWN(&p->arena, sn_rt_step, w->steps.n);
    for (uint32_t i = 0; i < w->steps.n; i++) {
        sn_rt_step *step = &p->steps[p->n_steps];
        SN_TRY(load_step(step, p, &w->steps.at[i], i < w->n_prepare, number, open.times[open.n]));
        SN_TRY(match_repeat(&open, p, step));
        p->n_steps += step_runs(w->steps.at[i].kind);
        if (i < w->n_prepare) p->n_prepare = p->n_steps;
    }
    if (open.n) return sn_fail(p->env, SN_ERROR_VERIFY, "wrapper: a repeat or an if has no end");
    return SN_OK;
}

/* ---- buffers ---- */

static sn_status buf_bytes(int64_t *out, sn_prog *p, const sn_buf_rec *b) {
    SN_TRY(sn_wrap_number(out, p->m, b->size, "the size", b->name));
    *out *= sn_dtype_bytes(b->dtype);
    return SN_OK;
}

/* The CPU reads constants where the module holds or borrows them, when they lie well there; the device has its own
 * copy. */
static bool stays(const sn_prog *p, const sn_buf_rec *b) {
    return !p->cu && (uintptr_t)sn_buf_data(p->m, b) % (b->align ? b->align : 1) == 0;
}

static sn_status load_const(sn_prog *p, uint32_t i, const sn_buf_rec *b) {
    const void *data = sn_buf_data(p->m, b);
    int64_t bytes = 0;
    SN_TRY(buf_bytes(&bytes, p, b));
    if (!data && bytes)
        return sn_fail(p->env, SN_ERROR_ARGUMENT, "weight %s has no elements: none were attached",
                       b->weight.i ? sn_wt_get(p->m, b->weight)->name : b->name);
    p->consts[p->n_consts++] = (void *)data;
    p->place[i] = data ? (void *)data : p;
    return SN_OK;
}

static sn_status load_io(sn_prog *p, uint32_t i, const sn_buf_rec *b) {
    int64_t bytes = 0;
    SN_TRY(buf_bytes(&bytes, p, b));
    p->io_of[i] = p->n_ios;
    p->ios[p->n_ios++] = (sn_rt_io){{i}, b->scope == SN_BUF_INPUT, b->io, b->align, (size_t)bytes, b->name};
    p->place[i] = p;
    return SN_OK;
}

/* Lists of buffers by scope; place[] of what is known before a run gets a marker (any address). */
static sn_status load_buffers(sn_prog *p) {
    uint32_t n = p->n_places = p->m->bufs.count;
    p->place = SN_NEWN(&p->arena, void *, n);
    p->names = SN_NEWN(&p->arena, const char *, n);
    p->ios = SN_NEWN(&p->arena, sn_rt_io, n);
    p->io_of = SN_NEWN(&p->arena, uint32_t, n);
    p->consts = SN_NEWN(&p->arena, void *, n + 1);
    for (uint32_t i = 1; i < n; i++) {
        const sn_buf_rec *b = sn_buf_get(p->m, (sn_buf){i});
        p->names[i] = b->name;
        if (b->scope == SN_BUF_INPUT || b->scope == SN_BUF_OUTPUT) SN_TRY(load_io(p, i, b));
        else if (b->scope == SN_BUF_CONST) SN_TRY(load_const(p, i, b));
    }
    return SN_OK;
}

/* By buffer id: do runs read it? The others, for which there is something prepared, have a block of their own that goes
 * when that is done. */
static bool *find_run_buffers(sn_prog *p) {
    bool *used = SN_NEWN(&p->arena, bool, p->n_places);
    for (uint32_t i = p->n_prepare; i < p->n_steps; i++) {
        const sn_rt_step *s = &p->steps[i];
        if (s->kind == SN_STEP_COPY || s->kind == SN_STEP_WINDOW) used[s->from.i] = true;
        for (uint32_t k = 0; k < s->n_args; k++) used[s->args[k].buf.i] = true;
    }
    return used;
}

enum { OF_RUNS, OF_PREPARE };

/* A constant without elements has no place and maybe no elements to read. What goes to a device goes later (sn_uploads_run). */
static void upload(sn_prog *p, sn_uploads *later, void *to, const void *from, size_t size) {
    if (!size) return;
    if (p->cu) SN_PUSH(&p->arena, &later->list, ((sn_upload){to, from, size}));
    else memcpy(to, from, size);
}

static sn_status load_consts(sn_prog *p, sn_uploads *later) {
    const bool *in_runs = find_run_buffers(p);
    size_t offset[2] = {0};
    int64_t bytes = 0;
    for (uint32_t i = 1; i < p->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(p->m, (sn_buf){i});
        if (b->scope != SN_BUF_CONST || stays(p, b)) continue;
        SN_TRY(buf_bytes(&bytes, p, b));
        p->const_size[in_runs[i] ? OF_RUNS : OF_PREPARE] += sn_storage_round((size_t)bytes);
    }
    for (int of = 0; of < 2; of++) SN_TRY(sn_storage_alloc(&p->const_block[of], p->env, p->cu, p->const_size[of]));
    for (uint32_t i = 1, k = 0; i < p->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(p->m, (sn_buf){i});
        if (b->scope != SN_BUF_CONST) continue;
        uint32_t number = k++, of = in_runs[i] ? OF_RUNS : OF_PREPARE;
        if (stays(p, b)) continue;
        char *at = (char *)p->const_block[of] + offset[of];
        SN_TRY(buf_bytes(&bytes, p, b));
        upload(p, later, at, sn_buf_data(p->m, b), (size_t)bytes);
        p->consts[number] = p->place[i] = at;
        offset[of] += sn_storage_round((size_t)bytes);
    }
    return SN_OK;
}

/* ---- kernels ---- */

/* Drivers before CUDA 12.0 have none. */
static sn_status take_maps(sn_prog *p, sn_rt_kernel *k) {
    if (!k->n_maps) return SN_OK;
    if (k->n_maps > p->most_maps) p->most_maps = k->n_maps;
    k->maps = sn_memdup(&p->arena, k->maps, k->n_maps * sizeof *k->maps);
    if (p->cu->api.cuTensorMapEncodeTiled && p->cu->api.cuTensorMapEncodeIm2col) return SN_OK;
    return sn_fail(p->env, SN_ERROR_DEVICE,
                   "kernel %s: it copies by tensor maps, which the CUDA driver does not have (that of CUDA %d.%d; 12.0 "
                   "is the oldest)",
                   k->name, p->cu->driver_version / 1000, p->cu->driver_version % 1000 / 10);
}

/* For those who watch runs: the module may change while others run. */
static sn_status describe_formals(sn_rt_formal **out, sn_prog *p, const sn_kern_rec *k) {
    sn_rt_formal *list = SN_NEWN(&p->arena, sn_rt_formal, k->params.n + 1);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const sn_buf_rec *b = sn_buf_get(p->m, k->params.at[i]);
        int64_t dense = 1;
        list[i] = (sn_rt_formal){.dtype = b->dtype, .role = b->role, .rank = b->rank};
        SN_TRY(sn_wrap_number(&list[i].numel, p->m, b->size, "the size", b->name));
        for (uint32_t a = 0; a < b->rank; a++) {
            SN_TRY(sn_wrap_number(&list[i].shape[a], p->m, b->shape[a], "a size", b->name));
            dense *= list[i].shape[a];
        }
        if (dense == list[i].numel) continue;
        list[i].rank = 1; /* its elements have gaps, or are there several times: the storage as it lies */
        list[i].shape[0] = list[i].numel;
    }
    *out = list;
    return SN_OK;
}

static sn_status describe_kernels(sn_prog *p, const sn_rt_kernel *kernels) {
    p->most_params = 1;
    p->codes = SN_NEWN(&p->arena, sn_code, p->n_codes);
    for (uint32_t i = 0; i < p->n_codes; i++) {
        const sn_kern_rec *k = sn_kern_get(p->m, p->m->kernels.at[i]);
        const sn_library_call *library = kernels[i].library;
        p->codes[i] = (sn_code){.k = kernels[i], .n_params = k->params.n, .kept_offset = p->kept_size};
        if (library) p->codes[i].k.library = sn_memdup(&p->arena, library, sizeof *library);
        p->codes[i].k.name = k->name;
        p->codes[i].note = k->note;
        p->codes[i].from = k->from;
        SN_TRY(describe_formals(&p->codes[i].formals, p, k));
        SN_TRY(take_maps(p, &p->codes[i].k));
        p->kept_size += sn_storage_round(kernels[i].kept_bytes);
        if (k->params.n > p->most_params) p->most_params = k->params.n;
        if (p->cu && kernels[i].grid > INT32_MAX)
            return sn_fail(p->env, SN_ERROR_UNSUPPORTED,
                           "kernel %s: a grid of %lld blocks is more than a launch can have (%d)", k->name,
                           (long long)kernels[i].grid, INT32_MAX);
        if (!library && (p->cu ? !kernels[i].ptx : !kernels[i].host))
            return sn_fail(p->env, SN_ERROR_ARGUMENT, "kernel %s: no code for the %s", k->name, p->cu ? "GPU" : "CPU");
    }
    return SN_OK;
}

static sn_status refuse_call(sn_prog *p, const sn_code *code, const char *why) {
    return sn_fail(p->env, SN_ERROR_UNSUPPORTED, "kernel %s: no library runs it: %s", code->k.name, why);
}

static void want_workspace(sn_prog *p, size_t size) {
    if (size > p->library_size) p->library_size = size;
}

static sn_status ready_conv(sn_prog *p, sn_code *code) {
    char why[SN_LIBRARY_WHY];
    sn_cudnn *lib = sn_cudnn_open(p->cu, why);
    if (!lib || !sn_cudnn_start(lib, why)) return refuse_call(p, code, why);
    p->cudnn = lib;
    code->conv = sn_zalloc(&p->arena, sizeof *code->conv);
    if (!sn_cudnn_prepare(code->conv, p->cudnn, code->k.library, why)) return refuse_call(p, code, why);
    want_workspace(p, code->conv->workspace);
    return SN_OK;
}

/* The context of the device is current. */
static sn_status ready_call(sn_prog *p, sn_code *code) {
    char why[SN_LIBRARY_WHY];
    if (code->k.library->is_conv) return ready_conv(p, code);
    if (!p->cublas) p->cublas = sn_cublas_open(p->cu, why);
    if (!p->cublas) return refuse_call(p, code, why);
    code->call = sn_zalloc(&p->arena, sizeof *code->call);
    if (!sn_cublas_prepare(code->call, p->cublas, code->k.library, why)) return refuse_call(p, code, why);
    want_workspace(p, code->call->workspace);
    return SN_OK;
}

static sn_status ready_calls(sn_prog *p) {
    char why[SN_LIBRARY_WHY];
    for (uint32_t i = 0; i < p->n_codes; i++) {
        sn_code *code = &p->codes[i];
        if (!code->k.library) continue;
        if (p->cu) SN_TRY(ready_call(p, code));
        else if (!p->cblas.library && !sn_cblas_open(&p->cblas, why)) return refuse_call(p, code, why);
    }
    return SN_OK;
}

/* ... and the constants, meanwhile. */
static sn_status load_gpu_kernels(sn_prog *p, const sn_rt_kernel *kernels, uint32_t threads, const sn_cubins *keep,
                                  sn_uploads *uploads) {
    sn_beside beside = {sn_uploads_run, uploads};
    p->cuda_codes = SN_NEWN(&p->arena, sn_cuda_code, p->n_codes);
    p->pool = sn_pool_new(p->env, p->n_codes > 1 ? threads : 1);
    sn_status status = sn_cuda_enter(p->cu);
    if (status == SN_OK) {
        status = ready_calls(p);
        if (status == SN_OK)
            status = sn_cuda_code_load(p->cuda_codes, &p->times, p->cu, kernels, p->n_codes, p->pool, keep, &beside);
        if (status == SN_OK) status = sn_uploads_check(uploads);
        sn_cuda_leave(p->cu);
    }
    sn_pool_free(p->pool);
    p->pool = NULL;
    return status;
}

static bool any_parallel(const sn_prog *p) {
    for (uint32_t i = 0; i < p->n_codes; i++)
        if (p->codes[i].k.grid > 1) return true;
    return false;
}

/* ---- the prepare part ---- */

static void free_consts(sn_prog *p, int of) {
    sn_storage_free(p->env, p->cu, p->const_block[of], p->const_size[of]);
    p->const_block[of] = NULL;
}

/* Runs read what it leaves, as they read constants, and on any stream. */
static sn_status prepare(sn_prog *p) {
    if (!p->n_prepare) return SN_OK;
    SN_TRY(sn_storage_alloc(&p->prepared, p->env, p->cu, p->prepared_size));
    p->consts[p->n_consts] = p->prepared;
    SN_TRY(sn_prog_state_new(&p->preparer, p, p->env, p->cu));
    sn_status status = sn_prog_prepare(p->preparer);
    if (p->cu) { /* also where it failed in the middle: its memory may go only when nothing writes it any more */
        sn_status synced = sn_cuda_sync(p->cu, NULL);
        if (status == SN_OK) status = synced;
    }
    SN_TRY(status);
    for (uint32_t i = 0; i < p->n_prepare; i++) {
        sn_buf b = p->steps[i].buf;
        if (b.i) p->place[b.i] = p->preparer->place[b.i];
    }
    sn_prog_state_free(p->preparer);
    p->preparer = NULL;
    free_consts(p, OF_PREPARE);
    return SN_OK;
}

/* ---- the whole ---- */

static sn_status load(sn_prog *p, const sn_rt_kernel *kernels, uint32_t threads, const sn_cubins *keep) {
    int64_t workspace = 0, prepared = 0;
    if (p->n_codes != p->m->kernels.n)
        return sn_fail(p->env, SN_ERROR_ARGUMENT, "the module has %u kernels, code was given for %u", p->m->kernels.n,
                       p->n_codes);
    SN_TRY(sn_wrap_number(&workspace, p->m, p->m->wrap.workspace, "the workspace", "the wrapper"));
    SN_TRY(sn_wrap_number(&prepared, p->m, p->m->wrap.prepared, "the prepared memory", "the wrapper"));
    p->workspace_size = (size_t)workspace;
    p->prepared_size = (size_t)prepared;
    SN_TRY(describe_kernels(p, kernels));
    SN_TRY(load_buffers(p));
    SN_TRY(load_steps(p));
    sn_uploads uploads = {.cu = p->cu};
    SN_TRY(load_consts(p, &uploads));
    if (p->cu) {
        SN_TRY(load_gpu_kernels(p, kernels, threads, keep, &uploads));
        p->times.upload_us = uploads.took_us;
    } else {
        if (any_parallel(p)) p->pool = sn_pool_new(p->env, threads);
        SN_TRY(ready_calls(p));
    }
    SN_TRY(sn_prog_pick(p));
    double start = sn_now_us();
    SN_TRY(prepare(p));
    p->times.prepare_us = sn_now_us() - start;
    return SN_OK;
}

sn_status sn_prog_load(sn_prog **out, sn_module *m, sn_cuda *cu, const sn_rt_kernel *kernels, uint32_t n,
                       sn_rt_wrapper wrapper, uint32_t threads, const sn_cubins *keep) {
    *out = NULL;
    sn_prog *p = sn_heap_alloc(m->env, sizeof *p);
    *p = (sn_prog){.env = m->env, .m = m, .cu = cu, .wrapper = wrapper, .n_codes = n, .threads = threads};
    sn_arena_init(&p->arena, m->env);
    *out = p; /* known to the caller's guard, should memory run out: it holds threads and device memory */
    sn_status status = load(p, kernels, threads, keep);
    if (status == SN_OK) return SN_OK;
    *out = NULL;
    sn_prog_free(p);
    return status;
}

static void unload_gpu_kernels(sn_prog *p) {
    bool entered = sn_cuda_enter_to_free(p->cu);
    for (uint32_t i = 0; i < p->n_codes; i++) {
        if (p->codes[i].call) sn_cublas_drop(p->codes[i].call, p->cublas);
        if (p->codes[i].conv) sn_cudnn_drop(p->codes[i].conv, p->cudnn);
    }
    sn_cuda_code_unload(p->cu, p->cuda_codes, p->n_codes);
    sn_cuda_leave_from(p->cu, entered);
}

void sn_prog_free(sn_prog *p) {
    if (!p) return;
    sn_prog_state_free(p->preparer);
    if (p->cuda_codes) unload_gpu_kernels(p);
    sn_storage_free(p->env, p->cu, p->prepared, p->prepared_size);
    for (int of = 0; of < 2; of++) free_consts(p, of);
    sn_cblas_close(&p->cblas);
    sn_pool_free(p->pool);
    sn_arena_free(&p->arena);
    sn_heap_free(p->env, p, sizeof *p);
}

const sn_rt_pick *sn_prog_picks(uint32_t *n, const sn_prog *p) {
    *n = p->n_picks;
    return p->picks;
}

double sn_prog_picked_us(const sn_prog *p, uint32_t kernel) { return p->picked_us ? p->picked_us[kernel] : 0; }

sn_prog_times sn_prog_load_times(const sn_prog *p) { return p->times; }

bool sn_prog_cubin(sn_cubin_figures *out, const sn_prog *p, uint32_t k) {
    if (!p->cuda_codes || !p->cuda_codes[k].is_known) return false;
    *out = p->cuda_codes[k].figures;
    return true;
}

/* At most: as if both branches were taken, and no loop ended early. */
static int64_t launches(const sn_prog *p, uint32_t first, uint32_t end) {
    int64_t n = 0, inner;
    for (uint32_t i = first; i < end; i++) {
        const sn_rt_step *s = &p->steps[i];
        n += s->kind == SN_STEP_COPY || (s->kind == SN_STEP_CALL && p->codes[s->kernel].k.grid);
        if (s->kind != SN_STEP_REPEAT) continue;
        if (sn_mul_overflow(launches(p, i + 1, s->end), s->size, &inner) || inner > UINT32_MAX) inner = UINT32_MAX;
        n += inner;
        i = s->end;
    }
    return n < UINT32_MAX ? n : UINT32_MAX;
}

uint32_t sn_prog_launches(const sn_prog *p) { return (uint32_t)launches(p, p->n_prepare, p->n_steps); }
