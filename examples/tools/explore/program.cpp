// SPDX-License-Identifier: Apache-2.0
// The published systems that sluice-explore ranks together with its engines.
#include "compare/run.hpp"
#include "engines/registry.hpp"

namespace compared {

const char* program_name() { return "sluice-explore"; }
std::span<const System> systems() { return engines::simulated_systems(); }

} // namespace compared
