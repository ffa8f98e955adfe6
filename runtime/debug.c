/* debug.c: runs of a program that say what they do (option `debug`): which kernel is launched, what it reads and writes, in lines and
 * in files, and an end at the first nan.
 *
 *     names            2 k1 (exp, sum; from model.c:12)
 *     print            2 k1 (exp, sum) reads x: f32[64] 64 elements least .. ; the same with `writes` behind the launch
 *     save             DIR/002_k1_writes_t0.npy
 *     stop-at-nan      the run fails at the first kernel that writes one (watch.c); stop-at-infinity: or an infinity
 *     nvtx             each launch is a range of NVTX (nvtx.c)
 *
 * Works on what runtime/ knows of a program, so that compiled ones and images do the same. A program with debugging runs by the step
 * interpreter and waits for each kernel (nvtx alone does not); one without has a pointer that is NULL, and its wrapper is the
 * same text. A folder that cannot be written, or a disk that is full, is one line, and the run goes on. Lines go to whoever
 * gave `say`, from the thread that runs.
 */
#include "cache/files.h"
#include "runtime/nvtx.h"
#include "runtime/prog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    WHOLE = 64, /* elements of a tensor that is printed whole */
    EDGE = 4    /* of a larger one: the first ones and the last ones */
};

/* By bit: SN_DEBUG_NAMES and so on. */
static const char *const words[] = {"names", "print", "save", "stop-at-nan", "stop-at-infinity", "nvtx"};

struct sn_debug {
    uint32_t on;
    bool *kernels; /* by kernel */
    const char *dir;
    void (*say)(void *user, const char *text);
    void *user;
    sn_nvtx nvtx;
    atomic_bool warned;
};

/* ---- options ---- */

static sn_status no_such_word(sn_env *env, const char *word, size_t n) {
    char list[128] = "off";
    for (uint32_t k = 0; k < SN_COUNT(words); k++) strcat(strcat(list, ", "), words[k]);
    return sn_fail(env, SN_ERROR_ARGUMENT, "debug: '%.*s' is none of %s", (int)n, word, list);
}

sn_status sn_debug_read(uint32_t *out, sn_env *env, const char *list) {
    *out = 0;
    for (const char *at = list; at && *at; at += *at == ',') {
        size_t n = strcspn(at, ",");
        uint32_t k = 0;
        while (k < SN_COUNT(words) && (strlen(words[k]) != n || memcmp(words[k], at, n) != 0)) k++;
        bool off = n == 3 && !memcmp(at, "off", 3);
        if (k == SN_COUNT(words) && !off) return no_such_word(env, at, n);
        if (!off) *out |= UINT32_C(1) << k;
        at += n;
    }
    return SN_OK;
}

static sn_status no_such_kernel(sn_env *env, const char *who, const char *name, size_t length, const char *const *names,
                                uint32_t n) {
    sn_text t;
    sn_text_init(&t, env);
    for (uint32_t k = 0; k < n; k++) sn_text_printf(&t, "%s%s", k ? ", " : "", names[k]);
    sn_fail(env, SN_ERROR_ARGUMENT, "%s: no kernel %.*s; there are: %s", who, (int)length, name, t.s);
    sn_text_free(&t);
    return env->status;
}

sn_status sn_debug_choose(bool *out, sn_env *env, const char *who, const char *list, const char *const *names,
                          uint32_t n) {
    for (uint32_t k = 0; k < n; k++) out[k] = !list;
    for (const char *at = list; at && *at; at += *at == ',') {
        size_t length = strcspn(at, ",");
        bool found = false;
        for (uint32_t k = 0; k < n; k++) {
            if (strlen(names[k]) != length || memcmp(names[k], at, length) != 0) continue;
            out[k] = found = true;
        }
        if (!found) return no_such_kernel(env, who, at, length, names, n);
        at += length;
    }
    return SN_OK;
}

sn_status sn_prog_choose(bool *out, const sn_prog *p, const char *who, const char *list) {
    sn_arena a;
    sn_arena_init(&a, p->env);
    const char **names = SN_NEWN(&a, const char *, p->n_codes + 1);
    for (uint32_t k = 0; k < p->n_codes; k++) names[k] = p->codes[k].k.name;
    sn_status status = sn_debug_choose(out, p->env, who, list, names, p->n_codes);
    sn_arena_free(&a);
    return status;
}

void sn_debug_keep(sn_debug_options *o, sn_arena *arena) {
    if (o->debug) o->debug = sn_strdup(arena, o->debug);
    if (o->kernels) o->kernels = sn_strdup(arena, o->kernels);
    if (o->dir) o->dir = sn_strdup(arena, o->dir);
}

sn_status sn_prog_debug(sn_prog *p, const sn_debug_options *o) {
    uint32_t on;
    SN_TRY(sn_debug_read(&on, p->env, o->debug));
    if (!on) return SN_OK;
    sn_debug *d = SN_NEW(&p->arena, sn_debug);
    d->on = on;
    d->kernels = SN_NEWN(&p->arena, bool, p->n_codes + 1);
    d->dir = sn_strdup(&p->arena, o->dir ? o->dir : ".");
    d->say = o->say;
    d->user = o->user;
    SN_TRY(sn_prog_choose(d->kernels, p, "debug_kernels", o->kernels));
    if (on & SN_DEBUG_NVTX) sn_nvtx_open(&d->nvtx);
    p->debug = d;
    return SN_OK;
}

/* ---- lines ---- */

/* The host's callback sees the host's locale. */
static void say(const sn_debug *d, sn_env *env, const char *text) {
    if (!d->say) return;
    bool entered = sn_locale_leave(env);
    d->say(d->user, text);
    if (entered) sn_locale_enter(env);
}

static void warn(sn_debug *d, sn_env *env, const char *what, const char *why) {
    if (atomic_exchange(&d->warned, true)) return;
    char line[SN_PATH_MOST + 256];
    snprintf(line, sizeof line, "debug: %s: %s\n", what, why);
    say(d, env, line);
}

static void put_element(sn_text *t, const sn_watched *w, int64_t k) {
    const char *at = (const char *)w->elements + (size_t)k * sn_dtype_bytes(w->dtype);
    if (sn_is_float(w->dtype)) sn_text_printf(t, " %.9g", sn_load_float(w->dtype, at));
    else if (w->dtype == SN_U64) sn_text_printf(t, " %" PRIu64, (uint64_t)sn_load_int(w->dtype, at));
    else sn_text_printf(t, " %" PRId64, sn_load_int(w->dtype, at));
}

void sn_watched_print(sn_text *t, const sn_watched *w) {
    sn_text_printf(t, "%u %s%s%s%s %s %s: %s[", w->call, w->kernel, *w->made_of ? " (" : "", w->made_of,
                   *w->made_of ? ")" : "", w->written ? "writes" : "reads", w->buffer, sn_dtypes[w->dtype].name);
    for (unsigned k = 0; k < w->rank; k++) sn_text_printf(t, "%s%" PRId64, k ? ", " : "", w->shape[k]);
    sn_text_printf(t, "] %" PRId64 " element%s least %.6g most %.6g mean %.6g deviation %.6g", w->numel,
                   w->numel == 1 ? "" : "s", w->least, w->most, w->mean, w->deviation);
    if (w->nans) sn_text_printf(t, ", %" PRId64 " nan", w->nans);
    if (w->infinities) sn_text_printf(t, ", %" PRId64 " infinite", w->infinities);
    sn_text_put(t, ":");
    for (int64_t k = 0; k < w->numel; k++) {
        if (w->numel <= WHOLE || k < EDGE || k >= w->numel - EDGE) put_element(t, w, k);
        else if (k == EDGE) sn_text_put(t, " ...");
    }
    sn_text_put(t, "\n");
}

/* ---- files ---- */

/* The header is padded so that elements begin at a multiple of 64 bytes. */
static void put_npy_header(sn_text *t, const sn_watched *w) {
    const char *npy = sn_dtypes[w->dtype].npy;
    sn_text_printf(t, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                   *npy                            ? npy
                   : sn_dtype_bytes(w->dtype) == 1 ? "|u1"
                                                   : "<u2");
    for (unsigned k = 0; k < w->rank; k++) sn_text_printf(t, "%" PRId64 ",%s", w->shape[k], k + 1 < w->rank ? " " : "");
    sn_text_put(t, "), }");
    while ((t->n + 11) % 64) sn_text_put(t, " ");
    sn_text_put(t, "\n");
}

sn_status sn_watched_save(char path[SN_PATH_MOST], sn_env *env, const char *dir, const sn_watched *w) {
    unsigned char magic[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    int n = snprintf(path, SN_PATH_MOST, "%s/%03u_%s_%s_%s.npy", dir, w->call, w->kernel,
                     w->written ? "writes" : "reads", w->buffer);
    if (n < 0 || n >= SN_PATH_MOST) return SN_ERROR_FILE;
    sn_text t;
    sn_text_init(&t, env);
    put_npy_header(&t, w);
    magic[8] = (unsigned char)(t.n & 255);
    magic[9] = (unsigned char)(t.n >> 8);
    const sn_file_part parts[] = {
        {magic, sizeof magic}, {t.s, t.n}, {w->elements, (size_t)w->numel * sn_dtype_bytes(w->dtype)}};
    bool good = sn_folder_make(dir) && sn_file_place(path, parts, SN_COUNT(parts), 0);
    int why = errno;
    sn_text_free(&t);
    errno = why;
    return good ? SN_OK : SN_ERROR_FILE;
}

/* ---- runs ---- */

typedef struct debugging {
    sn_debug *d;
    sn_env *env;
} debugging;

static void print_call(const debugging *b, const sn_watched *w) {
    sn_text t;
    sn_text_init(&t, b->env);
    sn_text_printf(&t, "%u %s (%s%s%s)\n", w->call, w->kernel, w->made_of, *w->from ? "; from " : "", w->from);
    say(b->d, b->env, t.s);
    sn_text_free(&t);
}

static void begin_call(void *user, const sn_watched *w) {
    const debugging *b = user;
    if (b->d->on & SN_DEBUG_NAMES) print_call(b, w);
    if (!(b->d->on & SN_DEBUG_NVTX)) return;
    if (b->d->nvtx.push) b->d->nvtx.push(w->kernel);
    else warn(b->d, b->env, "nvtx", b->d->nvtx.why);
}

static void end_call(void *user) {
    const debugging *b = user;
    if (b->d->nvtx.pop) b->d->nvtx.pop();
}

static bool show(void *user, const sn_watched *w) {
    const debugging *b = user;
    char path[SN_PATH_MOST];
    if (b->d->on & SN_DEBUG_PRINT) {
        sn_text t;
        sn_text_init(&t, b->env);
        sn_watched_print(&t, w);
        say(b->d, b->env, t.s);
        sn_text_free(&t);
    }
    if (b->d->on & SN_DEBUG_SAVE && sn_watched_save(path, b->env, b->d->dir, w) != SN_OK)
        warn(b->d, b->env, path, strerror(errno));
    return true;
}

sn_status sn_debug_run(sn_prog_state *st, void *const *inputs, void *const *outputs, void *stream) {
    sn_debug *d = st->p->debug;
    debugging b = {d, st->env};
    bool shows = d->on & (SN_DEBUG_PRINT | SN_DEBUG_SAVE);
    sn_watcher w = {.watch = shows ? show : NULL,
                    .user = &b,
                    .kernels = d->kernels,
                    .reads = shows,
                    .stop_at_nan = d->on & (SN_DEBUG_NAN | SN_DEBUG_INFINITY),
                    .stop_at_infinity = d->on & SN_DEBUG_INFINITY,
                    .begin = d->on & (SN_DEBUG_NAMES | SN_DEBUG_NVTX) ? begin_call : NULL,
                    .end = end_call,
                    .waits = d->on & SN_DEBUG_NAMES,
                    .inside = true};
    return sn_prog_run_watched(st, inputs, outputs, stream, &w);
}
