/* watch.c: sn_run_watched: what somebody wants to see of a run, for runtime/watch.c.
 *
 * Names of kernels that do not exist are refused with those that do. Runs in the state of the program, as sn_run.
 */
#include "frontend/frontend.h"

#include <string.h>

static sn_status read_stop(sn_watcher *w, sn_env *env, const char *word) {
    if (!word) return SN_OK;
    bool nan = !strcmp(word, "nan"), infinity = !strcmp(word, "infinity");
    if (!nan && !infinity)
        return sn_fail(env, SN_ERROR_ARGUMENT, "sn_run_watched: stop_at is \"%s\"; nan or infinity is wanted", word);
    w->stop_at_nan = true;
    w->stop_at_infinity = infinity;
    return SN_OK;
}

static sn_status run(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream,
                     const sn_watch_options *options) {
    sn_watch_options o = {0};
    sn_env *env = &p->ctx->env;
    SN_TRY(sn_options_read(&o, sizeof o, env, "sn_watch_options", options));
    bool *kernels = SN_NEWN(&p->ctx->scratch, bool, p->m->kernels.n + 1);
    sn_watcher w = {.watch = o.watch, .user = o.user, .kernels = kernels, .reads = o.reads};
    if (p->prog) SN_TRY(sn_prog_choose(kernels, p->prog, "sn_run_watched", o.kernels));
    SN_TRY(read_stop(&w, env, o.stop_at));
    if (!o.watch && !o.stop_at)
        return sn_fail(env, SN_ERROR_ARGUMENT, "sn_run_watched: neither watch nor stop_at is set: nobody looks");
    return sn_runner_watch(&p->runner, inputs, outputs, stream, &w);
}

sn_status sn_run_watched(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream,
                         const sn_watch_options *options) {
    SN_GUARD_RETURN(p, run(p, inputs, outputs, stream, options), options);
}
