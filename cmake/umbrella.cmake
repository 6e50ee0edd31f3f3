# Writes include/sluice/sluice.hpp: every header that needs the standard library alone, in the order of the layers.
# Run by `make umbrella`; tests/architecture fails when the file is stale, so nobody edits it by hand.
cmake_minimum_required(VERSION 3.25)
cmake_path(SET root NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/..")
include(${CMAKE_CURRENT_LIST_DIR}/headers.cmake)
sluice_headers("${root}/include" headers)

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/layers.txt" lines REGEX "^[a-z]")
set(folders "")
foreach(line IN LISTS lines)
  if(NOT line MATCHES "->|:")
    string(REPLACE " " ";" names "${line}")
    list(APPEND folders ${names})
  endif()
endforeach()

string(CONCAT text "// SPDX-License-Identifier: Apache-2.0\n" "// Everything that needs the standard library alone. Written by `make umbrella`.\n"
              "#pragma once\n\n"
              "// In the order of the layers, which the formatter would sort away.\n" "// clang-format off\n")
foreach(folder IN LISTS folders)
  foreach(header IN LISTS headers)
    if(header MATCHES "^sluice/${folder}/")
      string(APPEND text "#include \"${header}\"\n")
    endif()
  endforeach()
endforeach()
string(APPEND text "// clang-format on\n")
file(WRITE "${root}/include/sluice/sluice.hpp" "${text}")
