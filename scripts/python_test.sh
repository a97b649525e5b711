#!/usr/bin/env bash
# python_test.sh FILE NAME: one pytest case with the binding of .venv; 77 (skipped) where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! .venv/bin/python -c 'import gear, pytest' 2>/dev/null; then
  echo "skipped: .venv has no binding or no pytest; scripts/python_env.sh makes both, given PyPI"
  exit 77
fi
exec .venv/bin/python -m pytest -q -p no:cacheprovider "$1::$2"
