/* test_conform.c: every row of ops.def has a case in the table of the conformance suite. */
#include <criterion/criterion.h>

#include "ir/graph.h"

Test(conform, every_operation_has_a_case) {
    bool op_has[SN_N_OPS] = {false}, class_has[SN_OPS_COMPOSITE + 1] = {false};
#define SN_TAKES(OP, dtypes)
#define SN_CASES(level, CLASS, inputs, expression) class_has[SN_OPS_##CLASS] = true;
#define SN_CASE(level, OP, inputs, expression) op_has[SN_OP_##OP] = true;
#define SN_REFUSED(OP, inputs, expression, message)
#include "tools/conform.def"
    for (unsigned op = 0; op < SN_N_OPS; op++)
        cr_expect(op_has[op] || class_has[sn_ops[op].cls], "%s has no row in tools/conform.def", sn_ops[op].name);
}
