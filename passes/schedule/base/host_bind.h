/* host_bind.h: what bindings for the CPU share: vectors and other pieces, of which the last one begins earlier at an end, and
 * tests of what was there before. */
#ifndef SN_PASSES_SCHEDULE_BASE_HOST_BIND_H
#define SN_PASSES_SCHEDULE_BASE_HOST_BIND_H

#include "passes/schedule/base/figures.h"

/* Where piece number x of `piece` elements begins, so that none reaches beyond `all`: as a multiple of what both are
 * multiples of, since that is what vectors are aligned to. */
static inline sn_ix sn_host_start(sn_module *m, sn_ix x, int64_t piece, int64_t all) {
    int64_t unit = sn_schedule_gcd(piece, all - piece);
    sn_ix most = sn_ix_const(m, (all - piece) / unit);
    return sn_ix_scale(m, sn_ix_min(m, sn_ix_scale(m, x, piece / unit), most), unit);
}

/* Loops over `all` elements by vectors of at most `lanes`; the last one begins earlier where it would reach beyond. */
static inline sn_ix sn_host_vectors(sn_module *m, sn_cursor *at, int64_t all, int64_t lanes) {
    while (lanes > all) lanes /= 2;
    sn_ix first = sn_host_start(m, sn_open_loop(m, at, "q", (all + lanes - 1) / lanes, SN_AXIS_SEQ), lanes, all);
    return sn_ix_add(m, first, sn_open_loop(m, at, "v", lanes, SN_AXIS_VECTOR));
}

/* A buffer of a kernel, named after both. */
static inline sn_buf sn_host_local(sn_module *m, sn_kern k, const char *suffix, sn_dtype dtype, sn_buf_scope scope,
                                   int64_t elements) {
    return sn_local_new(m, sn_strf(&m->arena, "%s_%s", sn_kern_get(m, k)->name, suffix), dtype, scope, elements, 1);
}

/* Where e lies in 0 .. bound - 1: no test is written where it does in any case. */
static inline sn_cursor sn_host_if(sn_module *m, sn_kern k, sn_cursor at, sn_ix e, int64_t bound) {
    if (sn_ix_in(m, e, sn_ix_const(m, bound))) return at;
    return sn_at_end(k, sn_put_if(m, at, e, sn_ix_const(m, bound)));
}

#endif
