// SPDX-License-Identifier: Apache-2.0
// block_link: a cost model's link in the evaluator's unit.
#pragma once

#include "sluice/cost/work.hpp"
#include "sluice/transfer/pipeline.hpp"
#include "sluice/view/view.hpp"

namespace sluice {

[[nodiscard]] inline BlockLink block_link(const LinkCost& link, const Geometry& geometry) {
  const auto block = static_cast<double>(geometry.layer_block_bytes.count());
  BlockLink blocks{.blocks_per_s = link.rate.count() / block, .per_layer_s = link.per_layer.count()};
  if (link.lanes == Lanes::each_way) {
    blocks.out_blocks_per_s = link.out_rate.count() / block;
    blocks.mix_loss = link.mix_loss;
  }
  return blocks;
}

} // namespace sluice
