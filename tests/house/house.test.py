#!/usr/bin/env python3
"""The rules of floors.py hold here, and each of them can fail."""
# ctest: House.EachFileKeepsItsFloorAndNamesNoMachine timeout=20 -- this_tree
# ctest: House.PlantedViolationsAreCaught timeout=20 -- planted
# ctest: House.AllowedIncludesPass timeout=20 -- allowed

import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import floors  # noqa: E402

PLANTED = [
    # file, content, what the report must say
    ("lib/base/a.h", '#include "layout/b.h"\n', "above base"),
    ("lib/select/a.cc", '#include "gather/b.h"\n', "beside select"),
    ("lib/gather/a.cc", '#include "table/b.h"\n', "above gather"),
    ("lib/client/a.cc", '#include "server/conductor.h"\n', "beside client"),
    ("lib/client/a.cc", '#include "server/embedded_entry.h"\n', "beside client"),
    ("lib/client/embedded.cc", '#include "server/conductor.h"\n', "beside client"),
    ("lib/server/a.cc", '#include "client/session.h"\n', "beside server"),
    ("lib/server/a.cc", '#include "geard/options.h"\n', "above lib/"),
    ("lib/layout/a.h", '#include "../shm/b.h"\n', "climbs"),
    ("lib/attic/a.h", '#include "base/b.h"\n', "no floor"),
    ("lib/table/a.h", "#include <boost/interprocess/mapped_region.hpp>\n", "belongs to lib/shm"),
    ("lib/shm/a.h", "#include <boost/lockfree/queue.hpp>\n", "belongs to no room"),
    ("lib/client/a.cc", "#  include <liburing.h>\n", "belongs to lib/base or lib/server"),
    ("lib/server/a.cc", "#include <spdlog/spdlog.h>\n", "belongs to daemon"),
    ("docs/a.md", "see /" + "work/shared\n", "names a path"),
    ("scripts/a.sh", 'cat "/' + 'root/x"\n', "names a path"),
]
ALLOWED = [
    ("lib/base/a.h", "#include <linux/futex.h>\n#include <atomic>\n#include \"gear.h\"\n"),
    ("lib/base/uring.cc", "#include <liburing.h>\n"),
    ("lib/layout/a.h", '#include "base/b.h"\n#include "layout/c.h"\n#include "c.h"\n'),
    ("lib/server/a.cc", '#include "table/b.h"\n#include "shm/c.h"\n#include <liburing.h>\n'),
    ("lib/client/embedded.cc", '#include "server/embedded_entry.h"\n'),
    ("lib/shm/a.cc", "#include <boost/interprocess/mapped_region.hpp>\n#include <numa.h>\n"),
    ("daemon/geard/main.cc", '#include "server/b.h"\n#include <CLI/CLI.hpp>\n'),
    ("docs/a.md", "build/work/x, $HOME/root/y, https://example.org/work/z\n"),
]


def breaches_of(name, content):
    with tempfile.TemporaryDirectory() as root:
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return floors.check(root)[0]


def planted():
    failures = 0
    for name, content, wanted in PLANTED:
        breaches = breaches_of(name, content)
        if len(breaches) != 1 or wanted not in breaches[0]:
            failures += 1
            print(f"{name} with {content!r}: wanted one breach with {wanted!r}, got {breaches}")
    return failures


def allowed():
    failures = 0
    for name, content in ALLOWED:
        breaches = breaches_of(name, content)
        if breaches:
            failures += 1
            print(f"{name} with {content!r}: wanted none, got {breaches}")
    return failures


def this_tree():
    return floors.main([])


if __name__ == "__main__":
    sys.exit(1 if {"planted": planted, "allowed": allowed, "this_tree": this_tree}[sys.argv[1]]() else 0)
