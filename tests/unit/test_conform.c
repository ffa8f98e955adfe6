/* test_conform.c: every row of ops.def has a case in the table of the conformance suite; what a check lets pass. */
#include <criterion/criterion.h>

#include "frontend/frontend.h"
#include "ir/graph.h"

Test(conform, every_operation_has_a_case) {
    bool op_has[SN_N_OPS] = {false}, class_has[SN_OPS_COMPOSITE + 1] = {false};
#define SN_TAKES(OP, dtypes)
#define SN_CASES(level, CLASS, inputs, expression) class_has[SN_OPS_##CLASS] = true;
#define SN_CASE(level, OP, inputs, expression) op_has[SN_OP_##OP] = true;
#define SN_REFUSED(OP, inputs, expression, message)
#include "tools/conform.def"
    op_has[SN_OP_WEIGHT] = true; /* text has none: tests/unit/test_graph_weights.c */
    for (unsigned op = 0; op < SN_N_OPS; op++)
        cr_expect(op_has[op] || class_has[sn_ops[op].cls], "%s has no row in tools/conform.def", sn_ops[op].name);
}

Test(conform, an_output_that_cancels_has_the_error_of_its_terms) {
    double one = 1;
    float near = 1.05f, far = 1.5f;
    sn_array want = {SN_F32, 0, {0}, 1, &one, NULL};
    sn_magnitudes none = {0}, ten = {.terms = 10};
    cr_expect_not(sn_check_compare(SN_F32, &near, &want, none, 1e-2, 0).ok);
    cr_expect(sn_check_compare(SN_F32, &near, &want, ten, 1e-2, 0).ok);
    cr_expect_not(sn_check_compare(SN_F32, &far, &want, ten, 1e-2, 0).ok);
}
