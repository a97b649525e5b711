#!/usr/bin/env bash
# sanitize.sh [jobs]: asan over everything that is not slow, then tsan over the tests labelled for it.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-2}

# TSan's fixed shadow layout collides with the wide ASLR of recent kernels.
fixed_layout=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_layout=(setarch "$(uname -m)" -R); fi

for preset in asan tsan; do
  cmake --preset "$preset"
  "${fixed_layout[@]}" cmake --build --preset "$preset" -j"$jobs"
  "${fixed_layout[@]}" ctest --preset "$preset" -j"$jobs"
done
