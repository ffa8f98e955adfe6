#!/usr/bin/env python3
"""bench/gen_networks.py [FOLDER] [--elements NAME]: writes whole networks as graphs without elements of their weights: a transformer, GPT-2 that
decodes one token, in three forms, ResNet-50, a U-Net.

They are for what only a whole network shows, such as how its intermediates share memory: `sinter emit --stage=memory FOLDER/resnet50_f32_32.sn`. Weights have names
and shapes and no elements, so that a file is a few kilobytes. With --elements the one of that name has some, drawn once and repeated, in
FOLDER/NAME.safetensors: for bench/cold_start.c.
"""
import array
import json
import os
import random
import re
import struct

import graphs


class Graph:
    """Lines of a graph; each method adds one value and gives its name."""

    def __init__(self, name, dtype, inputs):
        self.name, self.dtype, self.lines, self.n = name, dtype, [], 0
        self.head = f"graph @{name}({', '.join(f'%{k}: {t}' for k, t in inputs.items())}) {{"

    def add(self, text):
        self.n += 1
        self.lines.append(f"  %v{self.n} = {text}")
        return f"%v{self.n}"

    def weight(self, name, *shape):
        return self.add(f'weight name="{name}" dtype={self.dtype} shape={list(shape)}')

    def reshape(self, x, *shape):
        return self.add(f"reshape {x} shape={list(shape)}")

    def text(self, **outputs):
        returns = ", ".join(f"{k} = {v}" for k, v in outputs.items())
        return "\n".join([self.head, *self.lines, f"  return {returns}", "}", ""])


# ---- a transformer as GPT-2 is: norms before, learnt positions ----

def linear(g, x, name, n, k):
    p = g.add(f"matmul {x}, {g.weight(name + '.w', k, n)}")
    return g.add(f"add {p}, {g.weight(name + '.b', n)}")


def norm(g, x, name, n):
    return g.add(f"layer_norm {x}, {g.weight(name + '.w', n)}, {g.weight(name + '.b', n)} eps=1e-5")


def heads(g, x, b, s, d, h):
    return g.add(f"permute {g.reshape(x, b, s, h, d // h)} perm=[0, 2, 1, 3]")


def attention(g, x, name, b, s, d, h):
    qkv = linear(g, x, name + ".qkv", 3 * d, d)
    q, k, v = (heads(g, g.add(f"slice {qkv} axis=2 start={i * d} stop={(i + 1) * d}"), b, s, d, h) for i in range(3))
    kt = g.add(f"permute {k} perm=[0, 1, 3, 2]")
    p = g.add(f"matmul {q}, {kt}")
    scale = g.add(f"full value={(d // h) ** -0.5} dtype={g.dtype} shape=[]")
    w = g.add(f"softmax {g.add(f'mul {p}, {scale}')} axis=3")
    y = g.add(f"permute {g.add(f'matmul {w}, {v}')} perm=[0, 2, 1, 3]")
    return linear(g, g.reshape(y, b, s, d), name + ".out", d, d)


def transformer(layers, b, s, d, h, vocabulary, dtype):
    g = Graph("transformer", dtype, {"ids": f"i64[{b}, {s}]"})
    x = g.add(f"index_select {g.weight('tokens', vocabulary, d)}, %ids axis=0")
    x = g.add(f"add {x}, {g.weight('positions', s, d)}")
    for i in range(layers):
        x = g.add(f"add {x}, {attention(g, norm(g, x, f'{i}.norm1', d), f'{i}.attention', b, s, d, h)}")
        y = g.add(f"gelu_tanh {linear(g, norm(g, x, f'{i}.norm2', d), f'{i}.up', 4 * d, d)}")
        x = g.add(f"add {x}, {linear(g, y, f'{i}.down', d, 4 * d)}")
    return g.text(y=norm(g, x, "norm", d))


# ---- GPT-2 with one new token and what its attention keeps of those before ----

def scaled_softmax(g, scores, d, h, seen=None):
    s = g.add(f"mul {scores}, {g.add(f'full value={(d // h) ** -0.5} dtype={g.dtype} shape=[]')}")
    if seen:
        s = g.add(f"where {seen}, {s}, {g.add(f'full value=-inf dtype={g.dtype} shape=[]')}")
    return g.add(f"softmax {s} axis=3")


def over_parts(g, q, k, v, i, kept, d, h):
    """Scores of the keys that are given and of the new one, side by side; the new ones are outputs: the caller puts them behind the others."""
    old = g.add(f"matmul {q}, {g.add(f'permute %k{i} perm=[0, 1, 3, 2]')}")
    new = g.add(f"matmul {q}, {g.add(f'permute {k} perm=[0, 1, 3, 2]')}")
    w = scaled_softmax(g, g.add(f"concat {old}, {new} axis=3"), d, h)
    of_old, of_new = (g.add(f"slice {w} axis=3 start={a} stop={b}") for a, b in ((0, kept), (kept, kept + 1)))
    return g.add(f"add {g.add(f'matmul {of_old}, %v{i}')}, {g.add(f'mul {of_new}, {v}')}"), k, v


def over_joined(g, q, k, v, i, kept, d, h):
    """Keys with the new one behind them."""
    keys, values = (g.add(f"concat %{name}{i}, {x} axis=2") for name, x in (("k", k), ("v", v)))
    w = scaled_softmax(g, g.add(f"matmul {q}, {g.add(f'permute {keys} perm=[0, 1, 3, 2]')}"), d, h)
    return g.add(f"matmul {w}, {values}"), k, v


def over_kept(g, q, k, v, i, kept, d, h):
    """Keys of all positions, of which the new one is written where it belongs; later positions are not seen."""
    keys, values = (g.add(f"scatter %{name}{i}, %place, {g.reshape(x, 1, h, d // h)}") for name, x in (("k", k), ("v", v)))
    seen = g.add(f"le {g.add(f'iota shape=[1, 1, 1, {kept}] axis=3 dtype=i64')}, {g.reshape('%place', 1, 1, 1, 1)}")
    scores = g.add(f"matmul {q}, {g.reshape(g.add(f'permute {keys} perm=[1, 2, 0]'), 1, h, d // h, kept)}")
    w = scaled_softmax(g, scores, d, h, seen)
    return g.add(f"matmul {w}, {g.reshape(g.add(f'permute {values} perm=[1, 0, 2]'), 1, h, kept, d // h)}"), keys, values


def decode(layers, kept, d, h, vocabulary, dtype, attend):
    in_place = attend is over_kept
    keep = f"{dtype}[{kept}, {h}, {d // h}]" if in_place else f"{dtype}[1, {h}, {kept}, {d // h}]"
    g = Graph("gpt2_decode", dtype, {"id": "i64[1]", "place": "i64[1]", **{f"{n}{i}": keep for i in range(layers) for n in "kv"}})
    g.n = 1000  # %v1 .. are inputs
    words, outputs = g.weight("words", vocabulary, d), {}
    x = g.add(f"index_select {words}, %id axis=0")
    places = g.weight("places", 1024, d)
    x = g.add(f"add {x}, {g.add(f'index_select {places}, %place axis=0')}")
    for i in range(layers):
        qkv = linear(g, norm(g, x, f"{i}.norm1", d), f"{i}.qkv", 3 * d, d)
        q, k, v = (g.reshape(g.add(f"slice {qkv} axis=1 start={j * d} stop={(j + 1) * d}"), 1, h, 1, d // h) for j in range(3))
        y, *new = attend(g, q, k, v, i, kept, d, h)
        for n, value in zip("kv", new):
            outputs[f"new_{n}{i}"] = f"{value} writes %{n}{i}" if in_place else value
        x = g.add(f"add {x}, {linear(g, g.reshape(y, 1, d), f'{i}.out', d, d)}")
        y = g.add(f"gelu_tanh {linear(g, norm(g, x, f'{i}.norm2', d), f'{i}.up', 4 * d, d)}")
        x = g.add(f"add {x}, {linear(g, y, f'{i}.down', d, 4 * d)}")
    by_words = g.add(f"permute {words} perm=[1, 0]")
    return g.text(y=g.add(f"matmul {norm(g, x, 'norm', d)}, {by_words}"), **outputs)


# ---- images ----

def conv(g, x, name, o, c, k, stride=1):
    return g.add(f"conv {x}, {g.weight(name, o, c, k, k)} stride={[stride] * 2} padding={[k // 2] * 2}")


def batch_norm(g, x, name, c):
    return g.add(f"batch_norm {x}, {', '.join(g.weight(f'{name}.{w}', c) for w in ('w', 'b', 'mean', 'var'))} eps=1e-5")


def conv_bn(g, x, name, o, c, k, stride=1, relu=True):
    y = batch_norm(g, conv(g, x, name, o, c, k, stride), name, o)
    return g.add(f"relu {y}") if relu else y


def max_pool(g, x, k, stride, padding=0):
    if padding:
        x = g.add(f"pad {x} low=[0, 0, {padding}, {padding}] high=[0, 0, {padding}, {padding}] value=-inf")
    rows = g.add(f"unfold {x} axis=2 size={k} step={stride}")
    return g.add(f"amax {g.add(f'unfold {rows} axis=3 size={k} step={stride}')} axes=[4, 5]")


def bottleneck(g, x, name, c, width, stride):
    y = conv_bn(g, x, name + ".1", width, c, 1)
    y = conv_bn(g, y, name + ".2", width, width, 3, stride)
    y = conv_bn(g, y, name + ".3", 4 * width, width, 1, relu=False)
    if stride > 1 or c != 4 * width:
        x = conv_bn(g, x, name + ".down", 4 * width, c, 1, stride, relu=False)
    return g.add(f"relu {g.add(f'add {y}, {x}')}")


def resnet50(n, dtype):
    g = Graph("resnet50", dtype, {"x": f"{dtype}[{n}, 3, 224, 224]"})
    x = max_pool(g, conv_bn(g, "%x", "stem", 64, 3, 7, 2), 3, 2, 1)
    c = 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for i in range(blocks):
            x = bottleneck(g, x, f"{stage}.{i}", c, width, 2 if stage and not i else 1)
            c = 4 * width
    return g.text(y=linear(g, g.add(f"mean {x} axes=[2, 3]"), "fc", 1000, c))


def double_conv(g, x, name, o, c):
    return conv_bn(g, conv_bn(g, x, name + ".1", o, c, 3), name + ".2", o, o, 3)


def up(g, x, name, o, c):
    """A transposed convolution 2x2 of stride 2, as sn_conv_transpose builds it."""
    w = g.add(f"permute {g.add(f'flip {g.weight(name, c, o, 2, 2)} axes=[2, 3]')} perm=[1, 0, 2, 3]")
    return g.add(f"conv {x}, {w} padding=[1, 1] input_dilation=[2, 2]")


def unet(n, size, widths, dtype):
    g = Graph("unet", dtype, {"x": f"{dtype}[{n}, 3, {size}, {size}]"})
    x, c, kept = "%x", 3, []
    for i, width in enumerate(widths):
        x = double_conv(g, max_pool(g, x, 2, 2) if i else x, f"down{i}", width, c)
        kept.append(x)
        c = width
    for i in reversed(range(len(widths) - 1)):
        x = g.add(f"concat {kept[i]}, {up(g, x, f'up{i}', widths[i], c)} axis=1")
        c = widths[i]
        x = double_conv(g, x, f"up{i}", c, 2 * c)
    return g.text(y=conv(g, x, "out", 2, c, 1))


NETWORKS = {
    "transformer_bf16_12x8x1024x768": transformer(12, 8, 1024, 768, 12, 50257, "bf16"),
    "gpt2_decode_bf16_512": decode(12, 512, 768, 12, 50257, "bf16", over_parts),
    "gpt2_decode_joined_bf16_512": decode(12, 512, 768, 12, 50257, "bf16", over_joined),
    "gpt2_decode_kept_bf16_512": decode(12, 512, 768, 12, 50257, "bf16", over_kept),
    "resnet50_f32_32": resnet50(32, "f32"),
    "resnet50_f32_1": resnet50(1, "f32"),
    "unet_f32_4x256": unet(4, 256, (64, 128, 256, 512, 1024), "f32"),
}



def write_elements(path, name, text):
    """FOLDER/NAME.safetensors with all weights of a graph of f32, and the graph beside it, which names the file."""
    shapes = {n: [int(k) for k in shape.split(", ")] for n, shape in re.findall(r'weight name="([^"]+)" dtype=f32 shape=\[([^\]]*)\]', text)}
    draw = random.Random(1)
    some = array.array("f", [draw.gauss(0, 0.02) for _ in range(1 << 16)]).tobytes()
    head, at = {}, 0
    for n, shape in shapes.items():
        size = 4
        for k in shape:
            size *= k
        head[n] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    words = json.dumps(head).encode()
    words += b" " * (-len(words) % 8)
    with open(os.path.join(path, f"{name}.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(words)) + words)
        for entry in head.values():
            size = entry["data_offsets"][1] - entry["data_offsets"][0]
            file.write((some * (size // len(some) + 1))[:size])
    with open(os.path.join(path, f"{name}.sn"), "w", encoding="utf-8") as file:
        file.write(f'weights "{name}.safetensors"\n{text}')


given = graphs.arguments("networks", "--elements")
for name, text in NETWORKS.items():
    graphs.write(given.folder, name, "a whole network, weights by name alone", text)
if given.elements:
    write_elements(given.folder, given.elements, NETWORKS[given.elements])
