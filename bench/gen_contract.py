#!/usr/bin/env python3
"""bench/gen_contract.py [FOLDER]: writes bench/contract/*.sn.

The matrix products of the peer's script for contractions, under its names: plain ones, batches, and layers with what stands before and behind the
product. A product is M x N x K; of the layouts "nt" has its right operand as [N, K], as the weights of a linear layer are, and "tn" its left one as
[K, M]: both are transposed as views.

Halves round as the peer's do, with one difference: a bias is added to the rounded product, where the peer's product takes it in before it rounds. What
follows sees a value that was rounded once in either case.
"""
import graphs

MM = {
    "nn": "graph @mm(%a: {dt}[{m}, {k}], %b: {dt}[{k}, {n}]) {{\n  %c = matmul %a, %b{how}\n  return c = %c\n}}\n",
    "nt": """\
graph @mm(%a: {dt}[{m}, {k}], %b: {dt}[{n}, {k}]) {{
  %t = permute %b perm=[1, 0]
  %c = matmul %a, %t{how}
  return c = %c
}}
""",
    "tn": """\
graph @mm(%a: {dt}[{k}, {m}], %b: {dt}[{k}, {n}]) {{
  %t = permute %a perm=[1, 0]
  %c = matmul %t, %b{how}
  return c = %c
}}
""",
}
BMM = "graph @bmm(%a: {dt}[{b}, {m}, {k}], %b: {dt}[{b}, {k}, {n}]) {{\n  %c = matmul %a, %b\n  return c = %c\n}}\n"
LINEAR_GELU = """\
graph @linear_gelu(%x: {dt}[{m}, {k}], %w: {dt}[{n}, {k}], %b: {dt}[{n}]) {{
  %t = permute %w perm=[1, 0]
  %p = matmul %x, %t
  %s = add %p, %b
  %y = gelu_tanh %s
  return y = %y
}}
"""
LINEAR_ADD = """\
graph @linear_add(%x: {dt}[{m}, {k}], %w: {dt}[{n}, {k}], %b: {dt}[{n}], %r: {dt}[{m}, {n}]) {{
  %t = permute %w perm=[1, 0]
  %p = matmul %x, %t
  %s = add %p, %b
  %y = add %r, %s
  return y = %y
}}
"""
SWIGLU_MLP = """\
graph @swiglu_mlp(%x: {dt}[{m}, {k}], %w: {dt}[{n}, {k}], %v: {dt}[{n}, {k}]) {{
  %wt = permute %w perm=[1, 0]
  %vt = permute %v perm=[1, 0]
  %p = matmul %x, %wt
  %q = matmul %x, %vt
  %s = silu %p
  %y = mul %s, %q
  return y = %y
}}
"""
RMSNORM_LINEAR = """\
graph @rmsnorm_linear(%x: {dt}[{m}, {k}], %g: {dt}[{k}], %w: {dt}[{n}, {k}]) {{
  %xf = cast %x dtype=f32
  %sq = mul %xf, %xf
  %ms = mean %sq axes=[1] keepdim=true
  %me = add %ms, 1e-06
  %rs = rsqrt %me
  %xn = mul %xf, %rs
  %xh = cast %xn dtype={dt}
  %xg = mul %xh, %g
  %t = permute %w perm=[1, 0]
  %y = matmul %xg, %t
  return y = %y
}}
"""
GEMM_RELU = """\
graph @gemm_relu(%x: {dt}[{m}, {k}], %w: {dt}[{n}, {k}], %b: {dt}[{n}]) {{
  %t = permute %w perm=[1, 0]
  %p = matmul %x, %t
  %s = add %p, %b
  %r = relu %s
  %y = div %r, 2
  return y = %y
}}
"""
LINEAR_GELU_SOFTMAX = """\
graph @linear_gelu_softmax(%x: {dt}[{m}, {k}], %w: {dt}[{n}, {k}], %b: {dt}[{n}]) {{
  %t = permute %w perm=[1, 0]
  %p = matmul %x, %t
  %s = add %p, %b
  %g = gelu %s
  %y = softmax %g axis=1
  return y = %y
}}
"""

# dtype, perhaps with a precision, layout, M, N, K
PRODUCTS = [
    ("bf16", "nn", 4096, 4096, 4096),
    ("bf16", "nt", 4096, 4096, 4096),
    ("bf16", "nn", 8192, 8192, 8192),
    ("bf16", "nt", 8192, 8192, 8192),
    ("bf16", "tn", 4096, 4096, 4096),
    ("f16", "nn", 4096, 4096, 4096),
    ("f64", "nn", 4096, 4096, 4096),
    ("f32", "nn", 4096, 4096, 4096),
    ("f32", "nt", 4096, 4096, 4096),
    ("f32", "tn", 4096, 4096, 4096),
    ("f32_tf32", "nn", 4096, 4096, 4096),
    ("f32_tf32", "nt", 4096, 4096, 4096),
    ("bf16", "nn", 1000, 1000, 1000),
    ("bf16", "nn", 4095, 4097, 4099),
    ("f32", "nn", 777, 333, 555),
    ("bf16", "nt", 1, 11008, 4096),
    ("bf16", "nt", 4, 11008, 4096),
    ("bf16", "nt", 16, 11008, 4096),
    ("bf16", "nt", 64, 11008, 4096),
    ("bf16", "nt", 1, 50257, 768),
    ("f32", "nt", 1, 4096, 4096),
    ("f16", "nn", 32, 32, 4096),
    ("f16", "nn", 32, 32, 28672),
    ("bf16", "nn", 64, 64, 131072),
    ("f32", "nn", 256, 256, 524288),
    ("f32", "nn", 32768, 32, 32768),
    ("bf16", "nn", 16384, 16384, 64),
]
# name without its sizes, dtype, sizes (B, M, N, K or M, N, K), text
LAYERS = [
    ("bmm_bf16", "bf16", (128, 1024, 1024, 64), BMM),
    ("bmm_f32", "f32", (128, 512, 2048, 1024), BMM),
    ("linear_gelu_bf16", "bf16", (8192, 16384, 4096), LINEAR_GELU),
    ("linear_add_bf16", "bf16", (8192, 4096, 16384), LINEAR_ADD),
    ("swiglu_mlp_bf16", "bf16", (8192, 11008, 4096), SWIGLU_MLP),
    ("rmsnorm_linear_bf16", "bf16", (8192, 4096, 4096), RMSNORM_LINEAR),
    ("gemm_f32_relu", "f32", (1024, 8192, 8192), GEMM_RELU),
    ("linear_gelu_softmax_f32", "f32", (1024, 8192, 8192), LINEAR_GELU_SOFTMAX),
]


def workloads():
    for dt, layout, *sizes in PRODUCTS:
        yield f"mm_{dt}_{layout}", dt, sizes, MM[layout]
    yield from LAYERS


def main():
    folder = graphs.folder("contract")
    for what, dt, sizes, text in workloads():
        b, (m, n, k) = sizes[0], sizes[-3:]
        dt, _, precision = dt.partition("_")
        text = text.format(dt=dt, how=precision and f" precision={precision}", b=b, m=m, n=n, k=k)
        graphs.write(folder, graphs.name_of(what, sizes), "the workload of the same name on the peer's side of the benchmark", text)


main()
