/* tile.h: what tile.c finds and tile_bind.c binds. */
#ifndef SN_PASSES_SCHEDULE_MOVES_TILE_H
#define SN_PASSES_SCHEDULE_MOVES_TILE_H

#include "passes/schedule/base/schedule.h"

enum { SN_MAX_STAGED = 8 };

/* Two outer loops under which some accesses are contiguous along one and the others along the other. */
typedef struct sn_schedule_tile {
    uint32_t along, across; /* positions in the chain: direct accesses walk `along`, staged ones `across` */
    sn_stmt staged[SN_MAX_STAGED];
    uint32_t n_staged; /* 0: there is no such pair */
    uint32_t bytes;    /* of one element of every staged access */
    uint32_t direct;   /* of one element of every direct access */
    uint32_t widest;   /* of the largest staged element */
    bool rows_meet;    /* direct accesses: what follows a row along is the next one across */
    bool columns_meet; /* staged accesses: what follows a column across is the next one along */
    uint32_t vector;   /* largest one that divides both extents and leaves those accesses aligned */
    uint32_t lanes;    /* the same for `along` and direct accesses alone, none of which is wider than one instruction */
    /* Squares need not fit: narrow elements, which are loaded from anywhere; the last one along ends the storage. */
    bool ragged;
} sn_schedule_tile;

/* The best pair of loops of a straight-line kernel. */
void sn_schedule_find_tile(sn_schedule_tile *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);

#endif
