/* profile.c: a profile of a run (sn_run_profiled) as a table: `sinter run --profile`, `sinter bench --profile`. */
#include "tools/tool.h"

#include <stdio.h>

static void print_row(const sn_profile *p, const sn_profile_row *row) {
    enum { MADE_OF = 60 };
    char share[16] = "-", gflops[16] = "-";
    if (row->of_bound > 0) snprintf(share, sizeof share, "%.0f %%", 100 * row->of_bound);
    if (row->flops > 0 && row->us > 0) snprintf(gflops, sizeof gflops, "%.4g", row->flops / row->us * 1e-3);
    printf("  %-10s %8u %10.2f %6.1f %% %12.0f %8.4g %8s %10s  %.*s%s\n", row->name, row->launches, row->us,
           p->us > 0 ? 100 * row->us / p->us : 0.0, row->bytes, row->us > 0 ? row->bytes / row->us * 1e-3 : 0.0, share,
           gflops, MADE_OF, row->made_of, row->kernel >= 0 && row->kind[0] == 'l' ? " (library)" : "");
}

void tool_print_profile(const sn_profile *p) {
    printf("profile: %.2f us in %u launches and copies, one after the other; a copy moves %.4g GB a second\n", p->us,
           p->n_events, p->copy_rate * 1e-9);
    printf("  %-10s %8s %10s %8s %12s %8s %8s %10s  %s\n", "kernel", "launches", "us", "of run", "bytes", "GB/s",
           "of copy", "GFLOP/s", "made of");
    for (unsigned i = 0; i < p->n_rows; i++) print_row(p, &p->rows[i]);
}
