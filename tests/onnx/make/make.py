"""Writes ONNX models with inputs and expected outputs, computed by others than Sinter.

    python3 tests/onnx/make/make.py OUT [FAMILY...]    writes OUT/<family>/test_<name>/, for all families or those named
    python3 tests/onnx/make/make.py --pack ARCHIVE OUT packs OUT; the same cases give the same archive

Each module of FAMILIES makes one family; its head says what its oracle is. Random numbers start from the family's
name. The archive tests/onnx/cases.tar.xz, which `./dev test` runs, was made with onnx 1.23.2, onnxruntime 1.31.1 (attention,
fused and learn: 1.32.0) and numpy 2.4.6.
"""

import importlib
import pathlib
import sys
import tarfile

FAMILIES = [
    "elementwise",
    "reduce",
    "norm",
    "loss",
    "training",
    "fourier",
    "matmul",
    "conv",
    "quantize",
    "qlinear",
    "pool",
    "resize",
    "image",
    "shapes",
    "parts",
    "index",
    "attention",
    "fused",
    "learn",
    "dtypes",
    "recurrent",
]


def plain(info):
    """Nothing in the archive depends on who packs it, or when."""
    info.mtime = info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.isdir() else 0o644
    return info


def pack(archive, out):
    out = pathlib.Path(out)
    with tarfile.open(archive, "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as tar:
        for path in sorted(out.rglob("*")):
            tar.add(path, path.relative_to(out), recursive=False, filter=plain)


def make(out, names):
    from family import Family

    for name in names:
        module = importlib.import_module(name)
        family = Family(out, name, module.ORACLE)
        module.make(family)
        print(f"{name}: {family.count} cases")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pack"] and len(sys.argv) == 4:
        pack(sys.argv[2], sys.argv[3])
    elif len(sys.argv) >= 2 and not sys.argv[1].startswith("-"):
        make(sys.argv[1], sys.argv[2:] or FAMILIES)
    else:
        sys.exit(__doc__)
