/* test_onnx_oracle.c: our reader of ONNX files against protobuf-c with the schema of the ONNX project, on all files of the
 * distribution's package of tests. Each row of proto.def is compared by itself: protobuf-c describes its messages by field numbers.
 *
 * Built without protobuf-c or the schema, or run without the package, it is skipped.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdio.h>

#ifdef SN_ONNX_SCHEMA
#include <ftw.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/onnx/proto.h"
#include <onnx.pb-c.h>

/* ---- the rows of proto.def, once more, with their numbers and places ---- */

typedef enum kind { INT, FLOAT, TEXT, BYTES, INTS, FLOATS, DOUBLES, TEXTS, NAMES, MESSAGE, MESSAGES } kind;

typedef struct message message;
typedef struct field {
    uint32_t number;
    kind kind;
    size_t offset;
    const message *of;
    const char *name;
} field;

struct message {
    const field *fields;
    size_t n, size;
};

#define SN_PB_MESSAGE(message_) static const message message_##_rows;
#define SN_PB_FIELD(message_, number, member, kind)
#define SN_PB_SUB(message_, number, member, kind, of)
#define SN_PB_END(message_)
#include "frontend/onnx/proto.def"
#undef SN_PB_MESSAGE
#undef SN_PB_FIELD
#undef SN_PB_SUB
#undef SN_PB_END

#define SN_PB_MESSAGE(message_) static const field message_##_list[] = {
#define SN_PB_FIELD(message_, number, member, kind)                                                                    \
    {number, kind, offsetof(sn_pb_##message_, member), NULL, #message_ "." #member},
#define SN_PB_SUB(message_, number, member, kind, of)                                                                  \
    {number, kind, offsetof(sn_pb_##message_, member), &of##_rows, #message_ "." #member},
#define SN_PB_END(message_)                                                                                            \
    }                                                                                                                  \
    ;                                                                                                                  \
    static const message message_##_rows = {message_##_list, SN_COUNT(message_##_list), sizeof(sn_pb_##message_)};
#include "frontend/onnx/proto.def"
#undef SN_PB_MESSAGE
#undef SN_PB_FIELD
#undef SN_PB_SUB
#undef SN_PB_END

/* ---- comparison ---- */

typedef struct place {
    const char *file;
    const field *row;
} place;

static uint64_t n_compared; /* values */

static void same(bool good, const place *p) {
    n_compared++;
    cr_assert(good, "%s: %s is not what protobuf-c reads", p->file, p->row->name);
}

static int64_t number_at(const ProtobufCFieldDescriptor *d, const void *at) {
    switch (d->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM: return *(const int32_t *)at;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64: return *(const int64_t *)at;
    default: cr_assert(false, "%s: a type of numbers that the test does not know", d->name);
    }
    return 0;
}

static bool same_bytes(const sn_bytes *x, const ProtobufCBinaryData *y) {
    return x->n == y->len && (!x->n || !memcmp(x->at, y->data, x->n));
}

static void compare(const char *file, const message *mi, const char *ours, const ProtobufCMessageDescriptor *d,
                    const char *theirs);

/* One number, text or message, at its place in both structs. */
static void compare_one(const place *p, const char *x, const ProtobufCFieldDescriptor *d, const char *y) {
    switch (p->row->kind) {
    case INT:
    case INTS: same(*(const int64_t *)x == number_at(d, y), p); break;
    case FLOAT:
    case FLOATS: same(!memcmp(x, y, sizeof(float)), p); break;
    case DOUBLES: same(!memcmp(x, y, sizeof(double)), p); break;
    case TEXT:
    case NAMES: same(!strcmp(*(const char *const *)x, *(const char *const *)y), p); break;
    case BYTES:
    case TEXTS: same(same_bytes((const sn_bytes *)x, (const ProtobufCBinaryData *)y), p); break;
    case MESSAGE: compare(p->file, p->row->of, *(const char *const *)x, d->descriptor, *(const char *const *)y); break;
    case MESSAGES: compare(p->file, p->row->of, x, d->descriptor, *(const char *const *)y); break;
    }
}

static size_t their_size(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_FLOAT: return 4;
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    default: return 8; /* numbers of 64 bits, pointers */
    }
}

static size_t our_size(const field *f) {
    switch (f->kind) {
    case FLOATS: return sizeof(float);
    case TEXTS: return sizeof(sn_bytes);
    case MESSAGES: return f->of->size;
    default: return 8;
    }
}

static void compare_list(const place *p, const char *ours, const ProtobufCFieldDescriptor *d, const char *theirs) {
    const SN_VEC(char) *list = (const void *)(ours + p->row->offset);
    size_t n = *(const size_t *)(theirs + d->quantifier_offset);
    const char *at = *(const char *const *)(theirs + d->offset);
    same(list->n == n, p);
    for (size_t k = 0; k < n; k++) compare_one(p, list->at + k * our_size(p->row), d, at + k * their_size(d->type));
}

static bool is_there(const ProtobufCFieldDescriptor *d, const char *theirs) {
    if (d->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) return *(const uint32_t *)(theirs + d->quantifier_offset) == d->id;
    if (d->type == PROTOBUF_C_TYPE_STRING || d->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(const char *const *)(theirs + d->offset) != NULL;
    return *(const protobuf_c_boolean *)(theirs + d->quantifier_offset);
}

static void compare(const char *file, const message *mi, const char *ours, const ProtobufCMessageDescriptor *d,
                    const char *theirs) {
    for (size_t k = 0; k < mi->n; k++) {
        place p = {file, &mi->fields[k]};
        const ProtobufCFieldDescriptor *fd = protobuf_c_message_descriptor_get_field(d, p.row->number);
        if (!fd) continue; /* every_row_is_in_the_schema */
        if (fd->label == PROTOBUF_C_LABEL_REPEATED) {
            compare_list(&p, ours, fd, theirs);
            continue;
        }
        bool seen = *(const uint32_t *)ours >> p.row->number & 1;
        same(seen == is_there(fd, theirs), &p);
        if (seen) compare_one(&p, ours + p.row->offset, fd, theirs + fd->offset);
    }
}

/* ---- files ---- */

typedef struct file_test {
    const char *path;
    bool model;
    bool known; /* protobuf-c could read it */
} file_test;

static sn_status compare_file(sn_context *ctx, void *user) {
    file_test *t = user;
    char *data;
    size_t n;
    SN_TRY(sn_file_read(&data, &n, &ctx->env, &ctx->scratch, t->path));
    const ProtobufCMessageDescriptor *d = t->model ? &onnx__model_proto__descriptor : &onnx__tensor_proto__descriptor;
    ProtobufCMessage *theirs = protobuf_c_message_unpack(d, NULL, n, (const uint8_t *)data);
    t->known = theirs != NULL;
    if (!theirs) return SN_OK;
    sn_bytes bytes = {(const uint8_t *)data, n};
    sn_pb_model model;
    sn_pb_tensor tensor;
    sn_status status = t->model ? sn_pb_read_model(&model, &ctx->env, &ctx->scratch, t->path, bytes)
                                : sn_pb_read_tensor(&tensor, &ctx->env, &ctx->scratch, t->path, bytes);
    if (status == SN_OK && t->model) compare(t->path, &model_rows, (char *)&model, d, (char *)theirs);
    if (status == SN_OK && !t->model) compare(t->path, &tensor_rows, (char *)&tensor, d, (char *)theirs);
    protobuf_c_message_free_unpacked(theirs, NULL);
    return status;
}

static sn_context *ctx;
static unsigned n_files, n_unknown;

static int visit(const char *path, const struct stat *info, int type, struct FTW *ftw) {
    (void)info;
    (void)ftw;
    size_t n = strlen(path);
    bool model = n > 5 && !strcmp(path + n - 5, ".onnx"), data = n > 3 && !strcmp(path + n - 3, ".pb");
    if (type != FTW_F || (!model && !data)) return 0;
    file_test t = {path, model, false};
    cr_assert_eq(sn_guarded(ctx, compare_file, &t), SN_OK, "%s", sn_error(ctx));
    n_files++;
    n_unknown += !t.known;
    return 0;
}

static const char folder[] = "/usr/share/libonnx-testdata/data";

Test(onnx_oracle, all_files_as_protobuf_reads_them, .timeout = 300) {
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    if (nftw(folder, visit, 16, FTW_PHYS) != 0) cr_skip_test("no tests of the ONNX project (libonnx-testdata)");
    cr_expect(n_files > 4000 && n_unknown < 100, "%u files, %u of them unknown", n_files, n_unknown);
    cr_expect_gt(n_compared, 100000, "%llu", (unsigned long long)n_compared);
    sn_context_destroy(ctx);
}

/* "attribute.ints": is a field of that name, give or take a plural, what the schema calls it? */
static bool is_called(const field *f, const char *name) {
    const char *member = strchr(f->name, '.') + 1;
    size_t n = strlen(member);
    char stem[64];
    snprintf(stem, sizeof stem, "%.*s", (int)(n > 1 && member[n - 1] == 's' ? n - 1 : n), member);
    return strstr(name, stem) != NULL;
}

/* A row that the schema has not, or under another name, would be compared with nothing, or with itself. The schema of Debian 12 is
 * that of ONNX 1.12. */
static void find_rows(const message *mi, const ProtobufCMessageDescriptor *d, int depth) {
    for (size_t k = 0; k < mi->n; k++) {
        const field *f = &mi->fields[k];
        const ProtobufCFieldDescriptor *fd = protobuf_c_message_descriptor_get_field(d, f->number);
        bool newer = !strcmp(f->name, "function.attribute_protos"); /* ONNX 1.13 */
        cr_expect(fd || newer, "%s, field %u of %s, is not in the schema", f->name, f->number, d->name);
        if (fd) cr_expect(is_called(f, fd->name), "%s is %s in the schema", f->name, fd->name);
        if (fd && f->of && depth < 8) find_rows(f->of, fd->descriptor, depth + 1);
    }
}

Test(onnx_oracle, every_row_is_in_the_schema) { find_rows(&model_rows, &onnx__model_proto__descriptor, 0); }

#else

Test(onnx_oracle, all_files_as_protobuf_reads_them) {
    cr_skip_test("built without protobuf-c or onnx.proto (libprotobuf-c-dev, protobuf-c-compiler, libonnx-dev)");
}

#endif
