/* kernel_trials.c: which schedules are worth timing for a kernel that is no product.
 *
 *     plain inner block_x=256 vector=8 unroll=2 persistent      what the pass `schedule` chooses
 *     schedule inner block_x=512 vector=8 unroll=1 persistent   what all classes propose that can bind it
 *     schedule inner block_x=256 vector=8 unroll=1              neighbours: one number of the first one twice as large, or half
 *
 * A class completes what a neighbour leaves open, or says that it cannot be: half the steps of a row that stays in registers are a row
 * that is looped over. What stands in the kernel's header already stays. Relies on the text beginning with the kernel that is asked
 * about (passes/schedule/alone.c). Cost: one binding of the kernel for each schedule, where there is a model.
 */
#include <string.h>

#include "passes/schedule/choose.h"
#include "tune/tune.h"

const char *sn_trial_header(sn_env *env, const sn_sched *header, sn_arena *arena) {
    sn_text t;
    sn_text_init(&t, env);
    sn_sched_print(&t, header);
    const char *text = sn_strdup(arena, t.s);
    sn_text_free(&t);
    return text;
}

typedef struct lister {
    sn_trial_list *out;
    sn_pass_ctx cx;
    sn_sched_list seen; /* of each trial */
} lister;

/* 1 part is none. */
static bool is_same(sn_sched a, sn_sched b) {
    if (a.split == 1) a.split = 0;
    if (b.split == 1) b.split = 0;
    return sn_sched_eq(&a, &b);
}

static void add(lister *l, const sn_sched *header, double cycles, const char *name) {
    for (uint32_t k = 0; k < l->seen.n; k++)
        if (is_same(l->seen.at[k], *header)) return;
    SN_PUSH(l->out->arena, &l->seen, *header);
    const char *text = sn_trial_header(l->cx.m->env, header, l->out->arena);
    sn_trial t = {.choice = sn_strf(l->out->arena, "%s %s", name, text), .cycles = cycles};
    SN_PUSH(l->out->arena, l->out, t);
}

/* ---- neighbours ---- */

/* Fields that a step is taken in; vectors become no wider: classes know how wide accesses may be. */
static const struct {
    sn_sched_field field;
    bool up;
} STEPS[] = {
    {SN_SCHED_FIELD_unroll, false},  {SN_SCHED_FIELD_unroll, true},  {SN_SCHED_FIELD_block_x, true},
    {SN_SCHED_FIELD_block_x, false}, {SN_SCHED_FIELD_block_y, true}, {SN_SCHED_FIELD_block_y, false},
    {SN_SCHED_FIELD_vector, false},
};

static bool takes_steps(sn_sched_class cls) {
    return cls == SN_SCHED_ELEMENT || cls == SN_SCHED_INNER || cls == SN_SCHED_OUTER || cls == SN_SCHED_TILE;
}

/* Rows that stay in registers are written out whole: a longer step is none. */
static bool steps(sn_sched *to, const sn_sched *from, const sn_sched *pinned, sn_sched_field field, bool up) {
    uint32_t value = sn_sched_get(from, field);
    bool has = sn_sched_classes[from->cls].fields >> field & 1;
    if (!has || sn_sched_get(pinned, field) || !value || (!up && value == 1)) return false;
    if (field == SN_SCHED_FIELD_unroll && up && from->persistent) return false;
    *to = *from;
    to->persistent = pinned->persistent; /* follows from the others */
    sn_sched_set(to, field, up ? value * 2 : value / 2);
    return true;
}

/* As many threads as a block may have, and no part of a warp. */
static bool is_block(const sn_target *t, const sn_sched *s) {
    uint64_t threads = (uint64_t)s->block_x * (s->cls == SN_SCHED_TILE || !s->block_y ? 1 : s->block_y);
    return !t->is_gpu || (threads <= t->max_threads && threads >= SN_WARP);
}

static sn_status add_neighbours(lister *l, const sn_sched *first) {
    const sn_sched *pinned = &sn_kern_get(l->cx.m, l->cx.m->kernels.at[0])->sched;
    if (!takes_steps(first->cls)) return SN_OK;
    for (size_t k = 0; k < SN_COUNT(STEPS) && l->out->n < SN_CHOICE_KERNEL_TRIALS; k++) {
        sn_sched next;
        double cycles;
        if (!steps(&next, first, pinned, STEPS[k].field, STEPS[k].up) || !is_block(l->cx.target, &next)) continue;
        SN_TRY(sn_schedule_complete(&next, &cycles, &l->cx, 0));
        if (next.cls != SN_SCHED_NONE) add(l, &next, cycles, "schedule");
    }
    return SN_OK;
}

/* ---- all ---- */

static sn_status list(lister *l, const char *kernel) {
    sn_sched first;
    sn_sched_list proposed = {0};
    double *cycles, of_first;
    SN_TRY(sn_module_parse(l->cx.m, "kernel", kernel, strlen(kernel)));
    SN_TRY(sn_schedule_first(&first, &of_first, &l->cx, 0));
    first.precision = SN_PRECISION_EXACT; /* is no choice */
    add(l, &first, of_first, "plain");
    SN_TRY(sn_schedule_list(&proposed, &cycles, &l->cx, 0));
    for (uint32_t k = 0; k < proposed.n; k++) add(l, &proposed.at[k], cycles[k], "schedule");
    return add_neighbours(l, &first);
}

sn_status sn_kernel_trials_list(sn_trial_list *out, sn_env *env, const char *kernel, const sn_target *target) {
    sn_module *m = sn_module_new(env);
    lister l = {.out = out, .cx = {.m = m, .scratch = out->arena, .target = target, .pass = "schedule"}};
    sn_status status = list(&l, kernel);
    sn_module_free(m);
    return status;
}
