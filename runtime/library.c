/* library.c: the libraries of a machine for those who ask whether there is one and what it takes: cuBLASLt and cuDNN of a
 * device (cublas.c, cudnn.c), a BLAS of the CPU (cblas.c).
 */
#include "runtime/cblas.h"
#include "runtime/cublas.h"
#include "runtime/cudnn.h"

#include <stdio.h>

bool sn_library_has(const sn_library_call *call, bool is_gpu, char why[SN_LIBRARY_WHY]) {
    if (is_gpu) return call->is_conv ? sn_cudnn_has(call, why) : sn_cublas_has(call, why);
    if (!call->is_conv) return sn_cblas_has(call, why);
    snprintf(why, SN_LIBRARY_WHY, "a BLAS has no convolutions");
    return false;
}

static bool blas_takes(sn_cuda *cu, const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    sn_cublas_call ready;
    sn_cublas *lib = sn_cublas_open(cu, why);
    if (!lib) return false;
    bool takes = sn_cublas_prepare(&ready, lib, call, why);
    sn_cublas_drop(&ready, lib);
    return takes;
}

static bool dnn_takes(sn_cuda *cu, const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    sn_cudnn_call ready;
    sn_cudnn *lib = sn_cudnn_open(cu, why);
    if (!lib || !sn_cudnn_start(lib, why)) return false;
    bool takes = sn_cudnn_prepare(&ready, lib, call, why);
    sn_cudnn_drop(&ready, lib);
    return takes;
}

bool sn_library_takes(sn_cuda *cu, const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    if (!sn_library_has(call, cu != NULL, why)) return false;
    if (!cu) {
        sn_cblas lib;
        if (!sn_cblas_open(&lib, why)) return false;
        sn_cblas_close(&lib);
        return true;
    }
    if (cu->api.cuCtxPushCurrent(cu->context) != CUDA_SUCCESS) {
        snprintf(why, SN_LIBRARY_WHY, "no %s: the device's context is gone", call->is_conv ? "cuDNN" : "cuBLASLt");
        return false;
    }
    bool takes = call->is_conv ? dnn_takes(cu, call, why) : blas_takes(cu, call, why);
    sn_cuda_leave(cu);
    return takes;
}

static bool device_name(char out[SN_LIBRARY_WHY], sn_cuda *cu, bool of_convs) {
    const sn_cublas *blas = of_convs ? NULL : sn_cublas_open(cu, out);
    const sn_cudnn *dnn = of_convs ? sn_cudnn_open(cu, out) : NULL;
    if (blas || dnn) snprintf(out, SN_LIBRARY_WHY, "%s", blas ? blas->name : dnn->name);
    return blas || dnn;
}

bool sn_library_name(char out[SN_LIBRARY_WHY], sn_cuda *cu, bool of_convs) {
    sn_cblas cblas;
    if (!cu && of_convs) {
        snprintf(out, SN_LIBRARY_WHY, "no library of convolutions for the CPU");
        return false;
    }
    if (!cu) {
        if (!sn_cblas_open(&cblas, out)) return false;
        snprintf(out, SN_LIBRARY_WHY, "%s", cblas.name);
        sn_cblas_close(&cblas);
        return true;
    }
    if (cu->api.cuCtxPushCurrent(cu->context) != CUDA_SUCCESS) {
        snprintf(out, SN_LIBRARY_WHY, "the device's context is gone");
        return false;
    }
    bool found = device_name(out, cu, of_convs);
    sn_cuda_leave(cu);
    return found;
}
