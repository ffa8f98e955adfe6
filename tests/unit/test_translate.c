/* test_translate.c: parts of the translation of a kernel that no text reaches yet, by hand: what code asks of the target.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "backend-nvptx/nvptx.h"
#include "codegen-llvm/gen.h"

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
