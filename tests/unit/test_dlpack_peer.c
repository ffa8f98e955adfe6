/* test_dlpack_peer.c: DLPack as another library sees it, by DLPack's own header: the layouts agree, ours adds what an old one (0.6 in
 * Debian 12) has not, and a tensor goes there and back through its struct.
 */
#include <criterion/criterion.h>
#include <dlpack/dlpack.h>

#include "tests/unit/dlpack_layout.h"

#include "include/sinter/dlpack.h"
#include "include/sinter/sinter.h"

Test(dlpack, a_peer_with_the_old_header) {
    sn_context *ctx;
    sn_tensor *t, *back;
    DLManagedTensor *m;
    sn_tensor_info info;
    float x[6] = {1, 2, 3, 4, 5, 6}, got[6];
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    sn_tensor_create(&t, ctx, SN_CPU, SN_F32, SN_LIST(2, 3));
    sn_tensor_write(t, x, sizeof x);
    cr_assert_eq(sn_tensor_to_dlpack_old(&m, t), SN_OK, "%s", sn_error(ctx));
    const DLTensor *d = &m->dl_tensor;
    cr_expect(d->device.device_type == kDLCPU && d->device.device_id == 0 && d->ndim == 2 && d->byte_offset == 0);
    cr_expect(d->dtype.code == kDLFloat && d->dtype.bits == 32 && d->dtype.lanes == 1);
    cr_expect(d->shape[0] == 2 && d->shape[1] == 3 && d->strides[0] == 3 && d->strides[1] == 1);
    cr_expect_arr_eq(d->data, x, sizeof x);
    sn_tensor_destroy(t);
    cr_assert_eq(sn_tensor_from_dlpack_old(&back, ctx, m), SN_OK, "%s", sn_error(ctx));
    sn_tensor_get_info(&info, back);
    cr_expect_eq(info.data, d->data);
    sn_tensor_read(got, back, sizeof got);
    cr_expect_arr_eq(got, x, sizeof got);
    sn_tensor_destroy(back);
    sn_context_destroy(ctx);
}
