/* test_tensor_map.c: tensor maps in the runtime, on a driver of our own: what the driver is told, that maps follow the
 * arguments of every call, and what happens where there can be none.
 */
#include <criterion/criterion.h>

#include "tests/unit/fake_cuda.h"

/* y = x + 1; z = y + 1, by the same kernel; another program may have a window of x. */
#define KERNEL "kernel @map1(x: f32[8] in align 16, y: f32[8] out align 16) { loop i in 8 : grid { %0 = load x[i] store y[i], %0 } }\n"
static const char TWICE[] =
    "buffer x: f32[16] input 0 align 16\nbuffer y: f32[8] output 0 align 16\n"
    "buffer z: f32[8] output 1 align 16\n" KERNEL "wrapper @m workspace 0 { call @map1(x + 4, y) call @map1(y, z) }\n";

static const sn_tensor_map MAP = {.dtype = SN_F32, .rank = 1, .dims = {8}, .box = {8}};

static sn_rt_kernel kernel_with(const sn_tensor_map *map) {
    return (sn_rt_kernel){
        .name = "map1", .ptx = "p", .ptx_size = 1, .grid = 8, .block_x = 1, .block_y = 1, .maps = map, .n_maps = 1};
}

static sn_prog *loaded(sn_env *env, sn_cuda *cu, const char *text, const sn_tensor_map *map) {
    sn_module *m = sn_module_new(env);
    cr_assert_eq(sn_module_parse(m, "test.sn", text, strlen(text)), SN_OK, "%s", env->message);
    sn_prog *p;
    sn_rt_kernel kernel = kernel_with(map);
    cr_assert_eq(sn_prog_load(&p, m, cu, &kernel, 1, NULL, 1), SN_OK, "%s", env->message);
    return p;
}

static void unload(sn_prog *p) {
    sn_module *m = p->m;
    sn_cuda *cu = p->cu;
    sn_env *env = p->env;
    sn_prog_free(p);
    sn_module_free(m);
    sn_cuda_close(cu);
    cr_assert(fake.used == 0 && env->bytes_now == 0);
}

static sn_prog_state *new_state(const sn_prog *p) {
    sn_prog_state *st;
    cr_assert_eq(sn_prog_state_new(&st, p, p->env, p->cu), SN_OK, "%s", p->env->message);
    return st;
}

typedef struct {
    _Alignas(16) float x[16], y[8], z[8];
} tensors;

static void run(sn_prog_state *st, tensors *t) {
    for (int i = 0; i < 16; i++) t->x[i] = (float)i;
    cr_assert_eq(sn_prog_run(st, (void *[]){t->x}, (void *[]){t->y, t->z}, NULL, true), SN_OK, "%s", st->env->message);
    for (int i = 0; i < 8; i++)
        cr_assert(t->y[i] == (float)i + 5 && t->z[i] == (float)i + 6, "%d: %g %g", i, (double)t->y[i], (double)t->z[i]);
}

Test(tensor_map, the_driver_is_told) {
    static const char text[] =
        "buffer x: f32[1024] input 0 align 16\nbuffer y: f32[1024] output 0 align 16\n"
        "kernel @map1(x: f32[1024] in, y: f32[1024] out) { loop i in 8 : grid { %0 = load x[i] store y[i], %0 } }\n"
        "wrapper @m workspace 0 { call @map1(x, y) }\n";
    sn_tensor_map map = {.param = 1,
                         .offset = 32,
                         .dtype = SN_BF16,
                         .rank = 3,
                         .dims = {64, 8, 2},
                         .strides = {128, 1024},
                         .box = {64, 4, 1},
                         .swizzle = 128};
    sn_env env;
    sn_prog *p = loaded(&env, fake_device(&env), text, &map);
    map.offset = 0; /* the program has its own */
    sn_prog_state *st = new_state(p);
    static _Alignas(16) float x[1024], y[1024];
    cr_assert_eq(sn_prog_run(st, (void *[]){x}, (void *[]){y}, NULL, true), SN_OK, "%s", env.message);
    const fake_map *m = (const fake_map *)&st->maps[0].map;
    cr_expect(m->address == (char *)y + 32 && m->rank == 3 && m->type == CU_TENSOR_MAP_DATA_TYPE_UINT16 &&
              m->swizzle == CU_TENSOR_MAP_SWIZZLE_128B);
    cr_expect(m->dims[0] == 64 && m->dims[1] == 8 && m->dims[2] == 2 && m->strides[0] == 128 && m->strides[1] == 1024);
    cr_expect(m->box[0] == 64 && m->box[1] == 4 && m->box[2] == 1);
    sn_prog_state_free(st);
    unload(p);
}

/* Two calls of one kernel have a map each; one that is still right is not made again, whatever other states do. */
Test(tensor_map, maps_follow_the_arguments) {
    sn_env env;
    sn_prog *p = loaded(&env, fake_device(&env), TWICE, &MAP);
    sn_prog_state *one = new_state(p), *two = new_state(p);
    size_t held = env.bytes_now;
    tensors a, b;
    run(one, &a);
    cr_expect_eq(fake.encodes, 2);
    run(one, &a);
    cr_expect_eq(fake.encodes, 2, "nothing has moved");
    run(two, &b);
    run(one, &a);
    cr_expect_eq(fake.encodes, 4, "each state has its own");
    run(one, &b);
    cr_expect_eq(fake.encodes, 6);
    cr_expect_eq(env.bytes_now, held, "a run allocates");
    sn_prog_state_free(one);
    sn_prog_state_free(two);
    unload(p);
}

/* The runs of a graph walk over copies of the tensors, and are captured with the maps of those. */
Test(tensor_map, maps_follow_into_a_graph) {
    static const char text[] = "buffer x: f32[8] input 0 align 16\nbuffer y: f32[8] output 0 align 16\n" KERNEL
                               "wrapper @m workspace 0 { call @map1(x, y) copy x from y size 32 }\n";
    sn_env env;
    sn_prog *p = loaded(&env, fake_device(&env), text, &MAP);
    sn_prog_state *st = new_state(p);
    _Alignas(16) float x[8] = {0}, y[8] = {0};
    double us[1];
    sn_graph_timing how = {.run_us = 0.25};
    fake.milliseconds = 2;
    cr_assert_eq(sn_prog_time_graph(us, 1, &how, st, (void *[]){x}, (void *[]){y}), SN_OK, "%s", env.message);
    cr_assert_gt(how.sets, 1);
    cr_expect_eq(fake.encodes, (int)how.runs, "%d maps in %u runs", fake.encodes, how.runs);
    /* every set has been added to as often as the graph ran it: the caller's once more, before */
    float times = 3 * (float)(how.runs / how.sets);
    const float *last = (const float *)((char *)fake.blocks[fake.n_blocks - 1] + (how.sets - 2) * 512);
    cr_expect(y[0] == times + 1 && last[0] == times + 1, "%g and %g after %g", (double)y[0], (double)last[0],
              (double)times);
    sn_prog_state_free(st);
    unload(p);
}

/* ---- where there can be none ---- */

Test(tensor_map, old_drivers_have_none) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    cu->api.cuTensorMapEncodeTiled = NULL;
    cu->driver_version = 11080;
    sn_module *m = sn_module_new(&env);
    cr_assert_eq(sn_module_parse(m, "test.sn", TWICE, sizeof TWICE - 1), SN_OK);
    sn_prog *p;
    sn_rt_kernel kernel = kernel_with(&MAP);
    cr_assert_eq(sn_prog_load(&p, m, cu, &kernel, 1, NULL, 1), SN_ERROR_DEVICE);
    cr_expect_str_eq(env.message, "kernel map1: it copies by tensor maps, which the CUDA driver does not have (that of "
                                  "CUDA 11.8; 12.0 is the oldest)");
    sn_env_clear(&env);
    kernel.n_maps = 0;
    cr_assert_eq(sn_prog_load(&p, m, cu, &kernel, 1, NULL, 1), SN_OK, "%s", env.message);
    unload(p);
}

static void expect_refused(float *x, sn_status status, const char *words) {
    sn_env env;
    sn_prog *p = loaded(&env, fake_device(&env), TWICE, &MAP);
    sn_prog_state *st = new_state(p);
    tensors t;
    fake.next_encode = x ? CUDA_SUCCESS : ILLEGAL_ADDRESS;
    cr_assert_eq(sn_prog_run(st, (void *[]){x ? x : t.x}, (void *[]){t.y, t.z}, NULL, true), status);
    cr_expect(strstr(env.message, words), "%s", env.message);
    cr_expect(fake.launches == 0 && fake.depth == 0);
    sn_env_clear(&env);
    fake.next_encode = CUDA_SUCCESS;
    run(st, &t); /* what failed is not taken for a map */
    sn_prog_state_free(st);
    unload(p);
}

Test(tensor_map, arguments_that_have_none) {
    _Alignas(16) float x[20];
    expect_refused(x + 1, SN_ERROR_ARGUMENT, "kernel map1: its argument 0 at ");
    expect_refused(x + 1, SN_ERROR_ARGUMENT,
                   " does not start at a multiple of 16 bytes, which copies by tensor maps need");
    expect_refused(NULL, SN_ERROR_DEVICE,
                   "kernel map1, argument 0: cuTensorMapEncodeTiled: CUDA_ERROR_ILLEGAL_ADDRESS");
}
