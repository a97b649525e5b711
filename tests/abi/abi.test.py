#!/usr/bin/env python3
"""The baseline holds, and the comparison can fail."""
# ctest: Abi.LibraryKeepsWhatTheBaselinePromises -- library
# ctest: Abi.ConstantsKeepTheirValues timeout=10 -- constants
# ctest: Abi.BreakingChangesAreCaughtAndGrowthPasses -- planted

import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import abi  # noqa: E402

ROOT = os.environ.get("GEAR_SOURCE_DIR", os.path.join(HERE, "..", ".."))
SKIPPED = 77

HEADER = """#include <stdint.h>
#define GEAR_API __attribute__((visibility("default")))
typedef enum gear_e {{ GEAR_A = 0, GEAR_B = 1{enum} }} gear_e;
typedef struct gear_point {{ int x; {point} }} gear_point;
typedef struct gear_call_options {{ uint32_t struct_size; int a; {options} }} gear_call_options;
extern "C" {{ GEAR_API int gear_call(const gear_call_options*, gear_e, {parameter} const gear_point*);
GEAR_API int gear_{second}(int); }}
"""
SOURCE = """#include "gear.h"
#include <string>
namespace gear {{ std::string inside() {{ return "hidden"; }} }}
int gear_call(const gear_call_options*, gear_e, {parameter} const gear_point*) {{ return 0; }}
int gear_{second}(int x) {{ return x; }}
{extra}
"""
PLAIN = {"enum": "", "point": "int y;", "options": "int b;", "parameter": "", "second": "second",
         "extra": ""}
# name, what differs from PLAIN, whether it breaks the ABI
CHANGES = [
    ("nothing", {}, False),
    ("a new function", {"extra": 'extern "C" GEAR_API int gear_new() { return 1; }'}, False),
    ("a new enumerator", {"enum": ", GEAR_C = 2"}, False),
    ("a field at the end of options", {"options": "int b; int c;"}, False),
    ("a wide field at the end of options", {"options": "int b; int64_t c;"}, False),
    ("a field of another type", {"options": "int64_t b;"}, True),
    ("a field of another type and one more", {"options": "float b; int c;"}, True),
    ("a field in the middle", {"options": "int c; int b;"}, True),
    ("a field gone", {"options": ""}, True),
    ("a plain struct that grows", {"point": "int y; int z;"}, True),
    ("one more parameter", {"parameter": "int timeout,"}, True),
    ("a function gone", {"second": "other"}, True),
]


def have_tools():
    if shutil.which("abidw") and shutil.which("abidiff"):
        return True
    print("skipped: abidw and abidiff not found; apt-get install abigail-tools")
    return False


def report(breaches):
    for breach in breaches:
        print("error:", breach)
    if breaches:
        print("keep the old form; if the change is meant, run `make abi-baseline` and commit the result")
    return 1 if breaches else 0


def baseline_file(name):
    path = os.path.join(HERE, name)
    if not os.path.exists(path):
        sys.exit(f"tests/abi/{name} is missing; run `make abi-baseline` and commit it")
    return path


def library():
    build, kind = os.environ["GEAR_BUILD_DIR"], os.environ["GEAR_BUILD_TYPE"]
    sanitize = os.environ.get("GEAR_SANITIZE", "")
    if not have_tools():
        return SKIPPED
    if kind != "RelWithDebInfo" or sanitize:
        print(f"skipped: the baseline describes the release build, this is {kind} {sanitize}")
        return SKIPPED
    baseline = baseline_file("libgear.abi")
    with tempfile.TemporaryDirectory() as folder:
        current = os.path.join(folder, "current.abi")
        abi.dump(os.path.join(ROOT, "include"), os.path.join(build, "libgear.so"), current)
        return report(abi.abi_breaches(baseline, current))


def constants():
    now = abi.constants_of(os.path.join(ROOT, "include", "gear.h"))
    return report(abi.constant_breaches(abi.read_constants(baseline_file("constants.txt")), now))


def build_dump(folder, change, output):
    words = PLAIN | change
    for name, text in (("gear.h", HEADER), ("gear.cc", SOURCE)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text.format(**words))
    subprocess.run([os.environ.get("CXX", "c++"), "-g", "-shared", "-fPIC", "-fvisibility=hidden",
                    "gear.cc", "-o", "libgear.so"], cwd=folder, check=True)
    abi.dump(folder, os.path.join(folder, "libgear.so"), output)


def planted():
    if not have_tools():
        return SKIPPED
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        before, after = os.path.join(folder, "before.abi"), os.path.join(folder, "after.abi")
        build_dump(folder, {}, before)
        for name, change, breaks in CHANGES:
            build_dump(folder, change, after)
            breaches = abi.abi_breaches(before, after)
            if bool(breaches) != breaks:
                failures += 1
                print(f"{name}: wanted {'a breach' if breaks else 'none'}, got {breaches}")
    if not abi.constant_breaches({"GEAR_A": 1, "GEAR_B": 2}, {"GEAR_A": 1, "GEAR_B": 3}):
        failures += 1
        print("a constant of another value: wanted a breach, got none")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit({"library": library, "constants": constants, "planted": planted}[sys.argv[1]]())
