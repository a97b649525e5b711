#!/usr/bin/env bash
# python_env.sh [base|all]
#
#   base   .venv with what the binding's build, its tests and the demo need from PyPI
#   all    (default) base, then the binding itself, built against build/$PRESET/libgear.so
#
# Does nothing when nothing changed. Exit 3: PyPI cannot be reached, so callers may skip Python.
set -euo pipefail
cd "$(dirname "$0")/.."

stage=${1:-all}
build=$PWD/build/${PRESET:-release}
binding=bindings/python
venv=.venv
stamps=$venv/stamps

# One at a time: make and ctest may both ask.
exec 9>.venv.lock
flock 9

say() { echo "python: $*" >&2; }

# Debian's own interpreter first: a version manager's shim may be a python without headers.
python=/usr/bin/python3
[[ -x $python ]] || python=$(command -v python3) || { say "no python3; run scripts/setup.sh"; exit 1; }

# hash_of FILES...: contents of those that exist.
hash_of() { { for file; do [[ -f $file ]] && sha256sum "$file"; done; "$python" -V; } | sha256sum; }
fresh() { [[ -f $stamps/$1 && $(<"$stamps/$1") == "$2" ]]; }

# pip_install ARGS...: exit 3 when the network is to blame, 1 when the package is.
pip_install() {
  local log=$venv/pip.log
  if PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install -q --no-input \
       --retries 1 --timeout 20 "$@" >"$log" 2>&1 </dev/null; then
    return 0
  fi
  if grep -qE 'NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|Temporary failure|Connection (refused|reset|broken)|Max retries exceeded' "$log"; then
    say "PyPI cannot be reached; the Python binding, its tests and the demo are skipped"
    exit 3
  fi
  cat "$log" >&2
  exit 1
}

[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
mkdir -p "$stamps"

# The binding is built without isolation, from tools installed once, so a rebuild needs no network.
base_inputs=($binding/pyproject.toml $binding/requirements*.txt)
base_hash=$(hash_of "${base_inputs[@]}")
if ! fresh base "$base_hash"; then
  wanted=()
  for file in $binding/requirements*.txt; do [[ -f $file ]] && wanted+=(-r "$file"); done
  if [[ -f $binding/pyproject.toml ]]; then
    mapfile -t tools < <("$python" -c '
import sys, tomllib
print(*tomllib.load(open(sys.argv[1], "rb")).get("build-system", {}).get("requires", []), sep="\n")
' $binding/pyproject.toml)
    wanted+=("${tools[@]}" pytest)
  fi
  if ((${#wanted[@]})); then
    say "installing into .venv from PyPI"
    pip_install "${wanted[@]}"
  fi
  echo "$base_hash" >"$stamps/base"
fi
[[ $stage == base ]] && exit 0

if [[ ! -f $binding/pyproject.toml ]]; then
  say "$binding/pyproject.toml is missing; no binding to install"
  exit 0
fi
if [[ ! -f $build/libgear.so ]]; then
  say "$build/libgear.so is missing; run \`make build\` first"
  exit 1
fi

mapfile -t sources < <(find "$binding" -type f \( -path '*/src/*' -o -path '*/gear/*' \
                         -o -name CMakeLists.txt -o -name pyproject.toml -o -name '*.cc' \) \
                         ! -path '*/__pycache__/*' ! -path '*/build/*' | sort)
# The symbols and not the library's bytes: the binding links it and need not follow each rebuild.
binding_hash=$(hash_of "${sources[@]}" include/gear.h; echo "$build")
if ! fresh binding "$binding_hash"; then
  say "building the binding"
  pip_install --no-build-isolation --no-deps --force-reinstall "./$binding" \
    --config-settings=cmake.define.GEAR_INCLUDE_DIR="$PWD/include" \
    --config-settings=cmake.define.GEAR_LIBRARY="$build/libgear.so" \
    --config-settings=cmake.define.CMAKE_INSTALL_RPATH="$build" \
    --config-settings=build-dir="$build/python"
  echo "$binding_hash" >"$stamps/binding"
fi
