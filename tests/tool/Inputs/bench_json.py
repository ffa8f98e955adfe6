"""bench_json.py FILE DEVICE {NAME {KEY=VALUE | error}}: are the JSON lines of `sinter bench` these workloads in this order?"""
import json
import sys

KEYS = {"name", "device", "bytes", "us", "TBps", "share", "kernels", "launches", "compile_ms", "method", "runs", "workspace_bytes"}
head, *lines = [json.loads(line) for line in open(sys.argv[1])]
assert set(head) == {"copy_TBps", "device", "cuda", "driver"} and head["device"] == sys.argv[2], head
wanted = []
for word in sys.argv[3:]:
    if "=" in word or word == "error":
        wanted[-1][1].append(word)
    else:
        wanted.append((word, []))
assert [name for name, _ in wanted] == [line["name"] for line in lines], lines
for line, (_, conditions) in zip(lines, wanted):
    if "error" in conditions:
        assert set(line) == {"name", "device", "error"} and line["error"], line
        continue
    assert KEYS <= set(line) and line["us"] > 0 and line["compile_ms"] > 0, line
    for condition in conditions:
        key, value = condition.split("=")
        value = json.loads(value) if value[0].isdigit() or value in ("null", "true", "false") else value
        assert line[key] == value, (key, line)
