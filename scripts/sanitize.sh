#!/usr/bin/env bash
# sanitize.sh [jobs]: asan over everything that is not slow, then tsan over the tests labelled for it.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-2}

# TSan's fixed shadow layout collides with the wide ASLR of recent kernels.
fixed_layout=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_layout=(setarch "$(uname -m)" -R); fi

say() { echo "sanitize: $*"; }
say "address, undefined: all but what is labelled slow (chaos, faults of system calls). Skipped, and said so by each, is what"
say "loads libgear.so into a program built without them (python and ctypes, julia, rust), and what limits or locks memory."
say "thread: what is labelled tsan. It sees a race where threads share one mapping; two mappings of a segment are two memories to it."
for preset in asan tsan; do
  cmake --preset "$preset"
  "${fixed_layout[@]}" cmake --build --preset "$preset" -j"$jobs"
  "${fixed_layout[@]}" ctest --preset "$preset" -j"$jobs"
done
