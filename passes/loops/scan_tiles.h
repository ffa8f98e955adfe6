/* scan_tiles.h: a scan that is done tile by tile, for the files that make its kernel: its shape (scan_tiles.c), its block and
 * its copies (scan_tiles_copy.c), its sums (scan_tiles_sums.c), and all of these where warps scan a row (scan_warps.c).
 */
#ifndef SN_PASSES_LOOPS_SCAN_TILES_H
#define SN_PASSES_LOOPS_SCAN_TILES_H

#include "passes/base/rebuild.h"
#include "passes/loops/split_scan.h"
#include "passes/schedule/base/constants.h"
#include "passes/schedule/base/figures.h"

enum { SN_TILE_LOADS = 4 };

typedef struct sn_tiles {
    sn_scan_cut *c;
    sn_module *m;
    sn_kern k;
    sn_ix dense;                  /* where the scan loads and stores, over its loops */
    uint32_t n_front;             /* outer loops in front of the scan's axis in memory */
    int64_t outer, length, inner; /* so many rows of steps of neighbours */
    uint32_t bytes, least;        /* of all that is staged for an element; of the smallest one */
    bool skewed;                  /* lines begin anywhere: each is copied with the rest of its first and last vector */
    bool moved;  /* a tile of whole rows begins anywhere: it is copied with the vector that it begins in */
    bool across; /* lanes have neighbouring rows, not neighbouring pieces of one */
    bool reverse, whole, flat;        /* steps go down in memory; rows are not cut; a tile is one piece of memory */
    int64_t batch, rows, width, side; /* of a tile: rows, steps of each, neighbours of each; tiles side by side */
    int64_t over;          /* of these neighbours, how many are the next tile's: as many as a sector has; 0: none */
    bool warps;            /* a part of a single row, which warps scan (scan_warps.c) */
    int64_t pieces, steps; /* of a column; of a piece */
    int64_t turns;         /* of a thread, each with a piece */
    int64_t threads, active, vector; /* of a block; that have a piece; elements that are copied at once */
    int64_t pitch, pad;              /* elements of a row in shared memory; in front of the first one */
    int64_t parts, group;            /* of a row; of a group of them */
    int64_t stages;     /* the block walks all parts, so many are copied or used at a time; 0: it has one part */
    int64_t resident;   /* blocks of a multiprocessor then */
    int64_t shared;     /* bytes */
    sn_stmt grid, into; /* the loop over blocks; where in it loops over threads go */
    bool inside;        /* all steps and columns of the tile are there */
    bool ends;          /* the tile may have what is behind the last whole vector of all, which has not been copied */
    sn_ix thread;       /* the axis of the loop over threads that was opened last: where registers are */
    sn_ix part, row, column;           /* of the block: number of its part, of its (first) row, its first column */
    sn_ix tile_row;                    /* first step of the tile in memory */
    sn_buf staged[SN_TILE_LOADS], out; /* shared: of each load; of the store */
    sn_buf from[SN_TILE_LOADS], to;
    uint32_t n_loads;
    sn_buf own[SN_CUT_ACCUMS], sums[SN_CUT_ACCUMS];   /* shared: of pieces, of groups of pieces */
    sn_buf before[SN_CUT_ACCUMS], all[SN_CUT_ACCUMS]; /* registers: of pieces before in the part; of the part */
    sn_buf earlier[SN_CUT_ACCUMS];                    /* ... of the parts before */
    sn_buf carried[SN_CUT_ACCUMS];                    /* ... of the parts that the block has walked */
} sn_tiles;

static inline sn_ix sn_tile_const(const sn_tiles *t, int64_t x) { return sn_ix_const(t->m, x); }
static inline sn_ix sn_tile_plus(const sn_tiles *t, sn_ix a, sn_ix b) { return sn_ix_add(t->m, a, b); }
static inline sn_ix sn_tile_times(const sn_tiles *t, sn_ix a, int64_t x) { return sn_ix_scale(t->m, a, x); }

static inline sn_buf sn_tile_buffer(sn_tiles *t, const char *letter, uint32_t number, sn_dtype dtype,
                                    sn_buf_scope scope, int64_t n) {
    sn_module *m = t->m;
    sn_ix size = sn_tile_const(t, n);
    const char *name = sn_strf(&m->arena, "%s_%s%u", sn_kern_get(m, t->k)->name, letter, number);
    sn_buf b = sn_buf_new(m, name, dtype, scope, &size, 1);
    if (scope == SN_BUF_SHARED) sn_buf_get(m, b)->private_size = (uint32_t)n;
    if (scope == SN_BUF_SHARED) t->shared += n * sn_dtype_bytes(dtype);
    return b;
}

static inline sn_buf sn_tile_reg(sn_tiles *t, const char *letter, uint32_t number, sn_dtype dtype) {
    sn_buf b = sn_tile_buffer(t, letter, number, dtype, SN_BUF_REG, t->threads);
    sn_buf_get(t->m, b)->private_size = 1;
    return b;
}

static inline sn_comb sn_tile_comb(const sn_tiles *t, uint32_t i) {
    return sn_stmt_get(t->m, t->c->accums[i])->combs[0];
}
static inline sn_dtype sn_tile_dtype(const sn_tiles *t, uint32_t i) {
    return sn_stmt_get(t->m, t->c->accums[i])->dtype;
}

static inline sn_val sn_tile_combine(const sn_tiles *t, sn_cursor at, uint32_t i, sn_val a, sn_val b) {
    return sn_put_op2(t->m, at, sn_comb_lops[sn_tile_comb(t, i)], a, b);
}

static inline sn_val sn_tile_both(const sn_tiles *t, sn_cursor at, sn_val a, sn_val b) {
    return a.i && b.i ? sn_put_op2(t->m, at, SN_LOP_AND, a, b) : a.i ? a : b;
}

static inline sn_val sn_tile_identity(const sn_tiles *t, sn_cursor at, uint32_t i) {
    return sn_put_identity(t->m, at, sn_tile_comb(t, i), 0, sn_tile_dtype(t, i));
}

/* A loop at the end of the block, over its threads: *x is the number of the thread. Those without a piece do nothing
 * in it if only the `active` come along. */
static inline sn_cursor sn_tile_threads_in(sn_tiles *t, sn_stmt loop, int64_t active, sn_ix *x) {
    sn_module *m = t->m;
    sn_cursor in = sn_at_end(t->k, loop);
    *x = t->thread = sn_ix_axis(m, sn_stmt_axis(m, loop));
    if (active >= t->threads) return in;
    in = sn_at_end(t->k, sn_put_if(m, in, *x, sn_tile_const(t, active)));
    *x = sn_ix_min(m, *x, sn_tile_const(t, active - 1));
    return in;
}

static inline sn_cursor sn_tile_threads(sn_tiles *t, int64_t active, sn_ix *x) {
    sn_axis ax = sn_axis_new(t->m, "x", sn_tile_const(t, t->threads));
    return sn_tile_threads_in(t, sn_put_loop(t->m, sn_at_end(t->k, t->into), ax, SN_AXIS_BLOCK_X), active, x);
}

static inline sn_cursor sn_tile_loop(sn_tiles *t, sn_cursor at, const char *name, int64_t n, sn_axis_kind kind,
                                     sn_ix *e) {
    sn_axis ax = sn_axis_new(t->m, name, sn_tile_const(t, n));
    *e = sn_ix_axis(t->m, ax);
    return sn_at_end(t->k, sn_put_loop(t->m, at, ax, kind));
}

/* Do results stay in shared memory until all of a tile are there? Those of lines are stored as they are made, but for halves of whole columns:
 * most of the sectors of memory that a warp of them has would be parts of one. */
static inline bool sn_tile_stays(const sn_tiles *t) {
    return t->flat || (t->skewed && t->parts == 1 && t->least < SN_BANK);
}

/* Neighbours from tile to tile. */
static inline int64_t sn_tile_apart(const sn_tiles *t) { return t->width - t->over; }

/* Elements behind the last whole vector of all. */
static inline int64_t sn_tile_rest(const sn_tiles *t) { return t->outer * t->length * t->inner % t->vector; }

/* The column of thread x, the number of its piece of it, and, in a turn, of its row. */
static inline sn_ix sn_tile_column(const sn_tiles *t, sn_ix x) { return sn_ix_modc(t->m, x, t->width); }
static inline sn_ix sn_tile_piece(const sn_tiles *t, sn_ix x) {
    if (t->across) return sn_ix_divc(t->m, x, t->width * t->batch);
    return sn_ix_modc(t->m, sn_ix_divc(t->m, x, t->width), t->pieces);
}
static inline sn_ix sn_tile_batch(const sn_tiles *t, sn_ix x) {
    if (t->across) return sn_ix_modc(t->m, sn_ix_divc(t->m, x, t->width), t->batch);
    return sn_ix_divc(t->m, x, t->width * t->pieces);
}
/* Where what its piece comes to is among those of all: pieces of a row stand together. */
static inline sn_ix sn_tile_own(const sn_tiles *t, sn_ix x) {
    if (!t->across) return x;
    sn_ix piece = sn_tile_plus(t, sn_tile_times(t, sn_tile_batch(t, x), t->pieces), sn_tile_piece(t, x));
    return sn_tile_plus(t, sn_tile_times(t, piece, t->width), sn_tile_column(t, x));
}

/* ---- scan_tiles_copy.c ---- */

/* Elements of shared memory that a tile takes for each buffer. */
int64_t sn_tile_staged(const sn_tiles *t);
/* The kernel becomes a loop over blocks, with what stands around the scan. */
void sn_tile_grid(sn_tiles *t);
/* The tile of each load of the scan comes to shared memory; its results leave that. */
void sn_tile_copy_in(sn_tiles *t);
/* Where a long row has many tiles: what the block half as many on loads as run at a time goes to the cache. */
void sn_tile_fetch_ahead(sn_tiles *t, int64_t blocks);
void sn_tile_copy_out(sn_tiles *t);
/* Elements between the start of a vector and that of the tile, where tiles begin anywhere. */
sn_ix sn_tile_lead(const sn_tiles *t);
/* Which elements of a line a tile stores where it has some of the next tile's: from *first up to *end, counted from its own first one. `number`: of the line, among all. */
void sn_tile_sectors(const sn_tiles *t, sn_ix number, sn_ix *first, sn_ix *end);
/* The element that line number `line` of a tile that is no single piece of memory begins with. */
sn_ix sn_tile_line_start(const sn_tiles *t, sn_ix line);

/* ---- scan_warps.c ---- */

/* Can warps scan the parts, of which all threads have pieces? Then those are whole vectors. */
bool sn_tile_by_warps(sn_tiles *t);
void sn_tile_scan_by_warps(sn_tiles *t);

/* ---- scan_tiles_sums.c ---- */

/* What stands before each piece: in its tile, and in the parts before. */
void sn_tile_sum(sn_tiles *t);
/* The scan itself. */
void sn_tile_scan(sn_tiles *t);
/* Nothing stands before the first part that the block walks. */
void sn_tile_carry(sn_tiles *t);

#endif
