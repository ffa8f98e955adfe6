/* tensors_file.h: what the readers of files of named tensors share: the object behind sn_weights, and .npy headers. */
#ifndef SN_FRONTEND_FILES_TENSORS_FILE_H
#define SN_FRONTEND_FILES_TENSORS_FILE_H

#include "frontend/files/mapping.h"
#include "frontend/tensor/tensor.h"

struct json_t; /* jansson.h */
struct zip;    /* zip.h */

/* One tensor of a file. */
typedef struct sn_member {
    sn_weight_info info; /* data: NULL until somebody asked for it (have) */
    bool have;
    bool fortran;    /* elements are in column-major order in the file */
    const char *raw; /* elements as they lie in the file; of a zip's member NULL */
    uint64_t member; /* .npz: number of the zip's member, */
    size_t skip;     /* bytes of its .npy header */
    void *owned;     /* elements that were inflated or transposed */
} sn_member;

struct sn_weights {
    sn_context *ctx;
    sn_arena arena;   /* texts and records below */
    const char *path; /* for messages */
    sn_mapping file;
    bool is_npy;   /* types are numpy's descriptors; else those of .safetensors */
    sn_member *at; /* in the order of the file */
    uint32_t n;
    sn_member **by_name; /* sorted */
    struct json_t *json; /* while the header of .safetensors is read */
    struct zip *zip;     /* .npz: open as long as the object */
};

/* The readers: fill at and n, with info and where the elements are. Names may repeat: the caller looks for that. */
sn_status sn_safetensors_read(sn_weights *w);
void sn_safetensors_release(sn_weights *w);
sn_status sn_npz_read(sn_weights *w);
void sn_npz_release(sn_weights *w);
/* The elements of a member, as they lie in the file. */
sn_status sn_npz_elements(void *out, const sn_weights *w, const sn_member *e);

/* sn_weights_open under the guard of the running call. */
sn_status sn_weights_read(sn_weights **out, sn_context *ctx, const char *path);
/* The tensor of that name, NULL when there is none, and where its elements are. */
sn_member *sn_weights_look_up(const sn_weights *w, const char *name);
sn_status sn_weights_elements(sn_weights *w, sn_member *e);
/* A tensor's elements into one that exists. `label` stands for it in messages. */
sn_status sn_weights_fill(sn_tensor *t, sn_weights *w, const char *name, const char *label);
/* Do type and shape of the file's tensor fit? */
sn_status sn_weight_fits(const sn_weight_info *f, bool is_npy, sn_env *env, sn_arena *arena, const char *label,
                         const sn_tensor_info *t);

/* ---- .npy (npy.c) ---- */

enum { SN_NPY_PREFIX = 12, SN_NPY_MAX = 1 << 16 }; /* bytes that tell how long a header is; of a header at most */

typedef struct sn_npy_header {
    char descr[16];
    bool fortran;
    unsigned rank;
    int64_t shape[SN_MAX_RANK];
    size_t size; /* where the elements begin */
} sn_npy_header;

/* Where the elements begin, from the first bytes of `size`, of which SN_NPY_PREFIX are readable or all. */
sn_status sn_npy_header_size(size_t *out, sn_env *env, const char *path, const char *file, size_t size);
sn_status sn_npy_header_read(sn_npy_header *h, sn_env *env, sn_arena *arena, const char *path, const char *file,
                             size_t size);
/* As a tensor of a file, which has data_size bytes of elements. */
sn_status sn_npy_describe(sn_member *out, sn_env *env, sn_arena *arena, const char *path, const sn_npy_header *h,
                          size_t data_size);
/* "<f4" */
const char *sn_npy_type(sn_dtype dtype);
/* Is this descriptor of a file that type? */
bool sn_npy_is(const char *descr, sn_dtype dtype);
/* Column-major elements to row-major ones. */
void sn_npy_transpose(void *out, const char *data, size_t bytes, unsigned rank, const int64_t *shape);

#endif
