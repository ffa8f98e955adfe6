/* attend_bind.h: attention of whole tiles on a GPU while it is bound: shared by attend_bind.c (operands of 16 bits; rows,
 * scores and weights of both), attend_split.c (keys that several blocks share) and attend_terms_bind.c (operands of
 * f32, by terms of bfloat16).
 */
#ifndef SN_PASSES_SCHEDULE_ATTENTION_ATTEND_BIND_H
#define SN_PASSES_SCHEDULE_ATTENTION_ATTEND_BIND_H

#include "passes/schedule/attention/attend.h"

typedef struct sn_attend_binding {
    sn_attend *a;
    sn_contract_binding b; /* of sums: rows, columns, results */
    sn_mma_nest scores, sums;
    sn_mma_operand q, key, v; /* what boxes bring */
    sn_buf s, p;              /* scores, then weights; those as a fragment */
    sn_buf most, factor, shift, grown, part, total;
    sn_buf limit,
        below; /* of a maximum that is lazy: bits of a score that is large; whether those of a thread are below */
    sn_buf loaded[SN_MOST_LOADS];
    sn_buf parts[3];         /* maximum, total and sums of rows, of each part, where several blocks share the keys */
    sn_ix first, tile, keys; /* tile of keys: the first one, its number, its first key */
    double scale;            /* of scores, to exponents of 2 */
    bool bounded, holes;     /* scores lie so close together that no maximum is needed; but for -inf */
    double center;           /* exponent of the weight in the middle, then */
    bool lazy;               /* a maximum is taken anew only where weights would be large */
    bool inverse;            /* the body multiplies by 1/total */
    int raised;              /* weights, their totals and sums are 2^raised times as large */
} sn_attend_binding;

/* Nests, and registers of scores, rows and sums; no operands yet. sums: header of the sums, with tiles as wide as all
 * columns. */
void sn_attend_start(sn_attend_binding *o, sn_attend *a, const sn_sched *sc, sn_sched *sums);
/* Shared memory of so many lines of channels. */
sn_mma_operand sn_attend_make_operand(sn_attend_binding *o, const char *name, sn_dtype dtype, int64_t lines,
                                      int64_t channels);
/* Registers, `own` of each thread. */
sn_buf sn_attend_registers(sn_attend_binding *o, const char *name, sn_dtype dtype, int64_t own);

/* ---- loops; *at moves inside ---- */

/* Over blocks of rows, and in one over its turns: a pipe where boxes bring q. */
void sn_attend_open_blocks(sn_attend_binding *o, sn_cursor *at, bool pipe);
/* Over tiles of keys: a pipe. */
void sn_attend_open_tiles(sn_attend_binding *o, sn_cursor *at);
/* Over threads; the rows of one; what it has of a row of scores: pairs of neighbours, element e of block j. */
sn_ix sn_attend_open_threads(sn_attend_binding *o, sn_cursor *at);
void sn_attend_open_rows(sn_attend_binding *o, sn_cursor *at, sn_ix *h, sn_ix *r);
void sn_attend_open_pairs(sn_attend_binding *o, sn_cursor *at, sn_ix r, sn_ix *j, sn_ix *e);
/* Offset of row r of thread x among registers that have one for each of its rows. */
sn_ix sn_attend_row_at(sn_attend_binding *o, sn_ix x, sn_ix h, sn_ix r);

/* ---- a tile ---- */

void sn_attend_store_all(sn_attend_binding *o, sn_cursor at, sn_buf buf, double value);
/* Boxes that bring keys and v. */
void sn_attend_put_keys(sn_attend_binding *o, sn_cursor at);
/* Of the scores: what f loads; f; masks; maxima of rows and their growth; weights, and their sums. Masks are of weights
 * where scores are bounded. */
void sn_attend_put_loads(sn_attend_binding *o, sn_cursor at);
void sn_attend_put_function(sn_attend_binding *o, sn_cursor at);
void sn_attend_put_masks(sn_attend_binding *o, sn_cursor at);
void sn_attend_put_most(sn_attend_binding *o, sn_cursor at);
void sn_attend_put_weights(sn_attend_binding *o, sn_cursor at);
void sn_attend_put_sum(sn_attend_binding *o, sn_cursor at);
/* Are scores bounded, so that weights of the dtype can do without a maximum? */
void sn_attend_find_bound(sn_attend_binding *o, sn_dtype weights);
/* Weights as a fragment of the second product; sums as much larger as the maximum. */
void sn_attend_put_fragment(sn_attend_binding *o, sn_cursor at);
void sn_attend_put_growth(sn_attend_binding *o, sn_cursor at);
/* Behind all keys: totals of rows, and their maximum as scores have it. */
void sn_attend_put_totals(sn_attend_binding *o, sn_cursor at);

/* ---- one score ---- */

/* f of what the copier knows for a->sum; with its masks; its weight. */
sn_val sn_attend_put_score(sn_attend_binding *o, sn_contraction_copier *p);
sn_val sn_attend_put_seen(sn_attend_binding *o, sn_cursor at, sn_ix row, sn_ix key, sn_val score);
sn_val sn_attend_put_weight(sn_attend_binding *o, sn_cursor at, sn_val score, sn_val factor, sn_val shift);
/* The factor of scores of a row whose maximum is `most`. */
sn_val sn_attend_put_factor(sn_attend_binding *o, sn_cursor at, sn_val most);

/* ---- attend_split.c ---- */

/* Behind the keys of a part: what its rows come to goes to memory. */
void sn_attend_put_parts(sn_attend_binding *o, sn_cursor at);
/* On the last block of the rows: its registers get what all parts come to. */
void sn_attend_add_parts(sn_attend_binding *o, sn_cursor at);

#endif
