/* multi.c: kernels with several schedules: forced, from records, or by timing when the program is loaded.
 *
 *     after the passes      kernel @k1 ..  kernel @k1_looped .. alternative @k1
 *     forced, on record     one of them, called by the name that it has; the others are not compiled
 *     else                  all are compiled, runtime/pick.c times them, and the fastest is what the wrapper calls
 *
 * A record is that of a choice of tuning (tune/records.c), in the same folder: its key is the texts of all members as they run, so
 * that another version of the schedules finds none of an older one's; its choice is the header of the winner. With tuning off none is
 * read or written. The kernels that tuning has decided have no alternatives.
 */
#include "frontend/multi.h"

#include <string.h>

#include "frontend/tune.h"

sn_status sn_multi_read(sn_multi_kernel *out, const char **forced, sn_env *env, const char *text) {
    static const char *const words[] = {"off", "reductions", "all"};
    size_t n = strcspn(text, ",");
    *forced = text[n] ? text + n + 1 : NULL;
    for (unsigned k = 0; k < SN_COUNT(words); k++) {
        if (strlen(words[k]) != n || memcmp(words[k], text, n) != 0) continue;
        *out = (sn_multi_kernel)k;
        return SN_OK;
    }
    return sn_fail(env, SN_ERROR_ARGUMENT, "multi_kernel: '%.*s' is none of off, reductions, all", (int)n, text);
}

/* The texts of all members. */
static const char *key_of(sn_program *p, const sn_kern_list *set) {
    sn_text t;
    sn_text_init(&t, &p->ctx->env);
    sn_text_put(&t, "multi\n");
    for (uint32_t i = 0; i < set->n; i++) sn_kern_print_plain(&t, p->m, set->at[i]);
    const char *key = sn_strdup(&p->arena, t.s);
    sn_text_free(&t);
    return key;
}

static const char *choice_of(const sn_program *p, sn_kern k, sn_arena *a) {
    return sn_strf(a, "schedule %s", sn_trial_header(&p->ctx->env, &sn_kern_get(p->m, k)->sched, a));
}

static sn_record_place place_of(const sn_program *p, const sn_settings *s) {
    sn_record_place place = sn_tuner_place(p, s);
    if (s->tune == SN_TUNE_OFF || !p->runnable) place.folder = NULL;
    return place;
}

/* ---- before code is made ---- */

static sn_kern forced_member(const sn_module *m, const sn_kern_list *set, const char *word) {
    for (uint32_t i = 0; i < set->n; i++)
        if (!strcmp(sn_sched_kind(&sn_kern_get(m, set->at[i])->sched), word)) return set->at[i];
    return set->at[0];
}

/* None: nothing is known. */
static sn_kern recorded_member(sn_program *p, const sn_kern_list *set, const char *key, sn_record_place *place) {
    double us;
    const char *choice = sn_record_find(&us, place, key, &p->ctx->scratch);
    for (uint32_t i = 0; i < set->n && choice; i++)
        if (!strcmp(choice, choice_of(p, set->at[i], &p->ctx->scratch))) return set->at[i];
    return (sn_kern){0};
}

static void settle_one(sn_program *p, const sn_settings *s, sn_kern first, bool source, sn_record_place *place) {
    sn_kern_list set = {0};
    sn_kern_alternatives(&set, p->m, &p->ctx->scratch, first);
    const char *key = key_of(p, &set);
    sn_kern winner = {0};
    if (s->multi_forced) winner = forced_member(p->m, &set, s->multi_forced);
    else winner = recorded_member(p, &set, key, place);
    if (!winner.i && source) winner = first;
    if (winner.i) sn_kern_settle(p->m, first, winner);
    else SN_PUSH(&p->arena, &p->sets, ((sn_kernel_set){first, key}));
}

sn_status sn_multi_settle(sn_program *p, const sn_settings *s, bool source) {
    const bool *sets = sn_kerns_of_sets(p->m, &p->ctx->scratch);
    if (!sets) return SN_OK;
    sn_record_place place = place_of(p, s);
    sn_kern_list firsts = {0};
    for (uint32_t i = 0; i < p->m->kernels.n; i++) {
        sn_kern k = p->m->kernels.at[i];
        if (sets[k.i] && !sn_kern_get(p->m, k)->alternative_of.i) SN_PUSH(&p->ctx->scratch, &firsts, k);
    }
    p->info.n_choices = firsts.n;
    for (uint32_t i = 0; i < firsts.n; i++) settle_one(p, s, firsts.at[i], source, &place);
    if (place.warning[0] && s->passes.print)
        s->passes.print(s->passes.print_user, sn_strf(&p->ctx->scratch, "%s\n", place.warning));
    return p->ctx->env.status;
}

/* ---- after loading ---- */

static const char *key_found(const sn_program *p, sn_kern first) {
    for (uint32_t i = 0; i < p->sets.n; i++)
        if (sn_kern_eq(p->sets.at[i].first, first)) return p->sets.at[i].key;
    return NULL;
}

static void record_one(sn_program *p, const sn_rt_pick *pick, const uint32_t *number, sn_record_place *place) {
    sn_arena *a = &p->ctx->scratch;
    sn_kern first = p->m->kernels.at[pick->first];
    sn_kern_list set = {0};
    sn_trial_list trials = {.arena = a};
    uint32_t best = 0;
    sn_kern_alternatives(&set, p->m, a, first);
    for (uint32_t i = 0; i < set.n; i++) {
        uint32_t at = number[set.at[i].i];
        double us = sn_prog_picked_us(p->prog, at);
        sn_trial t = {.choice = choice_of(p, set.at[i], a), .us = us, .fate = us > 0 ? SN_TRIAL_TIMED : SN_TRIAL_OPEN};
        if (at == pick->winner) best = i;
        SN_PUSH(a, &trials, t);
    }
    const char *key = key_found(p, first);
    if (key) sn_record_save(place, key, &trials, best);
}

void sn_multi_record(sn_program *p, const sn_settings *s) {
    uint32_t n = 0;
    const sn_rt_pick *picks = p->prog ? sn_prog_picks(&n, p->prog) : NULL;
    if (!n) return;
    sn_record_place place = place_of(p, s);
    const uint32_t *number = sn_kern_numbers(p->m, &p->ctx->scratch);
    p->info.n_timed = n;
    for (uint32_t i = 0; i < n; i++) {
        p->info.choose_us += picks[i].took_us;
        if (place.folder) record_one(p, &picks[i], number, &place);
    }
    if (place.warning[0] && s->passes.print)
        s->passes.print(s->passes.print_user, sn_strf(&p->ctx->scratch, "%s\n", place.warning));
}
