/* check.c: is a program right? Runs it and the float64 evaluator on the same inputs and compares.
 *
 * How exact results are is stated here and in ir/graph/eval_errors.c, and nowhere else. An element may be off by a
 * bound of its dtype, relative to itself (sn_check_bound), and by what the roundings of the values that it is made of
 * may come to (sn_check_errors): one that is small because large terms cancel is as exact as those, one that stands
 * beside huge ones is as exact as it is alone. Where an output is one elementary operation on inputs, every element
 * must also keep the bound of lowering.def (sn_check_ulps). Elements that may be anything, beside a pole, are counted and not
 * compared; an output of such elements alone is wrong: nobody knows. Relies on ir/graph/eval.c, which knows nothing about
 * lowering; the pass `decompose` says which values there are to be rounded.
 */
#include "frontend/frontend.h"

#include "passes/runner.h"

#include <math.h>
#include <string.h>

/* ---- the bound ---- */

/* Error of one rounding-dominated chain of operations per type: some tens of roundings of f32, four of the narrow
 * types (their arithmetic is f32; a value is rounded where it is stored), a few thousand of f64. */
double sn_check_bound(sn_dtype t) {
    if (!sn_is_float(t)) return 0;
    if (sn_is_narrow(t)) return ldexp(4.096, -(int)sn_dtypes[t].digits);
    return t == SN_F64 ? 1e-11 : 2e-5;
}

/* ---- the bound of one elementary operation ---- */

/* Distance of neighbouring numbers of the type around x. */
static double ulp_of(sn_dtype t, double x) {
    int lowest = sn_float_lowest(t), exponent = x == 0 ? lowest : ilogb(x);
    return ldexp(1, (exponent > lowest ? exponent : lowest) - ((int)sn_dtypes[t].digits - 1));
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

/* nan matches nan; an infinity matches what rounds to the same infinity, give or take what is allowed. */
static bool special_matches(sn_dtype dtype, double got, double want, double allowed, bool *special) {
    *special = !isfinite(got) || !isfinite(want);
    if (!*special) return true;
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    if (!isfinite(want)) return got == want;
    return got == sn_round_to(dtype, want + copysign(allowed, got));
}

/* Smaller numbers need not be told from 0: an f32 instruction may take them for that. */
static double least_of(sn_dtype t) {
    int lowest = sn_float_lowest(t), half_a_step = lowest - (int)sn_dtypes[t].digits;
    return ldexp(1, lowest > sn_float_lowest(SN_F32) ? half_a_step : lowest);
}

bool sn_check_is_empty(const sn_check *c, int64_t numel) { return numel > 0 && c->unbounded == numel; }

static void compare_floats(sn_check *out, sn_dtype dtype, const char *got, const sn_array *want, const double *errors) {
    bool specials_ok = true, in_bounds = true;
    int64_t bad = -1;
    for (int64_t k = 0; k < want->numel; k++) {
        double g = sn_load_float(dtype, got + (size_t)k * sn_dtype_bytes(dtype)), w = want->f[k];
        double allowed = out->bound * fabs(w) + (out->bound > 0 ? least_of(dtype) : 0) + (errors ? errors[k] : 0);
        bool special;
        if (errors && isinf(errors[k])) {
            out->unbounded++;
            continue;
        }
        if (!special_matches(dtype, g, w, allowed, &special)) {
            if (specials_ok) bad = k;
            specials_ok = false;
        }
        if (special) continue;
        double error = fabs(g - w), relative = error / (out->bound > 0 ? allowed / out->bound : fabs(w));
        in_bounds &= error <= allowed;
        out->max_ulp = fmax(out->max_ulp, error / ulp_of(dtype, w));
        out->max_abs = fmax(out->max_abs, error);
        if (error == 0 || relative <= out->max_rel) continue;
        out->max_rel = relative;
        out->worst = k;
    }
    out->ok = specials_ok && in_bounds && !sn_check_is_empty(out, want->numel) &&
              (out->bound_ulp == 0 || out->max_ulp <= out->bound_ulp);
    if (!specials_ok) {
        out->max_abs = out->max_rel = INFINITY;
        out->worst = bad;
    }
}

static void compare_integers(sn_check *out, sn_dtype dtype, const char *got, const sn_array *want,
                             const double *errors) {
    double largest = 0;
    for (int64_t k = 0; k < want->numel; k++) {
        int64_t g = sn_load_int(dtype, got + (size_t)k * sn_dtype_bytes(dtype)), w = want->i[k];
        largest = fmax(largest, fabs(sn_int_to_double(dtype, w)));
        if (errors && isinf(errors[k])) {
            out->unbounded++;
            continue;
        }
        if (g == w) continue;
        double error = fmax(fabs(sn_int_to_double(dtype, g) - sn_int_to_double(dtype, w)), 1);
        if (errors && error < errors[k] + 0.5) continue;
        out->ok = false;
        if (error <= out->max_abs) continue;
        out->max_abs = error;
        out->worst = k;
    }
    out->max_rel = out->max_abs / fmax(largest, 1);
    out->ok &= !sn_check_is_empty(out, want->numel);
}

sn_check sn_check_compare(sn_dtype dtype, const void *got, const sn_array *reference, const double *errors,
                          double bound, double bound_ulp) {
    sn_check out = {.bound = bound, .bound_ulp = bound_ulp, .ok = true, .worst = -1};
    if (sn_is_float(dtype)) compare_floats(&out, dtype, got, reference, errors);
    else compare_integers(&out, dtype, got, reference, errors);
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

sn_status sn_check_errors(double **out, const sn_module *graph, const sn_array *inputs, sn_arena *arena) {
    sn_target host; /* any will do */
    sn_module *m = sn_module_new(graph->env);
    sn_pass_options options = {.pipeline = "decompose", .verify = SN_VERIFY_OFF};
    sn_target_host(&host, 1);
    sn_status status = sn_graph_copy(m, graph, NULL, NULL, 0);
    if (status == SN_OK) status = sn_passes_run(&m, &host, &options);
    if (status == SN_OK) status = sn_graph_eval_errors(out, m, inputs, arena);
    sn_module_free(m);
    return status;
}

/* What outputs are compared with. */
typedef struct reference {
    const sn_array *inputs;
    sn_array *want;
    double **errors; /* NULL until an output is wrong without them */
} reference;

static sn_status compare_output(sn_check *out, sn_program *p, uint32_t k, const sn_tensor *t, reference *ref) {
    size_t bytes = (size_t)t->info.numel * sn_dtype_bytes(t->info.dtype);
    sn_arena *a = &p->ctx->scratch;
    void *got = sn_alloc(a, bytes);
    SN_TRY(sn_tensor_fetch(got, t, bytes));
    sn_dtype dtype = t->info.dtype;
    double bound = sn_check_bound(dtype), bound_ulp = sn_check_ulps(p->source, p->source->graph.outputs.at[k].node);
    *out = sn_check_compare(dtype, got, &ref->want[k], NULL, bound, bound_ulp);
    if (out->ok) return SN_OK;
    if (!ref->errors) {
        ref->errors = SN_NEWN(a, double *, p->n_outputs + 1);
        SN_TRY(sn_check_errors(ref->errors, p->source, ref->inputs, a));
    }
    *out = sn_check_compare(dtype, got, &ref->want[k], ref->errors[k], bound, bound_ulp);
    return SN_OK;
}

static sn_status fail_output(const sn_check *c, sn_program *p, uint32_t k, int64_t numel) {
    if (sn_check_is_empty(c, numel))
        return sn_fail(&p->ctx->env, SN_ERROR_MISMATCH,
                       "output %s: roundings may make anything of each of its elements: nothing can be compared",
                       p->outputs[k].name);
    if (c->max_rel <= c->bound)
        return sn_fail(&p->ctx->env, SN_ERROR_MISMATCH, "output %s: error of %.3g ulp, the bound is %.3g",
                       p->outputs[k].name, c->max_ulp, c->bound_ulp);
    return sn_fail(&p->ctx->env, SN_ERROR_MISMATCH, "output %s: relative error %.3g at element %lld, the bound is %.3g",
                   p->outputs[k].name, c->max_rel, (long long)c->worst, c->bound);
}

static sn_status check(sn_check *out, sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs,
                       bool interpreted) {
    sn_arena *a = &p->ctx->scratch;
    SN_TRY(sn_program_needs_graph(p, "sn_program_check"));
    SN_TRY(sn_program_bind(p, inputs, outputs)); /* before anything reads the tensors */
    sn_array *in = SN_NEWN(a, sn_array, p->n_inputs + 1);
    reference ref = {.inputs = in, .want = SN_NEWN(a, sn_array, p->n_outputs + 1)};
    for (uint32_t k = 0; k < p->n_inputs; k++) {
        if (inputs && inputs[k]) SN_TRY(fetch_array(&in[k], inputs[k]));
        else SN_TRY(sn_graph_default_array(&in[k], p->source, k, a));
    }
    SN_TRY(sn_graph_eval(ref.want, p->source, in, a));
    SN_TRY(sn_program_launch(p, inputs, outputs, NULL, interpreted));
    sn_tensor **results = SN_NEWN(a, sn_tensor *, p->n_outputs + 1);
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        results[k] = p->outputs[k].writes < 0 ? outputs[k] : inputs[p->outputs[k].writes];
        SN_TRY(compare_output(&out[k], p, k, results[k], &ref));
    }
    for (uint32_t k = 0; k < p->n_outputs; k++) /* behind all comparisons: nothing more is evaluated after a failure */
        if (!out[k].ok) return fail_output(&out[k], p, k, results[k]->info.numel);
    return SN_OK;
}

sn_status sn_program_check(sn_check *out, sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs,
                           bool interpreted) {
    SN_GUARD_RETURN(p, check(out, p, inputs, outputs, interpreted), out);
}
