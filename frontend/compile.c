/* compile.c: from a graph to a loaded program: bind sizes, choose device and target, run the passes, generate code,
 * load.
 *
 * Relies on everything below frontend/. The order of the phases is compile(), near the end. Kernels for CUDA become
 * PTX, one text each; on the CPU kernels and wrapper become one piece of host code. Does not run anything (run.c).
 */
#include "frontend/context/names.h"
#include "frontend/frontend.h"
#include "frontend/multi.h"
#include "frontend/replace.h"

#include <string.h>
#include <time.h>

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* ---- sizes ---- */

typedef struct symbol_search {
    const sn_module *m;
    uint8_t *seen; /* by symbol */
    bool any;
} symbol_search;

static void note_symbol(void *user, sn_ix atom) {
    symbol_search *s = user;
    const sn_ix_rec *e = sn_ix_get(s->m, atom);
    if (e->kind != SN_IX_SYM) return;
    s->seen[e->id] = 1;
    s->any = true;
}

/* Fails with the names of all sizes that are still symbols. */
static sn_status check_bound(sn_context *ctx, const sn_module *m) {
    symbol_search s = {.m = m, .seen = SN_NEWN(&ctx->scratch, uint8_t, m->syms.count + 1)};
    for (uint32_t i = 1; i < m->graph.nodes.count; i++) {
        const sn_type *t = &sn_node_get(m, (sn_nd){i})->type;
        const sn_attr *elements = sn_node_attr(m, (sn_nd){i}, SN_ATTR_ELEMENTS);
        for (uint32_t k = 0; k < t->rank; k++) sn_ix_walk(m, t->shape[k], note_symbol, &s);
        for (uint32_t k = 0; elements && k < elements->shape.n; k++)
            sn_ix_walk(m, elements->shape.at[k], note_symbol, &s);
    }
    for (uint32_t i = 0; i < m->graph.inputs.n; i++) {
        const sn_graph_input *in = &m->graph.inputs.at[i];
        uint32_t rank = sn_node_get(m, in->node)->type.rank;
        for (uint32_t k = 0; k < rank; k++) sn_ix_walk(m, in->stride[k], note_symbol, &s);
        sn_ix_walk(m, in->offset, note_symbol, &s);
    }
    if (!s.any) return SN_OK;
    const char *names = NULL, *example = "";
    for (uint32_t i = 1; i < m->syms.count; i++) {
        if (!s.seen[i]) continue;
        const char *name = sn_sym_get(m, (sn_sym){i})->name;
        if (!names) example = name;
        names = names ? sn_strf(&ctx->scratch, "%s, %s", names, name) : name;
    }
    return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "graph %s: no size given for %s (--dim %s=8, or dims in the options)",
                   m->graph.name, names, example);
}

static bool has_symbol(const sn_module *m, const char *name) {
    for (uint32_t i = 1; i < m->syms.count; i++)
        if (!strcmp(sn_sym_get(m, (sn_sym){i})->name, name)) return true;
    return false;
}

static const char *symbol_at(const void *at, uint32_t k) { return sn_sym_get(at, (sn_sym){k + 1})->name; }

static sn_status fail_size(sn_context *ctx, const sn_module *m, const char *name) {
    const sn_name_list all = {m, m->syms.count - 1, symbol_at};
    if (!all.n)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "size %s: graph %s has no size of that name; there are none", name,
                       m->graph.name);
    return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "size %s: graph %s has no size of that name; nearest of its %u: %s",
                   name, m->graph.name, all.n, sn_names_nearest(&ctx->scratch, &all, name));
}

/* A module that has kernels already (from text, with schedules that somebody pinned) is taken as it stands. */
sn_status sn_source_copy(sn_module **out, sn_env *env, const sn_module *from) {
    *out = sn_module_new(env);
    if (!from->kernels.n) return sn_graph_copy(*out, from, NULL, NULL, 0);
    sn_text t;
    sn_text_init(&t, env);
    sn_module_print(&t, from);
    sn_status status = sn_module_parse(*out, "copy", t.s, t.n);
    sn_text_free(&t);
    sn_wt_share(*out, from);
    return status;
}

sn_status sn_graph_bind(sn_module **out, sn_context *ctx, const sn_module *graph, const sn_dim_binding *dims,
                        unsigned n, sn_precision precision) {
    if (graph->kernels.n && n)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "sizes cannot be bound once there are kernels; bind the graph");
    if (graph->kernels.n) {
        SN_TRY(sn_source_copy(out, &ctx->env, graph));
        return check_bound(ctx, *out);
    }
    if (n > SN_LIST_MAX) return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "dims: %u are given; at most %d", n, SN_LIST_MAX);
    const char **names = SN_NEWN(&ctx->scratch, const char *, n + 1);
    int64_t *sizes = SN_NEWN(&ctx->scratch, int64_t, n + 1);
    for (unsigned k = 0; k < n; k++) {
        names[k] = dims[k].name ? dims[k].name : "";
        sizes[k] = dims[k].size;
        if (!has_symbol(graph, names[k])) return fail_size(ctx, graph, names[k]);
        for (unsigned j = 0; j < k; j++)
            if (!strcmp(names[j], names[k]))
                return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "size %s: given twice", names[k]);
        if (sizes[k] < 0)
            return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "size %s: %lld is negative", names[k], (long long)sizes[k]);
    }
    *out = sn_module_new(&ctx->env);
    SN_TRY(sn_graph_copy_in(*out, graph, names, sizes, n, precision));
    return check_bound(ctx, *out);
}

/* ---- device and target ---- */

static sn_status find_cuda(sn_cuda **out, sn_program *p, const sn_settings *s) {
    *out = NULL;
    if (!s->want_cuda || (s->target && (!s->on_device || !strcmp(s->target, "host")))) return SN_OK;
    char why[256] = "";
    uint32_t count = sn_cuda_count(why, sizeof why);
    if (s->ordinal >= count) {
        if (!s->must_cuda) return SN_OK;
        if (!count)
            return sn_fail(&p->ctx->env, SN_ERROR_DEVICE, "no CUDA device: %s",
                           why[0] ? why : "the driver reports none");
        return sn_fail(&p->ctx->env, SN_ERROR_DEVICE, "no CUDA device %u: there are %u", s->ordinal, count);
    }
    p->device = (int)s->ordinal;
    return sn_context_cuda(out, p->ctx, p->device);
}

/* The device's own figures, or those of a target that was named: a program for that, as an image of it is. */
static sn_status target_on_device(sn_program *p, const char *name, const sn_target *device) {
    sn_env *env = &p->ctx->env;
    if (!name) {
        SN_TRY(sn_target_for_sm(&p->target, env, device->sm)); /* what is known of its generation */
        sn_cuda_target(p->ctx->cuda[p->device], &p->target);   /* what this one says of itself */
        sn_target_name_figures(&p->target);
        return SN_OK;
    }
    SN_TRY(sn_target_named(&p->target, env, name));
    if (p->target.sm <= device->sm && (!p->target.specific || p->target.sm == device->sm) &&
        p->target.shared_bytes <= device->shared_bytes)
        return SN_OK;
    return sn_fail(env, SN_ERROR_TARGET, "target %s: device %d is sm_%u, which does not run it", name, p->device,
                   device->sm);
}

static sn_status choose_machine(sn_cuda **cu, sn_program *p, const sn_settings *s) {
    sn_env *env = &p->ctx->env;
    p->device = SN_CPU;
    p->interpreted = s->interpreted;
    p->graphs = s->graphs;
    p->trusted = s->trusted;
    SN_TRY(find_cuda(cu, p, s));
    p->runnable = true;
    if (*cu) {
        sn_target device = {0};
        sn_cuda_target(*cu, &device);
        p->gpu_code = true;
        return target_on_device(p, s->target, &device);
    }
    const char *name = s->target ? s->target : s->gpu_schedule ? "sm_90" : NULL;
    if (!name || !strcmp(name, "host")) {
        sn_target_host(&p->target, s->threads);
        return SN_OK;
    }
    SN_TRY(sn_target_named(&p->target, env, name));
    p->gpu_code = !s->gpu_schedule;
    p->runnable = s->gpu_schedule;
    return SN_OK;
}

static sn_status choose_target(sn_cuda **cu, sn_program *p, const sn_settings *s) {
    SN_TRY(choose_machine(cu, p, s));
    if (s->alignment) p->target.io_align = s->alignment;
    return SN_OK;
}

/* ---- code ---- */

static void run_on_pool(void *pool, int64_t n, void (*piece)(void *user, int64_t begin, int64_t end), void *user) {
    sn_pool_run(pool, n, piece, user);
}

sn_status sn_program_guard(sn_program *p) {
    sn_pass_options o = {.pipeline = "guard", .verify = SN_VERIFY_ENDS};
    return p->source->kernels.n && !p->trusted ? sn_passes_run(&p->m, &p->target, &o) : SN_OK;
}

static sn_status generate_on(sn_program *p, const sn_workers *workers, uint32_t threads) {
    if (p->gpu_code) {
        p->codes = SN_NEWN(&p->arena, sn_gpu_code, p->m->kernels.n + 1);
        SN_TRY(sn_nvptx_emit_all(p->codes, p->m, &p->target, workers, p->cache, &p->arena));
    }
    if (!p->runnable) return SN_OK;
    sn_target host;
    sn_target_host(&host, threads);
    return sn_host_compile(&p->host, p->m, !p->gpu_code, &host, workers, p->cache);
}

static void open_cache(sn_program *p, const sn_settings *s) {
    if (!s->cache) return;
    p->cache = sn_cache_open(&p->arena, sn_strdup(&p->arena, s->cache), s->cache_size);
    if (sn_metric_wanted(p->metrics, SN_METRIC_CACHE_EVENTS)) sn_cache_note(p->cache, &p->arena, p->m->kernels.n);
}

static void record_cache(sn_program *p, const sn_cache *c) {
    sn_metric_log *log = p->metrics;
    char key[SN_CACHE_KEY_TEXT];
    for (uint32_t k = 0; k < c->n_events && k < c->most_events; k++) {
        const sn_cache_event *e = &c->events[k];
        sn_row_cache_events *row = SN_ADD_ROW(log, CACHE_EVENTS, cache_events);
        sn_cache_key_text(key, e->key);
        *row = (sn_row_cache_events){.event = sn_cache_event_names[e->what],
                                     .kind = sn_cache_kind_names[e->kind],
                                     .key = sn_metric_text(log, key),
                                     .bytes = e->bytes ? (int64_t)e->bytes : SN_UNKNOWN};
    }
    sn_metric_count(log, SN_COUNTER_CACHE_HITS, c->hits);
    sn_metric_count(log, SN_COUNTER_CACHE_MISSES, c->misses);
    sn_metric_count(log, SN_COUNTER_CACHE_STORED, c->stored);
    sn_metric_count(log, SN_COUNTER_CACHE_EVICTED, c->evicted);
    sn_metric_count(log, SN_COUNTER_CACHE_DAMAGED, c->bad);
}

static void close_cache(sn_program *p, const sn_settings *s) {
    sn_cache *c = p->cache;
    sn_program_say_ptxas(p);
    if (!c) return;
    sn_cache_trim(c, &p->ctx->env);
    record_cache(p, c);
    p->info.cached = true;
    p->info.cache_hits = c->hits;
    p->info.cache_misses = c->misses;
    p->info.cache_stored = c->stored;
    p->info.cache_evicted = c->evicted;
    p->info.cache_damaged = c->bad;
    if (c->warning[0] && s->passes.print)
        s->passes.print(s->passes.print_user, sn_strf(&p->ctx->scratch, "%s\n", c->warning));
    p->cache = NULL;
}

/* A single kernel needs no threads, and starting them takes longer than a small one. */
static sn_status generate(sn_program *p, uint32_t threads) {
    SN_TRY(sn_program_guard(p));
    uint32_t most = p->m->kernels.n, workers_wanted = threads ? threads : sn_processors();
    p->pool = most > 1 ? sn_pool_new(&p->ctx->env, workers_wanted < most ? workers_wanted : most) : NULL;
    sn_workers workers = {run_on_pool, p->pool};
    sn_status status = generate_on(p, p->pool ? &workers : NULL, threads);
    sn_pool_free(p->pool);
    p->pool = NULL;
    return status;
}

static sn_status launch_size(sn_rt_kernel *out, sn_program *p, uint32_t k) {
    sn_kern kern = p->m->kernels.at[k];
    sn_launch launch = sn_kern_launch(p->m, kern);
    *out = (sn_rt_kernel){.name = sn_kern_get(p->m, kern)->name, .block_x = launch.block_x, .block_y = launch.block_y};
    if (!sn_ix_is_const(p->m, p->gpu_code ? launch.grid : launch.parts, &out->grid))
        return sn_fail(&p->ctx->env, SN_ERROR_INTERNAL, "kernel %s: its grid is not a number", out->name);
    return SN_OK;
}

/* The verifier has seen that there is a call. */
static sn_status library_call(sn_rt_kernel *out, sn_program *p, uint32_t k) {
    sn_kern kern = p->m->kernels.at[k];
    const char *why_not;
    sn_library_call *call = SN_NEW(&p->arena, sn_library_call);
    if (!sn_kern_is_library(sn_kern_get(p->m, kern))) return SN_OK;
    if (!sn_library_read(call, &why_not, p->m, kern))
        return sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "kernel %s: no library can run it: %s", out->name, why_not);
    out->library = call;
    return SN_OK;
}

static void launch_gpu(sn_rt_kernel *out, const sn_gpu_code *code) {
    out->ptx = code->ptx;
    out->ptx_size = code->ptx_size;
    out->grid = code->grid;
    out->block_x = code->block_x;
    out->block_y = code->block_y;
    out->param_block = code->param_block;
    out->cluster = code->cluster;
    out->together = code->together;
    out->shared_bytes = code->shared_bytes;
    out->kept_bytes = code->kept_bytes;
    out->maps = code->maps;
    out->n_maps = code->n_maps;
    out->whole = code->whole;
}

sn_status sn_program_launches(sn_rt_kernel **out, sn_program *p, sn_arena *arena) {
    uint32_t n = p->m->kernels.n;
    sn_rt_kernel *kernels = *out = SN_NEWN(arena, sn_rt_kernel, n + 1);
    const uint32_t *number = sn_kern_numbers(p->m, &p->ctx->scratch);
    for (uint32_t k = 0; k < n; k++) {
        sn_kern first = sn_kern_get(p->m, p->m->kernels.at[k])->alternative_of;
        SN_TRY(launch_size(&kernels[k], p, k));
        kernels[k].alternative_of = first.i ? number[first.i] + 1 : 0;
        SN_TRY(library_call(&kernels[k], p, k));
        if (p->gpu_code) {
            launch_gpu(&kernels[k], &p->codes[k]);
        } else {
            kernels[k].host = sn_host_code_kernel(p->host, k);
            kernels[k].kept_bytes = sn_host_code_kept_bytes(p->host, k);
        }
    }
    return SN_OK;
}

static void end_warming(sn_program *p) {
    sn_warming_end(p->warming);
    p->warming = NULL;
}

static sn_status load(sn_program *p, sn_cuda *cu, uint32_t threads) {
    sn_rt_kernel *kernels;
    end_warming(p);
    SN_TRY(sn_program_launches(&kernels, p, &p->arena));
    sn_cubins keep = sn_program_cubins(p, p->cache);
    return sn_prog_load(&p->prog, p->m, cu, kernels, p->m->kernels.n, sn_host_code_wrapper(p->host), threads, &keep);
}

/* ---- ports ---- */

static void fill_port(sn_port *port, sn_program *p, const char *name, const sn_type *type) {
    *port = (sn_port){.name = sn_strdup(&p->arena, name),
                      .dtype = type->dtype,
                      .rank = type->rank,
                      .writes = -1,
                      .align = sn_dtype_bytes(type->dtype)};
    int64_t step = 1;
    for (uint32_t k = type->rank; k-- > 0; step *= port->shape[k]) {
        port->shape[k] = sn_ix_value(p->source, type->shape[k]);
        port->strides[k] = step;
    }
}

/* Alignment that the kernels rely on, of the buffer of an input or output. Kernels without a graph have no ports. */
static void fill_align(sn_program *p) {
    if (!p->n_outputs) return;
    for (uint32_t i = 1; i < p->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(p->m, (sn_buf){i});
        sn_port *port = b->scope == SN_BUF_INPUT    ? &p->inputs[b->io]
                        : b->scope == SN_BUF_OUTPUT ? &p->outputs[b->io]
                                                    : NULL;
        if (port && b->align > port->align) port->align = b->align;
    }
}

static void fill_ports(sn_program *p) {
    const sn_graph_ir *g = &p->source->graph;
    p->n_inputs = g->inputs.n;
    p->n_outputs = g->outputs.n;
    p->inputs = SN_NEWN(&p->arena, sn_port, p->n_inputs + 1);
    p->outputs = SN_NEWN(&p->arena, sn_port, p->n_outputs + 1);
    p->is_written = SN_NEWN(&p->arena, bool, p->n_inputs + 1);
    p->own_offset = SN_NEWN(&p->arena, int64_t, p->n_outputs + 1);
    for (uint32_t k = 0; k < p->n_inputs; k++) {
        const sn_graph_input *in = &g->inputs.at[k];
        const sn_type *type = &sn_node_get(p->source, in->node)->type;
        fill_port(&p->inputs[k], p, in->name, type);
        for (uint32_t a = 0; a < type->rank; a++) p->inputs[k].strides[a] = sn_ix_value(p->source, in->stride[a]);
        p->inputs[k].offset = sn_ix_value(p->source, in->offset);
        p->inputs[k].optional = in->otherwise.n && !in->writer;
    }
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        fill_port(&p->outputs[k], p, g->outputs.at[k].name, &sn_node_get(p->source, g->outputs.at[k].node)->type);
        p->outputs[k].writes = g->outputs.at[k].writes;
        p->own_offset[k] = -1;
        if (p->outputs[k].writes >= 0) p->is_written[p->outputs[k].writes] = true;
    }
}

size_t sn_port_bytes(const sn_port *port) {
    size_t bytes = sn_dtype_bytes(port->dtype);
    for (unsigned k = 0; k < port->rank; k++) bytes *= (size_t)port->shape[k];
    return bytes;
}

/* Room for outputs that a copy step of the wrapper brings back to their input. An empty one has some too. */
static void place_copied_outputs(sn_program *p) {
    for (uint32_t i = 0; i < p->m->wrap.steps.n; i++) {
        const sn_step *s = &p->m->wrap.steps.at[i];
        if (s->kind != SN_STEP_COPY) continue;
        const sn_buf_rec *to = sn_buf_get(p->m, s->buf), *from = sn_buf_get(p->m, s->from);
        if (to->scope != SN_BUF_INPUT || from->scope != SN_BUF_OUTPUT) continue;
        const sn_port *port = &p->outputs[from->io];
        if (port->writes < 0 || p->own_offset[from->io] >= 0) continue;
        p->own_offset[from->io] = (int64_t)p->own_size;
        p->own_size += sn_storage_round(sn_port_bytes(port) + 1);
    }
}

/* ---- information ---- */

static size_t weight_bytes(const sn_module *m, sn_nd x) {
    return sn_wt_get(m, sn_wt_named(m, sn_node_attr(m, x, SN_ATTR_NAME)->text))->size;
}

static void fill_info(sn_program *p) {
    sn_program_info *info = &p->info;
    info->device = p->device;
    info->runnable = p->runnable;
    info->target = p->target.name;
    info->n_inputs = p->n_inputs;
    info->n_outputs = p->n_outputs;
    info->n_kernels = p->m->kernels.n;
    info->n_launches = (unsigned)sn_wrap_calls(p->m, p->m->wrap.n_prepare, (sn_kern){0});
    int64_t workspace = 0;
    if (p->m->wrap.workspace.i && sn_ix_is_const(p->m, p->m->wrap.workspace, &workspace))
        info->workspace = (size_t)workspace;
    uint8_t *live = SN_NEWN(&p->ctx->scratch, uint8_t, p->source->graph.nodes.count);
    sn_graph_live(p->source, live);
    for (uint32_t k = 0; k < p->n_inputs; k++)
        if (live[p->source->graph.inputs.at[k].node.i]) info->moved += sn_port_bytes(&p->inputs[k]);
    for (sn_nd x = {1}; x.i < p->source->graph.nodes.count; x.i++)
        if (live[x.i] && sn_node_get(p->source, x)->op == SN_OP_WEIGHT) info->moved += weight_bytes(p->source, x);
    for (uint32_t k = 0; k < p->n_outputs; k++) info->moved += sn_port_bytes(&p->outputs[k]);
}

/* ---- all of it ---- */

static void destroy_half(void *p) { sn_program_destroy(p); }

sn_program *sn_program_new(sn_context *ctx) {
    sn_program *p = sn_heap_alloc(&ctx->env, sizeof *p);
    *p = (sn_program){.ctx = ctx, .device = SN_CPU};
    p->runner = (sn_runner){.p = p, .ctx = ctx, .env = &ctx->env, .scratch = &ctx->scratch};
    sn_arena_init(&p->arena, &ctx->env);
    sn_making_begin(ctx, p, destroy_half);
    return p;
}

static void copy_choosing(sn_program *p, const sn_choosing *from) {
    sn_decision *at = SN_NEWN(&p->arena, sn_decision, from->n + 1);
    for (uint32_t k = 0; k < from->n; k++)
        at[k] = (sn_decision){sn_strdup(&p->arena, from->at[k].key), sn_strdup(&p->arena, from->at[k].choice)};
    p->choosing = (sn_choosing){.at = at, .n = from->n, .multi = from->multi, .multi_short = from->multi_short};
    if (from->allowed) p->choosing.allowed = sn_strdup(&p->arena, from->allowed);
}

/* Sizes bound, device and target known, ports described. */
static sn_status bind(sn_program *p, sn_cuda **cu, sn_graph *g, const sn_settings *s) {
    if (s->passes.pipeline) p->pipeline = sn_strdup(&p->arena, s->passes.pipeline);
    copy_choosing(p, &s->passes.choosing);
    p->debug = s->debug;
    sn_debug_keep(&p->debug, &p->arena);
    SN_TRY(sn_graph_bind(&p->source, p->ctx, g->m, s->dims, s->n_dims, s->precision));
    sn_holders_share(p, g);
    fill_ports(p);
    sn_runner_init(&p->runner, &p->arena);
    return choose_target(cu, p, s);
}

/* Loads of class tile with `runs` read whole pieces of memory around a vector, which lie in the buffer because the pass `schedule` has
 * seen to it. Of a kernel whose text says that it is scheduled so nobody knows: its lanes are read one by one. */
static void distrust(sn_module *m) {
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_kern_rec *k = sn_kern_get(m, m->kernels.at[i]);
        if (k->scheduled && k->sched.cls == SN_SCHED_TILE) k->sched.runs = false;
    }
}

sn_status sn_program_run_passes(sn_module **out, sn_program *p, const sn_pass_options *options) {
    sn_pass_options o = *options;
    o.choosing = p->choosing;
    o.library = sn_program_library(p);
    o.metrics = p->metrics;
    SN_TRY(sn_source_copy(out, &p->ctx->env, p->source));
    if (!p->trusted) distrust(*out);
    return sn_passes_run(out, &p->target, &o);
}

/* Who runs what has no code of its own. */
static void find_libraries(sn_program *p) {
    const char *why_not;
    for (uint32_t k = 0; k < p->m->kernels.n; k++) {
        sn_kern kern = p->m->kernels.at[k];
        sn_library_call call;
        if (!sn_kern_is_library(sn_kern_get(p->m, kern)) || !sn_library_read(&call, &why_not, p->m, kern)) continue;
        if (!p->libraries) p->libraries = SN_NEWN(&p->arena, const char *, p->m->kernels.n);
        p->libraries[k] = sn_strdup(&p->arena, sn_program_library_name(p, call.is_conv));
    }
}

/* Records come from outside: where a decision of theirs makes no program, it does not count. */
static sn_status run_passes(sn_program *p, const sn_settings *s, sn_phase last) {
    sn_status status = sn_program_run_passes(&p->m, p, &s->passes);
    sn_program_say_records(p, s);
    bool obeyed = p->n_records_used || p->choosing.n > s->passes.choosing.n;
    if (status != SN_OK && obeyed) {
        const char *why = sn_strf(&p->ctx->scratch, "a recorded choice: %s; not used\n", p->ctx->env.message);
        if (s->passes.print) s->passes.print(s->passes.print_user, why);
        sn_env_clear(&p->ctx->env);
        sn_module_free(p->m);
        p->m = NULL;
        p->choosing.n = s->passes.choosing.n;
        p->choosing.ask = NULL;
        status = sn_program_run_passes(&p->m, p, &s->passes);
    }
    if (status != SN_OK) return status;
    SN_TRY(sn_multi_settle(p, s, last == SN_PHASE_SOURCE));
    SN_TRY(sn_replace_kernels(p, s, last == SN_PHASE_LOADED));
    fill_align(p);
    find_libraries(p);
    return SN_OK;
}

static sn_status load_program(sn_program *p, sn_cuda *cu, const sn_settings *s) {
    place_copied_outputs(p);
    if (!p->runnable) return SN_OK;
    SN_TRY(load(p, cu, s->threads));
    SN_TRY(sn_prog_debug(p->prog, &s->debug));
    sn_multi_record(p, s);
    p->runner.cu = cu;
    SN_TRY(sn_program_load_defaults(p));
    if (!s->idle) SN_TRY(sn_runner_load(&p->runner));
    sn_prog_times times = sn_prog_load_times(p->prog);
    p->info.assemble_us = times.assemble_us;
    p->info.load_us = times.load_us;
    return SN_OK;
}

static sn_status compile(sn_program *p, sn_graph *g, const sn_settings *s, sn_phase last) {
    sn_cuda *cu;
    SN_TRY(bind(p, &cu, g, s)); /* opens the device the first time, which is no part of compiling */
    sn_program_find_library(p, s, last);
    sn_program_find_ptxas(p, s);
    double start = now_us();
    if (last == SN_PHASE_BOUND) return SN_OK;
    if (last == SN_PHASE_LOADED && p->runnable) SN_TRY(sn_graph_check_weights(p->ctx, p->source));
    SN_TRY(sn_program_decide(p, s));
    if (last == SN_PHASE_LOADED && sn_whole_find(p, cu, s)) {
        p->info.load_us = p->info.total_us = now_us() - start;
        return SN_OK;
    }
    if (cu && last == SN_PHASE_LOADED && !s->cache) p->warming = sn_assembler_warm(&p->ctx->env);
    SN_TRY(run_passes(p, s, last));
    double passes_done = now_us();
    p->info.passes_us = passes_done - start;
    fill_info(p);
    if (last == SN_PHASE_PASSES) return SN_OK;
    open_cache(p, s);
    SN_TRY(generate(p, s->threads));
    sn_replace_code(p);
    double code_done = now_us();
    if (last == SN_PHASE_LOADED) SN_TRY(load_program(p, cu, s));
    close_cache(p, s);
    SN_TRY(sn_replace_check(p, g, s));
    sn_replace_end(p);
    p->info.codegen_us = code_done - passes_done;
    p->info.total_us = now_us() - start;
    return SN_OK;
}

sn_status sn_compile_settings(sn_program **out, sn_graph *g, const sn_settings *s, sn_phase last) {
    sn_program *p = sn_program_new(g->ctx);
    p->metrics = sn_metrics_begin(g->ctx, s);
    SN_TRY(compile(p, g, s, last));
    if (last >= SN_PHASE_PASSES && !p->info.found) sn_metrics_record(p);
    if (last >= SN_PHASE_PASSES && !p->info.found) SN_TRY(sn_metrics_fusion_times(p, s));
    if (last == SN_PHASE_LOADED && !p->info.found) sn_whole_keep(p, s);
    sn_metrics_deliver(g->ctx, p->metrics, s, g->m->graph.name);
    p->metrics = NULL;
    sn_making_end(g->ctx, p);
    *out = p;
    return SN_OK;
}

sn_status sn_compile_to(sn_program **out, sn_graph *g, const sn_compile_options *options, sn_phase last) {
    sn_context *ctx = g->ctx;
    if (g->status != SN_OK) return sn_fail(&ctx->env, g->status, "%s", g->message);
    if (g->m->graph.outputs.n == 0 && g->m->kernels.n && last == SN_PHASE_LOADED)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "kernels without a graph can be emitted, not run");
    if (g->m->graph.outputs.n == 0 && !g->m->kernels.n)
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "graph %s: it has no outputs", g->m->graph.name);
    sn_settings s;
    SN_TRY(sn_settings_read(&s, ctx, options));
    return sn_compile_settings(out, g, &s, last);
}

sn_status sn_compile(sn_program **out, sn_graph *g, const sn_compile_options *options) {
    SN_MAKE_RETURN(out, g, sn_compile_to(out, g, options, SN_PHASE_LOADED));
}

/* Its run states would go on with memory that is gone. */
static bool is_used(sn_program *p) {
    unsigned n = atomic_load(&p->n_states);
    if (n && sn_idle(p->ctx)) {
        sn_env_clear(&p->ctx->env);
        sn_fail(&p->ctx->env, SN_ERROR_ARGUMENT, "sn_program_destroy: the program has %u run state%s; destroy %s first",
                n, n > 1 ? "s" : "", n > 1 ? "them" : "it");
    }
    return n > 0;
}

void sn_program_destroy(sn_program *p) {
    if (!p || is_used(p)) return;
    sn_env *env = &p->ctx->env;
    end_warming(p);
    sn_replace_end(p);
    sn_runner_close(&p->runner);
    sn_defaults_free(&p->defaults, env, p->runner.cu);
    if (p->image) p->m = NULL, p->prog = NULL; /* those of `loaded` */
    sn_loaded_free(&p->loaded);
    if (!p->info.found) sn_image_close_files((sn_image *)(uintptr_t)p->image);
    sn_image_unmap(&p->file);
    sn_prog_free(p->prog);
    if (p->host) sn_host_code_free(p->host);
    sn_pool_free(p->pool);
    sn_holders_drop(p->ctx, &p->holders);
    if (p->m) sn_module_free(p->m);
    if (p->source) sn_module_free(p->source);
    if (p->full) sn_module_free(p->full);
    sn_arena_free(&p->arena);
    sn_heap_free(env, p, sizeof *p);
}
