"""Figures of the table kernel_metadata, recomputed from the text of the scheduled kernels.

    metrics.py SINTER FOLDER TARGET FILE.sn...

The text is what `sinter opt` prints after all passes; rows are those of `sinter emit --metrics`. Reads the text by itself: it shares nothing
with the library but the language. The last line is "N kernels agree".
"""

import csv
import os
import re
import subprocess
import sys

BYTES = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}
FLOATS = {"f16", "bf16", "f32", "f64"}
COUNTED = set("""neg abs sign exp exp2 exp2_normal exp2_short expm1 log log2 log10 log1p sqrt cbrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh tanh_level tanh_short
    asinh acosh atanh sigmoid erf floor ceil round trunc add sub mul div floordiv rem fmod pow atan2 hypot max min""".split())


def product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


class Kernel:
    def __init__(self, head):
        self.name = re.match(r"kernel @(\w+)\(", head).group(1)
        self.arguments, self.dtype, self.locals = {}, {}, set()
        inside = head[head.index("(") + 1 : head.index(") ")]
        for name, dtype, shape, size in re.findall(r"(\w+): (\w+)\[([\d, ]*)\][^:]*?(?: size (\d+))?(?=[ ,]|$)", inside):
            self.dtype[name] = dtype
            self.arguments[name] = int(size) if size else product(int(n) for n in shape.split(",") if n.strip())
        for name, size in re.findall(r"(\w+): \w+\[[^\]]*\] [^:\[]*?size (\d+)", inside):
            self.arguments[name] = int(size)
        self.row = dict(loads=0, stores=0, loops=0, reductions=0, reduced=1, flops=0, arguments=len(self.arguments))
        self.loaded, self.stored, self.around, self.values = set(), set(), [], {}

    def iterations(self):
        return product(n for _, n, _ in self.around)

    def access(self, buffer, loads):
        if buffer in self.locals:
            return
        self.row["loads" if loads else "stores"] += 1
        if not loads:
            self.stored.add(buffer)
        elif buffer not in self.stored:  # what it has stored is its own
            self.loaded.add(buffer)

    def line(self, text):
        local = re.match(r"(?:reg|shared|posted) (\w+): (\w+)", text)
        if local:
            self.locals.add(local.group(1))
            self.dtype[local.group(1)] = local.group(2)
            return
        if text == "}":
            kind, extent, results = self.around.pop()
            for result, dtype in zip(results, self.yields if kind == "reduce" else ()):
                self.values[result] = dtype
                if dtype in FLOATS:
                    self.row["flops"] += self.iterations() * extent
            return
        made, _, rest = text.rpartition(" = ") if re.match(r"%[\w, %]+ = ", text) else ("", "", text)
        results = made.split(", ") if made else []
        word, _, operands = rest.partition(" ")
        op, _, stated = word.partition(".")
        nest = re.search(r" in (\d+)(?: : .*)? \{$", rest)
        extent = int(nest.group(1)) if nest else 1  # one that is no number counts as 1
        if op == "loop" or op == "reduce":
            self.around.append((op, extent, results))
            self.row["loops" if op == "loop" else "reductions"] += 1
            if op == "reduce":
                combined = 1
                for kind, extent, _ in reversed(self.around):
                    if kind != "reduce":
                        break
                    combined *= extent
                self.row["reduced"] = max(self.row["reduced"], combined)
        elif op == "if":
            self.around.append(("if", 1, []))
        elif op == "yield":
            self.yields = [self.values[v.strip()] for v in operands.split(",")]
        elif op in ("load", "store"):
            buffer = operands.partition("[")[0]
            self.access(buffer, op == "load")
            if results:
                self.values[results[0]] = self.dtype[buffer]
        elif results:
            used = re.findall(r"%\w+", operands)
            dtype = stated or ("bool" if op in ("in", "isnan", "isinf", "eq", "ne", "lt", "le", "gt", "ge") else None)
            dtype = dtype or self.values[used[1] if op == "select" else used[0]]
            self.values[results[0]] = dtype
            if dtype in FLOATS and op in COUNTED | {"accum"}:
                self.row["flops"] += self.iterations()

    def figures(self):
        touched = [*self.loaded, *self.stored]
        self.row["bytes"] = sum(self.arguments[b] * BYTES[self.dtype[b]] for b in touched)
        self.row["size"] = max([self.arguments[b] for b in self.stored], default=0)
        return self.row


def kernels(text):
    found, kernel = {}, None
    for line in text.splitlines():
        if line.startswith("kernel @"):
            kernel = Kernel(line)
            found[kernel.name] = kernel
        elif kernel and line == "}":
            kernel = None
        elif kernel and line.strip():
            kernel.line(line.strip())
    return {name: kernel.figures() for name, kernel in found.items()}


def main(sinter, folder, target, *files):
    agree = 0
    for path in files:
        text = subprocess.run([sinter, "opt", f"-target={target}", path], capture_output=True, text=True, check=True).stdout
        wanted = kernels(text)
        stage = "wrapper" if target == "host" else "ptx"
        model = os.path.basename(path)
        subprocess.run([sinter, "emit", f"--stage={stage}", f"--target={target}", "--metrics=kernel_metadata", f"--metrics-dir={folder}",
                        f"--metrics-model={model}", path], stdout=subprocess.DEVNULL, check=True)
        with open(f"{folder}/metric_kernel_metadata.csv", encoding="utf-8", newline="") as file:
            rows = {row["kernel"]: row for row in csv.DictReader(file) if row["model"] == model}
        if rows.keys() != wanted.keys():
            sys.exit(f"{path}: kernels {sorted(rows)}, the text has {sorted(wanted)}")
        for name, figures in wanted.items():
            for column, value in figures.items():
                got = float(rows[name][column])
                if abs(got - value) > 1e-5 * abs(value):
                    sys.exit(f"{path}: {name}: {column} is {rows[name][column]}, the text has {value}")
            agree += 1
    print(f"{agree} kernels agree")


main(*sys.argv[1:])
