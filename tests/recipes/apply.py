"""Apply the recipes of docs/ADDING.md to a copy of the tree, build the tool there and run the tests that they bring.

    python3 tests/recipes/apply.py WORK [--all]

With --all every unit test and lit test of the tree runs there too (minutes).
WORK is a folder that stays, so that a second run compiles only what changed. A recipe is what stands under
a line `<!-- recipe: NAME -->` up to the next heading: numbered steps that begin with a file name, and one diff block a step.
The test fails when a step has no block, a block edits another file than its step names, or a place to edit is not found
exactly once; and when the tree does not build or a test that a recipe adds does not pass.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIT = "/usr/lib/llvm-22/bin/lit"
OTHER_TESTS = ["tests/graph", "tests/loops", "tests/passes", "tests/ptx", "tests/regress", "tests/tool", "tests/verify"]
COPIED = ["CMakeLists.txt", "README.md", "cmake", "include", "ir", "cache", "metrics", "passes", "tune", "codegen-llvm", "backend-nvptx", "backend-host", "runtime", "rt",
          "frontend", "tools", "examples", "bench", "docs", "tests"]
CHECKS = ["dtypes", "schedules"]  # of tests/docs: what they compare, recipes edit
WANTED = {"dtype", "elementwise", "graph_rewrite", "loop_operation", "loop_pass", "schedule"}


def die(message):
    sys.exit(f"recipes: {message}")


def recipes(text):
    """NAME -> [(file, lines of its diff block)], the file being checked against the step around the block."""
    found = {}
    for name, body in re.findall(r"<!-- recipe: (\w+) -->\n(.*?)(?=\n#|\Z)", text, re.S):
        steps = re.split(r"(?m)^\d+\. ", body)[1:]
        found[name] = []
        for step in steps:
            file = re.match(r"`([^`]+)`", step)
            blocks = re.findall(r"(?ms)^   ```diff\n(.*?)^   ```", step)
            if not file or len(blocks) != 1:
                die(f"{name}: a step without a file name in front or without exactly one diff block: {step[:60]!r}")
            lines = [line[3:] for line in blocks[0].splitlines()]
            if lines[0] != f"+++ {file.group(1)}":
                die(f"{name}: the step names {file.group(1)}, its block edits {lines[0]}")
            found[name].append((file.group(1), lines[1:]))
    if set(found) != WANTED:
        die(f"found the recipes {sorted(found)}, expected {sorted(WANTED)}")
    return found


def edit(tree, path, lines):
    """Make one edit: the old lines must stand in the file exactly once; with no old lines the file must be new."""
    old = [line[1:] for line in lines if line[:1] != "+"]
    new = [line[1:] for line in lines if line[:1] != "-"]
    if not old:
        if path in tree or (ROOT / path).exists():
            die(f"{path}: the recipe makes this file, but it exists")
        tree[path] = "\n".join(new) + "\n"
        return
    if path not in tree:
        die(f"{path}: there is no such file")
    text = tree[path].splitlines()
    places = [i for i in range(len(text)) if text[i:i + len(old)] == old]
    if len(places) != 1:
        die(f"{path}: {len(places)} places look like {old}")
    text[places[0]:places[0] + len(old)] = new
    tree[path] = "\n".join(text) + "\n"


def read_tree():
    """PATH -> text of every file that building and testing reads. (Bytes as characters: some are no text.)"""
    tree = {}
    for name in COPIED:
        top = ROOT / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and path.parent.name != "__pycache__":
                tree[str(path.relative_to(ROOT))] = path.read_bytes().decode("latin-1")
    return tree


def write_tree(folder, tree):
    """Make the folder hold exactly the tree, and leave alone what is right already: its time says when it changed."""
    for path in sorted(folder.rglob("*")) if folder.exists() else []:
        if path.is_file() and str(path.relative_to(folder)) not in tree:
            path.unlink()
    for name, text in tree.items():
        path = folder / name
        data = text.encode("latin-1")
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if (ROOT / name).exists():
            path.chmod((ROOT / name).stat().st_mode)


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        print(done.stdout)
        die(f"failed: {' '.join(map(str, command))}")
    return done.stdout


def main():
    work = pathlib.Path(sys.argv[1]).resolve()
    folder, build = work / "tree", work / "build"
    tree, tests = read_tree(), []
    for name, edits in recipes((ROOT / "docs/ADDING.md").read_text()).items():
        for path, lines in edits:
            edit(tree, path, lines)
        print(f"{name}: {', '.join(path for path, _ in edits)}")
        tests += [folder / path for path, _ in edits if path.startswith("tests/")]
    write_tree(folder, tree)
    every = "--all" in sys.argv[2:]
    run("cmake", "-S", folder, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O0",
        f"-DSINTER_TESTS={'ON' if every else 'OFF'}", "-DSINTER_WERROR=ON")
    run("ninja", "-C", build, "-j", str(min(4, os.cpu_count() or 1)), *([] if every else ["sinter-tool"]))
    run(LIT, "-v", "--param", f"build={build}", *tests, *(folder / f"tests/docs/{name}.test" for name in CHECKS))
    print(f"recipes: {len(tests)} tests passed")
    if every:
        run(LIT, "-q", "--filter-out", "valgrind", "--param", f"build={build}", *(folder / name for name in OTHER_TESTS))  # it needs examples
        run(build / "tests/unit", "--timeout", "300")
        print("recipes: all other tests pass as well")


main()
