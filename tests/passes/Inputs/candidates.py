"""Every candidate that -remarks=schedule names is obeyed when it is pinned, and means what the kernel means.

    candidates.py SINTER MODULE      MODULE: plain kernels, each with `{` at the end of its header's line
"""

import re
import subprocess
import sys

sinter, path = sys.argv[1:]
text = open(path, encoding="utf-8").read()


def run(*arguments, given):
    done = subprocess.run([sinter, *arguments, "-"], input=given, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}\n{given}")
    return done


said = run("opt", "-passes=schedule", "-target=sm_90", "-remarks=schedule", given=text).stderr
candidates = re.findall(r"^remark: schedule: (\w+): candidate (.*): (\d+) cycles$", said, re.M)
for kernel, header, cycles in candidates:
    pinned = re.sub(rf"(kernel @{kernel}\(.*\)).*{{\n", rf"\1 schedule {header} {{\n", text)
    bound = run("opt", "-passes=schedule,sync", "-target=sm_90", "-verify=each", "-check-meaning=1e-4", given=pinned).stdout
    got = re.search(rf"kernel @{kernel}\(.*\) schedule (.*) scheduled", bound).group(1)
    if missing := [word for word in header.split() if word not in got.split()]:
        sys.exit(f"{kernel}: {missing} of '{header}' are not in '{got}'")
    run("eval", "--check-kernels", "--random", "1", given=bound)
    if int(cycles) <= 0:
        sys.exit(f"{kernel}: '{header}' takes no time")
for kernel in sorted(set(re.findall(r"kernel @(\w+)", text))):
    print(kernel, sum(name == kernel for name, _, _ in candidates))
