/* decompose_k.c: the choice `decompose_k`: a product of long rows and few results, with K in parts that run side by
 * side.
 *
 *     %c = matmul %a, %b : f16[32, 32]            (K = 28672)                       decompose_k parts=112
 *  -> %0 = reshape %a shape=[32, 112, 256] ;  %1 = permute %0 perm=[1, 0, 2] ;  %2 = cast %1 dtype=f32
 *     %3 = reshape %b shape=[112, 256, 32] ;  %4 = cast %3 dtype=f32
 *     %5 = matmul %2, %4 : f32[112, 32, 32] ;  %6 = sum %5 axes=[0] ;  %c = cast %6 dtype=f16
 *
 * Views and casts of operands are what the loads of the product become, so that they cost nothing, and the partial
 * results have the dtype of the sums: nothing is rounded that was not before. What stands behind the product fuses
 * into the sum. Legality: parts divide K; the terms of a sum are added in another order, as in `split-reduction`,
 * and always in the same one. Cost: partial results are written and read once. Relies on sizes being numbers.
 */
#include "passes/graph/choices.h"
#include "passes/base/made.h"
#include "passes/graph/rewrite.h"

#include <stdlib.h>
#include <string.h>

static double bytes_of(const sn_product *p) { return sn_dtype_bytes(p->dtype); }
static double operand_bytes(const sn_product *p) {
    return (double)p->batch * (double)(p->m + p->n) * (double)p->k * bytes_of(p);
}
/* Partial results of one part. */
static double partial_bytes(const sn_product *p) {
    return (double)p->batch * (double)p->m * (double)p->n * sn_dtype_bytes(sn_compute_dtype(p->dtype));
}
/* Blocks of the product as it is: of tiles, or of rows where one side is short. */
static double blocks_of(const sn_product *p) {
    int64_t shorter = p->m < p->n ? p->m : p->n, longer = p->m < p->n ? p->n : p->m;
    if (shorter <= SN_CHOICE_SKINNY) return (double)p->batch * (double)((longer + SN_CHOICE_ROWS - 1) / SN_CHOICE_ROWS);
    int64_t rows = (p->m + SN_CHOICE_TILE - 1) / SN_CHOICE_TILE, columns = (p->n + SN_CHOICE_TILE - 1) / SN_CHOICE_TILE;
    return (double)p->batch * (double)rows * (double)columns;
}

/* Of f32 that threads multiply, by tiles that may be small: two thirds of what they could. */
static double by_small_tiles(const sn_choice_question *q, double parts) {
    const sn_product *p = q->product;
    double best = 0;
    for (int64_t side = SN_CHOICE_SMALL_TILE; side <= SN_CHOICE_TILES; side *= 2) {
        double tiles = (double)p->batch * parts * (double)((p->m + side - 1) / side * ((p->n + side - 1) / side));
        double waves = (double)(((int64_t)tiles + q->target->units - 1) / q->target->units);
        double cycles = waves * (double)(side * side) * (double)p->k / parts / SN_CHOICE_THREADS;
        if (best == 0 || cycles < best) best = cycles;
    }
    return best;
}

/* Of floats that tensor cores multiply, by large tiles, which units do in waves; 0: of others, which this does not
 * know. */
static double multiplying(const sn_choice_question *q, double parts) {
    const sn_product *p = q->product;
    bool known = p->dtype == SN_F32 || p->dtype == SN_F16 || p->dtype == SN_BF16;
    if (!known || !q->target->specific) return 0;
    int64_t rows = p->m < SN_CHOICE_TILES ? p->m : SN_CHOICE_TILES,
            columns = p->n < SN_CHOICE_TILES ? p->n : SN_CHOICE_TILES;
    double tiles = (double)p->batch * parts * (double)((p->m + rows - 1) / rows * ((p->n + columns - 1) / columns));
    double waves = (double)(((int64_t)tiles + q->target->units - 1) / q->target->units);
    double rate = (double)SN_CHOICE_BROUGHT / sn_dtype_bytes(SN_BF16);
    double large = waves * (double)(rows * columns) * (double)p->k / parts * sn_choice_products(q, p->dtype) / rate;
    double small = p->dtype == SN_F32 ? by_small_tiles(q, parts) : large;
    return small < large ? small : large;
}

/* Tiles of few columns, of halves that tensor copies bring? A unit that has one draws several times its share of the memory. */
static bool is_narrow(const sn_choice_question *q) {
    const sn_product *p = q->product;
    int64_t shorter = p->m < p->n ? p->m : p->n;
    bool halves = p->dtype == SN_F16 || p->dtype == SN_BF16;
    return halves && q->target->specific && shorter <= SN_CHOICE_TILE && sn_choice_misplaced_cycles(q, 1) <= 0;
}

/* Blocks that there are keep as many units busy as they are; memory is shared out among units. */
static double cycles(const sn_choice_question *q, double parts) {
    const sn_target *t = q->target;
    double blocks = blocks_of(q->product) * parts, busy = blocks < t->units ? blocks : t->units;
    if (parts <= 1 && is_narrow(q) && blocks * SN_CHOICE_NARROW_DRAWS >= t->units) busy = t->units;
    double rate = (double)t->cycle_bytes, product = operand_bytes(q->product) / (rate * busy);
    double misplaced = sn_choice_misplaced_cycles(q, parts);
    product = product > misplaced ? product : misplaced;
    if (product < multiplying(q, parts)) product = multiplying(q, parts);
    if (parts <= 1) return product;
    return product + 2 * parts * partial_bytes(q->product) / (rate * t->units) + SN_LAUNCH;
}

/* ---- parts ---- */

typedef struct part_count {
    int64_t parts;
    int unaligned; /* 0: parts begin at lines, 1: at the widest accesses, 2: anywhere */
    double cycles; /* 0 where there is no model */
} part_count;

static int better(const void *x, const void *y) {
    const part_count *a = x, *b = y;
    if (a->unaligned != b->unaligned) return a->unaligned - b->unaligned;
    if (a->cycles != b->cycles) return a->cycles < b->cycles ? -1 : 1;
    return (a->parts > b->parts) - (a->parts < b->parts);
}

static int alignment_of(int64_t length, uint32_t bytes) {
    int64_t size = length * bytes;
    return size % SN_CHOICE_LINE == 0 ? 0 : size % SN_CHOICE_VECTOR == 0 ? 1 : 2;
}

static bool is_worth_it(const sn_product *p, int64_t parts) {
    return p->k % parts == 0 && p->k / parts >= SN_CHOICE_PART &&
           (double)parts * partial_bytes(p) * SN_CHOICE_SUM_SHARE <= operand_bytes(p);
}

static void add_count(part_count *best, uint32_t *n, const sn_choice_question *q, int64_t parts) {
    const sn_product *p = q->product;
    if (parts < 2 || !is_worth_it(p, parts)) return;
    part_count c = {parts, alignment_of(p->k / parts, sn_dtype_bytes(p->dtype)), 0};
    if (q->target->is_gpu) c.cycles = cycles(q, (double)parts);
    if (*n < SN_CHOICE_CANDIDATES) best[(*n)++] = c;
    else if (better(&c, &best[*n - 1]) < 0) best[*n - 1] = c;
    qsort(best, *n, sizeof *best, better);
}

/* The best divisors of K, in order; how many. */
static uint32_t best_parts(part_count *best, const sn_choice_question *q) {
    int64_t k = q->product->k;
    uint32_t n = 0;
    for (int64_t d = 1; d <= k / d; d++) {
        if (k % d) continue;
        add_count(best, &n, q, d);
        if (d != k / d) add_count(best, &n, q, k / d);
    }
    return n;
}

int64_t sn_choice_decompose_k_parts(double *cut, const sn_choice_question *q) {
    part_count best[SN_CHOICE_CANDIDATES];
    const char *why_not;
    if (!q->target->is_gpu || !sn_choice_decompose_k_applies(&why_not, q)) return 1;
    for (uint32_t k = 0; k < 2; k++) /* what computes its operand shares sums itself */
        if (sn_matmul_makes(q->m, q->target, q->product->node, k)) return 1;
    if (blocks_of(q->product) >= q->target->units || !best_parts(best, q)) return 1;
    *cut = best[0].cycles;
    return *cut < cycles(q, 1) ? best[0].parts : 1;
}

/* ---- the row ---- */

bool sn_choice_decompose_k_applies(const char **why_not, const sn_choice_question *q) {
    const sn_product *p = q->product;
    const sn_type *a = sn_type_of(q->m, p->left), *b = sn_type_of(q->m, p->right);
    part_count best[SN_CHOICE_CANDIDATES];
    *why_not = "an operand is a vector";
    if (a->rank < 2 || b->rank < 2) return false;
    *why_not = "there is no room for one more axis";
    if (a->rank == SN_MAX_RANK || b->rank == SN_MAX_RANK || sn_type_of(q->m, p->node)->rank == SN_MAX_RANK)
        return false;
    *why_not = "K has no divisor whose parts are long enough";
    return best_parts(best, q) > 0;
}

void sn_choice_decompose_k_candidates(sn_choice_list *out, const sn_choice_question *q) {
    part_count best[SN_CHOICE_CANDIDATES];
    uint32_t n = best_parts(best, q);
    for (uint32_t i = 0; i < n; i++) sn_choice_add(out, "decompose_k parts=%lld", (long long)best[i].parts);
}

/* The axis `axis` of x cut into `parts` parts; the axis of parts stands in front of the matrix. */
static sn_nd in_parts(sn_module *m, sn_nd x, uint32_t axis, int64_t parts) {
    sn_type t = *sn_type_of(m, x);
    int64_t perm[SN_MAX_RANK];
    sn_ix shape[SN_MAX_RANK];
    uint32_t rank = t.rank + 1, front = t.rank - 2;
    for (uint32_t k = 0, from = 0; k < rank; k++) {
        shape[k] = k == axis       ? sn_ix_const(m, parts)
                   : k == axis + 1 ? sn_ix_divc(m, t.shape[axis], parts)
                                   : t.shape[from];
        from += k != axis;
    }
    x = sn_graph_reshape(m, x, shape, rank);
    for (uint32_t k = 0, from = 0; k < rank; k++) {
        from += k != front && from == axis;
        perm[k] = k == front ? (int64_t)axis : (int64_t)from++;
    }
    return !x.i || front == axis ? x : sn_graph_permute(m, x, perm, rank);
}

static sn_nd wide(sn_module *m, sn_nd x) {
    return x.i ? sn_graph_cast(m, x, sn_compute_dtype(sn_type_of(m, x)->dtype)) : x;
}

sn_nd sn_choice_decompose_k_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    const sn_product *p = q->product;
    sn_module *m = cx->m;
    static const char word[] = "parts=";
    char *end = NULL;
    long long parts = strncmp(parameters, word, sizeof word - 1) ? 0 : strtoll(parameters + sizeof word - 1, &end, 10);
    if (parts < 2 || *end || p->k % parts || sn_type_of(m, p->left)->rank < 2 || sn_type_of(m, p->right)->rank < 2) {
        sn_fail(m->env, SN_ERROR_ARGUMENT, "decompose_k: '%s': parts=N is wanted, where N divides K = %lld", parameters,
                (long long)p->k);
        return (sn_nd){0};
    }
    sn_nd left = wide(m, in_parts(m, p->left, sn_type_of(m, p->left)->rank - 1, parts));
    sn_nd right = wide(m, in_parts(m, p->right, sn_type_of(m, p->right)->rank - 2, parts));
    sn_nd all = sn_product_like(m, p, left, right);
    if (!all.i) return all;
    int64_t axis = (int64_t)sn_type_of(m, all)->rank - 3;
    sn_nd sum = sn_graph_reduce(m, SN_OP_SUM, all, &axis, 1, false);
    return sum.i ? sn_graph_cast(m, sum, p->dtype) : sum;
}
