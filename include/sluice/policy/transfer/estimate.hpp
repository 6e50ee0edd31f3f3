// SPDX-License-Identifier: Apache-2.0
// Estimate: what an iteration would take, for policies that do not place KV: Admission asks before it proposes.
#pragma once

#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/transfer/block_link.hpp"
#include "sluice/policy/transfer/evaluate_link.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace sluice {

/// The functions behind an Estimate; their first argument is the engine's policies.
struct EstimateTable {
  StepTime (*step)(const void* policies, const Work& work);
  LinkCost (*link)(const void* policies);
  StepCost (*evaluate)(Pipeline pipeline, std::size_t repeated);
};

/// The evaluator's answer for an iteration whose first `repeated` streams, and streamed weights, crossed the link in
/// the iterations before as well: blocks that those prefetched are on the device.
template <class Transfer>
[[nodiscard]] StepCost evaluate_after_repeats(Pipeline pipeline, std::size_t repeated) {
  constexpr int repeats = 3;
  typename Transfer::State link;
  const std::span<const LayerStream> streams = pipeline.streams;
  if (repeated > 0 || !pipeline.weights.empty()) {
    pipeline.streams = streams.first(repeated);
    for (int before = 0; before < repeats; ++before) (void)evaluate_link<Transfer>(pipeline, link);
    pipeline.streams = streams;
  }
  return evaluate_link<Transfer>(pipeline, link);
}

/// A read-only estimate by the planner's cost model, corrected by what it has learned, and by the evaluator that judges
/// plans and runs simulations. Valid for one call of a hook. Rejected: the cost model and the transfer rule themselves,
/// since every admission would become a template of both.
class Estimate {
 public:
  Estimate(const EstimateTable& table, const void* policies, const Geometry& geometry)
      : table_(&table), policies_(policies), geometry_(&geometry) {}

  /// The parts of an iteration's time in which nothing crosses the link for a layer's KV.
  [[nodiscard]] StepTime time(const Work& work) const { return table_->step(policies_, work); }
  /// How long an iteration computes, with nothing to fetch.
  [[nodiscard]] Seconds step(const Work& work) const {
    const StepTime parts = time(work);
    return work.hosted.nothing() ? parts.total(geometry_->layers)
                                 : parts.total(geometry_->layers) + parts.waits * geometry_->layers;
  }
  /// How long an iteration takes in which `streams` cross the link, with `room` layer blocks for prefetches, by the
  /// evaluator. The first `repeated` of the streams, and `weights`, crossed it in the iterations before as well.
  /// Infinite if the rule cannot run in that room.
  [[nodiscard]] StepCost step(const Work& work, std::span<const LayerStream> streams, std::size_t repeated, double room,
                              const WeightStream& weights = {}) const {
    const StepTime time = table_->step(policies_, work);
    if (streams.empty() && weights.empty()) return {time.total(geometry_->layers).count()};
    LayerArray compute;
    std::fill_n(compute.begin(), geometry_->layers, time.layer.count());
    Pipeline pipeline;
    pipeline.compute_s = {compute.data(), static_cast<std::size_t>(geometry_->layers)};
    pipeline.before_s = time.before.count();
    pipeline.after_s = time.after.count();
    pipeline.on_link = time.on_link;
    pipeline.link = link();
    pipeline.streams = streams;
    pipeline.weights = weights;
    pipeline.room_blocks = room;
    return table_->evaluate(pipeline, repeated);
  }
  /// The link, and the host's attention, as the cost model has them.
  [[nodiscard]] LinkCost link_cost() const { return table_->link(policies_); }
  /// Whether the host's processor attends.
  [[nodiscard]] bool host_attends() const { return link_cost().host_attention_rate.count() > 0; }
  /// The link in the evaluator's unit.
  [[nodiscard]] BlockLink link() const { return block_link(table_->link(policies_), *geometry_); }

 private:
  const EstimateTable* table_;
  const void* policies_;
  const Geometry* geometry_;
};

} // namespace sluice
