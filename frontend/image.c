/* image.c: programs as images and back: sn_program_save, sn_programs_save, sn_program_load, sn_program_set_constant.
 *
 *     programs of one graph, one for each target  ->  sn_image (here)  ->  file (runtime/image_file.c)
 *     file  ->  sn_image (there)  ->  a program without a graph (here)
 *
 * Saving looks at a compiled program and changes nothing; constants that several targets share are in the file once. A loaded
 * program runs its steps by the interpreter, and has no graph: what asks for one is refused (sn_program_needs_graph). Relies
 * on the runtime for the format and for loading; no pass and no code generator runs.
 */
#include "frontend/frontend.h"

#include <stdio.h>
#include <string.h>

/* ---- saving: one part ---- */

typedef struct saving {
    sn_env *env;
    sn_image_how how;
    sn_arena *arena;
    SN_VEC(sn_image_const) consts;
    sn_image_part *part;
    const sn_program *p;
    uint32_t *number; /* of a buffer in the part, by id */
    /* Of kernels that several schedules were timed for the part has the fastest, in place of the first. */
    uint32_t *kernel; /* by kernel id: its number in the part; NONE: it is not there */
    uint32_t *runs;   /* by position in the module: who runs in place of it */
} saving;
static const uint32_t NONE = UINT32_MAX;

static sn_image_port save_port(const sn_port *from, int64_t own_offset) {
    sn_image_port p = {.name = from->name,
                       .dtype = from->dtype,
                       .rank = from->rank,
                       .align = (uint32_t)from->align,
                       .offset = from->offset,
                       .writes = from->writes,
                       .own_offset = own_offset};
    memcpy(p.shape, from->shape, sizeof p.shape);
    memcpy(p.strides, from->strides, sizeof p.strides);
    return p;
}

static sn_status save_ports(saving *s) {
    const sn_program *p = s->p;
    sn_image_part *to = s->part;
    to->n_inputs = p->n_inputs;
    to->n_outputs = p->n_outputs;
    to->own_size = (int64_t)p->own_size;
    to->inputs = SN_NEWN(s->arena, sn_image_port, p->n_inputs + 1);
    to->outputs = SN_NEWN(s->arena, sn_image_port, p->n_outputs + 1);
    for (uint32_t k = 0; k < p->n_inputs; k++) {
        void *elements;
        to->inputs[k] = save_port(&p->inputs[k], -1);
        if (!p->inputs[k].optional) continue;
        SN_TRY(sn_default_elements(&elements, p->source, k, s->arena));
        to->inputs[k].otherwise = (sn_image_bytes){elements, sn_port_bytes(&p->inputs[k])};
    }
    for (uint32_t k = 0; k < p->n_outputs; k++) to->outputs[k] = save_port(&p->outputs[k], p->own_offset[k]);
    return SN_OK;
}

/* Shape and elements of a constant; one whose elements do not lie densely is a row of them. */
static sn_status describe_const(sn_image_const *out, saving *s, const sn_buf_rec *b) {
    sn_module *m = s->p->m;
    int64_t elements, dense = 1;
    *out = (sn_image_const){
        .name = b->weight.i ? sn_wt_get(m, b->weight)->name : b->name, .dtype = b->dtype, .rank = b->rank};
    SN_TRY(sn_wrap_number(&elements, m, b->size, "the size", b->name));
    for (uint32_t k = 0; k < b->rank; k++) {
        SN_TRY(sn_wrap_number(&out->shape[k], m, b->shape[k], "a size", b->name));
        dense *= out->shape[k];
    }
    if (dense != elements) out->rank = 1, out->shape[0] = elements;
    out->data = (sn_image_bytes){sn_buf_data(m, b), (uint64_t)elements * sn_dtype_bytes(b->dtype)};
    out->given = s->how.without_weights && b->weight.i;
    if (out->given) out->data = (sn_image_bytes){0};
    if (out->data.at || !out->data.size) return SN_OK;
    return sn_fail(s->env, SN_ERROR_ARGUMENT, "weight %s has no elements: none were attached", out->name);
}

static bool same_const(const sn_image_const *a, const sn_image_const *b) {
    return a->dtype == b->dtype && a->given == b->given && a->data.size == b->data.size && a->rank == b->rank &&
           !memcmp(a->shape, b->shape, sizeof a->shape) &&
           (a->data.at == b->data.at || !a->data.size || !memcmp(a->data.at, b->data.at, (size_t)a->data.size));
}

/* Its number in the image: that of an equal one of that name, which another target has. */
static sn_status add_const(uint32_t *out, saving *s, sn_image_const c) {
    const char *name = c.name;
    for (uint32_t again = 1, k = 0; k < s->consts.n; k++) {
        if (strcmp(s->consts.at[k].name, c.name) != 0) continue;
        if (same_const(&s->consts.at[k], &c)) return *out = k, SN_OK;
        c.name = sn_strf(s->arena, "%s.%u", name, again++);
        k = UINT32_MAX; /* from the start: that name may be taken, too */
    }
    *out = s->consts.n;
    SN_PUSH(s->arena, &s->consts, c);
    return SN_OK;
}

static sn_status save_const(uint32_t *out, saving *s, const sn_buf_rec *b) {
    sn_image_const c;
    SN_TRY(describe_const(&c, s, b));
    return add_const(out, s, c);
}

static sn_status save_bufs(saving *s) {
    sn_module *m = s->p->m;
    s->number = SN_NEWN(s->arena, uint32_t, m->bufs.count + 1);
    s->part->bufs = SN_NEWN(s->arena, sn_image_buf, m->bufs.count + 1);
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        if (!sn_buf_is_global(b)) continue;
        sn_image_buf *to = &s->part->bufs[s->number[i] = s->part->n_bufs++];
        *to = (sn_image_buf){.name = b->name, .dtype = b->dtype, .scope = b->scope, .io = b->io, .align = b->align};
        SN_TRY(sn_wrap_number(&to->elements, m, b->size, "the size", b->name));
        if (b->scope == SN_BUF_CONST) SN_TRY(save_const(&to->io, s, b));
    }
    return SN_OK;
}

/* ---- saving: which kernels ---- */

static bool was_chosen_from(const saving *s, uint32_t first) { return s->runs[first] != NONE; }

/* runs: of kernels that nobody has chosen from they are NONE at first. */
static uint32_t count_kernels(saving *s) {
    sn_module *m = s->p->m;
    uint32_t n = m->kernels.n, n_picks = 0, count = 0;
    const sn_rt_pick *picks = s->p->prog ? sn_prog_picks(&n_picks, s->p->prog) : NULL;
    const uint32_t *position = sn_kern_numbers(m, s->arena);
    s->kernel = SN_NEWN(s->arena, uint32_t, m->kerns.count + 1);
    s->runs = SN_NEWN(s->arena, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++) s->runs[i] = NONE;
    for (uint32_t i = 0; i < n_picks; i++) s->runs[picks[i].first] = picks[i].winner;
    for (uint32_t i = 0; i < n; i++) {
        sn_kern first = sn_kern_get(m, m->kernels.at[i])->alternative_of;
        bool left_out = first.i && was_chosen_from(s, position[first.i]);
        s->kernel[m->kernels.at[i].i] = left_out ? NONE : count++;
    }
    for (uint32_t i = 0; i < n; i++)
        if (s->runs[i] == NONE) s->runs[i] = i;
    return count;
}

static sn_status save_step(saving *s, const sn_step *from) {
    sn_module *m = s->p->m;
    const char *name = from->buf.i ? sn_buf_get(m, from->buf)->name : "a step";
    sn_image_step *to = &s->part->steps[s->part->n_steps++];
    *to = (sn_image_step){.kind = from->kind, .buf = s->number[from->buf.i], .from = s->number[from->from.i]};
    bool backwards = from->kind == SN_STEP_WINDOW && sn_ix_is_const(m, from->size, &to->size);
    if (!backwards) SN_TRY(sn_wrap_number(&to->size, m, from->size, "the size", name));
    SN_TRY(sn_wrap_number(&to->offset, m, from->offset, "the offset", name));
    if (from->kind != SN_STEP_CALL) return SN_OK;
    to->kernel = s->kernel[from->kern.i];
    to->n_args = from->args.n;
    to->args = SN_NEWN(s->arena, sn_image_arg, from->args.n + 1);
    for (uint32_t i = 0; i < from->args.n; i++)
        to->args[i] = (sn_image_arg){s->number[from->args.at[i].buf.i], from->args.at[i].offset};
    return SN_OK;
}

static sn_status save_steps(saving *s) {
    sn_module *m = s->p->m;
    const sn_wrap *w = &m->wrap;
    s->part->steps = SN_NEWN(s->arena, sn_image_step, w->steps.n + 1);
    for (uint32_t i = 0; i < w->steps.n; i++) {
        sn_step_kind kind = w->steps.at[i].kind;
        if (kind != SN_STEP_COMMENT && kind != SN_STEP_FREE) SN_TRY(save_step(s, &w->steps.at[i]));
        if (i < w->n_prepare) s->part->n_prepare = s->part->n_steps;
    }
    SN_TRY(sn_wrap_number(&s->part->workspace, m, w->workspace, "the workspace", "the wrapper"));
    return sn_wrap_number(&s->part->prepared, m, w->prepared, "the prepared memory", "the wrapper");
}

static sn_status save_formals(saving *s, sn_image_kernel *to, const sn_kern_rec *k) {
    sn_module *m = s->p->m;
    to->n_formals = k->params.n;
    to->formals = SN_NEWN(s->arena, sn_image_formal, k->params.n + 1);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const sn_buf_rec *b = sn_buf_get(m, k->params.at[i]);
        sn_image_formal *f = &to->formals[i];
        *f = (sn_image_formal){.dtype = b->dtype, .role = b->role, .rank = b->rank};
        SN_TRY(sn_wrap_number(&f->numel, m, b->size, "the size", b->name));
        for (uint32_t a = 0; a < b->rank; a++) SN_TRY(sn_wrap_number(&f->shape[a], m, b->shape[a], "a size", b->name));
    }
    return SN_OK;
}

bool sn_ptx_is_for_one(const char *ptx) {
    const char *target = ptx ? strstr(ptx, ".target sm_") : NULL;
    if (!target) return false;
    target += strlen(".target sm_");
    target += strspn(target, "0123456789");
    return *target == 'a' || *target == 'f';
}

static sn_status save_kernel(saving *s, sn_image_kernel *to, uint32_t i, const sn_rt_kernel *launch) {
    sn_module *m = s->p->m;
    const sn_kern_rec *k = sn_kern_get(m, m->kernels.at[i]);
    sn_text schedule;
    *to = (sn_image_kernel){.launch = *launch, .note = k->note ? k->note : ""};
    to->launch.host = NULL;
    to->launch.alternative_of = 0;
    to->maps = (sn_tensor_map *)(uintptr_t)launch->maps;
    to->library = (sn_library_call *)(uintptr_t)launch->library;
    sn_text_init(&schedule, s->env);
    sn_sched_print(&schedule, &k->sched);
    to->schedule = sn_strndup(s->arena, schedule.s ? schedule.s : "", schedule.n);
    sn_text_free(&schedule);
    s->part->only |= sn_ptx_is_for_one(launch->ptx);
    return save_formals(s, to, k);
}

static sn_status save_kernels(saving *s, const sn_rt_kernel *launches) {
    sn_module *m = s->p->m;
    s->part->n_kernels = count_kernels(s);
    s->part->kernels = SN_NEWN(s->arena, sn_image_kernel, s->part->n_kernels + 1);
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_kern first = sn_kern_get(m, m->kernels.at[i])->alternative_of;
        uint32_t at = s->kernel[m->kernels.at[i].i];
        if (at == NONE) continue;
        sn_image_kernel *to = &s->part->kernels[at];
        SN_TRY(save_kernel(s, to, s->runs[i], &launches[s->runs[i]]));
        if (first.i) to->launch.alternative_of = 1 + s->kernel[first.i]; /* who loads it times them */
    }
    return SN_OK;
}

static sn_status save_host_code(saving *s) {
    sn_host_image code;
    SN_TRY(sn_host_code_link(&code, s->p->host, s->env, s->arena));
    sn_image_part *to = s->part;
    to->machine = code.machine;
    to->cpu = code.cpu;
    to->features = sn_image_features_of(code.features);
    to->code = (sn_image_bytes){code.bytes, code.size};
    to->n_slots = code.n_slots;
    to->slots = SN_NEWN(s->arena, sn_image_slot, code.n_slots + 1);
    for (uint32_t i = 0; i < code.n_slots; i++) {
        to->slots[i] = (sn_image_slot){code.slots[i].at, code.slots[i].import, code.slots[i].target};
        if (code.slots[i].import && !sn_image_has_import(code.slots[i].import))
            return sn_fail(s->env, SN_ERROR_UNSUPPORTED, "the program's code calls %s, which images have not",
                           code.slots[i].import);
    }
    for (uint32_t i = 0; i < s->p->m->kernels.n; i++) {
        uint32_t at = s->kernel[s->p->m->kernels.at[i].i];
        if (at != NONE && !to->kernels[at].library) to->kernels[at].entry = code.entries[s->runs[i]];
    }
    return SN_OK;
}

static sn_status save_part(saving *s) {
    sn_program *p = (sn_program *)(uintptr_t)s->p;
    sn_rt_kernel *launches;
    s->part->target = p->gpu_code ? p->target.name : "host";
    s->part->sm = p->gpu_code ? p->target.sm : 0;
    SN_TRY(save_ports(s));
    SN_TRY(save_bufs(s));
    SN_TRY(sn_program_launches(&launches, p, s->arena));
    SN_TRY(save_kernels(s, launches));
    SN_TRY(save_steps(s));
    if (!p->gpu_code) return save_host_code(s);
    s->part->machine = "nvptx";
    s->part->cpu = "";
    if (!s->how.without_cubins) sn_program_assemble(p, s->part, s->arena);
    return SN_OK;
}

/* A program that was found in the cache is an image already; the elements of its weights are those of its graph. */
static sn_status save_found(saving *s) {
    sn_program *p = (sn_program *)(uintptr_t)s->p;
    uint32_t *number = SN_NEWN(s->arena, uint32_t, p->image->n_consts + 1);
    *s->part = *p->part;
    s->part->bufs = sn_memdup(s->arena, p->part->bufs, p->part->n_bufs * sizeof *p->part->bufs);
    s->part->kernels = sn_memdup(s->arena, p->part->kernels, p->part->n_kernels * sizeof *p->part->kernels);
    for (uint32_t k = 0; k < p->image->n_consts; k++) {
        sn_image_const c = p->image->consts[k];
        c.given = c.given && s->how.without_weights;
        for (uint32_t i = 0; i < p->given.n && !c.given; i++)
            if (!strcmp(p->given.at[i].name, c.name))
                c.data = (sn_image_bytes){p->given.at[i].data, p->given.at[i].size};
        SN_TRY(add_const(&number[k], s, c));
    }
    for (uint32_t i = 0; i < s->part->n_bufs; i++)
        if (s->part->bufs[i].scope == SN_BUF_CONST) s->part->bufs[i].io = number[s->part->bufs[i].io];
    if (p->gpu_code && !s->how.without_cubins) sn_program_assemble(p, s->part, s->arena);
    return SN_OK;
}

/* ---- saving: the whole ---- */

static sn_status can_save(sn_env *env, const sn_program *p) {
    if (p->info.found) return SN_OK;
    if (p->image) return sn_fail(env, SN_ERROR_UNSUPPORTED, "the program was loaded from an image: copy that file");
    if (!p->m || (!p->gpu_code && !p->host)) return sn_fail(env, SN_ERROR_UNSUPPORTED, "the program has no code");
    return SN_OK;
}

static bool same_ports(const sn_port *a, const sn_port *b, uint32_t n) {
    for (uint32_t k = 0; k < n; k++)
        if (strcmp(a[k].name, b[k].name) != 0 || a[k].dtype != b[k].dtype || a[k].rank != b[k].rank ||
            memcmp(a[k].shape, b[k].shape, a[k].rank * sizeof *a[k].shape) != 0)
            return false;
    return true;
}

static sn_status check_alike(sn_env *env, const sn_program *a, const sn_program *b) {
    if (a->n_inputs == b->n_inputs && a->n_outputs == b->n_outputs && same_ports(a->inputs, b->inputs, a->n_inputs) &&
        same_ports(a->outputs, b->outputs, a->n_outputs))
        return SN_OK;
    return sn_fail(env, SN_ERROR_ARGUMENT, "the programs for %s and %s have different inputs or outputs",
                   a->target.name, b->target.name);
}

sn_status sn_image_of(sn_image *out, sn_context *ctx, sn_program *const *programs, unsigned n, const sn_image_how *how,
                      sn_arena *arena) {
    saving s = {.env = &ctx->env, .arena = arena, .how = *how};
    *out = (sn_image){.maker = sn_version(), .name = programs[0]->source->graph.name, .n_parts = n};
    if (!out->name) out->name = "";
    out->parts = SN_NEWN(arena, sn_image_part, n + 1);
    for (unsigned i = 0; i < n; i++) {
        SN_TRY(can_save(s.env, programs[i]));
        SN_TRY(check_alike(s.env, programs[0], programs[i]));
        s.p = programs[i];
        s.part = &out->parts[i];
        SN_TRY(programs[i]->info.found ? save_found(&s) : save_part(&s));
    }
    out->consts = s.consts.at;
    out->n_consts = s.consts.n;
    return SN_OK;
}

enum { PROGRAMS_MAX = 64 };

static sn_status save(sn_context *ctx, sn_program *const *programs, unsigned n, const char *path,
                      const sn_save_options *options) {
    sn_image image;
    sn_save_options o = {0};
    SN_TRY(sn_options_read(&o, sizeof o, &ctx->env, "sn_save_options", options));
    if (!n || n > PROGRAMS_MAX)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "%u programs are given; 1 to %d are wanted", n, PROGRAMS_MAX);
    for (unsigned i = 0; i < n; i++)
        if (!programs[i] || programs[i]->ctx != ctx)
            return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "program %u: it is NULL or of another context", i);
    SN_TRY(can_save(&ctx->env, programs[0]));
    sn_image_how how = {.without_weights = o.without_weights};
    SN_TRY(sn_image_of(&image, ctx, programs, n, &how, &ctx->scratch));
    if (o.weights) SN_TRY(sn_image_refer(&image, &ctx->env, &ctx->scratch, path, o.weights));
    return sn_image_write(&ctx->env, &image, path);
}

sn_status sn_program_save(sn_program *p, const char *path) {
    SN_GUARD_RETURN(p, save(p->ctx, &p, 1, path, NULL), path);
}

sn_status sn_programs_save(sn_context *ctx, unsigned n, sn_program *const *programs, const char *path,
                           const sn_save_options *options) {
    SN_GUARD_RETURN(ctx, save(ctx, programs, n, path, options), programs, path);
}

/* ---- loading ---- */

static sn_port load_port(sn_program *p, const sn_image_port *from) {
    sn_port port = {.name = sn_strdup(&p->arena, from->name),
                    .dtype = from->dtype,
                    .rank = from->rank,
                    .offset = from->offset,
                    .align = from->align,
                    .writes = from->writes,
                    .optional = from->otherwise.size != 0};
    memcpy(port.shape, from->shape, sizeof port.shape);
    memcpy(port.strides, from->strides, sizeof port.strides);
    return port;
}

static void load_ports(sn_program *p) {
    const sn_image_part *part = p->part;
    p->n_inputs = part->n_inputs;
    p->n_outputs = part->n_outputs;
    p->own_size = (size_t)part->own_size;
    p->inputs = SN_NEWN(&p->arena, sn_port, p->n_inputs + 1);
    p->outputs = SN_NEWN(&p->arena, sn_port, p->n_outputs + 1);
    p->is_written = SN_NEWN(&p->arena, bool, p->n_inputs + 1);
    p->own_offset = SN_NEWN(&p->arena, int64_t, p->n_outputs + 1);
    for (uint32_t k = 0; k < p->n_inputs; k++) p->inputs[k] = load_port(p, &part->inputs[k]);
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        p->outputs[k] = load_port(p, &part->outputs[k]);
        p->own_offset[k] = part->outputs[k].own_offset;
        if (p->outputs[k].writes >= 0) p->is_written[p->outputs[k].writes] = true;
    }
}

/* That a run makes, at most. */
static uint32_t count_launches(const sn_image_part *part) {
    int64_t n = 0, times[64] = {1}, most = UINT32_MAX; /* images are not nested deeper (runtime/image_stream.c) */
    uint32_t depth = 0;
    for (uint32_t i = part->n_prepare; i < part->n_steps; i++) {
        const sn_image_step *s = &part->steps[i];
        bool opens = s->kind == SN_STEP_REPEAT || s->kind == SN_STEP_IF;
        int64_t by = s->kind == SN_STEP_REPEAT ? s->size : 1;
        if (opens && depth + 1 < SN_COUNT(times)) {
            if (sn_mul_overflow(times[depth], by, &times[depth + 1]) || times[depth + 1] > most)
                times[depth + 1] = most;
            depth++;
        } else if (s->kind == SN_STEP_END && depth) {
            depth--;
        }
        n += s->kind == SN_STEP_CALL ? times[depth] : 0;
    }
    return (uint32_t)(n < most ? n : most);
}

static void load_info(sn_program *p) {
    const sn_image_part *part = p->part;
    sn_program_info *info = &p->info;
    *info = (sn_program_info){.device = p->device,
                              .runnable = true,
                              .target = p->target.name,
                              .n_inputs = p->n_inputs,
                              .n_outputs = p->n_outputs,
                              .n_kernels = part->n_kernels,
                              .workspace = (size_t)part->workspace};
    info->n_launches += count_launches(part);
    for (uint32_t k = 0; k < p->n_inputs; k++) info->moved += sn_port_bytes(&p->inputs[k]);
    for (uint32_t k = 0; k < p->n_outputs; k++) info->moved += sn_port_bytes(&p->outputs[k]);
    for (uint32_t k = 0; k < p->image->n_consts; k++) info->moved += (size_t)p->image->consts[k].data.size;
}

/* A device where there is one and the image has code for it; the CPU else. */
static sn_status choose(sn_program *p, const char *device, unsigned ordinal) {
    sn_env *env = &p->ctx->env;
    char why[256] = "no such device";
    bool cpu = device && !strcmp(device, "cpu"), must = device && !strcmp(device, "cuda");
    if (device && !cpu && !must && strcmp(device, "auto") != 0)
        return sn_fail(env, SN_ERROR_ARGUMENT, "device: '%s' is none of auto, cpu, cuda", device);
    bool any = false;
    for (uint32_t i = 0; i < p->image->n_parts; i++) any |= p->image->parts[i].sm != 0;
    if (!cpu && (any || must) && ordinal < sn_cuda_count(why, sizeof why)) {
        SN_TRY(sn_context_cuda(&p->runner.cu, p->ctx, (int)ordinal));
        sn_status status = sn_image_choose(&p->part, env, p->image, p->runner.cu);
        p->device = (int)ordinal;
        if (status == SN_OK || must) return status;
        sn_env_clear(env);
    } else if (must) {
        return sn_fail(env, SN_ERROR_DEVICE, "no CUDA device %u: %s", ordinal, why);
    }
    p->runner.cu = NULL;
    p->device = SN_CPU;
    return sn_image_choose(&p->part, env, p->image, NULL);
}

static sn_status give(sn_program *p, const sn_weight_info *constants, unsigned n) {
    if (n && !constants) return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "constants: NULL for %u", n);
    if (n > SN_LIST_MAX)
        return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "constants: %u are given; at most %d", n, SN_LIST_MAX);
    for (unsigned i = 0; i < n; i++) {
        const sn_weight_info *c = &constants[i];
        if (!c->name || (!c->data && c->size))
            return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "constant %u: it has no name or no elements", i);
        SN_PUSH(&p->arena, &p->given, ((sn_image_given){sn_strdup(&p->arena, c->name), c->data, c->size}));
    }
    return SN_OK;
}

static sn_status check_given(const sn_program *p, const char *name) {
    for (uint32_t k = 0; k < p->image->n_consts; k++)
        if (!strcmp(p->image->consts[k].name, name)) return SN_OK;
    return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "constant %s: the program has none of that name", name);
}

static sn_status load_defaults(sn_program *p) {
    const void **data = SN_NEWN(&p->ctx->scratch, const void *, p->n_inputs + 1);
    size_t *bytes = SN_NEWN(&p->ctx->scratch, size_t, p->n_inputs + 1);
    for (uint32_t k = 0; k < p->n_inputs; k++) {
        data[k] = p->part->inputs[k].otherwise.at;
        bytes[k] = (size_t)p->part->inputs[k].otherwise.size;
    }
    return sn_defaults_load(&p->defaults, &p->ctx->env, &p->arena, p->runner.cu, data, bytes, p->n_inputs);
}

/* ports, part and what is given are known. */
static sn_status start(sn_program *p, sn_loaded *loaded, const sn_cubins *keep) {
    for (uint32_t k = 0; k < p->given.n; k++) SN_TRY(check_given(p, p->given.at[k].name));
    SN_TRY(sn_image_load(loaded, &p->ctx->env, p->image, p->part, p->given.at, p->given.n, p->runner.cu, p->threads,
                         keep));
    return sn_prog_debug(loaded->prog, &p->debug);
}

static void adopt(sn_program *p) {
    p->prog = p->loaded.prog;
    p->m = p->loaded.m;
}

/* Image, part, device and what is given are known. */
static sn_status finish(sn_program *p, const sn_cubins *keep) {
    load_ports(p);
    sn_runner_init(&p->runner, &p->arena);
    SN_TRY(start(p, &p->loaded, keep));
    adopt(p);
    SN_TRY(load_defaults(p));
    p->runnable = true;
    load_info(p);
    return sn_runner_load(&p->runner);
}

static sn_status load(sn_program *p, const char *path, const sn_load_options *o) {
    sn_context *ctx = p->ctx;
    SN_TRY(sn_image_map(&p->file, &ctx->env, path));
    sn_image *image;
    SN_TRY(sn_image_read(&image, &ctx->env, &p->arena, path, p->file));
    p->image = image;
    SN_TRY(choose(p, o->device, o->ordinal));
    SN_TRY(give(p, o->constants, o->n_constants));
    SN_TRY(sn_image_open_files(image, &ctx->env, &p->arena, path, o->weights, p->given.at, p->given.n));
    SN_TRY(sn_image_verify(&ctx->env, image, p->part, o->threads));
    SN_TRY(sn_graphs_read(&p->graphs, &ctx->env, o->graphs));
    p->threads = o->threads;
    SN_TRY(sn_debug_settings(&p->debug, ctx, o->debug, o->debug_kernels, o->debug_dir));
    sn_debug_keep(&p->debug, &p->arena);
    snprintf(p->target.name, sizeof p->target.name, "%s", p->part->target);
    p->source = sn_module_new(&ctx->env);
    return finish(p, NULL);
}

/* Weights by name, as the graph has them. */
static sn_status give_weights(sn_program *p) {
    for (uint32_t k = 0; k < p->image->n_consts; k++) {
        const sn_image_const *c = &p->image->consts[k];
        if (!c->given) continue;
        const sn_weight_rec *w = sn_wt_get(p->source, sn_wt_named(p->source, c->name));
        if (!w->name || !sn_wt_attached(w))
            return sn_fail(&p->ctx->env, SN_ERROR_FILE, "the graph has no weight %s", c->name);
        SN_PUSH(&p->arena, &p->given, ((sn_image_given){c->name, w->data, w->size}));
    }
    return SN_OK;
}

static sn_status take(sn_program *p, sn_image_bytes bytes, const sn_cubins *keep) {
    sn_image *image;
    SN_TRY(sn_image_read(&image, &p->ctx->env, &p->arena, "the cache", bytes));
    p->image = image;
    SN_TRY(sn_image_choose(&p->part, &p->ctx->env, image, p->runner.cu));
    SN_TRY(give_weights(p));
    return finish(p, keep);
}

sn_status sn_program_take_image(sn_program *p, sn_image_bytes bytes, sn_cuda *cu, const sn_cubins *keep) {
    p->runner.cu = cu;
    sn_status status = take(p, bytes, keep);
    if (status == SN_OK) return SN_OK;
    sn_runner_close(&p->runner);
    sn_defaults_free(&p->defaults, &p->ctx->env, cu);
    sn_loaded_free(&p->loaded);
    p->runner.cu = NULL;
    p->image = NULL;
    p->part = NULL;
    p->prog = NULL;
    p->m = NULL;
    p->given.n = 0;
    p->own_size = 0;
    return status;
}

static sn_status make(sn_program **out, sn_context *ctx, const char *path, const sn_load_options *options) {
    sn_load_options o = {0};
    SN_TRY(sn_options_read(&o, sizeof o, &ctx->env, "sn_load_options", options));
    sn_program *p = sn_program_new(ctx);
    SN_TRY(load(p, path, &o));
    sn_making_end(ctx, p);
    *out = p;
    return SN_OK;
}

sn_status sn_program_load(sn_program **out, sn_context *ctx, const char *path, const sn_load_options *options) {
    SN_MAKE_RETURN(out, ctx, make(out, ctx, path, options), path);
}

sn_status sn_program_needs_graph(const sn_program *p, const char *what) {
    if (!p->image || p->info.found) return SN_OK;
    return sn_fail(&p->ctx->env, SN_ERROR_UNSUPPORTED, "%s: the program was loaded from an image, which has no graph",
                   what);
}

/* A change on its way. */
typedef struct change {
    sn_program *p;
    uint32_t number; /* in p->given */
    sn_image_given before;
    sn_loaded loaded;
} change;

static void undo(void *user) {
    change *c = user;
    c->p->given.at[c->number] = c->before;
    sn_loaded_free(&c->loaded);
}

static sn_image_given as_in_image(const sn_program *p, const char *name) {
    const sn_image_const *c = p->image->consts;
    while (strcmp(c->name, name) != 0) c++;
    return (sn_image_given){c->name, c->data.at, (size_t)c->data.size};
}

static uint32_t given_number(sn_program *p, const char *name) {
    uint32_t k = 0;
    while (k < p->given.n && strcmp(p->given.at[k].name, name) != 0) k++;
    if (k == p->given.n) SN_PUSH(&p->arena, &p->given, as_in_image(p, name));
    return k;
}

/* The new one is loaded before the old one goes: what fails leaves the program as it was. */
static sn_status set_constant(sn_program *p, const char *name, const void *data, size_t size) {
    sn_context *ctx = p->ctx;
    sn_prog_state *state;
    if (!p->image || p->info.found)
        return sn_fail(&ctx->env, SN_ERROR_UNSUPPORTED,
                       "constant %s: the program was compiled here; save it and load it first", name);
    if (atomic_load(&p->n_states))
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "constant %s: the program has run states; destroy them first",
                       name);
    SN_TRY(check_given(p, name));
    change *c = SN_NEW(&ctx->scratch, change);
    *c = (change){.p = p, .number = given_number(p, name)};
    c->before = p->given.at[c->number];
    sn_making_begin(ctx, c, undo);
    p->given.at[c->number].data = data;
    p->given.at[c->number].size = size;
    SN_TRY(start(p, &c->loaded, NULL));
    SN_TRY(sn_prog_state_new(&state, c->loaded.prog, &ctx->env, p->runner.cu));
    sn_making_end(ctx, c);
    sn_prog_state_graphs(state, p->graphs);
    sn_prog_state_free(p->runner.state);
    p->runner.state = state;
    sn_loaded_free(&p->loaded);
    p->loaded = c->loaded;
    adopt(p);
    return SN_OK;
}

sn_status sn_program_set_constant(sn_program *p, const char *name, const void *data, size_t size) {
    SN_GUARD_RETURN(p, set_constant(p, name, data, size), name, data);
}
