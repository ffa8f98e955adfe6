/* internal.h: what the files of the graph share and nobody else needs.
 *
 * A rule is the shape and dtype rule of one operation: it reads operands and attributes of an sn_rule and fills in the
 * type of the wanted result. Rules fail through sn_rule_fail, which puts the operation's name in front.
 */
#ifndef SN_IR_GRAPH_INTERNAL_H
#define SN_IR_GRAPH_INTERNAL_H

#include "ir/base/sched.h"
#include "ir/graph/graph.h"
#include "ir/graph/weights.h"
#include "ir/index/ix.h"

typedef struct sn_rule {
    sn_module *m;
    sn_op op;
    const sn_nd *in;
    uint32_t n_in;
    const sn_attr *attrs;
    uint32_t n_attrs;
    uint32_t result; /* whose type is wanted */
    sn_type *out;
    uint32_t n_results; /* 1 unless the rule says otherwise */
} sn_rule;

/* ---- helpers of rules (rules.c) ---- */

sn_status sn_rule_fail(const sn_rule *r, const char *format, ...) SN_PRINTF(2, 3);
/* "exp: does not take i32", with advice. */
sn_status sn_rule_refuse(const sn_rule *r, sn_dtype dtype, bool takes_float);
sn_status sn_rule_need_float(const sn_rule *r, uint32_t operand);
/* Operands 0 .. n_in-1 must all have the dtype of operand 0. */
sn_status sn_rule_same_dtype(const sn_rule *r);
const sn_type *sn_rule_in(const sn_rule *r, uint32_t operand);
const sn_attr *sn_rule_attr(const sn_rule *r, sn_attr_id id); /* NULL when absent */
int64_t sn_rule_int(const sn_rule *r, sn_attr_id id, int64_t otherwise);
/* A possibly negative axis of a tensor of that rank. */
sn_status sn_rule_axis(uint32_t *out, const sn_rule *r, int64_t axis, uint32_t rank);
/* The attribute `axes` as a bit mask. */
sn_status sn_rule_mask(uint32_t *out, const sn_rule *r, uint32_t rank);
/* Is the number exactly a value of the dtype (integers), any number (floats)? `what` names it in the message. */
sn_status sn_rule_number(const sn_rule *r, const char *what, sn_dtype dtype, double x);
/* Sizes present, not negative, not too many elements. `what` is put in front of the message. */
sn_status sn_type_check(sn_module *m, const char *what, const sn_type *t);

/* ---- attributes (rules_attrs.c) ---- */

sn_status sn_rule_check_attrs(const sn_rule *r);
/* Room for the lists of canonical attributes. */
typedef struct sn_attr_store {
    int64_t ints[SN_N_ATTRS][SN_MAX_RANK];
} sn_attr_store;
/* Bring checked attributes to their canonical form, in place: sorted by id, axes not negative and sorted, -1 in
 * shapes replaced, slice positions and steps clamped. Equal operations then have equal attributes. `out` is the
 * inferred type. */
void sn_attrs_canonical(sn_module *m, sn_op op, const sn_nd *in, uint32_t n_in, const sn_type *out, sn_attr *attrs,
                        uint32_t n_attrs, sn_attr_store *store);
bool sn_attr_eq(const sn_attr *a, const sn_attr *b);
uint64_t sn_attr_hash(uint64_t h, const sn_attr *a);
/* A copy whose lists live in the arena. */
sn_attr sn_attr_copy(sn_arena *arena, const sn_attr *a);

/* ---- rules by file ---- */

sn_status sn_rule_reshape(sn_rule *r); /* rules_shape.c */
sn_status sn_rule_permute(sn_rule *r);
sn_status sn_rule_expand(sn_rule *r);
sn_status sn_rule_squeeze(sn_rule *r);
sn_status sn_rule_unsqueeze(sn_rule *r);
sn_status sn_rule_slice(sn_rule *r);
sn_status sn_rule_unfold(sn_rule *r);
sn_status sn_rule_flip(sn_rule *r);
sn_status sn_rule_copy(sn_rule *r);
sn_status sn_rule_pad(sn_rule *r);
sn_status sn_rule_concat(sn_rule *r);
sn_status sn_rule_gather(sn_rule *r);
sn_status sn_rule_index_select(sn_rule *r);
sn_status sn_rule_scatter(sn_rule *r);
sn_status sn_rule_scatter_reduce(sn_rule *r); /* scatter_sum and its relatives */

sn_status sn_rule_not_bool(const sn_rule *r);
/* A header that nobody can read would be found where nobody knows the node any more. */
sn_status sn_rule_check_schedule(const sn_rule *r);
sn_status sn_rule_matmul(sn_rule *r); /* rules_nn.c */
sn_status sn_rule_relu(sn_rule *r);
sn_status sn_rule_activation(sn_rule *r);
sn_status sn_rule_softmax(sn_rule *r);
sn_status sn_rule_layer_norm(sn_rule *r); /* and rms_norm */
sn_status sn_rule_batch_norm(sn_rule *r); /* and batch_norm_train */
sn_status sn_rule_cross_entropy(sn_rule *r);

sn_status sn_rule_conv(sn_rule *r); /* rules_conv.c */

sn_status sn_rule_sort(sn_rule *r); /* rules_sort.c; and topk */

sn_status sn_rule_repeat_state(sn_rule *r); /* rules_repeat.c */
sn_status sn_rule_repeat_slice(sn_rule *r);
sn_status sn_rule_repeat(sn_rule *r);
sn_status sn_rule_cond(sn_rule *r);

sn_status sn_rule_random(sn_rule *r); /* rules_random.c */
sn_status sn_rule_random_normal(sn_rule *r);
sn_status sn_rule_dropout(sn_rule *r);

/* First position of a slice with constant size: start clamped to 0 .. size. */
int64_t sn_slice_clamp(int64_t position, int64_t size);

/* ---- building (graph.c) ---- */

/* The interned node equal to this one, or none. */
sn_nd sn_graph_find(const sn_module *m, const sn_node_rec *rec);
bool sn_is_plain_name(const char *s);

/* ---- text (text.c) ---- */

void sn_type_put(struct sn_text *t, const sn_module *m, const sn_type *type);
void sn_shape_put(struct sn_text *t, const sn_module *m, const sn_ix *shape, uint32_t rank);
/* In the module's arena, for messages: "[N, 256]" and one expression. */
char *sn_shape_text(sn_module *m, const sn_type *type);
char *sn_ix_text(sn_module *m, sn_ix e);

#endif
