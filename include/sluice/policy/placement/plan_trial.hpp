// SPDX-License-Identifier: Apache-2.0
// PlanTrial, UniformTrial: try a plan against memory; join_longest_prefix: finds for how many claims it fits.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/core/stopwatch.hpp"
#include "sluice/policy/placement/placement.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sluice {

// PlanTrial: tries a partial plan against memory; join_longest_prefix: finds for how many claims a plan exists.

/// The question that a placement asks again and again if it treats requests individually: do the claims fit with this
/// residency? StepTrial also considers time; UniformTrial is for placements that treat all requests alike.
template <class Transfer>
class PlanTrial {
 public:
  /// Whether the first `plan.requests.size()` claims fit both memories with the plan's residency, including what the
  /// transfer rule needs in flight and what is rebuilt from hidden states on the device, or `workspace` if that is more
  /// than both together. Sets `plan.in_flight`, and `plan.binding` to the memory that is short.
  template <class Task>
  bool fits(const Task& task, Plan& plan, LayerBlocks workspace = LayerBlocks{0}) {
    judge(JudgedCosts::fits, plan.requests.size());
    Footprint room;
    LayerBlocks rebuilt{0};
    LayerArray loads{};
    streams_.clear();
    for (std::size_t i = 0; i < plan.requests.size(); ++i) {
      const Holding& holding = plan.requests[i].holding;
      const TokenBlocks blocks = task.blocks(task.claims[i]);
      room = room + task.footprint_of(holding, blocks);
      rebuilt += rebuilding_room(task.view.row(task.claims[i].slot).holding, holding, blocks,
                                 task.view.limits.block_tokens, task.view.geometry.hidden_size());
      if (holding.fetched().empty() && holding.hidden_on_host().empty()) continue;
      const TokenBlocks head = holding.head_blocks(blocks, task.view.limits.block_tokens);
      const auto away = static_cast<double>(task.view.geometry.moved(head).count());
      for (const LayerStream& stream :
           {LayerStream{holding.fetched(), away, holding.written_back ? holding.host : LayerSet{}},
            LayerStream{holding.hidden_on_host(), task.view.geometry.hidden_size().blocks(away)}}) {
        if (stream.layers.empty()) continue;
        stream.layers.for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] += stream.blocks; });
        streams_.push_back(stream);
      }
    }
    const double held =
        detail::in_flight_blocks<Transfer>({loads.data(), static_cast<std::size_t>(task.layers())}, streams_);
    plan.in_flight = std::max(workspace, rebuilt + LayerBlocks{static_cast<std::int64_t>(math::ceil(held))});
    const bool device = room.device + plan.in_flight <= task.device_budget;
    const bool host = room.host <= task.host_budget;
    plan.binding = !device ? Binding::device_memory : !host ? Binding::host_memory : Binding::none;
    return device && host;
  }

 private:
  std::vector<LayerStream> streams_;
};

/// The verdict of a policy whose `plan_for(count)` makes the plan for the first `count` claims and returns whether one
/// exists: all required claims, and the longest prefix of the optional claims. The last call of `plan_for` is for the
/// count that the verdict names, or for the required claims alone if they are infeasible; `plan.binding` then says why.
template <class Task, class PlanFor>
[[nodiscard]] Verdict join_longest_prefix(const Task& task, Plan& plan, PlanFor&& plan_for) {
  if (task.required > 0 && !plan_for(task.required)) return Verdict::infeasible(plan.binding);
  const std::size_t joined = longest_prefix(task.required, task.claims.size(), plan_for);
  plan_for(task.required + joined);
  return {true, joined, plan.binding};
}

/// Gives each of the first `count` claims the same residency, and no other request.
template <class Task>
void hold_alike(const Task& task, std::size_t count, const Holding& holding, Plan& plan) {
  plan.requests.clear();
  plan.covers_unseen = false;
  for (const Claim& claim : task.claims.first(count)) plan.requests.push_back({claim.slot, holding});
}

// UniformTrial: tries one residency for every request of a batch against memory.

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
      const auto moved = static_cast<double>(task.view.geometry.moved(blocks).count());
      load += moved;
      if (!set.empty()) streams_.push_back({set, moved});
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
  plan.in_flight = LayerBlocks{static_cast<std::int64_t>(math::ceil(in_flight))};
}

} // namespace sluice
