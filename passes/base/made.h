/* made.h: operands of matrix products that are computed where they are multiplied, not in memory first.
 *
 *     %f = cast %q dtype=bf16 ;  %d = mul %f, %s ;  %w = permute %d perm=[1, 0]          (%q: i8[4096, 4096], %s: bf16[4096, 1])
 *     %y = matmul %x, %w : bf16[9, 4096]                                       no kernel for %w: the product loads %q and %s
 *
 * Weights of few bits become halves for a few rows of a layer. Written out and read again they take several times as long as what
 * there is of them takes to come. The class contract computes them in registers (schedule/products/contract_made.c), once each, where
 * all rows fit into a tile. This says which operands that is for, from the graph alone: those of which one tensor in memory has an
 * element for each of theirs, or for several in a row, that lie along the sum; all else is scales and the like. What it says is no
 * promise: a product that the class takes otherwise computes them too.
 */
#ifndef SN_PASSES_BASE_MADE_H
#define SN_PASSES_BASE_MADE_H

#include "passes/base/pass.h"

/* Is operand k of the matmul x computed where it is multiplied? */
bool sn_matmul_makes(const sn_module *m, const sn_target *t, sn_nd x, uint32_t k);
/* What an operand is before views and casts that lose nothing. */
sn_dtype sn_matmul_narrow_dtype(const sn_module *m, sn_nd operand);

#endif
