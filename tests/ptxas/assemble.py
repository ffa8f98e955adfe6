"""Does ptxas take the kernels, without a warning and without a spill?

    python3 tests/ptxas/assemble.py BUILD PTXAS [TARGET...]

exceptions.txt has a row for each spill or warning that is known, with its reason; a row that is no longer needed is a failure too. The last
line is "N passed, N failed, N skipped".
"""

import os
import re
import sys

import kernels


class Exceptions:
    """Rows GRAPH TARGET[,TARGET] spill=BYTES or warning, then the reason."""

    def __init__(self, path):
        self.rows, self.used = {}, set()
        with open(path, encoding="utf-8") as file:
            for number, row in enumerate(file, 1):
                words = row.split(None, 3)
                if not words or row.startswith("#"):
                    continue
                if len(words) < 4 or not re.fullmatch(r"spill=\d+|warning", words[2]):
                    sys.exit(f"{path}:{number}: GRAPH TARGET[,TARGET] spill=BYTES or warning, and a reason, are wanted")
                what, _, most = words[2].partition("=")
                for target in words[1].split(","):
                    self.rows[words[0], target, what] = int(most or 0)

    def excuse(self, kernel, what, size=0):
        """Is there a row for each graph that has the kernel?"""
        keys = [(graph, kernel.target, what) for graph in kernel.graphs]
        self.used.update(keys)
        return all(key in self.rows and size <= self.rows[key] for key in keys)

    def needless(self, graphs, targets):
        return [key for key in self.rows if key not in self.used and (key[0] not in graphs or key[1] in targets)]


def problems(kernel, exceptions):
    """What is wrong with a kernel, a line each."""
    if kernel.status:
        return [line for line in kernel.said.splitlines() if line] or [f"ptxas ends with {kernel.status}"]
    found = [line for line in kernel.said.splitlines() if re.search(r"warning|error", line, re.IGNORECASE)]
    if found and exceptions.excuse(kernel, "warning"):
        found = []
    spilt = sum(int(size) for size in re.findall(r"(\d+) bytes spill stores", kernel.said))
    if spilt and not exceptions.excuse(kernel, "spill", spilt):
        found.append(f"{spilt} bytes of registers are spilt")
    if not re.search(r"bytes spill stores", kernel.said):
        found.append("ptxas says nothing about spills")
    return found


def main(build, ptxas, *targets):
    targets = list(targets) or kernels.TARGETS
    exceptions = Exceptions(os.path.join(kernels.HERE, "exceptions.txt"))
    made, errors = kernels.assembled(build, ptxas, None if targets == kernels.TARGETS else targets)
    failed = len(errors)
    for (graph, target), error in errors.items():
        print(f"FAIL {graph}, {target}: {error}")
    for kernel in made:
        found = problems(kernel, exceptions)
        failed += bool(found)
        for line in found:
            print(f"FAIL {kernel}: {line}")
    for graph, target, what in exceptions.needless(kernels.graphs(), targets):
        failed += 1
        print(f"FAIL {graph}, {target}: no {what} any more: its row in exceptions.txt goes")
    print(f"{len(made) + len(errors) - min(failed, len(made) + len(errors))} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
