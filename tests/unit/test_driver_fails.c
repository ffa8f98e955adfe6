/* test_driver_fails.c: a driver whose n-th call fails, for every n of a program's life, and one that has too little memory: each
 * failure has a status and a message that names the call, nothing stays behind, and what failed works when it is tried again. Once
 * with a loaded program alone, whose results can be looked at; once through sinter.h, with the fake driver as a library.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "include/sinter/sinter.h"
#include "tests/unit/fake_cuda.h"

enum { MOST_CALLS = 2000 };

/* ---- a loaded program ---- */

static const char chain[] =
    "buffer x: f32[4] input 0 align 16\nbuffer c: f32[4] const data [1, 1, 1, 1] align 16\n"
    "buffer t: f32[4] temp align 256\nbuffer y: f32[4] output 0 align 16\n"
    "kernel @add1(x: f32[4] in, t: f32[4] out) { loop i in 4 : grid { %0 = load x[i] store t[i], %0 } }\n"
    "kernel @add2(t: f32[4] in, y: f32[4] out, c: f32[4] in) { loop i in 4 : grid { %0 = load t[i] store y[i], %0 } }\n"
    "wrapper @main workspace 256 {\n"
    "  check x\n check y\n alloc t size 16 offset 0\n call @add1(x, t)\n call @add2(t, y, c)\n copy t from y size 16\n}\n";
static const sn_rt_kernel kernels[] = {
    {.name = "add1", .ptx = "add1", .ptx_size = 1, .grid = 4, .block_x = 1, .block_y = 1, .kept_bytes = 8},
    {.name = "add2", .ptx = "add2", .ptx_size = 1, .grid = 4, .block_x = 1, .block_y = 1}};
/* The driver's, who gets both as one text. */
#define ENTRY "\n.visible .entry "
static const sn_rt_kernel joined[] = {
    {.name = "add1",
     .ptx = ENTRY "add1",
     .ptx_size = 1,
     .grid = 4,
     .block_x = 1,
     .block_y = 1,
     .kept_bytes = 8,
     .whole = true},
    {.name = "add2", .ptx = ENTRY "add2", .ptx_size = 1, .grid = 4, .block_x = 1, .block_y = 1, .whole = true}};

typedef struct life {
    sn_env env;
    sn_cuda *cu, *share;
    sn_module *m;
    sn_prog *p;
    sn_prog_state *st;
    const sn_rt_kernel *kernels;
    sn_graphs_mode mode;
    _Alignas(16) float x[2][4], y[4];
} life;

static sn_status run_once(life *f, int set) {
    for (int i = 0; i < 4; i++) f->x[set][i] = (float)i, f->y[i] = -1;
    SN_TRY(sn_prog_run(f->st, (void *[]){f->x[set]}, (void *[]){f->y}, NULL, false));
    for (int i = 0; i < 4; i++) cr_assert_eq(f->y[i], (float)i + 3, "y %g", (double)f->y[i]);
    return SN_OK;
}

/* What is there already stays: the second time goes on where the first one stopped. */
static sn_status go_on(life *f) {
    if (!f->share) SN_TRY(sn_cuda_share(&f->share, &f->env, f->cu));
    if (!f->p) SN_TRY(sn_prog_load(&f->p, f->m, f->cu, f->kernels, 2, NULL, 1, NULL));
    if (!f->st) {
        SN_TRY(sn_prog_state_new(&f->st, f->p, &f->env, f->share));
        sn_prog_state_graphs(f->st, f->mode);
    }
    for (int k = 0; k < 4; k++) SN_TRY(run_once(f, k / 2)); /* the last one but one has storage that has moved */
    return SN_OK;
}

static void end(life *f) {
    sn_prog_state_free(f->st);
    sn_prog_free(f->p);
    sn_module_free(f->m);
    sn_cuda_close(f->share);
    sn_cuda_close(f->cu);
}

static void expect_nothing_left(const fake_state *d, const char *when) {
    cr_assert(!d->used && !d->open && !d->modules && !d->depth && !d->retained && !d->capturing && !d->relaxed,
              "%s: %zu bytes, %d objects, %d modules, %d contexts, %d devices left", when, (size_t)d->used, d->open,
              d->modules, d->depth, d->retained);
}

static void begin(life *f, sn_graphs_mode mode) {
    *f = (life){.kernels = kernels, .mode = mode};
    f->cu = fake_device(&f->env);
    f->cu->driver_version = 12040;
    f->m = sn_module_new(&f->env);
    cr_assert_eq(sn_module_parse(f->m, "test.sn", chain, strlen(chain)), SN_OK, "%s", f->env.message);
}

/* With auto, a graph that cannot be made is no failure. */
static void expect_named(const fake_state *d, sn_status status, const char *said, CUresult with) {
    sn_status want = with == CUDA_ERROR_OUT_OF_MEMORY ? SN_ERROR_DEVICE_MEMORY : SN_ERROR_DEVICE;
    cr_assert_eq(status, want, "%s: status %d", d->failed, status);
    bool named = strstr(said, d->failed) || (!strcmp(d->failed, "cuMemAlloc") && strstr(said, "out of device memory"));
    cr_assert(named, "%s: \"%s\"", d->failed, said);
}

static int fail_the_nth(int n, const sn_rt_kernel *of, sn_graphs_mode mode, CUresult with) {
    life f;
    begin(&f, mode);
    f.kernels = of;
    fake.fail_with = with;
    fake.fail_at = n;
    sn_status status = go_on(&f);
    if (status != SN_OK) {
        expect_named(&fake, status, f.env.message, with);
        sn_env_clear(&f.env);
        status = go_on(&f);
        cr_assert_eq(status, SN_OK, "again after %s: %s", fake.failed, f.env.message);
    }
    end(&f);
    expect_nothing_left(&fake, fake.failed ? fake.failed : "nothing failed");
    cr_assert_eq(f.env.bytes_now, 0, "%s: %zu bytes of the host left", fake.failed, f.env.bytes_now);
    return fake.failed != NULL;
}

Test(driver_fails, every_call_of_a_program) {
    static const CUresult with[] = {ILLEGAL_ADDRESS, CUDA_ERROR_OUT_OF_MEMORY};
    for (size_t k = 0; k < SN_COUNT(with); k++)
        for (int mode = SN_GRAPHS_OFF; mode <= SN_GRAPHS_ON; mode++) {
            int n = 1, n_joined = 1;
            while (n < MOST_CALLS && fail_the_nth(n, kernels, (sn_graphs_mode)mode, with[k])) n++;
            cr_assert(n > 40 && n < MOST_CALLS, "%d calls", n);
            while (n_joined < n && fail_the_nth(n_joined, joined, (sn_graphs_mode)mode, with[k])) n_joined++;
            cr_assert_lt(n_joined, n, "two texts are loaded");
        }
}

/* Each is tried alone then: the message has the name of the one that is to blame. */
Test(driver_fails, a_text_of_several_kernels_is_refused) {
    life f;
    begin(&f, SN_GRAPHS_OFF);
    f.kernels = joined;
    fake.refuse = true;
    cr_assert_eq(go_on(&f), SN_ERROR_DEVICE);
    cr_assert_str_eq(f.env.message,
                     "kernel add1: the assembler refuses its PTX: ptxas error : no luck; line 3: really none");
    sn_env_clear(&f.env);
    fake.refuse = false;
    cr_assert_eq(go_on(&f), SN_OK, "%s", f.env.message);
    end(&f);
    expect_nothing_left(&fake, "refused");
    cr_assert_eq(f.env.bytes_now, 0);
}

/* The same of a text that nvJitLink takes, whose cubin the driver does not. */
Test(driver_fails, a_cubin_of_several_kernels_is_refused) {
    void *linker = dlopen(SN_TEST_JITLINK, RTLD_NOW);
    cr_assert_not_null(linker, "%s", dlerror());
    void *symbol = dlsym(linker, "fake_jitlink_linked");
    cr_assert_not_null(symbol);
    const _Atomic unsigned *linked = symbol;
    sn_rt_kernel both[] = {joined[0], joined[1]};
    both[0].whole = both[1].whole = false;
    life f;
    begin(&f, SN_GRAPHS_OFF);
    f.kernels = both;
    fake.refuse_cubins = true;
    fake.refused = "add2";
    cr_assert_eq(go_on(&f), SN_ERROR_DEVICE);
    cr_assert_eq(*linked, 1, "two texts");
    cr_assert_str_eq(f.env.message,
                     "kernel add2: the assembler refuses its PTX: ptxas error : no luck; line 3: really none");
    sn_env_clear(&f.env);
    cr_assert_eq(fake.modules, 0, "that of add1 is left");
    fake.refused = ENTRY "add1" ENTRY; /* together */
    cr_assert_eq(go_on(&f), SN_OK, "%s", f.env.message);
    cr_assert_eq(fake.modules, 2);
    end(&f);
    expect_nothing_left(&fake, "refused together");
    cr_assert_eq(f.env.bytes_now, 0);
}

/* From no memory at all to enough, in steps of the allocator. */
Test(driver_fails, too_little_memory) {
    sn_status status = SN_ERROR_DEVICE_MEMORY;
    int failures = 0;
    for (size_t room = 0; status != SN_OK && room < FAKE_MEMORY; room += 512) {
        life f;
        begin(&f, SN_GRAPHS_AUTO);
        fake.taken = FAKE_MEMORY - room;
        status = go_on(&f);
        if (status != SN_OK) {
            failures++;
            cr_assert_eq(status, SN_ERROR_DEVICE_MEMORY);
            cr_assert(strstr(f.env.message, "out of device memory on Fake: ") == f.env.message, "%s", f.env.message);
            sn_env_clear(&f.env);
            fake.taken = 0;
            cr_assert_eq(go_on(&f), SN_OK, "%s", f.env.message);
        }
        end(&f);
        expect_nothing_left(&fake, "little memory");
        cr_assert_eq(f.env.bytes_now, 0);
    }
    cr_assert_gt(failures, 1);
}

/* ---- through sinter.h ---- */

static const char graph_text[] = "graph @f(%x: f32[64, 64], %n: f32[64, 64]) {\n"
                                 "  %a = softmax %x axis=0\n  %b = softmax %a axis=1\n  %c = add %n, %b\n"
                                 "  return y = %b, n = %c writes %n\n}\n";
enum { ELEMENTS = 64 * 64 };

static fake_state *library(void) {
    void *at = dlopen(SN_TEST_CUDA, RTLD_NOW | RTLD_GLOBAL);
    cr_assert_not_null(at, "%s", dlerror());
    void *(*state)(void);
    void *symbol = dlsym(at, "fake_cuda_state");
    cr_assert_not_null(symbol);
    memcpy(&state, &symbol, sizeof state);
    memset(state(), 0, sizeof(fake_state));
    return state();
}

typedef struct user {
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    sn_run_state *st;
    sn_tensor *x, *n, *y;
    const char *graphs, *said;
} user;

static sn_status note(user *u, sn_status status) {
    if (status != SN_OK) u->said = sn_error(u->ctx);
    return status;
}

static sn_status use_tensors(user *u) {
    static float data[ELEMENTS];
    if (!u->x) SN_TRY(note(u, sn_tensor_for_input(&u->x, u->p, 0)));
    if (!u->n) SN_TRY(note(u, sn_tensor_for_input(&u->n, u->p, 1)));
    if (!u->y) SN_TRY(note(u, sn_tensor_for_output(&u->y, u->p, 0)));
    SN_TRY(note(u, sn_tensor_write(u->x, data, sizeof data)));
    return note(u, sn_tensor_write(u->n, data, sizeof data));
}

static sn_status use_runs(user *u) {
    static float data[ELEMENTS];
    sn_tensor *in[] = {u->x, u->n}, *out[] = {u->y, NULL};
    for (int k = 0; k < 3; k++) SN_TRY(note(u, sn_run(u->p, in, out, NULL)));
    if (!u->st) cr_assert_eq(sn_run_state_create(&u->st, u->p), SN_OK);
    for (int k = 0; k < 3; k++) {
        sn_status status = sn_run_with(u->st, in, out, NULL);
        if (status != SN_OK) u->said = sn_run_state_error(u->st);
        SN_TRY(status);
    }
    SN_TRY(note(u, sn_device_sync(u->ctx, 0, NULL)));
    return note(u, sn_tensor_read(data, u->y, sizeof data));
}

static sn_status use(user *u) {
    sn_compile_options o = {
        .struct_size = sizeof o, .device = "cuda", .tune = "off", .threads = 1, .graphs = u->graphs};
    if (!u->p) SN_TRY(note(u, sn_compile(&u->p, u->g, &o)));
    SN_TRY(use_tensors(u));
    return use_runs(u);
}

static void start(user *u, const char *graphs, const sn_context_options *o) {
    *u = (user){.graphs = graphs};
    cr_assert_eq(sn_context_create(&u->ctx, o), SN_OK);
    cr_assert_eq(sn_graph_from_text(&u->g, u->ctx, "f", graph_text, strlen(graph_text)), SN_OK, "%s", sn_error(u->ctx));
}

static void finish(user *u) {
    sn_tensor_destroy(u->x);
    sn_tensor_destroy(u->n);
    sn_tensor_destroy(u->y);
    sn_run_state_destroy(u->st);
    sn_program_destroy(u->p);
    sn_graph_destroy(u->g);
    sn_context_destroy(u->ctx);
}

static bool nth_of_all(fake_state *d, int n, const char *graphs) {
    user u;
    d->calls = 0;
    d->failed = NULL;
    d->fail_with = ILLEGAL_ADDRESS;
    start(&u, graphs, NULL);
    d->fail_at = n;
    sn_status status = use(&u);
    if (status != SN_OK) {
        expect_named(d, status, u.said, d->fail_with);
        cr_assert_eq(use(&u), SN_OK, "again after %s: %s", d->failed, u.said);
    }
    finish(&u);
    expect_nothing_left(d, d->failed ? d->failed : "nothing failed");
    return d->failed != NULL;
}

Test(driver_fails, every_call_of_a_user) {
    fake_state *d = library();
    int n = 1;
    while (n < MOST_CALLS && nth_of_all(d, n, "on")) n++;
    cr_assert(n > 60 && n < MOST_CALLS, "%d calls", n);
}

/* ---- memory of the caller ---- */

typedef struct lender {
    int allocs, frees, left; /* left: of blocks that are lent, negative: any number */
    size_t out, shift;
} lender;

static void *lend(void *to, int device, size_t size) {
    lender *l = to;
    cr_assert(device == 0 && size > 0);
    if (!l->left) return NULL;
    l->left--;
    l->allocs++;
    l->out += size;
    return (char *)aligned_alloc(256, (size + 511) / 256 * 256) + l->shift;
}

static void take_back(void *from, int device, void *p, size_t size) {
    lender *l = from;
    cr_assert_eq(device, 0);
    l->frees++;
    l->out -= size;
    free((char *)p - l->shift);
}

static sn_context_options lent_by(lender *l) {
    return (sn_context_options){
        .struct_size = sizeof(sn_context_options), .device_alloc = lend, .device_free = take_back, .device_user = l};
}

Test(device_memory, of_the_caller_for_everything) {
    fake_state *d = library();
    lender l = {.left = -1};
    sn_context_options o = lent_by(&l);
    user u;
    start(&u, "auto", &o);
    cr_assert_eq(use(&u), SN_OK, "%s", u.said);
    int allocs = l.allocs;
    cr_assert_gt(allocs, 4);
    for (int k = 0; k < 100; k++) cr_assert_eq(use_runs(&u), SN_OK, "%s", u.said);
    cr_assert(l.allocs == allocs && l.frees == 0, "steady runs take or give back memory");
    finish(&u);
    cr_assert_eq(l.out, 0);
    cr_assert_eq(l.frees, l.allocs);
    cr_assert_eq(d->allocs, 0, "the driver was asked");
    expect_nothing_left(d, "memory of the caller");
}

Test(device_memory, that_the_caller_has_not) {
    fake_state *d = library();
    sn_status status = SN_ERROR_DEVICE_MEMORY;
    for (int n = 0; n < 100 && status != SN_OK; n++) {
        lender l = {.left = n};
        sn_context_options o = lent_by(&l);
        user u;
        start(&u, "auto", &o);
        status = use(&u);
        if (status != SN_OK) cr_assert(strstr(u.said, "out of device memory on Fake: "), "%s", u.said);
        if (status != SN_OK) cr_assert_eq(status, SN_ERROR_DEVICE_MEMORY);
        l.left = -1;
        cr_assert_eq(use(&u), SN_OK, "%s", u.said);
        finish(&u);
        cr_assert_eq(l.out, 0);
        expect_nothing_left(d, "too little of the caller");
    }
    cr_assert_eq(status, SN_OK);
}

Test(device_memory, misaligned_or_by_half) {
    library();
    lender l = {.left = -1, .shift = 128};
    sn_context_options o = lent_by(&l);
    user u;
    start(&u, "auto", &o);
    cr_assert_eq(use(&u), SN_ERROR_ARGUMENT);
    cr_assert(strstr(u.said, "device_alloc: ") && strstr(u.said, "is no multiple of 256"), "%s", u.said);
    finish(&u);
    cr_assert_eq(l.out, 0);
    o.device_free = NULL;
    cr_assert_eq(sn_context_create(&u.ctx, &o), SN_ERROR_ARGUMENT);
    cr_assert_null(u.ctx);
}
