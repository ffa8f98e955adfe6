/* range.c: between which numbers the elements of a node are, for the pass `to-loops` on a CPU.
 *
 *     %c = clamp %x min=0 max=255   %i = cast %c dtype=i32 : 0 .. 255       %y = index_select %table, %i axis=0
 *
 * A position that is looked up counts from the end where it is negative, and is brought inside of the axis. One that is known to be in it
 * is neither tested nor moved from its dtype: an image that is sampled at computed places has as many such tests as loads. What is
 * known comes from constants, numbers along axes, remainders, limits and what keeps their order, and from dtypes that hold little. Floats
 * are bounded by limits, by roundings to integers and by what those become; nan is in no range, and as an integer 0.
 *
 * Whoever uses it must stay inside of the buffer all the same (element.c clamps). Relies on nothing. Cost: linear in the nodes.
 */
#include "passes/lower/lower.h"

#include <math.h>

/* low > high: no element. Ends are inclusive; of integers they are exact below 2^53, beyond which nothing is known. */
typedef sn_lower_bounds bounds;

static const bounds unknown = {-INFINITY, INFINITY};

static bounds both(bounds a, bounds b) { return (bounds){fmin(a.low, b.low), fmax(a.high, b.high)}; }

static bool is_finite(bounds a) { return a.low >= -0x1p53 && a.high <= 0x1p53; }

static bounds bounds_of(const sn_lower *lw, sn_nd x) { return lw->ranges ? lw->ranges[x.i] : unknown; }

static bounds of_numbers(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op == SN_OP_FULL) {
        double value = sn_node_float(m, x, SN_ATTR_VALUE, NAN);
        if (sn_is_float(n->type.dtype)) value = sn_round_to(n->type.dtype, value);
        return isnan(value) ? unknown : (bounds){value, value};
    }
    const sn_attr *values = sn_node_attr(m, x, SN_ATTR_VALUES);
    bounds b = {INFINITY, -INFINITY};
    for (uint64_t k = 0; k < values->numbers.n; k++) {
        double value = sn_is_float(n->type.dtype) ? values->numbers.f[k] : (double)values->numbers.i[k];
        if (isnan(value)) return unknown;
        b = both(b, (bounds){value, value});
    }
    return b;
}

static bounds of_axis(const sn_lower *lw, sn_nd x) {
    int64_t axis = sn_node_int(lw->m, x, SN_ATTR_AXIS, 0), n;
    const sn_type *t = &sn_node_get(lw->m, x)->type;
    if (axis < 0) axis += t->rank;
    if (!sn_ix_is_const(lw->m, t->shape[axis], &n)) return unknown;
    double last = fmax((double)n - 1, 0); /* as one of the dtype, which may be above it: 4096 of bf16 for 4095 */
    return (bounds){0, sn_is_float(t->dtype) ? sn_round_to(t->dtype, last) : last};
}

/* Truncated; saturated where it leaves the dtype, which the caller sees to. A nan becomes 0. */
static bounds as_integer(bounds a) { return both((bounds){trunc(a.low), trunc(a.high)}, (bounds){0, 0}); }

static bounds of_cast(const sn_lower *lw, const sn_node_rec *n, bounds a) {
    sn_dtype from = sn_node_get(lw->m, n->in[0])->type.dtype;
    bool exact = n->type.dtype == SN_F64 || (n->type.dtype == SN_F32 && a.low >= -0x1p24 && a.high <= 0x1p24);
    if (sn_is_float(n->type.dtype)) return exact && is_finite(a) && !sn_is_float(from) ? a : unknown;
    if (n->type.dtype == SN_BOOL) return (bounds){0, 1};
    if (from == SN_U64 && !is_finite(a)) return unknown; /* what is large becomes negative */
    return sn_is_float(from) ? as_integer(a) : a;
}

/* Of what is a number for all elements. */
static bool is_number(bounds a) { return a.low == a.high && is_finite(a); }

static bounds of_binary(const sn_node_rec *n, bounds a, bounds b) {
    bool whole = !sn_is_float(n->type.dtype);
    switch (n->op) {
    case SN_OP_MINIMUM: return (bounds){fmin(a.low, b.low), fmin(a.high, b.high)};
    case SN_OP_MAXIMUM: return (bounds){fmax(a.low, b.low), fmax(a.high, b.high)};
    case SN_OP_ADD: return whole && is_finite(a) && is_finite(b) ? (bounds){a.low + b.low, a.high + b.high} : unknown;
    case SN_OP_SUB: return whole && is_finite(a) && is_finite(b) ? (bounds){a.low - b.high, a.high - b.low} : unknown;
    case SN_OP_MUL:
        if (!whole || !is_number(b) || !is_finite(a)) return unknown;
        return b.low < 0 ? (bounds){a.high * b.low, a.low * b.low} : (bounds){a.low * b.low, a.high * b.low};
    case SN_OP_REM: return whole && is_number(b) && b.low > 0 ? (bounds){0, b.low - 1} : unknown;
    case SN_OP_DIV:
    case SN_OP_FLOORDIV:
        if (!whole || !is_number(b) || b.low <= 0 || !is_finite(a)) return unknown;
        return (bounds){floor(a.low / b.low), floor(a.high / b.low) + (a.high < 0)};
    case SN_OP_AND: return whole && is_finite(b) && b.low >= 0 ? (bounds){0, b.high} : unknown;
    default: return unknown;
    }
}

static bounds of_node(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    bounds a = n->n_in ? bounds_of(lw, n->in[0]) : unknown;
    switch (n->op) {
    case SN_OP_FULL:
    case SN_OP_CONSTANT: return of_numbers(lw->m, x);
    case SN_OP_IOTA: return of_axis(lw, x);
    case SN_OP_CAST: return of_cast(lw, n, a);
    case SN_OP_FLOOR: return (bounds){floor(a.low), floor(a.high)};
    case SN_OP_CEIL: return (bounds){ceil(a.low), ceil(a.high)};
    case SN_OP_ROUND: return (bounds){rint(a.low), rint(a.high)};
    case SN_OP_TRUNC: return (bounds){trunc(a.low), trunc(a.high)};
    case SN_OP_COPY:
    case SN_OP_INDEX_SELECT:
    case SN_OP_GATHER: return a;
    case SN_OP_WHERE: return both(bounds_of(lw, n->in[1]), bounds_of(lw, n->in[2]));
    case SN_OP_CONCAT:
        for (uint32_t k = 1; k < n->n_in; k++) a = both(a, bounds_of(lw, n->in[k]));
        return a;
    default: break;
    }
    if (sn_ops[n->op].cls == SN_OPS_VIEW) return a;
    return n->n_in == 2 && sn_ops[n->op].cls == SN_OPS_BINARY ? of_binary(n, a, bounds_of(lw, n->in[1])) : unknown;
}

/* What does not fit in the dtype wraps, or is cut. An end that is not known is no such thing: of_binary knows both or none of what may wrap. */
static bool fits(sn_dtype t, bounds b) {
    bool wide = sn_dtype_bytes(t) == 8, is_open = isinf(b.low) || isinf(b.high);
    if (sn_is_float(t) || (wide && is_open && (b.low >= 0 || !sn_is_unsigned(t)))) return true;
    uint32_t bits = 8 * sn_dtype_bytes(t);
    bool is_unsigned = sn_is_unsigned(t);
    double most = ldexp(1, (int)(is_unsigned ? bits : bits - 1)), least = is_unsigned ? 0 : -most;
    return t == SN_BOOL ? b.low >= 0 && b.high <= 1 : b.low >= least && b.high < most;
}

/* All that an integer may be; of 64 bits nothing is known beyond 2^53. */
static bounds of_dtype(sn_dtype t) {
    if (t == SN_BOOL) return (bounds){0, 1};
    if (sn_is_float(t)) return unknown;
    if (sn_dtype_bytes(t) == 8) return sn_is_unsigned(t) ? (bounds){0, INFINITY} : unknown;
    double values = ldexp(1, (int)(8 * sn_dtype_bytes(t)));
    return sn_is_unsigned(t) ? (bounds){0, values - 1} : (bounds){-values / 2, values / 2 - 1};
}

void sn_lower_find_ranges(sn_lower *lw) {
    const sn_graph_ir *g = &lw->m->graph;
    if (lw->cx->target->is_gpu) return;
    lw->ranges = SN_NEWN(lw->cx->scratch, bounds, g->nodes.count);
    for (uint32_t i = 1; i < g->nodes.count; i++) {
        sn_dtype dtype = sn_node_get(lw->m, (sn_nd){i})->type.dtype;
        bounds b = of_node(lw, (sn_nd){i});
        if (isnan(b.low) || isnan(b.high) || !fits(dtype, b)) b = of_dtype(dtype);
        lw->ranges[i] = b;
    }
}

uint32_t sn_lower_bits(const sn_lower *lw, sn_nd x) {
    bounds b = bounds_of(lw, x);
    uint32_t bits = 1, all = 8 * sn_dtype_bytes(sn_node_get(lw->m, x)->type.dtype);
    if (b.low < 0 || b.low > b.high || !is_finite(b)) return all;
    while (bits < all && ldexp(1, (int)bits) <= b.high) bits++;
    return bits;
}

bool sn_lower_is_inside(const sn_lower *lw, sn_nd x, sn_ix extent) {
    int64_t n;
    bounds b = bounds_of(lw, x);
    return sn_ix_is_const(lw->m, extent, &n) && n <= INT32_MAX && b.low >= 0 && b.high < (double)n && b.low <= b.high;
}
