/* cuda_driver.h: the CUDA driver as this folder sees it: our own declarations of the few types that are needed (a
 * user's machine has a driver, not a toolkit), the function table, and the opened device. Private to runtime/.
 */
#ifndef SN_RUNTIME_CUDA_DRIVER_H
#define SN_RUNTIME_CUDA_DRIVER_H

#include "runtime/runtime.h"

/* ---- the driver's types, ABI-compatible with cuda.h ---- */

typedef int CUresult; /* an enum there */
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;

enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NO_DEVICE = 100 };
/* What the driver says of a text that its assembler does not take. */
enum { CUDA_ERROR_NO_BINARY_FOR_GPU = 209, CUDA_ERROR_INVALID_PTX = 218, CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222 };

enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
};

enum { CU_STREAM_NON_BLOCKING = 1 }; /* cuStreamCreate: does not wait for the default stream */
enum { CU_STREAM_CAPTURE_STATUS_NONE = 0 };
enum { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };      /* this thread may do so whatever others capture */
enum { CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1 }; /* other threads may allocate and synchronise meanwhile */

enum { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };
typedef enum CUfunction_attribute {
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1, /* static */
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
} CUfunction_attribute;

typedef struct CUlaunchAttribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int allowed; /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
    } value;
} CUlaunchAttribute;
typedef struct CUlaunchConfig {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned n_attributes;
} CUlaunchConfig;
enum { CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

/* CUDA_KERNEL_NODE_PARAMS_v2 */
typedef struct CUkernelNode {
    CUfunction function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void **params, **extra;
    void *kernel; /* instead of a function */
    CUcontext context;
} CUkernelNode;

/* CUDA_MEMCPY3D: of one side of it, and the whole. Copies here are of one row. */
typedef struct CUmemcpySide {
    size_t x_bytes, y, z, level;
    int type; /* CU_MEMORYTYPE_DEVICE */
    void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
} CUmemcpySide;
typedef struct CUmemcpy3D {
    CUmemcpySide from, to;
    size_t bytes, height, depth;
} CUmemcpy3D;
enum { CU_MEMORYTYPE_DEVICE = 2 };

/* CUgraphEdgeData. Programmatic: what launches with programmatic stream serialization are to each other. */
typedef struct CUgraphEdge {
    unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdge;
enum { CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1 };

typedef struct CUtensorMap {
    _Alignas(SN_MAP_ALIGN) char bytes[SN_MAP_BYTES];
} CUtensorMap;
enum {
    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
    CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1,
    CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2,
    CU_TENSOR_MAP_DATA_TYPE_UINT64 = 4,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11
};
enum { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum {
    CU_TENSOR_MAP_SWIZZLE_NONE = 0,
    CU_TENSOR_MAP_SWIZZLE_32B = 1,
    CU_TENSOR_MAP_SWIZZLE_64B = 2,
    CU_TENSOR_MAP_SWIZZLE_128B = 3
};
enum { CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2 };
enum { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };

/* ---- the function table ---- */

typedef struct sn_cuda_api {
    void *library;
#define SN_CU(name, symbol, parameters) CUresult(*name) parameters;
#define SN_CU_NEWER(name, symbol, parameters) CUresult(*name) parameters;
#include "runtime/cuda_api.def"
#undef SN_CU_NEWER
#undef SN_CU
} sn_cuda_api;

/* Open the driver library and resolve every row of cuda_api.def, then cuInit. false: the reason is in `why`. */
bool sn_cuda_api_open(sn_cuda_api *out, const char *library, char *why, size_t why_size);
void sn_cuda_api_close(sn_cuda_api *api);
/* Devices that the driver finds; of 0 the reason is in `why`. */
uint32_t sn_cuda_api_count(const sn_cuda_api *api, char *why, size_t why_size);

/* ---- an opened device ---- */

typedef struct sn_block {
    CUdeviceptr p;
    size_t size;
} sn_block;

/* Free blocks wait here for the next malloc of their size. `spare` has room for every block that is out as well, so
 * that a free never allocates and therefore cannot fail. */
typedef struct sn_block_cache {
    sn_block *spare;
    uint32_t n_spare, n_out, cap;
    size_t bytes_spare, bytes_out;
} sn_block_cache;

struct sn_cuda {
    sn_env *env;
    sn_cuda_api api;
    CUdevice device;
    CUcontext context; /* the primary context, retained */
    int driver_version;
    char name[128];
    sn_target target;
    sn_block_cache cache;
    sn_cuda_memory memory; /* alloc NULL: of the driver */
    uint32_t ordinal;
    struct sn_cublas *cublas; /* opened when somebody asks for it; of a share: NULL */
    struct sn_cudnn *cudnn;   /* the same */
};

/* Make the device's context current on this thread, and give the thread its old one back. Every public function of
 * this folder that talks to the driver does both; they nest. */
sn_status sn_cuda_enter(sn_cuda *cu);
void sn_cuda_leave(sn_cuda *cu);
/* The same around what gives something back, which is tried even where the context cannot be entered. */
bool sn_cuda_enter_to_free(sn_cuda *cu);
void sn_cuda_leave_from(sn_cuda *cu, bool entered);

/* A driver result as a status: "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)". */
sn_status sn_cuda_check(sn_cuda *cu, CUresult result, const char *function);
/* Call a driver function and check it: CU_CALL(cu, cuMemFree, (p)) is a sn_status. */
#define CU_CALL(cu, function, arguments) sn_cuda_check((cu), (cu)->api.function arguments, #function)

/* The map for an array whose parameter is `address`; kernel: who is launched, for the message when there can be none. */
sn_status sn_cuda_tensor_map(CUtensorMap *out, sn_cuda *cu, const sn_tensor_map *map, const char *address,
                             const char *kernel);

/* Size class of a request: a multiple of 512 bytes, at most an eighth more than asked for beyond 4 KiB. */
size_t sn_cuda_round(size_t size);

static inline CUdeviceptr sn_device_address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

#endif
