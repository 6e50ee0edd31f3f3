// SPDX-License-Identifier: Apache-2.0
// CopyBatch: copies of one stream that may run in any order, so that one call can give them to the driver.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/world/machine/copy.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace sluice {

/// Only copies of one row can be batched. Adjacent copies are not merged: neighbours may lie in two allocations, and a
/// CUDA copy may not span two.
///
/// A driver orders nothing within a batch, while a stream orders everything it is given. So a batch takes no copy that
/// writes what another one reads or writes, or reads what another one writes. (Example: a block that is fetched,
/// dropped as clean, and taken for the next fetch.)
class CopyBatch {
 public:
  static constexpr std::size_t most = 64; ///< copies: the number of comparisons grows quadratically

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }

  /// Returns false, and leaves the batch unchanged, if the copy has to come after one in the batch.
  [[nodiscard]] bool take(const Copy& copy) {
    SLUICE_ASSERT(copy.rows == 1 && copy.bytes > 0, "a row");
    const auto bytes = static_cast<std::size_t>(copy.bytes);
    for (std::size_t i = 0; i < size_; ++i)
      if (overlap(to_[i], bytes_[i], copy.to, bytes) || overlap(to_[i], bytes_[i], copy.from, bytes) ||
          overlap(from_[i], bytes_[i], copy.to, bytes))
        return false;
    if (size_ == most) return false;
    to_[size_] = copy.to;
    from_[size_] = copy.from;
    bytes_[size_] = bytes;
    ++size_;
    return true;
  }

  /// The number of copies for which `wanted(to, from, bytes)` is true.
  template <class Wanted>
  [[nodiscard]] std::size_t count(const Wanted& wanted) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < size_; ++i) count += wanted(to_[i], from_[i], bytes_[i]) ? 1U : 0U;
    return count;
  }
  /// Removes these copies, and passes each to `give`.
  template <class Wanted, class Give>
  void take_out(const Wanted& wanted, const Give& give) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (wanted(to_[i], from_[i], bytes_[i])) {
        give(to_[i], from_[i], bytes_[i]);
        continue;
      }
      to_[kept] = to_[i];
      from_[kept] = from_[i];
      bytes_[kept] = bytes_[i];
      ++kept;
    }
    size_ = kept;
  }

  // In the form that cudaMemcpyBatchAsync takes.
  [[nodiscard]] void* const* to() const { return to_.data(); }
  [[nodiscard]] const void* const* from() const { return from_.data(); }
  [[nodiscard]] const std::size_t* bytes() const { return bytes_.data(); }

 private:
  [[nodiscard]] static bool overlap(const void* one, std::size_t one_bytes, const void* other,
                                    std::size_t other_bytes) {
    const auto* const a = static_cast<const std::byte*>(one);
    const auto* const b = static_cast<const std::byte*>(other);
    const std::less<> less; // for pointers into different memories
    return less(a, b + other_bytes) && less(b, a + one_bytes);
  }

  std::array<void*, most> to_{};
  std::array<const void*, most> from_{};
  std::array<std::size_t, most> bytes_{};
  std::size_t size_ = 0;
};

} // namespace sluice
