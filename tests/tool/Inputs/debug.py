"""What debugging saves of a graph of three kernels is what the evaluator has, in every way to run it; every way says the same.

    debug.py SINTER BUILD ROOT FOLDER [--device=cuda]     on a CUDA device
    debug.py SINTER BUILD ROOT FOLDER --log-cuda          on the driver of tests/log_cuda, where kernels do nothing: C source and image say the same

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


def c_program(sinter, build, root, folder, graph, debug, target="host", *libraries):
    """The program of the C source that libsinter-rt runs."""
    source = os.path.join(folder, "source-" + target)
    run(sinter, "compile", graph, f"--target={target}", "--emit-c", source, *debug)
    program = os.path.join(source, "program")
    on = ["-DON_CUDA"] if target != "host" else []
    run("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", *on, "-x", "c", f"{root}/tests/tool/Inputs/debug_main.txt", f"{source}/g.c", "-x", "none", f"-I{source}",
        f"-I{root}/include", f"-L{build}", "-lsinter-rt", f"-Wl,-rpath,{build}", *libraries, "-o", program)
    return program


def write_raw(path, numbers):
    with open(path, "wb") as file:
        file.write(struct.pack(f"<{len(numbers)}f", *numbers))
    return path


def said(done):
    return re.sub("^(sinter|rt-run): ", "", done.stderr, flags=re.M)


def log_cuda(sinter, build, root, folder):
    fake = os.path.join(build, "tests", "log_cuda")
    graph, image, x = (os.path.join(folder, name) for name in ("graph.sn", "graph.snb", "x.npy"))
    open(graph, "w").write(HEAD + "y = %y\n}\n")
    run(sinter, "compile", graph, "--target=sm_90a", "-o", image)
    run(sinter, "eval", "--random", "3", "--graph", "--output-dir", folder, whole_graph(folder))
    options = ("--debug=names,print", "--debug-kernels=k0,k1")
    program = c_program(sinter, build, root, folder, graph, options, "sm_90a", f"-L{fake}", "-lcuda")
    lines = [said(run(*command, LD_LIBRARY_PATH=fake)) for command in (
        (program, write_raw(f"{folder}/x.raw", read(x)[1])), (f"{build}/tests/rt-run", "--cuda", *options, image, f"in:x={x}"))]
    assert lines[0] == lines[1] and "0 k0 (" in lines[0] and "k1" in lines[0] and "k2" not in lines[0], lines
    print("the image and its C source say the same")


def source_stops(sinter, build, root, folder, graph):
    """C source that stops at an infinity, and nothing of debugging in the text of one without."""
    x = write_raw(f"{folder}/large.raw", [3e38] * 240)
    program = c_program(sinter, build, root, folder + "/stops", graph, ["--debug=stop-at-infinity"])
    done = subprocess.run([program, x], capture_output=True, text=True)
    assert done.returncode == 1 and re.search(r"error: kernel k0 \(.*\) writes an infinity to .* at \[0, 1\]; there was none", done.stderr), done
    run(sinter, "compile", graph, "--emit-c", f"{folder}/plain")
    text = open(f"{folder}/plain/g.c").read() + open(f"{folder}/plain/g.h").read()
    assert not re.search("debug|say|log|stdio", text)


def whole_graph(folder):
    path = os.path.join(folder, "whole.sn")
    open(path, "w").write((HEAD + "x = %x0, t = %t, s = %s, y = %y\n}\n").replace("  return", "  %x0 = copy %x\n  return"))
    return path


def main():
    sinter, build, root, folder, *how = sys.argv[1:]
    os.makedirs(folder)
    if how == ["--log-cuda"]:
        return log_cuda(sinter, build, root, folder)
    cuda = how == ["--device=cuda"]
    device, rt_run = "--device=cuda" if cuda else "--device=cpu", f"{build}/tests/rt-run"
    graph, inputs, image = (os.path.join(folder, name) for name in ("graph.sn", "inputs", "graph.snb"))
    open(graph, "w").write(HEAD + "y = %y\n}\n")
    os.makedirs(inputs)
    run(sinter, "eval", "--random", "3", "--graph", "--output-dir", inputs, whole_graph(folder))
    want = {name: read(f"{inputs}/{name}.npy") for name in "xtsy"}
    values, outputs, lines = ("--input", f"x={inputs}/x.npy"), {}, {}
    target = "device" if cuda else "host"
    run(sinter, "compile", graph, f"--target={target}", "-o", image)
    run(sinter, "run", device, *values, "--output-dir", folder, graph)
    debug = ("--debug=print,save", "--debug-dir=DIR")
    source = c_program(sinter, build, root, folder, graph, [o.replace("DIR", f"{folder}/source") for o in debug], target,
                       *(["-l:libcuda.so.1"] if cuda else []))
    ways = {
        "option": (sinter, "run", device, *debug, *values, graph),
        "environment": (sinter, "run", device, *values, graph),
        "image": (sinter, "run", device, *debug, *values, image),
        "rt": (rt_run, "--cuda" if cuda else "--cpu", *debug, image, f"in:x={inputs}/x.npy", f"out:y={folder}/y.npy"),
        "source": (source, write_raw(f"{folder}/x.raw", want["x"][1])),
    }
    if not cuda:
        ways["gpu"] = (sinter, "run", "--cpu-schedule=gpu", *debug, *values, graph)
    for way, command in ways.items():
        to = os.path.join(folder, way)
        command = [part.replace("DIR", to) for part in command]
        environment = {"SINTER_DEBUG": "print,save", "SINTER_DEBUG_DIR": to} if way == "environment" else {}
        lines[way] = said(run(*command, **environment))
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
    for way in ("environment", "image", "rt", "source"):
        assert outputs[way] == outputs["option"], way
        assert lines[way] == lines["option"], (lines[way], lines["option"])
    if not cuda:
        source_stops(sinter, build, root, folder, graph)
    print("three kernels, as the evaluator has them;", len(ways), "ways to run")


main()
