/* wire.c: protocol buffers' wire format, read in place.
 *
 *     08 96 01          field 1, varint 150
 *     12 03 61 62 63    field 2, three bytes "abc"
 *
 * A reader of our own, because weights are gigabytes in one field: it gives their place in the mapped file, where
 * protobuf-c copies them. Groups (wire types 3 and 4), which ONNX never had, are malformed here.
 */
#include "frontend/onnx/wire.h"

#include <string.h>

static bool take(const uint8_t **out, sn_bytes *rest, uint64_t n) {
    if (n > rest->n) return false;
    *out = rest->at;
    rest->at += n;
    rest->n -= n;
    return true;
}

static bool varint(uint64_t *out, sn_bytes *rest) {
    *out = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        const uint8_t *byte;
        if (!take(&byte, rest, 1)) return false;
        *out |= (uint64_t)(*byte & 127) << shift;
        if (*byte < 128) return true;
    }
    return false;
}

/* Little endian. */
static bool fixed(uint64_t *out, sn_bytes *rest, uint32_t size) {
    const uint8_t *at;
    if (!take(&at, rest, size)) return false;
    *out = 0;
    for (uint32_t k = 0; k < size; k++) *out |= (uint64_t)at[k] << 8 * k;
    return true;
}

bool sn_wire_number(uint64_t *out, sn_bytes *rest, sn_wire_type type) {
    switch (type) {
    case SN_WIRE_VARINT: return varint(out, rest);
    case SN_WIRE_64: return fixed(out, rest, 8);
    case SN_WIRE_32: return fixed(out, rest, 4);
    case SN_WIRE_BYTES: return false;
    }
    return false;
}

bool sn_wire_next(sn_wire_field *out, sn_bytes *rest) {
    uint64_t key, size;
    if (!varint(&key, rest) || key >> 3 == 0 || key >> 32) return false;
    *out = (sn_wire_field){.number = (uint32_t)(key >> 3), .type = (sn_wire_type)(key & 7)};
    if (out->type != SN_WIRE_BYTES) return sn_wire_number(&out->value, rest, out->type);
    if (!varint(&size, rest)) return false;
    out->bytes.n = (size_t)size;
    return take(&out->bytes.at, rest, size);
}
