/* padded.c: the choice `padded`: a product of copies of its operands, in rows that tensor copies can bring.
 *
 *     %c = matmul %a, %b : bf16[4095, 4097]           (%a: bf16[4095, 4099], %b: bf16[4099, 4097])
 *  -> %0 = pad %a high=[0, 5] : bf16[4095, 4104] ;  %1 = slice %0 axis=1 stop=4099
 *     %2 = pad %b high=[0, 7] : bf16[4099, 4104] ;  %3 = slice %2 axis=1 stop=4097
 *     %c = matmul %1, %3
 *
 * Tensor copies, and the widest accesses, want rows that begin at multiples of 16 bytes; elements that come one by one
 * cost ten times as much as the product, also where few rows or short sums make it a small one. Rows that begin between sectors of 32 bytes
 * come more slowly. What stands behind a row is never read: the product has the same terms, and nan and infinities mean what they did.
 * `to-loops` puts a pad that a product reads in memory, and gives rows that can be brought to intermediates anyway, so that copies are for
 * what lies in memory as the caller has it. A copy has the order of axes of what it copies, but K last for an instruction that wants it so.
 * Views and casts between the copy and the product stay there. Legality: always, where it applies. Cost: what is copied is read and written
 * once; copies of constants are made when a program is loaded, and cost a run nothing. Relies on sizes being numbers.
 */
#include "passes/graph/choices.h"
#include "passes/graph/place.h"
#include "passes/graph/rewrite.h"

#include "ir/graph/build.h"
#include "ir/loop/mma.h"

/* ---- where operands lie ---- */

static int64_t aligned(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* Would a copy's rows begin at sectors, where these do not? */
static bool gains_sectors(const sn_place *p, int along) {
    int64_t sector = 2 * sn_place_unit(p->dtype);
    if (sn_place_is_aligned(p, along, sector)) return false;
    for (uint32_t k = 0; k < p->rank; k++)
        if (p->stride[k] == 1 && p->size[k] > 1) return sn_dtype_pitch(p->dtype, p->size[k]) % sector == 0;
    return false;
}

/* ---- the product ---- */

typedef struct operand {
    sn_nd node;
    int along; /* the axis that the instruction wants to be contiguous: K; -1: any */
    sn_place at;
    bool known, brought; /* tensor copies can bring it ... */
    bool copied;         /* ... but it takes a copy for them to do so, or to do so at full speed */
} operand;

/* The instruction that tensor copies bring operands of that dtype to. */
sn_mma sn_choice_instruction(const sn_target *t, sn_dtype dtype, sn_dtype state) {
    sn_dtype factor = dtype == SN_F32 ? SN_BF16 : dtype; /* in parts */
    for (sn_mma i = SN_MMA_NONE + 1; i < SN_N_MMAS && t->specific; i++)
        if (sn_mma_is_async(i) && sn_mmas[i].sm == t->sm && sn_mmas[i].operand == factor && sn_mmas[i].state == state)
            return i;
    return SN_MMA_NONE;
}

static sn_mma look(operand *out, const sn_target *t, const sn_module *m, const sn_product *p) {
    const sn_nd nodes[] = {p->left, p->right};
    bool same = true;
    for (int i = 0; i < 2; i++) {
        out[i] = (operand){.node = nodes[i], .along = -1};
        out[i].known = sn_place_of(&out[i].at, m, nodes[i]);
        same &= out[i].at.dtype == out[0].at.dtype;
    }
    sn_mma mma = same ? sn_choice_instruction(t, out[0].at.dtype, sn_compute_dtype(p->dtype)) : SN_MMA_NONE;
    for (int i = 0; i < 2; i++) {
        int k_axis = (int)sn_type_of(m, nodes[i])->rank - (i ? 2 : 1);
        if (mma && !sn_mmas[mma].across) out[i].along = k_axis;
        out[i].brought = out[i].known && sn_place_is_aligned(&out[i].at, out[i].along, sn_place_unit(out[i].at.dtype));
        out[i].copied = !out[i].brought || (mma && gains_sectors(&out[i].at, out[i].along));
    }
    return mma;
}

bool sn_choice_padded_applies(const char **why_not, const sn_choice_question *q) {
    const sn_product *p = q->product;
    operand o[2];
    *why_not = "it is for GPUs";
    if (!q->target->is_gpu) return false;
    *why_not = "it has few rows or columns, or a short sum";
    if (p->m <= SN_CHOICE_SKINNY || p->n <= SN_CHOICE_SKINNY || p->k < SN_CHOICE_SHORT) return false;
    *why_not = "its operands can be brought as they are";
    look(o, q->target, q->m, p);
    return o[0].copied || o[1].copied;
}

void sn_choice_padded_candidates(sn_choice_list *out, const sn_choice_question *q) {
    (void)q;
    sn_choice_add(out, "padded");
}

/* ---- the model ---- */

static double whole(double n, double of) { return (double)(int64_t)((n + of - 1) / of); }
static double least(double a, double b) { return a == 0 || b < a ? b : a; }

/* Tiles of the product, K in parts side by side, that the busiest multiprocessor does one after the other. */
static double turns_of(const sn_choice_question *q, double rows, double columns, double parts) {
    const sn_product *p = q->product;
    double tiles = (double)p->batch * parts * whole((double)p->m, rows) * whole((double)p->n, columns);
    return whole(tiles, q->target->units);
}

static bool has_tiles(const sn_product *p) {
    return p->m >= SN_CHOICE_TILE && p->n >= SN_CHOICE_TILE && p->k >= SN_CHOICE_TILE;
}

/* Is x a tensor of the caller's, or a view of one? */
static bool is_given(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    while (sn_ops[n->op].cls == SN_OPS_VIEW || n->op == SN_OP_CAST) n = sn_node_get(m, n->in[0]);
    return n->op == SN_OP_INPUT || n->op == SN_OP_WEIGHT || n->op == SN_OP_CONSTANT;
}

/* Few rows, few columns, or a short sum, of which a tile may have one: with two of them it waits and stores more than it multiplies (4096 products of
 * 33 x 17 x 65 took 66 us for 47). What is computed gets rows that can be brought anyway; what lies in memory does not. */
static bool has_short_tiles(const sn_module *m, const sn_product *p) {
    int few = (p->m < SN_CHOICE_TILE) + (p->n < SN_CHOICE_TILE) + (p->k < SN_CHOICE_TILE);
    return few <= 1 && p->k >= SN_CHOICE_SHORT && is_given(m, p->left) && is_given(m, p->right);
}

/* Threads bring elements one by one, for tiles that may be small. */
double sn_choice_cycles_by_threads(const sn_choice_question *q, sn_dtype dtype, double parts) {
    enum { THOUSAND = 1024, WORD = 4 };
    double cycles = 0, single = sn_dtype_bytes(dtype) < WORD ? SN_CHOICE_SINGLE : SN_CHOICE_SINGLE_WORD;
    for (int64_t side = SN_CHOICE_SMALL_TILE; side <= 2 * SN_CHOICE_TILES; side *= 2) {
        double elements = 2 * (double)side * SN_CHOICE_SMALL_TILE_STEPS *
                          whole((double)q->product->k / parts, SN_CHOICE_SMALL_TILE_STEPS);
        cycles = least(cycles, turns_of(q, (double)side, (double)side, parts) * elements * single / THOUSAND);
    }
    return cycles;
}

/* Tensor copies bring boxes: one product of what the instruction multiplies. Where several stand for one, tiles of few rows do
 * not pay, since each tile makes the parts of its columns; those of few columns do. */
static double by_boxes(const sn_choice_question *q, sn_dtype dtype, double parts, sn_mma mma) {
    double products = 0, rate = (double)SN_CHOICE_BROUGHT / sn_dtype_bytes(sn_mmas[mma].operand);
    int64_t lowest = sn_choice_products(q, dtype) > 1 ? SN_CHOICE_TILES : SN_CHOICE_TILE;
    for (int64_t rows = lowest; rows <= SN_CHOICE_TILES; rows *= 2)
        for (int64_t columns = SN_CHOICE_TILE; columns <= rows; columns *= 2) {
            double tile = (double)rows * (double)columns * (double)q->product->k / parts;
            products = least(products, turns_of(q, (double)rows, (double)columns, parts) * tile);
        }
    return products / rate;
}

double sn_choice_cycles_by_boxes(const sn_choice_question *q, sn_dtype dtype, sn_mma mma) {
    return by_boxes(q, dtype, 1, mma) * sn_choice_products(q, dtype) + SN_CHOICE_BEGIN;
}

/* Elements that threads can bring at a time, of rows that begin anywhere. */
static int64_t piece_of(const sn_place *p) {
    int64_t n = sn_place_unit(p->dtype);
    while (n > 1 && !sn_place_is_aligned(p, -1, n)) n /= 2;
    return n;
}

/* Halves that threads bring by words or more are copied while others are multiplied, if not altogether; several tiles are on a multiprocessor
 * at once, so that none waits for the last of a turn. A launch is counted, too: of two small copies, which are counted with one each, one
 * takes it (300 x 1004 x 1004 7 us by copies, 9.5 by threads). */
static double by_pieces(const sn_choice_question *q, int64_t piece, double parts) {
    enum { THOUSAND = 1024 };
    const sn_product *p = q->product;
    double cycles = 0, k = SN_CHOICE_SMALL_TILE_STEPS * whole((double)p->k / parts, SN_CHOICE_SMALL_TILE_STEPS);
    for (int64_t side = SN_CHOICE_SMALL_TILE; side <= SN_CHOICE_TILES; side *= 2) {
        double copies = 2 * (double)side * k / (double)piece * SN_CHOICE_PIECES / THOUSAND,
               products = (double)(side * side) * k / SN_CHOICE_WARP_PRODUCTS;
        double longer = copies > products ? copies : products, shorter = copies > products ? products : copies;
        double tiles = (double)p->batch * parts * whole((double)p->m, (double)side) * whole((double)p->n, (double)side);
        double turns = tiles > q->target->units ? tiles / q->target->units : 1;
        cycles = least(cycles, turns * (longer + shorter / 2 + SN_CHOICE_WARP_TILE));
    }
    return cycles + SN_CHOICE_BEGIN + SN_LAUNCH;
}

static double by_threads(const sn_choice_question *q, const operand o[2], double parts) {
    enum { WORD = 4, HALF = 2 };
    int64_t left = piece_of(&o[0].at), right = piece_of(&o[1].at), piece = left < right ? left : right;
    double singles = sn_choice_cycles_by_threads(q, o->at.dtype, parts);
    if (sn_dtype_bytes(o->at.dtype) != HALF || piece * HALF < WORD || !o[0].known || !o[1].known) return singles;
    return least(singles, by_pieces(q, piece, parts));
}

double sn_choice_misplaced_cycles(const sn_choice_question *q, double parts) {
    enum { HUNDRED = 100 };
    const char *why_not;
    operand o[2];
    if (!sn_choice_padded_applies(&why_not, q)) return 0;
    sn_mma mma = look(o, q->target, q->m, q->product);
    if (!o[0].brought || !o[1].brought) return by_threads(q, o, parts);
    if (!mma || !o[0].copied || !o[1].copied) return 0; /* one alone costs 3 % */
    sn_dtype dtype = o->at.dtype;
    double once = by_boxes(q, dtype, parts, mma), off_sector = (double)SN_CHOICE_OFF_SECTOR / HUNDRED;
    double boxes = once * (sn_choice_products(q, dtype) + off_sector) + SN_CHOICE_BEGIN;
    return least(boxes, sn_choice_cycles_by_threads(q, dtype, parts));
}

/* What is not there several times. */
static double bytes_of(const sn_place *p) {
    double bytes = sn_dtype_bytes(p->dtype);
    for (uint32_t k = 0; k < p->rank; k++) bytes *= (double)(p->stride[k] ? p->size[k] : 1);
    return bytes;
}

/* Is x made of constants, as weights and what is computed from them on the way to a product are? */
static bool is_constant(const sn_module *m, sn_nd x, uint32_t depth) {
    enum { DEEP = 8 };
    const sn_node_rec *n = sn_node_get(m, x);
    bool constant = n->op != SN_OP_INPUT && depth < DEEP;
    for (uint32_t k = 0; k < n->n_in && constant; k++) constant = is_constant(m, n->in[k], depth + 1);
    return constant;
}

bool sn_choice_padded_copies_weights(const sn_choice_question *q) {
    const char *why_not;
    operand o[2];
    bool any = false;
    if (!sn_choice_padded_applies(&why_not, q)) return false;
    look(o, q->target, q->m, q->product);
    for (int i = 0; i < 2; i++) any |= o[i].copied && is_constant(q->m, o[i].node, 0);
    return any;
}

double sn_choice_padded_cycles(const sn_choice_question *q) {
    const char *why_not;
    operand o[2];
    if (!sn_choice_padded_applies(&why_not, q)) return 0;
    sn_mma mma = look(o, q->target, q->m, q->product);
    if (!mma || !(has_tiles(q->product) || has_short_tiles(q->m, q->product))) return 0;
    double copies = 0, memory = (double)q->target->cycle_bytes * q->target->units;
    for (int i = 0; i < 2; i++)
        if (o[i].copied && !is_constant(q->m, o[i].node, 0)) copies += 2 * bytes_of(&o[i].at) / memory + SN_LAUNCH;
    double fetch = (bytes_of(&o[0].at) + bytes_of(&o[1].at)) / memory,
           boxes = sn_choice_cycles_by_boxes(q, o->at.dtype, mma);
    return copies + (boxes > fetch + SN_CHOICE_BEGIN ? boxes : fetch + SN_CHOICE_BEGIN);
}

/* ---- the copies ---- */

/* May the copy stand below it, and no larger? */
static bool stays_above(const sn_module *m, sn_nd x) {
    sn_op op = sn_node_get(m, x)->op;
    return op == SN_OP_PERMUTE || op == SN_OP_EXPAND || op == SN_OP_SQUEEZE || op == SN_OP_UNSQUEEZE ||
           (op == SN_OP_CAST &&
            sn_dtype_widens(sn_type_of(m, sn_node_get(m, x)->in[0])->dtype, sn_type_of(m, x)->dtype));
}

/* The axes in the order in which they lie in memory, the contiguous one last. */
static void order_of(int64_t *perm, const sn_place *p, int along) {
    for (uint32_t k = 0; k < p->rank; k++) {
        uint32_t at = k;
        for (; at > 0 && p->stride[perm[at - 1]] < p->stride[k]; at--) perm[at] = perm[at - 1];
        perm[at] = k;
    }
    for (uint32_t k = 0; along >= 0 && k + 1 < p->rank; k++) {
        if (perm[k] != along) continue;
        perm[k] = perm[k + 1];
        perm[k + 1] = along;
    }
}

/* x itself where the axes stay in order. */
static sn_nd reordered(sn_module *m, sn_nd x, const int64_t *perm, uint32_t rank) {
    bool same = true;
    for (uint32_t k = 0; k < rank; k++) same &= perm[k] == k;
    return same || !x.i ? x : sn_graph_permute(m, x, perm, rank);
}

static sn_nd copy_of(sn_module *m, sn_nd x, int along) {
    sn_place p;
    int64_t perm[SN_MAX_RANK], back[SN_MAX_RANK], low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    if (!sn_place_of(&p, m, x)) sn_place_sizes(&p, m, sn_type_of(m, x)), sn_place_lay_out(&p, false);
    order_of(perm, &p, along);
    for (uint32_t k = 0; k < p.rank; k++) back[perm[k]] = k;
    uint32_t last = p.rank - 1;
    int64_t size = p.size[perm[last]];
    sn_dtype dtype = sn_type_of(m, x)->dtype;
    high[last] = sn_dtype_pitch(dtype, size) - size;
    if (!high[last]) high[last] = aligned(size, sn_place_unit(dtype)) - size;
    x = reordered(m, x, perm, p.rank);
    if (x.i) x = sn_graph_pad(m, x, low, high, 0);
    if (x.i && high[last]) x = sn_graph_slice(m, x, last, 0, size, 1);
    return reordered(m, x, back, p.rank);
}

/* `along`, an axis of x, as one of what x is a view of, or a cast; -1: there is none. */
static int axis_below(const sn_module *m, sn_nd x, int along) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op == SN_OP_CAST) return along;
    if (n->op != SN_OP_PERMUTE) return -1;
    int64_t axis = sn_node_attr(m, x, SN_ATTR_PERM)->ints.at[along];
    return (int)(axis < 0 ? axis + n->type.rank : axis);
}

static sn_nd copied(sn_module *m, sn_nd x, int along) {
    const sn_node_rec *n = sn_node_get(m, x);
    int axis = along < 0 || !stays_above(m, x) ? -1 : axis_below(m, x, along);
    if (!stays_above(m, x) || (along >= 0 && axis < 0)) return copy_of(m, x, along);
    sn_nd in = copied(m, n->in[0], axis);
    return in.i ? sn_graph_node(m, n->op, &in, 1, n->attrs, n->n_attrs) : in;
}

sn_nd sn_choice_padded_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    const sn_product *p = q->product;
    sn_module *m = cx->m;
    const char *why_not;
    operand o[2];
    if (*parameters || !sn_choice_padded_applies(&why_not, q)) {
        sn_fail(m->env, SN_ERROR_ARGUMENT, "padded: %s", *parameters ? "it has no parameters" : why_not);
        return (sn_nd){0};
    }
    look(o, cx->target, m, p);
    for (int i = 0; i < 2; i++)
        if (o[i].copied) o[i].node = copied(m, o[i].node, o[i].along);
    return sn_product_like(m, p, o[0].node, o[1].node);
}
