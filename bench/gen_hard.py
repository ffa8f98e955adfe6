#!/usr/bin/env python3
"""bench/gen_hard.py [FOLDER]: writes bench/hard/*.sn.

Workloads that were once far from the speed of a copy, each for a reason of its own: rows that no vector divides, elements of a byte, few long
rows, short columns, axes in the middle, windows, chains of logarithms. The mark of each is 85 % of a copy.
"""
import os
import sys

ROW = "graph @{op}(%x: {dt}[{shape}]) {{\n  %y = {op} %x {attrs}\n  return y = %y\n}}\n"


def unary(op, dt, shape, attrs):
    return ROW.format(op=op, dt=dt, shape=", ".join(map(str, shape)), attrs=attrs)


def scale(dt, to, m, n):
    return (f"graph @scale(%x: {dt}[{m}, {n}], %s: {to}[{n}]) {{\n  %f = cast %x dtype={to}\n  %y = mul %f, %s\n"
            "  return y = %y\n}\n")


def permute(dt, shape, perm):
    sizes = ", ".join(map(str, shape))
    return (f"graph @permute(%x: {dt}[{sizes}]) {{\n  %t = permute %x perm={perm}\n  %y = neg %t\n"
            "  return y = %y\n}\n")


def group_norm(dt, n, c, s, groups):
    """x[n, c, s]: groups of channels are one row each."""
    row = c // groups * s
    return (f"graph @group_norm(%x: {dt}[{n}, {c}, {s}], %w: {dt}[{c}, 1], %b: {dt}[{c}, 1]) {{\n"
            f"  %r = reshape %x shape=[{n}, {groups}, {row}]\n  %f = cast %r dtype=f32\n"
            "  %t = var_mean %f axes=[2] keepdim=true correction=0\n  %v = project %t index=0\n  %m = project %t index=1\n"
            "  %c = sub %f, %m\n  %e = add %v, 1e-05\n  %i = rsqrt %e\n  %h = mul %c, %i\n"
            f"  %g = reshape %h shape=[{n}, {c}, {s}]\n  %z = cast %g dtype={dt}\n  %a = mul %z, %w\n  %y = add %a, %b\n"
            "  return y = %y\n}\n")


def layer_norm(dt, m, n):
    return (f"graph @layer_norm(%x: {dt}[{m}, {n}], %w: {dt}[{n}], %b: {dt}[{n}]) {{\n  %y = layer_norm %x, %w, %b eps=1e-05\n"
            "  return y = %y\n}\n")


def rms_middle(dt, n, c, s):
    return (f"graph @rms_channels(%x: {dt}[{n}, {c}, {s}], %w: {dt}[{c}, 1]) {{\n  %f = cast %x dtype=f32\n"
            "  %q = mul %f, %f\n  %m = mean %q axes=[1] keepdim=true\n  %e = add %m, 1e-06\n  %i = rsqrt %e\n"
            f"  %h = mul %f, %i\n  %z = cast %h dtype={dt}\n  %y = mul %z, %w\n  return y = %y\n}}\n")


def pool(dt, m, n, window):
    return (f"graph @pool(%x: {dt}[{m}, {n}]) {{\n  %u = unfold %x axis=1 size={window}\n  %y = mean %u axes=[2]\n"
            "  return y = %y\n}\n")


def masked_scan(dt, m, n):
    return (f"graph @masked(%x: {dt}[{m}, {n}], %k: bool[{m}, {n}]) {{\n  %z = where %k, %x, 0\n  %y = cumsum %z axis=1\n"
            "  return y = %y\n}\n")


def softplus(dt, m, n):
    return (f"graph @softplus(%x: {dt}[{m}, {n}]) {{\n  %a = abs %x\n  %n = neg %a\n  %e = exp %n\n  %l = log1p %e\n"
            "  %r = relu %x\n  %y = add %r, %l\n  return y = %y\n}\n")


def jacobi(n):
    """Two steps, each with a border of zeros."""
    lines = []
    value = "x"
    for k in "ab":
        parts = []
        for name, (i, j) in {"u": (0, 1), "d": (2, 1), "l": (1, 0), "r": (1, 2)}.items():
            lines.append(f"  %{k}{name}0 = slice %{value} axis=0 start={i} stop={n - 2 + i}")
            lines.append(f"  %{k}{name} = slice %{k}{name}0 axis=1 start={j} stop={n - 2 + j}")
            parts.append(f"%{k}{name}")
        lines += [f"  %{k}1 = add {parts[0]}, {parts[1]}", f"  %{k}2 = add {parts[2]}, {parts[3]}",
                  f"  %{k}3 = add %{k}1, %{k}2", f"  %{k}4 = mul %{k}3, 0.25", f"  %{k} = pad %{k}4 low=[1, 1] high=[1, 1]"]
        value = k
    return f"graph @jacobi(%x: f32[{n}, {n}]) {{\n" + "\n".join(lines) + "\n  return y = %b\n}\n"


def scatter_few(dt, updates, width, rows):
    return (f"graph @scatter(%x: {dt}[{rows}, {width}], %i: i64[{updates}], %u: {dt}[{updates}, {width}]) {{\n"
            "  %y = scatter_sum %x, %i, %u\n  return y = %y\n}\n")


CASES = {
    "softmax_f32_4096x50257": unary("softmax", "f32", (4096, 50257), "axis=1"),
    "softmax_f32_4096x65536": unary("softmax", "f32", (4096, 65536), "axis=1"),
    "softmax_f16_1000003x17": unary("softmax", "f16", (1000003, 17), "axis=1"),
    "scale_i8-f16_8191x16384": scale("i8", "f16", 8191, 16384),
    "scale_i8-f16_16381x4099": scale("i8", "f16", 16381, 4099),
    "permute_i8_16384x8192": permute("i8", (16384, 8192), "[1, 0]"),
    "permute_i8_10007x9001": permute("i8", (10007, 9001), "[1, 0]"),
    "permute_bf16_37x129x61x255": permute("bf16", (37, 129, 61, 255), "[0, 3, 1, 2]"),
    "permute_bf16_33x65x127x129": permute("bf16", (33, 65, 127, 129), "[3, 1, 0, 2]"),
    "sum0_f32_3000017x17": unary("sum", "f32", (3000017, 17), "axes=[0]"),
    "sum02_bf16_1000x50x3000": unary("sum", "bf16", (1000, 50, 3000), "axes=[0, 2]"),
    "group_norm_f32_64x256x3136_32": group_norm("f32", 64, 256, 3136, 32),
    "group_norm_f32_4x128x262144_32": group_norm("f32", 4, 128, 262144, 32),
    "group_norm_bf16_16x320x4096_32": group_norm("bf16", 16, 320, 4096, 32),
    "layer_norm_f32_1024x60000": layer_norm("f32", 1024, 60000),
    "amax1_bf16_7x9999999": unary("amax", "bf16", (7, 9999999), "axes=[1]"),
    "prod1_f32_100000x513": unary("prod", "f32", (100000, 513), "axes=[1]"),
    "pool_f32_1024x32768_64": pool("f32", 1024, 32768, 64),
    "pool_bf16_777x60001_501": pool("bf16", 777, 60001, 501),
    "cumsum_exclusive_f32_8192x8192": unary("cumsum", "f32", (8192, 8192), "axis=1 exclusive=true"),
    "cumsum_reverse_f32_8191x5003": unary("cumsum", "f32", (8191, 5003), "axis=1 reverse=true"),
    "cumsum_masked_f32_8192x8192": masked_scan("f32", 8192, 8192),
    "softplus_f32_8192x8192": softplus("f32", 8192, 8192),
    "softplus_bf16_16384x8192": softplus("bf16", 16384, 8192),
    "rms_channels_f32_16x512x16384": rms_middle("f32", 16, 512, 16384),
    "rms_channels_bf16_32x320x4097": rms_middle("bf16", 32, 320, 4097),
    "jacobi2_f32_8192": jacobi(8192),
    "scatter_f32_1000003x64_to_128": scatter_few("f32", 1000003, 64, 128),
}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "hard")
    os.makedirs(folder, exist_ok=True)
    for name, text in CASES.items():
        with open(os.path.join(folder, name + ".sn"), "w", encoding="utf-8") as f:
            f.write(f"# {name}. Made by bench/gen_hard.py.\n{text}")


main()
