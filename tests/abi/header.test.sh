#!/usr/bin/env bash
# gear.h by itself, under the strictest reading of each language, with every compiler at hand.
# ctest: Header.CompilesAloneAsC11 timeout=30 -- c c11
# ctest: Header.CompilesAloneAsCxx17 timeout=30 -- c++ c++17
set -euo pipefail
language=$1 standard=$2

compilers=("$CC")
[[ $language == c++ ]] && compilers=("$CXX")
other=clang
[[ $language == c++ ]] && other=clang++
command -v $other >/dev/null && compilers+=("$other")

for compiler in "${compilers[@]}"; do
  # Twice: the guard must hold.
  printf '#include "gear.h"\n#include "gear.h"\nint gear_header_is_not_empty;\n' |
    "$compiler" -x "$language" -std="$standard" -Wall -Wextra -Wpedantic -Werror \
                -fsyntax-only -I"$GEAR_SOURCE_DIR/include" -
  echo "$compiler -std=$standard: ok"
done
