"""What the checkers share: the folders of the tree, its files, C text without comments and strings, what sinter.h
declares."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

LIBRARY = ["ir", "cache", "passes", "tune", "codegen-llvm", "backend-nvptx", "backend-host", "runtime", "rt", "frontend"]
FOLDERS = [*LIBRARY, "include/sinter", "tools", "examples", "bench", "tests"]


def files(folders, *suffixes):
    """Files in the folders, and in the folders inside them, sorted, relative to the root."""
    found = []
    for folder in folders:
        found += sorted(f.relative_to(ROOT) for f in (ROOT / folder).rglob("*") if f.suffix in suffixes and f.is_file())
    return found


_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code(text, keep_strings=False):
    """The text with comments (and the contents of strings) blanked; line numbers stay."""

    def blank(match):
        s = match.group(0)
        if s[0] in "\"'":
            return s if keep_strings else s[0] * 2
        return " " + "\n" * s.count("\n")

    return _NOISE.sub(blank, text)


def preprocessed(text):
    """C text after the preprocessor."""
    run = subprocess.run(["gcc", "-E", "-P", "-x", "c", "-I", "include/sinter", "-I", "include", "-I", ".", "-"],
                         input=text, check=True, capture_output=True, text=True, cwd=ROOT)
    return run.stdout


def declared(header="sinter.h", macro="SN_API"):
    """Names that a public header declares with its macro, after the preprocessor (so tables may declare functions)."""
    mark = "SN_API_MARK"
    text = (ROOT / "include/sinter" / header).read_text(encoding="utf-8")
    # The header's own definition of the macro must not hide the mark.
    text = re.sub(rf"(?m)^(\s*#\s*define\s+{macro}\b).*$", rf"\1 {mark}", text)
    return set(re.findall(rf"{mark}\b[^;{{}}(]*?\b(\w+)\s*\(", preprocessed(text)))


def report(name, checked, problems):
    """Print the problems and a count; exit 1 if there are any, or if nothing was checked."""
    for problem in problems:
        print(problem)
    if not checked:
        problems = [*problems, "nothing to check"]
        print(f"{name}: nothing to check")
    print(f"{name}: {checked} checked, {len(problems)} problems")
    sys.exit(1 if problems else 0)
