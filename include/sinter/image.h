/* image.h: compiled programs as files (docs/IMAGE.md). A part of sinter.h, which includes it where the other functions of programs
 * are. Rules of threads and ownership are theirs.
 */
#ifndef SINTER_IMAGE_H
#define SINTER_IMAGE_H

#include "sinter.h"

/* Write a program to a file: its ports, constants, steps and code. Loading it again runs no pass and no code generator, here
 * (sn_program_load) or in a process that has only libsinter-rt (rt.h). A program for a target "to look at" can be saved. The
 * file is there whole or not at all: a full disk or a crash leaves what was there. SN_ERROR_FILE where it cannot be written;
 * SN_ERROR_UNSUPPORTED for a program that was itself loaded, and for code that an image cannot hold (of CPUs other than
 * x86-64). */
SN_API sn_status sn_program_save(sn_program *p, const char *path);
typedef struct sn_save_options {
    size_t struct_size;
    bool
        without_weights; /* the file has no elements of weights: whoever loads it gives all of them by name (constants) */
    /* A .safetensors file that has weights of the program, by their names, with the same dtypes, shapes and elements: these stay there,
     * and loading maps that file. It is named from the folder of `path` where it lies in there, so that both may move together, and by its
     * whole path else. SN_ERROR_FILE where it differs, SN_ERROR_ARGUMENT where it has none of them. NULL: all are in the file. */
    const char *weights;
} sn_save_options;
/* A bundle: several targets in one file, which has the constants once. The programs are of one graph, with the same names,
 * dtypes and shapes of inputs and outputs (SN_ERROR_ARGUMENT); all are of ctx. n: 1 to 64. */
SN_API sn_status sn_programs_save(sn_context *ctx, unsigned n, sn_program *const *programs, const char *path,
                                  const sn_save_options *options);

typedef struct sn_load_options {
    size_t struct_size;
    const char *
        device; /* "auto" (default): CUDA where there is a device that the image has code for, else the CPU; "cpu"; "cuda" */
    unsigned ordinal; /* which CUDA device */
    unsigned threads; /* of the CPU; 0: as many as it may run on */
    /* Elements of constants by name, in place of those in the file; of each name, dtype, rank and shape are not looked at, the
     * size in bytes must be that of the constant. Borrowed as long as the program. */
    const sn_weight_info *constants;
    unsigned n_constants;
    /* A .safetensors file in place of those that the image takes constants from: tensors of the same names, dtypes and shapes, with any
     * elements. NULL: the files that the image names, with the elements that it was made with. */
    const char *weights;
    const char *debug, *debug_kernels, *debug_dir; /* as of sn_compile_options */
    const char *graphs;                            /* as in sn_compile_options */
} sn_load_options;

/* A program from a file that sn_program_save or `sinter compile` wrote. The file is mapped as long as the program lives, as
 * .safetensors files are that it takes constants from, and constants of the CPU are read where they lie: nobody may write to these files or
 * make them shorter. SN_ERROR_FILE: it cannot be read, is no image, was cut off or changed, or is of
 * another version of the format; SN_ERROR_TARGET: it has no code for this machine; SN_ERROR_ARGUMENT: constants that are not
 * there, or of another size. Such a program has no graph: sn_program_check and most stages of sn_program_dump refuse it. The
 * code in the file is trusted: whoever may write there decides what runs. */
SN_API sn_status sn_program_load(sn_program **out, sn_context *ctx, const char *path, const sn_load_options *options);
/* Other elements for a constant of a loaded program, from its next run on: `size` bytes, as many as it has, in row-major
 * order. Borrowed until they are replaced or the program is destroyed. What is computed from constants alone is computed again.
 * Not while there are run states. What fails leaves the program as it was. */
SN_API sn_status sn_program_set_constant(sn_program *p, const char *name, const void *data, size_t size);

#endif
