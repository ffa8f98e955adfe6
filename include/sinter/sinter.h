/* sinter.h: the whole public interface of Sinter, a JIT compiler for tensor graphs.
 *
 * A program builds a graph (or reads one from text), compiles it for a device and runs it:
 *
 *     sn_context *ctx;      sn_context_create(&ctx, NULL);
 *     sn_graph *g;          sn_graph_create(&g, ctx, "f");
 *     sn_node x = sn_input(g, "x", SN_F32, SN_LIST(4, 1000));
 *     sn_output(g, "y", sn_softmax(g, x, 1));
 *     sn_program *p;        if (sn_compile(&p, g, NULL)) puts(sn_error(ctx));
 *     sn_run(p, inputs, outputs, NULL);
 *
 * Errors. A call that can fail returns a sn_status; SN_OK is 0. sn_error(ctx) is one line on what went wrong in the last
 * call that failed. Builder functions return a node; a failure gives a node with id 0, and a node with id 0 as operand
 * gives id 0 again. The graph remembers its first failure and sn_compile reports it, so one check there is enough.
 * Nothing here prints, exits or aborts.
 *
 * NULL. Where a comment does not give it a meaning, NULL for an object, a text, a list or an out pointer is a failure:
 * SN_ERROR_ARGUMENT, a node of id 0, 0 or "", as the function returns. sn_error names the argument; where the object is
 * NULL, there is no context to ask. So a program that forgets to check sn_graph_create or sn_compile, whose `out` is
 * NULL after a failure, gets failures and no crash.
 *
 * Ownership. An `out` pointer belongs to the caller, who passes it to the matching destroy function; a returned pointer
 * is borrowed and lives as long as the object it came from. Destroy programs, graphs and tensors before their context, run
 * states before their program. Destroying NULL is allowed. A program needs its graph no longer once it is compiled.
 * Values and sizes belong to their graph, tensors to their context: those of another one are refused.
 *
 * Threads. A context and everything made from it is used by one thread at a time. Different contexts are independent. Run
 * states are apart: different threads may use different ones at the same time, also of one program, and while another thread
 * uses its context.
 *
 * Fork. A child of fork goes on with contexts, programs and run states of the CPU, and destroys its copies; threads that it needs are
 * made there. At the fork no call and no run is under way in another thread (that is the parent's alone). What is on a CUDA device
 * is lost to the child, as the driver has it.
 *
 * Callbacks. Functions of the caller that Sinter calls (realloc_fn, log, text_output, deleters of DLPack) return: no exception
 * and no longjmp leaves them. They do not use the context that calls them: a call that can fail is refused there, with
 * SN_ERROR_ARGUMENT or a node with id 0; sn_error belongs to the call that is still running.
 *
 * Locale. Numbers of texts, messages and files are those of the C locale, whatever the process or the thread has set; what
 * it has set stays, and callbacks see it.
 *
 * Shapes. Sizes, strides and offsets count elements. A list of sizes is passed as its length and a pointer;
 * SN_LIST(2, 3) writes both. Rank is at most 8.
 *
 * Documents that are named here (docs/IR.md) and the examples are in share/doc/sinter of an installation; tables (ops.def) lie
 * beside this header.
 *
 * Options structs begin with struct_size, set to sizeof; a zeroed rest and NULL in place of the struct mean defaults.
 */
#ifndef SINTER_SINTER_H
#define SINTER_SINTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "metric.h"
#include "profile.h"
#include "program.h"
#include "status.h"
#include "tuning.h"
#include "watched.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SN_API __attribute__((visibility("default")))
#else
#define SN_API
#endif

#define SINTER_VERSION "0.1.0"

/* Length and pointer of a list of integers: SN_LIST(8, 128). An empty list is `0, NULL`. It lives as long as the block that it
 * stands in; in C++ (11 and later) to the end of the expression, so that it is for arguments of a call. */
#ifdef __cplusplus
extern "C++" {
template <unsigned n> struct sn_list_values {
    int64_t at[n];
    const int64_t *begin() const { return at; }
};
template <typename... T> inline sn_list_values<sizeof...(T)> sn_list_of(T... values) {
    return {{static_cast<int64_t>(values)...}};
}
}
#define SN_LIST(...)                                                                                                   \
    static_cast<unsigned>(sizeof(sn_list_of(__VA_ARGS__)) / sizeof(int64_t)), sn_list_of(__VA_ARGS__).begin()
#else
#define SN_LIST(...) (unsigned)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}
#endif

typedef struct sn_context sn_context;
typedef struct sn_graph sn_graph;
typedef struct sn_program sn_program;
typedef struct sn_tensor sn_tensor;
typedef struct sn_weights sn_weights;
typedef struct sn_run_state sn_run_state;

/* A value of a graph. id 0: none (building it failed). Only meaningful together with its graph, whose mark it has. */
typedef struct sn_node {
    unsigned id, graph;
} sn_node;

/* Named elements on the host: a tensor of a file, a weight, the value of an input. */
typedef struct sn_weight_info {
    const char *name;
    sn_dtype dtype;   /* SN_N_DTYPES: a type that Sinter has not */
    const char *type; /* as the file spells it: "F8_E4M3", "<f4". Not read by sn_weights_save */
    unsigned rank;
    int64_t shape[8];
    const void *data; /* elements in row-major order; maybe at an odd address, for .safetensors promises no alignment */
    size_t size;      /* their bytes */
} sn_weight_info;

/* ---- context ---- */

typedef struct sn_context_options {
    size_t struct_size;
    /* Memory hook: size 0 frees p; p NULL allocates; otherwise realloc. A NULL result for size > 0 means out of memory
     * and ends the running call with SN_ERROR_MEMORY. NULL: malloc and free. sn_compile calls it from threads of its own
     * too, never two at a time; threads with run states call it at the same time as others. The memory of LLVM, the driver
     * and the libraries that read files is theirs. */
    void *(*realloc_fn)(void *user, void *p, size_t size);
    void *realloc_user;
    /* Receives what the print options of sn_compile ask for (dumps, remarks, timings). NULL: dropped. */
    void (*log)(void *user, const char *text);
    void *log_user;
    /* Device memory from the caller, for all that the context and what is made in it have there; both or none (NULL: the driver's).
     * Of the CUDA device of that ordinal, whose primary context is current. device_alloc: size > 0 bytes from a multiple of 256 on;
     * NULL: SN_ERROR_DEVICE_MEMORY. device_free: work queued on the streams of runs may still use p, which is free behind that work.
     * Steady runs call neither. Threads with run states call both at the same time as others; neither may call Sinter. */
    void *(*device_alloc)(void *user, int device, size_t size);
    void (*device_free)(void *user, int device, void *p, size_t size);
    void *device_user;
    /* The caller's threads: run task(data, k) once for each k below count, in any order, at once or one after the other, on any
     * threads, and return when all are done. Used for the CPU kernels of all programs of the context and for compiling, in place of
     * threads of our own; sn_compile_options.threads says for how many there is work to be cut (1: it is not called). Threads with run
     * states call it at the same time as others, so it has to bear that; tasks do not call it, and
     * do not wait for each other. Compiling wants 1 MB of stack. NULL: threads of our own. */
    void (*parallel_for)(void *user, void (*task)(void *data, size_t k), void *data, size_t count);
    void *parallel_user;
} sn_context_options;

/* Version of the library: SINTER_VERSION of its header. */
SN_API const char *sn_version(void);

/* Fails with SN_ERROR_ARGUMENT (struct_size; one of device_alloc and device_free without the other) or SN_ERROR_MEMORY; *out is NULL then. */
SN_API sn_status sn_context_create(sn_context **out, const sn_context_options *options);
SN_API void sn_context_destroy(sn_context *ctx);

/* One line about the last call that failed, "" when the last call that can fail did not. */
SN_API const char *sn_error(const sn_context *ctx);
/* Its status. */
SN_API sn_status sn_error_status(const sn_context *ctx);
/* Forget it. Every call that can fail does so when it starts. */
SN_API void sn_error_clear(sn_context *ctx);
/* "argument", "device memory", ... */
SN_API const char *sn_status_name(sn_status status);

/* Give back a text that a function of the library returned through `char **out`, before its context is destroyed. */
SN_API void sn_free(sn_context *ctx, char *text);

/* "f32" and the bytes of one element. */
SN_API const char *sn_dtype_name(sn_dtype dtype);
SN_API size_t sn_dtype_size(sn_dtype dtype);

/* ---- devices ---- */

/* Where tensors live and programs run: SN_CPU or the ordinal of a CUDA device. */
enum { SN_CPU = -1 };

/* Number of CUDA devices. 0 and a failure with the reason where there is no driver or no device. */
SN_API sn_status sn_device_count(unsigned *out, sn_context *ctx);
/* "NVIDIA H200", "sm_90"; borrowed from the context. For SN_CPU: "cpu", "host". */
SN_API sn_status sn_device_info(const char **name, const char **target, sn_context *ctx, int device);
/* The libraries that a kernel may be left to where it is a matrix product or a convolution and its schedule says so:
 * "cuBLASLt 13.1.0, cuDNN 9.10.2" of a device (libcublasLt.so.13 or .12; libcudnn.so.9 or .8), "OpenBLAS 0.3.21" of the CPU
 * (libopenblas.so.0, MKL, BLIS or libblas.so.3; there is none of convolutions). Opens them. Of two of which one is missing
 * the text says why. SN_ERROR_UNSUPPORTED where there is none, which is no harm: then Sinter's own kernels do all. Borrowed
 * from the context. */
SN_API sn_status sn_device_library(const char **out, sn_context *ctx, int device);
/* Rate of a large copy inside the device, read plus written, in bytes per second. Takes some milliseconds. */
SN_API sn_status sn_device_copy_rate(double *out, sn_context *ctx, int device);
/* Wait for all work on a stream (a CUstream; NULL: the default stream). On SN_CPU: nothing to wait for. */
SN_API sn_status sn_device_sync(sn_context *ctx, int device, void *stream);

/* ---- graphs ---- */

/* An empty graph. The name is copied and shows in kernels and dumps; NULL: "graph". */
SN_API sn_status sn_graph_create(sn_graph **out, sn_context *ctx, const char *name);
/* A graph from .sn text (docs/IR.md), of `size` bytes. `name` stands for the text in messages: "name:3:7: ..."; NULL:
 * "text". SN_ERROR_SYNTAX and SN_ERROR_TYPE, with line and column, where it is none. */
SN_API sn_status sn_graph_from_text(sn_graph **out, sn_context *ctx, const char *name, const char *text, size_t size);
/* The same from a file. A text that names a file of weights gets their elements from there. SN_ERROR_FILE where one of
 * the two cannot be read. */
SN_API sn_status sn_graph_from_file(sn_graph **out, sn_context *ctx, const char *path);
SN_API void sn_graph_destroy(sn_graph *g);
/* The graph as .sn text, as far as it is described; sn_free it. Text without outputs (no `return`) can be looked at, but not
 * be read again. */
SN_API sn_status sn_graph_text(char **out, sn_graph *g);
/* The graph's first failure, SN_OK when all went well, and its text, "" when all went well. */
SN_API sn_status sn_graph_status(const sn_graph *g);
SN_API const char *sn_graph_error(const sn_graph *g);

/* Inputs and outputs are numbered from 0. How many there are, and the number of one by its name. Fails with the names
 * nearest to it when there is none; *out is UINT_MAX then, which is no port. */
SN_API unsigned sn_graph_input_count(const sn_graph *g);
SN_API unsigned sn_graph_output_count(const sn_graph *g);
SN_API sn_status sn_graph_find_input(unsigned *out, const sn_graph *g, const char *name);
SN_API sn_status sn_graph_find_output(unsigned *out, const sn_graph *g, const char *name);

/* A size that is known when the graph is compiled: a name ("N") or an expression over names ("2*N + 1"). The result, and
 * what sn_node_shape says of such a size, stands for it in every shape, stride and offset of this graph. It is no number
 * to calculate with: sn_dim(g, "N") + 1 is refused where it is used, sn_dim(g, "N + 1") is meant. Beside names of sizes
 * a number is at most 2^37 (from the first of them on). 0 and a failure when the expression is malformed. */
SN_API int64_t sn_dim(sn_graph *g, const char *expression);
/* The way back, for graphs that somebody else made: "N" or "2*N + 1" of such a size in a port or a shape, "48" of a number. So a program
 * learns what the sizes are called that it has to give. sn_free it. */
SN_API sn_status sn_size_text(char **out, sn_graph *g, int64_t size);

/* Element type (SN_N_DTYPES for a failed node), rank and shape (up to 8 sizes) of a value. */
SN_API sn_dtype sn_node_dtype(const sn_graph *g, sn_node x);
SN_API unsigned sn_node_rank(const sn_graph *g, sn_node x);
SN_API void sn_node_shape(int64_t *out, const sn_graph *g, sn_node x);

/* A name for a value, for dumps and notes. The first one stays. Returns x. */
SN_API sn_node sn_named(sn_graph *g, sn_node x, const char *name);

/* What is built from now on comes from that line of that file: kernels that it goes into, and messages about them, name it. file
 * NULL: it comes from nowhere. Returns g, so that sn_add(SN_HERE(g), x, y) says where it stands. */
SN_API sn_graph *sn_at(sn_graph *g, const char *file, int line);
#define SN_HERE(g) sn_at((g), __FILE__, __LINE__)

/* ---- sources ---- */

/* The next input, contiguous in row-major order. Inputs are numbered from 0 in the order of their creation. */
SN_API sn_node sn_input(sn_graph *g, const char *name, sn_dtype dtype, unsigned rank, const int64_t *shape);
/* An input with strides of its own (one per axis) and an offset of its first element. A run takes tensors with the same
 * strides and the same or a larger offset, if what the offset is larger by keeps the alignment (sn_run). */
SN_API sn_node sn_input_strided(sn_graph *g, const char *name, sn_dtype dtype, unsigned rank, const int64_t *shape,
                                const int64_t *strides, int64_t offset);
/* Runs may leave this input out (NULL for its tensor in sn_run): it has these elements then. `elements` are in row-major order, in
 * the storage format of its dtype, and copied; `size` bytes of all of them, or of one that all elements equal. An input with strides
 * of its own has no default (SN_ERROR_ARGUMENT, as for another size or an element that the dtype has not); one that an output
 * writes has to be given all the same. The last call counts. */
SN_API sn_status sn_input_default(sn_graph *g, sn_node input, const void *elements, size_t size);
/* Every element equals value. One that dtype has not is refused: 2.5, 300 or nan in an i8, 70000 in an f16; what lies between
 * two floats is rounded. */
SN_API sn_node sn_full(sn_graph *g, sn_dtype dtype, double value, unsigned rank, const int64_t *shape);
/* A rank-0 value, which broadcasts to any shape; sn_number_like takes the dtype of x. */
SN_API sn_node sn_number(sn_graph *g, sn_dtype dtype, double value);
SN_API sn_node sn_number_like(sn_graph *g, sn_node x, double value);
/* Literal elements in row-major order, in the storage format of dtype; copied. All sizes are numbers. */
SN_API sn_node sn_constant(sn_graph *g, sn_dtype dtype, const void *data, unsigned rank, const int64_t *shape);
/* Elements that stay outside of the graph, known to its text by the name alone: for the weights of models, which are large.
 * data is borrowed until the graph and the programs compiled from it are destroyed; NULL: attached later. The same name
 * again is the same weight. All sizes are numbers. */
SN_API sn_node sn_weight(sn_graph *g, const char *name, sn_dtype dtype, const void *data, unsigned rank,
                         const int64_t *shape);
/* The elements of the weight of that name, row-major in storage format, `size` bytes; borrowed as above. */
SN_API sn_status sn_graph_attach_weight(sn_graph *g, const char *name, const void *data, size_t size);
/* The elements of all weights from a file (sn_weights), which the graph and its programs keep open. A failure names those
 * that are missing or do not fit, and attaches none; one that is attached may be missing. */
SN_API sn_status sn_graph_load_weights(sn_graph *g, const char *path);
/* 0, 1, 2, ... along one axis. */
SN_API sn_node sn_iota(sn_graph *g, sn_dtype dtype, int64_t axis, unsigned rank, const int64_t *shape);

/* ---- elementwise ----
 * One function per elementwise row of ops.def: sn_node sn_exp(sn_graph *g, sn_node x) of class UNARY and TEST, and
 * sn_node sn_add(sn_graph *g, sn_node x, sn_node y) of class BINARY and COMPARE. Two operands broadcast as in numpy and
 * their dtypes promote as in PyTorch, and as in numpy where PyTorch has no answer: u16, u32 and u64 with a type that has a sign
 * give the narrowest one that holds both, u64 gives f64. A value of rank 0 is weak, as in PyTorch: beside one that has axes it
 * decides the dtype only where its category (bool, integer, float) is the higher one, so that f16[3] plus an f32 number stays
 * f16. sn_where does likewise. TEST and COMPARE give bool. Floats narrower than f32 are computed in f32. What only
 * floats have (exp, sqrt, ...) refuses integers: cast them. What each computes, edge cases included, is in ops.def
 * (`sinter list ops`). */
#define SN_DECLARE_ONE(f, ID) SN_API sn_node f(sn_graph *g, sn_node x);
#define SN_DECLARE_TWO(f, ID) SN_API sn_node f(sn_graph *g, sn_node x, sn_node y);
/* What a row of each class is for: one(function, ID), two(function, ID), or nothing. */
#define SN_ELEMENTWISE_UNARY(one, two, f, ID) one(f, ID)
#define SN_ELEMENTWISE_TEST(one, two, f, ID) one(f, ID)
#define SN_ELEMENTWISE_BINARY(one, two, f, ID) two(f, ID)
#define SN_ELEMENTWISE_COMPARE(one, two, f, ID) two(f, ID)
#define SN_ELEMENTWISE_SOURCE(one, two, f, ID)
#define SN_ELEMENTWISE_ELEMENT(one, two, f, ID)
#define SN_ELEMENTWISE_REDUCE(one, two, f, ID)
#define SN_ELEMENTWISE_SCAN(one, two, f, ID)
#define SN_ELEMENTWISE_VIEW(one, two, f, ID)
#define SN_ELEMENTWISE_MOVE(one, two, f, ID)
#define SN_ELEMENTWISE_CONTRACT(one, two, f, ID)
#define SN_ELEMENTWISE_COMPOSITE(one, two, f, ID)
#define SN_ELEMENTWISE_REPEAT(one, two, f, ID)
#define SN_OP(ID, name, cls, n_in, attrs, lop, doc)                                                                    \
    SN_ELEMENTWISE_##cls(SN_DECLARE_ONE, SN_DECLARE_TWO, sn_##name, ID)
#include "ops.def"
#undef SN_OP
#undef SN_DECLARE_ONE
#undef SN_DECLARE_TWO

/* x where the condition (bool) holds, else y; all three broadcast. */
SN_API sn_node sn_where(sn_graph *g, sn_node condition, sn_node x, sn_node y);
/* Convert. Float to integer truncates and saturates, nan gives 0; to bool: x != 0. */
SN_API sn_node sn_cast(sn_graph *g, sn_node x, sn_dtype dtype);
/* Limit to min .. max; an infinite limit is none; nan stays nan. */
SN_API sn_node sn_clamp(sn_graph *g, sn_node x, double min, double max);

/* ---- reductions ----
 * Over the listed axes (negative ones count from the end; none listed: all axes). keepdim keeps them with size 1. Sums
 * and products of integers and bool are i64 (those of u64 too: modulo 2^64, for a cast to u64 to read); argmax and
 * argmin give i64, any and all bool, everything else the dtype of x. Means, variances and logsumexp want floats. amax,
 * amin, argmax and argmin of no elements are refused. */
#define SN_REDUCE_FUNCTIONS(X)                                                                                         \
    X(sn_sum, SUM) X(sn_prod, PROD) X(sn_mean, MEAN) X(sn_amax, AMAX) X(sn_amin, AMIN) X(sn_argmax, ARGMAX)            \
    X(sn_argmin, ARGMIN) X(sn_any, ANY) X(sn_all, ALL) X(sn_logsumexp, LOGSUMEXP)
#define SN_DECLARE_REDUCE(f, ID)                                                                                       \
    SN_API sn_node f(sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes, bool keepdim);
SN_REDUCE_FUNCTIONS(SN_DECLARE_REDUCE)
#undef SN_DECLARE_REDUCE
/* sum((x - mean)^2) / (count - correction). correction 1: unbiased; 0: of the population. */
SN_API sn_node sn_var(sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes, bool keepdim, int64_t correction);
/* Both at once; either out pointer may be NULL. */
SN_API void sn_var_mean(sn_node *var, sn_node *mean, sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes,
                        bool keepdim, int64_t correction);

/* ---- scans ----
 * Element i along the axis combines elements 0 .. i of x (reverse: i .. last); exclusive leaves element i itself out and
 * begins with 0, 1, or the lowest or highest value. Sums and products of integers and bool are i64, those of
 * u64 too: modulo 2^64, for a cast to u64 to read. */
#define SN_SCAN_FUNCTIONS(X) X(sn_cumsum, CUMSUM) X(sn_cumprod, CUMPROD) X(sn_cummax, CUMMAX) X(sn_cummin, CUMMIN)
#define SN_DECLARE_SCAN(f, ID) SN_API sn_node f(sn_graph *g, sn_node x, int64_t axis, bool exclusive, bool reverse);
SN_SCAN_FUNCTIONS(SN_DECLARE_SCAN)
#undef SN_DECLARE_SCAN

/* ---- views: they move no data ---- */

/* The same elements in row-major order. One size may be -1: it follows from the others. */
SN_API sn_node sn_reshape(sn_graph *g, sn_node x, unsigned rank, const int64_t *shape);
/* Axis k of the result is axis perm[k] of x. */
SN_API sn_node sn_permute(sn_graph *g, sn_node x, unsigned rank, const int64_t *perm);
/* Swap two axes. */
SN_API sn_node sn_transpose(sn_graph *g, sn_node x, int64_t axis_a, int64_t axis_b);
/* Repeat along axes of size 1 and new leading axes. -1 keeps the size. */
SN_API sn_node sn_expand(sn_graph *g, sn_node x, unsigned rank, const int64_t *shape);
/* Drop axes of size 1 (none listed: all whose size is the number 1); insert axes of size 1 at these positions of the result. */
SN_API sn_node sn_squeeze(sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes);
SN_API sn_node sn_unsqueeze(sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes);
/* Elements start, start+step, ... before stop of one axis, as in numpy: negative positions count from the end, all are clamped,
 * a negative step goes backwards. INT64_MAX as stop: to the end; with a negative step INT64_MIN: to the first element, and
 * INT64_MAX as start: from the last one. */
SN_API sn_node sn_slice(sn_graph *g, sn_node x, int64_t axis, int64_t start, int64_t stop, int64_t step);
/* The same of n axes at once. axes NULL: the first n. steps NULL: all are 1. */
SN_API sn_node sn_slices(sn_graph *g, sn_node x, unsigned n, const int64_t *axes, const int64_t *starts,
                         const int64_t *stops, const int64_t *steps);
/* Windows of `size` elements, `dilation` apart, that begin at 0, step, 2*step, ... of one axis: that axis counts them, a new
 * last one has their elements. Only whole windows, and at least one. Pooling reduces the last axes of such views:
 * sn_amax(sn_unfold(sn_unfold(sn_pad(x, ..), 2, ..), 3, ..), axes 4 and 5). */
SN_API sn_node sn_unfold(sn_graph *g, sn_node x, int64_t axis, int64_t size, int64_t step, int64_t dilation);
/* Reverse along the axes. */
SN_API sn_node sn_flip(sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes);

/* ---- moves ---- */

/* Add low[k] and high[k] elements of `value` around axis k (rank numbers each); negative numbers crop. */
SN_API sn_node sn_pad(sn_graph *g, sn_node x, const int64_t *low, const int64_t *high, double value);
/* n values (at least one) behind each other along one axis, the other sizes being equal; dtypes promote as those of
 * sn_add. */
SN_API sn_node sn_concat(sn_graph *g, unsigned n, const sn_node *x, int64_t axis);
/* out[.., i, ..] = x[.., index[.., i, ..], ..] along the axis; equal ranks. An index is i64, i32, u64 or u32; a negative
 * one counts from the end. One outside the axis is the caller's mistake: kernels read the nearest element, the
 * evaluator fails. An axis without elements has none to read: refused, unless the result has no elements either. */
SN_API sn_node sn_gather(sn_graph *g, sn_node x, sn_node index, int64_t axis);
/* The axis of x is replaced by the axes of index. */
SN_API sn_node sn_index_select(sn_graph *g, sn_node x, sn_node index, int64_t axis);
/* Rows of table[V, D]: result shape is that of index, then D. */
SN_API sn_node sn_embedding(sn_graph *g, sn_node table, sn_node index);

/* x[R, ..] with row index[m] replaced by updates[m, ..]; a negative index counts from the end, and a row outside is dropped.
 * Two equal indices are the caller's mistake: one of them wins. With a combiner every update of a row counts: x[r] + (the
 * sum of all updates[m] with index[m] = r), and so on; they are combined by a fixed tree in their order, so that the same
 * operands give the same bits on each run (halves are summed and multiplied in f32). */
#define SN_SCATTER_FUNCTIONS(X)                                                                                        \
    X(sn_scatter, SCATTER)                                                                                             \
    X(sn_scatter_sum, SCATTER_SUM)                                                                                     \
    X(sn_scatter_prod, SCATTER_PROD) X(sn_scatter_max, SCATTER_MAX) X(sn_scatter_min, SCATTER_MIN)
#define SN_DECLARE_SCATTER(f, ID) SN_API sn_node f(sn_graph *g, sn_node x, sn_node index, sn_node updates);
SN_SCATTER_FUNCTIONS(SN_DECLARE_SCATTER)
#undef SN_DECLARE_SCATTER

/* ---- sorting ----
 * Along one axis, in order of the values, stable: equal elements keep their order, also with largest first. nan counts as the
 * largest value (as in PyTorch), -0 equals 0. Positions are i64. Either out pointer may be NULL. */

SN_API void sn_sort(sn_node *values, sn_node *positions, sn_graph *g, sn_node x, int64_t axis, bool descending);
SN_API sn_node sn_argsort(sn_graph *g, sn_node x, int64_t axis, bool descending);
/* The k largest elements, largest first; or the k smallest, smallest first. */
SN_API void sn_topk(sn_node *values, sn_node *positions, sn_graph *g, sn_node x, int64_t k, int64_t axis, bool largest);

/* ---- repeats and branches: loops that run, and branches that are taken, when the program runs ---- */
#include "repeat.h"
#include "cond.h"

/* ---- random numbers ----
 * Philox4x32-10, a counter-based generator: the numbers are a function of seed and offset (i64 values of rank 0: inputs that
 * change from run to run, or sn_number) and of the position alone. Equal calls give equal numbers, in a forward and a backward
 * graph too. Element i is word i mod 4 of the 64-bit counter offset + i div 4 under the key seed: a tensor of n elements uses
 * (n + 3) div 4 counters, by which offset has to grow for the next one. */

/* Floats: uniform in [0, 1), with as many bits as the significand holds (f64: 32). Integers: the 32 random bits (those that fit;
 * in i64 and u64 as 0 .. 2^32 - 1). */
SN_API sn_node sn_random(sn_graph *g, sn_dtype dtype, sn_node seed, sn_node offset, unsigned rank,
                         const int64_t *shape);
/* Normal numbers of mean 0 and variance 1 (Box and Muller), two words for each: uses (2n + 3) div 4 counters. */
SN_API sn_node sn_random_normal(sn_graph *g, sn_dtype dtype, sn_node seed, sn_node offset, unsigned rank,
                                const int64_t *shape);
/* x / (1 - p) where a random f32 is at least p, else 0. Its gradient is the same function of the gradient of its result. */
SN_API sn_node sn_dropout(sn_graph *g, sn_node x, double p, sn_node seed, sn_node offset);

/* ---- contractions ---- */

/* The precision of products of f32 is a word; NULL leaves it to sn_compile_options.precision. It allows kernels to take factors
 * with fewer bits, which tensor cores multiply; they need not, and on the CPU they do not. Each product x*y in a sum may then
 * be off, besides what f32 itself rounds, by this share of |x*y|:
 *   "exact"  0: as good as f32 arithmetic, infinities, nan and numbers near the ends of the range included
 *   "high"   2^-15, mostly 2^-18: a factor is the sum of two bf16
 *   "tf32"   2^-10: a factor is rounded to 11 significant bits
 *   "bf16"   2^-7: a factor is rounded to bf16, and infinite where that is
 * (rounding to n significant bits is off by at most 2^-n). For other element types the word means nothing. */
typedef struct sn_matmul_options {
    size_t struct_size;
    const char *precision;
} sn_matmul_options;
/* Matrix product of the last two axes, leading axes broadcast; rank 1 as in numpy. Both are of one dtype (not bool),
 * which the result has; integers wrap. */
SN_API sn_node sn_matmul(sn_graph *g, sn_node x, sn_node y);
SN_API sn_node sn_matmul_with(sn_graph *g, sn_node x, sn_node y, const sn_matmul_options *options);

/* Of convolutions with n = 1 to 3 spatial axes; entries after the first n (of padding: 2*n) are not read. */
typedef struct sn_conv_options {
    size_t struct_size;
    int64_t stride[3]; /* 0 means 1 */
    int64_t
        padding[6]; /* zeros added at all low ends, then at all high ends: top, left, bottom, right; negative crops */
    int64_t dilation[3];       /* distance between taps; 0 means 1 */
    int64_t groups;            /* 0 means 1 */
    const char *precision;     /* as of sn_matmul_options */
    int64_t input_dilation[3]; /* distance between elements of x, with zeros between them; 0 means 1 */
} sn_conv_options;
/* Cross-correlation, as in all frameworks, of x[N, C, S1..Sn] with w[O, C/groups, K1..Kn], both of one dtype (not bool):
 *
 *     y[n, o, q..] = sum over c, k.. of x~[n, (o div (O/groups)) * C/groups + c, q*stride + k*dilation - low ..] * w[o, c, k..]
 *
 * x~ is x with input_dilation - 1 zeros between its elements and zeros around them. The result is [N, O, Q1..Qn] with
 * Q = (low + (S - 1)*input_dilation + 1 + high - (K - 1)*dilation - 1) div stride + 1. */
SN_API sn_node sn_conv(sn_graph *g, sn_node x, sn_node w, const sn_conv_options *options);
/* The same, of two spatial axes. */
SN_API sn_node sn_conv2d(sn_graph *g, sn_node x, sn_node w, const sn_conv_options *options);
/* Transposed convolution of x[N, C, S..] with w[C, O/groups, K..], as in PyTorch: each element of x adds its product with
 * the kernel to the result, at distances of stride. The result is [N, O, Q..] with
 * Q = (S - 1)*stride - low - high + (K - 1)*dilation + 1 + output_padding. output_padding: n numbers, each below the
 * stride or the dilation of its axis; NULL: zeros. It is the convolution of x, whose elements are stride apart, with w
 * reversed and its channels swapped. */
SN_API sn_node sn_conv_transpose(sn_graph *g, sn_node x, sn_node w, const int64_t *output_padding,
                                 const sn_conv_options *options);
/* The gradients of y = sn_conv(g, x, w, options) by x, whose n spatial sizes are given, and by w, whose n are. dy has the shape
 * of y. Both are convolutions: of dy with w reversed and its channels swapped, where stride and input dilation change places;
 * and of x with dy, batch and channels swapped in both, where stride and dilation change places. */
SN_API sn_node sn_conv_data_grad(sn_graph *g, sn_node dy, sn_node w, const int64_t *sizes,
                                 const sn_conv_options *options);
SN_API sn_node sn_conv_weight_grad(sn_graph *g, sn_node x, sn_node dy, const int64_t *kernel,
                                   const sn_conv_options *options);

/* ---- composites ----
 * Formulas are in ops.def. Weights, biases and running statistics have the dtype of x, which is a float but for
 * sn_relu. */
#define SN_ACTIVATION_FUNCTIONS(X)                                                                                     \
    X(sn_relu, RELU) X(sn_gelu, GELU) X(sn_gelu_tanh, GELU_TANH) X(sn_silu, SILU)
#define SN_DECLARE_ONE(f, ID) SN_API sn_node f(sn_graph *g, sn_node x);
SN_ACTIVATION_FUNCTIONS(SN_DECLARE_ONE)
#undef SN_DECLARE_ONE
SN_API sn_node sn_softmax(sn_graph *g, sn_node x, int64_t axis);
SN_API sn_node sn_log_softmax(sn_graph *g, sn_node x, int64_t axis);
/* (x - mean) / sqrt(variance + eps) * weight + bias, and x / sqrt(mean(x^2) + eps) * weight, over the trailing axes
 * that weight has; bias has its shape. */
SN_API sn_node sn_layer_norm(sn_graph *g, sn_node x, sn_node weight, sn_node bias, double eps);
SN_API sn_node sn_rms_norm(sn_graph *g, sn_node x, sn_node weight, double eps);
/* With running statistics (inference). Channels are axis 1, of which each has an element of the four. */
SN_API sn_node sn_batch_norm(sn_graph *g, sn_node x, sn_node weight, sn_node bias, sn_node running_mean,
                             sn_node running_var, double eps);
typedef struct sn_batch_norm_results {
    sn_node y;
    sn_node running_mean, running_var; /* new values: (1 - momentum) * old + momentum * that of the batch (unbiased) */
    sn_node mean, invstd;              /* of the batch; 1 / sqrt(variance + eps): what a backward pass needs */
} sn_batch_norm_results;
/* With the statistics of the batch (training). All results are none after a failure. */
SN_API void sn_batch_norm_train(sn_batch_norm_results *out, sn_graph *g, sn_node x, sn_node weight, sn_node bias,
                                sn_node running_mean, sn_node running_var, double momentum, double eps);
/* Mean over rows of logsumexp(x) - x[target], of rank 0 and the dtype of x; x[N, C], target[N] of i64 or i32,
 * in 0 .. C-1. */
SN_API sn_node sn_cross_entropy(sn_graph *g, sn_node x, sn_node target);

/* ---- outputs: numbered from 0 in the order of these calls ---- */

/* The value is an output, contiguous in row-major order. A name is of letters, digits, _ and ., and begins with no
 * digit. Fails, and the graph with it, where it is not, where another output has it, and where x is no value of g. */
SN_API sn_status sn_output(sn_graph *g, const char *name, sn_node x);
/* The value is in the storage of `input` (contiguous, same shape and dtype) when the program has run; every use of the input in
 * the graph sees the old value. Where nothing reads that any more it is computed in place, and of an input that is its own copy but for some rows
 * (scatter) these rows alone are written. What a run that fails leaves there is anything. */
SN_API sn_status sn_output_writes(sn_graph *g, const char *name, sn_node x, sn_node input);

/* ---- ONNX ---- */

/* The size that a name of sn_dim stands for. */
typedef struct sn_dim_binding {
    const char *name;
    int64_t size;
} sn_dim_binding;

/* A tensor of texts, NUL-terminated UTF-8, row-major. */
typedef struct sn_text_tensor {
    const char *name;
    unsigned rank;
    int64_t shape[8];
    const char *const *at;
} sn_text_tensor;

typedef struct sn_import_options {
    size_t struct_size;
    /* Sizes of names in the model's shapes; a name without one stays a name of sn_dim. A size that the model leaves open
     * is named after its input and axis: "x_0". */
    const sn_dim_binding *dims;
    unsigned n_dims;
    /* Values of inputs, where the graph has to know them: axes, shapes, numbers of iterations that the model takes as
     * inputs. Such an input stays an input, whose tensor is then not looked at. The value's shape is that of the input; its
     * name that of the model or of .sn text, and one that no input has is refused. */
    const sn_weight_info *values;
    unsigned n_values;
    /* Text exists at import alone: inputs that are text are given here; outputs that are text are known when the import is
     * done and go to text_output (borrowed for the call; NULL: such a model is refused). They are no inputs and outputs of
     * the graph. */
    const sn_text_tensor *texts;
    unsigned n_texts;
    void (*text_output)(void *user, const sn_text_tensor *text);
    void *user;
} sn_import_options;

/* A graph from an ONNX model, opsets 7 to 26 (https://onnx.ai/onnx/intro/concepts.html). Inputs and outputs keep their order
 * and names, with _ for what is no letter, digit or _ in a name of .sn text ("x.1" is x_1, and x_1_1 in a model that has an
 * "x_1", too). Weights that the model keeps in other files
 * are looked for in its folder. Fails with SN_ERROR_UNSUPPORTED, and a message that names all operators that are not
 * supported; with SN_ERROR_FILE where the file is broken. */
SN_API sn_status sn_import_onnx(sn_graph **out, sn_context *ctx, const char *path, const sn_import_options *options);
/* The same from memory. `name` stands for the model in messages. folder: of weights outside; NULL refuses those. */
SN_API sn_status sn_import_onnx_memory(sn_graph **out, sn_context *ctx, const char *name, const void *data, size_t size,
                                       const char *folder, const sn_import_options *options);
/* What of a model is not supported, before anything is compiled: for each operator, opset and reason how often and in
 * which nodes. format: "text" or "csv" (domain,op,opset,count,reason,node; a row for each node); NULL is text. *all
 * (may be NULL): the whole model is supported. sn_free the text. */
SN_API sn_status sn_onnx_report(char **out, bool *all, sn_context *ctx, const char *path, const char *format,
                                const sn_import_options *options);

/* ---- compiling ---- */

typedef struct sn_compile_options {
    size_t struct_size;
    const char *device;   /* "auto" (default): CUDA where there is a device, else the CPU; "cpu"; "cuda" */
    unsigned ordinal;     /* which CUDA device */
    const char *target;   /* "sm_90a", "sm_90a:units=114": code to look at or save; with device "cuda" it runs there */
    const char *pipeline; /* pass names "simplify,decompose,..."; NULL: the target's pipeline */
    const char *verify;   /* "off", "ends" (default), "each", "paranoid" */
    const char *print_before; /* pass names or "all": module text to the context's log */
    const char *print_after;
    bool print_changed;
    const char *remarks; /* pass names or "all" */
    bool time_passes;
    const char *repro_dir;      /* where the module before a failing pass is written */
    const sn_dim_binding *dims; /* sizes of all names that shapes use, and of no others */
    unsigned n_dims;
    unsigned
        threads; /* of the CPU; 0: as many as it may run on. Long sums are shared by them: last places differ with it */
    const char *wrapper; /* "generated" (default): host code runs the steps; "interpreted" */
    const char
        *cpu_schedule; /* "host" (default); "gpu": kernels scheduled for a GPU (target, or sm_90) run on the CPU */
    /* Bytes that addresses of inputs and outputs are multiples of: 1, 2, 4, 8 or 16. 0: 16 on CUDA, 1 on the CPU. Less than
     * 16 is for slices of tensors on CUDA, whose accesses are narrower then. Elements are aligned to their size, always. */
    unsigned alignment;
    /* Of products of f32 that say nothing about it: "exact" (default), "high", "tf32", "bf16" (see sn_matmul_with). */
    const char *precision;
    const char
        *choices; /* what matrix products and convolutions may become: "template", "extern", "subgraph", or rows of
                          * choices.def by name, separated by commas; NULL: all */
    const char *
        tune; /* choices for matrix products and convolutions, schedules of kernels: "off": the model's; "records" (default): where
                           * earlier timings are on record, theirs; "on": what has no record is timed, and recorded */
    /* The folder of those records; "off": none are read or written. NULL: sinter/records in $XDG_CACHE_HOME or ~/.cache. Only
     * tuning and multi_kernel write there. What is wrong with a record is a line in the context's log, and it does not count. */
    const char *record_dir;
    /* Programs and generated code on disk (PTX, cubins, objects of the CPU): "off" (default); "on": in sinter/code in $XDG_CACHE_HOME or
     * ~/.cache (SN_ERROR_ARGUMENT where neither of XDG_CACHE_HOME and HOME is set); or a folder, with a / in it. What was compiled before, by any process, is taken from there: the whole
     * program, without a pass (sn_program_info.found), or its pieces. A folder that
     * cannot be used is a line in the context's log, and code is made anew. Whoever may write there decides what runs. */
    const char *cache;
    /* What its files may come to, "512M", "1G" (default): beyond that those go that were used longest ago. */
    const char *cache_size;
    /* The toolkit's ptxas: "auto" (default): the first in PATH, CUDA_HOME/bin, CUDA_PATH/bin, /usr/local/cuda/bin, and the newest
     * /usr/local/cuda-VERSION/bin; a file, with a / in it; "off". It makes cubins that are kept (in that cache, and in images
     * that the program is saved to), of kernels that libnvJitLink cannot assemble (warps with registers of their own, tensor copies)
     * and of all where that library is missing: a child process each, several at a time. What it makes none of, the driver assembles
     * each time that it is loaded; why is one line in the context's log. */
    const char *ptxas;
    /* Metric tables that are recorded (`sinter list metrics`): "kernel_metadata,graph_stats", "all", "off" (default). Rows are
     * appended to metrics_dir/metric_NAME.csv, one write each, so that processes may share files: with a header, a column
     * model in front, and an empty cell for what is not known. NULL: no files where there is a callback, else the folder that
     * the process runs in. What cannot be written is one line in the context's log, and the compilation goes on. */
    const char *metrics, *metrics_dir;
    const char *metrics_model; /* the column model; NULL: the name of the graph */
    /* Is given the same rows, when the compilation is done. */
    void (*metrics_row)(void *user, const sn_metric_row *row);
    void *metrics_user;
    /* Kernels with several schedules, where the model cannot tell: "off" (default), "reductions", "all". Up to three kinds are
     * compiled (a row kept on the chip, a row read again, ..), timed when the program is loaded, on memory of the kernel's sizes that
     * is given back, for a millisecond or so a kernel; runs launch the fastest. The choice is recorded (record_dir, unless tune is
     * "off"), and the next program compiles that one alone. ",KIND" behind it (sn_kernel_info.kind) keeps that kind where a kernel has
     * it, and the first where not, of kernels that are over in a few microseconds too, and times nothing. GPU schedules only. */
    const char *multi_kernel;
    /* Kernels that somebody has edited, in the place of those that the compiler made: "k0=k0.sn,k3=k3.ptx", by their names and files.
     * .sn: one kernel as `sinter explain --dump-dir` writes it; .ptx: for CUDA. Each is first held against the original on random
     * arguments, and SN_ERROR_MISMATCH names the first element that differs by more than rounding; it has the parameters of the
     * original. NULL: none are. */
    const char *replace_kernels;
    /* What runs say of each kernel, words separated by commas: "names" (a line before each launch), "print" (its arguments before and
     * behind it: size, figures, elements), "save" (the same as debug_dir/CALL_KERNEL_reads_BUFFER.npy, of the last run), "stop-at-nan",
     * "stop-at-infinity" (a run ends with SN_ERROR_MISMATCH at the first kernel that writes one, and names the operation that made it),
     * "nvtx" (ranges for Nsight Systems); "off" (default). Of the kernels in debug_kernels ("k0,k3"; NULL: all). Lines go to the context's log,
     * from the thread that runs. Runs with debugging are slow; without it they have nothing of this. */
    const char *debug, *debug_kernels, *debug_dir;
    /* Runs on CUDA by a CUDA graph: "auto" (default): from the second run on, if one can be made; "on": from the first, or the run
     * fails; "off". The same bits, wherever tensors are. Runs that are watched, timed, or on a captured stream are plain. */
    const char *graphs;
} sn_compile_options;

/* Compile a graph. Fails with the graph's own first failure; SN_ERROR_ARGUMENT for options; SN_ERROR_DEVICE where "cuda"
 * is asked for and absent; SN_ERROR_TARGET from code generation. The graph is not changed and can be compiled again. */
SN_API sn_status sn_compile(sn_program **out, sn_graph *g, const sn_compile_options *options);
/* Refused, with sn_error, while the program has run states. */
SN_API void sn_program_destroy(sn_program *p);

/* An input or output of a program. */
typedef struct sn_port {
    const char *name;
    sn_dtype dtype;
    unsigned rank;
    int64_t shape[8];
    int64_t strides[8]; /* elements; outputs are contiguous */
    int64_t offset;
    size_t align;  /* bytes: the address of its storage, moved by what its offset is larger by, must be a multiple */
    int writes;    /* outputs: number of the input that is written, else -1 */
    bool optional; /* inputs: a run may leave it out (sn_input_default) */
} sn_port;

/* An input or output of a graph, before it is compiled: sizes and strides are what sn_node_shape says, names last as long as the
 * graph; align is that of an element. SN_ERROR_ARGUMENT when there is none of that number. */
SN_API sn_status sn_graph_input_port(sn_port *out, const sn_graph *g, unsigned input);
SN_API sn_status sn_graph_output_port(sn_port *out, const sn_graph *g, unsigned output);
/* What is known of a program and its kernels: structs in program.h. */
SN_API void sn_program_get_info(sn_program_info *out, const sn_program *p);
/* As of a graph. */
SN_API unsigned sn_program_input_count(const sn_program *p);
SN_API unsigned sn_program_output_count(const sn_program *p);
SN_API sn_status sn_program_find_input(unsigned *out, const sn_program *p, const char *name);
SN_API sn_status sn_program_find_output(unsigned *out, const sn_program *p, const char *name);
/* Fail with SN_ERROR_ARGUMENT when there is no such input, output or kernel. */
SN_API sn_status sn_program_input(sn_port *out, const sn_program *p, unsigned input);
SN_API sn_status sn_program_output(sn_port *out, const sn_program *p, unsigned output);
SN_API sn_status sn_program_kernel(sn_kernel_info *out, const sn_program *p, unsigned kernel);

#include "image.h" /* programs as files */

/* What the compiler made, as text; sn_free it. stage: "graph", "loops", "fused", "scheduled", "llvm", "ptx", "wrapper"
 * (steps), "memory" (how intermediates share the workspace, call by call), "wrapper-c" (C source that needs only the driver
 * API). SN_ERROR_ARGUMENT for an unknown stage, for ptx of a CPU program, and for C source of one with a kernel that a
 * library runs. */
SN_API sn_status sn_program_dump(char **out, sn_program *p, const char *stage);

/* ---- tensors ---- */

typedef struct sn_tensor_info {
    int device;
    sn_dtype dtype;
    unsigned rank;
    int64_t shape[8], strides[8], offset;
    int64_t numel;
    void *data; /* start of the storage; element 0 is at data + offset * element size */
} sn_tensor_info;

/* Zeroed contiguous memory of its own on the device. */
SN_API sn_status sn_tensor_create(sn_tensor **out, sn_context *ctx, int device, sn_dtype dtype, unsigned rank,
                                  const int64_t *shape);
/* The same with strides >= 0 (one per axis) and an offset; storage reaches to the last element. */
SN_API sn_status sn_tensor_create_strided(sn_tensor **out, sn_context *ctx, int device, sn_dtype dtype, unsigned rank,
                                          const int64_t *shape, const int64_t *strides, int64_t offset);
/* Memory of the caller, which must outlive the tensor. strides NULL: contiguous. */
SN_API sn_status sn_tensor_wrap(sn_tensor **out, sn_context *ctx, int device, void *data, sn_dtype dtype, unsigned rank,
                                const int64_t *shape, const int64_t *strides, int64_t offset);
/* Contiguous memory that fits an output or input of a program, on its device, with its strides. */
SN_API sn_status sn_tensor_for_input(sn_tensor **out, const sn_program *p, unsigned input);
SN_API sn_status sn_tensor_for_output(sn_tensor **out, const sn_program *p, unsigned output);
SN_API void sn_tensor_destroy(sn_tensor *t);
SN_API void sn_tensor_get_info(sn_tensor_info *out, const sn_tensor *t);

/* Copy all elements from or to host memory of `size` bytes (numel * element size), in row-major order of the logical
 * shape. Waits for the default stream of the device. */
SN_API sn_status sn_tensor_write(sn_tensor *t, const void *data, size_t size);
SN_API sn_status sn_tensor_read(void *out, const sn_tensor *t, size_t size);
/* The same with a file of numpy's .npy format (version 1 or 2, little endian, C or Fortran order). What numpy has not,
 * as bf16, travels as its bits in <u2. `name` stands for the tensor in messages: "x: file has shape [2, 3], the graph
 * wants [2, 4]". */
SN_API sn_status sn_tensor_load_npy(sn_tensor *t, const char *name, const char *path);
SN_API sn_status sn_tensor_save_npy(const sn_tensor *t, const char *path);

/* ---- tensors of other libraries, by DLPack (the structs are in sinter/dlpack.h) ----
 * No element is copied. On CUDA nothing is waited for: work of the other library on the memory has to be done, or to be on the
 * stream of the next run. */

struct DLManagedTensorVersioned; /* DLPack 1 */
struct DLManagedTensor;          /* before it */

/* A tensor in the memory of another library: of the CPU (pinned too) or CUDA (managed too). It belongs to the tensor from now
 * on: sn_tensor_destroy calls its deleter. After a failure it is still the caller's, who calls the deleter; so too after
 * SN_ERROR_UNSUPPORTED for a major version that is not known, when nothing but version and deleter may be touched. Strides are
 * >= 0. Memory that is marked as read only is no output, and no input that is written. */
SN_API sn_status sn_tensor_from_dlpack(sn_tensor **out, sn_context *ctx, struct DLManagedTensorVersioned *managed);
SN_API sn_status sn_tensor_from_dlpack_old(sn_tensor **out, sn_context *ctx, struct DLManagedTensor *managed);
/* The tensor's memory for another library, which calls the deleter when it needs it no longer: in the thread that uses the
 * context, and before the context is destroyed. The tensor itself may be destroyed before that. Memory of the caller
 * (sn_tensor_wrap) has to outlive both. The old struct cannot say that memory may only be read: SN_ERROR_UNSUPPORTED. */
SN_API sn_status sn_tensor_to_dlpack(struct DLManagedTensorVersioned **out, sn_tensor *t);
SN_API sn_status sn_tensor_to_dlpack_old(struct DLManagedTensor **out, sn_tensor *t);

/* ---- files of named tensors: .safetensors, .npz, .npy ----
 * A file is mapped into memory, read only, and stays so until it is closed: it must not be made shorter meanwhile. Nothing is
 * copied but what has to be: members of an .npz, and arrays in Fortran order, when somebody first asks for their elements.
 * Files are data of strangers: every length is checked when a file is opened, before anything is allocated. An .npy file
 * has one tensor, called like the file without its folder and ".npy". Threads: as of the context. */

/* Which of the formats it is, the first bytes say. What points into the file or its names is borrowed until it is closed. */
SN_API sn_status sn_weights_open(sn_weights **out, sn_context *ctx, const char *path);
SN_API void sn_weights_close(sn_weights *w);
SN_API unsigned sn_weights_count(const sn_weights *w);
/* Tensor k, in the order of the file. One of a type that Sinter has not is listed too; its data are the file's bytes. */
SN_API sn_status sn_weights_get(sn_weight_info *out, sn_weights *w, unsigned k);
/* The tensor of that name; NULL: the only one. SN_ERROR_ARGUMENT, with the names nearest to it, when there is none;
 * SN_ERROR_UNSUPPORTED when Sinter has not its type. */
SN_API sn_status sn_weights_find(sn_weight_info *out, sn_weights *w, const char *name);
/* Its elements into a tensor of the same dtype and shape on any device. What numpy has not also from bits in <u2. */
SN_API sn_status sn_tensor_load(sn_tensor *t, sn_weights *w, const char *name);
/* Write n tensors as .safetensors: to a new file beside it, which takes the place of `path` when it is complete. */
SN_API sn_status sn_weights_save(sn_context *ctx, const char *path, unsigned n, const sn_weight_info *tensors);

/* ---- running ---- */

/* Run with one tensor per input and per output, on the program's device. NULL for an input that has a default: its
 * default. An output that writes an input needs no tensor: NULL, or the tensor of that input. A tensor whose dtype,
 * shape or strides differ from what was compiled, or whose address is not aligned (the option alignment of sn_compile),
 * fails with SN_ERROR_ARGUMENT and its name; so do two tensors whose elements lie in overlapping ranges of addresses,
 * if one of them is an output or an input that is written. On CUDA the call is asynchronous on `stream` (a CUstream;
 * NULL: the default stream); after the first run nothing is allocated. On the CPU the run is done when the call
 * returns, and `stream` is not looked at. */
SN_API sn_status sn_run(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream);

/* ---- running in several threads ----
 * What several threads may use at the same time, without locks of their own:
 *     sn_program     by runs in states, one state a thread; all other functions: the thread of its context
 *     sn_run_state   one thread at a time, any thread
 *     sn_tensor      as input of any number of runs; what is written, by one run
 *     sn_context, sn_graph, sn_weights   one thread at a time
 * A program does not change once it is compiled. What a run changes (intermediate values, counters of kernels, the error) is a
 * run state: sn_run uses one that the program has, and threads that run a program at the same time have one each. Any thread
 * may create, use and destroy a run state, one at a time; none of these functions changes the context or its error. */

/* A state for runs of p. Its memory (sn_program_info.workspace, and some more) is allocated in its first run. Fails with
 * SN_ERROR_ARGUMENT or SN_ERROR_MEMORY; *out is NULL then, and there is no text. */
SN_API sn_status sn_run_state_create(sn_run_state **out, sn_program *p);
/* Bytes that a run of p needs for what does not outlast it: intermediate values, workspaces of libraries, outputs on their way
 * back to an input. 0 where nothing is needed, and of a program that cannot run. */
SN_API size_t sn_program_workspace_size(const sn_program *p);
/* The same with that memory brought by the caller: `size` bytes (sn_program_workspace_size or more) on the program's device, from
 * a multiple of 256 on, at least until the state is destroyed; it stays the caller's, and what is in it at first does not
 * matter. States, of several programs too, may have one memory as long as no two of their runs are under way at the same time (on
 * CUDA: runs on one stream follow each other). What kernels keep from run to run is not in it, but allocated in the first run; it
 * is a few bytes a block. SN_ERROR_ARGUMENT when memory is not aligned or too small (NULL will do for 0 bytes); there is no text. */
SN_API sn_status sn_run_state_create_in(sn_run_state **out, sn_program *p, void *memory, size_t size);
SN_API void sn_run_state_destroy(sn_run_state *state);
/* As sn_run, in a state. The tensors may be of any context; one that no run writes may be an input of several at once. On
 * the CPU the callers share the threads of the program. On CUDA runs on one stream follow each other: give each state a
 * stream of its own. */
SN_API sn_status sn_run_with(sn_run_state *state, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream);
/* The same without waiting, on the CPU too: the run goes on in a thread of the state while the caller goes on. Lists and tensor
 * objects need not stay, the memory of the tensors stays until sn_run_wait, and nobody else writes to it. What is wrong with the
 * tensors is said at once, and again by the wait, whose status is that of the run; a caller may look at that alone. On CUDA it is
 * sn_run_with, and the wait is one for the stream. SN_ERROR_ARGUMENT, without a text, for a state whose run is under way: that goes
 * for sn_run_with, too. Other states may have runs under way at the same time. */
SN_API sn_status sn_run_start(sn_run_state *state, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream);
/* Wait for the run that was started, and get its status. Where none is under way: the status of the last one. sn_run_state_destroy
 * waits, too. */
SN_API sn_status sn_run_wait(sn_run_state *state);
/* One line about the last run in the state, "" when it did not fail or is under way, and its status. */
SN_API const char *sn_run_state_error(const sn_run_state *state);
SN_API sn_status sn_run_state_status(const sn_run_state *state);

/* ---- tuning (structs in tuning.h) ---- */

/* Decide the choices for all matrix products and convolutions of a graph, and the schedules of its other kernels, by timing, on
 * random inputs in memory of its own (never more than one of them wants), and record them for sn_compile. The report is the
 * caller's, with all that it points to; its context outlives it. Options are those that the graph will be compiled with (device,
 * sizes, choices, record_dir); `tune` does not count. */
SN_API sn_status sn_tune(sn_tune_report **out, sn_graph *g, const sn_compile_options *options,
                         const sn_tune_options *tune);
SN_API void sn_tune_report_destroy(sn_tune_report *report);

/* ---- watching a run (the structs are in watched.h) ---- */

/* As sn_run, and show what each kernel reads and writes. Waits for each kernel, copies from the device, and runs the steps through
 * the interpreter: for looking, not for speed. Outputs of a run that has ended early are undefined. A program that is not
 * watched has nothing of this in it. */
SN_API sn_status sn_run_watched(sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs, void *stream,
                                const sn_watch_options *options);

/* ---- profiles (structs in profile.h) ---- */

/* Run several times (they are runs: what is written back to an input is, each time) and tell what each kernel, each call of a library
 * and each copy of a run took: by events in the stream on CUDA, by the clock on the CPU, through the interpreter, one after the
 * other. The context outlives the profile, the program need not. Fails as sn_run does. On CUDA it waits, and allocates some memory
 * meanwhile. */
SN_API sn_status sn_run_profiled(sn_profile **out, sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs,
                                 void *stream, const sn_profile_options *options);
SN_API void sn_profile_destroy(sn_profile *profile);

/* ---- metrics (options of sn_compile above) ---- */

/* What a context has counted over its compilations and tunings that did not fail, by name (metrics/counters.def; `sinter list
 * metrics`): "kernels", "cache_hits". What generated code stands for counts the same whether it was made or found in the
 * cache. Fails with all names where there is none like that; *out is 0 then. */
SN_API sn_status sn_counter(uint64_t *out, const sn_context *ctx, const char *name);
/* Their number, and the name of one; NULL: there is none of that number. */
SN_API unsigned sn_counter_count(void);
SN_API const char *sn_counter_name(unsigned counter);
/* All of them 0 again. */
SN_API void sn_counters_reset(sn_context *ctx);
/* Empty the files of these tables ("all", or names) in a folder: what is left of each is its header. */
SN_API sn_status sn_metrics_empty(sn_context *ctx, const char *metrics_dir, const char *metrics);

/* ---- measuring, checking ---- */

/* Microseconds of each of `runs` (at most 2^20) runs into out[runs]: device time on CUDA, with `flush_bytes` of other
 * memory written before each run so that no input is in cache; wall-clock time on the CPU. */
SN_API sn_status sn_program_time(double *out, unsigned runs, sn_program *p, sn_tensor *const *inputs,
                                 sn_tensor *const *outputs, size_t flush_bytes);

/* How far an output is from the reference: the graph computed in float64, operation by operation, on the host. */
typedef struct sn_check {
    double max_abs; /* largest |value - reference| */
    double max_rel; /* largest |value - reference| / |reference|, where what is allowed for roundings on the way to the
                     * element counts as reference too: terms that cancel, an exponential of a large number */
    double bound;   /* limit of max_rel for this output, by its dtype; 0: must be equal */
    bool ok;        /* within the bound, and nan and infinities in the same places; of what is compared */
    int64_t worst;  /* row-major position of the element of max_rel, -1 if none */
    /* For one elementary operation on inputs, every element for itself: the largest error in units in the last place of
     * the dtype, and its limit (codegen-llvm/lowering.def, beside the documents). bound_ulp 0: not checked. */
    double max_ulp, bound_ulp;
    /* Elements that may be anything (what they are made of stands at a pole) and are not compared. Where an output has no others,
     * nothing is known about it, and it is not ok. */
    int64_t unbounded;
} sn_check;

/* Evaluate on the inputs, run, and compare: out[n_outputs]. SN_ERROR_MISMATCH when any output is not ok. Inputs that are
 * written have their new values afterwards. `interpreted`: run the steps through the interpreter. */
SN_API sn_status sn_program_check(sn_check *out, sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs,
                                  bool interpreted);

#ifdef __cplusplus
}
#endif

#endif
