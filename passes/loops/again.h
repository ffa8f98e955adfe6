/* again.h: passes of this room that another one runs once more, on kernels that it has made. */
#ifndef SN_PASSES_LOOPS_AGAIN_H
#define SN_PASSES_LOOPS_AGAIN_H

#include "passes/base/pass.h"

sn_status sn_pass_reorder(sn_pass_ctx *cx, bool *changed);
sn_status sn_pass_collapse(sn_pass_ctx *cx, bool *changed);
sn_status sn_pass_simplify_index(sn_pass_ctx *cx, bool *changed);
sn_status sn_pass_split_reduction(sn_pass_ctx *cx, bool *changed);
sn_status sn_pass_join_axes(sn_pass_ctx *cx, bool *changed);

#endif
