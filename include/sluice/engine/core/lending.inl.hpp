// SPDX-License-Identifier: Apache-2.0
// Lending: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/engine/core/writers.hpp"

#include <algorithm>

namespace sluice {

SLUICE_INLINE WeightsPlan WeightsOffer::granted(const Lending& lending) const {
  WeightsPlan plan;
  const auto found = std::find_if(levels.begin(), levels.end(),
                                  [this](const WeightsLevel& level) { return level.plan.level <= granted_level; });
  if (found != levels.end())
    plan = found->plan;
  else if (lending.lent_layers > 0 && !levels.empty())
    plan = levels.back().plan; // memory that other engines have cannot be taken back here
  plan.freed += borrowed;
  return plan;
}

SLUICE_INLINE BatchNeeds needs_of(const Core& core, std::span<const Claim> claims) {
  BatchNeeds needs;
  const Tokens block_tokens = core.limits.block_tokens;
  Seconds slo{std::numeric_limits<double>::infinity()};
  for (const Claim& claim : claims) {
    const RequestRow& request = core.row(claim.slot);
    const LayerBlocks now = core.geometry.kv_of(request.blocks_after(claim.tokens, block_tokens));
    needs.demand += core.geometry.kv_of(request.blocks_after(std::max(claim.tokens, claim.reserve), block_tokens));
    if (claim.required) needs.running += now;
    if (needs.first.count() == 0) needs.first = now;
    slo = std::min(slo, request.spec.slo.tbt);
  }
  if (slo < Seconds{std::numeric_limits<double>::infinity()}) needs.slo = slo;
  return needs;
}

SLUICE_INLINE Work steady_within(const Core& core, std::span<const Claim> claims, LayerBlocks room) {
  Work steady;
  LayerBlocks taken{0};
  for (const Claim& claim : claims) {
    const RequestRow& request = core.row(claim.slot);
    taken += core.geometry.kv_of(request.blocks_after(std::max(claim.tokens, claim.reserve), core.limits.block_tokens));
    if (taken > room && steady.decodes > 0 && !claim.required) break;
    ++steady.decodes;
    steady.decode_context += request.context() + Tokens{1};
  }
  steady.samples = steady.decodes;
  return steady;
}

SLUICE_INLINE void return_weights(const Geometry& geometry, const WeightsPlan& before, const WeightsPlan& after,
                                  int overwritten, Moves& moves) {
  const auto fetch = [&](LayerSet layers, double share) {
    if (layers.empty() || share <= 0) return;
    const WeightStream whole = geometry.stream_of({.streamed = layers, .share = share});
    moves.streams.push_back({layers, whole.blocks});
    const double blocks = whole.blocks * layers.count();
    moves.returned_blocks += blocks;
    moves.arriving += LayerBlocks{static_cast<std::int64_t>(math::ceil(blocks))}; // into memory that is theirs again
  };
  fetch(before.streamed - after.streamed, before.share);
  fetch(before.streamed & after.streamed, before.share - after.share);
  int missing = overwritten - (after.streamed - before.streamed).count();
  if (missing <= 0) return;
  const LayerSet resident = geometry.streamable() - (before.streamed | after.streamed);
  missing = std::min(missing, resident.count());
  LayerSet chosen;
  int place = 0;
  resident.for_each([&](int layer) { // layer number i of these, if i * missing / count passes a whole number
    if ((place + 1) * missing / resident.count() > place * missing / resident.count()) chosen.insert(layer);
    ++place;
  });
  fetch(chosen, 1);
}

SLUICE_INLINE const Geometry& NodeFacts::geometry() const { return core_->geometry; }
SLUICE_INLINE LayerBlocks NodeFacts::own_blocks() const { return core_->device_blocks; }
SLUICE_INLINE LayerBlocks NodeFacts::borrowed() const { return core_->lending.borrowed; }
SLUICE_INLINE int NodeFacts::lent_to_itself() const { return core_->lending.own_level; }
SLUICE_INLINE LinkCost NodeFacts::link() const { return core_->policies->link(policies_); }

SLUICE_INLINE int NodeFacts::most_lent() const {
  if (!core_->policies->is.lends_weights) return 0;
  constexpr double nominal = 512; // tokens of a prompt, before the first request
  const Lending& lending = core_->lending;
  const double mean = lending.accepted > 0 ? lending.prompt_tokens / static_cast<double>(lending.accepted) : nominal;
  const double budget = static_cast<double>(core_->limits.batch_tokens.count());
  const ChunkWork prompt{Tokens{static_cast<std::int64_t>(std::clamp(mean, 1.0, budget))}, Tokens{0}};
  Work prefill;
  prefill.chunks = {&prompt, 1};
  prefill.samples = 1;
  const double transfer_s = static_cast<double>(core_->geometry.layer_weight_bytes.count()) / link().rate.count();
  return core_->policies->most_lent(policies_, core_->geometry.streamable_layers(), transfer_s,
                                    core_->policies->compute_s(policies_, prefill, core_->geometry.layers));
}

SLUICE_INLINE void NodePort::lend(int layers) { lend_layers(*writes_, layers); }
SLUICE_INLINE void NodePort::keep_borrowed(LayerBlocks borrowed) {
  sluice::keep_borrowed(*writes_, *offers_, borrowed);
}

SLUICE_INLINE void lend_layers(Core& core, int layers) {
  Lending& lending = core.lending;
  if (layers != lending.lent_layers) core.carry_over.lent_layers_changed();
  lending.lent_layers = layers;
  lending.most_lent_layers = std::max(lending.most_lent_layers, layers);
}

SLUICE_INLINE void keep_borrowed(Core& core, WeightsOffer& offer, LayerBlocks borrowed) {
  SLUICE_ASSERT(core.requests.alive == 0, "a live request uses the memory");
  Lending& lending = core.lending;
  LayerBlocks freed = core.plan.weights.freed - lending.borrowed;
  if (core.policies->is.lends_weights && lending.own_level > 0 && core.device_blocks >= LayerBlocks{0}) {
    // No request's KV is there. The layers' weights stay on the host and return with the next plan.
    freed = LayerBlocks{0};
    lending.lent_in_force += lending.own_level;
    lending.most_lent_layers = std::max(lending.most_lent_layers, lending.lent_in_force);
    lending.own_level = 0;
  }
  core.plan.weights.freed = freed + borrowed;
  offer.borrowed = lending.borrowed = borrowed;
  const LayerBlocks capacity = core.capacity_with(core.plan.weights);
  core.ledger.resize_device(core.ledger.device().capacity() + (capacity - core.kv_capacity));
  core.kv_capacity = capacity;
  if (core.policies->is.finds_released) core.prefix.resize(capacity, core.geometry.layers);
  core.carry_over.memory_resized();
}

} // namespace sluice
