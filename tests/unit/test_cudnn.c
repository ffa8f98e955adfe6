/* test_cudnn.c: kernels that are convolutions: how a call is read off a nest (ir/loop/library_conv.c), and that the call does
 * what the nest does: by a cuDNN of our own on a fake device, which reads the library's objects as the real one does, and
 * counts results as it does. Inputs are small whole numbers, whose sums are exact in every dtype and order.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend-nvptx/ptx.h"
#include "ir/graph/build.h"
#include "ir/graph/conv.h"
#include "ir/loop/library.h"
#include "passes/runner.h"
#include "runtime/prog.h"
#include "tests/unit/fake_cuda.h"

/* ---- a cuDNN of our own, on a device whose memory is that of the host ---- */

enum { RANK = 5, BAD_PARAM = 3, NOT_SUPPORTED = 9, DNN_WORKSPACE = 512 };

typedef struct dnn_tensor {
    int type, format, rank, size[RANK], stride[RANK];
} dnn_tensor;

typedef struct dnn_conv {
    int n, padding[RANK], stride[RANK], dilation[RANK], mode, compute, math, groups;
} dnn_conv;

typedef enum { FORWARD, DATA, FILTER } dnn_what;

static struct {
    int objects, handles, algo;
    CUstream stream;
    dnn_what what;
    dnn_conv conv;
    dnn_tensor x, w, y;
    bool refuse, fail, large;
} dnn;

static size_t dnn_version(void) { return 91002; }
static const char *dnn_text(int status) {
    return status == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_OTHER";
}

static int dnn_create(void **handle) {
    cr_assert_gt(fake.depth, 0, "no context is current");
    dnn.handles++;
    *handle = calloc(1, 1);
    return 0;
}

static int dnn_destroy(void *handle) {
    cr_assert_gt(fake.depth, 0, "no context is current");
    dnn.handles--;
    free(handle);
    return 0;
}

static int dnn_stream(void *handle, CUstream stream) {
    cr_assert(handle);
    dnn.stream = stream;
    return 0;
}

static int dnn_new_tensor(void **tensor) {
    dnn.objects++;
    *tensor = calloc(1, sizeof(dnn_tensor));
    return 0;
}

static int dnn_new_conv(void **conv) {
    dnn.objects++;
    *conv = calloc(1, sizeof(dnn_conv));
    return 0;
}

static int dnn_free(void *object) {
    dnn.objects--;
    free(object);
    return 0;
}

static int dnn_set_tensor(void *tensor, int type, int n, const int *sizes, const int *strides) {
    dnn_tensor *t = tensor;
    if (n < 4 || n > RANK) return BAD_PARAM;
    *t = (dnn_tensor){.type = type, .rank = n};
    for (int k = 0; k < n; k++) {
        if (sizes[k] < 1 || strides[k] < 1) return BAD_PARAM;
        t->size[k] = sizes[k], t->stride[k] = strides[k];
    }
    return 0;
}

/* Packed: [K, C, ..] or [K, .., C]. */
static int dnn_set_filter(void *filter, int type, int format, int n, const int *sizes) {
    dnn_tensor *t = filter;
    int stride = 1;
    if (n < 4 || n > RANK || (format != 0 && format != 1)) return BAD_PARAM;
    *t = (dnn_tensor){.type = type, .format = format, .rank = n};
    for (int i = 0; i < n; i++) {
        int k = format == 0 ? n - 1 - i : i == 0 ? 1 : i == n - 1 ? 0 : n - i;
        t->size[k] = sizes[k];
        t->stride[k] = stride;
        stride *= sizes[k];
    }
    return 0;
}

static int dnn_set_conv(void *conv, int n, const int *padding, const int *strides, const int *dilations, int mode,
                        int compute) {
    dnn_conv *c = conv;
    *c = (dnn_conv){.n = n, .mode = mode, .compute = compute, .groups = 1};
    for (int k = 0; k < n; k++) {
        if (padding[k] < 0 || strides[k] < 1 || dilations[k] < 1) return BAD_PARAM;
        c->padding[k] = padding[k], c->stride[k] = strides[k], c->dilation[k] = dilations[k];
    }
    return 0;
}

static int dnn_set_math(void *conv, int math) { return ((dnn_conv *)conv)->math = math, 0; }
static int dnn_set_groups(void *conv, int groups) { return ((dnn_conv *)conv)->groups = groups, 0; }

/* As cudnnGetConvolutionNdForwardOutputDim counts. */
static int dnn_check(const dnn_tensor *x, const dnn_tensor *w, const dnn_tensor *y, const dnn_conv *c) {
    if (x->rank != w->rank || y->rank != w->rank || c->n != w->rank - 2) return BAD_PARAM;
    if (x->type != w->type || y->type != w->type) return BAD_PARAM;
    if (x->size[0] != y->size[0] || x->size[1] != w->size[1] * c->groups || y->size[1] != w->size[0] ||
        w->size[0] % c->groups)
        return BAD_PARAM;
    for (int k = 0; k < c->n; k++) {
        int room = x->size[2 + k] + 2 * c->padding[k] - ((w->size[2 + k] - 1) * c->dilation[k] + 1);
        if (room < 0 || y->size[2 + k] != room / c->stride[k] + 1) return BAD_PARAM;
    }
    return dnn.refuse ? NOT_SUPPORTED : 0;
}

/* A transform, what is not deterministic, what cannot be used, and two that count, one of them under two names of its math. */
static int dnn_list(void *handle, const dnn_tensor *x, const dnn_tensor *w, const dnn_tensor *y, const dnn_conv *c,
                    int wanted, int *n, sn_cudnn_found *found, dnn_what what) {
    cr_assert(handle && wanted >= 8);
    int transform = what == FORWARD ? 6 : 4, second = what == FORWARD ? 0 : 1;
    int status = dnn_check(x, w, y, c);
    const sn_cudnn_found all[] = {{transform, 0, 1, 0, 1, c->math, {0}},
                                  {what == FORWARD ? 1 : 0, 0, 1, 0, 0, c->math, {0}},
                                  {2, NOT_SUPPORTED, 1, 0, 1, 1, {0}},
                                  {1, 0, 2, 0, 1, c->math, {0}},
                                  {1, 0, 2, 0, 1, 2, {0}},
                                  {second, 0, 3, 0, 1, 0, {0}}};
    memcpy(found, all, sizeof all);
    *n = (int)SN_COUNT(all);
    return status;
}

static int dnn_list_forward(void *h, void *x, void *w, void *conv, void *y, int wanted, int *n, sn_cudnn_found *found) {
    return dnn_list(h, x, w, y, conv, wanted, n, found, FORWARD);
}
static int dnn_list_data(void *h, void *w, void *dy, void *conv, void *dx, int wanted, int *n, sn_cudnn_found *found) {
    return dnn_list(h, dx, w, dy, conv, wanted, n, found, DATA);
}
static int dnn_list_filter(void *h, void *x, void *dy, void *conv, void *dw, int wanted, int *n,
                           sn_cudnn_found *found) {
    return dnn_list(h, x, dw, dy, conv, wanted, n, found, FILTER);
}

static int dnn_size(void *h, void *a, void *b, void *conv, void *c, int algo, size_t *size) {
    (void)a, (void)b, (void)c, (void)conv;
    cr_assert(h);
    *size = dnn.large ? 1ull << 40 : (size_t)(algo + 1) * DNN_WORKSPACE;
    return 0;
}

static const sn_dtype dnn_types[] = {[0] = SN_F32, [1] = SN_F64, [2] = SN_F16, [9] = SN_BF16};

static int64_t place(const dnn_tensor *t, const int *at) {
    int64_t p = 0;
    for (int k = 0; k < t->rank; k++) p += (int64_t)at[k] * t->stride[k];
    return p;
}

static double get(const dnn_tensor *t, const void *p, const int *at) {
    sn_dtype type = dnn_types[t->type];
    return sn_load_float(type, (const char *)p + place(t, at) * (int64_t)sn_dtype_bytes(type));
}

static void put(const dnn_tensor *t, void *p, const int *at, double v) {
    sn_dtype type = dnn_types[t->type];
    sn_store_float(type, (char *)p + place(t, at) * (int64_t)sn_dtype_bytes(type), v);
}

static bool next(int *at, const int *size, int n) {
    for (int k = n; k-- > 0; at[k] = 0)
        if (++at[k] < size[k]) return true;
    return false;
}

/* The taps of y[n, o, q..] = sum of x[n, c, ..] * w[o, c, k..], one after the other: the one of the three that is `to` gets the
 * products of the other two. Sums are kept in order, by their place, before they are rounded. */
static int dnn_run(dnn_what what, void *handle, const dnn_tensor *x, const void *xp, const dnn_tensor *w,
                   const void *wp, const dnn_tensor *y, const void *yp, const dnn_conv *c, int algo, void *workspace,
                   size_t size, const void *alpha, const void *beta) {
    const dnn_tensor *to = what == FORWARD ? y : what == DATA ? x : w;
    void *out = (void *)(what == FORWARD ? yp : what == DATA ? xp : wp);
    cr_assert_gt(fake.depth, 0, "no context is current");
    cr_assert(handle && workspace && size == (size_t)(algo + 1) * DNN_WORKSPACE);
    bool wide = c->compute == 1;
    cr_assert(wide ? *(double *)alpha == 1 && *(double *)beta == 0 : *(float *)alpha == 1 && *(float *)beta == 0);
    cr_assert_eq(dnn_check(x, w, y, c), 0);
    memset(workspace, 0x77, size);
    dnn.what = what, dnn.conv = *c, dnn.x = *x, dnn.w = *w, dnn.y = *y, dnn.algo = algo;
    if (dnn.fail) return NOT_SUPPORTED;
    int n = 1, last[RANK];
    for (int k = 0; k < to->rank; k++) last[k] = to->size[k] - 1;
    n = (int)place(to, last) + 1;
    double *sums = calloc((size_t)n, sizeof *sums);
    int q[RANK] = {0}, rank = x->rank, per_group = y->size[1] / c->groups;
    do {
        int k[RANK] = {0}; /* [.., c, taps] */
        const int taps[RANK] = {1, w->size[1], w->size[2], w->size[3], rank > 4 ? w->size[4] : 1};
        do {
            int xi[RANK] = {q[0], q[1] / per_group * w->size[1] + k[1]}, wi[RANK] = {q[1], k[1]};
            bool inside = true;
            for (int d = 2; d < rank; d++) {
                wi[d] = c->mode == 0 ? w->size[d] - 1 - k[d] : k[d];
                xi[d] = q[d] * c->stride[d - 2] + k[d] * c->dilation[d - 2] - c->padding[d - 2];
                inside &= xi[d] >= 0 && xi[d] < x->size[d];
            }
            if (!inside) continue;
            if (what == FORWARD) sums[place(y, q)] += get(x, xp, xi) * get(w, wp, wi);
            else if (what == DATA) sums[place(x, xi)] += get(y, yp, q) * get(w, wp, wi);
            else sums[place(w, wi)] += get(x, xp, xi) * get(y, yp, q);
        } while (next(k, taps, rank));
    } while (next(q, y->size, rank));
    int at[RANK] = {0};
    do put(to, out, at, sums[place(to, at)]);
    while (next(at, to->size, rank));
    free(sums);
    return 0;
}

static int dnn_forward(void *h, const void *alpha, void *x, const void *xp, void *w, const void *wp, void *conv,
                       int algo, void *workspace, size_t size, const void *beta, void *y, void *yp) {
    return dnn_run(FORWARD, h, x, xp, w, wp, y, yp, conv, algo, workspace, size, alpha, beta);
}
static int dnn_data(void *h, const void *alpha, void *w, const void *wp, void *dy, const void *dyp, void *conv,
                    int algo, void *workspace, size_t size, const void *beta, void *dx, void *dxp) {
    return dnn_run(DATA, h, dx, dxp, w, wp, dy, dyp, conv, algo, workspace, size, alpha, beta);
}
static int dnn_filter(void *h, const void *alpha, void *x, const void *xp, void *dy, const void *dyp, void *conv,
                      int algo, void *workspace, size_t size, const void *beta, void *dw, void *dwp) {
    return dnn_run(FILTER, h, x, xp, dw, dwp, dy, dyp, conv, algo, workspace, size, alpha, beta);
}

static void fake_library(sn_cuda *cu) {
    memset(&dnn, 0, sizeof dnn);
    cu->cudnn = sn_heap_alloc(cu->env, sizeof *cu->cudnn);
    *cu->cudnn = (sn_cudnn){.env = cu->env,
                            .name = "cuDNN 9.10.2",
                            .GetVersion = dnn_version,
                            .GetErrorString = dnn_text,
                            .Create = dnn_create,
                            .Destroy = dnn_destroy,
                            .SetStream = dnn_stream,
                            .CreateTensorDescriptor = dnn_new_tensor,
                            .DestroyTensorDescriptor = dnn_free,
                            .SetTensorNdDescriptor = dnn_set_tensor,
                            .CreateFilterDescriptor = dnn_new_tensor,
                            .DestroyFilterDescriptor = dnn_free,
                            .SetFilterNdDescriptor = dnn_set_filter,
                            .CreateConvolutionDescriptor = dnn_new_conv,
                            .DestroyConvolutionDescriptor = dnn_free,
                            .SetConvolutionNdDescriptor = dnn_set_conv,
                            .SetConvolutionMathType = dnn_set_math,
                            .SetConvolutionGroupCount = dnn_set_groups,
                            .GetConvolutionForwardAlgorithm_v7 = dnn_list_forward,
                            .GetConvolutionBackwardDataAlgorithm_v7 = dnn_list_data,
                            .GetConvolutionBackwardFilterAlgorithm_v7 = dnn_list_filter,
                            .GetConvolutionForwardWorkspaceSize = dnn_size,
                            .GetConvolutionBackwardDataWorkspaceSize = dnn_size,
                            .GetConvolutionBackwardFilterWorkspaceSize = dnn_size,
                            .ConvolutionForward = dnn_forward,
                            .ConvolutionBackwardData = dnn_data,
                            .ConvolutionBackwardFilter = dnn_filter};
}

/* ---- convolutions of graphs ---- */

typedef struct fixture {
    sn_env env;
    sn_arena arena;
    sn_cuda *cu;
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
    for (size_t i = 0; i < n / bytes; i++)
        sn_store_float(b->dtype, at + i * bytes, (double)((i * 7 + (size_t)b->name[0] * 3 + i / 11) % 5) - 2);
    return at;
}

static fixture *begin(const char *target) {
    fixture *f = calloc(1, sizeof *f);
    f->cu = fake_device(&f->env);
    fake_library(f->cu);
    f->m = sn_module_new(&f->env);
    sn_arena_init(&f->arena, &f->env);
    cr_assert_eq(sn_target_named(&f->target, &f->env, target), SN_OK);
    f->library = (sn_library){has, &f->target};
    return f;
}

/* The passes; false: no library runs the only kernel. */
static bool pass(fixture *f) {
    const char *why_not;
    sn_pass_options o = {.verify = SN_VERIFY_PARANOID, .library = &f->library};
    cr_assert_eq(sn_passes_run(&f->m, &f->target, &o), SN_OK, "%s", f->env.message);
    if (f->m->kernels.n != 1 || !sn_kern_is_library(sn_kern_get(f->m, f->m->kernels.at[0]))) return false;
    cr_assert(sn_library_read(&f->call, &why_not, f->m, f->m->kernels.at[0]));
    return f->call.is_conv;
}

static void evaluate(fixture *f) {
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
    cr_expect(!dnn.objects && !dnn.handles && !fake.depth && !fake.used,
              "%d objects, %d handles of the library are left", dnn.objects, dnn.handles);
    cr_expect_eq(f->env.bytes_now, 0);
    free(f);
}

static void run(fixture *f) {
    sn_prog *p;
    sn_prog_state *st;
    const sn_rt_kernel kernel = {.grid = 1, .block_x = 1, .block_y = 1, .library = &f->call};
    evaluate(f);
    cr_assert_eq(sn_prog_load(&p, f->m, f->cu, &kernel, 1, NULL, 2, NULL), SN_OK, "%s", f->env.message);
    cr_assert_eq(sn_prog_state_new(&st, p, &f->env, f->cu), SN_OK, "%s", f->env.message);
    cr_expect_eq(dnn.handles, 2, "a state has a handle of its own");
    size_t held = f->env.bytes_now;
    CUstream stream = (CUstream)(uintptr_t)16;
    cr_assert_eq(sn_prog_run(st, f->inputs, &f->output, stream, true), SN_OK, "%s", f->env.message);
    cr_expect_eq(dnn.stream, stream);
    cr_assert_eq(f->env.bytes_now, held, "a run allocates");
    cr_expect_arr_eq(f->output, f->want, f->size);
    sn_prog_state_free(st);
    sn_prog_free(p);
}

static fixture *parsed(const char *body, const char *dtype, const char *target) {
    char text[1024] = "graph @f(";
    size_t n = strlen(text);
    for (const char *s = body; *s; s++) {
        if (*s == 'D') n += (size_t)snprintf(text + n, sizeof text - n, "%s", dtype);
        else text[n++] = *s;
    }
    text[n] = 0;
    fixture *f = begin(target);
    cr_assert_eq(sn_module_parse(f->m, "test", text, strlen(text)), SN_OK, "%s: %s", text, f->env.message);
    cr_assert(pass(f), "%s", text);
    return f;
}

/* D: the dtype. All of it is one kernel, which the library runs, in that direction. */
typedef struct sample {
    dnn_what what;
    const char *body;
} sample;
#define LIBRARY "schedule=\"library\"\n return y = %y }\n"
static const sample samples[] = {
    {FORWARD, "%x: D[2, 3, 9, 8], %w: D[4, 3, 3, 3]) {\n %y = conv %x, %w padding=[1, 1] " LIBRARY},
    {FORWARD, "%x: D[2, 3, 9, 8], %w: D[4, 3, 3, 2]) {\n %y = conv %x, %w stride=[2, 3] padding=[1, 0] " LIBRARY},
    {FORWARD, "%x: D[1, 8, 9, 8], %w: D[3, 8, 3, 2]) {\n %y = conv %x, %w dilation=[2, 3] padding=[2, 1] " LIBRARY},
    {FORWARD, "%x: D[2, 6, 5, 5], %w: D[4, 3, 3, 3]) {\n %y = conv %x, %w groups=2 padding=[1, 1] " LIBRARY},
    {FORWARD,
     "%x: D[2, 4, 5, 5], %w: D[8, 1, 3, 3]) {\n %y = conv %x, %w groups=4 padding=[1, 1] stride=[2, 2] " LIBRARY},
    {FORWARD, "%x: D[2, 4, 7, 5], %w: D[4, 1, 3, 3]) {\n %y = conv %x, %w groups=4 " LIBRARY},
    {FORWARD, "%x: D[2, 3, 17], %w: D[5, 3, 4]) {\n %y = conv %x, %w stride=[2] " LIBRARY},
    {FORWARD,
     "%x: D[2, 3, 5, 6, 7], %w: D[4, 3, 3, 2, 3]) {\n %y = conv %x, %w padding=[1, 0, 1] stride=[1, 2, 2] " LIBRARY},
    {FORWARD, "%x: D[2, 3, 9, 8], %w: D[4, 3, 3, 3]) {\n %y = conv %x, %w " LIBRARY},
    {FORWARD, "%x: D[2, 8, 15, 15], %w: D[4, 8, 1, 1]) {\n %y = conv %x, %w stride=[2, 2] " LIBRARY},
    /* the last row of the image is in no window; the padding at the high end is less than at the low end */
    {FORWARD, "%x: D[2, 3, 8, 8], %w: D[4, 3, 3, 3]) {\n %y = conv %x, %w stride=[2, 2] padding=[1, 1, 0, 0] " LIBRARY},
    {FORWARD, "%x: D[1, 4, 9, 16], %w: D[3, 4, 3, 3]) {\n %y = conv %x, %w padding=[1, -8, 1, 0] " LIBRARY},
    /* channels innermost, weights as well */
    {FORWARD, "%x: D[2, 9, 8, 16], %w: D[8, 3, 3, 16]) {\n %a = permute %x perm=[0, 3, 1, 2]\n"
              " %b = permute %w perm=[0, 3, 1, 2]\n %0 = conv %a, %b padding=[1, 1] schedule=\"library\"\n"
              " %y = permute %0 perm=[0, 2, 3, 1]\n return y = %y }\n"},
    {DATA, "%dy: D[2, 4, 5, 5], %w: D[4, 3, 3, 3]) {\n %f = flip %w axes=[2, 3]\n %v = permute %f perm=[1, 0, 2, 3]\n"
           " %y = conv %dy, %v padding=[1, 1] input_dilation=[2, 2] " LIBRARY},
    {DATA, "%dy: D[2, 4, 9, 9], %w: D[4, 3, 3, 3]) {\n %f = flip %w axes=[2, 3]\n %v = permute %f perm=[1, 0, 2, 3]\n"
           " %y = conv %dy, %v padding=[1, 1] " LIBRARY},
    {DATA, "%x: D[2, 4, 5, 4], %w: D[4, 3, 4, 4]) {\n %v = permute %w perm=[1, 0, 2, 3]\n"
           " %y = conv %x, %v padding=[2, 2] input_dilation=[2, 2] " LIBRARY},
    {DATA, "%dy: D[4, 8, 5, 5], %w: D[8, 6, 3, 3]) {\n %f = flip %w axes=[2, 3]\n"
           " %r = reshape %f shape=[2, 4, 6, 3, 3]\n %p = permute %r perm=[0, 2, 1, 3, 4]\n"
           " %v = reshape %p shape=[12, 4, 3, 3]\n"
           " %y = conv %dy, %v padding=[1, 1] input_dilation=[2, 2] groups=2 " LIBRARY},
    {FILTER, "%x: D[2, 3, 9, 8], %dy: D[2, 5, 9, 8]) {\n %a = permute %x perm=[1, 0, 2, 3]\n"
             " %b = permute %dy perm=[1, 0, 2, 3]\n %0 = conv %a, %b padding=[1, 1] schedule=\"library\"\n"
             " %y = permute %0 perm=[1, 0, 2, 3]\n return y = %y }\n"},
    {FILTER,
     "%x: D[2, 3, 9, 9], %dy: D[2, 5, 5, 5]) {\n %a = permute %x perm=[1, 0, 2, 3]\n"
     " %b = permute %dy perm=[1, 0, 2, 3]\n %0 = conv %a, %b padding=[1, 1] dilation=[2, 2] schedule=\"library\"\n"
     " %y = permute %0 perm=[1, 0, 2, 3]\n return y = %y }\n"},
};

Test(cudnn, calls_do_what_the_nests_do) {
    static const char *const dtypes[] = {"f32", "f64", "bf16"}, *const targets[] = {"sm_80", "sm_90a"};
    for (size_t d = 0; d < SN_COUNT(dtypes); d++)
        for (size_t i = 0; i < SN_COUNT(samples); i++) {
            fixture *f = parsed(samples[i].body, dtypes[d], targets[(d + i) % 2]);
            run(f);
            cr_expect_eq(dnn.what, samples[i].what, "%s", samples[i].body);
            cr_expect_eq(dnn.algo, 1);
            finish(f);
        }
}

/* ---- convolutions of any geometry ---- */

static uint32_t seed;
static int64_t draw(int64_t from, int64_t to) {
    seed = seed * 1664525 + 1013904223;
    return from + (int64_t)(seed >> 8) % (to - from + 1);
}

static sn_nd input(sn_module *m, const char *name, const int64_t *size, uint32_t rank, bool last) {
    sn_type t = {.dtype = SN_F32, .rank = rank};
    int64_t perm[SN_MAX_RANK] = {0, rank - 1};
    for (uint32_t k = 0; k < rank; k++)
        t.shape[k] = sn_ix_const(m, size[!last ? k : k == 0 ? 0 : k == rank - 1 ? 1 : k + 1]);
    for (uint32_t k = 2; k < rank; k++) perm[k] = k - 1;
    sn_nd x = sn_graph_input_new(m, name, &t, NULL, (sn_ix){0});
    return last ? sn_graph_permute(m, x, perm, rank) : x;
}

/* As text has it: without what was built on the way. */
static void read_again(fixture *f) {
    sn_text t;
    sn_text_init(&t, &f->env);
    sn_module_print(&t, f->m);
    sn_module_free(f->m);
    f->m = sn_module_new(&f->env);
    cr_assert_eq(sn_module_parse(f->m, "test", t.s, strlen(t.s)), SN_OK, "%s: %s", t.s, f->env.message);
    sn_text_free(&t);
}

/* A convolution, or one of the gradients of one, as the builders make them. false: there is no such one. */
static bool build(fixture *f, dnn_what what, bool last) {
    uint32_t n = (uint32_t)draw(1, 3);
    sn_conv_geometry g = sn_conv_plain(n);
    int64_t groups = draw(0, 2) ? 1 : draw(2, 3);
    if (what == FILTER) groups = 1;
    int64_t x[RANK] = {draw(1, 3), groups * draw(1, 3)}, w[RANK] = {groups * draw(1, 3), x[1] / groups};
    int64_t y[RANK] = {x[0], w[0]};
    sn_ix sizes[3];
    g.groups = groups;
    for (uint32_t k = 0; k < n; k++) {
        w[2 + k] = draw(1, 3);
        g.stride[k] = draw(1, 3), g.dilation[k] = draw(1, 2);
        g.low[k] = g.high[k] = draw(0, 2);
        int64_t span = (w[2 + k] - 1) * g.dilation[k] + 1;
        x[2 + k] = draw(span, span + 6);
        y[2 + k] = (x[2 + k] + 2 * g.low[k] - span) / g.stride[k] + 1;
        sizes[k] = sn_ix_const(f->m, x[2 + k]);
    }
    sn_attr header = {.id = SN_ATTR_SCHEDULE, .text = "library"};
    const sn_conv_more more = {&header, 1};
    uint32_t rank = 2 + n;
    sn_graph_init(f->m, "f");
    sn_nd out;
    if (what == FORWARD) {
        sn_nd a = input(f->m, "x", x, rank, last), b = input(f->m, "w", w, rank, last);
        out = sn_graph_conv(f->m, a, b, &g, more);
    } else if (what == DATA) {
        sn_nd a = input(f->m, "x", y, rank, last), b = input(f->m, "w", w, rank, last);
        out = sn_graph_conv_data_grad(f->m, a, b, sizes, &g, more);
    } else {
        sn_nd a = input(f->m, "x", x, rank, last), b = input(f->m, "w", y, rank, last);
        out = sn_graph_conv_weight_grad(f->m, a, b, w + 2, &g, more);
    }
    if (!out.i || sn_graph_output_new(f->m, "y", out, -1) != SN_OK) return false;
    read_again(f);
    return true;
}

/* Most of them have to be taken: the library has them all, but what became a product, or lies too badly for it. */
Test(cudnn, any_geometry) {
    enum { ROUNDS = 600 };
    static const char *const targets[] = {"sm_80", "sm_90a"};
    int taken[3] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        dnn_what what = (dnn_what)(i % 3);
        seed = (uint32_t)i * 7919 + 17;
        fixture *f = begin(targets[i / 3 % 2]);
        bool last = draw(0, 2) == 0;
        cr_assert(build(f, what, last), "%d: %s", i, f->env.message);
        if (pass(f)) {
            char why[SN_LIBRARY_WHY];
            cr_assert(sn_library_has(&f->call, true, why), "%d: what schedule has asked about is another call: %s", i,
                      why);
            run(f);
            taken[what]++;
        }
        finish(f);
    }
    cr_log_info("%d, %d, %d taken", taken[0], taken[1], taken[2]);
    for (int k = 0; k < 3; k++) cr_expect_gt(taken[k], ROUNDS / 3 / 2, "%d: %d of %d", k, taken[k], ROUNDS / 3);
}

/* ---- what it is told ---- */

/* What products may be rounded to is a permission; f16 is none of them. */
Test(cudnn, is_as_exact_as_the_graph_asks) {
    static const struct {
        const char *dtype, *precision;
        int math, compute;
    } cases[] = {{"f32", "exact", 3, 0}, {"f32", "high", 3, 0},  {"f32", "tf32", 1, 0},
                 {"f32", "bf16", 1, 0},  {"f64", "exact", 3, 1}, {"bf16", "exact", 1, 0}};
    for (size_t i = 0; i < SN_COUNT(cases); i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "%%x: D[2, 3, 9, 8], %%w: D[4, 3, 3, 3]) {\n %%y = conv %%x, %%w padding=[1, 1] precision=%s %s",
                 cases[i].precision, LIBRARY);
        fixture *f = parsed(body, cases[i].dtype, "sm_80");
        run(f);
        cr_expect_eq(dnn.conv.math, cases[i].math, "%s %s: %d", cases[i].dtype, cases[i].precision, dnn.conv.math);
        cr_expect_eq(dnn.conv.compute, cases[i].compute);
        finish(f);
    }
}

Test(cudnn, algorithms_are_those_that_can_be_used) {
    char why[SN_LIBRARY_WHY];
    sn_prog *p;
    fixture *f = parsed(samples[0].body, "bf16", "sm_80");
    f->call.algo = 1;
    cr_expect(sn_library_takes(f->cu, &f->call, why), "%s", why);
    run(f);
    cr_expect_eq(dnn.algo, 0);
    f->call.algo = 2;
    cr_expect_not(sn_library_takes(f->cu, &f->call, why));
    cr_expect_str_eq(why, "cuDNN 9.10.2 has 2 algorithms for it, numbered from 0: there is no algo=2");
    const sn_rt_kernel kernel = {.grid = 1, .library = &f->call};
    cr_expect_eq(sn_prog_load(&p, f->m, f->cu, &kernel, 1, NULL, 1, NULL), SN_ERROR_UNSUPPORTED);
    cr_expect_str_eq(f->env.message, "kernel k0: no library runs it: cuDNN 9.10.2 has 2 algorithms for it, numbered "
                                     "from 0: there is no algo=2");
    sn_env_clear(&f->env);
    f->call.algo = 0;
    dnn.large = true; /* more workspace than there may be */
    cr_expect_not(sn_library_takes(f->cu, &f->call, why));
    cr_expect_str_eq(why, "cuDNN 9.10.2 has no algorithm for it");
    dnn.refuse = true;
    cr_expect_not(sn_library_takes(f->cu, &f->call, why));
    cr_expect_str_eq(why, "cuDNN 9.10.2: CUDNN_STATUS_NOT_SUPPORTED");
    finish(f);
}

Test(cudnn, a_call_that_fails) {
    sn_prog *p;
    sn_prog_state *st;
    fixture *f = parsed(samples[0].body, "f32", "sm_80");
    const sn_rt_kernel kernel = {.grid = 1, .library = &f->call};
    evaluate(f);
    cr_assert_eq(sn_prog_load(&p, f->m, f->cu, &kernel, 1, NULL, 1, NULL), SN_OK);
    cr_assert_eq(sn_prog_state_new(&st, p, &f->env, f->cu), SN_OK);
    dnn.fail = true;
    cr_expect_eq(sn_prog_run(st, f->inputs, &f->output, NULL, true), SN_ERROR_DEVICE);
    cr_expect_str_eq(f->env.message, "cuDNN 9.10.2: CUDNN_STATUS_NOT_SUPPORTED");
    sn_env_clear(&f->env);
    sn_prog_state_free(st);
    sn_prog_free(p);
    finish(f);
}

/* One that is there says which; that it finds no device, it says when it is asked. One that is not there says so. */
Test(cudnn, opening) {
    char why[SN_LIBRARY_WHY] = "";
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    cr_assert_eq(sn_cuda_enter(cu), SN_OK);
    sn_cudnn *lib = sn_cudnn_open(cu, why);
    if (lib) cr_expect(!strncmp(lib->name, "cuDNN ", 6), "%s", lib->name);
    if (!lib || !sn_cudnn_start(lib, why)) cr_expect(!strncmp(why, "no cuDNN: ", 10), "%s", why);
    cr_expect_eq(sn_cudnn_open(cu, why), lib);
    sn_cuda_leave(cu);
    sn_cuda_close(cu);
}

/* ---- what is none ---- */

/* Image, weights and result of 2 x 2 elements by windows of 3 x 3, padded by 1. */
static sn_library_call plain_call(void) {
    const sn_library_matrix at = {.align = 16, .dtype = SN_F32};
    const sn_library_window w = {.size = 4, .results = 4, .taps = 3, .stride = 1, .dilation = 1, .apart = 1, .low = 1};
    sn_library_call c = {.is_conv = true, .sum = SN_F32, .a = at, .b = at, .c = at};
    c.conv = (sn_library_conv){.batch = {2, 32, 0, 48},
                               .groups = {1, 0, 0, 0},
                               .out = {3, 0, 18, 16},
                               .in = {2, 16, 9, 0},
                               .n = 2,
                               .at = {w, w}};
    c.conv.at[0].a = 4, c.conv.at[0].b = 3, c.conv.at[0].c = 4;
    c.conv.at[1].a = 1, c.conv.at[1].b = 1, c.conv.at[1].c = 1;
    return c;
}

Test(cudnn, what_it_has_not) {
    char why[SN_LIBRARY_WHY];
    sn_library_call calls[8];
    static const char *const answers[] = {
        "cuDNN has no convolution of f32 and f16 with sums in f32 and a result in f32",
        "cuDNN wants tensors that begin at multiples of 16 bytes",
        "cuDNN has no convolution that is not padded alike at both ends",
        "cuDNN has no convolution of weights that do not lie one behind the other",
        "cuDNN has no convolution of weights in that order",
        "cuDNN has no convolution of elements that are repeated",
        "cuDNN has no convolution whose groups do not lie one behind the other",
        "cuDNN has no convolution with a stride of results between zeros",
    };
    for (size_t i = 0; i < SN_COUNT(calls); i++) calls[i] = plain_call();
    cr_expect(sn_library_has(&calls[0], true, why), "%s", why);
    cr_expect_not(sn_library_has(&calls[0], false, why));
    cr_expect_str_eq(why, "a BLAS has no convolutions");
    calls[0].b.dtype = SN_F16;
    calls[1].c.align = 8;
    calls[2].conv.at[1].results = 5;
    calls[3].conv.out.b = 20;
    calls[4].conv.at[0].b = -3;
    calls[5].conv.in.a = 0;
    calls[6].conv.groups = (sn_library_axis){2, 100, 54, 48};
    calls[7].conv.at[0].apart = 2, calls[7].conv.at[0].stride = 3;
    for (size_t i = 0; i < SN_COUNT(calls); i++) {
        cr_expect_not(sn_library_has(&calls[i], true, why), "%s", answers[i]);
        cr_expect_str_eq(why, answers[i]);
    }
}

/* A kernel like  y[i, k] = sum over r, t of x[i, r, k + t - 1] * w[r, t]  with something else in one place. */
typedef struct refusal {
    const char *test, *load, *weights, *why;
} refusal;

static const refusal refusals[] = {
    {"in k + t - 1, 8", "x[16*i + 8*r + k + t - 1]", "w[3*r + t]", NULL},
    {"in k + t - 1, 8", "x[16*i + 8*r + k + t]", "w[3*r + t]", NULL}, /* another offset is another address */
    {"in k - t + 1, 8", "x[16*i + 8*r + k - t + 1]", "w[3*r + t]", "a window walks backwards"},
    {"in k + t - 1, 8", "x[16*i + 8*r + k + 2*t]", "w[3*r + t]", "its image walks along a window in another way"},
    {"in k + t + r - 1, 8", "x[16*i + k + t + r]", "w[3*r + t]", "its windows are not those of libraries"},
    {"in i + t - 1, 8", "x[8*r + 2*k]", "w[3*r + t]", "its image does not lie in even steps along a window"},
    {"in ((k + t) mod 2), 1", "x[16*i + 8*r + k + t]", "w[3*r + t]", "its mask tests something else than a window"},
    {"in k + t - 1, 8", "x[24*i + 8*r + k + t - 1]", "w[3*r + t]", "an access leaves its buffer"},
    {"in k + t - 1, 8", "x[16*i + 8*r + k + t - 1]", "w[(3*r + t) div 2]",
     "an access does not walk along its axes in even steps"},
};

Test(cudnn, what_is_no_call) {
    for (size_t i = 0; i < SN_COUNT(refusals); i++) {
        const refusal *rf = &refusals[i];
        char text[1024];
        sn_env env;
        sn_library_call call;
        const char *why_not = "";
        sn_env_init(&env);
        snprintf(text, sizeof text,
                 "buffer x: f32[80] input 0\nbuffer w: f32[12] input 1\nbuffer y: f32[4, 8] output 0\n"
                 "kernel @k(x, w, y) { loop i in 4 { loop k in 8 {\n  %%z = const.f32 0.0\n"
                 "  %%0 = reduce sum r in 2 { %%1 = reduce sum t in 3 {\n"
                 "    %%2 = %s %%3 = load %s if %%2 else %%z %%4 = load %s %%5 = mul %%3, %%4 yield %%5 } yield %%1 }\n"
                 "  store y[8*i + k], %%0 } } }\n",
                 rf->test, rf->load, rf->weights);
        sn_module *m = sn_module_new(&env);
        cr_assert_eq(sn_module_parse(m, "test", text, strlen(text)), SN_OK, "%s: %s", text, env.message);
        bool found = sn_library_read(&call, &why_not, m, m->kernels.at[0]);
        cr_expect_eq(found, !rf->why, "%s: %s", text, why_not);
        if (rf->why) cr_expect_str_eq(why_not, rf->why, "%s: %s", text, why_not);
        sn_module_free(m);
    }
}
