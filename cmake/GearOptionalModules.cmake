# Optional hardware lives in modules opened at run time. This version has none to build yet: what is
# found is said in the summary, and ON without the toolkit is refused now rather than ignored.

foreach(choice GEAR_CUDA GEAR_VERBS)
  if(NOT "${${choice}}" MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${choice}=${${choice}}: must be AUTO, ON or OFF")
  endif()
endforeach()

if(GEAR_CUDA STREQUAL "OFF")
  set(gear_cuda_summary "off (GEAR_CUDA=OFF)")
else()
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND)
    set(gear_cuda_summary "found ${CUDAToolkit_VERSION}, no module in this version yet")
  elseif(GEAR_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GEAR_CUDA=ON: no CUDA toolkit found; install it and put nvcc on PATH or set "
                        "-DCUDAToolkit_ROOT=DIR, or use -DGEAR_CUDA=AUTO")
  else()
    set(gear_cuda_summary "not found (GEAR_CUDA=AUTO)")
  endif()
endif()

if(GEAR_VERBS STREQUAL "OFF")
  set(gear_verbs_summary "off (GEAR_VERBS=OFF)")
else()
  pkg_check_modules(VERBS QUIET libibverbs librdmacm)
  if(VERBS_FOUND)
    set(gear_verbs_summary "found libibverbs ${VERBS_libibverbs_VERSION}, no module in this version yet")
  elseif(GEAR_VERBS STREQUAL "ON")
    message(FATAL_ERROR "GEAR_VERBS=ON: libibverbs and librdmacm not found; run "
                        "`apt-get install libibverbs-dev librdmacm-dev`, or use -DGEAR_VERBS=AUTO")
  else()
    set(gear_verbs_summary "not found (GEAR_VERBS=AUTO)")
  endif()
endif()
