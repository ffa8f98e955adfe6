/* frontend.h: what the files of frontend/ share: graphs, programs and run states, settings. Contexts and tensors, which
 * files of tensors need too, have folders and headers of their own. The tool uses it too, for what the public interface
 * does not offer (passes on module text, random inputs).
 */
#ifndef SN_FRONTEND_FRONTEND_H
#define SN_FRONTEND_FRONTEND_H

#include "backend-host/host_code.h"
#include "backend-nvptx/ptx.h"
#include "frontend/context/context.h"
#include "frontend/tensor/tensor.h"
#include "ir/module.h"
#include "passes/runner.h"
#include "runtime/defaults.h"
#include "runtime/image.h"
#include "runtime/threads.h"
#include "runtime/worker.h"

#include <stdatomic.h>

enum { SN_LIST_MAX = 1 << 16 }; /* entries of a caller's list of structs: a length beyond is a slip, and is not read */

/* What holds elements that a graph borrows, such as an open file: closed with the last graph or program that has it. */
typedef struct sn_holder {
    unsigned users;
    void *object; /* NULL: nothing to close */
    void (*close)(void *object);
} sn_holder;
typedef SN_VEC(sn_holder *) sn_holder_list;

struct sn_graph {
    sn_context *ctx;
    sn_module *m;
    sn_status status; /* first failure of a builder function */
    char message[SN_MESSAGE_MAX];
    sn_nd built;  /* result of the running builder function */
    uint32_t tag; /* nodes of this graph carry it, and so do codes of sizes */
    sn_holder_list holders;
};

/* The addresses of a bound tensor. */
typedef struct sn_span {
    const char *first, *end, *role, *name;
    bool written;
} sn_span;

/* What checks have found good of a tensor (run_again.c). */
typedef struct sn_bound {
    const sn_context *ctx;
    sn_tensor_info info;
    bool read_only;
} sn_bound;

/* What runs a program: the addresses of the run in progress, storage that is nobody's tensor, and the state below. */
typedef struct sn_runner {
    sn_program *p;
    sn_context *ctx;   /* that tensors must be of; NULL: any */
    sn_env *env;       /* where runs fail */
    sn_arena *scratch; /* for their messages */
    sn_cuda *cu;       /* NULL: CPU */
    sn_prog_state *state;
    void **input_at, **output_at;
    bool has_bound;   /* input_at and output_at are those of `bound` */
    sn_bound *bound;  /* the tensors of the last run, inputs first */
    sn_span *spans;   /* ranges of addresses, for the check that nothing overlaps */
    void *own_output; /* p->own_size bytes: outputs that are copied back to an input */
    char *lent;       /* memory of the caller for these and for the workspaces of the state; NULL: its own */
} sn_runner;

/* A runner of the caller's: it has an environment of its own, and nothing that it changes is anybody else's. */
struct sn_run_state {
    sn_env env;
    sn_arena scratch; /* freed at the end of every run */
    sn_arena arena;
    uint64_t mark; /* a run that fails gives back what was allocated since */
    sn_runner runner;
    bool ready;       /* the runner has its memory */
    bool under_way;   /* a run was started that nobody has waited for */
    void *stream;     /* of that run */
    sn_worker worker; /* on the CPU */
    sn_status result;
};

/* What is done about choices for matrix products, convolutions and kernels. */
typedef enum sn_tune_mode {
    SN_TUNE_OFF,
    SN_TUNE_RECORDS, /* what records say */
    SN_TUNE_ON       /* that, and what they do not say is timed */
} sn_tune_mode;

/* Which metric tables are recorded, and who gets them. */
typedef struct sn_metric_settings {
    uint32_t tables;            /* a bit each */
    const char *folder, *model; /* NULL: no files; the name of the graph */
    void (*row)(void *user, const sn_metric_row *row);
    void *user;
    sn_metric_log *log; /* of somebody who wants to read it himself: nothing is written then. NULL: nobody does */
} sn_metric_settings;

/* Options of sn_compile after reading (options.c). */
typedef struct sn_settings {
    bool want_cuda, must_cuda; /* try CUDA; fail without it */
    bool on_device;            /* the caller has named the device, which then runs code for `target`, too */
    unsigned ordinal;
    const char *target; /* NULL: that of the device */
    bool gpu_schedule;  /* CPU: kernels scheduled for a GPU */
    bool interpreted;
    sn_graphs_mode graphs;
    uint32_t threads;
    uint32_t alignment; /* of the caller's storage; 0: that of the target */
    sn_precision precision;
    const sn_dim_binding *dims;
    unsigned n_dims;
    sn_tune_mode tune;
    const char *multi_forced; /* kind of schedule that kernels with several get; NULL: the fastest */
    const char *record_dir;   /* NULL: no records */
    bool no_record_home;      /* since neither option nor environment names a folder */
    const char *cache;        /* folder of generated code; NULL: none is remembered */
    uint64_t cache_size;
    bool with_ptxas;
    const char
        *ptxas; /* file; NULL: looked for in these folders, which are written as in PATH, and where toolkits are */
    const char *ptxas_folders;
    sn_metric_settings metrics;
    sn_debug_options debug;
    const char *replace_kernels; /* "k0=FILE,.."; NULL: none are */
    bool trusted; /* kernels that come with the graph are our own: they need no tests before their accesses */
    bool idle;    /* the program's own runner gets its memory from whoever runs it: sn_runner_load, sn_runner_close */
    sn_pass_options passes;
} sn_settings;

/* A kernel with alternatives that nobody has chosen from yet, and what a choice is remembered by. */
typedef struct sn_kernel_set {
    sn_kern first;
    const char *key;
} sn_kernel_set;

typedef struct sn_replacement sn_replacement; /* replace.c */

/* Nothing changes after sn_compile but what `runner` points to, and n_states. */
struct sn_program {
    sn_context *ctx;
    sn_arena arena;     /* code texts, ports, addresses */
    sn_module *source;  /* the graph with bound sizes, before any pass: for dumps and the evaluator */
    sn_module *m;       /* after all passes */
    sn_target target;   /* that the kernels were scheduled for */
    sn_library library; /* that passes may count on; takes NULL: none */
    char *pipeline;     /* copy of the option, NULL: of the target */
    /* Copied like the pipeline. */
    sn_choosing choosing;
    SN_VEC(sn_kernel_set) sets;
    struct sn_record_place *records; /* that its kernels are looked up in; NULL: none are */
    uint32_t n_records_used;         /* answers of that place that schedules hang on */
    sn_debug_options debug;          /* of its runs */
    int device;
    bool gpu_code, runnable, interpreted;
    sn_graphs_mode graphs; /* of its runs on CUDA */
    bool trusted;          /* as in the settings */
    sn_warming *warming;   /* while it is being compiled; else NULL */
    sn_pool *pool;         /* of code generation, while it runs */
    sn_cache *cache;       /* while it is compiled; NULL: none */
    sn_ptxas ptxas;        /* gpu_code: for cubins that are kept */
    bool with_ptxas;
    const char *cache_folder; /* of cubins for images that it is saved to; NULL: none are remembered */
    uint64_t cache_size;
    sn_metric_log *metrics;            /* while it is compiled */
    SN_VEC(sn_replacement *) replaced; /* likewise */
    sn_gpu_code *codes;                /* gpu_code: one per kernel */
    sn_host_code *host;                /* wrapper, and kernels of the CPU */
    const char **libraries; /* by kernel: the name of the library that runs it, NULL: none does; NULL: none runs any */
    const char **schedules; /* by kernel: its header, once somebody has asked */
    sn_prog *prog;
    sn_port *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    int64_t
        *own_offset; /* by output: in own_output of a runner; -1: the caller's tensor, or the input that is written */
    size_t own_size;
    bool *is_written;       /* by input: an output writes it */
    sn_defaults defaults;   /* of inputs that runs may leave out */
    sn_runner runner;       /* of sn_run: works in the context */
    atomic_uint n_states;   /* run states that are not destroyed */
    sn_holder_list holders; /* of the graph: source and m borrow the same elements */
    sn_program_info info;
    /* Of one that was loaded (image.c), whose prog and m are those of `loaded` and whose source is empty. */
    const sn_image
        *image; /* NULL: it was compiled here. Where info.found says so it is from the cache, and there is a graph */
    sn_module *full; /* of one that was found: after all passes; NULL until somebody asks (sn_program_look) */
    const sn_image_part *part;
    sn_image_bytes file;
    sn_loaded loaded;
    SN_VEC(sn_image_given) given; /* constants in place of those of the image */
    uint32_t threads;
};

/* The guard of builder functions (graph.c): nothing happens on a failed graph, and a failure stays with the graph. `call` stores
 * the node in g->built. */
bool sn_build_enter(sn_graph *g, jmp_buf *here);
sn_node sn_build_leave(sn_graph *g);
#define SN_BUILD_RETURN(g, call, ...)                                                                                  \
    do {                                                                                                               \
        jmp_buf sn_here;                                                                                               \
        if (!sn_build_enter((g), &sn_here)) return (sn_node){0};                                                       \
        if (setjmp(sn_here) == 0 && !sn_any_null((g)->ctx, SN_NULLS(g, ##__VA_ARGS__))) (void)(call);                  \
        return sn_build_leave(g);                                                                                      \
    } while (0)

/* ---- pieces ---- */

/* A graph around a module that it owns from now on. */
sn_graph *sn_graph_new(sn_context *ctx, sn_module *m);
/* Nodes of the public and the internal kind. */
static inline sn_nd sn_inner(sn_node x) { return (sn_nd){x.id}; }
/* Is x a value of this graph? `who` asks, and its argument x is called `what`. */
bool sn_node_is_of(const sn_graph *g, sn_node x);
sn_status sn_node_check(sn_graph *g, sn_node x, const char *who, const char *what);
/* A size as the caller gave it: a number, or a code of sn_dim (sizes.c). */
sn_status sn_size_read(sn_ix *out, sn_graph *g, const char *who, int64_t size);
bool sn_size_is_code(int64_t size);

sn_status sn_settings_read(sn_settings *out, sn_context *ctx, const sn_compile_options *options);
/* The folder and the size of a cache of generated code by their options; NULL: as the environment says. *folder NULL: off. */
sn_status sn_cache_settings(const char **folder, uint64_t *size, sn_context *ctx, const char *cache, const char *most);
/* The options of debugging; NULL: as the environment says. */
sn_status sn_debug_settings(sn_debug_options *out, sn_context *ctx, const char *debug, const char *kernels,
                            const char *dir);
/* The word of an option, or of an argument; NULL means exact. */
sn_status sn_precision_read(sn_precision *out, sn_env *env, const char *word);
/* The option `graphs`; NULL: as the environment says. */
sn_status sn_graphs_read(sn_graphs_mode *out, sn_env *env, const char *word);
sn_status sn_verify_from_name(sn_verify_mode *out, sn_env *env, const char *name);

/* A fresh module like `from`: its graph, and its kernels where it has some. *out is set even on failure. */
sn_status sn_source_copy(sn_module **out, sn_env *env, const sn_module *from);
/* A fresh module with a copy of the graph, all its symbolic sizes bound. precision: of products that leave it open. */
sn_status sn_graph_bind(sn_module **out, sn_context *ctx, const sn_module *graph, const sn_dim_binding *dims,
                        unsigned n, sn_precision precision);
/* Do all weights that the outputs of a graph need have elements? Fails with the names of those without. */
sn_status sn_graph_check_weights(sn_context *ctx, const sn_module *m);
/* Attach all weights of a module from a file, which stays open: the caller closes it (body of a guarded call). */
sn_status sn_module_load_weights(sn_weights **out, sn_context *ctx, sn_module *m, const char *path);
/* The same for a graph, from the file that its text names; `path` is that of the text. */
sn_status sn_graph_load_weights_beside(sn_graph *g, const char *path);
/* A path that stands in a file, from the folder of that file. */
const char *sn_path_beside(sn_arena *arena, const char *file, const char *path);
/* A new holder of the graph, for the caller to fill. */
sn_holder *sn_graph_holder(sn_graph *g);
void sn_holders_share(sn_program *p, const sn_graph *g);
void sn_holders_drop(sn_context *ctx, const sn_holder_list *list);
/* sn_program_time with a program that runs between the flush and each run (runtime.h, sn_flush); its tensors are
 * bound. */
sn_status sn_program_time_clean(double *out, unsigned runs, sn_program *p, sn_tensor *const *inputs,
                                sn_tensor *const *outputs, size_t flush_bytes, sn_program *reader);
/* Microseconds of a short run, `replays` times, by CUDA graphs (runtime.h). how->run_us: an estimate. */
sn_status sn_program_time_graph(double *out, unsigned replays, sn_graph_timing *how, sn_program *p,
                                sn_tensor *const *inputs, sn_tensor *const *outputs);
/* A runner's arrays in the arena; then memory for runs, once the program is loaded. Closing gives the latter back. */
void sn_runner_init(sn_runner *r, sn_arena *arena);
sn_status sn_runner_load(sn_runner *r);
void sn_runner_close(sn_runner *r);
/* Check the tensors of a run; their addresses are in the runner then. */
sn_status sn_runner_bind(sn_runner *r, sn_tensor *const *inputs, sn_tensor *const *outputs);
sn_status sn_runner_launch(sn_runner *r, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream,
                           bool interpreted);
/* The same, by the interpreter, with somebody who looks. */
sn_status sn_runner_watch(sn_runner *r, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream,
                          const sn_watcher *w);
/* run_again.c: do the tensors have the addresses of those that were remembered, and pass the checks as these did? */
bool sn_runner_is_again(const sn_runner *r, sn_tensor *const *inputs, sn_tensor *const *outputs);
void sn_runner_remember(sn_runner *r, sn_tensor *const *inputs, sn_tensor *const *outputs);
/* Bodies of public calls that other bodies use. */
sn_status sn_program_launch(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream,
                            bool interpreted);
sn_status sn_program_bind(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs);
/* Elements in storage format as values of the evaluator, in the arena, and back. */
sn_array sn_array_from(sn_arena *arena, sn_dtype dtype, unsigned rank, const int64_t *shape, const void *data);
void sn_array_store(void *out, const sn_array *a);

/* Largest relative error that an element of the dtype may have, whatever it is made of; 0: must be equal. */
double sn_check_bound(sn_dtype dtype);
/* Largest error of an element in units in the last place, where the output is one elementary operation on inputs; else
 * 0. */
double sn_check_ulps(const sn_module *m, sn_nd output);
/* How much more each element of each float output may be off, because of roundings on the way: out[output][element], in
 * the arena. */
sn_status sn_check_errors(double **out, const sn_module *graph, const sn_array *inputs, sn_arena *arena);
/* Compare elements in storage format with the reference. errors: as above; NULL: none. bound_ulp 0: not checked. */
sn_check sn_check_compare(sn_dtype dtype, const void *got, const sn_array *reference, const double *errors,
                          double bound, double bound_ulp);
/* Has an output of so many elements none that has been compared? */
bool sn_check_is_empty(const sn_check *c, int64_t numel);

/* Seeded values for input `input` of a graph: normal floats, integers in -8 .. 7, bools, and for inputs that are used
 * as an index, valid positions. n elements in storage format to `out` (random.c). */
sn_status sn_random_input(void *out, sn_module *graph, uint32_t input, uint64_t seed);
/* How floats are distributed: normal; uniform in [0, 1), whose sums do not cancel; normal times a power of 2 from 2^-12
 * to 2^12; normal with zeros, infinities and nan among them, integers with the ends of their ranges. */
typedef enum sn_distribution { SN_NORMAL, SN_UNIFORM, SN_WIDE, SN_EXTREMES } sn_distribution;
typedef struct sn_random_how {
    uint64_t seed;
    int64_t period; /* elements that are drawn; the others repeat them. 0: as many as sn_random_input draws */
    sn_distribution floats;
    double scale; /* of floats; 0: 1 */
} sn_random_how;
/* The same for a tensor; graph NULL: any use. */
sn_status sn_random_tensor(sn_tensor *t, sn_module *graph, uint32_t input, const sn_random_how *how);
/* The same without a graph: n elements. */
void sn_random_fill(void *out, sn_dtype dtype, int64_t n, uint64_t seed);
/* The values where operations go wrong, again and again: zeros, limits, denormals, infinities, nan; integer
 * extremes. */
void sn_special_fill(void *out, sn_dtype dtype, int64_t n);
/* Random values with infinities, nan and huge numbers (integers: limits) here and there. */
void sn_spiked_fill(void *out, sn_dtype dtype, int64_t n, uint64_t seed);
/* Values whose sum shows how it was made: all 0.1 (integers: 7); from 0 to 1 (1 to 100, again and again); the same with
 * signs in turn. */
typedef enum sn_sequence { SN_EQUAL, SN_GROWING, SN_ALTERNATING } sn_sequence;
void sn_sequence_fill(void *out, sn_dtype dtype, int64_t n, sn_sequence which);

/* How far a compilation goes: a dump needs only the phases before it. SOURCE: code, for C source, which calls no
 * library. */
typedef enum sn_phase { SN_PHASE_BOUND, SN_PHASE_PASSES, SN_PHASE_CODE, SN_PHASE_SOURCE, SN_PHASE_LOADED } sn_phase;
/* The libraries of matrix products and convolutions (library.c), once device and target are known; the device, NULL: the
 * CPU; and the name of one of the libraries, in scratch. */
void sn_program_find_library(sn_program *p, const sn_settings *s, sn_phase last);
sn_cuda *sn_program_cuda(const sn_program *p);
const char *sn_program_library_name(const sn_program *p, bool of_convs);
static inline const sn_library *sn_program_library(const sn_program *p) {
    return p->library.takes ? &p->library : NULL;
}
/* Before code is made of a program's kernels: those that came from text test every access that might leave its buffer.
 */
sn_status sn_program_guard(sn_program *p);
/* A program that has gone through the phases up to `last` (body of sn_compile). */
sn_status sn_compile_to(sn_program **out, sn_graph *g, const sn_compile_options *options, sn_phase last);
/* The same with options that are read. */
sn_status sn_compile_settings(sn_program **out, sn_graph *g, const sn_settings *s, sn_phase last);
/* metrics.c: a log for a compilation, in scratch unless somebody has one; what is recorded when the compilation is done; and rows
 * and counters to whoever asked for them. */
sn_metric_log *sn_metrics_begin(sn_context *ctx, const sn_settings *s);
void sn_metrics_record(sn_program *p);
/* fusion_times.c: that table. */
sn_status sn_metrics_fusion_times(sn_program *p, const sn_settings *s);
void sn_metrics_deliver(sn_context *ctx, sn_metric_log *log, const sn_settings *s, const char *graph);
/* Fill in p->choosing for the products of a bound program (tune.c): from records, and where settings say so by timing. */
sn_status sn_program_decide(sn_program *p, const sn_settings *s);
/* tune_kernels.c: what went wrong with the records of kernels, in the log. */
void sn_program_say_records(const sn_program *p, const sn_settings *s);
/* A program in the making. */
sn_program *sn_program_new(sn_context *ctx);
/* What a loader is told of each kernel, in the arena. */
sn_status sn_program_launches(sn_rt_kernel **out, sn_program *p, sn_arena *arena);
size_t sn_port_bytes(const sn_port *port);
/* The elements of an input in runs that leave it out, in storage format, in the arena. */
sn_status sn_default_elements(void **out, sn_module *m, uint32_t input, sn_arena *arena);
/* Storage for those of all inputs of a program that was compiled. */
sn_status sn_program_load_defaults(sn_program *p);
/* Fails for a program that was loaded from an image: `what` was asked. */
sn_status sn_program_needs_graph(const sn_program *p, const char *what);
/* cubins.c: the option `ptxas`; what loading and saving keep cubins with; those of a part of an image; what is to be said of them. */
void sn_program_find_ptxas(sn_program *p, const sn_settings *s);
sn_cubins sn_program_cubins(sn_program *p, sn_cache *cache);
void sn_program_assemble(sn_program *p, sn_image_part *part, sn_arena *arena);
void sn_program_say_ptxas(sn_program *p);
/* Programs of the same graph, one for each target, as an image in the arena that borrows from them. */
typedef struct sn_image_how {
    bool without_weights; /* these are given by who loads it */
    bool without_cubins;
} sn_image_how;
sn_status sn_image_of(sn_image *out, sn_context *ctx, sn_program *const *programs, unsigned n, const sn_image_how *how,
                      sn_arena *arena);
/* A bound program takes what an image of its graph has, for its device (cu) or the CPU; weights are those of the graph. The bytes stay
 * as long as the program. What fails leaves it as it was. */
sn_status sn_program_take_image(sn_program *p, sn_image_bytes bytes, sn_cuda *cu, const sn_cubins *keep);
/* A program's module after all passes. Of one that was found in the cache they run in sn_program_look, which is for the start of
 * public calls (NULL: nothing to do). */
sn_status sn_program_look(sn_program *p);
static inline sn_module *sn_program_module(const sn_program *p) { return p->info.found ? p->full : p->m; }
/* All passes of a program on its graph. */
sn_status sn_program_run_passes(sn_module **out, sn_program *p, const sn_pass_options *options);
/* whole.c: the whole program from the cache, and to it. */
bool sn_whole_find(sn_program *p, sn_cuda *cu, const sn_settings *s);
void sn_whole_keep(sn_program *p, const sn_settings *s);
/* The same image as C source: FOLDER/NAME.c and FOLDER/NAME.h, by the name of the graph (image_c.c). */
sn_status sn_programs_emit_c(sn_context *ctx, unsigned n, sn_program *const *programs, const char *folder);
/* PTX that names an architecture with a suffix (sm_90a) is for that one alone. */
bool sn_ptx_is_for_one(const char *ptx);
/* A program that was compiled here as what C source is made from (freestanding.c): its kernels, without cubins, and where they run. */
sn_status sn_program_source(sn_source *out, sn_program *p, sn_arena *arena);
/* A graph, compiled, as C source that needs no library: FOLDER/NAME.h and NAME.c, and NAME.bin with the constants where these are
 * large, or are wanted there. */
typedef struct sn_source_options {
    bool without_weights; /* whoever creates the program gives them */
    bool in_file;         /* constants in NAME.bin, whatever their size */
} sn_source_options;
sn_status sn_graph_emit_c(sn_graph *g, const sn_compile_options *options, const char *folder,
                          const sn_source_options *how);
/* The text of one stage, compiling no further than it needs: what `sinter emit` prints. */
sn_status sn_graph_emit(char **out, sn_graph *g, const sn_compile_options *options, const char *stage);

#endif
