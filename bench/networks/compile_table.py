"""compile_table.py OUT: what run-compile left there as a table: milliseconds by phase, and how many times the peer's first call takes."""
import json
import os
import sys

out = sys.argv[1]
PHASES = ("passes_ms", "codegen_ms", "assemble_ms", "load_ms")


def lines(name):
    path = os.path.join(out, name)
    return [json.loads(line) for line in open(path)] if os.path.exists(path) else []


def median_row(name, when):
    """Of the runs of one network: the one whose compile_ms is in the middle."""
    rows = sorted((r for r in lines(f"{when}.json") if r["name"].removesuffix(".onnx") == name), key=lambda r: r["compile_ms"])
    return rows[len(rows) // 2]


def peer_s(name, when):
    return next((r["default"]["first_call_s"] for r in lines(f"peer-{when}.jsonl") if r["name"] == name and "default" in r), None)


print("| network | from | compile ms | passes | code | assemble | load | torch.compile s | times | times of its first compile |")
print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
for name in dict.fromkeys(r["name"].removesuffix(".onnx") for r in lines("cold.json")):
    first = peer_s(name, "cold")
    for when in ("cold", "warm"):
        row, peer = median_row(name, when), peer_s(name, when)
        times = ["" if s is None else f"{s * 1e3 / row['compile_ms']:.0f}" for s in (peer, first)]
        print("|", name, "|", when, "|", f"{row['compile_ms']:.0f}", "|", " | ".join(f"{row[p]:.0f}" for p in PHASES), "|", peer, "|", " | ".join(times), "|")
