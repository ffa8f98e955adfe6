"""Which folder may include which, and who may call what: the table of docs/ARCHITECTURE.md, enforced.

    python3 tests/check/layers.py
"""

import re

import source

IR = {"ir", "ir/base", "include/sinter"}
# folder: folders it may include besides itself. What a folder may see of include/sinter is in PUBLIC.
MAY_INCLUDE = {
    "ir/base": {"include/sinter"},
    "ir": IR,
    "passes": IR,
    "runtime": IR,
    "codegen-llvm": IR,
    "backend-nvptx": IR | {"codegen-llvm"},
    "backend-host": IR | {"codegen-llvm"},
    "frontend": IR | {"passes", "runtime", "codegen-llvm", "backend-nvptx", "backend-host"},
    "frontend/onnx": IR | {"frontend"},
    "include/sinter": {"include/sinter"},
    "examples": {"include/sinter"},
    "bench": {"include/sinter"},
    "tests/large": {"include/sinter"},
}
ANYTHING = {"tools", "tests/unit", "tests/fuzz", "tests/mutate"}
# sinter.h is the whole public API. Below frontend/ only the tables and the plain types it is made of are visible.
SEES_API = {"frontend", "frontend/onnx", "include/sinter", "examples", "bench", "tests/large"} | ANYTHING

LLVM_FOLDERS = {"codegen-llvm", "backend-nvptx", "backend-host"}

# (what, pattern on code without comments and strings, predicate on the path that is allowed to)
CALLS = [
    ("getenv", r"\b(?:secure_)?getenv\s*\(", lambda p: p.as_posix() == "frontend/options.c"),
    ("changing the host's locale", r"\bsetlocale\s*\(", lambda p: False),
    ("dlopen", r"\bdlopen\s*\(", lambda p: p.parts[0] == "runtime"),
    ("printing", r"\b(?:v?printf|puts|putchar|perror)\s*\(|\b(?:stdout|stderr)\b", lambda p: False),
    ("ending the process", r"\b(?:abort|exit|_exit|_Exit|quick_exit)\s*\(", lambda p: False),
]


def included(folder, name):
    """Folder of an included project header, or None for a system header."""
    if name.startswith("sinter/"):
        name = "include/" + name
    path = source.ROOT / name
    if path.is_file():
        return path.parent.relative_to(source.ROOT).as_posix(), path
    beside = source.ROOT / folder / name
    if beside.is_file():
        return folder, beside
    return None, None


def check_includes(path, folder, text, problems):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not match:
            continue
        quote, name = match.groups()
        where = f"{path}:{number}"
        target, header = included(folder, name)
        if target is None:
            if name.startswith(("llvm-c/", "llvm/")):
                if folder not in LLVM_FOLDERS:
                    problems.append(f"{where}: LLVM header {name} outside codegen-llvm/ and backend-*/")
            elif re.match(r"(cuda|nvrtc|nvJitLink|nvml)\w*\.h$", name, re.I):
                problems.append(f"{where}: CUDA header {name}: the driver is opened at run time, its types are declared in runtime/")
            elif quote == '"':
                problems.append(f"{where}: \"{name}\" is no file of this tree")
            continue
        if target == folder or folder in ANYTHING:
            continue
        if target not in MAY_INCLUDE[folder]:
            problems.append(f"{where}: {folder}/ must not include {name}")
        elif target == "include/sinter" and header.name == "sinter.h" and folder not in SEES_API:
            problems.append(f"{where}: {folder}/ must not include the public API")


def check_calls(path, text, problems):
    plain = source.code(text)
    for what, pattern, allowed in CALLS:
        if allowed(path):
            continue
        for match in re.finditer(pattern, plain):
            number = plain.count("\n", 0, match.start()) + 1
            problems.append(f"{path}:{number}: {what}: {match.group(0).rstrip('( ')} is not for this folder")


def main():
    problems = []
    checked = source.files(source.FOLDERS, ".c", ".h", ".def")
    for path in checked:
        folder = path.parent.as_posix()
        text = (source.ROOT / path).read_text(encoding="utf-8")
        check_includes(path, folder, source.code(text, keep_strings=True), problems)
        if folder in source.LIBRARY:
            check_calls(path, text, problems)
    source.report("layers", len(checked), problems)


main()
