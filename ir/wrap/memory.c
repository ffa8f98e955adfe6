/* memory.c: how well intermediates share the workspace: what of it is in use when, from the steps of a wrapper alone.
 *
 *     alloc t size 64 offset 0      call @a(x, t)       64 bytes in use
 *     alloc u size 32 offset 256    call @b(t, u)       96
 *     free t
 *     reuse v from u                call @c(u, v)       32: v is written over u
 *
 * Most that is in use at once is a lower bound for the workspace of these steps, however offsets are chosen. Bytes are those of
 * the buffers, not rounded. Relies on a verified wrapper; what lies in outputs, or was prepared, takes nothing of the workspace.
 */
#include "ir/base/text.h"
#include "ir/loop/loop.h"
#include "ir/wrap/wrap.h"

typedef struct storage {
    sn_buf root, holder; /* who got it from `alloc`, who has it now; holder none: nobody */
    int64_t bytes;
} storage;

typedef struct counter {
    sn_module *m;
    storage *of;    /* by buffer id of the root */
    uint32_t *root; /* by buffer id; 0: not in the workspace */
    sn_wrap_memory *out;
    int64_t in_use;
} counter;

static void take(counter *c, sn_buf b, uint32_t root) {
    storage *s = &c->of[root];
    int64_t elements = 0;
    c->root[b.i] = root;
    sn_ix_is_const(c->m, sn_buf_get(c->m, b)->size, &elements);
    c->out->sum += elements * sn_dtype_bytes(sn_buf_get(c->m, b)->dtype);
    c->out->buffers++;
    if (!s->holder.i) c->in_use += s->bytes;
    s->holder = b;
}

static void give(counter *c, sn_buf b) {
    storage *s = &c->of[c->root[b.i]];
    if (!c->root[b.i] || s->holder.i != b.i) return;
    s->holder.i = 0;
    c->in_use -= s->bytes;
}

static sn_status count(counter *c, const sn_step *s) {
    switch (s->kind) {
    case SN_STEP_ALLOC:
        SN_TRY(sn_wrap_number(&c->of[s->buf.i].bytes, c->m, s->size, "the size", sn_buf_get(c->m, s->buf)->name));
        take(c, s->buf, s->buf.i);
        return SN_OK;
    case SN_STEP_REUSE:
        if (c->root[s->from.i]) take(c, s->buf, c->root[s->from.i]);
        return SN_OK;
    case SN_STEP_FREE: give(c, s->buf); return SN_OK;
    case SN_STEP_CALL:
        if (c->in_use <= c->out->in_use) return SN_OK;
        c->out->in_use = c->in_use;
        c->out->at = s->kern;
        return SN_OK;
    case SN_STEP_CARRY: /* where they have one place, it is the state's again */
        if (c->root[s->buf.i] == c->root[s->from.i]) c->of[c->root[s->buf.i]].holder = s->buf;
        return SN_OK;
    case SN_STEP_CHECK:
    case SN_STEP_COPY:
    case SN_STEP_REPEAT:
    case SN_STEP_WINDOW:
    case SN_STEP_WHILE:
    case SN_STEP_IF:
    case SN_STEP_ELSE:
    case SN_STEP_END:
    case SN_STEP_COMMENT:
    case SN_N_STEP_KINDS: return SN_OK;
    }
    return SN_OK;
}

static sn_status walk(sn_wrap_memory *out, sn_module *m, sn_arena *scratch, sn_text *calls) {
    const sn_wrap *w = &m->wrap;
    counter c = {m, SN_NEWN(scratch, storage, m->bufs.count), SN_NEWN(scratch, uint32_t, m->bufs.count), out, 0};
    *out = (sn_wrap_memory){0};
    SN_TRY(sn_wrap_number(&out->workspace, m, w->workspace, "the workspace", "the wrapper"));
    SN_TRY(sn_wrap_number(&out->prepared, m, w->prepared, "the prepared memory", "the wrapper"));
    for (uint32_t i = w->n_prepare; i < w->steps.n; i++) {
        const sn_step *s = &w->steps.at[i];
        SN_TRY(count(&c, s));
        if (calls && s->kind == SN_STEP_CALL)
            sn_text_printf(calls, "%16lld  @%s\n", (long long)c.in_use, sn_kern_get(m, s->kern)->name);
    }
    return SN_OK;
}

sn_status sn_wrap_count_memory(sn_wrap_memory *out, sn_module *m, sn_arena *scratch) {
    return walk(out, m, scratch, NULL);
}

sn_status sn_wrap_print_memory(sn_text *t, sn_module *m, sn_arena *scratch) {
    sn_wrap_memory w;
    sn_text_put(t, "#  bytes in use  call\n");
    SN_TRY(walk(&w, m, scratch, t));
    sn_text_printf(t, "%u intermediates of %lld bytes in a workspace of %lld", w.buffers, (long long)w.sum,
                   (long long)w.workspace);
    if (w.at.i)
        sn_text_printf(t, ", %.3f times the %lld in use at once in @%s", (double)w.workspace / (double)w.in_use,
                       (long long)w.in_use, sn_kern_get(m, w.at)->name);
    sn_text_put(t, "\n");
    if (w.prepared) sn_text_printf(t, "%lld bytes are prepared once\n", (long long)w.prepared);
    return SN_OK;
}
