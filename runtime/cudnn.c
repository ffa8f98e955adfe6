/* cudnn.c: convolutions by cuDNN: the library behind dlopen, calls made ready when a program is loaded, runs.
 *
 * cuDNN is a package of its own and may be missing. A handle of it takes longer than a small program, so there is none before
 * a kernel asks for it; its version is known without. Its heuristic lists algorithms for a call, the fastest by its own estimate first; `algo` says which
 * of those that cudnn_convs.def lets through and whose workspace is not larger than that of products. The functions are
 * those of cudnn_cnn.h, which cuDNN 8 and 9 have alike. A handle has a stream and serves one thread at a time: whoever
 * runs a call has one. Relies on sn_library_read for what a call says.
 */
#include "runtime/cudnn.h"
#include "runtime/dynamic.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const libraries[] = {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"};

/* Of cudnn_graph.h, cudnn_ops.h and cudnn_cnn.h. */
enum { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1 };
enum { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 };
enum {
    CUDNN_DEFAULT_MATH = 0,
    CUDNN_TENSOR_OP_MATH = 1,
    CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
    CUDNN_FMA_MATH = 3
};
enum { CUDNN_DETERMINISTIC = 1 };

enum { MOST_FOUND = 32, ALIGN = 16 /* bytes: its kernels look at sizes and strides alone */ };
static const size_t MOST_WORKSPACE = 32 << 20; /* bytes: that of products (cublas.c) */

static const sn_dynamic_row rows[] = {
#define SN_DNN(name, result, parameters) {"cudnn" #name, offsetof(sn_cudnn, name)},
#include "runtime/cudnn_api.def"
#undef SN_DNN
};

/* ---- convolutions ---- */

typedef struct convolution {
    sn_dtype dtype, sum;
    sn_precision precision;
    int math;
} convolution;

static const convolution convolutions[] = {
#define SN_DNN_CONV(T, SUM, PRECISION, math) {SN_##T, SN_##SUM, SN_PRECISION_##PRECISION, math},
#include "runtime/cudnn_convs.def"
#undef SN_DNN_CONV
};

static const struct {
    sn_cudnn_direction direction;
    int algo;
} algos[] = {
#define SN_DNN_ALGO(DIRECTION, number) {SN_CUDNN_##DIRECTION, number},
#include "runtime/cudnn_convs.def"
#undef SN_DNN_ALGO
};

static const convolution *find_convolution(const sn_library_call *call) {
    const convolution *found = NULL;
    for (size_t i = 0; i < SN_COUNT(convolutions); i++) {
        const convolution *c = &convolutions[i];
        bool same = call->a.dtype == c->dtype && call->b.dtype == c->dtype && call->c.dtype == c->dtype;
        if (same && call->sum == c->sum && c->precision <= call->precision) found = c;
    }
    return found;
}

static int data_type(sn_dtype dtype) {
    switch ((int)dtype) {
    case SN_F64: return CUDNN_DATA_DOUBLE;
    case SN_F16: return CUDNN_DATA_HALF;
    case SN_BF16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
    }
}

static bool has(sn_cudnn_shape *shape, const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    if (!find_convolution(call)) {
        snprintf(why, SN_LIBRARY_WHY, "cuDNN has no convolution of %s and %s with sums in %s and a result in %s",
                 sn_dtypes[call->a.dtype].name, sn_dtypes[call->b.dtype].name, sn_dtypes[call->sum].name,
                 sn_dtypes[call->c.dtype].name);
        return false;
    }
    if (!sn_cudnn_shape_of(shape, &call->conv, why)) return false;
    if (call->a.align % ALIGN == 0 && call->b.align % ALIGN == 0 && call->c.align % ALIGN == 0) return true;
    snprintf(why, SN_LIBRARY_WHY, "cuDNN wants tensors that begin at multiples of %d bytes", ALIGN);
    return false;
}

bool sn_cudnn_has(const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    sn_cudnn_shape unused;
    return has(&unused, call, why);
}

/* ---- opening ---- */

static bool open_library(sn_cudnn *lib, char why[SN_LIBRARY_WHY]) {
    sn_dynamic d = {"cuDNN", libraries, SN_COUNT(libraries), rows, SN_COUNT(rows)};
    return (lib->library = sn_dynamic_open(&d, lib, why)) != NULL;
}

bool sn_cudnn_new_handle(void **out, const sn_cudnn *lib, char why[SN_LIBRARY_WHY]) {
    int status = lib->Create(out);
    if (!status) return true;
    *out = NULL;
    snprintf(why, SN_LIBRARY_WHY, "no cuDNN: cudnnCreate: %s", lib->GetErrorString(status));
    return false;
}

void sn_cudnn_drop_handle(const sn_cudnn *lib, void *handle) {
    if (handle) lib->Destroy(handle);
}

/* 91002 is 9.10.2; 8907 is 8.9.7. */
static void put_name(sn_cudnn *lib) {
    enum { NEW = 90000 };
    size_t version = lib->GetVersion(), major = version >= NEW ? 10000 : 1000;
    snprintf(lib->name, sizeof lib->name, "cuDNN %zu.%zu.%zu", version / major, version % major / 100, version % 100);
}

sn_cudnn *sn_cudnn_open(sn_cuda *cu, char why[SN_LIBRARY_WHY]) {
    if (cu->cudnn) return cu->cudnn;
    sn_cudnn *lib = sn_heap_alloc(cu->env, sizeof *lib);
    sn_heap_keep(lib); /* it outlives a call that fails, as the device does */
    *lib = (sn_cudnn){.env = cu->env};
    if (!open_library(lib, why)) {
        sn_cudnn_close(lib);
        return NULL;
    }
    put_name(lib);
    return cu->cudnn = lib;
}

bool sn_cudnn_start(sn_cudnn *lib, char why[SN_LIBRARY_WHY]) {
    return lib->handle || sn_cudnn_new_handle(&lib->handle, lib, why);
}

void sn_cudnn_close(sn_cudnn *lib) {
    if (!lib) return;
    sn_cudnn_drop_handle(lib, lib->handle);
    if (lib->library) dlclose(lib->library);
    sn_heap_free(lib->env, lib, sizeof *lib);
}

/* ---- making a call ready ---- */

static int make_objects(sn_cudnn_call *out, const sn_cudnn *lib) {
    const sn_cudnn_shape *sh = &out->shape;
    const convolution *c = find_convolution(&out->is);
    int type = data_type(c->dtype), mode = sh->reversed ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
    int status = lib->CreateTensorDescriptor(&out->x);
    if (!status) status = lib->CreateTensorDescriptor(&out->y);
    if (!status) status = lib->CreateFilterDescriptor(&out->w);
    if (!status) status = lib->CreateConvolutionDescriptor(&out->conv);
    if (!status) status = lib->SetTensorNdDescriptor(out->x, type, sh->rank, sh->x, sh->x_stride);
    if (!status) status = lib->SetTensorNdDescriptor(out->y, type, sh->rank, sh->y, sh->y_stride);
    if (!status)
        status = lib->SetFilterNdDescriptor(out->w, type, sh->channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                            sh->rank, sh->w);
    if (!status)
        status = lib->SetConvolutionNdDescriptor(out->conv, sh->rank - 2, sh->padding, sh->stride, sh->dilation, mode,
                                                 data_type(c->sum));
    if (!status) status = lib->SetConvolutionGroupCount(out->conv, sh->groups);
    return status ? status : lib->SetConvolutionMathType(out->conv, c->math);
}

static int list_algos(sn_cudnn_found *found, int *n, const sn_cudnn_call *call, const sn_cudnn *lib) {
    void *x = call->x, *w = call->w, *y = call->y, *conv = call->conv;
    switch (call->shape.direction) {
    case SN_CUDNN_FORWARD:
        return lib->GetConvolutionForwardAlgorithm_v7(lib->handle, x, w, conv, y, MOST_FOUND, n, found);
    case SN_CUDNN_BACKWARD_DATA:
        return lib->GetConvolutionBackwardDataAlgorithm_v7(lib->handle, w, y, conv, x, MOST_FOUND, n, found);
    case SN_CUDNN_BACKWARD_FILTER:
        return lib->GetConvolutionBackwardFilterAlgorithm_v7(lib->handle, x, y, conv, w, MOST_FOUND, n, found);
    case SN_N_CUDNN_DIRECTIONS: break;
    }
    return 0;
}

static int workspace_of(size_t *out, const sn_cudnn_call *call, const sn_cudnn *lib, int algo) {
    void *x = call->x, *w = call->w, *y = call->y, *conv = call->conv;
    switch (call->shape.direction) {
    case SN_CUDNN_FORWARD: return lib->GetConvolutionForwardWorkspaceSize(lib->handle, x, w, conv, y, algo, out);
    case SN_CUDNN_BACKWARD_DATA:
        return lib->GetConvolutionBackwardDataWorkspaceSize(lib->handle, w, y, conv, x, algo, out);
    case SN_CUDNN_BACKWARD_FILTER:
        return lib->GetConvolutionBackwardFilterWorkspaceSize(lib->handle, x, y, conv, w, algo, out);
    case SN_N_CUDNN_DIRECTIONS: break;
    }
    return 0;
}

/* The math with which the library may do what it has found; -1: with none that the call allows. FMA stays what it is,
 * whatever the library calls it. */
static int math_of(const sn_cudnn_call *call, const sn_cudnn_found *found) {
    int asked = find_convolution(&call->is)->math;
    if (asked == CUDNN_FMA_MATH) return asked;
    return found->math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ? -1 : found->math;
}

static bool is_let_through(const sn_cudnn_call *call, const sn_cudnn_found *found) {
    if (found->status || found->deterministic != CUDNN_DETERMINISTIC) return false;
    for (size_t i = 0; i < SN_COUNT(algos); i++)
        if (algos[i].direction == call->shape.direction && algos[i].algo == found->algo)
            return math_of(call, found) >= 0;
    return false;
}

/* The same once more, but for the name of its math? */
static bool is_again(const sn_cudnn_call *call, const sn_cudnn_found *found, int i) {
    for (int k = 0; k < i; k++)
        if (is_let_through(call, &found[k]) && found[k].algo == found[i].algo &&
            math_of(call, &found[k]) == math_of(call, &found[i]))
            return true;
    return false;
}

/* Leaves the descriptor with the math of what it found. */
static bool is_usable(sn_cudnn_call *call, const sn_cudnn *lib, const sn_cudnn_found *found, int i) {
    if (!is_let_through(call, &found[i]) || is_again(call, found, i)) return false;
    if (lib->SetConvolutionMathType(call->conv, math_of(call, &found[i]))) return false;
    size_t size = 0;
    if (workspace_of(&size, call, lib, found[i].algo) || size > MOST_WORKSPACE) return false;
    call->algo = found[i].algo;
    call->workspace = size;
    return true;
}

/* The algorithm that the call asks for. */
static int choose(sn_cudnn_call *out, const sn_cudnn *lib, char why[SN_LIBRARY_WHY]) {
    sn_cudnn_found found[MOST_FOUND];
    int n = 0, status = list_algos(found, &n, out, lib);
    uint32_t usable = 0;
    for (int i = 0; i < n && !status; i++)
        if (is_usable(out, lib, found, i) && usable++ == out->is.algo) return 0;
    if (usable)
        snprintf(why, SN_LIBRARY_WHY, "%s has %u algorithms for it, numbered from 0: there is no algo=%u", lib->name,
                 usable, out->is.algo);
    else snprintf(why, SN_LIBRARY_WHY, "%s has no algorithm for it", lib->name);
    return status;
}

bool sn_cudnn_prepare(sn_cudnn_call *out, const sn_cudnn *lib, const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    *out = (sn_cudnn_call){.is = *call};
    if (!has(&out->shape, call, why)) return false;
    why[0] = 0;
    int status = make_objects(out, lib);
    if (!status) status = choose(out, lib, why);
    if (status) snprintf(why, SN_LIBRARY_WHY, "%s: %s", lib->name, lib->GetErrorString(status));
    return !why[0];
}

void sn_cudnn_drop(sn_cudnn_call *call, const sn_cudnn *lib) {
    if (call->x) lib->DestroyTensorDescriptor(call->x);
    if (call->y) lib->DestroyTensorDescriptor(call->y);
    if (call->w) lib->DestroyFilterDescriptor(call->w);
    if (call->conv) lib->DestroyConvolutionDescriptor(call->conv);
    *call = (sn_cudnn_call){0};
}

/* ---- running ---- */

static char *address_of(const sn_library_matrix *mx, void *const *params) {
    return (char *)params[mx->param] + mx->offset * (int64_t)sn_dtype_bytes(mx->dtype);
}

static int queue(const sn_cudnn *lib, void *handle, const sn_cudnn_call *call, void *const *params, void *workspace) {
    static const float ones[] = {0, 1};
    static const double wide_ones[] = {0, 1};
    const sn_cudnn_call *c = call;
    const bool wide = c->is.sum == SN_F64;
    const void *one = wide ? (const void *)&wide_ones[1] : &ones[1], *zero = wide ? (const void *)wide_ones : ones;
    const char *image = address_of(&c->is.a, params);
    const char *weights = address_of(&c->is.b, params);
    char *result = address_of(&c->is.c, params);
    size_t size = c->workspace;
    switch (c->shape.direction) {
    case SN_CUDNN_FORWARD:
        return lib->ConvolutionForward(handle, one, c->x, image, c->w, weights, c->conv, c->algo, workspace, size, zero,
                                       c->y, result);
    case SN_CUDNN_BACKWARD_DATA:
        return lib->ConvolutionBackwardData(handle, one, c->w, weights, c->y, image, c->conv, c->algo, workspace, size,
                                            zero, c->x, result);
    case SN_CUDNN_BACKWARD_FILTER:
        return lib->ConvolutionBackwardFilter(handle, one, c->x, image, c->y, weights, c->conv, c->algo, workspace,
                                              size, zero, c->w, result);
    case SN_N_CUDNN_DIRECTIONS: break;
    }
    return 0;
}

sn_status sn_cudnn_run(const sn_cudnn *lib, sn_cuda *cu, void *handle, const sn_cudnn_call *call, void *const *params,
                       void *workspace, CUstream stream) {
    int status = lib->SetStream(handle, stream);
    if (!status) status = queue(lib, handle, call, params, workspace);
    if (!status) return SN_OK;
    return sn_fail(cu->env, SN_ERROR_DEVICE, "%s: %s", lib->name, lib->GetErrorString(status));
}
