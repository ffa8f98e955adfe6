/* schedule.c: the pass `schedule`: choose a schedule for each kernel and bind its axes.
 *
 *     loop i in 16384 { loop j in 4096 { ... } }
 *  -> schedule element block_x=256 vector=8
 *     loop g in 32768 : grid { loop t in 256 : block.x { loop v in 8 : vector { ... } } }
 *
 * A loop over the table schedules.def: the first row that applies to the kernel and has a candidate binds it, by its first
 * candidate. A schedule that stands in the kernel's header is obeyed: rows of its class alone are asked, and choose what is
 * zero. If its class cannot bind the kernel, nothing in the header counts but the precision (a remark says why). What was decided
 * outside for a kernel of this text (by timing: tune/, alone.c) counts as if all of it stood in the header.
 *
 * Legality: a class binds what it says that it applies to; axis kinds promise no more than that. Cost: near linear in
 * the kernel. Where somebody listens, every candidate is bound to a copy of the kernel and estimated.
 */
#include "passes/schedule/base/schedules.h"

#include <string.h>

#include "ir/base/text.h"
#include "ir/loop/access.h"
#include "ir/loop/build.h"
#include "passes/schedule/alone.h"
#include "passes/schedule/choose.h"
#include "passes/schedule/members.h"
#include "passes/schedule/base/model.h"
#include "passes/schedule/once.h"

typedef struct scheduler {
    sn_sched_class cls;
    sn_schedule_applies *applies;
    sn_schedule_candidates *candidates;
    void (*bind)(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sched);
} scheduler;

static const scheduler SCHEDULERS[] = {
#define SN_SCHEDULE(name, CLASS)                                                                                       \
    {SN_SCHED_##CLASS, sn_schedule_##name##_applies, sn_schedule_##name##_candidates, sn_schedule_##name##_bind},
#include "passes/schedule/base/schedules.def"
#undef SN_SCHEDULE
};

enum {
    BOUND = 0
#define SN_SCHEDULE(name, CLASS) | 1 << SN_SCHED_##CLASS
#include "passes/schedule/base/schedules.def"
#undef SN_SCHEDULE
};
_Static_assert(BOUND == (1 << SN_N_SCHED_CLASSES) - 1 - (1 << SN_SCHED_NONE),
               "every class of ir/base/sched_classes.def has a row in schedules.def");

/* ---- choosing ---- */

bool sn_schedule_may_follow(const sn_schedule_shape *sh) {
    return sh->n_nests && sh->rows * sh->max_count <= SN_FOLLOW_MOST;
}

/* A small kernel that reads what another one's blocks leave takes the shape of those blocks, so that it can be their
 * tail: one result by one block, or the same columns by the same threads, where they read as little as a tail may. */
static void follow(sn_pass_ctx *cx, const sn_schedule_shape *sh, sn_sched *sched) {
    sn_module *m = cx->m;
    uint32_t first = sn_kern_follows(m, sh->users, sh->at);
    if (first == UINT32_MAX || !cx->target->is_gpu || sched->cls != SN_SCHED_NONE || !sh->all_perfect) return;
    const sn_kern_rec *a = sn_kern_get(m, m->kernels.at[first]);
    if (!a->scheduled || sn_kern_is_library(a) || !sn_schedule_may_follow(sh) || sn_sched_cluster(&a->sched) > 1)
        return;
    bool one =
        sh->rows == 1 && sh->max_count <= SN_FOLLOW_ONE && sh->max_count <= (int64_t)a->sched.block_x * SN_FOLLOW_STEPS;
    int64_t wide =
        (int64_t)a->sched.block_x * a->sched.vector; /* columns of a block, which reads `along_outer` of all */
    bool columns = a->sched.cls == SN_SCHED_OUTER && sh->rows > 1 && sh->rows % wide == 0 &&
                   sh->along_outer > sh->along_inner && sh->along_outer / (sh->rows / wide) <= SN_TAIL_BYTES;
    bool rows = a->sched.cls == SN_SCHED_INNER && sh->rows > 1 && sh->max_count * sh->rows <= SN_FOLLOW_ROWS &&
                sh->along_outer <= sh->along_inner;
    if (!one && (sh->scans || (!columns && !rows))) return;
    sched->cls = columns ? SN_SCHED_OUTER : SN_SCHED_INNER;
    sched->block_x = a->sched.block_x;
    sched->block_y = a->sched.block_y;
    if (columns) sched->vector = a->sched.vector;
}

/* Rows of threads that pass on prefixes are one block's: class inner knows that. */
static bool may_bind(const scheduler *s, const sn_schedule_shape *sh) { return !sh->team || s->cls == SN_SCHED_INNER; }

/* "schedule inner block_x=32 .."; "plain inner block_x=32 .." leaves the kernel as it is, but for the order of its blocks: that is what other
 * kernels of its program say, and it was timed without them. What stands in its header already is part of its text, and so of what
 * was decided. */
static sn_status obey_decision(sn_sched *pinned, sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    static const char name[] = "schedule ", as_it_is[] = "plain ";
    sn_sched was;
    const sn_choosing *how = cx->choosing;
    const sn_kern_rec *kernel = sn_kern_get(cx->m, cx->m->kernels.at[sh->at]);
    const char *why_not;
    if (!how || (!how->n && !how->ask) || !sn_sched_eq(pinned, &kernel->sched)) return SN_OK;
    const char *key = sn_kernel_key(&why_not, cx, sh->users, sh->at);
    const char *choice = key ? sn_decided(how, key) : NULL;
    if (key && !choice && how->ask) choice = how->ask(how->ask_user, key);
    if (!choice) return SN_OK;
    sn_remark(cx, kernel->name, "%s (decided)", choice);
    if (!strncmp(choice, as_it_is, strlen(as_it_is))) {
        SN_TRY(sn_sched_read(&was, cx->m->env, "a decided schedule", choice + strlen(as_it_is)));
        pinned->abreast = was.abreast;
    }
    if (strncmp(choice, name, strlen(name)) != 0) return SN_OK;
    sn_precision precision = pinned->precision;
    SN_TRY(sn_sched_read(pinned, cx->m->env, "a decided schedule", choice + strlen(name)));
    pinned->precision = precision;
    return SN_OK;
}

/* The first row that has a candidate which agrees with the header; NULL: none has. */
static sn_status ask(const scheduler **out, sn_sched_list *headers, sn_pass_ctx *cx, sn_kern k,
                     const sn_schedule_shape *sh, const sn_sched *pinned) {
    const char *why_not = "another one does better", *header = NULL;
    *out = NULL;
    for (size_t i = 0; i < SN_COUNT(SCHEDULERS); i++) {
        const scheduler *s = &SCHEDULERS[i];
        if (pinned->cls != SN_SCHED_NONE && pinned->cls != s->cls) continue;
        if (!may_bind(s, sh) || !s->applies(&why_not, cx, k, sh)) continue;
        SN_TRY(s->candidates(headers, cx, k, sh, pinned));
        if (headers->n) return *out = s, SN_OK;
        if (pinned->cls) header = "its header says what cannot be";
    }
    sn_remark(cx, sn_kern_get(cx->m, k)->name, "class %s does not fit: %s", sn_sched_class_names[pinned->cls],
              header ? header : why_not);
    return SN_OK;
}

/* A field that stands in the header is one that its class reads, or says what is so anyway (1). */
static sn_status check_fields(sn_pass_ctx *cx, sn_kern k, const sn_sched *pinned) {
    for (int f = 0; f < SN_N_SCHED_FIELDS; f++) {
        uint32_t idle = sn_sched_fields[f].is_flag || sn_sched_fields[f].words ? 0 : 1;
        bool has = sn_sched_classes[pinned->cls].fields >> f & 1;
        if (has || sn_sched_get(pinned, (sn_sched_field)f) <= idle) continue;
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT, "kernel %s: a schedule of class %s has no %s",
                       sn_kern_get(cx->m, k)->name, sn_sched_class_names[pinned->cls], sn_sched_fields[f].name);
    }
    return SN_OK;
}

/* *decided becomes true where the header does not come from the model. */
static sn_status choose(const scheduler **out, sn_sched_list *headers, sn_pass_ctx *cx, const sn_schedule_shape *sh,
                        bool *decided) {
    sn_kern k = cx->m->kernels.at[sh->at];
    sn_sched pinned = sn_kern_get(cx->m, k)->sched, open = {.cls = SN_SCHED_NONE};
    follow(cx, sh, &pinned);
    SN_TRY(obey_decision(&pinned, cx, sh));
    *decided |= pinned.cls != SN_SCHED_NONE;
    SN_TRY(check_fields(cx, k, &pinned));
    SN_TRY(ask(out, headers, cx, k, sh, &pinned));
    if (!*out) SN_TRY(ask(out, headers, cx, k, sh, &open));
    for (uint32_t i = 0; i < headers->n; i++) {
        if (!headers->at[i].split) headers->at[i].split = 1;
        headers->at[i].precision = pinned.precision;
    }
    const sn_sched *sc = &headers->at[0];
    if (sc->cls == SN_SCHED_LIBRARY) {
        sn_remark(cx, sn_kern_get(cx->m, k)->name, "library: algorithm %u", sc->algo);
        return SN_OK;
    }
    sn_remark(cx, sn_kern_get(cx->m, k)->name, "%s: %lld rows of %lld, block_x=%u block_y=%u vector=%u unroll=%u%s",
              sn_sched_class_names[sc->cls], (long long)sh->rows, (long long)sh->max_count, sc->block_x, sc->block_y,
              sc->vector, sc->unroll, sc->persistent ? " persistent" : "");
    return SN_OK;
}

/* ---- binding ---- */

/* No more blocks are wanted than a multiprocessor holds, however small they are. */
static void fit_blocks(const sn_target *t, sn_sched *sched) {
    if (!t->is_gpu || !sched->min_blocks) return;
    uint32_t most = sn_target_blocks(t, (uint64_t)sched->block_x * sched->block_y);
    if (sched->min_blocks > most) sched->min_blocks = most;
}

static void bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, const scheduler *by, sn_sched sched) {
    sn_module *m = cx->m;
    by->bind(cx, k, sh, &sched);
    sn_kern_dead_code(m, k);
    sn_kern_cse(m, k);
    sn_kern_collect_params(m, k);
    fit_blocks(cx->target, &sched);
    sn_kern_rec *r = sn_kern_get(m, k);
    r->sched = sched;
    r->scheduled = true;
}

/* ---- candidates ---- */

/* What the model says of a header: it is bound to a copy, which stands in the place of the kernel meanwhile. */
static sn_status estimate(double *cycles, sn_pass_ctx *cx, const sn_schedule_shape *of, const scheduler *by,
                          const sn_sched *sched) {
    sn_module *m = cx->m;
    uint32_t at = of->at;
    sn_kern k = m->kernels.at[at], copy = sn_kern_clone(m, k);
    sn_pass_ctx quiet = *cx;
    sn_schedule_shape sh;
    sn_schedule_model md;
    quiet.remark = NULL;
    quiet.metrics = NULL;
    m->kernels.at[at] = copy;
    sn_status st = sn_schedule_look(&sh, &quiet, of->users, at);
    if (st == SN_OK) {
        bind(&quiet, copy, &sh, by, *sched);
        sn_schedule_estimate(&md, &quiet, copy, &sn_kern_get(m, copy)->sched);
        *cycles = md.cycles;
    }
    m->kernels.at[at] = k;
    return st;
}

/* Say what else was worth trying, and how long it would take. */
static sn_status compare(sn_pass_ctx *cx, const sn_schedule_shape *sh, const scheduler *by,
                         const sn_sched_list *headers) {
    bool wanted = cx->remark || sn_metric_wanted(cx->metrics, SN_METRIC_CANDIDATES);
    if (!wanted || !cx->target->is_gpu) return SN_OK;
    for (uint32_t i = 0; i < headers->n && headers->n > 1; i++) {
        sn_text t;
        double cycles;
        SN_TRY(estimate(&cycles, cx, sh, by, &headers->at[i]));
        sn_text_init(&t, cx->m->env);
        sn_sched_print(&t, &headers->at[i]);
        const char *name = sn_kern_get(cx->m, cx->m->kernels.at[sh->at])->name;
        sn_remark(cx, name, "candidate %s: %.0f cycles", t.s, cycles);
        sn_row_candidates *row = SN_ADD_ROW(cx->metrics, CANDIDATES, candidates);
        if (row)
            *row = (sn_row_candidates){sn_metric_text(cx->metrics, name), sn_metric_text(cx->metrics, t.s), cycles,
                                       i == 0};
        sn_text_free(&t);
    }
    return SN_OK;
}

/* A class that is named may say that it cannot: then it proposes nothing. */
static sn_status propose(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                         const scheduler *by, const sn_sched *pinned) {
    uint32_t n = out->n;
    sn_status status = by->candidates(out, cx, k, sh, pinned);
    if (status != SN_ERROR_ARGUMENT) return status;
    out->n = n;
    sn_env_clear(cx->m->env);
    return SN_OK;
}

sn_status sn_schedule_first(sn_sched *out, double *cycles, sn_pass_ctx *cx, uint32_t at) {
    sn_users users;
    sn_schedule_shape sh;
    sn_sched_list headers = {0};
    const scheduler *by;
    sn_users_find(&users, cx->m, cx->scratch);
    SN_TRY(sn_schedule_look(&sh, cx, &users, at));
    bool unused = false;
    SN_TRY(choose(&by, &headers, cx, &sh, &unused));
    *out = headers.at[0];
    *cycles = 0;
    return cx->target->is_gpu ? estimate(cycles, cx, &sh, by, out) : SN_OK;
}

/* For whoever times them (tune/). Headers leave open what the pass decides before it asks anybody, and agree with what stands
 * in that of the kernel. */
sn_status sn_schedule_list(sn_sched_list *out, double **cycles, sn_pass_ctx *cx, uint32_t at) {
    sn_users users;
    sn_schedule_shape sh;
    const char *why_not;
    sn_kern k = cx->m->kernels.at[at];
    SN_VEC(double) estimates = {0};
    sn_users_find(&users, cx->m, cx->scratch);
    SN_TRY(sn_schedule_look(&sh, cx, &users, at));
    for (size_t i = 0; i < SN_COUNT(SCHEDULERS); i++) {
        const scheduler *by = &SCHEDULERS[i];
        sn_sched pinned = sn_kern_get(cx->m, k)->sched;
        if (pinned.cls != SN_SCHED_NONE && pinned.cls != by->cls) continue;
        pinned.cls = by->cls;
        if (!may_bind(by, &sh) || !by->applies(&why_not, cx, k, &sh)) continue;
        SN_TRY(propose(out, cx, k, &sh, by, &pinned));
        while (estimates.n < out->n) {
            double needs = 0;
            sn_sched sched = out->at[estimates.n];
            if (!sched.split) sched.split = 1;
            if (cx->target->is_gpu) SN_TRY(estimate(&needs, cx, &sh, by, &sched));
            SN_PUSH(cx->scratch, &estimates, needs);
        }
    }
    *cycles = estimates.at;
    return cx->m->env->status;
}

sn_status sn_schedule_complete(sn_sched *sched, double *cycles, sn_pass_ctx *cx, uint32_t at) {
    sn_users users;
    sn_schedule_shape sh;
    const char *why_not;
    sn_sched_list out = {0};
    sn_sched pinned = *sched;
    sn_kern k = cx->m->kernels.at[at];
    *cycles = 0;
    sched->cls = SN_SCHED_NONE;
    sn_users_find(&users, cx->m, cx->scratch);
    SN_TRY(sn_schedule_look(&sh, cx, &users, at));
    for (size_t i = 0; i < SN_COUNT(SCHEDULERS) && !out.n; i++) {
        const scheduler *by = &SCHEDULERS[i];
        if (by->cls != pinned.cls || !by->applies(&why_not, cx, k, &sh)) continue;
        SN_TRY(propose(&out, cx, k, &sh, by, &pinned));
        if (!out.n) continue;
        *sched = out.at[0];
        if (!sched->split) sched->split = 1;
        if (cx->target->is_gpu) SN_TRY(estimate(cycles, cx, &sh, by, sched));
    }
    return SN_OK;
}

sn_status sn_schedule_count(double *cycles, sn_pass_ctx *cx, sn_kern k, sn_sched_class cls) {
    const char *why_not;
    sn_sched pinned = sn_kern_get(cx->m, k)->sched;
    sn_pass_ctx quiet = *cx;
    quiet.remark = NULL;
    quiet.metrics = NULL;
    *cycles = 0;
    if (pinned.cls != SN_SCHED_NONE && pinned.cls != cls) return SN_OK;
    for (size_t i = 0; i < SN_COUNT(SCHEDULERS); i++) {
        sn_sched_list headers = {0};
        if (SCHEDULERS[i].cls != cls || !SCHEDULERS[i].applies(&why_not, &quiet, k, NULL)) continue;
        SN_TRY(SCHEDULERS[i].candidates(&headers, &quiet, k, NULL, &pinned));
        if (headers.n) return *cycles = headers.cycles, SN_OK;
    }
    return SN_OK;
}

/* ---- the pass ---- */

/* Who has proposed headers of that class for the kernel: the first row that applies. */
static const scheduler *row_of(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_sched_class cls) {
    const char *why_not;
    const scheduler *by = SCHEDULERS;
    while (by->cls != cls || !may_bind(by, sh) || !by->applies(&why_not, cx, k, sh)) by++;
    return by;
}

/* The kernel once more, bound as the header says. */
static sn_status add_alternative(sn_kern_list *out, sn_pass_ctx *cx, const sn_schedule_shape *of,
                                 const sn_sched *sched) {
    sn_module *m = cx->m;
    sn_kern k = m->kernels.at[of->at], copy = sn_kern_clone(m, k);
    sn_kern_rec *r = sn_kern_get(m, copy);
    const scheduler *by = row_of(cx, k, of, sched->cls);
    sn_pass_ctx quiet = *cx;
    sn_schedule_shape sh;
    quiet.remark = NULL;
    const char *name = sn_strf(&m->arena, "%s_%s", sn_kern_get(m, k)->name, sn_sched_kind(sched));
    r->name = sn_fresh_name(&m->arena, &m->kern_names, name, "k");
    sn_names_put(&m->kern_names, r->name, copy.i);
    r->note = sn_kern_get(m, k)->note;
    r->alternative_of = k;
    m->kernels.at[of->at] = copy;
    sn_status st = sn_schedule_look(&sh, &quiet, of->users, of->at);
    if (st == SN_OK) bind(&quiet, copy, &sh, by, *sched);
    m->kernels.at[of->at] = k;
    SN_PUSH(cx->scratch, out, copy);
    return st;
}

/* What other schedules the kernel gets; they are bound before it is. */
static sn_status add_alternatives(sn_kern_list *out, sn_pass_ctx *cx, const sn_schedule_shape *sh, const scheduler *by,
                                  const sn_sched *first) {
    sn_sched_list members = {0};
    double cycles;
    SN_TRY(estimate(&cycles, cx, sh, by, first));
    SN_TRY(sn_schedule_members(&members, cx, sh, first, cycles));
    for (uint32_t i = 0; i < members.n; i++) SN_TRY(add_alternative(out, cx, sh, &members.at[i]));
    return SN_OK;
}

/* more: alternatives, which stand in no list yet; NULL: none are wanted. */
static sn_status schedule_kernel(sn_kern_list *more, sn_pass_ctx *cx, const sn_users *users, uint32_t at) {
    sn_kern k = cx->m->kernels.at[at];
    sn_schedule_shape sh;
    sn_sched_list headers = {0};
    const scheduler *by;
    SN_TRY(sn_schedule_look(&sh, cx, users, at));
    bool decided = sn_kern_get(cx->m, k)->sched.cls != SN_SCHED_NONE;
    SN_TRY(choose(&by, &headers, cx, &sh, &decided));
    SN_TRY(compare(cx, &sh, by, &headers));
    if (more && !decided) SN_TRY(add_alternatives(more, cx, &sh, by, &headers.at[0]));
    bind(cx, k, &sh, by, headers.at[0]);
    if (by->cls != SN_SCHED_LIBRARY) sn_schedule_explain(cx, k, &sn_kern_get(cx->m, k)->sched);
    return cx->m->env->status;
}

/* A kernel of text may be scheduled for a library that is not here: its nest is as plain as before, and is scheduled again. */
static bool is_done(sn_pass_ctx *cx, sn_kern k) {
    const char *why_not;
    const sn_kern_rec *r = sn_kern_get(cx->m, k);
    return r->scheduled && (!sn_kern_is_library(r) || sn_pass_library_runs(&why_not, cx, k));
}

sn_status sn_pass_schedule(sn_pass_ctx *cx, bool *changed) {
    sn_users users;
    sn_kern_list more = {0};
    bool wants_more = cx->choosing && cx->choosing->multi != SN_MULTI_OFF && cx->target->is_gpu;
    const bool *constant = wants_more ? sn_kerns_constant(cx->m, cx->scratch) : NULL;
    sn_users_find(&users, cx->m, cx->scratch);
    const sn_equal *equal = sn_schedule_once(cx, &users);
    for (uint32_t i = 0; i < cx->m->kernels.n; i++) {
        if (is_done(cx, cx->m->kernels.at[i])) continue;
        if (equal && equal[i].of.i) sn_kern_take(cx->m, cx->m->kernels.at[i], &equal[i]);
        else SN_TRY(schedule_kernel(wants_more && !constant[i] ? &more : NULL, cx, &users, i));
        *changed = true;
    }
    for (uint32_t i = 0; i < more.n; i++) SN_PUSH(&cx->m->arena, &cx->m->kernels, more.at[i]);
    return cx->m->env->status;
}
