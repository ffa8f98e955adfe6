"""table.py OUT: what run-networks left there as a table, best of PyTorch's modes over Sinter's time (above 1: Sinter is faster)."""
import json
import math
import os
import sys

out = sys.argv[1]


def lines(name):
    path = os.path.join(out, name)
    return [json.loads(line) for line in open(path)] if os.path.exists(path) else []


def rows(name):
    return {r["name"].removesuffix(".onnx"): r for r in lines(name) if "name" in r}


def shown(value, form):
    return "" if value is None else form % value


errors = {(e["name"], e["got"]): max(e["err"], default=None) for e in lines("errors.jsonl")}
peer, ours = rows("peer.jsonl"), {how: rows(f"{how}.json") for how in ("exact", "high", "bf16")}
print("| network | us exact or bf16 | error | us high | error | kernels | torch, us by mode | in a graph | error | ratio |")
print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
ratios = []
for name in dict.fromkeys(n for how in ours.values() for n in how):
    main, high = ("bf16" if name.endswith("bf16") else "exact"), ours["high"].get(name, {})
    row = ours[main].get(name, {})
    modes = {k: v for k, v in peer.get(name, {}).items() if isinstance(v, dict)}
    best = min((v["us"] for v in modes.values()), default=None)
    times = [r["events_us"] for r in (row, high) if r.get("events_us")]
    ratio = best / min(times) if best and times else None
    ratios += [ratio] if ratio else []
    print("|", " | ".join([
        name, shown(row.get("events_us"), "%.0f"), shown(errors.get((name, main)), "%.1e"),
        shown(high.get("events_us"), "%.0f"), shown(errors.get((name, "high")), "%.1e"), str(row.get("launches", row.get("error", ""))),
        ", ".join(f"{k} {v['us']:.0f}" for k, v in modes.items()),
        ", ".join(shown(v.get("graph_us"), "%.0f") for v in modes.values()),
        shown(max((v["err"] for v in modes.values() if v.get("err")), default=None), "%.1e"), shown(ratio, "%.2f")]), "|")
if ratios:
    print(f"\nGeometric mean of the ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")
