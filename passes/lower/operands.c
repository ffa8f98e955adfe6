/* operands.c: what a product, a convolution, a sort or an attention reads many times over stands in memory, in rows and in the dtype that suit
 * it. Part of the pass `to-loops`.
 *
 *     %d = mul %f, %s ;  %w = reshape %d ;  %t = permute %w perm=[1, 0] ;  %y = matmul %x, %t        %d has a kernel, %t is a view of it
 *
 *   - Operands are realized unless they are plain loads (a convolution has masks anyway, so its operands may be padded); few parts that lie side by
 *     side, which few rows of a matmul read on a GPU (is_chosen); or made so easily that each panel of a CPU makes them (is_packed_once). On a GPU
 *     with tensor copies the other operand of few rows of halves is computed where it is multiplied (passes/base/made.h).
 *   - On a CPU what was quantised is realized as the bytes that it is, not less their zero point.
 *   - What is below the views of operands of an attention is, whatever it is.
 *   - On a GPU integers that are multiplied as floats, and floats that are multiplied as narrower ones, are realized as these where that happens
 *     more than SN_CONVERTED_ROWS times to each.
 *   - On a GPU intermediates get rows that begin at multiples of 16 bytes.
 */
#include "passes/base/made.h"
#include "passes/lower/lower.h"

/* A view, or a cast that loses nothing. */
bool sn_lower_is_seen_through(const sn_lower *lw, const sn_node_rec *n) {
    if (n->op == SN_OP_CAST) return sn_dtype_widens(sn_node_get(lw->m, n->in[0])->type.dtype, n->type.dtype);
    return sn_ops[n->op].cls == SN_OPS_VIEW;
}

/* On a CPU: of integers that were quantised, less their zero point, which operand those are; -1: x is nothing of the kind. Bytes are what
 * a product reads then (contract_words.h). */
static int centred(const sn_lower *lw, const sn_node_rec *n) {
    if (lw->cx->target->is_gpu || n->type.dtype != SN_I32 || (n->op != SN_OP_SUB && n->op != SN_OP_ADD)) return -1;
    for (int k = 0; k < (n->op == SN_OP_ADD ? 2 : 1); k++) {
        const sn_node_rec *of = sn_node_get(lw->m, n->in[k]), *zero = sn_node_get(lw->m, n->in[1 - k]);
        bool number = !zero->type.rank && sn_ops[zero->op].cls == SN_OPS_SOURCE && zero->op != SN_OP_INPUT;
        if (number && of->op == SN_OP_CAST && sn_lower_is_seen_through(lw, of)) return k;
    }
    return -1;
}

/* What x shows, or is but for a zero point; none: x is something else. */
static sn_nd seen_through(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    int k = sn_lower_is_seen_through(lw, n) ? 0 : centred(lw, n);
    return k < 0 ? (sn_nd){0} : n->in[k];
}

/* The bytes that x is, less their zero point; else x. */
sn_nd sn_lower_bytes_below(const sn_lower *lw, sn_nd x) {
    sn_nd at = x;
    int of = centred(lw, sn_node_get(lw->m, x));
    if (of >= 0) at = sn_node_get(lw->m, x)->in[of];
    const sn_node_rec *n = sn_node_get(lw->m, at);
    if (lw->cx->target->is_gpu || n->op != SN_OP_CAST || n->type.dtype != SN_I32 || lw->nodes[at.i].realized) return x;
    bool stored = !sn_lower_is_repeated(lw, n->in[0]) && sn_node_get(lw->m, n->in[0])->type.rank;
    return sn_lower_is_seen_through(lw, n) && stored ? n->in[0] : x;
}

/* Has it the elements of its operand, in some order? */
bool sn_lower_is_same_elements(const sn_node_rec *n) {
    return n->op == SN_OP_RESHAPE || n->op == SN_OP_PERMUTE || n->op == SN_OP_SQUEEZE || n->op == SN_OP_UNSQUEEZE;
}

/* Is x computed from inputs and constants alone, no results of other kernels among them? One that was seen before is, or all ends there. */
static bool is_of_inputs(const sn_lower *lw, sn_notes *seen, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (!sn_notes_add(seen, x.i)) return true;
    if (lw->nodes[x.i].realized) return n->op == SN_OP_INPUT || n->op == SN_OP_CONSTANT || n->op == SN_OP_WEIGHT;
    bool of_inputs = true;
    for (uint32_t k = 0; k < n->n_in && of_inputs; k++) of_inputs = is_of_inputs(lw, seen, n->in[k]);
    return of_inputs;
}

/* How often a matmul multiplies each element of operand k; 0: it is none. */
static int64_t uses_of(const sn_lower *lw, sn_nd x, uint32_t k) {
    return sn_node_get(lw->m, x)->op == SN_OP_MATMUL ? sn_graph_matmul_uses(lw->m, x, k) : 0;
}

/* A pad below views and casts rather than they, so that a view of it is one of rows as it has them, in the dtype that it has; else what is widened rather
 * than its wider copy, so that the product is one of halves; on a GPU what is made of inputs below views that show all of it, in
 * the order of its own axes, in which these lie, as a rule: a product takes either. What a kernel computes is stored as views
 * want it, and what each row of a product has for itself (uses: 1) becomes part of its kernel in the order of that. */
sn_nd sn_lower_realized_for(const sn_lower *lw, sn_nd product, uint32_t k) {
    sn_nd x = sn_node_get(lw->m, product)->in[k];
    sn_nd base = x, narrow = x;
    sn_notes seen = {.arena = lw->cx->scratch};
    for (sn_nd next; next = seen_through(lw, base), next.i; base = next)
        if (sn_node_get(lw->m, base)->op == SN_OP_CAST) narrow = next;
    if (sn_node_get(lw->m, base)->op == SN_OP_PAD) return base;
    if (uses_of(lw, product, k) < 2 || !lw->cx->target->is_gpu || !is_of_inputs(lw, &seen, narrow)) return narrow;
    while (sn_lower_is_same_elements(sn_node_get(lw->m, narrow))) narrow = sn_node_get(lw->m, narrow)->in[0];
    return narrow;
}

/* ---- which need not be in memory ---- */

bool sn_lower_is_plain_load(const sn_lower *lw, sn_nd x, bool masks) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    for (int k; !lw->nodes[x.i].realized; n = sn_node_get(lw->m, x)) {
        bool shown = n->op == SN_OP_PAD ? masks : sn_lower_is_pad_or_view(n) || n->op == SN_OP_CAST;
        k = shown ? 0 : centred(lw, n);
        if (k < 0) break;
        x = n->in[k];
    }
    return lw->nodes[x.i].realized || sn_ops[n->op].cls == SN_OPS_SOURCE;
}

/* Is operand k of a matmul on the CPU so large beside what it is made of, and made so easily, that to make it for each of a
 * few panels costs less than memory? */
static bool is_packed_once(const sn_lower *lw, sn_nd x, uint32_t k) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const sn_lower_node *info = &lw->nodes[n->in[k].i];
    if (n->op != SN_OP_MATMUL || lw->cx->target->is_gpu || info->attention || info->within) return false;
    return info->ops <= SN_PACKED_OPS && sn_graph_matmul_uses(lw->m, x, k) <= SN_PACKED_USES &&
           sn_lower_is_of_pairs(lw, n->in[k]);
}

/* Is operand k of a matmul on a GPU put together of parts that stand in memory (old keys, and new ones behind them), and is each
 * element used so few times that to choose between the parts costs less than a copy? */
static bool is_chosen(const sn_lower *lw, sn_nd x, uint32_t k) {
    const sn_node_rec *n = sn_node_get(lw->m, x), *joint;
    if (n->op != SN_OP_MATMUL || !lw->cx->target->is_gpu || sn_graph_matmul_uses(lw->m, x, k) > SN_CHOSEN_USES)
        return false;
    if (sn_node_attr(lw->m, x, SN_ATTR_SCHEDULE)) return false; /* a library, say, wants them in memory */
    sn_nd at = n->in[k];
    while (!lw->nodes[at.i].realized && sn_lower_is_seen_through(lw, sn_node_get(lw->m, at)))
        at = sn_node_get(lw->m, at)->in[0];
    joint = sn_node_get(lw->m, at);
    if (lw->nodes[at.i].realized || joint->op != SN_OP_CONCAT || joint->n_in > SN_CHOSEN_PARTS) return false;
    for (uint32_t i = 0; i < joint->n_in; i++)
        if (!sn_lower_is_plain_load(lw, joint->in[i], false)) return false;
    return lw->nodes[at.i].users == 1;
}

static bool is_made(const sn_lower *lw, sn_nd x, uint32_t k) {
    const sn_lower_node *info = &lw->nodes[sn_node_get(lw->m, x)->in[k].i];
    return !info->realized && !info->attention && !info->within && sn_matmul_makes(lw->m, lw->cx->target, x, k);
}

/* ---- how they had better be there ---- */

/* How often a convolution of one group multiplies each element of operand k: each place of the result takes a filter's products. */
static double conv_uses(const sn_lower *lw, sn_nd x, uint32_t k) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    double operand = sn_lower_elements(lw, n->in[k]), filters = 0;
    int64_t count;
    if (sn_ix_is_const(lw->m, sn_node_get(lw->m, n->in[1])->type.shape[0], &count)) filters = (double)count;
    if (operand == 0 || filters == 0 || sn_node_int(lw->m, x, SN_ATTR_GROUPS, 1) > 1) return 0;
    return sn_lower_elements(lw, x) * sn_lower_elements(lw, n->in[1]) / filters / operand;
}

/* Does a matmul or convolution multiply each element of its operand k so often that it had better stand converted in memory? */
static bool is_used_often(const sn_lower *lw, sn_nd x, uint32_t k) {
    if (sn_node_get(lw->m, x)->op == SN_OP_CONV) return conv_uses(lw, x, k) > SN_CONVERTED_ROWS;
    return sn_graph_matmul_uses(lw->m, x, k) > SN_CONVERTED_ROWS;
}

/* The cast by which integers become floats, or floats narrower ones, on their way to such a node on a GPU; none: there is none. */
static sn_nd converted(const sn_lower *lw, sn_nd x, uint32_t k) {
    sn_nd at = sn_node_get(lw->m, x)->in[k], next;
    if (!is_used_often(lw, x, k)) return (sn_nd){0};
    for (;; at = next) {
        const sn_node_rec *n = sn_node_get(lw->m, at);
        if (lw->nodes[at.i].realized || !(sn_lower_is_pad_or_view(n) || n->op == SN_OP_CAST)) return (sn_nd){0};
        next = n->in[0];
        if (n->op != SN_OP_CAST || !sn_is_float(n->type.dtype)) continue;
        if (!sn_dtype_widens(sn_node_get(lw->m, next)->type.dtype, n->type.dtype)) return at;
    }
}

/* An operand of an attention is what stands in memory, in the dtype that it has there: below views, whatever is
 * computed goes there, in the order of its own axes. */
void sn_lower_realize_below(sn_lower *lw, sn_nd x) {
    while (!lw->nodes[x.i].realized && sn_lower_is_seen_through(lw, sn_node_get(lw->m, x)))
        x = sn_node_get(lw->m, x)->in[0];
    lw->nodes[x.i].realized = true;
}

/* The same for copies that a convolution on a GPU reads: what nobody laid out for it stays as others read it. */
static void align_copy(sn_lower *lw, sn_nd x) {
    for (const sn_node_rec *n = sn_node_get(lw->m, x); n->op != SN_OP_COPY; n = sn_node_get(lw->m, x)) {
        bool is_seen = sn_ops[n->op].cls == SN_OPS_VIEW || n->op == SN_OP_CAST;
        if (!is_seen || lw->nodes[x.i].realized || sn_lower_joins_rows(lw, x)) return;
        x = n->in[0];
    }
    while (!lw->nodes[x.i].realized) x = sn_node_get(lw->m, x)->in[0];
    lw->nodes[x.i].aligned = lw->nodes[x.i].brought = true;
}

/* Operands of products on a GPU that are intermediates get rows that its copies can bring. */
static void align_operand(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    for (; !lw->nodes[x.i].realized && !sn_lower_joins_rows(lw, x); n = sn_node_get(lw->m, x)) {
        if (sn_ops[n->op].cls != SN_OPS_VIEW && n->op != SN_OP_CAST) return;
        x = n->in[0];
    }
    lw->nodes[x.i].aligned = lw->nodes[x.i].realized && n->op != SN_OP_SCATTER && !sn_lower_is_sorted_part(lw, n);
}

/* ---- all of a node ---- */

/* Those of which its kernel reads each element many times: all of a product or a sort; of an attention but its numerators. */
static void realize_operands(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    for (uint32_t k = lw->nodes[x.i].attention ? 1 : 0; k < n->n_in; k++) {
        bool loads = sn_lower_is_plain_load(lw, n->in[k], n->op == SN_OP_CONV);
        if (loads || is_packed_once(lw, x, k) || is_chosen(lw, x, k) || is_made(lw, x, k)) continue;
        lw->nodes[sn_lower_realized_for(lw, x, k).i].realized = true;
    }
}

/* For copies and matrix units of a GPU. */
static void suit_operands(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    for (uint32_t k = lw->nodes[x.i].attention ? 1 : 0; k < n->n_in; k++) {
        sn_nd cast = is_made(lw, x, k) ? (sn_nd){0} : converted(lw, x, k);
        if (cast.i) lw->nodes[cast.i].realized = true;
        if (n->op == SN_OP_CONV) align_copy(lw, n->in[k]);
        else align_operand(lw, n->in[k]);
    }
}

void sn_lower_decide_operands(sn_lower *lw, sn_nd x) {
    const sn_lower_node *info = &lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(lw->m, x);
    bool contracts = sn_ops[n->op].cls == SN_OPS_CONTRACT;
    bool attends = info->attention || (info->within && n->op == SN_OP_MATMUL);
    for (uint32_t k = info->attention ? 1 : 0; k < n->n_in && attends; k++)
        if (!is_chosen(lw, x, k)) sn_lower_realize_below(lw, n->in[k]);
    if (contracts || sn_lower_is_sort(n)) realize_operands(lw, x);
    if (contracts && lw->cx->target->is_gpu) suit_operands(lw, x);
}
