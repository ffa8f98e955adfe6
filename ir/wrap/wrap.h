/* wrap.h: Wrapper IR: the flat list of steps that runs a compiled graph. Sizes are in bytes and are ix over symbols.
 *
 * Every buffer of scope TEMP gets a place: `alloc` gives it fresh bytes of the workspace, `reuse` the exact storage of
 * a dead buffer of the same size, of one that dies in the next call (in-place updates), or of an output that is not
 * written yet. `free` ends a life; so does the call after the storage was handed on. After planning each alloc has an
 * offset in one workspace of wrap.workspace bytes. ir/wrap/verify.c lists the invariants.
 *
 * `repeat` runs the steps up to its `end` several times. Inside, `window` gives a buffer of scope STEP another place in each
 * step, and what is inside of a repeat is placed and freed in each: of what lives longer, nothing is placed or freed there. `carry`
 * gives a state what the step has left for the next one: both change places, which costs nothing, and they have one place
 * where the kernel that makes the new state may write it over the old one (`reuse`).
 *
 * `while` ends the repeat that it stands in, when the one bool that it names does not hold; it stands behind what is to be done
 * first, at the repeat's end. `if` runs the steps up to its `else`, or those from there to its `end`, by such a bool. Who runs
 * steps has to see the bool: of a GPU it waits for what is queued. What is placed in a branch is freed there.
 *
 * The first wrap.n_prepare steps are the prepare part: what depends on constants alone. It runs once, when a program is
 * loaded. Its temps lie in memory of the program, of wrap.prepared bytes; those that are alive at its end are there for
 * all runs, which only read them.
 */
#ifndef SN_IR_WRAP_WRAP_H
#define SN_IR_WRAP_WRAP_H

#include "ir/index/ix.h"

extern const char *const
    sn_step_names[SN_N_STEP_KINDS]; /* "check" "alloc" "reuse" "free" "call" "copy" "comment" "repeat" "window" ... */

void sn_wrap_add(sn_module *m, sn_step step);

/* What executors and emitters of wrappers ask (ir/wrap/query.c): a size or offset as a number (none = 0; "<what> of
 * <name> depends on the symbolic size N" when it is none), and, by kernel id, a kernel's position in m->kernels (its
 * length: absent). */
sn_status sn_wrap_number(int64_t *out, sn_module *m, sn_ix e, const char *what, const char *name);
uint32_t *sn_kern_numbers(const sn_module *m, sn_arena *arena);
/* How often steps from number `first` on call kernel k (none: any), those of repeats as often as they run, if none ends
 * early, and those of both branches: what a run calls at most. */
int64_t sn_wrap_calls(const sn_module *m, uint32_t first, sn_kern k);

struct sn_text;
struct sn_lex;

/* ir/wrap/memory.c: what runs have in the workspace, in bytes. Fails where a size is a symbol. */
typedef struct sn_wrap_memory {
    int64_t workspace, prepared;
    int64_t sum;      /* of all intermediates that lie in the workspace */
    uint32_t buffers; /* how many they are */
    int64_t in_use;   /* at once, at most: no workspace of these steps can be smaller */
    sn_kern at;       /* in a call of this kernel; none: nothing is ever in use */
} sn_wrap_memory;
sn_status sn_wrap_count_memory(sn_wrap_memory *out, sn_module *m, sn_arena *scratch);
/* The same as text, with a line for each call. */
sn_status sn_wrap_print_memory(struct sn_text *t, sn_module *m, sn_arena *scratch);

void sn_wrap_print(struct sn_text *t, const sn_module *m);
sn_status sn_wrap_parse(sn_module *m, struct sn_lex *lx); /* current token: `wrapper` */
sn_status sn_wrap_verify(sn_module *m, const char *where);

#endif
