"""What the tables that one keeps on all the time cost: instructions of compiling with them, beside those without.

    metrics_cost.py SINTER FOLDER FILE.sn...

Counted by valgrind, inside of sn_compile_to alone, which writes the files too: unlike times, counts are the same on a machine that is busy. One
thread compiles, since valgrind counts that of the caller alone and which kernels are compiled by others is chance. The last line is "at most N %";
1 % or more fails.
"""

import re
import subprocess
import sys

TABLES = "kernel_metadata,graph_stats,fusion_failures"


def instructions(sinter, folder, metrics, path):
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/counts", "--toggle-collect=sn_compile_to", sinter, "emit",
                           "--stage=ptx", "--target=sm_90a", "--threads=1", "--cache=off", f"--metrics={metrics}", f"--metrics-dir={folder}", path],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def main(sinter, folder, *paths):
    most = 0
    for path in paths:
        without, with_tables = (instructions(sinter, folder, metrics, path) for metrics in ("off", TABLES))
        more = 100 * (with_tables / without - 1)
        print(f"{path}: {without} instructions, {more:+.2f} %")
        assert without > 1e6, without
        most = max(most, more)
    print(f"at most {most:.2f} %")
    return most >= 1


sys.exit(main(*sys.argv[1:]))
