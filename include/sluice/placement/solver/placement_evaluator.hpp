// SPDX-License-Identifier: Apache-2.0
// PlacementEvaluator: what a given placement costs, whether it fits, and how long it holds.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/plan/instance.hpp"
#include "sluice/plan/plan.hpp"
#include "sluice/transfer/transfer_rule.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// A placement seen at one step of its window.
struct PlacementCost {
  double resident_blocks = 0;
  double buffer_blocks = 0;
  bool fits = false;
  StepCost step; ///< mean over the iterations; infinite where the rule cannot run in the room
};

/// How a placement holds up over the instance's window.
struct WindowCheck {
  int window = 0;                  ///< the longest of [min, max] that holds, or 0
  Binding binding = Binding::none; ///< if 0: `device_memory` or `slo`
};

/// The objective and the constraints of planning, defined once: solvers, tests and `sluice-plan` all ask this class. It
/// keeps its scratch memory, so that a second instance of the same size allocates nothing.
///
/// `PlacementEvaluator evaluator{transfer_rule_of<FairShare>};`
///
/// `Table` is TransferRule: a template, so that a unit that includes this and evaluates nothing compiles none of it.
template <class Table>
class BasicPlacementEvaluator {
 public:
  /// `rule` must outlive this, as `transfer_rule_of` does.
  explicit BasicPlacementEvaluator(const Table& rule) : rule_(&rule), state_(*rule.state) {}

  /// `offloaded`: one set per request of the instance. `step`: steps after the first; KV has grown by as many tokens.
  PlacementCost cost(const Instance& instance, std::span<const LayerSet> offloaded, int step = 0);

  /// The same at the first step, with the timeline of the last iteration told to `sink`. `Rule` must be the rule of the
  /// table.
  template <TransferScheduler Rule, class Sink>
  PlacementCost explain(const Instance& instance, std::span<const LayerSet> offloaded, Sink& sink) {
    SLUICE_ASSERT(rule_->name == Rule::name, "the rule of the table");
    PlacementCost result = memory(instance, offloaded, 0);
    Pipeline pipeline;
    LayerStream uniform;
    if (!lay_out(instance, Sink::enabled, result, uniform, pipeline)) return result;
    typename Rule::State state;
    StepCost total;
    for (int i = 1; i < instance.iterations; ++i) add(instance, pipeline, Rule::evaluate(pipeline, state), total);
    add(instance, pipeline, Rule::evaluate(pipeline, state, sink), total);
    result.step = {total.step_s / instance.iterations, total.stall_s / instance.iterations};
    return result;
  }

  /// The window through which the placement holds: memory at every step, and misses per step at most alpha on average.
  ///
  /// Request r misses step t (from 1) if the tokens made by then, deposit_r + t, are fewer than one per SLO of the time
  /// elapsed. A paused request without a deposit misses every step. (OrbitFlow, 3.3.1, with deposits.) `first`: the
  /// cost at the first step, which the caller has already.
  WindowCheck hold(const Instance& instance, std::span<const LayerSet> offloaded, const PlacementCost& first);

  /// A step counts as missed only by more than rounding: 1e-9 of a token.
  static bool misses_step(const InstanceRequest& request, int step, double elapsed_s) {
    return static_cast<double>(request.deposit + step) < elapsed_s / request.slo_s - 1e-9;
  }

 private:
  bool mark_growth(const Instance& instance);
  [[nodiscard]] bool grows_after(const Instance& instance, int step) const;
  int longest_that_fits(const Instance& instance, std::span<const LayerSet> offloaded);
  PlacementCost memory(const Instance& instance, std::span<const LayerSet> offloaded, int step);
  bool lay_out(const Instance& instance, bool told, PlacementCost& cost, LayerStream& uniform, Pipeline& pipeline);
  static void add(const Instance& instance, const Pipeline& pipeline, StepCost part, StepCost& total);
  static double own_link_s(const Pipeline& pipeline);
  bool is_uniform(LayerStream& sum) const;

  const Table* rule_;
  std::vector<LayerStream> streams_;
  std::vector<std::uint8_t> fills_; ///< by step of the window, modulo the size of a block
  detail::Scratch state_;
};

using PlacementEvaluator = BasicPlacementEvaluator<TransferRule>;

} // namespace sluice

#ifdef SLUICE_COMPILED
extern template class sluice::BasicPlacementEvaluator<sluice::TransferRule>;
#else
#include "sluice/placement/solver/placement_evaluator.inl.hpp"
#endif
