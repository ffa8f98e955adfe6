/* store.h: what the weights of an imported model point into: mapped files, and memory for elements that no file has as
 * they are. A graph holds it (sn_graph_holder), and the programs made of that graph.
 */
#ifndef SN_FRONTEND_ONNX_STORE_H
#define SN_FRONTEND_ONNX_STORE_H

#include "frontend/frontend.h"
#include "frontend/files/mapping.h"
#include "frontend/onnx/wire.h"

typedef struct sn_store sn_store;

/* Held by g from the start, so that whatever happens closes it. */
sn_store *sn_store_new(sn_graph *g);
sn_arena *sn_store_arena(sn_store *s);
/* The bytes of a file; the same ones when it is asked for again. */
sn_status sn_store_file(sn_bytes *out, sn_store *s, const char *path);

#endif
