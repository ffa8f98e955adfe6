/* cblas.c: matrix products by a BLAS of the CPU: whichever is found behind dlopen has the C interface, with int sizes.
 *
 * A BLAS has products in f32 and f64 alone, does nothing else with the result, and has no batch: that is a loop here.
 * It brings its own threads. OpenBLAS is told how many, for the time of a run: the number is the process's, and somebody
 * else may count on it.
 */
#include "runtime/cblas.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const libraries[] = {"libopenblas.so.0", "libmkl_rt.so.2", "libmkl_rt.so", "libblis.so.4",
                                        "libblas.so.3"};

enum { COLUMNS = 102, PLAIN = 111, TRANSPOSED = 112 }; /* CblasColMajor, CblasNoTrans, CblasTrans */

static const struct {
    const char *symbol;
    bool needed;
    size_t offset;
} rows[] = {
#define SN_BLAS(symbol, needed, result, parameters) {#symbol, needed, offsetof(sn_cblas, symbol)},
#include "runtime/cblas_api.def"
#undef SN_BLAS
};

static bool resolve(sn_cblas *lib) {
    for (size_t i = 0; i < SN_COUNT(rows); i++) {
        void *symbol = dlsym(lib->library, rows[i].symbol);
        if (!symbol && rows[i].needed) return false;
        memcpy((char *)lib + rows[i].offset, &symbol, sizeof symbol);
    }
    return true;
}

/* The first two words of OpenBLAS's own account; of others the file. */
static void name(sn_cblas *lib, const char *file) {
    const char *config = lib->openblas_get_config ? lib->openblas_get_config() : NULL;
    const char *end = config ? strchr(config, ' ') : NULL;
    if (end) end = strchr(end + 1, ' ');
    if (end) snprintf(lib->name, sizeof lib->name, "%.*s", (int)(end - config), config);
    else snprintf(lib->name, sizeof lib->name, "%s", file);
}

bool sn_cblas_open(sn_cblas *out, char why[SN_LIBRARY_WHY]) {
    size_t used = (size_t)snprintf(why, SN_LIBRARY_WHY, "no BLAS could be opened:");
    for (size_t i = 0; i < SN_COUNT(libraries); i++) {
        *out = (sn_cblas){.library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
        if (out->library && resolve(out)) {
            name(out, libraries[i]);
            return true;
        }
        sn_cblas_close(out);
        used += (size_t)snprintf(why + used, SN_LIBRARY_WHY - used, "%s %s", i ? "," : "", libraries[i]);
    }
    return false;
}

void sn_cblas_close(sn_cblas *lib) {
    if (lib->library) dlclose(lib->library);
    lib->library = NULL;
}

static bool refuse(char why[SN_LIBRARY_WHY], const char *text) {
    snprintf(why, SN_LIBRARY_WHY, "%s", text);
    return false;
}

bool sn_cblas_has(const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    const sn_library_matrix *all[] = {&call->a, &call->b, &call->c};
    if (call->sum != SN_F32 && call->sum != SN_F64) return refuse(why, "a BLAS has products in f32 and f64 alone");
    for (size_t i = 0; i < SN_COUNT(all); i++) {
        if (all[i]->dtype != call->sum) return refuse(why, "a BLAS converts no elements");
        if (all[i]->ld > INT_MAX) return refuse(why, "the columns of a matrix are too far apart for a BLAS");
    }
    if (call->has_bias || call->relu) return refuse(why, "a BLAS does no more than the product");
    return !call->algo || refuse(why, "a BLAS has one algorithm, algo=0");
}

static void one(const sn_cblas *lib, const sn_library_call *call, const char *a, const char *b, char *c) {
    int a_op = call->a.transposed ? TRANSPOSED : PLAIN, b_op = call->b.transposed ? TRANSPOSED : PLAIN;
    int m = (int)call->m, n = (int)call->n, k = (int)call->k;
    int lda = (int)call->a.ld, ldb = (int)call->b.ld, ldc = (int)call->c.ld;
    if (call->sum == SN_F32)
        lib->cblas_sgemm(COLUMNS, a_op, b_op, m, n, k, 1, (const float *)(const void *)a, lda,
                         (const float *)(const void *)b, ldb, 0, (float *)(void *)c, ldc);
    else
        lib->cblas_dgemm(COLUMNS, a_op, b_op, m, n, k, 1, (const double *)(const void *)a, lda,
                         (const double *)(const void *)b, ldb, 0, (double *)(void *)c, ldc);
}

static char *address_of(const sn_library_matrix *mx, void *const *params, int64_t number) {
    return (char *)params[mx->param] + (mx->offset + mx->stride * number) * (int64_t)sn_dtype_bytes(mx->dtype);
}

void sn_cblas_run(const sn_cblas *lib, const sn_library_call *call, void *const *params, uint32_t threads) {
    bool counted = lib->openblas_get_num_threads && lib->openblas_set_num_threads;
    int before = counted ? lib->openblas_get_num_threads() : 0;
    if (counted && before != (int)threads) lib->openblas_set_num_threads((int)threads);
    for (int64_t i = 0; i < call->batch; i++)
        one(lib, call, address_of(&call->a, params, i), address_of(&call->b, params, i),
            address_of(&call->c, params, i));
    if (counted && before != (int)threads) lib->openblas_set_num_threads(before);
}
