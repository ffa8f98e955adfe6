/* cuda_memory.c: device memory: a caching allocator, copies, fills.
 *
 * cuMemAlloc and cuMemFree synchronise the device and cost tens of microseconds, so freed blocks are kept by rounded
 * size and handed out again. A reused block may still be read by work that was launched before it was freed: whoever
 * frees on one stream and allocates for another synchronises in between, as with any stream-ordered memory.
 *
 * Does not split or merge blocks: compiled programs plan their own workspace, what arrives here are few large tensors.
 * Where the host program gives the memory, nothing is kept: it has a cache of its own, or wants none.
 */
#include "runtime/cuda_driver.h"

#include <string.h>

enum { BLOCK_STEP = 512, CLASSES_PER_DOUBLING = 8, GIVEN_ALIGN = 256 };

/* ---- allocator ---- */

size_t sn_cuda_round(size_t size) {
    if (size <= BLOCK_STEP) return BLOCK_STEP;
    if (size > SIZE_MAX / 2) return size; /* absurd: the driver refuses it */
    size_t power = (size_t)1 << (63 - __builtin_clzll((unsigned long long)size));
    size_t step = power / CLASSES_PER_DOUBLING;
    if (step < BLOCK_STEP) step = BLOCK_STEP;
    return (size + step - 1) / step * step;
}

/* What a request takes: of the driver, a size class. */
static size_t block_size(const sn_cuda *cu, size_t size) { return cu->memory.alloc ? size : sn_cuda_round(size); }

/* Room for one more block, in use or spare (see sn_block_cache). */
static void reserve_block(sn_cuda *cu) {
    sn_block_cache *c = &cu->cache;
    if (c->n_spare + c->n_out < c->cap) return;
    uint32_t cap = c->cap ? 2 * c->cap : 64;
    c->spare = sn_heap_realloc(cu->env, c->spare, c->cap * sizeof *c->spare, cap * sizeof *c->spare);
    sn_heap_keep(c->spare);
    c->cap = cap;
}

/* The most recently freed block of the size: the likeliest to be warm in L2. 0 when there is none. */
static CUdeviceptr take_spare(sn_block_cache *c, size_t size) {
    for (uint32_t i = c->n_spare; i-- > 0;) {
        if (c->spare[i].size != size) continue;
        CUdeviceptr p = c->spare[i].p;
        memmove(&c->spare[i], &c->spare[i + 1], (c->n_spare - i - 1) * sizeof *c->spare);
        c->n_spare--;
        c->bytes_spare -= size;
        return p;
    }
    return 0;
}

static sn_status out_of_device_memory(sn_cuda *cu, size_t size) {
    size_t unused = 0, total = 0;
    cu->api.cuMemGetInfo(&unused, &total);
    return sn_fail(cu->env, SN_ERROR_DEVICE_MEMORY,
                   "out of device memory on %s: %zu bytes wanted, %zu held by Sinter, %zu of %zu bytes unused",
                   cu->name, size, cu->cache.bytes_out, unused, total);
}

void sn_cuda_use_memory(sn_cuda *cu, const sn_cuda_memory *memory) { cu->memory = *memory; }

static sn_status given_block(CUdeviceptr *out, sn_cuda *cu, size_t size) {
    bool inside = sn_locale_leave(cu->env);
    void *p = cu->memory.alloc(cu->memory.user, (int)cu->ordinal, size);
    if (inside) sn_locale_enter(cu->env);
    *out = sn_device_address(p);
    if (!p) return out_of_device_memory(cu, size);
    if ((uintptr_t)p % GIVEN_ALIGN == 0) return SN_OK;
    cu->memory.free(cu->memory.user, (int)cu->ordinal, p, size);
    return sn_fail(cu->env, SN_ERROR_ARGUMENT, "device_alloc: %p is no multiple of %d", p, GIVEN_ALIGN);
}

/* The context is current. */
static sn_status malloc_block(CUdeviceptr *out, sn_cuda *cu, size_t size) {
    if (cu->memory.alloc) return given_block(out, cu, size);
    *out = take_spare(&cu->cache, size);
    if (*out) return SN_OK;
    CUresult result = cu->api.cuMemAlloc(out, size);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        sn_cuda_trim(cu);
        result = cu->api.cuMemAlloc(out, size);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return out_of_device_memory(cu, size);
    return sn_cuda_check(cu, result, "cuMemAlloc");
}

sn_status sn_cuda_malloc(void **out, sn_cuda *cu, size_t size) {
    *out = NULL;
    if (!size) return SN_OK;
    size_t rounded = block_size(cu, size);
    if (!cu->memory.alloc) reserve_block(cu); /* before entering: running out of host memory does not come back here */
    SN_TRY(sn_cuda_enter(cu));
    CUdeviceptr p = 0;
    sn_status status = malloc_block(&p, cu, rounded);
    sn_cuda_leave(cu);
    if (status != SN_OK) return status;
    cu->cache.n_out++;
    cu->cache.bytes_out += rounded;
    *out = (void *)(uintptr_t)p;
    return SN_OK;
}

static void give_back(sn_cuda *cu, void *p, size_t size) {
    bool entered = sn_cuda_enter_to_free(cu);
    bool inside = sn_locale_leave(cu->env);
    cu->memory.free(cu->memory.user, (int)cu->ordinal, p, size);
    if (inside) sn_locale_enter(cu->env);
    sn_cuda_leave_from(cu, entered);
}

void sn_cuda_free(sn_cuda *cu, void *p, size_t size) {
    if (!p) return;
    sn_block_cache *c = &cu->cache;
    size_t rounded = block_size(cu, size);
    SN_ASSERT(c->n_out > 0 && c->bytes_out >= rounded);
    c->n_out--;
    c->bytes_out -= rounded;
    if (cu->memory.alloc) {
        give_back(cu, p, rounded);
        return;
    }
    c->spare[c->n_spare++] = (sn_block){sn_device_address(p), rounded};
    c->bytes_spare += rounded;
}

void sn_cuda_trim(sn_cuda *cu) {
    sn_block_cache *c = &cu->cache;
    if (!c->n_spare) return;
    bool entered = sn_cuda_enter_to_free(cu);
    for (uint32_t i = 0; i < c->n_spare; i++) cu->api.cuMemFree(c->spare[i].p);
    c->n_spare = 0;
    c->bytes_spare = 0;
    sn_cuda_leave_from(cu, entered);
}

/* ---- copies ---- */

/* Second half of a call that entered the context: wait for the stream when the host takes back its side of a copy. */
static sn_status finish(sn_cuda *cu, sn_status status, bool wait, void *stream) {
    if (status == SN_OK && wait) status = CU_CALL(cu, cuStreamSynchronize, (stream));
    sn_cuda_leave(cu);
    return status;
}

sn_status sn_cuda_to_device(sn_cuda *cu, void *to, const void *from, size_t size, void *stream) {
    if (!size) return SN_OK;
    SN_TRY(sn_cuda_enter(cu));
    return finish(cu, CU_CALL(cu, cuMemcpyHtoDAsync, (sn_device_address(to), from, size, stream)), true, stream);
}

sn_status sn_cuda_to_host(sn_cuda *cu, void *to, const void *from, size_t size, void *stream) {
    if (!size) return SN_OK;
    SN_TRY(sn_cuda_enter(cu));
    return finish(cu, CU_CALL(cu, cuMemcpyDtoHAsync, (to, sn_device_address(from), size, stream)), true, stream);
}

sn_status sn_cuda_copy(sn_cuda *cu, void *to, const void *from, size_t size, void *stream) {
    if (!size) return SN_OK;
    SN_TRY(sn_cuda_enter(cu));
    return finish(cu, CU_CALL(cu, cuMemcpyDtoDAsync, (sn_device_address(to), sn_device_address(from), size, stream)),
                  false, stream);
}

sn_status sn_cuda_fill(sn_cuda *cu, void *to, unsigned char byte, size_t size, void *stream) {
    if (!size) return SN_OK;
    SN_TRY(sn_cuda_enter(cu));
    return finish(cu, CU_CALL(cu, cuMemsetD8Async, (sn_device_address(to), byte, size, stream)), false, stream);
}

sn_status sn_cuda_sync(sn_cuda *cu, void *stream) {
    SN_TRY(sn_cuda_enter(cu));
    return finish(cu, SN_OK, true, stream);
}
