/* attend_terms.h: attention of f32 by terms of bfloat16: what attend_terms.c, which chooses, and attend_terms_bind.c,
 * which binds, know of it.
 */
#ifndef SN_PASSES_SCHEDULE_ATTENTION_ATTEND_TERMS_H
#define SN_PASSES_SCHEDULE_ATTENTION_ATTEND_TERMS_H

#include "passes/schedule/attention/attend_bind.h"

/* Of scores: sums that tensor cores add up, one for each run of channels. */
enum { SN_ATTEND_RUNS = 2 };
/* Neighbours that a thread takes apart together: an access of 16 bytes, and lines that meet in no bank. */
enum { SN_ATTEND_VECTOR = 4 };

/* Is the kernel attention of f32 that terms do on this target? */
bool sn_attend_terms_find(sn_attend *out, const char **why_not, sn_pass_ctx *cx, sn_kern k);
/* Terms of an operand, as the precision of the kernel wants. */
uint32_t sn_attend_terms_number(const sn_attend *a);
/* Channels of a run: whole lines of terms, if there are several. */
int64_t sn_attend_terms_run(const sn_attend *a);
/* Has every warp the terms of its own queries in registers, rather than shared memory? Where several blocks share a
 * multiprocessor, which is bound by that memory. */
static inline bool sn_attend_terms_keeps_q(const sn_sched *sc) { return sc->min_blocks > 1; }
/* Bytes of shared memory of a block of that header, without results. */
int64_t sn_attend_terms_room(const sn_attend *a, const sn_sched *sc);
/* ... and what there is for one. */
int64_t sn_attend_terms_shared(const sn_attend *a, const sn_sched *sc);
/* Vectors that a thread takes apart of so many lines of channels. */
int64_t sn_attend_terms_each(const sn_sched *sc, int64_t lines, int64_t channels);
/* Can boxes bring keys and v, by tiles of that header (attend_terms_bind.c)? */
bool sn_attend_terms_fits(const char **why_not, const sn_attend *a, const sn_sched *sc);

#endif
