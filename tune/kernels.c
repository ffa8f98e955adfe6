/* kernels.c: which kernels of a program are worth timing.
 *
 *     the passes before `schedule`  ->  kernels, fused as they will be
 *     each as a program of its own (passes/schedule/alone.c), equal ones once  ->  those that take longest first
 *
 * Left as they are: kernels with one candidate; what takes less than a few microseconds, where a launch is most of the time; what
 * `horizontal-fuse` puts in one launch with others, for segments need one block shape, and a launch each costs more than
 * another shape gains; what runs once, when a program is loaded; products, where those were asked about before. Cost: the passes up to
 * `horizontal-fuse` once, and the binding of each candidate where there is a model.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/loop/access.h"
#include "passes/schedule/alone.h"
#include "tune/tune.h"

typedef struct lister {
    sn_kernel_list *out;
    const sn_kernels_how *how;
    sn_module *m;
    sn_pass_ctx cx; /* asks schedules about m */
    sn_names seen;  /* key -> 1 + position in out, or NOT_WORTH */
} lister;

static const uint32_t NOT_WORTH = UINT32_MAX; /* of a key that is not timed */

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

/* Each buffer counts once for what is loaded or stored, by the access that touches most: what a kernel stores it need not load. */
static double bytes_of(const sn_module *m, sn_kern k, sn_arena *arena) {
    sn_access_list all = {0};
    double bytes = 0;
    sn_access_find_all(&all, m, arena, k);
    double *most = SN_NEWN(arena, double, m->bufs.count);
    for (uint32_t i = 0; i < all.n; i++) {
        const sn_access *a = &all.at[i];
        if (!sn_buf_is_global(sn_buf_get(m, a->buf)) || (!a->store && sn_kern_stores(m, k, a->buf))) continue;
        double now = touched(m, a) * sn_dtype_bytes(sn_buf_get(m, a->buf)->dtype);
        if (now <= most[a->buf.i]) continue;
        bytes += now - most[a->buf.i];
        most[a->buf.i] = now;
    }
    return bytes;
}

/* ---- which ---- */

/* Longer than what a launch takes anyway? By the model; on the CPU, for which there is none, by what is to be done. */
static bool is_long(const lister *l, sn_kern k, double *weight, const sn_trial_list *trials) {
    bool by_model = l->cx.target->is_gpu;
    *weight = by_model ? trials->at[0].cycles : sn_kernel_statements(l->m, k);
    return *weight >= (by_model ? SN_CHOICE_KERNEL_CYCLES : SN_CHOICE_KERNEL_STATEMENTS);
}

/* Is it a product, one way or another? */
static bool is_product(const sn_trial_list *trials) {
    for (uint32_t k = 0; k < trials->n; k++) {
        const char *cls = strchr(trials->at[k].choice, ' ');
        if (cls && !strncmp(cls + 1, "contract ", 9)) return true;
    }
    return false;
}

static sn_status list_one(lister *l, const sn_users *users, uint32_t at) {
    sn_arena *arena = l->cx.scratch;
    sn_kern k = l->m->kernels.at[at];
    const char *why_not;
    sn_kernel_subject x = {.kernel = k, .order = l->out->n, .key = sn_kernel_key(&why_not, &l->cx, users, at)};
    uint32_t seen = x.key ? sn_names_get(&l->seen, x.key) : NOT_WORTH;
    if (seen) {
        if (seen != NOT_WORTH) l->out->at[seen - 1].weight += l->out->at[seen - 1].one;
        return SN_OK;
    }
    sn_names_put(&l->seen, x.key, NOT_WORTH);
    x.trials = SN_NEW(arena, sn_trial_list);
    *x.trials = (sn_trial_list){.arena = arena};
    SN_TRY(sn_kernel_trials_list(x.trials, l->m->env, x.key, l->cx.target));
    if (x.trials->n < 2 || !is_long(l, k, &x.one, x.trials) || (l->how->products && is_product(x.trials))) return SN_OK;
    x.weight = x.one;
    x.title = title_of(l->m, k, arena);
    x.bytes = bytes_of(l->m, k, arena);
    SN_PUSH(arena, l->out, x);
    sn_names_put(&l->seen, x.key, l->out->n);
    return SN_OK;
}

static sn_status list_all(lister *l) {
    sn_users users;
    const bool *constant = sn_kerns_constant(l->m, l->cx.scratch);
    sn_users_find(&users, l->m, l->cx.scratch);
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
static sn_status drop_shared(lister *l, sn_pass_options o) {
    uint32_t n = 0;
    o.pipeline = l->how->behind;
    o.stop_after = "horizontal-fuse";
    if (!strstr(o.pipeline, o.stop_after)) return SN_OK;
    SN_TRY(sn_passes_run(&l->m, l->cx.target, &o));
    for (uint32_t k = 0; k < l->out->n; k++)
        if (is_alone(l->m, l->out->at[k].kernel)) l->out->at[n++] = l->out->at[k];
    l->out->n = n;
    return SN_OK;
}

/* ---- all of them ---- */

static int by_weight(const void *a, const void *b) {
    const sn_kernel_subject *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->order < y->order ? -1 : x->order > y->order;
}

sn_status sn_kernels_list(sn_kernel_list *out, sn_module *m, const sn_kernels_how *how, sn_arena *arena) {
    lister l = {.out = out, .how = how, .m = m};
    sn_pass_options o = {.pipeline = how->before, .choosing = how->choosing, .library = how->library};
    SN_TRY(sn_passes_run(&l.m, how->target, &o));
    l.cx =
        (sn_pass_ctx){.m = l.m, .scratch = arena, .target = how->target, .library = how->library, .pass = "schedule"};
    sn_names_init(&l.seen, arena);
    SN_TRY(list_all(&l));
    SN_TRY(drop_shared(&l, o));
    if (out->n) qsort(out->at, out->n, sizeof *out->at, by_weight);
    return SN_OK;
}
