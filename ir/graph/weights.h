/* weights.h: the weights of a module: elements that stay outside of it, known by name.
 *
 *     weights "model.safetensors"                                          where a module's text may say that they are
 *     %w = weight name="conv1.weight" dtype=f32 shape=[64, 3, 7, 7]        in the graph, by ir/graph/graph.h
 *     buffer c0: f32[64, 3, 7, 7] const weight "conv1.weight"              in loops, by ir/loop/loop.h
 *
 * Graph and buffers say a name; its type, and where the elements are, stand here once. The elements are borrowed:
 * whoever attaches them keeps them alive, unchanged, until the module and all its copies are gone. Until then data is
 * NULL, which only those mind who read elements: the evaluators and the runtime.
 */
#ifndef SN_IR_GRAPH_WEIGHTS_H
#define SN_IR_GRAPH_WEIGHTS_H

#include "ir/graph/graph.h"

typedef struct sn_weight_rec {
    const char *name;
    sn_dtype dtype;
    uint32_t rank;
    int64_t shape[SN_MAX_RANK];
    size_t size;      /* bytes */
    const void *data; /* row-major, in storage format; NULL while not attached */
} sn_weight_rec;

void sn_wt_init(sn_module *m);
sn_weight_rec *sn_wt_get(const sn_module *m, sn_wt w);
/* none when there is none */
sn_wt sn_wt_named(const sn_module *m, const char *name);
/* The weight of that name and type, made when new. Fails when sizes are symbols or an older one has another type. */
sn_status sn_wt_declare(sn_wt *out, sn_module *m, const char *name, const sn_type *type);
/* "f32[64, 3]" in the module's arena. */
const char *sn_wt_type_text(sn_module *m, const sn_weight_rec *w);
/* One without elements needs none. */
static inline bool sn_wt_attached(const sn_weight_rec *w) { return w->data || !w->size; }
/* `weights "model.safetensors"` of a module's text. */
struct sn_lex;
sn_status sn_wt_parse(sn_module *m, struct sn_lex *lx);
/* Weights of `to` take their elements where those of the same names in `from` have them. */
void sn_wt_share(sn_module *to, const sn_module *from);

#endif
