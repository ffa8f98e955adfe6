/* attend.h: attention of many query rows: what attend.c, which finds it and chooses for GPUs, attend_mask.c,
 * attend_bind.c and those for the CPU (attend_host.h) know of it.
 *
 *     loop .. { loop i in Sq { loop d in Dv {
 *       %m, %z, %m2, %o = reduce (sumexp, sumexp) j in Sk {
 *         %s = reduce sum c in D { .. yield q(i, c) * k(j, c) }   %x = f(%s, i, j)   yield %x, 1, %x, v(j, d)
 *       }
 *       .. store y[..], g(%o, %z, ..)
 *     } } }
 *
 * Rows are queries, columns are those of v. f may be anything; what of it is a test that says which keys a row sees,
 * and is linear in both, becomes a mask.
 */
#ifndef SN_PASSES_SCHEDULE_ATTENTION_ATTEND_H
#define SN_PASSES_SCHEDULE_ATTENTION_ATTEND_H

#include "passes/schedule/products/contract_bind.h"

enum { SN_MOST_MASKS = 8, SN_MOST_LOADS = 4 };

/* A score counts where e >= 0, or `other` is, if there is one; everywhere else it is -inf. Both are linear in the axes of rows and
 * keys, and grow alike along the keys. */
typedef struct sn_attend_mask {
    sn_ix e, other;
    bool in_score; /* the score is -inf there by itself: only tiles are left out */
} sn_attend_mask;

/* A test inside of the score that masks make: wherever they do not, it is this. */
typedef struct sn_attend_told {
    sn_val test;
    bool holds;
} sn_attend_told;

typedef struct sn_attend {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_contraction
        c; /* of weights and v: columns are its N, keys its K; outer axes that are neither rows nor columns are batch */
    sn_stmt scores;    /* the reduction that multiplies q by k */
    sn_stmt q, key, v; /* loads */
    sn_axis channel;   /* of q and k */
    int64_t depth;     /* how many */
    sn_val sum, score; /* what `scores` gives; f of it, without masks and factor */
    double factor;     /* positive; of the score: the maximum needs none */
    /* Inside of the score, what has the factor, and what it is of; none: the score has it as a whole. */
    sn_val scaled, unscaled;
    sn_attend_told told[SN_MOST_MASKS];
    uint32_t n_told;
    sn_attend_mask masks[SN_MOST_MASKS];
    uint32_t n_masks;
    sn_stmt loads[SN_MOST_LOADS]; /* that f makes for each score */
    bool boxed[SN_MOST_LOADS];    /* by a box for the tile, not by each thread */
    uint32_t n_loads;
    double specials, instructions; /* special functions of f, for a score; instructions, as few as it may be */
    sn_mma mma;
} sn_attend;

/* Bytes of a score that they are together: those that boxes bring, or threads. */
int64_t sn_attend_loaded(const sn_attend *a, bool boxed);
/* Is the kernel attention? Finds all but loads and mma. */
bool sn_attend_find_nest(sn_attend *out, const char **why_not, sn_pass_ctx *cx, sn_kern k);
/* What f loads for each score. */
void sn_attend_find_loads(sn_attend *a);
/* ... that boxes and matrix instructions of this target can do? */
bool sn_attend_find(sn_attend *out, const char **why_not, sn_pass_ctx *cx, sn_kern k);
/* Has the target instructions of warpgroups? */
bool sn_attend_has_warpgroups(const sn_target *t);
/* Do warpgroups of the header have tiles that instructions multiply? */
bool sn_attend_has_tiles(const sn_attend *a, const sn_sched *sc);
/* Registers of a thread that computes. */
int64_t sn_attend_most_registers(const sn_sched *sc);
/* Channels of q and k, or of v, in shared memory: as many as make whole steps of an instruction. */
int64_t sn_attend_padded(int64_t channels);
/* ... or as many as there is room for in halves, so that lines are long: rows that begin inside of sectors come in few pieces. */
int64_t sn_attend_stored(int64_t channels);
/* So many bytes lie in lines of ... */
uint32_t sn_attend_line(int64_t bytes);
/* How many tiles of q there is room for: a persistent block has the next one brought early. */
uint32_t sn_attend_queries(const sn_attend *a, const sn_sched *sc);
/* Bytes of shared memory of a block of that header, without results. */
int64_t sn_attend_room(const sn_attend *a, const sn_sched *sc);
/* Insert a header by its cycles, into the best so many; cost: those of the list. */
enum { SN_ATTEND_HEADERS = 8 };
void sn_attend_rank(sn_sched_list *list, double *cost, sn_arena *arena, const sn_sched *sc, double cycles);
/* Can boxes bring its operands, by tiles of that header (attend_bind.c)? */
bool sn_attend_fits(const char **why_not, const sn_attend *a, const sn_sched *sc);

/* ---- attend_order.c ---- */

/* Which block has which tiles of rows. */
typedef struct sn_attend_order {
    int64_t blocks, all; /* of the grid; tiles */
    int64_t group, down; /* batches in a group; tiles of each */
    bool grows;          /* later rows see more keys */
    bool pairs;          /* a block has a tile with many keys and one with few */
    int64_t left;        /* pairs whose tiles have a block each, in the last turn */
    double excess;       /* what the block with most to do has, to the mean */
} sn_attend_order;

/* Tiles of keys that the rows from `row` on see. */
int64_t sn_attend_tiles_at(const sn_attend *a, const sn_sched *sc, int64_t row);
void sn_attend_order_find(sn_attend_order *out, const sn_attend *a, const sn_sched *sc);
double sn_attend_excess(const sn_attend *a, const sn_sched *sc);
/* Turns of block g; batch and tile of turn w. */
sn_ix sn_attend_order_turns(const sn_attend_order *o, sn_module *m, sn_ix g);
void sn_attend_order_place(sn_ix *batch, sn_ix *tile, const sn_attend_order *o, sn_module *m, sn_ix w, sn_ix g);

/* ---- attend_range.c ---- */

/* What scores lie between, with their factor; or they are -inf, where there are holes. */
typedef struct sn_attend_range {
    double lo, hi;
    bool holes;
} sn_attend_range;

sn_attend_range sn_attend_range_of(const sn_attend *a);
/* ... and v, of the score, if q times k is no larger than in any model; nothing is taken to be likely of what is loaded. */
sn_attend_range sn_attend_range_likely(const sn_attend *a, sn_val v);

/* ---- attend_mask.c ---- */

/* Takes masks and a positive factor off a->score. */
void sn_attend_find_masks(sn_attend *a);
/* The score at p without them. */
sn_val sn_attend_copy_score(const sn_attend *a, sn_contraction_copier *p);
/* Tiles of keys that the rows from `row` on see, of a block of that header at `batch`: first and number, at least
 * one. */
void sn_attend_tiles(sn_ix *first, sn_ix *number, sn_attend *a, const sn_sched *sc, sn_ix batch, sn_ix row);
/* e of mask i at a place, or `other` where that is larger; its least value over rows from `row` and keys from `key` on, of a tile. */
sn_ix sn_attend_mask_at(sn_attend *a, uint32_t i, sn_ix batch, sn_ix row, sn_ix key);
sn_ix sn_attend_mask_least(sn_attend *a, uint32_t i, const sn_sched *sc, sn_ix batch, sn_ix row, sn_ix key);

#endif
