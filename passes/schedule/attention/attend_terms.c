/* attend_terms.c: class attend for f32: attention in one kernel, whose products are those of bfloat16 terms
 * (contract_terms.c), as many as the precision of the kernel wants.
 *
 *     loop .. { loop i in Sq { loop d in Dv { %m, %z, %m2, %o = reduce (sumexp, sumexp) j in Sk { .. }   .. store y[..] } } }
 *  -> loop g : grid {
 *       loop x : block.x { terms of q -> q_h, q_m, q_l   most = -inf, part = 0, sum = 0 }
 *       loop t in number of tiles : seq pipe(stages) {
 *         box k -> sk   box v -> sv   barrier
 *         terms of k   sum = sum * grown + acc   barrier   s = q * k (6 mma)   terms of v
 *         scores that terms cannot give   f, masks, maxima, weights   p_h, p_m, p_l = terms of weights   barrier
 *         acc = p * v (6 mma)
 *       }
 *       sums that terms cannot give   the body, at the elements of sum that are the thread's
 *     }
 *
 * Finds the nest and chooses tiles here; attend_terms_bind.c binds. Legality: that of the products in kernels of their
 * own, whose scores and weights have the same terms. A chain of products that tensor cores add up is as short as there.
 *
 * Cost, in cycles of a multiprocessor. A tile takes its products, at the rate of tensor cores or of the shared memory
 * that gives them operands, and what threads do to scores, which waits for the one product and is waited for by the
 * other. What threads do to keys and v goes on beside products, as far as these last. Two blocks of a multiprocessor
 * fill each other's gaps. It is compared with three kernels: the same products at their rate, and scores and weights
 * that are written and read.
 */
#include "passes/schedule/attention/attend_terms.h"

#include "passes/base/constants.h"
#include "passes/schedule/base/figures.h"

/* ---- the nest ---- */

static bool refuse(const char **why_not, const char *why) {
    *why_not = why;
    return false;
}

uint32_t sn_attend_terms_number(const sn_attend *a) {
    return sn_precision_terms((sn_precision)sn_kern_get(a->m, a->k)->sched.precision);
}

static uint32_t products_of(const sn_attend *a) { return sn_terms_products(sn_attend_terms_number(a)); }

/* Steps of a sum that tensor cores may add up. */
static int64_t most_steps(const sn_attend *a) {
    return SN_PRODUCT_CHAIN / products_of(a) * sn_mmas[SN_MMA_WGMMA_BF16].k;
}

int64_t sn_attend_terms_run(const sn_attend *a) {
    int64_t depth = sn_attend_padded(a->depth), most = most_steps(a), bytes = sn_dtype_bytes(SN_BF16);
    int64_t width = sn_attend_line(depth * bytes) / bytes;
    return depth <= most ? depth : most / width * width;
}

bool sn_attend_terms_find(sn_attend *a, const char **why_not, sn_pass_ctx *cx, sn_kern k) {
    if (!sn_attend_find_nest(a, why_not, cx, k)) return false;
    sn_stmt loads[] = {a->q, a->key, a->v};
    for (size_t i = 0; i < SN_COUNT(loads); i++) {
        const sn_stmt_rec *r = sn_stmt_get(a->m, loads[i]);
        if (r->dtype != SN_F32 || a->c.dtype != SN_F32) return refuse(why_not, "its operands are not f32");
        if (sn_buf_get(a->m, r->buf)->align < SN_WIDEST_ACCESS)
            return refuse(why_not, "an operand does not begin at 16 bytes");
    }
    a->mma = SN_MMA_WGMMA_BF16;
    if (sn_attend_terms_run(a) * SN_ATTEND_RUNS < sn_attend_padded(a->depth))
        return refuse(why_not, "its heads are longer than runs of products");
    sn_attend_find_loads(a);
    return true;
}

bool sn_schedule_attend_terms_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_attend a;
    (void)sh;
    *why_not = "it is for GPUs with instructions of warpgroups";
    return sn_attend_has_warpgroups(cx->target) && sn_attend_terms_find(&a, why_not, cx, k);
}

/* ---- what fits ---- */

int64_t sn_attend_terms_each(const sn_sched *sc, int64_t lines, int64_t channels) {
    return sn_ceil_div(lines * sn_attend_padded(channels) / SN_ATTEND_VECTOR, sc->block_x);
}

int64_t sn_attend_terms_room(const sn_attend *a, const sn_sched *sc) {
    int64_t depth = sn_attend_padded(a->depth), keys = (int64_t)sc->tile_n * (depth + sn_attend_padded(a->c.n));
    int64_t q = sn_attend_terms_keeps_q(sc) ? 0 : (int64_t)sc->tile_m * depth;
    int64_t terms = (q + keys) * sn_attend_terms_number(a) * sn_dtype_bytes(SN_BF16);
    return terms + sc->stages * keys * sn_dtype_bytes(SN_F32);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Of a thread, to take so many lines apart. */
static int64_t held(const sn_sched *sc, int64_t lines, int64_t channels) {
    return SN_ATTEND_VECTOR * sn_attend_terms_each(sc, lines, channels);
}

static bool are_whole(const sn_sched *sc, int64_t channels) {
    return sc->block_x * SN_ATTEND_VECTOR % sn_attend_padded(channels) == 0;
}

/* Registers of a thread, where most are wanted: scores while the next terms of v are made, or become terms; or terms
 * and the sums that they are multiplied to while the next terms of k are made. */
static int64_t registers(const sn_attend *a, const sn_sched *sc) {
    const sn_mma_info *mma = &sn_mmas[a->mma];
    int64_t rows = (int64_t)sc->tile_m / (sc->block_x / mma->threads), width = sn_attend_padded(a->c.n);
    int64_t runs = sn_ceil_div(sn_attend_padded(a->depth), sn_attend_terms_run(a));
    int64_t scores = rows * sc->tile_n / mma->threads, sums = rows * width / mma->threads;
    int64_t loaded = scores * sn_attend_loaded(a, false) / sn_dtype_bytes(SN_F32);
    int64_t terms = scores * sn_attend_terms_number(a) / 2;
    int64_t products = runs * scores + loaded + held(sc, sc->tile_n, width);
    int64_t behind = terms + sums + held(sc, sc->tile_n, a->depth);
    bool whole = are_whole(sc, a->depth) && are_whole(sc, width);
    int64_t q = rows * sn_attend_padded(a->depth) / mma->threads * sn_attend_terms_number(a) / 2;
    return sums + larger(larger(products, terms + scores / 2), behind) + SN_ATTEND_TERMS_BESIDE +
           (whole ? 0 : SN_ATTEND_TERMS_ASKEW) + (sn_attend_terms_keeps_q(sc) ? q : 0);
}

/* Every block takes 1 KB besides, of memory that one alone cannot have. */
int64_t sn_attend_terms_shared(const sn_attend *a, const sn_sched *sc) {
    int64_t blocks = larger(sc->min_blocks, 1), all = (int64_t)a->cx->target->shared_bytes + SN_SHARED_SYSTEM;
    return all / blocks - SN_SHARED_SYSTEM;
}

static bool is_possible(const sn_attend *a, const sn_sched *sc) {
    if (!sn_attend_has_tiles(a, sc)) return false;
    if (sc->tile_n > most_steps(a) || !sc->stages || sc->stages > SN_MAX_PIPE) return false;
    if (registers(a, sc) > sn_attend_most_registers(sc)) return false;
    /* Short blocks, which several are, store often: by lines, which pass through shared memory. */
    int64_t results = sc->min_blocks > 1 ? (int64_t)sc->tile_m * SN_LINE : 0;
    return sn_attend_terms_room(a, sc) + results + SN_PRODUCT_SPARE <= sn_attend_terms_shared(a, sc);
}

/* ---- the model ---- */

/* What a tile takes, each alone. */
typedef struct parts {
    double scores, sums;              /* products ... */
    double read_scores, read_sums;    /* ... what shared memory takes to give them operands ... */
    double moved;                     /* ... and for what boxes and threads put there */
    double k_terms, v_terms, weights; /* of threads */
    double fetch;
} parts;

/* An instruction reads its right operand for each group of 64 rows, and the left one where that is in shared memory. */
static double read_cycles(const sn_attend *a, double instructions, double columns, bool left_in_shared) {
    const sn_mma_info *mma = &sn_mmas[a->mma];
    return instructions * (columns + (left_in_shared ? mma->m : 0)) * mma->k * sn_dtype_bytes(mma->operand) /
           SN_SHARED_RATE;
}

static parts parts_of(const sn_attend *a, const sn_sched *sc) {
    const sn_mma_info *mma = &sn_mmas[a->mma];
    double depth = (double)sn_attend_padded(a->depth), width = (double)sn_attend_padded(a->c.n), keys = sc->tile_n;
    double of_scores = sc->tile_m / mma->m * products_of(a) * depth / mma->k;
    double of_sums = sc->tile_m / mma->m * products_of(a) * keys / mma->k;
    double column = (double)mma->m * mma->k / mma->rate * 100 / SN_PRODUCT_BUSY_ODD;
    double elements = keys * (depth + width), of_element = sn_attend_terms_number(a) * sn_dtype_bytes(SN_BF16);
    return (parts){.scores = of_scores * keys * column,
                   .sums = of_sums * width * column,
                   .read_scores = read_cycles(a, of_scores, keys, !sn_attend_terms_keeps_q(sc)),
                   .read_sums = read_cycles(a, of_sums, width, false),
                   .moved = elements * (2 * sn_dtype_bytes(SN_F32) + of_element) / SN_SHARED_RATE,
                   .k_terms = keys * depth * SN_PRODUCT_TERMS / SN_ISSUES,
                   .v_terms = keys * width * SN_PRODUCT_TERMS / SN_ISSUES,
                   .weights = sc->tile_m * keys * SN_ATTEND_TERMS / SN_ISSUES,
                   .fetch = elements * sn_dtype_bytes(SN_F32) / SN_PRODUCT_CACHE};
}

static double most_of(double a, double b) { return a > b ? a : b; }

/* With one stage, the next keys come while threads make weights and these are multiplied; with more, all the time. */
static double alone(const sn_sched *sc, const parts *p) {
    double scores = most_of(p->scores, p->read_scores + p->moved / 2), sums = most_of(p->sums, p->read_sums);
    double behind = sums + p->weights + SN_PRODUCT_MEET, ahead = most_of(scores, p->v_terms) + SN_PRODUCT_MEET;
    ahead += most_of(p->k_terms - sums, 0);
    double late = sc->stages == 1 && p->fetch + SN_PRODUCT_LATENCY > behind ? p->fetch + SN_PRODUCT_LATENCY : 0;
    return most_of(late > 0 ? ahead + p->k_terms + late : ahead + behind, p->fetch);
}

/* Where several blocks share a multiprocessor, one has products while another one has none: a tile of each takes
 * what is longest of all kinds of work, and a part of the next one, as that of operands of 16 bits does (attend.c). */
static double together(const parts *p, double blocks) {
    double products = p->scores + p->sums, reads = p->read_scores + p->read_sums + p->moved;
    double work = p->weights + p->k_terms + p->v_terms, other = most_of(products, reads);
    double longer = most_of(other, work), shorter = other + work - longer;
    return blocks * (longer + shorter * SN_ATTEND_BESIDE / 100 + SN_ATTEND_TILE);
}

/* Of all blocks. q comes and becomes terms first. */
static double cycles(const sn_attend *a, const sn_sched *sc) {
    const sn_contraction *c = &a->c;
    double units = a->cx->target->units, blocks = (double)c->batch * sn_waves((double)c->m, sc->tile_m);
    double beside = (double)larger(sc->min_blocks, 1);
    double turns = blocks > units * beside ? blocks / (units * beside) : 1; /* begun when others end */
    double q = sc->tile_m * (double)sn_attend_padded(a->depth) * SN_PRODUCT_TERMS / SN_ISSUES;
    parts p = parts_of(a, sc);
    double tile = beside > 1 ? most_of(alone(sc, &p), together(&p, beside)) : alone(sc, &p);
    return turns * (sn_waves((double)c->k, sc->tile_n) * tile + beside * q + SN_ATTEND_BLOCK);
}

/* Of a product of a batch in a kernel of its own, by tiles of 128 x 128; blocks share a long sum where tiles are few. */
static double product_apart(const sn_attend *a, double m, double n, double depth) {
    enum { SIDE = 128 };
    double blocks = (double)a->c.batch * sn_waves(m, SIDE) * sn_waves(n, SIDE), units = a->cx->target->units;
    double tile = SIDE * SIDE * depth * products_of(a) / sn_mmas[a->mma].rate * 100 / SN_PRODUCT_BUSY_ODD;
    double parts = blocks < units ? units / blocks : 1, most = depth / (2 * SIDE);
    if (parts > most) parts = most > 1 ? most : 1;
    double begin = (parts > 1 ? 2 : 1) * SN_PRODUCT_BEGIN, turns = blocks > units ? blocks / units : 1;
    return begin + turns * (tile / parts + SIDE * SN_PRODUCT_ELEMENT);
}

/* Of three kernels: products, and scores that come out of the first, become weights, and go into the last. */
static double cycles_apart(const sn_attend *a) {
    const sn_contraction *c = &a->c;
    const sn_target *t = a->cx->target;
    double m = (double)c->m, k = (double)c->k, scores = (double)c->batch * m * k * sn_dtype_bytes(SN_F32);
    double rate = 2 * scores > (double)t->cache_bytes ? (double)t->cycle_bytes : SN_PRODUCT_CACHE;
    return product_apart(a, m, k, (double)a->depth) + product_apart(a, m, (double)c->n, k) + SN_PRODUCT_BEGIN +
           SN_ATTEND_MOVED * scores / t->units / rate;
}

/* ---- headers ---- */

/* Blocks do several tiles where these are all as long, and where there are registers for what stays the same from
 * one to the next: keys of the next come while results are stored. */
static bool is_persistent(const sn_attend *a, const sn_sched *sc) {
    return !a->n_masks && registers(a, sc) + SN_ATTEND_TERMS_STAY <= sn_attend_most_registers(sc);
}

static sn_sched complete(const sn_attend *a, const sn_sched *pinned, uint32_t groups, uint32_t keys, uint32_t stages,
                         uint32_t beside) {
    const sn_mma_info *mma = &sn_mmas[a->mma];
    sn_sched sc = *pinned;
    sc.cls = SN_SCHED_ATTEND;
    if (!sc.tile_m) sc.tile_m = sc.block_x ? mma->m * (sc.block_x / mma->threads) : mma->m * groups;
    if (!sc.block_x) sc.block_x = sc.tile_m / mma->m * mma->threads;
    if (!sc.tile_n) sc.tile_n = keys;
    if (!sc.stages) sc.stages = stages;
    if (!sc.min_blocks && beside > 1) sc.min_blocks = beside;
    if (!pinned->cls) sc.persistent = is_persistent(a, &sc);
    return sc;
}

sn_status sn_schedule_attend_terms_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                              const sn_schedule_shape *sh, const sn_sched *pinned) {
    enum { MOST_GROUPS = 3, MOST_KEYS = 256, MOST_STAGES = 2, MOST_BESIDE = 2 };
    sn_attend a;
    const char *why_not;
    double cost[SN_ATTEND_HEADERS];
    sn_sched_list list = {0};
    (void)sh;
    if (!sn_attend_terms_find(&a, &why_not, cx, k) || (a.c.m < SN_ATTEND_LEAST && !pinned->cls)) return SN_OK;
    for (uint32_t groups = MOST_GROUPS; groups > 0; groups--)
        for (uint32_t keys = MOST_KEYS; keys > 0; keys -= sn_mmas[a.mma].k)
            for (uint32_t i = 0; i < MOST_STAGES * MOST_BESIDE; i++) {
                sn_sched sc = complete(&a, pinned, groups, keys, MOST_STAGES - i % MOST_STAGES, 1 + i / MOST_STAGES);
                if (is_possible(&a, &sc)) sn_attend_rank(&list, cost, cx->scratch, &sc, cycles(&a, &sc));
            }
    if (!list.n) return SN_OK;
    if (!pinned->cls && cost[0] * 100 > cycles_apart(&a) * SN_ATTEND_GAIN) {
        sn_remark(cx, sn_kern_get(cx->m, k)->name, "attention by terms would take %.0f cycles, three kernels %.0f",
                  cost[0], cycles_apart(&a));
        return SN_OK;
    }
    for (uint32_t i = 0; i < list.n; i++)
        if (sn_attend_terms_fits(&why_not, &a, &list.at[i])) sn_schedule_propose(out, cx, &list.at[i]);
    if (!out->n) sn_remark(cx, sn_kern_get(cx->m, k)->name, "its operands do not come by boxes: %s", why_not);
    out->cycles = cost[0];
    return SN_OK;
}
