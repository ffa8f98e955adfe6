/* repeat.c: does a program give the same bits each time? For `sinter bench --check-repeat` and `sinter conform --again`.
 *
 * Before each run the outputs hold other junk, so that an element that no run stores is found too, and inputs that runs
 * write have their first values again.
 */
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

typedef struct repeated {
    sn_program *p;
    sn_tensor **inputs, **outputs;
    const tool_inputs *in;
} repeated;

/* An output that is written to an input is found there. */
static sn_tensor *result(const repeated *r, unsigned k) {
    int writes = r->p->outputs[k].writes;
    return writes < 0 ? r->outputs[k] : r->inputs[writes];
}

static size_t element_bytes(const sn_tensor *t) { return (size_t)t->info.numel * sn_dtype_bytes(t->info.dtype); }

static sn_status reset(const repeated *r, unsigned round) {
    for (unsigned k = 0; k < r->p->n_outputs; k++) {
        sn_tensor *t = result(r, k);
        int writes = r->p->outputs[k].writes;
        unsigned char junk = (unsigned char)(0x55 + round);
        if (writes >= 0) SN_TRY(tool_fill(t, r->in, r->p->inputs[writes].name, r->p->source, (unsigned)writes));
        else if (r->p->device == SN_CPU) memset(t->info.data, junk, t->bytes);
        else SN_TRY(sn_cuda_fill(t->ctx->cuda[r->p->device], t->info.data, junk, t->bytes, NULL));
    }
    return SN_OK;
}

/* first: the elements of every output of round 0, one behind the other. */
static sn_status compare_round(bool *same, char *first, unsigned round, const repeated *r) {
    for (unsigned k = 0; k < r->p->n_outputs; k++) {
        sn_tensor *t = result(r, k);
        size_t size = element_bytes(t);
        char *now = round ? malloc(size + 1) : first;
        if (!now) return SN_ERROR_MEMORY;
        sn_status status = sn_tensor_read(now, t, size);
        same[k] &= status != SN_OK || !round || memcmp(now, first, size) == 0;
        if (round) free(now);
        if (status != SN_OK) return status;
        first += size;
    }
    return SN_OK;
}

sn_status tool_repeat(bool *same, unsigned n, sn_program *p, sn_tensor **inputs, sn_tensor **outputs,
                      const tool_inputs *in) {
    const repeated r = {p, inputs, outputs, in};
    size_t size = 1;
    for (unsigned k = 0; k < p->n_outputs; k++) {
        size += element_bytes(result(&r, k));
        same[k] = true;
    }
    char *first = malloc(size);
    sn_status status = first ? SN_OK : SN_ERROR_MEMORY;
    for (unsigned round = 0; round <= n && status == SN_OK; round++) {
        status = reset(&r, round);
        if (status == SN_OK) status = sn_run(p, inputs, outputs, NULL);
        if (status == SN_OK) status = compare_round(same, first, round, &r);
    }
    free(first);
    return status;
}
