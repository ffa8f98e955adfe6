/* image.h: what compiling made as one value: ports, constants, and for each target its steps, kernels and code. In memory it
 * is this struct; on disk a file that is mapped and runs without a compiler. docs/IMAGE.md has the format.
 *
 *     sn_program_save:  program --frontend/image.c--> sn_image --image_file.c--> FILE
 *     loading:          FILE --image_file.c--> sn_image --image_load.c--> module without statements, kernels --prog.c--> sn_prog
 *
 * Which fields there are, and in which order, is said once: the walk of image_stream.c writes them and reads them. An image
 * that was read is checked: every number that picks something picks something that is there. Its code is not: whoever may
 * write the file decides what runs.
 */
#ifndef SN_RUNTIME_IMAGE_H
#define SN_RUNTIME_IMAGE_H

#include "runtime/runtime.h"

enum {
    SN_IMAGE_VERSION = 5,
    SN_IMAGE_ALIGN = 256 /* bytes: what a constant begins at in the file, which is mapped, and so in memory */
};

/* Bytes of the file, or of whoever made the image: borrowed. */
typedef struct sn_image_bytes {
    const void *at;
    uint64_t size;
} sn_image_bytes;

typedef struct sn_image_port {
    const char *name;
    sn_dtype dtype;
    uint32_t rank, align;
    int64_t shape[SN_MAX_RANK], strides[SN_MAX_RANK], offset; /* elements */
    int32_t writes;     /* outputs: number of the input that is written, -1: none */
    int64_t own_offset; /* of an output in storage of whoever runs it; -1: the caller's, or the input that is written */
    sn_image_bytes otherwise; /* of an input: its elements in runs that leave it out; none: it has to be given */
} sn_image_port;

/* Elements that all targets share. */
typedef struct sn_image_const {
    const char *name; /* of a weight, or of a buffer */
    sn_dtype dtype;
    uint32_t rank;
    int64_t shape[SN_MAX_RANK];
    bool given;          /* its elements are not in the image: whoever loads it gives them by name */
    uint32_t file;       /* 1 + the number of the file that has them; 0: none has */
    const char *tensor;  /* their name there, */
    sn_cache_key sum;    /* and their checksum */
    sn_image_bytes data; /* of one in a file: none until that is open */
} sn_image_const;

/* A buffer that a step or a call names. */
typedef struct sn_image_buf {
    const char *name;
    sn_dtype dtype;
    sn_buf_scope scope; /* INPUT, OUTPUT, CONST, TEMP */
    uint32_t io;        /* INPUT, OUTPUT: number of the port; CONST: of the constant */
    uint32_t align;
    int64_t elements; /* from the start of the storage */
} sn_image_buf;

typedef struct sn_image_arg {
    uint32_t buf;
    int64_t offset; /* elements */
} sn_image_arg;

typedef struct sn_image_step {
    sn_step_kind kind;
    uint32_t buf, from, kernel; /* numbers from 0 */
    int64_t size, offset;       /* bytes; REPEAT: size is a number of times, WINDOW: it may be negative */
    sn_image_arg *args;
    uint32_t n_args;
} sn_image_step;
static inline bool sn_image_step_has_from(sn_step_kind kind) {
    return kind == SN_STEP_REUSE || kind == SN_STEP_COPY || kind == SN_STEP_WINDOW || kind == SN_STEP_CARRY;
}

/* It names no buffer. */
static inline bool sn_image_step_is_alone(sn_step_kind kind) {
    return kind == SN_STEP_REPEAT || kind == SN_STEP_ELSE || kind == SN_STEP_END;
}

typedef struct sn_image_formal {
    sn_dtype dtype;
    sn_role role;
    uint32_t rank;
    int64_t shape[SN_MAX_RANK], numel;
} sn_image_formal;

typedef struct sn_image_kernel {
    sn_rt_kernel launch; /* GPU: ptx and cubin are in the image; CPU: `host` is set by whoever loads the code */
    const char *note, *schedule;
    sn_image_formal *formals;
    uint32_t n_formals;
    uint64_t entry; /* CPU: of its function in the code; a library's kernel has none */
    sn_tensor_map *maps;
    sn_library_call *library; /* NULL: it has code */
} sn_image_kernel;

/* Machine code that may lie anywhere: whoever loads it writes addresses into its slots (image_code.c). */
typedef struct sn_image_slot {
    uint64_t at;        /* where the address goes: a multiple of 8 */
    const char *import; /* a row of image_imports.def; NULL: of the code itself, */
    uint64_t target;    /* at this byte */
} sn_image_slot;

typedef struct sn_image_part {
    const char *target;  /* "host", "sm_90a" */
    const char *machine; /* "x86_64", "nvptx" */
    const char *cpu;     /* as LLVM calls it, for people */
    uint64_t features;   /* CPU: bits of image_features.def that its code needs */
    uint32_t sm;         /* GPU: 90 */
    bool only;           /* GPU: no other generation runs it */
    int64_t workspace, prepared, own_size;
    sn_image_port *inputs, *outputs;
    sn_image_buf *bufs;
    sn_image_step *steps;
    sn_image_kernel *kernels;
    sn_image_slot *slots;
    uint32_t n_inputs, n_outputs, n_bufs, n_steps, n_prepare, n_kernels, n_slots;
    sn_image_bytes code; /* CPU */
} sn_image_part;

/* What code or constants of a file should be, by their checksum. */
typedef struct sn_image_sum {
    sn_image_bytes bytes;
    sn_cache_key sum;
    uint32_t part; /* number of the part that has the code; of a constant more than there are */
    uint32_t file; /* 1 + the number of the file that they are in; 0: in the image */
} sn_image_sum;

typedef struct sn_image {
    const char *maker, *name; /* version of Sinter; of the graph */
    sn_image_const *consts;
    sn_image_part *parts; /* the loader takes the best that the machine runs */
    const char **files;   /* .safetensors that constants are in, from the folder of the image, */
    sn_image_bytes *maps; /* and mapped; NULL: none was opened */
    uint32_t n_consts, n_parts, n_files;
    const char *file;   /* one that was read: how messages call it, ... */
    sn_image_sum *sums; /* ... and what sn_image_verify compares */
    uint32_t n_sums;
} sn_image;

/* Elements of constants by name, ahead of those of the image. */
typedef struct sn_image_given {
    const char *name;
    const void *data;
    size_t size;
} sn_image_given;

/* ---- bytes (image_file.c) ---- */

/* Write it to a file: whole, or what was there stays. Bytes of constants go straight there. */
sn_status sn_image_write(sn_env *env, const sn_image *image, const char *path);
/* The same bytes in the arena, at a multiple of SN_IMAGE_ALIGN. */
sn_status sn_image_encode(sn_image_bytes *out, const sn_image *image, sn_arena *arena);
/* Read and check all but the checksums of code and constants. The bytes are borrowed and begin at a multiple of SN_IMAGE_ALIGN.
 * `name`: for messages. */
sn_status sn_image_read(sn_image **out, sn_env *env, sn_arena *arena, const char *name, sn_image_bytes file);
/* Compare these, on so many threads (0: all processors): of constants and of one part, or of all (NULL). */
sn_status sn_image_verify(sn_env *env, const sn_image *image, const sn_image_part *part, uint32_t threads);
/* A file's bytes, mapped. */
sn_status sn_image_map(sn_image_bytes *out, sn_env *env, const char *path);
void sn_image_unmap(sn_image_bytes *file);
/* Is it an image, by its first bytes? */
bool sn_image_is(const void *bytes, size_t size);

/* ---- constants in files of their own (image_files.c) ---- */

/* Map the files, but for constants that are given, and find the tensors. path: the image's, NULL: from memory. instead: a file to take
 * for all of them, whose elements may be others; NULL: none. sn_image_close_files is for after a failure or a jump, too. */
sn_status sn_image_open_files(sn_image *image, sn_env *env, sn_arena *arena, const char *path, const char *instead,
                              const sn_image_given *given, uint32_t n_given);
void sn_image_close_files(sn_image *image);
/* Constants that a .safetensors file has, with these elements, become names of its tensors, for an image that is written to
 * image_path. */
sn_status sn_image_refer(sn_image *image, sn_env *env, sn_arena *arena, const char *image_path, const char *file);

/* ---- text (image_text.c) ---- */
void sn_image_print(sn_text *t, const sn_image *image);

/* ---- loading (image_load.c) ---- */

/* Machine code of a part in this process. */
typedef struct sn_image_code {
    void *at;
    size_t size;
} sn_image_code;
sn_status sn_image_code_load(sn_image_code *out, sn_env *env, const sn_image_part *part);
void sn_image_code_free(sn_image_code *code);
/* Bits of image_features.def: by a list of LLVM's ("+avx2,-sse4a,..."), of this processor; the name of the first in `bits`. */
uint64_t sn_image_features_of(const char *llvm);
uint64_t sn_image_features_here(void);
const char *sn_image_feature_name(uint64_t bits);
/* Is there such an import? */
bool sn_image_has_import(const char *name);

/* The part that the machine runs best: on a device (cu) or on this CPU (NULL). Fails with what there is and why not. */
sn_status sn_image_choose(const sn_image_part **out, sn_env *env, const sn_image *image, sn_cuda *cu);
/* A part that is loaded. Its module and code are those that the program reads; so does it the image's bytes. */
typedef struct sn_loaded {
    sn_prog *prog;
    sn_module *m;
    sn_image_code code;
} sn_loaded;
/* keep: where cubins are kept, NULL: nowhere. Into *out, which is to be freed also where that fails, or a jump ends it: it has what was made so far. */
sn_status sn_image_load(sn_loaded *out, sn_env *env, const sn_image *image, const sn_image_part *part,
                        const sn_image_given *given, uint32_t n_given, sn_cuda *cu, uint32_t threads,
                        const sn_cubins *keep);
void sn_loaded_free(sn_loaded *l);

/* ---- making (image_assemble.c) ---- */

/* Cubins of a GPU's part, where an assembler is there; without, or where it refuses, kernels have PTX alone. In the arena. */
void sn_image_assemble(sn_image_part *part, const sn_cubins *keep, sn_env *env, sn_arena *arena);

/* ---- inside (image_stream.c): the walk over all fields ---- */
typedef struct sn_image_stream sn_image_stream;
typedef struct sn_image_blob {
    const void *at;
    uint64_t size, offset; /* in the file */
} sn_image_blob;
/* All fields as text of bytes; blobs are numbered in order and get offsets from `first` on. */
void sn_image_put(sn_text *out, sn_image_blob **blobs, uint32_t *n_blobs, const sn_image *image, uint64_t first,
                  sn_arena *arena);
sn_status sn_image_get(sn_image **out, sn_env *env, sn_arena *arena, const char *name, sn_image_bytes fields,
                       sn_image_bytes file);

#endif
