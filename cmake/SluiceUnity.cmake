# Unity builds of this project (CMAKE_UNITY_BUILD, on in the presets): a unit parses shared headers once and instantiates
# shared templates once, which cuts the compile time of a program's engines to a third. Turn it off while you edit one file
# repeatedly.
#
# CMake's own units include their files by absolute paths, so that no unit is the same in two clones, and a compiler cache
# of another clone never has it: not in ccache's direct mode, and not at all where a file says __FILE__, as all tests do.
# (UNITY_BUILD_RELOCATABLE is CMake 4.0's.) These units name their files from the source folder. As in CMake's,
# UNITY_BUILD_BATCH_SIZE is the number of files of a unit; SKIP_UNITY_BUILD_INCLUSION leaves a file out, and so do compile
# options or include folders of its own.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6 CACHE STRING "Files of a unit, where CMAKE_UNITY_BUILD is on")

# sluice_unity(<target>): replaces its C++ sources by units; the target's SLUICE_UNITY is then ON.
function(sluice_unity target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(written ${target} BINARY_DIR)
  get_target_property(batch ${target} UNITY_BUILD_BATCH_SIZE)
  set(kept "")
  set(text "")
  set(files 0)
  set(unit 0)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE OUTPUT_VARIABLE path)
    get_source_file_property(apart ${path} TARGET_DIRECTORY ${target} SKIP_UNITY_BUILD_INCLUSION)
    foreach(own IN ITEMS COMPILE_DEFINITIONS COMPILE_OPTIONS COMPILE_FLAGS INCLUDE_DIRECTORIES) # a unit would lose them
      get_source_file_property(value ${path} TARGET_DIRECTORY ${target} ${own})
      if(value)
        set(apart TRUE)
      endif()
    endforeach()
    if(NOT source MATCHES "^[^$]*[.]cpp$" OR apart)
      list(APPEND kept ${source})
      continue()
    endif()
    cmake_path(IS_PREFIX PROJECT_SOURCE_DIR ${path} NORMALIZE below)
    if(below)
      cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    endif()
    string(APPEND text "#include \"${path}\"\n")
    math(EXPR files "${files} + 1")
    if(files EQUAL batch)
      sluice_write_unit()
    endif()
  endforeach()
  if(files GREATER 0)
    sluice_write_unit()
  endif()
  set_target_properties(${target} PROPERTIES SOURCES "${kept}" UNITY_BUILD OFF SLUICE_UNITY ON)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

macro(sluice_write_unit) # of sluice_unity's variables
  set(file ${written}/unity/${target}/${unit}.cpp)
  file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
  list(APPEND kept ${file})
  math(EXPR unit "${unit} + 1")
  set(text "")
  set(files 0)
endmacro()

# sluice_unity_below(<folder>): the same for all targets of this folder and those below it that want it.
function(sluice_unity_below folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(wanted ${target} UNITY_BUILD)
    get_target_property(type ${target} TYPE)
    if(wanted AND type MATCHES "^(EXECUTABLE|(STATIC|OBJECT|SHARED|MODULE)_LIBRARY)$")
      sluice_unity(${target})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    sluice_unity_below(${below})
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL sluice_unity_below ${PROJECT_SOURCE_DIR})
