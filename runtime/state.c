/* state.c: what runs of a program change: its workspace, the places of buffers, scratch.
 *
 * Everything that a run needs is allocated here, so that sn_prog_run allocates nothing (exec.c). A state reads the
 * program and writes only what is its own: runs of one program in several states may go on at once.
 */
#include "runtime/prog.h"

/* Constants have their places; those of the others come with each run. */
static void make_scratch(sn_prog_state *st) {
    const sn_prog *p = st->p;
    st->place = sn_memdup(&st->arena, p->place, p->n_places * sizeof *p->place);
    st->params = SN_NEWN(&st->arena, void *, p->most_params);
    st->param_addresses = SN_NEWN(&st->arena, void *, p->most_params);
}

sn_status sn_prog_state_new(sn_prog_state **out, const sn_prog *p, sn_env *env, sn_cuda *cu) {
    sn_prog_state *st = sn_heap_alloc(env, sizeof *st);
    *st = (sn_prog_state){.p = p, .env = env, .cu = cu};
    sn_arena_init(&st->arena, env);
    *out = st; /* known to the caller's guard, should memory run out: it holds memory of the device */
    make_scratch(st);
    sn_status status = sn_storage_alloc(&st->workspace, env, cu, p->workspace_size);
    if (status == SN_OK) return SN_OK;
    *out = NULL;
    sn_prog_state_free(st);
    return status;
}

void sn_prog_state_free(sn_prog_state *st) {
    if (!st) return;
    sn_storage_free(st->env, st->cu, st->workspace, st->p->workspace_size);
    sn_arena_free(&st->arena);
    sn_heap_free(st->env, st, sizeof *st);
}
