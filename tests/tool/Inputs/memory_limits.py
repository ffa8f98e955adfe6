"""Run the tool under limits of its address space: memory_limits.py SINTER FILE

From what loading it takes up to what compiling FILE takes, in steps.
"""

import resource
import subprocess
import sys

sinter, path = sys.argv[1:]
MB = 1 << 20


def run(limit, *arguments):
    """(exit status, standard error) with so many bytes of address space."""
    done = subprocess.run([sinter, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    return done.returncode, done.stderr


loaded = next(n for n in range(16, 4096, 8) if run(n * MB, "--version")[0] == 0)
bad = inside = 0
for command in ["run", "--device=cpu", "--threads=1", "--random=1"], ["emit", "--stage=ptx"]:
    for limit in range(2 * loaded, 2 * loaded + 256, 5):
        status, text = run(limit * MB // 2, *command, path)
        inside += "out of memory inside LLVM" in text
        if status == 0:
            break
        if status != 1 or not text.startswith("sinter: error: ") or text.count("\n") != 1 or "memory" not in text:
            bad += 1
            print(f"{command[0]} with {limit / 2} MB: status {status}: {text}")
print(f"{bad} ended badly, {inside} out of memory inside LLVM")
