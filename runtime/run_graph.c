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
 * again, so most of what buffers would allow memory forbids; and the results are those of the same launches in the same
 * order, bit for bit. Only copies that follow each other, as those of outputs back to inputs do, are side by side where they touch
 * different memory: they are a row. Kernels that may start early do so in a graph as well, by programmatic edges.
 *
 * Cost on an H100: a launch takes 2.6 us of the host, and 3.1 where more follow; a graph of 1 to 158 nodes 1.5 to 2.2, and one of
 * which some nodes are set anew 0.4 more for each that it has. So from the second run on a graph is never the slower way. Building
 * one comes back within some twenty runs. A program with branches, or with a loop that may end early, has no graph: its launches
 * depend on what its kernels make, which the host has to see. A caller who is capturing the stream gets the launches one by one, as part of
 * his own graph.
 */
#include "runtime/prog.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NODES = 8192 }; /* of a larger graph building takes the driver longer than seems worth it: REASON */

/* ---- sizes ---- */

static bool is_queued(const sn_prog *p, const sn_rt_step *s) {
    return s->kind == SN_STEP_COPY ||
           (s->kind == SN_STEP_CALL && (p->codes[s->kernel].k.grid || p->codes[s->kernel].k.library));
}

/* Steps of a run from first to end, `times` over; a repeat's as often as it runs. Beyond MOST_NODES it does not matter how many. */
static void count_steps(sn_run_graphs *g, const sn_prog *p, uint32_t first, uint32_t end, int64_t times) {
    for (uint32_t i = first; i < end && g->room <= MOST_NODES; i++) {
        const sn_rt_step *s = &p->steps[i];
        if (is_queued(p, s)) {
            uint32_t n = times < MOST_NODES ? (uint32_t)times : MOST_NODES + 1;
            g->room += n;
            g->room_addresses += n * (s->kind == SN_STEP_COPY ? 2 : s->n_args);
        }
        if (s->kind != SN_STEP_REPEAT) continue;
        int64_t inner;
        if (sn_mul_overflow(times, s->size, &inner)) inner = INT64_MAX;
        if (inner > 0) count_steps(g, p, i + 1, s->end, inner);
        i = s->end;
    }
}

void sn_run_graph_init(sn_prog_state *st) {
    const sn_prog *p = st->p;
    sn_run_graphs *g = &st->graph;
    count_steps(g, p, p->n_prepare, p->n_steps, 1);
    if (g->room > MOST_NODES) g->room = 0;
    if (!g->room) return;
    g->io_at = SN_NEWN(&st->arena, void *, p->n_ios + 1);
    g->steps = SN_NEWN(&st->arena, sn_graph_step, g->room);
    g->before = SN_NEWN(&st->arena, CUgraphNode, g->room);
    g->addresses = SN_NEWN(&st->arena, void *, g->room_addresses + 1);
}

/* Nodes of graphs are no cooperative launches. */
static bool any_together(const sn_prog *p) {
    bool any = false;
    for (uint32_t i = p->n_prepare; i < p->n_steps; i++)
        any |= p->steps[i].kind == SN_STEP_CALL && p->codes[p->steps[i].kernel].k.together;
    return any;
}

bool sn_prog_decides(const sn_prog *p) {
    bool any = false;
    for (uint32_t i = p->n_prepare; i < p->n_steps; i++)
        any |= p->steps[i].kind == SN_STEP_IF || p->steps[i].kind == SN_STEP_WHILE;
    return any;
}

void sn_prog_state_graphs(sn_prog_state *st, sn_graphs_mode mode) {
    const sn_cuda_api *api = st->cu ? &st->cu->api : NULL;
    st->graph.mode = st->cu ? mode : SN_GRAPHS_OFF;
    st->graph.useless = !st->graph.room || any_together(st->p) || sn_prog_decides(st->p) ||
                        !api->cuGraphAddKernelNode || !api->cuGraphExecKernelNodeSetParams;
}

/* ---- nodes ---- */

/* A wrapper makes the same calls in each run; if one does not, a graph is built anew. */
static sn_status steps_differ(sn_prog_state *st) {
    return sn_fail(st->env, SN_ERROR_UNSUPPORTED, "graphs: a run of this program launches other than is known of it");
}

static sn_status next_step(sn_graph_step **out, bool *moved, sn_prog_state *st, sn_graph_step is,
                           void *const *addresses, uint32_t n) {
    sn_run_graphs *g = &st->graph;
    sn_graph_step *s = *out = &g->steps[g->at];
    bool fits = g->exec ? g->at < g->n && s->kernel == is.kernel && s->size == is.size && s->row == is.row
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

/* The nodes on which a new one depends: the row before its own. */
static uint32_t find_before(sn_run_graphs *g, const sn_graph_step *s) {
    uint32_t n = 0;
    if (!s->row) return 0;
    for (uint32_t i = g->steps[s->row - 1].row; i < s->row; i++) g->before[n++] = g->steps[i].node;
    return n;
}

static bool apart(const void *a, int64_t a_size, const void *b, int64_t b_size) {
    return (uintptr_t)a + (uintptr_t)a_size <= (uintptr_t)b || (uintptr_t)b + (uintptr_t)b_size <= (uintptr_t)a;
}

/* May the copy be done beside those of the row that ends in front of it? */
static bool joins(const sn_run_graphs *g, uint32_t at, const void *to, const void *from, int64_t size) {
    if (!at || g->steps[at - 1].kernel != SN_GRAPH_COPY) return false;
    for (uint32_t i = g->steps[at - 1].row; i < at; i++) {
        const sn_graph_step *o = &g->steps[i];
        const void *o_to = g->addresses[o->first], *o_from = g->addresses[o->first + 1];
        if (!apart(to, size, o_to, o->size) || !apart(to, size, o_from, o->size) || !apart(from, size, o_to, o->size))
            return false;
    }
    return true;
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
    sn_run_graphs *g = &st->graph;
    const sn_cuda_api *api = &st->cu->api;
    uint32_t n = find_before(g, s);
    bool is_early = n == 1 && api->cuGraphAddDependencies && sn_exec_early(st->cu) && is_kernel(st->p, s - 1);
    CUresult result = api->cuGraphAddKernelNode(&s->node, g->graph, g->before, is_early ? 0 : n, launch);
    SN_TRY(check_kernel(st, s, result, "cuGraphAddKernelNode"));
    if (!is_early) return SN_OK;
    result = api->cuGraphAddDependencies(g->graph, g->before, &s->node, &early, 1);
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
    uint32_t n = find_before(g, s);
    CUgraph child = NULL;
    sn_status status = capture_call(&child, st, s->kernel, params);
    if (status == SN_OK)
        status = g->exec ? CU_CALL(cu, cuGraphExecChildGraphNodeSetParams, (g->exec, s->node, child))
                         : CU_CALL(cu, cuGraphAddChildGraphNode, (&s->node, g->graph, g->before, n, child));
    if (child) cu->api.cuGraphDestroy(child); /* the node has a copy */
    return status;
}

static int take_launch(void *user, uint32_t kernel, void *const *params) {
    sn_prog_state *st = user;
    const sn_code *code = &st->p->codes[kernel];
    sn_graph_step *s;
    bool moved;
    if (!code->k.library && !code->k.grid) return SN_OK;
    SN_TRY(next_step(&s, &moved, st, (sn_graph_step){.kernel = kernel, .row = st->graph.at}, params, code->n_params));
    if (moved) return (int)(code->k.library ? take_call(st, s, params) : take_kernel(st, s, params));
    if (code->k.n_maps) st->next_map = (st->next_map + code->k.n_maps) % st->p->n_maps; /* those stay as they are */
    return SN_OK;
}

static int take_copy(void *user, void *to, const void *from, int64_t size) {
    sn_prog_state *st = user;
    sn_cuda *cu = st->cu;
    sn_run_graphs *g = &st->graph;
    void *const addresses[] = {to, (void *)(uintptr_t)from};
    sn_graph_step *s, is = {.kernel = SN_GRAPH_COPY, .size = size, .row = g->at};
    bool moved;
    if (!size) return SN_OK;
    if (joins(g, g->at, to, from, size)) is.row = g->steps[g->at - 1].row;
    SN_TRY(next_step(&s, &moved, st, is, addresses, 2));
    if (!moved) return SN_OK;
    CUmemcpy3D copy = {.from = {.type = CU_MEMORYTYPE_DEVICE, .device = sn_device_address(from)},
                       .to = {.type = CU_MEMORYTYPE_DEVICE, .device = sn_device_address(to)},
                       .bytes = (size_t)size,
                       .height = 1,
                       .depth = 1};
    uint32_t n = find_before(g, s);
    return g->exec ? (int)CU_CALL(cu, cuGraphExecMemcpyNodeSetParams, (g->exec, s->node, &copy, cu->context))
                   : (int)CU_CALL(cu, cuGraphAddMemcpyNode, (&s->node, g->graph, g->before, n, &copy, cu->context));
}

/* Of a program that is never gone through for a graph. */
static int take_test(void *user, const void *flag, int *holds) {
    (void)flag;
    (void)holds;
    return steps_differ(user);
}

static const sn_machine taking = {take_launch, take_copy, take_test};

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

/* Are the addresses those of the last run? Remembers them. */
static bool same_storage(sn_prog_state *st, void *const *inputs, void *const *outputs) {
    sn_run_graphs *g = &st->graph;
    bool same = g->has_run;
    for (uint32_t i = 0; i < st->p->n_ios; i++) {
        void *now = sn_io_address(&st->p->ios[i], inputs, outputs);
        same &= g->io_at[i] == now;
        g->io_at[i] = now;
    }
    return same;
}

/* Where this cannot be said, the launches themselves say why. */
bool sn_exec_is_captured(const sn_prog_state *st) {
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
    bool had = g->exec != NULL;
    sn_status status = make(st, inputs, outputs, use_interpreter);
    if (status == SN_ERROR_UNSUPPORTED && had) { /* other launches, or copies that touch each other now */
        sn_env_clear(st->env);
        drop_graph(st);
        status = make(st, inputs, outputs, use_interpreter);
    }
    g->is_current = status == SN_OK;
    if (!g->is_current) drop_graph(st);
    st->cu->api.cuThreadExchangeStreamCaptureMode(&mode);
    return status;
}

sn_status sn_run_graph(sn_prog_state *st, void *const *inputs, void *const *outputs, bool use_interpreter) {
    sn_run_graphs *g = &st->graph;
    if (g->useless) return sn_exec_plainly(st, inputs, outputs, use_interpreter);
    bool wanted = g->has_run || g->mode == SN_GRAPHS_ON;
    g->is_current &= same_storage(st, inputs, outputs);
    g->has_run = true;
    if (!wanted || sn_exec_is_captured(st)) return sn_exec_plainly(st, inputs, outputs, use_interpreter);
    sn_status status = bring_up_to_date(st, inputs, outputs, use_interpreter);
    if (status == SN_OK) return CU_CALL(st->cu, cuGraphLaunch, (g->exec, st->stream));
    if (g->mode == SN_GRAPHS_ON || status == SN_ERROR_ARGUMENT) return status;
    sn_env_clear(st->env);
    g->useless = true;
    return sn_exec_plainly(st, inputs, outputs, use_interpreter);
}
