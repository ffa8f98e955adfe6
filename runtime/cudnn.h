/* cudnn.h: convolutions by cuDNN, which is opened at run time. Private to runtime/. */
#ifndef SN_RUNTIME_CUDNN_H
#define SN_RUNTIME_CUDNN_H

#include "runtime/cuda_driver.h"

/* ---- the library's types, ABI-compatible with cudnn_cnn.h ---- */

/* cudnnConvolutionFwdAlgoPerf_t; those of the gradients are alike. */
typedef struct sn_cudnn_found {
    int algo, status; /* status 0: the algorithm can be used */
    float time;
    size_t workspace;
    int deterministic, math;
    int reserved[3];
} sn_cudnn_found;

/* ---- the library, for one device ---- */

typedef struct sn_cudnn {
    sn_env *env;
    void *library, *handle; /* handle: for questions, NULL: none was asked yet; runs have their own */
    char name[64];          /* "cuDNN 9.10.2" */
#define SN_DNN(name, result, parameters) result(*name) parameters;
#include "runtime/cudnn_api.def"
#undef SN_DNN
} sn_cudnn;

/* Open it; it stays open with the device. NULL: there is none, and why. The context of cu is current, here and below. */
sn_cudnn *sn_cudnn_open(sn_cuda *cu, char why[SN_LIBRARY_WHY]);
/* Before the first question about a call. false: it does not work on the device, and why. */
bool sn_cudnn_start(sn_cudnn *lib, char why[SN_LIBRARY_WHY]);
void sn_cudnn_close(sn_cudnn *lib);

/* ---- what the library is asked for (cudnn_shape.c) ---- */

enum { SN_CUDNN_RANK = 5 };

typedef enum sn_cudnn_direction {
    SN_CUDNN_FORWARD,
    SN_CUDNN_BACKWARD_DATA,
    SN_CUDNN_BACKWARD_FILTER,
    SN_N_CUDNN_DIRECTIONS
} sn_cudnn_direction;

/* y = conv(x, w), of which the direction says what is computed. Axes of x and y are batch, channels and space; those of w
 * are channels of y, channels of a group of x, and space. The call's image, weights and result are x, w, y; y, w, x of
 * BACKWARD_DATA; and x, y, w of BACKWARD_FILTER. */
typedef struct sn_cudnn_shape {
    sn_cudnn_direction direction;
    int rank, groups;
    int x[SN_CUDNN_RANK], x_stride[SN_CUDNN_RANK];
    int w[SN_CUDNN_RANK];
    int y[SN_CUDNN_RANK], y_stride[SN_CUDNN_RANK];
    bool channels_last; /* the weights */
    bool reversed;      /* the taps */
    int padding[SN_CUDNN_RANK - 2], stride[SN_CUDNN_RANK - 2], dilation[SN_CUDNN_RANK - 2];
} sn_cudnn_shape;

/* false: it is none that cuDNN has, and why. */
bool sn_cudnn_shape_of(sn_cudnn_shape *out, const sn_library_conv *conv, char why[SN_LIBRARY_WHY]);

/* ---- calls ---- */

/* One call, ready to run again and again. */
typedef struct sn_cudnn_call {
    sn_library_call is;
    sn_cudnn_shape shape;
    void *x, *w, *y, *conv; /* the library's objects */
    int algo;
    size_t workspace; /* bytes that a run needs */
} sn_cudnn_call;

/* Has cuDNN such a convolution? Needs no library. */
bool sn_cudnn_has(const sn_library_call *call, char why[SN_LIBRARY_WHY]);
/* false: the library does not run this one, and why; *out is to be dropped all the same. */
bool sn_cudnn_prepare(sn_cudnn_call *out, const sn_cudnn *lib, const sn_library_call *call, char why[SN_LIBRARY_WHY]);
void sn_cudnn_drop(sn_cudnn_call *call, const sn_cudnn *lib);
/* A handle for one who runs calls; false: there is none, and why. */
bool sn_cudnn_new_handle(void **out, const sn_cudnn *lib, char why[SN_LIBRARY_WHY]);
void sn_cudnn_drop_handle(const sn_cudnn *lib, void *handle);
/* Queue the call on the stream. Allocates nothing. */
sn_status sn_cudnn_run(const sn_cudnn *lib, sn_cuda *cu, void *handle, const sn_cudnn_call *call, void *const *params,
                       void *workspace, CUstream stream);

#endif
