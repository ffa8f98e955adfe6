"""Conv, ConvTranspose, ConvInteger, QLinearConv. Oracle: numpy, as sums over the taps of the kernel in float64."""

import itertools

import numpy as np

from family import F16, F32, F64, scalar

ORACLE = "reference"


def ref_conv(x, w, b, stride, dil, pads, group):
    n = x.ndim - 2
    lo, hi = pads[:n], pads[n:]
    sl = [slice(None)] * 2 + [slice(max(0, -l), x.shape[2 + k] - max(0, -h)) for k, (l, h) in enumerate(zip(lo, hi))]
    x = np.pad(x[tuple(sl)].astype(F64), [(0, 0), (0, 0)] + [(max(0, l), max(0, h)) for l, h in zip(lo, hi)])
    K = w.shape[2:]
    o = [(x.shape[2 + k] - (K[k] - 1) * dil[k] - 1) // stride[k] + 1 for k in range(n)]
    N, C = x.shape[:2]
    O = w.shape[0]
    y = np.zeros([N, O] + o)
    cg = w.shape[1]
    og = O // group
    for g in range(group):
        for t in itertools.product(*map(range, K)):
            s = tuple(
                [slice(None), slice(g * cg, (g + 1) * cg)]
                + [slice(t[k] * dil[k], t[k] * dil[k] + (o[k] - 1) * stride[k] + 1, stride[k]) for k in range(n)]
            )
            y[:, g * og : (g + 1) * og] += np.einsum(
                "nc...,oc->no...", x[s], w[(slice(g * og, (g + 1) * og), slice(None)) + t].astype(F64)
            )
    if b is not None:
        y += b.astype(F64).reshape([1, -1] + [1] * n)
    return y


def ref_convt(x, w, b, stride, dil, pads, op, group, outshape=None, auto="NOTSET"):
    n = x.ndim - 2
    K = w.shape[2:]
    I = x.shape[2:]
    N, C = x.shape[:2]
    mg = w.shape[1]
    M = mg * group
    cg = C // group
    if outshape is None and auto.startswith("SAME"):
        outshape = [I[k] * stride[k] for k in range(n)]
    lo, hi = list(pads[:n]), list(pads[n:])
    if outshape is not None:
        for k in range(n):
            tot = stride[k] * (I[k] - 1) + op[k] + (K[k] - 1) * dil[k] + 1 - outshape[k]
            a = tot // 2 if auto == "SAME_UPPER" else tot - tot // 2
            if tot < 0:
                a = 0
            lo[k], hi[k] = a, tot - a
    full = [stride[k] * (I[k] - 1) + op[k] + (K[k] - 1) * dil[k] + 1 for k in range(n)]
    full2 = [max(f, f - h) for f, h in zip(full, hi)]
    y = np.zeros([N, M] + full2)
    for g in range(group):
        for t in itertools.product(*map(range, K)):
            s = tuple(
                [slice(None), slice(g * mg, (g + 1) * mg)]
                + [slice(t[k] * dil[k], t[k] * dil[k] + (I[k] - 1) * stride[k] + 1, stride[k]) for k in range(n)]
            )
            y[s] += np.einsum(
                "nc...,cm->nm...",
                x[:, g * cg : (g + 1) * cg].astype(F64),
                w[(slice(g * cg, (g + 1) * cg), slice(None)) + t].astype(F64),
            )
    y = y[tuple([slice(None)] * 2 + [slice(lo[k], full[k] - hi[k]) for k in range(n)])]
    if b is not None:
        y += b.astype(F64).reshape([1, -1] + [1] * n)
    return y


def make(family):
    def conv(name, x, w, b=None, op=11, **a):
        n = x.ndim - 2
        auto = a.get("auto_pad", "NOTSET")
        st = a.get("strides", [1] * n)
        dl = a.get("dilations", [1] * n)
        pads = a.get("pads", [0] * 2 * n)
        if auto == "VALID":
            pads = [0] * 2 * n
        if auto.startswith("SAME"):
            pads = [0] * 2 * n
            for k in range(n):
                p = max(
                    0, (-(-x.shape[2 + k] // st[k]) - 1) * st[k] + (w.shape[2 + k] - 1) * dl[k] + 1 - x.shape[2 + k]
                )
                l = (p + 1) // 2 if auto == "SAME_LOWER" else p // 2
                pads[k], pads[n + k] = l, p - l
        family.case(
            "conv_" + name,
            "Conv",
            [x, w] + ([b] if b is not None else []),
            opset=op,
            known=(1, 2),
            want=[ref_conv(x, w, b, st, dl, pads, a.get("group", 1)).astype(x.dtype)],
            **a,
        )

    conv("1d", family.uniform(2, 3, 9), family.uniform(4, 3, 3), family.uniform(4), pads=[1, 2], strides=[2])
    conv("1d_groups", family.uniform(2, 4, 9), family.uniform(6, 2, 3), group=2, dilations=[2])
    conv(
        "1d_same",
        family.uniform(2, 3, 10),
        family.uniform(4, 3, 4),
        family.uniform(4),
        auto_pad="SAME_LOWER",
        strides=[3],
    )
    conv(
        "2d_asymmetric_pads",
        family.uniform(2, 3, 7, 8),
        family.uniform(4, 3, 3, 2),
        family.uniform(4),
        pads=[1, 0, 2, 3],
        strides=[2, 1],
        dilations=[1, 2],
    )
    conv(
        "2d_depthwise",
        family.uniform(2, 4, 7, 8),
        family.uniform(8, 1, 3, 3),
        family.uniform(8),
        group=4,
        pads=[1, 1, 1, 1],
    )
    for a in ["SAME_UPPER", "SAME_LOWER", "VALID"]:
        conv(
            "2d_" + a,
            family.uniform(1, 2, 7, 8),
            family.uniform(3, 2, 4, 3),
            auto_pad=a,
            strides=[2, 3],
            dilations=[1, 2],
        )
    conv("2d_negative_pads", family.uniform(1, 2, 7, 8), family.uniform(3, 2, 3, 3), pads=[-1, 0, 1, -2])
    conv(
        "2d_f16",
        family.uniform(1, 2, 7, 8).astype(F16),
        family.uniform(3, 2, 3, 3).astype(F16),
        family.uniform(3).astype(F16),
    )
    conv("2d_f64", family.uniform(1, 2, 7, 8).astype(F64), family.uniform(3, 2, 3, 3).astype(F64))
    conv(
        "3d",
        family.uniform(2, 2, 5, 6, 7),
        family.uniform(3, 2, 2, 3, 2),
        family.uniform(3),
        pads=[1, 0, 1, 0, 2, 1],
        strides=[2, 1, 2],
        dilations=[1, 2, 1],
    )
    conv("3d_groups", family.uniform(1, 4, 5, 6, 7), family.uniform(6, 2, 2, 2, 2), group=2)
    conv(
        "3d_depthwise",
        family.uniform(1, 3, 5, 6, 7),
        family.uniform(3, 1, 3, 3, 3),
        family.uniform(3),
        group=3,
        auto_pad="SAME_UPPER",
        strides=[2, 2, 2],
    )
    conv(
        "4d",
        family.uniform(1, 2, 3, 4, 5, 4),
        family.uniform(2, 2, 2, 2, 2, 2),
        family.uniform(2),
        strides=[1, 2, 1, 2],
    )

    def convt(name, x, w, b=None, op=11, **a):
        n = x.ndim - 2
        st = a.get("strides", [1] * n)
        dl = a.get("dilations", [1] * n)
        pads = a.get("pads", [0] * 2 * n)
        family.case(
            "convtranspose_" + name,
            "ConvTranspose",
            [x, w] + ([b] if b is not None else []),
            opset=op,
            known=(1, 2),
            want=[
                ref_convt(
                    x,
                    w,
                    b,
                    st,
                    dl,
                    pads,
                    a.get("output_padding", [0] * n),
                    a.get("group", 1),
                    a.get("output_shape"),
                    a.get("auto_pad", "NOTSET"),
                ).astype(x.dtype)
            ],
            **a,
        )

    convt(
        "stride_1",
        family.uniform(2, 3, 5, 6),
        family.uniform(3, 4, 3, 2),
        family.uniform(4),
        pads=[1, 0, 1, 1],
        dilations=[2, 1],
    )
    convt(
        "stride_2",
        family.uniform(2, 3, 5, 6),
        family.uniform(3, 4, 4, 4),
        family.uniform(4),
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    )
    convt(
        "strides_2_3",
        family.uniform(2, 3, 5, 6),
        family.uniform(3, 4, 3, 5),
        strides=[2, 3],
        pads=[0, 1, 2, 1],
        output_padding=[1, 2],
    )
    convt("groups", family.uniform(2, 4, 5, 6), family.uniform(4, 3, 3, 3), family.uniform(6), strides=[2, 2], group=2)
    convt(
        "depthwise", family.uniform(1, 4, 5, 6), family.uniform(4, 1, 4, 4), strides=[2, 2], group=4, pads=[1, 1, 1, 1]
    )
    convt(
        "dilations",
        family.uniform(1, 2, 4, 5),
        family.uniform(2, 3, 3, 2),
        strides=[2, 3],
        dilations=[2, 3],
        pads=[1, 1, 0, 2],
    )
    convt("small_k", family.uniform(1, 2, 4, 5), family.uniform(2, 3, 1, 1), strides=[3, 2])
    convt("k2s2", family.uniform(1, 2, 4, 5), family.uniform(2, 3, 2, 2), family.uniform(3), strides=[2, 2])
    convt("1d", family.uniform(2, 3, 5), family.uniform(3, 2, 4), family.uniform(2), strides=[3], output_padding=[2])
    convt(
        "3d",
        family.uniform(1, 4, 3, 4, 2),
        family.uniform(4, 2, 3, 2, 3),
        family.uniform(4),
        strides=[2, 1, 3],
        group=2,
        pads=[1, 0, 0, 0, 1, 1],
    )
    convt("3d_stride_1", family.uniform(1, 2, 3, 4, 2), family.uniform(2, 2, 3, 2, 3), dilations=[1, 2, 1])
    for a in ["SAME_UPPER", "SAME_LOWER", "VALID"]:
        convt(a, family.uniform(1, 2, 4, 5), family.uniform(2, 3, 3, 4), auto_pad=a, strides=[2, 3])
    convt("SAME_k1", family.uniform(1, 2, 4, 5), family.uniform(2, 3, 1, 1), auto_pad="SAME_UPPER", strides=[2, 2])
    convt(
        "output_shape",
        family.uniform(1, 1, 3, 3),
        family.uniform(1, 2, 3, 3),
        strides=[3, 2],
        output_shape=[10, 8],
        output_padding=[1, 1],
    )
    convt(
        "output_shape_same_upper",
        family.uniform(1, 1, 3, 3),
        family.uniform(1, 2, 3, 3),
        strides=[3, 2],
        output_shape=[8, 6],
        auto_pad="SAME_UPPER",
    )
    convt(
        "f16",
        family.uniform(1, 2, 4, 5).astype(F16),
        family.uniform(2, 3, 3, 2).astype(F16),
        family.uniform(3).astype(F16),
        strides=[2, 2],
    )

    def ri(lo, hi, *s, t=np.uint8):
        return family.integers(lo, hi, *s, dtype=t)

    x = ri(0, 256, 1, 3, 6, 6)
    w = ri(-128, 128, 4, 3, 3, 3, t=np.int8)
    xz = scalar(131, np.uint8)
    wz = ri(-3, 3, 4, t=np.int8)
    ci = ref_conv(
        x.astype(int) - 131, w.astype(int) - wz.astype(int).reshape(4, 1, 1, 1), None, [1, 1], [1, 1], [1, 1, 1, 1], 1
    )
    family.case(
        "convinteger_zero_points",
        "ConvInteger",
        [x, w, xz, wz],
        opset=10,
        pads=[1, 1, 1, 1],
        want=[ci.astype(np.int32)],
    )
    family.case(
        "convinteger_no_zero_points",
        "ConvInteger",
        [x, w],
        opset=10,
        want=[ref_conv(x.astype(int), w.astype(int), None, [1, 1], [1, 1], [0] * 4, 1).astype(np.int32)],
    )
    family.case(
        "convinteger_1d_same",
        "ConvInteger",
        [x[:, :, 0], w[:, :, 0], xz],
        opset=10,
        auto_pad="SAME_UPPER",
        want=[
            ref_conv(x[:, :, 0].astype(int) - 131, w[:, :, 0].astype(int), None, [1], [1], [1, 1], 1).astype(np.int32)
        ],
    )
    xs = F32(0.013)
    ws = family.rng.uniform(0.01, 0.02, 4).astype(F32)
    ys = F32(0.4)
    yz = scalar(120, np.uint8)
    B = ri(-500, 500, 4, t=np.int32)
    q = np.clip(np.rint((ci + B.reshape(1, 4, 1, 1)) * (xs * ws / ys).reshape(1, 4, 1, 1)) + 120, 0, 255).astype(
        np.uint8
    )
    family.case(
        "qlinearconv_per_channel",
        "QLinearConv",
        [x, np.array(xs), xz, w, ws, wz, np.array(ys), yz, B],
        opset=10,
        pads=[1, 1, 1, 1],
        known=(3, 4, 5, 8),
        want=[q],
    )
