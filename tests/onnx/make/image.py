"""Sampling and rearranging of images: GridSample, AffineGrid, RoiAlign, CenterCropPad, DepthToSpace, MaxUnpool,
DeformConv, Col2Im. Oracle: onnx.reference; onnxruntime where a case says so; numpy for DeformConv, Col2Im and where
a want is given."""

import itertools

import numpy as np

from family import F16, F32, ints, scalar

ORACLE = "reference"


def maxpool(x):
    N, C, H, W = x.shape
    y = np.zeros((N, C, H // 2, W // 2), F32)
    z = np.zeros(y.shape, np.int64)
    for n in range(N):
        for c in range(C):
            for i in range(H // 2):
                for j in range(W // 2):
                    b = x[n, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
                    k = b.argmax()
                    y[n, c, i, j] = b.flat[k]
                    z[n, c, i, j] = ((n * C + c) * H + 2 * i + k // 2) * W + 2 * j + k % 2
    return y, z


def deform_conv(x, w, off, b, mask, **a):
    d = dict(dilations=[1, 1], group=1, kernel_shape=list(w.shape[2:]), offset_group=1, pads=[0] * 4, strides=[1, 1])
    d.update(a)
    want = np.zeros((x.shape[0], w.shape[0]) + off.shape[2:])
    N, C, H, Wd = x.shape
    og = d["offset_group"]
    KH, KW = w.shape[2:]
    o = off.reshape(N, og, KH * KW, 2, *off.shape[2:])
    mk = np.ones((N, og, KH * KW) + off.shape[2:]) if mask is None else mask.reshape(N, og, KH * KW, *off.shape[2:])
    OH, OW = off.shape[2:]

    def at(n, c, yy, xx):
        y0, x0 = int(np.floor(yy)), int(np.floor(xx))
        r = 0.0
        for dy in (0, 1):
            for dx in (0, 1):
                if 0 <= y0 + dy < H and 0 <= x0 + dx < Wd:
                    r += x[n, c, y0 + dy, x0 + dx] * ((1 - abs(yy - y0 - dy)) * (1 - abs(xx - x0 - dx)))
        return r

    cols = np.zeros((N, C, KH * KW, OH, OW))
    for n in range(N):
        for c in range(C):
            g = c // (C // og)
            for k in range(KH * KW):
                for i in range(OH):
                    for j in range(OW):
                        yy = i * d["strides"][0] - d["pads"][0] + (k // KW) * d["dilations"][0] + o[n, g, k, 0, i, j]
                        xx = j * d["strides"][1] - d["pads"][1] + (k % KW) * d["dilations"][1] + o[n, g, k, 1, i, j]
                        cols[n, c, k, i, j] = at(n, c, yy, xx) * mk[n, g, k, i, j]
    G = d["group"]
    O = w.shape[0]
    for g in range(G):
        want[:, g * O // G : (g + 1) * O // G] = np.einsum(
            "nckij,ock->noij",
            cols[:, g * C // G : (g + 1) * C // G],
            w[g * O // G : (g + 1) * O // G].reshape(O // G, C // G, -1),
        )
    if b is not None:
        want += b.reshape(1, -1, 1, 1)
    return want.astype(F32)


def make(family):
    X = family.uniform(2, 3, 4, 5)
    G = family.rng.uniform(-1.6, 1.6, (2, 3, 6, 2)).astype(F32)
    G[0, 0, 0] = [-1, -1]
    G[0, 0, 1] = [1, 1]
    G[0, 0, 2] = [0, 0]
    G[0, 0, 3] = [-3.7, 2.9]
    for md in ["nearest", "linear", "cubic"]:
        for pm in ["zeros", "border", "reflection"]:
            for ac in [0, 1]:
                family.case(
                    f"gridsample_{md}_{pm}_corners{ac}",
                    "GridSample",
                    [X, G],
                    opset=20,
                    mode=md,
                    padding_mode=pm,
                    align_corners=ac,
                    # The reference moves a place beyond an edge onto it first; PyTorch, whose operator it is, does not.
                    oracle="runtime" if md == "cubic" and pm == "border" else None,
                )
    family.case(
        "gridsample_5d",
        "GridSample",
        [family.uniform(1, 2, 3, 4, 5), family.rng.uniform(-1.2, 1.2, (1, 2, 3, 4, 3)).astype(F32)],
        opset=20,
        mode="linear",
    )
    family.case(
        "gridsample_5d_nearest",
        "GridSample",
        [family.uniform(1, 2, 3, 4, 5), family.rng.uniform(-1.2, 1.2, (1, 2, 3, 4, 3)).astype(F32)],
        opset=20,
        mode="nearest",
        padding_mode="border",
    )
    family.case("gridsample_opset16", "GridSample", [X, G], opset=16)
    family.case(
        "gridsample_i32",
        "GridSample",
        [family.rng.integers(-9, 9, (2, 3, 4, 5)).astype(np.int32), G],
        opset=20,
        mode="nearest",
    )
    family.case(
        "gridsample_1d",
        "GridSample",
        [family.uniform(1, 2, 5), family.rng.uniform(-1.2, 1.2, (1, 4, 1)).astype(F32)],
        opset=20,
        mode="linear",
    )
    family.case(
        "gridsample_height_of_one",
        "GridSample",
        [family.uniform(1, 2, 1, 5), G[:1]],
        opset=20,
        mode="linear",
        padding_mode="border",
        align_corners=1,
    )
    family.case(
        "gridsample_f16", "GridSample", [X.astype(F16), G.astype(F16)], opset=20, mode="nearest", padding_mode="border"
    )
    for ac in [0, 1]:
        family.case(
            f"affine_2d_corners{ac}",
            "AffineGrid",
            [family.uniform(2, 2, 3), ints([2, 3, 5, 6])],
            opset=20,
            known=(1,),
            align_corners=ac,
        )
        family.case(
            f"affine_3d_corners{ac}",
            "AffineGrid",
            [family.uniform(2, 3, 4), ints([2, 3, 4, 5, 6])],
            opset=20,
            known=(1,),
            align_corners=ac,
        )
    R = np.array([[0.5, 0.5, 6.3, 7.1], [1, 2, 3, 4], [-3, -2, 4, 15], [5, 5, 5.2, 5.1], [2, 7, 9, 9]], F32)
    B = ints([0, 1, 1, 0, 1])
    I = family.uniform(2, 3, 9, 10)
    for md in ["avg", "max"]:
        for cm in ["half_pixel", "output_half_pixel"]:
            for sr in [0, 2]:
                family.case(
                    f"roialign_{md}_{cm}_sampling{sr}",
                    "RoiAlign",
                    [I, R, B],
                    opset=16,
                    mode=md,
                    coordinate_transformation_mode=cm,
                    sampling_ratio=sr,
                    output_height=3,
                    output_width=4,
                    spatial_scale=0.75,
                )
    family.case(
        "roialign_empty",
        "RoiAlign",
        [I, np.array([[3, 3, 3, 3], [4, 4, 3, 3]], F32), B[:2]],
        opset=16,
        output_height=2,
        output_width=2,
    )
    family.case(
        "roialign_empty_max",
        "RoiAlign",
        [I, np.array([[3, 3, 3, 3], [4, 4, 3, 3]], F32), B[:2]],
        opset=16,
        output_height=2,
        output_width=2,
        mode="max",
    )
    size = dict(sampling_ratio=2, output_height=2, output_width=2)
    family.case(
        "roialign_opset10",
        "RoiAlign",
        [I, R, B],
        10,
        family.expected("RoiAlign", [I, R, B], 16, coordinate_transformation_mode="output_half_pixel", **size),
        **size,
    )
    for nm, sh, s, ax in [
        ("crop", (7, 8, 3), [4, 5, 3], None),
        ("pad", (3, 4, 3), [6, 7, 4], None),
        ("mixed", (7, 3, 3), [4, 6], [0, 1]),
        ("neg", (7, 3, 4), [9, 5], [-1, 0]),
    ]:
        family.case(
            "centercroppad_" + nm,
            "CenterCropPad",
            [family.uniform(*sh), scalar(s, np.int64)],
            opset=18,
            known=(1,),
            **({} if ax is None else dict(axes=ax)),
        )
    family.case(
        "centercroppad_i8",
        "CenterCropPad",
        [family.rng.integers(0, 9, (5, 6)).astype(np.int8), np.array([8, 3], np.int32)],
        opset=18,
        known=(1,),
    )
    D = family.uniform(2, 8, 3, 4)
    for md in ["DCR", "CRD"]:
        family.case("depthtospace_" + md, "DepthToSpace", [D], opset=13, blocksize=2, mode=md)
    family.case(
        "depthtospace_opset1",
        "DepthToSpace",
        [D],
        opset=1,
        blocksize=2,
        want=[D.reshape(2, 2, 2, 2, 3, 4).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 6, 8)],
    )
    family.case("spacetodepth", "SpaceToDepth", [family.uniform(2, 3, 4, 6)], opset=13, blocksize=2)
    # unpool
    x = family.uniform(1, 2, 4, 6)
    y, z = maxpool(family.uniform(2, 3, 4, 6))
    family.case("maxunpool", "MaxUnpool", [y, z], opset=11, kernel_shape=[2, 2], strides=[2, 2])
    family.case(
        "maxunpool_shape",
        "MaxUnpool",
        [y, z, ints([2, 3, 5, 8])],
        opset=11,
        known=(2,),
        kernel_shape=[2, 2],
        strides=[2, 2],
    )

    # deformable convolution
    def dconv(name, x, w, off, b, mask, **a):
        want = deform_conv(x, w, off, b, mask, **a)
        family.case("deform_" + name, "DeformConv", [x, w, off, b, mask], opset=19, known=(1, 3), want=[want], **a)

    dconv("basic", family.uniform(1, 2, 5, 6), family.uniform(3, 2, 2, 2), family.uniform(1, 8, 4, 5), None, None)
    dconv(
        "full",
        family.uniform(2, 4, 6, 7),
        family.uniform(6, 2, 3, 3),
        family.uniform(2, 36, 3, 4),
        family.uniform(6),
        family.uniform(2, 18, 3, 4),
        group=2,
        offset_group=2,
        pads=[1, 1, 1, 1],
        strides=[2, 2],
    )
    dconv(
        "dilations",
        family.uniform(1, 2, 6, 7),
        family.uniform(2, 2, 2, 2),
        family.uniform(1, 8, 5, 6),
        family.uniform(2),
        family.uniform(1, 4, 5, 6),
        pads=[1, 0, 0, 1],
        dilations=[2, 2],
    )
    for nm, img, blk, a in [
        ("basic", [5, 6], [2, 3], {}),
        ("pads", [5, 6], [3, 2], dict(pads=[1, 0, 1, 1], strides=[2, 2])),
        ("dilations", [6, 7], [2, 2], dict(dilations=[2, 3], strides=[1, 2])),
        ("1d", [9], [3], dict(strides=[2])),
        ("5d", [3, 4, 5], [2, 2, 2], dict(strides=[1, 2, 2])),
    ]:
        n = len(img)
        st = a.get("strides", [1] * n)
        dl = a.get("dilations", [1] * n)
        pd = a.get("pads", [0] * 2 * n)
        L = [(img[k] + pd[k] + pd[n + k] - ((blk[k] - 1) * dl[k] + 1)) // st[k] + 1 for k in range(n)]
        K = int(np.prod(blk))
        x = family.uniform(2, 3 * K, int(np.prod(L)))
        y = np.zeros([2, 3] + [img[k] + pd[k] + pd[n + k] for k in range(n)], F32)
        xr = x.reshape([2, 3] + blk + L)
        for t in itertools.product(*map(range, blk)):
            y[
                (slice(None), slice(None))
                + tuple(slice(t[k] * dl[k], t[k] * dl[k] + (L[k] - 1) * st[k] + 1, st[k]) for k in range(n))
            ] += xr[(slice(None), slice(None)) + t]
        y = y[(slice(None), slice(None)) + tuple(slice(pd[k], pd[k] + img[k]) for k in range(n))]
        family.case(
            "col2im_" + nm,
            "Col2Im",
            [x, scalar(img, np.int64), scalar(blk, np.int64)],
            opset=18,
            known=(1, 2),
            want=[y],
            **a,
        )
