/* upload.h: constants go to the device while kernels are assembled. Private to runtime/. */
#ifndef SN_RUNTIME_UPLOAD_H
#define SN_RUNTIME_UPLOAD_H

#include "runtime/cuda_driver.h"

typedef struct sn_upload {
    void *to;
    const void *from;
    size_t size;
} sn_upload;

typedef struct sn_uploads {
    sn_cuda *cu;
    SN_VEC(sn_upload) list;
    double took_us;
    CUresult result;
    const char *call; /* that gave it */
} sn_uploads;

/* Copy all of the list, and wait for it: on any thread, in the context of the device, which `entered` says whether it is current. user: a
 * sn_uploads. */
void sn_uploads_run(void *user, CUresult entered);
/* Did it work? In the thread of the caller. */
sn_status sn_uploads_check(const sn_uploads *u);

#endif
