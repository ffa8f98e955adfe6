/* runs.c: see runs.h. Uses the marks of values: those that differ between the elements of a run. */
#include "ir/loop/runs.h"

typedef struct finder {
    sn_runs *out;
    sn_module *m;
    sn_arena *arena;
    sn_axis ax;
    bool moves; /* the expression that is being looked at reads a value that differs */
} finder;

static void add_end(finder *f, sn_ix at, sn_ix of, bool test) {
    for (uint32_t i = 0; i < f->out->ends.n; i++) {
        const sn_run_end *e = &f->out->ends.at[i];
        if (sn_ix_eq(e->at, at) && sn_ix_eq(e->of, of) && e->test == test) return;
    }
    SN_PUSH(f->arena, &f->out->ends, ((sn_run_end){at, of, test}));
}

static void note_end(void *user, sn_ix a, int64_t k) {
    finder *f = user;
    add_end(f, a, sn_ix_const(f->m, k), false);
}

static void note_value(void *user, sn_ix atom) {
    finder *f = user;
    const sn_ix_rec *r = sn_ix_get(f->m, atom);
    if (r->kind == SN_IX_VAL && sn_val_get(f->m, (sn_val){r->id})->mark) f->moves = true;
}

/* The step of e in a run; false: it has none. */
static bool find_step(finder *f, sn_ix e, int64_t *step) {
    f->moves = false;
    sn_ix_walk(f->m, e, note_value, f);
    return !f->moves && sn_ix_run(f->m, e, f->ax, step, note_end, f);
}

static bool differs(const finder *f, sn_val v) { return sn_val_get(f->m, v)->mark != 0; }

static bool look_at_load(finder *f, const sn_stmt_rec *r, bool *moves) {
    sn_runs *out = f->out;
    const sn_buf_rec *b = sn_buf_get(f->m, r->buf);
    int64_t step, c;
    sn_val mask = sn_stmt_mask(r);
    if (sn_buf_is_local(b) || !find_step(f, r->ix, &step) || (step != 0 && step != 1)) return false;
    if (mask.i && differs(f, mask)) return false;
    *moves = step || (mask.i && differs(f, r->in[1]));
    if (!step) return true;
    uint32_t bytes = sn_dtype_bytes(b->dtype);
    if (!out->bytes || bytes < out->bytes) out->bytes = bytes;
    if (bytes > out->most) out->most = bytes;
    out->loads++;
    if (!sn_ix_coef(f->m, r->ix, f->ax, &c)) out->by_vectors = false;
    return true;
}

static bool look_at_store(finder *f, const sn_stmt_rec *r) {
    const sn_buf_rec *b = sn_buf_get(f->m, r->buf);
    int64_t c;
    if (r->has_mask || sn_buf_is_local(b) || !sn_ix_coef(f->m, r->ix, f->ax, &c) || c != 1) return false;
    if (sn_ix_uses_vals(f->m, r->ix)) return false;
    uint32_t bytes = sn_dtype_bytes(b->dtype);
    if (bytes > f->out->stored) f->out->stored = bytes;
    return true;
}

/* In a run a test is the same for all. */
static bool look_at_test(finder *f, const sn_stmt_rec *r) {
    int64_t step;
    if (sn_ix_uses_axis(f->m, r->bound, f->ax) || sn_ix_uses_vals(f->m, r->bound)) return false;
    if (sn_ix_uses_vals(f->m, r->ix) || !find_step(f, r->ix, &step) || (step != 0 && step != 1)) return false;
    if (!step) return true;
    add_end(f, r->ix, r->bound, true);
    return true;
}

static bool look_at(finder *f, sn_stmt_rec *r) {
    const sn_lop_info *op = &sn_lops[r->op];
    bool moves = false;
    int64_t step = 0;
    if (op->has_region || op->syncs || op->ordered || op->has_combs || r->n_results > 1) return false;
    if (r->op == SN_LOP_LOAD) {
        if (!look_at_load(f, r, &moves)) return false;
    } else if (r->op == SN_LOP_STORE) {
        return look_at_store(f, r);
    } else if (r->op == SN_LOP_IN) {
        if (!look_at_test(f, r)) return false;
    } else if (r->op == SN_LOP_INDEX) {
        if (!find_step(f, r->ix, &step) || step) return false;
    }
    for (uint32_t i = 0; i < r->n_in && r->op != SN_LOP_LOAD; i++) moves |= differs(f, r->in[i]);
    if (r->result.i) sn_val_get(f->m, r->result)->mark = moves;
    return r->result.i != 0;
}

static sn_stmt_rec *next_in(sn_module *m, const sn_stmt_rec *r) { return r->next.i ? sn_stmt_get(m, r->next) : NULL; }

/* What the region reads from outside of it is the same for all. */
static void clear_marks(sn_module *m, const sn_stmt_rec *loop) {
    for (sn_stmt_rec *r = loop->first.i ? sn_stmt_get(m, loop->first) : NULL; r; r = next_in(m, r))
        for (uint32_t i = 0; i < r->n_in; i++) sn_val_get(m, r->in[i])->mark = 0;
}

bool sn_runs_find(sn_runs *out, sn_module *m, sn_stmt loop, sn_arena *arena) {
    const sn_stmt_rec *l = sn_stmt_get(m, loop);
    finder f = {out, m, arena, l->axis, false};
    *out = (sn_runs){.by_vectors = true};
    clear_marks(m, l);
    for (sn_stmt_rec *r = l->first.i ? sn_stmt_get(m, l->first) : NULL; r; r = next_in(m, r))
        if (!look_at(&f, r)) return false;
    return out->stored && out->loads;
}
