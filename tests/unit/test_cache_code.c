/* test_cache_code.c: generated code that is remembered: the same bytes and the same results, found where nothing that matters
 * has changed, and only there; several processes that compile in one folder while another one damages it.
 *
 * The long form of the latter: SINTER_TEST_CACHE_PROCESSES=8 SINTER_TEST_CACHE_ROUNDS=200.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend-host/host_code.h"
#include "fake_cuda.h"
#include "include/sinter/sinter.h"
#include "runtime/assemble.h"
#include "runtime/cuda_module.h"

typedef struct fixture {
    sn_context *ctx;
    char folder[64], log[1024];
} fixture;

static void keep_log(void *user, const char *text) {
    fixture *f = user;
    strncat(f->log, text, sizeof f->log - strlen(f->log) - 1);
}

static void begin(fixture *f) {
    sn_context_options o = {.struct_size = sizeof o, .log = keep_log, .log_user = f};
    *f = (fixture){.folder = "/tmp/sinter-code-XXXXXX"};
    cr_assert(mkdtemp(f->folder));
    cr_assert_eq(sn_context_create(&f->ctx, &o), SN_OK);
}

static void end(fixture *f) {
    char command[128];
    sn_context_destroy(f->ctx);
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    cr_expect_eq(system(command), 0);
}

static const char network[] = "graph @g(%x: f32[N, 48], %w: f32[48, 64], %row: f32[64]) {\n"
                              "  %p = matmul %x, %w\n"
                              "  %a = add %p, %row\n"
                              "  %r = relu %a\n"
                              "  %s = softmax %r axis=1\n"
                              "  %c = cumsum %s axis=0\n"
                              "  return y = %s, c = %c\n"
                              "}\n";

static sn_program *compile(fixture *f, const char *text, int64_t n, sn_compile_options o) {
    sn_graph *g;
    sn_program *p;
    o.struct_size = sizeof o;
    o.dims = &(sn_dim_binding){"N", n};
    o.n_dims = 1;
    if (!o.cache) o.cache = f->folder;
    cr_assert_eq(sn_graph_from_text(&g, f->ctx, "g.sn", text, strlen(text)), SN_OK, "%s", sn_error(f->ctx));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(f->ctx));
    sn_graph_destroy(g);
    return p;
}

static sn_program_info figures(sn_program *p) {
    sn_program_info info;
    sn_program_get_info(&info, p);
    return info;
}

/* ---- kernels for a GPU ---- */

static void expect_same_ptx(sn_context *ctx, sn_program *p, sn_program *q) {
    sn_kernel_info a, b;
    cr_assert_eq(figures(p).n_kernels, figures(q).n_kernels);
    for (unsigned k = 0; k < figures(p).n_kernels; k++) {
        cr_assert(sn_program_kernel(&a, p, k) == SN_OK && sn_program_kernel(&b, q, k) == SN_OK);
        cr_expect_str_eq(a.ptx, b.ptx);
        cr_expect(a.grid == b.grid && a.block_x == b.block_x && a.block_y == b.block_y);
    }
    char *c, *d; /* with all that a launch needs */
    cr_assert(sn_program_dump(&c, p, "wrapper-c") == SN_OK && sn_program_dump(&d, q, "wrapper-c") == SN_OK);
    cr_expect_str_eq(c, d);
    sn_free(ctx, c);
    sn_free(ctx, d);
}

Test(cache_code, ptx_is_found) {
    static const char *const targets[] = {"sm_75", "sm_80", "sm_90", "sm_90a", "sm_100"};
    fixture f;
    begin(&f);
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        sn_compile_options o = {.target = targets[t], .cache = "off"};
        sn_program *plain = compile(&f, network, 512, o);
        o.cache = NULL;
        sn_program *cold = compile(&f, network, 512, o), *warm = compile(&f, network, 512, o);
        sn_program_info c = figures(cold), w = figures(warm);
        cr_expect(!figures(plain).cached && c.cached && w.cached);
        cr_expect(!c.cache_hits && c.cache_misses == c.n_kernels && c.cache_stored == c.n_kernels, "%s", targets[t]);
        cr_expect(w.cache_hits == w.n_kernels && !w.cache_misses && !w.cache_stored, "%s", targets[t]);
        expect_same_ptx(f.ctx, plain, cold);
        expect_same_ptx(f.ctx, plain, warm);
        sn_program_destroy(plain);
        sn_program_destroy(cold);
        sn_program_destroy(warm);
    }
    cr_expect_str_eq(f.log, "");
    end(&f);
}

/* Nothing of it is there after `network` for sm_90a with 512 rows. */
static void expect_missed(fixture *f, const char *what, const char *text, int64_t n, sn_compile_options o) {
    sn_program *p = compile(f, text, n, o);
    sn_program_info info = figures(p);
    cr_expect(info.cache_misses == info.n_kernels && !info.cache_hits, "%s: %u found", what, info.cache_hits);
    sn_program_destroy(p);
}

Test(cache_code, what_matters_is_in_the_key) {
    static const char product[] = "graph @g(%x: f32[N, 512], %w: f32[512, 512]) {\n"
                                  "  %p = matmul %x, %w\n"
                                  "  return p = %p\n"
                                  "}\n";
    static const char *const words[] = {"exact", "high", "tf32", "bf16"};
    fixture f;
    begin(&f);
    sn_program_destroy(compile(&f, network, 512, (sn_compile_options){.target = "sm_90a"}));
    expect_missed(&f, "size", network, 513, (sn_compile_options){.target = "sm_90a"});
    expect_missed(&f, "target", network, 512, (sn_compile_options){.target = "sm_90"});
    expect_missed(&f, "target", network, 512, (sn_compile_options){.target = "sm_100"});
    for (int k = 0; k < 4; k++)
        expect_missed(&f, words[k], product, 512, (sn_compile_options){.target = "sm_90a", .precision = words[k]});
    sn_program_destroy(compile(&f, "graph @g(%x: f32[N]) { %y = exp %x return y = %y }", 4096,
                               (sn_compile_options){.target = "sm_80"}));
    expect_missed(&f, "dtype", "graph @g(%x: f16[N]) { %y = exp %x return y = %y }", 4096,
                  (sn_compile_options){.target = "sm_80"});
    expect_missed(&f, "operation", "graph @g(%x: f32[N]) { %y = sin %x return y = %y }", 4096,
                  (sn_compile_options){.target = "sm_80"});
    expect_missed(&f, "alignment", "graph @g(%x: f32[N]) { %y = exp %x return y = %y }", 4096,
                  (sn_compile_options){.target = "sm_80", .alignment = 4});
    end(&f);
}

/* What has no place in the code. */
Test(cache_code, names_of_values_do_not_matter) {
    fixture f;
    begin(&f);
    sn_compile_options o = {.target = "sm_80"};
    sn_program_destroy(compile(&f, "graph @g(%x: f32[N]) { %y = exp %x return y = %y }", 4096, o));
    sn_program *p = compile(&f, "graph @other(%some: f32[N]) { %long = exp %some return name = %long }", 4096, o);
    cr_expect(figures(p).cache_hits == 1 && !figures(p).cache_misses);
    sn_program_destroy(p);
    end(&f);
}

/* ---- objects ---- */

enum { ROWS = 33, COLUMNS = 64 };

typedef struct results {
    float y[ROWS * COLUMNS], c[ROWS * COLUMNS];
} results;

static void run(results *out, fixture *f, sn_program *p) {
    sn_tensor *in[3], *to[2];
    float *const at[2] = {out->y, out->c};
    for (unsigned k = 0; k < 3; k++) {
        sn_tensor_info info;
        cr_assert_eq(sn_tensor_for_input(&in[k], p, k), SN_OK, "%s", sn_error(f->ctx));
        sn_tensor_get_info(&info, in[k]);
        for (int64_t i = 0; i < info.numel; i++) ((float *)info.data)[i] = (float)((i * 7 + k) % 13) / 8 - 0.5f;
    }
    for (unsigned k = 0; k < 2; k++) cr_assert_eq(sn_tensor_for_output(&to[k], p, k), SN_OK);
    cr_assert_eq(sn_run(p, in, to, NULL), SN_OK, "%s", sn_error(f->ctx));
    for (unsigned k = 0; k < 2; k++) {
        sn_tensor_info info;
        sn_tensor_get_info(&info, to[k]);
        memcpy(at[k], info.data, sizeof out->y);
        sn_tensor_destroy(to[k]);
    }
    for (unsigned k = 0; k < 3; k++) sn_tensor_destroy(in[k]);
}

static void compile_and_run(results *out, sn_program_info *info, fixture *f, sn_compile_options o) {
    o.device = "cpu";
    sn_program *p = compile(f, network, ROWS, o);
    run(out, f, p);
    *info = figures(p);
    sn_program_destroy(p);
}

Test(cache_code, objects_are_found) {
    fixture f;
    static results plain, cold, warm;
    sn_program_info info;
    begin(&f);
    sn_compile_options o = {.threads = 2, .cache = "off"};
    compile_and_run(&plain, &info, &f, o);
    cr_expect(!info.cached);
    o.cache = NULL;
    compile_and_run(&cold, &info, &f, o);
    cr_expect(info.cached && !info.cache_hits && info.cache_stored == info.cache_misses && info.cache_misses >= 2);
    unsigned all = info.cache_misses;
    compile_and_run(&warm, &info, &f, o);
    cr_expect(info.cache_hits == all && !info.cache_misses);
    cr_expect_eq(memcmp(&plain, &cold, sizeof plain), 0);
    cr_expect_eq(memcmp(&plain, &warm, sizeof plain), 0);
    o.cpu_schedule = "gpu";
    compile_and_run(&cold, &info, &f, o);
    compile_and_run(&warm, &info, &f, o);
    cr_expect(!info.cache_misses);
    cr_expect_eq(memcmp(&cold, &warm, sizeof cold), 0);
    cr_expect_str_eq(f.log, "");
    end(&f);
}

/* Two equal kernels, each of which has an object of its own, behind one that moves both. */
Test(cache_code, an_object_has_no_place) {
    enum { LONG = 600 };
    sn_env env;
    sn_arena arena;
    sn_text t;
    sn_target target;
    fixture f;
    begin(&f);
    sn_env_init(&env);
    sn_arena_init(&arena, &env);
    sn_target_host(&target, 1);
    for (int first = 0; first < 2; first++) {
        sn_text_init(&t, &env);
        sn_text_put(&t, "buffer x: f32[8] input 0\nbuffer y: f32[8] output 0\n");
        for (int k = first; k < 3; k++) {
            sn_text_printf(&t, "kernel @k%d(x: f32[8] in, y: f32[8] out) { loop i in 8 : grid { %%0 = load x[i] ", k);
            for (int i = 0; i < LONG; i++) sn_text_printf(&t, "%%%d = add %%%d, %%0 ", i + 1, i);
            if (!k) sn_text_printf(&t, "%%%d = neg %%%d ", LONG + 1, LONG);
            sn_text_printf(&t, "store y[i], %%%d } }\n", LONG + !k);
        }
        sn_module *m = sn_module_new(&env);
        cr_assert_eq(sn_module_parse(m, "m", t.s, t.n), SN_OK, "%s", env.message);
        sn_cache *c = sn_cache_open(&arena, f.folder, 1 << 30);
        sn_host_code *code;
        cr_assert_eq(sn_host_compile(&code, m, true, &target, NULL, c), SN_OK, "%s", env.message);
        /* the equal ones, one after the other, are made once; then nothing is made */
        cr_expect(c->hits == (first ? 2 : 1) && c->misses == (first ? 0 : 2), "%u, %u", c->hits, c->misses);
        for (int k = first; k < 3; k++) {
            float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
            sn_host_code_kernel(code, (uint32_t)(k - first))((void *[]){x, y}, 0, 8);
            for (int i = 0; i < 8; i++) cr_expect_eq(y[i], x[i] * (LONG + 1) * (k ? 1 : -1), "kernel %d", k);
        }
        sn_host_code_free(code);
        sn_module_free(m);
        sn_text_free(&t);
    }
    sn_arena_free(&arena);
    cr_expect_eq(env.bytes_now, 0);
    end(&f);
}

/* ---- cubins ---- */

Test(cache_code, cubins_are_found) {
    sn_env env;
    sn_arena arena;
    fixture f;
    void *library = dlopen(SN_TEST_JITLINK, RTLD_NOW);
    cr_assert(library, "%s", dlerror());
    _Atomic unsigned *linked = dlsym(library, "fake_jitlink_linked");
    unsigned *minor = dlsym(library, "fake_jitlink_minor");
    begin(&f);
    sn_cuda *cu = fake_device(&env);
    sn_arena_init(&arena, &env);
    sn_rt_kernel kernels[] = {{.name = "add1", .ptx = "one", .ptx_size = 3},
                              {.name = "add2", .ptx = "two", .ptx_size = 3},
                              {.name = "add3", .ptx = "no", .ptx_size = 2},
                              {.name = "add4", .ptx = "whole", .ptx_size = 5, .whole = true}};
    /* one that is refused, and one that the driver assembles, are not remembered */
    static const struct {
        const char *first;
        unsigned minor, linked, hits;
    } rounds[] = {{"one", 0, 3, 0}, {"one", 0, 1, 2}, {"another", 0, 2, 1}, {"one", 1, 3, 0}, {"one", 0, 1, 2}};
    sn_pool *pool = sn_pool_new(&env, 2);
    for (size_t r = 0; r < SN_COUNT(rounds); r++) {
        sn_cuda_code code[4] = {{0}};
        sn_prog_times times = {0};
        sn_cache *c = sn_cache_open(&arena, f.folder, 1 << 20);
        unsigned before = *linked;
        *minor = rounds[r].minor;
        kernels[0].ptx = rounds[r].first;
        kernels[0].ptx_size = strlen(rounds[r].first);
        cr_assert_eq(sn_cuda_enter(cu), SN_OK);
        cr_assert_eq(sn_cuda_code_load(code, &times, cu, kernels, 4, pool, &(sn_cubins){.cache = c}, NULL), SN_OK, "%s",
                     env.message);
        cr_expect(*linked - before == rounds[r].linked && c->hits == rounds[r].hits, "round %zu: %u, %u", r,
                  *linked - before, c->hits);
        sn_cuda_code_unload(cu, code, 4);
        sn_cuda_leave(cu);
        cr_expect_str_eq(c->warning, "");
    }
    sn_pool_free(pool);
    sn_arena_free(&arena);
    sn_cuda_close(cu);
    cr_expect_eq(env.bytes_now, 0);
    end(&f);
}

/* ---- options ---- */

Test(cache_code, options_that_make_no_sense) {
    static const struct {
        sn_compile_options o;
        const char *why;
    } cases[] = {{{.cache = "onn"}, "cache: 'onn' is none of on, off and a folder with a / (./onn)"},
                 {{.cache = ""}, "cache: '' is none of on, off"},
                 {{.cache_size = "much"}, "cache_size: 'much' is no number of bytes (512M, 1G)"},
                 {{.cache_size = "0"}, "cache_size: '0' is no"},
                 {{.cache_size = "-1"}, "cache_size: '-1' is no"},
                 {{.cache_size = "1GB"}, "cache_size: '1GB' is no"},
                 {{.cache_size = "99999999999G"}, "cache_size: '99999999999G' is no"},
                 {{.cache_size = "99999999999999999999"}, "cache_size: '99999999999999999999' is no"}};
    fixture f;
    sn_graph *g;
    sn_program *p;
    begin(&f);
    cr_assert_eq(sn_graph_create(&g, f.ctx, "g"), SN_OK);
    sn_output(g, "y", sn_exp(g, sn_input(g, "x", SN_F32, SN_LIST(4))));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        sn_compile_options o = cases[k].o;
        o.struct_size = sizeof o;
        cr_expect_eq(sn_compile(&p, g, &o), SN_ERROR_ARGUMENT);
        cr_expect(strstr(sn_error(f.ctx), cases[k].why) == sn_error(f.ctx), "%s", sn_error(f.ctx));
    }
    setenv("SINTER_CACHE", "of", 1);
    cr_expect_eq(sn_compile(&p, g, NULL), SN_ERROR_ARGUMENT);
    setenv("SINTER_CACHE", "on", 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    cr_expect_eq(sn_compile(&p, g, NULL), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(f.ctx), "cache: 'on' needs XDG_CACHE_HOME or HOME"), "%s", sn_error(f.ctx));
    setenv("XDG_CACHE_HOME", f.folder, 1);
    setenv("SINTER_CACHE_SIZE", "1M", 1);
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu"};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(f.ctx));
    cr_expect(figures(p).cached && figures(p).cache_stored);
    char path[128];
    snprintf(path, sizeof path, "%s/sinter/code", f.folder);
    cr_expect_eq(access(path, F_OK), 0);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    end(&f);
}

/* ---- several processes ---- */

static long parameter(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

/* Compiles again and again; what it makes computes what code without a cache does. */
static void use(const char *folder, long rounds) {
    static results want, got;
    sn_program_info info;
    fixture f = {0};
    sn_context_options o = {.struct_size = sizeof o, .log = keep_log, .log_user = &f};
    if (sn_context_create(&f.ctx, &o) != SN_OK) _exit(2);
    snprintf(f.folder, sizeof f.folder, "%s", folder);
    compile_and_run(&want, &info, &f, (sn_compile_options){.threads = 1, .cache = "off"});
    for (long i = 0; i < rounds; i++) {
        /* some make room for others now and then: an entry is some kilobytes */
        compile_and_run(&got, &info, &f, (sn_compile_options){.threads = 1, .cache_size = i % 5 ? NULL : "16K"});
        if (memcmp(&want, &got, sizeof want)) _exit(3);
    }
    _exit(0);
}

/* Flips or cuts some file in the folder. */
static void damage(const char *folder, uint64_t seed) {
    for (;;) {
        DIR *all = opendir(folder);
        for (struct dirent *d; all && (d = readdir(all));) {
            struct stat st;
            int fd = openat(dirfd(all), d->d_name, O_RDWR);
            if (fd < 0) continue;
            char byte;
            off_t at = fstat(fd, &st) == 0 && st.st_size ? (off_t)(sn_draw(&seed) % (uint64_t)st.st_size) : 0;
            if (sn_draw(&seed) % 4 == 0) {
                if (ftruncate(fd, at) != 0) _exit(1);
            } else if (pread(fd, &byte, 1, at) == 1) {
                byte ^= 0x10;
                if (pwrite(fd, &byte, 1, at) != 1) _exit(1);
            }
            close(fd);
        }
        if (all) closedir(all);
        usleep(2000);
    }
}

Test(cache_code, several_processes, .timeout = 3600) {
    enum { MOST = 64 };
    long n = parameter("SINTER_TEST_CACHE_PROCESSES", 2), rounds = parameter("SINTER_TEST_CACHE_ROUNDS", 8);
    pid_t users[MOST], vandal;
    fixture f;
    begin(&f);
    cr_assert_leq(n, MOST);
    if (!(vandal = fork())) damage(f.folder, 1);
    for (long i = 0; i < n; i++)
        if (!(users[i] = fork())) use(f.folder, rounds);
    for (long i = 0; i < n; i++) {
        int status;
        cr_assert_eq(waitpid(users[i], &status, 0), users[i]);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %ld: status %x", i, status);
    }
    kill(vandal, SIGKILL);
    waitpid(vandal, NULL, 0);
    sn_env env;
    sn_cache_figures all;
    sn_cache_sum bad;
    sn_env_init(&env);
    cr_assert_eq(sn_cache_verify(&all, &bad, &env, f.folder), SN_OK);
    cr_assert_eq(sn_cache_verify(&all, &bad, &env, f.folder), SN_OK);
    cr_expect(bad.files == 0 && all.parts.files == 0 && all.others.files == 0);
    end(&f);
}
