#!/usr/bin/env bash
# The short form of make chaos.
# ctest: Chaos.NothingTornLostOrStuck labels=stress,slow timeout=300 serial
set -euo pipefail
# A machine that is shared asserts no time: calls that took long are printed here, and fail only make chaos.
export CHAOS_TIMES=report
CHAOS_SECONDS=${CHAOS_SECONDS:-60} "$GEAR_BUILD_DIR/gear_chaos" "$GEAR_BUILD_DIR/geard"
