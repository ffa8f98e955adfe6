/* tensor.c: tensors on the host and on CUDA devices: creation, wrapping memory of the caller, copies of all elements.
 *
 * Elements travel to and from the host in row-major order of the logical shape; strided storage is walked here. Does
 * not convert element types.
 */
#include "frontend/tensor/tensor.h"

#include <string.h>

enum { HOST_ALIGN = 64 };

char *sn_sizes_text(sn_arena *arena, const int64_t *shape, unsigned rank) {
    char *text = sn_strdup(arena, "[");
    for (unsigned k = 0; k < rank; k++) text = sn_strf(arena, "%s%s%lld", text, k ? ", " : "", (long long)shape[k]);
    return sn_strf(arena, "%s]", text);
}

/* ---- shape ---- */

static sn_status fill_strides(sn_tensor_info *info, sn_env *env, const int64_t *strides) {
    int64_t step = 1;
    for (unsigned k = info->rank; k-- > 0;) {
        if (info->shape[k] < 0)
            return sn_fail(env, SN_ERROR_ARGUMENT, "tensor: size %lld of axis %u", (long long)info->shape[k], k);
        if (strides && strides[k] < 0)
            return sn_fail(env, SN_ERROR_ARGUMENT, "tensor: stride %lld of axis %u is negative", (long long)strides[k],
                           k);
        info->strides[k] = strides ? strides[k] : step;
        if (sn_mul_overflow(step, info->shape[k], &step))
            return sn_fail(env, SN_ERROR_ARGUMENT, "tensor: too many elements");
    }
    info->numel = step;
    return SN_OK;
}

/* Bytes from the start of the storage to the end of the last element. */
static sn_status storage_bytes(size_t *out, const sn_tensor_info *info, sn_env *env) {
    int64_t last = info->offset;
    bool too_far = false;
    for (unsigned k = 0; k < info->rank && info->numel; k++) {
        int64_t reach;
        too_far |= sn_mul_overflow(info->shape[k] - 1, info->strides[k], &reach) || sn_add_overflow(last, reach, &last);
    }
    int64_t bytes;
    too_far |= sn_add_overflow(last, 1, &last);
    if (too_far || sn_mul_overflow(last, (int64_t)sn_dtype_bytes(info->dtype), &bytes))
        return sn_fail(env, SN_ERROR_ARGUMENT, "tensor: its last element is out of the address space");
    *out = info->numel ? (size_t)bytes : 0;
    return SN_OK;
}

static sn_status describe(sn_tensor *t, sn_context *ctx, int device, sn_dtype dtype, unsigned rank,
                          const int64_t *shape, const int64_t *strides, int64_t offset) {
    sn_env *env = &ctx->env;
    if (dtype >= SN_N_DTYPES) return sn_fail(env, SN_ERROR_ARGUMENT, "tensor: unknown element type %d", (int)dtype);
    if (rank > SN_MAX_RANK)
        return sn_fail(env, SN_ERROR_ARGUMENT, "tensor: rank %u; at most %d sizes are wanted", rank, SN_MAX_RANK);
    if (rank && !shape) return sn_fail(env, SN_ERROR_ARGUMENT, "tensor: shape is NULL, %u sizes are announced", rank);
    if (device != SN_CPU && (device < 0 || device >= SN_MAX_DEVICES))
        return sn_fail(env, SN_ERROR_ARGUMENT, "tensor: device %d is neither SN_CPU nor in 0 .. %d", device,
                       SN_MAX_DEVICES - 1);
    if (offset < 0) return sn_fail(env, SN_ERROR_ARGUMENT, "tensor: offset %lld is negative", (long long)offset);
    *t = (sn_tensor){.ctx = ctx, .info = {.device = device, .dtype = dtype, .rank = rank, .offset = offset}};
    if (rank) memcpy(t->info.shape, shape, rank * sizeof *shape);
    SN_TRY(fill_strides(&t->info, env, strides));
    return storage_bytes(&t->bytes, &t->info, env);
}

static sn_tensor *keep(const sn_tensor *described) {
    sn_tensor *t = sn_heap_alloc(&described->ctx->env, sizeof *t);
    *t = *described;
    return t;
}

/* ---- storage ---- */

static sn_status allocate_host(sn_tensor *t) {
    t->owned_bytes = t->bytes + HOST_ALIGN;
    t->owned = sn_heap_alloc(&t->ctx->env, t->owned_bytes);
    t->info.data = (void *)(((uintptr_t)t->owned + HOST_ALIGN - 1) & ~(uintptr_t)(HOST_ALIGN - 1));
    memset(t->info.data, 0, t->bytes);
    return SN_OK;
}

static sn_status allocate_cuda(sn_tensor *t) {
    sn_cuda *cu;
    SN_TRY(sn_context_cuda(&cu, t->ctx, t->info.device));
    t->owned_bytes = t->bytes ? t->bytes : 1;
    SN_TRY(sn_cuda_malloc(&t->owned, cu, t->owned_bytes));
    t->info.data = t->owned;
    return sn_cuda_fill(cu, t->owned, 0, t->owned_bytes, NULL);
}

sn_status sn_tensor_new(sn_tensor **out, sn_context *ctx, int device, sn_dtype dtype, unsigned rank,
                        const int64_t *shape, const int64_t *strides, int64_t offset) {
    sn_tensor described;
    SN_TRY(describe(&described, ctx, device, dtype, rank, shape, strides, offset));
    sn_tensor *t = keep(&described); /* first: host memory that runs out must not strand a block of the device */
    sn_status status = device == SN_CPU ? allocate_host(t) : allocate_cuda(t);
    if (status == SN_OK) *out = t;
    else sn_tensor_destroy(t);
    return status;
}

sn_status sn_tensor_create_strided(sn_tensor **out, sn_context *ctx, int device, sn_dtype dtype, unsigned rank,
                                   const int64_t *shape, const int64_t *strides, int64_t offset) {
    SN_MAKE_RETURN(out, ctx, sn_tensor_new(out, ctx, device, dtype, rank, shape, strides, offset));
}

sn_status sn_tensor_create(sn_tensor **out, sn_context *ctx, int device, sn_dtype dtype, unsigned rank,
                           const int64_t *shape) {
    SN_MAKE_RETURN(out, ctx, sn_tensor_new(out, ctx, device, dtype, rank, shape, NULL, 0));
}

sn_status sn_tensor_new_wrapped(sn_tensor **out, sn_context *ctx, int device, void *data, sn_dtype dtype, unsigned rank,
                                const int64_t *shape, const int64_t *strides, int64_t offset) {
    sn_tensor t;
    SN_TRY(describe(&t, ctx, device, dtype, rank, shape, strides, offset));
    if (!data && t.info.numel) return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "tensor: data is NULL, no memory given");
    t.info.data = data;
    *out = keep(&t);
    return SN_OK;
}

sn_status sn_tensor_wrap(sn_tensor **out, sn_context *ctx, int device, void *data, sn_dtype dtype, unsigned rank,
                         const int64_t *shape, const int64_t *strides, int64_t offset) {
    SN_MAKE_RETURN(out, ctx, sn_tensor_new_wrapped(out, ctx, device, data, dtype, rank, shape, strides, offset));
}

static void release(sn_tensor *t) {
    sn_context *ctx = t->ctx;
    if (t->give_back) {
        bool inside = sn_locale_leave(&ctx->env);
        t->give_back(t->give_back_user);
        if (inside) sn_locale_enter(&ctx->env);
    }
    if (t->owned && t->info.device == SN_CPU) sn_heap_free(&ctx->env, t->owned, t->owned_bytes);
    else if (t->owned) sn_cuda_free(ctx->cuda[t->info.device], t->owned, t->owned_bytes);
    sn_heap_free(&ctx->env, t, sizeof *t);
}

void sn_tensor_destroy(sn_tensor *t) {
    if (!t) return;
    t->destroyed = true;
    if (!t->n_shares) release(t);
}

void sn_tensor_unshare(sn_tensor *t) {
    t->n_shares--;
    if (t->destroyed && !t->n_shares) release(t);
}

sn_status sn_tensor_writable(sn_env *env, const sn_tensor *t, const char *what, const char *name) {
    if (!t->read_only) return SN_OK;
    return sn_fail(env, SN_ERROR_ARGUMENT, "%s%s: its memory belongs to another library and may only be read", what,
                   name);
}

void sn_tensor_get_info(sn_tensor_info *out, const sn_tensor *t) {
    if (out) *out = (sn_tensor_info){.device = SN_CPU, .dtype = SN_N_DTYPES};
    if (!SN_IS_NULL(t, out)) *out = t->info;
}

/* ---- elements ---- */

static bool is_contiguous(const sn_tensor_info *info) {
    int64_t step = 1;
    for (unsigned k = info->rank; k-- > 0; step *= info->shape[k])
        if (info->shape[k] != 1 && info->strides[k] != step) return false;
    return true;
}

/* Copy between strided storage and packed elements, in row-major order. */
static void walk(const sn_tensor_info *info, char *storage, char *packed, bool to_storage) {
    size_t size = sn_dtype_bytes(info->dtype);
    int64_t at[SN_MAX_RANK] = {0}, where = info->offset;
    for (int64_t n = 0; n < info->numel; n++, packed += size) {
        char *element = storage + (size_t)where * size;
        if (to_storage) memcpy(element, packed, size);
        else memcpy(packed, element, size);
        for (unsigned k = info->rank; k-- > 0;) {
            where += info->strides[k];
            if (++at[k] < info->shape[k]) break;
            where -= info->strides[k] * info->shape[k];
            at[k] = 0;
        }
    }
}

/* `what`: of `size` bytes of the caller. */
static sn_status check_size(const sn_tensor *t, size_t size, const char *what) {
    size_t want = (size_t)t->info.numel * sn_dtype_bytes(t->info.dtype);
    if (size == want) return SN_OK;
    return sn_fail(&t->ctx->env, SN_ERROR_ARGUMENT, "tensor: %zu bytes of %s, %s%s holds %zu", size, what,
                   sn_dtypes[t->info.dtype].name, sn_sizes_text(&t->ctx->scratch, t->info.shape, t->info.rank), want);
}

static char *element_zero(const sn_tensor *t) {
    return (char *)t->info.data + (size_t)t->info.offset * sn_dtype_bytes(t->info.dtype);
}

sn_status sn_tensor_put(sn_tensor *t, const void *data, size_t size) {
    SN_TRY(check_size(t, size, "elements given"));
    SN_TRY(sn_tensor_writable(&t->ctx->env, t, "tensor", ""));
    if (!size) return SN_OK;
    bool packed = is_contiguous(&t->info);
    if (t->info.device == SN_CPU) {
        if (packed) memcpy(element_zero(t), data, size);
        else walk(&t->info, t->info.data, (char *)data, true);
        return SN_OK;
    }
    sn_cuda *cu;
    SN_TRY(sn_context_cuda(&cu, t->ctx, t->info.device));
    if (packed) return sn_cuda_to_device(cu, element_zero(t), data, size, NULL);
    char *storage = sn_alloc(&t->ctx->scratch, t->bytes); /* what lies between the elements stays as it is */
    SN_TRY(sn_cuda_to_host(cu, storage, t->info.data, t->bytes, NULL));
    walk(&t->info, storage, (char *)data, true);
    return sn_cuda_to_device(cu, t->info.data, storage, t->bytes, NULL);
}

/* What is filled doubles with each copy. */
static sn_status double_up(sn_cuda *cu, char *at, size_t filled, size_t all) {
    while (filled < all) {
        size_t more = all - filled < filled ? all - filled : filled;
        if (cu) SN_TRY(sn_cuda_copy(cu, at + filled, at, more, NULL));
        else memcpy(at + filled, at, more);
        filled += more;
    }
    return SN_OK;
}

sn_status sn_tensor_put_repeated(sn_tensor *t, const void *data, size_t size) {
    size_t all = (size_t)t->info.numel * sn_dtype_bytes(t->info.dtype);
    if (size >= all) return sn_tensor_put(t, data, all);
    SN_TRY(sn_tensor_writable(&t->ctx->env, t, "tensor", ""));
    if (!is_contiguous(&t->info)) {
        char *packed = sn_alloc(&t->ctx->scratch, all);
        memcpy(packed, data, size);
        SN_TRY(double_up(NULL, packed, size, all));
        return sn_tensor_put(t, packed, all);
    }
    sn_cuda *cu = NULL;
    if (t->info.device == SN_CPU) memcpy(element_zero(t), data, size);
    else {
        SN_TRY(sn_context_cuda(&cu, t->ctx, t->info.device));
        SN_TRY(sn_cuda_to_device(cu, element_zero(t), data, size, NULL));
    }
    return double_up(cu, element_zero(t), size, all);
}

sn_status sn_tensor_fetch(void *out, const sn_tensor *t, size_t size) {
    SN_TRY(check_size(t, size, "room for the elements"));
    if (!size) return SN_OK;
    bool packed = is_contiguous(&t->info);
    if (t->info.device == SN_CPU) {
        if (packed) memcpy(out, element_zero(t), size);
        else walk(&t->info, t->info.data, out, false);
        return SN_OK;
    }
    sn_cuda *cu;
    SN_TRY(sn_context_cuda(&cu, t->ctx, t->info.device));
    if (packed) return sn_cuda_to_host(cu, out, element_zero(t), size, NULL);
    char *storage = sn_alloc(&t->ctx->scratch, t->bytes);
    SN_TRY(sn_cuda_to_host(cu, storage, t->info.data, t->bytes, NULL));
    walk(&t->info, storage, out, false);
    return SN_OK;
}

sn_status sn_tensor_write(sn_tensor *t, const void *data, size_t size) {
    if (size && SN_IS_NULL(t, data)) return SN_ERROR_ARGUMENT;
    SN_GUARD_RETURN(t, sn_tensor_put(t, data, size));
}

sn_status sn_tensor_read(void *out, const sn_tensor *t, size_t size) {
    if (size && SN_IS_NULL(t, out)) return SN_ERROR_ARGUMENT;
    SN_GUARD_RETURN(t, sn_tensor_fetch(out, t, size));
}
