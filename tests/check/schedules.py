"""docs/IR.md has the classes and the fields of schedules that the tables of ir/loop/ have, in their order; every constant of
the tables of passes/ decides something.

    python3 tests/check/schedules.py
"""

import re

import source

# a table, what a row of it is, what its names begin with behind SN_
TABLES = [("passes/base/constants.def", "SN_CONSTANT", ""), ("passes/schedule/base/constants.def", "SN_CONSTANT", ""),
          ("passes/graph/choices.def", "SN_CHOICE_LIMIT", "CHOICE_")]


def rows(path, pattern):
    return re.findall(pattern, (source.ROOT / path).read_text(encoding="utf-8"), re.M)


def rule(text, name):
    """The words of a grammar rule that is a choice of words."""
    found = re.search(rf"(?ms)^{name} += (.*?);", text)
    return re.findall(r'"(\w+)"', found.group(1)) if found else []


def main():
    text = (source.ROOT / "docs/IR.md").read_text(encoding="utf-8")
    fields = rows("ir/base/sched_fields.def", r"^SN_SCHED_FIELD\((\w+), +(\w+)[,(]")
    wanted = {
        "class": ["none"] + rows("ir/base/sched_classes.def", r'^SN_SCHED_CLASS\(\w+, +"(\w+)",'),
        "count": [name for name, kind in fields if kind == "COUNT"],
        "flag": [name for name, kind in fields if kind == "FLAG"],
        "word": [name for name, kind in fields if kind == "WORD"],
    }
    problems = [f"docs/IR.md: the rule {name} has {rule(text, name)}, the table {words}" for name, words in wanted.items()
                if rule(text, name) != words or not words]
    text = "".join(path.read_text(encoding="utf-8") for folder in ("passes", "tune") for path in sorted((source.ROOT / folder).rglob("*.*"))
                   if path.suffix in (".c", ".h", ".def"))
    used, constants = set(re.findall(r"\bSN_(\w+)", source.code(text))), 0
    for table, row, prefix in TABLES:
        names = rows(table, rf"^{row}\((\w+),")
        constants += len(names)
        problems += [f"{table}: nobody uses {name}" for name in names if prefix + name not in used]
    source.report("schedules", sum(map(len, wanted.values())) + constants, problems)


main()
