/* layout.c: the pass `layout`: convolutions and what stands between them become channels-last, where tensor copies
 * bring operands.
 *
 *     %a = conv %x, %w ;  %b = relu's maximum of %a ;  %y = conv %b, %v            (all [N, C, H, W])
 *  -> %0 = copy(permute %x) ;  %1 = copy(permute(conv of permutes of %0 and of %w, packed alike))
 *     %2 = maximum %1, 0 ;  %3 = copy %2 ;  %y = conv of permutes of %3 and of %v, packed alike
 *
 * A node that lies channels-last is a permute of its twin, and permutes move behind the operations that read them
 * (layout_sink.c), so that conversions meet and go, and those that stay stand at the edges of a region, where they
 * fuse with what is there. What convolutions themselves want is in layout_conv.c. Nodes that become channels-last
 *   - can be had so at no cost: results of such convolutions, tensors of the caller that lie so, permutes that end there, and
 *     what is computed from these in their shape; and
 *   - are wanted so: by a convolution, by a reduction over pixels or channels of what a convolution or the caller offers (not
 *     by those of a transformer behind a permute), by a permute that takes them there, and by what is computed from them and
 *     wanted so, channels that become pixels (the phases of a transposed convolution, a pixel shuffle) included.
 * Where all of a channel is summed, as the statistics of a batch norm in training are, channels stay together: a
 * kernel of few columns would have few blocks. What follows a convolution and ends in narrower elements is copied
 * where a reduction reads it, so that it is these that are stored behind the convolution and read again, and not its
 * sums. The image of a convolution of twins is one in any case, and stands in memory: a copy, which is no kernel
 * where a nest can store it. Inputs and outputs of the graph keep their order. to-loops sees to it that a copy of a
 * result is the way in which that is stored. Legality: always; sums over pixels are added up in another order. Cost:
 * linear in the graph; nothing is looked at where no convolution is done by tensor copies. Relies on sizes being
 * numbers.
 */
#include "ir/graph/build.h"
#include "passes/graph/layout.h"
#include "passes/graph/place.h"

enum {
    OFFERED = 1, /* channels-last at no cost */
    WANTED = 2,
    COPIED = 4,     /* the twin is in memory */
    NARROWED = 8,   /* elementwise, of elements that were wider */
    GATHERED = 16,  /* each channel is summed over all else: it had better lie together */
    CONVOLVED = 32, /* offered by a convolution or the caller, not by a permute alone */
    TAKEN = 64      /* a permute takes it channels-last, as it is or with what is computed from it in its shape */
};

typedef struct layout {
    sn_pass_ctx *cx;
    uint8_t *flags; /* by node of the graph as it was, as all that follows */
    uint8_t *way;   /* sn_layout_way of a convolution */
    uint8_t *input; /* by input: its flags */
    const sn_node_rec **nodes;
    sn_nd *live; /* but inputs, in the order in which they are rebuilt */
    uint32_t n, at;
} layout;

static bool is_last(uint8_t flags) { return (flags & COPIED) || ((flags & OFFERED) && (flags & WANTED)); }

static bool is_by_copies(sn_layout_way way) { return way >= SN_LAYOUT_LAST; }

static bool permutes_to(const sn_module *m, sn_nd x, void (*order)(int64_t *perm, uint32_t rank)) {
    const sn_node_rec *n = sn_node_get(m, x);
    int64_t perm[SN_MAX_RANK];
    if (n->op != SN_OP_PERMUTE || n->type.rank < 3) return false;
    order(perm, n->type.rank);
    return sn_layout_is(sn_node_attr(m, x, SN_ATTR_PERM)->ints.at, perm, n->type.rank);
}

/* ---- what stays ---- */

/* Does one number come of each channel of the whole batch? */
static bool gathers(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (sn_ops[n->op].cls != SN_OPS_REDUCE) return false;
    uint32_t rank = sn_type_of(m, n->in[0])->rank, all = (1u << rank) - 1;
    return rank > 2 && sn_node_axes_mask(m, x) == (all & ~2u);
}

/* What is summed so or taken channels-last, and what that is computed from in its shape. */
static void look_ahead(layout *l) {
    const sn_module *m = l->cx->m;
    for (uint32_t i = l->n; i-- > 0;) {
        sn_nd x = l->live[i];
        const sn_node_rec *n = sn_node_get(m, x);
        uint8_t flags = sn_node_is_elementwise(n) ? l->flags[x.i] & (GATHERED | TAKEN) : 0;
        if (gathers(m, x)) flags |= GATHERED;
        for (uint32_t k = 0; k < n->n_in && flags; k++)
            if (sn_layout_carries(m, x, k)) l->flags[n->in[k].i] |= flags;
        if (permutes_to(m, x, sn_layout_last)) l->flags[n->in[0].i] |= TAKEN;
    }
}

/* ---- what can be had ---- */

static bool lies_last(const sn_module *m, sn_nd x) {
    sn_place p;
    int64_t rank = sn_type_of(m, x)->rank;
    return rank > 2 && sn_place_of(&p, m, x) && p.stride[1] == 1 && p.size[1] > 1 &&
           sn_place_is_aligned(&p, 1, sn_place_unit(p.dtype));
}

/* Has an operand that x passes on one of these flags? */
static bool carried(const layout *l, sn_nd x, uint8_t flags) {
    const sn_module *m = l->cx->m;
    const sn_node_rec *n = sn_node_get(m, x);
    for (uint32_t k = 0; k < n->n_in && sn_layout_sinks(m, x); k++)
        if (sn_layout_carries(m, x, k) && (l->flags[n->in[k].i] & flags)) return true;
    return false;
}

static bool is_offered(layout *l, sn_nd x) {
    const sn_module *m = l->cx->m;
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op == SN_OP_INPUT) return lies_last(m, x);
    if (n->op == SN_OP_CONV) {
        bool image = l->flags[n->in[0].i] & OFFERED;
        l->way[x.i] = (uint8_t)sn_layout_way_of(l->cx, x, image, l->flags[x.i] & TAKEN);
        if ((l->flags[x.i] & GATHERED) || l->way[x.i] == SN_LAYOUT_GRADIENT) return false;
        if (l->way[x.i] == SN_LAYOUT_NONE || l->way[x.i] == SN_LAYOUT_FIRST) return false;
        return l->way[x.i] != SN_LAYOUT_ANY || image;
    }
    /* with one axis of pixels the way there and the way back are one permute: what lies channels-last goes there */
    if (permutes_to(m, x, sn_layout_back)) return n->type.rank > 3 || !(l->flags[n->in[0].i] & OFFERED);
    return carried(l, x, OFFERED);
}

/* Is it more than a permute that offers x? */
static bool is_convolved(const layout *l, sn_nd x) {
    sn_op op = sn_node_get(l->cx->m, x)->op;
    return op == SN_OP_INPUT || op == SN_OP_CONV || carried(l, x, CONVOLVED);
}

static bool is_narrowed(const layout *l, sn_nd x) {
    const sn_module *m = l->cx->m;
    const sn_node_rec *n = sn_node_get(m, x);
    if (sn_layout_widens(m, x)) return false;
    if (n->op == SN_OP_CAST) return sn_dtype_bytes(n->type.dtype) < sn_dtype_bytes(sn_type_of(m, n->in[0])->dtype);
    for (uint32_t k = 0; k < n->n_in && sn_node_is_elementwise(n); k++)
        if (sn_layout_carries(m, x, k) && (l->flags[n->in[k].i] & NARROWED)) return true;
    return false;
}

/* ---- what is wanted ---- */

static void want(layout *l, sn_nd x, uint8_t flags) { l->flags[x.i] |= flags; }

static void want_in_memory(layout *l, sn_nd x) {
    for (; sn_layout_widens(l->cx->m, x); x = sn_node_get(l->cx->m, x)->in[0]) want(l, x, WANTED);
    want(l, x, WANTED | COPIED);
}

/* What reads either order takes its image from memory as it is offered. */
static void want_image(layout *l, sn_nd x, sn_nd image) {
    bool offered = l->flags[image.i] & OFFERED, wanted = l->flags[x.i] & WANTED;
    sn_layout_way way = (sn_layout_way)l->way[x.i];
    if (way == SN_LAYOUT_LAST) want_in_memory(l, image);
    if ((way == SN_LAYOUT_PRODUCT || (way == SN_LAYOUT_ANY && wanted)) && offered) want_in_memory(l, image);
}

/* Are only axes reduced that windows have brought, so that pixels stay? */
static bool reduces_windows(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x), *in = sn_node_get(m, n->in[0]);
    uint32_t rank = in->type.rank, windows = 0;
    for (; in->op == SN_OP_UNFOLD; in = sn_node_get(m, in->in[0])) windows++;
    return windows && sn_node_axes_mask(m, x) >> (rank - windows) << (rank - windows) == sn_node_axes_mask(m, x);
}

/* Of what a reduction reads, what would be computed again. */
static void want_narrowed(layout *l, sn_nd x) {
    const sn_module *m = l->cx->m;
    const sn_node_rec *n = sn_node_get(m, x);
    for (; n->op == SN_OP_UNFOLD || n->op == SN_OP_PAD || sn_layout_widens(m, x); n = sn_node_get(m, x)) x = n->in[0];
    if (l->flags[x.i] & NARROWED) want(l, x, WANTED | COPIED);
}

/* y of a permute x of reshape(y), which takes channels apart, [N, C1, .., Ck, S1, .., Sn]: some of them go to the pixels. None: x is
 * something else. */
static sn_nd spread_from(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x), *split = n->n_in ? sn_node_get(m, n->in[0]) : n;
    if (n->op != SN_OP_PERMUTE || split->op != SN_OP_RESHAPE) return (sn_nd){0};
    const sn_type *from = sn_type_of(m, split->in[0]), *parts = &split->type;
    const int64_t *perm = sn_node_attr(m, x, SN_ATTR_PERM)->ints.at;
    uint32_t rank = from->rank, more = parts->rank - rank;
    bool spreads = rank > 2 && parts->rank > rank && perm[0] == 0 && perm[1] <= 1 + (int64_t)more;
    for (uint32_t k = 0; k < rank && spreads; k++)
        if (k != 1) spreads = sn_ix_eq(from->shape[k], parts->shape[k ? k + more : 0]);
    return spreads ? split->in[0] : (sn_nd){0};
}

static void want_operands(layout *l, sn_nd x) {
    const sn_module *m = l->cx->m;
    const sn_node_rec *n = sn_node_get(m, x);
    if (sn_ops[n->op].cls == SN_OPS_REDUCE) want_narrowed(l, n->in[0]);
    if (n->op == SN_OP_CONV) {
        want_image(l, x, n->in[0]);
    } else if (permutes_to(m, x, sn_layout_last)) {
        want(l, n->in[0], WANTED);
    } else if (sn_ops[n->op].cls == SN_OPS_REDUCE && sn_type_of(m, n->in[0])->rank > 2 && !reduces_windows(m, x) &&
               !gathers(m, x) && (l->flags[n->in[0].i] & CONVOLVED)) {
        want(l, n->in[0], WANTED);
    } else if (sn_layout_sinks(m, x) && (l->flags[x.i] & WANTED)) {
        for (uint32_t k = 0; k < n->n_in; k++)
            if (sn_layout_carries(m, x, k)) want(l, n->in[k], WANTED);
    } else if (l->flags[x.i] & WANTED) {
        sn_nd from = spread_from(m, x);
        if (from.i) want(l, from, WANTED);
    }
}

/* Is there anything to do? */
static bool decide(layout *l) {
    const sn_module *m = l->cx->m;
    uint8_t *live = SN_NEWN(l->cx->scratch, uint8_t, m->graph.nodes.count + 1);
    bool any = false;
    sn_graph_live(m, live);
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++)
        if (live[x.i] && sn_node_get(m, x)->op != SN_OP_INPUT) l->live[l->n++] = x;
    look_ahead(l);
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++) {
        const sn_node_rec *n = sn_node_get(m, x);
        if (!live[x.i] && n->op != SN_OP_INPUT) continue;
        if (is_offered(l, x))
            want(l, x, OFFERED | (is_narrowed(l, x) ? NARROWED : 0) | (is_convolved(l, x) ? CONVOLVED : 0));
        any |= is_by_copies((sn_layout_way)l->way[x.i]) || l->way[x.i] == SN_LAYOUT_FIRST;
        l->nodes[x.i] = n;
    }
    for (uint32_t i = l->n; i-- > 0;) want_operands(l, l->live[i]);
    for (uint32_t k = 0; k < m->graph.inputs.n; k++) l->input[k] = l->flags[m->graph.inputs.at[k].node.i];
    return any;
}

/* ---- rebuilding ---- */

static sn_nd convolution(layout *l, sn_nd was, sn_nd x) {
    static const char *const how[] = {[SN_LAYOUT_LAST] = "channels-last",
                                      [SN_LAYOUT_PATCHES] = "as a product of patches",
                                      [SN_LAYOUT_JOINED] = "with taps joined to channels",
                                      [SN_LAYOUT_GRADIENT] = "with a sum over pixels"};
    sn_module *m = l->cx->m;
    sn_layout_way way = (sn_layout_way)l->way[was.i];
    const char *name = l->nodes[was.i]->name;
    if (is_by_copies(way)) sn_remark(l->cx, name ? name : "graph", "conv %s", how[way]);
    if (way == SN_LAYOUT_LAST) x = sn_layout_conv_last(m, x);
    if (way == SN_LAYOUT_PATCHES) x = sn_layout_conv_patches(m, x);
    if (way == SN_LAYOUT_JOINED) x = sn_layout_conv_joined(m, x);
    if (way == SN_LAYOUT_GRADIENT) x = sn_layout_conv_gradient(m, x);
    if (way == SN_LAYOUT_FIRST) x = sn_layout_conv_first(m, x);
    if (way == SN_LAYOUT_PRODUCT) x = sn_layout_conv_product(m, x);
    return x.i && is_last(l->flags[was.i]) ? sn_layout_laid_out(m, x) : x;
}

/* An input that has a copy is read from that. */
static sn_nd converted_input(layout *l, sn_nd x) {
    const sn_node_rec *n = sn_node_get(l->cx->m, x);
    bool last = n->op == SN_OP_INPUT && is_last(l->input[n->input]);
    return last ? sn_layout_laid_out(l->cx->m, x) : x;
}

/* The operand that x takes its order from comes first of those that can give it. */
static sn_nd on_twins(layout *l, sn_nd was, sn_nd x) {
    sn_module *m = l->cx->m;
    const sn_node_rec *old = l->nodes[was.i], *n = sn_node_get(m, x);
    for (uint32_t k = 0; k < n->n_in; k++) {
        if (!is_last(l->flags[old->in[k].i]) || !sn_layout_carries(m, x, k)) continue;
        sn_nd *in = SN_NEWN(l->cx->scratch, sn_nd, n->n_in);
        for (uint32_t i = 0; i < n->n_in; i++) in[i] = converted_input(l, n->in[i]);
        x = sn_graph_node(m, n->op, in, n->n_in, n->attrs, n->n_attrs);
        return x.i ? sn_layout_sunk(l->cx, x, k) : x;
    }
    return x;
}

static sn_nd rule(sn_pass_ctx *cx, sn_nd x) {
    layout *l = cx->notes;
    SN_ASSERT(l->at < l->n);
    sn_nd was = l->live[l->at++];
    uint8_t flags = l->flags[was.i];
    if (l->nodes[was.i]->op == SN_OP_CONV) return convolution(l, was, x);
    if (l->nodes[was.i]->op == SN_OP_PERMUTE)
        x = sn_layout_permuted(cx->m, sn_node_get(cx->m, x)->in[0], sn_node_attr(cx->m, x, SN_ATTR_PERM)->ints.at);
    if (is_last(flags) && sn_layout_sinks(cx->m, x)) x = on_twins(l, was, x);
    return x.i && (flags & COPIED) ? sn_layout_laid_out(cx->m, x) : x;
}

sn_status sn_pass_layout(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    uint32_t n = m->graph.nodes.count + 1;
    if (m->kernels.n || !cx->target->is_gpu) return SN_OK;
    layout l = {.cx = cx,
                .flags = SN_NEWN(cx->scratch, uint8_t, n),
                .way = SN_NEWN(cx->scratch, uint8_t, n),
                .input = SN_NEWN(cx->scratch, uint8_t, m->graph.inputs.n + 1),
                .nodes = SN_NEWN(cx->scratch, const sn_node_rec *, n),
                .live = SN_NEWN(cx->scratch, sn_nd, n)};
    if (!decide(&l)) return m->env->status;
    cx->notes = &l;
    sn_status status = sn_graph_rewrite(cx, rule, changed);
    cx->notes = NULL;
    return status;
}
