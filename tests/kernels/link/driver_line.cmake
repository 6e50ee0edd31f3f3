# check_driver_line(<program> <status> <out> <said>): the one line of a program in a build with CUDA where there is no GPU, and exit
# status 2. Never silence, a crash or a line of another kind.
function(check_driver_line program status out said)
  if(status EQUAL 2 AND out STREQUAL "" AND said MATCHES
     "^${program}: cuda: (no driver is loaded|the driver is for CUDA|the driver shows no GPU)[^\n]*\n$")
    message(STATUS "${said}")
  else()
    message(FATAL_ERROR "exit status ${status}, expected 0, or 2 and one line of ${program}'s about the driver:\n${out}${said}")
  endif()
endfunction()
