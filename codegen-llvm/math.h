/* math.h: scalar operations of Loop IR as LLVM instructions. Operands may be scalars or vectors of equal shape.
 */
#ifndef SN_CODEGEN_LLVM_MATH_H
#define SN_CODEGEN_LLVM_MATH_H

#include "codegen-llvm/emit.h"

/* ---- types (convert.c) ---- */
/* How a value of the dtype travels: bool as i1, 16-bit floats as i16 where the machine does not know them. */
LLVMTypeRef sn_math_type(const sn_cg *cg, sn_dtype t);
/* How it lies in memory: as it travels, but bool as i8. */
LLVMTypeRef sn_math_storage(const sn_cg *cg, sn_dtype t);
lv sn_math_from_storage(sn_em *em, sn_dtype t, lv x);
lv sn_math_to_storage(sn_em *em, sn_dtype t, lv x);
lv sn_math_cast(sn_em *em, sn_dtype to, sn_dtype from, lv x);
lv sn_math_bitcast(sn_em *em, sn_dtype to, sn_dtype from, lv x);
lv sn_math_const(sn_em *em, sn_dtype t, double f, int64_t i);

/* ---- operations (math.c) ---- */
/* Any operation below SN_N_LOPS on operands of the dtype (SELECT: dtype of operands 1 and 2). */
lv sn_math_op(sn_em *em, sn_lop op, sn_dtype t, lv *in, uint32_t n);
/* Error bound of a float operation in ULP, from lowering.def; negative when the table has no row. */
double sn_math_bound(sn_lop op, sn_dtype t);
lv sn_math_int_op(sn_em *em, sn_lop op, sn_dtype t, const lv *in); /* math_int.c */

#define SN_LOWER(LOP, function, ulp32, ulp64, size, doc) lv sn_math_##function(sn_em *em, const lv *in);
#include "codegen-llvm/lowering.def"
#undef SN_LOWER

/* ---- parts that several expansions use ---- */
/* An NVPTX intrinsic of f32 that exists on scalars only, lane by lane. */
lv sn_math_by_lane(sn_em *em, const char *intrinsic, const lv *in, uint32_t n);
/* x = 2^k m, k as a float, m in sqrt(1/2) .. sqrt(2); x positive and finite (anything else gives some number). */
typedef struct sn_math_parts {
    lv k, m;
} sn_math_parts;
sn_math_parts sn_math_split(sn_em *em, lv x);
/* What brings a number of that size (>= 0) to the middle of the range: 1/step above limit, step below 1/limit, else 1. */
lv sn_math_scale_to_middle(sn_em *em, lv size, double limit, double step);
/* As sn_em_rcp, but where 1/x would be subnormal it may be 0: one instruction on GPUs instead of five. */
lv sn_math_rcp_normal(sn_em *em, lv x);
/* e^x as a term of a sum that has terms of about 1: f32 is good to 2 + |x| units, and below e^-87 it may be 0. */
lv sn_math_exp_term(sn_em *em, lv x);
/* e^-|x| as such a term, f64 on GPUs; a nan counts as inf. */
lv sn_math_exp_apart(sn_em *em, lv x);
/* e^x / y, f32 on GPUs, to 17 bits; y is not below 0. */
lv sn_math_exp_over(sn_em *em, lv x, lv y);
/* log(1 + x), or log(2 (1 + x)) in lanes that `twice` holds. */
lv sn_math_log1p_twice(sn_em *em, lv x, lv twice);
/* x with the sign of y: a f32 that has none yet. One instruction, copysign is three. */
lv sn_math_give_sign(sn_em *em, lv x, lv y);
lv sn_math_exp2_small(sn_em *em, lv x);    /* 2^x, f32, |x| < 160 */
lv sn_math_exp2_moderate(sn_em *em, lv x); /* 2^x, -126 <= x <= 127, no nan */
lv sn_math_exp_bounded(sn_em *em, lv x);   /* e^x, x within the range where nothing but underflow happens */
lv sn_math_exp_half(sn_em *em, lv x);      /* e^x / 2, x >= 0: a number also where e^x is inf */
lv sn_math_scale2(sn_em *em, lv x, lv n);  /* x * 2^n, n integer of the width of x, |n| < twice the exponent range */
lv sn_math_expm1_poly(sn_em *em, lv r);    /* e^r - 1, |r| < 0.35 */

#endif
