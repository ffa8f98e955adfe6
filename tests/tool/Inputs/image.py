"""Compile graphs to images; run them here, from the image, and in a process that has libsinter-rt alone: the same bits?

    python3 image.py SINTER RT_RUN FOLDER GRAPH...
"""

import array
import os
import random
import re
import struct
import subprocess
import sys

CODES = {"f32": ("<f4", 4), "f64": ("<f8", 8), "f16": ("<f2", 2), "bf16": ("<u2", 2), "i8": ("|i1", 1), "u8": ("|u1", 1), "bool": ("|b1", 1),
         "i16": ("<i2", 2), "u16": ("<u2", 2), "i32": ("<i4", 4), "u32": ("<u4", 4), "i64": ("<i8", 8), "u64": ("<u8", 8)}


def elements(dtype, n):
    draw = random.Random(n)
    if dtype == "f32":
        return array.array("f", [draw.gauss(0, 1) for _ in range(n)]).tobytes()
    if dtype == "f64":
        return array.array("d", [draw.gauss(0, 1) for _ in range(n)]).tobytes()
    if dtype == "f16":
        return struct.pack(f"<{n}e", *[draw.gauss(0, 1) for _ in range(n)])
    if dtype == "bf16":
        return b"".join(struct.pack("<f", draw.gauss(0, 1))[2:] for _ in range(n))
    size = CODES[dtype][1]
    return b"".join(int(draw.random() < 0.5).to_bytes(size, "little") for _ in range(n))


def write_npy(path, dtype, shape):
    n = 1
    for size in shape:
        n *= size
    head = f"{{'descr': '{CODES[dtype][0]}', 'fortran_order': False, 'shape': ({''.join(f'{s}, ' for s in shape)}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + elements(dtype, n))


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(sinter, rt_run, folder, graph):
    image = os.path.join(folder, "image.snb")
    output(sinter, "compile", graph, "-o", image)
    ports = re.findall(r"^  (input|output) \d+ (\S+): (\w+)\[(.*?)\]", output(sinter, "image", "show", image), re.M)
    inputs, outputs = [], [name for kind, name, _, _ in ports if kind == "output"]
    for kind, name, dtype, shape in ports:
        if kind == "output":
            continue
        path = os.path.join(folder, f"in-{name}.npy")
        write_npy(path, dtype, [int(s) for s in shape.split(", ") if s])
        inputs.append(f"{name}={path}")
    given = [word for text in inputs for word in ("--input", text)]
    wants = []
    for wrapper in ("generated", "interpreter"):
        wants.append(os.path.join(folder, wrapper))
        os.makedirs(wants[-1], exist_ok=True)
        output(sinter, "run", graph, "--device=cpu", f"--wrapper={wrapper}", "--output-dir", wants[-1], *given)
    loaded = os.path.join(folder, "loaded")
    os.makedirs(loaded, exist_ok=True)
    output(sinter, "run", image, "--device=cpu", "--output-dir", loaded, *given)
    for name in outputs:
        files = [open(os.path.join(where, f"{name}.npy"), "rb").read() for where in (*wants, loaded)]
        if len(set(files)) != 1:
            sys.exit(f"{graph}: {name}: wrapper, interpreter and image differ")
    compared = [f"in:{text}" for text in inputs] + [f"out:{name}={os.path.join(wants[0], name)}.npy" for name in outputs]
    text = output(rt_run, "--cpu", image, *compared) + output(rt_run, "--cpu", "--memory", image, *compared)
    if text.count("equal") != 2 * len(outputs):
        sys.exit(f"{graph}: {text}")


def main():
    sinter, rt_run, folder, *graphs = sys.argv[1:]
    for graph in graphs:
        check(sinter, rt_run, folder, graph)
    print(f"{len(graphs)} graphs: equal")


if __name__ == "__main__":
    main()
