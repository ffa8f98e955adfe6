/* trials.c: which choices are worth timing for a product or a convolution: rows of choices.def, with the schedules that
 * classes propose for its kernel.
 *
 * The kernel is the one with the reduction, after the passes up to `schedule`: where they have cut the reduction in two,
 * no schedule is proposed. Relies on the small graph holding one of them (passes/graph/product.c). Cost: the passes once, and one
 * binding of the kernel for each schedule.
 */
#include "tune/tune.h"

#include <string.h>

#include "passes/runner.h"
#include "passes/schedule/choose.h"

/* The position of the only kernel that reduces. */
static bool find_kernel(uint32_t *at, const sn_module *m) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[i]);
        while (s.i && sn_stmt_get(m, s)->op != SN_LOP_REDUCE) s = sn_stmt_walk_next(m, s);
        if (!s.i) continue;
        *at = i;
        n++;
    }
    return n == 1;
}

/* What the classes propose, in texts, with what the model says of each. */
typedef struct proposals {
    const char **header;
    double *cycles;
    uint32_t n;
} proposals;

static sn_status list_headers(proposals *out, sn_module *m, const sn_target *target, sn_arena *arena) {
    uint32_t at;
    if (!find_kernel(&at, m)) return SN_OK;
    sn_pass_ctx cx = {.m = m, .scratch = arena, .target = target, .pass = "schedule"};
    sn_sched_list headers = {0};
    SN_TRY(sn_schedule_list(&headers, &out->cycles, &cx, at));
    out->header = SN_NEWN(arena, const char *, headers.n + 1);
    for (out->n = 0; out->n < headers.n; out->n++)
        out->header[out->n] = sn_trial_header(m->env, &headers.at[out->n], arena);
    return SN_OK;
}

static sn_status find_headers(proposals *out, sn_module **m, const char *product, const sn_target *target,
                              const char *pipeline, sn_arena *arena) {
    sn_pass_options o = {.pipeline = sn_passes_before(arena, pipeline, "schedule"), .choosing = {.allowed = "plain"}};
    if (!o.pipeline) return SN_OK;
    SN_TRY(sn_module_parse(*m, "product", product, strlen(product)));
    SN_TRY(sn_passes_run(m, target, &o));
    return list_headers(out, *m, target, arena);
}

static double cycles_of(const proposals *p, sn_op op, const char *choice) {
    const char *header;
    const sn_choice_row *row = sn_choice_find(&header, op, choice);
    for (uint32_t k = 0; k < p->n && row && !strcmp(row->name, "schedule"); k++)
        if (!strcmp(p->header[k], header)) return p->cycles[k];
    return 0;
}

static sn_status list(sn_trial_list *out, sn_module *m, const proposals *p, const char *product,
                      const sn_target *target, const sn_library *library, const char *allowed) {
    sn_nd_list products = {0}, convs = {0};
    sn_product one;
    sn_convolution conv;
    SN_TRY(sn_module_parse(m, "product", product, strlen(product)));
    sn_product_list(&products, m, out->arena);
    sn_convolution_list(&convs, m, out->arena);
    if (products.n + convs.n != 1)
        return sn_fail(m->env, SN_ERROR_INTERNAL, "a graph to be timed has %u products", products.n + convs.n);
    sn_choice_question q = {.target = target, .m = m, .library = library, .headers = p->header, .n_headers = p->n};
    if (products.n && sn_product_find(&one, m, products.at[0])) q.product = &one;
    if (convs.n && sn_convolution_find(&conv, m, convs.at[0])) q.conv = &conv;
    sn_choice_list choices = {.arena = out->arena};
    sn_choice_candidates(&choices, &q, allowed);
    for (uint32_t k = 0; k < choices.n; k++) {
        sn_trial t = {.choice = choices.at[k],
                      .cycles = cycles_of(p, convs.n ? SN_OP_CONV : SN_OP_MATMUL, choices.at[k])};
        SN_PUSH(out->arena, out, t);
    }
    return SN_OK;
}

sn_status sn_trials_list(sn_trial_list *out, sn_env *env, const char *product, const sn_target *target,
                         const sn_library *library, const char *pipeline, const char *allowed) {
    proposals p = {0};
    sn_module *m = sn_module_new(env);
    sn_status status = find_headers(&p, &m, product, target, pipeline, out->arena);
    sn_module_free(m);
    if (status != SN_OK) return status;
    m = sn_module_new(env);
    status = list(out, m, &p, product, target, library, allowed);
    sn_module_free(m);
    return status;
}
