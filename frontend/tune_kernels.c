/* tune_kernels.c: schedules of kernels: which kernels of a program are worth timing, and what is on record for them.
 *
 *     the passes before `schedule`, with what was decided about products  ->  kernels, fused as they will be
 *     each as a program of its own (passes/schedule/alone.c), equal ones once; those that take longest first  ->  tune.c
 *
 * Left as they are: kernels with one candidate; what takes less than a few microseconds, where a launch is most of the time; what
 * `horizontal-fuse` puts in one launch with others, for segments need one block shape, and a launch each costs more than
 * another shape gains; what runs once, when a program is loaded; products, which were asked about before. Memory is that of
 * one kernel's arguments, with its results a second time: the program itself is never loaded. Cost: the passes up to
 * `horizontal-fuse` once. Without tuning `schedule` asks for each kernel itself (sn_program_ask_records), which is a look at a file.
 */
#include "frontend/tune.h"

#include <stdlib.h>
#include <string.h>

#include "ir/loop/access.h"
#include "passes/schedule/alone.h"
#include "passes/schedule/constants.h"

typedef struct candidate {
    sn_subject x;
    sn_kern kernel;
    double one, weight; /* cycles by the model, or statements; of all kernels of this text */
    uint32_t order;
} candidate;

typedef struct lister {
    sn_tuner *t;
    sn_module *m;
    sn_pass_ctx cx; /* asks schedules about m */
    const char *passes;
    SN_VEC(candidate) list;
} lister;

/* ---- what a kernel is called ---- */

static void put_ports(sn_text *t, const sn_module *m, sn_kern k, bool stored) {
    const sn_buf_list *params = &sn_kern_get(m, k)->params;
    const char *between = "";
    for (uint32_t i = 0; i < params->n; i++) {
        const sn_buf_rec *b = sn_buf_get(m, params->at[i]);
        if (sn_kern_stores(m, k, params->at[i]) != stored) continue;
        sn_text_printf(t, "%s%s[", between, sn_dtypes[b->dtype].name);
        for (uint32_t a = 0; a < b->rank; a++)
            sn_text_printf(t, "%s%lld", a ? ", " : "", (long long)sn_ix_value(m, b->shape[a]));
        sn_text_put(t, "]");
        between = ", ";
    }
}

/* "amax; sub, exp, sum; div: f32[64, 1000] -> f32[64, 1000]" */
static const char *title_of(const sn_module *m, sn_kern k, sn_arena *arena) {
    sn_text t;
    sn_text_init(&t, m->env);
    const char *note = sn_kern_get(m, k)->note;
    sn_text_printf(&t, "%s: ", note ? note : sn_kern_get(m, k)->name);
    put_ports(&t, m, k, false);
    sn_text_put(&t, " -> ");
    put_ports(&t, m, k, true);
    const char *title = sn_strdup(arena, t.s);
    sn_text_free(&t);
    return title;
}

/* ---- what a run moves at least ---- */

static bool has_axis_of(const sn_module *m, const sn_access *a, sn_stmt nest) {
    return sn_ix_uses_axis(m, a->ix, sn_stmt_get(m, nest)->axis);
}

/* Elements that an access touches, if those are as many as its axes have positions; none where a mask or a loaded position
 * decides. */
static double touched(const sn_module *m, const sn_access *a) {
    sn_chain around;
    double n = 1;
    if (sn_stmt_get(m, a->s)->has_mask || sn_ix_uses_vals(m, a->ix)) return 0;
    sn_chain_around(&around, m, a->s);
    for (uint32_t k = 0; k < around.n; k++)
        if (has_axis_of(m, a, around.at[k])) n *= (double)sn_ix_value(m, sn_stmt_extent(m, around.at[k]));
    double size = (double)sn_ix_value(m, sn_buf_get(m, a->buf)->size);
    return n < size ? n : size;
}

/* Each buffer counts once for what is loaded and once for what is stored, by the access that touches most. */
static double bytes_of(const sn_module *m, sn_kern k, sn_arena *arena) {
    sn_access_list all = {0};
    double bytes = 0;
    sn_access_find_all(&all, m, arena, k);
    double(*most)[2] = (double(*)[2])SN_NEWN(arena, double, 2 * (size_t)m->bufs.count);
    for (uint32_t i = 0; i < all.n; i++) {
        const sn_access *a = &all.at[i];
        if (!sn_buf_is_global(sn_buf_get(m, a->buf))) continue;
        double now = touched(m, a) * sn_dtype_bytes(sn_buf_get(m, a->buf)->dtype), *best = &most[a->buf.i][a->store];
        if (now <= *best) continue;
        bytes += now - *best;
        *best = now;
    }
    return bytes;
}

/* ---- which ---- */

static candidate *listed(lister *l, const char *key) {
    for (uint32_t k = 0; k < l->list.n; k++)
        if (!strcmp(l->list.at[k].x.key, key)) return &l->list.at[k];
    return NULL;
}

/* Longer than what a launch takes anyway? By the model; on the CPU, for which there is none, by what is to be done. */
static bool is_long(const lister *l, sn_kern k, double *weight, const sn_trial_list *trials) {
    bool by_model = l->cx.target->is_gpu;
    *weight = by_model ? trials->at[0].cycles : sn_kernel_statements(l->m, k);
    return *weight >= (by_model ? SN_TUNE_CYCLES : SN_TUNE_STATEMENTS);
}

static bool has_products(const sn_module *source, const sn_trial_list *trials) {
    bool products = false, any = false;
    for (sn_nd x = {1}; x.i < source->graph.nodes.count; x.i++) {
        sn_op op = sn_node_get(source, x)->op;
        products |= op == SN_OP_MATMUL || op == SN_OP_CONV;
    }
    for (uint32_t k = 0; k < trials->n && products; k++) {
        const char *cls = strchr(trials->at[k].choice, ' ');
        any |= !strncmp(cls ? cls + 1 : "", "contract", 8);
    }
    return any;
}

static sn_status list_one(lister *l, const sn_users *users, uint32_t at) {
    sn_arena *arena = &l->t->ctx->scratch;
    sn_kern k = l->m->kernels.at[at];
    const char *why_not, *key = sn_kernel_key(&why_not, &l->cx, users, at);
    candidate *same = key ? listed(l, key) : NULL;
    if (!key) return SN_OK;
    sn_trial_list *trials = SN_NEW(arena, sn_trial_list);
    *trials = (sn_trial_list){.arena = arena};
    candidate c = {.kernel = k, .order = l->list.n};
    if (same) {
        same->weight += same->one;
        return SN_OK;
    }
    SN_TRY(sn_kernel_trials_list(trials, l->m->env, key, l->cx.target));
    if (trials->n < 2 || !is_long(l, k, &c.one, trials) || has_products(l->t->p->source, trials)) return SN_OK;
    c.weight = c.one;
    c.x = (sn_subject){.key = key,
                       .title = title_of(l->m, k, arena),
                       .bytes = bytes_of(l->m, k, arena),
                       .passes = l->passes,
                       .trials = trials};
    SN_PUSH(arena, &l->list, c);
    return SN_OK;
}

static sn_status list_all(lister *l) {
    sn_users users;
    sn_arena *arena = &l->t->ctx->scratch;
    const bool *constant = sn_kerns_constant(l->m, arena);
    sn_users_find(&users, l->m, arena);
    for (uint32_t at = 0; at < l->m->kernels.n; at++)
        if (!constant[at]) SN_TRY(list_one(l, &users, at));
    return SN_OK;
}

/* ---- who shares a launch ---- */

static bool is_alone(const sn_module *m, sn_kern k) {
    uint32_t segments = 0;
    bool there = false;
    for (uint32_t i = 0; i < m->kernels.n; i++) there |= sn_kern_eq(m->kernels.at[i], k);
    for (sn_stmt s = sn_kern_get(m, k)->first; s.i; s = sn_stmt_get(m, s)->next)
        segments += sn_is_nest(sn_stmt_get(m, s)) && sn_stmt_get(m, s)->kind == SN_AXIS_GRID;
    return there && segments < 2;
}

/* The same module goes on to where launches are shared. */
static sn_status drop_shared(lister *l, sn_pass_options *o) {
    uint32_t n = 0;
    o->pipeline = l->passes;
    o->stop_after = "horizontal-fuse";
    if (!strstr(l->passes, o->stop_after)) return SN_OK;
    SN_TRY(sn_passes_run(&l->m, &l->t->p->target, o));
    for (uint32_t k = 0; k < l->list.n; k++)
        if (is_alone(l->m, l->list.at[k].kernel)) l->list.at[n++] = l->list.at[k];
    l->list.n = n;
    return SN_OK;
}

/* ---- all of them ---- */

static int by_weight(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static sn_status find_all(lister *l) {
    sn_tuner *t = l->t;
    sn_pass_options o = {.pipeline = sn_passes_before(&t->ctx->scratch, t->pipeline, "schedule"),
                         .choosing = {.allowed = t->s->passes.choosing.allowed, .at = t->decisions.at, .n = t->decisions.n},
                         .library = sn_program_library(t->p)};
    SN_TRY(sn_source_copy(&l->m, &t->ctx->env, t->p->source));
    SN_TRY(sn_passes_run(&l->m, &t->p->target, &o));
    l->cx = (sn_pass_ctx){.m = l->m,
                          .scratch = &t->ctx->scratch,
                          .target = &t->p->target,
                          .library = sn_program_library(t->p),
                          .pass = "schedule"};
    SN_TRY(list_all(l));
    return drop_shared(l, &o);
}

static bool may_choose(const sn_tuner *t) {
    const char *unused;
    return sn_choice_allowed(sn_choice_find(&unused, SN_OP_MATMUL, "schedule"), t->s->passes.choosing.allowed);
}

sn_status sn_tuner_kernels(sn_tuner *t) {
    lister l = {.t = t, .passes = sn_passes_from(&t->ctx->scratch, t->pipeline, "schedule")};
    if (!l.passes || !may_choose(t)) return SN_OK;
    sn_status status = find_all(&l);
    sn_module_free(l.m);
    if (status != SN_OK) return status;
    if (l.list.n) qsort(l.list.at, l.list.n, sizeof *l.list.at, by_weight);
    t->left = l.list.n;
    for (uint32_t k = 0; k < l.list.n; k++) SN_TRY(sn_tuner_decide(t, &l.list.at[k].x));
    return SN_OK;
}

/* ---- records, without tuning ---- */

typedef struct asker {
    sn_context *ctx;
    sn_record_place *place;
} asker;

static const char *ask(void *user, const char *key) {
    asker *a = user;
    double us;
    return sn_record_find(&us, a->place, key, &a->ctx->scratch);
}

void sn_program_ask_records(sn_program *p, const sn_record_place *place) {
    asker *a = SN_NEW(&p->arena, asker);
    p->records = SN_NEW(&p->arena, sn_record_place);
    *p->records = *place;
    p->records->warning[0] = 0; /* said by whoever it happened to */
    *a = (asker){p->ctx, p->records};
    p->choosing.ask = ask;
    p->choosing.ask_user = a;
}

void sn_program_say_records(const sn_program *p, const sn_settings *s) {
    const char *warning = p->records ? p->records->warning : "";
    if (warning[0] && s->passes.print)
        s->passes.print(s->passes.print_user, sn_strf(&p->ctx->scratch, "%s\n", warning));
}
