/* cuda.c: the CUDA driver behind dlopen: function table, devices, the context of a device, errors as text.
 *
 * Relies on libcuda.so.1 exporting the symbols of cuda_api.def. The primary context of the device is retained, never
 * created, so that Sinter shares it with whatever else the process runs on the device (the CUDA runtime, cuBLAS, ...).
 * Does not allocate device memory (cuda_memory.c), load code (cuda_module.c) or launch (exec.c).
 */
#include "runtime/cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char driver_library[] = "libcuda.so.1";

/* ---- function table ---- */

static const struct {
    const char *symbol;
    size_t offset;
} rows[] = {
#define SN_CU(name, symbol, parameters) {symbol, offsetof(sn_cuda_api, name)},
#include "runtime/cuda_api.def"
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
        if (!symbol) {
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

static uint32_t device_count(const sn_cuda_api *api, char *why, size_t why_size) {
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

uint32_t sn_cuda_count(char *why, size_t why_size) {
    char own[SN_MESSAGE_MAX];
    if (!why || !why_size) {
        why = own;
        why_size = sizeof own;
    }
    why[0] = 0;
    sn_cuda_api api;
    if (!sn_cuda_api_open(&api, driver_library, why, why_size)) return 0;
    uint32_t count = device_count(&api, why, why_size);
    sn_cuda_api_close(&api);
    return count;
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

void sn_cuda_leave(sn_cuda *cu) {
    CUcontext popped;
    cu->api.cuCtxPopCurrent(&popped);
}

/* ---- opening a device ---- */

static sn_status read_attributes(sn_cuda *cu) {
    int major = 0, minor = 0, units = 0, threads = 0, shared = 0, cache = 0;
    const struct {
        int attribute;
        int *value;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &units},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &threads},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &cache},
    };
    for (size_t i = 0; i < SN_COUNT(wanted); i++)
        SN_TRY(CU_CALL(cu, cuDeviceGetAttribute, (wanted[i].value, wanted[i].attribute, cu->device)));
    cu->target = (sn_target){
        .is_gpu = true,
        .sm = (uint32_t)(10 * major + minor),
        .units = (uint32_t)units,
        .max_threads = (uint32_t)threads,
        .shared_bytes = (uint32_t)shared,
        .cache_bytes = (uint64_t)cache,
    };
    snprintf(cu->target.name, sizeof cu->target.name, "sm_%u", cu->target.sm);
    return SN_OK;
}

static sn_status retain_device(sn_cuda *cu, uint32_t device) {
    char why[SN_MESSAGE_MAX];
    uint32_t count = device_count(&cu->api, why, sizeof why);
    if (!count) return sn_fail(cu->env, SN_ERROR_DEVICE, "%s", why);
    if (device >= count)
        return sn_fail(cu->env, SN_ERROR_DEVICE, "there is no CUDA device %u: the driver finds %u, numbered from 0",
                       device, count);
    SN_TRY(CU_CALL(cu, cuDeviceGet, (&cu->device, (int)device)));
    SN_TRY(CU_CALL(cu, cuDeviceGetName, (cu->name, (int)sizeof cu->name, cu->device)));
    SN_TRY(CU_CALL(cu, cuDriverGetVersion, (&cu->driver_version)));
    SN_TRY(read_attributes(cu));
    return CU_CALL(cu, cuDevicePrimaryCtxRetain, (&cu->context, cu->device));
}

sn_status sn_cuda_open(sn_cuda **out, sn_env *env, uint32_t device) {
    *out = NULL;
    char why[SN_MESSAGE_MAX];
    sn_cuda_api api;
    if (!sn_cuda_api_open(&api, driver_library, why, sizeof why)) return sn_fail(env, SN_ERROR_DEVICE, "%s", why);
    sn_cuda *cu = sn_heap_alloc(env, sizeof *cu);
    sn_heap_keep(cu); /* an open device outlives a call that fails */
    *cu = (sn_cuda){.env = env, .api = api};
    sn_status status = retain_device(cu, device);
    if (status != SN_OK) {
        sn_cuda_close(cu);
        return status;
    }
    *out = cu;
    return SN_OK;
}

sn_status sn_cuda_share(sn_cuda **out, sn_env *env, const sn_cuda *of) {
    *out = NULL;
    sn_cuda *cu = sn_heap_alloc(env, sizeof *cu);
    sn_heap_keep(cu);
    *cu = (sn_cuda){
        .env = env, .api = of->api, .device = of->device, .driver_version = of->driver_version, .target = of->target};
    cu->api.library = NULL; /* the driver stays loaded (NODELETE): nothing to close */
    memcpy(cu->name, of->name, sizeof cu->name);
    sn_status status = CU_CALL(cu, cuDevicePrimaryCtxRetain, (&cu->context, cu->device));
    if (status != SN_OK) {
        sn_cuda_close(cu);
        return status;
    }
    *out = cu;
    return SN_OK;
}

void sn_cuda_close(sn_cuda *cu) {
    if (!cu) return;
    if (cu->context) {
        sn_cuda_trim(cu);
        cu->api.cuDevicePrimaryCtxRelease(cu->device);
    }
    sn_heap_free(cu->env, cu->cache.spare, cu->cache.cap * sizeof *cu->cache.spare);
    sn_cuda_api_close(&cu->api);
    sn_heap_free(cu->env, cu, sizeof *cu);
}

const char *sn_cuda_name(const sn_cuda *cu) { return cu->name; }

int sn_cuda_driver_version(const sn_cuda *cu) { return cu->driver_version; }

/* What only a table of generations knows (registers, bytes in flight, access width) is left as the caller filled it. */
void sn_cuda_target(const sn_cuda *cu, sn_target *out) {
    const sn_target *t = &cu->target;
    out->is_gpu = t->is_gpu;
    memcpy(out->name, t->name, sizeof out->name);
    out->sm = t->sm;
    out->units = t->units;
    out->max_threads = t->max_threads;
    out->shared_bytes = t->shared_bytes;
    out->cache_bytes = t->cache_bytes;
}
