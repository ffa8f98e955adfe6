"""Write a .npy file of float32: npy.py FILE ROWS COLUMNS NUMBER..."""

import struct
import sys

path, rows, columns, *numbers = sys.argv[1:]
header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}\n".encode()
with open(path, "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    out.write(struct.pack(f"<{len(numbers)}f", *map(float, numbers)))
