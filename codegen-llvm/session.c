/* session.c: the life of an LLVM context: open, guard, verify, optimise, print, close.
 *
 * Relies on: the LLVM C API. Process-wide state is LLVM's own: targets are initialised once, and the one fatal error
 * handler that LLVM has is ours. That handler cannot be given a user pointer and may run deep inside LLVM, so the place
 * to go on is kept in a thread-local pointer; it is set only while sn_cg_guarded runs. Does not generate code.
 */
#include "codegen-llvm/llvm.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- the guard ------------------------------------------------------------------------------------------------ */

typedef struct guard {
    jmp_buf place;
    sn_env *env;
    struct guard *outer;
} guard;

enum { FATAL = -1 }; /* value of our jumps; sn_out_of_memory jumps with a status */

static _Thread_local guard *current_guard;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Called by LLVM before it would end the process. Without a guard on this thread the error is not ours: returning lets
 * LLVM do what it does by default. */
static void on_fatal_error(const char *reason) {
    guard *g = current_guard;
    if (!g) return;
    sn_fail(g->env, SN_ERROR_INTERNAL, "LLVM: %s", reason);
    longjmp(g->place, FATAL);
}

static void initialise_llvm(void) {
    LLVMInstallFatalErrorHandler(on_fatal_error);
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
}

/* Errors that LLVM reports without giving up ("stack frame too large", bad inline assembly). */
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
    sn_cg *cg = user;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
    char *text = LLVMGetDiagInfoDescription(info);
    sn_fail(cg->env, SN_ERROR_TARGET, "LLVM for %s: %s", cg->target->name, text);
    LLVMDisposeMessage(text);
}

/* Running out of memory lands here too, or the thread-local pointer would go on naming a dead frame. */
sn_status sn_cg_guarded(sn_cg *cg, sn_status (*body)(void *user), void *user) {
    guard g = {.env = cg->env, .outer = current_guard};
    jmp_buf *env_guard = cg->env->guard;
    int jumped = setjmp(g.place);
    if (jumped == FATAL) cg->cx = NULL;
    sn_status status = SN_OK;
    if (!jumped) {
        current_guard = &g;
        cg->env->guard = &g.place;
        status = body(user);
    }
    current_guard = g.outer;
    cg->env->guard = env_guard;
    return status == SN_OK ? cg->env->status : status;
}

/* ---- open and close -------------------------------------------------------------------------------------------- */

static bool cpu_has(const char *features, const char *name) {
    const char *at = strstr(features, name);
    return at && (at[strlen(name)] == ',' || at[strlen(name)] == 0);
}

/* 16-bit floats travel as i16 where the machine cannot convert them. bfloat on the host always does: LLVM may call
 * library functions for it that no process has. */
static void find_half_support(sn_cg *cg) {
    if (cg->target->is_gpu) {
        cg->has_f16 = true;
        cg->has_bf16 = cg->target->sm >= 80;
        return;
    }
    char *features = LLVMGetHostCPUFeatures();
    cg->has_f16 = cpu_has(features, "+f16c") || cpu_has(features, "+fullfp16");
    cg->has_bf16 = false;
    LLVMDisposeMessage(features);
}

sn_status sn_cg_open(sn_cg *cg, sn_env *env, const sn_target *target) {
    pthread_once(&once, initialise_llvm);
    *cg = (sn_cg){.env = env, .target = target, .cx = LLVMContextCreate()};
    LLVMContextSetDiagnosticHandler(cg->cx, on_diagnostic, cg);
    LLVMContextSetDiscardValueNames(cg->cx, 0);
    sn_arena_init(&cg->scratch, env);
    cg->builder = LLVMCreateBuilderInContext(cg->cx);
    find_half_support(cg);
    cg->i1 = LLVMInt1TypeInContext(cg->cx);
    cg->i8 = LLVMInt8TypeInContext(cg->cx);
    cg->i16 = LLVMInt16TypeInContext(cg->cx);
    cg->i32 = LLVMInt32TypeInContext(cg->cx);
    cg->i64 = LLVMInt64TypeInContext(cg->cx);
    cg->f16 = cg->has_f16 ? LLVMHalfTypeInContext(cg->cx) : cg->i16;
    cg->bf16 = cg->has_bf16 ? LLVMBFloatTypeInContext(cg->cx) : cg->i16;
    cg->f32 = LLVMFloatTypeInContext(cg->cx);
    cg->f64 = LLVMDoubleTypeInContext(cg->cx);
    cg->ptr = LLVMPointerTypeInContext(cg->cx, 0);
    cg->global_ptr = LLVMPointerTypeInContext(cg->cx, target->is_gpu ? 1 : 0);
    cg->shared_ptr = LLVMPointerTypeInContext(cg->cx, target->is_gpu ? 3 : 0);
    cg->vd = LLVMVoidTypeInContext(cg->cx);
    return SN_OK;
}

void sn_cg_close(sn_cg *cg) {
    sn_arena_free(&cg->scratch);
    if (!cg->cx) return;
    LLVMDisposeMessage(cg->printed);
    if (cg->emitted) LLVMDisposeMemoryBuffer(cg->emitted);
    if (cg->tm) LLVMDisposeTargetMachine(cg->tm);
    LLVMDisposeBuilder(cg->builder);
    LLVMContextDispose(cg->cx);
    cg->cx = NULL;
}

/* ---- modules
 * ------------------------------------------------------------------------------------------------------ */

sn_status sn_cg_verify(sn_cg *cg, LLVMModuleRef mod) {
    char *text = NULL;
    sn_status status = SN_OK;
    if (LLVMVerifyModule(mod, LLVMReturnStatusAction, &text)) {
        char *line = text ? strchr(text, '\n') : NULL;
        if (line) *line = 0;
        status = sn_fail(cg->env, SN_ERROR_INTERNAL, "generated code is not valid: %s", text ? text : "?");
    }
    LLVMDisposeMessage(text);
    return status;
}

sn_status sn_cg_optimise(sn_cg *cg, LLVMModuleRef mod, LLVMTargetMachineRef tm, const char *passes) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(mod, passes, tm, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) return cg->env->status;
    char *text = LLVMGetErrorMessage(error);
    sn_status status = sn_fail(cg->env, SN_ERROR_INTERNAL, "LLVM pass pipeline: %s", text);
    LLVMDisposeErrorMessage(text);
    return status;
}

char *sn_cg_text(sn_cg *cg, LLVMModuleRef mod, sn_arena *arena) {
    cg->printed = LLVMPrintModuleToString(mod);
    char *copy = sn_strdup(arena, cg->printed);
    LLVMDisposeMessage(cg->printed);
    cg->printed = NULL;
    return copy;
}
