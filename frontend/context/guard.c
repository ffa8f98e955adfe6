/* guard.c: what every public call begins and ends with: NULL refused, the error cleared, the C locale, a place to come back
 * to.
 *
 * This is the only place that a jump for out-of-memory and for fatal errors of libraries goes to, and that puts a call
 * into the C locale. What a call was making when it failed is destroyed by functions that its maker gave (sn_making): the
 * guard knows no graph, program or file.
 */
#include "frontend/context/context.h"

#include <string.h>

bool sn_env_enter(sn_env *env, jmp_buf *here, uint64_t *mark) {
    if (env->guard) return false;
    sn_locale_enter(env);
    sn_env_clear(env);
    env->guard = here;
    *mark = sn_env_mark(env);
    return true;
}

sn_status sn_env_leave(sn_env *env, sn_arena *scratch, uint64_t mark, sn_status status) {
    if (status != SN_OK && env->status == SN_OK)
        sn_fail(env, SN_ERROR_INTERNAL, "a part of Sinter failed (%s) without saying why", sn_status_name(status));
    env->guard = NULL;
    sn_arena_free(scratch);
    if (status != SN_OK) sn_env_release(env, mark);
    sn_locale_leave(env);
    return status;
}

bool sn_guard_enter(sn_context *ctx, jmp_buf *here) { return sn_env_enter(&ctx->env, here, &ctx->mark); }

void sn_making_begin(sn_context *ctx, void *object, void (*destroy)(void *object)) {
    SN_PUSH(&ctx->scratch, &ctx->making, ((sn_making){object, destroy}));
}

void sn_making_end(sn_context *ctx, const void *object) {
    uint32_t k = ctx->making.n;
    while (k > 0 && ctx->making.at[k - 1].object != object) k--;
    SN_ASSERT(k > 0);
    for (; k < ctx->making.n; k++) ctx->making.at[k - 1] = ctx->making.at[k];
    ctx->making.n--;
}

/* After a jump nobody has cleaned up: what is half made is destroyed, then what is left of the call's memory is given
 * back. */
sn_status sn_guard_leave(sn_context *ctx, sn_status status) {
    ctx->env.guard = NULL;
    while (ctx->making.n) {
        sn_making half = ctx->making.at[--ctx->making.n];
        half.destroy(half.object);
    }
    ctx->making.at = NULL; /* in the scratch arena */
    ctx->making.cap = 0;
    return sn_env_leave(&ctx->env, &ctx->scratch, ctx->mark, status);
}

sn_context *sn_idle(sn_context *ctx) { return ctx && !ctx->env.guard ? ctx : NULL; }

bool sn_any_null(sn_context *ctx, const char *function, const char *names, const void *const *args, size_t n) {
    size_t k = 0;
    for (; k < n && args[k]; k++) names += strcspn(names, ",") + 2;
    if (k == n) return false;
    if (!ctx) return true;
    sn_env_clear(&ctx->env);
    sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "%s: %.*s is NULL", function, (int)strcspn(names, ","), names);
    return true;
}

sn_status sn_guarded(sn_context *ctx, sn_status (*body)(sn_context *ctx, void *args), void *args) {
    SN_GUARD_RETURN(ctx, body(ctx, args));
}
