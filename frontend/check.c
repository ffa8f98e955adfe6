/* check.c: is a program right? Runs it and the float64 evaluator on the same inputs and compares.
 *
 * The bound of an output (sn_check_bound) is the only statement of how exact results are. It is relative to the largest
 * magnitude of the output, because a sum that cancels keeps the error of its terms. Where an output is one elementary
 * operation on inputs nothing can cancel: there every element must also keep the bound of lowering.def (sn_check_ulps).
 * An output that is small because its terms cancel is compared with their size (ir/graph_eval_terms.c). Relies on
 * ir/graph_eval.c, which knows nothing about lowering.
 */
#include "frontend/frontend.h"

#include <math.h>
#include <string.h>

/* ---- the bound ---- */

/* Error of one rounding-dominated chain of operations per type: some tens of roundings of f32, four of the halves
 * (their arithmetic is f32; a value is rounded where it is stored), a few thousand of f64. */
static double type_bound(sn_dtype t) {
    switch (t) {
    case SN_F64: return 1e-11;
    case SN_F32: return 2e-5;
    case SN_F16: return 2e-3;
    case SN_BF16: return 1.6e-2;
    case SN_I64:
    case SN_I32:
    case SN_I16:
    case SN_I8:
    case SN_U8:
    case SN_BOOL:
    case SN_U16:
    case SN_U32:
    case SN_U64:
    case SN_N_DTYPES: return 0;
    }
    return 0;
}

static double size_of(const sn_module *m, sn_ix e) {
    int64_t n;
    return sn_ix_is_const(m, e, &n) ? (double)n : 1;
}

/* How many elements go into one of the result. */
static double reduced_length(sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->n_in == 0) return 1;
    const sn_type *in = &sn_node_get(m, n->in[0])->type;
    if (n->op == SN_OP_MATMUL) return size_of(m, in->shape[in->rank - 1]);
    if (n->op == SN_OP_CONV2D) {
        const sn_type *w = &sn_node_get(m, n->in[1])->type;
        return size_of(m, w->shape[1]) * size_of(m, w->shape[2]) * size_of(m, w->shape[3]);
    }
    if (sn_ops[n->op].cls == SN_OPS_SCAN) {
        int64_t axis = sn_node_int(m, x, SN_ATTR_AXIS, 0);
        return size_of(m, in->shape[axis < 0 ? axis + in->rank : axis]);
    }
    bool reduces = sn_ops[n->op].cls == SN_OPS_REDUCE || sn_ops[n->op].cls == SN_OPS_COMPOSITE;
    return reduces ? size_of(m, sn_type_numel(m, in)) / fmax(1, size_of(m, sn_type_numel(m, &n->type))) : 1;
}

/* A sum of n terms of random sign has magnitude sqrt(n) while each rounding is relative to partial sums of the terms'
 * magnitude: the relative error grows like sqrt(n). Blocked sums have a small constant: 1/256 of it is allowed for. */
double sn_check_bound(sn_module *m, sn_nd output) {
    double bound = type_bound(sn_node_get(m, output)->type.dtype);
    if (bound == 0) return 0;
    uint8_t *needed = SN_NEWN(&m->arena, uint8_t, output.i + 1);
    needed[output.i] = 1;
    double longest = 1;
    for (uint32_t i = output.i; i > 0; i--) {
        if (!needed[i]) continue;
        const sn_node_rec *n = sn_node_get(m, (sn_nd){i});
        for (uint32_t k = 0; k < n->n_in; k++) needed[n->in[k].i] = 1;
        longest = fmax(longest, reduced_length(m, (sn_nd){i}));
        if (n->op != SN_OP_INPUT) bound = fmax(bound, type_bound(n->type.dtype));
    }
    return bound * (1 + sqrt(longest) / 256);
}

/* ---- the bound of one elementary operation ---- */

/* What the format of a float type can hold: bits of the significand, and the exponent of its smallest normal number. */
typedef struct format {
    int bits, lowest;
} format;

static format format_of(sn_dtype t) {
    if (t == SN_F64) return (format){53, -1022};
    if (t == SN_F32) return (format){24, -126};
    return t == SN_F16 ? (format){11, -14} : (format){8, -126};
}

/* Distance of neighbouring numbers of the type around x. */
static double ulp_of(sn_dtype t, double x) {
    format f = format_of(t);
    int exponent = x == 0 ? f.lowest : ilogb(x);
    return ldexp(1, (exponent > f.lowest ? exponent : f.lowest) - (f.bits - 1));
}

/* Does x move elements of inputs without touching them? */
static bool is_moved_input(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    return n->op == SN_OP_INPUT || (sn_ops[n->op].cls == SN_OPS_VIEW && is_moved_input(m, n->in[0]));
}

double sn_check_ulps(const sn_module *m, sn_nd output) {
    static const double ulps[SN_N_ALL_LOPS][2] = {
#define SN_LOWER(LOP, function, ulp32, ulp64, size, doc) [SN_LOP_##LOP] = {ulp32, ulp64},
#include "codegen-llvm/lowering.def"
#undef SN_LOWER
    };
    const sn_node_rec *n = sn_node_get(m, output);
    sn_opclass cls = sn_ops[n->op].cls;
    /* floor of a quotient that rounds to an integer is off by one: no bound in ULP holds. */
    if (!sn_is_float(n->type.dtype) || (cls != SN_OPS_UNARY && cls != SN_OPS_BINARY) || n->op == SN_OP_FLOORDIV)
        return 0;
    for (uint32_t k = 0; k < n->n_in; k++)
        if (!is_moved_input(m, n->in[k])) return 0;
    const double *row = ulps[sn_ops[n->op].lop];
    if (n->type.dtype == SN_F64) return row[1] + 1; /* the evaluator's libm is not exact itself */
    /* A half rounds the result in f32 once more: the error in f32 counts 2^-13 (f16) or 2^-16 of it. */
    return n->type.dtype == SN_F32 ? fmax(row[0], 0.5) : 0.5 + row[0] * 0x1p-13;
}

/* ---- comparing ---- */

/* nan matches nan; an infinity matches what rounds to the same infinity. */
static bool special_matches(sn_dtype dtype, double got, double want, bool *special) {
    *special = !isfinite(got) || !isfinite(want);
    if (!*special) return true;
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    return got == sn_round_to(dtype, want);
}

static void compare_floats(sn_check *out, sn_dtype dtype, const char *got, const sn_array *want,
                           const sn_magnitudes *sizes) {
    /* Below the smallest normal number no type resolves relative differences. */
    double largest = fmax(sizes->terms, ldexp(1, format_of(dtype).lowest));
    bool specials_ok = true;
    int64_t bad = -1;
    for (int64_t k = 0; k < want->numel; k++) {
        double g = sn_load_float(dtype, got + (size_t)k * sn_dtype_bytes(dtype)), w = want->f[k];
        bool special;
        if (!special_matches(dtype, g, w, &special)) {
            if (specials_ok) bad = k;
            specials_ok = false;
        }
        if (special) continue;
        largest = fmax(largest, fabs(w));
        out->max_ulp = fmax(out->max_ulp, fabs(g - w) / ulp_of(dtype, w));
        if (fabs(g - w) > out->max_abs) {
            out->max_abs = fabs(g - w);
            out->worst = k;
        }
    }
    /* An output that is all rounding noise of differences (the variance of equal elements) has no magnitude of its
     * own. */
    if (largest < ldexp(sizes->inputs, -format_of(dtype).bits)) largest = sizes->inputs;
    out->max_rel = out->max_abs / largest;
    out->ok = specials_ok && out->max_rel <= out->bound && (out->bound_ulp == 0 || out->max_ulp <= out->bound_ulp);
    if (!specials_ok) {
        out->max_abs = out->max_rel = INFINITY;
        out->worst = bad;
    }
}

static void compare_integers(sn_check *out, sn_dtype dtype, const char *got, const sn_array *want) {
    double largest = 0;
    for (int64_t k = 0; k < want->numel; k++) {
        int64_t g = sn_load_int(dtype, got + (size_t)k * sn_dtype_bytes(dtype)), w = want->i[k];
        largest = fmax(largest, fabs(sn_int_to_double(dtype, w)));
        if (g == w) continue;
        out->ok = false;
        double error = fmax(fabs(sn_int_to_double(dtype, g) - sn_int_to_double(dtype, w)), 1);
        if (error <= out->max_abs) continue;
        out->max_abs = error;
        out->worst = k;
    }
    out->max_rel = out->max_abs / fmax(largest, 1);
}

sn_check sn_check_compare(sn_dtype dtype, const void *got, const sn_array *reference, sn_magnitudes sizes, double bound,
                          double bound_ulp) {
    sn_check out = {.bound = bound, .bound_ulp = bound_ulp, .ok = true, .worst = -1};
    if (sn_is_float(dtype)) compare_floats(&out, dtype, got, reference, &sizes);
    else compare_integers(&out, dtype, got, reference);
    return out;
}

/* ---- programs ---- */

static sn_status fetch_array(sn_array *out, const sn_tensor *t) {
    sn_arena *a = &t->ctx->scratch;
    size_t bytes = (size_t)t->info.numel * sn_dtype_bytes(t->info.dtype);
    void *data = sn_alloc(a, bytes);
    SN_TRY(sn_tensor_fetch(data, t, bytes));
    *out = sn_array_from(a, t->info.dtype, t->info.rank, t->info.shape, data);
    return SN_OK;
}

double sn_check_magnitude(const sn_array *inputs, uint32_t n) {
    double largest = 0;
    for (uint32_t k = 0; k < n; k++)
        for (int64_t e = 0; sn_is_float(inputs[k].dtype) && e < inputs[k].numel; e++)
            if (isfinite(inputs[k].f[e])) largest = fmax(largest, fabs(inputs[k].f[e]));
    return largest;
}

/* What outputs are compared with. */
typedef struct reference {
    const sn_array *inputs;
    sn_array *want;
    double largest, *terms; /* terms: NULL until an output is wrong without them */
} reference;

static sn_status compare_output(sn_check *out, sn_program *p, uint32_t k, const sn_tensor *t, reference *ref) {
    size_t bytes = (size_t)t->info.numel * sn_dtype_bytes(t->info.dtype);
    sn_arena *a = &p->ctx->scratch;
    void *got = sn_alloc(a, bytes);
    SN_TRY(sn_tensor_fetch(got, t, bytes));
    sn_nd node = p->source->graph.outputs.at[k].node;
    double bound = sn_check_bound(p->source, node), bound_ulp = sn_check_ulps(p->source, node);
    sn_magnitudes sizes = {.inputs = ref->largest};
    *out = sn_check_compare(t->info.dtype, got, &ref->want[k], sizes, bound, bound_ulp);
    if (out->ok || !sn_is_float(t->info.dtype)) return SN_OK;
    if (!ref->terms) {
        ref->terms = SN_NEWN(a, double, p->n_outputs + 1);
        SN_TRY(sn_graph_eval_terms(ref->terms, p->source, ref->inputs, a));
    }
    sizes.terms = ref->terms[k];
    *out = sn_check_compare(t->info.dtype, got, &ref->want[k], sizes, bound, bound_ulp);
    return SN_OK;
}

static sn_status check_output(sn_check *out, sn_program *p, uint32_t k, const sn_tensor *t, reference *ref) {
    SN_TRY(compare_output(out, p, k, t, ref));
    if (out->ok) return SN_OK;
    if (out->max_rel <= out->bound)
        return sn_fail(&p->ctx->env, SN_ERROR_MISMATCH, "output %s: error of %.3g ulp, the bound is %.3g",
                       p->outputs[k].name, out->max_ulp, out->bound_ulp);
    return sn_fail(&p->ctx->env, SN_ERROR_MISMATCH, "output %s: relative error %.3g at element %lld, the bound is %.3g",
                   p->outputs[k].name, out->max_rel, (long long)out->worst, out->bound);
}

static sn_status check(sn_check *out, sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs,
                       bool interpreted) {
    sn_arena *a = &p->ctx->scratch;
    SN_TRY(sn_program_bind(p, inputs, outputs)); /* before anything reads the tensors */
    sn_array *in = SN_NEWN(a, sn_array, p->n_inputs + 1);
    reference ref = {.inputs = in, .want = SN_NEWN(a, sn_array, p->n_outputs + 1)};
    for (uint32_t k = 0; k < p->n_inputs; k++) SN_TRY(fetch_array(&in[k], inputs[k]));
    SN_TRY(sn_graph_eval(ref.want, p->source, in, a));
    SN_TRY(sn_program_launch(p, inputs, outputs, NULL, interpreted));
    sn_status status = SN_OK;
    ref.largest = sn_check_magnitude(in, p->n_inputs);
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        int writes = p->outputs[k].writes;
        sn_status s = check_output(&out[k], p, k, writes < 0 ? outputs[k] : inputs[writes], &ref);
        if (s != SN_OK && s != SN_ERROR_MISMATCH) return s;
        if (s != SN_OK) status = s;
    }
    return status;
}

sn_status sn_program_check(sn_check *out, sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs,
                           bool interpreted) {
    SN_GUARD_RETURN(p, check(out, p, inputs, outputs, interpreted), out);
}
