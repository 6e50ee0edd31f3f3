# sluice_write_pages(<folder>): writes <folder>/sluice/report/pages/files.hpp, which holds the files of
# include/sluice/report/pages as strings: one constant for each file, and, for each script that no other imports, an
# array of its modules, imported ones first.
#
# It runs when CMake configures, and again when one of the files changes: `sluice` is an interface target, so a header
# made at build time would have to be a dependency of every target that links it. Rejected: a generated header in the
# checkout, which would duplicate everything; `.incbin`, whose paths the user's compiler would need.
#
# To use the headers without CMake's targets, run `cmake -DINTO=<folder> -P cmake/pages.cmake` and add the folder to the
# include path.
cmake_minimum_required(VERSION 3.25)
cmake_path(SET sluice_pages NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../include/sluice/report/pages")

# sluice_page_modules(<module> <out>): appends to <out> what the module imports, then itself; nothing twice.
function(sluice_page_modules module out)
  if(NOT module IN_LIST ${out})
    foreach(import IN LISTS imports_of_${module})
      sluice_page_modules(${import} ${out})
    endforeach()
    list(APPEND ${out} ${module})
    set(${out} "${${out}}" PARENT_SCOPE)
  endif()
endfunction()

function(sluice_write_pages into)
  file(GLOB files RELATIVE ${sluice_pages} ${sluice_pages}/*.js ${sluice_pages}/*.css ${sluice_pages}/*.html)
  list(SORT files)
  set(constants "")
  set(modules "")
  set(imported "")
  foreach(file IN LISTS files)
    file(READ ${sluice_pages}/${file} text)
    string(REGEX REPLACE "^[^\n]*SPDX[^\n]*\n" "" text "${text}") # a page has one licence, not thirty
    cmake_path(GET file STEM name)
    if(file MATCHES "[.]js$")
      # All modules of a page become one script, so their imports are removed.
      string(REGEX MATCHALL "from '[.]/[a-z_]+" imports "${text}")
      list(TRANSFORM imports REPLACE "from '[.]/" "")
      string(REGEX REPLACE "import {[^}]*} from '[^']*';\n" "" text "${text}")
      string(REGEX REPLACE "\nexport " "\n" text "${text}")
      set(imports_of_${name} ${imports})
      list(APPEND modules ${name})
      list(APPEND imported ${imports})
    endif()
    string(MAKE_C_IDENTIFIER ${file} constant)
    string(APPEND constants "inline constexpr std::string_view ${constant} = R\"page(${text})page\";\n")
  endforeach()
  list(REMOVE_ITEM modules ${imported})
  foreach(page IN LISTS modules)
    set(script "")
    sluice_page_modules(${page} script)
    list(TRANSFORM script APPEND "_js")
    list(JOIN script ", " script)
    string(APPEND constants "inline constexpr std::string_view ${page}_script[] = {${script}};\n")
  endforeach()
  set(text "// SPDX-License-Identifier: Apache-2.0
// The files of include/sluice/report/pages. Written by cmake/pages.cmake.
#pragma once

#include <string_view>

namespace sluice::pages {
${constants}} // namespace sluice::pages
")
  set(header ${into}/sluice/report/pages/files.hpp)
  set(there "")
  if(EXISTS ${header})
    file(READ ${header} there)
  endif()
  if(NOT there STREQUAL text) # an unchanged file is not rewritten, or all files that include it would be recompiled
    file(WRITE ${header} "${text}")
  endif()
  if(NOT CMAKE_SCRIPT_MODE_FILE)
    list(TRANSFORM files PREPEND ${sluice_pages}/)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files} ${sluice_pages})
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  sluice_write_pages("${INTO}")
endif()
