/* test_library.c: kernels that a library runs: how a call is read off a nest (ir/loop/library.c), and that the call does
 * what the nest does: by the BLAS of this machine, and by a cuBLASLt of our own on a fake device, which reads the library's
 * objects as the real one does. Inputs are small whole numbers, whose sums are exact in every dtype and order.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend-nvptx/ptx.h"
#include "include/sinter/sinter.h"
#include "ir/loop/library.h"
#include "passes/runner.h"
#include "runtime/prog.h"
#include "tests/unit/fake_cuda.h"

/* ---- reading ---- */

static sn_module *parsed(sn_env *env, const char *text) {
    sn_module *m = sn_module_new(env);
    cr_assert_eq(sn_module_parse(m, "test", text, strlen(text)), SN_OK, "%s", env->message);
    return m;
}

static void expect_matrix(const sn_library_matrix *got, const sn_library_matrix *want, const char *name) {
    cr_expect(got->param == want->param && got->offset == want->offset && got->ld == want->ld &&
                  got->stride == want->stride && got->transposed == want->transposed && got->align == want->align &&
                  got->dtype == want->dtype,
              "%s: param %u offset %lld ld %lld stride %lld transposed %d align %u", name, got->param,
              (long long)got->offset, (long long)got->ld, (long long)got->stride, got->transposed, got->align);
}

/* Rows of the text are columns of the library. */
Test(library, a_batch_of_slices) {
    sn_env env;
    sn_env_init(&env);
    sn_module *m = parsed(&env, "buffer x: bf16[3, 8, 40] input 0 align 16\n"
                                "buffer w: bf16[3, 24, 32] input 1 align 16\n"
                                "buffer b: bf16[24] input 2 align 16\n"
                                "buffer y: bf16[3, 8, 24] output 0 align 16\n"
                                "kernel @k(x, w, b, y) schedule library algo=2 {\n"
                                "  loop g in 3 { loop i in 8 { loop j in 24 {\n"
                                "    %0 = reduce sum r in 32 {\n"
                                "      %1 = load x[320*g + 40*i + r + 4] %2 = cast.f32 %1\n"
                                "      %3 = load w[768*g + 32*j + r] %4 = cast.f32 %3\n"
                                "      %5 = mul %2, %4 yield %5 }\n"
                                "    %6 = load b[j] %7 = cast.f32 %6 %8 = add %0, %7\n"
                                "    %9 = const.f32 0.0 %10 = max %8, %9 %11 = cast.bf16 %10\n"
                                "    store y[192*g + 24*i + j], %11 } } } }\n");
    sn_library_call call;
    const char *why_not = NULL;
    cr_assert(sn_library_read(&call, &why_not, m, m->kernels.at[0]), "%s", why_not);
    cr_expect(call.m == 24 && call.n == 8 && call.k == 32 && call.batch == 3 && call.algo == 2);
    cr_expect(call.sum == SN_F32 && call.has_bias && call.relu);
    expect_matrix(&call.a, &(sn_library_matrix){1, 0, 32, 768, true, 16, SN_BF16}, "a");
    expect_matrix(&call.b, &(sn_library_matrix){0, 4, 40, 320, false, 8, SN_BF16}, "b");
    expect_matrix(&call.c, &(sn_library_matrix){3, 0, 24, 192, false, 16, SN_BF16}, "c");
    expect_matrix(&call.bias, &(sn_library_matrix){2, 0, 0, 0, false, 16, SN_BF16}, "bias");
    sn_module_free(m);
}

/* A kernel like  y[i, j] = sum over r of x[i, r] * w[r, j]  with something else in one place, and why it is none. */
typedef struct refusal {
    const char *load, *product, *epilogue, *store, *why;
} refusal;

static const refusal refusals[] = {
    {"load x[16*i + r]", "mul %1, %2", "", "store y[8*i + j], %0", NULL},
    {"load x[16*i + r]", "add %1, %2", "", "store y[8*i + j], %0", "what it adds up is not one product"},
    {"load x[16*i + r]", "mul %1, %1", "", "store y[8*i + j], %0", "an axis is that of one factor alone"},
    {"load x[16*i + 2*(r div 2)]", "mul %1, %2", "", "store y[8*i + j], %0",
     "an access does not walk along its axes in even steps"},
    {"load x[16*i - r + 15]", "mul %1, %2", "", "store y[8*i + j], %0", "an access walks backwards"},
    {"load x[32*i + 2*r]", "mul %1, %2", "", "store y[8*i + j], %0",
     "its matrices or its bias do not lie in memory as those of libraries"},
    {"load x[16*i + r]", "mul %1, %2", "", "store y[16*i + 2*j], %0",
     "its matrices or its bias do not lie in memory as those of libraries"},
    {"load x[200*i + r]", "mul %1, %2", "", "store y[8*i + j], %0", "an access leaves its buffer"},
    {"load x[16*i + r]", "mul %1, %2", "%4 = exp %0", "store y[8*i + j], %4",
     "it does more with the sum than libraries do"},
    {"load x[16*i + r]", "mul %1, %2", "%4 = cast.f16 %0 %5 = cast.f32 %4 %6 = const.f32 1.0 %7 = add %5, %6",
     "store y[8*i + j], %7", "it adds something that is no element of memory"},
    {"load x[16*i + r]", "mul %1, %2", "%4 = load w[i] %5 = add %0, %4", "store y[8*i + j], %5",
     "its matrices or its bias do not lie in memory as those of libraries"},
    {"load x[16*i + r]", "mul %1, %2", "store y[8*i + j], %0", "store y[8*i + j], %0", "it stores two results"},
    {"load y[8*i + r]", "mul %1, %2", "", "store y[8*i + j], %0", "it stores where it loads"},
};

Test(library, what_is_no_call) {
    for (size_t i = 0; i < SN_COUNT(refusals); i++) {
        const refusal *rf = &refusals[i];
        char text[1024];
        sn_env env;
        sn_library_call call;
        const char *why_not = "";
        sn_env_init(&env);
        snprintf(text, sizeof text,
                 "buffer x: f32[400] input 0\nbuffer w: f32[16, 8] input 1\nbuffer y: f32[400] output 0\n"
                 "kernel @k(x, w, y) { loop i in 4 { loop j in 8 {\n"
                 "  %%0 = reduce sum r in 16 { %%1 = %s %%2 = load w[8*r + j] %%3 = %s yield %%3 }\n  %s\n  %s } } }\n",
                 rf->load, rf->product, rf->epilogue, rf->store);
        sn_module *m = parsed(&env, text);
        bool found = sn_library_read(&call, &why_not, m, m->kernels.at[0]);
        cr_expect_eq(found, !rf->why, "%s: %s", text, why_not);
        if (rf->why) cr_expect_str_eq(why_not, rf->why, "%s: %s", text, why_not);
        sn_module_free(m);
    }
}

/* ---- a cuBLASLt of our own, on a device whose memory is that of the host ---- */

typedef struct lt_op {
    int compute, scale, a_op, b_op;
    uint32_t epilogue;
    const void *bias;
} lt_op;

typedef struct lt_layout {
    int type;
    uint64_t rows, cols;
    int64_t ld, stride;
    int32_t batch;
} lt_layout;

static struct {
    int objects, compute;
    uint64_t workspace;
    uint32_t preference[16];
} lt;

enum { LT_ALGOS = 3, LT_WORKSPACE = 512 };

static size_t lt_version(void) { return 131005; }
static const char *lt_text(int status) { return status == 15 ? "not supported" : "another error"; }

static int lt_op_create(void **op, int compute, int scale) {
    lt.objects++;
    lt.compute = compute;
    *op = calloc(1, sizeof(lt_op));
    *(lt_op *)*op = (lt_op){.compute = compute, .scale = scale, .epilogue = 1};
    return 0;
}

static int lt_destroy(void *object) {
    lt.objects--;
    free(object);
    return 0;
}

static int lt_op_set(void *op, int attribute, const void *value, size_t size) {
    lt_op *o = op;
    const struct {
        void *to;
        size_t size;
    } attributes[] = {[3] = {&o->a_op, 4}, [4] = {&o->b_op, 4}, [7] = {&o->epilogue, 4}, [8] = {&o->bias, 8}};
    if (attribute >= (int)SN_COUNT(attributes) || attributes[attribute].size != size) return 7;
    memcpy(attributes[attribute].to, value, size);
    return 0;
}

static int lt_layout_create(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
    if (ld < (int64_t)rows) return 7;
    lt.objects++;
    *layout = calloc(1, sizeof(lt_layout));
    *(lt_layout *)*layout = (lt_layout){.type = type, .rows = rows, .cols = cols, .ld = ld, .batch = 1};
    return 0;
}

static int lt_layout_set(void *layout, int attribute, const void *value, size_t size) {
    lt_layout *l = layout;
    if (attribute == 5 && size == 4) return memcpy(&l->batch, value, size), 0;
    if (attribute == 6 && size == 8) return memcpy(&l->stride, value, size), 0;
    return 7;
}

static int lt_preference_create(void **preference) {
    lt.objects++;
    *preference = calloc(1, 1);
    return 0;
}

static int lt_preference_set(void *preference, int attribute, const void *value, size_t size) {
    (void)preference;
    if (attribute == 1 && size == 8) return memcpy(&lt.workspace, value, size), 0;
    if (attribute < 1 || attribute >= (int)SN_COUNT(lt.preference) || size != 4) return 7;
    return memcpy(&lt.preference[attribute], value, size), 0;
}

/* Three algorithms, and one that cannot be used in front of them. */
static int lt_heuristic(void *handle, void *op, void *a, void *b, void *c, void *d, void *preference, int wanted,
                        sn_cublas_found *found, int *n) {
    (void)handle, (void)op, (void)a, (void)b, (void)d, (void)preference;
    if (((lt_layout *)c)->rows == 13) return 15;
    cr_assert_geq(wanted, LT_ALGOS + 1);
    memset(found, 0, (LT_ALGOS + 1) * sizeof *found);
    found[0].status = 15;
    for (uint64_t i = 1; i <= LT_ALGOS; i++) found[i] = (sn_cublas_found){{{i}}, i * LT_WORKSPACE, 0, 1, {0}};
    *n = LT_ALGOS + 1;
    return 0;
}

static const sn_dtype lt_types[] = {[0] = SN_F32, [1] = SN_F64,  [2] = SN_F16,
                                    [3] = SN_I8,  [10] = SN_I32, [14] = SN_BF16};

static double lt_get(int type, const void *p, int64_t i) {
    sn_dtype t = lt_types[type];
    const char *at = (const char *)p + i * (int64_t)sn_dtype_bytes(t);
    return sn_is_float(t) ? sn_load_float(t, at) : (double)sn_load_int(t, at);
}

/* d = epilogue(op(a) op(b)), by columns. */
static void lt_product(const lt_op *op, const void *a, const lt_layout *al, const void *b, const lt_layout *bl, void *d,
                       const lt_layout *dl, int64_t batch) {
    int64_t k_size = (int64_t)(op->a_op ? al->rows : al->cols);
    cr_assert_eq(k_size, (int64_t)(op->b_op ? bl->cols : bl->rows));
    cr_assert_eq(dl->rows, op->a_op ? al->cols : al->rows);
    cr_assert_eq(dl->cols, op->b_op ? bl->rows : bl->cols);
    for (int64_t j = 0; j < (int64_t)dl->cols; j++)
        for (int64_t i = 0; i < (int64_t)dl->rows; i++) {
            double sum = 0;
            for (int64_t k = 0; k < k_size; k++)
                sum += lt_get(al->type, a, batch * al->stride + (op->a_op ? k + i * al->ld : i + k * al->ld)) *
                       lt_get(bl->type, b, batch * bl->stride + (op->b_op ? j + k * bl->ld : k + j * bl->ld));
            if (op->epilogue & 4) sum += lt_get(dl->type, op->bias, i);
            if (op->epilogue & 2 && sum < 0) sum = 0;
            sn_dtype t = lt_types[dl->type];
            char *to = (char *)d + (batch * dl->stride + i + j * dl->ld) * (int64_t)sn_dtype_bytes(t);
            if (sn_is_float(t)) sn_store_float(t, to, sum);
            else sn_store_int(t, to, (int64_t)sum);
        }
}

/* A call on its way through a stream: a copy of the operation, which the next run may change. */
typedef struct lt_call {
    lt_op op;
    const void *a, *b;
    void *d;
    const lt_layout *al, *bl, *dl;
} lt_call;

static void lt_execute(const void *given) {
    lt_call c;
    memcpy(&c, given, sizeof c);
    for (int32_t i = 0; i < c.dl->batch; i++) lt_product(&c.op, c.a, c.al, c.b, c.bl, c.d, c.dl, i);
}

static int lt_matmul(void *handle, void *op, const void *alpha, const void *a, void *al, const void *b, void *bl,
                     const void *beta, const void *c, void *cl, void *d, void *dl, const sn_cublas_algo *algo,
                     void *workspace, size_t size, CUstream stream) {
    const lt_op *o = op;
    (void)handle;
    cr_assert_gt(fake.depth, 0, "no context is current");
    cr_assert(lt_get(o->scale, alpha, 0) == 1 && lt_get(o->scale, beta, 0) == 0 && c == d && cl == dl);
    cr_assert(size == algo->data[0] * LT_WORKSPACE && workspace);
    memset(workspace, 0x77, size);
    int32_t batch = ((lt_layout *)dl)->batch;
    cr_assert(batch == ((lt_layout *)al)->batch && batch == ((lt_layout *)bl)->batch);
    lt_call call = {*o, a, b, d, al, bl, dl};
    fake_node node = {.call = lt_execute};
    _Static_assert(sizeof call <= sizeof node.given, "a call fits into a node");
    memcpy(node.given, &call, sizeof call);
    return (int)fake_queue(stream, node);
}

static int lt_close(void *handle) {
    cr_assert_gt(fake.depth, 0, "no context is current");
    return handle ? 0 : 7;
}

static void fake_library(sn_cuda *cu) {
    memset(&lt, 0, sizeof lt);
    cu->cublas = sn_heap_alloc(cu->env, sizeof *cu->cublas);
    *cu->cublas = (sn_cublas){.env = cu->env,
                              .handle = &lt,
                              .name = "cuBLASLt 13.10.5",
                              .GetVersion = lt_version,
                              .GetStatusString = lt_text,
                              .Destroy = lt_close,
                              .MatmulDescCreate = lt_op_create,
                              .MatmulDescDestroy = lt_destroy,
                              .MatmulDescSetAttribute = lt_op_set,
                              .MatrixLayoutCreate = lt_layout_create,
                              .MatrixLayoutDestroy = lt_destroy,
                              .MatrixLayoutSetAttribute = lt_layout_set,
                              .MatmulPreferenceCreate = lt_preference_create,
                              .MatmulPreferenceDestroy = lt_destroy,
                              .MatmulPreferenceSetAttribute = lt_preference_set,
                              .MatmulAlgoGetHeuristic = lt_heuristic,
                              .Matmul = lt_matmul};
}

/* ---- products of graphs ---- */

/* %s: the dtype. All of it is one kernel, which a library runs. */
static const char *const products[] = {
    "%x: D[37, 24], %w: D[24, 20]) {\n %0 = matmul %x, %w schedule=\"library\"\n return y = %0 }\n",
    "%x: D[37, 24], %w: D[20, 24]) {\n %t = permute %w perm=[1, 0]\n"
    " %0 = matmul %x, %t schedule=\"library\"\n return y = %0 }\n",
    "%x: D[24, 37], %w: D[24, 20]) {\n %t = permute %x perm=[1, 0]\n"
    " %0 = matmul %t, %w schedule=\"library\"\n return y = %0 }\n",
    "%x: D[24, 37], %w: D[20, 24]) {\n %t = permute %x perm=[1, 0]\n %u = permute %w perm=[1, 0]\n"
    " %0 = matmul %t, %u schedule=\"library\"\n return y = %0 }\n",
    "%x: D[3, 7, 24], %w: D[3, 24, 20]) {\n %0 = matmul %x, %w schedule=\"library\"\n return y = %0 }\n",
    "%x: D[3, 7, 24], %w: D[24, 20]) {\n %0 = matmul %x, %w schedule=\"library\"\n return y = %0 }\n",
    "%x: D[7, 24], %w: D[3, 24, 20]) {\n %0 = matmul %x, %w schedule=\"library\"\n return y = %0 }\n",
    "%x: D[3, 7, 24], %w: D[3, 24, 20]) {\n %0 = matmul %x, %w schedule=\"library\"\n"
    " %1 = permute %0 perm=[1, 0, 2]\n return y = %1 }\n",
    "%x: D[7, 40], %w: D[40, 20]) {\n %a = slice %x axis=1 start=8 stop=32 step=1\n"
    " %b = slice %w axis=0 start=2 stop=26 step=1\n %0 = matmul %a, %b schedule=\"library\"\n return y = %0 }\n",
    "%x: D[1, 24], %w: D[24, 20]) {\n %0 = matmul %x, %w schedule=\"library\"\n return y = %0 }\n",
    "%x: D[37, 24], %w: D[24]) {\n %0 = matmul %x, %w schedule=\"library\"\n return y = %0 }\n",
    "%x: D[24], %w: D[24]) {\n %0 = matmul %x, %w schedule=\"library\"\n return y = %0 }\n",
};

static const char *const epilogues[] = {
    "%x: D[37, 24], %w: D[24, 20]) {\n %0 = matmul %x, %w schedule=\"library\"\n %1 = relu %0\n return y = %1 }\n",
    "%x: D[2, 7, 24], %w: D[2, 24, 20]) {\n %0 = matmul %x, %w schedule=\"library\"\n %1 = relu %0\n return y = %1 }\n",
};

static const char *const biases[] = {
    "%x: f32[37, 24], %w: f32[24, 20], %b: f32[20]) {\n %0 = matmul %x, %w schedule=\"library\"\n"
    " %1 = add %0, %b\n return y = %1 }\n",
    "%x: f32[2, 37, 24], %w: f32[2, 24, 20], %b: f32[20]) {\n %0 = matmul %x, %w schedule=\"library\"\n"
    " %1 = add %b, %0\n %2 = relu %1\n return y = %2 }\n",
    "%x: bf16[37, 24], %w: bf16[24, 20], %b: bf16[20]) {\n %p = cast %x dtype=f32\n %q = cast %w dtype=f32\n"
    " %c = cast %b dtype=f32\n %0 = matmul %p, %q schedule=\"library\"\n %1 = add %0, %c\n %2 = relu %1\n"
    " %3 = cast %2 dtype=bf16\n return y = %3 }\n",
    "%x: i8[36, 24], %w: i8[24, 20]) {\n %p = cast %x dtype=i32\n %q = cast %w dtype=i32\n"
    " %0 = matmul %p, %q schedule=\"library\"\n return y = %0 }\n",
    "%x: f16[36, 24], %w: f16[24, 20]) {\n %p = cast %x dtype=f32\n %q = cast %w dtype=f32\n"
    " %0 = matmul %p, %q schedule=\"library\"\n return y = %0 }\n",
};

typedef struct fixture {
    sn_env env;
    sn_arena arena;
    sn_cuda *cu; /* NULL: the CPU */
    sn_module *m;
    sn_target target;
    sn_library_call call;
    void **memory; /* by buffer id */
    void *inputs[3], *output, *want;
    size_t size;
    sn_library library;
} fixture;

static bool has(void *user, const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    return sn_library_has(call, ((const sn_target *)user)->is_gpu, why);
}

static size_t bytes_of(const fixture *f, const sn_buf_rec *b) {
    return (size_t)sn_ix_value(f->m, b->size) * sn_dtype_bytes(b->dtype);
}

/* -2 .. 2, the same for the same name and place. */
static void *numbers(fixture *f, const sn_buf_rec *b) {
    size_t bytes = sn_dtype_bytes(b->dtype), n = bytes_of(f, b);
    char *at = aligned_alloc(256, (n + 255) / 256 * 256);
    for (size_t i = 0; i < n / bytes; i++) {
        int64_t x = (int64_t)((i * 7 + (size_t)b->name[0] * 3 + i / 11) % 5) - 2;
        if (sn_is_float(b->dtype)) sn_store_float(b->dtype, at + i * bytes, (double)x);
        else sn_store_int(b->dtype, at + i * bytes, x);
    }
    return at;
}

static void prepare(fixture *f, const char *body, const char *dtype, bool is_gpu) {
    char text[1024] = "graph @f(";
    size_t n = strlen(text);
    for (const char *s = body; *s; s++) {
        if (*s == 'D') n += (size_t)snprintf(text + n, sizeof text - n, "%s", dtype);
        else text[n++] = *s;
    }
    text[n] = 0;
    if (is_gpu) f->cu = fake_device(&f->env);
    else sn_env_init(&f->env);
    if (is_gpu) fake_library(f->cu);
    f->m = parsed(&f->env, text);
    sn_arena_init(&f->arena, &f->env);
    if (is_gpu) cr_assert_eq(sn_target_named(&f->target, &f->env, "sm_90"), SN_OK);
    else sn_target_host(&f->target, 2);
    f->library = (sn_library){has, &f->target};
    sn_pass_options o = {.verify = SN_VERIFY_PARANOID, .library = &f->library};
    cr_assert_eq(sn_passes_run(&f->m, &f->target, &o), SN_OK, "%s", f->env.message);
    cr_assert(f->m->kernels.n == 1 && sn_kern_is_library(sn_kern_get(f->m, f->m->kernels.at[0])), "%s", text);
    const char *why_not;
    cr_assert(sn_library_read(&f->call, &why_not, f->m, f->m->kernels.at[0]));
    f->memory = SN_NEWN(&f->arena, void *, f->m->bufs.count);
    for (uint32_t i = 1; i < f->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(f->m, (sn_buf){i});
        if (b->scope == SN_BUF_INPUT) f->memory[i] = f->inputs[b->io] = numbers(f, b);
        if (b->scope != SN_BUF_OUTPUT) continue;
        f->size = bytes_of(f, b);
        f->memory[i] = f->want = calloc(1, f->size);
        f->output = aligned_alloc(256, (f->size + 255) / 256 * 256);
        memset(f->output, 0x55, f->size);
    }
    cr_assert_eq(sn_loop_eval(f->m, f->memory, &f->arena), SN_OK, "%s", f->env.message);
}

static void finish(fixture *f) {
    for (int i = 0; i < 3; i++) free(f->inputs[i]);
    free(f->output);
    free(f->want);
    sn_arena_free(&f->arena);
    sn_module_free(f->m);
    sn_cuda_close(f->cu);
    cr_expect(!lt.objects && !fake.depth && !fake.used, "%d objects of the library are left", lt.objects);
    cr_expect_eq(f->env.bytes_now, 0);
    free(f);
}

/* As a child of a graph, and set anew where the output moves. */
static void run_by_graph(fixture *f, sn_prog_state *st) {
    size_t room = (f->size + 255) / 256 * 256;
    void *outputs[] = {f->output, aligned_alloc(256, room)};
    sn_prog_state_graphs(st, SN_GRAPHS_ON);
    for (int k = 0; k < 4; k++) {
        memset(outputs[k / 2], 0x55, f->size);
        cr_assert_eq(sn_prog_run(st, f->inputs, &outputs[k / 2], NULL, true), SN_OK, "%s", f->env.message);
        cr_expect_arr_eq(outputs[k / 2], f->want, f->size, "run %d", k);
    }
    cr_expect(fake.built == 1 && fake.updates == 1 && fake.replays == 4);
    free(outputs[1]);
}

static void run(fixture *f) {
    sn_prog *p;
    sn_prog_state *st;
    const sn_rt_kernel kernel = {.grid = 1, .block_x = 1, .block_y = 1, .library = &f->call};
    cr_assert_eq(sn_prog_load(&p, f->m, f->cu, &kernel, 1, NULL, 2, NULL), SN_OK, "%s", f->env.message);
    cr_assert_eq(sn_prog_state_new(&st, p, &f->env, f->cu), SN_OK, "%s", f->env.message);
    size_t held = f->env.bytes_now;
    cr_assert_eq(sn_prog_run(st, f->inputs, &f->output, NULL, true), SN_OK, "%s", f->env.message);
    cr_assert_eq(f->env.bytes_now, held, "a run allocates");
    cr_expect_arr_eq(f->output, f->want, f->size);
    if (f->cu) run_by_graph(f, st);
    sn_prog_state_free(st);
    sn_prog_free(p);
}

/* By a graph, in which the call is a captured child, and with a driver whose n-th call from there on fails. */
static bool fails_at(int n) {
    sn_prog *p;
    sn_prog_state *st;
    fixture *f = calloc(1, sizeof *f);
    prepare(f, products[0], "f32", true);
    const sn_rt_kernel kernel = {.grid = 1, .block_x = 1, .block_y = 1, .library = &f->call};
    cr_assert_eq(sn_prog_load(&p, f->m, f->cu, &kernel, 1, NULL, 2, NULL), SN_OK, "%s", f->env.message);
    cr_assert_eq(sn_prog_state_new(&st, p, &f->env, f->cu), SN_OK, "%s", f->env.message);
    sn_prog_state_graphs(st, SN_GRAPHS_ON);
    fake.fail_at = fake.calls + n;
    if (sn_prog_run(st, f->inputs, &f->output, NULL, true) != SN_OK) {
        cr_expect(strstr(f->env.message, fake.failed), "%s: %s", fake.failed, f->env.message);
        sn_env_clear(&f->env);
        cr_assert_eq(sn_prog_run(st, f->inputs, &f->output, NULL, true), SN_OK, "%s", f->env.message);
    }
    cr_expect_arr_eq(f->output, f->want, f->size);
    bool failed = fake.failed != NULL;
    sn_prog_state_free(st);
    sn_prog_free(p);
    cr_expect(!fake.open && !fake.capturing && !fake.relaxed, "%d objects left", fake.open);
    finish(f);
    return failed;
}

Test(library, a_driver_that_fails_in_a_capture) {
    int n = 1;
    while (n < 100 && fails_at(n)) n++;
    cr_assert(n > 12 && n < 100, "%d calls", n);
}

/* ---- by the BLAS of this machine ---- */

Test(library, blas_does_what_the_nest_does) {
    static const char *const dtypes[] = {"f32", "f64"};
    char why[SN_LIBRARY_WHY];
    sn_cblas lib;
    if (!sn_cblas_open(&lib, why)) cr_skip_test("%s", why);
    sn_cblas_close(&lib);
    for (size_t d = 0; d < SN_COUNT(dtypes); d++)
        for (size_t i = 0; i < SN_COUNT(products); i++) {
            fixture *f = calloc(1, sizeof *f);
            prepare(f, products[i], dtypes[d], false);
            run(f);
            finish(f);
        }
}

/* Somebody else may count on the number of threads of the process. */
Test(library, threads_of_blas_are_set_back) {
    char why[SN_LIBRARY_WHY];
    sn_cblas lib;
    bool open = sn_cblas_open(&lib, why);
    if (!open || !lib.openblas_set_num_threads) cr_skip_test("no OpenBLAS");
    lib.openblas_set_num_threads(1);
    fixture *f = calloc(1, sizeof *f);
    prepare(f, products[0], "f32", false);
    run(f);
    finish(f);
    cr_expect_eq(lib.openblas_get_num_threads(), 1);
    sn_cblas_close(&lib);
}

/* ---- one program, several threads ---- */

enum { THREADS = 4, ROUNDS = 20, SIZE = 64 * 48 };

typedef struct runs {
    sn_program *p;
    sn_tensor *inputs[2], *output;
    sn_status status;
} runs;

static void *run_often(void *user) {
    runs *r = user;
    sn_run_state *state;
    r->status = sn_run_state_create(&state, r->p);
    for (int i = 0; i < ROUNDS && !r->status; i++) r->status = sn_run_with(state, r->inputs, &r->output, NULL);
    sn_run_state_destroy(state);
    return NULL;
}

static const char layers[] = "graph @f(%x: f32[64, 32], %w: f32[32, 48]) {\n"
                             "  %0 = matmul %x, %w schedule=\"library\"\n  %1 = relu %0\n  return y = %1\n}\n";

Test(library, one_program_in_several_threads) {
    sn_context *ctx;
    sn_graph *g;
    sn_kernel_info kernel;
    const char *name;
    runs all[THREADS] = {0};
    pthread_t threads[THREADS];
    static float elements[64 * 32], got[SIZE], want[SIZE];
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    if (sn_device_library(&name, ctx, SN_CPU)) cr_skip_test("%s", sn_error(ctx));
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f", layers, strlen(layers)), SN_OK);
    const sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 2};
    cr_assert_eq(sn_compile(&all[0].p, g, &o), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_program_kernel(&kernel, all[0].p, 0), SN_OK);
    cr_assert_str_eq(kernel.library, name);
    for (int i = 0; i < THREADS; i++) {
        all[i].p = all[0].p;
        for (unsigned k = 0; k < 2; k++) {
            for (int e = 0; e < 64 * 32; e++) elements[e] = (float)((e * 7 + i) % 5 - 2);
            sn_tensor_info info;
            cr_assert_eq(sn_tensor_for_input(&all[i].inputs[k], all[0].p, k), SN_OK);
            sn_tensor_get_info(&info, all[i].inputs[k]);
            cr_assert_eq(sn_tensor_write(all[i].inputs[k], elements, (size_t)info.numel * sizeof *elements), SN_OK);
        }
        cr_assert_eq(sn_tensor_for_output(&all[i].output, all[0].p, 0), SN_OK);
    }
    for (int i = 0; i < THREADS; i++) cr_assert_eq(pthread_create(&threads[i], NULL, run_often, &all[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        cr_expect_eq(all[i].status, SN_OK);
        cr_assert_eq(sn_tensor_read(got, all[i].output, sizeof got), SN_OK);
        cr_assert_eq(sn_run(all[0].p, all[i].inputs, &all[i].output, NULL), SN_OK);
        cr_assert_eq(sn_tensor_read(want, all[i].output, sizeof want), SN_OK);
        cr_expect_arr_eq(got, want, sizeof got);
        for (unsigned k = 0; k < 2; k++) sn_tensor_destroy(all[i].inputs[k]);
        sn_tensor_destroy(all[i].output);
    }
    sn_program_destroy(all[0].p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(library, what_blas_has_not) {
    char why[SN_LIBRARY_WHY];
    const sn_library_matrix f32 = {.ld = 4, .dtype = SN_F32}, bf16 = {.ld = 4, .dtype = SN_BF16},
                            far = {.ld = 1ll << 40, .dtype = SN_F32};
    const struct {
        sn_library_call call;
        const char *why;
    } cases[] = {
        {{.sum = SN_I32, .a = f32, .b = f32, .c = f32}, "a BLAS has products in f32 and f64 alone"},
        {{.sum = SN_F32, .a = bf16, .b = f32, .c = f32}, "a BLAS converts no elements"},
        {{.sum = SN_F32, .a = f32, .b = far, .c = f32}, "the columns of a matrix are too far apart for a BLAS"},
        {{.sum = SN_F32, .a = f32, .b = f32, .c = f32, .relu = true}, "a BLAS does no more than the product"},
        {{.sum = SN_F32, .a = f32, .b = f32, .c = f32, .algo = 1}, "a BLAS has one algorithm, algo=0"},
    };
    for (size_t i = 0; i < SN_COUNT(cases); i++) {
        cr_expect_not(sn_library_has(&cases[i].call, false, why));
        cr_expect_str_eq(why, cases[i].why);
    }
}

/* ---- by a cuBLASLt of our own ---- */

static void run_on_fake(const char *body, const char *dtype) {
    fixture *f = calloc(1, sizeof *f);
    prepare(f, body, dtype, true);
    run(f);
    finish(f);
}

Test(library, cublaslt_does_what_the_nest_does) {
    static const char *const dtypes[] = {"f32", "f64", "f16", "bf16"};
    for (size_t d = 0; d < SN_COUNT(dtypes); d++) {
        for (size_t i = 0; i < SN_COUNT(products); i++) run_on_fake(products[i], dtypes[d]);
        for (size_t i = 0; i < SN_COUNT(epilogues) && strcmp(dtypes[d], "f64"); i++)
            run_on_fake(epilogues[i], dtypes[d]);
    }
    for (size_t i = 0; i < SN_COUNT(biases); i++) run_on_fake(biases[i], "");
}

/* What products may be rounded to is a permission: what is more exact will do. */
Test(library, cublaslt_is_as_exact_as_the_graph_asks) {
    static const struct {
        const char *precision;
        int compute;
    } cases[] = {{"exact", 68}, {"high", 68}, {"tf32", 77}, {"bf16", 75}};
    for (size_t i = 0; i < SN_COUNT(cases); i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "%%x: D[37, 24], %%w: D[24, 20]) {\n %%0 = matmul %%x, %%w schedule=\"library\" precision=%s\n"
                 " return y = %%0 }\n",
                 cases[i].precision);
        fixture *f = calloc(1, sizeof *f);
        prepare(f, body, "f32", true);
        run(f);
        cr_expect_eq(lt.compute, cases[i].compute, "%s: %d", cases[i].precision, lt.compute);
        finish(f);
    }
}

/* Partial sums are not rounded to halves; what is known of addresses is passed on. */
Test(library, cublaslt_is_told_what_it_may_do) {
    fixture *f = calloc(1, sizeof *f);
    prepare(f, products[8], "bf16", true);
    run(f);
    cr_expect_eq(lt.workspace, 32 << 20);
    cr_expect_eq(lt.preference[3], 2);
    cr_expect(lt.preference[5] == 16 && lt.preference[6] == 16 && lt.preference[8] == 16, "%u %u %u", lt.preference[5],
              lt.preference[6], lt.preference[8]);
    finish(f);
}

Test(library, algorithms_are_those_that_can_be_used) {
    char why[SN_LIBRARY_WHY];
    fixture *f = calloc(1, sizeof *f);
    prepare(f, products[0], "f16", true);
    f->call.algo = LT_ALGOS - 1;
    cr_expect(sn_library_takes(f->cu, &f->call, why), "%s", why);
    run(f);
    f->call.algo = LT_ALGOS;
    cr_expect_not(sn_library_takes(f->cu, &f->call, why));
    cr_expect_str_eq(why, "cuBLASLt 13.10.5 has 3 algorithms for it, numbered from 0: there is no algo=3");
    const sn_rt_kernel kernel = {.grid = 1, .library = &f->call};
    sn_prog *p;
    cr_expect_eq(sn_prog_load(&p, f->m, f->cu, &kernel, 1, NULL, 1, NULL), SN_ERROR_UNSUPPORTED);
    cr_expect_str_eq(f->env.message,
                     "kernel k0: no library runs it: cuBLASLt 13.10.5 has 3 algorithms for it, numbered "
                     "from 0: there is no algo=3");
    f->call.m = f->call.c.ld = 13; /* what the library knows nothing of */
    cr_expect_not(sn_library_takes(f->cu, &f->call, why));
    cr_expect_str_eq(why, "cuBLASLt 13.10.5: not supported");
    cr_expect_eq(lt.objects, 0);
    sn_env_clear(&f->env);
    finish(f);
}

Test(library, what_cublaslt_has_not) {
    char why[SN_LIBRARY_WHY];
    const sn_library_matrix f32 = {.dtype = SN_F32}, f16 = {.dtype = SN_F16}, f64 = {.dtype = SN_F64};
    const struct {
        sn_library_call call;
        const char *why;
    } cases[] = {
        {{.sum = SN_F32, .a = f32, .b = f16, .c = f32},
         "cuBLASLt has no product of f32 and f16 with sums in f32 and a result in f32"},
        {{.sum = SN_F64, .a = f64, .b = f64, .c = f64, .relu = true}, "cuBLASLt does no more than the product in f64"},
        {{.sum = SN_F32, .a = f16, .b = f16, .c = f16, .has_bias = true, .bias = f32},
         "cuBLASLt wants a bias in f16, that of the result"},
    };
    for (size_t i = 0; i < SN_COUNT(cases); i++) {
        cr_expect_not(sn_library_has(&cases[i].call, true, why));
        cr_expect_str_eq(why, cases[i].why);
    }
}
