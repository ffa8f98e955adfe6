"""Passes that look at what a value is made of take time that grows with the kernel, not with its square.

    long_kernels.py SINTER FOLDER

Kernels of many statements that are all of a result of another one (finish-results), or all of a column (schedule). Instructions inside of the pass
are counted by valgrind for N and 4 N statements: more than 6 times as many fail.
"""

import re
import subprocess
import sys

SHORT, TIMES, MOST = 1000, 4, 6
RESULT = """buffer x: f32[3, 100000] input 0
buffer s: f32[3] temp
buffer y: f32[3, 100000] output 0
kernel @sums(x, s) {{ loop i in 3 {{ %0 = reduce sum r in 100000 {{ %1 = load x[100000*i + r] yield %1 }} store s[i], %0 }} }}
kernel @norm(x, s, y) {{ loop i in 3 {{ loop j in 100000 {{
%0 = load x[100000*i + j]
%1 = load s[i]
{chain}
store y[100000*i + j], %{last} }} }} }}
"""
COLUMN = """buffer x: f32[3000, 10000] input 0
buffer w: f32[10000] input 1
buffer y: f32[3000, 10000] output 0
kernel @norm(x, w, y) {{ loop i in 3000 {{ loop j in 10000 {{
%0 = load x[10000*i + j]
%1 = load w[j]
{chain}
store y[10000*i + j], %{last} }} }} }}
"""


def text(form, n):
    chain = [f"%{k} = exp %{k - 1}" if k % 2 else f"%{k} = mul %{k - 1}, %{k - 2}" for k in range(2, n)]
    return form.format(chain="\n".join([*chain, f"%{n} = mul %0, %{n - 1}"]), last=n)


def instructions(sinter, folder, function, passes, module):
    with open(f"{folder}/kernel.sn", "w", encoding="utf-8") as file:
        file.write(module)
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/counts", f"--toggle-collect={function}", sinter, "opt",
                           "-quiet", "-verify=off", f"-passes={passes}", "-target=sm_90a", f"{folder}/kernel.sn"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def main(sinter, folder):
    failed = False
    for name, function, form in (("finish-results", "sn_pass_finish_results", RESULT), ("schedule", "sn_schedule_sweep_applies", COLUMN)):
        few, many = (instructions(sinter, folder, function, name, text(form, n)) for n in (SHORT, TIMES * SHORT))
        print(f"{name}: {few} instructions for {SHORT} statements, {many / few:.1f} times as many for {TIMES} times as many")
        assert few > 1e5, few
        failed |= many > MOST * few
    return failed


sys.exit(main(*sys.argv[1:]))
