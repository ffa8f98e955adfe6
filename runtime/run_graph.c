/* run_graph.c: runs by a CUDA graph, whose launch costs the host about as much as that of one kernel.
 *
 *     run 1    k0(x, t)  k1(t, u)  copy y from u     launched one by one; x, y are the caller's
 *     run 2    a graph of three nodes is built, and launched
 *     run 3    x has moved: the arguments of node 0 are set anew, and the graph is launched
 *
 * A node for each launch, copy and call of a library that the wrapper makes, in its order: the wrapper is gone through with
 * callbacks that add nodes instead of launching, and later with the same ones to find those whose arguments have changed.
 * What a library queues is captured on a stream of ours and becomes a child graph.
 *
 * Each node depends on the one before it, not on those whose buffers it needs: the planned workspace is used again and
 * again, so most of what buffers would allow memory forbids; the results are those of the same launches in the same
 * order, bit for bit; and the driver launches straight lines of nodes in constant time. Kernels that may start early do so in
 * a graph as well, by programmatic edges.
 *
 * Cost: see is_worth. A caller who is capturing the stream gets the launches one by one, as part of his own graph.
 */
#include "runtime/prog.h"

#include <stdio.h>
#include <string.h>

/* Nanoseconds of the host: a launch; the launch of a graph, and what each node adds; a node whose arguments are set anew.
 * REASON: published figures for drivers of CUDA 12 and 13 (a launch 2 to 2.5 us; 80 nodes 3.5 us), not our own. */
enum { LAUNCH_NS = 2200, GRAPH_NS = 2500, NODE_NS = 15, UPDATE_NS = 600 };

/* ---- sizes ---- */

static bool is_queued(const sn_prog *p, const sn_rt_step *s) {
    return s->kind == SN_STEP_COPY ||
           (s->kind == SN_STEP_CALL && (p->codes[s->kernel].k.grid || p->codes[s->kernel].k.library));
}

/* By buffer id: 1 + the position of the input or output whose storage it has, now that the steps have come so far. */
static void follow(uint32_t *io_of, const sn_rt_step *s) {
    if (s->kind == SN_STEP_REUSE) io_of[s->buf.i] = io_of[s->from.i];
    if (s->kind == SN_STEP_ALLOC) io_of[s->buf.i] = 0;
}

/* An input or output that a step has twice is counted twice: the figure is an upper bound. */
static void count_step(sn_run_graphs *g, const uint32_t *io_of, const sn_rt_step *s) {
    bool copies = s->kind == SN_STEP_COPY;
    g->room++;
    g->room_addresses += copies ? 2 : s->n_args;
    for (uint32_t k = 0; k < s->n_args; k++)
        if (io_of[s->args[k].buf.i]) g->io_steps[io_of[s->args[k].buf.i] - 1]++;
    if (copies && io_of[s->buf.i]) g->io_steps[io_of[s->buf.i] - 1]++;
    if (copies && io_of[s->from.i]) g->io_steps[io_of[s->from.i] - 1]++;
}

void sn_run_graph_init(sn_prog_state *st) {
    const sn_prog *p = st->p;
    sn_run_graphs *g = &st->graph;
    uint32_t *io_of = SN_NEWN(&st->arena, uint32_t, p->n_places);
    g->io_at = SN_NEWN(&st->arena, void *, p->n_ios + 1);
    g->io_steps = SN_NEWN(&st->arena, uint32_t, p->n_ios + 1);
    for (uint32_t i = 0; i < p->n_ios; i++) io_of[p->ios[i].buf.i] = i + 1;
    for (uint32_t i = p->n_prepare; i < p->n_steps; i++) {
        follow(io_of, &p->steps[i]);
        if (is_queued(p, &p->steps[i])) count_step(g, io_of, &p->steps[i]);
    }
    g->steps = SN_NEWN(&st->arena, sn_graph_step, g->room + 1);
    g->addresses = SN_NEWN(&st->arena, void *, g->room_addresses + 1);
}

void sn_prog_state_graphs(sn_prog_state *st, sn_graphs_mode mode) {
    const sn_cuda_api *api = st->cu ? &st->cu->api : NULL;
    st->graph.mode = st->cu ? mode : SN_GRAPHS_OFF;
    st->graph.useless = !st->graph.room || !api->cuGraphAddKernelNode || !api->cuGraphExecKernelNodeSetParams;
}

/* ---- nodes ---- */

/* A wrapper makes the same calls in each run; if one does not, there is no graph for it. */
static sn_status steps_differ(sn_prog_state *st) {
    return sn_fail(st->env, SN_ERROR_UNSUPPORTED, "graphs: the launches of this program differ from run to run");
}

static sn_status next_step(sn_graph_step **out, bool *moved, sn_prog_state *st, sn_graph_step is,
                           void *const *addresses, uint32_t n) {
    sn_run_graphs *g = &st->graph;
    sn_graph_step *s = *out = &g->steps[g->at];
    bool fits = g->exec ? g->at < g->n && s->kernel == is.kernel && s->size == is.size
                        : g->at < g->room && g->n_addresses + n <= g->room_addresses;
    if (!fits) return steps_differ(st);
    *moved = !g->exec || memcmp(&g->addresses[s->first], addresses, n * sizeof *addresses) != 0;
    if (!g->exec) {
        *s = is;
        s->first = g->n_addresses;
        g->n_addresses += n;
        g->n++;
    }
    if (*moved) memcpy(&g->addresses[s->first], addresses, n * sizeof *addresses);
    g->at++;
    return SN_OK;
}

/* The node before, on which a new one depends. */
static const CUgraphNode *before(const sn_run_graphs *g, const sn_graph_step *s) {
    return s == g->steps ? NULL : &s[-1].node;
}

static bool is_kernel(const sn_prog *p, const sn_graph_step *s) {
    return s->kernel != SN_GRAPH_COPY && !p->codes[s->kernel].k.library;
}

static sn_status check_kernel(sn_prog_state *st, const sn_graph_step *s, CUresult result, const char *call) {
    if (result == CUDA_SUCCESS) return SN_OK;
    char what[256];
    snprintf(what, sizeof what, "kernel %s in a graph: %s", st->p->codes[s->kernel].k.name, call);
    return sn_cuda_check(st->cu, result, what);
}

static sn_status add_kernel(sn_prog_state *st, sn_graph_step *s, const CUkernelNode *launch) {
    static const CUgraphEdge early = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                      .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    const sn_run_graphs *g = &st->graph;
    const sn_cuda_api *api = &st->cu->api;
    const CUgraphNode *from = before(g, s);
    bool is_early = from && api->cuGraphAddDependencies && sn_exec_early(st->cu) && is_kernel(st->p, s - 1);
    bool waits = from && !is_early;
    CUresult result = api->cuGraphAddKernelNode(&s->node, g->graph, waits ? from : NULL, waits, launch);
    SN_TRY(check_kernel(st, s, result, "cuGraphAddKernelNode"));
    if (!is_early) return SN_OK;
    result = api->cuGraphAddDependencies(g->graph, from, &s->node, &early, 1);
    return check_kernel(st, s, result, "cuGraphAddDependencies");
}

static sn_status take_kernel(sn_prog_state *st, sn_graph_step *s, void *const *params) {
    const sn_rt_kernel *k = &st->p->codes[s->kernel].k;
    const sn_run_graphs *g = &st->graph;
    SN_TRY(sn_exec_params(st, s->kernel, params));
    CUkernelNode launch = {.function = st->p->cuda_codes[s->kernel].function,
                           .grid_x = (unsigned)k->grid,
                           .grid_y = 1,
                           .grid_z = 1,
                           .block_x = k->block_x,
                           .block_y = k->block_y,
                           .block_z = 1,
                           .shared_bytes = k->shared_bytes,
                           .params = st->param_addresses};
    if (!g->exec) return add_kernel(st, s, &launch);
    CUresult result = st->cu->api.cuGraphExecKernelNodeSetParams(g->exec, s->node, &launch);
    return check_kernel(st, s, result, "cuGraphExecKernelNodeSetParams");
}

/* What the library queues for the call, as a graph that the caller destroys. */
static sn_status capture_call(CUgraph *out, sn_prog_state *st, uint32_t kernel, void *const *params) {
    sn_cuda *cu = st->cu;
    sn_run_graphs *g = &st->graph;
    void *stream = st->stream;
    if (!g->stream) SN_TRY(CU_CALL(cu, cuStreamCreate, (&g->stream, CU_STREAM_NON_BLOCKING)));
    SN_TRY(CU_CALL(cu, cuStreamBeginCapture, (g->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)));
    st->stream = g->stream;
    sn_status status = sn_exec_call(st, kernel, params);
    st->stream = stream;
    CUresult ended = cu->api.cuStreamEndCapture(g->stream, out); /* in any case, or the stream is lost */
    return status == SN_OK ? sn_cuda_check(cu, ended, "cuStreamEndCapture") : status;
}

static sn_status take_call(sn_prog_state *st, sn_graph_step *s, void *const *params) {
    sn_cuda *cu = st->cu;
    sn_run_graphs *g = &st->graph;
    const CUgraphNode *from = before(g, s);
    CUgraph child = NULL;
    sn_status status = capture_call(&child, st, s->kernel, params);
    if (status == SN_OK)
        status = g->exec ? CU_CALL(cu, cuGraphExecChildGraphNodeSetParams, (g->exec, s->node, child))
                         : CU_CALL(cu, cuGraphAddChildGraphNode, (&s->node, g->graph, from, from != NULL, child));
    if (child) cu->api.cuGraphDestroy(child); /* the node has a copy */
    return status;
}

static int take_launch(void *user, uint32_t kernel, void *const *params) {
    sn_prog_state *st = user;
    const sn_code *code = &st->p->codes[kernel];
    sn_graph_step *s;
    bool moved;
    if (!code->k.library && !code->k.grid) return SN_OK;
    SN_TRY(next_step(&s, &moved, st, (sn_graph_step){.kernel = kernel}, params, code->n_params));
    if (moved) return (int)(code->k.library ? take_call(st, s, params) : take_kernel(st, s, params));
    if (code->k.n_maps) st->next_map = (st->next_map + code->k.n_maps) % st->p->n_maps; /* those stay as they are */
    return SN_OK;
}

static int take_copy(void *user, void *to, const void *from, int64_t size) {
    sn_prog_state *st = user;
    sn_cuda *cu = st->cu;
    const sn_run_graphs *g = &st->graph;
    void *const addresses[] = {to, (void *)(uintptr_t)from};
    sn_graph_step *s;
    bool moved;
    if (!size) return SN_OK;
    SN_TRY(next_step(&s, &moved, st, (sn_graph_step){.kernel = SN_GRAPH_COPY, .size = size}, addresses, 2));
    if (!moved) return SN_OK;
    CUmemcpy3D copy = {.from = {.type = CU_MEMORYTYPE_DEVICE, .device = sn_device_address(from)},
                       .to = {.type = CU_MEMORYTYPE_DEVICE, .device = sn_device_address(to)},
                       .bytes = (size_t)size,
                       .height = 1,
                       .depth = 1};
    const CUgraphNode *after = before(g, s);
    return g->exec
               ? (int)CU_CALL(cu, cuGraphExecMemcpyNodeSetParams, (g->exec, s->node, &copy, cu->context))
               : (int)CU_CALL(cu, cuGraphAddMemcpyNode, (&s->node, g->graph, after, after != NULL, &copy, cu->context));
}

static const sn_machine taking = {take_launch, take_copy};

/* ---- the graph ---- */

/* The context is current. A launch that is still under way keeps what it needs. */
static void drop_graph(sn_prog_state *st) {
    sn_run_graphs *g = &st->graph;
    if (g->exec) st->cu->api.cuGraphExecDestroy(g->exec);
    if (g->graph) st->cu->api.cuGraphDestroy(g->graph);
    g->exec = NULL;
    g->graph = NULL;
    g->n = g->n_addresses = 0;
}

void sn_run_graph_drop(sn_prog_state *st) {
    sn_run_graphs *g = &st->graph;
    if (!g->graph && !g->stream) return;
    bool entered = sn_cuda_enter_to_free(st->cu);
    drop_graph(st);
    if (g->stream) st->cu->api.cuStreamDestroy(g->stream);
    g->stream = NULL;
    sn_cuda_leave_from(st->cu, entered);
}

static sn_status make(sn_prog_state *st, void *const *inputs, void *const *outputs, bool use_interpreter) {
    sn_run_graphs *g = &st->graph;
    bool is_new = !g->exec;
    g->at = 0;
    if (is_new) SN_TRY(CU_CALL(st->cu, cuGraphCreate, (&g->graph, 0)));
    SN_TRY(sn_exec_steps(st, &taking, inputs, outputs, use_interpreter));
    if (g->at != g->n) return steps_differ(st);
    return is_new ? CU_CALL(st->cu, cuGraphInstantiate, (&g->exec, g->graph, 0)) : SN_OK;
}

/* In how many steps, at most, an address differs from that of the last run; remembers those of this one. */
static uint32_t count_moved(sn_prog_state *st, void *const *inputs, void *const *outputs) {
    sn_run_graphs *g = &st->graph;
    uint32_t n = 0;
    for (uint32_t i = 0; i < st->p->n_ios; i++) {
        void *now = sn_io_address(&st->p->ios[i], inputs, outputs);
        if (g->io_at[i] == now) continue;
        g->io_at[i] = now;
        n += g->io_steps[i];
    }
    return n < g->room ? n : g->room;
}

/* By the time of the host: a graph for two launches or more, if not too many arguments move in every run. What runs twice
 * will run more often: then building, which costs as much as some twenty launches, comes back. */
static bool is_worth(const sn_run_graphs *g, uint32_t moved) {
    if (g->mode == SN_GRAPHS_ON) return true;
    uint64_t n = g->room, plain = n * LAUNCH_NS, graph = GRAPH_NS + n * NODE_NS + (uint64_t)moved * UPDATE_NS;
    return g->has_run && graph < plain;
}

/* Where this cannot be said, the launches themselves say why. */
static bool is_captured(const sn_prog_state *st) {
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    return st->cu->api.cuStreamIsCapturing(st->stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* A graph that stands for these arguments. What was changed by half goes. What the driver allocates for it would spoil captures of
 * other threads, were this one not out of their sight. */
static sn_status bring_up_to_date(sn_prog_state *st, void *const *inputs, void *const *outputs, bool use_interpreter) {
    sn_run_graphs *g = &st->graph;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (g->is_current) return SN_OK;
    SN_TRY(CU_CALL(st->cu, cuThreadExchangeStreamCaptureMode, (&mode)));
    sn_status status = make(st, inputs, outputs, use_interpreter);
    g->is_current = status == SN_OK;
    if (!g->is_current) drop_graph(st);
    st->cu->api.cuThreadExchangeStreamCaptureMode(&mode);
    return status;
}

sn_status sn_run_graph(sn_prog_state *st, void *const *inputs, void *const *outputs, bool use_interpreter) {
    sn_run_graphs *g = &st->graph;
    if (g->useless) return sn_exec_plainly(st, inputs, outputs, use_interpreter);
    uint32_t moved = count_moved(st, inputs, outputs);
    bool worth = is_worth(g, moved);
    g->is_current &= !moved;
    g->has_run = true;
    if (!worth || is_captured(st)) return sn_exec_plainly(st, inputs, outputs, use_interpreter);
    sn_status status = bring_up_to_date(st, inputs, outputs, use_interpreter);
    if (status == SN_OK) return CU_CALL(st->cu, cuGraphLaunch, (g->exec, st->stream));
    if (g->mode == SN_GRAPHS_ON || status == SN_ERROR_ARGUMENT) return status;
    sn_env_clear(st->env);
    g->useless = true;
    return sn_exec_plainly(st, inputs, outputs, use_interpreter);
}
