/* replace.c: kernels of a program that somebody has edited: text of Loop IR (.sn, as `sinter explain --dump-dir` writes it) or PTX in
 * the place of what the compiler made, once it is seen that they compute the same.
 *
 *     replace_kernels "k0=k0.sn,k3=k3.ptx"
 *
 * A .sn kernel takes the place of the original behind the passes: it has the same parameters and promises no more of them,
 * is verified, gets tests before accesses that might leave a buffer (pass `guard`), and goes through the code generator like any other.
 * PTX takes the place of generated PTX and keeps the launch, the name and the parameters of the original. Both are held
 * against the original on random arguments, of both signs and then positive alone:
 *
 *     kernel    original              edited one
 *     small     evaluated             .sn: evaluated, with the checker of races and bounds; PTX: on the device
 *     large     on the device         on the device
 *
 * The first element that differs by more than its dtype allows, as a share of itself or of the largest one, refuses it. A large .sn
 * kernel is not checked for races. What cannot be run (a target to look at) has to be small, and PTX is refused there. Cost: of a small
 * one up to a minute; a large one compiles the graph once more, as it was.
 */
#include "frontend/replace.h"

#include "ir/loop/figures.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 2 };                 /* of arguments */
static const double SMALL = 2e8;     /* operations that are evaluated */
static const uint64_t SEED = 0x5eed; /* of arguments */

struct sn_replacement {
    const char *name, *path;
    uint32_t at; /* position in m->kernels */
    char *ptx;   /* NULL: it is text of Loop IR */
    size_t ptx_size;
    sn_module *was, *with; /* the original and the edited kernel (.sn), alone; with their calls gone */
    bool small, checked;
};

/* ---- what was asked for ---- */

static const char *kernel_name(const sn_program *p, uint32_t k) { return sn_kern_get(p->m, p->m->kernels.at[k])->name; }

static sn_status no_such_kernel(const sn_program *p, const char *name) {
    const char *names = "";
    for (uint32_t k = 0; k < p->m->kernels.n; k++)
        names = sn_strf(&p->ctx->scratch, "%s%s%s", names, k ? ", " : "", kernel_name(p, k));
    return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "replace_kernels: no kernel %s; there are: %s", name, names);
}

static sn_status find_kernel(sn_replacement *r, const sn_program *p) {
    const bool *sets = sn_kerns_of_sets(p->m, &p->ctx->scratch);
    for (r->at = 0; r->at < p->m->kernels.n; r->at++)
        if (!strcmp(kernel_name(p, r->at), r->name)) break;
    if (r->at == p->m->kernels.n) return no_such_kernel(p, r->name);
    if (sets && sets[p->m->kernels.at[r->at].i])
        return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT,
                       "replace_kernels: kernel %s has several schedules; compile with multi_kernel \"off\"", r->name);
    for (uint32_t k = 0; k < p->replaced.n; k++)
        if (p->replaced.at[k]->at == r->at)
            return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "replace_kernels: kernel %s stands there twice", r->name);
    return SN_OK;
}

/* "k0=FILE" of n characters. */
static sn_status read_item(sn_program *p, const char *item, size_t n) {
    const char *equals = memchr(item, '=', n);
    if (!equals || equals == item || equals == item + n - 1)
        return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "replace_kernels: '%.*s': KERNEL=FILE is wanted", (int)n, item);
    sn_replacement *r = SN_NEW(&p->arena, sn_replacement);
    r->name = sn_strf(&p->arena, "%.*s", (int)(equals - item), item);
    r->path = sn_strf(&p->arena, "%.*s", (int)(item + n - equals - 1), equals + 1);
    SN_TRY(find_kernel(r, p));
    SN_PUSH(&p->arena, &p->replaced, r);
    return SN_OK;
}

static bool is_ptx(const char *path) {
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".ptx");
}

/* ---- a kernel from text ---- */

static sn_status refuse(const sn_program *p, const sn_replacement *r, const char *why) {
    return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "replace_kernels: %s: %s", r->path, why);
}

static sn_status parse(sn_replacement *r, sn_program *p) {
    char *text;
    size_t size;
    sn_env *env = &p->ctx->env;
    SN_TRY(sn_file_read(&text, &size, env, &p->ctx->scratch, r->path));
    r->with = sn_module_new(env);
    SN_TRY(sn_module_parse(r->with, r->path, text, size));
    if (r->with->kernels.n != 1) return refuse(p, r, "one kernel is wanted, and nothing else");
    return sn_module_verify(r->with, r->path);
}

static const char *formal_text(const sn_module *m, sn_buf b, sn_arena *a) {
    const sn_buf_rec *r = sn_buf_get(m, b);
    int64_t n = 0;
    sn_ix_is_const(m, r->size, &n);
    return sn_strf(a, "%s %s of %lld elements%s%s, align %u", sn_dtypes[r->dtype].name, sn_role_names[r->role],
                   (long long)n, r->noalias ? ", noalias" : "", r->invariant ? ", invariant" : "", r->align);
}

/* What it may count on is what the original does. */
static bool same_formal(const sn_module *m, sn_buf original, const sn_module *n, sn_buf edited) {
    const sn_buf_rec *x = sn_buf_get(m, original), *y = sn_buf_get(n, edited);
    int64_t have, want;
    if (y->scope != SN_BUF_FORMAL || x->dtype != y->dtype || x->role != y->role) return false;
    if (!sn_ix_is_const(m, x->size, &have) || !sn_ix_is_const(n, y->size, &want) || have != want) return false;
    return x->noalias >= y->noalias && x->invariant >= y->invariant && x->align % y->align == 0;
}

static sn_status check_formals(const sn_program *p, const sn_replacement *r) {
    sn_arena *a = &p->ctx->scratch;
    const sn_kern_rec *x = sn_kern_get(p->m, p->m->kernels.at[r->at]);
    const sn_kern_rec *y = sn_kern_get(r->with, r->with->kernels.at[0]);
    if (x->params.n != y->params.n)
        return refuse(p, r, sn_strf(a, "it has %u parameters, kernel %s has %u", y->params.n, r->name, x->params.n));
    for (uint32_t i = 0; i < x->params.n; i++)
        if (!same_formal(p->m, x->params.at[i], r->with, y->params.at[i]))
            return refuse(p, r,
                          sn_strf(a, "parameter %u is %s; of kernel %s it is %s", i,
                                  formal_text(r->with, y->params.at[i], a), r->name,
                                  formal_text(p->m, x->params.at[i], a)));
    return SN_OK;
}

/* Nobody vouches for its accesses (as for kernels that come with a graph). */
static sn_status distrust(sn_replacement *r, const sn_program *p) {
    sn_pass_options o = {.pipeline = "guard", .verify = SN_VERIFY_ENDS};
    sn_kern_get(r->with, r->with->kernels.at[0])->sched.runs = false;
    return sn_passes_run(&r->with, &p->target, &o);
}

/* Into the program, by its text. */
static sn_status adopt(const sn_replacement *r, sn_program *p) {
    sn_text t;
    sn_lex lx;
    sn_kern_rec *edited = sn_kern_get(r->with, r->with->kernels.at[0]);
    sn_kern original = p->m->kernels.at[r->at];
    edited->name = sn_strf(&p->ctx->scratch, "%s_edited", r->name);
    while (sn_kern_named(p->m, edited->name).i) edited->name = sn_strf(&p->ctx->scratch, "%s_", edited->name);
    sn_text_init(&t, &p->ctx->env);
    sn_kern_print(&t, r->with, r->with->kernels.at[0]);
    sn_status status = sn_lex_init(&lx, &p->ctx->env, r->path, t.s, t.n);
    if (status == SN_OK) status = sn_kern_parse(p->m, &lx);
    if (status == SN_OK) sn_kern_take_place(p->m, original, p->m->kernels.at[p->m->kernels.n - 1]);
    sn_text_free(&t);
    return status;
}

/* ---- arguments ---- */

/* Of a kernel that is tried: for each parameter its elements before, and as two kernels leave them. */
typedef struct arguments {
    uint32_t n;
    sn_dtype *dtype;
    int64_t *numel;
    void **before, **original, **edited;
} arguments;

static size_t bytes_of(const arguments *x, uint32_t i) { return (size_t)x->numel[i] * sn_dtype_bytes(x->dtype[i]); }

static void describe(arguments *x, const sn_module *was, sn_arena *a) {
    const sn_buf_list *params = &sn_kern_get(was, was->kernels.at[0])->params;
    *x = (arguments){.n = params->n,
                     .dtype = SN_NEWN(a, sn_dtype, params->n + 1),
                     .numel = SN_NEWN(a, int64_t, params->n + 1),
                     .before = SN_NEWN(a, void *, params->n + 1),
                     .original = SN_NEWN(a, void *, params->n + 1),
                     .edited = SN_NEWN(a, void *, params->n + 1)};
    for (uint32_t i = 0; i < params->n; i++) {
        const sn_buf_rec *b = sn_buf_get(was, params->at[i]);
        x->dtype[i] = b->dtype;
        sn_ix_is_const(was, b->size, &x->numel[i]);
        x->before[i] = sn_alloc(a, bytes_of(x, i) + 1);
        x->original[i] = sn_alloc(a, bytes_of(x, i) + 1);
        x->edited[i] = sn_alloc(a, bytes_of(x, i) + 1);
    }
}

/* What is stored is random before, too: what a kernel leaves alone has to stay. */
static void fill(const arguments *x, uint32_t round) {
    for (uint32_t i = 0; i < x->n; i++) {
        sn_random_fill(x->before[i], x->dtype[i], x->numel[i], SEED + 64 * round + i);
        for (int64_t k = 0; round && sn_is_float(x->dtype[i]) && k < x->numel[i]; k++) {
            char *at = (char *)x->before[i] + (size_t)k * sn_dtype_bytes(x->dtype[i]);
            sn_store_float(x->dtype[i], at, fabs(sn_load_float(x->dtype[i], at)) + 0.25);
        }
        memcpy(x->original[i], x->before[i], bytes_of(x, i));
        memcpy(x->edited[i], x->before[i], bytes_of(x, i));
    }
}

/* ---- two kernels on the same arguments ---- */

/* Parameters of a kernel alone are memory of somebody's. */
static sn_status evaluate(void *const *args, const sn_module *m, bool check, sn_env *env) {
    sn_arena arena;
    sn_module *alone = sn_module_of_kernel(env, m, m->kernels.at[0]);
    const sn_buf_list *params = &sn_kern_get(alone, alone->kernels.at[0])->params;
    sn_arena_init(&arena, env);
    void **memory = SN_NEWN(&arena, void *, alone->bufs.count + 1);
    for (uint32_t i = 0; i < params->n; i++) {
        sn_buf_get(alone, params->at[i])->scope = SN_BUF_OUTPUT;
        memory[params->at[i].i] = args[i];
    }
    sn_status status = check ? sn_loop_check(alone, memory, &arena) : sn_loop_eval(alone, memory, &arena);
    sn_arena_free(&arena);
    sn_module_free(alone);
    return status;
}

/* Is one element what another is, by the dtype's bound, as a share of the largest one? */
static bool alike(sn_dtype dtype, const char *x, const char *y, double largest) {
    if (!sn_is_float(dtype)) return sn_load_int(dtype, x) == sn_load_int(dtype, y);
    double a = sn_load_float(dtype, x), b = sn_load_float(dtype, y);
    if (!isfinite(a) || !isfinite(b)) return (isnan(a) && isnan(b)) || a == b;
    return fabs(a - b) <= sn_check_bound(dtype) * fmax(largest, fabs(a));
}

static double largest_of(const arguments *x, uint32_t i) {
    double largest = 0;
    for (int64_t k = 0; sn_is_float(x->dtype[i]) && k < x->numel[i]; k++) {
        double a = sn_load_float(x->dtype[i], (const char *)x->original[i] + (size_t)k * sn_dtype_bytes(x->dtype[i]));
        if (isfinite(a)) largest = fmax(largest, fabs(a));
    }
    return largest;
}

static double number(sn_dtype dtype, const char *at) {
    return sn_is_float(dtype) ? sn_load_float(dtype, at) : sn_int_to_double(dtype, sn_load_int(dtype, at));
}

/* "[2, 5]": element k of a parameter by its shape, "[7]" where that is not all of it. */
static const char *place_of(const sn_module *m, sn_buf b, int64_t k, sn_arena *a) {
    const sn_buf_rec *r = sn_buf_get(m, b);
    int64_t size = 0, extent[SN_MAX_RANK], all = 1, index[SN_MAX_RANK];
    sn_ix_is_const(m, r->size, &size);
    for (uint32_t i = 0; i < r->rank; i++) all *= extent[i] = sn_ix_value(m, r->shape[i]);
    if (all != size) return sn_strf(a, "[%lld]", (long long)k);
    for (uint32_t i = r->rank; i-- > 0; k /= extent[i]) index[i] = k % extent[i];
    const char *text = "";
    for (uint32_t i = 0; i < r->rank; i++) text = sn_strf(a, "%s%s%lld", text, i ? ", " : "", (long long)index[i]);
    return sn_strf(a, "[%s]", text);
}

static sn_status compare(const sn_program *p, const sn_replacement *r, const arguments *x) {
    sn_arena *a = &p->ctx->scratch;
    const sn_buf_list *params = &sn_kern_get(r->was, r->was->kernels.at[0])->params;
    for (uint32_t i = 0; i < x->n; i++) {
        double largest = largest_of(x, i);
        for (int64_t k = 0; k < x->numel[i]; k++) {
            size_t at = (size_t)k * sn_dtype_bytes(x->dtype[i]);
            const char *want = (const char *)x->original[i] + at, *got = (const char *)x->edited[i] + at;
            if (alike(x->dtype[i], want, got, largest)) continue;
            return sn_fail(&p->ctx->env, SN_ERROR_MISMATCH,
                           "replace_kernels: %s is not what kernel %s is: %s%s becomes %.9g instead of %.9g", r->path,
                           r->name, sn_buf_get(r->was, params->at[i])->name, place_of(r->was, params->at[i], k, a),
                           number(x->dtype[i], got), number(x->dtype[i], want));
        }
    }
    return SN_OK;
}

/* Both by evaluation: nothing has been compiled yet. */
static sn_status check_text(const sn_program *p, sn_replacement *r) {
    arguments x;
    describe(&x, r->was, &p->ctx->scratch);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fill(&x, round);
        SN_TRY(evaluate(x.original, r->was, false, &p->ctx->env));
        SN_TRY(evaluate(x.edited, r->with, round == 0, &p->ctx->env));
        SN_TRY(compare(p, r, &x));
    }
    r->checked = true;
    return SN_OK;
}

/* reference: the same program as it was; NULL: the original is evaluated. */
static sn_status check_loaded(const sn_program *p, sn_replacement *r, const sn_program *reference) {
    arguments x;
    describe(&x, r->was, &p->ctx->scratch);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fill(&x, round);
        if (reference) SN_TRY(sn_prog_try_kernel(reference->prog, r->at, x.original));
        else SN_TRY(evaluate(x.original, r->was, false, &p->ctx->env));
        SN_TRY(sn_prog_try_kernel(p->prog, r->at, x.edited));
        SN_TRY(compare(p, r, &x));
    }
    r->checked = true;
    return SN_OK;
}

/* ---- phases ---- */

static void free_module(void *m) { sn_module_free(m); }

/* Operations on floats, or elements that it moves. */
static bool is_small(sn_module *m, sn_kern k) {
    sn_kern_figures f;
    sn_kern_count(&f, m, k);
    return f.flops + (double)f.bytes <= SMALL;
}

static sn_status take_text(sn_program *p, sn_replacement *r) {
    SN_TRY(parse(r, p));
    SN_TRY(check_formals(p, r));
    r->small &= is_small(r->with, r->with->kernels.at[0]);
    if (r->small) SN_TRY(check_text(p, r));
    SN_TRY(distrust(r, p));
    return adopt(r, p);
}

static sn_status take(sn_program *p, sn_replacement *r, bool loads) {
    sn_kern original = p->m->kernels.at[r->at];
    r->small = is_small(p->m, original);
    r->was = sn_module_of_kernel(&p->ctx->env, p->m, original);
    if (!is_ptx(r->path)) SN_TRY(take_text(p, r));
    else SN_TRY(sn_file_read(&r->ptx, &r->ptx_size, &p->ctx->env, &p->arena, r->path));
    if (r->ptx && !p->gpu_code) return refuse(p, r, "PTX is for a GPU, and the program is for the CPU");
    if (r->ptx && sn_kern_is_library(sn_kern_get(p->m, original)))
        return refuse(p, r, sn_strf(&p->ctx->scratch, "a library runs kernel %s", r->name));
    if (r->checked || (loads && p->runnable)) return SN_OK;
    return refuse(p, r,
                  r->ptx ? "PTX is checked on a device, and there is none here"
                         : "the kernel is too large to be checked without a device; take smaller sizes");
}

sn_status sn_replace_kernels(sn_program *p, const sn_settings *s, bool loads) {
    for (const char *at = s->replace_kernels; at && *at; at += *at == ',') {
        size_t n = strcspn(at, ",");
        SN_TRY(read_item(p, at, n));
        at += n;
    }
    for (uint32_t k = 0; k < p->replaced.n; k++) {
        sn_replacement *r = p->replaced.at[k];
        SN_TRY(take(p, r, loads));
    }
    return SN_OK;
}

void sn_replace_code(sn_program *p) {
    for (uint32_t k = 0; k < p->replaced.n; k++) {
        const sn_replacement *r = p->replaced.at[k];
        if (!r->ptx) continue;
        p->codes[r->at].ptx = r->ptx;
        p->codes[r->at].ptx_size = r->ptx_size;
    }
}

/* The program as it was is compiled once, and counts for nobody. */
static sn_status compile_reference(sn_program **out, sn_program *p, sn_graph *g, const sn_settings *s) {
    uint64_t counters[SN_N_COUNTERS];
    sn_settings as_it_was = *s;
    as_it_was.replace_kernels = NULL;
    as_it_was.metrics = (sn_metric_settings){0};
    memcpy(counters, p->ctx->counters, sizeof counters);
    SN_TRY(sn_compile_settings(out, g, &as_it_was, SN_PHASE_LOADED));
    memcpy(p->ctx->counters, counters, sizeof counters);
    return SN_OK;
}

sn_status sn_replace_check(sn_program *p, sn_graph *g, const sn_settings *s) {
    sn_program *reference = NULL;
    sn_status status = SN_OK;
    for (uint32_t k = 0; k < p->replaced.n && status == SN_OK; k++) {
        sn_replacement *r = p->replaced.at[k];
        if (r->checked) continue;
        if (!r->small && !reference) SN_TRY(compile_reference(&reference, p, g, s));
        status = check_loaded(p, r, r->small ? NULL : reference);
    }
    sn_program_destroy(reference);
    return status;
}

void sn_replace_end(sn_program *p) {
    for (uint32_t k = 0; k < p->replaced.n; k++) {
        sn_replacement *r = p->replaced.at[k];
        if (r->was) free_module(r->was);
        if (r->with) free_module(r->with);
        r->was = r->with = NULL;
    }
    p->replaced.n = 0;
}
