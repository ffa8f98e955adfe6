/* nvtx.h: ranges of NVTX, which Nsight Systems shows. Private to runtime/. */
#ifndef SN_RUNTIME_NVTX_H
#define SN_RUNTIME_NVTX_H

#include "ir/loop/library.h"

typedef struct sn_nvtx {
    int (*push)(const char *name); /* NULL: there is no library */
    int (*pop)(void);
    char why[SN_LIBRARY_WHY];
} sn_nvtx;
/* The library stays open as long as the process. */
void sn_nvtx_open(sn_nvtx *out);

#endif
