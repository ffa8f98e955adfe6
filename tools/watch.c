/* watch.c: `sinter run --watch`: a line for each argument of each kernel (runtime/debug.c), and with --watch-dir a file.
 *
 * Files are named by the number of the call, the kernel and the buffer: 002_k1_writes_k1_t0.npy. What cannot be written is one line,
 * and the run goes on.
 */
#include "tools/tool.h"

#include <errno.h>
#include <string.h>

typedef struct watching {
    const tool_watch *how;
    sn_context *own; /* that of the run is busy */
    bool warned;
} watching;

static sn_status print_line(sn_context *ctx, void *user) {
    sn_text t;
    sn_text_init(&t, &ctx->env);
    sn_watched_print(&t, user);
    fputs(t.s, stdout);
    sn_text_free(&t);
    return SN_OK;
}

typedef struct saving {
    const char *dir;
    const sn_watched *w;
    char path[SN_PATH_MOST];
} saving;

static sn_status save(sn_context *ctx, void *user) {
    saving *s = user;
    if (sn_watched_save(s->path, &ctx->env, s->dir, s->w) == SN_OK) return SN_OK;
    return sn_fail(&ctx->env, SN_ERROR_FILE, "cannot write %s: %s", s->path, strerror(errno));
}

static bool watch(void *user, const sn_watched *w) {
    watching *to = user;
    saving s = {.dir = to->how->dir, .w = w};
    sn_guarded(to->own, print_line, (void *)(uintptr_t)w);
    if (to->how->dir && sn_guarded(to->own, save, &s) != SN_OK && !to->warned) {
        fprintf(stderr, "sinter: %s\n", sn_error(to->own));
        to->warned = true;
    }
    return true;
}

sn_status tool_run_watched(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs, const tool_watch *how) {
    watching to = {.how = how};
    sn_watch_options o = {.struct_size = sizeof o,
                          .watch = how->on ? watch : NULL,
                          .user = &to,
                          .kernels = how->kernels,
                          .reads = how->reads,
                          .stop_at = how->stop_at};
    SN_TRY(sn_context_create(&to.own, NULL));
    sn_status status = sn_run_watched(p, inputs, outputs, NULL, &o);
    sn_context_destroy(to.own);
    return status;
}
