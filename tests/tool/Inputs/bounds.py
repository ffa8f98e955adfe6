"""Time and memory of compiling large graphs: bounds.py SINTER FOLDER.

A chain of 10000 elementwise operations, and a graph of depth 64 that shares every value twice (2^64 operations if sharing
were lost). The bounds are for processor time (what is the wall time of one thread on an idle machine) and for the peak of
resident memory above what the tool has before it does anything, which is libLLVM being loaded.
"""

import os
import subprocess
import sys

SECONDS, MEGABYTES = 2.0, 100

OPERATIONS = ["neg %{}", "add %{}, 1.5", "mul %{}, 0.5", "relu %{}", "sub %{}, 0.25", "sqrt %{}", "add %{}, %x",
              "maximum %{}, 0.125", "abs %{}"]


def chain(n):
    lines, last = [], "x"
    for i in range(n):
        lines.append(f"  %v{i} = " + OPERATIONS[i % len(OPERATIONS)].format(last))
        last = f"v{i}"
    return "graph @chain(%x: f32[4096]) {\n" + "\n".join(lines) + f"\n  return y = %{last}\n}}\n"


def shared(depth):
    lines, a, b = [], "x", "y"
    for i in range(depth):
        lines.append(f"  %f{i} = add %{a}, %{b}")
        a, b = b, f"f{i}"
    return "graph @shared(%x: f32[4096], %y: f32[4096]) {\n" + "\n".join(lines) + f"\n  return y = %{b}\n}}\n"


def measured(command):
    """Seconds and peak megabytes of a command that must succeed."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: exit status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    sinter, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    base = measured([sinter, "list", "ops"])[1]
    print(f"LLVM alone: {base:.0f} MB")
    failed = False
    for name, text in (("chain", chain(10000)), ("shared", shared(64))):
        path = os.path.join(folder, name + ".sn")
        with open(path, "w") as out:
            out.write(text)
        for command in (["emit", "--stage=ptx", "--target=sm_90"], ["run", "--device=cpu", "--random", "1", "--threads", "1"]):
            seconds, peak = min(measured([sinter, *command, path]) for _ in range(2))
            bad = seconds > SECONDS or peak - base > MEGABYTES
            failed |= bad
            print(f"{'FAILED' if bad else 'ok'}: {name}: {command[0]}: {seconds:.2f} s, {peak:.0f} MB")
    sys.exit(failed)


main()
