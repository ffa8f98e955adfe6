"""A block of a network in training by PyTorch: convolution, bias, batch norm, relu and its mask (bench/more/conv_block_*).

    python3 bench/peer_block.py        one JSON object a line: microseconds by mode
"""
import json

import torch
import torch.nn.functional as F
from triton.testing import do_bench

MODES = "eager", "default", "max-autotune-no-cudagraphs"


def block(x, w, b, gamma, beta, mean, var):
    y = torch.relu(F.batch_norm(F.conv2d(x, w, b, padding=1), mean, var, gamma, beta, True, 0.1, 1e-5))
    return y, y <= 0


def time(dtype):
    like = {"device": "cuda", "dtype": dtype}
    x, w = torch.randn(64, 64, 56, 56, **like), torch.randn(64, 64, 3, 3, **like) * 0.05
    args = x, w, torch.randn(64, **like), torch.rand(64, **like), torch.randn(64, **like), torch.zeros(64, **like), torch.ones(64, **like)
    record = {"name": f"conv_block_{str(dtype)[6:]}"}
    for mode in MODES:
        torch._dynamo.reset()
        run = block if mode == "eager" else torch.compile(block, mode=None if mode == "default" else mode, dynamic=False)
        run(*args)
        torch.cuda.synchronize()
        record[mode] = round(do_bench(lambda: run(*args), return_mode="median", warmup=10, rep=50) * 1e3, 2)
    print(json.dumps(record), flush=True)


torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
time(torch.float32)
time(torch.bfloat16)
