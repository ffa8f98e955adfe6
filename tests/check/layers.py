"""Which room may see which, and who may call what: the table of docs/ARCHITECTURE.md, enforced.

A room is a folder with sources in it. Each has a row in MAY_SEE, or this fails. The table has no circle, and neither has what
the sources do: includes follow it, and what a header declares is defined in the header's own room, so that no room calls
up through a declaration that lies below it. The exceptions are the tables: what a .def file names is chosen as the program
runs. Within codegen-llvm the files stand on floors: gen.h has them in order, and none uses what a later one defines.

    python3 tests/check/layers.py
"""

import collections
import pathlib
import re

import source

IR = {"ir/base", "ir/index", "ir/ops", "ir/graph", "ir/loop", "ir/wrap", "ir"}
BELOW = {"ir/base", "include/sinter"}
PASS = IR | {"metrics", "passes/base", "include/sinter"}
CLASS = PASS | {"passes/schedule/base"}
CLASSES = CLASS | {"passes/schedule/" + family for family in ("moves", "rows", "products", "windows", "attention")}
# room: rooms that it may see besides itself. What a room may see of include/sinter is in SEES_API.
MAY_SEE = {
    "include/sinter": set(),
    "ir/base": {"include/sinter"},
    "ir/index": BELOW,
    "ir/ops": BELOW,
    "ir/graph": BELOW | {"ir/index", "ir/ops"},
    "ir/loop": BELOW | {"ir/index", "ir/ops", "ir/graph"},
    "ir/wrap": BELOW | {"ir/index", "ir/loop"},
    "ir": BELOW | IR,
    "metrics": BELOW | {"cache"},
    "passes/base": IR | {"metrics", "include/sinter"},
    "passes/graph": PASS,
    "passes/lower": PASS,
    "passes/schedule/base": PASS,
    "passes/schedule/moves": CLASS,
    "passes/schedule/rows": CLASS,
    "passes/schedule/products": CLASS,
    "passes/schedule/windows": CLASS | {"passes/schedule/products"},
    "passes/schedule/attention": CLASS | {"passes/schedule/products"},
    "passes/schedule": CLASS,
    "passes/loops": CLASSES | {"passes/schedule"},
    "passes/fuse": CLASSES | {"passes/schedule"},
    "passes/plan": PASS,
    "passes": CLASS | {"passes/graph", "passes/lower", "passes/schedule", "passes/loops", "passes/fuse", "passes/plan"},
    "cache": BELOW,
    "tune": CLASS | {"cache"} | {"passes/graph", "passes/schedule", "passes"},
    "codegen-llvm": IR | {"include/sinter"},
    "backend-nvptx": IR | {"cache", "codegen-llvm", "include/sinter"},
    "backend-host": IR | {"cache", "codegen-llvm", "include/sinter"},
    "runtime": IR | {"cache", "include/sinter"},
    "rt": IR | {"cache", "runtime", "include/sinter"},
    "frontend/context": IR | {"cache", "metrics", "runtime", "include/sinter"},
    "frontend/tensor": IR | {"runtime", "frontend/context", "include/sinter"},
    "frontend/files": IR | {"cache", "runtime", "frontend/context", "frontend/tensor", "include/sinter"},
    "frontend": IR | {"cache", "metrics", "passes", "passes/base", "passes/graph", "tune", "runtime", "codegen-llvm", "backend-nvptx", "backend-host",
                      "frontend/context", "frontend/tensor", "frontend/files", "include/sinter"},
    "frontend/onnx": IR | {"frontend", "frontend/context", "frontend/files", "include/sinter"},
    "examples": {"include/sinter"},
    "bench": {"include/sinter"},
    "bench/cpu": {"include/sinter"},
    "tests/large": {"include/sinter"},
    "tests/rt": {"include/sinter"},
}
ANYTHING = {"tools", "tests/unit", "tests/fake_cuda", "tests/fake_jitlink", "tests/log_cuda", "tests/fuzz", "tests/install", "tests/mutate", "tests/no_library", "tests/states", "tests/tsan", "tests/tsan/criterion"}
# sinter.h is the whole public API. Below frontend/ only the tables and the plain types it is made of are visible.
SEES_API = {"include/sinter", "examples", "bench", "bench/cpu", "tests/large", "tests/rt", "rt"} | ANYTHING
SEES_API |= {room for room in MAY_SEE if room.startswith("frontend")}

LLVM_FOLDERS = {"codegen-llvm", "backend-nvptx", "backend-host"}

# (what, pattern on code without comments and strings, predicate on the path that is allowed to)
CALLS = [
    ("getenv", r"\b(?:secure_)?getenv\s*\(", lambda p: p.as_posix() == "frontend/options.c"),
    ("changing the host's locale", r"\bsetlocale\s*\(", lambda p: False),
    ("dlopen", r"\bdlopen\s*\(", lambda p: p.parts[0] == "runtime"),
    ("printing", r"\b(?:v?printf|puts|putchar|perror)\s*\(|\b(?:stdout|stderr)\b", lambda p: False),
    ("ending the process", r"\b(?:abort|exit|_exit|_Exit|quick_exit)\s*\(", lambda p: False),
]

# A function at the beginning of a line: declared up to ';', defined up to '{'. Strings and comments are blank.
FUNCTION = re.compile(r"^(?!static|typedef|extern|#)[A-Za-z_][\w \t*]*?\b(sn_\w+)\s*\([^{};]*\)[^{};]*([;{])", re.M)


def check_table(problems):
    """Every room that a row names has a row, and the rows have no circle."""
    state = {}

    def visit(room, way):
        if state.get(room) == "done":
            return
        if room in way:
            problems.append("a circle of rooms: " + " -> ".join([*way[way.index(room):], room]))
            return
        for seen in sorted(MAY_SEE.get(room, ())):
            if seen not in MAY_SEE:
                problems.append(f"the row of {room} names {seen}, which has none")
            elif seen != room:
                visit(seen, [*way, room])
        state[room] = "done"

    for room in MAY_SEE:
        visit(room, [])


def check_document(problems):
    """docs/ARCHITECTURE.md has a row for every room, too."""
    text = (source.ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = {name for line in text.splitlines() if line.startswith("| `")
            for name in re.findall(r"`([^`]+)`", line.split("|")[1])}
    for room in MAY_SEE:
        if room not in rows and not room.startswith("tests/"):
            problems.append(f"docs/ARCHITECTURE.md: the room {room} has no row")


def included(room, name):
    """Room of an included project header, and its path; or None for a system header."""
    if name.startswith("sinter/"):
        name = "include/" + name
    path = source.ROOT / name
    if path.is_file():
        return path.parent.relative_to(source.ROOT).as_posix(), path
    beside = source.ROOT / room / name
    if beside.is_file():
        return room, beside
    return None, None


def check_includes(path, room, text, problems):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not match:
            continue
        quote, name = match.groups()
        where = f"{path}:{number}"
        target, header = included(room, name)
        if target is None:
            if name.startswith(("llvm-c/", "llvm/")):
                if room not in LLVM_FOLDERS:
                    problems.append(f"{where}: LLVM header {name} outside codegen-llvm/ and backend-*/")
            elif re.match(r"(cuda|nvrtc|nvJitLink|nvml)\w*\.h$", name, re.I):
                problems.append(f"{where}: CUDA header {name}: the driver is opened at run time, its types are declared in runtime/")
            elif quote == '"' and room not in ANYTHING:
                problems.append(f"{where}: \"{name}\" is no file of this tree")
            continue
        if target == room or room in ANYTHING:
            continue
        if target not in MAY_SEE[room]:
            problems.append(f"{where}: {room}/ must not include {name}")
        elif target == "include/sinter" and header.name == "sinter.h" and room not in SEES_API:
            problems.append(f"{where}: {room}/ must not include the public API")


def check_calls(path, text, problems):
    plain = source.code(text)
    for what, pattern, allowed in CALLS:
        if allowed(path):
            continue
        for match in re.finditer(pattern, plain):
            number = plain.count("\n", 0, match.start()) + 1
            problems.append(f"{path}:{number}: {what}: {match.group(0).rstrip('( ')} is not for this folder")


def check_definitions(texts, problems):
    """A function is defined in the room of the header that declares it."""
    declared, defined = {}, collections.defaultdict(list)
    for path, text in texts.items():
        for match in FUNCTION.finditer(source.code(text)):
            name, end = match.groups()
            if path.suffix == ".h" and end == ";":
                declared[name] = path
            elif path.suffix == ".c" and end == "{":
                defined[name].append(path)
    for name, header in sorted(declared.items()):
        for path in defined[name]:
            if path.parent != header.parent:
                problems.append(f"{path}: {name} is declared in {header}, another room")
    return len(declared)


def check_floors(texts, problems):
    """gen.h declares what its files define, a heading for each, from the ground up; a file uses none of what is above it."""
    header = pathlib.Path("codegen-llvm/gen.h")
    parts = re.split(r"^/\* ---- (\w+\.c) ---- \*/$", texts[header], flags=re.M)
    floor = {name: number for number, name in enumerate(parts[1::2])}
    home = {name: file for file, text in zip(parts[1::2], parts[2::2])
            for name in re.findall(r"\b(sn_gen_\w+)\(", source.code(text))}
    for path, text in texts.items():
        if path.parent != header.parent or path.suffix != ".c":
            continue
        plain = source.code(text)
        for match in FUNCTION.finditer(plain):
            if match.group(2) == "{" and home.get(match.group(1), path.name) != path.name:
                problems.append(f"{path}: {match.group(1)} is declared in {header} under {home[match.group(1)]}")
        for name in sorted(set(re.findall(r"\bsn_gen_\w+", plain)) & home.keys()):
            if floor[home[name]] > floor.get(path.name, len(floor)):
                problems.append(f"{path}: {name} of {home[name]} is above it ({header})")
    if not home:
        problems.append(f"{header} has no headings of files")


def main():
    problems = []
    check_table(problems)
    check_document(problems)
    checked = source.files(source.FOLDERS, ".c", ".h", ".def")
    library = {}
    for path in checked:
        room = path.parent.as_posix()
        text = (source.ROOT / path).read_text(encoding="utf-8")
        if room not in MAY_SEE and room not in ANYTHING:
            problems.append(f"{path}: the folder {room} has no row in the table of rooms")
            continue
        check_includes(path, room, source.code(text, keep_strings=True), problems)
        if path.parts[0] in source.LIBRARY:
            library[path] = text
            check_calls(path, text, problems)
    if not check_definitions(library, problems):
        problems.append("no header declares a function")
    check_floors(library, problems)
    source.report("layers", len(checked), problems)


main()
