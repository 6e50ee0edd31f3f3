// SPDX-License-Identifier: Apache-2.0
// The registry: every published system that the library of engines holds.
#pragma once

#include "engines/system.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace engines {

/// In the order of the programs' tables: some descriptions refer to the row before.
std::span<const System> published();

/// Those that are simulated, and those that run for real.
std::span<const System> simulated_systems();
std::span<const System> real_systems();

/// The published systems of these names, in the order of the registry, and behind them one's own.
std::vector<System> with_own(std::span<const std::string_view> names, std::vector<System> own);

/// Whether this build's systems run on the transfer rule of that name besides their own.
bool built_on(std::string_view rule);

} // namespace engines
