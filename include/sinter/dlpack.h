/* dlpack.h: the structs in which DLPack 1 passes tensors between libraries, for sn_tensor_from_dlpack and sn_tensor_to_dlpack.
 *
 * Only what is part of the binary interface is declared, under the names of DLPack's own dlpack.h. Where that one was included
 * before, its declarations serve, with those added that an old one has not; included after this one, it adds nothing.
 */
#ifndef SINTER_DLPACK_H
#define SINTER_DLPACK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

/* Where the memory is. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3,    /* pinned */
    kDLCUDAManaged = 13 /* read and written by host and device */
} DLDeviceType;

typedef struct {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;

typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLComplex = 5, kDLBool = 6 } DLDataTypeCode;

typedef struct {
    uint8_t code, bits;
    uint16_t lanes; /* of a vector type; else 1 */
} DLDataType;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides; /* elements; strides NULL: contiguous, in row-major order */
    uint64_t byte_offset;     /* from data to the first element */
} DLTensor;

/* The form before version 1. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self); /* maybe NULL; whoever takes the tensor calls it once */
} DLManagedTensor;

#endif

#ifndef DLPACK_MAJOR_VERSION
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)

typedef struct {
    uint32_t major, minor;
} DLPackVersion;

typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor; /* only where version.major is DLPACK_MAJOR_VERSION */
} DLManagedTensorVersioned;

#endif

#ifdef __cplusplus
}
#endif

#endif
