/* build.h: what the files of Loop IR share and nobody else includes: statements that are not yet
 * placed, and fresh names. */
#ifndef SN_IR_LOOP_BUILD_H
#define SN_IR_LOOP_BUILD_H

#include "ir/base/text.h"
#include "ir/loop/loop.h"

/* A detached statement of no kernel with a copy of the operands. */
sn_stmt sn_stmt_make(sn_module *m, sn_lop op, const sn_val *in, uint32_t n_in);
/* Give it fresh results; the first is returned. */
sn_val sn_stmt_add_results(sn_module *m, sn_stmt s, const sn_dtype *dtypes, uint32_t n);

/* A name like the hint (`otherwise` without one) that is an identifier in .sn text, C and PTX and not yet taken: "t",
 * else "t_1", "t_2" ... It is not entered into the table. */
char *sn_fresh_name(sn_arena *a, const sn_names *taken, const char *hint, const char *otherwise);

#endif
