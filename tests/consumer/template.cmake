# Builds examples/template as its reader would: copies it, builds it with an installed Sluice, runs its programs, its
# trials and its report.
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
set(lists ${WORK}/template/CMakeLists.txt)
file(READ ${lists} call)

# call_with(<arguments>): replaces the arguments after the program's name in the project's call.
function(call_with arguments)
  string(REPLACE "MyEngine=my_engine.hpp" "${arguments}" text "${call}")
  file(WRITE ${lists} "${text}")
endfunction()

# In addition to the template's own engine, one in a namespace, from a header in a folder with another extension. It is
# the same type, so it costs one unit of the program and none of the trials.
set(headers ${WORK}/template/headers)
file(WRITE ${headers}/second.h "#pragma once\n#include \"../my_engine.hpp\"\nnamespace own::deep {\nusing Second = ::MyEngine;\n}\n")
file(WRITE ${headers}/bare.h "#pragma once\nnamespace own {\nstruct Bare {};\n}\n")
call_with("MyEngine=my_engine.hpp own::deep::Second=headers/second.h")
set(configure ${CMAKE_COMMAND} -S ${WORK}/template -B ${WORK}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
              -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 # debug information takes a fifth of the time
              -DCMAKE_PREFIX_PATH=${WORK}/prefix)
step(ignored ${configure})
step(ignored ${CMAKE_COMMAND} --build ${WORK}/build)
set(mine ${WORK}/build/mine)

# Its engine is a row of the list, next to every published system.
step(text ${mine} --list)
must_say("${text}" "\nOrbitFlowEven +variant" "mine --list")
must_say("${text}" "\nMyEngine +yours, of my_engine[.]hpp" "mine --list")
must_say("${text}" "\nSecond +yours, of headers/second[.]h" "mine --list")

# It serves with its own rule and with another one, and the report has it and the command that repeats it.
step(text ${mine} --generate "poisson:rate=2,requests=12,prompt=200,output=uniform(20,60)" --kv-blocks 60 --batch 4
                  --systems MyEngine,Second,VllmSwap --out ${WORK}/report --quiet)
must_say("${text}" "MyEngine" "mine")
must_say("${text}" "VllmSwap" "mine")
file(READ ${WORK}/report/report.json report)
string(JSON name ERROR_VARIABLE wrong GET "${report}" systems 0 name)
if(NOT name STREQUAL "MyEngine")
  message(FATAL_ERROR "report.json begins with '${name}' (${wrong}), not with MyEngine")
endif()
must_say("${report}" "\"command\": ?\"mine --generate" "report.json")
foreach(row IN ITEMS 0 1) # two names for one type
  string(JSON engine GET "${report}" systems ${row} engine)
  must_say("${engine}" "^Engine<PreemptLargest, " "the engine of row ${row} of report.json")
endforeach()
file(GLOB_RECURSE rules ${WORK}/prefix/sluiceProgramsBuilt.cmake)
file(READ ${rules} rules)
if(NOT rules MATCHES "rules own") # SLUICE_COMPARE_RULES=all
  step(ignored ${mine} --limit 5 --systems MyEngine --transfer fair-share --quiet)
endif()
execute_process(COMMAND ${mine} --systems YourEngine RESULT_VARIABLE status ERROR_VARIABLE text)
must_say("${text}" "^mine: --systems: there is no system 'YourEngine'" "mine with a system that is not there")

# The guarantees of every engine.
step(text ${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build --output-on-failure)
must_say("${text}" "mine_conserves [.]+ +Passed" "ctest of the template")

# Fewer systems, and mistakes in the call: each is one sentence.
foreach(pair IN ITEMS "MyEngine=my_engine.hpp SYSTEMS Nobody|there is no system 'Nobody'"
                      "MyEngine=my_engine.hpp SYSTEMS vllmSwa|there is no system 'vllmSwa' [(]did you mean VllmSwap[?][)]; expected"
                      "MyEngine=my_engine.hpp SYSTEMS|SYSTEMS names nothing"
                      "MyEngine=nowhere.hpp|there is no file [^ ]*/nowhere[.]hpp; expected the header that defines MyEngine"
                      "MyEngine=headers|there is no file [^ ]*/headers;"
                      "MyEngine|'MyEngine' names no engine and its header; expected"
                      "MyEngine=|'MyEngine=' names no engine and its header; expected"
                      "=my_engine.hpp|'=my_engine.hpp' names no engine and its header; expected"
                      "Of<3>=my_engine.hpp|'Of<3>=my_engine.hpp' names no engine and its header; expected"
                      "my::E=my_engine.hpp your::E=my_engine.hpp|my::E and your::E would both be the system E"
                      "VllmSwap=my_engine.hpp|is a published system's name" "my::all=my_engine.hpp|is a published system's name"
                      "MyEngine=my_engine.hpp)\nsluice_add_comparison(mine MyEngine=my_engine.hpp|there is a target mine already"
                      "MyEngine=my_engine.hpp)\nsluice_add_comparison(A=my_engine.hpp|'A=my_engine.hpp' is no name of a program; expected"
                      "|there is no engine of yours")
  string(REGEX MATCH "^(.*)[|](.*)$" matched "${pair}")
  set(arguments "${CMAKE_MATCH_1}")
  set(sentence "${CMAKE_MATCH_2}")
  call_with("${arguments}")
  execute_process(COMMAND ${configure} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE text)
  if(status EQUAL 0)
    message(FATAL_ERROR "sluice_add_comparison(mine ${arguments}) was accepted")
  endif()
  string(REGEX REPLACE "[\n ]+" " " text "${text}")
  must_say("${text}" "${sentence}" "sluice_add_comparison(mine ${arguments})")
endforeach()

# Only the compiler can detect a type that does not exist or is no engine: its first line reports it.
file(GLOB_RECURSE concept ${WORK}/prefix/own_engine.hpp)
cmake_path(GET concept PARENT_PATH folder)
foreach(pair IN ITEMS "Nobody|^[^\n]*own_Nobody.hpp:[0-9:]+ error: [^\n]*Nobody.*// sluice_add_comparison[(]mine own::Nobody=headers/bare.h[)]: expected a type that this header defines"
                      "Bare|^[^\n]*own_Bare.hpp:[0-9:]+ error: [^\n]*own::Bare is no engine; expected a type")
  string(REGEX MATCH "^(.*)[|](.*)$" matched "${pair}")
  set(type ${CMAKE_MATCH_1})
  set(sentence "${CMAKE_MATCH_2}")
  call_with("own::${type}=headers/bare.h")
  step(ignored ${configure})
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${folder}/.. -include ${WORK}/build/mine.sluice/own_${type}.hpp -x c++ /dev/null
                  RESULT_VARIABLE status ERROR_VARIABLE text)
  if(status EQUAL 0)
    message(FATAL_ERROR "own::${type} of headers/bare.h is no engine, and compiles")
  endif()
  string(REGEX REPLACE "^In file included from [^\n]*\n" "" text "${text}")
  must_say("${text}" "${sentence}" "the compiler of own::${type}")
endforeach()

# Two engines from one header, which is given by an absolute path.
call_with("MyEngine=${headers}/second.h own::deep::Second=headers/second.h")
step(ignored ${configure})

# The other programs, with a product of the user's policies.
file(WRITE ${WORK}/template/my_space.hpp "#pragma once
#include \"my_engine.hpp\"
#include \"explore/names.hpp\"
#include <cstddef>
namespace explored {
using Compositions = sluice::Product<sluice::Choices<sluice::PreemptNewest, PreemptLargest>>;
inline constexpr const char* product_name = \"mine\";
inline constexpr std::size_t parts = 1;
}
")
file(WRITE ${headers}/no_parts.hpp "#pragma once\n")
string(REPLACE "sluice_add_comparison(" "sluice_add_programs(" call "${call}")
foreach(pair IN ITEMS "PROGRAMS serv|there is no program 'serv' [(]did you mean serve[?][)]; expected all, none, or any of compare, explore, fleet, run, serve"
                      "SPACE my_space.hpp|SPACE is for mine-explore; expected PROGRAMS with explore"
                      "PROGRAMS explore SPACE nowhere.hpp|there is no file [^ ]*/nowhere[.]hpp; expected the header that defines the product"
                      "PROGRAMS explore SPACE headers/no_parts.hpp|there is no number of parts; expected a line"
                      "SYSTEMS AllResident|there is no system 'AllResident'")
  string(REGEX MATCH "^(.*)[|](.*)$" matched "${pair}")
  set(arguments "${CMAKE_MATCH_1}")
  set(sentence "${CMAKE_MATCH_2}")
  call_with("MyEngine=my_engine.hpp ${arguments}")
  execute_process(COMMAND ${configure} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE text)
  if(status EQUAL 0)
    message(FATAL_ERROR "sluice_add_programs(mine MyEngine=my_engine.hpp ${arguments}) was accepted")
  endif()
  string(REGEX REPLACE "[\n ]+" " " text "${text}")
  must_say("${text}" "${sentence}" "sluice_add_programs(mine MyEngine=my_engine.hpp ${arguments})")
endforeach()
string(REGEX MATCH "sluice_program_kinds \"([^\"]*)\"" matched "${rules}")
set(kinds "${CMAKE_MATCH_1}")
string(REPLACE ";" " " programs "${kinds}")
call_with("MyEngine=my_engine.hpp PROGRAMS ${programs} SYSTEMS VllmSwap SPACE my_space.hpp")
step(ignored ${configure})
foreach(kind IN LISTS kinds)
  step(ignored ${CMAKE_COMMAND} --build ${WORK}/build --target mine-${kind})
  step(text ${mine}-${kind} --help)
  must_say("${text}" "mine-${kind}" "mine-${kind} --help")
endforeach()
foreach(kind IN ITEMS compare run serve)
  if(kind IN_LIST kinds)
    step(text ${mine}-${kind} --list)
    if(text MATCHES "\nOrbitFlow ")
      message(FATAL_ERROR "SYSTEMS VllmSwap leaves OrbitFlow in mine-${kind}:\n${text}")
    endif()
    must_say("${text}" "^VllmSwap [^\n]*\nMyEngine +yours, of my_engine[.]hpp" "mine-${kind} --list with SYSTEMS VllmSwap")
  endif()
endforeach()
step(text ${mine}-explore --limit 5 --quiet)
must_say("${text}" "Engine<PreemptLargest>" "mine-explore")
if(text MATCHES "published system[^.]*MyEngine")
  message(FATAL_ERROR "mine-explore takes MyEngine for a published system:\n${text}")
endif()
if("run" IN_LIST kinds)
  step(text ${mine}-run --model tiny --system MyEngine --prompt-ids 1,2,3 --max-tokens 2)
  must_say("${text}" "system +MyEngine on tiny" "mine-run")
endif()

# What is installed: the programs, and the model that comes with them.
step(text ${WORK}/prefix/bin/sluice-compare --list)
must_say("${text}" "\nOrbitFlow " "the installed sluice-compare --list")
if(NOT EXISTS ${WORK}/prefix/share/sluice/models/demo/config.json)
  message(FATAL_ERROR "the demo model is not installed")
endif()
