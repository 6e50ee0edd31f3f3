# sluice_add_programs(<prefix> <Type>=<header>... [PROGRAMS compare|explore|run|serve|all...] [SYSTEMS <name>...|all|none]
#                     [SPACE <header>])
#
# The programs <prefix>-compare, <prefix>-explore, ... are sluice-compare, sluice-explore, ... that have your own engines
# next to the published systems, for projects that find_package(sluice COMPONENTS programs). Without PROGRAMS it makes
# <prefix>-compare alone.
#
#   sluice_add_programs(mine MyEngine=my_engine.hpp PROGRAMS compare run serve)      # with all published systems
#   sluice_add_programs(mine my::Engine=engines/my.h my::Other=engines/my.h SYSTEMS VllmSwap OrbitFlow)
#
# <Type> is an engine type (or an alias of one, which a template's needs) that <header> defines: a path, relative to the
# caller's folder, of any ending. Its row has the name after the last "::". The programs do everything that Sluice's do:
# flags, transfer rules, seeds, report, the OpenAI API. Published systems come compiled: only one unit for each engine of
# yours, and the list, are built here. An engine that runs or serves must run on a real machine, so PROGRAMS with run or
# serve compile each engine a second time, for that machine.
#
# SPACE is the header of a product of policies, which <prefix>-explore ranks (docs/explore.md); without it the small one
# that sluice-explore has.
#
# sluice_add_comparison(<program> <Type>=<header>... [SYSTEMS ...]) is the comparison alone, under the name <program>.
#
# A test program <prefix>_conserves (and a test of that name, if testing is on) also checks each engine's invariants: in
# random small worlds and traces it loses no token and uses no memory that does not exist.

# sluice_add_space(<target> <header> <folder>): adds the product of `header`, in which `parts = N` stands, to a program on
# sluice::exploration: a unit for each part. <folder> has the programs' headers. -O1: each engine runs only once, so
# compile time matters more than run time.
function(sluice_add_space target header folder)
  file(STRINGS ${header} parts REGEX "size_t parts = [0-9]+")
  if(NOT parts MATCHES "parts = ([1-9][0-9]*)")
    message(FATAL_ERROR "${header}: there is no number of parts; expected a line `inline constexpr std::size_t parts = N;` "
                        "(docs/explore.md)")
  endif()
  math(EXPR last "${CMAKE_MATCH_1} - 1")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  set(common ${target}_space)
  add_library(${common} INTERFACE)
  target_include_directories(${common} INTERFACE ${folder})
  target_compile_definitions(${common} INTERFACE SLUICE_EXPLORE_SPACE="${header}")
  target_compile_options(${common} INTERFACE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${common} INTERFACE $<IF:$<TARGET_EXISTS:sluice_programs>,sluice_programs,sluice::engines>)
  add_library(${target}_roles OBJECT ${folder}/explore/space.cpp)
  target_link_libraries(${target}_roles PRIVATE ${common})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_roles>)
  foreach(part RANGE ${last})
    add_library(${target}_part_${part} OBJECT ${folder}/explore/part.cpp)
    target_compile_definitions(${target}_part_${part} PRIVATE SLUICE_EXPLORE_PART=${part})
    target_link_libraries(${target}_part_${part} PRIVATE ${common})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_part_${part}>)
  endforeach()
endfunction()

if(NOT DEFINED sluice_programs_folder) # Sluice's own build does not need the rest
  return()
endif()

# sluice_own_file(<out> <path> <call> <what>): the absolute path of a header of the caller's, which must exist.
function(sluice_own_file out path call what)
  cmake_path(ABSOLUTE_PATH path BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE file)
  if(NOT EXISTS ${file} OR IS_DIRECTORY ${file})
    message(FATAL_ERROR "${call}: there is no file ${file}; expected the header that ${what}")
  endif()
  set(${out} ${file} PARENT_SCOPE)
endfunction()

# sluice_own_names(<out> <call> <kind> <wanted> <all>): the list `wanted`, with "all" and "none" spelt out. Each name must
# be in `all`; the error suggests the shortest one that begins with what was written.
function(sluice_own_names out call kind wanted all)
  if(wanted STREQUAL "all")
    set(wanted "${all}")
  elseif(wanted STREQUAL "none")
    set(wanted "")
  endif()
  foreach(name IN LISTS wanted)
    if(NOT name IN_LIST all)
      string(TOLOWER "${name}" meant)
      set(nearest "")
      set(least 1000)
      foreach(known IN LISTS all)
        string(TOLOWER "${known}" spelt)
        string(FIND "${spelt}" "${meant}" at)
        string(LENGTH "${known}" length)
        if(at EQUAL 0 AND length LESS least)
          set(nearest " (did you mean ${known}?)")
          set(least ${length})
        endif()
      endforeach()
      list(JOIN all ", " names)
      message(FATAL_ERROR "${call}: there is no ${kind} '${name}'${nearest}; expected all, none, or any of ${names}")
    endif()
  endforeach()
  set(${out} "${wanted}" PARENT_SCOPE)
endfunction()

# sluice_own_engines(<prefix> <call> <expected> <real> <pair>...): the object library <prefix>_engines with a unit for each
# Type=header, and in the caller's scope `names` (of the rows) and `headers` (which define them). `real`: engines are also
# compiled for real machines.
function(sluice_own_engines prefix call expected real)
  set(entry simulated_entry)
  if(real)
    set(entry entry)
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${prefix}.sluice)
  set(units "")
  set(names "")
  set(headers "")
  foreach(pair IN LISTS ARGN)
    if(NOT pair MATCHES "^(::)?(([A-Za-z_][A-Za-z0-9_]*::)*([A-Za-z_][A-Za-z0-9_]*))=(.+)$")
      message(FATAL_ERROR "${call}: '${pair}' names no engine and its header; ${expected}")
    endif()
    set(type ${CMAKE_MATCH_2})
    set(SYSTEM ${CMAKE_MATCH_4})
    set(given ${CMAKE_MATCH_5})
    sluice_own_file(header ${given} "${call}" "defines ${type}")
    if(SYSTEM IN_LIST sluice_published_systems OR SYSTEM IN_LIST sluice_only_real_systems OR SYSTEM STREQUAL "all") # which --systems reads as all systems
      message(FATAL_ERROR "${call}: ${SYSTEM} is a published system's name; expected another name for yours (an alias "
                          "will do)")
    endif()
    if(DEFINED type_of_${SYSTEM}) # each name has one row and one file
      message(FATAL_ERROR "${call}: ${type_of_${SYSTEM}} and ${type} would both be the system ${SYSTEM}; expected last "
                          "names that differ (an alias of another name will do)")
    endif()
    set(type_of_${SYSTEM} ${type})
    # The units include a file that this function writes, and name an alias, so that neither the header's name nor other
    # uses of the engine's name can clash. If the type does not exist, the compiler's error shows the alias's line.
    set(HEADER ${folder}/own_${SYSTEM})
    string(REGEX REPLACE "[)]$" " ${pair})" of "${call}")
    file(CONFIGURE OUTPUT ${HEADER}.hpp @ONLY CONTENT "// Generated of ${of}.
#pragma once
#include \"${header}\"
#include \"engines/own_engine.hpp\"

namespace sluice_own {
using ${SYSTEM} = ::${type}; // ${of}: expected a type that this header defines
static_assert(engines::OwnEngine<${SYSTEM}>,
              \"sluice: ${of}: ${type} is no engine; expected a type that sluice::Engine<...> or sluice::With<...> makes\");
} // namespace sluice_own
")
    file(CONFIGURE OUTPUT ${HEADER}.cpp @ONLY CONTENT "// Generated of ${of}.
#include \"${HEADER}.hpp\"
#include \"engines/entry.hpp\"

namespace engines {
System own_${SYSTEM}();
System own_${SYSTEM}() { return ${entry}<::sluice_own::${SYSTEM}>(\"${SYSTEM}\", \"yours, of ${given}\"); }
} // namespace engines
")
    list(APPEND units ${HEADER}.cpp)
    list(APPEND names ${SYSTEM})
    list(APPEND headers ${HEADER}.hpp)
  endforeach()
  add_library(${prefix}_engines OBJECT ${units})
  target_link_libraries(${prefix}_engines PRIVATE sluice::engines)
  set(names ${names} PARENT_SCOPE)
  set(headers ${headers} PARENT_SCOPE)
endfunction()

# sluice_own_program(<program> <prefix> <library> <names> <systems>): a program of that library with the engines of
# <prefix>_engines and these published systems.
function(sluice_own_program program prefix library names systems)
  set(declarations "") # strings: a semicolon would separate a list's items
  foreach(name IN LISTS names)
    string(APPEND declarations "System own_${name}();\n")
  endforeach()
  list(TRANSFORM names REPLACE "(.+)" "own_\\1()" OUTPUT_VARIABLE own)
  list(JOIN own ", " own)
  list(TRANSFORM systems REPLACE "(.+)" "\"\\1\"" OUTPUT_VARIABLE published)
  list(LENGTH published count)
  list(JOIN published ", " published)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${prefix}.sluice/${program}.cpp)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT "// Generated: the list of systems of ${program}.
#include \"engines/program.hpp\"
#include \"engines/registry.hpp\"

#include <array>

namespace engines {
${declarations}
const char* program_name() { return \"${program}\"; }
std::span<const System> systems() {
  static const std::array<std::string_view, ${count}> named{${published}};
  static const std::vector<System> table = with_own(named, {${own}});
  return table;
}
} // namespace engines
")
  add_executable(${program} ${file} $<TARGET_OBJECTS:${prefix}_engines>)
  target_link_libraries(${program} PRIVATE ${library})
endfunction()

# sluice_own_trials(<prefix> <names> <headers>): the program and the test <prefix>_conserves.
function(sluice_own_trials prefix names headers)
  find_package(doctest QUIET)
  if(NOT doctest_FOUND)
    message(STATUS "SKIPPED: ${prefix}_conserves: doctest is missing")
    return()
  endif()
  list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"\n")
  list(JOIN headers "" includes)
  list(TRANSFORM names REPLACE "(.+)" "SLUICE_CONSERVES(\\1)\n")
  list(JOIN names "" uses)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${prefix}.sluice/conserves.cpp)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT "#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
${includes}#include \"engine/trials.hpp\"\nnamespace sluice_own {\n${uses}}\n")
  add_executable(${prefix}_conserves ${file})
  target_link_libraries(${prefix}_conserves PRIVATE sluice::sluice doctest::doctest)
  target_include_directories(${prefix}_conserves PRIVATE ${sluice_programs_folder})
  target_compile_definitions(${prefix}_conserves PRIVATE SLUICE_CHECKED=1) # assertions, whatever the build type
  add_test(NAME ${prefix}_conserves COMMAND ${prefix}_conserves)
endfunction()

# sluice_own_call(<function> <prefix> <the call's other arguments>...): what both functions do.
function(sluice_own_call function prefix)
  set(call "${function}(${prefix})")
  set(lists SYSTEMS)
  set(expected "expected ${function}(program Type=header.hpp... [SYSTEMS name...|all|none])")
  if(function STREQUAL "sluice_add_programs")
    list(APPEND lists PROGRAMS SPACE)
    set(expected "expected ${function}(prefix Type=header.hpp... [PROGRAMS name...|all] [SYSTEMS name...|all|none] "
                 "[SPACE header.hpp])")
    string(JOIN "" expected ${expected})
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 own "" "" "${lists}")
  if(NOT prefix MATCHES "^[A-Za-z0-9_.+-]+$")
    message(FATAL_ERROR "${call}: '${prefix}' is no name of a program; ${expected}")
  endif()
  if(NOT own_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${call}: there is no engine of yours; ${expected}")
  endif()
  foreach(list IN LISTS own_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "${call}: ${list} names nothing; ${expected}")
  endforeach()
  if(NOT DEFINED own_SYSTEMS)
    set(own_SYSTEMS all)
  endif()
  if(NOT DEFINED own_PROGRAMS)
    set(own_PROGRAMS compare)
  endif()
  sluice_own_names(programs "${call}" program "${own_PROGRAMS}" "${sluice_program_kinds}")
  set(real OFF)
  set(known ${sluice_published_systems})
  if("run" IN_LIST programs OR "serve" IN_LIST programs)
    set(real ON)
    list(APPEND known ${sluice_only_real_systems})
  endif()
  sluice_own_names(systems "${call}" system "${own_SYSTEMS}" "${known}")
  if(DEFINED own_SPACE AND NOT "explore" IN_LIST programs)
    message(FATAL_ERROR "${call}: SPACE is for ${prefix}-explore; expected PROGRAMS with explore")
  endif()
  set(library_of_compare comparison)
  set(library_of_explore exploration)
  set(library_of_fleet fleets)
  set(library_of_run running)
  set(library_of_serve serving)
  foreach(kind IN LISTS programs)
    set(name_of_${kind} ${prefix}-${kind})
    if(function STREQUAL "sluice_add_comparison")
      set(name_of_${kind} ${prefix})
    endif()
    if(TARGET ${name_of_${kind}})
      message(FATAL_ERROR "${call}: there is a target ${name_of_${kind}} already; expected another name")
    endif()
  endforeach()
  sluice_own_engines(${prefix} "${call}" "${expected}" ${real} ${own_UNPARSED_ARGUMENTS})
  foreach(kind IN LISTS programs)
    sluice_own_program(${name_of_${kind}} ${prefix} sluice::${library_of_${kind}} "${names}" "${systems}")
  endforeach()
  if("explore" IN_LIST programs)
    set(space ${sluice_programs_folder}/explore/small.hpp)
    if(DEFINED own_SPACE)
      sluice_own_file(space "${own_SPACE}" "${call}" "defines the product (docs/explore.md)")
    endif()
    sluice_add_space(${prefix}-explore ${space} ${sluice_programs_folder})
  endif()
  sluice_own_trials(${prefix} "${names}" "${headers}")
endfunction()

function(sluice_add_programs prefix)
  sluice_own_call(sluice_add_programs ${prefix} ${ARGN})
endfunction()
function(sluice_add_comparison program)
  sluice_own_call(sluice_add_comparison ${program} ${ARGN})
endfunction()
