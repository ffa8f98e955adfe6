/* wrap.h: Wrapper IR: the flat list of steps that runs a compiled graph. Sizes are in bytes and are ix over symbols.
 *
 * Every buffer of scope TEMP gets a place: `alloc` gives it fresh bytes of the workspace, `reuse` the exact storage of
 * a dead buffer of the same size, of one that dies in the next call (in-place updates), or of an output that is not
 * written yet. `free` ends a life; so does the call after the storage was handed on. After planning each alloc has an
 * offset in one workspace of wrap.workspace bytes. ir/wrap_verify.c lists the invariants.
 */
#ifndef SN_IR_WRAP_H
#define SN_IR_WRAP_H

#include "ir/ids.h"
#include "ir/ix.h"

typedef enum sn_step_kind {
    SN_STEP_CHECK, /* buf: the caller's tensor matches (dtype, rank, shape, strides, alignment) */
    SN_STEP_ALLOC, /* buf: `size` bytes at workspace + offset */
    SN_STEP_REUSE, /* buf takes the storage of `from`, whose life ended */
    SN_STEP_FREE,  /* buf's life ends */
    SN_STEP_CALL,  /* kern: launch with its params */
    SN_STEP_COPY,  /* copy `size` bytes from `from` to `buf` (write-back of a mutated input, output that is an input) */
    SN_STEP_COMMENT, /* text */
    SN_N_STEP_KINDS
} sn_step_kind;
extern const char *const sn_step_names[SN_N_STEP_KINDS]; /* "check" "alloc" "reuse" "free" "call" "copy" "comment" */

typedef struct sn_step {
    sn_step_kind kind;
    sn_buf buf, from;
    sn_kern kern;
    sn_ix size, offset; /* bytes */
    const char *text;
} sn_step;

typedef struct sn_wrap {
    const char *name;
    SN_VEC(sn_step) steps;
    sn_ix workspace; /* bytes */
} sn_wrap;

void sn_wrap_add(sn_module *m, sn_step step);

/* What executors and emitters of wrappers ask (ir/wrap_query.c): a size or offset as a number (none = 0; "<what> of
 * <name> depends on the symbolic size N" when it is none), and a kernel's position in m->kernels (its length:
 * absent). */
sn_status sn_wrap_number(int64_t *out, sn_module *m, sn_ix e, const char *what, const char *name);
uint32_t sn_kern_number(const sn_module *m, sn_kern k);

struct sn_text;
struct sn_lex;
void sn_wrap_print(struct sn_text *t, const sn_module *m);
sn_status sn_wrap_parse(sn_module *m, struct sn_lex *lx); /* current token: `wrapper` */
sn_status sn_wrap_verify(sn_module *m, const char *where);

#endif
