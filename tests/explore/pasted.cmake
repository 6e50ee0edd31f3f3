# Compiles the output of `sluice-explore --list`: when pasted, each line is the engine at that place of the product.
# cmake -DPROGRAM=… -DPRODUCT=small|full|tiers -DSOURCE=… -DCOMPILER=… -DWORK=… -P pasted.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${PROGRAM} --list OUTPUT_VARIABLE listed RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --list ended with ${status}")
endif()
string(STRIP "${listed}" listed)
string(REGEX REPLACE "\n" ",\n  " pasted "${listed}")
file(WRITE ${WORK}/pasted.cpp "#include \"explore/${PRODUCT}.hpp\"
using namespace sluice;
using Pasted = Parts<
  ${pasted}>;
static_assert(std::is_same_v<Pasted, explored::Compositions::engines>);
")
execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${SOURCE}/include -I${SOURCE}/examples/tools ${WORK}/pasted.cpp
                RESULT_VARIABLE status ERROR_VARIABLE said)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the pasted list does not compile:\n${said}")
endif()
