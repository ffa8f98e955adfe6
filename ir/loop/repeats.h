/* repeats.h: kernels that run several times, or not always: what a module says of it until `plan` makes steps of it.
 *
 *     buffer p: f32[512, 8, 64] step         buffer p_t: f32[8, 64] step       buffer h: f32[8, 64] step   ...
 *     repeat steps 512 sections 1 1 {
 *       window p_t from p offset 0 by 512            in step t, p_t is what begins at element 0 + 512 * t of p
 *       carry h from h_next                          after a step, h has what it has left in h_next
 *     }
 *     kernel @k0(..)            section 0: once, before
 *     kernel @k1(p_t, h, t0)    section 1: in each step
 *     kernel @k2(t0, h_next)    section 1
 *     kernel @k3(h, y)          section 2: once, afterwards
 *
 * A kernel knows no number of a step: what it touches of step t is a buffer of its own, and where that lies is for the wrapper
 * to say. So passes look at kernels of a repeat as at any other; they join none with one of another section, and leave alone what
 * is stored to, and loaded from, buffers of scope `step`, which somebody may touch under another name.
 *
 * With `while more`, a step after which the bool in `more` does not hold is the last one. Branches are sections, too:
 *
 *     cond p sections 1 1 else 2 3    kernels of section 1 run where the bool in p holds, those of sections 2 and 3 where not
 *
 * What both store, for those behind them, is of scope step as well. Repeats and branches nest. What is inside of another one
 * stands behind it in the list.
 */
#ifndef SN_IR_LOOP_REPEATS_H
#define SN_IR_LOOP_REPEATS_H

#include "ir/loop/loop.h"

/* The kernels of a repeat or of both branches: positions *first up to *end in m->kernels, alternatives aside. */
void sn_repeat_span(uint32_t *first, uint32_t *end, const sn_module *m, const sn_repeat_rec *r);
/* Of branches: where the second one begins. */
uint32_t sn_repeat_middle(const sn_module *m, const sn_repeat_rec *r);
/* Of step `at` of the wrapper, which is a repeat or an `if`: its end; the number of steps when it has none. And the `else` of
 * an `if`, its end when it has none. */
uint32_t sn_wrap_end(const sn_module *m, uint32_t at);
uint32_t sn_wrap_else(const sn_module *m, uint32_t at);

/* By buffer id: of an output that is written back to an input, and that no step of the wrapper copies there, this input, whose
 * storage it has; none: it has its own. */
sn_buf *sn_wrap_inputs_written(const sn_module *m, sn_arena *a);

struct sn_lex;
void sn_repeat_print(struct sn_text *t, const sn_module *m, const sn_repeat_rec *r);
sn_status sn_repeat_parse(sn_module *m, struct sn_lex *lx); /* current token: `repeat` */
sn_status sn_cond_parse(sn_module *m, struct sn_lex *lx);   /* `cond` */
sn_status sn_repeats_verify(sn_module *m, const char *where);

#endif
