#!/bin/sh
# Shows that tests can fail: applies planted mutations one by one in a scratch copy of the sources, builds the test named
# beside each, and expects it to fail. Not part of ctest.
#
#   tests/mutations/try.sh             all mutations of all lists
#   tests/mutations/try.sh NAME...     these
#
# Lists are tests/mutations/*.tsv: name, file, sed expression, test target, test (tab-separated). The scratch copy is
# build/mutations; it is kept, so that a second run builds little. JOBS sets how many compile at once.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$here/build/mutations
mkdir -p "$scratch/source"
tab=$(printf '\t')

fresh_copy() {
  # Only what differs is touched, so that the build stays incremental.
  (cd "$here" && git ls-files) | while IFS= read -r path; do
    cmp -s "$here/$path" "$scratch/source/$path" && continue
    mkdir -p "$(dirname "$scratch/source/$path")"
    cp "$here/$path" "$scratch/source/$path"
  done
}

run_test() { # target, test
  binary=$scratch/build/tests/$1
  case $1 in
    unit_*|stress_*) timeout 300 "$binary" --gtest_filter="$2" > "$scratch/output" 2>&1 ;;
    *) timeout 300 "$binary" --run "$2" > "$scratch/output" 2>&1 ;;
  esac
}

try() { # name, file, expression, target, test
  fresh_copy
  sed -i.before "$3" "$scratch/source/$2"
  if cmp -s "$scratch/source/$2" "$scratch/source/$2.before"; then
    rm "$scratch/source/$2.before"
    echo "STALE    $1: the expression changes nothing in $2"
    return 1
  fi
  rm "$scratch/source/$2.before"
  if ! ninja -C "$scratch/build" -j "${JOBS:-2}" "$4" > "$scratch/ninja.log" 2>&1; then
    echo "BROKEN   $1: does not build, see build/mutations/ninja.log"
    return 1
  fi
  if run_test "$4" "$5"; then
    echo "SURVIVED $1: $5 passes all the same"
    return 1
  fi
  echo "killed   $1 by $5"
}

fresh_copy
[ -e "$scratch/build/build.ninja" ] ||
  cmake -S "$scratch/source" -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=Release > "$scratch/cmake.log"
failed=0
tried=0
for list in "$here"/tests/mutations/*.tsv; do
  while IFS=$tab read -r name file expression target test; do
    case $name in '#'* | '') continue ;; esac
    if [ $# -gt 0 ]; then
      wanted=no
      for each; do [ "$each" = "$name" ] && wanted=yes; done
      [ $wanted = yes ] || continue
    fi
    tried=$((tried + 1))
    try "$name" "$file" "$expression" "$target" "$test" < /dev/null || failed=$((failed + 1))
  done < "$list"
done
echo "$tried mutations tried, $failed not killed"
[ $failed -eq 0 ] && [ $tried -gt 0 ]
