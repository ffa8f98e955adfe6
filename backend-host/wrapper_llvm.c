/* wrapper_llvm.c: Wrapper IR to one LLVM function of type sn_wrapper_fn.
 *
 *     wrapper @f workspace 64 {          i32 @wrapper(ptr inputs, outputs, consts, workspace, launch, copy, user) {
 *       check x                            %x = inputs[0]; if (%x & 15) or %x == null: return SN_ERROR_ARGUMENT
 *       alloc t size 64 offset 0           %t = workspace + 0
 *       call @k0(x, t)                     params = {%x, %t}; %s = launch(user, 0, params); if %s != 0: return %s
 *       copy y from t size 64              %s = copy(user, %y, %t, 64); if %s != 0: return %s
 *     }                                    return 0
 *
 * Straight-line code: every place is computed once, at its first use, and holds from there on; checks in a row are one
 * branch. Must agree with the step interpreter (runtime/exec.c), which is its oracle. Makes no messages: the runtime
 * finds the words for a failed check.
 */
#include "backend-host/host.h"

typedef struct writer {
    sn_cg *cg;
    sn_module *m;
    LLVMBuilderRef at;
    LLVMValueRef f, inputs, outputs, consts, workspace, launch, copy, user;
    LLVMTypeRef launch_type, copy_type;
    LLVMValueRef params;    /* stack array, as long as the longest parameter list */
    LLVMBasicBlockRef stop; /* returns `code` */
    LLVMValueRef code;      /* phi */
    LLVMValueRef bad;       /* has a check failed since the last other step? NULL: there was none */
    LLVMValueRef *place;    /* by buffer id */
    uint32_t *const_number; /* by buffer id: position among the CONST buffers */
} writer;

static LLVMValueRef const_i64(const writer *w, int64_t x) {
    return LLVMConstInt(w->cg->i64, (unsigned long long)x, true);
}

static LLVMValueRef const_i32(const writer *w, uint32_t x) { return LLVMConstInt(w->cg->i32, x, false); }

/* ---- places ---- */

static LLVMValueRef array_element(const writer *w, LLVMValueRef array, uint32_t i, const char *name) {
    LLVMValueRef index = const_i64(w, i);
    LLVMValueRef p = LLVMBuildInBoundsGEP2(w->at, w->cg->ptr, array, &index, 1, "");
    return LLVMBuildLoad2(w->at, w->cg->ptr, p, name);
}

/* What the caller provides is read at its first use; the rest has got its place from a step before. */
static sn_status place_of(LLVMValueRef *out, writer *w, sn_buf buf) {
    const sn_buf_rec *b = sn_buf_get(w->m, buf);
    LLVMValueRef *place = &w->place[buf.i];
    if (!*place && b->scope == SN_BUF_INPUT) *place = array_element(w, w->inputs, b->io, b->name);
    if (!*place && b->scope == SN_BUF_OUTPUT) *place = array_element(w, w->outputs, b->io, b->name);
    if (!*place && b->scope == SN_BUF_CONST) *place = array_element(w, w->consts, w->const_number[buf.i], b->name);
    if (!*place) return sn_fail(w->cg->env, SN_ERROR_VERIFY, "wrapper: %s is used before it has a place", b->name);
    *out = *place;
    return SN_OK;
}

/* ---- steps ---- */

/* Leave with `code` when `bad`; go on in a new block. */
static void stop_if(writer *w, LLVMValueRef bad, LLVMValueRef code) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(w->at);
    LLVMBasicBlockRef next = LLVMInsertBasicBlockInContext(w->cg->cx, w->stop, "");
    LLVMBuildCondBr(w->at, bad, w->stop, next);
    LLVMAddIncoming(w->code, &code, &here, 1);
    LLVMPositionBuilderAtEnd(w->at, next);
}

static void stop_unless_ok(writer *w, LLVMValueRef status) {
    stop_if(w, LLVMBuildICmp(w->at, LLVMIntNE, status, const_i32(w, SN_OK), ""), status);
}

static sn_status check_step(writer *w, const sn_step *s) {
    const sn_buf_rec *b = sn_buf_get(w->m, s->buf);
    LLVMValueRef p;
    SN_TRY(place_of(&p, w, s->buf));
    int64_t elements = 0;
    LLVMValueRef address = LLVMBuildPtrToInt(w->at, p, w->cg->i64, "");
    LLVMValueRef low = LLVMBuildAnd(w->at, address, const_i64(w, b->align ? b->align - 1 : 0), "");
    LLVMValueRef bad = LLVMBuildICmp(w->at, LLVMIntNE, low, const_i64(w, 0), "");
    if (sn_ix_is_const(w->m, b->size, &elements) && elements)
        bad = LLVMBuildOr(w->at, bad, LLVMBuildIsNull(w->at, p, ""), "");
    w->bad = w->bad ? LLVMBuildOr(w->at, w->bad, bad, "") : bad;
    return SN_OK;
}

/* Checks in a row are one branch: which of them failed the runtime finds out. */
static void end_checks(writer *w) {
    if (w->bad) stop_if(w, w->bad, const_i32(w, SN_ERROR_ARGUMENT));
    w->bad = NULL;
}

static sn_status alloc_step(writer *w, const sn_step *s) {
    const char *name = sn_buf_get(w->m, s->buf)->name;
    int64_t offset;
    SN_TRY(sn_wrap_number(&offset, w->m, s->offset, "the offset", name));
    LLVMValueRef index = const_i64(w, offset);
    w->place[s->buf.i] = LLVMBuildInBoundsGEP2(w->at, w->cg->i8, w->workspace, &index, 1, name);
    return SN_OK;
}

static sn_status call_step(writer *w, const sn_step *s) {
    const sn_kern_rec *k = sn_kern_get(w->m, s->kern);
    for (uint32_t i = 0; i < s->args.n; i++) {
        LLVMValueRef p, index = const_i64(w, i);
        SN_TRY(place_of(&p, w, s->args.at[i]));
        LLVMBuildStore(w->at, p, LLVMBuildInBoundsGEP2(w->at, w->cg->ptr, w->params, &index, 1, ""));
    }
    LLVMValueRef arguments[] = {w->user, const_i32(w, sn_kern_number(w->m, s->kern)), w->params};
    stop_unless_ok(w, LLVMBuildCall2(w->at, w->launch_type, w->launch, arguments, SN_COUNT(arguments), k->name));
    return SN_OK;
}

static sn_status copy_step(writer *w, const sn_step *s) {
    LLVMValueRef to, from;
    int64_t size;
    SN_TRY(sn_wrap_number(&size, w->m, s->size, "the size", sn_buf_get(w->m, s->buf)->name));
    SN_TRY(place_of(&to, w, s->buf));
    SN_TRY(place_of(&from, w, s->from));
    LLVMValueRef arguments[] = {w->user, to, from, const_i64(w, size)};
    stop_unless_ok(w, LLVMBuildCall2(w->at, w->copy_type, w->copy, arguments, SN_COUNT(arguments), "copied"));
    return SN_OK;
}

static sn_status write_step(writer *w, const sn_step *s) {
    if (s->kind != SN_STEP_CHECK) end_checks(w);
    switch (s->kind) {
    case SN_STEP_CHECK: return check_step(w, s);
    case SN_STEP_ALLOC: return alloc_step(w, s);
    case SN_STEP_REUSE: return place_of(&w->place[s->buf.i], w, s->from);
    case SN_STEP_CALL: return call_step(w, s);
    case SN_STEP_COPY: return copy_step(w, s);
    case SN_STEP_FREE:
    case SN_STEP_COMMENT:
    case SN_N_STEP_KINDS: return SN_OK;
    }
    return SN_OK;
}

/* ---- the function ---- */

static LLVMTypeRef launch_type(const sn_cg *cg) {
    LLVMTypeRef parameters[] = {cg->ptr, cg->i32, cg->ptr};
    return LLVMFunctionType(cg->i32, parameters, SN_COUNT(parameters), false);
}

static LLVMTypeRef copy_type(const sn_cg *cg) {
    LLVMTypeRef parameters[] = {cg->ptr, cg->ptr, cg->ptr, cg->i64};
    return LLVMFunctionType(cg->i32, parameters, SN_COUNT(parameters), false);
}

/* The order is that of sn_wrapper_fn. */
static void declare(writer *w, LLVMModuleRef mod, const char *name) {
    LLVMTypeRef parameters[7];
    LLVMValueRef *const arguments[] = {&w->inputs, &w->outputs, &w->consts, &w->workspace,
                                       &w->launch, &w->copy,    &w->user};
    static const char *const names[] = {"inputs", "outputs", "consts", "workspace", "launch", "copy", "user"};
    for (unsigned i = 0; i < SN_COUNT(parameters); i++) parameters[i] = w->cg->ptr;
    w->f = LLVMAddFunction(mod, name, LLVMFunctionType(w->cg->i32, parameters, SN_COUNT(parameters), false));
    for (unsigned i = 0; i < SN_COUNT(parameters); i++) {
        *arguments[i] = LLVMGetParam(w->f, i);
        LLVMSetValueName(*arguments[i], names[i]);
    }
    w->launch_type = launch_type(w->cg);
    w->copy_type = copy_type(w->cg);
}

static void open_body(writer *w) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < w->m->kernels.n; i++) {
        uint32_t n = sn_kern_get(w->m, w->m->kernels.at[i])->params.n;
        if (n > most) most = n;
    }
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(w->cg->cx, w->f, "entry");
    w->stop = LLVMAppendBasicBlockInContext(w->cg->cx, w->f, "stop");
    LLVMPositionBuilderAtEnd(w->at, w->stop);
    w->code = LLVMBuildPhi(w->at, w->cg->i32, "status");
    LLVMBuildRet(w->at, w->code);
    LLVMPositionBuilderAtEnd(w->at, entry);
    w->params = LLVMBuildArrayAlloca(w->at, w->cg->ptr, const_i32(w, most), "params");
}

static void close_body(writer *w) {
    end_checks(w);
    LLVMValueRef ok = const_i32(w, SN_OK);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(w->at);
    LLVMBuildBr(w->at, w->stop);
    LLVMAddIncoming(w->code, &ok, &here, 1);
}

static void number_consts(writer *w) {
    uint32_t n = 0;
    for (uint32_t i = 1; i < w->m->bufs.count; i++)
        if (sn_buf_get(w->m, (sn_buf){i})->scope == SN_BUF_CONST) w->const_number[i] = n++;
}

static sn_status write_steps(writer *w) {
    for (uint32_t i = 0; i < w->m->wrap.steps.n; i++) SN_TRY(write_step(w, &w->m->wrap.steps.at[i]));
    return SN_OK;
}

sn_status sn_wrapper_llvm(LLVMValueRef *out, sn_cg *cg, LLVMModuleRef mod, sn_module *m, const char *name,
                          sn_arena *scratch) {
    writer w = {.cg = cg, .m = m, .at = cg->builder};
    w.place = SN_NEWN(scratch, LLVMValueRef, m->bufs.count);
    w.const_number = SN_NEWN(scratch, uint32_t, m->bufs.count);
    number_consts(&w);
    declare(&w, mod, name);
    open_body(&w);
    sn_status status = write_steps(&w);
    if (status == SN_OK) close_body(&w);
    *out = w.f;
    return status;
}
