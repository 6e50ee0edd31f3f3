// SPDX-License-Identifier: Apache-2.0
// FaultPlan: which copies fail, start late or run slowly; none by default.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/link/copy.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice {

/// What happens to one try of one copy.
struct Fault {
  bool fails = false;
  double moved = 1;    ///< fraction of the bytes that the try writes; below 1 only if it fails
  Seconds delay{0};    ///< before the first byte; the lane is busy meanwhile
  double slowdown = 1; ///< factor on the link time
};

/// Faults as a pure function of the plan, the copy's tag and the number of the try: the same on every run, however
/// threads are scheduled. Copies with one tag share their faults, so a source that wants independent faults numbers its
/// copies.
struct FaultPlan {
  std::uint64_t seed = 0;
  double failing = 0; ///< probability that a try fails
  bool to_device_fails = false, to_host_fails = false;
  std::vector<std::uint64_t> tags_failing{};      ///< every try
  std::vector<std::uint64_t> tags_failing_once{}; ///< the first try
  Seconds most_delay{0};                          ///< uniform from 0
  double least_slowdown = 1, most_slowdown = 1;   ///< uniform between them
  bool reorders =
      false; ///< the next block is drawn at random among all that may start, instead of chosen by the transfer rule

  /// Whether any copy can be affected. (The source decides the order of copies.)
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
    fault.fails = random.uniform() < failing; // every number is drawn, so that one setting does not shift the others
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
