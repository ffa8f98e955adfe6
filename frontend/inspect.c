/* inspect.c: looking into a program: ports, kernels, and the text of every stage.
 *
 * Stages before code generation are made again from the bound graph by running a prefix of the pipeline, so that a
 * program carries no texts. Relies on the names of the passes in passes.def.
 */
#include "frontend/frontend.h"
#include "tune/tune.h"
#include "frontend/context/names.h"

#include <limits.h>
#include <string.h>

/* ---- ports ---- */

void sn_program_get_info(sn_program_info *out, const sn_program *p) {
    if (out) *out = (sn_program_info){.device = SN_CPU, .target = ""};
    if (!SN_IS_NULL(p, out)) *out = p->info;
}

unsigned sn_program_input_count(const sn_program *p) { return p ? p->n_inputs : 0; }
unsigned sn_program_output_count(const sn_program *p) { return p ? p->n_outputs : 0; }

static sn_status port(sn_port *out, const sn_program *p, const sn_port *ports, uint32_t n, unsigned k,
                      const char *what) {
    if (k >= n) return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "%s %u: the program has %u", what, k, n);
    *out = ports[k];
    return SN_OK;
}

sn_status sn_program_input(sn_port *out, const sn_program *p, unsigned input) {
    SN_GUARD_RETURN(p, port(out, p, p->inputs, p->n_inputs, input, "input"), out);
}

sn_status sn_program_output(sn_port *out, const sn_program *p, unsigned output) {
    SN_GUARD_RETURN(p, port(out, p, p->outputs, p->n_outputs, output, "output"), out);
}

static const char *port_name(const void *at, uint32_t k) { return ((const sn_port *)at)[k].name; }

static sn_status find_port(unsigned *out, const sn_program *p, const sn_port *ports, uint32_t n, const char *what,
                           const char *name) {
    return sn_names_find(out, &p->ctx->env, &p->ctx->scratch, &(sn_name_list){ports, n, port_name}, "program", what,
                         name);
}

sn_status sn_program_find_input(unsigned *out, const sn_program *p, const char *name) {
    if (out) *out = UINT_MAX;
    SN_GUARD_RETURN(p, find_port(out, p, p->inputs, p->n_inputs, "input", name), out, name);
}

sn_status sn_program_find_output(unsigned *out, const sn_program *p, const char *name) {
    if (out) *out = UINT_MAX;
    SN_GUARD_RETURN(p, find_port(out, p, p->outputs, p->n_outputs, "output", name), out, name);
}

/* ---- tensors for ports ---- */

static sn_status for_port(sn_tensor **out, const sn_program *p, const sn_port *ports, uint32_t n, unsigned k,
                          const char *what) {
    if (k >= n) return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "%s %u: the program has %u", what, k, n);
    return sn_tensor_new(out, p->ctx, p->device, ports[k].dtype, ports[k].rank, ports[k].shape, ports[k].strides,
                         ports[k].offset);
}

sn_status sn_tensor_for_input(sn_tensor **out, const sn_program *p, unsigned input) {
    SN_MAKE_RETURN(out, p, for_port(out, p, p->inputs, p->n_inputs, input, "input"));
}

sn_status sn_tensor_for_output(sn_tensor **out, const sn_program *p, unsigned output) {
    SN_MAKE_RETURN(out, p, for_port(out, p, p->outputs, p->n_outputs, output, "output"));
}

/* ---- kernels ---- */

static sn_kernel_info image_kernel(const sn_image_kernel *k) {
    return (sn_kernel_info){.name = k->launch.name,
                            .note = k->note,
                            .grid = k->launch.grid,
                            .block_x = k->launch.block_x,
                            .block_y = k->launch.block_y,
                            .ptx = k->launch.ptx,
                            .library = k->library ? "a library" : NULL,
                            .from = "",
                            .schedule = "",
                            .kind = "",
                            .instead_of = -1,
                            .runs = true};
}

/* What timing has said of a kernel with alternatives, or of one of these. */
static void picked_info(sn_kernel_info *out, const sn_program *p, unsigned kernel) {
    uint32_t n;
    const sn_rt_pick *picks = sn_prog_picks(&n, p->prog);
    out->chosen_us = sn_prog_picked_us(p->prog, kernel);
    for (uint32_t i = 0; i < n; i++)
        if (picks[i].first == kernel || picks[i].winner == kernel) out->runs = picks[i].winner == kernel;
}

/* It is the caller's to read as long as there is the program. */
static const char *schedule_of(sn_program *p, const sn_kern_rec *k, unsigned kernel) {
    if (!p->schedules) p->schedules = SN_NEWN(&p->arena, const char *, p->m->kernels.n);
    if (!p->schedules[kernel]) p->schedules[kernel] = sn_trial_header(&p->ctx->env, &k->sched, &p->arena);
    return p->schedules[kernel];
}

static sn_status kernel_info(sn_kernel_info *out, sn_program *p, unsigned kernel) {
    if (kernel >= p->m->kernels.n)
        return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "kernel %u: the program has %u", kernel, p->m->kernels.n);
    if (p->image && !p->info.found) return *out = image_kernel(&p->part->kernels[kernel]), SN_OK;
    sn_module *m = sn_program_module(p);
    sn_kern kern = m->kernels.at[kernel];
    const sn_kern_rec *k = sn_kern_get(m, kern);
    sn_launch launch = sn_kern_launch(m, kern);
    *out = (sn_kernel_info){.name = k->name,
                            .note = k->note ? k->note : "",
                            .from = k->from ? k->from : "",
                            .block_x = launch.block_x,
                            .block_y = launch.block_y,
                            .ptx = p->codes && !sn_kern_is_library(k) ? p->codes[kernel].ptx : NULL,
                            .library = p->libraries ? p->libraries[kernel] : NULL,
                            .schedule = schedule_of(p, k, kernel),
                            .kind = sn_sched_kind(&k->sched),
                            .instead_of = -1,
                            .runs = !k->alternative_of.i};
    sn_ix_is_const(m, launch.grid, &out->grid);
    if (k->alternative_of.i) out->instead_of = (int)sn_kern_numbers(m, &p->ctx->scratch)[k->alternative_of.i];
    if (p->info.found) out->ptx = p->part->kernels[kernel].launch.ptx;
    if (p->prog) picked_info(out, p, kernel);
    return SN_OK;
}

sn_status sn_program_kernel(sn_kernel_info *out, const sn_program *p, unsigned kernel) {
    sn_program *own = (sn_program *)(uintptr_t)p;
    SN_TRY(sn_program_look(own));
    SN_GUARD_RETURN(p, kernel_info(out, own, kernel), out);
}

/* ---- stages ---- */

static sn_status stage_graph(sn_text *t, sn_program *p, const char *last_pass) {
    (void)last_pass;
    sn_module_print(t, p->source);
    return SN_OK;
}

static sn_status run_prefix(sn_text *t, sn_program *p, sn_module **m, const char *last_pass) {
    sn_pass_options o = {
        .pipeline = p->pipeline, .choosing = p->choosing, .stop_after = last_pass, .library = sn_program_library(p)};
    SN_TRY(sn_source_copy(m, &p->ctx->env, p->source));
    SN_TRY(sn_passes_run(m, &p->target, &o));
    sn_module_print(t, *m);
    return SN_OK;
}

static sn_status stage_prefix(sn_text *t, sn_program *p, const char *last_pass) {
    sn_module *m = NULL;
    sn_status status = run_prefix(t, p, &m, last_pass);
    sn_module_free(m);
    return status;
}

static sn_status stage_llvm(sn_text *t, sn_program *p, const char *last_pass) {
    (void)last_pass;
    sn_arena *a = &p->ctx->scratch;
    SN_TRY(sn_program_guard(p));
    if (!p->gpu_code) {
        sn_target host;
        char *text;
        sn_target_host(&host, p->target.units);
        SN_TRY(sn_host_llvm(&text, p->m, &host, a));
        sn_text_put(t, text);
        return SN_OK;
    }
    for (uint32_t k = 0; k < p->m->kernels.n; k++) {
        sn_gpu_code code;
        SN_TRY(sn_nvptx_emit(&code, p->m, p->m->kernels.at[k], &p->target, true, a));
        sn_text_put(t, code.llvm);
    }
    return SN_OK;
}

static sn_status stage_ptx(sn_text *t, sn_program *p, const char *last_pass) {
    (void)last_pass;
    if (!p->gpu_code)
        return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT,
                       "stage ptx: the program is for the CPU; compile it with target sm_90");
    for (uint32_t k = 0; k < p->m->kernels.n; k++) sn_text_put(t, p->codes[k].ptx);
    return SN_OK;
}

static sn_status stage_wrapper(sn_text *t, sn_program *p, const char *last_pass) {
    (void)last_pass;
    sn_wrap_print(t, p->m);
    return SN_OK;
}

static sn_status stage_memory(sn_text *t, sn_program *p, const char *last_pass) {
    (void)last_pass;
    return sn_wrap_print_memory(t, p->m, &p->ctx->scratch);
}

static sn_status stage_wrapper_c(sn_text *t, sn_program *p, const char *last_pass) {
    (void)last_pass;
    sn_source source;
    SN_TRY(sn_program_source(&source, p, &p->ctx->scratch));
    source.weights_given = true;
    return sn_wrapper_c(t, p->m, &source);
}

typedef struct stage {
    const char *name;
    sn_status (*print)(sn_text *t, sn_program *p, const char *last_pass);
    const char *last_pass;
    sn_phase needs;
} stage;

static const stage stages[] = {
    {"graph", stage_graph, NULL, SN_PHASE_BOUND},          {"loops", stage_prefix, "to-loops", SN_PHASE_BOUND},
    {"fused", stage_prefix, "collapse", SN_PHASE_BOUND},   {"scheduled", stage_prefix, "async-copy", SN_PHASE_BOUND},
    {"llvm", stage_llvm, NULL, SN_PHASE_PASSES},           {"ptx", stage_ptx, NULL, SN_PHASE_CODE},
    {"wrapper", stage_wrapper, NULL, SN_PHASE_PASSES},     {"memory", stage_memory, NULL, SN_PHASE_PASSES},
    {"wrapper-c", stage_wrapper_c, NULL, SN_PHASE_SOURCE},
};

static sn_status find_stage(const stage **out, sn_context *ctx, const char *name) {
    const char *known = "";
    for (size_t k = 0; k < SN_COUNT(stages); k++) {
        known = sn_strf(&ctx->scratch, "%s%s%s", known, k ? ", " : "", stages[k].name);
        if (strcmp(stages[k].name, name)) continue;
        *out = &stages[k];
        return SN_OK;
    }
    return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "stage: '%s' is none of %s", name, known);
}

static sn_status print_stage(char **out, sn_program *p, const stage *s) {
    sn_text t;
    sn_text_init(&t, &p->ctx->env);
    sn_status status = s->print(&t, p, s->last_pass);
    if (status == SN_OK) return sn_text_give(out, p->ctx, &t);
    sn_text_free(&t);
    return status;
}

/* Code of a program that was found, as it was made. */
static sn_status emit_again(sn_program *view, sn_program *p) {
    view->codes = SN_NEWN(&p->ctx->scratch, sn_gpu_code, view->m->kernels.n + 1);
    return sn_nvptx_emit_all(view->codes, view->m, &p->target, NULL, NULL, &p->ctx->scratch);
}

static sn_status dump(char **out, sn_program *p, const char *name) {
    const stage *s;
    SN_TRY(find_stage(&s, p->ctx, name));
    if (s->print != stage_wrapper) SN_TRY(sn_program_needs_graph(p, sn_strf(&p->ctx->scratch, "stage %s", name)));
    if (!p->info.found) return print_stage(out, p, s);
    sn_program view = *p; /* as if it had been compiled */
    view.m = sn_program_module(p);
    if (p->gpu_code) SN_TRY(emit_again(&view, p));
    return print_stage(out, &view, s);
}

sn_status sn_program_dump(char **out, sn_program *p, const char *stage) {
    if (out) *out = NULL;
    SN_TRY(sn_program_look(p));
    SN_MAKE_RETURN(out, p, dump(out, p, stage), stage);
}

static void destroy_half(void *p) { sn_program_destroy(p); }

static sn_status emit(char **out, sn_graph *g, const sn_compile_options *options, const char *name) {
    const stage *s;
    sn_program *p;
    SN_TRY(find_stage(&s, g->ctx, name));
    SN_TRY(sn_compile_to(&p, g, options, s->needs));
    sn_making_begin(g->ctx, p, destroy_half); /* so that an error below destroys it */
    SN_TRY(print_stage(out, p, s));
    sn_making_end(g->ctx, p);
    sn_program_destroy(p);
    return SN_OK;
}

sn_status sn_graph_emit(char **out, sn_graph *g, const sn_compile_options *options, const char *stage) {
    SN_MAKE_RETURN(out, g, emit(out, g, options, stage), stage);
}
