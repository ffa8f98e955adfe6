"""The walls of the house rules that a machine can see: file length, function length, an opening comment, no leftovers.

    python3 tests/check/size.py
"""

import re

import source

FILE_LINES = 900
FUNCTION_LINES = 120
# A function may be longer when the comment above it says that it is one switch over a table: "dispatch".
EXCEPTION = re.compile(r"\bdispatch\b", re.I)
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# A definition begins in column 0 and its opening brace ends a line; in the house format it closes in column 0.
HEAD = re.compile(r"^[A-Za-z_][^;=]*\)\s*\{$")


def functions(lines):
    """(first line, last line), 1-based, of every function definition."""
    start = None
    for i, line in enumerate(lines):
        if start is None and line and not line[0].isspace() and line.rstrip().endswith("{"):
            head = line.rstrip()
            first = i
            while not HEAD.match(head) and first > 0 and lines[first - 1] and not lines[first - 1].rstrip().endswith((";", "}")):
                first -= 1
                head = lines[first].rstrip() + " " + head
            if HEAD.match(head):
                start = i
        elif start is not None and line.startswith("}"):
            yield start + 1, i + 1
            start = None


def main():
    problems = []
    checked = source.files(source.FOLDERS, ".c", ".h", ".def")
    for path in checked:
        text = (source.ROOT / path).read_text(encoding="utf-8")
        lines = text.splitlines()
        if len(lines) > FILE_LINES:
            problems.append(f"{path}: {len(lines)} lines; the wall is {FILE_LINES}")
        if not text.startswith(("/*", "//")):
            problems.append(f"{path}:1: does not open with a comment that says what it does")
        for number, line in enumerate(lines, 1):
            if LEFTOVER.search(line):
                problems.append(f"{path}:{number}: leftover: {line.strip()}")
        plain = source.code(text).splitlines()
        for first, last in functions(plain):
            comment = "\n".join(lines[max(0, first - 6):first])
            if last - first + 1 > FUNCTION_LINES and not EXCEPTION.search(comment):
                problems.append(f"{path}:{first}: function of {last - first + 1} lines; the wall is {FUNCTION_LINES}")
    source.report("size", len(checked), problems)


main()
