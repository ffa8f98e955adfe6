/* to_loops.c: the pass `to-loops`: graph nodes become loop nests.
 *
 *     %0 = mul %x, %y : f32[8, 4]                   kernel @k0(x, y, z) {
 *     %1 = add %0, %y : f32[8, 4]        ->           loop i in 8 { loop j in 4 {
 *     return z = %1                                     %0 = load x[4*i + j]  %1 = load y[4*i + j]
 *                                                       %2 = mul %0, %1  %3 = add %2, %1  store z[4*i + j], %3 } } }
 *
 * A node is either *realized* (one kernel stores its elements into a buffer) or inlined into its users, element by
 * element, through the views between them. Views never become kernels: they are index transforms. The realisation rules
 * are Inductor's (reference: thresholds of 4 reads, 30 and 100 operations):
 *   - outputs, reductions, scans and contractions are realized, but for reductions of what is made of pairs (reduce.c);
 *   - a node with several users is realized when it reads more than 4 buffers or takes more than 30 operations (random numbers
 *     count as 30; but they themselves are computed again: that costs less than memory);
 *   - any node is realized at more than 8 reads or 100 operations;
 *   - on a CPU each of these counts once, however many ways lead to it, and the 8 reads are of as many buffers (count.c);
 *   - operands of contractions and sorts are realized unless they are plain loads, or a few of those side by side that few rows of a
 *     matmul read on a GPU (else each element is read many times; a conv
 *     has masks anyway, so its operands may be padded); on a GPU they get rows that begin at multiples of 16 bytes;
 *   - so is what stands below the views of operands of an attention, whatever it is;
 *   - of few rows of halves on a GPU with tensor copies the other operand is computed where it is multiplied (passes/base/made.h);
 *   - integers that a matmul or convolution on a GPU multiplies as floats more than SN_CONVERTED_ROWS times each are realized as floats,
 *     and so are floats that it multiplies as narrower ones;
 *   - what a chain of views reads is realized where its index would take too many divisions (views.c);
 *   - copies are realized. What a reduction or contraction gives is stored in the order in which its first copy wants it, and the copy
 *     is a view of that;
 *   - what is made of constants alone, and read by what is not, is realized where computing it reads no fewer bytes than it
 *     has, or takes a sine or the like (tables of rotary embeddings) and its elements stay in a cache: its kernel runs once,
 *     when a program is loaded, while what is inlined is computed in each run; on a CPU, which has no operations to spare, so are
 *     tables along one axis that many elements read (places and weights of the columns of an image), and on a CPU what is looked up
 *     many times over, whatever it is made of;
 *   - what windows overlap on is realized when it takes more than 30 operations, each counted as often as windows share it.
 * A repeat is several sections of kernels (repeat.c), and so are branches (cond.c).
 * A scatter is two kernels: a copy of its operand, and the updates, which are stored over it where the index says. One that
 * combines into few rows is two, too (scatter.c, scatter_block.c).
 * Nests are perfect: everything is emitted in the innermost loop; later passes hoist. The axis of a scan is the
 * innermost loop, and its position the operand of an `accum`; a reverse one walks the elements from the last on. Halves
 * are computed in f32; a cast that stands in the graph is honoured. Cost: linear in nodes times inlined expression
 * size, memoised per kernel. What a kernel computes for an element is in element.c, matrix products are in contract.c,
 * sorts in sort.c. Relies on `decompose` having run: a composite is an error of the pipeline.
 */
#include "ir/graph/repeat.h"
#include "passes/base/constants.h"
#include "passes/base/costs.h"
#include "passes/base/made.h"
#include "passes/base/rebuild.h"
#include "passes/lower/lower.h"

#include <string.h>

/* ---- which nodes are realized ---- */

/* Becomes a const buffer. */
static bool has_data(const sn_node_rec *n) { return n->op == SN_OP_CONSTANT || n->op == SN_OP_WEIGHT; }

/* A copy that is not realized is a view of what is stored as it wants it. */
static bool is_pad_or_view(const sn_node_rec *n) {
    return n->op == SN_OP_PAD || n->op == SN_OP_COPY || sn_ops[n->op].cls == SN_OPS_VIEW;
}

/* Does reading an element cost no more than a load? Looks through views and casts, and where `masks` through pads. */
static bool is_plain_load(const sn_lower *lw, sn_nd x, bool masks) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    while (!lw->nodes[x.i].realized && (n->op == SN_OP_PAD ? masks : is_pad_or_view(n) || n->op == SN_OP_CAST)) {
        x = n->in[0];
        n = sn_node_get(lw->m, x);
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
        if (!is_plain_load(lw, joint->in[i], false)) return false;
    return lw->nodes[at.i].users == 1;
}

static bool is_made(const sn_lower *lw, sn_nd x, uint32_t k) {
    const sn_lower_node *info = &lw->nodes[sn_node_get(lw->m, x)->in[k].i];
    return !info->realized && !info->attention && !info->within && sn_matmul_makes(lw->m, lw->cx->target, x, k);
}

/* Elements of a type; 0: nobody knows. */
static double elements_of(const sn_lower *lw, sn_nd x) {
    const sn_type *t = &sn_node_get(lw->m, x)->type;
    double n = 1;
    int64_t size;
    for (uint32_t k = 0; k < t->rank; k++) n *= sn_ix_is_const(lw->m, t->shape[k], &size) ? (double)size : 0;
    return n;
}

/* How often a convolution of one group multiplies each element of operand k: each place of the result takes a filter's products. */
static double conv_uses(const sn_lower *lw, sn_nd x, uint32_t k) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    double operand = elements_of(lw, n->in[k]), filters = 0;
    int64_t count;
    if (sn_ix_is_const(lw->m, sn_node_get(lw->m, n->in[1])->type.shape[0], &count)) filters = (double)count;
    if (operand == 0 || filters == 0 || sn_node_int(lw->m, x, SN_ATTR_GROUPS, 1) > 1) return 0;
    return elements_of(lw, x) * elements_of(lw, n->in[1]) / filters / operand;
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
        if (lw->nodes[at.i].realized || !(is_pad_or_view(n) || n->op == SN_OP_CAST)) return (sn_nd){0};
        next = n->in[0];
        if (n->op != SN_OP_CAST || !sn_is_float(n->type.dtype)) continue;
        if (!sn_dtype_widens(sn_node_get(lw->m, next)->type.dtype, n->type.dtype)) return at;
    }
}

/* Lowered to kernels of its own by sort.c; the results are what its projections load. */
static bool is_sort(const sn_node_rec *n) { return n->op == SN_OP_SORT || n->op == SN_OP_TOPK; }

static bool is_sorted_part(const sn_lower *lw, const sn_node_rec *n) {
    return n->op == SN_OP_PROJECT && is_sort(sn_node_get(lw->m, n->in[0]));
}

static bool is_repeated_part(const sn_lower *lw, const sn_node_rec *n) {
    sn_op op = n->op == SN_OP_PROJECT ? sn_node_get(lw->m, n->in[0])->op : n->op;
    return op == SN_OP_REPEAT || op == SN_OP_COND;
}

static bool always_realized(const sn_lower *lw, const sn_node_rec *n) {
    sn_opclass cls = sn_ops[n->op].cls;
    return is_repeated_part(lw, n) || cls == SN_OPS_REDUCE || cls == SN_OPS_SCAN || cls == SN_OPS_CONTRACT ||
           is_sort(n) || is_sorted_part(lw, n) || n->op == SN_OP_SCATTER || sn_lower_combines(n);
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

/* An operand of an attention is what stands in memory, in the dtype that it has there: below views, whatever is
 * computed goes there, in the order of its own axes. */
static void realize_below(sn_lower *lw, sn_nd x) {
    while (!lw->nodes[x.i].realized && sn_lower_is_seen_through(lw, sn_node_get(lw->m, x)))
        x = sn_node_get(lw->m, x)->in[0];
    lw->nodes[x.i].realized = true;
}

static sn_ix last_size(const sn_lower *lw, sn_nd x) {
    const sn_type *t = &sn_node_get(lw->m, x)->type;
    return t->rank ? t->shape[t->rank - 1] : sn_ix_const(lw->m, 1);
}

/* Does the view walk on from one row of its operand to the next? */
static bool joins_rows(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    return n->op == SN_OP_RESHAPE && !sn_ix_eq(last_size(lw, x), last_size(lw, n->in[0]));
}

/* The same for copies that a convolution on a GPU reads: what nobody laid out for it stays as others read it. */
static void align_copy(sn_lower *lw, sn_nd x) {
    for (const sn_node_rec *n = sn_node_get(lw->m, x); n->op != SN_OP_COPY; n = sn_node_get(lw->m, x)) {
        bool is_seen = sn_ops[n->op].cls == SN_OPS_VIEW || n->op == SN_OP_CAST;
        if (!is_seen || lw->nodes[x.i].realized || joins_rows(lw, x)) return;
        x = n->in[0];
    }
    while (!lw->nodes[x.i].realized) x = sn_node_get(lw->m, x)->in[0];
    lw->nodes[x.i].aligned = lw->nodes[x.i].brought = true;
}

/* Operands of products on a GPU that are intermediates get rows that its copies can bring. */
static void align_operand(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    for (; !lw->nodes[x.i].realized && !joins_rows(lw, x); n = sn_node_get(lw->m, x)) {
        if (sn_ops[n->op].cls != SN_OPS_VIEW && n->op != SN_OP_CAST) return;
        x = n->in[0];
    }
    lw->nodes[x.i].aligned = lw->nodes[x.i].realized && n->op != SN_OP_SCATTER && !is_sorted_part(lw, n);
}

/* Elements under several windows are computed as often: then they had better be in memory. */
static void decide_windowed(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    int64_t size = sn_node_int(lw->m, x, SN_ATTR_SIZE, 1), step = sn_node_int(lw->m, x, SN_ATTR_STEP, 1);
    int64_t times = (size - 1) / step + 1,
            ops = info->ops * (times < SN_REALIZE_SATURATED ? times : SN_REALIZE_SATURATED);
    info->ops = ops > SN_REALIZE_SATURATED ? SN_REALIZE_SATURATED : (uint32_t)ops;
    if (ops <= SN_REALIZE_OPS || times < 2) return;
    sn_nd base = sn_node_get(lw->m, x)->in[0];
    while (!lw->nodes[base.i].realized && is_pad_or_view(sn_node_get(lw->m, base)))
        base = sn_node_get(lw->m, base)->in[0];
    lw->nodes[base.i].realized = true;
    info->ops = 0;
    info->reads = 1;
}

/* What permutes and copies on x see: perm[k] is the axis of it that axis k of x is. */
static sn_nd permuted_base(int64_t *perm, const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    for (uint32_t k = 0; k < n->type.rank; k++) perm[k] = k;
    for (; n->op == SN_OP_PERMUTE || n->op == SN_OP_COPY; n = sn_node_get(lw->m, x)) {
        const sn_attr *by = sn_node_attr(lw->m, x, SN_ATTR_PERM);
        for (uint32_t k = 0; by && k < n->type.rank; k++) perm[k] = by->ints.at[perm[k]];
        x = n->in[0];
    }
    return x;
}

/* May x be stored in any order of its axes? Who has a buffer already has it in the one that it takes. */
static bool takes_order(const sn_lower *lw, sn_nd x) {
    const sn_lower_node *info = &lw->nodes[x.i];
    sn_opclass cls = sn_ops[sn_node_get(lw->m, x)->op].cls;
    bool nest = (cls == SN_OPS_REDUCE && info->realized) || cls == SN_OPS_CONTRACT;
    return nest && !info->buf.i && !info->order;
}

static void give_order(sn_lower *lw, sn_nd x, const int64_t *order) {
    uint32_t rank = sn_node_get(lw->m, x)->type.rank;
    int64_t *own = SN_NEWN(lw->cx->scratch, int64_t, rank + 1);
    memcpy(own, order, rank * sizeof *own);
    lw->nodes[x.i].order = own;
}

/* A GPU has tiles and bricks for what lies across the output that it is an element of: memory of its own saves nothing. */
static bool is_passed_on(const sn_lower *lw, sn_nd x) {
    return lw->cx->target->is_gpu && lw->nodes[x.i].users == 1 && !lw->nodes[x.i].kept;
}

/* The first copy of what a nest makes says in which order that is stored. */
static void decide_copy(sn_lower *lw, sn_nd x) {
    int64_t perm[SN_MAX_RANK];
    sn_nd base = permuted_base(perm, lw, x);
    if (lw->nodes[x.i].buf.i || !takes_order(lw, base)) {
        lw->nodes[x.i].realized = lw->nodes[x.i].buf.i || !is_passed_on(lw, x);
        return;
    }
    give_order(lw, base, perm);
    lw->nodes[base.i].walked_flat |= lw->nodes[x.i].walked_flat;
}

/* Bytes of the elements of x; those of sizes that are not known yet are as many as can be. */
static int64_t bytes_of(const sn_lower *lw, sn_nd x) {
    const sn_type *t = &sn_node_get(lw->m, x)->type;
    int64_t n;
    return sn_ix_is_const(lw->m, sn_type_numel(lw->m, t), &n) ? n * sn_dtype_bytes(t->dtype) : INT64_MAX;
}

/* x * x reads x once; parts of a concatenation are read at an element each, so that what they are made of is computed for each. */
static bool is_named_before(const sn_lower *lw, const sn_node_rec *n, uint32_t k) {
    if (n->op == SN_OP_CONCAT && !lw->nodes[n->in[k].i].realized) return false;
    for (uint32_t i = 0; i < k; i++)
        if (sn_nd_eq(n->in[i], n->in[k])) return true;
    return false;
}

/* A view reads no more of what it shows than it has elements. */
static void count_bytes(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    int64_t own = bytes_of(lw, x), sum = 0;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const sn_lower_node *in = &lw->nodes[n->in[k].i];
        if (is_named_before(lw, n, k)) continue;
        int64_t bytes = in->realized ? bytes_of(lw, n->in[k]) : in->bytes;
        sum = sn_add_overflow(sum, bytes, &sum) ? INT64_MAX : sum;
    }
    bool shows_less = sn_ops[n->op].cls == SN_OPS_VIEW && own < sum;
    lw->nodes[x.i].bytes = shows_less ? own : sum;
}

static bool is_slow(const sn_node_rec *n) {
    enum { MANY = 20 }; /* instructions: more than exponentials and their like take */
    return sn_node_is_elementwise(n) && sn_ops[n->op].lop >= 0 && sn_costs[sn_ops[n->op].lop].full > MANY;
}

/* Elements along one axis, each of which takes some operations, and which many elements want? */
static bool is_table(const sn_lower *lw, sn_nd x) {
    const sn_lower_node *info = &lw->nodes[x.i];
    const sn_type *t = &sn_node_get(lw->m, x)->type;
    double n = elements_of(lw, x);
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

static bool is_by_element(const sn_node_rec *n) {
    sn_opclass cls = sn_ops[n->op].cls;
    return cls == SN_OPS_UNARY || cls == SN_OPS_BINARY || cls == SN_OPS_ELEMENT;
}

/* Does operand k have an element for each of the node's? */
static bool is_as_large(const sn_lower *lw, const sn_node_rec *n, uint32_t k) {
    const sn_type *t = &sn_node_get(lw->m, n->in[k])->type;
    if (t->rank != n->type.rank) return false;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!sn_ix_eq(t->shape[i], n->type.shape[i])) return false;
    return true;
}

/* Whose elements each become one of an output, and nothing else. Operands have smaller ids. */
static void find_kept(sn_lower *lw) {
    for (uint32_t i = lw->m->graph.nodes.count; i-- > 1;) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        for (uint32_t k = 0; k < n->n_in && lw->nodes[i].live; k++) {
            bool passes = sn_lower_is_same_elements(n) || (is_by_element(n) && is_as_large(lw, n, k));
            lw->nodes[n->in[k].i].kept |= !passes || lw->nodes[i].kept;
        }
    }
}

/* A sum that goes on beside another product, as residual sums of networks do, is what its own product leaves in memory: then
 * nobody reads that product, and what else went into the sum, once more.
 *
 *     %a = matmul ..   %h = add %x, %a   %n = layer_norm %h   %b = matmul %n ..   %y = add %h, %b
 *
 * %a: the product of %h. %h is joined: several read it, one of them (%y) beside the product %b. */
static void find_joined(sn_lower *lw) {
    const sn_graph_ir *g = &lw->m->graph;
    for (uint32_t i = 1; i < g->nodes.count; i++) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        if (!lw->nodes[i].live || !is_by_element(n)) continue;
        sn_nd product = {0};
        for (uint32_t k = 0; k < n->n_in; k++) {
            const sn_lower_node *in = &lw->nodes[n->in[k].i];
            bool is_one = sn_ops[sn_node_get(lw->m, n->in[k])->op].cls == SN_OPS_CONTRACT;
            if (in->users == 1 && is_as_large(lw, n, k))
                product = is_one ? n->in[k] : in->product.i ? in->product : product;
        }
        lw->nodes[i].product = product;
        for (uint32_t k = 0; k < n->n_in && product.i; k++) {
            sn_lower_node *in = &lw->nodes[n->in[k].i];
            in->joined |= in->users > 1 && in->product.i && is_as_large(lw, n, k);
        }
    }
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
    enum { LANES = 128 /* of a multiprocessor */ };
    const sn_target *t = lw->cx->target;
    const sn_node_rec *n = sn_node_get(lw->m, x);
    for (uint32_t k = 0; t->is_gpu && k < n->n_in; k++) {
        if (!is_of_keys(lw, x, k)) continue;
        sn_nd in = n->in[k];
        while (sn_ops[sn_node_get(lw->m, in)->op].cls == SN_OPS_VIEW) in = sn_node_get(lw->m, in)->in[0];
        sn_lower_node *info = &lw->nodes[in.i];
        double again = elements_of(lw, x) - elements_of(lw, in), work = info->ops + (info->slow ? SN_REALIZE_SLOW : 0);
        bool computed = !info->realized && !info->within && sn_node_is_elementwise(sn_node_get(lw->m, in));
        info->realized |= computed && again * work > (double)SN_LAUNCH * LANES * t->units;
    }
}

/* On a CPU: a concatenation of which parts are computed and which is read in several ways. Who reads it computes an element of each part, and
 * selects one: stages of a transform, each made of halves of the one before, would double what they compute with each other stage. */
static bool is_computed_again(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (lw->cx->target->is_gpu || n->op != SN_OP_CONCAT || lw->nodes[x.i].ways < 2) return false;
    for (uint32_t k = 0; k < n->n_in; k++) {
        sn_nd part = n->in[k];
        while (!lw->nodes[part.i].realized && is_pad_or_view(sn_node_get(lw->m, part)))
            part = sn_node_get(lw->m, part)->in[0];
        if (!lw->nodes[part.i].realized && lw->nodes[part.i].ops >= SN_REALIZE_PARTS) return true;
    }
    return false;
}

/* On a CPU: what is looked up many times over is computed once, as a table. */
static void decide_table(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    bool looks_up = n->op == SN_OP_INDEX_SELECT || n->op == SN_OP_GATHER;
    if (lw->cx->target->is_gpu || !looks_up || is_plain_load(lw, n->in[0], false) || lw->nodes[x.i].within) return;
    double table = elements_of(lw, n->in[0]);
    if (table > 0 && elements_of(lw, x) >= SN_TABLE_READS * table) realize_below(lw, n->in[0]);
}

static void decide_node(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (info->of_rows && !info->teller.i) {
        info->realized = false;
        return;
    }
    if (n->op == SN_OP_INPUT || has_data(n) || sn_lower_is_repeated(lw, x) || info->teller.i) {
        info->realized = true;
        info->reads = 1;
        return;
    }
    count_bytes(lw, x);
    bool is_view = sn_ops[n->op].cls == SN_OPS_VIEW;
    if (is_view) sn_lower_note_leaves(lw, x);
    decide_table(lw, x);
    uint32_t ops = sn_lower_own_ops(n), reads = 0, streams;
    info->slow = is_slow(n);
    for (uint32_t k = 0; k < n->n_in; k++) {
        const sn_lower_node *in = &lw->nodes[n->in[k].i];
        if (is_named_before(lw, n, k)) continue;
        ops += in->realized ? 0 : in->ops;
        reads += in->realized ? 1 : in->reads;
        info->slow |= !in->realized && in->slow;
    }
    info->ops = ops > SN_REALIZE_SATURATED ? SN_REALIZE_SATURATED : ops;
    info->reads = reads > SN_REALIZE_SATURATED ? SN_REALIZE_SATURATED : reads;
    streams = count_once(lw, x);
    if (info->attention || (info->within && n->op == SN_OP_MATMUL))
        for (uint32_t k = info->attention ? 1 : 0; k < n->n_in; k++)
            if (!is_chosen(lw, x, k)) realize_below(lw, n->in[k]);
    if (sn_ops[n->op].cls == SN_OPS_CONTRACT || is_sort(n))
        for (uint32_t k = info->attention ? 1 : 0; k < n->n_in; k++)
            if (!is_plain_load(lw, n->in[k], n->op == SN_OP_CONV) && !is_packed_once(lw, x, k) &&
                !is_chosen(lw, x, k) && !is_made(lw, x, k))
                lw->nodes[sn_lower_realized_for(lw, x, k).i].realized = true;
    if (sn_ops[n->op].cls == SN_OPS_CONTRACT && lw->cx->target->is_gpu)
        for (uint32_t k = info->attention ? 1 : 0; k < n->n_in; k++) {
            sn_nd cast = is_made(lw, x, k) ? (sn_nd){0} : converted(lw, x, k);
            if (cast.i) lw->nodes[cast.i].realized = true;
            if (n->op == SN_OP_CONV) align_copy(lw, n->in[k]);
            else align_operand(lw, n->in[k]);
        }
    decide_repeated(lw, x);
    if (sn_ops[n->op].cls == SN_OPS_REDUCE) decide_reduction(lw, x);
    else if (always_realized(lw, n)) info->realized = !info->within;
    sn_lower_note_spread(lw, x);
    if (n->op == SN_OP_COPY) decide_copy(lw, x);
    if (n->op == SN_OP_UNFOLD) decide_windowed(lw, x);
    info->drawn = !info->realized && is_drawn(lw, n);
    if (is_view || info->within || sn_ops[n->op].cls == SN_OPS_SOURCE) return;
    if (info->users > 1 && !info->drawn && (info->reads > SN_REALIZE_READS || info->ops > SN_REALIZE_OPS))
        info->realized = true;
    if (is_computed_again(lw, x)) info->realized = true;
    if (streams > SN_REALIZE_MOST_READS || info->ops > SN_REALIZE_MOST_OPS || pays_once(lw, x) || info->joined ||
        info->crosses)
        info->realized = true;
    if (!info->realized) sn_lower_note_leaves(lw, x);
}

/* Who is made of constants alone, and whose elements do runs want? Operands have smaller ids. */
static void find_constants(sn_lower *lw) {
    const sn_graph_ir *g = &lw->m->graph;
    for (uint32_t i = 1; i < g->nodes.count; i++) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        lw->nodes[i].constant = n->op != SN_OP_INPUT && sn_ops[n->op].cls != SN_OPS_REPEAT;
        for (uint32_t k = 0; k < n->n_in; k++) lw->nodes[i].constant &= lw->nodes[n->in[k].i].constant;
    }
    for (uint32_t i = g->nodes.count; i-- > 1;) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        const sn_lower_node *info = &lw->nodes[i];
        bool passes_on = !info->constant || (info->for_runs && sn_ops[n->op].cls == SN_OPS_VIEW);
        double readers = info->constant ? info->readers : elements_of(lw, (sn_nd){i});
        for (uint32_t k = 0; k < n->n_in && info->live && passes_on; k++) {
            sn_lower_node *in = &lw->nodes[n->in[k].i];
            in->for_runs = true;
            if (readers > in->readers) in->readers = readers;
        }
    }
}

/* x, and what it is a view of, is walked by a reshape that joins its rows. */
static void note_flat(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    for (; sn_ops[n->op].cls == SN_OPS_VIEW || n->op == SN_OP_CAST; n = sn_node_get(lw->m, x)) {
        lw->nodes[x.i].walked_flat = true;
        x = n->in[0];
    }
    lw->nodes[x.i].walked_flat = true;
}

static void count_users(sn_lower *lw) {
    const sn_graph_ir *g = &lw->m->graph;
    uint8_t *live = SN_NEWN(lw->cx->scratch, uint8_t, g->nodes.count);
    sn_graph_live(lw->m, live);
    for (uint32_t i = 1; i < g->nodes.count; i++) {
        lw->nodes[i].live = live[i];
        if (!live[i]) continue;
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        for (uint32_t k = 0; k < n->n_in; k++) lw->nodes[n->in[k].i].users++;
        if (joins_rows(lw, (sn_nd){i})) note_flat(lw, n->in[0]);
    }
    for (uint32_t k = 0; k < g->outputs.n; k++) lw->nodes[g->outputs.at[k].node.i].users++;
    for (uint32_t k = 0; k < g->outputs.n; k++) lw->nodes[g->outputs.at[k].node.i].ways++;
    for (uint32_t i = g->nodes.count; i-- > 1;) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        uint32_t ways = sn_ops[n->op].cls == SN_OPS_VIEW ? lw->nodes[i].ways : 1;
        for (uint32_t k = 0; k < n->n_in && live[i]; k++) lw->nodes[n->in[k].i].ways += ways;
    }
}

/* ---- buffers ---- */

static void make_input_buffers(sn_lower *lw) {
    sn_graph_ir *g = &lw->m->graph;
    for (uint32_t k = 0; k < g->inputs.n; k++) {
        const sn_graph_input *in = &g->inputs.at[k];
        const sn_type *type = &sn_node_get(lw->m, in->node)->type;
        sn_buf b = sn_lower_buffer(lw, in->name, type, SN_BUF_INPUT);
        sn_buf_get(lw->m, b)->io = k;
        sn_buf_get(lw->m, b)->size = sn_graph_input_size(lw->m, k);
        lw->nodes[in->node.i].buf = b;
    }
}

static const void *constant_data(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const sn_attr *values = sn_node_attr(lw->m, x, SN_ATTR_VALUES);
    uint32_t bytes = sn_dtype_bytes(n->type.dtype);
    char *data = sn_zalloc(&lw->m->arena, values->numbers.n * bytes + 1);
    for (uint64_t k = 0; k < values->numbers.n; k++) {
        if (sn_is_float(n->type.dtype)) sn_store_float(n->type.dtype, data + k * bytes, values->numbers.f[k]);
        else sn_store_int(n->type.dtype, data + k * bytes, values->numbers.i[k]);
    }
    return data;
}

/* The buffer of a constant or a weight. */
static void make_const_buffer(sn_lower *lw, sn_nd x, uint32_t number) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    sn_buf b = sn_lower_buffer(lw, sn_strf(&lw->m->arena, "c%u", number), &n->type, SN_BUF_CONST);
    if (n->op == SN_OP_WEIGHT)
        sn_buf_get(lw->m, b)->weight = sn_wt_named(lw->m, sn_node_attr(lw->m, x, SN_ATTR_NAME)->text);
    else sn_buf_get(lw->m, b)->data = constant_data(lw, x);
    lw->nodes[x.i].buf = b;
}

/* The node whose kernel can store straight into an output: looks through reshapes that keep the element order. */
static sn_nd output_base(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    while (n->op == SN_OP_RESHAPE || n->op == SN_OP_SQUEEZE || n->op == SN_OP_UNSQUEEZE) {
        x = n->in[0];
        n = sn_node_get(lw->m, x);
    }
    return x;
}

/* ---- kernels ---- */

/* A prefix along an axis of one element is no scan: it would count iterations of a loop that is none (drop-units). */
static sn_val emit_scan(sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    sn_comb comb = (sn_comb)sn_ops[n->op].lop;
    sn_axis ax = sn_stmt_axis(lw->m, lw->at.parent);
    int64_t size, exclusive = sn_node_int(lw->m, x, SN_ATTR_EXCLUSIVE, 0);
    sn_val v = sn_put_cast(lw->m, lw->at, sn_compute_dtype(n->type.dtype), sn_lower_element(lw, n->in[0], index));
    if (!sn_ix_is_const(lw->m, sn_axis_get(lw->m, ax)->extent, &size) || size != 1)
        return sn_put_accum(lw->m, lw->at, comb, v, sn_ix_axis(lw->m, ax), exclusive);
    sn_val first = sn_put_identity(lw->m, lw->at, comb, 0, sn_val_get(lw->m, v)->dtype);
    return exclusive ? first : sn_put_op2(lw->m, lw->at, sn_comb_lops[comb], first, v);
}

static sn_val emit_realized(sn_lower_states *states, sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (sn_ops[n->op].cls == SN_OPS_SCAN) return emit_scan(lw, x, index);
    if (lw->nodes[x.i].attention) return sn_lower_attention(states, lw, x, index);
    if (n->op == SN_OP_MATMUL) return sn_lower_matmul(lw, x, index);
    if (n->op == SN_OP_CONV) return sn_lower_conv(lw, x, index);
    return sn_lower_element(lw, x, index);
}

/* The axis of x whose elements one nest gives together; its rank: none. */
static uint32_t together(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    uint32_t axis = lw->nodes[x.i].together, mask = axis ? sn_node_axes_mask(lw->m, x) : 0;
    if (!axis) return n->type.rank;
    if (sn_node_int(lw->m, x, SN_ATTR_KEEPDIM, 0)) return axis - 1;
    return axis - 1 - (uint32_t)__builtin_popcount(mask & ((1u << (axis - 1)) - 1));
}

/* One loop for each axis of x, in the order in which it is stored; that of a scan goes inside the others. An axis whose
 * elements are made together has none. */
static void open_loops(sn_lower *lw, sn_nd x, sn_ix *index) {
    static const char *const names[] = {"i", "j", "k", "l", "i4", "i5", "i6", "i7"};
    const sn_node_rec *n = sn_node_get(lw->m, x);
    bool scans = sn_ops[n->op].cls == SN_OPS_SCAN;
    uint32_t last = scans ? (uint32_t)sn_node_int(lw->m, x, SN_ATTR_AXIS, 0) : n->type.rank;
    uint32_t apart = together(lw, x);
    const int64_t *order = lw->nodes[x.i].order;
    for (uint32_t k = 0; k < n->type.rank; k++) {
        uint32_t axis = order ? (uint32_t)order[k] : k;
        if (axis != last && axis != apart) index[axis] = sn_lower_open_loop(lw, names[k], n->type.shape[axis]);
    }
    if (!scans) return;
    sn_ix extent = n->type.shape[last], at = sn_lower_open_loop(lw, names[last], extent);
    bool reverse = sn_node_int(lw->m, x, SN_ATTR_REVERSE, 0);
    index[last] = reverse ? sn_ix_sub(lw->m, sn_ix_addc(lw->m, extent, -1), at) : at;
}

/* What a node says of its kernel stands in the kernel's header. The rule of the operation has read it before. The
 * precision is not for schedules to say. */
static void pin_schedule(sn_lower *lw, sn_nd x) {
    const sn_attr *a = sn_node_attr(lw->m, x, SN_ATTR_SCHEDULE);
    sn_sched *sched = &sn_kern_get(lw->m, lw->kern)->sched;
    if (a) sn_sched_read(sched, lw->m->env, "schedule", a->text);
    sched->precision = sn_node_precision(lw->m, x);
}

/* One kernel that stores every element of x to b. */
static void make_kernel(sn_lower *lw, sn_nd x, sn_buf b) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    bool reduces = sn_ops[n->op].cls == SN_OPS_REDUCE;
    sn_lower_begin(lw);
    pin_schedule(lw, x);
    sn_ix index[SN_MAX_RANK] = {{0}};
    open_loops(lw, x, index);
    sn_val v[SN_MOST_TOGETHER];
    uint32_t count = 1, axis = together(lw, x);
    sn_lower_states states;
    if (reduces) count = sn_lower_reduction(lw, v, x, index);
    else v[0] = emit_realized(&states, lw, x, index);
    if (always_realized(lw, n)) sn_lower_note(lw, x, lw->first);
    for (uint32_t k = 0; k < count; k++) {
        if (axis < n->type.rank) index[axis] = sn_ix_const(lw->m, k);
        v[k] = sn_put_cast(lw->m, lw->at, n->type.dtype, v[k]);
        sn_put_store(lw->m, lw->at, b, sn_lower_place(lw, x, b, index), v[k]);
    }
    if (lw->nodes[x.i].attention) sn_lower_tell(lw, x, &states, index);
    if (!lw->note.n) sn_lower_from(lw, x);
    sn_lower_end(lw, lw->note.n ? lw->note.s : "copy");
}

void sn_lower_store(sn_lower *lw, sn_nd x, sn_buf b) { make_kernel(lw, x, b); }

/* A copy of the operand, then a kernel over the updates, whose stores go where the index says. */
static void make_scatter(sn_lower *lw, sn_nd x, sn_buf b) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    make_kernel(lw, n->in[0], b);
    sn_lower_begin(lw);
    sn_ix index[SN_MAX_RANK] = {{0}}, rows = n->type.shape[0];
    open_loops(lw, n->in[2], index);
    sn_ix to = sn_lower_from_end(lw, sn_lower_element(lw, n->in[1], index), rows);
    sn_val v = sn_put_cast(lw->m, lw->at, n->type.dtype, sn_lower_element(lw, n->in[2], index));
    sn_val inside = sn_put_in(lw->m, lw->at, to, rows);
    index[0] = sn_lower_clamped(lw, to, rows);
    sn_lower_note(lw, x, lw->first);
    sn_put_store_masked(lw->m, lw->at, b, sn_ix_flatten(lw->m, index, n->type.shape, n->type.rank), v, inside);
    sn_lower_end(lw, lw->note.s);
}

/* The operand and all parts of the updates. */
typedef struct combined {
    sn_lower_parts parts;
    sn_ix at; /* of the element in a part */
} combined;

static void emit_part(sn_lower *lw, void *user, const sn_ix *index, sn_val *yield) {
    const combined *c = user;
    yield[0] = sn_put_load(lw->m, lw->at, c->parts.buf, sn_ix_fma(lw->m, c->parts.size, index[0], c->at));
}

/* The element and what its updates come to. Where that is zero it stays as it is, -0.0 too: there may be none. */
static sn_val combined_with(sn_lower *lw, sn_comb comb, sn_val first, sn_val all) {
    sn_dtype dtype = sn_val_get(lw->m, first)->dtype;
    sn_val v = sn_put_op2(lw->m, lw->at, sn_comb_lops[comb], first, all);
    if (comb != SN_COMB_SUM || !sn_is_float(dtype)) return v;
    sn_val none = sn_put_op2(lw->m, lw->at, SN_LOP_EQ, all, sn_put_const(lw->m, lw->at, dtype, 0));
    return sn_put_op3(lw->m, lw->at, SN_LOP_SELECT, none, first, v);
}

static void make_combining_scatter(sn_lower *lw, sn_nd x, sn_buf b) {
    sn_module *m = lw->m;
    const sn_node_rec *n = sn_node_get(m, x);
    combined c;
    if (!sn_lower_scatter_parts(&c.parts, lw, x)) {
        sn_fail(m->env, SN_ERROR_UNSUPPORTED, "%s: has to be decomposed before to-loops", sn_ops[n->op].name);
        return;
    }
    sn_lower_begin(lw);
    sn_ix index[SN_MAX_RANK] = {{0}}, number = sn_ix_const(m, c.parts.number);
    open_loops(lw, x, index);
    c.at = sn_ix_flatten(m, index, n->type.shape, n->type.rank);
    sn_val part, v = sn_put_cast(m, lw->at, n->type.dtype, sn_lower_element(lw, n->in[0], index));
    for (int64_t p = 0; p < c.parts.number && c.parts.few; p++) {
        sn_ix at = sn_ix_const(m, p);
        emit_part(lw, &c, &at, &part);
        v = sn_put_op2(m, lw->at, sn_comb_lops[c.parts.comb], v, part);
    }
    if (!c.parts.few) {
        sn_lower_reduce_nest(lw, &part, c.parts.comb, 1, &n->type.dtype, &number, 1, emit_part, &c);
        v = combined_with(lw, c.parts.comb, v, part);
    }
    sn_lower_note(lw, x, lw->first);
    sn_put_store(m, lw->at, b, sn_lower_place(lw, x, b, index), v);
    sn_lower_end(lw, lw->note.s);
}

/* A convolution that nobody sees but through permutes, as the output k, is stored as that wants it. What it is seen
 * through has nobody left. */
static sn_nd permuted_conv(sn_lower *lw, sn_nd x) {
    int64_t perm[SN_MAX_RANK];
    sn_nd base = permuted_base(perm, lw, x);
    for (sn_nd at = x; !sn_nd_eq(at, base); at = sn_node_get(lw->m, at)->in[0])
        if (lw->nodes[at.i].users > 1) return x;
    if (sn_node_get(lw->m, base)->op != SN_OP_CONV || lw->nodes[base.i].users > 1 || !takes_order(lw, base)) return x;
    give_order(lw, base, perm);
    for (sn_nd at = x; !sn_nd_eq(at, base); at = sn_node_get(lw->m, at)->in[0]) lw->nodes[at.i].live = false;
    return base;
}

/* Others read the copy as it lies, not the output. */
static bool is_view_of_copy(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (sn_ops[n->op].cls != SN_OPS_VIEW || lw->nodes[x.i].users == 1) return false;
    while (sn_ops[n->op].cls == SN_OPS_VIEW) n = sn_node_get(lw->m, n->in[0]);
    return n->op == SN_OP_COPY;
}

/* A copy that an output shows with other sizes is that output, if no nest stores its result (conv, else x) so. */
static sn_nd stored_as_copied(const sn_lower *lw, sn_nd base, sn_nd stored) {
    bool own = sn_node_get(lw->m, base)->op == SN_OP_COPY && !lw->nodes[base.i].buf.i && lw->nodes[base.i].live;
    return own ? base : stored;
}

/* Outputs claim the node that computes them; what is left (an input, a constant, a node given twice) is copied. */
static void claim_outputs(sn_lower *lw) {
    sn_graph_ir *g = &lw->m->graph;
    for (uint32_t k = 0; k < g->outputs.n; k++) {
        sn_nd x = g->outputs.at[k].node;
        sn_buf b = sn_lower_buffer(lw, g->outputs.at[k].name, &sn_node_get(lw->m, x)->type, SN_BUF_OUTPUT);
        sn_buf_get(lw->m, b)->io = k;
        lw->outputs[k].buf = b;
        sn_nd base = output_base(lw, x);
        if (is_view_of_copy(lw, base)) continue;
        if (!always_realized(lw, sn_node_get(lw->m, base)) || lw->nodes[base.i].buf.i)
            base = stored_as_copied(lw, base, permuted_conv(lw, x));
        sn_lower_node *info = &lw->nodes[base.i];
        if (!info->buf.i && sn_node_get(lw->m, base)->op != SN_OP_INPUT) {
            info->buf = b;
            info->realized = true;
            lw->outputs[k].claimed = true;
        }
    }
}

static sn_status check_lowerable(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (is_sort(n) || is_sorted_part(lw, n) || sn_lower_combines(n) || sn_lower_is_repeated(lw, x)) return SN_OK;
    bool primitive = sn_ops[n->op].cls != SN_OPS_COMPOSITE && n->n_results == 1 && n->op != SN_OP_PROJECT &&
                     (sn_ops[n->op].lop >= 0 || (sn_ops[n->op].cls != SN_OPS_REDUCE && n->op != SN_OP_CLAMP));
    if (primitive) return SN_OK;
    return sn_fail(lw->m->env, SN_ERROR_UNSUPPORTED, "%s: has to be decomposed before to-loops", sn_ops[n->op].name);
}

/* The kernels of a sort, which fill the buffers of its projections. */
static sn_status lower_sort(sn_lower *lw, sn_nd x) {
    sn_buf out[2] = {{0}};
    for (uint32_t i = x.i + 1; i < lw->m->graph.nodes.count; i++) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        if (!lw->nodes[i].live || n->op != SN_OP_PROJECT || !sn_nd_eq(n->in[0], x)) continue;
        if (!lw->nodes[i].buf.i) lw->nodes[i].buf = sn_lower_temp(lw, &n->type);
        out[sn_node_int(lw->m, (sn_nd){i}, SN_ATTR_INDEX, 0)] = lw->nodes[i].buf;
    }
    return sn_lower_sort(lw, x, out);
}

static sn_status lower_node(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(lw->m, x);
    SN_TRY(check_lowerable(lw, x));
    if (n->op == SN_OP_REPEAT) return sn_lower_repeat(lw, x);
    if (n->op == SN_OP_COND) return sn_lower_cond(lw, x);
    if (is_sort(n)) return lower_sort(lw, x);
    if (n->op == SN_OP_INPUT || n->op == SN_OP_PROJECT || sn_lower_is_repeated(lw, x)) return SN_OK;
    if (has_data(n)) {
        /* An output that is a literal: stored by a copy from a buffer of its own. */
        sn_buf out = info->buf;
        make_const_buffer(lw, x, lw->constants++);
        if (out.i) make_kernel(lw, x, out);
        return SN_OK;
    }
    if (!info->realized || info->teller.i || info->made) return SN_OK;
    info->made = true;
    sn_buf b = info->buf;
    if (!b.i) b = sn_lower_temp_of(lw, x);
    info->buf = (sn_buf){0}; /* while its own kernel is made, it is computed, not loaded */
    if (n->op == SN_OP_SCATTER) make_scatter(lw, x, b);
    else if (sn_lower_combines(n)) make_combining_scatter(lw, x, b);
    else make_kernel(lw, x, b);
    info->buf = b;
    return SN_OK;
}

sn_status sn_lower_scope(sn_lower *lw, uint32_t scope, uint32_t end) {
    for (sn_nd x = {1}; x.i < end; x.i++) {
        if (!lw->nodes[x.i].live || lw->scope[x.i] != scope) continue;
        SN_TRY(lower_node(lw, x));
        for (sn_nd y = lw->nodes[x.i].follows; y.i; y = lw->nodes[y.i].beside) SN_TRY(lower_node(lw, y));
    }
    return SN_OK;
}

static void copy_other_outputs(sn_lower *lw) {
    const sn_graph_ir *g = &lw->m->graph;
    for (uint32_t k = 0; k < g->outputs.n; k++)
        if (!lw->outputs[k].claimed) make_kernel(lw, g->outputs.at[k].node, lw->outputs[k].buf);
}

sn_status sn_pass_to_loops(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    sn_graph_ir *g = &m->graph;
    if (g->outputs.n == 0 || m->kernels.n) return SN_OK;
    sn_lower lw = {.cx = cx, .m = m, .nodes = SN_NEWN(cx->scratch, sn_lower_node, g->nodes.count)};
    sn_repeat_scopes scopes;
    lw.outputs = SN_NEWN(cx->scratch, sn_lower_output, g->outputs.n);
    sn_names_init(&lw.names, cx->scratch);
    SN_TRY(sn_repeat_scopes_find(&scopes, m, cx->scratch));
    lw.scope = scopes.of;
    sn_text_init(&lw.note, m->env);
    count_users(&lw);
    find_constants(&lw);
    find_joined(&lw);
    find_kept(&lw);
    sn_lower_find_ranges(&lw);
    make_input_buffers(&lw);
    SN_TRY(sn_lower_check_sizes(&lw));
    sn_lower_make_states(&lw);
    claim_outputs(&lw);
    sn_lower_make_windows(&lw);
    sn_lower_make_branches(&lw);
    sn_lower_note_crossing(&lw);
    sn_lower_find_attentions(&lw);
    for (uint32_t i = 1; i < g->nodes.count; i++)
        if (lw.nodes[i].live) decide_node(&lw, (sn_nd){i});
    sn_status st = sn_lower_scope(&lw, 0, g->nodes.count);
    if (st == SN_OK) copy_other_outputs(&lw);
    sn_text_free(&lw.note);
    *changed = true;
    return st != SN_OK ? st : m->env->status;
}
