# Writes a source file with Sluice's version and commit. It leaves an up-to-date file unchanged, so that a build at the
# same commit recompiles nothing.
# usage: cmake -DSOURCE=<folder> -DVERSION=<number> -DBUILD=<type> -DTEXT=<template> -DINTO=<file> -P version.cmake
#
# Rejected: asking git when CMake configures, which would report an old commit; and a definition on the compiler's
# command line, which recompiles every source at each commit.
set(COMMIT unknown)
if(EXISTS ${SOURCE}/.git) # otherwise a tarball, perhaps unpacked within another repository
  find_program(git git)
  if(git)
    # `describe` inspects the tracked files; it must not write the index, which another git process may hold.
    set(ENV{GIT_OPTIONAL_LOCKS} 0)
    execute_process(COMMAND ${git} -C ${SOURCE} describe --always --abbrev=7 --exclude=* --dirty
                    OUTPUT_VARIABLE described ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
    if(NOT failed AND described MATCHES "^[0-9a-f]+(-dirty)?$")
      set(COMMIT ${described})
    endif()
  endif()
endif()
string(TOLOWER "${BUILD}" BUILD)
configure_file(${TEXT} ${INTO} @ONLY)
