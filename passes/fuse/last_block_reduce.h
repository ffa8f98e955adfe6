/* last_block_reduce.h: what the pass `last-block-reduce` would do, for passes that stand in front of it. */
#ifndef SN_PASSES_FUSE_LAST_BLOCK_REDUCE_H
#define SN_PASSES_FUSE_LAST_BLOCK_REDUCE_H

#include "passes/base/nest.h"

/* Position of the kernel whose tail the one at position `at` may become; UINT32_MAX: none. constant: of
 * sn_kerns_constant. Linear in the statements of the kernel. */
uint32_t sn_kern_tail_of(sn_pass_ctx *cx, sn_users *users, const bool *constant, const bool *sets, uint32_t at);

#endif
