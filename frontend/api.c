/* api.c: contexts, the guard, errors, devices, texts and files.
 *
 * Relies on the environment of ir/base and on the runtime for devices. This is the only place that installs a jump
 * target for out-of-memory and for fatal errors of libraries, and that puts a call into the C locale. Does not know
 * graphs or programs beyond destroying a half-made one.
 */
#include "frontend/frontend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- guard ---- */

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

/* After a jump nobody has cleaned up: the half-made program, which holds more than memory, is destroyed, then what is
 * left of the call's memory is given back. */
sn_status sn_guard_leave(sn_context *ctx, sn_status status) {
    sn_program *unfinished = ctx->pending;
    ctx->pending = NULL;
    sn_weights *opening = ctx->opening;
    ctx->opening = NULL;
    sn_graph *importing = ctx->importing;
    ctx->importing = NULL;
    ctx->env.guard = NULL;
    if (importing && status != SN_OK) sn_graph_destroy(importing);
    if (opening && status != SN_OK) sn_weights_close(opening);
    if (unfinished && status != SN_OK) sn_program_destroy(unfinished);
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

bool sn_build_enter(sn_graph *g, jmp_buf *here) {
    if (!g || g->status != SN_OK) return false;
    if (!sn_guard_enter(g->ctx, here)) return false;
    g->built = (sn_nd){0};
    return true;
}

sn_node sn_build_leave(sn_graph *g) {
    sn_env *env = &g->ctx->env;
    sn_guard_leave(g->ctx, env->status);
    if (env->status == SN_OK) return (sn_node){g->built.i, g->tag};
    g->status = env->status;
    memcpy(g->message, env->message, sizeof g->message);
    return (sn_node){0};
}

sn_status sn_guarded(sn_context *ctx, sn_status (*body)(sn_context *ctx, void *args), void *args) {
    SN_GUARD_RETURN(ctx, body(ctx, args));
}

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
    if (o.realloc_fn) {
        env.realloc_fn = o.realloc_fn;
        env.realloc_user = o.realloc_user;
    }
    env.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!env.c_locale) return SN_ERROR_MEMORY;
    sn_context *ctx = env.realloc_fn(env.realloc_user, NULL, sizeof *ctx);
    if (!ctx) {
        freelocale(env.c_locale);
        return SN_ERROR_MEMORY;
    }
    *ctx = (sn_context){.ctx = ctx, .env = env, .log = o.log, .log_user = o.log_user};
    ctx->tag = (uint32_t)sn_hash(0, (uintptr_t)ctx); /* contexts number their graphs alike */
    sn_arena_init(&ctx->scratch, &ctx->env);
    *out = ctx;
    return SN_OK;
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

/* ---- texts: a block that knows where it came from and its size, so that the memory hook's accounting stays right ---- */

typedef struct text_block {
    sn_env *env;
    size_t size;
    char text[];
} text_block;

sn_status sn_text_give(char **out, sn_context *ctx, sn_text *t) {
    size_t size = sizeof(text_block) + t->n + 1;
    text_block *block = sn_heap_alloc(&ctx->env, size);
    block->env = &ctx->env;
    block->size = size;
    memcpy(block->text, t->s, t->n + 1);
    sn_text_free(t);
    *out = block->text;
    return SN_OK;
}

void sn_free(SN_UNUSED sn_context *ctx, char *text) {
    if (!text) return;
    text_block *block = (text_block *)(void *)(text - offsetof(text_block, text));
    sn_heap_free(block->env, block, block->size);
}

/* ---- files ---- */

static sn_status read_stream(char **out, size_t *size, sn_env *env, sn_arena *arena, FILE *file, const char *path) {
    size_t cap = 1 << 14, n = 0;
    char *text = sn_alloc(arena, cap);
    for (;;) {
        n += fread(text + n, 1, cap - 1 - n, file);
        if (n < cap - 1) break;
        char *more = sn_alloc(arena, cap * 2);
        memcpy(more, text, n);
        text = more;
        cap *= 2;
    }
    if (ferror(file)) return sn_fail(env, SN_ERROR_FILE, "cannot read %s: %s", path, strerror(errno));
    text[n] = 0;
    *out = text;
    *size = n;
    return SN_OK;
}

sn_status sn_file_read(char **out, size_t *size, sn_env *env, sn_arena *arena, const char *path) {
    if (!strcmp(path, "-")) return read_stream(out, size, env, arena, stdin, "standard input");
    FILE *file = fopen(path, "rb");
    if (!file) return sn_fail(env, SN_ERROR_FILE, "cannot open %s: %s", path, strerror(errno));
    sn_status status = read_stream(out, size, env, arena, file, path);
    fclose(file);
    return status;
}

sn_status sn_file_write(sn_env *env, const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file) return sn_fail(env, SN_ERROR_FILE, "cannot write %s: %s", path, strerror(errno));
    bool bad = fwrite(data, 1, size, file) != size;
    int why = errno;
    if (fclose(file) != 0 && !bad) bad = true, why = errno;
    return bad ? sn_fail(env, SN_ERROR_FILE, "cannot write %s: %s", path, strerror(why)) : SN_OK;
}

/* ---- devices ---- */

sn_status sn_context_cuda(sn_cuda **out, sn_context *ctx, int ordinal) {
    if (ordinal < 0 || ordinal >= SN_MAX_DEVICES)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "CUDA device %d: ordinals are 0 .. %d", ordinal,
                       SN_MAX_DEVICES - 1);
    if (!ctx->cuda[ordinal]) SN_TRY(sn_cuda_open(&ctx->cuda[ordinal], &ctx->env, (uint32_t)ordinal));
    *out = ctx->cuda[ordinal];
    return SN_OK;
}

static sn_status device_count(unsigned *out, sn_context *ctx) {
    char why[256] = "";
    *out = sn_cuda_count(why, sizeof why);
    if (*out) return SN_OK;
    return sn_fail(&ctx->env, SN_ERROR_DEVICE, "no CUDA device: %s", why[0] ? why : "the driver reports none");
}

sn_status sn_device_count(unsigned *out, sn_context *ctx) {
    if (out) *out = 0;
    SN_GUARD_RETURN(ctx, device_count(out, ctx), out);
}

static sn_status device_info(const char **name, const char **target, sn_context *ctx, int device) {
    sn_cuda *cu;
    if (device == SN_CPU) {
        *name = "cpu";
        *target = "host";
        return SN_OK;
    }
    SN_TRY(sn_context_cuda(&cu, ctx, device));
    sn_target t;
    sn_cuda_target(cu, &t);
    memcpy(ctx->cuda_target[device], t.name, sizeof t.name);
    *name = sn_cuda_name(cu);
    *target = ctx->cuda_target[device];
    return SN_OK;
}

sn_status sn_device_info(const char **name, const char **target, sn_context *ctx, int device) {
    if (name) *name = "";
    if (target) *target = "";
    SN_GUARD_RETURN(ctx, device_info(name, target, ctx, device), name, target);
}

static sn_status device_copy_rate(double *out, sn_context *ctx, int device) {
    sn_cuda *cu;
    SN_TRY(sn_context_cuda(&cu, ctx, device));
    return sn_cuda_copy_rate(out, cu);
}

sn_status sn_device_copy_rate(double *out, sn_context *ctx, int device) {
    if (out) *out = 0;
    SN_GUARD_RETURN(ctx, device_copy_rate(out, ctx, device), out);
}

static sn_status device_sync(sn_context *ctx, int device, void *stream) {
    if (device == SN_CPU) return SN_OK;
    sn_cuda *cu;
    SN_TRY(sn_context_cuda(&cu, ctx, device));
    return sn_cuda_sync(cu, stream);
}

sn_status sn_device_sync(sn_context *ctx, int device, void *stream) {
    SN_GUARD_RETURN(ctx, device_sync(ctx, device, stream));
}
