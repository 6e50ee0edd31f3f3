// SPDX-License-Identifier: Apache-2.0
// resident_memory: what this process has in memory, exactly.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace sluice_test {

struct Resident {
  std::int64_t bytes = 0;     ///< of all pages
  std::int64_t anonymous = 0; ///< of pages that are no file's
};

/// Empty if the system does not report it. Rejected: /proc/self/statm, whose numbers are approximate since Linux 6.2:
/// each processor counts hundreds of pages on its own before it adds them, so the error grows with their number.
inline std::optional<Resident> resident_memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt; // the line of addresses
  Resident found;
  for (std::string name; file >> name;) {
    std::int64_t kibibytes = 0;
    if (name == "Rss:" && file >> kibibytes) found.bytes = kibibytes * 1024;
    if (name == "Anonymous:" && file >> kibibytes) found.anonymous = kibibytes * 1024;
    std::getline(file, line);
  }
  return found;
}

} // namespace sluice_test
