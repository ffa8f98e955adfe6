/* profile.c: when each launch and copy of a run began and how long it took; and how fast this machine copies.
 *
 * Through the step interpreter, which marks the clock in front of a run and behind each step that does something:
 *
 *     mark   call k0   mark   copy   mark   call k1   mark          three events, each between two marks
 *
 * A mark is an event in the stream of the run on a device, and the time of day on the CPU. Of several runs the one that took
 * least counts, whole, so that its events fit together. On a device nothing is waited for but the end of a run. A write of
 * memory goes in front of it, which keeps the device busy while the host hands out the first launches: a short kernel would
 * wait for its launch else, and the wait would count as its own. A mark takes the device about a microsecond, which is in the
 * figures; and no launch begins before the one in front of it has ended.
 */
#include "runtime/clock.h"
#include "runtime/prog.h"

#include <string.h>

/* ---- marks ---- */

sn_status sn_clock_mark_step(sn_prog_state *st, const sn_rt_step *s) {
    sn_run_clock *c = st->clock;
    if (c->n++ >= c->most) return SN_OK;
    sn_clock_mark *m = &c->at[c->n - 1];
    m->step = s;
    if (st->cu) return CU_CALL(st->cu, cuEventRecord, (m->event, st->stream));
    m->us = sn_now_us();
    return SN_OK;
}

/* Of a run that has ended: times from its first mark on. */
static sn_status read_marks(sn_run_clock *c, sn_cuda *cu) {
    double first = c->at[0].us;
    for (uint32_t i = 0; i < c->n; i++) {
        float milliseconds = 0;
        if (cu && i) SN_TRY(CU_CALL(cu, cuEventElapsedTime, (&milliseconds, c->at[0].event, c->at[i].event)));
        c->at[i].us = cu ? 1e3 * (double)milliseconds : c->at[i].us - first;
    }
    return SN_OK;
}

/* ---- runs ---- */

enum { FILL_BYTES = 64 << 20, LAUNCHES_A_FILL = 4 /* that the host hands out while the device writes so much */ };

typedef struct profiling {
    sn_prog_state *st;
    void *const *inputs, *const *outputs;
    void *stream, *filled; /* NULL: the CPU */
    sn_run_clock clock;
} profiling;

static sn_status one_run(profiling *p) {
    sn_prog_state *st = p->st;
    sn_run_clock *c = &p->clock;
    for (uint32_t i = 0; i < 1 + c->most / LAUNCHES_A_FILL && p->filled; i++)
        SN_TRY(sn_cuda_fill(st->cu, p->filled, 0, FILL_BYTES, p->stream));
    c->n = 0;
    SN_TRY(sn_prog_run_timed(st, p->inputs, p->outputs, p->stream, c));
    if (c->n > c->most) c->n = c->most;
    if (!st->cu) return read_marks(c, NULL);
    SN_TRY(sn_cuda_sync(st->cu, p->stream));
    SN_TRY(sn_cuda_enter(st->cu));
    sn_status status = read_marks(c, st->cu);
    sn_cuda_leave(st->cu);
    return status;
}

static void keep(sn_prog_profile_run *out, const sn_run_clock *c) {
    out->us = c->at[c->n - 1].us;
    out->n = c->n - 1;
    for (uint32_t i = 0; i < out->n; i++) {
        const sn_clock_mark *m = &c->at[i + 1];
        bool copies = m->step->kind == SN_STEP_COPY;
        double before = c->at[i].us;
        out->at[i] = (sn_prog_event){.kernel = copies ? UINT32_MAX : m->step->kernel,
                                     .bytes = copies ? m->step->size : 0,
                                     .start_us = before,
                                     .us = m->us - before};
    }
}

static sn_status make_events(profiling *p) {
    sn_cuda *cu = p->st->cu;
    sn_status status = SN_OK;
    SN_TRY(sn_cuda_enter(cu));
    for (uint32_t i = 0; i < p->clock.most && status == SN_OK; i++)
        status = CU_CALL(cu, cuEventCreate, (&p->clock.at[i].event, 0));
    sn_cuda_leave(cu);
    return status;
}

/* A full device is kept busy by nothing. */
static void make_filled(profiling *p) {
    if (sn_storage_alloc(&p->filled, p->st->env, p->st->cu, FILL_BYTES) == SN_OK) return;
    p->filled = NULL;
    sn_env_clear(p->st->env);
}

static sn_status timed_runs(sn_prog_profile_run *out, profiling *p, uint32_t runs) {
    if (p->st->cu) SN_TRY(make_events(p));
    if (p->st->cu) make_filled(p);
    for (uint32_t i = 0; i < runs; i++) {
        SN_TRY(one_run(p));
        if (i == 0 || p->clock.at[p->clock.n - 1].us < out->us) keep(out, &p->clock);
    }
    return SN_OK;
}

static void free_device(profiling *p) {
    sn_cuda *cu = p->st->cu;
    if (!cu || sn_cuda_enter(cu) != SN_OK) return;
    for (uint32_t i = 0; i < p->clock.most; i++)
        if (p->clock.at[i].event) cu->api.cuEventDestroy(p->clock.at[i].event);
    sn_cuda_leave(cu);
    sn_storage_free(p->st->env, cu, p->filled, FILL_BYTES);
}

/* The first run warms up, and counts. All memory of the host is there before anything of the device is. */
sn_status sn_prog_profile(sn_prog_profile_run *out, uint32_t runs, sn_prog_state *st, void *const *inputs,
                          void *const *outputs, void *stream, sn_arena *arena) {
    profiling p = {.st = st, .inputs = inputs, .outputs = outputs, .stream = stream};
    *out = (sn_prog_profile_run){0};
    SN_TRY(sn_prog_run_timed(st, inputs, outputs, stream, &p.clock));
    p.clock.most = p.clock.n;
    p.clock.at = SN_NEWN(arena, sn_clock_mark, p.clock.most);
    out->at = SN_NEWN(arena, sn_prog_event, p.clock.most);
    sn_status status = timed_runs(out, &p, runs);
    free_device(&p);
    return status;
}

/* ---- the rate of a copy ---- */

typedef struct host_copy {
    char *to;
    const char *from;
} host_copy;

enum { HOST_COPY_BYTES = 64 << 20, HOST_PIECE = 1 << 18, HOST_COPIES = 5 };

static void copy_pieces(void *user, int64_t begin, int64_t end) {
    const host_copy *c = user;
    memcpy(c->to + begin * HOST_PIECE, c->from + begin * HOST_PIECE, (size_t)(end - begin) * HOST_PIECE);
}

/* The first one finds pages that nobody has touched yet. */
static double host_copy_rate(const sn_prog *p, host_copy *c) {
    double best = 0;
    for (int i = 0; i <= HOST_COPIES; i++) {
        double start = sn_now_us();
        if (p->pool) sn_pool_run(p->pool, HOST_COPY_BYTES / HOST_PIECE, copy_pieces, c);
        else copy_pieces(c, 0, HOST_COPY_BYTES / HOST_PIECE);
        double rate = 2.0 * HOST_COPY_BYTES / ((sn_now_us() - start) * 1e-6);
        if (i && rate > best) best = rate;
    }
    return best;
}

sn_status sn_prog_copy_rate(double *out, sn_prog_state *st) {
    void *memory;
    if (st->cu) return sn_cuda_copy_rate(out, st->cu);
    SN_TRY(sn_storage_alloc(&memory, st->env, NULL, 2 * (size_t)HOST_COPY_BYTES));
    memset(memory, 1, 2 * (size_t)HOST_COPY_BYTES);
    *out = host_copy_rate(st->p, &(host_copy){(char *)memory + HOST_COPY_BYTES, memory});
    sn_storage_free(st->env, NULL, memory, 2 * (size_t)HOST_COPY_BYTES);
    return SN_OK;
}
