set(THREADS_PREFER_PTHREAD_FLAG ON)
set(gear_remedy "run `make setup` (or see scripts/packages.txt for the Debian packages)")

function(gear_require found what)
  if(NOT ${found})
    message(FATAL_ERROR "${what} not found: ${gear_remedy}")
  endif()
endfunction()

find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)
gear_require(PkgConfig_FOUND "pkg-config")

find_package(Boost 1.74 QUIET)
gear_require(Boost_FOUND "Boost headers 1.74 or newer")
pkg_check_modules(LIBURING QUIET IMPORTED_TARGET liburing)
gear_require(LIBURING_FOUND "liburing")
pkg_check_modules(NUMA QUIET IMPORTED_TARGET numa)
gear_require(NUMA_FOUND "libnuma")

add_library(gear_dependencies INTERFACE)
target_link_libraries(gear_dependencies INTERFACE
  Boost::headers PkgConfig::LIBURING PkgConfig::NUMA Threads::Threads rt ${CMAKE_DL_LIBS})

find_package(CLI11 QUIET)
gear_require(CLI11_FOUND "CLI11")
find_package(spdlog QUIET)
gear_require(spdlog_FOUND "spdlog")
find_package(tomlplusplus QUIET)
gear_require(tomlplusplus_FOUND "toml++")
find_package(nlohmann_json QUIET)
gear_require(nlohmann_json_FOUND "nlohmann-json")

add_library(gear_daemon_dependencies INTERFACE)
target_link_libraries(gear_daemon_dependencies INTERFACE
  CLI11::CLI11 spdlog::spdlog tomlplusplus::tomlplusplus nlohmann_json::nlohmann_json)

if(GEAR_BUILD_TESTS)
  find_package(GTest QUIET)
  gear_require(GTest_FOUND "GoogleTest")
  find_package(cmocka QUIET)
  gear_require(cmocka_FOUND "cmocka")
endif()
