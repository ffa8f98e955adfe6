/* contract_left.c: left operands of matrix instructions that pass through registers, for class contract on GPUs.
 *
 *     loop k : pipe { boxes   barrier   fragment 0   acc += fragment 0 * right   fragment 1   acc += fragment 1 * right }
 *
 * Threads load from shared memory what boxes have brought, as the instruction wants it in registers (ir/loop/mma.h), and make of
 * it what it multiplies: terms of f32 (contract_terms.c), what is computed from it (contract_made.c), or the same elements, of an operand
 * that lies across the sum, which instructions of tf32 take from registers alone. A step of the pipe has two pieces with registers of their
 * own: while the products of one are under way, the other is loaded.
 */
#include "passes/schedule/products/contract_bind.h"

enum { GROUP = 8 /* steps that change places */, LANES = 4 /* that share a row */ };

/* The step may be any, if it is the same one for both operands. Where the left one lies along the sum and terms of the right one are
 * stored by threads, each of four lanes loads one of four neighbours, so that a warp reads 8 whole pieces of 16 bytes, and the
 * fragment has two such loads next to each other. */
sn_ix sn_contract_step_at(sn_contract_binding *b, sn_ix p) {
    if (b->across[b->ct.c.products[0].left] || !b->n_terms) return p;
    sn_ix in = sn_ix_modc(b->m, p, GROUP), group = sn_ix_divc(b->m, p, GROUP);
    sn_ix step = sn_ix_fma(b->m, GROUP / 2, sn_ix_modc(b->m, in, 2), sn_ix_divc(b->m, in, 2));
    return sn_ix_fma(b->m, GROUP, group, step);
}

sn_mma_nest sn_contract_piece(const sn_contract_binding *b) {
    sn_mma_nest nest = b->nest;
    nest.depth = b->sc->tile_k / SN_PIECES;
    return nest;
}

void sn_contract_choose_piece(sn_contract_binding *b, sn_mma_operand *right, int64_t piece) {
    int64_t depth = sn_contract_piece(b).depth;
    right->steps = b->sc->tile_k;
    right->at = sn_mma_offset(b->m, right, right->steps, sn_ix_const(b->m, 0), sn_ix_const(b->m, piece * depth));
}

void sn_contract_make_fragments(sn_contract_binding *b) {
    static const char *const NAMES[SN_MOST_TERMS] = {"left_h", "left_m", "left_l"};
    sn_mma_nest nest = sn_contract_piece(b);
    uint32_t n = b->n_terms ? b->n_terms : 1;
    for (uint32_t i = 0; i < b->ct.c.n_operands; i++)
        for (uint32_t k = 0; k < SN_PIECES * n && !b->ct.c.operands[i].right; k++)
            b->fragments[i][k / n][k % n] =
                sn_contract_local(b, b->n_terms ? NAMES[k % n] : "left_f", sn_mmas[nest.mma].operand, SN_BUF_REG,
                                  sn_mma_fragment_private(&nest), (int64_t)nest.threads * b->sc->cluster);
}

sn_val sn_contract_raw(sn_contract_binding *b, sn_cursor at, uint32_t operand, sn_ix row, sn_ix step) {
    sn_mma_operand raw = sn_contract_operand_of(b, operand);
    int64_t together = sn_contract_together(&b->ct, operand);
    sn_ix offset = sn_mma_offset(b->m, &raw, b->sc->tile_k / together, row, sn_ix_divc(b->m, step, together));
    return sn_put_load(b->m, at, raw.buf, sn_shared_of_rank(b->m, raw.buf, b->nest.rank, offset));
}

/* Elements of a thread are, in their order: blocks of rows h, steps s of the instruction, halves i of those, rows r that are 8
 * apart, neighbours e. */
static void hold(sn_contract_binding *b, sn_cursor at, uint32_t operand, int64_t piece, sn_ix x, sn_ix base,
                 sn_buf to) {
    sn_module *m = b->m;
    sn_mma_nest nest = sn_contract_piece(b);
    int64_t k = sn_mmas[nest.mma].k, c = sn_mma_neighbours(nest.mma), steps = nest.depth / k;
    sn_ix h = sn_contract_loop(b, &at, "h", nest.tiles_m, SN_AXIS_UNROLL),
          s = sn_contract_loop(b, &at, "s", steps, SN_AXIS_UNROLL),
          i = sn_contract_loop(b, &at, "i", 2, SN_AXIS_UNROLL), r = sn_contract_loop(b, &at, "r", 2, SN_AXIS_UNROLL),
          e = sn_contract_loop(b, &at, "e", c, b->ct.made ? SN_AXIS_VECTOR : SN_AXIS_UNROLL);
    sn_ix p = sn_ix_fma(b->m, c, sn_ix_modc(m, x, LANES), e);
    p = sn_ix_addc(m, sn_ix_fma(b->m, k, s, sn_ix_fma(b->m, LANES * c, i, p)), piece * nest.depth);
    sn_ix element = sn_ix_fma(b->m, 2, sn_ix_fma(b->m, 2, sn_ix_fma(b->m, steps, h, s), i), r);
    sn_ix row = sn_mma_row(m, &nest, x, h, sn_ix_scale(m, r, 2));
    sn_val raw = sn_contract_raw(b, at, operand, row, sn_contract_step_at(b, p));
    if (b->ct.made) raw = sn_contract_make(b, at, operand, row, p, raw);
    sn_put_store(m, at, to, sn_ix_add(m, base, sn_ix_fma(b->m, c, element, e)), raw);
}

void sn_contract_load_left(sn_contract_binding *b, sn_cursor at, uint32_t operand, int64_t piece) {
    sn_module *m = b->m;
    sn_mma_nest nest = sn_contract_piece(b);
    int64_t own = sn_mma_fragment_private(&nest), c = sn_mma_neighbours(nest.mma);
    const sn_buf *fragments = b->fragments[operand][piece];
    sn_buf held = fragments[0];
    if (b->n_terms)
        held = sn_contract_local(b, "held", SN_F32, SN_BUF_REG, own, (int64_t)nest.threads * b->sc->cluster);
    sn_ix x = sn_contract_loop(b, &at, "x", nest.threads, SN_AXIS_BLOCK_X);
    sn_ix base = sn_ix_scale(m, sn_ix_fma(b->m, nest.threads, nest.rank, x), own);
    hold(b, at, operand, piece, x, base, held);
    if (!b->n_terms) return;
    sn_ix u = sn_contract_loop(b, &at, "u", own / c, SN_AXIS_UNROLL),
          v = sn_contract_loop(b, &at, "v", c, SN_AXIS_VECTOR);
    sn_ix offset = sn_ix_add(m, base, sn_ix_fma(b->m, c, u, v));
    sn_contract_store_terms(b, at, sn_put_load(m, at, held, offset), fragments, offset);
}
