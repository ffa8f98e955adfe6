"""bench_files.py SINTER BENCH: does every graph of the benchmark parse and verify, and has every shape its nearest?"""
import glob
import os
import subprocess
import sys

sinter, bench = sys.argv[1:]
known = subprocess.run([sinter, "list", "ops"], check=True, capture_output=True, text=True).stdout.split()
names = {}
for folder in "suite", "shapes", "contract":
    files = glob.glob(os.path.join(bench, folder, "*.sn"))
    names[folder] = {os.path.basename(path)[:-3] for path in files}
    for path in files:
        if "cumsum" in path and "cumsum" not in known:
            continue  # the workload is there before the operation
        subprocess.run([sinter, "opt", "-passes=", path], check=True, stdout=subprocess.DEVNULL)
with open(os.path.join(bench, "shapes", "nearest")) as f:
    nearest = dict(line.split() for line in f if not line.startswith("#"))
assert len(names["shapes"]) == 40 and set(nearest) == names["shapes"], set(nearest) ^ names["shapes"]
missing = set(nearest.values()) - names["suite"] - {"cumsum_f32_8192x8192"}
assert not missing, missing
