#!/usr/bin/env python3
"""bench/peer_errors.py FILE.sn...: how far PyTorch's float32 products are from float64, on the inputs that `sinter bench
--inputs` has. FILE.sn is one of bench/contract; what matters is its name, mm_f32_LAYOUT_MxNxK or mm_f32_tf32_LAYOUT_MxNxK.

Prints one JSON object a line: name, inputs, err (largest error / largest value), err_rms (root mean squares), of all elements.
"""
import json
import os
import re
import sys

import torch

KINDS = {
    "normal": lambda *shape: torch.randn(*shape),
    "uniform": lambda *shape: torch.rand(*shape),
    "wide": lambda *shape: torch.ldexp(torch.randn(*shape), torch.randint(-12, 13, shape)),
}


def errors(got, want):
    got, want = got.double(), want
    return {"err": float(f"{((got - want).abs().max() / want.abs().max()).item():.3g}"),
            "err_rms": float(f"{((got - want).pow(2).mean().sqrt() / want.pow(2).mean().sqrt()).item():.3g}")}


def main():
    torch.manual_seed(0)
    torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
    for name in (os.path.basename(path).removesuffix(".sn") for path in sys.argv[1:]):
        tf32, layout, *sizes = re.fullmatch(r"mm_f32_(tf32_)?(nn|nt|tn)_(\d+)x(\d+)x(\d+)", name).groups()
        m, n, k = map(int, sizes)
        torch.backends.cuda.matmul.allow_tf32 = bool(tf32)
        for inputs, draw in KINDS.items():
            a = draw(k, m).t() if layout == "tn" else draw(m, k)
            b = draw(n, k).t() if layout == "nt" else draw(k, n)
            print(json.dumps({"name": name, "inputs": inputs, **errors(a @ b, a.double() @ b.double())}), flush=True)


main()
