/* watch.c: a run that somebody looks at: what each kernel reads and writes, with figures, and the first one that makes a nan.
 *
 *     for each call of the interpreter:   copy what it may write   figures of what it reads
 *                                         launch, wait
 *                                         figures of what it has written, by what has changed of it
 *
 * An argument is a window of a buffer, of which a kernel may write a part: the rest is what others have left, or nobody. A
 * run is stopped by elements that the call has written alone, so a nan that lies there before is made another one, which
 * no arithmetic gives, and is what it was again where the call has left it; the workspace of such a run begins as zeroes. Slow,
 * and allocates: runs that nobody looks at come through exec.c without a trace of this. Memory is the environment's and goes with
 * the call, also when it fails.
 */
#include "runtime/prog.h"

#include <math.h>
#include <string.h>

/* The elements of a parameter on the host: where they are, or a copy. */
static sn_status fetch(const void **out, sn_prog_state *st, uint32_t i, const sn_rt_formal *f, bool copied,
                       sn_arena *arena) {
    size_t bytes = (size_t)f->numel * sn_dtype_bytes(f->dtype);
    *out = st->params[i];
    if (!bytes || (!st->cu && !copied)) return SN_OK;
    void *copy = sn_alloc(arena, bytes);
    *out = copy;
    if (st->cu) return sn_cuda_to_host(st->cu, copy, st->params[i], bytes, st->stream);
    memcpy(copy, st->params[i], bytes);
    return SN_OK;
}

/* ---- figures ---- */

static double number_at(const sn_watched *w, int64_t i) {
    const char *at = (const char *)w->elements + (size_t)i * sn_dtype_bytes(w->dtype);
    return sn_is_float(w->dtype) ? sn_load_float(w->dtype, at) : sn_int_to_double(w->dtype, sn_load_int(w->dtype, at));
}

static void add_figures(sn_watched *w) {
    double squares = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < w->numel; i++) {
        double x = number_at(w, i);
        w->nans += isnan(x) != 0;
        w->infinities += isinf(x) != 0;
        if (!isfinite(x)) continue;
        w->least = n && w->least < x ? w->least : x;
        w->most = n && w->most > x ? w->most : x;
        double off = x - w->mean; /* Welford's: terms that cancel do not grow with n */
        n++;
        w->mean += off / (double)n;
        squares += off * (x - w->mean);
    }
    w->deviation = n ? sqrt(squares / (double)n) : 0;
}

/* What concerns no argument. */
static sn_watched describe_call(const sn_prog_state *st, const sn_rt_step *s) {
    const sn_code *code = &st->p->codes[s->kernel];
    const char *from = s->from_here ? s->from_here : code->from;
    return (sn_watched){.kernel = code->k.name,
                        .made_of = code->note ? code->note : "",
                        .from = from ? from : "",
                        .call = st->watch->calls,
                        .buffer = ""};
}

static sn_watched describe(const sn_prog_state *st, const sn_rt_step *s, uint32_t i, const void *elements,
                           bool written) {
    const sn_rt_formal *f = &st->p->codes[s->kernel].formals[i];
    sn_watched w = describe_call(st, s);
    w.buffer = st->p->names[s->args[i].buf.i];
    w.written = written;
    w.dtype = f->dtype;
    w.rank = f->rank;
    w.elements = elements;
    w.numel = f->numel;
    memcpy(w.shape, f->shape, f->rank * sizeof *f->shape);
    add_figures(&w);
    return w;
}

static sn_status show(const sn_prog_state *st, const sn_watched *w) {
    const sn_watcher *by = st->watch->by;
    if (!by->watch) return SN_OK;
    bool entered = !by->inside && sn_locale_leave(st->env), goes_on = by->watch(by->user, w);
    if (entered) sn_locale_enter(st->env);
    if (goes_on) return SN_OK;
    return sn_fail(st->env, SN_ERROR_ARGUMENT, "kernel %s: the run was ended by who watches it", w->kernel);
}

/* ---- what a run stops at ---- */

static bool is_read(const sn_rt_formal *f) { return f->role == SN_ROLE_IN || f->role == SN_ROLE_INOUT; }
static bool is_written(const sn_rt_formal *f) { return f->role == SN_ROLE_OUT || f->role == SN_ROLE_INOUT; }

static bool is_bad(const sn_watcher *by, double x) {
    return (by->stop_at_nan && isnan(x)) || (by->stop_at_infinity && isinf(x));
}

static bool any_bad(const sn_watcher *by, const sn_watched *w) {
    return (by->stop_at_nan && w->nans) || (by->stop_at_infinity && w->infinities);
}

/* A nan that no arithmetic gives; NULL: the type has no nan. */
static const void *marker_of(sn_dtype dtype) {
    static const uint64_t f64 = 0x7ff4a5a5a5a5a5a5;
    static const uint32_t f32 = 0x7fa5a5a5;
    static const uint16_t f16 = 0x7da5, bf16 = 0x7fa5;
    switch ((int)dtype) {
    case SN_F64: return &f64;
    case SN_F32: return &f32;
    case SN_F16: return &f16;
    case SN_BF16: return &bf16;
    default: return NULL;
    }
}

static sn_status put_back(sn_prog_state *st, uint32_t i, const void *elements, size_t bytes) {
    if (!st->cu) return memmove(st->params[i], elements, bytes), SN_OK;
    return sn_cuda_to_device(st->cu, st->params[i], elements, bytes, st->stream);
}

/* Does the call read, or write, what it has parameter i for, through that or another one? The plan writes in place. */
static bool does_too(const sn_prog_state *st, const sn_rt_step *s, uint32_t i, bool (*does)(const sn_rt_formal *)) {
    const sn_rt_formal *formals = st->p->codes[s->kernel].formals;
    const char *first = st->params[i], *end = first + (size_t)formals[i].numel * sn_dtype_bytes(formals[i].dtype);
    for (uint32_t k = 0; k < s->n_args; k++) {
        const char *other = st->params[k];
        size_t bytes = (size_t)formals[k].numel * sn_dtype_bytes(formals[k].dtype);
        if (does(&formals[k]) && other < end && first < other + bytes) return true;
    }
    return false;
}

/* What is bad in a parameter that the call writes and does not read gets the marker. */
static sn_status mark(sn_prog_state *st, const sn_rt_step *s, uint32_t i, const sn_watched *w, sn_arena *a) {
    const sn_rt_formal *f = &st->p->codes[s->kernel].formals[i];
    const void *marker = marker_of(f->dtype);
    size_t size = sn_dtype_bytes(f->dtype), bytes = (size_t)f->numel * size;
    if (!marker || !any_bad(st->watch->by, w) || does_too(st, s, i, is_read)) return SN_OK;
    char *marked = sn_memdup(a, w->elements, bytes);
    for (int64_t k = 0; k < f->numel; k++)
        if (is_bad(st->watch->by, number_at(w, k))) memcpy(marked + (size_t)k * size, marker, size);
    st->watch->marked[i] = true;
    return put_back(st, i, marked, bytes);
}

/* What a kernel leaves as it is: in elements k of a parameter that it writes. */
static const void *left_as(const sn_prog_state *st, uint32_t i, const sn_watched *before, int64_t k) {
    bool marked = st->watch->marked[i] && is_bad(st->watch->by, number_at(before, k));
    return marked ? marker_of(before->dtype)
                  : (const char *)before->elements + (size_t)k * sn_dtype_bytes(before->dtype);
}

/* The first bad element that the call has written, -1: none. The others are what they were before: so is the copy
 * *elements. */
static sn_status settle(int64_t *made, const void **elements, sn_prog_state *st, uint32_t i, const sn_watched *w,
                        sn_arena *a) {
    const sn_watched *before = &st->watch->before[i];
    size_t size = sn_dtype_bytes(w->dtype), bytes = (size_t)w->numel * size;
    char *own = sn_memdup(a, w->elements, bytes);
    bool restored = false;
    *made = -1;
    for (int64_t k = 0; k < w->numel; k++) {
        char *at = own + (size_t)k * size;
        if (!is_bad(st->watch->by, number_at(w, k)) && !isnan(number_at(w, k))) continue;
        if (memcmp(at, left_as(st, i, before, k), size) != 0) {
            if (*made < 0 && is_bad(st->watch->by, number_at(w, k))) *made = k;
            continue;
        }
        memcpy(at, (const char *)before->elements + (size_t)k * size, size);
        restored = true;
    }
    *elements = own;
    return restored && st->watch->marked[i] ? put_back(st, i, own, bytes) : SN_OK;
}

static const char *place_text(sn_arena *a, const sn_watched *w, int64_t at) {
    int64_t index[SN_MAX_RANK];
    for (uint32_t k = w->rank; k-- > 0; at /= w->shape[k]) index[k] = at % w->shape[k];
    const char *text = "[";
    for (uint32_t k = 0; k < w->rank; k++) text = sn_strf(a, "%s%s%lld", text, k ? ", " : "", (long long)index[k]);
    return sn_strf(a, "%s]", text);
}

/* Names of the arguments that had one before. */
static const char *sources(sn_arena *a, const sn_prog_state *st, const sn_rt_step *s) {
    const char *names = NULL;
    for (uint32_t i = 0; i < s->n_args; i++) {
        const char *name = st->p->names[s->args[i].buf.i];
        if (st->watch->had[i]) names = names ? sn_strf(a, "%s, %s", names, name) : name;
    }
    return names ? sn_strf(a, "there was one in %s already", names) : "there was none in what it reads";
}

static sn_status stop(const sn_prog_state *st, const sn_rt_step *s, uint32_t i, const sn_watched *w, int64_t at,
                      sn_arena *a) {
    const char *from = *w->from ? sn_strf(a, "; from %s", w->from) : "", *maker = sn_watch_maker(st, s, i, at, a);
    return sn_fail(st->env, SN_ERROR_MISMATCH, "kernel %s (%s%s) writes %s to %s at %s; %s%s", w->kernel, w->made_of,
                   from, isnan(number_at(w, at)) ? "nan" : "an infinity", w->buffer, place_text(a, w, at),
                   sources(a, st, s), maker);
}

/* ---- a run ---- */

static bool stops(const sn_watcher *by) { return by->stop_at_nan || by->stop_at_infinity; }

/* A kernel may read what it has written itself. What lies there before is nobody's, and must not pass for a nan that was there. */
sn_status sn_watch_begin(sn_prog_state *st) {
    size_t size = st->p->workspace_size;
    if (!stops(st->watch->by) || !size) return SN_OK;
    if (st->cu) return sn_cuda_fill(st->cu, st->workspace, 0, size, st->stream);
    memset(st->workspace, 0, size);
    return SN_OK;
}

/* ---- a call ---- */

static bool looks(const sn_watcher *by) { return by->watch || stops(by); }

static sn_status look_before(sn_prog_state *st, const sn_rt_step *s, sn_arena *a) {
    sn_watch *watch = st->watch;
    const sn_rt_formal *formals = st->p->codes[s->kernel].formals;
    watch->before = SN_NEWN(a, sn_watched, s->n_args + 1);
    watch->had = SN_NEWN(a, bool, s->n_args + 1);
    watch->marked = SN_NEWN(a, bool, s->n_args + 1);
    for (uint32_t i = 0; i < s->n_args; i++) {
        const sn_rt_formal *f = &formals[i];
        const void *elements;
        bool keeps = is_written(f) && stops(watch->by);
        if (!keeps && !(is_read(f) && (watch->by->reads || stops(watch->by)))) continue;
        SN_TRY(fetch(&elements, st, i, f, stops(watch->by) && does_too(st, s, i, is_written), a));
        watch->before[i] = describe(st, s, i, elements, false);
        watch->had[i] = is_read(f) && any_bad(watch->by, &watch->before[i]);
        if (is_read(f) && watch->by->reads) SN_TRY(show(st, &watch->before[i]));
        if (keeps) SN_TRY(mark(st, s, i, &watch->before[i], a));
    }
    return SN_OK;
}

static sn_status look_behind(sn_prog_state *st, const sn_rt_step *s, sn_arena *a) {
    const sn_rt_formal *formals = st->p->codes[s->kernel].formals;
    for (uint32_t i = 0; i < s->n_args; i++) {
        const void *elements;
        int64_t made = -1;
        if (!is_written(&formals[i])) continue;
        SN_TRY(fetch(&elements, st, i, &formals[i], false, a));
        sn_watched w = describe(st, s, i, elements, true);
        if (stops(st->watch->by) && (w.nans || w.infinities)) {
            SN_TRY(settle(&made, &elements, st, i, &w, a));
            w = describe(st, s, i, elements, true);
        }
        SN_TRY(show(st, &w));
        if (made >= 0) return stop(st, s, i, &w, made, a);
    }
    return SN_OK;
}

sn_status sn_watch_call(sn_prog_state *st, int (*launch)(void *, uint32_t, void *const *), const sn_rt_step *s) {
    sn_arena arena;
    sn_status status = SN_OK;
    const sn_watcher *by = st->watch->by;
    bool wanted = by->kernels[s->kernel], announced = wanted && by->begin;
    sn_watched call = describe_call(st, s);
    sn_arena_init(&arena, st->env);
    if (wanted && looks(by)) status = look_before(st, s, &arena);
    if (announced) by->begin(by->user, &call);
    if (status == SN_OK) status = (sn_status)launch(st, s->kernel, st->params);
    if (status == SN_OK && wanted && by->waits && st->cu) status = sn_cuda_sync(st->cu, st->stream);
    if (announced) by->end(by->user);
    if (status == SN_OK && wanted && looks(by)) status = look_behind(st, s, &arena);
    sn_arena_free(&arena);
    st->watch->calls++;
    return status;
}
