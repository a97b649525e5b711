#!/usr/bin/env bash
# What `make install` leaves behind is enough for a stranger's build.
# ctest: Install.ConsumerBuildsThroughPkgConfigAndCMakePackage timeout=120
# ctest: Install.LeavesProgramsUnitAndManPages timeout=120 -- files
# ctest: Install.LibraryShowsOnlyGearSymbols timeout=30 -- symbols
set -euo pipefail

if [[ ${1:-} == symbols ]]; then
  strangers=$(nm -D --defined-only "$GEAR_BUILD_DIR/libgear.so" | awk '$2 != "A" {print $3}' |
              grep -v '^gear_' | grep -vE '^(__asan_|__ubsan_|__odr_asan|__tsan_)' || true)
  [[ -z $strangers ]] && exit 0
  printf 'exported, but not gear_*:\n%s\n' "$strangers"
  exit 1
fi
if [[ -n ${GEAR_SANITIZE:-} ]]; then
  echo "skipped: a consumer is not built with $GEAR_SANITIZE"
  exit 77
fi

mkdir -p "$GEAR_BUILD_DIR/tests"
root=$(mktemp -d "$GEAR_BUILD_DIR/tests/install.XXXXXX")
trap 'rm -rf "$root"' EXIT
prefix=$root/prefix
DESTDIR='' "$CMAKE" --install "$GEAR_BUILD_DIR" --prefix "$prefix" >/dev/null

if [[ ${1:-} == files ]]; then
  status=0
  for file in bin/geard bin/gearctl include/gear.h lib/systemd/system/geard.service; do
    [[ -e $prefix/$file ]] || { echo "not installed: $file"; status=1; }
  done
  [[ $status == 0 ]] || exit 1
  grep -qxF "ExecStart=$prefix/bin/geard" "$prefix/lib/systemd/system/geard.service"
  # The programs must find their library by themselves.
  "$prefix/bin/geard" --help >/dev/null
  "$prefix/bin/gearctl" --help >/dev/null
  for page in "$GEAR_SOURCE_DIR"/docs/man/*.scd; do
    [[ -e $page ]] && command -v scdoc >/dev/null || continue
    name=$(basename "$page" .scd)
    [[ -s $prefix/share/man/man${name##*.}/$name ]] || { echo "not installed: $name"; exit 1; }
  done
  exit 0
fi

library=$(dirname "$(find "$prefix" -name libgear.so)")
cp -r "$GEAR_SOURCE_DIR/tests/abi/consumer" "$root/consumer"

echo "pkg-config:"
export PKG_CONFIG_PATH=$library/pkgconfig
read -ra flags < <(pkg-config --cflags --libs gear)
"$CC" -std=c11 "$root/consumer/consumer.c" "${flags[@]}" -o "$root/by_pkg_config"
LD_LIBRARY_PATH=$library "$root/by_pkg_config"

echo "CMake package:"
"$CMAKE" -S "$root/consumer" -B "$root/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
         -DCMAKE_C_COMPILER="$CC" >/dev/null
"$CMAKE" --build "$root/cmake" >/dev/null
"$root/cmake/consumer"
