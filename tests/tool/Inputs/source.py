"""Compile graphs to C source without a library, build it with each compiler, and run it: the bits of the interpreter and of the wrapper?

    python3 source.py SINTER BUILD FOLDER GRAPH...
    python3 source.py --device SINTER BUILD FOLDER GRAPH...     on a CUDA device: the bits of `sinter run`

Each graph twice: constants in the C source, and in a file beside. A compiler that is not here is left out; gcc has to be. For a GPU the
source is built against the driver of tests/log_cuda, whose log has to be that of libsinter-rt with an image of the graph.
"""

import os
import re
import shutil
import subprocess
import sys

from image import CODES, output, write_npy

FLAGS = ["-O1", "-Wall", "-Wextra", "-Werror"]
COMPILERS = [("gcc", "-std=c11"), ("clang", "-std=c11"), ("g++", "-std=c++11", "-x", "c++"), ("gcc", "-std=c11", "-fopenmp", "-fPIE", "-pie")]


class Port:
    def __init__(self, kind, name, dtype, shape, rest):
        self.kind, self.name, self.dtype = kind, name, dtype
        self.shape = [int(s) for s in shape.split(", ") if s]
        self.bytes = CODES[dtype][1]
        for size in self.shape:
            self.bytes *= size
        writes = re.search(r"writes (\d+)", rest)
        self.writes = int(writes.group(1)) if writes else -1


def ports_of(sinter, graph, image, target="host"):
    output(sinter, "compile", graph, f"--target={target}", "-o", image)
    found = re.findall(r"^  (input|output) \d+ (\S+): (\w+)\[(.*?)\](.*)$", output(sinter, "image", "show", image), re.M)
    return [Port(*groups) for groups in found]


def elements_of(path):
    with open(path, "rb") as file:
        data = file.read()
    return data[10 + data[8] + 256 * data[9] :]


def main_text(name, inputs, outputs, constants, cuda=False):
    """A program that reads inputs from raw files, runs twice where nothing is written in place, and writes outputs as raw files."""
    given = [f'"{constants}"'] if constants else []
    places = [f"in[{k}]" for k in range(len(inputs))] + [f"out[{k}]" for k, port in enumerate(outputs) if port.writes < 0]
    given = ["0"] * cuda + given
    places += ["NULL"] * cuda
    runs = 1 if cuda or any(port.writes >= 0 for port in outputs) else 2
    call = f"{name}_run(m, {', '.join(places)})"
    lines = [f'#include "{name}.h"', "#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>", "int main(int argc, char **argv) {",
             f"    char *in[{len(inputs) + 1}], *out[{len(outputs) + 1}];", f"    struct {name} *m;", "    (void)argc, (void)in, (void)out;"]
    for k, port in enumerate(inputs):
        lines += [f"    in[{k}] = (char *)aligned_alloc(256, {port.bytes // 256 * 256 + 256});", f'    FILE *f{k} = fopen(argv[{k + 1}], "rb");',
                  f"    if (!f{k} || fread(in[{k}], 1, {port.bytes}, f{k}) != {port.bytes}) return 2;", f"    fclose(f{k});"]
    for k, port in enumerate(outputs):
        lines += [f"    out[{k}] = (char *)memset(aligned_alloc(256, {port.bytes // 256 * 256 + 256}), 0, {port.bytes});"]
    lines += [f"    int failed = {name}_create({', '.join(['&m'] + given)});", f"    for (int i = 0; i < {runs} && !failed; i++) failed = {call};",
              f'    if (failed) return puts({name}_error(m)), {name}_destroy(m), 1;']
    for k, port in enumerate(outputs):
        place = f"in[{port.writes}]" if port.writes >= 0 else f"out[{k}]"
        lines += [f'    FILE *g{k} = fopen(argv[{len(inputs) + k + 1}], "wb");',
                  f"    if (!g{k} || fwrite({place}, 1, {port.bytes}, g{k}) != {port.bytes} || fclose(g{k})) return 3;"]
    lines += [f"    {name}_destroy(m);"] + [f"    free(in[{k}]);" for k in range(len(inputs))]
    lines += [f"    free(out[{k}]);" for k in range(len(outputs))] + ["    return 0;", "}", ""]
    return "\n".join(lines)


DRIVER = """
extern int cuInit(unsigned), cuDeviceGet(int *, int), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
extern int cuMemAlloc_v2(unsigned long long *, size_t), cuMemcpyHtoD_v2(unsigned long long, const void *, size_t);
extern int cuMemcpyDtoH_v2(void *, unsigned long long, size_t);

static char *upload(const void *from, size_t size) {
    static void *context;
    int device;
    unsigned long long p = 0;
    if (!context && (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device))) return NULL;
    if (cuCtxSetCurrent(context) || cuMemAlloc_v2(&p, size + 1) || cuMemcpyHtoD_v2(p, from, size)) return NULL;
    return (char *)p;
}
"""


def on_device(text, inputs, outputs):
    """The same main with memory of the device."""
    before, after = text.split("    int failed = ", 1)
    before = before.replace("int main(", DRIVER + "int main(", 1)
    for what, ports in (("in", inputs), ("out", outputs)):
        for k, port in enumerate(ports):
            before += f"    char *host_{what}{k} = {what}[{k}];\n    if (!({what}[{k}] = upload({what}[{k}], {port.bytes}))) return 4;\n"
    saved = "".join(f"    if (cuMemcpyDtoH_v2(host_{what}{k}, (unsigned long long){what}[{k}], {port.bytes})) return 5;\n    {what}[{k}] = host_{what}{k};\n"
                    for what, ports in (("in", inputs), ("out", outputs)) for k, port in enumerate(ports))
    head, tail = after.split(", 1;\n", 1)
    return f"{before}    int failed = {head}, 1;\n{saved}{tail}"


def check_device(sinter, folder, graph):
    image = os.path.join(folder, "image.snb")
    ports = ports_of(sinter, graph, image, "device")
    inputs, outputs = ([port for port in ports if port.kind == kind] for kind in ("input", "output"))
    write_inputs(folder, inputs)
    given = [word for port in inputs for word in ("--input", f"{port.name}={os.path.join(folder, f'in-{port.name}.npy')}")]
    wants = [os.path.join(folder, who) for who in ("run", "image")]
    for want, what in zip(wants, (graph, image)):
        os.makedirs(want, exist_ok=True)
        output(sinter, "run", what, "--device=cuda", "--output-dir", want, *given)
    source, name = emit(sinter, folder, graph, inputs, outputs, "device")
    main = os.path.join(source, "main.c")
    with open(main, encoding="utf-8") as file:
        text = on_device(file.read(), inputs, outputs)
    with open(main, "w", encoding="utf-8") as file:
        file.write(text)
    run(build(source, name, ("gcc", "-std=c11"), "-l:libcuda.so.1"), folder, inputs, outputs)
    compare(folder, outputs, wants, f"{graph}: the C source on the device")


def compare(folder, outputs, wants, what):
    for port in outputs:
        with open(os.path.join(folder, f"out-{port.name}.raw"), "rb") as file:
            got = file.read()
        for want in wants:
            if got != elements_of(os.path.join(want, f"{port.name}.npy")):
                sys.exit(f"{what} and {want} differ in {port.name}")


def build(folder, name, compiler, *libraries):
    program = os.path.join(folder, "program")
    sources = [os.path.join(folder, f) for f in ("main.c", f"{name}.c")]
    output(*compiler, *FLAGS, *sources, "-o", program, *libraries)
    return program


def write_inputs(folder, inputs):
    for port in inputs:
        write_npy(os.path.join(folder, f"in-{port.name}.npy"), port.dtype, port.shape)
        with open(os.path.join(folder, f"in-{port.name}.raw"), "wb") as file:
            file.write(elements_of(os.path.join(folder, f"in-{port.name}.npy")))


def emit(sinter, folder, graph, inputs, outputs, target, *how):
    """The source and a main beside it, in a folder of their own; the name of the program."""
    source = os.path.join(folder, "source")
    shutil.rmtree(source, ignore_errors=True)
    output(sinter, "compile", graph, "--freestanding", f"--target={target}", "--emit-c", source, *how)
    name = next(f for f in os.listdir(source) if f.endswith(".h"))[:-2]
    constants = os.path.join(source, f"{name}.bin")
    with open(os.path.join(source, "main.c"), "w", encoding="utf-8") as file:
        file.write(main_text(name, inputs, outputs, constants if os.path.exists(constants) else None, target != "host"))
    return source, name


def run(program, folder, inputs, outputs, env=None):
    files = [os.path.join(folder, f"in-{port.name}.raw") for port in inputs] + [os.path.join(folder, f"out-{port.name}.raw") for port in outputs]
    done = subprocess.run([program, *files], capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        sys.exit(f"{program}: {done.returncode} {done.stdout}{done.stderr}")


def check_launches(sinter, build_folder, folder, graph, target):
    fake = os.path.join(build_folder, "tests", "log_cuda")
    image = os.path.join(folder, "image.snb")
    ports = ports_of(sinter, graph, image, target)
    inputs, outputs = ([port for port in ports if port.kind == kind] for kind in ("input", "output"))
    write_inputs(folder, inputs)
    logs = [os.path.join(folder, f"{who}.log") for who in ("rt", "source")]
    env = dict(os.environ, LD_LIBRARY_PATH=os.pathsep.join([fake, os.environ.get("LD_LIBRARY_PATH", "")]))
    for log in logs:
        if os.path.exists(log):
            os.remove(log)
    given = [f"in:{port.name}={os.path.join(folder, f'in-{port.name}.npy')}" for port in inputs]
    rt_run = os.path.join(build_folder, "tests", "rt-run")
    subprocess.run([rt_run, "--cuda", image, *given], env=dict(env, LOG_CUDA_FILE=logs[0]), check=True)
    source, name = emit(sinter, folder, graph, inputs, outputs, target)
    program = build(source, name, ("gcc", "-std=c11"), f"-L{fake}", "-lcuda")
    run(program, folder, inputs, outputs, dict(env, LOG_CUDA_FILE=logs[1]))
    texts = [open(log, encoding="utf-8").read() for log in logs]
    if texts[0] != texts[1] or not texts[0]:
        sys.exit(f"{graph} for {target}: launches differ\n{texts[0]}\n{texts[1]}")


def check(sinter, folder, graph):
    ports = ports_of(sinter, graph, os.path.join(folder, "image.snb"))
    inputs, outputs = ([port for port in ports if port.kind == kind] for kind in ("input", "output"))
    write_inputs(folder, inputs)
    given = [word for port in inputs for word in ("--input", f"{port.name}={os.path.join(folder, f'in-{port.name}.npy')}")]
    wants = []
    for wrapper in ("generated", "interpreter"):
        wants.append(os.path.join(folder, wrapper))
        os.makedirs(wants[-1], exist_ok=True)
        output(sinter, "run", graph, "--device=cpu", f"--wrapper={wrapper}", "--output-dir", wants[-1], *given)
    for how in ([], ["--constants-file"]):
        source, name = emit(sinter, folder, graph, inputs, outputs, "host", *how)
        for compiler in COMPILERS if not how else COMPILERS[:1]:
            if not shutil.which(compiler[0]) and compiler[0] != "gcc":
                continue
            program = build(source, name, compiler, "-lm")
            run(program, folder, inputs, outputs)
            compare(folder, outputs, wants, f"{graph}: the C source ({' '.join(compiler)})")
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    foreign = [line for line in libraries.split("\n") if line.strip() and not re.search(r"vdso|libc\.|libm\.|ld-linux", line)]
    if foreign:
        sys.exit(f"{graph}: it needs {foreign}")


def main():
    device = "--device" in sys.argv
    sinter, build_folder, folder, *graphs = [word for word in sys.argv[1:] if word != "--device"]
    for graph in graphs:
        if device:
            check_device(sinter, folder, graph)
            continue
        check(sinter, folder, graph)
        for target in ("sm_90a", "sm_80"):
            check_launches(sinter, build_folder, folder, graph, target)
    print(f"{len(graphs)} graphs: equal")


main()
