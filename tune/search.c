/* search.c: which of several choices is the fastest, in little time.
 *
 *     estimate  what the model calls much slower than another one is not compiled
 *     compile   all that are left
 *     compare   with the one that most agree with; what deviates is dropped, however fast
 *     time      each once; what is not near the best, no more. As fast as memory allows: the rest stays open
 *     final     the best few in turn, so that a clock that slows down hits all of them
 *
 * What is asked about, as it is, gives way only to what is faster by more than timing is off. Given the same answers of the machine, the
 * same one wins. Relies on the machine for all that takes time.
 */
#include "tune/tune.h"

#include <string.h>

/* Factors of times: MUCH_SLOWER (of the model, which is within two of what is measured), MUCH_LONGER (of a comparison, above
 * LONG seconds), NEAR (worth another sample), ENOUGH (of the bound), GAIN (of what is asked about as it is, the spread of the
 * shortest of a few cold runs). */
static const double MUCH_SLOWER = 3, MUCH_LONGER = 10, LONG = 0.2, NEAR = 1.2, ENOUGH = 1 / 0.95, GAIN = 0.99;
enum { SAMPLES = 3, FINALISTS = 3 };

const char *const sn_trial_fate_names[SN_N_TRIAL_FATES] = {"left", "timed", "slow", "failed", "deviates"};

typedef struct searcher {
    sn_trial_list *trials;
    const sn_trial_machine *machine;
    double end;         /* of the time */
    double least;       /* seconds of a comparison; 0: there was none */
    uint32_t reference; /* of the last comparison; UINT32_MAX: there was none */
    uint32_t steps, done;
} searcher;

static sn_trial *trial(const searcher *s, uint32_t i) { return &s->trials->at[i]; }
static bool has_time(const searcher *s) { return s->machine->seconds(s->machine->user) < s->end; }
static bool is_plain(const sn_trial *t) { return !strncmp(t->choice, "plain", 5) && strchr(" ", t->choice[5]); }

static void step(searcher *s) {
    s->done++;
    if (s->machine->progress)
        s->machine->progress(s->machine->progress_user, s->done < s->steps ? s->done : s->steps, s->steps);
}

/* ---- before timing ---- */

static void drop_slow(const searcher *s) {
    double least = 0;
    for (uint32_t i = 0; i < s->trials->n; i++) {
        double cycles = trial(s, i)->cycles;
        if (cycles > 0 && (least == 0 || cycles < least)) least = cycles;
    }
    for (uint32_t i = 0; i < s->trials->n; i++)
        if (trial(s, i)->cycles > MUCH_SLOWER * least) trial(s, i)->fate = SN_TRIAL_SLOW;
}

/* Does it agree with the reference? One that takes much longer to say so than others is too slow to be timed; the first one that a
 * reference is compared with takes the time of both. */
static bool agrees(searcher *s, uint32_t reference, uint32_t i, const char **why) {
    const sn_trial_machine *m = s->machine;
    double before = m->seconds(m->user);
    bool same = m->same(why, m->user, s->trials, reference, i);
    double took = m->seconds(m->user) - before;
    bool alone = s->reference == reference && trial(s, i)->fate == SN_TRIAL_OPEN;
    if (alone && s->least > 0 && took > LONG && took > MUCH_LONGER * s->least) trial(s, i)->fate = SN_TRIAL_SLOW;
    s->reference = reference;
    if (took > 0 && (s->least == 0 || took < s->least)) s->least = took;
    return same;
}

/* How many open ones agree with the reference, itself included; why[i] is set for those that do not. When time is up, the rest is
 * left as if it were slow: nothing is timed that nobody has looked at. */
static uint32_t agreeing(searcher *s, uint32_t reference, const char **why) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->trials->n && trial(s, reference)->fate == SN_TRIAL_OPEN; i++) {
        why[i] = NULL;
        if (trial(s, i)->fate != SN_TRIAL_OPEN) continue;
        if (i != reference && !has_time(s)) {
            trial(s, i)->fate = SN_TRIAL_SLOW;
            continue;
        }
        bool same = i == reference || agrees(s, reference, i, &why[i]);
        if (same) why[i] = NULL;
        n += same && trial(s, i)->fate == SN_TRIAL_OPEN;
    }
    return n;
}

static uint32_t count_open(const searcher *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->trials->n; i++) n += trial(s, i)->fate == SN_TRIAL_OPEN;
    return n;
}

/* The one that most agree with; the first of those. One that more than half agree with is found without looking on. why is
 * what the found one has. */
static uint32_t find_reference(searcher *s, const char **why) {
    uint32_t best = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < s->trials->n; i++) {
        if (trial(s, i)->fate != SN_TRIAL_OPEN) continue;
        uint32_t n = agreeing(s, i, why);
        if (n > most) best = i, most = n;
        if (2 * n > count_open(s)) return i;
    }
    if (best == UINT32_MAX) return best;
    if (trial(s, best)->fate != SN_TRIAL_OPEN) return find_reference(s, why); /* dropped since */
    agreeing(s, best, why);
    return best;
}

static void drop_deviating(searcher *s, sn_arena *arena) {
    const char **why = SN_NEWN(arena, const char *, s->trials->n + 1);
    uint32_t reference = find_reference(s, why);
    if (reference == UINT32_MAX) return;
    for (uint32_t i = 0; i < s->trials->n; i++) {
        if (trial(s, i)->fate != SN_TRIAL_OPEN || !why[i]) continue;
        trial(s, i)->fate = SN_TRIAL_DEVIATES;
        trial(s, i)->why = why[i];
    }
}

/* ---- timing ---- */

static void sample(searcher *s, uint32_t i) {
    double us = s->machine->time(s->machine->user, s->trials, i);
    sn_trial *t = trial(s, i);
    if (t->fate == SN_TRIAL_FAILED) return;
    t->fate = SN_TRIAL_TIMED;
    t->us = t->samples && t->us < us ? t->us : us;
    t->samples++;
}

static bool is_faster(const searcher *s, uint32_t a, uint32_t b) {
    return trial(s, a)->fate == SN_TRIAL_TIMED && (b == UINT32_MAX || trial(s, a)->us < trial(s, b)->us);
}

static uint32_t time_all(searcher *s) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < s->trials->n; i++) {
        if (trial(s, i)->fate != SN_TRIAL_OPEN) continue;
        if (best != UINT32_MAX && (!has_time(s) || trial(s, best)->us <= s->machine->bound_us * ENOUGH)) break;
        for (uint32_t k = 0; k < SAMPLES; k++) {
            sample(s, i);
            if (trial(s, i)->fate == SN_TRIAL_FAILED) break;
            if (best != UINT32_MAX && (trial(s, i)->us > NEAR * trial(s, best)->us || !has_time(s))) break;
        }
        if (is_faster(s, i, best)) best = i;
        step(s);
    }
    return best;
}

/* The best few in turn; and the product as it is, which is the measure of what is gained. */
static void time_again(searcher *s, const uint32_t *rank) {
    for (uint32_t k = 0; k < SAMPLES; k++)
        for (uint32_t i = 0; i < s->trials->n; i++) {
            const sn_trial *t = trial(s, rank[i]);
            bool again = t->fate == SN_TRIAL_TIMED && t->us <= NEAR * trial(s, rank[0])->us;
            if (again && (i < FINALISTS || is_plain(t)) && has_time(s)) sample(s, rank[i]);
        }
}

void sn_trials_rank(uint32_t *at, const sn_trial_list *trials) {
    for (uint32_t i = 0; i < trials->n; i++) {
        const sn_trial *t = &trials->at[i];
        uint32_t k = i;
        for (; k > 0 && t->fate == SN_TRIAL_TIMED; k--) {
            const sn_trial *before = &trials->at[at[k - 1]];
            if (before->fate == SN_TRIAL_TIMED && before->us <= t->us) break;
            at[k] = at[k - 1];
        }
        at[k] = i;
    }
}

static uint32_t find_winner(const searcher *s) {
    uint32_t best = UINT32_MAX, plain = UINT32_MAX;
    for (uint32_t i = 0; i < s->trials->n; i++) {
        if (is_faster(s, i, best)) best = i;
        if (is_plain(trial(s, i)) && trial(s, i)->fate == SN_TRIAL_TIMED) plain = i;
    }
    bool gains = plain != UINT32_MAX && trial(s, best)->us <= GAIN * trial(s, plain)->us;
    return plain == UINT32_MAX || gains ? best : plain;
}

void sn_trials_search(sn_search *out, sn_trial_list *trials, const sn_trial_machine *machine, double seconds) {
    searcher s = {.trials = trials, .machine = machine, .reference = UINT32_MAX, .steps = trials->n + 2};
    double start = machine->seconds(machine->user);
    *out = (sn_search){.best = UINT32_MAX};
    s.end = start + seconds;
    drop_slow(&s);
    machine->compile(machine->user, trials);
    out->compile_seconds = machine->seconds(machine->user) - start;
    step(&s);
    drop_deviating(&s, trials->arena);
    step(&s);
    if (time_all(&s) != UINT32_MAX) {
        uint32_t *rank = SN_NEWN(trials->arena, uint32_t, trials->n + 1);
        sn_trials_rank(rank, trials);
        time_again(&s, rank);
        out->best = find_winner(&s);
    }
    s.done = s.steps - 1;
    step(&s);
    out->seconds = machine->seconds(machine->user) - start;
}
