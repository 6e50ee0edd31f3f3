# Builds and runs the consumer in the way that WAY names, in an empty folder.
# cmake -DWAY=find_package|add_subdirectory|cuda -DBUILD=<build of sluice> -DSOURCE=<checkout> -DWORK=<scratch>
#       -DCOMPILER=… -DLAUNCHER=… -DGENERATOR=… -P try.cmake
cmake_minimum_required(VERSION 3.25)

function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(failed)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "${line}\n${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
# Debug information takes a fifth of the time.
set(arguments -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_BUILD_TYPE=Debug
              -DCMAKE_CXX_FLAGS_DEBUG=-O0)
if(WAY STREQUAL "cuda") # the parts that a build with CUDA installs; the component `comparison` need not have been built
  step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component Unspecified)
  step(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer/cuda -B ${WORK}/build ${arguments} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
  step(${CMAKE_COMMAND} --build ${WORK}/build)
  step(${WORK}/build/on_gpu)
  return()
endif()
if(WAY STREQUAL "find_package")
  step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
  list(APPEND arguments -DCMAKE_PREFIX_PATH=${WORK}/prefix)
else()
  list(APPEND arguments -DSLUICE_SOURCE=${SOURCE} -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=8) # half the time
endif()
step(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${WORK}/build ${arguments})
step(${CMAKE_COMMAND} --build ${WORK}/build)
step(${WORK}/build/consumer)
step(${WORK}/build/reader)
if(EXISTS ${WORK}/build/linked_libraries)
  step(${WORK}/build/linked_libraries)
endif()
step(${WORK}/build/linked)
step(${WORK}/build/kernels)
