/* rt.c: the public loader of libsinter-rt (include/sinter/rt.h): images from files or memory, ports by name, runs in states.
 *
 * A thin layer on runtime/image.h and runtime.h, with what libsinter has in frontend/context: the guard that out-of-memory
 * jumps to, and errors with texts. Knows no graph and no tensor: addresses come from the caller.
 */
#include "include/sinter/rt.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/defaults.h"
#include "runtime/image.h"

enum { MAX_DEVICES = 16 };

struct sn_rt {
    sn_env env;
    sn_cuda *cuda[MAX_DEVICES]; /* opened on first use */
};

struct sn_rt_program {
    sn_rt *rt;
    sn_arena arena;
    sn_image_bytes file; /* mapped; empty: the caller's memory */
    sn_image *image;
    const sn_image_part *part;
    sn_cuda *cu; /* NULL: CPU */
    int device;
    unsigned threads;
    sn_graphs_mode graphs;
    sn_loaded loaded, next; /* next: while a constant is replaced */
    sn_rt_times times;
    SN_VEC(sn_image_given) given;
    sn_defaults defaults;
    sn_debug_options debug;
    atomic_uint n_states;
};

struct sn_rt_state {
    sn_env env;
    sn_rt_program *p;
    sn_cuda *cu;
    sn_prog_state *runs; /* NULL: the first run makes it */
    void *own;           /* outputs that are copied back to an input */
    void **inputs, **outputs;
    sn_arena arena;
};

/* ---- the guard: what frontend/context/guard.c does for contexts ---- */

static void enter(sn_env *env, jmp_buf *here, uint64_t *mark) {
    sn_env_clear(env);
    sn_locale_enter(env);
    env->guard = here;
    *mark = sn_env_mark(env);
}

static sn_status leave(sn_env *env, uint64_t mark, sn_status status) {
    env->guard = NULL;
    if (status != SN_OK) sn_env_release(env, mark);
    sn_locale_leave(env);
    return status;
}

#define GUARDED(env, call, clean)                                                \
    do {                                                                         \
        jmp_buf rt_here;                                                         \
        uint64_t rt_mark;                                                        \
        enter((env), &rt_here, &rt_mark);                                        \
        sn_status rt_status = setjmp(rt_here) ? (env)->status : (call);          \
        if (rt_status != SN_OK) clean;                                           \
        return leave((env), rt_mark, rt_status);                                 \
    } while (0)

/* ---- the runtime ---- */

sn_status sn_rt_create(sn_rt **out) {
    if (!out) return SN_ERROR_ARGUMENT;
    *out = NULL;
    sn_env env;
    sn_env_init(&env);
    sn_rt *rt = env.realloc_fn(env.realloc_user, NULL, sizeof *rt);
    if (!rt) return SN_ERROR_MEMORY;
    *rt = (sn_rt){.env = env};
    rt->env.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!rt->env.c_locale) return env.realloc_fn(env.realloc_user, rt, 0), SN_ERROR_MEMORY;
    *out = rt;
    return SN_OK;
}

void sn_rt_destroy(sn_rt *rt) {
    if (!rt) return;
    for (unsigned i = 0; i < MAX_DEVICES; i++)
        if (rt->cuda[i]) sn_cuda_close(rt->cuda[i]);
    freelocale(rt->env.c_locale);
    rt->env.realloc_fn(rt->env.realloc_user, rt, 0);
}

const char *sn_rt_error(const sn_rt *rt) { return rt ? rt->env.message : ""; }

/* ---- programs ---- */

static void free_program(sn_rt_program *p) {
    sn_loaded_free(&p->next);
    sn_loaded_free(&p->loaded);
    sn_defaults_free(&p->defaults, &p->rt->env, p->cu);
    sn_image_close_files(p->image);
    sn_image_unmap(&p->file);
    sn_arena_free(&p->arena);
    sn_heap_free(&p->rt->env, p, sizeof *p);
}

static sn_status choose_device(sn_rt_program *p, const sn_rt_options *o) {
    sn_env *env = &p->rt->env;
    char why[256] = "no such device";
    bool cpu = o->device && !strcmp(o->device, "cpu"), must = o->device && !strcmp(o->device, "cuda"), any = false;
    if (o->device && !cpu && !must && strcmp(o->device, "auto") != 0)
        return sn_fail(env, SN_ERROR_ARGUMENT, "device: '%s' is none of auto, cpu, cuda", o->device);
    for (uint32_t i = 0; i < p->image->n_parts; i++) any |= p->image->parts[i].sm != 0;
    if (!cpu && (any || must) && o->ordinal < MAX_DEVICES && o->ordinal < sn_cuda_count(why, sizeof why)) {
        sn_cuda **cu = &p->rt->cuda[o->ordinal];
        if (!*cu) SN_TRY(sn_cuda_open(cu, env, o->ordinal));
        sn_status status = sn_image_choose(&p->part, env, p->image, *cu);
        p->cu = *cu;
        p->device = (int)o->ordinal;
        if (status == SN_OK || must) return status;
        sn_env_clear(env);
    } else if (must) {
        return sn_fail(env, SN_ERROR_DEVICE, "no CUDA device %u: %s", o->ordinal, why);
    }
    p->cu = NULL;
    p->device = -1;
    return sn_image_choose(&p->part, env, p->image, NULL);
}

static sn_status find_constant(const sn_rt_program *p, const char *name) {
    for (uint32_t k = 0; k < p->image->n_consts; k++)
        if (!strcmp(p->image->consts[k].name, name)) return SN_OK;
    return sn_fail(&p->rt->env, SN_ERROR_ARGUMENT, "constant %s: the image has none of that name", name);
}

static sn_status give(sn_rt_program *p, const sn_rt_options *o) {
    if (o->n_constants && !o->constants)
        return sn_fail(&p->rt->env, SN_ERROR_ARGUMENT, "constants: NULL for %u", o->n_constants);
    for (unsigned i = 0; i < o->n_constants; i++) {
        const sn_rt_constant *c = &o->constants[i];
        if (!c->name || (!c->data && c->size))
            return sn_fail(&p->rt->env, SN_ERROR_ARGUMENT, "constant %u: it has no name or no elements", i);
        SN_TRY(find_constant(p, c->name));
        SN_PUSH(&p->arena, &p->given, ((sn_image_given){sn_strdup(&p->arena, c->name), c->data, c->size}));
    }
    return SN_OK;
}

static sn_status load_defaults(sn_rt_program *p) {
    uint32_t n = p->part->n_inputs;
    const void **data = SN_NEWN(&p->arena, const void *, n + 1);
    size_t *bytes = SN_NEWN(&p->arena, size_t, n + 1);
    for (uint32_t k = 0; k < n; k++) {
        data[k] = p->part->inputs[k].otherwise.at;
        bytes[k] = (size_t)p->part->inputs[k].otherwise.size;
    }
    return sn_defaults_load(&p->defaults, &p->rt->env, &p->arena, p->cu, data, bytes, n);
}

static sn_status read_graphs(sn_graphs_mode *out, sn_env *env, const char *word) {
    static const char *const words[] = {"off", "auto", "on"};
    *out = SN_GRAPHS_AUTO;
    if (!word) return SN_OK;
    for (unsigned k = 0; k < SN_COUNT(words); k++) {
        if (strcmp(word, words[k]) != 0) continue;
        *out = (sn_graphs_mode)k;
        return SN_OK;
    }
    return sn_fail(env, SN_ERROR_ARGUMENT, "graphs: '%s' is none of off, auto, on", word);
}

typedef struct request {
    sn_rt *rt;
    const char *path; /* NULL: from memory */
    sn_image_bytes memory;
    const sn_rt_options *options;
    sn_rt_program *p;
} request;

/* The time since `before`, and now. */
static double took(double *out, double before) {
    double now = sn_now_us();
    *out = now - before;
    return now;
}

static sn_status load(request *r) {
    sn_env *env = &r->rt->env;
    sn_rt_options o = {0};
    if (r->options && r->options->struct_size != sizeof o)
        return sn_fail(env, SN_ERROR_ARGUMENT, "sn_rt_options: struct_size is %zu; set it to sizeof (%zu)",
                       r->options->struct_size, sizeof o);
    if (r->options) o = *r->options;
    sn_rt_program *p = r->p = sn_heap_alloc(env, sizeof *p);
    *p = (sn_rt_program){.rt = r->rt, .threads = o.threads};
    sn_arena_init(&p->arena, env);
    double at = sn_now_us();
    if (r->path) SN_TRY(sn_image_map(&p->file, env, r->path));
    SN_TRY(sn_image_read(&p->image, env, &p->arena, r->path ? r->path : "image", r->path ? p->file : r->memory));
    at = took(&p->times.read_us, at);
    SN_TRY(choose_device(p, &o));
    at = took(&p->times.device_us, at);
    SN_TRY(give(p, &o));
    SN_TRY(sn_image_open_files(p->image, env, &p->arena, r->path, o.weights, p->given.at, p->given.n));
    SN_TRY(load_defaults(p));
    SN_TRY(read_graphs(&p->graphs, env, o.graphs));
    SN_TRY(sn_image_verify(env, p->image, p->part, o.threads));
    at = took(&p->times.verify_us, at);
    SN_TRY(sn_image_load(&p->loaded, env, p->image, p->part, p->given.at, p->given.n, p->cu, p->threads, NULL));
    took(&p->times.load_us, at);
    sn_prog_times parts = sn_prog_load_times(p->loaded.prog);
    p->times.upload_us = parts.upload_us;
    p->times.modules_us = parts.assemble_us + parts.load_us;
    p->times.prepare_us = parts.prepare_us;
    p->debug = (sn_debug_options){o.debug, o.debug_kernels, o.debug_dir, o.log, o.log_user};
    sn_debug_keep(&p->debug, &p->arena);
    return sn_prog_debug(p->loaded.prog, &p->debug);
}

static void drop(request *r) {
    if (r->p) free_program(r->p);
}

static sn_status load_guarded(request *r) { GUARDED(&r->rt->env, load(r), drop(r)); }

static sn_status load_into(sn_rt_program **out, request r) {
    sn_status status = load_guarded(&r);
    if (status == SN_OK) *out = r.p;
    return status;
}

sn_status sn_rt_load(sn_rt_program **out, sn_rt *rt, const char *path, const sn_rt_options *options) {
    if (out) *out = NULL;
    if (!out || !rt || !path) return SN_ERROR_ARGUMENT;
    return load_into(out, (request){.rt = rt, .path = path, .options = options});
}

sn_status sn_rt_load_memory(sn_rt_program **out, sn_rt *rt, const void *image, size_t size,
                            const sn_rt_options *options) {
    if (out) *out = NULL;
    if (!out || !rt || !image) return SN_ERROR_ARGUMENT;
    return load_into(out, (request){.rt = rt, .memory = {image, size}, .options = options});
}

static sn_status refuse_states(sn_rt_program *p) {
    unsigned n = atomic_load(&p->n_states);
    if (!n) return SN_OK;
    sn_env_clear(&p->rt->env);
    return sn_fail(&p->rt->env, SN_ERROR_ARGUMENT, "the program has %u run state%s; destroy %s first", n,
                   n > 1 ? "s" : "", n > 1 ? "them" : "it");
}

void sn_rt_program_destroy(sn_rt_program *p) {
    if (p && refuse_states(p) == SN_OK) free_program(p);
}

static sn_status replace(sn_rt_program *p, const char *name, const void *data, size_t size) {
    SN_TRY(find_constant(p, name));
    sn_image_given *list = SN_NEWN(&p->arena, sn_image_given, p->given.n + 1);
    uint32_t n = p->given.n, k = 0;
    if (n) memcpy(list, p->given.at, n * sizeof *list);
    while (k < n && strcmp(list[k].name, name) != 0) k++;
    if (k == n) list[n++].name = sn_strdup(&p->arena, name);
    list[k].data = data;
    list[k].size = size;
    SN_TRY(sn_image_load(&p->next, &p->rt->env, p->image, p->part, list, n, p->cu, p->threads, NULL));
    SN_TRY(sn_prog_debug(p->next.prog, &p->debug));
    sn_loaded_free(&p->loaded);
    p->loaded = p->next;
    p->next = (sn_loaded){0};
    p->given.at = list;
    p->given.n = p->given.cap = n;
    return SN_OK;
}

static sn_status replace_guarded(sn_rt_program *p, const char *name, const void *data, size_t size) {
    GUARDED(&p->rt->env, replace(p, name, data, size), sn_loaded_free(&p->next));
}

sn_status sn_rt_set_constant(sn_rt_program *p, const char *name, const void *data, size_t size) {
    if (!p || !name || !data) return SN_ERROR_ARGUMENT;
    SN_TRY(refuse_states(p));
    return replace_guarded(p, name, data, size);
}

/* ---- ports ---- */

int sn_rt_device(const sn_rt_program *p) { return p ? p->device : -1; }

void sn_rt_load_times(sn_rt_times *out, const sn_rt_program *p) {
    if (out) *out = p ? p->times : (sn_rt_times){0};
}

const char *sn_rt_target(const sn_rt_program *p) { return p ? p->part->target : ""; }
unsigned sn_rt_input_count(const sn_rt_program *p) { return p ? p->part->n_inputs : 0; }
unsigned sn_rt_output_count(const sn_rt_program *p) { return p ? p->part->n_outputs : 0; }

/* From the start of the storage to behind the last element. */
static size_t storage_bytes(const sn_image_port *p) {
    int64_t last = p->offset;
    for (uint32_t k = 0; k < p->rank; k++) {
        if (!p->shape[k]) return 0;
        if (p->strides[k] > 0) last += (p->shape[k] - 1) * p->strides[k];
    }
    return (size_t)(last + 1) * sn_dtype_bytes(p->dtype);
}

static sn_status port(sn_rt_port *out, const sn_rt_program *p, const sn_image_port *ports, uint32_t n, unsigned k) {
    if (k >= n) {
        sn_env_clear(&p->rt->env);
        return sn_fail(&p->rt->env, SN_ERROR_ARGUMENT, "port %u: the program has %u", k, n);
    }
    const sn_image_port *from = &ports[k];
    *out = (sn_rt_port){.name = from->name,
                        .dtype = from->dtype,
                        .rank = from->rank,
                        .offset = from->offset,
                        .align = from->align,
                        .bytes = storage_bytes(from),
                        .writes = from->writes,
                        .optional = from->otherwise.size != 0};
    memcpy(out->shape, from->shape, sizeof out->shape);
    memcpy(out->strides, from->strides, sizeof out->strides);
    return SN_OK;
}

sn_status sn_rt_input(sn_rt_port *out, const sn_rt_program *p, unsigned input) {
    return out && p ? port(out, p, p->part->inputs, p->part->n_inputs, input) : SN_ERROR_ARGUMENT;
}

sn_status sn_rt_output(sn_rt_port *out, const sn_rt_program *p, unsigned output) {
    return out && p ? port(out, p, p->part->outputs, p->part->n_outputs, output) : SN_ERROR_ARGUMENT;
}

static sn_status find_port(unsigned *out, const sn_rt_program *p, const sn_image_port *ports, uint32_t n,
                           const char *what, const char *name) {
    for (*out = 0; *out < n; (*out)++)
        if (!strcmp(ports[*out].name, name)) return SN_OK;
    *out = UINT_MAX;
    sn_env_clear(&p->rt->env);
    return sn_fail(&p->rt->env, SN_ERROR_ARGUMENT, "the program has no %s %s", what, name);
}

sn_status sn_rt_find_input(unsigned *out, const sn_rt_program *p, const char *name) {
    if (!out || !p || !name) return SN_ERROR_ARGUMENT;
    return find_port(out, p, p->part->inputs, p->part->n_inputs, "input", name);
}

sn_status sn_rt_find_output(unsigned *out, const sn_rt_program *p, const char *name) {
    if (!out || !p || !name) return SN_ERROR_ARGUMENT;
    return find_port(out, p, p->part->outputs, p->part->n_outputs, "output", name);
}

/* ---- runs ---- */

sn_status sn_rt_state_create(sn_rt_state **out, sn_rt_program *p) {
    if (out) *out = NULL;
    if (!out || !p) return SN_ERROR_ARGUMENT;
    const sn_env *of = &p->rt->env;
    sn_rt_state *st = of->realloc_fn(of->realloc_user, NULL, sizeof *st);
    if (!st) return SN_ERROR_MEMORY;
    *st = (sn_rt_state){.p = p};
    sn_env_init(&st->env);
    st->env.c_locale = of->c_locale;
    sn_arena_init(&st->arena, &st->env);
    atomic_fetch_add(&p->n_states, 1);
    *out = st;
    return SN_OK;
}

static void free_runs(sn_rt_state *st) {
    sn_prog_state_free(st->runs);
    sn_storage_free(&st->env, st->cu, st->own, (size_t)st->p->part->own_size);
    sn_arena_free(&st->arena);
    st->runs = NULL;
    st->own = NULL;
}

void sn_rt_state_destroy(sn_rt_state *st) {
    if (!st) return;
    free_runs(st);
    sn_cuda_close(st->cu);
    atomic_fetch_sub(&st->p->n_states, 1);
    st->env.realloc_fn(st->env.realloc_user, st, 0);
}

const char *sn_rt_state_error(const sn_rt_state *st) { return st ? st->env.message : ""; }

static sn_status prepare(sn_rt_state *st) {
    const sn_rt_program *p = st->p;
    if (p->cu && !st->cu) SN_TRY(sn_cuda_share(&st->cu, &st->env, p->cu));
    st->inputs = SN_NEWN(&st->arena, void *, p->part->n_inputs + 1);
    st->outputs = SN_NEWN(&st->arena, void *, p->part->n_outputs + 1);
    SN_TRY(sn_storage_alloc(&st->own, &st->env, st->cu, (size_t)p->part->own_size));
    SN_TRY(sn_prog_state_new(&st->runs, p->loaded.prog, &st->env, st->cu));
    sn_prog_state_graphs(st->runs, p->graphs);
    return SN_OK;
}

/* An output that writes an input: storage of ours, which a step copies there, or the input's. */
static void *output_address(const sn_rt_state *st, uint32_t k, void *given) {
    const sn_image_port *o = &st->p->part->outputs[k];
    if (o->writes < 0) return given;
    return o->own_offset < 0 ? st->inputs[o->writes] : (char *)st->own + o->own_offset;
}

static sn_status check_address(sn_rt_state *st, const sn_image_port *p, const char *what, const void *address) {
    size_t bytes = storage_bytes(p);
    if (!bytes) return SN_OK;
    if (!address) return sn_fail(&st->env, SN_ERROR_ARGUMENT, "%s %s: no storage was given", what, p->name);
    if ((uintptr_t)address % (p->align ? p->align : 1) == 0) return SN_OK;
    return sn_fail(&st->env, SN_ERROR_ARGUMENT, "%s %s: its storage at %p does not start at a multiple of %u bytes",
                   what, p->name, address, p->align);
}

static sn_status run(sn_rt_state *st, const void *const *inputs, void *const *outputs, void *stream) {
    const sn_image_part *part = st->p->part;
    for (uint32_t k = 0; k < part->n_inputs; k++) {
        st->inputs[k] = (void *)(uintptr_t)inputs[k];
        if (!inputs[k] && part->inputs[k].otherwise.size) {
            st->inputs[k] = st->p->defaults.at[k];
            continue;
        }
        SN_TRY(check_address(st, &part->inputs[k], "input", inputs[k]));
    }
    for (uint32_t k = 0; k < part->n_outputs; k++) {
        st->outputs[k] = output_address(st, k, outputs[k]);
        if (part->outputs[k].writes < 0) SN_TRY(check_address(st, &part->outputs[k], "output", outputs[k]));
    }
    return sn_prog_run(st->runs, st->inputs, st->outputs, stream, true);
}

static sn_status prepare_guarded(sn_rt_state *st) { GUARDED(&st->env, prepare(st), free_runs(st)); }

static sn_status run_guarded(sn_rt_state *st, const void *const *inputs, void *const *outputs, void *stream) {
    GUARDED(&st->env, run(st, inputs, outputs, stream), (void)0);
}

sn_status sn_rt_run(sn_rt_state *st, const void *const *inputs, void *const *outputs, void *stream) {
    if (!st) return SN_ERROR_ARGUMENT;
    if ((!inputs && st->p->part->n_inputs) || (!outputs && st->p->part->n_outputs)) return SN_ERROR_ARGUMENT;
    if (!st->runs) SN_TRY(prepare_guarded(st));
    return run_guarded(st, inputs, outputs, stream);
}
