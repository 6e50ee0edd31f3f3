// SPDX-License-Identifier: Apache-2.0
// PreemptLeastUrgent: preempts the request with the largest priority number, the newest of these (vLLM).
#pragma once

#include "sluice/policy/relief/relief.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace sluice {

/// The candidate with the largest (priority, arrival), as vLLM's scheduler chooses under its policy "priority". It may
/// return as soon as there is room and the Admission lets it. The candidates may include a request that would join: it
/// is then the one that waits.
struct PreemptLeastUrgent {
  using role = roles::Relief;
  struct State {};
  static constexpr Parting parting = Parting::preempt;

  std::size_t choose(const View& view, State& /*state*/, std::span<const Claim> candidates) const {
    const auto more_urgent = [&view](const Claim& a, const Claim& b) {
      const RequestRow &one = view.row(a.slot), &other = view.row(b.slot);
      return std::pair{one.spec.priority, one.id} < std::pair{other.spec.priority, other.id};
    };
    return static_cast<std::size_t>(std::max_element(candidates.begin(), candidates.end(), more_urgent) -
                                    candidates.begin());
  }
  bool may_return(const View& /*view*/, const RequestRow& /*row*/) const { return true; }
};

static_assert(Relief<PreemptLeastUrgent>);

} // namespace sluice
