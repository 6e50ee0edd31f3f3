// SPDX-License-Identifier: Apache-2.0
// Effort: what a plan cost to find, in search nodes, if the policy says it.
#pragma once

#include <cstdint>

namespace sluice {

/// A count of search nodes, and whether the policy said it: any assignment or addition says it, 0 included. A policy
/// that says nothing is charged what judging its plans takes (core/judged_time.hpp).
///
/// Rejected: an optional, because `++plan.effort` is what a search writes.
class Effort {
 public:
  constexpr Effort() = default;
  constexpr Effort(std::int64_t nodes) : nodes_(nodes), said_(true) {} // NOLINT: a count is an effort that was said

  /// What the engine counted for a policy that says nothing.
  [[nodiscard]] static constexpr Effort counted(std::int64_t nodes) {
    Effort effort{nodes};
    effort.said_ = false;
    return effort;
  }

  constexpr Effort& operator+=(std::int64_t nodes) { return *this = Effort{nodes_ + nodes}; }
  constexpr Effort& operator++() { return *this += 1; }

  [[nodiscard]] constexpr bool said() const { return said_; }
  constexpr operator std::int64_t() const { return nodes_; } // NOLINT: it is read as a count

 private:
  std::int64_t nodes_ = 0;
  bool said_ = false;
};

} // namespace sluice
