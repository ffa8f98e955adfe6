/* build.h: the general builder that all public builder functions go through. */
#ifndef SN_FRONTEND_BUILD_H
#define SN_FRONTEND_BUILD_H

#include "frontend/frontend.h"

/* Build an operation. Attributes of kind SHAPE are given in `ints`: sizes with codes of sn_dim. */
sn_node sn_build(sn_graph *g, sn_op op, const sn_node *in, unsigned n_in, const sn_attr *attrs, unsigned n_attrs);
/* n_axes 0: all axes. correction is for var and var_mean. */
sn_node sn_build_reduce(sn_graph *g, sn_op op, sn_node x, unsigned n_axes, const int64_t *axes, bool keepdim,
                        int64_t correction);
sn_node sn_build_scan(sn_graph *g, sn_op op, sn_node x, int64_t axis, bool exclusive, bool reverse);

#endif
