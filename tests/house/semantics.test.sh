#!/bin/sh
# ctest: House.ReadmeListsTheTestsOfEveryCase timeout=30
exec python3 "$(dirname "$0")/semantics.py"
