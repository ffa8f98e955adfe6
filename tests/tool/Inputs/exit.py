"""Run a command and demand its exit code: exit.py CODE COMMAND..."""

import subprocess
import sys

code = subprocess.run(sys.argv[2:]).returncode
if code != int(sys.argv[1]):
    print(f"exit.py: exit code {code}, wanted {sys.argv[1]}")
    sys.exit(1)
