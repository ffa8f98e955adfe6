/* brick_bind.h: what the files share that bind class brick. brick_bind.c has the picture; brick_words.c is behind it for stores by words. */
#ifndef SN_PASSES_SCHEDULE_MOVES_BRICK_BIND_H
#define SN_PASSES_SCHEDULE_MOVES_BRICK_BIND_H

#include "passes/schedule/moves/brick.h"

/* A load. */
typedef struct sn_brick_staged {
    uint32_t position; /* in the body */
    sn_ix ix;
    sn_buf buf, shared;
    sn_schedule_brick_part in; /* shared memory */
    bool hidden;               /* a mask: places may be none of the storage */
} sn_brick_staged;

typedef struct sn_brick_binding {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    sn_schedule_brick b;
    int64_t threads, v;
    sn_axis axes[SN_MAX_CHAIN];
    int64_t sides[SN_MAX_CHAIN];                     /* of a brick, with what is beyond it */
    sn_ix parts[SN_MAX_CHAIN], origin[SN_MAX_CHAIN]; /* which brick it is, and where that begins */
    sn_stmt grid, into;
    int64_t unit;   /* elements of a sector of the first store, */
    int64_t reach;  /* ... and the most that are in front of the first that begins in a run */
    bool words;     /* v elements are a word, but runs of the stores begin anywhere */
    bool turned;    /* runs of the stores need not begin with one: lanes begin where one does, and end in front of it */
    uint32_t last;  /* the loop at whose end runs of the stores are cut, */
    int64_t beyond; /* ... with iterations of the next brick that come to shared memory too */
    sn_ix part;     /* ... and which brick along it this is */
    sn_ix edge;     /* loops whose end the brick reaches without filling it */
    bool inside, masked; /* are there bricks with edge 0, and with others */
    sn_brick_staged loads[SN_MAX_BRICK_LOADS];
} sn_brick_binding;

/* Threads of a block along lines of `pieces`, of which there are `lines`. */
typedef struct sn_brick_lanes {
    sn_ix line, piece; /* of this thread and turn */
    sn_stmt into;
} sn_brick_lanes;

/* ---- brick_bind.c ---- */

/* Threads along `pieces` of `lines`, inside of `into`; x: the thread. */
sn_brick_lanes sn_brick_open_lanes(sn_brick_binding *b, sn_ix x, sn_stmt into, int64_t pieces, int64_t lines);
/* Only the threads of whole lines, of which each has so many `along` it. */
sn_stmt sn_brick_leave_out_rest(sn_brick_binding *b, sn_stmt into, sn_ix x, int64_t along);
/* A loop over n turns, `most` of which are written out: all, or as equal parts as can be; and how many turns these are then. */
sn_ix sn_brick_open_turns(sn_brick_binding *b, sn_stmt *into, const char *outer, const char *inner, int64_t n,
                          int64_t most);
int64_t sn_brick_after_turns(int64_t n, int64_t most);
/* e, which tests keep from 0 to n - 1, for those who do not look at tests: the offsets of shared memory (L14). */
sn_ix sn_brick_inside(sn_module *m, sn_ix e, int64_t n);
/* What the loops of a list are at number e, the first one fastest; *out by position. */
void sn_brick_take_apart(sn_brick_binding *b, const uint32_t *at, uint32_t n, sn_ix e, sn_ix *out);
/* Does the thread's element of these loops exist? and-ed with mask (none: true); none: all exist. */
sn_val sn_brick_put_mask(sn_brick_binding *b, sn_stmt into, const sn_ix *at, const uint32_t *loops, uint32_t n,
                         sn_val mask);
/* The loops of a run of the stores, the fastest first, and those that count runs. */
void sn_brick_split_loops(const sn_brick_binding *b, uint32_t *run, uint32_t *n_run, uint32_t *runs, uint32_t *n_runs);
/* The offset of a run of the stores, whose loops are at their first iterations. */
sn_ix sn_brick_start_of_stores(sn_brick_binding *b, const sn_stmt_vec *body, const sn_ix *at);
/* Where element `at` of a brick is in shared memory. */
sn_ix sn_brick_place_of(sn_brick_binding *b, const sn_brick_staged *st, const sn_ix *at);
/* The loops of a brick whose b, axes, threads and v are there, with a body that was taken from its loops; vector: elements with which all runs of the
 * stores begin. between: what is done with a brick in shared memory, inside of b->into, before it is stored; NULL: nothing. */
void sn_brick_bind_body(sn_brick_binding *b, sn_stmt_vec body, uint32_t vector,
                        void (*between)(sn_brick_binding *b, bool masked, void *user), void *user);
/* The body at element `at` of the brick; `in` is the same for those who do not look at tests. The body is used up. */
void sn_brick_put_element(sn_brick_binding *b, sn_stmt into, const sn_stmt_vec *body, const sn_ix *at, const sn_ix *in);

/* ---- brick_words.c ---- */

/* Do runs end inside of a brick? They are stored element by element. */
bool sn_brick_ends_inside(const sn_brick_binding *b);
/* Do vectors that begin all runs go by parts that lie alike, or by rows, too? */
bool sn_brick_has_parts(sn_brick_binding *b, const sn_stmt_vec *body);
/* Stores by words: all of bricks whose runs do not reach beyond their ends; of bricks that have a little of the next one. */
void sn_brick_put_runs(sn_brick_binding *b, const sn_stmt_vec *body, bool masked);
void sn_brick_put_runs_beyond(sn_brick_binding *b, const sn_stmt_vec *body, bool masked);

#endif
