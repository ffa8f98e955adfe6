/* test_memory.c: memory that runs out at any allocation of any public call gives SN_ERROR_MEMORY, leaves the context
 * usable and nothing behind: every block is given back when the objects that were made are destroyed. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "include/sinter/sinter.h"
#include "ir/base/base.h"

/* ---- marks ---- */

TestSuite(memory, .timeout = 300);

Test(memory, release_takes_what_is_younger_than_the_mark) {
    sn_env env;
    sn_env_init(&env);
    sn_arena old, young;
    sn_arena_init(&old, &env);
    char *text = sn_strdup(&old, "stays"), *block = sn_heap_alloc(&env, 100), *grown = sn_heap_alloc(&env, 8);
    size_t before = env.bytes_now;
    uint64_t mark = sn_env_mark(&env);
    sn_arena_init(&young, &env);
    for (int k = 0; k < 1000; k++) sn_alloc(&young, 100);
    sn_heap_alloc(&env, 1 << 20);
    char *kept = sn_heap_alloc(&env, 64);
    sn_heap_keep(kept);
    char *large = sn_alloc(&old, 1 << 20); /* a chunk made after the mark, of an arena from before */
    grown = sn_heap_realloc(&env, grown, 8, 4096);
    size_t old_size = env.bytes_now;
    sn_env_release(&env, mark);
    cr_assert(env.bytes_now < old_size && env.bytes_now >= before + (1 << 20) + 64 + 4088);
    memset(large, 1, 1 << 20);
    memset(grown, 1, 4096);
    memset(kept, 1, 64);
    memset(block, 1, 100);
    cr_assert_str_eq(text, "stays");
    sn_heap_free(&env, block, 100);
    sn_heap_free(&env, grown, 4096);
    sn_heap_free(&env, kept, 64);
    sn_arena_free(&old);
    cr_assert_eq(env.bytes_now, 0);
    cr_assert_null(env.blocks);
}

/* ---- the n-th allocation fails ---- */

typedef struct {
    long left, live;
} budget;

static void *limited(void *user, void *p, size_t size) {
    budget *b = user;
    if (size == 0) {
        b->live -= p != NULL;
        free(p);
        return NULL;
    }
    if (b->left == 0) return NULL;
    b->left--;
    b->live += p == NULL;
    return realloc(p, size);
}

static const char source[] = "graph @f(%x: f32[N, 16], %row: f32[16], %image: f32[2, 3, 6, 6], %w: f32[4, 3, 3, 3]) {\n"
                             "  %a = add %x, %row\n"
                             "  %s = softmax %a axis=1\n"
                             "  %c = conv %image, %w stride=[1, 1] padding=[1, 1]\n"
                             "  %r = relu %c\n"
                             "  %t = permute %s perm=[1, 0]\n"
                             "  return s = %s, r = %r, t = %t\n"
                             "}\n";

static void ignore(void *user, const char *text) {
    (void)user;
    (void)text;
}

/* Read a graph, compile it as `o` says, look at every stage, run it where it can run. */
static sn_status whole_life(sn_context *ctx, sn_compile_options *o) {
    static const char *const stages[] = {"graph", "loops", "fused", "scheduled", "llvm", "wrapper", "wrapper-c"};
    sn_graph *g = NULL;
    sn_program *p = NULL;
    sn_tensor *in[4] = {NULL}, *out[3] = {NULL};
    o->struct_size = sizeof *o;
    o->dims = &(sn_dim_binding){"N", 8};
    o->n_dims = 1;
    char *text = NULL;
    sn_status status = sn_graph_from_text(&g, ctx, "f.sn", source, strlen(source));
    if (status == SN_OK) status = sn_graph_text(&text, g);
    sn_free(ctx, text);
    if (status == SN_OK) status = sn_compile(&p, g, o);
    sn_program_info info = {0};
    if (status == SN_OK) sn_program_get_info(&info, p);
    for (size_t k = 0; k < SN_COUNT(stages) - info.runnable && status == SN_OK; k++) {
        status = sn_program_dump(&text, p, stages[k]);
        if (status == SN_OK) sn_free(ctx, text);
    }
    for (unsigned k = 0; info.runnable && k < 4 && status == SN_OK; k++) status = sn_tensor_for_input(&in[k], p, k);
    for (unsigned k = 0; info.runnable && k < 3 && status == SN_OK; k++) status = sn_tensor_for_output(&out[k], p, k);
    sn_check checks[3];
    if (info.runnable && status == SN_OK) status = sn_run(p, in, out, NULL);
    if (info.runnable && status == SN_OK) status = sn_program_check(checks, p, in, out, true);
    for (unsigned k = 0; k < 4; k++) sn_tensor_destroy(in[k]);
    for (unsigned k = 0; k < 3; k++) sn_tensor_destroy(out[k]);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    return status;
}

/* Allocations that are far apart in a long life are much alike, so the steps grow. */
static void starve(sn_compile_options o) {
    sn_status status = SN_ERROR_MEMORY;
    long n = 0;
    for (; status != SN_OK && n < 100000; n += 1 + n / 24) {
        budget b = {.left = n};
        sn_context_options hooks = {
            .struct_size = sizeof hooks, .realloc_fn = limited, .realloc_user = &b, .log = ignore};
        sn_context *ctx;
        status = sn_context_create(&ctx, &hooks);
        if (status == SN_OK) {
            status = whole_life(ctx, &o);
            if (status != SN_OK) cr_assert(strstr(sn_error(ctx), "out of memory"), "%ld: %s", n, sn_error(ctx));
        }
        cr_assert(status == SN_OK || status == SN_ERROR_MEMORY, "allocation %ld: status %d", n, status);
        sn_context_destroy(ctx);
        cr_assert_eq(b.live, 0, "allocation %ld: %ld blocks were not given back", n, b.live);
    }
    cr_assert_eq(status, SN_OK);
    cr_assert_gt(n, 50, "only %ld allocations: the hook is not used", n);
}

Test(memory, runs_out_on_the_cpu) { starve((sn_compile_options){.device = "cpu", .threads = 2, .verify = "paranoid"}); }

Test(memory, runs_out_making_ptx) { starve((sn_compile_options){.target = "sm_90", .print_after = "all"}); }

/* Code that is partly on disk, and then all of it. */
static void starve_with_cache(sn_compile_options o) {
    char folder[] = "/tmp/sinter-memory-XXXXXX", command[64];
    cr_assert(mkdtemp(folder));
    o.cache = folder;
    for (int k = 0; k < 2; k++) starve(o);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}

Test(memory, runs_out_with_objects_on_disk) { starve_with_cache((sn_compile_options){.device = "cpu", .threads = 2}); }

Test(memory, runs_out_with_ptx_on_disk) { starve_with_cache((sn_compile_options){.target = "sm_90"}); }

/* A call that fails leaves its objects as they were: the same calls succeed once there is memory again. */
Test(memory, goes_on_after_running_out) {
    budget b = {.left = 100000};
    sn_context_options hooks = {.struct_size = sizeof hooks, .realloc_fn = limited, .realloc_user = &b};
    sn_context *ctx;
    cr_assert_eq(sn_context_create(&ctx, &hooks), SN_OK);
    sn_graph *g;
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f.sn", source, strlen(source)), SN_OK);
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .dims = &(sn_dim_binding){"N", 8}, .n_dims = 1};
    sn_program *p = NULL;
    for (long n = 0; !p; n += 1 + n / 8) {
        b.left = n;
        long live = b.live;
        sn_status status = sn_compile(&p, g, &o);
        cr_assert_eq(status, p ? SN_OK : SN_ERROR_MEMORY, "%s", sn_error(ctx));
        if (!p) cr_assert_eq(b.live, live, "allocation %ld: %ld blocks more than before", n, b.live - live);
    }
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
    cr_assert_eq(b.live, 0);
}

/* ---- LLVM's memory, which no hook sees ---- */

static size_t address_space(void) {
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%zu", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void limit_memory(size_t more) {
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = more ? address_space() + more : limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

/* One kernel of so many statements that LLVM wants tens of megabytes for it. Lowering makes none of that size. */
static void long_kernel(sn_graph **out, sn_context *ctx) {
    enum { N = 40000, LINE = 40 };
    static char text[N * LINE];
    int n = snprintf(text, sizeof text,
                     "graph @f(%%x: f32[64]) { %%y = neg %%x return y = %%y }\n"
                     "buffer x: f32[64] input 0\nbuffer y: f32[64] output 0\n"
                     "kernel @k(x, y) { loop i in 64 {\n%%0 = load x[i]\n%%1 = neg %%0\n");
    for (int k = 2; k < N; k++)
        n += snprintf(text + n, LINE, "%%%d = %s %%%d, %%%d\n", k, k % 2 ? "mul" : "add", k - 1, k - 2);
    snprintf(text + n, LINE, "store y[i], %%%d } }\n", N - 1);
    cr_assert_eq(sn_graph_from_text(out, ctx, "k", text, strlen(text)), SN_OK, "%s", sn_error(ctx));
}

/* In steps from less than LLVM wants to enough: after each failure the same context compiles when there is memory. */
Test(memory, llvm_running_out_is_a_status) {
    if (address_space() > (size_t)1 << 40) cr_skip_test("the address sanitizer reserves more than a limit allows");
    sn_context *ctx;
    sn_graph *g, *small;
    sn_program *p = NULL;
    int inside = 0;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    long_kernel(&g, ctx);
    cr_assert_eq(sn_graph_create(&small, ctx, "small"), SN_OK);
    sn_output(small, "y", sn_exp(small, sn_input(small, "x", SN_F32, SN_LIST(100))));
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    for (size_t mb = 14; !p && mb < 400; mb += 6) {
        limit_memory(mb << 20);
        sn_status status = sn_compile(&p, g, &o);
        char message[512];
        snprintf(message, sizeof message, "%s", sn_error(ctx));
        limit_memory(0);
        if (status == SN_OK) break;
        cr_assert_eq(status, SN_ERROR_MEMORY, "%zu MB: %s", mb, message);
        inside += strstr(message, "inside LLVM") != NULL;
        cr_assert_eq(sn_compile(&p, small, &o), SN_OK, "%s", sn_error(ctx));
        sn_program_destroy(p);
        p = NULL;
    }
    cr_assert(p != NULL && inside > 0, "%d", inside);
    sn_program_destroy(p);
    sn_graph_destroy(small);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}
