# Writes a source file that says which Sluice is being built, and leaves it alone where it says so already: a build at the
# same commit compiles and links nothing for it.
# usage: cmake -DSOURCE=<folder> -DVERSION=<number> -DBUILD=<type> -DTEXT=<template> -DINTO=<file> -P version.cmake
#
# Rejected: asking git when CMake configures, which says the commit of a week ago; and a definition on the compiler's
# command line, which recompiles every source at each commit.
set(COMMIT unknown)
if(EXISTS ${SOURCE}/.git) # else a tarball, perhaps unpacked within somebody else's repository
  find_program(git git)
  if(git)
    # `describe` looks at the tracked files; it must not write the index meanwhile, which another git may hold.
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
