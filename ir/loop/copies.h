/* copies.h: copies from global to shared memory, and the promises about them that stand on axes: `bulk`, `await` and
 * `pipe` (docs/IR.md). What a copy is, is answered here alone: for the pass that makes the promises, the verifier, the
 * checker and code generation.
 */
#ifndef SN_IR_LOOP_COPIES_H
#define SN_IR_LOOP_COPIES_H

#include "ir/loop/loop.h"

/* A store without a mask to shared memory, of what a load in the same region has read from global memory for it
 * alone; a masked load gives 0 elsewhere. The kernel does not store to that buffer, and the block.x nest around the
 * copy does not load what it stores. */
typedef struct sn_copy {
    sn_stmt store, load;
    sn_stmt threads; /* the block.x nest; none: the copy is a box (ir/loop/box.h) */
    sn_stmt bulk;    /* innermost nest around it that is bulk; none: a load and a store like any other */
    sn_stmt pipe;    /* the pipe around that, if there is one */
} sn_copy;

typedef struct sn_copy_list {
    sn_copy *at;
    uint32_t n, cap;
} sn_copy_list;

/* All copies of the kernel, in its order. */
void sn_kern_copies(sn_copy_list *out, sn_module *m, sn_kern k, sn_arena *arena);

/* How often the buffer exists: a pipe fills it for later iterations. */
uint32_t sn_copy_stages(const sn_module *m, const sn_copy_list *copies, sn_buf b);

/* The loops of a nest, if each is all that has a region in the one around it. */
enum { SN_COPY_LEVELS = 8 };
typedef struct sn_copy_nest {
    sn_stmt at[SN_COPY_LEVELS]; /* outermost first */
    uint32_t n;
} sn_copy_nest;

/* The nest of the block.x loop `threads`, of its cluster where there is one, and the nest behind it, when it has the
 * same loops and nothing but values stands in between. Neither has a barrier, the second one makes no copies of its
 * own. */
bool sn_copy_nests(sn_copy_nest *copy, sn_copy_nest *use, sn_module *m, sn_stmt threads);
/* The loop of the second nest that stands where `bulk` stands in the first one, which it is in; none: there are no two
 * such nests. */
sn_stmt sn_copy_awaits(sn_module *m, sn_stmt bulk);
/* The innermost block.x nest around s, or s itself; none: there is none. */
sn_stmt sn_copy_threads(const sn_module *m, sn_stmt s);

/* Does s, which stands directly in a pipe, hold bulk nests that fill shared memory? Then it runs iterations ahead. A
 * pipe inside has its own. */
bool sn_pipe_fills(const sn_module *m, sn_stmt s);
/* The barrier behind which what the nests of an iteration copy has come: the first one that stands directly in the pipe
 * behind the last of them. None: there is none. */
sn_stmt sn_pipe_barrier(const sn_module *m, sn_stmt pipe);

/* L23 to L25, for a module that keeps the other invariants. */
sn_status sn_copies_verify(sn_module *m, const char *where);

#endif
