/* key.c: what the code of a kernel is made from, as text: equal text, equal code.
 *
 *     code ptx                                     what is made
 *     sources 5f0c7e91d2b8463f...                  of whoever makes it (cmake/Digest.cmake)
 *     llvm 22.1.8
 *     target sm_90a 1 90 1 132 1024 ...            every figure: which of them code asks for is its affair
 *     @k3                                          PTX has the name
 *     kernel @k(b0: f32 in size 64 ...) ... {      the kernel without names (sn_kern_print_plain)
 *     b0 3 0 ...                                   what that leaves out of the buffers
 *
 * Names of buffers stand in no code but as names of shared memory, elements of constants in none at all. Cost: linear in the
 * kernel.
 */
#include "codegen-llvm/llvm.h"

static void put_target(sn_text *t, const sn_target *g) {
    /* The clock is not among them: estimates alone ask for it. */
    _Static_assert(sizeof *g == 176, "a figure of the target that is new belongs below");
    sn_text_printf(t, "target %s %d %u %d %d %u %u %u %u %u %u %u %u %u %u %u %u %u %a %llu\n", g->name, g->is_gpu,
                   g->sm, g->specific, g->avx512, g->word_steps, g->units, g->max_threads, g->max_regs, g->shared_bytes,
                   g->cluster, g->vector_bytes, g->vector_regs, g->io_align, g->unit_threads, g->unit_blocks,
                   g->flight_bytes, g->special, (double)g->cycle_bytes, (unsigned long long)g->cache_bytes);
}

void sn_cg_key(sn_text *t, const char *kind, const sn_target *target) {
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch); /* of the library that is loaded */
    sn_text_printf(t, "code %s\nsources %s\nllvm %u.%u.%u\n", kind, sn_cg_sources, major, minor, patch);
    put_target(t, target);
}

static void put_buffer(sn_text *t, const sn_module *m, sn_buf buf) {
    const sn_buf_rec *b = sn_buf_get(m, buf);
    sn_text_printf(t, "b%u %u %u %u %u %u %u %d %d %u ", b->mark, b->scope, b->role, b->dtype, b->io, b->align,
                   b->private_size, b->noalias, b->invariant, b->swizzle);
    sn_ix_print(t, m, b->size, NULL, NULL);
    sn_text_put(t, "\n");
}

void sn_cg_key_kernel(sn_text *t, const sn_module *m, sn_kern k) {
    const sn_kern_rec *r = sn_kern_get(m, k);
    sn_kern_print_plain(t, m, k);
    for (uint32_t i = 0; i < r->params.n; i++) put_buffer(t, m, r->params.at[i]);
    for (uint32_t i = 0; i < r->locals.n; i++) put_buffer(t, m, r->locals.at[i]);
}
