"""Files, functions, constants, options and variables that documents name are there, and files that comments name.

    python3 tests/check/names.py

A word in backticks that looks like a file (`passes/lower/realize.c`, `realize.c`) ends a path of the tree; `sn_..`, `SN_..`,
`SINTER_..` and `--option` stand somewhere in the sources. Links between documents have their targets. What the recipes of
docs/ADDING.md make counts as there. It does not ask whether what is said of a name is true.
"""

import re

import source

DOCUMENTS = ["README.md", *sorted(f"docs/{f.name}" for f in (source.ROOT / "docs").glob("*.md")), "bench/README.md"]
SOURCES = (".c", ".h", ".def", ".cpp", ".py", ".txt", ".cmake", ".in")
BUILT = re.compile(r"^(build.*|\.git|__pycache__)$")
PROGRAMS = ("dev", "bench/campaign", "CMakePresets.json")
FILE = re.compile(r"^[\w./-]+\.(c|h|def|py|cpp|sn|test|md|txt|cmake)$")
# Files of the reader's own in examples of commands, of other projects, and names that stand for one.
OTHERS = {"layer.sn", "main.c", "model.c", "model.sn", "program.c", "softmax.c", "out/model.c", "cuda_occupancy.h",
          "NAME.c", "NAME.h", "tests/verify/LN.sn", "sn_module_verb"}
# Files in comments: of the tree as a rule, where the name is longer than that of an example (s.c).
COMMENT = re.compile(r"/\*.*?\*/", re.S)
IN_COMMENT = re.compile(r"(?<![\w./$-])[a-z][\w/]+\.(?:c|def|py)\b(?!\w)")
WORD = re.compile(r"\bsn_\w+\b|\bSN_\w+\b|\bSINTER_\w+\b|(?<![\w-])--[a-z][\w-]+")


def prose(text):
    """The text without code blocks."""
    return re.sub(r"(?ms)^\s*```.*?^\s*```", lambda m: "\n" * m[0].count("\n"), text)


def tree():
    """Ends of all paths, and the words of all sources."""
    paths = [str(f.relative_to(source.ROOT)) for top in sorted(source.ROOT.iterdir()) if not BUILT.match(top.name)
             for f in (sorted(top.rglob("*")) if top.is_dir() else [top]) if f.is_file()]
    recipes = (source.ROOT / "docs/ADDING.md").read_text(encoding="utf-8")
    made = re.findall(r"(?m)^\s*\+\+\+ (\S+)$", recipes)
    ends = {"/".join(path.split("/")[k:]) for path in [*paths, *made] for k in range(path.count("/") + 1)}
    words = set(re.findall(r"\w+", "\n".join(re.findall(r"(?ms)^\s*```.*?^\s*```", recipes))))
    words.update({"sn_softsign", "sn_pass_drop_double_neg"})  # rows of tables make these
    for path in paths:
        if (path.endswith(SOURCES) or path in PROGRAMS):
            words.update(re.findall(r"--?[\w-]+|\w+", (source.ROOT / path).read_text(encoding="utf-8", errors="replace")))
    return paths, ends, words


def in_document(document, ends, words):
    """(line, name, is it there) for all that a document names."""
    text = prose((source.ROOT / document).read_text(encoding="utf-8"))
    for number, line in enumerate(text.split("\n"), 1):
        for span in re.findall(r"`([^`]+)`", line):
            for word in [span] if FILE.match(span) else WORD.findall(span):
                there = word in ends if FILE.match(word) else word in words or word.lstrip("-") in words
                yield number, word, there or word in OTHERS
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
            yield number, target, "://" in target or ((source.ROOT / document).parent / target).exists()


def in_comments(path, ends):
    text = (source.ROOT / path).read_text(encoding="utf-8", errors="replace")
    for comment in COMMENT.finditer(text):
        for name in IN_COMMENT.finditer(comment[0]):
            at = text.count("\n", 0, comment.start() + name.start()) + 1
            yield at, name[0], name[0] in ends or len(name[0]) < 4 or name[0] in OTHERS


def main():
    paths, ends, words = tree()
    problems, checked = [], 0
    sources = [path for path in paths if path.endswith((".c", ".h", ".def"))]
    for path, names in [*((d, in_document(d, ends, words)) for d in DOCUMENTS), *((p, in_comments(p, ends)) for p in sources)]:
        for number, name, there in names:
            checked += 1
            if not there:
                problems.append(f"{path}:{number}: {name} is nowhere")
    source.report("names", checked, problems)


main()
