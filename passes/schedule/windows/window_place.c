/* window_place.c: copies of what a nest over windows does, at places that a schedule chooses (window.h). */
#include "passes/schedule/windows/window.h"

int64_t sn_window_first_place(const sn_window_line *l) { return l->dilation < 0 ? l->dilation * (l->taps - 1) : 0; }

bool sn_window_is_step(const sn_window *w, uint32_t i) {
    return !(w->row.there && w->row.tap == i) && w->column.tap != i;
}

static sn_axis outer_of(const sn_window *w, const sn_window_line *l) {
    return sn_stmt_axis(w->m, w->sh->outer.at[l->outer]);
}

static sn_axis tap_of(const sn_window *w, const sn_window_line *l) {
    return sn_stmt_axis(w->m, w->nest->chain.at[l->tap]);
}

void sn_window_set_axis(sn_contraction_copier *c, sn_axis ax, sn_ix e) {
    c->axes[c->n] = ax;
    c->with[c->n++] = e;
}

void sn_window_set_line(sn_contraction_copier *c, const sn_window *w, const sn_window_line *l, sn_ix window,
                        sn_ix place) {
    if (!l->there) return;
    sn_ix at = sn_ix_addc(w->m, place, sn_window_first_place(l));
    sn_window_set_axis(c, outer_of(w, l), sn_ix_add(w->m, sn_ix_scale(w->m, at, l->per_outer), window));
    if (l->tap != SN_WINDOW_NO_TAP) sn_window_set_axis(c, tap_of(w, l), sn_ix_scale(w->m, at, l->per_tap));
}

void sn_window_set_tap(sn_contraction_copier *c, const sn_window *w, const sn_window_line *l, sn_ix tap) {
    if (l->there && l->tap != SN_WINDOW_NO_TAP) sn_window_set_axis(c, tap_of(w, l), tap);
}

/* Is the value made of that of the element? */
static bool is_made_of_element(const sn_window *w, sn_val v) {
    if (v.i == w->value.i) return true;
    sn_stmt def = sn_val_get(w->m, v)->def;
    const sn_stmt_rec *r = sn_stmt_get(w->m, def);
    if (!sn_stmt_inside(w->m, def, w->inner)) return false;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (is_made_of_element(w, r->in[i])) return true;
    return false;
}

void sn_window_copy_others(sn_contraction_copier *c, const sn_window *w, sn_val v) {
    if (v.i == w->value.i) return;
    if (!is_made_of_element(w, v)) {
        sn_contraction_copy(c, v);
        return;
    }
    const sn_stmt_rec *r = sn_stmt_get(w->m, sn_val_get(w->m, v)->def);
    for (uint32_t i = 0; i < r->n_in; i++) sn_window_copy_others(c, w, r->in[i]);
}

bool sn_window_is_of_plane(const sn_window *w, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(w->m, s);
    const sn_window_line *lines[] = {&w->row, &w->column};
    if (r->op != SN_LOP_LOAD || r->has_mask || sn_ix_uses_vals(w->m, r->ix)) return false;
    for (uint32_t i = 0; i < SN_COUNT(lines); i++)
        if (lines[i]->there && sn_ix_uses_axis(w->m, r->ix, outer_of(w, lines[i]))) return false;
    return true;
}

void sn_window_put_stores(sn_contraction_copier *c, const sn_window *w) {
    for (sn_stmt s = sn_region_first(w->m, w->k, w->sh->body); s.i; s = sn_next(w->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(w->m, s);
        if (sn_stores(r)) sn_contraction_copy_store(c, r, c->mask);
    }
}

static int64_t turns_of_group(int64_t turns) { return sn_ceil_div(turns, sn_ceil_div(turns, SN_WINDOW_WRITTEN)); }

sn_cursor sn_window_open_grid(sn_ix *number, sn_module *m, sn_kern k, const int64_t *blocks, uint32_t n, bool one) {
    sn_ix shape[4];
    int64_t all = 1;
    SN_ASSERT(n <= SN_COUNT(shape));
    for (uint32_t i = 0; i < n; i++) {
        shape[i] = sn_ix_const(m, blocks[i]);
        all *= blocks[i];
    }
    sn_cursor at = sn_at_end(k, (sn_stmt){0});
    sn_ix g = sn_open_loop(m, &at, "g", one ? 1 : all, SN_AXIS_GRID);
    if (one) g = sn_open_loop(m, &at, "n", all, SN_AXIS_SEQ);
    sn_ix_unflatten(m, g, shape, n, number);
    return at;
}

int64_t sn_window_all_turns(int64_t turns) { return sn_ceil_div(turns, SN_WINDOW_WRITTEN) * turns_of_group(turns); }

sn_ix sn_window_open_turns(sn_module *m, sn_cursor *at, int64_t turns) {
    sn_ix group = sn_open_loop(m, at, "uo", sn_ceil_div(turns, SN_WINDOW_WRITTEN), SN_AXIS_SEQ);
    sn_ix u = sn_open_loop(m, at, "u", turns_of_group(turns), SN_AXIS_UNROLL);
    return sn_ix_fma(m, turns_of_group(turns), group, u);
}
