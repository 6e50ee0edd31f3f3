// SPDX-License-Identifier: Apache-2.0
// HandMade: a view and its rows made by hand, to call a policy without an engine.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/state/view/view.hpp"

#include <cstdint>
#include <vector>

namespace sluice::testing {

/// The data of a View, and the view.
struct HandMade {
  Limits limits{.batch = 8, .batch_tokens = Tokens{256}};
  Geometry geometry{8, Bytes{4096}, Bytes{1 << 20}};
  std::vector<RequestRow> rows;
  std::vector<Slot> running, preempted;
  Ledger ledger{LayerBlocks{1 << 20}, LayerBlocks{1 << 20}};
  Plan plan;
  Seconds now{100};
  std::int64_t step = 50;
  std::int64_t last_finish_step = -1;
  OutputLengths lengths;
  ServedSums served;

  /// A row whose first `computed` tokens have KV; it is in no list.
  Slot add(Tokens prompt, Tokens output, Tokens generated, Tokens computed, Phase phase) {
    RequestRow row;
    row.id = RequestId{static_cast<std::uint32_t>(rows.size())};
    row.phase = phase;
    row.spec = RequestSpec{.prompt = prompt, .output = output, .slo = {}};
    row.generated = row.delivered = generated;
    row.computed = computed;
    row.blocks = blocks_for(computed, limits.block_tokens);
    row.slack = Tokens{row.blocks.count() * limits.block_tokens.count()} - computed;
    row.resident_layers = geometry.layers;
    rows.push_back(row);
    return static_cast<Slot>(rows.size() - 1);
  }
  /// A decoding row: all but its newest token have KV.
  Slot decoding(Tokens prompt, Tokens generated, Tokens output) {
    const Slot slot = add(prompt, output, generated, prompt + generated - Tokens{1}, Phase::running);
    running.push_back(slot);
    return slot;
  }

  [[nodiscard]] View view() const {
    View view;
    view.now = now;
    view.step = step;
    view.limits = limits;
    view.geometry = geometry;
    view.rows = rows;
    view.running = running;
    view.preempted = preempted;
    view.ledger = &ledger;
    view.plan = &plan;
    view.last_finish_step = last_finish_step;
    view.lengths = &lengths;
    view.served = &served;
    return view;
  }
};

/// A whole number of [least, most].
inline std::int64_t between(Random& random, std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most - least + 1)));
}

/// Time proportional to tokens, and a slow link.
struct PlainCost {
  Seconds per_layer{1e-3};
  Seconds per_context_token{1e-6};
  BytesPerSecond rate{4e7};

  [[nodiscard]] StepTime step(const Work& work) const {
    return {Seconds{1e-4}, per_layer + per_context_token * static_cast<double>(work.decode_context.count()),
            Seconds{1e-4}};
  }
  [[nodiscard]] LinkCost link() const { return {rate, Seconds{1e-6}}; }
};

} // namespace sluice::testing
