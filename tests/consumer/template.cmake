# examples/template as its reader would build it: copied, from an installed Sluice, run, its trials and its report.
# cmake -DBUILD=<build of sluice> -DSOURCE=<checkout> -DWORK=<scratch> -DCOMPILER=… -DLAUNCHER=… -DGENERATOR=… -P template.cmake
cmake_minimum_required(VERSION 3.25)

function(step out)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(failed)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "${line}\n${text}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# must_say(<text> <regex> <whose>)
function(must_say text pattern whose)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "${whose} does not say '${pattern}':\n${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
step(ignored ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
file(COPY ${SOURCE}/examples/template DESTINATION ${WORK})
set(configure ${CMAKE_COMMAND} -S ${WORK}/template -B ${WORK}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
              -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH=${WORK}/prefix)
step(ignored ${configure})
step(ignored ${CMAKE_COMMAND} --build ${WORK}/build)
set(mine ${WORK}/build/mine)

# Its engine is a row of the list, beside every published system.
step(text ${mine} --list)
must_say("${text}" "\nOrbitFlowEven +variant" "mine --list")
must_say("${text}" "\nMyEngine +yours, of my_engine[.]hpp" "mine --list")

# It serves, on its own rule and on another, and the report has it and how to repeat it.
step(text ${mine} --generate "poisson:rate=2,requests=12,prompt=200,output=uniform(20,60)" --kv-blocks 60 --batch 4
                  --systems MyEngine,VllmSwap --out ${WORK}/report --quiet)
must_say("${text}" "MyEngine" "mine")
must_say("${text}" "VllmSwap" "mine")
file(READ ${WORK}/report/report.json report)
string(JSON name ERROR_VARIABLE wrong GET "${report}" systems 0 name)
if(NOT name STREQUAL "MyEngine")
  message(FATAL_ERROR "report.json begins with '${name}' (${wrong}), not with MyEngine")
endif()
must_say("${report}" "\"command\": ?\"mine --generate" "report.json")
file(GLOB_RECURSE rules ${WORK}/prefix/sluiceComparisonRules.cmake)
file(READ ${rules} rules)
if(rules MATCHES "FairShare") # SLUICE_COMPARE_RULES has it
  step(ignored ${mine} --limit 5 --systems MyEngine --transfer fair-share --quiet)
endif()
execute_process(COMMAND ${mine} --systems YourEngine RESULT_VARIABLE status ERROR_VARIABLE text)
must_say("${text}" "^mine: --systems: there is no system 'YourEngine'" "mine with a system that is not there")

# What every engine owes.
step(text ${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build --output-on-failure)
must_say("${text}" "mine_conserves [.]+ +Passed" "ctest of the template")

# Fewer systems, and mistakes in the call, each a sentence.
set(lists ${WORK}/template/CMakeLists.txt)
file(READ ${lists} call)
foreach(pair IN ITEMS "MyEngine=my_engine.hpp SYSTEMS Nobody|there is no system 'Nobody'" "MyEngine=nowhere.hpp|nowhere[.]hpp is not there"
                      "MyEngine|names no engine and its header" "my::E=my_engine.hpp your::E=my_engine.hpp|my::E and your::E would both be the system E" "VllmSwap=my_engine.hpp|is a published system's name" "|there is no engine of yours")
  string(REGEX MATCH "^(.*)[|](.*)$" matched "${pair}")
  set(arguments "${CMAKE_MATCH_1}")
  set(sentence "${CMAKE_MATCH_2}")
  string(REPLACE "MyEngine=my_engine.hpp" "${arguments}" wrong "${call}")
  file(WRITE ${lists} "${wrong}")
  execute_process(COMMAND ${configure} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE text)
  if(status EQUAL 0)
    message(FATAL_ERROR "sluice_add_comparison(mine ${arguments}) was accepted")
  endif()
  string(REGEX REPLACE "[\n ]+" " " text "${text}")
  must_say("${text}" "${sentence}" "sluice_add_comparison(mine ${arguments})")
endforeach()
string(REPLACE "MyEngine=my_engine.hpp" "MyEngine=my_engine.hpp SYSTEMS VllmSwap" fewer "${call}")
file(WRITE ${lists} "${fewer}")
step(ignored ${configure})
step(ignored ${CMAKE_COMMAND} --build ${WORK}/build --target mine)
step(text ${mine} --list)
if(text MATCHES "\nOrbitFlow ")
  message(FATAL_ERROR "SYSTEMS VllmSwap leaves OrbitFlow in:\n${text}")
endif()
must_say("${text}" "^VllmSwap " "mine --list with SYSTEMS VllmSwap")
