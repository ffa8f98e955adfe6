/* ends.h: places in rows where runs of class element end, of which ends.c makes loops of their own. */
#ifndef SN_PASSES_SCHEDULE_MOVES_ENDS_H
#define SN_PASSES_SCHEDULE_MOVES_ENDS_H

#include "passes/schedule/base/schedule.h"

enum { SN_MOST_ENDS = 4 };

typedef struct sn_schedule_ends {
    int64_t at[SN_MOST_ENDS]; /* elements of a row in front of it, ascending; 0: the row before ends there */
    uint32_t n;               /* 0: vectors go run by run */
    int64_t row, v;
} sn_schedule_ends;

/* Where the runs of vectors of so many elements end, if most of these have no end inside and the places are known; none: of others. */
sn_schedule_ends sn_schedule_find_ends(const sn_pass_ctx *cx, const sn_schedule_shape *sh, int64_t v);
/* Vectors without an end inside, from a flat position that is a multiple of theirs; returns where their lanes go. */
sn_stmt sn_schedule_put_whole(sn_pass_ctx *cx, sn_kern k, const sn_schedule_ends *ends, sn_stmt into, sn_ix start);
/* Statements of such a vector: all lanes are in the row, and on the side of each test, of the first. */
void sn_schedule_subst_whole(sn_pass_ctx *cx, const sn_stmt_vec *body, const sn_schedule_ends *ends,
                             const sn_schedule_shape *sh, sn_ix start, sn_axis lane);
/* Elements of the other vectors of a block, which has `tile` positions from `base` on, of `all`; thread t has every `threads`-th. */
void sn_schedule_put_ends(sn_pass_ctx *cx, sn_kern k, const sn_schedule_ends *ends, const sn_schedule_shape *sh,
                          sn_stmt into, const sn_stmt_vec *body, sn_ix t, int64_t threads, sn_ix base, int64_t tile,
                          int64_t all);

#endif
