"""Run the cases of a table of errors: errors.py SINTER TABLE FOLDER.

    == what is wrong
    text of case.sn
    $ run --device=cpu case.sn        arguments of the tool; `> PATH` at the end redirects standard output
    1 sinter: error: case.sn:1:1: ... exit status and everything on standard error, up to a final `...`

A case may give several command lines, each with its own answer; a case without text keeps the file of the one before.
The commands run in FOLDER, which also holds the .npy files made below.
"""

import os
import shlex
import shutil
import struct
import subprocess
import sys
import zipfile


def npy(name, descr="<f4", shape="(2,)", data=8, magic=b"\x93NUMPY", version=1, header=None):
    text = (header or f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}").encode() + b"\n"
    with open(name, "wb") as out:
        out.write(magic + bytes([version, 0]) + struct.pack("<H", len(text)) + text + bytes(data))


def npz(name, **members):
    with zipfile.ZipFile(name, "w") as out:
        for member, (descr, size) in members.items():
            npy("member.npy", descr=descr, shape=f"({size // int(descr[2:])},)", data=size)
            out.write("member.npy", f"{member}.npy")


def make_files():
    npy("rank.npy", shape="(2, 1)")
    npy("shape.npy", shape="(3,)", data=12)
    npy("dtype.npy", descr="<f8", data=16)
    npy("big-endian.npy", descr=">f4")
    npy("newline.npy", descr="<\nf4")
    npy("short.npy", data=7)
    npy("long.npy", data=9)
    npy("magic.npy", magic=b"NUMPY\x93")
    npy("version.npy", version=9)
    npy("header.npy", header="{'descr' '<f4'}")
    npy("cut.npy")
    os.truncate("cut.npy", 20)
    open("empty.npy", "wb").close()
    npz("file.npz", w=("<f4", 8), long=("<f4", 12), half=("<f2", 4))
    npz("cut.npz", w=("<f4", 8))
    os.truncate("cut.npz", 100)
    for name in "file.safetensors", "cut.safetensors":
        text = (b'{"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},'
                b'"q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[8,10]}}')
        with open(name, "wb") as out:
            out.write(struct.pack("<Q", 120) + text.ljust(120) + bytes(10))
    os.truncate("cut.safetensors", 20)
    open("empty.sn", "wb").close()
    os.mkdir("folder.sn")
    os.mkdir("folder.npy")
    os.mkdir("full")
    for name in "y.npy", "r.json":
        os.symlink("/dev/full", f"full/{name}")


def cases(table):
    """(title, text or None, [(arguments, status, message)]) of every case."""
    title, text, runs = None, [], []
    for line in open(table):
        if line.startswith("== "):
            if title:
                yield title, "".join(text), runs
            title, text, runs = line[3:].strip(), [], []
        elif title is None:
            continue
        elif line.startswith("$ "):
            runs.append([line[2:].strip(), None, ""])
        elif runs and line.strip():
            status, _, message = line.rstrip("\n").partition(" ")
            runs[-1][1:] = [int(status), message]
        elif not runs:
            text.append(line)
    if title:
        yield title, "".join(text), runs


def answers(message, stderr):
    """Is that the one line that is wanted? (The address sanitizer has its own word to say about impossible sizes.)"""
    stderr = "".join(line for line in stderr.splitlines(True) if "WARNING: AddressSanitizer failed to allocate" not in line)
    if stderr.count("\n") != 1:
        return False
    if message.endswith("..."):
        return stderr.startswith(message[:-3])
    return stderr == message + "\n"


def main():
    sinter, table, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    os.chdir(folder)
    make_files()
    ran = failed = 0
    for title, text, runs in cases(table):
        if text.strip():
            with open("case.sn", "w") as out:
                out.write(text.strip() + "\n")
        if not runs:
            sys.exit(f"{title}: no command")
        for arguments, status, message in runs:
            command, _, to = arguments.partition(" > ")
            with open(to or os.devnull, "w") as out:
                done = subprocess.run([sinter, *shlex.split(command)], stdin=subprocess.DEVNULL, stdout=out,
                                      stderr=subprocess.PIPE, text=True, errors="backslashreplace")
            ran += 1
            if done.returncode != status or not answers(message, done.stderr):
                failed += 1
                print(f"{title}: sinter {arguments}\n  wanted {status} {message}\n  got    {done.returncode} {done.stderr}")
    print(f"{ran} commands, {failed} failed")
    sys.exit(failed > 0 or ran == 0)


main()
