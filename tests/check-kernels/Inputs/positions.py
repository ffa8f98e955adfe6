"""The numbers 7 .. 0 as an i32 array: positions.py FILE.npy"""

import struct
import sys

header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (8,), }\n"
with open(sys.argv[1], "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<8i", *range(7, -1, -1)))
