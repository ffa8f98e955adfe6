/* pick.c: of a kernel and its alternatives (sn_kern_rec.alternative_of) the fastest, by timing, when a program is loaded.
 *
 *     codes   k0  k1  k1_looped  k1_flat  k2            the wrapper calls k1
 *     timed           31 us      27 us    40 us
 *  -> codes   k0  k1_looped  k1  k1_flat  k2            ... and runs what stands there: no run asks which
 *
 * All are launched with the same arguments, in memory made for it, of the sizes of the first call of the kernel; a buffer that is
 * passed twice is one, and what is updated in place may be so again and again. Caches are cold, as the bench has them. They are
 * timed in turn, so that a clock that slows down hits all, and the least time counts. The first stays unless another one is faster
 * by more than timing is off. Where there is no memory to time them in, the first stays too: a choice never fails a program.
 * Cost: a few runs of each, up to BUDGET, and up to ALL with what comes before; longer kernels are timed once each after a run to warm up.
 */
#include "runtime/clock.h"
#include "runtime/prog.h"
#include "runtime/stopwatch.h"

#include <string.h>

/* Microseconds of host time for timing a set, after which no round begins, and for all of it: memory, filling it and a first run of each
 * come before, and no round begins that would not end in time if it took as long as the longest so far. One is timed in any case. */
static const double BUDGET = 1200, ALL = 1800;
/* Of the first one's time: what another one has to stay below. The spread of the shortest of a few cold runs. */
static const double GAIN = 0.99;
/* FILL: bytes of arguments: a float that is no nan, none that is subnormal, and no kernel branches on. */
enum { ROUNDS = 6, FILL = 0x3c, MEMBERS_MOST = 16 };

/* An argument in memory of our own. */
typedef struct scratch {
    void *memory;
    size_t size;
    int64_t from; /* bytes into the buffer, of which memory is a window */
} scratch;

typedef struct picker {
    sn_prog *p;
    sn_prog_state *st;
    const sn_rt_step *call;
    scratch *args; /* by argument; those of one buffer: the first of them */
    void **params;
    uint32_t members[MEMBERS_MOST], n;
    double us[MEMBERS_MOST]; /* the least so far; 0: none */
    sn_stopwatch watch;
    double start; /* host time at which it all began */
    void *flush;
    size_t flush_size;
} picker;

/* ---- arguments ---- */

static size_t bytes_of(const picker *x, uint32_t i) {
    const sn_rt_formal *f = &x->p->codes[x->call->kernel].formals[i];
    return (size_t)f->numel * sn_dtype_bytes(f->dtype);
}

static uint32_t first_of_buffer(const picker *x, uint32_t i) {
    uint32_t k = 0;
    while (x->call->args[k].buf.i != x->call->args[i].buf.i) k++;
    return k;
}

/* The windows of all arguments that are of one buffer, as one. */
static void find_extents(picker *x) {
    for (uint32_t i = 0; i < x->call->n_args; i++) {
        scratch *s = &x->args[first_of_buffer(x, i)];
        int64_t from = x->call->args[i].bytes, end = from + (int64_t)bytes_of(x, i),
                old_end = s->from + (int64_t)s->size;
        bool first = first_of_buffer(x, i) == i;
        if (first || from < s->from) s->from = from - from % 256;
        if (first || end > old_end) old_end = end;
        s->size = (size_t)(old_end - s->from);
    }
}

static sn_status fill(const picker *x, void *memory, size_t size) {
    if (x->st->cu) return sn_cuda_fill(x->st->cu, memory, FILL, size, NULL);
    memset(memory, FILL, size);
    return SN_OK;
}

static void drop_arguments(const picker *x) {
    for (uint32_t i = 0; i < x->call->n_args; i++)
        sn_storage_free(x->p->env, x->p->cu, x->args[i].memory, x->args[i].size);
}

static sn_status make_arguments(picker *x) {
    sn_arena *a = &x->p->arena;
    x->args = SN_NEWN(a, scratch, x->call->n_args + 1);
    x->params = SN_NEWN(a, void *, x->call->n_args + 1);
    find_extents(x);
    for (uint32_t i = 0; i < x->call->n_args; i++) {
        scratch *s = &x->args[first_of_buffer(x, i)];
        if (!s->memory && s->size) {
            SN_TRY(sn_storage_alloc(&s->memory, x->p->env, x->p->cu, s->size));
            SN_TRY(fill(x, s->memory, s->size));
        }
        x->params[i] = (char *)s->memory + (x->call->args[i].bytes - s->from);
    }
    return SN_OK;
}

/* ---- timing ---- */

static sn_status run_member(const picker *x, uint32_t member) {
    return sn_prog_launch(x->st, x->members[member], x->params);
}

static sn_status sample(picker *x, uint32_t member) {
    sn_cuda *cu = x->st->cu;
    double us = 0, start = sn_now_us();
    if (cu) {
        SN_TRY(CU_CALL(cu, cuCtxResetPersistingL2Cache, ()));
        if (x->flush) SN_TRY(sn_cuda_fill(cu, x->flush, 0, x->flush_size, NULL));
        SN_TRY(sn_stopwatch_start(cu, &x->watch));
    }
    SN_TRY(run_member(x, member));
    if (cu) SN_TRY(sn_stopwatch_stop(&us, cu, &x->watch));
    else us = sn_now_us() - start;
    if (us > 0 && (x->us[member] == 0 || us < x->us[member])) x->us[member] = us;
    return SN_OK;
}

/* Every other round goes backwards: none is always the one after the flush that came first. */
static sn_status time_members(picker *x) {
    for (uint32_t i = 0; i < x->n; i++) SN_TRY(run_member(x, i));
    if (x->st->cu) SN_TRY(sn_cuda_sync(x->st->cu, NULL));
    double start = sn_now_us(), now = start, longest = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (round && (now - start >= BUDGET || now - x->start + longest > ALL)) break;
        for (uint32_t i = 0; i < x->n; i++) SN_TRY(sample(x, round % 2 ? x->n - 1 - i : i));
        double end = sn_now_us();
        if (end - now > longest) longest = end - now;
        now = end;
    }
    return SN_OK;
}

static uint32_t fastest(const picker *x) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < x->n; i++)
        if (x->us[i] < x->us[best]) best = i;
    return x->us[best] < GAIN * x->us[0] ? best : 0;
}

/* ---- a set ---- */

static void swap_codes(sn_prog *p, uint32_t a, uint32_t b) {
    sn_code code = p->codes[a];
    p->codes[a] = p->codes[b];
    p->codes[b] = code;
    if (!p->cuda_codes) return;
    sn_cuda_code loaded = p->cuda_codes[a];
    p->cuda_codes[a] = p->cuda_codes[b];
    p->cuda_codes[b] = loaded;
}

/* The call of a kernel that comes first; NULL: nobody calls it. */
static const sn_rt_step *find_call(const sn_prog *p, uint32_t kernel) {
    for (uint32_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == SN_STEP_CALL && p->steps[i].kernel == kernel) return &p->steps[i];
    return NULL;
}

static void find_members(picker *x, uint32_t first) {
    x->members[x->n++] = first;
    for (uint32_t i = 0; i < x->p->n_codes && x->n < MEMBERS_MOST; i++)
        if (x->p->codes[i].k.alternative_of == first + 1) x->members[x->n++] = i;
}

static sn_status time_set(picker *x) {
    sn_status status = make_arguments(x);
    if (status == SN_OK && x->st->cu) status = sn_stopwatch_new(&x->watch, x->st->cu);
    if (status == SN_OK) status = time_members(x);
    if (x->st->cu) sn_stopwatch_free(x->st->cu, &x->watch);
    drop_arguments(x);
    return status;
}

static sn_status pick(sn_prog *p, sn_prog_state *st, uint32_t first, void *flush, size_t flush_size) {
    picker x = {.p = p, .st = st, .call = find_call(p, first), .flush = flush, .flush_size = flush_size};
    x.start = sn_now_us();
    find_members(&x, first);
    if (x.n < 2 || !x.call) return SN_OK;
    sn_status status = time_set(&x);
    if (status == SN_ERROR_MEMORY) return sn_env_clear(p->env), SN_OK;
    SN_TRY(status);
    uint32_t winner = x.members[fastest(&x)];
    for (uint32_t i = 0; i < x.n; i++) p->picked_us[x.members[i]] = x.us[i];
    p->picks[p->n_picks++] = (sn_rt_pick){first, winner, sn_now_us() - x.start};
    return SN_OK;
}

/* ---- all of them ---- */

static bool has_alternatives(const sn_prog *p) {
    for (uint32_t i = 0; i < p->n_codes; i++)
        if (p->codes[i].k.alternative_of) return true;
    return false;
}

static sn_status pick_all(sn_prog *p, sn_prog_state *st, void *flush, size_t flush_size) {
    bool *done = SN_NEWN(&p->arena, bool, p->n_codes);
    sn_status status = SN_OK;
    for (uint32_t i = 0; i < p->n_codes && status == SN_OK; i++) {
        uint32_t of = p->codes[i].k.alternative_of;
        if (!of || done[of - 1]) continue;
        done[of - 1] = true;
        status = pick(p, st, of - 1, flush, flush_size);
    }
    return status;
}

/* Codes change places only when all are timed: states have their memory by kernel. */
sn_status sn_prog_pick(sn_prog *p) {
    if (!has_alternatives(p)) return SN_OK;
    void *flush = NULL;
    size_t flush_size = p->cu ? 2 * (size_t)p->cu->target.cache_bytes : 0;
    p->picks = SN_NEWN(&p->arena, sn_rt_pick, p->n_codes);
    p->picked_us = SN_NEWN(&p->arena, double, p->n_codes);
    SN_TRY(sn_prog_state_new(&p->preparer, p, p->env, p->cu));
    sn_status status = p->cu ? sn_cuda_enter(p->cu) : SN_OK;
    if (status == SN_OK) {
        if (sn_storage_alloc(&flush, p->env, p->cu, flush_size) != SN_OK) sn_env_clear(p->env);
        status = pick_all(p, p->preparer, flush, flush_size);
        if (p->cu) sn_cuda_sync(p->cu, NULL);
        sn_storage_free(p->env, p->cu, flush, flush_size);
        if (p->cu) sn_cuda_leave(p->cu);
    }
    sn_prog_state_free(p->preparer);
    p->preparer = NULL;
    for (uint32_t i = 0; i < p->n_picks; i++)
        if (p->picks[i].winner != p->picks[i].first) swap_codes(p, p->picks[i].first, p->picks[i].winner);
    return status;
}
