/* test_image_files.c: images whose constants are in a .safetensors file: found beside the image, compared, replaced; what is wrong with
 * the file is said; its header is read as the JSON that it is.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "include/sinter/rt.h"
#include "include/sinter/sinter.h"
#include "runtime/safetensors.h"

enum { N = 1024 };
static const char *const good = "{\"w\":{\"dtype\":\"F32\",\"shape\":[4,256],\"data_offsets\":[0,4096]}}";

typedef struct fixture {
    sn_context *ctx;
    sn_rt *rt;
    char folder[64], image[96], file[96];
    float w[N];
} fixture;

/* The elements begin at a multiple of `align` and so many bytes more. */
static void write_file(const char *path, const char *header, float value, size_t n, size_t align, size_t more) {
    size_t length = strlen(header), padded = (8 + length + align - 1) / align * align - 8 + more;
    FILE *f = fopen(path, "wb");
    cr_assert(f);
    for (int k = 0; k < 8; k++) fputc((int)(padded >> 8 * k & 255), f);
    fprintf(f, "%s%*s", header, (int)(padded - length), "");
    for (size_t k = 0; k < n; k++) fwrite(&value, sizeof value, 1, f);
    cr_assert_eq(fclose(f), 0);
}

/* y = (x + w) * sqrt(w), the square root prepared; w all ones. */
static sn_program *compiled(fixture *f) {
    sn_graph *g;
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o, .target = "host", .threads = 1};
    cr_assert_eq(sn_graph_create(&g, f->ctx, "f"), SN_OK);
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(4, 256)), w = sn_weight(g, "w", SN_F32, f->w, SN_LIST(4, 256));
    sn_output(g, "y", sn_mul(g, sn_add(g, x, w), sn_sqrt(g, w)));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(f->ctx));
    sn_graph_destroy(g);
    return p;
}

static sn_status save(fixture *f, const char *file) {
    sn_program *p = compiled(f);
    sn_save_options o = {.struct_size = sizeof o, .weights = file};
    sn_status status = sn_programs_save(f->ctx, 1, &p, f->image, &o);
    sn_program_destroy(p);
    return status;
}

static void begin(fixture *f) {
    *f = (fixture){.folder = "/tmp/sinter-files-XXXXXX"};
    for (int k = 0; k < N; k++) f->w[k] = 1;
    cr_assert(mkdtemp(f->folder));
    snprintf(f->image, sizeof f->image, "%s/f.snb", f->folder);
    snprintf(f->file, sizeof f->file, "%s/w.safetensors", f->folder);
    cr_assert_eq(sn_context_create(&f->ctx, NULL), SN_OK);
    cr_assert_eq(sn_rt_create(&f->rt), SN_OK);
    write_file(f->file, good, 1, N, 64, 0);
    cr_assert_eq(save(f, f->file), SN_OK, "%s", sn_error(f->ctx));
}

static void end(fixture *f) {
    char command[128];
    sn_context_destroy(f->ctx);
    sn_rt_destroy(f->rt);
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    cr_expect_eq(system(command), 0);
}

static void expect_run(sn_rt_program *p, float w) {
    float x[N], y[N];
    sn_rt_state *st;
    for (int k = 0; k < N; k++) x[k] = (float)k;
    cr_assert_eq(sn_rt_state_create(&st, p), SN_OK);
    cr_assert_eq(sn_rt_run(st, (const void *[]){x}, (void *[]){y}, NULL), SN_OK, "%s", sn_rt_state_error(st));
    for (int k = 0; k < N; k++) cr_assert_float_eq(y[k], ((float)k + w) * sqrtf(w), 1e-3f, "%d: %g", k, (double)y[k]);
    sn_rt_state_destroy(st);
}

static void expect_load(fixture *f, const char *image, const char *instead, float w) {
    sn_rt_program *p;
    sn_program *q;
    sn_rt_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1, .weights = instead};
    sn_load_options l = {.struct_size = sizeof l, .device = "cpu", .threads = 1, .weights = instead};
    cr_assert_eq(sn_rt_load(&p, f->rt, image, &o), SN_OK, "%s", sn_rt_error(f->rt));
    expect_run(p, w);
    sn_rt_program_destroy(p);
    cr_assert_eq(sn_program_load(&q, f->ctx, image, &l), SN_OK, "%s", sn_error(f->ctx));
    sn_program_destroy(q);
}

static void expect_refusal(fixture *f, const char *instead, const char *why) {
    sn_rt_program *p;
    sn_program *q;
    sn_rt_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1, .weights = instead};
    sn_load_options l = {.struct_size = sizeof l, .device = "cpu", .threads = 1, .weights = instead};
    cr_expect_eq(sn_rt_load(&p, f->rt, f->image, &o), SN_ERROR_FILE);
    cr_expect(strstr(sn_rt_error(f->rt), why), "%s: %s", why, sn_rt_error(f->rt));
    cr_expect_eq(sn_program_load(&q, f->ctx, f->image, &l), SN_ERROR_FILE);
    cr_expect_str_eq(sn_error(f->ctx), sn_rt_error(f->rt));
}

Test(image_files, elements_are_not_copied_and_move_along) {
    fixture f;
    struct stat st;
    char to[80], image[96];
    begin(&f);
    cr_assert_eq(stat(f.image, &st), 0);
    cr_expect_lt(st.st_size, 4096 + 4096, "%lld", (long long)st.st_size);
    expect_load(&f, f.image, NULL, 1);
    snprintf(to, sizeof to, "%s-moved", f.folder);
    cr_assert_eq(rename(f.folder, to), 0);
    snprintf(image, sizeof image, "%s/f.snb", to);
    expect_load(&f, image, NULL, 1);
    cr_assert_eq(chdir(to), 0);
    expect_load(&f, "f.snb", NULL, 1);
    cr_assert_eq(rename(to, f.folder), 0);
    end(&f);
}

/* Weights of a file for an image that has its own: they would not be used. */
Test(image_files, an_image_without_files_takes_none) {
    fixture f;
    sn_rt_program *p;
    sn_program *q;
    begin(&f);
    cr_assert_eq(save(&f, NULL), SN_OK);
    sn_rt_options o = {.struct_size = sizeof o, .device = "cpu", .weights = f.file};
    sn_load_options l = {.struct_size = sizeof l, .device = "cpu", .weights = f.file};
    cr_expect_eq(sn_rt_load(&p, f.rt, f.image, &o), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_rt_error(f.rt), "is not looked at: the image has all constants itself"), "%s",
              sn_rt_error(f.rt));
    cr_expect_eq(sn_program_load(&q, f.ctx, f.image, &l), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(f.ctx), sn_rt_error(f.rt));
    expect_load(&f, f.image, NULL, 1);
    end(&f);
}

/* One that lies elsewhere is named whole; one without any alignment is copied where the code wants some. */
Test(image_files, elsewhere_and_anywhere) {
    fixture f;
    char other[] = "/tmp/sinter-weights-XXXXXX";
    begin(&f);
    int fd = mkstemp(other);
    cr_assert_geq(fd, 0);
    close(fd);
    write_file(other, good, 1, N, 1, (8 + strlen(good)) % 2 ? 0 : 1);
    cr_assert_eq(save(&f, other), SN_OK, "%s", sn_error(f.ctx));
    unlink(f.file);
    expect_load(&f, f.image, NULL, 1);
    unlink(other);
    expect_refusal(&f, NULL, "cannot read /tmp/sinter-weights-");
    end(&f);
}

Test(image_files, others_in_their_place) {
    fixture f;
    char tens[96];
    sn_rt_program *p;
    begin(&f);
    snprintf(tens, sizeof tens, "%s/tens.safetensors", f.folder);
    write_file(tens,
               "{\"__metadata__\":{\"a\":\"b\"},\"v\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]},"
               "\"w\":{\"dtype\":\"F32\",\"shape\":[4,256],\"data_offsets\":[4,4100]}}",
               10, N + 1, 64, 0);
    expect_load(&f, f.image, tens, 10);
    /* Elements by name need no file, are asked first, and may change between runs. */
    unlink(f.file);
    float twos[N], threes[N];
    for (int k = 0; k < N; k++) twos[k] = 2, threes[k] = 3;
    sn_rt_constant c = {"w", twos, sizeof twos};
    sn_rt_options o = {.struct_size = sizeof o, .device = "cpu", .constants = &c, .n_constants = 1};
    cr_assert_eq(sn_rt_load(&p, f.rt, f.image, &o), SN_OK, "%s", sn_rt_error(f.rt));
    expect_run(p, 2);
    cr_assert_eq(sn_rt_set_constant(p, "w", threes, sizeof threes), SN_OK, "%s", sn_rt_error(f.rt));
    expect_run(p, 3);
    sn_rt_program_destroy(p);
    end(&f);
}

Test(image_files, what_is_wrong_with_the_file) {
    static const struct {
        const char *header, *why;
        size_t n;
    } cases[] = {{"{\"v\":{\"dtype\":\"F32\",\"shape\":[4,256],\"data_offsets\":[0,4096]}}",
                  "constant w: %s has no tensor w", N},
                 {"{\"w\":{\"dtype\":\"I32\",\"shape\":[4,256],\"data_offsets\":[0,4096]}}",
                  "constant w: tensor w of %s is I32[4, 256], wanted is F32[4, 256]", N},
                 {"{\"w\":{\"dtype\":\"F32\",\"shape\":[256,4],\"data_offsets\":[0,4096]}}",
                  "constant w: tensor w of %s is F32[256, 4], wanted is F32[4, 256]", N},
                 {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1024],\"data_offsets\":[0,4096]}}",
                  "is F32[1, 1, 1, 1, 1, 1, 1, 1], wanted", N},
                 {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4,256],\"data_offsets\":[0,4095]}}",
                  "constant w: tensor w of %s has 4095 bytes, its shape wants 4096", N},
                 {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4,256],\"data_offsets\":[0,4096]}}",
                  "%s: truncated: tensor w ends at byte 4096 of the elements, there are 4092", N - 1},
                 {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4,256],\"data_offsets\":[4096,0]}}",
                  "%s: w: its data_offsets are not two ascending numbers", N},
                 {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4,256],\"data_offsets\":[0,4096]},"
                  "\"w\":{\"dtype\":\"F32\",\"shape\":[4,256],\"data_offsets\":[0,4096]}}",
                  "%s: tensor w is there twice", N},
                 {"[]", "%s: malformed header: it is no object (byte 0)", N}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        fixture f;
        char why[256];
        begin(&f);
        write_file(f.file, cases[k].header, 1, cases[k].n, 64, 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(why, sizeof why, cases[k].why, f.file);
#pragma GCC diagnostic pop
        expect_refusal(&f, NULL, why);
        end(&f);
    }
}

Test(image_files, cut_changed_and_gone) {
    fixture f;
    begin(&f);
    write_file(f.file, good, 2, N, 64, 0);
    expect_refusal(&f, NULL, "w.safetensors: a checksum of constants of the image ");
    expect_load(&f, f.image, f.file, 2);
    cr_assert_eq(truncate(f.file, 4), 0);
    expect_refusal(&f, NULL, "w.safetensors: truncated: 4 bytes");
    cr_assert_eq(truncate(f.file, 40), 0);
    expect_refusal(&f, NULL, "w.safetensors: truncated: its header has ");
    cr_assert_eq(unlink(f.file), 0);
    expect_refusal(&f, NULL, "w.safetensors: No such file");
    expect_refusal(&f, "/no/such/file", "cannot read /no/such/file: No such file");
    end(&f);
}

Test(image_files, files_that_are_not_the_programs) {
    fixture f;
    begin(&f);
    write_file(f.file, good, 2, N, 64, 0);
    cr_expect_eq(save(&f, f.file), SN_ERROR_FILE);
    cr_expect(strstr(sn_error(f.ctx), "w.safetensors has other elements for it"), "%s", sn_error(f.ctx));
    write_file(f.file, "{}", 2, 0, 64, 0);
    cr_expect_eq(save(&f, f.file), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(f.ctx), "it has none of the program's constants, by their names"), "%s", sn_error(f.ctx));
    cr_expect_eq(save(&f, "/no/such/file"), SN_ERROR_FILE);
    end(&f);
}

/* ---- headers ---- */

static sn_status count(void *user, const sn_safetensor *t) {
    char *names = user;
    strcat(names, t->name);
    strcat(names, ";");
    return SN_OK;
}

static sn_status walk(char names[256], char why[512], const char *header) {
    sn_env env;
    sn_arena arena;
    unsigned char file[512] = {(unsigned char)strlen(header)};
    sn_env_init(&env);
    sn_arena_init(&arena, &env);
    memcpy(file + 8, header, strlen(header));
    names[0] = 0;
    sn_status status = sn_safetensors_walk(&env, &arena, "f", file, 8 + strlen(header), count, names);
    snprintf(why, 512, "%.511s", env.message);
    sn_arena_free(&arena);
    return status;
}

#define TENSOR "{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,0]}"

Test(image_files, headers_that_are_read) {
    static const char *const cases[][2] = {
        {"{}", ""},
        {" { } ", ""},
        {"{\"__metadata__\":{}}", ""},
        {"{\"__metadata__\":{\"a\":\"{\\\"b\\\":[1]}\"}, \"x\" : " TENSOR " }", "x;"},
        {"{\"a\":{\"data_offsets\" : [ 0 , 0 ],\"shape\":[ ],\"dtype\":\"F64\"},\"b\":" TENSOR "}", "a;b;"},
        {"{\"q\\\"b\\\\s\\/\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\n\":" TENSOR "}",
         "q\"b\\s/A\u00e9\u20ac\U0001f600\n;"}};
    char names[256], why[512];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        cr_expect_eq(walk(names, why, cases[k][0]), SN_OK, "%s: %s", cases[k][0], why);
        cr_expect_str_eq(names, cases[k][1]);
    }
}

Test(image_files, headers_that_are_none) {
    static const char *const cases[][2] = {
        {"", "it is no object"},
        {"{", "a text is missing"},
        {"{}x", "it goes on behind its end"},
        {"{\"a\"", "a name has no value"},
        {"{\"a\":1}", "a tensor is no object"},
        {"{\"a\":{}}", "a text is missing"},
        {"{\"a\":" TENSOR, "it has no end"},
        {"{\"a\":" TENSOR ",}", "a text is missing"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[]}}", "a tensor has no dtype, no shape or no data_offsets"},
        {"{\"a\":{\"dtype\":\"I8\",\"dtype\":\"I8\"}}", "has it twice"},
        {"{\"a\":{\"type\":\"I8\"}}", "a tensor has no such field"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[-1]}}", "a number is missing"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1.5]}}", "a list has no end"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[99999999999999999999]}}", "a number is too large"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0]}}", "data_offsets are not two numbers"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,0,0]}}", "data_offsets are not two numbers"},
        {"{\"a\\q\":" TENSOR "}", "no such escape"},
        {"{\"a\\u00", "no such escape"},
        {"{\"a\\u0000\":" TENSOR "}", "no such escape"},
        {"{\"a\\ud800\":" TENSOR "}", "half a letter"},
        {"{\"a\n\":" TENSOR "}", "a letter that texts have not"},
        {"{\"a", "a text has no end"},
        {"{\"a\\", "no such escape"},
        {"{\"__metadata__\":{\"a\":1}}", "a text is missing"},
        {"{\"__metadata__\":[]}", "__metadata__ is no object"},
        {"{\"__metadata__\":{\"a\":\"b\"", "__metadata__ has no end"}};
    char names[256], why[512];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        cr_expect_eq(walk(names, why, cases[k][0]), SN_ERROR_FILE, "%s", cases[k][0]);
        cr_expect(strstr(why, cases[k][1]) && strstr(why, "f: malformed header: "), "%s: %s", cases[k][0], why);
    }
}
