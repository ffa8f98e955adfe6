/* wire.h: the wire format of protocol buffers, read in place: a message is a sequence of (field number, wire type,
 * value). https://protobuf.dev/programming-guides/encoding/
 */
#ifndef SN_FRONTEND_ONNX_WIRE_H
#define SN_FRONTEND_ONNX_WIRE_H

#include "ir/base/base.h"

/* Bytes of the file. */
typedef struct sn_bytes {
    const uint8_t *at;
    size_t n;
} sn_bytes;

typedef enum sn_wire_type { SN_WIRE_VARINT = 0, SN_WIRE_64 = 1, SN_WIRE_BYTES = 2, SN_WIRE_32 = 5 } sn_wire_type;

typedef struct sn_wire_field {
    uint32_t number;
    sn_wire_type type;
    uint64_t value; /* VARINT, 64, 32 */
    sn_bytes bytes; /* BYTES */
} sn_wire_field;

/* Takes the next field off the front of *rest, which must not be empty. false: malformed or truncated. */
bool sn_wire_next(sn_wire_field *out, sn_bytes *rest);
/* The same for one number of a packed field. */
bool sn_wire_number(uint64_t *out, sn_bytes *rest, sn_wire_type type);

#endif
