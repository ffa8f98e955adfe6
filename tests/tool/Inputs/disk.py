"""A disk that is full and a folder that nobody can write in: one line of what was not written, and everything else as if nothing was.

    disk.py SINTER FOLDER GRAPH        the last line is "N cases"

A full disk is a limit to the size of files; a folder that is none stands for one that cannot be written in, for those who may write everywhere, too.
A run goes on and succeeds; a tool that was asked for a file says by its exit status that it is not there.
"""

import os
import resource
import signal
import subprocess
import sys

RUN = ["run", "--device=cpu", "--random=1"]
EXPLAIN = ["explain", "--target=sm_90a"]
CASES = [  # command, options in which FOLDER is the place, exit status
    (RUN, ["--metrics=all", "--metrics-dir=FOLDER"], 0),
    (RUN, ["--debug=save", "--debug-dir=FOLDER"], 0),
    (EXPLAIN, ["--dump-dir=FOLDER"], 1),
    (EXPLAIN, ["--trace=FOLDER/trace.json"], 1),
    (["report", "--target=sm_90a"], ["--output=FOLDER/report.html"], 1),
]


def full():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))


def said(sinter, command, options, graph, **how):
    done = subprocess.run([sinter, *command, *options, graph], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **how)
    return done.returncode, done.stdout, [line for line in done.stderr.splitlines() if line]


def same(text, other):
    """But for times of the compiler."""
    return len(text.splitlines()) == len(other.splitlines())


def main(sinter, folder, graph):
    count = 0
    plain_file = os.path.join(folder, "file")
    open(plain_file, "w", encoding="utf-8").close()
    for command, options, status in CASES:
        good = said(sinter, command, [o.replace("FOLDER", folder) for o in options], graph)
        assert good[0] == 0 and not good[2], good
        for place, how in ((os.path.join(folder, "full"), {"preexec_fn": full}), (os.path.join(plain_file, "inside"), {})):
            os.makedirs(os.path.join(folder, "full"), exist_ok=True)
            given = [o.replace("FOLDER", place) for o in options]
            code, text, errors = said(sinter, command, given, graph, **how)
            assert code == status, (given, code, errors)
            assert len(errors) == 1 and errors[0].startswith("sinter: ") and place in errors[0], (given, errors)
            assert ": " in errors[0].split(place, 1)[1], (given, errors)  # why
            assert same(text, good[1]), (given, text)
            count += 1
    print(f"{count} cases")


main(*sys.argv[1:])
