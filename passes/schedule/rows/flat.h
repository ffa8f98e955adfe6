/* flat.h: what flat_find.c finds, flat.c chooses for and flat_bind.c binds. */
#ifndef SN_PASSES_SCHEDULE_ROWS_FLAT_H
#define SN_PASSES_SCHEDULE_ROWS_FLAT_H

#include "passes/schedule/base/schedule.h"

enum { SN_MAX_FLAT = 8, SN_FLAT_AXES = 4 };

/* A buffer that passes through shared memory. A piece: group q has the elements base + group*q .. base + group*(q + 1) - 1,
 * and no other group. Lines: of each line, which axes of a group count, group q has the elements base + group*q .. base +
 * group*(q + 1) - 1, one where groups are single columns. */
typedef struct sn_schedule_flat_buf {
    sn_buf buf;
    bool stored; /* all elements of a group are, by one store; else it is only read */
    bool lines;
    bool side_by; /* a piece: a nest walks neighbours */
    int64_t base, group;
    int64_t reach; /* a piece: elements of a group from its base to the last one that is touched */
    int64_t count; /* elements of a group: of all its lines, or of the piece */
    int64_t strides[SN_FLAT_AXES], extents[SN_FLAT_AXES]; /* lines: of the axes that count them, the slowest first */
    int64_t others[SN_MAX_CHAIN]; /* lines: strides of the outer loops before the last one that counts groups */
    uint32_t n_axes;
    uint32_t size;   /* bytes of an element */
    uint32_t vector; /* elements of 16 bytes, or fewer where pieces or lines are not aligned */
    bool moved;      /* lines, or a block's piece, that begin inside of vectors come with all of these */
    uint32_t
        takes; /* lines that are stored: 1 + number of those that are read, whose places theirs are; 0: they have their own */
    uint32_t over; /* a piece that is stored: the same, where a block has one group */
    uint32_t
        gap; /* elements of shared memory between two groups of a piece, or two lines, so that lanes do not meet in a bank */
} sn_schedule_flat_buf;

/* Rows in groups: `prefix` outer loops count groups, the others the `inner` rows of one; `outer` has them in that
 * order, which need not be that of the kernel. Blocks have neighbouring groups: of all, counted over these loops in
 * row-major order, or, where a buffer has lines, along the last of them. */
typedef struct sn_schedule_flat {
    sn_schedule_flat_buf bufs[SN_MAX_FLAT];
    uint32_t n; /* 0: no groups were found */
    sn_chain outer;
    uint32_t prefix;
    bool lines;  /* of some buffer */
    bool turns;  /* rows lie along the nests in some buffers, across them in others */
    bool direct; /* ... which are stored as they are */
    bool words;  /* of all buffers elements are words, or more */
    int64_t inner, groups;
    int64_t along;    /* groups that follow each other as blocks have them; groups / along times */
    uint32_t bytes;   /* of a group in all those buffers */
    uint32_t piece;   /* bytes that a copy moves at once, at least */
    uint32_t unit;    /* groups that a block has a multiple of, so that its pieces are aligned */
    int64_t run;      /* bytes that lie one behind the other where one step of the reduction finds them */
    uint32_t vector;  /* elements of a row that lie side by side in an aligned piece, of all buffers */
    uint32_t lanes;   /* columns that lie side by side in a word of all pieces, and are one thread's */
    bool by_columns;  /* rows stand along block.x, what threads share of a row along block.y; else the other way */
    uint32_t weights; /* loads of an element of a row that are alike in all groups */
} sn_schedule_flat;

/* ---- flat_find.c ---- */

/* Without groups where rows do not lie so. */
void sn_schedule_find_flat(sn_schedule_flat *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
/* Does the buffer pass through shared memory, and which is it? */
bool sn_schedule_is_flat(const sn_schedule_flat *f, sn_buf b, uint32_t *which);
/* Does what is stored stand where what was loaded stood, once nobody reads that? */
bool sn_schedule_flat_same_places(const sn_schedule_flat *f, sn_module *m, const sn_schedule_shape *sh, uint32_t in,
                                  uint32_t out);
/* Has a row one thread? */
bool sn_schedule_flat_is_alone(const sn_schedule_shape *sh, const sn_schedule_flat *f);
/* Bytes of shared memory of so many groups, and of a block at most: two of them have room, one loads. */
int64_t sn_schedule_flat_room(const sn_schedule_flat *f, int64_t groups);
int64_t sn_schedule_flat_most_room(const sn_pass_ctx *cx);
/* Words of a bank that a warp wants at once where each x of its lanes have neighbours, and the next ones others that lie so far apart. */
int64_t sn_schedule_flat_words_at_once(int64_t size, int64_t apart, int64_t x);

/* ---- flat.c ---- */

/* Columns that a thread has side by side; 1 where its vectors are of a row. */
uint32_t sn_schedule_flat_lanes(const sn_schedule_flat *f, const sn_sched *sc);

#endif
