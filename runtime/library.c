/* library.c: the library of a machine for those who ask whether there is one and what it takes: cuBLASLt of a device
 * (cublas.c), a BLAS of the CPU (cblas.c).
 */
#include "runtime/cblas.h"
#include "runtime/cublas.h"

#include <stdio.h>

bool sn_library_has(const sn_library_call *call, bool is_gpu, char why[SN_LIBRARY_WHY]) {
    return is_gpu ? sn_cublas_has(call, why) : sn_cblas_has(call, why);
}

static bool device_takes(sn_cuda *cu, const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    sn_cublas_call ready;
    sn_cublas *lib = sn_cublas_open(cu, why);
    if (!lib) return false;
    bool takes = sn_cublas_prepare(&ready, lib, call, why);
    sn_cublas_drop(&ready, lib);
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
        snprintf(why, SN_LIBRARY_WHY, "no cuBLASLt: the device's context is gone");
        return false;
    }
    bool takes = device_takes(cu, call, why);
    sn_cuda_leave(cu);
    return takes;
}

bool sn_library_name(char out[SN_LIBRARY_WHY], sn_cuda *cu) {
    sn_cblas cblas;
    if (!cu) {
        if (!sn_cblas_open(&cblas, out)) return false;
        snprintf(out, SN_LIBRARY_WHY, "%s", cblas.name);
        sn_cblas_close(&cblas);
        return true;
    }
    if (cu->api.cuCtxPushCurrent(cu->context) != CUDA_SUCCESS) return false;
    const sn_cublas *lib = sn_cublas_open(cu, out);
    if (lib) snprintf(out, SN_LIBRARY_WHY, "%s", lib->name);
    sn_cuda_leave(cu);
    return lib != NULL;
}
