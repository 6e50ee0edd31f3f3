# sluice-profile --measure --backend cuda, in a build with CUDA: with a GPU it writes a folder of times; without one it prints
# one line that names the missing part, exits with status 2, and makes no folder.
include(${CMAKE_CURRENT_LIST_DIR}/driver_line.cmake)
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${PROGRAM} --measure --backend cuda --model tiny --seconds 2 --quiet --out ${WORK}
                RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE said)
if(status EQUAL 0 AND EXISTS ${WORK}/device.json AND EXISTS ${WORK}/dense.csv)
  message(STATUS "on a GPU: ${out}")
else()
  check_driver_line(sluice-profile "${status}" "${out}" "${said}")
  if(EXISTS ${WORK})
    message(FATAL_ERROR "${WORK} was made, and nothing was measured")
  endif()
endif()
