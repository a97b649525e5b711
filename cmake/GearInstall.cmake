include(CMakePackageConfigHelpers)

if(TARGET gear)
  install(TARGETS gear EXPORT gearTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT gearTargets NAMESPACE gear::
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gear)
  configure_package_config_file(
    cmake/gearConfig.cmake.in ${PROJECT_BINARY_DIR}/package/gearConfig.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gear)
  write_basic_package_version_file(
    ${PROJECT_BINARY_DIR}/package/gearConfigVersion.cmake COMPATIBILITY SameMajorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/package/gearConfig.cmake
                ${PROJECT_BINARY_DIR}/package/gearConfigVersion.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gear)

  # The prefix is taken from where gear.pc lies, so `cmake --install --prefix` needs no reconfigure.
  file(RELATIVE_PATH gear_pc_to_prefix
       /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" gear_pc_to_prefix "${gear_pc_to_prefix}")
  configure_file(cmake/gear.pc.in ${PROJECT_BINARY_DIR}/package/gear.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/gear.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/include/gear.h)
  install(FILES include/gear.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
if(TARGET gearctl)
  install(TARGETS gearctl DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET geard)
  install(TARGETS geard DESTINATION ${CMAKE_INSTALL_BINDIR})
  # Filled in while installing: only then is the prefix known that ExecStart must name.
  install(CODE "
    set(GEAR_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    configure_file(\"${PROJECT_SOURCE_DIR}/daemon/geard.service.in\"
                   \"${PROJECT_BINARY_DIR}/package/geard.service\" @ONLY)")
  install(FILES ${PROJECT_BINARY_DIR}/package/geard.service DESTINATION lib/systemd/system)
  install(FILES daemon/geard.sysusers DESTINATION lib/sysusers.d RENAME gear.conf)
endif()

gear_glob(man_sources docs/man/*.scd)
find_program(GEAR_SCDOC scdoc)
if(man_sources AND GEAR_SCDOC)
  foreach(source IN LISTS man_sources)
    get_filename_component(page ${source} NAME)
    string(REGEX REPLACE "\\.scd$" "" page ${page})
    string(REGEX MATCH "[0-9]$" section ${page})
    set(output ${PROJECT_BINARY_DIR}/man/${page})
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
      COMMAND sh -c "'${GEAR_SCDOC}' <'${source}' >'${output}.part' && mv '${output}.part' '${output}'"
      DEPENDS ${source} VERBATIM)
    list(APPEND man_pages ${output})
    install(FILES ${output} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endforeach()
  add_custom_target(gear_man ALL DEPENDS ${man_pages})
elseif(man_sources)
  message(STATUS "man pages: scdoc not found; skipped")
endif()
