/* maker.c: of a nan that a kernel has written, the operation of the graph that made it.
 *
 *     kernel k0 (sub, log, mul; from %d, %l, %y) writes nan to y at [2, 0]; there was none in what it reads; log makes it, of %l
 *
 * The kernel is evaluated once more from what its parameters were before (ir/loop/eval.c), with the statement that made it beside
 * each nan; arithmetic knows the node that it is of: in a kernel that several calls have, the node of the first, which stands for that of
 * the call. Kernels without a text (of images, of libraries) and long ones say nothing. Nothing that goes wrong here is a failure of
 * the run.
 */
#include "ir/loop/figures.h"
#include "runtime/prog.h"

#include <string.h>

static const double MOST = 1e9; /* operations that are evaluated: some half a minute */

/* Counting adds to a module. */
static bool is_long(sn_module *alone) {
    sn_kern_figures f;
    sn_kern_count(&f, alone, alone->kernels.at[0]);
    return f.flops > MOST;
}

/* ---- which node of a call ---- */

/* The next one of a list "a, b, c"; NULL: it ends. */
static const char *next_of(const char **list, size_t *n) {
    const char *at = *list;
    if (!at) return NULL;
    const char *end = strstr(at, ", ");
    *n = end ? (size_t)(end - at) : strlen(at);
    *list = end ? end + 2 : NULL;
    return at;
}

/* The call whose kernel stayed where equal ones became one: the first. */
static const char *from_of_first(const sn_prog *p, uint32_t kernel) {
    uint32_t i = 0;
    while (p->steps[i].kind != SN_STEP_CALL || p->steps[i].kernel != kernel) i++;
    return p->steps[i].from_here;
}

/* What stands in the list of this call where `from` stands in that of the first; NULL: nothing does. */
static const char *node_here(const sn_prog_state *st, const sn_rt_step *s, const char *from, sn_arena *a) {
    const char *first = from_of_first(st->p, s->kernel), *here = s->from_here, *there, *other;
    size_t n, size;
    if (!from || !first || !here || !strcmp(first, here)) return from;
    while ((there = next_of(&first, &n)) && (other = next_of(&here, &size)))
        if (strlen(from) == n && !memcmp(there, from, n)) return sn_strndup(a, other, size);
    return NULL;
}

/* ---- the operation ---- */

static const char *describe(const sn_module *m, sn_stmt made, const sn_prog_state *st, const sn_rt_step *s,
                            sn_arena *a) {
    if (!made.i) return "";
    const sn_stmt_rec *r = sn_stmt_get(m, made);
    bool combines = r->op == SN_LOP_REDUCE || r->op == SN_LOP_ACCUM;
    const char *name = combines ? sn_combs[r->combs[0]].name : sn_lops[r->op].name;
    const char *node = node_here(st, s, r->from, a);
    return node ? sn_strf(a, "; %s makes it, of %s", name, node) : sn_strf(a, "; %s makes it", name);
}

/* The kernel alone, whose parameters are memory of ours. */
static const char *evaluate(sn_module *alone, const sn_prog_state *st, const sn_rt_step *s, uint32_t i, int64_t at,
                            sn_arena *a) {
    const sn_buf_list *params = &sn_kern_get(alone, alone->kernels.at[0])->params;
    void **memory = SN_NEWN(a, void *, alone->bufs.count + 1);
    sn_stmt made;
    for (uint32_t k = 0; k < params->n; k++) {
        const sn_watched *was = &st->watch->before[k];
        sn_buf_get(alone, params->at[k])->scope = SN_BUF_OUTPUT;
        if (!was->elements) return "";
        memory[params->at[k].i] = sn_memdup(a, was->elements, (size_t)was->numel * sn_dtype_bytes(was->dtype));
    }
    sn_status status = sn_loop_find_nan(&made, alone, memory, a, params->at[i], at, st->watch->by->stop_at_infinity);
    if (status == SN_OK) return describe(alone, made, st, s, a);
    sn_env_clear(st->env);
    return "";
}

const char *sn_watch_maker(const sn_prog_state *st, const sn_rt_step *s, uint32_t i, int64_t at, sn_arena *a) {
    sn_kern k = sn_kern_named(st->p->m, st->p->codes[s->kernel].k.name);
    if (!k.i || !sn_kern_get(st->p->m, k)->first.i) return "";
    sn_module *alone = sn_module_of_kernel(st->env, st->p->m, k);
    const char *text = is_long(alone) ? "" : evaluate(alone, st, s, i, at, a);
    sn_module_free(alone);
    return text;
}
