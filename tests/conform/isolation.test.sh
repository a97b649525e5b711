#!/usr/bin/env bash
# The conformance suite over tables whose writers have parts of their own.
# ctest: Conform.HoldsForTablesWhoseWritersHaveParts labels=conform timeout=300
set -euo pipefail
export GEAR_CONFORM_ISOLATION=1
count=0 isolated=0
for program in "$GEAR_BUILD_DIR"/tests/conform_*; do
  [[ -f $program && -x $program ]] || continue
  for name in $("$program" --list); do
    if ! output=$("$program" --run "$name" 2>&1); then
      echo "$program --run $name"
      echo "$output"
      exit 1
    fi
    count=$((count + 1))
    if [[ $output == *isolated* ]]; then isolated=$((isolated + 1)); fi
  done
done
echo "$count cases, $isolated of them with tables whose writers have parts"
((count > 300 && isolated > 200))
