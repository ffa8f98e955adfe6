/* prog.h: a loaded program, shared by prog.c (load), exec.c (run) and time.c. Private to runtime/. */
#ifndef SN_RUNTIME_PROG_H
#define SN_RUNTIME_PROG_H

#include "runtime/cuda_module.h"
#include "runtime/threads.h"

/* One loaded kernel. */
typedef struct sn_code {
    sn_rt_kernel k; /* after loading its ptx is gone; the name is the module's */
    uint32_t n_params;
} sn_code;

/* A wrapper step with its sizes as numbers. */
typedef struct sn_rt_step {
    sn_step_kind kind;
    sn_buf buf, from;
    uint32_t kernel; /* CALL: position in m->kernels */
    sn_buf_list args;
    int64_t size, offset;
} sn_rt_step;

struct sn_prog {
    sn_env *env;
    sn_module *m;
    sn_cuda *cu;   /* NULL: CPU */
    sn_pool *pool; /* CPU with a grid of several blocks, else NULL */
    sn_rt_wrapper wrapper;
    sn_arena arena; /* everything below that is an array of the host */
    uint32_t n_codes, n_steps, n_ios, n_consts;
    sn_code *codes;
    sn_cuda_code *cuda_codes; /* GPU: by kernel */
    sn_rt_step *steps;
    sn_buf *ios;            /* INPUT and OUTPUT buffers */
    void **place;           /* by buffer id: storage in the current run; constants are there from loading on */
    void **consts;          /* by order of the CONST buffers */
    void **params;          /* scratch: parameters of the call that the interpreter prepares */
    void **param_addresses; /* scratch: what cuLaunchKernel wants */
    void *stream;           /* of the current run */
    void *workspace, *const_block;
    size_t workspace_size, const_size;
    sn_prog_times times;
};

/* Memory of the program: of the device, or of the host and then 256-aligned. */
sn_status sn_prog_alloc(void **out, sn_prog *p, size_t size);
void sn_prog_release(sn_prog *p, void *memory, size_t size);

/* SN_STEP_CHECK: is the address that the caller gave for an input or output buffer usable? */
sn_status sn_prog_check(sn_prog *p, sn_buf buf, const void *address);

#endif
