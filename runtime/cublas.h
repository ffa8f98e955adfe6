/* cublas.h: matrix products by cuBLASLt, which is opened at run time. Private to runtime/. */
#ifndef SN_RUNTIME_CUBLAS_H
#define SN_RUNTIME_CUBLAS_H

#include "runtime/cuda_driver.h"

/* ---- the library's types, ABI-compatible with cublasLt.h ---- */

typedef struct sn_cublas_algo {
    uint64_t data[8];
} sn_cublas_algo;

typedef struct sn_cublas_found {
    sn_cublas_algo algo;
    size_t workspace;
    int status; /* 0: the algorithm can be used */
    float waves;
    int reserved[4];
} sn_cublas_found;

/* ---- the library, for one device ---- */

typedef struct sn_cublas {
    sn_env *env;
    void *library, *handle;
    char name[64]; /* "cuBLASLt 13.1.0" */
#define SN_LT(name, result, parameters) result(*name) parameters;
#include "runtime/cublas_api.def"
#undef SN_LT
} sn_cublas;

/* Open it; it stays open with the device. NULL: there is none, and why. The context of cu is current, here and below. */
sn_cublas *sn_cublas_open(sn_cuda *cu, char why[SN_LIBRARY_WHY]);
void sn_cublas_close(sn_cublas *lib);

/* ---- calls ---- */

/* One call, ready to run again and again: nothing of it changes but the address of a bias, which lies in its operation.
 * So a call with a bias needs an operation for each state that runs it. */
typedef struct sn_cublas_call {
    sn_library_call is;
    void *op, *a, *b, *c; /* the library's objects */
    sn_cublas_algo algo;
    size_t workspace; /* bytes that a run needs, 256-aligned */
} sn_cublas_call;

/* Has cuBLASLt such a product? Needs no library. */
bool sn_cublas_has(const sn_library_call *call, char why[SN_LIBRARY_WHY]);
/* false: the library does not run this one, and why; *out is to be dropped all the same. */
bool sn_cublas_prepare(sn_cublas_call *out, const sn_cublas *lib, const sn_library_call *call,
                       char why[SN_LIBRARY_WHY]);
void sn_cublas_drop(sn_cublas_call *call, const sn_cublas *lib);
/* Another operation like that of the call; NULL: the library has no memory for it. */
void *sn_cublas_new_op(const sn_cublas *lib, const sn_library_call *call);
void sn_cublas_drop_op(const sn_cublas *lib, void *op);
/* Queue the call on the stream. op: that of the call, or another one like it. Allocates nothing. */
sn_status sn_cublas_run(const sn_cublas *lib, sn_cuda *cu, const sn_cublas_call *call, void *op, void *const *params,
                        void *workspace, CUstream stream);

#endif
