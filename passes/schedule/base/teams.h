/* teams.h: rows that teams of blocks keep, which all run at once (teams.c). */
#ifndef SN_PASSES_SCHEDULE_BASE_TEAMS_H
#define SN_PASSES_SCHEDULE_BASE_TEAMS_H

#include "passes/schedule/base/schedule.h"

typedef struct sn_team_rows {
    int64_t rows, reach; /* elements from the first vector of a row to the end of its last one, at most */
    uint32_t kept;       /* bytes of an element that stay */
    uint32_t states;     /* bytes that a thread carries in a reduction, of all its columns */
    uint32_t exchanges;  /* reductions of a row that wait for one another */
    bool tests;          /* rows begin anywhere in a vector: each lane asks whether it is in the row */
    uint32_t again; /* nests behind the first one, which read what does not stay; 0: all of a row has to (row_part.c) */
    bool both;      /* a sum and squares about its mean read what stays in part of a row together (meet_once.c) */
    uint32_t columns; /* threads side by side that own columns (class outer), a row being what these have; 0: none do */
} sn_team_rows;

/* Complete a header whose vector is chosen, whose block_x is all threads of a block; false: the device has no room for a row. *cycles: that it takes. */
bool sn_schedule_choose_team(double *cycles, const sn_target *t, const sn_team_rows *rows, sn_sched *sc);
/* Cycles of rows that clusters keep, so many of which are done at once, with so many blocks on a multiprocessor. */
double sn_schedule_count_clusters(const sn_target *t, const sn_team_rows *rows, int64_t together, uint32_t resident);

/* Of a row that teams keep in part, how many iterations of the outermost loop of a thread stay, the first ones
 * (0: all do), and how many registers hold, the last ones. */
typedef struct sn_row_parts {
    int64_t stay, held;
    bool twice; /* rows are read twice, and registers are all for that */
    bool words; /* registers hold halves as the words that they are */
    bool ahead; /* of the others, each is under way while the one before it is computed */
    bool both;  /* the first two nests read them together (meet_once.c) */
} sn_row_parts;
/* Of the iterations of a thread's outermost loop, how many have room; may be more than there are. */
sn_row_parts sn_schedule_team_parts(const sn_target *t, const sn_team_rows *rows, const sn_sched *sc);

/* Teams of a header are of several blocks. */
sn_status sn_schedule_check_teams(const sn_pass_ctx *cx, sn_kern k, const sn_sched *sc);

/* Rows that may become one kernel. */
typedef struct sn_team_need {
    int64_t rows, bytes;       /* of a row */
    uint32_t exchanges, again; /* as above */
    bool together;             /* only if all rows are done in one turn, from what the chip has room for */
} sn_team_need;
/* Do teams take less time than reading the rows once more? They keep all of a row or, where `again` is not 0, read the rest that many
 * times more. */
bool sn_team_pays(const sn_target *t, const sn_team_need *need);

#endif
