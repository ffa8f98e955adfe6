/* realize.c: which nodes get memory. Part of the pass `to-loops`.
 *
 * A node is either *realized* (one kernel stores its elements into a buffer) or inlined into its users, element by element, through the views
 * between them. Nodes are decided in their order, operands first: what an element of a node takes (operations, reads, bytes) is what those of
 * operands that are not realized take, and its own. A node may also find that an operand had better be realized. The rules are Inductor's
 * (reference: thresholds of 4 reads, 30 and 100 operations):
 *   - outputs, reductions, scans and contractions are realized, but for reductions of what is made of pairs (reduce.c);
 *   - a node with several users is realized when it reads more than 4 buffers or takes more than 30 operations (random numbers
 *     count as 30; but they themselves are computed again: that costs less than memory);
 *   - any node is realized at more than 8 reads or 100 operations;
 *   - on a CPU each of these counts once, however many ways lead to it, and the 8 reads are of as many buffers (count.c);
 *   - what products, sorts and attentions read many times over: operands.c;
 *   - what a chain of views reads is realized where its index would take too many divisions (views.c);
 *   - copies are realized, or say in which order another node is (stored.c);
 *   - what is made of constants alone, and read by what is not, is realized where computing it reads no fewer bytes than it
 *     has, or takes a sine or the like (tables of rotary embeddings) and its elements stay in a cache: its kernel runs once,
 *     when a program is loaded, while what is inlined is computed in each run; on a CPU, which has no operations to spare, so are
 *     tables along one axis that many elements read (places and weights of the columns of an image), and on a CPU what is looked up
 *     many times over, whatever it is made of (lookups.c);
 *   - on a CPU what is computed for many neighbours of an element is realized where that takes less (shifted.c);
 *   - what windows overlap on is realized when it takes more than 30 operations, each counted as often as windows share it.
 * What a kernel then computes for an element is in element.c.
 */
#include "passes/base/costs.h"
#include "passes/lower/lower.h"

static bool is_repeated_part(const sn_lower *lw, const sn_node_rec *n) {
    sn_op op = n->op == SN_OP_PROJECT ? sn_node_get(lw->m, n->in[0])->op : n->op;
    return op == SN_OP_REPEAT || op == SN_OP_COND;
}

bool sn_lower_always_realized(const sn_lower *lw, const sn_node_rec *n) {
    sn_opclass cls = sn_ops[n->op].cls;
    return is_repeated_part(lw, n) || cls == SN_OPS_REDUCE || cls == SN_OPS_SCAN || cls == SN_OPS_CONTRACT ||
           sn_lower_is_sort(n) || sn_lower_is_sorted_part(lw, n) || n->op == SN_OP_SCATTER || sn_lower_combines(n);
}

/* Is it made of random numbers and numbers of rank 0 alone, such as the mask of a dropout? */
static bool is_drawn(const sn_lower *lw, const sn_node_rec *n) {
    if (n->op == SN_OP_RANDOM) return true;
    bool drawn = false;
    for (uint32_t k = 0; k < n->n_in; k++) {
        if (!lw->nodes[n->in[k].i].drawn && sn_node_get(lw->m, n->in[k])->type.rank) return false;
        drawn |= lw->nodes[n->in[k].i].drawn;
    }
    return drawn;
}

/* ---- what an element takes ---- */

/* Bytes of the elements of x; those of sizes that are not known yet are as many as can be. */
static int64_t bytes_of(const sn_lower *lw, sn_nd x) {
    const sn_type *t = &sn_node_get(lw->m, x)->type;
    int64_t n;
    return sn_ix_is_const(lw->m, sn_type_numel(lw->m, t), &n) ? n * sn_dtype_bytes(t->dtype) : INT64_MAX;
}

/* A view reads no more of what it shows than it has elements. */
static void count_bytes(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    int64_t own = bytes_of(lw, x), sum = 0;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const sn_lower_node *in = &lw->nodes[n->in[k].i];
        if (sn_lower_is_named_before(lw, n, k)) continue;
        int64_t bytes = in->realized ? bytes_of(lw, n->in[k]) : in->bytes;
        sum = sn_add_overflow(sum, bytes, &sum) ? INT64_MAX : sum;
    }
    bool shows_less = sn_ops[n->op].cls == SN_OPS_VIEW && own < sum;
    lw->nodes[x.i].bytes = shows_less ? own : sum;
}

/* On a CPU each operation and each read counts once, where there are so many that it matters. What is read in several places is in
 * a cache there: reads that kernels may not have more of are of buffers. */
static uint32_t count_once(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    bool many = info->reads > SN_REALIZE_READS || info->ops > SN_REALIZE_OPS;
    if (lw->cx->target->is_gpu || !many || sn_ops[sn_node_get(lw->m, x)->op].cls == SN_OPS_VIEW) return info->reads;
    sn_lower_count count;
    sn_lower_count_node(&count, lw, x);
    info->ops = count.ops;
    info->reads = count.reads;
    return count.buffers;
}

static bool is_slow(const sn_node_rec *n) {
    enum { MANY = 20 }; /* instructions: more than exponentials and their like take */
    return sn_node_is_elementwise(n) && sn_ops[n->op].lop >= 0 && sn_costs[sn_ops[n->op].lop].full > MANY;
}

static uint32_t saturated(uint32_t n) { return n > SN_REALIZE_SATURATED ? SN_REALIZE_SATURATED : n; }

/* What an element takes of what is not in memory. Returns reads, as they count for what a kernel may have. */
static uint32_t count_element(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(lw->m, x);
    uint32_t ops = sn_lower_own_ops(n), reads = 0;
    info->slow = is_slow(n);
    for (uint32_t k = 0; k < n->n_in; k++) {
        const sn_lower_node *in = &lw->nodes[n->in[k].i];
        if (sn_lower_is_named_before(lw, n, k)) continue;
        ops += in->realized ? 0 : in->ops;
        reads += in->realized ? 1 : in->reads;
        info->slow |= !in->realized && in->slow;
    }
    info->ops = saturated(ops);
    info->reads = saturated(reads);
    info->lanes = sn_lower_count_lanes(lw, x);
    sn_lower_count_work(lw, x);
    return count_once(lw, x);
}

/* ---- what is better computed once ---- */

/* Elements along one axis, each of which takes some operations, and which many elements want? */
static bool is_table(const sn_lower *lw, sn_nd x) {
    const sn_lower_node *info = &lw->nodes[x.i];
    const sn_type *t = &sn_node_get(lw->m, x)->type;
    double n = sn_lower_elements(lw, x);
    int64_t longest = 1, size;
    if (lw->cx->target->is_gpu || info->ops <= SN_REALIZE_TABLE || n < 2) return false;
    for (uint32_t k = 0; k < t->rank; k++)
        if (sn_ix_is_const(lw->m, t->shape[k], &size) && size > longest) longest = size;
    return n == (double)longest && n * SN_TABLE_READS <= info->readers;
}

/* Is it better computed once than in each run? What is large is not kept for saving instructions alone, and numbers of rank 0
 * are computed in front of loops. */
static bool pays_once(const sn_lower *lw, sn_nd x) {
    const sn_lower_node *info = &lw->nodes[x.i];
    int64_t own = bytes_of(lw, x);
    bool kept = !info->drawn && own <= SN_REALIZE_KEPT && sn_node_get(lw->m, x)->type.rank;
    return info->constant && info->for_runs && ((kept && (info->slow || is_table(lw, x))) || info->bytes >= own);
}

/* On a CPU: a concatenation of which parts are computed and which is read in several ways. Who reads it computes an element of each part, and
 * selects one: stages of a transform, each made of halves of the one before, would double what they compute with each other stage. */
static bool is_computed_again(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (lw->cx->target->is_gpu || n->op != SN_OP_CONCAT || lw->nodes[x.i].ways < 2) return false;
    for (uint32_t k = 0; k < n->n_in; k++) {
        sn_nd part = n->in[k];
        while (!lw->nodes[part.i].realized && sn_lower_is_pad_or_view(sn_node_get(lw->m, part)))
            part = sn_node_get(lw->m, part)->in[0];
        if (!lw->nodes[part.i].realized && lw->nodes[part.i].ops >= SN_REALIZE_PARTS) return true;
    }
    return false;
}

/* ---- what an operation asks for itself, ---- */

/* Elements under several windows are computed as often: then they had better be in memory. */
static void decide_windowed(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    int64_t size = sn_node_int(lw->m, x, SN_ATTR_SIZE, 1), step = sn_node_int(lw->m, x, SN_ATTR_STEP, 1);
    int64_t times = (size - 1) / step + 1,
            ops = info->ops * (times < SN_REALIZE_SATURATED ? times : SN_REALIZE_SATURATED);
    info->ops = ops > SN_REALIZE_SATURATED ? SN_REALIZE_SATURATED : (uint32_t)ops;
    if (ops <= SN_REALIZE_OPS || times < 2) return;
    sn_nd base = sn_node_get(lw->m, x)->in[0];
    while (!lw->nodes[base.i].realized && sn_lower_is_pad_or_view(sn_node_get(lw->m, base)))
        base = sn_node_get(lw->m, base)->in[0];
    lw->nodes[base.i].realized = true;
    info->ops = 0;
    info->reads = 1;
}

/* Written out it costs as many times what it reduces. */
static void decide_reduction(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    bool written = sn_lower_is_written(lw, x);
    uint32_t ops = written ? info->ops * (uint32_t)sn_lower_reduced(lw, x) : 0;
    info->written = written && ops <= SN_REALIZE_MOST_OPS && info->reads <= SN_REALIZE_MOST_READS;
    info->realized = !info->within && !info->written;
    if (info->written) info->ops = ops;
    if (!info->realized) return;
    sn_lower_note_together(lw, x);
    sn_lower_nest_reductions(lw, x);
}

/* ---- and of what it reads ---- */

/* Is operand k of scores the same for all rows? Tests of rows and keys stay where they are: they say which keys are seen. */
static bool is_of_keys(const sn_lower *lw, sn_nd x, uint32_t k) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const sn_type *t = &sn_node_get(lw->m, n->in[k])->type;
    int64_t rows;
    if (!lw->nodes[x.i].within || lw->nodes[n->in[k].i].within || !sn_node_is_elementwise(n) || !t->rank) return false;
    return t->rank == 1 || (sn_ix_is_const(lw->m, t->shape[t->rank - 2], &rows) && rows == 1);
}

/* What is computed again for each row goes to memory where that takes longer than a kernel of its own. */
static void decide_repeated(sn_lower *lw, sn_nd x) {
    const sn_target *t = lw->cx->target;
    const sn_node_rec *n = sn_node_get(lw->m, x);
    for (uint32_t k = 0; t->is_gpu && k < n->n_in; k++) {
        if (!is_of_keys(lw, x, k)) continue;
        sn_nd in = n->in[k];
        while (sn_ops[sn_node_get(lw->m, in)->op].cls == SN_OPS_VIEW) in = sn_node_get(lw->m, in)->in[0];
        sn_lower_node *info = &lw->nodes[in.i];
        double again = sn_lower_elements(lw, x) - sn_lower_elements(lw, in),
               work = info->ops + (info->slow ? SN_REALIZE_SLOW : 0);
        bool computed = !info->realized && !info->within && sn_node_is_elementwise(sn_node_get(lw->m, in));
        info->realized |= computed && again * work > (double)SN_LAUNCH * SN_ISSUES * t->units;
    }
}

/* On a CPU: what is looked up many times over, by all who do, is computed once, as a table. */
static void decide_table(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (lw->cx->target->is_gpu || !sn_lower_is_lookup(n) || lw->nodes[x.i].within) return;
    if (sn_lower_is_plain_load(lw, n->in[0], false)) return;
    double table = sn_lower_elements(lw, n->in[0]);
    bool often = table > 0 && sn_lower_elements(lw, x) >= SN_TABLE_READS * table;
    if (often || sn_lower_lookups_pay(lw, x, table)) sn_lower_realize_below(lw, n->in[0]);
}

/* ---- all of it ---- */

/* Who has a buffer is realized whatever it takes, and what the nest of an attention knows is where that says. */
static bool is_settled(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(lw->m, x);
    bool computed_there = info->of_rows && !info->teller.i;
    bool stored = n->op == SN_OP_INPUT || sn_lower_has_data(n) || sn_lower_is_repeated(lw, x) || info->teller.i;
    if (!computed_there && !stored) return false;
    info->realized = !computed_there;
    if (info->realized) info->reads = 1;
    return true;
}

/* What its operation says, whatever it takes. */
static void decide_by_operation(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (sn_ops[n->op].cls == SN_OPS_REDUCE) decide_reduction(lw, x);
    else if (sn_lower_always_realized(lw, n)) lw->nodes[x.i].realized = !lw->nodes[x.i].within;
    sn_lower_note_spread(lw, x);
    if (n->op == SN_OP_COPY) sn_lower_decide_copy(lw, x);
    if (n->op == SN_OP_UNFOLD) decide_windowed(lw, x);
}

/* Does it take so much that it had better be computed once? `streams`: reads that a kernel may not have more of. */
static bool pays_memory(const sn_lower *lw, sn_nd x, uint32_t streams) {
    const sn_lower_node *info = &lw->nodes[x.i];
    bool much = info->reads > SN_REALIZE_READS || info->ops > SN_REALIZE_OPS;
    bool too_much = streams > SN_REALIZE_MOST_READS || info->ops > SN_REALIZE_MOST_OPS;
    if (too_much || (much && info->users > 1 && !info->drawn)) return true;
    return is_computed_again(lw, x) || sn_lower_is_shifted_much(lw, x, bytes_of(lw, x)) || pays_once(lw, x);
}

/* x had better be in memory: on a CPU as the bytes that it was quantised to, which it reads then. */
static void realize_itself(sn_lower *lw, sn_nd x) {
    enum { LEAST_OPS = 2 }; /* a cast, and a zero point */
    sn_nd bytes = sn_lower_bytes_below(lw, x);
    lw->nodes[bytes.i].realized = true;
    if (sn_nd_eq(bytes, x)) return;
    lw->nodes[x.i].reads = 1;
    lw->nodes[x.i].ops = LEAST_OPS;
}

/* First what its operands are, then what it takes to read them, then what follows for itself. */
static void decide_node(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(lw->m, x);
    bool is_view = sn_ops[n->op].cls == SN_OPS_VIEW;
    if (is_settled(lw, x)) return;
    count_bytes(lw, x);
    if (is_view) sn_lower_note_leaves(lw, x);
    decide_table(lw, x);
    uint32_t streams = count_element(lw, x);
    sn_lower_decide_operands(lw, x);
    decide_repeated(lw, x);
    decide_by_operation(lw, x);
    info->drawn = !info->realized && is_drawn(lw, n);
    if (is_view || info->within || sn_ops[n->op].cls == SN_OPS_SOURCE) return;
    if (info->joined || info->crosses) info->realized = true;
    else if (!info->realized && pays_memory(lw, x, streams)) realize_itself(lw, x);
    if (!info->realized) sn_lower_note_leaves(lw, x);
}

void sn_lower_decide(sn_lower *lw) {
    for (uint32_t i = 1; i < lw->m->graph.nodes.count; i++)
        if (lw->nodes[i].live) decide_node(lw, (sn_nd){i});
}
