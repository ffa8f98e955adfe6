/* test_translate.c: parts of the translation of a kernel that no text reaches yet, by hand: tensor maps as
 * parameters, what code asks of the target. And which maps the hardware takes.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "backend-nvptx/nvptx.h"
#include "codegen-llvm/gen.h"
#include "ir/base/tensor_map.h"

/* bf16[4096, 1024], in boxes of 64 rows of 64 elements. */
static const sn_tensor_map GOOD = {
    .dtype = SN_BF16, .rank = 2, .dims = {1024, 4096}, .strides = {2048}, .box = {64, 64}, .swizzle = 128};

/* Pixels of images of 16 x 16. */
#define PIXELS(least, most, step)                                                                                      \
    {.dtype = SN_F32, .rank = 4, .dims = {32, 16, 16, 4}, .strides = {128, 2048, 32768}, .box = {32, 512, 1, 1},        \
     .pixels = true, .low = {0, least}, .high = {0, most}, .steps = {1, step}, .swizzle = 128}
static const sn_tensor_map GOOD_PIXELS = PIXELS(-128, 127, 8);

Test(tensor_map, what_the_hardware_takes) {
    cr_assert_null(sn_tensor_map_fault(&GOOD));
    cr_assert_null(sn_tensor_map_fault(&GOOD_PIXELS));
    static const struct {
        sn_tensor_map map;
        const char *words;
    } bad[] = {
        {{.dtype = SN_F32}, "it has no axis"},
        {{.dtype = SN_F32, .rank = 6}, "or more than 5"},
        {{.dtype = SN_F32, .rank = 1, .offset = 4, .dims = {4}, .box = {4}},
         "its first element is at no multiple of 16"},
        {{.dtype = SN_F32, .rank = 1, .dims = {0}, .box = {4}}, "an axis has no element"},
        {{.dtype = SN_U8, .rank = 1, .dims = {((int64_t)1 << 32) + 1}, .box = {16}}, "more than 2^32"},
        {{.dtype = SN_U8, .rank = 1, .dims = {4096}, .box = {512}}, "more than 256 along an axis"},
        {{.dtype = SN_F32, .rank = 2, .dims = {4, 4}, .strides = {20}, .box = {4, 4}}, "no multiple of 16 bytes"},
        {{.dtype = SN_F32, .rank = 2, .dims = {4, 4}, .strides = {0}, .box = {4, 4}}, "a stride is not positive"},
        {{.dtype = SN_F32, .rank = 2, .dims = {4, 4}, .strides = {(int64_t)1 << 40}, .box = {4, 4}},
         "2^40 bytes or more"},
        {{.dtype = SN_F32, .rank = 1, .dims = {8}, .box = {3}}, "a row of a box is no multiple of 16 bytes"},
        {{.dtype = SN_F32, .rank = 1, .dims = {64}, .box = {16}, .swizzle = 32}, "longer than the swizzle"},
        {{.dtype = SN_F32, .rank = 1, .dims = {64}, .box = {4}, .swizzle = 16}, "a swizzle is 0, 32, 64 or 128 bytes"},
        {{.dtype = SN_F32, .rank = 2, .dims = {4, 4}, .strides = {16}, .box = {4, 4}, .pixels = true}, "have no axis"},
        {PIXELS(-129, 0, 1), "too far from the ends"},
        {PIXELS(0, 128, 1), "too far from the ends"},
        {PIXELS(0, 0, 9), "not 1 to 8 elements apart"},
        {PIXELS(0, -16, 1), "an axis has no pixel"},
    };
    for (size_t i = 0; i < SN_COUNT(bad); i++) {
        const char *fault = sn_tensor_map_fault(&bad[i].map);
        cr_expect(fault && strstr(fault, bad[i].words), "case %zu: %s", i, fault ? fault : "no fault");
    }
}

/* What lies beyond the rank says nothing. */
Test(tensor_map, equal_ones) {
    sn_tensor_map map = GOOD;
    map.dims[2] = 7;
    cr_expect(sn_tensor_map_eq(&GOOD, &map));
    map.strides[0] = 4096;
    cr_expect_not(sn_tensor_map_eq(&GOOD, &map));
    sn_tensor_map others[] = {GOOD, GOOD, GOOD, GOOD, GOOD, GOOD, GOOD};
    others[0].param = 1, others[1].offset = 16, others[2].dtype = SN_F16, others[3].dims[1] = 1;
    others[4].box[1] = 32, others[5].swizzle = 64, others[6].tf32 = true;
    for (size_t i = 0; i < SN_COUNT(others); i++) cr_expect_not(sn_tensor_map_eq(&GOOD, &others[i]), "%zu", i);
    sn_tensor_map pixels[] = {GOOD_PIXELS, GOOD_PIXELS, GOOD_PIXELS, GOOD_PIXELS, GOOD_PIXELS};
    pixels[0].low[2] = 1, pixels[1].low[1] = 1, pixels[2].high[1] = 1, pixels[3].steps[1] = 1, pixels[4].pixels = false;
    for (size_t i = 0; i < SN_COUNT(pixels); i++)
        cr_expect_eq(sn_tensor_map_eq(&GOOD_PIXELS, &pixels[i]), i == 0, "%zu", i);
}

/* ---- translations ---- */

typedef struct {
    sn_env env;
    sn_module *m;
    sn_target target;
    sn_cg cg;
    sn_gen g;
} translation;

/* A kernel of two parameters, the second of which is not aligned, before it has a function. */
static void begin(translation *t, const char *target) {
    static const char text[] = "buffer x: bf16[4096, 1024] input 0 align 16  buffer y: bf16[64] output 0 align 2\n"
                               "kernel @k(x, y) { loop i in 64 { %0 = load x[i] store y[i], %0 } }\n";
    sn_env_init(&t->env);
    t->m = sn_module_new(&t->env);
    cr_assert_eq(sn_module_parse(t->m, "k", text, strlen(text)), SN_OK, "%s", t->env.message);
    cr_assert_eq(sn_target_named(&t->target, &t->env, target), SN_OK);
    cr_assert_eq(sn_cg_open(&t->cg, &t->env, &t->target), SN_OK, "%s", t->env.message);
    sn_kern k = t->m->kernels.at[0];
    t->g = (sn_gen){.em = {.cg = &t->cg, .mod = LLVMModuleCreateWithNameInContext("k", t->cg.cx), .b = t->cg.builder},
                    .env = &t->env,
                    .m = t->m,
                    .kern = k,
                    .k = sn_kern_get(t->m, k),
                    .arena = &t->cg.scratch,
                    .gpu = true,
                    .status = SN_OK};
}

static void end(translation *t) {
    LLVMDisposeModule(t->g.em.mod);
    sn_cg_close(&t->cg);
    sn_module_free(t->m);
    cr_assert_eq(t->env.bytes_now, 0);
}

/* The function with its maps; its body reads the last. */
static void make_function(translation *t) {
    sn_gen *g = &t->g;
    LLVMTypeRef types[] = {t->cg.global_ptr, t->cg.global_ptr, t->cg.ptr, t->cg.ptr};
    g->em.fn = LLVMAddFunction(g->em.mod, "k", LLVMFunctionType(t->cg.vd, types, SN_COUNT(types), 0));
    LLVMSetFunctionCallConv(g->em.fn, 71);
    LLVMPositionBuilderAtEnd(g->em.b, sn_em_block(&g->em, "entry"));
    sn_gen_tensor_map_params(g, 2);
    lv map = sn_gen_tensor_map_address(g, 1);
    sn_em_call(&g->em, "llvm.nvvm.prefetch.tensormap", t->cg.ptr, &map, 1);
    LLVMBuildRetVoid(g->em.b);
}

Test(translate, tensor_maps_stand_behind_the_other_parameters) {
    translation t;
    begin(&t, "sm_90");
    sn_tensor_map other = GOOD;
    other.box[1] = 128;
    cr_expect_eq(sn_gen_tensor_map(&t.g, &GOOD), 0);
    cr_expect_eq(sn_gen_tensor_map(&t.g, &other), 1);
    cr_expect_eq(sn_gen_tensor_map(&t.g, &GOOD), 0);
    cr_expect(t.g.maps.n == 2 && t.g.ptx == 80 && !t.g.specific, "%u maps, PTX %u", t.g.maps.n, t.g.ptx);
    make_function(&t);
    cr_assert_eq(sn_cg_verify(&t.cg, t.g.em.mod), SN_OK, "%s", t.env.message);
    char *text = sn_cg_text(&t.cg, t.g.em.mod, &t.cg.scratch);
    cr_expect(strstr(text, "ptr byval([128 x i8]) align 64 \"nvvm.grid_constant\" %map0, "
                           "ptr byval([128 x i8]) align 64 \"nvvm.grid_constant\" %map1)"),
              "%s", text);
    cr_expect(strstr(text, "@llvm.nvvm.prefetch.tensormap.p0(ptr %map1)"), "%s", text);
    end(&t);
}

static void expect_refused(const char *target, const sn_tensor_map *map, const char *message) {
    translation t;
    begin(&t, target);
    sn_gen_tensor_map(&t.g, map);
    cr_expect_eq(t.g.status, SN_ERROR_UNSUPPORTED);
    cr_expect_str_eq(t.env.message, message);
    end(&t);
}

Test(translate, where_no_tensor_map_can_be) {
    sn_tensor_map map = GOOD;
    expect_refused("sm_89", &map, "kernel k: no tensor map for x: the target has none");
    map.param = 1;
    expect_refused("sm_90", &map, "kernel k: no tensor map for y: its storage starts at no multiple of 16 bytes");
    map.strides[0] = 24;
    expect_refused("sm_90", &map, "kernel k: no tensor map for y: a stride is no multiple of 16 bytes");
}

Test(translate, instructions_of_one_architecture) {
    translation t;
    begin(&t, "sm_90a");
    sn_gen_needs_ptx(&t.g, 86);
    sn_gen_needs_ptx(&t.g, 80);
    sn_gen_needs_specific(&t.g);
    cr_expect(t.g.status == SN_OK && t.g.ptx == 86 && t.g.specific);
    end(&t);
    begin(&t, "sm_90");
    sn_gen_needs_specific(&t.g);
    cr_expect_eq(t.g.status, SN_ERROR_TARGET);
    cr_expect_str_eq(t.env.message, "kernel k: its schedule needs instructions that one architecture alone has; target "
                                    "sm_90 leaves them out (sm_90a has those of 9.0)");
    end(&t);
}
