# The kernels of kernels/, instantiated as kernels/configs.cmake lists them.
#
#   sluice_kernel(<header> <family> "<initialiser>")   a line of such a list
#   sluice_kernel_families(<target> <list>)            INTERFACE: the headers, and kernels/families.hpp written from the list
#   sluice_kernel_library(<target> <families>)         STATIC, by nvcc: an instantiation of OnGpu for each line
#   sluice_nvcc(<object> <source> <include folder>...) one object of a source of the caller's
#
# Custom commands call nvcc; CMake's language CUDA is not enabled, for three reasons. Enabling it compiles and links
# probes (seconds of every first configuration, and an error if there is a toolkit without a working linker). CMake 3.25
# knows no architecture of CUDA 13. And ptxas's report on each unit would be lost in the build's output; here it is kept
# in <object>.ptxas for the check of occupancy.

if(SLUICE_KERNELS)
  find_package(CUDAToolkit 13 QUIET)
  find_program(SLUICE_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} /usr/local/cuda ENV CUDA_HOME PATH_SUFFIXES bin)
  if(NOT CUDAToolkit_FOUND OR NOT SLUICE_NVCC)
    message(FATAL_ERROR "SLUICE_KERNELS is ON and there is no CUDA Toolkit of version 13 or later; expected nvcc on the PATH, or in "
                        "the folder that -DCUDAToolkit_ROOT names")
  endif()
endif()

# Device code for the papers' GPUs, and PTX for newer ones.
set(SLUICE_KERNEL_ARCHITECTURES 80 90 CACHE STRING "Compute capabilities that the kernels are compiled for")
set(SLUICE_NVCC_CODE "")
foreach(architecture IN LISTS SLUICE_KERNEL_ARCHITECTURES)
  list(APPEND SLUICE_NVCC_CODE -gencode arch=compute_${architecture},code=sm_${architecture})
  set(newest ${architecture})
endforeach()
list(APPEND SLUICE_NVCC_CODE -gencode arch=compute_${newest},code=compute_${newest})

# No contraction: the source marks each product and sum that are one operation (kernels/device.hpp).
set(SLUICE_NVCC_FLAGS -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -Xptxas -v -Xcompiler -fPIC)

# Kernels of one family per nvcc unit. With one kernel per unit, nvcc would parse the headers, which takes two seconds,
# for each kernel; with a whole family in one unit, cores would be idle at the end.
set(SLUICE_KERNELS_PER_UNIT 6 CACHE STRING "Kernels of a family that one generated .cu instantiates")
mark_as_advanced(SLUICE_KERNEL_ARCHITECTURES SLUICE_KERNELS_PER_UNIT)

function(sluice_kernel header family initialiser)
  if(initialiser STREQUAL "")
    set(initialiser " ") # a list element; an empty text would be none
  endif()
  set_property(GLOBAL APPEND PROPERTY SLUICE_KERNEL_LIST "${header}|${family}|${initialiser}")
endfunction()

function(sluice_nvcc object source)
  set(kernels ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../kernels) # the function's folder, not the caller's project
  list(TRANSFORM ARGN PREPEND -I OUTPUT_VARIABLE folders)
  add_custom_command(
    OUTPUT ${object} ${object}.ptxas
    COMMAND ${CMAKE_COMMAND} -DOBJECT=${object} -P ${kernels}/nvcc.cmake -- ${CMAKE_CXX_COMPILER_LAUNCHER} ${SLUICE_NVCC} ${SLUICE_NVCC_FLAGS}
            ${SLUICE_NVCC_CODE} ${folders} -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} ${kernels}/nvcc.cmake
    DEPFILE ${object}.d
    COMMENT "nvcc ${source}"
    VERBATIM)
endfunction()

# Reads a list into <target>'s properties, in the list's order: the families, and each family's header and initialisers.
function(sluice_kernel_families target list)
  set_property(GLOBAL PROPERTY SLUICE_KERNEL_LIST "")
  include(${list})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  get_property(lines GLOBAL PROPERTY SLUICE_KERNEL_LIST)
  set(families "")
  foreach(line IN LISTS lines)
    string(REPLACE "|" ";" line "${line}")
    list(POP_FRONT line header family initialiser)
    if(NOT initialiser MATCHES "^[.][a-z_0-9]+ = [^,]+(, [.][a-z_0-9]+ = [^,]+)*$" AND NOT initialiser STREQUAL " ")
      message(FATAL_ERROR "${list}: sluice_kernel(${header} ${family} \"${initialiser}\"): the initialiser is to name every member "
                          "of ${family}Config, in order, as in \".element = ElementType::bf16, .head_dim = 128\"")
    endif()
    list(APPEND families ${family})
    if(DEFINED header_${family} AND NOT header_${family} STREQUAL header)
      message(FATAL_ERROR "${list}: ${family} is in ${header_${family}} and in ${header}")
    endif()
    set(header_${family} ${header})
    if(initialiser IN_LIST configs_${family})
      message(FATAL_ERROR "${list}: there are two lines for ${family} \"${initialiser}\"")
    endif()
    list(APPEND configs_${family} "${initialiser}")
  endforeach()
  list(REMOVE_DUPLICATES families)

  add_library(${target} INTERFACE)
  set_property(TARGET ${target} PROPERTY SLUICE_FAMILIES "${families}")
  set(includes "")
  set(specialisations "")
  foreach(family IN LISTS families)
    set_property(TARGET ${target} PROPERTY SLUICE_HEADER_${family} ${header_${family}})
    set_property(TARGET ${target} PROPERTY SLUICE_CONFIGS_${family} "${configs_${family}}")
    string(APPEND includes "#include \"kernels/${header_${family}}\"\n")
    list(GET configs_${family} 0 first)
    string(REGEX MATCHALL "[.][a-z_0-9]+ =" members "${first}")
    list(LENGTH members member_count)
    list(TRANSFORM members REPLACE "[.](.+) =" "\"\\1\"")
    list(JOIN members ", " members)
    set(configs "")
    foreach(config IN LISTS configs_${family})
      string(APPEND configs "      ${family}Config{${config}},\n")
    endforeach()
    string(APPEND specialisations "
template <>
struct KernelFamily<${family}Config> {
  template <${family}Config config>
  using Kernel = ${family}<config>;
  using Params = Kernel<${family}Config{${first}}>::Params;
  static constexpr std::string_view name = \"${family}\";
  static constexpr std::string_view header = \"${header_${family}}\";
  static constexpr std::array<std::string_view, ${member_count}> members{${members}};
  static constexpr std::array configs{
${configs}  };
};
")
  endforeach()
  list(TRANSFORM families APPEND Config OUTPUT_VARIABLE all)
  list(JOIN all ", " all)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target})
  file(CONFIGURE OUTPUT ${folder}/kernels/families.hpp @ONLY CONTENT
"// SPDX-License-Identifier: Apache-2.0
// The families that kernels/configs.cmake lists. Written by the build.
#pragma once

#include \"kernels/lookup.hpp\"

${includes}
namespace sluice::kernels {
${specialisations}
/// The configuration types of all families.
template <class... Config>
struct ConfigTypes {};
using AllConfigs = ConfigTypes<${all}>;

} // namespace sluice::kernels
")
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${folder}>)
  target_link_libraries(${target} INTERFACE sluice)
  set_property(TARGET ${target} PROPERTY SLUICE_FOLDER ${folder})
endfunction()

function(sluice_kernel_library target families_target)
  get_target_property(families ${families_target} SLUICE_FAMILIES)
  get_target_property(folder ${families_target} SLUICE_FOLDER)
  set(objects "")
  foreach(family IN LISTS families)
    get_target_property(header ${families_target} SLUICE_HEADER_${family})
    get_target_property(configs ${families_target} SLUICE_CONFIGS_${family})
    file(STRINGS ${PROJECT_SOURCE_DIR}/kernels/${header} scans REGEX "inclusive_scan\\(")
    set(includes "#include \"kernels/${header}\"\n#include \"kernels/launch.cuh\"\n")
    if(scans)
      string(PREPEND includes "#include \"kernels/cuda_scan.cuh\"\n")
    endif()
    string(REGEX REPLACE "([a-z0-9])([A-Z])" "\\1_\\2" name ${family})
    string(TOLOWER ${name} name)
    list(LENGTH configs count)
    math(EXPR last "(${count} - 1) / ${SLUICE_KERNELS_PER_UNIT}")
    foreach(unit RANGE ${last})
      math(EXPR begin "${unit} * ${SLUICE_KERNELS_PER_UNIT}")
      list(SUBLIST configs ${begin} ${SLUICE_KERNELS_PER_UNIT} some)
      set(text "// SPDX-License-Identifier: Apache-2.0\n// Some of ${family}'s kernels. Written by the build.\n${includes}\nnamespace sluice::kernels {\n")
      foreach(config IN LISTS some)
        set(kernel "${family}<${family}Config{${config}}>")
        string(APPEND text "template Status OnGpu::prepare<${kernel}>();\n"
                           "template Status OnGpu::launch<${kernel}>(const ${kernel}::Params&, CUstream_st*);\n")
      endforeach()
      string(APPEND text "} // namespace sluice::kernels\n")
      set(source ${folder}/units/${name}_${unit}.cu)
      file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
      sluice_nvcc(${source}.o ${source} ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
      list(APPEND objects ${source}.o)
    endforeach()
  endforeach()
  add_library(${target} STATIC ${objects})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${target} PUBLIC ${families_target} CUDA::cudart_static)
  list(TRANSFORM objects APPEND .ptxas)
  set_property(TARGET ${target} PROPERTY SLUICE_PTXAS "${objects}")
endfunction()
