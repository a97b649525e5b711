#!/usr/bin/env bash
# languages.test.sh READER WRITER: WRITER's client appends to a table of a running geard, READER's client, attached by
# the same handle, checks every cell of it.
# ctest: Abi.CReadsWhatCxxWrote -- c cpp
# ctest: Abi.CReadsWhatRustWrote -- c rust
# ctest: Abi.CReadsWhatJuliaWrote timeout=300 -- c julia
# ctest: Abi.CxxReadsWhatCWrote -- cpp c
# ctest: Abi.CxxReadsWhatRustWrote -- cpp rust
# ctest: Abi.CxxReadsWhatJuliaWrote timeout=300 -- cpp julia
# ctest: Abi.RustReadsWhatCWrote -- rust c
# ctest: Abi.RustReadsWhatCxxWrote -- rust cpp
# ctest: Abi.RustReadsWhatJuliaWrote timeout=300 -- rust julia
# ctest: Abi.JuliaReadsWhatCWrote timeout=300 -- julia c
# ctest: Abi.JuliaReadsWhatCxxWrote timeout=300 -- julia cpp
# ctest: Abi.JuliaReadsWhatRustWrote timeout=300 -- julia rust
set -euo pipefail
reader=$1 writer=$2
here=$GEAR_SOURCE_DIR/tests/abi
steps=200
declare -A number=([c]=1 [cpp]=2 [rust]=3 [julia]=4)

skip() { echo "skipped: $*"; exit 77; }

bin=$GEAR_BUILD_DIR/tests/languages
mkdir -p "$bin"
# One at a time: ctest may run two cases that want the same client.
exec 9>"$bin/lock"
flock 9

strict=(-Wall -Wextra -Wpedantic -Werror -O1)
link=("-I$GEAR_SOURCE_DIR/include" "-L$GEAR_BUILD_DIR" "-Wl,-rpath,$GEAR_BUILD_DIR" -lgear)
[[ -n ${GEAR_SANITIZE:-} ]] && strict+=("-fsanitize=$GEAR_SANITIZE")

# fresh CLIENT SOURCE: nothing to compile.
fresh() { [[ $1 -nt $2 && $1 -nt $GEAR_SOURCE_DIR/include/gear.h ]]; }

prepare_c() {
  fresh "$bin/c" "$here/c_client.c" && return
  "$CC" -std=c11 "${strict[@]}" "$here/c_client.c" "${link[@]}" -o "$bin/c"
}
prepare_cpp() {
  fresh "$bin/cpp" "$here/cpp_client.cc" && return
  "$CXX" -std=c++17 "${strict[@]}" "$here/cpp_client.cc" "${link[@]}" -o "$bin/cpp"
}
prepare_rust() {
  [[ -n ${GEAR_SANITIZE:-} ]] && skip "rustc links no $GEAR_SANITIZE runtime"
  command -v rustc >/dev/null || skip "no rustc in PATH; apt-get install rustc"
  fresh "$bin/rust" "$here/rust_client.rs" && return
  rustc --edition 2021 -D warnings -O "$here/rust_client.rs" -L "$GEAR_BUILD_DIR" -l dylib=gear \
        -C "link-arg=-Wl,-rpath,$GEAR_BUILD_DIR" -o "$bin/rust"
}
prepare_julia() {
  [[ -n ${GEAR_SANITIZE:-} ]] && skip "julia loads no library with $GEAR_SANITIZE"
  julia=$(find_julia) || skip "no julia in PATH, and none in ~/.cache/gear-julia"
}
# The one that is unpacked already, one in PATH, or the one that julia.sh fetches.
find_julia() {
  local unpacked=${HOME:-/nonexistent}/.cache/gear-julia script
  [[ -x $unpacked/julia ]] && { echo "$unpacked/julia"; return; }
  command -v julia && return
  for script in "$GEAR_SOURCE_DIR"/{shared,../shared}/tools/julia.sh; do
    [[ -f $script && -n ${HOME:-} ]] && bash "$script" "$unpacked" && return
  done
  return 1
}

# client LANGUAGE ARGUMENTS...
client() {
  local language=$1
  shift
  if [[ $language == julia ]]; then
    GEAR_LIBRARY=$GEAR_BUILD_DIR/libgear.so "$julia" --startup-file=no --compile=min -O0 \
      "$here/julia_client.jl" "$@"
  else
    "$bin/$language" "$@"
  fi
}

prepare_c
"prepare_$reader"
"prepare_$writer"
flock -u 9

place=$(mktemp -d)
: >"$place/log"
geard=
finish() {
  [[ -n $geard ]] && kill "$geard" 2>/dev/null && wait "$geard"
  rm -rf "$place"
}
trap finish EXIT

"$GEAR_BUILD_DIR/geard" --socket "$place/geard.sock" --memory memfd 2>"$place/log" 9>&- &
geard=$!
for ((i = 0; i < 200; ++i)); do
  grep -q serving "$place/log" && break
  kill -0 "$geard" || { cat "$place/log"; exit 1; }
  sleep 0.05
done

handle=$("$bin/c" create "unix:$place/geard.sock")
client "$writer" write "$handle" "${number[$writer]}" $steps
client "$reader" read "$handle" "${number[$reader]}" $steps "${number[$writer]}"
echo "$reader read $steps steps of $writer"
