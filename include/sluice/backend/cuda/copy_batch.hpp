// SPDX-License-Identifier: Apache-2.0
// CopyBatch: copies of one stream that may be done in any order, and so can be given to the driver in one call.
#pragma once

#include "sluice/backend/machine/copy.hpp"
#include "sluice/core/assert.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace sluice {

/// Copies of more rows than one are not for a batch. What lies side by side on both sides stays two copies: neighbours
/// may be of two allocations, which no copy of CUDA's may span.
///
/// A driver orders nothing within a batch, a stream orders all that it is given: so a batch takes no copy that writes
/// what another of it reads or writes, or reads what another writes. (A block that is fetched, dropped as clean and
/// taken for the next fetch is such a pair.)
class CopyBatch {
 public:
  static constexpr std::size_t most = 64; ///< copies: the pairs to compare grow by the square

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }

  /// False, with the batch as it was: the copy has to come behind those that are here.
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

  /// How many there are of which `wanted(to, from, bytes)` says so.
  template <class Wanted>
  [[nodiscard]] std::size_t count(const Wanted& wanted) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < size_; ++i) count += wanted(to_[i], from_[i], bytes_[i]) ? 1U : 0U;
    return count;
  }
  /// Takes these out, and gives each to `give`.
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

  // As cudaMemcpyBatchAsync takes them.
  [[nodiscard]] void* const* to() const { return to_.data(); }
  [[nodiscard]] const void* const* from() const { return from_.data(); }
  [[nodiscard]] const std::size_t* bytes() const { return bytes_.data(); }

 private:
  [[nodiscard]] static bool overlap(const void* one, std::size_t one_bytes, const void* other,
                                    std::size_t other_bytes) {
    const auto* const a = static_cast<const std::byte*>(one);
    const auto* const b = static_cast<const std::byte*>(other);
    const std::less<> less; // of pointers into any memory
    return less(a, b + other_bytes) && less(b, a + one_bytes);
  }

  std::array<void*, most> to_{};
  std::array<const void*, most> from_{};
  std::array<std::size_t, most> bytes_{};
  std::size_t size_ = 0;
};

} // namespace sluice
