# sluice-serve --backend cuda, in a build with CUDA: with a GPU it serves until a signal ends it; without one it prints one
# line that names the missing part, and exits with status 2.
include(${CMAKE_CURRENT_LIST_DIR}/driver_line.cmake)
execute_process(COMMAND timeout -s TERM 30 ${PROGRAM} --model tiny --backend cuda --port 0 --quiet
                RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE said)
if(status EQUAL 124 AND out MATCHES "^tiny under AllResident: .*http://127.0.0.1:")
  message(STATUS "on a GPU: ${out}")
else()
  check_driver_line(sluice-serve "${status}" "${out}" "${said}")
endif()
