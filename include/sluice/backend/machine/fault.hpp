// SPDX-License-Identifier: Apache-2.0
// FaultPlan: which copies fail, are late or slow. By default none.
#pragma once

#include "sluice/backend/machine/copy.hpp"
#include "sluice/core/random.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice {

/// What befalls one try of one copy.
struct Fault {
  bool fails = false;
  double moved = 1;    ///< share of the bytes that the try writes; below 1 only where it fails
  Seconds delay{0};    ///< before the first byte; the lane is held meanwhile
  double slowdown = 1; ///< of the time on the link
};

/// What goes wrong, as a pure function of the plan, the copy's tag and the number of the try: the same on every run,
/// however the threads are scheduled. Copies of one tag share their fate, so a source that wants each copy to have its
/// own numbers them.
struct FaultPlan {
  std::uint64_t seed = 0;
  double failing = 0; ///< probability that a try fails
  bool to_device_fails = false, to_host_fails = false;
  std::vector<std::uint64_t> tags_failing{};      ///< every try
  std::vector<std::uint64_t> tags_failing_once{}; ///< the first try
  Seconds most_delay{0};                          ///< uniform from 0
  double least_slowdown = 1, most_slowdown = 1;   ///< uniform between them
  bool reorders = false; ///< the next block is drawn at random of all that may come, not chosen by the transfer rule

  /// Whether anything can happen to a copy. (The order of copies is the source's.)
  [[nodiscard]] bool any() const {
    return failing > 0 || to_device_fails || to_host_fails || !tags_failing.empty() || !tags_failing_once.empty() ||
           most_delay.count() > 0 || least_slowdown != 1 || most_slowdown != 1;
  }

  /// `attempt`: 0 for the first try.
  [[nodiscard]] Fault of(Way way, std::uint64_t tag, int attempt) const {
    Random random{seed ^ (tag * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(attempt) * 0xd1342543de82ef95u)};
    const auto named = [tag](const std::vector<std::uint64_t>& tags) {
      return std::find(tags.begin(), tags.end(), tag) != tags.end();
    };
    Fault fault;
    fault.fails = random.uniform() < failing; // each number is drawn, so that one setting does not shift another's
    const double moved = random.uniform();
    fault.delay = most_delay * random.uniform();
    fault.slowdown = least_slowdown + (most_slowdown - least_slowdown) * random.uniform();
    fault.fails = fault.fails || (way == Way::to_device ? to_device_fails : to_host_fails) || named(tags_failing) ||
                  (attempt == 0 && named(tags_failing_once));
    if (fault.fails) fault.moved = moved;
    return fault;
  }
};

} // namespace sluice
