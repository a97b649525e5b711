#!/usr/bin/env python3
"""Which tests show which numbered case of the semantics, read off the comments above the tests.

A test is of the cases named in the comment right above it: `SEMANTICS 9` or `SEMANTICS 17, 18`. The table between the two
markers of tests/README.md lists them; `semantics.py write` renews it.
"""
import pathlib
import re
import sys

CASES = range(1, 49)
BEGIN = "<!-- cases: begin -->"
END = "<!-- cases: end -->"

TAG = re.compile(r"SEMANTICS((?:\s*,?\s*\d+(?!\d*\^))+)")
DEFINITIONS = (
    re.compile(r"^GEAR_TEST(?:_WITH)?\((\w+)"),
    re.compile(r"^TEST(?:_P|_F)?\((\w+),\s*(\w+)"),
    re.compile(r"^def test_(\w+)"),
)
COMMENT = re.compile(r"^\s*(//|/\*|\*|#)")


def titled(words):
    return "".join(word.capitalize() for word in words.split("_"))


def name_of(path, match):
    if len(match.groups()) == 2:
        return f"{match.group(1)}.{match.group(2)}"
    if path.suffix == ".py":
        return f"Python.{titled(match.group(1))}"
    return f"{titled(path.stem)}.{match.group(1)}"


def tests_of(path):
    """(case, test) for every tag that stands in the comment above a test."""
    tagged = []
    for line in path.read_text().splitlines():
        definition = next(filter(None, (form.match(line) for form in DEFINITIONS)), None)
        if definition:
            for case in tagged:
                yield case, name_of(path, definition)
            tagged = []
        elif COMMENT.match(line):
            for numbers in TAG.findall(line):
                tagged += [int(number) for number in re.findall(r"\d+", numbers)]
        elif line.strip():
            tagged = []


def cases(root):
    found = {case: [] for case in CASES}
    paths = [*root.glob("tests/**/*.c"), *root.glob("tests/**/*.cc"),
             *root.glob("bindings/python/tests/*.py")]
    for path in sorted(paths):
        for case, test in tests_of(path):
            if case in found and test not in found[case]:
                found[case].append(test)
    return found


def table(found):
    lines = ["| case | tests |", "|---|---|"]
    for case, tests in found.items():
        lines.append(f"| {case} | {', '.join(sorted(tests))} |")
    return "\n".join(lines)


def missing(found):
    return [case for case, tests in found.items() if not tests]


def split(text):
    before, rest = text.split(BEGIN)
    between, after = rest.split(END)
    return before, between.strip(), after


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    readme = root / "tests" / "README.md"
    found = cases(root)
    if missing(found):
        sys.exit(f"no test is of case {', '.join(map(str, missing(found)))}")
    before, between, after = split(readme.read_text())
    if sys.argv[1:] == ["write"]:
        readme.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{after}")
    elif between != table(found):
        sys.exit("tests/README.md does not list the tests as they are; run tests/house/semantics.py write")
    print(f"{len(found)} of {len(CASES)} cases have tests")


if __name__ == "__main__":
    main()
