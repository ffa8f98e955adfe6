"""libsinter.so exports exactly the functions that sinter.h declares with SN_API; libsinter-rt.so is small and needs libc alone;
no library object holds writable global data.

    python3 tests/check/exports.py BUILD
"""

import pathlib
import re
import subprocess
import sys

import source

RT_LIMIT = 1 << 20
RT_NEEDS = re.compile(r"(libc|libm|libdl|libpthread|ld-linux-x86-64)\.so\.\d+")
# Variables that outlive a call, and why each must.
GLOBALS = {
    ("session.c.o", "once"): "LLVM's targets are initialised once in a process",
    ("session.c.o", "is_ready"): "... and so is whether that went well",
    ("session.c.o", "beginner"): "... whose context hears of it: pthread_once gives its function nothing (thread-local)",
    ("session.c.o", "memory"): "C++ has one new-handler for a process: who had it before, and how many guards use ours",
    ("session.c.o", "current_guard"): "LLVM's fatal error handler is given no user pointer (thread-local)",
}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=source.ROOT).stdout


def exported(library):
    lines = output("nm", "-D", "--defined-only", library).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", library))


def stripped_size(library, build):
    copy = build / "stripped.so"
    output("strip", "-o", copy, library)
    size = copy.stat().st_size
    copy.unlink()
    return size


def writable_data(archive):
    """Variables in .data, .bss and thread-local sections that GLOBALS does not explain ("file: name")."""
    found = []
    member = "?"
    for line in output("objdump", "-t", archive).splitlines():
        if "     file format " in line:
            member = line.split(":")[0]
            continue
        match = re.match(r"[0-9a-f]+ (.{7}) (\S+)\s+([0-9a-f]+)(?: \.hidden)? (\S+)$", line)
        if not match or "d" in match.group(1):
            continue    # no symbol, or only the name of a section or file
        section, name = match.group(2), match.group(4)
        writable = section == "*COM*" or re.match(r"\.(data|bss|tdata|tbss)(?!\.rel\.ro)", section)
        if writable and (member, re.sub(r"\.\d+$", "", name)) not in GLOBALS:
            found.append(f"{member}: {name} ({section})")
    return found


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    sinter, rt, objects = build / "libsinter.so", build / "libsinter-rt.so", build / "libsinter-all.a"
    problems = []
    api, symbols = source.declared(), exported(sinter)
    if not api:
        problems.append("include/sinter/sinter.h: no function is declared with SN_API")
    problems += [f"libsinter.so: {name} is declared with SN_API but not exported" for name in sorted(api - symbols)]
    problems += [f"libsinter.so: {name} is exported but not declared with SN_API" for name in sorted(symbols - api)]
    problems += [f"libsinter-rt.so needs {name}" for name in needed(rt) if not RT_NEEDS.fullmatch(name)]
    rt_api = source.declared("rt.h", "SN_RT_API")
    problems += [f"libsinter-rt.so exports {name}, which rt.h does not declare" for name in sorted(exported(rt) - rt_api)]
    problems += [f"libsinter-rt.so: {name} is declared with SN_RT_API but not exported" for name in sorted(rt_api - exported(rt))]
    size = stripped_size(rt, build)
    print(f"libsinter.so exports {len(symbols)} functions; libsinter-rt.so is {size} bytes stripped, needs {' '.join(needed(rt))}")
    if size >= RT_LIMIT:
        problems.append(f"libsinter-rt.so is {size} bytes stripped; the limit is {RT_LIMIT}")
    problems += [f"mutable global: {what}" for what in writable_data(objects)]
    source.report("exports", len(api), problems)


main()
