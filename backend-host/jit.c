/* jit.c: machine code for this CPU: the kernels of a module and its wrapper, optimised for the very processor, in
 * objects that LLJIT links into the process.
 *
 * Kernels that follow each other go into one object until it has so many statements, so that a thousand small ones are
 * no thousand objects; objects are made side by side. No context meets ORC: we emit the object files ourselves and hand
 * ORC bytes, so no context changes owner and no thread of ORC touches ours. Symbols are numbered (kernel.7.0: the first
 * one of the object that begins with kernel 7), so that a kernel named expf cannot capture calls of the C library. Functions
 * that generated code calls (libm, memcpy) come from the process.
 *
 * With a cache the bytes of an object are remembered by the text of its kernels (codegen-llvm/key.c), wherever these stand
 * in a module: symbols have the key in place of the number (kernel.5f0c..91.0), and of objects with one key the first serves
 * for all. A wrapper is remembered by its table.
 */
#include "backend-host/host.h"
#include "codegen-llvm/workers.h"

#include <errno.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <stdio.h>
#include <string.h>

static const char wrapper_symbol[] = "wrapper";

enum { OBJECT_STATEMENTS = 1024 }; /* after which an object takes no more kernels */

/* A wrapper is one loop over a table: optimising it costs 5 ms and gains nothing that a launch would notice. */
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
    uint64_t *kept_bytes; /* by kernel */
    sn_wrapper_fn wrapper;
    sn_arena arena; /* objects of kernels stay, for images */
    SN_VEC(sn_host_object) objects;
};

/* One object on its way: kernels first .. first+n-1, or the wrapper (n is 0). */
typedef struct object {
    sn_cg cg;
    sn_module *m;
    const sn_target *target;
    uint32_t first, n;
    const effort *effort;
    bool numbered;        /* symbols: not in text for people */
    uint64_t *kept_bytes; /* by kernel: out, where symbols are numbered */
    sn_cache *cache;      /* NULL: none */
    sn_cache_key machine; /* with a cache: the processor at hand; */
    sn_cache_key key;     /* of the object */
    sn_wrapper_rows rows; /* of a wrapper */
    sn_arena *out;        /* for what comes out: */
    void *bytes;          /* NULL: text is wanted */
    size_t size;
    char *text;
} object;

typedef struct {
    char at[SN_HOST_SYMBOL + 16];
} symbol;

/* What the symbols of an object begin with. */
static void symbol_stem(char out[SN_HOST_SYMBOL], const object *o) {
    char key[SN_CACHE_KEY_TEXT];
    sn_cache_key_text(key, o->key);
    if (o->cache) snprintf(out, SN_HOST_SYMBOL, "kernel.%s", key);
    else snprintf(out, SN_HOST_SYMBOL, "kernel.%u", o->first);
}

static symbol kernel_symbol(const object *o, uint32_t number) {
    symbol s;
    char stem[SN_HOST_SYMBOL];
    symbol_stem(stem, o);
    snprintf(s.at, sizeof s.at, "%s.%u", stem, number - o->first);
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

void sn_host_processor(char *out, size_t size) {
    char *cpu = LLVMGetHostCPUName();
    snprintf(out, size, "%s", cpu);
    LLVMDisposeMessage(cpu);
}

static LLVMModuleRef new_module(object *o, LLVMTargetMachineRef tm) {
    LLVMModuleRef mod = LLVMModuleCreateWithNameInContext("sinter", o->cg.cx);
    char *triple = LLVMGetTargetMachineTriple(tm);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
    LLVMSetTarget(mod, triple);
    LLVMSetModuleDataLayout(mod, layout);
    LLVMDisposeTargetData(layout);
    LLVMDisposeMessage(triple);
    return mod;
}

static sn_status generate_kernel(object *o, LLVMModuleRef mod, uint32_t number) {
    LLVMValueRef f;
    sn_cg_needs needs;
    sn_module *own = sn_module_of_kernel(o->cg.env, o->m, o->m->kernels.at[number]);
    sn_status status = sn_cg_kernel(&f, &needs, &o->cg, mod, own, own->kernels.at[0]);
    sn_module_free(own);
    if (status != SN_OK || !o->numbered) return status;
    o->kept_bytes[number] = needs.kept_bytes;
    symbol s = kernel_symbol(o, number);
    LLVMSetValueName2(f, s.at, strlen(s.at));
    return SN_OK;
}

/* What a library runs has none. */
static bool has_code(const sn_module *m, uint32_t number) {
    return !sn_kern_is_library(sn_kern_get(m, m->kernels.at[number]));
}

static sn_status generate(object *o, LLVMModuleRef mod) {
    for (uint32_t i = 0; i < o->n; i++)
        if (has_code(o->m, o->first + i)) SN_TRY(generate_kernel(o, mod, o->first + i));
    if (!o->n) sn_wrapper_llvm(&o->cg, mod, &o->rows, wrapper_symbol);
    return sn_cg_verify(&o->cg, mod);
}

static sn_status emit_object(object *o, LLVMModuleRef mod) {
    char *message = NULL;
    if (o->effort->passes) SN_TRY(sn_cg_optimise(&o->cg, mod, o->cg.tm, o->effort->passes));
    if (LLVMTargetMachineEmitToMemoryBuffer(o->cg.tm, mod, LLVMObjectFile, &message, &o->cg.emitted)) {
        sn_status status = sn_fail(o->cg.env, SN_ERROR_TARGET, "emitting host code: %s", message);
        LLVMDisposeMessage(message);
        return status;
    }
    o->size = LLVMGetBufferSize(o->cg.emitted);
    o->bytes = sn_memdup(o->out, LLVMGetBufferStart(o->cg.emitted), o->size);
    return SN_OK;
}

static sn_status make(object *o, LLVMModuleRef mod) {
    SN_TRY(generate(o, mod));
    if (o->numbered) return emit_object(o, mod);
    o->text = sn_cg_text(&o->cg, mod, o->out);
    return SN_OK;
}

/* Runs under the guard. What it makes of LLVM belongs to the session and its context, so a jump out of here loses
 * nothing, unless LLVM died in between: then all of it is given up together with the context. */
static sn_status make_guarded(void *user) {
    object *o = user;
    if (o->numbered) LLVMContextSetDiscardValueNames(o->cg.cx, 1); /* no text shows them */
    SN_TRY(host_machine(&o->cg.tm, o->cg.env, o->effort->level));
    LLVMModuleRef mod = new_module(o, o->cg.tm);
    sn_status status = make(o, mod);
    LLVMDisposeModule(mod);
    return status;
}

static sn_status make_new(object *o, sn_env *env) {
    SN_TRY(sn_cg_open(&o->cg, env, o->target));
    sn_status status = sn_cg_guarded(&o->cg, make_guarded, o);
    sn_cg_close(&o->cg);
    return status;
}

/* ---- what is remembered: the kept bytes of each kernel, then the object ---- */

static sn_cache_key machine_key(void) {
    char *triple = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
    const char *const words[] = {triple, cpu, features};
    sn_cache_key keys[SN_COUNT(words)];
    for (size_t i = 0; i < SN_COUNT(words); i++) keys[i] = sn_cache_key_of(words[i], strlen(words[i]));
    LLVMDisposeMessage(features);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(triple);
    return sn_cache_key_of(keys, sizeof keys);
}

void sn_host_key(sn_text *t, const char *kind, const sn_target *target) {
    char machine[SN_CACHE_KEY_TEXT];
    sn_cg_key(t, kind, target);
    sn_cache_key_text(machine, machine_key());
    sn_text_printf(t, "machine %s\n", machine);
}

static void put_kernel_key(sn_text *t, const object *o, uint32_t number) {
    sn_module *own = sn_module_of_kernel(t->env, o->m, o->m->kernels.at[number]);
    sn_cg_key_kernel(t, own, own->kernels.at[0]);
    sn_module_free(own);
}

static sn_cache_key key_of(const object *o, sn_env *env) {
    sn_text t;
    char machine[SN_CACHE_KEY_TEXT], rows[SN_CACHE_KEY_TEXT];
    sn_text_init(&t, env);
    sn_cg_key(&t, "object", o->target);
    sn_cache_key_text(machine, o->machine);
    sn_text_printf(&t, "machine %s\neffort %d %s\n", machine, o->effort->level,
                   o->effort->passes ? o->effort->passes : "");
    for (uint32_t i = 0; i < o->n; i++) put_kernel_key(&t, o, o->first + i);
    sn_cache_key_text(rows, sn_cache_key_of(o->rows.words, o->rows.n * sizeof *o->rows.words));
    if (!o->n) sn_text_printf(&t, "wrapper %s %u %u\n", rows, o->rows.n, o->rows.most);
    sn_cache_key key = sn_cache_key_of(t.s, t.n);
    sn_text_free(&t);
    return key;
}

static bool recall(object *o) {
    void *at;
    size_t size, before = o->n * sizeof *o->kept_bytes;
    if (!sn_cache_get(&at, &size, o->cache, SN_CACHE_OBJECT, o->key, o->out)) return false;
    if (size < before) {
        sn_cache_reject(o->cache, SN_CACHE_OBJECT, o->key);
        return false;
    }
    if (before) memcpy(o->kept_bytes + o->first, at, before);
    o->bytes = (char *)at + before;
    o->size = size - before;
    return true;
}

static void remember(const object *o) {
    const sn_file_part parts[] = {{o->kept_bytes ? o->kept_bytes + o->first : NULL, o->n * sizeof *o->kept_bytes},
                                  {o->bytes, o->size}};
    sn_cache_put(o->cache, SN_CACHE_OBJECT, o->key, parts, SN_COUNT(parts));
}

static sn_status make_object(object *o, sn_env *env, sn_arena *out) {
    o->out = out;
    if (!o->n) SN_TRY(sn_wrapper_tabulate(&o->rows, o->m, out));
    if (!o->cache) return make_new(o, env);
    o->key = key_of(o, env);
    if (recall(o)) return SN_OK;
    SN_TRY(make_new(o, env));
    remember(o);
    return SN_OK;
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

static sn_status start_linker(sn_host_code *code) {
    LLVMErrorRef error = LLVMOrcCreateLLJIT(&code->jit, NULL);
    if (error) {
        code->jit = NULL;
        return orc_failed(code->env, error, "starting the JIT linker");
    }
    LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(code->jit), keep_report, code->env);
    return add_libraries(code, LLVMOrcLLJITGetMainJITDylib(code->jit));
}

static sn_status link_object(sn_host_code *code, const object *o) {
    LLVMMemoryBufferRef copy = LLVMCreateMemoryBufferWithMemoryRangeCopy(o->bytes, o->size, "object");
    ORC_TRY(code->env, LLVMOrcLLJITAddObjectFile(code->jit, LLVMOrcLLJITGetMainJITDylib(code->jit), copy),
            "linking generated code");
    return SN_OK;
}

static sn_status find(void *out, sn_host_code *code, const char *name) {
    LLVMOrcExecutorAddress address = 0;
    ORC_TRY(code->env, LLVMOrcLLJITLookup(code->jit, &address, name), "linking generated code");
    uintptr_t p = (uintptr_t)address;
    memcpy(out, &p, sizeof p);
    return SN_OK;
}

static sn_status find_kernels(sn_host_code *code, const object *o) {
    for (uint32_t i = o->first; i < o->first + o->n; i++) SN_TRY(find(&code->kernels[i], code, kernel_symbol(o, i).at));
    return o->n ? SN_OK : find(&code->wrapper, code, wrapper_symbol);
}

/* ---- the pipeline ---- */

typedef struct compilation {
    sn_host_code *code;
    sn_arena *arena;
    SN_VEC(object) objects;
    sn_arena *own; /* of the pieces, in their environments */
    sn_cache *cache;
    sn_cache_key machine;
} compilation;

static uint32_t count_statements(const sn_module *m, sn_kern k) {
    uint32_t n = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) n++;
    return n;
}

/* The same objects however many threads there are. */
static void divide(compilation *c, sn_module *m, const sn_target *target) {
    uint32_t statements = 0;
    bool open = false;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        uint32_t n = count_statements(m, m->kernels.at[i]);
        bool add = open && statements + n <= OBJECT_STATEMENTS;
        open = has_code(m, i);
        if (!open) continue;
        if (!add) {
            statements = 0;
            SN_PUSH(c->arena, &c->objects,
                    ((object){.m = m,
                              .target = target,
                              .first = i,
                              .numbered = true,
                              .kept_bytes = c->code->kept_bytes,
                              .cache = c->cache,
                              .machine = c->machine}));
        }
        object *o = &c->objects.at[c->objects.n - 1];
        statements += n;
        o->n++;
        o->effort = statements > BULK ? &bulk_effort : &kernel_effort;
    }
}

static sn_status make_piece(void *user, sn_env *env, uint32_t i) {
    compilation *c = user;
    sn_arena_init(&c->own[i], env);
    return make_object(&c->objects.at[i], env, &c->own[i]);
}

static sn_status take_piece(void *user, uint32_t i) {
    compilation *c = user;
    object *o = &c->objects.at[i];
    sn_host_object kept = {.size = o->size, .first = o->first, .n = o->n};
    o->bytes = kept.bytes = sn_memdup(&c->code->arena, o->bytes, o->size);
    symbol_stem(kept.symbols, o);
    SN_PUSH(&c->code->arena, &c->code->objects, kept);
    return SN_OK;
}

static sn_status make_kernels(compilation *c, sn_module *m, const sn_target *target, const sn_workers *workers) {
    divide(c, m, target);
    c->own = SN_NEWN(c->arena, sn_arena, c->objects.n);
    return sn_cg_pieces(m->env, workers, c->objects.n, &(sn_pieces){make_piece, take_piece, c});
}

/* On this thread: it reports what is wrong with a wrapper as the module's. */
static sn_status make_wrapper(compilation *c, sn_module *m, const sn_target *target) {
    SN_PUSH(c->arena, &c->objects,
            ((object){.m = m,
                      .target = target,
                      .effort = &wrapper_effort,
                      .numbered = true,
                      .cache = c->cache,
                      .machine = c->machine}));
    return make_object(&c->objects.at[c->objects.n - 1], m->env, c->arena);
}

/* Of those with its key, whose symbols are the same. */
static bool is_first(const compilation *c, uint32_t i) {
    const object *o = &c->objects.at[i];
    for (uint32_t k = 0; c->cache && k < i; k++)
        if (!memcmp(&c->objects.at[k].key, &o->key, sizeof o->key)) return false;
    return true;
}

static sn_status link_guarded(void *user) {
    compilation *c = user;
    SN_TRY(start_linker(c->code));
    for (uint32_t i = 0; i < c->objects.n; i++)
        if (is_first(c, i)) SN_TRY(link_object(c->code, &c->objects.at[i]));
    for (uint32_t i = 0; i < c->objects.n; i++) SN_TRY(find_kernels(c->code, &c->objects.at[i]));
    return SN_OK;
}

static sn_status link(compilation *c, sn_env *env, const sn_target *target) {
    sn_cg cg; /* for its guard: the linker is LLVM too */
    SN_TRY(sn_cg_open(&cg, env, target));
    sn_status status = sn_cg_guarded(&cg, link_guarded, c);
    if (!cg.cx) c->code->jit = NULL; /* it may have died inside the linker: given up as well */
    sn_cg_close(&cg);
    return status;
}

static sn_status compile(sn_host_code *code, sn_arena *arena, sn_module *m, bool with_kernels, const sn_target *target,
                         const sn_workers *workers, sn_cache *cache) {
    compilation c = {.code = code, .arena = arena, .cache = cache};
    if (cache) c.machine = machine_key();
    if (with_kernels) SN_TRY(make_kernels(&c, m, target, workers));
    if (m->wrap.steps.n) SN_TRY(make_wrapper(&c, m, target));
    return link(&c, m->env, target);
}

sn_status sn_host_compile(sn_host_code **out, sn_module *m, bool with_kernels, const sn_target *target,
                          const sn_workers *workers, sn_cache *cache) {
    *out = NULL;
    sn_host_code *code = sn_heap_alloc(m->env, sizeof *code);
    *code = (sn_host_code){.env = m->env, .n_kernels = with_kernels ? m->kernels.n : 0};
    sn_arena_init(&code->arena, m->env);
    code->kernels = sn_heap_alloc(m->env, code->n_kernels * sizeof *code->kernels);
    code->kept_bytes = sn_heap_alloc(m->env, code->n_kernels * sizeof *code->kept_bytes);
    for (uint32_t i = 0; i < code->n_kernels; i++) code->kernels[i] = NULL, code->kept_bytes[i] = 0;
    sn_arena scratch;
    sn_arena_init(&scratch, m->env);
    sn_status status = compile(code, &scratch, m, with_kernels, target, workers, cache);
    sn_arena_free(&scratch);
    if (status != SN_OK) {
        sn_host_code_free(code);
        return status;
    }
    *out = code;
    return SN_OK;
}

sn_status sn_host_llvm(char **out, sn_module *m, const sn_target *target, sn_arena *arena) {
    object o = {.m = m, .target = target, .n = m->kernels.n, .effort = &kernel_effort};
    sn_status status = make_object(&o, m->env, arena);
    *out = o.text;
    return status;
}

void sn_host_code_free(sn_host_code *code) {
    if (!code) return;
    if (code->jit) LLVMConsumeError(LLVMOrcDisposeLLJIT(code->jit));
    sn_arena_free(&code->arena);
    sn_heap_free(code->env, code->kept_bytes, code->n_kernels * sizeof *code->kept_bytes);
    sn_heap_free(code->env, code->kernels, code->n_kernels * sizeof *code->kernels);
    sn_heap_free(code->env, code, sizeof *code);
}

sn_host_kernel sn_host_code_kernel(const sn_host_code *code, uint32_t kernel) {
    SN_ASSERT(kernel < code->n_kernels);
    return code->kernels[kernel];
}

uint64_t sn_host_code_kept_bytes(const sn_host_code *code, uint32_t kernel) {
    SN_ASSERT(kernel < code->n_kernels);
    return code->kept_bytes[kernel];
}

sn_wrapper_fn sn_host_code_wrapper(const sn_host_code *code) { return code->wrapper; }

static char *take_message(sn_arena *arena, char *message) {
    char *copy = sn_strdup(arena, message);
    LLVMDisposeMessage(message);
    return copy;
}

sn_status sn_host_code_link(sn_host_image *out, const sn_host_code *code, sn_env *env, sn_arena *arena) {
    *out = (sn_host_image){.machine = take_message(arena, LLVMGetDefaultTargetTriple())};
    out->machine[strcspn(out->machine, "-")] = 0;
    out->cpu = take_message(arena, LLVMGetHostCPUName());
    out->features = take_message(arena, LLVMGetHostCPUFeatures());
    return sn_host_link(out, env, code->objects.at, code->objects.n, code->n_kernels, arena);
}
