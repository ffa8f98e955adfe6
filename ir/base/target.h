/* target.h: what passes and code generators know of a machine. Filled from backend-nvptx/targets.def, from the host's
 * CPU, or from a device at run time; passes only read it.
 */
#ifndef SN_IR_BASE_TARGET_H
#define SN_IR_BASE_TARGET_H

#include "ir/base/base.h"

/* Elements from one lane of the CPU to the next, up to which vectors come and go by shuffles (codegen-llvm/apart.c): beyond,
 * one by one is as fast. */
enum { SN_MOST_APART = 16 };

typedef struct sn_target {
    bool is_gpu;
    char name[96]; /* "sm_90", "host"; with the figures that differ from its row: "sm_90a:units=114:l2=52428800" */
    uint32_t sm;   /* GPU: compute capability, 90 for 9.0 */
    bool specific; /* GPU: kernels may use what this architecture alone has (sm_90a) */
    bool exact; /* GPU: the figures are those of the device that code is made for, not of its generation's usual card */
    bool avx512; /* CPU: its vectors have the instructions of AVX-512F, VL and BW */
    uint32_t
        word_steps; /* CPU: steps of a sum of products that one instruction adds to a lane of 32 bits: 4 of bytes (VNNI), 2 of 16 bits, 1 */
    uint32_t units;        /* multiprocessors, or CPU threads */
    uint32_t max_threads;  /* of a block */
    uint32_t max_regs;     /* 32-bit registers of a thread that a schedule may fill with data */
    uint32_t shared_bytes; /* of a block */
    uint32_t cluster;      /* blocks of the largest cluster that runs everywhere; 1: no clusters */
    uint32_t vector_bytes; /* of the widest access: 16 on GPUs, the SIMD width on CPUs */
    uint32_t vector_regs;  /* CPU: registers of vector_bytes each */
    uint32_t io_align;     /* bytes that storage of the caller starts at a multiple of: 16 on GPUs, 1 on CPUs */
    uint32_t unit_threads; /* GPU: resident on a unit, at most */
    uint32_t unit_blocks;  /* GPU: resident on a unit, at most */
    uint32_t flight_bytes; /* bytes in flight per unit that hide memory latency (48 KB on the H200) */
    uint32_t special;      /* GPU: special functions of a unit in a cycle (16) */
    uint32_t mhz;          /* GPU: clock, for estimates in microseconds; no kernel depends on it */
    float cycle_bytes;     /* GPU: that memory moves for a unit in a cycle (16.5 on the H200) */
    uint64_t cache_bytes;  /* L2 */
} sn_target;

/* GPU: blocks of so many threads (of text: any number) that a unit holds, at most. */
static inline uint32_t sn_target_blocks(const sn_target *t, uint64_t threads) {
    enum { WARP = 32 };
    uint64_t warps = threads / WARP + (threads % WARP || !threads), most = t->unit_threads / WARP / warps;
    return most < t->unit_blocks ? (uint32_t)most : t->unit_blocks;
}

/* GPU: do blocks of which a unit holds so many lie evenly on the units, in a row of launches like this one? They do
 * where those of the next one find room beside them, and where they fill (nearly) all the room that there is
 * (codegen-llvm/follow.c). */
static inline bool sn_target_lies_evenly(const sn_target *t, uint64_t blocks, uint64_t resident) {
    enum { FEW_FREE = 16 /* one in so many */ };
    uint64_t room = t->units * resident;
    return 2 * blocks <= room || blocks + room / FEW_FREE >= room;
}

#endif
