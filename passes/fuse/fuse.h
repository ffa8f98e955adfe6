/* fuse.h: what the files of the pass `fuse` share: matching two kernels, and merging a matched pair. */
#ifndef SN_PASSES_FUSE_FUSE_H
#define SN_PASSES_FUSE_FUSE_H

#include "passes/base/nest.h"

/* How kernel b can be merged into kernel a (which runs first): loops by position in their outer chains. */
typedef struct sn_fuse_match {
    sn_chain a, b;                  /* outer chains */
    uint32_t shared;                /* loops that both keep as common outer loops */
    uint32_t a_order[SN_MAX_CHAIN]; /* new order of the chain of a: common loops first */
    uint32_t b_order[SN_MAX_CHAIN]; /* likewise for b; position k < shared matches position k of a */
    int64_t bytes;                  /* memory traffic that the merge saves ... */
    int64_t passed;                 /* ... and of this, what b reads of what a stores */
    bool vertical;                  /* b reads what a stores */
    bool waits;                     /* ... of reductions and scans that could be cut into parts only apart */
    sn_precision precision;         /* of the products of both */
    const char *why_not;            /* reason when there is no match */
} sn_fuse_match;

/* All pairs of kernels that are better one, as the pass does. */
sn_status sn_fuse_all(sn_pass_ctx *cx, bool *changed);
/* Is there a legal match? On false, why_not says what stands against it. The kernels are not changed. */
bool sn_fuse_find(sn_fuse_match *out, sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_access_list *in_a,
                  const sn_access_list *in_b);
/* Merge b into a; b is left empty and has to be removed by the caller. */
void sn_fuse_merge(sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_fuse_match *match);
/* Loads that follow a store to the same element take the stored value. */
bool sn_fuse_forward(sn_pass_ctx *cx, sn_kern k);
/* Merge two nests of one region, `one` before `two`, level by level, when nothing has to cross over. */
bool sn_fuse_join(sn_pass_ctx *cx, sn_kern k, sn_stmt one, sn_stmt two);
/* Steps of the one reduction in the outer loops of a kernel; 0: it has none; -1: there is more in them, or a size is no number. */
int64_t sn_fuse_steps(const sn_module *m, sn_kern k);
/* Does a reduction of it walk windows that overlap? */
bool sn_fuse_has_windows(sn_module *m, sn_kern k);
/* Do two such kernels walk windows of the same buffers? */
bool sn_fuse_same_windows(sn_module *m, sn_kern a, sn_kern b);
/* The cycles of a matrix product, as class contract counts them; 0: the kernel is none, or not for that class. */
sn_status sn_fuse_count_product(double *cycles, sn_pass_ctx *cx, sn_kern k);
/* What two kernels become, which match, as a kernel of no list, with that header. gone: temporaries that nobody else loads. None:
 * their copies do not match. */
sn_kern sn_fuse_try(sn_pass_ctx *cx, sn_kern a, sn_kern b, const sn_sched *header, const sn_buf *gone, uint32_t n);
/* Loads of copies that kernels in front of this one have made are those of what they are copies of (read_through.c). */
bool sn_fuse_read_through(sn_pass_ctx *cx, sn_kern k);
/* In all kernels: forward stores; drop temporaries that nobody loads any more, and what is computed twice. */
void sn_fuse_forward_all(sn_pass_ctx *cx);
void sn_fuse_drop_dead(sn_pass_ctx *cx);

#endif
