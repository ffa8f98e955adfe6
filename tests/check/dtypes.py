"""docs/IR.md and README.md name the element types that the table has.

    python3 tests/check/dtypes.py
"""

import re

import source


def main():
    def text(path):
        return (source.ROOT / path).read_text(encoding="utf-8")

    wanted = set(re.findall(r'^SN_DTYPE\(\w+, +"(\w+)",', text("include/sinter/dtypes.def"), re.M))
    rule = re.search(r"(?m)^dtype +=(.*?);", text("docs/IR.md"))
    listed = re.search(r"; dtypes ([\w, ]+);", text("README.md"))
    found = {
        "docs/IR.md": set(re.findall(r'"(\w+)"', rule.group(1))) if rule else set(),
        "README.md": set(listed.group(1).split(", ")) if listed else set(),
    }
    problems = [f"{path}: the element types are not those of dtypes.def: {sorted(words ^ wanted)}" for path, words in found.items()
                if words != wanted or not wanted]
    source.report("dtypes", len(wanted), problems)


main()
