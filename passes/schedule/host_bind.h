/* host_bind.h: what bindings for the CPU share: loops, and pieces that begin earlier at an end. */
#ifndef SN_PASSES_SCHEDULE_HOST_BIND_H
#define SN_PASSES_SCHEDULE_HOST_BIND_H

#include "passes/schedule/figures.h"

/* A loop at *at, which moves inside; none when there is one iteration. Returns its axis. */
static inline sn_ix sn_host_loop(sn_module *m, sn_kern k, sn_cursor *at, const char *name, int64_t extent,
                                 sn_axis_kind kind) {
    if (extent == 1 && kind != SN_AXIS_GRID) return sn_ix_const(m, 0);
    sn_axis ax = sn_axis_new(m, name, sn_ix_const(m, extent));
    *at = sn_at_end(k, sn_put_loop(m, *at, ax, kind));
    return sn_ix_axis(m, ax);
}

/* Where piece number x of `piece` elements begins, so that none reaches beyond `all`: as a multiple of what both are
 * multiples of, since that is what vectors are aligned to. */
static inline sn_ix sn_host_start(sn_module *m, sn_ix x, int64_t piece, int64_t all) {
    int64_t unit = sn_schedule_gcd(piece, all - piece);
    sn_ix most = sn_ix_const(m, (all - piece) / unit);
    return sn_ix_scale(m, sn_ix_min(m, sn_ix_scale(m, x, piece / unit), most), unit);
}

#endif
