/* math_rem.c: the remainders of a float division, exactly: rem is x - y floor(x/y) (Python's and PyTorch's %), fmod is
 * x - y trunc(x/y) (C's).
 *
 * With a small quotient one fma gives it, because x - q y is a float when q is the floor or next to it. With a large
 * one a function of the module does long division, one bit of the quotient a step, behind a branch.
 */
#include "codegen-llvm/math.h"

#include <math.h>

/* fmod(a, b) of a >= 0, b > 0, both finite: t = b doubled up to a, then halved back, subtracting where it fits. */
static void fmod_body(sn_em *em, const void *user) {
    (void)user;
    lv a = LLVMGetParam(em->fn, 0), b = LLVMGetParam(em->fn, 1);
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(em->b), up = sn_em_block(em, "up"), down = sn_em_block(em, "down"),
                      done = sn_em_block(em, "done");
    lv half = em_mulc(em, a, 0.5);
    LLVMBuildBr(em->b, up);

    LLVMPositionBuilderAtEnd(em->b, up);
    lv t = LLVMBuildPhi(em->b, type, "t"), twice = em_add(em, t, t);
    LLVMBuildCondBr(em->b, em_fcmp(em, LLVMRealOLE, t, half), up, down);
    LLVMAddIncoming(t, (lv[]){b, twice}, (LLVMBasicBlockRef[]){entry, up}, 2);

    LLVMPositionBuilderAtEnd(em->b, down);
    lv d = LLVMBuildPhi(em->b, type, "d"), r = LLVMBuildPhi(em->b, type, "r");
    lv less = em_select(em, em_fcmp(em, LLVMRealOGE, r, d), em_sub(em, r, d), r);
    lv next = em_mulc(em, d, 0.5);
    LLVMBuildCondBr(em->b, em_fcmp(em, LLVMRealOGT, d, b), down, done);
    LLVMAddIncoming(d, (lv[]){t, next}, (LLVMBasicBlockRef[]){up, down}, 2);
    LLVMAddIncoming(r, (lv[]){a, less}, (LLVMBasicBlockRef[]){up, down}, 2);

    LLVMPositionBuilderAtEnd(em->b, done);
    LLVMBuildRet(em->b, less);
}

static lv call_fmod(sn_em *em, lv a, lv b) {
    const char *name = sn_em_is64(a) ? "sn_fmod_f64" : "sn_fmod_f32";
    LLVMTypeRef t = LLVMTypeOf(a), type = LLVMFunctionType(t, (LLVMTypeRef[]){t, t}, 2, 0);
    return LLVMBuildCall2(em->b, type, sn_em_function(em, name, type, fmod_body, NULL), (lv[]){a, b}, 2, "");
}

/* r + y where r is not 0 and its sign is not that of y. */
static lv to_sign_of(sn_em *em, lv r, lv y) {
    lv differs =
        em_icmp(em, LLVMIntSLT, em_xor(em, sn_em_ibits(em, r), sn_em_ibits(em, y)), sn_em_i(em, sn_em_ibits(em, r), 0));
    lv fix = em_and(em, differs, em_fcmp(em, LLVMRealUNE, r, sn_em_f(em, r, 0)));
    return em_select(em, fix, em_add(em, r, y), r);
}

/* The rounded quotient is never below a whole number that the exact one reaches, so q may be one too large, never too
 * small: then r has the wrong sign. */
static lv small_quotient(sn_em *em, lv x, lv y, lv q) {
    lv r = to_sign_of(em, em_fma(em, em_neg(em, em_floor(em, q)), y, x), y);
    lv by_infinity = em_and(em, em_equals(em, em_abs(em, y), INFINITY), em_less(em, em_abs(em, x), INFINITY));
    return em_select(em, by_infinity, to_sign_of(em, x, y), r);
}

/* fmod likewise, of sizes: q one too large shows as r < 0. */
static lv small_fmod(sn_em *em, lv x, lv y, lv q) {
    lv a = em_abs(em, x), b = em_abs(em, y);
    lv r = em_fma(em, em_neg(em, em_floor(em, em_abs(em, q))), b, a);
    r = em_select(em, em_less(em, r, 0), em_add(em, r, b), r);
    lv by_infinity = em_and(em, em_equals(em, b, INFINITY), em_less(em, a, INFINITY));
    return em_copysign(em, em_select(em, by_infinity, a, r), x);
}

static lv large_quotient(sn_em *em, lv x, lv y, lv large, lv small, bool down) {
    lv out = LLVMGetPoison(LLVMTypeOf(x));
    for (uint32_t i = 0; i < sn_em_lanes(x); i++) {
        lv lane = sn_em_lane(em, large, i), a = sn_em_lane(em, x, i), b = sn_em_lane(em, y, i);
        lv one = sn_em_f(em, a, 1);
        lv r = call_fmod(em, em_select(em, lane, em_abs(em, a), one), em_select(em, lane, em_abs(em, b), one));
        r = em_copysign(em, r, a);
        out = sn_em_with_lane(em, out, i, down ? to_sign_of(em, r, b) : r);
    }
    return em_select(em, large, out, small);
}

static lv remainder_of(sn_em *em, lv x, lv y, bool down) {
    lv q = em_div(em, x, y), small = down ? small_quotient(em, x, y, q) : small_fmod(em, x, y, q);
    lv large = em_fcmp(em, LLVMRealOGE, em_abs(em, q), sn_em_f(em, x, sn_em_is64(x) ? 0x1p50 : 0x1p22));
    large = em_and(em, large,
                   em_and(em, em_less(em, em_abs(em, x), INFINITY), em_fcmp(em, LLVMRealONE, y, sn_em_f(em, y, 0))));
    sn_em_if branch = sn_em_then(em, sn_em_any(em, large), "long_division");
    lv exact = large_quotient(em, x, y, large, small, down);
    LLVMBasicBlockRef then_end = LLVMGetInsertBlock(em->b);
    sn_em_end(em, &branch);
    return sn_em_merge(em, &branch, then_end, exact, small);
}

lv sn_math_rem(sn_em *em, const lv *in) { return remainder_of(em, in[0], in[1], true); }
lv sn_math_fmod(sn_em *em, const lv *in) { return remainder_of(em, in[0], in[1], false); }
