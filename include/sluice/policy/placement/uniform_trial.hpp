// SPDX-License-Identifier: Apache-2.0
// UniformTrial: tries one residency for every request of a batch against memory.
#pragma once

#include "sluice/core/judged_time.hpp"
#include "sluice/policy/placement/placement.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

namespace sluice {

/// Shared by placements that offload the same layers of every request and ignore time (StepTrial considers it).
template <class Transfer>
struct UniformTrial {
  /// Whether the first `count` claims fit if each holds `blocks_of(claim)` blocks. Returns the room in flight, or a
  /// negative number if they do not fit.
  template <class Task, class BlocksOf>
  double in_flight_if_fits(const Task& task, std::size_t count, LayerSet set, BlocksOf&& blocks_of) {
    judge(JudgedCosts::fits_alike, count);
    LayerBlocks resident{0}, host{0};
    double load = 0;
    streams_.clear();
    const Holding holding{all_tokens, set, {}};
    for (const Claim& claim : task.claims.first(count)) {
      const TokenBlocks blocks = blocks_of(claim);
      const Footprint room = task.footprint_of(holding, blocks);
      resident += room.device;
      host += room.host;
      load += static_cast<double>(blocks.count());
      if (!set.empty()) streams_.push_back({set, static_cast<double>(blocks.count())});
    }
    LayerArray loads{};
    set.for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] = load; });
    const double held = Transfer::held_blocks({loads.data(), static_cast<std::size_t>(task.layers())}, streams_);
    const bool fits = static_cast<double>(resident.count()) + held <= static_cast<double>(task.device_budget.count()) &&
                      host <= task.host_budget;
    return fits ? held : -1;
  }

 private:
  std::vector<LayerStream> streams_;
};

/// Writes one rule for every request: those in the plan and later ones.
inline void set_uniform(Plan& plan, LayerSet set, double in_flight) {
  plan.requests.clear();
  plan.unseen = Holding{all_tokens, set, {}};
  plan.covers_unseen = true;
  plan.in_flight = LayerBlocks{static_cast<std::int64_t>(std::ceil(in_flight))};
}

} // namespace sluice
