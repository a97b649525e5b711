#!/usr/bin/env bash
# run.sh BUILD_FOLDER [TARGET...]: runs the libFuzzer programs of preset fuzz, FUZZ_SECONDS (600) each, JOBS (1) at a time, from the
# committed corpora; what is found on the way is kept in BUILD_FOLDER/fuzz. Prints executions and findings of each, then the line coverage
# of each parser file over all of them. Fails on a finding, and where a file is below 90 % unless targets are named. Exit 77 (skipped)
# where clang's tools are missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$1
shift
least_percent=90
seconds=${FUZZ_SECONDS:-600}
jobs=${JOBS:-1}
profdata=$(command -v llvm-profdata || command -v llvm-profdata-14 || true)
cov=$(command -v llvm-cov || command -v llvm-cov-14 || true)
if [ -z "$profdata" ] || [ -z "$cov" ]; then
  echo "skipped: llvm-profdata and llvm-cov are missing"
  exit 77
fi
targets=("$@")
some=$#  # 0: all, whose coverage is judged
if [ $# -eq 0 ]; then mapfile -t targets < <(cd "$here" && basename -s _fuzz.cc -- *_fuzz.cc); fi

run_one() {
  local name=$1 kept=$build/fuzz/$1 status=0
  mkdir -p "$kept/corpus"
  rm -f "$kept/fuzz.profraw"
  LLVM_PROFILE_FILE=$kept/fuzz.profraw "$build/tests/fuzz_$name" "$kept/corpus" "$here/corpus/$name" \
    -max_total_time="$seconds" -max_len=1000 -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$kept/" >"$kept/log" 2>&1 || status=$?
  echo $status >"$kept/status"
}

echo "fuzzing ${targets[*]}, $seconds s each, $jobs at a time"
for name in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  run_one "$name" &
done
wait

failed=0 objects=() profiles=()
for name in "${targets[@]}"; do
  kept=$build/fuzz/$name
  runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$kept/log")
  findings=$(find "$kept" -maxdepth 1 \( -name 'crash-*' -o -name 'timeout-*' -o -name 'oom-*' -o -name 'leak-*' \) | wc -l)
  echo "$name: ${runs:-0} executions, $findings findings"
  if [ "$(cat "$kept/status")" -ne 0 ] || [ "$findings" -ne 0 ]; then
    tail -n 40 "$kept/log"
    failed=1
  fi
  objects+=(-object "$build/tests/fuzz_$name")
  # One that found something ended without a profile.
  if [ -e "$kept/fuzz.profraw" ]; then profiles+=("$kept/fuzz.profraw"); fi
done

"$profdata" merge -sparse "${profiles[@]}" -o "$build/fuzz/all.profdata"
"$cov" export -summary-only -instr-profile="$build/fuzz/all.profdata" "${objects[@]}" >"$build/fuzz/coverage.json"
python3 "$here/coverage.py" "$build/fuzz/coverage.json" "$here/parsers.txt" "$root" $least_percent || [ "$some" -gt 0 ] || failed=1
[ $failed -eq 0 ] && echo "fuzz: PASS" || echo "fuzz: FAIL"
exit $failed
