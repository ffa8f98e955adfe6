"""Six networks in plain torch.nn, with random weights: the architectures of the papers, sizes as torchvision and transformers have them.

MODELS: name -> (module, example inputs); others.py has more, for those who ask for them by name. Attention is scaled_dot_product_attention for PyTorch, and its parts for the export.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def attend(q, k, v, causal=False):
    """Heads second; q, k, v: [batch, heads, positions, size]."""
    if not torch.onnx.is_in_onnx_export():
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = (q @ k.transpose(-1, -2)) * (1 / math.sqrt(q.shape[-1]))
    if causal:
        hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, -1) @ v


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (t.reshape(n, length, self.heads, width // self.heads).transpose(1, 2)
                   for t in self.qkv(x).split(width, -1))
        return self.out(attend(q, k, v, self.causal).transpose(1, 2).reshape(n, length, width))


class Layer(nn.Module):
    """A layer of a transformer, norms first (ViT, GPT-2) or last (BERT)."""

    def __init__(self, width, heads, first, causal=False, gelu="none", eps=1e-5):
        super().__init__()
        self.first = first
        self.norm1, self.norm2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(gelu), nn.Linear(4 * width, width))

    def forward(self, x):
        if self.first:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Vit(nn.Module):
    def __init__(self, width=768, heads=12, layers=12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.layers = nn.Sequential(*[Layer(width, heads, True, eps=1e-6) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


class Bert(nn.Module):
    def __init__(self, width=768, heads=12, layers=12, length=512):
        super().__init__()
        self.words, self.places = nn.Embedding(30522, width), nn.Embedding(length, width)
        self.types, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, 1e-12)
        self.layers = nn.Sequential(*[Layer(width, heads, False, eps=1e-12) for _ in range(layers)])
        self.pool = nn.Linear(width, width)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.words(ids) + self.types(torch.zeros_like(ids)) + self.places(places)
        x = self.layers(self.norm(x))
        return x, torch.tanh(self.pool(x[:, 0]))


class Gpt2(nn.Module):
    def __init__(self, width=768, heads=12, layers=12):
        super().__init__()
        self.words, self.places = nn.Embedding(50257, width), nn.Embedding(1024, width)
        self.layers = nn.Sequential(*[Layer(width, heads, True, True, "tanh") for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return F.linear(self.norm(self.layers(x)), self.words.weight)


def conv(i, o, k, stride=1, groups=1, act=nn.ReLU, eps=1e-5):
    parts = [nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o, eps)]
    return parts + ([act()] if act else [])


class Bottleneck(nn.Module):
    def __init__(self, i, c, stride):
        super().__init__()
        self.body = nn.Sequential(*conv(i, c, 1), *conv(c, c, 3, stride), *conv(c, 4 * c, 1, act=None))
        self.skip = nn.Sequential(*conv(i, 4 * c, 1, stride, act=None)) if stride > 1 or i != 4 * c else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnet50():
    blocks, i = [], 64
    for c, n, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(n):
            blocks.append(Bottleneck(i, c, stride if k == 0 else 1))
            i = 4 * c
    return nn.Sequential(*conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(2048, 1000))


class Squeeze(nn.Module):
    def __init__(self, c):
        super().__init__()
        s = max(8, (c // 4 + 4) // 8 * 8)
        s += 8 if s < 0.9 * (c // 4) else 0
        self.down, self.up = nn.Conv2d(c, s, 1), nn.Conv2d(s, c, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    def __init__(self, i, k, wide, o, squeeze, act, stride):
        super().__init__()
        body = conv(i, wide, 1, act=act, eps=1e-3) if wide != i else []
        body += conv(wide, wide, k, stride, wide, act, 1e-3)
        body += [Squeeze(wide)] if squeeze else []
        self.body = nn.Sequential(*body, *conv(wide, o, 1, act=None, eps=1e-3))
        self.residual = stride == 1 and i == o

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


def mobilenet_v3():
    r, h = nn.ReLU, nn.Hardswish
    rows = [(3, 16, 16, 0, r, 1), (3, 64, 24, 0, r, 2), (3, 72, 24, 0, r, 1), (5, 72, 40, 1, r, 2), (5, 120, 40, 1, r, 1),
            (5, 120, 40, 1, r, 1), (3, 240, 80, 0, h, 2), (3, 200, 80, 0, h, 1), (3, 184, 80, 0, h, 1),
            (3, 184, 80, 0, h, 1), (3, 480, 112, 1, h, 1), (3, 672, 112, 1, h, 1), (5, 672, 160, 1, h, 2),
            (5, 960, 160, 1, h, 1), (5, 960, 160, 1, h, 1)]
    parts, i = conv(3, 16, 3, 2, act=h, eps=1e-3), 16
    for k, wide, o, squeeze, act, stride in rows:
        parts.append(Inverted(i, k, wide, o, squeeze, act, stride))
        i = o
    return nn.Sequential(*parts, *conv(i, 960, 1, act=h, eps=1e-3), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(960, 1280), h(), nn.Linear(1280, 1000))


class Norm2d(nn.LayerNorm):
    """Over the channels of an NCHW tensor."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Next(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(c, c, 7, 1, 3, groups=c), nn.LayerNorm(c, 1e-6)
        self.mlp = nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))
        self.scale = nn.Parameter(torch.rand(c, 1, 1) * 0.1)

    def forward(self, x):
        y = self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + self.scale * y.permute(0, 3, 1, 2)


def convnext_t():
    parts, i = [nn.Conv2d(3, 96, 4, 4), Norm2d(96, 1e-6)], 96
    for c, n in ((96, 3), (192, 3), (384, 9), (768, 3)):
        parts += [Norm2d(i, 1e-6), nn.Conv2d(i, c, 2, 2)] if c != i else []
        parts += [Next(c) for _ in range(n)]
        i = c
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), Norm2d(768, 1e-6), nn.Flatten(), nn.Linear(768, 1000))


def spread(module):
    """Statistics that are not those of a fresh network, so that norms have something to do."""
    for b in module.modules():
        if isinstance(b, nn.BatchNorm2d):
            nn.init.uniform_(b.weight, 0.5, 1.0)
            nn.init.normal_(b.bias, 0, 0.1)
            nn.init.normal_(b.running_mean, 0, 0.1)
            nn.init.uniform_(b.running_var, 0.5, 1.5)
    return module.eval()


IMAGES = lambda: torch.randn(8, 3, 224, 224)
WORDS = lambda most, *shape: torch.randint(0, most, shape)
MODELS = {
    "resnet50": (resnet50, IMAGES),
    "mobilenet_v3": (mobilenet_v3, IMAGES),
    "convnext_t": (convnext_t, IMAGES),
    "vit_b16": (Vit, IMAGES),
    "bert_base": (Bert, lambda: WORDS(30522, 8, 512)),
    "gpt2": (Gpt2, lambda: WORDS(50257, 4, 256)),
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Inside(nn.Module):
    """A network of halves with float32 around it."""

    def __init__(self, network, dtype):
        super().__init__()
        self.network, self.dtype = network, dtype

    def forward(self, x):
        y = self.network(x.to(self.dtype) if x.is_floating_point() else x)
        return tuple(t.float() for t in y) if isinstance(y, tuple) else y.float()


def pairs(wanted):
    """Names with their dtypes: those of the list ["unet_f32", ..], or all of MODELS."""
    return [n.rsplit("_", 1) for n in wanted] if wanted else [[n, d] for n in MODELS for d in DTYPES]


def make(name, dtype):
    """The module and its input, the same in every process. Inputs and outputs are float32, or positions."""
    from others import OTHERS  # which is made of what stands above
    torch.manual_seed(0)
    module, example = (MODELS | OTHERS)[name]
    m, x = spread(module()).to(DTYPES[dtype]), example()
    return (m if dtype == "f32" else Inside(m, DTYPES[dtype])).eval(), x
