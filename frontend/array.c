/* array.c: elements in storage format as values of the evaluator (ir/graph/eval.c), and back. */
#include "frontend/frontend.h"

sn_array sn_array_from(sn_arena *arena, sn_dtype dtype, unsigned rank, const int64_t *shape, const void *data) {
    sn_array a = {.dtype = dtype, .rank = rank, .numel = 1};
    for (unsigned k = 0; k < rank; k++) a.numel *= a.shape[k] = shape[k];
    size_t bytes = sn_dtype_bytes(dtype);
    if (sn_is_float(dtype)) a.f = SN_NEWN(arena, double, a.numel + 1);
    else a.i = SN_NEWN(arena, int64_t, a.numel + 1);
    for (int64_t k = 0; k < a.numel; k++) {
        const char *element = (const char *)data + (size_t)k * bytes;
        if (a.f) a.f[k] = sn_load_float(dtype, element);
        else a.i[k] = sn_load_int(dtype, element);
    }
    return a;
}

void sn_array_store(void *out, const sn_array *a) {
    size_t bytes = sn_dtype_bytes(a->dtype);
    for (int64_t k = 0; k < a->numel; k++) {
        char *element = (char *)out + (size_t)k * bytes;
        if (a->f) sn_store_float(a->dtype, element, a->f[k]);
        else sn_store_int(a->dtype, element, a->i[k]);
    }
}
