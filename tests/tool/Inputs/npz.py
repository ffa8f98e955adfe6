"""Write files of several tensors of float32: npz.py FILE.npz FILE.safetensors

x and deflated are [2, 3], 1 .. 6; a.row is [3], 10, 20, 30. The archive is written as numpy.savez writes it.
"""

import struct
import sys
import zipfile

npz, safetensors = sys.argv[1:]
x = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".ljust(117) + b"\n"
with zipfile.ZipFile(npz, "w", zipfile.ZIP_STORED, allowZip64=True) as out:
    with out.open("x.npy", "w", force_zip64=True) as member:
        member.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + x)
    out.writestr("deflated.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + x, zipfile.ZIP_DEFLATED)
header = b'{"__metadata__":{"format":"pt"},"a.row":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'
with open(safetensors, "wb") as out:
    out.write(struct.pack("<Q", len(header)) + header + struct.pack("<3f", 10, 20, 30))
