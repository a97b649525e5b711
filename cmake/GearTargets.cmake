set(gear_rooms base layout shm select limit table gather server client
               store transport federation tier module)
list(TRANSFORM gear_rooms PREPEND lib/ OUTPUT_VARIABLE gear_room_globs)
list(TRANSFORM gear_room_globs APPEND /*.cc)
gear_glob(gear_core_sources ${gear_room_globs})

if(NOT gear_core_sources)
  message(STATUS "gear: no sources under lib/ yet; libgear and all that links it are skipped")
else()
  # Everything inside, for geard, unit tests and benches. libgear.so takes the same objects and shows
  # only gear_*.
  add_library(gear_core STATIC ${gear_core_sources})
  target_include_directories(gear_core PUBLIC ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(gear_core PRIVATE GEAR_BUILD_VERSION="${PROJECT_VERSION}")
  target_link_libraries(gear_core PUBLIC gear_dependencies)
  gear_compile(gear_core)

  # The same, and each store to shared memory can be the process's last (base/crash_point.h). For tests/crash alone; nothing
  # links both.
  if(GEAR_BUILD_TESTS)
    add_library(gear_crash_core STATIC EXCLUDE_FROM_ALL ${gear_core_sources})
    target_include_directories(gear_crash_core PUBLIC ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR}/include)
    target_compile_definitions(gear_crash_core PUBLIC GEAR_CRASH_POINTS PRIVATE GEAR_BUILD_VERSION="${PROJECT_VERSION}")
    target_link_libraries(gear_crash_core PUBLIC gear_dependencies)
    gear_compile(gear_crash_core)
  endif()

  set(gear_map ${PROJECT_SOURCE_DIR}/lib/client/gear.map)
  add_library(gear SHARED $<TARGET_OBJECTS:gear_core>)
  add_library(gear::gear ALIAS gear)
  target_include_directories(gear INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(gear PRIVATE $<BUILD_INTERFACE:gear_dependencies>)
  gear_compile(gear)
  target_link_options(gear PRIVATE -Wl,--version-script=${gear_map})
  # clang leaves the sanitizer runtime to the executable, which `defs` would call undefined.
  if(NOT GEAR_SANITIZE OR CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_link_options(gear PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(gear PROPERTIES
    LINKER_LANGUAGE CXX
    LINK_DEPENDS ${gear_map}
    VERSION ${PROJECT_VERSION}
    SOVERSION 0)
endif()

# daemon/common is linked by both programs, so it may use gear.h but nothing under lib/.
gear_glob(daemon_common_sources daemon/common/*.cc)
gear_glob(geard_sources daemon/geard/*.cc)
gear_glob(gearctl_sources daemon/gearctl/*.cc)
# A file that holds main() stays out of the libraries that unit tests link.
set(geard_main ${geard_sources})
list(FILTER geard_main INCLUDE REGEX "/main\\.cc$")
set(gearctl_main ${gearctl_sources})
list(FILTER gearctl_main INCLUDE REGEX "/main\\.cc$")
list(FILTER geard_sources EXCLUDE REGEX "/main\\.cc$")
list(FILTER gearctl_sources EXCLUDE REGEX "/main\\.cc$")

if(daemon_common_sources AND TARGET gear_core)
  add_library(gear_daemon_common STATIC ${daemon_common_sources})
  target_include_directories(gear_daemon_common PUBLIC
    ${PROJECT_SOURCE_DIR}/daemon ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(gear_daemon_common PRIVATE GEAR_BUILD_VERSION="${PROJECT_VERSION}")
  target_link_libraries(gear_daemon_common PUBLIC gear_daemon_dependencies)
  gear_compile(gear_daemon_common)
endif()

# gear_add_program(NAME gear-library main sources...): the program, and NAME_parts for unit tests.
function(gear_add_program name library main)
  if(NOT main OR NOT TARGET gear_core)
    message(STATUS "${name}: no daemon/${name}/main.cc (or nothing under lib/) yet; skipped")
    return()
  endif()
  add_executable(${name} ${main})
  set(parts "")
  if(ARGN)
    add_library(${name}_parts STATIC ${ARGN})
    set(parts ${name}_parts)
  endif()
  foreach(target ${name} ${parts})
    target_include_directories(${target} PRIVATE
      ${PROJECT_SOURCE_DIR}/daemon ${PROJECT_SOURCE_DIR}/include)
    target_compile_definitions(${target} PRIVATE GEAR_BUILD_VERSION="${PROJECT_VERSION}")
    gear_compile(${target})
    target_link_libraries(${target} PRIVATE
      $<TARGET_NAME_IF_EXISTS:gear_daemon_common> ${library} gear_daemon_dependencies)
  endforeach()
  target_link_libraries(${name} PRIVATE ${parts})
  # An installed program finds its library beside it, under any prefix and without ldconfig.
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endfunction()

gear_add_program(geard gear_core "${geard_main}" ${geard_sources})
# gearctl gc and doctor work where no server answers, so beside libgear they need the names of segments, and what memory there is.
gear_add_program(gearctl gear "${gearctl_main}" ${gearctl_sources}
  ${PROJECT_SOURCE_DIR}/lib/shm/segment_names.cc ${PROJECT_SOURCE_DIR}/lib/shm/memory_room.cc
  ${PROJECT_SOURCE_DIR}/lib/base/status.cc)
if(TARGET gearctl_parts)
  target_include_directories(gearctl_parts PRIVATE ${PROJECT_SOURCE_DIR}/lib)
endif()

gear_glob(bench_sources tests/bench/*.cc)
if(NOT GEAR_BUILD_BENCH)
elseif(NOT bench_sources OR NOT TARGET gear_core)
  message(STATUS "gear_bench: no sources in tests/bench/ yet; skipped")
else()
  add_executable(gear_bench ${bench_sources})
  target_include_directories(gear_bench PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(gear_bench PRIVATE
    GEAR_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}" GEAR_TEST_BUILD_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(gear_bench PRIVATE gear_core)
  gear_compile(gear_bench)
endif()
