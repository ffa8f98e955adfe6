/* brick.h: what brick.c finds and brick_bind.c binds. */
#ifndef SN_PASSES_SCHEDULE_MOVES_BRICK_H
#define SN_PASSES_SCHEDULE_MOVES_BRICK_H

#include "passes/schedule/base/schedule.h"

enum { SN_MAX_BRICK_LOADS = 4 };

/* Outer loops in the order in which an access finds them in memory: what follows the last iteration of one is the next iteration
 * of the one behind it. */
typedef struct sn_schedule_walk {
    int64_t strides[SN_MAX_CHAIN]; /* by position in the chain of outer loops, without their signs */
    bool back[SN_MAX_CHAIN];       /* ... from the last iteration to the first, as what is turned round has them */
    bool hidden;                   /* a mask: not all iterations find something there */
    uint32_t at[SN_MAX_CHAIN], n;  /* positions; the one of stride 1 first */
} sn_schedule_walk;

typedef struct sn_schedule_brick {
    sn_stmt staged[SN_MAX_BRICK_LOADS]; /* loads whose lines are others than those of the stores */
    sn_schedule_walk loads[SN_MAX_BRICK_LOADS], stored;
    uint32_t n_staged;                                  /* 0: the kernel is not for bricks */
    uint32_t n_across;                                  /* ... of them, those of other lines come first */
    uint32_t n_loads;                                   /* staged or not */
    uint32_t n;                                         /* outer loops, ... */
    int64_t extents[SN_MAX_CHAIN], sides[SN_MAX_CHAIN]; /* ... with what a brick has of each */
    uint32_t bytes;                                     /* of an element of all staged loads */
    uint32_t widest;                                    /* of the largest of these */
    uint32_t least;                                     /* of the smallest element that is stored */
    int64_t offset;                                     /* of the first store: its constant part */
    bool whole;                                         /* a brick has all of the last loop (brick_rows.c) */
} sn_schedule_brick;

/* What a brick has of a load, in shared memory (brick_layout.c). */
typedef struct sn_schedule_brick_part {
    int64_t bytes, size, align, c0;    /* of an element; of the buffer: elements, bytes, constant part of the offset */
    uint32_t run[SN_MAX_CHAIN], n_run; /* loops inside a run, the fastest first; */
    uint32_t runs[SN_MAX_CHAIN], n_runs; /* that count runs */
    int64_t steps[SN_MAX_CHAIN];         /* by loop: elements from one iteration to the next, */
    bool back[SN_MAX_CHAIN];             /* ... of a run: to the one before it */
    int64_t length, count, pitch;        /* elements of a run; runs; elements from run to run */
    int64_t common;                      /* elements that the stores find side by side, too, ... */
    uint32_t n_common;                   /* ... by so many loops */
    int64_t v, pieces;                   /* elements of a copy; copies of a run */
    bool anywhere;                       /* runs do not begin with a copy */
    bool spread;                         /* ... but so that lanes which go from run to run find other banks */
    int64_t group, gap;                  /* so many runs, and behind them elements that nobody uses; 0: none */
} sn_schedule_brick_part;

/* Straight-line code over these loops. Sides are those of a brick of one element. */
void sn_schedule_find_brick(sn_schedule_brick *out, sn_pass_ctx *cx, sn_kern k, const sn_chain *outer);
/* Sides so long that runs in memory have so many elements at least, where loops have. */
void sn_schedule_size_brick(sn_schedule_brick *b, int64_t loaded, int64_t stored);
/* Elements of a brick that follow each other in memory. */
int64_t sn_schedule_brick_run(const sn_schedule_brick *b, const sn_schedule_walk *w);
/* Where runs of the stores begin inside of sectors, a brick stores those from the first sector that begins in it to the first that begins in
 * the next one: it has so many more iterations of the loop *last, at whose end its runs are cut. 0: none. */
int64_t sn_schedule_brick_beyond(uint32_t *last, const sn_schedule_brick *b);
/* ... or of the elements of these runs that come to shared memory with a brick's own, where there are any. */
int64_t sn_schedule_brick_more(const sn_schedule_brick *b);
/* ... of which the first sector of a run begins so many elements behind it at most. */
int64_t sn_schedule_brick_reach(const sn_schedule_brick *b);
/* Loops in the order in which bricks follow each other, the fastest last: as the loops do, or along what a load finds in order first, where
 * bricks that run together have longer pieces of both sides so. */
void sn_schedule_order_bricks(uint32_t *order, const sn_pass_ctx *cx, const sn_schedule_brick *b);
/* Bytes of an access that finds its elements side by side in both walks. */
uint32_t sn_schedule_brick_piece(const sn_schedule_brick *b, const sn_schedule_walk *w);
int64_t sn_schedule_brick_elements(const sn_schedule_brick *b);
/* Elements of shared memory that it takes. */
int64_t sn_schedule_brick_room(const sn_schedule_brick_part *q);
/* Threads of a block that go along a line of so many pieces, as all others do along lines beside it. */
int64_t sn_schedule_brick_threads(int64_t threads, int64_t pieces, int64_t lines);
void sn_schedule_lay_out_brick(sn_schedule_brick_part *out, sn_module *m, const sn_schedule_brick *b, uint32_t load);
/* Does every run of a walk begin with a sector, or of the stores? */
bool sn_schedule_brick_begins(const sn_schedule_brick *b, const sn_schedule_walk *w, uint32_t bytes);
bool sn_schedule_brick_begins_sectors(const sn_schedule_brick *b);
/* Elements of a store, where runs begin at multiples of so many, and have multiples of so many. */
uint32_t sn_schedule_brick_vector(sn_module *m, const sn_schedule_brick *b, const sn_schedule_shape *sh);
/* Elements of a word, where runs of bytes or halves are stored by words wherever they begin; 0: they are not. */
uint32_t sn_schedule_brick_word(sn_module *m, const sn_schedule_brick *b, const sn_schedule_shape *sh);
/* The headers of such a brick, its first choice first: none where runs do not fit. The body is that of sh. */
sn_status sn_schedule_propose_bricks(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                     const sn_sched *pinned, sn_schedule_brick *b);
/* Is it worth a brick, and not better off in another class? For `join-axes` too, which leaves such kernels alone. */
bool sn_schedule_wants_brick(sn_pass_ctx *cx, sn_kern k, const sn_chain *outer);

#endif
