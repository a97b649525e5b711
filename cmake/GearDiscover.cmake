# Read by ctest, not by cmake: adds one case for each line of `EXECUTABLE --list`.
# In: gear_executable, gear_suite, gear_labels, gear_properties.

set(gear_why "")
if(NOT EXISTS "${gear_executable}")
  set(gear_why NOT_BUILT)
else()
  execute_process(COMMAND "${gear_executable}" --list TIMEOUT 60
                  OUTPUT_VARIABLE gear_names RESULT_VARIABLE gear_result)
  string(STRIP "${gear_names}" gear_names)
  if(NOT gear_result EQUAL 0)
    set(gear_why LIST_FAILED)
  elseif(gear_names STREQUAL "")
    set(gear_why HAS_NO_TESTS)
  endif()
endif()

if(gear_why)
  # A failing case: silence must not look like success.
  add_test("${gear_suite}.${gear_why}" sh -c "echo '${gear_executable}: ${gear_why}'; exit 1")
else()
  string(REPLACE "\n" ";" gear_names "${gear_names}")
  foreach(gear_name IN LISTS gear_names)
    add_test("${gear_suite}.${gear_name}" "${gear_executable}" --run "${gear_name}")
    set_tests_properties("${gear_suite}.${gear_name}" PROPERTIES
      ${gear_properties} LABELS "${gear_labels}" SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
  endforeach()
endif()
