// SPDX-License-Identifier: Apache-2.0
// sluice-compare with examples/deadline_first.hpp's engine, as sluice_add_programs() makes it of an installed Sluice.
#include "engines/program.hpp"

#include "deadline_first.hpp"
#include "engines/entry.hpp"
#include "engines/registry.hpp"

#include <array>
#include <string_view>
#include <vector>

namespace engines {

const char* program_name() { return "sluice-deadlines"; }

std::span<const System> systems() {
  static const std::array<std::string_view, 2> named{"VllmSwap", "OrbitFlow"};
  static const std::vector<System> table =
      with_own(named, {simulated_entry<DeadlineFirst, sluice::Parts<>>("DeadlineFirst", "earliest deadline first")});
  return table;
}

} // namespace engines
