/* states.c: outputs that are written back to an input and may live in its storage from the start. Part of the pass `plan`.
 *
 *     return c = %c writes %cache                            %c = scatter %cache, %place, %row
 *
 *     kernel @k0(cache, c) { c[i] = cache[i] }               gone
 *     kernel @k1(place, row, c) { c[64*place + i] = row[i] }   ->    call @k1(place, row, c)
 *     call @k0, call @k1, copy cache from c                  no copy: c is cache
 *
 * A run that changes a row of a large state moves that row alone, not the state three times. Without the copy step an output has the
 * storage of its input everywhere: in the verifier of the wrapper (W4, W12), in every executor, for whoever binds a run.
 *
 * Legality. Let s be the first kernel, in the order in which they run, that stores to the output what it is not (below).
 *   - Before s the storage holds what the input held when the run began. So the input's readers before s read that, and the output's
 *     readers before s read what they would have read: copies of the input, if those stood before them.
 *   - No kernel behind s reads the input. s itself may, where it may overwrite its operand (inplace.c: each thread reads an
 *     element before the same thread stores it), and so may all alternatives of s.
 *   - A copy of the input to the same elements of the output stores what is there, as long as it stands before s, or in s on other
 *     blocks (whose elements are apart, or the kernel had a race). It goes, and with it its reads of the input.
 *   - The input is stored to in no other way: no two outputs write one input (G8), and inputs are read only.
 *   - Nobody else has the storage: what a run writes overlaps none of its other tensors, which whoever binds it
 *     answers for (frontend/run.c looks). Temps live in outputs that are not written back alone (plan.c).
 *   - No kernel of the prepare part is among them: those store to temps alone.
 * States that repeats touch, inputs of several buffers, and outputs that are aligned better than the input keep their copy.
 *
 * Cost: a walk over all kernels for each such output.
 */
#include "ir/loop/access.h"
#include "passes/plan/plan.h"

enum { NEVER = UINT32_MAX };

typedef struct state {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_buf in, out;
    SN_VEC(sn_stmt) copies;
    sn_plan_touches *touches; /* of the kernel that was asked for last */
} state;

static sn_buf only_buffer(const sn_module *m, sn_buf_scope scope, uint32_t io) {
    sn_buf found = {0};
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(m, (sn_buf){i});
        if (b->scope != scope || b->io != io) continue;
        if (found.i) return (sn_buf){0};
        found.i = i;
    }
    return found;
}

/* ---- copies of the input to itself ---- */

/* What v was loaded as: casts to what holds it, and back, change nothing. */
static sn_stmt loaded_by(sn_module *m, sn_val v) {
    sn_dtype dtype = sn_val_get(m, v)->dtype;
    for (;;) {
        const sn_stmt_rec *r = sn_stmt_get(m, sn_val_get(m, v)->def);
        if (r->op != SN_LOP_CAST || !sn_dtype_holds(sn_val_get(m, r->in[0])->dtype, dtype)) break;
        v = r->in[0];
    }
    return sn_val_get(m, v)->def;
}

static bool stores_what_is_there(sn_module *m, const state *st, sn_stmt s) {
    const sn_stmt_rec *rec = sn_stmt_get(m, s);
    if (rec->op != SN_LOP_STORE || rec->has_mask || !sn_buf_eq(rec->buf, st->out)) return false;
    sn_stmt from = loaded_by(m, rec->in[0]);
    const sn_stmt_rec *load = sn_stmt_get(m, from);
    sn_chain of_load, of_store;
    if (load->op != SN_LOP_LOAD || load->has_mask || !sn_buf_eq(load->buf, st->in)) return false;
    sn_chain_around(&of_load, m, from);
    sn_chain_around(&of_store, m, s);
    return sn_same_element(m, from, &of_load, s, &of_store);
}

/* Loops around nothing but loads of the input and stores of what was loaded to the same place. */
static bool is_copy(sn_module *m, const state *st, sn_stmt nest) {
    bool stores = false;
    if (sn_stmt_get(m, nest)->op != SN_LOP_LOOP) return false;
    sn_stmt end = sn_stmt_get(m, nest)->next;
    for (sn_stmt s = nest; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *rec = sn_stmt_get(m, s);
        bool load = rec->op == SN_LOP_LOAD && sn_buf_eq(rec->buf, st->in), store = stores_what_is_there(m, st, s);
        if (!load && !store && rec->op != SN_LOP_LOOP && rec->op != SN_LOP_CAST) return false;
        stores |= store;
    }
    return stores;
}

static bool has_alternatives(const sn_module *m, sn_kern k) {
    bool any = sn_kern_get(m, k)->alternative_of.i != 0;
    for (uint32_t i = 0; i < m->kernels.n; i++) any |= sn_kern_eq(sn_kern_get(m, m->kernels.at[i])->alternative_of, k);
    return any;
}

static void find_copies(state *st) {
    for (uint32_t k = 0; k < st->m->kernels.n; k++) {
        sn_kern kern = st->m->kernels.at[k];
        if (!sn_kern_stores(st->m, kern, st->out) || has_alternatives(st->m, kern)) continue;
        for (sn_stmt s = sn_kern_get(st->m, kern)->first; s.i; s = sn_stmt_get(st->m, s)->next)
            if (is_copy(st->m, st, s)) SN_PUSH(st->cx->scratch, &st->copies, s);
    }
}

static bool is_listed(const state *st, sn_stmt s) {
    for (uint32_t i = 0; i < st->copies.n; i++)
        if (st->copies.at[i].i == s.i) return true;
    return false;
}

/* ---- who reads and writes, but for those ---- */

typedef struct touch {
    bool reads_in, stores_in, stores_out, copies, any;
} touch;

static touch touch_of(const state *st, sn_kern k) {
    const sn_module *m = st->m;
    touch t = {0};
    for (sn_stmt s = sn_kern_get(m, k)->first; s.i; s = sn_stmt_get(m, s)->next) {
        bool copy = is_listed(st, s);
        t.copies |= copy;
        if (copy) continue;
        t.reads_in |= sn_stmt_loads(m, s, st->in);
        t.stores_in |= sn_stmt_stores(m, s, st->in);
        t.stores_out |= sn_stmt_stores(m, s, st->out);
    }
    for (uint32_t i = 0; i < sn_kern_get(m, k)->params.n; i++) {
        sn_buf b = sn_kern_get(m, k)->params.at[i];
        t.any |= sn_buf_eq(b, st->in) || sn_buf_eq(b, st->out);
    }
    return t;
}

/* An alternative runs where the kernel does that it stands for. */
static uint32_t position_of(const sn_module *m, uint32_t k) {
    sn_kern first = sn_kern_get(m, m->kernels.at[k])->alternative_of;
    for (uint32_t i = 0; first.i && i < m->kernels.n; i++)
        if (sn_kern_eq(m->kernels.at[i], first)) return i;
    return k;
}

static bool is_legal(const state *st) {
    sn_module *m = st->m;
    uint32_t changes = NEVER;
    touch *of = SN_NEWN(st->cx->scratch, touch, m->kernels.n + 1);
    for (uint32_t k = 0; k < m->kernels.n; k++) {
        of[k] = touch_of(st, m->kernels.at[k]);
        if (of[k].stores_in || (of[k].any && sn_kern_get(m, m->kernels.at[k])->section)) return false;
        if (of[k].stores_out && position_of(m, k) < changes) changes = position_of(m, k);
    }
    for (uint32_t k = 0; k < m->kernels.n; k++) {
        uint32_t at = position_of(m, k);
        if (of[k].copies && at > changes) return false;
        if (!of[k].reads_in || at < changes) continue;
        if (at > changes || of[k].copies) return false;
        sn_kern kern = m->kernels.at[k];
        if (!sn_kern_eq(st->touches->kern, kern)) sn_plan_touches_of(st->touches, st->cx, kern);
        if (!sn_plan_in_place(st->touches, st->in, st->out)) return false;
    }
    return true;
}

/* Buffers of repeats have several names. */
static bool is_in_repeats(const sn_module *m, sn_buf b) {
    for (uint32_t r = 0; r < m->repeats.n; r++) {
        const sn_repeat_rec *rec = &m->repeats.at[r];
        for (uint32_t w = 0; w < rec->windows.n; w++)
            if (sn_buf_eq(rec->windows.at[w].of, b)) return true;
    }
    return false;
}

/* ---- the pass's part ---- */

static void drop_copies(const state *st) {
    sn_module *m = st->m;
    if (st->copies.n) st->touches->kern = (sn_kern){0};
    for (uint32_t i = 0; i < st->copies.n; i++) {
        sn_kern k = sn_stmt_get(m, st->copies.at[i])->kern;
        sn_stmt_unlink(m, st->copies.at[i]);
        if (sn_kern_get(m, k)->first.i) sn_kern_collect_params(m, k);
        else sn_kern_remove(m, k);
    }
}

static bool find_state(state *st, uint32_t output) {
    sn_module *m = st->m;
    int input = m->graph.outputs.at[output].writes;
    if (input < 0) return false;
    st->out = only_buffer(m, SN_BUF_OUTPUT, output);
    st->in = only_buffer(m, SN_BUF_INPUT, (uint32_t)input);
    if (!st->in.i || !st->out.i) return false;
    const sn_buf_rec *in = sn_buf_get(m, st->in), *out = sn_buf_get(m, st->out);
    bool fits = sn_ix_eq(in->size, out->size) && in->dtype == out->dtype && in->align >= out->align;
    return fits && !is_in_repeats(m, st->in) && !is_in_repeats(m, st->out);
}

const bool *sn_plan_states(sn_pass_ctx *cx) {
    sn_module *m = cx->m;
    bool *in_place = SN_NEWN(cx->scratch, bool, m->graph.outputs.n + 1);
    sn_plan_touches touches = {0};
    for (uint32_t k = 0; k < m->graph.outputs.n; k++) {
        state st = {.cx = cx, .m = m, .touches = &touches};
        if (!find_state(&st, k)) continue;
        find_copies(&st);
        if (!is_legal(&st)) continue;
        in_place[k] = true;
        drop_copies(&st);
        sn_remark(cx, sn_buf_get(m, st.out)->name, "in the storage of %s, which it is written back to",
                  sn_buf_get(m, st.in)->name);
    }
    return in_place;
}
