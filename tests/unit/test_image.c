/* test_image.c: images: what is written is read again, on the CPU and on a fake driver; what was cut, flipped, is foreign or
 * newer is one clear error; constants are replaced by name; nothing of an older file is lost where a new one cannot be written.
 */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/frontend.h"
#include "include/sinter/rt.h"
#include "tests/unit/fake_cuda.h"

static const float ones[6] = {1, 1, 1, 1, 1, 1}, tens[6] = {10, 10, 10, 10, 10, 10};

typedef struct {
    sn_context *ctx;
    char path[64];
} fixture;

static fixture begin(void) {
    fixture f = {.path = "/tmp/sinter-image-XXXXXX"};
    int fd = mkstemp(f.path);
    cr_assert(fd >= 0);
    close(fd);
    cr_assert_eq(sn_context_create(&f.ctx, NULL), SN_OK);
    return f;
}

static void end(fixture *f) {
    sn_context_destroy(f->ctx);
    unlink(f->path);
}

/* y = (x + w) * sqrt(w): the square root is prepared when the program is loaded. */
static sn_program *compiled(sn_context *ctx, const char *target) {
    sn_graph *g;
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o, .target = target, .threads = 2};
    cr_assert_eq(sn_graph_create(&g, ctx, "f"), SN_OK);
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(2, 3)), w = sn_weight(g, "w", SN_F32, ones, SN_LIST(2, 3));
    sn_output(g, "y", sn_mul(g, sn_add(g, x, w), sn_sqrt(g, w)));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_graph_destroy(g);
    return p;
}

static void save(fixture *f, const char *target) {
    sn_program *p = compiled(f->ctx, target);
    cr_assert_eq(sn_program_save(p, f->path), SN_OK, "%s", sn_error(f->ctx));
    sn_program_destroy(p);
}

static void expect_run(sn_program *p, float want) {
    sn_tensor *x, *y;
    float got[6];
    cr_assert_eq(sn_tensor_for_input(&x, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_for_output(&y, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_write(x, (float[]){0, 1, 2, 3, 4, 5}, sizeof got), SN_OK);
    cr_assert_eq(sn_run(p, &x, &y, NULL), SN_OK, "%s", sn_error(p->ctx));
    cr_assert_eq(sn_tensor_read(got, y, sizeof got), SN_OK);
    for (int i = 0; i < 6; i++)
        cr_expect_float_eq(got[i], ((float)i + want) * sqrtf(want), 1e-5f, "%g", (double)got[i]);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
}

Test(image, saved_loaded_run) {
    fixture f = begin();
    sn_program *p;
    save(&f, "host");
    cr_assert_eq(sn_program_load(&p, f.ctx, f.path, NULL), SN_OK, "%s", sn_error(f.ctx));
    expect_run(p, 1);
    cr_expect_eq(sn_program_set_constant(p, "w", tens, sizeof tens), SN_OK, "%s", sn_error(f.ctx));
    expect_run(p, 10);
    cr_expect_eq(sn_program_set_constant(p, "w", tens, 8), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(f.ctx), "constant w: 8 bytes are given, it has 24");
    cr_expect_eq(sn_program_set_constant(p, "v", tens, sizeof tens), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(f.ctx), "constant v: the program has none of that name");
    expect_run(p, 10);
    cr_expect_eq(sn_program_save(p, f.path), SN_ERROR_UNSUPPORTED);
    cr_expect_str_eq(sn_error(f.ctx), "the program was loaded from an image: copy that file");
    char *text;
    cr_expect_eq(sn_program_dump(&text, p, "graph"), SN_ERROR_UNSUPPORTED);
    cr_expect_str_eq(sn_error(f.ctx), "stage graph: the program was loaded from an image, which has no graph");
    sn_run_state *state;
    cr_assert_eq(sn_run_state_create(&state, p), SN_OK);
    cr_expect_eq(sn_program_set_constant(p, "w", ones, sizeof ones), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(f.ctx), "constant w: the program has run states; destroy them first");
    sn_run_state_destroy(state);
    sn_program_destroy(p);
    end(&f);
}

Test(image, constants_at_load) {
    fixture f = begin();
    sn_program *p;
    save(&f, "host");
    sn_weight_info w = {.name = "w", .data = tens, .size = sizeof tens};
    sn_load_options o = {.struct_size = sizeof o, .constants = &w, .n_constants = 1};
    cr_assert_eq(sn_program_load(&p, f.ctx, f.path, &o), SN_OK, "%s", sn_error(f.ctx));
    expect_run(p, 10);
    sn_program_destroy(p);
    end(&f);
}

/* Weights that are not in the file are asked for by name. */
Test(image, without_weights) {
    fixture f = begin();
    sn_program *made = compiled(f.ctx, "host"), *p;
    sn_save_options without = {.struct_size = sizeof without, .without_weights = true};
    cr_assert_eq(sn_programs_save(f.ctx, 1, &made, f.path, &without), SN_OK, "%s", sn_error(f.ctx));
    sn_program_destroy(made);
    cr_expect_eq(sn_program_load(&p, f.ctx, f.path, NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(f.ctx), "constant w: it is not in the image and none is given");
    sn_weight_info w = {.name = "w", .data = tens, .size = sizeof tens};
    sn_load_options o = {.struct_size = sizeof o, .constants = &w, .n_constants = 1};
    cr_assert_eq(sn_program_load(&p, f.ctx, f.path, &o), SN_OK, "%s", sn_error(f.ctx));
    expect_run(p, 10);
    sn_program_destroy(p);
    end(&f);
}

/* One weight in the file for three targets; here the CPU's part runs. */
Test(image, bundle) {
    fixture f = begin();
    const char *const targets[] = {"sm_90a", "sm_80", "host"};
    sn_program *programs[3], *p;
    for (int i = 0; i < 3; i++) programs[i] = compiled(f.ctx, targets[i]);
    cr_assert_eq(sn_programs_save(f.ctx, 3, programs, f.path, NULL), SN_OK, "%s", sn_error(f.ctx));
    for (int i = 0; i < 3; i++) sn_program_destroy(programs[i]);
    sn_load_options o = {.struct_size = sizeof o, .device = "cpu"};
    cr_assert_eq(sn_program_load(&p, f.ctx, f.path, &o), SN_OK, "%s", sn_error(f.ctx));
    cr_expect_eq(p->image->n_parts, 3);
    cr_expect_eq(p->image->n_consts, 1);
    expect_run(p, 1);
    sn_program_destroy(p);
    end(&f);
}

/* ---- files that are no images ---- */

static char *read_all(size_t *size, const char *path) {
    FILE *file = fopen(path, "rb");
    cr_assert(file);
    char *bytes = malloc(1 << 20);
    *size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static void write_all(const char *path, const char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static void expect_refused(fixture *f, const char *bytes, size_t size, const char *message) {
    sn_program *p;
    char want[256];
    write_all(f->path, bytes, size);
    cr_expect_eq(sn_program_load(&p, f->ctx, f->path, NULL), SN_ERROR_FILE, "%s: %s", message, sn_error(f->ctx));
    snprintf(want, sizeof want, "%s: %s", f->path, message);
    cr_expect(!strncmp(sn_error(f->ctx), want, strlen(want)), "%s, wanted %s", sn_error(f->ctx), want);
    sn_program_destroy(p);
}

/* The call returns: nobody writes to the pipe. */
Test(image, a_pipe_is_none) {
    fixture f = begin();
    sn_program *p;
    cr_assert(unlink(f.path) == 0 && mkfifo(f.path, 0600) == 0);
    cr_expect_eq(sn_program_load(&p, f.ctx, f.path, NULL), SN_ERROR_FILE);
    cr_expect(strstr(sn_error(f.ctx), "it is no image of Sinter"), "%s", sn_error(f.ctx));
    end(&f);
}

Test(image, refused) {
    fixture f = begin();
    size_t size;
    save(&f, "host");
    char *bytes = read_all(&size, f.path);
    expect_refused(&f, "", 0, "it is no image of Sinter");
    expect_refused(&f, "graph @f() {}", 13, "it is no image of Sinter");
    expect_refused(&f, bytes, 20, "the image is cut off: 20 bytes");
    for (size_t n = 80; n < size; n += 97) expect_refused(&f, bytes, n, "the image is cut off: it has");
    bytes[8]++;
    expect_refused(&f, bytes, size, "the image has version 6 of the format; this Sinter reads version 5");
    bytes[8]--;
    bytes[12]++;
    expect_refused(&f, bytes, size, "the image was made on a machine of the other byte order");
    bytes[12]--;
    bytes[20]++;
    expect_refused(&f, bytes, size, "the image is damaged: the checksum of its head does not match");
    bytes[20]--;
    bytes[size - 1]++;
    expect_refused(&f, bytes, size, "the image is damaged: the checksum of its fields does not match");
    bytes[size - 1]--;
    bytes[256]++;
    expect_refused(&f, bytes, size,
                   "the image is damaged: a checksum of code or constants does not match: it was changed");
    free(bytes);
    end(&f);
}

/* Every bit of a byte here and there: refused, or it was none that counts. */
Test(image, flipped) {
    fixture f = begin();
    size_t size;
    sn_env env;
    save(&f, "sm_90");
    char *bytes = read_all(&size, f.path), *copy = aligned_alloc(256, (size + 511) / 256 * 256);
    for (size_t at = 0; at < size * 8; at += 11) {
        sn_arena arena;
        sn_image *image;
        sn_env_init(&env);
        sn_arena_init(&arena, &env);
        memcpy(copy, bytes, size);
        copy[at / 8] ^= (char)(1 << at % 8);
        if (sn_image_read(&image, &env, &arena, "x", (sn_image_bytes){copy, size}) != SN_OK) cr_assert(env.message[0]);
        sn_arena_free(&arena);
    }
    free(bytes);
    free(copy);
    end(&f);
}

Test(image, a_full_disk_leaves_the_old_one) {
    fixture f = begin();
    struct rlimit limit, before;
    sn_program *p = compiled(f.ctx, "host"), *again;
    save(&f, "host");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){512, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    cr_expect_eq(sn_program_save(p, f.path), SN_ERROR_FILE);
    setrlimit(RLIMIT_FSIZE, &before);
    cr_expect(strstr(sn_error(f.ctx), "cannot write /tmp/sinter-image-") && strstr(sn_error(f.ctx), ": File too large"),
              "%s", sn_error(f.ctx));
    cr_assert_eq(sn_program_load(&again, f.ctx, f.path, NULL), SN_OK, "%s", sn_error(f.ctx));
    expect_run(again, 1);
    sn_program_destroy(again);
    sn_program_destroy(p);
    end(&f);
}

/* A file took their place: of /dev/null, too, where the process might. */
Test(image, pipes_and_links_stay) {
    fixture f = begin();
    struct stat st;
    char link[80];
    uint8_t mark[8];
    sn_program *p = compiled(f.ctx, "host"), *again;
    snprintf(link, sizeof link, "%s.link", f.path);
    cr_assert_eq(symlink(f.path, link), 0);
    cr_expect_eq(sn_program_save(p, link), SN_OK, "%s", sn_error(f.ctx));
    cr_expect(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    cr_assert_eq(sn_program_load(&again, f.ctx, f.path, NULL), SN_OK, "%s", sn_error(f.ctx));
    sn_program_destroy(again);
    unlink(f.path);
    cr_assert_eq(mkfifo(f.path, 0600), 0);
    int fd = open(f.path, O_RDWR);
    cr_expect_eq(sn_program_save(p, f.path), SN_OK, "%s", sn_error(f.ctx));
    cr_expect_eq(read(fd, mark, sizeof mark), sizeof mark);
    cr_expect(stat(f.path, &st) == 0 && S_ISFIFO(st.st_mode) && (st.st_mode & 0777) == 0600);
    close(fd);
    unlink(link);
    sn_program_destroy(p);
    end(&f);
}

/* ---- libsinter-rt's interface ---- */

Test(image, runtime_alone) {
    fixture f = begin();
    sn_rt *rt;
    sn_rt_program *p;
    sn_rt_state *a, *b;
    sn_rt_port port;
    unsigned k;
    save(&f, "host");
    cr_assert_eq(sn_rt_create(&rt), SN_OK);
    cr_expect_eq(sn_rt_load(&p, rt, "/nowhere", NULL), SN_ERROR_FILE);
    cr_expect_str_eq(sn_rt_error(rt), "cannot read /nowhere: No such file or directory");
    cr_assert_eq(sn_rt_load(&p, rt, f.path, NULL), SN_OK, "%s", sn_rt_error(rt));
    cr_expect_str_eq(sn_rt_target(p), "host");
    cr_expect(sn_rt_find_input(&k, p, "x") == SN_OK && k == 0 && sn_rt_input(&port, p, 0) == SN_OK && port.bytes == 24);
    cr_expect_eq(sn_rt_find_output(&k, p, "z"), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_rt_error(rt), "the program has no output z");
    cr_assert(sn_rt_state_create(&a, p) == SN_OK && sn_rt_state_create(&b, p) == SN_OK);
    const float x[6] = {0, 1, 2, 3, 4, 5};
    float y[6], z[6];
    cr_assert_eq(sn_rt_run(a, (const void *[]){x}, (void *[]){y}, NULL), SN_OK, "%s", sn_rt_state_error(a));
    cr_assert_eq(sn_rt_run(b, (const void *[]){x}, (void *[]){z}, NULL), SN_OK, "%s", sn_rt_state_error(b));
    cr_expect(y[5] == 6 && !memcmp(y, z, sizeof y));
    cr_expect_eq(sn_rt_run(a, (const void *[]){x}, (void *[]){(char *)y + 1}, NULL), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_rt_state_error(a), "does not start at a multiple of 4 bytes"), "%s", sn_rt_state_error(a));
    cr_expect_eq(sn_rt_set_constant(p, "w", tens, sizeof tens), SN_ERROR_ARGUMENT);
    sn_rt_program_destroy(p); /* refused: it has states */
    sn_rt_state_destroy(a);
    sn_rt_state_destroy(b);
    cr_expect_eq(sn_rt_set_constant(p, "w", tens, sizeof tens), SN_OK, "%s", sn_rt_error(rt));
    cr_assert_eq(sn_rt_state_create(&a, p), SN_OK);
    cr_assert_eq(sn_rt_run(a, (const void *[]){x}, (void *[]){y}, NULL), SN_OK, "%s", sn_rt_state_error(a));
    cr_expect_float_eq(y[0], 10 * sqrtf(10), 1e-4f);
    sn_rt_state_destroy(a);
    sn_rt_program_destroy(p);
    sn_rt_destroy(rt);
    end(&f);
}

/* ---- a GPU's part, on the fake driver ---- */

static sn_image_formal floats(sn_role role) { return (sn_image_formal){SN_F32, role, 1, {4}, 4}; }

/* y = x + 1 + 2, by kernels of the fake driver, whose names say what they add. */
static void make_chain(sn_image *image, sn_image_part *part, sn_image_kernel kernels[2], uint32_t sm,
                       const char *target) {
    static sn_image_formal formals[2];
    static sn_image_arg args[2][2] = {{{0, 0}, {2, 0}}, {{2, 0}, {1, 0}}};
    static sn_image_buf bufs[] = {{"x", SN_F32, SN_BUF_INPUT, 0, 16, 4},
                                  {"y", SN_F32, SN_BUF_OUTPUT, 0, 16, 4},
                                  {"t", SN_F32, SN_BUF_TEMP, 0, 256, 4}};
    static sn_image_step steps[] = {{.kind = SN_STEP_CHECK, .buf = 0},
                                    {.kind = SN_STEP_ALLOC, .buf = 2, .size = 16},
                                    {.kind = SN_STEP_CALL, .kernel = 0, .args = args[0], .n_args = 2},
                                    {.kind = SN_STEP_CALL, .kernel = 1, .args = args[1], .n_args = 2}};
    static sn_image_port x = {.name = "x",
                              .dtype = SN_F32,
                              .rank = 1,
                              .align = 16,
                              .shape = {4},
                              .strides = {1},
                              .writes = -1,
                              .own_offset = -1},
                         y;
    static const char *const names[] = {"add1", "add2"};
    y = x;
    y.name = "y";
    formals[0] = floats(SN_ROLE_IN), formals[1] = floats(SN_ROLE_OUT);
    for (int i = 0; i < 2; i++)
        kernels[i] = (sn_image_kernel){
            .launch = {.name = names[i], .ptx = "ptx", .ptx_size = 3, .grid = 4, .block_x = 1, .block_y = 1},
            .note = "",
            .schedule = "",
            .formals = formals,
            .n_formals = 2};
    *part = (sn_image_part){.target = target,
                            .machine = "nvptx",
                            .cpu = "",
                            .sm = sm,
                            .workspace = 256,
                            .inputs = &x,
                            .outputs = &y,
                            .n_inputs = 1,
                            .n_outputs = 1,
                            .bufs = bufs,
                            .n_bufs = 3,
                            .steps = steps,
                            .n_steps = 4,
                            .kernels = kernels,
                            .n_kernels = 2};
    *image = (sn_image){.maker = "test", .name = "chain"};
}

Test(image, on_a_device) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    sn_image made, *image;
    sn_image_part parts[3];
    sn_image_kernel kernels[3][2];
    make_chain(&made, &parts[0], kernels[0], 80, "sm_80");
    make_chain(&made, &parts[1], kernels[1], 100, "sm_100");
    make_chain(&made, &parts[2], kernels[2], 90, "sm_90");
    kernels[2][0].launch.cubin = "cubin";
    kernels[2][0].launch.cubin_size = 6;
    made.parts = parts;
    made.n_parts = 3;
    sn_arena arena;
    sn_arena_init(&arena, &env);
    sn_image_bytes bytes;
    const sn_image_part *part;
    sn_loaded loaded;
    sn_prog_state *st;
    cr_assert_eq(sn_image_encode(&bytes, &made, &arena), SN_OK);
    cr_assert_eq(sn_image_read(&image, &env, &arena, "chain", bytes), SN_OK, "%s", env.message);
    cr_assert_eq(sn_image_choose(&part, &env, image, cu), SN_OK, "%s", env.message);
    cr_expect_str_eq(part->target, "sm_90");
    cr_expect_str_eq(part->kernels[0].launch.cubin, "cubin");
    cr_assert_eq(sn_image_load(&loaded, &env, image, part, NULL, 0, cu, 1, NULL), SN_OK, "%s", env.message);
    cr_assert_eq(sn_prog_state_new(&st, loaded.prog, &env, cu), SN_OK);
    _Alignas(16) float x[4] = {0, 1, 2, 3}, y[4] = {0};
    cr_assert_eq(sn_prog_run(st, (void *[]){x}, (void *[]){y}, NULL, true), SN_OK, "%s", env.message);
    for (int i = 0; i < 4; i++) cr_expect_eq(y[i], (float)i + 3);
    cr_expect_eq(fake.launches, 2);
    sn_prog_state_free(st);
    sn_loaded_free(&loaded);
    /* what is for one generation alone runs on no other */
    image->parts[0].only = true;
    image->parts[2].sm = 91;
    cr_expect_eq(sn_image_choose(&part, &env, image, cu), SN_ERROR_TARGET);
    cr_expect_str_eq(env.message,
                     "no target of the image runs on the GPU here: sm_80 does not run on sm_90; sm_100 does not run "
                     "on sm_90; sm_90 does not run on sm_90");
    sn_arena_free(&arena);
    sn_cuda_close(cu);
    cr_expect(fake.used == 0 && fake.modules == 0 && env.bytes_now == 0);
}
