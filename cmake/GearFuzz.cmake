# tests/fuzz/NAME_fuzz.cc: one entry LLVMFuzzerTestOneInput each. In preset fuzz it becomes the libFuzzer program fuzz_NAME
# (tests/fuzz/run.sh runs them); in every other build it replays tests/fuzz/corpus/NAME, as the test Fuzz.NameHoldsOnItsCorpus.

if(NOT TARGET gear_core)
  return()
endif()

gear_glob(gear_fuzz_files tests/fuzz/*_fuzz.cc)
add_custom_target(gear_fuzzers)
foreach(file IN LISTS gear_fuzz_files)
  get_filename_component(stem ${file} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" stem ${stem})
  set(target fuzz_${stem})
  add_executable(${target} ${file})
  gear_test_target(${target} ${file})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/daemon)
  target_link_libraries(${target} PRIVATE
    $<TARGET_NAME_IF_EXISTS:gear_test_support>
    $<TARGET_NAME_IF_EXISTS:geard_parts>
    $<TARGET_NAME_IF_EXISTS:gear_daemon_common>
    gear_core gear_daemon_dependencies)
  add_dependencies(gear_fuzzers ${target})
  if(GEAR_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.cc)
    gear_pascal_name(${file} name)
    string(REGEX REPLACE "Fuzz$" "" name ${name})
    add_test(NAME Fuzz.${name}HoldsOnItsCorpus
             COMMAND ${target} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${stem})
    set_tests_properties(Fuzz.${name}HoldsOnItsCorpus PROPERTIES TIMEOUT 60 LABELS "fuzz;unit")
  endif()
endforeach()
