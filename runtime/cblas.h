/* cblas.h: matrix products by a BLAS of the CPU, which is opened at run time. Private to runtime/. */
#ifndef SN_RUNTIME_CBLAS_H
#define SN_RUNTIME_CBLAS_H

#include "runtime/runtime.h"

typedef struct sn_cblas {
    void *library;
    char name[64]; /* "OpenBLAS 0.3.21" */
#define SN_BLAS(symbol, needed, result, parameters) result(*symbol) parameters;
#include "runtime/cblas_api.def"
#undef SN_BLAS
} sn_cblas;

/* The first BLAS that can be opened; false: there is none, and why. Opening one again costs next to nothing. */
bool sn_cblas_open(sn_cblas *out, char why[SN_LIBRARY_WHY]);
void sn_cblas_close(sn_cblas *lib);
/* Has a BLAS such a product? Needs no library. */
bool sn_cblas_has(const sn_library_call *call, char why[SN_LIBRARY_WHY]);
/* Do it, on so many threads where the library has a say in that. */
void sn_cblas_run(const sn_cblas *lib, const sn_library_call *call, void *const *params, uint32_t threads);

#endif
