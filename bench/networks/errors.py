"""errors.py WANT GOT...: how far outputs are from those of export.py: largest difference over largest value, a line for each folder GOT.

WANT: path of a network, without .onnx. GOT: what `sinter run --output-dir` wrote.
"""
import glob
import json
import os
import sys
import numpy as np

want = sys.argv[1]
for got in sys.argv[2:]:
    errors = []
    for path in sorted(glob.glob(f"{got}/y*.npy")):
        y = np.load(f"{want}.{os.path.basename(path)}")
        errors.append(float(np.abs(np.load(path).astype(np.float64) - y).max() / np.abs(y).max()))
    print(json.dumps({"name": os.path.basename(want), "got": os.path.basename(got), "err": errors}))
