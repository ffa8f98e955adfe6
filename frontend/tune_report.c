/* tune_report.c: what sn_tune tells its caller: of each product and each kernel what was tried, how long it took, and who won. */
#include "frontend/tune.h"

#include <string.h>

void sn_report_free(void *report) {
    sn_report *r = report;
    sn_arena_free(&r->arena);
    sn_heap_free(&r->ctx->env, r, sizeof *r);
}

sn_report *sn_report_new(sn_context *ctx) {
    sn_report *r = sn_heap_alloc(&ctx->env, sizeof *r);
    *r = (sn_report){.ctx = ctx};
    sn_arena_init(&r->arena, &ctx->env);
    sn_making_begin(ctx, r, sn_report_free);
    return r;
}

const char *sn_report_text(sn_report *r, const char *text) { return sn_strdup(&r->arena, text ? text : ""); }

static void report_trials(sn_tuned_product *out, sn_report *r, const sn_trial_list *trials) {
    uint32_t *rank = SN_NEWN(&r->ctx->scratch, uint32_t, trials->n + 1);
    sn_tune_trial *at = SN_NEWN(&r->arena, sn_tune_trial, trials->n + 1);
    sn_trials_rank(rank, trials);
    for (uint32_t k = 0; k < trials->n; k++) {
        const sn_trial *t = &trials->at[rank[k]];
        at[k] = (sn_tune_trial){.choice = sn_report_text(r, t->choice),
                                .fate = sn_trial_fate_names[t->fate],
                                .why = sn_report_text(r, t->why),
                                .us = t->fate == SN_TRIAL_TIMED ? t->us : 0,
                                .cycles = t->cycles};
    }
    out->n_trials = trials->n;
    out->trials = at;
}

/* Of rows, which class inner does. */
static void report_rows(sn_tuned_product *out, const sn_trial_list *trials) {
    for (uint32_t k = 0; k < trials->n; k++) {
        const sn_trial *t = &trials->at[k];
        if (t->fate != SN_TRIAL_TIMED || !strstr(t->choice, " inner ")) continue;
        double *best = strstr(t->choice, " persistent") ? &out->persistent_us : &out->looped_us;
        if (*best == 0 || t->us < *best) *best = t->us;
    }
}

void sn_report_subject(sn_report *r, const sn_subject *x, const char *choice, double us, const sn_trial_list *trials,
                       const sn_search *found) {
    sn_tuned_product one = {.title = sn_report_text(r, x->title),
                            .graph = sn_report_text(r, x->key),
                            .choice = sn_report_text(r, choice),
                            .us = us,
                            .recorded = !trials && choice[0]};
    if (trials) {
        report_trials(&one, r, trials);
        if (x->passes) report_rows(&one, trials);
        one.seconds = found->seconds;
        one.compile_seconds = found->compile_seconds;
    }
    sn_tuned_list *list = x->passes ? &r->kernels : &r->products;
    SN_PUSH(&r->arena, list, one);
}
