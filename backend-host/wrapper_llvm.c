/* wrapper_llvm.c: Wrapper IR to one LLVM function of type sn_wrapper_fn, which walks a constant table.
 *
 *     wrapper @f workspace 64 {     row:  kind   number       places   from     bytes  offset  from       bytes  offset
 *       check x                           check  16 (align)   1        inputs   0      0
 *       alloc t size 64 offset 0
 *       call @k0(x + 8, t)                call   0 (kernel)   2        inputs   0      32      workspace  0      0
 *       copy y from t size 64             copy   64 (size)    2        outputs  0      0       workspace  0      0
 *     }                                   return
 *
 * Rows of repeats have two columns more, `by` and `depth`. What moves from step to step has a slot for its address, which `window`
 * fills in; it is a place of its own kind, so that calls do not know of repeats:
 *
 *     repeat steps 9                       repeat 0                       depth 0
 *       window x_t from x by 64            window 0 (slot)  1  x          by 64  depth 0      slots[0] = x + 64 * counts[0]
 *       call @a(x_t, h, h_next)            call   1         3  steps 0 ..
 *       carry h from h_next                carry  1 (slot)                by 2 (slot)         slots 1 and 2 change places
 *     end                                  end    9                       by 40  depth 0      40 words back, but for the last time
 *
 * Rows of branches say in `by` how many words they go forward. A repeat that may end early goes behind its end in the same way:
 *
 *     if p                                 if                1  p            by: to the row behind the `else`, unless p holds
 *     else                                 else                              by: to the row behind the `end`, which has none itself
 *     while more                           while             1  more         by: behind the row of the repeat's end, unless it holds
 *
 * What the prepare part has left lies in the prepared memory, whose address stands behind those of the constants;
 * that part itself is run by whoever loads a program, and has no rows.
 *
 *     i32 @wrapper(ptr inputs, outputs, consts, workspace, launch, copy, test, user) {
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
enum { KIND, NUMBER, PLACES, BY, DEPTH, ROW_WORDS };
enum { FROM, BYTES, OFFSET, PLACE_WORDS };

/* Kinds of rows beside those of Wrapper IR: a check of a tensor that has elements, so that storage has to be given; the
 * last row. */
enum { CHECK_GIVEN = SN_N_STEP_KINDS, RETURN };

/* What places count from: arrays of addresses, one of which is the place's, or the workspace itself. */
typedef enum { NOWHERE, INPUTS, OUTPUTS, CONSTS, STEPS, WORKSPACE, N_ORIGINS } origin;

typedef struct place {
    origin from;
    int64_t bytes, offset; /* offset: from the address that is found there */
} place;

/* ---- the table ---- */

/* A repeat or a branch. */
typedef struct open_repeat {
    sn_step_kind kind; /* REPEAT, IF, ELSE */
    uint32_t words;    /* before its first row */
    int64_t trip;
    uint32_t jump; /* the word `by` of its `while`, `if` or `else`, which is known at its end; 0: there is none */
} open_repeat;

typedef struct table {
    sn_module *m;
    sn_arena *arena;
    place *at;              /* by buffer id: where it is after the steps so far */
    const uint32_t *number; /* by kernel id: position in m->kernels */
    SN_VEC(int64_t) words;
    uint32_t most; /* places of a row */
    place prepared;
    bool repeats, tests;                 /* there is a repeat; there is a bool to look at */
    bool prepares;                       /* the steps at hand are those of the prepare part */
    uint32_t n_slots, depth, most_depth; /* slots so far; repeats around the step at hand, at most */
    SN_VEC(open_repeat) open;            /* these, and branches */
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

/* by, depth: of rows of repeats. */
static sn_status add_step_row(table *t, int64_t kind, int64_t number, const sn_arg *args, uint32_t n, int64_t by,
                              int64_t depth) {
    const int64_t row[ROW_WORDS] = {[KIND] = kind, [NUMBER] = number, [PLACES] = n, [BY] = by, [DEPTH] = depth};
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

static sn_status add_row(table *t, int64_t kind, int64_t number, const sn_arg *args, uint32_t n) {
    return add_step_row(t, kind, number, args, n, 0, 0);
}

static sn_status check_step(table *t, const sn_step *s) {
    const sn_buf_rec *b = sn_buf_get(t->m, s->buf);
    int64_t elements = 0;
    bool given = sn_ix_is_const(t->m, b->size, &elements) && elements;
    return add_row(t, given ? CHECK_GIVEN : SN_STEP_CHECK, b->align ? b->align : 1, &(sn_arg){s->buf, 0}, 1);
}

/* From now on the buffer is where a slot says, which gets the address of `arg` and `by` times the step's number. */
static sn_status move_to_slot(table *t, sn_buf b, const sn_arg *arg, int64_t by) {
    uint32_t slot = t->n_slots++, depth = t->depth ? t->depth - 1 : 0;
    SN_TRY(add_step_row(t, SN_STEP_WINDOW, slot, arg, 1, by, depth));
    t->at[b.i] = (place){.from = STEPS, .bytes = slot * (int64_t)sizeof(void *)};
    return SN_OK;
}

static sn_status alloc_step(table *t, const sn_step *s) {
    place *at = &t->at[s->buf.i];
    *at = t->prepares ? t->prepared : (place){.from = WORKSPACE};
    SN_TRY(sn_wrap_number(t->prepares ? &at->offset : &at->bytes, t->m, s->offset, "the offset",
                          sn_buf_get(t->m, s->buf)->name));
    if (!t->repeats || sn_buf_get(t->m, s->buf)->scope != SN_BUF_STEP) return SN_OK;
    return move_to_slot(t, s->buf, &(sn_arg){s->buf, 0}, 0); /* it may change places */
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

/* The address of a window is counted in bytes, places in elements. */
static sn_status window_step(table *t, const sn_step *s) {
    const sn_buf_rec *b = sn_buf_get(t->m, s->buf);
    int64_t first, by = 0;
    SN_TRY(sn_wrap_number(&first, t->m, s->offset, "the offset", b->name));
    if (!sn_ix_is_const(t->m, s->size, &by)) SN_TRY(sn_wrap_number(&by, t->m, s->size, "the distance", b->name));
    return move_to_slot(t, s->buf, &(sn_arg){s->from, first / sn_dtype_bytes(b->dtype)}, by);
}

/* Nothing where one was written over the other. */
static sn_status carry_step(table *t, const sn_step *s) {
    int64_t a = t->at[s->buf.i].bytes, b = t->at[s->from.i].bytes, bytes = sizeof(void *);
    if (t->at[s->buf.i].from != STEPS || t->at[s->from.i].from != STEPS)
        return sn_fail(t->m->env, SN_ERROR_VERIFY, "wrapper: %s has no place of a state",
                       sn_buf_get(t->m, s->buf)->name);
    return a == b ? SN_OK : add_step_row(t, SN_STEP_CARRY, a / bytes, NULL, 0, b / bytes, 0);
}

static sn_status repeat_step(table *t, const sn_step *s) {
    open_repeat o = {.kind = SN_STEP_REPEAT};
    SN_TRY(sn_wrap_number(&o.trip, t->m, s->size, "the number of steps", "a repeat"));
    SN_TRY(add_step_row(t, SN_STEP_REPEAT, 0, NULL, 0, 0, t->depth));
    o.words = (uint32_t)t->words.n;
    SN_PUSH(t->arena, &t->open, o);
    if (++t->depth > t->most_depth) t->most_depth = t->depth;
    return SN_OK;
}

/* A row that goes forward when the bool, if there is one, does not hold. *jump: its word `by`. */
static sn_status jump_row(uint32_t *jump, table *t, sn_step_kind kind, sn_buf flag) {
    *jump = (uint32_t)t->words.n + BY;
    t->tests = true;
    return add_row(t, kind, 0, &(sn_arg){flag, 0}, flag.i ? 1 : 0);
}

/* It goes to the row that comes now. */
static void land(table *t, uint32_t jump) {
    if (!jump) return;
    uint32_t row = jump - BY, n = ROW_WORDS + (uint32_t)t->words.at[row + PLACES] * PLACE_WORDS;
    t->words.at[jump] = (int64_t)t->words.n - row - n;
}

static sn_status if_step(table *t, const sn_step *s) {
    open_repeat o = {.kind = SN_STEP_IF};
    SN_TRY(jump_row(&o.jump, t, SN_STEP_IF, s->buf));
    SN_PUSH(t->arena, &t->open, o);
    return SN_OK;
}

static open_repeat *innermost(table *t, sn_step_kind kind) {
    open_repeat *o = t->open.n ? &t->open.at[t->open.n - 1] : NULL;
    return o && o->kind == kind ? o : NULL;
}

static sn_status else_step(table *t) {
    open_repeat *o = innermost(t, SN_STEP_IF);
    uint32_t jump;
    if (!o) return sn_fail(t->m->env, SN_ERROR_VERIFY, "wrapper: there is no if");
    SN_TRY(jump_row(&jump, t, SN_STEP_ELSE, (sn_buf){0}));
    land(t, o->jump);
    *o = (open_repeat){.kind = SN_STEP_ELSE, .jump = jump};
    return SN_OK;
}

static sn_status while_step(table *t, const sn_step *s) {
    open_repeat *o = innermost(t, SN_STEP_REPEAT);
    if (!o || o->jump) return sn_fail(t->m->env, SN_ERROR_VERIFY, "wrapper: there is no repeat that ends by one bool");
    return jump_row(&o->jump, t, SN_STEP_WHILE, s->buf);
}

static sn_status end_step(table *t) {
    if (!t->open.n) return sn_fail(t->m->env, SN_ERROR_VERIFY, "wrapper: there is no repeat or if to end");
    open_repeat o = t->open.at[--t->open.n];
    if (o.kind == SN_STEP_REPEAT) {
        t->depth--;
        SN_TRY(add_step_row(t, SN_STEP_END, o.trip, NULL, 0, (int64_t)t->words.n - o.words, t->depth));
    }
    land(t, o.jump);
    return SN_OK;
}

static sn_status tabulate_step(table *t, uint32_t number) {
    const sn_step *s = &t->m->wrap.steps.at[number];
    switch (s->kind) {
    case SN_STEP_CHECK: return check_step(t, s);
    case SN_STEP_ALLOC: return alloc_step(t, s);
    case SN_STEP_REUSE: return reuse_step(t, s);
    case SN_STEP_CALL: return call_step(t, s);
    case SN_STEP_COPY: return copy_step(t, s);
    case SN_STEP_REPEAT: return repeat_step(t, s);
    case SN_STEP_WINDOW: return window_step(t, s);
    case SN_STEP_CARRY: return carry_step(t, s);
    case SN_STEP_WHILE: return while_step(t, s);
    case SN_STEP_IF: return if_step(t, s);
    case SN_STEP_ELSE: return else_step(t);
    case SN_STEP_END: return end_step(t);
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
    for (uint32_t i = 0; i < m->wrap.steps.n; i++) t.repeats |= m->wrap.steps.at[i].kind == SN_STEP_REPEAT;
    for (uint32_t i = 0; i < m->wrap.steps.n; i++) {
        t.prepares = i < m->wrap.n_prepare;
        SN_TRY(tabulate_step(&t, i));
    }
    SN_TRY(add_row(&t, RETURN, 0, NULL, 0));
    *out = (sn_wrapper_rows){t.words.at, t.words.n, t.most, t.n_slots, t.most_depth, t.tests};
    return SN_OK;
}

/* ---- the function ---- */

typedef struct writer {
    sn_cg *cg;
    LLVMBuilderRef at;
    LLVMValueRef f, inputs, outputs, consts, workspace, launch, copy, test, user;
    LLVMValueRef origins, params; /* stack arrays: what places count from; places of the row */
    LLVMValueRef slots, counts;   /* addresses that change from step to step; by depth, the step that a repeat is at */
    LLVMValueRef holds;           /* on the stack: the bool of the row */
    LLVMValueRef behind;          /* the row behind this one */
    LLVMBasicBlockRef next;       /* returns `status` or goes on */
    LLVMValueRef status, resume;  /* phi: what became of the row; the row that follows it */
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
    LLVMTypeRef parameters[8];
    LLVMValueRef *const arguments[] = {&w->inputs, &w->outputs, &w->consts, &w->workspace,
                                       &w->launch, &w->copy,    &w->test,   &w->user};
    static const char *const names[] = {"inputs", "outputs", "consts", "workspace", "launch", "copy", "test", "user"};
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

static void open_body(writer *w, const sn_wrapper_rows *t) {
    const LLVMValueRef origins[N_ORIGINS] = {
        [INPUTS] = w->inputs, [OUTPUTS] = w->outputs, [CONSTS] = w->consts, [WORKSPACE] = w->workspace};
    LLVMPositionBuilderAtEnd(w->at, block(w, "entry"));
    w->origins = LLVMBuildArrayAlloca(w->at, w->cg->ptr, const_i32(w, N_ORIGINS), "origins");
    w->params = LLVMBuildArrayAlloca(w->at, w->cg->ptr, const_i32(w, t->most), "params");
    if (t->depth) {
        w->slots = LLVMBuildArrayAlloca(w->at, w->cg->ptr, const_i32(w, t->slots), "slots");
        w->counts = LLVMBuildArrayAlloca(w->at, w->cg->i64, const_i32(w, t->depth), "counts");
        LLVMBuildStore(w->at, w->slots, element(w, w->cg->ptr, w->origins, const_i64(w, STEPS)));
        for (unsigned k = 0; k < t->depth; k++) /* rows before the repeat multiply them by 0 */
            LLVMBuildStore(w->at, const_i64(w, 0), element(w, w->cg->i64, w->counts, const_i64(w, k)));
    }
    if (t->tests) w->holds = LLVMBuildAlloca(w->at, w->cg->i32, "holds");
    for (unsigned k = NOWHERE + 1; k < N_ORIGINS; k++)
        if (k != STEPS) LLVMBuildStore(w->at, origins[k], element(w, w->cg->ptr, w->origins, const_i64(w, k)));
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

static void go_on_at(writer *w, LLVMValueRef row, LLVMValueRef status) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(w->at);
    LLVMAddIncoming(w->status, &status, &here, 1);
    LLVMAddIncoming(w->resume, &row, &here, 1);
    LLVMBuildBr(w->at, w->next);
}

static void end_row(writer *w, LLVMValueRef status) { go_on_at(w, w->behind, status); }

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

/* ---- repeats ---- */

static LLVMValueRef load_i64(const writer *w, LLVMValueRef at) { return LLVMBuildLoad2(w->at, w->cg->i64, at, ""); }
static LLVMValueRef load_ptr(const writer *w, LLVMValueRef at) { return LLVMBuildLoad2(w->at, w->cg->ptr, at, ""); }

static void write_window(writer *w, LLVMValueRef number, LLVMValueRef by, LLVMValueRef count) {
    LLVMValueRef distance = LLVMBuildMul(w->at, by, load_i64(w, count), "distance");
    LLVMValueRef address = LLVMBuildGEP2(w->at, w->cg->i8, param(w, 0), &distance, 1, "window");
    LLVMBuildStore(w->at, address, element(w, w->cg->ptr, w->slots, number));
    end_row(w, const_i32(w, SN_OK));
}

static void write_carry(writer *w, LLVMValueRef number, LLVMValueRef by) {
    LLVMValueRef state = element(w, w->cg->ptr, w->slots, number), next = element(w, w->cg->ptr, w->slots, by);
    LLVMValueRef old = load_ptr(w, state), new = load_ptr(w, next);
    LLVMBuildStore(w->at, new, state);
    LLVMBuildStore(w->at, old, next);
    end_row(w, const_i32(w, SN_OK));
}

/* number: of steps; by: words back to the first row. */
static void write_end(writer *w, LLVMValueRef row, LLVMValueRef number, LLVMValueRef by, LLVMValueRef count) {
    LLVMValueRef t = LLVMBuildAdd(w->at, load_i64(w, count), const_i64(w, 1), "t");
    LLVMBuildStore(w->at, t, count);
    LLVMValueRef back = LLVMBuildNeg(w->at, by, ""), first = LLVMBuildGEP2(w->at, w->cg->i64, row, &back, 1, "first");
    LLVMValueRef more = LLVMBuildICmp(w->at, LLVMIntSLT, t, number, "more");
    go_on_at(w, LLVMBuildSelect(w->at, more, first, w->behind, ""), const_i32(w, SN_OK));
}

static void write_repeats(writer *w, LLVMValueRef choice, LLVMValueRef row, LLVMValueRef number) {
    LLVMBasicBlockRef repeat = block(w, "repeat"), window = block(w, "window"), carry = block(w, "carry"),
                      end = block(w, "end");
    LLVMAddCase(choice, const_i64(w, SN_STEP_REPEAT), repeat);
    LLVMAddCase(choice, const_i64(w, SN_STEP_WINDOW), window);
    LLVMAddCase(choice, const_i64(w, SN_STEP_CARRY), carry);
    LLVMAddCase(choice, const_i64(w, SN_STEP_END), end);
    LLVMPositionBuilderAtEnd(w->at, repeat);
    LLVMBuildStore(w->at, const_i64(w, 0), element(w, w->cg->i64, w->counts, column(w, row, DEPTH, "depth")));
    end_row(w, const_i32(w, SN_OK));
    LLVMPositionBuilderAtEnd(w->at, window);
    write_window(w, number, column(w, row, BY, "by"),
                 element(w, w->cg->i64, w->counts, column(w, row, DEPTH, "depth")));
    LLVMPositionBuilderAtEnd(w->at, carry);
    write_carry(w, number, column(w, row, BY, "by"));
    LLVMPositionBuilderAtEnd(w->at, end);
    write_end(w, row, number, column(w, row, BY, "by"),
              element(w, w->cg->i64, w->counts, column(w, row, DEPTH, "depth")));
}

/* ---- branches ---- */

static LLVMValueRef forward(writer *w, LLVMValueRef by) {
    return LLVMBuildGEP2(w->at, w->cg->i64, w->behind, &by, 1, "forward");
}

/* To the next row if the bool holds, else forward. */
static void write_test(writer *w, LLVMValueRef by) {
    LLVMTypeRef parameters[] = {w->cg->ptr, w->cg->ptr, w->cg->ptr};
    LLVMTypeRef type = LLVMFunctionType(w->cg->i32, parameters, SN_COUNT(parameters), false);
    LLVMValueRef arguments[] = {w->user, param(w, 0), w->holds};
    LLVMBuildStore(w->at, const_i32(w, 0), w->holds);
    LLVMValueRef status = LLVMBuildCall2(w->at, type, w->test, arguments, SN_COUNT(arguments), "tested");
    LLVMValueRef holds = LLVMBuildLoad2(w->at, w->cg->i32, w->holds, "");
    LLVMValueRef is = LLVMBuildICmp(w->at, LLVMIntNE, holds, const_i32(w, 0), "is");
    go_on_at(w, LLVMBuildSelect(w->at, is, w->behind, forward(w, by), ""), status);
}

static void write_branches(writer *w, LLVMValueRef choice, LLVMValueRef row) {
    LLVMBasicBlockRef test = block(w, "test"), otherwise = block(w, "else");
    LLVMAddCase(choice, const_i64(w, SN_STEP_IF), test);
    LLVMAddCase(choice, const_i64(w, SN_STEP_WHILE), test);
    LLVMAddCase(choice, const_i64(w, SN_STEP_ELSE), otherwise);
    LLVMPositionBuilderAtEnd(w->at, test);
    write_test(w, column(w, row, BY, "by"));
    LLVMPositionBuilderAtEnd(w->at, otherwise);
    go_on_at(w, forward(w, column(w, row, BY, "by")), const_i32(w, SN_OK));
}

static void write_kinds(writer *w, LLVMValueRef row, LLVMValueRef kind, LLVMValueRef number) {
    LLVMBasicBlockRef check = block(w, "check"), call = block(w, "call"), copy = block(w, "copy"),
                      end = block(w, "return");
    LLVMValueRef choice = LLVMBuildSwitch(w->at, kind, end, 8);
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
    if (w->counts) write_repeats(w, choice, row, number);
    if (w->holds) write_branches(w, choice, row);
    LLVMPositionBuilderAtEnd(w->at, end);
    LLVMBuildRet(w->at, const_i32(w, SN_OK));
}

static void write_loop(writer *w, LLVMValueRef rows) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(w->at), loop = block(w, "loop"), stop = block(w, "stop");
    w->next = block(w, "next");
    LLVMPositionBuilderAtEnd(w->at, w->next);
    w->status = LLVMBuildPhi(w->at, w->cg->i32, "status");
    w->resume = LLVMBuildPhi(w->at, w->cg->ptr, "resume");
    LLVMPositionBuilderAtEnd(w->at, before);
    LLVMBuildBr(w->at, loop);
    LLVMPositionBuilderAtEnd(w->at, loop);
    LLVMValueRef row = LLVMBuildPhi(w->at, w->cg->ptr, "row"), kind = column(w, row, KIND, "kind");
    LLVMValueRef number = column(w, row, NUMBER, "number"), n = column(w, row, PLACES, "n");
    LLVMValueRef places = element(w, w->cg->i64, row, const_i64(w, ROW_WORDS));
    LLVMValueRef words = LLVMBuildMul(w->at, n, const_i64(w, PLACE_WORDS), "");
    LLVMValueRef each[] = {rows, w->resume};
    w->behind = element(w, w->cg->i64, places, words);
    LLVMAddIncoming(row, each, (LLVMBasicBlockRef[]){before, w->next}, SN_COUNT(each));
    write_places(w, places, n);
    write_kinds(w, row, kind, number);
    LLVMPositionBuilderAtEnd(w->at, w->next);
    LLVMBuildCondBr(w->at, LLVMBuildICmp(w->at, LLVMIntEQ, w->status, const_i32(w, SN_OK), ""), loop, stop);
    LLVMPositionBuilderAtEnd(w->at, stop);
    LLVMBuildRet(w->at, w->status);
}

LLVMValueRef sn_wrapper_llvm(sn_cg *cg, LLVMModuleRef mod, const sn_wrapper_rows *rows, const char *name) {
    writer w = {.cg = cg, .at = cg->builder};
    declare(&w, mod, name);
    open_body(&w, rows);
    write_loop(&w, constant(&w, mod, rows));
    return w.f;
}
