/* random_header.c: see random.h: kernels of a graph, with schedules in their headers that nobody has chosen.
 *
 * What stands in a header before `schedule` runs is obeyed, is refused in the user's words, or does not fit and is
 * dropped; whatever it is, the kernels that come out are right. So each kernel gets a class of sched_classes.def and a
 * few of its fields, of which some make sense. Numbers are those of threads, lanes and sides of tiles, odd ones among
 * them. Relies on the passes in front of `schedule`, which run here.
 */
#include "tools/random.h"

#include <string.h>

#include "passes/runner.h"

static uint32_t any_count(uint64_t *state) {
    static const uint32_t counts[] = {1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 16, 16, 32, 32, 64, 64, 96, 128, 128, 256, 512};
    return counts[random_below(state, SN_COUNT(counts))];
}

/* Sums of products keep the precision that the graph has given them. */
static sn_sched any_header(uint64_t *state, sn_precision precision) {
    sn_sched sc = {.cls = (sn_sched_class)(1 + random_below(state, SN_SCHED_LIBRARY - 1)), .precision = precision};
    for (int64_t n = random_below(state, 4); n > 0; n--) {
        sn_sched_field f = (sn_sched_field)random_below(state, SN_N_SCHED_FIELDS);
        bool reads = sn_sched_classes[sc.cls].fields >> f & 1;
        if (!reads || sn_sched_fields[f].words) n += random_chance(state, 90); /* another one */
        else sn_sched_set(&sc, f, sn_sched_fields[f].is_flag ? 1 : any_count(state));
    }
    return sc;
}

static sn_status put_headers(sn_text *out, sn_module **m, const sn_target *t, uint64_t state) {
    sn_env *env = (*m)->env;
    const char *all = t->is_gpu ? sn_pipeline_gpu : sn_pipeline_host;
    sn_pass_options options = {.pipeline = sn_passes_before(&(*m)->arena, all, "schedule"), .verify = SN_VERIFY_OFF};
    SN_TRY(sn_passes_run(m, t, &options));
    for (uint32_t i = 0; i < (*m)->kernels.n; i++) {
        sn_kern_rec *k = sn_kern_get(*m, (*m)->kernels.at[i]);
        if (!k->scheduled && random_chance(&state, 90)) k->sched = any_header(&state, k->sched.precision);
    }
    sn_module_print(out, *m);
    return env->status;
}

sn_status random_headers(sn_text *out, sn_context *ctx, const char *text, const char *target, uint64_t seed) {
    sn_target t;
    sn_module *m = sn_module_new(&ctx->env);
    sn_status status = SN_OK;
    if (target) status = sn_target_named(&t, &ctx->env, target);
    else sn_target_host(&t, 1);
    if (status == SN_OK) status = sn_module_parse(m, "random", text, strlen(text));
    if (status == SN_OK) status = put_headers(out, &m, &t, seed);
    sn_module_free(m);
    return status;
}
