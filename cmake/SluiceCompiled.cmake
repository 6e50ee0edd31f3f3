# sluice::compiled holds code that programs can link instead of compiling it: the engine's core, the planner, the
# evaluators and every published engine (include/sluice/core/compiled.hpp). Linking it defines SLUICE_COMPILED.
#
# Built from the headers: a source file for each file of include/sluice/compiled and for each header of
# include/sluice/systems, written here. The library is built only if a target links it or Sluice is installed.

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
