#!/usr/bin/env python3
"""The ABI only grows: what the committed baseline promises, a later build still keeps.

    abi.py baseline ROOT LIBRARY    write tests/abi/libgear.abi and constants.txt of ROOT

The baseline is what abidw tells of the exported functions and the types they reach, and the numbers
that gear.h gives to names, which no debug information holds. Allowed are new functions, new constants,
and new fields at the end of a struct that begins with struct_size.
"""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

CONSTANT = re.compile(r"^\s*(?:#\s*define\s+)?(GEAR_[A-Z0-9_]+)\s*(?:=\s*|\s)"
                      r"\(?(-?(?:0[xX])?[0-9a-fA-F]+)[uUlL]*\)?\s*(?:[,/]|$)", re.MULTILINE)


def dump(include, library, output):
    """Without any path of this machine, and no type that only the inside of the library sees."""
    subprocess.run(
        ["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed",
         "--exported-interfaces-only", "--drop-private-types", "--type-id-style", "hash",
         "--headers-dir", include, "--out-file", output, library], check=True)


def constants_of(header):
    """{name: value} of enumerators and numeric macros; the version may change."""
    with open(header, encoding="utf-8") as file:
        return {name: int(value, 0) for name, value in CONSTANT.findall(file.read())
                if not name.startswith("GEAR_VERSION_")}


def structs_of(abi):
    """{name: (size in bits, [(member, offset in bits, type)])} of an abidw file."""
    structs = {}
    for node in ElementTree.parse(abi).iter("class-decl"):
        if node.get("name") and node.get("is-declaration-only") != "yes":
            members = [(member.find("var-decl").get("name"), member.get("layout-offset-in-bits"),
                        member.find("var-decl").get("type-id"))
                       for member in node.findall("data-member")]
            structs[node.get("name")] = (node.get("size-in-bits"), members)
    return structs


def struct_breaches(baseline, current):
    """abidiff cannot both allow growth at the end and refuse a changed field, so this does."""
    breaches = []
    now = structs_of(current)
    for name, (size, members) in structs_of(baseline).items():
        if name not in now:
            breaches.append(f"struct {name} is gone")
            continue
        size_now, members_now = now[name]
        grows = members and members[0][0] == "struct_size"
        if not grows and (size, members) != (size_now, members_now):
            breaches.append(f"struct {name} changed, and has no struct_size to tell callers apart")
        for member, member_now in zip(members, members_now + [None] * len(members)):
            if grows and member != member_now:
                breaches.append(f"struct {name}: {member[0]} moved, changed its type or is gone")
    return breaches


def constant_breaches(baseline, current):
    return [f"{name} was {value}, is {current.get(name, 'gone')}"
            for name, value in baseline.items() if current.get(name) != value]


def abi_breaches(baseline, current):
    here = os.path.dirname(os.path.abspath(__file__))
    diff = subprocess.run(
        ["abidiff", "--no-added-syms", "--suppressions", os.path.join(here, "allowed.suppr"),
         baseline, current], capture_output=True, text=True, check=False)
    breaches = struct_breaches(baseline, current)
    # Any change left counts: the "incompatible" bit alone would let a struct change its size.
    if diff.returncode:
        breaches.append(f"abidiff ({diff.returncode}):\n{diff.stdout}{diff.stderr}")
    return breaches


def read_constants(path):
    with open(path, encoding="utf-8") as file:
        return {name: int(value) for name, value in (line.split() for line in file)}


def write_baseline(root, library):
    folder = os.path.join(root, "tests", "abi")
    include = os.path.join(root, "include")
    dump(include, library, os.path.join(folder, "libgear.abi"))
    with open(os.path.join(folder, "constants.txt"), "w", encoding="utf-8") as file:
        for name, value in sorted(constants_of(os.path.join(include, "gear.h")).items()):
            file.write(f"{name} {value}\n")
    print("tests/abi/libgear.abi and constants.txt written; commit them with the change that needs them")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] != "baseline":
        sys.exit(__doc__)
    write_baseline(sys.argv[2], sys.argv[3])
