"""Networks that no schedule was chosen by: architectures in plain torch.nn, as papers have them, smaller where the papers' are large.

OTHERS: name -> (module, example input), by the names of which bench/run-networks takes them (ONLY=unet_f32 ..). Attention is
scaled_dot_product_attention for PyTorch, and its parts for the export, as in models.py.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Layer, attend, conv


class SE(nn.Module):
    def __init__(self, c, s):
        super().__init__()
        self.down, self.up = nn.Conv2d(c, s, 1), nn.Conv2d(s, c, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.up(F.silu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class MB(nn.Module):
    def __init__(self, i, o, k, e, s):
        super().__init__()
        w = i * e
        body = conv(i, w, 1, act=nn.SiLU) if e > 1 else []
        self.body = nn.Sequential(*body, *conv(w, w, k, s, w, nn.SiLU), SE(w, max(1, i // 4)), *conv(w, o, 1, act=None))
        self.res = s == 1 and i == o

    def forward(self, x):
        return x + self.body(x) if self.res else self.body(x)


def efficientnet_b0():
    parts, i = conv(3, 32, 3, 2, act=nn.SiLU), 32
    for e, k, s, o, n in ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)):
        for j in range(n):
            parts.append(MB(i, o, k, e, s if j == 0 else 1))
            i = o
    return nn.Sequential(*parts, *conv(320, 1280, 1, act=nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


class Dense(nn.Module):
    def __init__(self, i, g):
        super().__init__()
        self.b = nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, 4 * g, 1, bias=False), nn.BatchNorm2d(4 * g), nn.ReLU(),
                               nn.Conv2d(4 * g, g, 3, 1, 1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.b(x)], 1)


def densenet121():
    parts, c = conv(3, 64, 7, 2) + [nn.MaxPool2d(3, 2, 1)], 64
    for k, n in enumerate((6, 12, 24, 16)):
        for _ in range(n):
            parts.append(Dense(c, 32))
            c += 32
        if k < 3:
            parts += [nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c // 2, 1, bias=False), nn.AvgPool2d(2)]
            c //= 2
    return nn.Sequential(*parts, nn.BatchNorm2d(c), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000))


class UNet(nn.Module):
    def __init__(self, c=32, levels=4):
        super().__init__()
        two = lambda i, o: nn.Sequential(*conv(i, o, 3), *conv(o, o, 3))
        self.down = nn.ModuleList([two(3 if k == 0 else c << (k - 1), c << k) for k in range(levels)])
        self.mid = two(c << (levels - 1), c << levels)
        self.up = nn.ModuleList([nn.ConvTranspose2d(c << (k + 1), c << k, 2, 2) for k in reversed(range(levels))])
        self.join = nn.ModuleList([two(c << (k + 1), c << k) for k in reversed(range(levels))])
        self.head = nn.Conv2d(c, 5, 1)

    def forward(self, x):
        skips = []
        for d in self.down:
            x = d(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.mid(x)
        for u, j in zip(self.up, self.join):
            x = j(torch.cat([u(x), skips.pop()], 1))
        return self.head(x)


class ResX(nn.Module):
    def __init__(self, i, w, o, stride):
        super().__init__()
        self.body = nn.Sequential(*conv(i, w, 1), *conv(w, w, 3, stride, 32), *conv(w, o, 1, act=None))
        self.skip = nn.Sequential(*conv(i, o, 1, stride, act=None)) if stride > 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnext50():
    parts, i = conv(3, 64, 7, 2) + [nn.MaxPool2d(3, 2, 1)], 64
    for w, n, s in ((128, 3, 1), (256, 4, 2), (512, 6, 2), (1024, 3, 2)):
        for k in range(n):
            parts.append(ResX(i, w, 2 * w, s if k == 0 else 1))
            i = 2 * w
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def vgg16():
    parts, i = [], 3
    for c in (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"):
        if c == "M":
            parts.append(nn.MaxPool2d(2))
        else:
            parts += [nn.Conv2d(i, c, 3, 1, 1), nn.ReLU()]
            i = c
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))


class SwinBlock(nn.Module):
    def __init__(self, c, heads, size, shift, w=7):
        super().__init__()
        self.h, self.shift, self.w, self.size = heads, shift, w, size
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.mlp = nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))
        self.table = nn.Parameter(torch.randn((2 * w - 1) ** 2, heads) * 0.1)
        p = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        d = (p[:, :, None] - p[:, None]).permute(1, 2, 0) + w - 1
        self.register_buffer("index", (d[..., 0] * (2 * w - 1) + d[..., 1]).flatten())
        mask = None
        if shift:
            img = torch.zeros(size, size)
            k = 0
            for a in (slice(0, -w), slice(-w, -shift), slice(-shift, None)):
                for b in (slice(0, -w), slice(-w, -shift), slice(-shift, None)):
                    img[a, b] = k
                    k += 1
            m = img.view(size // w, w, size // w, w).permute(0, 2, 1, 3).reshape(-1, w * w)
            mask = torch.where(m[:, None] != m[:, :, None], -100.0, 0.0)
        self.register_buffer("mask", mask)

    def forward(self, x):
        n, s, _, c = x.shape
        w, h = self.w, self.h
        y = self.n1(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = y.view(n, s // w, w, s // w, w, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)
        q, k, v = self.qkv(y).view(-1, w * w, 3, h, c // h).permute(2, 0, 3, 1, 4)
        a = (q * (c // h) ** -0.5) @ k.transpose(-1, -2)
        a = a + self.table[self.index].view(w * w, w * w, h).permute(2, 0, 1)
        if self.shift:
            nw = self.mask.shape[0]
            a = (a.view(-1, nw, h, w * w, w * w) + self.mask[None, :, None]).view(-1, h, w * w, w * w)
        y = (torch.softmax(a, -1) @ v).transpose(1, 2).reshape(-1, w * w, c)
        y = self.proj(y).view(n, s // w, s // w, w, w, c).permute(0, 1, 3, 2, 4, 5).reshape(n, s, s, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.mlp(self.n2(x))


class Merge(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n, self.l = nn.LayerNorm(4 * c), nn.Linear(4 * c, 2 * c, bias=False)

    def forward(self, x):
        return self.l(self.n(torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)))


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.n0 = nn.Conv2d(3, 96, 4, 4), nn.LayerNorm(96)
        parts, c, s = [], 96, 56
        for k, (n, h) in enumerate(((2, 3), (2, 6), (6, 12), (2, 24))):
            parts += [SwinBlock(c, h, s, 3 if j % 2 and s > 7 else 0) for j in range(n)]
            if k < 3:
                parts.append(Merge(c))
                c, s = 2 * c, s // 2
        self.body, self.n, self.head = nn.Sequential(*parts), nn.LayerNorm(c), nn.Linear(c, 1000)

    def forward(self, x):
        x = self.n0(self.patch(x).permute(0, 2, 3, 1))
        return self.head(self.n(self.body(x)).mean((1, 2)))


class RMS(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.w = nn.Parameter(torch.rand(c) + 0.5)

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.w


class LlamaLayer(nn.Module):
    def __init__(self, c, h, kv, wide):
        super().__init__()
        self.h, self.kv, self.d = h, kv, c // h
        self.q, self.k, self.v = nn.Linear(c, c, bias=False), nn.Linear(c, kv * self.d, bias=False), nn.Linear(c, kv * self.d, bias=False)
        self.o, self.up, self.gate, self.down = nn.Linear(c, c, bias=False), nn.Linear(c, wide, bias=False), nn.Linear(c, wide, bias=False), nn.Linear(wide, c, bias=False)
        self.n1, self.n2 = RMS(c), RMS(c)

    def forward(self, x, cos, sin):
        n, l, c = x.shape
        y = self.n1(x)
        q = self.q(y).view(n, l, self.h, self.d).transpose(1, 2)
        k = self.k(y).view(n, l, self.kv, self.d).transpose(1, 2)
        v = self.v(y).view(n, l, self.kv, self.d).transpose(1, 2)
        rot = lambda t: t * cos + torch.cat([-t[..., self.d // 2:], t[..., :self.d // 2]], -1) * sin
        q, k = rot(q), rot(k)
        r = self.h // self.kv
        k = k[:, :, None].expand(n, self.kv, r, l, self.d).reshape(n, self.h, l, self.d)
        v = v[:, :, None].expand(n, self.kv, r, l, self.d).reshape(n, self.h, l, self.d)
        x = x + self.o(attend(q, k, v, True).transpose(1, 2).reshape(n, l, c))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, c=1024, layers=6, h=16, kv=4, wide=2816, vocab=32000, length=512):
        super().__init__()
        self.words = nn.Embedding(vocab, c)
        self.layers = nn.ModuleList([LlamaLayer(c, h, kv, wide) for _ in range(layers)])
        self.n, self.head = RMS(c), nn.Linear(c, vocab, bias=False)
        d = c // h
        f = 1 / 10000 ** (torch.arange(0, d, 2) / d)
        a = torch.arange(length)[:, None] * f[None]
        self.register_buffer("cos", torch.cat([a.cos(), a.cos()], -1))
        self.register_buffer("sin", torch.cat([a.sin(), a.sin()], -1))

    def forward(self, ids):
        x = self.words(ids)
        for l in self.layers:
            x = l(x, self.cos, self.sin)
        return self.head(self.n(x))


class T5Layer(nn.Module):
    def __init__(self, c, h, wide):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(c, c, bias=False) for _ in range(4))
        self.n1, self.n2 = RMS(c), RMS(c)
        self.a, self.b = nn.Linear(c, wide, bias=False), nn.Linear(wide, c, bias=False)

    def forward(self, x, bias):
        n, l, c = x.shape
        y = self.n1(x)
        q, k, v = (m(y).view(n, l, self.h, c // self.h).transpose(1, 2) for m in (self.q, self.k, self.v))
        p = torch.softmax((q @ k.transpose(-1, -2) / 8 + bias).float(), -1).to(x.dtype)
        x = x + self.o((p @ v).transpose(1, 2).reshape(n, l, c))
        return x + self.b(F.relu(self.a(self.n2(x))))


class T5(nn.Module):
    def __init__(self, c=512, layers=6, h=8, wide=2048, length=384):
        super().__init__()
        self.words = nn.Embedding(32128, c)
        self.layers = nn.ModuleList([T5Layer(c, h, wide) for _ in range(layers)])
        self.n, self.table = RMS(c), nn.Parameter(torch.randn(32, h) * 0.3)
        d = torch.arange(length)[None] - torch.arange(length)[:, None]
        n = d.abs()
        big = 8 + (torch.log(n.float().clamp(min=1) / 8) / math.log(16) * 8).long().clamp(max=7)
        self.register_buffer("bucket", torch.where(n < 8, n, big.clamp(max=15)) + 16 * (d > 0))

    def forward(self, ids):
        x, bias = self.words(ids), self.table[self.bucket].permute(2, 0, 1)[None]
        for l in self.layers:
            x = l(x, bias)
        return self.n(x)


class Whisper(nn.Module):
    def __init__(self, c=384, h=6, layers=4):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(80, c, 3, 1, 1), nn.Conv1d(c, c, 3, 2, 1)
        self.places = nn.Parameter(torch.randn(1500, c) * 0.02)
        self.layers, self.n = nn.Sequential(*[Layer(c, h, True) for _ in range(layers)]), nn.LayerNorm(c)

    def forward(self, x):
        x = F.gelu(self.c2(F.gelu(self.c1(x)))).transpose(1, 2) + self.places
        return self.n(self.layers(x))


class C3(nn.Module):
    def __init__(self, i, o, n, res=True):
        super().__init__()
        c = o // 2
        s = lambda a, b, k, st=1: nn.Sequential(*conv(a, b, k, st, act=nn.SiLU))
        self.a, self.b, self.z, self.res = s(i, c, 1), s(i, c, 1), s(2 * c, o, 1), res
        self.m = nn.ModuleList([nn.Sequential(s(c, c, 1), s(c, c, 3)) for _ in range(n)])

    def forward(self, x):
        y = self.a(x)
        for m in self.m:
            y = y + m(y) if self.res else m(y)
        return self.z(torch.cat([y, self.b(x)], 1))


class Yolo(nn.Module):
    def __init__(self):
        super().__init__()
        s = lambda a, b, k, st=1: nn.Sequential(*conv(a, b, k, st, act=nn.SiLU))
        self.stem = nn.Sequential(s(3, 32, 6 - 1, 2), s(32, 64, 3, 2), C3(64, 64, 1), s(64, 128, 3, 2), C3(128, 128, 2))
        self.p4 = nn.Sequential(s(128, 256, 3, 2), C3(256, 256, 3))
        self.p5 = nn.Sequential(s(256, 512, 3, 2), C3(512, 512, 1))
        self.sp1, self.sp2 = s(512, 256, 1), s(1024, 512, 1)
        self.l5, self.c4, self.l4, self.c3 = s(512, 256, 1), C3(512, 256, 1, False), s(256, 128, 1), C3(256, 128, 1, False)
        self.d3, self.e4 = s(128, 128, 3, 2), C3(256, 256, 1, False)
        self.heads = nn.ModuleList([nn.Conv2d(c, 255, 1) for c in (128, 256)])

    def forward(self, x):
        a = self.stem(x)
        b = self.p4(a)
        c = self.sp1(self.p5(b))
        p = [c]
        for _ in range(3):
            p.append(F.max_pool2d(p[-1], 5, 1, 2))
        c = self.l5(self.sp2(torch.cat(p, 1)))
        d = self.l4(self.c4(torch.cat([F.interpolate(c, scale_factor=2, mode="nearest"), b], 1)))
        e = self.c3(torch.cat([F.interpolate(d, scale_factor=2, mode="nearest"), a], 1))
        f = self.e4(torch.cat([self.d3(e), d], 1))
        n = x.shape[0]
        return torch.cat([h(t).view(n, 3, 85, -1).permute(0, 1, 3, 2).reshape(n, -1, 85).sigmoid() for h, t in zip(self.heads, (e, f))], 1)


class DiffRes(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(32, i), nn.GroupNorm(32, o)
        self.c1, self.c2, self.t = nn.Conv2d(i, o, 3, 1, 1), nn.Conv2d(o, o, 3, 1, 1), nn.Linear(t, o)
        self.s = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.s(x)


class DiffAttn(nn.Module):
    def __init__(self, c, h):
        super().__init__()
        self.h, self.n, self.qkv, self.o = h, nn.GroupNorm(32, c), nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.n2, self.g, self.d = nn.LayerNorm(c), nn.Linear(c, 8 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        n, c, a, b = x.shape
        y = self.n(x).flatten(2).transpose(1, 2)
        q, k, v = (t.view(n, a * b, self.h, c // self.h).transpose(1, 2) for t in self.qkv(y).chunk(3, -1))
        y = y + self.o(attend(q, k, v).transpose(1, 2).reshape(n, a * b, c))
        u, g = self.g(self.n2(y)).chunk(2, -1)
        y = y + self.d(u * F.gelu(g))
        return x + y.transpose(1, 2).reshape(n, c, a, b)


class Diffusion(nn.Module):
    def __init__(self, c=160, t=640):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(160, t), nn.SiLU(), nn.Linear(t, t))
        self.inp = nn.Conv2d(4, c, 3, 1, 1)
        self.d1, self.a1, self.s1 = DiffRes(c, c, t), DiffAttn(c, 5), nn.Conv2d(c, c, 3, 2, 1)
        self.d2, self.a2 = DiffRes(c, 2 * c, t), DiffAttn(2 * c, 5)
        self.m1, self.ma, self.m2 = DiffRes(2 * c, 2 * c, t), DiffAttn(2 * c, 10), DiffRes(2 * c, 2 * c, t)
        self.u2, self.ua2, self.up = DiffRes(4 * c, 2 * c, t), DiffAttn(2 * c, 10), nn.Conv2d(2 * c, 2 * c, 3, 1, 1)
        self.u1, self.ua1, self.n, self.out = DiffRes(3 * c, c, t), DiffAttn(c, 5), nn.GroupNorm(32, c), nn.Conv2d(c, 4, 3, 1, 1)
        self.register_buffer("f", torch.exp(-math.log(10000) * torch.arange(80) / 80))

    def forward(self, x):
        t = 17.0 * self.f
        t = self.time(torch.cat([t.cos(), t.sin()])[None].to(x.dtype))
        h1 = self.a1(self.d1(self.inp(x), t))
        h2 = self.a2(self.d2(self.s1(h1), t))
        m = self.m2(self.ma(self.m1(h2, t)), t)
        u = self.ua2(self.u2(torch.cat([m, h2], 1), t))
        u = self.up(F.interpolate(u, scale_factor=2.0, mode="nearest"))
        u = self.ua1(self.u1(torch.cat([u, h1], 1), t))
        return self.out(F.silu(self.n(u)))


class Mix(nn.Module):
    def __init__(self, c, p):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.t = nn.Sequential(nn.Linear(p, 256), nn.GELU(), nn.Linear(256, p))
        self.c = nn.Sequential(nn.Linear(c, 2048), nn.GELU(), nn.Linear(2048, c))

    def forward(self, x):
        x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.c(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, c=512, layers=8):
        super().__init__()
        self.p, self.b, self.n, self.h = nn.Conv2d(3, c, 16, 16), nn.Sequential(*[Mix(c, 196) for _ in range(layers)]), nn.LayerNorm(c), nn.Linear(c, 1000)

    def forward(self, x):
        return self.h(self.n(self.b(self.p(x).flatten(2).transpose(1, 2))).mean(1))


class Wave(nn.Module):
    def __init__(self, c=64, n=10):
        super().__init__()
        self.i = nn.Conv1d(1, c, 1)
        self.g = nn.ModuleList([nn.Conv1d(c, 2 * c, 3, 1, 2 ** k, 2 ** k) for k in range(n)])
        self.o = nn.ModuleList([nn.Conv1d(c, 2 * c, 1) for k in range(n)])
        self.z = nn.Sequential(nn.ReLU(), nn.Conv1d(c, c, 1), nn.ReLU(), nn.Conv1d(c, 256, 1))

    def forward(self, x):
        x, s = self.i(x), 0
        for g, o in zip(self.g, self.o):
            a, b = g(x).chunk(2, 1)
            r, k = o(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, s = x + r, s + k
        return self.z(s)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        c = lambda i, o: [nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU()]
        self.a = nn.Sequential(*c(3, 64), *c(64, 64))
        self.b = nn.Sequential(*c(64, 128), *c(128, 1024))
        self.c = nn.Sequential(*c(1088, 512), *c(512, 256), nn.Conv1d(256, 50, 1))

    def forward(self, x):
        a = self.a(x)
        g = self.b(a).amax(-1, keepdim=True)
        return torch.log_softmax(self.c(torch.cat([a, g.expand(-1, -1, x.shape[-1])], 1)), 1)


class DLRM(nn.Module):
    def __init__(self, tables=26, d=64):
        super().__init__()
        self.e = nn.Parameter(torch.randn(tables, 10000, d) * 0.1)
        self.b = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, d), nn.ReLU())
        n = tables + 1
        self.t = nn.Sequential(nn.Linear(d + n * n, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("off", torch.arange(tables) * 10000)
        self.register_buffer("dense", torch.randn(2048, 13))

    def forward(self, ids):
        d = self.b(self.dense)
        z = torch.cat([d[:, None], self.e.flatten(0, 1)[ids + self.off]], 1)
        return torch.sigmoid(self.t(torch.cat([d, (z @ z.transpose(1, 2)).flatten(1)], 1)))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.r, self.o = nn.Embedding(20000, 256), nn.LSTM(256, 256, 2, batch_first=True, bidirectional=True), nn.Linear(512, 45)

    def forward(self, ids):
        return self.o(self.r(self.w(ids))[0])


class Lstm(nn.Module):
    """Long sequences, first axis steps."""

    def __init__(self, both=False):
        super().__init__()
        self.r = nn.LSTM(256, 256, 6, bidirectional=both)

    def forward(self, x):
        return self.r(x)[0]


class SuperRes(nn.Module):
    def __init__(self, c=64, n=6):
        super().__init__()
        self.i = nn.Conv2d(3, c, 3, 1, 1)
        self.b = nn.ModuleList([nn.Sequential(nn.Conv2d(c, c, 3, 1, 1), nn.PReLU(c), nn.Conv2d(c, c, 3, 1, 1)) for _ in range(n)])
        self.u, self.o = nn.Conv2d(c, 4 * c, 3, 1, 1), nn.Conv2d(c, 3, 3, 1, 1)

    def forward(self, x):
        y = h = self.i(x)
        for b in self.b:
            y = y + 0.2 * b(y)
        return self.o(F.pixel_shuffle(self.u(y + h), 2))


IMAGES = lambda n=8, s=224: (lambda: torch.randn(n, 3, s, s))
WORDS = lambda most, *shape: (lambda: torch.randint(0, most, shape))
OTHERS = {
    "efficientnet_b0": (efficientnet_b0, IMAGES()),
    "densenet121": (densenet121, IMAGES()),
    "unet": (UNet, IMAGES(4, 256)),
    "resnext50": (resnext50, IMAGES()),
    "vgg16": (vgg16, IMAGES(4)),
    "swin_t": (Swin, IMAGES()),
    "llama": (Llama, WORDS(32000, 2, 512)),
    "t5": (T5, WORDS(32000, 4, 384)),
    "whisper": (Whisper, lambda: torch.randn(2, 80, 3000)),
    "yolo": (Yolo, IMAGES(4, 416)),
    "diffusion": (Diffusion, lambda: torch.randn(2, 4, 64, 64)),
    "mixer": (Mixer, IMAGES()),
    "wave": (Wave, lambda: torch.randn(2, 1, 16000)),
    "pointnet": (PointNet, lambda: torch.randn(8, 3, 4096)),
    "dlrm": (DLRM, WORDS(10000, 2048, 26)),
    "tagger": (Tagger, WORDS(20000, 16, 64)),
    "superres": (SuperRes, IMAGES(2, 180)),
    "lstm": (Lstm, lambda: torch.randn(512, 8, 256)),
    "lstm_both": (lambda: Lstm(True), lambda: torch.randn(512, 8, 256)),
}
