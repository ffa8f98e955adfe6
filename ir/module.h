/* module.h: a module as a whole: making, copying, printing, parsing and verifying one. What it holds is in
 * ir/base/store.h; with this header come those of all its parts.
 */
#ifndef SN_IR_MODULE_H
#define SN_IR_MODULE_H

#include "ir/base/text.h"
#include "ir/graph/graph.h"
#include "ir/index/ix.h"
#include "ir/loop/loop.h"
#include "ir/loop/equal.h"
#include "ir/graph/weights.h"
#include "ir/wrap/wrap.h"

/* A module of its own, from the heap of the environment. */
sn_module *sn_module_new(sn_env *env);
void sn_module_free(sn_module *m);
/* A module with a copy of one kernel alone, which may be worked on by another thread: `m` is only read, and nothing is
 * allocated but in `env`. The elements of constants are borrowed. */
sn_module *sn_module_of_kernel(sn_env *env, const sn_module *m, sn_kern k);
/* Likewise with several, in that order; the parameters of the copies stand in the order of those of the kernels. */
sn_module *sn_module_of_kernels(sn_env *env, const sn_module *m, const sn_kern *k, uint32_t n);

/* k becomes what the kernel that it was equal to is now, on its own buffers: those that the other one has got since are made anew. */
void sn_kern_take(sn_module *m, sn_kern k, const sn_equal *t);

/* Whole-module text: `graph`, `buffer`, `kernel`, `wrapper` items (docs/IR.md has the grammar). Printing what was
 * parsed gives the same text; parsing what was printed gives an equal module. */
void sn_module_print(struct sn_text *t, const sn_module *m);
sn_status sn_module_parse(sn_module *m, const char *name, const char *text, size_t size);
/* All invariants of all parts. `where` is put in front of the message (a pass name, a file name). */
sn_status sn_module_verify(sn_module *m, const char *where);

#endif
