/* run_state.c: run states: one program, run by several threads at the same time.
 *
 * A state has an environment of its own: its memory, its error, its guard against running out of memory, and on CUDA its
 * share of the device. Nothing here touches what the program or its context change, but for the count of states. The
 * memory of runs is allocated in the first one, so that what goes wrong there has a text. Does not look at tensors
 * (run.c).
 *
 * A run that is started (sn_run_start) goes on in a thread of the state on the CPU. Tensors are looked at before, by the caller's
 * thread; what the other one does is sn_prog_run alone, under a guard of its own in the same environment, which is the
 * thread's until the wait.
 */
#include "frontend/frontend.h"

enum { MEMORY_ALIGN = 256 };

size_t sn_program_workspace_size(const sn_program *p) {
    return p && p->prog ? p->own_size + sn_prog_scratch(p->prog) : 0;
}

static sn_status create(sn_run_state **out, sn_program *p, void *memory) {
    if (out) *out = NULL;
    if (!out || !p) return SN_ERROR_ARGUMENT;
    const sn_env *of = &p->ctx->env;
    sn_run_state *st = of->realloc_fn(of->realloc_user, NULL, sizeof *st);
    if (!st) return SN_ERROR_MEMORY;
    *st = (sn_run_state){.runner = {.p = p, .env = &st->env, .scratch = &st->scratch, .lent = memory}};
    sn_env_init(&st->env);
    st->env.realloc_fn = of->realloc_fn;
    st->env.realloc_user = of->realloc_user;
    st->env.c_locale = of->c_locale;
    sn_arena_init(&st->scratch, &st->env);
    sn_arena_init(&st->arena, &st->env);
    atomic_fetch_add(&p->n_states, 1);
    *out = st;
    return SN_OK;
}

sn_status sn_run_state_create(sn_run_state **out, sn_program *p) { return create(out, p, NULL); }

sn_status sn_run_state_create_in(sn_run_state **out, sn_program *p, void *memory, size_t size) {
    size_t wanted = sn_program_workspace_size(p);
    bool fits = (memory || !wanted) && (uintptr_t)memory % MEMORY_ALIGN == 0 && size >= wanted;
    if (out) *out = NULL;
    return fits ? create(out, p, memory) : SN_ERROR_ARGUMENT;
}

/* The program may be gone as soon as it is not counted any more. */
void sn_run_state_destroy(sn_run_state *state) {
    if (!state) return;
    sn_realloc_fn realloc_fn = state->env.realloc_fn;
    void *user = state->env.realloc_user;
    sn_run_wait(state);
    sn_worker_close(&state->worker);
    sn_runner_close(&state->runner);
    sn_cuda_close(state->runner.cu);
    sn_arena_free(&state->scratch);
    sn_arena_free(&state->arena);
    atomic_fetch_sub(&state->runner.p->n_states, 1);
    realloc_fn(user, state, 0);
}

/* What cannot run needs no memory: the launch says why. */
static sn_status prepare(sn_run_state *st) {
    sn_runner *r = &st->runner;
    if (st->ready || !r->p->runnable) return SN_OK;
    if (r->p->runner.cu && !r->cu) SN_TRY(sn_cuda_share(&r->cu, &st->env, r->p->runner.cu));
    sn_runner_init(r, &st->arena);
    SN_TRY(sn_runner_load(r));
    st->ready = true;
    st->mark = sn_env_mark(&st->env); /* it stays when the run fails */
    return SN_OK;
}

static sn_status run(sn_run_state *st, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream) {
    SN_TRY(prepare(st));
    return sn_runner_launch(&st->runner, inputs, outputs, stream, st->runner.p->interpreted);
}

/* What a first run has made by half goes, and the next run is the first one again. */
static sn_status leave(sn_run_state *st, sn_status status) {
    if (!st->ready) {
        sn_runner_close(&st->runner);
        sn_arena_free(&st->arena);
    }
    return sn_env_leave(&st->env, &st->scratch, st->mark, status);
}

sn_status sn_run_with(sn_run_state *state, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream) {
    jmp_buf here;
    if (!state || state->under_way || !sn_env_enter(&state->env, &here, &state->mark)) return SN_ERROR_ARGUMENT;
    if (setjmp(here)) return leave(state, state->env.status);
    return leave(state, run(state, inputs, outputs, stream));
}

/* ---- runs that are waited for later ---- */

static sn_status start(sn_run_state *st, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream) {
    SN_TRY(prepare(st));
    SN_TRY(sn_runner_bind(&st->runner, inputs, outputs));
    st->stream = stream;
    sn_runner *r = &st->runner;
    if (r->cu) return sn_prog_run(r->state, r->input_at, r->output_at, stream, r->p->interpreted);
    return sn_worker_open(&st->worker)
               ? SN_OK
               : sn_fail(&st->env, SN_ERROR_MEMORY, "sn_run_start: the system has no thread left");
}

static sn_status start_guarded(sn_run_state *st, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream) {
    jmp_buf here;
    if (!sn_env_enter(&st->env, &here, &st->mark)) return SN_ERROR_ARGUMENT;
    if (setjmp(here)) return leave(st, st->env.status);
    return leave(st, start(st, inputs, outputs, stream));
}

/* In the thread of the state. */
static void go_on(void *user) {
    sn_run_state *st = user;
    sn_runner *r = &st->runner;
    jmp_buf here;
    sn_env_enter(&st->env, &here, &st->mark); /* nobody else is in it */
    if (setjmp(here)) st->result = leave(st, st->env.status);
    else st->result = leave(st, sn_prog_run(r->state, r->input_at, r->output_at, NULL, r->p->interpreted));
}

sn_status sn_run_start(sn_run_state *state, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream) {
    if (!state || state->under_way) return SN_ERROR_ARGUMENT;
    SN_TRY(start_guarded(state, inputs, outputs, stream));
    state->under_way = true;
    if (!state->runner.cu) sn_worker_start(&state->worker, go_on, state);
    return SN_OK;
}

static sn_status sync_guarded(sn_run_state *st) {
    jmp_buf here;
    if (!sn_env_enter(&st->env, &here, &st->mark)) return SN_ERROR_ARGUMENT;
    if (setjmp(here)) return leave(st, st->env.status);
    return leave(st, sn_cuda_sync(st->runner.cu, st->stream));
}

sn_status sn_run_wait(sn_run_state *state) {
    if (!state) return SN_ERROR_ARGUMENT;
    if (!state->under_way) return state->env.status;
    if (state->runner.cu) state->result = sync_guarded(state);
    else sn_worker_wait(&state->worker);
    state->under_way = false;
    return state->result;
}

const char *sn_run_state_error(const sn_run_state *state) {
    return state && !state->under_way ? state->env.message : "";
}
sn_status sn_run_state_status(const sn_run_state *state) {
    if (!state) return SN_ERROR_ARGUMENT;
    return state->under_way ? SN_OK : state->env.status;
}
