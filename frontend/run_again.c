/* run_again.c: a run with tensors like those of the run before needs none of its checks again.
 *
 * What the checks of run.c look at is remembered once they have passed: where the elements are and how they lie. Tensors that are
 * the same in all of it pass again, have the same addresses, and overlap no more than before. Compared is what the tensors say,
 * not which they are: one that was destroyed may have a new one in its place.
 */
#include "frontend/frontend.h"

#include <string.h>

static void remember(sn_bound *b, const sn_tensor *t) {
    *b = (sn_bound){.ctx = t->ctx, .info = t->info, .read_only = t->read_only};
}

static bool is_like(const sn_bound *b, const sn_tensor *t) {
    const sn_tensor_info *was = &b->info, *is = &t->info;
    return was->data == is->data && was->offset == is->offset && was->rank == is->rank && was->dtype == is->dtype &&
           was->device == is->device && b->ctx == t->ctx && b->read_only == t->read_only &&
           !memcmp(was->shape, is->shape, is->rank * sizeof *is->shape) &&
           !memcmp(was->strides, is->strides, is->rank * sizeof *is->strides);
}

/* An output that writes an input needs no tensor, and may have that of the input. */
static bool same_output(const sn_runner *r, uint32_t k, sn_tensor *const *inputs, const sn_tensor *given) {
    int writes = r->p->outputs[k].writes;
    if (writes >= 0) return !given || given == inputs[writes];
    return given && is_like(&r->bound[r->p->n_inputs + k], given);
}

bool sn_runner_is_again(const sn_runner *r, sn_tensor *const *inputs, sn_tensor *const *outputs) {
    const sn_program *p = r->p;
    if (!r->has_bound || (p->n_inputs && !inputs)) return false;
    for (uint32_t k = 0; k < p->n_inputs; k++)
        if (!inputs[k] || !is_like(&r->bound[k], inputs[k])) return false;
    for (uint32_t k = 0; k < p->n_outputs; k++)
        if (!same_output(r, k, inputs, outputs ? outputs[k] : NULL)) return false;
    return true;
}

void sn_runner_remember(sn_runner *r, sn_tensor *const *inputs, sn_tensor *const *outputs) {
    const sn_program *p = r->p;
    for (uint32_t k = 0; k < p->n_inputs; k++) remember(&r->bound[k], inputs[k]);
    for (uint32_t k = 0; k < p->n_outputs; k++)
        if (p->outputs[k].writes < 0) remember(&r->bound[p->n_inputs + k], outputs[k]);
    r->has_bound = true;
}
