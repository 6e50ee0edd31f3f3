// SPDX-License-Identifier: Apache-2.0
// JointEvaluator: what a joint plan costs under a transfer rule, and whether it fits.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/placement/solver/joint_instance.hpp"
#include "sluice/policy/placement/solver/placement_evaluator.hpp"
#include "sluice/policy/transfer/transfer_rule.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// The objective and the constraint of joint plans, defined once. A rule's own evaluation judges the transfers: fetched
/// KV and hidden states are streams of their own, and rebuilding makes its layers compute longer.
///
/// `Table` is TransferRule: a template parameter, so that a unit that only includes this header compiles none of it.
template <class Table>
class BasicJointEvaluator {
 public:
  /// `rule` must outlive this, as `transfer_rule_of` does.
  explicit BasicJointEvaluator(const Table& rule) : rule_(&rule), state_(*rule.state) {}

  /// `ways`: one per request of the instance.
  PlacementCost cost(const JointInstance& joint, std::size_t level, std::span<const KvWays> ways) {
    const Instance& base = joint.base;
    SLUICE_ASSERT(ways.size() == base.requests.size(), "one way per request");
    compute_s_.assign(base.layer_compute_s.begin(), base.layer_compute_s.end());
    streams_.clear();
    PlacementCost result;
    double rebuilding = 0; // blocks
    const double movable = base.movable().count();
    for (std::size_t r = 0; r < ways.size(); ++r) {
      const KvWays& way = ways[r];
      const double blocks = base.blocks_at(r, 0);
      result.resident_blocks += blocks * (movable - way.fetched.count() - way.rebuilt.count());
      if (!way.fetched.empty() && blocks > 0) streams_.push_back({way.fetched, blocks});
      if (way.rebuilt.empty()) continue;
      rebuilding += joint.held_rebuilt * blocks;
      rebuild(joint.rebuilds[r], way.rebuilt);
    }
    Pipeline pipeline;
    pipeline.compute_s = compute_s_;
    pipeline.before_s = base.before_s;
    pipeline.after_s = base.after_s;
    pipeline.link = {base.link_blocks_per_s, base.link_per_layer_s};
    pipeline.streams = streams_;
    pipeline.weights = joint.weights(level);
    LayerArray loads;
    detail::layer_loads(pipeline, loads);
    const std::span<const double> used{loads.data(), compute_s_.size()};
    const double budget = joint.budget(level);
    result.buffer_blocks = rule_->blocks(used, streams_) + rebuilding;
    result.fits = result.resident_blocks + result.buffer_blocks <= budget + 1e-9 * budget;
    pipeline.room_blocks = budget - result.resident_blocks - rebuilding;
    constexpr double never = std::numeric_limits<double>::infinity();
    result.step = {never, never};
    if (rule_->needs_room && *std::max_element(used.begin(), used.end()) > pipeline.room_blocks * (1 + 1e-9))
      return result;
    rule_->clear(state_.get());
    result.step = rule_->evaluate(pipeline, state_.get());
    if (base.on_link > 0) {
      result.step.link_s = own_link_s(pipeline, used);
      result.step = contended(result.step, base.on_link);
    }
    return result;
  }

 private:
  void rebuild(const RebuildCost& cost, LayerSet rebuilt) {
    LayerSet states = rebuilt & cost.states;
    states.erase(0);
    if (!states.empty() && cost.state_blocks > 0) streams_.push_back({states, cost.state_blocks});
    rebuilt.for_each([&](int layer) { compute_s_[static_cast<std::size_t>(layer)] += cost.project_s; });
    passed_layers(rebuilt, states).for_each([&](int layer) {
      compute_s_[static_cast<std::size_t>(layer)] += cost.pass_s;
    });
  }
  static double own_link_s(const Pipeline& pipeline, std::span<const double> loads) {
    double link_s = 0;
    for (std::size_t l = 0; l < loads.size(); ++l) {
      const bool streams = pipeline.weights.layers.contains(static_cast<int>(l));
      const double blocks = loads[l] + (streams ? pipeline.weights.blocks : 0);
      if (blocks > 0) link_s += pipeline.link.seconds(blocks, 1);
    }
    return link_s;
  }

  const Table* rule_;
  detail::Scratch state_;
  std::vector<LayerStream> streams_;
  std::vector<double> compute_s_;
};

using JointEvaluator = BasicJointEvaluator<TransferRule>;

} // namespace sluice
