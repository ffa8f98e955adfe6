/* rows.h: what the classes that walk rows share: how a row is read in parts, bound, kept on chip, and joined among blocks of a
 * team. */
#ifndef SN_PASSES_SCHEDULE_ROWS_ROWS_H
#define SN_PASSES_SCHEDULE_ROWS_ROWS_H

#include "passes/schedule/base/teams.h"

/* The copies of the bound row whose number is `row`, in the loop over turns of a team, run one turn ahead (rows_ahead.c). */
void sn_schedule_rows_ahead(sn_pass_ctx *cx, sn_kern k, sn_stmt turns, sn_ix row, int64_t rows, const sn_sched *sched);
sn_row_parts sn_schedule_row_parts(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sched);
/* Can a row be read by such parts (row_part.c)? */
bool sn_schedule_has_parts(const sn_module *m, const sn_schedule_shape *sh);
/* A bound nest does the steps that stay in a loop of their own. */
void sn_schedule_part_row(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, uint32_t nest, const sn_row_parts *parts,
                          const sn_sched *sched);
/* What one of the parts of a reduction comes to. */
enum { SN_JOINED_STATES = 8 };
typedef struct sn_joined_part {
    sn_val state[SN_JOINED_STATES];
    uint32_t n;
} sn_joined_part;
/* A reduction of n parts, put together in the order of their numbers. */
sn_stmt sn_schedule_put_joined(sn_module *m, sn_kern k, sn_cursor at, const sn_comb *combs, uint32_t n_combs,
                               const sn_joined_part *part, uint32_t n);
/* Teams of blocks that share a row, of which the first two nests are a sum and squares, exchange both at once (meet_once.c): behind the first, bound
 * nest, how many elements a block has ... */
sn_val sn_schedule_count_elements(sn_pass_ctx *cx, const sn_schedule_nest *nest, const sn_sched *sched);
/* ... and, where all accesses are what they will be, the two nests become one reduction. */
void sn_schedule_meet_once(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_val elements);
/* Does the second nest take from between the two of them nothing but what its squares are about, and constants? */
bool sn_schedule_stands_alone(const sn_module *m, const sn_schedule_shape *sh);
/* ... or, of rows that stay in part, one that reads each step once. */
void sn_schedule_read_once(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
/* Exponentials of f64 stay in shared memory in place of the elements of a softmax (keep_powers.c). */
void sn_schedule_keep_powers(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_sched *sched);
/* What of the rows is in registers is staged there. The nests of sh are the bound ones, in `body`. */
void sn_schedule_hold_parts(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_stmt body,
                            const sn_sched *sched);
/* Class inner (rows.c): choose what is open in *sched. Fails where something pinned is impossible. */
sn_status sn_schedule_complete_row(sn_sched *sched, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);

/* Bytes of an element that nests of a row or column read after another nest has read or written them, and of the largest of
 * these (rows.c). */
uint32_t sn_schedule_kept(uint32_t *widest, const sn_module *m, const sn_schedule_shape *sh);

/* Are rows two, four or (if something is stored along them) eight vectors of elements of one size, of which a thread has one each? */
bool sn_schedule_few_vectors(const sn_pass_ctx *cx, const sn_schedule_shape *sh);

/* ---- binding ---- */

/* Rows that do not start at multiples of `vector`: by how many elements they start after one, an ix over the outer axes
 * that all nests agree on. None: they do not agree, or it does not pay. */
sn_ix sn_schedule_row_lead(sn_module *m, const sn_schedule_shape *sh, uint32_t vector);
/* Do rows that are whole vectors long start elsewhere, each at a place of its own? */
bool sn_schedule_rows_late(sn_module *m, const sn_schedule_shape *sh, uint32_t vector);
/* May vectors start with the rows of all nests and end behind them, with a test (the CPU)? */
bool sn_schedule_row_is_open(const sn_pass_ctx *cx, const sn_schedule_shape *sh);
/* Replace a nest by  block.x { [seq] { unroll { vector { body } } } }; returns the new one. */
sn_stmt sn_schedule_bind_row_nest(sn_pass_ctx *cx, sn_kern k, const sn_schedule_nest *nest, const sn_sched *sc);

/* Values that several nests of a row (or column) load, or one stores and a later one loads, stay in registers, up to `budget`
 * bytes a thread, or (sched->shared) in shared memory, up to `budget` bytes a block. The nests of sh are the bound ones,
 * in `body`: of columns, the loop over threads or lanes that own them. Returns the bytes that a thread (block) keeps. */
uint32_t sn_schedule_stage(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_stmt body, const sn_sched *sched,
                           uint32_t budget);

#endif
