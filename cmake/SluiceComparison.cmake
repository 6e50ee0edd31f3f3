# sluice_add_comparison(<program> <Type>=<header>... [SYSTEMS <name>...|all|none]): a sluice-compare called <program>
# that has your own engines next to the published systems, for projects that find_package(sluice COMPONENTS comparison).
#
#   sluice_add_comparison(mine MyEngine=my_engine.hpp)                     # with all published systems
#   sluice_add_comparison(mine my::Engine=engines/my.h my::Other=engines/my.h SYSTEMS VllmSwap OrbitFlow)
#
# <Type> is an engine type (or an alias of one, which a template's needs) that <header> defines: a path, relative to the
# caller's folder, of any ending. Its row has the name after the last "::". <program> does everything that
# sluice-compare does: flags, transfer rules, seeds, report. Published systems come compiled, so only one unit for each
# engine of yours, and the table, are built here.
#
# A test program <program>_conserves (and a test of that name, if testing is on) also checks each engine's invariants:
# in random small worlds and traces it loses no token and uses no memory that does not exist.

if(NOT DEFINED sluice_comparison_folder) # Sluice's own build does not need the rest
  return()
endif()

function(sluice_add_comparison program)
  cmake_parse_arguments(PARSE_ARGV 1 own "" "" "SYSTEMS")
  set(expected "expected sluice_add_comparison(program Type=header.hpp... [SYSTEMS name...|all|none])")
  if(NOT program MATCHES "^[A-Za-z0-9_.+-]+$")
    message(FATAL_ERROR "sluice_add_comparison(${program}): '${program}' is no name of a program; ${expected}")
  endif()
  if(TARGET ${program})
    message(FATAL_ERROR "sluice_add_comparison(${program}): there is a target ${program} already; expected another name")
  endif()
  if(NOT own_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sluice_add_comparison(${program}): there is no engine of yours; ${expected}")
  endif()
  if("SYSTEMS" IN_LIST own_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "sluice_add_comparison(${program}): SYSTEMS names nothing; ${expected}")
  endif()
  set(names ${sluice_published_systems})
  set(wanted ${own_SYSTEMS})
  if(NOT DEFINED own_SYSTEMS OR wanted STREQUAL "all")
    set(wanted ${names})
  elseif(wanted STREQUAL "none")
    set(wanted "")
  endif()
  foreach(name IN LISTS wanted)
    if(NOT name IN_LIST names)
      string(TOLOWER "${name}" meant)
      set(nearest "") # the shortest name with this prefix
      set(least 1000)
      foreach(known IN LISTS names)
        string(TOLOWER "${known}" spelt)
        string(FIND "${spelt}" "${meant}" at)
        string(LENGTH "${known}" length)
        if(at EQUAL 0 AND length LESS least)
          set(nearest " (did you mean ${known}?)")
          set(least ${length})
        endif()
      endforeach()
      list(JOIN names ", " names)
      message(FATAL_ERROR "sluice_add_comparison(${program}): there is no system '${name}'${nearest}; expected all, "
                          "none, or any of ${names}")
    endif()
  endforeach()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${program}.sluice)
  set(units "")
  set(declarations "")
  set(own "")
  set(trials "")
  set(uses "")
  foreach(pair IN LISTS own_UNPARSED_ARGUMENTS)
    if(NOT pair MATCHES "^(::)?(([A-Za-z_][A-Za-z0-9_]*::)*([A-Za-z_][A-Za-z0-9_]*))=(.+)$")
      message(FATAL_ERROR "sluice_add_comparison(${program}): '${pair}' names no engine and its header; ${expected}")
    endif()
    set(type ${CMAKE_MATCH_2})
    set(SYSTEM ${CMAKE_MATCH_4})
    set(given ${CMAKE_MATCH_5})
    cmake_path(ABSOLUTE_PATH given BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE header)
    if(NOT EXISTS ${header} OR IS_DIRECTORY ${header})
      message(FATAL_ERROR "sluice_add_comparison(${program}): there is no file ${header}; expected the header that "
                          "defines ${type}")
    endif()
    if(SYSTEM IN_LIST names OR SYSTEM STREQUAL "all") # which --systems reads as all systems
      message(FATAL_ERROR "sluice_add_comparison(${program}): ${SYSTEM} is a published system's name; expected another "
                          "name for yours (an alias will do)")
    endif()
    if(DEFINED type_of_${SYSTEM}) # each name has one row and one file
      message(FATAL_ERROR "sluice_add_comparison(${program}): ${type_of_${SYSTEM}} and ${type} would both be the system "
                          "${SYSTEM}; expected last names that differ (an alias of another name will do)")
    endif()
    set(type_of_${SYSTEM} ${type})
    # The units include a file that this function writes, and name an alias, so that neither the header's name nor other
    # uses of the engine's name can clash. If the type does not exist, the compiler's error shows the alias's line.
    set(HEADER ${folder}/own_${SYSTEM})
    set(call "sluice_add_comparison(${program} ${pair})")
    file(CONFIGURE OUTPUT ${HEADER}.hpp @ONLY CONTENT "// Generated of ${call}.
#pragma once
#include \"${header}\"
#include \"engines/own_engine.hpp\"

namespace sluice_own {
using ${SYSTEM} = ::${type}; // ${call}: expected a type that this header defines
static_assert(engines::OwnEngine<${SYSTEM}>,
              \"sluice: ${call}: ${type} is no engine; expected a type that sluice::Engine<...> or sluice::With<...> makes\");
} // namespace sluice_own
")
    file(CONFIGURE OUTPUT ${HEADER}.cpp @ONLY CONTENT "// Generated of ${call}.
#include \"${HEADER}.hpp\"
#include \"engines/entry.hpp\"

namespace engines {
System own_${SYSTEM}();
System own_${SYSTEM}() { return simulated_entry<::sluice_own::${SYSTEM}>(\"${SYSTEM}\", \"yours, of ${given}\"); }
} // namespace engines
")
    list(APPEND units ${HEADER}.cpp)
    string(APPEND declarations "System own_${SYSTEM}();\n")
    list(APPEND own "engines::own_${SYSTEM}()")
    string(APPEND trials "#include \"${HEADER}.hpp\"\n")
    string(APPEND uses "SLUICE_CONSERVES(${SYSTEM})\n")
  endforeach()

  list(TRANSFORM wanted REPLACE "(.+)" "\"\\1\"")
  list(LENGTH wanted count)
  list(JOIN wanted ", " wanted)
  list(JOIN own ", " own)
  file(CONFIGURE OUTPUT ${folder}/systems.cpp @ONLY CONTENT "// Generated of sluice_add_comparison(${program} ...).
#include \"compare/run.hpp\"
#include \"engines/registry.hpp\"

#include <array>

namespace engines {
${declarations}} // namespace engines

namespace compared {
const char* program_name() { return \"${program}\"; }
std::span<const System> systems() {
  static const std::array<std::string_view, ${count}> published{${wanted}};
  static const std::vector<System> table = engines::with_own(published, {${own}});
  return table;
}
} // namespace compared
")
  add_executable(${program} ${units} ${folder}/systems.cpp)
  target_link_libraries(${program} PRIVATE sluice::comparison)

  find_package(doctest QUIET)
  if(NOT doctest_FOUND)
    message(STATUS "SKIPPED: ${program}_conserves: doctest is missing")
    return()
  endif()
  file(CONFIGURE OUTPUT ${folder}/conserves.cpp @ONLY
       CONTENT "#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
${trials}#include \"engine/trials.hpp\"\nnamespace sluice_own {\n${uses}}\n")
  add_executable(${program}_conserves ${folder}/conserves.cpp)
  target_link_libraries(${program}_conserves PRIVATE sluice::sluice doctest::doctest)
  target_include_directories(${program}_conserves PRIVATE ${sluice_comparison_folder})
  target_compile_definitions(${program}_conserves PRIVATE SLUICE_CHECKED=1) # assertions, whatever the build type
  add_test(NAME ${program}_conserves COMMAND ${program}_conserves)
endfunction()
