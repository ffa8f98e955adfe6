/* test_contract_least.c: the bound under which no tiles of threads are looked for (passes/schedule/products/contract_threads.c) is one: the best of
 * them never takes less, and for deep products not many times as long. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "backend-nvptx/nvptx.h"
#include "passes/runner.h"
#include "passes/schedule/products/contract.h"

enum { FAR = 8, DEEP = 2048 };

typedef struct size {
    int m, n, k;
} size;

static const size SIZES[] = {{64, 64, 64},    {200, 72, 136},     {512, 512, 512},
                             {128, 4096, 48}, {2048, 2048, 2048}, {96, 1000, 9216}};
static const char *const DTYPES[] = {"f32", "bf16", "f64"}, *const TARGETS[] = {"sm_75", "sm_80", "sm_90a"};

static void check_kernel(sn_pass_ctx *cx, sn_kern k, const size *s, bool plain, uint32_t *found) {
    sn_contract ct;
    const char *why_not;
    double cycles;
    sn_sched sc = {.plain = plain};
    if (!sn_contract_find_threads(&ct, &why_not, cx, k, &sc)) return;
    double least = sn_contract_threads_least(&ct);
    if (!sn_contract_complete_threads(&sc, &cycles, &ct)) return;
    const char *name = sn_kern_get(cx->m, k)->name;
    cr_assert(least > 0 && cycles >= least, "%s of %d %d %d, %s: %g, %g at least", name, s->m, s->n, s->k,
              cx->target->name, cycles, least);
    if (s->m >= DEEP && s->k >= DEEP)
        cr_assert_lt(cycles, FAR * least, "%s of %d, %s: %g, %g at least", name, s->m, cx->target->name, cycles, least);
    ++*found;
}

static uint32_t check(const size *s, const char *dtype, const char *target) {
    char text[512];
    sn_env env;
    sn_arena arena;
    sn_target t;
    uint32_t found = 0;
    sn_env_init(&env);
    sn_arena_init(&arena, &env);
    sn_module *m = sn_module_new(&env);
    snprintf(text, sizeof text,
             "graph @p(%%a: %s[%d, %d], %%b: %s[%d, %d]) {\n  %%c = matmul %%a, %%b\n  return c = %%c\n}\n", dtype,
             s->m, s->k, dtype, s->k, s->n);
    cr_assert_eq(sn_module_parse(m, "product", text, strlen(text)), SN_OK, "%s", env.message);
    cr_assert_eq(sn_target_named(&t, &env, target), SN_OK, "%s", env.message);
    sn_pass_options o = {.pipeline = sn_passes_before(&arena, sn_pipeline_gpu, "schedule")};
    cr_assert_eq(sn_passes_run(&m, &t, &o), SN_OK, "%s", env.message);
    sn_pass_ctx cx = {.m = m, .scratch = &arena, .target = &t, .pass = "schedule"};
    for (uint32_t i = 0; i < m->kernels.n; i++)
        for (int plain = 0; plain < 2; plain++) check_kernel(&cx, m->kernels.at[i], s, plain, &found);
    sn_module_free(m);
    sn_arena_free(&arena);
    return found;
}

Test(contract_least, no_tile_takes_less) {
    uint32_t found = 0;
    for (size_t t = 0; t < sizeof TARGETS / sizeof *TARGETS; t++)
        for (size_t d = 0; d < sizeof DTYPES / sizeof *DTYPES; d++)
            for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) found += check(&SIZES[i], DTYPES[d], TARGETS[t]);
    cr_assert_gt(found, 60, "%u products that threads bring", found);
}
