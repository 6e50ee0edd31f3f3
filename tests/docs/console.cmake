# Runs PROGRAM and looks for what it prints, whole, in PAGE: a quoted run must be one that happens. Blanks at line ends
# do not count.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}")
endif()
file(READ ${PAGE} text)
foreach(side IN ITEMS printed text)
  string(REGEX REPLACE "[ ]+\n" "\n" ${side} "${${side}}")
endforeach()
string(FIND "${text}" "${printed}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "${PAGE} does not quote what the program prints:\n${printed}")
endif()
