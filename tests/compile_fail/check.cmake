# Compiles SOURCE good and bad, and compares the compiler's messages with the file's first comment lines:
#
#   // sentences: N        the number of static assertions that begin with "sluice: ". If N > 0 there must be no other
#                          errors: one missed requirement gives one sentence, and no cascade.
#   // says: REGEX         (CMake's) matches one of the compiler's error lines; a file may have several.
#   // says[GNU]: REGEX    the same, for one compiler only: GNU, Clang or nvcc. For errors in the compiler's own words.
#
# cmake -DSOURCE=… -DINCLUDE=… -DWRITTEN=… -DCOMPILER=… -DID=GNU|Clang|nvcc [-DNVCC=…] -P check.cmake
cmake_minimum_required(VERSION 3.25)

file(STRINGS ${SOURCE} head LIMIT_COUNT 12 REGEX "^// ")
set(sentences "")
set(says "")
foreach(line IN LISTS head)
  if(line MATCHES "^// sentences: ([0-9]+)$")
    set(sentences ${CMAKE_MATCH_1})
  elseif(line MATCHES "^// says(\\[${ID}\\])?: (.+)$")
    list(APPEND says "${CMAKE_MATCH_2}")
  endif()
endforeach()
if(sentences STREQUAL "" OR says STREQUAL "")
  message(FATAL_ERROR "${SOURCE}: its first lines lack `// sentences: N` or a `// says: REGEX` for ${ID}")
endif()

# Without source lines under the messages, because they would repeat the counted sentence.
if(ID STREQUAL "nvcc")
  # Only the front end for host code: compared with g++, nvcc adds another compiler's view of the templates.
  set(command ${NVCC} -ccbin ${COMPILER} -std=c++20 -x cu --cuda -o /dev/null)
elseif(ID STREQUAL "Clang")
  set(command ${COMPILER} -std=c++20 -fsyntax-only -fno-caret-diagnostics -ferror-limit=0)
else()
  set(command ${COMPILER} -std=c++20 -fsyntax-only -fno-diagnostics-show-caret -fconcepts-diagnostics-depth=3
              --param ggc-min-heapsize=2097152) # as in SluiceProject.cmake
endif()
set(ENV{LC_ALL} C)
list(APPEND command -I${INCLUDE} -I${WRITTEN})

execute_process(COMMAND ${command} -DGOOD=1 ${SOURCE} RESULT_VARIABLE good OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(NOT good EQUAL 0)
  message(FATAL_ERROR "the good half does not compile:\n${text}")
endif()

execute_process(COMMAND ${command} ${SOURCE} RESULT_VARIABLE bad OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(bad EQUAL 0)
  message(FATAL_ERROR "the bad half compiles")
endif()

# If a sentence results from a concept, g++ adds the reason as a note, and marks its second line as an error.
string(REGEX REPLACE "is invalid, because\n[^\n]*error: " "is invalid, because " lines "${text}")
string(REGEX REPLACE "is unsatisfied because\n([^\n]*  required [^\n]*\n)*[^\n]*error: " "is unsatisfied because " lines "${lines}")
string(REGEX REPLACE "is not satisfied, because\n([^\n]*  required [^\n]*\n)*[^\n]*error: " "is not satisfied, because " lines "${lines}")
# A requirement that names a missing member several times has a line for each.
string(REGEX REPLACE "(because '[^\n]*' is not a member of '[^\n]*')\n[^\n]*error: ('[^\n]*' is not a member of)" "\\1, \\2" lines "${lines}")
string(REPLACE ";" "," lines "${lines}")
string(REGEX REPLACE "[][]" "|" lines "${lines}") # brackets keep CMake from splitting a list
string(REPLACE "\n" ";" lines "${lines}")
set(errors ${lines})
list(FILTER errors INCLUDE REGEX "error: ")
set(ours ${errors})
list(FILTER ours INCLUDE REGEX "(static assertion failed|static_assert failed).*sluice: ")
list(LENGTH errors error_count)
list(LENGTH ours our_count)

set(faults "")
if(NOT our_count EQUAL sentences)
  string(APPEND faults "${our_count} sentences, ${sentences} promised\n")
elseif(sentences GREATER 0 AND NOT error_count EQUAL sentences)
  string(APPEND faults "${error_count} errors for ${sentences} sentences: a cascade\n")
endif()
foreach(regex IN LISTS says)
  set(matching ${errors})
  list(FILTER matching INCLUDE REGEX "${regex}")
  if(matching STREQUAL "")
    string(APPEND faults "no error line matches: ${regex}\n")
  endif()
endforeach()
if(faults)
  message(FATAL_ERROR "${faults}\nthe compiler said:\n${text}")
endif()
