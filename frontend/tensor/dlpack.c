/* dlpack.c: tensors from and to other libraries, by DLPack. No element is copied.
 *
 *     sn_tensor_from_dlpack(&t, ctx, managed);    t has managed's memory; destroying t calls managed->deleter
 *     sn_tensor_to_dlpack(&managed, t);           managed->deleter gives back what keeps t's memory
 *
 * The old and the versioned struct differ in what surrounds a DLTensor. Does not wait for a device: what orders the two
 * libraries' work is the caller's.
 */
#include "include/sinter/dlpack.h"
#include "frontend/tensor/tensor.h"

#include <string.h>

/* ---- element types ---- */

static sn_status dtype_from(sn_dtype *out, sn_env *env, DLDataType type) {
    for (int t = 0; t < SN_N_DTYPES && type.lanes == 1; t++) {
        *out = (sn_dtype)t;
        if (sn_dtypes[t].dlpack == type.code && 8 * sn_dtypes[t].bytes == type.bits) return SN_OK;
    }
    return sn_fail(env, SN_ERROR_UNSUPPORTED, "DLPack: elements of code %u, %u bits, %u lanes: Sinter has no such type",
                   type.code, type.bits, type.lanes);
}

/* ---- from others ---- */

static sn_status device_from(int *out, sn_context *ctx, DLDevice device) {
    sn_cuda *cu;
    switch ((int)device.device_type) {
    case kDLCPU:
    case kDLCUDAHost: *out = SN_CPU; return SN_OK;
    case kDLCUDA:
    case kDLCUDAManaged: *out = device.device_id; return sn_context_cuda(&cu, ctx, device.device_id);
    }
    return sn_fail(&ctx->env, SN_ERROR_UNSUPPORTED, "DLPack: device type %d; CPU (1) and CUDA (2, 3, 13) are known",
                   (int)device.device_type);
}

/* Strides of axes with one element mean nothing, and some libraries write just anything there. */
static const int64_t *strides_from(sn_arena *arena, const DLTensor *d) {
    if (!d->strides) return NULL;
    int64_t *strides = SN_NEWN(arena, int64_t, d->ndim);
    for (int32_t k = 0; k < d->ndim; k++) strides[k] = d->shape[k] < 2 ? 1 : d->strides[k];
    return strides;
}

static sn_status adopt(sn_tensor **out, sn_context *ctx, const DLTensor *d, void (*give_back)(void *managed),
                       void *managed, bool read_only) {
    sn_env *env = &ctx->env;
    sn_dtype dtype = SN_N_DTYPES;
    int device = SN_CPU;
    if (d->ndim < 0 || d->ndim > SN_MAX_RANK || (d->ndim && !d->shape))
        return sn_fail(env, SN_ERROR_ARGUMENT, "DLPack: rank %d; at most %d sizes are wanted", (int)d->ndim,
                       SN_MAX_RANK);
    SN_TRY(dtype_from(&dtype, env, d->dtype));
    SN_TRY(device_from(&device, ctx, d->device));
    if (d->byte_offset > UINTPTR_MAX - (uintptr_t)d->data)
        return sn_fail(env, SN_ERROR_ARGUMENT, "DLPack: byte_offset %llu leads out of the address space",
                       (unsigned long long)d->byte_offset);
    char *data = d->data ? (char *)d->data + d->byte_offset : NULL;
    if ((uintptr_t)data % sn_dtype_bytes(dtype))
        return sn_fail(env, SN_ERROR_ARGUMENT, "DLPack: elements at %p, which is no multiple of the %u bytes of %s",
                       (void *)data, sn_dtype_bytes(dtype), sn_dtypes[dtype].name);
    sn_tensor *t;
    SN_TRY(sn_tensor_new_wrapped(&t, ctx, device, data, dtype, (unsigned)d->ndim, d->shape,
                                 strides_from(&ctx->scratch, d), 0));
    t->give_back = give_back; /* from here on nothing fails: the memory is the tensor's */
    t->give_back_user = managed;
    t->read_only = read_only;
    *out = t;
    return SN_OK;
}

static void delete_versioned(void *managed) {
    DLManagedTensorVersioned *m = managed;
    if (m->deleter) m->deleter(m);
}

static void delete_old(void *managed) {
    DLManagedTensor *m = managed;
    if (m->deleter) m->deleter(m);
}

static sn_status from_versioned(sn_tensor **out, sn_context *ctx, DLManagedTensorVersioned *m) {
    if (m->version.major != DLPACK_MAJOR_VERSION)
        return sn_fail(&ctx->env, SN_ERROR_UNSUPPORTED, "DLPack: version %u.%u; version %d is known", m->version.major,
                       m->version.minor, DLPACK_MAJOR_VERSION);
    return adopt(out, ctx, &m->dl_tensor, delete_versioned, m, m->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
}

sn_status sn_tensor_from_dlpack(sn_tensor **out, sn_context *ctx, struct DLManagedTensorVersioned *managed) {
    SN_MAKE_RETURN(out, ctx, from_versioned(out, ctx, managed), managed);
}

static sn_status from_old(sn_tensor **out, sn_context *ctx, DLManagedTensor *m) {
    return adopt(out, ctx, &m->dl_tensor, delete_old, m, false);
}

sn_status sn_tensor_from_dlpack_old(sn_tensor **out, sn_context *ctx, struct DLManagedTensor *managed) {
    SN_MAKE_RETURN(out, ctx, from_old(out, ctx, managed), managed);
}

/* ---- to others ---- */

/* What is passed on, with what it points to. */
typedef struct exported {
    union {
        DLManagedTensorVersioned versioned;
        DLManagedTensor old;
    } as;
    sn_tensor *t;
    int64_t shape[SN_MAX_RANK], strides[SN_MAX_RANK];
} exported;

static void end_export(exported *e) {
    sn_tensor *t = e->t;
    sn_heap_free(&t->ctx->env, e, sizeof *e);
    sn_tensor_unshare(t);
}

static void end_versioned(DLManagedTensorVersioned *m) { end_export(m->manager_ctx); }
static void end_old(DLManagedTensor *m) { end_export(m->manager_ctx); }

/* The address is that of the first element: readers that forget byte_offset are common. */
static exported *export_tensor(DLTensor *d, sn_tensor *t) {
    const sn_tensor_info *info = &t->info;
    exported *e = sn_heap_alloc(&t->ctx->env, sizeof *e);
    size_t bytes = sn_dtype_bytes(info->dtype);
    *e = (exported){.t = t};
    memcpy(e->shape, info->shape, sizeof e->shape);
    memcpy(e->strides, info->strides, sizeof e->strides);
    *d = (DLTensor){.ndim = (int32_t)info->rank, .shape = e->shape, .strides = e->strides};
    d->data = info->numel ? (char *)info->data + (size_t)info->offset * bytes : NULL;
    d->device.device_type = info->device == SN_CPU ? kDLCPU : kDLCUDA;
    d->device.device_id = info->device == SN_CPU ? 0 : info->device;
    d->dtype = (DLDataType){sn_dtypes[info->dtype].dlpack, (uint8_t)(8 * bytes), 1};
    t->n_shares++;
    return e;
}

static sn_status to_versioned(DLManagedTensorVersioned **out, sn_tensor *t) {
    DLTensor d;
    exported *e = export_tensor(&d, t);
    e->as.versioned = (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                                 .manager_ctx = e,
                                                 .deleter = end_versioned,
                                                 .flags = t->read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
                                                 .dl_tensor = d};
    *out = &e->as.versioned;
    return SN_OK;
}

sn_status sn_tensor_to_dlpack(struct DLManagedTensorVersioned **out, sn_tensor *t) {
    SN_MAKE_RETURN(out, t, to_versioned(out, t));
}

static sn_status to_old(DLManagedTensor **out, sn_tensor *t) {
    if (t->read_only)
        return sn_fail(&t->ctx->env, SN_ERROR_UNSUPPORTED,
                       "DLPack: the tensor may only be read, which the old struct cannot say");
    DLTensor d;
    exported *e = export_tensor(&d, t);
    e->as.old = (DLManagedTensor){.dl_tensor = d, .manager_ctx = e, .deleter = end_old};
    *out = &e->as.old;
    return SN_OK;
}

sn_status sn_tensor_to_dlpack_old(struct DLManagedTensor **out, sn_tensor *t) {
    SN_MAKE_RETURN(out, t, to_old(out, t));
}
