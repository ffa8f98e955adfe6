"""RNN, GRU, LSTM. Oracle: onnxruntime; with layout 1, which it lacks, its results of layout 0, transposed."""

import numpy as np

from family import F32

ORACLE = "runtime"
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def swap(a):
    """From layout 0 to layout 1: the batch comes first."""
    return a.transpose(2, 0, 1, 3) if a.ndim == 4 else a.transpose(1, 0, 2)


def recurrent(
    family,
    name,
    op,
    bias=True,
    lengths=None,
    h0=False,
    c0=False,
    peepholes=False,
    layout=0,
    opset=14,
    outputs=None,
    **attributes,
):
    steps, batch, size, hidden = 5, 3, 4, 6
    both = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[op] * hidden
    inputs = [
        family.normal(steps, batch, size),
        family.normal(both, rows, size) * F32(0.5),
        family.normal(both, rows, hidden) * F32(0.5),
    ]
    inputs.append(family.normal(both, 2 * rows) if bias else None)
    inputs.append(None if lengths is None else np.array(lengths, np.int32))
    inputs.append(family.normal(both, batch, hidden) if h0 else None)
    if op == "LSTM":
        inputs.append(family.normal(both, batch, hidden) if c0 else None)
        inputs.append(family.normal(both, 3 * hidden) if peepholes else None)
    attributes["hidden_size"] = hidden
    attributes["outputs"] = outputs or (3 if op == "LSTM" else 2)
    want = None
    if layout:
        want = [swap(w) for w in family.expected(op, inputs, opset, **attributes)]
        inputs = [swap(a) if k in (0, 5, 6) and a is not None else a for k, a in enumerate(inputs)]
        attributes["layout"] = layout
    family.case(f"{op.lower()}_{name}", op, inputs, opset, want, known=(1, 2, 3, 7), **attributes)


def make(family):
    def case(name, op, **how):
        recurrent(family, name, op, **how)

    for op in GATES:
        c0 = {"c0": True} if op == "LSTM" else {}
        case("no_bias", op, bias=False)
        case("bias", op)
        case("reverse", op, h0=True, direction="reverse", **c0)
        case("bidirectional", op, h0=True, direction="bidirectional", **c0)
        case("lengths", op, lengths=[3, 5, 1], h0=True, **c0)
        case("lengths_reverse", op, lengths=[3, 5, 1], h0=True, direction="reverse", **c0)
        case("lengths_bidirectional", op, lengths=[2, 1, 5], direction="bidirectional")
        case("clip", op, clip=0.4)
        case("layout1_bidirectional", op, h0=True, layout=1, direction="bidirectional", **c0)
        case("opset7_y_only", op, opset=7, outputs=["y"])
        case("h_only", op, outputs=["", "h"])
    for name, alpha, beta in [
        ("Relu", [], []),
        ("Affine", [0.5], [0.1]),
        ("ThresholdedRelu", [0.3], []),
        ("ScaledTanh", [0.7], [1.2]),
        ("HardSigmoid", [0.3], [0.4]),
        ("Elu", [0.8], []),
        ("Softsign", [], []),
        ("Softplus", [], []),
        ("LeakyRelu", [0.2], []),
        ("Sigmoid", [], []),
    ]:
        parameters = {"activation_alpha": alpha} if alpha else {}
        parameters |= {"activation_beta": beta} if beta else {}
        case(name.lower(), "RNN", activations=[name], **parameters)
    two = {"activations": ["LeakyRelu", "HardSigmoid"], "activation_alpha": [0.1, 0.3], "activation_beta": [0.4]}
    case("two_activations", "RNN", direction="bidirectional", **two)
    case("linear_before_reset", "GRU", linear_before_reset=1)
    case("linear_before_reset_no_bias", "GRU", linear_before_reset=1, bias=False, h0=True)
    case(
        "linear_before_reset_bidirectional", "GRU", linear_before_reset=1, direction="bidirectional", lengths=[2, 3, 4]
    )
    case("activations", "GRU", activations=["HardSigmoid", "Softsign"])
    case("peepholes", "LSTM", peepholes=True, c0=True, h0=True)
    case("peepholes_bidirectional", "LSTM", peepholes=True, direction="bidirectional", lengths=[5, 2, 3])
    case("input_forget", "LSTM", peepholes=True, input_forget=1)
    case("clip_peepholes", "LSTM", peepholes=True, clip=0.3)
    case("activations", "LSTM", activations=["HardSigmoid", "Softsign", "Tanh"])
    case("c_only", "LSTM", outputs=["", "", "c"])
