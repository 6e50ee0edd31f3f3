// SPDX-License-Identifier: Apache-2.0
// The registry: all published systems in the engine library. Its rows have the functions of one kind of run
// (SLUICE_ENGINES_FOR, entry.hpp).
#pragma once

#include "engines/system.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace engines {

/// In the order of the programs' tables: some descriptions refer to the previous row. This project's own system is
/// among them (is_own).
std::span<const System> published();

/// Whether the system is of this project or of the program (`sluice_add_programs`), and so no published one.
bool is_own(const System& system);

/// The program's systems (program.hpp) that can be simulated, and those that can run for real.
std::span<const System> simulated_systems();
std::span<const System> real_systems();

/// The published systems with these names, in the registry's order, followed by `own`.
std::vector<System> with_own(std::span<const std::string_view> names, std::vector<System> own);

/// Whether this build's systems were compiled for the transfer rule with that name, in addition to their own.
bool built_on(std::string_view rule);

} // namespace engines
