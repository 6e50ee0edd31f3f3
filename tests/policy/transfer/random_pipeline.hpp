// SPDX-License-Identifier: Apache-2.0
// RandomPipeline: random iterations for the tests of the transfer rules, and the list of rules.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/evaluate_link.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "policy/transfer/fluid_reference.hpp"

#include <type_traits>
#include <vector>

namespace sluice::test {

template <class... Rules>
struct RuleList {};
using AllRules = RuleList<NextLayer, FairShare, EarliestDeadlineFirst, DeadlinePool>;

template <class Visit, class... Rules>
void for_each_rule(RuleList<Rules...>, Visit visit) {
  (visit.template operator()<Rules>(), ...);
}

template <class Rule>
constexpr ReferenceRule reference_of() {
  if constexpr (std::is_same_v<Rule, NextLayer>)
    return ReferenceRule::next_layer;
  else if constexpr (std::is_same_v<Rule, FairShare>)
    return ReferenceRule::fair_share;
  else if constexpr (std::is_same_v<Rule, EarliestDeadlineFirst>)
    return ReferenceRule::earliest_deadline_first;
  else
    return ReferenceRule::deadline_pool;
}

/// A random iteration; `storage` outlives the views.
struct RandomPipeline {
  std::vector<double> compute;
  std::vector<LayerStream> streams;
  Pipeline pipeline;

  explicit RandomPipeline(Random& random, bool plain = false) {
    const int layers = 1 + static_cast<int>(random.below(12));
    const int requests = 1 + static_cast<int>(random.below(5));
    const bool even_compute = random.below(2) == 0;
    for (int l = 0; l < layers; ++l) compute.push_back(even_compute ? 1.0 : 0.2 + 2 * random.uniform());
    for (int r = 0; r < requests; ++r) {
      LayerStream stream{{}, static_cast<double>(1 + random.below(30))};
      const double density = random.uniform();
      for (int l = 0; l < layers; ++l)
        if (random.uniform() < density) stream.layers.insert(l);
      streams.push_back(stream);
    }
    pipeline.compute_s = compute;
    pipeline.streams = streams;
    pipeline.link = {1 + 30 * random.uniform(), 0};
    if (!plain) {
      if (random.below(3) == 0) pipeline.link.per_layer_s = random.uniform();
      if (random.below(3) == 0) pipeline.before_s = random.uniform();
      if (random.below(3) == 0) pipeline.after_s = random.uniform();
      if (random.below(4) == 0) pipeline.urgent_blocks = static_cast<double>(random.below(20));
      if (random.below(2) == 0) pipeline.first_blocks = pipeline.urgent_blocks * random.uniform();
      if (random.below(3) == 0) stream_weights(random);
    }
  }
  RandomPipeline(const RandomPipeline&) = delete;

  /// Weights of some layers through some slots.
  void stream_weights(Random& random) {
    const int layers = pipeline.layers();
    const double density = random.below(4) == 0 ? 1.0 : random.uniform();
    for (int l = 0; l < layers; ++l)
      if (random.uniform() < density) pipeline.weights.layers.insert(l);
    const auto one_of = [&](int count) { return static_cast<int>(random.below(static_cast<std::uint64_t>(count))); };
    if (pipeline.weights.empty()) pipeline.weights.layers.insert(one_of(layers));
    pipeline.weights.blocks = static_cast<double>(1 + random.below(40));
    pipeline.weights.slots = 1 + one_of(pipeline.weights.layers.count());
    if (random.below(2) == 0) pipeline.weights.slots = 1;
  }

  [[nodiscard]] std::vector<double> loads() const {
    LayerArray sums;
    detail::layer_loads(pipeline, sums);
    return {sums.begin(), sums.begin() + pipeline.layers()};
  }
};

/// One iteration from an idle link; `behind`: the work that it leaves for later.
template <class Rule>
StepCost cost_of(const Pipeline& pipeline, double* background = nullptr) {
  typename Rule::State state;
  const StepCost cost = evaluate_link<Rule>(pipeline, state);
  if (background != nullptr) *background = state.background_blocks;
  return cost;
}

} // namespace sluice::test
