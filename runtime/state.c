/* state.c: what runs of a program change: its workspace, memory that kernels keep, tensor maps, what a library works with,
 * the places of buffers, scratch.
 *
 * Everything that a run needs is allocated here, so that sn_prog_run allocates nothing (exec.c). A state reads the
 * program and writes only what is its own: runs of one program in several states may go on at once.
 */
#include "runtime/prog.h"

#include <string.h>

/* Constants have their places; those of the others come with each run. */
static void make_scratch(sn_prog_state *st) {
    const sn_prog *p = st->p;
    st->place = sn_memdup(&st->arena, p->place, p->n_places * sizeof *p->place);
    st->params = SN_NEWN(&st->arena, void *, p->most_params + 1);
    st->param_addresses = SN_NEWN(&st->arena, void *, p->most_params + 1 + p->most_maps);
    st->keeps = SN_NEWN(&st->arena, void *, p->n_codes);
    size_t maps = p->n_maps ? (size_t)p->n_maps * sizeof(sn_rt_map) + SN_MAP_ALIGN : 0;
    uintptr_t at = (uintptr_t)sn_zalloc(&st->arena, maps);
    st->maps = (sn_rt_map *)((at + SN_MAP_ALIGN - 1) / SN_MAP_ALIGN * SN_MAP_ALIGN);
    st->ops = SN_NEWN(&st->arena, void *, p->n_codes);
}

/* The first run may be on a stream that does not wait for the one of the fill. */
static sn_status make_kept(sn_prog_state *st) {
    const sn_prog *p = st->p;
    void *kept = NULL;
    SN_TRY(sn_storage_alloc(&kept, st->env, st->cu, p->kept_size));
    st->kept = kept;
    if (!kept) return SN_OK;
    for (uint32_t i = 0; i < p->n_codes; i++) st->keeps[i] = st->kept + p->codes[i].kept_offset;
    if (!st->cu) return memset(kept, 0, p->kept_size), SN_OK;
    SN_TRY(sn_cuda_fill(st->cu, kept, 0, p->kept_size, NULL));
    return sn_cuda_sync(st->cu, NULL);
}

/* A handle has the stream of a run. */
static sn_status make_handle(sn_prog_state *st) {
    char why[SN_LIBRARY_WHY];
    SN_TRY(sn_cuda_enter(st->cu));
    bool made = sn_cudnn_new_handle(&st->cudnn_handle, st->p->cudnn, why);
    sn_cuda_leave(st->cu);
    return made ? SN_OK : sn_fail(st->env, SN_ERROR_DEVICE, "%s", why);
}

/* Operations hold the address of the bias of a run. */
static sn_status make_library(sn_prog_state *st) {
    const sn_prog *p = st->p;
    if (p->cudnn) SN_TRY(make_handle(st));
    for (uint32_t i = 0; i < p->n_codes; i++) {
        const sn_cublas_call *call = p->codes[i].call;
        if (!call || !call->is.has_bias) continue;
        st->ops[i] = sn_cublas_new_op(p->cublas, &call->is);
        if (!st->ops[i]) return sn_fail(st->env, SN_ERROR_MEMORY, "%s has no memory left", p->cublas->name);
    }
    return SN_OK;
}

size_t sn_prog_scratch(const sn_prog *p) {
    return sn_storage_round(p->workspace_size) + sn_storage_round(p->library_size);
}

static sn_status make_workspaces(sn_prog_state *st, char *memory) {
    const sn_prog *p = st->p;
    st->is_lent = memory != NULL;
    if (st->is_lent) {
        st->workspace = memory;
        st->library_workspace = p->library_size ? memory + sn_storage_round(p->workspace_size) : NULL;
        return SN_OK;
    }
    SN_TRY(sn_storage_alloc(&st->workspace, st->env, st->cu, p->workspace_size));
    return sn_storage_alloc(&st->library_workspace, st->env, st->cu, p->library_size);
}

sn_status sn_prog_state_new(sn_prog_state **out, const sn_prog *p, sn_env *env, sn_cuda *cu) {
    return sn_prog_state_new_in(out, p, env, cu, NULL);
}

sn_status sn_prog_state_new_in(sn_prog_state **out, const sn_prog *p, sn_env *env, sn_cuda *cu, void *memory) {
    sn_prog_state *st = sn_heap_alloc(env, sizeof *st);
    *st = (sn_prog_state){.p = p, .env = env, .cu = cu};
    sn_arena_init(&st->arena, env);
    *out = st; /* known to the caller's guard, should memory run out: it holds memory of the device */
    make_scratch(st);
    if (cu) sn_run_graph_init(st);
    sn_status status = make_workspaces(st, memory);
    if (status == SN_OK) status = make_kept(st);
    if (status == SN_OK) status = make_library(st);
    if (status == SN_OK) return SN_OK;
    *out = NULL;
    sn_prog_state_free(st);
    return status;
}

static void drop_handle(const sn_prog_state *st) {
    if (!st->cudnn_handle) return;
    bool entered = sn_cuda_enter_to_free(st->cu);
    sn_cudnn_drop_handle(st->p->cudnn, st->cudnn_handle);
    sn_cuda_leave_from(st->cu, entered);
}

void sn_prog_state_free(sn_prog_state *st) {
    if (!st) return;
    for (uint32_t i = 0; i < st->p->n_codes && st->ops; i++) sn_cublas_drop_op(st->p->cublas, st->ops[i]);
    sn_run_graph_drop(st);
    drop_handle(st);
    sn_storage_free(st->env, st->cu, st->kept, st->p->kept_size);
    if (!st->is_lent) {
        sn_storage_free(st->env, st->cu, st->library_workspace, st->p->library_size);
        sn_storage_free(st->env, st->cu, st->workspace, st->p->workspace_size);
    }
    sn_arena_free(&st->arena);
    sn_heap_free(st->env, st, sizeof *st);
}
