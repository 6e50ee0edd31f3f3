// SPDX-License-Identifier: Apache-2.0
// HostTierCounts: what a machine's host tier has, and what it has done so far.
#pragma once

#include <cstdint>

namespace sluice {

struct HostTierCounts {
  std::int64_t capacity = 0, blocks = 0; ///< token blocks: the most, and now
  std::int64_t asked = 0, found = 0;     ///< tokens of prompts looked up, and those found, on the host or on a disk
  std::int64_t from_disk = 0;            ///< part of `found`
  std::int64_t stored = 0, evicted = 0;  ///< token blocks
  std::int64_t block_bytes = 0;          ///< of a token block
};

} // namespace sluice
