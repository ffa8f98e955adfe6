/* tune.c: choices for the convolutions, matrix products and kernels of a program: from records, or by timing.
 *
 *     the passes before `choose-conv`  ->  convolutions, each as a small graph (passes/graph/product.c)
 *     with what was decided, the passes before `choose`  ->  products, in the same way
 *     with that, the passes before `schedule`  ->  kernels, each as a program of its own (tune_kernels.c)
 *     for each: on record? else trials (tune/trials.c), the search (tune/search.c) on programs (tune_machine.c), a record
 *     ->  p->choosing, which the passes `choose` and `schedule` apply
 *
 * Only programs that run are decided about: code for a target to look at has no device to time. Without tuning and without a
 * folder of records nothing is done at all. Records never fail a compilation: what is wrong with them is a line in the log. Without
 * tuning the pass `schedule` asks for kernels' records itself, so that no pass runs twice.
 */
#include "frontend/tune.h"

#include <string.h>
#include <unistd.h>

/* Seconds, and the share of them that products and convolutions may take where kernels come after them. */
static const double BUDGET = 60, OF_PRODUCTS = 2.0 / 3;

/* ---- for whom ---- */

static const char *device_text(const sn_program *p) {
    sn_arena *a = &p->ctx->scratch;
    char cpu[64];
    if (p->device != SN_CPU)
        return sn_strf(a, "%s, %s, alignment %u", sn_cuda_name(p->ctx->cuda[p->device]), p->target.name,
                       p->target.io_align);
    sn_host_processor(cpu, sizeof cpu);
    return sn_strf(a, "cpu %s, %s, %u threads, alignment %u", cpu, p->target.name, p->target.units, p->target.io_align);
}

/* Convolutions are left to another library than products, kernels to none. */
const char *sn_tuner_versions(const sn_program *p, sn_op op) {
    sn_arena *a = &p->ctx->scratch;
    bool may_leave = op != SN_OP_INPUT && p->library.takes;
    const char *library = may_leave ? sn_program_library_name(p, op == SN_OP_CONV) : "no library";
    const char *own = sn_strf(a, "Sinter %s, schedules %s, LLVM %s, %s", sn_version(), sn_record_schedules(a),
                              sn_llvm_version(), library);
    if (p->device == SN_CPU) return own;
    return sn_strf(a, "%s, driver %d", own, sn_cuda_driver_version(p->ctx->cuda[p->device]));
}

sn_record_place sn_tuner_place(const sn_program *p, const sn_settings *s) {
    const char *allowed = s->passes.choosing.allowed;
    return (sn_record_place){.folder = s->record_dir,
                             .nowhere = s->no_record_home,
                             .device = device_text(p),
                             .versions = sn_tuner_versions(p, SN_OP_INPUT),
                             .choices = allowed ? allowed : ""};
}

/* ---- one product ---- */

static double type_bytes(const sn_module *m, const sn_type *t) {
    double n = sn_dtype_bytes(t->dtype);
    for (uint32_t k = 0; k < t->rank; k++) n *= (double)sn_ix_value(m, t->shape[k]);
    return n;
}

/* What a run moves at least. */
static double bytes_of(const sn_module *m) {
    const sn_graph_ir *g = &m->graph;
    double bytes = 0;
    for (uint32_t k = 0; k < g->inputs.n; k++) bytes += type_bytes(m, &sn_node_get(m, g->inputs.at[k].node)->type);
    for (uint32_t k = 0; k < g->outputs.n; k++) bytes += type_bytes(m, &sn_node_get(m, g->outputs.at[k].node)->type);
    return bytes;
}

/* " stride=[2, 2]"; nothing where all are what they are by default. */
static void put_numbers(sn_text *t, const char *name, const int64_t *at, uint32_t n, int64_t otherwise) {
    bool plain = true;
    for (uint32_t k = 0; k < n; k++) plain &= at[k] == otherwise;
    for (uint32_t k = 0; k < n && !plain; k++)
        k ? sn_text_printf(t, ", %lld", (long long)at[k]) : sn_text_printf(t, " %s=[%lld", name, (long long)at[k]);
    if (!plain) sn_text_printf(t, "]");
}

static void put_geometry(sn_text *t, const sn_conv_geometry *g) {
    put_numbers(t, "stride", g->stride, g->n, 1);
    put_numbers(t, "low", g->low, g->n, 0);
    put_numbers(t, "high", g->high, g->n, 0);
    put_numbers(t, "dilation", g->dilation, g->n, 1);
    put_numbers(t, "input_dilation", g->input_dilation, g->n, 1);
    if (g->groups > 1) sn_text_printf(t, " groups=%lld", (long long)g->groups);
}

/* "matmul f16[32, 64] x f16[64, 32], add, tanh"; "conv f16[4, 8, 9, 9] x f16[16, 8, 3, 3] stride=[2, 2], add" */
static void put_title(sn_text *t, sn_module *m) {
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++) {
        const sn_node_rec *n = sn_node_get(m, x);
        sn_opclass cls = sn_ops[n->op].cls;
        if (n->op == SN_OP_MATMUL || n->op == SN_OP_CONV) {
            sn_conv_geometry g = {.groups = 1};
            if (n->op == SN_OP_CONV) g = sn_node_conv(m, x);
            sn_text_printf(t, "%s %s x %s", sn_ops[n->op].name, sn_type_text(m, &sn_node_get(m, n->in[0])->type),
                           sn_type_text(m, &sn_node_get(m, n->in[1])->type));
            put_geometry(t, &g);
        } else if (t->n && cls != SN_OPS_SOURCE && cls != SN_OPS_VIEW) sn_text_printf(t, ", %s", sn_ops[n->op].name);
    }
}

/* The product whose key this is. */
static sn_status describe(sn_subject *out, sn_tuner *t, const char *key) {
    sn_module *m = sn_module_new(&t->ctx->env);
    sn_text text;
    *out = (sn_subject){.key = key};
    sn_text_init(&text, &t->ctx->env);
    sn_status status = sn_module_parse(m, "product", key, strlen(key));
    if (status == SN_OK) put_title(&text, m);
    if (status == SN_OK) out->bytes = bytes_of(m);
    out->title = sn_strdup(&t->ctx->scratch, text.s ? text.s : "");
    sn_text_free(&text);
    sn_module_free(m);
    return status;
}

/* ---- one of them ---- */

static double now(void) {
    sn_trial_machine clock = sn_tune_bench_machine(NULL);
    return clock.seconds(NULL);
}

bool sn_tuner_has_time(const sn_tuner *t) { return now() < t->end; }

static void on_progress(void *user, uint32_t done, uint32_t most) {
    const sn_tuner *t = user;
    sn_locale_leave(&t->ctx->env);
    t->how.progress(t->how.progress_user, t->title, done, most);
    sn_locale_enter(&t->ctx->env);
}

/* Seconds for the next one: an equal share of what is left. */
static double share_of_time(sn_tuner *t) {
    double left = t->end - now();
    uint32_t n = t->left ? t->left-- : 1;
    return left > 0 ? left / n : 0;
}

static sn_status search(sn_search *out, sn_trial_list *trials, sn_tuner *t, const sn_subject *x) {
    sn_settings s = *t->s;
    s.passes.choosing.multi = SN_MULTI_OFF; /* a trial is one schedule */
    sn_tune_bench *bench = sn_tune_bench_new(t->ctx, &s, x->key, x->passes);
    sn_trial_machine machine = sn_tune_bench_machine(bench);
    if (t->copy_rate > 0) machine.bound_us = 1e6 * x->bytes / t->copy_rate;
    if (t->how.progress) machine.progress = on_progress, machine.progress_user = t;
    sn_trials_search(out, trials, &machine, share_of_time(t));
    sn_tune_bench_free(bench);
    return t->ctx->env.status;
}

bool sn_tuner_is_decided(const sn_tuner *t, const char *key) {
    for (uint32_t k = 0; k < t->decisions.n; k++)
        if (!strcmp(t->decisions.at[k].key, key)) return true;
    return false;
}

static void decided(sn_tuner *t, const char *key, const char *choice) {
    sn_arena *a = &t->p->arena;
    sn_decision d = {sn_strdup(a, key), sn_strdup(a, choice)};
    SN_PUSH(a, &t->decisions, d);
}

static void record(const sn_tuner *t, const sn_subject *x, const sn_trial_list *trials, uint32_t best) {
    sn_metric_log *log = t->metrics;
    sn_metric_count(log, SN_COUNTER_TUNED, 1);
    for (uint32_t k = 0; k < trials->n; k++) {
        const sn_trial *trial = &trials->at[k];
        bool timed = trial->fate == SN_TRIAL_TIMED;
        sn_metric_count(log, SN_COUNTER_TRIALS, timed);
        sn_row_tuning *row = SN_ADD_ROW(log, TUNING, tuning);
        if (!row) continue;
        row->subject = sn_metric_text(log, x->title);
        row->choice = sn_metric_text(log, trial->choice);
        row->fate = sn_trial_fate_names[trial->fate];
        row->why = sn_metric_text(log, trial->why);
        row->won = k == best;
        if (timed) row->us = trial->us;
        if (trial->cycles > 0) row->cycles = trial->cycles;
    }
}

/* The fastest of the timed schedules of class inner that keep a row, or of those that do not; NULL: there is none. */
static const sn_trial *best_of_rows(const sn_trial_list *trials, bool persistent) {
    const sn_trial *best = NULL;
    for (uint32_t k = 0; k < trials->n; k++) {
        const sn_trial *t = &trials->at[k];
        bool counts = t->fate == SN_TRIAL_TIMED && strstr(t->choice, " inner ");
        if (counts && !strstr(t->choice, " persistent") == !persistent && (!best || t->us < best->us)) best = t;
    }
    return best;
}

static void record_rows(const sn_tuner *t, const sn_subject *x, const sn_trial_list *trials) {
    const sn_trial *kept = best_of_rows(trials, true), *looped = best_of_rows(trials, false);
    sn_row_rows *row = kept && looped ? SN_ADD_ROW(t->metrics, ROWS, rows) : NULL;
    if (!row) return;
    row->kernel = sn_metric_text(t->metrics, x->title);
    row->persistent_us = kept->us;
    row->looped_us = looped->us;
    row->persistent = sn_metric_text(t->metrics, kept->choice);
    row->looped = sn_metric_text(t->metrics, looped->choice);
    row->speedup = looped->us / kept->us;
}

static sn_status time_choices(sn_tuner *t, const sn_subject *x) {
    sn_trial_list of_product = {.arena = &t->ctx->scratch}, *trials = x->trials ? x->trials : &of_product;
    sn_search found;
    if (!x->trials)
        SN_TRY(sn_trials_list(trials, &t->ctx->env, x->key, &t->p->target, sn_program_library(t->p), t->pipeline,
                              t->s->passes.choosing.allowed));
    SN_TRY(search(&found, trials, t, x));
    bool any = found.best != UINT32_MAX;
    const char *choice = any ? trials->at[found.best].choice : "";
    if (any) {
        decided(t, x->key, choice);
        sn_record_save(&t->place, x->key, trials, found.best);
    }
    record(t, x, trials, found.best);
    if (x->passes) record_rows(t, x, trials);
    if (t->report) sn_report_subject(t->report, x, choice, any ? trials->at[found.best].us : 0, trials, &found);
    return SN_OK;
}

/* One trial of a product is timed in any case; kernels are many, and stay as they are when time is up. */
sn_status sn_tuner_decide(sn_tuner *t, const sn_subject *x) {
    double us = 0;
    t->title = x->title;
    const char *choice = t->how.again ? NULL : sn_record_find(&us, &t->place, x->key, &t->ctx->scratch);
    bool wanted = t->s->tune == SN_TUNE_ON, late = x->passes && !sn_tuner_has_time(t);
    if (!choice && wanted && !late) return time_choices(t, x);
    if (choice) decided(t, x->key, choice);
    if (t->report && (choice || wanted)) sn_report_subject(t->report, x, choice ? choice : "", us, NULL, NULL);
    return SN_OK;
}

/* ---- all products ---- */

/* Products that the model does not settle. */
static void products_to_ask(sn_nd_list *out, sn_tuner *t, const sn_module *m) {
    sn_nd_list all = {0};
    const char *allowed = t->s->passes.choosing.allowed;
    sn_arena *scratch = &t->ctx->scratch;
    sn_product_list(&all, m, scratch);
    for (uint32_t k = 0; k < all.n; k++)
        if (!sn_choice_is_settled(m, &t->p->target, sn_program_library(t->p), allowed, all.at[k], scratch))
            SN_PUSH(scratch, out, all.at[k]);
}

/* Nodes of the operation; convolutions leave time to the products that come after them. */
static sn_status decide_all(sn_tuner *t, sn_module *m, sn_op op) {
    sn_nd_list all = {0}, products = {0};
    products_to_ask(&products, t, m);
    if (op == SN_OP_CONV) sn_convolution_list(&all, m, &t->ctx->scratch);
    else all = products;
    if (all.n) t->place.versions = sn_tuner_versions(t->p, op); /* opens the library whose version it is */
    t->left = op == SN_OP_CONV ? all.n + products.n : all.n;
    for (uint32_t k = 0; k < all.n; k++) {
        const char *key;
        SN_TRY(sn_product_key(&key, m, all.at[k], &t->ctx->scratch));
        if (sn_tuner_is_decided(t, key)) continue;
        sn_subject x;
        SN_TRY(describe(&x, t, key));
        SN_TRY(sn_tuner_decide(t, &x));
    }
    return SN_OK;
}

bool sn_tuner_has(const sn_program *p, sn_op op) {
    const sn_module *m = p->source;
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++)
        if (sn_node_get(m, x)->op == op) return true;
    return false;
}

/* The copy rate is the measure of what memory allows; where it cannot be taken there is none. */
static void measure_device(sn_tuner *t) {
    if (t->p->device == SN_CPU) return;
    if (sn_cuda_copy_rate(&t->copy_rate, t->ctx->cuda[t->p->device]) != SN_OK) sn_env_clear(&t->ctx->env);
}

/* Those that stand before a pass in the pipeline, which applies what is decided about the operation. */
static sn_status decide_before(sn_tuner *t, const char *pass, sn_op op) {
    sn_program *p = t->p;
    const char *allowed = t->s->passes.choosing.allowed;
    sn_pass_options o = {.pipeline = sn_passes_before(&t->ctx->scratch, t->pipeline, pass),
                         .choosing = {.allowed = allowed, .at = t->decisions.at, .n = t->decisions.n},
                         .library = sn_program_library(p)};
    if (!o.pipeline) return SN_OK;
    sn_module *m = NULL;
    sn_status status = sn_source_copy(&m, &t->ctx->env, p->source);
    if (status == SN_OK) status = sn_passes_run(&m, &p->target, &o);
    if (status == SN_OK) status = decide_all(t, m, op);
    sn_module_free(m);
    return status;
}

static sn_status decide_products(sn_tuner *t) {
    sn_program *p = t->p;
    const char *allowed = t->s->passes.choosing.allowed;
    if (sn_tuner_has(p, SN_OP_CONV)) SN_TRY(decide_before(t, "choose-conv", SN_OP_CONV));
    bool products = sn_tuner_has(p, SN_OP_MATMUL) || t->decisions.n || allowed; /* convolutions may become some */
    return products ? decide_before(t, "choose", SN_OP_MATMUL) : SN_OK;
}

static sn_status decide(sn_tuner *t) {
    sn_program *p = t->p;
    const char *allowed = t->s->passes.choosing.allowed;
    double start = now(), end = t->end;
    t->pipeline = p->pipeline ? p->pipeline : p->target.is_gpu ? sn_pipeline_gpu : sn_pipeline_host;
    SN_TRY(sn_choice_check(&t->ctx->env, allowed));
    t->place = sn_tuner_place(p, t->s);
    if (t->s->tune != SN_TUNE_ON && !sn_record_list(&t->place, &t->ctx->scratch)) return SN_OK;
    t->end = start + OF_PRODUCTS * (end - start);
    SN_TRY(decide_products(t));
    t->end = end;
    t->place.versions = sn_tuner_versions(p, SN_OP_INPUT);
    if (t->s->tune == SN_TUNE_ON) SN_TRY(sn_tuner_kernels(t));
    else sn_program_ask_records(p, &t->place);
    p->choosing.at = t->decisions.at;
    p->choosing.n = t->decisions.n;
    return SN_OK;
}

static void say_warning(const sn_tuner *t) {
    const sn_pass_options *o = &t->s->passes;
    if (t->place.warning[0] && o->print) o->print(o->print_user, sn_strf(&t->ctx->scratch, "%s\n", t->place.warning));
}

/* Is there anybody to ask? Decisions that are there already stand, and so do kernels. */
static bool is_wanted(const sn_program *p, const sn_settings *s) {
    if (s->tune == SN_TUNE_OFF || !p->runnable || p->source->kernels.n || p->choosing.n) return false;
    return s->tune == SN_TUNE_ON || (s->record_dir && access(s->record_dir, F_OK) == 0);
}

sn_status sn_program_decide(sn_program *p, const sn_settings *s) {
    if (!is_wanted(p, s)) return SN_OK;
    sn_tuner t = {.p = p, .s = s, .ctx = p->ctx, .metrics = p->metrics};
    t.end = now() + BUDGET;
    if (s->tune == SN_TUNE_ON) measure_device(&t);
    SN_TRY(decide(&t));
    say_warning(&t);
    return SN_OK;
}

/* ---- sn_tune ---- */

/* Are all passes known, and all names of choices? Those that run are not all that may be named. */
static sn_status check_names(sn_tuner *t) {
    sn_module *m = sn_module_new(&t->ctx->env);
    sn_pass_options o = {.pipeline = t->s->passes.pipeline, .choosing = {.allowed = t->s->passes.choosing.allowed}};
    sn_status status = sn_choice_check(&t->ctx->env, o.choosing.allowed);
    if (status == SN_OK) status = sn_passes_run(&m, &t->p->target, &o);
    sn_module_free(m);
    return status;
}

static void program_free(void *p) { sn_program_destroy(p); }

static void tune_program(sn_tuner *t) {
    t->end = now() + (t->how.budget > 0 ? t->how.budget : BUDGET);
    measure_device(t);
}

static sn_status tune(sn_tune_report **out, sn_graph *g, const sn_compile_options *options,
                      const sn_tune_options *how) {
    sn_context *ctx = g->ctx;
    sn_settings s;
    sn_program *p = NULL;
    sn_report *r = sn_report_new(ctx);
    sn_tuner t = {.ctx = ctx, .s = &s, .report = r};
    SN_TRY(sn_options_read(&t.how, sizeof t.how, &ctx->env, "sn_tune_options", how));
    if (!(t.how.budget >= 0)) return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "budget: %g seconds", t.how.budget);
    SN_TRY(sn_settings_read(&s, ctx, options));
    s.tune = SN_TUNE_ON;
    SN_TRY(sn_compile_to(&p, g, options, SN_PHASE_BOUND));
    t.p = p;
    t.metrics = sn_metrics_begin(ctx, &s);
    if (!p->runnable) {
        sn_program_destroy(p);
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "target: code to look at cannot be timed");
    }
    sn_making_begin(ctx, p, program_free);
    SN_TRY(check_names(&t));
    if (is_wanted(p, &s)) {
        tune_program(&t);
        SN_TRY(decide(&t));
    }
    sn_metrics_deliver(ctx, t.metrics, &s, g->m->graph.name);
    r->public = (sn_tune_report){.n_products = r->products.n,
                                 .products = r->products.at,
                                 .n_kernels = r->kernels.n,
                                 .kernels = r->kernels.at,
                                 .device = sn_report_text(r, device_text(p)),
                                 .warning = sn_report_text(r, t.place.warning)};
    sn_making_end(ctx, p);
    sn_program_destroy(p);
    sn_making_end(ctx, r);
    *out = &r->public;
    return SN_OK;
}

sn_status sn_tune(sn_tune_report **out, sn_graph *g, const sn_compile_options *options, const sn_tune_options *how) {
    SN_MAKE_RETURN(out, g, tune(out, g, options, how));
}

void sn_tune_report_destroy(sn_tune_report *r) {
    if (r) sn_report_free(r); /* it is the first member */
}
