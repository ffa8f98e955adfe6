/* target_host.c: this machine's CPU as a target, and the version of LLVM.
 *
 * Relies on LLVM to know the CPU's features. Does not count cores: the caller says how many threads run kernels.
 */
#include "codegen-llvm/llvm.h"

#include <llvm/Config/llvm-config.h>
#include <string.h>

void sn_target_host(sn_target *out, uint32_t threads) {
    char *features = LLVMGetHostCPUFeatures();
    bool avx512 = strstr(features, "+avx512f"), neon = strstr(features, "+neon");
    uint32_t bytes = avx512 ? 64 : strstr(features, "+avx2") ? 32 : 16;
    bool short_too = strstr(features, "+avx512vl") && strstr(features, "+avx512bw");
    /* Vectors of 512 bits take the one of AVX-512, which a hypervisor may hide from a machine that it shows the other one. */
    bool vnni = strstr(features, avx512 ? "+avx512vnni" : "+avxvnni"), words = strstr(features, "+sse2");
    LLVMDisposeMessage(features);
    *out = (sn_target){
        .is_gpu = false,
        .name = "host",
        .avx512 = avx512 && short_too,
        /* AVX-512F alone has vectors of 512 bits, but no products of 16 of them. */
        .word_steps = avx512 && !short_too ? 1
                      : vnni               ? 4
                      : words              ? 2
                                           : 1,
        .units = threads ? threads : 1,
        .max_threads = 1,
        .max_regs = 64,
        .shared_bytes = 0,
        .cluster = 1,
        .vector_bytes = bytes,
        .vector_regs = avx512 || neon ? 32 : 16,
        .io_align = 1,
        .flight_bytes = 1024,
        .cache_bytes = 32u << 20,
    };
}

const char *sn_llvm_version(void) { return LLVM_VERSION_STRING; }
