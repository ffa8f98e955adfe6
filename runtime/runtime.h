/* runtime.h: devices, memory, loaded programs, running them. No LLVM, no passes; CUDA and libraries of products and convolutions only
 * in this folder, opened at run time (libcuda.so.1), so that everything works where there is none.
 */
#ifndef SN_RUNTIME_RUNTIME_H
#define SN_RUNTIME_RUNTIME_H

#include "cache/cache.h"
#include "cache/files.h"
#include "include/sinter/watched.h"
#include "ir/module.h"
#include "ir/base/target.h"
#include "ir/base/tensor_map.h"
#include "ir/loop/library.h"
#include "runtime/cubin.h"

/* ---- devices ---- */
typedef struct sn_cuda sn_cuda; /* driver table + retained primary context of one device + allocator cache */
/* Number of CUDA devices; 0 with the reason in *why (static text or env message) when there is no driver. Never
 * fails. */
uint32_t sn_cuda_count(char *why, size_t why_size);
sn_status sn_cuda_open(sn_cuda **out, sn_env *env, uint32_t device);
/* The same device for another thread: failures go to env, blocks come from a cache of its own. */
sn_status sn_cuda_share(sn_cuda **out, sn_env *env, const sn_cuda *of);
void sn_cuda_close(sn_cuda *cu);
const char *sn_cuda_name(const sn_cuda *cu);            /* "NVIDIA H200" */
void sn_cuda_target(const sn_cuda *cu, sn_target *out); /* sm, units, shared memory, L2 of the device */
int sn_cuda_driver_version(const sn_cuda *cu);          /* 13000 for 13.0 */

/* Memory of the device from the host program instead of the driver (sn_context_options); before the first block is asked for. A
 * share takes it from there too. */
typedef struct sn_cuda_memory {
    void *(*alloc)(void *user, int device, size_t size); /* NULL: of the driver */
    void (*free)(void *user, int device, void *p, size_t size);
    void *user;
} sn_cuda_memory;
void sn_cuda_use_memory(sn_cuda *cu, const sn_cuda_memory *memory);

/* Caching allocator: free keeps blocks for the next malloc of the same rounded size; trim gives them back. */
sn_status sn_cuda_malloc(void **out, sn_cuda *cu, size_t size);
void sn_cuda_free(sn_cuda *cu, void *p, size_t size);
void sn_cuda_trim(sn_cuda *cu);
/* Copies on a stream (a CUstream as void *; NULL: the default stream). To host and from host synchronise that
 * stream. */
sn_status sn_cuda_to_device(sn_cuda *cu, void *to, const void *from, size_t size, void *stream);
/* The same without waiting: `from` stays as it is until the stream has been synchronised. */
sn_status sn_cuda_upload(sn_cuda *cu, void *to, const void *from, size_t size, void *stream);
sn_status sn_cuda_to_host(sn_cuda *cu, void *to, const void *from, size_t size, void *stream);
sn_status sn_cuda_copy(sn_cuda *cu, void *to, const void *from, size_t size, void *stream);
sn_status sn_cuda_fill(sn_cuda *cu, void *to, unsigned char byte, size_t size, void *stream);
sn_status sn_cuda_sync(sn_cuda *cu, void *stream);

/* Memory for kernels: of the device, or of the host (cu NULL) and then aligned like it. What lies in one block begins at
 * rounded sizes. */
size_t sn_storage_round(size_t size);
sn_status sn_storage_alloc(void **out, sn_env *env, sn_cuda *cu, size_t size);
void sn_storage_free(sn_env *env, sn_cuda *cu, void *memory, size_t size);

/* ---- libraries: of matrix products, cuBLASLt on a device, a BLAS of the CPU where cu is NULL; of convolutions, cuDNN on a
 * device ---- */

/* Has such a library what the call is? Needs none. Otherwise: why not. */
bool sn_library_has(const sn_library_call *call, bool is_gpu, char why[SN_LIBRARY_WHY]);
/* Does the one that is here run it, by the algorithm that it names? Opens the library when first asked, which takes some
 * 80 ms for cuBLASLt and more for cuDNN. */
bool sn_library_takes(sn_cuda *cu, const sn_library_call *call, char why[SN_LIBRARY_WHY]);
/* "cuBLASLt 13.1.0", "OpenBLAS 0.3.21", of convolutions "cuDNN 9.10.2"; false: there is none, and why. */
bool sn_library_name(char out[SN_LIBRARY_WHY], sn_cuda *cu, bool of_convs);

/* ---- cubins ---- */

/* The toolkit's assembler, a program (ptxas.c). */
typedef struct sn_ptxas {
    const char *path; /* NULL: there is none, ... */
    bool named;       /* ... though the caller says where */
    char note[480];   /* the first thing that went wrong, one line; "": nothing has */
} sn_ptxas;
/* The file that is named; NULL: the first one in these folders, which are written as in PATH, in /usr/local/cuda/bin, and in
 * /usr/local/cuda-VERSION/bin, the newest version first. */
void sn_ptxas_find(sn_ptxas *out, sn_arena *arena, const char *file, const char *folders);

/* Where cubins are kept, in a cache or an image, and ptxas: its processes are worth their time for what is kept, or where several threads would
 * wait for the driver. */
typedef struct sn_cubins {
    sn_cache *cache; /* NULL: none */
    sn_ptxas *ptxas; /* NULL: it is not wanted */
} sn_cubins;

/* ---- programs ---- */

/* One kernel, ready to load. */
typedef struct sn_rt_kernel {
    const char *name;
    const char *ptx; /* GPU: NUL-terminated */
    size_t ptx_size;
    const void *cubin; /* GPU: what the PTX was assembled to, of this generation; NULL: it is assembled when loaded */
    size_t cubin_size;
    int64_t grid;
    uint32_t block_x, block_y, cluster, shared_bytes;
    bool together;    /* GPU: all blocks have to run at once */
    bool param_block; /* GPU: the addresses are one parameter, an array by value */
    size_t
        kept_bytes; /* memory that lasts between runs, zero before the first; its address comes behind the others. 0: none */
    const sn_tensor_map *maps; /* GPU: parameters behind those, encoded for the arguments of each call */
    uint32_t n_maps;
    void (*host)(void *const *params, int64_t begin, int64_t end); /* CPU */
    bool whole; /* GPU: nvJitLink, which assembles what is to be linked, ignores setmaxnreg and how shared memory is
                 * aligned: ptxas or the driver assembles it */
    uint32_t alternative_of;        /* 1 + the position of the kernel of which it is an alternative; 0: of none */
    const sn_library_call *library; /* a library runs it instead of code: no ptx, no host; copied. NULL: none does */
} sn_rt_kernel;

typedef int (*sn_rt_wrapper)(void *const *inputs, void *const *outputs, void *const *consts, char *workspace,
                             int (*launch)(void *, uint32_t, void *const *),
                             int (*copy)(void *, void *, const void *, int64_t),
                             int (*test)(void *, const void *, int *), void *user);

/* A loaded program, which nothing changes. Its module (the Wrapper IR and buffers) stays borrowed and must live as
 * long. */
typedef struct sn_prog sn_prog;
/* cu NULL: CPU. GPU: cubins by nvJitLink when libnvJitLink is there, by ptxas where they are kept, else by the driver; a refused
 * PTX fails with the assembler's log. Constants are uploaded. wrapper NULL: the step interpreter runs the wrapper. threads: CPU
 * threads. keep: where cubins are kept, NULL: nowhere. */
sn_status sn_prog_load(sn_prog **out, sn_module *m, sn_cuda *cu, const sn_rt_kernel *kernels, uint32_t n,
                       sn_rt_wrapper wrapper, uint32_t threads, const sn_cubins *keep);
void sn_prog_free(sn_prog *p);
/* Do its runs take branches, or end loops early, by what their kernels make? */
bool sn_prog_decides(const sn_prog *p);
/* What runs of a program change: workspace, memory that kernels keep, scratch. One run at a time; runs in different
 * states may go on at once, on different threads when each state has an env, and a device, of its own: failures go
 * there. The program outlives its states. */
typedef struct sn_prog_state sn_prog_state;
sn_status sn_prog_state_new(sn_prog_state **out, const sn_prog *p, sn_env *env, sn_cuda *cu);
/* The same with the values between kernels, and what libraries work with, in memory of the caller (NULL: of its own): on the
 * device, from a multiple of 256 on, sn_prog_scratch bytes. Nothing there outlasts a run. */
sn_status sn_prog_state_new_in(sn_prog_state **out, const sn_prog *p, sn_env *env, sn_cuda *cu, void *memory);
size_t sn_prog_scratch(const sn_prog *p);
void sn_prog_state_free(sn_prog_state *st);
/* Do runs of the state go by a CUDA graph? A new state: off. Auto: from the second run on, and plainly where no graph can be
 * made. On: from the first run on; a graph that cannot be made fails the run. Drivers
 * before CUDA 12.0 have none: all runs are plain. */
typedef enum sn_graphs_mode { SN_GRAPHS_OFF, SN_GRAPHS_AUTO, SN_GRAPHS_ON } sn_graphs_mode;
void sn_prog_state_graphs(sn_prog_state *st, sn_graphs_mode mode);
/* Run with the storage addresses of inputs and outputs (device memory when cu). Asynchronous on the stream; Sinter allocates
 * nothing after the first run. use_interpreter: the step interpreter even where a generated wrapper exists. */
sn_status sn_prog_run(sn_prog_state *st, void *const *inputs, void *const *outputs, void *stream, bool use_interpreter);
/* The same without a graph, whatever the mode: for those who time kernels. */
sn_status sn_prog_run_plainly(sn_prog_state *st, void *const *inputs, void *const *outputs, void *stream,
                              bool use_interpreter);
/* The same by the step interpreter, waiting for each kernel; somebody looks at its arguments (watch.c). */
typedef struct sn_watcher {
    bool (*watch)(void *user, const sn_watched *what); /* NULL: nobody */
    void *user;
    const bool *kernels; /* by kernel: is it watched? */
    bool reads, stop_at_nan, stop_at_infinity;
    void (*begin)(void *user, const sn_watched *call); /* before a launch: what concerns a call alone; NULL: nobody */
    void (*end)(void *user);                           /* behind it; where begin is */
    bool waits;                                        /* for each launch, even where nobody looks at arguments */
    bool inside;                                       /* who is called is the library itself, in its locale */
} sn_watcher;
sn_status sn_prog_run_watched(sn_prog_state *st, void *const *inputs, void *const *outputs, void *stream,
                              const sn_watcher *w);
/* One kernel on arguments of the host, by parameter, which come back as it leaves them; waits (try_kernel.c). */
sn_status sn_prog_try_kernel(const sn_prog *p, uint32_t kernel, void *const *args);

/* ---- debugging (debug.c) ---- */

/* The option `debug` and what goes with it. */
typedef struct sn_debug_options {
    const char *debug, *kernels, *dir;         /* "print,stop-at-nan"; names, NULL: all; where files go, NULL: here */
    void (*say)(void *user, const char *text); /* lines; NULL: nobody listens */
    void *user;
} sn_debug_options;
/* Copies of the texts, in the arena. */
void sn_debug_keep(sn_debug_options *o, sn_arena *arena);
/* The words of `debug` as bits; a failure lists them all. */
enum {
    SN_DEBUG_NAMES = 1,
    SN_DEBUG_PRINT = 2,
    SN_DEBUG_SAVE = 4,
    SN_DEBUG_NAN = 8,
    SN_DEBUG_INFINITY = 16,
    SN_DEBUG_NVTX = 32
};
sn_status sn_debug_read(uint32_t *out, sn_env *env, const char *list);
/* From now on runs of a program that has just been loaded say what they do. Lives as long as the program. */
sn_status sn_prog_debug(sn_prog *p, const sn_debug_options *o);
/* By kernel: is it on the list ("k0,k3"; NULL: all)? who: for the message. */
sn_status sn_debug_choose(bool *out, sn_env *env, const char *who, const char *list, const char *const *names,
                          uint32_t n);
sn_status sn_prog_choose(bool *out, const sn_prog *p, const char *who, const char *list);
/* "2 k1 (exp, sum) reads x: f32[64] 64 elements least 1 ..", with the line's end. */
void sn_watched_print(struct sn_text *t, const sn_watched *w);
/* DIR/002_k1_reads_x.npy, which is put in path. SN_ERROR_FILE: errno says why; nothing is recorded in env. */
sn_status sn_watched_save(char path[SN_PATH_MOST], sn_env *env, const char *dir, const sn_watched *w);

/* The assembler of the toolkit is a large library, and opening it takes longer than making some kernels: a thread does it while passes run.
 * NULL: there is none, since threads are the caller's affair, or there are no more. */
typedef struct sn_warming sn_warming;
sn_warming *sn_assembler_warm(sn_env *env);
void sn_warming_end(sn_warming *w); /* waits for it; NULL: nothing happens */

/* Host time of phases of loading, in microseconds. */
typedef struct sn_prog_times {
    double assemble_us, load_us, upload_us, prepare_us;
} sn_prog_times;
sn_prog_times sn_prog_load_times(const sn_prog *p);
/* What the assembler made of kernel k. False: on the CPU, of a library, or nobody says. */
bool sn_prog_cubin(sn_cubin_figures *out, const sn_prog *p, uint32_t k);
/* Kernels with alternatives, of which loading has timed all and calls the fastest (pick.c). */
typedef struct sn_rt_pick {
    uint32_t first, winner; /* positions of kernels: which the wrapper names, which runs */
    double took_us;         /* host time of the choice */
} sn_rt_pick;
const sn_rt_pick *sn_prog_picks(uint32_t *n, const sn_prog *p);
/* Of a kernel, when it was timed for a choice; 0: it was not. */
double sn_prog_picked_us(const sn_prog *p, uint32_t kernel);

/* Device time of `runs` runs in microseconds (out[runs]): events around each, with flush->bytes of the device written
 * before each one so that no input is in cache. What was written is in cache instead, and goes to memory while the run
 * begins: of a run of 60 us that is about 10. A reader is a program that reads (and writes little) after that, so that
 * the cache holds nothing that has to be written. CPU: wall-clock time. */
typedef struct sn_flush {
    size_t bytes;
    sn_prog_state *reader; /* NULL: none */
    void *const *inputs, *const *outputs;
} sn_flush;
sn_status sn_prog_time(double *out, uint32_t runs, sn_prog_state *st, void *const *inputs, void *const *outputs,
                       const sn_flush *flush);
/* The same for runs that are too short for events: one CUDA graph holds many runs, one after the other, which walk over
 * copies of the inputs and outputs that no cache holds together. out[replays]: the time of a replay divided by its
 * runs. */
typedef struct sn_graph_timing {
    double run_us;       /* in: about how long a run takes */
    uint32_t sets, runs; /* out: copies of the inputs and outputs, the caller's included; runs of the graph */
} sn_graph_timing;
sn_status sn_prog_time_graph(double *out, uint32_t replays, sn_graph_timing *how, sn_prog_state *st,
                             void *const *inputs, void *const *outputs);
/* A launch or a copy of a run, in their order: when it began, from the beginning of the run on, and how long it took. */
typedef struct sn_prog_event {
    uint32_t kernel; /* UINT32_MAX: a copy, */
    int64_t bytes;   /* of so many */
    double start_us, us;
} sn_prog_event;
typedef struct sn_prog_profile_run {
    sn_prog_event *at;
    uint32_t n;
    double us; /* of all */
} sn_prog_profile_run;
/* Of so many runs (1 or more) the one that took least, step by step, in the arena (profile.c). */
sn_status sn_prog_profile(sn_prog_profile_run *out, uint32_t runs, sn_prog_state *st, void *const *inputs,
                          void *const *outputs, void *stream, sn_arena *arena);
/* Rate of a large copy on the machine of a state, read plus written, in bytes per second: of a device, or of the CPU by the
 * program's threads. */
sn_status sn_prog_copy_rate(double *out, sn_prog_state *st);
/* Kernels and copies that a run hands to the device. */
uint32_t sn_prog_launches(const sn_prog *p);
/* Median device-to-device copy rate, read plus written, in bytes per second. */
sn_status sn_cuda_copy_rate(double *out, sn_cuda *cu);

#endif
