"""Moving and indexing elements of each dtype. Oracle: numpy."""

import numpy as np
from onnx import numpy_helper

from family import ints, scalar

ORACLE = "reference"


def make(family):
    for dt in ["float16", "float64", "int8", "uint8", "int32", "bool", "int64"]:

        def a(*s):
            return (family.rng.integers(0, 2, s) if dt == "bool" else family.rng.integers(0, 9, s)).astype(dt)

        v = a(3, 4)
        ok = lambda name, op, ins, opset, e, **kw: family.case(f"{name}_{dt}", op, ins, opset, want=e, **kw)
        ok("concat", "Concat", [v, a(0, 4), v], 13, [np.concatenate([v, v])], axis=0)
        ok(
            "slice",
            "Slice",
            [v, ints([-1, 3]), ints([-9, 0]), ints([0, 1]), ints([-1, -2])],
            13,
            [v[::-1, 3:0:-2]],
            known=(1, 2, 3, 4),
        )
        ok("pad", "Pad", [v, ints([1, 2, 0, -1])], 13, [np.pad(v, [(1, 0), (2, 0)])[:, :-1]], known=(1,))
        ok(
            "pad_wrap",
            "Pad",
            [v, ints([1, 2, 0, 5])],
            19,
            [np.pad(v, [(1, 0), (2, 5)], mode="wrap")],
            known=(1,),
            mode="wrap",
        )
        ok("tile", "Tile", [v, ints([2, 3])], 13, [np.tile(v, (2, 3))], known=(1,))
        ok("trilu", "Trilu", [v], 14, [np.triu(v)])
        ok("gather", "Gather", [v, ints([0, -1])], 13, [v[[0, -1]]])
        ok("gather_nd", "GatherND", [v, ints([[0, -1], [2, 1]])], 13, [v[[0, 2], [-1, 1]]])
        ok("eyelike", "EyeLike", [v], 9, [np.eye(3, 4, 1).astype(dt)], k=1)
        ok(
            "onehot",
            "OneHot",
            [ints([0, 2]), scalar(3, np.int64), np.array([0, 1]).astype(dt)],
            11,
            [np.eye(3)[[0, 2]].astype(dt)],
            known=(1,),
        )
        w = v.copy()
        w[[0, 2]] = a(2, 4)
        ok("scatter_nd", "ScatterND", [v, ints([[0], [2]]), w[[0, 2]]], 16, [w])
        if dt != "bool":
            u = a(2, 4)
            w = v.copy()
            np.add.at(w, [0, 0], u)
            ok("scatter_add", "ScatterND", [v, ints([[0], [0]]), u], 16, [w], reduction="add")
            w = v.copy()
            np.maximum.at(w, [0, 0], u)
            ok("scatter_max", "ScatterND", [v, ints([[0], [0]]), u], 18, [w], reduction="max")
            o = np.argsort(-v.astype(float), axis=1, kind="stable")[:, :2]
            family.case(
                f"topk_{dt}", "TopK", [v, ints([2])], 11, want=[np.take_along_axis(v, o, 1), o], known=(1,), outputs=2
            )
        q = v.ravel()
        ok(
            "reverse_sequence",
            "ReverseSequence",
            [v, ints([3, 1, 2, 0])],
            10,
            [np.stack([np.concatenate([v[:n, k][::-1], v[n:, k]]) for k, n in enumerate([3, 1, 2, 0])], 1)],
        )
        family.case(
            f"unique_{dt}",
            "Unique",
            [q],
            11,
            want=list(np.unique(q, return_index=True, return_inverse=True, return_counts=True)),
            outputs=4,
        )
        ok("nonzero", "NonZero", [v], 13, [np.array(np.nonzero(v))])
        if dt in ("int32", "int64", "float64"):
            ok(
                "range",
                "Range",
                [np.array(1).astype(dt), np.array(10).astype(dt), np.array(4).astype(dt)],
                11,
                [np.array([1, 5, 9]).astype(dt)],
                known=(0, 1, 2),
            )
        if dt != "bool":
            ok(
                "constantofshape",
                "ConstantOfShape",
                [ints([2, 3])],
                9,
                [np.full((2, 3), 5).astype(dt)],
                known=(0,),
                value=numpy_helper.from_array(np.array([5]).astype(dt)),
            )
