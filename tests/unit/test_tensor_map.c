/* test_tensor_map.c: tensor maps in the runtime, on a driver of our own: what the driver is told, that maps follow
 * the arguments of every call, and what happens where there can be none. On a real device: what the hardware copies
 * by them, with a kernel written by hand.
 */
#include <criterion/criterion.h>
#include <stdio.h>

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
    cr_assert_eq(sn_prog_load(&p, m, cu, &kernel, 1, NULL, 1, NULL), SN_OK, "%s", env->message);
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

/* Of pixels: corners, how far they are apart, channels and how many. */
Test(tensor_map, the_driver_is_told_of_pixels) {
    static const char text[] =
        "buffer x: f32[1024] input 0 align 16\nbuffer y: f32[1024] output 0 align 16\n"
        "kernel @map1(x: f32[1024] in, y: f32[1024] out) { loop i in 8 : grid { %0 = load x[i] store y[i], %0 } }\n"
        "wrapper @m workspace 0 { call @map1(x, y) }\n";
    sn_tensor_map map = {.dtype = SN_F32,
                         .rank = 4,
                         .dims = {32, 9, 7, 4},
                         .strides = {128, 1152, 8064},
                         .box = {32, 64, 1, 1},
                         .pixels = true,
                         .low = {-1, -2},
                         .high = {0, -3},
                         .steps = {2, 1},
                         .swizzle = 128};
    sn_env env;
    sn_prog *p = loaded(&env, fake_device(&env), text, &map);
    sn_prog_state *st = new_state(p);
    static _Alignas(16) float x[1024], y[1024];
    cr_assert_eq(sn_prog_run(st, (void *[]){x}, (void *[]){y}, NULL, true), SN_OK, "%s", env.message);
    const fake_map *m = (const fake_map *)&st->maps[0].map;
    cr_expect(m->pixels && m->rank == 4 && m->dims[1] == 9 && m->dims[3] == 4 && m->strides[2] == 8064);
    cr_expect(m->box[0] == 32 && m->box[1] == 64);
    cr_expect(m->low[0] == -1 && m->low[1] == -2 && m->high[0] == 0 && m->high[1] == -3);
    cr_expect(m->steps[0] == 1 && m->steps[1] == 2 && m->steps[2] == 1 && m->steps[3] == 1);
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
    cr_assert_eq(sn_prog_load(&p, m, cu, &kernel, 1, NULL, 1, NULL), SN_ERROR_DEVICE);
    cr_expect_str_eq(env.message, "kernel map1: it copies by tensor maps, which the CUDA driver does not have (that of "
                                  "CUDA 11.8; 12.0 is the oldest)");
    sn_env_clear(&env);
    kernel.n_maps = 0;
    cr_assert_eq(sn_prog_load(&p, m, cu, &kernel, 1, NULL, 1, NULL), SN_OK, "%s", env.message);
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

/* ---- on a device ---- */

enum { FLOATS = 256 }; /* of a box */

/* y = the box of the map that begins at the given place, as it comes to lie in shared memory. One block of 128
 * threads. */
static const char PTX[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry box(.param .u64 x, .param .u64 y, .param .align 64 .b8 map[128])\n.reqntid 128, 1, 1\n{\n"
    "  .reg .pred %%p, %%q;  .reg .b32 %%r<8>;  .reg .b64 %%rd<6>;  .reg .b32 %%f0, %%f1;\n"
    "  .shared .align 1024 .b8 box_bytes[1024];  .shared .align 8 .b64 arrived;\n"
    "  griddepcontrol.wait;\n"
    "  mov.u32 %%r0, %%tid.x;  mov.u32 %%r1, arrived;  mov.u32 %%r2, box_bytes;\n"
    "  setp.ne.u32 %%p, %%r0, 0;\n"
    "  @%%p bra ready;\n"
    "  mbarrier.init.shared.b64 [%%r1], 1;\n  fence.mbarrier_init.release.cluster;\n"
    "ready:\n  bar.sync 0;\n  @%%p bra wait;\n"
    "  mov.b64 %%rd0, map;  cvta.param.u64 %%rd1, %%rd0;\n"
    "  mbarrier.arrive.expect_tx.shared.b64 %%rd2, [%%r1], 1024;\n"
    "  cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes [%%r2], [%%rd1, {%s}], [%%r1];\n"
    "wait:\n  mbarrier.try_wait.parity.shared.b64 %%q, [%%r1], 0;\n  @!%%q bra wait;\n"
    "  shl.b32 %%r3, %%r0, 2;  add.u32 %%r4, %%r2, %%r3;  cvt.u64.u32 %%rd3, %%r3;\n"
    "  ld.param.u64 %%rd4, [y];  cvta.to.global.u64 %%rd4, %%rd4;  add.u64 %%rd4, %%rd4, %%rd3;\n"
    "  ld.shared.b32 %%f0, [%%r4];  st.global.b32 [%%rd4], %%f0;\n"
    "  ld.shared.b32 %%f1, [%%r4+512];  st.global.b32 [%%rd4+512], %%f1;\n  ret;\n}\n";

typedef struct {
    sn_tensor_map map;
    int at[3];
} box_case;

/* Rows of 36 in memory, of which 34 belong to the array; boxes that leave it on either side, for each swizzle; rows
 * that overlap; axes that are not in the order of their strides. */
static const box_case CASES[] = {
    {{.dtype = SN_F32, .rank = 2, .dims = {34, 9}, .strides = {144}, .box = {32, 8}}, {0, 0}},
    {{.dtype = SN_F32, .rank = 2, .dims = {34, 9}, .strides = {144}, .box = {32, 8}, .offset = 16}, {8, 5}},
    {{.dtype = SN_F32, .rank = 2, .dims = {34, 9}, .strides = {144}, .box = {32, 8}, .swizzle = 128}, {-3, -2}},
    {{.dtype = SN_F32, .rank = 2, .dims = {34, 30}, .strides = {144}, .box = {16, 16}, .swizzle = 64}, {4, 3}},
    {{.dtype = SN_F32, .rank = 2, .dims = {34, 30}, .strides = {144}, .box = {8, 32}, .swizzle = 32}, {4, 1}},
    {{.dtype = SN_F32, .rank = 2, .dims = {64, 16}, .strides = {16}, .box = {64, 4}}, {0, 2}},
    {{.dtype = SN_F32, .rank = 3, .dims = {8, 4, 8}, .strides = {256, 32}, .box = {8, 4, 8}}, {0, 0, 0}},
};

/* The element of x, which holds 1, 2, 3, ..., that comes to element k of the box; 0: none does. */
static float expected(const box_case *c, uint32_t k) {
    const sn_tensor_map *m = &c->map;
    int64_t bytes = m->offset;
    uint32_t row = m->box[0] * 4, at = 4 * k;
    if (m->swizzle) at ^= (at / 128 * 16) % m->swizzle; /* 16 bytes change places, by the number of 128 */
    cr_assert(!m->swizzle || row == m->swizzle);
    k = at / 4;
    for (uint32_t i = 0; i < m->rank; i++) {
        int64_t x = c->at[i] + (int64_t)(k % m->box[i]);
        k /= m->box[i];
        if (x < 0 || x >= m->dims[i]) return 0;
        bytes += x * (i ? m->strides[i - 1] : 4);
    }
    return (float)(bytes / 4 + 1);
}

Test(tensor_map, the_cases_are_legal) {
    for (size_t i = 0; i < SN_COUNT(CASES); i++) {
        uint32_t elements = 1;
        cr_expect_null(sn_tensor_map_fault(&CASES[i].map), "case %zu: %s", i, sn_tensor_map_fault(&CASES[i].map));
        for (uint32_t k = 0; k < CASES[i].map.rank; k++) elements *= CASES[i].map.box[k];
        cr_expect_eq(elements, FLOATS);
    }
}

typedef struct {
    sn_env env;
    sn_cuda *cu;
    float *x[2], *y; /* the arrays begin 0 and 64 elements after the start */
} device;

enum { ELEMENTS = 2048 };

static void open_device(device *d) {
    sn_target target = {0};
    char why[512];
    static float numbers[ELEMENTS];
    if (!sn_cuda_count(why, sizeof why)) cr_skip_test("%s", why);
    sn_env_init(&d->env);
    cr_assert_eq(sn_cuda_open(&d->cu, &d->env, 0), SN_OK, "%s", d->env.message);
    sn_cuda_target(d->cu, &target);
    if (target.sm < 90) cr_skip_test("this device has no tensor maps");
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < ELEMENTS; i++) numbers[i] = (float)(i + 1 - 64 * k);
        void *memory;
        cr_assert_eq(sn_cuda_malloc(&memory, d->cu, sizeof numbers), SN_OK, "%s", d->env.message);
        cr_assert_eq(sn_cuda_to_device(d->cu, memory, numbers, sizeof numbers, NULL), SN_OK, "%s", d->env.message);
        d->x[k] = (float *)memory + 64 * k;
    }
    void *y;
    cr_assert_eq(sn_cuda_malloc(&y, d->cu, FLOATS * sizeof(float)), SN_OK, "%s", d->env.message);
    d->y = y;
}

/* For either array by one state: the map has to follow. Then many times in a graph, over copies of both. */
static void copy_box(device *d, const box_case *c) {
    static const char text[] =
        "buffer x: f32[1536] input 0 align 16\nbuffer y: f32[256] output 0 align 16\n"
        "kernel @box(x: f32[1536] in, y: f32[256] out) { loop i in 1 : grid { %0 = load x[i] store y[i], %0 } }\n"
        "wrapper @m workspace 0 { check x check y call @box(x, y) }\n";
    char ptx[sizeof PTX + 64], at[64];
    int n = snprintf(at, sizeof at, "%d, %d", c->at[0], c->at[1]);
    if (c->map.rank == 3) snprintf(at + n, sizeof at - (size_t)n, ", %d", c->at[2]);
    n = snprintf(ptx, sizeof ptx, PTX, (int)c->map.rank, at);
    sn_module *m = sn_module_new(&d->env);
    cr_assert_eq(sn_module_parse(m, "box.sn", text, sizeof text - 1), SN_OK, "%s", d->env.message);
    sn_rt_kernel kernel = {.name = "box",
                           .ptx = ptx,
                           .ptx_size = (size_t)n,
                           .grid = 1,
                           .block_x = 128,
                           .block_y = 1,
                           .maps = &c->map,
                           .n_maps = 1};
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, d->cu, &kernel, 1, NULL, 1, NULL), SN_OK, "%s", d->env.message);
    sn_prog_state *st = new_state(p);
    for (int k = 0; k < 4; k++) {
        float got[FLOATS];
        cr_assert_eq(sn_prog_run(st, (void *[]){d->x[k / 2]}, (void *[]){d->y}, NULL, true), SN_OK, "%s",
                     d->env.message);
        cr_assert_eq(sn_cuda_to_host(d->cu, got, d->y, sizeof got, NULL), SN_OK, "%s", d->env.message);
        for (uint32_t i = 0; i < FLOATS; i++)
            cr_assert_eq(got[i], expected(c, i), "case %td, run %d: element %u is %g, not %g", c - CASES, k, i,
                         (double)got[i], (double)expected(c, i));
    }
    double us[2];
    sn_graph_timing how = {.run_us = 3};
    cr_assert_eq(sn_prog_time_graph(us, 2, &how, st, (void *[]){d->x[0]}, (void *[]){d->y}), SN_OK, "%s",
                 d->env.message);
    cr_assert_gt(how.sets, 1);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
}

Test(tensor_map, what_a_device_copies) {
    device d;
    open_device(&d);
    for (size_t i = 0; i < SN_COUNT(CASES); i++) copy_box(&d, &CASES[i]);
    for (int k = 0; k < 2; k++) sn_cuda_free(d.cu, d.x[k] - 64 * k, ELEMENTS * sizeof(float));
    sn_cuda_free(d.cu, d.y, FLOATS * sizeof(float));
    sn_cuda_close(d.cu);
    cr_assert_eq(d.env.bytes_now, 0);
}
