/* tensor.h: elements of TensorProtos, in the model's file or beside it. */
#ifndef SN_FRONTEND_ONNX_TENSOR_H
#define SN_FRONTEND_ONNX_TENSOR_H

#include "frontend/frontend.h"
#include "frontend/onnx/proto.h"
#include "frontend/onnx/store.h"

/* Elements in storage format, with their type. */
typedef struct sn_onnx_elements {
    sn_dtype dtype;
    uint32_t rank;
    int64_t shape[SN_MAX_RANK], numel;
    const void *data; /* in the file, at any address, where they lie there as they are; else in the arena */
} sn_onnx_elements;

/* Where elements outside of the model's file are. */
typedef struct sn_onnx_files {
    sn_store *store;
    const char *folder; /* NULL: there is none */
} sn_onnx_files;

/* Number in TensorProto.data_type -> dtype, and back (0 where ONNX has none). */
sn_status sn_onnx_dtype(sn_dtype *out, sn_env *env, int64_t number);
int64_t sn_onnx_dtype_number(sn_dtype dtype);
/* Integers of 4 bits: constants have them, as integers of 8. */
bool sn_onnx_is_narrow(int64_t number);

/* Elements of a TensorProto. files NULL: those outside the file are refused. */
sn_status sn_onnx_tensor_elements(sn_onnx_elements *out, sn_env *env, sn_arena *arena, sn_onnx_files *files,
                                  const sn_pb_tensor *t);
/* The bytes that external_data of a tensor names. */
sn_status sn_onnx_external(sn_bytes *out, sn_env *env, sn_onnx_files *files, const sn_pb_tensor *t);

#endif
