/* session.c: the life of an LLVM context: open, guard, verify, optimise, print, close.
 *
 * Relies on: the LLVM C API. Process-wide state is LLVM's own: targets are initialised once, and the handlers that LLVM
 * has for fatal errors and for memory that runs out are ours. They may run deep inside LLVM, so the place to go on is
 * kept in a thread-local pointer; it is set only while sn_cg_guarded runs. Does not generate code.
 *
 * Most of LLVM's memory comes from C++'s `new`, which would throw where nothing catches. So while any thread is inside
 * the guard the process has our new-handler; when memory runs out on other threads it does what the one before did.
 */
#include "codegen-llvm/llvm.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the C interface leaves out, by the names that the C++ ABI gives it. The functions of the C++ library are weak:
 * LLVM brings the library, we do not link it. */
typedef void (*new_handler)(void);
typedef void (*no_memory_handler)(void *user, const char *reason, bool wants_dump);
extern void install_no_memory_handler(no_memory_handler handler,
                                      void *user) __asm__("_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_");
extern void remove_no_memory_handler(void) __asm__("_ZN4llvm30remove_bad_alloc_error_handlerEv");
extern void report_no_memory(const char *reason, bool wants_dump) __asm__("_ZN4llvm22report_bad_alloc_errorEPKcb");
extern new_handler set_new_handler(new_handler handler) __asm__("_ZSt15set_new_handlerPFvvE") __attribute__((weak));
extern new_handler get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern void throw_no_memory(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

/* ---- the guard ---- */

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

_Noreturn static void give_up(guard *g) {
    sn_fail(g->env, SN_ERROR_MEMORY, "out of memory inside LLVM (%zu bytes in use by Sinter)", g->env->bytes_now);
    longjmp(g->place, FATAL);
}

/* LLVM does not expect us to return; without a guard on this thread it does what it would without us. */
static void on_no_memory(SN_UNUSED void *user, const char *reason, bool wants_dump) {
    if (current_guard) give_up(current_guard);
    remove_no_memory_handler();
    report_no_memory(reason, wants_dump);
}

/* How many guards there are in the process, and the new-handler that it had before the first. */
static struct {
    pthread_mutex_t lock;
    unsigned guards;
    new_handler before;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_new_failed(void) {
    if (current_guard) give_up(current_guard);
    pthread_mutex_lock(&memory.lock);
    new_handler before = memory.before;
    pthread_mutex_unlock(&memory.lock);
    if (before) before();
    else throw_no_memory();
}

static void watch_new(bool begin) {
    if (!set_new_handler || !get_new_handler || !throw_no_memory) return;
    pthread_mutex_lock(&memory.lock);
    if (begin && memory.guards++ == 0) memory.before = set_new_handler(on_new_failed);
    if (!begin && --memory.guards == 0 && get_new_handler() == on_new_failed) set_new_handler(memory.before);
    pthread_mutex_unlock(&memory.lock);
}

/* LLVM begins only where this much can be had: what it does once in a process cannot be done again. */
static sn_status expect_room(sn_env *env) {
    enum { ROOM = 16 << 20 };
    void *room = malloc(ROOM);
    if (!room) return sn_fail(env, SN_ERROR_MEMORY, "out of memory (%d bytes wanted for LLVM)", ROOM);
    free(room);
    return SN_OK;
}

static void initialise_llvm(void) {
    LLVMInstallFatalErrorHandler(on_fatal_error);
    install_no_memory_handler(on_no_memory, NULL);
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
}

/* Whether LLVM is there, and for whom it is being initialised. Memory that runs out meanwhile ends it for the process:
 * an exception would find the C library's frames on its way. */
static bool is_ready;
static _Thread_local sn_env *beginner;

static void initialise_once(void) {
    guard g = {.env = beginner, .outer = current_guard};
    watch_new(true);
    if (!setjmp(g.place)) {
        current_guard = &g;
        initialise_llvm();
        is_ready = true;
    }
    current_guard = g.outer;
    watch_new(false);
}

static sn_status begin_llvm(sn_env *env) {
    SN_TRY(expect_room(env));
    beginner = env;
    pthread_once(&once, initialise_once);
    return is_ready ? SN_OK : sn_fail(env, SN_ERROR_MEMORY, "out of memory inside LLVM when it was initialised");
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
    watch_new(true);
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
    watch_new(false);
    return status == SN_OK ? cg->env->status : status;
}

/* ---- open and close ---- */

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

static sn_status open_guarded(void *user) {
    sn_cg *cg = user;
    cg->cx = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(cg->cx, on_diagnostic, cg);
    LLVMContextSetDiscardValueNames(cg->cx, 0);
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
    cg->global_ptr = LLVMPointerTypeInContext(cg->cx, cg->target->is_gpu ? 1 : 0);
    cg->shared_ptr = LLVMPointerTypeInContext(cg->cx, cg->target->is_gpu ? 3 : 0);
    cg->vd = LLVMVoidTypeInContext(cg->cx);
    return SN_OK;
}

sn_status sn_cg_open(sn_cg *cg, sn_env *env, const sn_target *target) {
    SN_TRY(begin_llvm(env));
    *cg = (sn_cg){.env = env, .target = target};
    sn_arena_init(&cg->scratch, env);
    sn_status status = sn_cg_guarded(cg, open_guarded, cg);
    if (status != SN_OK) sn_cg_close(cg);
    return status;
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

/* ---- modules ---- */

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
