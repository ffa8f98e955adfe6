"""The numbered invariants are the same in the heads of the verifiers and in docs/IR.md, and a test breaks each of them.

    python3 tests/check/invariants.py
"""

import re

import source

VERIFIERS = {"G": "ir/graph/verify.c", "L": "ir/loop/verify.c", "R": "ir/loop/repeats.c", "W": "ir/wrap/verify.c"}


def words(text):
    return " ".join(text.split())


def in_head(letter, path):
    """NUMBER -> text, from lines `*   G1   text` of the opening comment; a deeper indented line goes on."""
    head = (source.ROOT / path).read_text(encoding="utf-8").split("*/")[0]
    found = re.findall(rf"(?m)^ \*   {letter}(\d+) +(\S.*(?:\n \*        .*)*)", head)
    return {int(number): words(text.replace("\n *", " ")) for number, text in found}


def in_docs(letter, text):
    """NUMBER -> text, from items `* **G1** text`."""
    found = re.findall(rf"(?m)^\* \*\*{letter}(\d+)\*\* (.*(?:\n  \S.*)*)", text)
    return {int(number): words(item) for number, item in found}


def tests():
    """All text of the tests that could break an invariant; AT(3, ...) is how test_wrap.c writes W3."""
    text = ""
    for folder in ("tests/verify", "tests/unit", "tests/passes"):
        for path in sorted((source.ROOT / folder).iterdir()):
            if path.suffix in (".sn", ".c"):
                text += path.read_text(encoding="utf-8")
    return re.sub(r"\bAT\((\d+),", r"W\1:", text)


def main():
    problems, checked = [], 0
    docs = (source.ROOT / "docs/IR.md").read_text(encoding="utf-8")
    broken = set(re.findall(r"\b([GLRW]\d+):", tests()))
    for letter, path in VERIFIERS.items():
        head, doc = in_head(letter, path), in_docs(letter, docs)
        checked += len(head)
        if sorted(head) != list(range(1, len(head) + 1)):
            problems.append(f"{path}: the invariants are not numbered 1 .. {len(head)}: {sorted(head)}")
        problems += [f"docs/IR.md: {letter}{n} is not in {path}" for n in sorted(set(doc) - set(head))]
        for n, text in sorted(head.items()):
            if doc.get(n) != text:
                problems.append(f"docs/IR.md: {letter}{n} should read: {text}")
            if f"{letter}{n}" not in broken:
                problems.append(f"{path}: no test expects a message that begins with {letter}{n}:")
    source.report("invariants", checked, problems)


main()
