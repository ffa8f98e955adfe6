/* emit.c: shapes, constants and small building blocks on scalars and vectors.
 *
 * Relies on the LLVM C API alone. Knows the target only where an instruction exists on one side (nan-propagating max,
 * approximate reciprocal). Does not know Loop IR.
 */
#include "codegen-llvm/emit.h"

#include <string.h>

/* ---- shapes ---- */

static bool is_vector(lv x) { return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind; }

uint32_t sn_em_lanes(lv x) { return is_vector(x) ? LLVMGetVectorSize(LLVMTypeOf(x)) : 1; }

LLVMTypeRef sn_em_elem(lv x) { return is_vector(x) ? LLVMGetElementType(LLVMTypeOf(x)) : LLVMTypeOf(x); }

LLVMTypeRef sn_em_shape(LLVMTypeRef elem, uint32_t lanes) { return lanes > 1 ? LLVMVectorType(elem, lanes) : elem; }

LLVMTypeRef sn_em_like(lv x, LLVMTypeRef elem) { return sn_em_shape(elem, sn_em_lanes(x)); }

enum { MAX_LANES = 64 };

static lv lane_number(sn_em *em, uint32_t lane) { return LLVMConstInt(em->cg->i32, lane, 0); }

lv sn_em_shuffle(sn_em *em, lv x, lv y, const uint32_t *from, uint32_t n) {
    lv index[MAX_LANES];
    SN_ASSERT(n <= MAX_LANES);
    for (uint32_t i = 0; i < n; i++) index[i] = lane_number(em, from[i]);
    return LLVMBuildShuffleVector(em->b, x, y, LLVMConstVector(index, n), "");
}

lv sn_em_splat(sn_em *em, lv x, uint32_t lanes) {
    if (lanes <= 1 || is_vector(x)) return x;
    if (LLVMIsConstant(x)) {
        lv all[MAX_LANES];
        SN_ASSERT(lanes <= MAX_LANES);
        for (uint32_t i = 0; i < lanes; i++) all[i] = x;
        return LLVMConstVector(all, lanes);
    }
    uint32_t from[MAX_LANES] = {0};
    lv one =
        LLVMBuildInsertElement(em->b, LLVMGetPoison(LLVMVectorType(LLVMTypeOf(x), lanes)), x, lane_number(em, 0), "");
    return sn_em_shuffle(em, one, LLVMGetPoison(LLVMTypeOf(one)), from, lanes);
}

void sn_em_unify(sn_em *em, lv *x, uint32_t n) {
    uint32_t lanes = 1;
    for (uint32_t i = 0; i < n; i++)
        if (sn_em_lanes(x[i]) > lanes) lanes = sn_em_lanes(x[i]);
    for (uint32_t i = 0; i < n; i++) x[i] = sn_em_splat(em, x[i], lanes);
}

/* Of an element that is smaller than a register; 0: it is none. */
static uint32_t small_bytes(const sn_em *em, LLVMTypeRef elem) {
    const sn_cg *cg = em->cg;
    if (elem == cg->i16 || elem == cg->f16 || elem == cg->bf16) return 2;
    return elem == cg->i8 ? 1 : 0;
}

lv sn_em_choose(sn_em *em, lv c, lv x, lv y) {
    enum { WORD = 4 };
    lv xy[2] = {x, y}, all[3] = {c, x, y};
    sn_em_unify(em, xy, 2);
    uint32_t lanes = sn_em_lanes(xy[0]);
    uint32_t bytes = is_vector(xy[0]) ? small_bytes(em, sn_em_elem(xy[0])) : 0;
    if (em->cg->target->is_gpu && !is_vector(c) && bytes && lanes * bytes % WORD == 0) {
        uint32_t n = lanes * bytes / WORD;
        LLVMTypeRef words = n > 1 ? LLVMVectorType(em->cg->i32, n) : em->cg->i32;
        lv chosen = em_select(em, c, em_bitcast(em, xy[0], words), em_bitcast(em, xy[1], words));
        return em_bitcast(em, chosen, LLVMTypeOf(xy[0]));
    }
    sn_em_unify(em, all, 3);
    return em_select(em, all[0], all[1], all[2]);
}

lv sn_em_lane(sn_em *em, lv x, uint32_t lane) {
    return is_vector(x) ? LLVMBuildExtractElement(em->b, x, lane_number(em, lane), "") : x;
}

lv sn_em_with_lane(sn_em *em, lv vector, uint32_t lane, lv x) {
    return is_vector(vector) ? LLVMBuildInsertElement(em->b, vector, x, lane_number(em, lane), "") : x;
}

lv sn_em_slice(sn_em *em, lv x, uint32_t first, uint32_t n) {
    if (n == 1) return sn_em_lane(em, x, first);
    if (first == 0 && n == sn_em_lanes(x)) return x;
    uint32_t from[MAX_LANES];
    for (uint32_t i = 0; i < n; i++) from[i] = first + i;
    return sn_em_shuffle(em, x, LLVMGetPoison(LLVMTypeOf(x)), from, n);
}

lv sn_em_reverse(sn_em *em, lv x) {
    uint32_t from[MAX_LANES], n = sn_em_lanes(x);
    for (uint32_t i = 0; i < n; i++) from[i] = n - 1 - i;
    return n > 1 ? sn_em_shuffle(em, x, x, from, n) : x;
}

lv sn_em_join(sn_em *em, lv x, lv y) {
    uint32_t nx = sn_em_lanes(x), ny = sn_em_lanes(y), from[MAX_LANES];
    if (nx == ny && nx > 1) {
        for (uint32_t i = 0; i < nx + ny; i++) from[i] = i;
        return sn_em_shuffle(em, x, y, from, nx + ny);
    }
    lv all = LLVMGetPoison(LLVMVectorType(sn_em_elem(x), nx + ny));
    for (uint32_t i = 0; i < nx; i++) all = sn_em_with_lane(em, all, i, sn_em_lane(em, x, i));
    for (uint32_t i = 0; i < ny; i++) all = sn_em_with_lane(em, all, nx + i, sn_em_lane(em, y, i));
    return all;
}

/* ---- constants ---- */

lv sn_em_f(sn_em *em, lv like, double x) {
    return sn_em_splat(em, LLVMConstReal(sn_em_elem(like), x), sn_em_lanes(like));
}

lv sn_em_ci(LLVMTypeRef type, int64_t x) { return LLVMConstInt(type, (unsigned long long)x, 1); }

lv sn_em_i(sn_em *em, lv like, int64_t x) { return sn_em_splat(em, sn_em_ci(sn_em_elem(like), x), sn_em_lanes(like)); }

/* ---- building blocks ---- */

lv sn_em_call(sn_em *em, const char *intrinsic, LLVMTypeRef overload, lv *args, uint32_t n) {
    unsigned id = LLVMLookupIntrinsicID(intrinsic, strlen(intrinsic));
    SN_ASSERT(id);
    size_t overloads = overload && LLVMIntrinsicIsOverloaded(id) ? 1 : 0;
    lv fn = LLVMGetIntrinsicDeclaration(em->mod, id, &overload, overloads);
    return LLVMBuildCall2(em->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
}

lv sn_em_assembly(sn_em *em, LLVMTypeRef result, const char *text, const char *constraints, lv *args, uint32_t n) {
    LLVMTypeRef types[12];
    SN_ASSERT(n <= SN_COUNT(types));
    for (uint32_t i = 0; i < n; i++) types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(result, types, n, 0);
    lv code =
        LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints), 1, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(em->b, type, code, args, n, "");
}

lv sn_em_global(sn_em *em, const char *name, LLVMTypeRef type, unsigned space, unsigned align) {
    lv v = LLVMAddGlobalInAddressSpace(em->mod, type, name, space);
    LLVMSetInitializer(v, space == 3 ? LLVMGetUndef(type) : LLVMConstNull(type));
    LLVMSetLinkage(v, LLVMInternalLinkage);
    LLVMSetAlignment(v, align);
    return v;
}

lv sn_em_poly(sn_em *em, lv x, const double *c, uint32_t n) {
    lv y = sn_em_f(em, x, c[n - 1]);
    for (uint32_t i = n - 1; i-- > 0;) y = em_fma(em, y, x, sn_em_f(em, x, c[i]));
    return y;
}

static bool is_known_number(sn_em *em, lv x) {
    lv nan = LLVMIsConstant(x) ? em_fcmp(em, LLVMRealUNO, x, x) : NULL;
    return nan && LLVMIsConstant(nan) && LLVMIsNull(nan);
}

static lv zeros_alike(lv x) {
    if (LLVMCanValueUseFastMathFlags(x)) LLVMSetFastMathFlags(x, LLVMGetFastMathFlags(x) | LLVMFastMathNoSignedZeros);
    return x;
}

/* Of the CPU: its instruction gives the second operand where either is nan, or both are alike, zeros of either sign among them. LLVM
 * adds what nan in the first one takes, but for the zeros only where they may not be taken for each other. */
static lv extreme_of_cpu(sn_em *em, lv x, lv y, const char *intrinsic, LLVMRealPredicate wins) {
    if (!is_known_number(em, y)) return zeros_alike(em_call2(em, intrinsic, x, y));
    return zeros_alike(em_select(em, zeros_alike(em_fcmp(em, wins, y, x)), y, x));
}

/* min.NaN and max.NaN exist on f32 from sm_80 on. Elsewhere: x where it wins or is nan. */
static lv extreme(sn_em *em, lv x, lv y, const char *intrinsic, LLVMRealPredicate wins) {
    const sn_target *t = em->cg->target;
    if (t->is_gpu && t->sm >= 80 && !sn_em_is64(x)) return em_call2(em, intrinsic, x, y);
    if (!t->is_gpu) return extreme_of_cpu(em, x, y, intrinsic, wins);
    lv keep = em_or(em, em_fcmp(em, wins, x, y), em_fcmp(em, LLVMRealUNO, x, x));
    return em_select(em, keep, x, y);
}

lv sn_em_fmin(sn_em *em, lv x, lv y) { return extreme(em, x, y, "llvm.minimum", LLVMRealOLT); }
lv sn_em_fmax(sn_em *em, lv x, lv y) { return extreme(em, x, y, "llvm.maximum", LLVMRealOGT); }

lv sn_em_rcp(sn_em *em, lv x) {
    lv y = em_div(em, sn_em_f(em, x, 1), x);
    if (em->cg->target->is_gpu && !sn_em_is64(x) && LLVMCanValueUseFastMathFlags(y))
        LLVMSetFastMathFlags(y, LLVMFastMathApproxFunc | LLVMFastMathAllowReciprocal);
    return y;
}

bool sn_em_is64(lv x) {
    LLVMTypeRef t = sn_em_elem(x);
    LLVMTypeKind kind = LLVMGetTypeKind(t);
    return kind == LLVMDoubleTypeKind || (kind == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(t) == 64);
}

lv sn_em_ibits(sn_em *em, lv x) { return em_bitcast(em, x, sn_em_like(x, sn_em_is64(x) ? em->cg->i64 : em->cg->i32)); }
lv sn_em_fbits(sn_em *em, lv x) { return em_bitcast(em, x, sn_em_like(x, sn_em_is64(x) ? em->cg->f64 : em->cg->f32)); }

lv sn_em_any(sn_em *em, lv mask) {
    uint32_t n = sn_em_lanes(mask);
    if (!em->cg->target->is_gpu && n > 1) { /* one comparison of a mask */
        lv bits = LLVMBuildBitCast(em->b, mask, LLVMIntTypeInContext(em->cg->cx, n), "");
        return em_icmp(em, LLVMIntNE, bits, LLVMConstNull(LLVMTypeOf(bits)));
    }
    lv any = sn_em_lane(em, mask, 0);
    for (uint32_t i = 1; i < n; i++) any = em_or(em, any, sn_em_lane(em, mask, i));
    return any;
}

/* ---- control flow ---- */

LLVMBasicBlockRef sn_em_block(sn_em *em, const char *name) {
    return LLVMAppendBasicBlockInContext(em->cg->cx, em->fn, name);
}

sn_em_if sn_em_then(sn_em *em, lv cond, const char *name) {
    sn_em_if s = {
        .before = LLVMGetInsertBlock(em->b), .then = sn_em_block(em, name), .after = sn_em_block(em, "after")};
    LLVMBuildCondBr(em->b, cond, s.then, s.after);
    LLVMPositionBuilderAtEnd(em->b, s.then);
    return s;
}

void sn_em_end(sn_em *em, sn_em_if *s) {
    LLVMBuildBr(em->b, s->after);
    LLVMPositionBuilderAtEnd(em->b, s->after);
}

lv sn_em_merge(sn_em *em, const sn_em_if *s, LLVMBasicBlockRef then_end, lv inside, lv outside) {
    lv phi = LLVMBuildPhi(em->b, LLVMTypeOf(inside), "");
    LLVMAddIncoming(phi, (lv[]){inside, outside}, (LLVMBasicBlockRef[]){then_end, s->before}, 2);
    return phi;
}

/* ---- functions of the module ---- */

lv sn_em_function(sn_em *em, const char *name, LLVMTypeRef type, void (*body)(sn_em *em, const void *user),
                  const void *user) {
    lv fn = LLVMGetNamedFunction(em->mod, name);
    if (fn) return fn;
    fn = LLVMAddFunction(em->mod, name, type);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    unsigned noinline_kind = LLVMGetEnumAttributeKindForName("noinline", 8);
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(em->cg->cx, noinline_kind, 0));
    sn_em inner = {.cg = em->cg, .mod = em->mod, .b = LLVMCreateBuilderInContext(em->cg->cx), .fn = fn};
    LLVMPositionBuilderAtEnd(inner.b, sn_em_block(&inner, "entry"));
    body(&inner, user);
    LLVMDisposeBuilder(inner.b);
    return fn;
}
