#!/usr/bin/env python3
"""coverage.py EXPORT PARSERS ROOT PERCENT: line coverage of the parser files in llvm-cov's export; exit 1 below PERCENT."""
import json
import pathlib
import sys


def main() -> int:
    export, parsers, root, least = sys.argv[1:5]
    files = {}
    for entry in json.loads(pathlib.Path(export).read_text())["data"][0]["files"]:
        lines = entry["summary"]["lines"]
        files[entry["filename"]] = (lines["covered"], lines["count"])
    failed = False
    for line in pathlib.Path(parsers).read_text().splitlines():
        name = line.split("#")[0].strip()
        if not name:
            continue
        # A header is in several programs; the paths in the profile begin at the repository or at its root.
        found = [count for path, count in files.items() if path.endswith("/" + name)]
        if not found:
            print(f"{name}: in no fuzzer")
            failed = True
            continue
        covered, count = max(found)
        percent = 100.0 * covered / count
        low = percent < float(least)
        failed = failed or low
        print(f"{name}: {percent:.1f} % of {count} lines{', below ' + least + ' %' if low else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
