"""tests/unit/sweep.def has a row for every function with arguments that sinter.h declares with SN_API.

    python3 tests/check/sweep.py
"""

import re

import source


def swept():
    """Functions that rows call, after the preprocessor (so tables may make rows)."""
    text = (source.ROOT / "tests/unit/sweep.def").read_text(encoding="utf-8")
    text = '#include "include/sinter/sinter.h"\n#define ROW(result, fn, ...) <row> fn </row>\n' + text
    return set(re.findall(r"<row> (\w+) </row>", source.preprocessed(text)))


def main():
    api, rows = source.declared() - {"sn_version", "sn_counter_count"}, swept()    # they have nothing to get wrong
    problems = [f"tests/unit/sweep.def: {name} of sinter.h has no row" for name in sorted(api - rows)]
    problems += [f"tests/unit/sweep.def: {name} is no function of sinter.h" for name in sorted(rows - api)]
    source.report("sweep", len(rows), problems)


main()
