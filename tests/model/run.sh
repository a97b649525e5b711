#!/usr/bin/env bash
# run.sh [MODEL...]: checks the models beside it, or those named, with spin: the model itself must hold in every state, each of
# its mutants must fail. Prints the states explored and the mutants caught. Exit 77 (skipped) where spin or a C compiler is
# missing. A verifier has 2 GiB.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for tool in spin "${CC:-gcc}"; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: $tool is missing"
    exit 77
  fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# verify MODEL MUTANT: the verifier's report. -DSAFETY: assertions and invalid end states (deadlock is a lost wake-up).
verify() {
  rm -f pan*
  spin -DMUTANT="$2" -a "$1" >spin.log
  # shellcheck disable=SC2046
  "${CC:-gcc}" -O1 -w -DSAFETY $(grep -q "^ \* pan: reduced" "$1" || echo -DNOREDUCE) -DMEMLIM=2000 -o pan pan.c
  ./pan -m100000 -w22 $(sed -n 's/^ \* pan options: \(-[A-Za-z]*\).*/\1/p' "$1") || true
}
errors_of() { sed -n 's/.*errors: \([0-9]*\).*/\1/p' <<<"$1"; }
states_of() { sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' <<<"$1" | head -n 1; }
complete() { ! grep -qE 'max search depth too small|Search not completed|out of memory|memory limit' <<<"$1"; }

failed=0
models=("$@")
if [ $# -eq 0 ]; then mapfile -t models < <(cd "$here" && basename -s .pml -- *.pml); fi
for name in "${models[@]}"; do
  model=$here/$name.pml
  report=$(verify "$model" 0)
  if [ "$(errors_of "$report")" = 0 ] && complete "$report"; then
    echo "$name: holds, $(states_of "$report") states explored"
  else
    echo "$name: FAILS"
    echo "$report"
    failed=1
  fi
  mutants=$(sed -n 's/^# *\(el\)\{0,1\}if MUTANT [!=]= \([0-9]*\).*/\2/p' "$model" | sort -un)
  caught=0 count=0
  for mutant in $mutants; do
    count=$((count + 1))
    report=$(verify "$model" "$mutant")
    if [ "$(errors_of "$report")" = 1 ]; then
      caught=$((caught + 1))
    else
      echo "$name: mutant $mutant is NOT caught"
      failed=1
    fi
  done
  echo "$name: $caught of $count mutants caught"
done
exit $failed
