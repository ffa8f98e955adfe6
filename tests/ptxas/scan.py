"""Does ptxas encode the kernels rightly? Two of its faults are looked for in what nvdisasm prints.

    python3 tests/ptxas/scan.py BUILD PTXAS NVDISASM [TARGET...]

* A descriptor is a pair of uniform registers that begins with an even one. ptxas 12.8 to 13.5 take an odd one where an asynchronous copy with a
  policy has a shared address that is a uniform register plus another: an illegal instruction (backend-nvptx/stream.c).

      LDGSTS.E.BYPASS.128 [R3+UR0], desc[UR1][R4.64]

* a - b of 64 bits is a sum with the complement of b, whose carry has to begin with that of the negated lower word. ptxas 12.8 to 13.5 negate it
  beforehand where the minuend is the high word of a product: no carry for 0, and the upper word is 1 too small (tests/ptx/remainder.sn).

      IADD3 R5, RZ, -R2, RZ                  IMAD.HI.U32 R4, P0, R9, 0x1c71c71d, R4        IADD3.X R5, RZ, ~R3, RZ, P0, !PT

planted.ptx has both, and sound code beside them: the scan is tried on it first. The last line is "N passed, N failed, N skipped".
"""

import concurrent.futures
import os
import re
import struct
import subprocess
import sys
import tempfile

import kernels

TOGETHER = 100  # kernels of one call: nvdisasm takes a third of a second to start
INSTRUCTION = re.compile(r"/\*([0-9a-f]+)\*/\s+(?:@\S+\s+)?([A-Z]\S*)\s*([^;]*);")
ODD = re.compile(r"desc\[UR\d*[13579]\]")
COMPLEMENT, NEGATED = re.compile(r"~U?R\d"), re.compile(r"[-~]\|?(?:U?R\d|c\[)")
CARRY = re.compile(r"^U?P\d$")


def carries(name, operands):
    """Predicates that an addition writes its carries to, and those that it takes them from: behind the result, and at the end."""
    if not re.match(r"U?(IADD|IMAD|LEA)", name):
        return [], []
    out = []
    for operand in operands[1:]:
        if not CARRY.match(operand):
            break
        out.append(operand)
    taken = [operand for operand in operands[1 + len(out) :] if CARRY.match(operand.lstrip("!"))]
    return out, taken


def faults(instructions):
    """What is wrong with the code of one kernel, a line each."""
    found, made_by = [], {}
    for name, rest in instructions:
        text = f"{name} {rest.strip()}"
        operands = [operand.strip() for operand in rest.split(",")]
        if ODD.search(rest):
            found.append(f"a descriptor in an odd register: {text}")
        out, taken = carries(name, operands)
        if COMPLEMENT.search(rest) and ".X" in name:
            for carry in taken:
                first = made_by.get(carry)
                if first and not NEGATED.search(first):
                    found.append(f"a borrow that is no borrow: {first}, then {text}")
        for carry in out:
            made_by[carry] = text
        # Any other instruction that writes the predicate is none of a sum.
        for operand in operands[:2] if not out else []:
            if CARRY.match(operand) and operand not in taken:
                made_by.pop(operand, None)
    return found


def code_of(cubin):
    """{entry: its instructions}, from the sections of an ELF file."""
    with open(cubin, "rb") as file:
        data = file.read()
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", data, start + k * size) for k in range(count)]
    found = {}
    for name, _, _, _, at, length in sections:
        first = sections[names][4] + name
        text = data[first : data.index(b"\0", first)].decode()
        if text.startswith(".text."):
            found[text[len(".text.") :]] = data[at : at + length]
    return found


def disassembled(nvdisasm, target, codes):
    """[(name, operands), ...] of each code."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(codes))
        file.flush()
        command = [nvdisasm, "-ndf", "-b", target.replace("sm_", "SM"), file.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=kernels.LONGEST)
    if done.returncode:
        sys.exit(f"nvdisasm: {done.stderr}")
    ends, end = [], 0
    for code in codes:
        end += len(code)
        ends.append(end)
    listings, k = [[] for _ in codes], 0
    for address, name, rest in INSTRUCTION.findall(done.stdout):
        while int(address, 16) >= ends[k]:
            k += 1
        listings[k].append((name, rest))
    return listings


def planted(build, ptxas, nvdisasm):
    """What the scan says of planted.ptx that it should not say."""
    cubin = os.path.join(build, "planted.cubin")
    status, said = kernels.run_ptxas(ptxas, "sm_90", os.path.join(kernels.HERE, "planted.ptx"), cubin)
    if status:
        return [said.strip()]
    wrong = []
    code = code_of(cubin)
    listed = dict(zip(code, disassembled(nvdisasm, "sm_90", list(code.values()))))
    for entry, wanted in (
        ("odd_descriptor", "a descriptor"),
        ("sound_descriptor", None),
        ("lost_borrow", "a borrow"),
        ("sound_borrow", None),
    ):
        found = faults(listed.get(entry, []))
        if not listed.get(entry):
            wrong.append(f"{entry}: no code")
        elif wanted and not any(line.startswith(wanted) for line in found):
            wrong.append(f"{entry}: {wanted} is not found")
        elif not wanted and found:
            wrong.append(f"{entry}: {found[0]}")
    return wrong


def scan(nvdisasm, target, some):
    """[(kernel, its faults), ...]"""
    listings = disassembled(nvdisasm, target, [b"".join(code_of(kernel.cubin).values()) for kernel in some])
    return [(kernel, faults(listed) if listed else ["no code"]) for kernel, listed in zip(some, listings)]


def main(build, ptxas, nvdisasm, *targets):
    failed = 0
    for line in planted(build, ptxas, nvdisasm):
        failed += 1
        print(f"FAIL planted.ptx: {line}")
    made, errors = kernels.assembled(build, ptxas, list(targets) or None)
    for (graph, target), error in errors.items():
        failed += 1
        print(f"FAIL {graph}, {target}: {error}")
    for kernel in made:
        if kernel.status:
            failed += 1
            print(f"FAIL {kernel}: ptxas does not take it")
    calls = []
    for target in sorted({kernel.target for kernel in made}):
        some = [kernel for kernel in made if kernel.target == target and not kernel.status]
        calls += [(target, some[k : k + TOGETHER]) for k in range(0, len(some), TOGETHER)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda call: scan(nvdisasm, *call), calls)
        for kernel, found in (pair for result in results for pair in result):
            failed += bool(found)
            for line in found[:3]:
                print(f"FAIL {kernel}: {line}")
    print(f"{max(len(made) + 1 - failed, 0)} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
