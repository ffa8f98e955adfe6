/* contract_ahead.c: an array that the body behind a product loads an element of for each result (a residual, a gate) comes in whole
 * lines, and a part of the tile before it is wanted.
 *
 *     loop x : block.x { held[0, ..] = load r[rows of part 0 of the tile] }
 *     loop k : pipe { .. products .. }
 *     loop p in parts : unroll {
 *       if p + 1 in parts { loop x : block.x { held[(p + 1) mod 2, ..] = load r[rows of part p + 1] } }
 *       loop x : block.x { results[..] = held[p mod 2, ..] }   barrier
 *       loop x : block.x { results[..] = f(sums, results[..]) }   barrier   boxes
 *     }
 *
 * A thread of a tensor core has two neighbours of eight rows: loads from there touch eight lines for 128 bytes, and a tile's worth
 * of them takes as long as six steps of products. Threads side by side load elements side by side instead (as contract_store.c
 * stores them), and these change threads in the shared memory that the results pass through anyway, each in the place of its
 * result. The first part is on its way during all products, and the others while the one before is stored.
 *
 * Legality: the kernel stores to no buffer that is loaded so; the index is made of axes, along the columns by 1; elements have the
 * dtype of the results. One array can come so. Registers bound it: what a thread holds stands beside its sums.
 */
#include "passes/schedule/contract_bind.h"

/* ---- which load ---- */

static bool is_stored(const sn_contract_binding *b, sn_buf buf) {
    for (uint32_t i = 0; i < b->body.n; i++)
        if (sn_stmt_stores(b->m, b->body.at[i], buf)) return true;
    return false;
}

static bool uses_rows(const sn_contract_binding *b, sn_ix e) {
    const sn_contraction *c = &b->ct.c;
    for (uint32_t i = 0; i < c->outer.n; i++)
        if (c->side[i] == SN_SIDE_M && c->extent[i] > 1 && sn_ix_uses_axis(b->m, e, sn_stmt_axis(b->m, c->outer.at[i])))
            return true;
    return false;
}

/* Elements of a part that a thread has, and parts that are held at a time. */
static int64_t each(const sn_contract_binding *b) { return sn_mma_private(&b->nest) / b->n_parts; }
static uint32_t turns(const sn_contract_binding *b) { return b->n_parts > 1 ? 2 : 1; }

static bool may_come(sn_contract_binding *b, sn_stmt s) {
    enum { WORD = 4 };
    const sn_stmt_rec *r = sn_stmt_get(b->m, s);
    if (r->op != SN_LOP_LOAD || r->has_mask || sn_buf_is_local(sn_buf_get(b->m, r->buf))) return false;
    if (sn_ix_uses_vals(b->m, r->ix) || !uses_rows(b, r->ix) || is_stored(b, r->buf)) return false;
    if (r->dtype != sn_buf_get(b->m, b->staged)->dtype || !sn_contract_is_row_wise(b, r->ix)) return false;
    int64_t v = sn_contract_row_vector(b, r->buf, r->ix), words = turns(b) * each(b) * sn_dtype_bytes(r->dtype) / WORD;
    return v * sn_dtype_bytes(r->dtype) >= SN_AHEAD_VECTOR && each(b) % v == 0 &&
           words <= SN_PRODUCT_REGS - sn_mma_private(&b->nest) * b->ct.c.n_states;
}

void sn_contract_find_ahead(sn_contract_binding *b) {
    b->ahead = (sn_stmt){0};
    if (!b->staged.i || b->split > 1 || b->n_terms) return;
    for (uint32_t i = 0; i < b->body.n && !b->ahead.i; i++)
        if (may_come(b, b->body.at[i])) b->ahead = b->body.at[i];
    if (!b->ahead.i) return;
    b->held = sn_contract_local(b, "held", sn_stmt_get(b->m, b->ahead)->dtype, SN_BUF_REG, turns(b) * each(b),
                                (int64_t)b->nest.threads * b->sc->cluster);
}

/* ---- from memory to registers, and on to where results will be ---- */

/* A loop over the vectors that a thread brings of part p; *at moves inside. */
typedef struct piece {
    sn_ix row, column, lane; /* in the part: of its first element; and which one of it */
    sn_ix held;              /* where it stands in registers */
} piece;

static piece open_piece(sn_contract_binding *b, sn_cursor *at, sn_ix p) {
    sn_module *m = b->m;
    const sn_stmt_rec *load = sn_stmt_get(m, b->ahead);
    int64_t v = sn_contract_row_vector(b, load->buf, load->ix), columns = b->sc->tile_n / b->n_parts;
    sn_ix x = sn_contract_loop(b, at, "x", b->nest.threads, SN_AXIS_BLOCK_X);
    sn_ix u = sn_contract_loop(b, at, "u", each(b) / v, SN_AXIS_UNROLL);
    sn_ix number = sn_contract_fma(b, b->nest.threads, u, x);
    sn_ix lane = sn_contract_loop(b, at, "v", v, SN_AXIS_VECTOR);
    sn_ix thread = sn_contract_fma(b, b->nest.threads, b->nest.rank, x), turn = sn_ix_modc(m, p, turns(b));
    sn_ix own = sn_contract_fma(b, each(b), turn, sn_contract_fma(b, v, u, lane));
    return (piece){.row = sn_ix_divc(m, number, columns / v),
                   .column = sn_ix_scale(m, sn_ix_modc(m, number, columns / v), v),
                   .lane = lane,
                   .held = sn_contract_fma(b, turns(b) * each(b), thread, own)};
}

void sn_contract_load_ahead(sn_contract_binding *b, sn_cursor at, sn_ix p) {
    sn_module *m = b->m;
    const sn_stmt_rec *load = sn_stmt_get(m, b->ahead);
    piece i = open_piece(b, &at, p);
    sn_ix row = sn_ix_add(m, b->row, i.row), in_tile = sn_contract_fma(b, b->sc->tile_n / b->n_parts, p, i.column);
    sn_ix column = sn_ix_add(m, b->column, in_tile),
          from = sn_contract_offset_at(b, load->ix, row, sn_ix_add(m, column, i.lane));
    sn_val mask = sn_contract_and(b, at, (sn_val){0}, b->edge_m, row, b->ct.c.m);
    mask = sn_contract_and(b, at, mask, b->edge_n, column, b->ct.c.n);
    sn_val x = mask.i ? sn_put_load_masked(m, at, load->buf, from, mask, sn_put_const(m, at, load->dtype, 0))
                      : sn_put_load(m, at, load->buf, from);
    sn_put_store(m, at, b->held, i.held, x);
}

void sn_contract_hand_over(sn_contract_binding *b, sn_cursor at, sn_ix p) {
    piece i = open_piece(b, &at, p);
    sn_put_store(b->m, at, b->staged, sn_contract_staged_at(b, p, i.row, sn_ix_add(b->m, i.column, i.lane)),
                 sn_put_load(b->m, at, b->held, i.held));
}
