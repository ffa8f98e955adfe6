/* log_cuda.c: a libcuda.so.1 for tests without a GPU: device memory is host memory, kernels do nothing, and every launch becomes a line
 * of $LOG_CUDA_FILE with its name, sizes and parameters.
 *
 *     k0 grid 36 block 256 x 1 shared 0: p0=7f3c.. p1=00.. map(p2=00.. rank 2 ..)
 *
 * An address is called by the order in which it turned up (p0, p1, ...), with a sum of the first bytes that lie there: two ways of running
 * one program write the same lines. A cubin is refused, so that the PTX behind it is tried, from which the parameters are known.
 * LOG_CUDA_SM, _UNITS, _L2: what the device says of itself (90, 132, 62914560). LOG_CUDA_FILL: what new memory is full of (0).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS = 4096,
    ADDRESSES = 4096,
    PARAMS = 256,
    MAP = 128,
    SHOWN = 64,
    INVALID = 1,
    OUT_OF_MEMORY = 2,
    NOT_FOUND = 500
};

typedef int result;
typedef unsigned long long address;

static struct {
    char *at;
    size_t size;
} blocks[BLOCKS];
static int n_blocks, n_addresses;
static const char *addresses[ADDRESSES];

typedef struct function {
    char name[128];
    int n, sizes[PARAMS]; /* bytes of each parameter */
    struct function *next;
} function;
static function *functions; /* all that were asked for: programs keep theirs until they end */

/* ---- the device ---- */

static int setting(const char *name, int usual) { return getenv(name) ? atoi(getenv(name)) : usual; }

result cuInit(unsigned flags) { return (int)flags; }
result cuDriverGetVersion(int *version) { return *version = 13000, 0; }
result cuGetErrorName(result error, const char **text) { return *text = error ? "CUDA_ERROR_FAKE" : "CUDA_SUCCESS", 0; }
result cuGetErrorString(result error, const char **text) { return *text = error ? "refused by the test" : "", 0; }
result cuDeviceGetCount(int *count) { return *count = 1, 0; }
result cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal ? 101 : 0; }
result cuDeviceGetName(char *name, int size, int device) {
    return (void)device, snprintf(name, (size_t)size, "fake"), 0;
}

result cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 1: *value = 1024; break;
    case 16: *value = setting("LOG_CUDA_UNITS", 132); break;
    case 38: *value = setting("LOG_CUDA_L2", 60 << 20); break;
    case 75: *value = setting("LOG_CUDA_SM", 90) / 10; break;
    case 76: *value = setting("LOG_CUDA_SM", 90) % 10; break;
    case 97: *value = 232448; break;
    default: return INVALID;
    }
    return 0;
}

static int context;
result cuDevicePrimaryCtxRetain(void **out, int device) { return (void)device, *out = &context, 0; }
result cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
result cuCtxPushCurrent_v2(void *cx) { return cx == &context ? 0 : INVALID; }
result cuCtxGetCurrent(void **cx) { return *cx = NULL, 0; }
result cuCtxPopCurrent_v2(void **cx) { return *cx = &context, 0; }
result cuCtxResetPersistingL2Cache(void) { return 0; }

/* ---- memory ---- */

result cuMemAlloc_v2(address *p, size_t size) {
    if (n_blocks == BLOCKS) return OUT_OF_MEMORY;
    char *at = aligned_alloc(256, (size + 255) / 256 * 256);
    memset(at, setting("LOG_CUDA_FILL", 0), size);
    blocks[n_blocks].at = at;
    blocks[n_blocks++].size = size;
    return *p = (uintptr_t)at, 0;
}

result cuMemFree_v2(address p) {
    for (int i = 0; i < n_blocks; i++)
        if ((uintptr_t)blocks[i].at == p) return free(blocks[i].at), blocks[i] = blocks[--n_blocks], 0;
    return INVALID;
}

result cuMemGetInfo_v2(size_t *unused, size_t *total) { return *unused = *total = (size_t)1 << 34, 0; }
static void *at(address p) { return (void *)(uintptr_t)p; }
result cuMemcpyHtoDAsync_v2(address to, const void *from, size_t n, void *s) {
    return (void)s, memcpy(at(to), from, n), 0;
}
result cuMemcpyDtoHAsync_v2(void *to, address from, size_t n, void *s) { return (void)s, memcpy(to, at(from), n), 0; }
result cuMemcpyHtoD_v2(address to, const void *from, size_t n) { return memcpy(at(to), from, n), 0; }
result cuMemcpyDtoH_v2(void *to, address from, size_t n) { return memcpy(to, at(from), n), 0; }
result cuMemsetD8Async(address to, unsigned char byte, size_t n, void *s) {
    return (void)s, memset(at(to), byte, n), 0;
}
result cuMemsetD8_v2(address to, unsigned char byte, size_t n) { return memset(at(to), byte, n), 0; }
result cuCtxSetCurrent(void *cx) { return cx == &context ? 0 : INVALID; }
result cuCtxSynchronize(void) { return 0; }
result cuStreamIsCapturing(void *stream, int *status) { return (void)stream, *status = 0, 0; }
result cuStreamSynchronize(void *stream) { return (void)stream, 0; }

/* ---- what is logged ---- */

static FILE *log_file(void) {
    const char *path = getenv("LOG_CUDA_FILE");
    return path ? fopen(path, "a") : NULL;
}

static void put_address(FILE *f, const char *p) {
    int k = 0;
    unsigned sum = 0;
    size_t left = 0;
    while (k < n_addresses && addresses[k] != p) k++;
    if (k == n_addresses && k < ADDRESSES) addresses[n_addresses++] = p;
    for (int i = 0; i < n_blocks; i++)
        if (p >= blocks[i].at && p < blocks[i].at + blocks[i].size) left = (size_t)(blocks[i].at + blocks[i].size - p);
    for (size_t i = 0; i < left && i < SHOWN; i++) sum = 31 * sum + (unsigned char)p[i];
    fprintf(f, " p%d=%08x", k, sum);
}

result cuMemcpyDtoDAsync_v2(address to, address from, size_t n, void *stream) {
    FILE *f = log_file();
    (void)stream;
    memmove(at(to), at(from), n);
    if (!f) return 0;
    fprintf(f, "copy %zu:", n);
    put_address(f, at(to));
    put_address(f, at(from));
    return fprintf(f, "\n"), fclose(f), 0;
}

/* ---- modules: a text with its parameters ---- */

result cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *options, void **values) {
    (void)n, (void)options, (void)values;
    if (memcmp(image,
               "\x7f"
               "ELF",
               4) == 0)
        return INVALID;
    return *out = (void *)(uintptr_t)image, 0;
}
result cuModuleUnload(void *module) { return (void)module, 0; }

/* .param .u64 .ptr k0_param_0,  .param .align 64 .b8 k0_param_3[128] */
static int parameter_size(const char *at, const char *end) {
    const char *open = memchr(at, '[', (size_t)(end - at));
    return open ? atoi(open + 1) : 8;
}

result cuModuleGetFunction(void **out, void *module, const char *name) {
    char entry[160];
    function *f = calloc(1, sizeof *f);
    f->next = functions, functions = f;
    snprintf(entry, sizeof entry, ".entry %s(", name);
    snprintf(f->name, sizeof f->name, "%s", name);
    const char *p = strstr(module, entry), *end = p ? strchr(p, ')') : NULL;
    if (!end) return NOT_FOUND;
    while ((p = strstr(p, ".param")) && p < end && f->n < PARAMS) {
        const char *line = p + strcspn(p, ",)");
        f->sizes[f->n++] = parameter_size(p, line);
        p = line;
    }
    return *out = f, 0;
}
result cuFuncSetAttribute(void *f, int attribute, int value) { return (void)f, (void)attribute, (void)value, 0; }

/* ---- tensor maps: what they were made from ---- */

typedef struct map {
    const char *address;
    unsigned sum, rank;
} map;

static unsigned add(unsigned sum, const void *data, size_t size) {
    for (size_t i = 0; i < size; i++) sum = 31 * sum + ((const unsigned char *)data)[i];
    return sum;
}

static result encode(void *out, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
                     const uint32_t *steps, int swizzle, unsigned sum) {
    map m = {.address = address, .rank = rank};
    if ((uintptr_t)out % 64 || (uintptr_t)address % 16) return INVALID;
    sum = add(add(sum, &type, sizeof type), &swizzle, sizeof swizzle);
    m.sum = add(add(add(sum, dims, rank * sizeof *dims), strides, (rank - 1) * sizeof *strides), steps,
                rank * sizeof *steps);
    memset(out, 0, MAP);
    return memcpy(out, &m, sizeof m), 0;
}

result cuTensorMapEncodeTiled(void *out, int type, uint32_t rank, void *address, const uint64_t *dims,
                              const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                              int swizzle, int promotion, int fill) {
    unsigned sum = add((unsigned)(interleave + promotion + fill), box, rank * sizeof *box);
    return encode(out, type, rank, address, dims, strides, steps, swizzle, sum);
}

result cuTensorMapEncodeIm2col(void *out, int type, uint32_t rank, void *address, const uint64_t *dims,
                               const uint64_t *strides, const int *low, const int *high, uint32_t channels,
                               uint32_t pixels, const uint32_t *steps, int interleave, int swizzle, int promotion,
                               int fill) {
    unsigned sum =
        add(channels * 977 + pixels + (unsigned)(interleave + promotion + fill), low, (rank - 2) * sizeof *low);
    return encode(out, type, rank, address, dims, strides, steps, swizzle, add(sum, high, (rank - 2) * sizeof *high));
}

/* ---- launches ---- */

static void put_parameter(FILE *f, const void *param, int size) {
    map m;
    if (size == MAP) {
        memcpy(&m, param, sizeof m);
        fprintf(f, " map(%08x rank %u", m.sum, m.rank);
        put_address(f, m.address);
        fprintf(f, ")");
        return;
    }
    for (int i = 0; i < size / 8; i++) put_address(f, ((char *const *)param)[i]);
}

result cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void *stream, void **params, void **extra) {
    const function *k = kernel;
    FILE *f = log_file();
    (void)gy, (void)gz, (void)bz, (void)stream, (void)extra;
    if (!f) return 0;
    fprintf(f, "%s grid %u block %u x %u shared %u:", k->name, gx, bx, by, shared);
    for (int i = 0; i < k->n; i++) put_parameter(f, params[i], k->sizes[i]);
    return fprintf(f, "\n"), fclose(f), 0;
}

result cuLaunchCooperativeKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, void *stream, void **params) {
    return cuLaunchKernel(kernel, gx, gy, gz, bx, by, bz, shared, stream, params, NULL);
}

result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *kernel, int threads, size_t shared) {
    return (void)kernel, (void)threads, (void)shared, *blocks = 2, 0;
}

typedef struct launch_config {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
    void *stream;
} launch_config;

result cuLaunchKernelEx(const launch_config *c, void *kernel, void **params, void **extra) {
    return cuLaunchKernel(kernel, c->grid_x, 1, 1, c->block_x, c->block_y, 1, c->shared, c->stream, params, extra);
}

/* ---- time: every launch takes as long ---- */

result cuEventCreate(void **event, unsigned flags) { return (void)flags, *event = &context, 0; }
result cuEventRecord(void *event, void *stream) { return (void)event, (void)stream, 0; }
result cuEventSynchronize(void *event) { return (void)event, 0; }
result cuEventElapsedTime(float *ms, void *start, void *stop) { return (void)start, (void)stop, *ms = 1, 0; }
result cuEventDestroy_v2(void *event) { return (void)event, 0; }

/* ---- what these programs do not use ---- */

#define REFUSED(name) \
    result name(void) { return INVALID; }
REFUSED(cuStreamCreate)
REFUSED(cuStreamDestroy_v2)
REFUSED(cuStreamBeginCapture_v2)
REFUSED(cuStreamEndCapture)
REFUSED(cuGraphInstantiateWithFlags)
REFUSED(cuGraphLaunch)
REFUSED(cuGraphExecDestroy)
REFUSED(cuGraphDestroy)
REFUSED(cuThreadExchangeStreamCaptureMode)
REFUSED(cuGraphCreate)
REFUSED(cuGraphAddMemcpyNode)
REFUSED(cuGraphAddChildGraphNode)
REFUSED(cuGraphExecMemcpyNodeSetParams)
REFUSED(cuGraphExecChildGraphNodeSetParams)
