/* decompose_conv.c: a convolution whose image has zeros between its elements becomes convolutions of the image
 * alone. Part of the pass `decompose`.
 *
 *     %y = conv %x, %w padding=[2] input_dilation=[2]         (%x: f32[1, 3, 8], %w: f32[5, 3, 3], %y: f32[1, 5, 17])
 *  -> %0 = slice %w axis=2 start=0 stop=3 step=2 ;  %1 = conv %x, %0 padding=[1]              the even results: taps 0 and 2
 *     %2 = slice %w axis=2 start=1 stop=3 step=2 ;  %3 = conv %x, %2 padding=[0, 1]           the odd ones: tap 1
 *     side by side, and cut to 17
 *
 * Of the zeros a tap meets none or nothing else, depending on the result's position. With u elements between those of x, stride s
 * and dilation d, results r, r + u', .. (u' = u / gcd(s, u)) have all the same taps k, those with r*s + k*d = low mod u: they are a
 * *phase*, a dense convolution with stride s / gcd(s, u) and dilation d / gcd(d, u) of every u / gcd(d, u)-th tap. Where all phases of an axis
 * have equally many taps (s = d = 1, and u divides the kernel: the usual upsampling), they are one convolution with
 * u times the channels, for with k = t*u + j, result q*u + r reads x[q - t] for all r at once when r counts from
 * where tap u - 1 meets x[0].
 *
 * On a GPU taps of zeros make them equally many, where multiplying by these takes less time than other convolutions take to begin (3 taps of
 * 2 phases: an infinity that they meet makes nan).
 *
 * Legality: always; the sums have the same terms, in the same order but for zeros. It is left to `to-loops` where
 * padding would depend on sizes that are not known, where there would be more than MOST_PHASES convolutions, and
 * where a schedule is pinned. Cost: nodes linear in the phases. Phases that are separate are written twice: by
 * themselves, and put together.
 */
#include "ir/graph/build.h"
#include "ir/graph/conv.h"
#include "ir/index/ix.h"
#include "passes/graph/choices.h"
#include "passes/graph/decompose.h"

enum { MOST_PHASES = 64, MOST_APART = 1 << 20 };

/* How one axis is taken apart. */
typedef struct axis_plan {
    bool joined;              /* phases are channels of one convolution; else each is one */
    int64_t phases;           /* u' */
    int64_t stride, dilation; /* of the dense convolutions */
    int64_t step;             /* from one tap of a phase to its next one */
    int64_t skip, cut;        /* elements before and after the results, when phases stand side by side */
    sn_ix count;              /* results of each phase */
} axis_plan;

typedef struct conv_plan {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_nd x, w;
    sn_type y;
    sn_conv_geometry g, dense; /* dense: of the convolution that is being made */
    int64_t kernel[SN_CONV_AXES];
    axis_plan axis[SN_CONV_AXES];
    sn_conv_more more;
    bool failed;
} conv_plan;

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

static int64_t floor_mod(int64_t a, int64_t n) { return (a % n + n) % n; }

/* The phase with result r of axis k: its first tap, at how many elements before x it begins, and its taps, perhaps
 * none. */
typedef struct phase {
    int64_t first, low, taps;
} phase;

static phase phase_of(const conv_plan *p, uint32_t k, int64_t r) {
    const sn_conv_geometry *g = &p->g;
    int64_t apart = g->input_dilation[k], start = r * g->stride[k] - g->low[k];
    for (int64_t tap = 0; tap < p->axis[k].step && tap < p->kernel[k]; tap++) {
        int64_t at = start + tap * g->dilation[k];
        if (floor_mod(at, apart)) continue;
        return (phase){tap, -(at / apart), (p->kernel[k] - tap + p->axis[k].step - 1) / p->axis[k].step};
    }
    return (phase){0};
}

/* Padding at the high end for `count` results from `taps` taps; is it a number? */
static bool high_end(int64_t *out, const conv_plan *p, uint32_t k, int64_t taps, int64_t low) {
    const axis_plan *a = &p->axis[k];
    sn_module *m = p->m;
    sn_ix last = sn_ix_scale(m, sn_ix_addc(m, a->count, -1), a->stride);
    sn_ix need = sn_ix_addc(m, last, (taps - 1) * a->dilation + 1 - low);
    return sn_ix_is_const(m, sn_ix_sub(m, need, sn_graph_type(m, p->x)->shape[2 + k]), out);
}

/* ---- taps of zeros ---- */

/* Of an axis, with so many behind them that all phases have equally many. */
static int64_t even_taps(const conv_plan *p, uint32_t k) {
    int64_t apart = p->g.input_dilation[k], taps = p->kernel[k];
    bool joins = apart > 1 && p->g.stride[k] == 1 && p->g.dilation[k] == 1 && taps > apart;
    return joins ? (taps + apart - 1) / apart * apart : taps;
}

/* Cycles in which a GPU multiplies by zeros then; 0: sizes are not known, or there are no zeros. */
static double idle_cycles(const conv_plan *p, sn_nd x) {
    enum { HALF = 2 };
    sn_choice_question q = {.target = p->cx->target, .m = p->m, .product = &(sn_product){.node = x}};
    const sn_type *w = sn_graph_type(p->m, p->w);
    double taps = 1, even = 1, products = sn_choice_products(&q, w->dtype);
    int64_t size;
    for (uint32_t k = 0; k < p->g.n; k++) {
        taps *= (double)p->kernel[k], even *= (double)even_taps(p, k);
        products /= (double)p->g.input_dilation[k];
    }
    for (uint32_t k = 0; k <= p->y.rank; k++) {
        if (!sn_ix_is_const(p->m, k < p->y.rank ? p->y.shape[k] : w->shape[1], &size)) return 0;
        products *= (double)size;
    }
    return products * (even - taps) / ((double)SN_CHOICE_BROUGHT / HALF * p->cx->target->units);
}

/* One convolution does all phases, zeros included, sooner than it takes to begin as many as there are, each with a copy of its weights. */
static void even_phases(conv_plan *p, sn_nd x) {
    int64_t convolutions = 1, high[SN_MAX_RANK] = {0};
    const int64_t low[SN_MAX_RANK] = {0};
    const sn_type *w = sn_graph_type(p->m, p->w);
    for (uint32_t k = 0; k < p->g.n; k++) convolutions *= p->g.input_dilation[k];
    double idle = p->cx->target->is_gpu && p->g.groups == 1 && w->dtype != SN_F64 ? idle_cycles(p, x) : 0;
    if (idle <= 0 || idle > (double)(convolutions - 1) * SN_PHASE_KERNELS * SN_LAUNCH) return;
    for (uint32_t k = 0; k < p->g.n; k++) high[2 + k] = even_taps(p, k) - p->kernel[k], p->kernel[k] = even_taps(p, k);
    p->w = sn_graph_pad(p->m, p->w, low, high, 0);
}

static bool plan_axis(conv_plan *p, uint32_t k) {
    sn_module *m = p->m;
    axis_plan *a = &p->axis[k];
    int64_t apart = p->g.input_dilation[k], s = p->g.stride[k], d = p->g.dilation[k], high;
    if (apart > MOST_APART) return false;
    *a = (axis_plan){.phases = apart / gcd(s, apart),
                     .stride = s / gcd(s, apart),
                     .dilation = d / gcd(d, apart),
                     .step = apart / gcd(d, apart)};
    a->joined = apart > 1 && s == 1 && d == 1 && p->kernel[k] % apart == 0;
    if (a->joined) a->skip = apart - 1 - floor_mod(p->g.low[k], apart);
    sn_ix results = sn_ix_addc(m, p->y.shape[2 + k], a->skip);
    a->count = sn_ix_ceildiv(m, results, sn_ix_const(m, a->phases));
    sn_ix all = sn_ix_scale(m, a->count, a->phases);
    return sn_ix_is_const(m, sn_ix_sub(m, all, results), &a->cut) && high_end(&high, p, k, 1, 0);
}

/* ---- weights ---- */

/* Phases come before channels, which stay neighbours where they lie innermost; behind them where channels are of groups. */
static bool is_phase_first(const conv_plan *p) { return p->g.groups == 1; }

/* w[O, C, T1*u1, ..] as w[u1*..*O, C, T1, ..] for the axes whose phases are joined; channel (j, .., o) has taps u - 1 -
 * j, .. */
static sn_nd join_weights(conv_plan *p) {
    sn_module *m = p->m;
    sn_type t = *sn_graph_type(m, p->w);
    sn_ix split[SN_MAX_RANK] = {t.shape[0], t.shape[1]}, out[SN_MAX_RANK] = {t.shape[0], t.shape[1]};
    int64_t flip[SN_CONV_AXES], perm[SN_MAX_RANK] = {0};
    uint32_t rank = 2, joined = 0, at[SN_CONV_AXES];
    for (uint32_t k = 0; k < p->g.n; k++) {
        const axis_plan *a = &p->axis[k];
        at[k] = rank;
        split[rank++] = sn_ix_const(m, a->joined ? p->kernel[k] / a->phases : p->kernel[k]);
        out[2 + k] = split[at[k]];
        if (!a->joined) continue;
        flip[joined++] = rank;
        split[rank++] = sn_ix_const(m, a->phases);
        out[0] = sn_ix_scale(m, out[0], a->phases);
    }
    if (!joined) return p->w;
    uint32_t first = is_phase_first(p) ? 0 : 1;
    for (uint32_t k = 0; k < joined; k++) perm[first + k] = flip[k];
    perm[first ? 0 : joined] = 0, perm[1 + joined] = 1;
    for (uint32_t k = 0; k < p->g.n; k++) perm[2 + joined + k] = at[k];
    sn_attr attr = {.id = SN_ATTR_AXES, .ints = {flip, joined}};
    sn_nd w = sn_graph_reshape(m, p->w, split, rank);
    w = w.i ? sn_graph_node(m, SN_OP_FLIP, &w, 1, &attr, 1) : w;
    return w.i ? sn_graph_reshape(m, sn_graph_permute(m, w, perm, rank), out, 2 + p->g.n) : w;
}

/* ---- results ---- */

static sn_nd cut_axis(const conv_plan *p, sn_nd y, uint32_t k) {
    const axis_plan *a = &p->axis[k];
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0}, size;
    if (!y.i || (!a->skip && !a->cut)) return y;
    if (sn_ix_is_const(p->m, p->y.shape[2 + k], &size))
        return sn_graph_slice(p->m, y, 2 + k, a->skip, a->skip + size, 1);
    low[2 + k] = -a->skip, high[2 + k] = -a->cut;
    return sn_graph_pad(p->m, y, low, high, 0);
}

/* y[N, u1*..*O, Q1, ..] as y[N, O, Q1*u1, ..] for the axes whose phases are joined. */
static sn_nd spread_channels(const conv_plan *p, sn_nd y) {
    sn_module *m = p->m;
    sn_type t = *sn_graph_type(m, y);
    sn_ix split[SN_MAX_RANK] = {t.shape[0]}, out[SN_MAX_RANK] = {t.shape[0], p->y.shape[1]};
    int64_t perm[SN_MAX_RANK] = {0};
    uint32_t first = is_phase_first(p) ? 1 : 2, rank = first, joined = 0, to = 2;
    for (uint32_t k = 0; k < p->g.n; k++)
        if (p->axis[k].joined) split[rank++] = sn_ix_const(m, p->axis[k].phases);
    perm[1] = first == 1 ? rank++ : 1;
    split[perm[1]] = p->y.shape[1];
    for (uint32_t k = 0; k < p->g.n; k++) {
        perm[to++] = rank;
        split[rank++] = t.shape[2 + k];
        out[2 + k] = t.shape[2 + k];
        if (!p->axis[k].joined) continue;
        perm[to++] = first + joined++;
        out[2 + k] = sn_ix_scale(m, out[2 + k], p->axis[k].phases);
    }
    if (!joined || !y.i) return y;
    y = sn_graph_reshape(m, sn_graph_permute(m, sn_graph_reshape(m, y, split, rank), perm, rank), out, 2 + p->g.n);
    for (uint32_t k = 0; k < p->g.n; k++)
        if (p->axis[k].joined) y = cut_axis(p, y, k);
    return y;
}

/* Phases of axis k, results 0, 1, .. of each in turn. */
static sn_nd interleave(const conv_plan *p, const sn_nd *parts, uint32_t k) {
    sn_module *m = p->m;
    sn_nd rows[MOST_PHASES];
    const axis_plan *a = &p->axis[k];
    int64_t next = 3 + k;
    if (a->phases == 1) return cut_axis(p, parts[0], k);
    for (int64_t r = 0; r < a->phases; r++) {
        if (!parts[r].i) return (sn_nd){0};
        rows[r] = sn_graph_unsqueeze(m, parts[r], &next, 1);
    }
    sn_type t = *sn_graph_type(m, parts[0]);
    t.shape[2 + k] = sn_ix_scale(m, t.shape[2 + k], a->phases);
    return cut_axis(p, sn_graph_reshape(m, sn_graph_concat(m, rows, (uint32_t)a->phases, next), t.shape, t.rank), k);
}

/* No tap meets an element of x; axes before k are in phases. */
static sn_nd zeros(const conv_plan *p, uint32_t k) {
    sn_type t = p->y;
    for (uint32_t a = 0; a < k; a++)
        if (!p->axis[a].joined) t.shape[2 + a] = p->axis[a].count;
    return sn_graph_full(p->m, t.dtype, 0, t.shape, t.rank);
}

static sn_nd separate(conv_plan *p, sn_nd w, uint32_t k, bool empty);

/* With axis k in one phase; every: of its taps in w. */
static sn_nd with_phase(conv_plan *p, sn_nd w, uint32_t k, phase ph, bool every) {
    const axis_plan *a = &p->axis[k];
    sn_conv_geometry *g = &p->dense;
    g->stride[k] = a->stride, g->dilation[k] = a->dilation, g->low[k] = ph.low;
    if (ph.taps && !high_end(&g->high[k], p, k, ph.taps, ph.low)) return p->failed = true, (sn_nd){0};
    if (ph.taps && !every && a->step > 1) w = sn_graph_slice(p->m, w, 2 + k, ph.first, p->kernel[k], a->step);
    return separate(p, w, k + 1, !ph.taps);
}

/* Axes k and on; `empty`: a phase of one before has no taps. */
static sn_nd separate(conv_plan *p, sn_nd w, uint32_t k, bool empty) {
    sn_nd parts[MOST_PHASES];
    if (empty) return zeros(p, k);
    if (k == p->g.n) return spread_channels(p, sn_graph_conv(p->m, p->x, w, &p->dense, p->more));
    const axis_plan *a = &p->axis[k];
    if (a->joined) {
        int64_t low = p->g.low[k], from = (low - floor_mod(low, a->phases)) / a->phases;
        return with_phase(p, w, k, (phase){0, from, p->kernel[k] / a->phases}, true);
    }
    if (p->g.input_dilation[k] == 1) return with_phase(p, w, k, (phase){0, p->g.low[k], p->kernel[k]}, true);
    for (int64_t r = 0; r < a->phases; r++) parts[r] = with_phase(p, w, k, phase_of(p, k, r), false);
    return interleave(p, parts, k);
}

sn_nd sn_dec_conv(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *n = sn_node_get(cx->m, x);
    const sn_attr *precision = sn_node_attr(cx->m, x, SN_ATTR_PRECISION);
    conv_plan p = {.cx = cx, .m = cx->m, .x = n->in[0], .w = n->in[1], .y = n->type, .g = sn_node_conv(cx->m, x)};
    int64_t convolutions = 1;
    bool dense = true;
    for (uint32_t k = 0; k < p.g.n; k++) dense = dense && p.g.input_dilation[k] == 1;
    if (dense || sn_node_attr(cx->m, x, SN_ATTR_SCHEDULE)) return x;
    for (uint32_t k = 0; k < p.g.n; k++)
        if (!sn_ix_is_const(cx->m, sn_graph_type(cx->m, p.w)->shape[2 + k], &p.kernel[k])) return x;
    even_phases(&p, x);
    for (uint32_t k = 0; k < p.g.n; k++) {
        if (!p.w.i || !plan_axis(&p, k)) return x;
        if (!p.axis[k].joined && (convolutions *= p.axis[k].phases) > MOST_PHASES) return x;
    }
    p.more = (sn_conv_more){precision, precision ? 1 : 0};
    p.dense = sn_conv_plain(p.g.n);
    p.dense.groups = p.g.groups;
    sn_nd y = separate(&p, join_weights(&p), 0, false);
    return p.failed ? x : y;
}
