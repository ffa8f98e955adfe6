"""Networks as .sn text, without PyTorch: to look at what becomes of them (`sinter explain`, `sinter report`). Weights have names and no elements, so that
they are compiled for a target and not run.

    python3 bench/networks/text.py resnet50|gpt2 [--batch N] [--dtype f32|bf16] > FILE.sn
"""

import argparse


class Graph:
    def __init__(self, name, dtype):
        self.name, self.dtype, self.lines, self.inputs, self.count = name, dtype, [], [], 0

    def put(self, text, name=None):
        self.count += 1
        name = name or f"v{self.count}"
        self.lines.append(f"  %{name} = {text}")
        return f"%{name}"

    def weight(self, name, *shape):
        return self.put(f'weight name="{name}" dtype={self.dtype} shape=[{", ".join(map(str, shape))}]')

    def input(self, name, dtype, *shape):
        self.inputs.append(f"%{name}: {dtype}[{', '.join(map(str, shape))}]")
        return f"%{name}"

    def text(self, result):
        return "\n".join([f"graph @{self.name}({', '.join(self.inputs)}) {{", *self.lines, f"  return y = {result}", "}"])


def resnet50(batch, dtype):
    g = Graph("resnet50", dtype)

    def conv(x, name, out, into, taps, stride=1, relu=True, beside=None):
        w = g.weight(f"{name}.weight", out, into, taps, taps)
        y = g.put(f"conv {x}, {w} stride=[{stride}, {stride}] padding=[{taps // 2}, {taps // 2}]", name.replace(".", "_"))
        scales = [g.weight(f"{name}.bn.{part}", out) for part in ("weight", "bias", "mean", "var")]
        y = g.put(f"batch_norm {y}, {', '.join(scales)} eps=1e-05")
        if beside:
            y = g.put(f"add {y}, {beside}")
        return g.put(f"relu {y}") if relu else y

    x = conv(g.input("image", dtype, batch, 3, 224, 224), "conv1", 64, 3, 7, 2)
    x = g.put(f"pad {x} low=[0, 0, 1, 1] high=[0, 0, 1, 1] value=-inf")
    x = g.put(f"unfold {x} axis=2 size=3 step=2")
    x = g.put(f"unfold {x} axis=3 size=3 step=2")
    x = g.put(f"amax {x} axes=[4, 5]", "pool")
    into = 64
    for layer, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], 1):
        for block in range(blocks):
            name, stride = f"layer{layer}.{block}", 2 if block == 0 and layer > 1 else 1
            beside = x if block else conv(x, f"{name}.down", 4 * width, into, 1, stride, relu=False)
            y = conv(x, f"{name}.conv1", width, into, 1)
            y = conv(y, f"{name}.conv2", width, width, 3, stride)
            x = conv(y, f"{name}.conv3", 4 * width, width, 1, beside=beside)
            into = 4 * width
    x = g.put(f"mean {x} axes=[2, 3]")
    w = g.put(f"permute {g.weight('fc.weight', 1000, 2048)} perm=[1, 0]")
    return g.text(g.put(f"add {g.put(f'matmul {x}, {w}')}, {g.weight('fc.bias', 1000)}"))


def gpt2(batch, dtype, layers=12, width=768, heads=12, positions=256, words=50257):
    g = Graph("gpt2", dtype)
    head = width // heads

    def linear(x, name, into, out):
        w = g.weight(f"{name}.weight", into, out)
        return g.put(f"add {g.put(f'matmul {x}, {w}', name.replace('.', '_'))}, {g.weight(f'{name}.bias', out)}")

    def norm(x, name):
        return g.put(f"layer_norm {x}, {g.weight(f'{name}.weight', width)}, {g.weight(f'{name}.bias', width)} eps=1e-05")

    tokens = g.input("tokens", "i64", batch, positions)
    ids = g.put(f"reshape {tokens} shape=[{batch * positions}, 1]")
    ids = g.put(f"expand {ids} shape=[{batch * positions}, {width}]")
    x = g.put(f"gather {g.weight('wte', words, width)}, {ids} axis=0")
    x = g.put(f"reshape {x} shape=[{batch}, {positions}, {width}]")
    x = g.put(f"add {x}, {g.weight('wpe', positions, width)}")
    i = g.put(f"iota dtype=i64 axis=0 shape=[{positions}, 1]")
    j = g.put(f"iota dtype=i64 axis=1 shape=[1, {positions}]")
    seen = g.put(f"le {j}, {i}")
    low = g.put(f"full dtype={dtype} value=-inf shape=[]")
    for layer in range(layers):
        name = f"h{layer}"
        qkv = linear(norm(x, f"{name}.ln1"), f"{name}.attn", width, 3 * width)
        qkv = g.put(f"reshape {qkv} shape=[{batch}, {positions}, 3, {heads}, {head}]")
        qkv = g.put(f"permute {qkv} perm=[2, 0, 3, 1, 4]")
        q, k, v = (g.put(f"reshape {g.put(f'slice {qkv} axis=0 start={n} stop={n + 1}')} shape=[{batch}, {heads}, {positions}, {head}]")
                   for n in range(3))
        s = g.put(f"matmul {q}, {g.put(f'permute {k} perm=[0, 1, 3, 2]')}")
        s = g.put(f"mul {s}, {g.put(f'full dtype={dtype} value={head ** -0.5} shape=[]')}")
        s = g.put(f"softmax {g.put(f'where {seen}, {s}, {low}')} axis=3")
        y = g.put(f"permute {g.put(f'matmul {s}, {v}')} perm=[0, 2, 1, 3]")
        y = g.put(f"reshape {y} shape=[{batch}, {positions}, {width}]")
        x = g.put(f"add {x}, {linear(y, f'{name}.proj', width, width)}")
        y = g.put(f"gelu_tanh {linear(norm(x, f'{name}.ln2'), f'{name}.fc', width, 4 * width)}")
        x = g.put(f"add {x}, {linear(y, f'{name}.out', 4 * width, width)}")
    x = norm(x, "ln_f")
    return g.text(g.put(f"matmul {x}, {g.weight('lm_head', width, words)}"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network", choices=["resnet50", "gpt2"])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dtype", default="bf16")
    a = parser.parse_args()
    print({"resnet50": resnet50, "gpt2": gpt2}[a.network](a.batch, a.dtype))


main()
