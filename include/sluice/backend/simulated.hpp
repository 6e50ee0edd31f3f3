// SPDX-License-Identifier: Apache-2.0
// Simulated: a virtual clock, and a cost model of the world (the default).
#pragma once

#include "sluice/backend/backend.hpp"
#include "sluice/cost/roofline.hpp"

#include <concepts>
#include <utility>

namespace sluice {

/// Runs an iteration by the evaluator, with the *world's* cost model: another object than the planner's, so that the
/// two can differ and a planner that calibrates learns from the world and not from itself.
template <class World>
class BasicSimulated {
 public:
  using role = roles::Backend;
  static constexpr bool keeps_requests = false;
  static constexpr bool real_time = false;
  static constexpr bool ends_requests = false;
  static constexpr bool plans_async = false;
  static constexpr bool predicts = true;
  using world_type = World;

  BasicSimulated() requires std::default_initializable<World>
  = default;
  explicit BasicSimulated(World world) : world_(std::move(world)) {}

  [[nodiscard]] Seconds now() const { return now_; }
  void idle_until(Seconds when) {
    if (when > now_) now_ = when;
  }

  /// A simulated iteration takes no time until `wait` is called.
  template <class Transfer>
  void launch(const Iteration& /*iteration*/) {}
  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    const IterationCost cost = evaluate<Transfer>(iteration, world_, compute_, state);
    now_ += cost.duration;
    return cost;
  }

  /// A node whose engines share a bus asks this.
  template <class Transfer, class Sink>
  IterationCost predict(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    if (iteration.computes_only() && state.background_blocks <= 0)
      return evaluate<Transfer>(iteration, world_, compute_, state);
    const StepCost cost = evaluate_link<Transfer>(pipeline_of(iteration, world_, compute_), state, sink);
    return {Seconds{cost.step_s}, Seconds{cost.stall_s}};
  }

  template <class Transfer, class Sink>
  void replay(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    evaluate_link<Transfer>(pipeline_of(iteration, world_, compute_), state, sink);
  }

  [[nodiscard]] const World& world() const { return world_; }

 private:
  World world_;
  Seconds now_{0};
  LayerArray compute_{};
};

using Simulated = BasicSimulated<Roofline>;

template <>
struct Default<roles::Backend> {
  using type = Simulated;
};

} // namespace sluice
