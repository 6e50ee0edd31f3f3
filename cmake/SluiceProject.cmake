# What holds only when Sluice itself is built, not when it is somebody's dependency: warnings, sanitizers, the compiler
# cache, where programs go. A consumer's build is the consumer's business.

option(SLUICE_WERROR "Treat warnings as errors" ON)
option(SLUICE_BUILD_BENCH "Build the benchmarks" ON)
set(SLUICE_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=: 'address,undefined' or 'thread'")
# x86-64-v2 has a popcount, which plans count layers with, and every such processor since 2009 has it. Rejected: native,
# which may contract a*b+c and so print another report from the same seed on another machine.
set(SLUICE_ARCH "x86-64-v2" CACHE STRING "-march= of programs, benchmarks and tests on x86-64; empty for the compiler's own")

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SLUICE_CCACHE})
endif()

# A unit of several files of a target (CMAKE_UNITY_BUILD, on in the presets): what they include is read once and what they
# instantiate is made once, a third of the compiling of a program's engines. Who changes one file again and again turns it off.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6 CACHE STRING "Files of a unit, where CMAKE_UNITY_BUILD is on")
# In such a unit a name of one file is no shadow of another's: what is left of the warning there is g++'s, of local names.
set(shadow $<IF:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>,$<IF:$<CXX_COMPILER_ID:GNU>,-Wshadow=local,-Wno-shadow>,-Wshadow>)

# Everything of ours links this. An interface target and not CMAKE_CXX_FLAGS: flags would reach the consumer check too.
add_library(sluice_project INTERFACE)
target_link_libraries(sluice_project INTERFACE sluice::sluice)
target_compile_options(
  sluice_project INTERFACE -Wall -Wextra -Wpedantic ${shadow} -Wconversion -Wsign-conversion $<$<BOOL:${SLUICE_WERROR}>:-Werror>
                           -ffp-contract=off)
if(SLUICE_ARCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(sluice_project INTERFACE -march=${SLUICE_ARCH})
endif()
if(SLUICE_SANITIZE)
  target_compile_options(sluice_project INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(sluice_project INTERFACE -fsanitize=${SLUICE_SANITIZE})
  # g++ says itself that its sanitizers make this warning wrong; std::regex alone gives ten.
  target_compile_options(sluice_project INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

# Programs and tests link the compiled form, a fifth of the compiling without; OFF leaves everything header-only, which
# benchmarks and consumers are in any case, and all of the preset `clang`.
option(SLUICE_USE_COMPILED "Link programs and tests with sluice::compiled" ON)
add_library(sluice_programs INTERFACE) # what a program links
target_link_libraries(sluice_programs INTERFACE sluice_project)
target_compile_options(sluice_compiled PRIVATE $<TARGET_PROPERTY:sluice_project,INTERFACE_COMPILE_OPTIONS>)
if(SLUICE_USE_COMPILED)
  target_link_libraries(sluice_programs INTERFACE sluice_compiled)
endif()

# What computes a decoder is built for the vectors that the machine which builds it has: a third of the speed without.
# Results agree between widths (model/decoder/eigen sums in a fixed order), given fused multiply-adds. Empty: as all else.
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
