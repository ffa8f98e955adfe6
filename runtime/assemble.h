/* assemble.h: PTX to cubins. Needs no device. Private to runtime/; what others see of it is in runtime.h. */
#ifndef SN_RUNTIME_ASSEMBLE_H
#define SN_RUNTIME_ASSEMBLE_H

#include "runtime/runtime.h"
#include "runtime/threads.h"

/* One kernel on its way to a cubin. */
typedef struct sn_assembly {
    const char *name, *ptx;
    size_t ptx_size;
    char arch[32]; /* "-arch=sm_90a" */
    bool whole;    /* as of sn_rt_kernel */
    bool left_out; /* of an assembler's turn: it is not its work, or is done */
    void *link;    /* nvJitLinkHandle */
    int result;    /* of nvJitLink: 0 is success */
    size_t cubin_size;
    void *cubin; /* in the arena; NULL when refused */
    char *log;   /* in the arena, when refused */
    /* Of kernels that go as one text (join.c) the first has it. */
    bool is_joined;    /* its text is in that of the first */
    uint32_t first;    /* then */
    uint32_t next;     /* that goes with it; 0: none */
    const char *alone; /* the first's own text; NULL: none goes with it */
    size_t alone_size;
} sn_assembly;

/* Of a kernel, for devices of a generation; one that a library runs, or that has a cubin, is left out. */
sn_assembly sn_assembly_of(const sn_rt_kernel *k, uint32_t sm);
/* The architecture option of a PTX text: its own .target when that is the device's with a suffix (sm_90a). */
void sn_assembly_arch(char *out, size_t size, const char *ptx, uint32_t sm);
/* The first lines of an assembler's log as one line. */
char *sn_log_line(sn_arena *arena, const char *log);

/* Small texts become one, as far as so many threads still have enough to share out; those that are in the first's are left out. (join.c) */
void sn_assemblies_join(sn_assembly *jobs, uint32_t n, uint32_t threads, sn_arena *arena);
/* Each has its own text again, and none is left out. */
void sn_assemblies_part(sn_assembly *jobs, uint32_t first);

/* What threads of a pool do beside assembling, in one go with it: any thread, any order. */
typedef struct sn_aside {
    void (*body)(void *user, uint32_t piece);
    void *user;
    const size_t *size; /* of each piece: how long the text is that takes as long */
    uint32_t n;
} sn_aside;

/* Cubins for all that have none and are not left out: remembered ones, then those of nvJitLink but for kernels that are whole, then
 * those of ptxas, for what is kept. NULL: nothing is. aside is done by the end in any case; NULL: there is nothing. (cubins.c) */
void sn_cubins_make(sn_assembly *jobs, uint32_t n, const sn_cubins *keep, const sn_aside *aside, sn_pool *pool,
                    sn_arena *arena);

/* ---- nvJitLink, in this process (assemble.c) ---- */

typedef struct sn_assembler sn_assembler;
/* NULL when no libnvJitLink can be opened. */
sn_assembler *sn_assembler_open(sn_env *env);
void sn_assembler_close(sn_assembler *as);
/* What its cubins depend on besides text and architecture: "nvJitLink 13.0 of 92461096 bytes". False: it does not say. */
bool sn_assembler_version(char *out, size_t size, const sn_assembler *as);
/* Assemble all that are not left out, side by side on the pool with what is aside (NULL: nothing), the longest first; name, ptx, ptx_size
 * and arch are filled in. A refusal is in the record. as NULL: none of them, what is aside alone. */
void sn_assemble(sn_assembler *as, sn_assembly *jobs, uint32_t n, const sn_aside *aside, sn_pool *pool,
                 sn_arena *arena);

/* ---- ptxas, a process for each text (ptxas.c) ---- */

/* "ptxas of 41862576 bytes from 1755676512.000000000": the file stands for its version. False: it is not there any more. */
bool sn_ptxas_version(char *out, size_t size, const sn_ptxas *x);
/* The same as sn_assemble. What goes wrong is noted in x. */
void sn_ptxas_assemble(sn_ptxas *x, sn_assembly *jobs, uint32_t n, sn_pool *pool, sn_arena *arena);

#endif
