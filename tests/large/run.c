/* run.c: one case: the graph is compiled, its inputs are made, it runs, and every element of its outputs is checked.
 *
 * Large tensors are made and checked on the device a stretch at a time, by graphs of 2^26 elements that know the
 * stretch's position from an input: nothing in them depends on how large the tensor is, so that a fault of large sizes
 * in the graph under test is not in what checks it. Their word is sampled on the host: the ends, both sides of each
 * multiple of 2^31 bytes, and places in between. Small tensors, and the last elements of large ones, are the host's.
 *
 * What else would go unseen: outputs begin as nan or -77, so that an element that nobody writes is wrong; memory around
 * every tensor, and inputs that are not written, must be as they were.
 */
#include "tests/large/case.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STRETCH = 1 << 26,
    STRETCH_STEP = 256, /* stretches begin at multiples: whole counters of random numbers, aligned addresses */
    HOST_MOST = 1 << 16,
    FENCE = 1 << 16, /* bytes before and behind a tensor */
    SAMPLE = 32,
    PORTS = 16,
    TEXT = 1 << 15,
};
static const unsigned char fence_byte = 0xA5;

/* Memory of one input or output. */
typedef struct place {
    sn_port port;
    sn_tensor *memory, *tensor;
    char *data; /* storage, behind the fence */
    int64_t numel;
    size_t bytes;
    int formula;      /* of the elements of the storage, before the run and, unless it is written, afterwards */
    int after;        /* the same when the run writes it, else -1 */
    const char *name; /* of what is written */
} place;

typedef struct run {
    const run_options *options;
    const large_case *c;
    sheet sheet;
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    sn_program_info info;
    place in[PORTS], out[PORTS];
    outcome outcome;
    char text[512];
} run;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- outcomes: the first one that is not PASSED stays ---- */

__attribute__((format(printf, 3, 4))) static bool ends(run *r, outcome o, const char *format, ...) {
    if (r->outcome != PASSED) return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->text, sizeof r->text, format, arguments);
    va_end(arguments);
    r->outcome = o;
    return false;
}

/* Did the call go well? Memory that is not there is no fault. */
static bool went(run *r, sn_status status, const char *what) {
    if (status == SN_OK) return true;
    bool memory = status == SN_ERROR_MEMORY || status == SN_ERROR_DEVICE_MEMORY;
    outcome o = memory ? SKIPPED : status == SN_ERROR_DEVICE ? LOST : FAILED;
    return ends(r, o, "%s: %s", what, sn_error(r->ctx));
}

/* ---- compiling ---- */

static bool compile(sn_program **out, run *r, sn_graph *g) {
    sn_compile_options options = {
        .struct_size = sizeof options, .device = r->options->device, .cpu_schedule = r->options->cpu_schedule};
    return went(r, sn_compile(out, g, &options), "compile");
}

static bool compile_case(run *r) {
    char *text = malloc(TEXT);
    bool ok = text && sheet_sizes(&r->sheet, r->c->sizes, r->options->scale) &&
              sheet_formulas(&r->sheet, r->c->formulas) && sheet_expand(&r->sheet, text, TEXT, r->c->graph);
    if (!ok) ends(r, FAILED, "cases.def: %s", r->sheet.error);
    else ok = went(r, sn_graph_from_text(&r->g, r->ctx, r->c->name, text, strlen(text)), "graph");
    free(text);
    if (!ok || !compile(&r->p, r, r->g)) return false;
    sn_program_get_info(&r->info, r->p);
    if (r->info.n_inputs > PORTS || r->info.n_outputs > PORTS) return ends(r, FAILED, "too many inputs or outputs");
    return true;
}

/* ---- memory ---- */

static bool describe(run *r, place *at) {
    const sn_port *port = &at->port;
    at->name = port->name;
    at->after = -1;
    at->formula = sheet_find(&r->sheet, port->name);
    if (at->formula < 0) return ends(r, FAILED, "cases.def: no formula for %s", port->name);
    if (!element_is_float(port->dtype) && r->sheet.terms[at->formula].is_float)
        return ends(r, FAILED, "cases.def: %s is not a float, its formula is", port->name);
    at->numel = port->offset + 1;
    for (unsigned k = 0; k < port->rank; k++) {
        if (!port->shape[k]) return ends(r, FAILED, "cases.def: %s is empty", port->name);
        at->numel += (port->shape[k] - 1) * port->strides[k];
    }
    at->bytes = (size_t)at->numel * sn_dtype_size(port->dtype);
    return true;
}

static bool describe_all(run *r) {
    double wanted = (double)r->info.workspace;
    for (unsigned k = 0; k < r->info.n_inputs; k++) {
        sn_program_input(&r->in[k].port, r->p, k);
        if (!describe(r, &r->in[k])) return false;
        wanted += (double)r->in[k].bytes;
    }
    for (unsigned k = 0; k < r->info.n_outputs; k++) {
        sn_program_output(&r->out[k].port, r->p, k);
        int writes = r->out[k].port.writes;
        if (writes >= 0) {
            place *in = &r->in[writes];
            in->name = r->out[k].port.name;
            in->after = sheet_find(&r->sheet, in->name);
            if (in->after < 0) return ends(r, FAILED, "cases.def: no formula for %s", in->name);
            wanted += (double)in->bytes;
        } else if (!describe(r, &r->out[k])) return false;
        wanted += (double)r->out[k].bytes;
    }
    if (r->options->memory > 0 && wanted > r->options->memory)
        return ends(r, SKIPPED, "wants %.0f bytes, %.0f may be used", wanted, r->options->memory);
    return true;
}

/* Bytes to or from the device at any address. */
static bool copy(run *r, void *device, void *host, size_t bytes, bool to_device) {
    sn_tensor *t;
    if (!went(r, sn_tensor_wrap(&t, r->ctx, r->info.device, device, SN_U8, SN_LIST((int64_t)bytes), NULL, 0), "wrap"))
        return false;
    sn_status status = to_device ? sn_tensor_write(t, host, bytes) : sn_tensor_read(host, t, bytes);
    sn_tensor_destroy(t);
    return went(r, status, to_device ? "write" : "read");
}

static bool fences(run *r, place *at, bool write) {
    static unsigned char fence[FENCE];
    char *sides[2] = {at->data - FENCE, at->data + at->bytes};
    for (int k = 0; k < 2; k++) {
        memset(fence, fence_byte, FENCE);
        if (!copy(r, sides[k], fence, FENCE, write)) return false;
        for (int i = 0; i < FENCE; i++)
            if (fence[i] != fence_byte)
                return ends(r, FAILED, "%s: something wrote %s its memory", at->name, k ? "behind" : "before");
    }
    return true;
}

static bool allocate(run *r, place *at) {
    int64_t bytes = (int64_t)at->bytes + 2 * FENCE;
    sn_tensor_info info;
    if (!went(r, sn_tensor_create(&at->memory, r->ctx, r->info.device, SN_U8, SN_LIST(bytes)), at->name)) return false;
    sn_tensor_get_info(&info, at->memory);
    at->data = (char *)info.data + FENCE;
    const sn_port *port = &at->port;
    return went(r,
                sn_tensor_wrap(&at->tensor, r->ctx, r->info.device, at->data, port->dtype, port->rank, port->shape,
                               port->strides, port->offset),
                at->name) &&
           fences(r, at, true);
}

/* ---- elements, a stretch at a time ---- */

/* What is wrong about an output, in sum. */
typedef struct finding {
    int64_t wrong, first;
} finding;

/* A graph of stretches, compiled, and its tensors but for the stretch. */
typedef struct stretches {
    sn_graph *g;
    sn_program *p;
    sn_tensor *at, *counts[2];
    int64_t n;
    bool checks;
} stretches;

static double relative_tolerance(const run *r, sn_dtype dtype) { return r->c->tolerance * element_unit(dtype); }

static double absolute_tolerance(const run *r, sn_dtype dtype) { return r->c->tolerance * element_least(dtype); }

static bool is_near(const run *r, sn_dtype dtype, number got, number want) {
    if (!element_is_float(dtype)) return got.i == want.i;
    if (!r->c->tolerance) return got.f == want.f;
    return fabs(got.f - want.f) <= relative_tolerance(r, dtype) * fabs(want.f) + absolute_tolerance(r, dtype);
}

/* The same as a node: bool, of the elements that are wrong. */
static sn_node is_wrong(run *r, sn_graph *g, sn_dtype dtype, sn_node got, sn_node want, bool want_is_float) {
    sn_dtype wide = element_is_float(dtype) ? SN_F64 : SN_I64;
    got = sn_cast(g, got, wide);
    if (element_is_float(dtype) && !want_is_float) want = sn_cast(g, want, SN_F64);
    if (!element_is_float(dtype) || !r->c->tolerance) return sn_ne(g, got, want);
    sn_node far = sn_add(g, sn_mul(g, sn_abs(g, want), sn_number(g, SN_F64, relative_tolerance(r, dtype))),
                         sn_number(g, SN_F64, absolute_tolerance(r, dtype)));
    return sn_not(g, sn_le(g, sn_abs(g, sn_sub(g, got, want)), far));
}

static void close_stretches(stretches *st) {
    sn_tensor_destroy(st->at);
    for (int k = 0; k < 2; k++) sn_tensor_destroy(st->counts[k]);
    sn_program_destroy(st->p);
    sn_graph_destroy(st->g);
}

/* formula < 0: one number for all elements. */
static bool open_stretches(stretches *st, run *r, const place *at, int formula, number all, bool checks) {
    sn_dtype dtype = at->port.dtype;
    *st = (stretches){.checks = checks, .n = at->numel < STRETCH ? at->numel : STRETCH};
    st->n -= st->n % STRETCH_STEP;
    if (!went(r, sn_graph_create(&st->g, r->ctx, checks ? "check" : "make"), "graph")) return false;
    sn_graph *g = st->g;
    stretch on = {g, sn_input(g, "at", SN_I64, 0, NULL), st->n};
    sn_node want = formula < 0 ? sn_number(g, element_is_float(dtype) ? SN_F64 : SN_I64, all.f)
                               : sheet_node(&r->sheet, formula, &on);
    if (checks) {
        sn_node got = sn_input(g, "got", dtype, SN_LIST(st->n));
        sn_node wrong = is_wrong(r, g, dtype, got, want, r->sheet.terms[formula].is_float);
        sn_node position = sn_iota(g, SN_I64, 0, SN_LIST(st->n));
        sn_node none = sn_number(g, SN_I64, (double)st->n);
        sn_output(g, "wrong", sn_sum(g, sn_cast(g, wrong, SN_I64), 0, NULL, false));
        sn_output(g, "first", sn_amin(g, sn_where(g, wrong, position, none), 0, NULL, false));
    } else sn_output(g, "made", sn_expand(g, sn_cast(g, want, dtype), SN_LIST(st->n)));
    if (!compile(&st->p, r, g)) return false;
    bool ok = went(r, sn_tensor_create(&st->at, r->ctx, r->info.device, SN_I64, 0, NULL), "at");
    for (int k = 0; k < 2 && ok && checks; k++)
        ok = went(r, sn_tensor_create(&st->counts[k], r->ctx, r->info.device, SN_I64, 0, NULL), "counts");
    return ok;
}

static bool run_stretch(stretches *st, run *r, const place *at, int64_t from, finding *found) {
    sn_tensor *t;
    char *data = at->data + (size_t)from * sn_dtype_size(at->port.dtype);
    if (!went(r, sn_tensor_wrap(&t, r->ctx, r->info.device, data, at->port.dtype, SN_LIST(st->n), NULL, 0), "wrap"))
        return false;
    sn_tensor *inputs[2] = {st->at, t};
    bool ok = went(r, sn_tensor_write(st->at, &from, sizeof from), "write") &&
              went(r, sn_run(st->p, inputs, st->checks ? st->counts : &t, NULL), st->checks ? "check" : "make");
    int64_t counts[2] = {0, 0};
    for (int k = 0; k < 2 && ok && st->checks; k++)
        ok = went(r, sn_tensor_read(&counts[k], st->counts[k], sizeof counts[k]), at->name);
    if (ok && counts[0]) {
        if (!found->wrong || from + counts[1] < found->first) found->first = from + counts[1];
        found->wrong += counts[0];
    }
    sn_tensor_destroy(t);
    return ok;
}

/* The elements from .. from + n - 1 by the host. */
static bool by_host(run *r, const place *at, int formula, number all, bool checks, int64_t from, int64_t n,
                    finding *found) {
    sn_dtype dtype = at->port.dtype;
    size_t size = sn_dtype_size(dtype), bytes = (size_t)n * size;
    char *buffer = n > 0 ? malloc(bytes) : NULL;
    if (n <= 0) return true;
    if (!buffer) return ends(r, SKIPPED, "no memory");
    bool ok = !checks || copy(r, at->data + (size_t)from * size, buffer, bytes, false);
    for (int64_t k = 0; ok && k < n; k++) {
        char *element = buffer + (size_t)k * size;
        number want = formula < 0 ? all : sheet_value(&r->sheet, formula, from + k);
        if (!checks) element_put(element, dtype, want);
        else if (!is_near(r, dtype, element_get(dtype, element), want)) {
            if (!found->wrong || from + k < found->first) found->first = from + k;
            found->wrong++;
        }
    }
    if (!checks) ok = copy(r, at->data + (size_t)from * size, buffer, bytes, true);
    free(buffer);
    return ok;
}

/* All elements: made when `found` is NULL, else checked. */
static bool each_element(run *r, const place *at, int formula, number all, finding *found) {
    bool checks = found != NULL, ok = true;
    int64_t done = 0;
    if (at->numel >= STRETCH_STEP && (at->numel > HOST_MOST || r->options->by_device)) {
        stretches st;
        ok = open_stretches(&st, r, at, formula, all, checks);
        int64_t last = (at->numel - st.n) / STRETCH_STEP * STRETCH_STEP;
        /* The last stretch may begin inside of the one before. */
        for (int64_t from = 0; ok && done < last + st.n; from = done < last ? done : last) {
            ok = run_stretch(&st, r, at, from, found);
            done = from + st.n;
        }
        close_stretches(&st);
    }
    return ok && by_host(r, at, formula, all, checks, done, at->numel - done, found);
}

/* ---- samples ---- */

static bool sample(run *r, const place *at, int formula, int64_t middle, finding *found) {
    int64_t from = middle - SAMPLE / 2, last = at->numel - SAMPLE;
    from = from > last ? last : from;
    from = from < 0 ? 0 : from;
    int64_t n = at->numel - from < SAMPLE ? at->numel - from : SAMPLE;
    return by_host(r, at, formula, (number){0}, true, from, n, found);
}

static bool samples(run *r, const place *at, int formula, finding *found) {
    enum { RANDOM_PLACES = 16 };
    int64_t step = (INT64_C(1) << 31) / (int64_t)sn_dtype_size(at->port.dtype), place = 1;
    for (int64_t at_byte = 0; at_byte < at->numel; at_byte += step)
        if (!sample(r, at, formula, at_byte, found)) return false;
    for (int k = 0; k < RANDOM_PLACES; k++) {
        place = place * 48271 % 2147483647;
        if (!sample(r, at, formula, (int64_t)((double)place / 2147483647 * (double)at->numel), found)) return false;
    }
    return sample(r, at, formula, at->numel, found);
}

/* ---- the run ---- */

static bool say_wrong(run *r, const place *at, int formula, finding found, const char *when) {
    char element[8];
    size_t size = sn_dtype_size(at->port.dtype);
    if (!copy(r, at->data + (size_t)found.first * size, element, size, false)) return false;
    number got = element_get(at->port.dtype, element), want = sheet_value(&r->sheet, formula, found.first);
    return ends(r, FAILED, "%s%s: %lld of %lld elements are wrong, the first at %lld: %.9g, wanted %.9g", at->name,
                when, (long long)found.wrong, (long long)at->numel, (long long)found.first, got.f, want.f);
}

/* Some element, so that elements that nobody looks at would be found out too. */
static bool spoil(run *r, const place *at) {
    size_t size = sn_dtype_size(at->port.dtype);
    int64_t which = at->numel * 5 / 7;
    char element[8];
    for (size_t k = 0; k < sizeof element; k++) element[k] = 0x55;
    return copy(r, at->data + (size_t)which * size, element, size, true);
}

static bool check_place(run *r, place *at, int formula, const char *when) {
    finding device = {0}, host = {0};
    if (r->options->spoil && !when[0] && !spoil(r, at)) return false;
    if (!fences(r, at, false) || !each_element(r, at, formula, (number){0}, &device)) return false;
    if (device.wrong) return say_wrong(r, at, formula, device, when);
    if (!samples(r, at, formula, &host)) return false;
    if (host.wrong) return say_wrong(r, at, formula, host, when[0] ? when : " (the graph that checks saw nothing)");
    return true;
}

static bool make(run *r, place *at) { return allocate(r, at) && each_element(r, at, at->formula, (number){0}, NULL); }

static bool poison(run *r, place *at) {
    number marker =
        element_is_float(at->port.dtype) ? (number){.is_float = true, .f = NAN} : (number){.i = -77, .f = -77};
    if (at->port.dtype == SN_U8 || at->port.dtype == SN_U16) marker = (number){.i = 179, .f = 179};
    return allocate(r, at) && each_element(r, at, -1, marker, NULL);
}

static bool execute(run *r, double *took) {
    sn_tensor *inputs[PORTS], *outputs[PORTS];
    for (unsigned k = 0; k < r->info.n_inputs; k++) inputs[k] = r->in[k].tensor;
    for (unsigned k = 0; k < r->info.n_outputs; k++) outputs[k] = r->out[k].tensor;
    double start = seconds();
    if (!went(r, sn_device_sync(r->ctx, r->info.device, NULL), "before the run") ||
        !went(r, sn_run(r->p, inputs, outputs, NULL), "run") ||
        !went(r, sn_device_sync(r->ctx, r->info.device, NULL), "run"))
        return false;
    *took = seconds() - start;
    return true;
}

static bool run_case(run *r) {
    double took = 0, start = seconds();
    if (!compile_case(r) || !describe_all(r)) return false;
    double compiled = seconds() - start;
    for (unsigned k = 0; k < r->info.n_inputs; k++)
        if (!make(r, &r->in[k])) return false;
    for (unsigned k = 0; k < r->info.n_outputs; k++)
        if (r->out[k].port.writes < 0 && !poison(r, &r->out[k])) return false;
    if (!execute(r, &took)) return false;
    for (unsigned k = 0; k < r->info.n_outputs; k++)
        if (r->out[k].port.writes < 0 && !check_place(r, &r->out[k], r->out[k].formula, "")) return false;
    for (unsigned k = 0; k < r->info.n_inputs; k++) {
        place *in = &r->in[k];
        bool written = in->after >= 0;
        if (!check_place(r, in, written ? in->after : in->formula, written ? "" : " (an input, after the run)"))
            return false;
    }
    snprintf(r->text, sizeof r->text, "%u kernels, %.3g GB, compiled in %.2f s, ran %.3f s, %.2f s in all",
             r->info.n_kernels, ((double)r->info.moved + (double)r->info.workspace) * 1e-9, compiled, took,
             seconds() - start);
    return true;
}

outcome case_run(char *text, size_t size, sn_context *ctx, const large_case *c, const run_options *options) {
    run *r = calloc(1, sizeof *r);
    if (!r) return SKIPPED;
    r->ctx = ctx;
    r->options = options;
    r->c = c;
    if (!run_case(r) && r->outcome == PASSED) ends(r, FAILED, "stopped without a reason");
    for (int k = 0; k < PORTS; k++) {
        place *both[2] = {&r->in[k], &r->out[k]};
        for (int i = 0; i < 2; i++) {
            sn_tensor_destroy(both[i]->tensor);
            sn_tensor_destroy(both[i]->memory);
        }
    }
    sn_program_destroy(r->p);
    sn_graph_destroy(r->g);
    snprintf(text, size, "%s", r->text);
    outcome o = r->outcome;
    free(r);
    return o;
}
