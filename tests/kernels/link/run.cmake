# sluice-run --backend cuda, in a build with CUDA: where there is a GPU, tokens; where there is none, one line that says what
# is missing, and exit status 2. Never silence, a crash or a line of another kind.
execute_process(COMMAND ${PROGRAM} --backend cuda --prompt-ids 1,2,3 --max-tokens 4 RESULT_VARIABLE status
                OUTPUT_VARIABLE out ERROR_VARIABLE said)
if(status EQUAL 0)
  if(out STREQUAL "")
    message(FATAL_ERROR "exit status 0, and nothing was printed")
  endif()
  message(STATUS "on a GPU:\n${out}")
elseif(status EQUAL 2 AND out STREQUAL "" AND said MATCHES "^sluice-run: cuda: (no driver is loaded|the driver is for CUDA|the driver shows no GPU)[^\n]*\n$")
  message(STATUS "${said}")
else()
  message(FATAL_ERROR "exit status ${status}, expected 0, or 2 and one line of sluice-run's about the driver:\n${out}${said}")
endif()
