/* test_npy.c: .npy files: what is written is read back, numpy's layouts are understood, and every malformed file is an
 * error with its reason.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "include/sinter/sinter.h"

typedef struct {
    sn_context *ctx;
    char path[64];
} fixture;

static fixture start(void) {
    fixture f = {.path = "/tmp/sinter-npy-XXXXXX"};
    cr_assert_eq(sn_context_create(&f.ctx, NULL), SN_OK);
    int fd = mkstemp(f.path);
    cr_assert(fd >= 0);
    close(fd);
    return f;
}

static void stop(fixture *f) {
    unlink(f->path);
    sn_context_destroy(f->ctx);
}

/* A file from a header's text (padding and newline are added) and elements. */
static void put_file(const char *path, int version, const char *header, const void *data, size_t size) {
    FILE *f = fopen(path, "wb");
    size_t length = strlen(header) + 1;
    fwrite("\x93NUMPY", 1, 6, f);
    fputc(version, f);
    fputc(0, f);
    for (int k = 0; k < (version == 1 ? 2 : 4); k++) fputc((int)(length >> 8 * k & 255), f);
    fprintf(f, "%s\n", header);
    fwrite(data, 1, size, f);
    fclose(f);
}

static sn_status load(float *out, fixture *f) {
    sn_tensor *t;
    cr_assert_eq(sn_tensor_create(&t, f->ctx, SN_CPU, SN_F32, SN_LIST(2, 3)), SN_OK);
    sn_status status = sn_tensor_load_npy(t, "x", f->path);
    if (status == SN_OK) sn_tensor_read(out, t, 6 * sizeof *out);
    sn_tensor_destroy(t);
    return status;
}

static const float six[6] = {1, 2, 3, 4, 5, 6};

Test(npy, every_type_comes_back) {
    fixture f = start();
    for (int dtype = 0; dtype < SN_N_DTYPES; dtype++) {
        sn_tensor *a, *b;
        unsigned char data[6 * 8] = {1, 0, 1, 1, 0, 0, 1, 0, 1}, back[6 * 8];
        size_t size = 6 * sn_dtype_size((sn_dtype)dtype);
        sn_tensor_create(&a, f.ctx, SN_CPU, (sn_dtype)dtype, SN_LIST(1, 6));
        sn_tensor_create(&b, f.ctx, SN_CPU, (sn_dtype)dtype, SN_LIST(1, 6));
        sn_tensor_write(a, data, size);
        cr_assert_eq(sn_tensor_save_npy(a, f.path), SN_OK, "%s", sn_error(f.ctx));
        cr_assert_eq(sn_tensor_load_npy(b, "b", f.path), SN_OK, "%s: %s", sn_dtype_name((sn_dtype)dtype),
                     sn_error(f.ctx));
        sn_tensor_read(back, b, size);
        cr_assert_arr_eq(back, data, size);
        sn_tensor_destroy(a);
        sn_tensor_destroy(b);
    }
    stop(&f);
}

/* <u2 are the numbers of a u16 tensor, and the bits of a bf16 one. */
Test(npy, bits_of_bf16_are_u16) {
    fixture f = start();
    sn_tensor *a, *b;
    const uint16_t data[3] = {0x3f80, 65535, 0};
    uint16_t back[3];
    sn_tensor_create(&a, f.ctx, SN_CPU, SN_U16, SN_LIST(3));
    sn_tensor_create(&b, f.ctx, SN_CPU, SN_BF16, SN_LIST(3));
    sn_tensor_write(a, data, sizeof data);
    cr_assert_eq(sn_tensor_save_npy(a, f.path), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_tensor_load_npy(b, "b", f.path), SN_OK, "%s", sn_error(f.ctx));
    sn_tensor_read(back, b, sizeof back);
    cr_assert_arr_eq(back, data, sizeof data);
    cr_assert_eq(sn_tensor_save_npy(b, f.path), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_tensor_load_npy(a, "a", f.path), SN_OK, "%s", sn_error(f.ctx));
    sn_tensor_destroy(a);
    sn_tensor_destroy(b);
    stop(&f);
}

Test(npy, written_as_numpy_writes) {
    fixture f = start();
    sn_tensor *t;
    sn_tensor_create(&t, f.ctx, SN_CPU, SN_F32, SN_LIST(3));
    sn_tensor_save_npy(t, f.path);
    sn_tensor_destroy(t);
    char file[256] = "";
    FILE *in = fopen(f.path, "rb");
    size_t n = fread(file, 1, sizeof file, in);
    fclose(in);
    cr_assert_eq(n, 128 + 12); /* elements start at a multiple of 64 */
    cr_assert_arr_eq(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    cr_assert(strstr(file + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }") == file + 10);
    cr_assert_eq(file[127], '\n');
    stop(&f);
}

/* The file that was there stays: none is half written. */
Test(npy, a_disk_that_is_full) {
    fixture f = start();
    sn_tensor *large, *old;
    cr_assert_eq(sn_tensor_create(&large, f.ctx, SN_CPU, SN_F32, SN_LIST(1 << 14)), SN_OK);
    cr_assert_eq(sn_tensor_create(&old, f.ctx, SN_CPU, SN_F32, SN_LIST(2, 3)), SN_OK);
    cr_assert_eq(sn_tensor_write(old, six, sizeof six), SN_OK);
    cr_assert_eq(sn_tensor_save_npy(old, f.path), SN_OK);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 5000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    sn_status status = sn_tensor_save_npy(large, f.path);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    cr_expect_eq(status, SN_ERROR_FILE);
    cr_expect(strstr(sn_error(f.ctx), "cannot write ") && strstr(sn_error(f.ctx), "File too large"), "%s",
              sn_error(f.ctx));
    float back[6];
    cr_expect_eq(load(back, &f), SN_OK);
    cr_expect(!memcmp(back, six, sizeof six));
    sn_tensor_destroy(large);
    sn_tensor_destroy(old);
    stop(&f);
}

Test(npy, orders_and_versions) {
    fixture f = start();
    float got[6];
    put_file(f.path, 2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", six, sizeof six);
    cr_assert_eq(load(got, &f), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_arr_eq(got, six, sizeof six);
    put_file(f.path, 1, "{'shape': (2, 3), 'fortran_order': True, 'descr': '<f4'}", six, sizeof six);
    cr_assert_eq(load(got, &f), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_arr_eq(got, ((float[]){1, 3, 5, 2, 4, 6}), sizeof six);
    stop(&f);
}

Test(npy, errors) {
    static const struct {
        int version;
        const char *header;
        size_t size;
        const char *text;
    } cases[] = {
        {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 24,
         "x: file has elements <f8, the graph wants f32 (<f4)"},
        {1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", 24, "x: file is big endian"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }", 24,
         "x: file has shape [2, 4], the graph wants [2, 3]"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 24,
         "x: file has shape [], the graph wants [2, 3]"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 20,
         "truncated: 20 bytes of elements, 24 are wanted"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 25, "1 bytes after the last element"},
        {3, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, ".npy version 3; 1 and 2 are read"},
        {1, "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3), }", 24, "malformed .npy header"},
        {1, "{'descr': <f4, 'fortran_order': False, 'shape': (2, 3), }", 24, "malformed .npy header"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, x), }", 24, "malformed .npy header"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,2,3)}", 24, "malformed .npy header"},
        {1, "{}", 24, "malformed .npy header"}};
    fixture f = start();
    float got[6];
    char data[25] = {0};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        put_file(f.path, cases[k].version, cases[k].header, data, cases[k].size);
        cr_expect_neq(load(got, &f), SN_OK, "case %zu", k);
        cr_expect(strstr(sn_error(f.ctx), cases[k].text), "case %zu: \"%s\"", k, sn_error(f.ctx));
    }
    stop(&f);
}

Test(npy, broken_files) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *text;
    } cases[] = {{"", 0, "not an .npy file"},
                 {"PK\x03\x04 a zip archive", 18, "not an .npy file"},
                 {"\x93NUMPY\x01", 7, "not an .npy file"},
                 {"\x93NUMPY\x01\x00\xff\xff{", 11, "truncated: its header has 65535 bytes, the file 11"},
                 {"\x93NUMPY\x02\x00\x01\x00", 10, "truncated"}};
    fixture f = start();
    float got[6];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        FILE *out = fopen(f.path, "wb");
        fwrite(cases[k].bytes, 1, cases[k].size, out);
        fclose(out);
        cr_expect_eq(load(got, &f), SN_ERROR_FILE, "case %zu", k);
        cr_expect(strstr(sn_error(f.ctx), cases[k].text), "case %zu: \"%s\"", k, sn_error(f.ctx));
    }
    unlink(f.path);
    cr_expect_eq(load(got, &f), SN_ERROR_FILE);
    cr_expect(strstr(sn_error(f.ctx), "cannot open"));
    sn_tensor *t;
    sn_tensor_create(&t, f.ctx, SN_CPU, SN_F32, SN_LIST(2));
    cr_expect_eq(sn_tensor_save_npy(t, "/nowhere/x.npy"), SN_ERROR_FILE);
    sn_tensor_destroy(t);
    stop(&f);
}
