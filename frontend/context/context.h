/* context.h: the ground floor of frontend/: contexts, the guard around public calls, what calls make, options, texts for the
 * caller, files as a whole. Graphs, programs, tensors and files of tensors stand on it.
 */
#ifndef SN_FRONTEND_CONTEXT_CONTEXT_H
#define SN_FRONTEND_CONTEXT_CONTEXT_H

#include "include/sinter/sinter.h"
#include "ir/base/text.h"
#include "metrics/metrics.h"
#include "runtime/runtime.h"

enum { SN_MAX_DEVICES = 16 };

/* What the running call makes and what holds more than memory: destroyed when the call ends before it is done. */
typedef struct sn_making {
    void *object;
    void (*destroy)(void *object);
} sn_making;

/* Every object begins with its context, a context with itself: the guard asks any of them alike. */
struct sn_context {
    sn_context *ctx;
    sn_env env;
    uint32_t tag, n_graphs; /* graph k has the tag `tag + k` */
    void (*log)(void *user, const char *text);
    void *log_user;
    sn_arena scratch; /* freed at the end of every guarded call */
    uint64_t counters[SN_N_COUNTERS];
    uint64_t mark;                 /* a guarded call that fails gives back what was allocated since */
    SN_VEC(sn_making) making;      /* youngest last; in scratch */
    sn_cuda *cuda[SN_MAX_DEVICES]; /* opened on first use */
    sn_cuda_memory device_memory;
    char cuda_target[SN_MAX_DEVICES][32];
    char library[SN_MAX_DEVICES + 1][2 * SN_LIBRARY_WHY + 2]; /* names, the CPU's first */
    char blas[SN_LIBRARY_WHY]; /* the CPU's, once compiling has asked for it: opening it starts its threads */
};

/* ---- the guard (guard.c) ----
 * Every public call with a context goes through one of these macros. They name what must not be NULL: `object`, whose
 * context the call works in, and the pointers behind `call`. Out-of-memory and the fatal errors of libraries longjmp
 * here. The call sees a cleared error, a scratch arena and the C locale. sn_guard_enter refuses a call that a callback
 * makes while another one runs: that one's failures and memory would be mixed up with it. */
bool sn_guard_enter(sn_context *ctx, jmp_buf *here);
sn_status sn_guard_leave(sn_context *ctx, sn_status status);
/* The same for any environment: what both begin and end with. */
bool sn_env_enter(sn_env *env, jmp_buf *here, uint64_t *mark);
sn_status sn_env_leave(sn_env *env, sn_arena *scratch, uint64_t mark, sn_status status);
/* The object is half made: a call that ends in between, by a failure or a jump, destroys it. */
void sn_making_begin(sn_context *ctx, void *object, void (*destroy)(void *object));
void sn_making_end(sn_context *ctx, const void *object);
/* Is one of n arguments NULL? The error of the context (NULL: nowhere) names the first: "sn_run: p is NULL". `names`:
 * "p, inputs", as the caller's source spells them. */
bool sn_any_null(sn_context *ctx, const char *function, const char *names, const void *const *args, size_t n);
/* The context, or NULL while a call runs in it: the error is that call's then, whatever a callback does. */
sn_context *sn_idle(sn_context *ctx);
#define SN_IS_NULL(object, ...)                                                                                        \
    sn_any_null(sn_idle((object) ? (object)->ctx : NULL), SN_NULLS(object, ##__VA_ARGS__))
#define SN_NULLS(object, ...)                                                                                          \
    __func__, #object ", " #__VA_ARGS__, (const void *const[]){(object), ##__VA_ARGS__},                               \
        sizeof((const void *const[]){(object), ##__VA_ARGS__}) / sizeof(void *)
#define SN_GUARD_RETURN(object, call, ...)                                                                             \
    do {                                                                                                               \
        jmp_buf sn_here;                                                                                               \
        if (SN_IS_NULL(object, ##__VA_ARGS__)) return SN_ERROR_ARGUMENT;                                               \
        if (!sn_guard_enter((object)->ctx, &sn_here)) return SN_ERROR_ARGUMENT;                                        \
        if (setjmp(sn_here)) return sn_guard_leave((object)->ctx, (object)->ctx->env.status);                          \
        return sn_guard_leave((object)->ctx, (call));                                                                  \
    } while (0)
/* For calls that make something: *out is NULL until it is there. */
#define SN_MAKE_RETURN(out, object, call, ...)                                                                         \
    do {                                                                                                               \
        if (out) *(out) = NULL;                                                                                        \
        SN_GUARD_RETURN(object, call, out, ##__VA_ARGS__);                                                             \
    } while (0)

/* Run a function of the tool under the guard. */
sn_status sn_guarded(sn_context *ctx, sn_status (*body)(sn_context *ctx, void *args), void *args);

/* ---- pieces ---- */

/* The text of `t` as a caller's text for sn_free; `t` is freed. */
sn_status sn_text_give(char **out, sn_context *ctx, sn_text *t);
/* A whole file in the arena, NUL-terminated. "-" is standard input. */
sn_status sn_file_read(char **out, size_t *size, sn_env *env, sn_arena *arena, const char *path);
/* All of it, or what was there before. */
sn_status sn_file_write(sn_env *env, const char *path, const void *data, size_t size);
/* To the context's log, whose callback is the host's code. */
void sn_context_say(void *ctx, const char *text);
/* The device's driver, opened on first use. */
sn_status sn_context_cuda(sn_cuda **out, sn_context *ctx, int ordinal);
/* A struct of options, by its struct_size, into one that is zeroed; NULL: defaults. `name`: that of its type. */
sn_status sn_options_read(void *out, size_t size, sn_env *env, const char *name, const void *options);

#endif
