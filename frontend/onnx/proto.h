/* proto.h: the messages of an ONNX file as structs: those fields of onnx.proto that the importer reads.
 *
 * Texts and raw elements stay in the file's memory; lists are in an arena. `seen` has a bit for each field number below
 * 32 that was present. proto.def says which field goes into which member.
 */
#ifndef SN_FRONTEND_ONNX_PROTO_H
#define SN_FRONTEND_ONNX_PROTO_H

#include "frontend/onnx/wire.h"

typedef SN_VEC(int64_t) sn_pb_ints;
typedef SN_VEC(float) sn_pb_floats;
typedef SN_VEC(double) sn_pb_doubles;
typedef SN_VEC(sn_bytes) sn_pb_texts; /* elements of string tensors, and texts of attributes */
typedef SN_VEC(const char *) sn_pb_names;

/* One entry of external_data: location, offset, length. */
typedef struct sn_pb_entry {
    uint32_t seen;
    const char *key, *value;
} sn_pb_entry;

typedef struct sn_pb_tensor {
    uint32_t seen;
    sn_pb_ints dims;
    int64_t data_type, data_location; /* numbers of dtypes.def; 1: external */
    sn_pb_floats float_data;
    sn_pb_ints int32_data, int64_data, uint64_data;
    sn_pb_doubles double_data;
    sn_pb_texts string_data;
    const char *name;
    sn_bytes raw_data;
    SN_VEC(sn_pb_entry) external_data;
} sn_pb_tensor;
enum { SN_PB_TENSOR_RAW = 1 << 9 };

/* One size of a declared shape: a number, a name, or neither. */
/* A sparse tensor, called like its values; the rest of it is not read. */
typedef struct sn_pb_sparse {
    uint32_t seen;
    sn_pb_tensor *values;
} sn_pb_sparse;

typedef struct sn_pb_dim {
    uint32_t seen; /* SN_PB_DIM_VALUE, SN_PB_DIM_PARAM */
    int64_t value;
    const char *param;
} sn_pb_dim;
enum { SN_PB_DIM_VALUE = 1 << 1, SN_PB_DIM_PARAM = 1 << 2 };

typedef struct sn_pb_shape {
    uint32_t seen;
    SN_VEC(sn_pb_dim) dims;
} sn_pb_shape;

typedef struct sn_pb_tensor_type {
    uint32_t seen;
    int64_t elem_type;
    sn_pb_shape *shape; /* NULL: rank not declared */
} sn_pb_tensor_type;

typedef struct sn_pb_type {
    uint32_t seen;
    sn_pb_tensor_type *tensor;
    struct sn_pb_of *sequence, *optional;
} sn_pb_type;

/* A sequence of, or an optional, elements of a type. */
typedef struct sn_pb_of {
    uint32_t seen;
    sn_pb_type *elem;
} sn_pb_of;

typedef struct sn_pb_value_info {
    uint32_t seen;
    const char *name;
    sn_pb_type *type;
} sn_pb_value_info;

typedef struct sn_pb_attribute {
    uint32_t seen; /* by field number: SN_PB_ATTR_* */
    const char *name, *ref;
    float f;
    int64_t i, type;
    sn_bytes s;
    sn_pb_tensor *t;
    struct sn_pb_graph *g;
    sn_pb_floats floats;
    sn_pb_ints ints;
    sn_pb_texts strings;
} sn_pb_attribute;
enum { SN_PB_ATTR_F = 1 << 2, SN_PB_ATTR_I = 1 << 3, SN_PB_ATTR_S = 1 << 4 };

typedef struct sn_pb_node {
    uint32_t seen;
    sn_pb_names inputs, outputs;
    const char *name, *op_type, *domain;
    SN_VEC(sn_pb_attribute) attributes;
} sn_pb_node;

typedef struct sn_pb_graph {
    uint32_t seen;
    const char *name;
    SN_VEC(sn_pb_node) nodes;
    SN_VEC(sn_pb_tensor) initializers;
    SN_VEC(sn_pb_sparse) sparse_initializers;
    SN_VEC(sn_pb_value_info) inputs, outputs, value_infos;
} sn_pb_graph;

typedef struct sn_pb_opset {
    uint32_t seen;
    const char *domain;
    int64_t version;
} sn_pb_opset;

typedef struct sn_pb_function {
    uint32_t seen;
    const char *name, *domain;
    sn_pb_names inputs, outputs, attributes;
    SN_VEC(sn_pb_attribute) attribute_protos; /* attributes with defaults */
    SN_VEC(sn_pb_node) nodes;
    SN_VEC(sn_pb_opset) opsets;
} sn_pb_function;

typedef struct sn_pb_model {
    uint32_t seen;
    int64_t ir_version;
    SN_VEC(sn_pb_opset) opsets;
    sn_pb_graph *graph;
    SN_VEC(sn_pb_function) functions;
} sn_pb_model;

/* A sequence or an optional in a file of its own (test data). */
typedef struct sn_pb_sequence {
    uint32_t seen;
    int64_t elem_type;
    SN_VEC(sn_pb_tensor) tensors;
    SN_VEC(struct sn_pb_sequence) sequences;
} sn_pb_sequence;

typedef struct sn_pb_optional {
    uint32_t seen;
    int64_t elem_type;
    sn_pb_tensor *tensor;
    sn_pb_sequence *sequence;
} sn_pb_optional;

/* Read a message. `what` stands for the bytes in messages. What was read borrows from `bytes`. */
sn_status sn_pb_read_model(sn_pb_model *out, sn_env *env, sn_arena *arena, const char *what, sn_bytes bytes);
sn_status sn_pb_read_tensor(sn_pb_tensor *out, sn_env *env, sn_arena *arena, const char *what, sn_bytes bytes);
sn_status sn_pb_read_sequence(sn_pb_sequence *out, sn_env *env, sn_arena *arena, const char *what, sn_bytes bytes);
sn_status sn_pb_read_optional(sn_pb_optional *out, sn_env *env, sn_arena *arena, const char *what, sn_bytes bytes);

#endif
