// SPDX-License-Identifier: Apache-2.0
// Copy: what crosses the link between the two memories, which way, and how that ended.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

/// `rows` runs of `bytes` each, `from_stride` and `to_stride` bytes apart. Source and destination do not overlap.
struct Copy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0; ///< of one row
  std::int64_t rows = 1;
  std::int64_t from_stride = 0, to_stride = 0; ///< of no meaning where there is one row
  std::uint64_t tag = 0;                       ///< the source's own; what a FaultPlan draws by

  [[nodiscard]] std::int64_t total() const { return bytes * rows; }
};

enum class Way : std::uint8_t { to_device, to_host };

enum class CopyOutcome : std::uint8_t {
  done,   ///< every byte is there
  failed, ///< the second try failed too: the destination holds anything
};

} // namespace sluice
