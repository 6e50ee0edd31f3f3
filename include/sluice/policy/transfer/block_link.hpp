// SPDX-License-Identifier: Apache-2.0
// block_link: a cost model's link in the evaluator's unit.
#pragma once

#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/state/view/view.hpp"

namespace sluice {

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

} // namespace sluice
