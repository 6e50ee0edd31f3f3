# The only list of headers: the architecture checks, the umbrellas and the ODR sentinel all glob through this.

# A header that needs a library says so in the name of a folder on its path: the line `libraries:` of layers.txt.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/layers.txt SLUICE_LIBRARY_FOLDERS REGEX "^libraries:")
string(REGEX REPLACE "^libraries: *" "" SLUICE_LIBRARY_FOLDERS "${SLUICE_LIBRARY_FOLDERS}")
string(REPLACE " " ";" SLUICE_LIBRARY_FOLDERS "${SLUICE_LIBRARY_FOLDERS}")

# sluice_headers(<include folder> <out> [WITH <library folder>...])
# All headers below, relative to the include folder and sorted, without the umbrellas (sluice/<name>.hpp, which are made
# from this list) and without those that need a library other than the ones named.
function(sluice_headers include_folder out)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "WITH")
  set(depends CONFIGURE_DEPENDS)
  if(CMAKE_SCRIPT_MODE_FILE)
    set(depends "")
  endif()
  file(GLOB_RECURSE found ${depends} RELATIVE "${include_folder}" "${include_folder}/sluice/*.hpp")
  list(FILTER found EXCLUDE REGEX "^sluice/[^/]+$")
  foreach(library IN LISTS SLUICE_LIBRARY_FOLDERS)
    if(NOT library IN_LIST arg_WITH)
      list(FILTER found EXCLUDE REGEX "/${library}/")
    endif()
  endforeach()
  list(SORT found)
  set(${out} "${found}" PARENT_SCOPE)
endfunction()
