# Every test is found by where its file lies; no test is listed by hand.
#
#   tests/unit/*.cc  tests/crash/*.cc  tests/stress/*.cc    GoogleTest, one executable a file
#   tests/conform/*.c                                       cmocka through gear.h alone (see conform.h)
#   tests/*/*.test.sh  tests/*/*.test.py                    scripts; exit 77 means skipped
#   bindings/python/tests/test_*.py                         each top-level `def test_...` through pytest
#   docs/examples/*.c                                       each must run and exit 0
#
# A line `ctest:` in a comment of the file sets what differs from the defaults. For compiled tests:
#     // ctest: labels=slow,tsan timeout=120 serial
# In scripts each such line is one case; words after `--` are the script's arguments:
#     # ctest: House.FloorsAreRespected labels=house timeout=10 -- --check

include(GoogleTest)

set(gear_test_timeout_s 60)
set(gear_test_timeout_stress_s 180)
set(gear_test_bin ${PROJECT_BINARY_DIR}/tests)

# gear_test_marks(FILE default-labels default-timeout): sets labels, timeout and serial for the caller.
function(gear_test_marks file labels timeout)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  set(serial FALSE)
  file(STRINGS ${file} lines REGEX "^ ?(//|/\\*|\\*|#) ctest:" LIMIT_COUNT 1)
  string(REGEX REPLACE "^.*ctest:" "" words "${lines}")
  gear_test_words("${words}")
  set(labels "${labels}" PARENT_SCOPE)
  set(timeout "${timeout}" PARENT_SCOPE)
  set(serial "${serial}" PARENT_SCOPE)
endfunction()

macro(gear_test_words text)
  separate_arguments(gear_words UNIX_COMMAND "${text}")
  foreach(word IN LISTS gear_words)
    if(word MATCHES "^labels=(.+)$")
      string(REPLACE "," ";" more "${CMAKE_MATCH_1}")
      list(APPEND labels ${more})
    elseif(word MATCHES "^timeout=([0-9]+)$")
      set(timeout ${CMAKE_MATCH_1})
    elseif(word STREQUAL "serial")
      set(serial TRUE)
    elseif(NOT word STREQUAL "*/")
      message(FATAL_ERROR "${file}: `ctest:` line has \"${word}\"; known are labels=A,B timeout=S serial")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES labels)
endmacro()

# tests/unit/sum_tree_test.cc -> SumTree
function(gear_pascal_name file out)
  get_filename_component(stem ${file} NAME_WE)
  string(REGEX REPLACE "_test$" "" stem ${stem})
  string(REPLACE "_" ";" words ${stem})
  set(name "")
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 head)
    string(SUBSTRING ${word} 1 -1 tail)
    string(TOUPPER ${head} head)
    string(APPEND name ${head}${tail})
  endforeach()
  set(${out} ${name} PARENT_SCOPE)
endfunction()

function(gear_test_target target file)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${gear_test_bin})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  # Where tests find data files and the programs geard and gearctl, also when run by hand.
  target_compile_definitions(${target} PRIVATE
    GEAR_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}" GEAR_TEST_BUILD_DIR="${PROJECT_BINARY_DIR}")
  # A release build defines NDEBUG; an assert in a test or example must still count.
  target_compile_options(${target} PRIVATE -UNDEBUG)
  gear_compile(${target})
endfunction()

function(gear_add_google_test file kind default_timeout)
  get_filename_component(stem ${file} NAME_WE)
  set(target ${kind}_${stem})
  gear_test_marks(${file} ${kind} ${default_timeout})
  add_executable(${target} ${file})
  gear_test_target(${target} ${file})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/daemon)
  set(more_properties "")
  if(kind STREQUAL "crash")
    # Their deaths are judged together, by tests/crash/points.test.py.
    set(more_properties "ENVIRONMENT \"GEAR_CRASH_DEATHS=${gear_test_bin}/crash_deaths.txt\" FIXTURES_REQUIRED crash_deaths_begun FIXTURES_SETUP crash_deaths")
    target_link_libraries(${target} PRIVATE gear_crash_core GTest::gmock GTest::gtest_main)
  else()
    target_link_libraries(${target} PRIVATE
      $<TARGET_NAME_IF_EXISTS:gear_test_support>
      $<TARGET_NAME_IF_EXISTS:geard_parts>
      $<TARGET_NAME_IF_EXISTS:gear_daemon_common>
      gear_core GTest::gmock GTest::gtest_main)
  endif()
  gtest_discover_tests(${target}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    WORKING_DIRECTORY ${gear_test_bin})
  # Its PROPERTIES would split a list of labels, so they are set once ctest knows the cases.
  set(include_file ${gear_test_bin}/${target}_properties.cmake)
  file(CONFIGURE OUTPUT ${include_file} @ONLY CONTENT [[
foreach(gear_name IN LISTS @target@_TESTS)
  set_tests_properties("${gear_name}" PROPERTIES
    TIMEOUT @timeout@ LABELS "@labels@" RUN_SERIAL @serial@ @more_properties@)
endforeach()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include_file})
endfunction()

# Asks the executable for its cases each time ctest starts, as gtest_discover_tests does.
function(gear_add_conform_test file)
  get_filename_component(stem ${file} NAME_WE)
  set(target conform_${stem})
  gear_pascal_name(${file} suite)
  gear_test_marks(${file} conform ${gear_test_timeout_s})
  add_executable(${target} ${file})
  gear_test_target(${target} ${file})
  target_link_libraries(${target} PRIVATE gear_conform_support gear)
  set(include_file ${gear_test_bin}/${target}_cases.cmake)
  file(CONFIGURE OUTPUT ${include_file} @ONLY CONTENT [[
set(gear_executable "@gear_test_bin@/@target@")
set(gear_suite "@suite@")
set(gear_labels "@labels@")
set(gear_properties TIMEOUT @timeout@ RUN_SERIAL @serial@)
include("@PROJECT_SOURCE_DIR@/cmake/GearDiscover.cmake")
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include_file})
endfunction()

function(gear_add_example file)
  get_filename_component(stem ${file} NAME_WE)
  gear_pascal_name(${file} name)
  gear_test_marks(${file} example ${gear_test_timeout_s})
  set(target example_${stem})
  add_executable(${target} ${file})
  gear_test_target(${target} ${file})
  target_link_libraries(${target} PRIVATE gear Threads::Threads m)
  add_test(NAME Example.${name}Runs COMMAND ${target})
  set_tests_properties(Example.${name}Runs PROPERTIES
    TIMEOUT ${timeout} LABELS "${labels}" RUN_SERIAL ${serial})
endfunction()

function(gear_add_script file)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  get_filename_component(kind ${file} DIRECTORY)
  get_filename_component(kind ${kind} NAME)
  set(interpreter bash)
  if(file MATCHES "\\.py$")
    set(interpreter ${GEAR_PYTHON})
  endif()
  file(STRINGS ${file} cases REGEX "^# ctest: ")
  if(NOT cases)
    message(FATAL_ERROR "${file}: has no `# ctest: Suite.SentenceName` line, so it would never run")
  endif()
  foreach(case IN LISTS cases)
    set(labels ${kind})
    set(timeout ${gear_test_timeout_s})
    set(serial FALSE)
    set(arguments "")
    string(REGEX MATCH "^# ctest: +([A-Za-z0-9_.]+)(.*)$" matched "${case}")
    set(name ${CMAKE_MATCH_1})
    set(words "${CMAKE_MATCH_2}")
    if(words MATCHES "^(.*) -- (.*)$")
      set(words "${CMAKE_MATCH_1}")
      separate_arguments(arguments UNIX_COMMAND "${CMAKE_MATCH_2}")
    endif()
    gear_test_words("${words}")
    add_test(NAME ${name} COMMAND ${interpreter} ${file} ${arguments})
    set_tests_properties(${name} PROPERTIES
      TIMEOUT ${timeout} LABELS "${labels}" RUN_SERIAL ${serial} SKIP_RETURN_CODE 77
      ENVIRONMENT "${gear_script_environment}")
  endforeach()
endfunction()

find_program(GEAR_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(GEAR_PYTHON NAMES python3)
set(gear_script_environment
  GEAR_SOURCE_DIR=${PROJECT_SOURCE_DIR}
  GEAR_BUILD_DIR=${PROJECT_BINARY_DIR}
  GEAR_BUILD_TYPE=${CMAKE_BUILD_TYPE}
  GEAR_SANITIZE=${GEAR_SANITIZE}
  GEAR_PYTHON=${GEAR_PYTHON}
  CMAKE=${CMAKE_COMMAND}
  CC=${CMAKE_C_COMPILER}
  CXX=${CMAKE_CXX_COMPILER})

if(TARGET gear_core)
  gear_glob(chaos_sources tests/chaos/*.cc)
  add_executable(gear_chaos ${chaos_sources})
  target_include_directories(gear_chaos PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(gear_chaos PRIVATE gear_core)
  gear_compile(gear_chaos)
endif()

gear_glob(script_tests tests/*/*.test.sh tests/*/*.test.py bindings/*/*.test.sh)
foreach(file IN LISTS script_tests)
  gear_add_script(${file})
endforeach()

if(TARGET gear_core)
  set_tests_properties(CrashPoints.Begin PROPERTIES FIXTURES_SETUP crash_deaths_begun)
  set_tests_properties(CrashPoints.EveryPlaceThatStoresWasADeath PROPERTIES FIXTURES_REQUIRED crash_deaths)
endif()

# def test_steps_come_back -> Python.StepsComeBack
function(gear_add_python_test file)
  gear_test_marks(${file} python ${gear_test_timeout_s})
  file(STRINGS ${file} functions REGEX "^def test_[a-z0-9_]+\\(")
  foreach(function IN LISTS functions)
    string(REGEX MATCH "test_[a-z0-9_]+" function "${function}")
    string(REGEX REPLACE "^test_" "" name ${function})
    gear_pascal_name(${name} name)
    add_test(NAME Python.${name}
             COMMAND ${PROJECT_SOURCE_DIR}/scripts/python_test.sh ${file} ${function})
    set_tests_properties(Python.${name} PROPERTIES
      TIMEOUT ${timeout} LABELS "${labels}" RUN_SERIAL ${serial} SKIP_RETURN_CODE 77
      ENVIRONMENT "${gear_script_environment}")
  endforeach()
endfunction()

# The binding in .venv is linked to the release library; another build would test the wrong one.
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" AND NOT GEAR_SANITIZE)
  gear_glob(python_tests bindings/python/tests/test_*.py)
  foreach(file IN LISTS python_tests)
    gear_add_python_test(${file})
  endforeach()
endif()

if(NOT TARGET gear_core)
  return()
endif()

gear_glob(support_c tests/support/*.c)
add_library(gear_conform_support STATIC ${support_c})
gear_test_target(gear_conform_support "")
target_link_libraries(gear_conform_support PUBLIC cmocka Threads::Threads m PRIVATE gear)

gear_glob(support_cc tests/support/*.cc)
if(support_cc)
  add_library(gear_test_support STATIC ${support_cc})
  gear_test_target(gear_test_support "")
  target_link_libraries(gear_test_support PUBLIC gear_core GTest::gtest)
endif()

foreach(kind unit crash stress)
  set(timeout ${gear_test_timeout_s})
  if(kind STREQUAL "stress")
    set(timeout ${gear_test_timeout_stress_s})
  endif()
  gear_glob(files tests/${kind}/*.cc)
  foreach(file IN LISTS files)
    gear_add_google_test(${file} ${kind} ${timeout})
  endforeach()
endforeach()

gear_glob(files tests/conform/*.c)
foreach(file IN LISTS files)
  gear_add_conform_test(${file})
endforeach()

gear_glob(files docs/examples/*.c)
foreach(file IN LISTS files)
  gear_add_example(${file})
endforeach()
