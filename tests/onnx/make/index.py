"""Gather, Scatter, OneHot, TopK, Unique, NonMaxSuppression and others that go by indices. Oracle: onnxruntime;
onnx.reference for what it cannot run."""

import numpy as np

from family import F32, ints, scalar

ORACLE = "runtime"


def make(family):
    family.case("gather_negative", "Gather", [family.normal(5, 4, 3), ints([[0, -1], [2, -5]])], 13, axis=0)
    family.case("gather_scalar", "Gather", [family.normal(5, 4, 3), scalar(-2, np.int64)], 13, axis=1)
    family.case("gather_int32", "Gather", [family.normal(5, 4, 3), np.array([1, 3], np.int32)], 11, axis=-2)
    family.case(
        "gather_elements", "GatherElements", [family.normal(3, 4), ints([[0, -1], [2, 1], [-4, 3]])], 13, axis=1
    )
    family.case("gather_nd", "GatherND", [family.normal(3, 4, 5), ints([[0, -1], [2, 1], [-3, 3]])], 13)
    family.case("gather_nd_full", "GatherND", [family.normal(3, 4, 5), ints([[[0, -1, 2]], [[2, 1, -5]]])], 12)
    family.case(
        "gather_nd_batch_dims1",
        "GatherND",
        [family.normal(2, 3, 4, 5), ints(family.rng.integers(-3, 3, (2, 6, 1)))],
        12,
        batch_dims=1,
    )
    family.case(
        "gather_nd_batch_dims2",
        "GatherND",
        [
            family.normal(2, 3, 4, 5),
            ints(np.stack([family.rng.integers(-4, 4, (2, 3)), family.rng.integers(-5, 5, (2, 3))], -1)),
        ],
        12,
        batch_dims=2,
    )
    family.case(
        "one_hot", "OneHot", [ints([0, -1, 5, -7, 3]), scalar(4, np.int64), np.array([2, 5], F32)], 11, known=(1,)
    )
    family.case(
        "one_hot_axis0",
        "OneHot",
        [ints([[0, -1], [3, 1]]), np.array([4], np.int64), np.array([2, 5], np.int64)],
        11,
        known=(1,),
        axis=0,
    )
    family.case(
        "one_hot_axis1_float32",
        "OneHot",
        [np.array([[0, -1], [3, 1]], F32), np.array([4], F32), np.array([2, 5], F32)],
        11,
        known=(1,),
        axis=1,
    )
    for ta, ba in [(0, 1), (1, 0)]:
        family.case(
            f"reverse_sequence_time_axis{ta}",
            "ReverseSequence",
            [family.normal(4, 4, 3), ints([1, 4, 2, 3])],
            10,
            time_axis=ta,
            batch_axis=ba,
        )
    for lg in [0, 1]:
        family.case(
            f"topk_largest{lg}", "TopK", [family.normal(3, 7), ints([3])], 11, outputs=2, known=(1,), axis=1, largest=lg
        )
        family.case(
            f"topk_int64_largest{lg}",
            "TopK",
            [family.rng.integers(0, 4, (3, 7)), ints([5])],
            11,
            outputs=2,
            known=(1,),
            axis=-1,
            largest=lg,
        )
    family.case("topk_axis0", "TopK", [family.normal(6, 3), ints([2])], 11, outputs=2, known=(1,), axis=0, sorted=1)
    family.case("topk_opset1", "TopK", [family.normal(3, 7)], 1, outputs=2, k=4)
    family.case("topk_opset10", "TopK", [family.normal(3, 7), ints([4])], 10, outputs=2, known=(1,))
    family.case("compress_flat", "Compress", [family.normal(3, 4), np.array([0, 1, 1, 0, 1], bool)], 11, known=(1,))
    family.case("compress_axis", "Compress", [family.normal(3, 4), np.array([0, 1, 1], bool)], 9, known=(1,), axis=-1)
    family.case("nonzero_float32", "NonZero", [np.array([[0, 1.5, 0], [2, 0, -1]], F32)], 13)
    family.case("nonzero_bool", "NonZero", [np.array([True, False, True])], 9)
    U = np.array([[2, 1, 1, 3, 4, 3, 1], [0, 1, 1, 2, 2, 2, 1]], F32)
    for so in [0, 1]:
        family.case(f"unique_flat_sorted{so}", "Unique", [U], 11, outputs=4, sorted=so)
        family.case(f"unique_axis1_sorted{so}", "Unique", [U], 11, outputs=4, sorted=so, axis=1)
    family.case("unique_axis_m2", "Unique", [family.rng.integers(0, 3, (4, 2, 3))], 11, outputs=4, axis=-2)
    family.case("unique_rows", "Unique", [family.rng.integers(0, 2, (9, 2)).astype(np.int64)], 11, outputs=4, axis=0)
    family.case("unique_y_only", "Unique", [family.rng.integers(0, 5, (9,)).astype(np.int64)], 11, outputs=1, axis=0)
    B, N = 2, 40
    c = family.rng.uniform(0, 1, (B, N, 2))
    w = family.rng.uniform(0.05, 0.3, (B, N, 2))
    boxes = np.concatenate([c - w / 2, c + w / 2], -1).astype(F32)
    flip = family.rng.integers(0, 2, (B, N)) == 1
    boxes[flip] = boxes[flip][:, [2, 3, 0, 1]]
    sc = family.rng.uniform(0, 1, (B, 3, N)).astype(F32)
    family.case(
        "nms_thresholds", "NonMaxSuppression", [boxes, sc, ints([5]), np.array([0.3], F32), np.array([0.2], F32)], 11
    )
    family.case(
        "nms_center",
        "NonMaxSuppression",
        [np.concatenate([c, w], -1).astype(F32), sc, ints([50]), np.array([0.1], F32)],
        11,
        center_point_box=1,
    )
    family.case("nms_no_limits", "NonMaxSuppression", [boxes, sc], 11)
    family.case("nms_all", "NonMaxSuppression", [boxes, sc, ints([100])], 11)
    family.case(
        "scatter_opset9", "Scatter", [family.normal(3, 4), ints([[0, 3], [2, -1]]), family.normal(2, 2)], 9, axis=1
    )
    family.case(
        "scatter_elements_axis0",
        "ScatterElements",
        [family.normal(3, 4), ints([[0, -1, 1, 0], [2, 1, -3, 2]]), family.normal(2, 4)],
        13,
    )
    upd = family.normal(3, 3)
    for r, o in [("add", 16), ("mul", 16), ("max", 18), ("min", 18)]:
        family.case(
            f"scatter_elements_{r}",
            "ScatterElements",
            [
                family.normal(3, 4),
                ints([[0, 0, 1], [2, 1, -4], [3, 3, -1]]),
                upd,
            ],
            o,
            axis=1,
            reduction=r,
        )
        family.case(
            f"scatter_elements_int64_{r}",
            "ScatterElements",
            [
                family.rng.integers(-9, 9, (3, 4)),
                ints([[0, 0, 1], [2, 1, -4], [3, 3, -1]]),
                family.rng.integers(-9, 9, (3, 3)),
            ],
            o,
            axis=-1,
            reduction=r,
        )
        family.case(
            f"scatter_nd_{r}",
            "ScatterND",
            [family.normal(4, 3, 2), ints([[0], [-1], [0], [2]]), family.normal(4, 3, 2)],
            o,
            reduction=r,
        )
    family.case(
        "scatter_nd",
        "ScatterND",
        [family.normal(4, 3, 2), ints([[[0, 1], [-1, -1]], [[2, 0], [0, 0]]]), family.normal(2, 2, 2)],
        11,
    )
    family.case("scatter_nd_full", "ScatterND", [family.normal(4, 3), ints([[0, 1], [-1, -1]]), family.normal(2)], 13)
    family.case(
        "scatter_nd_int64", "ScatterND", [family.rng.integers(-9, 9, (5,)), ints([[4], [-4]]), ints([7, 8])], 16
    )
    for mode in ["TF", "IDF", "TFIDF"]:
        for mi, ma, sk in [(1, 1, 0), (1, 2, 1), (2, 3, 2), (1, 3, 5), (2, 2, 0)]:
            one = mode == "TF"  # a sequence of int64; the others a batch of two of int32, with weights
            x = family.integers(2, 6, 9) if one else family.integers(2, 6, 2, 9, dtype=np.int32)
            weights = {} if one else {"weights": [0.5, 2, 3, 4, 5, 6]}
            family.case(
                f"tfidf_{mode.lower()}_grams{mi}to{ma}_skip{sk}",
                "TfIdfVectorizer",
                [x],
                9,
                mode=mode,
                min_gram_length=mi,
                max_gram_length=ma,
                max_skip_count=sk,
                ngram_counts=[0, 3, 7],
                ngram_indexes=[0, 5, 1, 2, 4, 3],
                pool_int64s=[2, 3, 5, 2, 3, 4, 2, 5, 2, 3],
                **weights,
            )
