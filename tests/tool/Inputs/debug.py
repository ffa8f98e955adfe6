"""What debugging saves of a graph of three kernels is what the evaluator has, in every way to run it; every way says the same.

    debug.py SINTER RT_RUN FOLDER

The graph returns its last value alone; what lies between are the outputs of a second graph of the same nodes, which is evaluated.
"""

import glob
import math
import os
import re
import struct
import subprocess
import sys

HEAD = "graph @g(%x: f32[6, 40]) {\n  %t = cumsum %x axis=1\n  %s = sum %t axes=[0]\n  %l = mul %s, 0.125\n  %y = cumsum %l axis=0\n  return "


def read(path):
    data = open(path, "rb").read()
    head = data[10 : 10 + struct.unpack("<H", data[8:10])[0]].decode()
    assert data[:6] == b"\x93NUMPY" and (10 + len(head)) % 64 == 0 and "'<f4'" in head, head
    shape = [int(n) for n in re.search(r"\(([^)]*)\)", head).group(1).split(",") if n.strip()]
    numbers = struct.unpack(f"<{math.prod(shape)}f", data[10 + len(head) :])
    return shape, numbers


def run(*command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, (command, done.returncode, done.stderr)
    return done


def close(got, want):
    largest = max(abs(w) for w in want)
    return len(got) == len(want) and all(abs(g - w) <= 2e-5 * largest for g, w in zip(got, want))


def saved(folder):
    return {os.path.basename(path): read(path) for path in glob.glob(folder + "/*.npy")}


def main():
    sinter, rt_run, folder = sys.argv[1:]
    os.makedirs(folder)
    graph, whole, inputs = (os.path.join(folder, name) for name in ("graph.sn", "whole.sn", "inputs"))
    open(graph, "w").write(HEAD + "y = %y\n}\n")
    open(whole, "w").write(HEAD + "x = %c, t = %t, s = %s, y = %y\n}\n".replace("%c", "%x0"))
    text = open(whole).read().replace("  return", "  %x0 = copy %x\n  return")
    open(whole, "w").write(text)
    os.makedirs(inputs)
    run(sinter, "eval", "--random", "3", "--graph", "--output-dir", inputs, whole)
    want = {name: read(f"{inputs}/{name}.npy") for name in "xtsy"}
    values, outputs, lines = ("--input", f"x={inputs}/x.npy"), {}, {}
    image = os.path.join(folder, "graph.snb")
    run(sinter, "compile", graph, "--target=host", "-o", image)
    run(sinter, "run", "--device=cpu", *values, "--output-dir", folder, graph)
    ways = {
        "option": (sinter, "run", "--device=cpu", "--debug=print,save", "--debug-dir=DIR", *values, graph),
        "gpu": (sinter, "run", "--cpu-schedule=gpu", "--debug=print,save", "--debug-dir=DIR", *values, graph),
        "environment": (sinter, "run", "--device=cpu", *values, graph),
        "image": (sinter, "run", "--device=cpu", "--debug=print,save", "--debug-dir=DIR", *values, image),
        "rt": (rt_run, "--cpu", "--debug=print,save", "--debug-dir=DIR", image, f"in:x={inputs}/x.npy", f"out:y={folder}/y.npy"),
    }
    for way, command in ways.items():
        to = os.path.join(folder, way)
        command = [part.replace("DIR", to) for part in command]
        environment = {"SINTER_DEBUG": "print,save", "SINTER_DEBUG_DIR": to} if way == "environment" else {}
        lines[way] = re.sub("^(sinter|rt-run): ", "", run(*command, **environment).stderr, flags=re.M)
        outputs[way] = saved(to)
    kernels = {name.split("_")[1] for name in outputs["option"]}
    assert len(kernels) == 3, outputs["option"].keys()
    for way in outputs:
        written = [numbers for name, (_, numbers) in sorted(outputs[way].items()) if "_writes_" in name]
        read_ones = [numbers for name, (_, numbers) in sorted(outputs[way].items()) if "_reads_" in name]
        assert any(close(numbers, want["t"][1]) for numbers in written), way
        assert any(close(numbers, want["s"][1]) or close(numbers, [n / 8 for n in want["s"][1]]) for numbers in written), way
        assert any(close(numbers, want["y"][1]) for numbers in written), way
        assert read_ones[0] == want["x"][1], way
    for way in ("environment", "image", "rt"):
        assert outputs[way] == outputs["option"], way
        assert lines[way] == lines["option"], (lines[way], lines["option"])
    print("three kernels, as the evaluator has them;", len(ways), "ways to run")


main()
