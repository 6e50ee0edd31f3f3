// SPDX-License-Identifier: Apache-2.0
// CopyBatch: copies of one stream that may run in any order, so that one call can give them to the driver.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/world/link/copy.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace sluice {

/// Adjacent copies are not merged: neighbours may lie in two allocations, and a CUDA copy may not span two.
///
/// A driver orders nothing within a batch, while a stream orders everything it is given. So a batch takes no copy that
/// writes what another one reads or writes, or reads what another one writes; of a copy of several rows, the bytes
/// between the rows count too. (Example: a block that is fetched, dropped as clean, and taken for the next fetch.)
class CopyBatch {
 public:
  static constexpr std::size_t most = 128; ///< copies: the number of comparisons grows quadratically

  [[nodiscard]] std::span<const Copy> copies() const { return {copies_.data(), size_}; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }

  /// Returns false, and leaves the batch unchanged, if the copy has to come after one in the batch.
  [[nodiscard]] bool take(const Copy& copy) {
    SLUICE_ASSERT(copy.rows > 0 && copy.bytes > 0, "something to copy");
    for (const Copy& one : copies())
      if (overlap(one.to, to_bytes(one), copy.to, to_bytes(copy)) ||
          overlap(one.to, to_bytes(one), copy.from, from_bytes(copy)) ||
          overlap(one.from, from_bytes(one), copy.to, to_bytes(copy)))
        return false;
    if (size_ == most) return false;
    copies_[size_++] = copy;
    return true;
  }
  /// Removes the copies for which `wanted(copy)` is true, and passes each to `give`.
  template <class Wanted, class Give>
  void take_out(const Wanted& wanted, const Give& give) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (wanted(copies_[i]))
        give(copies_[i]);
      else
        copies_[kept++] = copies_[i];
    }
    size_ = kept;
  }

 private:
  /// From the first byte to the last.
  [[nodiscard]] static std::int64_t to_bytes(const Copy& copy) { return (copy.rows - 1) * copy.to_stride + copy.bytes; }
  [[nodiscard]] static std::int64_t from_bytes(const Copy& copy) {
    return (copy.rows - 1) * copy.from_stride + copy.bytes;
  }
  [[nodiscard]] static bool overlap(const std::byte* one, std::int64_t one_bytes, const std::byte* other,
                                    std::int64_t other_bytes) {
    const std::less<> less; // for pointers into different memories
    return less(one, other + other_bytes) && less(other, one + one_bytes);
  }

  std::array<Copy, most> copies_{};
  std::size_t size_ = 0;
};

} // namespace sluice
