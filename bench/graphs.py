"""graphs.py: what scripts that make graphs for a folder of bench/ share."""
import argparse
import os
import sys


def arguments(name, *options):
    """What the command line says: `folder`, or bench/NAME, which is there afterwards; and the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), name))
    for option in options:
        parser.add_argument(option)
    given = parser.parse_args()
    os.makedirs(given.folder, exist_ok=True)
    return given


def folder(name):
    return arguments(name).folder


def name_of(what, sizes):
    return f"{what}_{'x'.join(map(str, sizes))}"


def write(path, name, note, text):
    """The graph NAME.sn, behind a line that says what it is and by which script it was made."""
    with open(os.path.join(path, name + ".sn"), "w") as f:
        f.write(f"# {name}: {note}. Made by bench/{os.path.basename(sys.argv[0])}.\n{text}")
