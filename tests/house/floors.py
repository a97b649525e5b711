#!/usr/bin/env python3
"""House rules that a compiler does not check. Standard library only.

    floors.py [ROOT]     check a tree; exit 1 when a rule is broken

A file under lib/ or daemon/ includes from its own room and from rooms on lower floors. Rooms of one
floor do not know each other. A third-party header is included only in the room that owns it.
"""

import os
import re
import subprocess
import sys

FLOORS = [
    ["base"],
    ["layout"],
    ["shm", "select", "limit", "gather", "transport", "tier", "module"],
    ["table", "store", "federation"],
    ["server", "client"],
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# Embedded mode joins client and server through this one door.
DOORS = {("lib/client/embedded.cc", "server/embedded_entry.h")}

# Header prefix -> the directories that own it. `boost/` is last: what is not named has no owner.
OWNERS = [
    ("boost/interprocess/", ["lib/shm"]),
    ("boost/", []),
    ("liburing", ["lib/base", "lib/server"]),
    ("numa.h", ["lib/shm"]),
    ("numaif.h", ["lib/shm"]),
    ("infiniband/", ["lib/transport"]),
    ("rdma/", ["lib/transport"]),
    ("cuda", ["kernels"]),
    ("spdlog/", ["daemon"]),
    ("fmt/", ["daemon"]),
    ("CLI/", ["daemon"]),
    ("toml++/", ["daemon"]),
    ("nlohmann/", ["daemon"]),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
# Someone's checkout or home at the start of a path; "home/root/" in its middle is not one.
MACHINE_PATH = re.compile(r"(?<![\w.~}$/-])/(?:work|root)/")
LINES_MAX = 600
SOURCE_SUFFIXES = (".h", ".cc", ".c", ".cu", ".py")


def files_of(root):
    """Tracked files and those about to be; every file where git knows nothing."""
    try:
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
            check=True, capture_output=True).stdout.decode()
        files = [name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        files = [os.path.relpath(os.path.join(folder, name), root)
                 for folder, _, names in os.walk(root) for name in names]
        files = [name for name in files
                 if not name.startswith(("build/", ".git/", ".venv/"))]
    return sorted(name for name in files if os.path.isfile(os.path.join(root, name)))


def text_of(root, name):
    try:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        return None


def includes_of(text):
    """Yields (line number, header); gives the same answer for <> and ""."""
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(2)


def owner_breach(name, header):
    for prefix, owners in OWNERS:
        if header.startswith(prefix):
            if any(name.startswith(owner + "/") for owner in owners):
                return None
            where = " or ".join(owners) or "no room under lib/ or daemon/"
            return f"<{header}> belongs to {where}"
    return None


def floor_breach(name, header):
    """The rule that `name` breaks by including `header`, or None."""
    if name.startswith("lib/") and header.startswith(("common/", "geard/", "gearctl/", "daemon/")):
        return f'"{header}" is on the floor of daemon, above lib/'
    if not name.startswith("lib/"):
        return None
    room, other = name.split("/")[1], header.split("/")[0]
    if room not in FLOOR_OF:
        return f"lib/{room} has no floor; give it one in FLOORS"
    if "/" not in header or other not in FLOOR_OF or room == other or (name, header) in DOORS:
        return None
    if FLOOR_OF[other] < FLOOR_OF[room]:
        return None
    relation = "beside" if FLOOR_OF[other] == FLOOR_OF[room] else "above"
    return f'"{header}" is {relation} {room}, not below it'


def check(root):
    """Returns (breaches, warnings), each a list of 'file:line: rule'."""
    breaches, warnings = [], []
    for name in files_of(root):
        text = text_of(root, name)
        if text is None:
            continue
        for match in MACHINE_PATH.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            breaches.append(f"{name}:{line}: names a path of one machine ({match.group()}...)")
        if name.endswith(SOURCE_SUFFIXES):
            lines = text.count("\n")
            if lines > LINES_MAX:
                warnings.append(f"{name}: {lines} lines; over {LINES_MAX}, is it one noun?")
        if not name.startswith(("lib/", "daemon/")) or not name.endswith((".h", ".cc")):
            continue
        for line, header in includes_of(text):
            if ".." in header.split("/"):
                breaches.append(f"{name}:{line}: \"{header}\" climbs out of its room by ..")
            for breach in (floor_breach(name, header), owner_breach(name, header)):
                if breach:
                    breaches.append(f"{name}:{line}: {breach}")
    return breaches, warnings


def main(arguments):
    here = os.path.dirname(os.path.abspath(__file__))
    root = arguments[0] if arguments else os.path.join(here, "..", "..")
    breaches, warnings = check(os.path.normpath(root))
    for text in warnings:
        print("warning:", text)
    for text in breaches:
        print("error:", text)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
