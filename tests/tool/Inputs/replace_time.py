"""An edited schedule changes what a kernel takes, and no bit of its result.

    replace_time.py SINTER FOLDER [OPTION...]      --device=cpu, --device=cuda

The kernel of the dump goes through its elements in order; the edited one jumps through the whole of memory, from one element to the next. The
best of several profiles of each is compared: the edited one takes at least half as long again.
"""

import os
import re
import subprocess
import sys

GRAPH = "graph @g(%x: f32[1024, 1024]) { %a = mul %x, 2.0 %z = add %a, 1.0 return z = %z }\n"
TRIES = 3


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def edited(text):
    """Other places for the same loops, none of which has a vector's neighbours now."""
    g, t, v = (int(re.search(rf"loop {axis} in (\d+)", text).group(1)) for axis in "gtv")
    assert g * t * v == 1024 * 1024, text
    return re.sub(r"\[\d+\*g \+ \d+\*t \+ v\]", f"[g + {g}*t + {g * t}*v]", text).replace(f"loop v in {v} : vector", f"loop v in {v}")


def microseconds(sinter, graph, options):
    profiles = [run(sinter, "run", "--random", "1", "--profile", *options, graph) for _ in range(TRIES)]
    return min(float(re.search(r"^profile: ([\d.]+) us", text, re.M).group(1)) for text in profiles)


def main(sinter, folder, *options):
    os.makedirs(f"{folder}/before")
    os.makedirs(f"{folder}/after")
    graph, new = f"{folder}/graph.sn", f"{folder}/new.sn"
    with open(graph, "w", encoding="utf-8") as file:
        file.write(GRAPH)
    run(sinter, "explain", *options, "--dump-dir", f"{folder}/dump", graph)
    with open(f"{folder}/dump/kernels/k0.sn", encoding="utf-8") as file:
        text = file.read()
    with open(new, "w", encoding="utf-8") as file:
        file.write(edited(text))
    replaced = [*options, "--replace-kernel", f"k0={new}"]
    run(sinter, "run", "--random", "1", *options, "--output-dir", f"{folder}/before", graph)
    run(sinter, "run", "--random", "1", *replaced, "--output-dir", f"{folder}/after", graph)
    with open(f"{folder}/before/z.npy", "rb") as first, open(f"{folder}/after/z.npy", "rb") as second:
        assert first.read() == second.read(), "another result"
    before, after = microseconds(sinter, graph, options), microseconds(sinter, graph, replaced)
    assert after > 1.5 * before, f"{before} us, and {after} us of the edited kernel"
    print(f"the same result in another time: {before:.0f} us, edited {after:.0f} us")


main(*sys.argv[1:])
