#!/usr/bin/env python3
"""The man pages say what there is: a function, status, option or key that is added and not told is caught here."""
# ctest: Man.PagesAreGoodScdoc -- scdoc
# ctest: Man.HeaderPageNamesEveryFunctionAndStatus -- header
# ctest: Man.GeardPageNamesEveryOption -- geard
# ctest: Man.GearctlPageNamesEveryOption -- gearctl

import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import assert_equal  # noqa: E402

PAGES = os.path.join(harness.SOURCE, "docs", "man")


def page(name):
    return harness.read_file(os.path.join(PAGES, name))


def missing(words, text):
    bold = {word.strip() for word in re.findall(r"\*([^*\n]+)\*", text)}
    return sorted(set(words) - bold)


def options_of(*command):
    return re.findall(r"(--[a-z][a-z-]+)", harness.run(*command, "--help").stdout.split("\nOptions:")[1]
                      .split("\n\n")[0])


def scdoc(place):
    if not shutil.which("scdoc"):
        raise harness.Skip("no scdoc; apt-get install scdoc")
    names = [name for name in os.listdir(PAGES) if name.endswith(".scd")]
    assert names
    for name in names:
        answer = subprocess.run(["scdoc"], input=page(name), capture_output=True, text=True,
                                check=False)
        assert_equal((name, answer.returncode, answer.stderr), (name, 0, ""))


def header(place):
    text = harness.read_file(os.path.join(harness.SOURCE, "include", "gear.h"))
    functions = re.findall(r"^GEAR_API [^(]*?\b(gear_\w+)\(", text, re.MULTILINE)
    statuses = re.findall(r"^  (GEAR_E?[A-Z]+) = -?\d+,? ", text, re.MULTILINE)
    statuses = [name for name in statuses if name.startswith("GEAR_E")]
    assert len(functions) > 40 and len(statuses) > 30, (len(functions), len(statuses))
    assert_equal(missing(functions + statuses, page("gear.h.3.scd")), [])


def geard(place):
    assert_equal(missing(options_of(harness.GEARD), page("geard.8.scd")), [])


def gearctl(place):
    options = options_of(harness.GEARCTL) + options_of(harness.GEARCTL, "table", "create")
    options += options_of(harness.GEARCTL, "table", "set")
    commands = re.findall(r"^  ([a-z-]+)  ", harness.run(harness.GEARCTL, "table", "--help").stdout, re.MULTILINE)
    assert len(commands) > 7, commands
    bold = re.findall(r"\*([^*\n]+)\*", page("gearctl.1.scd"))
    assert_equal([name for name in commands if "table " + name not in bold], [])
    assert_equal(missing(set(options) - {"--help"}, page("gearctl.1.scd")), [])
    # What gearctl takes as an option, geard takes as a key.
    keys = {option[2:].replace("-", "_") for option in options_of(harness.GEARCTL, "table", "create")}
    keys -= {"help", "capacity", "column", "selector", "json", "endpoint", "version"}
    assert_equal(missing(keys, page("geard.8.scd")), [])


harness.main(globals())
