"""MatMul, Gemm, Einsum, Det. Oracle: numpy; onnx.reference for some of Gemm."""

import numpy as np

from family import F16, F32, F64

ORACLE = "reference"


def make(family):
    def mm(name, a, b, op=13):
        family.case("matmul_" + name, "MatMul", [a, b], opset=op, want=[np.matmul(a, b)])

    mm("1d1d", family.uniform(5), family.uniform(5))
    mm("1d2d", family.uniform(5), family.uniform(5, 3))
    mm("2d1d", family.uniform(4, 5), family.uniform(5))
    mm("broadcast", family.uniform(2, 1, 3, 4), family.uniform(5, 4, 2))
    mm("3d1d", family.uniform(2, 3, 4), family.uniform(4))
    mm("i32", family.rng.integers(-9, 9, (3, 4)).astype(np.int32), family.rng.integers(-9, 9, (4, 2)).astype(np.int32))
    mm("i64", family.rng.integers(-9, 9, (3, 4)).astype(np.int64), family.rng.integers(-9, 9, (4, 2)).astype(np.int64))
    mm("f64", family.uniform(3, 4).astype(F64), family.uniform(4, 2).astype(F64))
    A = family.uniform(3, 4)
    B = family.uniform(4, 5)
    for nm, C in dict(
        bias_row=family.uniform(5),
        bias_1x5=family.uniform(1, 5),
        bias_column=family.uniform(3, 1),
        bias_one=family.uniform(1),
        bias_scalar=family.uniform(),
    ).items():
        family.case("gemm_" + nm, "Gemm", [A, B, C], opset=13, want=[0.5 * A @ B + 2 * C], alpha=0.5, beta=2.0)
    family.case(
        "gemm_both_transposed", "Gemm", [A.T.copy(), B.T.copy(), family.uniform(3, 5)], opset=11, transA=1, transB=1
    )
    family.case("gemm_beta0", "Gemm", [A, B, np.full((5,), np.nan, F32)], opset=11, beta=0.0, want=[A @ B])
    family.case("gemm_f16", "Gemm", [A.astype(F16), B.astype(F16), family.uniform(5).astype(F16)], opset=13, alpha=0.25)
    family.case("gemm_opset6_broadcast", "Gemm", [A, B, family.uniform(5)], opset=6, broadcast=1)
    family.case(
        "gemm_i32",
        "Gemm",
        [family.rng.integers(-9, 9, (3, 4)).astype(np.int32), family.rng.integers(-9, 9, (4, 2)).astype(np.int32)],
        opset=13,
    )

    def es(name, eq, *xs):
        family.case(
            "einsum_" + name,
            "Einsum",
            list(xs),
            opset=12,
            equation=eq,
            want=[np.asarray(np.einsum(eq.replace(" ", ""), *xs)).astype(xs[0].dtype)],
        )

    es("trace", "ii", family.uniform(4, 4))
    es("diag", "ii->i", family.uniform(4, 4))
    es("diag3", "iii->i", family.uniform(3, 3, 3))
    es("diag_mid", "bibj->jbi", family.uniform(3, 4, 3, 2))
    es("implicit", "ij,jk", family.uniform(3, 4), family.uniform(4, 2))
    es("implicit_t", "ba", family.uniform(3, 4))
    es("outer", "i,j->ij", family.uniform(3), family.uniform(4))
    es("outer_t", "i,j->ji", family.uniform(3), family.uniform(4))
    es("attention_scores", "bhid,bhjd->bhij", family.uniform(2, 3, 4, 5), family.uniform(2, 3, 6, 5))
    es("attention_values", "bhij,bhjd->bihd", family.uniform(2, 3, 4, 6), family.uniform(2, 3, 6, 5))
    es("ellipsis_broadcast", "...ij,...jk->...ik", family.uniform(2, 3, 4), family.uniform(5, 1, 4, 2))
    es("ellipsis_alone", "...->...", family.uniform(2, 3))
    es("ellipsis_sum", "i...->...", family.uniform(3, 4, 5))
    es("ellipsis_implicit", "...ij", family.uniform(2, 3, 4))
    es("ellipsis_of_nothing", "...ij,jk->...ik", family.uniform(3, 4), family.uniform(4, 2))
    es("three", "ij,jk,kl->il", family.uniform(3, 4), family.uniform(4, 5), family.uniform(5, 2))
    es("three_elementwise", "ij,ij,ij->i", family.uniform(3, 4), family.uniform(3, 4), family.uniform(3, 4))
    es("sumall", "ijk->", family.uniform(2, 3, 4))
    es("onlyone", "ij,k->i", family.uniform(3, 4), family.uniform(5))
    family.case("einsum_spaces", "Einsum", [A, B], opset=12, equation=" i j , j k -> k i ", want=[(A @ B).T])
    es("sum_over_one", "ij,jk->ik", family.uniform(3, 1), family.uniform(4, 2))
    es("scalar", ",ij->ji", family.uniform(), family.uniform(3, 4))
    es(
        "i32",
        "ij,jk->ik",
        family.rng.integers(-9, 9, (3, 4)).astype(np.int32),
        family.rng.integers(-9, 9, (4, 2)).astype(np.int32),
    )
    es("i32_one_operand", "ij->j", family.rng.integers(-9, 9, (3, 4)).astype(np.int32))
    es("upper_case", "aB,Bc", family.uniform(3, 4), family.uniform(4, 2))
    es("seven_letters", "abcdefg,aceg->bdf", family.uniform(2, 3, 2, 3, 2, 3, 2), family.uniform(2, 2, 2, 2))
    es("two_letters_summed", "abcd,cdef->abef", family.uniform(2, 3, 4, 5), family.uniform(4, 5, 2, 3))
    es("bilinear", "bn,anm,bm->ba", family.uniform(2, 3), family.uniform(5, 3, 4), family.uniform(2, 4))

    def det(name, x):
        family.case("det_" + name, "Det", [x], opset=11, want=[np.linalg.det(x).astype(x.dtype)])

    det("1", family.uniform(2, 1, 1))
    det("2", family.uniform(2, 2))
    det("5", family.uniform(3, 2, 5, 5))
    det("9", family.uniform(9, 9))
    det("pivots", np.array([[0, 1, 2], [1, 0, 3], [4, 5, 0]], F32))
    det("singular", np.array([[0, 1, 2], [0, 4, 3], [0, 5, 0]], F32))
    det("f64", family.uniform(4, 6, 6).astype(F64))
