/* conv.c: the geometry of convolutions from and to attributes, and gradients as convolutions (ir/graph/conv.h).
 *
 * Relies on the rule of `conv` (rules_conv.c) to refuse what makes no sense. Where the padding at a high end depends
 * on a size that is known at run time alone, a gradient is refused here.
 */
#include "ir/graph/conv.h"

#include "ir/graph/build.h"
#include "ir/index/ix.h"

/* ---- geometry ---- */

sn_conv_geometry sn_conv_plain(uint32_t n) {
    sn_conv_geometry c = {.n = n, .groups = 1};
    for (uint32_t k = 0; k < n; k++) c.stride[k] = c.dilation[k] = c.input_dilation[k] = 1;
    return c;
}

sn_conv_geometry sn_conv_of(uint32_t n, const sn_attr *attrs, uint32_t n_attrs) {
    sn_conv_geometry c = sn_conv_plain(n);
    for (uint32_t i = 0; i < n_attrs; i++) {
        const sn_attr *a = &attrs[i];
        if (a->id == SN_ATTR_GROUPS) c.groups = a->i;
        for (uint32_t k = 0; k < n; k++) {
            if (a->id == SN_ATTR_STRIDE) c.stride[k] = a->ints.at[k];
            if (a->id == SN_ATTR_DILATION) c.dilation[k] = a->ints.at[k];
            if (a->id == SN_ATTR_INPUT_DILATION) c.input_dilation[k] = a->ints.at[k];
            if (a->id != SN_ATTR_PADDING) continue;
            c.low[k] = a->ints.at[k];
            c.high[k] = a->ints.at[a->ints.n > n ? n + k : k];
        }
    }
    return c;
}

sn_conv_geometry sn_node_conv(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    return sn_conv_of(n->type.rank - 2, n->attrs, n->n_attrs);
}

static void put_list(sn_conv_attrs *out, sn_attr_id id, const int64_t *at, uint32_t n, int64_t otherwise) {
    bool plain = true;
    for (uint32_t k = 0; k < n; k++) plain = plain && at[k] == otherwise;
    if (!plain) out->at[out->n++] = (sn_attr){.id = id, .ints = {at, n}};
}

void sn_conv_attrs_of(sn_conv_attrs *out, const sn_conv_geometry *c) {
    bool even = true;
    for (uint32_t k = 0; k < c->n; k++) {
        out->padding[k] = c->low[k];
        out->padding[c->n + k] = c->high[k];
        even = even && c->low[k] == c->high[k];
    }
    out->n = 0;
    put_list(out, SN_ATTR_STRIDE, c->stride, c->n, 1);
    put_list(out, SN_ATTR_PADDING, out->padding, even ? c->n : 2 * c->n, 0);
    put_list(out, SN_ATTR_DILATION, c->dilation, c->n, 1);
    put_list(out, SN_ATTR_INPUT_DILATION, c->input_dilation, c->n, 1);
    if (c->groups != 1) out->at[out->n++] = (sn_attr){.id = SN_ATTR_GROUPS, .i = c->groups};
}

static bool check_list(sn_module *m, const char *who, const char *name, const int64_t *at, uint32_t n, int64_t lowest) {
    for (uint32_t k = 0; k < n; k++) {
        if (at[k] >= lowest && at[k] <= SN_CONV_MOST) continue;
        sn_fail(m->env, SN_ERROR_TYPE, "%s: %s %lld is not in %lld .. %d", who, name, (long long)at[k],
                (long long)lowest, SN_CONV_MOST);
        return false;
    }
    return true;
}

bool sn_conv_check(sn_module *m, const char *who, const sn_conv_geometry *c) {
    return check_list(m, who, "stride", c->stride, c->n, 1) && check_list(m, who, "dilation", c->dilation, c->n, 1) &&
           check_list(m, who, "input_dilation", c->input_dilation, c->n, 1) &&
           check_list(m, who, "padding", c->low, c->n, -SN_CONV_MOST) &&
           check_list(m, who, "padding", c->high, c->n, -SN_CONV_MOST) &&
           check_list(m, who, "groups", &c->groups, 1, 1);
}

/* ---- building ---- */

sn_nd sn_graph_conv(sn_module *m, sn_nd x, sn_nd w, const sn_conv_geometry *c, sn_conv_more more) {
    sn_attr attrs[SN_N_ATTRS];
    sn_conv_attrs own;
    if (!x.i || !w.i) return (sn_nd){0};
    sn_conv_attrs_of(&own, c);
    for (uint32_t k = 0; k < own.n; k++) attrs[k] = own.at[k];
    for (uint32_t k = 0; k < more.n; k++) attrs[own.n + k] = more.at[k];
    return sn_graph_node(m, SN_OP_CONV, (sn_nd[]){x, w}, 2, attrs, own.n + more.n);
}

/* Are these operands of a convolution over c->n axes? What else they have to be the rule of conv says. */
static bool check_operands(sn_module *m, const char *who, sn_nd x, sn_nd y, const sn_conv_geometry *c) {
    if (!x.i || !y.i || !sn_conv_check(m, who, c)) return false;
    const sn_type *a = sn_graph_type(m, x), *b = sn_graph_type(m, y);
    if (c->n >= 1 && c->n <= SN_CONV_AXES && a->rank == c->n + 2 && b->rank == c->n + 2) return true;
    sn_fail(m->env, SN_ERROR_TYPE,
            "%s: operands %s and %s do not both have a batch axis, channels and 1 to %d spatial axes", who,
            sn_type_text(m, a), sn_type_text(m, b), SN_CONV_AXES);
    return false;
}

/* Axis `axis` of x[.., groups*n, ..] as [.., groups, n, ..]. */
static sn_nd split_groups(sn_module *m, const char *who, sn_nd x, uint32_t axis, int64_t groups) {
    sn_type t = *sn_graph_type(m, x);
    sn_ix shape[SN_MAX_RANK], part;
    if (groups < 1 || !sn_ix_is_multiple(m, t.shape[axis], groups)) {
        sn_fail(m->env, SN_ERROR_TYPE, "%s: axis %u of %s does not divide into %lld groups", who, axis,
                sn_type_text(m, &t), (long long)groups);
        return (sn_nd){0};
    }
    part = sn_ix_divc(m, t.shape[axis], groups);
    for (uint32_t k = 0; k < t.rank; k++) shape[k + (k > axis)] = t.shape[k];
    shape[axis] = sn_ix_const(m, groups);
    shape[axis + 1] = part;
    return sn_graph_reshape(m, x, shape, t.rank + 1);
}

/* Axes `axis` and the next one of x as one. */
static sn_nd join_axes(sn_module *m, sn_nd x, uint32_t axis) {
    sn_type t = *sn_graph_type(m, x);
    if (!x.i) return x;
    t.shape[axis] = sn_ix_mul(m, t.shape[axis], t.shape[axis + 1]);
    for (uint32_t k = axis + 1; k + 1 < t.rank; k++) t.shape[k] = t.shape[k + 1];
    return sn_graph_reshape(m, x, t.shape, t.rank - 1);
}

/* w[groups*O', C', ..] as [groups*C', O', ..]. */
static sn_nd swap_channels(sn_module *m, const char *who, sn_nd w, int64_t groups) {
    if (groups == 1) return sn_graph_move_axis(m, w, 1, 0);
    w = split_groups(m, who, w, 0, groups);
    return join_axes(m, sn_graph_move_axis(m, w, 2, 1), 0);
}

static sn_nd reverse(sn_module *m, sn_nd w, uint32_t n) {
    int64_t axes[SN_CONV_AXES];
    uint32_t n_axes = 0;
    for (uint32_t k = 0; k < n && w.i; k++) {
        int64_t size;
        bool one = sn_ix_is_const(m, sn_graph_type(m, w)->shape[2 + k], &size) && size == 1;
        if (!one) axes[n_axes++] = 2 + k;
    }
    sn_attr attr = {.id = SN_ATTR_AXES, .ints = {axes, n_axes}};
    return w.i && n_axes ? sn_graph_node(m, SN_OP_FLIP, &w, 1, &attr, 1) : w;
}

/* Padding at the high end of axis k, so that windows of `span` elements over x, dilated and padded at the low end,
 * give `size` results. */
static bool fit_high(sn_conv_geometry *c, sn_module *m, const char *who, uint32_t k, sn_ix x, sn_ix span, sn_ix size) {
    sn_ix have = sn_ix_addc(m, sn_ix_scale(m, x, c->input_dilation[k]), 1 - c->input_dilation[k] + c->low[k]);
    sn_ix need = sn_ix_add(m, sn_ix_scale(m, sn_ix_addc(m, size, -1), c->stride[k]), span);
    if (sn_ix_is_const(m, sn_ix_sub(m, need, have), &c->high[k])) return true;
    sn_fail(m->env, SN_ERROR_TYPE, "%s: the padding of spatial axis %u depends on sizes that are not known", who, k);
    return false;
}

/* Elements from the first to the last one that a window of n taps covers. */
static sn_ix span_of(sn_module *m, sn_ix n, int64_t dilation) {
    return sn_ix_addc(m, sn_ix_scale(m, sn_ix_addc(m, n, -1), dilation), 1);
}

/* Is `size` that of the result along axis k, of x elements and a kernel of `taps`? Where all are numbers. */
static bool check_result(sn_module *m, const char *who, const sn_conv_geometry *c, uint32_t k, sn_ix size, sn_ix x,
                         sn_ix taps) {
    sn_ix image = sn_ix_addc(m, span_of(m, x, c->input_dilation[k]), c->low[k] + c->high[k]);
    int64_t have, room, given;
    if (!sn_ix_is_const(m, image, &have) || !sn_ix_is_const(m, span_of(m, taps, c->dilation[k]), &room) ||
        !sn_ix_is_const(m, size, &given))
        return true;
    int64_t want = have < room ? 0 : (have - room) / c->stride[k] + 1;
    if (want == given) return true;
    sn_fail(m->env, SN_ERROR_TYPE,
            "%s: dy has %lld elements along spatial axis %u, the result of the convolution has %lld", who,
            (long long)given, k, (long long)want);
    return false;
}

static sn_nd data_grad(sn_module *m, const char *who, sn_nd dy, sn_nd w, const sn_ix *sizes, const sn_conv_geometry *c,
                       sn_conv_more more) {
    sn_conv_geometry b = *c; /* backwards */
    for (uint32_t k = 0; k < c->n; k++) {
        sn_ix span = span_of(m, sn_graph_type(m, w)->shape[2 + k], c->dilation[k]);
        int64_t reach;
        if (!sn_ix_is_const(m, span, &reach)) {
            sn_fail(m->env, SN_ERROR_TYPE, "%s: the size of the kernel has to be a number", who);
            return (sn_nd){0};
        }
        b.stride[k] = c->input_dilation[k];
        b.input_dilation[k] = c->stride[k];
        b.low[k] = reach - 1 - c->low[k];
        if (!fit_high(&b, m, who, k, sn_graph_type(m, dy)->shape[2 + k], span, sizes[k])) return (sn_nd){0};
    }
    return sn_graph_conv(m, dy, swap_channels(m, who, reverse(m, w, c->n), c->groups), &b, more);
}

sn_nd sn_graph_conv_data_grad(sn_module *m, sn_nd dy, sn_nd w, const sn_ix *sizes, const sn_conv_geometry *c,
                              sn_conv_more more) {
    static const char who[] = "conv_data_grad";
    if (!check_operands(m, who, dy, w, c)) return (sn_nd){0};
    for (uint32_t k = 0; k < c->n; k++)
        if (!check_result(m, who, c, k, sn_graph_type(m, dy)->shape[2 + k], sizes[k],
                          sn_graph_type(m, w)->shape[2 + k]))
            return (sn_nd){0};
    return data_grad(m, who, dy, w, sizes, c, more);
}

sn_nd sn_graph_conv_transpose(sn_module *m, sn_nd x, sn_nd w, const sn_conv_geometry *c, const int64_t *extra,
                              sn_conv_more more) {
    static const char who[] = "conv_transpose";
    sn_ix sizes[SN_CONV_AXES];
    if (!check_operands(m, who, x, w, c)) return (sn_nd){0};
    for (uint32_t k = 0; k < c->n; k++) {
        sn_ix full = sn_ix_add(m, sn_ix_scale(m, sn_ix_addc(m, sn_graph_type(m, x)->shape[2 + k], -1), c->stride[k]),
                               span_of(m, sn_graph_type(m, w)->shape[2 + k], c->dilation[k]));
        sizes[k] = sn_ix_addc(m, full, extra[k] - c->low[k] - c->high[k]);
    }
    return data_grad(m, who, x, w, sizes, c, more);
}

/* x[N, groups*C', ..] as [C', groups*N, ..]. */
static sn_nd batch_to_channels(sn_module *m, const char *who, sn_nd x, int64_t groups) {
    if (groups == 1) return sn_graph_move_axis(m, x, 1, 0);
    x = sn_graph_move_axis(m, split_groups(m, who, x, 1, groups), 2, 0); /* [C', N, groups, ..] */
    return join_axes(m, sn_graph_move_axis(m, x, 2, 1), 1);
}

sn_nd sn_graph_conv_weight_grad(sn_module *m, sn_nd x, sn_nd dy, const int64_t *kernel, const sn_conv_geometry *c,
                                sn_conv_more more) {
    static const char who[] = "conv_weight_grad";
    sn_conv_geometry b = *c;
    if (!check_operands(m, who, x, dy, c)) return (sn_nd){0};
    for (uint32_t k = 0; k < c->n; k++) {
        sn_ix size = sn_graph_type(m, dy)->shape[2 + k], image = sn_graph_type(m, x)->shape[2 + k];
        sn_ix taps = sn_ix_const(m, kernel[k]);
        b.stride[k] = c->dilation[k];
        b.dilation[k] = c->stride[k];
        if (!check_result(m, who, c, k, size, image, taps) ||
            !fit_high(&b, m, who, k, image, span_of(m, size, c->stride[k]), taps))
            return (sn_nd){0};
    }
    sn_nd dw = sn_graph_conv(m, batch_to_channels(m, who, x, c->groups), sn_graph_move_axis(m, dy, 1, 0), &b, more);
    return sn_graph_move_axis(m, dw, 1, 0);
}
