/* attention_try.c: whether a schedule takes an attention as one nest: the passes behind are asked, of the attention alone.
 *
 *     %q, %k, %v, %mask: inputs, or what stands in memory
 *     %s = matmul %q, %kt online=true .. %y = matmul %p, %v online=true      -> kernel .. schedule attend: yes
 *
 * What a class of schedules asks of a nest (rows and keys are axes, their strides multiples of 16 bytes, registers and
 * shared memory suffice) is written there alone; a nest that none of them takes would compute all scores again for
 * each column of the result. Where one takes it once q, k or v lie row-major, they are copied: that is linear in what
 * the attention is quadratic in; but not where few rows meet the same keys, which are read once.
 *
 * Relies on what stands around an attention changing nothing of this: operands below views are in memory, and what is
 * fused behind goes by the elements of the result. Graphs with named sizes are not asked about: those that are
 * compiled have none. Cost: that of the passes for one kernel, for each attention that differs; up to five times that
 * where operands lie badly.
 */
#include "passes/base/constants.h"
#include "passes/graph/attention.h"
#include "passes/graph/part.h"
#include "passes/graph/rewrite.h"

#include <string.h>

typedef struct attempt {
    sn_pass_ctx *cx;
    const sn_attention *at;
    uint8_t *member;
} attempt;

/* What the scores are made of, element by element, through views: masks count as what they are. */
static void add_members(attempt *t, sn_nd x) {
    const sn_node_rec *n = sn_node_get(t->cx->m, x);
    bool views = sn_ops[n->op].cls == SN_OPS_VIEW;
    if (t->member[x.i] || (!views && !sn_node_is_elementwise(n))) return;
    t->member[x.i] = 1;
    for (uint32_t k = 0; k < n->n_in; k++) add_members(t, n->in[k]);
}

static void find_members(attempt *t) {
    const sn_attention *at = t->at;
    for (uint32_t k = 0; k < at->members.n; k++) t->member[at->members.at[k].i] = 1;
    t->member[at->product.i] = 1;
    for (uint32_t k = 0; k < at->scaled.n; k++) t->member[at->scaled.at[k].i] = 1;
    for (uint32_t k = 0; k < at->members.n; k++) {
        const sn_node_rec *n = sn_node_get(t->cx->m, at->members.at[k]);
        for (uint32_t i = 0; i < n->n_in && n->op != SN_OP_MATMUL; i++) add_members(t, n->in[i]);
    }
}

/* The graph of the attention alone. */
static sn_status take_out(sn_module *to, attempt *t) {
    sn_part part = {.from = t->cx->m, .member = t->member, .computes = true};
    sn_graph_init(to, "attention");
    SN_TRY(sn_part_copy(to, &part, t->cx->scratch));
    for (uint32_t k = 0; k < t->at->read.n; k++)
        SN_TRY(sn_graph_output_new(to, sn_strf(t->cx->scratch, "row%u", k), part.map[t->at->read.at[k].i], -1));
    return sn_graph_output_new(to, "y", part.map[t->at->product.i], -1);
}

static bool is_attend(const sn_module *m) {
    for (uint32_t i = 0; i < m->kernels.n; i++)
        if (sn_kern_get(m, m->kernels.at[i])->sched.cls == SN_SCHED_ATTEND) return true;
    return false;
}

static sn_status schedule(bool *bound, sn_module **m, attempt *t, uint32_t copies) {
    uint8_t of[] = {sn_mark_of_first(copies, t->at), sn_mark_of_product(copies)};
    sn_marks marks = {.of = of, .n = SN_COUNT(of)};
    sn_pass_ctx cx = *t->cx;
    bool changed;
    cx.m = *m;
    cx.notes = &marks;
    cx.remark = NULL;
    SN_TRY(take_out(*m, t));
    SN_TRY(sn_graph_rewrite(&cx, sn_marks_put, &changed));
    SN_TRY(cx.schedule(cx.schedule_user, m));
    *bound = is_attend(*m);
    return SN_OK;
}

static sn_status attempt_with(bool *bound, attempt *t, uint32_t copies) {
    sn_module *m = sn_module_new(t->cx->m->env);
    *bound = false;
    sn_status status = schedule(bound, &m, t, copies);
    sn_module_free(m);
    return status;
}

static sn_status text_of(const char **out, attempt *t) {
    sn_module *m = sn_module_new(t->cx->m->env);
    sn_text text;
    sn_text_init(&text, m->env);
    sn_status status = take_out(m, t);
    if (status == SN_OK) sn_module_print(&text, m);
    *out = sn_strdup(t->cx->scratch, text.s ? text.s : "");
    sn_text_free(&text);
    sn_module_free(m);
    return status;
}

/* With all copies, then without each that is not needed. */
static sn_status try_copies(sn_attention_answer *out, attempt *t) {
    bool bound;
    SN_TRY(attempt_with(&out->bound, t, SN_ATTENTION_ALL));
    if (!out->bound) return SN_OK;
    out->copies = SN_ATTENTION_ALL;
    for (uint32_t copy = 1; copy < SN_ATTENTION_ALL; copy *= 2) {
        if (t->at->misplaced & copy) continue;
        SN_TRY(attempt_with(&bound, t, out->copies & ~copy));
        if (bound) out->copies &= ~copy;
    }
    return SN_OK;
}

sn_status sn_attention_try(sn_attention_answer *out, sn_attention_answers *known, sn_pass_ctx *cx,
                           const sn_attention *at) {
    attempt t = {cx, at, SN_NEWN(cx->scratch, uint8_t, cx->m->graph.nodes.count)};
    bool may_copy = cx->target->is_gpu && at->sizes.queries >= SN_ATTENTION_MANY; /* or copies are most of the work */
    *out = (sn_attention_answer){0};
    if (cx->m->syms.count > 1) return SN_OK; /* sizes around it are no numbers yet */
    find_members(&t);
    SN_TRY(text_of(&out->text, &t));
    for (uint32_t k = 0; k < known->n; k++)
        if (!strcmp(known->at[k].text, out->text)) return *out = known->at[k], SN_OK;
    if (!at->misplaced) SN_TRY(attempt_with(&out->bound, &t, 0));
    if (!out->bound && may_copy) SN_TRY(try_copies(out, &t));
    SN_PUSH(cx->scratch, known, *out);
    return SN_OK;
}
