"""export.py OUT [NAME_DTYPE...]: the networks of models.py (and by name those of others.py) as ONNX, with an input and outputs in float64 beside each.

NAME_DTYPE.onnx, NAME_DTYPE.x.npy and NAME_DTYPE.y0.npy, .y1. What a network of bf16 gives in float64 comes from its own weights, those of
bfloat16.
"""
import sys
import warnings
import numpy as np
import torch
from models import make, pairs

warnings.filterwarnings("ignore")


def export(out, name, dtype, device):
    m, x = make(name, dtype)
    path = f"{out}/{name}_{dtype}"
    names = ["y0", "y1"] if name == "bert_base" else ["y0"]
    with torch.no_grad():
        torch.onnx.export(m, (x,), f"{path}.onnx", input_names=["x"], output_names=names, opset_version=17, dynamo=False)
        m = m if dtype == "f32" else m.network
        y = m.double().to(device)((x.double() if x.is_floating_point() else x).to(device))
    for n, t in zip(names, y if isinstance(y, tuple) else (y,)):
        np.save(f"{path}.{n}.npy", t.cpu().numpy())
    np.save(f"{path}.x.npy", x.numpy())


def main():
    out, wanted = sys.argv[1], sys.argv[2:]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for name, dtype in pairs(wanted):
        export(out, name, dtype, device)
        print(name, dtype, flush=True)


main()
