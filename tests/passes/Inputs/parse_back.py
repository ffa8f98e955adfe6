"""parse_back.py SINTER FILE PASS...: the dump after each pass, printed back by an empty pipeline, is the same text."""

import subprocess
import sys

sinter, path, *passes = sys.argv[1:]


def opt(text, *options):
    done = subprocess.run([sinter, "opt", *options], input=text, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"opt {' '.join(options)}: {done.stderr}")
    return done.stdout


for name in passes:
    dump = opt(None, f"-print-after={name}", f"-stop-after={name}", "-quiet", path)
    modules = [m for m in dump.split(f"# after {name}\n") if m.strip()]
    if not modules or "kernel @" not in dump:
        sys.exit(f"{path}: nothing was printed after {name}")
    for module in modules:
        if opt(module, "-passes=", "-") != module:
            sys.exit(f"{path}: what was printed after {name} is not printed back")
