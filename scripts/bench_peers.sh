#!/usr/bin/env bash
# bench_peers.sh ARGS...: environments for GEAR's peers in build/peers, then tests/bench/peers/run.py ARGS.
# A peer that cannot be installed is named and left out. Needs .venv with the binding (make bench-peers).
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(command -v python3.11 || command -v python3)
free_gib() { df -Pk build | awk 'NR == 2 { print int($4 / 1048576) }'; }

# install NAME GIB_NEEDED REQUIREMENT...: build/peers/NAME; `ready` in it says which requirements it has.
install() {
  local venv=build/peers/$1 need=$2
  shift 2
  [[ -f $venv/ready && $(<"$venv/ready") == "$*" ]] && return 0
  if (($(free_gib) < need)); then
    echo "${venv##*/}: left out: installing takes up to $need GiB, $(free_gib) GiB are free" >&2
    return 0
  fi
  echo "${venv##*/}: installing into $venv" >&2
  rm -rf "$venv"
  mkdir -p build/peers
  if "$python" -m venv "$venv" &&
     PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install -q --no-input "$@" >"$venv.log" 2>&1; then
    echo "$*" >"$venv/ready"
  else
    echo "${venv##*/}: left out: cannot be installed ($(grep -m1 -i error "$venv.log" 2>/dev/null ||
      echo "see $venv.log"))" >&2
  fi
}

mkdir -p build
install reverb 3 dm-reverb==0.14.0 tensorflow-cpu==2.15.1 'numpy<2'
install cpprb 1 cpprb 'numpy<2'
install torchrl 10 torchrl

exec "$python" tests/bench/peers/run.py "$@"
