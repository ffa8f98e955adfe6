"""graphs.py: what scripts that make graphs for a folder of bench/ share."""
import os
import sys


def folder(name):
    """The folder that the command line says, or bench/NAME; it is there afterwards."""
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    os.makedirs(path, exist_ok=True)
    return path


def name_of(what, sizes):
    return f"{what}_{'x'.join(map(str, sizes))}"


def write(path, name, note, text):
    """The graph NAME.sn, behind a line that says what it is and by which script it was made."""
    with open(os.path.join(path, name + ".sn"), "w") as f:
        f.write(f"# {name}: {note}. Made by bench/{os.path.basename(sys.argv[0])}.\n{text}")
