/* nvtx.c: libnvToolsExt, opened where somebody asks for ranges. What is pushed there goes to the tool that listens, if one does.
 */
#include "runtime/nvtx.h"

#include <dlfcn.h>

#include "runtime/dynamic.h"

void sn_nvtx_open(sn_nvtx *out) {
    static const char *const files[] = {"libnvToolsExt.so.1", "libnvToolsExt.so"};
    static const sn_dynamic_row rows[] = {{"nvtxRangePushA", offsetof(sn_nvtx, push)},
                                          {"nvtxRangePop", offsetof(sn_nvtx, pop)}};
    const sn_dynamic d = {"NVTX", files, SN_COUNT(files), rows, SN_COUNT(rows)};
    *out = (sn_nvtx){0};
    void *library = sn_dynamic_open(&d, out, out->why);
    if (library) dlclose(library); /* it is not to be deleted */
    else out->push = NULL, out->pop = NULL;
}
