// SPDX-License-Identifier: Apache-2.0
// composed: what a system is made of, for the report of its run.
#pragma once

#include <string>
#include <string_view>

namespace running {

struct Composed {
  std::string engine;        ///< `Engine<…>`
  std::string_view transfer; ///< its rule's name
  bool deposits = false;     ///< tokens go through a deposit
};

/// Of a system that `systems` has. Generated: a unit of its own (CMakeLists.txt), so that what a report says of thirty
/// engine types compiles none of them again.
Composed composed(std::string_view system);

} // namespace running
