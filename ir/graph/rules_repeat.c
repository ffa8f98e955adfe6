/* rules_repeat.c: the type rules of repeats (ir/graph/repeat.h): of what a step reads, and of the end; and of branches
 * (ir/graph/cond.h).
 *
 *     %h = repeat_state %h0 repeat=1 index=0 : f32[8, 64]        the type of its first value
 *     %x = repeat_slice %xs repeat=1 axis=0  : f32[8, 64]        %xs: f32[512, 8, 64]
 *     %r = repeat %h, %h1, %y repeat=1 states=1 trip=[512]       %h1 as %h; results: f32[8, 64], f32[512, 8, 64]
 *
 *     %r = repeat %h, %h1, %go repeat=1 states=1 trip=[512] while=true       %go: one bool; no stacks
 *     %c = cond %p, %a, %b                                       %p: one bool; %a as %b
 *
 * Which nodes are inside, and that a slice's axis has as many elements as there are steps, is for the whole graph to say
 * (repeat.c).
 */
#include "ir/graph/internal.h"

enum { MOST_REPEATS = 65535 };

static sn_status check_number(const sn_rule *r) {
    int64_t number = sn_rule_int(r, SN_ATTR_REPEAT, 0);
    if (number >= 1 && number <= MOST_REPEATS) return SN_OK;
    return sn_rule_fail(r, "number %lld of a repeat is not in 1 .. %d", (long long)number, MOST_REPEATS);
}

/* A state is written in every step: it needs something to write. */
sn_status sn_rule_repeat_state(sn_rule *r) {
    int64_t size, index = sn_rule_int(r, SN_ATTR_INDEX, 0);
    SN_TRY(check_number(r));
    *r->out = *sn_rule_in(r, 0);
    if (index < 0) return sn_rule_fail(r, "state number %lld is negative", (long long)index);
    for (uint32_t k = 0; k < r->out->rank; k++)
        if (sn_ix_is_const(r->m, r->out->shape[k], &size) && size == 0) return sn_rule_fail(r, "has no elements");
    return SN_OK;
}

sn_status sn_rule_repeat_slice(sn_rule *r) {
    const sn_type *t = sn_rule_in(r, 0);
    uint32_t axis;
    SN_TRY(check_number(r));
    SN_TRY(sn_rule_axis(&axis, r, sn_rule_int(r, SN_ATTR_AXIS, 0), t->rank));
    r->out->dtype = t->dtype;
    for (uint32_t k = 0; k < t->rank; k++)
        if (k != axis) r->out->shape[r->out->rank++] = t->shape[k];
    return SN_OK;
}

static sn_status check_state(const sn_rule *r, uint32_t k, uint32_t states) {
    const sn_node_rec *n = sn_node_get(r->m, r->in[k]);
    bool own = n->op == SN_OP_REPEAT_STATE && sn_node_int(r->m, r->in[k], SN_ATTR_INDEX, 0) == k &&
               sn_node_int(r->m, r->in[k], SN_ATTR_REPEAT, 0) == sn_rule_int(r, SN_ATTR_REPEAT, 0);
    if (!own) return sn_rule_fail(r, "operand %u is not its state number %u", k + 1, k);
    const sn_type *after = sn_rule_in(r, states + k);
    if (sn_type_eq(&n->type, after)) return SN_OK;
    return sn_rule_fail(r, "state %u is %s, a step makes %s of it", k, sn_type_text(r->m, &n->type),
                        sn_type_text(r->m, after));
}

static sn_status check_trip(const sn_rule *r) {
    const sn_attr *trip = sn_rule_attr(r, SN_ATTR_TRIP);
    int64_t steps;
    if (trip->shape.n != 1) return sn_rule_fail(r, "trip is one number, not %u", trip->shape.n);
    if (sn_ix_is_const(r->m, trip->shape.at[0], &steps) && steps < 1) return sn_rule_fail(r, "needs at least one step");
    return SN_OK;
}

static bool is_one_bool(const sn_rule *r, uint32_t operand) {
    const sn_type *t = sn_rule_in(r, operand);
    int64_t size = 1;
    for (uint32_t k = 0; k < t->rank && size == 1; k++)
        if (!sn_ix_is_const(r->m, t->shape[k], &size)) size = 0;
    return t->dtype == SN_BOOL && size == 1;
}

/* How many elements a stack would have, only a run knows. */
static sn_status check_while(const sn_rule *r, uint32_t states) {
    uint32_t operands = 2 * states + 1;
    if (!states) return sn_rule_fail(r, "one that may end early needs a state");
    if (r->n_in < operands) return sn_rule_fail(r, "the operand that says whether it goes on is missing");
    if (r->n_in > operands)
        return sn_rule_fail(
            r, "one that may end early has no stacks: how many elements they had would be known only then");
    if (is_one_bool(r, operands - 1)) return SN_OK;
    return sn_rule_fail(r, "whether it goes on is one bool, not %s", sn_type_text(r->m, sn_rule_in(r, operands - 1)));
}

static sn_status check_backwards(const sn_rule *r, uint32_t stacks) {
    const sn_attr *back = sn_rule_attr(r, SN_ATTR_BACKWARDS);
    for (uint32_t k = 0; back && k < back->ints.n; k++) {
        int64_t stack = back->ints.at[k];
        if (stack < 0 || stack >= stacks || (k && stack <= back->ints.at[k - 1]))
            return sn_rule_fail(r, "backwards is an ascending list of stacks, of which there are %u", stacks);
    }
    return SN_OK;
}

sn_status sn_rule_repeat(sn_rule *r) {
    int64_t states = sn_rule_int(r, SN_ATTR_STATES, 0);
    SN_TRY(check_number(r));
    SN_TRY(check_trip(r));
    if (states < 0 || 2 * states > r->n_in)
        return sn_rule_fail(r, "%u operands are too few for %lld states", r->n_in, (long long)states);
    bool ends_early = sn_rule_int(r, SN_ATTR_WHILE, 0);
    uint32_t n = (uint32_t)states, stacks = r->n_in - 2 * n - ends_early;
    if (ends_early) SN_TRY(check_while(r, n));
    for (uint32_t k = 0; k < n; k++) SN_TRY(check_state(r, k, n));
    SN_TRY(check_backwards(r, stacks));
    r->n_results = n + stacks;
    if (r->result >= r->n_results) return SN_OK; /* the caller says so */
    *r->out = *sn_rule_in(r, n + r->result);
    if (r->result < n) return SN_OK;
    if (r->out->rank == SN_MAX_RANK)
        return sn_rule_fail(r, "a stack of tensors of rank %d has too many axes; at most %d", SN_MAX_RANK, SN_MAX_RANK);
    for (uint32_t k = r->out->rank++; k-- > 0;) r->out->shape[k + 1] = r->out->shape[k];
    r->out->shape[0] = sn_rule_attr(r, SN_ATTR_TRIP)->shape.at[0];
    return SN_OK;
}

/* ---- branches ---- */

sn_status sn_rule_cond(sn_rule *r) {
    uint32_t n = (r->n_in - 1) / 2;
    if (!n || r->n_in != 2 * n + 1)
        return sn_rule_fail(r, "%u operands are no condition and as many results of one branch as of the other",
                            r->n_in);
    if (!is_one_bool(r, 0))
        return sn_rule_fail(r, "its condition is one bool, not %s", sn_type_text(r->m, sn_rule_in(r, 0)));
    for (uint32_t k = 1; k <= n; k++)
        if (!sn_type_eq(sn_rule_in(r, k), sn_rule_in(r, n + k)))
            return sn_rule_fail(r, "result %u is %s where the condition holds, and %s where it does not", k - 1,
                                sn_type_text(r->m, sn_rule_in(r, k)), sn_type_text(r->m, sn_rule_in(r, n + k)));
    r->n_results = n;
    if (r->result < n) *r->out = *sn_rule_in(r, 1 + r->result);
    return SN_OK;
}
