/* prog.h: a loaded program and the state of its runs, shared by prog.c (load), state.c, exec.c (run) and time.c.
 * Private to runtime/. */
#ifndef SN_RUNTIME_PROG_H
#define SN_RUNTIME_PROG_H

#include "runtime/cblas.h"
#include "runtime/cublas.h"
#include "runtime/cudnn.h"
#include "runtime/cuda_module.h"
#include "runtime/threads.h"

/* A parameter of a kernel, for those who watch runs. */
typedef struct sn_rt_formal {
    sn_dtype dtype;
    sn_role role;
    uint32_t rank;
    int64_t shape[SN_MAX_RANK], numel;
} sn_rt_formal;

/* One loaded kernel. */
typedef struct sn_code {
    sn_rt_kernel k; /* after loading its ptx is gone; the name is the module's */
    const char *note, *from;
    uint32_t n_params;
    sn_rt_formal *formals; /* by parameter */
    size_t kept_offset;    /* of its kept memory in that of a state */
    sn_cublas_call *call;  /* GPU: made ready for the library that runs it; NULL: it is none of cuBLASLt's ... */
    sn_cudnn_call *conv;   /* ... or of cuDNN's */
} sn_code;

/* An input or output buffer, and what the caller's storage for it has to be. */
typedef struct sn_rt_io {
    sn_buf buf;
    bool is_input;
    uint32_t number, align; /* among the inputs, or the outputs; bytes, 0: any */
    size_t bytes;
    const char *name;
} sn_rt_io;

/* An argument of a call: so many bytes into the place of a buffer. */
typedef struct sn_rt_arg {
    sn_buf buf;
    int64_t bytes;
} sn_rt_arg;

/* A wrapper step with its sizes as numbers. */
typedef struct sn_rt_step {
    sn_step_kind kind;
    sn_buf buf, from;
    uint32_t kernel;       /* CALL: position in m->kernels */
    const sn_rt_arg *args; /* CALL */
    uint32_t n_args;
    const char *
        from_here; /* CALL: the nodes that this call is of, where others run its kernel, too; NULL: those of the kernel */
    uint32_t io;   /* CHECK: position in ios */
    uint32_t end; /* REPEAT, ELSE: position of its end; IF: of its else, or its end */
    int64_t size, offset;
} sn_rt_step;

/* Nothing changes after loading, so that several runs may read it at once. The module may change: runs do not read
 * it. */
struct sn_prog {
    sn_env *env;
    sn_module *m;
    sn_cuda *cu;   /* NULL: CPU */
    sn_pool *pool; /* CPU with a grid of several blocks, else NULL; serves all states */
    sn_rt_wrapper wrapper;
    sn_arena arena; /* everything below that is an array of the host */
    uint32_t n_codes, n_steps, n_ios, n_consts;
    uint32_t n_prepare;   /* of the steps: the first ones, which ran when the program was loaded */
    uint32_t n_places;    /* buffer ids */
    uint32_t most_params; /* of a kernel; at least 1 */
    uint32_t most_maps;   /* of a kernel */
    uint32_t n_maps;      /* of all calls that a run makes, up to a limit */
    sn_code *codes;
    sn_cuda_code *cuda_codes; /* GPU: by kernel */
    sn_rt_step *steps;
    sn_rt_io *ios;
    uint32_t *io_of;      /* by buffer id: position in ios */
    const char **names;   /* by buffer id */
    void **place;         /* by buffer id: constants and what was prepared; of others whatever says that they get one */
    void **consts;        /* by order of the CONST buffers; behind them the prepared memory */
    void *const_block[2]; /* of those that runs read; of those that the prepare part alone reads, until it has run */
    void *prepared;       /* what the prepare part leaves for all runs */
    sn_prog_state *preparer; /* that part's state, while it runs */
    size_t workspace_size, const_size[2], prepared_size, kept_size;
    const sn_cublas *cublas; /* GPU: those of the device, where a kernel wants them */
    const sn_cudnn *cudnn;
    sn_cblas cblas;      /* CPU: opened where a kernel wants it */
    size_t library_size; /* workspace of the libraries: the most that a kernel wants */
    uint32_t threads;    /* of the CPU */
    sn_prog_times times;
    double *picked_us; /* by kernel: of one run, where it was timed for a choice; NULL: none was */
    sn_rt_pick *picks;
    uint32_t n_picks;
    struct sn_debug *debug; /* NULL: runs say nothing */
};

/* A tensor map of a call, as it was encoded last. */
typedef struct sn_rt_map {
    CUtensorMap map;
    const void *address;     /* the argument that it is for; NULL: not encoded yet */
    const sn_tensor_map *of; /* whose form it has */
} sn_rt_map;

/* watch.c: who looks at a run, and how far it is. */
typedef struct sn_watch {
    const sn_watcher *by;
    uint32_t calls;     /* so far */
    sn_watched *before; /* by parameter of the current call: as it was, of what is written a copy */
    bool *had, *marked; /* by parameter: was there what the run is to stop at? Is it something else meanwhile? */
} sn_watch;
/* Before the steps of a run. */
sn_status sn_watch_begin(sn_prog_state *st);
/* A call of the interpreter, whose parameters are in st->params, with its arguments before and behind it. */
sn_status sn_watch_call(sn_prog_state *st, int (*launch)(void *, uint32_t, void *const *), const sn_rt_step *s);

/* profile.c: moments of a run, the first in front of it, the others behind a call or a copy. */
typedef struct sn_clock_mark {
    const sn_rt_step *step;
    CUevent event; /* on a device */
    double us;
} sn_clock_mark;
typedef struct sn_run_clock {
    sn_clock_mark *at;
    uint32_t n, most; /* of the current run; how many there is room for: those beyond only count */
} sn_run_clock;
/* The interpreter is behind step s, or (NULL) at the start of a run. Allocates nothing. */
sn_status sn_clock_mark_step(sn_prog_state *st, const sn_rt_step *s);

/* maker.c: "; it is made by log, of %s" of element `at` of parameter i that a call has written, from what its parameters were before;
 * "" where that cannot be said. */
const char *sn_watch_maker(const sn_prog_state *st, const sn_rt_step *s, uint32_t i, int64_t at, sn_arena *a);

/* debug.c: a run of a program that says what it does. */
typedef struct sn_debug sn_debug;
sn_status sn_debug_run(sn_prog_state *st, void *const *inputs, void *const *outputs, void *stream);

/* What is done with the launches and copies of a run, and how it sees a bool that one has made; user is the state. */
typedef struct sn_machine {
    int (*launch)(void *user, uint32_t kernel, void *const *params);
    int (*copy)(void *user, void *to, const void *from, int64_t size);
    int (*test)(void *user, const void *flag, int *holds);
} sn_machine;

/* A launch, a copy or a call of a library in the CUDA graph of a state. */
typedef struct sn_graph_step {
    CUgraphNode node;
    uint32_t kernel; /* SN_GRAPH_COPY: a copy, whose addresses are to and from */
    uint32_t first;  /* of its addresses */
    uint32_t row;    /* the first step that may be done beside it: itself, but for copies */
    int64_t size;    /* of a copy */
} sn_graph_step;
enum { SN_GRAPH_COPY = UINT32_MAX };

/* run_graph.c: the CUDA graph that runs of a state launch. What is sized here is so when the state is made. */
typedef struct sn_run_graphs {
    sn_graphs_mode mode;
    bool useless;    /* nothing to launch, or it could not be made: runs go plainly */
    bool has_run;    /* io_at are the addresses of the last run ... */
    bool is_current; /* ... and the graph stands for them */
    CUgraph graph;
    CUgraphExec exec;     /* NULL: there is no graph now */
    CUstream stream;      /* that calls of libraries are captured on; made for the first one */
    sn_graph_step *steps; /* in the order of the run */
    void **addresses;     /* of all steps */
    uint32_t n, n_addresses, room, room_addresses;
    uint32_t at;         /* the next step, while a run is gone through */
    void **io_at;        /* by position in the program's ios */
    CUgraphNode *before; /* scratch: the nodes that a new one depends on */
} sn_run_graphs;

struct sn_prog_state {
    const sn_prog *p;
    sn_env *env; /* where its runs fail */
    sn_cuda *cu; /* that of the program, or a share of it; NULL: CPU */
    sn_arena arena;
    void **place;           /* by buffer id: storage in the current run; constants are there from the start */
    void **params;          /* scratch: parameters of a call, by the interpreter or with kept memory behind them */
    void **param_addresses; /* scratch: what cuLaunchKernel wants */
    void *stream;           /* of the current run */
    void *workspace;
    bool is_lent;      /* workspace and library_workspace are memory of the caller */
    char *kept;        /* memory of all kernels that lasts between runs */
    void **keeps;      /* by kernel: its part of it */
    sn_rt_map *maps;   /* of all calls, in the order in which a run makes them */
    uint32_t next_map; /* of the current run */
    bool follows;      /* a kernel of the current run has been launched */
    void *library_workspace;
    void **ops;          /* by kernel: its operation of the library, where it has a bias */
    void *cudnn_handle;  /* where a kernel wants it */
    sn_watch *watch;     /* NULL: nobody looks at the current run */
    sn_run_clock *clock; /* NULL: nobody times its steps */
    sn_run_graphs graph;
};

/* pick.c: of kernels with alternatives the fastest takes the place of the first. */
sn_status sn_prog_pick(sn_prog *p);
/* exec.c: sn_prog_run through the interpreter, which marks this clock. */
sn_status sn_prog_run_timed(sn_prog_state *st, void *const *inputs, void *const *outputs, void *stream,
                            sn_run_clock *clock);
/* exec.c: one launch with these arguments, on the stream of the state. The context of the device is current. */
sn_status sn_prog_launch(sn_prog_state *st, uint32_t kernel, void *const *params);
/* exec.c, for those who bring a machine of their own. Go through the steps of a run; queue them on the stream of the state. */
sn_status sn_exec_steps(sn_prog_state *st, const sn_machine *on, void *const *inputs, void *const *outputs,
                        bool use_interpreter);
sn_status sn_exec_plainly(sn_prog_state *st, void *const *inputs, void *const *outputs, bool use_interpreter);
/* What cuLaunchKernel is to be given goes to param_addresses; calls have to be made in the order of the run. */
sn_status sn_exec_params(sn_prog_state *st, uint32_t kernel, void *const *params);
/* Queue a call of a library. */
sn_status sn_exec_call(sn_prog_state *st, uint32_t kernel, void *const *params);
/* run_graph.c: is the stream of the state being captured by the caller? */
bool sn_exec_is_captured(const sn_prog_state *st);
/* May a kernel be set up before the one in front of it has ended? */
bool sn_exec_early(const sn_cuda *cu);
/* run_graph.c: arrays of a new state; a run, in the context of the device and on the stream of the state; the graph goes. */
void sn_run_graph_init(sn_prog_state *st);
sn_status sn_run_graph(sn_prog_state *st, void *const *inputs, void *const *outputs, bool use_interpreter);
void sn_run_graph_drop(sn_prog_state *st);
/* exec.c: the steps of the prepare part. */
sn_status sn_prog_prepare(sn_prog_state *st);

static inline void *sn_io_address(const sn_rt_io *io, void *const *inputs, void *const *outputs) {
    return (io->is_input ? inputs : outputs)[io->number];
}

#endif
