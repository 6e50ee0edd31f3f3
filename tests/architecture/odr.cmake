# Fails if an object file defines a function or variable that no other object of a program may define.
# cmake -DNM=<nm> -DOBJECT=<file> -P odr.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${NM} --extern-only --defined-only --demangle --format=posix ${OBJECT} OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
# "name T value size": lower-case letters and u, V and W are symbols that several objects may define.
string(REGEX MATCHALL "[^\n]+ [ABCDGRST] [0-9a-f]+ ?[0-9a-f]*\n" found "${symbols}")
if(found)
  list(JOIN found "  " found)
  message(FATAL_ERROR "defined without `inline`:\n  ${found}")
endif()
if(NOT symbols MATCHES " [WVTDB] ")
  message(FATAL_ERROR "${OBJECT} defines nothing")
endif()
