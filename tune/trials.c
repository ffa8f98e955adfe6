/* trials.c: which choices are worth timing: for a product or a convolution rows of choices.def, with the schedules that
 * classes propose for its kernel; for any other kernel those schedules alone.
 *
 * The kernel of a product is the one with the reduction, after the passes up to `schedule`: where they have cut the reduction in two,
 * no schedule is proposed. Relies on the small graph holding one of them (passes/graph/product.c), and on the text of a kernel beginning
 * with the one that is asked about (passes/schedule/alone.c). Cost: the passes once, and one binding of the kernel for each schedule.
 */
#include "tune/tune.h"

#include <string.h>

#include "passes/runner.h"
#include "passes/schedule/schedule.h"

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
    const sn_sched *at;
    double *cycles;
    uint32_t n;
} proposals;

static const char *header_text(sn_env *env, const sn_sched *header, sn_arena *arena) {
    sn_text t;
    sn_text_init(&t, env);
    sn_sched_print(&t, header);
    const char *text = sn_strdup(arena, t.s);
    sn_text_free(&t);
    return text;
}

static sn_status list_headers_at(proposals *out, sn_pass_ctx *cx, uint32_t at) {
    sn_sched_list headers = {0};
    SN_TRY(sn_schedule_list(&headers, &out->cycles, cx, at));
    out->header = SN_NEWN(cx->scratch, const char *, headers.n + 1);
    out->at = headers.at;
    for (out->n = 0; out->n < headers.n; out->n++)
        out->header[out->n] = header_text(cx->m->env, &headers.at[out->n], cx->scratch);
    return SN_OK;
}

static sn_status list_headers(proposals *out, sn_module *m, const sn_target *target, sn_arena *arena) {
    uint32_t at;
    if (!find_kernel(&at, m)) return SN_OK;
    sn_pass_ctx cx = {.m = m, .scratch = arena, .target = target, .pass = "schedule"};
    return list_headers_at(out, &cx, at);
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

/* ---- kernels ---- */

/* 1 part is none. */
static bool is_same_header(sn_sched a, sn_sched b) {
    if (a.split == 1) a.split = 0;
    if (b.split == 1) b.split = 0;
    return sn_sched_eq(&a, &b);
}

/* What it is without a decision comes first, and says which header that is. */
static sn_status list_kernel(sn_trial_list *out, sn_module *m, const char *kernel, const sn_target *target) {
    proposals p = {0};
    sn_sched first;
    sn_pass_ctx cx = {.m = m, .scratch = out->arena, .target = target, .pass = "schedule"};
    SN_TRY(sn_module_parse(m, "kernel", kernel, strlen(kernel)));
    SN_TRY(sn_schedule_first(&first, &cx, 0));
    first.precision = SN_PRECISION_EXACT; /* is no choice */
    SN_TRY(list_headers_at(&p, &cx, 0));
    const char *header = header_text(m->env, &first, out->arena);
    sn_trial plain = {.choice = sn_strf(out->arena, "plain %s", header)};
    SN_PUSH(out->arena, out, plain);
    for (uint32_t k = 0; k < p.n; k++) {
        sn_trial t = {.choice = sn_strf(out->arena, "schedule %s", p.header[k]), .cycles = p.cycles[k]};
        if (is_same_header(p.at[k], first)) out->at[0].cycles = p.cycles[k];
        else SN_PUSH(out->arena, out, t);
    }
    return SN_OK;
}

sn_status sn_kernel_trials_list(sn_trial_list *out, sn_env *env, const char *kernel, const sn_target *target) {
    sn_module *m = sn_module_new(env);
    sn_status status = list_kernel(out, m, kernel, target);
    sn_module_free(m);
    return status;
}
