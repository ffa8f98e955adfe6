/* store.c: stores.
 *
 * A store outside a block axis runs on thread 0 of that axis. One whose lanes are neither vectors nor one scalar (access.c) is
 * a scalar store a lane, or on the CPU whole vectors with what other stores of the region put between (apart.c). Where the lanes of a
 * vector answer differently, it is stored whole where all hold, as nearly everywhere, and otherwise lane by lane. The
 * store of a load that nobody else needs may be an asynchronous copy (copy.c). Elements with constant numbers of register buffers
 * go through registers.c, on a GPU those of posted buffers one by one through posted.c.
 */
#include "codegen-llvm/access.h"

lv sn_gen_chosen_threads(sn_gen *g, sn_buf_scope scope) {
    if (!g->gpu || scope == SN_BUF_REG) return NULL;
    lv cond = NULL;
    if (!g->in_cluster && g->cluster > 1 && scope != SN_BUF_SHARED)
        cond = em_icmp(&g->em, LLVMIntEQ, g->rank, sn_em_i(&g->em, g->rank, 0));
    if (!g->in_x && g->threads_x > 1) {
        lv x = em_icmp(&g->em, LLVMIntEQ, g->thread_x, sn_em_i(&g->em, g->thread_x, 0));
        cond = cond ? em_and(&g->em, cond, x) : x;
    }
    if (!g->in_y && g->threads_y > 1) {
        lv y = em_icmp(&g->em, LLVMIntEQ, g->thread_y, sn_em_i(&g->em, g->thread_y, 0));
        cond = cond ? em_and(&g->em, cond, y) : y;
    }
    return cond;
}

static void store_at(sn_gen *g, const sn_gen_access *a, sn_ix e, lv x) {
    if (sn_gen_is_posted(g, a)) {
        sn_gen_post(g, a->id, sn_gen_ix(g, e), x);
        return;
    }
    int64_t first;
    if (sn_gen_are_registers(g, a, e, sn_em_lanes(x), &first)) {
        sn_gen_set_register(g, a->id, first, x);
        return;
    }
    if (a->b->scope == SN_BUF_SHARED) g->unseen = true;
    lv s = LLVMBuildStore(g->em.b, x, sn_gen_address(g, a, e));
    LLVMSetAlignment(s, sn_gen_alignment(a, sn_em_lanes(x), g->gpu));
}

static void store_lanes(sn_gen *g, const sn_gen_access *a, lv x, lv mask) {
    for (uint32_t i = 0; i < g->lanes; i++) {
        uint32_t mark = sn_gen_mark(g);
        sn_em_if branch;
        if (mask) branch = sn_em_then(&g->em, sn_em_lane(&g->em, mask, i), "store");
        g->pick = (int)i;
        store_at(g, a, sn_gen_at_lane(g, a->e, i), sn_em_lane(&g->em, x, i));
        if (mask) sn_em_end(&g->em, &branch), sn_gen_release(g, mark);
    }
    g->pick = -1;
}

static void store_storage(sn_gen *g, const sn_gen_access *a, lv x, lv mask);

/* Of neighbours that class deal sends each to its place: do all of them hold, and may some do? */
typedef struct dealt {
    lv all, some;
} dealt;

static bool is_dealt(sn_gen *g, const sn_gen_access *a, sn_val mask, dealt *out) {
    sn_em *em = &g->em;
    const sn_stmt_rec *r = sn_stmt_get(g->m, sn_val_get(g->m, mask)->def);
    bool deals = g->gpu && g->k->sched.cls == SN_SCHED_DEAL && a->piece == 1 && r->op == SN_LOP_IN;
    lv x = sn_gen_val(g, mask);
    if (!deals || sn_em_lanes(x) == 1) return false;
    sn_ix e = sn_gen_resolve(g, r->ix), bound = sn_gen_resolve(g, r->bound);
    int64_t c, apart = g->lanes - 1;
    if (sn_ix_uses_axis(g->m, bound, g->lane_axis) || !sn_ix_coef(g->m, e, g->lane_axis, &c) || c != 1) return false;
    out->all = em_and(em, sn_em_lane(em, x, 0), sn_em_lane(em, x, g->lanes - 1));
    out->some = sn_gen_in(g, sn_ix_addc(g->m, sn_gen_at_lane(g, e, 0), apart), sn_ix_addc(g->m, bound, apart));
    return true;
}

/* One vector where all lanes hold, as nearly everywhere. */
static void store_edges(sn_gen *g, const sn_gen_access *a, lv x, lv mask) {
    sn_em *em = &g->em;
    lv whole = em_and(em, sn_em_lane(em, mask, 0), sn_em_lane(em, mask, g->lanes - 1));
    for (int part = 0; part < 2; part++) {
        uint32_t mark = sn_gen_mark(g);
        sn_em_if branch = sn_em_then(em, part ? LLVMBuildNot(em->b, whole, "") : whole, "store");
        if (part) store_lanes(g, a, x, mask);
        else store_storage(g, a, x, NULL);
        sn_em_end(em, &branch);
        sn_gen_release(g, mark);
    }
}

/* Places of lanes that are side by side up to the end of a row, and then in the next one:
 *     (lane + sum over some n_k (c_k * ((y + lane) div n_k)) + rest) mod N, where the least n_k has no less than all lanes and divides the others. */
typedef struct two_rows {
    sn_ix here, next; /* of lane 0; of lane 0 if the next row began as much earlier as it is away */
    sn_ix behind;     /* place of lane 0 in its row; none: rows end with vectors */
    int64_t row;
} two_rows;

static bool find_rows(sn_gen *g, const sn_gen_access *a, two_rows *out) {
    const sn_ix_rec *mod = sn_ix_get(g->m, a->e);
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, n, c;
    sn_ix y = {0};
    *out = (two_rows){.row = INT64_MAX};
    if (mod->kind != SN_IX_MOD || !sn_ix_is_const(g->m, mod->b, &n) || n & (n - 1)) return false;
    uint32_t n_terms = sn_ix_terms(g->m, mod->a, &terms, &c0, &one);
    bool walks = false;
    for (uint32_t i = 0; i < n_terms; i++) {
        const sn_ix_rec *r = sn_ix_get(g->m, terms[i].atom);
        if (!sn_ix_uses_axis(g->m, terms[i].atom, g->lane_axis)) continue;
        if (r->kind == SN_IX_AXIS && terms[i].c == 1) walks = true;
        else if (r->kind != SN_IX_DIV || !sn_ix_is_const(g->m, r->b, &c) || c < g->lanes) return false;
        else if (y.i && !sn_ix_eq(y, r->a)) return false;
        else if (y = r->a, c < out->row) out->row = c;
    }
    if (!walks) return false;
    out->here = sn_gen_at_lane(g, a->e, 0);
    if (!y.i) return true;
    if (!sn_ix_coef(g->m, y, g->lane_axis, &c) || c != 1) return false;
    sn_ix first = sn_gen_at_lane(g, y, 0), next = sn_gen_at_lane(g, mod->a, 0);
    out->behind = sn_ix_modc(g->m, first, out->row);
    sn_ix end = sn_ix_addc(g->m, sn_ix_sub(g->m, first, out->behind), out->row);
    for (uint32_t i = 0; i < n_terms; i++) {
        const sn_ix_rec *r = sn_ix_get(g->m, terms[i].atom);
        if (r->kind != SN_IX_DIV || !sn_ix_uses_axis(g->m, terms[i].atom, g->lane_axis)) continue;
        if (!sn_ix_is_const(g->m, r->b, &c) || c % out->row) return false;
        sn_ix more = sn_ix_sub(g->m, sn_ix_divc(g->m, end, c), sn_ix_divc(g->m, first, c));
        next = c == out->row ? sn_ix_addc(g->m, next, terms[i].c) : sn_ix_fma(g->m, terms[i].c, more, next);
    }
    out->next = sn_ix_mod(g->m, next, mod->b);
    return true;
}

/* All lanes are in the block: none of them goes round. */
static bool store_rows(sn_gen *g, const sn_gen_access *a, lv x) {
    sn_em *em = &g->em;
    two_rows rows;
    int64_t bytes = sn_dtype_bytes(a->b->dtype);
    if (!find_rows(g, a, &rows)) return false;
    lv here = sn_gen_ix(g, sn_ix_scale(g->m, rows.here, bytes)), next = NULL, behind = NULL;
    if (rows.behind.i) {
        next = sn_gen_ix(g, sn_ix_scale(g->m, rows.next, bytes));
        behind = sn_gen_ix(g, rows.behind);
    }
    g->unseen = true;
    for (uint32_t i = 0; i < g->lanes; i++) {
        lv at = here;
        if (next && i)
            at = em_select(em, em_icmp(em, LLVMIntUGE, behind, sn_em_i(em, behind, rows.row - i)), next, here);
        lv p = sn_gen_element(g, em->cg->i8, sn_gen_memory(g, a->id), at);
        if (i) p = sn_gen_element(g, em->cg->i8, p, sn_em_ci(em->cg->i64, i * bytes));
        LLVMSetAlignment(LLVMBuildStore(em->b, sn_em_lane(em, x, i), p), sn_gen_alignment(a, 1, g->gpu));
    }
    return true;
}

/* All lanes are the block's, as nearly everywhere, or none is. */
static void store_dealt(sn_gen *g, const sn_gen_access *a, const dealt *d, lv x, lv mask) {
    sn_em *em = &g->em;
    lv some = em_and(em, d->some, LLVMBuildNot(em->b, d->all, ""));
    for (int part = 0; part < 2; part++) {
        uint32_t mark = sn_gen_mark(g);
        sn_em_if branch = sn_em_then(em, part ? some : d->all, "store");
        if (part || !store_rows(g, a, x)) store_lanes(g, a, x, part ? mask : NULL);
        sn_em_end(em, &branch);
        sn_gen_release(g, mark);
    }
}

static void store_storage(sn_gen *g, const sn_gen_access *a, lv x, lv mask) {
    if (g->lanes > 1 && (a->piece == 1 || mask)) {
        store_lanes(g, a, x, mask);
    } else if (a->piece == 0) {
        store_at(g, a, sn_gen_at_lane(g, a->e, 0), sn_em_lane(&g->em, x, g->lanes - 1)); /* the last iteration wins */
    } else {
        x = sn_em_splat(&g->em, x, g->lanes);
        for (uint32_t i = 0; i < g->lanes; i += a->piece) {
            lv part = sn_em_slice(&g->em, x, i, a->piece);
            store_at(g, a, sn_gen_at_piece(g, a, i, a->piece), a->reversed ? sn_em_reverse(&g->em, part) : part);
        }
    }
}

static lv lanes_in_front(sn_gen *g, sn_val mask);

/* Those of the test that lanes have each for themselves, if the one of all of them holds. */
static lv some_or_none(sn_gen *g, sn_val a, sn_val b) {
    lv x = sn_gen_val(g, a), y = sn_gen_val(g, b);
    bool first = sn_em_lanes(x) > 1;
    if (first == (sn_em_lanes(y) > 1)) return NULL;
    lv lanes = lanes_in_front(g, first ? a : b);
    return lanes ? em_select(&g->em, first ? y : x, lanes, sn_em_ci(g->em.cg->i32, 0)) : NULL;
}

/* How many lanes of a vector are in front of the bound that they are tested against; NULL: the mask says something else. */
static lv lanes_in_front(sn_gen *g, sn_val mask) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, sn_val_get(g->m, mask)->def);
    int64_t step;
    if (r->op == SN_LOP_AND) return some_or_none(g, r->in[0], r->in[1]);
    if (r->op != SN_LOP_IN) return NULL;
    sn_ix e = sn_gen_resolve(g, r->ix), bound = sn_gen_resolve(g, r->bound);
    if (!sn_ix_coef(g->m, e, g->lane_axis, &step) || step != 1 || sn_ix_range(g->m, e).lo < 0) return NULL;
    if (sn_ix_uses_axis(g->m, bound, g->lane_axis)) return NULL;
    sn_ix left = sn_ix_min(g->m, sn_ix_sub(g->m, bound, sn_gen_at_lane(g, e, 0)), sn_ix_const(g->m, g->lanes));
    return LLVMBuildIntCast2(g->em.b, sn_gen_ix(g, sn_ix_max(g->m, left, sn_ix_const(g->m, 0))), g->em.cg->i32, true,
                             "");
}

/* The store of a load that is an asynchronous copy; false when the pieces are no such size. */
static bool copied(sn_gen *g, const sn_stmt_rec *s, sn_stmt_rec *from) {
    sn_em *em = &g->em;
    sn_gen_access to = sn_gen_access_of(g, s), a = sn_gen_access_of(g, from);
    sn_val mask_id = sn_stmt_mask(from);
    lv mask = mask_id.i ? sn_gen_val(g, mask_id) : NULL, some = NULL, none = sn_em_ci(em->cg->i32, 0);
    uint32_t piece = g->lanes <= 1 ? 1 : to.piece < a.piece ? to.piece : a.piece;
    uint32_t bytes = piece * sn_dtype_bytes(a.b->dtype);
    if (bytes != 4 && bytes != 8 && bytes != 16) return false;
    if (piece > 1 && (a.reversed || to.reversed)) return false;
    if (mask && sn_em_lanes(mask) > 1) {
        lv lanes = piece == g->lanes ? lanes_in_front(g, mask_id) : NULL;
        if (!lanes) return false;
        some = em_imul(em, lanes, sn_em_i(em, lanes, sn_dtype_bytes(a.b->dtype)));
    } else if (mask) {
        some = em_select(em, mask, sn_em_ci(em->cg->i32, bytes), none);
    }
    if (g->ahead) some = em_select(em, g->ahead, some ? some : sn_em_ci(em->cg->i32, bytes), none);
    if (some) mask = em_icmp(em, LLVMIntNE, some, none);
    for (uint32_t i = 0; i < g->lanes; i += piece) {
        lv q = sn_gen_address(g, &to, sn_gen_at_lane(g, to.e, i)), p = sn_gen_address(g, &a, sn_gen_at_lane(g, a.e, i));
        /* A copy of no bytes reads none. What runs ahead stands among products, which an instruction less is worth. */
        if (mask && !g->runs_ahead) p = em_select(em, mask, p, g->memory[a.id.i]);
        sn_gen_copy_piece(g, q, p, bytes, some);
    }
    return true;
}

/* Stores of one region that fill all places between their elements. */
typedef struct woven {
    sn_stmt_rec *of[SN_MOST_APART]; /* by the place */
    int64_t least;                  /* the first place, behind the store that is asked about */
    sn_stmt_rec *last;              /* the one behind all others: there all of them are done */
} woven;

/* Offsets of the stores found, behind that of the one that is asked about. */
typedef struct found {
    sn_stmt_rec *at[SN_MOST_APART];
    int64_t behind[SN_MOST_APART];
    uint32_t n;
    bool asked; /* it is among them */
} found;

static bool put_in_places(woven *out, const found *f, int64_t step) {
    *out = (woven){.last = NULL};
    for (uint32_t i = 0; i < f->n; i++)
        if (f->behind[i] < out->least) out->least = f->behind[i];
    for (uint32_t i = 0; i < f->n; i++) {
        int64_t place = f->behind[i] - out->least;
        if (place >= step || out->of[place]) return false;
        out->of[place] = out->last = f->at[i];
    }
    return f->n == step;
}

/* Is s one of them? Nobody in between looks at the buffer. */
static bool is_woven(woven *out, sn_gen *g, const sn_stmt_rec *s, const sn_gen_access *a) {
    found f = {.n = 0};
    if (sn_stmt_mask(s).i || !sn_gen_lies_apart(g, a)) return false;
    sn_stmt t = s->parent.i ? sn_stmt_get(g->m, s->parent)->first : g->k->first;
    for (; t.i && !(f.asked && f.n == a->step); t = sn_stmt_get(g->m, t)->next) {
        sn_stmt_rec *r = sn_stmt_get(g->m, t);
        bool store = r->op == SN_LOP_STORE && !sn_stmt_mask(r).i, same = r->buf.i == s->buf.i;
        if (sn_lop_has_region(r->op) || (same && !store)) {
            if (f.asked) return false;
            f.n = 0;
            continue;
        }
        if (!same) continue;
        if (f.n == a->step) f.n = 0;
        sn_ix away = sn_ix_sub(g->m, sn_gen_resolve(g, r->ix), a->e);
        if (!sn_ix_is_const(g->m, away, &f.behind[f.n])) return false;
        f.at[f.n++] = r;
        f.asked |= r == s;
    }
    return f.asked && put_in_places(out, &f, a->step);
}

static void store_woven(sn_gen *g, const sn_gen_access *a, const woven *w) {
    lv x[SN_MOST_APART], parts[SN_MOST_APART];
    for (int64_t k = 0; k < a->step; k++) {
        x[k] = sn_math_to_storage(&g->em, a->b->dtype, sn_gen_val(g, w->of[k]->in[0]));
        x[k] = sn_em_splat(&g->em, x[k], g->lanes);
    }
    sn_gen_weave(&g->em, parts, x, (uint32_t)a->step);
    sn_ix first = sn_gen_at_lane(g, sn_ix_addc(g->m, a->e, w->least), 0);
    for (int64_t k = 0; k < a->step; k++) store_at(g, a, sn_ix_addc(g->m, first, k * g->lanes), parts[k]);
}

void sn_gen_store(sn_gen *g, sn_stmt_rec *s) {
    if (!g->gpu && g->lanes > 1) {
        woven w;
        sn_gen_access a = sn_gen_access_of(g, s);
        bool all = is_woven(&w, g, s, &a);
        if (all && w.last == s) store_woven(g, &a, &w);
        if (all) return;
    }
    if (g->copies && g->copies[s->in[0].i]) {
        sn_stmt_rec *from = sn_stmt_get(g->m, sn_val_get(g->m, s->in[0])->def);
        if (copied(g, s, from)) return;
        g->copies_all = false;
        sn_gen_load_value(g, from);
    }
    lv x = sn_math_to_storage(&g->em, sn_buf_get(g->m, s->buf)->dtype, sn_gen_val(g, s->in[0]));
    if (!g->run.lanes) {
        sn_gen_store_value(g, s, x);
        return;
    }
    g->run.stores[g->run.n_stored] = s;
    g->run.stored[g->run.n_stored++] = sn_em_splat(&g->em, x, g->run.lanes);
}

void sn_gen_store_value(sn_gen *g, sn_stmt_rec *s, lv x) {
    sn_val mask_id = sn_stmt_mask(s);
    lv mask = mask_id.i ? sn_gen_val(g, mask_id) : NULL;
    sn_gen_access a = sn_gen_access_of(g, s);
    lv cond = sn_gen_chosen_threads(g, a.b->scope);
    if (mask && sn_em_lanes(mask) == 1) cond = cond ? em_and(&g->em, cond, mask) : mask, mask = NULL;
    if (cond && em_is(cond, false)) return;
    if (cond && em_is(cond, true)) cond = NULL;
    uint32_t mark = sn_gen_mark(g);
    sn_em_if branch;
    dealt d;
    if (cond) branch = sn_em_then(&g->em, cond, "store");
    if (mask && sn_gen_takes_masks(g, &a)) sn_gen_access_masked(g, &a, x, mask_id, mask);
    else if (mask && is_dealt(g, &a, mask_id, &d)) store_dealt(g, &a, &d, x, mask);
    else if (mask && sn_gen_is_interval(g, &a, mask_id)) store_edges(g, &a, x, mask);
    else store_storage(g, &a, x, mask);
    if (cond) sn_em_end(&g->em, &branch), sn_gen_release(g, mark);
}
