"""A trace of `sinter explain --trace` against the trace event format, as Perfetto reads it, and against the steps of the program.

    trace.py SINTER GRAPH FOLDER [OPTION...]      --target=sm_90a: estimates; --device=cpu: a run, as it was measured

Strict: an object with a list of events and nothing unknown; complete events (X) and names of processes (M) alone, each with the keys that its kind
has and of their types; times that are finite, slices of one track that lie side by side or inside each other when times are whole nanoseconds,
since an importer drops one that crosses the end of another. Then: every pass is there, and the launches of a run in the order of the wrapper.
"""

import json
import math
import re
import subprocess
import sys

KEYS = {"X": {"name": str, "ph": str, "pid": int, "tid": int, "ts": float, "dur": float}, "M": {"name": str, "ph": str, "pid": int, "tid": int, "args": dict}}


def no_doubles(pairs):
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"a key stands twice: {keys}"
    return dict(pairs)


def no_constant(word):
    raise AssertionError(f"{word} is no JSON")


def check_event(event):
    assert event.get("ph") in KEYS, event
    keys = KEYS[event["ph"]]
    assert set(keys) <= set(event) <= set(keys) | {"args"}, event
    for key, kind in keys.items():
        assert type(event[key]) is kind or (kind is float and type(event[key]) is int), (key, event)
    assert event["name"] and all(type(value) is str for value in event.get("args", {}).values()), event
    if event["ph"] == "M":
        assert event["name"] == "process_name" and set(event["args"]) == {"name"}, event
    else:
        assert math.isfinite(event["ts"]) and math.isfinite(event["dur"]) and event["ts"] >= 0 and event["dur"] > 0, event


def check_nesting(slices):
    """In whole nanoseconds, outer ones first."""
    times = sorted((round(s["ts"] * 1000), -round((s["ts"] + s["dur"]) * 1000), s["name"]) for s in slices)
    around = []
    for start, end, name in times:
        while around and around[-1] <= start:
            around.pop()
        assert not around or -end <= around[-1], f"{name} at {start} ns begins inside of a slice and ends behind it"
        around.append(-end)


def launches(sinter, graph, target):
    """Names of kernels in the order of a run; a repeat is not unrolled."""
    text = subprocess.run([sinter, "emit", "--stage=wrapper", *target, graph], capture_output=True, text=True, check=True).stdout
    body = re.sub(r"(?s)^  prepare \{\n.*?^  \}\n", "", text, flags=re.M)
    return re.findall(r"^\s*call @(\w+)", body, re.M)


def main(sinter, graph, folder, *options):
    path = f"{folder}/trace.json"
    subprocess.run([sinter, "explain", *options, "--trace", path, graph], capture_output=True, check=True)
    with open(path, "rb") as file:
        text = file.read().decode("utf-8", "strict")
    trace = json.loads(text, object_pairs_hook=no_doubles, parse_constant=no_constant)
    assert set(trace) == {"traceEvents"} and type(trace["traceEvents"]) is list, trace.keys()
    events = trace["traceEvents"]
    for event in events:
        check_event(event)
    tracks = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    slices = [e for e in events if e["ph"] == "X"]
    assert len(tracks) == 2 and {e["pid"] for e in slices} == set(tracks), tracks
    for track in tracks:
        check_nesting([e for e in slices if e["pid"] == track])
    names = [e["name"] for e in slices]
    for name in "decompose", "fuse", "schedule", "plan", "code generation":
        assert name in names, f"no {name}"
    run = next(track for track, name in tracks.items() if name.startswith("a run"))
    found = [e["name"] for e in sorted(slices, key=lambda e: e["ts"]) if e["pid"] == run]
    wanted = launches(sinter, graph, [o for o in options if o.startswith("--target")] or ["--target=host"])
    assert found == wanted, (found, wanted)
    print(f"{len(slices)} slices, {len(found)} launches: {' '.join(found[:4])}")


main(*sys.argv[1:])
