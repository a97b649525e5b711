#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v clang-format >/dev/null; then
  echo "format: clang-format not found; run \`make setup\`" >&2
  exit 1
fi
git ls-files -z -- '*.c' '*.cc' '*.h' | xargs -0 -r clang-format -i --style=file
