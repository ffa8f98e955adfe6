"""peer.py [--modes eager,default,max-autotune-no-cudagraphs] [--only A,B] [--outputs DIR]: the networks of models.py in PyTorch.

A JSON line for each: microseconds a mode, between two events after a write that flushes the L2, as `sinter bench` has them in events_us,
and the error of the outputs beside DIR/NAME_DTYPE.y*.npy (export.py): largest difference over largest value. float32 as
PyTorch comes: convolutions in tf32, products in f32. `graph_us`: the eager or compiled network in a CUDA graph, without gaps of the host.
"""
import argparse
import json
import os
import time
import numpy as np
import torch
from models import make, pairs
from triton.testing import do_bench


def error_of(y, path):
    y = y if isinstance(y, tuple) else (y,)
    errors = []
    for k, t in enumerate(y):
        if not os.path.exists(f"{path}.y{k}.npy"):
            return None
        want = np.load(f"{path}.y{k}.npy")
        errors.append(float(np.abs(t.double().cpu().numpy() - want).max() / np.abs(want).max()))
    return max(errors)


def in_graph(f, x):
    """Microseconds of a replay; None where the network cannot be captured."""
    try:
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            f(x)
        return round(do_bench(g.replay, return_mode="median", warmup=5, rep=40) * 1e3, 1)
    except RuntimeError:
        return None


def measure(rec, name, dtype, modes, outputs):
    m, x = make(name, dtype)
    m, x = m.cuda(), x.cuda()
    for mode in modes:
        torch._dynamo.reset()
        f = m if mode == "eager" else torch.compile(m, mode=None if mode == "default" else mode, dynamic=False)
        begin = time.perf_counter()
        y = f(x)
        torch.cuda.synchronize()
        cold = time.perf_counter() - begin
        us = do_bench(lambda: f(x), return_mode="median", warmup=5, rep=40) * 1e3
        rec[mode] = {"us": round(us, 1), "graph_us": in_graph(f, x), "first_call_s": round(cold, 2),
                     "err": error_of(y, f"{outputs}/{name}_{dtype}")}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--modes", default="eager,default,max-autotune-no-cudagraphs")
    ap.add_argument("--only", default="")
    ap.add_argument("--outputs", default=".")
    a = ap.parse_args()
    for name, dtype in pairs([n for n in a.only.split(",") if n]):
        rec = {"name": f"{name}_{dtype}"}
        try:
            with torch.no_grad():
                measure(rec, name, dtype, a.modes.split(","), a.outputs)
        except Exception as e:
            rec["error"] = repr(e)[:300]
        print(json.dumps(rec), flush=True)


main()
