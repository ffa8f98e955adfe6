/* test_codegen.c: code generation of scheduled kernels. Each kernel of codegen_kernels.h runs on the CPU and must agree with
 * the evaluator; each becomes PTX for an old, a common and a new GPU generation, which ptxas (where it is installed) must
 * take without spills and without memory on the stack.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend-host/host_code.h"
#include "backend-nvptx/nvptx.h"
#include "tests/unit/codegen_kernels.h"

static const char *const ASSEMBLERS[] = {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"};

static sn_module *parse(sn_env *env, const codegen_kernel *k) {
    sn_env_init(env);
    sn_module *m = sn_module_new(env);
    cr_assert_eq(sn_module_parse(m, k->name, k->text, strlen(k->text)), SN_OK, "%s", env->message);
    cr_assert_eq(sn_module_verify(m, k->name), SN_OK, "%s", env->message);
    return m;
}

/* ---- numbers ---- */

static uint64_t random_bits(uint64_t *s) {
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return *s;
}

static size_t numel(sn_module *m, sn_buf b) { return (size_t)sn_ix_value(m, sn_buf_get(m, b)->size); }

static void **allocate(sn_module *m) {
    void **memory = calloc(m->bufs.count, sizeof *memory);
    uint64_t s = 42;
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        if (sn_buf_is_local(b)) continue;
        size_t n = numel(m, (sn_buf){i});
        char *p = memory[i] = calloc(n, sn_dtype_bytes(b->dtype));
        for (size_t k = 0; k < n && b->scope == SN_BUF_INPUT; k++, p += sn_dtype_bytes(b->dtype)) {
            uint64_t bits = random_bits(&s);
            if (sn_is_float(b->dtype)) sn_store_float(b->dtype, p, (double)((int64_t)bits >> 40) * 0x1p-21);
            else sn_store_int(b->dtype, p, b->dtype == SN_BOOL ? (int64_t)(bits >> 63) : (int64_t)bits >> 58);
        }
    }
    return memory;
}

static void release(sn_module *m, void **memory) {
    for (uint32_t i = 0; i < m->bufs.count; i++) free(memory[i]);
    free(memory);
}

/* Sums may be added in another order, expansions differ by a few units in the last place. */
static bool close_enough(sn_dtype t, const void *p, const void *q) {
    if (!sn_is_float(t)) return sn_load_int(t, p) == sn_load_int(t, q);
    double x = sn_load_float(t, p), y = sn_load_float(t, q);
    if (x == y || (isnan(x) && isnan(y))) return true;
    /* The evaluator adds up long rows in one accumulator. */
    double unit = t == SN_F64 ? 1e-13 : t == SN_F32 ? 1e-5 : t == SN_F16 ? 2e-3 : 1e-2;
    return fabs(x - y) <= unit * (fabs(y) + 1);
}

static void compare(sn_module *m, const char *name, void **got, void **want) {
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        if (b->scope != SN_BUF_OUTPUT) continue;
        uint32_t bytes = sn_dtype_bytes(b->dtype);
        for (size_t k = 0; k < numel(m, (sn_buf){i}); k++) {
            const char *p = (char *)got[i] + k * bytes, *q = (char *)want[i] + k * bytes;
            if (close_enough(b->dtype, p, q)) continue;
            cr_expect_fail("%s: %s[%zu] is %g, want %g", name, b->name, k,
                           sn_is_float(b->dtype) ? sn_load_float(b->dtype, p) : (double)sn_load_int(b->dtype, p),
                           sn_is_float(b->dtype) ? sn_load_float(b->dtype, q) : (double)sn_load_int(b->dtype, q));
            break;
        }
    }
}

static void run_on_host(const codegen_kernel *k) {
    sn_env env;
    sn_module *m = parse(&env, k);
    sn_target target;
    sn_target_host(&target, 1);
    void **got = allocate(m), **want = allocate(m);
    sn_arena arena;
    sn_arena_init(&arena, &env);
    cr_assert_eq(sn_loop_eval(m, want, &arena), SN_OK, "%s: %s", k->name, env.message);
    sn_host_code *code;
    cr_assert_eq(sn_host_compile(&code, m, true, &target, NULL, NULL), SN_OK, "%s: %s", k->name, env.message);
    sn_kern kern = m->kernels.at[0];
    void *params[16], *kept = calloc(1, sn_host_code_kept_bytes(code, 0) + 1);
    uint32_t n = sn_kern_get(m, kern)->params.n;
    for (uint32_t i = 0; i < n; i++) params[i] = got[sn_kern_get(m, kern)->params.at[i].i];
    params[n] = kept;
    /* In two parts, as two threads of a pool would. */
    int64_t parts = sn_ix_value(m, sn_kern_launch(m, kern).parts), half = parts / 2;
    sn_host_code_kernel(code, 0)(params, 0, half);
    sn_host_code_kernel(code, 0)(params, half, parts);
    compare(m, k->name, got, want);
    sn_host_code_free(code);
    free(kept);
    sn_arena_free(&arena);
    release(m, got);
    release(m, want);
    sn_module_free(m);
}

Test(codegen, host_agrees_with_evaluator) {
    for (size_t i = 0; i < SN_COUNT(KERNELS); i++) run_on_host(&KERNELS[i]);
}

/* ---- PTX ---- */

static const char *find_assembler(void) {
    for (size_t i = 0; i < SN_COUNT(ASSEMBLERS); i++)
        if (access(ASSEMBLERS[i], X_OK) == 0) return ASSEMBLERS[i];
    return NULL;
}

/* What ptxas -v says, and its exit status. */
static int assemble(char *log, size_t size, const char *ptxas, const char *arch, const char *ptx) {
    char path[] = "/tmp/sinter-test-XXXXXX", command[256];
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, ptx, strlen(ptx)) == (ssize_t)strlen(ptx));
    close(fd);
    snprintf(command, sizeof command, "%s -v -arch=%s -o /dev/null %s 2>&1", ptxas, arch, path);
    FILE *f = popen(command, "r");
    cr_assert(f);
    size_t n = fread(log, 1, size - 1, f);
    log[n] = 0;
    int status = pclose(f);
    unlink(path);
    return status;
}

static void emit_one(const codegen_kernel *k, const char *arch, const char *ptxas) {
    sn_env env;
    sn_module *m = parse(&env, k);
    sn_target target;
    cr_assert_eq(sn_target_named(&target, &env, arch), SN_OK);
    sn_arena arena;
    sn_arena_init(&arena, &env);
    sn_gpu_code code;
    cr_assert_eq(sn_nvptx_emit(&code, m, m->kernels.at[0], &target, false, &arena), SN_OK, "%s: %s", k->name,
                 env.message);
    cr_assert_eq(strlen(code.ptx), code.ptx_size);
    cr_expect(strstr(code.ptx, ".entry k("), "%s: no kernel in\n%s", k->name, code.ptx);
    if (ptxas) {
        char log[4096];
        int status = assemble(log, sizeof log, ptxas, arch, code.ptx);
        cr_expect_eq(status, 0, "%s for %s: %s", k->name, arch, log);
        const char *line = strstr(log, "Function properties for k\n");
        cr_expect(line && strstr(line, "\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"),
                  "%s for %s: %s", k->name, arch, log);
    }
    sn_arena_free(&arena);
    sn_module_free(m);
}

Test(codegen, ptx_of_every_generation) {
    static const char *const ARCHS[] = {"sm_75",  "sm_80",  "sm_86",  "sm_87",  "sm_89", "sm_90",
                                        "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"};
    for (size_t a = 0; a < SN_COUNT(ARCHS); a++)
        for (size_t i = a % 5; i < SN_COUNT(KERNELS); i += 5) emit_one(&KERNELS[i], ARCHS[a], NULL);
}

/* What needs nothing of its architecture runs on all of the generation, and later ones. */
Test(codegen, a_variant_has_the_kernels_of_its_generation) {
    sn_env env;
    sn_module *m = parse(&env, &KERNELS[0]);
    static const char *const NAMES[] = {"sm_120", "sm_120a"};
    sn_gpu_code codes[2];
    sn_arena arena;
    sn_arena_init(&arena, &env);
    for (size_t i = 0; i < 2; i++) {
        sn_target target;
        cr_assert_eq(sn_target_named(&target, &env, NAMES[i]), SN_OK);
        cr_expect(target.sm == 120 && target.specific == (i == 1) && !strcmp(target.name, NAMES[i]));
        cr_assert_eq(sn_nvptx_emit(&codes[i], m, m->kernels.at[0], &target, false, &arena), SN_OK, "%s", env.message);
    }
    cr_expect_str_eq(codes[1].ptx, codes[0].ptx);
    sn_arena_free(&arena);
    sn_module_free(m);
}

/* By hand, since no kernel here needs more: the processors that LLVM hears of. */
Test(codegen, processors) {
    static const struct {
        uint32_t sm;
        bool specific;
        const char *cpu; /* NULL: there is none */
        uint32_t ptx;
    } CASES[] = {{75, false, "sm_75", 70}, {88, false, "sm_87", 74}, {90, false, "sm_90", 78},
                 {90, true, "sm_90a", 80}, {89, true, NULL, 0},      {120, true, "sm_120a", 87},
                 {70, false, NULL, 0}};
    for (size_t i = 0; i < SN_COUNT(CASES); i++) {
        const char *cpu = NULL;
        uint32_t ptx = 0;
        bool found = sn_nvptx_cpu(&(sn_target){.sm = CASES[i].sm}, CASES[i].specific, &cpu, &ptx);
        cr_expect_eq(found, CASES[i].cpu != NULL, "case %zu", i);
        if (found) cr_expect(!strcmp(cpu, CASES[i].cpu) && ptx == CASES[i].ptx, "case %zu: %s, PTX %u", i, cpu, ptx);
    }
}

Test(codegen, ptxas_accepts) {
    const char *ptxas = find_assembler();
    if (!ptxas) cr_skip_test("ptxas is not installed");
    for (size_t i = 0; i < SN_COUNT(KERNELS); i++) emit_one(&KERNELS[i], i % 4 == 3 ? "sm_80" : "sm_90", ptxas);
}

/* ---- failures ---- */

static void refuses(const char *text, const char *arch, sn_status status, const char *words) {
    sn_env env;
    sn_module *m = parse(&env, &(codegen_kernel){"refused", text});
    sn_target target;
    cr_assert_eq(sn_target_named(&target, &env, arch), SN_OK);
    sn_arena arena;
    sn_arena_init(&arena, &env);
    sn_gpu_code code;
    cr_expect_eq(sn_nvptx_emit(&code, m, m->kernels.at[0], &target, false, &arena), status);
    cr_expect(strstr(env.message, words), "%s", env.message);
    sn_arena_free(&arena);
    sn_module_free(m);
}

Test(codegen, failures_are_statuses) {
    static const char ANY[] =
        "buffer y: f32[4] output 0 align 16 kernel @k(y) scheduled { loop i in 4 : grid { %0 = const.f32 1 store y[i], %0 } }";
    refuses(ANY, "host", SN_ERROR_TARGET, "PTX cannot be made for target host");
    refuses(
        "buffer y: f32[N] output 0 align 16 kernel @k(y) scheduled { loop i in N : grid { %0 = const.f32 1 store y[i], %0 } }",
        "sm_90", SN_ERROR_UNSUPPORTED, "symbolic");
    refuses("buffer y: f32[4] output 0 align 16 kernel @k(y) scheduled { posted p: f32 size N\n"
            "loop i in 4 : grid { %0 = const.f32 1 store y[i], %0 store p[i], %0 } }",
            "sm_90", SN_ERROR_UNSUPPORTED, "kernel k: 'p' has a symbolic size; give it a value first");
    refuses(
        "buffer y: f32[2048] output 0 align 16 kernel @k(y) scheduled { loop i in 2048 : block.x { %0 = const.f32 1 store y[i], %0 } }",
        "sm_90", SN_ERROR_TARGET, "2048 x 1 threads");
    static const char SCAN[] = "buffer x: f32[%d] input 0 align 16 buffer y: f32[%d] output 0 align 16\n"
                               "kernel @k(x, y) scheduled { loop t in %d : block.%c { %s { %%0 = load x[%s]\n"
                               "  %%1 = accum sum %%0 over %s store y[%s], %%1 } } }";
    static const struct {
        int n, threads;
        char block;
        const char *inside, *at, *words;
    } SCANS[] = {
        {64, 32, 'x', "loop u in 2 : unroll", "2*t + u", "a prefix has loops other than one vector inside block.x"},
        {64, 32, 'y', "loop v in 2 : vector", "2*t + v", "a prefix runs over block.y"},
        {48, 24, 'x', "loop v in 2 : vector", "2*t + v", "a prefix needs a power of two of threads or whole warps"},
    };
    for (size_t i = 0; i < SN_COUNT(SCANS); i++) {
        char text[1024];
        snprintf(text, sizeof text, SCAN, SCANS[i].n, SCANS[i].n, SCANS[i].threads, SCANS[i].block, SCANS[i].inside,
                 SCANS[i].at, SCANS[i].at, SCANS[i].at);
        refuses(text, "sm_90", SN_ERROR_UNSUPPORTED, SCANS[i].words);
    }
    sn_env env;
    sn_env_init(&env);
    sn_target target;
    cr_expect_eq(sn_target_named(&target, &env, "sm_42"), SN_ERROR_TARGET);
    cr_expect(strstr(env.message, "unknown target 'sm_42'; known are: host sm_75"), "%s", env.message);
    cr_expect(strstr(env.message, " sm_90a"), "%s", env.message);
}

Test(codegen, a_name_has_the_figures_of_a_card) {
    sn_env env;
    sn_target t, again;
    sn_env_init(&env);
    cr_assert_eq(sn_target_for_sm(&t, &env, 90), SN_OK);
    sn_target_name_figures(&t);
    cr_expect_str_eq(t.name, "sm_90a");
    t.units = 114;
    t.cache_bytes = 50 << 20;
    sn_target_name_figures(&t);
    cr_expect_str_eq(t.name, "sm_90a:units=114:l2=52428800");
    cr_assert_eq(sn_target_named(&again, &env, t.name), SN_OK, "%s", env.message);
    cr_expect(again.units == 114 && again.cache_bytes == 50 << 20 && again.specific && !strcmp(again.name, t.name));
    cr_assert_eq(sn_target_named(&again, &env, "sm_90a:l2=52428800:units=132"), SN_OK);
    cr_expect_str_eq(again.name, "sm_90a:l2=52428800"); /* one name a target */
}

Test(codegen, a_device_takes_the_row_of_its_generation) {
    sn_env env;
    sn_target t;
    sn_env_init(&env);
    cr_assert_eq(sn_target_for_sm(&t, &env, 88), SN_OK);
    cr_assert(!t.specific && !strcmp(t.name, "sm_87"), "%s", t.name);
    cr_assert_eq(sn_target_for_sm(&t, &env, 90), SN_OK);
    cr_assert(t.specific && !strcmp(t.name, "sm_90a"), "%s", t.name);
    cr_assert_eq(sn_target_for_sm(&t, &env, 101), SN_OK);
    cr_assert(!t.specific && !strcmp(t.name, "sm_100"), "%s", t.name);
    cr_assert_eq(sn_target_for_sm(&t, &env, 70), SN_ERROR_TARGET);
    cr_assert_str_eq(env.message, "the device has compute capability 7.0; sm_75 is the oldest that can be used");
}
