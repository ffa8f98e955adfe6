"""Arithmetic on the columns of tables (ai.onnx.ml). Oracle: onnxruntime."""

import numpy as np

ORACLE = "runtime"


def make(family):
    def case(name, op, operands, **a):
        family.case(name, op, operands, 3, domain="ai.onnx.ml", **a)

    x = family.normal(5, 3)
    row = [float(v) for v in family.normal(3)]
    case("scaler", "Scaler", [x], offset=row, scale=[2.0, -1.0, 0.5])
    case("scaler_one", "Scaler", [x], offset=[0.5], scale=[3.0])
    case("binarizer", "Binarizer", [x], threshold=0.3)
    case("binarizer_zero", "Binarizer", [x])
    zeros = x.copy()
    zeros[2] = 0
    for norm in ("MAX", "L1", "L2"):
        case(f"normalizer_{norm}", "Normalizer", [np.abs(x)], norm=norm)
    case("normalizer_signs", "Normalizer", [x], norm="L2")
    case("normalizer_zeros", "Normalizer", [zeros], norm="L1")
    case("regressor", "LinearRegressor", [x], coefficients=row, intercepts=[0.7])
    w = [float(v) for v in family.normal(6)]
    case("regressor_targets", "LinearRegressor", [x], coefficients=w, intercepts=[0.7, -2.0], targets=2)
    case("regressor_bare", "LinearRegressor", [x], coefficients=w, targets=2)
    gaps = x.copy()
    gaps[1, 2] = gaps[3, 0] = np.nan
    case("imputer", "Imputer", [gaps], imputed_value_floats=row, replaced_value_float=float("nan"))
    gaps = np.where(np.isnan(gaps), np.float32(-1), gaps)
    case("imputer_number", "Imputer", [gaps], imputed_value_floats=[4.0], replaced_value_float=-1.0)
    wide = family.normal(4, 3, dtype=np.float64)
    wide[0, 1] = wide[2, 2] = np.nan
    case("imputer_f64", "Imputer", [wide], imputed_value_floats=row, replaced_value_float=float("nan"))
    wide = np.array([[1, 1 + 1e-12, 2], [2 - 1e-12, 1 / 3, 1]])  # the same numbers only as float32
    case("imputer_f64_close", "Imputer", [wide], imputed_value_floats=[0.1], replaced_value_float=1.0)
    big = np.array([[5, -1, 2**60 + 1], [-1, 7, 8], [0, 2**53 + 1, -1]], np.int64)
    case("imputer_ints", "Imputer", [big], imputed_value_int64s=[3, 2**55 + 1, -9], replaced_value_int64=-1)
    case("imputer_i32", "Imputer", [big[1:2].astype(np.int32)], imputed_value_int64s=[4], replaced_value_int64=7)
    for name, threshold in ("zero", 0.0), ("between", 0.7), ("below", -1.5), ("far", 1e30), ("least", -1e30):
        case(f"binarizer_ints_{name}", "Binarizer", [big], threshold=threshold)
    case("binarizer_i32", "Binarizer", [big[1:2].astype(np.int32)], threshold=7.25)
