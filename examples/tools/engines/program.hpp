// SPDX-License-Identifier: Apache-2.0
// What each program of the engine library defines itself: its name, and the systems that it has.
#pragma once

#include "engines/system.hpp"

#include <span>

namespace engines {

/// The name that the program's messages, help and recorded command begin with.
const char* program_name();

/// All systems of the program, in the order of its tables. The programs of this project have the published ones
/// (published_program.cpp); sluice_add_programs() writes a definition that adds the user's engines.
std::span<const System> systems();

} // namespace engines
