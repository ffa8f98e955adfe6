/* contract.c: class contract on GPUs: matrix products by tensor cores.
 *
 *     loop i in M { loop j in N { %s = reduce sum r in K { .. a(i, r) * b(j, r) }   .. store y[..] } }
 *  -> loop g : grid { loop c : cluster { loop w {                tiles, in an order that keeps their operands in the L2
 *       loop x : block.x { acc = 0 }
 *       loop k in K div tile_k : seq pipe(stages) { box a -> sa   box b -> sb   barrier   loop x : block.x mma(..) { .. } }
 *       loop x : block.x { the body, at the elements of acc that are the thread's }
 *     } } }
 *
 * Chooses here what tensor copies bring to instructions of warpgroups, and asks contract_threads.c for all else;
 * binds in contract_bind.c. Stands on contraction.c. The blocks of a cluster have tiles one below the other, so that
 * the right operand is read once for all of them. A block that is persistent does one tile after the other, and the
 * copies for the next one begin before this one's results are stored.
 */
#include "passes/schedule/products/contract.h"
#include "passes/schedule/base/model.h"

#include <math.h>

/* ---- what it applies to ---- */

/* The instruction for operands of that dtype, none: there is none. */
static sn_mma instruction(const sn_target *t, sn_dtype operand, sn_dtype state) {
    for (sn_mma i = SN_MMA_NONE + 1; i < SN_N_MMAS; i++)
        if (sn_mma_is_async(i) && sn_mmas[i].operand == operand && sn_mmas[i].state == state && t->sm == sn_mmas[i].sm)
            return i;
    return SN_MMA_NONE;
}

static bool any_lies_across(const sn_contract *ct, bool right) {
    bool any = false;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) any |= ct->c.operands[i].right == right && ct->across[i];
    return any;
}

/* Instructions read operands that lie along the sum; one that does not is the left one, which passes through
 * registers. */
static bool takes_as_they_are(sn_contract *ct) {
    if (any_lies_across(ct, true) && any_lies_across(ct, false)) return false;
    if (any_lies_across(ct, true)) sn_contraction_swap(&ct->c);
    ct->in_registers = any_lies_across(ct, false);
    return true;
}

/* The axis along which results are neighbours; none: there is no such axis. */
static sn_axis contiguous_axis(const sn_contract *ct) {
    const sn_chain *outer = &ct->c.outer;
    int64_t stride;
    for (sn_stmt s = sn_next(ct->m, ct->c.top); s.i; s = sn_next(ct->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(ct->m, s);
        for (uint32_t i = 0; i < outer->n && sn_stores(r); i++) {
            sn_axis ax = sn_stmt_axis(ct->m, outer->at[i]);
            if (sn_ix_coef(ct->m, r->ix, ax, &stride) && stride == 1) return ax;
        }
    }
    return (sn_axis){0};
}

/* Few rows are columns. Results that are images are stored along rows of the tile, but not where rows are few: fewer than two instructions
 * have, of terms of f32; than one has, of a gradient of weights, both of whose operands lie across the sum; else than SN_PRODUCT_CHANNELS. */
static bool stands_sideways(const sn_contract *ct) {
    const sn_contraction *c = &ct->c;
    int64_t extent, least = sn_mmas[ct->mma].m;
    bool few = c->m <= least && c->m < c->n;
    if (ct->images && few && c->m < SN_PRODUCT_LEAST && any_lies_across(ct, true) && any_lies_across(ct, false))
        return true;
    if (!ct->images || (ct->n_terms && few)) return few;
    sn_axis ax = contiguous_axis(ct), last = sn_contraction_last_axis(&extent, ct->m, c, SN_SIDE_M);
    return (few && c->m < SN_PRODUCT_CHANNELS) || (ax.i && ax.i == last.i);
}

bool sn_contract_find(sn_contract *ct, const char **why_not, sn_pass_ctx *cx, sn_kern k) {
    *ct = (sn_contract){.cx = cx, .m = cx->m, .k = k};
    sn_contraction *c = &ct->c;
    if (!sn_contraction_find(c, why_not, cx, k)) return false;
    bool made = sn_contract_find_made(ct);
    sn_dtype operand = made ? ct->operand : c->operands[0].from;
    *why_not = "an operand has a prologue";
    for (uint32_t i = 0; i < c->n_operands; i++) {
        const sn_stmt_rec *load = c->operands[i].load.i ? sn_stmt_get(cx->m, c->operands[i].load) : NULL;
        if (!load || sn_buf_get(cx->m, load->buf)->align < SN_WIDEST_ACCESS) return false;
    }
    *why_not = "its operands have different dtypes";
    for (uint32_t i = 0; i < c->n_operands; i++)
        if (c->operands[i].from != operand && !made) return false;
    *why_not = "there is no instruction for its dtypes";
    sn_precision precision = (sn_precision)sn_kern_get(cx->m, k)->sched.precision;
    bool is_f32 = operand == SN_F32 && c->dtype == SN_F32;
    sn_contract_order_sides(ct);
    for (uint32_t i = 0; i < c->n_operands; i++) ct->across[i] = sn_contraction_lies_across(cx, c, i);
    for (uint32_t i = 0; i < c->n_operands; i++) ct->across[i] &= !made || c->operands[i].right;
    sn_contract_straighten(ct);
    bool takes_apart = is_f32 && (precision != SN_PRECISION_TF32 || !takes_as_they_are(ct));
    if (takes_apart) ct->n_terms = sn_precision_terms(precision);
    ct->in_registers |= takes_apart || made;
    ct->mma = instruction(cx->target, takes_apart ? SN_BF16 : operand, c->dtype);
    *why_not = "an operand lies across the sum, which the instruction does not take";
    if (ct->mma && !sn_mmas[ct->mma].across && any_lies_across(ct, true)) return false;
    if (ct->mma && !sn_mmas[ct->mma].across && any_lies_across(ct, false) && !ct->in_registers) return false;
    *why_not = "there is no instruction for its dtypes";
    if (ct->mma == SN_MMA_NONE || !sn_contract_find_pixels(why_not, ct)) return false;
    bool sided = ct->in_registers && !takes_apart;
    if (!sided && stands_sideways(ct)) sn_contraction_swap(c);
    ct->behind = sn_contract_behind(ct);
    return true;
}

bool sn_schedule_contract_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_contract ct;
    (void)sh;
    *why_not = "it is for GPUs";
    if (!cx->target->is_gpu) return false;
    return sn_contract_find_threads(&ct, why_not, cx, k, &sn_kern_get(cx->m, k)->sched);
}

/* ---- headers ---- */

double sn_contract_behind(const sn_contract *ct) {
    bool halves = sn_schedule_stores_halves(ct->m, ct->k);
    double n = 0;
    for (sn_stmt s = sn_stmt_walk_skip(ct->m, ct->c.top); s.i; s = sn_stmt_walk_next(ct->m, s)) {
        sn_lop op = (sn_lop)sn_stmt_get(ct->m, s)->op;
        if (op < SN_N_LOPS) n += halves ? sn_schedule_half_cost(op) : sn_schedule_op_cost(op);
    }
    return n < SN_PRODUCT_LONG ? 0 : n;
}

/* Does it take as long as its left operand takes to come from memory? With taps, that one comes from the cache. */
static bool is_narrow(const sn_contract *ct) { return !ct->line && ct->c.n <= sn_mmas[ct->mma].m; }

/* Rows of a product that is worth tiles. Channels of an image may leave rows of an instruction idle: threads would bring each pixel
 * once for every tap. */
static int64_t least_rows(const sn_contract *ct) { return ct->images ? SN_PRODUCT_CHANNELS : SN_PRODUCT_LEAST; }

/* Tensor copies bring the operands to instructions of warpgroups. */
static void propose_boxes(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_sched *pinned) {
    sn_contract ct;
    const char *why_not;
    if (!cx->target->specific || pinned->threads || pinned->plain) return;
    if (!sn_contract_find(&ct, &why_not, cx, k)) return;
    bool deep = ct.c.k * sn_dtype_bytes(ct.c.operands[0].from) >= SN_PRODUCT_DEPTH;
    bool halves = !ct.images && !ct.n_terms && ct.c.k >= SN_PRODUCT_SHORT;
    if (ct.c.m < least_rows(&ct) || !(deep || halves)) return;
    if (is_narrow(&ct) ? pinned->halo : ct.made) return;
    if (is_narrow(&ct)) sn_contract_narrow(out, &ct, pinned);
    else sn_contract_tiles(out, &ct, pinned);
    if (out->n && out->at[0].halo && !sn_contract_find_halo(&ct)) sn_contract_find_strip(&ct);
    if (!out->n || sn_contract_fits(&why_not, &ct, &out->at[0])) return;
    sn_remark(cx, sn_kern_get(cx->m, k)->name, "its operands do not come by boxes: %s", why_not);
    out->n = 0;
}

bool sn_contract_is_narrow(sn_pass_ctx *cx, sn_kern k) {
    sn_sched_list headers = {0};
    sn_sched open = {.precision = sn_kern_get(cx->m, k)->sched.precision};
    sn_contract ct;
    const char *why_not;
    if (cx->target->is_gpu) propose_boxes(&headers, cx, k, &open);
    return headers.n && sn_contract_find(&ct, &why_not, cx, k) && is_narrow(&ct);
}

/* Would rows of a reduction read the operands again and again, with few rows, too? Taps of a gradient of weights that read the same pixels:
 * its sums are longer than its results are many. Less so where threads multiply. */
static bool rereads_pixels(const sn_contract *ct, int64_t side) {
    return sn_contraction_is_masked(ct->m, &ct->c) && ct->c.k > sn_mul_clamped(ct->c.m, ct->c.n) &&
           side >= (ct->mma ? SN_CONTRACT_TAPS : SN_CONTRACT_TAPS_PLAIN);
}

/* Threads bring the operands. Products that are no wider than a few rows or columns have no use for tiles, unless
 * the header says so. Tiles that take `below` cycles at least are not looked for. */
static void propose_threads(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_sched *pinned, double below) {
    sn_contract ct;
    const char *why_not;
    sn_sched sc = *pinned;
    if (pinned->halo || pinned->shared) return; /* both are for boxes */
    if (!sn_contract_find_threads(&ct, &why_not, cx, k, pinned)) return;
    int64_t side = ct.c.m < ct.c.n ? ct.c.m : ct.c.n;
    bool few = side < SN_CONTRACT_SIDE && !rereads_pixels(&ct, side);
    if (!pinned->cls && (few || ct.c.k < SN_CONTRACT_DEPTH)) return;
    if (sn_contract_threads_least(&ct) >= below) return;
    if (!sn_contract_complete_threads(&sc, &out->cycles, &ct)) return;
    if (!sc.plain || sc.split <= 1) sn_schedule_propose(out, cx, &sc); /* parts are those of instructions */
}

static void append(sn_sched_list *out, sn_pass_ctx *cx, const sn_sched_list *more) {
    if (!out->n) out->cycles = more->cycles;
    for (uint32_t i = 0; i < more->n; i++) sn_schedule_propose(out, cx, &more->at[i]);
}

/* Does the product have images, and rows enough for an instruction, or columns where rows and columns are exchanged? Groups of a convolution
 * with fewer have been joined as far as that helps. */
static bool has_images(sn_pass_ctx *cx, sn_kern k) {
    sn_contract ct;
    const char *why_not;
    if (!sn_contract_find(&ct, &why_not, cx, k) || !ct.images) return false;
    int64_t side = ct.c.m < ct.c.n ? ct.c.m : ct.c.n;
    return (side < SN_PRODUCT_CHANNELS ? side : ct.c.m) >=
           (ct.c.batch > 1 ? SN_PRODUCT_LEAST / 2 + 1 : SN_PRODUCT_LEAST);
}

/* Boxes, where they can be; a small product is done sooner by threads, which begin sooner and share it by smaller
 * tiles, if they need not find out for each element where its pixel stands. */
sn_status sn_schedule_contract_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                          const sn_sched *pinned) {
    (void)sh;
    sn_sched_list boxes = {0}, threads = {0};
    propose_boxes(&boxes, cx, k, pinned);
    double below = boxes.n ? boxes.cycles - SN_CONTRACT_BEGIN : INFINITY;
    if (!boxes.n || !pinned->cls) propose_threads(&threads, cx, k, pinned, below);
    bool sooner = threads.n && boxes.n && threads.cycles < below && !has_images(cx, k);
    if (sooner) append(out, cx, &threads);
    append(out, cx, boxes.n ? &boxes : &threads);
    return SN_OK;
}
