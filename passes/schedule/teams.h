/* teams.h: rows that teams of blocks keep, which all run at once (teams.c). */
#ifndef SN_PASSES_SCHEDULE_TEAMS_H
#define SN_PASSES_SCHEDULE_TEAMS_H

#include "passes/schedule/schedule.h"

/* Rows, or tiles of columns that are read side by side. */
typedef struct sn_team_rows {
    int64_t rows, reach; /* elements from the first vector of a row to the end of its last one, at most; of a column */
    uint32_t kept;       /* bytes of an element that stay; of a tile, of all its columns */
    uint32_t columns;    /* 0: rows; else those of a tile, which block_x and vector of the header say */
    uint32_t states;     /* bytes that a thread carries in a reduction */
} sn_team_rows;

/* Complete a header whose vector (of columns: and block_x) is chosen; false: the device has no room for a row. *cycles: that it takes. */
bool sn_schedule_choose_team(double *cycles, const sn_target *t, const sn_team_rows *rows, sn_sched *sc);
/* Cycles of rows so many of which are done at once, turn after turn: all at the speed of memory, those that are missing in
 * the last of few turns too, and what the blocks of a row wait for each other, while the other ones on the same multiprocessor
 * (`resident` in all) move theirs. */
double sn_schedule_count_turns(const sn_target *t, const sn_team_rows *rows, int64_t together, uint32_t resident);

/* Has the device room for a row of so many bytes, and are the rows worth a launch that waits for all of it? */
/* Of columns, a sector of which is that wide. */
bool sn_team_has_room(const sn_target *t, int64_t rows, int64_t bytes);

#endif
