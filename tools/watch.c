/* watch.c: `sinter run --watch`: a line for each argument of each kernel, and with --watch-dir a file.
 *
 *     2 k1 (exp, sum) writes k1_t0: f32[64] least 1 most 3.7 mean 2.1 deviation 0.4: 1.5 2.25 ...
 *
 * Files are named by the number of the call, the kernel and the buffer: 002_k1_writes_k1_t0.npy. They are written by a
 * context of their own, since that of the run is busy.
 */
#include "tools/tool.h"

#include <inttypes.h>
#include <string.h>

typedef struct watching {
    const tool_watch *how;
    sn_context *files; /* NULL: none are written */
} watching;

static void print_line(const sn_watched *w) {
    printf("%u %s%s%s%s %s %s: %s[", w->call, w->kernel, *w->made_of ? " (" : "", w->made_of, *w->made_of ? ")" : "",
           w->written ? "writes" : "reads", w->buffer, sn_dtypes[w->dtype].name);
    for (unsigned k = 0; k < w->rank; k++) printf("%s%" PRId64, k ? ", " : "", w->shape[k]);
    printf("] least %.6g most %.6g mean %.6g deviation %.6g", w->least, w->most, w->mean, w->deviation);
    if (w->nans) printf(", %" PRId64 " nan", w->nans);
    if (w->infinities) printf(", %" PRId64 " infinite", w->infinities);
    printf(":");
    tool_print_elements(w->dtype, w->elements, w->numel, false);
    printf("\n");
}

static sn_status save(sn_context *ctx, const char *dir, const sn_watched *w) {
    sn_tensor *t;
    char name[512];
    snprintf(name, sizeof name, "%03u_%s_%s_%s", w->call, w->kernel, w->written ? "writes" : "reads", w->buffer);
    void *elements = (void *)(uintptr_t)w->elements; /* they are read alone */
    SN_TRY(sn_tensor_wrap(&t, ctx, SN_CPU, elements, w->dtype, w->rank, w->shape, NULL, 0));
    sn_status status = tool_save(dir, name, t);
    sn_tensor_destroy(t);
    return status;
}

static bool watch(void *user, const sn_watched *w) {
    watching *to = user;
    print_line(w);
    if (!to->files || save(to->files, to->how->dir, w) == SN_OK) return true;
    tool_fail(to->files);
    return false;
}

sn_status tool_run_watched(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs, const tool_watch *how) {
    watching to = {.how = how};
    sn_watch_options o = {.struct_size = sizeof o,
                          .watch = how->on ? watch : NULL,
                          .user = &to,
                          .kernels = how->kernels,
                          .reads = how->reads,
                          .stop_at = how->stop_at};
    if (how->dir) SN_TRY(sn_context_create(&to.files, NULL));
    sn_status status = sn_run_watched(p, inputs, outputs, NULL, &o);
    if (to.files) sn_context_destroy(to.files);
    return status;
}
