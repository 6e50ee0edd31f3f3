// SPDX-License-Identifier: Apache-2.0
// `main` of the programs on the engine library. CMake defines SLUICE_TOOL, the namespace of the program's code.
#include "shared/whole_output.hpp"

namespace engines {
const char* program_name(); // of engines/program.hpp, which would cost this unit two seconds
}
namespace SLUICE_TOOL {
int program(int argc, char** argv);
}

int main(int argc, char** argv) {
  return with_whole_output(engines::program_name(), [&] { return SLUICE_TOOL::program(argc, argv); });
}
