/* test_weights.c: files of named tensors: what is written is read back, the layouts of other writers are understood, and every
 * malformed file is an error with its reason, in one line, and no memory that the file does not justify.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "include/sinter/sinter.h"
#include "tests/unit/zip_file.h"

typedef struct {
    sn_context *ctx;
    char dir[64], path[80];
} fixture;

static fixture start(void) {
    fixture f = {.dir = "/tmp/sinter-weights-XXXXXX"};
    cr_assert_eq(sn_context_create(&f.ctx, NULL), SN_OK);
    cr_assert(mkdtemp(f.dir));
    snprintf(f.path, sizeof f.path, "%s/file", f.dir);
    return f;
}

static void stop(fixture *f) {
    unlink(f->path);
    cr_expect_eq(rmdir(f->dir), 0, "something was left behind");
    sn_context_destroy(f->ctx);
}

static void put_bytes(const char *path, const void *bytes, size_t size) {
    FILE *out = fopen(path, "wb");
    fwrite(bytes, 1, size, out);
    fclose(out);
}

static size_t get_bytes(char *out, size_t cap, const char *path) {
    FILE *in = fopen(path, "rb");
    size_t n = fread(out, 1, cap, in);
    fclose(in);
    return n;
}

/* A .safetensors file from its header's text and `size` bytes 0, 1, 2, ... of elements. */
static void put_safetensors(const char *path, const char *header, size_t size) {
    FILE *out = fopen(path, "wb");
    size_t length = strlen(header);
    for (int k = 0; k < 8; k++) fputc((int)((uint64_t)length >> 8 * k & 255), out);
    fputs(header, out);
    for (size_t k = 0; k < size; k++) fputc((int)k, out);
    fclose(out);
}

static sn_status try_open(fixture *f) {
    sn_weights *w;
    sn_status status = sn_weights_open(&w, f->ctx, f->path);
    cr_expect(status == SN_OK || !w);
    sn_weights_close(w);
    return status;
}

/* ---- .safetensors ---- */

static const char good[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                           "\"b\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[16,17]},"
                           "\"a.w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                           "\"none\":{\"dtype\":\"F16\",\"shape\":[0,3],\"data_offsets\":[17,17]},"
                           "\"q\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[17,20]}}   ";

Test(weights, safetensors_is_listed_in_the_order_of_the_file) {
    fixture f = start();
    sn_weights *w;
    put_safetensors(f.path, good, 20);
    cr_assert_eq(sn_weights_open(&w, f.ctx, f.path), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_weights_count(w), 4);
    static const char *const names[] = {"a.w", "b", "none", "q"}, *const types[] = {"F32", "I8", "F16", "F8_E4M3"};
    static const sn_dtype dtypes[] = {SN_F32, SN_I8, SN_F16, SN_N_DTYPES};
    static const unsigned ranks[] = {2, 0, 2, 1}, sizes[] = {16, 1, 0, 3}, at[] = {0, 16, 17, 17};
    for (unsigned k = 0; k < 4; k++) {
        sn_weight_info info;
        cr_assert_eq(sn_weights_get(&info, w, k), SN_OK);
        cr_expect_str_eq(info.name, names[k]);
        cr_expect_str_eq(info.type, types[k]);
        cr_expect_eq(info.dtype, dtypes[k]);
        cr_expect_eq(info.rank, ranks[k]);
        cr_expect_eq(info.size, sizes[k]);
        if (info.size) cr_expect_eq(*(const unsigned char *)info.data, at[k]);
    }
    sn_weight_info info;
    cr_expect_eq(sn_weights_get(&info, w, 4), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(f.ctx), "tensor 4: the file has 4"));
    cr_assert_eq(sn_weights_find(&info, w, "a.w"), SN_OK);
    cr_expect(info.shape[0] == 2 && info.shape[1] == 2);
    sn_weights_close(w);
    stop(&f);
}

Test(weights, what_is_asked_for_and_not_there) {
    static const struct {
        const char *name, *text;
        sn_status status;
    } cases[] = {{"a.v", "file: no tensor a.v; nearest of its 4: a.w, b, q", SN_ERROR_ARGUMENT},
                 {"nine", "nearest of its 4: none, ", SN_ERROR_ARGUMENT},
                 {NULL, "which of its 4 tensors is meant? There are ", SN_ERROR_ARGUMENT},
                 {"q", "file: q: file has elements F8_E4M3, a type that Sinter has not", SN_ERROR_UNSUPPORTED}};
    fixture f = start();
    sn_weights *w;
    sn_weight_info info;
    put_safetensors(f.path, good, 20);
    cr_assert_eq(sn_weights_open(&w, f.ctx, f.path), SN_OK);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        cr_expect_eq(sn_weights_find(&info, w, cases[k].name), cases[k].status);
        cr_expect(strstr(sn_error(f.ctx), cases[k].text), "case %zu: \"%s\"", k, sn_error(f.ctx));
    }
    sn_weights_close(w);
    put_safetensors(f.path, "{}", 0);
    cr_assert_eq(sn_weights_open(&w, f.ctx, f.path), SN_OK, "%s", sn_error(f.ctx));
    cr_expect_eq(sn_weights_find(&info, w, "a"), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(f.ctx), "no tensor a; the file has none"));
    sn_weights_close(w);
    stop(&f);
}

Test(weights, loaded_into_tensors) {
    fixture f = start();
    sn_weights *w;
    sn_tensor *t, *wide;
    float got[4], want[4];
    unsigned char bytes[16];
    for (int k = 0; k < 16; k++) bytes[k] = (unsigned char)k;
    memcpy(want, bytes, sizeof want);
    put_safetensors(f.path, good, 20);
    cr_assert_eq(sn_weights_open(&w, f.ctx, f.path), SN_OK);
    sn_tensor_create(&t, f.ctx, SN_CPU, SN_F32, SN_LIST(2, 2));
    sn_tensor_create(&wide, f.ctx, SN_CPU, SN_F64, SN_LIST(2));
    cr_assert_eq(sn_tensor_load(t, w, "a.w"), SN_OK, "%s", sn_error(f.ctx));
    sn_tensor_read(got, t, sizeof got);
    cr_expect_arr_eq(got, want, sizeof got);
    cr_expect_eq(sn_tensor_load(t, w, "none"), SN_ERROR_TYPE);
    cr_expect(strstr(sn_error(f.ctx), "file: none: file has elements F16, the graph wants f32 (F32)"));
    cr_expect_eq(sn_tensor_load(wide, w, "q"), SN_ERROR_TYPE);
    cr_expect_eq(sn_tensor_load(wide, w, "b"), SN_ERROR_TYPE);
    sn_tensor_destroy(t);
    sn_tensor_create(&t, f.ctx, SN_CPU, SN_F32, SN_LIST(4));
    cr_expect_eq(sn_tensor_load(t, w, "a.w"), SN_ERROR_TYPE);
    cr_expect(strstr(sn_error(f.ctx), "file: a.w: file has shape [2, 2], the graph wants [4]"));
    sn_tensor_destroy(t);
    sn_tensor_destroy(wide);
    sn_weights_close(w);
    stop(&f);
}

Test(weights, safetensors_headers_that_are_wrong) {
    static const struct {
        const char *header;
        size_t size;
        const char *text;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", 8, "malformed header: '}' expected"},
        {"{} x", 0, "malformed header: end of file expected"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, "malformed header: duplicate object key"},
        {"{\"a\":[]}", 0, "a: no dtype in the header"},
        {"{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "a: no dtype in the header"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "a: its shape is no list of up to 8 sizes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, "a: its shape is no list"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "a: its shape is no list"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", 8,
         "a: its shape is no list"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}", 8, "too big integer"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
         "a: shape [4611686018427387904] has too many elements"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8,
         "a: its data_offsets are not two ascending"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8,
         "a: its data_offsets are not two ascending"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7,
         "truncated: tensor a ends at byte 8 of the elements, there are 7"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9]}}", 9,
         "a: F32[2] has 8 bytes, its data_offsets span 9"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9, "1 bytes after the last tensor"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3,
         "1 bytes between the header and a belong to no tensor"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
         5, "1 bytes between a and b belong to no tensor"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "tensors a and b overlap"},
        {"{\"__metadata__\":3}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: a is not a text"}};
    fixture f = start();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        put_safetensors(f.path, cases[k].header, cases[k].size);
        cr_expect_eq(try_open(&f), SN_ERROR_FILE, "case %zu", k);
        cr_expect(strstr(sn_error(f.ctx), cases[k].text), "case %zu: \"%s\"", k, sn_error(f.ctx));
    }
    stop(&f);
}

Test(weights, files_that_are_broken) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *text;
    } cases[] = {{"", 0, "no file of tensors: its first bytes are not those of .safetensors, .npz or .npy"},
                 {"\0\0\0\0\0\0\0\0", 8, "no file of tensors"},
                 {"\2\0\0\0\0\0\0\0[]", 10, "no file of tensors"},
                 {"\3\0\0\0\0\0\0\0{}", 10, "truncated: its header has 3 bytes, the file 10"},
                 {"\0\0\0\x80\0\0\0\0{}", 10, "truncated: its header has 2147483648 bytes, the file 10"},
                 {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "truncated: its header has 18446744073709551615 bytes"},
                 {"PK\3\4 an archive", 15, "broken zip archive: Not a zip archive"},
                 {"\x93NUMPY\x01", 7, "not an .npy file"}};
    fixture f = start();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        put_bytes(f.path, cases[k].bytes, cases[k].size);
        cr_expect_eq(try_open(&f), SN_ERROR_FILE, "case %zu", k);
        cr_expect(strstr(sn_error(f.ctx), cases[k].text), "case %zu: \"%s\"", k, sn_error(f.ctx));
    }
    unlink(f.path);
    cr_expect_eq(try_open(&f), SN_ERROR_FILE);
    cr_expect(strstr(sn_error(f.ctx), "cannot open"));
    stop(&f);
}

/* ---- writing ---- */

Test(weights, every_type_is_written_and_read_back) {
    fixture f = start();
    unsigned char bytes[3 * 8];
    char names[SN_N_DTYPES][16];
    sn_weight_info in[SN_N_DTYPES], out;
    for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (unsigned char)(k & 1);
    for (int k = 0; k < SN_N_DTYPES; k++) {
        snprintf(names[k], sizeof names[k], "\"%s\"\n", sn_dtype_name((sn_dtype)k)); /* names that need an escape */
        in[k] = (sn_weight_info){.name = names[k], .dtype = (sn_dtype)k, .rank = 2, .shape = {3, 1}, .data = bytes};
        in[k].size = 3 * sn_dtype_size((sn_dtype)k);
    }
    cr_assert_eq(sn_weights_save(f.ctx, f.path, SN_N_DTYPES, in), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_weights_save(f.ctx, f.path, SN_N_DTYPES, in), SN_OK, "over one that exists: %s", sn_error(f.ctx));
    sn_weights *w;
    cr_assert_eq(sn_weights_open(&w, f.ctx, f.path), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_weights_count(w), SN_N_DTYPES);
    for (int k = 0; k < SN_N_DTYPES; k++) {
        cr_assert_eq(sn_weights_find(&out, w, names[k]), SN_OK, "%s", sn_error(f.ctx));
        cr_expect(out.dtype == (sn_dtype)k && out.rank == 2 && out.shape[0] == 3 && out.shape[1] == 1);
        cr_assert_eq(out.size, in[k].size);
        cr_expect_arr_eq(out.data, bytes, out.size);
        cr_expect_eq((uintptr_t)out.data % sn_dtype_size((sn_dtype)k), 0, "%s is not aligned", names[k]);
    }
    sn_weights_close(w);
    stop(&f);
}

Test(weights, what_cannot_be_written) {
    static const float x[2];
    static const struct {
        sn_weight_info at[2];
        unsigned n;
        const char *text;
    } cases[] = {
        {{{.name = "a", .dtype = SN_F32, .rank = 1, .shape = {2}, .data = x, .size = 7}},
         1,
         "a: 7 bytes of elements are given for F32[2]"},
        {{{.name = "a", .dtype = SN_F32, .rank = 1, .shape = {2}, .size = 8}}, 1, "a: 0 bytes of elements are given"},
        {{{.name = "a", .dtype = SN_F32, .rank = 1, .shape = {-2}, .data = x}}, 1, "F32[-2]"},
        {{{.name = "a", .dtype = SN_N_DTYPES}}, 1, "a: element type "},
        {{{.name = "__metadata__", .dtype = SN_F32}}, 1, "'__metadata__' cannot be the name of a tensor"},
        {{{.name = ""}}, 1, "'' cannot be the name"},
        {{{.name = "\xff", .dtype = SN_F32, .rank = 1}}, 1, "is not UTF-8"},
        {{{.name = "a", .dtype = SN_F32, .rank = 1}, {.name = "a", .dtype = SN_I8, .rank = 1}}, 2, "a is given twice"}};
    fixture f = start();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        cr_expect_eq(sn_weights_save(f.ctx, f.path, cases[k].n, cases[k].at), SN_ERROR_ARGUMENT, "case %zu", k);
        cr_expect(strstr(sn_error(f.ctx), cases[k].text), "case %zu: \"%s\"", k, sn_error(f.ctx));
        cr_expect(access(f.path, F_OK) != 0);
    }
    sn_weight_info one = {.name = "a", .dtype = SN_F32, .rank = 1, .shape = {2}, .data = x, .size = 8};
    cr_expect_eq(sn_weights_save(f.ctx, "/nowhere/x", 1, &one), SN_ERROR_FILE);
    cr_expect(strstr(sn_error(f.ctx), "cannot write /nowhere/x: No such file or directory"));
    cr_expect_eq(sn_weights_save(f.ctx, "/dev/full", 1, &one), SN_ERROR_FILE);
    cr_expect(strstr(sn_error(f.ctx), "cannot write /dev/full: No space left on device"));
    stop(&f);
}

/* The file that was there stays, and no half one beside it. */
Test(weights, a_disk_that_is_full) {
    fixture f = start();
    static char large[1 << 16];
    sn_weight_info one = {.name = "a", .dtype = SN_I8, .rank = 1, .shape = {sizeof large}, .data = large};
    one.size = sizeof large;
    put_bytes(f.path, "old", 3);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 5000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    sn_status status = sn_weights_save(f.ctx, f.path, 1, &one);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    cr_assert_eq(status, SN_ERROR_FILE);
    cr_expect(strstr(sn_error(f.ctx), "cannot write ") && strstr(sn_error(f.ctx), "File too large"), "%s",
              sn_error(f.ctx));
    char got[8];
    cr_expect_eq(get_bytes(got, sizeof got, f.path), 3);
    stop(&f); /* which finds that the folder is empty */
}

/* ---- .npy and .npz ---- */

static size_t npy(char *out, const char *descr, bool fortran, const char *shape, const void *data, size_t size) {
    int n = sprintf(out + 10, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr,
                    fortran ? "True" : "False", shape);
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (char)n;
    out[9] = (char)(n >> 8);
    memcpy(out + 10 + n, data, size);
    return 10 + (size_t)n + size;
}

static const float six[6] = {1, 2, 3, 4, 5, 6};

Test(weights, npy_is_a_file_of_one) {
    fixture f = start();
    char bytes[256], want[64];
    sn_weights *w;
    sn_weight_info info;
    put_bytes(f.path, bytes, npy(bytes, "<f4", true, "(2, 3)", six, sizeof six));
    cr_assert_eq(sn_weights_open(&w, f.ctx, f.path), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_weights_find(&info, w, NULL), SN_OK);
    cr_expect(info.dtype == SN_F32 && info.rank == 2 && !strcmp(info.name, "file") && !strcmp(info.type, "<f4"));
    cr_expect_arr_eq(info.data, ((float[]){1, 3, 5, 2, 4, 6}), sizeof six);
    sn_weights_close(w);
    static const struct {
        const char *descr, *shape, *text;
        size_t size;
    } cases[] = {{"<f4", "(2, 3)", "truncated: 23 bytes of elements, 24 are wanted", 23},
                 {"<f4", "(2, 2)", "8 bytes after the last element", 24},
                 {"<f4", "(9223372036854775807, 3)", "shape [9223372036854775807, 3] has too many elements", 24},
                 {"<f4", "(9999999999999999999999,)", "has too many elements", 24},
                 {"<f4", "(1,1,1,1,1,1,1,1,6)", "malformed .npy header", 24}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        put_bytes(f.path, bytes, npy(bytes, cases[k].descr, false, cases[k].shape, six, cases[k].size));
        cr_expect_eq(try_open(&f), SN_ERROR_FILE, "case %zu", k);
        cr_expect(strstr(sn_error(f.ctx), cases[k].text), "case %zu: \"%s\"", k, sn_error(f.ctx));
    }
    static const char *const refused[][2] = {{"<c8", "file: file has elements <c8, a type that Sinter has not"},
                                             {">f4", "file: file is big endian (>f4); little endian is read"}};
    for (size_t k = 0; k < 2; k++) {
        put_bytes(f.path, bytes, npy(bytes, refused[k][0], false, "(6,)", six, sizeof six));
        cr_assert_eq(sn_weights_open(&w, f.ctx, f.path), SN_OK, "%s", sn_error(f.ctx));
        cr_expect_neq(sn_weights_find(&info, w, "file"), SN_OK);
        snprintf(want, sizeof want, "%s", refused[k][1]);
        cr_expect(strstr(sn_error(f.ctx), want), "%s", sn_error(f.ctx));
        sn_weights_close(w);
    }
    stop(&f);
}

/* x stored, y deflated and in Fortran order, bits of bf16, a type that Sinter has not, something else. */
static void put_npz(const char *path) {
    char bytes[5][512];
    const zip_member members[] = {{"x.npy", bytes[0], npy(bytes[0], "<f4", false, "(6,)", six, sizeof six), false},
                                  {"enc/y.npy", bytes[1], npy(bytes[1], "<f4", true, "(2, 3)", six, sizeof six), true},
                                  {"half.npy", bytes[2], npy(bytes[2], "<u2", false, "(3,)", six, 6), true},
                                  {"complex.npy", bytes[3], npy(bytes[3], "<c8", false, "(3,)", six, sizeof six), true},
                                  {"notes.txt", "hello", 5, false},
                                  {"none.npy", bytes[4], npy(bytes[4], "<f4", false, "(0, 3)", six, 0), true}};
    cr_assert(zip_file_write(path, members, 6));
}

Test(weights, npz_members) {
    fixture f = start();
    sn_weights *w;
    sn_weight_info info;
    put_npz(f.path);
    cr_assert_eq(sn_weights_open(&w, f.ctx, f.path), SN_OK, "%s", sn_error(f.ctx));
    cr_expect_eq(sn_weights_count(w), 5);
    cr_assert_eq(sn_weights_find(&info, w, "x"), SN_OK, "%s", sn_error(f.ctx));
    cr_expect_arr_eq(info.data, six, sizeof six);
    cr_assert_eq(sn_weights_find(&info, w, "enc/y"), SN_OK, "%s", sn_error(f.ctx));
    cr_expect_arr_eq(info.data, ((float[]){1, 3, 5, 2, 4, 6}), sizeof six);
    cr_assert_eq(sn_weights_get(&info, w, 4), SN_OK, "%s", sn_error(f.ctx));
    cr_expect(!strcmp(info.name, "none") && info.size == 0 && info.shape[1] == 3);
    cr_assert_eq(sn_weights_get(&info, w, 3), SN_OK, "%s", sn_error(f.ctx));
    cr_expect(info.dtype == SN_N_DTYPES && !strcmp(info.type, "<c8") && info.size == sizeof six);
    cr_expect_eq(sn_weights_find(&info, w, "complex"), SN_ERROR_UNSUPPORTED);
    cr_expect(strstr(sn_error(f.ctx), "complex: file has elements <c8, a type that Sinter has not"));
    sn_tensor *t;
    unsigned short bits[3];
    sn_tensor_create(&t, f.ctx, SN_CPU, SN_BF16, SN_LIST(3));
    cr_assert_eq(sn_tensor_load(t, w, "half"), SN_OK, "%s", sn_error(f.ctx));
    sn_tensor_read(bits, t, sizeof bits);
    cr_expect_arr_eq(bits, six, sizeof bits);
    sn_tensor_destroy(t);
    sn_weights_close(w);
    stop(&f);
}

/* The first place of some bytes in others. */
static char *place(char *in, size_t n, const char *bytes, size_t size) {
    for (size_t k = 0; k + size <= n; k++)
        if (!memcmp(in + k, bytes, size)) return in + k;
    return NULL;
}

Test(weights, npz_that_is_wrong) {
    fixture f = start();
    sn_weights *w;
    sn_weight_info info;
    char bytes[4096];
    put_npz(f.path);
    size_t n = get_bytes(bytes, sizeof bytes, f.path);
    char *elements = place(bytes, n, (const char *)six, sizeof six);
    cr_assert(elements);
    elements[5] ^= 1;
    put_bytes(f.path, bytes, n);
    cr_assert_eq(sn_weights_open(&w, f.ctx, f.path), SN_OK, "%s", sn_error(f.ctx));
    cr_expect_eq(sn_weights_find(&info, w, "x"), SN_ERROR_FILE);
    cr_expect(strstr(sn_error(f.ctx), "x.npy: CRC error"), "%s", sn_error(f.ctx));
    cr_expect_eq(sn_weights_get(&info, w, 1), SN_OK, "the others are as they were: %s", sn_error(f.ctx));
    sn_weights_close(w);
    elements[5] ^= 1;

    /* The second entry of the archive's directory: flags at 8, method at 10, length at 20, length inflated at 24. */
    char *entry = place(bytes, n, "PK\1\2", 4);
    entry = place(entry + 4, n - (size_t)(entry + 4 - bytes), "PK\1\2", 4);
    static const struct {
        int at;
        unsigned char value;
        const char *text;
        sn_status status;
    } cases[] = {{8, 1, "enc/y.npy: encrypted members are not read", SN_ERROR_UNSUPPORTED},
                 {10, 12, "enc/y.npy: compression method 12; stored and deflated", SN_ERROR_UNSUPPORTED},
                 {23, 0x7f, "enc/y.npy: truncated: 21", SN_ERROR_FILE},
                 {27, 0x7f, " bytes cannot become 21", SN_ERROR_FILE}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char was = entry[cases[k].at];
        entry[cases[k].at] = (char)cases[k].value;
        put_bytes(f.path, bytes, n);
        cr_expect_eq(try_open(&f), cases[k].status, "case %zu", k);
        cr_expect(strstr(sn_error(f.ctx), cases[k].text), "case %zu: \"%s\"", k, sn_error(f.ctx));
        entry[cases[k].at] = was;
    }
    const zip_member text = {"notes.txt", "hello", 5, false}, wrong = {"a.npy", "hello, hello", 12, true};
    cr_assert(zip_file_write(f.path, &text, 1));
    cr_expect_eq(try_open(&f), SN_ERROR_FILE);
    cr_expect(strstr(sn_error(f.ctx), "no .npz file: none of the archive's 1 members is an .npy file"));
    cr_assert(zip_file_write(f.path, &wrong, 1));
    cr_expect_eq(try_open(&f), SN_ERROR_FILE);
    cr_expect(strstr(sn_error(f.ctx), "a.npy: not an .npy file"), "%s", sn_error(f.ctx));
    stop(&f);
}

/* ---- any damage ---- */

/* Open and read everything: it works, or fails with one line. */
static void survives(fixture *f) {
    sn_weights *w;
    sn_weight_info info;
    sn_status status = sn_weights_open(&w, f->ctx, f->path);
    cr_assert(status == SN_OK || (sn_error(f->ctx)[0] && !strchr(sn_error(f->ctx), '\n')));
    for (unsigned k = 0; status == SN_OK && k < sn_weights_count(w); k++) {
        unsigned sum = 0;
        if (sn_weights_get(&info, w, k) != SN_OK) cr_assert(sn_error(f->ctx)[0]);
        else
            for (size_t b = 0; b < info.size; b++) sum += ((const unsigned char *)info.data)[b];
        cr_assert(sum < 1 << 20);
    }
    sn_weights_close(w);
}

static void damage(fixture *f) {
    char bytes[4096];
    size_t n = get_bytes(bytes, sizeof bytes, f->path);
    cr_assert(n > 100 && n < sizeof bytes);
    for (size_t k = 0; k < n; k++) {
        put_bytes(f->path, bytes, k);
        survives(f);
    }
    for (size_t k = 0; k < 8 * n; k++) {
        bytes[k / 8] ^= (char)(1 << k % 8);
        put_bytes(f->path, bytes, n);
        survives(f);
        bytes[k / 8] ^= (char)(1 << k % 8);
    }
}

Test(weights, every_bit_and_every_length_of_safetensors) {
    fixture f = start();
    put_safetensors(f.path, good, 20);
    damage(&f);
    stop(&f);
}

Test(weights, every_bit_and_every_length_of_npz) {
    fixture f = start();
    put_npz(f.path);
    damage(&f);
    stop(&f);
}

/* ---- memory that runs out ---- */

static void *limited(void *user, void *p, size_t size) {
    long *left = user;
    if (size == 0) return free(p), NULL;
    if (*left == 0) return NULL;
    --*left;
    return realloc(p, size);
}

static void starve(const char *path) {
    sn_status status = SN_ERROR_MEMORY;
    for (long n = 1; status != SN_OK; n++) {
        long left = n;
        sn_context_options hooks = {.struct_size = sizeof hooks, .realloc_fn = limited, .realloc_user = &left};
        sn_context *ctx;
        sn_weights *w = NULL;
        sn_weight_info info;
        status = sn_context_create(&ctx, &hooks);
        if (status == SN_OK) status = sn_weights_open(&w, ctx, path);
        for (unsigned k = 0; status == SN_OK && k < sn_weights_count(w); k++) status = sn_weights_get(&info, w, k);
        cr_assert(status == SN_OK || status == SN_ERROR_MEMORY, "%ld: %s", n, sn_error(ctx));
        sn_weights_close(w);
        sn_context_destroy(ctx);
    }
}

Test(weights, memory_that_runs_out) {
    fixture f = start();
    put_safetensors(f.path, good, 20);
    starve(f.path);
    put_npz(f.path);
    starve(f.path);
    stop(&f);
}
