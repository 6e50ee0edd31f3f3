// SPDX-License-Identifier: Apache-2.0
// A program of this project has the published systems. CMake defines SLUICE_PROGRAM, its name.
#include "engines/program.hpp"
#include "engines/registry.hpp"

namespace engines {

const char* program_name() { return SLUICE_PROGRAM; }
std::span<const System> systems() { return published(); }

} // namespace engines
