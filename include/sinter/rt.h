/* rt.h: running images, the files that sn_program_save and `sinter compile` write, with libsinter-rt alone: no compiler, no LLVM,
 * no C++; the CUDA driver is opened when an image is loaded for a GPU.
 *
 *     sn_rt *rt;            sn_rt_create(&rt);
 *     sn_rt_program *p;     if (sn_rt_load(&p, rt, "model.snb", NULL)) puts(sn_rt_error(rt));
 *     sn_rt_state *st;      sn_rt_state_create(&st, p);
 *     const void *in[] = {x};   void *out[] = {y};
 *     if (sn_rt_run(st, in, out, NULL)) puts(sn_rt_state_error(st));
 *
 * Errors. A call that can fail returns a sn_status; SN_OK is 0. sn_rt_error is one line on what went wrong in the last call on
 * rt or on a program of it that failed, sn_rt_state_error in the last one on the state. NULL for an object, a list or an out
 * pointer is SN_ERROR_ARGUMENT. *out is NULL after a failure. Nothing here prints, exits or aborts.
 *
 * Ownership. An `out` pointer is the caller's, who gives it to the matching destroy function: states before their program,
 * programs before their rt. Texts that are returned live as long as the object. Destroying NULL is allowed.
 *
 * Threads. An rt and its programs are used by one thread at a time. A program does not change: different threads may run
 * different states of it at the same time, also while another one uses the rt. A child of fork goes on with programs and states of
 * the CPU, if no call was under way in another thread.
 *
 * Sizes, strides and offsets count elements. Elements lie as the port says: see sn_rt_port.
 */
#ifndef SINTER_RT_H
#define SINTER_RT_H

#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SN_RT_API __attribute__((visibility("default")))
#else
#define SN_RT_API
#endif

typedef struct sn_rt sn_rt;
typedef struct sn_rt_program sn_rt_program;
typedef struct sn_rt_state sn_rt_state;

SN_RT_API sn_status sn_rt_create(sn_rt **out);
SN_RT_API void sn_rt_destroy(sn_rt *rt);
/* "" where nothing has failed. */
SN_RT_API const char *sn_rt_error(const sn_rt *rt);

/* A constant of an image, by name. */
typedef struct sn_rt_constant {
    const char *name;
    const void *data; /* row-major, on the host; borrowed as long as the program */
    size_t size;      /* bytes: as many as the constant has */
} sn_rt_constant;

/* Zeroed, but for struct_size: defaults. */
typedef struct sn_rt_options {
    size_t struct_size; /* sizeof */
    const char *
        device; /* "auto" (NULL): CUDA where there is a device that the image has code for, else the CPU; "cpu"; "cuda" */
    unsigned ordinal;                /* which CUDA device */
    unsigned threads;                /* of the CPU; 0: as many as it may run on */
    const sn_rt_constant *constants; /* in place of those in the image */
    unsigned n_constants;
    /* A .safetensors file in place of those that the image takes constants from (`sinter compile --weights`): tensors of the same
     * names, dtypes and shapes, with any elements. NULL: the files that the image names, with the elements that it was made with. */
    const char *weights;
    /* What runs say of each kernel, words separated by commas: "names" (a line before each launch), "print" (its arguments before and
     * behind it: size, figures, elements), "save" (the same as debug_dir/CALL_KERNEL_reads_BUFFER.npy, of the last run), "stop-at-nan",
     * "stop-at-infinity" (a run ends with SN_ERROR_MISMATCH at the first kernel that writes one, and names the operation that made it),
     * "nvtx" (ranges for Nsight Systems); "off" (default). Of the kernels in debug_kernels ("k0,k3"; NULL: all). Lines go to log,
     * from the thread that runs. Runs with debugging are slow; without it they have nothing of this. */
    const char *debug, *debug_kernels, *debug_dir;
    void (*log)(void *user, const char *text); /* NULL: nobody reads them */
    void *log_user;
    /* Runs on CUDA by a CUDA graph: "auto" (NULL): from the second run on, and plainly where no graph can be made; "on": from the first
     * run on, and a graph that cannot be made fails the run; "off". Results are the same, bit for bit. Addresses may change from run
     * to run. Runs on a stream that is being captured are plain. */
    const char *graphs;
} sn_rt_options;

/* From a file, which stays mapped, as .safetensors files do that it takes constants from: nobody may write to them or make them
 * shorter while the program lives. Constants that are given by name need no file. SN_ERROR_FILE: one of them cannot be read, is not
 * what it should be, was cut off or changed, or has another version of the format; a tensor is missing, or of another dtype or shape. SN_ERROR_TARGET: no code in it runs here. SN_ERROR_DEVICE: "cuda" is asked for and not there.
 * SN_ERROR_ARGUMENT: a constant that it has not, or of another size. What depends on constants alone is computed here. The
 * image's code is trusted: whoever could write the file decides what runs. */
SN_RT_API sn_status sn_rt_load(sn_rt_program **out, sn_rt *rt, const char *path, const sn_rt_options *options);
/* From memory: bytes that begin at a multiple of 256 and stay as long as the program. */
SN_RT_API sn_status sn_rt_load_memory(sn_rt_program **out, sn_rt *rt, const void *image, size_t size,
                                      const sn_rt_options *options);
/* Refused, with sn_rt_error, while the program has states. */
SN_RT_API void sn_rt_program_destroy(sn_rt_program *p);

/* An input or output. */
typedef struct sn_rt_port {
    const char *name;
    sn_dtype dtype;
    unsigned rank;
    int64_t shape[8], strides[8]; /* outputs are contiguous */
    int64_t offset;               /* of the first element from the address that is given */
    size_t align;                 /* bytes that the address is a multiple of */
    size_t bytes;                 /* of storage, from that address on */
    int writes;   /* outputs: number of the input that takes the value, whose output is NULL; -1: none */
    int optional; /* inputs: 1 where NULL stands for a default that the image has */
} sn_rt_port;

/* CUDA ordinal, -1: the CPU. */
SN_RT_API int sn_rt_device(const sn_rt_program *p);
/* Where the time of sn_rt_load went, in microseconds. */
typedef struct sn_rt_times {
    double read_us;   /* mapping the file, reading its fields */
    double device_us; /* opening the CUDA device, the first time: what the driver itself takes to start */
    double verify_us; /* checksums of constants and of the code that is used */
    double load_us;   /* everything else; of that: */
    double upload_us; /* constants to the device; meanwhile kernels are assembled that have no cubin for it */
    double modules_us, prepare_us; /* kernels; what depends on constants alone */
} sn_rt_times;
SN_RT_API void sn_rt_load_times(sn_rt_times *out, const sn_rt_program *p);
/* "host", "sm_90a": the part of the image that was chosen. "" for NULL. */
SN_RT_API const char *sn_rt_target(const sn_rt_program *p);
SN_RT_API unsigned sn_rt_input_count(const sn_rt_program *p);
SN_RT_API unsigned sn_rt_output_count(const sn_rt_program *p);
/* SN_ERROR_ARGUMENT where there is no such number or name. */
SN_RT_API sn_status sn_rt_input(sn_rt_port *out, const sn_rt_program *p, unsigned input);
SN_RT_API sn_status sn_rt_output(sn_rt_port *out, const sn_rt_program *p, unsigned output);
SN_RT_API sn_status sn_rt_find_input(unsigned *out, const sn_rt_program *p, const char *name);
SN_RT_API sn_status sn_rt_find_output(unsigned *out, const sn_rt_program *p, const char *name);
/* Other elements for a constant from the next run on; `data` is borrowed until they are replaced or the program is destroyed.
 * Refused while the program has states. What fails leaves the program as it was. */
SN_RT_API sn_status sn_rt_set_constant(sn_rt_program *p, const char *name, const void *data, size_t size);

/* What a run changes: workspace, memory that kernels keep, a share of the device. Its memory is allocated in its first run. */
SN_RT_API sn_status sn_rt_state_create(sn_rt_state **out, sn_rt_program *p);
SN_RT_API void sn_rt_state_destroy(sn_rt_state *state);
/* "" where nothing has failed. */
SN_RT_API const char *sn_rt_state_error(const sn_rt_state *state);
/* Run with the addresses of inputs and outputs, in the order of the ports: of the host, or of the device of a CUDA program. One
 * that has no elements may be NULL, and so may an input that is optional; an output that writes an input is NULL, and the input's storage is written. Storage that is
 * written overlaps no other (not looked at). On CUDA asynchronous on the stream (a CUstream; NULL: the default one), and nothing
 * is allocated after the first run. SN_ERROR_ARGUMENT: an address is missing or not aligned. */
SN_RT_API sn_status sn_rt_run(sn_rt_state *state, const void *const *inputs, void *const *outputs, void *stream);

#ifdef __cplusplus
}
#endif
#endif
