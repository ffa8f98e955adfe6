#!/usr/bin/env python3
"""bench/gen_adamw.py: prints bench/suite/adamw_foreach_f32_gpt2_148_tensors.sn.

One AdamW step on every parameter of GPT-2 (124M), each tensor with operations of its own, as a loop over parameters
would build it. Reads parameter, gradient and both moments; returns the new parameter and the new moments.
"""

NAME = "adamw_foreach_f32_gpt2_148_tensors"
BLOCK = [(768,), (768,), (768, 2304), (2304,), (768, 768), (768,), (768,), (768,), (768, 3072), (3072,), (3072, 768), (768,)]
SHAPES = [(50257, 768), (1024, 768)] + 12 * BLOCK + [(768,), (768,)]

# m' = 0.9 m + 0.1 g;  v' = 0.999 v + 0.001 g^2;  p' = (1 - 1e-4) p - 1e-3 m' / (sqrt v' + 1e-8)
STEP = """\
  %ma{k} = mul %m{k}, 0.9
  %mg{k} = mul %g{k}, 0.1
  %nm{k} = add %ma{k}, %mg{k}
  %va{k} = mul %v{k}, 0.999
  %gg{k} = mul %g{k}, %g{k}
  %vg{k} = mul %gg{k}, 0.001
  %nv{k} = add %va{k}, %vg{k}
  %root{k} = sqrt %nv{k}
  %den{k} = add %root{k}, 1e-08
  %up{k} = div %nm{k}, %den{k}
  %pa{k} = mul %p{k}, 0.9999
  %ps{k} = mul %up{k}, 0.001
  %np{k} = sub %pa{k}, %ps{k}"""


def main():
    numbers = range(len(SHAPES))
    inputs = [f"%{x}{k}: f32[{', '.join(map(str, SHAPES[k]))}]" for x in "pgmv" for k in numbers]
    outputs = [f"{x}{k} = %n{x}{k}" for x in "pmv" for k in numbers]
    print(f"# {NAME}: the workload of the same name on the peer's side of the benchmark. Made by bench/gen_adamw.py.")
    print("graph @adamw(" + ",\n             ".join(inputs) + ") {")
    for k in numbers:
        print(STEP.format(k=k))
    print("  return " + ",\n         ".join(outputs))
    print("}")


main()
