/* proto.c: one reader for all messages of ONNX files, driven by proto.def.
 *
 * A message becomes a zeroed struct whose members are filled by field number; unknown fields are skipped, as the format
 * asks. Strangers write these files: every length is checked by wire.c, messages nest at most 100 deep, and what is
 * allocated is bounded by the size of the file (a list grows by an element for at least two bytes read).
 */
#include "frontend/onnx/proto.h"

#include <string.h>

enum { MAX_DEPTH = 100, MAX_NAME = 1 << 16 };

typedef enum field_kind {
    KIND_INT,
    KIND_FLOAT,
    KIND_TEXT,
    KIND_BYTES,
    KIND_INTS,
    KIND_FLOATS,
    KIND_DOUBLES,
    KIND_TEXTS,
    KIND_NAMES,
    KIND_MESSAGE,
    KIND_MESSAGES
} field_kind;

typedef struct message_info message_info;
typedef struct field_info {
    uint32_t number;
    field_kind kind;
    size_t offset; /* of the member */
    const message_info *of;
} field_info;

struct message_info {
    const char *name;
    size_t size;
    const field_info *fields;
    uint32_t n;
};

/* Every message may be named before its fields are known. */
#define SN_PB_MESSAGE(message) static const message_info message##_info;
#define SN_PB_FIELD(message, number, member, kind)
#define SN_PB_SUB(message, number, member, kind, of)
#define SN_PB_END(message)
#include "frontend/onnx/proto.def"
#undef SN_PB_MESSAGE
#undef SN_PB_FIELD
#undef SN_PB_SUB
#undef SN_PB_END

#define SN_PB_MESSAGE(message) static const field_info message##_fields[] = {
#define SN_PB_FIELD(message, number, member, kind) {number, KIND_##kind, offsetof(sn_pb_##message, member), NULL},
#define SN_PB_SUB(message, number, member, kind, of)                                                                   \
    {number, KIND_##kind, offsetof(sn_pb_##message, member), &of##_info},
#define SN_PB_END(message)                                                                                             \
    }                                                                                                                  \
    ;                                                                                                                  \
    static const message_info message##_info = {#message, sizeof(sn_pb_##message), message##_fields,                   \
                                                SN_COUNT(message##_fields)};
#include "frontend/onnx/proto.def"
#undef SN_PB_MESSAGE
#undef SN_PB_FIELD
#undef SN_PB_SUB
#undef SN_PB_END

typedef struct reader {
    sn_env *env;
    sn_arena *arena;
    const char *what;
    const uint8_t *start; /* of the file: places in messages */
    uint32_t depth;
} reader;

static sn_status malformed(const reader *r, const message_info *mi, const uint8_t *at) {
    return sn_fail(r->env, SN_ERROR_FILE, "%s: byte %zu: malformed or truncated %s message", r->what,
                   (size_t)(at - r->start), mi->name);
}

static sn_status read_message(reader *r, void *out, const message_info *mi, sn_bytes bytes);

/* ---- lists: all SN_VECs have one layout ---- */

typedef SN_VEC(char) any_list;

static void *list_add(reader *r, void *list, size_t size) {
    any_list *l = list;
    if (l->n == l->cap) l->at = sn_vec_grow(r->arena, l->at, l->n, &l->cap, size);
    return memset(l->at + size * l->n++, 0, size);
}

static float float_of(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}

static void add_number(reader *r, void *member, field_kind kind, uint64_t bits) {
    if (kind == KIND_INTS) *(int64_t *)list_add(r, member, sizeof(int64_t)) = (int64_t)bits;
    else if (kind == KIND_FLOATS) *(float *)list_add(r, member, sizeof(float)) = float_of(bits);
    else memcpy(list_add(r, member, sizeof(double)), &bits, sizeof bits);
}

static sn_wire_type number_type(field_kind kind) {
    return kind == KIND_FLOATS || kind == KIND_FLOAT ? SN_WIRE_32 : kind == KIND_DOUBLES ? SN_WIRE_64 : SN_WIRE_VARINT;
}

/* One number, or a packed list of them. */
static bool read_numbers(reader *r, void *member, field_kind kind, const sn_wire_field *f) {
    if (f->type != SN_WIRE_BYTES) {
        if (f->type != number_type(kind)) return false;
        add_number(r, member, kind, f->value);
        return true;
    }
    sn_bytes rest = f->bytes;
    for (uint64_t bits; rest.n; add_number(r, member, kind, bits))
        if (!sn_wire_number(&bits, &rest, number_type(kind))) return false;
    return true;
}

/* A name, NUL-terminated. One with a NUL inside is malformed: it would be cut silently. */
static bool read_text(reader *r, const char **out, sn_bytes b) {
    if (b.n && memchr(b.at, 0, b.n)) return false;
    if (b.n > MAX_NAME)
        return sn_fail(r->env, SN_ERROR_FILE, "%s: byte %zu: a name of %zu bytes; at most %d are read", r->what,
                       (size_t)(b.at - r->start), b.n, MAX_NAME) == SN_OK;
    *out = sn_strndup(r->arena, (const char *)b.at, b.n);
    return true;
}

/* The message of a pointer member may come in parts, which add up. */
static sn_status read_sub(reader *r, void *member, const field_info *fi, sn_bytes bytes) {
    if (fi->kind == KIND_MESSAGES) return read_message(r, list_add(r, member, fi->of->size), fi->of, bytes);
    void **place = member;
    if (!*place) *place = sn_zalloc(r->arena, fi->of->size);
    return read_message(r, *place, fi->of, bytes);
}

static sn_status read_field(reader *r, char *out, const message_info *mi, const field_info *fi, const sn_wire_field *f,
                            const uint8_t *at) {
    void *member = out + fi->offset;
    bool bytes = f->type == SN_WIRE_BYTES, good = bytes;
    switch (fi->kind) {
    case KIND_INT:
        *(int64_t *)member = (int64_t)f->value;
        good = f->type == SN_WIRE_VARINT;
        break;
    case KIND_FLOAT:
        *(float *)member = float_of(f->value);
        good = f->type == SN_WIRE_32;
        break;
    case KIND_TEXT: good = bytes && read_text(r, member, f->bytes); break;
    case KIND_BYTES: *(sn_bytes *)member = f->bytes; break;
    case KIND_INTS:
    case KIND_FLOATS:
    case KIND_DOUBLES: good = read_numbers(r, member, fi->kind, f); break;
    case KIND_TEXTS:
        if (bytes) *(sn_bytes *)list_add(r, member, sizeof(sn_bytes)) = f->bytes;
        break;
    case KIND_NAMES: good = bytes && read_text(r, list_add(r, member, sizeof(char *)), f->bytes); break;
    case KIND_MESSAGE:
    case KIND_MESSAGES:
        if (bytes) return read_sub(r, member, fi, f->bytes);
        break;
    }
    return good ? SN_OK : malformed(r, mi, at);
}

static const field_info *find_field(const message_info *mi, uint32_t number) {
    for (uint32_t k = 0; k < mi->n; k++)
        if (mi->fields[k].number == number) return &mi->fields[k];
    return NULL;
}

static sn_status read_message(reader *r, void *out, const message_info *mi, sn_bytes bytes) {
    if (++r->depth > MAX_DEPTH)
        return sn_fail(r->env, SN_ERROR_FILE, "%s: messages nest more than %d deep", r->what, MAX_DEPTH);
    while (bytes.n) {
        const uint8_t *at = bytes.at;
        sn_wire_field f;
        if (!sn_wire_next(&f, &bytes)) return malformed(r, mi, at);
        const field_info *fi = find_field(mi, f.number);
        if (!fi) continue;
        if (f.number < 32) *(uint32_t *)out |= 1u << f.number;
        SN_TRY(read_field(r, out, mi, fi, &f, at));
    }
    r->depth--;
    return SN_OK;
}

static sn_status read_file(void *out, sn_env *env, sn_arena *arena, const char *what, const message_info *mi,
                           sn_bytes bytes) {
    reader r = {.env = env, .arena = arena, .what = what, .start = bytes.at};
    memset(out, 0, mi->size);
    return read_message(&r, out, mi, bytes);
}

sn_status sn_pb_read_model(sn_pb_model *out, sn_env *env, sn_arena *arena, const char *what, sn_bytes bytes) {
    return read_file(out, env, arena, what, &model_info, bytes);
}

sn_status sn_pb_read_tensor(sn_pb_tensor *out, sn_env *env, sn_arena *arena, const char *what, sn_bytes bytes) {
    return read_file(out, env, arena, what, &tensor_info, bytes);
}

sn_status sn_pb_read_sequence(sn_pb_sequence *out, sn_env *env, sn_arena *arena, const char *what, sn_bytes bytes) {
    return read_file(out, env, arena, what, &sequence_info, bytes);
}

sn_status sn_pb_read_optional(sn_pb_optional *out, sn_env *env, sn_arena *arena, const char *what, sn_bytes bytes) {
    return read_file(out, env, arena, what, &optional_info, bytes);
}
