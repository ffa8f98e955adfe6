/* fake_cuda.h: a CUDA driver of our own, for tests of the runtime without a GPU: device memory is host memory,
 * kernels are C functions that the names of the real ones choose. What happened is counted in `fake`.
 */
#ifndef SN_TESTS_UNIT_FAKE_CUDA_H
#define SN_TESTS_UNIT_FAKE_CUDA_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/prog.h"

enum { FAKE_MEMORY = 1 << 20, ILLEGAL_ADDRESS = 700 };

/* A launch or copy that was captured. */
typedef struct {
    const char *kernel; /* NULL: a copy of n bytes */
    void *to;
    const void *from;
    size_t n;
} fake_node;

enum { FAKE_NODES = 8192 };

/* What cuTensorMapEncodeTiled was told, or cuTensorMapEncodeIm2col. */
typedef struct {
    void *address;
    uint32_t dims[5], strides[4];
    uint16_t box[5], rank;
    int8_t type, swizzle, low[3], high[3], steps[5];
    bool pixels;
} fake_map;

static struct {
    _Atomic int depth, modules; /* pushed contexts, on all threads; modules that are loaded */
    size_t used;
    int allocs, frees, launches, together, syncs, resets, encodes;
    size_t sizes[256];
    void *blocks[256];
    int n_blocks;
    CUresult next_launch, next_encode;
    bool fail_in_capture; /* next_launch is for captured launches alone */
    bool refuse;
    int retained;
    float milliseconds;
    bool capturing;
    fake_node *graph;           /* one graph at a time */
    int n_nodes, replays, open; /* open: streams, graphs and events that exist */
} fake;

/* Pushed contexts of this thread. */
static _Thread_local int fake_depth_here;

static CUresult fake_push(CUcontext cx) {
    (void)cx;
    fake.depth++;
    fake_depth_here++;
    return CUDA_SUCCESS;
}

static CUresult fake_pop(CUcontext *cx) {
    *cx = NULL;
    fake.depth--;
    fake_depth_here--;
    return CUDA_SUCCESS;
}

static CUresult fake_alloc(CUdeviceptr *p, size_t size) {
    cr_assert_not(fake.capturing, "cuMemAlloc in a capture");
    cr_assert_gt(fake.depth, 0, "cuMemAlloc without a current context");
    if (fake.used + size > FAKE_MEMORY) return CUDA_ERROR_OUT_OF_MEMORY;
    fake.used += size;
    fake.allocs++;
    fake.sizes[fake.n_blocks] = size;
    fake.blocks[fake.n_blocks] = aligned_alloc(256, (size + 255) / 256 * 256);
    *p = sn_device_address(fake.blocks[fake.n_blocks++]);
    return CUDA_SUCCESS;
}

static CUresult fake_free(CUdeviceptr p) {
    for (int i = 0; i < fake.n_blocks; i++) {
        if (sn_device_address(fake.blocks[i]) != p) continue;
        fake.used -= fake.sizes[i];
        fake.frees++;
        free(fake.blocks[i]);
        fake.blocks[i] = NULL;
        return CUDA_SUCCESS;
    }
    cr_assert_fail("cuMemFree of an address that is no block");
    return 1;
}

static CUresult fake_info(size_t *unused, size_t *total) {
    *unused = FAKE_MEMORY - fake.used;
    *total = FAKE_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult fake_to_device(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
    (void)stream;
    memcpy((void *)(uintptr_t)to, from, size);
    return CUDA_SUCCESS;
}

static CUresult fake_to_host(void *to, CUdeviceptr from, size_t size, CUstream stream) {
    (void)stream;
    memcpy(to, (void *)(uintptr_t)from, size);
    return CUDA_SUCCESS;
}

static void fake_execute(const fake_node *node) {
    if (!node->kernel) {
        memmove(node->to, node->from, node->n);
        return;
    }
    float add = (float)(node->kernel[strlen(node->kernel) - 1] - '0');
    for (size_t i = 0; i < node->n; i++) ((float *)node->to)[i] = ((const float *)node->from)[i] + add;
}

/* Work is done at once, or kept while a stream is captured. */
static CUresult fake_queue(CUstream stream, fake_node node) {
    cr_assert_eq(fake.capturing, stream != NULL, "work on the wrong stream");
    if (!fake.capturing) fake_execute(&node);
    else if (fake.n_nodes < FAKE_NODES) fake.graph[fake.n_nodes++] = node;
    else cr_assert_fail("a graph of more than %d nodes", FAKE_NODES);
    return CUDA_SUCCESS;
}

static CUresult fake_copy(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    return fake_queue(stream, (fake_node){NULL, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, size});
}

static CUresult fake_reset(void) {
    fake.resets++;
    return 0;
}

static CUresult fake_fill(CUdeviceptr to, unsigned char byte, size_t size, CUstream stream) {
    (void)stream;
    memset((void *)(uintptr_t)to, byte, size);
    return CUDA_SUCCESS;
}

static CUresult fake_sync(CUstream stream) {
    (void)stream;
    cr_assert_not(fake.capturing, "cuStreamSynchronize in a capture");
    fake.syncs++;
    return CUDA_SUCCESS;
}

static CUresult fake_error_name(CUresult error, const char **text) {
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == ILLEGAL_ADDRESS        ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                              : NULL;
    return CUDA_SUCCESS;
}

static CUresult fake_error_text(CUresult error, const char **text) {
    *text = error == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : NULL;
    return CUDA_SUCCESS;
}

static CUresult fake_module(CUmodule *out, const void *image, unsigned n, int *options, void **values) {
    if (fake.refuse && n) strcpy(values[0], "ptxas error : no luck\n\nline 3: really none\n");
    (void)options;
    if (fake.refuse) return 218;
    if (fake_depth_here <= 0) return 201;
    fake.modules++;
    *out = (CUmodule)(uintptr_t)image;
    return CUDA_SUCCESS;
}

static CUresult fake_unload(CUmodule module) {
    (void)module;
    fake.modules--;
    return CUDA_SUCCESS;
}

static CUresult fake_function(CUfunction *out, CUmodule module, const char *name) {
    (void)module;
    *out = (CUfunction)(uintptr_t)name;
    return CUDA_SUCCESS;
}

/* Parameter 1 = parameter 0 plus the number at the end of the kernel's name, one float a block. */
static CUresult fake_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, CUstream stream, void **params, void **extra) {
    (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    cr_assert_gt(fake.depth, 0);
    if (fake.next_launch && (!fake.fail_in_capture || fake.capturing)) return fake.next_launch;
    fake.launches++;
    const char *name = (const char *)f;
    void **block = params[0]; /* a name that begins with "block": the addresses are one parameter */
    void *to = strncmp(name, "block", 5) == 0 ? block[1] : *(void **)params[1];
    if (strncmp(name, "keep", 4) == 0) { /* ... "keep": its memory comes behind the others */
        uint64_t *kept = *(uint64_t **)params[2];
        return *(float *)to = (float)++*kept, CUDA_SUCCESS;
    }
    const void *from = block[0];
    if (strncmp(name, "map", 3) == 0) { /* ... "map": it reads by a tensor map, the parameter behind the addresses */
        cr_assert_eq((uintptr_t)params[2] % 64, 0);
        from = ((const fake_map *)params[2])->address;
    }
    return fake_queue(stream, (fake_node){name, to, from, gx});
}

static CUresult fake_put_map(CUtensorMap *map, fake_map *m, const uint64_t *dims, const uint64_t *strides) {
    if (fake.next_encode) return fake.next_encode;
    cr_assert(m->rank >= 1 && m->rank <= 5 && (uintptr_t)map % 64 == 0);
    for (uint32_t i = 0; i < m->rank; i++) {
        m->dims[i] = (uint32_t)dims[i];
        if (i) m->strides[i - 1] = (uint32_t)strides[i - 1];
    }
    _Static_assert(sizeof *m <= sizeof *map, "a fake map is as small as a real one");
    memcpy(map, m, sizeof *m);
    fake.encodes++;
    return CUDA_SUCCESS;
}

static CUresult fake_encode(CUtensorMap *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                            const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                            int swizzle, int promotion, int fill) {
    fake_map m = {.address = address, .rank = (uint16_t)rank, .type = (int8_t)type, .swizzle = (int8_t)swizzle};
    cr_assert(!interleave && promotion && !fill);
    for (uint32_t i = 0; i < rank; i++) {
        cr_assert_eq(steps[i], 1);
        m.box[i] = (uint16_t)box[i];
    }
    return fake_put_map(map, &m, dims, strides);
}

static CUresult fake_encode_pixels(CUtensorMap *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                                   const uint64_t *strides, const int *low, const int *high, uint32_t channels,
                                   uint32_t pixels, const uint32_t *steps, int interleave, int swizzle, int promotion,
                                   int fill) {
    fake_map m = {.address = address, .rank = (uint16_t)rank, .type = (int8_t)type, .swizzle = (int8_t)swizzle};
    cr_assert(!interleave && promotion && !fill);
    m.pixels = true;
    m.box[0] = (uint16_t)channels, m.box[1] = (uint16_t)pixels;
    for (uint32_t i = 0; i < rank; i++) m.steps[i] = (int8_t)steps[i];
    for (uint32_t i = 0; i + 2 < rank; i++) m.low[i] = (int8_t)low[i], m.high[i] = (int8_t)high[i];
    return fake_put_map(map, &m, dims, strides);
}

static CUresult fake_launch_ex(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
    cr_assert_eq(c->n_attributes, 1);
    cr_assert_eq(c->attributes->id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    return fake_launch(f, c->grid_x, c->grid_y, c->grid_z, c->block_x, c->block_y, c->block_z, c->shared_bytes,
                       c->stream, params, extra);
}

static CUresult fake_launch_together(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                     unsigned block_y, unsigned block_z, unsigned shared, CUstream stream,
                                     void **params) {
    fake.together++;
    return fake_launch(f, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, params, NULL);
}

static CUresult fake_resident(int *blocks, CUfunction f, int threads, size_t shared) {
    (void)f, (void)threads, (void)shared;
    *blocks = 2;
    return CUDA_SUCCESS;
}

static CUresult fake_stream(CUstream *out, unsigned flags) {
    cr_assert_eq(flags, CU_STREAM_NON_BLOCKING);
    *out = (CUstream)(uintptr_t)2;
    fake.open++;
    return CUDA_SUCCESS;
}

static CUresult fake_stream_destroy(CUstream stream) {
    cr_assert_eq(stream, (CUstream)(uintptr_t)2);
    fake.open--;
    return CUDA_SUCCESS;
}

static CUresult fake_capture(CUstream stream, int mode) {
    cr_assert(stream && mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && !fake.capturing);
    fake.graph = calloc(FAKE_NODES, sizeof *fake.graph);
    fake.n_nodes = 0;
    fake.capturing = true;
    fake.open++;
    return CUDA_SUCCESS;
}

static CUresult fake_capture_end(CUstream stream, CUgraph *out) {
    cr_assert(stream && fake.capturing);
    fake.capturing = false;
    *out = (CUgraph)fake.graph;
    return CUDA_SUCCESS;
}

static CUresult fake_instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    cr_assert(graph == (CUgraph)fake.graph && !flags);
    *out = (CUgraphExec)(uintptr_t)3;
    fake.open++;
    return CUDA_SUCCESS;
}

static CUresult fake_replay(CUgraphExec exec, CUstream stream) {
    cr_assert(exec && stream && fake.depth > 0);
    for (int i = 0; i < fake.n_nodes; i++) fake_execute(&fake.graph[i]);
    fake.replays++;
    return CUDA_SUCCESS;
}

static CUresult fake_exec_destroy(CUgraphExec exec) {
    cr_assert(exec);
    fake.open--;
    return CUDA_SUCCESS;
}

static CUresult fake_graph_destroy(CUgraph graph) {
    cr_assert_eq(graph, (CUgraph)fake.graph);
    free(fake.graph);
    fake.graph = NULL;
    fake.open--;
    return CUDA_SUCCESS;
}

static CUresult fake_event(CUevent *out, unsigned flags) {
    (void)flags;
    fake.open++;
    *out = (CUevent)(uintptr_t)1;
    return CUDA_SUCCESS;
}

static CUresult fake_event_record(CUevent e, CUstream s) {
    (void)e, (void)s;
    return CUDA_SUCCESS;
}

static CUresult fake_event_done(CUevent e) {
    (void)e;
    return CUDA_SUCCESS;
}

static CUresult fake_event_destroy(CUevent e) {
    (void)e;
    fake.open--;
    return CUDA_SUCCESS;
}

static CUresult fake_elapsed(float *ms, CUevent a, CUevent b) {
    (void)a, (void)b;
    *ms = fake.milliseconds;
    return CUDA_SUCCESS;
}

static CUresult fake_retain(CUcontext *cx, CUdevice device) {
    (void)device;
    fake.retained++;
    *cx = (CUcontext)(uintptr_t)1;
    return CUDA_SUCCESS;
}

static CUresult fake_release(CUdevice device) {
    (void)device;
    return CUDA_SUCCESS;
}

static sn_cuda *fake_device(sn_env *env) {
    memset(&fake, 0, sizeof fake);
    sn_env_init(env);
    sn_cuda *cu = sn_heap_alloc(env, sizeof *cu);
    *cu = (sn_cuda){.env = env,
                    .context = (CUcontext)(uintptr_t)1,
                    .name = "Fake",
                    .target = {.is_gpu = true, .sm = 90, .name = "sm_90"}};
    cu->api = (sn_cuda_api){
        .cuCtxPushCurrent = fake_push,
        .cuCtxPopCurrent = fake_pop,
        .cuMemAlloc = fake_alloc,
        .cuMemFree = fake_free,
        .cuMemGetInfo = fake_info,
        .cuMemcpyHtoDAsync = fake_to_device,
        .cuMemcpyDtoHAsync = fake_to_host,
        .cuMemcpyDtoDAsync = fake_copy,
        .cuMemsetD8Async = fake_fill,
        .cuCtxResetPersistingL2Cache = fake_reset,
        .cuStreamSynchronize = fake_sync,
        .cuGetErrorName = fake_error_name,
        .cuGetErrorString = fake_error_text,
        .cuModuleLoadDataEx = fake_module,
        .cuModuleUnload = fake_unload,
        .cuModuleGetFunction = fake_function,
        .cuLaunchKernel = fake_launch,
        .cuLaunchKernelEx = fake_launch_ex,
        .cuOccupancyMaxActiveBlocksPerMultiprocessor = fake_resident,
        .cuLaunchCooperativeKernel = fake_launch_together,
        .cuTensorMapEncodeTiled = fake_encode,
        .cuTensorMapEncodeIm2col = fake_encode_pixels,
        .cuEventCreate = fake_event,
        .cuEventRecord = fake_event_record,
        .cuEventSynchronize = fake_event_done,
        .cuEventElapsedTime = fake_elapsed,
        .cuEventDestroy = fake_event_destroy,
        .cuStreamCreate = fake_stream,
        .cuStreamDestroy = fake_stream_destroy,
        .cuStreamBeginCapture = fake_capture,
        .cuStreamEndCapture = fake_capture_end,
        .cuGraphInstantiate = fake_instantiate,
        .cuGraphLaunch = fake_replay,
        .cuGraphExecDestroy = fake_exec_destroy,
        .cuGraphDestroy = fake_graph_destroy,
        .cuDevicePrimaryCtxRetain = fake_retain,
        .cuDevicePrimaryCtxRelease = fake_release,
    };
    return cu;
}

#endif
