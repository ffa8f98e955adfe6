"""Does the library read registers, stack and shared memory of a cubin as NVIDIA's tools do?

    python3 tests/ptxas/figures.py BUILD PTXAS [CUOBJDUMP]

Every kernel of bench/suite and of ResNet-50 for one target, and some kernels of each target, as they are and once more with so few registers that
they spill, through ptxas; then `sinter metrics cubin` beside what `ptxas -v` says, and beside `cuobjdump -res-usage` where there is one. The last
line is "N passed, N failed, N skipped".
"""

import os
import re
import subprocess
import sys
import tempfile

import kernels

EVERY = 40      # of the kernels of a target, one in so many
FEW = 24        # registers that make large kernels spill
WHOLE = "sm_90a"  # the target of which every kernel of the suite and of the network is looked at


def figures(text):
    return {name: int(value) for name, value in re.findall(r"(\w+):? ?(\d+)", text)}


def compare(sinter, ptxas, cuobjdump, kernel, few, folder):
    """What is wrong with one kernel, and whether it spills."""
    ptx, cubin = os.path.join(folder, "k.ptx"), os.path.join(folder, "k.cubin")
    with open(ptx, "w", encoding="utf-8") as file:
        file.write(re.sub(r"(?m)^\.(minnctapersm|maxntid).*\n", "", kernel.ptx) if few else kernel.ptx)
    options = [f"-maxrregcount={FEW}"] if few else []
    made = subprocess.run([ptxas, f"-arch={kernel.target}", "-v", *options, "-o", cubin, ptx], capture_output=True, text=True, check=False)
    if made.returncode:
        return None if few else [made.stderr], False
    said = made.stdout + made.stderr
    ours = figures(subprocess.run([sinter, "metrics", "cubin", cubin, kernel.name], capture_output=True, text=True, check=True).stdout)
    stack = int(re.search(r"(\d+) bytes stack frame", said).group(1))
    registers = int(re.search(r"Used (\d+) registers", said).group(1))
    wrong = []
    if cuobjdump:
        usage = subprocess.run([cuobjdump, "-res-usage", cubin], capture_output=True, text=True, check=True).stdout
        theirs = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|SHARED):(\d+)", usage)}
        wanted = {"registers": theirs["REG"], "stack": theirs["STACK"], "shared": theirs["SHARED"]}
        wrong += [] if ours == wanted else [f"{ours}, cuobjdump says {wanted}"]
    if (ours["registers"], ours["stack"]) != (registers, stack):
        wrong.append(f"{ours}, ptxas says {registers} registers and {stack} bytes of stack")
    return wrong, stack > 0


def made(sinter, target, name, graph, most=None):
    found = []
    for text in kernels.emit(sinter, graph, target)[0][:most]:
        found.append(kernels.Kernel(target, text))
        found[-1].graphs.append(name)
    return found


def chosen(sinter, folder):
    """All kernels of the suite and the network, some of everything else."""
    names = list(kernels.graphs().items())
    network = os.path.join(folder, "resnet50.sn")
    with open(network, "w", encoding="utf-8") as file:
        subprocess.run([sys.executable, os.path.join(kernels.ROOT, "bench", "networks", "text.py"), "resnet50"], stdout=file, check=True)
    for name, graph in [*(row for row in names if row[0].startswith("suite/")), ("resnet50", network)]:
        yield from made(sinter, WHOLE, name, graph)
    for target in kernels.TARGETS:
        for name, graph in names[:: max(1, len(names) // EVERY)]:
            yield from made(sinter, target, name, graph, 1)


def main(build, ptxas, cuobjdump=None):
    passed = failed = spilled = 0
    sinter = os.path.join(build, "sinter")
    with tempfile.TemporaryDirectory() as folder:
        for kernel in chosen(sinter, folder):
            for few in False, True:
                wrong, spills = compare(sinter, ptxas, cuobjdump, kernel, few, folder)
                if wrong is None:
                    continue
                passed, failed, spilled = passed + (not wrong), failed + bool(wrong), spilled + spills
                for line in wrong:
                    print(f"{kernel}: {line}")
    if not spilled:
        print("no kernel spills: the comparison of stacks means nothing")
        failed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
