/* module.h: the one container. A module holds symbols, index expressions, at most one graph, buffers, kernels in
 * execution order and at most one wrapper, all in one arena.
 */
#ifndef SN_IR_MODULE_H
#define SN_IR_MODULE_H

#include "ir/base/text.h"
#include "ir/graph.h"
#include "ir/ix.h"
#include "ir/loop.h"
#include "ir/weights.h"
#include "ir/wrap.h"

struct sn_module {
    sn_env *env;
    sn_arena arena;
    sn_table ixs;       /* sn_ix_rec */
    uint32_t *ix_slots; /* hash table of ixs (power of two) */
    uint32_t ix_slot_cap;
    sn_table axes; /* sn_axis_rec */
    sn_table syms; /* sn_sym_rec */
    sn_weight_table weights;
    sn_graph_ir graph;    /* graph.n_nodes == 0: no graph */
    sn_table bufs;        /* sn_buf_rec */
    sn_table kerns;       /* sn_kern_rec */
    sn_table stmts;       /* sn_stmt_rec */
    sn_table vals;        /* sn_val_rec */
    sn_kern_list kernels; /* live kernels, in execution order */
    sn_wrap wrap;         /* wrap.steps.n == 0: no wrapper */
    sn_names buf_names;   /* name -> buffer and name -> kernel: kept by sn_buf_new and sn_kern_new */
    sn_names kern_names;
};

typedef struct sn_axis_rec {
    sn_ix extent;
    const char *name; /* hint; the printer makes names unique */
    uint32_t mark;    /* scratch of one call of ir/loop*.c; means nothing between calls */
} sn_axis_rec;

typedef struct sn_sym_rec {
    const char *name;
} sn_sym_rec;

/* A module of its own, from the heap of the environment. */
sn_module *sn_module_new(sn_env *env);
void sn_module_free(sn_module *m);

sn_axis sn_axis_new(sn_module *m, const char *name, sn_ix extent);
sn_axis_rec *sn_axis_get(const sn_module *m, sn_axis ax);
/* The symbol of that name, made when new. */
sn_sym sn_sym_named(sn_module *m, const char *name);
sn_sym_rec *sn_sym_get(const sn_module *m, sn_sym s);

/* Whole-module text: `graph`, `buffer`, `kernel`, `wrapper` items (docs/IR.md has the grammar). Printing what was
 * parsed gives the same text; parsing what was printed gives an equal module. */
void sn_module_print(struct sn_text *t, const sn_module *m);
sn_status sn_module_parse(sn_module *m, const char *name, const char *text, size_t size);
/* All invariants of all parts. `where` is put in front of the message (a pass name, a file name). */
sn_status sn_module_verify(sn_module *m, const char *where);

#endif
