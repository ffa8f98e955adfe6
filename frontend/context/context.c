/* context.c: contexts, their errors and devices, names of statuses and dtypes, reading of options structs.
 *
 * Relies on the environment of ir/base and on the runtime for devices. What is made in a context (tensors, graphs, programs,
 * files) stands on this folder, which knows none of it.
 */
#include "frontend/context/context.h"

#include <string.h>

/* ---- context ---- */

const char *sn_version(void) { return SINTER_VERSION; }

/* A size that is not a multiple of what structs are aligned to would cut a pointer in two. */
sn_status sn_options_read(void *out, size_t size, sn_env *env, const char *name, const void *options) {
    size_t given;
    if (!options) return SN_OK;
    memcpy(&given, options, sizeof given);
    if (given < sizeof given || given > size || given % sizeof given)
        return sn_fail(env, SN_ERROR_ARGUMENT, "%s: struct_size is %zu; set it to sizeof (%zu)", name, given, size);
    memcpy(out, options, given);
    return SN_OK;
}

sn_status sn_context_create(sn_context **out, const sn_context_options *options) {
    if (!out) return SN_ERROR_ARGUMENT;
    *out = NULL;
    sn_env env;
    sn_env_init(&env);
    sn_context_options o = {0};
    SN_TRY(sn_options_read(&o, sizeof o, &env, "sn_context_options", options));
    if (!o.device_alloc != !o.device_free) return SN_ERROR_ARGUMENT;
    if (o.realloc_fn) {
        env.realloc_fn = o.realloc_fn;
        env.realloc_user = o.realloc_user;
    }
    env.parallel = o.parallel_for;
    env.parallel_user = o.parallel_user;
    env.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!env.c_locale) return SN_ERROR_MEMORY;
    sn_context *ctx = env.realloc_fn(env.realloc_user, NULL, sizeof *ctx);
    if (!ctx) {
        freelocale(env.c_locale);
        return SN_ERROR_MEMORY;
    }
    *ctx = (sn_context){.ctx = ctx, .env = env, .log = o.log, .log_user = o.log_user};
    ctx->device_memory = (sn_cuda_memory){o.device_alloc, o.device_free, o.device_user};
    ctx->tag = (uint32_t)sn_hash(0, (uintptr_t)ctx); /* contexts number their graphs alike */
    sn_arena_init(&ctx->scratch, &ctx->env);
    *out = ctx;
    return SN_OK;
}

void sn_context_say(void *user, const char *text) {
    sn_context *ctx = user;
    if (!ctx->log) return;
    sn_locale_leave(&ctx->env);
    ctx->log(ctx->log_user, text);
    sn_locale_enter(&ctx->env);
}

void sn_context_destroy(sn_context *ctx) {
    if (!ctx) return;
    for (unsigned i = 0; i < SN_MAX_DEVICES; i++)
        if (ctx->cuda[i]) sn_cuda_close(ctx->cuda[i]);
    sn_arena_free(&ctx->scratch);
    freelocale(ctx->env.c_locale);
    ctx->env.realloc_fn(ctx->env.realloc_user, ctx, 0);
}

const char *sn_error(const sn_context *ctx) { return ctx ? ctx->env.message : ""; }
sn_status sn_error_status(const sn_context *ctx) { return ctx ? ctx->env.status : SN_ERROR_ARGUMENT; }
void sn_error_clear(sn_context *ctx) {
    if (sn_idle(ctx)) sn_env_clear(&ctx->env);
}

const char *sn_status_name(sn_status status) {
    switch (status) {
    case SN_OK: return "ok";
    case SN_ERROR_SYNTAX: return "syntax";
    case SN_ERROR_TYPE: return "type";
    case SN_ERROR_ARGUMENT: return "argument";
    case SN_ERROR_UNSUPPORTED: return "unsupported";
    case SN_ERROR_VERIFY: return "verify";
    case SN_ERROR_FILE: return "file";
    case SN_ERROR_TARGET: return "target";
    case SN_ERROR_DEVICE: return "device";
    case SN_ERROR_MEMORY: return "memory";
    case SN_ERROR_DEVICE_MEMORY: return "device memory";
    case SN_ERROR_MISMATCH: return "mismatch";
    case SN_ERROR_INTERNAL: return "internal";
    }
    return "unknown";
}

const char *sn_dtype_name(sn_dtype dtype) { return dtype < SN_N_DTYPES ? sn_dtypes[dtype].name : "none"; }
size_t sn_dtype_size(sn_dtype dtype) { return dtype < SN_N_DTYPES ? sn_dtypes[dtype].bytes : 0; }

/* ---- devices ---- */

sn_status sn_context_cuda(sn_cuda **out, sn_context *ctx, int ordinal) {
    if (ordinal < 0 || ordinal >= SN_MAX_DEVICES)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "CUDA device %d: ordinals are 0 .. %d", ordinal,
                       SN_MAX_DEVICES - 1);
    if (!ctx->cuda[ordinal]) {
        SN_TRY(sn_cuda_open(&ctx->cuda[ordinal], &ctx->env, (uint32_t)ordinal));
        sn_cuda_use_memory(ctx->cuda[ordinal], &ctx->device_memory);
    }
    *out = ctx->cuda[ordinal];
    return SN_OK;
}
