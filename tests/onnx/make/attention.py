"""Attention and rotations: ONNX's own (opset 23 and later), by onnx.reference, and onnxruntime's, by itself."""

import numpy as np

from family import ints

ORACLE = "reference"
MS = "com.microsoft"


def make(family):
    def attention(name, q, k, v, mask=None, past=None, filled=None, opset=24, outputs=1, scale_of=1, **a):
        parts = [scale_of * family.normal(*s) for s in (q, k, v)]
        earlier = [None, None] if past is None else [family.normal(*p) for p in past]
        family.case(
            "attention_" + name, "Attention", parts + [mask] + earlier + [filled], opset, outputs=outputs, **a
        )

    four = [(2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5)]
    attention("4d", *four)
    attention("opset_23", *four, opset=23)
    attention("scale", *four, scale=0.25)
    attention("3d", (2, 4, 24), (2, 6, 24), (2, 6, 15), q_num_heads=3, kv_num_heads=3)
    attention("grouped", (2, 4, 3, 8), (2, 2, 6, 8), (2, 2, 6, 8))
    attention("grouped_3d", (1, 4, 32), (1, 6, 16), (1, 6, 16), q_num_heads=4, kv_num_heads=2)
    attention("causal", (2, 3, 5, 8), (2, 3, 5, 8), (2, 3, 5, 8), is_causal=1)
    attention("causal_fewer_keys", (1, 2, 5, 8), (1, 2, 3, 8), (1, 2, 3, 8), is_causal=1)
    attention("past", *four, past=[(2, 3, 2, 8), (2, 3, 2, 5)], outputs=3, is_causal=1)
    bools = family.rng.integers(0, 2, (4, 6)).astype(bool)
    bools[1] = True
    attention("bools", *four, mask=bools)
    bools[2] = False  # a query that may look at nothing
    attention("blind_query", *four, mask=bools)
    attention("blind_query_causal", *four, mask=bools, is_causal=1)
    attention("blind_query_probabilities", *four, mask=bools, outputs=["y", "", "", "p"], qk_matmul_output_mode=3)
    floats = family.normal(2, 1, 4, 6)
    attention("floats", *four, mask=floats)
    floats[0, 0, 3] = -np.inf
    attention("blind_query_floats", *four, mask=floats, is_causal=1)
    attention("fewer_in_mask", *four, mask=family.normal(4, 3))
    attention("fewer_in_bools", *four, mask=bools[:, :4])
    attention("mask_of_heads", *four, mask=family.normal(3, 4, 6))
    for mode in (1, 2, 3):  # of 0 the reference has the soft cap, too
        attention(
            f"softcap_mode_{mode}",
            *four,
            mask=floats[:1],
            outputs=["y", "", "", "s"],
            scale_of=2,
            softcap=1.5,
            qk_matmul_output_mode=mode,
        )
    attention("softmax_f64", *four, softmax_precision=11)
    attention("filled", *four, filled=ints([6, 3]))
    attention("filled_causal", *four, filled=ints([5, 3]), is_causal=1)
    attention("window", (1, 2, 6, 4), (1, 2, 6, 4), (1, 2, 6, 4), opset=25, left_window_size=2, right_window_size=1)
    attention("window_causal", (1, 2, 6, 4), (1, 2, 6, 4), (1, 2, 6, 4), opset=25, left_window_size=1, is_causal=1)

    cosine, sine = family.uniform(10, 4), family.uniform(10, 4)
    places = family.integers(0, 10, 2, 5)
    x, flat = family.normal(2, 3, 5, 8), family.normal(2, 5, 24)
    for interleaved in (0, 1):
        a = {"interleaved": interleaved}
        end = "_interleaved" if interleaved else ""
        family.case("rotary_4d" + end, "RotaryEmbedding", [x, cosine, sine, places], 23, **a)
        family.case("rotary_3d" + end, "RotaryEmbedding", [flat, cosine, sine, places], 23, num_heads=3, **a)
        tables = [family.uniform(2, 5, 4), family.uniform(2, 5, 4)]
        family.case("rotary_own_rows" + end, "RotaryEmbedding", [x, *tables], 23, **a)
        family.case(
            "rotary_part" + end,
            "RotaryEmbedding",
            [family.normal(2, 3, 5, 12), cosine, sine, places],
            23,
            rotary_embedding_dim=8,
            **a,
        )
        ms = {"domain": MS, "oracle": "runtime", **a}
        family.case("ms_rotary" + end, "RotaryEmbedding", [x, places, cosine, sine], 1, **ms)
        family.case("ms_rotary_3d" + end, "RotaryEmbedding", [flat, places, cosine, sine], 1, **ms)
        family.case("ms_rotary_from" + end, "RotaryEmbedding", [x, ints([3]), cosine, sine], 1, **ms)

    runtime = {"domain": MS, "oracle": "runtime", "opset": 1}
    q, k, v = family.normal(2, 4, 24), family.normal(2, 6, 24), family.normal(2, 6, 24)
    past = [family.normal(2, 3, 2, 8), family.normal(2, 3, 2, 8)]
    bias, keys = family.normal(72), np.array([[1, 1, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1]], np.int32)
    heads = {"num_heads": 3, **runtime}

    def many(name, operands, **a):
        family.case("ms_heads_" + name, "MultiHeadAttention", operands, **{**heads, **a})

    many("plain", [q, k, v])
    many("bias", [q, k, v, bias])
    many("keys", [q, k, v, None, keys])
    many("keys_filter", [q, k, v, None, keys], mask_filter_value=-3.0)
    many("scores_bias", [q, k, v, None, None, family.normal(1, 3, 4, 6)])
    many("scale", [q, k, v], scale=0.2)
    many("past", [q, k, v, None, None, None, *past], outputs=3)
    many("causal", [k, k, v], unidirectional=1)
    many("keys_with_heads", [q, family.normal(2, 3, 6, 8), family.normal(2, 3, 6, 8)])

    x, w, b = family.normal(2, 4, 10), family.normal(10, 72), family.normal(72)
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)

    def self(name, operands, **a):
        family.case("ms_self_" + name, "Attention", operands, **{**heads, **a})

    self("plain", [x, w, b])
    self("mask", [x, w, b, mask])
    self("lengths", [x, w, b, np.array([3, 4], np.int32)])
    self("causal", [x, w, b], unidirectional=1)
    self("scores_bias", [x, w, b, None, None, family.normal(2, 3, 4, 4)])
    self("past", [x, w, b, None, family.normal(2, 2, 3, 5, 8)], outputs=2)
    self("sizes", [x, family.normal(10, 60), family.normal(60)], qkv_hidden_sizes=[24, 24, 12])

    def group(name, new, filled, total, cache=None, packed=False, rotary=0, bias=None, batch=2, heads=4, kv=2, d=16, **a):
        parts = [family.normal(batch, new, n * d) for n in (heads, kv, kv)]
        operands = [np.concatenate(parts, 2), None, None] if packed else parts
        operands += [None, None] if cache is None else [family.normal(batch, kv, cache, d) for _ in range(2)]
        operands += [np.array(filled, np.int32) - 1, np.array(total, np.int32)]
        angles = family.uniform(16, rotary // 2 or 1)
        operands += [np.cos(angles), np.sin(angles)] if rotary else [None, None]
        operands += [None, None if bias is None else family.normal(*bias)]
        more = {"num_heads": heads, "kv_num_heads": kv, "outputs": 3, "known": (6,), **runtime, **a}
        family.case("ms_group_" + name, "GroupQueryAttention", operands, **more)

    group("prompt", 5, [5, 5], 5)
    group("prompt_rotary", 5, [5, 5], 5, rotary=16, do_rotary=1)
    group("prompt_packed", 5, [5, 5], 5, packed=True, rotary=16, do_rotary=1, rotary_interleaved=1)
    group("token", 1, [7, 7], 7, cache=6)
    group("token_rotary", 1, [7, 7], 7, cache=6, rotary=16, do_rotary=1)
    group("token_in_place", 1, [7, 4], 7, cache=10, rotary=16, do_rotary=1)
    group("window", 1, [9, 9], 9, cache=8, local_window_size=4)
    group("softcap_scale", 4, [4, 4], 4, softcap=2.0, scale=0.5)
    group("scores_bias", 3, [3, 3], 3, bias=(1, 4, 3, 3))
    group("one_by_one", 1, [5, 5], 5, cache=4, heads=2, kv=2)
