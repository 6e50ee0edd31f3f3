// SPDX-License-Identifier: Apache-2.0
// UntimedTiers: device and host, one request after the other, each instantaneous: hit shares without an engine.
#pragma once

#include "sluice/state/memory/tier_store.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

/// Which blocks the host has copies of.
enum class HostCopies : std::uint8_t {
  inclusive,  ///< every block, as soon as it is computed (write-through)
  write_back, ///< blocks that the device evicts; a loaded block keeps its copy
  exclusive,  ///< blocks that the device evicts; a loaded block leaves the host
};

constexpr std::string_view name(HostCopies copies) {
  constexpr std::string_view names[] = {"inclusive", "write-back", "exclusive"};
  return names[static_cast<std::size_t>(copies)];
}

/// Counts what two LRU tiers find and write. An upper reference for runs in time, where a block can also be late, and a
/// quick way to size a host.
class UntimedTiers {
 public:
  UntimedTiers(TokenBlocks device, TokenBlocks host, HostCopies copies)
      : device_(device, Replacement::least_recent), host_(host, Replacement::least_recent), copies_(copies) {}

  /// A request with these blocks; it looks up the first `looked_up` of them.
  void serve(std::span<const BlockKey> keys, std::size_t looked_up) {
    const std::size_t on_device = device_.find(keys.first(looked_up));
    std::size_t found = on_device;
    while (found < looked_up && (host_.holds(keys[found]) || device_.holds(keys[found]))) ++found;
    looked_up_ += static_cast<std::int64_t>(looked_up);
    device_hits_ += static_cast<std::int64_t>(on_device);
    host_hits_ += static_cast<std::int64_t>(found - on_device);
    if (copies_ == HostCopies::inclusive) written_ += static_cast<std::int64_t>(host_.store(keys));
    if (copies_ == HostCopies::write_back) host_.touch(keys);
    if (copies_ == HostCopies::exclusive) host_.remove(keys.subspan(on_device, found - on_device));
    device_.store(keys, [this](BlockKey key) {
      if (copies_ != HostCopies::inclusive) written_ += host_.store_one(key, copies_ == HostCopies::exclusive) ? 1 : 0;
    });
  }

  [[nodiscard]] std::int64_t looked_up() const { return looked_up_; }     ///< blocks
  [[nodiscard]] std::int64_t device_hits() const { return device_hits_; } ///< blocks
  [[nodiscard]] std::int64_t host_hits() const { return host_hits_; }     ///< blocks, beyond the device's
  [[nodiscard]] std::int64_t written() const { return written_; }         ///< blocks, to the host

 private:
  TierStore device_, host_;
  HostCopies copies_;
  std::int64_t looked_up_ = 0, device_hits_ = 0, host_hits_ = 0, written_ = 0;
};

} // namespace sluice
