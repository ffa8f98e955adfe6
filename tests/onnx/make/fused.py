"""Operators that onnxruntime's optimizer makes of several. Oracle: onnxruntime."""

import numpy as np

ORACLE = "runtime"


def make(family):
    def case(name, op, operands, domain="com.microsoft", opset=1, **a):
        family.case(name, op, operands, opset, domain=domain, **a)

    x = family.uniform(3, 8, low=-4, high=4)
    case("gelu", "Gelu", [x])
    case("bias_gelu", "BiasGelu", [x, family.normal(8)])
    case("fast_gelu", "FastGelu", [x])
    case("fast_gelu_bias", "FastGelu", [x, family.normal(8)])
    case("quick_gelu", "QuickGelu", [x])
    case("quick_gelu_alpha", "QuickGelu", [x], alpha=0.7)

    a, b = family.normal(2, 3, 4), family.normal(2, 4, 5)
    turned = [np.ascontiguousarray(a.transpose(0, 2, 1)), np.ascontiguousarray(b.transpose(0, 2, 1))]
    case("matmul", "FusedMatMul", [a, b])
    case("matmul_alpha", "FusedMatMul", [a, b], alpha=0.3)
    case("matmul_turned", "FusedMatMul", turned, transA=1, transB=1, alpha=2.0)
    batch = [family.normal(3, 2, 4), family.normal(4, 2, 5)]
    case("matmul_batch", "FusedMatMul", batch, transBatchA=1, transBatchB=1)
    batch = [family.normal(4, 2, 3), family.normal(5, 2, 4)]
    case("matmul_batch_turned", "FusedMatMul", batch, transBatchA=1, transBatchB=1, transA=1, transB=1)

    for act, p in [("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("HardSigmoid", [0.3, 0.4])]:
        more = dict(zip(("activation_alpha", "activation_beta"), p))
        operands = [family.normal(3, 4), family.normal(5, 4), family.normal(5)]
        case(f"gemm_{act}", "FusedGemm", operands, transB=1, alpha=0.5, activation=act, **more)
    image, weights, bias = family.normal(1, 2, 5, 5), family.normal(3, 2, 3, 3), family.normal(3)
    acts = {"Relu": [], "Sigmoid": [], "Tanh": [], "LeakyRelu": [0.1], "Clip": [-0.5, 0.7], "HardSigmoid": [0.3, 0.4]}
    for act, p in acts.items():
        more = {"activation_params": p} if p else {}
        case(f"conv_{act}", "FusedConv", [image, weights, bias], activation=act, pads=[1, 1, 1, 1], **more)
    case("conv_sum", "FusedConv", [image, weights, bias, family.normal(1, 3, 3, 3)], activation="Relu")
    case("conv_sum_alone", "FusedConv", [image, weights, None, family.normal(1, 3, 3, 3)])

    x, skip, scale, bias, more = [family.normal(2, 3, 8) for _ in range(2)] + [family.normal(8) for _ in range(3)]
    case("skip_layer", "SkipLayerNormalization", [x, skip, scale, bias], epsilon=1e-3)
    case("skip_layer_plain", "SkipLayerNormalization", [x, skip, scale])
    outputs = ["y", "", "", "s"]
    case("skip_layer_sum", "SkipLayerNormalization", [x, skip, scale, bias, more], outputs=outputs)
    case("skip_layer_broadcast", "SkipLayerNormalization", [x, family.normal(3, 8), scale, bias])
    case("skip_rms", "SkipSimplifiedLayerNormalization", [x, skip, scale], epsilon=1e-3)
    case("skip_rms_sum", "SkipSimplifiedLayerNormalization", [x, skip, scale, bias], outputs=outputs)
    case("rms", "SimplifiedLayerNormalization", [x, scale], domain="", opset=17, epsilon=1e-3)
    case("rms_results", "SimplifiedLayerNormalization", [x, family.normal(3, 8)], domain="", opset=17, outputs=2, axis=1)
    case("layer_opset_13", "LayerNormalization", [x, scale, bias], domain="", opset=13)

    ids, segments = (family.integers(0, 7, 2, 5, dtype=np.int32), family.integers(0, 2, 2, 5, dtype=np.int32))
    tables = [family.normal(7, 8), family.normal(9, 8), family.normal(2, 8)]
    norm = [family.normal(8), family.normal(8)]
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    places = family.integers(0, 9, 2, 5, dtype=np.int32)
    embed = "EmbedLayerNormalization"
    case("embed", embed, [ids, segments, *tables, *norm], outputs=2)
    case("embed_mask", embed, [ids, segments, *tables, *norm, mask], outputs=2, epsilon=1e-3)
    case("embed_places", embed, [ids, None, *tables[:2], None, *norm, mask, places], outputs=3)

    def lstm(name, columns, dtype=np.int8, direction="forward", h0=False):
        steps, batch, size, hidden = 4, 1, 5, 6  # what shares a scale in a batch, onnxruntime's threads decide
        both = 2 if direction == "bidirectional" else 1
        low, high = (0, 256) if dtype == np.uint8 else (-127, 128)
        weights = [family.integers(low, high, both, k, 4 * hidden, dtype=dtype) for k in (size, hidden)]
        shape = (both, 4 * hidden) if columns else (both,)
        scales = [family.uniform(*shape, low=0.002, high=0.006) for _ in weights]
        zeros = [np.full(shape, 128 if dtype == np.uint8 else 0, dtype) for _ in weights]
        state = [family.normal(both, batch, hidden) if h0 else None for _ in range(2)]
        bias = family.normal(both, 8 * hidden)
        operands = [family.normal(steps, batch, size), *weights, bias, None, *state, None]
        operands += [scales[0], zeros[0], scales[1], zeros[1]]
        known = (1, 2, 3, 8, 9, 10, 11)
        more = {"hidden_size": hidden, "direction": direction, "known": known, "outputs": 3}
        case(f"lstm_{name}", "DynamicQuantizeLSTM", operands, **more)

    lstm("plain", columns=False)
    lstm("bytes", columns=False, dtype=np.uint8, h0=True)
    lstm("columns", columns=True, h0=True)
    lstm("both_ways", columns=True, direction="bidirectional")
