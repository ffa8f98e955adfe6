"""Lines of prose in documents end at 120: paragraphs and list items that have a longer one are wrapped anew.

    python3 tests/check/prose.py             # which documents have longer lines
    python3 tests/check/prose.py --wrap      # wraps them (`./dev format`)

Tables, headings and blocks of code stay as they are, spans of code are not broken, and no line begins with what would make
it something else. What is wrapped renders to the same page, and is left alone the next time.
"""

import re
import sys

import source

WIDTH = 120
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)")
KEEP = re.compile(r"^\s*(\||#|<!--|>|---|===|!\[|\[[^\]]+\]:)")
RISKY = re.compile(r"^([-+*#>|=]|\d+[.)]$|[-+*]$|`{3}|~{3}|<!--)")

# A word; a span of code, with what touches it, is one.
WORD = re.compile(r"(?:(`+)(?!`).+?(?<!`)\1(?!`)|\S)+")


def fill(text, first, rest):
    """Lines of the text: the first one begins with `first`, others with `rest`."""
    lines, line, n = [], first, 0
    for word in (m[0] for m in WORD.finditer(text)):
        if n and len(line) + 1 + len(word) > WIDTH and not RISKY.match(word):
            lines.append(line)
            line, n = rest + word, 1
        else:
            line += (" " if n else "") + word
            n += 1
    return [*lines, line]


def flush(block, out):
    """Put the lines of a paragraph or an item to `out`, as they are or wrapped."""
    if not block:
        return
    if max(map(len, block)) <= WIDTH:
        out += block
    else:
        m = ITEM.match(block[0])
        first = m[0] if m else re.match(r"\s*", block[0])[0]
        text = " ".join([block[0][len(first):].strip(), *(line.strip() for line in block[1:])])
        out += fill(text, first, " " * len(first) if m else first)
    block.clear()


def wrap(text):
    out, block, fence, blank, code = [], [], None, True, False
    for line in text.split("\n"):
        mark = re.match(r"^\s*(```+|~~~+)", line)
        if fence or mark:
            flush(block, out)
            out.append(line)
            fence = None if fence and mark and mark[1] == fence else fence or mark[1]
            blank = False
            continue
        if not line.strip():
            flush(block, out)
            out.append(line)
            blank = True
            continue
        code = line.startswith("    ") and (blank or (code and not block))
        if code or KEEP.match(line):
            flush(block, out)
            out.append(line)
            blank = False
            continue
        if ITEM.match(line):
            flush(block, out)
        block.append(line)
        blank = False
    flush(block, out)
    return "\n".join(out)


def main():
    documents = [source.ROOT / "README.md", source.ROOT / "bench/README.md", *sorted((source.ROOT / "docs").glob("*.md"))]
    problems = []
    for path in documents:
        old = path.read_text(encoding="utf-8")
        new = wrap(old)
        assert old.split() == new.split(), path
        if new != old and "--wrap" in sys.argv:
            path.write_text(new, encoding="utf-8")
        elif new != old:
            problems.append(f"{path.relative_to(source.ROOT)}: lines of prose beyond {WIDTH} (./dev format)")
    source.report("prose", len(documents), problems)


main()
