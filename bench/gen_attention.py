#!/usr/bin/env python3
"""bench/gen_attention.py [FOLDER]: writes the attentions of bench/contract.

Those of the peer's script for contractions, under its names: B x heads of queries x heads of keys, queries x keys x head size. All are written from their
parts: product, scale, what stands on scores, softmax, product. Several heads of queries on one of keys are an expanded view. A causal mask compares
positions, the first key with the first query, as the peer has it.
"""
import math

import graphs

HEAD = "graph @attention(%q: {dt}[{b}, {hq}, {sq}, {d}], %k: {dt}[{b}, {hk}, {sk}, {d}], %v: {dt}[{b}, {hk}, {sk}, {d}]{more}) {{\n"
SHARED = """\
  %{x}1 = unsqueeze %{x} axes=[2]
  %{x}2 = expand %{x}1 shape=[{b}, {hk}, {each}, {sk}, {d}]
  %{x}3 = reshape %{x}2 shape=[{b}, {hq}, {sk}, {d}]
"""
SCORES = "  %kt = permute {k} perm=[0, 1, 3, 2]\n  %p = matmul %q, %kt\n"
SCALED = "  %s = mul %p, {scale}\n"
CAUSAL = """\
  %i = iota axis=0 dtype=i32 shape=[{sq}, 1]
  %j = iota axis=1 dtype=i32 shape=[1, {sk}]
  %seen = ge %i, %j
  %t = where %seen, %s, -inf
"""
MASK = "  %t = add %s, %m\n"
SOFTCAP = "  %s = div %p, 400\n  %u = tanh %s\n  %t = mul %u, 50\n"
END = "  %w = softmax {scores} axis=3\n  %y = matmul %w, {v}\n  return y = %y\n}}\n"


def attention(tag, b, hq, hk, sq, sk, d, dt="bf16", parts="", more=""):
    sizes = dict(b=b, hq=hq, hk=hk, sq=sq, sk=sk, d=d, dt=dt, each=hq // hk, more=more.format(dt=dt, sq=sq, sk=sk), scale=repr(1 / math.sqrt(d)))
    k, v = ("%k3", "%v3") if hq != hk else ("%k", "%v")
    text = HEAD + (SHARED.replace("{x}", "k") + SHARED.replace("{x}", "v") if hq != hk else "") + SCORES
    text += parts if "%s =" in parts else SCALED + parts
    text += END
    return f"sdpa_{tag}_{dt}_{b}x{hq}x{hk}_{sq}x{sk}x{d}", text.format(k=k, v=v, scores="%t" if parts else "%s", **sizes)


def workloads():
    yield attention("causal", 4, 32, 32, 4096, 4096, 128, parts=CAUSAL)
    yield attention("full", 4, 32, 32, 4096, 4096, 128)
    yield attention("causal", 16, 16, 16, 1024, 1024, 64, parts=CAUSAL)
    yield attention("gqa", 4, 32, 8, 4096, 4096, 128, parts=CAUSAL)
    yield attention("decode", 32, 32, 8, 1, 8192, 128)
    yield attention("vit", 64, 12, 12, 197, 197, 64, dt="f32")
    yield attention("vit", 64, 12, 12, 197, 197, 64)
    yield attention("mask", 8, 16, 16, 1024, 1024, 64, parts=MASK, more=", %m: {dt}[{sq}, {sk}]")
    yield attention("causal", 2, 16, 16, 4096, 4096, 256, parts=CAUSAL)
    yield "attention_softcap_bf16_4x16_2048x2048x64", attention("", 4, 16, 16, 2048, 2048, 64, parts=SOFTCAP)[1]


def main():
    folder = graphs.folder("contract")
    for name, text in workloads():
        graphs.write(folder, name, "the attention of the same name on the peer's side of the benchmark", text)


main()
