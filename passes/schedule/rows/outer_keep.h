/* outer_keep.h: columns that stay on the chip between the loops over them (class outer). */
#ifndef SN_PASSES_SCHEDULE_ROWS_OUTER_KEEP_H
#define SN_PASSES_SCHEDULE_ROWS_OUTER_KEEP_H

#include "passes/schedule/rows/rows.h"

/* Choose vector, threads and unroll of *sched so that a block keeps its columns, in registers (`persistent`) or in shared
 * memory (`shared`), or a cluster or team of blocks, the way that takes the least. false: it leaves *sched alone, as reading them again
 * takes no longer. bytes: of the smallest element that nests walk; vector: lanes that divide the columns. */
bool sn_schedule_keep_columns(sn_sched *sched, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, uint32_t bytes,
                              uint32_t vector);

/* Choose a header with which teams of blocks keep tiles of columns (outer_team.c); false: they have no room, or reading again takes no longer.
 * *cost: that it takes, over one reading and one writing. */
bool sn_schedule_team_columns(double *cost, sn_sched *sched, sn_pass_ctx *cx, const sn_schedule_shape *sh,
                              uint32_t bytes, uint32_t vector);
/* What of such a header's columns stays, as of rows (schedule.h). */
sn_row_parts sn_schedule_column_parts(sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sched);
/* May a team keep columns of which so many lie side by side, of elements of so many bytes? They are few. */
bool sn_columns_for_team(const sn_target *t, int64_t along, uint32_t bytes);

/* Columns of which tiles have some in common with the next one (outer_sectors.c). */
typedef struct sn_columns {
    int64_t along; /* of a line */
    int64_t grain; /* lines begin at multiples of so many in a sector */
    int64_t over;  /* that a tile has beside its own */
    int64_t own;   /* of a tile */
    sn_ix first;   /* of the tile, in its line */
    sn_ix column;  /* of a thread's vector */
    sn_ix there;   /* the same, or that of the last vector in the line instead of those behind it */
    sn_axis x;
} sn_columns;
/* false: lines begin at sectors, or tiles may have nothing in common. Leaves what depends on a header. */
bool sn_columns_overlap(sn_columns *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
/* That a tile of so many owns. */
int64_t sn_columns_own(const sn_columns *columns, int64_t wide);
/* The loops over tiles of so many lines and over threads; returns where the thread's vector is among all columns. */
sn_ix sn_columns_open(sn_pass_ctx *cx, sn_kern k, sn_columns *columns, sn_stmt *into, int64_t lines,
                      const sn_sched *sched);
/* Stores in the loop over threads are those of its own sectors. lane: axis of a vector's columns; none: it is one. */
void sn_columns_mask(sn_module *m, const sn_columns *columns, sn_stmt threads, sn_axis lane);

/* Has a block or a cluster room for whole columns, a line of them side by side, and are they enough to fill the device? `along` of
 * the columns lie side by side; bytes: of the elements of one that are read again. */
bool sn_columns_stay(const sn_target *t, int64_t columns, int64_t along, int64_t elements, int64_t bytes);
/* Does a kernel that keeps such columns take longer than three that read them once more? */
bool sn_columns_dear(const sn_target *t, int64_t columns, int64_t along, int64_t elements, int64_t bytes);

#endif
