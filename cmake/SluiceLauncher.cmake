# The compiler cache and the record of compile times, for building Sluice itself.

# A clone in another folder finds the objects of this one: paths below the source folder are hashed relative to it, and the
# working folder is not hashed. bench/compile/timed records what each compilation costs. The launcher is one file, so that
# the consumers of tests/consumer and nvcc get all of this: a list would lose all but its first item on the way.
find_program(SLUICE_CCACHE ccache)
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(timed ${PROJECT_SOURCE_DIR}/bench/compile/timed)
  set(text "export SLUICE_COMPILE_SECONDS='${CMAKE_BINARY_DIR}/compile_seconds'\n")
  if(SLUICE_CCACHE)
    string(APPEND text "export CCACHE_BASEDIR='${PROJECT_SOURCE_DIR}' CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros\n"
                       "export CCACHE_PREFIX='${timed}'\nexec '${SLUICE_CCACHE}' \"$@\"\n")
  else()
    string(APPEND text "exec '${timed}' \"$@\"\n")
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_BINARY_DIR}/compile)
  file(CONFIGURE OUTPUT ${CMAKE_CXX_COMPILER_LAUNCHER} CONTENT "#!/bin/sh\n${text}" @ONLY)
  file(CHMOD ${CMAKE_CXX_COMPILER_LAUNCHER} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endif()
