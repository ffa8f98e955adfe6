/* fake_cuda.h: a CUDA driver of our own, for tests of the runtime without a GPU: device memory is host memory,
 * kernels are C functions that the names of the real ones choose. What happened is counted in `fake`; any call can be
 * told to fail (fake.fail_at). Threads may use it at the same time, each with a share of the device, except for captures.
 */
#ifndef SN_TESTS_UNIT_FAKE_CUDA_H
#define SN_TESTS_UNIT_FAKE_CUDA_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/prog.h"

enum { FAKE_MEMORY = 1 << 20, FAKE_BLOCKS = 4096, ILLEGAL_ADDRESS = 700 };

/* A launch or copy that was captured, or is a node of a graph. */
typedef struct fake_node {
    const char *kernel; /* NULL: a copy of n bytes */
    void *to;
    const void *from;
    size_t n;
    uint64_t *kept;                  /* that the kernel keeps; NULL: none */
    struct fake_graph *child;        /* instead of all that */
    void (*call)(const void *given); /* the same: of a library, with what it was given */
    unsigned char given[160];
    int at, after, first; /* its number; it depends on the nodes from first to after, -1: on none */
} fake_node;

enum { FAKE_NODES = 8192 };

typedef struct fake_graph {
    fake_node **nodes; /* a CUgraphNode is the address of one of the graph that it was added to */
    int n;
} fake_graph;

/* What cuTensorMapEncodeTiled was told, or cuTensorMapEncodeIm2col. */
typedef struct {
    void *address;
    uint32_t dims[5], strides[4];
    uint16_t box[5], rank;
    int8_t type, swizzle, low[3], high[3], steps[5];
    bool pixels;
} fake_map;

typedef struct fake_state {
    _Atomic int depth, modules; /* pushed contexts, on all threads; modules that are loaded */
    _Atomic size_t used;
    size_t taken; /* memory of the device that is somebody else's */
    _Atomic int allocs, frees, launches, together, syncs, resets, encodes;
    size_t sizes[FAKE_BLOCKS];
    void *blocks[FAKE_BLOCKS];
    int n_blocks;
    CUresult next_launch, next_encode;
    bool fail_in_capture; /* next_launch is for captured launches alone */
    bool refuse, refuse_cubins;
    const char *refused; /* texts that contain it are; NULL: none */
    _Atomic int retained;
    float milliseconds;
    CUstream capturing; /* NULL: no stream is */
    fake_graph *captured;
    _Atomic int replays, open;         /* open: streams, graphs and events that exist */
    _Atomic int overlapping;           /* launches that need not wait for the grid before them to end */
    _Atomic int built, updates, early; /* graphs that were instantiated; nodes set anew; programmatic edges */
    _Atomic int calls, fail_at;        /* of the driver; the number of the one that fails, 0: none does */
    _Atomic int relaxed;               /* threads that have left the captures of others, times 2 */
    CUresult fail_with;
    const char *failed; /* its name */
} fake_state;
static fake_state fake;

static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

/* Pushed contexts of this thread. */
static _Thread_local int fake_depth_here;

/* Every call counts, but for those that ask what an error means. */
static CUresult fake_count(const char *name) {
    if (++fake.calls != fake.fail_at) return CUDA_SUCCESS;
    fake.failed = name;
    return fake.fail_with;
}
#define FAKE_CALL(name)                                                                                                \
    do {                                                                                                               \
        CUresult fails = fake_count(name);                                                                             \
        if (fails) return fails;                                                                                       \
    } while (0)
/* What gives something back does so also when it reports an earlier error. */
#define FAKE_END(name) return fake_count(name)

static CUresult fake_push(CUcontext cx) {
    (void)cx;
    FAKE_CALL("cuCtxPushCurrent");
    fake.depth++;
    fake_depth_here++;
    return CUDA_SUCCESS;
}

static CUresult fake_pop(CUcontext *cx) {
    *cx = NULL;
    fake.depth--;
    fake_depth_here--;
    FAKE_END("cuCtxPopCurrent");
}

static CUresult fake_current(CUcontext *cx) {
    FAKE_CALL("cuCtxGetCurrent");
    *cx = fake_depth_here > 0 ? (CUcontext)(uintptr_t)1 : NULL;
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

static CUresult fake_alloc(CUdeviceptr *p, size_t size) {
    cr_assert_null(fake.capturing, "cuMemAlloc in a capture");
    cr_assert_gt(fake.depth, 0, "cuMemAlloc without a current context");
    FAKE_CALL("cuMemAlloc");
    pthread_mutex_lock(&fake_lock);
    bool fits = fake.used + size <= FAKE_MEMORY - fake.taken && fake.n_blocks < FAKE_BLOCKS;
    if (fits) {
        fake.used += size;
        fake.allocs++;
        fake.sizes[fake.n_blocks] = size;
        fake.blocks[fake.n_blocks] = aligned_alloc(256, (size + 255) / 256 * 256);
        *p = sn_device_address(fake.blocks[fake.n_blocks++]);
    }
    pthread_mutex_unlock(&fake_lock);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult fake_free(CUdeviceptr p) {
    int i = 0;
    pthread_mutex_lock(&fake_lock);
    while (i < fake.n_blocks && sn_device_address(fake.blocks[i]) != p) i++;
    if (i < fake.n_blocks) {
        fake.used -= fake.sizes[i];
        fake.frees++;
        free(fake.blocks[i]);
        fake.blocks[i] = NULL;
    }
    pthread_mutex_unlock(&fake_lock);
    cr_assert_lt(i, fake.n_blocks, "cuMemFree of an address that is no block");
    FAKE_END("cuMemFree");
}

static CUresult fake_info(size_t *unused, size_t *total) {
    FAKE_CALL("cuMemGetInfo");
    *unused = FAKE_MEMORY - fake.used;
    *total = FAKE_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult fake_to_device(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
    (void)stream;
    FAKE_CALL("cuMemcpyHtoDAsync");
    memcpy((void *)(uintptr_t)to, from, size);
    return CUDA_SUCCESS;
}

static CUresult fake_to_host(void *to, CUdeviceptr from, size_t size, CUstream stream) {
    (void)stream;
    FAKE_CALL("cuMemcpyDtoHAsync");
    memcpy(to, (void *)(uintptr_t)from, size);
    return CUDA_SUCCESS;
}

static CUresult fake_fill(CUdeviceptr to, unsigned char byte, size_t size, CUstream stream) {
    (void)stream;
    FAKE_CALL("cuMemsetD8Async");
    memset((void *)(uintptr_t)to, byte, size);
    return CUDA_SUCCESS;
}

/* ---- work ---- */

static fake_node *fake_add(fake_graph *g, fake_node node, int after) {
    cr_assert_lt(g->n, FAKE_NODES, "a graph of more than %d nodes", FAKE_NODES);
    if (!g->nodes) g->nodes = calloc(FAKE_NODES, sizeof *g->nodes);
    fake_node *own = g->nodes[g->n] = malloc(sizeof *own);
    *own = node;
    own->at = g->n++;
    own->first = own->after = after;
    return own;
}

static fake_graph *fake_copy_graph(const fake_graph *g);

static void fake_free_graph(fake_graph *g) {
    for (int i = 0; i < g->n; i++) {
        if (g->nodes[i]->child) fake_free_graph(g->nodes[i]->child);
        free(g->nodes[i]);
    }
    free(g->nodes);
    free(g);
}

static fake_graph *fake_copy_graph(const fake_graph *g) {
    fake_graph *copy = calloc(1, sizeof *copy);
    for (int i = 0; i < g->n; i++) {
        fake_node *node = fake_add(copy, *g->nodes[i], g->nodes[i]->after);
        node->first = g->nodes[i]->first;
        if (node->child) node->child = fake_copy_graph(node->child);
    }
    return copy;
}

/* A kernel adds the number at the end of its name to each float, of which there is one a block; one that begins with "keep"
 * writes how often it has run. */
static void fake_execute(const fake_node *node) {
    if (node->call) {
        node->call(node->given);
        return;
    }
    if (node->child) {
        for (int i = 0; i < node->child->n; i++) fake_execute(node->child->nodes[i]);
        return;
    }
    if (!node->kernel) {
        memmove(node->to, node->from, node->n);
        return;
    }
    if (node->kept) {
        *(float *)node->to = (float)++*node->kept;
        return;
    }
    float add = (float)(node->kernel[strlen(node->kernel) - 1] - '0');
    for (size_t i = 0; i < node->n; i++) ((float *)node->to)[i] = ((const float *)node->from)[i] + add;
}

/* Work is done at once, or kept while the stream is captured. */
static CUresult fake_queue(CUstream stream, fake_node node) {
    if (fake.capturing && stream == fake.capturing) fake_add(fake.captured, node, fake.captured->n - 1);
    else fake_execute(&node);
    return CUDA_SUCCESS;
}

static CUresult fake_copy(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    FAKE_CALL("cuMemcpyDtoDAsync");
    return fake_queue(stream,
                      (fake_node){.to = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from, .n = size});
}

static CUresult fake_reset(void) {
    FAKE_CALL("cuCtxResetPersistingL2Cache");
    fake.resets++;
    return 0;
}

static CUresult fake_sync(CUstream stream) {
    (void)stream;
    cr_assert_null(fake.capturing, "cuStreamSynchronize in a capture");
    FAKE_CALL("cuStreamSynchronize");
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
    bool refuse = fake.refuse || (n ? fake.refused && strstr(image, fake.refused) : fake.refuse_cubins);
    if (refuse && n) strcpy(values[0], "ptxas error : no luck\n\nline 3: really none\n");
    (void)options;
    FAKE_CALL("cuModuleLoadDataEx");
    if (refuse) return 218;
    if (fake_depth_here <= 0) return 201;
    fake.modules++;
    *out = (CUmodule)(uintptr_t)image;
    return CUDA_SUCCESS;
}

static CUresult fake_unload(CUmodule module) {
    (void)module;
    fake.modules--;
    FAKE_END("cuModuleUnload");
}

static CUresult fake_function(CUfunction *out, CUmodule module, const char *name) {
    (void)module;
    FAKE_CALL("cuModuleGetFunction");
    *out = (CUfunction)(uintptr_t)name;
    return CUDA_SUCCESS;
}

/* Others do nothing: those that the compiler makes. */
static bool fake_knows(const char *name) {
    static const char *const known[] = {"add", "block", "keep", "map"};
    for (size_t i = 0; i < SN_COUNT(known); i++)
        if (strncmp(name, known[i], strlen(known[i])) == 0) return true;
    return false;
}

/* Parameter 0 is what it reads, 1 what it writes. */
static fake_node fake_describe(CUfunction f, unsigned grid, void **params) {
    const char *name = (const char *)f;
    if (!fake_knows(name)) return (fake_node){.kernel = name};
    void **block = params[0]; /* a name that begins with "block": the addresses are one parameter */
    fake_node node = {.kernel = name, .from = block[0], .n = grid};
    node.to = strncmp(name, "block", 5) == 0 ? block[1] : *(void **)params[1];
    if (strncmp(name, "keep", 4) == 0) node.kept = *(uint64_t **)params[2]; /* behind the others */
    if (strncmp(name, "map", 3) == 0) { /* ... "map": it reads by a tensor map, the parameter behind the addresses */
        cr_assert_eq((uintptr_t)params[2] % 64, 0);
        node.from = ((const fake_map *)params[2])->address;
    }
    return node;
}

static CUresult fake_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, CUstream stream, void **params, void **extra) {
    (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    cr_assert_gt(fake.depth, 0);
    FAKE_CALL("cuLaunchKernel");
    if (fake.next_launch && (!fake.fail_in_capture || fake.capturing)) return fake.next_launch;
    fake.launches++;
    return fake_queue(stream, fake_describe(f, gx, params));
}

static CUresult fake_put_map(CUtensorMap *map, fake_map *m, const uint64_t *dims, const uint64_t *strides) {
    FAKE_CALL(m->pixels ? "cuTensorMapEncodeIm2col" : "cuTensorMapEncodeTiled");
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
    fake.overlapping++;
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

/* ---- streams, captures and graphs ---- */

static CUresult fake_stream(CUstream *out, unsigned flags) {
    cr_assert_eq(flags, CU_STREAM_NON_BLOCKING);
    FAKE_CALL("cuStreamCreate");
    *out = malloc(1);
    fake.open++;
    return CUDA_SUCCESS;
}

static CUresult fake_stream_destroy(CUstream stream) {
    cr_assert_not_null(stream);
    free(stream);
    fake.open--;
    FAKE_END("cuStreamDestroy");
}

static CUresult fake_capture(CUstream stream, int mode) {
    cr_assert(stream && mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && !fake.capturing);
    FAKE_CALL("cuStreamBeginCapture");
    fake.captured = calloc(1, sizeof *fake.captured);
    fake.capturing = stream;
    return CUDA_SUCCESS;
}

static CUresult fake_capture_end(CUstream stream, CUgraph *out) {
    cr_assert(stream && fake.capturing == stream);
    fake.capturing = NULL;
    CUresult fails = fake_count("cuStreamEndCapture");
    *out = fails ? NULL : (CUgraph)fake.captured;
    if (fails) fake_free_graph(fake.captured);
    else fake.open++;
    return fails;
}

static CUresult fake_exchange(int *mode) {
    static _Thread_local int now;
    CUresult fails = fake_count("cuThreadExchangeStreamCaptureMode");
    if (fails && *mode == CU_STREAM_CAPTURE_MODE_RELAXED) return fails;
    int before = now;
    now = *mode;
    *mode = before;
    fake.relaxed += now - before;
    return fails;
}

static CUresult fake_is_capturing(CUstream stream, int *status) {
    FAKE_CALL("cuStreamIsCapturing");
    *status = stream && stream == fake.capturing;
    return CUDA_SUCCESS;
}

static CUresult fake_graph_create(CUgraph *out, unsigned flags) {
    cr_assert(!flags);
    FAKE_CALL("cuGraphCreate");
    *out = calloc(1, sizeof(fake_graph));
    fake.open++;
    return CUDA_SUCCESS;
}

/* The nodes that one depends on lie behind each other. */
static CUgraphNode fake_depend(fake_node *node, const CUgraphNode *before, size_t n) {
    node->first = node->after = -1;
    for (size_t i = 0; i < n; i++) {
        int at = ((const fake_node *)before[i])->at;
        if (!i) node->first = at;
        cr_assert_eq(at, node->first + (int)i);
        node->after = at;
    }
    return (CUgraphNode)node;
}

static CUresult fake_add_kernel(CUgraphNode *out, CUgraph g, const CUgraphNode *before, size_t n,
                                const CUkernelNode *k) {
    FAKE_CALL("cuGraphAddKernelNode");
    *out = fake_depend(fake_add((fake_graph *)g, fake_describe(k->function, k->grid_x, k->params), -1), before, n);
    return CUDA_SUCCESS;
}

static fake_node fake_describe_copy(const CUmemcpy3D *c) {
    cr_assert(c->from.type == CU_MEMORYTYPE_DEVICE && c->to.type == CU_MEMORYTYPE_DEVICE && c->height == 1 &&
              c->depth == 1);
    return (fake_node){.to = (void *)(uintptr_t)c->to.device, .from = (void *)(uintptr_t)c->from.device, .n = c->bytes};
}

static CUresult fake_add_copy(CUgraphNode *out, CUgraph g, const CUgraphNode *before, size_t n, const CUmemcpy3D *c,
                              CUcontext context) {
    cr_assert_not_null(context);
    FAKE_CALL("cuGraphAddMemcpyNode");
    *out = fake_depend(fake_add((fake_graph *)g, fake_describe_copy(c), -1), before, n);
    return CUDA_SUCCESS;
}

static CUresult fake_add_child(CUgraphNode *out, CUgraph g, const CUgraphNode *before, size_t n, CUgraph child) {
    FAKE_CALL("cuGraphAddChildGraphNode");
    fake_node node = {.child = fake_copy_graph((const fake_graph *)child)};
    *out = fake_depend(fake_add((fake_graph *)g, node, -1), before, n);
    return CUDA_SUCCESS;
}

static CUresult fake_add_edges(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdge *e,
                               size_t n) {
    fake_node *node = (fake_node *)*to;
    cr_assert(g && n == 1 && node->after == -1 && node->kernel && ((const fake_node *)*from)->kernel);
    cr_assert(e->from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC &&
              e->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
    FAKE_CALL("cuGraphAddDependencies");
    node->first = node->after = ((const fake_node *)*from)->at;
    fake.early++;
    return CUDA_SUCCESS;
}

/* Ours are straight lines, but for copies side by side; whoever comes behind these waits for all. */
static void fake_check_line(const fake_graph *g) {
    int row = 0; /* where the nodes that stand side by side begin */
    for (int i = 1; i < g->n; i++) {
        const fake_node *node = g->nodes[i], *last = g->nodes[i - 1];
        bool beside = !node->kernel && !last->kernel && node->after == last->after && node->first == last->first;
        if (beside) continue;
        cr_assert(node->first == row && node->after == i - 1, "node %d depends on %d to %d", i, node->first,
                  node->after);
        row = i;
    }
}

static CUresult fake_instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    const fake_graph *g = (const fake_graph *)graph;
    cr_assert(g && !flags);
    cr_assert(!g->n || g->nodes[0]->after == -1);
    fake_check_line(g);
    FAKE_CALL("cuGraphInstantiate");
    *out = (CUgraphExec)fake_copy_graph(g);
    fake.open++;
    fake.built++;
    return CUDA_SUCCESS;
}

static void fake_set(CUgraphExec exec, CUgraphNode node, fake_node to) {
    fake_node *own = ((fake_graph *)exec)->nodes[((const fake_node *)node)->at];
    cr_assert(own->kernel == to.kernel && own->n == to.n && !own->child == !to.child);
    if (own->child) fake_free_graph(own->child);
    to.at = own->at;
    to.after = own->after;
    to.first = own->first;
    *own = to;
    fake.updates++;
}

static CUresult fake_set_kernel(CUgraphExec exec, CUgraphNode node, const CUkernelNode *k) {
    FAKE_CALL("cuGraphExecKernelNodeSetParams");
    return fake_set(exec, node, fake_describe(k->function, k->grid_x, k->params)), CUDA_SUCCESS;
}

static CUresult fake_set_copy(CUgraphExec exec, CUgraphNode node, const CUmemcpy3D *c, CUcontext context) {
    cr_assert_not_null(context);
    FAKE_CALL("cuGraphExecMemcpyNodeSetParams");
    return fake_set(exec, node, fake_describe_copy(c)), CUDA_SUCCESS;
}

static CUresult fake_set_child(CUgraphExec exec, CUgraphNode node, CUgraph child) {
    FAKE_CALL("cuGraphExecChildGraphNodeSetParams");
    return fake_set(exec, node, (fake_node){.child = fake_copy_graph((const fake_graph *)child)}), CUDA_SUCCESS;
}

static CUresult fake_replay(CUgraphExec exec, CUstream stream) {
    const fake_graph *g = (const fake_graph *)exec;
    cr_assert(exec && fake.depth > 0 && (!fake.capturing || stream != fake.capturing));
    FAKE_CALL("cuGraphLaunch");
    for (int i = 0, end; i < g->n; i = end) { /* what stands side by side the last one first */
        for (end = i + 1; end < g->n && g->nodes[end]->after < i;) end++;
        for (int k = end; k-- > i;) fake_execute(g->nodes[k]);
    }
    fake.replays++;
    return CUDA_SUCCESS;
}

static CUresult fake_exec_destroy(CUgraphExec exec) {
    fake_free_graph((fake_graph *)exec);
    fake.open--;
    FAKE_END("cuGraphExecDestroy");
}

static CUresult fake_graph_destroy(CUgraph graph) {
    fake_free_graph((fake_graph *)graph);
    fake.open--;
    FAKE_END("cuGraphDestroy");
}

/* ---- events, the device ---- */

static CUresult fake_event(CUevent *out, unsigned flags) {
    (void)flags;
    FAKE_CALL("cuEventCreate");
    fake.open++;
    *out = (CUevent)(uintptr_t)1;
    return CUDA_SUCCESS;
}

static CUresult fake_event_record(CUevent e, CUstream s) {
    (void)e, (void)s;
    FAKE_CALL("cuEventRecord");
    return CUDA_SUCCESS;
}

static CUresult fake_event_done(CUevent e) {
    (void)e;
    FAKE_CALL("cuEventSynchronize");
    return CUDA_SUCCESS;
}

static CUresult fake_event_destroy(CUevent e) {
    (void)e;
    fake.open--;
    FAKE_END("cuEventDestroy");
}

static CUresult fake_elapsed(float *ms, CUevent a, CUevent b) {
    (void)a, (void)b;
    FAKE_CALL("cuEventElapsedTime");
    *ms = fake.milliseconds;
    return CUDA_SUCCESS;
}

static CUresult fake_retain(CUcontext *cx, CUdevice device) {
    (void)device;
    FAKE_CALL("cuDevicePrimaryCtxRetain");
    fake.retained++;
    *cx = (CUcontext)(uintptr_t)1;
    return CUDA_SUCCESS;
}

static CUresult fake_release(CUdevice device) {
    (void)device;
    fake.retained--;
    FAKE_END("cuDevicePrimaryCtxRelease");
}

#ifndef FAKE_LIBRARY
static sn_cuda *fake_device(sn_env *env) {
    memset(&fake, 0, sizeof fake);
    fake.retained = 1;
    fake.fail_with = ILLEGAL_ADDRESS;
    sn_env_init(env);
    sn_cuda *cu = sn_heap_alloc(env, sizeof *cu);
    *cu = (sn_cuda){.env = env,
                    .context = (CUcontext)(uintptr_t)1,
                    .name = "Fake",
                    .target = {.is_gpu = true, .sm = 90, .name = "sm_90"}};
    cu->api = (sn_cuda_api){
        .cuCtxPushCurrent = fake_push,
        .cuCtxPopCurrent = fake_pop,
        .cuCtxGetCurrent = fake_current,
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
        .cuStreamIsCapturing = fake_is_capturing,
        .cuThreadExchangeStreamCaptureMode = fake_exchange,
        .cuGraphCreate = fake_graph_create,
        .cuGraphAddKernelNode = fake_add_kernel,
        .cuGraphAddMemcpyNode = fake_add_copy,
        .cuGraphAddChildGraphNode = fake_add_child,
        .cuGraphAddDependencies = fake_add_edges,
        .cuGraphExecKernelNodeSetParams = fake_set_kernel,
        .cuGraphExecMemcpyNodeSetParams = fake_set_copy,
        .cuGraphExecChildGraphNodeSetParams = fake_set_child,
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

#endif
