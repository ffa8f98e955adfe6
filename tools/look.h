/* look.h: a program that is looked at: what `sinter explain` and `sinter report` know of it, read off the rows that its compilation
 * recorded (metrics/tables.def).
 */
#ifndef SN_TOOLS_LOOK_H
#define SN_TOOLS_LOOK_H

#include <jansson.h>

#include "tools/tool.h"

/* A kernel of a run; numbers that nobody knows are nan. */
typedef struct look_kernel {
    const sn_row_kernel_metadata *row;
    const sn_row_estimates *estimate; /* of its longest part; NULL: the model says nothing */
    unsigned calls;                   /* of a run; 0: it runs when the program is loaded */
    double estimate_us, measured_us;  /* of all calls of a run */
    double least_us;                  /* that its bytes take at the rate of a copy */
    double us;                        /* measured where it was, else estimated, else least */
    const char *advice;
} look_kernel;

/* How a module looked behind each pass (report). */
typedef struct look_text {
    const char *text;
    uint32_t n; /* its length */
} look_text;

typedef struct look {
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    const char *title;
    sn_arena arena;
    sn_metric_log log;
    look_kernel *kernels; /* of runs from the longest on, then those of loading */
    uint32_t n_kernels;
    double total_us, rate; /* of a run; bytes a second that a copy moves, 0: not known */
    const char *rate_is;   /* "measured", "of the table of targets" */
    sn_profile *profile;   /* of a run on random inputs; NULL: it cannot run here */
    void (*pass)(void *user, const char *pass, const sn_module *m); /* in: sees the module behind each pass; NULL */
    void *pass_user;
} look;

/* Compile a graph for its target, or for a device where `options` names one; then kernels are timed in runs on random inputs, too. The
 * caller has set pass. SN_OK or a failure in ctx. */
sn_status look_at(look *out, sn_context *ctx, sn_graph *g, const sn_compile_options *options, const char *title);
void look_close(look *l);

/* The refused fusions by what they would save, equal ones once: *times says how often. */
typedef struct look_refusal {
    const sn_row_fusion_failures *row;
    unsigned times;
    int64_t saves; /* bytes, of all of them */
} look_refusal;
uint32_t look_refusals(look_refusal **out, look *l);

/* The schedule that was chosen for a kernel and the best other one; false: no other was considered. */
typedef struct look_margin {
    const sn_row_candidates *chosen, *other;
    unsigned considered;
} look_margin;
bool look_margin_of(look_margin *out, const look *l, const char *kernel);

/* A row as an object of JSON: what is not known is null. */
json_t *look_row_json(sn_metric table, const void *row);
json_t *look_real(double x); /* null where it is no number */

#endif
