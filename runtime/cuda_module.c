/* cuda_module.c: loading kernels: cubins of cubins.c, else the driver's own assembler.
 *
 * A kernel that no assembler of the toolkit has taken, or whose cubin this driver does not take (a toolkit newer than the
 * driver), gets a second chance as PTX with the driver. What both refuse fails with the first lines of the assembler's log. The
 * driver is called from several threads, too: how many texts it assembles at a time is its affair (one, of 580). It gives no cubin away,
 * and has a cache of its own. Where cubins are not kept, several kernels may be one text, and one module (join.c).
 */
#include "runtime/cuda_module.h"

#include "runtime/assemble.h"
#include "runtime/clock.h"

enum { DRIVER_LOG = 8192 };

/* ---- the driver assembles ---- */

/* A text on its way through the driver. */
typedef struct driven {
    const sn_assembly *job;
    CUmodule *out;
    CUresult result;
    const char *call; /* that gave it */
    char *log;        /* DRIVER_LOG bytes */
} driven;

static driven drive(CUmodule *out, const sn_assembly *job, sn_arena *scratch) {
    return (driven){.job = job, .out = out, .call = "cuModuleLoadDataEx", .log = sn_zalloc(scratch, DRIVER_LOG)};
}

static void run_driver(driven *d, sn_cuda *cu) {
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {d->log, (void *)(uintptr_t)(DRIVER_LOG - 1)};
    d->result = cu->api.cuModuleLoadDataEx(d->out, d->job->ptx, SN_COUNT(options), options, values);
    if (d->result != CUDA_SUCCESS) *d->out = NULL;
}

/* A device that an earlier error has stopped refuses no text. */
static bool is_refused(const driven *d) {
    return d->log[0] || d->result == CUDA_ERROR_NO_BINARY_FOR_GPU || d->result == CUDA_ERROR_INVALID_PTX ||
           d->result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

static sn_status check_driver(const driven *d, sn_cuda *cu, sn_arena *scratch) {
    if (d->result == CUDA_SUCCESS) return SN_OK;
    if (d->result == CUDA_ERROR_OUT_OF_MEMORY || !is_refused(d)) return sn_cuda_check(cu, d->result, d->call);
    const char *reason = sn_log_line(scratch, d->job->log ? d->job->log : d->log);
    if (!*reason) return sn_cuda_check(cu, d->result, d->call);
    return sn_fail(cu->env, SN_ERROR_DEVICE, "kernel %s: the assembler refuses its PTX: %s", d->job->name, reason);
}

/* Which of several kernels it is shows when each is tried alone. */
static bool is_one_of_several(const driven *d) { return d->job->alone && d->result != CUDA_SUCCESS && is_refused(d); }

/* All texts of the driver, and before them what is done beside. */
typedef struct driving {
    sn_cuda *cu;
    driven *all;
    uint32_t n;
    const sn_beside *beside; /* NULL: nothing is left of it */
} driving;

/* On any thread: those of a pool have no current context. Piece 0 is what is done beside, where there is something. */
static void drive_piece(void *user, uint32_t piece) {
    driving *w = user;
    CUcontext popped;
    CUresult entered = w->cu->api.cuCtxPushCurrent(w->cu->context);
    driven *d = w->beside && !piece ? NULL : &w->all[w->beside ? piece - 1 : piece];
    if (!d) w->beside->body(w->beside->user, entered);
    else if (entered == CUDA_SUCCESS) run_driver(d, w->cu);
    else d->result = entered, d->call = "cuCtxPushCurrent";
    if (entered == CUDA_SUCCESS) w->cu->api.cuCtxPopCurrent(&popped);
}

static void drive_range(void *user, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) drive_piece(user, (uint32_t)i);
}

/* What goes on beside the assembler of the toolkit: texts that it would not get, the longest as early as its own; and first of all what
 * needs no processor. */
static sn_aside plan_aside(driving *w, sn_arena *scratch) {
    size_t *size = SN_NEWN(scratch, size_t, w->n + 1);
    uint32_t n = 0;
    if (w->beside) size[n++] = SIZE_MAX;
    for (uint32_t i = 0; i < w->n; i++) size[n++] = w->all[i].job->ptx_size;
    return (sn_aside){drive_piece, w, size, n};
}

/* Cubins, or modules where the driver assembles. A text that is whole is the driver's at once where no ptxas has a turn; it may get others,
 * that were refused, afterwards. */
static sn_status assemble_all(sn_cuda_code *out, sn_assembly *jobs, sn_cuda *cu, const sn_rt_kernel *kernels,
                              uint32_t n, sn_pool *pool, const sn_cubins *keep, const sn_beside *beside,
                              sn_arena *scratch) {
    driving w = {cu, SN_NEWN(scratch, driven, n + 1), 0, beside};
    for (uint32_t i = 0; i < n; i++) {
        if (!jobs[i].left_out && jobs[i].whole && !(keep && keep->ptxas))
            w.all[w.n++] = drive(&out[i].module, &jobs[i], scratch);
    }
    sn_aside aside = plan_aside(&w, scratch);
    sn_cubins_make(jobs, n, keep, &aside, pool, scratch);
    for (uint32_t i = 0; i < w.n; i++)
        if (!is_one_of_several(&w.all[i])) SN_TRY(check_driver(&w.all[i], cu, scratch));
    w.n = 0;
    w.beside = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (!jobs[i].cubin && !out[i].module) sn_assemblies_part(jobs, i);
    for (uint32_t i = 0; i < n; i++)
        if (!kernels[i].library && !jobs[i].is_joined && !jobs[i].cubin && !out[i].module)
            w.all[w.n++] = drive(&out[i].module, &jobs[i], scratch);
    sn_pool_run(pool, w.n, drive_range, &w);
    for (uint32_t i = 0; i < w.n; i++) SN_TRY(check_driver(&w.all[i], cu, scratch));
    return SN_OK;
}

/* ---- loading ---- */

/* Blocks that wait for each other: is there room for all of them? A program may have been compiled for a larger device. */
static sn_status check_room(const sn_cuda_code *code, sn_cuda *cu, const sn_rt_kernel *k) {
    int resident = 0;
    SN_TRY(CU_CALL(cu, cuOccupancyMaxActiveBlocksPerMultiprocessor,
                   (&resident, code->function, (int)(k->block_x * k->block_y), k->shared_bytes)));
    long long room = (long long)resident * cu->target.units;
    if (k->grid <= room) return SN_OK;
    return sn_fail(cu->env, SN_ERROR_TARGET,
                   "kernel %s: its %lld blocks have to run at once, this device has room for %lld: compile for it",
                   k->name, (long long)k->grid, room);
}

/* What a launch may only ask for when the function says so. */
static sn_status prepare(const sn_cuda_code *code, sn_cuda *cu, const sn_rt_kernel *k) {
    enum { PORTABLE_CLUSTER = 8 };
    if (k->cluster > PORTABLE_CLUSTER)
        SN_TRY(
            CU_CALL(cu, cuFuncSetAttribute, (code->function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)));
    if (k->shared_bytes)
        SN_TRY(CU_CALL(cu, cuFuncSetAttribute,
                       (code->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)k->shared_bytes)));
    return k->together ? check_room(code, cu, k) : SN_OK;
}

/* The driver gives no cubin away, and answers. */
static void look_at(sn_cuda_code *code, sn_cuda *cu, const sn_assembly *job, const char *name) {
    static const int attributes[] = {CU_FUNC_ATTRIBUTE_NUM_REGS, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                                     CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES};
    int values[SN_COUNT(attributes)] = {0};
    code->is_known = job->cubin && sn_cubin_read(&code->figures, job->cubin, job->cubin_size, name);
    if (code->is_known || !cu->api.cuFuncGetAttribute) return;
    for (size_t k = 0; k < SN_COUNT(attributes); k++)
        if (cu->api.cuFuncGetAttribute(&values[k], attributes[k], code->function) != CUDA_SUCCESS) return;
    code->figures = (sn_cubin_figures){(uint32_t)values[0], (uint32_t)values[1], (uint32_t)values[2]};
    code->is_known = true;
}

/* A cubin, or the text where the driver does not take that. Of several kernels that it refuses together each is tried alone, to see
 * which it is: this one now, the others when their turn comes. */
static sn_status load_module(CUmodule *module, uint32_t i, sn_cuda *cu, sn_assembly *jobs, sn_arena *scratch) {
    sn_assembly *job = &jobs[i];
    if (*module) return SN_OK;
    if (job->cubin && cu->api.cuModuleLoadDataEx(module, job->cubin, 0, NULL, NULL) == CUDA_SUCCESS) return SN_OK;
    driven again = drive(module, job, scratch);
    run_driver(&again, cu);
    if (is_one_of_several(&again)) {
        sn_assemblies_part(jobs, i);
        job->cubin = NULL;
        again = drive(module, job, scratch);
        run_driver(&again, cu);
    }
    return check_driver(&again, cu, scratch);
}

/* One that is joined is in the module of the first, which is loaded, and unloads it. */
static sn_status load_one(sn_cuda_code *out, uint32_t i, sn_cuda *cu, sn_assembly *jobs, const sn_rt_kernel *k,
                          sn_arena *scratch) {
    uint32_t first = jobs[i].is_joined ? jobs[i].first : i;
    const sn_assembly *job = &jobs[first];
    CUmodule *module = &out[first].module;
    if (first == i) SN_TRY(load_module(module, i, cu, jobs, scratch));
    SN_TRY(CU_CALL(cu, cuModuleGetFunction, (&out[i].function, *module, jobs[i].name)));
    look_at(&out[i], cu, job, jobs[i].name);
    return prepare(&out[i], cu, k);
}

/* The driver assembles one text at a time, whoever calls it (580): several threads have it done sooner by processes. */
static bool is_worth_processes(const sn_cubins *keep, sn_pool *pool) {
    return keep && keep->ptxas && keep->ptxas->path && sn_pool_threads(pool) > 1;
}

sn_status sn_cuda_code_load(sn_cuda_code *out, sn_prog_times *times, sn_cuda *cu, const sn_rt_kernel *kernels,
                            uint32_t n, sn_pool *pool, const sn_cubins *keep, const sn_beside *beside) {
    sn_arena scratch;
    sn_arena_init(&scratch, cu->env);
    double start = sn_now_us();
    sn_assembly *jobs = SN_NEWN(&scratch, sn_assembly, n + 1);
    bool any = false;
    for (uint32_t i = 0; i < n; i++) jobs[i] = sn_assembly_of(&kernels[i], cu->target.sm), any |= !jobs[i].left_out;
    bool kept = keep && keep->cache;
    if (!kept && !is_worth_processes(keep, pool)) keep = NULL;
    if (!kept) sn_assemblies_join(jobs, n, sn_pool_threads(pool), &scratch);
    sn_status status = assemble_all(out, jobs, cu, kernels, n, pool, keep, beside, &scratch);
    double assembled = sn_now_us();
    for (uint32_t i = 0; i < n && status == SN_OK; i++)
        if (!kernels[i].library) status = load_one(out, i, cu, jobs, &kernels[i], &scratch);
    if (any) times->assemble_us += assembled - start; /* else all of it was what was done beside */
    times->load_us += sn_now_us() - assembled;
    sn_arena_free(&scratch);
    return status;
}

void sn_cuda_code_unload(sn_cuda *cu, sn_cuda_code *code, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (code[i].module) cu->api.cuModuleUnload(code[i].module);
}
