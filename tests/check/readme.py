"""README.md is true: its programs are those of examples/ and run, and its commands print what it shows.

    python3 tests/check/readme.py BUILD

In a `console` block each line that begins with `$ ` is a command, run in the root of the tree with build/ standing for
BUILD. The lines below it must be its output, but for the numbers of registers and the last digits of floats, which hang on
the vectors of the CPU; a line `...` stands for any lines.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import source


def blocks(text, language):
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)


def plain(text):
    """Its lines. Registers of PTX and values of LLVM IR lose their numbers, which every small change moves, and errors of
    rounding theirs; floats have four digits."""
    text = re.sub(r"%(r|rd|p)?\d+\b", r"%\1N", text)
    text = re.sub(r"\b(largest error|relative) [\d.]+(e[+-]\d+)?", r"\1 N", text)
    text = re.sub(r"-?\b\d+\.\d{5,}(e[+-]\d+)?", lambda number: f"{float(number[0]):.4g}", text)
    return [line.rstrip() for line in text.splitlines()]


def matches(shown, real):
    """None, or the first shown line that is missing where it should stand."""
    at, gap = 0, False
    for line in shown:
        if line == "...":
            gap = True
            continue
        places = [i for i in range(at, len(real)) if real[i] == line] if gap else [at]
        if not places or places[0] >= len(real) or real[places[0]] != line:
            return line
        at, gap = places[0] + 1, False
    return None if gap or at == len(real) else f"(nothing more, but there is: {real[at]})"


def console(text, build):
    """Problems and the number of commands of the console blocks."""
    problems, count = [], 0
    for block in blocks(text, "console"):
        for part in re.split(r"(?m)^\$ ", block)[1:]:
            command, _, shown = part.partition("\n")
            run = subprocess.run(re.sub(r"\bbuild/", f"{build}/", command), shell=True, cwd=source.ROOT, text=True,
                                 capture_output=True)
            count += 1
            if run.returncode:
                problems.append(f"README.md: {command}: exit status {run.returncode}: {run.stderr.strip()}")
                continue
            wrong = matches(plain(shown), plain(run.stdout))
            if wrong is not None:
                problems.append(f"README.md: {command}: the output differs at: {wrong}")
    return problems, count


# In the order of the C blocks: the library of each, and what it is run on (files that the console blocks make are under the build folder).
EXAMPLES = {"softmax": ("sinter", []), "onnx": ("sinter", []), "runtime": ("sinter-rt", ["xor.snb"])}


def program(text, build, name, block):
    """A C block: equal to the example, and it compiles as strict C11 and runs as shown."""
    example = (source.ROOT / f"examples/{name}.c").read_text(encoding="utf-8")
    problems = []
    library, arguments = EXAMPLES[name]
    if example.split("*/\n", 1)[1] != block:
        problems.append(f"README.md: the program is not that of examples/{name}.c below its comment")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / f"{name}.c").write_text(block, encoding="utf-8")
        command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", str(source.ROOT / "include"),
                   f"{path}/{name}.c", "-L", str(build), f"-Wl,-rpath,{build}", f"-l{library}", "-o", f"{path}/{name}"]
        for step in (command, [f"{path}/{name}", *(str(build / argument) for argument in arguments)]):
            run = subprocess.run(step, cwd=source.ROOT, capture_output=True, text=True)
            if run.returncode:
                return [*problems, f"README.md: the program {name}: {' '.join(step)}: {run.stderr.strip()}"]
        if f"    {run.stdout.strip()}\n" not in text:
            problems.append(f"README.md: the program {name} prints {run.stdout.strip()!r}, which is not shown")
    return problems


def programs(text, build):
    found = blocks(text, "c")
    if len(found) != len(EXAMPLES):
        return [f"README.md: {len(found)} C blocks, expected {len(EXAMPLES)} programs"]
    return [problem for name, block in zip(EXAMPLES, found) for problem in program(text, build, name, block)]


def links():
    """Every relative link of the documents leads somewhere."""
    problems = []
    for path in [source.ROOT / "README.md", *sorted((source.ROOT / "docs").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if not (path.parent / link).exists():
                problems.append(f"{path.relative_to(source.ROOT)}: the link {link} leads nowhere")
    return problems


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    text = (source.ROOT / "README.md").read_text(encoding="utf-8")
    problems, count = console(text, build)
    if not count:
        problems.append("README.md: no console block")
    source.report("readme", count + len(EXAMPLES), [*problems, *programs(text, build), *links()])


main()
