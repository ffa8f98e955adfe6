/* tensor.c: TensorProto: element types, and elements from raw bytes, typed lists or files beside the model.
 *
 * Every size is checked against the bytes that are there before anything is allocated for it. Integers of 4 bits, which Sinter
 * has not, become integers of 8 bits: constants are all that has them, and DequantizeLinear asks for no more than their values.
 */
#include "frontend/onnx/tensor.h"

#include <string.h>

typedef enum member { FLOATS, DOUBLES, INTS, LONGS, ULONGS, BITS } member;

typedef struct onnx_dtype {
    int64_t number;
    const char *name;
    sn_dtype dtype;
    member member;
} onnx_dtype;

static const onnx_dtype dtypes[] = {
#define SN_ONNX_DTYPE(number, name, dtype, member) {number, #name, dtype, member},
#include "frontend/onnx/dtypes.def"
#undef SN_ONNX_DTYPE
};

/* The names of those that Sinter lacks, for messages. */
static const char *const other_names[] = {[0] = "UNDEFINED",   [8] = "STRING",          [14] = "COMPLEX64",
                                          [15] = "COMPLEX128", [17] = "FLOAT8E4M3FN",   [18] = "FLOAT8E4M3FNUZ",
                                          [19] = "FLOAT8E5M2", [20] = "FLOAT8E5M2FNUZ", [21] = "UINT4",
                                          [22] = "INT4",       [23] = "FLOAT4E2M1"};

static const onnx_dtype *find_dtype(int64_t number) {
    for (uint32_t k = 0; k < SN_COUNT(dtypes); k++)
        if (dtypes[k].number == number) return &dtypes[k];
    return NULL;
}

sn_status sn_onnx_dtype(sn_dtype *out, sn_env *env, int64_t number) {
    const onnx_dtype *d = find_dtype(number);
    if (d) return *out = d->dtype, SN_OK;
    const char *name = number >= 0 && (size_t)number < SN_COUNT(other_names) ? other_names[number] : NULL;
    return sn_fail(env, SN_ERROR_UNSUPPORTED, "element type %s (%lld)", name ? name : "unknown", (long long)number);
}

int64_t sn_onnx_dtype_number(sn_dtype dtype) {
    for (uint32_t k = 0; k < SN_COUNT(dtypes); k++)
        if (dtypes[k].dtype == dtype) return dtypes[k].number;
    return 0;
}

static const char *name_of(const sn_pb_tensor *t) { return t->name && t->name[0] ? t->name : "a constant"; }

static sn_status read_shape(sn_onnx_elements *out, sn_env *env, const sn_pb_tensor *t) {
    if (t->dims.n > SN_MAX_RANK)
        return sn_fail(env, SN_ERROR_UNSUPPORTED, "%s: rank %u; at most %d axes", name_of(t), t->dims.n, SN_MAX_RANK);
    out->rank = t->dims.n;
    out->numel = 1;
    bool empty = false;
    for (uint32_t k = 0; k < out->rank; k++) {
        out->shape[k] = t->dims.at[k];
        if (out->shape[k] < 0)
            return sn_fail(env, SN_ERROR_FILE, "%s: size %lld of axis %u", name_of(t), (long long)out->shape[k], k);
        empty |= out->shape[k] == 0;
        if (out->shape[k] && sn_mul_overflow(out->numel, out->shape[k], &out->numel))
            return sn_fail(env, SN_ERROR_FILE, "%s: too many elements", name_of(t));
    }
    if (empty) out->numel = 0;
    return SN_OK;
}

static sn_status raw_elements(sn_onnx_elements *out, sn_env *env, const sn_pb_tensor *t, sn_bytes raw) {
    size_t bytes = sn_dtype_bytes(out->dtype), want;
    if (sn_mul_overflow((size_t)out->numel, bytes, &want) || raw.n != want)
        return sn_fail(env, SN_ERROR_FILE, "%s: %zu bytes of elements for %lld elements of %s", name_of(t), raw.n,
                       (long long)out->numel, sn_dtypes[out->dtype].name);
    out->data = raw.at;
    return SN_OK;
}

static uint32_t typed_count(const sn_pb_tensor *t, member where) {
    switch (where) {
    case FLOATS: return t->float_data.n;
    case DOUBLES: return t->double_data.n;
    case INTS:
    case BITS: return t->int32_data.n;
    case LONGS: return t->int64_data.n;
    case ULONGS: return t->uint64_data.n;
    }
    return 0;
}

static void store_typed(char *at, const sn_pb_tensor *t, sn_dtype dtype, member where, uint32_t k) {
    switch (where) {
    case FLOATS: sn_store_float(dtype, at, (double)t->float_data.at[k]); return;
    case DOUBLES: sn_store_float(dtype, at, t->double_data.at[k]); return;
    case INTS: sn_store_int(dtype, at, t->int32_data.at[k]); return;
    case LONGS: sn_store_int(dtype, at, t->int64_data.at[k]); return;
    case ULONGS: sn_store_int(dtype, at, t->uint64_data.at[k]); return;
    case BITS: {
        uint16_t bits = (uint16_t)t->int32_data.at[k];
        memcpy(at, &bits, sizeof bits);
        return;
    }
    }
}

static sn_status typed_elements(sn_onnx_elements *out, sn_env *env, sn_arena *arena, const sn_pb_tensor *t,
                                member where) {
    uint32_t n = typed_count(t, where);
    if (n != out->numel)
        return sn_fail(env, SN_ERROR_FILE, "%s: %u elements in the file for a shape of %lld", name_of(t), n,
                       (long long)out->numel);
    uint32_t bytes = sn_dtype_bytes(out->dtype);
    char *data = sn_alloc(arena, (size_t)n * bytes + 1);
    for (uint32_t k = 0; k < n; k++) store_typed(data + (size_t)k * bytes, t, out->dtype, where, k);
    out->data = data;
    return SN_OK;
}

/* ---- integers of 4 bits ---- */

enum { UINT4 = 21, INT4 = 22 };

bool sn_onnx_is_narrow(int64_t number) { return number == UINT4 || number == INT4; }

/* Two in a byte, the first one below; byte k of raw ones, or of a list that has one in each number. */
static sn_status packed_elements(sn_onnx_elements *out, sn_env *env, sn_arena *arena, sn_onnx_files *files,
                                 const sn_pb_tensor *t) {
    sn_bytes raw = t->raw_data;
    out->dtype = t->data_type == INT4 ? SN_I8 : SN_U8;
    SN_TRY(read_shape(out, env, t));
    if (t->data_location == 1) SN_TRY(sn_onnx_external(&raw, env, files, t));
    bool is_raw = t->data_location == 1 || (t->seen & SN_PB_TENSOR_RAW);
    size_t has = is_raw ? raw.n : t->int32_data.n, wants = (size_t)out->numel / 2 + (size_t)out->numel % 2;
    if (has != wants)
        return sn_fail(env, SN_ERROR_FILE, "%s: %zu bytes of elements for %lld elements of 4 bits", name_of(t), has,
                       (long long)out->numel);
    uint8_t *data = sn_alloc(arena, (size_t)out->numel + 1);
    for (int64_t k = 0; k < out->numel; k++) {
        uint8_t both = is_raw ? raw.at[k / 2] : (uint8_t)t->int32_data.at[k / 2];
        uint8_t bits = both >> (k % 2 * 4) & 15;
        data[k] = t->data_type == INT4 ? (uint8_t)((bits ^ 8) - 8) : bits;
    }
    out->data = data;
    return SN_OK;
}

sn_status sn_onnx_tensor_elements(sn_onnx_elements *out, sn_env *env, sn_arena *arena, sn_onnx_files *files,
                                  const sn_pb_tensor *t) {
    *out = (sn_onnx_elements){0};
    if (sn_onnx_is_narrow(t->data_type)) return packed_elements(out, env, arena, files, t);
    SN_TRY(sn_onnx_dtype(&out->dtype, env, t->data_type));
    SN_TRY(read_shape(out, env, t));
    if (t->data_location == 1) {
        sn_bytes raw;
        SN_TRY(sn_onnx_external(&raw, env, files, t));
        return raw_elements(out, env, t, raw);
    }
    if (t->seen & SN_PB_TENSOR_RAW) return raw_elements(out, env, t, t->raw_data);
    return typed_elements(out, env, arena, t, find_dtype(t->data_type)->member);
}
