"""The cases of launch.c by PyTorch: what a call costs where the device has little to do.

    python3 bench/launch_peer.py [--calls 10000] [--modes default,reduce-overhead] [--only A,B]

A JSON line for each case and mode: microseconds of wall time a call, and until a call returns, as launch.c has them. gpt2_decode is the graph of
gen_networks.py, with attention written out and (gpt2_decode_sdpa) as scaled_dot_product_attention over keys with the new one behind them.
"""
import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

WARM, TRIES, FEW = 20, 50, 10


def one_kernel():
    return (lambda x: torch.relu(x + 1)), (torch.randn(1024),)


def training_block():
    """The running statistics and the count of batches are written where they are."""

    def block(x, w, b, gamma, beta, mean, var, batches):
        conv = F.conv2d(x, w, b)
        v, m = torch.var_mean(conv, (0, 2, 3), correction=0)
        invstd = torch.rsqrt(v + 1e-5)
        n = conv.numel() / conv.shape[1]
        mean.mul_(0.9).add_(m, alpha=0.1)
        var.mul_(0.9).add_(v, alpha=0.1 * n / (n - 1))
        batches.add_(1)
        c = (1, -1, 1, 1)
        y = torch.relu((conv - m.view(c)) * invstd.view(c) * gamma.view(c) + beta.view(c))
        return y, y <= 0, m, invstd

    return block, (torch.randn(2, 16, 8, 8), torch.randn(32, 16, 3, 3) * 0.1, torch.randn(32), torch.rand(32), torch.randn(32),
                   torch.zeros(32), torch.ones(32), torch.zeros((), dtype=torch.int64))


def softmaxes(n, size):
    def chain(x):
        for i in range(n):
            x = torch.softmax(x, i % 2)
        return x

    return chain, (torch.randn(size, size),)


class DecodeLayer(nn.Module):
    def __init__(self, width, heads, sdpa):
        super().__init__()
        self.heads, self.sdpa = heads, sdpa
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, q, k, v, old_k, old_v):
        if self.sdpa:
            return F.scaled_dot_product_attention(q, torch.cat((old_k, k), 2), torch.cat((old_v, v), 2))
        n = old_k.shape[2]
        scores = torch.cat((q @ old_k.transpose(-1, -2), q @ k.transpose(-1, -2)), -1) * q.shape[-1] ** -0.5
        w = torch.softmax(scores, -1)
        return w[..., :n] @ old_v + w[..., n:] * v

    def forward(self, x, old_k, old_v):
        q, k, v = (t.view(1, self.heads, 1, -1) for t in self.qkv(self.norm1(x)).split(x.shape[-1], -1))
        x = x + self.out(self.attend(q, k, v, old_k, old_v).reshape(1, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), k, v


class Decode(nn.Module):
    def __init__(self, sdpa, width=768, heads=12, layers=12):
        super().__init__()
        self.words, self.places = nn.Embedding(50257, width), nn.Embedding(1024, width)
        self.layers = nn.ModuleList([DecodeLayer(width, heads, sdpa) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, word, place, keys, values):
        x, new = self.words(word) + self.places(place), []
        for layer, k, v in zip(self.layers, keys, values):
            x, *kv = layer(x, k, v)
            new += kv
        return F.linear(self.norm(x), self.words.weight), new


def decode(sdpa):
    keep = lambda: [torch.randn(1, 12, 512, 64, dtype=torch.bfloat16) for _ in range(12)]
    return Decode(sdpa).to(torch.bfloat16).eval(), (torch.tensor([7]), torch.tensor([7]), keep(), keep())


CASES = {
    "one_kernel": one_kernel,
    "training_block": training_block,
    "chain_of_20": lambda: softmaxes(20, 64),
    "chain_of_2": lambda: softmaxes(2, 64),
    "chain_of_2_long": lambda: softmaxes(2, 1024),
    "gpt2_decode": lambda: decode(False),
    "gpt2_decode_sdpa": lambda: decode(True),
}


def on_device(x):
    """Tensors that every call gets: in the mode reduce-overhead they are not copied to others first."""
    if isinstance(x, (list, tuple)):
        return [on_device(t) for t in x]
    x = x.cuda()
    torch._dynamo.mark_static_address(x)
    return x


def measure(f, args, calls):
    def call(n):
        for _ in range(n):
            f(*args)

    call(WARM)
    host = []
    for _ in range(TRIES):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call(FEW)
        host.append((time.perf_counter() - begin) / FEW * 1e6)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    call(calls)
    torch.cuda.synchronize()
    return {"us": round((time.perf_counter() - begin) / calls * 1e6, 3), "host_us": round(min(host), 3)}


def one(name, make, mode, calls):
    torch._dynamo.reset()
    torch.manual_seed(0)
    try:
        f, args = make()
        f = f.cuda() if isinstance(f, nn.Module) else f
        run = f if mode == "eager" else torch.compile(f, mode=None if mode == "default" else mode, dynamic=False)
        with torch.no_grad():
            return measure(run, on_device(args), calls)
    except Exception as e:
        return {"error": repr(e)[:300]}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--calls", type=int, default=10000)
    ap.add_argument("--modes", default="default,reduce-overhead")
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    for name, make in CASES.items():
        if a.only and name not in a.only.split(","):
            continue
        for mode in a.modes.split(","):
            figures = one(name, make, mode, a.calls // (10 if "decode" in name else 1))
            print(json.dumps({"name": name, "torch": torch.__version__, "mode": mode, **figures}), flush=True)


main()
