/* test_dlpack.c: tensors of other libraries: taken, run on, given back once; and ours in the hands of others. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "include/sinter/dlpack.h"
#include "include/sinter/sinter.h"

#include "tests/unit/dlpack_layout.h"

_Static_assert(kDLBool == 6, "codes");
_Static_assert(DLPACK_FLAG_BITMASK_READ_ONLY == 1 && DLPACK_FLAG_BITMASK_IS_COPIED == 2, "flags");

/* ---- a library that lends ---- */

static void lent_back(DLManagedTensorVersioned *m) { ++*(int *)m->manager_ctx; }
static void lent_back_old(DLManagedTensor *m) { ++*(int *)m->manager_ctx; }

typedef struct {
    int back; /* calls of the deleter */
    int64_t shape[9], strides[9];
    DLManagedTensorVersioned m;
} lender;

static const float six[6] = {1, 2, 3, 4, 5, 6};

/* f32[2, 3] of which `data` is the first element, in column-major order. */
static void lend(lender *l, const float *data) {
    *l = (lender){.shape = {2, 3}, .strides = {1, 2}};
    l->m = (DLManagedTensorVersioned){.version = {1, 99}, .manager_ctx = &l->back, .deleter = lent_back};
    l->m.dl_tensor = (DLTensor){.data = (void *)(uintptr_t)data, .device = {kDLCPU, 0}, .ndim = 2};
    l->m.dl_tensor.dtype = (DLDataType){kDLFloat, 32, 1};
    l->m.dl_tensor.shape = l->shape;
    l->m.dl_tensor.strides = l->strides;
}

static sn_context *context(void) {
    sn_context *ctx;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    return ctx;
}

Test(dlpack, taken_without_a_copy_and_given_back_once) {
    sn_context *ctx = context();
    lender l;
    sn_tensor *t;
    sn_tensor_info info;
    float got[6];
    lend(&l, six);
    cr_assert_eq(sn_tensor_from_dlpack(&t, ctx, &l.m), SN_OK, "%s", sn_error(ctx));
    sn_tensor_get_info(&info, t);
    cr_expect(info.data == six && info.device == SN_CPU && info.dtype == SN_F32 && info.rank == 2);
    cr_expect(info.strides[0] == 1 && info.strides[1] == 2);
    sn_tensor_read(got, t, sizeof got);
    cr_expect_arr_eq(got, ((float[]){1, 3, 5, 2, 4, 6}), sizeof got);
    cr_expect_eq(l.back, 0);
    sn_tensor_destroy(t);
    cr_expect_eq(l.back, 1);

    l.m.dl_tensor.strides = NULL; /* contiguous */
    l.m.dl_tensor.ndim = 1;
    l.m.dl_tensor.byte_offset = 8;
    l.m.deleter = NULL;
    cr_assert_eq(sn_tensor_from_dlpack(&t, ctx, &l.m), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_tensor_read(got, t, 8), SN_OK);
    cr_expect(got[0] == 3 && got[1] == 4);
    sn_tensor_destroy(t);

    int back = 0;
    DLManagedTensor old = {.dl_tensor = l.m.dl_tensor, .manager_ctx = &back, .deleter = lent_back_old};
    cr_assert_eq(sn_tensor_from_dlpack_old(&t, ctx, &old), SN_OK, "%s", sn_error(ctx));
    sn_tensor_destroy(t);
    cr_expect_eq(back, 1);
    sn_context_destroy(ctx);
}

/* An input whose rows are one row (stride 0). */
Test(dlpack, runs_on_lent_memory) {
    sn_context *ctx = context();
    sn_graph *g;
    sn_program *p;
    lender row, rows;
    sn_tensor *in[2], *y;
    float got[6];
    sn_graph_create(&g, ctx, "add");
    sn_node a = sn_input_strided(g, "a", SN_F32, SN_LIST(2, 3), (int64_t[]){0, 1}, 0);
    sn_node b = sn_input_strided(g, "b", SN_F32, SN_LIST(2, 3), (int64_t[]){1, 2}, 0);
    sn_output(g, "y", sn_add(g, a, b));
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    static _Alignas(64) const float slice[7] = {0, 1, 2, 3, 4, 5, 6}; /* that begins at no multiple of 16 bytes */
    lend(&row, slice + 1);
    lend(&rows, slice + 1);
    row.strides[0] = 0;
    row.strides[1] = 1;
    row.m.flags = rows.m.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    cr_assert_eq(sn_tensor_from_dlpack(&in[0], ctx, &row.m), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_tensor_from_dlpack(&in[1], ctx, &rows.m), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_tensor_for_output(&y, p, 0), SN_OK);
    cr_assert_eq(sn_run(p, in, &y, NULL), SN_OK, "%s", sn_error(ctx));
    sn_tensor_read(got, y, sizeof got);
    cr_expect_arr_eq(got, ((float[]){2, 5, 8, 3, 6, 9}), sizeof got);
    sn_tensor_destroy(in[0]);
    sn_tensor_destroy(in[1]);
    sn_tensor_destroy(y);
    cr_expect(row.back == 1 && rows.back == 1);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(dlpack, read_only_is_not_written) {
    sn_context *ctx = context();
    sn_graph *g;
    sn_program *p;
    lender l;
    sn_tensor *t, *x, *none = NULL;
    DLManagedTensorVersioned *m;
    DLManagedTensor *old;
    static _Alignas(64) float storage[6];
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    lend(&l, storage);
    l.m.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    l.m.dl_tensor.strides = NULL;
    cr_assert_eq(sn_tensor_from_dlpack(&t, ctx, &l.m), SN_OK);
    cr_expect_eq(sn_tensor_write(t, six, sizeof six), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(ctx), "tensor: its memory belongs to another library and may only be read");
    for (int writes = 0; writes < 2; writes++) {
        sn_graph_create(&g, ctx, "f");
        sn_node in = sn_input(g, "x", SN_F32, SN_LIST(2, 3));
        if (writes) sn_output_writes(g, "y", sn_exp(g, in), in);
        else sn_output(g, "y", sn_exp(g, in));
        cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
        sn_tensor_for_input(&x, p, 0);
        cr_expect_eq(sn_run(p, writes ? &t : &x, writes ? &none : &t, NULL), SN_ERROR_ARGUMENT);
        cr_expect(strstr(sn_error(ctx), writes ? "input x: its memory" : "output y: its memory"), "%s", sn_error(ctx));
        sn_tensor_destroy(x);
        sn_program_destroy(p);
        sn_graph_destroy(g);
    }
    cr_assert_eq(sn_tensor_to_dlpack(&m, t), SN_OK);
    cr_expect_eq(m->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
    m->deleter(m);
    cr_expect_eq(sn_tensor_to_dlpack_old(&old, t), SN_ERROR_UNSUPPORTED);
    cr_expect(strstr(sn_error(ctx), "which the old struct cannot say"));
    sn_tensor_destroy(t);
    cr_expect_eq(l.back, 1);
    sn_context_destroy(ctx);
}

/* Every failure leaves the memory with its lender: the deleter is not called. */
Test(dlpack, what_is_refused) {
    static const struct {
        int version, device, ndim, code, bits, lanes;
        int64_t stride;
        size_t offset;
        const char *text;
    } cases[] = {{2, kDLCPU, 2, kDLFloat, 32, 1, 1, 0, "DLPack: version 2.99; version 1 is known"},
                 {1, 10, 2, kDLFloat, 32, 1, 1, 0, "DLPack: device type 10; CPU (1) and CUDA (2, 3, 13) are known"},
                 {1, kDLCPU, -1, kDLFloat, 32, 1, 1, 0, "DLPack: rank -1; at most 8"},
                 {1, kDLCPU, 9, kDLFloat, 32, 1, 1, 0, "DLPack: rank 9; at most 8"},
                 {1, kDLCPU, 2, kDLComplex, 64, 1, 1, 0,
                  "DLPack: elements of code 5, 64 bits, 1 lanes: Sinter has no such type"},
                 {1, kDLCPU, 2, kDLFloat, 8, 1, 1, 0, "code 2, 8 bits"},
                 {1, kDLCPU, 2, kDLFloat, 32, 4, 1, 0, "code 2, 32 bits, 4 lanes"},
                 {1, kDLCPU, 2, kDLFloat, 32, 1, -1, 0, "tensor: stride -1 of axis 0 is negative"},
                 {1, kDLCPU, 2, kDLFloat, 32, 1, 1, 2, "which is no multiple of the 4 bytes of f32"}};
    sn_context *ctx = context();
    lender l;
    sn_tensor *t;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        lend(&l, six);
        l.m.version.major = (uint32_t)cases[k].version;
        l.m.dl_tensor.device.device_type = (DLDeviceType)cases[k].device;
        l.m.dl_tensor.ndim = cases[k].ndim;
        l.m.dl_tensor.dtype = (DLDataType){(uint8_t)cases[k].code, (uint8_t)cases[k].bits, (uint16_t)cases[k].lanes};
        l.m.dl_tensor.byte_offset = cases[k].offset;
        l.strides[0] = cases[k].stride;
        cr_expect_neq(sn_tensor_from_dlpack(&t, ctx, &l.m), SN_OK, "case %zu", k);
        cr_expect(strstr(sn_error(ctx), cases[k].text), "case %zu: \"%s\"", k, sn_error(ctx));
        cr_expect(!t && l.back == 0, "case %zu", k);
    }
    lend(&l, NULL);
    cr_expect_eq(sn_tensor_from_dlpack(&t, ctx, &l.m), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(ctx), "no memory given"));
    l.m.dl_tensor.shape = NULL;
    cr_expect_eq(sn_tensor_from_dlpack(&t, ctx, &l.m), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_tensor_from_dlpack(&t, ctx, NULL), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_tensor_from_dlpack_old(&t, ctx, NULL), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(ctx), "sn_tensor_from_dlpack_old: managed is NULL"));
    sn_context_destroy(ctx);
}

/* ---- a library that borrows ---- */

Test(dlpack, every_type_goes_there_and_back) {
    sn_context *ctx = context();
    for (int dtype = 0; dtype < SN_N_DTYPES; dtype++) {
        sn_tensor *t, *back;
        sn_tensor_info info;
        DLManagedTensorVersioned *m;
        sn_tensor_create_strided(&t, ctx, SN_CPU, (sn_dtype)dtype, SN_LIST(3, 2), (int64_t[]){5, 2}, 4);
        sn_tensor_get_info(&info, t);
        cr_assert_eq(sn_tensor_to_dlpack(&m, t), SN_OK, "%s", sn_error(ctx));
        cr_expect(m->version.major == 1 && m->flags == 0 && m->dl_tensor.byte_offset == 0);
        cr_expect_eq(m->dl_tensor.data, (char *)info.data + 4 * sn_dtype_size((sn_dtype)dtype));
        cr_expect(m->dl_tensor.strides[0] == 5 && m->dl_tensor.strides[1] == 2);
        cr_assert_eq(sn_tensor_from_dlpack(&back, ctx, m), SN_OK, "%s", sn_error(ctx));
        sn_tensor_get_info(&info, back);
        cr_expect_eq((int)info.dtype, dtype);
        sn_tensor_destroy(t); /* its memory stays until the other one has gone */
        sn_tensor_destroy(back);
    }
    sn_context_destroy(ctx);
}

static void *counted(void *user, void *p, size_t size) {
    *(long *)user += (size && !p) - (!size && p);
    if (size) return realloc(p, size);
    free(p);
    return NULL;
}

Test(dlpack, memory_lives_as_long_as_one_needs_it) {
    long live = 0;
    sn_context_options hooks = {.struct_size = sizeof hooks, .realloc_fn = counted, .realloc_user = &live};
    for (int first = 0; first < 2; first++) {
        sn_context *ctx;
        sn_tensor *t, *empty;
        DLManagedTensorVersioned *one, *two, *nothing;
        cr_assert_eq(sn_context_create(&ctx, &hooks), SN_OK);
        sn_tensor_create(&t, ctx, SN_CPU, SN_F32, SN_LIST(2, 3));
        sn_tensor_create(&empty, ctx, SN_CPU, SN_F32, SN_LIST(0, 3));
        sn_tensor_write(t, six, sizeof six);
        cr_assert_eq(sn_tensor_to_dlpack(&one, t), SN_OK);
        cr_assert_eq(sn_tensor_to_dlpack(&two, t), SN_OK);
        cr_assert_eq(sn_tensor_to_dlpack(&nothing, empty), SN_OK);
        cr_expect_null(nothing->dl_tensor.data);
        if (first) sn_tensor_destroy(t);
        one->deleter(one);
        cr_expect_arr_eq(two->dl_tensor.data, six, sizeof six);
        two->deleter(two);
        if (!first) sn_tensor_destroy(t);
        nothing->deleter(nothing);
        sn_tensor_destroy(empty);
        sn_context_destroy(ctx);
        cr_expect_eq(live, 0);
    }
}
