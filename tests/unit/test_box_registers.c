/* test_box_registers.c: how a block shares out registers between threads that compute and those that copy
 * (ir/loop/box.h). */
#include "ir/loop/box.h"

#include <criterion/criterion.h>

Test(box_registers, are_those_that_a_multiprocessor_has) {
    enum { FILE = 65536, UNIT = 8 };
    for (uint32_t groups = 1; groups <= 4; groups++)
        for (uint32_t blocks = 1; blocks <= 3; blocks++) {
            uint32_t threads = SN_BOX_THREADS * groups, all = threads + SN_BOX_THREADS;
            sn_box_share share = sn_box_registers(threads, blocks);
            cr_assert(share.computes >= share.all && share.computes <= 255);
            cr_assert(blocks * all * (share.all / UNIT * UNIT) <= FILE);
            if (share.computes == share.all) continue;
            cr_assert_eq(share.computes % UNIT, 0);
            cr_assert(threads * share.computes + SN_BOX_THREADS * SN_BOX_REGS <= all * share.all,
                      "%u groups, %u blocks", groups, blocks);
        }
}

/* What class attend counts on. */
Test(box_registers, go_to_those_that_compute) {
    cr_assert_eq(sn_box_registers(128, 1).computes, 255);
    cr_assert_eq(sn_box_registers(128, 1).all, 255);
    cr_assert_eq(sn_box_registers(256, 0).computes, 240);
    cr_assert_eq(sn_box_registers(384, 1).computes, 160);
    cr_assert_eq(sn_box_registers(128, 2).all, 128);
    cr_assert_eq(sn_box_registers(128, 2).computes, 232);
    cr_assert_eq(sn_box_registers(96, 2).computes, sn_box_registers(96, 2).all);
}
