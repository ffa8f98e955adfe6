/* emit.c: one scheduled kernel to PTX text.
 *
 * A context, a module and a target machine per kernel, and a module of ours with that kernel alone: kernels on different
 * threads do not meet. The pass pipeline is short on purpose: the code that arrives is already unrolled and vectorised,
 * it needs its stack arrays as registers and its address arithmetic shared; about 1 ms. What is in the cache
 * (codegen-llvm/key.c says by what) is not made. Relies on codegen-llvm/. Does not assemble: that is the runtime's.
 */
#include "backend-nvptx/nvptx.h"
#include "codegen-llvm/llvm.h"
#include "codegen-llvm/workers.h"
#include "ir/loop/box.h"

#include <stdio.h>
#include <string.h>

#define FIRST_PASSES "sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg"
static const char PASSES[] = "function(" FIRST_PASSES ",early-cse)";
/* The back end begins with early-cse, too, which finds in products of tensor copies all that one in front of it would. */
static const char PASSES_OF_PRODUCTS[] = "function(" FIRST_PASSES ")";
/* Lanes of class element that are some elements apart, or of several loads that are side by side (colours of a pixel, parts of a complex
 * number), are one vector where the back end knows how their addresses are aligned; so are elements of a short row in shared memory, of which
 * a thread has all (class flat), and pieces of scans that are made in tiles (no class). */
static const char PASSES_OF_ELEMENTS[] = "function(" FIRST_PASSES ",early-cse,infer-alignment)";

typedef struct job {
    sn_cg cg;
    sn_gpu_code *out;
    sn_module *m;
    sn_kern k;
    bool want_llvm;
    sn_arena *arena;
} job;

/* More than 4 KB of parameters, and what blocks of a cluster send each other, need PTX 8.1 (drivers from R530 on). */
static uint32_t ptx_version(const job *j, const sn_cg_needs *needs, uint32_t ptx) {
    enum { SMALL_BLOCK = 4096, NEWER = 81 };
    const sn_kern_rec *k = sn_kern_get(j->m, j->k);
    uint64_t bytes = 8ull * (k->params.n + sn_cg_keeps(j->m, j->k, true)) + (uint64_t)needs->n_maps * SN_MAP_BYTES;
    bool large = (j->out->param_block || needs->n_maps) && bytes > SMALL_BLOCK;
    if ((large || j->out->cluster > 1) && ptx < NEWER) ptx = NEWER;
    return ptx < needs->ptx ? needs->ptx : ptx;
}

static sn_status target_machine(LLVMTargetMachineRef *out, job *j, const sn_cg_needs *needs) {
    sn_cg *cg = &j->cg;
    static const char TRIPLE[] = "nvptx64-nvidia-cuda";
    const char *cpu;
    uint32_t ptx;
    if (!sn_nvptx_cpu(cg->target, needs->specific, &cpu, &ptx))
        return sn_fail(cg->env, SN_ERROR_TARGET, "no code can be made for %s: compute capability 7.5 is the oldest",
                       cg->target->name);
    LLVMTargetRef target;
    char *text = NULL;
    if (LLVMGetTargetFromTriple(TRIPLE, &target, &text)) {
        sn_status status = sn_fail(cg->env, SN_ERROR_TARGET, "this LLVM has no NVPTX back end: %s", text);
        LLVMDisposeMessage(text);
        return status;
    }
    char features[16];
    snprintf(features, sizeof features, "+ptx%u", ptx_version(j, needs, ptx));
    *out = LLVMCreateTargetMachine(target, TRIPLE, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocDefault,
                                   LLVMCodeModelDefault);
    return *out ? SN_OK : sn_fail(cg->env, SN_ERROR_TARGET, "LLVM cannot generate code for %s", cpu);
}

static sn_status take_ptx(job *j, LLVMModuleRef mod, LLVMTargetMachineRef tm) {
    char *text = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(tm, mod, LLVMAssemblyFile, &text, &j->cg.emitted)) {
        sn_status status = sn_fail(j->cg.env, SN_ERROR_INTERNAL, "emitting PTX: %s", text);
        LLVMDisposeMessage(text);
        return status;
    }
    const char *ptx = LLVMGetBufferStart(j->cg.emitted);
    size_t size = LLVMGetBufferSize(j->cg.emitted);
    sn_text streamed;
    sn_text_init(&streamed, j->cg.env);
    if (sn_nvptx_streams(j->cg.target, j->m, j->k, &j->cg.scratch)) {
        sn_nvptx_stream(&streamed, ptx, size, sn_kern_posts(j->m, j->k), sn_nvptx_has_once(j->m, j->k));
        ptx = streamed.s;
        size = streamed.n;
    }
    j->out->ptx_size = size;
    j->out->ptx = sn_strndup(j->arena, ptx, size);
    sn_text_free(&streamed);
    return SN_OK;
}

static void take_needs(sn_gpu_code *out, const sn_cg_needs *needs, sn_arena *arena) {
    out->shared_bytes = needs->shared_bytes;
    out->kept_bytes = needs->kept_bytes;
    out->n_maps = needs->n_maps;
    out->whole = needs->whole;
    out->maps = sn_memdup(arena, needs->maps, needs->n_maps * sizeof *needs->maps);
}

/* The first machine is the oldest that runs the generation's code, and knows the layout of data. What the code of this
 * kernel needs beyond that is known once it is made. */
static sn_status fit_machine(job *j, const sn_cg_needs *needs) {
    if (!needs->specific && !needs->ptx) return SN_OK;
    LLVMDisposeTargetMachine(j->cg.tm);
    j->cg.tm = NULL;
    return target_machine(&j->cg.tm, j, needs);
}

static const char *passes_of(const job *j, const sn_cg_needs *needs) {
    sn_sched_class cls = sn_kern_get(j->m, j->k)->sched.cls;
    if (cls == SN_SCHED_ELEMENT || cls == SN_SCHED_FLAT || cls == SN_SCHED_NONE) return PASSES_OF_ELEMENTS;
    return cls == SN_SCHED_CONTRACT && needs->n_maps ? PASSES_OF_PRODUCTS : PASSES;
}

static sn_status emit_module(job *j, LLVMModuleRef mod) {
    LLVMValueRef fn;
    sn_cg_needs needs;
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(j->cg.tm);
    LLVMSetModuleDataLayout(mod, layout);
    LLVMDisposeTargetData(layout);
    LLVMSetTarget(mod, "nvptx64-nvidia-cuda");
    SN_TRY(sn_cg_kernel(&fn, &needs, &j->cg, mod, j->m, j->k));
    take_needs(j->out, &needs, j->arena);
    if (j->want_llvm) j->out->llvm = sn_cg_text(&j->cg, mod, j->arena);
    SN_TRY(sn_cg_verify(&j->cg, mod));
    SN_TRY(fit_machine(j, &needs));
    SN_TRY(sn_cg_optimise(&j->cg, mod, j->cg.tm, passes_of(j, &needs)));
    sn_nvptx_widen(&j->cg, mod);
    return take_ptx(j, mod, j->cg.tm);
}

static sn_status emit_guarded(void *user) {
    job *j = user;
    if (!j->want_llvm) LLVMContextSetDiscardValueNames(j->cg.cx, 1); /* of registers and labels, which PTX numbers */
    SN_TRY(target_machine(&j->cg.tm, j, &(sn_cg_needs){0}));
    LLVMModuleRef mod = LLVMModuleCreateWithNameInContext(sn_kern_get(j->m, j->k)->name, j->cg.cx);
    sn_status status = emit_module(j, mod);
    LLVMDisposeModule(mod);
    return status;
}

/* The launch must agree with what the code was made for. */
static sn_status find_launch(sn_gpu_code *out, sn_module *m, sn_kern k, const sn_target *target) {
    enum { FIRST_BOXES = 90 };
    sn_launch launch = sn_kern_launch(m, k);
    if (!sn_ix_is_const(m, launch.grid, &out->grid))
        return sn_fail(m->env, SN_ERROR_UNSUPPORTED,
                       "kernel %s: its grid depends on a symbolic size; give it a value first",
                       sn_kern_get(m, k)->name);
    if (out->grid > INT32_MAX)
        return sn_fail(m->env, SN_ERROR_UNSUPPORTED, "kernel %s: a grid of %lld blocks, 2147483647 is the most",
                       sn_kern_get(m, k)->name, (long long)out->grid);
    out->block_x = launch.block_x + (target->sm >= FIRST_BOXES ? sn_kern_box_threads(m, k) : 0);
    out->block_y = launch.block_y;
    out->param_block = sn_kern_segments(m, k) > 1;
    out->together = sn_kern_get(m, k)->sched.teams && launch.cluster > 1;
    out->cluster = out->together ? 1 : launch.cluster;
    return SN_OK;
}

static sn_status make_own(sn_gpu_code *out, sn_module *own, const sn_target *target, bool want_llvm, sn_arena *arena) {
    sn_kern k = own->kernels.at[0];
    job j = {.out = out, .m = own, .k = k, .want_llvm = want_llvm, .arena = arena};
    SN_TRY(sn_cg_open(&j.cg, own->env, target));
    sn_status status = sn_cg_guarded(&j.cg, emit_guarded, &j);
    sn_cg_close(&j.cg);
    return status;
}

/* ---- what is remembered ----
 *
 *     | kept | maps ... | PTX ... |      what else a launch needs follows from the kernel
 */
typedef struct kept {
    uint64_t kept_bytes, map_size;
    uint32_t shared_bytes, n_maps, whole, unused;
} kept;

/* With its name, which stands in the PTX. */
static sn_cache_key key_of(const sn_module *own, const sn_target *target) {
    sn_text t;
    sn_text_init(&t, own->env);
    sn_cg_key(&t, "ptx", target);
    sn_text_printf(&t, "@%s\n", sn_kern_get(own, own->kernels.at[0])->name);
    sn_cg_key_kernel(&t, own, own->kernels.at[0]);
    sn_cache_key key = sn_cache_key_of(t.s, t.n);
    sn_text_free(&t);
    return key;
}

static bool recall(sn_gpu_code *out, sn_cache *cache, sn_cache_key key, sn_arena *arena) {
    kept head;
    void *at;
    size_t size;
    if (!sn_cache_get(&at, &size, cache, SN_CACHE_PTX, key, arena)) return false;
    if (size >= sizeof head) memcpy(&head, at, sizeof head);
    if (size < sizeof head || head.map_size != sizeof *out->maps ||
        head.n_maps > (size - sizeof head) / sizeof *out->maps) {
        sn_cache_reject(cache, SN_CACHE_PTX, key);
        return false;
    }
    size_t before = sizeof head + head.n_maps * sizeof *out->maps;
    out->kept_bytes = head.kept_bytes;
    out->shared_bytes = head.shared_bytes;
    out->n_maps = head.n_maps;
    out->whole = head.whole;
    out->maps = (sn_tensor_map *)((char *)at + sizeof head);
    out->ptx = (char *)at + before;
    out->ptx_size = size - before;
    return true;
}

static void remember(sn_cache *cache, sn_cache_key key, const sn_gpu_code *code) {
    const kept head = {.kept_bytes = code->kept_bytes,
                       .map_size = sizeof *code->maps,
                       .shared_bytes = code->shared_bytes,
                       .n_maps = code->n_maps,
                       .whole = code->whole};
    const sn_file_part parts[] = {
        {&head, sizeof head}, {code->maps, code->n_maps * sizeof *code->maps}, {code->ptx, code->ptx_size}};
    sn_cache_put(cache, SN_CACHE_PTX, key, parts, SN_COUNT(parts));
}

/* cache NULL: there is none, or LLVM IR is wanted, which nobody remembers. */
static sn_status emit_own(sn_gpu_code *out, sn_module *own, const sn_target *target, bool want_llvm, sn_cache *cache,
                          sn_arena *arena) {
    sn_cache_key key;
    SN_TRY(find_launch(out, own, own->kernels.at[0], target));
    if (!cache) return make_own(out, own, target, want_llvm, arena);
    key = key_of(own, target);
    if (recall(out, cache, key, arena)) return SN_OK;
    SN_TRY(make_own(out, own, target, false, arena));
    remember(cache, key, out);
    return SN_OK;
}

/* One call, which counts as a block; the texts say so. */
static sn_status leave_to_library(sn_gpu_code *out, sn_module *own, sn_arena *arena) {
    const char *name = sn_kern_get(own, own->kernels.at[0])->name, *unused;
    sn_library_call call = {.is_conv = false};
    const char *who = sn_library_read(&call, &unused, own, own->kernels.at[0]) && call.is_conv ? "cuDNN" : "cuBLASLt";
    *out = (sn_gpu_code){.ptx = sn_strf(arena, "// kernel %s: %s runs it\n", name, who),
                         .llvm = sn_strf(arena, "; kernel %s: %s runs it\n", name, who),
                         .block_x = 1,
                         .block_y = 1,
                         .cluster = 1,
                         .grid = 1};
    out->ptx_size = strlen(out->ptx);
    return SN_OK;
}

static sn_status emit_in(sn_gpu_code *out, sn_env *env, const sn_module *m, sn_kern k, const sn_target *target,
                         bool want_llvm, sn_cache *cache, sn_arena *arena) {
    *out = (sn_gpu_code){0};
    if (!target->is_gpu) return sn_fail(env, SN_ERROR_TARGET, "PTX cannot be made for target %s", target->name);
    sn_module *own = sn_module_of_kernel(env, m, k);
    sn_status status = sn_kern_is_library(sn_kern_get(m, k)) ? leave_to_library(out, own, arena)
                                                             : emit_own(out, own, target, want_llvm, cache, arena);
    sn_module_free(own);
    return status;
}

sn_status sn_nvptx_emit(sn_gpu_code *out, const sn_module *m, sn_kern k, const sn_target *target, bool want_llvm,
                        sn_arena *arena) {
    return emit_in(out, m->env, m, k, target, want_llvm, NULL, arena);
}

/* ---- all kernels ---- */

typedef struct all {
    sn_gpu_code *codes;
    sn_arena *arenas; /* of the pieces, in their environments */
    const sn_module *m;
    const sn_target *target;
    sn_cache *cache;
    sn_arena *arena;
} all;

static sn_status emit_piece(void *user, sn_env *env, uint32_t i) {
    all *a = user;
    sn_arena_init(&a->arenas[i], env);
    return emit_in(&a->codes[i], env, a->m, a->m->kernels.at[i], a->target, false, a->cache, &a->arenas[i]);
}

static sn_status take_piece(void *user, uint32_t i) {
    all *a = user;
    sn_gpu_code *code = &a->codes[i];
    code->ptx = sn_strndup(a->arena, code->ptx, code->ptx_size);
    code->maps = sn_memdup(a->arena, code->maps, code->n_maps * sizeof *code->maps);
    return SN_OK;
}

sn_status sn_nvptx_emit_all(sn_gpu_code *out, const sn_module *m, const sn_target *target, const sn_workers *workers,
                            sn_cache *cache, sn_arena *arena) {
    uint32_t n = m->kernels.n;
    all a = {
        .codes = out, .arenas = SN_NEWN(arena, sn_arena, n), .m = m, .target = target, .cache = cache, .arena = arena};
    return sn_cg_pieces(m->env, workers, n, &(sn_pieces){emit_piece, take_piece, &a});
}
