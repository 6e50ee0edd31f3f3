// SPDX-License-Identifier: Apache-2.0
// Ledger: how much of the device's and the host's KV memory is used. Exact, in layer blocks.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/memory/holding.hpp"

namespace sluice {

/// One memory: its capacity, its use, and the largest use so far.
class Account {
 public:
  constexpr Account() = default;
  explicit constexpr Account(LayerBlocks capacity) : capacity_(capacity) {}

  /// All blocks.
  [[nodiscard]] constexpr LayerBlocks capacity() const { return capacity_; }
  /// Blocks in use.
  [[nodiscard]] constexpr LayerBlocks used() const { return used_; }
  /// Blocks not in use.
  [[nodiscard]] constexpr LayerBlocks free() const { return capacity_ - used_; }
  /// The most blocks ever in use.
  [[nodiscard]] constexpr LayerBlocks peak() const { return peak_; }

  constexpr void take(LayerBlocks blocks) {
    used_ += blocks;
    SLUICE_ASSERT(used_ <= capacity_, "no plan uses memory that does not exist");
    if (used_ > peak_) peak_ = used_;
  }
  constexpr void give(LayerBlocks blocks) {
    SLUICE_ASSERT(blocks <= used_, "no block is freed twice");
    used_ -= blocks;
  }
  /// The weights gave up device memory, or took it back.
  constexpr void resize(LayerBlocks capacity) {
    SLUICE_ASSERT(used_ <= capacity, "memory is emptied before it is taken back");
    capacity_ = capacity;
  }

 private:
  LayerBlocks capacity_{0};
  LayerBlocks used_{0};
  LayerBlocks peak_{0};
};

/// Both memories. Only the engine changes it (engine/core/writers.hpp).
class Ledger {
 public:
  constexpr Ledger() = default;
  constexpr Ledger(LayerBlocks device, LayerBlocks host) : device_(device), host_(host) {}

  /// KV memory of the device.
  [[nodiscard]] constexpr const Account& device() const { return device_; }
  /// KV memory of the host.
  [[nodiscard]] constexpr const Account& host() const { return host_; }

  /// A request's room changes from `before` to `after`: the old room is freed before the new room is taken.
  constexpr void replace(Footprint before, Footprint after) {
    device_.give(before.device);
    host_.give(before.host);
    device_.take(after.device);
    host_.take(after.host);
  }
  constexpr void grow(Footprint more) { replace({}, more); }
  constexpr void resize_device(LayerBlocks capacity) { device_.resize(capacity); }

 private:
  Account device_;
  Account host_;
};

} // namespace sluice
