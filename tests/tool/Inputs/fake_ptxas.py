"""Writes a script that stands in for ptxas: fake_ptxas.py FILE

It notes each run in a file beside it, and takes any text; FAKE_PTXAS=refuse in the environment: none.
"""

import os
import sys

SCRIPT = """#!/bin/sh
echo run >> "${0%/*}/runs"
[ "$FAKE_PTXAS" = refuse ] && { echo "ptxas fatal : not today" >&2; exit 255; }
{ printf '\\177ELF'; cat "$4"; } > "$3"
"""

with open(sys.argv[1], "w", encoding="utf-8") as file:
    file.write(SCRIPT)
os.chmod(sys.argv[1], 0o755)
