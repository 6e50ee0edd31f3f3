// SPDX-License-Identifier: Apache-2.0
// peak_resident: the most memory that this process has used at once.
#pragma once

#include "sluice/core/units.hpp"

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace running {

/// As Linux counts it since the program began (getrusage would include the parent process); empty on other systems.
inline std::optional<sluice::Bytes> peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    std::int64_t kibibytes = 0;
    if (name == "VmHWM:" && status >> kibibytes) return sluice::Bytes{kibibytes * 1024};
    status.ignore(4096, '\n');
  }
  return std::nullopt;
}

} // namespace running
