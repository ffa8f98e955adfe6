/* tensor.h: tensors, and what other parts do with them under the guard of the running call. */
#ifndef SN_FRONTEND_TENSOR_TENSOR_H
#define SN_FRONTEND_TENSOR_TENSOR_H

#include "frontend/context/context.h"

struct sn_tensor {
    sn_context *ctx;
    sn_tensor_info info;
    size_t bytes; /* of the storage */
    void *owned;  /* block to free, NULL for memory of the caller */
    size_t owned_bytes;
    void (*give_back)(void *user); /* memory of another library: called when the tensor goes */
    void *give_back_user;
    bool read_only;
    bool destroyed;    /* by its owner; shares of it are left */
    uint32_t n_shares; /* other libraries that use its memory */
};

sn_status sn_tensor_new(sn_tensor **out, sn_context *ctx, int device, sn_dtype dtype, unsigned rank,
                        const int64_t *shape, const int64_t *strides, int64_t offset);
sn_status sn_tensor_new_wrapped(sn_tensor **out, sn_context *ctx, int device, void *data, sn_dtype dtype, unsigned rank,
                                const int64_t *shape, const int64_t *strides, int64_t offset);
/* One of n_shares ends. */
void sn_tensor_unshare(sn_tensor *t);
/* Fails where the memory may only be read. */
sn_status sn_tensor_writable(sn_env *env, const sn_tensor *t, const char *what, const char *name);
sn_status sn_tensor_put(sn_tensor *t, const void *data, size_t size);
/* All elements, from `size` bytes of elements that repeat. Contiguous tensors are filled where they are. */
sn_status sn_tensor_put_repeated(sn_tensor *t, const void *data, size_t size);
sn_status sn_tensor_fetch(void *out, const sn_tensor *t, size_t size);
/* "[2, 3]" in an arena. */
char *sn_sizes_text(sn_arena *arena, const int64_t *shape, unsigned rank);

#endif
