#!/usr/bin/env python3
"""bench/gen_convolutions.py [FOLDER]: writes the convolutions of bench/contract.

Those of the peer's script for contractions, under its names: N, C, O, image, kernel, stride. What the peer computes in tf32 says so here; a
graph of the same name with `high` allows two bf16 for a factor. "nhwc": image, weights and result have their channels innermost in memory, the image and
the weights by strides, the result as a permuted view. Gradients are what sn_conv_data_grad and sn_conv_weight_grad build, the transposed convolution
sn_conv_transpose.
"""
import graphs

CONV = """\
graph @conv(%x: {x}, %w: {w}, %b: {dt}[{o}]) {{
  %p = conv %x, %w{how}
  %c = reshape %b shape=[{o}, 1, 1]
  %y = add %p, %c
{after}  return y = {y}
}}
"""
PLAIN = "graph @conv(%x: {x}, %w: {w}) {{\n  %y = conv %x, %w{how}\n  return y = %y\n}}\n"
# The images with N and C swapped, and the result as well: dw[o, c, ky, kx] is the sum over n, y, x of dy * x.
WGRAD = """\
graph @wgrad(%x: {x}, %g: {g}) {{
  %xt = permute %x perm=[1, 0, 2, 3]
  %gt = permute %g perm=[1, 0, 2, 3]
  %t = conv %xt, %gt{how}
  %y = permute %t perm=[1, 0, 2, 3]
  return y = %y
}}
"""
# Weights w[C, O, ..] of a transposed convolution, or w[O, C, ..] of the one whose image gets its gradient: reversed, channels swapped.
TURNED = """\
graph @turned(%x: {x}, %w: {w}) {{
  %r = flip %w axes=[2, 3]
  %t = permute %r perm=[1, 0, 2, 3]
  %y = conv %x, %t{how}
  return y = %y
}}
"""

DEFAULTS = {"stride": [1, 1], "padding": [0, 0], "input_dilation": [1, 1], "groups": 1}


def tensor(dt, *shape):
    return f"{dt}[{', '.join(map(str, shape))}]"


def channels_last(dt, n, c, h, w):
    return f"{tensor(dt, n, c, h, w)} strides [{h * w * c}, 1, {w * c}, {c}]"


def words(dt, **attrs):
    """The attributes of a convolution, and the dtype: "f32_tf32" has a precision."""
    dt, _, precision = dt.partition("_")
    attrs = {k: v for k, v in attrs.items() if v != DEFAULTS[k]}
    if precision:
        attrs["precision"] = precision
    return dt, "".join(f" {k}={v}" for k, v in attrs.items())


def conv(tag, n, c, o, h, k, s=1, p=None, groups=1, dt="f32_tf32", last=False, relu=False):
    p = k // 2 if p is None else p
    of, how = words(dt, stride=[s, s], padding=[p, p], groups=groups)
    place = channels_last if last else tensor
    after, y = ("  %a = relu %y\n", "%a") if relu else ("", "%y")
    if last:
        after, y = after + f"  %z = permute {y} perm=[0, 2, 3, 1]\n", "%z"
    text = CONV.format(x=place(of, n, c, h, h), w=place(of, o, c // groups, k, k), dt=of, o=o, how=how, after=after, y=y)
    yield f"conv_{tag}_{dt}{'_nhwc' if last else ''}_{n}x{c}x{h}_{o}k{k}s{s}", text


def both(make):
    """In tf32 and in two bf16 for a factor."""
    for dt in ("f32_tf32", "f32_high"):
        yield from make(dt)


def others(dt):
    def plain(name, form, x, w, **attrs):
        of, how = words(dt, **attrs)
        return name.format(dt=dt), form.format(x=tensor(of, *x), w=tensor(of, *w), how=how)

    yield from conv("depthwise3", 64, 192, 192, 56, 3, groups=192, dt=dt)
    yield from conv("big", 16, 64, 128, 256, 3, dt=dt)
    yield from conv("seed", 2, 16, 32, 8, 3, p=0, dt=dt)
    yield plain("convtranspose_{dt}_16x64x128_64k4s2", TURNED, (16, 64, 128, 128), (64, 64, 4, 4), padding=[2, 2], input_dilation=[2, 2])
    yield plain("conv3d_{dt}_16x32x24x64x64_64k3", PLAIN, (16, 32, 24, 64, 64), (64, 32, 3, 3, 3))
    yield plain("conv1d_{dt}_32x64x65536_128k3", PLAIN, (32, 64, 65536), (128, 64, 3))


def workloads():
    for dt, last in (("f32_tf32", False), ("f32_high", False), ("f32", False), ("bf16", False), ("bf16", True)):
        yield from conv("3x3", 64, 64, 64, 56, 3, dt=dt, last=last)
        yield from conv("3x3", 64, 256, 256, 14, 3, dt=dt, last=last)
        yield from conv("1x1", 64, 256, 64, 56, 1, dt=dt, last=last)
        yield from conv("stem", 64, 3, 64, 224, 7, 2, dt=dt, last=last)
    yield from conv("3x3relu", 64, 128, 128, 28, 3, 2, dt="bf16", last=True, relu=True)
    yield from conv("depthwise7", 64, 96, 96, 56, 7, groups=96, dt="bf16")
    yield from conv("grouped", 32, 256, 256, 28, 3, groups=32, dt="bf16")
    yield from both(others)
    image, how = tensor("bf16", 64, 64, 56, 56), " padding=[1, 1]"
    yield "conv_dgrad_bf16_64x64x56_64k3", TURNED.format(x=image, w=tensor("bf16", 64, 64, 3, 3), how=how)
    yield "conv_wgrad_bf16_64x64x56_64k3", WGRAD.format(x=image, g=image, how=how)


def main():
    folder = graphs.folder("contract")
    for name, text in workloads():
        graphs.write(folder, name, "the convolution of the same name on the peer's side of the benchmark", text)


main()
