/* cublas.c: matrix products by cuBLASLt: the library behind dlopen, calls made ready when a program is loaded, runs.
 *
 * cuBLASLt comes with the toolkit, not with the driver, and may be missing. Opening it takes some 80 ms, so nobody does
 * before a kernel asks for it. Its heuristic lists algorithms for a call, the fastest by its own estimate first; `algo`
 * says which. Partial sums of a long k are never rounded to a narrower result in between, and are added up in one order,
 * so that the same call gives the same bits. The handle may be used by several threads at once; the workspace, and the
 * operation of a call with a bias, belong to whoever runs it. Relies on sn_library_read for what a call says.
 */
#include "runtime/cublas.h"
#include "runtime/dynamic.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const libraries[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};

/* Of cublasLt.h, cublas_api.h and library_types.h. */
enum { CUBLAS_OP_T = 1 };
enum {
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_8I = 3, CUDA_R_32I = 10, CUDA_R_16BF = 14 };
enum { MATMUL_DESC_TRANSA = 3, MATMUL_DESC_TRANSB = 4, MATMUL_DESC_EPILOGUE = 7, MATMUL_DESC_BIAS_POINTER = 8 };
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4 };
enum { LAYOUT_BATCH_COUNT = 5, LAYOUT_STRIDED_BATCH_OFFSET = 6 };
enum {
    PREF_MAX_WORKSPACE_BYTES = 1,
    PREF_REDUCTION_SCHEME_MASK = 3,
    PREF_MIN_ALIGNMENT_A_BYTES = 5,
    PREF_MIN_ALIGNMENT_B_BYTES = 6,
    PREF_MIN_ALIGNMENT_C_BYTES = 7,
    PREF_MIN_ALIGNMENT_D_BYTES = 8
};
enum { REDUCTION_COMPUTE_TYPE = 2, REDUCTION_ANY = 7 };

enum { MOST_ALGOS = 64 };
static const uint64_t MOST_WORKSPACE = 32 << 20; /* bytes: what its split products like on Hopper */

static const sn_dynamic_row rows[] = {
#define SN_LT(name, result, parameters) {"cublasLt" #name, offsetof(sn_cublas, name)},
#include "runtime/cublas_api.def"
#undef SN_LT
};

/* ---- products ---- */

typedef struct product {
    sn_dtype in, sum, out;
    sn_precision precision;
    int compute;
    bool epilogue;
} product;

static const product products[] = {
#define SN_LT_PRODUCT(IN, SUM, OUT, PRECISION, compute, epilogue)                                                       \
    {SN_##IN, SN_##SUM, SN_##OUT, SN_PRECISION_##PRECISION, compute, epilogue},
#include "runtime/cublas_products.def"
#undef SN_LT_PRODUCT
};

static const product *find_product(const sn_library_call *call) {
    const product *found = NULL;
    for (size_t i = 0; i < SN_COUNT(products); i++) {
        const product *p = &products[i];
        bool same = call->a.dtype == p->in && call->b.dtype == p->in && call->sum == p->sum && call->c.dtype == p->out;
        if (same && p->precision <= call->precision) found = p;
    }
    return found;
}

bool sn_cublas_has(const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    const product *p = find_product(call);
    if (!p) {
        snprintf(why, SN_LIBRARY_WHY, "cuBLASLt has no product of %s and %s with sums in %s and a result in %s",
                 sn_dtypes[call->a.dtype].name, sn_dtypes[call->b.dtype].name, sn_dtypes[call->sum].name,
                 sn_dtypes[call->c.dtype].name);
    } else if ((call->has_bias || call->relu) && !p->epilogue) {
        snprintf(why, SN_LIBRARY_WHY, "cuBLASLt does no more than the product in %s", sn_dtypes[call->sum].name);
    } else if (call->has_bias && call->bias.dtype != p->out) {
        snprintf(why, SN_LIBRARY_WHY, "cuBLASLt wants a bias in %s, that of the result", sn_dtypes[p->out].name);
    } else {
        return true;
    }
    return false;
}

/* cudaDataType_t of the dtypes in products. */
static int data_type(sn_dtype dtype) {
    switch ((int)dtype) {
    case SN_F64: return CUDA_R_64F;
    case SN_F16: return CUDA_R_16F;
    case SN_BF16: return CUDA_R_16BF;
    case SN_I8: return CUDA_R_8I;
    case SN_I32: return CUDA_R_32I;
    default: return CUDA_R_32F;
    }
}

/* ---- opening ---- */

static bool open_library(sn_cublas *lib, char why[SN_LIBRARY_WHY]) {
    sn_dynamic d = {"cuBLASLt", libraries, SN_COUNT(libraries), rows, SN_COUNT(rows)};
    return (lib->library = sn_dynamic_open(&d, lib, why)) != NULL;
}

sn_cublas *sn_cublas_open(sn_cuda *cu, char why[SN_LIBRARY_WHY]) {
    if (cu->cublas) return cu->cublas;
    sn_cublas *lib = sn_heap_alloc(cu->env, sizeof *lib);
    sn_heap_keep(lib); /* it outlives a call that fails, as the device does */
    *lib = (sn_cublas){.env = cu->env};
    int status = 0;
    bool opened = open_library(lib, why);
    if (opened) status = lib->Create(&lib->handle);
    if (status) snprintf(why, SN_LIBRARY_WHY, "no cuBLASLt: cublasLtCreate: %s", lib->GetStatusString(status));
    if (!opened || status) {
        lib->handle = NULL;
        sn_cublas_close(lib);
        return NULL;
    }
    size_t version = lib->GetVersion();
    snprintf(lib->name, sizeof lib->name, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return cu->cublas = lib;
}

void sn_cublas_close(sn_cublas *lib) {
    if (!lib) return;
    if (lib->handle) lib->Destroy(lib->handle);
    if (lib->library) dlclose(lib->library);
    sn_heap_free(lib->env, lib, sizeof *lib);
}

/* ---- making a call ready ---- */

static int set_op(const sn_cublas *lib, void *op, const sn_library_call *call) {
    const int transposed = CUBLAS_OP_T;
    uint32_t epilogue = (call->has_bias ? EPILOGUE_BIAS : 0) | (call->relu ? EPILOGUE_RELU : 0);
    if (!epilogue) epilogue = EPILOGUE_DEFAULT;
    /* The heuristic looks at no element of the bias, but at how its address is aligned. */
    const void *address = (const void *)(uintptr_t)call->bias.align;
    int status = lib->MatmulDescSetAttribute(op, MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!status && call->a.transposed)
        status = lib->MatmulDescSetAttribute(op, MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    if (!status && call->b.transposed)
        status = lib->MatmulDescSetAttribute(op, MATMUL_DESC_TRANSB, &transposed, sizeof transposed);
    if (!status && call->has_bias)
        status = lib->MatmulDescSetAttribute(op, MATMUL_DESC_BIAS_POINTER, &address, sizeof address);
    return status;
}

static int make_op(void **out, const sn_cublas *lib, const sn_library_call *call) {
    int status = lib->MatmulDescCreate(out, find_product(call)->compute, data_type(call->sum));
    if (status) *out = NULL;
    return status ? status : set_op(lib, *out, call);
}

void *sn_cublas_new_op(const sn_cublas *lib, const sn_library_call *call) {
    void *op = NULL;
    if (make_op(&op, lib, call) == 0) return op;
    sn_cublas_drop_op(lib, op);
    return NULL;
}

void sn_cublas_drop_op(const sn_cublas *lib, void *op) {
    if (op) lib->MatmulDescDestroy(op);
}

/* rows and cols as the matrix stands in the product. */
static int make_layout(void **out, const sn_cublas *lib, const sn_library_matrix *mx, int64_t rows, int64_t cols,
                       int64_t batch) {
    int64_t in_rows = mx->transposed ? cols : rows, in_cols = mx->transposed ? rows : cols;
    int32_t count = (int32_t)batch;
    int status = lib->MatrixLayoutCreate(out, data_type(mx->dtype), (uint64_t)in_rows, (uint64_t)in_cols, mx->ld);
    if (status) *out = NULL;
    if (status || batch == 1) return status;
    status = lib->MatrixLayoutSetAttribute(*out, LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (status) return status;
    return lib->MatrixLayoutSetAttribute(*out, LAYOUT_STRIDED_BATCH_OFFSET, &mx->stride, sizeof mx->stride);
}

static int set_preference(const sn_cublas *lib, void *preference, const sn_library_call *call) {
    uint32_t scheme = call->c.dtype == call->sum ? REDUCTION_ANY : REDUCTION_COMPUTE_TYPE;
    const struct {
        int attribute;
        const uint32_t *value;
    } wanted[] = {
        {PREF_REDUCTION_SCHEME_MASK, &scheme},        {PREF_MIN_ALIGNMENT_A_BYTES, &call->a.align},
        {PREF_MIN_ALIGNMENT_B_BYTES, &call->b.align}, {PREF_MIN_ALIGNMENT_C_BYTES, &call->c.align},
        {PREF_MIN_ALIGNMENT_D_BYTES, &call->c.align},
    };
    int status =
        lib->MatmulPreferenceSetAttribute(preference, PREF_MAX_WORKSPACE_BYTES, &MOST_WORKSPACE, sizeof MOST_WORKSPACE);
    for (size_t i = 0; i < SN_COUNT(wanted) && !status; i++)
        status = lib->MatmulPreferenceSetAttribute(preference, wanted[i].attribute, wanted[i].value,
                                                   sizeof *wanted[i].value);
    return status;
}

/* The algorithm that the call asks for, of those that the heuristic lists. */
static int choose(sn_cublas_call *out, const sn_cublas *lib, void *preference, char why[SN_LIBRARY_WHY]) {
    sn_cublas_found found[MOST_ALGOS];
    int n = 0;
    uint32_t usable = 0;
    int status = lib->MatmulAlgoGetHeuristic(lib->handle, out->op, out->a, out->b, out->c, out->c, preference,
                                             MOST_ALGOS, found, &n);
    if (status) return status;
    for (int i = 0; i < n; i++) {
        if (found[i].status) continue;
        if (usable++ != out->is.algo) continue;
        out->algo = found[i].algo;
        out->workspace = found[i].workspace;
        return 0;
    }
    if (usable)
        snprintf(why, SN_LIBRARY_WHY, "%s has %u algorithms for it, numbered from 0: there is no algo=%u", lib->name,
                 usable, out->is.algo);
    else snprintf(why, SN_LIBRARY_WHY, "%s has no algorithm for it", lib->name);
    return 0;
}

static int prepare(sn_cublas_call *out, const sn_cublas *lib, void **preference, char why[SN_LIBRARY_WHY]) {
    const sn_library_call *call = &out->is;
    int status = make_op(&out->op, lib, call);
    if (!status) status = make_layout(&out->a, lib, &call->a, call->m, call->k, call->batch);
    if (!status) status = make_layout(&out->b, lib, &call->b, call->k, call->n, call->batch);
    if (!status) status = make_layout(&out->c, lib, &call->c, call->m, call->n, call->batch);
    if (!status) status = lib->MatmulPreferenceCreate(preference);
    if (!status) status = set_preference(lib, *preference, call);
    return status ? status : choose(out, lib, *preference, why);
}

bool sn_cublas_prepare(sn_cublas_call *out, const sn_cublas *lib, const sn_library_call *call,
                       char why[SN_LIBRARY_WHY]) {
    void *preference = NULL;
    *out = (sn_cublas_call){.is = *call};
    if (!sn_cublas_has(call, why)) return false;
    why[0] = 0;
    int status = prepare(out, lib, &preference, why);
    if (preference) lib->MatmulPreferenceDestroy(preference);
    if (status) snprintf(why, SN_LIBRARY_WHY, "%s: %s", lib->name, lib->GetStatusString(status));
    return !why[0];
}

void sn_cublas_drop(sn_cublas_call *call, const sn_cublas *lib) {
    sn_cublas_drop_op(lib, call->op);
    void *const layouts[] = {call->a, call->b, call->c};
    for (size_t i = 0; i < SN_COUNT(layouts); i++)
        if (layouts[i]) lib->MatrixLayoutDestroy(layouts[i]);
    *call = (sn_cublas_call){0};
}

/* ---- running ---- */

static char *address_of(const sn_library_matrix *mx, void *const *params) {
    return (char *)params[mx->param] + mx->offset * (int64_t)sn_dtype_bytes(mx->dtype);
}

/* 1 and 0 in the dtype of the sums. */
static const void *number(sn_dtype dtype, int value) {
    static const float in_f32[] = {0, 1};
    static const double in_f64[] = {0, 1};
    static const int32_t in_i32[] = {0, 1};
    return dtype == SN_F64   ? (const void *)&in_f64[value]
           : dtype == SN_I32 ? (const void *)&in_i32[value]
                             : &in_f32[value];
}

sn_status sn_cublas_run(const sn_cublas *lib, sn_cuda *cu, const sn_cublas_call *call, void *op, void *const *params,
                        void *workspace, CUstream stream) {
    const sn_library_call *is = &call->is;
    void *c = address_of(&is->c, params);
    int status = 0;
    if (is->has_bias) {
        const void *bias = address_of(&is->bias, params);
        status = lib->MatmulDescSetAttribute(op, MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    }
    if (!status)
        status = lib->Matmul(lib->handle, op, number(is->sum, 1), address_of(&is->a, params), call->a,
                             address_of(&is->b, params), call->b, number(is->sum, 0), c, call->c, c, call->c,
                             &call->algo, workspace, call->workspace, stream);
    if (!status) return SN_OK;
    return sn_fail(cu->env, SN_ERROR_DEVICE, "cublasLtMatmul: %s", lib->GetStatusString(status));
}
