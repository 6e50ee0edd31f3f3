// SPDX-License-Identifier: Apache-2.0
// Divisor: division by a run-time number, at the cost of a multiplication.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/device.hpp"

#include <cstdint>

namespace sluice::kernels {

/// Divides numbers of 31 bits by a number that is known at launch (Granlund and Montgomery, "Division by Invariant
/// Integers using Multiplication", 1994, theorem 4.2): a GPU has no division instruction, and each packet of K and V
/// needs its token's block.
class Divisor {
 public:
  Divisor() = default;
  /// `by` is at least 1.
  constexpr explicit Divisor(int by) : by_(by) {
    SLUICE_ASSERT(by >= 1, "a divisor above 0");
    while ((std::int64_t{1} << (shift_ - 31)) < by) ++shift_;
    factor_ = ((std::uint64_t{1} << shift_) + static_cast<std::uint64_t>(by) - 1) / static_cast<std::uint64_t>(by);
  }

  [[nodiscard]] SLUICE_HOST_DEVICE constexpr int value() const { return by_; }
  [[nodiscard]] SLUICE_HOST_DEVICE constexpr int quotient(int of) const {
    return static_cast<int>((static_cast<std::uint64_t>(of) * factor_) >> shift_);
  }
  friend bool operator==(const Divisor&, const Divisor&) = default;

 private:
  std::uint64_t factor_ = std::uint64_t{1} << 31;
  int shift_ = 31;
  int by_ = 1;
};

} // namespace sluice::kernels
