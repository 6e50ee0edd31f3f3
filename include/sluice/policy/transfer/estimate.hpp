// SPDX-License-Identifier: Apache-2.0
// Estimate: what an iteration would take, for policies that do not place KV; links and work in the evaluator's units.
#pragma once

#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/transfer/evaluate_link.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

// block_link: a cost model's link in the evaluator's unit.

/// The link of `LinkCost` in layer blocks per second. `kv_share`: the fraction of the traffic that is KV, which moves
/// in segments; weights move in long runs. A link has one rate, so the segments' cost is spread over both.
[[nodiscard]] inline BlockLink block_link(const LinkCost& link, const Geometry& geometry, double kv_share = 1) {
  const auto block = static_cast<double>(geometry.layer_block_bytes.count());
  const double segment_s = kv_share * link.per_segment.count() / geometry.segment_layers;
  const auto blocks_per_s = [&](BytesPerSecond rate) {
    return segment_s > 0 ? 1 / (block / rate.count() + segment_s) : rate.count() / block;
  };
  BlockLink blocks{.blocks_per_s = blocks_per_s(link.rate), .per_layer_s = link.per_layer.count()};
  blocks.mix_loss = link.mix_loss;
  if (link.lanes == Lanes::each_way) blocks.out_blocks_per_s = blocks_per_s(link.out_rate);
  return blocks;
}

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

// hosted_work: decodes that the host attends, with the bytes that their attention reads and exchanges.

/// Decodes with these contexts. Queries and outputs count as wide as hidden states, which heads together usually are.
[[nodiscard]] inline HostedWork hosted_work(const Geometry& geometry, std::span<const Tokens> contexts,
                                            Tokens block_tokens) {
  const std::int64_t kv = geometry.layer_block_bytes.count();
  return {contexts, Bytes{kv / block_tokens.count()},
          Bytes{(kv + 2 * geometry.layer_hidden_bytes.count()) / block_tokens.count()}};
}

} // namespace sluice
