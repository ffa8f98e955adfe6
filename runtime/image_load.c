/* image_load.c: from an image to a loaded program.
 *
 * A part becomes a module without graph and statements: buffers, kernels that are names with formals, the wrapper's steps.
 * That is all prog.c looks at, so that a program from a file is loaded, prepared and run by the code that runs one which was
 * just compiled; its steps are interpreted. What is checked here is what depends on the machine: processor, device, constants
 * that have to be given.
 */
#include "runtime/image.h"

#include "runtime/cuda_driver.h"

#include <string.h>

#if defined(__x86_64__)
static const char machine_here[] = "x86_64";
#elif defined(__aarch64__)
static const char machine_here[] = "aarch64";
#else
static const char machine_here[] = "unknown";
#endif

/* ---- which part ---- */

/* Why the machine does not run it; NULL: it does. The text is in the arena. */
static const char *fault_of(const sn_image_part *p, sn_cuda *cu, sn_arena *a) {
    if (!cu && p->sm) return "is for a GPU";
    if (cu && !p->sm) return "is for the CPU";
    if (!cu) {
        uint64_t missing = p->features & ~sn_image_features_here();
        if (strcmp(p->machine, machine_here) != 0) return sn_strf(a, "is for %s, this is %s", p->machine, machine_here);
        return missing ? sn_strf(a, "was made for %s: this CPU has no %s", p->cpu, sn_image_feature_name(missing))
                       : NULL;
    }
    sn_target device = {0};
    sn_cuda_target(cu, &device);
    if (p->sm > device.sm || (p->only && p->sm != device.sm)) return sn_strf(a, "does not run on sm_%u", device.sm);
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        const sn_rt_kernel *k = &p->kernels[i].launch;
        if (k->shared_bytes > device.shared_bytes)
            return sn_strf(a, "wants %u bytes of shared memory for %s, the device has %u", k->shared_bytes, k->name,
                           device.shared_bytes);
    }
    return NULL;
}

sn_status sn_image_choose(const sn_image_part **out, sn_env *env, const sn_image *image, sn_cuda *cu) {
    const char *why = "";
    sn_arena scratch;
    sn_arena_init(&scratch, env);
    *out = NULL;
    for (uint32_t i = 0; i < image->n_parts; i++) {
        const sn_image_part *p = &image->parts[i];
        const char *fault = fault_of(p, cu, &scratch);
        if (fault) why = sn_strf(&scratch, "%s%s%s %s", why, *why ? "; " : "", p->target, fault);
        else if (!*out || p->sm > (*out)->sm || (p->sm == (*out)->sm && p->only)) *out = p;
    }
    sn_status status = SN_OK;
    if (!*out)
        status =
            sn_fail(env, SN_ERROR_TARGET, "no target of the image runs on the %s here: %s", cu ? "GPU" : "CPU", why);
    sn_arena_free(&scratch);
    return status;
}

/* ---- the module ---- */

typedef struct loading {
    sn_env *env;
    sn_module *m;
    const sn_image *image;
    const sn_image_part *part;
    const sn_image_given *given;
    uint32_t n_given;
    sn_buf *bufs;
    sn_kern *kerns;
} loading;

static sn_status const_data(const void **out, const loading *l, const sn_image_const *c) {
    uint64_t bytes = sn_dtype_bytes(c->dtype);
    for (uint32_t k = 0; k < c->rank; k++) bytes *= (uint64_t)c->shape[k];
    *out = c->data.at;
    for (uint32_t i = 0; i < l->n_given; i++) {
        const sn_image_given *g = &l->given[i];
        if (strcmp(g->name, c->name) != 0) continue;
        if (g->size != bytes)
            return sn_fail(l->env, SN_ERROR_ARGUMENT, "constant %s: %zu bytes are given, it has %llu", c->name, g->size,
                           (unsigned long long)bytes);
        *out = g->data;
        return SN_OK;
    }
    if (c->given)
        return sn_fail(l->env, SN_ERROR_ARGUMENT, "constant %s: it is not in the image and none is given", c->name);
    if (c->file && !c->data.at)
        return sn_fail(l->env, SN_ERROR_ARGUMENT, "constant %s: its file %s is not open", c->name,
                       l->image->files[c->file - 1]);
    if (c->data.size != bytes)
        return sn_fail(l->env, SN_ERROR_FILE, "constant %s: the image has %llu of its %llu bytes", c->name,
                       (unsigned long long)c->data.size, (unsigned long long)bytes);
    return SN_OK;
}

static sn_status add_buf(loading *l, uint32_t i) {
    const sn_image_buf *b = &l->part->bufs[i];
    sn_ix elements = sn_ix_const(l->m, b->elements);
    l->bufs[i] = sn_buf_new(l->m, b->name, b->dtype, b->scope, &elements, 1);
    sn_buf_rec *r = sn_buf_get(l->m, l->bufs[i]);
    r->align = b->align;
    r->io = b->scope == SN_BUF_CONST ? 0 : b->io;
    if (b->scope != SN_BUF_CONST) return SN_OK;
    const sn_image_const *c = &l->image->consts[b->io];
    SN_TRY(const_data(&r->data, l, c));
    uint64_t bytes = (uint64_t)b->elements * sn_dtype_bytes(b->dtype), has = sn_dtype_bytes(c->dtype);
    for (uint32_t k = 0; k < c->rank; k++) has *= (uint64_t)c->shape[k];
    return bytes <= has ? SN_OK
                        : sn_fail(l->env, SN_ERROR_FILE, "constant %s: the image reads beyond its end", c->name);
}

static void add_kernel(loading *l, uint32_t i) {
    const sn_image_kernel *k = &l->part->kernels[i];
    l->kerns[i] = sn_kern_new(l->m, k->launch.name);
    sn_kern_get(l->m, l->kerns[i])->note = sn_strdup(&l->m->arena, k->note);
    for (uint32_t f = 0; f < k->n_formals; f++) {
        const sn_image_formal *from = &k->formals[f];
        sn_buf_rec *r = sn_buf_get(l->m, sn_formal_new(l->m, l->kerns[i], "p", NULL));
        r->dtype = from->dtype;
        r->role = from->role;
        r->rank = from->rank;
        for (uint32_t a = 0; a < from->rank; a++) r->shape[a] = sn_ix_const(l->m, from->shape[a]);
        r->size = sn_ix_const(l->m, from->numel);
    }
}

static void add_step(loading *l, const sn_image_step *s) {
    sn_step step = {.kind = s->kind, .size = sn_ix_const(l->m, s->size), .offset = sn_ix_const(l->m, s->offset)};
    if (s->kind == SN_STEP_CALL) step.kern = l->kerns[s->kernel];
    else if (!sn_image_step_is_alone(s->kind)) step.buf = l->bufs[s->buf];
    if (sn_image_step_has_from(s->kind)) step.from = l->bufs[s->from];
    for (uint32_t i = 0; i < s->n_args; i++)
        SN_PUSH(&l->m->arena, &step.args, ((sn_arg){l->bufs[s->args[i].buf], s->args[i].offset}));
    sn_wrap_add(l->m, step);
}

static sn_status make_module(loading *l) {
    const sn_image_part *p = l->part;
    l->bufs = SN_NEWN(&l->m->arena, sn_buf, p->n_bufs + 1);
    l->kerns = SN_NEWN(&l->m->arena, sn_kern, p->n_kernels + 1);
    for (uint32_t i = 0; i < p->n_bufs; i++) SN_TRY(add_buf(l, i));
    for (uint32_t i = 0; i < p->n_kernels; i++) add_kernel(l, i);
    for (uint32_t i = 0; i < p->n_steps; i++) add_step(l, &p->steps[i]);
    l->m->wrap.name = sn_strdup(&l->m->arena, l->image->name);
    l->m->wrap.n_prepare = p->n_prepare;
    l->m->wrap.workspace = sn_ix_const(l->m, p->workspace);
    l->m->wrap.prepared = sn_ix_const(l->m, p->prepared);
    return SN_OK;
}

/* ---- the whole ---- */

static sn_rt_kernel *kernels_of(const loading *l, const sn_image_code *code) {
    sn_rt_kernel *list = SN_NEWN(&l->m->arena, sn_rt_kernel, l->part->n_kernels + 1);
    for (uint32_t i = 0; i < l->part->n_kernels; i++) {
        const sn_image_kernel *k = &l->part->kernels[i];
        list[i] = k->launch;
        list[i].maps = k->maps;
        if (l->part->sm || k->library) continue;
        uintptr_t at = (uintptr_t)code->at + k->entry;
        memcpy(&list[i].host, &at, sizeof at);
    }
    return list;
}

sn_status sn_image_load(sn_loaded *out, sn_env *env, const sn_image *image, const sn_image_part *part,
                        const sn_image_given *given, uint32_t n_given, sn_cuda *cu, uint32_t threads,
                        const sn_cubins *keep) {
    *out = (sn_loaded){0};
    out->m = sn_module_new(env);
    loading l = {.env = env, .m = out->m, .image = image, .part = part, .given = given, .n_given = n_given};
    SN_TRY(make_module(&l));
    if (!part->sm) SN_TRY(sn_image_code_load(&out->code, env, part));
    return sn_prog_load(&out->prog, out->m, cu, kernels_of(&l, &out->code), part->n_kernels, NULL, threads, keep);
}

void sn_loaded_free(sn_loaded *l) {
    sn_prog_free(l->prog);
    sn_image_code_free(&l->code);
    if (l->m) sn_module_free(l->m);
    *l = (sn_loaded){0};
}
