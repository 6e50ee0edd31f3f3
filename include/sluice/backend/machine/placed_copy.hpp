// SPDX-License-Identifier: Apache-2.0
// PlacedCopy: a copy between two memories whose ends are named by place, not by address.
#pragma once

#include "sluice/backend/machine/copy.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// A piece of the device's memory that one thing at a time has: a block of KV, the home of a layer's weights, a slot
/// that weights pass through. Where the place lies is the device's business.
struct DevicePlace {
  enum class Kind : std::uint8_t { kv_block, home, slot };
  Kind kind = Kind::kv_block;
  std::int32_t index = 0; ///< of the block, the layer, the slot

  friend constexpr bool operator==(const DevicePlace&, const DevicePlace&) = default;
};

/// What a machine wants to cross the link: `rows` runs of `bytes`, `stride` apart in both memories. The machine decides
/// by places; a device turns them into addresses when the copy begins, and orders the copy by what else uses them.
struct PlacedCopy {
  Way way = Way::to_device;
  DevicePlace device;
  std::int64_t device_at = 0;       ///< bytes from the start of the place
  const std::byte* image = nullptr; ///< of weights: where they lie on the host, which nothing ever writes
  std::int32_t layer = -1;          ///< of weights
  std::int32_t host_block = -1;     ///< of KV: the host's block
  std::int64_t host_at = 0;         ///< bytes from its start, or from that of the layer's image
  std::int64_t bytes = 0;           ///< of one row
  std::int64_t rows = 1;
  std::int64_t stride = 0; ///< of no meaning where there is one row
  std::uint64_t tag = 0;   ///< numbers the copies of a machine: what a FaultPlan draws by

  [[nodiscard]] std::int64_t total() const { return bytes * rows; }
};

} // namespace sluice
