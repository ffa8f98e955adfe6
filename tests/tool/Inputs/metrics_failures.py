"""Rows of the table fusion_failures, recomputed from the kernels as fuse left them.

    metrics_failures.py SINTER FOLDER FILE.sn...

The text is that of `sinter explain --dump-dir`. Each two kernels that share data have a row, and no others: what they share, its bytes, and
whether the second reads what the first writes. Not for graphs with sorts, whose buffers are
written in place: fuse leaves these alone. The last line is "N pairs agree".
"""

import csv
import glob
import itertools
import os
import re
import subprocess
import sys

BYTES = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}


def product(text):
    result = 1
    for number in text.split(","):
        result *= int(number) if number.strip() else 1
    return result


def read(path):
    """Bytes of buffers, and of each kernel in order what it loads and stores."""
    text = open(path).read()
    sizes = {}
    for name, dtype, shape, rest in re.findall(r"^buffer (\w+): (\w+)\[([\d, ]*)\] (.*)$", text, flags=re.M):
        size = re.search(r"\bsize (\d+)", re.sub(r"\[.*\]", "", rest))
        sizes[name] = BYTES[dtype] * (int(size.group(1)) if size else product(shape))
    kernels = []
    for name, head, body in re.findall(r"^kernel @(\w+)\(([^\n]*)\{\n(.*?)^\}", text, flags=re.M | re.S):
        if " scheduled" not in re.sub(r'"[^"]*"', "", head):
            kernels.append((name, set(re.findall(r"\bload (\w+)\[", body)), set(re.findall(r"\bstore (\w+)\[", body))))
    return sizes, kernels


def main():
    sinter, folder, agree = sys.argv[1], sys.argv[2], 0
    for number, path in enumerate(sys.argv[3:]):
        to = os.path.join(folder, str(number))
        environment = {**os.environ, "SINTER_METRICS": "fusion_failures", "SINTER_METRICS_DIR": to}
        subprocess.run([sinter, "emit", "--stage=ptx", "--target=sm_90a", path], check=True, env=environment, stdout=subprocess.DEVNULL)
        subprocess.run([sinter, "explain", "--target=sm_90a", "--dump-dir", to, path], check=True, stdout=subprocess.DEVNULL)
        modules = sorted(glob.glob(to + "/*.sn"))
        numbered = [m for m in modules if re.match(r"\d\d-", os.path.basename(m))]
        before = [m for m in numbered if not re.match(r"\d\d-(licm|hoist|mixed|reorder-red|collapse|split-g|online|split-red|split-scan|join|schedule|horiz|last|order|reverse|start|sync|async|plan)", os.path.basename(m))]
        sizes, kernels = read(before[-1])
        table = os.path.join(to, "metric_fusion_failures.csv")
        rows = {(r["first"], r["second"]): r for r in csv.DictReader(open(table))} if os.path.exists(table) else {}
        for (a, loads, stores), (b, others, other_stores) in itertools.combinations(kernels, 2):
            vertical, horizontal = stores & others, loads & others
            shared = vertical or horizontal
            row = rows.pop((a, b), None)
            if not shared:
                assert row is None, (path, row)
                continue
            assert row, (path, a, b, shared)
            named = set(row["buffers"].replace(",", " ").split())
            assert row["kind"] == ("vertical" if vertical else "horizontal"), (path, row)
            assert named <= (loads | stores) & (others | other_stores) and vertical <= named, (path, row, shared)
            assert int(row["bytes"]) == sum(sizes[n] for n in named), (path, row)
            agree += 1
        assert not rows, (path, rows)
    print(f"{agree} pairs agree")


main()
