"""Files of metric tables when things go wrong, and when many write.

    metrics_files.py SINTER FOLDER FILE.sn      prints one line for each case
"""

import csv
import os
import resource
import signal
import subprocess
import sys

sinter, folder, graph = sys.argv[1:]
TABLES = "kernel_metadata,fusion_failures"


def command(where, tables=TABLES, model="m,\"1\""):
    return [sinter, "emit", "--stage=ptx", "--target=sm_90a", f"--metrics={tables}", f"--metrics-dir={where}", f"--metrics-model={model}", graph]


def run(where, **how):
    done = subprocess.run(command(where), capture_output=True, text=True, check=False, **how)
    return done.returncode, done.stdout, [line for line in done.stderr.splitlines() if line]


def rows(where, table="kernel_metadata"):
    with open(f"{where}/metric_{table}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def small_files(limit):
    def set_limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return set_limit


plain = run(f"{folder}/one")
assert plain[0] == 0 and plain[2] == [], plain
one = rows(f"{folder}/one")
assert {row["model"] for row in one} == {'m,"1"'}, one
print(f"one process: {len(one)} rows")

# Many processes, each of which may be the first.
workers = [subprocess.Popen(command(f"{folder}/many", model=f"p{k}"), stdout=subprocess.DEVNULL) for k in range(12)]
assert all(worker.wait() == 0 for worker in workers)
many = rows(f"{folder}/many")
assert len(many) == 12 * len(one) and all(None not in row and None not in row.values() for row in many), many
assert {row["model"] for row in many} == {f"p{k}" for k in range(12)}
assert [name for name in os.listdir(f"{folder}/many") if "part" in name] == []
print(f"twelve processes: {len(many)} rows, one header")

# A disk that is full after the header: one warning, the same code, and the next one ends the row that was cut.
size = os.path.getsize(f"{folder}/one/metric_kernel_metadata.csv")
full = run(f"{folder}/one", preexec_fn=small_files(size + 20))
assert full[0] == 0 and full[1] == plain[1] and len(full[2]) == 1, full
print("full disk:", full[2][0].replace(folder, "FOLDER"))
assert run(f"{folder}/one")[2] == []
again = rows(f"{folder}/one")
assert len(again) == 2 * len(one) + 1 and again[-1]["kernel"] == one[-1]["kernel"], again
print("the row that was cut is ended")

# A place that cannot be one.
with open(f"{folder}/file", "w", encoding="utf-8") as file:
    file.write("")
nowhere = run(f"{folder}/file/inside")
assert nowhere[0] == 0 and nowhere[1] == plain[1] and len(nowhere[2]) == 1, nowhere
print("no folder:", nowhere[2][0].replace(folder, "FOLDER"))

# A file of another version is left alone.
os.makedirs(f"{folder}/old")
with open(f"{folder}/old/metric_kernel_metadata.csv", "w", encoding="utf-8") as file:
    file.write("model,kernel\n")
old = run(f"{folder}/old")
assert old[0] == 0 and len(old[2]) == 1 and os.path.getsize(f"{folder}/old/metric_kernel_metadata.csv") == 13, old
print("other columns:", old[2][0].replace(folder, "FOLDER"))
