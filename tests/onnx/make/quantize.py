"""QuantizeLinear and its kin, MatMulInteger, QLinearMatMul. Oracle: numpy; onnx.reference where no want is given."""

import ml_dtypes
import numpy as np

from family import F16, F32, scalar

ORACLE = "reference"


def make(family):
    def ri(lo, hi, *s, t=np.uint8):
        return family.integers(lo, hi, *s, dtype=t)

    A = ri(0, 256, 2, 3, 4)
    Bm = ri(-128, 128, 2, 4, 5, t=np.int8)
    family.case(
        "matmulinteger_cols", "MatMulInteger", [A, Bm[0], scalar(7, np.uint8), ri(-4, 4, 5, t=np.int8)], opset=10
    )
    az = ri(0, 9, 3)
    bz = ri(-4, 4, 5, t=np.int8)
    family.case(
        "matmulinteger_rows",
        "MatMulInteger",
        [A[0], Bm[0], az, bz],
        opset=10,
        want=[((A[0].astype(int) - az.astype(int)[:, None]) @ (Bm[0].astype(int) - bz.astype(int))).astype(np.int32)],
    )
    family.case(
        "matmulinteger_no_zero_point",
        "MatMulInteger",
        [A, Bm],
        opset=10,
        want=[(A.astype(int) @ Bm.astype(int)).astype(np.int32)],
    )
    family.case(
        "matmulinteger_1d",
        "MatMulInteger",
        [A[0, 0], Bm[0], np.array([3], np.uint8)],
        opset=10,
        want=[((A[0, 0].astype(int) - 3) @ Bm[0].astype(int)).astype(np.int32)],
    )
    as_ = family.rng.uniform(0.01, 0.02, 3).astype(F32)
    bs = family.rng.uniform(0.01, 0.02, 5).astype(F32)
    acc = (A[0].astype(int) - az.astype(int)[:, None]) @ (Bm[0].astype(int) - bz.astype(int))
    for nm, T2, z in [("u8", np.uint8, 100), ("i8", np.int8, -5)]:
        v = acc * (as_[:, None] * bs / F32(0.05))
        q = np.clip(np.rint(v) + z, np.iinfo(T2).min, np.iinfo(T2).max).astype(T2)
        family.case(
            "qlinearmatmul_" + nm,
            "QLinearMatMul",
            [A[0], as_, az, Bm[0], bs, bz, scalar(0.05, F32), np.array(z, T2)],
            opset=10,
            want=[q],
        )
    X = family.uniform(2, 3, 4) * 50
    for nm, o, ax, s in [("axis1", 13, 1, 3), ("axis_m1", 13, -1, 4), ("axis0", 13, 0, 2)]:
        sc = family.rng.uniform(0.3, 1, s).astype(F32)
        z = ri(90, 150, s)
        sh = [1, 1, 1]
        sh[ax] = s
        family.case(
            "quantizelinear_" + nm,
            "QuantizeLinear",
            [X, sc, z],
            opset=o,
            axis=ax,
            want=[np.clip(np.rint(X / sc.reshape(sh)) + z.reshape(sh), 0, 255).astype(np.uint8)],
        )
        Q = ri(0, 256, 2, 3, 4)
        family.case(
            "dequantizelinear_" + nm,
            "DequantizeLinear",
            [Q, sc, z],
            opset=o,
            axis=ax,
            want=[((Q.astype(np.int32) - z.reshape(sh).astype(np.int32)) * sc.reshape(sh)).astype(F32)],
        )
    ties = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1000, -1000, 126.5, 127.5], F32)
    family.case(
        "quantizelinear_ties",
        "QuantizeLinear",
        [ties, scalar(1, F32), scalar(0, np.int8)],
        opset=13,
        want=[np.clip(np.rint(ties), -128, 127).astype(np.int8)],
    )
    family.case(
        "quantizelinear_no_zero_point",
        "QuantizeLinear",
        [ties, scalar(1, F32)],
        opset=10,
        want=[np.clip(np.rint(ties), 0, 255).astype(np.uint8)],
    )
    v = ri(-300, 300, 7, t=np.int32)
    family.case(
        "quantizelinear_i32",
        "QuantizeLinear",
        [v, scalar(2, F32), scalar(3, np.int8)],
        opset=13,
        want=[np.clip(np.rint(v / 2) + 3, -128, 127).astype(np.int8)],
    )
    family.case(
        "quantizelinear_f16",
        "QuantizeLinear",
        [X.astype(F16), scalar(0.5, F16), scalar(3, np.int8)],
        opset=19,
        want=[np.clip(np.rint(X.astype(F16).astype(F32) / 0.5) + 3, -128, 127).astype(np.int8)],
    )
    family.case(
        "quantizelinear_i16",
        "QuantizeLinear",
        [X * 100, scalar(0.5, F32), scalar(3, np.int16)],
        opset=21,
        want=[np.clip(np.rint(X * 100 / F32(0.5)) + 3, -32768, 32767).astype(np.int16)],
    )
    family.case(
        "quantizelinear_u16",
        "QuantizeLinear",
        [X * 100, scalar(0.25, F32), scalar(300, np.uint16)],
        opset=21,
        want=[np.clip(np.rint(X * 100 / F32(0.25)) + 300, 0, 65535).astype(np.uint16)],
    )
    family.case(
        "quantizelinear_output_dtype",
        "QuantizeLinear",
        [X, scalar(0.5, F32)],
        opset=21,
        output_dtype=3,
        want=[np.clip(np.rint(X / F32(0.5)), -128, 127).astype(np.int8)],
    )
    family.case(
        "dequantizelinear_f16", "DequantizeLinear", [ri(0, 256, 2, 3), scalar(0.25, F16), scalar(4, np.uint8)], opset=19
    )
    v = ri(-99999, 99999, 2, 3, t=np.int32)
    family.case(
        "dequantizelinear_i32", "DequantizeLinear", [v, scalar(0.25, F32)], opset=13, want=[(v * 0.25).astype(F32)]
    )
    sc = family.rng.uniform(0.3, 1, (2, 2, 4)).astype(F32)
    X2 = family.uniform(2, 5, 4) * 50
    Sx = np.repeat(sc, 3, 1)[:, :5]
    z = ri(90, 150, 2, 2, 4)
    Zx = np.repeat(z, 3, 1)[:, :5]
    family.case(
        "quantizelinear_blocks",
        "QuantizeLinear",
        [X2, sc, z],
        opset=21,
        axis=1,
        block_size=3,
        want=[np.clip(np.rint(X2 / Sx) + Zx, 0, 255).astype(np.uint8)],
    )
    Q = ri(0, 256, 2, 5, 4)
    family.case(
        "dequantizelinear_blocks",
        "DequantizeLinear",
        [Q, sc, z],
        opset=21,
        axis=1,
        block_size=3,
        want=[((Q.astype(np.int32) - Zx) * Sx).astype(F32)],
    )
    family.case("dynamicquantizelinear", "DynamicQuantizeLinear", [family.uniform(3, 7)], outputs=3, opset=11)
    for name, dtype, low, high in [("int4", ml_dtypes.int4, -8, 8), ("uint4", ml_dtypes.uint4, 0, 16)]:
        w = ri(low, high, 5, 3, t=dtype)  # constants alone have 4 bits
        scale = family.uniform(5, low=0.1)
        zero = ri(low, high, 5, t=dtype)
        family.case(f"dequantizelinear_{name}", "DequantizeLinear", [w, scale, zero], opset=21, known=(0, 2), axis=0)
        scale = family.uniform(2, 3, low=0.1)
        want = [w.astype(F32) * np.repeat(scale, 3, 0)[:5]]
        blocks = {"axis": 0, "block_size": 3, "known": (0,), "want": want}
        family.case(f"dequantizelinear_{name}_blocks", "DequantizeLinear", [w, scale], opset=21, **blocks)
