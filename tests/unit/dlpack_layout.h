/* dlpack_layout.h: the binary layout of DLPack's structs (64 bits), asserted of our declarations and of those of another
 * header that was included before.
 */
#ifndef SN_TESTS_UNIT_DLPACK_LAYOUT_H
#define SN_TESTS_UNIT_DLPACK_LAYOUT_H

#include "include/sinter/dlpack.h"

#include <stddef.h>

_Static_assert(sizeof(DLDevice) == 8 && offsetof(DLDevice, device_id) == 4, "DLDevice");
_Static_assert(sizeof(DLDataType) == 4 && offsetof(DLDataType, bits) == 1 && offsetof(DLDataType, lanes) == 2,
               "DLDataType");
_Static_assert(offsetof(DLTensor, data) == 0 && offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16,
               "DLTensor");
_Static_assert(offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24, "DLTensor");
_Static_assert(offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40, "DLTensor");
_Static_assert(sizeof(DLTensor) == 48 && sizeof(DLManagedTensor) == 64, "sizes");
_Static_assert(offsetof(DLManagedTensor, manager_ctx) == 48 && offsetof(DLManagedTensor, deleter) == 56,
               "DLManagedTensor");
_Static_assert(kDLCPU == 1 && kDLCUDA == 2 && kDLCUDAHost == 3 && kDLCUDAManaged == 13, "devices");
_Static_assert(kDLInt == 0 && kDLUInt == 1 && kDLFloat == 2 && kDLBfloat == 4 && kDLComplex == 5, "codes");

_Static_assert(offsetof(DLManagedTensorVersioned, version) == 0 && offsetof(DLPackVersion, minor) == 4, "version");
_Static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8 &&
                   offsetof(DLManagedTensorVersioned, deleter) == 16,
               "DLManagedTensorVersioned");
_Static_assert(offsetof(DLManagedTensorVersioned, flags) == 24 && offsetof(DLManagedTensorVersioned, dl_tensor) == 32,
               "DLManagedTensorVersioned");
_Static_assert(sizeof(DLManagedTensorVersioned) == 80, "DLManagedTensorVersioned");

#endif
