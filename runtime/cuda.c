/* cuda.c: devices: how many there are, opening one, sharing it with another thread, what it is.
 *
 * The primary context of a device is retained, never created, so that Sinter shares it with whatever else the process runs
 * on the device (the CUDA runtime, cuBLAS, ...). Stands on the driver (cuda_driver.c), on the memory of a device
 * (cuda_memory.c) and on cuBLASLt and cuDNN (cublas.c, cudnn.c), which know nothing of it.
 */
#include "runtime/cublas.h"
#include "runtime/cudnn.h"

#include <stdio.h>
#include <string.h>

static const char driver_library[] = "libcuda.so.1";

uint32_t sn_cuda_count(char *why, size_t why_size) {
    char own[SN_MESSAGE_MAX];
    if (!why || !why_size) {
        why = own;
        why_size = sizeof own;
    }
    why[0] = 0;
    sn_cuda_api api;
    if (!sn_cuda_api_open(&api, driver_library, why, why_size)) return 0;
    uint32_t count = sn_cuda_api_count(&api, why, why_size);
    sn_cuda_api_close(&api);
    return count;
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
    uint32_t count = sn_cuda_api_count(&cu->api, why, sizeof why);
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
    *cu = (sn_cuda){.env = env, .api = api, .ordinal = device};
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
    *cu = (sn_cuda){.env = env,
                    .api = of->api,
                    .device = of->device,
                    .driver_version = of->driver_version,
                    .target = of->target,
                    .memory = of->memory,
                    .ordinal = of->ordinal};
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
    if (cu->cublas || cu->cudnn) {
        bool entered = sn_cuda_enter_to_free(cu);
        sn_cublas_close(cu->cublas);
        sn_cudnn_close(cu->cudnn);
        sn_cuda_leave_from(cu, entered);
    }
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

/* What only a table of generations knows (registers, bytes in flight, access width, what the architecture alone has) is left
 * as the caller filled it. */
void sn_cuda_target(const sn_cuda *cu, sn_target *out) {
    const sn_target *t = &cu->target;
    out->is_gpu = t->is_gpu;
    snprintf(out->name, sizeof out->name, "sm_%u%s", t->sm, out->specific ? "a" : "");
    out->sm = t->sm;
    out->exact = true;
    out->units = t->units;
    out->max_threads = t->max_threads;
    out->shared_bytes = t->shared_bytes;
    out->cache_bytes = t->cache_bytes;
}
