/* text.c: any bytes as module text. Reading them fails with one line, or gives a module that verifies or is refused with
 * one line. What verifies prints as text that reads back to the same text, can be evaluated when it is small, and goes
 * through the passes of both targets with every pass verified.
 *
 * Memory is limited by the allocator hook, so that running out of it is exercised too. Code generation is not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend-nvptx/ptx.h"
#include "passes/runner.h"

enum { MEMORY = 256 << 20, MAX_NUMEL = 1 << 12, MAX_NODES = 96, MAX_WORK = 1 << 16 };

typedef struct {
    sn_env env;
    sn_arena scratch;
    sn_module *m;
    sn_text once, twice;
    const char *text;
    size_t size;
    size_t held;
} run;

/* The size of a block stands in front of it: the hook is not told what it takes back. */
static void *limited(void *user, void *p, size_t size) {
    run *r = user;
    size_t *old = p ? (size_t *)p - 2 : NULL, before = old ? *old : 0;
    if (size == 0) {
        r->held -= before;
        free(old);
        return NULL;
    }
    if (size > MEMORY || r->held - before + size > MEMORY) return NULL;
    size_t *block = realloc(old, size + 16);
    if (!block) return NULL;
    r->held += size - before;
    *block = size;
    return block + 2;
}

static void broken(const run *r, const char *what) {
    fprintf(stderr, "%s\nmessage: %s\n", what, r->env.message);
    abort();
}

#define WANT(r, c) ((c) ? (void)0 : broken((r), #c))

/* ---- one line that says why ---- */

static sn_status refused(run *r) {
    WANT(r, r->env.status != SN_OK && r->env.message[0] && !strchr(r->env.message, '\n'));
    WANT(r, r->env.status != SN_ERROR_INTERNAL);
    return r->env.status;
}

static sn_status read_text(run *r, const char *text, size_t size) {
    sn_module_free(r->m);
    r->m = NULL;
    r->m = sn_module_new(&r->env);
    return sn_module_parse(r->m, "fuzz", text, size);
}

/* ---- small enough for everything ---- */

static bool small_sizes(const sn_module *m, const sn_ix *shape, uint32_t rank) {
    int64_t numel = 1;
    for (uint32_t k = 0; k < rank; k++) {
        int64_t n;
        if (!sn_ix_is_const(m, shape[k], &n) || n > MAX_NUMEL || (numel *= n) > MAX_NUMEL) return false;
    }
    return true;
}

/* A contraction or a window may do more work than its result has elements. */
static bool small_graph(const sn_module *m) {
    if (!m->graph.outputs.n || m->graph.nodes.count > MAX_NODES || m->syms.count > 1) return false;
    for (uint32_t i = 1; i < m->graph.nodes.count; i++) {
        const sn_type *t = &sn_node_get(m, (sn_nd){i})->type;
        if (!small_sizes(m, t->shape, t->rank)) return false;
    }
    return true;
}

/* ---- evaluation: zeros for inputs ---- */

static sn_array zeros(run *r, const sn_type *t) {
    sn_array a = {.dtype = t->dtype, .rank = t->rank, .numel = 1};
    for (uint32_t k = 0; k < t->rank; k++) a.numel *= a.shape[k] = sn_ix_value(r->m, t->shape[k]);
    a.f = SN_NEWN(&r->scratch, double, a.numel);
    a.i = SN_NEWN(&r->scratch, int64_t, a.numel);
    return a;
}

static sn_status evaluate(run *r) {
    const sn_graph_ir *g = &r->m->graph;
    sn_array *in = SN_NEWN(&r->scratch, sn_array, g->inputs.n + 1);
    sn_array *out = SN_NEWN(&r->scratch, sn_array, g->outputs.n + 1);
    for (uint32_t k = 0; k < g->inputs.n; k++) in[k] = zeros(r, &sn_node_get(r->m, g->inputs.at[k].node)->type);
    sn_status status = sn_graph_eval(out, r->m, in, &r->scratch);
    if (status != SN_OK) refused(r);
    sn_env_clear(&r->env);
    return SN_OK;
}

static sn_status pipeline(run *r, const char *target_name) {
    sn_target target;
    if (!strcmp(target_name, "host")) sn_target_host(&target, 2);
    else WANT(r, sn_target_named(&target, &r->env, target_name) == SN_OK);
    WANT(r, read_text(r, r->once.s, r->once.n) == SN_OK);
    sn_pass_options o = {.verify = SN_VERIFY_EACH};
    if (sn_passes_run(&r->m, &target, &o) == SN_OK) return SN_OK;
    refused(r);
    WANT(r, r->env.status == SN_ERROR_UNSUPPORTED || r->env.status == SN_ERROR_MEMORY);
    sn_env_clear(&r->env);
    return SN_OK;
}

/* ---- all of it ---- */

static sn_status whole(run *r) {
    if (read_text(r, r->text, r->size) != SN_OK) return refused(r);
    if (sn_module_verify(r->m, "fuzz") != SN_OK) return refused(r);
    bool graph_alone = r->m->graph.outputs.n && !r->m->kernels.n && r->m->bufs.count <= 1 && !r->m->wrap.steps.n;
    sn_text_init(&r->once, &r->env);
    sn_module_print(&r->once, r->m);
    WANT(r, read_text(r, r->once.s, r->once.n) == SN_OK);
    WANT(r, sn_module_verify(r->m, "again") == SN_OK);
    sn_text_init(&r->twice, &r->env);
    sn_module_print(&r->twice, r->m);
    WANT(r, r->once.n == r->twice.n && !memcmp(r->once.s, r->twice.s, r->once.n));
    if (!graph_alone || !small_graph(r->m)) return SN_OK;
    evaluate(r);
    pipeline(r, "host");
    return pipeline(r, "sm_90");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static run r; /* outlives the jump */
    memset(&r, 0, sizeof r);
    sn_env_init(&r.env);
    r.env.realloc_fn = limited;
    r.env.realloc_user = &r;
    r.text = (const char *)data;
    r.size = size;
    sn_arena_init(&r.scratch, &r.env);
    jmp_buf here;
    uint64_t mark = sn_env_mark(&r.env);
    r.env.guard = &here;
    if (setjmp(here) == 0) whole(&r);
    if (r.env.status == SN_ERROR_MEMORY) {
        sn_env_release(&r.env, mark);
    } else {
        sn_module_free(r.m);
        if (r.once.s) sn_text_free(&r.once);
        if (r.twice.s) sn_text_free(&r.twice);
    }
    sn_arena_free(&r.scratch);
    WANT(&r, r.env.bytes_now == 0 && r.held == 0);
    return 0;
}
