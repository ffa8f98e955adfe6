/* contract_ahead.c: what the body behind a product loads for each of its results (a residual, a gate) comes before
 * it is wanted.
 *
 *     loop x : block.x { held[0, ..] = load r[part 0 of the tile] }
 *     loop k : pipe { .. products .. }
 *     loop p in parts : unroll {
 *       if p + 1 in parts { loop x : block.x { held[(p + 1) mod 2, ..] = load r[part p + 1] } }
 *       loop x : block.x { results = f(sums, held[p mod 2, ..]) }   barrier   boxes
 *     }
 *
 * Threads that multiply have nothing else to do while a load comes from memory. So the first part is on its way
 * during all products, and the others while the one before is stored: 3 % of a short product with a gate on an H200,
 * less of longer ones, where what is left is that each load touches eight lines. (Whole rows by vectors, which
 * change threads in the memory of the results, were 7 % slower there: their parts wait for each other at a barrier
 * more.) Loads of rows or columns alone (a bias) come from near caches, and stay where they are. Registers bound it:
 * what a thread holds stands beside its sums, for all such arrays or for none, and tests at the edges of the result
 * would not leave enough of them: where results pass through shared memory, mostly none are needed.
 *
 * Legality: the kernel stores to no buffer that is loaded so, and the index is made of axes. contract_bind.c decides
 * about parts.
 */
#include "passes/schedule/products/contract_bind.h"

/* ---- which loads ---- */

static bool uses_side(const sn_contract_binding *b, sn_ix e, sn_contraction_side side) {
    const sn_contraction *c = &b->ct.c;
    for (uint32_t i = 0; i < c->outer.n; i++)
        if (c->side[i] == side && c->extent[i] > 1 && sn_ix_uses_axis(b->m, e, sn_stmt_axis(b->m, c->outer.at[i])))
            return true;
    return false;
}

static bool is_stored(const sn_contract_binding *b, sn_buf buf) {
    for (uint32_t i = 0; i < b->body.n; i++)
        if (sn_stmt_stores(b->m, b->body.at[i], buf)) return true;
    return false;
}

static bool may_come(const sn_contract_binding *b, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(b->m, s);
    if (r->op != SN_LOP_LOAD || r->has_mask || sn_buf_is_local(sn_buf_get(b->m, r->buf))) return false;
    return !sn_ix_uses_vals(b->m, r->ix) && uses_side(b, r->ix, SN_SIDE_M) && uses_side(b, r->ix, SN_SIDE_N) &&
           !is_stored(b, r->buf);
}

/* Elements of a part that a thread has, and words of a load of them in all parts that are held at a time. */
static int64_t each(const sn_contract_binding *b) { return sn_mma_private(&b->nest) / b->n_parts; }
static uint32_t turns(const sn_contract_binding *b) { return b->n_parts > 1 ? 2 : 1; }
static int64_t words(const sn_contract_binding *b, sn_buf buf) {
    enum { WORD = 4 };
    return sn_ceil_div(turns(b) * each(b) * sn_dtype_bytes(sn_buf_get(b->m, buf)->dtype), WORD);
}

void sn_contract_find_ahead(sn_contract_binding *b) {
    int64_t room = SN_PRODUCT_REGS - sn_mma_private(&b->nest) * b->ct.c.n_states;
    b->n_ahead = 0;
    bool tests = (b->edge_m || b->edge_n) && !sn_contract_stays_inside(b);
    if (!b->staged.i || b->split > 1 || b->n_terms || tests || b->ct.halo.taps) return;
    for (uint32_t i = 0; i < b->body.n && b->n_ahead < SN_MOST_AHEAD; i++) {
        sn_buf from = sn_stmt_get(b->m, b->body.at[i])->buf;
        if (!may_come(b, b->body.at[i])) continue;
        room -= words(b, from);
        b->ahead[b->n_ahead] = b->body.at[i];
        b->held[b->n_ahead++] = sn_contract_local(b, "held", sn_buf_get(b->m, from)->dtype, SN_BUF_REG,
                                                  turns(b) * each(b), (int64_t)b->nest.threads * b->sc->cluster);
    }
    if (room < 0) b->n_ahead = 0;
}

/* ---- where they stand ---- */

/* In registers, of part p: element e of a block of columns. */
static sn_ix place(sn_contract_binding *b, const sn_contract_spot *s, sn_ix p) {
    int64_t blocks = b->nest.tiles_n / b->n_parts;
    sn_ix thread = sn_ix_fma(b->m, b->nest.threads, b->nest.rank, s->x), turn = sn_ix_modc(b->m, p, turns(b));
    sn_ix own = sn_ix_fma(b->m, sn_mma_elements(b->nest.mma), sn_ix_fma(b->m, blocks, s->h, s->in_part), s->e);
    return sn_ix_fma(b->m, turns(b) * each(b), thread, sn_ix_fma(b->m, each(b), turn, own));
}

void sn_contract_load_ahead(sn_contract_binding *b, sn_cursor at, sn_ix p) {
    sn_contract_spot s;
    if (!b->n_ahead) return;
    sn_contract_open_spot(&s, b, &at, p);
    for (uint32_t i = 0; i < b->n_ahead; i++) {
        const sn_stmt_rec *load = sn_stmt_get(b->m, b->ahead[i]);
        sn_ix from = sn_ix_subst(b->m, load->ix, s.axes, s.with, s.n);
        sn_val x = sn_put_load(b->m, at, load->buf, from);
        sn_put_store(b->m, at, b->held[i], place(b, &s, p), x);
    }
}

bool sn_contract_is_ahead(const sn_contract_binding *b, sn_stmt s) {
    bool is = false;
    for (uint32_t i = 0; i < b->n_ahead; i++) is |= b->ahead[i].i == s.i;
    return is;
}

sn_val sn_contract_ahead(sn_contract_binding *b, sn_cursor at, const sn_contract_spot *s, sn_ix p, uint32_t i) {
    return sn_put_load(b->m, at, b->held[i], place(b, s, p));
}
