# Settings for building Sluice itself, not as a dependency: warnings, sanitizers, the programs' folder. A consumer chooses
# these for its own build.

option(SLUICE_WERROR "Treat warnings as errors" ON)
option(SLUICE_BUILD_BENCH "Build the benchmarks" ON)
option(SLUICE_BUILD_TESTS "Build the tests" ON)
set(SLUICE_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=: 'address,undefined' or 'thread'")
# x86-64-v2 has popcount, with which plans count layers, and all x86-64 processors since 2009 support it. Rejected:
# native, which may contract a*b+c, so that the same seed could give another report on another machine.
set(SLUICE_ARCH "x86-64-v2" CACHE STRING "-march= of programs, benchmarks and tests on x86-64; empty for the compiler's own")

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# In a unity unit, a name in one file would seem to shadow another file's. There only g++'s warning about local names
# remains on.
set(shadow $<IF:$<BOOL:$<TARGET_PROPERTY:SLUICE_UNITY>>,$<IF:$<CXX_COMPILER_ID:GNU>,-Wshadow=local,-Wno-shadow>,-Wshadow>)

# All targets of this project link this. It is an interface target, since CMAKE_CXX_FLAGS would also reach the consumer
# check.
add_library(sluice_project INTERFACE)
target_link_libraries(sluice_project INTERFACE sluice::sluice)
target_compile_options(
  sluice_project INTERFACE -Wall -Wextra -Wpedantic ${shadow} -Wconversion -Wsign-conversion $<$<BOOL:${SLUICE_WERROR}>:-Werror>
                           -ffp-contract=off)
# g++ first collects its garbage when a unit's parse uses 2 GiB, not 128 MiB: most units never do, and compile in 12 to 20 %
# less time. The largest then uses 2.3 GiB instead of 1.8.
target_compile_options(sluice_project INTERFACE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=2097152>")
if(SLUICE_ARCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(sluice_project INTERFACE -march=${SLUICE_ARCH})
endif()
if(SLUICE_SANITIZE)
  target_compile_options(sluice_project INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(sluice_project INTERFACE -fsanitize=${SLUICE_SANITIZE})
  # According to g++'s documentation, sanitizers cause false positives of this warning; std::regex alone causes ten.
  target_compile_options(sluice_project INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

# Programs and tests link the compiled library, which cuts their compile time to a fifth. OFF makes everything
# header-only, as benchmarks and consumers always are, and everything in the preset `clang`.
option(SLUICE_USE_COMPILED "Link programs and tests with sluice::compiled" ON)
add_library(sluice_programs INTERFACE) # what a program links
target_link_libraries(sluice_programs INTERFACE sluice_project)
foreach(library IN ITEMS compiled readers model report server)
  if(TARGET sluice_${library})
    target_compile_options(sluice_${library} PRIVATE $<TARGET_PROPERTY:sluice_project,INTERFACE_COMPILE_OPTIONS>)
  endif()
endforeach()
if(TARGET sluice_model) # g++ 12 takes the unused alternatives of a tokenizer's std::variant of steps for uninitialised
  target_compile_options(sluice_model PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
# sluice_use(<target> PRIVATE|PUBLIC|INTERFACE <library>...): links these of the compiled libraries, if programs link any.
function(sluice_use target how)
  foreach(library IN LISTS ARGN)
    if(SLUICE_USE_COMPILED AND TARGET sluice_${library}) # a package may be missing: then header-only
      target_link_libraries(${target} ${how} sluice_${library})
    endif()
  endforeach()
endfunction()
sluice_use(sluice_programs INTERFACE readers report)

# Code that computes a decoder uses the build machine's vector instructions; without them it has a third of the speed.
# Results agree between vector widths (model/decoder/eigen sums in a fixed order), given fused multiply-adds. Empty: the
# same flags as other code.
include(CheckCXXSourceRuns)
if(NOT DEFINED SLUICE_VECTOR_FLAGS)
  set(found "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT CMAKE_CROSSCOMPILING)
    set(avx2 -mavx2 -mfma -mf16c)
    set(avx512 ${avx2} -mavx512f -mavx512dq -mavx512bw -mavx512vl)
    check_cxx_source_runs("int main() { return __builtin_cpu_supports(\"avx512f\") && __builtin_cpu_supports(\"avx512dq\") && __builtin_cpu_supports(\"avx512bw\") && __builtin_cpu_supports(\"avx512vl\") ? 0 : 1; }" SLUICE_HAS_AVX512)
    check_cxx_source_runs("int main() { return __builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\") ? 0 : 1; }" SLUICE_HAS_AVX2)
    if(SLUICE_HAS_AVX512)
      set(found ${avx512})
    elseif(SLUICE_HAS_AVX2)
      set(found ${avx2})
    endif()
  endif()
  set(SLUICE_VECTOR_FLAGS "${found}" CACHE STRING "Instruction sets of what computes a decoder")
endif()
if(TARGET sluice::eigen)
  add_library(sluice_project_eigen INTERFACE)
  target_link_libraries(sluice_project_eigen INTERFACE sluice_project sluice::eigen)
  target_compile_options(sluice_project_eigen INTERFACE ${SLUICE_VECTOR_FLAGS})
endif()
