"""Write ONNX models, and tests in the layout of the ONNX project's: onnx_models.py DIR

DIR/matmul.onnx       y[N, 40] = x[N, 3] w[3, 40], w = 0, 1, 2, ...
DIR/axes.onnx         y = Unsqueeze(x[2], axes), axes an input
DIR/odd.onnx          two operators that there are not, an attribute that there is not
DIR/suite/test_*      good, wrong (another output), type (another type), odd (not supported), cut (an input that ends early)
"""

import os
import struct
import sys

F32, I64 = 1, 7


def varint(n):
    n &= 2**64 - 1
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    """A number, a text, or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def value(name, dtype, dims):
    shape = b"".join(field(1, field(2 if isinstance(d, str) else 1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


def tensor(name, dtype, dims, numbers):
    data = struct.pack(f"<{len(numbers)}{'f' if dtype == F32 else 'q'}", *numbers)
    return b"".join(field(1, d) for d in dims) + field(2, dtype) + field(8, name) + field(9, data)


def node(op, inputs, output, attributes=b"", domain=""):
    names = b"".join(field(1, name) for name in inputs.split())
    return names + field(2, output) + field(4, op) + attributes + (field(7, domain) if domain else b"")


def model(nodes, inputs, outputs, initializers=()):
    parts = [(1, nodes), (5, initializers), (11, inputs), (12, outputs)]
    graph = b"".join(field(number, message) for number, messages in parts for message in messages)
    return field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, graph)


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(data)


out = sys.argv[1]
w = tensor("w", F32, [3, 40], range(120))
write(f"{out}/matmul.onnx", model([node("MatMul", "x w", "y")], [value("x", F32, ["N", 3])], [value("y", F32, ["N", 40])], [w]))

write(f"{out}/axes.onnx", model([node("Unsqueeze", "x axes", "y")], [value("x", F32, [2]), value("axes", I64, [1])], [value("y", F32, [])]))

slope = field(5, field(1, "slope") + field(3, 1))
odd = [node("Magic", "x", "a", domain="com.acme"), node("Magic", "x", "b", domain="com.acme"), node("Relu", "x", "y", slope)]
odd = model(odd, [value("x", F32, [2])], [value("y", F32, [2])])
write(f"{out}/odd.onnx", odd)

double = model([node("Add", "x x", "y")], [value("x", F32, [2])], [value("y", F32, [2])])
x, y = tensor("x", F32, [2], [1, 2]), tensor("y", F32, [2], [2, 4])
tests = {
    "good": (double, x, y),
    "wrong": (double, x, tensor("y", F32, [2], [2, 5])),
    "type": (double, x, tensor("y", I64, [2], [2, 4])),
    "odd": (odd, x, y),
    "cut": (double, x[:-1], y),
}
for name, (m, given, want) in tests.items():
    write(f"{out}/suite/test_{name}/model.onnx", m)
    write(f"{out}/suite/test_{name}/test_data_set_0/input_0.pb", given)
    write(f"{out}/suite/test_{name}/test_data_set_0/output_0.pb", want)
