/* cuda_driver.c: the CUDA driver behind dlopen: function table, errors as text, the context of a thread.
 *
 * Relies on libcuda.so.1 exporting the symbols of cuda_api.def. Does not know which devices are open (cuda.c), allocate
 * device memory (cuda_memory.c), load code (cuda_module.c) or launch (exec.c).
 */
#include "runtime/cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* ---- function table ---- */

static const struct {
    const char *symbol;
    size_t offset;
    bool newer; /* may be missing */
} rows[] = {
#define SN_CU(name, symbol, parameters) {symbol, offsetof(sn_cuda_api, name), false},
#define SN_CU_NEWER(name, symbol, parameters) {symbol, offsetof(sn_cuda_api, name), true},
#include "runtime/cuda_api.def"
#undef SN_CU_NEWER
#undef SN_CU
};

/* Name and text of a driver error. A driver that does not know the number says nothing: then the number is all. */
static void describe(const sn_cuda_api *api, CUresult result, char *out, size_t size) {
    const char *name = NULL, *text = NULL;
    api->cuGetErrorName(result, &name);
    api->cuGetErrorString(result, &text);
    if (name) snprintf(out, size, "%s (%s)", name, text ? text : "no text");
    else snprintf(out, size, "CUDA error %d", result);
}

bool sn_cuda_api_open(sn_cuda_api *out, const char *library, char *why, size_t why_size) {
    memset(out, 0, sizeof *out);
    /* NODELETE: the driver starts threads of its own, unmapping its code under them would crash the process. */
    out->library = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!out->library) {
        const char *reason = dlerror();
        snprintf(why, why_size, "no CUDA driver: %s could not be opened (%s)", library,
                 reason ? reason : "no reason given");
        return false;
    }
    for (size_t i = 0; i < SN_COUNT(rows); i++) {
        void *symbol = dlsym(out->library, rows[i].symbol);
        if (!symbol && !rows[i].newer) {
            snprintf(why, why_size, "the CUDA driver is too old: %s has no %s", library, rows[i].symbol);
            sn_cuda_api_close(out);
            return false;
        }
        memcpy((char *)out + rows[i].offset, &symbol, sizeof symbol);
    }
    CUresult result = out->cuInit(0);
    if (result == CUDA_SUCCESS) return true;
    char text[256];
    describe(out, result, text, sizeof text);
    if (result == CUDA_ERROR_NO_DEVICE) snprintf(why, why_size, "no CUDA device: the driver finds none");
    else snprintf(why, why_size, "no CUDA device: cuInit: %s", text);
    sn_cuda_api_close(out);
    return false;
}

void sn_cuda_api_close(sn_cuda_api *api) {
    if (api->library) dlclose(api->library);
    memset(api, 0, sizeof *api);
}

uint32_t sn_cuda_api_count(const sn_cuda_api *api, char *why, size_t why_size) {
    int count = 0;
    CUresult result = api->cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS) {
        char text[256];
        describe(api, result, text, sizeof text);
        snprintf(why, why_size, "no CUDA device: cuDeviceGetCount: %s", text);
        return 0;
    }
    if (count <= 0) snprintf(why, why_size, "no CUDA device: the driver finds none");
    return count > 0 ? (uint32_t)count : 0;
}

/* ---- errors and the current context ---- */

sn_status sn_cuda_check(sn_cuda *cu, CUresult result, const char *function) {
    if (result == CUDA_SUCCESS) return SN_OK;
    char text[256];
    describe(&cu->api, result, text, sizeof text);
    sn_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? SN_ERROR_DEVICE_MEMORY : SN_ERROR_DEVICE;
    return sn_fail(cu->env, status, "%s: %s", function, text);
}

sn_status sn_cuda_enter(sn_cuda *cu) { return CU_CALL(cu, cuCtxPushCurrent, (cu->context)); }

bool sn_cuda_enter_to_free(sn_cuda *cu) { return cu->api.cuCtxPushCurrent(cu->context) == CUDA_SUCCESS; }

void sn_cuda_leave_from(sn_cuda *cu, bool entered) {
    if (entered) sn_cuda_leave(cu);
}

void sn_cuda_leave(sn_cuda *cu) {
    CUcontext popped;
    cu->api.cuCtxPopCurrent(&popped);
}
