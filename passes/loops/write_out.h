/* write_out.h: short reductions as straight-line code (write_out.c). */
#ifndef SN_PASSES_LOOPS_WRITE_OUT_H
#define SN_PASSES_LOOPS_WRITE_OUT_H

#include "passes/base/nest.h"

/* All reductions at the end of the outer loops of a kernel become their iterations, one behind the other. false: one of them is of more
 * than `most` elements, or carries more than a value, or there are none, or other regions; then the kernel stays as it is. */
bool sn_write_out(sn_pass_ctx *cx, sn_kern k, int64_t most);
/* May this one, apart from where it stands? */
bool sn_may_write_out(const sn_module *m, sn_stmt top, int64_t most);

/* So do all loops inside of `around`, whose extents are numbers; reductions stay. */
void sn_write_loops_out(sn_module *m, sn_kern k, sn_stmt around);

#endif
