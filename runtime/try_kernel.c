/* try_kernel.c: one kernel of a loaded program on arguments of the host, which come back as it leaves them: what an edited kernel is
 * held against the original with (frontend/replace.c).
 *
 * Runs in a state of its own and waits. Memory of the device is there for the call alone, also when it fails.
 */
#include "runtime/prog.h"

#include <string.h>

typedef struct trial {
    const sn_prog *p;
    sn_prog_state *st;
    const sn_code *code;
    void **params; /* by parameter: where its elements are for the kernel */
} trial;

static size_t bytes_of(const trial *t, uint32_t i) {
    return (size_t)t->code->formals[i].numel * sn_dtype_bytes(t->code->formals[i].dtype);
}

/* Rounded up, so that the end of a buffer is aligned as the compiler may count on. */
static sn_status bring(trial *t, void *const *args) {
    for (uint32_t i = 0; i < t->code->n_params; i++) {
        SN_TRY(sn_storage_alloc(&t->params[i], t->p->env, t->p->cu, sn_storage_round(bytes_of(t, i) + 1)));
        if (t->p->cu) SN_TRY(sn_cuda_to_device(t->p->cu, t->params[i], args[i], bytes_of(t, i), NULL));
        else memcpy(t->params[i], args[i], bytes_of(t, i));
    }
    return SN_OK;
}

static sn_status fetch(const trial *t, void *const *args) {
    for (uint32_t i = 0; i < t->code->n_params; i++) {
        if (t->p->cu) SN_TRY(sn_cuda_to_host(t->p->cu, args[i], t->params[i], bytes_of(t, i), NULL));
        else memcpy(args[i], t->params[i], bytes_of(t, i));
    }
    return SN_OK;
}

static sn_status launch(const trial *t, uint32_t kernel) {
    sn_cuda *cu = t->p->cu;
    if (!cu) return sn_prog_launch(t->st, kernel, t->params);
    SN_TRY(sn_cuda_enter(cu));
    sn_status status = sn_prog_launch(t->st, kernel, t->params);
    sn_cuda_leave(cu);
    return status == SN_OK ? sn_cuda_sync(cu, NULL) : status;
}

sn_status sn_prog_try_kernel(const sn_prog *p, uint32_t kernel, void *const *args) {
    sn_arena arena;
    trial t = {.p = p, .code = &p->codes[kernel]};
    SN_TRY(sn_prog_state_new(&t.st, p, p->env, p->cu));
    sn_arena_init(&arena, p->env);
    t.params = SN_NEWN(&arena, void *, t.code->n_params + 1);
    sn_status status = bring(&t, args);
    if (status == SN_OK) status = launch(&t, kernel);
    if (status == SN_OK) status = fetch(&t, args);
    for (uint32_t i = 0; i < t.code->n_params; i++)
        sn_storage_free(p->env, p->cu, t.params[i], sn_storage_round(bytes_of(&t, i) + 1));
    sn_arena_free(&arena);
    sn_prog_state_free(t.st);
    return status;
}
