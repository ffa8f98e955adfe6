/* runner.h: the passes, and how they run. Passes are listed once, in passes.def; pipelines are strings, used alike by the
 * library, the tool and reproducers.
 */
#ifndef SN_PASSES_RUNNER_H
#define SN_PASSES_RUNNER_H

#include "passes/base/pass.h"

typedef enum sn_pass_level {
    SN_LEVEL_GRAPH,
    SN_LEVEL_LOWER,
    SN_LEVEL_LOOPS,
    SN_LEVEL_SCHEDULE,
    SN_LEVEL_WRAPPER
} sn_pass_level;

typedef enum sn_pass_looks { SN_LOOKS_EACH, SN_LOOKS_ALL } sn_pass_looks;

typedef struct sn_pass_info {
    const char *name;
    sn_pass_fn fn;
    sn_pass_level level;
    sn_pass_looks looks;
    const char *doc;
} sn_pass_info;
extern const sn_pass_info sn_passes[]; /* ends with a NULL name */

#define SN_PASS(ID, name, level, looks, doc) sn_status sn_pass_##ID(sn_pass_ctx *cx, bool *changed);
#include "passes/passes.def"
#undef SN_PASS

typedef enum sn_verify_mode {
    SN_VERIFY_OFF,
    SN_VERIFY_ENDS,    /* before the first and after the last pass */
    SN_VERIFY_EACH,    /* after every pass, and `changed` is checked against the text */
    SN_VERIFY_PARANOID /* each, and the module is printed, parsed and the copy goes on */
} sn_verify_mode;

typedef struct sn_pass_options {
    const char *pipeline; /* "simplify,decompose,to-loops"; NULL: the pipeline of the target; "" : none */
    sn_verify_mode verify;
    const char *print_before; /* "a,b" or "all" or NULL */
    const char *print_after;
    bool print_changed; /* print after every pass that changed something */
    const char *stop_after;
    const char *remarks; /* passes whose remarks go to `print`, "all", or NULL */
    bool time_passes;
    sn_choosing choosing;      /* for the pass `choose` */
    const sn_library *library; /* that runs kernels whose header asks for one; NULL: there is none */
    sn_metric_log *metrics;    /* where passes record; NULL: nobody does */
    /* Sees the module behind each pass (pass NULL: in front of the first). NULL: nobody looks. */
    void (*look)(void *user, const char *pass, const sn_module *m);
    void *look_user;
    const char *repro_dir;                       /* on failure the module before the failing pass is written here */
    void (*print)(void *user, const char *text); /* receives all of the above */
    void *print_user;
    sn_status (*write_file)(void *user, const char *path, const char *text); /* for repro_dir */
} sn_pass_options;

/* The part of a pipeline before a pass, in the arena; NULL: the pass is not in it. */
const char *sn_passes_before(sn_arena *arena, const char *pipeline, const char *pass);
/* Its part from that pass on; NULL likewise. */
const char *sn_passes_from(sn_arena *arena, const char *pipeline, const char *pass);
/* Run a pipeline over *m (paranoid mode replaces the module by its copy). */
sn_status sn_passes_run(sn_module **m, const sn_target *target, const sn_pass_options *options);

/* The order, once. */
extern const char sn_pipeline_gpu[];
extern const char sn_pipeline_host[];

#endif
