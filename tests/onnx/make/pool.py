"""MaxPool, AveragePool, LpPool and the global ones. Oracle: numpy in float64, window by window."""

import itertools

import numpy as np

from family import F16, F32, F64

ORACLE = "reference"


def geom(x, K, st, dl, pads, auto, ceil):
    n = x.ndim - 2
    lo, hi = list(pads[:n]), list(pads[n:])
    O = []
    for k in range(n):
        span = (K[k] - 1) * dl[k] + 1
        I = x.shape[2 + k]
        if auto.startswith("SAME"):
            o = -(-I // st[k])
            p = max(0, (o - 1) * st[k] + span - I)
            lo[k] = (p + 1) // 2 if auto == "SAME_LOWER" else p // 2
            hi[k] = p - lo[k]
        else:
            if auto == "VALID":
                lo[k] = hi[k] = 0
            tot = I + lo[k] + hi[k] - span
            o = (-(-tot // st[k]) if ceil else tot // st[k]) + 1
            if ceil and (o - 1) * st[k] >= I + lo[k]:
                o -= 1
        O.append(o)
    return lo, hi, O


def pool(kind, x, K, st, dl, pads, auto, ceil, inc=0, p=2, order=0):
    n = x.ndim - 2
    lo, hi, O = geom(x, K, st, dl, pads, auto, ceil)
    N, C = x.shape[:2]
    y = np.zeros([N, C] + O, F64)
    z = np.zeros(y.shape, np.int64)
    sz = x.shape[2:]
    for o in itertools.product(*map(range, O)):
        best = np.full((N, C), -np.inf)
        bi = np.zeros((N, C), np.int64)
        s = np.zeros((N, C))
        cnt = 0
        for t in itertools.product(*map(range, K)):
            pos = [o[k] * st[k] - lo[k] + t[k] * dl[k] for k in range(n)]
            inside = all(0 <= q < sz[k] for k, q in enumerate(pos))
            padded = all(q < sz[k] + hi[k] for k, q in enumerate(pos))
            if inside or (inc and padded):
                cnt += 1
            if not inside:
                continue
            v = x[(slice(None), slice(None)) + tuple(pos)].astype(F64)
            s += abs(v) ** p if kind == "lp" else v
            fl = 0
            for k in range(n) if not order else reversed(range(n)):
                fl = fl * sz[k] + pos[k]
            up = v > best
            best = np.where(up, v, best)
            bi = np.where(up, fl, bi)
        idx = (slice(None), slice(None)) + o
        y[idx] = best if kind == "max" else s / cnt if kind == "avg" else s ** (1 / p)
        z[idx] = bi + np.arange(N * C).reshape(N, C) * int(np.prod(sz))
    return y.astype(x.dtype), z


def make(family):
    def P(name, op, x, kernel, opset=22, ind=False, **a):
        n = x.ndim - 2
        kind = {"MaxPool": "max", "AveragePool": "avg", "LpPool": "lp"}[op]
        y, z = pool(
            kind,
            x,
            kernel,
            a.get("strides", [1] * n),
            a.get("dilations", [1] * n),
            a.get("pads", [0] * 2 * n),
            a.get("auto_pad", "NOTSET"),
            a.get("ceil_mode", 0),
            a.get("count_include_pad", 0),
            a.get("p", 2),
            a.get("storage_order", 0),
        )
        family.case(
            f"{op.lower()}_{name}",
            op,
            [x],
            outputs=2 if ind else 1,
            opset=opset,
            want=[y, z] if ind else [y],
            kernel_shape=kernel,
            **a,
        )

    for op in ["MaxPool", "AveragePool", "LpPool"]:
        P("1d", op, family.uniform(2, 3, 11), [3], strides=[2], pads=[1, 1])
        P("3d", op, family.uniform(1, 2, 5, 6, 7), [2, 3, 2], strides=[2, 1, 2], pads=[1, 1, 0, 0, 1, 1])
        P("ceil", op, family.uniform(2, 3, 7, 8), [3, 3], strides=[2, 2], ceil_mode=1)
        P(
            "ceil_pads_dilations",
            op,
            family.uniform(2, 3, 7, 10),
            [3, 2],
            strides=[2, 3],
            pads=[1, 1, 1, 0],
            ceil_mode=1,
            dilations=[2, 1],
        )
        P(
            "ceil_window_starts_outside",
            op,
            family.uniform(1, 1, 2, 2),
            [1, 1],
            strides=[2, 2],
            pads=[0, 0, 0, 0],
            ceil_mode=1,
        )
        P("ceil_window_on_pad", op, family.uniform(1, 2, 10, 9), [3, 3], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1)
        for s in ["SAME_UPPER", "SAME_LOWER", "VALID"]:
            P(s, op, family.uniform(1, 2, 7, 8), [4, 3], strides=[2, 3], auto_pad=s)
        P("f16", op, family.uniform(2, 3, 7, 8).astype(F16), [3, 3], pads=[1, 1, 1, 1])
        P("f64", op, family.uniform(2, 3, 7, 8).astype(F64), [3, 3], pads=[1, 1, 1, 1])
        P(
            "3d_dilations_ceil",
            op,
            family.uniform(1, 1, 6, 6, 6),
            [2, 2, 2],
            dilations=[2, 1, 3],
            strides=[1, 2, 1],
            ceil_mode=1,
        )
    P(
        "include_pad",
        "AveragePool",
        family.uniform(2, 3, 7, 8),
        [3, 3],
        strides=[2, 3],
        pads=[1, 1, 1, 1],
        ceil_mode=1,
        count_include_pad=1,
    )
    for c in [0, 1]:
        P(
            f"include_pad_dilations_ceil{c}",
            "AveragePool",
            family.uniform(1, 2, 32, 32),
            [5, 5],
            strides=[3, 4],
            pads=[2, 1, 2, 2],
            dilations=[2, 1],
            ceil_mode=c,
            count_include_pad=1,
        )
    P("p1", "LpPool", family.uniform(2, 3, 7, 8), [3, 3], p=1)
    P("p3", "LpPool", family.uniform(2, 3, 7, 8), [3, 3], p=3, pads=[1, 1, 1, 1])
    for o in [0, 1]:
        P(
            f"indices_2d_order{o}",
            "MaxPool",
            family.uniform(2, 3, 7, 8),
            [3, 3],
            ind=True,
            strides=[2, 2],
            pads=[1, 1, 1, 1],
            storage_order=o,
            dilations=[1, 2],
        )
        P(
            f"indices_1d_order{o}",
            "MaxPool",
            family.uniform(2, 3, 7),
            [3],
            ind=True,
            strides=[2],
            pads=[1, 1],
            storage_order=o,
        )
        P(
            f"indices_3d_order{o}",
            "MaxPool",
            family.uniform(2, 3, 4, 5, 6),
            [3, 2, 2],
            ind=True,
            strides=[2, 2, 1],
            storage_order=o,
            ceil_mode=1,
        )
    P(
        "indices_u8",
        "MaxPool",
        family.rng.integers(0, 3, (2, 3, 7, 8)).astype(np.uint8),
        [3, 3],
        ind=True,
        pads=[1, 1, 1, 1],
    )
    P(
        "i8",
        "MaxPool",
        family.rng.integers(-128, -100, (2, 3, 7, 8)).astype(np.int8),
        [3, 3],
        pads=[1, 1, 1, 1],
        strides=[2, 2],
    )
    X = family.uniform(2, 3, 4, 5)
    family.case("globalmaxpool_1d", "GlobalMaxPool", [X[0]], opset=1, want=[X[0].max(2, keepdims=True)])
    family.case(
        "globalavg_f16",
        "GlobalAveragePool",
        [X.astype(F16)],
        opset=22,
        want=[X.astype(F16).astype(F32).mean((2, 3), keepdims=True).astype(F16)],
    )
    family.case(
        "globallp_3",
        "GlobalLpPool",
        [X],
        opset=2,
        p=3,
        want=[((abs(X) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)).astype(F32)],
    )
    family.case("globallp", "GlobalLpPool", [X], opset=2, want=[np.sqrt((X**2).sum((2, 3), keepdims=True))])
