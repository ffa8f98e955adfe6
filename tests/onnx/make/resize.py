"""Resize and Upsample. Oracle: onnx.reference's interpolation, with tf_half_pixel_for_nn, which it lacks, added."""

import onnx.reference.ops.op_resize as R
import numpy as np

from family import F16, F32, F64, scalar

ORACLE = "reference"

E = np.array([], F32)


def ref(x, mode="nearest", scales=None, sizes=None, roi=None, **a):
    op = R.Resize.__new__(R.Resize)
    d = dict(
        antialias=0,
        axes=None,
        coordinate_transformation_mode="half_pixel",
        cubic_coeff_a=-0.75,
        exclude_outside=0,
        extrapolation_value=0.0,
        keep_aspect_ratio_policy="stretch",
        nearest_mode="round_prefer_floor",
    )
    d.update(a)
    ctm = d["coordinate_transformation_mode"]
    if ctm == "tf_half_pixel_for_nn":
        orig = R._compute_x_ori
        R._compute_x_ori = lambda m, y, s, *r: ((y + 0.5) / s, None)
        y = op._run(x, roi, scales, sizes, mode=mode, **d)[0]
        R._compute_x_ori = orig
        return y
    return op._run(x, roi, scales, sizes, mode=mode, **d)[0]


def make(family):
    def rs(name, x, opset=19, scales=None, sizes=None, roi=None, mode="nearest", **a):
        sc = None if scales is None else scalar(scales, F32)
        sz = None if sizes is None else scalar(sizes, np.int64)
        ro = None if roi is None else scalar(roi, F32)
        y = ref(x, mode, sc, sz, ro, **a)
        ins = [x, ro, sc] + ([sz] if sz is not None else [])
        if opset < 13:
            ins = [x, E if ro is None else ro, E if sc is None else sc] + ([sz] if sz is not None else [])
        family.case(
            "resize_" + name, "Resize", ins, opset=opset, known=(1, 2, 3), want=[y.astype(x.dtype)], mode=mode, **a
        )

    X = family.uniform(1, 2, 5, 6)
    for ctm in [
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "half_pixel_symmetric",
        "tf_half_pixel_for_nn",
    ]:
        for mode in ["nearest", "linear", "cubic"]:
            rs(f"{mode}_{ctm}_up", X, sizes=[1, 2, 8, 13], mode=mode, coordinate_transformation_mode=ctm)
            rs(f"{mode}_{ctm}_down", X, scales=[1, 1, 0.6, 0.45], mode=mode, coordinate_transformation_mode=ctm)
            rs(
                f"{mode}_{ctm}_x2",
                X,
                scales=[1, 1, 2, 3],
                mode=mode,
                coordinate_transformation_mode=ctm,
                opset=11 if ctm != "half_pixel_symmetric" else 19,
            )
    for nm in ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]:
        for ctm in ["half_pixel", "asymmetric", "align_corners"]:
            rs(f"nearest_up_{nm}_{ctm}", X, sizes=[1, 2, 7, 9], nearest_mode=nm, coordinate_transformation_mode=ctm)
            rs(f"nearest_down_{nm}_{ctm}", X, sizes=[1, 2, 3, 2], nearest_mode=nm, coordinate_transformation_mode=ctm)
    rs("exclude_outside_cubic", X, sizes=[1, 2, 9, 4], mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5)
    rs("exclude_outside_linear", X, sizes=[1, 2, 9, 4], mode="linear", exclude_outside=1)
    for m in ["linear", "nearest", "cubic"]:
        rs(
            f"crop_{m}",
            X,
            sizes=[1, 2, 4, 5],
            roi=[0, 0, 0.2, -0.1, 1, 1, 0.9, 1.3],
            mode=m,
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=7.0,
        )
    rs(
        "crop_axes",
        X,
        sizes=[4, 5],
        roi=[0.2, 0.1, 1.2, 0.7],
        axes=[2, 3],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
    )
    rs("axes23", X, sizes=[9, 3], axes=[2, 3], mode="linear")
    rs("axes_scales", X, scales=[2.0, 0.5], axes=[2, 3], mode="cubic")
    for p in ["not_larger", "not_smaller"]:
        rs("keep_aspect_linear_" + p, X, sizes=[7, 8], axes=[2, 3], mode="linear", keep_aspect_ratio_policy=p)
        rs("keep_aspect_nearest_" + p, X, sizes=[7, 8], axes=[2, 3], keep_aspect_ratio_policy=p)
    for m in ["linear", "cubic"]:
        rs("antialias_" + m, family.uniform(1, 1, 12, 11), sizes=[1, 1, 4, 5], mode=m, antialias=1)
        rs("antialias_up_and_down_" + m, X, sizes=[1, 2, 7, 3], mode=m, antialias=1)
        rs("antialias_scales_" + m, family.uniform(1, 1, 12, 11), scales=[1, 1, 0.3, 0.6], mode=m, antialias=1)
        rs(
            "antialias_exclude_outside_" + m,
            family.uniform(1, 1, 12, 11),
            scales=[1, 1, 0.3, 0.6],
            mode=m,
            antialias=1,
            exclude_outside=1,
        )
    rs("1d", family.uniform(2, 3, 7), sizes=[2, 3, 10], mode="linear")
    rs("3d", family.uniform(1, 2, 3, 4, 5), sizes=[1, 2, 5, 6, 3], mode="linear")
    rs("3d_nearest", family.uniform(1, 2, 3, 4, 5), scales=[1, 1, 2, 2, 2])
    rs("u8", family.rng.integers(0, 256, (1, 1, 4, 5)).astype(np.uint8), sizes=[1, 1, 7, 8], mode="linear")
    rs("u8_nearest", family.rng.integers(0, 256, (1, 1, 4, 5)).astype(np.uint8), sizes=[1, 1, 7, 8])
    rs("f16", X.astype(F16), sizes=[1, 2, 8, 9], mode="linear")
    rs("f64", X.astype(F64), sizes=[1, 2, 8, 9], mode="cubic")
    rs("nhwc", family.uniform(1, 4, 5, 3), sizes=[1, 8, 7, 3], mode="linear")
    family.case(
        "resize_opset10",
        "Resize",
        [X, np.array([1, 1, 2, 3], F32)],
        opset=10,
        known=(1,),
        want=[X.repeat(2, 2).repeat(3, 3)],
    )
    family.case(
        "resize_opset10_linear",
        "Resize",
        [X, np.array([1, 1, 2, 1.5], F32)],
        opset=10,
        known=(1,),
        mode="linear",
        want=[ref(X, "linear", np.array([1, 1, 2, 1.5]), coordinate_transformation_mode="asymmetric")],
    )
    x9 = family.uniform(1, 1, 9, 4)
    family.case(
        "resize_opset10_third",
        "Resize",
        [x9, np.array([1, 1, 1 / 3, 0.5], F32)],
        opset=10,
        known=(1,),
        want=[x9[:, :, ::3, ::2]],
    )
    family.case(
        "upsample_opset7", "Upsample", [X], opset=7, scales=[1.0, 1.0, 2.0, 2.0], want=[X.repeat(2, 2).repeat(2, 3)]
    )
    family.case(
        "upsample_opset7_linear",
        "Upsample",
        [X],
        opset=7,
        scales=[1.0, 1.0, 2.0, 2.0],
        mode="linear",
        want=[ref(X, "linear", np.array([1, 1, 2, 2.0]), coordinate_transformation_mode="asymmetric")],
    )
    family.case(
        "upsample_opset9",
        "Upsample",
        [X, np.array([1, 1, 2, 1.5], F32)],
        opset=9,
        known=(1,),
        want=[
            ref(
                X,
                "nearest",
                np.array([1, 1, 2, 1.5]),
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
        ],
    )
