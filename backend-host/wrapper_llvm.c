/* wrapper_llvm.c: Wrapper IR to one LLVM function of type sn_wrapper_fn, which walks a constant table.
 *
 *     wrapper @f workspace 64 {     row:  kind   number       places   from     bytes  offset  from       bytes  offset
 *       check x                           check  16 (align)   1        inputs   0      0
 *       alloc t size 64 offset 0
 *       call @k0(x + 8, t)                call   0 (kernel)   2        inputs   0      32      workspace  0      0
 *       copy y from t size 64             copy   64 (size)    2        outputs  0      0       workspace  0      0
 *     }                                   end
 *
 * What the prepare part has left lies in the prepared memory, whose address stands behind those of the constants;
 * that part itself is run by whoever loads a program, and has no rows.
 *
 *     i32 @wrapper(ptr inputs, outputs, consts, workspace, launch, copy, user) {
 *       for each row: params[0 .. places-1] = addresses of its places; do it; return its status if that is not 0
 *     }
 *
 * Where a buffer lies when a step comes is known here, so that alloc and reuse are no rows. The function is as long for
 * ten steps as for ten thousand: code for each step took LLVM time and memory that grew with the square of their
 * number. Must agree with the step interpreter (runtime/exec.c), which is its oracle. Makes no messages: the runtime
 * finds the words for a failed check. Cost: linear in steps and parameters.
 */
#include "backend-host/host.h"

/* A row of the table: these columns, then those of each of its places; all are i64. */
enum { KIND, NUMBER, PLACES, ROW_WORDS };
enum { FROM, BYTES, OFFSET, PLACE_WORDS };

/* Kinds of rows beside those of Wrapper IR: a check of a tensor that has elements, so that storage has to be given; the
 * last row. */
enum { CHECK_GIVEN = SN_N_STEP_KINDS, END };

/* What places count from: arrays of addresses, one of which is the place's, or the workspace itself. */
typedef enum { NOWHERE, INPUTS, OUTPUTS, CONSTS, WORKSPACE, N_ORIGINS } origin;

typedef struct place {
    origin from;
    int64_t bytes, offset; /* offset: from the address that is found there */
} place;

/* ---- the table ---- */

typedef struct table {
    sn_module *m;
    sn_arena *arena;
    place *at;              /* by buffer id: where it is after the steps so far */
    const uint32_t *number; /* by kernel id: position in m->kernels */
    SN_VEC(int64_t) words;
    uint32_t most; /* places of a row */
    place prepared;
    bool prepares; /* the steps at hand are those of the prepare part */
} table;

static void place_what_is_given(table *t) {
    uint32_t n_consts = 0;
    for (uint32_t i = 1; i < t->m->bufs.count; i++) {
        const sn_buf_rec *b = sn_buf_get(t->m, (sn_buf){i});
        if (b->scope == SN_BUF_INPUT) t->at[i] = (place){INPUTS, b->io * sizeof(void *), 0};
        if (b->scope == SN_BUF_OUTPUT) t->at[i] = (place){OUTPUTS, b->io * sizeof(void *), 0};
        if (b->scope == SN_BUF_CONST) t->at[i] = (place){CONSTS, n_consts++ * sizeof(void *), 0};
    }
    t->prepared = (place){CONSTS, n_consts * sizeof(void *), 0};
}

static sn_status add_row(table *t, int64_t kind, int64_t number, const sn_arg *args, uint32_t n) {
    const int64_t row[ROW_WORDS] = {[KIND] = kind, [NUMBER] = number, [PLACES] = n};
    for (uint32_t k = 0; k < ROW_WORDS; k++) SN_PUSH(t->arena, &t->words, row[k]);
    for (uint32_t i = 0; i < n; i++) {
        const place *p = &t->at[args[i].buf.i];
        const sn_buf_rec *b = sn_buf_get(t->m, args[i].buf);
        if (p->from == NOWHERE)
            return sn_fail(t->m->env, SN_ERROR_VERIFY, "wrapper: %s is used before it has a place", b->name);
        const int64_t words[PLACE_WORDS] = {
            [FROM] = p->from, [BYTES] = p->bytes, [OFFSET] = p->offset + args[i].offset * sn_dtype_bytes(b->dtype)};
        for (uint32_t k = 0; k < PLACE_WORDS; k++) SN_PUSH(t->arena, &t->words, words[k]);
    }
    if (n > t->most) t->most = n;
    return SN_OK;
}

static sn_status check_step(table *t, const sn_step *s) {
    const sn_buf_rec *b = sn_buf_get(t->m, s->buf);
    int64_t elements = 0;
    bool given = sn_ix_is_const(t->m, b->size, &elements) && elements;
    return add_row(t, given ? CHECK_GIVEN : SN_STEP_CHECK, b->align ? b->align : 1, &(sn_arg){s->buf, 0}, 1);
}

static sn_status alloc_step(table *t, const sn_step *s) {
    place *at = &t->at[s->buf.i];
    *at = t->prepares ? t->prepared : (place){.from = WORKSPACE};
    return sn_wrap_number(t->prepares ? &at->offset : &at->bytes, t->m, s->offset, "the offset",
                          sn_buf_get(t->m, s->buf)->name);
}

static sn_status reuse_step(table *t, const sn_step *s) {
    t->at[s->buf.i] = t->at[s->from.i];
    return SN_OK;
}

static sn_status call_step(table *t, const sn_step *s) {
    if (t->prepares) return SN_OK;
    return add_row(t, SN_STEP_CALL, t->number[s->kern.i], s->args.at, s->args.n);
}

static sn_status copy_step(table *t, const sn_step *s) {
    int64_t size;
    SN_TRY(sn_wrap_number(&size, t->m, s->size, "the size", sn_buf_get(t->m, s->buf)->name));
    return add_row(t, SN_STEP_COPY, size, (const sn_arg[]){{s->buf, 0}, {s->from, 0}}, 2);
}

static sn_status tabulate_step(table *t, const sn_step *s) {
    switch (s->kind) {
    case SN_STEP_CHECK: return check_step(t, s);
    case SN_STEP_ALLOC: return alloc_step(t, s);
    case SN_STEP_REUSE: return reuse_step(t, s);
    case SN_STEP_CALL: return call_step(t, s);
    case SN_STEP_COPY: return copy_step(t, s);
    case SN_STEP_FREE:
    case SN_STEP_COMMENT:
    case SN_N_STEP_KINDS: return SN_OK;
    }
    return SN_OK;
}

sn_status sn_wrapper_tabulate(sn_wrapper_rows *out, sn_module *m, sn_arena *arena) {
    table t = {.m = m, .arena = arena, .number = sn_kern_numbers(m, arena)};
    t.at = SN_NEWN(arena, place, m->bufs.count);
    place_what_is_given(&t);
    for (uint32_t i = 0; i < m->wrap.steps.n; i++) {
        t.prepares = i < m->wrap.n_prepare;
        SN_TRY(tabulate_step(&t, &m->wrap.steps.at[i]));
    }
    SN_TRY(add_row(&t, END, 0, NULL, 0));
    *out = (sn_wrapper_rows){t.words.at, t.words.n, t.most};
    return SN_OK;
}

/* ---- the function ---- */

typedef struct writer {
    sn_cg *cg;
    LLVMBuilderRef at;
    LLVMValueRef f, inputs, outputs, consts, workspace, launch, copy, user;
    LLVMValueRef origins, params; /* stack arrays: what places count from; places of the row */
    LLVMBasicBlockRef next;       /* returns `status` or goes on */
    LLVMValueRef status;          /* phi */
} writer;

static LLVMValueRef const_i64(const writer *w, uint64_t x) { return LLVMConstInt(w->cg->i64, x, false); }

static LLVMValueRef const_i32(const writer *w, uint32_t x) { return LLVMConstInt(w->cg->i32, x, false); }

static LLVMBasicBlockRef block(const writer *w, const char *name) {
    return LLVMAppendBasicBlockInContext(w->cg->cx, w->f, name);
}

static LLVMValueRef element(const writer *w, LLVMTypeRef type, LLVMValueRef array, LLVMValueRef index) {
    return LLVMBuildInBoundsGEP2(w->at, type, array, &index, 1, "");
}

static LLVMValueRef column(const writer *w, LLVMValueRef row, unsigned k, const char *name) {
    return LLVMBuildLoad2(w->at, w->cg->i64, element(w, w->cg->i64, row, const_i64(w, k)), name);
}

static LLVMValueRef param(const writer *w, unsigned k) {
    return LLVMBuildLoad2(w->at, w->cg->ptr, element(w, w->cg->ptr, w->params, const_i64(w, k)), "");
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
}

static LLVMValueRef constant(const writer *w, LLVMModuleRef mod, const sn_wrapper_rows *t) {
    LLVMValueRef rows = LLVMAddGlobal(mod, LLVMArrayType2(w->cg->i64, t->n), "rows");
    LLVMSetInitializer(rows, LLVMConstDataArray(w->cg->i64, (const char *)t->words, t->n * sizeof(int64_t)));
    LLVMSetGlobalConstant(rows, true);
    LLVMSetLinkage(rows, LLVMPrivateLinkage);
    return rows;
}

static void open_body(writer *w, uint32_t most) {
    const LLVMValueRef origins[N_ORIGINS] = {
        [INPUTS] = w->inputs, [OUTPUTS] = w->outputs, [CONSTS] = w->consts, [WORKSPACE] = w->workspace};
    LLVMPositionBuilderAtEnd(w->at, block(w, "entry"));
    w->origins = LLVMBuildArrayAlloca(w->at, w->cg->ptr, const_i32(w, N_ORIGINS), "origins");
    w->params = LLVMBuildArrayAlloca(w->at, w->cg->ptr, const_i32(w, most), "params");
    for (unsigned k = NOWHERE + 1; k < N_ORIGINS; k++)
        LLVMBuildStore(w->at, origins[k], element(w, w->cg->ptr, w->origins, const_i64(w, k)));
}

/* Address of the place whose columns begin at `at`; the builder goes on in a new block. */
static LLVMValueRef write_place(writer *w, LLVMValueRef at) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(w->at), indirect = block(w, "indirect"), placed = block(w, "placed");
    LLVMValueRef from = column(w, at, FROM, "from"), bytes = column(w, at, BYTES, "bytes");
    LLVMValueRef origin = LLVMBuildLoad2(w->at, w->cg->ptr, element(w, w->cg->ptr, w->origins, from), "origin");
    LLVMValueRef direct = element(w, w->cg->i8, origin, bytes);
    LLVMBuildCondBr(w->at, LLVMBuildICmp(w->at, LLVMIntEQ, from, const_i64(w, WORKSPACE), ""), placed, indirect);
    LLVMPositionBuilderAtEnd(w->at, indirect);
    LLVMValueRef addresses[] = {direct, LLVMBuildLoad2(w->at, w->cg->ptr, direct, "")};
    LLVMBuildBr(w->at, placed);
    LLVMPositionBuilderAtEnd(w->at, placed);
    LLVMValueRef p = LLVMBuildPhi(w->at, w->cg->ptr, "p");
    LLVMAddIncoming(p, addresses, (LLVMBasicBlockRef[]){before, indirect}, SN_COUNT(addresses));
    return element(w, w->cg->i8, p, column(w, at, OFFSET, "offset"));
}

/* params[0 .. n-1] from the places that begin at `places`; the builder goes on in a new block. */
static void write_places(writer *w, LLVMValueRef places, LLVMValueRef n) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(w->at), head = block(w, "head"), body = block(w, "place");
    LLVMBasicBlockRef done = block(w, "done");
    LLVMBuildBr(w->at, head);
    LLVMPositionBuilderAtEnd(w->at, head);
    LLVMValueRef k = LLVMBuildPhi(w->at, w->cg->i64, "k");
    LLVMBuildCondBr(w->at, LLVMBuildICmp(w->at, LLVMIntEQ, k, n, ""), done, body);
    LLVMPositionBuilderAtEnd(w->at, body);
    LLVMValueRef words = LLVMBuildMul(w->at, k, const_i64(w, PLACE_WORDS), "");
    LLVMValueRef p = write_place(w, element(w, w->cg->i64, places, words));
    LLVMBuildStore(w->at, p, element(w, w->cg->ptr, w->params, k));
    LLVMValueRef counts[] = {const_i64(w, 0), LLVMBuildAdd(w->at, k, const_i64(w, 1), "")};
    LLVMAddIncoming(k, counts, (LLVMBasicBlockRef[]){before, LLVMGetInsertBlock(w->at)}, SN_COUNT(counts));
    LLVMBuildBr(w->at, head);
    LLVMPositionBuilderAtEnd(w->at, done);
}

static void end_row(writer *w, LLVMValueRef status) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(w->at);
    LLVMAddIncoming(w->status, &status, &here, 1);
    LLVMBuildBr(w->at, w->next);
}

/* Is the address no multiple of the alignment, or 0 where storage has to be given? */
static void write_check(writer *w, LLVMValueRef kind, LLVMValueRef align) {
    LLVMValueRef p = param(w, 0), address = LLVMBuildPtrToInt(w->at, p, w->cg->i64, "");
    LLVMValueRef low = LLVMBuildAnd(w->at, address, LLVMBuildSub(w->at, align, const_i64(w, 1), ""), "");
    LLVMValueRef given = LLVMBuildICmp(w->at, LLVMIntEQ, kind, const_i64(w, CHECK_GIVEN), "");
    LLVMValueRef missing = LLVMBuildAnd(w->at, given, LLVMBuildIsNull(w->at, p, ""), "");
    LLVMValueRef bad = LLVMBuildOr(w->at, LLVMBuildICmp(w->at, LLVMIntNE, low, const_i64(w, 0), ""), missing, "");
    end_row(w, LLVMBuildSelect(w->at, bad, const_i32(w, SN_ERROR_ARGUMENT), const_i32(w, SN_OK), "checked"));
}

static void write_call(writer *w, LLVMValueRef number) {
    LLVMTypeRef parameters[] = {w->cg->ptr, w->cg->i32, w->cg->ptr};
    LLVMTypeRef type = LLVMFunctionType(w->cg->i32, parameters, SN_COUNT(parameters), false);
    LLVMValueRef arguments[] = {w->user, LLVMBuildTrunc(w->at, number, w->cg->i32, ""), w->params};
    end_row(w, LLVMBuildCall2(w->at, type, w->launch, arguments, SN_COUNT(arguments), "launched"));
}

static void write_copy(writer *w, LLVMValueRef size) {
    LLVMTypeRef parameters[] = {w->cg->ptr, w->cg->ptr, w->cg->ptr, w->cg->i64};
    LLVMTypeRef type = LLVMFunctionType(w->cg->i32, parameters, SN_COUNT(parameters), false);
    LLVMValueRef arguments[] = {w->user, param(w, 0), param(w, 1), size};
    end_row(w, LLVMBuildCall2(w->at, type, w->copy, arguments, SN_COUNT(arguments), "copied"));
}

static void write_kinds(writer *w, LLVMValueRef kind, LLVMValueRef number) {
    LLVMBasicBlockRef check = block(w, "check"), call = block(w, "call"), copy = block(w, "copy"),
                      end = block(w, "end");
    LLVMValueRef choice = LLVMBuildSwitch(w->at, kind, end, 4);
    LLVMAddCase(choice, const_i64(w, SN_STEP_CHECK), check);
    LLVMAddCase(choice, const_i64(w, CHECK_GIVEN), check);
    LLVMAddCase(choice, const_i64(w, SN_STEP_CALL), call);
    LLVMAddCase(choice, const_i64(w, SN_STEP_COPY), copy);
    LLVMPositionBuilderAtEnd(w->at, check);
    write_check(w, kind, number);
    LLVMPositionBuilderAtEnd(w->at, call);
    write_call(w, number);
    LLVMPositionBuilderAtEnd(w->at, copy);
    write_copy(w, number);
    LLVMPositionBuilderAtEnd(w->at, end);
    LLVMBuildRet(w->at, const_i32(w, SN_OK));
}

static void write_loop(writer *w, LLVMValueRef rows) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(w->at), loop = block(w, "loop"), stop = block(w, "stop");
    w->next = block(w, "next");
    LLVMPositionBuilderAtEnd(w->at, w->next);
    w->status = LLVMBuildPhi(w->at, w->cg->i32, "status");
    LLVMPositionBuilderAtEnd(w->at, before);
    LLVMBuildBr(w->at, loop);
    LLVMPositionBuilderAtEnd(w->at, loop);
    LLVMValueRef row = LLVMBuildPhi(w->at, w->cg->ptr, "row"), kind = column(w, row, KIND, "kind");
    LLVMValueRef number = column(w, row, NUMBER, "number"), n = column(w, row, PLACES, "n");
    LLVMValueRef places = element(w, w->cg->i64, row, const_i64(w, ROW_WORDS));
    LLVMValueRef words = LLVMBuildMul(w->at, n, const_i64(w, PLACE_WORDS), "");
    LLVMValueRef each[] = {rows, element(w, w->cg->i64, places, words)};
    LLVMAddIncoming(row, each, (LLVMBasicBlockRef[]){before, w->next}, SN_COUNT(each));
    write_places(w, places, n);
    write_kinds(w, kind, number);
    LLVMPositionBuilderAtEnd(w->at, w->next);
    LLVMBuildCondBr(w->at, LLVMBuildICmp(w->at, LLVMIntEQ, w->status, const_i32(w, SN_OK), ""), loop, stop);
    LLVMPositionBuilderAtEnd(w->at, stop);
    LLVMBuildRet(w->at, w->status);
}

LLVMValueRef sn_wrapper_llvm(sn_cg *cg, LLVMModuleRef mod, const sn_wrapper_rows *rows, const char *name) {
    writer w = {.cg = cg, .at = cg->builder};
    declare(&w, mod, name);
    open_body(&w, rows->most);
    write_loop(&w, constant(&w, mod, rows));
    return w.f;
}
