/* test_wrapper.c: the wrapper emitters against the step interpreter, and kernels through the JIT.
 *
 * The generated wrapper and the interpreter run the same program; they must make the same calls with the same addresses
 * in the same order. The C file must compile without a warning against cuda.h.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend-host/host_code.h"
#include "runtime/prog.h"

/* Two inputs, two outputs, a constant, temporaries with offsets, storage taken over from a temporary and from an input,
 * a kernel called twice, write-back. */
static const char program[] =
    "buffer x: f32[4] input 0 align 16\n"
    "buffer w: f32[4] input 1\n"
    "buffer c: f32[4] const data [1, 2, 3, 4] align 16\n"
    "buffer d: f32[4] const data [10, 20, 30, 40] align 16\n"
    "buffer t: f32[4] temp align 256\n"
    "buffer u: f32[4] temp align 256\n"
    "buffer v: f32[4] temp align 256\n"
    "buffer y: f32[4] output 0 align 16\n"
    "buffer z: f32[4] output 1 align 16\n"
    "kernel @k0(x: f32[4] in, c: f32[4] in, t: f32[4] out) note \"x + c\" {\n"
    "  loop i in 4 : grid { %0 = load x[i] %1 = load c[i] %2 = add %0, %1 store t[i], %2 }\n}\n"
    "kernel @k1(t: f32[4] in, d: f32[4] in, u: f32[4] out) {\n"
    "  loop i in 4 : grid { %0 = load t[i] %1 = load d[i] %2 = mul %0, %1 store u[i], %2 }\n}\n"
    "kernel @k2(u: f32[4] in, w: f32[4] in, y: f32[4] out) {\n"
    "  loop i in 4 : grid { %0 = load u[i] %1 = load w[i] %2 = sub %0, %1 store y[i], %2 }\n}\n"
    "kernel @k3(y: f32[4] in, v: f32[4] inout, z: f32[4] out) {\n"
    "  loop i in 4 : grid { %0 = load y[i] store v[i], %0 %1 = load v[3 - i] store z[i], %0 }\n}\n"
    "wrapper @main workspace 512 {\n"
    "  check x\n  check w\n  check y\n  check z\n"
    "  alloc t size 16 offset 256\n  call @k0(x, c, t)\n"
    "  alloc u size 16 offset 0\n  call @k1(t, d, u)\n  free t\n"
    "  comment \"a */ comment /* that tries\"\n"
    "  call @k2(u, w, y)\n  call @k2(u, w, y)\n  free u\n"
    "  reuse v from x\n  call @k3(y, v, z)\n"
    "  copy w from y size 16\n  copy x from z size 16\n"
    "}\n";

static sn_module *parsed(sn_env *env, const char *text) {
    sn_env_init(env);
    sn_module *m = sn_module_new(env);
    sn_status status = sn_module_parse(m, "test.sn", text, strlen(text));
    cr_assert_eq(status, SN_OK, "%s", env->message);
    return m;
}

static sn_target host_target(void) {
    sn_target t = {0};
    sn_target_host(&t, 2);
    return t;
}

/* ---- kernels that only note their parameters ---- */

enum { MAX_CALLS = 16 };
static struct {
    int n, kernel[MAX_CALLS];
    void *params[MAX_CALLS][3];
} calls;

static void note(int kernel, void *const *params) {
    calls.kernel[calls.n] = kernel;
    memcpy(calls.params[calls.n++], params, 3 * sizeof *params);
}

#define NOTING(n)                                                          \
    static void note##n(void *const *params, int64_t begin, int64_t end) { \
        cr_assert(begin == 0 && end == 1);                                 \
        note(n, params);                                                   \
    }
NOTING(0)
NOTING(1)
NOTING(2)
NOTING(3)
#undef NOTING

static const sn_rt_kernel noting[] = {
    {.grid = 1, .host = note0}, {.grid = 1, .host = note1}, {.grid = 1, .host = note2}, {.grid = 1, .host = note3}};

typedef struct {
    _Alignas(16) float x[4], w[4], y[4], z[4];
} tensors;

static const tensors start = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 9, 9, 9}, {7, 7, 7, 7}};

static sn_prog_state *new_state(const sn_prog *p) {
    sn_prog_state *st;
    cr_assert_eq(sn_prog_state_new(&st, p, p->env, p->cu), SN_OK, "%s", p->env->message);
    return st;
}

static sn_status run(sn_prog_state *st, tensors *t, bool interpreter) {
    return sn_prog_run(st, (void *[]){t->x, t->w}, (void *[]){t->y, t->z}, NULL, interpreter);
}

Test(wrapper_llvm, makes_the_calls_of_the_interpreter) {
    sn_env env;
    sn_module *m = parsed(&env, program);
    sn_target target = host_target();
    sn_host_code *code;
    sn_prog *p;
    cr_assert_eq(sn_host_compile(&code, m, false, &target, NULL, NULL), SN_OK, "%s", env.message);
    cr_assert_eq(sn_prog_load(&p, m, NULL, noting, 4, sn_host_code_wrapper(code), 1, NULL), SN_OK, "%s", env.message);
    sn_prog_state *st = new_state(p);
    tensors t = start;
    cr_assert_eq(run(st, &t, true), SN_OK);
    __typeof__(calls) interpreted = calls;
    tensors after = t;
    memset(&calls, 0, sizeof calls);
    t = start;
    cr_assert_eq(run(st, &t, false), SN_OK);
    cr_assert_eq(calls.n, 5);
    cr_assert_eq(memcmp(&calls, &interpreted, sizeof calls), 0);
    cr_assert_eq(memcmp(&t, &after, sizeof t), 0);
    cr_assert_eq(t.w[0], 9); /* written back from y */
    cr_assert_eq(t.x[0], 7);
    cr_assert_eq(calls.params[4][1], t.x, "v takes the storage of x");
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_host_code_free(code);
    sn_module_free(m);
    cr_assert_eq(env.bytes_now, 0);
}

/* What depends on constants alone: p and q are made when the program is loaded, and lie in memory of the program. */
static const char preparing[] =
    "buffer x: f32[4] input 0 align 16\n"
    "buffer c: f32[4] const data [1, 2, 3, 4] align 16\n"
    "buffer p: f32[4] temp align 256\n"
    "buffer q: f32[4] temp align 256\n"
    "buffer t: f32[4] temp align 256\n"
    "buffer y: f32[4] output 0 align 16\n"
    "kernel @k0(c: f32[4] in, p: f32[4] out) { loop i in 4 : grid { %0 = load c[i] store p[i], %0 } }\n"
    "kernel @k1(p: f32[4] inout, x: f32[4] in, t: f32[4] out) {\n"
    "  loop i in 4 : grid { %0 = load x[i] %1 = load p[i] %2 = mul %0, %1 store t[i], %2 store p[i], %1 }\n}\n"
    "kernel @k2(q: f32[4] in, t: f32[4] in, y: f32[4] out) {\n"
    "  loop i in 4 : grid { %0 = load q[i] %1 = load t[i] %2 = add %0, %1 store y[i], %2 }\n}\n"
    "wrapper @main workspace 256 prepared 512 {\n"
    "  prepare { alloc p size 16 offset 256 call @k0(c, p) reuse q from p }\n"
    "  check x check y alloc t size 16 offset 0 call @k1(q, x, t) call @k2(q + 1, t, y)\n"
    "}\n";

Test(wrapper_llvm, prepares_once) {
    sn_env env;
    sn_module *m = parsed(&env, preparing);
    sn_target target = host_target();
    sn_host_code *code;
    sn_prog *p;
    cr_assert_eq(sn_host_compile(&code, m, false, &target, NULL, NULL), SN_OK, "%s", env.message);
    cr_assert_eq(sn_prog_load(&p, m, NULL, noting, 3, sn_host_code_wrapper(code), 1, NULL), SN_OK, "%s", env.message);
    cr_assert_eq(calls.n, 1);
    cr_assert_eq(sn_prog_launches(p), 2);
    char *q = (char *)p->prepared + 256;
    cr_assert_eq(calls.params[0][1], q);
    sn_prog_state *st = new_state(p);
    tensors t = start;
    for (int interpreter = 0; interpreter < 2; interpreter++) {
        memset(&calls, 0, sizeof calls);
        cr_assert_eq(run(st, &t, interpreter), SN_OK);
        cr_assert_eq(calls.n, 2);
        cr_assert_eq(calls.params[0][0], q);
        cr_assert_eq(calls.params[0][1], t.x);
        cr_assert_eq(calls.params[0][2], st->workspace);
        cr_assert_eq(calls.params[1][0], q + 4);
    }
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_host_code_free(code);
    sn_module_free(m);
    cr_assert_eq(env.bytes_now, 0);
}

Test(wrapper_llvm, failed_checks_find_their_words) {
    sn_env env;
    sn_module *m = parsed(&env, program);
    sn_target target = host_target();
    sn_host_code *code;
    sn_prog *p;
    cr_assert_eq(sn_host_compile(&code, m, false, &target, NULL, NULL), SN_OK, "%s", env.message);
    cr_assert_eq(sn_prog_load(&p, m, NULL, noting, 4, sn_host_code_wrapper(code), 1, NULL), SN_OK);
    sn_prog_state *st = new_state(p);
    tensors t = start;
    cr_assert_eq(sn_prog_run(st, (void *[]){t.x + 1, t.w}, (void *[]){t.y, t.z}, NULL, false), SN_ERROR_ARGUMENT);
    cr_assert(strstr(env.message, "input 0 (x): its storage at "), "%s", env.message);
    sn_env_clear(&env);
    cr_assert_eq(sn_prog_run(st, (void *[]){t.x, t.w}, (void *[]){t.y, NULL}, NULL, false), SN_ERROR_ARGUMENT);
    cr_assert_str_eq(env.message, "output 1 (z): no storage was given");
    cr_assert_eq(calls.n, 0);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_host_code_free(code);
    sn_module_free(m);
}

static int failing_launch(void *user, uint32_t kernel, void *const *params) {
    (void)params;
    ++*(int *)user;
    return kernel == 1 ? 42 : 0;
}

static int no_copy(void *user, void *to, const void *from, int64_t size) {
    (void)user, (void)to, (void)from, (void)size;
    return 0;
}

static int no_test(void *user, const void *flag, int *holds) {
    (void)user, (void)flag, (void)holds;
    return 0;
}

Test(wrapper_llvm, a_failed_launch_ends_the_run) {
    sn_env env;
    sn_module *m = parsed(&env, program);
    sn_target target = host_target();
    sn_host_code *code;
    cr_assert_eq(sn_host_compile(&code, m, false, &target, NULL, NULL), SN_OK, "%s", env.message);
    tensors t = start;
    int launches = 0;
    char workspace[512];
    int status = sn_host_code_wrapper(code)((void *[]){t.x, t.w}, (void *[]){t.y, t.z}, (void *[]){t.x, t.x}, workspace,
                                            failing_launch, no_copy, no_test, &launches);
    cr_assert_eq(status, 42);
    cr_assert_eq(launches, 2);
    sn_host_code_free(code);
    sn_module_free(m);
}

/* Processor time of compiling a wrapper that calls a kernel n times. */
static double seconds_for_calls(int n) {
    sn_env env;
    sn_text t;
    sn_env_init(&env);
    sn_text_init(&t, &env);
    sn_text_put(&t, "buffer x: f32[4] input 0\nbuffer y: f32[4] output 0\n"
                    "kernel @k(x: f32[4] in, y: f32[4] out) {\n"
                    "  loop i in 4 : grid { %0 = load x[i] store y[i], %0 }\n}\n"
                    "wrapper @m workspace 0 {\n");
    for (int k = 0; k < n; k++) sn_text_put(&t, "call @k(x, y)\n");
    sn_text_put(&t, "}\n");
    sn_module *m = sn_module_new(&env);
    cr_assert_eq(sn_module_parse(m, "calls", t.s, t.n), SN_OK, "%s", env.message);
    sn_target target = host_target();
    sn_host_code *code;
    clock_t start = clock();
    cr_assert_eq(sn_host_compile(&code, m, false, &target, NULL, NULL), SN_OK, "%s", env.message);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    sn_host_code_free(code);
    sn_module_free(m);
    sn_text_free(&t);
    return seconds;
}

Test(wrapper_llvm, calls_are_data) {
    seconds_for_calls(1); /* loads LLVM */
    double few = seconds_for_calls(200), many = seconds_for_calls(12800);
    /* A call as data takes a microsecond, code for one takes LLVM tens of them. */
    cr_expect_lt(many - few, 12600 * 8e-6, "%g and %g s: code for each call?", few, many);
}

Test(wrapper_llvm, symbolic_sizes_are_named) {
    sn_env env;
    sn_module *m = parsed(&env, "buffer x: f32[N] input 0\nbuffer t: f32[N] temp\n"
                                "wrapper @m workspace 64 { alloc t size 16 offset 4*N copy x from t size 4*N }\n");
    sn_target target = host_target();
    sn_host_code *code;
    cr_assert_eq(sn_host_compile(&code, m, false, &target, NULL, NULL), SN_ERROR_UNSUPPORTED);
    cr_assert_str_eq(env.message, "the offset of t depends on the symbolic size N: give it a value before running");
    cr_assert_null(code);
    sn_module_free(m);
    cr_assert_eq(env.bytes_now, 0);
}

/* ---- kernels through the JIT ---- */

static void load_jit(sn_prog **p, sn_host_code **code, sn_module *m, int64_t grid) {
    sn_target target = host_target();
    cr_assert_eq(sn_host_compile(code, m, true, &target, NULL, NULL), SN_OK, "%s", m->env->message);
    sn_rt_kernel kernels[8];
    for (uint32_t i = 0; i < m->kernels.n; i++)
        kernels[i] = (sn_rt_kernel){.grid = grid, .host = sn_host_code_kernel(*code, i)};
    cr_assert_eq(sn_prog_load(p, m, NULL, kernels, m->kernels.n, sn_host_code_wrapper(*code), 2, NULL), SN_OK, "%s",
                 m->env->message);
}

Test(jit, program_computes) {
    sn_env env;
    sn_module *m = parsed(&env, program);
    sn_host_code *code;
    sn_prog *p;
    load_jit(&p, &code, m, 4);
    sn_prog_state *st = new_state(p);
    for (int interpreter = 0; interpreter < 2; interpreter++) {
        tensors t = start;
        cr_assert_eq(run(st, &t, interpreter), SN_OK, "%s", env.message);
        for (int i = 0; i < 4; i++) {
            float want = (start.x[i] + (float)(i + 1)) * (float)(10 * (i + 1)) - start.w[i];
            cr_assert(t.y[i] == want && t.z[i] == want && t.w[i] == want && t.x[i] == want, "%d: %g, not %g", i,
                      (double)t.y[i], (double)want);
        }
    }
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_host_code_free(code);
    sn_module_free(m);
    cr_assert_eq(env.bytes_now, 0);
}

Test(jit, names_of_the_c_library_are_free) {
    static const char text[] =
        "buffer x: f32[8] input 0\nbuffer y: f32[8] output 0\n"
        "kernel @memcpy(x: f32[8] in, y: f32[8] out) { loop i in 8 : grid { %0 = load x[i] %1 = exp %0 store y[i], %1 } }\n"
        "wrapper @m workspace 0 { call @memcpy(x, y) }\n";
    sn_env env;
    sn_module *m = parsed(&env, text);
    sn_host_code *code;
    sn_prog *p;
    load_jit(&p, &code, m, 8);
    sn_prog_state *st = new_state(p);
    float x[8] = {0, 1, -1, 2, 0.5f, -3, 4, 5}, y[8];
    cr_assert_eq(sn_prog_run(st, (void *[]){x}, (void *[]){y}, NULL, false), SN_OK);
    for (int i = 0; i < 8; i++)
        cr_assert(fabsf(y[i] - expf(x[i])) <= 1e-6f * expf(x[i]), "exp(%g) = %g", (double)x[i], (double)y[i]);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_host_code_free(code);
    sn_module_free(m);
}

/* LLVM turns the loop into a call of memset, which comes from the process. */
Test(jit, generated_code_calls_the_c_library) {
    static const char text[] =
        "buffer y: f32[4096] output 0\n"
        "kernel @zero(y: f32[4096] out) { loop b in 1 : grid { loop i in 4096 { %0 = const.f32 0.0 store y[i], %0 } } }\n"
        "wrapper @m workspace 0 { call @zero(y) }\n";
    sn_env env;
    sn_module *m = parsed(&env, text);
    sn_host_code *code;
    sn_prog *p;
    load_jit(&p, &code, m, 1);
    sn_prog_state *st = new_state(p);
    static float y[4096];
    for (int i = 0; i < 4096; i++) y[i] = (float)i + 1;
    cr_assert_eq(sn_prog_run(st, NULL, (void *[]){y}, NULL, false), SN_OK);
    for (int i = 0; i < 4096; i++) cr_assert_eq(y[i], 0);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_host_code_free(code);
    sn_module_free(m);
}

Test(jit, text_of_all_kernels) {
    sn_env env;
    sn_module *m = parsed(&env, program);
    sn_target target = host_target();
    sn_arena arena;
    char *text;
    sn_arena_init(&arena, &env);
    cr_assert_eq(sn_host_llvm(&text, m, &target, &arena), SN_OK, "%s", env.message);
    cr_assert(strstr(text, "@k0(") && strstr(text, "@k3("), "%s", text);
    sn_arena_free(&arena);
    sn_module_free(m);
}

/* ---- the wrapper as C ---- */

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    cr_assert_geq(fputs(text, f), 0);
    fclose(f);
}

static bool has_gcc(void) { return system("command -v gcc >/dev/null 2>&1") == 0; }

static void compiles(const char *text) {
    char dir[] = "/tmp/sinter-wrapper-XXXXXX", path[64], command[512];
    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/wrapper.c", dir);
    write_file(path, text);
    snprintf(command, sizeof command, "gcc -std=c11 -Wall -Wextra -Werror -O1 -c %s -o %s.o", path, path);
    int status = system(command);
    snprintf(command, sizeof command, "rm -r %s", dir);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(status, 0, "%s", text);
}

static char *wrapper_c(sn_text *t, sn_env *env, sn_module *m, const sn_gpu_code *codes) {
    sn_source source = {.codes = codes, .sm = 90, .weights_given = true};
    sn_text_init(t, env);
    cr_assert_eq(sn_wrapper_c(t, m, &source), SN_OK, "%s", env->message);
    return t->s;
}

static const sn_gpu_code codes[] = {
    {.ptx = ".version 7.8\n.target sm_90\n\t// \"quoted\" \\ text", .grid = 4, .block_x = 32, .block_y = 1},
    {.ptx = "b\n", .grid = 4, .block_x = 64, .block_y = 2},
    {.ptx = "c\n", .grid = 0, .block_x = 1, .block_y = 1},
    {.ptx = "d\n", .grid = 4, .block_x = 1, .block_y = 1}};

Test(wrapper_c, says_what_the_wrapper_does) {
    sn_env env;
    sn_module *m = parsed(&env, program);
    sn_text t;
    const char *s = wrapper_c(&t, &env, m, codes);
    static const char *const wanted[] = {
        "int main_create(struct main **out, int device);\n",
        "int main_run(struct main *self, void *in_x, void *in_w, void *out_y, void *out_z, void *stream);\n",
        " *   in_x: f32[4], 16 bytes at a multiple of 16; the run writes it\n",
        "static const size_t MEMORY = 1024;",
        "static const size_t WORKSPACE_AT = 512;",
        "/* Kernel k0: x + c */",
        "    \"\\t// \\\"quoted\\\" \\\\ text\"\n",
        "    {\"k1\", ptx_1, NULL, 4, 64, 2, 0, 0, 3, 0, 0, 0, 0, 0},\n",
        "    {\"constant c\", data_3, -1, -1, 16, 0, 16, 0}, /* f32[4] */\n",
        "    if (check(self, in_x, 1, 16, \"input x\")) return 1; /* f32[4] */",
        "    char *tmp_t = memory + 256;",
        "    char *tmp_v = in_x;",
        "        char *args[] = {tmp_t, self->constants[1], tmp_u};\n        if (call(self, 1, args, stream)) return 1; /* k1 */",
        "    if (copy(self, in_w, out_y, 16, stream)) return 1;",
        "ALIGNED static const unsigned char data_3[16] = {\n    0, 0, 128, 63,",
    };
    for (size_t i = 0; i < SN_COUNT(wanted); i++) cr_assert(strstr(s, wanted[i]), "missing: %s\nin:\n%s", wanted[i], s);
    cr_assert_null(strstr(s, "call(self, 2, "), "an empty grid is not launched");
    sn_text_free(&t);
    sn_module_free(m);
    cr_assert_eq(env.bytes_now, 0);
}

Test(wrapper_c, compiles_without_a_warning) {
    if (!has_gcc()) cr_skip_test("no gcc here");
    sn_env env;
    sn_module *m = parsed(&env, program);
    sn_text t;
    compiles(wrapper_c(&t, &env, m, codes));
    sn_text_free(&t);
    sn_module_free(m);
}

/* A kernel of segments takes its addresses as one array. */
Test(wrapper_c, segments_take_one_parameter) {
    static const char text[] =
        "buffer x: f32[4] input 0\nbuffer y: f32[4] output 0\nbuffer z: f32[4] output 1\n"
        "kernel @k(x: f32[4] in, y: f32[4] out, z: f32[4] out) scheduled { loop i in 4 : grid { %0 = load x[i] store y[i], %0 }\n"
        "  loop i in 4 : grid { %0 = load x[i] store z[i], %0 } }\nwrapper @m workspace 0 { call @k(x, y, z) }\n";
    sn_env env;
    sn_module *m = parsed(&env, text);
    sn_gpu_code code = {.ptx = "", .grid = 8, .block_x = 1, .block_y = 1, .param_block = true};
    sn_text t;
    const char *s = wrapper_c(&t, &env, m, &code);
    cr_expect(strstr(s, "        char *args[] = {in_x, out_y, out_z};\n"), "%s", s);
    cr_expect(strstr(s, "    {\"k\", ptx_0, NULL, 8, 1, 1, 0, 0, 3, 0, 1, 0, 0, 0},\n"), "%s", s);
    if (has_gcc()) compiles(s);
    sn_text_free(&t);
    sn_module_free(m);
}

/* Two maps of one argument, which is a window; kept memory stands before them. */
Test(wrapper_c, tensor_maps_are_a_table) {
    static const char text[] =
        "buffer x: bf16[128, 64] input 0 align 16\nbuffer y: f32[64] output 0 align 16\n"
        "kernel @k(x: bf16[4096] in, y: f32[64] out) { loop i in 64 : grid { %0 = load x[i] %1 = cast.f32 %0 store y[i], %1 } }\n"
        "wrapper @m workspace 0 { call @k(x + 4096, y) }\n";
    static sn_tensor_map maps[] = {{.dtype = SN_BF16,
                                    .rank = 2,
                                    .dims = {64, 60},
                                    .strides = {128},
                                    .box = {64, 8},
                                    .swizzle = 128,
                                    .offset = 256},
                                   {.dtype = SN_F32, .rank = 1, .dims = {64}, .box = {16}, .param = 1},
                                   {.dtype = SN_F32, .tf32 = true, .rank = 1, .dims = {64}, .box = {16}, .param = 1},
                                   {.dtype = SN_BF16,
                                    .rank = 3,
                                    .dims = {64, 15, 4},
                                    .strides = {128, 1920},
                                    .box = {64, 32, 1},
                                    .pixels = true,
                                    .low = {-1},
                                    .high = {0},
                                    .steps = {2}}};
    static const char *const wanted[] = {
        "    {0, 256, 1, 3, 0, 2, {64, 60, 0, 0, 0}, {128, 0, 0, 0, 0}, {64, 8, 0, 0, 0}, {1, 1, 1, 1, 1}, {0, 0, 0}, {0, 0, 0}},\n",
        "    {1, 0, 2, 0, 0, 1, {64, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {16, 0, 0, 0, 0}, ",
        "    {1, 0, 11, 0, 0, 1, ",
        "    {0, 0, 1, 0, 1, 3, {64, 15, 4, 0, 0}, {128, 1920, 0, 0, 0}, {64, 32, 1, 0, 0}, {1, 2, 1, 1, 1}, {-1, 0, 0}, {0, 0, 0}},\n",
        "    {\"k\", ptx_0, NULL, 4, 1, 1, 0, 0, 2, 1, 0, 0, 0, 4},\n",
        "        char *args[] = {in_x + 8192, out_y, self->memory + KEPT_AT + 0};\n",
    };
    sn_env env;
    sn_module *m = parsed(&env, text);
    sn_text t;
    const char *s = wrapper_c(&t, &env, m,
                              (sn_gpu_code[]){{.ptx = "",
                                               .grid = 4,
                                               .block_x = 1,
                                               .block_y = 1,
                                               .kept_bytes = 8,
                                               .maps = maps,
                                               .n_maps = SN_COUNT(maps)}});
    for (size_t i = 0; i < SN_COUNT(wanted); i++) cr_expect(strstr(s, wanted[i]), "missing: %s\nin:\n%s", wanted[i], s);
    if (has_gcc()) compiles(s);
    sn_text_free(&t);
    sn_module_free(m);
}

/* Code of the CPU that calls the C library jumps there by name. */
Test(wrapper_c, code_of_the_cpu_calls_by_name) {
    static const char text[] =
        "buffer y: f32[4096] output 0\n"
        "kernel @zero(y: f32[4096] out) { loop b in 1 : grid { loop i in 4096 { %0 = const.f32 0.0 store y[i], %0 } } }\n"
        "wrapper @m workspace 0 { call @zero(y) }\n";
    sn_env env;
    sn_module *m = parsed(&env, text);
    /* jmp 16; at 16 a cell, whose slot is at 24 */
    unsigned char bytes[32] = {0xe9, 11};
    sn_host_slot slot = {.at = 24, .import = "memset", .is_jump = true};
    sn_host_image image = {bytes, sizeof bytes, (uint64_t[]){0}, &slot, 1, "x86_64", "", ""};
    sn_source source = {.host = &image, .host_kept = (uint64_t[]){0}};
    sn_text t;
    sn_text_init(&t, &env);
    cr_assert_eq(sn_wrapper_c(&t, m, &source), SN_OK, "%s", env.message);
    cr_expect(strstr(t.s, "\".byte 233,11,0,0,0,0,0,0,0,0,0,0,0,0,0,0\\n\"\n    \"jmp memset@PLT\\n.balign 16\\n\"\n"),
              "%s", t.s);
    if (has_gcc()) compiles(t.s);
    sn_text_free(&t);
    slot.is_jump = false;
    sn_text_init(&t, &env);
    cr_expect_eq(sn_wrapper_c(&t, m, &source), SN_ERROR_UNSUPPORTED);
    cr_expect_str_eq(env.message, "C source cannot have this code: it has addresses in it");
    sn_text_free(&t);
    sn_module_free(m);
}

Test(wrapper_c, awkward_names_compile) {
    static const char text[] =
        "buffer int: f32[4] input 0\nbuffer linux: f32[4] input 2\nbuffer in_int: f32[4] temp\nbuffer a_b: f32[4] temp\n"
        "buffer unread: f32[4] temp\nbuffer self: f32[4] output 0\n"
        "kernel @for(int: f32[4] in, in_int: f32[4] out, a_b: f32[4] out) { loop i in 4 : grid { %0 = load int[i] store in_int[i], %0 store a_b[i], %0 } }\n"
        "wrapper @while workspace 32 { alloc in_int size 16 offset 0 alloc a_b size 16 offset 16 call @for(int, in_int, a_b)\n"
        "  reuse unread from in_int copy self from a_b size 16 }\n";
    if (!has_gcc()) cr_skip_test("no gcc here");
    sn_env env;
    sn_module *m = parsed(&env, text);
    sn_text t;
    compiles(wrapper_c(&t, &env, m, (sn_gpu_code[]){{.ptx = "", .grid = 4, .block_x = 1, .block_y = 1}}));
    sn_text_free(&t);
    sn_module_free(m);
}

/* Beside a constant; the caller has their memory. */
Test(wrapper_c, weights_compile) {
    static const char text[] =
        "buffer w: f32[4] const weight \"a \\\"b\\\"\"\nbuffer c: f32[4] const data [1, 2, 3, 4]\n"
        "buffer y: f32[4] output 0\n"
        "kernel @k(w: f32[4] in, c: f32[4] in, y: f32[4] out) { loop i in 4 : grid { %0 = load w[i] %1 = load c[i] %2 = add %0, %1 store y[i], %2 } }\n"
        "wrapper @f workspace 0 { call @k(w, c, y) }\n";
    if (!has_gcc()) cr_skip_test("no gcc here");
    sn_env env;
    sn_module *m = parsed(&env, text);
    sn_text t;
    compiles(wrapper_c(&t, &env, m, (sn_gpu_code[]){{.ptx = "", .grid = 4, .block_x = 1, .block_y = 1}}));
    sn_text_free(&t);
    sn_module_free(m);
}

Test(wrapper_c, the_prepare_part_is_run_once) {
    sn_env env;
    sn_module *m = parsed(&env, preparing);
    sn_gpu_code code = {.ptx = "", .grid = 4, .block_x = 1, .block_y = 1};
    sn_text t;
    const char *text = wrapper_c(&t, &env, m, (sn_gpu_code[]){code, code, code});
    const char *once = strstr(text, "static int prepare(struct main *self) {"),
               *run = strstr(text, "static int run_steps(");
    cr_assert(once && run);
    cr_expect(strstr(once, "    char *tmp_p = memory + 256;") < run);
    cr_expect(strstr(once, "        char *args[] = {self->constants[0], tmp_p};") < run);
    cr_expect(strstr(run, "char *memory = self->memory + PREPARED_AT;\n"));
    cr_expect(strstr(run, "char *tmp_q = tmp_p;"));
    cr_expect(strstr(text, "    {\"constant c\", data_2, -1, -1, 16, 0, 16, 1}, /* f32[4] */\n"),
              "only the prepare part reads it");
    if (has_gcc()) compiles(text);
    sn_text_free(&t);
    sn_module_free(m);
}

Test(wrapper_c, without_a_wrapper_it_says_so) {
    sn_env env;
    sn_module *m = parsed(&env, "buffer x: f32[4] input 0\n");
    sn_text t;
    sn_text_init(&t, &env);
    cr_assert_eq(sn_wrapper_c(&t, m, &(sn_source){0}), SN_ERROR_ARGUMENT);
    cr_assert_str_eq(env.message, "the module has no wrapper: run the pass plan first");
    sn_text_free(&t);
    sn_module_free(m);
}
