# check_driver_line(<program> <status> <out> <said>): without a GPU, a program of a build with CUDA prints one line about the
# driver and exits with status 2. Silence, a crash or any other line is a failure.
function(check_driver_line program status out said)
  if(status EQUAL 2 AND out STREQUAL "" AND said MATCHES
     "^${program}: cuda: (no driver is loaded|the driver is for CUDA|the driver shows no GPU)[^\n]*\n$")
    message(STATUS "${said}")
  else()
    message(FATAL_ERROR "exit status ${status}, expected 0, or 2 and one line of ${program}'s about the driver:\n${out}${said}")
  endif()
endfunction()
