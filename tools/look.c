/* look.c: compiling a graph in order to look at it, and what follows from the rows that were recorded: kernels with their estimates,
 * refused fusions, margins between schedules. Prints nothing (explain.c, report.c).
 *
 * A kernel that passes have put together has several estimates, whose sum is its own. Kernels that came with a schedule (sorts) have
 * none: for them counts what their bytes take at the rate of a copy, which is the least that they can.
 */
#include "tools/look.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- compiling ---- */

typedef struct compiling {
    look *l;
    const sn_compile_options *o;
} compiling;

static sn_status compile(sn_context *ctx, void *user) {
    const compiling *c = user;
    look *l = c->l;
    sn_settings s;
    SN_TRY(sn_settings_read(&s, ctx, c->o));
    s.metrics.log = &l->log;
    s.passes.look = l->pass;
    s.passes.look_user = l->pass_user;
    l->log = (sn_metric_log){.arena = &l->arena, .wanted = UINT32_MAX};
    if (l->g->status != SN_OK) return sn_fail(&ctx->env, l->g->status, "%s", l->g->message);
    return sn_compile_settings(&l->p, l->g, &s, s.target ? SN_PHASE_CODE : SN_PHASE_LOADED);
}

static void find_rate(look *l) {
    const sn_target *t = &l->p->target;
    l->rate_is = l->profile ? "measured" : "by the table of targets";
    if (l->profile) l->rate = l->profile->copy_rate;
    else if (t->is_gpu) l->rate = (double)t->cycle_bytes * t->units * t->mhz * 1e6;
}

static sn_status measure(look *l) {
    tool_inputs in = {.random_rest = true};
    sn_program *p = l->p;
    sn_tensor **inputs = calloc(p->n_inputs + 1, sizeof *inputs), **outputs = calloc(p->n_outputs + 1, sizeof *outputs);
    sn_status status = inputs && outputs ? tool_program_tensors(inputs, outputs, p, &in) : SN_ERROR_MEMORY;
    if (status == SN_OK) status = sn_run_profiled(&l->profile, p, inputs, outputs, NULL, NULL);
    if (inputs && outputs) {
        tool_free_tensors(inputs, p->n_inputs);
        tool_free_tensors(outputs, p->n_outputs);
    } else {
        free(inputs);
        free(outputs);
    }
    return status;
}

/* ---- kernels ---- */

/* By the name of its bound: what helps. */
static const char *advice_for(const char *bound) {
    static const struct {
        const char *bound, *advice;
    } rows[] = {
        {"memory",
         "moves its bytes about as fast as a copy: only fewer bytes help, by fusing it with a neighbour or a narrower dtype"},
        {"latency",
         "too few bytes are under way for this device: more rows or a larger batch, or one kernel with its neighbours"},
        {"lines", "lanes do not read neighbours, or read them again and again: a layout that has them side by side"},
        {"instructions",
         "arithmetic takes longer than memory: fewer operations an element, or results that are kept, not made again"},
        {"special functions", "exponentials, roots and their like take longer than memory: fewer of them an element"},
        {"tensor cores", "products take the time: a lower precision, if it may be"},
        {"shared memory",
         "what passes through shared memory takes the time: larger tiles, or operands that lie as products want them"},
        {"the L2", "operands come from the L2 again and again: larger tiles, or more columns a block"},
    };
    for (size_t k = 0; k < SN_COUNT(rows); k++)
        if (!strcmp(rows[k].bound, bound)) return rows[k].advice;
    return "";
}

static void add_estimates(look_kernel *k, const look *l) {
    double us = 0;
    for (uint32_t i = 0; i < l->log.rows[SN_METRIC_ESTIMATES].n; i++) {
        const sn_row_estimates *e = SN_ROW(&l->log, ESTIMATES, estimates, i);
        if (strcmp(e->kernel, k->row->kernel) != 0) continue;
        us += e->us;
        if (!k->estimate || e->us > k->estimate->us) k->estimate = e;
    }
    k->estimate_us = k->estimate ? us : NAN;
    k->advice = k->estimate ? advice_for(k->estimate->bound) : "";
}

static unsigned calls_of_a_run(const sn_program *p, uint32_t kernel) {
    return (unsigned)sn_wrap_calls(p->m, p->m->wrap.n_prepare, p->m->kernels.at[kernel]);
}

static int by_time(const void *a, const void *b) {
    const look_kernel *x = a, *y = b;
    if (!x->calls != !y->calls) return x->calls ? -1 : 1;
    if (x->us != y->us) return x->us > y->us ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* In a run, all its calls together, of the alternative that runs. */
static double measured_us(const look *l, uint32_t kernel) {
    double us = 0;
    uint32_t n;
    const sn_rt_pick *picks = sn_prog_picks(&n, l->p->prog);
    for (uint32_t i = 0; i < n; i++)
        if (picks[i].first == kernel) kernel = picks[i].winner;
    for (unsigned i = 0; i < l->profile->n_rows; i++)
        if (l->profile->rows[i].kernel == (int)kernel) us += l->profile->rows[i].us;
    return us;
}

static void fill_kernels(look *l) {
    l->n_kernels = l->log.rows[SN_METRIC_KERNEL_METADATA].n;
    l->kernels = SN_NEWN(&l->arena, look_kernel, l->n_kernels + 1);
    for (uint32_t i = 0; i < l->n_kernels; i++) {
        look_kernel *k = &l->kernels[i];
        *k = (look_kernel){.row = SN_ROW(&l->log, KERNEL_METADATA, kernel_metadata, i), .measured_us = NAN};
        k->calls = calls_of_a_run(l->p, i);
        double times = k->calls ? k->calls : 1;
        add_estimates(k, l);
        k->estimate_us *= times;
        k->least_us = l->rate > 0 ? times * (double)k->row->bytes / l->rate * 1e6 : NAN;
        if (l->profile && k->calls) k->measured_us = measured_us(l, i);
        k->us = !isnan(k->measured_us) ? k->measured_us : !isnan(k->estimate_us) ? k->estimate_us : k->least_us;
        if (k->calls && !isnan(k->us)) l->total_us += k->us;
        if (isnan(k->us)) k->us = 0;
    }
    qsort(l->kernels, l->n_kernels, sizeof *l->kernels, by_time);
}

sn_status look_at(look *out, sn_context *ctx, sn_graph *g, const sn_compile_options *options, const char *title) {
    compiling c = {out, options};
    out->ctx = ctx;
    out->g = g;
    out->title = title;
    sn_arena_init(&out->arena, &ctx->env); /* before the guard, which frees what a call that fails has begun */
    SN_TRY(sn_guarded(ctx, compile, &c));
    if (out->p->runnable) SN_TRY(measure(out));
    find_rate(out);
    fill_kernels(out);
    return SN_OK;
}

void look_close(look *l) {
    sn_profile_destroy(l->profile);
    sn_program_destroy(l->p);
    if (l->arena.env) sn_arena_free(&l->arena);
}

/* ---- refused fusions ---- */

static bool same_text(const char *a, const char *b) { return !strcmp(a ? a : "", b ? b : ""); }

static bool alike(const sn_row_fusion_failures *a, const sn_row_fusion_failures *b) {
    return same_text(a->first_is, b->first_is) && same_text(a->second_is, b->second_is) &&
           same_text(a->reason, b->reason) && a->saves == b->saves;
}

static int by_saving(const void *a, const void *b) {
    const look_refusal *x = a, *y = b;
    if (x->saves != y->saves) return x->saves > y->saves ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

uint32_t look_refusals(look_refusal **out, look *l) {
    uint32_t n = 0, rows = l->log.rows[SN_METRIC_FUSION_FAILURES].n;
    *out = SN_NEWN(&l->arena, look_refusal, rows + 1);
    for (uint32_t i = 0; i < rows; i++) {
        const sn_row_fusion_failures *row = SN_ROW(&l->log, FUSION_FAILURES, fusion_failures, i);
        uint32_t k = 0;
        if (!strcmp(row->reason, "one of them runs once")) continue; /* what is left out of runs is no loss */
        while (k < n && !alike((*out)[k].row, row)) k++;
        if (k == n) (*out)[n++] = (look_refusal){.row = row};
        (*out)[k].times++;
        (*out)[k].saves += row->saves;
    }
    qsort(*out, n, sizeof **out, by_saving);
    return n;
}

/* ---- margins ---- */

bool look_margin_of(look_margin *out, const look *l, const char *kernel) {
    *out = (look_margin){0};
    for (uint32_t i = 0; i < l->log.rows[SN_METRIC_CANDIDATES].n; i++) {
        const sn_row_candidates *row = SN_ROW(&l->log, CANDIDATES, candidates, i);
        if (strcmp(row->kernel, kernel) != 0) continue;
        out->considered++;
        if (row->chosen) out->chosen = row;
        else if (!out->other || row->cycles < out->other->cycles) out->other = row;
    }
    return out->chosen && out->other;
}

/* ---- JSON ---- */

json_t *look_real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

json_t *look_row_json(sn_metric table, const void *row) {
    const sn_metric_table *t = &sn_metric_tables[table];
    json_t *object = json_object();
    for (uint32_t k = 0; k < t->n; k++) {
        sn_metric_value v = sn_metric_get(&t->columns[k], row);
        json_t *value = json_null();
        if (v.known && v.kind == SN_METRIC_TEXT) value = json_string_nocheck(v.text);
        if (v.known && v.kind == SN_METRIC_INT) value = json_integer(v.integer);
        if (v.known && v.kind == SN_METRIC_REAL) value = look_real(v.real);
        json_object_set_new(object, v.column, value);
    }
    return object;
}
