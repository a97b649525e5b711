# Flags for GEAR's own targets. They are attached by gear_compile() and not set globally, so that a
# dependency built in the same tree would keep its own warnings.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
# POSIX calls in C tests and examples need the GNU feature macros; gear.h itself is checked as strict C11.
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

find_program(GEAR_CCACHE ccache)
if(GEAR_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${GEAR_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GEAR_CCACHE})
endif()

add_library(gear_flags INTERFACE)
target_compile_options(gear_flags INTERFACE
  -Wall -Wextra -Wpedantic
  $<$<BOOL:${GEAR_WERROR}>:-Werror>
  # gcc 12 sees overlaps in std::string's operator+ that are not there (gcc bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # CMake's RelWithDebInfo says -O2; the last -O wins.
  $<$<CONFIG:RelWithDebInfo>:-O3>
  -fno-omit-frame-pointer
  # The same sums on every machine: no fused multiply-add where the source says two operations.
  -ffp-contract=off
  # Paths in messages and debug info start at the repository, so results do not name a machine.
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_link_options(gear_flags INTERFACE -Wl,-z,relro,-z,now)

if(GEAR_SANITIZE)
  target_compile_options(gear_flags INTERFACE
    -fsanitize=${GEAR_SANITIZE} -O1
    # Instrumentation defeats the flow analysis behind this warning.
    -Wno-maybe-uninitialized)
  target_link_options(gear_flags INTERFACE -fsanitize=${GEAR_SANITIZE})
  if(GEAR_SANITIZE MATCHES "undefined")
    target_compile_options(gear_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
  if(GEAR_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # gcc warns at each atomic_thread_fence under TSan; the tests labelled tsan know their fences.
    target_compile_options(gear_flags INTERFACE -Wno-tsan)
  endif()
endif()

if(GEAR_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "GEAR_FUZZ needs clang, whose libFuzzer it uses; configure with `cmake --preset fuzz`")
  endif()
  set(gear_fuzz_flags -fsanitize=address,undefined -fno-sanitize-recover=undefined
    -fprofile-instr-generate -fcoverage-mapping)
  target_compile_options(gear_flags INTERFACE -fsanitize=fuzzer-no-link ${gear_fuzz_flags} -O1)
  target_link_options(gear_flags INTERFACE ${gear_fuzz_flags})
endif()

function(gear_compile target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:gear_flags>)
endfunction()

# Globs relative to the source tree. A new file is picked up by the next build without an edit here.
function(gear_glob out)
  set(patterns "")
  foreach(pattern IN LISTS ARGN)
    list(APPEND patterns ${PROJECT_SOURCE_DIR}/${pattern})
  endforeach()
  file(GLOB files CONFIGURE_DEPENDS ${patterns})
  set(${out} ${files} PARENT_SCOPE)
endfunction()
