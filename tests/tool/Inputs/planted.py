"""Runs that stop at a nan or an infinity, and what the message says of where it comes from.

    planted.py SINTER [OPTION...]

Each case is a graph in which one operation makes what is bad, inside a kernel of several operations; the inputs are files of this
script. The message has to name the operation and its value. The last line is "N cases".
"""

import os
import struct
import subprocess
import sys
import tempfile

NAN, INF = float("nan"), float("inf")

# name, what stops the run, body of the graph (inputs %x and %y are f32[4, 6]), elements [1, 2] of x and of y, operation, value
CASES = [
    ("log of a negative", "nan", "%a = add %x, %y %b = log %a %z = mul %b, 2.0", -3, 1, "log", "%b"),
    ("root of a negative", "nan", "%a = sub %x, %y %b = sqrt %a %z = exp %b", 1, 2, "sqrt", "%b"),
    ("reciprocal root of a negative", "nan", "%a = rsqrt %x %z = add %a, %y", -1, 1, "rsqrt", "%a"),
    ("0 / 0", "nan", "%a = sub %x, %y %b = div %a, %a %z = add %b, 1.0", 2, 2, "div", "%b"),
    ("0 * inf", "nan", "%a = div 1.0, %x %b = mul %a, %y %z = neg %b", 0, 0, "mul", "%b"),
    ("inf - inf", "nan", "%a = exp %x %b = exp %y %c = sub %a, %b %z = mul %c, 0.5", 100, 100, "sub", "%c"),
    ("inf + -inf", "nan", "%a = exp %x %b = neg %a %c = add %a, %b %z = abs %c", 200, 1, "add", "%c"),
    ("inf / inf", "nan", "%a = exp %x %b = exp %y %c = div %a, %b %z = abs %c", 100, 99, "div", "%c"),
    ("arc sine outside", "nan", "%a = mul %x, %y %b = asin %a %z = sin %b", 1.5, 1, "asin", "%b"),
    ("arc cosine outside", "nan", "%a = mul %x, %y %b = acos %a %z = cos %b", -1.5, 1, "acos", "%b"),
    ("log1p below -1", "nan", "%a = add %x, %y %b = log1p %a %z = neg %b", -3, 1, "log1p", "%b"),
    ("acosh below 1", "nan", "%a = acosh %x %z = add %a, %y", 0.5, 1, "acosh", "%a"),
    ("atanh outside", "nan", "%a = atanh %x %z = add %a, %y", 1.5, 1, "atanh", "%a"),
    ("power of a negative", "nan", "%a = pow %x, %y %z = add %a, 1.0", -2, 0.5, "pow", "%a"),
    ("remainder by 0", "nan", "%a = fmod %x, %y %z = add %a, 1.0", 2, 0, "fmod", "%a"),
    ("sine of an infinity", "nan", "%a = div %y, %x %b = sin %a %z = add %b, 1.0", 0, 1, "sin", "%b"),
    ("inf - inf in a sum", "nan", "%a = div %y, %x %s = sum %a axes=[1] %z = mul %s, 2.0", "signs", 1, "sum", "%s"),
    ("log in a sum", "nan", "%a = log %x %b = mul %a, %y %s = sum %b axes=[1] %z = exp %s", -1, 1, "log", "%a"),
    ("log behind a maximum of rows", "nan", "%m = amax %x axes=[1] keepdim=true %d = sub %x, %m %l = log %d %z = add %l, %y", 0.5, 1, "log", "%l"),
    ("inf - inf in a prefix", "nan", "%a = div %y, %x %c = cumsum %a axis=1 %z = mul %c, 0.5", "signs", 1, "cumsum|sum", "%c"),
    ("division by 0", "infinity", "%a = sub %x, 1.0 %b = div %y, %a %z = neg %b", 1, 3, "div", "%b"),
    ("exponential that is too large", "infinity", "%a = mul %x, %y %b = exp %a %z = add %b, 1.0", 90, 1, "exp", "%b"),
    ("log of 0", "infinity", "%a = sub %x, %y %b = log %a %z = neg %b", 2, 2, "log", "%b"),
]


def write(path, element):
    rows, columns, at = 4, 6, 1 * 6 + 2
    values = [1.25 + 0.125 * k for k in range(rows * columns)]
    if element == "signs":
        values[at], values[at + 1] = 0.0, -0.0
    else:
        values[at] = element
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 6), }"
    header += " " * ((64 - (len(header) + 11) % 64) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<24f", *values))


def main():
    sinter, options, failed = sys.argv[1], sys.argv[2:], 0
    with tempfile.TemporaryDirectory() as folder:
        x, y, graph = (os.path.join(folder, name) for name in ("x.npy", "y.npy", "graph.sn"))
        for name, stop, body, in_x, in_y, operation, value in CASES:
            write(x, in_x)
            write(y, in_y)
            with open(graph, "w") as f:
                f.write("graph @g(%x: f32[4, 6], %y: f32[4, 6]) {" + body + " return z = %z }")
            command = [sinter, "run", *options, f"--debug=stop-at-{stop}", "--input", f"x={x}", "--input", f"y={y}", graph]
            run = subprocess.run(command, capture_output=True, text=True)
            wanted = [f"; {o} makes it, of {value}\n" for o in operation.split("|")]
            if run.returncode != 1 or "writes" not in run.stderr or not any(w in run.stderr for w in wanted):
                print(f"{name}: {wanted}: {run.returncode} {run.stderr.strip() or run.stdout.strip()}")
                failed += 1
    print(f"{len(CASES)} cases" if not failed else f"{failed} of {len(CASES)} cases failed")
    return 1 if failed else 0


sys.exit(main())
