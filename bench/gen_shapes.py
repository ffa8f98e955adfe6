#!/usr/bin/env python3
"""bench/gen_shapes.py [FOLDER]: writes bench/shapes/*.sn and bench/shapes/nearest.

Forty workloads of the kinds of bench/suite, at sizes that no schedule was chosen by: odd, prime, tiny, huge, in three
dtypes. `nearest` names for each the workload of bench/suite that a schedule should carry over from.
"""
import os

import graphs

SOFTMAX = "graph @softmax(%x: {dt}[{m}, {n}]) {{\n  %y = softmax %x axis=1\n  return y = %y\n}}\n"
LAYER_NORM = """\
graph @layer_norm(%x: {dt}[{m}, {n}], %w: {dt}[{n}], %b: {dt}[{n}]) {{
  %y = layer_norm %x, %w, %b eps=1e-05
  return y = %y
}}
"""
RMS_NORM = """\
graph @rms_norm(%x: {dt}[{m}, {n}], %w: {dt}[{n}]) {{
  %y = rms_norm %x, %w eps=1e-06
  return y = %y
}}
"""
ADD_RMS_NORM = """\
graph @add_rms_norm(%x: {dt}[{m}, {n}], %res: {dt}[{m}, {n}], %w: {dt}[{n}]) {{
  %h = add %x, %res
  %y = rms_norm %h, %w eps=1e-06
  return h = %h, y = %y
}}
"""
RMS_NORM_BWD = """\
graph @rms_norm_bwd(%x: {dt}[{m}, {n}], %w: {dt}[{n}], %g: {dt}[{m}, {n}]) {{
  %xf = cast %x dtype=f32
  %wf = cast %w dtype=f32
  %gf = cast %g dtype=f32
  %sq = mul %xf, %xf
  %ms = mean %sq axes=[1] keepdim=true
  %me = add %ms, 1e-06
  %rs = rsqrt %me
  %xh = mul %xf, %rs
  %gw = mul %gf, %wf
  %gx = mul %gw, %xh
  %c = mean %gx axes=[1] keepdim=true
  %t = mul %xh, %c
  %u = sub %gw, %t
  %dxf = mul %rs, %u
  %dx = cast %dxf dtype={dt}
  %gxh = mul %gf, %xh
  %dwf = sum %gxh axes=[0]
  %dw = cast %dwf dtype={dt}
  return dx = %dx, dw = %dw
}}
"""
LAYER_NORM_BWD = """\
graph @layer_norm_bwd(%x: {dt}[{m}, {n}], %w: {dt}[{n}], %g: {dt}[{m}, {n}]) {{
  %xf = cast %x dtype=f32
  %wf = cast %w dtype=f32
  %gf = cast %g dtype=f32
  %mu = mean %xf axes=[1] keepdim=true
  %xc = sub %xf, %mu
  %sq = mul %xc, %xc
  %ms = mean %sq axes=[1] keepdim=true
  %me = add %ms, 1e-06
  %rs = rsqrt %me
  %xh = mul %xc, %rs
  %gw = mul %gf, %wf
  %a = mean %gw axes=[1] keepdim=true
  %gx = mul %gw, %xh
  %c = mean %gx axes=[1] keepdim=true
  %t = mul %xh, %c
  %u = sub %gw, %a
  %v = sub %u, %t
  %dxf = mul %rs, %v
  %dx = cast %dxf dtype={dt}
  %gxh = mul %gf, %xh
  %dwf = sum %gxh axes=[0]
  %dw = cast %dwf dtype={dt}
  %dbf = sum %gf axes=[0]
  %db = cast %dbf dtype={dt}
  return dx = %dx, dw = %dw, db = %db
}}
"""
REDUCE = "graph @{op}(%x: {dt}[{shape}]) {{\n  %y = {op} %x axes={axes}\n  return y = %y\n}}\n"
VAR_MEAN = """\
graph @var_mean(%x: {dt}[{m}, {n}]) {{
  %t = var_mean %x axes=[1]
  %v = project %t index=0
  %m = project %t index=1
  return v = %v, m = %m
}}
"""
BIAS_GELU = """\
graph @bias_gelu(%x: {dt}[{m}, {n}], %b: {dt}[{n}]) {{
  %s = add %x, %b
  %y = gelu_tanh %s
  return y = %y
}}
"""
SWIGLU = """\
graph @swiglu(%a: {dt}[{m}, {n}], %b: {dt}[{m}, {n}]) {{
  %s = silu %a
  %y = mul %s, %b
  return y = %y
}}
"""
SCALE = """\
graph @scale(%x: {dt}[{m}, {n}], %row: {dt}[{n}], %column: {dt}[{m}, 1]) {{
  %a = mul %x, %column
  %y = add %a, %row
  return y = %y
}}
"""
BN_INFER = """\
graph @bn_infer_relu(%x: {dt}[{shape}], %s: {dt}[{c}, 1, 1], %t: {dt}[{c}, 1, 1]) {{
  %m = mul %x, %s
  %a = add %m, %t
  %y = relu %a
  return y = %y
}}
"""
TRANSPOSE = "graph @transpose(%x: {dt}[{m}, {n}]) {{\n  %y = permute %x perm=[1, 0]\n  return y = %y\n}}\n"
TRANSPOSE_ADD = """\
graph @transpose_add(%x: {dt}[{m}, {n}], %y: {dt}[{n}, {m}]) {{
  %t = permute %y perm=[1, 0]
  %z = add %x, %t
  return z = %z
}}
"""
PERMUTE = """\
graph @permute(%x: {dt}[{shape}]) {{
  %m = mul %x, 2
  %y = permute %m perm={perm}
  return y = %y
}}
"""
CROSS_ENTROPY = """\
graph @cross_entropy(%x: {dt}[{m}, {n}], %t: i64[{m}]) {{
  %f = cast %x dtype=f32
  %y = cross_entropy %f, %t
  return y = %y
}}
"""
BN_TRAIN = """\
graph @bn_train_relu(%x: {dt}[{shape}], %w: {dt}[{c}], %b: {dt}[{c}], %rm: {dt}[{c}], %rv: {dt}[{c}]) {{
  %m = mean %x axes=[0, 2, 3] keepdim=true
  %xc = sub %x, %m
  %sq = mul %xc, %xc
  %v = mean %sq axes=[0, 2, 3] keepdim=true
  %ve = add %v, 1e-05
  %rs = rsqrt %ve
  %xh = mul %xc, %rs
  %w3 = reshape %w shape=[{c}, 1, 1]
  %b3 = reshape %b shape=[{c}, 1, 1]
  %xw = mul %xh, %w3
  %xb = add %xw, %b3
  %y = relu %xb
  %mask = le %y, 0
  %ms = squeeze %m axes=[0, 2, 3]
  %vs = squeeze %v axes=[0, 2, 3]
  %rm9 = mul %rm, 0.9
  %m1 = mul %ms, 0.1
  %nrm = add %rm9, %m1
  %rv9 = mul %rv, 0.9
  %v1 = mul %vs, 0.1
  %nrv = add %rv9, %v1
  %rss = squeeze %rs axes=[0, 2, 3]
  return y = %y, mask = %mask, rm = %nrm, rv = %nrv, rs = %rss
}}
"""
CUMSUM = "graph @cumsum(%x: {dt}[{m}, {n}]) {{\n  %y = cumsum %x axis=1\n  return y = %y\n}}\n"

# name before dtype and shape, dtype, sizes, text, further words of the text, nearest workload of bench/suite
ROWS = [
    ("softmax", "f32", (12347, 769), SOFTMAX, {}, "softmax_f32_8192x1024"),
    ("softmax", "bf16", (9973, 5003), SOFTMAX, {}, "softmax_bf16_16384x4096"),
    ("softmax", "f16", (2053, 65537), SOFTMAX, {}, "softmax_bf16_1024x131072"),
    ("softmax", "f32", (262147, 63), SOFTMAX, {}, "softmax_f32_32768x257"),
    ("softmax", "f32", (13, 1000003), SOFTMAX, {}, "softmax_f32_4096x32768"),
    ("layernorm", "bf16", (50021, 768), LAYER_NORM, {}, "layernorm_bf16_32768x1024"),
    ("layernorm", "f32", (10007, 3001), LAYER_NORM, {}, "layernorm_bf16_16384x4096"),
    ("layernorm", "f16", (3001, 12289), LAYER_NORM, {}, "layernorm_bf16_4096x16384"),
    ("layernorm", "bf16", (33, 127), LAYER_NORM, {}, "layernorm_bf16_32768x1024"),
    ("rmsnorm", "bf16", (16411, 5120), RMS_NORM, {}, "add_rmsnorm_bf16_16384x4096"),
    ("rmsnorm", "f16", (131071, 511), RMS_NORM, {}, "add_rmsnorm_bf16_32768x1024"),
    ("rmsnorm", "f32", (2039, 20011), RMS_NORM, {}, "add_rmsnorm_bf16_4096x16384"),
    ("add_rmsnorm", "f16", (12289, 3072), ADD_RMS_NORM, {}, "add_rmsnorm_bf16_16384x4096"),
    ("add_rmsnorm", "f32", (8191, 2047), ADD_RMS_NORM, {}, "add_rmsnorm_bf16_32768x1024"),
    ("add_rmsnorm", "bf16", (1013, 28672), ADD_RMS_NORM, {}, "add_rmsnorm_bf16_4096x16384"),
    ("layernorm_bwd", "f32", (30011, 1025), LAYER_NORM_BWD, {}, "layernorm_bwd_bf16_16384x4096"),
    ("layernorm_bwd", "bf16", (7919, 8192), LAYER_NORM_BWD, {}, "layernorm_bwd_bf16_16384x4096"),
    ("rmsnorm_bwd", "f16", (250007, 509), RMS_NORM_BWD, {}, "rmsnorm_bwd_bf16_576000x384"),
    ("rmsnorm_bwd", "bf16", (100003, 1536), RMS_NORM_BWD, {}, "rmsnorm_bwd_bf16_576000x384"),
    ("sum_dim0", "f32", (1000003, 67), REDUCE, {"op": "sum", "axes": "[0]"}, "sum_dim0_f32_65536x1024"),
    ("sum_dim0", "bf16", (30011, 4099), REDUCE, {"op": "sum", "axes": "[0]"}, "sum_dim0_f32_65536x1024"),
    ("sum_dim1", "f32", (70001, 1531), REDUCE, {"op": "sum", "axes": "[1]"}, "sum_dim1_f32_65536x1024"),
    ("amax_dim1", "f16", (100003, 1021), REDUCE, {"op": "amax", "axes": "[1]"}, "sum_dim1_f32_65536x1024"),
    ("sum_mid", "f16", (37, 10007, 301), REDUCE, {"op": "sum", "axes": "[1]"}, "sum_mid_f32_64x4096x256"),
    ("sum_all", "f32", (123456789,), REDUCE, {"op": "sum", "axes": "[0]"}, "sum_all_f32_268435456"),
    ("var_mean", "f32", (9001, 7001), VAR_MEAN, {}, "var_mean_f32_16384x4096"),
    ("argmax", "bf16", (10007, 32771), REDUCE, {"op": "argmax", "axes": "[1]"}, "argmax_f32_8192x50304"),
    ("pw_bias_gelu", "f32", (20011, 2053), BIAS_GELU, {}, "pw_bias_gelu_bf16_16384x4096"),
    ("pw_swiglu", "f16", (5003, 13824), SWIGLU, {}, "pw_swiglu_bf16_16384x11008"),
    ("pw_scale", "f32", (40009, 1601), SCALE, {}, "pw_bn_infer_relu_f32_64x256x56x56"),
    ("pw_scale", "f32", (17, 61), SCALE, {}, "pw_bn_infer_relu_f32_64x256x56x56"),
    ("pw_bn_infer_relu", "bf16", (31, 129, 112, 113), BN_INFER, {}, "pw_bn_infer_relu_f32_64x256x56x56"),
    ("pw_transpose", "bf16", (16381, 8191), TRANSPOSE, {}, "pw_transpose_add_f32_8192"),
    ("pw_transpose_add", "f32", (10007, 6007), TRANSPOSE_ADD, {}, "pw_transpose_add_f32_8192"),
    ("pw_permute_nchw_nhwc", "bf16", (33, 65, 127, 129), PERMUTE, {"perm": "[0, 2, 3, 1]"}, "pw_permute_f32_nchw_nhwc_64x256x56x56"),
    ("pw_permute_heads", "f32", (17, 1023, 15, 129), PERMUTE, {"perm": "[0, 2, 1, 3]"}, "pw_permute_f32_nchw_nhwc_64x256x56x56"),
    ("cross_entropy", "f32", (4099, 32003), CROSS_ENTROPY, {}, "cross_entropy_bf16_8192x50304"),
    ("bn_train_relu", "f32", (37, 129, 57, 55), BN_TRAIN, {}, "bn_train_relu_f32_64x256x56x56"),
    ("bn_train_relu", "f32", (3, 1021, 7, 5), BN_TRAIN, {}, "bn_train_seed_f32_2x32x6x6"),
    ("cumsum", "f32", (5003, 10007), CUMSUM, {}, "cumsum_f32_8192x8192"),
]


def main():
    assert len(ROWS) == 40
    folder, table = graphs.folder("shapes"), []
    for what, dt, sizes, text, words, nearest in ROWS:
        name = graphs.name_of(f"{what}_{dt}", sizes)
        if text is CROSS_ENTROPY and dt == "f32":
            text = text.replace("  %f = cast %x dtype=f32\n", "").replace("%f", "%x")
        m, n = sizes[0], sizes[1] if len(sizes) > 1 else 1
        text = text.format(dt=dt, m=m, n=n, c=n, shape=", ".join(map(str, sizes)), **words)
        graphs.write(folder, name, f"no schedule was chosen by this size. Nearest in bench/suite: {nearest}", text)
        table.append(f"{name} {nearest}\n")
    with open(os.path.join(folder, "nearest"), "w") as f:
        f.writelines(["# workload of bench/shapes, its nearest of bench/suite; made by bench/gen_shapes.py\n"] + sorted(table))


main()
