/* emit.h: building LLVM instructions on scalars and vectors alike.
 *
 * A value is a scalar or an LLVM vector. The helpers take operands of equal shape; sn_em_unify makes them so. Nothing
 * here sets fast-math flags except em_contract: expansions (math_*.c) depend on exact rounding.
 */
#ifndef SN_CODEGEN_LLVM_EMIT_H
#define SN_CODEGEN_LLVM_EMIT_H

#include "codegen-llvm/llvm.h"

typedef struct sn_em {
    sn_cg *cg;
    LLVMModuleRef mod;
    LLVMBuilderRef b;
    LLVMValueRef fn; /* function under construction */
    bool calls;      /* long operations become calls of functions that the module makes once */
    bool stays;      /* the last operand of the value under construction is that of several iterations (GPU) */
    bool middle;     /* ... and it is neither large nor small */
    bool coarse;     /* the value under construction ends as a half: 17 good bits do (GPU) */
    bool blunt;      /* ... and it is added to a number: an error of 2^-18 does (GPU) */
    bool term;       /* it is a term of a sum that has terms of about 1 (GPU) */
} sn_em;

typedef LLVMValueRef lv; /* short, because expansions are formulas */

/* ---- shapes (emit.c) ---- */
uint32_t sn_em_lanes(lv x);   /* 1 for a scalar */
LLVMTypeRef sn_em_elem(lv x); /* type of a lane */
LLVMTypeRef sn_em_shape(LLVMTypeRef elem, uint32_t lanes);
LLVMTypeRef sn_em_like(lv x, LLVMTypeRef elem);  /* elem in the shape of x */
lv sn_em_splat(sn_em *em, lv x, uint32_t lanes); /* scalar to vector; a vector or lanes == 1: x itself */
void sn_em_unify(sn_em *em, lv *x, uint32_t n);  /* splat the scalars when any is a vector */
lv sn_em_lane(sn_em *em, lv x, uint32_t lane);   /* a scalar: x itself */
lv sn_em_with_lane(sn_em *em, lv vector, uint32_t lane, lv x);
/* Of two vectors; from[i] counts through the lanes of x, then those of y. */
lv sn_em_shuffle(sn_em *em, lv x, lv y, const uint32_t *from, uint32_t n);
lv sn_em_slice(sn_em *em, lv x, uint32_t first, uint32_t n); /* lanes first .. first+n-1 (a scalar when n == 1) */
lv sn_em_reverse(sn_em *em, lv x);                           /* the last lane first */
lv sn_em_join(sn_em *em, lv x, lv y);                        /* lanes of x, then lanes of y */

/* ---- constants in the shape of another value ---- */
lv sn_em_f(sn_em *em, lv like, double x);  /* like: float */
lv sn_em_i(sn_em *em, lv like, int64_t x); /* like: integer */
lv sn_em_ci(LLVMTypeRef type, int64_t x);

/* ---- instructions that need more than one call ---- */
lv sn_em_call(sn_em *em, const char *intrinsic, LLVMTypeRef overload, lv *args, uint32_t n);
/* Inline assembly with side effects. */
lv sn_em_assembly(sn_em *em, LLVMTypeRef result, const char *text, const char *constraints, lv *args, uint32_t n);
/* A variable of the module: in shared memory (space 3) undefined, elsewhere zero. */
lv sn_em_global(sn_em *em, const char *name, LLVMTypeRef type, unsigned space, unsigned align);
lv sn_em_poly(sn_em *em, lv x, const double *c, uint32_t n); /* c[0] + c[1] x + ... by fma */
lv sn_em_fmin(sn_em *em, lv x, lv y);                        /* nan if either is */
lv sn_em_fmax(sn_em *em, lv x, lv y);
lv sn_em_rcp(sn_em *em, lv x);    /* 1/x to 1 ulp, x normal; not for results that must be exact */
bool sn_em_is64(lv x);            /* lanes of 64 bits */
lv sn_em_ibits(sn_em *em, lv x);  /* float to the integer of the same width */
lv sn_em_fbits(sn_em *em, lv x);  /* and back */
lv sn_em_any(sn_em *em, lv mask); /* does any lane hold? */
/* x where c holds, else y. GPU: one condition for all lanes of bytes chooses between words. */
lv sn_em_choose(sn_em *em, lv c, lv x, lv y);
/* Code that runs only if `cond` (a scalar i1): between sn_em_then and sn_em_end. */
typedef struct sn_em_if {
    LLVMBasicBlockRef before, then, after;
} sn_em_if;
sn_em_if sn_em_then(sn_em *em, lv cond, const char *name);
void sn_em_end(sn_em *em, sn_em_if *s);
/* After sn_em_end: `inside` if the code ran, else `outside`. `then_end` is the last block of the inside. */
lv sn_em_merge(sn_em *em, const sn_em_if *s, LLVMBasicBlockRef then_end, lv inside, lv outside);
LLVMBasicBlockRef sn_em_block(sn_em *em, const char *name);
/* The function of that name in the module, made by `body` at first use: internal, never inlined (for long, cold
 * code). */
lv sn_em_function(sn_em *em, const char *name, LLVMTypeRef type, void (*body)(sn_em *em, const void *user),
                  const void *user);

/* ---- one instruction each, or none where a test is a constant ---- */
static inline bool em_is(lv test, bool answer) {
    LLVMTypeRef t = LLVMTypeOf(test);
    bool is_bit = LLVMGetTypeKind(t) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(t) == 1;
    return is_bit && LLVMIsAConstantInt(test) && LLVMConstIntGetZExtValue(test) == answer;
}
static inline lv em_contract(lv x) {
    if (LLVMCanValueUseFastMathFlags(x)) LLVMSetFastMathFlags(x, LLVMFastMathAllowContract);
    return x;
}
static inline lv em_add(sn_em *em, lv x, lv y) { return LLVMBuildFAdd(em->b, x, y, ""); }
static inline lv em_sub(sn_em *em, lv x, lv y) { return LLVMBuildFSub(em->b, x, y, ""); }
static inline lv em_mul(sn_em *em, lv x, lv y) { return LLVMBuildFMul(em->b, x, y, ""); }
static inline lv em_div(sn_em *em, lv x, lv y) { return LLVMBuildFDiv(em->b, x, y, ""); }
static inline lv em_neg(sn_em *em, lv x) { return LLVMBuildFNeg(em->b, x, ""); }
static inline lv em_select(sn_em *em, lv c, lv x, lv y) {
    return em_is(c, true) ? x : em_is(c, false) ? y : LLVMBuildSelect(em->b, c, x, y, "");
}
static inline lv em_fcmp(sn_em *em, LLVMRealPredicate p, lv x, lv y) { return LLVMBuildFCmp(em->b, p, x, y, ""); }
static inline lv em_icmp(sn_em *em, LLVMIntPredicate p, lv x, lv y) { return LLVMBuildICmp(em->b, p, x, y, ""); }
static inline lv em_iadd(sn_em *em, lv x, lv y) { return LLVMBuildAdd(em->b, x, y, ""); }
static inline lv em_isub(sn_em *em, lv x, lv y) { return LLVMBuildSub(em->b, x, y, ""); }
static inline lv em_imul(sn_em *em, lv x, lv y) { return LLVMBuildMul(em->b, x, y, ""); }
static inline lv em_and(sn_em *em, lv x, lv y) {
    return em_is(x, true) ? y : em_is(y, true) ? x : LLVMBuildAnd(em->b, x, y, "");
}
static inline lv em_or(sn_em *em, lv x, lv y) { return LLVMBuildOr(em->b, x, y, ""); }
static inline lv em_xor(sn_em *em, lv x, lv y) { return LLVMBuildXor(em->b, x, y, ""); }
static inline lv em_shl(sn_em *em, lv x, lv y) { return LLVMBuildShl(em->b, x, y, ""); }
static inline lv em_lshr(sn_em *em, lv x, lv y) { return LLVMBuildLShr(em->b, x, y, ""); }
static inline lv em_ashr(sn_em *em, lv x, lv y) { return LLVMBuildAShr(em->b, x, y, ""); }
static inline lv em_bitcast(sn_em *em, lv x, LLVMTypeRef t) { return LLVMBuildBitCast(em->b, x, t, ""); }
static inline lv em_call1(sn_em *em, const char *name, lv x) { return sn_em_call(em, name, LLVMTypeOf(x), &x, 1); }
static inline lv em_call2(sn_em *em, const char *name, lv x, lv y) {
    return sn_em_call(em, name, LLVMTypeOf(x), (lv[]){x, y}, 2);
}
static inline lv em_abs(sn_em *em, lv x) { return em_call1(em, "llvm.fabs", x); }
static inline lv em_floor(sn_em *em, lv x) { return em_call1(em, "llvm.floor", x); }
static inline lv em_trunc(sn_em *em, lv x) { return em_call1(em, "llvm.trunc", x); }
static inline lv em_rint(sn_em *em, lv x) { return em_call1(em, "llvm.roundeven", x); }
static inline lv em_copysign(sn_em *em, lv x, lv y) { return em_call2(em, "llvm.copysign", x, y); }
static inline lv em_fma(sn_em *em, lv x, lv y, lv z) {
    return sn_em_call(em, "llvm.fma", LLVMTypeOf(x), (lv[]){x, y, z}, 3);
}
/* x * c + z and x * c with a literal. */
static inline lv em_fmac(sn_em *em, lv x, double c, lv z) { return em_fma(em, x, sn_em_f(em, x, c), z); }
static inline lv em_mulc(sn_em *em, lv x, double c) { return em_mul(em, x, sn_em_f(em, x, c)); }
static inline lv em_addc(sn_em *em, lv x, double c) { return em_add(em, x, sn_em_f(em, x, c)); }
static inline lv em_less(sn_em *em, lv x, double c) { return em_fcmp(em, LLVMRealOLT, x, sn_em_f(em, x, c)); }
static inline lv em_more(sn_em *em, lv x, double c) { return em_fcmp(em, LLVMRealOGT, x, sn_em_f(em, x, c)); }
static inline lv em_equals(sn_em *em, lv x, double c) { return em_fcmp(em, LLVMRealOEQ, x, sn_em_f(em, x, c)); }

#endif
