/* tool.h: what the subcommands of `sinter` share. The tool is linked with the whole library and reads its internal
 * headers where the public interface does not reach: passes on module text, tables, random inputs.
 *
 * Exit codes: 0 fine, 1 something failed (the reason is on standard error), 2 the command line makes no sense.
 */
#ifndef SN_TOOLS_TOOL_H
#define SN_TOOLS_TOOL_H

#include <getopt.h>
#include <stdio.h>

#include "cache/files.h"
#include "frontend/frontend.h"

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2, TOOL_MAX_LIST = 64 };

typedef struct tool_command {
    const char *name;
    int (*run)(sn_context *ctx, int argc, char **argv); /* argv[0] is "sinter NAME" */
    const char *usage, *doc;
} tool_command;

int tool_opt(sn_context *ctx, int argc, char **argv);
int tool_run(sn_context *ctx, int argc, char **argv);
int tool_emit(sn_context *ctx, int argc, char **argv);
int tool_eval(sn_context *ctx, int argc, char **argv);
int tool_list(sn_context *ctx, int argc, char **argv);
int tool_conform(sn_context *ctx, int argc, char **argv);
int tool_import(sn_context *ctx, int argc, char **argv);
int tool_onnx_suite(sn_context *ctx, int argc, char **argv);
int tool_random(sn_context *ctx, int argc, char **argv);
int tool_cache(sn_context *ctx, int argc, char **argv);
int tool_bench(sn_context *ctx, int argc, char **argv);
int tool_explain(sn_context *ctx, int argc, char **argv);
int tool_report(sn_context *ctx, int argc, char **argv);
int tool_metrics(sn_context *ctx, int argc, char **argv);
int tool_tune(sn_context *ctx, int argc, char **argv);
int tool_compile(sn_context *ctx, int argc, char **argv);
int tool_image(sn_context *ctx, int argc, char **argv);

/* "sinter: error: ..." with the context's message, or one of our own. */
int tool_fail(const sn_context *ctx);
int tool_misuse(const char *format, ...) SN_PRINTF(1, 2);
int tool_print(sn_context *ctx, char *text); /* to standard output; gives the text back */
/* Close a file that was written: TOOL_FAILED, with its path on standard error, unless all of it has arrived. */
int tool_close(FILE *file, const char *path);
/* A file of these parts, there whole or not at all; the same message. */
int tool_write(const char *path, const sn_file_part *parts, uint32_t n);

/* Options that several subcommands have. */
typedef struct tool_dims {
    sn_dim_binding at[TOOL_MAX_LIST];
    unsigned n;
    char replace[4096]; /* "k0=FILE,k3=FILE", of --replace-kernel */
} tool_dims;
bool tool_add_dim(tool_dims *dims, char *text); /* "N=8" */
bool tool_unsigned(unsigned *out, const char *text);
bool tool_u64(uint64_t *out, const char *text);

/* ---- options of compiling (compile_options.c) ----
 * A table for getopt_long has the ones that the subcommand takes; what comes back goes to tool_compile_option. */
enum {
    TOOL_OPTION_FIRST = 256, /* behind letters */
    TOOL_OPTION_DEVICE,
    TOOL_OPTION_ORDINAL,
    TOOL_OPTION_DIM,
    TOOL_OPTION_THREADS,
    TOOL_OPTION_CPU_SCHEDULE,
    TOOL_OPTION_PRECISION,
    TOOL_OPTION_CHOICES,
    TOOL_OPTION_TUNE,
    TOOL_OPTION_RECORD_DIR,
    TOOL_OPTION_CACHE,
    TOOL_OPTION_CACHE_SIZE,
    TOOL_OPTION_PTXAS,
    TOOL_OPTION_TARGET,
    TOOL_OPTION_VERIFY,
    TOOL_OPTION_REMARKS,
    TOOL_OPTION_METRICS,
    TOOL_OPTION_METRICS_DIR,
    TOOL_OPTION_METRICS_MODEL,
    TOOL_OPTION_MULTI_KERNEL,
    TOOL_OPTION_REPLACE_KERNEL,
    TOOL_OPTION_DEBUG,
    TOOL_OPTION_DEBUG_KERNELS,
    TOOL_OPTION_DEBUG_DIR,
    TOOL_OPTION_GRAPHS,
};
#define TOOL_DEVICE {"device", required_argument, NULL, TOOL_OPTION_DEVICE}
#define TOOL_ORDINAL {"ordinal", required_argument, NULL, TOOL_OPTION_ORDINAL}
#define TOOL_DIM {"dim", required_argument, NULL, TOOL_OPTION_DIM}
#define TOOL_THREADS {"threads", required_argument, NULL, TOOL_OPTION_THREADS}
#define TOOL_CPU_SCHEDULE {"cpu-schedule", required_argument, NULL, TOOL_OPTION_CPU_SCHEDULE}
#define TOOL_PRECISION {"precision", required_argument, NULL, TOOL_OPTION_PRECISION}
#define TOOL_CHOICES {"choices", required_argument, NULL, TOOL_OPTION_CHOICES}
#define TOOL_TUNE {"tune", optional_argument, NULL, TOOL_OPTION_TUNE}
#define TOOL_RECORD_DIR {"record-dir", required_argument, NULL, TOOL_OPTION_RECORD_DIR}
#define TOOL_CACHE {"cache", optional_argument, NULL, TOOL_OPTION_CACHE}
#define TOOL_CACHE_SIZE {"cache-size", required_argument, NULL, TOOL_OPTION_CACHE_SIZE}
#define TOOL_PTXAS {"ptxas", required_argument, NULL, TOOL_OPTION_PTXAS}
#define TOOL_TARGET {"target", required_argument, NULL, TOOL_OPTION_TARGET}
#define TOOL_VERIFY {"verify", required_argument, NULL, TOOL_OPTION_VERIFY}
#define TOOL_REMARKS {"remarks", required_argument, NULL, TOOL_OPTION_REMARKS}
#define TOOL_METRICS                                                                                                   \
    {"metrics", required_argument, NULL, TOOL_OPTION_METRICS},                                                         \
        {"metrics-dir", required_argument, NULL, TOOL_OPTION_METRICS_DIR},                                             \
        {"metrics-model", required_argument, NULL, TOOL_OPTION_METRICS_MODEL}
#define TOOL_MULTI_KERNEL {"multi-kernel", required_argument, NULL, TOOL_OPTION_MULTI_KERNEL}
#define TOOL_REPLACE_KERNEL {"replace-kernel", required_argument, NULL, TOOL_OPTION_REPLACE_KERNEL}
#define TOOL_DEBUG                                                                                                     \
    {"debug", required_argument, NULL, TOOL_OPTION_DEBUG},                                                             \
        {"debug-kernels", required_argument, NULL, TOOL_OPTION_DEBUG_KERNELS},                                         \
        {"debug-dir", required_argument, NULL, TOOL_OPTION_DEBUG_DIR}
#define TOOL_GRAPHS {"graphs", required_argument, NULL, TOOL_OPTION_GRAPHS}
/* TOOL_USAGE where it is none of them, or its argument makes no sense. */
int tool_compile_option(sn_compile_options *o, tool_dims *dims, int option);

/* ---- inputs (inputs.c) ----
 * --input NAME=FILE.npy|FILE.npz:MEMBER|FILE.safetensors:MEMBER|random[:SEED]|normal|uniform|wide|extremes|zeros|ones|special|spiked|
 * equal|growing|alternating, --random SEED */
typedef struct tool_inputs {
    const char *names[TOOL_MAX_LIST];
    const char *values[TOOL_MAX_LIST];
    unsigned n;
    bool random_rest; /* inputs without a value of their own are random */
    sn_random_how how;
} tool_inputs;
/* "normal", "uniform", "wide", "extremes": n characters. */
bool tool_distribution(sn_distribution *out, const char *name, size_t n);
bool tool_add_input(tool_inputs *in, char *text);
/* The value given for a name, NULL when none is. */
const char *tool_input_value(const tool_inputs *in, const char *name);
/* Every given name is one of the n names, and every one of those has a value, unless it is optional (NULL: none is). */
sn_status tool_check_inputs(const tool_inputs *in, sn_context *ctx, const char *const *names, const bool *optional,
                            unsigned n);
/* Fill a tensor from its value. graph and number choose fitting random values; graph NULL: any. */
sn_status tool_fill(sn_tensor *t, const tool_inputs *in, const char *name, sn_module *graph, unsigned number);
/* Tensors for all inputs of a program, filled, and for all outputs that need one. */
sn_status tool_program_tensors(sn_tensor **inputs, sn_tensor **outputs, sn_program *p, const tool_inputs *in);
void tool_free_tensors(sn_tensor **tensors, unsigned n);
/* Do n more runs on the same inputs give the bits of a first one? same: by output (repeat.c). */
sn_status tool_repeat(bool *same, unsigned n, sn_program *p, sn_tensor **inputs, sn_tensor **outputs,
                      const tool_inputs *in);
/* `y = f32[2, 3] 0.5 1 ...`: the first values; `all` prints every one. */
/* " 1 2 3 ..", some of them or all. */
void tool_print_elements(sn_dtype dtype, const void *elements, int64_t n, bool all);
sn_status tool_print_tensor(const char *name, const sn_tensor *t, bool all);
/* DIR/NAME.npy */
sn_status tool_save(const char *dir, const char *name, const sn_tensor *t);

/* ---- graphs from files (load.c) ---- */

/* Values of inputs that come from files, for the import of a model. */
typedef struct tool_values {
    sn_weights *files[TOOL_MAX_LIST];
    sn_weight_info at[TOOL_MAX_LIST];
    unsigned n;
} tool_values;
sn_status tool_open_values(tool_values *out, sn_context *ctx, const tool_inputs *in);
void tool_close_values(tool_values *v);
bool tool_is_onnx(const char *path);
bool tool_is_image(const char *path); /* by its first bytes (image.c) */
/* Those elements of a file that an image has constants for. */
typedef struct tool_weights {
    const char *image, *file; /* NULL: no file */
    sn_weights *open;         /* to be closed behind the program */
    sn_weight_info *at;       /* to be freed */
    unsigned n;
} tool_weights;
sn_status tool_image_weights(tool_weights *w, sn_context *ctx);
/* .sn text or an ONNX model, by the file's name. in: values of inputs that an import may look at; NULL: none. */
sn_status tool_load(sn_graph **out, sn_context *ctx, const char *path, const tool_dims *dims, const tool_inputs *in);
/* Where the file's name ends in "FILE.npz:MEMBER", "FILE.npy"; NULL: the value names no file. */
const char *tool_end_of_file(const char *value);

/* ---- what a module computes on random inputs (meaning.c) ---- */
typedef struct tool_results {
    sn_array *inputs; /* of the graph, where there is one */
    sn_array *at;     /* by number of the output */
    uint32_t n;
    bool kernels; /* from its kernels; else from its graph, in float64 */
} tool_results;
/* before: results of the module that this one was made from, NULL for the first. */
sn_status tool_evaluate(tool_results *out, const tool_results *before, sn_context *ctx, sn_module *m);
/* A line for each output to standard error; SN_ERROR_MISMATCH when one differs by more than the bound. 0: the same bits
 * between kernels, the bound of the graph's output otherwise. */
sn_status tool_compare(const tool_results *before, const tool_results *after, sn_context *ctx, sn_module *m,
                       double bound);
/* Are the kernels that the passes make of a graph free of races and the like on these inputs? */
sn_status tool_check_kernels(sn_context *ctx, sn_graph *graph, const sn_compile_options *options,
                             const tool_inputs *in);

/* A profile as a table (profile.c). */
void tool_print_profile(const sn_profile *p);

/* ---- watching a run (watch.c) ---- */

typedef struct tool_watch {
    bool on, reads;
    const char *kernels, *dir, *stop_at; /* as in sn_watch_options; where files of elements go. NULL: not given */
} tool_watch;
sn_status tool_run_watched(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs, const tool_watch *how);

#endif
