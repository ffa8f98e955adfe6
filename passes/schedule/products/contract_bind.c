/* contract_bind.c: binding of class contract on GPUs; contract.c has the picture.
 *
 * Operands of a stage lie in shared memory in rows of 128 bytes, permuted (swizzle), as the instructions want them:
 * rows of steps of the sum where the operand is contiguous along it, else rows of rows or columns of the tile. A box
 * fills each. What is outside of the operand is 0 there, so that it adds nothing; results outside are not stored.
 */
#include "passes/schedule/products/contract_bind.h"

/* ---- small pieces ---- */

sn_ix sn_contract_loop(sn_contract_binding *b, sn_cursor *at, const char *name, int64_t extent, sn_axis_kind kind) {
    sn_axis ax = sn_axis_new(b->m, name, sn_ix_const(b->m, extent));
    *at = sn_at_end(b->k, sn_put_loop(b->m, *at, ax, kind));
    return sn_ix_axis(b->m, ax);
}

/* The same, but without a loop where there is one iteration. */
static sn_ix open_some(sn_contract_binding *b, sn_cursor *at, const char *name, int64_t extent, sn_axis_kind kind) {
    return extent == 1 ? sn_ix_const(b->m, 0) : sn_contract_loop(b, at, name, extent, kind);
}

sn_buf sn_contract_local(sn_contract_binding *b, const char *name, sn_dtype dtype, sn_buf_scope scope,
                         int64_t private_size, int64_t copies) {
    return sn_local_new(b->m, name, dtype, scope, private_size, copies);
}

void sn_contract_zero(sn_contract_binding *b, sn_cursor at, sn_buf buf) {
    const sn_buf_rec *r = sn_buf_get(b->m, buf);
    int64_t own = r->private_size;
    sn_ix x = sn_contract_loop(b, &at, "x", b->nest.threads, SN_AXIS_BLOCK_X);
    sn_ix e = sn_contract_loop(b, &at, "e", own, SN_AXIS_UNROLL);
    sn_ix thread = sn_ix_fma(b->m, b->nest.threads, b->nest.rank, x);
    sn_put_store(b->m, at, buf, sn_ix_fma(b->m, own, thread, e), sn_put_const(b->m, at, r->dtype, 0));
}

int64_t sn_contract_rows(const sn_contract_binding *b, uint32_t operand) {
    return b->ct.c.operands[operand].right ? b->sc->tile_n : b->sc->tile_m;
}

/* ---- tiles ---- */

/* Of the divisors of n, the one that is nearest to `wanted` by its ratio. */
static int64_t divisor_near(int64_t n, int64_t wanted) {
    int64_t best = 1;
    for (int64_t d = 1; d <= n; d++) {
        int64_t up = d > wanted ? d : wanted, down = d > wanted ? wanted : d;
        int64_t best_up = best > wanted ? best : wanted, best_down = best > wanted ? wanted : best;
        if (n % d == 0 && up * best_down < best_up * down) best = d;
    }
    return best;
}

/* Bytes of all operands of a batch, and of its results. */
static int64_t operand_bytes(const sn_contraction *c) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < c->n_operands; i++)
        bytes += (c->operands[i].right ? c->n : c->m) * c->k * sn_dtype_bytes(c->operands[i].from);
    return bytes;
}

/* Blocks that run at the same time have tiles that are near each other both ways, so that they read the same lines:
 * `tall` of them one below the other, then the next columns. Where more is written than read, and what is read stays
 * in the cache, they stand side by side: memory takes long pieces of few rows faster than short ones of many. */
static int64_t tall(const sn_contract_binding *b, int64_t across, int64_t blocks) {
    const sn_contraction *c = &b->ct.c;
    int64_t wanted = 1, bytes = operand_bytes(c);
    bool stays = 2 * bytes <= (int64_t)b->ct.cx->target->cache_bytes;
    if (stays && bytes < c->m * c->n * sn_dtype_bytes(c->operands[0].from)) return 1;
    while (wanted * wanted * b->sc->tile_m * b->sc->cluster < blocks * b->sc->tile_n) wanted++;
    return divisor_near(across, wanted);
}

/* The loop over the steps of the sum, or of a part of it; *at moves inside. Returns the number of the step. */
static sn_ix open_steps(sn_contract_binding *b, sn_cursor *at) {
    int64_t steps = sn_ceil_div(sn_ceil_div(b->ct.c.k, b->sc->tile_k), b->split);
    sn_ix k = sn_contract_loop(b, at, "k", steps, SN_AXIS_SEQ);
    return b->split > 1 ? sn_ix_fma(b->m, steps, b->part, k) : k;
}

/* ---- operands ---- */

sn_val sn_contract_and(sn_contract_binding *b, sn_cursor at, sn_val mask, bool edge, sn_ix e, int64_t n) {
    if (!edge) return mask;
    sn_val test = sn_put_in(b->m, at, e, sn_ix_const(b->m, n));
    return mask.i ? sn_put_op2(b->m, at, SN_LOP_AND, mask, test) : test;
}

sn_ix sn_contract_inside(sn_contract_binding *b, bool edge, sn_ix e, int64_t n) {
    return edge ? sn_ix_min(b->m, e, sn_ix_const(b->m, n - 1)) : e;
}

/* The operand's element at (place, step), 0 beyond the edges: `place` counts rows or columns of the tile. */
static sn_val put_element(sn_contract_binding *b, sn_cursor at, const sn_contraction_operand *o, sn_ix place,
                          sn_ix step) {
    sn_module *m = b->m;
    sn_contraction_place where = {b->batch, b->row, b->column, step};
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix with[2 * SN_MAX_CHAIN], *side = o->right ? &where.column : &where.row;
    *side = sn_ix_add(m, *side, place);
    uint32_t n = sn_contraction_axes(axes, with, m, &b->ct.c, &where);
    sn_val mask =
        sn_contract_and(b, at, (sn_val){0}, o->right ? b->edge_n : b->edge_m, *side, o->right ? b->ct.c.n : b->ct.c.m);
    mask = sn_contract_and(b, at, mask, b->edge_k, step, b->ct.c.k);
    mask = sn_contract_in_channels(&b->ct, at, mask, axes, with, n);
    sn_buf from = sn_stmt_get(m, o->load)->buf;
    sn_ix offset = sn_ix_subst(m, sn_stmt_get(m, o->load)->ix, axes, with, n);
    return mask.i ? sn_put_load_masked(m, at, from, offset, mask, sn_put_const(m, at, o->from, 0))
                  : sn_put_load(m, at, from, offset);
}

void sn_contract_put_box(sn_contract_binding *b, sn_cursor at, const sn_contract_box *box) {
    sn_module *m = b->m;
    uint32_t i = box->operand;
    int64_t width = sn_contract_operand_of(b, i).width;
    sn_ix line = sn_contract_loop(b, &at, "i", box->lines, SN_AXIS_SEQ),
          lane = sn_contract_loop(b, &at, "j", width, SN_AXIS_SEQ);
    sn_stmt_get(m, sn_stmt_get(m, at.parent)->parent)->bulk = true;
    sn_ix place = sn_ix_addc(m, b->across[i] ? lane : line, box->place);
    sn_ix step = sn_ix_scale(m, b->across[i] ? line : lane, sn_contract_together(&b->ct, i));
    step = sn_ix_add(m, step, box->step);
    sn_val x = b->ct.pixels[i] ? sn_contract_put_pixel(b, at, box, line, lane)
                               : put_element(b, at, &b->ct.c.operands[i], place, step);
    sn_ix to = sn_ix_addc(m, sn_ix_fma(b->m, width, line, lane), box->to);
    sn_put_store(m, at, b->shared[i], sn_shared_of_rank(m, b->shared[i], b->nest.rank, to), x);
}

/* Boxes that fill the operand's shared memory, from `to` on, with step k of the pipe; one for each line of a row, or of a step. */
static void put_boxes(sn_contract_binding *b, sn_cursor at, uint32_t i, sn_ix k, int64_t to) {
    int64_t rows = sn_contract_rows(b, i), depth = b->sc->tile_k, width = sn_contract_operand_of(b, i).width;
    bool across = b->across[i];
    sn_contract_box box = {.operand = i, .lines = across ? depth : rows};
    if (b->ct.halo.taps) {
        sn_contract_put_halo_boxes(b, at, i, k, to);
        return;
    }
    if (b->ct.strip.taps && i == b->ct.strip.operand) {
        sn_contract_put_strip(b, at, k);
        return;
    }
    int64_t together = sn_contract_together(&b->ct, i);
    for (int64_t part = 0; part < (across ? rows : depth / together) / width; part++) {
        box.place = across ? part * width : 0;
        box.step = sn_ix_addc(b->m, sn_ix_scale(b->m, k, depth), across ? 0 : part * width * together);
        box.to = to + part * box.lines * width;
        sn_contract_put_box(b, at, &box);
    }
}

/* Elements of a step of an operand whose steps lie one behind the other. */
static int64_t step_size(const sn_contract_binding *b, uint32_t i) { return sn_contract_rows(b, i) * b->sc->tile_k; }

/* All steps of an operand that stays; *at moves to where it is there. */
static void bring_all(sn_contract_binding *b, sn_cursor *at, uint32_t i) {
    sn_contract_loop(b, at, "o", 1, SN_AXIS_SEQ);
    b->batch = b->row = b->column = sn_ix_const(b->m, 0);
    for (int64_t k = 0; k < sn_ceil_div(b->ct.c.k, b->sc->tile_k); k++)
        put_boxes(b, *at, i, sn_ix_const(b->m, k), k * step_size(b, i));
    sn_stmt_get(b->m, at->parent)->pipe = 1;
    sn_put_barrier(b->m, *at);
}

/* Bytes of a line of an operand that boxes bring: as long as can be. Across the sum, one of pixels stays inside a
 * tap. */
static uint32_t line_of(const sn_contract_binding *b, uint32_t i) {
    const sn_contraction_operand *o = &b->ct.c.operands[i];
    uint32_t line = SN_LINE, bytes = sn_dtype_bytes(o->from);
    int64_t rows = sn_contract_rows(b, i), channels;
    if (!b->across[i]) return (uint32_t)sn_contract_lanes(&b->ct, b->sc, i) * bytes;
    sn_contraction_last_axis(&channels, b->m, &b->ct.c, o->right ? SN_SIDE_N : SN_SIDE_M);
    while (line > SN_SECTOR && !b->n_terms && (rows * bytes % line || (b->ct.pixels[i] && channels * bytes % line)))
        line /= 2;
    return line;
}

static void make_operands(sn_contract_binding *b) {
    sn_contraction *c = &b->ct.c;
    for (uint32_t i = 0; i < c->n_operands; i++) {
        const sn_contraction_operand *o = &c->operands[i];
        int64_t rows = o->right ? b->sc->tile_n : b->sc->tile_m;
        sn_dtype dtype = b->sc->threads ? b->ct.operand : o->from;
        b->across[i] = b->sc->threads ? sn_contract_across(&b->ct, b->sc, i) : b->ct.across[i];
        if (sn_contract_stays(&b->ct, b->sc, i)) {
            int64_t all = sn_contract_stay_space(&b->ct, b->sc, i);
            b->shared[i] = sn_contract_local(b, "all", dtype, SN_BUF_SHARED, all, b->sc->cluster);
            sn_buf_get(b->m, b->shared[i])->swizzle = line_of(b, i);
            continue;
        }
        bool shares = b->ct.halo.taps || b->ct.strip.taps;
        int64_t own = rows * b->sc->tile_k / sn_contract_together(&b->ct, i);
        int64_t size = shares ? sn_contract_space(&b->ct, b->sc, i) : own;
        b->shared[i] = sn_contract_local(b, o->right ? "right" : "left", dtype, SN_BUF_SHARED, size, b->sc->cluster);
        sn_buf_get(b->m, b->shared[i])->swizzle =
            b->sc->threads ? sn_contract_swizzle(&b->ct, b->sc, i) : line_of(b, i);
    }
}

/* The loops over tiles; *at moves inside. */
static void open_tiles(sn_contract_binding *b, sn_cursor *at) {
    const sn_contraction *c = &b->ct.c;
    sn_module *m = b->m;
    uint32_t cluster = b->sc->cluster;
    int64_t across = sn_ceil_div(sn_ceil_div(c->m, b->sc->tile_m), cluster), along = sn_ceil_div(c->n, b->sc->tile_n);
    int64_t tiles = c->batch * across * along, blocks = b->ct.cx->target->units / cluster;
    if (b->sc->min_blocks > 1 && !b->sc->threads) blocks *= b->sc->min_blocks;
    if (blocks < 1) blocks = 1; /* a cluster on a slice of a device */
    if (!b->sc->persistent || tiles < blocks) blocks = tiles;
    sn_ix g = sn_contract_loop(b, at, "g", blocks, SN_AXIS_GRID),
          rank = open_some(b, at, "c", cluster, SN_AXIS_CLUSTER);
    b->nest.rank = rank;
    b->edge_m = c->m % ((int64_t)b->sc->tile_m * cluster) != 0;
    b->edge_n = c->n % b->sc->tile_n != 0;
    b->edge_k = c->k % (b->sc->tile_k * b->split) != 0;
    for (uint32_t i = 0; i < c->n_operands; i++)
        if (sn_contract_stays(&b->ct, b->sc, i)) bring_all(b, at, i);
    b->turn = open_some(b, at, "w", sn_ceil_div(tiles, blocks), SN_AXIS_SEQ);
    sn_ix tile = sn_ix_fma(b->m, blocks, b->turn, g);
    if (tiles % blocks) *at = sn_at_end(b->k, sn_put_if(m, *at, tile, sn_ix_const(m, tiles)));
    b->tile = tile;
    b->tiles = at->parent;
    b->group = open_some(b, at, "s", b->groups, SN_AXIS_GRID);
    b->in_group = at->parent;
    int64_t each = b->split / b->groups;
    b->part = sn_ix_fma(b->m, each, b->group, open_some(b, at, b->groups > 1 ? "t" : "s", each, SN_AXIS_GRID));
    int64_t high = tall(b, across, blocks);
    sn_ix inside = sn_ix_modc(m, tile, across * along), band = sn_ix_divc(m, inside, high * along);
    sn_ix in_band = sn_ix_modc(m, inside, high * along);
    sn_ix down = sn_ix_fma(b->m, high, band, sn_ix_modc(m, in_band, high));
    b->batch = sn_ix_divc(m, tile, across * along);
    b->row = sn_ix_scale(m, sn_ix_fma(b->m, cluster, down, rank), b->sc->tile_m);
    b->column = sn_ix_scale(m, sn_ix_divc(m, in_band, high), b->sc->tile_n);
}

/* ---- products ---- */

sn_mma_operand sn_contract_operand_of(const sn_contract_binding *b, uint32_t operand) {
    const sn_buf_rec *r = sn_buf_get(b->m, b->shared[operand]);
    int64_t width = r->swizzle / sn_dtype_bytes(r->dtype);
    return (sn_mma_operand){
        .buf = b->shared[operand], .rows = sn_contract_rows(b, operand), .width = width, .across = b->across[operand]};
}

/* What can be copied runs ahead; what has to be computed is, when the products before are done (the pass `sync` has the
 * barriers for that). */
static void put_operands(sn_contract_binding *b, sn_cursor at, sn_ix k) {
    const sn_contraction *c = &b->ct.c;
    bool copies = false;
    for (uint32_t i = 0; i < c->n_operands; i++) {
        if (b->sc->threads && !sn_contract_copies(b, i)) continue;
        if (sn_contract_stays(&b->ct, b->sc, i)) continue;
        if (b->sc->threads) sn_contract_fill(b, at, i, k);
        else put_boxes(b, at, i, k, 0);
        copies = true;
    }
    if (copies && (b->sc->stages > 1 || !b->sc->threads)) {
        sn_stmt_get(b->m, at.parent)->pipe = b->sc->stages;
        sn_put_barrier(b->m, at);
    }
    for (uint32_t i = 0; i < c->n_operands; i++)
        if (b->sc->threads && !sn_contract_copies(b, i)) sn_contract_fill(b, at, i, k);
}

/* In shared memory, what tap t of step k multiplies. */
static sn_mma_operand operand_at(sn_contract_binding *b, uint32_t operand, sn_ix k, int64_t t) {
    sn_mma_operand o = sn_contract_operand_of(b, operand);
    if (b->ct.halo.taps) sn_contract_choose_tap(b, &o, operand, t);
    if (b->ct.strip.taps && operand == b->ct.strip.operand) o.steps = b->ct.strip.lines;
    if (!sn_contract_stays(&b->ct, b->sc, operand)) return o;
    sn_ix step = sn_ix_scale(b->m, k, step_size(b, operand));
    o.at = o.at.i ? sn_ix_add(b->m, o.at, step) : step;
    return o;
}

/* Both operands of a step in shared memory; of tap t, where taps share pixels. */
static void put_nests(sn_contract_binding *b, sn_cursor at, sn_ix k, int64_t t) {
    const sn_contraction *c = &b->ct.c;
    for (uint32_t p = 0; p < c->n_products; p++) {
        sn_mma_nest nest = b->nest;
        nest.state = b->states[c->products[p].state];
        if (b->ct.halo.taps) nest.depth = b->ct.halo.line;
        nest.a = operand_at(b, c->products[p].left, k, t);
        nest.b = operand_at(b, c->products[p].right, k, t);
        sn_mma_put(b->m, at, &nest);
    }
}

/* The left one in registers, piece by piece. */
static void put_pieces(sn_contract_binding *b, sn_cursor at) {
    const sn_contraction *c = &b->ct.c;
    for (int64_t piece = 0; piece < SN_PIECES; piece++) {
        for (uint32_t i = 0; i < c->n_operands; i++)
            if (!c->operands[i].right) sn_contract_load_left(b, at, i, piece);
        for (uint32_t p = 0; p < c->n_products; p++) {
            sn_mma_nest nest = sn_contract_piece(b);
            nest.state = b->states[c->products[p].state];
            nest.a = (sn_mma_operand){.buf = b->fragments[c->products[p].left][piece][0], .in_registers = true};
            nest.b = sn_contract_operand_of(b, c->products[p].right);
            sn_contract_choose_piece(b, &nest.b, piece);
            sn_mma_put(b->m, at, &nest);
        }
    }
}

static void put_products(sn_contract_binding *b, sn_cursor at) {
    sn_cursor in = at;
    sn_ix k = open_steps(b, &in);
    b->step = sn_ix_scale(b->m, k, b->sc->tile_k);
    put_operands(b, in, k);
    if (b->sc->plain) {
        sn_contract_plain_put(b, in);
        return;
    }
    if (b->n_terms) sn_contract_put_terms(b, in, k);
    else if (b->ct.in_registers) put_pieces(b, in);
    else
        for (int64_t t = 0; t < (b->ct.halo.taps ? b->ct.halo.taps : 1); t++) put_nests(b, in, k, t);
    if (b->n_terms) sn_contract_finish_terms(b, at);
}

/* ---- elements of a thread ---- */

/* Those of the tile: h rows; j blocks of columns, in each of them r rows of v columns side by side. */
typedef struct own {
    int64_t h, j, r, v;
} own;

static own own_of(const sn_contract_binding *b) {
    const sn_contract_plain *p = &b->plain;
    if (b->sc->plain) return (own){p->end_rows, p->end_runs, 1, p->run_columns};
    return (own){b->nest.tiles_m, b->nest.tiles_n, sn_mma_elements(b->nest.mma) / 2, 2};
}

static sn_ix own_row(sn_contract_binding *b, sn_ix x, sn_ix h, sn_ix e) {
    return b->sc->plain ? sn_contract_plain_row(b, x, h) : sn_mma_row(b->m, &b->nest, x, h, e);
}

static sn_ix own_column(sn_contract_binding *b, sn_ix x, sn_ix j, sn_ix e) {
    return b->sc->plain ? sn_contract_plain_column(b, x, j, e) : sn_mma_column(b->m, &b->nest, x, j, e);
}

sn_ix sn_contract_row_at(sn_contract_binding *b, sn_ix x, sn_ix h, sn_ix e) {
    sn_ix thread = sn_ix_fma(b->m, b->nest.threads, b->nest.rank, x);
    sn_ix row = sn_ix_fma(b->m, 2, h, sn_ix_divc(b->m, e, 2));
    return sn_ix_fma(b->m, 2 * b->nest.tiles_m, thread, row);
}

static sn_val put_sum(sn_contract_binding *b, sn_cursor at, uint32_t i, sn_ix x, sn_ix h, sn_ix j, sn_ix e) {
    if (b->by_row[i]) return sn_put_load(b->m, at, b->states[i], sn_contract_row_at(b, x, h, e));
    if (b->sc->plain) return sn_contract_plain_sum(b, at, i, x, h, j, e);
    return sn_put_load(b->m, at, sn_contract_sums(b, i), sn_mma_element(b->m, &b->nest, x, h, j, e));
}

static void make_states(sn_contract_binding *b, sn_cursor at) {
    const sn_contraction *c = &b->ct.c;
    own o = own_of(b);
    int64_t groups = b->sc->plain ? b->plain.parts : 1;
    int64_t each = groups * o.h * o.j * o.r * o.v, threads = (int64_t)b->nest.threads * b->sc->cluster;
    for (uint32_t i = 0; i < c->n_states; i++) {
        b->states[i] = sn_contract_local(b, "acc", c->dtype, SN_BUF_REG, each, threads);
        sn_contract_zero(b, at, b->states[i]);
        if (!sn_contract_has_totals(&b->ct)) continue;
        b->totals[i] = sn_contract_local(b, "total", c->dtype, SN_BUF_REG, each, threads);
        sn_contract_zero(b, at, b->totals[i]);
    }
}

/* ---- epilogue ---- */

/* The only store of the body, if the tile's results may leave through shared memory: rows of it are 128 bytes long
 * there, and boxes write them, or threads row by row. none: results go to memory from the threads that have them. */
static sn_stmt only_store(const sn_contract_binding *b) {
    sn_stmt store = {0};
    for (uint32_t i = 0; i < b->body.n; i++) {
        const sn_stmt_rec *r = sn_stmt_get(b->m, b->body.at[i]);
        if (!sn_stores(r)) continue;
        if (store.i || r->has_mask) return (sn_stmt){0};
        store = b->body.at[i];
    }
    return store;
}

static uint32_t place_axes(sn_contract_binding *b, sn_axis *axes, sn_ix *with, sn_ix row, sn_ix column) {
    sn_contraction_place place = {b->batch, row, column, sn_ix_const(b->m, 0)};
    return sn_contraction_axes(axes, with, b->m, &b->ct.c, &place);
}

static sn_mma_operand staged_layout(const sn_contract_binding *b) {
    sn_dtype dtype = sn_buf_get(b->m, b->staged)->dtype;
    return (sn_mma_operand){
        .buf = b->staged, .rows = b->sc->tile_m, .width = sn_buf_get(b->m, b->staged)->swizzle / sn_dtype_bytes(dtype)};
}

sn_ix sn_contract_staged_at(sn_contract_binding *b, sn_ix p, sn_ix row, sn_ix column) {
    sn_mma_operand layout = staged_layout(b);
    int64_t columns = b->sc->tile_n / b->n_parts;
    sn_ix copy = sn_ix_modc(b->m, b->n_parts > 1 ? p : b->turn, b->n_copies);
    sn_ix offset = sn_mma_offset(b->m, &layout, columns, row, column);
    offset = sn_ix_fma(b->m, b->sc->tile_m * columns, copy, offset);
    return sn_shared_of_rank(b->m, b->staged, b->nest.rank, offset);
}

/* Boxes that write part p of the tile. */
static void put_store_boxes(sn_contract_binding *b, sn_cursor at, sn_ix p) {
    sn_module *m = b->m;
    const sn_stmt_rec *store = sn_stmt_get(m, b->store);
    int64_t width = staged_layout(b).width, columns = b->sc->tile_n / b->n_parts;
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix with[2 * SN_MAX_CHAIN];
    for (int64_t first = 0; first < columns; first += width) {
        sn_cursor in = at;
        sn_ix i = sn_contract_loop(b, &in, "i", b->sc->tile_m, SN_AXIS_SEQ),
              j = sn_contract_loop(b, &in, "j", width, SN_AXIS_SEQ);
        sn_stmt_get(m, sn_stmt_get(m, in.parent)->parent)->bulk = true;
        j = sn_ix_addc(m, j, first);
        sn_ix row = sn_ix_add(m, b->row, i), column = sn_ix_add(m, b->column, sn_ix_fma(b->m, columns, p, j));
        uint32_t n = place_axes(b, axes, with, row, column);
        sn_val x = sn_put_load(m, in, b->staged, sn_contract_staged_at(b, p, i, j));
        sn_val mask = sn_contract_and(b, in, (sn_val){0}, b->edge_m, row, b->ct.c.m);
        mask = sn_contract_and(b, in, mask, b->edge_n, column, b->ct.c.n);
        sn_ix offset = sn_ix_subst(m, b->store_ix, axes, with, n);
        if (mask.i) sn_put_store_masked(m, in, store->buf, offset, x, mask);
        else sn_put_store(m, in, store->buf, offset, x);
    }
}

/* It may where results pass through shared memory, which they leave with a test: that takes one minimum a row, and no test at each
 * load. Not so pixels without a result that lie between others, neighbours that the last column parts, and elements whose numbers come
 * from values, which are any where there is no result. */
bool sn_contract_stays_inside(const sn_contract_binding *b) {
    bool inside = b->staged.i && !b->ct.halo.taps && (!b->edge_n || b->ct.c.n % own_of(b).v == 0);
    for (uint32_t i = 0; i < b->body.n && inside; i++) {
        sn_stmt s = b->body.at[i], end = sn_stmt_walk_skip(b->m, s);
        if (s.i == b->ct.c.top.i) continue;
        for (; s.i && s.i != end.i; s = sn_stmt_walk_next(b->m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(b->m, s);
            inside &= !sn_is_access(r) || !sn_ix_uses_vals(b->m, r->ix);
        }
    }
    return inside;
}

void sn_contract_open_spot(sn_contract_spot *s, sn_contract_binding *b, sn_cursor *at, sn_ix p) {
    sn_module *m = b->m;
    own o = own_of(b);
    int64_t tiles_n = o.j / b->n_parts;
    s->x = sn_contract_loop(b, at, "x", b->nest.threads, SN_AXIS_BLOCK_X);
    s->h = sn_contract_loop(b, at, "h", o.h, SN_AXIS_UNROLL);
    s->in_part = sn_contract_loop(b, at, "j", tiles_n, SN_AXIS_UNROLL);
    s->j = sn_ix_fma(b->m, tiles_n, p, s->in_part);
    sn_ix r = open_some(b, at, "r", o.r, SN_AXIS_UNROLL), v = open_some(b, at, "v", o.v, SN_AXIS_VECTOR);
    s->e = sn_ix_fma(b->m, o.v, r, v);
    s->row = own_row(b, s->x, s->h, s->e);
    s->column = own_column(b, s->x, s->j, s->e);
    bool inside = sn_contract_stays_inside(b);
    sn_ix row = sn_ix_add(m, b->row, s->row), column = sn_ix_add(m, b->column, s->column), first = column;
    /* Neighbours are all inside, or none is, where columns are a multiple of them. */
    if (b->ct.c.n % o.v == 0) first = sn_ix_add(m, b->column, own_column(b, s->x, s->j, sn_ix_scale(m, r, o.v)));
    s->row_mask = sn_contract_and(b, *at, (sn_val){0}, b->edge_m && !inside, row, b->ct.c.m);
    s->column_mask = sn_contract_and(b, *at, (sn_val){0}, b->edge_n && !inside, first, b->ct.c.n);
    if (inside) row = sn_contract_inside(b, b->edge_m, row, b->ct.c.m);
    if (inside && b->edge_n) column = sn_ix_add(m, sn_contract_inside(b, true, first, b->ct.c.n - o.v + 1), v);
    s->n = place_axes(b, s->axes, s->with, row, column);
    sn_val *of_image = b->ct.c.operands[b->ct.halo.operand].right ? &s->column_mask : &s->row_mask;
    *of_image = sn_contract_in_image(b, *at, *of_image, s->axes, s->with, s->n);
}

/* Of the result, in the memory that it passes through. */
static sn_ix staged_place(sn_contract_binding *b, const sn_contract_spot *spot, sn_ix p) {
    return sn_contract_staged_at(b, p, spot->row, sn_mma_column(b->m, &b->nest, spot->x, spot->in_part, spot->e));
}

/* What is stored goes to shared memory instead. */
static void stage_stores(sn_contract_binding *b, sn_cursor at, const sn_contract_spot *spot, sn_ix p) {
    sn_module *m = b->m;
    for (sn_stmt s = sn_stmt_get(m, at.parent)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        if (!sn_stores(sn_stmt_get(m, s))) continue;
        sn_put_store(m, sn_at_before(m, s), b->staged, staged_place(b, spot, p), sn_stmt_get(m, s)->in[0]);
        sn_stmt_unlink(m, s);
    }
}

/* Does an access in s change along that side, or store? Then it is for results alone. */
static bool hangs_on(const sn_contract_binding *b, sn_stmt s, sn_contraction_side side) {
    const sn_contraction *c = &b->ct.c;
    sn_stmt end = sn_stmt_walk_skip(b->m, s);
    for (sn_stmt t = s; t.i && t.i != end.i; t = sn_stmt_walk_next(b->m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(b->m, t);
        if (!sn_is_access(r)) continue;
        if (sn_stores(r) || sn_ix_uses_vals(b->m, r->ix)) return true;
        for (uint32_t i = 0; i < c->outer.n; i++) {
            bool is_side = c->side[i] == side || (side == SN_SIDE_M && c->group && c->grouped == i);
            if (is_side && sn_ix_uses_axis(b->m, r->ix, sn_stmt_axis(b->m, c->outer.at[i]))) return true;
        }
    }
    return false;
}

/* The mask that accesses of a statement of the body need: a bias, which is there for all rows, is loaded for those
 * without a result too. */
static sn_val mask_of(const sn_contract_binding *b, const sn_contract_spot *spot, sn_val both, sn_stmt s) {
    bool rows = hangs_on(b, s, SN_SIDE_M), columns = hangs_on(b, s, SN_SIDE_N);
    return rows && columns ? both : rows ? spot->row_mask : columns ? spot->column_mask : (sn_val){0};
}

/* The statements of the body, and then their masks: those behind a load that gets one have to be there. */
static void put_body(sn_contract_binding *b, sn_cursor at, const sn_contract_spot *spot) {
    sn_val *masks = SN_NEWN(b->ct.cx->scratch, sn_val, b->body.n), both = spot->row_mask;
    if (spot->column_mask.i)
        both = both.i ? sn_put_op2(b->m, at, SN_LOP_AND, both, spot->column_mask) : spot->column_mask;
    for (uint32_t i = 0; i < b->body.n; i++) {
        sn_stmt s = b->body.at[i];
        if (s.i == b->ct.c.top.i || sn_contract_is_ahead(b, s)) continue;
        masks[i] = mask_of(b, spot, both, s);
        sn_stmt_insert(b->m, at, s);
        sn_stmt_subst(b->m, s, spot->axes, spot->with, spot->n);
    }
    for (uint32_t i = 0; i < b->body.n; i++)
        if (masks[i].i) sn_mask_accesses(b->ct.cx, b->k, b->body.at[i], masks[i], true);
}

/* The body at the elements that a thread has of part p. */
static void put_elements(sn_contract_binding *b, sn_cursor at, sn_ix p) {
    sn_contraction *c = &b->ct.c;
    sn_module *m = b->m;
    sn_contract_spot spot;
    sn_val sums[4], held[SN_MOST_AHEAD];
    sn_contract_open_spot(&spot, b, &at, p);
    for (uint32_t i = 0; i < c->n_states; i++) sums[i] = put_sum(b, at, i, spot.x, spot.h, spot.j, spot.e);
    for (uint32_t i = 0; i < b->n_ahead; i++) held[i] = sn_contract_ahead(b, at, &spot, p, i);
    put_body(b, at, &spot);
    for (uint32_t i = 0; i < c->n_states; i++) sn_val_replace(m, b->k, sn_result(sn_stmt_get(m, c->top), i), sums[i]);
    for (uint32_t i = 0; i < b->n_ahead; i++) sn_val_replace(m, b->k, sn_stmt_get(m, b->ahead[i])->result, held[i]);
    if (b->staged.i) stage_stores(b, at, &spot, p);
}

/* Boxes may still read what they store of the tile before: the barriers of a pipe's steps, which stand between, do not wait for
 * that. */
static void wait_for_boxes(sn_contract_binding *b, sn_cursor at) {
    int64_t turns;
    bool one_tile = sn_ix_is_const(b->m, b->turn, &turns);
    if (b->staged.i && !b->stores_rows && b->n_copies == 1 && !one_tile) sn_put_barrier(b->m, at);
}

/* The next part's loads, if there is one, are on their way meanwhile. */
static void put_epilogue(sn_contract_binding *b, sn_cursor at) {
    wait_for_boxes(b, at);
    sn_ix p = open_some(b, &at, "p", b->n_parts, SN_AXIS_UNROLL), next = sn_ix_addc(b->m, p, 1);
    if (b->n_ahead && b->n_parts > 1) {
        sn_stmt more = sn_put_if(b->m, at, next, sn_ix_const(b->m, b->n_parts));
        sn_contract_load_ahead(b, sn_at_end(b->k, more), next);
    }
    put_elements(b, at, p);
    if (b->stores_rows) sn_contract_store_rows(b, at, p);
    else if (b->staged.i) put_store_boxes(b, at, p);
}

/* Of the memory for results: with a part behind the one that boxes read, threads write the next. Parts take copies
 * in turn, so that the last one of a tile and the first one of the next are different ones. */
static uint32_t copies_of(const sn_contract_binding *b, int64_t n_parts) {
    int64_t turns;
    bool one_tile = sn_ix_is_const(b->m, b->turn, &turns);
    return n_parts > 1 ? n_parts % 2 ? (uint32_t)n_parts : 2 : one_tile ? 1 : 2;
}

/* Bytes of a line of staged results. */
static uint32_t staged_line(const sn_contract_binding *b, int64_t bytes) {
    uint32_t line = SN_LINE;
    while (line > SN_SECTOR && b->sc->tile_n * bytes % line) line /= 2;
    return line;
}

/* As few parts as shared memory has room for; one copy of the memory, behind whose reading everybody waits, where
 * there is none for several. */
static bool find_parts(sn_contract_binding *b, int64_t room, int64_t bytes) {
    int64_t tile = (int64_t)b->sc->tile_m * b->sc->tile_n * bytes, width = staged_line(b, bytes) / bytes;
    for (int several = 1; several >= 0; several--)
        for (int64_t n = 1; n <= b->nest.tiles_n; n++) {
            uint32_t copies = several ? copies_of(b, n) : 1;
            if (b->sc->tile_n % (n * width) || b->nest.tiles_n % n || copies * tile / n > room) continue;
            b->n_parts = (uint32_t)n;
            b->n_copies = copies;
            return true;
        }
    return false;
}

/* Bytes of shared memory for operands. */
static int64_t operands_room(const sn_contract_binding *b) {
    int64_t used = 0;
    for (uint32_t i = 0; i < b->ct.c.n_operands; i++) {
        const sn_buf_rec *r = sn_buf_get(b->m, b->shared[i]);
        used += (int64_t)r->private_size * sn_dtype_bytes(r->dtype) *
                (sn_contract_stays(&b->ct, b->sc, i) ? 1 : b->sc->stages);
        for (uint32_t k = 0; k < b->n_terms && b->ct.c.operands[i].right; k++)
            used += 2 * (int64_t)sn_buf_get(b->m, b->terms[i][k])->private_size;
    }
    return used;
}

static void stage_results(sn_contract_binding *b, int64_t used) {
    const sn_target *t = b->ct.cx->target;
    b->n_parts = b->n_copies = 1;
    b->store = only_store(b);
    if (b->sc->threads || !b->store.i || b->nest.columns > 1) return;
    used += SN_PRODUCT_SPARE;
    const sn_stmt_rec *store = sn_stmt_get(b->m, b->store);
    sn_dtype dtype = sn_buf_get(b->m, store->buf)->dtype;
    if (!find_parts(b, sn_contract_shared_bytes(t, b->sc) - used, sn_dtype_bytes(dtype))) return;
    int64_t tile = (int64_t)b->sc->tile_m * b->sc->tile_n;
    b->store_ix = store->ix;
    b->staged = sn_contract_local(b, "results", dtype, SN_BUF_SHARED, b->n_copies * tile / b->n_parts, b->sc->cluster);
    sn_buf_get(b->m, b->staged)->swizzle = staged_line(b, sn_dtype_bytes(dtype));
}

static void drop_staged(sn_contract_binding *b) {
    b->staged = (sn_buf){0};
    b->n_parts = b->n_copies = 1;
    b->stores_rows = false;
}

static void start(sn_contract_binding *b, const sn_contract *ct, const sn_sched *sc) {
    *b = (sn_contract_binding){.ct = *ct, .sc = sc, .m = ct->m, .k = ct->k, .n_vals = ct->m->vals.count};
    b->nest = (sn_mma_nest){.mma = ct->mma, .threads = sc->block_x, .columns = 1, .depth = sc->tile_k};
    b->n_terms = ct->n_terms;
    b->split = sc->split > 1 ? sc->split : 1;
    b->groups = sn_contract_groups(sc);
    if (sc->plain) {
        sn_contract_plain_find(&b->plain, ct, sc);
        return;
    }
    if (sc->threads) b->nest.columns = sn_contract_columns(ct, sc);
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    b->nest.tiles_m = sc->tile_m / mma->m / (sc->block_x / mma->threads / b->nest.columns);
    b->nest.tiles_n = sc->tile_n / mma->n / b->nest.columns;
}

/* The boxes stand in a kernel of their own meanwhile. */
bool sn_contract_fits(const char **why_not, const sn_contract *ct, const sn_sched *sc) {
    sn_module *m = ct->m;
    sn_contract_binding b;
    sn_box box;
    bool fits = true;
    sn_sched one = *sc; /* boxes of an operand that stays are those of its steps */
    one.shared = false;
    start(&b, ct, &one);
    b.k = sn_kern_new(m, sn_strf(&m->arena, "%s_boxes", sn_kern_get(m, ct->k)->name));
    sn_cursor at = sn_at_end(b.k, (sn_stmt){0});
    make_operands(&b);
    for (uint32_t i = 0; i < ct->c.n_operands; i++) {
        int64_t bytes = sn_contract_rows(&b, i) * sn_dtype_bytes(ct->c.operands[i].from);
        fits &= !b.across[i] || bytes % line_of(&b, i) == 0;
    }
    if (!fits) return *why_not = "tiles are narrower than lines of an operand", sn_kern_remove(m, b.k), false;
    if (!sn_contract_made_fits(ct, sc->tile_k, sc->split > 1 ? sc->split : 1))
        return *why_not = "an operand that is computed ends inside of a step", sn_kern_remove(m, b.k), false;
    if (!sn_contract_divides(ct, sc)) return *why_not = "steps are beyond the last tap", sn_kern_remove(m, b.k), false;
    if (!sn_contract_has_whole_tiles(ct, sc))
        return *why_not = "tiles reach over pixels without a test", sn_kern_remove(m, b.k), false;
    if (ct->n_terms && !sn_contract_fits_terms(&b))
        return *why_not = "threads have no equal shares of its terms", sn_kern_remove(m, b.k), false;
    open_tiles(&b, &at);
    sn_ix k = open_steps(&b, &at);
    for (uint32_t i = 0; i < ct->c.n_operands; i++) put_boxes(&b, at, i, k, 0);
    for (sn_stmt s = sn_stmt_get(m, at.parent)->first; s.i && fits; s = sn_next(m, s))
        if (sn_is_nest(sn_stmt_get(m, s))) fits = sn_box_find(&box, why_not, m, s);
    sn_kern_remove(m, b.k);
    return fits;
}

/* Can boxes store the results? The same way. */
static bool stores_by_boxes(sn_contract_binding *b, sn_cursor at) {
    sn_module *m = b->m;
    sn_box box;
    const char *why_not;
    bool fits = sn_buf_get(m, sn_stmt_get(m, b->store)->buf)->align >= SN_WIDEST_ACCESS;
    if (b->ct.halo.taps) return false; /* pixels without a result lie between the others */
    sn_ix p = open_some(b, &at, "p", b->n_parts, SN_AXIS_UNROLL);
    sn_stmt last = at.parent.i ? sn_stmt_get(m, at.parent)->last : (sn_stmt){0};
    put_store_boxes(b, at, p);
    sn_stmt s = last.i ? sn_next(m, last) : sn_stmt_get(m, at.parent)->first;
    for (sn_stmt next; s.i; s = next) {
        next = sn_next(m, s);
        if (sn_is_nest(sn_stmt_get(m, s))) fits = fits && sn_box_find(&box, &why_not, m, s);
        sn_stmt_unlink(m, s);
    }
    if (b->n_parts > 1) sn_stmt_unlink(m, at.parent);
    return fits;
}

/* How results come to memory; `used`: bytes of shared memory for all else. */
static void choose_store(sn_contract_binding *b, sn_cursor at, int64_t used) {
    stage_results(b, used);
    b->stores_rows = b->staged.i && !stores_by_boxes(b, at);
    if (b->stores_rows && !sn_contract_stores_rows(b)) drop_staged(b);
}

void sn_contract_put_results(sn_contract_binding *b, sn_cursor at, int64_t used) {
    choose_store(b, at, used);
    put_epilogue(b, at);
}

void sn_schedule_contract_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_contract ct;
    const char *why_not;
    sn_contract_binding b;
    if (sc->threads) sn_contract_find_threads(&ct, &why_not, cx, k, sc);
    else sn_contract_find(&ct, &why_not, cx, k);
    if (sc->halo && !sn_contract_find_halo(&ct)) sn_contract_find_strip(&ct);
    start(&b, &ct, sc);
    sn_schedule_take_body(&b.body, cx, k, sh);
    sn_cursor at = sn_at_end(k, (sn_stmt){0});
    make_operands(&b);
    open_tiles(&b, &at);
    if (b.n_terms) sn_contract_make_terms(&b);
    if (b.ct.in_registers && !sc->threads) sn_contract_make_fragments(&b);
    sn_stmt before = sn_stmt_get(b.m, at.parent)->last; /* of the tile, so far */
    make_states(&b, at);
    put_products(&b, at);
    if (b.split > 1) sn_contract_share_sums(&b, &at);
    if (sc->plain) sn_contract_plain_share(&b, at);
    choose_store(&b, at, operands_room(&b));
    sn_contract_find_ahead(&b);
    if (b.n_ahead) {
        sn_stmt first = before.i ? sn_next(b.m, before) : sn_stmt_get(b.m, at.parent)->first;
        sn_contract_load_ahead(&b, sn_at_before(b.m, first), sn_ix_const(b.m, 0));
    }
    put_epilogue(&b, at);
}
