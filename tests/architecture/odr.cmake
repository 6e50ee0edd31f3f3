# Fails if an object file defines a function or variable that no other object of a program may define.
# cmake -DNM=<nm> -DOBJECT=<file> -P odr.cmake
cmake_minimum_required(VERSION 3.25)
# "name T value size": lower-case letters and u, V and W are symbols that several objects may define. grep, because CMake's
# own regular expressions take half a minute for 100,000 symbols.
execute_process(COMMAND ${NM} --extern-only --defined-only --demangle --format=posix ${OBJECT} COMMAND grep -E " [ABCDGRST] [0-9a-f]+"
                OUTPUT_VARIABLE found RESULTS_VARIABLE results)
list(GET results 0 failed)
if(failed)
  message(FATAL_ERROR "${NM} cannot read ${OBJECT}")
endif()
if(found)
  message(FATAL_ERROR "defined without `inline`:\n  ${found}")
endif()
