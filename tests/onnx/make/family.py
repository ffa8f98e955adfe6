"""One family of test cases: its random numbers, its oracle, and how a case is written.

    family = Family(out, "shapes")
    family.case("flatten_axis_2", "Flatten", [family.normal(2, 3, 4)], 13, axis=2)

writes OUT/shapes/test_flatten_axis_2/ in the layout of the ONNX project's own tests: model.onnx (a graph of the one
node), test_data_set_0/input_<k>.pb and output_<k>.pb.
"""

import pathlib
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

F16, F32, F64 = np.float16, np.float32, np.float64


def ints(values):
    """An operand of sizes, axes or indices."""
    return np.array(values, np.int64)


def scalar(value, dtype):
    return np.array(value, dtype)


def evaluate(model, feeds, oracle):
    """The outputs by the oracle: onnx.reference, or onnxruntime ("runtime"; what it cannot run, the reference)."""
    if oracle == "runtime":
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
        except Exception:  # its errors have no common class
            pass
    return ReferenceEvaluator(model).run(None, feeds)


class Node:
    """A node with its operands: arrays, None where one is absent; `known`: numbers of those that are initializers;
    `more`: attributes whose names are those of arguments here."""

    def __init__(self, op, inputs, opset, outputs=1, known=(), domain="", more=None, **attributes):
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        names = ["" if a is None else f"x{k}" for k, a in enumerate(inputs)]
        present = [(k, n, a) for k, (n, a) in enumerate(zip(names, inputs)) if a is not None]
        outputs = [f"y{k}" for k in range(outputs)] if isinstance(outputs, int) else outputs
        self.feeds = {n: a for k, n, a in present if k not in known}
        self.initializers = [numpy_helper.from_array(a, n) for k, n, a in present if k in known]
        self.outputs = [n for n in outputs if n]
        self.node = helper.make_node(op, names, outputs, domain=domain, **attributes, **(more or {}))
        self.opsets = (
            [helper.make_opsetid("", 17), helper.make_opsetid(domain, opset)]
            if domain
            else [helper.make_opsetid("", opset)]
        )

    def model(self, want=None):
        """The model; without outputs of which types and shapes could be declared, they are left open."""
        info = lambda n, a: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        inputs = [info(n, a) for n, a in self.feeds.items()]
        results = (
            [onnx.ValueInfoProto(name=n) for n in self.outputs] if want is None else list(map(info, self.outputs, want))
        )
        graph = helper.make_graph([self.node], "g", inputs, results, self.initializers)
        return helper.make_model(graph, opset_imports=self.opsets, ir_version=8)


class Family:
    def __init__(self, out, name, oracle="reference"):
        self.folder = pathlib.Path(out) / name
        self.oracle = oracle
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.count = 0

    def normal(self, *shape, dtype=F32):
        return self.rng.standard_normal(shape).astype(dtype)

    def positive(self, *shape, dtype=F32):
        return (np.abs(self.rng.standard_normal(shape)) + 0.1).astype(dtype)

    def uniform(self, *shape, low=-2, high=2, dtype=F32):
        return self.rng.uniform(low, high, shape).astype(dtype)

    def integers(self, low, high, *shape, dtype=np.int64):
        """low <= integers < high."""
        return self.rng.integers(low, high, shape).astype(dtype)

    def expected(self, *node, **attributes):
        """What the oracle computes for Node(...)."""
        n = Node(*node, **attributes)
        return evaluate(n.model(), n.feeds, self.oracle)

    def case(self, name, op, inputs, opset, want=None, oracle=None, **attributes):
        """Writes a case; want: the outputs, where they are not the oracle's; oracle: where it is not the family's."""
        node = Node(op, inputs, opset, **attributes)
        if want is None:
            want = evaluate(node.model(), node.feeds, oracle or self.oracle)
        want = [np.ascontiguousarray(w).reshape(np.shape(w)) for w in want]
        folder = self.folder / f"test_{name}"
        data = folder / "test_data_set_0"
        data.mkdir(parents=True)  # a second case of the name fails here
        onnx.save(node.model(want), folder / "model.onnx")
        for k, (n, a) in enumerate(node.feeds.items()):
            (data / f"input_{k}.pb").write_bytes(numpy_helper.from_array(a, n).SerializeToString())
        for k, (n, a) in enumerate(zip(node.outputs, want, strict=True)):
            (data / f"output_{k}.pb").write_bytes(numpy_helper.from_array(a, n).SerializeToString())
        self.count += 1
