"""The tables tuning and rows against the report of the same search.

    metrics_tuning.py REPORT.json FOLDER
"""

import csv
import json
import sys

report = json.load(open(sys.argv[1]))
(kernel,) = report["kernels"]
trials = list(csv.DictReader(open(sys.argv[2] + "/metric_tuning.csv")))
(rows,) = csv.DictReader(open(sys.argv[2] + "/metric_rows.csv"))
assert {t["choice"]: t["fate"] for t in trials} == {t["choice"]: t["fate"] for t in kernel["trials"]}, trials
for t in trials:
    (same,) = (r for r in kernel["trials"] if r["choice"] == t["choice"])
    assert t["fate"] != "timed" or abs(float(t["us"]) - same["us"]) <= 1e-4 * same["us"], (t, same)
    assert t["fate"] == "timed" or t["us"] == "", t
    assert t["subject"] == kernel["title"] and t["model"] == "m", t
won = [t for t in trials if t["won"] == "1"]
assert len(won) == 1 and won[0]["choice"] == kernel["choice"], won
for key, choice in (("persistent_us", rows["persistent"]), ("looped_us", rows["looped"])):
    assert abs(float(rows[key]) - kernel[key]) <= 1e-4 * kernel[key], rows
    assert (" persistent" in choice) == (key == "persistent_us"), rows
assert abs(float(rows["speedup"]) - kernel["looped_us"] / kernel["persistent_us"]) < 1e-3, rows
print(f"{len(trials)} trials, {len(won)} won; rows of registers beside loops")
