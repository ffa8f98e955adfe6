"""Every header compiles alone; the public ones also as strict C11 and as C++, from an include path of their own.

    python3 tests/check/headers.py [--llvm-include DIR]
"""

import argparse
import subprocess

import source


def compiles(compiler, flags, header):
    """None, or the first lines of the complaint."""
    command = [*compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags, "-"]
    run = subprocess.run(command, input=f'#include "{header}"\n', capture_output=True, text=True, cwd=source.ROOT)
    return None if run.returncode == 0 else "\n".join(run.stderr.splitlines()[:6])


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--llvm-include", default="/usr/lib/llvm-22/include")
    options = arguments.parse_args()
    internal = ["-I", ".", "-I", "include", "-isystem", options.llvm_include]
    jobs = [(["gcc", "-x", "c", "-std=gnu17"], internal, h) for h in source.files(source.FOLDERS, ".h")]
    public = [h.relative_to("include") for h in source.files(["include/sinter"], ".h")]
    jobs += [(["gcc", "-x", "c", "-std=c11", "-pedantic"], ["-I", "include"], h) for h in public]
    for standard in ("c++11", "c++20"):
        jobs += [(["g++", "-x", "c++", f"-std={standard}", "-pedantic"], ["-I", "include"], h) for h in public]
    problems = []
    for compiler, flags, header in jobs:
        complaint = compiles(compiler, flags, header)
        if complaint:
            problems.append(f"{header}: does not compile alone with {' '.join(compiler)}:\n{complaint}")
    source.report("headers", len(jobs), problems)


main()
