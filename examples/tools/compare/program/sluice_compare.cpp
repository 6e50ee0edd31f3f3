// SPDX-License-Identifier: Apache-2.0
// The parts of sluice-compare that other programs of its library (sluice_add_comparison) define themselves.
#include "compare/run.hpp"
#include "engines/registry.hpp"

namespace compared {

const char* program_name() { return "sluice-compare"; }
std::span<const System> systems() { return engines::simulated_systems(); }

} // namespace compared
