/* time_graph.c: measuring short runs with CUDA graphs.
 *
 * An event costs about as much as a kernel of a few microseconds, so many runs are captured in one graph and replays of
 * it are timed. Repeated runs would find their data in the L2 cache: run k works on copy k mod B of the inputs and
 * outputs, where the B copies together are larger than the cache. Replays are queued back to back with events between
 * them: while the device works on one, the host queues the next, and no launch of the host is inside the measurement.
 *
 * Relies on sn_prog_run_plainly neither allocating nor synchronising (exec.c), and so refuses programs that decide something. The workspace of the state is shared by the
 * runs.
 */
#include "runtime/prog.h"

/* A replay takes about REPLAY_US. The copies cover ROTATE_BYTES, or CACHES times the L2 where that is more; the cap
 * keeps graphs of tiny runs small enough to build and to queue in milliseconds. */
enum { REPLAY_US = 2000, ROTATE_BYTES = 180000000, CACHES = 3, MAX_LAUNCHES = 8192, COPY_ALIGN = 256 };

/* An input or output: where the caller has it, and where it is in a copy. */
typedef struct place {
    void *home;
    size_t bytes, offset;
} place;

typedef struct rotation {
    sn_prog_state *st;
    const sn_prog *p;
    sn_cuda *cu;
    place *places; /* by position in p->ios */
    size_t set_bytes;
    uint32_t sets;  /* 0 is the caller's own, the others lie in the slab */
    uint32_t n_ios; /* largest number of an input or output, plus 1 */
    char *slab;
    size_t slab_bytes;
    void **inputs, **outputs; /* of the set that the next run takes */
} rotation;

/* ---- copies of inputs and outputs ---- */

/* An output that is written in place of an input is the same memory in every set. */
static const place *same_home(const rotation *r, const place *at) {
    for (const place *other = r->places; other < at; other++)
        if (other->home == at->home && other->bytes >= at->bytes) return other;
    return NULL;
}

static void measure_ios(rotation *r, void *const *inputs, void *const *outputs) {
    for (uint32_t i = 0; i < r->p->n_ios; i++) {
        const sn_rt_io *io = &r->p->ios[i];
        place *at = &r->places[i];
        at->home = sn_io_address(io, inputs, outputs);
        at->bytes = io->bytes;
        const place *same = same_home(r, at);
        at->offset = same ? same->offset : r->set_bytes;
        if (!same) r->set_bytes += (at->bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
    }
}

static size_t at_least(size_t n, size_t least) { return n > least ? n : least; }
static size_t at_most(size_t n, size_t most) { return n < most ? n : most; }

/* As many sets as the caches ask for and memory allows; a tenth of the device is left to others. */
static void choose_sets(rotation *r, size_t unused, size_t total) {
    size_t set = at_least(r->set_bytes, 1), launches = at_least(sn_prog_launches(r->p), 1);
    size_t wanted = at_least(ROTATE_BYTES, CACHES * r->cu->target.cache_bytes);
    size_t room = unused > total / 10 ? (unused - total / 10) / set : 0;
    size_t sets = at_most((wanted + set - 1) / set, room + 1);
    r->sets = (uint32_t)at_least(at_most(sets, MAX_LAUNCHES / launches), 1);
}

static sn_status make_room(rotation *r) {
    size_t unused = 0, total = 0;
    sn_cuda_trim(r->cu);
    SN_TRY(sn_cuda_enter(r->cu));
    sn_status status = CU_CALL(r->cu, cuMemGetInfo, (&unused, &total));
    sn_cuda_leave(r->cu);
    if (status != SN_OK) return status;
    choose_sets(r, unused, total);
    r->slab_bytes = (r->sets - 1) * r->set_bytes;
    void *slab = NULL;
    SN_TRY(sn_cuda_malloc(&slab, r->cu, r->slab_bytes));
    r->slab = slab;
    return SN_OK;
}

static void *in_set(const rotation *r, const place *at, uint32_t set) {
    return set && at->bytes ? r->slab + (set - 1) * r->set_bytes + at->offset : at->home;
}

/* The first copy piece by piece, the others by doubling what is there. Outputs too: one may have memory of the program
 * that is copied back. */
static sn_status fill_sets(const rotation *r) {
    for (uint32_t i = 0; i < r->p->n_ios && r->slab; i++)
        SN_TRY(sn_cuda_copy(r->cu, in_set(r, &r->places[i], 1), r->places[i].home, r->places[i].bytes, NULL));
    for (size_t filled = r->set_bytes, more; filled < r->slab_bytes; filled += more) {
        more = at_most(filled, r->slab_bytes - filled);
        SN_TRY(sn_cuda_copy(r->cu, r->slab + filled, r->slab, more, NULL));
    }
    return sn_cuda_sync(r->cu, NULL); /* the graph runs on a stream that does not wait for this one */
}

static void take_set(rotation *r, uint32_t set) {
    for (uint32_t i = 0; i < r->p->n_ios; i++) {
        const sn_rt_io *io = &r->p->ios[i];
        (io->is_input ? r->inputs : r->outputs)[io->number] = in_set(r, &r->places[i], set);
    }
}

/* ---- the graph ---- */

typedef struct replayer {
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUevent *marks; /* before the first timed replay and after each */
} replayer;

static sn_status queue_runs(rotation *r, uint32_t runs, CUstream stream) {
    for (uint32_t k = 0; k < runs; k++) {
        take_set(r, k % r->sets);
        SN_TRY(sn_prog_run_plainly(r->st, r->inputs, r->outputs, stream, false));
    }
    return SN_OK;
}

static sn_status capture(replayer *g, rotation *r, uint32_t runs) {
    SN_TRY(CU_CALL(r->cu, cuStreamBeginCapture, (g->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)));
    sn_status status = queue_runs(r, runs, g->stream);
    CUresult ended = r->cu->api.cuStreamEndCapture(g->stream, &g->graph); /* in any case, or the stream is lost */
    if (status == SN_OK) status = sn_cuda_check(r->cu, ended, "cuStreamEndCapture");
    if (status != SN_OK) return status;
    return CU_CALL(r->cu, cuGraphInstantiate, (&g->exec, g->graph, 0));
}

static sn_status replay(double *out, uint32_t replays, replayer *g, const rotation *r, uint32_t runs) {
    sn_cuda *cu = r->cu;
    SN_TRY(CU_CALL(cu, cuGraphLaunch, (g->exec, g->stream))); /* warm-up: uploads the graph */
    SN_TRY(CU_CALL(cu, cuGraphLaunch, (g->exec, g->stream))); /* busy while the host queues what is timed */
    SN_TRY(CU_CALL(cu, cuEventRecord, (g->marks[0], g->stream)));
    for (uint32_t k = 0; k < replays; k++) {
        SN_TRY(CU_CALL(cu, cuGraphLaunch, (g->exec, g->stream)));
        SN_TRY(CU_CALL(cu, cuEventRecord, (g->marks[k + 1], g->stream)));
    }
    SN_TRY(CU_CALL(cu, cuStreamSynchronize, (g->stream)));
    for (uint32_t k = 0; k < replays; k++) {
        float milliseconds = 0;
        SN_TRY(CU_CALL(cu, cuEventElapsedTime, (&milliseconds, g->marks[k], g->marks[k + 1])));
        out[k] = 1e3 * (double)milliseconds / runs;
    }
    return SN_OK;
}

/* The context is current. */
static sn_status time_replays(double *out, uint32_t replays, replayer *g, rotation *r, uint32_t runs) {
    SN_TRY(CU_CALL(r->cu, cuStreamCreate, (&g->stream, CU_STREAM_NON_BLOCKING)));
    for (uint32_t k = 0; k <= replays; k++) SN_TRY(CU_CALL(r->cu, cuEventCreate, (&g->marks[k], 0)));
    SN_TRY(capture(g, r, runs));
    return replay(out, replays, g, r, runs);
}

static void replayer_free(sn_cuda *cu, replayer *g, uint32_t replays) {
    for (uint32_t k = 0; k <= replays; k++)
        if (g->marks[k]) cu->api.cuEventDestroy(g->marks[k]);
    if (g->exec) cu->api.cuGraphExecDestroy(g->exec);
    if (g->graph) cu->api.cuGraphDestroy(g->graph);
    if (g->stream) cu->api.cuStreamDestroy(g->stream);
}

/* ---- the whole ---- */

/* Runs of the graph: whole rounds over the sets, about REPLAY_US long. */
static uint32_t choose_runs(const rotation *r, double run_us) {
    double round_us = run_us * r->sets, rounds = round_us > 0 ? REPLAY_US / round_us : 1;
    uint32_t most = MAX_LAUNCHES / (r->sets * (uint32_t)at_least(sn_prog_launches(r->p), 1));
    uint32_t n = rounds < most ? (uint32_t)rounds : most;
    return r->sets * (n ? n : 1);
}

static sn_status measure(rotation *r, sn_arena *arena, void *const *inputs, void *const *outputs) {
    const sn_prog *p = r->p;
    for (uint32_t i = 0; i < p->n_ios; i++)
        if (p->ios[i].number >= r->n_ios) r->n_ios = p->ios[i].number + 1;
    r->places = SN_NEWN(arena, place, p->n_ios + 1);
    r->inputs = SN_NEWN(arena, void *, r->n_ios + 1);
    r->outputs = SN_NEWN(arena, void *, r->n_ios + 1);
    measure_ios(r, inputs, outputs);
    /* Kernels are loaded lazily, which a capture does not allow. */
    SN_TRY(sn_prog_run_plainly(r->st, inputs, outputs, NULL, false));
    return sn_cuda_sync(r->cu, NULL);
}

static sn_status rotate(double *out, uint32_t replays, sn_graph_timing *how, rotation *r, replayer *g) {
    how->sets = r->sets;
    how->runs = choose_runs(r, how->run_us);
    SN_TRY(fill_sets(r));
    SN_TRY(sn_cuda_enter(r->cu));
    sn_status status = time_replays(out, replays, g, r, how->runs);
    replayer_free(r->cu, g, replays);
    sn_cuda_leave(r->cu);
    return status;
}

sn_status sn_prog_time_graph(double *out, uint32_t replays, sn_graph_timing *how, sn_prog_state *st,
                             void *const *inputs, void *const *outputs) {
    if (!st->cu) return sn_fail(st->env, SN_ERROR_UNSUPPORTED, "CUDA graphs are for programs on a CUDA device");
    if (sn_prog_decides(st->p))
        return sn_fail(st->env, SN_ERROR_UNSUPPORTED,
                       "runs that take branches, or end a loop early, are no CUDA graphs");
    rotation r = {.st = st, .p = st->p, .cu = st->cu};
    sn_arena arena;
    sn_arena_init(&arena, st->env);
    replayer g = {.marks = SN_NEWN(&arena, CUevent, replays + 1)};
    sn_status status = measure(&r, &arena, inputs, outputs);
    if (status == SN_OK) status = make_room(&r);
    if (status == SN_OK) status = rotate(out, replays, how, &r, &g);
    sn_cuda_free(st->cu, r.slab, r.slab_bytes);
    sn_arena_free(&arena);
    return status;
}
