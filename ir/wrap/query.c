/* query.c: what the step interpreter and the two wrapper emitters ask of a wrapper, so that they cannot disagree.
 *
 * Relies on a verified module. Does not know about programs, LLVM or C.
 */
#include "ir/loop/loop.h"
#include "ir/loop/repeats.h"
#include "ir/wrap/wrap.h"

typedef struct {
    const sn_module *m;
    const char *name;
} symbol_search;

static void note_symbol(void *user, sn_ix atom) {
    symbol_search *s = user;
    const sn_ix_rec *rec = sn_ix_get(s->m, atom);
    if (rec->kind == SN_IX_SYM && !s->name) s->name = sn_sym_get(s->m, (sn_sym){rec->id})->name;
}

sn_status sn_wrap_number(int64_t *out, sn_module *m, sn_ix e, const char *what, const char *name) {
    *out = 0;
    if (!e.i) return SN_OK;
    if (!sn_ix_is_const(m, e, out)) {
        symbol_search s = {m, NULL};
        sn_ix_walk(m, e, note_symbol, &s);
        return sn_fail(m->env, SN_ERROR_UNSUPPORTED,
                       "%s of %s depends on the symbolic size %s: give it a value before running", what, name,
                       s.name ? s.name : "of an index");
    }
    if (*out < 0) return sn_fail(m->env, SN_ERROR_VERIFY, "%s of %s is negative (%lld)", what, name, (long long)*out);
    return SN_OK;
}

uint32_t *sn_kern_numbers(const sn_module *m, sn_arena *arena) {
    uint32_t *number = SN_NEWN(arena, uint32_t, m->kerns.count);
    for (uint32_t i = 0; i < m->kerns.count; i++) number[i] = m->kernels.n;
    for (uint32_t i = 0; i < m->kernels.n; i++) number[m->kernels.at[i].i] = i;
    return number;
}

static int64_t calls_between(const sn_module *m, uint32_t first, uint32_t end, sn_kern k) {
    int64_t n = 0, times;
    for (uint32_t i = first; i < end; i++) {
        const sn_step *s = &m->wrap.steps.at[i];
        n += s->kind == SN_STEP_CALL && (!k.i || sn_kern_eq(s->kern, k));
        if (s->kind != SN_STEP_REPEAT) continue; /* branches count as if both were taken */
        uint32_t over = sn_wrap_end(m, i);
        if (!sn_ix_is_const(m, s->size, &times)) times = 1;
        if (sn_mul_overflow(times, calls_between(m, i + 1, over, k), &times)) times = INT64_MAX;
        if (sn_add_overflow(n, times, &n)) n = INT64_MAX;
        i = over;
    }
    return n;
}

int64_t sn_wrap_calls(const sn_module *m, uint32_t first, sn_kern k) {
    return calls_between(m, first, m->wrap.steps.n, k);
}
