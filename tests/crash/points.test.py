#!/usr/bin/env python3
# ctest: CrashPoints.Begin timeout=10 -- begin
# ctest: CrashPoints.EveryPlaceThatStoresWasADeath timeout=30 -- judge
"""Every place in lib/ that stores to shared memory must have been the last that some process did in tests/crash.

ctest runs `begin` before the programs of tests/crash, which append a line a death ("lib/folder/file:line program") to the
file, and `judge` after all of them. A place is a line with publish(, publish_change( or note( (base/shared_word.h).
"""

import collections
import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(os.environ["GEAR_SOURCE_DIR"])
DEATHS = pathlib.Path(os.environ["GEAR_BUILD_DIR"]) / "tests" / "crash_deaths.txt"
STORE = re.compile(r"(?<![\w.])(note|publish|publish_change)\(")
RAW = re.compile(r"__atomic_(store|exchange|compare_exchange|fetch_)\w*\(")

# A reader's copy into its own memory, which no other process reads.
OWN_MEMORY = {"lib/gather/copy_payload.cc"}


def places():
    """(file, first line, last line, code) of each call, and texts about stores that are not by these helpers."""
    found, raw = [], []
    for path in sorted(SOURCE.glob("lib/*/*.cc")) + sorted(SOURCE.glob("lib/*/*.h")):
        name = str(path.relative_to(SOURCE))
        if name.startswith("lib/base/"):
            continue
        lines = [line.split("//")[0] for line in path.read_text().splitlines()]
        for number, code in enumerate(lines, 1):
            if RAW.search(code) and name not in OWN_MEMORY:
                raw.append(f"{name}:{number} stores past base/shared_word.h: {code.strip()}")
            if not STORE.search(code):
                continue
            last = number
            while ";" not in lines[last - 1]:
                last += 1
            found.append((name, number, last, " ".join(lines[number - 1:last]).strip()))
    return found, raw


def judge():
    deaths = collections.Counter()
    programs = collections.defaultdict(collections.Counter)
    for line in DEATHS.read_text().splitlines():
        place, program = line.split()
        deaths[place] += 1
        programs[program][place] += 1
    known, faults = places()
    met = 0
    covered = set()
    for name, first, last, code in known:
        own = [f"{name}:{line}" for line in range(first, last + 1)]
        covered.update(own)
        count = sum(deaths[place] for place in own)
        if count == 0:
            faults.append(f"{own[0]}: no process died there: {code}")
        met += count > 0
        print(f"{count:9d}  {own[0]}")
    faults += [f"{place}: a process died there, and no call is on that line" for place in deaths
               if place.startswith("lib/") and place not in covered]
    for program in sorted(programs):
        print(f"{program}: {len(programs[program])} places, {sum(programs[program].values())} deaths")
    print(f"crash points: {met} of {len(known)} places exercised, {sum(deaths.values())} deaths")
    for fault in faults:
        print("FAIL:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["begin"]:
        DEATHS.parent.mkdir(parents=True, exist_ok=True)
        DEATHS.write_text("")
    else:
        sys.exit(judge())
