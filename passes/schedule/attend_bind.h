/* attend_bind.h: attention of whole tiles on a GPU while it is bound: shared by attend_bind.c (tiles, scores, weights) and
 * attend_split.c (keys that several blocks share).
 */
#ifndef SN_PASSES_SCHEDULE_ATTEND_BIND_H
#define SN_PASSES_SCHEDULE_ATTEND_BIND_H

#include "passes/schedule/attend.h"

typedef struct sn_attend_binding {
    sn_attend *a;
    sn_contract_binding b; /* of sums: rows, columns, results */
    sn_mma_nest scores, sums;
    sn_mma_operand q, key, v;
    sn_buf s, p; /* scores, then weights; those as a fragment */
    sn_buf most, factor, shift, grown, part, total;
    sn_buf loaded[SN_MOST_LOADS];
    sn_buf parts[3];         /* maximum, total and sums of rows, of each part, where several blocks share the keys */
    sn_ix first, tile, keys; /* tile of keys: the first one, its number, its first key */
    double scale;            /* of scores, to exponents of 2 */
} sn_attend_binding;

/* A nest over all threads; *at moves inside. Returns the thread. */
sn_ix sn_attend_open_threads(sn_attend_binding *o, sn_cursor *at);
/* Offset of row r of block h of thread x among registers that have one for each of its rows. */
sn_ix sn_attend_row_at(sn_attend_binding *o, sn_ix x, sn_ix h, sn_ix r);
/* The factor of a row whose maximum is `most`. */
sn_val sn_attend_put_factor(sn_attend_binding *o, sn_cursor at, sn_val most);

/* ---- attend_split.c ---- */

/* Behind the keys of a part: what its rows come to goes to memory. */
void sn_attend_put_parts(sn_attend_binding *o, sn_cursor at);
/* On the last block of the rows: its registers get what all parts come to. */
void sn_attend_add_parts(sn_attend_binding *o, sn_cursor at);

#endif
