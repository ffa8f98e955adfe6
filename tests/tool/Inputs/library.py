"""Products of every dtype, layout and epilogue that cuBLASLt has, left to it by each of its first algorithms, compared with
the evaluator.

    python3 library.py SINTER [option of sinter run ...]
"""

import subprocess
import sys

SHAPES = {
    "nn": "%x: T[256, 128], %w: T[128, 64]",
    "nt": "%x: T[256, 128], %p: T[64, 128]",
    "tn": "%q: T[128, 256], %w: T[128, 64]",
    "batch": "%x: T[5, 256, 128], %w: T[5, 128, 64]",
    "odd": "%x: T[33, 57], %w: T[57, 19]",
    "row": "%x: T[1, 128], %w: T[128, 64]",
}
# Dtype of the factors, of the product and of the result.
DTYPES = [("f32", "f32", "f32"), ("f64", "f64", "f64"), ("f16", "f16", "f16"), ("bf16", "bf16", "bf16"),
          ("f16", "f32", "f32"), ("bf16", "f32", "f32"), ("bf16", "f32", "bf16"), ("i8", "i32", "i32")]
BIAS = {"f32": "f32", "bf16": "bf16"}


def graph(shape, factor, product, result, epilogue, algo):
    columns = 19 if shape == "odd" else 64
    lines = [f"graph @f({SHAPES[shape].replace('T', factor)}, %b: {result}[{columns}]) {{"]
    if shape == "nt":
        lines.append("  %w = permute %p perm=[1, 0]")
    if shape == "tn":
        lines.append("  %x = permute %q perm=[1, 0]")
    x, w = "%x", "%w"
    if factor != product:
        lines += [f"  %xc = cast %x dtype={product}", f"  %wc = cast %w dtype={product}"]
        x, w = "%xc", "%wc"
    lines.append(f'  %0 = matmul {x}, {w} schedule="library algo={algo}"')
    value = "%0"
    if "bias" in epilogue:
        lines += [f"  %bc = cast %b dtype={product}", f"  %1 = add {value}, %bc"]
        value = "%1"
    if "relu" in epilogue:
        lines.append(f"  %2 = relu {value}")
        value = "%2"
    if product != result:
        lines.append(f"  %3 = cast {value} dtype={result}")
        value = "%3"
    return "\n".join([*lines, f"  return y = {value}", "}", ""])


def epilogues(factor, product, result):
    if product not in ("f32", "f16", "bf16"):
        return ["none"]
    return ["none", "relu"] if product != "f32" else ["none", "relu", "bias", "bias relu"]


def cases():
    for shape in SHAPES:
        for dtypes in DTYPES:
            for epilogue in epilogues(*dtypes):
                for algo in range(3 if shape in ("nn", "batch") else 1):
                    yield shape, *dtypes, epilogue, algo


def run(command, text, inputs):
    done = subprocess.run([*command, *inputs, "--check", "--kernels", "-"], input=text, capture_output=True, text=True)
    library = sum(" cuBLASLt " in line for line in done.stdout.splitlines())
    return done.returncode == 0, library, done.stdout + done.stderr


def main():
    command = [sys.argv[1], "run", *sys.argv[2:]]
    n = failed = ours = 0
    for shape, factor, product, result, epilogue, algo in cases():
        text = graph(shape, factor, product, result, epilogue, algo)
        special = [["--random", "1"]]
        if factor in ("f32", "bf16") and algo == 0 and shape == "nn":
            name = "x" if shape != "tn" else "q"
            special.append(["--input", f"{name}=special", "--random", "1"])
        for inputs in special:
            ok, library, output = run(command, text, inputs)
            n, failed, ours = n + 1, failed + (not ok), ours + (library == 0)
            name = f"{shape} {factor} {product} {result} {epilogue} algo={algo} {' '.join(inputs)}"
            if not ok:
                print(f"FAILED {name}\n{output}")
            elif not library:
                print(f"ours: {name}")
    print(f"{n} products, {failed} failed, {ours} by kernels of ours")


main()
