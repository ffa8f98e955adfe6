/* rules_sort.c: shape and dtype rule of sort and topk. Any dtype, any size of the axis (0 too). */
#include "ir/graph/internal.h"

/* Result 0: values; result 1: positions. */
sn_status sn_rule_sort(sn_rule *r) {
    uint32_t axis;
    int64_t size;
    *r->out = *sn_rule_in(r, 0);
    SN_TRY(sn_rule_axis(&axis, r, sn_rule_attr(r, SN_ATTR_AXIS)->i, r->out->rank));
    r->n_results = 2;
    if (r->result == 1) r->out->dtype = SN_I64;
    if (r->op != SN_OP_TOPK) return SN_OK;
    int64_t k = sn_rule_attr(r, SN_ATTR_K)->i;
    bool known = sn_ix_is_const(r->m, r->out->shape[axis], &size);
    if (k < 0 || (known && k > size))
        return sn_rule_fail(r, "k is %lld, axis %u has %s elements", (long long)k, axis,
                            sn_ix_text(r->m, r->out->shape[axis]));
    r->out->shape[axis] = sn_ix_const(r->m, k);
    return SN_OK;
}
