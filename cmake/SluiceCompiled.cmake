# Libraries of definitions that programs can link instead of compiling them (include/sluice/core/compiled.hpp):
#
#   sluice::compiled   the engine's core, the planner, the evaluators, workloads, and every published engine
#   sluice::readers    traces, configurations and other files; with nlohmann_json
#   sluice::model      tokenizers and checkpoints; with nlohmann_json, and ICU where it is installed
#   sluice::report     tables, pages, CSV and JSON
#   sluice::server     the OpenAI API and its transport; with Boost and nlohmann_json
#
# Their sources are written here, from the headers: what the macro of a `.inl.hpp` says belongs to a library, a source
# file for each folder; and a source file for each header of include/sluice/engine/systems. A library is built only if a
# target links it or Sluice is installed.

# sluice_library_sources(<out> <macro> <begin>...): a source file for each folder below include/ whose path begins so, with
# its `.inl.hpp` whose functions are <macro>.
function(sluice_library_sources out macro)
  set(include ${PROJECT_SOURCE_DIR}/include)
  set(generated ${PROJECT_BINARY_DIR}/compiled)
  set(sources "")
  set(folders "")
  file(GLOB_RECURSE parts CONFIGURE_DEPENDS RELATIVE ${include} ${include}/sluice/*.inl.hpp)
  list(SORT parts)
  list(JOIN ARGN "|" begin)
  foreach(part IN LISTS parts)
    if(NOT part MATCHES "^(${begin})")
      continue()
    endif()
    file(STRINGS ${include}/${part} own LIMIT_COUNT 1 REGEX "^${macro} ")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${include}/${part}) # its macro may change
    set(missing FALSE)
    foreach(library IN ITEMS icu isal openssl)
      if(part MATCHES "/${library}/" AND NOT TARGET sluice::${library})
        set(missing TRUE)
      endif()
    endforeach()
    if(own AND NOT missing)
      cmake_path(GET part PARENT_PATH folder)
      string(REGEX REPLACE "^sluice/" "" folder ${folder})
      string(REPLACE "/" "_" folder ${folder})
      list(APPEND folders ${folder})
      string(APPEND text_${folder} "#include \"${part}\"\n")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  string(TOLOWER ${macro} library) # two libraries may have headers in one folder
  foreach(folder IN LISTS folders)
    file(CONFIGURE OUTPUT ${generated}/${library}/${folder}.cpp CONTENT "${text_${folder}}")
    list(APPEND sources ${generated}/${library}/${folder}.cpp)
  endforeach()
  set(${out} "${sources}" PARENT_SCOPE)
endfunction()

# sluice_compiled_library(<target>): the sources are the same for every target; the caller sets its flags.
function(sluice_compiled_library target)
  set(include ${PROJECT_SOURCE_DIR}/include)
  set(generated ${PROJECT_BINARY_DIR}/compiled)
  set(sources "")
  file(GLOB parts CONFIGURE_DEPENDS RELATIVE ${include} ${include}/sluice/engine/compiled/*.inl.hpp)
  foreach(part IN LISTS parts)
    cmake_path(GET part STEM name) # up to its first dot
    file(CONFIGURE OUTPUT ${generated}/${name}.cpp CONTENT "#include \"${part}\"\n")
    list(APPEND sources ${generated}/${name}.cpp)
  endforeach()
  # The core and the planner come with the files of engine/compiled, which also instantiate templates.
  sluice_library_sources(libraries SLUICE_INLINE sluice/model/ sluice/records/ sluice/report/ sluice/serve/ sluice/workload/)
  list(APPEND sources ${libraries})
  # A header of systems says `extern template class BasicEngine<Name::composition>;` for each of its engines.
  file(GLOB systems CONFIGURE_DEPENDS RELATIVE ${include} ${include}/sluice/engine/systems/*.hpp)
  foreach(system IN LISTS systems)
    cmake_path(GET system STEM name)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${include}/${system})
    file(STRINGS ${include}/${system} engines REGEX "^extern template class BasicEngine<")
    if(NOT engines)
      message(FATAL_ERROR "${system} has no line `extern template class BasicEngine<Name::composition>;`: "
                          "sluice::compiled would not hold its engines")
    endif()
    set(text "#include \"${system}\"\n")
    foreach(engine IN LISTS engines)
      string(REGEX MATCH "BasicEngine<([A-Za-z0-9]+)::composition>" matched "${engine}")
      string(APPEND text "template class sluice::BasicEngine<sluice::${CMAKE_MATCH_1}::composition>;\n")
    endforeach()
    file(CONFIGURE OUTPUT ${generated}/system_${name}.cpp CONTENT "${text}")
    list(APPEND sources ${generated}/system_${name}.cpp)
  endforeach()
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(${target} PUBLIC sluice)
  target_compile_definitions(${target} PUBLIC SLUICE_COMPILED)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON) # a plug-in or a Python module may link it
endfunction()

sluice_compiled_library(sluice_compiled)
add_library(sluice::compiled ALIAS sluice_compiled)
set_target_properties(sluice_compiled PROPERTIES EXPORT_NAME compiled)

# sluice_compiled_part(<target> <library> MACRO <macro> LINKS <targets>...): one of the other libraries, on top of the targets
# that it links. Those are linked in this build alone: what is installed names packages as components do
# (sluiceConfig.cmake.in).
function(sluice_compiled_part target library)
  cmake_parse_arguments(PARSE_ARGV 2 part "" "MACRO" "LINKS")
  sluice_library_sources(sources ${part_MACRO}_INLINE "sluice/")
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${sources})
  foreach(link IN LISTS part_LINKS)
    if(NOT TARGET ${link}) # an optional package
      continue()
    endif()
    if(link MATCHES "^sluice::")
      target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:${link}>)
    else()
      target_link_libraries(${target} PUBLIC ${link})
    endif()
  endforeach()
  target_compile_definitions(${target} PUBLIC ${part_MACRO}_COMPILED)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# sluice_compiled_parts(<suffix>): all of them on top of sluice_compiled<suffix>, as far as their packages are there.
function(sluice_compiled_parts suffix)
  sluice_compiled_part(sluice_report${suffix} report MACRO SLUICE_REPORT LINKS sluice_compiled${suffix})
  if(TARGET sluice::nlohmann)
    sluice_compiled_part(sluice_readers${suffix} readers MACRO SLUICE_READERS LINKS sluice_compiled${suffix} sluice::nlohmann)
    sluice_compiled_part(sluice_model${suffix} model MACRO SLUICE_MODEL LINKS sluice_readers${suffix} sluice::icu)
    if(TARGET sluice::beast)
      sluice_compiled_part(sluice_server${suffix} server MACRO SLUICE_SERVER
                           LINKS sluice_model${suffix} sluice_report${suffix} sluice::beast)
    endif()
  endif()
endfunction()

sluice_compiled_parts("")
foreach(library IN ITEMS readers model report server)
  if(TARGET sluice_${library})
    add_library(sluice::${library} ALIAS sluice_${library})
    set_target_properties(sluice_${library} PROPERTIES EXPORT_NAME ${library})
  endif()
endforeach()
