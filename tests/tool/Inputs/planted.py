"""Runs that stop at a nan or an infinity, and what the message says of where it comes from.

    planted.py SINTER [OPTION...]      options of `sinter run`: --device=cpu, --device=cuda; needs the tool alone

In each case one operation makes what is bad, most of them inside a kernel of several operations; the inputs are files of this script. The
message has to name the kernel, the operation and its value; where a library runs it, or the compiler has put its own operations in its place, the
kernel, with its value among those that it is made of. In the cases of BROUGHT an input is bad already, and the message has to say so and to accuse nobody. The last line is
"N cases".
"""

import os
import re
import struct
import subprocess
import sys
import tempfile

INF, NAN = float("inf"), float("nan")
AT = 8  # element [1, 2] of f32[4, 6]
SIGNS = {AT: 0.0, AT + 1: -0.0}  # what is divided by it becomes inf and -inf
ROW = range(6, 12)  # row 1

# name, what stops the run, body of the graph (inputs %x and %y are f32[4, 6]), elements of x and of y that are no ordinary numbers, operation,
# value
ELEMENTS = [
    ("log of a negative", "nan", "%a = add %x, %y %b = log %a %z = mul %b, 2.0", {AT: -3}, {AT: 1}, "log", "%b"),
    ("root of a negative", "nan", "%a = sub %x, %y %b = sqrt %a %z = exp %b", {AT: 1}, {AT: 2}, "sqrt", "%b"),
    ("reciprocal root of a negative", "nan", "%a = rsqrt %x %z = add %a, %y", {AT: -1}, {}, "rsqrt", "%a"),
    ("0 / 0", "nan", "%a = sub %x, %y %b = div %a, %a %z = add %b, 1.0", {AT: 2}, {AT: 2}, "div", "%b"),
    ("0 * inf", "nan", "%a = div 1.0, %x %b = mul %a, %y %z = neg %b", {AT: 0}, {AT: 0}, "mul", "%b"),
    ("inf - inf", "nan", "%a = exp %x %b = exp %y %c = sub %a, %b %z = mul %c, 0.5", {AT: 100}, {AT: 100}, "sub", "%c"),
    ("inf + -inf", "nan", "%a = exp %x %b = neg %a %c = add %a, %b %z = abs %c", {AT: 200}, {}, "add", "%c"),
    ("inf / inf", "nan", "%a = exp %x %b = exp %y %c = div %a, %b %z = abs %c", {AT: 100}, {AT: 99}, "div", "%c"),
    ("arc sine outside", "nan", "%a = mul %x, %y %b = asin %a %z = sin %b", {AT: 1.5}, {AT: 1}, "asin", "%b"),
    ("arc cosine outside", "nan", "%a = mul %x, %y %b = acos %a %z = cos %b", {AT: -1.5}, {AT: 1}, "acos", "%b"),
    ("log1p below -1", "nan", "%a = add %x, %y %b = log1p %a %z = neg %b", {AT: -3}, {AT: 1}, "log1p", "%b"),
    ("acosh below 1", "nan", "%a = acosh %x %z = add %a, %y", {AT: 0.5}, {}, "acosh", "%a"),
    ("atanh outside", "nan", "%a = atanh %x %z = add %a, %y", {AT: 1.5}, {}, "atanh", "%a"),
    ("power of a negative", "nan", "%a = pow %x, %y %z = add %a, 1.0", {AT: -2}, {AT: 0.5}, "pow", "%a"),
    ("remainder by 0", "nan", "%a = fmod %x, %y %z = add %a, 1.0", {}, {AT: 0}, "fmod", "%a"),
    ("sine of an infinity", "nan", "%a = div %y, %x %b = sin %a %z = add %b, 1.0", {AT: 0}, {}, "sin", "%b"),
    ("inf - inf in a sum", "nan", "%a = div %y, %x %s = sum %a axes=[1] %z = mul %s, 2.0", SIGNS, {}, "sum", "%s"),
    ("log in a sum", "nan", "%a = log %x %b = mul %a, %y %s = sum %b axes=[1] %z = exp %s", {AT: -1}, {}, "log", "%a"),
    ("log behind a maximum of rows", "nan", "%m = amax %x axes=[1] keepdim=true %d = sub %x, %m %l = log %d %z = add %l, %y", {}, {}, "log", "%l"),
    ("inf - inf in a prefix", "nan", "%a = div %y, %x %c = cumsum %a axis=1 %z = mul %c, 0.5", SIGNS, {}, "cumsum|sum", "%c"),
    ("division by 0", "infinity", "%a = sub %x, 1.0 %b = div %y, %a %z = neg %b", {AT: 1}, {}, "div", "%b"),
    ("exponential that is too large", "infinity", "%a = mul %x, %y %b = exp %a %z = add %b, 1.0", {AT: 90}, {AT: 1}, "exp", "%b"),
    ("log of 0", "infinity", "%a = sub %x, %y %b = log %a %z = neg %b", {AT: 2}, {AT: 2}, "log", "%b"),
]

ATTENTION = "%q: f32[2, 3, 32, 16], %k: f32[2, 3, 32, 16], %v: f32[2, 3, 32, 16], %mask: f32[32, 32]"
# Layers that are one kernel: elements of all are 1.25, 0.618, 0.286, 0.035, -0.313, and then no root is left.
LAYERS = " ".join(f"%p{k} = matmul %{f'l{k - 1}' if k > 1 else 'x'}, %w %r{k} = sqrt %p{k} %l{k} = sub %r{k}, 0.5" for k in range(1, 8))
STEP = "%h = repeat_state %h0 repeat=1 index=0 %n = repeat_slice %x repeat=1 axis=0 "

# name, what stops the run, inputs, body, elements by input, operation, value
CLASSES = [
    ("softmax of an infinity", "nan", "%x: f32[4, 6]", "%a = div 1.0, %x %z = softmax %a axis=1", {"x": {AT: 0}}, "sub", "%z"),
    ("log_softmax of nothing but -inf", "nan", "%x: f32[4, 6]", "%a = log %x %z = log_softmax %a axis=1", {"x": dict.fromkeys(ROW, 0)}, "sub", "%z"),
    ("product with an infinity", "nan", "%x: f32[4, 6], %w: f32[6, 5]", "%a = div 1.0, %x %p = matmul %a, %w %z = neg %p", {"x": {AT: 0}, "w": {12: 0}}, "matmul|mul", "%p"),
    ("product that cancels", "nan", "%x: f32[64, 96], %w: f32[96, 80]", "%a = exp %x %z = matmul %a, %w", {"x": {96: 100, 97: 100}, "w": {0: 1, 80: -1}}, "matmul|sum|add", "%z"),
    ("product of bf16 that is too large", "infinity", "%x: bf16[64, 64], %w: bf16[64, 64]", "%p = matmul %x, %w %z = neg %p", {"x": {0: 3e38}, "w": {0: 30}}, "matmul|mul|cast", "%p"),
    ("convolution with an infinity", "nan", "%x: f32[1, 3, 9, 9], %w: f32[4, 3, 3, 3]", "%a = div 1.0, %x %z = conv %a, %w", {"x": {40: 0}, "w": {4: 0}}, "conv|mul", "%z"),
    ("attention behind a mask of everything", "nan", ATTENTION, "%t = permute %k perm=[0, 1, 3, 2] %s = matmul %q, %t %m = add %s, %mask %p = softmax %m axis=3 %z = matmul %p, %v",
     {"mask": dict.fromkeys(range(32), -INF)}, "sub|mul|div", "%p|%z"),
    ("layer norm of zeroes, no eps", "nan", "%x: f32[4, 6], %w: f32[6], %b: f32[6]", "%z = layer_norm %x, %w, %b eps=0", {"x": dict.fromkeys(ROW, 0)}, "mul", "%z"),
    ("RMS norm of zeros, no eps", "nan", "%x: f32[4, 6], %w: f32[6]", "%n = rms_norm %x, %w eps=0 %z = add %n, 1.0", {"x": dict.fromkeys(ROW, 0)}, "mul", "%n"),
    ("batch norm with a negative variance", "nan", "%x: f32[2, 3, 4, 4], %c: f32[3], %v: f32[3]", "%n = batch_norm %x, %c, %c, %c, %v eps=1e-5 %z = relu %n", {"v": {1: -1}}, "rsqrt", "%n"),
    ("variance of one element", "nan", "%x: f32[4, 1]", "%v = var %x axes=[1] %z = sqrt %v", {}, "div", "%v"),
    ("mean of nothing", "nan", "%x: f32[4, 0]", "%m = mean %x axes=[1] %z = add %m, 1.0", {}, "copy", "%m"),
    ("sum of columns that cancels", "nan", "%x: f32[300, 33]", "%a = div 1.0, %x %s = sum %a axes=[0] %z = neg %s", {"x": {5: 0.0, 3305: -0.0}}, "sum", "%s"),
    ("long sum that cancels", "nan", "%x: f32[200000]", "%a = div 1.0, %x %s = sum %a axes=[0] %z = neg %s", {"x": {7: 0.0, 150000: -0.0}}, "sum", "%s"),
    ("product of elements, 0 * inf", "nan", "%x: f32[4, 6]", "%a = exp %x %p = prod %a axes=[1] %z = neg %p", {"x": {AT: 100, AT + 1: -200}}, "prod", "%p"),
    ("prefix of products, 0 * inf", "nan", "%x: f32[4, 6]", "%a = exp %x %p = cumprod %a axis=1 %z = neg %p", {"x": {AT: 100, AT + 1: -200}}, "cumprod|prod", "%p"),
    ("long prefix that cancels", "nan", "%x: f32[3, 20000]", "%a = div 1.0, %x %z = cumsum %a axis=1", {"x": {50: 0.0, 9000: -0.0}}, "cumsum|sum|add", "%z"),
    ("scatter_sum that cancels", "nan", "%x: f32[4, 6], %i: i64[2], %u: f32[2, 6]", "%a = div 1.0, %x %z = scatter_sum %a, %i, %u", {"x": {AT: 0}, "i": {0: 0, 1: 1}, "u": {AT: -INF}}, "add|sum", "%z"),
    ("scatter of a log", "nan", "%x: f32[4, 6], %i: i64[2], %u: f32[2, 6]", "%l = log %u %z = scatter %x, %i, %l", {"i": {0: 0, 1: 2}, "u": {AT: -1}}, "log", "%l"),
    ("log behind a gather", "nan", "%x: f32[4, 6], %i: i64[3]", "%g = index_select %x, %i axis=0 %l = log %g %z = neg %l", {"x": {AT: -1}, "i": {0: 2, 1: 1, 2: 3}}, "log", "%l"),
    ("log behind a sort", "nan", "%x: f32[4, 6]", "%t = sort %x axis=1 %v = project %t index=0 %l = log %v %z = neg %l", {"x": {AT: -1}}, "log", "%l"),
    ("log in a part of a concat", "nan", "%x: f32[4, 6], %y: f32[4, 6]", "%l = log %x %z = concat %y, %l axis=1", {"x": {AT: -1}}, "log", "%l"),
    ("root in a step of a repeat", "nan", "%x: f32[7, 5], %h0: f32[5]", STEP + "%s = sub %h, %n %r = sqrt %s %q = repeat %h, %r, %r repeat=1 states=1 trip=[7] %z = project %q index=1", {"h0": dict.fromkeys(range(5), 4)}, "sqrt", "%r"),
    ("root in the fifth call of a kernel", "nan", "%x: f32[64, 64], %w: f32[64, 64]", LAYERS + " %z = neg %l7", {"x": dict.fromkeys(range(4096), 1.25), "w": dict.fromkeys(range(4096), 1 / 64)}, "sqrt", "%r5"),
    ("cast to a type that is smaller", "infinity", "%x: f32[4, 6]", "%a = mul %x, 2.0 %c = cast %a dtype=f16 %z = neg %c", {"x": {AT: 50000}}, "cast", "%z"),
    ("root of a negative in f16", "nan", "%x: f16[4, 6], %y: f16[4, 6]", "%a = sub %x, %y %b = sqrt %a %z = abs %b", {"x": {AT: 50}, "y": {AT: 60}}, "sqrt", "%b"),
    ("log of a negative in f64", "nan", "%x: f64[4, 6]", "%a = neg %x %b = log %a %z = neg %b", {"x": {k: -2 for k in range(24) if k != AT}}, "log", "%b"),
    ("the second of two graphs in one", "nan", "%x: f32[4, 6], %y: f32[50]", "%a = exp %x %l = sqrt %y %z = neg %l", {"y": {41: -1}}, "sqrt", "%l"),
]

# The same, and the input that is bad already.
BROUGHT = [
    ("gather of a nan", "nan", "%x: f32[4, 6], %i: i64[3]", "%g = index_select %x, %i axis=0 %z = neg %g", {"x": {AT: NAN}, "i": {0: 2, 1: 1, 2: 3}}, "x"),
    ("sum of a nan", "nan", "%x: f32[4, 6], %y: f32[4, 6]", "%a = mul %x, %y %z = sum %a axes=[1]", {"y": {AT: NAN}}, "y"),
    ("product with an infinity that was there", "infinity", "%x: f32[4, 6], %w: f32[6, 5]", "%z = matmul %x, %w", {"w": {12: INF}}, "w"),
]

CODES = {"f16": ("<f2", "e"), "bf16": ("<u2", "H"), "f32": ("<f4", "f"), "f64": ("<f8", "d"), "i64": ("<i8", "q")}


def bf16(value):
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def write(path, dtype, shape, planted):
    count = 1
    for size in shape:
        count *= size
    values = [planted.get(k, 0 if dtype == "i64" else 1.25 + 0.125 * (k % 24)) for k in range(count)]
    code, letter = CODES[dtype]
    header = f"{{'descr': '{code}', 'fortran_order': False, 'shape': ({''.join(f'{size},' for size in shape)}), }}"
    header += " " * ((64 - (len(header) + 11) % 64) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{count}{letter}", *(map(bf16, values) if dtype == "bf16" else values)))


def error_of(sinter, options, folder, stop, inputs, body, planted):
    graph = os.path.join(folder, "graph.sn")
    given = []
    for name, dtype, shape in re.findall(r"%(\w+): (\w+)\[([\d, ]*)\]", inputs):
        path = os.path.join(folder, name + ".npy")
        write(path, dtype, [int(size) for size in shape.split(",") if size.strip()], planted.get(name, {}))
        given += ["--input", f"{name}={path}"]
    results = "z = %z, e = %a" if "%a = exp %x %l" in body else "z = %z"  # two kernels that share nothing
    with open(graph, "w", encoding="utf-8") as file:
        file.write(f"graph @g({inputs}) {{ {body} return {results} }}")
    run = subprocess.run([sinter, "run", *options, f"--debug=stop-at-{stop}", *given, graph], capture_output=True, text=True, check=False)
    return run.stderr.strip() or run.stdout.strip() if run.returncode == 1 else f"exit status {run.returncode}: {run.stderr}{run.stdout}"


HEAD = re.compile(r"sinter: error: kernel \w+ \((.*?); from (%.*?)\) writes (nan|an infinity) to \w+ at \[.*?\]; (.*)")


def is_named(error, operation, value):
    """The kernel with its values, nothing bad in what it reads, and the operation."""
    found = HEAD.fullmatch(error)
    operations, values = set(operation.split("|")), set(value.split("|"))
    if not found or not found.group(4).startswith("there was none in what it reads") or not values & set(found.group(2).split(", ")):
        return False
    maker = re.search(r"; (\w+) makes it(?:, of (%\w+))?$", found.group(4))
    if maker:
        return maker.group(1) in operations and maker.group(2) in {*values, None}
    return any(o in operations for o in re.findall(r"matmul|conv|copy", found.group(1)))


def is_brought(error, source):
    found = HEAD.fullmatch(error)
    return bool(found) and found.group(4) == f"there was one in {source} already"


def main():
    sinter, options, failed = sys.argv[1], sys.argv[2:], 0
    both = "%x: f32[4, 6], %y: f32[4, 6]"
    cases = [(name, stop, both, body, {"x": x, "y": y}, operation, value) for name, stop, body, x, y, operation, value in ELEMENTS] + CLASSES
    with tempfile.TemporaryDirectory() as folder:
        for name, stop, inputs, body, planted, operation, value in cases:
            error = error_of(sinter, options, folder, stop, inputs, body, planted)
            if not is_named(error, operation, value):
                print(f"{name}: {operation} of {value} is wanted: {error}")
                failed += 1
        for name, stop, inputs, body, planted, source in BROUGHT:
            error = error_of(sinter, options, folder, stop, inputs, body, planted)
            if not is_brought(error, source):
                print(f"{name}: {source} is wanted: {error}")
                failed += 1
    count = len(cases) + len(BROUGHT)
    print(f"{count} cases" if not failed else f"{failed} of {count} cases failed")
    return 1 if failed else 0


sys.exit(main())
