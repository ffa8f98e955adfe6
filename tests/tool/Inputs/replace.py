"""Edits of a kernel as `sinter explain --dump-dir` writes it, each into a file of its own.

    replace.py KERNEL.sn FOLDER

same.sn: another schedule; wrong.sn: another result, somewhere; race.sn: several threads store the same element; the others do
not even have the form.
"""

import sys

text = open(sys.argv[1]).read()
folder = sys.argv[2]


def write(name, new):
    assert new != text, name
    open(f"{folder}/{name}", "w").write(new)


write("same.sn", text.replace(" : unroll", ""))
write("wrong.sn", text.replace("exp %14", "exp2 %14"))
write("race.sn", text.replace("store y[1000*g + 512*u_2 + 4*x_2 + v_2]", "store y[1000*g + 512*u_2 + v_2]"))
write("outside.sn", text.replace("store y[1000*g", "store y[2000*g"))
write("fewer.sn", text.replace("w: f32[1000] in noalias invariant align 16, ", "").replace("load w[512*u_2 + 4*x_2 + v_2]", "const.f32 1.0"))
write("wider.sn", text.replace("w: f32[1000] in noalias invariant align 16", "w: f32[1000] in noalias invariant align 64"))
write("two.sn", text + text.replace("@k0", "@k1").replace("k0_r0", "k1_r0"))
write("broken.sn", text.replace("kernel", "kernels", 1))
