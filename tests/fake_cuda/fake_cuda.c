/* fake_cuda.c: the driver of tests/unit/fake_cuda.h as a library, for tests of the whole of Sinter and for measuring what the host
 * does in a call. Whoever loads it first finds it again as libcuda.so.1. It has one device, an H100 in what it says of itself; kernels of
 * the compiler do nothing. `fake_cuda_state` is `fake`.
 */
#include <stdio.h>

#define FAKE_LIBRARY
#include "tests/unit/fake_cuda.h"

__attribute__((visibility("default"))) void *fake_cuda_state(void);
void *fake_cuda_state(void) { return &fake; }

/* For the little Criterion of tests/tsan. */
void test_failed(bool fatal, const char *file, int line, const char *condition, const char *format, ...) {
    (void)fatal, (void)format;
    fprintf(stderr, "%s:%d: %s\n", file, line, condition);
    abort();
}

static CUresult fake_init(unsigned flags) {
    (void)flags;
    fake.fail_with = fake.fail_with ? fake.fail_with : ILLEGAL_ADDRESS;
    FAKE_END("cuInit");
}

static CUresult fake_version(int *version) {
    *version = 12080;
    FAKE_END("cuDriverGetVersion");
}

static CUresult fake_device_count(int *count) {
    *count = 1;
    FAKE_END("cuDeviceGetCount");
}

static CUresult fake_device_get(CUdevice *device, int ordinal) {
    *device = ordinal;
    FAKE_END("cuDeviceGet");
}

static CUresult fake_device_name(char *name, int size, CUdevice device) {
    (void)device;
    snprintf(name, (size_t)size, "Fake");
    FAKE_END("cuDeviceGetName");
}

static CUresult fake_attribute(int *value, int attribute, CUdevice device) {
    static const int values[][2] = {{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
                                    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
                                    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
                                    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
                                    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
                                    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0}};
    (void)device;
    *value = 0;
    for (size_t i = 0; i < SN_COUNT(values); i++)
        if (values[i][0] == attribute) *value = values[i][1];
    FAKE_END("cuDeviceGetAttribute");
}

static CUresult fake_set_attribute(CUfunction f, CUfunction_attribute attribute, int value) {
    (void)f, (void)attribute, (void)value;
    FAKE_END("cuFuncSetAttribute");
}

static CUresult fake_get_attribute(int *value, int attribute, CUfunction f) {
    (void)f, (void)attribute;
    *value = 0;
    FAKE_END("cuFuncGetAttribute");
}

/* Under the symbols of cuda_api.def. */
#define EXPORT(symbol, function)                                                                                       \
    extern __typeof__(function) symbol __attribute__((alias(#function), visibility("default")));
EXPORT(cuInit, fake_init)
EXPORT(cuDriverGetVersion, fake_version)
EXPORT(cuGetErrorName, fake_error_name)
EXPORT(cuGetErrorString, fake_error_text)
EXPORT(cuDeviceGetCount, fake_device_count)
EXPORT(cuDeviceGet, fake_device_get)
EXPORT(cuDeviceGetName, fake_device_name)
EXPORT(cuDeviceGetAttribute, fake_attribute)
EXPORT(cuDevicePrimaryCtxRetain, fake_retain)
EXPORT(cuDevicePrimaryCtxRelease_v2, fake_release)
EXPORT(cuCtxPushCurrent_v2, fake_push)
EXPORT(cuCtxPopCurrent_v2, fake_pop)
EXPORT(cuCtxGetCurrent, fake_current)
EXPORT(cuMemAlloc_v2, fake_alloc)
EXPORT(cuMemFree_v2, fake_free)
EXPORT(cuMemGetInfo_v2, fake_info)
EXPORT(cuMemcpyHtoDAsync_v2, fake_to_device)
EXPORT(cuMemcpyDtoHAsync_v2, fake_to_host)
EXPORT(cuMemcpyDtoDAsync_v2, fake_copy)
EXPORT(cuMemsetD8Async, fake_fill)
EXPORT(cuStreamSynchronize, fake_sync)
EXPORT(cuEventCreate, fake_event)
EXPORT(cuEventRecord, fake_event_record)
EXPORT(cuEventSynchronize, fake_event_done)
EXPORT(cuEventElapsedTime, fake_elapsed)
EXPORT(cuEventDestroy_v2, fake_event_destroy)
EXPORT(cuStreamCreate, fake_stream)
EXPORT(cuStreamDestroy_v2, fake_stream_destroy)
EXPORT(cuCtxResetPersistingL2Cache, fake_reset)
EXPORT(cuStreamIsCapturing, fake_is_capturing)
EXPORT(cuThreadExchangeStreamCaptureMode, fake_exchange)
EXPORT(cuStreamBeginCapture_v2, fake_capture)
EXPORT(cuStreamEndCapture, fake_capture_end)
EXPORT(cuGraphCreate, fake_graph_create)
EXPORT(cuGraphAddKernelNode_v2, fake_add_kernel)
EXPORT(cuGraphAddMemcpyNode, fake_add_copy)
EXPORT(cuGraphAddChildGraphNode, fake_add_child)
EXPORT(cuGraphAddDependencies_v2, fake_add_edges)
EXPORT(cuGraphInstantiateWithFlags, fake_instantiate)
EXPORT(cuGraphLaunch, fake_replay)
EXPORT(cuGraphExecKernelNodeSetParams_v2, fake_set_kernel)
EXPORT(cuGraphExecMemcpyNodeSetParams, fake_set_copy)
EXPORT(cuGraphExecChildGraphNodeSetParams, fake_set_child)
EXPORT(cuGraphExecDestroy, fake_exec_destroy)
EXPORT(cuGraphDestroy, fake_graph_destroy)
EXPORT(cuModuleLoadDataEx, fake_module)
EXPORT(cuModuleUnload, fake_unload)
EXPORT(cuModuleGetFunction, fake_function)
EXPORT(cuFuncSetAttribute, fake_set_attribute)
EXPORT(cuFuncGetAttribute, fake_get_attribute)
EXPORT(cuLaunchKernel, fake_launch)
EXPORT(cuLaunchKernelEx, fake_launch_ex)
EXPORT(cuTensorMapEncodeTiled, fake_encode)
EXPORT(cuTensorMapEncodeIm2col, fake_encode_pixels)
