# Compiles SOURCE good and bad, and compares what the compiler says with what the file's first comment lines promise:
#
#   // sentences: N        how many sentences of ours, static assertions that begin with "sluice: ", it gives. If N > 0 they
#                          must be all the errors there are: one missed requirement is one sentence, and no cascade.
#   // says: REGEX         (CMake's) matches one of the compiler's error lines; a file may have several.
#   // says[GNU]: REGEX    the same, for one compiler only: GNU, Clang or nvcc. For errors whose words are the compiler's.
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

# Without source lines under the messages: they would repeat the sentence that is counted.
if(ID STREQUAL "nvcc")
  # Only the front end that reads host code: what nvcc adds to g++ here is another compiler's view of our templates.
  set(command ${NVCC} -ccbin ${COMPILER} -std=c++20 -x cu --cuda -o /dev/null)
elseif(ID STREQUAL "Clang")
  set(command ${COMPILER} -std=c++20 -fsyntax-only -fno-caret-diagnostics -ferror-limit=0)
else()
  set(command ${COMPILER} -std=c++20 -S -O0 -o /dev/null -fno-diagnostics-show-caret -fconcepts-diagnostics-depth=3)
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

# Where a sentence rests on a concept, g++ adds why it is not met, as a note whose second line it calls an error.
string(REGEX REPLACE "is invalid, because\n[^\n]*error: " "is invalid, because " lines "${text}")
string(REGEX REPLACE "is not satisfied, because\n([^\n]*  required [^\n]*\n)*[^\n]*error: " "is not satisfied, because " lines "${lines}")
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
