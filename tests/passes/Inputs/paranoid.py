"""paranoid.py SINTER DIR: all passes, in paranoid mode and with -check-meaning, over every valid module under DIR.

A module that an empty pipeline refuses is a test of an error. One with sizes that are no numbers stops before `schedule`, and
cannot be evaluated, and neither is one that says of itself that it is too large for that, or has kernels alone; one that asks a pass for what it refuses
stops before that. A file that is expected to fail, or whose kernels are wrong as they stand, is left to its own test.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

sinter, root = sys.argv[1:]
stops = {"a size is no number": "split-reduction", "has a symbolic size": "split-reduction", "the schedule's": "split-reduction", "class tile wants": "split-reduction", "cannot be written back": "schedule", "operand is symbolic": "decompose"}


def opt(path, *options):
    """The finished run; one that took too long has failed with a message of ours."""
    command = [sinter, "opt", *options, path]
    try:
        return subprocess.run(command, text=True, capture_output=True, timeout=300)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "took more than 300 s")


def why(done):
    """The last line that a failed run wrote, or the signal that ended it."""
    return (done.stderr.splitlines() or [f"wrote nothing, status {done.returncode}"])[-1]


def run(path):
    """(number of runs, failures) of one module; no runs: it is the test of an error."""
    text = path.read_text()
    if "XFAIL" in text or "%not %sinter eval" in text:
        return 0, []
    if opt(path, "-passes=").returncode:
        return 0, [None]
    failures = []
    meaning = [] if "too large to be evaluated" in text.lower() else ["-check-meaning=1e-3"]
    for target in "sm_90", "host":
        options = [f"-target={target}", "-verify=paranoid"]
        done = opt(path, *options, *meaning)
        for message, last in stops.items():
            if message in done.stderr:
                done = opt(path, *options, f"-stop-after={last}")
        if "no wrapper calls its kernel" in done.stderr or "nothing can be compared" in done.stderr:
            done = opt(path, *options)
        if done.returncode:
            failures.append(f"{path} for {target}: {why(done)}")
    return 2, failures


with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(run, sorted(pathlib.Path(root).rglob("*.sn"))))
checked = sum(runs for runs, _ in results)
refused = sum(lines == [None] for _, lines in results)
failures = [line for _, lines in results for line in lines if line]
print(f"{checked} runs, {refused} files of errors, {len(failures)} failures")
for failure in failures:
    print(failure)
sys.exit(1 if failures or checked < 100 else 0)
