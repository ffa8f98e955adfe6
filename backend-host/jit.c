/* jit.c: machine code for this CPU: the kernels of a module and its wrapper, optimised for the very processor, in one
 * object that LLJIT links into the process.
 *
 * The session's context never meets ORC: we emit the object file ourselves and hand ORC bytes, so no context changes
 * owner and no thread of ORC touches ours. Symbols of the object are numbered (kernel.0), so that a kernel named expf
 * cannot capture calls of the C library. Functions that generated code calls (libm, memcpy) come from the process.
 */
#include "backend-host/host.h"

#include <errno.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <stdio.h>
#include <string.h>

static const char wrapper_symbol[] = "wrapper";

/* A wrapper alone is straight-line calls: optimising it costs 5 ms and gains nothing that a launch would notice. */
typedef struct {
    const char *passes;
    LLVMCodeGenOptLevel level;
} effort;
/* Kernels say themselves what is a vector and what is unrolled, so LLVM's vectorisers and unrollers would find nothing
 * but compile time: this list makes code as fast as default<O2> in a half to a fifth of the time. */
static const char kernel_passes[] =
    "function(sroa,early-cse,loop-mssa(licm),instcombine<no-verify-fixpoint>,simplifycfg,early-cse)";
/* Many thousand statements are straight-line code, where instcombine alone costs seconds and finds nothing. */
enum { BULK = 4096 };
static const effort kernel_effort = {kernel_passes, LLVMCodeGenLevelDefault},
                    bulk_effort = {"function(early-cse)", LLVMCodeGenLevelLess},
                    wrapper_effort = {NULL, LLVMCodeGenLevelNone};

struct sn_host_code {
    sn_env *env;
    LLVMOrcLLJITRef jit;
    uint32_t n_kernels;
    sn_host_kernel *kernels;
    sn_wrapper_fn wrapper;
};

/* One compilation; lives across the guard. */
typedef struct compilation {
    sn_cg cg;
    sn_module *m;
    const effort *effort;
    bool with_kernels, with_wrapper;
    sn_arena scratch;
    sn_host_code *code;
    char *text; /* wanted by sn_host_llvm */
    sn_arena *text_arena;
} compilation;

typedef struct {
    char at[32];
} symbol;

static symbol kernel_symbol(uint32_t number) {
    symbol s;
    snprintf(s.at, sizeof s.at, "kernel.%u", number);
    return s;
}

/* ---- LLVM IR ---- */

/* A target machine for the processor at hand. */
static sn_status host_machine(LLVMTargetMachineRef *out, sn_env *env, LLVMCodeGenOptLevel level) {
    char *triple = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
    char *message = NULL;
    LLVMTargetRef target = NULL;
    sn_status status = SN_OK;
    *out = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message))
        status = sn_fail(env, SN_ERROR_TARGET, "LLVM has no code generator for this machine (%s): %s", triple, message);
    else *out = LLVMCreateTargetMachine(target, triple, cpu, features, level, LLVMRelocPIC, LLVMCodeModelDefault);
    if (status == SN_OK && !*out) status = sn_fail(env, SN_ERROR_TARGET, "LLVM cannot generate code for %s", cpu);
    LLVMDisposeMessage(message);
    LLVMDisposeMessage(features);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(triple);
    return status;
}

static LLVMModuleRef new_module(compilation *c, LLVMTargetMachineRef tm) {
    LLVMModuleRef mod = LLVMModuleCreateWithNameInContext("sinter", c->cg.cx);
    char *triple = LLVMGetTargetMachineTriple(tm);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
    LLVMSetTarget(mod, triple);
    LLVMSetModuleDataLayout(mod, layout);
    LLVMDisposeTargetData(layout);
    LLVMDisposeMessage(triple);
    return mod;
}

static sn_status generate(compilation *c, LLVMModuleRef mod) {
    LLVMValueRef f;
    uint32_t unused;
    for (uint32_t i = 0; c->with_kernels && i < c->m->kernels.n; i++) {
        SN_TRY(sn_cg_kernel(&f, &unused, &c->cg, mod, c->m, c->m->kernels.at[i]));
        if (!c->code) continue; /* text for people keeps the names */
        symbol s = kernel_symbol(i);
        LLVMSetValueName2(f, s.at, strlen(s.at));
    }
    if (c->with_wrapper) SN_TRY(sn_wrapper_llvm(&f, &c->cg, mod, c->m, wrapper_symbol, &c->scratch));
    return sn_cg_verify(&c->cg, mod);
}

/* ---- the object in the process ---- */

static sn_status orc_failed(sn_env *env, LLVMErrorRef error, const char *doing) {
    char *message = LLVMGetErrorMessage(error);
    sn_status status = sn_fail(env, SN_ERROR_TARGET, "%s: %s", doing, message);
    LLVMDisposeErrorMessage(message);
    return status;
}

/* What goes wrong is reported with its cause, before the call fails with a list of all symbols: the first cause stays. */
static void keep_report(void *user, LLVMErrorRef error) {
    sn_env *env = user;
    char *message = LLVMGetErrorMessage(error);
    bool memory = strstr(message, strerror(ENOMEM)) != NULL;
    sn_fail(env, memory ? SN_ERROR_MEMORY : SN_ERROR_TARGET, "linking generated code: %s", message);
    LLVMDisposeErrorMessage(message);
}

#define ORC_TRY(env, call, doing)                                   \
    do {                                                            \
        LLVMErrorRef orc_error = (call);                            \
        if (orc_error) return orc_failed((env), orc_error, doing);  \
    } while (0)

/* Process symbols first; libm by name too, because a library that was opened with RTLD_LOCAL sees it without the
 * process as a whole seeing it. */
static sn_status add_libraries(sn_host_code *code, LLVMOrcJITDylibRef lib) {
    LLVMOrcDefinitionGeneratorRef found;
    char prefix = LLVMOrcLLJITGetGlobalPrefix(code->jit);
    ORC_TRY(code->env, LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&found, prefix, NULL, NULL),
            "looking up symbols of the process");
    LLVMOrcJITDylibAddGenerator(lib, found);
    LLVMErrorRef error = LLVMOrcCreateDynamicLibrarySearchGeneratorForPath(&found, "libm.so.6", prefix, NULL, NULL);
    if (error) LLVMConsumeError(error); /* no such file name here: the process has to do */
    else LLVMOrcJITDylibAddGenerator(lib, found);
    return SN_OK;
}

/* Takes over the object. */
static sn_status link_object(sn_host_code *code, LLVMMemoryBufferRef object) {
    LLVMErrorRef error = LLVMOrcCreateLLJIT(&code->jit, NULL);
    if (error) {
        code->jit = NULL;
        LLVMDisposeMemoryBuffer(object);
        return orc_failed(code->env, error, "starting the JIT linker");
    }
    LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(code->jit), keep_report, code->env);
    LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(code->jit);
    ORC_TRY(code->env, LLVMOrcLLJITAddObjectFile(code->jit, lib, object), "linking generated code");
    return add_libraries(code, lib);
}

static sn_status find(void *out, sn_host_code *code, const char *name) {
    LLVMOrcExecutorAddress address = 0;
    ORC_TRY(code->env, LLVMOrcLLJITLookup(code->jit, &address, name), "linking generated code");
    uintptr_t p = (uintptr_t)address;
    memcpy(out, &p, sizeof p);
    return SN_OK;
}

static sn_status find_all(sn_host_code *code, bool with_wrapper) {
    for (uint32_t i = 0; i < code->n_kernels; i++) SN_TRY(find(&code->kernels[i], code, kernel_symbol(i).at));
    return with_wrapper ? find(&code->wrapper, code, wrapper_symbol) : SN_OK;
}

/* ---- the pipeline ---- */

static sn_status emit(compilation *c, LLVMModuleRef mod, LLVMTargetMachineRef tm) {
    char *message = NULL;
    LLVMMemoryBufferRef object = NULL;
    if (c->effort->passes) SN_TRY(sn_cg_optimise(&c->cg, mod, tm, c->effort->passes));
    if (LLVMTargetMachineEmitToMemoryBuffer(tm, mod, LLVMObjectFile, &message, &object)) {
        sn_status status = sn_fail(c->cg.env, SN_ERROR_TARGET, "emitting host code: %s", message);
        LLVMDisposeMessage(message);
        return status;
    }
    SN_TRY(link_object(c->code, object));
    return find_all(c->code, c->with_wrapper);
}

static sn_status compile_module(compilation *c, LLVMModuleRef mod, LLVMTargetMachineRef tm) {
    SN_TRY(generate(c, mod));
    if (c->text_arena) c->text = sn_cg_text(&c->cg, mod, c->text_arena);
    return c->code ? emit(c, mod, tm) : SN_OK;
}

/* Runs under the guard. What it makes of LLVM belongs to the session and its context, so a jump out of here loses
 * nothing, unless LLVM died in between: then all of it is given up together with the context. */
static sn_status compile_guarded(void *user) {
    compilation *c = user;
    SN_TRY(host_machine(&c->cg.tm, c->cg.env, c->effort->level));
    LLVMModuleRef mod = new_module(c, c->cg.tm);
    sn_status status = compile_module(c, mod, c->cg.tm);
    LLVMDisposeModule(mod);
    return status;
}

static const effort *choose_effort(const compilation *c) {
    if (!c->with_kernels) return &wrapper_effort;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->m->kernels.n; i++)
        for (sn_stmt s = sn_stmt_walk_first(c->m, c->m->kernels.at[i]); s.i; s = sn_stmt_walk_next(c->m, s)) n++;
    return n > BULK ? &bulk_effort : &kernel_effort;
}

static sn_status compile(compilation *c, const sn_target *target) {
    sn_env *env = c->m->env;
    c->effort = choose_effort(c);
    SN_TRY(sn_cg_open(&c->cg, env, target));
    sn_arena_init(&c->scratch, env);
    sn_status status = sn_cg_guarded(&c->cg, compile_guarded, c);
    if (!c->cg.cx && c->code) c->code->jit = NULL; /* it may have died inside the linker: given up as well */
    sn_arena_free(&c->scratch);
    sn_cg_close(&c->cg);
    return status;
}

sn_status sn_host_compile(sn_host_code **out, sn_module *m, bool with_kernels, const sn_target *target) {
    *out = NULL;
    sn_host_code *code = sn_heap_alloc(m->env, sizeof *code);
    *code = (sn_host_code){.env = m->env, .n_kernels = with_kernels ? m->kernels.n : 0};
    code->kernels = sn_heap_alloc(m->env, code->n_kernels * sizeof *code->kernels);
    compilation c = {.m = m, .with_kernels = with_kernels, .with_wrapper = m->wrap.steps.n > 0, .code = code};
    sn_status status = compile(&c, target);
    if (status != SN_OK) {
        sn_host_code_free(code);
        return status;
    }
    *out = code;
    return SN_OK;
}

sn_status sn_host_llvm(char **out, sn_module *m, const sn_target *target, sn_arena *arena) {
    compilation c = {.m = m, .with_kernels = true, .text_arena = arena};
    sn_status status = compile(&c, target);
    *out = c.text;
    return status;
}

void sn_host_code_free(sn_host_code *code) {
    if (!code) return;
    if (code->jit) LLVMConsumeError(LLVMOrcDisposeLLJIT(code->jit));
    sn_heap_free(code->env, code->kernels, code->n_kernels * sizeof *code->kernels);
    sn_heap_free(code->env, code, sizeof *code);
}

sn_host_kernel sn_host_code_kernel(const sn_host_code *code, uint32_t kernel) {
    SN_ASSERT(kernel < code->n_kernels);
    return code->kernels[kernel];
}

sn_wrapper_fn sn_host_code_wrapper(const sn_host_code *code) { return code->wrapper; }
